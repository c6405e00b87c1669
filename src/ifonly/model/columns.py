"""The user's own columns and the numbers that the classifier sees of them.

A pipeline of transformers takes rows with columns of all kinds: numbers, categories, missing values. What is left of it when
everything affine is folded into ``A`` and ``b`` is this: every *column* of the user's becomes one or more *coordinates*,

* a number: one coordinate, itself or an increasing (or decreasing) function of it, such as ``log1p``;
* an ordinal: one coordinate, the place of its value in a list, which is a whole number;
* a category: one coordinate per value, one of them 1 and the others 0;

and the rest of the pipeline is affine in the coordinates. Answers go the other way, and only what changed is written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.model.errors import InputError
from ifonly.model.monotone import FARTHEST, Bend, bend_from, bend_to
from ifonly.rows.tables import Table, is_missing, is_row

__all__ = ["NAN", "Column", "Documents", "Encoding", "Table"]

Floats = NDArray[np.float64]

MISSING = "\0missing"  # the key of all kinds of missing values
NAN = float("nan")  # one object, so that tuples of levels with it are equal
SAME_COORDINATE = 1e-14  # relative: nearer ones differ by rounding
MOST_PARTS = 10**6  # of a unit, in a step, as in `actions`
DIGITS = 12  # a bent number is written with so many, where that is the same to the pipeline


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
        What a missing value counts as, in the user's units; None where there must be none.
    missing : object
        The value that counts as missing; None for NaN, None and their like.
    bends : tuple of Bend
        What a number goes through, in turn.
    cut : float or None
        Of a category of two values that are numbers up to this one, and above it.

    """

    place: int
    name: str
    kind: str
    first: int
    levels: tuple[Any, ...] = ()
    unknown: bool = False
    fill: Any = None
    missing: Any = None
    bends: tuple[Bend, ...] = ()
    cut: float | None = None

    @property
    def size(self) -> int:
        """How many coordinates it has."""
        return len(self.levels) + self.unknown if self.kind == "category" else 1

    @cached_property
    def coordinates(self) -> NDArray[np.intp]:
        """Which they are."""
        return np.arange(self.first, self.first + self.size)

    @property
    def labels(self) -> list[str]:
        """What they are called."""
        if self.kind != "category":
            return [self.name]
        if self.cut is not None:
            return [f"{self.name}≤{self.cut:g}", f"{self.name}>{self.cut:g}"]
        shown = [f"{self.name}={level}" for level in self.levels]
        if len(set(shown)) < len(shown):  # 1 and "1"
            shown = [f"{self.name}={level!r}" for level in self.levels]
        return shown + ([f"{self.name}=?"] if self.unknown else [])

    @property
    def closed(self) -> NDArray[np.intp]:
        """The coordinates that a row may keep but no answer may choose: values that are not known, or missing."""
        if self.kind != "category":
            return self.coordinates[:0]
        odd = [is_missing(level) for level in self.levels] + [True] * self.unknown
        return self.coordinates[np.array(odd, dtype=bool)]

    @property
    def rising(self) -> bool:
        """Whether the coordinate of a number rises with it."""
        return sum(not bend.rising for bend in self.bends) % 2 == 0

    @property
    def jumps(self) -> bool:
        """Whether there are coordinates between others that no number has."""
        return any(bend.jumps for bend in self.bends)

    @property
    def range(self) -> tuple[float, float]:
        """The least and largest coordinate that means anything."""
        if self.kind == "ordinal":
            return 0.0, len(self.levels) - 1.0
        if self.kind == "category":
            return (0.0, 1.0) if self.size > 1 else (1.0, 1.0)
        if not self.bends:
            return -np.inf, np.inf
        least, most = -FARTHEST, FARTHEST
        for bend in self.bends:
            low, high = bend.forward(np.clip([least, most], max(bend.least, -FARTHEST), min(bend.most, FARTHEST))).tolist()
            least, most = (low, high) if bend.rising else (high, low)
        return least, most

    def read(self, table: Table) -> Floats:
        """Coordinates (N, size) of its values; NaN where a value is none that it can have."""
        if self.kind == "number" or self.cut is not None:
            v = table.numbers(self.place, self.name)
            if self.fill is not None:
                v = np.where(np.isnan(v) if self.missing is None else v == self.missing, float(self.fill), v)
            if self.cut is None:
                return self.forward(v)[:, None]
            above = np.where(np.isnan(v), np.nan, (v > self.cut).astype(np.float64))
            return np.stack([1.0 - above, above], axis=1)
        values = table.column(self.place)
        index, fill = self._index, None if self.fill is None else _key(self.fill)
        gap = MISSING if self.missing is None else _key(self.missing)
        keys = [_key(value) for value in (values.tolist() if values.dtype.kind in "iubfU" else values)]
        if fill is not None:
            keys = [fill if key == gap else key for key in keys]
        places = np.array([index.get(key, -1) for key in keys], dtype=np.intp)
        if self.kind == "ordinal":
            return np.where(places < 0, np.nan, places.astype(np.float64))[:, None]
        out = np.zeros((len(places), self.size))
        out[np.arange(len(places)), places] = 1.0  # −1 is the last: unknown
        if not self.unknown:
            out[places < 0] = np.nan
        return out

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {_key(level): i for i, level in enumerate(self.levels)}

    def refusal(self, value: Any) -> str:
        """Why a value is none that it can have."""
        if self.kind == "number" or self.cut is not None:
            return f"{self.name} is {value!r}; it must be a finite number"
        shown = ", ".join(repr(level) for level in self.levels[:20]) + (", …" if len(self.levels) > 20 else "")
        return f"{self.name} is {value!r}; it must be one of {shown}"

    def forward(self, v: Floats) -> Floats:
        """The coordinate of a number."""
        for bend in self.bends:
            v = bend.forward(v)
        return v

    def beside(self, v: float, step: float) -> tuple[float, float]:
        """The coordinates nearest to v, below and above, of numbers that are multiples of a step, or quantiles of a bend.

        Twice the same where v is one of them; infinite where there is none on a side.
        """
        raw = np.array([v])
        for bend in reversed(self.bends):
            raw = bend.inverse(raw)
        if step:
            n = np.rint(raw / step) + np.arange(-2.0, 3.0)
            ratio = Fraction(step).limit_denominator(MOST_PARTS)
            numbers = n * ratio.numerator / ratio.denominator if float(ratio) == step else n * step
        else:
            numbers = self._values[np.clip(np.searchsorted(self._values, raw) + np.arange(-3, 4), 0, len(self._values) - 1)]
        first = self.bends[0]
        found = self.forward(numbers[(numbers >= first.least) & (numbers <= first.most)])
        found = found[np.isfinite(found)]
        near = found[np.abs(found - v) <= SAME_COORDINATE * (np.abs(v) + 1)]
        if len(near):
            return float(near[0]), float(near[0])
        below, above = found[found < v], found[found > v]
        return float(below.max(initial=-np.inf)), float(above.min(initial=np.inf))

    @cached_property
    def _values(self) -> Floats:
        """The numbers whose coordinates are the knots of a bend with jumps."""
        i = next(i for i, bend in enumerate(self.bends) if bend.jumps)
        raw = np.unique(self.bends[i].knots)
        for bend in reversed(self.bends[:i]):
            raw = bend.inverse(raw)
        return np.sort(raw)

    def write(self, coordinates: Floats) -> list[Any]:
        """Values from coordinates (N, size)."""
        if self.kind == "number":
            v = coordinates[:, 0]
            for bend in reversed(self.bends):
                v = bend.inverse(v)
            if self.bends:  # a bound comes back as it was given, not as its inverse rounds it
                short = np.array([float(f"{number:.{DIGITS}g}") for number in v.tolist()])
                v = np.where(self.forward(short) == coordinates[:, 0], short, v)
            if self.missing is not None:
                v = np.where(v == self.missing, np.nextafter(v, np.inf), v)
            return v.tolist()
        if self.kind == "ordinal":
            return [self.levels[int(i)] for i in np.rint(coordinates[:, 0])]
        return [self.levels[i] if i < len(self.levels) else None for i in coordinates.argmax(axis=1).tolist()]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "place": self.place,
            "name": self.name,
            "kind": self.kind,
            "levels": [_value_to(level) for level in self.levels],
            "unknown": self.unknown,
            "fill": _value_to(self.fill),
            "missing": _value_to(self.missing),
            "bends": [bend_to(bend) for bend in self.bends],
            "cut": self.cut,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], first: int) -> "Column":
        """From what :meth:`to_dict` gave."""
        return cls(
            int(data["place"]),
            str(data["name"]),
            str(data["kind"]),
            first,
            tuple(_value_from(level) for level in data["levels"]),
            bool(data["unknown"]),
            _value_from(data["fill"]),
            _value_from(data["missing"]),
            tuple(bend_from(bend) for bend in data["bends"]),
            data["cut"],
        )


