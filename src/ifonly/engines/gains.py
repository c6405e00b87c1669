"""What each thing that may change can do towards a goal, at most: closed forms, for sets of them.

An *item* is a feature, or a group of one-hot columns. With the rivals' margins s(x) = s̄ + S(x − x̄), and c = logit(1 − τ) for a
probability τ, the goal is ln Σ_j e^{s_j(x)} ≤ c. So for any proportions r of the rivals

    r·s̄ + H(r) − c ≤ Σ_i gain_i,        gain_i = −r·S_i(x_i − x̄_i) ≤ G_i(r),        H the entropy,

with G_i(r) the largest gain that item i's own limits allow, a closed form. A set of items whose G_i(r) do not add up to what is
needed, for any one r, cannot reach the goal. For two classes there is one r, and a set whose G_i do add up can reach it, if
nothing but the classifier ties features together. For more, the point at which every item has its largest gain is tried. With a
margin m the goal is max_j s_j ≤ −m: the same with c = −m and without H.

Of one item alone (`alone`) the goal is a convex function f of its change u, and the least u with f(u) ≤ 0 is found by Newton's
method from u = 0, whose iterates rise to it from below: each is a bound, and where f stops falling before there is none.
"""

import math
from functools import cached_property
from typing import Any

import numpy as np

from ifonly.model.numerics import EPS, Flags, Floats, Indices, log_sum_exp, softmax
from ifonly.problem.asked import Aim
from ifonly.problem.choices import Choices
from ifonly.problem.conditions import Conditions
from ifonly.problem.goals import entropy
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.proof import Node

__all__ = ["Gains", "price"]


FAR = 1e6  # units of cost: what takes a longer way is left to the engines
NEAR = 1e-9  # relative: sums that differ by less are left to the engines, which know their rounding
ROUNDINGS = 256  # of a logit's sum, on top of that
CORNERS = 6  # points that are tried for more than two classes
RIVALS = 16  # of which each alone is a proportion to begin with
MOST_PROPORTIONS = 64  # that are kept
STEPS = 100  # of Newton's method for one item


