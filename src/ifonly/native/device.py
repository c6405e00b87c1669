"""Tables of sources on a GPU: from rows to answers without leaving it.

Two passes over the sources with the Newton problems between them, chunk by chunk. The passes wait for memory and the Newton
problems compute, so they run beside each other as far as they can: on one stream the first passes of all chunks and after them
the second ones, on the other the Newton problems. Sources on the host go through two pinned buffers: one is copied while the
other is worked on.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.rounding import Rounding
from ifonly.engines.threads import on_threads
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import norms
from ifonly.model.tensors import Like, like
from ifonly.native import cuda
from ifonly.native.cuda_source import MOST_CLASSES, WARP, gram_pitch, rows_of, team_of
from ifonly.native.free import LEFT
from ifonly.problem.asked import Aims
from ifonly.problem.goals import in_logs, needed_logit
from ifonly.problem.results import Results
from ifonly.rows.sources import NOWHERE, Sizes, Sources

cp = cuda.cp

__all__ = ["DeviceResults", "DeviceSources", "OnDevice", "invert_table", "upload", "upload_targets", "upload_wanted"]

NUMBERS = ("lam", "distance", "objective", "grad_norm", "cost", "gap")

# Pieces in which a table is worked on. On an H200 a million rows of MNIST take 5.75, 5.63 and 5.65 ms in three to five of them;
# 200 000 rows of 8192 features 12.8, 13.0 and 13.0. (With each second pass as soon as its Newton problems are solved, and not
# after all first passes, MNIST took 6.25: the copy engine waited for them.)
CHUNKS, LEAST_CHUNK = 4, 16384
COPIERS = 4  # threads that copy to and from the pinned buffers
BUFFER_BYTES = 64 * 2**20  # of a pinned buffer: long enough to copy at full speed, short enough that the first wait is short


class Board(NamedTuple):
    """A model's arrays, on the device."""

    A: Any  # (R, D) its rows
    sizes: Any  # (D,) column_sizes
    biases: Any  # (K,)
    grams: Any  # (K, pitch) Ḡ of every target
    lengths: Any  # (K, K − 1) ‖ā_j‖ of every target
    extents: Any  # (K, 4) of `Lengths` of every target: span, and the extent of a change of size 1
    pulls: Any  # (K, ⌈K/4⌉·4) single: the Gram matrix of the classes' rows, moved to their mean
    rounding: tuple[float, float, float, float]  # γ, how coarsely the estimator rounds, max|b|, `goals.in_logs`
    shift: Any  # of the scaling, or None
    scale: Any

    @classmethod
    def of(cls, model: Model) -> "Board":
        """Made once per model and device, and kept with the model."""
        key = f"cuda:{cp.cuda.Device().id}"
        found = model.memo.get(key)
        if found is None:
            K, scaling = model.n_classes, model.scaling
            grams, lengths, extents = np.zeros((K, gram_pitch(K))), np.empty((K, K - 1)), np.empty((K, 4))
            rounding = Rounding.of(model, NOWHERE)
            for k in range(K):
                grams[k, : (K - 1) ** 2], lengths[k] = model.rival_gram(k).ravel(), model.rival_lengths(k)
                of_target = Rounding.of(model, NOWHERE, k).lengths
                extents[k] = of_target.span, *of_target.unit
            middle = model.A - model.A.mean(axis=0)
            pulls = np.pad(middle @ middle.T, ((0, 0), (0, -K % 4))).astype(np.float32)
            found = model.memo[key] = cls(
                *(cp.asarray(a) for a in (model.basis, model.column_sizes, model.b, grams, lengths, extents, pulls)),
                rounding=(rounding.gamma, rounding.coarse, float(np.abs(model.b).max()), in_logs(model, rounding.gamma)),
                shift=None if scaling is None else cp.asarray(scaling.shift),
                scale=None if scaling is None else cp.asarray(scaling.scale),
            )
        return found

    def project(self, model: Model, X: Any) -> Any:
        """What is known of the sources in class space, for `Job.solve`."""
        if self.scale is None and cuda.fits(X, len(self.A)):
            return cuda.project(X, self.A, self.sizes)
        V = X.astype(np.float64, copy=False) if self.scale is None else (X - self.shift) / self.scale
        lengths, terms = cp.sqrt(cp.sum(V * V, axis=1)) + 2 * model.offset_norm, abs(V) @ self.sizes + 2 * model.offset_size
        return cp.concatenate([V @ self.A.T, (lengths * lengths)[:, None], terms[:, None]], axis=1)[None]

    def move(self, X: Any, coef: Any, out: Any) -> None:
        """The sources after the changes ``coef @ rows``, in the user's units, into ``out``."""
        if self.scale is None and cuda.fits(X, len(self.A)) and cuda.fits(out, len(self.A)):
            return cuda.move(X, self.A, coef, out)
        change = coef @ self.A
        if self.scale is not None:
            change *= self.scale
        change += X
        out[...] = change
        return None


