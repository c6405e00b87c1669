"""xgboost with ``booster="gblinear"``: a linear model, boosted.

    margin_k(x) = bias_k + base_k + Σ_d weight_dk x_d

All of it is in the model's own JSON, in single precision. ``base_score`` is a probability for ``binary:logistic``, so what is
added is its logit; for several classes it is one number for all of them, which no softmax sees, or one for each (since 3.1).
xgboost 3.1 and 3.2 write one for each and then add the first to all: so where they differ the library itself is asked.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.model import LinearWeights, Model
from ifonly.model.errors import InputError, UnsupportedModelError, reading
from ifonly.model.formats import DAMAGE
from ifonly.model.numerics import FLOAT32, Floats

__all__ = ["from_json", "from_ubjson", "margins_at_zero", "read"]

TWO_CLASSES = ("binary:logistic",)
MANY_CLASSES = ("multi:softprob", "multi:softmax")
AGREE = 1e-4  # margins of the library, in single precision, against ours; base scores that matter differ by more


def read(estimator: Any) -> Model:
    """An ``XGBClassifier`` or ``Booster`` that is linear."""
    kind = type(estimator).__name__
    if kind not in ("XGBClassifier", "Booster") or not type(estimator).__module__.startswith("xgboost."):
        raise UnsupportedModelError(
            f'{kind} is not understood. Expected an XGBClassifier(booster="gblinear"), or a Booster of that kind'
        )
    booster = estimator
    if kind == "XGBClassifier":
        if not estimator.__sklearn_is_fitted__():
            raise UnsupportedModelError("XGBClassifier is not fitted; call fit first")
        booster = estimator.get_booster()
    return from_json(json.loads(bytes(booster.save_raw("json"))), lambda: margins_at_zero(booster))


def margins_at_zero(booster: Any) -> Floats:
    """What xgboost itself makes of x = 0: the biases and the base scores."""
    zero = np.zeros((1, booster.num_features()), dtype=np.float32)
    data = sys.modules["xgboost"].DMatrix(zero, feature_names=booster.feature_names, feature_types=booster.feature_types)
    return np.ravel(booster.predict(data, output_margin=True)).astype(np.float64)


def from_json(document: dict[str, Any], ask: Callable[[], Floats]) -> Model:
    """From what ``Booster.save_model("….json")`` writes.

    ``ask`` gives `margins_at_zero`, and is called only where the file alone does not say what xgboost makes of its base scores.
    """
    unknown = "this is not a model of xgboost's as it is understood here, or it is damaged"
    with reading(unknown, KeyError, TypeError, ValueError):
        learner = document["learner"]
        booster, objective = learner["gradient_booster"]["name"], learner["objective"]["name"]
        if booster != "gblinear":
            raise UnsupportedModelError(
                f'the booster is "{booster}": trees are not linear. Expected XGBClassifier(booster="gblinear")'
            )
        if objective not in TWO_CLASSES + MANY_CLASSES:
            raise UnsupportedModelError(
                f"the objective is {objective}, which has no softmax. Expected {', '.join(TWO_CLASSES + MANY_CLASSES)}"
            )
        sizes = learner["learner_model_param"]
        D, K = int(sizes["num_feature"]), max(1, int(sizes["num_class"]))
        weights = _single(learner["gradient_booster"]["model"]["weights"]).reshape(D + 1, K)
        base = _single(np.atleast_1d(json.loads(sizes["base_score"])))
        names = learner.get("feature_names") or None
    bias = weights[-1]
    if objective in TWO_CLASSES:
        bias, base = bias + np.log(base[0]), -np.log1p(-base[0])
    elif len(base) == K and (base != base[0]).any():
        found = ask() - bias
        base = next((b for b in (base, base[:1]) if np.abs(found - b).max() < AGREE * (1 + np.abs(bias).max())), None)
        if base is None:
            raise UnsupportedModelError("xgboost's own margins at x = 0 are neither bias + base_score nor bias + base_score[0]")
    return LinearWeights(weights[:-1].T, bias + base, None).model(names, precision=FLOAT32)


def _single(values: Any) -> Floats:
    """Numbers of single precision, which the JSON has in decimal."""
    return np.asarray(values, dtype=np.float32).astype(np.float64)


# ---- UBJSON ----

NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def from_ubjson(data: bytes) -> dict[str, Any]:
    """The document in a ``.ubj`` file. Not left to xgboost, which ends the process where a length or a key is wrong."""
    with reading("it is damaged, or no model of xgboost's", *DAMAGE):
        found = _Ubjson(data).value()
    if not isinstance(found, dict):
        raise InputError(f"it is no model of xgboost's: expected an object; got a {type(found).__name__}")
    return found


class _Ubjson:
    """UBJSON as xgboost writes it, value by value; a length that is more than what is left is refused before it is used."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def value(self) -> Any:
        """The next value, whatever it is."""
        match mark := self._take(1):
            case b"S":
                return self._text()
            case b"{":
                return dict(self._until(b"}", lambda: (self._text(), self.value())))
            case b"[" if self._comes(b"$"):
                mark = self._take(1)
                if not self._comes(b"#"):
                    raise ValueError(f"an array has a type and no length, at byte {self.at}")
                return self._numbers(mark, self.value())
            case b"[" if self._comes(b"#"):
                return [self.value() for _ in range(self.value())]
            case b"[":
                return list(self._until(b"]", self.value))
        return self._numbers(mark, 1)[0].item() if mark in NUMBERS else CONSTANTS[mark]

    def _until(self, end: bytes, read: Callable[[], Any]) -> Iterator[Any]:
        while not self._comes(end):
            yield read()

    def _text(self) -> str:
        return self._take(self.value()).decode()

    def _numbers(self, mark: bytes, n: int) -> NDArray[Any]:
        kind = np.dtype(NUMBERS[mark])
        return np.frombuffer(self._take(n * kind.itemsize), kind)

    def _comes(self, mark: bytes) -> bool:
        """Whether this is next; if so it is taken."""
        found = self.data[self.at : self.at + 1] == mark
        self.at += found
        return found

    def _take(self, n: int) -> bytes:
        if not 0 <= n <= len(self.data) - self.at:
            raise ValueError(f"{n} bytes are announced at byte {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n : self.at]
