"""PyTorch: a linear layer, or a chain of layers that is affine in all.

The outputs are read as logits, which is what a network is trained with:

* K ≥ 2 outputs, with ``Softmax`` or ``LogSoftmax`` at the end or with nothing: ``p = softmax(outputs)``;
* one output, with ``Sigmoid`` at the end or with nothing: class 1 has ``p = 1/(1 + exp(−output))``, class 0 the rest.

Classes are called 0 … K−1. A chain ``Linear ∘ BatchNorm1d ∘ …`` is multiplied out in float64, from the module's own weights,
so that x goes in and comes out in the units the module takes, and distances are measured in those: a normalisation inside
the module is not a unit (give ``Cost(scale=…)`` to measure otherwise). x is a flat row: where the module begins with
``Flatten``, flatten before.
"""

import sys
from typing import Any, NamedTuple

import numpy as np

from ifonly.model import LinearWeights, Model, Scaling
from ifonly.model.errors import UnsupportedModelError
from ifonly.model.numerics import Floats
from ifonly.model.tensors import plain

__all__ = ["read"]

NOTHING = ("Identity", "Flatten", "Dropout", "AlphaDropout")  # what changes nothing about a flat row in evaluation
ENDS = ("Softmax", "LogSoftmax", "Sigmoid")
UNDERSTOOD = "Linear, BatchNorm1d, Dropout, Flatten and Identity, with Softmax, LogSoftmax or Sigmoid at the end"


class Layer(NamedTuple):
    """``W x + c``; ``sizes`` bounds the constants that were added up on the way to c, where they may have cancelled."""

    W: Floats
    c: Floats
    sizes: Floats


def read(module: Any) -> Model:
    """A linear layer, or a ``Sequential`` of what is affine."""
    layers = list(_flat(module, ""))
    end = layers.pop()[1] if layers and _kind(layers[-1][1]) in ENDS else None
    made = [(name, _affine(module, layer, name)) for name, layer in layers]
    steps = [(name, step) for name, step in made if step is not None]
    if not any(_kind(layer) == "Linear" for _, layer in layers):
        raise UnsupportedModelError(f"{type(module).__name__} has no Linear layer; expected {UNDERSTOOD}")
    chain = steps[0][1]
    for name, step in steps[1:]:
        chain = _then(chain, step, name)
    if end is not None:
        _check_end(end, len(chain.W))
    scaling, D = None, chain.W.shape[1]
    if len(steps) > 1:  # no change of units, but how much the constants inside a chain can round: as those in a scaler would
        columns = np.abs(chain.W).max(axis=0)
        square = float(columns @ columns)
        scaling = Scaling(np.zeros(D), np.ones(D), float(chain.sizes.max()) / square * columns) if square > 0 else None
    finfo = sys.modules["torch"].finfo
    precision = max(float(finfo(weight.dtype).eps) for weight in module.parameters())
    return LinearWeights(chain.W, chain.c, None).model(scaling=scaling, precision=precision)


def _flat(module: Any, name: str) -> Any:
    """(name, layer) of every layer in the order they are applied."""
    if _kind(module).startswith("Lazy"):
        raise UnsupportedModelError(f"{_where(module, name)} has no weights yet; pass data through it first")
    for hooks in ("_forward_hooks", "_forward_pre_hooks"):
        if getattr(module, hooks, None):
            raise UnsupportedModelError(
                f"{_where(module, name)} has forward hooks, which may change what it computes; remove them, "
                "or give the weights: Model(A, b)"
            )
    if _kind(module) != "Sequential":
        yield name, module
        return
    for key, layer in module.named_children():
        yield from _flat(layer, f"{name}.{key}".lstrip("."))


