"""Answers within limits: a batch at MNIST size over the same batch without limits, and both over what people use today.

    OMP_NUM_THREADS=1 python benchmarks/limits.py [--quick]

One thread. The peers are SciPy's L-BFGS-B (for λ: bounds are all it takes) and cvxpy with Clarabel, each on a few rows, to
their usual precision; ifonly's answers are exact and certified. Nothing is asserted. Markdown goes to stdout.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import problems
from scipy.optimize import minimize
from timing import Contender, about, blas_threads, medians, options_of

import ifonly

ROWS, FEW, SMALL = 2000, 5, 20  # of a batch, of it for the peers, and small problems
PROB = 0.9
SIZES = ((10, 3), (30, 4), (60, 6))  # D, K of small problems
GTOL = 1e-8  # of L-BFGS-B: a projected gradient

Goal = dict[str, float]


def lbfgsb(model: ifonly.Model, x: np.ndarray, k: int, lam: float, bounds: tuple[float, float]) -> np.ndarray:
    """The least E within bounds, with SciPy."""
    A, b = model.A, model.b

    def value(y: np.ndarray) -> tuple[float, np.ndarray]:
        z = A @ y + b
        e = np.exp(z - z.max())
        p, t = e / e.sum(), y - x
        loss = z.max() + math.log(e.sum()) - z[k]
        p[k] -= 1.0
        return 0.5 * lam * float(t @ t) + loss, lam * t + p @ A

    options = {"ftol": 0.0, "gtol": GTOL, "maxiter": 10_000, "maxfun": 100_000}
    return minimize(value, x, jac=True, method="L-BFGS-B", bounds=[bounds] * len(x), options=options).x


def clarabel(model: ifonly.Model, x: np.ndarray, k: int, goal: Goal, bounds: tuple[float, float], l1: float = 0.0) -> Any:
    """The same, or the least cost with a probability, as a cone program with cvxpy."""
    import cvxpy as cp

    y = cp.Variable(len(x))
    z = model.A @ y + model.b
    square, sparse = cp.sum_squares(y - x), l1 * cp.norm1(y - x)
    limits: list[Any] = [y >= bounds[0], y <= bounds[1]]
    if "lam" in goal:
        cost = 0.5 * goal["lam"] * square + sparse + cp.log_sum_exp(z) - z[k]
    else:
        cost = 0.5 * square + sparse
        rivals = np.delete(np.arange(len(model.b)), k)
        limits.append(cp.log_sum_exp(z[rivals]) - z[k] <= math.log(1 / goal["prob"] - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": it went as far as it could
        cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL)
    return y.value


def once(solve: Callable[[int], Any], n: int) -> float:
    """The median time of n calls in µs, each made once."""
    taken = []
    for i in range(n):
        start = time.perf_counter()
        solve(i)
        taken.append(time.perf_counter() - start)
    return 1e6 * median(taken)


def batch(n: int, few: int) -> list[str]:
    """A batch within [0, 1] over the free batch, and over the peers."""
    case = problems.load("MNIST")
    P = case.draw(n)
    return [batch_line(case.model, P, few, weighed=weighed) for weighed in (True, False)]


def batch_line(model: ifonly.Model, P: problems.Problems, few: int, *, weighed: bool) -> str:
    """One goal of it."""
    n, within = len(P.target), ifonly.Actions(bounds=(0, 1))
    out = np.zeros((n, model.n_features))
    goal: dict[str, Any] = {"lam": P.lam} if weighed else {"prob": PROB}
    call = partial(ifonly.invert, model, P.X, P.target, threads=1, out=out, **goal)
    contenders = {"free": partial(call, backend="cpu"), "within": partial(call, actions=within)}
    us = medians({name: Contender(contender, n) for name, contender in contenders.items()})
    found = call(actions=within)
    k, lam = P.target.tolist(), P.lam.tolist()
    scipy = once(lambda i: lbfgsb(model, P.X[i], k[i], lam[i], (0, 1)), few) if weighed else math.nan
    cvxpy = once(lambda i: clarabel(model, P.X[i], k[i], {"lam": lam[i]} if weighed else {"prob": PROB}, (0, 1)), few)
    return (
        f"| {'λ' if weighed else f'p ≥ {PROB}'} | {us['free']:.1f} | {us['within']:.1f} | {us['within'] / us['free']:.1f} "
        f"| {scipy / us['within']:.0f} | {cvxpy / us['within']:.0f} | {found.n_iter.mean():.1f} "
        f"| {(found.status == ifonly.Status.EXACT).mean():.1%} |"
    )


def one_by_one(n: int) -> list[str]:
    """Small problems with limits, one call each, against cvxpy."""
    lines = []
    for D, K in SIZES:
        rng = np.random.default_rng(D)
        model = ifonly.Model(rng.normal(size=(K, D)), rng.normal(size=K))
        X = rng.uniform(-1, 1, (n, D))
        k = model.logits(X).argsort(axis=1)[:, -2].tolist()
        for l1 in (0.0, 0.1):
            for goal in ({"lam": 0.1}, {"prob": PROB}):
                limits = {"actions": ifonly.Actions(bounds=(-1, 1)), "cost": ifonly.Cost(l1=l1)}
                solve = partial(ifonly.invert, model, **goal, **limits)
                call = Contender(lambda X=X, k=k, solve=solve: [solve(x, c) for x, c in zip(X, k, strict=True)], n)
                ours = medians({"ifonly": call})["ifonly"]
                few = min(n, FEW)
                peer = once(lambda i, X=X, k=k, g=goal, l1=l1, m=model: clarabel(m, X[i], k[i], g, (-1, 1), l1), few)
                name = "λ" if "lam" in goal else f"p ≥ {PROB}"
                lines.append(f"| {D} | {K} | {name}{', ℓ1' if l1 else ''} | {ours:.0f} | {peer:.0f} | {peer / ours:.0f} |")
    return lines


def main() -> None:
    """Both tables."""
    options = options_of(argparse.ArgumentParser(description=__doc__))
    problems.SMALL = options.quick
    print(about(), "\n")
    with blas_threads(1):
        print(f"A batch within [0, 1], µs a row, one thread{', tiny' if options.quick else ''}:\n")
        print("| goal | free | within | ratio | L-BFGS-B ÷ | cvxpy ÷ | iterations | exact |\n|---|---|---|---|---|---|---|---|")
        print(*batch(50 if options.quick else ROWS, 2 if options.quick else FEW), sep="\n")
        print("\nSmall problems one at a time, µs a call:\n")
        print("| D | K | goal | ifonly | cvxpy | ÷ |\n|---|---|---|---|---|---|")
        print(*one_by_one(2 if options.quick else SMALL), sep="\n")


if __name__ == "__main__":
    main()
