"""Answers within limits: a batch at MNIST size over one without limits, both over what people use today; and searches.

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

ROWS, FEW, SMALL, SEARCHES = 2000, 5, 20, 100  # of a batch, of it for the peers; small problems; searches
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


def credit(rng: np.random.Generator) -> dict[str, Any]:
    """Thirty whole numbers, two classes, two or three rules between three of them each."""
    model = ifonly.Model.binary(0.3 * rng.normal(size=30), 0.0)
    x = rng.integers(0, 10, size=30).astype(float)
    triples = [rng.choice(30, 3, replace=False).tolist() for _ in range(int(rng.integers(2, 4)))]
    rules = [({a: 1.0, b: 1.0, c: -1.0}, "<=", float(x[a] + x[b] - x[c]) + 3) for a, b, c in triples]
    actions = ifonly.Actions(integer=True, bounds=(0, 20), linear=rules)
    return {"model": model, "x": x, "target": 1 - int(model.predict(x)), "prob": PROB, "actions": actions}


def whole_numbers(rng: np.random.Generator) -> dict[str, Any]:
    """Twelve whole numbers, five classes."""
    model, x = ifonly.Model(0.5 * rng.normal(size=(5, 12)), np.zeros(5)), rng.integers(0, 10, size=12).astype(float)
    actions = ifonly.Actions(integer=True, bounds=(0, 20))
    return {"model": model, "x": x, "target": int(model.logits(x).argmin()), "prob": 0.8, "actions": actions}


def pixels(classes: int, rng: np.random.Generator) -> dict[str, Any]:
    """Twenty of MNIST's pixels within [0, 1], towards the second class (of two: 0 or 1)."""
    case = problems.load("MNIST")
    model = case.model if classes > 2 else ifonly.Model(case.model.A[:2], case.model.b[:2])
    x = np.asarray(case.pool[int(rng.integers(len(case.pool)))], dtype=float) * case.unit
    goal = {"target": int(np.argsort(model.logits(x))[-2]), "prob": 0.5}
    return {"model": model, "x": x, "actions": ifonly.Actions(bounds=(0, 1)), "max_changes": min(20, len(x)), **goal}


def search_line(name: str, draw: Callable[[np.random.Generator], dict[str, Any]], n: int) -> str:
    """So many searches, one at a time, each with a second of time."""
    seconds, nodes, gaps = [], [], []
    for seed in range(-1, n):  # the first is not counted
        question = draw(np.random.default_rng(abs(seed)))
        began = time.perf_counter()
        cf = ifonly.invert(time_limit=1.0, **question)
        seconds.append(time.perf_counter() - began)
        nodes.append(max(cf.n_nodes, 1))
        gaps.append(cf.gap / cf.cost if cf.cost > 0 else 0.0)
    ms, counted = 1e3 * np.array(seconds[1:]), np.array(nodes[1:])
    most, each = np.quantile(ms, 0.99), 1e3 * ms.sum() / counted.sum()
    return f"| {name} | {np.median(ms):.1f} | {most:.0f} | {np.median(counted):.0f} | {each:.0f} | {max(gaps[1:]):.0e} |"


def searches(n: int) -> list[str]:
    """The table of searches."""
    asked = {
        "30 whole numbers, 2 or 3 rules, K = 2": credit,
        "12 whole numbers, K = 5": whole_numbers,
        "20 of 784 pixels, K = 2": partial(pixels, 2),
        "20 of 784 pixels, K = 10": partial(pixels, 10),
    }
    return [search_line(name, draw, n) for name, draw in asked.items()]


def main() -> None:
    """All tables."""
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
        print("\nSearches, one at a time, p ≥ 0.5 to 0.9:\n")
        print("| | ms, median | 99 of 100 | nodes, median | µs a node | largest gap |\n|---|---|---|---|---|---|")
        print(*searches(2 if options.quick else SEARCHES), sep="\n")


if __name__ == "__main__":
    main()
