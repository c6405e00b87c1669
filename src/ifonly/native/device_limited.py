"""Tables of sources within limits on features one by one, on a GPU, and on the host the rows that are left.

Rows go in rounds: `newton.cu` solves their problems over classes, `limited.cu` goes over their features.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import newton
from ifonly.engines.budget import MAX_ITER
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.protocol import Engine, Piece
from ifonly.native import cuda, cuda_source
from ifonly.native.device import DeviceResults, DeviceSources, OnDevice, upload, upload_targets, upload_wanted
from ifonly.native.free import LEFT
from ifonly.native.limited import Tables
from ifonly.problem.asked import Aims, Asked
from ifonly.problem.results import Results
from ifonly.problem.status import LEAST_VALUE, REL_GAP
from ifonly.rows.sources import Sources

cp = cuda.cp

__all__ = ["solve"]

CHUNK_BYTES = 2**29  # of sources from the host that are worked on at a time
KEPT_BYTES = 2**30  # of what is kept of rows between their rounds, about
LEFT_ROWS = 4096  # that are handed to the processor at a time
FRESH = 10  # kept.hpp's first status of a row that is not settled
MOST_ROUNDS = 40  # of a row; of MNIST's within [0, 1] none takes more than 6

Alone = Callable[[np.ndarray, Aims], Results]  # rows on the host


class Limited(NamedTuple):
    """Columns of `Results` on the device, and the rows that were settled on the host."""

    there: OnDevice
    weighed: bool
    left: NDArray[np.intp]
    rest: Results | None

    @property
    def status(self) -> Any:
        """That of rows on the device."""
        return self.there.status

    def field(self, name: str) -> Any:
        """One field of `Results`, on the host."""
        values = self._there(name)
        if self.rest is None or values is None:
            return values
        given: Any = getattr(self.rest, name)
        if isinstance(values, list):
            for i, value in zip(self.left.tolist(), given, strict=True):
                values[i] = value
        else:
            values[self.left] = given
        return values

    def _there(self, name: str) -> Any:
        if name == "bound":
            return self.there.field("objective" if self.weighed else "cost") - self.there.field("gap")
        if name in ("n_nodes", "ceiling"):
            return np.full(len(self.status), np.intp(0) if name == "n_nodes" else 1.0)
        return [None] * len(self.status) if name in ("multipliers", "proof") else self.there.field(name)


def _tables(space: CostSpace) -> tuple[Tables, cuda_source.Blocks]:
    """Those of a space, on the device, and how the kernel is cut for them."""

    def made() -> tuple[Tables, cuda_source.Blocks]:
        tables = Tables.of(space)
        blocks = cuda_source.limited_blocks(tables.D, len(tables.b))
        assert blocks is not None  # else the engine refuses
        return Tables(tables.D, *map(cp.asarray, tables.arguments()), kind=tables.kind), blocks

    return space.conditions.keep(("cuda", cp.cuda.Device().id), made)


def _solve(space: CostSpace, X: Any, wanted: Any, prob: Any, tol: float, max_iter: int, out: Any, found: OnDevice) -> None:
    """Rounds of the rows that are open: their problems over classes, then over their features.

    ``wanted`` are λ, and ``prob`` is None; or they are logits, of these probabilities.
    """
    tables, blocks = _tables(space)
    B, K, goal = len(X), len(tables.b), prob is not None
    kept, bits = cp.empty((B, cuda_source.kept_numbers(K))), cp.empty((B, cuda_source.tiled(tables.D) // 32), dtype=np.uint32)
    cut = {"goal": goal, "warps": blocks.warps, "staged": blocks.staged}
    options = cuda_source.limited_options(tables.D, K, cuda.TYPES[X.dtype.str[1:]], tables.kind, **cut)
    kernel = cuda.kernel("limited", "limited", options, cp.cuda.Device().id)
    kernel.max_dynamic_shared_size_bytes = blocks.shared
    rounds = min(max_iter, MOST_ROUNDS)
    asked = found.target, wanted, prob if goal else wanted, np.float64(tol), np.int32(rounds)
    least = np.float64(LEAST_VALUE), np.float64(REL_GAP)
    answers = out, np.int64(out.strides[0] // 8), found.proba, found.numbers, found.n_iter, found.status
    sources = kept, bits, X, np.int64(X.strides[0] // X.itemsize)

    def sweep(count: int, rows: Any) -> None:
        number = min(_processors(cp.cuda.Device().id), -(-count // blocks.warps))
        arguments = np.int64(count), rows, *sources, *tables.arguments(), *asked, *least, *answers
        kernel((number,), (32 * blocks.warps,), arguments, shared_mem=blocks.shared)

    sweep(B, np.intp(0))
    step = cuda.newton("step", K, goal)
    for _ in range(rounds):
        rows = cp.flatnonzero(found.status >= FRESH)
        if not len(rows):
            break
        step(len(rows), rows, tables.grams, found.target, wanted, np.int32(newton.MAX_ITER), kept, found.status)
        sweep(len(rows), rows)


@cache
def _processors(device: int) -> int:
    return cp.cuda.Device(device).attributes["MultiProcessorCount"]


def _invert(space: CostSpace, X: Any, aims: Aims, out: Any, tol: float, max_iter: int, alone: Alone) -> DeviceResults:
    """Answers for sources on the device into ``out``, which is there too; of rows that the kernel leaves, those of the host."""
    N, K = len(X), space.model.n_classes
    wanted, prob = upload_wanted(space.model, aims), None if aims.prob is None else upload(aims.prob, np.float64)
    found, rest = OnDevice.empty(K, upload_targets(aims.targets), limited=True), None
    there = out.dtype == np.float64 and out.strides[1] == 8 and not cp.may_share_memory(X, out)
    made = out if there else cp.empty(X.shape)
    parts = -(-N * 8 * cuda_source.kept_numbers(K) // KEPT_BYTES)
    for s in (slice(N * i // parts, N * (i + 1) // parts) for i in range(parts)):
        _solve(space, X[s], wanted[s], None if prob is None else prob[s], tol, max_iter, made[s], found.part(s))
    left = cp.asnumpy(cp.flatnonzero(found.status == LEFT))
    if len(left):
        rest = alone(cp.asnumpy(X[left]).astype(np.float64, copy=False), aims.take(left))
        made[cp.asarray(left)] = cp.asarray(rest.x)
    if made is not out:
        out[...] = made
    return DeviceResults(Limited(found, aims.lam is not None, left, rest))


def solve(asked: Asked, rows: Piece, engine: Engine) -> Results:
    """The answers for a piece of a table, on the host or the device; where a class is still to be chosen, the processor's."""
    question, sources, aims, out = asked.question, rows.sources.repeated(asked.per_source), rows.aims, rows.out
    here, space = asked.at(backend="auto"), CostSpace.of(asked)

    def alone(X: np.ndarray, aims: Aims) -> Results:
        made = np.empty(X.shape)
        pieces = [slice(a, a + LEFT_ROWS) for a in range(0, len(X), LEFT_ROWS)]
        found = [engine.solve(here, Piece(Sources.read(asked.model, X[s]), aims.take(s), out=made[s])) for s in pieces]
        return Results.join(found).with_x(made)

    def run(X: Any, s: slice) -> Results:
        made = out[s] if isinstance(out, cp.ndarray) else cp.empty(X.shape)
        found = _invert(space, X, aims.take(s), made, question.tol or 0.0, question.max_iter or MAX_ITER, alone)
        if not isinstance(out, cp.ndarray):
            out[s] = cp.asnumpy(made)
        return found

    if (aims.targets < 0).any() or question.time_limit is not None:
        found = alone(cp.asnumpy(sources.table()), aims)
        out[...] = cp.asarray(found.x) if isinstance(out, cp.ndarray) else found.x
        return found
    if isinstance(sources, DeviceSources):
        with sources.rows.device:
            return run(sources.rows, slice(None))
    X = sources.table()
    step = max(CHUNK_BYTES // (8 * X.shape[1]), 1)
    parts = [run(cp.asarray(X[s]), s) for s in (slice(a, a + step) for a in range(0, len(X), step))]
    return Results.join(parts) if parts else Results.empty(aims.targets, classes=space.model.n_classes, x=out, limited=True)
