"""What is left open by a search that stopped: cases that it did not look at, or only what rounding takes.

An answer meets its goal for whoever evaluates the model (`LimitedProblem.reached`), but the bound of a search is about the goal
as it was asked. So there may be a gap that no search closes:

* a point at which the goal holds just so, such as a tie where p = 0.5 is asked for, is no answer, and yet it keeps the bound
  below the cost. Of each case with such a bound, multipliers show by how much its points meet the goal at most;
* where scores are large, or p is next to 1, to meet the goal for everybody costs more than to meet it: y for each logit of the
  allowance, with y the case's multipliers. A bound is also less by what its own terms may be rounded by.

The cases are those of the proof.
"""

from enum import Enum, auto

from ifonly.engines.budget import Budget
from ifonly.engines.cases import Search
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.limited_problem import LimitedProblem
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
    budget = Budget(seconds=SECONDS)
    probe, found = _Probe(LimitedProblem(CostSpace(conditions), source, aim.k), aim, budget, result), set[Left | None]()
    for node, leaf in probe.search.dual.leaves(proof):
        if not leaf.reach and not probe.search.dual.empty(node):
            found.add(probe.left(node, proof.multipliers[leaf.multipliers]))
        if budget.late or Left.CASES in found:
            break
    return next((left for left in Left if left in found), Left.CASES)


class _Probe:
    """The cases of one answer."""

    def __init__(self, problem: LimitedProblem, aim: Aim, budget: Budget, result: Result) -> None:
        self.problem, self.aim, self.cost = problem, aim, result.cost
        self.search = Search(problem, aim, budget, farthest=True)
        self.allowance = max(problem.allowance(aim.prob, x) for x in (problem.source, result.x))

    def left(self, node: Node, given: Multipliers) -> Left | None:
        """What is left open of a case; None for nothing."""
        at = self.search.dual.bound(node, given)
        below = self.cost * (1 - REL_GAP) - float(at.value)
        if below <= 0:
            return None
        taken = ALLOWANCES * (float(given.y.sum()) * self.allowance + at.rounding)
        if below <= taken and (below <= MOST_ROUNDING * self.cost or self.search.decided(node)):
            return Left.ROUNDING
        return Left.TIES if self._just(node) else Left.CASES

    def _just(self, node: Node) -> bool:
        """Whether no point of a case meets the goal by more than rounding."""
        relaxed = self.search.relaxing.solve(node, None)
        most = self.search.dual.bound(node, relaxed.given, reach=True)
        spare = self.problem.allowance(self.aim.prob, most.x if relaxed.x is None else relaxed.x)
        return float(most.value) > -(spare + 2 * most.rounding)
