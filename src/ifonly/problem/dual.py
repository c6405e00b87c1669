"""The bound that multipliers prove for a set of points: what a leaf of a proof is.

The notation is that of `limited`: Δ = x − x̄, rivals' margins s(x) = s̄ + SΔ, linear rules C x ≤ c. What is minimised is

    F(x) = (α/2)‖Δ‖²_Q + β Σ_d μ_d c_d|Δ_d|     (+ ln(1 + Σe^{s_j}), where λ was given; then α = λ and β = 1, else α = β = 1)

over the points of a `Node` that keep the rules and meet the goal, which is one of

    a probability   ln Σ_j e^{s_j(x)} ≤ top             a margin   s_j(x) ≤ −margin for all j.

**Theorem.** For any y ≥ 0 (n rivals), any ν ≥ 0 (of any sign for equations) and any Δ° (where Q is no diagonal matrix), every
such x has F(x) ≥ y·s̄ + e(y) + ν·(C x̄ − c) − (α/2)Δ°ᵀRΔ° + the least over the node of Σ_d f_d(Δ_d), with

    f_d(Δ) = ½κ_dΔ² + βμ_d c_d|Δ| + h_dΔ,        h = Sᵀy + Cᵀν + αRΔ°,

    e(y) = −Σ y_j ln(y_j/w) − w·top, w = Σy       for a probability,
    e(y) = w·margin                               for a margin,
    e(y) = −Σ y_j ln y_j − y_0 ln y_0             where λ was given, y_0 = 1 − Σy ≥ 0,

κ = αc² and R = 0, or, with a matrix, κ_d = αθQ_dd and R = Q − θ diag(Q), θ so small that R is positive semidefinite.

*Proof.* ln Σe^s ≥ q·s − Σq ln q for all q ≥ 0 with Σq = 1 (Gibbs). So with q = y/w the goal gives y·s − Σy ln(y/w) ≤ w·top;
a margin gives y·(s + margin) ≤ 0; rules give ν·(C x − c) ≤ 0; with λ the same Gibbs bound is on F itself. ΔᵀRΔ ≥ 2Δ°ᵀRΔ −
Δ°ᵀRΔ°, because (Δ − Δ°)ᵀR(Δ − Δ°) ≥ 0. What is left is linear in x but for one quadratic per feature. ∎

The last minimum falls apart into items: a feature's is a soft-thresholded and clipped number, or of the values beside it the
better one; a group's the best of its options. "At most m move" costs no multiplier: every item is worth what it saves by
moving, and the m largest savings count. Where F is left out (κ = μ = 0, ``reach``) and the sum is still positive, no x of the
node meets goal and rules, and for a probability ln Σe^s − top is at least that sum over w.

The same text computes with floats, less an allowance for their rounding, and with fractions, where only logarithms are
rounded, each in the safe direction.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ifonly.model.errors import CertificateError
from ifonly.model.numerics import EPS, Flags, Floats, Indices, summation_error
from ifonly.problem.choices import MOVES, STAYS, Choices, Node
from ifonly.problem.limited import LimitedProblem

__all__ = ["Bounded", "Dual", "Goal", "Multipliers", "exp_within", "log_within"]

SHARE = 0.9  # of the largest θ: R is then safely positive definite
LARGEST = 700.0  # exponent of e: beyond, 1/(1 + e^v) is as good as 0
DIGITS = 60  # of logarithms and exponentials in fractions
FAR = 3000  # an exponent: beyond, e^−v is as good as nothing, and e^v more than any answer has


class Goal(NamedTuple):
    """What is asked of the points: λ, or the logit of 1 − p_k at most ``top``, or a margin; the others are None."""

    lam: float | None = None
    top: float | None = None
    margin: float | None = None

    @classmethod
    def of(cls, lam: float | None, prob: float | None, margin: float | None) -> "Goal":
        """From what was asked; a probability's logit is rounded up, so that nothing that will do is left out."""
        if prob is None:
            return cls(lam=lam) if margin is None else cls(margin=margin)
        logit = math.log((1 - prob) / prob)
        return cls(top=logit + 8 * EPS * (1 + abs(logit)))

    @property
    def most(self) -> float:
        """What the logit of 1 − p_k, or a rival's margin, may be at most."""
        return -(self.margin or 0.0) if self.top is None else self.top

    def ceiling(self, missed: float) -> float:
        """What p_k is at most where its goal is missed by so much; 1 where that is none."""
        return 1.0 if self.top is None else 1 / (1 + math.exp(min(self.top + missed, LARGEST)))


