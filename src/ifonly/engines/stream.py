"""Many sources, a chunk at a time, so that memory stays bounded."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.answers.answer import Counterfactuals
from ifonly.engines.progress import Progress
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.native import Kernel, Rows, choose_kernel, solve_rows
from ifonly.problem.question import Wishes
from ifonly.rows.sources import Sources, check_out

__all__ = ["Starts", "invert_many"]

# Rows of x per chunk: few enough to bound the memory, many enough that the kernel's lanes are full (a chunk is split by target)
# and a chunk's fixed cost does not show. Smaller chunks, which stay in the cache between the two passes, were slower: on
# MNIST 6.1 µs a row with 4 MB, 5.1 with 16, 5.0 with 64.
CHUNK_BYTES = 48 * 2**20
CHUNK_ROWS = (512, 16384)


def invert_many(
    model: Model,
    x: Sources | Iterator[Any],
    wishes: Wishes,
    *,
    backend: str,
    threads: int | None,
    out: np.ndarray | None,
    progress: bool | None,
    start: Any,
    tol: float | None,
    max_iter: int,
) -> Counterfactuals:
    """Answers for a table of sources or a stream of tables; into ``out`` if that is given."""
    total = len(x) if isinstance(x, Sources) else None
    K = wishes.per_source
    kernel = choose_kernel(backend, None if total is None else total * K, threads)
    if isinstance(x, Sources):
        wishes.check(len(x))
        out = x.room(out, len(x) * K)
        check_out(out, len(x) * K, model.n_features)
    starts = Starts(model, start, total)
    whole: Rows | None = None
    parts: list[Rows] = []
    kept: list[Sources] = []
    done = 0
    with Progress(total, progress) as bar:
        for table in [x] if isinstance(x, Sources) else (Sources.read(model, chunk) for chunk in x):
            if not isinstance(x, Sources) and out is None:
                kept.append(table)
            for piece in _chunks(table, kernel):
                a, b = done, done + len(piece)
                into = None if out is None else out[a * K : b * K]
                check_out(out, b * K, model.n_features, least=True)
                rows = None
                if kernel is not None and kernel.table is not None and K == 1 and start is None:
                    rows = kernel.table(piece, wishes.rows(a, b), into, tol=tol, max_iter=max_iter)
                if rows is None:
                    Z, sizes = piece.project()
                    at = starts.rows(Z, a, b)
                    if K > 1:
                        each = np.repeat(np.arange(len(piece)), K)
                        Z, sizes, at = Z[each], sizes.take(each), None if at is None else at[each]
                    rows = solve_rows(model, Z, sizes, wishes.rows(a, b), kernel, start=at, tol=tol, max_iter=max_iter)
                    if into is not None:
                        piece.repeated(K).move(rows.coef, into)
                if total is None:
                    parts.append(rows)
                elif len(rows) == total * K:
                    whole = rows
                else:
                    whole = Rows.empty(model, np.zeros(total * K, dtype=np.intp)) if whole is None else whole
                    whole.copy(slice(a * K, b * K), rows)
                done = b
                bar.advance(len(piece))
    if whole is None:
        wishes.check(done)
        whole = Rows.join(parts) if parts else Rows.empty(model, np.zeros(0, dtype=np.intp))
    sources = x if isinstance(x, Sources) else Sources.joined(model, kept) if out is None else Sources.forgotten(model)
    probs = wishes.rows(0, done).prob
    return Counterfactuals(model, sources, whole, probs, K, made=out)


def _chunks(table: Sources, kernel: Kernel | None) -> Iterable[Sources]:
    """A table in pieces."""
    if kernel is None or kernel.table is not None or len(table) <= CHUNK_ROWS[0]:
        return [table]
    least, most = CHUNK_ROWS
    size = int(np.clip(CHUNK_BYTES // (8 * table.model.n_features), least, most))
    return (table.part(a, min(a + size, len(table))) for a in range(0, len(table), size))


class Starts:
    """Where to start, for all rows or for each."""

    def __init__(self, model: Model, start: Any, total: int | None) -> None:
        self.at_source = isinstance(start, str)
        if self.at_source and start != "source":
            raise InputError(f'start must be a point, or "source"; got {start!r}')
        self.points: NDArray[np.float64] | None = None
        if start is None or self.at_source:
            return
        points = Sources.read(model, start)
        if len(points) != 1 and len(points) != total:
            raise InputError(f"start must be one point or {total}, one per row; got {len(points)}")
        self.points, _ = points.project()
        for n in np.flatnonzero(~np.isfinite(self.points).all(axis=1)):
            raise InputError(f"start: {points.reject(int(n))}")

    def rows(self, Z: NDArray[np.float64], a: int, b: int) -> NDArray[np.float64] | None:
        """``x₀ rowsᵀ`` for rows ``a`` to ``b``, whose own is ``Z``."""
        if self.points is None:
            return Z if self.at_source else None
        return np.broadcast_to(self.points, Z.shape) if len(self.points) == 1 else self.points[a:b]
