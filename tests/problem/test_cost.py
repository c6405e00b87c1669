"""Costs fitted from data."""

import numpy as np
import pandas as pd
import pytest

from ifonly import Actions, Cost, Model, invert


@pytest.mark.parametrize("frame", [True, False], ids=["frame", "array"])
@pytest.mark.parametrize("scale", ["std", "mad", "iqr"])
def test_costs_in_units_of_how_much_features_vary(rng, scale, frame):
    X = rng.normal(size=(101, 3)) * [1.0, 10.0, 0.1] + [0, 5, 1]
    spread = {
        "std": X.std(axis=0),
        "mad": np.median(np.abs(X - np.median(X, axis=0)), axis=0),
        "iqr": np.quantile(X, 0.75, axis=0) - np.quantile(X, 0.25, axis=0),
    }[scale]
    model = Model(rng.normal(size=(3, 3)), rng.normal(size=3), feature_names=["a", "b", "c"])
    data = pd.DataFrame(X, columns=["a", "b", "c"])[["c", "a", "b"]] if frame else X  # by name, whatever the order
    for l1 in (0.0, 0.2):
        fitted = Cost(scale=scale, l1=l1).fit(data)
        given = Cost(scale=1 / spread, l1=l1)
        one, two = (invert(model, X[0], 2, prob=0.8, cost=cost, actions=Actions()) for cost in (fitted, given))
        np.testing.assert_allclose(one.x, two.x, rtol=1e-9)
        assert one.distance == pytest.approx(np.linalg.norm((one.x - X[0]) / spread), rel=1e-9)
        plain = invert(model, X[0], 2, prob=0.8, cost=fitted)
        np.testing.assert_allclose(plain.x, one.x, rtol=1e-7, atol=1e-9)


def test_features_that_hardly_vary_have_a_unit_all_the_same():
    X = np.zeros((20, 3))
    X[0, 1] = 5.0  # more than half equal: mad and iqr are 0, the standard deviation is not
    X[:, 2] = np.arange(20)
    model = Model(np.eye(3), np.zeros(3))
    assert Cost(scale="mad").fit(X).per_unit(model)[1] == pytest.approx(1 / X[:, 1].std())
    assert Cost(scale="iqr").fit(X).per_unit(model)[0] == 1.0  # constant: the model's unit
    assert np.isfinite(invert(model, X[0], 2, cost=Cost(scale="mad").fit(X)).x).all()


@pytest.mark.parametrize("actions", [None, Actions(), Actions(frozen=[0])], ids=["none", "empty", "frozen"])
def test_mahalanobis_is_the_plain_problem_in_whitened_features(rng, actions):
    X = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    Q = np.linalg.inv(np.cov(X, rowvar=False))
    A, b = rng.normal(size=(3, 4)), rng.normal(size=3)
    x, k = X[0], int((A @ X[0] + b).argmin())
    cf = invert(Model(A, b), x, k, prob=0.8, cost=Cost.mahalanobis(X), actions=actions)
    cf.verify()
    free = slice(0 if actions is None or not actions.frozen else 1, 4)
    root = np.linalg.cholesky(Q[free, free]).T
    white = Model(A[:, free] @ np.linalg.inv(root), b + A[:, : free.start] @ x[: free.start])
    wanted = invert(white, root @ x[free], k, prob=0.8)
    np.testing.assert_allclose(cf.x[free], np.linalg.solve(root, wanted.x), rtol=1e-8, atol=1e-9)
    assert cf.distance == pytest.approx(wanted.distance, rel=1e-9)
    assert cf.distance == pytest.approx(np.sqrt((cf.x - x) @ Q @ (cf.x - x)), rel=1e-9)
    frame = invert(Model(A, b), x, k, prob=0.8, cost=Cost.mahalanobis(pd.DataFrame(X)), actions=actions)
    np.testing.assert_allclose(frame.x, cf.x, rtol=1e-10)  # columns lie otherwise in memory: sums in another order
