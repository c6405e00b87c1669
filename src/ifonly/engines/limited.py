"""What the engines for problems with a cost and limits share: one source, many one by one, the nearest class.

Such an engine has ``answer(problem, aim, …)`` for one `CostProblem`. Which engine is for which problem:

* two classes and a probability or a margin, with limits on features one by one: `one_multiplier`, where there are compiled
  loops;
* anything else without whole numbers, categories or a largest number of changes: `semismooth_newton`;
* anything else: `cases`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ifonly.engines import nearest
from ifonly.engines.budget import Budget
from ifonly.engines.cost_problem import CostProblem, nothing_found
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.protocol import Engine, Piece, put_row
from ifonly.model.numerics import Flags, Floats
from ifonly.problem.asked import NEAREST, Aim, Aims, Asked
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources

__all__ = ["CHASE", "SPARES", "LimitedEngine", "stays", "within_rules"]

CHASE = 12  # times that an allowance for rounding is tried, with more of it each time
SPARES = tuple(2.0 ** (i - 3) for i in range(CHASE))  # what our own rounding needs besides, as a share of the allowance
CHUNK_ROWS = 4096
FOR_SOLVING = 0.5  # of the time is left for solving when bounds are no longer made any better


class LimitedEngine(Engine):
    """See the module."""

    makes_x = True
    row_by_row = True

    def refuses(self, asked: Asked) -> str | None:
        """Those for a GPU, and what `unfit` says."""
        if asked.question.backend == "cuda":
            return "it does not run on a GPU"
        return self.unfit(CostSpace.of(asked), asked.question.lam is not None)

    @abstractmethod
    def unfit(self, space: CostSpace, weighed: bool) -> str | None:
        """Why this engine is not for these conditions (``weighed``: with λ); None if it is."""

    @abstractmethod
    def answer(self, problem: CostProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """The least E, or the least cost with the goal met; where that is out of reach, the best there is."""

    def one(self, asked: Asked, sources: Sources, aim: Aim) -> Result:
        """The answer for one source."""
        source = sources.dense(0)
        if not np.isfinite(source).all():
            raise sources.reject(0)
        return self.row(CostSpace.of(asked), source, aim, Budget.of(asked.question), asked.question.tol)

    def row(self, space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """The answer for one source, for a class or the nearest."""
        tried: list[Result] = []
        left_out: list[Result] = []  # the first that was not tried: no other has a lower bound

        def solve(k: int) -> Result:
            part = budget if len(tried) == len(classes) - 1 else budget.half()
            if left_out or budget.overdue or (budget.late and any(result.is_plan for result in tried)):
                if not left_out:
                    left_out.append(nothing_found(space, k, 0, float(bounds[classes == k][0])))
                return left_out[0]
            tried.append(self.towards(space, source, aim._replace(k=k), part, tol))
            return tried[-1]

        if aim.k != NEAREST:
            return self.towards(space, source, aim, budget, tol)
        z = space.model.scores(source)
        classes = nearest.candidates(space.model, aim, int(z.argmax()))
        bounds = _alone(space, z, aim)[classes] if space.invertible(budget) else np.zeros(len(classes))
        # A compiled loop has solved a class before its bound is any sharper.
        sharper = aim.lam is None and not space.tied and space.model.n_classes > 2 and not space.looped
        sharpen = (lambda k: _within(space, source, k, aim) if budget.all_but(FOR_SOLVING) > 0 else 0.0) if sharper else None
        return _of_all(nearest.search(classes, bounds, solve, aim, sharpen), [*tried, *left_out], aim, budget)

    def towards(self, space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """The answer for one source and the class ``aim.k``."""
        return self.answer(CostProblem(space, source, aim.k, aim.prob), aim, budget, tol)

    def chunk_rows(self, asked: Asked) -> int | None:
        """A table of answers is kept anyway; this many are handed to a row loop at once."""
        return CHUNK_ROWS

    def loop(self, asked: Asked, X: Floats, aims: Aims, results: Results) -> Flags:
        """Fill in the rows that a compiled loop settles; which are left: all, where there is no loop."""
        return np.ones(len(X), dtype=bool)

    def solve(self, asked: Asked, rows: Piece) -> Results:
        """The answers for a piece of a table, by the loop as far as that goes, others one by one; some stay INVALID and NaN."""
        X = rows.sources.table()
        X = X if asked.per_source == 1 else X[rows.each]
        rows.out[...] = np.nan
        results = Results.empty(rows.aims.targets, classes=asked.model.n_classes, x=rows.out, limited=True)
        left = np.flatnonzero(self.loop(asked, X, rows.aims, results))
        if not len(left):
            return results
        some = X if len(left) == len(X) else X[left]
        with np.errstate(invalid="ignore", over="ignore"):
            left = left[np.isfinite(asked.model.scores(some)).all(axis=1) & np.isfinite(some).all(axis=1)]
        space, budget, tol = CostSpace.of(asked), Budget.of(asked.question), asked.question.tol
        for i in left.tolist():
            put_row(results, i, lambda i=i: self.row(space, X[i], rows.aims.one(i), budget.anew(), tol))
        return results


def _alone(space: CostSpace, z: Floats, aim: Aim) -> Floats:
    """Lower bounds on what is minimised for each class, from all scores: each of the strongest rivals alone."""
    A = space.model.A
    strong, rows = np.argsort(-z)[: nearest.BOUNDING], space.units(A - A.mean(axis=0))  # what rows share would only cancel
    squares = np.vecdot(rows, rows)
    apart = squares[:, None] - 2 * (rows @ rows[strong].T) + squares[strong]
    lengths = nearest.by_subtraction(apart, math.sqrt(squares.max()))
    found = nearest.bounds_by_few(z, strong, lengths, aim.lam, space.needed(aim.prob))
    return found if aim.lam is not None else 0.5 * found * found


def _within(space: CostSpace, source: Floats, k: int, aim: Aim) -> float:
    """A lower bound on the cost for class ``k``, of all rivals, within the limits on features."""
    z, (lo, hi, _) = space.model.scores(source), space.limits.around(source[None])
    box = ((end[0] - source) * space.per_unit for end in (lo, hi))
    margins, top = z[space.model.rivals(k)] - z[k], space.needed(aim.prob)
    return nearest.bound_of_all(space.rows(k), margins, top, space.mu, *box, entropic=aim.prob is not None)


def _of_all(found: Result, tried: list[Result], aim: Aim, budget: Budget) -> Result:
    """The nearest of the classes that were tried, as far as that is known: what others leave open is left open of it."""
    others = [other for other in tried if other is not found and other.status is not Status.UNREACHABLE]
    if found.status is Status.UNREACHABLE:  # all are, or nothing is known
        return others[0] if others else found
    bound, value = min((other.bound for other in others), default=math.inf), aim.value(found)
    status = Status.of_gap(value - bound, value, budget.gap)
    if not value - bound > found.gap or status is Status.EXACT:
        return found
    proof = None if found.status is Status.EXACT else found.proof  # of its own class: it would show more than is claimed
    return replace(found, bound=bound, gap=value - bound, status=status, proof=proof)


def stays(problem: CostProblem, aim: Aim) -> Result | None:
    """The source as the answer, where it is within the limits and meets the goal; None otherwise."""
    x = problem.source
    return problem.result(x, math.inf) if aim.lam is None and problem.reached(x, aim.prob) and problem.holds(x) else None


def within_rules(problem: CostProblem, budget: Budget, attempt: Callable[[CostProblem], tuple[Floats, Any] | None]) -> Any:
    """What an attempt finds, x first, with linear limits made tighter until x keeps them in floating point.

    Where none does so, the first that keeps them up to rounding. None where it finds nothing, or never what does: whether
    anything keeps them is for others to say.
    """
    limits, nearly = problem.space.limits, None
    for _ in range(CHASE):
        found = attempt(problem)
        if found is None:
            break
        if not len(limits.C) or limits.broken(problem.source, found[0], edge=0) is None:
            return found
        if nearly is not None and np.array_equal(nearly[0], found[0]):
            break  # nothing can be done about it
        if nearly is None and limits.broken(problem.source, found[0]) is None:
            nearly = found
        if budget.overdue:
            break
        problem = problem.but(tight=8.0 * problem.tight)
    return nearly
