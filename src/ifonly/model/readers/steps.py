"""What each step of scikit-learn's does to features; what is not understood is refused, with the step's name.

A step either keeps them affine (scalers, PCA), makes coordinates of columns that nothing has touched yet (encoders, imputers),
maps a single number (``log1p``, power and quantile transforms), or contains other steps.
"""

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from ifonly.model.columns import NAN, Column
from ifonly.model.errors import UnsupportedModelError
from ifonly.model.monotone import FUNCTIONS, Affine, BoxCox, Function, Monotone, Quantiles, YeoJohnson, backward
from ifonly.model.numerics import Floats
from ifonly.model.readers.features import Traced, TracedFeatures, dense, kind_of
from ifonly.model.tables import is_missing

__all__ = ["SCALERS", "STEPS", "cut", "fold", "refuse", "shift_and_scale"]


def fold(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    """The features after a step."""
    if step is None or isinstance(step, str):  # "passthrough" or "drop"
        return features.now([]) if step == "drop" else features
    kind = kind_of(step)
    where = f"{where} ({type(step).__name__})"
    selects = "." not in kind and hasattr(step, "get_support")
    if kind not in STEPS and not selects:
        own = "is not scikit-learn's own, so that nothing is known of what it does" if "." in kind else "is not understood"
        refuse(where, _REASONS.get(kind, own))
    if kind not in _MAY_LACK_WIDTH and not hasattr(step, "n_features_in_"):
        refuse(where, "is not fitted; call fit first")
    return STEPS.get(kind, _selector)(step, features, where)


def refuse(where: str, why: str) -> NoReturn:
    """Raise, saying where, why, and what would work."""
    understood = f"{', '.join(sorted(STEPS))}, and selectors of columns such as SelectKBest"
    raise UnsupportedModelError(f"{where} {why}. Understood are {understood}")


# ---- affine steps ----

# Shift and scale of (x − shift) / scale; None for none.
SCALERS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "StandardScaler": lambda s: (s.mean_ if s.with_mean else None, s.scale_ if s.with_std else None),
    # X·scale_ + min_, both perhaps in single precision: divided in double
    "MinMaxScaler": lambda s: (-np.float64(s.min_) / np.float64(s.scale_), 1 / np.float64(s.scale_)),
    "MaxAbsScaler": lambda s: (None, s.scale_),
    "RobustScaler": lambda s: (s.center_ if s.with_centering else None, s.scale_ if s.with_scaling else None),
}


def shift_and_scale(step: Any, n: int) -> tuple[Floats, Floats]:
    """Those of a fitted scaler of n features."""
    shift, scale = SCALERS[type(step).__name__](step)
    shift = np.zeros(n) if shift is None else np.asarray(shift, dtype=np.float64)
    return shift, np.ones(n) if scale is None else np.asarray(scale, dtype=np.float64)


def _scaled(
    features: TracedFeatures, scale: Floats, shift: Floats, where: str, how: Sequence[Affine] | None = None
) -> TracedFeatures:
    """(feature − shift) / scale, each; ``how`` it is computed, where that is something else."""
    how = how or [Affine(1.0, 0.0, m, s) for m, s in zip(shift.tolist(), scale.tolist(), strict=True)]
    out = []
    for j, (part, s, m) in enumerate(zip(features.numbers(where), scale.tolist(), shift.tolist(), strict=True)):
        if s == 0 or not (math.isfinite(s) and math.isfinite(m)):
            refuse(where, f"scales its column {j} with {s} and shifts it by {m}, of which it has no numbers; leave it out")
        column, row = features.alone(part), {i: w / s for i, w in part.row.items()}
        sizes, way = {i: w / abs(s) for i, w in part.sizes.items()}, None if part.way is None else (*part.way, how[j])
        scaled = replace(part, row=row, rough=(part.rough + abs(m)) / abs(s), sizes=sizes, way=way)
        if column is not None and column.kind == "number" and part.offset == 0 and not part.zero:
            out.append(replace(scaled, zero={i: m / w for i, w in part.row.items()}))
        else:
            out.append(replace(scaled, offset=(part.offset - m) / s))
    return features.now(out)


