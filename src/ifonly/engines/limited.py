"""Which method solves a problem with a cost and limits, and what to say where it cannot be solved.

* Two classes and ``prob``, with limits on features one by one: one multiplier (`scalar`), whole numbers and categories too.
* Anything else without whole numbers, categories or a largest number of changes: `semismooth`.
* Anything else: branch and bound over that (`branch`).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import few_changes as few
from ifonly.engines import one_multiplier as scalar
from ifonly.engines import semismooth
from ifonly.engines import uneven_grids as gaps
from ifonly.engines.best_margin import best_lead
from ifonly.engines.branching import search
from ifonly.engines.limited_problem import Budget, LimitedProblem, Plan
from ifonly.engines.semismooth import Point, Reached, Terms
from ifonly.engines.subproblem import can_narrow
from ifonly.model.errors import InputError
from ifonly.problem.status import Status

__all__ = ["CHASE", "ahead", "reach", "solve"]

Floats = NDArray[np.float64]

CHASE = 12  # of rounding allowances
SETTLED = 1e-8  # relative: a larger gap is not one of rounding
SLICE = 256  # nodes between two looks at the clock


def solve(problem: LimitedProblem, lam: float, budget: Budget | None = None, *, tol: float | None = None) -> Plan:
    """The least E."""
    if not problem.spread:
        inner = budget or Budget()
        return gaps.search(problem, lambda part: solve(part, lam, inner, tol=tol), lambda plan: plan.objective, inner)
    if problem.ground.branched:
        return search(problem, budget or Budget(), lam=lam)
    _check_feasible(problem.terms())
    x, at, n_iter, found = _within(problem, lambda: _continuous(problem, lam, tol or 0.0))
    worth = problem.certificate(x, lam, 1.0, at.nu)
    status = Status.MAX_ITER if not found else Status.EXACT if tol is None else Status.CONVERGED
    plan = problem.plan(x, lam, grad_norm=worth.grad_norm, gap=worth.gap, n_iter=n_iter, status=status, nu=at.nu)
    return replace(plan, bound=plan.objective - worth.gap)


def reach(problem: LimitedProblem, prob: float, budget: Budget | None = None) -> Plan:
    """The least cost with p_k ≥ prob, or the largest p_k there is."""
    budget = budget or Budget()
    if not problem.spread:
        return gaps.search(problem, lambda part: reach(part, prob, budget), lambda plan: plan.cost, budget)
    x = problem.source
    if problem.reached(x, prob) and problem.holds(x):
        return problem.plan(x, math.inf)
    if problem.model.n_classes == 2 and problem.ground.separable:
        return _scalar(problem, lambda x: problem.goal(prob, x)[0], lambda x: problem.reached(x, prob), prob, budget)
    if problem.ground.branched:
        if problem.ground.max_changes is not None and can_narrow(problem):
            return few.reach(problem, prob, budget)
        return search(problem, budget, prob=prob)
    _check_feasible(problem.terms())
    x, nu = _within(problem, lambda: _nearest(problem))
    if problem.reached(x, prob):
        worth = problem.certificate(x, 1.0, 1.0, nu, cost_only=True)
        plan = problem.plan(x, math.inf, grad_norm=worth.grad_norm, gap=worth.gap, nu=nu)
        return replace(plan, bound=plan.cost - worth.gap)

    def attempt() -> tuple[Floats, Reached]:
        found = semismooth.reach(problem.terms(), problem.aim(prob, lambda at: _placed(problem, at), closely=True))
        return _placed(problem, found.at), found

    x, (at, n_iter, met, ceiling) = _within(problem, attempt)
    if not met:
        return _unreachable(problem, x, at, n_iter, ceiling)
    lam = at.lam
    worth = problem.certificate(x, lam, lam, at.nu)
    plan = problem.plan(x, lam, weight=lam, grad_norm=worth.grad_norm, n_iter=n_iter, nu=at.nu)
    gap = min((worth.gap + problem.excess(x, prob)) / lam, plan.cost)
    return replace(plan, bound=plan.cost - gap, gap=gap)


def ahead(problem: LimitedProblem, budget: Budget | None = None) -> Plan:
    """The least cost with the target's score ahead of every other by the ground's margin."""
    ground, budget, margin = problem.ground, budget or Budget(), problem.ground.margin
    assert margin is not None
    if not problem.spread:
        return gaps.search(problem, lambda part: ahead(part, budget), lambda plan: plan.cost, budget)
    x = problem.source
    if problem.is_ahead(x) and problem.holds(x):
        return problem.plan(x, math.inf)
    if problem.model.n_classes == 2 and ground.separable:
        return _scalar(problem, lambda x: -margin - problem.rounding(x), problem.is_ahead, None, budget)
    for _ in range(CHASE):
        problem.ahead = 2 * problem.rounding(x)
        if ground.branched:
            try:
                plan = search(problem, budget, lam=1.0)
            except InputError:  # no point satisfies the limits and is ahead
                break
            if not np.isfinite(plan.x).all() or problem.is_ahead(plan.x):
                return plan
            x = plan.x
            continue
        if semismooth.infeasible(problem.terms()):
            break
        x, at, n_iter, _ = _within(problem, lambda: _continuous(problem, 1.0, 0.0))
        if problem.is_ahead(x):
            worth = problem.certificate(x, 1.0, 1.0, at.nu)
            plan = problem.plan(x, 1.0, grad_norm=worth.grad_norm, gap=worth.gap, n_iter=n_iter, nu=at.nu)
            return replace(plan, bound=plan.cost - worth.gap)
    best = best_lead(problem)
    plan = problem.plan(problem.source if best is None else best, math.inf, status=Status.UNREACHABLE)
    return replace(plan, bound=plan.cost)


def _continuous(problem: LimitedProblem, lam: float, tol: float) -> tuple[Floats, Point, int, bool]:
    at, n_iter, found = semismooth.solve(problem.terms(), lam, tol=tol)
    return _placed(problem, at), at, n_iter, found


def _placed(problem: LimitedProblem, at: Point) -> Floats:
    return problem.placed(at.t, at.nu, at.weight)


def _nearest(problem: LimitedProblem) -> tuple[Floats, Floats]:
    t, nu = semismooth.nearest(problem.terms())
    return problem.placed(t, nu, 1.0), nu


def _within(problem: LimitedProblem, attempt: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """What an attempt finds, repeated with tighter linear limits until x keeps them in floating point."""
    limits, broken = problem.ground.limits, None
    for _ in range(CHASE):
        found = attempt()
        broken = limits.broken(problem.source, found[0]) if len(limits.C) else None
        if broken is None:
            return found
        problem.tight *= 8.0
    raise InputError(f"the linear limits cannot be met in floating point: {broken}")


def _check_feasible(terms: Terms) -> None:
    if semismooth.infeasible(terms):
        raise InputError("the limits contradict each other: no point satisfies all bounds and linear limits")


def _scalar(
    problem: LimitedProblem,
    top: Callable[[Floats], float],
    met: Callable[[Floats], bool],
    prob: float | None,
    budget: Budget,
) -> Plan:
    """Two classes: one constraint, the rival's margin at most ``top``."""
    ground, kernel, source = problem.ground, problem.ground.kernel, problem.source[None]
    items, lo, hi = problem.items(-ground.rows(problem.k)[0])
    cap = problem.cap(items)
    x, done, nodes = problem.source, False, 0.0
    for _ in range(CHASE):
        # The allowance for rounding grows with x: again, where it was too small. Half of it more, for our own rounding.
        need = float(problem.margins[0]) - (top(x) - 0.5 * problem.rounding(x))
        pool, done = kernel.open_pool(items, lo, hi), False
        while not done and pool.numbers[2] < budget.nodes and not budget.late:
            nodes = int(min(SLICE, budget.nodes - pool.numbers[2]))
            pool, done = kernel.expand(pool, need, items, cap, budget.gap, nodes)
        cost, w, nodes = (float(v) for v in pool.numbers[:3])
        if math.isinf(cost):
            break
        x = ground.placed(source, pool.best_t[None], pool.best_choice[None], items.first, problem.lo[None], problem.hi[None])[0]
        if met(x):
            return _scalar_plan(
                problem, x, w, min(cost, float(pool.bound.min()), float(pool.numbers[3])), prob, done, int(nodes)
            )
    return _unreachable_scalar(problem, items, lo, hi, cap, done, int(nodes))


