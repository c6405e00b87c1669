"""Numbers that a pipeline bends and of which only some values are allowed: whole numbers after ``log1p``, say, or quantiles.

Where the classifier sees such a number, its values are a set of points at uneven distances. So a problem is solved as if all
numbers between were allowed; a feature that ends between two points is split there, "at most the one" and "at least the other";
and the solution with all such features at a point beside is a candidate for the answer. Best bound first, as in `branch`; what
is solved in each node is the whole problem, with its categories and all.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.branching import Branching
from ifonly.engines.budget import Budget
from ifonly.engines.limited import LimitedEngine
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.one_multiplier import OneMultiplier
from ifonly.engines.semismooth_newton import SemismoothNewton
from ifonly.model.errors import InputError
from ifonly.problem.conditions import Conditions
from ifonly.problem.question import Aim
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["LIMITED", "UnevenGrids", "engine_for"]

Floats = NDArray[np.float64]
Solve = Callable[[LimitedProblem], Result]

MOST = 2000  # nodes: each is a search of its own


def search(problem: LimitedProblem, solve: Solve, value: Callable[[Result], float], budget: Budget) -> Result:
    """The best plan with every such feature at one of its points; ``value`` is what is minimised."""
    uneven = problem.space.limits.uneven
    lo, hi = problem.lo.copy(), problem.hi.copy()
    for part in uneven:
        d = part.feature
        if lo[d] < hi[d]:
            lo[d], hi[d] = _inside(part.beside, float(lo[d]), float(hi[d]), float(problem.source[d]), bool(part.step))
            if lo[d] > hi[d]:
                label = problem.model.feature_label(d)
                raise InputError(f"{label} has no value within its bounds that is a multiple of {part.step:g}")
    serial, best, worst, n_nodes, n_inner = count(), None, None, 0, 0
    heap: list[tuple[float, int, Floats, Floats]] = [(-math.inf, next(serial), lo, hi)]
    least, cut = math.inf, math.inf
    while heap and n_nodes < min(MOST, budget.nodes) and not budget.late:
        # 1. The most promising box; all others have worse bounds.
        known, _, lo, hi = heap[0]
        if known >= least - budget.gap * abs(least):
            break
        heapq.heappop(heap)
        n_nodes += 1
        # 2. Its relaxation, and where that puts the features.
        plan = _solved(problem, solve, lo, hi)
        if plan is None or plan.status is Status.UNREACHABLE or not np.isfinite(plan.x).all():
            worst = worst or plan
            continue
        n_inner += plan.n_nodes
        bound = max(known, plan.bound)
        if bound >= least - budget.gap * abs(least):
            cut = min(cut, bound)
            continue
        between = _between(problem, plan.x)
        if not between:
            best, least = plan, value(plan)
            cut = min(cut, bound)
            continue
        # 3. Candidates: all features to the point that helps, and to the nearest.
        for sides in _sides(problem, plan.x, between):
            fixed_lo, fixed_hi = lo.copy(), hi.copy()
            for part in uneven:
                d = part.feature
                fixed_lo[d] = fixed_hi[d] = sides.get(d, plan.x[d])
            found = _solved(problem, solve, fixed_lo, fixed_hi)
            if found is not None and found.status is not Status.UNREACHABLE and value(found) < least:
                best, least = found, value(found)
            elif found is not None and found.status is Status.UNREACHABLE:
                worst = worst or found
        # 4. Two boxes without what lies between.
        d, below, above = max(between, key=lambda gap: (gap[2] - gap[1]) * problem.space.per_unit[gap[0]])
        for side, end in ((0, below), (1, above)):
            part_lo, part_hi = lo.copy(), hi.copy()
            (part_hi if side == 0 else part_lo)[d] = end
            if np.isfinite(end) and part_lo[d] <= part_hi[d]:
                heapq.heappush(heap, (bound, next(serial), part_lo, part_hi))
    done = not heap or heap[0][0] >= least - budget.gap * abs(least)
    if best is None:
        return _nothing(problem, solve, worst, done, n_nodes)
    bound = min(least, cut, heap[0][0] if heap else math.inf)
    status = Status.EXACT if done and best.status is Status.EXACT else Status.STOPPED
    gap = max(least - bound, 0.0)
    return replace(best, bound=bound, gap=gap, status=status, n_nodes=n_nodes + n_inner, grad_norm=0.0)


def _solved(problem: LimitedProblem, solve: Solve, lo: Floats, hi: Floats) -> Result | None:
    """The problem in a box; None where the box has no point."""
    try:
        return solve(problem.but(lo=lo, hi=hi))
    except InputError:  # rules that no point of the box satisfies
        return None


def _inside(
    beside: Callable[[float], tuple[float, float]], lo: float, hi: float, own: float, grid: bool
) -> tuple[float, float]:
    """Bounds at points that are allowed; the source's own value is one, but for a grid."""
    low = beside(lo)[1] if np.isfinite(lo) else lo
    high = beside(hi)[0] if np.isfinite(hi) else hi
    if not grid and lo <= own <= hi:
        low, high = min(low, own), max(high, own)
    return low, high


