"""The user's own table and the numbers that the classifier sees of it.

A pipeline of transformers takes rows with columns of all kinds: numbers, categories, missing values. What is left of it when
everything affine is folded into ``A`` and ``b`` is this: every *column* of the user's becomes one or more *coordinates*,

* a number: one coordinate, itself or an increasing (or decreasing) function of it, such as ``log1p``;
* an ordinal: one coordinate, the place of its value in a list, which is a whole number;
* a category: one coordinate per value, one of them 1 and the others 0;

and the rest of the pipeline is affine in the coordinates. Answers go the other way, and only what changed is written.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.errors import InputError

__all__ = ["Column", "Documents", "Encoding", "Monotone", "Table"]

Floats = NDArray[np.float64]

FARTHEST = 1e18  # numbers that are bent stay within it: beyond, the map and its inverse overflow


@dataclass(frozen=True)
class Monotone:
    """An elementwise increasing or decreasing map, with its inverse, as the library itself computes them."""

    name: str
    forward: Callable[[Floats], Floats] = field(compare=False)
    inverse: Callable[[Floats], Floats] = field(compare=False)
    least: float = -np.inf  # where it is defined, in the user's units
    most: float = np.inf
    rising: bool = True
    key: Any = None  # what tells it from others of its name: maps are equal if name, ends and key are


@dataclass(frozen=True)
class Column:
    """One of the user's columns, as coordinates.

    Attributes
    ----------
    place : int
        Which of the user's columns it is.
    name : str
        What that is called.
    kind : {"number", "ordinal", "category"}
    first : int
        Its first coordinate.
    levels : tuple
        The values of an ordinal or a category.
    unknown : bool
        Whether a category has one more coordinate, the last, for values that are not in the list.
    fill : object
        What a missing value counts as; None where there must be none.
    maps : tuple of Monotone
        What a number goes through, in turn.

    """

    place: int
    name: str
    kind: str
    first: int
    levels: tuple[Any, ...] = ()
    unknown: bool = False
    fill: Any = None
    maps: tuple[Monotone, ...] = ()

    @property
    def size(self) -> int:
        """How many coordinates it has."""
        return len(self.levels) + self.unknown if self.kind == "category" else 1

    @property
    def coordinates(self) -> NDArray[np.intp]:
        """Which they are."""
        return np.arange(self.first, self.first + self.size)

    @property
    def labels(self) -> list[str]:
        """What they are called."""
        if self.kind != "category":
            return [self.name]
        return [f"{self.name}={level}" for level in self.levels] + ([f"{self.name}=?"] if self.unknown else [])

    @property
    def rising(self) -> bool:
        """Whether the coordinate of a number rises with it."""
        return sum(not m.rising for m in self.maps) % 2 == 0

    def read(self, values: Any) -> Floats:
        """Coordinates (N, size) of values."""
        if self.kind == "number":
            v = _as_numbers(values, self.name)
            if self.fill is not None:
                v = np.where(np.isnan(v), float(self.fill), v)
            return self.forward(v)[:, None]
        index = {_key(level): i for i, level in enumerate(self.levels)}
        places = np.array([index.get(_key(self._filled(value)), -1) for value in values], dtype=np.intp)
        if (places < 0).any() and not self.unknown:
            odd = next(value for value, place in zip(values, places, strict=True) if place < 0)
            raise InputError(f"{self.name} is {odd!r}; it must be one of {list(self.levels)}")
        if self.kind == "ordinal":
            return places.astype(np.float64)[:, None]
        out = np.zeros((len(places), self.size))
        out[np.arange(len(places)), places] = 1.0  # −1 is the last: unknown
        return out

    def _filled(self, value: Any) -> Any:
        return self.fill if self.fill is not None and _missing(value) else value

    def forward(self, v: Floats) -> Floats:
        """The coordinate of a number."""
        for m in self.maps:
            v = m.forward(v)
        return v

    def write(self, coordinates: Floats) -> list[Any]:
        """Values from coordinates (N, size)."""
        if self.kind == "number":
            v = coordinates[:, 0]
            for m in reversed(self.maps):
                v = m.inverse(v)
            if self.maps:  # a bound comes back as it was given, not as its inverse rounds it
                short = np.array([float(f"{number:.12g}") for number in v.tolist()])
                v = np.where(self.forward(short) == coordinates[:, 0], short, v)
            return v.tolist()
        if self.kind == "ordinal":
            return [self.levels[int(i)] for i in coordinates[:, 0]]
        return [self.levels[i] if i < len(self.levels) else None for i in coordinates.argmax(axis=1).tolist()]


@dataclass(frozen=True)
class Encoding:
    """All columns of the user's, and the coordinates they become.

    Attributes
    ----------
    names : tuple of str
        The user's columns, those the classifier never sees among them.
    columns : tuple of Column
        Those it sees.
    by_name : bool
        Whether a frame is needed, or a plain table will do.

    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    by_name: bool = True

    @property
    def size(self) -> int:
        """D, the number of coordinates."""
        return sum(column.size for column in self.columns)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the coordinates are called."""
        return tuple(label for column in self.columns for label in column.labels)

    @cached_property
    def groups(self) -> tuple[NDArray[np.intp], ...]:
        """The coordinates of each category."""
        return tuple(column.coordinates for column in self.columns if column.kind == "category" and column.size > 1)

    @property
    def plain(self) -> bool:
        """Whether coordinates are numbers that may take any value."""
        return all(column.kind == "number" and not column.maps for column in self.columns)

    def single(self, X: Any) -> bool:
        """Whether this is one row."""
        return _is_single(X)

    def find(self, name: Any) -> Column | None:
        """The column of a name, if the classifier sees it."""
        return next((column for column in self.columns if column.name == str(name)), None)

    def limits(self) -> tuple[Floats, Floats, Floats]:
        """The least and largest value of each coordinate that means anything, and the steps between (0 for any number)."""
        lo, hi, step = np.full(self.size, -np.inf), np.full(self.size, np.inf), np.zeros(self.size)
        for column in self.columns:
            at = column.coordinates
            if column.kind == "ordinal":
                lo[at], hi[at], step[at] = 0.0, len(column.levels) - 1.0, 1.0
            elif column.kind == "category":
                lo[at], hi[at], step[at] = 0.0, 1.0, 1.0
            elif column.maps:
                ends = np.clip([column.maps[0].least, column.maps[0].most], -FARTHEST, FARTHEST)
                lo[at], hi[at] = np.sort(column.forward(ends))
        return lo, hi, step

    def read(self, X: Any) -> Floats:
        """Coordinates (N, D) of a table."""
        table = X if isinstance(X, Table) else Table.of(X, self.names)
        out = np.empty((table.n_rows, self.size))
        for column in self.columns:
            out[:, column.coordinates] = column.read(table.column(column.place))
        return out

    def write(self, X: Any, V: Floats) -> Any:
        """A table like X, with the values of what differs from X's coordinates in V."""
        table = X if isinstance(X, Table) else Table.of(X, self.names)
        new = {}
        for column in self.columns:
            at = column.coordinates
            changed = np.flatnonzero((column.read(table.column(column.place)) != V[:, at]).any(axis=1))
            if len(changed):
                new[column.place] = (changed, column.write(V[np.ix_(changed, at)]))
        return table.replaced(new)

    def settled(self, X: Floats, V: Floats) -> Floats:
        """Coordinates V as the user's pipeline will see them, written and read again where they differ from X's."""
        for column in self.columns:
            if column.maps:
                at = column.first
                moved = np.flatnonzero(V[:, at] != X[:, at])
                if len(moved):
                    V = V.copy()
                    V[moved, at] = column.forward(np.array(column.write(V[moved, at, None])))
        return V


