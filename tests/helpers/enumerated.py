"""Small problems all of whose points can be listed: limits by their definitions, values by the formulas of the books.

Nothing here asks `Choices`, `Dual` or an engine what is allowed, or what it is worth.
"""

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler

from helpers.limited_problems import COSTS, a_cost
from ifonly import Actions, Cost, Model, Scaling, as_model, invert
from ifonly.problem.conditions import Conditions
from ifonly.problem.dual import Goal
from ifonly.problem.exactly import Exactly
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.proof import MOVES, STAYS, Cut, Node

NEAR = 1e-12  # values of bent columns are computed twice, and may differ in their last digit


@dataclass(frozen=True)
class Listed:
    """A problem, and all points that its limits allow (rules and the largest number of changes included)."""

    problem: LimitedProblem
    values: list[list[float]]  # of each feature by itself; of a group's columns 0 and 1
    items: list[list[int]]
    points: np.ndarray  # (N, D)
    estimator: Any = None  # of a bent column: what a user has
    row: Any = None

    def answer(self, goal: Goal, **more: Any) -> Any:
        """What `invert` says."""
        conditions, model = self.problem.conditions, self.problem.model
        options = {"cost": conditions.cost, "actions": conditions.actions, "max_changes": conditions.max_changes, **more}
        what: dict[str, Any] = {"lam": goal.lam} if goal.lam is not None else {"margin": goal.margin}
        if goal.top is not None:
            what = {"prob": 1 / (1 + float(np.exp(goal.top)))}
        if self.estimator is not None:
            return invert(self.estimator, self.row, model.label(self.problem.k), **what, **options)
        hard = Model(model.A, model.b, scaling=model.scaling, hard=goal.margin is not None)
        return invert(hard, self.problem.source, self.problem.k, **what, **options)

    @property
    def changed(self) -> np.ndarray:
        """Which items differ from the source, (N, items)."""
        moved = self.points != self.problem.source
        found = [[row[item].any() for item in self.items] for row in moved]
        return np.array(found, dtype=bool).reshape(len(moved), len(self.items))

    def within(self, node: Node) -> np.ndarray:
        """Which points are of a node, (N,)."""
        inside = ((node.lo - NEAR <= self.points) & (self.points <= node.hi + NEAR)).all(axis=1)
        changed, state = self.changed, node.state
        inside &= ~(changed & (state == STAYS)).any(axis=1)
        most = self.problem.conditions.max_changes
        return inside & ((changed | (state == MOVES)).sum(axis=1) <= (len(self.items) if most is None else most))

    @property
    def margins(self) -> np.ndarray:
        """s of all points, (N, rivals)."""
        problem, model = self.problem, self.problem.model
        scale, shift = (1.0, 0.0) if model.scaling is None else (model.scaling.scale, model.scaling.shift)
        z = ((self.points - shift) / scale) @ model.A.T + model.b
        return z[:, problem.rivals] - z[:, [problem.k]]

    @property
    def costs(self) -> tuple[np.ndarray, np.ndarray]:
        """½‖Δ‖²_Q and Σμc|Δ| of all points."""
        conditions, change = self.problem.conditions, self.points - self.problem.source
        Q = np.diag(conditions.per_unit**2) if conditions.matrix is None else conditions.matrix
        return 0.5 * np.einsum("nd,de,ne->n", change, Q, change), np.abs(change) @ (conditions.mu * conditions.per_unit)

    def missed(self, goal: Goal) -> np.ndarray:
        """By how much each point misses the goal; at most 0 where it meets it."""
        s = self.margins
        if goal.margin is not None:
            return s.max(axis=1) + goal.margin
        return np.logaddexp.reduce(s, axis=1) - (0.0 if goal.top is None else goal.top)

    def worth(self, goal: Goal) -> np.ndarray:
        """What is minimised at each point; infinite where the goal is missed."""
        square, sparse = self.costs
        if goal.lam is not None:
            return goal.lam * square + sparse + np.logaddexp(0.0, np.logaddexp.reduce(self.margins, axis=1))
        return np.where(self.missed(goal) <= 0, square + sparse, np.inf)

    def least(self, node: Node, goal: Goal) -> float:
        """The least of a node; infinite where no point of it meets the goal."""
        return float(self.worth(goal)[self.within(node)].min(initial=np.inf))

    def in_digits(self, x: np.ndarray, goal: Goal) -> mp.mpf:
        """What is minimised at x in 60 digits (inside `mp.workdps(60)`)."""
        problem, conditions, model = self.problem, self.problem.conditions, self.problem.model
        number = lambda v: mp.mpf(float(v))  # noqa: E731
        change = [number(a) - number(b) for a, b in zip(x, problem.source, strict=True)]
        c, mu, D = conditions.per_unit, conditions.mu, len(x)
        if conditions.matrix is None:
            square = mp.fsum((number(c[d]) * change[d]) ** 2 for d in range(D))
        else:
            square = mp.fsum(change[i] * number(conditions.matrix[i, j]) * change[j] for i in range(D) for j in range(D))
        value = square / 2 * number(1.0 if goal.lam is None else goal.lam)
        value += mp.fsum(number(mu[d]) * number(c[d]) * abs(change[d]) for d in range(D))
        if goal.lam is None:
            return value
        scaling = model.scaling
        seen = [number(v) for v in x]
        if scaling is not None:
            seen = [(v - number(a)) / number(b) for v, a, b in zip(seen, scaling.shift, scaling.scale, strict=True)]
        z = [mp.fdot([number(v) for v in row], seen) + number(b) for row, b in zip(model.A, model.b, strict=True)]
        return value + mp.log(mp.fsum(mp.exp(v - z[problem.k]) for v in z))

    # ---- nodes ----

    def a_cut(self, rng: np.random.Generator, node: Node) -> Cut | None:
        """One that leaves nothing out, about something that is still open; None where there is none left."""
        found = []
        for d, values in enumerate(self.values):
            if any(d in item for item in self.items if len(item) > 1):
                continue
            left = [v for v in values if node.lo[d] - NEAR <= v <= node.hi[d] + NEAR]
            found += [Cut("value", d, below, above) for below, above in itertools.pairwise(left)]
        found += [Cut("move", i) for i in np.flatnonzero(node.state == 0).tolist()]
        groups = self.problem.conditions.limits.groups
        found += [Cut("option", j, options=(o,)) for j, g in enumerate(groups) for o in range(len(g)) if node.hi[g[o]] > 0]
        return found[int(rng.integers(len(found)))] if found else None


