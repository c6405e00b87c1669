"""Whether what a record of an answer claims is false, by the judge's own arithmetic: nothing of the library's is asked.

What was asked for is taken as given, and so is what nobody claims: which version wrote the record, how many iterations and
nodes it took, λ where a probability was asked for, and the multipliers (evidence is better or worse, not true or false).
"""

import math
from typing import Any

import numpy as np

from tests.limits.problem import Limits, Problem
from tests.limits.truth import truth

__all__ = ["lie"]

NEAR = 1e-9  # relative: claims of the same number; what rounding makes of x is allowed besides
BOUND = 1e-8  # relative: a bound above what a point costs
FLAGS = ("frozen", "increase", "decrease")
REACHED = ("EXACT", "CONVERGED", "STOPPED")


class MalformedError(Exception):
    """Something in a record is not of the kind that the format says."""


def lie(record: dict[str, Any], model: Any) -> str:
    """The first claim that is false, in words; "malformed: …" where it is not written as the format says; "" for none."""
    try:
        with np.errstate(all="ignore"):
            return next(iter(_lies(record, model)), "")
    except MalformedError as error:
        return f"malformed: {error}"
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        return f"malformed: {type(error).__name__}: {error}"


def _lies(record: dict[str, Any], model: Any) -> Any:
    problem = _problem(record, model)
    told, certificate, goal = record["result"], record["certificate"], problem.goal
    x, limits = np.array(_numbers(record["x"], problem.x.size)), Limits(problem)
    status, limited = told["status"], record["limits"] is not None
    yield from _point(record, problem, limits, x)
    known = truth(problem)
    slip = 2 * problem.rounding(x) + (problem.rounding(known.point) if known.point is not None else 0.0)
    value, gap, bound = problem.value(x), _number(certificate["gap"], spelled=True), _number(certificate["bound"], spelled=True)
    best = _number(certificate["best_bound"], spelled=True)
    if status not in (*REACHED, "MAX_ITER", "UNREACHABLE"):
        yield f"there is no answer with status {status}"
    if status == "UNREACHABLE":
        if goal == "lam" or (known.reachable and known.firm):
            yield "it is within reach"
        elif (
            known.firm and goal == "prob" and known.largest is not None and best < known.largest - NEAR * min(known.largest, 1)
        ):
            yield f"nothing is above {best!r}, but a point has {known.largest!r}"
        return
    if not gap >= 0:
        yield f"the gap is {gap!r}"
    if known.reachable and known.firm:
        if limited and not bound <= known.least * (1 + BOUND) + slip:
            yield f"nothing is below {bound!r}, but a point costs {known.least!r}"
        if limited and not abs(value - gap - bound) <= NEAR * (1 + abs(value)):
            yield f"bound and gap do not fit: {bound!r} + {gap!r} for {value!r}"
        rounding = known.weight * 8 * (problem.logit_error(x) + problem.p_error)
        if status in ("EXACT", "CONVERGED") and value > known.least * (1 + 1e-7) + slip + rounding + (gap if limited else 0.0):
            yield f"{status} at {value!r}, but a point has {known.least!r}"
    error = _number(certificate["error_bound"], spelled=True)
    if known.whole and known.point is not None and known.choices <= 1 and status == "EXACT" and not math.isnan(error):
        off = float(np.linalg.norm((x - known.point) * np.sqrt(np.diag(problem.price[0]))))
        if off > error + 1e-4 * (1 + float(np.linalg.norm(x))):
            yield f"the optimum is said to be {error!r} away, and is {off:.3g}"


def _point(record: dict[str, Any], problem: Problem, limits: Limits, x: np.ndarray) -> Any:
    """What is said of x itself."""
    told, status = record["result"], record["result"]["status"]
    if broken := limits.wrong or limits.broken(x):
        yield f"a limit is broken: {broken}"
    short = problem.short(x)
    if problem.goal != "lam" and status in REACHED and short > problem.logit_error(x) + problem.p_error:
        yield f"the goal is missed by {short:.3g}"
    if problem.goal != "lam" and status == "UNREACHABLE" and short < -problem.logit_error(x) - problem.p_error:
        yield "x itself reaches it"
    z = problem.A @ x + problem.b
    p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    slip = problem.logit_error(x) + NEAR
    for claimed, found in zip(_numbers(told["proba"], len(p)), p, strict=True):
        if not abs(claimed - found) <= 2 * slip * found:
            yield f"a probability is {found!r}, not {claimed!r}"
    Q, w = problem.price
    change = x - problem.x
    square, sparse, loss = float(change @ Q @ change), float(w @ np.abs(change)), problem.loss(x)
    unweighed = told["lam"] is None and told["objective"] is None and problem.goal != "lam"  # of a search for a goal
    lam = math.inf if unweighed else _number(told["lam"], spelled=True)
    if not lam > 0 or (problem.goal == "lam" and lam != problem.want):
        yield f"λ is {lam!r}"
    whole = loss if math.isinf(lam) else 0.5 * lam * square + (1.0 if problem.goal == "lam" else lam) * sparse + loss
    facts = {"distance": math.sqrt(square), "cost": 0.5 * square + sparse, "objective": 0.5 * square + sparse}
    facts |= {} if problem.goal == "margin" else {"objective": whole}
    if unweighed:
        del facts["objective"]
    for name, found in facts.items():
        off = abs(_number(told[name], spelled=True) - found)
        if not off <= 10 * NEAR * (abs(found) + (1 + (0.0 if math.isinf(lam) else lam)) * problem.rounding(x) + 1e-9):
            yield f"{name} is {found!r}, not {told[name]!r}"
    yield from _changes(record, problem, x)


