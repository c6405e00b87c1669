"""The rows a user brings: dense, sparse, a tensor, or a pandas row or frame, one or many."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.model import Model
from ifonly.model.columns import Encoding
from ifonly.model.errors import InputError
from ifonly.model.numerics import TINY_SQUARE, Floats, norms
from ifonly.model.products import NOWHERE, Sizes
from ifonly.model.tables import UserTable, unmasked
from ifonly.model.tensors import Like, like, plain
from ifonly.rows.tables import stacked, written

__all__ = ["LARGEST", "NOWHERE", "Sizes", "Sources", "check_out"]

LARGEST = 1e100  # of ‖x̄‖: beyond, squares overflow


@dataclass(frozen=True)
class Sources:
    """N rows of D features in the user's units."""

    model: Model
    rows: Any  # (N, D), dense or CSR, as the user gave them; or their coordinates
    single: bool  # whether the user gave one row rather than a table of rows
    columns: Sequence[Any] | None = None  # the features' names: the model's, or else the frame's
    like: Like | None = None  # what kind of tensor the rows came as, and answers are given as
    own: Any = None  # what the user gave, where it has columns (or is text): answers are given as such
    flags: Sequence[str] = ()  # the columns of an encoding that are yes or no by their type

    @classmethod
    def read(cls, model: Model, X: Any) -> "Sources":
        """Check; a frame's columns are put into the model's order by name. Arrays are referred to, not copied."""
        encoding = model.encoding
        X = _by_name(model, X)
        if encoding.identity and type(X) is np.ndarray:  # most often: nothing to reorder, or to give back as something else
            rows, single = _table(_numbers(X))
            model.check_width(rows)
            return cls(model, rows, single, model.feature_names)
        if not encoding.identity:
            single = encoding.single(X)
            # In a table, a row that cannot be read is INVALID.
            table = X if encoding.text else UserTable.of(X, encoding.names)
            rows = _weights(encoding, X) if encoding.text else encoding.read(table, strict=single)
            model.check_width(rows)
            return cls(model, rows, single, model.feature_names, own=X, flags=encoding.flags(table))
        columns = getattr(X, "columns", getattr(X, "index", None)) if hasattr(X, "to_numpy") else None
        rows, single = _table(X.tocsr() if _is_sparse(X) else _numbers(plain(encoding.read(X))))
        model.check_width(rows)
        if columns is None:
            return cls(model, rows, single, model.feature_names, like(X))
        return cls(model, rows, single, model.feature_names or list(columns), own=X)

    def __len__(self) -> int:
        return self.rows.shape[0]

    @classmethod
    def forgotten(cls, model: Model) -> "Sources":
        """Sources that went by in a stream and were not kept."""
        return cls(model, None, False)

    @classmethod
    def joined(cls, model: Model, tables: list["Sources"]) -> "Sources":
        """Several tables as one."""
        if not tables:
            return cls(model, np.empty((0, model.n_features)), False)
        if any(_is_sparse(table.rows) for table in tables):
            return cls(model, sys.modules["scipy.sparse"].vstack([table.rows for table in tables]).tocsr(), False)
        rows, own = np.concatenate([table.rows for table in tables]), stacked([table.own for table in tables])
        return cls(model, rows, False, tables[0].columns, tables[0].like, own)

    @property
    def index(self) -> Any:
        """A frame's row labels; None where there are none."""
        return getattr(self.own, "index", None) if hasattr(self.own, "columns") else None

    def repeated(self, times: int) -> "Sources":
        """Every row so many times in a row."""
        if times == 1:
            return self
        return Sources(self.model, self.rows[np.repeat(np.arange(len(self)), times)], False)

    def room(self, out: Any, rows: int) -> Any:
        """Where so many answers go: ``out``, if there is one."""
        return out

    def part(self, a: int, b: int) -> "Sources":
        """Rows ``a`` to ``b``."""
        return Sources(self.model, self.rows[a:b], False)

    def dense(self, n: int) -> Floats:
        """Row ``n`` in the user's units, dense."""
        self._check_kept()
        row = self.rows[[n]].toarray()[0] if _is_sparse(self.rows) else self.rows[n]
        return row.astype(np.float64, copy=False)

    def table(self) -> Floats:
        """All rows in the user's units, dense."""
        self._check_kept()
        return (self.rows.toarray() if _is_sparse(self.rows) else self.rows).astype(np.float64, copy=False)

    def given(self, values: np.ndarray, rows: Any = None, steps: Mapping[int, float] | None = None) -> Any:
        """Values for the user: the kind of tensor that the rows came as, the user's own table, or the array that they are.

        ``rows`` are the sources that the values belong to: a number for one, by default all. ``steps`` are those of mapped
        numbers, by their coordinate.
        """
        if self.own is None or self.model.encoding.text:
            return values if self.like is None else self.like(values)
        table = UserTable.of(self.own, self.model.encoding.names or list(map(str, self.columns or ())))
        many, values = values.ndim > 1, np.atleast_2d(values)
        if table.row is not None:  # one row, and perhaps several answers for it
            table, rows = table.repeated(len(values)) if many else table, [0] * len(values)
        elif rows is not None or not many:
            rows = rows if many else [rows or 0]
            table = table.take(rows)
        return written(self.model.encoding, table, values, self.rows if rows is None else self.rows[rows], steps or {})

    def moved(self, n: int, coef: Floats, combination: Callable[[Floats], Floats] | None = None) -> Floats:
        """Row ``n`` after the change ``basisᵀ coef``, in the user's units: the second and last pass over ``A``.

        ``combination``, if given, is another way to make that change.
        """
        change = (combination or self.model.basis_combination)(coef)
        if self.model.scaling is not None:
            change *= self.model.scaling.scale
        change += self.dense(n)
        return change

    def move(self, coef: Floats, out: np.ndarray) -> None:
        """All rows after the changes ``coef @ basis``, in the user's units, into ``out``."""
        scaling = self.model.scaling
        direct = out.dtype == np.float64 and out.flags.c_contiguous
        change = np.matmul(coef, self.model.basis, out=out if direct else None)
        if scaling is not None:
            change *= scaling.scale
        change += self.rows.toarray() if _is_sparse(self.rows) else self.rows
        if not direct:
            out[...] = change

    def project(self) -> tuple[Floats, Sizes]:
        """``Z = X projectionᵀ`` (N×R) and how large the sources are, in the classifier's units.

        This is the first of the two passes over ``A``. It also finds every NaN and infinity in X, at no further cost:
        they make the row of Z they belong to NaN or infinite.
        """
        model = self.model
        with np.errstate(invalid="ignore", over="ignore"):
            X = model.to_classifier(self.rows.astype(np.float64, copy=False))
            if _is_sparse(X):
                Z = X @ model.projection_transposed
                lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
            else:
                Z = X @ model.projection.T
                lengths = norms(X)
            sizes = model.sizes_of(X, Z, lengths)
            Z[lengths > LARGEST] = np.inf
        return Z, sizes

    def project_one(self, times: Callable[[Floats], Floats] | None = None) -> tuple[Floats, Sizes]:
        """`project` for one source, as ``z`` (R) and two numbers; raises if it is not finite.

        ``times``, if given, is another way to multiply a dense source with those rows.
        """
        model = self.model
        if _is_sparse(self.rows):
            Z, sizes = self.project()
            z, sizes = Z[0], Sizes(float(sizes.norm[0]), float(sizes.terms[0]))
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                row = self.rows[0].astype(np.float64, copy=False)
                row = row if model.scaling is None else model.scaling(row)
                z = (times or model.projected)(row)
                square = float(row @ row)
                length = math.sqrt(square) if TINY_SQUARE < square < math.inf else float(norms(row[None])[0])
                sizes = model.size_of(row, z, length)
        if not np.isfinite(z).all() or sizes.norm > LARGEST:
            raise self.reject(0)
        return z, sizes

    def _check_kept(self) -> None:
        if self.rows is None:
            raise InputError("the sources came as a stream and were not kept; read the answers from out, or pass an array")

    def reject(self, n: int) -> InputError:
        """The error to raise for row ``n``, whose logits are not finite."""
        where = "x" if self.single else f"row {n} of x"
        row = self.dense(n)
        for d in np.flatnonzero(~np.isfinite(row))[:1]:
            names = self.model.feature_names
            return InputError(f"{where} must be finite; feature {names[d] if names else d} is {row[d]}")
        return InputError(f"{where} is so large that its logits overflow; the largest entry is {np.abs(row).max():.3g}")