class Multipliers(NamedTuple):
    """y of the rivals, ν of the linear rules, and Δ° where the cost has a matrix."""

    y: Floats
    nu: Floats
    at: Floats | None = None


class Bounded(NamedTuple):
    """The bound of a node, the point at which the sum of the items is least, the items that move there, and what the bound
    is less by for rounding.
    """

    value: Any
    x: Floats
    moved: Flags
    rounding: float


def log_within(v: Fraction) -> tuple[Fraction, Fraction]:
    """Two fractions with ln v between them."""
    with localcontext() as context:
        context.prec = DIGITS
        found = Fraction((Decimal(v.numerator) / Decimal(v.denominator)).ln())
    slack = (abs(found) + 1) * Fraction(1, 10 ** (DIGITS - 5))
    return found - slack, found + slack


def exp_within(v: Fraction) -> tuple[Fraction, Fraction]:
    """Two fractions with e^v between them."""
    if v == 0:
        return Fraction(1), Fraction(1)
    if v < -FAR:
        return Fraction(0), exp_within(Fraction(-FAR))[1]
    v = min(v, Fraction(FAR))
    with localcontext() as context:
        context.prec = DIGITS
        found = Fraction((Decimal(v.numerator) / Decimal(v.denominator)).exp())
    slack = found * Fraction(1, 10 ** (DIGITS - 10))
    return max(found - slack, Fraction(0)), found + slack


def _exactly(values: Any) -> Any:
    """Floats as fractions, in an array of objects."""
    return np.frompyfunc(Fraction, 1, 1)(np.asarray(values))


