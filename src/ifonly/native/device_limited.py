"""Tables of sources within limits on features one by one, on a GPU: `limited.cu`, and on the host the rows that it leaves."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.limited_problem import CostSpace
from ifonly.engines.semismooth import MAX_ITER
from ifonly.model import Model
from ifonly.native import cuda, cuda_source
from ifonly.native.device import LEFT, DeviceResults, DeviceSources, set_columns, upload, upload_targets
from ifonly.native.limited import Tables
from ifonly.problem.goals import needed_logit
from ifonly.problem.question import Aims
from ifonly.problem.results import Results
from ifonly.problem.status import LEAST_VALUE, REL_GAP
from ifonly.rows.sources import Sources

cp = cuda.cp

__all__ = ["invert_table"]

CHUNK_BYTES = 2**29  # of sources from the host that are worked on at a time

Alone = Callable[[np.ndarray, Aims], Results]  # rows on the host


class OnDevice(NamedTuple):
    """Columns of `Results` on the device, and the rows that were settled on the host."""

    proba: Any
    target: Any
    numbers: Any  # (N, 6)
    n_iter: Any
    status: Any
    weighed: bool
    left: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
    rest: Results | None = None

    COLUMNS = ("lam", "distance", "objective", "grad_norm", "cost", "gap")

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
        N = len(self.status)
        if name == "bound":
            return self._there("objective" if self.weighed else "cost") - self._there("gap")
        if name in self.COLUMNS:
            return cp.asnumpy(self.numbers[:, self.COLUMNS.index(name)])
        if name in ("target", "n_iter"):
            return cp.asnumpy(getattr(self, name)).astype(np.intp)
        if name in ("proba", "status"):
            return cp.asnumpy(getattr(self, name))
        constant = {"n_passes": np.intp(2), "n_nodes": np.intp(0), "ceiling": 1.0}
        if name in constant:
            return np.full(N, constant[name])
        return None if name == "coef" else [None] * N


class LimitedResults(DeviceResults):
    """`Results` with the columns of limited problems, each on the device until it is first read."""


set_columns(LimitedResults, "cost", "gap", "bound", "n_nodes", "ceiling", "multipliers", "proof")


class Job(NamedTuple):
    """What is wanted of the rows of a table."""

    space: CostSpace
    aims: Aims
    tol: float | None
    max_iter: int
    alone: Alone

    def run(self, X: Any, s: slice, out: Any) -> LimitedResults:
        """Rows ``s`` of the aims, for sources on the device; answers into ``out``, which is there too."""
        model, aims = self.space.model, self.aims.take(s)
        N, K = len(X), model.n_classes
        weighed = aims.lam is not None
        wanted = aims.lam if weighed else _logits(aims.prob, model)
        target, wanted = upload_targets(aims.targets), upload(wanted, np.float64)
        prob = wanted if weighed else upload(aims.prob, np.float64)
        found = OnDevice(
            cp.empty((N, K)), target, cp.empty((N, 6)), cp.empty(N, dtype=np.int32), cp.empty(N, dtype=np.int8), weighed
        )
        there = out.dtype == np.float64 and out.strides[1] == 8 and not cp.may_share_memory(X, out)
        made = out if there else cp.empty(X.shape)
        question = target, wanted, prob, np.float64(self.tol or 0.0), np.int32(self.max_iter)
        _launch(_board(self.space, cp.cuda.Device().id), X, question, made, found)
        found = self._settled(X, aims, made, found)
        if made is not out:
            out[...] = made
        return LimitedResults(found)

    def _settled(self, X: Any, aims: Aims, made: Any, found: OnDevice) -> OnDevice:
        """With the rows that the kernel left, from the host."""
        left = cp.asnumpy(cp.flatnonzero(found.status == LEFT))
        if not len(left):
            return found
        rest = self.alone(cp.asnumpy(X[left]).astype(np.float64, copy=False), aims.take(left))
        made[cp.asarray(left)] = cp.asarray(rest.x)
        return found._replace(left=left, rest=rest)


def _logits(prob: Any, model: Model) -> Any:
    """`needed_logit`, once where it is the same for all."""
    if len(prob) and prob.strides == (0,):
        return np.broadcast_to(needed_logit(float(prob[0]), model), prob.shape)
    return needed_logit(prob, model)


class Board(NamedTuple):
    """`Tables` on the device, and how the kernel is cut for them."""

    arguments: tuple[Any, ...]
    kind: dict[str, int]
    D: int
    K: int
    blocks: cuda_source.Blocks


def _board(space: CostSpace, device: int) -> Board:
    def made() -> Board:
        tables = Tables.of(space)
        blocks = cuda_source.limited_blocks(tables.D, len(tables.b))
        assert blocks is not None  # else the engine refuses
        return Board(tuple(map(cp.asarray, tables.arguments())), tables.kind, tables.D, len(tables.b), blocks)

    return space.conditions.keep(("cuda", device), made)


def _launch(board: Board, X: Any, question: tuple[Any, ...], out: Any, found: OnDevice) -> None:
    if not len(X):
        return
    blocks, source = board.blocks, cuda.TYPES[X.dtype.str[1:]]
    options = cuda_source.limited_options(
        board.D, board.K, source, board.kind, goal=not found.weighed, warps=blocks.warps, staged=blocks.staged
    )
    kernel = cuda.kernel("limited", "limited", options, cp.cuda.Device().id)
    kernel.max_dynamic_shared_size_bytes = blocks.shared
    number = min(_processors(cp.cuda.Device().id), -(-len(X) // blocks.warps))
    least = np.float64(LEAST_VALUE), np.float64(REL_GAP)
    answers = out, np.int64(out.strides[0] // 8), found.proba, found.numbers, found.n_iter, found.status
    sources = np.int64(len(X)), X, np.int64(X.strides[0] // X.itemsize)
    kernel((number,), (32 * blocks.warps,), (*sources, *board.arguments, *question, *least, *answers), shared_mem=blocks.shared)


@cache
def _processors(device: int) -> int:
    return cp.cuda.Device(device).attributes["MultiProcessorCount"]


def invert_table(
    space: CostSpace, sources: Sources, aims: Aims, out: Any, *, tol: float | None, max_iter: int | None, alone: Alone
) -> Results:
    """Answers for a table of sources, on the host or the device, into ``out``."""
    job = Job(space, aims, tol, max_iter or MAX_ITER, alone)
    if isinstance(sources, DeviceSources):
        X = sources.rows
        with X.device:
            there = isinstance(out, cp.ndarray)
            made = out if there else cp.empty(X.shape)
            found = job.run(X, slice(None), made)
            if not there:
                out[...] = cp.asnumpy(made)
        return found
    X = sources.table()
    step = max(CHUNK_BYTES // (8 * X.shape[1]), 1)
    parts = []
    for a in range(0, len(X), step):
        s = slice(a, a + step)
        there = cp.asarray(X[s])
        made = cp.empty(there.shape)
        parts.append(job.run(there, s, made))
        out[s] = cp.asnumpy(made)
    return Results.join(parts) if parts else Results.empty(aims.targets, classes=space.model.n_classes, x=out, limited=True)
