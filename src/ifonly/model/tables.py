"""The user's own tables and rows, read by columns: pandas and polars frames, arrays, lists and dicts.

Neither library is imported: a frame of theirs exists only if its user imported it. How answers are given back as such tables
is the business of `ifonly.rows.tables`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats

__all__ = ["UserTable", "aligned", "is_missing", "is_row", "library_of", "numpy_type", "unmasked"]

FEW = 8  # rows of a frame that are read in one go


def is_row(X: Any) -> bool:
    """Whether this is one row, not a table of rows."""
    if isinstance(X, Mapping) or getattr(X, "ndim", 2) == 1:
        return True
    first = X[0] if isinstance(X, (list, tuple)) and X else None
    is_table = isinstance(first, (list, tuple, Mapping)) or (isinstance(first, np.ndarray) and first.ndim > 0)
    return isinstance(X, (list, tuple)) and not is_table


def is_missing(value: Any) -> bool:
    """Whether this is one of the many ways to say that there is no value."""
    if value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value))):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def unmasked(X: Any) -> Any:
    """The same without masks, also in lists and dicts: what is masked is NaN, so that nobody sees what is hidden there."""
    if X is np.ma.masked:
        return np.nan
    if isinstance(X, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(X)
        if X.dtype.names or not hidden.any():
            return X.data
        kind = X.dtype.kind
        out = X.data.astype(X.dtype if kind in "fc" else np.float64 if kind in "iub" else object)
        out[hidden] = np.nan
        return out
    if isinstance(X, Mapping):
        return {name: unmasked(cell) for name, cell in X.items()} if _may_hide(X.values()) else X
    if isinstance(X, (list, tuple)) and _may_hide(X):
        return [unmasked(part) for part in X]
    return X


def _may_hide(parts: Iterable[Any]) -> bool:
    """Whether one of these may be masked, or have parts that are."""
    return any(issubclass(kind, (np.ma.MaskedArray, Mapping, list, tuple)) for kind in set(map(type, parts)))


def library_of(X: Any) -> str:
    """The library that a table is of: "pandas", "polars", or "numpy" for all that is made into an array."""
    name = type(X).__module__.split(".", maxsplit=1)[0]
    return name if name in ("pandas", "polars") else "numpy"


class UserTable:
    """Rows of the user's, with the columns of a model.

    A frame may have other columns besides ``names``, the model's, and an order of its own: ``order`` is where each of the
    model's is in ``data``. ``row`` is the user's own row, where this is the table of one row that they gave.
    """

    def __init__(self, data: Any, names: Sequence[str], row: Any = None, order: list[int] | None = None) -> None:
        self.data: Any = data  # a pandas or polars frame, or an array of two dimensions
        self.names = tuple(names)
        self.row: Any = row
        self.library = library_of(data)
        self.order = self._order() if order is None else order

    def _order(self) -> list[int]:
        names = self.names
        if self.library == "numpy":
            if self.data.ndim != 2 or self.data.shape[1] != len(names):
                shown = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
                raise InputError(f"x must have {len(names)} columns ({shown}); got an array of shape {self.data.shape}")
            return list(range(len(names)))
        columns = [str(c) for c in self.data.columns]
        place = {name: i for i, name in enumerate(columns)}
        if len(columns) == len(names) and not place.keys() >= set(names) and all(n == f"x{i}" for i, n in enumerate(names)):
            return list(range(len(names)))  # the model was fitted without names: by position
        _check_there(names, columns)
        twice = sorted({name for name in names if columns.count(name) > 1}) if len(place) < len(columns) else []
        if twice:
            raise InputError(f"x must have each of the model's columns once; it has {twice[:5]} more than once")
        return [place[name] for name in names]

    @classmethod
    def of(cls, X: Any, names: Sequence[str]) -> "UserTable":
        """A table as it comes; one row is a table of one."""
        if isinstance(X, cls):
            return X
        X = unmasked(X)
        row = X if is_row(X) else None
        if library_of(X) == "polars" and not hasattr(X, "columns"):
            raise InputError("x is a polars Series, which has no columns; give a frame of one row, or a dict")
        if library_of(X) != "numpy":
            return cls(X if row is None else X.to_frame().T, names, row)
        array = _array(X, names)
        return cls(array[None] if array.ndim == 1 else array, names, row)

    def take(self, rows: Any) -> "UserTable":
        """Some rows."""
        data = self.data.iloc[rows] if self.library == "pandas" else self.data[rows]
        return UserTable(data, self.names, self.row, self.order)

    def repeated(self, n: int) -> "UserTable":
        """The one row so many times, as a table."""
        data = self.take([0] * n).data
        return UserTable(data.infer_objects() if self.library == "pandas" else data, self.names, None, self.order)

    def __len__(self) -> int:
        return len(self.data)

    @cached_property
    def dtypes(self) -> list[Any]:
        """The types of a frame's columns, in its own order."""
        return list(self.data.dtypes)

    @cached_property
    def _few_cells(self) -> np.ndarray | None:
        """A frame of few rows as one array of objects: much quicker than column by column."""
        return self.data.to_numpy(dtype=object) if self.library == "pandas" and len(self) <= FEW else None

    def is_flag(self, place: int) -> bool:
        """Whether one of the model's columns is of yes and no by its type."""
        i = self.order[place]
        if self.library == "polars":
            return str(self.dtypes[i]) == "Boolean"
        dtype = numpy_type(self.dtypes[i]) if self.library == "pandas" else self.data.dtype
        if getattr(dtype, "kind", "") == "O" and len(self) == 1:  # of a row, the value's own
            return isinstance(self.column(place)[0], (bool, np.bool_))
        return self.library == "pandas" and getattr(dtype, "kind", "O") == "b"

    def column(self, place: int) -> Any:
        """One of the model's columns, as values."""
        i = self.order[place]
        if self._few_cells is not None:
            return self._few_cells[:, i]
        if self.library == "pandas":
            return self.data.iloc[:, i].to_numpy()
        return self.data.to_series(i).to_numpy() if self.library == "polars" else self.data[:, i]

    def numbers(self, place: int, name: str) -> Floats:
        """One of the model's columns, as numbers; NaN for what is missing."""
        try:
            if self.library == "pandas" and self._few_cells is None:
                return self.data.iloc[:, self.order[place]].to_numpy(dtype=np.float64, na_value=np.nan)
            values = self.column(place)
            if values.dtype == object:
                values = [np.nan if is_missing(value) else value for value in values]
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} must be numbers ({error})") from None


