"""Whole numbers, categories and few changes, for everything that has more than one multiplier: branch and bound."""

import numpy as np

from ifonly.engines import few_changes
from ifonly.engines.branch_and_bound import search
from ifonly.engines.budget import Budget
from ifonly.engines.limited import CHASE, LimitedEngine, stays
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.semismooth_newton import out_of_margin
from ifonly.engines.subproblem import can_narrow
from ifonly.model.errors import InputError
from ifonly.problem.conditions import Conditions
from ifonly.problem.question import Aim
from ifonly.problem.results import Result

__all__ = ["Branching"]


class Branching(LimitedEngine):
    """Any limits and any number of classes; relaxations by semismooth Newton."""

    def unfit(self, conditions: Conditions, weighed: bool) -> str | None:
        """What takes no search."""
        return None if conditions.branched else "nothing is discrete, and no search is needed"

    def answer(self, problem: LimitedProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        if aim.lam is not None:
            return search(problem, budget, lam=aim.lam)
        here = stays(problem, aim)
        if here is not None:
            return here
        if aim.prob is None:
            return _ahead(problem, budget)
        if problem.space.max_changes is not None and can_narrow(problem):
            return few_changes.reach(problem, aim.prob, budget)
        return search(problem, budget, prob=aim.prob)


def _ahead(problem: LimitedProblem, budget: Budget) -> Result:
    """The least cost with the target's score ahead of every other by the margin, a rule for each rival."""
    x = problem.source
    for _ in range(CHASE):
        problem = problem.but(ahead=2 * problem.rounding(x))
        try:
            result = search(problem, budget, lam=1.0)
        except InputError:  # no point satisfies the limits and is ahead
            break
        if not np.isfinite(result.x).all() or problem.is_ahead(result.x):
            return result
        x = result.x
    return out_of_margin(problem)
