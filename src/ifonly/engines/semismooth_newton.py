"""Limits, any number of classes, nothing discrete: semismooth Newton in class space (`semismooth`), and its certificate."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import semismooth
from ifonly.engines.best_margin import best_margin
from ifonly.engines.budget import Budget
from ifonly.engines.limited import CHASE, LimitedEngine, check_feasible, stays, within_rules
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.semismooth import MAX_ITER, Response
from ifonly.problem.conditions import Conditions
from ifonly.problem.question import Aim
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["SemismoothNewton", "out_of_margin"]

Floats = NDArray[np.float64]


class SemismoothNewton(LimitedEngine):
    """Bounds, directions, frozen features, ℓ1, scales, a matrix and linear rules, for any number of classes."""

    def unfit(self, conditions: Conditions, weighed: bool) -> str | None:
        """What takes a search."""
        return "whole numbers, categories or few changes take a search" if conditions.branched else None

    def answer(self, problem: LimitedProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        most = budget.max_iter or MAX_ITER
        if aim.lam is not None:
            return _minimise(problem, aim.lam, tol, most)
        here = stays(problem, aim)
        if here is not None:
            return here
        return _ahead(problem, most) if aim.prob is None else _reach(problem, aim.prob, most)


def _minimise(problem: LimitedProblem, lam: float, tol: float | None, max_iter: int) -> Result:
    """The least E."""
    check_feasible(problem.terms())
    problem, (x, at, n_iter, found) = within_rules(problem, lambda part: _solved(part, lam, tol or 0.0, max_iter))
    worth = problem.certificate(x, lam, 1.0, at.nu)
    status = Status.MAX_ITER if not found else Status.EXACT if tol is None else Status.CONVERGED
    result = problem.result(x, lam, grad_norm=worth.grad_norm, gap=worth.gap, n_iter=n_iter, status=status, multipliers=at.nu)
    return replace(result, bound=result.objective - worth.gap)


def _reach(problem: LimitedProblem, prob: float, max_iter: int) -> Result:
    """The least cost with p_k ≥ prob, or the largest p_k there is."""
    check_feasible(problem.terms())
    problem, (x, nu) = within_rules(problem, _nearest)
    if problem.reached(x, prob):
        worth = problem.certificate(x, 1.0, 1.0, nu, cost_only=True)
        result = problem.result(x, np.inf, grad_norm=worth.grad_norm, gap=worth.gap, multipliers=nu)
        return replace(result, bound=result.cost - worth.gap)

    def attempt(part: LimitedProblem) -> tuple[Any, ...]:
        goal = part.goal_of(prob, lambda at: _placed(part, at), closely=True)
        found = semismooth.reach(part.terms(), goal, max_iter=max_iter)
        return _placed(part, found.at), found

    problem, (x, (at, n_iter, met, ceiling)) = within_rules(problem, attempt)
    worth = problem.certificate(x, at.lam, at.weight, at.nu)
    claims = {"grad_norm": worth.grad_norm, "n_iter": n_iter, "multipliers": at.nu}
    if not met:
        claims |= {"gap": worth.gap, "status": Status.UNREACHABLE, "ceiling": ceiling}
        result = problem.result(x, at.lam, weight=at.weight, **claims)
        return replace(result, bound=result.cost)
    result = problem.result(x, at.lam, weight=at.lam, **claims)
    gap = min((worth.gap + problem.excess(x, prob)) / at.lam, result.cost)
    return replace(result, bound=result.cost - gap, gap=gap)


def _ahead(problem: LimitedProblem, max_iter: int) -> Result:
    """The least cost with the target's score ahead of every other by the margin."""
    x = problem.source
    for _ in range(CHASE):
        problem = problem.but(ahead=2 * problem.rounding(x))
        if semismooth.infeasible(problem.terms()):
            break
        problem, (x, at, n_iter, _) = within_rules(problem, lambda part: _solved(part, 1.0, 0.0, max_iter))
        if problem.is_ahead(x):
            worth = problem.certificate(x, 1.0, 1.0, at.nu)
            claims = {"grad_norm": worth.grad_norm, "gap": worth.gap, "n_iter": n_iter, "multipliers": at.nu}
            result = problem.result(x, 1.0, **claims)
            return replace(result, bound=result.cost - worth.gap)
    return out_of_margin(problem)


def out_of_margin(problem: LimitedProblem) -> Result:
    """No point is ahead by the margin: the one that comes closest to it."""
    best = best_margin(problem)
    result = problem.result(problem.source if best is None else best, np.inf, status=Status.UNREACHABLE)
    return replace(result, bound=result.cost)


def _solved(problem: LimitedProblem, lam: float, tol: float, max_iter: int) -> tuple[Floats, Response, int, bool]:
    at, n_iter, found = semismooth.solve(problem.terms(), lam, tol=tol, max_iter=max_iter)
    return _placed(problem, at), at, n_iter, found


def _nearest(problem: LimitedProblem) -> tuple[Floats, Floats]:
    t, nu = semismooth.nearest(problem.terms())
    return problem.placed(t, nu, 1.0), nu


def _placed(problem: LimitedProblem, at: Response) -> Floats:
    return problem.placed(at.t, at.nu, at.weight)
