"""Limits that contradict each other or make no sense are named; in a table, the row says so and the others go on."""

import math

import numpy as np
import pytest
from helpers.applicant import BOTH, CREDIT, PERSON

from ifonly import Actions, Cost, InputError, Model, Status, invert, path

# ---- contradictions raise, with the feature's name; in a table, the row says so and the others go on ----


BAD_ACTIONS = [
    (Actions(frozen=["age"], bounds={"age": (40, 60)}), r"age is frozen at 30, outside its bounds \[40, 60\]"),
    (Actions(bounds={"income": (50, 20)}), r"bounds of income: 50 is not at most 20"),
    (Actions(bounds={"income": (float("nan"), 20)}), r"bounds of income"),
    (Actions(bounds={"income": 20}), r"bounds of income must be a pair \(low, high\); got 20"),
    (Actions(bounds={"income": ("a", 20)}), r"bounds of income must be a pair"),
    (Actions(bounds={"incme": (0, 20)}), r"unknown feature 'incme'; did you mean \['income'\]"),
    (Actions(frozen=["agee"]), r"unknown feature 'agee'; did you mean \['age'\]"),
    (Actions(frozen=[4]), r"a number from 0 to 3; got 4"),
    (Actions(frozen=[True]), r"a name or a number from 0 to 3; got True"),
    (Actions(frozen=3.5), r"features are given as names or numbers; got 3.5"),
    (Actions(increase=["income"], bounds={"income": (0, 20)}), r"income is 25 and may only rise: .* no value .* \[0, 20\]"),
    (Actions(decrease=["debt"], bounds={"debt": (30, 50)}), r"debt is 20 and may only fall: .* no value for it in \[30, 50\]"),
    (Actions(step={"hours": 0}), r"step of hours must be a number > 0; got 0"),
    (Actions(step={"hours": -5}), r"step of hours must be a number > 0; got -5"),
    (Actions(step={"hours": float("inf")}), r"step of hours must be a number > 0; got inf"),
    (Actions(linear=[({"age": 1}, "<", 3)]), r'a rule is \(mapping of features to numbers, "<=", ">=" or "==", number\)'),
    (Actions(linear=[(["age"], "<=", 3)]), r"a rule is \(mapping"),
    (Actions(linear=[({"age": 1}, "<=")]), r"a rule is \(mapping"),
    (Actions(linear=[({"age": "x"}, "<=", 3)]), r"a rule is \(mapping"),
    (Actions(linear=[({"height": 1}, "<=", 3)]), r"unknown feature 'height'"),
    (Actions(linear=[({"age": 0}, "<=", 3)]), r"a rule needs a coefficient that is not zero"),
    (Actions(linear=[({"age": 1}, "<=", float("nan"))]), r"finite numbers"),
    (Actions(linear=[({"age": 1}, "<=", 20)], frozen=["age"]), r"contradict"),
    (Actions(linear=[({"income": 1, "debt": 1}, "<=", 10), ({"income": 1, "debt": 1}, ">=", 20)]), r"contradict"),
    (Actions(linear=[({"income": 1, "debt": 1}, "==", 500)], bounds=(0, 100)), r"contradict"),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize("wish", [{"lam": 0.1}, {"prob": 0.8}, {}], ids=["lam", "prob", "flip"])
@pytest.mark.parametrize(("actions", "words"), BAD_ACTIONS)
def test_contradictions_raise_with_the_features_name(model, wish, actions, words):
    with pytest.raises(InputError, match=words):
        invert(model, PERSON, "approved", actions=actions, **wish)
    with pytest.raises(InputError, match=words):
        path(model, PERSON, "approved", lams=[1.0], actions=actions)


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: Cost(scale="mode"), r'scale must be "model", "raw", "std", "mad", "iqr", a mapping or an array; got \'mode\''),
        (lambda: Cost(scale="std"), r'Cost\(scale="std"\) needs data'),
        (lambda: Cost(scale=[1, 2, 3]), r"scale must have one number per feature, 4; got an array of shape \(3,\)"),
        (lambda: Cost(scale=[1, 0, 1, 1]), r"the cost of income must be a number > 0; got 0"),
        (lambda: Cost(scale={"debt": -1}), r"the cost of debt must be a number > 0; got -1"),
        (lambda: Cost(scale={"debts": 1}), r"unknown feature 'debts'; did you mean \['debt'\]"),
        (lambda: Cost(scale=["a", "b"]), r"scale must be numbers"),
        (lambda: Cost(l1=-0.5), r"l1 of age must be a number ≥ 0; got -0.5"),
        (lambda: Cost(l1={"hours": float("inf")}), r"l1 of hours must be a number ≥ 0; got inf"),
        (lambda: Cost(l1=[0.1, 0.2]), r"l1 must have one number per feature, 4"),
        (lambda: Cost(l1="much"), r"l1 must be numbers"),
        (lambda: Cost(matrix=np.ones((2, 3))), r"matrix must be square; got an array of shape \(2, 3\)"),
        (lambda: Cost(matrix=[[1, 2], [0, 1]]), r"matrix must be symmetric"),
        (lambda: Cost(matrix=np.ones((4, 4))), r"matrix must be positive definite"),
        (lambda: Cost(matrix=-np.eye(4)), r"matrix must be positive definite"),
        (lambda: Cost(matrix=np.full((4, 4), np.nan)), r"matrix must be"),
        (lambda: Cost(matrix=np.eye(3)), r"matrix must be 4×4, as the model has features; got \(3, 3\)"),
        (lambda: Cost(scale="raw", matrix=np.eye(4)), r"give one of scale and matrix, not both"),
        (lambda: Cost().fit(np.ones((5, 4))), r'fit is for scale "std", "mad" or "iqr"'),
        (lambda: Cost(scale="mad").fit(np.ones(4)), r"X must be a table of two rows or more; got an array of shape \(4,\)"),
        (lambda: Cost(scale="mad").fit(np.ones((9, 3))), r"scale must have one number per feature, 4"),
        (lambda: Cost.mahalanobis(np.ones((9, 4))), r"the covariance of X is singular"),
        (lambda: Cost.mahalanobis([["a", "b"]]), r"X must be numbers"),
    ],
)  # fmt: skip
def test_costs_that_make_no_sense(make_it, words):
    for actions in (None, Actions()):
        with pytest.raises(InputError, match=words):
            invert(CREDIT, PERSON, "approved", cost=make_it(), actions=actions)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"cost": {"age": 1}}, "cost must be a Cost; got dict"),
        ({"cost": 3.0}, "cost must be a Cost; got float"),
        ({"actions": {"frozen": ["age"]}}, "actions must be Actions; got dict"),
        ({"actions": ["age"]}, "actions must be Actions; got list"),
        ({"actions": Actions(), "start": "source", "lam": 1.0}, "start is for problems without limits"),
        ({"actions": Actions(), "lam": 1.0, "prob": 0.5}, "give one of lam and prob"),
        ({"actions": Actions(), "prob": 1.0}, "prob must"),
        ({"actions": Actions(), "lam": 0.0}, "lam must"),
        ({"actions": Actions(), "n": 0}, "n must be a whole number ≥ 1"),
        ({"actions": Actions(), "n": 2, "target": "all"}, "n is for one source and one target"),
    ],
)
def test_arguments_of_the_wrong_kind(more, words):
    with pytest.raises(InputError, match=words):
        invert(CREDIT, PERSON, **({"target": "approved"} | more))