def check_out(out: np.ndarray | None, rows: int, D: int, *, least: bool = False) -> None:
    """Whether answers fit into what the user gave for them, if anything: so many rows, or at ``least`` so many."""
    if out is None:
        return
    if out.ndim != 2 or out.shape[1] != D or (out.shape[0] < rows if least else out.shape[0] != rows):
        raise InputError(f"out must have shape ({rows}, {D}); got {out.shape}")
    writeable = getattr(out.flags, "writeable", True)  # CuPy's always are
    if not writeable or out.dtype.kind != "f":
        raise InputError(f"out must be a writeable array of floats; got {out.dtype}, writeable={writeable}")


def _by_name(model: Model, X: Any) -> Any:
    """A named tuple, or a list of them, by the names of the model's columns: as a dict, of numbers in the model's order."""
    if isinstance(X, list) and X and all(isinstance(row, tuple) and hasattr(row, "_fields") for row in X):
        return [_by_name(model, row) for row in X]
    names = model.encoding.names or model.feature_names or ()
    fields = getattr(X, "_fields", None) if isinstance(X, tuple) else None
    if fields is None or not names:
        return X
    missing = [name for name in names if name not in fields]
    if missing:
        told = f"x has no {missing[0]!r}, which the model needs; this {type(X).__name__} has {list(fields)}"
        raise InputError(f"{told}; list(x) is read by place")
    cells = {name: getattr(X, name) for name in names}
    return list(cells.values()) if model.encoding.identity else cells


