"""One inverse problem with a cost and limits, one source and one target: to units of cost, and back with a certificate."""

import math
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.cost_space import CostSpace, at_ends
from ifonly.engines.responses import Terms
from ifonly.engines.semismooth import Response, Target
from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS, Flags, Floats, Indices, log_sum_exp, summation_error
from ifonly.problem.cost import Cost
from ifonly.problem.dual import Dual, Goal
from ifonly.problem.goals import Weights, entropy, excess
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.limits import EDGE
from ifonly.problem.proof import Proof
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["CostProblem", "nothing_found"]

IDLE = 1e30  # the right-hand side of a row that is to have no effect
BLUR = 1e-3  # of a logit: where rounding is more, what is computed says nothing
LEAST_LAM = 5e-324  # where λ underflows
NEAR = 1e-6  # relative: a rule that has a multiplier, and that x is so near to, is one that x is at
UPPER, LOWER, SOFT = range(3)  # rows of a feature of its own, where a matrix ties features together
KEEPING = 8  # corrections of x by a few roundings; one is usual


class CostProblem:
    """One source and one target in a `CostSpace`; a value, of which `but` makes others."""

    def __init__(self, space: CostSpace, source: Floats, k: int, prob: float | None = None) -> None:
        self.space, self.source, self.k, self.prob = space, source, k, prob
        self.model = model = space.model
        lo, hi, wrong = space.around(source[None])
        if wrong:
            raise InputError(wrong[0])
        self.lo, self.hi = lo[0], hi[0]
        self.rivals = model.rivals(k)
        z = model.scores(source)
        if not np.isfinite(z).all():
            raise InputError("x must be finite, and its logits too")
        self.margins = z[self.rivals] - z[k]
        self.size = float(np.abs(self.margins).max())
        self.tight = 8.0  # roundings by which linear limits are tightened, so that they hold in floating point
        self.careful = True  # whether goals are to be met for whoever evaluates them, or only as we do
        self.ahead = 0.0  # by how much more than it is asked for the target's score is to be ahead

    def but(self, **changed: Any) -> Self:
        """The same problem with other bounds (``lo``, ``hi``) or in another ``space``, or tighter (``tight``, ``ahead``)."""
        other = copy(self)
        for name in ("moving", "still", *(["textbook", "duals"] if "space" in changed else [])):  # worked out from these
            other.__dict__.pop(name, None)
        other.__dict__.update(changed)
        return other

    @property
    def untied(self) -> Self:
        """The same where a feature's cost does not depend on others: what meets a goal does not depend on costs."""
        space, conditions = self.space, self.space.conditions
        if not space.tied:
            return self
        alone = replace(conditions, cost=Cost(space.per_unit, conditions.cost.l1))
        return self.but(space=CostSpace(alone, reference=space.loops is None))

    # ---- the problem in units of cost, over the features that can move ----

    @cached_property
    def moving(self) -> Any:
        """The features that can move, as an index."""
        moving = self.lo < self.hi
        return slice(None) if moving.all() else moving

    @cached_property
    def still(self) -> Floats:
        """The change at t = 0: what cannot move is where it has to be; where a matrix ties others to it, they follow."""
        change, moving, Q = self.lo - self.source, self.moving, self.space.conditions.matrix
        change[moving] = 0.0
        if Q is not None and change.any():
            change[moving] = -np.linalg.solve(Q[moving][:, moving], Q[moving] @ change)
        return change

    def terms(self, budget: Budget, tight: float | None = None) -> Terms:
        """The problem as it is within its bounds, whole numbers left out of account; ``budget`` is of those who solve it."""
        space, moving, still = self.space, self.moving, self.still
        C, rest, low = self.rules(self.tight if tight is None else tight)
        slip = EPS * (np.abs(C) @ np.abs(self.source) + np.abs(rest))
        margins, soft = self.margins, slice(None) if space.margin is None else slice(0)
        if still.any():
            margins, rest = margins + self.slopes @ still, rest - C @ still
        C = C[:, moving]
        idle = ~C.any(axis=1)  # rows between features that cannot move: they hold, or others say that they do not
        rest, low = np.where(idle, IDLE, rest), np.where(idle, 0.0, low)
        if space.tied:
            return self._tied(margins[soft], C, rest, low, slip)._replace(budget=budget)
        c = space.per_unit[moving]
        lo, hi = ((v - self.source)[moving] * c for v in (self.lo, self.hi))
        rows, high = space.rows(self.k)[soft, moving], np.full(len(C), np.inf)
        return Terms(rows, margins[soft], space.mu[moving], lo, hi, C / c, rest, low, high, slip, budget, space.loops)

    def _tied(self, margins: Floats, C: Floats, rest: Floats, low: Floats, slip: Floats) -> Terms:
        """`terms` where a matrix ties features together: bounds and ℓ1 terms on x are rows in t."""
        space, back, (d, kind) = self.space, self.space.inverse(self.lo < self.hi), self._own_rows
        # In units of cost: in the user's, one row might be a million times as long as another.
        size, begin = np.where(kind == LOWER, -1.0, 1.0) * space.per_unit[d], self.source + self.still
        own = size * np.stack([self.hi - begin, self.lo - begin, -self.still])[kind, d]
        soft, of = np.where(kind == SOFT, space.mu[d], np.inf), (np.cumsum(self.lo < self.hi) - 1)[d]
        low, high = np.append(low, np.where(kind == SOFT, -soft, 0.0)), np.append(np.full(len(C), np.inf), soft)
        C, free = np.concatenate([C @ back, size[:, None] * back[of]]), np.full(len(back), np.inf)
        B, slip = self.slopes[:, self.moving][: len(margins)] @ back, np.append(slip, EPS * np.abs(own))
        return Terms(B, margins, np.zeros(len(free)), -free, free, C, np.append(rest, own), low, high, slip)

    @property
    def _own_rows(self) -> tuple[Indices, Indices]:
        """Of `_tied`, after the rules: which feature each row is of, and whether of its upper end, lower end or ℓ1 term."""
        there = np.stack([np.isfinite(self.hi), np.isfinite(self.lo), self.space.mu > 0], axis=1)
        feature, kind = np.nonzero(there & (self.lo < self.hi)[:, None])
        return feature, kind

    def rules(self, tight: float) -> tuple[Floats, Floats, Floats]:
        """The linear limits on changes in the user's units, C·change ≤ rest with multipliers ≥ low, so much tighter."""
        space, limits, source = self.space, self.space.limits, self.source
        R, equal = self.textbook.rows
        size = np.abs(limits.C) @ np.abs(source) + np.abs(limits.rest)
        rules = limits.rest - limits.C @ source
        rules -= np.where(limits.equal, 0.0, np.where(self._cornered, -EDGE, tight) * EPS * size)
        margins = [] if space.margin is None else -self.margins - (space.margin + self.ahead)  # no rival within the margin
        groups = [1.0 - source[group].sum() for group in limits.groups]
        return R, np.concatenate([rules, margins, groups]), np.where(equal, -np.inf, 0.0)

    @property
    def _cornered(self) -> Flags:
        """The rules that nothing but an end of each feature's range keeps, up to rounding: tighter, they contradict these."""
        limits = self.space.limits
        ends = np.where(limits.C > 0, self.lo, np.where(limits.C < 0, self.hi, 0.0))
        with np.errstate(invalid="ignore"):
            least, size = (limits.C * ends).sum(axis=1), np.abs(limits.C * ends).sum(axis=1) + np.abs(limits.rest)
            return np.isfinite(size) & (least >= limits.rest - EDGE * EPS * size)

    @property
    def n_rules(self) -> int:
        """How many of the rows of `terms` are rules, the first ones: linear limits, and margins where those are asked for."""
        return len(self.space.limits.C) + (0 if self.space.margin is None else len(self.rivals))

    @property
    def slopes(self) -> Floats:
        """The rivals' scores less the target's, per unit of the user's."""
        return self.textbook.slopes

    def x(self, t: Floats) -> Floats:
        """The point of t, up to rounding."""
        change, space = self.still.copy(), self.space
        change[self.moving] += space.inverse(self.lo < self.hi) @ t if space.tied else t / space.per_unit[self.moving]
        return self.source + change

    def placed(self, t: Floats, nu: Floats, weight: float) -> Floats:
        """The x of t and multipliers, within its limits exactly: what stays is the source's, a bound is the bound."""
        x, moving, lo, hi = self.x(t), self.moving, self.lo, self.hi
        if not self.space.tied:
            x[moving] = at_ends(x[moving], t, *(v[moving] for v in (self.source, lo, hi, self.space.per_unit)))
        else:  # rows of `terms` hold up to rounding; their multipliers say which
            (d, kind), own = self._own_rows, nu[self.n_rules + len(self.space.limits.groups) :]
            at = np.where(kind == SOFT, np.abs(own) < weight * self.space.mu[d], own > 0)
            x[d[at]] = np.stack([hi, lo, self.source])[kind, d][at]  # of several the last
        n = len(self.space.limits.C)
        return self.kept(x, None if self.space.margin is None else nu[n : self.n_rules] > 0, nu[:n] > 0)

    def kept(self, x: Floats, held: Flags | None = None, active: Flags | None = None) -> Floats:
        """X within its limits exactly, to which it is near.

        ``held`` are rivals whose margins are to be kept like rules; ``active`` the rules that x is to be at, where it is near.
        """
        x = self._keeping(np.minimum(np.maximum(x, self.lo), self.hi), held, active)
        x = self.space.limits.placed(x, self.source, self.lo, self.hi)
        x = np.where(x == self.source, self.source, x)  # −0.0 too
        return self.space.settled(self.source[None], x[None])[0]

    def _keeping(self, x: Floats, held: Flags | None, active: Flags | None) -> Floats:
        """X, by a few roundings to where linear limits hold in floating point, in whatever order their terms are added."""
        limits, c, lo, hi = self.space.limits, self.space.per_unit, self.lo, self.hi
        C, rest, equal = limits.C, limits.rest, limits.equal
        at = np.zeros(len(C), dtype=bool) if active is None else active
        if held is not None and held.any():
            slopes, asked = self.slopes[held], (self.space.margin or 0.0) + self.ahead
            C, rest = np.concatenate([C, slopes]), np.append(rest, slopes @ self.source - self.margins[held] - asked)
            equal, at = (np.append(flags, np.zeros(len(slopes), dtype=bool)) for flags in (equal, at))
        if not len(C):
            return x
        count = (C != 0).sum(axis=1) + 2
        pinned = (limits.step > 0) | self.space.grouped | (lo == hi)
        still = pinned | (x == self.source)
        for attempt in range(KEEPING):
            if attempt == KEEPING // 2:  # it takes what else would not move, and all of the room
                still, count = pinned.copy(), 0 * count
            size = np.abs(C) @ np.abs(x) + np.abs(rest)
            over = C @ x - rest + np.where(equal, 0.0, count * EPS * size)
            far = over < -2 * count * EPS * size  # where λ is tiny, t is off by more than roundings
            apart = (attempt == 0) & at & far & (over >= -NEAR * size)
            if not (np.where(equal, np.abs(over) > 2 * EPS * size, over > 0) | apart).any():
                break
            near = equal | (over >= -count * EPS * size) | apart
            moved = x - np.linalg.lstsq(C[near] * ~still / c, over[near], rcond=1e-12)[0] / c
            x = np.minimum(np.maximum(moved, lo), hi)
            still |= x != moved  # a bound is in the way: the others are to do it
        return x

    # ---- what a point is worth ----

    @cached_property
    def textbook(self) -> LimitedProblem:
        """The same problem as `problem.limited` has it, for what answers are worth."""
        return LimitedProblem(self.space.conditions, self.source, self.k)

    @cached_property
    def duals(self) -> dict[Goal, Dual]:
        """Its bounds, by the goals that they have been asked for (`searched.dual_of`)."""
        return {}

    def certified(
        self, x: Floats, weights: Weights, nu: Floats, prob: float | None = None, *, sharp: bool = True, **more: Any
    ) -> Result:
        """A point as a result, with the bound that its certificate proves."""
        found = self.textbook.certificate(x, weights, nu, sharp=sharp)
        lam = weights.lam if weights.loss or self.space.margin is not None else math.inf
        claims = {"grad_norm": found.grad_norm + found.rounding, "multipliers": nu, **more}
        result = self.result(x, lam, weight=weights.l1, **claims)
        if weights.loss and prob is None:
            value, gap = result.objective, found.gap
        else:
            beyond = 0.0 if prob is None else excess(*self.textbook.proba(x), self.k, prob, found.logit_error)
            value, gap = result.cost, min((found.gap + beyond) / weights.lam, result.cost)
        return replace(result, bound=value - gap, gap=gap)

    def allowance(self, prob: float | None, x: Floats) -> float:
        """How much more than was asked for an answer has to reach, so that rounding does not matter."""
        more = 0.0 if prob is None else math.log((1 - prob) / prob) - self.asked(prob)
        return more + self.rounding(x)

    def rounding(self, x: Floats) -> float:
        """How far a margin at x can be from ours when the user's own estimator evaluates it, and the p that is wanted."""
        return float(self.space.rounding(x, self.size, self.prob)) if self.careful else 0.0

    def holds(self, x: Floats) -> bool:
        """Whether x keeps all limits, those of a part of the problem too."""
        return bool(((x >= self.lo) & (x <= self.hi)).all()) and self.space.limits.broken(self.source, x) is None

    def reached(self, x: Floats, prob: float | None) -> bool:
        """Whether p_k ≥ prob at x, or the target's score is ahead by the margin, for whoever evaluates it."""
        if prob is not None and not self.careful:
            return self.seems_reached(x, prob)
        if self.level(prob, x) <= self.asked(prob) - self.rounding(x):
            return True
        wins_ties = len(self.rivals) == 1 and self.k == 0  # the first of two classes is predicted where both are as probable
        just = prob is None or (prob == 0.5 and wins_ties)  # to the last bit, where that is the same for everybody
        return just and self.textbook.lead(x) >= (self.space.margin or 0.0) and self.space.adds_exactly(x)

    def is_clear(self, x: Floats) -> bool:
        """Whether the logits at x are more than rounding."""
        return bool(self.space.rounding(x, self.size) < BLUR)

    def seems_reached(self, x: Floats, prob: float | None) -> bool:
        """Whether x meets the goal as we compute it, if not for everybody."""
        known, ahead = self.textbook, self.space.margin or 0.0
        return self.is_clear(x) and bool(known.lead(x) >= ahead if prob is None else known.proba(x)[0][self.k] >= prob)

    def level(self, prob: float | None, x: Floats) -> float:
        """What the goal asks to be small: the logit of 1 − p_k, or (without a probability) the largest margin of a rival."""
        return -self.textbook.lead(x) if prob is None else float(log_sum_exp(self.textbook.margins(x)))

    def result(self, x: Floats, lam: float, **more: Any) -> Result:
        """A point as a result; ``more`` overrides what is not known from the point alone."""
        space, change = self.space, x - self.source
        with np.errstate(over="ignore"):
            (distance, cost), sparse = self.textbook.cost_of(x), self.textbook.sparse(change)
        p, loss = self.textbook.proba(x)
        weight, lam = more.pop("weight", 1.0), max(lam, LEAST_LAM)
        objective = loss if math.isinf(lam) else 0.5 * lam * distance**2 + weight * sparse + loss
        if space.margin is not None:
            objective = cost
        values: dict[str, Any] = {"grad_norm": 0.0, "status": Status.EXACT, "bound": 0.0, "gap": 0.0, **more}
        return Result(target=self.k, x=x, proba=p, lam=lam, distance=distance, objective=objective, cost=cost, **values)

    # ---- for those who solve it ----

    def goal_of(self, prob: float) -> Target:
        """For `semismooth.reach`, with x where it is `placed`."""

        def miss(at: Response) -> tuple[float, float]:
            x = self.placed(at.t, at.nu, at.weight)
            rounding = self.rounding(x)
            return self.level(prob, x) - (logit - rounding), rounding + 8 * EPS * (abs(logit) + 1)

        logit = self.asked(prob)
        return Target(prob, logit, miss, self.ceiling)

    def ceiling(self, at: Response) -> float:
        """An upper bound on p_k within the limits, from the multipliers of a point.

        For all q and ν: −ln p_k(x) ≥ q·s(x) + H(q) + ν·(C x − c) = q·s̄ − ν·c + H(q) + u·(x − x̄), u = slopesᵀq + Cᵀν, and the
        last term is least at a corner of the box. Where the box has no such corner, q and ν are changed a little so that u
        is 0 there.
        """
        C, rest, low = self.rules(self.tight)
        W, n, c = np.concatenate([self.slopes, C]), len(self.rivals), self.space.per_unit
        y, signed = np.append(at.q[:-1], at.nu[: len(C)]), np.append(np.ones(n, dtype=bool), low == 0)
        pinned = np.zeros(len(c), dtype=bool)
        for _ in c:
            u = np.where(pinned, 0.0, y @ W)
            beyond = self.textbook.beyond(u, self.lo, self.hi)
            if not beyond.any():
                break
            pinned |= beyond
            columns = W[:, pinned] / c[pinned]
            z = np.linalg.lstsq((y[:, None] * columns).T, -(y @ columns), rcond=None)[0]
            y = y * (1 + z)
            if (y[signed] < 0).any() or (np.abs(y @ columns) > 64 * EPS * (np.abs(y) @ np.abs(columns))).any():
                return 1.0
        else:
            return 1.0
        q = np.append(y[:n], 1.0 - y[:n].sum())
        if q[-1] < 0:
            return 1.0
        corner = np.where(u > 0, self.lo - self.source, np.where(u < 0, self.hi - self.source, 0.0))
        constants = np.append(self.margins, -rest)
        size = float(np.abs(y) @ np.abs(constants) + (np.abs(y) @ np.abs(W)) @ np.abs(corner)) + entropy(q)
        loss = float(y @ constants + u @ corner) + entropy(q) - 2 * summation_error(len(y) + len(u)) * size
        rounding = float(self.space.rounding(self.source, self.size)) if self.careful else 0.0
        return min(1.0, math.exp(-max(loss - rounding, 0.0)))

    def asked(self, prob: float | None) -> float:
        """What the logit of 1 − p_k may be at most, or (without a probability) a rival's margin."""
        if prob is None or self.careful:
            return float(self.space.needed(prob))
        return math.log((1 - prob) / prob)

    def items(self, g: Floats, scale: float = 1.0) -> tuple[Any, Floats, Floats]:
        """`CostSpace.items` for this source."""
        items, t_lo, t_hi = self.space.items(self.source[None], self.lo[None], self.hi[None], g, scale)
        return items.of(0), t_lo[0], t_hi[0]


def nothing_found(space: CostSpace, k: int, n_nodes: int, bound: float = 0.0, proof: Proof | None = None) -> Result:
    """The search for class ``k`` was stopped before it found anything."""
    unknown, x, proba = math.nan, np.full(space.model.n_features, np.nan), np.full(space.model.n_classes, np.nan)
    shown = {"cost": math.inf, "bound": bound, "gap": math.inf, "n_nodes": n_nodes, "proof": proof}
    return Result(k, Status.STOPPED, unknown, unknown, unknown, 0.0, proba, x=x, **shown)
