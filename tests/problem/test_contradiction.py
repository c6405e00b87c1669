"""Limits that contradict each other: against every combination of whole numbers, every set of changes, and linear programs."""

import itertools

import numpy as np
import pytest
from helpers.worded import Limits
from scipy.optimize import linprog

from ifonly import Actions, Cost, Model
from ifonly.problem.conditions import Conditions
from ifonly.problem.contradiction import contradicting, contradiction, possible

LONG = 60.0
FAR = 6  # whole numbers without a bound are tried up to here: rules have room within


def some_point(limits, kept):
    """Whether any point keeps these limits."""
    said = [limits.said[words] for words in kept]
    x, D = limits.x, len(limits.x)
    lo, hi = np.full(D, -np.inf), np.full(D, np.inf)
    place = {name: d for d, name in enumerate(limits.names)}
    for kind, what in said:
        if kind == "low":
            lo[place[what[0]]] = max(lo[place[what[0]]], what[1])
        elif kind == "high":
            hi[place[what[0]]] = min(hi[place[what[0]]], what[1])
        elif kind in ("increase", "decrease", "frozen"):
            for d in (place[name] for name in what):
                lo[d] = lo[d] if kind == "decrease" else max(lo[d], x[d])
                hi[d] = hi[d] if kind == "increase" else min(hi[d], x[d])
    groups = [[place[name] for name in what] for kind, what in said if kind == "one_of"]
    whole = [place[name] for kind, what in said if kind == "integer" for name in what]
    most = next((what for kind, what in said if kind == "max_changes"), D)
    items = [*groups, *([d] for d in range(D) if not any(d in group for group in groups))]
    rows, rest = [], []
    for kind, what in said:
        if kind == "linear":
            sign = 1 if what[1] == "<=" else -1
            rows.append([sign * what[0].get(name, 0.0) for name in limits.names])
            rest.append(sign * what[2])
    ranges = [range(int(max(np.ceil(lo[d]), -FAR)), int(min(np.floor(hi[d]), FAR)) + 1) for d in whole]
    choices = [[np.eye(len(group))[i] for i in range(len(group))] for group in groups]
    for moved in itertools.combinations(items, min(most, len(items))):
        free = np.isin(np.arange(D), [d for item in moved for d in item])
        for values in itertools.product(*ranges, *choices):
            low, high = np.where(free, lo, np.maximum(lo, x)), np.where(free, hi, np.minimum(hi, x))
            for d, v in zip(whole, values, strict=False):
                low[d], high[d] = max(low[d], v), min(high[d], v)
            for group, v in zip(groups, values[len(whole) :], strict=True):
                low[group], high[group] = np.maximum(low[group], v), np.minimum(high[group], v)
            if (low > high).any():
                continue
            if not rows or linprog(np.zeros(D), rows, rest, bounds=np.stack([low, high], axis=1)).status == 0:
                return True
    return False


def conditions(limits, kept):
    options = limits.options(kept)
    return Conditions(limits.model, Cost(), options["actions"], options.get("max_changes"))


@pytest.mark.seconds
@pytest.mark.parametrize("seed", range(8))
def test_the_limits_that_are_named_leave_no_point_and_without_any_of_them_there_is_one(seed):
    rng, sizes = np.random.default_rng([seed, 5]), []
    while len(sizes) < 4:
        limits = Limits(rng, 2, rules=3)
        there = some_point(limits, limits.said)
        assert possible(conditions(limits, limits.said), limits.x) == there
        if there:
            continue
        named = contradicting(conditions(limits, limits.said), limits.x, LONG)
        assert named.proved
        assert set(named.parts) <= set(limits.said)
        assert not some_point(limits, named.parts)
        for words in named.parts:
            assert some_point(limits, [other for other in named.parts if other != words])
        sizes.append(len(named.parts))
    assert max(sizes) > 1


MODEL = Model.binary([1.0, 1.0, 1.0], 0.0, feature_names=["age", "income", "debt"])
SOURCE = np.array([30.0, 25.0, 20.0])


@pytest.mark.parametrize(
    ("actions", "max_changes", "text"),
    [
        ({"frozen": ["age"], "linear": [({"age": 1}, "<=", 20)]}, None, "age is frozen, and age ≤ 20"),
        (
            {"linear": [({"income": 1, "debt": 1}, "<=", 10), ({"income": 1}, ">=", 4), ({"debt": 1}, ">=", 7)]},
            None,
            "income + debt ≤ 10, and income ≥ 4, and debt ≥ 7",
        ),
        ({"integer": ["age"], "linear": [({"age": 2}, "==", 61)]}, None, "2·age = 61, and age is a whole number"),
        ({"bounds": {"age": (40, 50), "income": (0, 9)}}, 1, "age ≥ 40, and income ≤ 9, and at most 1 change"),
        ({"frozen": ["age"], "bounds": {"age": (40, 60)}}, None, "age is frozen, and age ≥ 40"),
    ],
)  # fmt: skip
def test_in_words(actions, max_changes, text):
    error = contradiction(Conditions(MODEL, Cost(), Actions(**actions), max_changes), SOURCE)
    assert str(error) == f"the limits contradict each other: {text}"


def test_a_contradiction_of_rounding_only_is_not_named():
    rules = [({"income": 1, "debt": 1}, "<=", 10.0), ({"income": 1, "debt": 1}, ">=", 10.0 + 1e-12)]
    error = contradiction(Conditions(MODEL, Cost(), Actions(linear=rules)), SOURCE)
    assert str(error) == "the limits contradict each other: no point satisfies all of them"
    assert possible(Conditions(MODEL, Cost(), Actions(linear=rules)), SOURCE)


def test_out_of_time_fewer_are_not_claimed():
    actions = Actions(bounds=(0, 100), linear=[({"age": 1}, "<=", 20), ({"age": 1}, ">=", 21)])
    named = contradicting(Conditions(MODEL, Cost(), actions), SOURCE, seconds=-1.0)
    assert not named.proved
    assert {"age ≤ 20", "age ≥ 21"} <= set(named.parts)


def test_the_linear_programs_print_nothing(capfd):
    """With HiGHS's presolve this one wrote a line of its own to the standard output."""
    linear = [({2: -0.1, 0: 0.5}, ">=", -1.022876057624875), ({4: -0.2, 3: 0.9, 5: -0.4, 1: -1.0}, "==", -0.20238081012440812)]
    actions = Actions(increase=[2], bounds={5: (-2.0, 10.0)}, step={5: 2.0}, one_of=[[1, 3], [0, 4]], linear=linear)
    conditions = Conditions(Model(np.zeros((2, 6)), np.zeros(2)), Cost(), actions, 1)
    named = contradicting(conditions, np.array([0.0, 0.0, 4.21976905, 1.0, 1.0, 2.25595203]))
    assert len(named.parts) == 4
    assert capfd.readouterr() == ("", "")