def _scaler(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    if getattr(step, "clip", False):
        refuse(where, "clips its output, which is not affine; use clip=False")
    shift, scale = shift_and_scale(step, len(features))
    is_product = type(step).__name__ == "MinMaxScaler"
    how = [Affine(*map(float, pair)) for pair in zip(step.scale_, step.min_, strict=True)] if is_product else None
    return _scaled(features, scale, shift, where, how)


def _pca(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    matrix = np.asarray(step.components_, dtype=np.float64)
    if step.whiten:
        spread = np.sqrt(np.asarray(step.explained_variance_, dtype=np.float64))
        matrix = matrix / np.maximum(spread, np.finfo(step.explained_variance_.dtype).eps)[:, None]
    centred = _scaled(features, np.ones(len(features)), np.asarray(step.mean_, dtype=np.float64), where)
    return centred.mixed(matrix, where)


# ---- steps that look at untouched columns ----


UNKNOWN = "\0unknown"  # a value that no encoder knows


def _untouched(features: TracedFeatures, where: str) -> list[Column]:
    columns = [part for part in features.parts if isinstance(part, Column)]
    if len(columns) < len(features):
        refuse(where, "takes the output of another step as categories; put it first, on the columns themselves")
    return columns


def _imputer(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    if step.add_indicator and len(step.indicator_.features_):
        refuse(where, "adds indicators of what was missing, which no change of a value can follow; use add_indicator=False")
    missing = None if is_missing(step.missing_values) else _plain(step.missing_values)
    out = []
    for j, (part, statistic) in enumerate(zip(features.parts, step.statistics_.tolist(), strict=True)):
        value = _plain(statistic)
        if is_missing(value):  # always missing: scikit-learn drops such a column
            continue
        if isinstance(part, Traced):
            if missing is not None:
                refuse(where, f"replaces {missing!r} in the output of another step; put it first, on the columns themselves")
            out.append(_filled_later(features, part, float(value), where))
        elif part.fill is None:
            out.append(replace(part, fill=value, missing=missing))
        elif part.missing == missing:  # None for all kinds of NaN
            out.append(part)
        else:
            both = f"for {missing!r}, another step for {part.missing!r}"
            refuse(where, f"fills in column {j} {both}: only one value can be missing")
    return features.now(out)


def _filled_later(features: TracedFeatures, part: Traced, value: float, where: str) -> Traced:
    """A missing number that other steps have passed on: what it would have been, before them, to give this value."""
    column = features.alone(part)
    if column is None or column.kind != "number" or column.fill is not None:
        return part  # no number is missing here: an encoder gave it, another imputer filled it, or mixing had refused it
    ((i, weight),) = part.row.items()
    found = backward(column.maps, np.array([(value - part.offset) / weight + part.zero.get(i, 0.0)]))
    first = features.columns.make(column, "number", where, fill=float(found[0]), maps=column.maps).first
    sizes, zero = ({first: known[i]} if i in known else {} for known in (part.sizes, part.zero))
    return replace(part, row={first: weight}, sizes=sizes, zero=zero)


def _coded(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    """One coordinate per category, and one for unknown values; what becomes of each is asked of the encoder itself."""
    known = getattr(step, "handle_unknown", "the mean of the target")  # of a TargetEncoder
    if known == "warn":
        refuse(where, 'warns about unknown categories; use handle_unknown="ignore" or "error"')
    given, unknown = _untouched(features, where), known != "error"
    levels = [list(categories) for categories in step.categories_]
    base = [column[0] for column in levels]
    start = _ask(step, [base])[0]
    odd = [[*base[:j], UNKNOWN, *base[j + 1 :]] for j in range(len(levels))]
    strange = _ask(step, odd, typed=False) - start if unknown else np.zeros((0, len(start)))
    rows: list[dict[int, float]] = [{} for _ in start]
    for j, values in enumerate(levels):
        more = {"levels": tuple(_plain(v) for v in values), "unknown": unknown}
        column = features.columns.make(given[j], "category", where, **more)
        changed = np.vstack([_ask(step, [[*base[:j], value, *base[j + 1 :]] for value in values]) - start, strange[j : j + 1]])
        # The features that belong to this column are 0 but for it: all of their value, not only what changes, is its own.
        own = np.flatnonzero((changed != 0).any(axis=0))
        for i, change in enumerate(changed):
            for f in own[(start[own] + change[own]) != 0]:
                rows[f][column.first + i] = float(start[f] + change[f])
    # A feature that nothing touches is a constant: that of a column with one category.
    return features.now(Traced(row, 0.0 if row else float(offset)) for row, offset in zip(rows, start, strict=True))


def _ordinal(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    """The place in the list where that is the code, else categories with codes: missing, unknown and infrequent ones."""
    given = _untouched(features, where)
    infrequent = any(found is not None for found in getattr(step, "infrequent_categories_", None) or ())
    lacking = [step.encoded_missing_value for c in step.categories_ for v in c if is_missing(v)]
    if not infrequent and step.handle_unknown == "error" and not lacking:
        levels = [tuple(map(_plain, values)) for values in step.categories_]
        made = (features.columns.make(part, "ordinal", where, levels=own) for part, own in zip(given, levels, strict=True))
        return features.now([Traced({column.first: 1.0}) for column in made])
    if any(isinstance(code, float) and math.isnan(code) for code in (step.unknown_value, *lacking)):
        refuse(where, "encodes unknown or missing categories as NaN; use numbers, such as −1, or OneHotEncoder")
    return _coded(step, features, where)


def _ask(step: Any, rows: list[list[Any]], *, typed: bool = True) -> Floats:
    """What an encoder makes of rows of values that it knows; with ``typed`` False, also of those that it does not."""
    table = np.array(rows, dtype=object)
    names, pandas = getattr(step, "feature_names_in_", None), sys.modules.get("pandas")
    data: Any = table
    if typed and names is not None and pandas is not None:  # columns of their own types, as they were when it was fitted
        types = [np.asarray(categories).dtype for categories in step.categories_]
        data = pandas.DataFrame({i: pandas.Series(table[:, i], dtype=kind) for i, kind in enumerate(types)})
        data.columns = list(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that an array has no names
        found = step.transform(data)
    return dense(found)


def _plain(value: Any) -> Any:
    if isinstance(value, (float, np.floating)) and math.isnan(value):
        return NAN
    return value.item() if isinstance(value, np.generic) else value


def cut(features: TracedFeatures, threshold: float, where: str) -> TracedFeatures:
    """Whether each feature is above a threshold: of a column of numbers, or of a function of one category."""
    levels = (0.0, 1.0) if 0 <= threshold < 1 else (threshold, float(np.nextafter(threshold, np.inf)))
    out = []
    for j, part in enumerate(features.parts):
        if isinstance(part, Column):
            column = features.columns.make(part, "category", where, levels=levels, cut=threshold)
            out.append(Traced({column.first + 1: 1.0}))
            continue
        alone = features.alone(part)
        if part.row and (alone is None or alone.kind == "number"):
            refuse(where, f"looks whether its column {j} is above {threshold:g}, which is a mixture or a scaled number")
        if alone is None:
            out.append(Traced(offset=float(part.offset > threshold)))
        else:
            at = alone.coordinates.tolist()
            out.append(Traced({i: 1.0 for i in at if part.row.get(i, 0.0) + part.offset > threshold}))
    return features.now(out)


# ---- steps that map single numbers ----


def _mapped(features: TracedFeatures, maps: Sequence[Monotone], where: str) -> TracedFeatures:
    """Each feature through a monotone map of its own."""
    out = []
    for j, (part, step) in enumerate(zip(features.parts, maps, strict=True)):
        if isinstance(part, Column):
            column, chain = part, ()
        else:
            column = features.alone(part)
            if column is None or column.kind != "number" or len(part.row) != 1:
                what = "a mixture of columns" if column is None else f"made of the {column.kind} {column.name!r}"
                refuse(where, f"bends its column {j}, which is {what}; only a single number of the user's can be bent")
            ((i, weight),) = part.row.items()
            way = (Affine(weight, part.offset, part.zero.get(i, 0.0)),) if part.way is None else part.way
            chain = (*column.maps, *(between for between in way if between != Affine(1.0, 0.0)))
        made = features.columns.make(column, "number", where, maps=(*chain, step))
        out.append(Traced({made.first: 1.0}, rough=step.rough))
    return features.now(out)


def _power(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    """The power transform of each column, with the scaler that comes with it."""
    lambdas = np.asarray(step.lambdas_)
    scaler = vars(step)["_scaler"] if step.standardize else None
    mean, scale = (np.zeros(len(lambdas)), np.ones(len(lambdas))) if scaler is None else (scaler.mean_, scaler.scale_)
    is_box_cox = step.method == "box-cox"
    parts = (lambdas, mean, scale) if is_box_cox else (lambdas, mean, scale, 2 - lambdas)
    kind = BoxCox if is_box_cox else YeoJohnson
    return _mapped(features, [kind(*map(float, part)) for part in zip(*parts, strict=True)], where)


def _quantile(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    references, normal = tuple(np.asarray(step.references_).tolist()), step.output_distribution == "normal"
    columns = np.asarray(step.quantiles_, dtype=np.float64).T
    for j, knots in enumerate(columns):
        if not knots[0] < knots[-1]:
            refuse(where, f"maps its column {j}, of which all values were equal, to a step; leave it out")
    return _mapped(features, [Quantiles(tuple(knots.tolist()), references, normal) for knots in columns], where)


def _function(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    if step.func is None:
        return features
    name = getattr(step.func, "__name__", str(step.func))
    if step.kw_args:
        refuse(where, f"applies {name!r} with {step.kw_args}; leave kw_args out")
    if step.func is np.negative:
        return _scaled(features, np.full(len(features), -1.0), np.zeros(len(features)), where)
    if step.func is not getattr(np, name, None) or name not in FUNCTIONS:
        known = ", ".join(f"np.{function}" for function in FUNCTIONS)
        refuse(where, f"applies {name!r}, of which nothing is known; use None, np.negative, {known}")
    return _mapped(features, [Function(name)] * len(features), where)


def _selector(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    try:
        chosen = np.flatnonzero(step.get_support())
    except (AttributeError, ValueError) as error:
        refuse(where, f"is not fitted; call fit first ({error})")
    return features.now(features.parts[i] for i in chosen)


# ---- containers ----


def _pipeline(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    for name, part in step.steps:
        features = fold(part, features, f"{where}, step {name!r}")
    return features


def _column_transformer(step: Any, features: TracedFeatures, where: str) -> TracedFeatures:
    if not hasattr(step, "transformers_"):
        refuse(where, "is not fitted; call fit first")
    if step.n_features_in_ != len(features):
        refuse(where, f"was fitted on {step.n_features_in_} columns, and gets {len(features)}")
    places = vars(step)["_transformer_to_input_indices"]  # whatever they were selected by: names, numbers, a slice, a mask
    parts = [(name, part, [features.parts[i] for i in places[name]]) for name, part, _ in step.transformers_]
    return _beside(step, [(name, part, features.now(own)) for name, part, own in parts if own], features, where)


def _beside(step: Any, parts: list[tuple[str, Any, TracedFeatures]], features: TracedFeatures, where: str) -> TracedFeatures:
    """Other steps side by side, each of them with the features that it takes, and with a weight if ``step`` has one for it."""
    out, unit = [], {}
    for name, part, own in parts:
        made, weight = fold(part, own, f"{where}, part {name!r}"), (step.transformer_weights or {}).get(name)
        if weight == 0:  # what it says is lost
            made = made.now(Traced() for _ in made.parts)
        elif weight is not None:
            n = len(made)
            made = _scaled(made, np.full(n, 1 / weight), np.zeros(n), where, [Affine(float(weight), 0.0)] * n)
        out, unit = [*out, *made.parts], unit | made.unit
    return TracedFeatures(features.columns, out, unit)


STEPS: dict[str, Callable[[Any, TracedFeatures, str], TracedFeatures]] = {
    **dict.fromkeys(SCALERS, _scaler),
    **dict.fromkeys(("PCA", "IncrementalPCA"), _pca),
    **dict.fromkeys(
        ("TruncatedSVD", "GaussianRandomProjection", "SparseRandomProjection"),
        lambda step, features, where: features.mixed(dense(step.components_), where),
    ),
    "SimpleImputer": _imputer,
    "OneHotEncoder": _coded,
    "OrdinalEncoder": _ordinal,
    "TargetEncoder": _coded,  # a number per category, and class where there are more than two
    "Binarizer": lambda step, features, where: cut(features, float(step.threshold), where),
    "PowerTransformer": _power,
    "QuantileTransformer": _quantile,
    "FunctionTransformer": _function,
    "Pipeline": _pipeline,
    "FeatureUnion": lambda step, features, where: _beside(
        step, [(name, part, features) for name, part in step.transformer_list], features, where
    ),
    "ColumnTransformer": _column_transformer,
}

# What may have no ``n_features_in_`` though it is fitted, or says itself that it is not.
_MAY_LACK_WIDTH = ("FunctionTransformer", "SelectFromModel", "Pipeline", "FeatureUnion", "ColumnTransformer")

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
