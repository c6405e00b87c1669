"""Row loops: B sources with the same target in, class-space answers out; D is on neither side.

A loop is a pair of functions, ``solve_lam(gram, margins, lam, …)`` and ``solve_prob(gram, margins, window, …)``; each returns
`engines.newton.Solved`. `reference` states the algorithm as an array program; the C++ of this folder, which is compiled when
the package is installed, is the same for one row, a vector of rows and a GPU. `cuda` compiles it for that, and `device` takes
whole tables there. `few_and_rest`, `intervals` and `one_multiplier` are the compiled twins of other engines.
"""

import os
from functools import cache
from typing import Any

from ifonly.problem.question import Backend

__all__ = ["compiled", "takes_compiled"]


@cache
def compiled() -> Any:
    """The compiled row loops, None where the package was installed without a compiler.

    The environment variable ``IFONLY_NATIVE`` says which set of instructions to use in place of the best that this machine has
    (``baseline``, ``avx2``, ``avx512``), or ``none`` for NumPy alone.
    """
    wanted = os.environ.get("IFONLY_NATIVE", "")
    try:
        import ifonly.native._rows as rows
    except ModuleNotFoundError:
        return None
    if wanted == "none":
        return None
    if wanted:
        rows.use(wanted)
    return rows


def takes_compiled(backend: Backend) -> bool:
    """Whether to solve compiled: where that was asked for, or nothing was and the package was installed with a compiler."""
    installed = compiled() is not None
    if backend == "cpu" and not installed:
        raise ImportError('backend="cpu" needs the compiled row loops: install ifonly where there is a C++20 compiler')
    return installed and backend in ("auto", "cpu")
