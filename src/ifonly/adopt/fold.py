"""Transformers of scikit-learn's, folded: from the user's columns to coordinates, and from those by an affine map to features.

    features = W v + w0,       v = the coordinates of `encoding.Encoding`

`Features` is that map half-way through a pipeline. A step either keeps it affine (scalers, PCA, selections), makes coordinates
of columns that nothing has touched yet (encoders, imputers), or bends a coordinate (``log1p``, power and quantile transforms).
Anything else is refused, with the step's name.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ifonly.encoding import Column, Encoding, Monotone
from ifonly.errors import UnsupportedModelError

__all__ = ["SCALERS", "Columns", "Features", "fold", "kind_of", "refuse"]

Floats = NDArray[np.float64]


class Columns:
    """The user's columns, and the coordinates that were made of them so far."""

    def __init__(self, names: Sequence[str], by_name: bool) -> None:
        self.names, self.by_name = tuple(names), by_name
        self.made: dict[int, Column] = {}
        self.order: list[int] = []

    def make(self, place: int, kind: str, where: str, **more: Any) -> Column:
        """The coordinates of a column; the same ones if it has them already."""
        old = self.made.get(place)
        if old is None:
            first = sum(self.made[p].size for p in self.order)
            old = self.made[place] = Column(place, self.names[place], kind, first, **more)
            self.order.append(place)
        elif old.kind != kind or old.levels != more.get("levels", ()) or old.fill is not more.get("fill"):
            raise UnsupportedModelError(
                f"{where} takes column {self.names[place]!r} as a {kind}, another step as a {old.kind}, or with other "
                "values for what is missing: a column can be only one of these"
            )
        return old

    def encoding(self) -> Encoding:
        """All of them."""
        return Encoding(self.names, tuple(self.made[place] for place in self.order), self.by_name)


@dataclass
class Features:
    """J features half-way: each an untouched column of the user's (``raw``), or affine in the coordinates."""

    columns: Columns
    raw: list[int]  # the column, or −1
    fill: list[Any]  # of untouched ones: what a missing value counts as
    rows: list[dict[int, float]]  # of the others: weights by coordinate
    offset: list[float]
    rough: list[float]  # the sum of |offsets| on the way: they may cancel, but each rounds
    unit: dict[int, float] = field(default_factory=dict)  # scale of a coordinate just before features were mixed

    def __len__(self) -> int:
        return len(self.raw)

    def take(self, which: Sequence[int]) -> "Features":
        """Some of them."""

        def some(part: list[Any]) -> list[Any]:
            return [part[i] for i in which]

        parts = some(self.raw), some(self.fill), some(self.rows), some(self.offset), some(self.rough)
        return Features(self.columns, *parts, self.unit)

    @classmethod
    def joined(cls, columns: Columns, parts: Sequence["Features"]) -> "Features":
        """Side by side."""
        names = ("raw", "fill", "rows", "offset", "rough")
        raw, fill, rows, offset, rough = ([v for part in parts for v in getattr(part, name)] for name in names)
        return cls(columns, raw, fill, rows, offset, rough, {k: v for part in parts for k, v in part.unit.items()})

    def numbers(self, where: str) -> "Features":
        """The same with untouched columns taken as numbers."""
        out = self.take(range(len(self)))
        for j, place in enumerate(self.raw):
            if place >= 0:
                column = self.columns.make(place, "number", where, fill=self.fill[j])
                out.raw[j], out.fill[j], out.rows[j] = -1, None, {column.first: 1.0}
        return out

    def scaled(self, scale: Floats, shift: Floats, where: str) -> "Features":
        """(feature − shift) / scale, each."""
        out = self.numbers(where)
        for j, (s, m) in enumerate(zip(scale.tolist(), shift.tolist(), strict=True)):
            out.rows[j] = {i: w / s for i, w in out.rows[j].items()}
            out.offset[j] = (out.offset[j] - m) / s
            out.rough[j] = (out.rough[j] + abs(m)) / abs(s)
        return out

    def mixed(self, matrix: Floats, where: str) -> "Features":
        """Matrix @ features."""
        out = self.numbers(where)
        for row in out.rows:
            for i, w in row.items():
                out.unit.setdefault(i, 1 / abs(w))
        W, offset, rough = out.affine()
        mixed = sparse.csr_array(matrix @ W)
        rows = [
            dict(zip(mixed.indices[a:b].tolist(), mixed.data[a:b].tolist(), strict=True))
            for a, b in zip(mixed.indptr, mixed.indptr[1:], strict=False)
        ]
        J = len(matrix)
        more = np.abs(matrix) @ rough
        return Features(out.columns, [-1] * J, [None] * J, rows, (matrix @ offset).tolist(), more.tolist(), out.unit)

    def affine(self) -> tuple[Any, Floats, Floats]:
        """W (J×D, sparse), w0 and rough; nothing may be untouched."""
        size = sum(self.columns.made[place].size for place in self.columns.order)
        lengths = [len(row) for row in self.rows]
        indices = np.fromiter((i for row in self.rows for i in row), dtype=np.intp, count=sum(lengths))
        data = np.fromiter((w for row in self.rows for w in row.values()), dtype=np.float64, count=sum(lengths))
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        W = sparse.csr_array((data, indices, indptr), shape=(len(self), size))
        return W, np.array(self.offset), np.array(self.rough)


