"""`native.multiplier_search` in C++ (multiplier_search.hpp), for one source and for many."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.threads import share_out
from ifonly.model.numerics import Flags, Floats
from ifonly.native import compiled
from ifonly.native.multiplier_search import LOG, Items

__all__ = ["Constraints", "Search", "reach"]


ROWS_PER_THREAD = 64
DONE, FULL = 1, 2  # how a search may end; 0 where it goes on

_FLOAT, _FLAG = np.float64, np.bool_
_TYPES = (_FLOAT, _FLOAT, _FLOAT, _FLOAT, _FLAG, _FLOAT, _FLOAT, _FLAG, np.int64)  # of `Items`


class Constraints(NamedTuple):
    """Several constraints in place of one (many_multipliers.hpp): what each gains by the items, and has to.

    The first ``rivals`` are one: ln Σ_j exp(needs_j − what row j gains) ≤ 0.
    """

    rows: Floats  # (M, n)
    options: Floats  # (M, m)
    needs: Floats  # (M,)
    slips: Floats  # (M,) by how much each may be missed by rounding
    equal: Flags  # (M,)
    rivals: int

    def plain(self) -> "Constraints":
        """Arrays as C++ reads them."""
        floats = {name: _floats(getattr(self, name)) for name in ("rows", "options", "needs", "slips")}
        return self._replace(equal=np.ascontiguousarray(self.equal), **floats)


class Search:
    """As `multiplier_search.Search`."""

    def __init__(self, items: Items, lo: Any, hi: Any, need: "float | Constraints", cap: int, room: int) -> None:
        """Begin with everything allowed; no more than ``room`` nodes are kept."""
        self._shape, self.full = (len(items.g), len(items.first) - 1), False
        self._constraints = len(need.needs) if isinstance(need, Constraints) else 1
        g, mu, step, anchor, at_rest, og, *options = _plain(items)
        lo, hi = _floats(lo), _floats(hi)
        if isinstance(need, Constraints):
            self._search = compiled().Search(mu, step, anchor, at_rest, *options, lo, hi, *need.plain(), cap, room)
        else:
            self._search = compiled().Search(g, mu, step, anchor, at_rest, og, *options, lo, hi, need, cap, room)

    @property
    def cost(self) -> float:
        """Of the best solution that is known; infinite where none is."""
        return self._search.cost

    @property
    def w(self) -> float:
        """The multiplier of that solution."""
        return self._search.w

    @property
    def solved(self) -> int:
        """Nodes that were solved."""
        return self._search.solved

    @property
    def bound(self) -> float:
        """No solution costs less."""
        return self._search.bound

    @property
    def t(self) -> Floats:
        """The best solution's changes."""
        return self._answer[0]

    @property
    def choice(self) -> NDArray[np.int64]:
        """The best solution's options."""
        return self._answer[1]

    @property
    def _answer(self) -> tuple[Floats, NDArray[np.int64]]:
        n, groups = self._shape
        found = np.empty(n), np.empty(groups, dtype=np.int64)
        self._search.answer(*found)
        return found

    @property
    def log(self) -> Floats:
        """The record of all nodes (`LOG`)."""
        log = np.empty((self._search.count, len(LOG)))
        self._search.record(log)
        return log

    @property
    def multipliers(self) -> Floats:
        """Those of all nodes, one for each of several constraints."""
        found = np.empty((self._search.count, self._constraints))
        self._search.multipliers(found)
        return found

    def expand(self, rel_gap: float, nodes: int) -> bool:
        """Solve up to ``nodes`` open nodes, best bound first; whether nothing is left that could be better."""
        ended = self._search.expand(rel_gap, nodes)
        self.full = ended == FULL
        return ended == DONE


def reach(
    need: Any, items: Items, lo: Any, hi: Any, cap: int, gap: float, nodes: int, threads: int = 1
) -> tuple[Any, Any, Any]:
    """`Search` for N sources: t, choice and (cost, w, nodes, bound, done) of each.

    What depends on the source has a leading axis of N in ``items``.
    """
    N, n, groups = len(need), len(items.g), len(items.first) - 1
    found = np.empty((N, n)), np.empty((N, groups), dtype=np.int64), np.empty((N, 5))
    items, need, lo, hi = _plain(items), *(_floats(a) for a in (need, lo, hi))

    def part(s: slice) -> None:
        own = items._replace(**{name: getattr(items, name)[s] for name in items.per_row})
        compiled().search_rows(need[s], *own, lo[s], hi[s], cap, gap, nodes, *(out[s] for out in found))

    share_out(N, threads, ROWS_PER_THREAD, part)
    return found


def _floats(a: Any) -> Floats:
    return np.ascontiguousarray(a, dtype=np.float64)


def _plain(items: Items) -> Items:
    """Arrays as C++ reads them."""
    return Items(*(np.ascontiguousarray(a, dtype=kind) for a, kind in zip(items, _TYPES, strict=True)))
