"""At most so many changes among very many features, for more than two classes: which features can be among them at all.

With the rivals' margins s(x) and c = logit(1 − τ), p_k(x) ≥ τ means ln Σ_j e^{s_j} ≤ c. For any proportions r of the rivals,

    r·s(x) + H(r) ≤ ln Σ_j e^{s_j(x)} ≤ c,

one linear inequality, as for two classes: `scalar.maximise` gives a lower bound on the cost, with whole numbers, categories and
at most ``cap`` changes. Its choice of features, with what is continuous solved anew over these few, is an answer with
proportions of its own; those give the next bound. Two or three rounds settle. From the best bound L, with the multiplier w that
belongs to it, and the cost U of the best answer: an item whose move saves v, where the cap-th best saves v', lifts the bound to
L + v' − v if it has to move. Where that is above U, it stays. Of 20 000 words some dozens are left, and `branch` does the rest.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.branch_and_bound import search
from ifonly.engines.budget import Budget
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.subproblem import Narrow
from ifonly.engines.windows import needed_logit
from ifonly.native import multiplier_search as scalar
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["reach"]

Floats = NDArray[np.float64]

ROUNDS = 12
SAME = 1e-6  # relative: a bound that rises by less has settled
NEARLY = 1e-9  # relative: this near to the largest gain there is
SLACK = 1e-9  # relative, on U: what is this near to it is left to `branch`


def reach(problem: LimitedProblem, prob: float, budget: Budget) -> Result:
    """The least cost with p_k ≥ prob, for ``max_changes`` and more than two classes."""
    movable = _movable(problem)
    narrow = Narrow(problem, movable) if len(movable) < problem.model.n_features else None
    inner = narrow or problem
    keep, best, reachable = _candidates(inner, prob, budget)
    if not reachable:
        plan = _farthest(inner)
    elif best is not None and keep is not None and len(keep) < len(inner.source):
        small = Narrow(inner, keep)
        plan = small.widen(search(small, budget, prob=prob))
        if not np.isfinite(plan.x).all() or plan.cost > best.cost:  # stopped before it found what is known
            plan = replace(best, bound=min(plan.bound, best.cost), status=plan.status)
            plan = replace(plan, gap=plan.cost - plan.bound)
    else:
        plan = search(inner, budget, prob=prob)
    return plan if narrow is None else narrow.widen(plan)


def _movable(problem: LimitedProblem) -> NDArray[np.intp]:
    """The features that can change; a group as a whole."""
    can = (problem.lo < problem.hi) | (problem.lo != problem.source)
    for group in problem.space.limits.groups:
        can[group] = can[group].any()
    return np.flatnonzero(can)


class Merged(NamedTuple):
    """The rivals in fixed proportions, as one."""

    least: float  # r·s̄ + H(r): what their margin is at the source
    items: scalar.Items
    lo: Floats
    hi: Floats
    state: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    cap: int

    @classmethod
    def of(cls, problem: LimitedProblem, s: Floats) -> "Merged":
        """In the proportions that belong to margins s."""
        r = np.exp(s - s.max())
        r /= r.sum()
        entropy = -float(r[r > 0] @ np.log(r[r > 0]))
        items, lo, hi = problem.items(-(r @ problem.space.rows(problem.k)))
        state = np.zeros(len(items.g) + len(items.first) - 1, dtype=np.int64)
        least = float(r @ problem.margins) + entropy
        return cls(least, items, lo, hi, state, np.isfinite(items.oc), problem.cap(items))


def _candidates(problem: LimitedProblem, prob: float, budget: Budget) -> tuple[NDArray[np.intp] | None, Result | None, bool]:
    """The features that an optimal answer can change, the best answer on the way (None where nothing is known of them).

    Last, whether there can be an answer at all.
    """
    space, goal = problem.space, float(needed_logit(prob, problem.model))
    s, best, bound, keep = problem.margins, None, -np.inf, None
    for _ in range(ROUNDS):
        # 1. The rivals in fixed proportions, as one.
        merged = Merged.of(problem, s)
        least, items, lo, hi, state, allowed, cap = merged
        value, w, _, right, reached = scalar.maximise(least - goal, items, lo, hi, state, allowed, cap, 1.0)
        if not reached:
            return keep, best, best is not None
        if budget.late:
            break
        # 2. Its choice, solved over these few features.
        chosen = _members(problem, right[2])
        plan = _over(problem, chosen, prob, budget)
        if plan is not None and (best is None or plan.cost < best.cost):
            best = plan
        rose = value > bound + SAME * abs(bound)
        if best is not None and value > bound:
            bound, keep = value, _survivors(problem, merged, w, value, best.cost)
        if not rose:
            break
        # 3. The proportions at the answer, or where the choice leads.
        x = problem.source + problem.change(right[0]) if plan is None and not len(space.limits.groups) else None
        if plan is None and x is None:
            break
        z = problem.model.scores(plan.x if plan is not None else x)
        s = z[problem.rivals] - z[problem.k]
    return keep, best, True


def _farthest(problem: LimitedProblem) -> Result:
    """The most probable answer that is found where none is probable enough, and how probable one could be."""
    s, best, ceiling = problem.margins, None, 1.0
    for _ in range(ROUNDS):
        least, items, lo, hi, state, allowed, cap = Merged.of(problem, s)
        top = scalar.most(items, lo, hi, state, allowed, cap)
        ceiling = min(ceiling, 1 / (1 + math.exp(min(least - top - problem.rounding(problem.source), 700.0))))
        _, _, _, right, reached = scalar.maximise(top - NEARLY * abs(top), items, lo, hi, state, allowed, cap, 1.0)
        if not reached:
            break
        many = problem.source[None], right[0][None], right[1][None], items.first, problem.lo[None], problem.hi[None]
        plan = problem.result(problem.space.placed(*many)[0], math.inf, status=Status.UNREACHABLE)
        if best is not None and plan.proba[problem.k] <= best.proba[problem.k]:
            break
        best = plan
        z = problem.model.scores(plan.x)
        s = z[problem.rivals] - z[problem.k]
    best = best or problem.result(problem.source, math.inf, status=Status.UNREACHABLE)
    return replace(best, bound=best.cost, ceiling=ceiling)


def _members(problem: LimitedProblem, moved: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The features of the items that move."""
    singles = np.flatnonzero(~problem.space.grouped)
    groups = [group for group, goes in zip(problem.space.limits.groups, moved[len(singles) :], strict=True) if goes]
    return np.sort(np.concatenate([singles[moved[: len(singles)]], *groups])).astype(np.intp)


