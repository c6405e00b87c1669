"""The user's own tables and rows: pandas and polars frames, arrays, lists and dicts, read by columns and given back changed.

Neither library is imported: a frame of theirs exists only if its user imported it. What comes back is of the kind that came,
with its index, its columns in their order and their types, wherever a type can hold the new values.
"""

import sys
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.model.errors import InputError

__all__ = ["Table", "is_missing", "is_row", "like_frame", "stacked"]

Floats = NDArray[np.float64]
FEW = 8  # rows
FLOAT = np.dtype(np.float64)
Cells = tuple[NDArray[np.intp], list[Any]]  # rows, and their new values


def is_row(X: Any) -> bool:
    """Whether this is one row, not a table of rows."""
    if isinstance(X, Mapping) or getattr(X, "ndim", 2) == 1:
        return True
    return isinstance(X, (list, tuple)) and not (X and isinstance(X[0], (list, tuple, np.ndarray, Mapping)))


def is_missing(value: Any) -> bool:
    """Whether this is one of the many ways to say that there is no value."""
    if value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value))):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def _library(X: Any) -> str:
    name = type(X).__module__.split(".", maxsplit=1)[0]
    return name if name in ("pandas", "polars") else "numpy"


class Table:
    """Rows of the user's, with the columns of a model.

    Parameters
    ----------
    data : frame or array
        A pandas or polars frame, or an array of two dimensions.
    names : sequence of str
        The model's columns. A frame may have others besides, and an order of its own.

    """

    def __init__(self, data: Any, names: Sequence[str]) -> None:
        self.data: Any = data
        self.names = tuple(names)
        self.row: Any = None  # the user's own, where this is the table of one row that they gave
        self.kind = _library(data)
        self.types: list[Any] | None = None
        self.cells: np.ndarray | None = None
        if self.kind == "numpy":
            if data.ndim != 2 or data.shape[1] != len(names):
                shown = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
                raise InputError(f"x must have {len(names)} columns ({shown}); got an array of shape {data.shape}")
            self.order = list(range(len(names)))
            return
        columns = [str(c) for c in data.columns]
        place = {name: i for i, name in enumerate(columns)}
        missing = [name for name in names if name not in place]
        if missing and len(columns) == len(names) and all(name == f"x{i}" for i, name in enumerate(names)):
            self.order = list(range(len(names)))  # the model was fitted without names: by position
            return
        if missing:
            raise InputError(
                f"x must have the columns that the model was fitted on; missing {missing[:5]}, it has {columns[:10]}"
            )
        if len(place) < len(columns):
            twice = sorted({name for name in names if columns.count(name) > 1})
            if twice:
                raise InputError(f"x must have each of the model's columns once; it has {twice[:5]} more than once")
        self.order = [place[name] for name in names]

    @classmethod
    def of(cls, X: Any, names: Sequence[str]) -> "Table":
        """A table as it comes; one row is a table of one."""
        own = X
        if isinstance(X, cls):
            return X
        if isinstance(X, Mapping):
            lost = [name for name in names if name not in X]
            if lost:
                raise InputError(
                    f"x must have the columns that the model was fitted on; missing {lost[:5]}, it has {list(X)[:10]}"
                )
            table = cls(_objects([[X[name] for name in names]]), names)
        elif _library(X) == "pandas":
            table = cls(X.to_frame().T if X.ndim == 1 else X, names)
        elif _library(X) == "polars":
            if not hasattr(X, "columns"):
                raise InputError("x is a polars Series, which has no columns; give a frame of one row, or a dict")
            table = cls(X, names)
        elif hasattr(X, "tocsr"):
            table = cls(X.toarray(), names)
        else:
            if isinstance(X, (list, tuple)) and X and isinstance(X[0], Mapping):
                X = [[row[name] for name in names] for row in X]
            array = X if isinstance(X, np.ndarray) else _objects(X)
            table = cls(array[None] if array.ndim == 1 else array, names)
        if is_row(own):
            table.row = own
        return table

    def take(self, rows: Any) -> "Table":
        """Some rows."""
        out = copy(self)
        out.data, out.cells = self.data.iloc[rows] if self.kind == "pandas" else self.data[rows], None
        return out

    @property
    def dtypes(self) -> list[Any]:
        """The types of a frame's columns, in its own order."""
        if self.types is None:
            self.types = list(self.data.dtypes)
        return self.types

    def _few(self) -> np.ndarray | None:
        """A frame of few rows as one array of objects: much quicker than column by column."""
        if self.kind == "pandas" and self.cells is None and self.n_rows <= FEW:
            self.cells = self.data.to_numpy(dtype=object)
        return self.cells

    def repeated(self, n: int) -> "Table":
        """The one row so many times, as a table."""
        out = self.take([0] * n)
        if self.kind == "pandas":
            out.data = out.data.infer_objects()
        out.row, out.cells, out.types = None, None, None
        return out

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.data)

    def is_flag(self, place: int) -> bool:
        """Whether one of the model's columns is of yes and no by its type."""
        i = self.order[place]
        if self.kind == "polars":
            return str(self.dtypes[i]) == "Boolean"
        dtype = _numpy_type(self.dtypes[i]) if self.kind == "pandas" else self.data.dtype
        if getattr(dtype, "kind", "") == "O" and self.n_rows == 1:  # of a row, the value's own
            return isinstance(self.column(place)[0], (bool, np.bool_))
        return self.kind == "pandas" and getattr(dtype, "kind", "O") == "b"

    def column(self, place: int) -> Any:
        """One of the model's columns, as values."""
        i = self.order[place]
        cells = self._few()
        if cells is not None:
            return cells[:, i]
        if self.kind == "pandas":
            return self.data.iloc[:, i].to_numpy()
        return self.data.to_series(i).to_numpy() if self.kind == "polars" else self.data[:, i]

    def numbers(self, place: int, name: str) -> Floats:
        """One of the model's columns, as numbers; NaN for what is missing."""
        i = self.order[place]
        cells = self._few()
        try:
            if self.kind == "pandas" and cells is None:
                return self.data.iloc[:, i].to_numpy(dtype=np.float64, na_value=np.nan)
            source = self.data if cells is None else cells
            values = self.data.to_series(i).to_numpy() if self.kind == "polars" else source[:, i]
            if values.dtype == object:
                values = [np.nan if is_missing(value) else value for value in values]
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} must be numbers ({error})") from None

    def replaced(self, new: dict[int, Cells], numbers: Sequence[int] = ()) -> Any:
        """The user's table, or row, with some cells replaced; ``numbers`` are the columns that the classifier sees as such.

        Where anything changes, those of single precision become float64: it cannot hold an answer, and an estimator that
        gets one such column computes with it in single precision, changed or not.
        """
        if self.row is not None:
            return self._row({place: values[0] for place, (_, values) in new.items()})
        if self.kind == "numpy":
            out = _able(self.data.copy(), [v for _, values in new.values() for v in values])
            for place, (rows, values) in new.items():
                i = self.order[place]
                held = values
                if out.dtype == object:
                    held = [_as_before(out[row, i], value) for row, value in zip(rows, values, strict=True)]
                out[rows, i] = held
            return out
        return self._pandas(new, numbers) if self.kind == "pandas" else self._polars(new, numbers)

    def _row(self, new: dict[int, Any]) -> Any:
        """The one row, as the user gave it."""
        own = self.row
        if isinstance(own, Mapping):
            return {**own, **{(name := self.names[place]): _as_before(own[name], value) for place, value in new.items()}}
        if self.kind == "pandas":
            out = own.copy()
            if new and _is_number(out.dtype):
                held, wide = _held(list(new.values()), _numpy_type(out.dtype))
                out = out.astype(np.float64) if wide or _is_narrow(_numpy_type(out.dtype)) else out
                new = dict(zip(new, held.tolist(), strict=True))
            for place, value in new.items():
                i = self.order[place]
                out.iloc[i] = _as_before(out.iloc[i], value) if out.dtype == object else value
            return out
        out = _able(self.data[0].copy(), list(new.values()))
        for place, value in new.items():
            i = self.order[place]
            out[i] = _as_before(out[i], value) if out.dtype == object else value
        return out

    def _pandas(self, new: dict[int, Cells], numbers: Sequence[int]) -> Any:
        out = self.data.copy()
        for i in (self.order[place] for place in numbers if new):
            dtype = self.dtypes[i]
            if _is_narrow(_numpy_type(dtype)):
                out.isetitem(i, out.iloc[:, i].astype("Float64" if hasattr(dtype, "numpy_dtype") else np.float64))
        for place, (rows, values) in new.items():
            i = self.order[place]
            column, held = out.iloc[:, i].copy(), values
            if _is_number(column.dtype):
                held, wide = _held(values, _numpy_type(column.dtype))
                if wide:
                    column = column.astype("Float64" if hasattr(column.dtype, "numpy_dtype") else np.float64)
            elif hasattr(column.dtype, "categories"):
                known = set(column.dtype.categories.tolist())
                column = column.cat.add_categories(sorted({v for v in values if not is_missing(v)} - known, key=str))
            column.iloc[rows] = held
            out.isetitem(i, column)
        return out

    def _polars(self, new: dict[int, Cells], numbers: Sequence[int]) -> Any:
        pl, out = sys.modules["polars"], self.data
        narrow = [out.columns[self.order[place]] for place in numbers if self.dtypes[self.order[place]] == pl.Float32]
        out = out.with_columns(pl.col(narrow).cast(pl.Float64)) if new and narrow else out
        for place, (rows, values) in new.items():
            series = out.to_series(self.order[place])
            cells, dtype, held = series.to_list(), series.dtype, values
            if dtype.is_numeric() or dtype == pl.Boolean:
                kind = np.dtype(bool if dtype == pl.Boolean else str(dtype).lower())
                numbers_held, wide = _held(values, kind)
                held, dtype = numbers_held.tolist(), pl.Float64 if wide else dtype
                cells = series.cast(dtype).to_list()
            elif isinstance(dtype, pl.Enum) and not set(values) <= {*dtype.categories, None}:
                dtype = pl.Enum(list(dict.fromkeys([*dtype.categories, *(v for v in values if v is not None)])))
            for row, value in zip(rows.tolist(), held, strict=True):
                cells[row] = value
            out = out.with_columns(pl.Series(series.name, cells, dtype=dtype))
        return out


