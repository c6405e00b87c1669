"""Costs and limits as people use them: what users of other tools complain of, paths, several answers, pipelines."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from helpers.applicant import BOTH, CREDIT, GRADES, NAMES, PERSON
from helpers.limits import make, sound
from helpers.problems import half
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from ifonly import Actions, Cost, Model, Status, as_model, invert, path
from ifonly.native import compiled

pytestmark = pytest.mark.usefixtures("loops")

# ---- what users of other tools complain of ----


@BOTH
@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_ranges_and_immutable_features_are_never_violated(rng, model, l1):
    """DiCE #426, #284, #441, #260; alibi #175, #338: features outside their ranges, frozen ones that moved."""
    actions = Actions(frozen=["age"], bounds={"income": (0, 60), "hours": (0, 48)}, decrease=["debt"], increase="income")
    X = PERSON + rng.normal(size=(80, 4)) * [8, 10, 8, 20]  # some start outside
    X[:, 1] = np.minimum(X[:, 1], 60)
    cfs = invert(model, X, "approved", prob=0.8, actions=actions, cost=Cost(scale=1 / np.array([8.0, 10.0, 8.0, 5.0]), l1=l1))
    assert set(cfs.status) <= {Status.EXACT, Status.UNREACHABLE}
    assert (cfs.status == Status.EXACT).sum() > 20
    assert (cfs.x[:, 0] == X[:, 0]).all()
    assert (cfs.x[:, 1] >= np.maximum(X[:, 1], 0)).all()
    assert (cfs.x[:, 1] <= 60).all()
    assert (cfs.x[:, 2] <= X[:, 2]).all()
    assert ((cfs.x[:, 3] >= 0) & (cfs.x[:, 3] <= 48)).all()
    cfs.verify()


@BOTH
def test_weights_of_features_have_an_effect(model):
    """DiCE #443: feature_weights changed nothing."""
    base = invert(model, PERSON, "approved", cost=Cost(scale=np.ones(4)), actions=Actions())
    for d, name in enumerate(NAMES):
        dear = invert(model, PERSON, "approved", cost=Cost(scale={name: 10.0}), actions=Actions())
        assert abs(dear.delta[d]) < 0.1 * abs(base.delta[d])
        sparse = invert(model, PERSON, "approved", cost=Cost(l1={name: 1e4}), actions=Actions())
        assert sparse.delta[d] == 0
        assert (np.delete(sparse.delta, d) != 0).all()


@pytest.mark.seconds
@BOTH
def test_the_same_answer_on_each_run(model):
    """DiCE #206: a different answer each run."""
    X = PERSON + np.arange(20)[:, None] * [0.1, 0.5, -0.2, 0.3]
    actions = Actions(frozen=["age"], bounds={"hours": (0, 60)}, linear=[({"debt": 1, "income": -0.4}, "<=", 8)])
    once, again = (invert(model, X, "approved", prob=0.7, cost=Cost(l1=0.1), actions=actions) for _ in range(2))
    np.testing.assert_array_equal(again.x, once.x)
    alone = [invert(model, x, "approved", prob=0.7, cost=Cost(l1=0.1), actions=actions).x for x in X]
    np.testing.assert_allclose(alone, once.x, rtol=1e-10)  # one by one the sums may be in another order


@BOTH
def test_relations_between_features_are_kept(model):
    """DiCE #426, #166: each feature in its range, but together impossible."""
    rules = [({"debt": 1, "income": -0.4}, "<=", 0), ({"hours": 1, "age": 0.5}, "<=", 60), ({"income": 1, "debt": 1}, "==", 70)]
    cf = invert(model, PERSON, "approved", prob=0.6, actions=Actions(linear=rules, frozen="age"))
    assert cf.verify().claim == "proved"
    age, income, debt, hours = cf.x
    assert cf.status is Status.EXACT
    assert debt - 0.4 * income <= 0
    assert hours + 0.5 * age <= 60
    assert income + debt == pytest.approx(70, rel=1e-12)
    assert age == 30
    free = invert(model, PERSON, "approved", prob=0.6)
    assert cf.distance > free.distance  # the rules cost something


