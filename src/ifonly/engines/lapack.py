"""Routines of LAPACK and BLAS for doubles, three microseconds a call where SciPy's own functions take fifteen.

SciPy is loaded when the first of them is called: most questions go through compiled loops, and never do.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = ["dposv", "dpotrf", "dpotrs", "dsymv", "dtrtri"]


def _late(name: str, library: str) -> Callable[..., Any]:
    @cache
    def load() -> Callable[..., Any]:
        from scipy import linalg

        (found,) = getattr(linalg, f"get_{library}_funcs")((name,), dtype=np.float64)
        return found

    def call(*arguments: Any, **options: Any) -> Any:
        return load()(*arguments, **options)

    return call


dposv, dpotrf, dpotrs, dtrtri = (_late(name, "lapack") for name in ("posv", "potrf", "potrs", "trtri"))
dsymv = _late("symv", "blas")