def fold(step: Any, features: Features, where: str) -> Features:
    """The features after a step."""
    if step is None or isinstance(step, str):  # "passthrough" or "drop"
        return features.take([]) if step == "drop" else features
    kind = kind_of(step)
    where = f"{where} ({type(step).__name__})"
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](step, features, where)
    if kind not in _STEPS and not hasattr(step, "get_support"):
        refuse(where, _REASONS.get(kind, "is not understood"))
    if kind != "FunctionTransformer" and not hasattr(step, "n_features_in_"):
        refuse(where, "is not fitted; call fit first")
    if kind in _STEPS:
        return _STEPS[kind](step, features, where)
    return features.take(np.flatnonzero(step.get_support()).tolist())


def kind_of(step: Any) -> str:
    """The name of the class, if it is scikit-learn's own: a subclass may do anything."""
    cls = type(step)
    return cls.__name__ if cls.__module__.split(".")[0] == "sklearn" else f"{cls.__module__}.{cls.__name__}"


def refuse(where: str, why: str) -> None:
    """Raise, saying where, why, and what would work."""
    known = ", ".join(sorted((*_STEPS, *_CONTAINERS)))
    raise UnsupportedModelError(f"{where} {why}. Understood are {known}, and column selectors")


# ---- containers ----


def _pipeline(step: Any, features: Features, where: str) -> Features:
    for name, part in step.steps:
        features = fold(part, features, f"{where}, step {name!r}")
    return features


def _union(step: Any, features: Features, where: str) -> Features:
    weights = step.transformer_weights or {}
    parts = []
    for name, part in step.transformer_list:
        here = f"{where}, part {name!r}"
        found = fold(part, features, here)
        weight = weights.get(name)
        if weight is not None:
            found = found.scaled(np.full(len(found), 1 / weight), np.zeros(len(found)), here)
        parts.append(found)
    return Features.joined(features.columns, parts)


def _column_transformer(step: Any, features: Features, where: str) -> Features:
    names = [features.columns.names[p] if p >= 0 else None for p in features.raw]
    weights = step.transformer_weights or {}
    parts = []
    for name, part, selected in step.transformers_:
        here = f"{where}, part {name!r}"
        which = _selected(selected, names)
        if not which:
            continue
        found = fold(part, features.take(which), here)
        weight = weights.get(name)
        if weight is not None:
            found = found.scaled(np.full(len(found), 1 / weight), np.zeros(len(found)), here)
        parts.append(found)
    return Features.joined(features.columns, parts)


def _selected(selected: Any, names: list[str | None]) -> list[int]:
    """The places of a ColumnTransformer's columns: names, numbers, a slice of either, or a mask."""
    if isinstance(selected, (str, int, np.integer)):
        selected = [selected]
    if isinstance(selected, slice):
        if isinstance(selected.start, str) or isinstance(selected.stop, str):
            a = 0 if selected.start is None else names.index(selected.start)
            b = len(names) if selected.stop is None else names.index(selected.stop) + 1
            return list(range(a, b))
        return list(range(len(names)))[selected]
    values = list(selected)
    if values and all(isinstance(v, (bool, np.bool_)) for v in values):
        return [i for i, v in enumerate(values) if v]
    return [names.index(v) if isinstance(v, str) else range(len(names))[int(v)] for v in values]