@BOTH
def test_where_nothing_exists_the_answer_says_so(model):
    """DiCE #281, alibi #186: None, or a stack trace."""
    actions = Actions(frozen=["age", "hours"], bounds={"income": (None, 40)}, increase=["debt"])
    cf = invert(model, PERSON, "approved", prob=0.9, actions=actions)
    assert cf.status is Status.UNREACHABLE
    assert (cf.x == [30, 40, 20, 35]).all()  # as far as it goes
    p = model.predict_proba(cf.x)[-1]
    assert cf.proba[-1] == pytest.approx(p, rel=1e-12)
    assert p * (1 - 1e-12) <= cf.within.best_bound < 0.9  # proved
    assert cf.within.best_bound <= p * (1 + 2e-5)
    for words in ("0.9 is out of reach", "approved", "income ≤ 40", "hours is frozen", f"{p:.6g}"):
        assert words in cf.message
    assert set(cf.blocking) == {"income ≤ 40", "debt may only rise", "age is frozen", "hours is frozen"}
    assert "out of reach" in repr(cf)
    assert cf.verify().claim == "proved"
    # what it names is in the way: let go of the first
    assert cf.blocking[0] == "debt may only rise"
    freed = invert(model, PERSON, "approved", prob=0.9, actions=Actions(frozen=["age", "hours"], bounds={"income": (None, 40)}))
    assert freed.status is Status.EXACT