@dataclass(frozen=True)
class Documents:
    """Documents, read as the weights of their words; an answer is weights, not a document.

    Attributes
    ----------
    names : tuple of str
        The words.
    transforms : tuple of callables
        What makes weights of documents, in turn.

    """

    names: tuple[str, ...]
    transforms: tuple[Callable[[Any], Any], ...]
    groups: tuple[NDArray[np.intp], ...] = ()
    plain: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The words."""
        return self.names

    def single(self, X: Any) -> bool:
        """Whether this is one document (or the weights of one)."""
        return isinstance(X, str) or (hasattr(X, "dtype") and X.dtype.kind in "fiub" and X.ndim == 1)

    def find(self, name: Any) -> None:
        """No word is a column with levels."""

    def limits(self) -> tuple[Floats, Floats, Floats]:
        """Weights are not negative."""
        size = len(self.names)
        return np.zeros(size), np.full(size, np.inf), np.zeros(size)

    def read(self, X: Any) -> Any:
        """Weights of documents; what is numbers already is taken as it is."""
        if isinstance(X, str):
            X = [X]
        if hasattr(X, "dtype") and X.dtype.kind in "fiub":
            return X[None] if X.ndim == 1 else X
        for transform in self.transforms:
            X = transform(X)
        return X

    def write(self, X: Any, V: Floats) -> Floats:
        """The weights themselves."""
        return V

    def settled(self, X: Floats, V: Floats) -> Floats:
        """The weights themselves."""
        return V


class Table:
    """A pandas or polars frame or row, or a plain table, by columns."""

    def __init__(self, data: Any, names: Sequence[str]) -> None:
        self.data: Any = data
        module = type(data).__module__.split(".")[0]
        self.kind = module if module in ("pandas", "polars") else "numpy"
        if self.kind == "numpy":
            self.data = np.asarray(data, dtype=None if hasattr(data, "dtype") else object)
            if self.data.ndim != 2 or self.data.shape[1] != len(names):
                raise InputError(
                    f"x must have {len(names)} columns, {list(names[:5])} …; got an array of shape {self.data.shape}"
                )
            self.order = list(range(len(names)))
            return
        columns = [str(c) for c in data.columns]
        missing = [name for name in names if name not in columns]
        if missing:
            raise InputError(f"x must have the columns the model was fitted on; missing {missing[:5]}")
        self.order = [columns.index(name) for name in names]

    @classmethod
    def of(cls, X: Any, names: Sequence[str]) -> "Table":
        """A table as it comes; a pandas row is a table of one."""
        if type(X).__module__.split(".")[0] == "pandas" and X.ndim == 1:
            X = X.to_frame().T
        elif isinstance(X, dict):
            X = np.array([[X[name] for name in names]], dtype=object)
        elif isinstance(X, (list, tuple)) and (not X or not isinstance(X[0], (list, tuple, np.ndarray))):
            X = np.array([X], dtype=object)
        elif isinstance(X, np.ndarray) and X.ndim == 1:
            X = X[None]
        return cls(X, names)

    def take(self, rows: Any) -> "Table":
        """Some rows."""
        out = copy(self)
        out.data = self.data.iloc[rows] if self.kind == "pandas" else self.data[rows]
        return out

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.data)

    def column(self, place: int) -> Any:
        """One of the model's columns."""
        i = self.order[place]
        if self.kind == "pandas":
            return self.data.iloc[:, i].to_numpy()
        if self.kind == "polars":
            return self.data[self.data.columns[i]].to_numpy()
        return self.data[:, i]

    def replaced(self, new: dict[int, tuple[NDArray[np.intp], list[Any]]]) -> Any:
        """A table of the same kind with some cells replaced; columns keep their type where it can hold the new values."""
        if self.kind == "numpy":
            out = self.data.copy()
            if out.dtype.kind in "iubf" and any(_held(values, out.dtype)[1] for _, values in new.values()):
                out = out.astype(np.float64)
            for place, (rows, values) in new.items():
                out[rows, self.order[place]] = values
            return out
        if self.kind == "pandas":
            out = self.data.copy()
            for place, (rows, values) in new.items():
                name = out.columns[self.order[place]]
                column = out[name].copy()
                kind = getattr(column.dtype, "numpy_dtype", column.dtype)  # of a nullable number, its own
                if getattr(kind, "kind", "O") in "iubf":
                    held, wide = _held(values, kind)
                    column = column.astype(np.float64) if wide else column
                    column.iloc[rows] = held
                else:
                    column.iloc[rows] = values
                out[name] = column
            return out
        import sys

        pl, out = sys.modules["polars"], self.data
        for place, (rows, values) in new.items():
            name = out.columns[self.order[place]]
            cells, dtype, held = out[name].to_list(), out[name].dtype, values
            if dtype.is_numeric():
                held, wide = _held(values, out[name].to_numpy().dtype)
                dtype = pl.Float64 if wide else dtype
            for row, value in zip(rows.tolist(), held, strict=True):
                cells[row] = value
            out = out.with_columns(pl.Series(name, cells, dtype=dtype))
        return out


def _held(values: list[Any], dtype: Any) -> tuple[list[Any], bool]:
    """Numbers as a column of this type can hold them, and whether it cannot, so that it must become float64."""
    exact = np.array(values, dtype=np.float64)
    held = exact.astype(dtype)
    wide = bool((held.astype(np.float64) != exact).any())
    return (exact if wide else held).tolist(), wide


def _is_single(X: Any) -> bool:
    """Whether this is one of the user's rows, not a table of them."""
    if isinstance(X, dict) or getattr(X, "ndim", 2) == 1:
        return True
    return isinstance(X, (list, tuple)) and not (X and isinstance(X[0], (list, tuple, np.ndarray, dict)))


def _as_numbers(values: Any, name: str) -> Floats:
    try:
        return np.asarray(values).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers ({error})") from None


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))


def _key(value: Any) -> Any:
    """A value as it is looked up: NumPy's numbers as Python's, and all kinds of missing as one."""
    if _missing(value) or type(value).__name__ in ("NAType", "NaTType"):
        return "\0missing"
    return value.item() if isinstance(value, np.generic) else value
