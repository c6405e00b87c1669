"""A million inversions on a GPU, against copying the matrix and against the two products alone: `python benchmarks/gpu.py`.

Times are medians of CUDA events around work that is already on the device, except where the table says what else is in them.
Every row is checked: statuses, ‖∇E‖ as certified, and some rows against the single-source solver on the host. Without a GPU it
says so, and that is all.
"""

import argparse
import sys
import time
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any

import numpy as np
from problems import Case, load, synthetic
from timing import options_of

import ifonly

try:
    import cupy as cp
except ImportError:
    cp = None

REPEATS = 15
GRADIENT = 1e-8  # what every row has to reach
QUICK = 0.002  # share of the rows with --quick


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


def drawn(case: Case, N: int) -> Any:
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


def dense(title: str, case: Case, N: int, lam: float, *, host: bool) -> None:
    """Sources of D features on the device, to the farthest class."""
    model, X = case.model, drawn(case, N)
    A, b = cp.asarray(model.A), cp.asarray(model.b)
    out = cp.empty_like(X)
    targets = cp.asnumpy(cp.argmin(X @ A.T + b, axis=1))
    copy = on_device(lambda: cp.copyto(out, X))
    Z, Y = cp.empty((N, model.n_classes)), cp.ones((N, model.n_classes))
    products = on_device(lambda: (cp.matmul(X, A.T, out=Z), cp.matmul(Y, A, out=out)))
    plus = on_device(lambda: cp.add(out, X, out=out))

    def invert(target: Any = 0, **question: Any) -> Any:
        return ifonly.invert(model, X, target, backend="cuda", **question)

    check(model, X, targets, lam, out, invert(targets, lam=lam, out=out))
    lines = [
        ("copying the matrix", copy),
        ("the two products alone (cuBLAS)", products),
        ("the two products and the sum", products + plus),
        ("ifonly.invert, coefficients only", on_device(lambda: invert(lam=lam))),
        ("ifonly.invert, all of it", on_device(lambda: invert(lam=lam, out=out))),
        ("ifonly.invert, by the clock", by_clock(lambda: invert(lam=lam, out=out))),
        ("ifonly.invert with a target for each, by the clock", by_clock(lambda: invert(targets, lam=lam, out=out))),
        ("ifonly.invert with prob=0.9, by the clock", by_clock(lambda: invert(prob=0.9, out=out))),
    ]
    if host:
        here, into = cp.asnumpy(X), np.empty(X.shape)
        moved = by_clock(lambda: X.set(here), 2) + by_clock(lambda: X.get(out=into), 2)
        lines.append(("the matrix to the device and back, by the clock", moved))
        through = by_clock(lambda: ifonly.invert(model, here, targets, lam=lam, backend="cuda", out=into), 2)
        lines.append(("ifonly.invert from host to host, by the clock", through))
        kept = by_clock(lambda: ifonly.invert(model, here, targets, lam=lam, backend="cuda"), 2)
        lines.append(("ifonly.invert from host, coefficients back, by the clock", kept))
    table(f"{title}: {N:,} × ({X.shape[1]}, {model.n_classes}), λ = {lam}; one target unless it says so", lines, copy, N)


def check(model: ifonly.Model, X: Any, targets: np.ndarray, lam: float, out: Any, found: Any) -> None:
    """Every row solved and certified, and some compared with the single-source solver."""
    assert (found.status == ifonly.Status.EXACT).all()
    assert found.grad_norm.max() < GRADIENT
    rng = np.random.default_rng(1)
    for n in rng.integers(len(X), size=10):
        single = ifonly.invert(model, cp.asnumpy(X[n]), model.label(int(targets[n])), lam=lam)
        assert np.abs(cp.asnumpy(out[n]) - single.x).max() < 1e-10 * (1 + np.abs(single.x).max())
    print(f"  checked: {len(X):,} rows EXACT, largest certified ‖∇E‖ {found.grad_norm.max():.1e}", file=sys.stderr)


def limited(title: str, case: Case, N: int, lam: float) -> None:
    """The same within [0, 1], and without limits, for one target, for a target for each row, and for a probability."""
    model, X = case.model, drawn(case, N)
    cp.clip(X, 0.0, 1.0, out=X)
    out = cp.empty_like(X)
    targets = cp.asnumpy(cp.argmin(X @ cp.asarray(model.A).T + cp.asarray(model.b), axis=1))
    copy = on_device(lambda: cp.copyto(out, X))
    box = {"actions": ifonly.Actions(bounds=(0.0, 1.0))}

    def invert(target: Any, **question: Any) -> Any:
        return ifonly.invert(model, X, target, backend="cuda", out=out, **question)

    lines = []
    for name, target, question in (
        (f"λ = {lam}, one target", 0, {"lam": lam}),
        (f"λ = {lam}, a target for each", targets, {"lam": lam}),
        ("prob=0.9, a target for each", targets, {"prob": 0.9}),
    ):
        found = invert(target, **question, **box)
        check_limited(model, X, target, question | box, out, found)
        steps = float(np.mean(found.n_iter))
        lines.append((f"free, {name}", by_clock(lambda t=target, q=question: invert(t, **q))))
        lines.append((f"within [0, 1], {name}", by_clock(lambda t=target, q=question: invert(t, **q, **box), 3)))
        print(f"  {name}: {steps:.2f} rounds", file=sys.stderr)
    table(f"{title}: {N:,} × ({X.shape[1]}, {model.n_classes}), by the clock", lines, copy, N)


