"""Limits, any number of classes, nothing discrete: semismooth Newton in class space (`semismooth`), and its certificate.

What this does not solve, because the goal is out of reach or the limits contradict each other, `cases` does: one case, with a
proof.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import semismooth
from ifonly.engines.budget import Budget
from ifonly.engines.cases import Cases, impossible
from ifonly.engines.limited import CHASE, LimitedEngine, stays, within_rules
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.semismooth import MAX_ITER, Response
from ifonly.problem.conditions import Conditions
from ifonly.problem.question import Aim
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["SemismoothNewton"]

Floats = NDArray[np.float64]


class SemismoothNewton(LimitedEngine):
    """Bounds, directions, frozen features, ℓ1, scales, a matrix and linear rules, for any number of classes."""

    def unfit(self, conditions: Conditions, weighed: bool) -> str | None:
        """What takes a search."""
        return "whole numbers, categories or few changes take a search" if conditions.discrete else None

    def answer(self, problem: LimitedProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        here = stays(problem, aim)
        if here is not None:
            return here
        found = None
        if not impossible(problem, aim, budget):
            if aim.lam is not None:
                found = _minimise(problem, aim.lam, tol, budget)
            else:
                found = _ahead(problem, budget) if aim.prob is None else _reach(problem, aim.prob, budget)
        return found or Cases().answer(problem, aim, budget, tol)


def _minimise(problem: LimitedProblem, lam: float, tol: float | None, budget: Budget) -> Result:
    """The least E."""
    problem, (x, at, n_iter, found) = within_rules(problem, lambda part: _solved(part, lam, tol or 0.0, budget))
    worth = problem.certificate(x, lam, 1.0, at.nu)
    status = Status.MAX_ITER if not found else Status.EXACT if tol is None else Status.CONVERGED
    result = problem.result(x, lam, grad_norm=worth.grad_norm, gap=worth.gap, n_iter=n_iter, status=status, multipliers=at.nu)
    return replace(result, bound=result.objective - worth.gap)


def _reach(problem: LimitedProblem, prob: float, budget: Budget) -> Result | None:
    """The least cost with p_k ≥ prob; None where that is out of reach."""
    problem, (x, nu) = within_rules(problem, _nearest)
    if problem.reached(x, prob):
        worth = problem.certificate(x, 1.0, 1.0, nu, cost_only=True)
        result = problem.result(x, np.inf, grad_norm=worth.grad_norm, gap=worth.gap, multipliers=nu)
        return replace(result, bound=result.cost - worth.gap)

    def attempt(part: LimitedProblem) -> tuple[Any, ...]:
        goal = part.goal_of(prob, lambda at: _placed(part, at))
        found = semismooth.reach(part.terms(), goal, max_iter=budget.max_iter or MAX_ITER, late=budget.is_late)
        return _placed(part, found.at), found

    problem, (x, (at, n_iter, met, _)) = within_rules(problem, attempt)
    if not met:
        return None
    worth = problem.certificate(x, at.lam, at.weight, at.nu)
    result = problem.result(x, at.lam, weight=at.lam, grad_norm=worth.grad_norm, n_iter=n_iter, multipliers=at.nu)
    gap = min((worth.gap + problem.excess(x, prob)) / at.lam, result.cost)
    return replace(result, bound=result.cost - gap, gap=gap)


def _ahead(problem: LimitedProblem, budget: Budget) -> Result | None:
    """The least cost with the target's score ahead of every other by the margin; None where that is out of reach."""
    x = problem.source
    for _ in range(CHASE):
        problem = problem.but(ahead=2 * problem.rounding(x))
        problem, (x, at, n_iter, _) = within_rules(problem, lambda part: _solved(part, 1.0, 0.0, budget))
        if problem.is_ahead(x):
            worth = problem.certificate(x, 1.0, 1.0, at.nu)
            claims = {"grad_norm": worth.grad_norm, "gap": worth.gap, "n_iter": n_iter, "multipliers": at.nu}
            result = problem.result(x, 1.0, **claims)
            return replace(result, bound=result.cost - worth.gap)
    return None


def _solved(problem: LimitedProblem, lam: float, tol: float, budget: Budget) -> tuple[Floats, Response, int, bool]:
    most = budget.max_iter or MAX_ITER
    at, n_iter, found = semismooth.solve(problem.terms(), lam, tol=tol, max_iter=most, late=budget.is_late)
    return _placed(problem, at), at, n_iter, found


def _nearest(problem: LimitedProblem) -> tuple[Floats, Floats]:
    t, nu = semismooth.nearest(problem.terms())
    return problem.placed(t, nu, 1.0), nu


def _placed(problem: LimitedProblem, at: Response) -> Floats:
    return problem.placed(at.t, at.nu, at.weight)
