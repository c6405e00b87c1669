"""How the row loop of a free engine runs: one row after the other, an array program, compiled, or on a GPU.

Which of them is decided from the question and the number of rows alone, and from whether the compiled loops were built: so the
same question has the same bits in any session.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.compiled import takes_compiled
from ifonly.engines.threads import available
from ifonly.model.extras import missing
from ifonly.model.numerics import Floats
from ifonly.model.tensors import like
from ifonly.native import compiled
from ifonly.native.solved import Solved
from ifonly.problem.asked import Asked
from ifonly.problem.question import Backend
from ifonly.rows.sources import Sources

__all__ = ["RowLoop", "any_cut", "choose_loop", "device_loop", "read_rows", "softmax_rows"]


FEW = 16  # rows up to which one after the other is as quick as any loop


class RowLoop(NamedTuple):
    """Functions for B sources with the same target.

    ``table``, where there is one, goes from sources to answers by itself (`native.device.invert_table`), or says that it does
    not. ``compiled`` is `native.free`, which does so for rows with one target, on so many threads.
    """

    solve_lam: Callable[..., Solved]
    solve_prob: Callable[..., Solved]
    table: Callable[..., Any] | None = None
    compiled: Any = None
    threads: int = 1


def any_cut(backend: Backend = "auto") -> Backend:
    """For rows that come in pieces: one loop whatever the size of a piece, so that answers do not depend on the cut."""
    if backend != "auto":
        return backend
    return "reference" if compiled() is None else "cpu"


def choose_loop(asked: Asked, n_rows: int | None) -> RowLoop | None:
    """How to run so many rows (None: a stream of them); None for one row after the other."""
    backend = asked.question.backend
    if backend == "cuda":
        return device_loop()
    if takes_compiled(backend):
        return compiled_loop(asked.question.threads)
    return None if backend == "auto" and n_rows is not None and n_rows <= FEW else reference_loop()


def reference_loop() -> RowLoop:
    """The array program."""
    from ifonly.native import reference

    return RowLoop(reference.solve_lam, reference.solve_prob)


@cache
def compiled_loop(threads: int | None) -> RowLoop:
    """The compiled one."""
    from ifonly.native import free, reference

    return RowLoop(reference.solve_lam, reference.solve_prob, compiled=free, threads=available(threads))


def device_loop() -> RowLoop:
    """The GPU's."""
    try:
        from ifonly.native import cuda, device
    except ImportError as error:
        raise missing('backend="cuda" needs CuPy', "gpu") from error
    cuda.check_device()
    return RowLoop(cuda.solve_lam, cuda.solve_prob, table=device.invert_table)


def read_rows(asked: Asked, x: Any) -> Sources:
    """The rows that a user brings; with the "cuda" backend a table that is on the GPU stays there."""
    model = asked.model
    kind = like(x) if asked.question.backend == "cuda" and model.encoding.identity else None
    if kind is None or not kind.device.startswith("cuda") or x.ndim != 2:
        return Sources.read(model, x)
    device_loop()  # says what is missing
    from ifonly.native.device import DeviceSources

    return DeviceSources.read(model, x)


def softmax_rows(margins: Floats) -> tuple[Floats, Floats, Floats]:
    """`coordinates.rivals_softmax` for many rows."""
    top = np.maximum(margins.max(axis=1), 0.0)
    e, e_target = np.exp(margins - top[:, None]), np.exp(-top)
    mass = e.sum(axis=1)
    total = mass + e_target
    loss = np.where(top > 0, top + np.log(total), np.log1p(mass))
    return e / total[:, None], e_target / total, loss
