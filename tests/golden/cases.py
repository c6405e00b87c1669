"""Problems of which the truth is known by enumeration: those beside the checkout, and random ones of the same recipe."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ifonly import Actions, Cost, Model, invert
from tests.golden.models import rng_of
from tests.golden.questions import Question
from tests.golden.truth import Problem

__all__ = ["CASES", "FAMILIES"]

N_RANDOM = 400
SLOW = (26, 68, 136, 230, 328, 362)  # a part of a second or more each, of a search that is right
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "limits.json"


def ask(problem: Problem, *, table: bool = False, **options: Any) -> Any:
    """The problem's question, for one source or a table of one row."""
    k = problem.among[0] if len(problem.among) == 1 else set(problem.among)
    limits = {"actions": problem.actions, "cost": problem.cost, "max_changes": problem.max_changes}
    x = problem.x[None] if table else problem.x
    return invert(Model(problem.A, problem.b), x, k, **problem.goal, **limits, **options)


def cases() -> Iterator[Question]:
    """The problems beside the checkout, which are read, not copied."""
    if not CASES.exists():
        yield Question("cases/absent", lambda: None, needs="cases")
        return
    for i, case in enumerate(json.loads(CASES.read_text(encoding="utf-8"))):
        given = {key: value for key, value in case["actions"].items() if key not in ("bounds", "step", "linear")}
        for name in ("bounds", "step"):
            if case["actions"].get(name):
                given[name] = {int(d): value for d, value in case["actions"][name].items()}
        rules = case["actions"].get("linear") or ()
        given["linear"] = [({int(d): v for d, v in rule.items()}, sense, rest) for rule, sense, rest in rules]
        arrays = (np.array(case[name], dtype=float) for name in ("A", "b", "x"))
        cost = None if case["cost"] is None else Cost(**case["cost"])
        problem = Problem(*arrays, (case["target"],), case["question"], Actions(**given), cost, case["max_changes"])
        known = {name: case[name] for name in ("reachable", "least", "largest_p")}
        yield Question(f"cases/{i:02}", partial(ask, problem), needs="cases", problems=(problem,), known=(known,))


def enumerated() -> Iterator[Question]:
    """Random ones of every kind: sources off their grids and outside their bounds, rules that just hold, groups."""
    for i in range(N_RANDOM):
        if i in SLOW:
            continue
        problem = random_problem(rng_of("enumerated", i))
        how = {"table": i % 4 == 3, "backend": ("auto", "reference", "cpu")[i % 3]}
        yield Question(f"enumerated/{i:03}", partial(ask, problem, **how), like="truth", problems=(problem,))


def random_problem(rng: np.random.Generator) -> Problem:
    """A small problem with limits of every kind at random; what is discrete has few values."""
    K, D = int(rng.choice([2, 2, 3, 4, 5, 6])), int(rng.integers(2, 9))
    A, b = (rng.normal(size=(K, D)) * 10 ** rng.uniform(-0.5, 0.5)).round(4), rng.normal(size=K).round(4)
    x = (2 * rng.normal(size=D)).round(3)
    order = rng.permutation(D).tolist()
    groups = []
    while rng.random() < 0.3 and len(order) >= 3 and len(groups) < 2:
        groups.append(sorted(order.pop() for _ in range(2 + (len(order) > 4 and rng.random() < 0.4))))
        x[groups[-1]] = 0.0
        x[rng.choice(groups[-1])] = 1.0
    given: dict[str, Any] = {name: [] for name in ("frozen", "increase", "decrease", "integer")}
    bounds, step = {}, {}
    for d in order:
        kind = rng.choice(["free", "bounded", "frozen", "increase", "decrease", "integer", "step"], p=[0.3, 0.2, *[0.1] * 5])
        if kind in given and kind != "integer":
            given[kind].append(d)
        if kind == "bounded":
            low, high = np.sort(x[d] + rng.normal(size=2) * 2).round(2).tolist()
            bounds[d] = [(low, high), (low, None), (None, high)][rng.integers(3)]
        if kind in ("integer", "step") and len(step) + len(given["integer"]) < 3:
            size = 1.0 if kind == "integer" else float(rng.choice([0.1, 0.25, 0.3, 0.5]))
            below, above = rng.integers(1, 4, size=2) * size
            middle = np.round(x[d] / size) * size
            x[d] = round(float(middle + rng.choice([0.0, 0.0, 0.0, 0.4, 3.0]) * size), 6)  # on the grid, off it, beyond its end
            bounds[d] = (round(float(middle - below), 6), round(float(middle + above), 6))
            if kind == "integer":
                given["integer"].append(d)
            else:
                step[d] = size
    rules = []
    for _ in range(rng.choice([0, 0, 1, 2])):
        used = rng.choice(D, size=min(D, int(rng.integers(1, 4))), replace=False).tolist()
        row = {d: float(rng.choice([-1.1, -0.7, -0.3, 0.4, 0.5, 1.0, 1.3])) for d in used}
        now, sense = sum(v * x[d] for d, v in row.items()), str(rng.choice(["<=", ">=", "=="], p=[0.45, 0.45, 0.1]))
        slack = 0.0 if sense == "==" else float(rng.choice([0.0, 0.5, -0.2])) * (1 if sense == "<=" else -1)
        rules.append((row, sense, float(now + slack)))
    actions = Actions(**given, bounds=bounds or None, step=step or None, one_of=groups, linear=rules)
    max_changes = None if rng.random() < 0.6 else int(rng.integers(0, D + 1))
    goals = [{"prob": float(rng.choice([0.3, 0.5, 0.6, 0.9, 0.99]))}, {"lam": round(10 ** rng.uniform(-2, 1), 4)}]
    goal = [*goals, {"margin": float(rng.choice([0.0, 0.5, 1.0]))}][rng.choice(3, p=[0.5, 0.25, 0.25])]
    return Problem(A, b, x, (int(rng.integers(K)),), goal, actions, random_cost(rng, D), max_changes)


def random_cost(rng: np.random.Generator, D: int) -> Cost | None:
    """Euclidean, with scales, with ℓ1, or with a matrix."""
    kind, price = rng.integers(4), np.exp(rng.normal(size=D)).round(3)
    l1 = (rng.exponential(size=D) * (rng.random(D) < 0.5)).round(3)
    root = rng.normal(size=(D, D)) + 2 * np.eye(D)
    return [None, Cost(scale=price), Cost(scale=price, l1=l1), Cost(matrix=(root.T @ root / D).round(4))][kind]


FAMILIES = (cases, enumerated)
