"""Features half-way through a pipeline: from the user's columns to coordinates, and from those by an affine map to features.

    features = W (v − zero) + w0,       v = the coordinates of `columns.Encoding`

On the way a column may be read in several ways (as it is and through ``log1p``, say), each with coordinates of its own. In the
end only one of them may be in use: no single number can be moved for two that depend on it in different ways.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ifonly.model import LinearWeights
from ifonly.model.columns import Column, Encoding
from ifonly.model.errors import UnsupportedModelError
from ifonly.model.monotone import Affine
from ifonly.model.numerics import Floats, Indices

__all__ = ["Folded", "ReadColumns", "Traced", "TracedFeatures", "dense", "kind_of", "rounding"]


def kind_of(step: Any) -> str:
    """The name of the class, if it is scikit-learn's own: a subclass may do anything."""
    cls = type(step)
    return cls.__name__ if cls.__module__.split(".")[0] == "sklearn" else f"{cls.__module__}.{cls.__name__}"


def dense(matrix: Any) -> Floats:
    """A matrix of scikit-learn's, sparse or not, as an array of float64."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


class ReadColumns:
    """The user's columns, and the ways in which they were read so far, each with coordinates of its own."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.read: dict[Any, Column] = {}  # by place and everything else that matters
        self.owner: list[Column] = []  # of each coordinate
        self.where: dict[Column, str] = {}  # which step read it so

    def make(self, given: Column, kind: str, where: str, **more: Any) -> Column:
        """The coordinates of a column read in this way; the same ones if it was read so before.

        It is untouched, or was read in another way: what a missing value counts as stays so, unless ``more`` has a ``fill``.
        """
        wanted = Column(given.place, given.name, kind, 0, **{"fill": given.fill, "missing": given.missing, **more})
        found = self.read.get(wanted)
        if found is None:
            found = self.read[wanted] = replace(wanted, first=len(self.owner))
            self.owner += [found] * found.size
            self.where[found] = where
        return found

    def encoding(self, used: NDArray[np.bool_]) -> tuple[Encoding, Indices]:
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


@dataclass(frozen=True)
class Traced:
    """One feature half-way, affine in coordinates: ``Σ_i row[i]·(v_i − zero[i]) + offset``.

    A scaler's mean of a column goes into ``zero``, so that nothing is left to cancel later.
    """

    row: dict[int, float] = field(default_factory=dict)  # weights by coordinate
    offset: float = 0.0
    rough: float = 0.0  # the sum of |offsets| on the way: they may cancel, but each rounds
    sizes: dict[int, float] = field(default_factory=dict)  # where features were mixed: weights as if no terms had cancelled
    zero: dict[int, float] = field(default_factory=dict)  # what the weights are taken of: coordinates less these
    way: tuple[Affine, ...] | None = ()  # of a single number: the scalers since it was read, one by one; None where mixed


@dataclass(frozen=True)
class TracedFeatures:
    """Features half-way, or columns that nothing has touched yet; and each coordinate's scale just before they were mixed."""

    columns: ReadColumns
    parts: list[Column | Traced]
    unit: dict[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.parts)

    @classmethod
    def untouched(cls, names: Sequence[str]) -> "TracedFeatures":
        """The user's columns, before the first step."""
        return cls(ReadColumns(names), [Column(place, name, "number", -1) for place, name in enumerate(names)])

    def now(self, parts: Iterable[Column | Traced]) -> "TracedFeatures":
        """Others in their place."""
        return TracedFeatures(self.columns, list(parts), dict(self.unit))

    def numbers(self, where: str) -> list[Traced]:
        """All of them, untouched columns taken as numbers."""
        make = self.columns.make
        return [Traced({make(part, "number", where).first: 1.0}) if isinstance(part, Column) else part for part in self.parts]

    def mixed(self, matrix: Floats, where: str) -> "TracedFeatures":
        """Matrix @ features."""
        W, S, zero, offset, rough = self.affine(where)
        unit = {i: 1 / abs(w) for part in reversed(self.numbers(where)) for i, w in part.row.items()} | self.unit
        rows, sizes = _rows(matrix @ W), _rows(np.abs(matrix) @ S)
        more = zip(rows, (matrix @ offset).tolist(), (np.abs(matrix) @ rough).tolist(), sizes, strict=True)
        made = (Traced(*part, {i: float(zero[i]) for i in part[0] if zero[i] != 0}, None) for part in more)
        return TracedFeatures(self.columns, list(made), unit)

    def affine(self, where: str) -> tuple[Any, Any, Floats, Floats, Floats]:
        """W and sizes (J×D, sparse), zero, w0 and rough."""
        parts = self.numbers(where)
        zero, offset = np.zeros(len(self.columns.owner)), np.array([part.offset for part in parts])
        for part in parts:
            for i, z in part.zero.items():
                zero[i] = zero[i] or z
        for j, part in enumerate(parts):  # where features have different zeros
            offset[j] += sum(w * (zero[i] - part.zero.get(i, 0.0)) for i, w in part.row.items())
        sizes = [part.sizes or {i: abs(w) for i, w in part.row.items()} for part in parts]
        W, S = (_sparse(rows, len(zero)) for rows in ([part.row for part in parts], sizes))
        return W, S, zero, offset, np.array([part.rough for part in parts])

    def alone(self, part: Traced) -> Column | None:
        """The one column that a feature depends on; None if there are several or none."""
        owners = {self.columns.owner[i] for i in part.row}
        return owners.pop() if len(owners) == 1 else None


class Folded(NamedTuple):
    """A classifier and the steps before it as one: ``coef (v − zero) + intercept`` over the coordinates that they read."""

    W: Any  # the steps alone, J×D, sparse
    coef: Floats
    intercept: Floats
    zero: Floats
    sizes: Floats  # how large the terms of a unit of each coordinate are, in any class
    extra: float  # how large what is added on the way is

    @classmethod
    def of(cls, weights: LinearWeights, features: TracedFeatures) -> "Folded":
        """Those of a classifier with these weights over features."""
        coef, J = weights.coef, len(features)
        if coef.shape[1] != J:
            raise UnsupportedModelError(f"the steps give {J} features, the classifier takes {coef.shape[1]}")
        W, S, zero, offset, rough = features.affine("the classifier")
        extra = float((np.abs(coef) @ (rough + np.abs(offset)) + np.abs(weights.intercept)).max())
        return cls(W, coef @ W, weights.intercept + coef @ offset, zero, (np.abs(coef) @ S).max(axis=0), extra)


def rounding(extra: float, sizes: Floats, unit: Floats) -> Floats:
    """What is added on the way, as if it all were in the coordinate that counts most, by its unit."""
    out, top = np.zeros(len(sizes)), int(sizes.argmax())
    if sizes[top] > 0:
        out[top] = extra * unit[top] / sizes[top]
    return out


def _sparse(rows: list[dict[int, float]], size: int) -> Any:
    lengths = [len(row) for row in rows]
    indices = np.fromiter((i for row in rows for i in row), dtype=np.intp, count=sum(lengths))
    data = np.fromiter((w for row in rows for w in row.values()), dtype=np.float64, count=sum(lengths))
    return sparse.csr_array((data, indices, np.concatenate([[0], np.cumsum(lengths)])), shape=(len(rows), size))


def _rows(matrix: Any) -> list[dict[int, float]]:
    stored = sparse.lil_array(matrix)
    return [dict(zip(*row, strict=True)) for row in zip(stored.rows, stored.data, strict=True)]
