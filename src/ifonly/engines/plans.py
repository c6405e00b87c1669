"""Several answers for one source: the optimum, and after it the menu (`menu`).

With λ there is no goal that a set of features could reach or not. There each answer is the optimum of a restriction: of an
answer's main features one is frozen in turn, and the best of what these restrictions give is next. Restrictions nest, so that
the objective rises.
"""

import heapq
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.gains import price
from ifonly.engines.limits import engine_for
from ifonly.engines.menu import Restrictions, menu
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats
from ifonly.problem.asked import ALL, Aim, Asked
from ifonly.problem.conditions import Conditions
from ifonly.problem.each_limit import restricted
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources

__all__ = ["Plans", "several"]


MOST_NOTABLE = 8  # features of an answer that the next one may do without, one at a time: all, or of more than these …
NOTABLE = 0.05  # … those with this share of the cost
MAIN_SHARE = 0.5  # where no feature is notable, the dearest that make up this much are left out together


class Plans(NamedTuple):
    """Several answers."""

    results: Results
    complete: bool | None = None  # whether there are no others; None with λ
    cheapest: bool | None = None  # whether it is proved that no others are cheaper than those listed; None with λ


def several(asked: Asked, sources: Sources) -> Plans:
    """Up to ``n`` answers."""
    if not sources.single or asked.labels == ALL or asked.among(single=True) is not None:
        raise InputError("n is for one source and one target; call invert for each")
    source, aim, n = sources.dense(0), asked.aim(), asked.question.n or 1
    if not np.isfinite(source).all():
        raise sources.reject(0)
    conditions = asked.conditions
    assert conditions is not None

    def solve(conditions: Conditions, aim: Aim, budget: Budget) -> Result:
        space = CostSpace(conditions, reference=CostSpace.of(asked).loops is None)
        return engine_for(space, aim.lam is not None).row(space, source, aim, budget, asked.question.tol)

    budget = Budget.of(asked.question)
    first = solve(conditions, aim, budget)
    aim = aim._replace(k=first.target)
    if aim.lam is not None:
        return Plans(Results.of(_leaving_out(conditions, source, first, n, lambda here: solve(here, aim, budget))))
    nothing = first.status is Status.UNREACHABLE
    if nothing or not np.isfinite(first.x).all():
        return Plans(Results.of([first]), nothing, nothing)
    limited = not (asked.question.time_limit is asked.question.node_limit is None)
    question = Restrictions(conditions, first, source, aim, solve, budget, limited=limited)
    found, complete, cheapest = menu(question, n)
    # The optimum, and after it the plans of the menu that change something else than it.
    others = [plan for plan in found if question.changed(plan) != question.changed(first)]
    listed = [first, *(_with_names(conditions, other) for other in others[: n - 1])]
    return Plans(Results.of(listed), complete and len(others) < n, cheapest)


def _with_names(conditions: Conditions, result: Result) -> Result:
    """A result whose own conditions say what is frozen by name, as a user would: they can be asked and written again."""
    assert result.conditions is not None
    model, frozen = conditions.model, np.flatnonzero(result.conditions.limits.frozen).tolist()
    names = [d if model.encoding.identity else model.feature_label(d) for d in frozen]
    return replace(result, conditions=replace(conditions, actions=replace(conditions.actions, frozen=names)))


# ---- with λ ----


def _leaving_out(
    conditions: Conditions, source: Floats, first: Result, n: int, solve: Callable[[Conditions], Result]
) -> list[Result]:
    """Answers that leave alone some of what the ones before them change."""
    serial, none = count(), frozenset[int]()
    heap = [(first.objective, next(serial), none, first)]
    tried, found, supports = {none}, [], set()
    while heap and len(found) < n:
        # 1. The best of what is left, if it changes something else than those before it.
        _, _, frozen, result = heapq.heappop(heap)
        support = tuple(np.flatnonzero(result.x != source).tolist())
        if support not in supports:
            supports.add(support)
            found.append(result)
        if not support:
            break
        # 2. The same without one of its main features.
        for more in _main_features(conditions, source, result):
            wider = frozen | more
            if wider in tried:
                continue
            tried.add(wider)
            here = restricted(conditions, np.isin(np.arange(len(source)), list(wider)))
            try:
                other = _with_names(conditions, replace(solve(here), conditions=here))
            except InputError:  # no point satisfies the limits with so much frozen
                continue
            if np.isfinite(other.objective):
                heapq.heappush(heap, (other.objective, next(serial), wider, other))
    return found


def _main_features(conditions: Conditions, source: Floats, result: Result) -> list[frozenset[int]]:
    """What to leave out next: features (a group as one) that make up much of an answer's cost, the dearest first."""
    costs = price(conditions, np.abs(result.x - source))
    whole = [frozenset(group.tolist()) for group in conditions.limits.groups]
    parts = whole + [frozenset([d]) for d in np.flatnonzero(~conditions.grouped & (result.x != source)).tolist()]
    priced = sorted(((float(costs[sorted(part)].sum()), min(part), part) for part in parts), key=lambda p: (-p[0], p[1]))
    total = sum(value for value, _, _ in priced)
    priced = [entry for entry in priced if entry[0] > 0]
    few = len(priced) <= MOST_NOTABLE
    notable = [part for value, _, part in priced[:MOST_NOTABLE] if few or value >= NOTABLE * total]
    if notable or not priced:
        return notable
    shares = np.cumsum([value for value, _, _ in priced])
    dearest = priced[: int(np.searchsorted(shares, MAIN_SHARE * total)) + 1]
    return [frozenset().union(*(part for _, _, part in dearest))]
