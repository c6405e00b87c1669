"""How the row loop of a free engine runs: one row after the other, an array program, compiled, or on a GPU.

Which of them is decided from the question and the number of rows alone, and from whether the compiled loops were built: so the
same question has the same bits in any session.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from ifonly.engines.threads import available
from ifonly.model.errors import InputError
from ifonly.model.extras import missing
from ifonly.model.tensors import like
from ifonly.native import compiled, free, takes_compiled
from ifonly.problem.asked import Asked
from ifonly.problem.question import Backend
from ifonly.rows.sources import Sources

__all__ = ["RowLoop", "any_cut", "choose_loop", "device_module", "read_rows", "read_starts"]

FEW = 16  # rows up to which one after the other is as quick as any loop


class RowLoop(NamedTuple):
    """Where rows go side by side; one after the other where there is neither of the first two.

    ``arrays`` has ``solve_lam`` and ``solve_prob`` for B sources with the same target (`native.reference`, `native.cuda`).
    ``compiled`` is `native.free`, which goes from sources to answers, on so many threads; and so does ``table``
    (`native.device.invert_table`), or it says that it does not.
    """

    arrays: Any = None
    compiled: Any = None
    table: Callable[..., Any] | None = None
    threads: int = 1


def any_cut(backend: Backend = "auto") -> Backend:
    """For rows that come in pieces: one loop whatever the size of a piece, so that answers do not depend on the cut."""
    if backend != "auto":
        return backend
    return "reference" if compiled() is None else "cpu"


def choose_loop(asked: Asked, n_rows: int | None) -> RowLoop:
    """How to run so many rows (None: a stream of them)."""
    backend = asked.question.backend
    if backend == "cuda":
        device = device_module()
        return RowLoop(device.cuda, table=device.invert_table)
    if takes_compiled(backend):
        return _compiled_loop(asked.question.threads)
    if backend == "auto" and n_rows is not None and n_rows <= FEW:
        return RowLoop()
    from ifonly.native import reference

    return RowLoop(reference)


@cache
def _compiled_loop(threads: int | None) -> RowLoop:
    return RowLoop(compiled=free, threads=available(threads))


def device_module() -> Any:
    """`native.device`, or what is missing for it."""
    try:
        from ifonly.native import device
    except ImportError as error:
        raise missing('backend="cuda" needs CuPy', "gpu") from error
    device.cuda.check_device()
    return device


def read_rows(asked: Asked, x: Any) -> Sources:
    """The rows that a user brings; with the "cuda" backend a table that is on the GPU stays there."""
    model = asked.model
    kind = like(x) if asked.question.backend == "cuda" and model.encoding.identity else None
    if kind is None or not kind.device.startswith("cuda") or x.ndim != 2:
        return Sources.read(model, x)
    return device_module().DeviceSources.read(model, x)


def read_starts(asked: Asked, n_rows: int | None) -> Sources:
    """The points to start from: one, or one for each of so many rows."""
    given = Sources.read(asked.model, asked.question.start)
    if len(given) not in (1, n_rows):
        raise InputError(f"start must be one point or {n_rows}, one per row; got {len(given)}")
    return given
