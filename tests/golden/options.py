"""What else may be said: where to write, where to start, when to stop; several plans, several classes together, paths."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from ifonly import Actions, Cost, Status, invert, path
from tests.golden.limits import convex, discrete, one_hot
from tests.golden.models import labels, model, sources
from tests.golden.questions import Question
from tests.golden.truth import Problem

__all__ = ["FAMILIES"]


def options() -> Iterator[Question]:
    """Arguments beside the question: `out`, `threads`, `tol`, `start`, `max_iter`, `progress`, and limits on the search."""
    yield from _written()
    for K, D in ((2, 5), (4, 6)):
        X = sources(5, D, "threads", K)
        for threads in (1, 2):
            for goal in ({"lam": 0.1}, {"prob": 0.8}):
                ask = partial(invert, model(K, D), X, labels(K)[1], **goal, backend="cpu", threads=threads)
                yield Question(f"options/threads={threads}/K={K}/{next(iter(goal))}", ask)
        yield Question(f"options/progress/K={K}", partial(invert, model(K, D), X, labels(K)[0], progress=False))
    yield from _stopped()
    yield from _started()
    yield from _searched()


def _written() -> Iterator[Question]:
    """Answers into an array of the user's."""
    rooms: dict[str, Callable[[int, int], np.ndarray]] = {
        "new": lambda n, D: np.full((n, D), 7.0),
        "float32": lambda n, D: np.full((n, D), 7.0, dtype=np.float32),
        "by columns": lambda n, D: np.full((n, D), 7.0, order="F"),
        "a view": lambda n, D: np.full((2 * n, D), 7.0)[::2],
    }
    engines = {"free": {}, "bounds": {"actions": Actions(bounds=(-8, 8))}, "l1": {"cost": Cost(l1=0.1)}}
    for K in (2, 4):
        for engine, settings in engines.items():
            for room, make in rooms.items():
                X = sources(3, 4, "out", K)
                ask = partial(_into, make, model(K, 4), X, labels(K)[0], {"prob": 0.7, **settings})
                yield Question(f"options/out/K={K}/{engine}/{room}", ask, "single" if room == "float32" else "exact")
        for kind, given in {
            "frame": lambda X: pd.DataFrame(X, columns=[f"f{d}" for d in range(4)]),
            "CSR": sparse.csr_array,
            "iterator": lambda X: iter([X[:1], X[1:]]),
        }.items():
            ask = partial(_into, rooms["new"], model(K, 4), given, labels(K)[0], {"lam": 0.2}, seed=K)
            yield Question(f"options/out/K={K}/{kind}", ask)
        ask = partial(_into, rooms["new"], model(K, 4), lambda X: X[0], labels(K)[0], {"lam": 0.2}, seed=K, rows=1)
        yield Question(f"options/out/K={K}/one", ask)
        ask = partial(_into, rooms["new"], model(K, 4), lambda X: X, "all", {"lam": 0.2}, seed=K, rows=3 * K)
        yield Question(f"options/out/K={K}/all", ask)
    ask = partial(_into, rooms["new"], model(450, 20, names=False), sources(3, 20, "out"), 5, {"prob": 0.6})
    yield Question("options/out/K=450", ask)


def _into(make: Any, m: Any, X: Any, target: Any, settings: dict[str, Any], seed: Any = 0, rows: int = 3) -> Any:
    """The answers, and what is in the array then; a callable makes the sources when it is asked."""
    out = make(rows, m.n_features)
    found = invert(m, X(sources(3, m.n_features, "into", seed)) if callable(X) else X, target, **settings, out=out)
    return {"answers": found, "out": out, "shared": bool(np.shares_memory(np.asarray(found.x), out))}


