"""What is left open by a search that stopped: cases that it did not look at, or only what rounding takes.

An answer meets its goal for whoever evaluates the model (`CostProblem.reached`), but the bound of a search is about the goal
as it was asked. So there may be a gap that no search closes:

* a point at which the goal holds just so, such as a tie where p = 0.5 is asked for, is no answer, and yet it keeps the bound
  below the cost. Of each case with such a bound, multipliers show by how much its points meet the goal at most;
* where scores are large, or p is next to 1, to meet the goal for everybody costs more than to meet it: y for each logit of the
  allowance, with y the case's multipliers. A bound is also less by what its own terms may be rounded by.

The cases are those of the proof.
"""

from enum import Enum, auto

from ifonly.engines.budget import Budget
from ifonly.engines.cases import CaseSearch
from ifonly.engines.cost_problem import CostProblem
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.searched import ALLOWANCES, MOST_ROUNDING
from ifonly.model.numerics import Floats
from ifonly.problem.asked import Aim
from ifonly.problem.conditions import Conditions
from ifonly.problem.proof import Multipliers, Node
from ifonly.problem.results import Result
from ifonly.problem.status import REL_GAP

__all__ = ["Left", "left_open"]

SECONDS = 0.25  # whoever prints an answer waits for it
MOST_NODES = 20_000  # of a proof: a tenth of a second or two to walk through


class Left(Enum):
    """What may be cheaper than an answer."""

    CASES = auto()  # some that the search did not look at, as far as is known
    TIES = auto()  # nothing but what meets the goal with nothing to spare for rounding, if at all
    ROUNDING = auto()  # what meets the goal as it was asked, but not for everybody


def left_open(conditions: Conditions, source: Floats, aim: Aim, result: Result) -> Left:
    """What is left open of an answer to a goal."""
    proof = result.proof
    if proof is None or len(proof) > MOST_NODES:
        return Left.CASES
    budget, found = Budget(seconds=SECONDS), set[Left | None]()
    problem = CostProblem(CostSpace(conditions), source, aim.k, aim.prob)
    search = CaseSearch(problem, aim, budget, farthest=True)
    allowance = max(problem.allowance(aim.prob, x) for x in (source, result.x))
    for node, leaf in proof.leaves(search.choices.root, search.choices.cut, search.dual.empty):
        if not leaf.reach:
            found.add(_left(search, node, proof.multipliers[leaf.multipliers], result.cost, allowance))
        if budget.late or Left.CASES in found:
            break
    return next((left for left in Left if left in found), Left.CASES)


def _left(search: CaseSearch, node: Node, given: Multipliers, cost: float, allowance: float) -> Left | None:
    """What is left open of a case of an answer that costs so much; None for nothing."""
    at = search.dual.bound(node, given)
    below = cost * (1 - REL_GAP) - float(at.value)
    if below <= 0:
        return None
    taken = ALLOWANCES * (float(given.y.sum()) * allowance + at.rounding)
    if below <= taken and (below <= MOST_ROUNDING * cost or search.decided(node)):
        return Left.ROUNDING
    # Is there a point that meets the goal by more than rounding?
    relaxed = search.relaxing.solve(node, None)
    most = search.dual.bound(node, relaxed.given, reach=True)
    spare = search.problem.allowance(search.aim.prob, most.x if relaxed.x is None else relaxed.x)
    return Left.TIES if float(most.value) > -(spare + 2 * most.rounding) else Left.CASES
