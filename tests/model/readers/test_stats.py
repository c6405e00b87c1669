"""Results of statsmodels are read exactly, or refused with a reason."""

import numpy as np
import pandas as pd
import pytest
from helpers.libraries import EXACT, N, needs

from ifonly import UnsupportedModelError, as_model, invert


@pytest.fixture
def sm():
    needs("statsmodels")
    import statsmodels.api as sm

    return sm


@pytest.fixture
def table(rng):
    """Three columns, and classes that depend on them."""
    X = rng.normal(size=(400, 3)) * [1.0, 5.0, 0.2] + [0.0, 30.0, 1.0]
    scores = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=(3, 3)) + rng.gumbel(size=(400, 3))
    return X, scores.argmax(axis=1)


def fit(model):
    return model.fit(disp=0, method="newton")


CONSTANTS = {
    "first": lambda X: np.column_stack([np.ones(len(X)), X]),
    "last": lambda X: np.column_stack([X, np.ones(len(X))]),
    "between, not 1": lambda X: np.column_stack([X[:, :1], np.full(len(X), 2.5), X[:, 1:]]),
    "none": lambda X: X,
}


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("kind", ["Logit", "MNLogit"])
def test_statsmodels_results_are_read_exactly(sm, rng, table, kind, constant):
    X, y = table
    exog = CONSTANTS[constant]
    res = fit(sm.Logit((y > 0).astype(int), exog(X)) if kind == "Logit" else sm.MNLogit(y, exog(X)))
    model = as_model(res)
    fresh = X[rng.integers(len(X), size=N)] + X.std(axis=0) * rng.normal(size=(N, 3))

    def own(X):
        p = np.asarray(res.predict(exog(X)))
        return np.column_stack([1 - p, p]) if kind == "Logit" else p

    np.testing.assert_allclose(model.predict_proba(fresh), own(fresh), **EXACT)
    assert model.n_features == 3
    assert model.classes.tolist() == ([0, 1] if kind == "Logit" else [0, 1, 2])
    targets = rng.integers(model.n_classes, size=N)
    cfs = invert(res, fresh, targets)
    np.testing.assert_array_equal(own(cfs.x).argmax(axis=1), targets)
    assert (own(cfs.x)[np.arange(N), targets] >= 0.5 - 1e-15).all()


def test_statsmodels_names_come_without_the_constant(sm, table):
    X, y = table
    frame = pd.DataFrame(X, columns=["age", "income", "rate"])
    model = as_model(fit(sm.Logit((y > 0).astype(int), sm.add_constant(frame))))
    assert model.feature_names == ("age", "income", "rate")
    np.testing.assert_array_equal(model.predict_proba(frame[["rate", "age", "income"]]), model.predict_proba(X))
    assert as_model(fit(sm.Logit((y > 0).astype(int), sm.add_constant(X)))).feature_names == ("x1", "x2", "x3")


def test_statsmodels_columns_that_add_up_to_a_constant_are_features(sm, rng, table):
    X, y = table
    dummies = np.eye(2)[rng.integers(2, size=len(X))]
    res = fit(sm.Logit((y > 0).astype(int), np.column_stack([dummies, X])))
    model = as_model(res)
    assert model.n_features == 5
    np.testing.assert_allclose(model.predict_proba(res.model.exog)[:, 1], res.predict(), **EXACT)


LABELS = {
    "strings": (lambda y: np.array(["bus", "car", "tram"])[y], ["bus", "car", "tram"]),
    "a series": (lambda y: pd.Series(np.array(["bus", "car", "tram"])[y], name="how"), ["bus", "car", "tram"]),
    "categories": (lambda y: pd.Series(pd.Categorical.from_codes(y, ["tram", "bus", "car"])), ["tram", "bus", "car"]),
    "numbers": (lambda y: y + 5, [5, 6, 7]),
    "floats": (lambda y: pd.Series(y + 5.0), [5, 6, 7]),
    "dummies": (lambda y: np.eye(3)[y], [0, 1, 2]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_statsmodels_classes_are_called_as_they_are(sm, table, kind):
    X, y = table
    make, labels = LABELS[kind]
    res = fit(sm.MNLogit(make(y), sm.add_constant(X)))
    assert as_model(res).classes.tolist() == labels
    np.testing.assert_allclose(as_model(res).predict_proba(X), res.predict(), **EXACT)


def test_statsmodels_regularised_results_are_read_exactly(sm, table):
    X, y = table
    res = sm.MNLogit(y, sm.add_constant(X)).fit_regularized(alpha=1.0, disp=0)
    np.testing.assert_allclose(as_model(res).predict_proba(X), res.predict(), **EXACT)
    res = sm.Logit((y > 0).astype(int), sm.add_constant(X)).fit_regularized(alpha=1.0, disp=0)
    np.testing.assert_allclose(as_model(res).predict_proba(X)[:, 1], res.predict(), **EXACT)


def test_statsmodels_formulas_of_plain_columns_are_read_exactly(sm, table):
    import statsmodels.formula.api as smf

    X, y = table
    frame = pd.DataFrame(X, columns=["age", "income", "rate"]).assign(y=(y > 0).astype(int), how=y, who=list("pqqp" * 100))
    for formula, names in (("y ~ rate + age", ("rate", "age")), ("y ~ age + income - 1", ("age", "income"))):
        res = fit(smf.logit(formula, frame))
        model = as_model(res)
        assert model.feature_names == names
        np.testing.assert_allclose(model.predict_proba(frame[list(names)])[:, 1], res.predict(frame), **EXACT)
    res = fit(smf.mnlogit("how ~ age + rate", frame))
    np.testing.assert_allclose(as_model(res).predict_proba(frame[["age", "rate"]]), res.predict(frame), **EXACT)
    for formula, term in (
        ("y ~ np.log(income) + age", r"np\.log\(income\)"),
        ("y ~ age + who", r"who\[T\.q\]"),
        ("y ~ age:rate", "age:rate"),
    ):
        with pytest.raises(UnsupportedModelError, match=f"term '{term}' of the formula .* is computed from columns"):
            as_model(fit(smf.logit(formula, frame)))


def test_statsmodels_other_results_are_refused(sm, table):
    X, y = table
    binary, exog = (y > 0).astype(int), sm.add_constant(X)
    with pytest.raises(UnsupportedModelError, match=r"Probit is the normal distribution function.*fit Logit instead"):
        as_model(fit(sm.Probit(binary, exog)))
    with pytest.raises(UnsupportedModelError, match=r"OLS \(RegressionResultsWrapper\) is not understood.*Logit or MNLogit"):
        as_model(sm.OLS(binary, exog).fit())
    with pytest.raises(UnsupportedModelError, match=r"Logit is not fitted; pass what its fit\(\) returns"):
        as_model(sm.Logit(binary, exog))
    with pytest.raises(UnsupportedModelError, match="fitted with an offset"):
        as_model(fit(sm.Logit(binary, exog, offset=np.ones(len(X)))))
    res = fit(sm.Logit(binary, exog))
    res.remove_data()
    with pytest.raises(UnsupportedModelError, match="the data were removed from the results"):
        as_model(res)