def _stopped() -> Iterator[Question]:
    """Tolerances, and limits on iterations."""
    for K, D in ((2, 5), (4, 6), (10, 8)):
        x, X = sources(1, D, "tol", K)[0], sources(4, D, "tols", K)
        for tol in (1e-1, 1e-4, 1e-8):
            for name, source in (("one", x), ("table", X)):
                for goal in ({"lam": 0.05}, {"prob": 0.9}):
                    ask = partial(invert, model(K, D), source, labels(K)[1], **goal, tol=tol)
                    like = "exact" if "prob" in goal else "nearly" if tol < 1e-6 else "early"
                    yield Question(f"options/tol={tol}/K={K}/{next(iter(goal))}/{name}", ask, like)
        if K > 2:  # two classes have a closed form, without iterations
            for goal in ({"lam": 0.05}, {"prob": 0.9}):
                for name, source in (("one", x), ("table", X)):
                    ask = partial(invert, model(K, D), source, labels(K)[1], **goal, max_iter=300)
                    yield Question(f"options/max_iter=300/K={K}/{next(iter(goal))}/{name}", ask)
            for most in (1, 2, 3):
                asked = {"lam": 0.05, "start": "source", "max_iter": most}
                ask = partial(invert, model(K, D), x, labels(K)[1], **asked)
                yield Question(f"options/max_iter={most}/K={K}/from the source", ask)
                ask = partial(invert, model(K, D), X, labels(K)[1], **asked, backend="reference")
                yield Question(f"options/max_iter={most}/K={K}/from the source/table", ask)
    for limit in ("l1", "bounds", "=="):
        settings = convex(6, sources(1, 6, "tol")[0])[limit]
        ask = partial(invert, model(4, 6), sources(1, 6, "tol")[0], "b", lam=0.1, tol=1e-3, **settings)
        yield Question(f"options/tol=0.001/{limit}", ask, "early")


def _started() -> Iterator[Question]:
    """Where to start."""
    for K, D in ((3, 2), (4, 6), (10, 8), (450, 20)):
        m, target = model(K, D, names=K < 100), labels(K)[1]
        X, near = sources(3, D, "start", K), sources(3, D, "near", K)
        starts = {"source": (X[0], "source"), "point": (X[0], near[0]), "table, source": (X, "source")}
        starts |= {"table, point": (X, near[0].tolist()), "table, each": (X, near)}
        for name, (source, start) in starts.items():
            for lam in (0.01, 1.0):
                yield Question(f"options/start/K={K}/{name}/{lam}", partial(invert, m, source, target, lam=lam, start=start))


def _searched() -> Iterator[Question]:
    """Limits on the search that it stays within; and one that it does not, of which only the claims are checked."""
    for K in (2, 3):
        x = sources(1, 6, "search", K)[0]
        menu = discrete(6, x)
        for limit in ("integer", "step", "max_changes=2", "integer, few"):
            settings, goal = menu[limit], {"prob": 0.8}
            problem = Problem.of(model(K, 6), x, labels(K)[0], settings, goal)
            asked = partial(invert, model(K, 6), x, labels(K)[0], **goal, **settings)
            for name, more in {
                "node_limit": {"node_limit": 10**6},
                "time_limit": {"time_limit": 600.0},
                "gap": {"gap": 1e-9},
            }.items():
                yield Question(f"options/{name}/K={K}/{limit}", partial(asked, **more), "grid", problems=(problem,))
            for name, more in {"node_limit=1": {"node_limit": 1}, "gap=0.5": {"gap": 0.5}}.items():
                yield Question(f"options/{name}/K={K}/{limit}", partial(_claims, asked, more))


def _claims(asked: Any, more: dict[str, Any]) -> dict[str, bool]:
    """What has to hold of an answer whose search ended early, whichever it is."""
    whole, early = asked(), asked(**more)
    found = bool(np.isfinite(early.x).all())
    if found:
        early.verify()
    return {
        "says how it ended": early.status in (Status.STOPPED, Status.EXACT),
        "is no better than the best": not found or bool(early.cost >= whole.cost * (1 - 1e-9)),
        "the bound holds": bool(early.bound <= whole.cost * (1 + 1e-9)),
        "reaches what was asked for": not found or bool(early.proba[early.model.class_index(early.target)] >= 0.8),
    }


def plans() -> Iterator[Question]:
    """Several answers for one source."""
    for K, D in ((2, 6), (4, 5)):
        x = sources(1, D, "plans", K)[0]
        menus = {"free": {}} | {name: convex(D, x)[name] for name in ("bounds", "frozen", "l1", "scale", "rise only", "<=")}
        grids = {name: discrete(D, x)[name] for name in ("integer", "max_changes=2", "step", "one_of")}
        for limit, settings in (menus | grids).items():
            source = one_hot(x[None])[0] if limit == "one_of" else x
            like = "grid" if limit in grids else "exact"
            for n, target, goal in ((1, labels(K)[0], {"prob": 0.8}), (3, labels(K)[1], {}), (4, None, {"lam": 0.2})):
                if K == 4 and n == 4 and limit in grids:
                    continue  # a second each
                asked = {**goal, **settings, "n": n}
                yield Question(f"plans/K={K}/{limit}/n={n}", partial(invert, model(K, D), source, target, **asked), like)
        row = pd.Series(x, index=[f"f{d}" for d in range(D)])
        yield Question(f"plans/K={K}/Series", partial(invert, model(K, D), row, labels(K)[0], n=3))
        yield Question(f"plans/K={K}/margin", partial(invert, model(K, D), x, labels(K)[0], margin=0.5, n=3))


