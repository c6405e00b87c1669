"""How the user's rows become the numbers that the classifier sees: their coordinates, one per column of ``A``.

`Numbers` is for rows that are coordinates already, `Encoding` for tables with columns of all kinds, `Documents` for text. A
model always has one of them, and all can be asked the same questions (`Coordinates`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ifonly.model.column import Column
from ifonly.model.errors import InputError, reading
from ifonly.model.numerics import Floats, Indices, frozen
from ifonly.model.tables import UserTable, aligned, is_row

__all__ = ["Column", "Coordinates", "Documents", "Encoding", "Numbers", "UserTable"]


class Coordinates(ABC):
    """What everybody may ask of an encoding; where it says nothing else, the answers are those of plain numbers."""

    names: tuple[str, ...]  # the user's columns, those that the classifier never sees among them; none without names
    columns: tuple[Column, ...] = ()  # what is known of those that it sees, where they are more than numbers
    # How large the terms of a logit are that a coordinate's unit takes part in, on the way through a pipeline: never less than
    # the weight itself, and more where terms cancel. In the classifier's units, as ``A``.
    sizes: tuple[float, ...] | None = None
    identity: bool = False  # whether the user's rows are the coordinates themselves
    text: bool = False  # whether they are documents

    @cached_property
    def groups(self) -> tuple[Indices, ...]:
        """The coordinates of each category."""
        return tuple(column.coordinates for column in self.columns if column.kind == "category" and column.size > 1)

    @cached_property
    def plain(self) -> bool:
        """Whether coordinates are numbers that may take any value."""
        free = (column.kind == "number" and not column.maps and column.missing is None for column in self.columns)
        return not self.text and all(free)

    @abstractmethod
    def read(self, X: Any, *, strict: bool = True) -> Any:
        """Coordinates (N, D) of the user's rows; values that a column cannot have raise, or are NaN if not ``strict``."""

    def single(self, X: Any) -> bool:
        """Whether this is one row, of which `read` makes a table of one."""
        return False

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

    @cached_property
    def limits(self) -> tuple[Floats, Floats, Floats]:
        """The least and largest value of each coordinate that means anything, and the steps between (0 for any number)."""
        return np.array(-np.inf), np.array(np.inf), np.array(0.0)

    def flags(self, table: UserTable) -> list[str]:
        """The columns of yes and no, by their type, that the classifier takes as numbers: 0 and 1, and nothing between."""
        return [column.name for column in self.columns if column.kind == "number" and table.is_flag(column.place)]

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
        """As plain data, for a file; None where there is nothing to say."""
        return None


@dataclass(frozen=True)
class Numbers(Coordinates):
    """Rows of plain numbers, which are the coordinates themselves; a frame's columns are found by name."""

    names: tuple[str, ...] = ()
    identity = True

    def read(self, X: Any, *, strict: bool = True) -> Any:
        """A frame's numbers in the order of the names; anything else as it is."""
        return aligned(X, self.names or None)


@dataclass(frozen=True)
class Encoding(Coordinates):
    """Tables with columns of all kinds, each of which becomes one or more coordinates; see `Coordinates` for the attributes."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    sizes: tuple[float, ...] | None = None

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

    def single(self, X: Any) -> bool:
        """Whether this is one row."""
        return is_row(X)

    @cached_property
    def limits(self) -> tuple[Floats, Floats, Floats]:
        """The least and largest value of each coordinate, and the steps between; nobody may change them."""
        lo, hi, step = np.full(self.size, -np.inf), np.full(self.size, np.inf), np.zeros(self.size)
        for column in self.columns:
            lo[column.coordinates], hi[column.coordinates] = column.range
            if column.kind != "number":
                step[column.coordinates] = 1.0
        return frozen(lo), frozen(hi), frozen(step)

    def read(self, X: Any, *, strict: bool = True) -> Floats:
        """Coordinates (N, D) of a table; values that a column cannot have raise, or are NaN if not ``strict``."""
        table = UserTable.of(X, self.names)
        out = np.empty((table.n_rows, self.size))
        for column in self.columns:
            found = column.read(table)
            out[:, column.first : column.first + column.size] = found
            if strict and column.kind != "number" and np.isnan(found).any():
                row = int(np.flatnonzero(np.isnan(found).any(axis=1))[0])
                raise InputError(column.refusal(table.column(column.place)[row]))
        return out

    def to_dict(self) -> dict[str, Any]:
        """As plain data, which :meth:`from_dict` reads back."""
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
class Documents(Coordinates):
    """Documents, read as the weights of their words; an answer is weights, not a document."""

    names: tuple[str, ...]  # the words
    transforms: tuple[Callable[[Any], Any], ...]  # what makes weights of documents, in turn
    cut: float | None = None  # where the classifier sees only whether a weight is above this: the weights are then 0 and 1
    sizes: tuple[float, ...] | None = None
    text = True

    def single(self, X: Any) -> bool:
        """Whether this is one document (or the weights of one)."""
        return isinstance(X, str) or (_are_weights(X) and X.ndim == 1)

    @cached_property
    def limits(self) -> tuple[Floats, Floats, Floats]:
        """Weights are not negative, and 0 or 1 where only that is seen."""
        size = len(self.names)
        most, step = (np.inf, 0.0) if self.cut is None else (1.0, 1.0)
        return np.zeros(size), np.full(size, most), np.full(size, step)

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
