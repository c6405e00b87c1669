"""Rows that cannot be read, what is out of reach, and numbers at their extremes."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from ifonly import Actions, Cost, Model, invert
from tests.golden.free import BACKENDS
from tests.golden.models import labels, model, rng_of, sources
from tests.golden.questions import Question
from tests.golden.truth import Problem

__all__ = ["FAMILIES"]


def bad_rows() -> Iterator[Question]:
    """Tables with rows that are not finite, too large, or in contradiction to the limits: the others go on."""
    engines: dict[str, tuple[int, int, Any, dict[str, Any]]] = {
        "two, lam": (2, 4, "yes", {"lam": 0.3}),
        "two, prob": (2, 4, None, {"prob": 0.8}),
        "some, lam": (4, 4, None, {"lam": 0.3}),
        "some, prob": (4, 4, "b", {"prob": 0.8}),
        "some, all": (3, 4, "all", {"prob": 0.6}),
        "many": (450, 20, 3, {"prob": 0.6}),
        "two, bounds": (2, 4, "yes", {"actions": Actions(bounds=(-9, 9))}),
        "some, l1": (4, 4, "b", {"cost": Cost(l1=0.1)}),
        "two, integer": (2, 4, "no", {"actions": Actions(integer=["f0"], bounds=(-9, 9)), "cost": Cost([1, 1.5, 0.7, 1.2])}),
        "two, margin": (2, 4, "no", {"margin": 0.5}),
        "two, matrix": (2, 4, "no", {"cost": Cost(matrix=np.diag([1.0, 2.0, 3.0, 4.0]))}),
    }
    for engine, (K, D, target, settings) in engines.items():
        m = model(K, D, names=K < 100)
        X = sources(5, D, "bad", engine)
        X[1, 2], X[2, 0], X[4, 1] = np.nan, np.inf, -np.inf
        like = "grid" if "integer" in engine else "exact"
        for backend in BACKENDS if K < 100 else ("auto",):
            ask, twin = partial(invert, m, X, target, **settings, backend=backend), f"bad_rows/{engine}/auto"
            yield Question(f"bad_rows/{engine}/{backend}", ask, like, twin=None if backend == "auto" else twin)
        yield Question(f"bad_rows/{engine}/all of them", partial(invert, m, X[[1, 2]], target, **settings), like)
        if K < 100 and settings.keys() <= {"lam", "prob"}:  # with limits it overflows, which is not to be kept
            large = np.vstack([X[0], X[3] * 1e200])
            yield Question(f"bad_rows/{engine}/too large", partial(invert, m, large, target, **settings), like)
        if K < 100:
            frame = pd.DataFrame(X, columns=[f"f{d}" for d in range(D)])
            yield Question(f"bad_rows/{engine}/frame", partial(invert, m, frame, target, **settings), like)
            thin = sparse.csr_array(X)
            yield Question(f"bad_rows/{engine}/CSR", partial(invert, m, thin, target, **settings), like)
            yield Question(f"bad_rows/{engine}/one", partial(invert, m, X[1], target, **settings), like)
    X = np.array([[1.0, 0.0, 0.0, 1.0], [1.0, 0.5, 0.0, 1.0], [1.0, 0.0, 1.0, 9.0], [1, 1, 0, -3], [7, 0, 1, 2]])
    actions = Actions(one_of=[["f1", "f2"]], frozen=["f0"], bounds={"f0": (0, 5)})
    for K in (2, 3):
        ask = partial(invert, model(K, 4), X, labels(K)[0], actions=actions, cost=Cost([1, 1.5, 0.7, 1.2]))
        yield Question(f"bad_rows/contradictions/K={K}", ask, "grid")


def unreachable() -> Iterator[Question]:
    """What no input reaches, with and without limits: the best there is, and what is in the way."""
    twins = Model([[1.0, 2.0], [1.0, 2.0], [-1.0, 0.5]], [0.0, 0.0, 0.3], classes=["a", "b", "c"])
    line = Model([[-1.0], [0.0], [1.0]], [0.0, -1.0, 0.0], classes=["left", "middle", "right"])
    inside = Model([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.1, 0.1]], np.zeros(5))
    flat = Model(np.zeros((3, 2)), [0.0, 1.0, -1.0])
    for name, m, x, target in (
        ("twins", twins, [0.3, -0.2], "a"),
        ("line", line, [2.0], "middle"),
        ("inside", inside, [1.0, 2.0], 4),
        ("flat", flat, [1.0, 2.0], 0),
        ("flat, two", Model(np.zeros((2, 3)), [0.0, 1.0]), [1.0, 2.0, 3.0], 0),
    ):
        for prob in (0.2, 0.6, 0.95):
            yield Question(f"unreachable/{name}/{prob}", partial(invert, m, x, target, prob=prob), "far")
            ask = partial(invert, m, [x, [2 * v for v in x]], target, prob=prob, backend="reference")
            yield Question(f"unreachable/{name}/{prob}/table", ask, "far")
        yield Question(f"unreachable/{name}/lam", partial(invert, m, x, target, lam=0.1))
        yield Question(f"unreachable/{name}/None", partial(invert, m, x, None, prob=0.6), "far")
    for K, D in ((2, 3), (4, 3)):
        m = model(K, D, spread=0.5)
        for i in range(4):
            x = sources(1, D, "unreachable", K, i)[0]
            target = labels(K)[int((m.A @ x + m.b).argmin())]
            near = {f"f{d}": (float(x[d]) - 0.1, float(x[d]) + 0.2) for d in range(D)}
            rule = ({"f0": 1.0, "f1": 1.0, "f2": 1.0}, "<=", float(round(x.sum() + 0.05, 3)))
            for limit, actions in {
                "bounds": Actions(bounds=near),
                "frozen": Actions(frozen=["f0", "f1"], bounds={"f2": near["f2"]}),
                "directions": Actions(increase=["f0", "f1"], decrease=["f2"], bounds=near),
                "rule": Actions(bounds=near, linear=[rule]),
                "all frozen": Actions(frozen=True),
            }.items():
                for goal in ({"prob": 0.9}, {"margin": 4.0}):
                    settings = {"actions": actions}
                    problem = Problem.of(m, x, target, settings, goal)
                    at = f"unreachable/K={K}/{i}/{limit}/{next(iter(goal))}"
                    yield Question(f"{at}/one", partial(invert, m, x, target, **goal, **settings), problems=(problem,))
                    ask = partial(invert, m, x[None], target, **goal, **settings)
                    yield Question(f"{at}/table", ask, problems=(problem,))
            grid = {"actions": Actions(integer=["f0"], bounds={"f0": (-3, 3), "f1": near["f1"], "f2": near["f2"]})}
            for goal in ({"prob": 0.97}, {"margin": 6.0}):
                problem = Problem.of(m, x, target, grid, goal)
                ask = partial(invert, m, x, target, **goal, **grid)
                yield Question(f"unreachable/K={K}/{i}/integer/{next(iter(goal))}", ask, "grid", problems=(problem,))


def extremes() -> Iterator[Question]:
    """λ from 1e-8 to 1e8, probabilities near 0 and 1, gaps of 1e6 between logits, features of very different size."""
    for K, D in ((2, 3), (3, 4), (10, 5)):
        x = sources(1, D, "extremes", K)[0]
        for power in (-8, -6, -4, 4, 6, 8):
            ask = partial(_by_all, model(K, D), x, labels(K)[0], {"lam": 10.0**power})
            yield Question(f"extremes/K={K}/lam=1e{power}", ask, "flat" if power < -4 else "exact")
        for prob in (1e-12, 1e-6, 1e-3, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9):
            ask = partial(_by_all, model(K, D), x, labels(K)[0], {"prob": prob})
            yield Question(f"extremes/K={K}/prob={prob!r}", ask, "steep")
        m = model(K, D)
        for name, changed in {
            "large weights": Model(m.A * 1e3, m.b),
            "small weights": Model(m.A * 1e-4, m.b),
            "large offsets": Model(m.A, m.b * 1e6),
            "duplicate rows": Model(np.vstack([m.A, m.A[:1]]), np.append(m.b, m.b[0] - 0.7)),
            "a row of zeros": Model(np.vstack([m.A, 0 * m.A[:1]]), np.append(m.b, 0.4)),
            "uneven features": Model(m.A * 10.0 ** np.linspace(-4, 4, D), m.b),
            "a common part": Model(m.A + 1e3, m.b),
        }.items():
            for goal in ({"lam": 0.1}, {"prob": 0.4}):
                like = "steep" if name != "a common part" else "rounded"
                yield Question(f"extremes/K={K}/{name}/{next(iter(goal))}", partial(_by_all, changed, x, 0, goal), like)
        for name, source in {"zeros": 0 * x, "large": 1e6 * x, "tiny": 1e-9 * x, "very large": 1e8 * x}.items():
            for goal in ({"lam": 0.1}, {"prob": 0.6}):
                like = "rounded" if "large" in name else "steep"
                ask = partial(_by_all, m, source, labels(K)[0], goal)
                yield Question(f"extremes/K={K}/source of {name}/{next(iter(goal))}", ask, like)
    for name, A in {"up": [[0.0], [2.0]], "down": [[1.0], [-1.0]], "three": [[-1.0], [0.5], [2.0]]}.items():
        for goal in ({"lam": 0.01}, {"lam": 3.0}, {"prob": 0.3}, {"prob": 0.99}, {"margin": 1.0}):
            ask = partial(invert, Model(A, [0.1, -0.2, 0.3][: len(A)]), [0.7], 1, **goal)
            yield Question(f"extremes/D=1/{name}/{next(iter(goal.items()))}", ask, "far" if name == "three" else "exact")
    rng = rng_of("gaps")
    A = rng.normal(size=(4, 3)).round(3)
    for gap in (30.0, 800.0, 1e4, 1e6):
        m = Model(A, [gap, 0.0, -gap, gap / 2])
        for target in range(4):
            for goal in ({"lam": 1e-3}, {"prob": 0.7}):
                ask = partial(_by_all, m, [0.5, -1.0, 2.0], target, goal)
                yield Question(f"extremes/gap={gap:g}/{target}/{next(iter(goal))}", ask, "steep")
    for K in (2, 3):  # a source that is there already
        for goal in ({"prob": 0.4}, {"lam": 0.5}):
            x = sources(1, 3, "there", K)[0]
            there = labels(K)[int((model(K, 3).A @ x + model(K, 3).b).argmax())]
            yield Question(f"extremes/there/K={K}/{next(iter(goal))}", partial(_by_all, model(K, 3), x, there, goal))
            ask = partial(invert, model(K, 3), x, there, **goal, actions=Actions(bounds=(-20, 20)))
            yield Question(f"extremes/there/K={K}/{next(iter(goal))}/bounds", ask)


def _by_all(m: Model, x: Any, target: Any, goal: dict[str, float]) -> Any:
    """One source, and as a table by every backend."""
    found = {"one": invert(m, x, target, **goal)}
    return found | {backend: invert(m, np.array([x]), target, **goal, backend=backend) for backend in BACKENDS}


FAMILIES = (bad_rows, unreachable, extremes)
