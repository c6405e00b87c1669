"""Random small problems with a cost and limits, the same ones for every test that wants some."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly import Actions, Cost, InputError, Model, Scaling, invert
from ifonly.problem.conditions import Conditions

CONTRADICTIONS = ("no point satisfies", "there is no value for it")  # what is said where limits leave nothing


@dataclass(frozen=True)
class Asked:
    """A question: what `ifonly.invert` takes."""

    model: Model
    source: np.ndarray
    k: int
    lam: float | None = None
    prob: float | None = None
    margin: float | None = None
    cost: Cost | None = None
    actions: Actions | None = None
    max_changes: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        names = ("lam", "prob", "margin", "cost", "actions", "max_changes")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def conditions(self) -> Conditions | None:
        if self.cost is None and self.actions is None and self.max_changes is None and self.margin is None:
            return None
        return Conditions(self.model, self.cost or Cost(), self.actions or Actions(), self.max_changes, self.margin)


def a_model(rng, *, hard=False, scaled=None) -> Model:
    K, D = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    A, b = rng.normal(size=(K, D)) * rng.choice([0.3, 1.0, 3.0]), rng.normal(size=K)
    scaling = (
        Scaling(rng.normal(size=D), rng.uniform(0.2, 5, D)) if (rng.random() < 0.3 if scaled is None else scaled) else None
    )
    return Model(A, b, scaling=scaling, hard=hard)


def a_cost(rng, D, kind) -> Cost | None:
    """Of a kind: plain, scale, l1, both, matrix, matrix and l1."""
    l1 = 0.0 if kind in ("plain", "scale", "matrix") else rng.uniform(0.0, 0.4, D) * (rng.random(D) < 0.7)
    if kind.startswith("matrix"):
        root = rng.normal(size=(D, D)) / np.sqrt(D) + np.eye(D)
        return Cost(matrix=root @ root.T, l1=l1)
    scale = rng.uniform(0.3, 3.0, D) if kind in ("scale", "both") else "model"
    return None if kind == "plain" else Cost(scale=scale, l1=l1)


COSTS = ("plain", "scale", "l1", "both", "matrix", "matrix and l1")


def limits(rng, x, *, rules=True) -> dict[str, Any]:
    """Continuous limits that the source keeps, or is a little outside of."""
    D = len(x)
    out: dict[str, Any] = {}
    kinds = rng.choice(["free", "bounds", "one side", "increase", "decrease", "frozen"], D)
    if (kinds == "frozen").all():
        kinds[0] = "bounds"
    wide = rng.uniform(0.05, 2.5, (D, 2))
    bounds = {}
    for d in range(D):
        low, high = float(x[d] - wide[d, 0]), float(x[d] + wide[d, 1])
        if kinds[d] == "bounds":
            off = rng.random() < 0.15
            bounds[d] = (low + 1.5 * float(wide[d, 0]), high + 2 * float(wide[d, 0])) if off else (low, high)
        elif kinds[d] == "one side":
            bounds[d] = (low, None) if rng.random() < 0.5 else (None, high)
    if bounds:
        out["bounds"] = bounds
    for name in ("increase", "decrease", "frozen"):
        if (kinds == name).any():
            out[name] = np.flatnonzero(kinds == name).tolist()
    if rules and rng.random() < 0.6:
        out["linear"] = []
        for _ in range(int(rng.integers(1, 3))):
            row = rng.normal(size=D)
            sense = "==" if rng.random() < 0.3 else "<="
            room = 0.0 if sense == "==" else float(rng.uniform(0, 1))
            out["linear"].append(({d: float(v) for d, v in enumerate(row)}, sense, float(row @ x) + room))
    return out


def an_asked(rng, *, rules=True) -> Asked:
    """A random question with limits that takes no search."""
    goal = rng.choice(["lam", "prob", "margin"], p=[0.4, 0.5, 0.1])
    model = a_model(rng, hard=goal == "margin")
    D = model.n_features
    x = rng.normal(size=D)
    k = int(model.scores(x).argmin())
    what: dict[str, Any] = {"lam": 10 ** rng.uniform(-3, 1)} if goal == "lam" else {"prob": float(rng.uniform(0.3, 0.97))}
    if goal == "margin":
        what = {"margin": float(rng.uniform(0, 1))}
    cost = a_cost(rng, D, rng.choice(COSTS))
    return Asked(model, x, k, cost=cost, actions=Actions(**limits(rng, x, rules=rules)), **what)


def a_solved(rng, make=an_asked) -> tuple[Asked, Any]:
    """A random question and its answer: the first of those whose limits some point satisfies."""
    while True:
        asked = make(rng)
        try:
            return asked, invert(asked.model, asked.source, asked.k, **asked.options)
        except InputError as error:
            if not any(words in str(error) for words in CONTRADICTIONS):
                raise


def a_search(rng) -> Asked:
    """A random question that takes a search: whole numbers, grids, a group, few changes."""
    asked = an_asked(rng, rules=False)
    D, x = asked.model.n_features, np.round(asked.source)
    kind = rng.choice(["integer", "step", "few", "group"])
    more: dict[str, Any] = {}
    few = None
    if kind == "integer":
        more["integer"] = rng.choice(D, int(rng.integers(1, D + 1)), replace=False).tolist()
    elif kind == "step":
        more["step"] = {int(rng.integers(D)): 0.25}
    elif kind == "group":
        more["one_of"] = [[0, 1]]
        x[:2] = [1.0, 0.0]
    else:
        few = int(rng.integers(1, D + 1))
    prob = asked.prob if asked.prob is not None or asked.lam is not None else 0.6
    actions = Actions(bounds=dict.fromkeys(range(2 if kind == "group" else 0, D), (-4, 4)), **more)
    return Asked(
        Model(asked.model.A, asked.model.b), x, asked.k, asked.lam, prob, cost=asked.cost, actions=actions, max_changes=few
    )
