"""``python benchmarks/vocabulary.py``: a language model's vocabulary, against bare products with its matrix, and its memory.

The head is made of random numbers, in clusters as words are, K = 50 000 and D = 576 in float32; its hidden states are such that
the logits have a standard deviation of about 2 and the 64 strongest tokens nearly all of the probability (``--spread 12`` makes
it flat: the 64 strongest have a third). Nothing is asserted; markdown tables go to stdout.
"""

import argparse
import sys
import tracemalloc

import numpy as np
import problems
from report import table
from timing import Contender, about, blas_threads, medians, options_of

import ifonly

LAM, PROB = 0.01, 0.9


def head(K: int, D: int, spread: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, biases, and hidden states."""
    rng = np.random.default_rng(problems.SEED)
    centres = rng.standard_normal((200, D), dtype=np.float32)
    A = np.empty((K, D), dtype=np.float32)
    for a in range(0, K, 5000):
        n = min(5000, K - a)
        A[a : a + n] = 0.6 * centres[rng.integers(0, 200, n)] + 0.8 * rng.standard_normal((n, D), dtype=np.float32)
    A /= np.sqrt(D)
    b = (-0.5 * np.log1p(np.arange(K))).astype(np.float32)
    X = spread * (A[rng.integers(0, K, 1000)] + 0.3 * rng.standard_normal((1000, D)) / np.sqrt(D))
    return A, b, X


def memory(A: np.ndarray, b: np.ndarray, X: np.ndarray, k: np.ndarray) -> list[list[str]]:
    """What one inversion and a batch allocate at the peak, in shares of A."""
    body = []
    for work, x, target in (("one inversion", X[0], int(k[0])), ("a batch of 200", X[:200], k[:200])):
        tracemalloc.start()
        ifonly.invert(ifonly.Model(A, b), x, target, lam=LAM)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        body.append([work, f"{peak / 2**20:.0f}", f"{peak / A.nbytes:.2f}"])
    return body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=576)
    parser.add_argument("--spread", type=float, default=40.0)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    options = options_of(parser)
    if options.quick:
        options.classes, options.features, options.rows = 5000, 32, 20
    A, b, X = head(options.classes, options.features, options.spread)
    model, n = ifonly.Model(A, b), 5
    k = np.random.default_rng(1).integers(0, options.classes, len(X))
    threads = options.threads
    size = f"K = {options.classes}, D = {options.features}, float32, {A.nbytes / 2**20:.0f} MB"
    print(f"{size}; spread {options.spread:g}; {threads} thread(s).")
    print(f"{about()}\n")
    small = X.astype(np.float32)

    def each(**question: object) -> Contender:
        return Contender(lambda: [ifonly.invert(model, X[i], int(k[i]), threads=threads, **question).x for i in range(n)], n)

    with blas_threads(threads):
        one = {
            "A @ x": Contender(lambda: [A @ small[i] for i in range(n)], n),
            f"λ = {LAM}, NumPy": each(lam=LAM, backend="reference"),
            f"λ = {LAM}, compiled": each(lam=LAM, backend="cpu"),
            f"p ≥ {PROB}, compiled": each(prob=PROB, backend="cpu"),
        }
        us = medians(one, seconds=3.0, most=20)
        cfs = ifonly.invert(model, X[:n], k[:n], lam=LAM)
        print(f"One inversion ({cfs.n_passes.min()} to {cfs.n_passes.max()} passes):\n")
        print(table(["", "ms", "× A @ x"], [[name, f"{t / 1e3:.3g}", f"{t / us['A @ x']:.1f}"] for name, t in us.items()]))
        N = options.rows
        weights = np.random.default_rng(2).random((N, options.classes), dtype=np.float32)
        many = {
            "two products": Contender(lambda: (small[:N] @ A.T, weights @ A), N),
            f"λ = {LAM}": Contender(lambda: ifonly.invert(model, X[:N], k[:N], lam=LAM, threads=threads), N),
        }
        print(f"{N} rows", file=sys.stderr, flush=True)
        us = medians(many, seconds=1.0, least=1, most=3)
        floor = us["two products"]
        print(f"\n{N} rows at once:\n")
        print(
            table(["", "ms a row", "× two products"], [[name, f"{t / 1e3:.3g}", f"{t / floor:.1f}"] for name, t in us.items()])
        )
    print("\nAllocated at the peak, besides A:\n")
    print(table(["", "MB", "share of A"], memory(A, b, X, k)))


if __name__ == "__main__":
    main()