def joint() -> Iterator[Question]:
    """Several classes together: local optima, found from the same starts."""
    for K, D in ((3, 4), (5, 3), (10, 12), (450, 20)):
        every = labels(K)
        sets = {"two": {every[0], every[1]}, "list": [every[0], every[-1]], "three": {every[0], every[1], every[2]}}
        for name, together in sets.items():
            if len(together) == K:
                continue
            for goal in ({"lam": 0.1}, {"prob": 0.8}, {}):
                for i in range(2):
                    x = sources(1, D, "joint", K, name, i)[0]
                    ask = partial(invert, model(K, D, names=K < 100), x, together, **goal, joint=True)
                    yield Question(f"joint/K={K}/{name}/{next(iter(goal), 'default')}/{i}", ask, "local")
        cost = Cost(np.linspace(0.5, 2.0, D))
        ask = partial(invert, model(K, D, names=K < 100), x, {every[0], every[1]}, joint=True, cost=cost)
        yield Question(f"joint/K={K}/scale", ask, "local")


def paths() -> Iterator[Question]:
    """All answers along λ, and those between."""
    lams = [10.0, 0.5, 0.03, 0.001]
    for K, D in ((2, 3), (3, 2), (4, 6), (10, 12), (400, 420), (450, 20)):
        m = model(K, D, names=K < 100, spread=0.2 if K == 400 else 1.0)
        for kind, target in {"label": labels(K)[1], "None": None, "other": "other"}.items():
            x = sources(1, D, "path", K, kind)[0]
            yield Question(f"paths/K={K},D={D}/{kind}", partial(_along, m, x, target, lams))
        if K < 400:
            for backend in ("reference", "cpu"):
                ask = partial(path, m, sources(1, D, "path", K, "label")[0], labels(K)[1], lams=lams, backend=backend)
                yield Question(f"paths/K={K},D={D}/{backend}", ask)
            ask = partial(path, m, x, labels(K)[0], lams=lams, cost=Cost(np.linspace(0.5, 2.0, D)))
            yield Question(f"paths/K={K},D={D}/scale", ask)
    yield Question("paths/default", partial(path, model(3, 4), sources(1, 4, "path")[0], "b"))
    yield Question("paths/one lam", partial(path, model(3, 4), sources(1, 4, "path")[0], "b", lams=0.3))
    yield Question("paths/opposite", partial(path, model(2, 4), sources(1, 4, "path")[0], "opposite", lams=lams))
    row = pd.Series(sources(1, 4, "path")[0], index=[f"f{d}" for d in range(4)])
    yield Question("paths/Series", partial(path, model(3, 4), row, "b", lams=lams))
    yield Question("paths/CSR", partial(path, model(3, 4), sparse.csr_array(row.to_numpy()), "b", lams=lams))
    for K, D in ((2, 6), (4, 5)):
        x = sources(1, D, "path", K)[0]
        for limit, settings in convex(D, x).items():
            target = None if limit in ("box", "l1") else labels(K)[1]
            yield Question(f"paths/limits/K={K}/{limit}", partial(_along, model(K, D), x, target, lams[:3], settings))
        for limit in ("integer", "max_changes=2", "step"):
            ask = partial(_along, model(K, D), x, labels(K)[1], lams[:3], discrete(D, x)[limit])
            yield Question(f"paths/limits/K={K}/{limit}", ask, "grid")


def _along(m: Any, x: Any, target: Any, lams: list[float], settings: dict[str, Any] | None = None) -> Any:
    """A path, and answers between its λ."""
    found = path(m, x, target, lams=lams, **(settings or {}))
    return {"path": found, "at_lam": found.at_lam(0.2), "at_prob": found.at_prob(0.7)}


FAMILIES = (options, plans, joint, paths)
