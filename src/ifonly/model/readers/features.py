"""Features half-way through a pipeline: from the user's columns to coordinates, and from those by an affine map to features.

    features = W (v − zero) + w0,       v = the coordinates of `encoding.Encoding`

On the way a column may be read in several ways (as it is and through ``log1p``, say), each with coordinates of its own. In the
end only one of them may be in use: no single number can be moved for two that depend on it in different ways.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ifonly.model.columns import Column, Encoding
from ifonly.model.errors import UnsupportedModelError
from ifonly.model.monotone import Affine

__all__ = ["UNDERSTOOD", "Columns", "Features", "kind_of", "refuse"]

Floats = NDArray[np.float64]

# The steps that are understood, for messages; what becomes of each is in `steps` and `fold`.
UNDERSTOOD = (
    "Binarizer",
    "ColumnTransformer",
    "FeatureUnion",
    "FunctionTransformer",
    "GaussianRandomProjection",
    "IncrementalPCA",
    "MaxAbsScaler",
    "MinMaxScaler",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PCA",
    "Pipeline",
    "PowerTransformer",
    "QuantileTransformer",
    "RobustScaler",
    "SimpleImputer",
    "SparseRandomProjection",
    "StandardScaler",
    "TargetEncoder",
    "TruncatedSVD",
)


def kind_of(step: Any) -> str:
    """The name of the class, if it is scikit-learn's own: a subclass may do anything."""
    cls = type(step)
    return cls.__name__ if cls.__module__.split(".")[0] == "sklearn" else f"{cls.__module__}.{cls.__name__}"


def refuse(where: str, why: str) -> NoReturn:
    """Raise, saying where, why, and what would work."""
    known = ", ".join(UNDERSTOOD)
    raise UnsupportedModelError(f"{where} {why}. Understood are {known}, and selectors of columns such as SelectKBest")


class Columns:
    """The user's columns, and the ways in which they were read so far, each with coordinates of its own."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.read: dict[Any, Column] = {}  # by place and everything else that matters
        self.owner: list[Column] = []  # of each coordinate
        self.where: dict[Column, str] = {}  # which step read it so

    def make(self, place: int, kind: str, where: str, **more: Any) -> Column:
        """The coordinates of a column read in this way; the same ones if it was read so before."""
        wanted = Column(place, self.names[place], kind, 0, **more)
        found = self.read.get(wanted)
        if found is None:
            found = self.read[wanted] = replace(wanted, first=len(self.owner))
            self.owner += [found] * found.size
            self.where[found] = where
        return found

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return len(self.owner)

    def encoding(self, used: NDArray[np.bool_]) -> tuple[Encoding, NDArray[np.intp]]:
        """The columns whose coordinates are in use, in the user's order, and which coordinates become theirs."""
        chosen: dict[int, Column] = {}
        for column in self.read.values():
            if not used[column.coordinates].any():
                continue
            other = chosen.setdefault(column.place, column)
            if other is not column:
                raise UnsupportedModelError(
                    f"column {column.name!r} is used twice, {_way(other)} ({self.where[other]}) and {_way(column)} "
                    f"({self.where[column]}): no single value can be found for both. Leave one of them out"
                )
        columns: list[Column] = []
        for place in sorted(chosen):
            columns.append(replace(chosen[place], first=sum(column.size for column in columns)))
        order = [chosen[place].coordinates for place in sorted(chosen)]
        return Encoding(self.names, tuple(columns)), np.concatenate([np.zeros(0, dtype=np.intp), *order])


def _way(column: Column) -> str:
    """How a column is read, in words."""
    if column.kind == "number":
        through = " and ".join(step.name for step in column.maps if not isinstance(step, Affine))
        filled = f" with {column.fill!r} for what is missing" if column.fill is not None else ""
        return (f"through {through}" if through else "as a number") + filled
    return f"as {'an' if column.kind == 'ordinal' else 'a'} {column.kind} of {len(column.levels)} values"