@pytest.mark.seconds
def test_no_time_limit_needed_for_thousands_of_rows(rng):
    """DiCE #258, #218: hours for a few rows. (No time is asserted; 3 000 rows at seconds each would not end.)"""
    n = 300 if compiled() is None else 3000
    X = PERSON + rng.normal(size=(n, 4)) * [8, 10, 8, 5]
    actions = Actions(frozen=["age"], bounds={"hours": (0, 60)}, decrease=["debt"])
    cfs = invert(CREDIT, X, "approved", prob=0.7, actions=actions, cost=Cost(l1=0.1))
    assert (cfs.status == Status.EXACT).all()
    assert (CREDIT.predict_proba(cfs.x)[:, 1] >= 0.7).all()
    for i in range(0, n, n // 12):  # the kernel for many rows and the solver for one
        alone = invert(CREDIT, X[i], "approved", prob=0.7, actions=actions, cost=Cost(l1=0.1))
        np.testing.assert_allclose(cfs.x[i], alone.x, rtol=1e-10)
        assert cfs[i].cost == pytest.approx(alone.cost, rel=1e-10)
        assert cfs[i].verify().claim == "proved"


def test_linear_rules_that_make_it_unreachable_are_proved_too():
    """The bound on the best probability goes through the rules' multipliers."""
    rules = [({"income": 1, "debt": -1}, "<=", 10), ({"hours": 1}, "<=", 40)]
    for model in (CREDIT, GRADES):
        actions = Actions(linear=rules, frozen="age", bounds={"debt": (5, None)})
        cf = invert(model, PERSON, "approved", prob=0.95, actions=actions)
        assert cf.status is Status.UNREACHABLE
        assert cf.verify().claim == "proved"
        assert cf.proba[-1] * (1 - 1e-9) <= cf.within.best_bound < 0.95
        assert cf.x[3] <= 40
        assert cf.x[1] - cf.x[2] <= 10
        # With three classes "approved" stays behind "offered" however far debt falls, and its bound is in nobody's way.
        way = {"income − debt ≤ 10", "hours ≤ 40", "age is frozen"}
        assert set(cf.blocking) == way | ({"debt ≥ 5"} if model is CREDIT else set())
        assert "income − debt ≤ 10" in cf.message


# ---- paths, and several answers ----


@pytest.mark.parametrize(
    ("limits", "cost"), half(["none", "both sides", "mixed", "<="], ["none", "array, l1 each", "matrix, l1"])
)
def test_a_path_is_the_answers_one_by_one(rng, cost, limits):
    case = make(rng, cost, limits, 3, "lam")
    if case.actions is None:
        case.actions = Actions()
    lams = np.geomspace(10, 1e-3, 7)
    found = path(case.model, case.source, case.k, lams=lams, cost=case.cost, actions=case.actions)
    assert len(found) == 7
    np.testing.assert_array_equal(found.lam, lams)
    for lam, cf in zip(lams, found, strict=True):
        case.lam = lam
        alone = sound(case, case.solve())
        sound(case, cf)
        assert abs(cf.objective - alone.objective) <= cf.gap + alone.gap + 1e-13 * (1 + alone.objective)
    # as λ falls x goes further, to what the certificates leave open: (λ/2)‖t − t*‖² ≤ gap
    near = np.sqrt(2 * found.gap / found.lam)
    assert (np.diff(found.distance) >= -near[:-1] - near[1:] - 1e-12).all()
    between = found.at_lam(0.05)
    assert between.lam == 0.05
    assert between.verify().claim == "proved"
    low, high = found.proba[0, case.k], found.proba[-1, case.k]
    wanted = found.at_prob(float(0.5 * (low + high)))
    assert wanted.verify().claim == "proved"
    case.assert_kept(wanted.x)
    assert case.model.predict_proba(wanted.x)[case.k] >= 0.5 * (low + high)


def test_a_path_without_a_target_goes_to_the_nearest_class(rng):
    case = make(rng, "l1", "both sides", 4, "lam")
    found = path(case.model, case.source, lams=[1.0, 0.1], cost=case.cost, actions=case.actions)
    nearest = invert(case.model, case.source, cost=case.cost, actions=case.actions)
    assert found.target == nearest.target


@pytest.mark.parametrize(("wish", "limits", "K"), half(["lam", "prob"], ["none", "both sides", "one way", "<="], [2, 4]))
def test_several_answers_differ_in_what_moves_and_each_is_exact(rng, K, limits, wish):
    case = make(rng, "l1", limits, K, wish, D=8)
    case.cost = Cost(l1=0.3)
    case.lam, case.prob = (0.05, None) if wish == "lam" else (None, 0.6)
    cfs = case.solve(n=5)
    assert 1 <= len(cfs) <= 5
    values = cfs.objective if wish == "lam" else cfs.cost
    assert (np.diff(values) >= -cfs.gap[:-1] - cfs.gap[1:]).all()
    supports = [tuple(np.flatnonzero(cf.x != case.source)) for cf in cfs]
    assert len(set(supports)) == len(supports)
    given = case.actions or Actions()
    best = case.solve()
    np.testing.assert_array_equal(cfs[0].x, best.x)
    for cf, value in zip(cfs, values, strict=True):
        case.assert_kept(cf.x)
        assert cf.verify().claim == "proved"
        if cf.status is Status.UNREACHABLE:
            assert len(cfs) == 1
            return
        if wish == "prob":
            assert case.model.predict_proba(cf.x)[case.k] >= 0.6
        # the restriction it is the optimum of: some features frozen besides
        frozen = np.flatnonzero(cf.within.conditions.limits.frozen).tolist()
        assert not set(frozen) & set(np.flatnonzero(cf.x != case.source))
        own = Actions(frozen=frozen, bounds=given.bounds, increase=given.increase, decrease=given.decrease, linear=given.linear)
        again = invert(case.model, case.source, case.k, lam=case.lam, prob=case.prob, cost=case.cost, actions=own)
        other = again.objective if wish == "lam" else again.cost
        assert abs(other - value) <= again.gap + cf.gap + 1e-12 * (1 + value)


def test_several_answers_where_one_feature_is_all_there_is():
    cfs = invert(Model.binary([1.0, 0.0], 0.0), [-1.0, 2.0], 1, n=4)
    assert len(cfs) == 1
    assert cfs[0].x[0] == pytest.approx(0, abs=1e-12)
    at_home = invert(Model.binary([1.0, 0.0], 0.0), [1.0, 2.0], 1, n=4)
    assert len(at_home) == 1
    assert at_home[0].cost == 0


# ---- the promise, under scikit-learn's own eyes ----


TABLES = {"cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris, "digits": load_digits}
SCALERS = {"standard": StandardScaler, "minmax": MinMaxScaler, "robust": RobustScaler}


@cache
def pipeline(data, scaler, columns=None):
    table = TABLES[data](as_frame=True)
    X, y = table.data.iloc[:400], table.target.iloc[:400]
    solver = LogisticRegression(max_iter=3000, tol=1e-3)
    return make_pipeline(SCALERS[scaler](), solver).fit(X if columns else X.to_numpy(), y), X


def promised(estimator, cfs, actions_hold):
    """Every row: reached as the estimator itself sees it, or proved to be out of reach; and every limit kept, bit by bit."""
    reached = np.asarray(cfs.status == Status.EXACT)
    assert set(cfs.status) <= {Status.EXACT, Status.UNREACHABLE}
    columns = np.searchsorted(estimator.classes_, cfs.target)
    p = estimator.predict_proba(cfs.x)[np.arange(len(cfs)), columns]
    assert (p[reached] >= cfs.prob[reached]).all()
    np.testing.assert_array_equal(estimator.predict(cfs.x)[reached], cfs.target[reached])
    for i in np.flatnonzero(~reached):
        assert cfs[i].within.best_bound < cfs.prob[i]
    actions_hold(cfs.x)
    return reached


@pytest.mark.parametrize(("tau", "scaler", "data"), half([0.5, 0.9], SCALERS, ["cancer", "wine", "iris"]))
def test_the_promise_holds_for_pipelines_with_limits(rng, data, scaler, tau):
    estimator, X = pipeline(data, scaler)
    X = X.to_numpy()
    n = 16
    rows = X[rng.choice(len(X), n)] * rng.uniform(0.9, 1.1, size=(n, X.shape[1]))
    targets = rng.choice(estimator.classes_, n)
    low, high = X.min(axis=0), X.max(axis=0)
    bounds = {d: (float(low[d]), float(high[d])) for d in range(1, X.shape[1])}
    actions = Actions(frozen=[0], bounds=bounds)

    def hold(x):
        assert (x[:, 0] == rows[:, 0]).all()
        assert (x[:, 1:] >= low[1:]).all()
        assert (x[:, 1:] <= high[1:]).all()

    for cost in (None, Cost(l1=0.05), Cost(scale="std", l1=0.1).fit(X)):
        cfs = invert(estimator, rows, targets, prob=tau, cost=cost, actions=actions)
        reached = promised(estimator, cfs, hold)
        assert reached.sum() > n / 2
        cfs.verify()
    for i in range(0, n, 6):  # one by one the estimator sums in another order, and so do we
        one = invert(estimator, rows[i], targets[i], prob=tau, cost=cost, actions=actions)
        assert one.status == cfs.status[i]
        if one.status is Status.EXACT:
            assert estimator.predict(one.x[None])[0] == targets[i]
            assert estimator.predict_proba(one.x[None])[0, np.searchsorted(estimator.classes_, targets[i])] >= tau
            np.testing.assert_allclose(one.x, cfs.x[i], rtol=1e-7, atol=1e-9 * np.abs(X).max())


def test_names_of_a_frame_and_raw_units():
    estimator, X = pipeline("wine", "standard", columns=True)
    model = as_model(estimator)
    row = X.iloc[0]
    actions = Actions(
        frozen="alcohol", bounds={"proline": (500, 1000)}, decrease=["hue"], linear=[({"ash": 1, "flavanoids": 1}, "<=", 6)]
    )
    cf = invert(estimator, row, 1, prob=0.8, cost=Cost(scale="raw", l1={"proline": 0.01}), actions=actions)
    x = dict(zip(X.columns, cf.x, strict=True))
    assert x["alcohol"] == row["alcohol"]
    assert 500 <= x["proline"] <= 1000
    assert x["hue"] <= row["hue"]
    assert x["ash"] + x["flavanoids"] <= 6
    assert estimator.predict_proba(pd.DataFrame([cf.x], columns=X.columns))[0, 1] >= 0.8
    change = cf.x - row.to_numpy()
    assert cf.distance == pytest.approx(np.linalg.norm(change), rel=1e-12)  # one raw unit is one unit of cost
    own = invert(estimator, row, 1, prob=0.8, actions=actions)
    assert own.distance == pytest.approx(np.linalg.norm((own.x - row.to_numpy()) / model.scaling.scale), rel=1e-12)
