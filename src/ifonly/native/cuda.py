"""The class-space Newton for many rows on a GPU (extra ``gpu``): compiles the CUDA sources and calls what is in them.

`newton.cu` has the Newton problems over classes, `passes.cu` the two passes over the sources around them (`native.device` puts
them together), and `limited.cu` the sweeps over the features of rows with limits (`native.device_limited`). CuPy compiles each
at first use, once per number of classes and kind of number, and keeps the result on disk.

A row belongs to one thread up to K = 16; to a small team of threads up to 32, to a warp up to 64, to a block up to 128, with
all that is known of it in shared memory, except that a warp has Newton's matrix in its registers. Beyond, the array program of
`native.reference` runs on the device.
"""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ifonly.engines.newton import MAX_ITER, Solved
from ifonly.engines.windows import Window
from ifonly.model.errors import InputError
from ifonly.native import cuda_source, reference

cp: Any = import_module("cupy")  # so that types are checked where it is not installed

__all__ = ["TYPES", "check_device", "fits", "kernel", "move", "newton", "project", "solve_lam", "solve_prob"]

PASS_THREADS, TILE = 288, 8  # threads of a block of passes.cu, rows of a tile
LEAST_FEATURES = 128  # with fewer, tiles are too small to be worth a copy engine
TYPES = {"f4": "float", "f8": "double"}


def check_device() -> None:
    """Whether there is a GPU at all."""
    try:
        cp.cuda.runtime.getDeviceCount()
    except cp.cuda.runtime.CUDARuntimeError as error:
        raise InputError(f'backend="cuda" needs a CUDA device, and CuPy finds none: {error}') from None


def fits(X: Any, R: int) -> bool:
    """Whether `project` and `move` take these sources: the copy engine of Hopper and its successors wants rows of 16 bytes."""
    whole = X.data.ptr % 16 == 0 and X.strides[0] % 16 == 0 and X.strides[1] == X.itemsize and X.shape[1] * X.itemsize % 16 == 0
    small = R > cuda_source.MOST_ROWS or X.shape[1] < LEAST_FEATURES
    return whole and not small and int(cp.cuda.Device().compute_capability) >= 90


# ---- the seam: class-space data of B sources with the same target in, class-space answers out ----


def solve_lam(gram: Any, margins: Any, lam: Any, *, tol: float | None = None, max_iter: int = MAX_ITER) -> Solved:
    """Minimise E for each row of ``margins``, to ‖∇E‖ ≤ tol or to the last digit; answers lie where the margins lie."""
    if margins.shape[1] >= cuda_source.MOST_CLASSES:
        arrays = cp.asarray(gram), cp.asarray(margins), cp.asarray(lam)
        return _like(margins, reference.solve_lam(*arrays, tol=tol, max_iter=max_iter))
    return _solve(gram, margins, cp.ascontiguousarray(cp.asarray(lam, dtype=np.float64)), None, tol or 0.0, max_iter)


def solve_prob(gram: Any, margins: Any, window: Window, *, max_iter: int = MAX_ITER) -> Solved:
    """The λ at which each row meets its goal, and the answer there."""
    window = Window(*(cp.asarray(part) for part in window))
    if margins.shape[1] >= cuda_source.MOST_CLASSES:
        return _like(margins, reference.solve_prob(cp.asarray(gram), cp.asarray(margins), window, max_iter=max_iter))
    return _solve(gram, margins, None, cp.stack(window, axis=1), 0.0, max_iter)


def _solve(gram: Any, margins: Any, lam: Any, window: Any, tol: float, max_iter: int) -> Solved:
    B, n = margins.shape
    G, given = (cp.ascontiguousarray(cp.asarray(a, dtype=np.float64)) for a in (gram, margins))
    q, p, numbers = cp.empty((B, n)), cp.empty((B, n)), cp.empty((B, 5))
    n_iter, done = cp.empty(B, dtype=np.int32), cp.empty(B, dtype=bool)
    launch = newton("solve", n + 1, window is not None)
    asked = (np.intp(0) if a is None else a for a in (lam, window))
    launch(B, G, given, *asked, np.float64(tol), np.int32(max_iter), q, p, numbers, n_iter, done)
    lam, p_target, objective, grad_norm, square = numbers.T
    return _like(margins, Solved(q, p, p_target, lam, objective, grad_norm, square, n_iter.astype(np.intp), done))


