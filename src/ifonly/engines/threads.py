"""How many cores there are to work on."""

import os

from ifonly.model.errors import InputError

__all__ = ["available"]


def available(threads: int | None = None) -> int:
    """As many threads as were asked for, or as many cores as this process may use."""
    if threads is not None and threads < 1:
        raise InputError(f"threads must be 1 or more; got {threads}")
    return threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
