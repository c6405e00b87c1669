"""`native.multiplier_search`, compiled with Numba (extra ``fast``), for one source and for many.

The compiled functions are those of `native.multiplier_search` themselves: the same text, with each call replaced by the
compiled callee.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from numba import njit

from ifonly.native import multiplier_search as scalar

__all__ = ["compiled", "reach"]

ROWS_PER_THREAD = 64

_CALLED = (
    "evaluate",
    "next_point",
    "most",
    "branch_item",
    "maximise",
    "fixed",
    "open_pool",
    "grown",
    "with_room",
    "offer",
)  # callees first


def _compile() -> SimpleNamespace:
    """The functions of `native.multiplier_search`, callees first, each compiled against the compiled ones before it."""
    space = dict(vars(scalar))
    for name in (*_CALLED, "expand", "expand_rows"):
        text = getattr(scalar, name)
        space[name] = njit(cache=True, nogil=True, error_model="numpy")(FunctionType(text.__code__, space, name))
    return SimpleNamespace(**{name: space[name] for name in scalar.__all__})


compiled = _compile()


def reach(need: Any, items: Any, lo: Any, hi: Any, cap: int, gap: float, nodes: int, threads: int) -> tuple[Any, Any, Any]:
    """`scalar.expand` for N rows; ``items`` has a leading axis of N in what depends on the source."""
    N, n, groups = len(need), len(items.g), len(items.first) - 1
    t, choice, numbers = np.empty((N, n)), np.empty((N, groups), dtype=np.int64), np.empty((N, 5))

    def part(a: int, b: int) -> None:
        s = slice(a, b)
        per_row = {name: getattr(items, name)[s] for name in ("anchor", "at_rest", "og", "oc", "moves")}
        out = (t[s], choice[s], numbers[s])
        compiled.expand_rows(need[s], items._replace(**per_row), lo[s], hi[s], cap, gap, nodes, out)

    parts = max(1, min(threads, N // ROWS_PER_THREAD))
    edges = np.linspace(0, N, parts + 1).astype(int)
    if parts == 1:
        part(0, N)
    else:
        with ThreadPoolExecutor(parts) as pool:
            list(pool.map(lambda pair: part(*pair), pairwise(edges)))
    return t, choice, numbers
