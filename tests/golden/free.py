"""Without limits: two classes (the closed form), some (Newton in class space), many and very many."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ifonly import Model, invert
from tests.golden.models import labels, model, rng_of, sources
from tests.golden.questions import Question

__all__ = ["FAMILIES"]

BACKENDS = ("auto", "reference", "cpu")
GOALS: dict[str, dict[str, float]] = {
    "lam=0.01": {"lam": 0.01},
    "lam=0.3": {"lam": 0.3},
    "lam=10": {"lam": 10.0},
    "prob=0.2": {"prob": 0.2},
    "prob=0.9": {"prob": 0.9},
    "prob=0.999": {"prob": 0.999},
    "default": {},
}
N_ROWS = 4


def targets(K: int) -> dict[str, Any]:
    """What one may ask for of K classes, for one source or many."""
    every = labels(K)
    found = {"first": every[0], "last": every[-1], "None": None, "other": "other"}
    found |= {"opposite": "opposite"} if K == 2 else {"set": {every[0], every[K // 2], every[-1]}} if K > 3 else {}
    return found


def single(name: str, K: int, D: int, **how: Any) -> Iterator[Question]:
    """One source: every goal, towards a label and two other targets in turn."""
    kinds = list(targets(K).items())
    for i, (goal, asked) in enumerate(GOALS.items()):
        for j in range(3):
            kind, target = kinds[(2 * i + j) % len(kinds)]
            x = sources(1, D, name, i, j)[0].tolist()
            yield Question(f"{name}/one/{goal}/{kind}", partial(invert, model(K, D, **how), x, target, **asked))


def table(name: str, K: int, D: int, backends: tuple[str, ...] = BACKENDS, **how: Any) -> Iterator[Question]:
    """A few sources: goals and targets for all rows and for each, by every backend."""
    rng = rng_of("table", name)
    each = {"lam each": {"lam": (10.0 ** rng.uniform(-3, 1, N_ROWS)).round(6).tolist()}, "default": {}}
    each |= {"prob each": {"prob": rng.uniform(0.1, 0.99, N_ROWS).round(4)}, "lam=0.1": {"lam": 0.1}, "prob=0.7": {"prob": 0.7}}
    wanted = targets(K) | {"label each": rng.choice(labels(K), N_ROWS).tolist()}
    kinds = list(wanted.items())
    for i, (goal, asked) in enumerate(each.items()):
        for j in range(2):
            kind, target = kinds[(2 * i + j) % len(kinds)]
            X = sources(N_ROWS, D, name, i, j)
            first = f"{name}/table/{goal}/{kind}/{backends[0]}"
            for backend in backends:
                ask = partial(invert, model(K, D, **how), X, target, **asked, backend=backend)
                yield Question(f"{name}/table/{goal}/{kind}/{backend}", ask, twin=None if backend == backends[0] else first)


def every_class(name: str, K: int, D: int) -> Iterator[Question]:
    """Every class in turn, for one source and for two."""
    for goal in ("lam=0.3", "prob=0.9"):
        X = sources(2, D, name, goal)
        yield Question(f"{name}/all/one/{goal}", partial(invert, model(K, D), X[0], "all", **GOALS[goal]))
        yield Question(f"{name}/all/table/{goal}", partial(invert, model(K, D), X, "all", **GOALS[goal], backend="reference"))


def two() -> Iterator[Question]:
    """Two classes."""
    for D in (1, 2, 6, 40):
        yield from single(f"two/D={D}", 2, D)
        yield from table(f"two/D={D}", 2, D)
    yield from every_class("two/D=5", 2, 5)


def some() -> Iterator[Question]:
    """Three classes to thirty; with fewer features than classes, too."""
    for K, D in ((3, 1), (3, 2), (3, 7), (4, 12), (5, 3), (10, 4), (10, 30), (30, 12), (30, 40)):
        yield from single(f"some/K={K},D={D}", K, D)
        yield from table(f"some/K={K},D={D}", K, D)
    for K, D in ((3, 4), (5, 2), (10, 12)):
        yield from every_class(f"some/K={K},D={D}", K, D)


def heads(name: str, K: int, D: int, spread: float, N: int) -> Iterator[Question]:
    """The head of a network: one source by every backend, and a few at once."""
    wide = partial(model, K, D, spread=spread, names=False)
    wanted = {"label": 7, "None": None, "set": {3, K - 50}}
    for goal, (kind, target) in product(("lam=0.3", "prob=0.9", "default"), wanted.items()):
        X = sources(N, D, name, goal, kind)
        first = f"{name}/{goal}/{kind}/one/auto"
        for backend in BACKENDS:
            ask = partial(_late, wide, X[0], target, **GOALS[goal], backend=backend)
            yield Question(f"{name}/{goal}/{kind}/one/{backend}", ask, twin=None if backend == "auto" else first)
        yield Question(f"{name}/{goal}/{kind}/table", partial(_late, wide, X, target, **GOALS[goal]))


def many() -> Iterator[Question]:
    """400 classes and more, all rivals independent."""
    yield from heads("many/K=400,D=420", 400, 420, 0.2, 2)
    yield from heads("many/K=520,D=600", 520, 600, 0.2, 2)


def vast() -> Iterator[Question]:
    """Fewer features than classes, more than 4096 classes, and an A of float32 that is not copied."""
    yield from heads("vast/K=450,D=20", 450, 20, 1.0, 3)
    yield from heads("vast/K=4200,D=60", 4200, 60, 0.3, 2)
    for goal in ("lam=0.01", "prob=0.9"):
        yield Question(f"vast/float32/{goal}", partial(_vocabulary, goal))


def _late(make: Any, *args: Any, **options: Any) -> Any:
    """Ask of a model that is large enough to be made only when it is asked."""
    return invert(make(), *args, **options)


def _vocabulary(goal: str) -> Any:
    """A head of 64 MB in single precision."""
    A = rng_of("vocabulary").integers(-9, 10, size=(33_000, 512), dtype=np.int8).astype(np.float32) / 32
    x = (8 * A[4321].astype(float) + sources(1, 512, "vocabulary")[0] / 4).round(3)
    return invert(Model(A, np.zeros(len(A))), x, 1234, **GOALS[goal])


FAMILIES = (two, some, many, vast)
