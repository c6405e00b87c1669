"""The rows a user brings: dense, sparse, or a pandas row or frame, one or many."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.errors import InputError
from ifonly.model import Model
from ifonly.numerics import norms

__all__ = ["Sources"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sources:
    """N rows of D features in the user's units.

    Attributes
    ----------
    model : Model
        The classifier they are for.
    rows : ndarray of shape (N, D), or CSR
        The rows, as the user gave them.
    single : bool
        Whether the user gave one row rather than a table of rows.
    index : sequence or None
        A frame's row labels.

    """

    model: Model
    rows: Any
    single: bool
    index: Sequence[Any] | None = None

    @classmethod
    def read(cls, model: Model, X: Any) -> "Sources":
        """Check; a frame's columns are put into the model's order by name. Arrays are referred to, not copied."""
        index = None
        if _is_sparse(X):
            rows, single = X.tocsr(), X.ndim == 1
            if single:
                rows = rows.reshape(1, -1)
        else:
            if hasattr(X, "to_numpy"):
                X, index = _aligned(model, X)
            rows = _numbers(X)
            if rows.ndim not in (1, 2):
                raise InputError(f"x must be one row (D,) or a table of rows (N, D); got an array of shape {rows.shape}")
            single = rows.ndim == 1
            rows = rows[None] if single else rows
        if rows.shape[1] != model.n_features:
            raise InputError(f"x must have {model.n_features} features; got {rows.shape[1]}")
        if _is_sparse(rows) and model.scaling is not None and model.scaling.shift.any():
            raise InputError("a sparse x cannot pass a scaler that shifts the features (with_mean=True); pass a dense x")
        return cls(model, rows, single, index)

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
        return cls(model, np.concatenate([table.rows for table in tables]), False)

    def repeated(self, times: int) -> "Sources":
        """Every row so many times in a row."""
        if times == 1:
            return self
        return Sources(self.model, self.rows[np.repeat(np.arange(len(self)), times)], False)

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

    def moved(self, n: int, coef: Floats) -> Floats:
        """Row ``n`` after the change ``rowsᵀ coef``, in the user's units: the second and last pass over ``A``."""
        rows = self.model.rows
        change = coef[0] * rows[0] if len(rows) == 1 else rows.T @ coef
        if self.model.scaling is not None:
            change *= self.model.scaling.scale
        change += self.dense(n)
        return change

    def move(self, coef: Floats, out: np.ndarray) -> None:
        """All rows after the changes ``coef @ rows``, in the user's units, into ``out``."""
        rows, scaling = self.model.rows, self.model.scaling
        direct = out.dtype == np.float64 and out.flags.c_contiguous
        change = np.matmul(coef, rows, out=out if direct else None)
        if scaling is not None:
            change *= scaling.scale
        change += self.rows.toarray() if _is_sparse(self.rows) else self.rows
        if not direct:
            out[...] = change

    def project(self) -> tuple[Floats, Floats]:
        """``Z = X rowsᵀ`` (N×R) and ``‖x̄‖`` (N), both in the classifier's units.

        This is the first of the two passes over ``A``. It also finds every NaN and infinity in X, at no further cost:
        they make the row of Z they belong to NaN or infinite.
        """
        model = self.model
        X = self.rows.astype(np.float64, copy=False)
        if model.scaling is not None:
            X = model.scaling(X)
        if _is_sparse(X):
            Z = X @ model.columns
            lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
        elif len(X) == 1:  # gemv, twice as fast as gemm with one row
            row = X[0]
            Z = np.array([[model.rows[0] @ row]]) if len(model.rows) == 1 else (model.rows @ row)[None]
            lengths = norms(X)
        else:
            Z = X @ model.rows.T
            lengths = norms(X)
        return Z, lengths

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


def _numbers(X: Any) -> np.ndarray:
    """An array of real numbers of whatever kind they come in."""
    try:
        rows = np.asarray(X)
        if rows.dtype.kind not in "fiub":
            rows = rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"x must be numbers; got {type(X).__name__} ({error})") from None
    return rows


def _is_sparse(X: Any) -> bool:
    module = sys.modules.get("scipy.sparse")  # not loaded: nobody can have made a sparse array
    return module is not None and module.issparse(X)


def _aligned(model: Model, frame: Any) -> tuple[Any, Sequence[Any] | None]:
    """A pandas row or frame as an array with its columns in the model's order, and its row labels."""
    single = frame.ndim == 1
    labels = [str(label) for label in (frame.index if single else frame.columns)]
    index = None if single else frame.index
    names = model.feature_names
    values = frame.to_numpy()
    if names is None or tuple(labels) == names:
        return values, index
    if set(labels) != set(names) or len(labels) != len(names):
        missing, extra = [n for n in names if n not in labels], [n for n in labels if n not in names]
        raise InputError(f"x must have the model's features; missing {missing[:5]}, not known {extra[:5]}")
    order = [labels.index(name) for name in names]
    return values[order] if single else values[:, order], index
