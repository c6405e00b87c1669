"""Linear boosters of xgboost are read exactly, fitted or from files; trees are refused."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from helpers.libraries import CLEAR, EXACT, SINGLE, D, N, needs, softmax, sources
from sklearn.datasets import load_iris

from ifonly import InputError, UnsupportedModelError, as_model, invert, load
from ifonly.model.readers.boosted import from_json


@pytest.fixture
def xgboost():
    return needs("xgboost", "xgboost-cpu")


BOOSTED = {
    "binary": (2, {}),
    "binary, base score": (2, {"base_score": 0.2}),
    "several": (4, {}),
    "several, base score": (4, {"base_score": 0.8}),
    "several, softmax": (4, {"objective": "multi:softmax"}),
}


def boosted(xgboost, rng, kind):
    K, options = BOOSTED[kind]
    X = rng.normal(size=(500, D))
    y = (X @ rng.normal(size=(D, K)) + rng.gumbel(size=(500, K))).argmax(axis=1)
    return xgboost.XGBClassifier(booster="gblinear", n_estimators=15, **options).fit(X, y)


def weights_in(booster):
    """The weights in xgboost's binary format, an array of big-endian float32 (its text and ``coef_`` have six digits)."""
    raw = bytes(booster.save_raw("ubj"))
    at = raw.index(b"weights[$d#L") + len(b"weights[$d#L")
    count = int.from_bytes(raw[at : at + 8], "big")
    return np.frombuffer(raw, ">f4", count, at + 8).astype(np.float64).reshape(D + 1, -1)


