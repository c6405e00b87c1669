"""`one_multiplier` in compiled loops, for the rows of a table and for one source.

Where there is nothing but intervals a loop goes from a source to its certified answer (`native.intervals`). Else the items of
all rows are worked out here, searched by a loop, and certified here. Rows that a loop does not settle are left.
"""

import math
from typing import NamedTuple

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.limited import SPARES
from ifonly.engines.threads import available
from ifonly.model.numerics import EPS, Flags, Floats, Indices
from ifonly.native import intervals, one_multiplier
from ifonly.problem.asked import NEAREST, Aim, Aims, Asked
from ifonly.problem.results import Result, Results
from ifonly.problem.status import REL_GAP, Status

__all__ = ["only_intervals", "solve", "solve_one"]


FEW_NODES = 1024  # a few milliseconds


def solve(asked: Asked, X: Floats, aims: Aims, results: Results) -> Flags:
    """Fill in the rows that compiled loops settle; which are left."""
    left = np.ones(len(X), dtype=bool)
    space = CostSpace.of(asked)
    if space.loops is None:
        return left
    targets = aims.targets.copy()
    if aims.among is not None:  # a set of one
        targets[:] = aims.among[0]
    box = _box(space)
    if box is not None:
        return _intervals(asked, space, box, X, targets, aims, results)
    with np.errstate(invalid="ignore", over="ignore"):
        z = space.model.scores(X)
        good = np.isfinite(z).all(axis=1) & np.isfinite(X).all(axis=1)
    near = (targets == NEAREST) & good
    targets[near] = 1 - z[near].argmax(axis=1)
    for k in (0, 1):
        here = np.flatnonzero(good & (targets == k))
        if len(here):
            left[here] = ~_Searched.of(asked, space, X, k, here, aims, results).solve()
    return left


def only_intervals(asked: Asked) -> bool:
    """Whether rows go through the loop for intervals."""
    space = CostSpace.of(asked)
    return space.loops is not None and _box(space) is not None


def solve_one(space: CostSpace, source: Floats, aim: Aim) -> Result | None:
    """The exact answer for one source, where there is nothing but intervals; None where the loop does not settle it."""
    box = None if space.loops is None else _box(space)
    if box is None:
        return None
    k = aim.k if aim.among is None else aim.among[0]
    goal = np.array([space.needed(aim.prob)]), np.array([aim.prob or 0.0])
    x, ended, numbers = intervals.reach(box, source[None], np.array([k]), *goal)
    found = dict(zip(intervals.COLUMNS, numbers[0].tolist(), strict=True))
    if ended[0] != intervals.REACHED or not found["gap"] <= REL_GAP * found["cost"]:
        return None
    k, p, rival, w = int(found.pop("target")), found.pop("p_target"), found.pop("p_rival"), found.pop("w")
    del found["best"]
    multipliers = None if space.margin is None else np.array([w])
    return Result(k, Status.EXACT, proba=np.array([rival, p] if k else [p, rival]), x=x[0], multipliers=multipliers, **found)


def _box(space: CostSpace) -> intervals.Box | None:
    """What the loop for intervals takes; None where there is more: grids, categories, mapped numbers, or few that may move."""

    def make() -> intervals.Box | None:
        mapped = any(column.maps or column.missing is not None for column in space.model.encoding.columns)
        more = mapped or space.conditions.discrete or space.limits.groups
        return None if more else intervals.Box.of(space)

    return space.conditions.keep("box", make)


def _intervals(
    asked: Asked, space: CostSpace, box: intervals.Box, X: Floats, targets: Indices, aims: Aims, results: Results
) -> Flags:
    """All rows in the loop for intervals; which are left."""
    logits = np.broadcast_to(space.needed(aims.prob), len(X))
    probs = logits if aims.prob is None else aims.prob
    x, ended, numbers = intervals.reach(box, X, targets, logits, probs, available(asked.question.threads))
    done = np.flatnonzero((ended == intervals.REACHED) | (ended == intervals.UNREACHABLE))
    found = dict(zip(intervals.COLUMNS, numbers[done].T, strict=True))
    results.x[done] = x[done]
    k = found["target"].astype(np.intp)
    results.target[done], results.proba[done, k], results.proba[done, 1 - k] = k, found["p_target"], found["p_rival"]
    for name in ("lam", "distance", "objective", "grad_norm", "cost", "bound", "gap"):
        getattr(results, name)[done] = found[name]
    results.status[done] = np.where(ended[done] == intervals.REACHED, Status.EXACT, Status.UNREACHABLE)
    out = ended[done] == intervals.UNREACHABLE
    results.ceiling[done] = np.where(out & (space.margin is None), found["best"], 1.0)
    _out_of_reach(results, done[out], space.margin is None)
    if space.margin is not None:
        _put_multipliers(results, done[~out], found["w"][~out])
    wide = np.zeros(len(X), dtype=bool)
    wide[done] = (results.status[done] == Status.EXACT) & ~(results.gap[done] <= REL_GAP * results.cost[done])
    return (ended == intervals.LEFT) | wide


