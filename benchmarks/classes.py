"""``python benchmarks/classes.py``: very many classes, on one core, against the floor and against Newton's matrix whole.

The ImageNet head (K = 1000, D = 1280) is read from ../shared/data/deep, and made of random numbers of that shape where that is
not there. Each source goes to its farthest class. Nothing is asserted; a markdown table goes to stdout, with the rounds that
were taken and ρ, the share of the error that a round leaves before steps are combined (docs/math.md).
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import problems
from report import table
from timing import Contender, about, blas_threads, medians, options_of

import ifonly
from experiments.baselines import feature_newton
from experiments.baselines.newton import rival_gram

N = 10  # problems of a call
LAM, PROB, LAMS = 0.01, 0.9, np.geomspace(1e3, 1e-5, 100)
FEW = 64  # rivals that a round takes one by one
POWER_STEPS = 20  # to two digits
COLUMNS = ("floor", "dense", "NumPy", "compiled")


def head(*, small: bool) -> tuple[str, ifonly.Model, np.ndarray]:
    """Name, model and sources."""
    path = problems.HERE.parents[1] / "shared" / "data" / "deep" / "imagenet-head.npz"
    if path.exists() and not small:
        data = np.load(path)
        return "ImageNet head", ifonly.Model(data["A"].astype(float), data["b"].astype(float)), data["X"][:N].astype(float)
    K, D = (200, 40) if small else (1000, 1280)
    rng = np.random.default_rng(problems.SEED)
    A, X = 2 / np.sqrt(D) * rng.normal(size=(K, D)), np.maximum(rng.normal(size=(N, D)), 0.0)
    return "a random head", ifonly.Model(A, np.zeros(K)), X


def contenders(model: ifonly.Model, X: np.ndarray, k: np.ndarray) -> dict[str, dict[str, Contender]]:
    """Work → who does it, all for the same sources and targets."""
    A, weights = model.A, np.random.default_rng(problems.SEED).random(model.n_classes)

    def each(call: Callable[[np.ndarray, int], Any]) -> Contender:
        return Contender(lambda: [call(x, int(j)) for x, j in zip(X, k, strict=True)], N)

    def ours(ask: Callable[..., Any]) -> dict[str, Contender]:
        backends = {"NumPy": "reference", "compiled": "cpu"}
        return {name: each(partial(lambda x, j, b: ask(model, x, j, backend=b), b=b)) for name, b in backends.items()}

    floor = {"floor": each(lambda x, j: (A @ x, A.T @ weights))}  # a product with A for the margins, and one for the answer
    dense = {"dense": each(lambda x, j: feature_newton(model, x, j, LAM))}  # the paper's: all rivals in one matrix
    return {
        f"λ = {LAM}": floor | dense | ours(lambda *args, **options: ifonly.invert(*args, lam=LAM, **options).x),
        f"p ≥ {PROB}": floor | ours(lambda *args, **options: ifonly.invert(*args, prob=PROB, **options).x),
        f"a path of {len(LAMS)} λ": floor | ours(partial(ifonly.path, lams=LAMS)),
    }


def contraction(model: ifonly.Model, x: np.ndarray, k: int) -> float:
    """ρ at the answer: the largest eigenvalue of (I + ŜH)⁻¹ S_R H, with S = Ŝ + S_R and S_R the covariance within the rest."""
    cf = ifonly.invert(model, x, k, lam=LAM)
    rivals = np.delete(np.arange(model.n_classes), k)
    p, H = cf.proba[rivals], rival_gram(model, k)[np.ix_(rivals, rivals)] / LAM
    rest = np.where(p < np.sort(p)[-FEW], p, 0.0)
    within = rest[:, None] * H - np.outer(rest, rest @ H) / rest.sum()
    others = np.eye(len(p)) + (p[:, None] * H - np.outer(p, p @ H)) - within
    v = np.ones(len(p))
    for _ in range(POWER_STEPS):
        v = np.linalg.solve(others, within @ (v / np.linalg.norm(v)))
    return float(np.linalg.norm(v))


def main() -> None:
    options = options_of(argparse.ArgumentParser(description=__doc__))
    name, model, X = head(small=options.quick)
    print(f"{name}, K = {model.n_classes}, D = {model.n_features}, one thread; medians of {N} problems each, in ms.")
    print(f"{about()}\n")
    k = model.logits(X).argmin(axis=1)
    body = []
    with blas_threads(1):
        for work, who in contenders(model, X, k).items():
            print(work, file=sys.stderr, flush=True)
            us = medians(who, seconds=2.0, most=50)
            body.append([work, *(f"{us[c] / 1e3:.3g}" if c in us else "" for c in COLUMNS)])
            body[-1] += [f"{us['compiled'] / us['floor']:.1f}", f"{us['dense'] / us['compiled']:.0f}" if "dense" in us else ""]
        n_iter = ifonly.invert(model, X, k, lam=LAM).n_iter
        rho = contraction(model, X[0], int(k[0]))
    print(table(["", *COLUMNS, "compiled / floor", "dense / compiled"], body))
    print(f"\nRounds at λ = {LAM}: {np.mean(n_iter):.1f}, at most {max(n_iter)}. ρ = {rho:.2g} with {FEW} rivals one by one.")


if __name__ == "__main__":
    main()
