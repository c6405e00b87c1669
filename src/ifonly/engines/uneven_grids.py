"""Numbers that a pipeline bends and of which only some values are allowed: whole numbers after ``log1p``, say, or quantiles.

Where the classifier sees such a number, its values are a set of points at uneven distances. So a problem is solved as if all
numbers between were allowed; a feature that ends between two points is split there, "at most the one" and "at least the other";
and the solution with all such features at a point beside is a candidate for the answer. Best bound first, as in `branch`; what
is solved in each node is the whole problem, with its categories and all.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.branching import Branching
from ifonly.engines.budget import Budget
from ifonly.engines.limited import LimitedEngine
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.one_multiplier import OneMultiplier
from ifonly.engines.semismooth_newton import SemismoothNewton
from ifonly.engines.tree import Tree
from ifonly.model.errors import InputError
from ifonly.problem.conditions import Conditions
from ifonly.problem.question import Aim
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["LIMITED", "UnevenGrids", "engine_for"]

Floats = NDArray[np.float64]
Box = tuple[Floats, Floats]
Solve = Callable[[LimitedProblem], Result]

MOST = 2000  # nodes: each is a search of its own


def search(problem: LimitedProblem, solve: Solve, value: Callable[[Result], float], budget: Budget) -> Result:
    """The best answer with every such feature at one of its points; ``value`` is what is minimised."""
    tree = Tree(_root(problem), budget, MOST, value)
    worst, n_inner = None, 0
    for known, (lo, hi) in tree.open():
        # 1. The relaxation of the most promising box, and where that puts the features.
        relaxed = _solved(problem, solve, lo, hi)
        if relaxed is None or relaxed.status is Status.UNREACHABLE or not np.isfinite(relaxed.x).all():
            worst = worst or relaxed
            continue
        n_inner += relaxed.n_nodes
        bound, between = max(known, relaxed.bound), _between(problem, relaxed.x)
        if tree.hopeless(bound) or not between:
            tree.offer(None if between else relaxed)
            tree.close(bound)
            continue
        # 2. Candidates: all features to the point that helps, and to the nearest.
        for sides in _sides(problem, relaxed.x, between):
            found = _solved(problem, solve, *_fixed(problem, lo, hi, relaxed.x, sides))
            tree.offer(found)
            worst = worst or (found if found is not None and found.status is Status.UNREACHABLE else None)
        # 3. Two boxes without what lies between.
        d, below, above = max(between, key=lambda gap: (gap[2] - gap[1]) * problem.space.per_unit[gap[0]])
        for box in _halves(lo, hi, d, below, above):
            tree.push(bound, box)
    if tree.best is None:
        return _nothing(problem, solve, worst, tree.done, tree.n_nodes)
    return tree.answer(tree.best, n_inner)


def _root(problem: LimitedProblem) -> Box:
    """The whole problem, its bounds at points that are allowed."""
    lo, hi = problem.lo.copy(), problem.hi.copy()
    for part in problem.space.limits.uneven:
        d = part.feature
        if lo[d] < hi[d]:
            lo[d], hi[d] = _inside(part.beside, float(lo[d]), float(hi[d]), float(problem.source[d]), bool(part.step))
            if lo[d] > hi[d]:
                label = problem.model.feature_label(d)
                raise InputError(f"{label} has no value within its bounds that is a multiple of {part.step:g}")
    return lo, hi


def _fixed(problem: LimitedProblem, lo: Floats, hi: Floats, x: Floats, sides: dict[int, float]) -> Box:
    """The box with every such feature at a point: those of ``sides``, or where x has it."""
    lo, hi = lo.copy(), hi.copy()
    for part in problem.space.limits.uneven:
        lo[part.feature] = hi[part.feature] = sides.get(part.feature, x[part.feature])
    return lo, hi


def _halves(lo: Floats, hi: Floats, d: int, below: float, above: float) -> Iterator[Box]:
    """The box up to one point of a feature, and that from the next on; those that have a point."""
    for side, end in ((0, below), (1, above)):
        part_lo, part_hi = lo.copy(), hi.copy()
        (part_hi if side == 0 else part_lo)[d] = end
        if np.isfinite(end) and part_lo[d] <= part_hi[d]:
            yield part_lo, part_hi


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
    sides = _sides(problem, worst.x, between)[0]
    found = _solved(problem, solve, *_fixed(problem, problem.lo, problem.hi, worst.x, sides))
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