_CONTAINERS: dict[str, Callable[[Any, Features, str], Features]] = {
    "Pipeline": _pipeline,
    "FeatureUnion": _union,
    "ColumnTransformer": _column_transformer,
}


# ---- affine steps ----

# Shift and scale of (x − shift) / scale; None for none.
SCALERS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "StandardScaler": lambda s: (s.mean_ if s.with_mean else None, s.scale_ if s.with_std else None),
    "MinMaxScaler": lambda s: (-s.min_ / s.scale_, 1 / s.scale_),  # X·scale_ + min_
    "MaxAbsScaler": lambda s: (None, s.scale_),
    "RobustScaler": lambda s: (s.center_ if s.with_centering else None, s.scale_ if s.with_scaling else None),
}


def _scaler(of: Callable[[Any], tuple[Any, Any]]) -> Callable[[Any, Features, str], Features]:
    def folded(step: Any, features: Features, where: str) -> Features:
        if getattr(step, "clip", False):
            refuse(where, "clips its output, which is not affine; use clip=False")
        shift, scale = of(step)
        J = len(features)
        shift = np.zeros(J) if shift is None else np.asarray(shift, dtype=np.float64)
        scale = np.ones(J) if scale is None else np.asarray(scale, dtype=np.float64)
        return features.scaled(scale, shift, where)

    return folded


def _pca(step: Any, features: Features, where: str) -> Features:
    matrix = np.asarray(step.components_, dtype=np.float64)
    if step.whiten:
        matrix = matrix / np.sqrt(step.explained_variance_)[:, None]
    centred = features.scaled(np.ones(len(features)), np.asarray(step.mean_, dtype=np.float64), where)
    return centred.mixed(matrix, where)


def _svd(step: Any, features: Features, where: str) -> Features:
    return features.mixed(np.asarray(step.components_, dtype=np.float64), where)


# ---- steps that look at untouched columns ----


def _untouched(features: Features, where: str) -> None:
    for place in features.raw:
        if place < 0:
            refuse(where, "takes the output of another step as categories; put it first, on the columns themselves")


def _imputer(step: Any, features: Features, where: str) -> Features:
    out = features.take(range(len(features)))
    if step.add_indicator and len(step.indicator_.features_):
        refuse(where, "adds indicators of what was missing, which no change of a value can follow; use add_indicator=False")
    missing = step.missing_values
    if not (missing is None or (isinstance(missing, float) and np.isnan(missing)) or type(missing).__name__ == "NAType"):
        refuse(where, f"replaces {missing!r}, a value like any other; only NaN and None can be told from a number")
    for j, (place, value) in enumerate(zip(features.raw, step.statistics_.tolist(), strict=True)):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            refuse(where, f"has no value to fill in for its column {j}, which was always missing; leave the column out")
        if place >= 0 and out.fill[j] is None:
            out.fill[j] = value
    return out


def _one_hot(step: Any, features: Features, where: str) -> Features:
    """One coordinate per category; what becomes of each is asked of the encoder, so that ``drop`` is as it has it."""
    _untouched(features, where)
    if step.handle_unknown == "warn":
        refuse(where, 'warns about unknown categories; use handle_unknown="ignore" or "error"')
    levels = [list(categories) for categories in step.categories_]
    unknown = step.handle_unknown != "error"
    base = [column[0] for column in levels]

    def encoded(values: list[list[Any]]) -> Floats:
        table = np.empty((len(values), len(levels)), dtype=object)
        for i, row in enumerate(values):
            table[i] = row
        found = step.transform(_like(step, table))
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)

    start = encoded([base])[0]
    J = len(start)
    rows: list[dict[int, float]] = [{} for _ in range(J)]
    offset = start.copy()
    for j, values in enumerate(levels):
        column = features.columns.make(
            features.raw[j], "category", where, levels=tuple(_plain(v) for v in values), unknown=unknown, fill=features.fill[j]
        )
        changed = encoded([[*base[:j], value, *base[j + 1 :]] for value in values]) - start
        if unknown:
            changed = np.vstack([changed, _unknown(step, j, J, start)])
        for i, change in enumerate(changed):
            for f in np.flatnonzero(change):
                rows[f][column.first + i] = float(change[f])
    return Features(features.columns, [-1] * J, [None] * J, rows, offset.tolist(), [0.0] * J, features.unit)


