"""The user's columns, and how rows of them become the numbers that the classifier sees: coordinates, one per column of ``A``.

A pipeline of transformers takes rows with columns of all kinds: numbers, categories, missing values. What is left of it when
everything affine is folded into ``A`` and ``b`` is this: every `Column` of the user's becomes one or more *coordinates*,

* a number: one coordinate, itself or an increasing (or decreasing) function of it, such as ``log1p``;
* an ordinal: one coordinate, the place of its value in a list, which is a whole number;
* a category: one coordinate per value, one of them 1 and the others 0;

and the rest of the pipeline is affine in the coordinates. Answers go the other way, and only what changed is written.

A model always has an `Encoding`: of such columns, of plain numbers, which are the coordinates already, or of `Documents`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ifonly.model.errors import InputError, reading
from ifonly.model.formats import typed, untyped
from ifonly.model.monotone import FARTHEST, Monotone, Quantiles, backward, from_dict, to_dict
from ifonly.model.numerics import Floats, Indices, frozen
from ifonly.model.tables import UserTable, aligned, is_missing, is_row

__all__ = ["NAN", "Column", "Documents", "Encoding", "UserTable", "nearest_two"]

MISSING = "\0missing"  # the key of all kinds of missing values
NAN = float("nan")  # one object, so that tuples of levels with it are equal
MOST_VALUES = 100_000  # of a number that are looked through at once
LEAST, MOST_DOUBLINGS = 1e-12, 64  # of numbers at the end of a map: their size, and steps away from there
MOST_READINGS = 16  # until a coordinate settles; two or three are usual
SAME_COORDINATE = 1e-14  # relative: nearer ones differ by rounding
MOST_PARTS = 10**6  # of a unit, in a step, as in `actions`
DIGITS, DECIMALS = 12, 6  # a mapped number is written with so many, or with no more after the point, where that is the same


@dataclass(frozen=True)
class Column:
    """One of the user's columns, as coordinates."""

    place: int  # which of the user's columns it is
    name: str  # what that is called
    kind: str  # "number", "ordinal" or "category"
    first: int  # its first coordinate
    levels: tuple[Any, ...] = ()  # the values of an ordinal or a category
    unknown: bool = False  # whether a category has one more coordinate, the last, for values that are not in the list
    fill: Any = None  # what a missing value counts as, in the user's units; None where there must be none
    missing: Any = None  # the value that counts as missing; None for NaN, None and their like
    maps: tuple[Monotone, ...] = ()  # what a number goes through, in turn
    cut: float | None = None  # of a category of two values that are numbers up to this one, and above it

    @property
    def numeric(self) -> bool:
        """Whether the user's values are numbers."""
        return self.kind == "number" or self.cut is not None

    @cached_property
    def size(self) -> int:
        """How many coordinates it has."""
        return len(self.levels) + self.unknown if self.kind == "category" else 1

    @cached_property
    def coordinates(self) -> Indices:
        """The features of the model that are its coordinates."""
        return np.arange(self.first, self.first + self.size)

    @property
    def labels(self) -> list[str]:
        """What its coordinates are called."""
        if self.kind != "category":
            return [self.name]
        if self.cut is not None:
            return [f"{self.name}≤{self.cut:g}", f"{self.name}>{self.cut:g}"]
        shown = [f"{self.name}={level}" for level in self.levels]
        if len(set(shown)) < len(shown):  # 1 and "1"
            shown = [f"{self.name}={level!r}" for level in self.levels]
        return shown + [f"{self.name}=?"] * self.unknown

    @property
    def closed(self) -> Indices:
        """The coordinates that a row may keep but no answer may choose: values that are not known, or missing."""
        odd = [*map(is_missing, self.levels), *[True] * self.unknown] if self.kind == "category" else [False]
        return self.coordinates[np.array(odd, dtype=bool)]

    @property
    def rising(self) -> bool:
        """Whether the coordinate of a number rises with it."""
        return sum(not step.rising for step in self.maps) % 2 == 0

    @property
    def jumps(self) -> bool:
        """Whether there are coordinates between others that no number has."""
        return any(step.jumps for step in self.maps)

    @cached_property
    def range(self) -> tuple[float, float]:
        """The least and largest coordinate that means anything."""
        if self.kind == "ordinal":
            return 0.0, len(self.levels) - 1.0
        if self.kind == "category":
            return (0.0, 1.0) if self.size > 1 else (1.0, 1.0)
        if not self.maps:
            return -np.inf, np.inf
        least, most = -FARTHEST, FARTHEST
        for step in self.maps:
            low, high = step.forward(np.clip([least, most], max(step.least, -FARTHEST), min(step.most, FARTHEST))).tolist()
            least, most = (low, high) if step.rising else (high, low)
        return least, most

    def read(self, table: UserTable) -> Floats:
        """Coordinates (N, size) of its values; NaN where a value is none that it can have."""
        if self.numeric:
            v = self.filled(table.numbers(self.place, self.name))
            if self.cut is None:
                return self.forward(v)[:, None]
            above = np.where(np.isnan(v), np.nan, (v > self.cut).astype(np.float64))
            return np.stack([1.0 - above, above], axis=1)
        places = self._places(table.column(self.place))
        if self.kind == "ordinal":
            return np.where(places < 0, np.nan, places.astype(np.float64))[:, None]
        out = np.zeros((len(places), self.size))
        out[np.arange(len(places)), places] = 1.0  # −1 is the last: unknown
        if not self.unknown:
            out[places < 0] = np.nan
        return out

    def filled(self, v: Floats) -> Floats:
        """Numbers, with what a missing one counts as in its place."""
        if self.fill is None:
            return v
        return np.where(np.isnan(v) if self.missing is None else v == self.missing, float(self.fill), v)

    def _places(self, values: np.ndarray) -> Indices:
        """Where in the list values are; −1 for those that are not there."""
        keys = [_key(value) for value in (values.tolist() if values.dtype.kind in "iubfU" else values)]
        if self.fill is not None:
            fill, gap = _key(self.fill), MISSING if self.missing is None else _key(self.missing)
            keys = [fill if key == gap else key for key in keys]
        return np.array([self._index.get(key, -1) for key in keys], dtype=np.intp)

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {_key(level): i for i, level in enumerate(self.levels)}

    def refusal(self, value: Any) -> str:
        """Why a value is none that it can have."""
        if self.numeric:
            return f"{self.name} is {value!r}; it must be a finite number"
        shown = ", ".join(repr(level) for level in self.levels[:20]) + (", …" if len(self.levels) > 20 else "")
        return f"{self.name} is {value!r}; it must be one of {shown}"

    def forward(self, v: Floats) -> Floats:
        """The coordinate of a number."""
        for step in self.maps:
            v = step.forward(v)
        return v

    def beside(self, v: float, step: float) -> tuple[float, float]:
        """The coordinates nearest to v (`nearest_two`) of numbers that are multiples of a step, or quantiles of a map."""
        return nearest_two(self.around(v, step), v)

    def around(self, v: float, step: float) -> Floats:
        """These, and the next ones, as far as there are any."""
        raw = backward(self.maps, np.array([v]))
        if step:
            return self._of_numbers(_multiples(np.rint(raw / step) + np.arange(-2.0, 3.0), step))
        at = np.searchsorted(self._values, raw) + np.arange(-3, 4)
        return self._of_numbers(self._values[np.clip(at, 0, len(self._values) - 1)])

    def between(self, ends: tuple[float, float], step: float) -> Floats | None:
        """All of them between two coordinates, and a few beyond, in order; None where there are too many."""
        if not step:
            return np.sort(self._of_numbers(self._values))
        raw = backward(self.maps, np.array(ends)) / step
        if not raw.max() - raw.min() < MOST_VALUES:
            return None
        return np.sort(self._of_numbers(_multiples(np.arange(np.floor(raw.min()) - 2, np.ceil(raw.max()) + 3), step)))

    def _of_numbers(self, numbers: Floats) -> Floats:
        first = self.maps[0]
        found = self.forward(numbers[(numbers >= first.least) & (numbers <= first.most)])
        return found[np.isfinite(found)]

    @cached_property
    def _values(self) -> Floats:
        """The numbers that are quantiles of a map with jumps."""
        i, found = next((i, step) for i, step in enumerate(self.maps) if isinstance(step, Quantiles) and step.jumps)
        return np.sort(backward(self.maps[:i], np.unique(found.quantiles)))

    def settled(self, v: Floats) -> Floats:
        """Coordinates that are those of the numbers which are written for them: read, and written, and read again."""
        for _ in range(MOST_READINGS):
            before, v = v, self.forward(np.array(self.write(v[:, None])))
            if np.array_equal(before, v, equal_nan=True):
                break
        return v

    def write(self, coordinates: Floats, step: float = 0.0) -> list[Any]:
        """Values from coordinates (N, size), missing where those are NaN; multiples of a step where there is one."""
        if self.kind == "number":
            v = backward(self.maps, coordinates[:, 0])
            if self.maps:  # a bound comes back as it was given, not as its inverse rounds it
                v = self._short(self._inside(v), coordinates[:, 0], step)
            if self.missing is not None:
                v = np.where(v == self.missing, np.nextafter(v, np.inf), v)
            return v.tolist()
        at = np.rint(coordinates[:, 0]) if self.kind == "ordinal" else coordinates.argmax(axis=1)
        none = np.isnan(coordinates).any(axis=1)
        values = (*self.levels, None)  # the last for what is not in the list, and for a row without an answer
        return [values[i] for i in np.where(none, -1, at).astype(np.intp).tolist()]

    def _inside(self, v: Floats) -> Floats:
        """Numbers that have a coordinate: those that rounding put where a map ends, moved by about as little as it takes."""
        at, step = v, np.spacing(np.maximum(np.abs(v), LEAST))
        for _ in range(MOST_DOUBLINGS):
            lost = ~np.isfinite(self.forward(v)) & np.isfinite(at)
            if not lost.any():
                break
            above = at + step
            v, step = np.where(lost, np.where(np.isfinite(self.forward(above)), above, at - step), v), 2 * step
        return v

    def _short(self, v: Floats, coordinates: Floats, step: float) -> Floats:
        """Numbers with few digits, or multiples of a step, where the pipeline makes the same coordinates of them."""
        first, found, numbers = self.maps[0], v, v.tolist()
        few = [float(f"{number:.{DIGITS}g}") for number in numbers]
        fewer = [float(f"{round(number, DECIMALS):.{DECIMALS + 1}g}") for number in numbers]
        least, most = self.range if self.rising else self.range[::-1]  # beyond their numbers all have the same coordinate
        beyond = [np.where(coordinates == least, v, -np.inf), np.where(coordinates == most, v, np.inf)]
        tried = [np.clip(np.array(near), *beyond) for near in (few, fewer)]
        tried += [_multiples(np.rint(v / step) + n, step) for n in (1.0, -1.0, 0.0)] if step else []
        for near in tried:
            same = (near >= first.least) & (near <= first.most)
            same[same] = self.forward(near[same]) == coordinates[same]
            found = np.where(same, near, found)
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain data, but for where its coordinates begin; monotone maps are called bends there."""
        plain = {name: getattr(self, name) for name in ("place", "name", "kind", "unknown", "cut")}
        values = {"fill": _value_to(self.fill), "missing": _value_to(self.missing)}
        return {**plain, **values, "levels": list(map(_value_to, self.levels)), "bends": list(map(to_dict, self.maps))}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], first: int) -> "Column":
        """From what :meth:`to_dict` gave."""
        levels, maps = tuple(map(_value_from, data["levels"])), tuple(map(from_dict, data["bends"]))
        fill, missing, unknown = _value_from(data["fill"]), _value_from(data["missing"]), bool(data["unknown"])
        place, name, kind = int(data["place"]), str(data["name"]), str(data["kind"])
        return cls(place, name, kind, first, levels, unknown, fill, missing, maps, data["cut"])


@dataclass(frozen=True)
class Encoding:
    """How rows become coordinates; where nothing is known of their columns, they are the coordinates themselves."""

    names: tuple[str, ...]  # the user's columns, those that the classifier never sees among them; none without names
    columns: tuple[Column, ...] = ()  # what is known of those that it sees, where they are more than numbers
    # How large the terms of a logit are that a coordinate's unit takes part in, on the way through a pipeline: never less than
    # the weight itself, and more where terms cancel. In the classifier's units, as ``A``.
    sizes: tuple[float, ...] | None = None
    text = False  # whether the rows are documents

    @cached_property
    def identity(self) -> bool:
        """Whether the user's rows are the coordinates themselves."""
        return not (self.columns or self.text)

    @cached_property
    def size(self) -> int:
        """D, the number of coordinates."""
        return sum(column.size for column in self.columns)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the coordinates are called."""
        found: dict[str, None] = {}
        for wanted in (label for column in self.columns for label in column.labels):
            label = wanted
            while label in found:  # a column that is called as another's value is
                label = f"{label}'"
            found[label] = None
        return tuple(found)

    @cached_property
    def groups(self) -> tuple[Indices, ...]:
        """The coordinates of each category."""
        return tuple(column.coordinates for column in self.columns if column.kind == "category" and column.size > 1)

    @cached_property
    def plain(self) -> bool:
        """Whether coordinates are numbers that may take any value."""
        free = (column.kind == "number" and not column.maps and column.missing is None for column in self.columns)
        return not self.text and all(free)

    @cached_property
    def limits(self) -> tuple[Floats, Floats, Floats]:
        """The least and largest value of each coordinate that means anything, and the steps between (0 for any number)."""
        if self.identity:
            return np.array(-np.inf), np.array(np.inf), np.array(0.0)
        lo, hi, step = np.full(self.size, -np.inf), np.full(self.size, np.inf), np.zeros(self.size)
        for column in self.columns:
            lo[column.coordinates], hi[column.coordinates] = column.range
            if column.kind != "number":
                step[column.coordinates] = 1.0
        return frozen(lo), frozen(hi), frozen(step)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def find(self, name: Any) -> Column | None:
        """The column of a name, or of a number (the user's column of that number), if more is known of it."""
        if _is_place(name):
            return next((column for column in self.columns if column.place == name), None)
        return self._by_name.get(str(name))

    def unseen(self, name: Any) -> bool:
        """Whether this is a column of the user's that the classifier never sees, so that no answer changes it."""
        there = name in range(len(self.names)) if _is_place(name) else str(name) in self.names
        return bool(self.columns and there) and self.find(name) is None

    def flags(self, table: UserTable) -> list[str]:
        """The columns of yes and no, by their type, that the classifier takes as numbers: 0 and 1, and nothing between."""
        return [column.name for column in self.columns if column.kind == "number" and table.is_flag(column.place)]

    def single(self, X: Any) -> bool:
        """Whether this is one row of the user's columns, of which `read` makes a table of one."""
        return not self.identity and is_row(X)

    def read(self, X: Any, *, strict: bool = True) -> Any:
        """Coordinates (N, D) of the user's rows; values that a column cannot have raise, or are NaN if not ``strict``.

        Numbers are read as they are; those of a frame in the order of the names.
        """
        if self.identity:
            return aligned(X, self.names or None)
        table = UserTable.of(X, self.names)
        out = np.empty((len(table), self.size))
        for column in self.columns:
            found = column.read(table)
            out[:, column.first : column.first + column.size] = found
            if strict and column.kind != "number" and np.isnan(found).any():
                row = int(np.flatnonzero(np.isnan(found).any(axis=1))[0])
                raise InputError(column.refusal(table.column(column.place)[row]))
        return out

    def settled(self, X: Floats, V: Floats, but: Sequence[int] = ()) -> Floats:
        """Coordinates V as the pipeline will see them, written and read again where they differ from X's, ``but`` for these."""
        for column in self.columns:
            at = column.first
            if at in but or not (column.maps or (column.kind == "number" and column.missing is not None)):
                continue
            moved = np.flatnonzero(V[:, at] != X[:, at])
            if len(moved):
                V = V.copy()
                V[moved, at] = column.settled(V[moved, at])
        return V

    def to_dict(self) -> dict[str, Any] | None:
        """As plain data, which :meth:`from_dict` reads back; None where nothing is known of the columns."""
        if self.identity:
            return None
        columns = [column.to_dict() for column in self.columns]
        return {"names": list(self.names), "columns": columns, "sizes": None if self.sizes is None else list(self.sizes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Encoding":
        """From what :meth:`to_dict` gave."""
        columns: list[Column] = []
        with reading("it is damaged: its columns cannot be read", KeyError, TypeError, ValueError):
            for stored in data["columns"]:
                columns.append(Column.from_dict(stored, sum(column.size for column in columns)))
            sizes = None if data["sizes"] is None else tuple(float(size) for size in data["sizes"])
            return cls(tuple(map(str, data["names"])), tuple(columns), sizes)


@dataclass(frozen=True)
class Documents(Encoding):
    """Documents, read as the weights of their words (the names); an answer is weights, not a document."""

    transforms: tuple[Callable[[Any], Any], ...] = ()  # what makes weights of documents, in turn
    cut: float | None = None  # where the classifier sees only whether a weight is above this: the weights are then 0 and 1
    text = True

    @cached_property
    def limits(self) -> tuple[Floats, Floats, Floats]:
        """Weights are not negative, and 0 or 1 where only that is seen."""
        size = len(self.names)
        most, step = (np.inf, 0.0) if self.cut is None else (1.0, 1.0)
        return np.zeros(size), np.full(size, most), np.full(size, step)

    def single(self, X: Any) -> bool:
        """Whether this is one document (or the weights of one)."""
        return isinstance(X, str) or (_are_weights(X) and X.ndim == 1)

    def read(self, X: Any, *, strict: bool = True) -> Any:
        """Weights of documents; what is numbers already is taken as it is."""
        weights: Any = [X] if isinstance(X, str) else X.to_numpy() if hasattr(X, "to_numpy") else X
        if _are_weights(weights):
            weights = weights.reshape(1, -1) if weights.ndim == 1 else weights
        else:
            for transform in self.transforms:
                weights = transform(weights)
        return weights if self.cut is None else (weights > self.cut) * 1.0

    def to_dict(self) -> dict[str, Any] | None:
        """Refused: what makes weights of documents is code."""
        raise InputError("a model of columns that are not all plain numbers cannot be saved; save its estimator with skops")


def _is_place(name: Any) -> bool:
    return isinstance(name, (int, np.integer)) and not isinstance(name, bool)


def _are_weights(X: Any) -> bool:
    return hasattr(X, "dtype") and getattr(X.dtype, "kind", "O") in "fiub"


def _multiples(n: Floats, step: float) -> Floats:
    """``n`` times a step, without the rounding of a step such as 0.1."""
    ratio = Fraction(step).limit_denominator(MOST_PARTS)
    return n * ratio.numerator / ratio.denominator if float(ratio) == step else n * step


def _key(value: Any) -> Any:
    """A value as it is looked up: NumPy's numbers as Python's, and all kinds of missing as one."""
    if isinstance(value, str):
        return str(value)
    return MISSING if is_missing(value) else value.item() if isinstance(value, np.generic) else value


def _value_to(value: Any) -> list[Any]:
    """A cell's value as a pair of a type's name and plain data."""
    missing = value is not None and is_missing(value)
    return ["missing", None] if missing else typed(value, "a category's value")


def _value_from(pair: Any) -> Any:
    return NAN if pair[0] == "missing" else untyped(pair)


def nearest_two(found: Floats, v: float) -> tuple[float, float]:
    """The two of some coordinates that v is between; twice the same where v is one of them, infinite where there is none."""
    near = found[np.abs(found - v) <= SAME_COORDINATE * (np.abs(v) + 1)]
    if len(near):
        return float(near[0]), float(near[0])
    below, above = found[found < v], found[found > v]
    return float(below.max(initial=-np.inf)), float(above.min(initial=np.inf))