def _over(problem: LimitedProblem, chosen: NDArray[np.intp], prob: float, budget: Budget) -> Result | None:
    """The best answer that changes only these features; None where there is none."""
    if not len(chosen):
        return None
    part = Narrow(problem, chosen)
    plan = part.widen(search(part, budget, prob=prob))
    return plan if plan.status is not Status.UNREACHABLE and np.isfinite(plan.x).all() else None


def _survivors(problem: LimitedProblem, merged: Merged, w: float, bound: float, cost: float) -> NDArray[np.intp]:
    """The features whose move does not make the bound exceed the cost of what is known."""
    _, items, lo, hi, _, allowed, cap = merged
    n, groups = len(items.g), len(items.first) - 1
    everything = np.zeros(n + groups, dtype=np.int64)
    t, choice, *_ = scalar.evaluate(w, items, lo, hi, everything, allowed, n + groups)
    saved = np.zeros(n + groups)
    saved[:n] = -(0.5 * t * t + items.mu * np.abs(t) - w * items.g * t)
    for j in range(groups):
        price = items.oc - w * items.og
        rest = [o for o in range(items.first[j], items.first[j + 1]) if not items.moves[o] and allowed[o]]
        saved[n + j] = (price[rest[0]] if rest else np.inf) - price[choice[j]]
    must = np.append(~items.at_rest, np.zeros(groups, dtype=bool))
    order = np.sort(saved[~must])[::-1]
    room = cap - int(must.sum())
    last = order[min(room, len(order)) - 1] if room > 0 and len(order) else 0.0
    stays = bound + max(last, 0.0) - np.maximum(saved, 0.0) > cost * (1 + SLACK)
    return _members(problem, ~stays | must)
