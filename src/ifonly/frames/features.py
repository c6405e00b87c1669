"""From a chunk of a table to what the model takes: numbers, categories, and which rows are of no use and why."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.frames.arrow import pa, pc
from ifonly.frames.reading import BAD_LINE
from ifonly.model import Model
from ifonly.model.columns import Column
from ifonly.model.errors import InputError
from ifonly.model.extras import needing
from ifonly.model.numerics import Floats

__all__ = ["Features", "needed"]

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # what a CSV has where there is no number

NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)


def needed(model: Model, keys: Sequence[str] | None) -> list[str] | None:
    """The columns to read where there is a choice: the keys and the features; None for all of them."""
    names = _names_of(model)
    return None if keys is None or names is None else list(dict.fromkeys([*map(str, keys), *names]))


def _names_of(model: Model) -> list[str] | None:
    """The columns that a model reads; None where its features have no names."""
    encoding = model.encoding
    if encoding.text:
        raise InputError("a model of documents reads text, not columns; use ifonly.invert")
    if encoding.identity:
        by_place = model.feature_names is None
    else:
        by_place = all(name == f"x{i}" for i, name in enumerate(encoding.names))  # a pipeline that was fitted on an array
    return None if by_place else [column.name for column in model.columns]


class Features:
    """The model's columns of a table, by ``names`` in the model's order, and the ``keys`` to hand through.

    ``columns`` says what each of them is.
    """

    def __init__(self, model: Model, schema: Any, keys: Sequence[str] | None) -> None:
        self.model, self.columns = model, model.columns
        self.text = BAD_LINE in schema.names
        there = [name for name in schema.names if name != BAD_LINE]
        names = _names_of(model)
        if names is None:
            left = [name for name in there if name not in (keys or ())]
            count = model.n_features if model.encoding.identity else len(model.encoding.names)
            if len(left) != count:
                raise InputError(
                    f"the model's {count} features have no names, so all columns but the keys are taken for them; "
                    f"there are {len(left)}: {', '.join(left[:20])}"
                )
            names = [left[column.place] for column in self.columns]
        self.names = names
        self.keys = [name for name in there if name not in self.names] if keys is None else list(map(str, keys))
        for name in (*self.names, *self.keys):
            if there.count(name) != 1:
                what = "missing" if name not in there else "there more than once"
                role = "feature" if name in self.names else "key"
                raise InputError(f"column {name!r} (a {role}) is {what}; the columns are {', '.join(there[:20])}")
        for name, column in zip(self.names, self.columns, strict=True):
            _check_type(name, column, schema.field(name).type, self.text)

    def read(self, table: Any) -> tuple[Any, dict[int, str]]:
        """What the model takes (an array, or a frame where it has an encoding), and the rows that are no good."""
        bad: dict[int, str] = {}
        if self.text:
            lines = table.column(BAD_LINE)
            bad = {int(row): lines[int(row)].as_py() for row in np.flatnonzero(lines.is_valid().to_numpy())}
        values: dict[str, Any] = {}
        for name, column in zip(self.names, self.columns, strict=True):
            cells = _plain(table.column(name))
            values[column.name] = _numbers(cells, name, column, bad) if column.numeric else _levels(cells, column, self.text)
        if self.model.encoding.identity:
            return np.column_stack(list(values.values())), bad
        with needing("tables for a model with categories need pandas", "frames"):
            import pandas as pd
        # The columns the model was fitted on; those it never looks at are empty.
        found = dict.fromkeys(self.model.encoding.names, np.full(len(table), None, dtype=object)) | values
        return pd.DataFrame({name: pd.Series(v, dtype=v.dtype) for name, v in found.items()}), bad


def _check_type(name: str, column: Column, kind: Any, text: bool) -> None:
    """Whether a column of this type can be a feature; numbers are not read from text unless it comes from a CSV."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(test(value) for test in NUMBERS) and not (_is_text(value) and (text or not column.numeric)):
        wanted = "numbers" if column.numeric else f"one of {list(column.levels)[:10]}"
        raise InputError(f"column {name!r} must be {wanted}; it is {kind}")


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _plain(cells: Any) -> Any:
    """One array, dictionaries decoded, decimals as floats."""
    cells = cells.combine_chunks()
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_decimal(cells.type):
        return cells.cast(pa.float64())
    return cells.cast(pa.string()) if _is_text(cells.type) else cells


def _numbers(cells: Any, name: str, column: Column, bad: dict[int, str]) -> Floats:
    """A column of numbers, missing ones as NaN; rows where it is no number, or missing where it must not be, are bad."""
    if _is_text(cells.type):
        trimmed = pc.utf8_trim_whitespace(cells)
        cells = pc.if_else(pc.is_in(trimmed, value_set=pa.array(MISSING)), pa.scalar(None, pa.string()), trimmed)
    try:
        values = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # some text is no number: which?
        values = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells.to_pylist()):
            try:
                values[row] = pa.scalar(cell, pa.string()).cast(pa.float64()).as_py()
            except pa.ArrowInvalid:
                bad.setdefault(row, f"{name} is {cell!r}, no number")
    for row in np.flatnonzero(~np.isfinite(values) if column.fill is None else np.isinf(values)).tolist():
        bad.setdefault(row, f"{name} is {values[row] if cells[row].is_valid else 'missing'}")
    return values


def _levels(cells: Any, column: Column, text: bool) -> NDArray[np.object_]:
    """A column of categories or ordinals; text of a CSV is taken for the level that is written so."""
    values = cells.to_pylist()
    if text:
        known = dict.fromkeys(MISSING) | {str(level): level for level in column.levels}
        known |= {str(float(level)): level for level in column.levels if isinstance(level, (int, float, np.number))}
        values = [known.get(v, v) for v in values]
    return np.array(values, dtype=object)
