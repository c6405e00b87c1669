"""Two classes, limits on features one by one: one constraint, one multiplier, and branching on top of it (`multiplier_search`).

A wanted probability is one linear inequality for two classes, and so is a margin. Tables of rows go through compiled loops
(`multiplier_rows`).
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import multiplier_rows
from ifonly.engines.budget import Budget
from ifonly.engines.limited import CHASE, LimitedEngine, meets, stays
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.multiplier_rows import SETTLED
from ifonly.engines.protocol import Rows
from ifonly.native import multiplier_search
from ifonly.problem.conditions import Conditions
from ifonly.problem.question import Aim, Asked
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status

__all__ = ["OneMultiplier"]

Floats = NDArray[np.float64]

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
        return None if conditions.separable else "a matrix or linear rules tie features together"

    def answer(self, problem: LimitedProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        return stays(problem, aim) or _solved(problem, aim, budget)

    def solve(self, asked: Asked, rows: Rows) -> Results:
        """The answers for a piece of a table, in compiled loops as far as those go."""
        X, results = self.begin(asked, rows)
        self.fill(asked, X, rows, results, multiplier_rows.solve(asked, X, rows.aims, results))
        return results


def _top(problem: LimitedProblem, aim: Aim, x: Floats) -> float:
    """What the rival's margin may be at most, at x."""
    if aim.prob is not None:
        return problem.goal(aim.prob, x)[0]
    return -(problem.space.margin or 0.0) - problem.rounding(x)


def _solved(problem: LimitedProblem, aim: Aim, budget: Budget) -> Result:
    """One constraint: the rival's margin at most ``top``."""
    space, search, source = problem.space, problem.space.search, problem.source[None]
    items, lo, hi = problem.items(-space.rows(problem.k)[0])
    cap = problem.cap(items)
    x, done, nodes = problem.source, False, 0.0
    for _ in range(CHASE):
        # The allowance for rounding grows with x: again, where it was too small. Half of it more, for our own rounding.
        need = float(problem.margins[0]) - (_top(problem, aim, x) - 0.5 * problem.rounding(x))
        pool, done = search.open_pool(items, lo, hi), False
        while not done and pool.numbers[2] < budget.nodes and not budget.late:
            nodes = int(min(SLICE, budget.nodes - pool.numbers[2]))
            pool, done = search.expand(pool, need, items, cap, budget.gap, nodes)
        cost, w, nodes = (float(v) for v in pool.numbers[:3])
        if math.isinf(cost):
            break
        x = space.placed(source, pool.best_t[None], pool.best_choice[None], items.first, problem.lo[None], problem.hi[None])[0]
        if meets(problem, aim, x):
            return _reached(
                problem, x, w, min(cost, float(pool.bound.min()), float(pool.numbers[3])), aim.prob, done, int(nodes)
            )
    return _out_of_reach(problem, items, lo, hi, cap, done, int(nodes))


def _reached(problem: LimitedProblem, x: Floats, w: float, bound: float, prob: float | None, done: bool, nodes: int) -> Result:
    # λ∇cost = (1 − p_k)·g at the answer
    lam = float(problem.proba(x)[0][problem.rivals].sum()) / w if w > 0 else math.inf
    if prob is None and w > 0:  # a margin is a rule like any other, and w its multiplier
        lam = 1.0
    if not problem.space.branched and w > 0:
        if prob is None:
            nu = np.array([w])
            worth = problem.certificate(x, lam, 1.0, nu)
            plan = problem.result(x, lam, grad_norm=worth.grad_norm, gap=worth.gap, multipliers=nu)
            return replace(plan, bound=plan.cost - worth.gap)
        worth = problem.certificate(x, lam, lam, np.zeros(0))
        plan = problem.result(x, lam, weight=lam, grad_norm=worth.grad_norm)
        gap = min((worth.gap + problem.excess(x, prob)) / lam, plan.cost)
        return replace(plan, bound=plan.cost - gap, gap=gap)
    n_nodes = nodes if problem.space.branched else 0
    plan = problem.result(x, lam, weight=lam if w > 0 else 1.0, n_nodes=n_nodes)
    bound = min(bound, plan.cost)
    gap = plan.cost - bound
    # What the user's pipeline makes of x need not be what was wanted of it: a quantile transform has steps.
    status = Status.EXACT if done and gap <= SETTLED * (1 + plan.cost) else Status.STOPPED
    return replace(plan, bound=bound, gap=gap, status=status)


def _out_of_reach(problem: LimitedProblem, items: Any, lo: Floats, hi: Floats, cap: int, done: bool, nodes: int) -> Result:
    """Every feature as far as it goes: the largest gain, which is not enough."""
    if not done:
        return problem.nothing_found(nodes)
    allowed = np.isfinite(items.oc)
    state = np.zeros(len(items.g) + len(items.first) - 1, dtype=np.int64)
    # A multiplier at which everything is at its largest gain.
    far = np.abs(np.where(items.g > 0, hi, lo))
    of_features = ((far + items.mu + items.step) / np.maximum(np.abs(items.g), 1e-300))[(items.g != 0) & np.isfinite(far)]
    prices, differences = items.oc[allowed], np.abs(np.subtract.outer(items.og, items.og))
    of_groups = prices.max(initial=0.0) / differences[differences > 1e-9].min(initial=math.inf)
    w = 2 * max(1.0, float(of_features.max(initial=0.0)), float(of_groups))
    t, choice, *_ = multiplier_search.evaluate(w, items, lo, hi, state, allowed, cap)
    x = problem.space.placed(problem.source[None], t[None], choice[None], items.first, problem.lo[None], problem.hi[None])[0]
    top = multiplier_search.most(items, lo, hi, state, allowed, cap)
    best = 1 / (1 + math.exp(min(float(problem.margins[0]) - top - problem.rounding(x), 700.0)))
    n_nodes = nodes if problem.space.branched else 0
    plan = problem.result(x, 1 / w, weight=1 / w, status=Status.UNREACHABLE, n_nodes=n_nodes, ceiling=best)
    return replace(plan, bound=plan.cost)
