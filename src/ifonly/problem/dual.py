"""The bound that multipliers prove for a set of points: what a leaf of a proof is.

The notation is that of `limited`: Δ = x − x̄, rivals' margins s(x) = s̄ + SΔ, linear rules C x ≤ c, or, for equations,
|C x − c| ≤ σ (`Limits.spare`; σ = 0 for others). What is minimised is

    F(x) = (α/2)‖Δ‖²_Q + β Σ_d μ_d c_d|Δ_d|     (+ ln(1 + Σe^{s_j}), where λ was given; then α = λ and β = 1, else α = β = 1)

over the points of a `Node` that keep the rules and meet the goal, which is one of

    a probability   ln Σ_j e^{s_j(x)} ≤ top             a margin   s_j(x) ≤ −margin for all j.

**Theorem.** For any y ≥ 0 (n rivals), any ν ≥ 0 (of any sign for equations) and any Δ° (where Q is no diagonal matrix), every
such x has F(x) ≥ y·s̄ + e(y) + ν·(C x̄ − c) − |ν|·σ − (α/2)Δ°ᵀRΔ° + the least over the node of Σ_d f_d(Δ_d), with

    f_d(Δ) = ½κ_dΔ² + βμ_d c_d|Δ| + h_dΔ,        h = Sᵀy + Cᵀν + αRΔ°,

    e(y) = −Σ y_j ln(y_j/w) − w·top, w = Σy       for a probability,
    e(y) = w·margin                               for a margin,
    e(y) = −Σ y_j ln y_j − y_0 ln y_0             where λ was given, y_0 = 1 − Σy ≥ 0,

κ = αc² and R = 0, or, with a matrix, κ_d = αθQ_dd and R = Q − θ diag(Q), θ so small that R is positive semidefinite.

*Proof.* ln Σe^s ≥ q·s − Σq ln q for all q ≥ 0 with Σq = 1 (Gibbs). So with q = y/w the goal gives y·s − Σy ln(y/w) ≤ w·top;
a margin gives y·(s + margin) ≤ 0; rules give ν·(C x − c) ≤ |ν|·σ; with λ the same Gibbs bound is on F itself. ΔᵀRΔ ≥ 2Δ°ᵀRΔ −
Δ°ᵀRΔ°, because (Δ − Δ°)ᵀR(Δ − Δ°) ≥ 0. What is left is linear in x but for one quadratic per feature. ∎

The last minimum falls apart into items: a feature's is a soft-thresholded and clipped number, or of the values beside it the
better one; a group's the best of its options. "At most m move" costs no multiplier: every item is worth what it saves by
moving, and the m largest savings count. Where F is left out (κ = μ = 0, ``reach``) and the sum is still positive, no x of the
node meets goal and rules, and for a probability ln Σe^s − top is at least that sum over w.

The bounds are those of floats, less an allowance for their rounding; `exactly` has them in fractions.
"""

import math
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ifonly.model.errors import CertificateError
from ifonly.model.numerics import EPS, Flags, Floats, Indices, summation_error
from ifonly.problem.choices import Choices
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.proof import MOVES, STAYS, Leaf, Multipliers, Node, Proof, Proved

__all__ = ["Bounded", "Dual", "Goal", "continuous_proof"]

SHARE = 0.9  # of the largest θ: R is then safely positive definite
LARGEST = 700.0  # exponent of e: beyond, 1/(1 + e^v) is as good as 0


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
        """What p_k is at most where its goal is missed by so much, rounded up; 1 where that is none."""
        if self.top is None:
            return 1.0
        missed = min(missed, 2 * LARGEST)  # it may be infinite
        logit = self.top + missed - 4 * EPS * (1 + abs(self.top) + abs(missed))
        return min((1 + 2 * EPS) / (1 + math.exp(min(logit, LARGEST))), 1.0)


class Bounded(NamedTuple):
    """The bound of a node, the point at which the sum of the items is least, the items that move there, and what the bound
    is less by for rounding.
    """

    value: float
    x: Floats
    moved: Flags
    rounding: float