class OnDevice(NamedTuple):
    """Columns of `Results`, on the device."""

    coef: Any  # None where there are limits
    proba: Any
    target: Any
    numbers: Any  # (N, 4), or (N, 6) where there are limits: `NUMBERS`
    n_iter: Any
    status: Any

    @classmethod
    def empty(cls, K: int, targets: Any, *, limited: bool = False) -> "OnDevice":
        """Room for them."""
        N = len(targets)
        coef, numbers = (None, cp.zeros((N, 6))) if limited else (cp.empty((N, rows_of(K))), cp.empty((N, 4)))
        n_iter, status = cp.empty(N, dtype=np.int32), cp.empty(N, dtype=np.int8)
        return cls(coef, cp.empty((N, K)), targets, numbers, n_iter, status)

    def part(self, s: slice) -> "OnDevice":
        """Some of them."""
        return OnDevice(*(None if a is None else a[s] for a in self))

    def field(self, name: str) -> Any:
        """One field of `Results`, on the host; what `Results` has by default where there is none."""
        if name == "n_passes":
            return np.full(len(self.status), 2, dtype=np.intp)
        if name in NUMBERS[: self.numbers.shape[1]]:
            return cp.asnumpy(self.numbers[:, NUMBERS.index(name)])
        column = getattr(self, name, None)
        if column is None:
            return getattr(Results, name)
        return cp.asnumpy(column).astype(np.intp) if name in ("target", "n_iter") else cp.asnumpy(column)

    def set(self, index: Any, rows: Results) -> None:
        """Set some rows from others, which are on the host."""
        numbers = np.stack([rows.lam, rows.distance, rows.objective, rows.grad_norm], axis=1)
        given = rows.coef, rows.proba, rows.target, numbers, rows.n_iter, rows.status
        for array, values in zip(self, given, strict=True):
            array[index] = cp.asarray(values).astype(array.dtype)


class DeviceResults(Results):
    """`Results` that lie on the device; each column comes to the host when it is first read."""

    answers: Any  # OnDevice, or what has its ``status`` and ``field``

    def __init__(self, answers: Any, x: Any = None) -> None:
        object.__setattr__(self, "answers", answers)
        object.__setattr__(self, "x", x)

    def __reduce__(self) -> tuple[Any, ...]:
        return Results, tuple(getattr(self, field.name) for field in fields(Results))

    def __len__(self) -> int:
        return len(self.answers.status)

    def with_x(self, x: Any) -> "DeviceResults":
        """The same with the answers themselves."""
        return type(self)(self.answers, x)


for _name in (field.name for field in fields(Results) if field.name != "x"):
    _column = cached_property(lambda self, name=_name: self.answers.field(name))
    _column.__set_name__(DeviceResults, _name)
    setattr(DeviceResults, _name, _column)


def _room(model: Model, aims: Aims) -> Results:
    return Results.empty(aims.targets, classes=model.n_classes, coef=model.basis.shape[0])