@BOTH
@pytest.mark.parametrize("wish", [{"lam": 0.01}, {"prob": 0.7}], ids=["lam", "prob"])
def test_a_row_that_contradicts_the_limits_does_not_stop_the_others(model, wish):
    X = np.tile(PERSON, (6, 1))
    X[1, 0] = 75.0  # frozen outside its bounds
    X[3, 1] = np.nan
    X[4, 2] = 90.0  # may only rise, above its bound
    actions = Actions(frozen=["age"], bounds={"age": (18, 70), "debt": (None, 60)}, increase=["debt"])
    cfs = invert(model, X, "approved", actions=actions, **wish)
    assert cfs.status.tolist() == [0, 4, 0, 4, 4, 0]
    bad = cfs.status == Status.INVALID
    for name in ("x", "delta", "proba", "distance", "objective", "cost", "gap"):
        values = getattr(cfs, name)
        assert np.isnan(values[bad]).all(), name
        assert np.isfinite(values[~bad]).all(), name
    np.testing.assert_array_equal(cfs.x[0], cfs.x[5])
    assert "INVALID" in repr(cfs)
    assert cfs[1].message == "age is frozen at 75, outside its bounds [18, 70]"
    assert len(cfs.verify()) == 3
    for i in (1, 4):
        with pytest.raises(InputError, match=["", "age is frozen", "", "", "debt is 90 and may only rise"][i]):
            invert(model, X[i], "approved", actions=actions, **wish)


# ---- whole numbers and categories ----


NAMES = ["age", "loans", "red", "green", "blue"]


