"""Two classes, limits on features one by one: one constraint, one multiplier, and branching on top of it.


A wanted probability is one linear inequality for two classes, and so is a margin. Tables of rows go through compiled loops
(`multiplier_rows`), and so does one source where there is nothing but intervals.
"""

import math
from dataclasses import replace

import numpy as np

from ifonly.engines import multiplier_rows
from ifonly.engines.budget import Budget
from ifonly.engines.cases import Cases
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.limited import SPARES, LimitedEngine, stays
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.searched import Record, dual_of, run
from ifonly.engines.semismooth_newton import sure
from ifonly.model.numerics import Flags, Floats
from ifonly.native.one_multiplier import Search
from ifonly.problem.asked import Aim, Aims, Asked
from ifonly.problem.dual import Multipliers
from ifonly.problem.goals import Weights
from ifonly.problem.proof import Leaf, Proof
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status

__all__ = ["OneMultiplier"]


QUICK_ROWS = 16_384


class OneMultiplier(LimitedEngine):
    """Two classes, a probability or a margin, limits on features one by one; whole numbers, categories and few changes too."""

    row_by_row = False

    def unfit(self, space: CostSpace, weighed: bool) -> str | None:
        """What has more than one constraint, or none."""
        if space.loops is None:
            return "there are no compiled loops"
        if space.model.n_classes != 2:
            return "there are more than two classes"
        if weighed:
            return "λ weighs the classifier, which is then no constraint"
        if space.limits.uneven:
            return "numbers are at uneven distances"
        return None if space.conditions.separable else "a matrix or linear rules tie features together"

    def row(self, space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """The answer for one source, from a compiled loop if that settles it."""
        return multiplier_rows.solve_one(space, source, aim) or super().row(space, source, aim, budget, tol)

    def chunk_rows(self, asked: Asked) -> int | None:
        """More rows at once where each takes a microsecond or so."""
        return QUICK_ROWS if CostSpace.of(asked).only_intervals else super().chunk_rows(asked)

    def answer(self, problem: LimitedProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        return stays(problem, aim) or _solved(problem, aim, budget)

    def loop(self, asked: Asked, X: Floats, aims: Aims, results: Results) -> Flags:
        """See `LimitedEngine`."""
        return multiplier_rows.solve(asked, X, aims, results)


def _solved(problem: LimitedProblem, aim: Aim, budget: Budget) -> Result:
    """One constraint: the rival's margin at most ``top``."""
    space, source = problem.space, problem.source[None]
    items, lo, hi = problem.items(-space.rows(problem.k)[0])
    x, ended, search = problem.source, False, None
    margin, top = float(problem.margins[0]), problem.asked(aim.prob)
    for spare in SPARES:  # the allowance for rounding grows with x, and may be too small for our own
        need = margin - top + (1 + spare) * problem.rounding(x)
        search = Search(items, lo, hi, need, space.cap(items), 2 * budget.nodes + 1)
        ended = run(search, budget, len(items.g))
        if math.isinf(search.cost):
            break
        x = space.placed(source, search.t[None], search.choice[None], items.first, problem.lo[None], problem.hi[None])[0]
        if problem.reached(x, aim.prob):
            if not space.conditions.branched:
                return sure(problem, aim, _certified(problem, x, search.w, aim.prob), budget)
            dual, log = dual_of(problem, aim), search.log
            multipliers = np.where(np.isinf(log[:, :1]), 1.0, log[:, :1])
            record = Record(dual, items, log, multipliers, need - (float(dual.margins[0]) - dual.goal.most))
            proof = record.proof()
            if proof is None:
                break
            lam = _lam(problem, x, search.w, aim.prob)
            answer = problem.result(x, lam, weight=lam if search.w > 0 else 1.0, n_nodes=len(proof), proof=proof)
            return record.bounded(answer, budget, done=ended)
    found = _out_of_reach(problem, aim) if ended and search is not None and math.isinf(search.cost) else None
    return found or Cases().answer(problem, aim, budget, None)


def _certified(problem: LimitedProblem, x: Floats, w: float, prob: float | None) -> Result:
    """The answer x where nothing is discrete; w is the multiplier."""
    if w == 0:  # the limits ask for more than the goal does
        return replace(problem.certified(x, Weights.of_cost(), np.zeros(0)), lam=math.inf)
    if prob is None:  # a margin is a rule like any other, and w its multiplier
        return problem.certified(x, Weights.of_cost(), np.array([w]))
    return problem.certified(x, Weights.found(_lam(problem, x, w, prob)), np.zeros(0), prob)


def _lam(problem: LimitedProblem, x: Floats, w: float, prob: float | None) -> float:
    """λ of an answer with this multiplier: λ∇cost = (1 − p_k)·g there."""
    if prob is None:
        return 1.0
    return float(problem.textbook.proba(x)[0][problem.rivals].sum()) / w if w > 0 else math.inf


def _out_of_reach(problem: LimitedProblem, aim: Aim) -> Result | None:
    """Every feature as far as it goes: the largest gain, which is not enough, as one multiplier shows; None if it does not."""
    dual, given = dual_of(problem, aim), Multipliers(np.ones(1), np.zeros(0))
    found = dual.bound(dual.choices.root, given, reach=True)
    if not found.value > 0:
        return None
    x = problem.space.settled(problem.source[None], found.x[None])[0]
    if problem.seems_reached(x, aim.prob):
        return None
    ceiling = dual.goal.ceiling(float(found.value))
    proof = Proof((Leaf(0, reach=True),), (given,))
    n_nodes = len(proof) if problem.space.conditions.branched else 0
    result = problem.result(x, math.inf, status=Status.UNREACHABLE, ceiling=ceiling, proof=proof, n_nodes=n_nodes)
    return replace(result, bound=result.cost)
