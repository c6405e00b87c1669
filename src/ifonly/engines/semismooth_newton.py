"""Limits, any number of classes, nothing discrete: semismooth Newton in class space (`semismooth`), and its certificate.

What this does not solve, because the goal is out of reach or the limits contradict each other, `cases` does: one case, with a
proof.
"""

from dataclasses import replace

import numpy as np

from ifonly.engines import on_device, responses, semismooth, semismooth_rows
from ifonly.engines.budget import MAX_ITER, Budget
from ifonly.engines.cases import Cases, impossible, proved
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.limited import SPARES, LimitedEngine, stays, within_rules
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.protocol import Rows
from ifonly.engines.semismooth_reach import reach
from ifonly.model.errors import InputError
from ifonly.model.numerics import Flags, Floats
from ifonly.problem.asked import Aim, Aims, Asked
from ifonly.problem.goals import Weights
from ifonly.problem.results import Result, Results
from ifonly.problem.status import REL_GAP, Status
from ifonly.rows.sources import Sources

__all__ = ["SemismoothNewton", "sure"]


SETTLED = 1e-6  # relative: a gap that rounding leaves where costs have a matrix of condition 1e6 and more


class SemismoothNewton(LimitedEngine):
    """Bounds, directions, frozen features, ℓ1, scales, a matrix and linear rules, for any number of classes.

    Where there are limits on features one by one, compiled loops do most rows (`semismooth_rows`), or a GPU (`on_device`).
    """

    on_device = True

    def refuses(self, asked: Asked) -> str | None:
        """See `LimitedEngine`; what a GPU has no room for is the user's to know."""
        if asked.conditions is not None and asked.question.backend == "cuda":
            reason = on_device.unfit(CostSpace.of(asked))
            if reason is not None:
                raise InputError(f'backend="cuda" with limits is for {reason}; leave it out')
        return super().refuses(asked)

    def one(self, asked: Asked, sources: Sources, aim: Aim) -> Result:
        """The answer for one source; on a GPU it is a table of one row."""
        if asked.question.backend != "cuda":
            return super().one(asked, sources, aim)
        out = np.empty((1, asked.model.n_features))
        found = self.solve(asked, Rows(sources, Aims.of(aim), out=out)).with_x(out)[0]
        if found.status is Status.INVALID:
            return self.one(asked.at(backend="auto"), sources, aim)  # says what is wrong
        return found

    def chunk_rows(self, asked: Asked) -> int | None:
        """A GPU cuts tables itself."""
        return None if asked.question.backend == "cuda" else super().chunk_rows(asked)

    def towards(self, space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """The answer for one source and class."""
        return semismooth_rows.one(space, source, aim, budget, tol) or super().towards(space, source, aim, budget, tol)

    def solve(self, asked: Asked, rows: Rows) -> Results:
        """The answers for a piece of a table, on a GPU or in a compiled loop as far as those go."""
        return on_device.solve(asked, rows, self) if asked.question.backend == "cuda" else super().solve(asked, rows)

    def loop(self, asked: Asked, X: Floats, aims: Aims, results: Results) -> Flags:
        """See `LimitedEngine`."""
        return semismooth_rows.solve(asked, X, aims, results)

    def unfit(self, space: CostSpace, weighed: bool) -> str | None:
        """What takes a search."""
        return "whole numbers, categories or few changes take a search" if space.conditions.discrete else None

    def answer(self, problem: LimitedProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        here = stays(problem, aim)
        if here is not None:
            return here
        found = None if impossible(problem, aim, budget) else _nearest(problem, aim, tol, budget)
        return sure(problem, aim, found, budget)


def sure(problem: LimitedProblem, aim: Aim, found: Result | None, budget: Budget) -> Result:
    """An answer that is as exact as it says, or else what `cases` finds."""
    if found is not None:
        size = problem.textbook.relative_to(aim.value(found), weighed=aim.lam is not None)
        if found.status is not Status.EXACT or found.gap <= REL_GAP * size:
            return found
        found = proved(problem, aim, found, budget)
        if found.status is not Status.STOPPED or budget.late:
            return found
    other = Cases().answer(problem, aim, replace(budget, max_iter=MAX_ITER), None)
    if found is None:
        return other
    best = other if np.isfinite(other.x).all() and aim.value(other) < aim.value(found) else found
    size = problem.textbook.relative_to(aim.value(best), weighed=aim.lam is not None)
    settled = best.status is Status.STOPPED and best.gap <= SETTLED * size and not budget.late
    return replace(best, status=Status.CONVERGED) if settled else best


def _nearest(problem: LimitedProblem, aim: Aim, tol: float | None, budget: Budget) -> Result | None:
    """The least E or cost within the rules; None where nothing was found that keeps them, or meets the goal."""
    x = problem.source
    for spare in SPARES:  # the allowance for rounding grows with x, and may be too small for our own
        harder = problem.but(ahead=(1 + spare) * problem.rounding(x))
        kept = within_rules(harder, lambda part: _solved(part, aim, tol, budget))
        if kept is None:
            return None
        x, found = kept
        if problem.space.margin is None or problem.reached(x, None):
            return found
    return None


def _solved(problem: LimitedProblem, aim: Aim, tol: float | None, budget: Budget) -> tuple[Floats, Result] | None:
    """The best point, up to the rounding of rules and of a margin, with its certificate; None where none has the wanted p."""
    terms, weights = problem.terms(budget), Weights.of_cost()
    if aim.prob is None:
        at, n_iter, done = semismooth.solve(terms, aim.lam or 1.0, tol=tol or 0.0)
        x, more = problem.placed(at.t, at.nu, at.weight), {}
        if aim.lam is not None:
            weights = Weights.given(aim.lam)
            more["status"] = Status.MAX_ITER if not done else Status.EXACT if tol is None else Status.CONVERGED
        return x, problem.certified(x, weights, at.nu, n_iter=n_iter, **more)
    t, nu = responses.nearest(terms)
    x = problem.placed(t, nu, 1.0)
    if problem.reached(x, aim.prob):  # the limits ask for more than the goal does
        return x, problem.certified(x, weights, nu)
    at, n_iter, met = reach(terms, problem.goal_of(aim.prob))
    x = problem.placed(at.t, at.nu, at.weight)
    return (x, problem.certified(x, Weights.found(at.lam), at.nu, aim.prob, n_iter=n_iter)) if met else None
