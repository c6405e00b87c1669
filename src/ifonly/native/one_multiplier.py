"""`native.multiplier_search` in C++ (multiplier_search.hpp), for one source and for many."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.threads import share_out
from ifonly.native import compiled
from ifonly.native.multiplier_search import LOG, Items

__all__ = ["Search", "reach"]

Floats = NDArray[np.float64]

ROWS_PER_THREAD = 64
DONE, FULL = 1, 2  # how a search may end; 0 where it goes on

_FLOAT, _FLAG = np.float64, np.bool_
_TYPES = (_FLOAT, _FLOAT, _FLOAT, _FLOAT, _FLAG, _FLOAT, _FLOAT, _FLAG, np.int64)  # of `Items`


class Search:
    """As `multiplier_search.Search`."""

    def __init__(self, items: Items, lo: Any, hi: Any, need: float, cap: int, room: int) -> None:
        """Begin with everything allowed; no more than ``room`` nodes are kept."""
        self._shape, self.full = (len(items.g), len(items.first) - 1), False
        self._search = compiled().Search(*_plain(items), *(_floats(a) for a in (lo, hi)), need, cap, room)

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