def _like(given: Any, solved: Solved) -> Solved:
    return Solved(*(cp.asnumpy(a) for a in solved)) if isinstance(given, np.ndarray) else solved


# ---- from sources to answers, all on the device ----


def project(X: Any, A: Any, sizes: Any) -> Any:
    """What newton.cu needs to know of the sources, (slices, B, R + 2): parts of ``X Aᵀ``, of ‖x‖² and of Σ|x_d|·size_d."""
    launch, cut = _passes("project", len(A), X, X)
    parts = cp.empty((cut.number, len(X), len(A) + 2))
    launch(len(X), X, *_shape(X), A, sizes, np.int32(cut.number), parts)
    return parts if cut.number <= 2 else cp.sum(parts, axis=0, keepdims=True)  # many are summed sooner here than row by row


def move(X: Any, A: Any, coef: Any, out: Any) -> None:
    """``out = X + coef A``: `Sources.move`; ``out`` may be X itself."""
    launch, cut = _passes("move", len(A), X, out)
    launch(len(X), X, *_shape(X), A, coef, np.int32(cut.number), out, np.int64(out.strides[0] // out.itemsize))


def _shape(X: Any) -> tuple[np.int64, np.int32]:
    return np.int64(X.strides[0] // X.itemsize), np.int32(X.shape[1])


@cache
def kernel(file: str, name: str, options: tuple[str, ...], device: int) -> Any:
    """An entry of a source, compiled at first use."""
    del device  # a module is loaded on one device
    return cp.RawModule(code=cuda_source.code(file), options=options).get_function(name)


def newton(name: str, K: int, goal: bool) -> Any:
    """Launches ``solve``, ``begin``, ``answer`` or ``step`` of newton.cu, given how many rows there are and their arguments."""
    starts = name == "begin"  # by one thread each
    team, blocks = (1, cuda_source.START_BLOCKS) if starts else (cuda_source.team_of(K), cuda_source.BLOCKS)
    threads, shared = cuda_source.threads_of(team), 0 if starts else cuda_source.block_bytes(K, team)
    if name == "step" and team == 1:
        threads = cuda_source.step_threads(K)
        shared = 8 * threads * cuda_source.gram_pitch(K)
    options = (*cuda_source.newton_options(K, goal=goal, team=team, blocks=blocks, threads=threads), f"-D{name.upper()}")
    entry = kernel("newton", name, options, cp.cuda.Device().id)
    entry.max_dynamic_shared_size_bytes = shared

    def launch(B: int, *arguments: Any) -> None:
        if B:
            entry((-(-B * team // threads),), (threads,), (np.int64(B), *arguments), shared_mem=shared)

    return launch


def _passes(name: str, R: int, X: Any, out: Any) -> tuple[Any, cuda_source.Slices]:
    processors = cp.cuda.Device().attributes["MultiProcessorCount"]
    cut = cuda_source.slices(X.shape[1], max(R, 2), X.itemsize, processors)
    source, answer = (TYPES[a.dtype.str[1:]] for a in (X, out))
    entry = kernel("passes", name, cuda_source.passes_options(R, source, answer, cut), cp.cuda.Device().id)
    entry.max_dynamic_shared_size_bytes = cut.shared

    def launch(B: int, *arguments: Any) -> None:
        if B:
            tiles = min(processors // cut.number, -(-B // TILE))
            entry((max(tiles, 1) * cut.number,), (PASS_THREADS,), (np.int64(B), *arguments), shared_mem=cut.shared)

    return launch, cut
