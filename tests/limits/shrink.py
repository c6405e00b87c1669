"""A smaller problem with the same mistake: features, classes, limits and digits are taken away as long as it is made."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.limits.problem import Problem
from tests.limits.verdict import judge

__all__ = ["shrink"]

DIGITS = (0, 1, 2, 3)
LISTS = ("frozen", "increase", "decrease", "integer")
TRIALS = 400


def shrink(problem: Problem, kind: str, *, time_limit: float = 1.0, trials: int = TRIALS) -> Problem:
    """The smallest that is found of what makes the same kind of mistake."""

    def wrong(smaller: Problem) -> bool:
        try:
            return kind in {v.kind for v in judge(smaller, time_limit=time_limit).verdicts}
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return False  # of the judge's own: what is left makes no sense

    again = True
    while again and trials > 0:
        again = False
        for smaller in _smaller(problem):
            trials -= 1
            if wrong(smaller):
                problem, again = smaller, True
                break
            if trials <= 0:
                break
    return problem


def _smaller(problem: Problem) -> Iterator[Problem]:
    """Simpler ones, the simplest first."""
    D, K = problem.x.size, len(problem.b)
    for d in range(D):
        if D > 1:
            yield _without_feature(problem, d)
    for k in range(K):
        if K > 2 and k != problem.target:
            keep = np.arange(K) != k
            yield replace(problem, A=problem.A[keep], b=problem.b[keep], target=problem.target - (k < problem.target))
    if problem.max_changes is not None:
        yield replace(problem, max_changes=None)
    yield from _fewer_limits(problem)
    yield from _simpler_costs(problem)
    for digits in DIGITS:
        yield from _rounded(problem, digits)


def _fewer_limits(problem: Problem) -> Iterator[Problem]:
    for key, value in problem.actions.items():
        yield replace(problem, actions={k: v for k, v in problem.actions.items() if k != key})
        if len(value) > 1:
            for i in value if isinstance(value, dict) else range(len(value)):
                rest = (
                    {k: v for k, v in value.items() if k != i}
                    if isinstance(value, dict)
                    else [v for j, v in enumerate(value) if j != i]
                )
                yield replace(problem, actions={**problem.actions, key: rest})
    for d, (low, high) in problem.actions.get("bounds", {}).items():
        for pair in ((None, high), (low, None)):
            if pair not in ((low, high), (None, None)):
                yield replace(problem, actions={**problem.actions, "bounds": {**problem.actions["bounds"], d: pair}})


def _simpler_costs(problem: Problem) -> Iterator[Problem]:
    cost, D = problem.cost, problem.x.size
    if cost is None:
        return
    yield replace(problem, cost=None)
    for name in ("l1", "scale"):
        if name in cost and len(cost) > 1:
            yield replace(problem, cost={k: v for k, v in cost.items() if k != name})
    if "matrix" in cost and cost["matrix"] != np.eye(D).tolist():
        yield replace(problem, cost={**cost, "matrix": np.eye(D).tolist()})


def _without_feature(problem: Problem, d: int) -> Problem:
    keep = np.arange(problem.x.size) != d

    def place(e: int) -> int:
        return e - (e > d)

    actions: dict[str, Any] = {
        key: [place(e) for e in problem.actions[key] if e != d] for key in LISTS if key in problem.actions
    }
    for key in ("bounds", "step"):
        if key in problem.actions:
            actions[key] = {place(e): v for e, v in problem.actions[key].items() if e != d}
    groups = [[place(e) for e in group if e != d] for group in problem.actions.get("one_of", ())]
    actions["one_of"] = [group for group in groups if len(group) > 1]
    rules = [({place(e): v for e, v in row.items() if e != d}, *rest) for row, *rest in problem.actions.get("linear", ())]
    actions["linear"] = [rule for rule in rules if rule[0]]
    cost = problem.cost
    if cost is not None:
        cost = {key: np.array(v)[keep].tolist() for key, v in cost.items() if key != "matrix"}
        if "matrix" in problem.cost:
            cost["matrix"] = np.array(problem.cost["matrix"])[np.ix_(keep, keep)].tolist()
    actions = {key: value for key, value in actions.items() if value}
    return replace(problem, A=problem.A[:, keep], x=problem.x[keep], actions=actions, cost=cost)


def _rounded(problem: Problem, digits: int) -> Iterator[Problem]:
    """All numbers, then some of them, to so many digits."""

    def numbers(v: Any) -> Any:
        if isinstance(v, (list, tuple)):
            return type(v)(map(numbers, v))
        if isinstance(v, dict):
            return {key: numbers(value) for key, value in v.items()}
        return round(v, digits) + 0.0 if isinstance(v, float) else v

    parts: dict[str, Callable[[], Any]] = {
        "A": lambda: np.round(problem.A, digits) + 0.0,
        "b": lambda: np.round(problem.b, digits) + 0.0,
        "x": lambda: np.round(problem.x, digits) + 0.0,
        "actions": lambda: {key: v if key == "step" else numbers(v) for key, v in problem.actions.items()},
        "cost": lambda: numbers(problem.cost),
    }
    made = {name: make() for name, make in parts.items()}
    for names in (tuple(parts), *((name,) for name in parts)):
        changed = {name: made[name] for name in names if not _same(made[name], getattr(problem, name))}
        if changed:
            yield replace(problem, **changed)
    if problem.goal != "prob" and round(problem.want, digits) not in (problem.want, 0.0):
        yield replace(problem, want=round(problem.want, digits))
    for want in (0.5, 0.8, 0.9, 0.99):
        if problem.goal == "prob" and problem.want not in (0.5, 0.8, 0.9, 0.99):
            yield replace(problem, want=want)


def _same(one: Any, other: Any) -> bool:
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