@dataclass(frozen=True)
class DeviceSources(Sources):
    """`Sources` whose ``rows`` are an array of CuPy, or a tensor of PyTorch seen as one."""

    @classmethod
    def read(cls, model: Model, X: Any) -> "DeviceSources":
        """Check a table; nothing is copied, except numbers that are neither float32 nor float64."""
        kind = like(X)
        if kind is not None and kind.library == "torch":
            X = X.detach()
            X = cp.from_dlpack(X if X.dtype.itemsize >= 4 and X.is_floating_point() else X.double())
        if X.dtype.kind not in "fiub":
            raise InputError(f"x must be real numbers; got {type(X).__name__} of {X.dtype}")
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        model.check_width(X)
        rows = X if X.strides[1] == X.itemsize else cp.ascontiguousarray(X)
        return cls(model, rows, False, model.feature_names, kind)

    def repeated(self, times: int) -> "DeviceSources":
        """Every row so many times in a row."""
        return self if times == 1 else DeviceSources(self.model, cp.repeat(self.rows, times, axis=0), False)

    def room(self, out: Any, rows: int) -> Any:
        """Where so many answers go: they are made on the device, and at once."""
        if out is None:
            with self.rows.device:
                return cp.empty((rows, self.model.n_features))
        kind = like(out)
        return cp.from_dlpack(out) if kind is not None and kind.library == "torch" else out

    def part(self, a: int, b: int) -> "DeviceSources":
        """Rows ``a`` to ``b``."""
        return DeviceSources(self.model, self.rows[a:b], False)

    def dense(self, n: int) -> np.ndarray:
        """Row ``n``, on the host."""
        return cp.asnumpy(self.rows[n]).astype(np.float64, copy=False)

    def table(self) -> Any:
        """All rows, on the device."""
        return self.rows.astype(np.float64, copy=False)

    def given(self, values: Any, rows: Any = None, steps: Any = None) -> Any:
        """Values as the kind of array that the sources came as, on their device."""
        values = cp.asarray(values)
        assert isinstance(self.like, Like)
        if self.like.library == "cupy":
            return values
        return sys.modules["torch"].from_dlpack(values.astype(self.like.dtype, copy=False))

    def move(self, coef: np.ndarray, out: Any) -> None:
        """All rows after the changes ``coef @ rows`` into ``out``, on the device or the host."""
        with self.rows.device:
            made = out if isinstance(out, cp.ndarray) else cp.empty(self.rows.shape)
            Board.of(self.model).move(self.rows, cp.asarray(coef), made)
        if made is not out:
            out[...] = cp.asnumpy(made)

    def project(self) -> tuple[np.ndarray, Sizes]:
        """``Z = X projectionᵀ`` and how large the sources are, both on the host."""
        if self.model.projection is not self.model.basis:  # the device has the basis alone
            return Sources(self.model, cp.asnumpy(self.rows), False).project()
        with self.rows.device:
            return _on_host(self.model, self.rows, Board.of(self.model).project(self.model, self.rows))


def _on_host(model: Model, X: Any, parts: Any) -> tuple[np.ndarray, Sizes]:
    known = cp.asnumpy(parts.sum(axis=0))
    R = known.shape[1] - 2
    with np.errstate(invalid="ignore"):
        lengths = np.sqrt(known[:, R])
    odd = np.flatnonzero(~np.isfinite(lengths) & np.isfinite(known[:, :R]).all(axis=1))
    if len(odd) and model.scaling is None:  # squares that overflowed
        lengths[odd] = norms(cp.asnumpy(X[odd]).astype(np.float64))
    return known[:, :R], Sizes(lengths, known[:, R + 1])


# ---- a whole table ----


def upload(values: Any, dtype: Any) -> Any:
    """One value per row, on the device; the same for all is made there."""
    if isinstance(values, cp.ndarray):
        return values.astype(dtype, copy=False)
    if len(values) and values.strides == (0,):
        return cp.full(len(values), values[0], dtype=dtype)
    return cp.asarray(values.astype(dtype, copy=False))


def upload_targets(targets: Any) -> Any:
    """Class indices of up to `MOST_CLASSES`, on the device: one byte each on the way there."""
    return upload(targets, np.int32) if targets.strides == (0,) else upload(targets, np.uint8).astype(np.int32)


def upload_wanted(model: Model, aims: Aims) -> Any:
    """λ or the logits to reach, on the device; worked out once where they are the same for all."""
    if aims.prob is None:
        wanted = aims.lam
    elif len(aims.prob) and aims.prob.strides == (0,):
        wanted = np.broadcast_to(needed_logit(float(aims.prob[0]), model), aims.prob.shape)
    else:
        wanted = needed_logit(aims.prob, model)
    return upload(wanted, np.float64)


