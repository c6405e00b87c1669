"""An ONNX graph with one ``LinearClassifier`` (as skl2onnx writes a logistic regression), perhaps after a ``Scaler``.

``post_transform`` says what the scores are: SOFTMAX, or for two classes LOGISTIC, gives probabilities. NONE leaves scores; a
``Softmax`` node after it makes probabilities of them, otherwise the model is ``hard``, and predicts the largest score. The
weights are those in the file, in single precision; x is in the units before the scaler.
"""

from typing import Any

import numpy as np

from ifonly.model import LinearWeights, Model, Scaling
from ifonly.model.errors import UnsupportedModelError
from ifonly.model.numerics import FLOAT32, Floats

__all__ = ["read"]

COPIES = ("Identity", "Cast")
AFTER = ("ZipMap", "Normalizer", "Softmax", *COPIES)
FLOATS = (1, 11)  # float and double, in the numbers of ONNX's TensorProto.DataType


def read(onnx: Any, graph: Any) -> Model:
    """The graph of a loaded file; ``onnx`` is the library."""
    nodes = list(graph.node)
    found = [node for node in nodes if node.op_type == "LinearClassifier"]
    if len(found) != 1:
        has = ", ".join(dict.fromkeys(node.op_type for node in nodes)) or "nothing"
        raise UnsupportedModelError(f"the graph has {len(found)} LinearClassifier nodes; expected one. It has: {has}")
    (node,) = found
    attributes = _attributes(onnx, node)
    before = _before(nodes, node)
    softened = _after([n for n in nodes if n is not node and n not in before], node, onnx, attributes)
    return _classifier(attributes, [_attributes(onnx, n) for n in before if n.op_type == "Scaler"], softened)


def _before(nodes: list[Any], classifier: Any) -> list[Any]:
    """The nodes between the graph's input and the classifier, the first first."""
    makers = {name: node for node in nodes for name in node.output}
    chain: list[Any] = []
    name = classifier.input[0]
    while name in makers:
        node = makers[name]
        cast = next((a.i for a in node.attribute if a.name == "to"), 0) if node.op_type == "Cast" else FLOATS[0]
        if node.op_type not in ("Scaler", *COPIES) or cast not in FLOATS:
            raise UnsupportedModelError(
                f"node {node.op_type} before the LinearClassifier is not understood. Expected Scaler, or Cast to floats"
            )
        chain.insert(0, node)
        name = node.input[0]
    return chain


def _after(nodes: list[Any], classifier: Any, onnx: Any, attributes: dict[str, Any]) -> bool:
    """Whether a softmax follows; raises for what changes the probabilities in another way."""
    known, softened, scores = set(classifier.output), False, attributes["post_transform"] == "NONE"
    for node in nodes:
        kind, more = node.op_type, _attributes(onnx, node)
        fits = kind in AFTER and set(node.input) <= known
        if kind == "Normalizer":  # the sum of probabilities is 1 already
            fits &= not scores and more.get("norm") == "L1"
        if kind == "Softmax":
            fits &= scores and not softened and node.input[0] == classifier.output[1] and more.get("axis", -1) in (1, -1)
            softened = True
        if not fits:
            raise UnsupportedModelError(f"node {kind} beside or after the LinearClassifier is not understood")
        known |= set(node.output)
    return softened


def _classifier(attributes: dict[str, Any], scalers: list[dict[str, Any]], softened: bool) -> Model:
    labels = attributes.get("classlabels_strings") or attributes.get("classlabels_ints") or []
    coefficients = np.asarray(attributes.get("coefficients", ()), dtype=np.float64)
    K = len(labels)
    b = np.asarray(attributes.get("intercepts") or np.zeros(K), dtype=np.float64)
    if K < 2 or not len(coefficients) or len(coefficients) % len(b):
        raise UnsupportedModelError(
            f"the LinearClassifier has {K} labels, {len(coefficients)} coefficients and {len(b)} intercepts, which do not fit"
        )
    A, transform = coefficients.reshape(len(b), -1), attributes["post_transform"]
    if transform not in ("SOFTMAX", "LOGISTIC", "NONE"):
        raise UnsupportedModelError(f"post_transform {transform} is not understood. Expected SOFTMAX, LOGISTIC or NONE")
    if len(b) == 1 and K == 2:
        if transform == "SOFTMAX" or softened:
            raise UnsupportedModelError("the LinearClassifier has one row of coefficients and a softmax; expected LOGISTIC")
    elif len(b) != K:
        raise UnsupportedModelError(f"the LinearClassifier has {K} labels and {len(b)} rows of coefficients")
    elif transform == "LOGISTIC":
        _check_opposite(A, b)
        A, b = A[1:], b[1:]
    hard = transform == "NONE" and not softened
    return LinearWeights(A, b, labels, hard).model(scaling=_scaling(scalers, A.shape[1]), precision=FLOAT32)


def _check_opposite(A: Floats, b: Floats) -> None:
    """Whether a logistic function of each row is a softmax: of two rows that are each other's opposite."""
    if len(b) > 2:
        raise UnsupportedModelError(
            f"the LinearClassifier has {len(b)} classes and post_transform LOGISTIC: "
            "one-vs-rest probabilities are not a softmax"
        )
    if not (np.array_equal(A[0], -A[1]) and b[0] == -b[1]):
        raise UnsupportedModelError(
            "the LinearClassifier has two rows that are not each other's opposite and post_transform LOGISTIC: "
            "two independent logistic regressions, not a softmax"
        )


def _scaling(scalers: list[dict[str, Any]], D: int) -> Scaling | None:
    """``(x − offset)·scale``, one after the other."""
    found = None
    for attributes in scalers:
        offset, factor = (np.asarray(attributes.get(name, ()), dtype=np.float64) for name in ("offset", "scale"))
        if {len(offset), len(factor)} - {1, D} or not factor.all():
            raise UnsupportedModelError(
                f"the Scaler has {len(offset)} offsets and {len(factor)} scales for {D} features, or a scale of 0"
            )
        found = (found or Scaling(np.zeros(D), np.ones(D))).then(offset, 1 / factor)
    return found


def _attributes(onnx: Any, node: Any) -> dict[str, Any]:
    def text(value: Any) -> Any:
        return value.decode() if isinstance(value, bytes) else value

    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    found = {name: [text(v) for v in value] if isinstance(value, list) else text(value) for name, value in found.items()}
    return {"post_transform": "NONE", **found} if node.op_type == "LinearClassifier" else found