def _numbers(X: Any) -> np.ndarray:
    """An array of real numbers of whatever kind they come in."""
    try:
        rows = np.asarray(X)
        kind = rows.dtype.kind
        if kind in "OU":  # objects may all be numbers; of strings this names the first that is none
            rows = rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"x must be numbers; got {type(X).__name__} ({error})") from None
    if kind not in "fiubO":
        raise InputError(f"x must be real numbers; got {type(X).__name__} of {'strings' if kind == 'U' else rows.dtype}")
    return rows


def _weights(encoding: Encoding, X: Any) -> Any:
    """Weights of documents (N, D); what cannot be read as documents is refused in these words, not in the vectorizer's."""
    X = unmasked(X)
    wanted = "x must be a document, a list of documents, or the weights of their words"
    if isinstance(X, Mapping):
        raise InputError(f"{wanted}; got a {type(X).__name__}")
    try:
        rows = encoding.read(X)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        each = X if isinstance(X, (list, tuple)) or getattr(X, "ndim", 0) == 1 else ()
        odd = next((f"document {i} is {text!r}" for i, text in enumerate(each) if not isinstance(text, str)), str(error))
        raise InputError(f"{wanted}; got {type(X).__name__} ({odd})") from None
    return _table(rows)[0]


def _table(rows: Any) -> tuple[Any, bool]:
    """One row as a table of one, and whether it was one."""
    if rows.ndim not in (1, 2):
        raise InputError(f"x must be one row (D,) or a table of rows (N, D); got an array of shape {rows.shape}")
    return (rows.reshape(1, -1), True) if rows.ndim == 1 else (rows, False)


def _is_sparse(X: Any) -> bool:
    module = sys.modules.get("scipy.sparse")  # not loaded: nobody can have made a sparse array
    return module is not None and module.issparse(X)
