"""Two classes, limits on features one by one: one constraint, one multiplier, and branching on top of it (`multiplier_search`).

A wanted probability is one linear inequality for two classes, and so is a margin. Tables of rows go through compiled loops
(`multiplier_rows`), and so does one source where there is nothing but intervals.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import multiplier_rows
from ifonly.engines.budget import Budget
from ifonly.engines.cases import ALLOWANCES, Cases
from ifonly.engines.limited import SPARES, LimitedEngine, meets, stays
from ifonly.engines.limited_problem import CostSpace, LimitedProblem
from ifonly.engines.protocol import Rows
from ifonly.engines.semismooth_newton import sure
from ifonly.problem.choices import Choices, Cut
from ifonly.problem.conditions import Conditions
from ifonly.problem.dual import Dual, Goal, Multipliers
from ifonly.problem.goals import Weights
from ifonly.problem.proof import Leaf, Proof, misses, prove
from ifonly.problem.question import Aim, Asked
from ifonly.problem.results import Result, Results
from ifonly.problem.status import REL_GAP, Status

__all__ = ["OneMultiplier"]

Floats = NDArray[np.float64]

QUICK_ROWS = 16_384
SLICE = 256  # nodes between two looks at the clock


class OneMultiplier(LimitedEngine):
    """Two classes, a probability or a margin, limits on features one by one; whole numbers, categories and few changes too."""

    row_by_row = False

    def unfit(self, conditions: Conditions, weighed: bool) -> str | None:
        """What has more than one constraint, or none."""
        if conditions.model.n_classes != 2:
            return "there are more than two classes"
        if weighed:
            return "λ weighs the classifier, which is then no constraint"
        if conditions.limits.uneven:
            return "numbers are at uneven distances"
        return None if conditions.separable else "a matrix or linear rules tie features together"

    def row(self, space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """The answer for one source, from a compiled loop if that settles it."""
        return multiplier_rows.solve_one(space, source, aim) or super().row(space, source, aim, budget, tol)

    def chunk_rows(self, asked: Asked, n_rows: int | None) -> int | None:
        """More rows at once where each takes a microsecond or so."""
        return QUICK_ROWS if multiplier_rows.only_intervals(asked) else super().chunk_rows(asked, n_rows)

    def answer(self, problem: LimitedProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        return stays(problem, aim) or _solved(problem, aim, budget)

    def solve(self, asked: Asked, rows: Rows) -> Results:
        """The answers for a piece of a table, in compiled loops as far as those go."""
        X, results = self.begin(asked, rows)
        self.fill(asked, X, rows, results, multiplier_rows.solve(asked, X, rows.aims, results))
        return results


def _solved(problem: LimitedProblem, aim: Aim, budget: Budget) -> Result:
    """One constraint: the rival's margin at most ``top``."""
    space, source = problem.space, problem.source[None]
    items, lo, hi = problem.items(-space.rows(problem.k)[0])
    x, ended, search = problem.source, False, None
    margin, top = float(problem.margins[0]), problem.asked(aim.prob)
    for spare in SPARES:  # the allowance for rounding grows with x, and may be too small for our own
        need = margin - top + (1 + spare) * problem.rounding(x)
        search = space.search.Search(items, lo, hi, need, problem.cap(items), 2 * budget.nodes + 1)
        ended = _run(search, budget)
        if math.isinf(search.cost):
            break
        x = space.placed(source, search.t[None], search.choice[None], items.first, problem.lo[None], problem.hi[None])[0]
        if meets(problem, aim, x):
            if not space.branched:
                return sure(problem, aim, _certified(problem, x, search.w, aim.prob), budget)
            dual, proof = _dual(problem, aim), _proof(problem, items, search.log)
            if not misses(dual, proof):  # what is asked for is missed by less than the allowance for rounding
                break
            allowance = need - (margin - dual.goal.most)
            plan = _searched(problem, aim, x, search.w, proof)
            return _bounded(plan, search.bound, allowance, budget, dual, done=ended)
    found = _out_of_reach(problem, aim) if ended and search is not None and math.isinf(search.cost) else None
    return found or Cases().answer(problem, aim, budget, None)


def _run(search: Any, budget: Budget) -> bool:
    """Search until nothing is left, or a limit is met, memory too; whether nothing is left."""
    while search.solved < budget.nodes and not budget.late and not search.full:
        if search.expand(budget.gap, min(SLICE, budget.nodes - search.solved)):
            return True
    return False