def _changes(record: dict[str, Any], problem: Problem, x: np.ndarray) -> Any:
    """The list of changes; a group has its columns' names, and is left out here."""
    names = record["features"] or [str(d) for d in range(x.size)]
    grouped = {name for group in (record["limits"] or {"one_of": []})["one_of"] for name in group}
    listed = {name: (before, after) for name, before, after in record["changes"]}
    for name, before, after in zip(names, problem.x.tolist(), x.tolist(), strict=True):
        if name not in grouped and (before != after or name in listed) and listed.get(name) != (before, after):
            yield f"{name} goes from {before!r} to {after!r}, and is listed as {listed.get(name)!r}"
    if len(listed) != len(record["changes"]) or (not grouped and set(listed) - set(names)):
        yield "changes are listed that are none"


# ---- reading ----


def _number(v: Any, *, spelled: bool = False, whole: bool = False) -> float:
    """A number; "inf" and "nan" only where the format spells them."""
    if spelled and v in ("inf", "-inf", "nan"):
        return float(v)
    if isinstance(v, bool) or not isinstance(v, int if whole else (int, float)) or not math.isfinite(v):
        raise MalformedError(f"{v!r} is no number")
    return v if whole else float(v)


def _numbers(values: Any, n: int) -> list[float]:
    if not isinstance(values, list) or len(values) != n:
        raise MalformedError(f"{n} numbers were expected; got {str(values)[:60]}")
    return [_number(v) for v in values]


def _strings(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise MalformedError(f"names were expected; got {str(values)[:60]}")
    return values


def _keys(data: Any, *names: str) -> None:
    if not isinstance(data, dict) or set(data) != set(names):
        raise MalformedError(f"{sorted(names)} were expected; got {str(data)[:80]}")


def _problem(record: dict[str, Any], model: Any) -> Problem:
    """What was asked, read as strictly as the format is written down."""
    D, names = model.n_features, [model.feature_label(d) for d in range(model.n_features)]
    _keys(record["result"], "status", "proba", "lam", "distance", "cost", "objective", "n_nodes")
    _keys(
        record["certificate"],
        "grad_norm",
        "gap",
        "error_bound",
        "bound",
        "multipliers",
        "best_bound",
    )
    if _number(record["result"]["n_nodes"], whole=True) < 0:
        raise MalformedError(f"n_nodes is {record['result']['n_nodes']!r}")
    for v in (*record["certificate"]["multipliers"], record["certificate"]["grad_norm"]):
        _number(v, spelled=True)
    ((goal, want),) = record["asked"].items()
    target = [str(label) for label in model.classes.tolist()].index(str(record["target"]))
    actions, most = _limits(record["limits"], names) if record["limits"] is not None else ({}, None)
    cost = None
    if record["cost"] is not None:
        _keys(record["cost"], "per_unit", "l1", "matrix")
        l1 = record["cost"]["l1"]
        cost = {"l1": 0.0 if l1 == 0 and isinstance(l1, int) and not isinstance(l1, bool) else _numbers(l1, D)}
        if record["cost"]["matrix"] is not None:
            cost["matrix"] = [_numbers(row, D) for row in record["cost"]["matrix"]]
            if record["cost"]["per_unit"] is not None:
                raise MalformedError("per_unit beside a matrix")
        else:
            cost["scale"] = _numbers(record["cost"]["per_unit"], D)
    x = np.array(_numbers(record["source"], D))
    return Problem(np.array(model.A), np.array(model.b), x, target, goal, _number(want), actions, cost, most)


def _limits(data: dict[str, Any], names: list[str]) -> tuple[dict[str, Any], int | None]:
    _keys(data, *FLAGS, "bounds", "step", "uneven", "one_of", "linear", "max_changes")
    place = {name: d for d, name in enumerate(names)}
    actions: dict[str, Any] = {name: [place[feature] for feature in _strings(data[name])] for name in FLAGS}
    if not (isinstance(data["one_of"], list) and isinstance(data["linear"], list)):
        raise MalformedError("one_of and linear are lists")
    actions["bounds"] = {}
    for feature, (low, high) in data["bounds"].items():
        pair = tuple(None if v is None else _number(v) for v in (low, high))
        actions["bounds"][place[feature]] = pair
    actions["step"] = {place[feature]: _number(v) for feature, v in data["step"].items()}
    if any(v <= 0 for v in actions["step"].values()):
        raise MalformedError(f"steps are {data['step']}")
    actions["one_of"] = [[place[feature] for feature in _strings(group)] for group in data["one_of"]]
    grouped = {d for group in actions["one_of"] for d in group}
    actions["step"] = {d: v for d, v in actions["step"].items() if d not in grouped}
    actions["linear"] = []
    for row, sense, rest in data["linear"]:
        if sense not in ("<=", "=="):
            raise MalformedError(f"a rule has {sense!r}")
        actions["linear"].append(({place[feature]: _number(v) for feature, v in row.items()}, sense, _number(rest)))
    most = data["max_changes"]
    return {key: value for key, value in actions.items() if value}, None if most is None else int(_number(most, whole=True))
