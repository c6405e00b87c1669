"""How many cores there are to work on, and rows shared out among them."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from ifonly.model.errors import InputError

__all__ = ["available", "share_out"]


def available(threads: int | None = None) -> int:
    """As many threads as were asked for, or as many cores as this process may use."""
    if threads is not None and threads < 1:
        raise InputError(f"threads must be 1 or more; got {threads}")
    return threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def share_out(rows: int, threads: int, least: int, part: Callable[[slice], None]) -> None:
    """Call ``part`` on slices that cover so many rows: one for each thread, none of fewer rows than are worth handing over."""
    parts = max(1, min(threads, rows // least))
    if parts == 1:
        part(slice(0, rows))
        return
    edges = np.linspace(0, rows, parts + 1).astype(int).tolist()
    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(part, (slice(a, b) for a, b in pairwise(edges))))