def colours(**more):
    return Model.binary([0.1, -1.0, 1.0, 0.0, -1.0], -1.0, feature_names=NAMES), Actions(one_of=[NAMES[2:]], **more)


@pytest.mark.parametrize(
    ("source", "more", "match"),
    [
        ([30, 2, 1, 1, 0], {}, r"red.*must have one 1.*\[1.0, 1.0, 0.0\]"),
        ([30, 2, 0, 0, 0], {}, r"red.*must have one 1.*\[0.0, 0.0, 0.0\]"),
        ([30, 2, 0.5, 0.5, 0], {}, "red.*must have one 1"),
        ([30, 2, 1, 0, 0], {"bounds": dict.fromkeys(NAMES[2:], (0, 0))}, "red.*bounds allow no such choice"),
        ([30, 2, 1, 0, 0], {"bounds": {"red": (1, 1), "blue": (1, 1)}}, "red.*bounds allow no such choice"),
        ([30, 2, 1, 0, 0], {"integer": ["loans"], "bounds": {"loans": (0.2, 0.8)}}, r"loans is 2.*no value.*\[0.2, 0.8\]"),
        ([30, 2, 1, 0, 0], {"step": {"age": 7}, "bounds": {"age": (29, 34)}}, r"age is 30.*no value.*\[29, 34\] in steps of 7"),
        (
            [30, 5, 1, 0, 0],
            {"increase": ["loans"], "bounds": {"loans": (0, 3)}},
            "loans is 5 and may only rise: there is no value",
        ),
        ([30, 5, 1, 0, 0], {"frozen": ["loans"], "bounds": {"loans": (0, 3)}}, "loans is frozen at 5, outside its bounds"),
    ],
)
def test_contradictory_sources_are_named(source, more, match):
    model, actions = colours(**more)
    with pytest.raises(InputError, match=match):
        invert(model, source, 1, actions=actions)
    table = np.array([source, [30, 2, 1, 0, 0]], dtype=float)
    if more and source[1] != 5:  # the limits themselves are contradictory
        assert (invert(model, table, 1, actions=actions).status == Status.INVALID).all()
    else:
        cfs = invert(model, table, 1, actions=actions)
        assert cfs.status.tolist() == [Status.INVALID, Status.EXACT]
        assert np.isnan(cfs.x[0]).all()
        assert np.isfinite(cfs.x[1]).all()


@pytest.mark.parametrize("x", [-0.12, -0.09, -0.09000000000000001])
@pytest.mark.parametrize("end", [-0.09, -0.09000000000000001, -0.08999999999999998, -0.09 + 1e-12, -0.09 - 1e-12])
def test_bounds_beside_a_grid_point_stand_for_it(end, x):
    """Both ends on the same side of it, by an ulp or more: that is the value, and no contradiction."""
    model = Model.binary([-1.0, 1.0], 0.0, ["no", "yes"])
    actions = Actions(step={0: 0.03}, bounds={0: (end, end)})
    cf = invert(model, [x, -1.0], "yes", actions=actions)
    assert cf.x[0] == end
    assert cf.status.ok
    cf.verify(exact=True)


def test_one_value_that_is_left_by_a_bound_and_a_direction_is_on_the_grid():
    """The end that is beside a grid point stands for it, and no other: the source, which is off the grid, may not stay."""
    model = Model.binary([-0.07, 0.02], 0.6, ["yes", "no"])
    actions = Actions(step={0: 0.1}, bounds={0: (-0.5, -0.30000000000000004)}, increase=[0], frozen=[1])
    assert invert(model, [-0.39998, 1.0], "no", prob=0.9, actions=actions).x[0] == -0.30000000000000004


@pytest.mark.parametrize("x", [743200.07, np.nextafter(743200.07, np.inf)])
def test_a_number_far_from_0_is_on_its_grid_up_to_its_own_rounding(x):
    """An ulp of an amount in cents is more than a billionth of one."""
    model = Model.binary([1.0, 0.01], -743205.0, ["no", "yes"])
    actions = Actions(step={0: 0.01}, bounds={0: (None, x)})
    cf = invert(model, [x, 3.0], "yes", prob=0.9, actions=actions, max_changes=1)
    assert cf.x[0] == x
    assert cf.n_changes == 1
    cf.verify(exact=True)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"step": {"age": 0}}, "step of age must be a number > 0; got 0"),
        ({"step": {"age": -1}}, "step of age must be a number > 0; got -1"),
        ({"step": {"age": math.nan}}, "step of age must be a number > 0; got nan"),
        ({"step": {"age": math.inf}}, "step of age must be a number > 0; got inf"),
        ({"step": {"age": "ten"}}, "step of age must be a number > 0; got 'ten'"),
        ({"step": {"age": None}}, "step of age must be a number > 0; got None"),
        ({"step": {"agee": 1}}, "agee"),
        ({"integer": ["age"], "step": {"age": 0.5}}, "age must be a whole number and a multiple of 0.5"),
        ({"integer": ["agee"]}, "agee"),
        ({"one_of": [["red"]]}, "two columns or more"),
        ({"one_of": [["red", "green"], ["green", "blue"]]}, "green is in one_of twice"),
        ({"one_of": [["red", "pink"]]}, "pink"),
    ],
)
def test_wrong_actions_are_named(more, match):
    model, _ = colours()
    with pytest.raises(InputError, match=match):
        invert(model, [30, 2, 1, 0, 0], 1, actions=Actions(**more))