def _certified(problem: LimitedProblem, x: Floats, w: float, prob: float | None) -> Result:
    """The answer x where nothing is discrete; w is the multiplier."""
    if w == 0:  # the limits ask for more than the goal does
        return replace(problem.certified(x, Weights.of_cost(), np.zeros(0)), lam=math.inf)
    if prob is None:  # a margin is a rule like any other, and w its multiplier
        return problem.certified(x, Weights.of_cost(), np.array([w]))
    lam = float(problem.proba(x)[0][problem.rivals].sum()) / w  # λ∇cost = (1 − p_k)·g at the answer
    return problem.certified(x, Weights.found(lam), np.zeros(0), prob)


def _searched(problem: LimitedProblem, aim: Aim, x: Floats, w: float, proof: Proof) -> Result:
    """The answer x of a search."""
    lam = 1.0 if aim.prob is None else float(problem.proba(x)[0][problem.rivals].sum()) / w if w > 0 else math.inf
    return problem.result(x, lam, weight=lam if w > 0 else 1.0, n_nodes=len(proof), proof=proof)


def _bounded(plan: Result, bound: float, allowance: float, budget: Budget, dual: Dual, *, done: bool) -> Result:
    """The answer with the bound that was searched for, less what the allowance for rounding in the goal costs.

    Of a search that came to its end the proof may show a little more.
    """
    proof, size = plan.proof, dual.problem.relative_to(plan.cost, weighed=False)
    assert proof is not None
    slack = allowance * max(float(given.y[0]) for given in proof.multipliers)
    bound = max(min(plan.cost, bound) - slack, 0.0)
    if done and plan.cost - bound > REL_GAP * size:
        bound = min(float(prove(dual, proof).bound), plan.cost)
    gap, allowed = plan.cost - bound, max(budget.gap, REL_GAP + ALLOWANCES * slack / max(size, 1e-300))
    return replace(plan, bound=bound, gap=gap, status=Status.of_gap(gap, size, allowed))


def _dual(problem: LimitedProblem, aim: Aim) -> Dual:
    return Dual(problem.textbook, Goal.of(None, aim.prob, problem.space.conditions.margin))


def _out_of_reach(problem: LimitedProblem, aim: Aim) -> Result | None:
    """Every feature as far as it goes: the largest gain, which is not enough, as one multiplier shows; None if it does not."""
    dual, given = _dual(problem, aim), Multipliers(np.ones(1), np.zeros(0))
    found = dual.bound(dual.choices.root, given, reach=True)
    if not found.value > 0:
        return None
    x = problem.space.settled(problem.source[None], found.x[None])[0]
    if problem.seems_reached(x, aim.prob):
        return None
    ceiling = dual.goal.ceiling(float(found.value))
    proof = Proof((Leaf(0, reach=True),), (given,))
    n_nodes = len(proof) if problem.space.branched else 0
    result = problem.result(x, math.inf, status=Status.UNREACHABLE, ceiling=ceiling, proof=proof, n_nodes=n_nodes)
    return replace(result, bound=result.cost)


def _proof(problem: LimitedProblem, items: Any, log: Floats) -> Proof:
    """The record of a search as its proof."""
    choices = Choices(problem.space.conditions, problem.source)
    tree: list[Cut | Leaf] = []
    known: dict[float, int] = {}
    nodes = [0]
    while nodes:
        w, item, kind, below, above, first = log[nodes.pop()].tolist()
        if item < 0:
            tree.append(Leaf(known.setdefault(w, len(known)), reach=math.isinf(w)))
            continue
        nodes += [int(first) + 1, int(first)]
        if kind == 0:
            d = int(choices.singles[int(item)])
            low, high = (choices.grid_point(d, problem.source[d] + t / problem.space.per_unit[d]) for t in (below, above))
            tree.append(Cut("value", d, low, high))
        elif kind == 1:
            tree.append(Cut("move", int(item)))
        else:
            j = int(item) - len(choices.singles)
            gains = items.og[items.first[j] : items.first[j + 1]]
            tree.append(Cut("option", j, options=tuple(np.flatnonzero(gains < below).tolist())))
    nothing = np.zeros(0)
    return Proof(tuple(tree), tuple(Multipliers(np.array([1.0 if math.isinf(w) else w]), nothing) for w in known))
