"""The promise of ``prob=τ``: p(target) ≥ τ and the label flips, as the user's own estimator evaluates them, and no x is nearer.

"No slack" is meant: every comparison with τ below is a bare ``>=`` on what ``predict_proba`` returns.
"""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from helpers.problems import half
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from ifonly import Model, Status, as_model, invert, load

pytestmark = pytest.mark.usefixtures("loops")

DATA = {
    "cancer": load_breast_cancer,  # binary, D = 30, columns from 1e-3 to 4e3
    "wine": load_wine,  # K = 3, D = 13
    "iris": load_iris,  # K = 3, D = 4
    "digits": load_digits,  # K = 10, D = 64, some columns constant
}
SCALERS = {
    "alone": (),
    "standard": (StandardScaler,),
    "minmax": (MinMaxScaler,),
    "maxabs": (MaxAbsScaler,),
    "robust": (RobustScaler,),
    "standard, minmax": (StandardScaler, MinMaxScaler),
    "minmax, robust": (MinMaxScaler, RobustScaler),
}
TAUS = [0.5, 0.6, 0.9, 0.999, 1 - 1e-9, 1 - 2.0**-53]

# Every pair of data and scalers, of scalers and τ, of data and τ; not every three.
TRIPLES = [
    (data, scalers, tau)
    for i, data in enumerate(DATA)
    for j, scalers in enumerate(SCALERS)
    for m, tau in enumerate(TAUS)
    if (i + j + m) % 3 == 0
]

SOURCES, ALONE = 100, 15  # of a table, and of these those that are evaluated row by row besides
EPS = np.finfo(float).eps


@cache
def fitted(data, scalers, column=None):
    """(estimator, X): the data's classifier behind the scalers, perhaps with one more column of the given mean and spread."""
    X, y = (part[:600] for part in DATA[data](return_X_y=True))
    if column is not None:
        mean, spread = column
        noise = np.random.default_rng(len(data)).normal(size=len(X)) + y
        X = np.column_stack([X, mean + spread * noise])
    steps = [scaler() for scaler in SCALERS[scalers]]
    solver = "lbfgs" if data == "digits" else "newton-cholesky"  # fast enough there, and converges without a scaler here
    return make_pipeline(*steps, LogisticRegression(solver=solver, max_iter=5000)).fit(X, y), X


def drawn(rng, estimator, X, n=SOURCES):
    """Sources from the data, with targets of which most are not the class that is predicted."""
    return X[rng.choice(len(X), n, replace=False)], rng.choice(estimator.classes_, n)


def probability_of(classes, proba, target):
    return proba[np.arange(len(proba)), np.searchsorted(classes, target)]


def assert_kept(classifier, classes, cfs, tau):
    """p ≥ τ and the label, evaluated in one batch and row by row, where BLAS sums in another order."""
    assert set(cfs.status) == {Status.EXACT}
    one_by_one = [cf.x[None] for cf in cfs[:ALONE]]
    for X, target in [([cfs.x], cfs.target), (one_by_one, cfs.target[:ALONE])]:
        p = probability_of(classes, np.concatenate([classifier.predict_proba(x) for x in X]), target)
        assert (p >= tau).all(), f"in {len(X)} batches: short by {(tau - p).max():.2g}"
        np.testing.assert_array_equal(np.concatenate([classifier.predict(x) for x in X]), target)


def assert_tight(estimator, cfs, tau):
    """Where x had to move, τ is overshot by no more than rounding asks for."""
    p = probability_of(estimator.classes_, estimator.predict_proba(cfs.x), cfs.target)
    moved = cfs.distance > 0
    assert moved.sum() > len(cfs) / 4
    assert (p - tau)[moved].max() <= 1e-9


def assert_nearest(cfs, tau):
    """No x with p ≥ τ is nearer: any such x has (λ/2)‖x − x̄‖² ≥ E* + ln τ ≥ E − gap + ln τ, all recomputed by verify.

    To 1e-9 of the distance, and what rounding costs: (K + 16)·EPS in E and p, sums of K terms, and 1e-12 of its length in x.
    """
    for cf in cfs:
        found = cf.verify()
        if cf.distance > 0:
            length = np.linalg.norm(cf.source if cf.model.scaling is None else cf.model.scaling(cf.source))
            slack = cf.lam * cf.distance * (1e-9 * cf.distance + 1e-12 * length) + (len(cf.proba) + 16) * EPS
            assert cf.lam / 2 * cf.distance**2 <= found.objective - found.gap + np.log(tau) + slack


@pytest.mark.parametrize(("data", "scalers", "tau"), TRIPLES)
def test_the_estimator_itself_finds_the_probability_and_the_label(rng, data, scalers, tau):
    estimator, X = fitted(data, scalers)
    x, target = drawn(rng, estimator, X)
    cfs = invert(estimator, x, target, prob=tau)
    assert_kept(estimator, estimator.classes_, cfs, tau)
    assert_tight(estimator, cfs, tau)


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize(
    ("data", "scalers", "column"),
    [
        ("cancer", "standard", (2e6, 1e-3)),
        ("cancer", "minmax", (2e6, 1.0)),
        ("cancer", "minmax, robust", (-3e9, 10.0)),
        ("wine", "standard", (-3e9, 10.0)),
        ("wine", "robust", (2e6, 1e-3)),
        ("wine", "maxabs", (2e6, 1.0)),
        ("wine", "standard, minmax", (2e6, 1e-3)),
    ],
)
def test_a_feature_of_large_mean_and_small_spread_does_not_break_the_promise(rng, data, scalers, column, tau):
    estimator, X = fitted(data, scalers, column)
    x, target = drawn(rng, estimator, X)
    assert_kept(estimator, estimator.classes_, invert(estimator, x, target, prob=tau), tau)