def _out_of_reach(results: Results, index: Indices, weighed: bool) -> None:
    """Rows that nothing brings to the goal claim nothing but that: no λ, no gradient, no gap."""
    results.lam[index], results.grad_norm[index], results.gap[index] = np.inf, 0.0, 0.0
    results.bound[index] = results.cost[index]
    p = results.proba[index, results.target[index]]
    results.objective[index] = -np.log(p) if weighed else results.cost[index]


def _put_multipliers(results: Results, index: Indices, w: Floats) -> None:
    """The margin's multiplier of each row."""
    assert results.multipliers is not None
    for n, value in zip(index.tolist(), w.tolist(), strict=True):
        results.multipliers[n] = np.array([value])


class _Searched(NamedTuple):
    """Rows with one target that go through the search loop."""

    space: CostSpace
    X: Floats
    k: int
    place: Indices  # of these rows in the results
    prob: Floats | None
    budget: Budget
    threads: int
    results: Results

    @classmethod
    def of(cls, asked: Asked, space: CostSpace, X: Floats, k: int, here: Indices, aims: Aims, results: Results) -> "_Searched":
        prob = None if aims.prob is None else aims.prob[here]
        budget, threads = Budget.of(asked.question), available(asked.question.threads)
        return cls(space, X[here], k, here, prob, budget, threads, results)

    def solve(self) -> Flags:
        """Which rows are done. Left are those that only have to be moved into their limits, or cannot reach the goal."""
        space, X = self.space, self.X
        lo, hi, wrong = space.around(X)
        done = np.zeros(len(X), dtype=bool)
        done[list(wrong)] = True  # INVALID
        z = space.model.scores(X)
        margins = z[:, 1 - self.k] - z[:, self.k]
        logit = np.broadcast_to(space.needed(self.prob), len(X))
        more = 0.0 * logit if self.prob is None else np.log((1 - self.prob) / self.prob) - logit  # is needed than was asked for
        short = margins > logit - space.rounding(X, np.abs(margins), self.prob)
        stay = np.flatnonzero(~done & ~short & ~space.limits.must_move(X, lo, hi).any(axis=1))
        self._stay(stay, margins[stay])
        done[stay] = True
        todo = np.flatnonzero(~done & short)
        items, t_lo, t_hi = space.items(X, lo, hi, -space.rows(self.k)[0])
        cap = space.cap(items)
        timed = not math.isinf(self.budget.seconds)  # rows that take long are left to where the clock is looked at
        most = min(self.budget.nodes, FEW_NODES) if timed else self.budget.nodes
        x = X.copy()
        for spare in SPARES:
            if not len(todo):
                break
            prob = None if self.prob is None else self.prob[todo]
            rounding = space.rounding(x[todo], np.abs(margins[todo]), prob)
            harder = (2 + spare) * rounding + more[todo]  # than it is if the margins are off, too
            need, box = (margins[todo] - logit[todo] + (1 + spare) * rounding, harder), (t_lo[todo], t_hi[todo])
            t, choice, numbers = one_multiplier.reach(need, items.of(todo), box, cap, self.budget.gap, most, self.threads)
            x[todo] = space.placed(X[todo], t, choice, items.first, lo[todo], hi[todo])
            z = space.model.scores(x[todo])
            allowed = logit[todo] - space.rounding(x[todo], np.abs(margins[todo]), prob)
            there = z[:, 1 - self.k] - z[:, self.k] <= allowed
            cost, w, _, _, ended = numbers.T
            sure = np.isfinite(cost) & (w > 0) & np.isfinite(w) & ((ended > 0) | (most == self.budget.nodes))
            filled = todo[there & sure]
            done[filled] = self._fill(filled, x[filled], numbers[there & sure])
            todo = todo[~there & sure]
        return done

    def _stay(self, rows: Indices, margins: Floats) -> None:
        """Rows that are there already and within their limits: they are their own answers."""
        results, place, k = self.results, self.place[rows], self.k
        loss = np.logaddexp(0.0, margins)
        results.x[place], results.target[place] = self.X[rows], k
        results.proba[place, k], results.proba[place, 1 - k] = np.exp(-loss), np.exp(-np.logaddexp(0.0, -margins))
        results.objective[place] = loss if self.space.margin is None else 0.0
        results.lam[place], results.distance[place], results.grad_norm[place] = np.inf, 0.0, 0.0
        results.status[place] = Status.EXACT
        results.cost[place], results.bound[place], results.gap[place] = 0.0, 0.0, 0.0

    def _fill(self, rows: Indices, x: Floats, numbers: Floats) -> Flags:
        """What the loop found, with its certificate (`one_multiplier` for many); which rows are as exact as they should be."""
        space, results, place, k = self.space, self.results, self.place[rows], self.k
        _, w, nodes, bound, _ = numbers.T
        z = space.model.scores(x)
        s = z[:, 1 - k] - z[:, k]
        others, loss = np.exp(-np.logaddexp(0.0, -s)), np.logaddexp(0.0, s)
        t = (x - self.X[rows]) * space.per_unit
        square = np.vecdot(t, t)
        cost = 0.5 * square + np.abs(t) @ space.mu
        # λ∇cost = (1 − p_k)·g at the answer; with a margin it is a rule like any other, with w for its multiplier
        lam = others / w if space.margin is None else np.ones(len(x))
        results.x[place], results.target[place] = x, k
        results.proba[place, k], results.proba[place, 1 - k] = np.exp(-loss), others
        results.objective[place] = lam * cost + loss if space.margin is None else cost
        results.lam[place], results.distance[place] = lam, np.sqrt(square)
        if space.conditions.discrete:
            bound = np.minimum(bound, cost)
            gap, norm = cost - bound, np.zeros(len(x))
            met = np.where(gap <= self.budget.gap * cost, Status.CONVERGED, Status.STOPPED)
            results.status[place] = np.where(gap <= REL_GAP * cost, Status.EXACT, met)
            results.n_nodes[place] = nodes
        else:
            norm, gap = self._certificate(rows, x, w, lam)
            gap = np.minimum(gap, cost)
            bound = cost - gap
            results.status[place] = Status.EXACT
            if space.margin is not None:
                _put_multipliers(results, place, w)
        results.grad_norm[place] = norm
        results.cost[place], results.bound[place], results.gap[place] = cost, bound, gap
        return gap <= max(self.budget.gap, REL_GAP) * cost

    def _certificate(self, rows: Indices, x: Floats, w: Floats, lam: Floats) -> tuple[Floats, Floats]:
        """Bounds on the least subgradient of E, and on the cost above the least (`LimitedProblem.certificate` for many)."""
        space, X = self.space, self.X[rows]
        c, mu, row = space.per_unit, space.mu, space.rows(self.k)[0]
        z = space.model.scores(x)
        s = z[:, 1 - self.k] - z[:, self.k]
        others, loss = np.exp(-np.logaddexp(0.0, -s)), np.logaddexp(0.0, s)
        t = (x - X) * c
        lo, hi, _ = space.limits.around(X)
        base = lam[:, None] * t + (others if space.margin is None else w)[:, None] * row
        soft = lam[:, None] * mu
        a = np.where(x <= lo, -np.inf, np.where(t == 0.0, base - soft, base + soft * np.sign(t)))
        b = np.where(x >= hi, np.inf, np.where(t == 0.0, base + soft, base + soft * np.sign(t)))
        xi = np.where(a > 0, a, np.where(b < 0, b, 0.0))
        unsure = space.rounding(x, np.abs(space.model.scores(X)).max(axis=1))
        pull = others * np.linalg.norm(row) if space.margin is None else np.zeros(len(x))
        rounding = pull * (2 * unsure + 10 * EPS)
        rounding += 4 * EPS * lam * (np.linalg.norm(t, axis=1) + np.linalg.norm(c * np.abs(X), axis=1))
        norm = np.sqrt(np.vecdot(xi, xi)) + rounding
        if self.prob is None:
            excess = w * (np.maximum(-s - (space.margin or 0.0), 0.0) + unsure)
        else:
            prob = self.prob[rows]
            excess = np.maximum(-loss - np.log(prob), 0.0) + others * unsure + 4 * EPS * (loss - np.log(prob))
        return norm, (norm**2 / (2 * lam) + excess) / lam
