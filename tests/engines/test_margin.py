"""`margin=`: the nearest input whose score for the target is ahead of all others, against a conic solver."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from ifonly import Actions, Cost, InputError, Model, Status, as_model, invert, path
from ifonly.native import compiled

pytestmark = pytest.mark.usefixtures("loops")

SAME_COST = 1e-7  # relative, of Clarabel's optimum and ours
D = 6
CASES = [(K, margin) for K in (2, 3, 7) for margin in (0.0, 0.1, 2.0)]


def problem(K, margin, seed=0):
    rng = np.random.default_rng([K, int(10 * margin), seed])
    model = Model(rng.normal(size=(K, D)), rng.normal(size=K))
    x = np.clip(2 * rng.normal(size=D), -2.5, 2.5)
    return model, x, int(model.logits(x).argmin())


def conic(model, x, k, margin, *, low=None, high=None, frozen=(), unit=None, l1=0.0):
    """The same quadratic program, as a user of cvxpy would write it: the optimal cost, or None."""
    v = cp.Variable(D)
    t = cp.multiply(np.ones(D) if unit is None else unit, v - x)
    rules = [(model.A[k] - model.A[j]) @ v + model.b[k] - model.b[j] >= margin for j in range(len(model.b)) if j != k]
    rules += [] if low is None else [v >= low, v <= high]
    rules += [v[d] == x[d] for d in frozen]
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(t) + l1 * cp.norm1(t)), rules)
    program.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return program.value if program.status == "optimal" else None


def lead(model, x, k):
    z = model.logits(x)
    return z[k] - np.delete(z, k).max()


def check(cf, model, x, k, margin, best):
    assert cf.status is Status.EXACT
    assert lead(model, cf.x, k) >= margin
    assert model.predict(cf.x) == k
    assert cf.cost == pytest.approx(best, rel=SAME_COST, abs=1e-12)
    assert cf.gap <= SAME_COST * cf.cost
    assert cf.verify().claim == "proved"


@pytest.mark.parametrize(("K", "margin"), CASES)
def test_it_is_the_nearest_input_with_that_lead(K, margin):
    for seed in range(5):
        model, x, k = problem(K, margin, seed)
        check(invert(model, x, k, margin=margin), model, x, k, margin, conic(model, x, k, margin))


@pytest.mark.parametrize(("K", "margin"), CASES)
def test_with_limits_and_costs_too(K, margin):
    reached = 0
    for seed in range(5):
        model, x, k = problem(K, margin, seed)
        unit = np.linspace(0.5, 2.0, D)
        actions = Actions(bounds=(-2.5, 2.5), frozen=[1])
        cf = invert(model, x, k, margin=margin, actions=actions, cost=Cost(unit, l1=0.05))
        best = conic(model, x, k, margin, low=-2.5, high=2.5, frozen=[1], unit=unit, l1=0.05)
        if best is None:
            assert cf.status is Status.UNREACHABLE
            continue
        reached += 1
        check(cf, model, x, k, margin, best)
        assert cf.x[1] == x[1]
        assert (np.abs(cf.x) <= 2.5).all()
    assert reached


@pytest.mark.parametrize("K", [2, 3])
def test_where_the_lead_is_out_of_reach_the_largest_there_is_is_named(K):
    model, x, k = problem(K, 0.0)
    actions = Actions(bounds={d: (x[d] - 0.1, x[d] + 0.1) for d in range(D)})
    cf = invert(model, x, k, margin=5.0, actions=actions)
    v, m = cp.Variable(D), cp.Variable()
    rules = [(model.A[k] - model.A[j]) @ v + model.b[k] - model.b[j] >= m for j in range(K) if j != k]
    program = cp.Problem(cp.Maximize(m), [*rules, v >= x - 0.1, v <= x + 0.1])
    program.solve(solver="CLARABEL")
    assert cf.status is Status.UNREACHABLE
    assert lead(model, cf.x, k) == pytest.approx(program.value, abs=1e-6)
    assert f"a lead of 5 over every other class is out of reach for {k}: the best that was found is" in cf.message
    assert "≤" in cf.message or "≥" in cf.message


@pytest.mark.parametrize("K", [2, 3])
def test_whole_numbers_and_categories(K):
    """Against all combinations there are."""
    rng = np.random.default_rng(K)
    model = Model(rng.normal(size=(K, 5)), rng.normal(size=K))
    x = np.array([1.0, 0.0, 0.0, 2.0, -1.0])
    k = int(model.logits(x).argmin())
    actions = Actions(one_of=[[0, 1, 2]], integer=[3, 4], bounds={3: (-6, 6), 4: (-6, 6)})
    cf = invert(model, x, k, margin=0.3, actions=actions)
    every = [np.array([*np.eye(3)[i], a, b]) for i in range(3) for a in range(-6, 7) for b in range(-6, 7)]
    costs = [0.5 * float((v - x) @ (v - x)) for v in every if lead(model, v, k) >= 0.3]
    if not costs:
        assert cf.status is Status.UNREACHABLE
    else:
        assert cf.cost == pytest.approx(min(costs))
        assert lead(model, cf.x, k) >= 0.3


@pytest.mark.parametrize("K", [2, 4])
def test_a_table_has_the_answers_of_its_rows(K):
    model, _, k = problem(K, 0.0)
    X = 2 * np.random.default_rng(1).normal(size=(40, D))
    X[7, 2] = np.nan
    for options in ({}, {"actions": Actions(bounds=(-9, 9), frozen=[0])}):
        cfs = invert(model, X, k, margin=0.5, **options)
        assert cfs.status[7] == Status.INVALID
        for i in range(0, 40, 3):
            one = invert(model, X[i], k, margin=0.5, **options)
            np.testing.assert_allclose(cfs.x[i], one.x, rtol=0, atol=1e-9)
            assert (cfs.cost[i], cfs.objective[i]) == pytest.approx((one.cost, one.objective))
            assert cfs[i].verify().claim == "proved"


def test_a_source_that_is_ahead_stays():
    model, x, _ = problem(3, 0.0)
    k = int(model.logits(x).argmax())
    assert (invert(model, x, k, margin=0.0).x == x).all()


def test_the_nearest_other_class_is_the_nearest_of_all():
    model, x, _ = problem(4, 0.0)
    now = int(model.logits(x).argmax())
    cf = invert(model, x, margin=0.2)
    each = [invert(model, x, k, margin=0.2).cost for k in range(4) if k != now]
    assert cf.cost == min(each)
    assert cf.target != now


def test_a_lead_is_what_prob_asks_for_with_two_classes():
    """p ≥ τ is a lead of logit τ."""
    model, x, k = problem(2, 0.0)
    np.testing.assert_allclose(invert(model, x, k, prob=0.8).x, invert(model, x, k, margin=np.log(4.0)).x, atol=1e-9)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, "far", [0.1, 0.2]])
def test_a_margin_is_a_number(bad):
    model, x, k = problem(3, 0.0)
    with pytest.raises(InputError, match="margin must be a number ≥ 0; got"):
        invert(model, x, k, margin=bad)


def test_only_one_of_the_three_is_asked_for():
    model, x, k = problem(3, 0.0)
    with pytest.raises(InputError, match="give one of prob and margin, not both"):
        invert(model, x, k, prob=0.7, margin=0.1)


def test_a_thousand_wines_and_a_support_vector_machine():
    wine = load_wine(as_frame=True)
    X, y = wine.data, wine.target_names[wine.target]
    estimator = make_pipeline(StandardScaler(), LinearSVC()).fit(X, y == "class_1")
    rng, n = np.random.default_rng(0), 100 if compiled() is None else 1000
    rows = X.iloc[rng.integers(len(X), size=n)] * rng.uniform(0.8, 1.25, size=(n, X.shape[1]))
    cfs = invert(estimator, rows)
    np.testing.assert_array_equal(estimator.predict(cfs.x), ~estimator.predict(rows))
    assert (cfs.status == Status.EXACT).all()
    assert "lead" in repr(cfs[0])
    with pytest.raises(InputError, match="path needs probabilities, and this model has only scores"):
        path(estimator, rows.iloc[0])


def test_an_ordinary_model_takes_a_margin_too():
    wine = load_wine(as_frame=True)
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(wine.data, wine.target)
    cfs = invert(estimator, wine.data.iloc[:30], 2, margin=1.0)
    z = np.sort(as_model(estimator).logits(cfs.x), axis=1)
    assert (z[:, -1] - z[:, -2] >= 1.0).all()
    assert (estimator.predict(cfs.x) == 2).all()
