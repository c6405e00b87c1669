"""Transformers of scikit-learn's, folded one into the other; what is not understood is refused, with the step's name."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ifonly.model.monotone import Affine
from ifonly.model.readers.features import Feature, Features, kind_of, refuse
from ifonly.model.readers.steps import STEPS

__all__ = ["CONTAINERS", "fold"]


def fold(step: Any, features: Features, where: str) -> Features:
    """The features after a step."""
    if step is None or isinstance(step, str):  # "passthrough" or "drop"
        return features.take([]) if step == "drop" else features
    kind = kind_of(step)
    where = f"{where} ({type(step).__name__})"
    if kind in CONTAINERS:
        return CONTAINERS[kind](step, features, where)
    selects = "." not in kind and hasattr(step, "get_support")
    if kind not in STEPS and not selects:
        own = "is not scikit-learn's own, so that nothing is known of what it does" if "." in kind else "is not understood"
        refuse(where, _REASONS.get(kind, own))
    if kind not in ("FunctionTransformer", "SelectFromModel") and not hasattr(step, "n_features_in_"):
        refuse(where, "is not fitted; call fit first")
    return STEPS[kind](step, features, where) if kind in STEPS else _selector(step, features, where)


def _selector(step: Any, features: Features, where: str) -> Features:
    try:
        chosen = np.flatnonzero(step.get_support()).tolist()
    except (AttributeError, ValueError) as error:
        refuse(where, f"is not fitted; call fit first ({error})")
    return features.take(chosen)


# ---- containers ----


def _pipeline(step: Any, features: Features, where: str) -> Features:
    for name, part in step.steps:
        features = fold(part, features, f"{where}, step {name!r}")
    return features


def _union(step: Any, features: Features, where: str) -> Features:
    parts = [(name, fold(part, features, f"{where}, part {name!r}")) for name, part in step.transformer_list]
    return Features.joined(features.columns, [_weighted(part, step, name, where) for name, part in parts])


def _column_transformer(step: Any, features: Features, where: str) -> Features:
    if not hasattr(step, "transformers_"):
        refuse(where, "is not fitted; call fit first")
    names = getattr(step, "feature_names_in_", None)
    own = (features.columns.names[part.place] if part.place >= 0 else None for part in features.parts)
    labels = list(own if names is None else names)
    if len(labels) != len(features):
        refuse(where, f"was fitted on {len(labels)} columns, and gets {len(features)}")
    parts = []
    for name, part, selected in step.transformers_:
        which = _selected(selected, labels)
        if which:
            parts.append(_weighted(fold(part, features.take(which), f"{where}, part {name!r}"), step, name, where))
    return Features.joined(features.columns, parts)


def _weighted(features: Features, step: Any, name: str, where: str) -> Features:
    weight = (step.transformer_weights or {}).get(name)
    if weight is None:
        return features
    if weight == 0:  # what it says is lost
        return features.now(Feature() for _ in features.parts)
    n = len(features)
    return features.scaled(np.full(n, 1 / weight), np.zeros(n), where, [Affine(float(weight), 0.0)] * n)


def _selected(selected: Any, names: Sequence[Any]) -> list[int]:
    """The places of a ColumnTransformer's columns: names, numbers, a slice of either, or a mask."""
    if isinstance(selected, (str, int, np.integer)):
        selected = [selected]
    if isinstance(selected, slice):
        if isinstance(selected.start, str) or isinstance(selected.stop, str):
            a = 0 if selected.start is None else names.index(selected.start)
            b = len(names) if selected.stop is None else names.index(selected.stop) + 1
            return list(range(a, b))[:: selected.step]
        return list(range(len(names)))[selected]
    values = list(selected)
    if values and all(isinstance(v, (bool, np.bool_)) for v in values):
        return [i for i, v in enumerate(values) if v]
    return [names.index(v) if isinstance(v, str) else range(len(names))[int(v)] for v in values]


CONTAINERS: dict[str, Callable[[Any, Features, str], Features]] = {
    "Pipeline": _pipeline,
    "FeatureUnion": _union,
    "ColumnTransformer": _column_transformer,
}


_REASONS = {
    "Normalizer": "divides every row by its own norm, which is not affine; leave it out, or normalise beforehand",
    "PolynomialFeatures": "multiplies features with each other, which is not affine; leave it out",
    "SplineTransformer": "is piecewise polynomial, which is not monotone; leave it out",
    "KBinsDiscretizer": "cuts numbers into bins, which is not affine; bin the column beforehand and use OneHotEncoder",
    "KNNImputer": "fills in what other columns say, which is not affine; use SimpleImputer",
    "IterativeImputer": "fills in what other columns say, which is not affine; use SimpleImputer",
    "MissingIndicator": "says what is missing, which no change of a value can follow; leave it out",
    "KernelPCA": "is not affine; use PCA",
    "Nystroem": "is not affine: it approximates a kernel; leave it out",
    "RBFSampler": "is not affine: it approximates a kernel; leave it out",
    "LinearDiscriminantAnalysis": "is affine as a transformer, but not read as one; use it as the classifier",
}
