"""A million inversions on a GPU, against copying the matrix and against the two products alone: `python benchmarks/gpu.py`.

Times are medians of CUDA events around work that is already on the device, except where the table says what else is in them.
Every row of every run is checked: statuses, ‖∇E‖ as certified, and some rows against the single-source solver on the host.
"""

import argparse
import sys
import time
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any

import cupy as cp
import numpy as np
from problems import load, synthetic

import ifonly
from ifonly.native import cuda
from ifonly.native.cuda_source import team_of
from ifonly.native.device import Answers, Board, DeviceSources, Job, invert_table
from ifonly.problem.question import Wish
from ifonly.problem.status import Status

REPEATS = 15
GRADIENT = 1e-8  # what every row has to reach


def on_device(call: Callable[[], Any]) -> float:
    """Median time in ms, by events."""
    call()
    times = []
    for _ in range(REPEATS):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, end))
    return median(times)


def by_clock(call: Callable[[], Any], repeats: int = 5) -> float:
    """Median time in ms, by the clock on the wall, everything included."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        cp.cuda.Device().synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return median(times)


def drawn(case: Any, N: int) -> Any:
    """N sources of the pool with a little noise, so that no two are alike."""
    rng, seeds = np.random.default_rng(0), count()
    some = min(4096, case.pool.shape[0])
    pool = np.asarray(case.pool[rng.integers(case.pool.shape[0], size=some)], dtype=np.float64) * case.unit
    X = cp.asarray(pool)[cp.asarray(rng.integers(some, size=N))]
    for a in range(0, N, 100_000):
        piece = X[a : a + 100_000]
        piece += 0.01 * cp.random.default_rng(next(seeds)).standard_normal(piece.shape)
    return X


def table(title: str, lines: list[tuple[str, float]], unit: float, rows: int) -> None:
    print(f"\n{title}")
    for name, ms in lines:
        print(f"  {name:<58}{ms:9.2f} ms {ms / unit:7.2f} × copy {1e-3 * rows / ms:9.1f} M rows/s")


def dense(title: str, case: Any, N: int, lam: float, *, host: bool) -> None:
    """Sources of D features on the device, to the farthest class."""
    model, X = case.model, drawn(case, N)
    board, R = Board.of(model), len(model.rows)
    out = cp.empty_like(X)
    targets = cp.asnumpy(cp.argmin(X @ board.A.T + board.biases, axis=1))
    copy = on_device(lambda: cp.copyto(out, X))
    Z, Y = cp.empty((N, R)), cp.ones((N, R))
    products = on_device(lambda: (cp.matmul(X, board.A.T, out=Z), cp.matmul(Y, board.A, out=out)))
    plus = on_device(lambda: cp.add(out, X, out=out))
    job = Job(model, Wish(targets, np.full(N, lam), None), None, 100)
    on, wanted = job.upload(slice(None))
    answers, parts = Answers.empty(model.n_classes, on), board.project(model, X)
    project = on_device(lambda: board.project(model, X))
    newton = on_device(lambda: job.solve(board, parts, wanted, answers))
    move = on_device(lambda: board.move(X, answers.coef, out))
    sources = DeviceSources.read(model, X)
    wish = Wish(on, wanted, None)  # what is wanted is on the device already
    together = on_device(lambda: invert_table(sources, wish, out, tol=None, max_iter=100))
    rows = invert_table(sources, wish, out, tol=None, max_iter=100)
    assert rows is not None
    check(model, X, targets, lam, out, rows)
    lines = [
        ("copying the matrix", copy),
        ("the two products alone (cuBLAS)", products),
        ("the two products and the sum", products + plus),
        (f"first pass ({'our kernel' if cuda.fits(X, R) else 'cuBLAS'})", project),
        (f"Newton ({team_of(model.n_classes)} threads a row, {rows.n_iter.mean():.2f} iterations)", newton),
        ("second pass", move),
        ("inversion, all on the device", together),
    ]
    whole = by_clock(lambda: ifonly.invert(model, X, targets, lam=lam, backend="cuda", out=out))
    lines.append(("ifonly.invert, its arguments checked, by the clock", whole))
    same = by_clock(lambda: ifonly.invert(model, X, 0, lam=lam, backend="cuda", out=out))
    lines.append(("ifonly.invert with one target for all, by the clock", same))
    prob = by_clock(lambda: ifonly.invert(model, X, 0, prob=0.9, backend="cuda", out=out))
    lines.append(("ifonly.invert with prob=0.9 and one target, by the clock", prob))
    if host:
        here, into = cp.asnumpy(X), np.empty(X.shape)
        moved = by_clock(lambda: X.set(here), 2) + by_clock(lambda: X.get(out=into), 2)
        lines.append(("the matrix to the device and back, by the clock", moved))
        through = by_clock(lambda: ifonly.invert(model, here, targets, lam=lam, backend="cuda", out=into), 2)
        lines.append(("ifonly.invert from host to host, by the clock", through))
        kept = by_clock(lambda: ifonly.invert(model, here, targets, lam=lam, backend="cuda"), 2)
        lines.append(("ifonly.invert from host, coefficients back, by the clock", kept))
    table(f"{title}: {N:,} × ({X.shape[1]}, {model.n_classes}), λ = {lam}, farthest class", lines, copy, N)


def check(model: ifonly.Model, X: Any, targets: np.ndarray, lam: float, out: Any, rows: Any) -> None:
    """Every row solved and certified, and some compared with the single-source solver."""
    assert (rows.status == Status.EXACT).all()
    assert rows.grad_norm.max() < GRADIENT
    rng = np.random.default_rng(1)
    for n in rng.integers(len(X), size=10):
        single = ifonly.invert(model, cp.asnumpy(X[n]), model.label(int(targets[n])), lam=lam)
        assert np.abs(cp.asnumpy(out[n]) - single.x).max() < 1e-10 * (1 + np.abs(single.x).max())
    print(f"  checked: {len(X):,} rows EXACT, largest certified ‖∇E‖ {rows.grad_norm.max():.1e}", file=sys.stderr)


def class_space(title: str, case: Any, N: int, lam: float) -> None:
    """Coefficients only, from class space: the Newton problems and nothing else."""
    model = case.model
    drawn = case.draw(min(4000, N), mixed=False)
    Z = np.asarray(drawn.X @ model.rows.T)
    rng = np.random.default_rng(0)
    parts = np.ones((1, N, Z.shape[1] + 2))
    parts[0, :, :-2] = Z[rng.integers(len(Z), size=N)] + 0.01 * rng.standard_normal((N, Z.shape[1]))
    targets = (parts[0, :, :-2] + model.b).argmin(axis=1)
    board, job = Board.of(model), Job(model, Wish(targets, np.full(N, lam), None), None, 100)
    on, wanted = job.upload(slice(None))
    known, answers = cp.asarray(parts), Answers.empty(model.n_classes, on)
    ms = on_device(lambda: job.solve(board, known, wanted, answers))
    n, steps = model.n_classes - 1, float(answers.n_iter.mean())
    # A step is a factorisation (n³/6), four products with Ḡ, and two solves with the factor; n² multiply-adds each.
    flops = 2 * N * steps * (n**3 / 6 + 4 * n**2 + 2 * n**2)
    A = cp.ones((8192, 8192))
    peak = 2 * 8192**3 / (1e-3 * on_device(lambda: cp.matmul(A, A, out=cp.empty_like(A))))
    floor = 1e3 * flops / peak
    print(f"\n{title}: {N:,} rows of coefficients, K = {n + 1}, λ = {lam}, {team_of(n + 1)} threads a row")
    print(f"  Newton                 {ms:9.2f} ms {1e-3 * N / ms:9.2f} M rows/s, {steps:.2f} iterations")
    cost = f"{flops:.2g} operations at cuBLAS's {1e-12 * peak:.0f} Tflop/s"
    print(f"  floor                  {floor:9.2f} ms {ms / floor:9.1f} × ({cost})")


def main() -> None:
    """All of it, or less for a look."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1.0, help="share of the rows")
    share = parser.parse_args().rows
    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    print(f"{properties['name'].decode()}, {properties['multiProcessorCount']} multiprocessors, CuPy {cp.__version__}")
    dense("MNIST", load("MNIST"), int(1_000_000 * share), 0.01, host=True)
    cp.get_default_memory_pool().free_all_blocks()
    dense("8192 features", synthetic("8192 × 16", 8192, 16), int(200_000 * share), 0.01, host=False)
    cp.get_default_memory_pool().free_all_blocks()
    class_space("RCV1", load("RCV1"), int(100_000 * share), 0.01)


if __name__ == "__main__":
    main()