def _unknown(step: Any, j: int, J: int, start: Floats) -> Floats:
    """What an unknown value of column j adds to the features: nothing is 1, or what stands for infrequent ones."""
    sizes = [len(c) for c in step.categories_]
    infrequent = getattr(step, "infrequent_categories_", None) or [None] * len(sizes)
    dropped = step.drop_idx_ if step.drop_idx_ is not None else [None] * len(sizes)
    rare = [0 if found is None else len(found) - 1 for found in infrequent]  # share one feature
    widths = [n - r - (d is not None) for n, r, d in zip(sizes, rare, dropped, strict=True)]
    a = int(sum(widths[:j]))
    block = np.zeros(J)
    b = a + int(widths[j])
    found, d = infrequent[j], dropped[j]
    gone = found is not None and d is not None and step.categories_[j][d] in found
    if step.handle_unknown == "infrequent_if_exist" and found is not None and not gone:
        block[b - 1] = 1.0
    change = np.zeros(J)
    change[a:b] = block[a:b] - start[a:b]
    return change


def _like(step: Any, table: NDArray[np.object_]) -> Any:
    """A table of the kind the encoder was fitted on, so that it does not complain of missing names."""
    names = getattr(step, "feature_names_in_", None)
    if names is None:
        return table
    import pandas as pd

    return pd.DataFrame({name: list(table[:, i]) for i, name in enumerate(names)}, columns=list(names))


def _ordinal(step: Any, features: Features, where: str) -> Features:
    _untouched(features, where)
    out = features.take(range(len(features)))
    for j, values in enumerate(step.categories_):
        levels = tuple(_plain(v) for v in values)
        if any(isinstance(v, float) and math.isnan(v) for v in levels) or (
            hasattr(step, "infrequent_categories_") and step.infrequent_categories_[j] is not None
        ):
            refuse(where, f"has missing or infrequent categories in its column {j}; impute them, or use OneHotEncoder")
        column = features.columns.make(features.raw[j], "ordinal", where, levels=levels, fill=features.fill[j])
        out.raw[j], out.fill[j], out.rows[j] = -1, None, {column.first: 1.0}
    return out


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# ---- steps that bend one coordinate ----


def _bent(features: Features, maps: Sequence[Monotone | None], where: str) -> Features:
    """Each feature through a monotone map of its own."""
    out = features.numbers(where)
    for j, bend in enumerate(maps):
        if bend is None:
            continue
        row = out.rows[j]
        place = next((p for p, c in out.columns.made.items() if c.first in row), -1)
        column = out.columns.made.get(place)
        used = sum(1 for other in features.raw if other == place) if features.raw[j] >= 0 else 1
        if len(row) != 1 or column is None or column.kind != "number" or used > 1:
            refuse(
                where, f"bends its column {j}, which is not a single number of the user's: a mixture, a category or used twice"
            )
        assert column is not None
        (weight,) = row.values()
        shift = out.offset[j]
        chain = column.maps
        if weight != 1.0 or shift != 0.0:
            chain = (*chain, _affine_map(weight, shift))
        out.columns.made[place] = replace(column, maps=(*chain, bend))
        out.rows[j], out.offset[j], out.rough[j] = {column.first: 1.0}, 0.0, 0.0
    return out


def _affine_map(weight: float, shift: float) -> Monotone:
    return Monotone(
        "affine", lambda v: v * weight + shift, lambda v: (v - shift) / weight, rising=weight > 0, key=(weight, shift)
    )


