"""The checker in fractions: a second text of the theorem, beside that of `dual`, which no search and no solver uses.

What is proved is the theorem of docs/proof.md, with the letters that it and `dual` have: Δ = x − x̄, margins s = s̄ + SΔ of the
rivals, rules C x ≤ c, equations up to σ, and for multipliers y, ν and Δ° the bound

    y·s̄ + e(y) + ν·(C x̄ − c) − |ν|·σ − (α/2)Δ°ᵀRΔ° + Σ over items of the least of f,   f_d(Δ) = ½κ_dΔ² + β_d|Δ| + h_dΔ,
    h = Sᵀy + Cᵀν + αRΔ°.

Floats are fractions, and so are their sums and products and the lowest points of parabolas. Nothing is rounded but logarithms
and exponentials, each to the side on which less is proved. Taken from elsewhere is what a question *means*: which box the
limits make around a source, which values a feature may have in it, and σ (`limits`); and what a tree of cuts does (`proof`). It
goes item by item, as one would by hand; `dual` computes the same in floats, less an allowance for their rounding.
"""

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ifonly.model.errors import CertificateError
from ifonly.model.numerics import EPS, Floats
from ifonly.problem.conditions import Conditions
from ifonly.problem.limits import EDGE, FAR, FELT, TINY
from ifonly.problem.proof import MOVES, OPEN, STAYS, Cut, Multipliers, Node, Proof, Proved

__all__ = ["Exactly", "exp_within", "log_within"]

DIGITS = 60  # of logarithms and exponentials
LARGEST = 3000  # an exponent: beyond, e^−v is as good as nothing, and e^v more than any answer has
SHARE = 0.9  # of the largest θ for which Q − θ diag(Q) is positive semidefinite: with less it is so in fractions too

Fractions = NDArray[Any]  # of `Fraction`s, which sums and products of them are too


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
    if v < -LARGEST:
        return Fraction(0), exp_within(Fraction(-LARGEST))[1]
    v = min(v, Fraction(LARGEST))
    with localcontext() as context:
        context.prec = DIGITS
        found = Fraction((Decimal(v.numerator) / Decimal(v.denominator)).exp())
    slack = found * Fraction(1, 10 ** (DIGITS - 10))
    return max(found - slack, Fraction(0)), found + slack


def _fractions(values: ArrayLike) -> Fractions:
    floats = np.asarray(values, dtype=np.float64)
    return np.array([Fraction(v) for v in floats.ravel().tolist()], dtype=object).reshape(floats.shape)