class Gains:
    """The items of a source that can change, features (``singles``) and after them groups; and what sets of them can do.

    The aim is a class, and a probability or the margin of the conditions. Items that cannot stay as they are ``must`` change.
    """

    def __init__(self, conditions: Conditions, source: Floats, aim: Aim) -> None:
        self.conditions, self.source = conditions, source
        model, limits, problem = conditions.model, conditions.limits, LimitedProblem(conditions, source, aim.k)
        lo, hi, wrong = limits.around(source[None])
        self.wrong = bool(wrong)
        self.lo, self.hi = lo[0] - source, hi[0] - source  # of changes
        self.S, self.margins = problem.slopes, problem.margins(source)
        self.entropic = aim.prob is not None
        self.top = -(conditions.margin or 0.0) if aim.prob is None else math.log1p(-aim.prob) - math.log(aim.prob)
        terms = np.abs(source if model.scaling is None else model.scaling(source)) @ model.column_sizes + model.offset_size
        self.slack = NEAR * (1 + abs(self.top) + float(np.abs(self.margins).max()))
        self.slack += ROUNDINGS * model.coarse * EPS * sum(model.A.shape) * float(terms)
        # Nothing but the classifier ties items together, and their largest gains are at values that they can have.
        self.exact = not len(limits.C) and not limits.uneven
        self._list_items(Node(lo[0], hi[0], np.zeros(0, dtype=np.int8)), limits.must_move(source[None], lo, hi)[0])
        self.cap = len(self.items) if conditions.max_changes is None else conditions.max_changes  # how many may change
        strongest = np.argsort(-self.margins)[:RIVALS]
        mixed = [] if len(self.margins) == 1 else [self._shares(self.margins)]
        self.proportions = [*np.eye(len(self.margins))[strongest], *mixed]
        self._tables: dict[int, Floats] = {}

    def _list_items(self, root: Node, must: Flags) -> None:
        """Singles first, then groups; those that can change."""
        choices = Choices(self.conditions, self.source)
        self.singles = np.flatnonzero(~self.conditions.grouped & ((self.lo < self.hi) | must))
        self.options: list[tuple[int, Indices]] = []  # of each group: the value it has, those it could have
        self.items, forced = [*self.singles[:, None]], []  # the features of each
        for group in choices.groups:
            options, now = group[choices.options(root)[group]], int(group[self.source[group].argmax()])
            if (options != now).any():
                self.items.append(group)
                forced.append(now not in options)
                self.options.append((now, options))
        self.must = np.append(must[self.singles], forced).astype(bool)

    # ---- sets ----

    def _shares(self, s: Floats) -> Floats:
        """The proportions that belong to margins; of one point, or of many."""
        return softmax(s) if self.entropic else np.eye(s.shape[-1])[s.argmax(axis=-1)]

    def need(self, r: Floats) -> float:
        """What the gains have to add up to."""
        return float(r @ self.margins) + (entropy(r) if self.entropic else 0.0) - self.top

    def largest(self, r: Floats, far: float = math.inf) -> Floats:
        """G(r) of every item; that of changes of up to ``far`` units of cost."""
        pull = -(r @ self.S)
        reach = far / self.conditions.per_unit
        lo, hi = np.maximum(self.lo, -reach)[self.singles], np.minimum(self.hi, reach)[self.singles]
        a = pull[self.singles]
        with np.errstate(invalid="ignore"):
            single = np.where(a > 0, a * hi, np.where(a < 0, a * lo, 0.0))
        grouped = [float(pull[options].max() - pull[now]) for now, options in self.options]
        return np.where(self.must, np.append(single, grouped), np.maximum(np.append(single, grouped), 0.0))

    def _total(self, G: Floats, allowed: Flags) -> tuple[float, Flags]:
        """The largest sum of the gains of as many of these items as may change, and which those are."""
        chosen = self.must.copy()
        room = self.cap - int(chosen.sum())
        rest = np.flatnonzero(allowed & ~self.must & (G > 0))
        if room < len(rest):
            rest = rest[np.argsort(-G[rest], kind="stable")[: max(room, 0)]]
        chosen[rest] = True
        return float(G[chosen].sum()), chosen

    def can_reach(self, allowed: Flags) -> bool | None:
        """Whether the goal can be reached if only these items change (and those that must); None where no closed form tells."""
        if self.wrong or int(self.must.sum()) > self.cap:
            return False
        for i, r in enumerate(self.proportions):
            if i not in self._tables:
                self._tables[i] = self.largest(r)
            total, _ = self._total(self._tables[i], allowed)
            if total < self.need(r) - self.slack:
                return False
        if not self.exact:
            return None
        if len(self.margins) == 1:
            total, _ = self._total(self._near, allowed)
            return True if total > self.need(self.proportions[0]) + self.slack else None
        return self._by_corners(allowed)

    @cached_property
    def _near(self) -> Floats:
        return self.largest(self.proportions[0], FAR)

    def _by_corners(self, allowed: Flags) -> bool | None:
        """The same for more than two classes: points where all have their largest gains, and the proportions there."""
        r = self.proportions[-1]
        for _ in range(CORNERS):
            G = self.largest(r)
            total, chosen = self._total(G, allowed)
            if total < self.need(r) - self.slack:
                if len(self.proportions) < MOST_PROPORTIONS:  # what showed something will do so again
                    self.proportions.append(r)
                return False
            if not math.isfinite(total):
                return None
            s = self.margins + self.S @ self._corner(r, chosen)
            if self.loss(s) < -self.slack:
                return True
            r = self._shares(s) if self.entropic else 0.5 * (r + self._shares(s))
        return None

    def _corner(self, r: Floats, chosen: Flags) -> Floats:
        """The change with the largest gains of these items."""
        pull, change = -(r @ self.S), np.zeros(len(self.source))
        d = self.singles[chosen[: len(self.singles)]]
        change[d] = np.where(pull[d] > 0, self.hi[d], np.where(pull[d] < 0, self.lo[d], np.clip(0.0, self.lo[d], self.hi[d])))
        for goes, (now, options) in zip(chosen[len(self.singles) :], self.options, strict=True):
            if goes:
                change[now] -= 1.0
                change[options[pull[options].argmax()]] += 1.0
        return change

    def loss(self, s: Floats) -> Any:
        """How far margins, of one point or of many, are from the goal; at most 0 where it is reached."""
        return (log_sum_exp(s) if self.entropic else s.max(axis=-1)) - self.top

    # ---- one item alone ----

    def alone(self) -> tuple[Flags, Floats]:
        """Which items reach the goal alone for certain, and a lower bound on what that costs: infinite if they cannot."""
        if not self.exact or self.must.any() or self.cap < 1:
            return np.zeros(len(self.must), dtype=bool), np.zeros(len(self.must))
        rise, fall = (self._one_way(sign) for sign in (1.0, -1.0))
        switched = [self._switch(now, options) for now, options in self.options]
        sure = [*(rise[0] | fall[0]), *(found for found, _ in switched)]
        return np.array(sure, dtype=bool), np.append(np.minimum(rise[1], fall[1]), [least for _, least in switched])

    def _one_way(self, sign: float) -> tuple[Flags, Floats]:
        """For single features that rise (or fall): which reach the goal by that, and at which cost."""
        d, limits, c = self.singles, self.conditions.limits, self.conditions.per_unit
        slope, most = sign * self.S[:, d], (self.hi if sign > 0 else -self.lo)[d]
        u, state = np.zeros(len(d)), np.zeros(len(d), dtype=np.int8)  # 0: on the way, 1: there, 2: never
        for _ in range(STEPS):
            f, df = self._along(slope, u)
            state = np.where((state == 0) & (f <= 0.1 * self.slack), 1, state)
            state = np.where((state == 0) & ((df >= 0) | (u > most)), 2, state)
            going = state == 0
            if not going.any():
                break
            u = np.where(going, u - f / np.where(df < 0, df, -1.0), u)
        # On a grid the next point; else a little farther, beyond doubt.
        _, df = self._along(slope, u)
        at = u + 4 * self.slack / np.maximum(-df, EPS)
        step = np.where(limits.on_grid, limits.step, 0.0)[d]
        own = self.source[d]
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = sign * (np.ceil(sign * (own + sign * u) / step - NEAR) * sign * step - own)
        at, least = np.where(step > 0, ahead, at), np.where(step > 0, np.maximum(ahead - NEAR * step, 0.0), u)
        f, _ = self._along(slope, np.where(np.isfinite(at), at, 0.0))
        sure = (state == 1) & (at <= np.minimum(most, FAR / c[d])) & (f < -self.slack)
        never = (state == 2) | ((step > 0) & (state == 1) & ((at > most * (1 + NEAR)) | (f > self.slack)))
        return sure, np.where(never, np.inf, price(self.conditions, least, d))

    def _along(self, slope: Floats, u: Floats) -> tuple[Floats, Floats]:
        """F and its derivative for features that each change by u."""
        s = (self.margins[:, None] + slope * u).T
        return self.loss(s), (self._shares(s) * slope.T).sum(axis=1)

    def _switch(self, now: int, options: Indices) -> tuple[bool, float]:
        """For a group: whether one of its values reaches the goal for certain, and a lower bound on what that costs."""
        there, Q = options[options != now], self.conditions.matrix
        f = self.loss(self.margins + (self.S[:, there] - self.S[:, [now]]).T)
        one = price(self.conditions, np.ones(len(self.source)))
        cost = one[now] + one[there] - (0.0 if Q is None else Q[now, there])
        return bool((f < -self.slack).any()), float(cost[f <= self.slack].min(initial=np.inf))


def price(conditions: Conditions, u: Floats, d: Any = slice(None)) -> Floats:
    """What it costs to change each feature (of ``d``) by u ≥ 0, with no other."""
    t = conditions.per_unit[d] * u
    with np.errstate(over="ignore"):  # more than floats can tell
        return 0.5 * t * t + conditions.mu[d] * t