def check_limited(model: ifonly.Model, X: Any, target: Any, question: dict[str, Any], out: Any, found: Any) -> None:
    """Every row certified, and some checked by code that shares nothing with the solver and compared with the processor."""
    assert (found.status == ifonly.Status.EXACT).mean() > 0.999
    for n in np.random.default_rng(1).integers(len(X), size=10).tolist():
        found[n].verify()
        label = model.label(int(target if np.isscalar(target) else target[n]))
        single = ifonly.invert(model, cp.asnumpy(X[n]), label, **question)
        assert np.abs(cp.asnumpy(out[n]) - single.x).max() < 1e-7
    exact = int((found.status == ifonly.Status.EXACT).sum())
    print(f"  checked: {exact:,} of {len(X):,} rows EXACT", file=sys.stderr)


def class_space(title: str, case: Case, N: int, lam: float) -> None:
    """Coefficients only, of the same problems in K features (Aᵀ = QR, z = Qᵀx): the Newton problems and little else."""
    Q, R = np.linalg.qr(case.model.A.T)
    model = ifonly.Model(R.T, case.model.b)
    rng = np.random.default_rng(0)
    Z = np.asarray(case.draw(min(4000, N), mixed=False).X @ Q)
    Z = Z[rng.integers(len(Z), size=N)] + 0.01 * rng.standard_normal((N, Z.shape[1]))
    targets, X = model.logits(Z).argmin(axis=1), cp.asarray(Z)
    found = ifonly.invert(model, X, targets, lam=lam, backend="cuda")
    ms = on_device(lambda: ifonly.invert(model, X, targets, lam=lam, backend="cuda"))
    n, steps = model.n_classes - 1, float(np.mean(found.n_iter))
    # A step is a factorisation (n³/6), four products with Ḡ, and two solves with the factor; n² multiply-adds each.
    flops = 2 * N * steps * (n**3 / 6 + 4 * n**2 + 2 * n**2)
    A = cp.ones((8192, 8192))
    peak = 2 * 8192**3 / (1e-3 * on_device(lambda: cp.matmul(A, A, out=cp.empty_like(A))))
    floor = 1e3 * flops / peak
    goal = by_clock(lambda: ifonly.invert(model, X, targets, prob=0.9, backend="cuda"))
    print(f"\n{title}: {N:,} rows of coefficients, K = {n + 1}, λ = {lam}")
    print(f"  with prob=0.9          {goal:9.2f} ms {1e-3 * N / goal:9.2f} M rows/s, by the clock")
    print(f"  ifonly.invert          {ms:9.2f} ms {1e-3 * N / ms:9.2f} M rows/s, {steps:.2f} iterations")
    cost = f"{flops:.2g} operations at cuBLAS's {1e-12 * peak:.0f} Tflop/s"
    print(f"  floor                  {floor:9.2f} ms {ms / floor:9.1f} × ({cost})")


def missing() -> str:
    """What is not here that a GPU benchmark needs, or nothing."""
    if cp is None:
        return 'CuPy is not installed: pip install "ifonly[gpu]"'
    try:
        return "" if cp.cuda.runtime.getDeviceCount() else "this machine has no GPU"
    except cp.cuda.runtime.CUDARuntimeError as error:
        return f"this machine has no GPU ({error})"


def main() -> None:
    """All of it, or less for a look."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1.0, help="share of the rows")
    options = options_of(parser)
    if missing():
        print(f"nothing to measure on a GPU: {missing()}")
        return
    share = QUICK if options.quick else options.rows
    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    print(f"{properties['name'].decode()}, {properties['multiProcessorCount']} multiprocessors, CuPy {cp.__version__}")
    small = options.quick
    dense("MNIST", synthetic("random", 784, 10) if small else load("MNIST"), int(1_000_000 * share), 0.01, host=True)
    cp.get_default_memory_pool().free_all_blocks()
    limited("MNIST", synthetic("random", 784, 10) if small else load("MNIST"), int(1_000_000 * share), 0.01)
    cp.get_default_memory_pool().free_all_blocks()
    dense("8192 features", synthetic("8192 × 16", 8192, 16), int(200_000 * share), 0.01, host=False)
    cp.get_default_memory_pool().free_all_blocks()
    class_space("RCV1", synthetic("random", 2000, 51) if small else load("RCV1"), int(100_000 * share), 0.01)


if __name__ == "__main__":
    main()