class Job(NamedTuple):
    """What is wanted of the rows of a table."""

    model: Model
    aims: Aims
    tol: float | None
    max_iter: int
    alone: Callable[..., Any]  # one row on the host, from its projection, its sizes and its aim

    def solve(self, board: Board, parts: Any, wanted: Any, answers: OnDevice) -> None:
        """The Newton problems: what `engines.free.Batch` does, certificates included, for rows of any targets."""
        model = board.biases, board.grams, board.lengths, board.extents, *map(np.float64, board.rounding)
        question = answers.target, wanted, np.float64(self.tol or 0.0), np.int32(self.max_iter)
        found = answers.coef, answers.proba, answers.numbers, answers.n_iter, answers.status
        K, goal, N, known = self.model.n_classes, self.aims.prob is not None, len(answers.target), (parts, np.int32(len(parts)))
        start = cp.empty((N, K - 1), dtype=np.float32) if team_of(K) == WARP else np.intp(0)
        if team_of(K) == WARP:
            cuda.newton("begin", K, goal)(N, board.biases, board.pulls, answers.target, wanted, *known, start)
        cuda.newton("answer", K, goal)(N, *model, *question, *known, start, *found)

    def settle(self, board: Board, left: Any, X: Any, answers: OnDevice, out: Any, first: int = 0) -> None:
        """Results that the kernel left, one by one on the host; the first of the rows is the table's ``first``."""
        Z, sizes = _on_host(self.model, X[left], board.project(self.model, X[left]))
        aims = self.aims.take(first + cp.asnumpy(left))
        rows = _room(self.model, aims)
        for n in range(len(left)):
            rows.put(n, self.alone(Z[n], sizes.take(n), aims.one(n)))
        answers.set(left, rows)
        if out is not None:
            made = cp.empty((len(left), X.shape[1]), dtype=out.dtype)
            board.move(X[left], cp.asarray(rows.coef), made)
            out[left] = made


def invert_table(
    sources: Sources, aims: Aims, out: Any, *, tol: float | None, max_iter: int, alone: Callable[..., Any]
) -> Results | None:
    """Answers for sources on the host or the device; None where it takes the way of all other backends."""
    # Where a class is still to be chosen, where rivals depend on each other or are very many, and for sparse sources.
    model, targets = sources.model, aims.targets[:1] if aims.targets.strides == (0,) else aims.targets
    usual = model.dependent or model.shares_gram or model.n_classes > MOST_CLASSES
    if usual or hasattr(sources.rows, "tocsr") or (len(targets) and targets.min() < 0):
        return None
    job = Job(model, aims, tol, max_iter, alone)
    if not isinstance(sources, DeviceSources):
        return _invert_through(job, sources.rows, out)
    with sources.rows.device:
        return _invert_there(job, sources.rows, out)