class Exactly:
    """A problem in fractions: one source, one class, and λ, a probability or a margin."""

    def __init__(
        self,
        conditions: Conditions,
        source: Floats,
        k: int,
        *,
        lam: float | None = None,
        prob: float | None = None,
        margin: float | None = None,
    ) -> None:
        limits, model = conditions.limits, conditions.model
        self.conditions, self.limits, self.floats, self.source = conditions, limits, source, _fractions(source)
        # 1. The goal.
        self.lam, self.prob, self.margin = (None if v is None else Fraction(v) for v in (lam, prob, margin))
        self.alpha = Fraction(1) if self.lam is None else self.lam
        self.top = None if self.prob is None else log_within((1 - self.prob) / self.prob)[1]
        # 2. S, by how much a unit of each feature puts each rival ahead of the target, and s̄, by how much they are.
        scale, shift = Fraction(1), Fraction(0)
        if model.scaling is not None:
            scale, shift = _fractions(model.scaling.scale), _fractions(model.scaling.shift)
        A, b = _fractions(model.weights(slice(None))), _fractions(model.b)
        away = np.delete(A, k, axis=0) - A[k]
        self.S = away / scale
        self.margins = away @ ((self.source - shift) / scale) + np.delete(b, k) - b[k]
        # 3. Rules, by how much the source breaks them, and σ.
        self.C, self.rest = _fractions(limits.C), _fractions(limits.rest)
        self.over, self.spare = self.C @ self.source - self.rest, _fractions(limits.spare(source))
        # 4. Costs: β = μc; the diagonal of Q, and θ, how much of it is left to the features, one by one.
        per_unit, self.Q = _fractions(conditions.per_unit), None
        self.bend, self.square, self.theta = _fractions(conditions.mu) * per_unit, per_unit * per_unit, Fraction(1)
        if conditions.matrix is not None:
            self.Q, self.theta = _fractions(conditions.matrix), Fraction(SHARE * conditions.cost.eigenvalues[0])
            self.square = np.diag(self.Q)
        # 5. Items, and how many may move.
        self.groups = [group.tolist() for group in limits.groups]
        self.items = [[d] for d in np.flatnonzero(~conditions.grouped).tolist()] + self.groups
        self.most = len(self.items) if conditions.max_changes is None else min(conditions.max_changes, len(self.items))
        self.may_stay = limits.may_stay(source)
        self.uneven = {part.feature: part for part in limits.uneven}

    # ---- a point ----

    def check_point(self, x: Floats, *, reached: bool) -> None:
        """Whether x keeps the linear rules and (if it is said to) meets the goal.

        Rules hold up to the rounding of their numbers: 0.1·3 ≤ 0.3 is true, and not of the floats that are nearest to these.
        Most equations have no solution among floats at all. All other limits are comparisons of floats, which are exact.
        """
        point = _fractions(x)
        over, size = self.C @ point - self.rest, np.abs(self.C) @ np.abs(point) + np.abs(self.rest)
        allowed = self.spare + Fraction(EDGE * EPS) * size + Fraction(TINY)
        for i in np.flatnonzero(np.where(self.limits.equal, np.abs(over), over) > allowed)[:1]:
            raise CertificateError(f"rule {i + 1} is broken by {float(over[i])!r}, in fractions")
        if not reached:
            return
        s = self.margins_at(point)
        if self.margin is not None and max(s) > -self.margin:
            raise CertificateError(f"the target's score is ahead by {float(-max(s))!r}, in fractions")
        if self.prob is not None and sum(exp_within(v)[1] for v in s) > (1 - self.prob) / self.prob:
            raise CertificateError(f"p(target) is below the {float(self.prob)!r} that was asked for, in fractions")

    def worth(self, x: Floats) -> Fraction:
        """What is minimised at x: the cost; with λ, λ times its square, Σμc|Δ| and −ln p, or a little above."""
        change = _fractions(x) - self.source
        pull = self.square * change if self.Q is None else self.Q @ change
        cost = self.alpha * (change @ pull) / 2 + self.bend @ np.abs(change)
        if self.lam is None:
            return cost
        s = [*self.margins_at(_fractions(x)), Fraction(0)]
        top = max(s)
        return cost + top + log_within(sum((exp_within(v - top)[1] for v in s), Fraction(0)))[1]

    def margins_at(self, point: Fractions) -> Fractions:
        """s(x)."""
        return self.margins + self.S @ (point - self.source)

    def rivals_proba(self, x: Floats) -> Floats:
        """The rivals' probabilities at x, to the nearest floats."""
        s = self.margins_at(_fractions(x))
        top = max(*s, Fraction(0))
        e, own = [exp_within(v - top)[0] for v in s], exp_within(-top)[0]
        return np.array([float(v / (sum(e) + own)) for v in e])

    # ---- a proof ----

    def prove(self, proof: Proof, slack: float = 0.0) -> Proved:
        """What a proof proves; raises if it is none. A leaf that misses the goal may meet it by ``slack``, times Σy."""

        def bound_of(node: Node, given: Multipliers, reach: bool) -> tuple[Fraction, Fraction]:
            return self.bound(node, given, reach=reach), _fractions(given.y).sum()

        def cut(node: Node, cut: Cut) -> tuple[Node, Node]:
            return node.parts(cut, self.limits.groups, partial(self.limits.adjacent, self.floats))

        # Everything that the limits allow, but for rules: these have multipliers.
        root = Node(*self.limits.box(self.floats), np.zeros(len(self.items), dtype=np.int8))
        return proof.proves(proof.leaves(root, cut, self.empty), bound_of, Fraction(slack))

    def ceiling(self, proved: Proved) -> float:
        """What p of the target is at most where a proof shows by how much its goal is missed, rounded up."""
        if self.top is None or proved.missed == math.inf:  # no such goal, or no point at all
            return 0.0
        return math.nextafter(float(1 / (1 + exp_within(self.top + proved.missed)[0])), 1.0)

    def empty(self, node: Node) -> bool:
        """Whether a node has no point, as anybody sees."""
        if (node.lo > node.hi).any() or any(not self._options(node, group) for group in self.groups):
            return True
        rests = [self._rests(node, item) for item in self.items]
        stuck = any(state == STAYS and not rest for state, rest in zip(node.state, rests, strict=True))
        must = sum(state == MOVES or not rest for state, rest in zip(node.state, rests, strict=True))
        return stuck or must > self.most

    def bound(self, node: Node, given: Multipliers, *, reach: bool = False) -> Fraction:
        """The bound that multipliers prove for the points of a node; with ``reach``, of the goal alone."""
        checked = given.checked(len(self.margins), self.limits.equal, len(self.source))
        if reach and self.lam is not None and given.y.any():
            raise CertificateError("with λ given there is no goal that a leaf could miss")
        y, nu, at = (_fractions(part) for part in checked)
        h = y @ self.S + nu @ self.C
        value = y @ self.margins + self._of_goal(y) + nu @ self.over - np.abs(nu) @ self.spare
        kappa, bend = 0 * self.square, 0 * self.bend
        if not reach:
            kappa, bend = self.alpha * self.theta * self.square, self.bend
            if self.R is not None:
                pull = self.R @ at
                h, value = h + pull, value - at @ pull / 2
        must, may = [], []  # what items are worth that have to move, and that may
        for item, state in zip(self.items, node.state, strict=True):
            if item in self.groups:
                least = self._best(node, item, kappa, bend, h)
            else:
                least = min(self._least(node, d, kappa[d], bend[d], h[d]) for d in item)
            if state == MOVES or not self._rests(node, item):
                must.append(least)
            elif state == OPEN:
                may.append(min(least, Fraction(0)))
        found = value + sum(must) + sum(sorted(may)[: max(self.most - len(must), 0)])
        assert isinstance(found, Fraction)  # a float among its terms would have made it one
        return found

    def _of_goal(self, y: Fractions) -> Fraction:
        """e(y), or a little below."""
        total: Fraction = y.sum()
        if self.margin is not None:
            return total * self.margin
        if self.top is not None:
            return -sum((v * log_within(v / total)[1] for v in y if v > 0), total * self.top)
        if total > 1:
            raise CertificateError("the probabilities of a proof add up to more than 1")
        return -sum((v * log_within(v)[1] for v in (*y, 1 - total) if v > 0), Fraction(0))

    # ---- the items of a node ----

    def _least(self, node: Node, d: int, kappa: Fraction, bend: Fraction, h: Fraction) -> Fraction:
        """The least of ½κΔ² + β|Δ| + hΔ over the values that a feature may have."""
        own, (lo, hi) = self.source[d], self._ends(node, d) if kappa == 0 else (float(node.lo[d]), float(node.hi[d]))
        if kappa == 0:  # a line: one of the ends
            return Fraction(0) if h == 0 else h * (Fraction(lo if h > 0 else hi) - own)
        away = max(abs(h) - bend, Fraction(0)) / kappa
        at = own - away if h > 0 else own + away
        at = Fraction(lo) if at < lo else Fraction(hi) if at > hi else at
        changes = [Fraction(v) - own for v in self._near(d, lo, hi, at)]
        return min((kappa * change / 2 + h) * change + bend * abs(change) for change in changes)

    def _near(self, d: int, lo: float, hi: float, at: Fraction) -> list[Any]:
        """Values of a feature within two ends, those beside ``at`` among them: of a convex function, one is the best."""
        own, step = float(self.floats[d]), float(self.limits.step[d])
        if d in self.uneven:
            part = self.uneven[d]
            found = [*part.column.around(float(at), part.step).tolist(), lo, hi, *([] if part.step else [own])]
            return [v for v in found if lo <= v <= hi and math.isfinite(v)]
        if not step or self.limits.frozen[d]:
            return [at]
        n = math.floor(at / Fraction(step))
        points = self.limits.grid_points(np.array([float(i) for i in range(n - 1, n + 3)]), d, self.floats)
        return [min(max(v, lo), hi) for v in points.tolist()]

    def _ends(self, node: Node, d: int) -> tuple[float, float]:
        """A feature's ends; where there is none, or only one that is next to endless, as far as scores move by `FAR`."""
        lo, hi, own = float(node.lo[d]), float(node.hi[d]), float(self.floats[d])
        steep = max(abs(float(v)) for v in self.S[:, d])
        far, nearest = FAR / (steep or float(self.conditions.per_unit[d])), min(max(own, lo), hi)
        return nearest - far if nearest - lo > FELT * far else lo, nearest + far if hi - nearest > FELT * far else hi

    def _rests(self, node: Node, item: list[int]) -> bool:
        """Whether an item may stay as it is."""
        return all(node.lo[d] <= self.floats[d] <= node.hi[d] and self.may_stay[d] for d in item)

    def _options(self, node: Node, group: Sequence[int]) -> list[int]:
        """The columns of a group that may be the one that is 1."""
        must = [d for d in group if node.lo[d] > 0]
        return [d for d in group if node.hi[d] >= 1 and all(other == d for other in must)]

    def _best(self, node: Node, group: list[int], kappa: Fractions, bend: Fractions, h: Fractions) -> Fraction:
        """What the best option of a group costs: to leave the one that is, and to take another."""
        now = max(group, key=lambda d: self.floats[d])
        leave = kappa[now] / 2 + bend[now] - h[now]
        return min(0 * leave if d == now else leave + kappa[d] / 2 + bend[d] + h[d] for d in self._options(node, group))

    @cached_property
    def R(self) -> Fractions | None:
        """αR = α(Q − θ diag(Q)), which elimination shows to be positive definite."""
        if self.Q is None:
            return None
        R = self.alpha * (self.Q - self.theta * np.diag(self.square))
        left = R.copy()
        for i in range(len(left)):
            if not left[i, i] > 0:
                raise CertificateError("the matrix of the cost is too near to a singular one for a proof in fractions")
            left[i + 1 :] -= np.multiply.outer(left[i + 1 :, i] / left[i, i], left[i])
        return R
