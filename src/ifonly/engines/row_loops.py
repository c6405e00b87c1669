"""How the row loop of a free engine runs: one row after the other, an array program, compiled, or on a GPU.

Which of them is decided from the question and the number of rows alone, and from what is installed: never from what happens to
be loaded, so that the same question has the same bits in any session.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.phi import phi
from ifonly.engines.threads import available
from ifonly.engines.windows import Window
from ifonly.native.solved import Solved
from ifonly.problem.question import Asked, Backend

__all__ = ["RowLoop", "any_cut", "choose_loop", "compiled_is_installed", "softmax_rows"]

Floats = NDArray[np.float64]

FEW = 16  # rows up to which one after the other is as quick as any loop
# Rows from which loading the compiled loop (a second, once per process) pays for itself against the reference's 25 µs a row.
LOAD_ROWS = 20_000
ROWS_PER_THREAD = 512  # fewer than these are solved sooner than they are handed over


class RowLoop(NamedTuple):
    """Functions for B sources with the same target (``root`` is φ, for two classes), and on how many threads to run them.

    ``table``, where there is one, goes from sources to answers by itself (`native.device.invert_table`), or says that it does
    not.
    """

    solve_lam: Callable[..., Solved]
    solve_prob: Callable[..., Solved]
    root: Callable[[Floats, Floats], Floats] = phi
    threads: int = 1
    table: Callable[..., Any] | None = None

    def run(self, solve: Callable[..., Solved], gram: Floats, *per_row: Any, **options: Any) -> Solved:
        """Call one of the two, on slices of the rows if there are threads to share them."""
        B = len(per_row[0].logit if isinstance(per_row[0], Window) else per_row[0])
        parts = min(self.threads, B // ROWS_PER_THREAD)
        if parts <= 1:
            return solve(gram, *per_row, **options)
        edges = np.linspace(0, B, parts + 1).astype(int)
        slices = [slice(a, b) for a, b in pairwise(edges)]
        with ThreadPoolExecutor(parts) as pool:
            done = list(pool.map(lambda s: solve(gram, *(_cut(a, s) for a in per_row), **options), slices))
        return Solved(*(np.concatenate(arrays) for arrays in zip(*done, strict=True)))


def _cut(value: Any, s: slice) -> Any:
    return value.take(s) if isinstance(value, Window) else value[s]


@cache
def compiled_is_installed() -> bool:
    """Whether there is a compiler for row loops (extra ``fast``)."""
    return find_spec("numba") is not None


def any_cut(backend: Backend = "auto") -> Backend:
    """For rows that come in pieces: one loop whatever the size of a piece, so that answers do not depend on the cut."""
    if backend != "auto":
        return backend
    return "cpu" if compiled_is_installed() else "reference"


def choose_loop(asked: Asked, n_rows: int | None) -> RowLoop | None:
    """How to run so many rows (None: a stream of them); None for one row after the other."""
    backend = asked.question.backend
    if backend == "cuda":
        return device_loop()
    if backend == "auto" and n_rows is not None and n_rows <= FEW:
        return None
    worth_it = backend == "auto" and (n_rows is None or n_rows >= LOAD_ROWS) and compiled_is_installed()
    return compiled_loop(asked.question.threads) if backend == "cpu" or worth_it else reference_loop()


def reference_loop() -> RowLoop:
    """The array program."""
    from ifonly.native import reference

    return RowLoop(reference.solve_lam, reference.solve_prob)


def compiled_loop(threads: int | None) -> RowLoop:
    """The compiled one."""
    try:
        from ifonly.native import lanes
    except ImportError as error:
        raise ImportError('backend="cpu" needs Numba: pip install "ifonly[fast]"') from error
    return RowLoop(lanes.solve_lam, lanes.solve_prob, lanes.root, available(threads))


def device_loop() -> RowLoop:
    """The GPU's."""
    try:
        from ifonly.native import cuda, device
    except ImportError as error:
        raise ImportError('backend="cuda" needs CuPy: pip install "ifonly[gpu]"') from error
    cuda.check_device()
    return RowLoop(cuda.solve_lam, cuda.solve_prob, table=device.invert_table)


def softmax_rows(margins: Floats) -> tuple[Floats, Floats, Floats]:
    """`coordinates.rivals_softmax` for many rows."""
    top = np.maximum(margins.max(axis=1), 0.0)
    e, e_target = np.exp(margins - top[:, None]), np.exp(-top)
    mass = e.sum(axis=1)
    total = mass + e_target
    loss = np.where(top > 0, top + np.log(total), np.log1p(mass))
    return e / total[:, None], e_target / total, loss
