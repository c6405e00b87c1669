"""Limits, any number of classes, nothing discrete: semismooth Newton in class space (`semismooth`), and its certificate.

What this does not solve, because the goal is out of reach or the limits contradict each other, `cases` does: one case, with a
proof.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ifonly.engines import on_device, responses, semismooth, semismooth_rows
from ifonly.engines.budget import Budget
from ifonly.engines.cases import Cases, impossible, proved
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.limited import SPARES, LimitedEngine, stays, within_rules
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.protocol import Rows
from ifonly.engines.semismooth import MAX_ITER, Response
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
        if impossible(problem, aim, budget):
            found = None
        elif aim.lam is not None:
            found = _minimise(problem, aim.lam, tol, budget)
        else:
            found = _ahead(problem, budget) if aim.prob is None else _reach(problem, aim.prob, budget)
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
    other = Cases().answer(problem, aim, budget, None)
    if found is None:
        return other
    best = other if np.isfinite(other.x).all() and aim.value(other) < aim.value(found) else found
    size = problem.textbook.relative_to(aim.value(best), weighed=aim.lam is not None)
    settled = best.status is Status.STOPPED and best.gap <= SETTLED * size and not budget.late
    return replace(best, status=Status.CONVERGED) if settled else best


def _minimise(problem: LimitedProblem, lam: float, tol: float | None, budget: Budget) -> Result | None:
    """The least E; None where no point was found that keeps the rules."""
    kept = within_rules(problem, lambda part: _solved(part, lam, tol or 0.0, budget))
    if kept is None:
        return None
    problem, (x, at, n_iter, found) = kept
    status = Status.MAX_ITER if not found else Status.EXACT if tol is None else Status.CONVERGED
    return problem.certified(x, Weights.given(lam), at.nu, n_iter=n_iter, status=status)


def _reach(problem: LimitedProblem, prob: float, budget: Budget) -> Result | None:
    """The least cost with p_k ≥ prob; None where nothing was found that has it."""
    kept = within_rules(problem, _nearest)
    if kept is None:
        return None
    problem, (x, nu) = kept
    if problem.reached(x, prob):
        return problem.certified(x, Weights.of_cost(), nu)

    def attempt(part: LimitedProblem) -> tuple[Any, ...]:
        most = budget.max_iter or MAX_ITER
        at, n_iter, met = reach(part.terms(), part.goal_of(prob), max_iter=most, late=budget.is_late)
        return part.placed(at.t, at.nu, at.weight), at, n_iter, met

    kept = within_rules(problem, attempt)
    if kept is None:
        return None
    problem, (x, at, n_iter, met) = kept
    return problem.certified(x, Weights.found(at.lam), at.nu, prob, n_iter=n_iter) if met else None


def _ahead(problem: LimitedProblem, budget: Budget) -> Result | None:
    """The least cost with the target's score ahead of every other by the margin; None where nothing was found that has it."""
    x = problem.source
    for spare in SPARES:
        kept = within_rules(problem.but(ahead=(1 + spare) * problem.rounding(x)), lambda part: _solved(part, 1.0, 0.0, budget))
        if kept is None:
            return None
        problem, (x, at, n_iter, _) = kept
        if problem.reached(x, None):
            return problem.certified(x, Weights.of_cost(), at.nu, n_iter=n_iter)
    return None


def _solved(problem: LimitedProblem, lam: float, tol: float, budget: Budget) -> tuple[Floats, Response, int, bool]:
    most = budget.max_iter or MAX_ITER
    at, n_iter, found = semismooth.solve(problem.terms(), lam, tol=tol, max_iter=most, late=budget.is_late)
    return problem.placed(at.t, at.nu, at.weight), at, n_iter, found


def _nearest(problem: LimitedProblem) -> tuple[Floats, Floats]:
    t, nu = responses.nearest(problem.terms())
    return problem.placed(t, nu, 1.0), nu