def _scalar_plan(
    problem: LimitedProblem, x: Floats, w: float, bound: float, prob: float | None, done: bool, nodes: int
) -> Plan:
    # λ∇cost = (1 − p_k)·g at the answer
    lam = float(problem.proba(x)[0][problem.rivals].sum()) / w if w > 0 else math.inf
    if not problem.ground.branched and w > 0:
        if prob is None:  # a margin is a rule like any other, and w its multiplier
            nu = np.array([w])
            worth = problem.certificate(x, 1.0, 1.0, nu)
            plan = problem.plan(x, 1.0, grad_norm=worth.grad_norm, gap=worth.gap, nu=nu)
            return replace(plan, bound=plan.cost - worth.gap)
        worth = problem.certificate(x, lam, lam, np.zeros(0))
        plan = problem.plan(x, lam, weight=lam, grad_norm=worth.grad_norm)
        gap = min((worth.gap + problem.excess(x, prob)) / lam, plan.cost)
        return replace(plan, bound=plan.cost - gap, gap=gap)
    n_nodes = nodes if problem.ground.branched else 0
    plan = problem.plan(x, lam, weight=lam if w > 0 else 1.0, n_nodes=n_nodes)
    bound = min(bound, plan.cost)
    gap = plan.cost - bound
    # What the user's pipeline makes of x need not be what was wanted of it: a quantile transform has steps.
    status = Status.EXACT if done and gap <= SETTLED * (1 + plan.cost) else Status.STOPPED
    return replace(plan, bound=bound, gap=gap, status=status)


def _unreachable_scalar(problem: LimitedProblem, items: Any, lo: Floats, hi: Floats, cap: int, done: bool, nodes: int) -> Plan:
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
    t, choice, *_ = scalar.evaluate(w, items, lo, hi, state, allowed, cap)
    x = problem.ground.placed(problem.source[None], t[None], choice[None], items.first, problem.lo[None], problem.hi[None])[0]
    top = scalar.most(items, lo, hi, state, allowed, cap)
    best = 1 / (1 + math.exp(min(float(problem.margins[0]) - top - problem.rounding(x), 700.0)))
    n_nodes = nodes if problem.ground.branched else 0
    plan = problem.plan(x, 1 / w, weight=1 / w, status=Status.UNREACHABLE, n_nodes=n_nodes, best_bound=best)
    return replace(plan, bound=plan.cost)


def _unreachable(problem: LimitedProblem, x: Floats, at: Point, n_iter: int, ceiling: float) -> Plan:
    """The best probability within the limits, and a bound on it."""
    worth = problem.certificate(x, at.lam, at.weight, at.nu)
    plan = problem.plan(
        x,
        at.lam,
        weight=at.weight,
        grad_norm=worth.grad_norm,
        gap=worth.gap,
        n_iter=n_iter,
        status=Status.UNREACHABLE,
        nu=at.nu,
        best_bound=ceiling,
    )
    return replace(plan, bound=plan.cost)
