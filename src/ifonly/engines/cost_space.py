"""Costs and limits in units of cost: all that the problems of one question share, whatever their sources."""

from functools import cached_property
from typing import Any

import numpy as np

from ifonly.engines.budget import INVERSE, Budget
from ifonly.engines.lapack import dtrtri
from ifonly.engines.semismooth import MOST_RIVALS
from ifonly.model.numerics import EPS, Flags, Floats, summation_error
from ifonly.native import compiled, takes_compiled
from ifonly.native.one_multiplier import Items
from ifonly.problem.asked import Asked
from ifonly.problem.conditions import Conditions
from ifonly.problem.goals import coarser, in_logs, needed_logit

__all__ = ["CostSpace", "at_ends"]

FARTHEST = 1e12  # that the way into the limits may move scores: their rounding is then 1e-4
PARTS = 2.0**10  # of a unit, of which weights and values are so many where their sums are exact


class CostSpace:
    """Conditions in units of cost: all that does not depend on the source."""

    def __init__(self, conditions: Conditions, *, reference: bool = False) -> None:
        self.conditions, self.model, self.limits = conditions, conditions.model, conditions.limits
        self.loops: Any = None if reference else compiled()  # compiled row loops, or None for NumPy
        self.mu, self.per_unit, self.grouped = conditions.mu, conditions.per_unit, conditions.grouped
        self.margin, self.max_changes = conditions.margin, conditions.max_changes
        D, scaling, gamma = self.model.n_features, self.model.scaling, summation_error(self.model.n_features + 4)
        # The rounding of a margin, which is two sums, in ours and the estimator's, relative to their terms; and relative to the
        # margin: where it is subtracted, and in the exponential.
        self.per_term, self.per_size = 4 * self.model.coarse * gamma, 4 * self.model.coarse * EPS
        self.offset = 2 * self.model.offset_size + float(np.abs(self.model.b).max())  # of intercepts and shifts, to the terms
        self.logs = in_logs(self.model, gamma)  # relative to `per_term`
        self.shift, self.scale = (np.zeros(D), np.ones(D)) if scaling is None else (scaling.shift, scaling.scale)
        self.tied = conditions.matrix is not None  # by Q = rootᵀ root: then t = root (x − x̄)
        self._inverse: tuple[bytes, Any] = b"", None

    @cached_property
    def errors(self) -> Floats:
        """What loops allow for rounding: these four, and between them γ of sums over features and classes, max|b|, ‖μ‖."""
        (K, D), b = self.model.A.shape, float(np.abs(self.model.b).max())
        more = summation_error(D + 2), summation_error(K + 6), b, float(np.linalg.norm(self.mu))
        return np.array([self.per_term, self.per_size, self.offset, *more, self.logs])

    @classmethod
    def of(cls, asked: Asked) -> "CostSpace":
        """That of a question, worked out once; with compiled loops where there are any, and they are not refused."""
        conditions, loops = asked.conditions, takes_compiled(asked.question.backend)
        assert conditions is not None
        return conditions.keep(("space", loops), lambda: cls(conditions, reference=not loops))

    @cached_property
    def _steepest(self) -> Floats:
        """By how much a unit of each feature, of the user's, moves one score from another at most."""
        return np.ptp(self.model.A, axis=0) / np.abs(self.scale)

    @cached_property
    def moving(self) -> Flags:
        """The features that may move, from some source."""
        return ~self.limits.frozen & (self.limits.lo < self.limits.hi)

    @cached_property
    def only_intervals(self) -> bool:
        """Whether nothing but intervals limits features: no grids, categories, mapped numbers, rules, or few that may move."""
        mapped = any(column.maps or column.missing is not None for column in self.model.encoding.columns)
        return self.conditions.separable and not (mapped or self.conditions.discrete or self.limits.groups)

    @property
    def one_by_one(self) -> bool:
        """Whether there is nothing but a plain model, not of too many classes, and limits on features one by one."""
        A = self.model.A
        return self.only_intervals and self.margin is None and A.dtype == np.float64 and len(A) <= MOST_RIVALS + 1

    @property
    def looped(self) -> bool:
        """Whether a compiled loop goes from sources to answers, with λ or a probability."""
        return self.loops is not None and self.one_by_one

    def around(self, X: Floats) -> tuple[Floats, Floats, dict[int, str]]:
        """`Limits.around`, and the rows in which more features must move than may, or farther than can be measured."""
        lo, hi, wrong = self.limits.around(X)
        with np.errstate(over="ignore", invalid="ignore"):
            way = np.abs(np.clip(X, lo, hi) - X)
            far = np.isinf(np.square(way * self.per_unit).sum(axis=1)) | (way * self._steepest > FARTHEST).any(axis=1)
            longest = (way * np.maximum(self._steepest, self.per_unit)).argmax(axis=1).tolist()
        for n in np.flatnonzero(far).tolist():
            d = longest[n]
            where = f"{self.model.feature_label(d)} is {X[n, d]:g}, outside its bounds [{lo[n, d]:g}, {hi[n, d]:g}]"
            wrong.setdefault(n, f"{where} by so much that float64 has no digits left for what is within them")
        if self.max_changes is not None:
            must = self.limits.must_move(X, lo, hi)
            many = must[:, ~self.grouped].sum(axis=1) + sum(must[:, group].any(axis=1) for group in self.limits.groups)
            for n in np.flatnonzero(many > self.max_changes):
                names = [self.model.feature_label(int(d)) for d in np.flatnonzero(must[n])]
                wrong.setdefault(int(n), f"max_changes is {self.max_changes}, but {names} are not within their limits")
        return lo, hi, wrong

    def rows(self, k: int) -> Floats:
        """The rivals' rows less the target's, in units of cost; subtracted first, as rows may be close."""
        return self.units(self.model.A[self.model.rivals(k)] - self.model.A[k])

    def units(self, slopes: Floats) -> Floats:
        """What moves a score, per unit of the classifier's (n, D), per unit of cost."""
        slopes = slopes / self.scale
        return slopes @ self.inverse(np.ones(slopes.shape[1], dtype=bool)) if self.tied else slopes / self.per_unit

    def invertible(self, budget: Budget) -> bool:
        """Whether there is time for the inverse that a matrix takes before anything is solved, if it is not known."""
        return not self.tied or bool(self._inverse[0]) or budget.allows(len(self.per_unit) ** 3, INVERSE)

    def late(self, budget: Budget) -> bool:
        """Whether time is up, or too short to begin."""
        return budget.late or not self.invertible(budget)

    def inverse(self, some: Flags) -> Floats:
        """The inverse of the root of Q as it is of some features alone; kept until others are asked for."""
        (known, found), key = self._inverse, some.tobytes()
        if known != key:
            root = np.linalg.cholesky(np.asarray(self.conditions.matrix)[np.ix_(some, some)])
            found = dtrtri(root, lower=True)[0].T if len(root) else root
            self._inverse = key, found
        return found

    def items(self, X: Floats, lo: Floats, hi: Floats, g: Floats, scale: float = 1.0) -> tuple[Any, Floats, Floats]:
        """What may move, for a `CompiledSearch`, and the ranges of t: for sources (N, D), which are then the first axis.

        ``g`` are the gains per unit of cost; μ is divided by ``scale``.
        """
        limits, c, N = self.limits, self.per_unit, len(X)
        single = ~self.grouped
        mu, step = self.mu / scale, np.where(limits.frozen, 0.0, limits.step)
        t_lo, t_hi, anchor = (lo - X) * c, (hi - X) * c, (limits.nearest(X) - X) * c
        rest = ~limits.must_move(X, lo, hi)
        gains, costs, moves, first = [], [], [], [0]
        for group in limits.groups:
            now = X[:, group].argmax(axis=1)
            price, gain = 0.5 * c[group] ** 2 + mu[group] * c[group], g[group] * c[group]
            zero, one = ((lo[:, group] <= v) & (hi[:, group] >= v) for v in (0.0, 1.0))
            open_ = one & (zero.sum(axis=1, keepdims=True) - zero == len(group) - 1)
            stay = now[:, None] == np.arange(len(group))
            gains.append(np.where(stay, 0.0, gain - gain[now][:, None]))
            costs.append(np.where(open_, np.where(stay, 0.0, price + price[now][:, None]), np.inf))
            moves.append(~stay)
            first.append(first[-1] + len(group))
        og, oc, changes = (np.concatenate(a, axis=1) if a else np.zeros((N, 0)) for a in (gains, costs, moves))
        own = g[single], mu[single], (step * c)[single], anchor[:, single], rest[:, single]
        items = Items(*own, og, oc, changes, np.array(first, dtype=np.int64))
        return items, t_lo[:, single], t_hi[:, single]

    def cap(self, items: Items) -> int:
        """How many items may move."""
        return len(items.g) + len(items.first) - 1 if self.max_changes is None else self.max_changes

    def needed(self, prob: Any) -> Any:
        """What logit(1 − p_k), or (without a probability) the largest margin of a rival, has to come down to; one or many."""
        return -(self.margin or 0.0) if prob is None else needed_logit(prob, self.model)

    def settled(self, X: Floats, x: Floats) -> Floats:
        """Answers as the user's own pipeline will see them, where that maps numbers: written, and read again."""
        return self.model.encoding.settled(X, x, [part.feature for part in self.limits.uneven])

    def placed(self, X: Floats, t: Floats, choice: Any, first: Any, lo: Floats, hi: Floats) -> Floats:
        """Answers (N, D) from the t of single features and the options of groups that were found, within limits exactly."""
        single, change = ~self.grouped, np.zeros(X.shape)
        change[:, single] = t / self.per_unit[single]
        for j, group in enumerate(self.limits.groups):
            change[:, group] = -X[:, group]
            change[np.arange(len(X)), group[choice[:, j] - first[j]]] += 1.0
        x = self.limits.placed(X + change, X, lo, hi)
        x[:, single] = at_ends(x[:, single], t, X[:, single], lo[:, single], hi[:, single], self.per_unit[single])
        return self.settled(X, x)

    def rounding(self, x: Floats, size: Any, prob: Any = None) -> Any:
        """How far a margin at x, of this size, can be from ours when the user's own estimator evaluates it.

        With ``prob`` (one, or one for each), what that comes to where the estimator's probability has to be as large.
        """
        seen = x if self.model.scaling is None else self.model.scaling(x)
        rounding = self.per_term * (np.abs(seen) @ self.model.column_sizes + self.offset) + self.per_size * size
        return rounding if prob is None else coarser(prob, self.logs) * rounding

    def adds_exactly(self, x: Floats) -> bool:
        """Whether scores at x are not rounded at all, whoever adds them up: small multiples of a power of two."""
        size = float(np.abs(x) @ self.model.column_sizes) + self.offset
        return self._whole and bool((x * PARTS == np.rint(x * PARTS)).all()) and size * PARTS**2 <= 1 / self.model.precision

    @cached_property
    def _whole(self) -> bool:
        """Whether the classifier takes numbers as they are, and all of its own are multiples of a power of two."""
        parts = np.append(self.model.A.ravel(), PARTS * self.model.b) * PARTS
        plain = self.model.scaling is None and self.model.encoding.identity
        return plain and bool((parts == np.rint(parts)).all())


def at_ends(x: Floats, t: Floats, source: Floats, lo: Floats, hi: Floats, per_unit: Floats) -> Floats:
    """The x of t, up to no rounding where that is known: what stays is the source's, what is at a bound is the bound."""
    with np.errstate(invalid="ignore"):
        at_low, at_high = t == (lo - source) * per_unit, t == (hi - source) * per_unit
    stays = (t == 0.0) & (lo <= source) & (source <= hi)  # a way into the limits may be too short for a t
    return np.where(stays, source, np.where(at_low, lo, np.where(at_high, hi, x)))
