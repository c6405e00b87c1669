"""From other libraries' fitted objects to a `Model`.

What is understood here: scikit-learn's ``LogisticRegression`` and ``LogisticRegressionCV`` (binary and multinomial), alone or
at the end of a ``Pipeline`` whose other steps are ``StandardScaler``, ``MinMaxScaler``, ``MaxAbsScaler`` or
``RobustScaler``. Anything else is refused. No library is imported: an object of one exists only if its user imported it.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ifonly.errors import UnsupportedModelError
from ifonly.model import Model, Scaling

__all__ = ["as_model"]

Floats = NDArray[np.float64]
Affine = tuple[Floats, Floats, Floats]  # shift, scale of (x − shift) / scale, and Scaling's rough


def as_model(estimator: Any) -> Model:
    """A fitted classifier as a :class:`Model`; x goes in and comes out in the units the estimator takes.

    Parameters
    ----------
    estimator : Model or fitted estimator
        A model is returned as it is. From scikit-learn: ``LogisticRegression``, ``LogisticRegressionCV``, or a ``Pipeline``
        of ``StandardScaler``, ``MinMaxScaler``, ``MaxAbsScaler``, ``RobustScaler`` and one of those.

    Raises
    ------
    UnsupportedModelError
        If the object is not a linear softmax that can be read exactly, with the step that stands in the way and why.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> as_model(LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True)))
    Model(K=3, D=4, classes=[0, 1, 2])

    """
    if isinstance(estimator, Model):
        return estimator
    model = _read(estimator)
    try:
        known = _KNOWN.get(estimator)
        if known is not None and known == model:
            return known
        _KNOWN[estimator] = model
    except TypeError:  # an estimator that cannot be a key
        pass
    return model


# What was read from an estimator before, so that a model's Gram matrix is computed once. An estimator may be fitted again or
# have its weights changed in place: it is read each time, and the model kept only if nothing differs.
_KNOWN: WeakKeyDictionary[Any, Model] = WeakKeyDictionary()


def _read(estimator: Any) -> Model:
    kind = _kind(estimator)
    if kind == "sklearn.Pipeline":
        *steps, (_, last) = estimator.steps
        scaling = None
        for name, step in steps:
            if step is None or isinstance(step, str):  # "passthrough"
                continue
            scaling = _then(scaling, _scaler(step, f"step {name!r} of the pipeline"))
        first = next((step for _, step in steps if not (step is None or isinstance(step, str))), last)
        names = getattr(first, "feature_names_in_", None)
        return _classifier(last, scaling, names)
    return _classifier(estimator, None, None)


def _classifier(estimator: Any, scaling: Affine | None, names: Any) -> Model:
    kind = _kind(estimator)
    if kind not in ("sklearn.LogisticRegression", "sklearn.LogisticRegressionCV"):
        raise UnsupportedModelError(
            f"{type(estimator).__name__} is not understood. Expected a Model, a fitted scikit-learn LogisticRegression or "
            "LogisticRegressionCV, or a Pipeline of standard scalers and one of those; "
            "for any other linear softmax give its weights: Model(A, b)"
        )
    if not hasattr(estimator, "coef_"):
        raise UnsupportedModelError(f"{type(estimator).__name__} is not fitted; call fit first")
    coef, intercept = _dense(estimator.coef_), np.broadcast_to(estimator.intercept_, estimator.coef_.shape[0])
    classes = estimator.classes_
    multi_class = getattr(estimator, "multi_class", "auto")  # before scikit-learn 1.8
    if len(coef) == 1 and multi_class == "multinomial":
        raise UnsupportedModelError(
            f'{type(estimator).__name__} was fitted with multi_class="multinomial" on two classes, which scikit-learn '
            "evaluates at twice the logit; fit it with the default"
        )
    if len(coef) > 1 and (multi_class == "ovr" or getattr(estimator, "solver", "") == "liblinear"):
        raise UnsupportedModelError(
            f"{type(estimator).__name__} was fitted one-vs-rest on {len(classes)} classes: its normalised probabilities are "
            "not a softmax. Fit it with a multinomial solver such as lbfgs"
        )
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        names = [str(name) for name in names]
    units = None if scaling is None else Scaling(*scaling)
    if len(coef) == 1:
        return Model.binary(coef[0], float(intercept[0]), classes, names, scaling=units)
    return Model(coef, intercept, classes, names, scaling=units)


def _scaler(step: Any, where: str) -> Affine:
    """(shift, scale) of a fitted scaler."""
    kind = _kind(step)
    if kind not in _SCALERS:
        raise UnsupportedModelError(
            f"{where} is a {type(step).__name__}, which is not understood. "
            f"Expected one of {', '.join(k.removeprefix('sklearn.') for k in _SCALERS)}"
        )
    if not hasattr(step, "n_features_in_"):
        raise UnsupportedModelError(f"{where} ({type(step).__name__}) is not fitted; call fit first")
    if getattr(step, "clip", False):
        raise UnsupportedModelError(f"{where} ({type(step).__name__}) clips its output, which is not affine; use clip=False")
    shift, scale = _SCALERS[kind](step)
    D = step.n_features_in_
    shift = np.zeros(D) if shift is None else np.asarray(shift, dtype=np.float64)
    scale = np.ones(D) if scale is None else np.asarray(scale, dtype=np.float64)
    return shift, scale, np.abs(shift)


def _then(first: Affine | None, second: Affine) -> Affine:
    """Two scalers, one after the other."""
    if first is None:
        return second
    (shift, scale, rough), (shift2, scale2, rough2) = first, second
    return shift + scale * shift2, scale * scale2, rough + np.abs(scale) * rough2


_SCALERS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "sklearn.StandardScaler": lambda s: (s.mean_ if s.with_mean else None, s.scale_ if s.with_std else None),
    "sklearn.MinMaxScaler": lambda s: (-s.min_ / s.scale_, 1 / s.scale_),  # X·scale_ + min_
    "sklearn.MaxAbsScaler": lambda s: (None, s.scale_),
    "sklearn.RobustScaler": lambda s: (s.center_ if s.with_centering else None, s.scale_ if s.with_scaling else None),
}


def _kind(estimator: Any) -> str:
    """``library.Class``, of exactly this class: a subclass may do anything."""
    cls = type(estimator)
    return f"{cls.__module__.split('.')[0]}.{cls.__name__}"


def _dense(coef: Any) -> Floats:
    return np.asarray(coef.toarray() if hasattr(coef, "toarray") else coef)