def _between(problem: LimitedProblem, x: Floats) -> list[tuple[int, float, float]]:
    """The features that are between two points: feature, the point below, the one above."""
    found = []
    for part in problem.space.limits.uneven:
        d = part.feature
        at, own = float(x[d]), float(problem.source[d])
        below, above = part.beside(at)
        if below == above or (at == own and not part.step):
            continue
        if not part.step:
            below, above = (max(below, own), above) if own < at else (below, min(above, own))
        found.append((d, below, above))
    return found


def _sides(problem: LimitedProblem, x: Floats, between: list[tuple[int, float, float]]) -> list[dict[int, float]]:
    """Which point to take for each: the one that helps the target, then the nearest."""
    slope = problem.model.A if problem.model.scaling is None else problem.model.A / problem.model.scaling.scale
    pull = slope[problem.k] - slope[problem.rivals].mean(axis=0)
    exact = {part.feature: part.beside(float(x[part.feature]))[0] for part in problem.space.limits.uneven}
    at = {d: v for d, v in exact.items() if abs(v - x[d]) <= 1e-13 * (1 + abs(v))}  # at a point up to rounding
    helps = {
        d: above if (pull[d] > 0 and np.isfinite(above)) or not np.isfinite(below) else below for d, below, above in between
    }
    nearest = {d: above if above - x[d] < x[d] - below else below for d, below, above in between}
    return [at | helps] if helps == nearest else [at | helps, at | nearest]


def _nothing(problem: LimitedProblem, solve: Solve, worst: Result | None, done: bool, n_nodes: int) -> Result:
    """No plan: none exists, or none was found in time. The best there is has these features at points, too."""
    if not done:
        return problem.nothing_found(n_nodes)
    if worst is None:
        raise InputError("the limits contradict each other: no point satisfies all of them")
    between = _between(problem, worst.x)
    if not between:
        return replace(worst, n_nodes=n_nodes)
    lo, hi, sides = problem.lo.copy(), problem.hi.copy(), _sides(problem, worst.x, between)[0]
    for part in problem.space.limits.uneven:
        lo[part.feature] = hi[part.feature] = sides.get(part.feature, worst.x[part.feature])
    found = _solved(problem, solve, lo, hi)
    return replace(found or worst, n_nodes=n_nodes, ceiling=worst.ceiling)


INNER: tuple[LimitedEngine, ...] = (OneMultiplier(), Branching(), SemismoothNewton())  # for what is solved in each node


class UnevenGrids(LimitedEngine):
    """Limits with numbers at uneven distances, over the engine for the rest of the problem."""

    def unfit(self, conditions: Conditions, weighed: bool) -> str | None:
        """What has no such numbers."""
        return None if conditions.limits.uneven else "no number is at uneven distances"

    def answer(self, problem: LimitedProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        inner = engine_for(problem.space.conditions, aim.lam is not None, INNER)
        return search(problem, lambda part: inner.answer(part, aim, budget, tol), aim.value, budget)


LIMITED: tuple[LimitedEngine, ...] = (UnevenGrids(), *INNER)


def engine_for(conditions: Conditions, weighed: bool, engines: tuple[LimitedEngine, ...] = LIMITED) -> LimitedEngine:
    """The first engine that is fit for these conditions (``weighed``: with λ)."""
    return next(engine for engine in engines if engine.unfit(conditions, weighed) is None)