def stacked(tables: Sequence[Any]) -> Any:
    """The user's tables as one; None where they are of different kinds, or none."""
    kinds = {type(table) for table in tables}
    if len(kinds) != 1 or tables[0] is None:
        return None
    library = _library(tables[0])
    if library != "numpy":
        return sys.modules[library].concat(list(tables))
    return np.concatenate(tables) if kinds == {np.ndarray} else [row for table in tables for row in table]


def _as_before(old: Any, new: Any) -> Any:
    """A new value of the type of the one that it replaces, where that can hold it: 1.0 for False is True, for 2 it is 1."""
    if isinstance(old, (bool, np.bool_, int, np.integer)) and isinstance(new, float) and new.is_integer():
        return type(old)(new)
    return new


def like_frame(frame: Any, names: Sequence[str], values: Floats, rows: Any = None, *, many: bool = False) -> Any:
    """A frame (or a pandas row) like this one, with numbers (N, D) of these columns; what did not change keeps its type.

    ``many`` is for several answers to one row: a frame of them.
    """
    table = Table.of(frame, names)
    if many:
        table = table.repeated(len(values))
    if rows is not None:
        table = table.take(rows)
    if table.row is None and table.kind == "pandas" and len(names) == table.data.shape[1] and set(table.dtypes) == {FLOAT}:
        out = table.data.copy()
        out.iloc[:, table.order] = values  # one block, not column by column
        return out
    old = np.stack([table.numbers(i, name) for i, name in enumerate(names)], axis=1)
    differs = (old != values) & ~(np.isnan(old) & np.isnan(values))
    new = {
        int(i): (np.flatnonzero(differs[:, i]), values[differs[:, i], i].tolist()) for i in np.flatnonzero(differs.any(axis=0))
    }
    return table.replaced(new, range(len(names)))