@pytest.mark.parametrize("tau", TAUS)
def test_a_first_scaler_that_drops_digits_does_not_break_the_promise(rng, tau):
    """[1e6, 1e6 + 1] and back to mean 0: the composed map is harmless, but its middle rounds to 1e-10."""
    X, y = load_wine(return_X_y=True)
    estimator = make_pipeline(MinMaxScaler((1e6, 1e6 + 1)), StandardScaler(), LogisticRegression()).fit(X, y)
    x, target = drawn(rng, estimator, X)
    assert_kept(estimator, estimator.classes_, invert(estimator, x, target, prob=tau), tau)


@pytest.mark.parametrize(("tau", "shape"), half(TAUS, [(2, 1), (2, 300), (3, 2), (3, 50), (10, 5), (20, 200)]))
def test_a_model_itself_finds_the_probability_and_the_label(rng, shape, tau):
    K, D = shape
    angle = rng.normal(size=(K, D)) if D > 1 else np.array([[-1.0], [1.0]])
    model = Model(3 * angle / np.linalg.norm(angle, axis=1, keepdims=True), np.zeros(K))  # on a sphere: all are reachable
    X, target = rng.normal(size=(SOURCES, D)), rng.integers(K, size=SOURCES)
    assert_kept(model, model.classes, invert(model, X, target, prob=tau), tau)


@pytest.mark.parametrize(("tau", "scalers", "data"), half(TAUS, ["alone", "minmax, robust"], DATA))
def test_the_promise_holds_for_one_source_at_a_time(rng, data, scalers, tau):
    estimator, X = fitted(data, scalers)
    for x, target in zip(*drawn(rng, estimator, X, ALONE), strict=True):
        cf = invert(estimator, x, target, prob=tau)
        assert cf.status is Status.EXACT
        assert estimator.predict_proba(cf.x[None])[0, np.searchsorted(estimator.classes_, target)] >= tau
        assert estimator.predict(cf.x[None]) == target


@pytest.mark.parametrize("scalers", ["alone", "minmax"])
@pytest.mark.parametrize("data", DATA)
def test_the_adopted_model_finds_what_the_estimator_finds(rng, data, scalers):
    estimator, X = fitted(data, scalers)
    model = as_model(estimator)
    x, target = drawn(rng, estimator, X)
    for tau in TAUS:
        assert_kept(model, model.classes, invert(model, x, target, prob=tau), tau)


# At 1 − 2⁻⁵³ the rounding of p alone is as large as 1 − τ.
@pytest.mark.parametrize(("tau", "scalers", "data"), half(TAUS[:-1], ["alone", "minmax, robust"], DATA))
def test_no_input_that_reaches_the_probability_is_nearer(rng, data, scalers, tau):
    estimator, X = fitted(data, scalers)
    x, target = drawn(rng, estimator, X, 40)
    assert_nearest(invert(estimator, x, target, prob=tau), tau)


def conic(model, x, k, tau):
    """min ‖y − x̄‖ s.t. ln Σ exp(Āy + b̄) ≤ −ln τ, by an interior-point solver; in the classifier's units."""
    y = cp.Variable(model.n_features)
    margins = (model.A - model.A[k]) @ y + (model.b - model.b[k])
    problem = cp.Problem(cp.Minimize(cp.norm(y - x)), [cp.log_sum_exp(margins) <= -np.log(tau)])
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("tau", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("data", ["cancer", "wine", "iris"])
def test_a_conic_solver_finds_the_same_distance(rng, data, tau):
    """1e-6 relative: Clarabel stops at 1e-8 in its own residuals, of a problem that it has scaled."""
    estimator, X = fitted(data, "standard")
    model = as_model(estimator)
    for cf in invert(estimator, X[rng.choice(len(X), 3)], prob=tau):
        k = model.class_index(cf.target)
        assert cf.distance == pytest.approx(conic(model, model.scaling(cf.source), k, tau), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_a_conic_solver_finds_the_same_best_probability(rng, seed):
    """A class in the middle of the others: the status is UNREACHABLE and the probability named the best there is."""
    around = rng.normal(size=(5, 3))
    model = Model(np.vstack([around.mean(axis=0), around]), rng.normal(size=6))
    cf = invert(model, rng.normal(size=3), 0, prob=0.99)
    y = cp.Variable(3)
    least = cp.Problem(cp.Minimize(cp.log_sum_exp((model.A - model.A[0]) @ y + model.b - model.b[0]))).solve(solver=cp.CLARABEL)
    assert cf.status is Status.UNREACHABLE
    assert cf.proba[0] == pytest.approx(np.exp(-least), rel=1e-6)  # Clarabel's own precision, as above


@pytest.mark.parametrize("tau", [0.5, 0.99, 0.9999, 1 - 1e-9])
def test_naive_bayes_itself_finds_the_probability_though_it_subtracts_logarithms(rng, tau, tmp_path):
    y = np.arange(80) % 3
    X = rng.poisson(np.exp(rng.normal(size=(3, 20)))[y] * 5).astype(float)
    for estimator in (MultinomialNB().fit(X, y), ComplementNB().fit(X, y)):
        model = as_model(estimator)
        model.save(tmp_path / "model.npz")
        assert load(tmp_path / "model.npz") == model
        found = invert(model, X, (y + 1) % 3, prob=np.full(len(X), tau))
        seen = estimator.predict_proba(found.x)[np.arange(len(X)), (y + 1) % 3]
        assert (found.status == Status.EXACT).all()
        assert (seen >= tau).all()
        one = invert(model, X[0], 1, prob=tau)
        assert estimator.predict_proba(one.x[None])[0, 1] >= tau