def _invert_there(job: Job, X: Any, out: Any) -> Results:
    """Sources on the device: the passes on one stream, the Newton problems on another, a chunk behind."""
    board = Board.of(job.model)
    targets, wanted = upload_targets(job.aims.targets), upload_wanted(job.model, job.aims)
    answers = OnDevice.empty(job.model.n_classes, targets)
    here, passes, newton = cp.cuda.get_current_stream(), *_lanes(cp.cuda.Device().id)
    made = out if out is None or isinstance(out, cp.ndarray) else cp.empty(X.shape)
    chunks = list(_cut(len(X), min(CHUNKS, max(len(X) // LEAST_CHUNK, 1))))
    known, solved = [], []
    passes.wait_event(here.record())
    newton.wait_event(passes.record())
    for s in chunks:
        with passes:
            known.append(board.project(job.model, X[s]))
        newton.wait_event(passes.record())
        with newton:
            job.solve(board, known[-1], wanted[s], answers.part(s))
        solved.append(newton.record())
    for s, done in zip(chunks, solved, strict=True):
        passes.wait_event(done)
        if made is not None:
            with passes:
                board.move(X[s], answers.coef[s], made[s])
    with newton:  # beside the last pass
        left = cp.flatnonzero(answers.status == LEFT)  # it is waited for
    here.wait_event(passes.record())
    if len(left):
        job.settle(board, left, X, answers, made)
    if out is not None and made is not out:
        out[...] = cp.asnumpy(made)
    return DeviceResults(answers)


def _cut(N: int, number: int) -> Iterator[slice]:
    """N rows in so many pieces."""
    return (slice(int(a), int(b)) for a, b in pairwise(np.linspace(0, N, number + 1).astype(int)))


@cache
def _lanes(device: int) -> tuple[Any, Any]:
    """Two streams on a device: the one for the passes goes first where both could."""
    del device  # streams are made on the current one, which it is
    return cp.cuda.Stream(non_blocking=True, priority=-1), cp.cuda.Stream(non_blocking=True)


def _invert_through(job: Job, X: np.ndarray, out: Any) -> Results:
    """Sources on the host: through two pinned buffers, each with a stream of its own."""
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    made_dtype = None if out is None else np.dtype(np.float32 if out.dtype == np.float32 else np.float64)
    size = max(BUFFER_BYTES // (8 * X.shape[1]), 1)
    rows = _room(job.model, job.aims)
    if not len(X):
        return rows
    buffers = [Buffer(job, min(size, len(X)), X.shape[1], dtype, made_dtype) for _ in range(2 if len(X) > size else 1)]
    for i, a in enumerate(range(0, len(X), size)):
        buffer = buffers[i % 2]
        buffer.finish(rows, out)
        buffer.begin(X, a, min(a + size, len(X)))
    for buffer in sorted(buffers, key=lambda buffer: buffer.first):
        buffer.finish(rows, out)
    return rows


class Buffer:
    """A chunk on its way through the device."""

    def __init__(self, job: Job, size: int, D: int, dtype: np.dtype, made_dtype: np.dtype | None) -> None:
        self.job, self.board, self.first = job, Board.of(job.model), -1
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.pinned = _pinned((size, D), dtype)
        self.made = None if made_dtype is None else _pinned((size, D), made_dtype)
        self.stream.wait_event(cp.cuda.get_current_stream().record())

    def begin(self, X: np.ndarray, a: int, b: int) -> None:
        """Copy rows ``a`` to ``b`` and set the device to work on them."""
        self.first, self.rows = a, b - a
        _copy(X[a:b], self.pinned[: b - a])
        with self.stream:
            self.X = cp.empty(self.pinned[: b - a].shape, dtype=self.pinned.dtype)
            self.X.set(self.pinned[: b - a], stream=self.stream)
            aims = self.job.aims.take(slice(a, b))
            wanted = upload_wanted(self.job.model, aims)
            self.answers = OnDevice.empty(self.job.model.n_classes, upload_targets(aims.targets))
            self.job.solve(self.board, self.board.project(self.job.model, self.X), wanted, self.answers)
            if self.made is not None:
                self.out = cp.empty(self.X.shape, dtype=self.made.dtype)
                self.board.move(self.X, self.answers.coef, self.out)
                self.out.get(stream=self.stream, out=self.made[: b - a], blocking=False)

    def finish(self, rows: Results, out: Any) -> None:
        """Wait for the device, and take over what it found."""
        if self.first < 0:
            return
        a, b = self.first, self.first + self.rows
        made = None if self.made is None else self.out
        with self.stream:
            left = cp.flatnonzero(self.answers.status == LEFT)
            if len(left):
                self.job.settle(self.board, left, self.X, self.answers, made, a)
                if self.made is not None:
                    self.out.get(out=self.made[: b - a])
            rows.copy(slice(a, b), DeviceResults(self.answers))
        self.stream.synchronize()
        if self.made is not None:
            _copy(self.made[: b - a], out[a:b])
        self.first = -1


def _copy(values: np.ndarray, to: np.ndarray) -> None:
    """``to[...] = values``, on some threads: one alone does not fill the bus to the device."""
    on_threads(lambda s: np.copyto(to[s], values[s]), list(_cut(len(to), COPIERS)), COPIERS)


def _pinned(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """An array in memory that the device reads and writes without the processor's help."""
    count = shape[0] * shape[1]
    memory = cp.cuda.alloc_pinned_memory(count * dtype.itemsize)
    return np.frombuffer(memory, dtype, count).reshape(shape)
