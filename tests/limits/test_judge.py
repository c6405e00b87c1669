"""The judge of random problems is right: about cases that are known, against a simpler search, and about answers made wrong."""

import dataclasses
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from ifonly import Status
from tests.limits import truth as judge_of
from tests.limits.families import FAMILIES, Wish, draw, make
from tests.limits.problem import Limits, Problem
from tests.limits.truth import truth
from tests.limits.verdict import _Held, judge

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "limits.json"
SAME = 1e-7  # relative: goals are tightened by 1e-9
ZOOMS, POINTS, FAR = 11, 21, 60.0
ZOOMED = 1e-6  # relative: how near a search by zooming comes
BROKEN = 1e6  # more than any goal can be missed by


def test_known_cases_have_their_truth():
    if not CASES.exists():
        pytest.skip("needs cases/limits.json in ../shared")
    for i, case in enumerate(json.loads(CASES.read_text(encoding="utf-8"))):
        found = truth(Problem.from_json(case))
        assert found.reachable is case["reachable"], i
        for name, value in (("least", found.least), ("largest_p", found.largest)):
            if case[name] is not None:
                assert value == pytest.approx(case[name], rel=SAME), (i, name)


# ---- a simpler search ----


def grids(problem):
    """Every discrete choice: dicts of values by feature, by counting in plain floating point."""
    actions, x = problem.actions, problem.x
    steps = {**dict.fromkeys(actions.get("integer", ()), 1.0), **actions.get("step", {})}
    parts = []
    for d, step in steps.items():
        if d in actions.get("frozen", ()):
            continue
        low, high = actions["bounds"][d]
        low = max(low, x[d]) if d in actions.get("increase", ()) else low
        high = min(high, x[d]) if d in actions.get("decrease", ()) else high
        values = [n * step for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
        parts.append([{d: x[d] if abs(v - x[d]) < 1e-9 else v} for v in values])
    parts += [[{d: float(d == one) for d in group} for one in group] for group in actions.get("one_of", ())]
    for choice in itertools.product(*parts):
        yield {d: v for part in choice for d, v in part.items()}


def worth(problem, limits, X):
    """(how far from the goal and the rules, value) of points X."""
    Q, w = problem.price
    Z, change = X @ problem.A.T + problem.b, X - problem.x
    s = np.delete(Z - Z[..., [problem.target]], problem.target, axis=-1)
    level = s.max(axis=-1) if problem.goal == "margin" else np.logaddexp.reduce(s, axis=-1)
    square, sparse = np.einsum("...d,de,...e->...", change, Q, change) / 2, np.abs(change) @ w
    if problem.goal == "lam":
        miss, value = np.zeros_like(level), problem.want * square + sparse + np.logaddexp(level, 0)
    else:
        wanted = problem.want if problem.goal == "margin" else math.log(problem.want) - math.log1p(-problem.want)
        miss, value = np.maximum(level + wanted, 0), square + sparse
    broken = np.zeros_like(level)
    for row, sense, rest in limits.rules:
        broken = np.maximum(broken, (X @ row - rest) * (1 if sense == "<=" else -1))
    return np.where(broken > 1e-9, BROKEN * (1 + broken), np.where(miss > 1e-9, miss, 0.0)), value


def zoom(problem, limits, X, free):
    """The least (miss, value) over the free features of points X: one on ever finer points, the others for each of them.

    In one number, what is lexicographically least of convex things lies beside the least of some points.
    """
    if not free:
        return worth(problem, limits, X)
    d, shape = free[0], X.shape[:-1]
    ends = np.clip(problem.x[d] + np.array([-FAR, FAR]), limits.lo[d], limits.hi[d])
    low, high = np.full(shape, ends[0]), np.full(shape, ends[1])
    for _ in range(ZOOMS):
        points = np.clip(low + (high - low) * np.linspace(0, 1, POINTS).reshape(-1, *[1] * len(shape)), *ends)
        Y = np.repeat(X[None], POINTS, axis=0)
        Y[..., d] = points
        miss, value = zoom(problem, limits, Y, free[1:])
        best = np.lexsort((value, miss), axis=0)[:1]
        step = (high - low) / (POINTS - 1)
        middle = np.take_along_axis(points, best, axis=0)[0]
        low, high = np.clip(middle - step, *ends), np.clip(middle + step, *ends)
    return np.take_along_axis(miss, best, axis=0)[0], np.take_along_axis(value, best, axis=0)[0]


def least_by_zooming(problem, limits, choices):
    """The least (miss, value) of all choices, with every set of free features that may move."""
    found = [(math.inf, math.inf)]
    for fixed in choices:
        point = problem.x.copy()
        point[list(fixed)] = list(fixed.values())
        for n in range(len(limits.free) + 1):
            for some in itertools.combinations(limits.free, n):
                still = [d for d in limits.free if d not in some]
                kept = all(limits.lo[d] <= point[d] <= limits.hi[d] for d in still)
                if kept and (limits.max_changes is None or limits.n_changes(point) + n <= limits.max_changes):
                    found.append(tuple(map(float, zoom(problem, limits, point, list(some)))))
    return min(found)


@pytest.mark.parametrize("goal", ["prob", "margin", "lam"])
@pytest.mark.parametrize("kind", ["grids", "groups", "few", "rules", "matrix"])
def test_a_search_by_zooming_finds_the_same(goal, kind, rng):
    wish = {
        "grids": {"kinds": {"free": 1.0, "bounds": 1.0, "integer": 2.0, "step": 1.0}, "ends": 1.0, "groups": 0.0, "few": False},
        "groups": {"D": 4, "groups": 0.9, "few": False},
        "few": {"few": True, "groups": 0.0, "kinds": {"free": 2.0, "bounds": 2.0, "one side": 1.0, "integer": 1.0}},
        "rules": {"rules": (0.0, 0.5, 0.5), "just": 0.0, "equal": 0.0, "groups": 0.0, "few": False},
        "matrix": {"cost": "matrix, l1", "groups": 0.0, "few": True},
    }[kind]
    tried = 0
    while tried < 3:
        problem = draw(rng, Wish(**{"D": 3, "K": 3, "goal": goal, "equal": 0.0, "ends": 1.0, **wish}))
        limits = Limits(problem)
        free = limits.free
        if limits.wrong or len(free) > 2 or problem.want > 20 or (goal == "prob" and problem.want > 0.999):
            continue
        choices = list(itertools.islice(grids(problem), 31))
        found = truth(problem)
        if len(choices) > 30 or found.reachable is None or not found.whole:
            continue
        if found.point is not None and np.abs(found.point - problem.x).max() > FAR / 2:
            continue
        tried += 1
        miss, value = least_by_zooming(problem, limits, choices)
        if found.contradictory:
            assert miss >= BROKEN
        elif not found.reachable:
            assert miss > 0
            best = found.largest if goal == "margin" else math.log(found.largest) - math.log1p(-found.largest)
            wanted = problem.want if goal == "margin" else math.log(problem.want) - math.log1p(-problem.want)
            assert wanted - miss == pytest.approx(best, rel=ZOOMED, abs=ZOOMED)
        else:
            assert miss == 0
            assert found.least * (1 - ZOOMED) - ZOOMED <= value <= found.least * (1 + ZOOMED) + ZOOMED


@pytest.mark.parametrize("family", FAMILIES)
def test_choices_that_are_not_solved_are_no_better(family, monkeypatch):
    """The same without bounds from multipliers: every choice solved."""
    problems = [make(family, i, seed=5) for i in range(10)]
    known = [truth(problem) for problem in problems]
    for name in ("_bounds", "_levels"):
        monkeypatch.setattr(judge_of, name, lambda _numbers, choices, _price: np.full(len(choices.bound), -math.inf))
    monkeypatch.setattr(judge_of, "MOST_SOLVED", 10**6)
    for problem, found in zip(problems, known, strict=True):
        limits = Limits(problem)
        if found.choices > 20 or not found.whole or not all(map(limits.bounded, limits.step)):
            continue
        slow = truth(problem)
        assert (slow.reachable, slow.contradictory) == (found.reachable, found.contradictory)
        for one, other in ((slow.least, found.least), (slow.largest, found.largest)):
            assert one == other or one == pytest.approx(other, rel=1e-8, abs=1e-8 * problem.unit)


@pytest.mark.parametrize("family", FAMILIES)
def test_witnesses_keep_the_limits_and_meet_the_goal(family):
    for i in range(15):
        problem = make(family, i, seed=6)
        found = truth(problem)
        if found.firm:
            assert Limits(problem).broken(found.point) == ""
            assert found.reachable is None or (problem.short(found.point) <= 0) is found.reachable


# ---- answers made wrong ----


@pytest.fixture
def right():
    """A problem with whole numbers, and a right answer to it."""
    A = np.array([[1.0, 0.2, -0.5], [-0.4, 1.0, 0.3], [0.1, -0.7, 0.2]])
    actions = {"integer": [0], "bounds": {0: (-5, 5), 2: (-1.0, 1.0)}}
    problem = Problem(A, np.array([0.1, 0.0, -0.2]), np.array([2.0, -1.0, 0.5]), 1, "prob", 0.8, actions)
    return problem, problem.ask()


def kinds_of(problem, cf, **changed):
    """What the judge says of an answer with changed numbers."""
    cf = dataclasses.replace(cf, result=dataclasses.replace(cf.result, **changed))
    return {v.kind for v in _Held(problem, truth(problem), cf).verdicts()}


def test_a_right_answer_is_right(right):
    assert judge(right[0]).verdicts == ()


def test_what_is_wrong_is_found(right):
    problem, cf = right
    x = cf.x
    worse, near = x.copy(), problem.x + 0.9 * (x - problem.x)
    worse[1] += 0.1
    near[0] = x[0]
    nothing = np.full(3, np.nan)
    cost = problem.cost_of(worse)
    assert "LIMIT" in kinds_of(problem, cf, x=x + np.array([0.5, 0, 0]))
    assert "LIMIT" in kinds_of(problem, cf, x=np.array([x[0], x[1], np.nextafter(1.0, 2)]))
    assert "WORSE" in kinds_of(problem, cf, x=worse, cost=cost, gap=0.0, bound=cost)
    assert "FALSEBOUND" in kinds_of(problem, cf, x=worse, cost=cost, gap=0.0, bound=cost)
    assert "FALSE_REACHED" in kinds_of(problem, cf, x=near)
    assert "FALSE_UNREACHABLE" in kinds_of(problem, cf, status=Status.UNREACHABLE)
    assert "CEILING" in kinds_of(problem, cf, status=Status.UNREACHABLE)
    assert "GAPBIG" in kinds_of(problem, cf, gap=1e-6)
    assert "VALUE" in kinds_of(problem, cf, cost=cf.cost * (1 + 1e-6))
    assert "VERIFY" in kinds_of(problem, cf, distance=2 * cf.distance)
    assert "NAN" in kinds_of(problem, cf, gap=math.nan)
    assert kinds_of(problem, cf, x=nothing, status=Status.STOPPED, bound=0.0) == {"SILENT"}
    assert kinds_of(problem, cf, x=nothing) == {"NAN"}


def test_what_is_out_of_reach_and_not_the_best_is_found(right):
    problem, _ = right
    narrow = dataclasses.replace(problem, want=0.9999, actions={"integer": [0], "bounds": {0: (1, 3), 1: (-2, 0), 2: (0.2, 1)}})
    cf = narrow.ask()
    assert cf.status is Status.UNREACHABLE
    assert "NOTBEST" not in kinds_of(narrow, cf)
    assert "NOTBEST" in kinds_of(narrow, cf, x=problem.x)
    assert "CEILING" in kinds_of(narrow, cf, ceiling=0.5 * truth(narrow).largest)


def test_a_point_beyond_where_the_judge_looks_makes_nobody_wrong():
    """It is some four million units away, where the judge looks for the best probability within a hundred thousand."""
    case = judge(make("decades", 90, 1012), time_limit=20.0)
    assert case.truth.reachable is False
    assert case.answer.status.ok
    assert not case.verdicts


def test_a_goal_that_some_point_meets_is_not_out_of_reach():
    """Rules that leave one point and nothing around it: a conic solver says that there is none."""
    known = truth(make("rules that just hold", 4, 94))
    assert known.reachable is not False
