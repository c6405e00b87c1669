"""Answers as the tables and rows that the user gave: pandas and polars frames, arrays, lists and dicts.

What comes back is of the kind that came, with its index, its columns in their order and their types, wherever a type can hold
the new values. Numbers in single precision that the classifier sees become float64: they cannot hold an answer, and an
estimator that gets one such number computes with it in single precision, changed or not.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ifonly.model.columns import Encoding
from ifonly.model.numerics import Floats, Indices
from ifonly.model.tables import UserTable, is_missing, library_of, numpy_type

__all__ = ["stacked", "written"]

FLOAT = np.dtype(np.float64)
Cells = tuple[Indices, list[Any]]  # rows, and their new values


def written(encoding: Encoding, table: UserTable, V: Floats, before: Floats, steps: Mapping[int, float]) -> Any:
    """A table (or a row) like this one with V for the coordinates ``before``; ``steps`` of mapped numbers are by coordinate."""
    if encoding.identity:
        return _renumbered(table, V, before)
    differs = before != V  # NaN too: a row without an answer has missing values
    new: dict[int, Cells] = {}
    for column in encoding.columns:
        at = slice(column.first, column.first + column.size)
        changed = np.flatnonzero(differs[:, at].any(axis=1))
        if len(changed):
            new[column.place] = (changed, column.write(V[changed, at], steps.get(column.first, 0.0)))
    return _replaced(table, new, [column.place for column in encoding.columns if column.kind == "number"])


def _renumbered(table: UserTable, V: Floats, before: Floats) -> Any:
    """A table of numbers with others; what did not change keeps its type."""
    D = V.shape[1]
    if table.row is None and table.library == "pandas" and table.data.shape[1] == D and set(table.dtypes) == {FLOAT}:
        out = table.data.copy()
        out.iloc[:, table.order] = V  # one block, not column by column
        return out
    differs = (before != V) & ~(np.isnan(before) & np.isnan(V))
    changed = {int(i): np.flatnonzero(differs[:, i]) for i in np.flatnonzero(differs.any(axis=0))}
    return _replaced(table, {i: (at, V[at, i].tolist()) for i, at in changed.items()}, range(D))


def stacked(tables: Sequence[Any]) -> Any:
    """The user's tables as one; None where they are of different kinds, or none."""
    kinds = {type(table) for table in tables}
    if len(kinds) != 1 or tables[0] is None:
        return None
    library = library_of(tables[0])
    if library != "numpy":
        return sys.modules[library].concat(list(tables))
    return np.concatenate(tables) if kinds == {np.ndarray} else [row for table in tables for row in table]


def _replaced(table: UserTable, new: Mapping[int, Cells], numbers: Sequence[int]) -> Any:
    """The user's table, or row, with some cells replaced; ``numbers`` are the columns that the classifier sees as such."""
    row = table.row
    if isinstance(row, Mapping):
        out = {**row, **{name: _wide(row[name]) for name in (table.names[place] for place in numbers)}}
        cells = {table.names[place]: values[0] for place, (_, values) in new.items()}
        return {**out, **{name: _as_before(row[name], value) for name, value in cells.items()}}
    if table.library == "numpy":
        out = _in_array(table, new, numbers)
        return out if row is None else out[0]
    if row is not None:
        return _in_series(table, {place: values[0] for place, (_, values) in new.items()}, numbers)
    return _in_pandas(table, new, numbers) if table.library == "pandas" else _in_polars(table, new, numbers)


def _in_array(table: UserTable, new: Mapping[int, Cells], numbers: Sequence[int]) -> np.ndarray:
    out, all_new = table.data.copy(), [v for _, values in new.values() for v in values]
    if out.dtype.kind in "iubf" and (_is_narrow(out.dtype) or _held(all_new, out.dtype)[1]):
        out = out.astype(np.float64)
    elif out.dtype.kind in "US" and all_new:
        out = out.astype(np.result_type(out.dtype, np.array([str(v) for v in all_new]).dtype))
    for i in (table.order[place] for place in numbers if out.dtype == object):
        out[:, i] = [_wide(value) for value in out[:, i]]
    for place, (rows, values) in new.items():
        i, held = table.order[place], values
        if out.dtype == object:
            held = [_as_before(out[row, i], value) for row, value in zip(rows, values, strict=True)]
        out[rows, i] = held
    return out


