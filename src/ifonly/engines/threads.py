"""How many cores there are to work on, and work shared out among them."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import count, pairwise
from typing import Any

from ifonly.model.errors import InputError

__all__ = ["available", "cuts", "on_threads", "share_out"]

MOST = 256  # helpers that are kept, in all; one starts only where none is idle
TURNS = 4  # parts for each thread: where one is disturbed, the others take over what it would have done


def available(threads: int | None = None) -> int:
    """As many threads as were asked for, or as many cores as this process may use."""
    if threads is not None and threads < 1:
        raise InputError(f"threads must be 1 or more; got {threads}")
    return threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@cache
def _helpers() -> ThreadPoolExecutor:
    """Threads that wait for work: to start one takes ten times as long as to wake it."""
    return ThreadPoolExecutor(MOST, thread_name_prefix="ifonly-helper")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a child has none of its parent's threads


def on_threads(work: Callable[[Any], Any], things: Sequence[Any], threads: int) -> list[Any]:
    """``[work(thing) for thing in things]``, by this thread and helpers; one that comes late finds nothing left to do."""
    some = min(threads, len(things))
    if some < 2:
        return [work(thing) for thing in things]
    done: list[Any] = [None] * len(things)
    turns = count()

    def take_turns() -> None:
        while (n := next(turns)) < len(things):
            done[n] = work(things[n])

    helpers = [_helpers().submit(take_turns) for _ in range(some - 1)]
    try:
        take_turns()
    finally:
        late = [helper for helper in helpers if not helper.cancel()]
        wait(late)
    for helper in late:
        helper.result()  # or what went wrong there
    return done


def share_out(rows: int, threads: int, least: int, part: Callable[[slice], None]) -> None:
    """Call ``part`` on slices that cover so many rows, on several threads: none of fewer rows than are worth handing over."""
    on_threads(part, cuts(rows, threads, least), threads)


def cuts(rows: int, threads: int, least: int) -> list[slice]:
    """Slices that cover so many rows, of ``least`` rows or more: some for each thread, and one where there is one thread."""
    parts = 1 if threads == 1 else max(1, min(threads * TURNS, rows // least))
    edges = [rows * n // parts for n in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]
