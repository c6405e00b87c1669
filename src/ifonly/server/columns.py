"""A model's columns as the outside sees them: rows from JSON to what the library takes, and answers back."""

import math
import struct
from base64 import b64decode
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import chain, compress
from typing import Any

import numpy as np

from ifonly.answers.change import plain_value
from ifonly.model import Model
from ifonly.model.columns import Column, UserTable
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats
from ifonly.server.wire import RefusedError, listed, shown

__all__ = ["Columns"]

NEAR, LISTED = 3, 10  # names to suggest for one that is not known, or to list
LONGEST = 100  # characters of a name that are looked at
LARGEST = 10**300  # of whole numbers: well within float64


class Columns:
    """The columns that a model reads, by name (numbers, where its features have none), in the model's order.

    ``flags`` are those of yes and no, by their type in the served data.
    """

    def __init__(self, model: Model, flags: Sequence[bool] = ()) -> None:
        if model.encoding.text:
            raise InputError("a model of documents reads text, not columns, and cannot be served")
        self.encoding = model.encoding
        self.columns = {column.name: column for column in model.columns}
        self.names = tuple(self.columns)
        encoded = not self.encoding.identity  # as in the library, which takes plain numbers as they are
        self.flags = frozenset(compress(self.names, flags)) if encoded else frozenset()
        self._doubles = struct.Struct(f"{len(self.names)}d")

    # ---- rows that come ----

    def read(self, row: Any, field: str) -> Any:
        """One row as the library takes it: an array, or a dict where the model has an encoding."""
        if isinstance(row, np.ndarray):  # of many that came as one base64
            return row
        if isinstance(row, list):
            return self._listed(row, field)
        if isinstance(row, str):
            return self.unpacked(row, field, 1)[0]
        if not isinstance(row, Mapping):
            raise RefusedError(f"{field} must be an object of values by name, a list, or base64; got {shown(row)}", field)
        for name in row:
            if name not in self.columns and name not in self.encoding.names:
                raise RefusedError(self.unknown(name), f"{field}.{name}")
        values = []
        for name in self.names:
            if name not in row:
                raise RefusedError(f"{field} has no value for {name}", f"{field}.{name}")
            values.append(self.value(name, row[name], f"{field}.{name}"))
        return self._made(values)

    def _listed(self, row: list[Any], field: str) -> Any:
        if len(row) != len(self.names):
            raise RefusedError(f"{field} must have {len(self.names)} values, one per column; got {len(row)}", field)
        if self.encoding.identity:
            try:
                numbers = np.frombuffer(self._doubles.pack(*row))  # NumPy itself would take "1.5" for a number
                if np.isfinite(numbers).all():
                    return numbers
            except struct.error:  # one is no number, or has hundreds of digits
                pass
        cells = enumerate(zip(self.names, row, strict=True))
        return self._made([self.value(name, v, f"{field}.{i}") for i, (name, v) in cells])

    def _made(self, values: list[Any]) -> Any:
        if self.encoding.identity:
            return np.array(values, dtype=np.float64)
        found = dict(zip(self.names, values, strict=True))
        return {name: found.get(name) for name in self.encoding.names}

    def unpacked(self, text: str, field: str, n: int | None) -> Floats:
        """Rows (N, D) that come as base64 of little-endian float64, which takes a fifth of the time of decimal numbers."""
        if not self.encoding.identity:
            raise RefusedError("rows in base64 are for models whose columns are all numbers; give values by name", field)
        try:
            numbers = np.frombuffer(b64decode(text, validate=True), dtype="<f8").astype(np.float64, copy=False)
        except ValueError:
            raise RefusedError(f"{field} must be base64 of float64 numbers", field) from None
        width = len(self.names)
        if not len(numbers) or len(numbers) % width or (n is not None and len(numbers) != n * width):
            rows = "a row has" if n is not None else "each row has"
            raise RefusedError(f"{field} has {len(numbers)} numbers; {rows} {width}", field)
        finite = np.isfinite(numbers)
        if not finite.all():
            i = finite.argmin()
            raise RefusedError(f"{field} must be finite numbers; number {i} is {numbers[i]}", field, 400)
        return numbers.reshape(-1, width)

    def unknown(self, name: str) -> str:
        """Why a name is none of the model's."""
        near = get_close_matches(name[:LONGEST], self.names, NEAR)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {listed(self.names, LISTED)}"
        return f"{shown(name)} is no column of the model's; {hint}"

    def value(self, name: str, v: Any, field: str) -> Any:
        """One value, checked against its column."""
        column = self.columns[name]
        if column.numeric:
            return self._number(column, v, field)
        if isinstance(v, (list, dict)):
            raise RefusedError(f"{name} must be one value", field)
        same = (level for level in column.levels if type(level) is type(v) and level == v)
        found = next(chain(same, (level for level in column.levels if str(level) == str(v))), v)
        cells = np.full((1, len(self.encoding.names)), found, dtype=object)
        if np.isnan(column.read(UserTable(cells, self.encoding.names))).any():
            raise RefusedError(column.refusal(v), field)
        return found

    def _number(self, column: Column, v: Any, field: str) -> Any:
        name, may_miss = column.name, column.fill is not None and column.missing is None
        if v is None and may_miss:
            return None
        if isinstance(v, float) and not math.isfinite(v):
            raise RefusedError(f"{name} must be a finite number; got {v}", field, 400)
        if not isinstance(v, (bool, int, float)) or (isinstance(v, int) and abs(v) > LARGEST):
            raise RefusedError(f"{name} must be a number{' or null' * may_miss}; got {shown(v)}", field)
        if name not in self.flags:
            return float(v) if isinstance(v, bool) else v
        if v not in (0, 1):
            raise RefusedError(f"{name} is yes or no: it must be 0 or 1; got {shown(v)}", field)
        return bool(v)

    # ---- answers that go ----

    def table(self, rows: Sequence[Any]) -> Any:
        """Several rows as `read` gave them, as one table for the library."""
        if self.encoding.identity:
            return np.stack(rows)
        return np.array([[row[name] for name in self.encoding.names] for row in rows], dtype=object)

    def plain(self, x: Any, *, named: bool) -> Any:
        """A row of the library's as JSON has it: values by name, or a list (an array, which is written as one)."""
        if self.encoding.identity:
            values = x.tolist() if named else x
        else:  # of a table, a row comes as a table of one
            cells = x if isinstance(x, Mapping) else dict(zip(self.encoding.names, x.reshape(-1), strict=True))
            values = [plain_value(cells[name]) for name in self.names]
        return dict(zip(self.names, values, strict=True)) if named else values