def _affine(whole: Any, layer: Any, name: str) -> Layer | None:
    """What one layer does to a row; None where it leaves rows as they are."""
    kind, where = _kind(layer), _where(layer, name)
    if kind in NOTHING and layer.training and getattr(layer, "p", 0) > 0:
        raise UnsupportedModelError(f"{where} is in training mode and drops inputs at random; call .eval() first")
    if kind == "Flatten" and (layer.start_dim, layer.end_dim) != (1, -1):
        raise UnsupportedModelError(f"{where} flattens other than all but the first dimension, which is not understood")
    if kind in NOTHING:
        return None
    if kind == "Linear":
        W = _array(layer.weight, where, None)  # as it is: of very many classes no copy is made
        c = np.zeros(len(W)) if layer.bias is None else _array(layer.bias, where)
        return Layer(W, c, np.abs(c))
    if kind == "BatchNorm1d":
        return _normalisation(layer, where)
    raise UnsupportedModelError(f"{where} is not understood. Expected {UNDERSTOOD}. {_hint(whole)}")


def _normalisation(layer: Any, where: str) -> Layer:
    """``γ(x − mean)/√(var + ε) + β``, with the statistics that the layer has gathered."""
    if layer.running_mean is None:
        raise UnsupportedModelError(
            f"{where} keeps no running statistics (track_running_stats=False): its output depends on the other rows of a batch"
        )
    if layer.training:
        raise UnsupportedModelError(
            f"{where} is in training mode, where its output depends on the other rows of a batch; call .eval() first"
        )
    mean, variance = _array(layer.running_mean, where), _array(layer.running_var, where)
    scale = 1 / np.sqrt(variance + layer.eps)
    if layer.weight is not None:
        scale = scale * _array(layer.weight, where)
    bias = np.zeros_like(mean) if layer.bias is None else _array(layer.bias, where)
    return Layer(np.diag(scale), bias - mean * scale, np.abs(bias) + np.abs(mean * scale))


def _then(first: Layer, second: Layer, name: str) -> Layer:
    """Two maps, one after the other."""
    if second.W.shape[1] != first.W.shape[0]:
        raise UnsupportedModelError(
            f"layer {name!r} takes {second.W.shape[1]} features, but what comes before it gives {first.W.shape[0]}"
        )
    first, second = (layer._replace(W=layer.W.astype(np.float64, copy=False)) for layer in (first, second))
    return Layer(second.W @ first.W, second.W @ first.c + second.c, np.abs(second.W) @ first.sizes + second.sizes)


def _check_end(end: Any, K: int) -> None:
    kind = _kind(end)
    if kind == "Sigmoid" and K > 1:
        raise UnsupportedModelError(
            f"Sigmoid over {K} outputs gives {K} independent yes-or-no answers, not one class; "
            "for one of them: Model.binary(weight[k], bias[k])"
        )
    if kind != "Sigmoid" and K == 1:
        raise UnsupportedModelError(f"{kind} over 1 output is constant; expected 2 or more outputs, or Sigmoid")
    if kind != "Sigmoid" and end.dim not in (1, -1, None):
        raise UnsupportedModelError(f"{kind} is over dimension {end.dim}, not over the outputs of each row; use dim=1")


def _array(tensor: Any, where: str, dtype: Any = np.float64) -> Floats:
    if tensor.is_meta:
        raise UnsupportedModelError(f"{where} is on the device “meta” and has no values; load its weights first")
    return np.asarray(plain(tensor), dtype=dtype)


def _kind(layer: Any) -> str:
    """The layer's name, where it is of exactly one of torch's own classes: a subclass may do anything."""
    cls = type(layer)
    if hasattr(layer, "parametrizations"):  # such as weight_norm: torch makes a subclass whose weight is computed
        cls = cls.__bases__[0]
    return cls.__name__ if cls.__module__.startswith("torch.nn.modules.") else f"{cls.__module__}.{cls.__name__}"


def _where(layer: Any, name: str) -> str:
    return f"layer {name!r} ({type(layer).__name__})" if name else type(layer).__name__


def _hint(whole: Any) -> str:
    """What would work for this module."""
    heads = [name for name, layer in whole.named_modules() if name and _kind(layer) == "Linear"]
    if not heads:
        return "For any other linear softmax give its weights: Model(A, b)"
    parts = [f"[{part}]" if part.isdigit() else f".{part}" for part in heads[-1].split(".")]
    return (
        f"Its last linear layer works, over the features which that layer takes: as_model(net{''.join(parts)}), "
        "with a source of what comes before it"
    )