class Dual:
    """The bounds of one problem; with ``exact``, in fractions."""

    def __init__(self, problem: LimitedProblem, goal: Goal, choices: Choices | None = None, *, exact: bool = False) -> None:
        self.problem, self.goal, self.exact = problem, goal, exact
        conditions, model = problem.conditions, problem.model
        self.choices = choices or Choices(conditions, problem.source)
        number: Any = _exactly if exact else np.asarray
        self.number = number
        self.scalar: Any = Fraction if exact else float
        A, b, source = (number(v) for v in (model.weights(slice(None)), model.b, problem.source))
        scale, shift = number(np.ones(len(source))), number(np.zeros(len(source)))
        if model.scaling is not None:
            scale, shift = number(model.scaling.scale), number(model.scaling.shift)
        away, ahead = A[problem.rivals] - A[problem.k], b[problem.rivals] - b[problem.k]
        self.source, self.S = source, away / scale
        self.margins = away @ ((source - shift) / scale) + ahead
        self.C, rest = number(conditions.limits.C), number(conditions.limits.rest)
        self.over = self.C @ source - rest  # by how much the source breaks the rules
        self.lam = self.scalar(1.0 if goal.lam is None else goal.lam)  # α
        self.per_unit = number(conditions.per_unit)
        self.bend = number(conditions.mu) * self.per_unit
        share = 1.0 if conditions.matrix is None else _share(conditions.matrix)  # θ
        self.unit = share * float(self.lam)  # κ over c²
        if conditions.matrix is None:
            self.kappa, self.Q, self.R = self.lam * self.per_unit**2, None, None
        else:
            self.Q = number(conditions.matrix)
            diagonal = np.diag(self.Q) * self.scalar(share)
            self.kappa, self.R = self.lam * diagonal, self.lam * (self.Q - np.diag(diagonal))
            if exact:
                _check_definite(self.R)

    # ---- the sizes of terms, for what rounding can do ----

    @cached_property
    def sizes(self) -> tuple[Floats, Floats]:
        """The size of what the margins and `over` are summed from."""
        model, limits, x = self.problem.model, self.problem.conditions.limits, np.abs(self.problem.source)
        scaling = model.scaling
        seen = x if scaling is None else (x + np.abs(scaling.shift)) / np.abs(scaling.scale)
        own = np.abs(self.S if scaling is None else self.S * scaling.scale)
        ahead = np.abs(model.b[self.problem.rivals] - model.b[self.problem.k])
        return own @ seen + ahead, np.abs(limits.C) @ x + np.abs(limits.rest)

    def worth(self, x: Floats) -> Any:
        """What is minimised at x, from the margins that bounds are made of: what rows of A share cancels before it rounds.

        In fractions it may be a little above that, where λ was given.
        """
        change = self.number(x) - self.source
        quadratic = ((self.per_unit * change) ** 2).sum() if self.Q is None else change @ self.Q @ change
        cost = self.scalar(self.lam * quadratic / 2 + self.bend @ np.abs(change))
        if self.goal.lam is None:
            return cost
        s = np.append(self.margins + self.S @ change, self.scalar(0))
        if not self.exact:
            return cost + float(np.logaddexp.reduce(s))
        top = max(s)
        return cost + top + log_within(sum((exp_within(v - top)[1] for v in s), Fraction(0)))[1]

    # ---- the bound ----

    def empty(self, node: Node) -> bool:
        """Whether a node has no point, as anybody sees."""
        rests, counted = self.choices.rests(node), node.state == MOVES
        stuck = ((node.state == STAYS) & ~rests).any()
        full = int((counted | ~rests).sum()) > self.choices.most
        return bool((node.lo > node.hi).any() or stuck or full or not self.choices.in_groups(self.choices.options(node)).all())

    @np.errstate(over="ignore", invalid="ignore")
    def bound(self, node: Node, given: Multipliers, *, reach: bool = False) -> Bounded:
        """The bound that multipliers prove for the points of a node; with ``reach``, of the goal alone."""
        y, nu = self._checked(given, reach=reach)
        choices, source = self.choices, self.source
        h = y @ self.S + nu @ self.C
        constant = [*(y * self.margins), *(nu * self.over), *self._goal(y)]
        kappa, bend = (0 * self.kappa, 0 * self.bend) if reach else (self.kappa, self.bend)
        if self.R is not None and not reach:
            at = self.number(np.zeros(len(source)) if given.at is None else given.at)
            pull = self.R @ at
            h, constant = h + pull, [*constant, -(at @ pull) / 2]
        # 1. Every feature's best value.
        x = self._least(node, h, bend, kappa)
        still = choices.features(choices.stay(node))
        x[still] = source[still]
        change = x - source
        value = (kappa * change / 2 + h) * change + bend * np.abs(change)
        # 2. Every item's, and whether it moves.
        prices, best = self._options(node, h, bend, kappa)
        worth = np.append(value[choices.singles], prices)
        x[choices.columns] = self.number(np.zeros(len(choices.columns)))
        x[best] = self.number(np.ones(len(best)))
        moved = self._moved(node, worth)
        still = choices.features(~moved)
        x[still] = source[still]
        x = x.astype(np.float64)
        if self.exact:
            return Bounded(sum(constant) + worth[moved].sum(), x, moved, 0.0)
        rounding = self._rounding(y, nu, constant, np.abs(change), given, (h, self.longest(node)) if reach else None)
        finite = math.isfinite(rounding)  # multipliers too large for floats prove nothing
        return Bounded(math.fsum([*constant, *worth[moved]]) - rounding if finite else -math.inf, x, moved, rounding)

    def _checked(self, given: Multipliers, *, reach: bool) -> tuple[Any, Any]:
        """Y and ν, if they may be such."""
        equal = self.problem.conditions.limits.equal
        y, nu = np.asarray(given.y, dtype=np.float64), np.asarray(given.nu, dtype=np.float64)
        at = 0.0 * self.problem.source if given.at is None else np.asarray(given.at, dtype=np.float64)
        if y.shape != self.margins.shape or nu.shape != self.over.shape or at.shape != self.source.shape:
            raise CertificateError("the proof has too few or too many multipliers")
        if not all(np.isfinite(values).all() for values in (y, nu, at)) or (y < 0).any() or (nu[~equal] < 0).any():
            raise CertificateError("the proof has multipliers that are negative, or not finite")
        if reach and self.goal.lam is not None and y.any():
            raise CertificateError("with λ given there is no goal that a leaf could miss")
        return self.number(y), self.number(nu)

    def _goal(self, y: Any) -> list[Any]:
        """The terms of e(y), each at most what it is."""
        total = y.sum()
        if self.goal.margin is not None:
            return [total * self.scalar(self.goal.margin)]
        if self.goal.top is not None:
            return [*(-v * self._log(v, total) for v in y if v > 0), -total * self.scalar(self.goal.top)]
        rest = 1 - total
        if rest < (0 if self.exact else -len(y) * EPS):
            raise CertificateError("the probabilities of a proof add up to more than 1")
        return [-v * self._log(v, 1) for v in (*y, rest) if v > 0]

    def _log(self, v: Any, of: Any) -> Any:
        """An upper bound on ln(v/of), up to the rounding of floats."""
        if self.exact:
            return log_within(v / of)[1]
        return math.log(v / of) if v / of > 0 else math.log(v) - math.log(of)

    def _least(self, node: Node, h: Any, bend: Any, kappa: Any) -> Any:
        """Where every f_d is least among the allowed values of a node."""
        source, choices = self.problem.source, self.choices
        lo, hi = node.lo, node.hi
        if not kappa.any():  # a line: one of the ends
            low, high = self.problem.ends(lo, hi)
            x = self.number(np.where(h > 0, low, np.where(h < 0, high, np.minimum(np.maximum(source, low), high))))
        else:
            soft = np.maximum(np.abs(h) - bend, 0 * bend) / kappa
            x = self.source + np.where(h > 0, -soft, soft)
            x = self.number(np.where(x < lo, lo, np.where(x > hi, hi, x)))
        points = np.append(choices.grid, [part.feature for part in choices.limits.uneven]).astype(np.intp)
        if not len(points):
            return x
        values = choices.beside(node, x.astype(np.float64))[:, points]
        none = np.isnan(values)
        values = self.number(np.where(none, source[points], values))
        change = values - self.source[points]
        prices = (kappa[points] * change / 2 + h[points]) * change + bend[points] * np.abs(change)
        prices[none] = math.inf
        x[points] = values[prices.argmin(axis=0), np.arange(len(points))]
        return x

    def longest(self, node: Node) -> Floats:
        """How far features can be from the source in a node."""
        return np.asarray(np.max(np.abs(np.stack(self.problem.ends(node.lo, node.hi)) - self.problem.source), axis=0))

    def _options(self, node: Node, h: Any, bend: Any, kappa: Any) -> tuple[Any, Indices]:
        """What the best option of each group costs, and its column."""
        columns, now = self.choices.columns, self.choices.now
        up, down = kappa / 2 + bend + h, kappa / 2 + bend - h
        prices = up[columns] + down[now]
        prices[columns == now] = 0 * prices[columns == now]
        prices = np.where(self.choices.options(node)[columns], prices, math.inf)
        best = np.array([a + int(prices[a:b].argmin()) for a, b in pairwise(self.choices.edges)], dtype=np.intp)
        return prices[best], columns[best]

    def _moved(self, node: Node, worth: Any) -> Flags:
        """Which items move where each is worth that much: all that gain by it, or of those that may stay the best ones."""
        rests, state = self.choices.rests(node), node.state
        must = ~rests | (state == MOVES)
        open_ = ~must & (state != STAYS) & (worth < 0)
        room = self.choices.most - int(must.sum())
        if int(open_.sum()) > room:
            order = np.argsort(np.where(open_, worth, math.inf), kind="stable")
            open_ = np.zeros(len(worth), dtype=bool)
            open_[order[: max(room, 0)]] = True
        return must | open_

    def _rounding(self, y: Any, nu: Any, constant: Any, moves: Any, given: Multipliers, reach: Any) -> float:
        """How far the computed bound can be from that of exact arithmetic; ``reach`` has h, and how far features can move."""
        margins, over = self.sizes
        size, more = np.abs(y) @ np.abs(self.S) + np.abs(nu) @ np.abs(self.C), 0.0
        if reach:  # a pull that is next to nothing may be one of rounding, over the whole of a range
            h, longest = reach
            moves = np.where(np.abs(h) > 2 * summation_error(len(y) + len(nu) + 2) * size, moves, longest)
        else:
            size = size + self.bend + self.kappa * moves
            slip = 2 * EPS * (np.abs(self.source) + moves)  # x is rounded, and then not quite where f is least
            more = 0.5 * float(self.kappa @ slip**2)
            if self.R is not None and given.at is not None:
                at = np.abs(given.at)
                size = size + np.abs(self.R) @ at
                more += summation_error(len(at) ** 2) * float(at @ np.abs(self.R) @ at)
        terms = float(np.abs(constant).sum() + y @ margins + np.abs(nu) @ over + size @ moves)
        return 2 * summation_error(len(moves) + len(constant) + 8) * terms + more


def _share(Q: Floats) -> float:
    """Θ."""
    c = np.sqrt(np.diag(Q))
    return SHARE * float(np.linalg.eigvalsh(Q / np.multiply.outer(c, c))[0])


def _check_definite(R: Any) -> None:
    """Whether a matrix of fractions is positive definite, by elimination."""
    R = R.copy()
    for i in range(len(R)):
        if not R[i, i] > 0:
            raise CertificateError("the matrix of the cost is too near to a singular one for a proof in fractions")
        R[i + 1 :, i:] -= np.multiply.outer(R[i + 1 :, i] / R[i, i], R[i, i:])
