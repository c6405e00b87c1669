"""Tables of sources within limits on features one by one, on a GPU, and on the host the rows that are left.

Rows go in rounds: `newton.cu` solves their problems over classes, `limited.cu` goes over their features.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import newton
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.semismooth import MAX_ITER
from ifonly.model import Model
from ifonly.native import cuda, cuda_source
from ifonly.native.device import LEFT, DeviceResults, DeviceSources, set_columns, upload, upload_targets
from ifonly.native.limited import Tables
from ifonly.problem.asked import Aims
from ifonly.problem.goals import needed_logit
from ifonly.problem.results import Results
from ifonly.problem.status import LEAST_VALUE, REL_GAP
from ifonly.rows.sources import Sources

cp = cuda.cp

__all__ = ["invert_table"]

CHUNK_BYTES = 2**29  # of sources from the host that are worked on at a time
KEPT_BYTES = 2**30  # of what is kept of rows between their rounds, about
FRESH = 10  # kept.hpp's first status of a row that is not settled
MOST_ROUNDS = 40  # of a row; of MNIST's within [0, 1] none takes more than 6

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

    def part(self, s: slice) -> "OnDevice":
        """Some of them."""
        return self._replace(**{name: getattr(self, name)[s] for name in ("proba", "target", "numbers", "n_iter", "status")})

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
            cp.empty((N, K)), target, cp.zeros((N, 6)), cp.empty(N, dtype=np.int32), cp.empty(N, dtype=np.int8), weighed
        )
        there = out.dtype == np.float64 and out.strides[1] == 8 and not cp.may_share_memory(X, out)
        made = out if there else cp.empty(X.shape)
        board = _board(self.space, cp.cuda.Device().id)
        parts = -(-N * 8 * cuda_source.kept_numbers(K) // KEPT_BYTES)
        for part in (slice(N * i // parts, N * (i + 1) // parts) for i in range(parts)):
            question = Question(target[part], wanted[part], prob[part], self.tol or 0.0, self.max_iter)
            _solve(board, X[part], question, made[part], found.part(part))
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


class Question(NamedTuple):
    """What is wanted of rows, on the device."""

    target: Any
    wanted: Any  # λ, or logits
    prob: Any
    tol: float
    max_iter: int


class Board(NamedTuple):
    """`Tables` on the device, and how the kernel is cut for them."""

    arguments: tuple[Any, ...]
    grams: Any
    kind: dict[str, int]
    D: int
    K: int
    blocks: cuda_source.Blocks


def _board(space: CostSpace, device: int) -> Board:
    def made() -> Board:
        tables = Tables.of(space)
        blocks = cuda_source.limited_blocks(tables.D, len(tables.b))
        assert blocks is not None  # else the engine refuses
        arguments = tuple(map(cp.asarray, tables.arguments()))
        return Board(arguments, cp.asarray(tables.grams), tables.kind, tables.D, len(tables.b), blocks)

    return space.conditions.keep(("cuda", device), made)


def _solve(board: Board, X: Any, question: Question, out: Any, found: OnDevice) -> None:
    """Rounds of the rows that are open: their problems over classes, then over their features."""
    B, K, goal = len(X), board.K, not found.weighed
    kept, bits = cp.empty((B, cuda_source.kept_numbers(K))), cp.empty((B, cuda_source.tiled(board.D) // 32), dtype=np.uint32)
    source, blocks = cuda.TYPES[X.dtype.str[1:]], board.blocks
    options = cuda_source.limited_options(board.D, K, source, board.kind, goal=goal, warps=blocks.warps, staged=blocks.staged)
    kernel = cuda.kernel("limited", "limited", options, cp.cuda.Device().id)
    kernel.max_dynamic_shared_size_bytes = blocks.shared
    rounds = min(question.max_iter, MOST_ROUNDS)
    asked = question.target, question.wanted, question.prob, np.float64(question.tol), np.int32(rounds)
    least = np.float64(LEAST_VALUE), np.float64(REL_GAP)
    answers = out, np.int64(out.strides[0] // 8), found.proba, found.numbers, found.n_iter, found.status
    sources = kept, bits, X, np.int64(X.strides[0] // X.itemsize)

    def sweep(count: int, rows: Any) -> None:
        number = min(_processors(cp.cuda.Device().id), -(-count // blocks.warps))
        arguments = np.int64(count), rows, *sources, *board.arguments, *asked, *least, *answers
        kernel((number,), (32 * blocks.warps,), arguments, shared_mem=blocks.shared)

    sweep(B, np.intp(0))
    step = cuda.newton("step", K, goal)
    for _ in range(rounds):
        rows = cp.flatnonzero(found.status >= FRESH)
        if not len(rows):
            break
        step(len(rows), rows, board.grams, question.target, question.wanted, np.int32(newton.MAX_ITER), kept, found.status)
        sweep(len(rows), rows)


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