def _check_there(names: Sequence[str], columns: Sequence[str], where: str = "x") -> None:
    there = set(columns)
    missing = [name for name in names if name not in there]
    if missing:
        shown = f"missing {missing[:5]}, it has {columns[:10]}"
        raise InputError(f"{where} must have the columns that the model was fitted on; {shown}")


def _cells(row: Any, names: Sequence[str], where: str) -> list[Any]:
    """The cells of a row that is a dict."""
    if not isinstance(row, Mapping):
        raise InputError(f"{where} must be a dict, as the first row is; got a {type(row).__name__}")
    _check_there(names, list(row), where)
    return [row[name] for name in names]


def _array(X: Any, names: Sequence[str]) -> np.ndarray:
    """What is no frame as an array: a dict or dicts by name, lists of numbers as numbers, other lists as objects."""
    if isinstance(X, np.ndarray):
        return X
    if hasattr(X, "tocsr"):
        return X.toarray()
    if isinstance(X, Mapping):
        X = _cells(X, names, "x")
    elif isinstance(X, (list, tuple)) and X and isinstance(X[0], Mapping):
        X = [_cells(row, names, f"row {i} of x") for i, row in enumerate(X)]
    array = np.array(X, dtype=object)
    if array.size and all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in array.ravel()):
        return array.astype(np.float64)
    return array


def numpy_type(dtype: Any) -> Any:
    """Of a nullable number in pandas, the type of the number."""
    return getattr(dtype, "numpy_dtype", dtype)


def aligned(X: Any, names: Sequence[str] | None) -> Any:
    """A frame of numbers (or a pandas row) as an array, its columns in the order of ``names``; others as they are, unmasked."""
    if not hasattr(X, "to_numpy"):
        return unmasked(X)
    single = not hasattr(X, "columns")
    if single and not hasattr(X, "index"):  # a polars column
        return X.to_numpy()
    labels = tuple(str(label) for label in (X.index if single else X.columns))
    values = X.to_numpy()
    if names is None or labels == tuple(names):
        return values
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InputError(f"x must have each of the model's features once; it has {twice[:5]} more than once")
    if set(labels) != set(names):
        missing, extra = [n for n in names if n not in labels], [n for n in labels if n not in names]
        raise InputError(f"x must have the model's features; missing {missing[:5]}, not known {extra[:5]}")
    order = [labels.index(name) for name in names]
    return values[order] if single else values[:, order]