@dataclass(frozen=True)
class Encoding:
    """All columns of the user's, and the coordinates they become.

    Attributes
    ----------
    names : tuple of str
        The user's columns, those the classifier never sees among them.
    columns : tuple of Column
        Those it sees.
    sizes : tuple of float
        How large the terms of a logit are that a coordinate's unit takes part in, on the way through the pipeline: never less
        than the weight itself, and more where terms cancel. In the classifier's units, as ``A``.

    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    sizes: tuple[float, ...] | None = None

    @property
    def size(self) -> int:
        """D, the number of coordinates."""
        return sum(column.size for column in self.columns)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the coordinates are called."""
        found: dict[str, None] = {}
        for column in self.columns:
            for wanted in column.labels:
                label = wanted
                while label in found:  # a column that is called as another's value is
                    label = f"{label}'"
                found[label] = None
        return tuple(found)

    @cached_property
    def groups(self) -> tuple[NDArray[np.intp], ...]:
        """The coordinates of each category."""
        return tuple(column.coordinates for column in self.columns if column.kind == "category" and column.size > 1)

    @cached_property
    def plain(self) -> bool:
        """Whether coordinates are numbers that may take any value."""
        return all(column.kind == "number" and not column.bends and column.missing is None for column in self.columns)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def single(self, X: Any) -> bool:
        """Whether this is one row."""
        return is_row(X)

    def find(self, name: Any) -> Column | None:
        """The column of a name, or of a number (the user's column of that number), if the classifier sees it."""
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
            return next((column for column in self.columns if column.place == name), None)
        return self._by_name.get(str(name))

    def unseen(self, name: Any) -> bool:
        """Whether this is a column of the user's that the classifier never sees, so that no answer changes it."""
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
            return bool(0 <= name < len(self.names)) and self.find(name) is None
        return str(name) in self.names and str(name) not in self._by_name

    def limits(self) -> tuple[Floats, Floats, Floats]:
        """The least and largest value of each coordinate that means anything, and the steps between (0 for any number)."""
        lo, hi, step = self._limits
        return lo.copy(), hi.copy(), step.copy()

    @cached_property
    def _limits(self) -> tuple[Floats, Floats, Floats]:
        lo, hi, step = np.full(self.size, -np.inf), np.full(self.size, np.inf), np.zeros(self.size)
        for column in self.columns:
            lo[column.coordinates], hi[column.coordinates] = column.range
            if column.kind != "number":
                step[column.coordinates] = 1.0
        return lo, hi, step

    def flags(self, X: Any) -> list[str]:
        """The columns of yes and no, by their type, that the classifier takes as numbers: 0 and 1, and nothing between."""
        if hasattr(X, "__next__"):
            return []
        table = Table.of(X, self.names)
        return [column.name for column in self.columns if column.kind == "number" and table.is_flag(column.place)]

    def read(self, X: Any, *, strict: bool = True) -> Floats:
        """Coordinates (N, D) of a table; values that a column cannot have raise, or are NaN if not ``strict``."""
        table = Table.of(X, self.names)
        out = np.empty((table.n_rows, self.size))
        for column in self.columns:
            found = column.read(table)
            out[:, column.first : column.first + column.size] = found
            if strict and column.kind != "number" and np.isnan(found).any():
                row = int(np.flatnonzero(np.isnan(found).any(axis=1))[0])
                raise InputError(column.refusal(table.column(column.place)[row]))
        return out

    def write(self, X: Any, V: Floats, before: Floats | None = None) -> Any:
        """A table (or a row) like X, with the values of what differs from X's coordinates (``before``) in V (N, D)."""
        table = Table.of(X, self.names)
        before = self.read(table, strict=False) if before is None else before
        differs = before != V  # NaN too: a row without an answer has missing values
        new = {}
        for column in self.columns:
            at = slice(column.first, column.first + column.size)
            changed = np.flatnonzero(differs[:, at].any(axis=1))
            if len(changed):
                new[column.place] = (changed, self._cells(column, V[changed, at]))
        return table.replaced(new, [column.place for column in self.columns if column.kind == "number"])

    @staticmethod
    def _cells(column: Column, V: Floats) -> list[Any]:
        """Values of answers; missing where there is no answer."""
        none = np.isnan(V).any(axis=1)
        if not none.any():
            return column.write(V)
        cells: list[Any] = [None if column.kind != "number" or column.cut is not None else np.nan] * len(V)
        for i, value in zip(np.flatnonzero(~none), column.write(V[~none]), strict=True):
            cells[i] = value
        return cells

    def settled(self, X: Floats, V: Floats, but: Sequence[int] = ()) -> Floats:
        """Coordinates V as the user's pipeline will see them, written and read again where they differ from X's."""
        for column in self.columns:
            if column.first in but:
                continue
            if column.bends or (column.kind == "number" and column.missing is not None):
                at = column.first
                moved = np.flatnonzero(V[:, at] != X[:, at])
                if len(moved):
                    V = V.copy()
                    V[moved, at] = column.forward(np.array(column.write(V[moved, at, None])))
        return V

    def to_dict(self) -> dict[str, Any]:
        """As plain data, which :meth:`from_dict` reads back."""
        columns = [column.to_dict() for column in self.columns]
        return {"names": list(self.names), "columns": columns, "sizes": None if self.sizes is None else list(self.sizes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Encoding":
        """From what :meth:`to_dict` gave."""
        columns: list[Column] = []
        try:
            for stored in data["columns"]:
                columns.append(Column.from_dict(stored, sum(column.size for column in columns)))
            sizes = None if data["sizes"] is None else tuple(float(size) for size in data["sizes"])
            return cls(tuple(map(str, data["names"])), tuple(columns), sizes)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"it is damaged: its columns cannot be read ({error})") from None


@dataclass(frozen=True)
class Documents:
    """Documents, read as the weights of their words; an answer is weights, not a document.

    Attributes
    ----------
    names : tuple of str
        The words.
    transforms : tuple of callables
        What makes weights of documents, in turn.
    signed : bool
        Whether weights may be negative.
    cut : float or None
        Where the classifier sees only whether a weight is above this: the weights are then 0 and 1.

    """

    names: tuple[str, ...]
    transforms: tuple[Callable[[Any], Any], ...]
    signed: bool = False
    cut: float | None = None
    groups: tuple[NDArray[np.intp], ...] = ()
    plain: bool = False
    sizes: tuple[float, ...] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The words."""
        return self.names

    def single(self, X: Any) -> bool:
        """Whether this is one document (or the weights of one)."""
        return isinstance(X, str) or (_are_weights(X) and X.ndim == 1)

    def find(self, name: Any) -> None:
        """No word is a column with levels."""

    def unseen(self, name: Any) -> bool:
        """All words are seen."""
        return False

    def limits(self) -> tuple[Floats, Floats, Floats]:
        """Weights are not negative, and 0 or 1 where only that is seen."""
        size = len(self.names)
        most, step = (np.inf, 0.0) if self.cut is None else (1.0, 1.0)
        return np.full(size, -np.inf if self.signed else 0.0), np.full(size, most), np.full(size, step)

    def read(self, X: Any, *, strict: bool = True) -> Any:
        """Weights of documents; what is numbers already is taken as it is."""
        if isinstance(X, str):
            X = [X]
        if hasattr(X, "to_numpy"):
            X = X.to_numpy()
        if _are_weights(X):
            X = X.reshape(1, -1) if X.ndim == 1 else X
        else:
            for transform in self.transforms:
                X = transform(X)
        weights: Any = X
        return weights if self.cut is None else (weights > self.cut) * 1.0

    def write(self, X: Any, V: Floats, before: Any = None) -> Floats:
        """The weights themselves."""
        return V

    def settled(self, X: Floats, V: Floats, but: Sequence[int] = ()) -> Floats:
        """The weights themselves."""
        return V


def _are_weights(X: Any) -> bool:
    return hasattr(X, "dtype") and getattr(X.dtype, "kind", "O") in "fiub"


def _key(value: Any) -> Any:
    """A value as it is looked up: NumPy's numbers as Python's, and all kinds of missing as one."""
    if isinstance(value, str):
        return str(value)
    return MISSING if is_missing(value) else value.item() if isinstance(value, np.generic) else value


_TYPES: dict[str, Callable[[Any], Any]] = {"str": str, "int": int, "float": float, "bool": bool}


def _value_to(value: Any) -> Sequence[Any]:
    """A cell's value as a pair of a type's name and plain data."""
    if value is None:
        return ["none", None]
    if is_missing(value):
        return ["missing", None]
    kind = type(value).__name__
    if kind not in _TYPES:
        raise InputError(f"a category's value of type {kind} cannot be written to a file: {value!r}")
    return [kind, value]


def _value_from(pair: Any) -> Any:
    kind, value = pair
    return None if kind == "none" else NAN if kind == "missing" else _TYPES[kind](value)