def _in_series(table: UserTable, new: Mapping[int, Any], numbers: Sequence[int]) -> Any:
    """One row of a pandas frame, whose columns share a type."""
    out = table.row.copy()
    for i in (table.order[place] for place in numbers if out.dtype == object):
        out.iloc[i] = _wide(out.iloc[i])
    dtype = numpy_type(out.dtype)
    if dtype.kind in "iubf":
        held, wide = _held(list(new.values()), dtype)
        out = out.astype(np.float64) if wide or _is_narrow(out.dtype) else out
        new = dict(zip(new, held.tolist(), strict=True))
    for place, value in new.items():
        i = table.order[place]
        out.iloc[i] = _as_before(out.iloc[i], value) if out.dtype == object else value
    return out


def _in_pandas(table: UserTable, new: Mapping[int, Cells], numbers: Sequence[int]) -> Any:
    out = table.data.copy()
    for i in (table.order[place] for place in numbers):
        if _is_narrow(table.dtypes[i]):
            out.isetitem(i, _widened(out.iloc[:, i]))
    for place, (rows, values) in new.items():
        i = table.order[place]
        column, held = out.iloc[:, i].copy(), values
        dtype = numpy_type(column.dtype)
        if dtype.kind in "iubf":
            held, wide = _held(values, dtype)
            whole = _whole(values, dtype, sys.modules["pandas"].NA) if wide else None
            if whole is not None:  # a row without an answer makes no floats of the others' whole numbers
                column, held = column.convert_dtypes(), whole
            elif wide:
                column = _widened(column)
        elif hasattr(column.dtype, "categories"):
            known = set(column.dtype.categories.tolist())
            column = column.cat.add_categories(sorted({v for v in values if not is_missing(v)} - known, key=str))
        column.iloc[rows] = held
        out.isetitem(i, column)
    return out


def _in_polars(table: UserTable, new: Mapping[int, Cells], numbers: Sequence[int]) -> Any:
    pl, out = sys.modules["polars"], table.data
    narrow = [out.columns[i] for i in (table.order[place] for place in numbers) if table.dtypes[i] == pl.Float32]
    out = out.with_columns(pl.col(narrow).cast(pl.Float64)) if narrow else out
    for place, (rows, values) in new.items():
        series = out.to_series(table.order[place])
        cells, dtype, held = series.to_list(), series.dtype, values
        if dtype.is_numeric() or dtype == pl.Boolean:
            kind = np.dtype(bool if dtype == pl.Boolean else str(dtype).lower())
            whole, (exact, wide) = _whole(values, kind, None), _held(values, kind)
            held, dtype = whole or exact.tolist(), pl.Float64 if wide and whole is None else dtype
            cells = series.cast(dtype).to_list()
        elif isinstance(dtype, pl.Enum) and not set(values) <= {*dtype.categories, None}:
            dtype = pl.Enum(list(dict.fromkeys([*dtype.categories, *(v for v in values if v is not None)])))
        for row, value in zip(rows.tolist(), held, strict=True):
            cells[row] = value
        out = out.with_columns(pl.Series(series.name, cells, dtype=dtype))
    return out


# ---- which type can hold what ----


def _as_before(old: Any, new: Any) -> Any:
    """A new value of the type of the one that it replaces, where that can hold it: 1.0 for False is True, for 2 it is 1."""
    if isinstance(old, (bool, np.bool_, int, np.integer)) and isinstance(new, float) and new.is_integer():
        return type(old)(new)
    return new


def _held(values: list[Any], dtype: Any) -> tuple[np.ndarray, bool]:
    """Numbers as a column of this type can hold them, and whether it cannot, so that it must become float64."""
    exact = np.array(values, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        held = exact.astype(dtype)
        wide = bool((held.astype(np.float64) != exact).any())
    return exact if wide else held, wide


def _whole(values: list[Any], dtype: Any, none: Any) -> list[Any] | None:
    """Values as a column of whole numbers could hold them, with ``none`` for those that are missing; None if it could not."""
    if dtype.kind not in "iu" or _held([v for v in values if not is_missing(v)], dtype)[1]:
        return None
    return [none if is_missing(v) else int(v) for v in values]


def _widened(column: Any) -> Any:
    """A pandas column of numbers as float64, with missing values if it had such."""
    return column.astype("Float64" if hasattr(column.dtype, "numpy_dtype") else np.float64)


def _wide(value: Any) -> Any:
    """A number in single precision as one in double precision; anything else as it is."""
    return float(value) if isinstance(value, np.floating) and value.itemsize < FLOAT.itemsize else value


def _is_narrow(dtype: Any) -> bool:
    dtype = numpy_type(dtype)
    return dtype.kind == "f" and dtype.itemsize < FLOAT.itemsize
