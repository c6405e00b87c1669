"""Whether there is a GPU to test on, and if not why not."""

from functools import cache

import pytest


@cache
def missing() -> str | None:
    """What is missing, or None."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed"
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"there is no CUDA device ({error})"
    return None


def needed() -> None:
    """Skip the test, saying why, unless there is a GPU."""
    if missing() is not None:
        pytest.skip(f'backend="cuda" is not tested here: {missing()}')
