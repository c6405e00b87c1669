"""Several answers for one source that differ in which features move, the cheapest first.

Each is exact for its own restriction: of an answer's main features one is frozen in turn, and the cheapest of what these
restrictions give is next. Restrictions nest, so costs rise.
"""

import heapq
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.budget import Budget
from ifonly.engines.limited_problem import CostSpace
from ifonly.engines.limits import engine_for
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.problem.question import ALL, Asked
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources

__all__ = ["several"]

Floats = NDArray[np.float64]

MOST_NOTABLE = 8  # features of an answer that the next one may do without, one at a time: all, or of more than these …
NOTABLE = 0.05  # … those with this share of the cost
MAIN_SHARE = 0.5  # where no feature is notable, the dearest that make up this much are left out together


def several(asked: Asked, sources: Sources) -> Results:
    """Up to ``n`` answers."""
    if not sources.single or asked.labels == ALL or asked.among(single=True) is not None:
        raise InputError("n is for one source and one target; call invert for each")
    source, aim, n = sources.dense(0), asked.aim(), asked.question.n or 1
    if not np.isfinite(source).all():
        raise sources.reject(0)
    space, budget = CostSpace.of(asked), Budget.of(asked.question)
    serial = count()
    first: frozenset[int] = frozenset(np.flatnonzero(space.limits.frozen).tolist())
    heap: list[tuple[float, int, frozenset[int], Result]] = []
    tried: set[frozenset[int]] = set()

    def consider(frozen: frozenset[int], here: CostSpace, k: int) -> None:
        tried.add(frozen)
        engine = engine_for(here.conditions, aim.lam is not None)
        result = engine.row(here, source, aim._replace(k=k), budget.anew(), asked.question.tol)
        if len(tried) == 1 or (result.status is not Status.UNREACHABLE and np.isfinite(result.cost)):
            result = replace(result, conditions=here.conditions)
            heapq.heappush(heap, (aim.value(result), next(serial), frozen, result))

    consider(first, space, aim.k)
    found: list[Result] = []
    supports: set[tuple[int, ...]] = set()
    while heap and len(found) < n:
        _, _, frozen, result = heapq.heappop(heap)
        support = tuple(np.flatnonzero(result.x != source).tolist())
        if support not in supports:
            supports.add(support)
            found.append(result)
        if not support or result.status is Status.UNREACHABLE:
            break
        for more in _main_features(space, source, result):
            wider = frozen | more
            if wider not in tried:
                actions = replace(space.conditions.actions, frozen=_named(space.model, wider))
                consider(wider, CostSpace(replace(space.conditions, actions=actions), space.search), result.target)
    return Results.of(found)


def _named(model: Model, features: frozenset[int]) -> list[Any]:
    """Features as `Actions` takes them: by name where numbers are those of the user's columns."""
    return [d if model.encoding.identity else model.feature_label(d) for d in sorted(features)]


def _main_features(space: CostSpace, source: Floats, result: Result) -> list[frozenset[int]]:
    """What to leave out next: features (a group as one) that make up much of an answer's cost, the dearest first."""
    t = np.abs(result.x - source) * space.per_unit
    price = 0.5 * t * t + space.mu * t
    whole = [frozenset(group.tolist()) for group in space.limits.groups]
    parts = whole + [frozenset([d]) for d in np.flatnonzero(~space.grouped & (t > 0)).tolist()]
    priced = sorted(((float(price[sorted(part)].sum()), min(part), part) for part in parts), key=lambda p: (-p[0], p[1]))
    total = sum(value for value, _, _ in priced)
    priced = [entry for entry in priced if entry[0] > 0]
    few = len(priced) <= MOST_NOTABLE
    notable = [part for value, _, part in priced[:MOST_NOTABLE] if few or value >= NOTABLE * total]
    if notable or not priced:
        return notable
    shares = np.cumsum([value for value, _, _ in priced])
    dearest = priced[: int(np.searchsorted(shares, MAIN_SHARE * total)) + 1]
    return [frozenset().union(*(part for _, _, part in dearest))]
