"""With a cost and limits: bounds, frozen features, directions, ℓ1, scales, matrices, rules; whole numbers, few changes."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from ifonly import Actions, Cost, invert
from tests.golden.free import BACKENDS
from tests.golden.models import labels, model, rng_of, sources
from tests.golden.questions import Question
from tests.golden.truth import Problem

__all__ = ["FAMILIES"]

Limits = dict[str, Any]  # arguments of `invert`
GOALS: dict[str, dict[str, float]] = {
    "lam=0.05": {"lam": 0.05},
    "lam=2": {"lam": 2.0},
    "prob=0.3": {"prob": 0.3},
    "prob=0.8": {"prob": 0.8},
    "margin=0": {"margin": 0.0},
    "margin=1.5": {"margin": 1.5},
    "default": {},
}


def matrix(D: int) -> np.ndarray:
    """Some positive definite matrix."""
    root = rng_of("matrix", D).normal(size=(D, D)) + 2 * np.eye(D)
    return (root.T @ root / D).round(3)


@cache
def costs(D: int) -> dict[str, Cost]:
    """Costs that take a while to make."""
    data, Q = sources(40, D, "fit"), matrix(D)
    found = {"matrix": Cost(matrix=Q), "matrix, l1": Cost(matrix=Q, l1=0.05), "mahalanobis": Cost.mahalanobis(data)}
    return found | {"std": Cost("std").fit(data), "mad": Cost("mad").fit(data), "iqr": Cost("iqr", l1=0.1).fit(data)}


def convex(D: int, x: np.ndarray) -> dict[str, Limits]:
    """Costs and limits without whole numbers, for sources near ``x``; by names, numbers, mappings and arrays."""
    rng = rng_of("convex", D)
    price = np.exp(rng.normal(size=D)).round(3)
    low, high = (x - rng.exponential(size=D)).round(3), (x + rng.exponential(size=D)).round(3)
    both = {f"f{d}": (float(low[d]), float(high[d])) for d in range(D)}
    first, last = "f0", f"f{D - 1}"
    return {
        "box": {"actions": Actions(bounds=(-6, 6))},
        "bounds": {"actions": Actions(bounds=both)},
        "one side": {"actions": Actions(bounds={0: (None, float(high[0])), D - 1: (float(low[-1]), None)})},
        "outside": {"actions": Actions(bounds={first: (float(high[0]), float(high[0]) + 2.0)})},
        "frozen": {"actions": Actions(frozen=[first, last][: max(1, D // 3)])},
        "increase": {"actions": Actions(increase=[first], decrease=[last])},
        "rise only": {"actions": Actions(increase=True)},
        "fall only": {"actions": Actions(decrease=True)},
        "l1": {"cost": Cost(l1=0.1)},
        "l1 each": {"cost": Cost(l1={first: 0.5, last: 0.02})},
        "l1 array, scale": {"cost": Cost(scale=price, l1=(0.2 * price).round(3))},
        "scale": {"cost": Cost(scale=price)},
        "scale some": {"cost": Cost(scale={first: 3.0}), "actions": Actions(frozen=[last] if D > 1 else ())},
        "raw": {"cost": Cost("raw", l1=0.05)},
        "std": {"cost": costs(D)["std"], "actions": Actions(bounds=both)},
        **{name: {"cost": costs(D)[name]} for name in ("mad", "iqr", "matrix", "matrix, l1", "mahalanobis")},
        "matrix, bounds": {"cost": costs(D)["matrix"], "actions": Actions(bounds=both)},
        "<=": {"actions": Actions(linear=[({first: 1.0, last: -0.5}, "<=", float(round(x[0] - 0.5 * x[-1] + 0.2, 3)))])},
        ">=": {"actions": Actions(linear=[({first: 1.0, last: 2.0}, ">=", float(round(x[0] + 2 * x[-1] + 0.3, 3)))])},
        "==": {"actions": Actions(linear=[({first: 1.0, last: 1.0}, "==", float(round(x[0] + x[-1], 3)))])},
        "mixed": {
            "cost": Cost(scale=price, l1=0.05),
            "actions": Actions(frozen=[last] if D > 2 else (), bounds={first: (float(low[0]), None)}, increase=[D // 2]),
        },
    }


def discrete(D: int, x: np.ndarray) -> dict[str, Limits]:
    """Whole numbers, grids, groups and few changes; prices differ, so that no two answers cost the same. From D = 5 on."""
    rng = rng_of("discrete", D)
    price = np.exp(0.5 * rng.normal(size=D)).round(3)
    cost = Cost(scale=price)
    group = [f"f{d}" for d in range(D - 3, D)]
    wide = {f"f{d}": (-12.0, 12.0) for d in range(D)}
    return {
        "integer": {"actions": Actions(integer=["f0", "f1"], bounds=wide), "cost": cost},
        "all integer": {"actions": Actions(integer=True, bounds=(-9, 9)), "cost": cost},
        "step": {"actions": Actions(step={"f0": 0.25, "f2": 0.1}, bounds=wide), "cost": cost},
        "one_of": {"actions": Actions(one_of=[group]), "cost": cost},
        "one_of, integer": {
            "actions": Actions(one_of=group, integer=["f0"], frozen=["f1"], bounds={"f0": (-8, 8)}),
            "cost": cost,
        },
        "max_changes=1": {"max_changes": 1, "cost": cost},
        "max_changes=2": {"max_changes": 2, "cost": cost, "actions": Actions(frozen=["f0"])},
        "max_changes, l1": {"max_changes": 2, "cost": Cost(scale=price, l1=0.1)},
        "integer, rule": {
            "actions": Actions(
                integer=["f0"], bounds=wide, linear=[({"f0": 1.0, "f1": 1.0}, "<=", float(round(x[0] + x[1] + 0.5, 3)))]
            ),
            "cost": cost,
        },
        "integer, few": {
            "max_changes": 2,
            "actions": Actions(integer=["f0"], step={"f1": 0.5}, bounds=wide, increase=["f2"]),
            "cost": cost,
        },
    }


def one_hot(X: np.ndarray) -> np.ndarray:
    """Sources whose last three features are one-hot."""
    X = X.copy()
    X[..., -3:] = 0.0
    for n, row in enumerate(np.atleast_2d(X)):
        row[-3 + n % 3] = 1.0
    return X


Menu = Callable[[int, np.ndarray], dict[str, Limits]]


def asked(name: str, K: int, D: int, menu: Menu, per_limit: int, *, hard: bool = False) -> Iterator[Question]:
    """Each limit with some of the goals, towards some of the targets, for one source and for a table by every backend."""
    like = "exact" if menu is convex else "grid"
    every = labels(K)
    wanted: dict[str, Any] = {"first": every[0], "last": every[-1], "None": None}
    wanted |= {"opposite": "opposite"} if K == 2 else {"other": "other", "set": {every[0], every[-1]}}
    goals = {goal: value for goal, value in GOALS.items() if not hard or goal in ("margin=0", "margin=1.5", "default")}
    around = sources(1, D, name)[0]
    m = model(K, D, hard=hard, spread=0.7)
    for i, limit in enumerate(menu(D, around)):
        for j in range(per_limit):
            goal, value = list(goals.items())[(i + 2 * j) % len(goals)]
            kind, target = list(wanted.items())[(i + j) % len(wanted)]
            X = (around + 0.5 * sources(3, D, name, limit, j)).round(3)
            X = one_hot(X) if limit.startswith("one_of") else X
            settings = menu(D, X[0] if j else around)[limit]
            at = f"{name}/{limit}/{goal}/{kind}"
            problems = tuple(Problem.of(m, x, target, settings, value) for x in X)
            yield Question(f"{at}/one", partial(invert, m, X[0], target, **value, **settings), like, problems=problems[:1])
            first = f"{at}/table/auto"
            backends = BACKENDS if K == 2 else ("auto", *BACKENDS[1 + i % 6 : 2 + i % 6])  # with more classes, some of them
            for backend in backends if j == 0 else ():
                ask = partial(invert, m, X, target, **value, **settings, backend=backend)
                twin = None if backend == "auto" else first
                yield Question(f"{at}/table/{backend}", ask, like, twin=twin, problems=problems)


def two_limits() -> Iterator[Question]:
    """Two classes, and limits without whole numbers."""
    for D in (1, 2, 6, 20):
        yield from asked(f"two_limits/D={D}", 2, D, convex, 4)


def some_limits() -> Iterator[Question]:
    """More classes, and limits without whole numbers."""
    for K, D, per_limit in ((3, 2, 3), (3, 6, 3), (5, 4, 3), (10, 20, 1)):
        yield from asked(f"some_limits/K={K},D={D}", K, D, convex, per_limit)


def two_grids() -> Iterator[Question]:
    """Two classes; whole numbers, groups, few changes."""
    for D in (5, 9):
        yield from asked(f"two_grids/D={D}", 2, D, discrete, 6)


def some_grids() -> Iterator[Question]:
    """More classes; whole numbers, groups, few changes."""
    for K, D in ((3, 5), (4, 6)):
        yield from asked(f"some_grids/K={K},D={D}", K, D, discrete, 3)


def scores() -> Iterator[Question]:
    """Models with scores and no probabilities: margins only."""
    for K, D in ((2, 6), (4, 5)):
        yield from asked(f"scores/K={K},D={D}", K, D, convex, 1, hard=True)
        yield from asked(f"scores/K={K},D={D},grid", K, D, discrete, 1, hard=True)
        m = model(K, D, hard=True, spread=0.7)
        for goal in ("margin=0", "margin=1.5", "default"):
            X = sources(3, D, "scores", K, goal)
            yield Question(f"scores/K={K},D={D}/free/{goal}/one", partial(invert, m, X[0], None, **GOALS[goal]))
            yield Question(f"scores/K={K},D={D}/free/{goal}/table", partial(invert, m, X, labels(K)[1], **GOALS[goal]))


def each_limits() -> Iterator[Question]:
    """Limits with a goal or a target for each row, and every class in turn."""
    for K, D in ((2, 6), (3, 5)):
        m, every = model(K, D, spread=0.7), labels(K)
        x = sources(1, D, "each", K)[0]
        X = (x + 0.5 * sources(3, D, "each rows", K)).round(3)
        menu = convex(D, x) | discrete(D, x)
        for limit in ("bounds", "l1", "scale", "matrix", "==", "integer", "max_changes=1"):
            settings = menu[limit]
            like = "grid" if limit in discrete(D, x) else "exact"
            probs, lams = [0.3, 0.6, 0.8], [0.02, 0.3, 2.0]
            three = [every[0], every[-1], every[0]]
            for name, target, goals in (
                ("prob each", every[1], [{"prob": p} for p in probs]),
                ("lam each", None, [{"lam": lam} for lam in lams]),
                ("label each", three, [{"prob": 0.7}] * 3),
                ("both each", np.array(three), [{"prob": p} for p in probs]),
            ):
                key = next(iter(goals[0]))
                given = {key: [goal[key] for goal in goals]} if len({*(goal[key] for goal in goals)}) > 1 else goals[0]
                wanted = [target] * 3 if target is None or isinstance(target, str) else list(target)
                problems = tuple(Problem.of(m, X[n], wanted[n], settings, goals[n]) for n in range(3))
                ask = partial(invert, m, X, target, **given, **settings)
                yield Question(f"each_limits/K={K}/{limit}/{name}", ask, like, problems=problems)
            problems = tuple(Problem.of(m, X[0], label, settings, {"prob": 0.6}) for label in every)
            ask = partial(invert, m, X[0], "all", prob=0.6, **settings)
            yield Question(f"each_limits/K={K}/{limit}/all/one", ask, like, problems=problems)
            yield Question(f"each_limits/K={K}/{limit}/all/table", partial(invert, m, X[:2], "all", lam=0.2, **settings), like)


FAMILIES = (two_limits, some_limits, two_grids, some_grids, scores, each_limits)
