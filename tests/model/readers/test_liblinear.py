"""Files of LIBLINEAR are read exactly, or refused with a reason."""

import numpy as np
import pytest
from helpers.libraries import EXACT
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from ifonly import InputError, UnsupportedModelError, invert, load

X, Y = load_iris(return_X_y=True)


# Written by LIBLINEAR 2.50 (`train -s 0 -B 2.5`), with the probabilities that its own `predict -b 1` gives at (1, −2, 3).
LIBLINEAR = (
    "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 3\nbias 2.5\nw\n"
    "2.227567618388496 \n1.4669694524134433 \n0.62084678546021332 \n-0.17367395230756771 \n"
)


def liblinear(tmp_path, text=LIBLINEAR, name="heart.model"):
    (tmp_path / name).write_text(text)
    return load(tmp_path / name)


@pytest.mark.parametrize("name", ["heart.model", "heart_scale", "a1a.txt"])
def test_a_liblinear_file_is_read_exactly(tmp_path, rng, name):
    model = liblinear(tmp_path, name=name)
    assert model.classes.tolist() == [1, -1]
    w, w0 = np.array([2.227567618388496, 1.4669694524134433, 0.62084678546021332]), -0.17367395230756771 * 2.5
    X = rng.normal(size=(500, 3))
    np.testing.assert_allclose(model.predict_proba(X)[:, 0], 1 / (1 + np.exp(-(X @ w + w0))), **EXACT)
    targets = np.array([1, -1])[rng.integers(2, size=500)]
    found = invert(model, X, targets).x @ w + w0
    np.testing.assert_array_equal(np.where(found > 0, 1, -1), targets)


@pytest.mark.parametrize("solver", ["L2R_LR", "L1R_LR", "L2R_LR_DUAL"])
def test_a_liblinear_file_without_a_bias_is_read_exactly(tmp_path, solver):
    text = f"solver_type {solver}\nnr_class 2\nlabel 7 3\nnr_feature 2\nbias -1\nw\n1.5 \n-0.5 \n"
    model = liblinear(tmp_path, text)
    assert model.classes.tolist() == [7, 3]
    np.testing.assert_allclose(model.predict_proba([1.0, 2.0])[0], 1 / (1 + np.exp(-0.5)), **EXACT)


def test_liblinear_agrees_with_scikit_learns_copy_of_it(tmp_path, rng):
    """scikit-learn fits with LIBLINEAR's code; a file in its format with those weights gives the same probabilities."""
    y = (Y > 0).astype(int)
    estimator = LogisticRegression(solver="liblinear", intercept_scaling=2.0).fit(X, y)
    rows = [*estimator.coef_[0], estimator.intercept_[0] / 2.0]
    weights = "".join(f"{weight!r} \n" for weight in map(float, rows))
    text = f"solver_type L2R_LR\nnr_class 2\nlabel 1 0\nnr_feature 4\nbias 2\nw\n{weights}"
    model = liblinear(tmp_path, text)
    np.testing.assert_allclose(model.predict_proba(X)[:, ::-1], estimator.predict_proba(X), **EXACT)


def test_a_liblinear_file_of_a_support_vector_machine_has_scores_only(tmp_path):
    text = "solver_type MCSVM_CS\nnr_class 3\nlabel 1 2 0\nnr_feature 2\nbias 1\nw\n1 0 -1 \n0 1 -1 \n0.5 0 0 \n"
    model = liblinear(tmp_path, text)
    assert model.hard
    assert model.predict([[1.0, 0.0], [0.0, 2.0], [-3.0, -3.0]]).tolist() == [1, 2, 0]
    text = "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 2\nnr_feature 2\nbias 1\nw\n1 \n-1 \n0.5 \n"
    two = liblinear(tmp_path, text)
    assert two.hard
    assert two.predict([[1.0, 0.0], [0.0, 2.0]]).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"nr_class 2": "nr_class 3", "label 1 -1": "label 1 -1 2"},
            UnsupportedModelError,
            "one-vs-rest.*not a softmax.*multinomial",
        ),
        ({"L2R_LR": "L2R_L2LOSS_SVR"}, UnsupportedModelError, "the solver L2R_L2LOSS_SVR makes no classifier"),
        ({"\nw\n": "\n"}, InputError, "damaged, or no model file of LIBLINEAR's .*no line “w”"),
        ({"nr_feature 3\n": ""}, InputError, r"damaged, or no model file of LIBLINEAR's \('nr_feature'\)"),
        ({"nr_feature 3": "nr_feature 4"}, InputError, "it has 4 weights; expected 5 × 1"),
        ({"label 1 -1": "label 1"}, InputError, "it has 2 classes and 1 labels"),
        ({"2.227567618388496": "2.2.2"}, InputError, "damaged"),
        ({"2.227567618388496": "nan"}, InputError, "A must be finite"),
    ],
)
def test_a_liblinear_file_that_does_not_fit_is_refused(tmp_path, changes, error, message):
    text = LIBLINEAR
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(error, match=rf"heart\.model: .*{message}"):
        liblinear(tmp_path, text)
