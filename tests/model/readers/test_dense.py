"""Dense layers of Keras are read exactly, or refused with a reason."""

import sys

import numpy as np
import pytest
from helpers.libraries import CLEAR, EXACT, SINGLE, D, needs, softmax, sources

from ifonly import UnsupportedModelError, as_model, invert

ITS_OWN = "ignore:__array__ implementation:DeprecationWarning"  # Keras 3.15 with NumPy 2.4, in get_weights


@pytest.fixture
def keras(monkeypatch):
    needs("torch", "torch==2.13.0")
    if "keras" not in sys.modules:
        monkeypatch.setenv("KERAS_BACKEND", "torch")
    return needs("keras")


DENSE = {
    "softmax": (4, {"activation": "softmax"}),
    "logits": (4, {}),
    "no bias": (3, {"activation": "softmax", "use_bias": False}),
    "sigmoid": (1, {"activation": "sigmoid"}),
    "one logit": (1, {}),
}


@pytest.mark.filterwarnings(ITS_OWN)
@pytest.mark.parametrize("kind", DENSE)
def test_a_dense_layer_is_read_exactly(keras, rng, kind):
    units, options = DENSE[kind]
    layer = keras.layers.Dense(units, bias_initializer="random_normal", **options)
    layer.build((None, D))
    model = as_model(layer)
    kernel, *bias = (np.asarray(w, dtype=np.float64) for w in layer.get_weights())

    def probabilities(outputs, linear):
        if units == 1:
            p = 1 / (1 + np.exp(-outputs)) if linear else outputs
            return np.column_stack([1 - p, p])
        return softmax(outputs) if linear else outputs

    X, targets = sources(rng, max(units, 2))
    X = X.astype(np.float32)
    np.testing.assert_allclose(model.predict_proba(X), probabilities(X @ kernel + (bias[0] if bias else 0), True), **EXACT)
    own = keras.ops.convert_to_numpy(layer(X))
    np.testing.assert_allclose(model.predict_proba(X), probabilities(own, "activation" not in options), **SINGLE)
    cfs = invert(layer, X, targets, prob=CLEAR)
    found = probabilities(keras.ops.convert_to_numpy(layer(cfs.x.astype(np.float32))), "activation" not in options)
    np.testing.assert_array_equal(found.argmax(axis=1), targets)


@pytest.mark.filterwarnings(ITS_OWN)
def test_a_dense_layer_that_is_not_linear_is_refused(keras):
    def built(units, **options):
        layer = keras.layers.Dense(units, **options)
        layer.build((None, D))
        return layer

    for layer, message in (
        (built(3, activation="relu"), "activation is relu. Expected softmax, sigmoid, or none"),
        (built(3, activation="sigmoid"), "sigmoid over 3 units gives 3 independent"),
        (built(1, activation="softmax"), "softmax over 1 unit is constant"),
        (keras.layers.Dense(3), "no weights yet"),
        (keras.layers.Flatten(), "Flatten is not understood. Expected a Dense layer"),
        (
            keras.Sequential([keras.layers.Input((D,)), keras.layers.Dense(3)]),
            r"Sequential is not.*as_model\(model\.layers\[-1\]\)",
        ),
    ):
        with pytest.raises(UnsupportedModelError, match=message):
            as_model(layer)