def _power(step: Any, features: Features, where: str) -> Features:
    """Column by column through the transformer itself, with the other columns as they were fitted."""
    J = len(features)
    ends = (np.nextafter(0.0, 1.0), np.inf) if step.method == "box-cox" else (-np.inf, np.inf)
    return _bent(features, [_through(step, j, J, ends) for j in range(J)], where)


def _quantile(step: Any, features: Features, where: str) -> Features:
    J = len(features)
    ends = np.asarray(step.quantiles_)
    return _bent(features, [_through(step, j, J, (float(ends[0, j]), float(ends[-1, j]))) for j in range(J)], where)


def _through(step: Any, j: int, J: int, ends: tuple[float, float]) -> Monotone:
    """One column of a transformer that takes J."""
    names = getattr(step, "feature_names_in_", None)
    filler = np.ones(J)
    if hasattr(step, "quantiles_"):
        filler = np.asarray(step.quantiles_)[0]

    def run(method: Callable[[Any], Any], v: Floats) -> Floats:
        table = np.tile(filler, (len(v), 1))
        table[:, j] = v
        if names is not None and method == step.transform:
            import pandas as pd

            return np.asarray(method(pd.DataFrame(table, columns=list(names))))[:, j]
        return np.asarray(method(table))[:, j]

    def inverse(v: Floats) -> Floats:
        return run(step.inverse_transform, v)

    fitted = np.asarray(step.quantiles_)[:, j] if hasattr(step, "quantiles_") else np.asarray(step.lambdas_)[j]
    return Monotone(type(step).__name__, lambda v: run(step.transform, v), inverse, *ends, key=(j, fitted.tobytes()))


_FUNCTIONS: dict[Any, tuple[Callable[[Any], Any], float, float, bool]] = {
    np.log1p: (np.expm1, np.nextafter(-1.0, 0.0), np.inf, True),
    np.log: (np.exp, np.nextafter(0.0, 1.0), np.inf, True),
    np.log2: (np.exp2, np.nextafter(0.0, 1.0), np.inf, True),
    np.log10: (lambda v: 10.0**v, np.nextafter(0.0, 1.0), np.inf, True),
    np.exp: (np.log, -745.0, 709.0, True),
    np.expm1: (np.log1p, -37.0, 709.0, True),
    np.sqrt: (np.square, 0.0, np.inf, True),
    np.cbrt: (lambda v: v**3, -np.inf, np.inf, True),
    np.arcsinh: (np.sinh, -np.inf, np.inf, True),
    np.arctan: (np.tan, -np.inf, np.inf, True),
    np.tanh: (np.arctanh, -18.0, 18.0, True),
}


def _function(step: Any, features: Features, where: str) -> Features:
    if step.func is None:
        return features
    if step.func is np.negative:
        return features.scaled(np.full(len(features), -1.0), np.zeros(len(features)), where)
    known = _FUNCTIONS.get(step.func)
    if known is None or step.kw_args:
        names = ", ".join(f"np.{f.__name__}" for f in _FUNCTIONS)
        refuse(where, f"applies {getattr(step.func, '__name__', step.func)!r}, which is not one of None, {names}")
    assert known is not None
    inverse, least, most, rising = known
    bend = Monotone(step.func.__name__, step.func, inverse, least, most, rising)
    return _bent(features, [bend] * len(features), where)


_STEPS: dict[str, Callable[[Any, Features, str], Features]] = {
    **{name: _scaler(of) for name, of in SCALERS.items()},
    "PCA": _pca,
    "TruncatedSVD": _svd,
    "SimpleImputer": _imputer,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "PowerTransformer": _power,
    "QuantileTransformer": _quantile,
    "FunctionTransformer": _function,
}

_REASONS = {
    "Normalizer": "divides every row by its own norm, which is not affine; leave it out, or normalise beforehand",
    "PolynomialFeatures": "multiplies features with each other, which is not affine; leave it out",
    "SplineTransformer": "is piecewise polynomial, which is not monotone; leave it out",
    "KBinsDiscretizer": "cuts numbers into bins, which is not affine; bin the column beforehand and use OneHotEncoder",
    "KernelPCA": "is not affine; use PCA",
    "Binarizer": "cuts numbers in two, which is not affine; do so beforehand",
}
