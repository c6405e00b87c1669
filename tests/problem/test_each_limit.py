"""Limits one by one: their words, and the same conditions with only some of them."""

import numpy as np
import pandas as pd
import pytest
from helpers.worded import Limits
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

from ifonly import Actions, Cost, Model, as_model
from ifonly.problem.conditions import Conditions
from ifonly.problem.each_limit import EachLimit, group_name, restricted

ARRAYS = ("lo", "hi", "frozen", "increase", "decrease", "step", "C", "rest", "equal")


def words(model, max_changes=None, **actions):
    return [limit.words for limit in EachLimit(Conditions(model, Cost(), Actions(**actions), max_changes)).all]


def the_same(found, expected):
    """The same limits, as arrays."""
    assert found.max_changes == expected.max_changes
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found.limits, name), getattr(expected.limits, name), err_msg=name)
    assert [group.tolist() for group in found.limits.groups] == [group.tolist() for group in expected.limits.groups]
    assert [part[:1] + part[2:] for part in found.limits.uneven] == [part[:1] + part[2:] for part in expected.limits.uneven]


@pytest.mark.parametrize("seed", range(30))
def test_any_of_them_are_what_a_user_would_have_said(seed):
    rng = np.random.default_rng(seed)
    said = Limits(rng, rules=2)

    def conditions(kept):
        options = said.options(kept)
        return Conditions(said.model, Cost(), options["actions"], options.get("max_changes"))

    limits = EachLimit(conditions(said.said))
    assert {limit.words for limit in limits.all} == set(said.said)
    for _ in range(5):
        kept = [i for i in range(len(limits)) if rng.random() < 0.6]
        the_same(limits.only(kept), conditions([limits.all[i].words for i in sorted(kept)]))


NAMES = ["age", "amount", "owner", "job=a", "job=b", "x"]
PLAIN = Model.binary([1.0] * 6, 0.0, feature_names=NAMES)


def test_in_words():
    found = words(
        PLAIN,
        1,
        frozen=["age", "job=a", "job=b"],
        bounds={"age": (18, None), "amount": (250, 1e4), "owner": (0, 1)},
        increase=["amount"],
        decrease=["x"],
        integer=["age", "owner"],
        step={"amount": 50},
        one_of=[["job=a", "job=b"]],
        linear=[({"age": -1, "amount": 0.5}, ">=", 3)],
    )
    assert found == [
        "job is frozen", "age is frozen", "age ≥ 18", "amount ≥ 250", "amount ≤ 10000", "amount may only rise",
        "x may only fall", "age − 0.5·amount ≤ -3", "age is a whole number", "amount is a multiple of 50", "owner is 0 or 1",
        "job is one of a, b", "at most 1 change",
    ]  # fmt: skip


def test_groups_without_a_common_name_are_named_by_their_columns():
    model = Model.binary([1.0, 1.0], 0.0, feature_names=["red", "green"])
    assert words(model, frozen=[0, 1], one_of=[[0, 1]]) == ["red, green are frozen", "exactly one of red, green is 1"]
    assert group_name(["job=a", "job=b"]) == ("job", ("a", "b"))
    many = Model.binary([1.0] * 9, 0.0, feature_names=[f"job={letter}" for letter in "abcdefghi"])
    assert words(many, one_of=[list(range(9))]) == ["job is one of a, b, c, d, e, f, …"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.uniform(1000, 9000, 200),
            "size": rng.choice(["small", "large", "huge"], 200),
            "job": rng.choice(["clerk", "cook"], 200),
        }
    )
    steps = make_column_transformer(
        (FunctionTransformer(np.log1p), ["income"]),
        (OrdinalEncoder(categories=[["small", "large", "huge"]]), ["size"]),
        (OneHotEncoder(), ["job"]),
    )
    return as_model(make_pipeline(steps, LogisticRegression()).fit(frame, rng.choice(["no", "yes"], 200)))


def test_the_pipelines_own_demands_are_no_limits_and_numbers_are_the_users(table):
    assert words(table) == []
    found = words(table, frozen=["job"], bounds={"income": (2000, 5000), "size": (None, "large")}, step={"income": 500})
    assert found == ["job is frozen", "income ≥ 2000", "income ≤ 5000", "size ≤ large", "income is a multiple of 500"]
    assert words(table, frozen=["job=cook"]) == ["job=cook is frozen"]


def test_what_the_pipeline_demands_is_kept_and_a_grid_outlives_what_froze_it(table):
    actions = {"frozen": ["income"], "step": {"income": 500.0}, "bounds": {"income": (2000, None)}}
    limits = EachLimit(Conditions(table, Cost(), Actions(**actions)))
    the_same(limits.only([]), Conditions(table, Cost(), Actions()))
    assert [limit.words for limit in limits.all] == ["income is frozen", "income ≥ 2000", "income is a multiple of 500"]
    the_same(limits.only([2]), Conditions(table, Cost(), Actions(step={"income": 500.0})))
    the_same(limits.only([0, 1, 2]), Conditions(table, Cost(), Actions(**actions)))


def test_more_features_frozen(table):
    conditions = Conditions(table, Cost(l1=0.1), Actions(step={"income": 500.0}, frozen=["size"]), 2)
    income = np.arange(table.n_features) == 0
    found = restricted(conditions, income)
    the_same(found, Conditions(table, Cost(l1=0.1), Actions(frozen=["size", "income"]), 2))  # what is frozen needs no grid
    assert found.cost is conditions.cost