@pytest.mark.parametrize("value", [-1, 1.5, "two"])
def test_wrong_max_changes(value):
    model, actions = colours()
    with pytest.raises(InputError, match="max_changes must be a whole number ≥ 0"):
        invert(model, [30, 2, 1, 0, 0], 1, actions=actions, max_changes=value)


@pytest.mark.parametrize("form", [{"prob": 0.5}, {"lam": 1.0}], ids=str)
def test_more_must_move_than_may(form):
    model, actions = colours(bounds={"age": (40, 50), "loans": (0, 1)})
    with pytest.raises(InputError, match=r"max_changes is 1, but \['age', 'loans'\] are not within their limits"):
        invert(model, [30, 2, 1, 0, 0], 1, actions=actions, max_changes=1, **form)
    batch = invert(model, [[30, 2, 1, 0, 0], [45, 2, 1, 0, 0]], 1, actions=actions, max_changes=1, **form)
    assert batch.status[0] == Status.INVALID
    assert batch[1].x[1] <= 1


@pytest.mark.parametrize("pair", [(11.0, 14.0), (10.5, None), (None, -1.0)])
@pytest.mark.parametrize("whole", [True, False])
def test_bounds_where_the_classifier_sees_no_difference_are_refused(pair, whole):
    """Beyond the quantiles of the data every number is the last one, and that is what an answer would have."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer

    X = np.arange(11.0)[:, None] * [1.0, -1.0]
    bank = make_pipeline(QuantileTransformer(n_quantiles=11), LogisticRegression()).fit(X, X[:, 0] > 5)
    with pytest.raises(InputError, match=r"bounds of x0: .* is beyond"):
        invert(bank, X[2], True, actions=Actions(bounds={0: pair}, integer=[0] if whole else []))
    cf = invert(bank, X[2], True, actions=Actions(bounds={0: (9.0, 14.0)}, integer=[0] if whole else []))
    assert 9.0 <= cf.x[0] <= 10.0


def test_a_matrix_in_any_units():
    """Salaries and shares: what is definite in one unit of each feature is in every other."""
    rng = np.random.default_rng(0)
    model, x, unit = Model(rng.normal(size=(3, 4)), np.zeros(3)), rng.normal(size=4), np.array([1e6, 1.0, 1e-6, 1e3])
    root = rng.normal(size=(4, 4)) + np.eye(4)
    Q, other = root @ root.T, Model(model.A / unit, np.zeros(3))
    for room in (50.0, 0.1):
        bounds = {d: (float(x[d] - room), float(x[d] + room)) for d in (0, 2, 3)}
        plain = invert(model, x, 1, prob=0.9, cost=Cost(matrix=Q, l1=0.1), actions=Actions(bounds=bounds))
        bounds = {d: (low * unit[d], high * unit[d]) for d, (low, high) in bounds.items()}
        cost = Cost(matrix=Q / np.multiply.outer(unit, unit), l1=0.1)
        cf = invert(other, x * unit, 1, prob=0.9, cost=cost, actions=Actions(bounds=bounds), time_limit=2.0)
        assert cf.status is Status.EXACT
        assert cf.verify().claim == "proved"
        np.testing.assert_allclose(cf.x / unit, plain.x, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("one", [0, np.int64(0), [0], (0,), {0}, np.array([0]), np.array(["a"])])
@pytest.mark.parametrize("field", ["frozen", "increase", "decrease", "integer"])
def test_features_are_given_one_or_several(field, one):
    """An array of the number 0 is a feature too, if NumPy takes it for nothing."""
    limits = Actions(**{field: one}).resolve(Model.binary([1.0, 2.0], 0.0, feature_names=["a", "b"]))
    assert (limits.step if field == "integer" else getattr(limits, field)).tolist() == [True, False]
