"""`solvers.scalar`, compiled with Numba (extra ``fast``), for one source and for many.

The compiled functions are those of `solvers.scalar` themselves: the same text, with each call replaced by the compiled callee.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from numba import njit

from ifonly.solvers import scalar

__all__ = ["compiled", "reach"]

ROWS_PER_THREAD = 64


def _compile() -> SimpleNamespace:
    """The functions of `solvers.scalar`, callees first, each compiled against the compiled ones before it."""
    space = dict(vars(scalar))
    for name in ("evaluate", "next_point", "most", "branch_item", "maximise", "fixed", "open_pool", "grown", "offer", "expand"):
        text = getattr(scalar, name)
        space[name] = njit(cache=True, nogil=True, error_model="numpy")(FunctionType(text.__code__, space, name))
    return SimpleNamespace(**{name: space[name] for name in scalar.__all__})


compiled = _compile()
_open_pool, _expand, _Items = compiled.open_pool, compiled.expand, scalar.Items


@njit(cache=True, nogil=True, error_model="numpy")
def _reach(need, g, mu, step, anchor, at_rest, lo, hi, og, oc, moves, first, cap, gap, nodes, t, choice, numbers):
    """Rows a to b: t, choice and (cost, w, nodes, bound, done) of each, into the last three."""
    for n in range(len(need)):
        items = _Items(g, mu, step, anchor[n], at_rest[n], og[n], oc[n], moves[n], first)
        pool = _open_pool(items, lo[n], hi[n])
        pool, done = _expand(pool, need[n], items, cap, gap, nodes)
        t[n] = pool.best_t
        choice[n] = pool.best_choice
        numbers[n, 0] = pool.numbers[0]
        numbers[n, 1] = pool.numbers[1]
        numbers[n, 2] = pool.numbers[2]
        numbers[n, 3] = min(pool.numbers[0], pool.bound.min(), pool.numbers[3])
        numbers[n, 4] = 1.0 if done else 0.0


def reach(need: Any, items: Any, lo: Any, hi: Any, cap: int, gap: float, nodes: int, threads: int) -> tuple[Any, Any, Any]:
    """`scalar.expand` for N rows; ``items`` has a leading axis of N in what depends on the source."""
    N, n, groups = len(need), len(items.g), len(items.first) - 1
    t, choice, numbers = np.empty((N, n)), np.empty((N, groups), dtype=np.int64), np.empty((N, 5))

    def part(a: int, b: int) -> None:
        s = slice(a, b)
        per_row = (items.anchor[s], items.at_rest[s], lo[s], hi[s], items.og[s], items.oc[s], items.moves[s])
        _reach(need[s], items.g, items.mu, items.step, *per_row, items.first, cap, gap, nodes, t[s], choice[s], numbers[s])

    parts = max(1, min(threads, N // ROWS_PER_THREAD))
    edges = np.linspace(0, N, parts + 1).astype(int)
    if parts == 1:
        part(0, N)
    else:
        with ThreadPoolExecutor(parts) as pool:
            list(pool.map(lambda pair: part(*pair), pairwise(edges)))
    return t, choice, numbers