@pytest.mark.parametrize("kind", BOOSTED)
def test_gblinear_is_read_exactly(xgboost, rng, kind):
    estimator = boosted(xgboost, rng, kind)
    model, K = as_model(estimator), BOOSTED[kind][0]
    X = rng.normal(size=(N, D)).astype(np.float32)
    booster = estimator.get_booster()
    margins = booster.predict(xgboost.DMatrix(X), output_margin=True).reshape(N, -1)
    own = softmax(np.column_stack([np.zeros(N), margins]) if K == 2 else margins)
    np.testing.assert_allclose(model.predict_proba(X), own, **SINGLE)
    if "softmax" not in kind:
        np.testing.assert_allclose(model.predict_proba(X), estimator.predict_proba(X), **SINGLE)
    W = weights_in(booster)
    z = X @ W[:-1] + W[-1]
    if K == 2:
        (base,) = json.loads(json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"])
        base = float(np.float32(base))
        z = np.column_stack([np.zeros(N), z + np.log(base / (1 - base))])
    np.testing.assert_allclose(model.predict_proba(X), softmax(z), **EXACT)
    np.testing.assert_array_equal(model.classes, estimator.classes_)


def test_base_scores_that_xgboost_adds_to_each_class_are_added(xgboost, rng):
    """xgboost 3.2 writes one for each class and adds the first to all; were it to add each to its own, so would we."""
    document = json.loads(bytes(boosted(xgboost, rng, "several").get_booster().save_raw("json")))
    parameters = document["learner"]["learner_model_param"]
    parameters["base_score"] = "[1E0,2E0,3E0,4E0]"
    bias = np.array(document["learner"]["gradient_booster"]["model"]["weights"][-4:], dtype=np.float32).astype(np.float64)
    steps = np.array([1.0, 2.0, 3.0, 4.0])
    each, first = (from_json(document, lambda add=add: bias + add).b for add in (steps, 1.0))
    np.testing.assert_array_equal(each, bias + steps)
    np.testing.assert_array_equal(first, bias + 1.0)
    with pytest.raises(UnsupportedModelError, match="own margins at x = 0 are neither"):
        from_json(document, lambda: bias - steps)


@pytest.mark.parametrize("kind", BOOSTED)
def test_gblinear_predicts_the_target_at_every_answer(xgboost, rng, kind):
    estimator = boosted(xgboost, rng, kind)
    X, targets = sources(rng, BOOSTED[kind][0])
    for model in (estimator, estimator.get_booster()):
        cfs = invert(model, X, targets, prob=CLEAR)
        np.testing.assert_array_equal(estimator.predict(cfs.x), targets)


def test_gblinear_keeps_the_features_names(xgboost, rng):
    frame = pd.DataFrame(rng.normal(size=(100, 3)), columns=["age", "income", "rate"])
    estimator = xgboost.XGBClassifier(booster="gblinear", n_estimators=3).fit(frame, frame["age"] > 0)
    assert as_model(estimator).feature_names == ("age", "income", "rate")


def test_trees_of_xgboost_are_refused(xgboost, rng):
    X = rng.normal(size=(100, 3))
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(UnsupportedModelError, match=r'booster is "gbtree": trees are not linear.*booster="gblinear"'):
        as_model(xgboost.XGBClassifier(n_estimators=2).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="XGBRegressor is not understood"):
        as_model(xgboost.XGBRegressor(booster="gblinear", n_estimators=2).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="objective is reg:squarederror"):
        as_model(xgboost.XGBRegressor(booster="gblinear", n_estimators=2).fit(X, y).get_booster())
    with pytest.raises(UnsupportedModelError, match="XGBClassifier is not fitted"):
        as_model(xgboost.XGBClassifier(booster="gblinear"))


X, Y = load_iris(return_X_y=True)


# ---- files ----


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
@pytest.mark.parametrize("K", [2, 3])
def test_a_file_of_xgboosts_is_read_exactly(tmp_path, rng, suffix, K):
    xgboost = needs("xgboost", "xgboost-cpu")
    estimator = xgboost.XGBClassifier(booster="gblinear", n_estimators=10).fit(X, np.minimum(Y, K - 1))
    estimator.save_model(tmp_path / f"m{suffix}")
    assert load(tmp_path / f"m{suffix}") == as_model(estimator)
    estimator = xgboost.XGBClassifier(n_estimators=2).fit(X, np.minimum(Y, K - 1))
    estimator.save_model(tmp_path / f"m{suffix}")
    with pytest.raises(UnsupportedModelError, match='booster is "gbtree": trees are not linear'):
        load(tmp_path / f"m{suffix}")


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
def test_a_file_of_xgboosts_with_two_classes_needs_no_xgboost(tmp_path, monkeypatch, suffix):
    xgboost = needs("xgboost", "xgboost-cpu")
    estimator = xgboost.XGBClassifier(booster="gblinear", n_estimators=10).fit(X, Y > 0)
    estimator.save_model(tmp_path / f"m{suffix}")
    model = as_model(estimator)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert load(tmp_path / f"m{suffix}") == model


def test_a_binary_file_with_other_bytes_is_refused_and_nothing_crashes(tmp_path, rng):
    """xgboost's own reader ends the process, say where a key is not there; so it is not asked."""
    xgboost = needs("xgboost", "xgboost-cpu")
    estimator = xgboost.XGBClassifier(booster="gblinear", n_estimators=2).fit(X, Y > 0)
    data = bytes(estimator.get_booster().save_raw("ubj"))
    file, refused = tmp_path / "m.ubj", 0
    file.write_bytes(data.replace(b"weights", b"veights"))
    with pytest.raises(InputError, match=r"damaged \('weights'\)"):
        load(file)
    for place in rng.choice(len(data), size=300, replace=False):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        with np.errstate(all="ignore"):  # a base score that is no probability
            try:
                load(file)
            except (InputError, UnsupportedModelError):
                refused += 1
    assert refused > 200


def test_a_file_of_xgboosts_that_is_damaged_is_refused(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps({"learner": {"gradient_booster": {}}}))
    with pytest.raises(InputError, match="not a model of xgboost's as it is understood here, or it is damaged"):
        load(tmp_path / "m.json")
    needs("xgboost", "xgboost-cpu")
    (tmp_path / "m.ubj").write_bytes(b"{nonsense")
    with pytest.raises(InputError, match="is damaged, or no model of xgboost's"):
        load(tmp_path / "m.ubj")
