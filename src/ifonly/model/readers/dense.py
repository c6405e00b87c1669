"""Keras: the weights of a ``Dense`` layer, usually a network's last.

Its outputs are read as logits. With the activation ``softmax``, or with none (``linear``) and two or more units:
``p = softmax(outputs)``. With ``sigmoid``, or with none and one unit: class 1 has ``p = 1/(1 + exp(−output))``, class 0 the
rest. Classes are called 0 … K−1; x is what the layer takes.
"""

from typing import Any

import numpy as np

from ifonly.model import LinearWeights, Model
from ifonly.model.errors import UnsupportedModelError

__all__ = ["read"]


def read(layer: Any) -> Model:
    """A ``Dense`` layer."""
    _check(layer)
    given = layer.get_weights()
    eps = max(float(np.finfo(weights.dtype).eps) for weights in given)
    kernel, *bias = (np.asarray(weights, dtype=np.float64) for weights in given)
    K = kernel.shape[1]
    activation = getattr(layer.activation, "__name__", type(layer.activation).__name__)
    if activation not in ("softmax", "log_softmax", "sigmoid", "linear"):
        raise UnsupportedModelError(
            f"the Dense layer's activation is {activation}. Expected softmax, sigmoid, or none (linear) for logits"
        )
    if activation == "sigmoid" and K > 1:
        raise UnsupportedModelError(
            f"sigmoid over {K} units gives {K} independent yes-or-no answers, not one class; "
            "for one of them: Model.binary(kernel[:, k], bias[k])"
        )
    if activation in ("softmax", "log_softmax") and K == 1:
        raise UnsupportedModelError(f"{activation} over 1 unit is constant; expected 2 or more units, or sigmoid")
    return LinearWeights(kernel.T, bias[0] if bias else np.zeros(K), None).model(precision=eps)


def _check(layer: Any) -> None:
    """Whether this is a ``Dense`` layer with weights that are what it computes with."""
    kind = type(layer).__name__
    if kind != "Dense" or not type(layer).__module__.startswith(("keras.", "tf_keras.")):
        inner = getattr(layer, "layers", None)
        last = type(inner[-1]).__name__ if inner else ""
        hint = "its last layer works, over the features which that layer takes: as_model(model.layers[-1])"
        raise UnsupportedModelError(
            f"{kind} is not understood. Expected a Dense layer; "
            + (hint if last == "Dense" else "for any other linear softmax give its weights: Model(A, b)")
        )
    if not layer.built:
        raise UnsupportedModelError("the Dense layer has no weights yet; pass data through it first")
    if getattr(layer, "quantization_mode", None) is not None:
        raise UnsupportedModelError(f"the Dense layer is quantized ({layer.quantization_mode}), which is not linear")