class Dual:
    """The bounds of one problem."""

    def __init__(self, problem: LimitedProblem, goal: Goal, choices: Choices | None = None) -> None:
        self.problem, self.goal = problem, goal
        conditions, model = problem.conditions, problem.model
        self.choices = choices or Choices(conditions, problem.source)
        self.source, self.S, ahead = problem.source, problem.slopes, model.b[problem.rivals] - model.b[problem.k]
        self.margins = problem.away @ (self.source if model.scaling is None else model.scaling(self.source)) + ahead
        self.C = conditions.limits.C
        self.over = self.C @ self.source - conditions.limits.rest  # by how much the source breaks the rules
        self.spare = conditions.limits.spare(self.source)  # σ
        self.lam = 1.0 if goal.lam is None else goal.lam  # α
        self.bend = conditions.mu * conditions.per_unit
        self.R: Any = None  # αR
        share, self.kappa = 1.0, self.lam * conditions.per_unit**2  # θ, κ
        if conditions.matrix is not None:
            share = SHARE * conditions.cost.eigenvalues[0]
            diagonal = np.diag(conditions.matrix) * share
            self.kappa, self.R = self.lam * diagonal, self.lam * (conditions.matrix - np.diag(diagonal))
        self.unit = share * self.lam  # κ over c²

    @cached_property
    def sizes(self) -> tuple[Floats, Floats]:
        """The size of what the margins and `over` are summed from, for what rounding can do."""
        model, limits, x = self.problem.model, self.problem.conditions.limits, np.abs(self.source)
        scaling, ahead = model.scaling, np.abs(model.b[self.problem.rivals] - model.b[self.problem.k])
        seen = x if scaling is None else (x + np.abs(scaling.shift)) / np.abs(scaling.scale)
        own = np.abs(self.S if scaling is None else self.S * scaling.scale)
        return own @ seen + ahead, np.abs(limits.C) @ x + np.abs(limits.rest)

    def worth(self, x: Floats) -> float:
        """What is minimised at x, from the margins that bounds are made of: what rows of A share cancels before it rounds."""
        distance, cost = self.problem.cost_of(x)
        if self.goal.lam is None:
            return cost
        change = x - self.source
        s = np.append(self.margins + self.S @ change, 0.0)
        return 0.5 * self.lam * distance**2 + self.problem.sparse(change) + float(np.logaddexp.reduce(s))

    # ---- a proof ----

    def prove(self, proof: Proof, slack: float = 0.0) -> Proved:
        """What a proof proves; raises if it is none. A leaf that misses the goal may meet it by ``slack``, times Σy."""

        def bound_of(node: Node, given: Multipliers, reach: bool) -> tuple[float, float]:
            return self.bound(node, given, reach=reach).value, float(given.y.sum())

        return proof.proves(proof.leaves(self.choices.root, self.choices.cut, self.empty), bound_of, slack)

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
        choices, source = self.choices, self.source
        y, nu, at = given.checked(len(self.margins), self.problem.conditions.limits.equal, len(source))
        if reach and self.goal.lam is not None and y.any():
            raise CertificateError("with λ given there is no goal that a leaf could miss")
        h = y @ self.S + nu @ self.C
        constant = [*(y * self.margins), *(nu * self.over), *(-np.abs(nu) * self.spare), *self._goal(y)]
        kappa, bend = (0 * self.kappa, 0 * self.bend) if reach else (self.kappa, self.bend)
        if self.R is not None and not reach:
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
        x[choices.columns], x[best] = 0.0, 1.0
        moved = self._moved(node, worth)
        still = choices.features(~moved)
        x[still] = source[still]
        rounding = self._rounding(y, nu, constant, np.abs(change), given, (h, self.longest(node)) if reach else None)
        finite = math.isfinite(rounding)  # multipliers too large for floats prove nothing
        return Bounded(math.fsum([*constant, *worth[moved]]) - rounding if finite else -math.inf, x, moved, rounding)

    def _goal(self, y: Floats) -> list[float]:
        """The terms of e(y)."""
        total = y.sum()
        if self.goal.margin is not None:
            return [total * self.goal.margin]
        if self.goal.top is not None:
            return [*(-v * _log(v, total) for v in y if v > 0), -total * self.goal.top]
        rest = 1 - total
        if rest < -len(y) * EPS:
            raise CertificateError("the probabilities of a proof add up to more than 1")
        return [-v * _log(v, 1.0) for v in (*y, rest) if v > 0]

    def _least(self, node: Node, h: Floats, bend: Floats, kappa: Floats) -> Floats:
        """Where every f_d is least among the allowed values of a node."""
        source, choices, lo, hi = self.source, self.choices, node.lo, node.hi
        if not kappa.any():  # a line: one of the ends
            low, high = self.problem.ends(lo, hi)
            x = np.where(h > 0, low, np.where(h < 0, high, np.minimum(np.maximum(source, low), high)))
        else:
            soft = np.maximum(np.abs(h) - bend, 0.0) / kappa
            x = source + np.where(h > 0, -soft, soft)
            x = np.where(x < lo, lo, np.where(x > hi, hi, x))
        points = np.append(choices.grid, [part.feature for part in choices.limits.uneven]).astype(np.intp)
        if not len(points):
            return x
        values = choices.beside(node, x)[:, points]
        none = np.isnan(values)
        change = np.where(none, 0.0, values - source[points])
        prices = (kappa[points] * change / 2 + h[points]) * change + bend[points] * np.abs(change)
        prices[none] = math.inf
        x[points] = values[prices.argmin(axis=0), np.arange(len(points))]
        return x

    def longest(self, node: Node) -> Floats:
        """How far features can be from the source in a node."""
        return np.asarray(np.max(np.abs(np.stack(self.problem.ends(node.lo, node.hi)) - self.source), axis=0))

    def _options(self, node: Node, h: Floats, bend: Floats, kappa: Floats) -> tuple[Floats, Indices]:
        """What the best option of each group costs, and its column."""
        columns, now = self.choices.columns, self.choices.now
        up, down = kappa / 2 + bend + h, kappa / 2 + bend - h
        prices = np.where(columns == now, 0.0, up[columns] + down[now])
        prices = np.where(self.choices.options(node)[columns], prices, math.inf)
        best = np.array([a + int(prices[a:b].argmin()) for a, b in pairwise(self.choices.edges)], dtype=np.intp)
        return prices[best], columns[best]

    def _moved(self, node: Node, worth: Floats) -> Flags:
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

    def _rounding(self, y: Floats, nu: Floats, constant: Any, moves: Floats, given: Multipliers, reach: Any) -> float:
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


def _log(v: float, of: float) -> float:
    """ln(v/of), also where v/of is less than any float."""
    return math.log(v / of) if v / of > 0 else math.log(v) - math.log(of)


def continuous_proof(
    problem: LimitedProblem, x: Floats, prob: float | None, lam: float, multipliers: Floats | None, p: Floats | None = None
) -> Proof:
    """The proof of an answer that took no search, from its λ and multipliers: one leaf.

    ``p`` are the rivals' probabilities at x, where they are known better than from scores.
    """
    n, m, margin = len(problem.rivals), len(problem.conditions.limits.C), problem.conditions.margin
    nu = problem.multipliers(multipliers)
    y = problem.proba(x)[0][problem.rivals] if p is None else p
    if margin is not None:
        y = nu[m : m + n]
    elif prob is not None:
        y, nu = (0.0 * y, nu) if math.isinf(lam) else (y / lam, nu / lam)
    else:
        y = y * (1 - (n + 2) * EPS)  # with that of the target they add up to 1, not to a rounding more
    at = None if problem.conditions.matrix is None else x - problem.source
    return Proof((Leaf(0),), (Multipliers(y, nu[:m], at),))