def _objects(X: Any) -> np.ndarray:
    """Lists as an array: of numbers, where all are; else of objects."""
    array = np.array(X, dtype=object)
    if array.size and all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in array.ravel()):
        return array.astype(np.float64)
    return array


def _is_number(dtype: Any) -> bool:
    return getattr(_numpy_type(dtype), "kind", "O") in "iubf"


def _is_narrow(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") == "f" and dtype.itemsize < 8


def _numpy_type(dtype: Any) -> Any:
    """Of a nullable number in pandas, the type of the number."""
    return getattr(dtype, "numpy_dtype", dtype)


def _able(out: np.ndarray, values: list[Any]) -> np.ndarray:
    """An array of a type that can hold these values as well."""
    if not values:
        return out
    if _is_narrow(out.dtype):
        return out.astype(np.float64)
    if out.dtype.kind in "iubf":
        return out.astype(np.float64) if _held(values, out.dtype)[1] else out
    if out.dtype.kind in "US":
        return out.astype(np.result_type(out.dtype, np.array([str(v) for v in values]).dtype))
    return out


def _held(values: list[Any], dtype: Any) -> tuple[np.ndarray, bool]:
    """Numbers as a column of this type can hold them, and whether it cannot, so that it must become float64."""
    exact = np.array(values, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        held = exact.astype(dtype)
        wide = bool((held.astype(np.float64) != exact).any())
    return exact if wide else held, wide