def a_goal(rng: np.random.Generator, listed: Listed) -> Goal:
    """One of each kind; where a point is asked for, about as far as the points go."""
    kind = rng.choice(["lam", "prob", "margin"])
    if kind == "lam":
        return Goal(lam=float(10 ** rng.uniform(-2, 1)))
    s = listed.margins if len(listed.points) else np.zeros((1, len(listed.problem.rivals)))
    if kind == "margin":
        return Goal(margin=float(-np.quantile(s.max(axis=1), rng.uniform()) + rng.normal() * 0.1))
    return Goal(top=float(np.quantile(np.logaddexp.reduce(s, axis=1), rng.uniform()) + rng.normal() * 0.1))


# ---- problems ----


def _grid(rng: np.random.Generator, d: int, limits: dict[str, Any]) -> tuple[float, list[float]]:
    """A source's value and all allowed ones, of a feature on a grid; the limits that say so are added."""
    up, down = [(1, 1), (1, 4), (1, 10), (5, 2), (3, 1)][int(rng.integers(5))]
    first, n = int(rng.integers(-3, 3)), int(rng.integers(2, 6))
    steps = np.arange(first, first + n)
    values = [float(i * up / down) for i in steps.tolist()]
    if (up, down) == (1, 1):
        limits.setdefault("integer", []).append(d)
    else:
        limits.setdefault("step", {})[d] = up / down
    inside = float(rng.choice(values))
    source = float(np.round(inside + float(rng.choice([0.0, 0.0, 0.0, 0.4, -3.0, 3.0])) * up / down, 6))
    limits["bounds"][d] = (values[0] - 0.2 * up / down, values[-1])
    if values[0] <= source <= values[-1]:
        way = rng.choice(["free", "free", "increase", "decrease", "frozen"], p=[0.3, 0.3, 0.15, 0.15, 0.1])
        if way == "frozen":
            values = [source]
        elif way == "increase":
            values = [v for v in values if v >= source]
        elif way == "decrease":
            values = [v for v in values if v <= source]
        if way != "free":
            limits.setdefault(str(way), []).append(d)
    return source, values


def a_listed(rng: np.random.Generator, *, rules: bool = True) -> Listed:
    """Grids, groups, one rule, few changes, any cost; two to four classes."""
    limits: dict[str, Any] = {"bounds": {}}
    singles, size = int(rng.integers(1, 4)), int(rng.choice([0, 2, 3]))
    source, values = [], []
    for d in range(singles):
        v, allowed = _grid(rng, d, limits)
        source.append(v)
        values.append(allowed)
    groups = []
    if size:
        group = list(range(singles, singles + size))
        groups, limits["one_of"] = [group], [group]
        now = int(rng.integers(size))
        source += [float(o == now) for o in range(size)]
        options = list(range(size))
        if rng.random() < 0.3:
            options.remove(int(rng.integers(size)))
        for o in set(range(size)) - set(options):
            limits["bounds"][group[o]] = (0, 0)
        values += [[0.0, 1.0] if o in options else [0.0] for o in range(size)]
    D, x = len(source), np.array(source)
    if rules and rng.random() < 0.5:
        row = np.zeros(D)
        row[:singles] = rng.integers(-2, 3, size=singles)
        if row.any():
            sense = str(rng.choice(["<=", ">=", "=="]))
            rest = float(row @ np.array([float(rng.choice(v)) for v in values]))
            rest += {"<=": 0.03, ">=": -0.03, "==": 0.0}[sense]  # no point on the very edge: whether it is in is up to rounding
            limits["linear"] = [({d: float(v) for d, v in enumerate(row) if v}, sense, rest)]
    K = int(rng.integers(2, 5))
    scaling = Scaling(rng.normal(size=D), rng.uniform(0.3, 3, D)) if rng.random() < 0.3 else None
    model = Model(rng.normal(size=(K, D)), rng.normal(size=K), scaling=scaling)
    cost = a_cost(rng, D, str(rng.choice(COSTS))) or Cost()
    items = [[d] for d in range(singles)] + groups
    most = None if rng.random() < 0.5 else int(rng.integers(0, len(items) + 1))
    conditions = Conditions(model, cost, Actions(**limits), most)
    return _listed(LimitedProblem(conditions, x, int(rng.integers(K))), values, items)


