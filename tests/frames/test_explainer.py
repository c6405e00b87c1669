"""`CounterfactualExplainer` is an estimator of scikit-learn's like any other."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from helpers.tables import made
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import ifonly
from ifonly import Actions, Cost, CounterfactualExplainer, InputError, Status

X, Y = load_iris(return_X_y=True)
SCALED = make_pipeline(StandardScaler(), LogisticRegression())


@parametrize_with_checks(
    [
        CounterfactualExplainer(LogisticRegression(solver="newton-cholesky")),
        CounterfactualExplainer(LogisticRegression(solver="newton-cholesky"), prob=0.8, cost=Cost("std")),
        CounterfactualExplainer(LinearSVC(), margin=0.1),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_it_gives_the_answers_of_invert():
    explainer = CounterfactualExplainer(SCALED, target=2, prob=0.9, actions=Actions(frozen=[0]), max_changes=2).fit(X, Y)
    cfs = explainer.explain(X[:20])
    direct = ifonly.invert(explainer.estimator_, X[:20], 2, prob=0.9, actions=Actions(frozen=[0]), max_changes=2)
    np.testing.assert_array_equal(cfs.x, direct.x)
    np.testing.assert_array_equal(explainer.transform(X[:20]), direct.x)
    np.testing.assert_array_equal(explainer.explain(X[:20], target=1).target, [1] * 20)
    assert explainer.classes_.tolist() == [0, 1, 2]


def test_a_fitted_estimator_needs_no_labels_and_is_left_alone():
    fitted = clone(SCALED).fit(X, Y)
    explainer = CounterfactualExplainer(fitted, target=1).fit(X)
    assert explainer.estimator_ is fitted
    assert (fitted.predict(explainer.transform(X)) == 1).all()
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        CounterfactualExplainer(clone(SCALED)).fit(X)


def test_frames_with_columns_of_all_kinds():
    frame, y = made()
    frame = frame.dropna()
    y = y[frame.index]
    steps = make_column_transformer((StandardScaler(), ["income", "age"]), (OneHotEncoder(), ["job", "city"]))
    explainer = CounterfactualExplainer(
        make_pipeline(steps, LogisticRegression()), cost=Cost("mad"), actions=Actions(integer=["age"])
    )
    changed = explainer.fit_transform(frame, y)
    assert isinstance(changed, pd.DataFrame)
    assert (changed.dtypes == frame.dtypes).all()
    assert (explainer.estimator_.predict(changed) != explainer.estimator_.predict(frame)).all()
    assert not explainer.cost_.needs_data
    assert explainer.get_feature_names_out().tolist() == frame.columns.tolist()


def test_parameters_are_searched_like_any_others():
    explainer = CounterfactualExplainer(LogisticRegression(max_iter=500), target=1)
    copy = clone(explainer).set_params(estimator__C=3.0, prob=0.7)
    assert (copy.estimator.C, copy.prob, explainer.prob) == (3.0, 0.7, None)

    def near(explainer, X, y):
        return -explainer.explain(X).distance.mean()

    search = GridSearchCV(explainer, {"estimator__C": [0.01, 10.0]}, scoring=near, cv=2).fit(X, Y)
    assert search.best_params_ == {"estimator__C": 10.0}


def test_what_has_no_answer_is_not_passed_over():
    explainer = CounterfactualExplainer(SCALED, target=2, actions=Actions(frozen=True)).fit(X, Y)
    assert (explainer.explain(X[:5]).status == Status.UNREACHABLE).all()
    with pytest.raises(InputError, match=r"5 of 5 rows of X cannot be decided as wanted; row 0: p = 0\.5 is out of reach"):
        explainer.transform(X[:5])
    with pytest.raises(NotFittedError):
        CounterfactualExplainer(SCALED).transform(X)


def test_what_is_masked_is_missing():
    explainer = CounterfactualExplainer(SCALED, target=2).fit(X, Y)
    masked = np.ma.array(X[:2], mask=[[True, False, False, False], [False] * 4])
    assert [Status(s).name for s in explainer.explain(masked).status] == ["INVALID", "EXACT"]
    with pytest.raises(InputError, match="1 of 2 rows of X cannot be read; row 0: it has NaN"):
        explainer.transform(masked)


def test_it_survives_pickling():
    explainer = pickle.loads(pickle.dumps(CounterfactualExplainer(SCALED, target=1).fit(X, Y)))
    assert (explainer.estimator_.predict(explainer.transform(X)) == 1).all()


@pytest.mark.seconds
def test_ifonly_loads_scikit_learn_for_it_only():
    code = (
        "import ifonly, sys; print('sklearn' in sys.modules); ifonly.CounterfactualExplainer; print('sklearn' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["False", "True"]
    with pytest.raises(AttributeError, match="module 'ifonly' has no attribute 'Explainer'"):
        _ = ifonly.Explainer