@dataclass
class Features:
    """J features half-way: each an untouched column of the user's (``raw``), or affine in the coordinates.

    Where a scaler takes a mean from a column, that mean is the column's ``zero``, and nothing is left to cancel later.
    """

    columns: Columns
    raw: list[int]  # the column, or −1
    fill: list[tuple[Any, Any]]  # of untouched ones: what a missing value counts as, and which value is missing
    rows: list[dict[int, float]]  # of the others: weights by coordinate
    offset: list[float]
    rough: list[float]  # the sum of |offsets| on the way: they may cancel, but each rounds
    sizes: list[dict[int, float]]  # weights by coordinate as if no terms had cancelled, where features were mixed
    zero: list[dict[int, float]]  # what the weights are taken of: coordinates less these, 0 where there is none
    unit: dict[int, float] = field(default_factory=dict)  # scale of a coordinate just before features were mixed

    @classmethod
    def untouched(cls, names: Sequence[str]) -> "Features":
        """The user's columns, before the first step."""
        n = len(names)

        def empty() -> list[dict[int, float]]:
            return [{} for _ in range(n)]

        return cls(Columns(names), list(range(n)), [(None, None)] * n, empty(), [0.0] * n, [0.0] * n, empty(), empty())

    @classmethod
    def made(cls, of: "Features", rows: list[dict[int, float]], offset: Sequence[float], rough: Sequence[float]) -> "Features":
        """Features that are affine in the coordinates of others."""
        J = len(rows)
        sizes = [{i: abs(w) for i, w in row.items()} for row in rows]
        zero: list[dict[int, float]] = [{} for _ in range(J)]
        return cls(of.columns, [-1] * J, [(None, None)] * J, rows, list(offset), list(rough), sizes, zero, of.unit)

    def __len__(self) -> int:
        return len(self.raw)

    def take(self, which: Sequence[int]) -> "Features":
        """Some of them."""

        def some(part: list[Any]) -> list[Any]:
            return [part[i] for i in which]

        lists = (self.raw, self.fill, self.rows, self.offset, self.rough, self.sizes, self.zero)
        return Features(self.columns, *(some(part) for part in lists), unit=dict(self.unit))

    @classmethod
    def joined(cls, columns: Columns, parts: Sequence["Features"]) -> "Features":
        """Side by side."""
        names = ("raw", "fill", "rows", "offset", "rough", "sizes", "zero")
        lists = ([v for part in parts for v in getattr(part, name)] for name in names)
        return cls(columns, *lists, unit={k: v for part in parts for k, v in part.unit.items()})

    def numbers(self, where: str) -> "Features":
        """The same with untouched columns taken as numbers."""
        out = self.take(range(len(self)))
        for j, place in enumerate(self.raw):
            if place >= 0:
                fill, missing = self.fill[j]
                column = self.columns.make(place, "number", where, fill=fill, missing=missing)
                out.raw[j], out.fill[j], out.rows[j], out.sizes[j] = -1, (None, None), {column.first: 1.0}, {column.first: 1.0}
        return out

    def scaled(self, scale: Floats, shift: Floats, where: str) -> "Features":
        """(feature − shift) / scale, each."""
        out = self.numbers(where)
        for j, (s, m) in enumerate(zip(scale.tolist(), shift.tolist(), strict=True)):
            if s == 0 or not (math.isfinite(s) and math.isfinite(m)):
                refuse(where, f"scales its column {j} with {s} and shifts it by {m}, of which it has no numbers; leave it out")
            column = out.alone(j)
            if column is not None and column.kind == "number" and out.offset[j] == 0 and not out.zero[j]:
                ((i, weight),) = out.rows[j].items()
                out.zero[j] = {i: m / weight}
            else:
                out.offset[j] = (out.offset[j] - m) / s
            out.rows[j] = {i: w / s for i, w in out.rows[j].items()}
            out.sizes[j] = {i: w / abs(s) for i, w in out.sizes[j].items()}
            out.rough[j] = (out.rough[j] + abs(m)) / abs(s)
        return out

    def mixed(self, matrix: Floats, where: str) -> "Features":
        """Matrix @ features."""
        out = self.numbers(where)
        for row in out.rows:
            for i, w in row.items():
                out.unit.setdefault(i, 1 / abs(w))
        W, S, zero, offset, rough = out.affine()
        J = len(matrix)
        rows, sizes = _rows(sparse.csr_array(matrix @ W)), _rows(sparse.csr_array(np.abs(matrix) @ S))
        more = np.abs(matrix) @ rough
        nothing: list[tuple[Any, Any]] = [(None, None)] * J
        zeros = [{i: float(zero[i]) for i in row if zero[i] != 0} for row in rows]
        return Features(out.columns, [-1] * J, nothing, rows, (matrix @ offset).tolist(), more.tolist(), sizes, zeros, out.unit)

    def affine(self) -> tuple[Any, Any, Floats, Floats, Floats]:
        """W and sizes (J×D, sparse), zero, w0 and rough; nothing may be untouched."""
        zero, offset = np.zeros(self.columns.size), np.array(self.offset)
        for own in self.zero:
            for i, z in own.items():
                zero[i] = zero[i] or z
        for j, (row, own) in enumerate(zip(self.rows, self.zero, strict=True)):  # where features have different zeros
            offset[j] += sum(w * (zero[i] - own.get(i, 0.0)) for i, w in row.items())
        return *(_sparse(rows, self.columns.size) for rows in (self.rows, self.sizes)), zero, offset, np.array(self.rough)

    def alone(self, j: int) -> Column | None:
        """The one column that feature j depends on; None if there are several or none."""
        owners = {self.columns.owner[i] for i in self.rows[j]}
        return owners.pop() if len(owners) == 1 else None


def _sparse(rows: list[dict[int, float]], size: int) -> Any:
    lengths = [len(row) for row in rows]
    indices = np.fromiter((i for row in rows for i in row), dtype=np.intp, count=sum(lengths))
    data = np.fromiter((w for row in rows for w in row.values()), dtype=np.float64, count=sum(lengths))
    return sparse.csr_array((data, indices, np.concatenate([[0], np.cumsum(lengths)])), shape=(len(rows), size))


def _rows(matrix: Any) -> list[dict[int, float]]:
    return [
        dict(zip(matrix.indices[a:b].tolist(), matrix.data[a:b].tolist(), strict=True))
        for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False)
    ]