def _listed(problem: LimitedProblem, values: list[list[float]], items: list[list[int]]) -> Listed:
    """Every combination that is allowed."""
    conditions, source = problem.conditions, problem.source
    most = len(items) if conditions.max_changes is None else conditions.max_changes
    rows = []
    for point in itertools.product(*values):
        x = np.array(point)
        one_hot = all(x[item].sum() == 1 for item in items if len(item) > 1)
        few = sum(bool((x != source)[item].any()) for item in items) <= most
        if one_hot and few and all(_keeps(x, *rule) for rule in conditions.actions.linear):
            rows.append(x)
    return Listed(problem, values, items, np.array(rows).reshape(len(rows), len(source)))


def _keeps(x: np.ndarray, row: dict[int, float], sense: str, rest: float) -> bool:
    value = sum(v * x[d] for d, v in row.items())
    return {"==": abs(value - rest) <= NEAR * (1 + abs(rest)), "<=": value <= rest, ">=": value >= rest}[sense]


# ---- numbers at uneven distances ----


@cache
def bent(K: int) -> tuple[Any, np.ndarray]:
    """A pipeline of a logarithm, a plain number and quantiles with ties, and the rows that it was fitted to."""
    rng = np.random.default_rng(K)
    X = np.column_stack([rng.integers(0, 8, 400), rng.normal(size=400).round(2), rng.integers(0, 5, 400) ** 2]).astype(float)
    score = np.log1p(X[:, 0]) + X[:, 1] + 0.1 * X[:, 2] + rng.normal(size=400)
    y = np.digitize(score, np.quantile(score, np.arange(1, K) / K))
    columns = make_column_transformer(
        (FunctionTransformer(np.log1p, inverse_func=np.expm1), [0]),
        (StandardScaler(), [1]),
        (QuantileTransformer(n_quantiles=40), [2]),
    )
    return make_pipeline(columns, LogisticRegression()).fit(X, y), X


def an_uneven(rng: np.random.Generator) -> Listed:
    """A problem with a bent column of whole numbers, a column of quantiles, and a number on a grid."""
    K = int(rng.integers(2, 5))
    estimator, X = bent(K)
    model = as_model(estimator)
    row = X[int(rng.integers(len(X)))].copy()
    off = rng.random() < 0.3
    row[0] += 0.5 * off  # no whole number: it cannot stay
    row[1] = float(np.round(row[1]))
    seen = estimator[0].transform(row[None])[0]
    source = np.array([seen[0], row[1], seen[2]])
    low, high = int(rng.integers(0, 3)), int(rng.integers(4, 8))
    bounds = {"x0": (low, high), "x1": (-2, 2)}
    knots = np.unique(estimator[0].named_transformers_["quantiletransformer"].quantiles_[:, 0])
    made = np.tile(row, (len(knots), 1))
    made[:, 2] = knots
    quantiles = sorted({float(source[2]), *estimator[0].transform(made)[:, 2].tolist()})
    values = [[float(np.log1p(n)) for n in range(low, high + 1)], [-2.0, -1.0, 0.0, 1.0, 2.0], quantiles]
    cost = Cost(scale=rng.uniform(0.3, 3.0, 3), l1=rng.uniform(0, 0.4, 3) * (rng.random() < 0.5))
    most = None if rng.random() < 0.5 else int(rng.integers(1, 4))
    conditions = Conditions(model, cost, Actions(integer=["x0", "x1"], bounds=bounds), most)
    listed = _listed(LimitedProblem(conditions, source, int(rng.integers(K))), values, [[0], [1], [2]])
    return replace(listed, estimator=estimator, row=row)


MAKERS = {"grids": a_listed, "uneven": an_uneven}


def drawn(kind: str, *seed: int) -> tuple[np.random.Generator, Listed]:
    """A problem of one of these kinds, and the numbers that come after it."""
    rng = np.random.default_rng(seed)
    return rng, MAKERS[kind](rng)


def in_fractions(problem: LimitedProblem, goal: Goal) -> Exactly:
    """The checker in fractions, of a goal as floats have it."""
    found = Exactly(problem.conditions, problem.source, problem.k, lam=goal.lam, margin=goal.margin)
    found.top = None if goal.top is None else Fraction(goal.top)
    return found
