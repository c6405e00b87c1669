"""What a change costs.

A change from x̄ to x is measured in *units of cost*, t_d = c_d (x_d − x̄_d), with c_d the cost of one unit of feature d in the
user's own units, and

    cost(x) = ½Σ_d t_d² + Σ_d μ_d|t_d|,        distance(x) = ‖t‖.

With ``lam`` the objective is ``(λ/2)‖t‖² + Σμ_d|t_d| − ln p_k``; with ``prob`` the cost itself is minimised. A matrix Q in
place of the c_d (Mahalanobis) makes ``‖t‖² = (x − x̄)ᵀQ(x − x̄)``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats

__all__ = ["Cost"]

FITTED = ("std", "mad", "iqr")
LEAST_EIGENVALUE = 1e-12  # of a matrix, relative to its largest: below, it is singular


@dataclass(frozen=True, eq=False)
class Cost:
    """What a change costs: how much one unit of each feature is, and whether few changes are better than many small ones.

    Parameters
    ----------
    scale : {"model", "raw", "std", "mad", "iqr"}, mapping or array
        The cost of one unit of each feature. "model" (default): one unit is one unit of the space the classifier sees, after
        its scaler. "raw": one unit of the user's. "std", "mad", "iqr": one standard deviation, median absolute deviation or
        interquartile range of the data given to :meth:`fit`. A mapping from features to costs per unit (others as in
        "model"), or an array of D.
    l1 : float, mapping or array
        μ, what a unit of ``|t_d|`` costs besides: the larger, the fewer features move.
    matrix : array of shape (D, D), optional
        A positive definite matrix Q instead of ``scale``, in the user's units: for features that change together.

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model.binary([1.0, 1.0], 0.0, classes=["no", "yes"], feature_names=["age", "income"])
    >>> ifonly.invert(model, [0.0, -2.0], "yes", cost=Cost({"age": 3.0})).x.round(3).tolist()
    [0.2, -0.2]
    >>> ifonly.invert(model, [0.0, -2.0], "yes", cost=Cost({"age": 3.0}, l1=1.0)).x.round(3).tolist()
    [0.0, 0.0]

    """

    scale: Any = "model"
    l1: Any = 0.0
    matrix: ArrayLike | None = None
    fitted: Mapping[Any, float] | Floats | None = None

    def __post_init__(self) -> None:
        if isinstance(self.scale, str) and self.scale not in ("model", "raw", *FITTED):
            raise InputError(f'scale must be "model", "raw", "std", "mad", "iqr", a mapping or an array; got {self.scale!r}')
        if self.matrix is None:
            return
        if not (isinstance(self.scale, str) and self.scale == "model"):
            raise InputError("give one of scale and matrix, not both")
        Q = _numbers(self.matrix, "matrix")
        if Q.ndim != 2 or Q.shape[0] != Q.shape[1]:
            raise InputError(f"matrix must be square; got an array of shape {Q.shape}")
        if not np.allclose(Q, Q.T, rtol=1e-10, atol=1e-300):
            raise InputError("matrix must be symmetric")
        object.__setattr__(self, "matrix", 0.5 * (Q + Q.T))
        least, largest = self.eigenvalues
        if not (np.diag(Q).min() > 0 and least > LEAST_EIGENVALUE * largest):
            raise InputError(
                f"matrix must be positive definite; its least eigenvalue is {least:.3g}, its largest {largest:.3g}"
            )

    @cached_property
    def eigenvalues(self) -> tuple[float, float]:
        """The least and the largest of the matrix, in units of which one of each feature costs the same."""
        Q = np.asarray(self.matrix, dtype=np.float64)
        unit = np.sqrt(np.diag(Q)) if np.diag(Q).min() > 0 else np.ones(len(Q))
        sizes = np.linalg.eigvalsh(Q / np.multiply.outer(unit, unit))
        return float(sizes[0]), float(sizes[-1])

    @property
    def plain(self) -> bool:
        """Whether it is only a scale: then the problem is one without limits, in other units."""
        return self.matrix is None and not isinstance(self.l1, Mapping) and not np.any(self.l1)

    @property
    def needs_data(self) -> bool:
        """Whether it has to be fitted, and is not."""
        return isinstance(self.scale, str) and self.scale in FITTED and self.fitted is None

    def fit(self, X: Any) -> "Cost":
        """A cost in units of how much each feature varies in ``X`` (N rows in the user's units), as ``scale`` says.

        Where the spread is 0 (more than half of the values equal, for "mad"), the standard deviation takes its place, and for
        a constant feature the unit of "model".
        """
        if not (isinstance(self.scale, str) and self.scale in FITTED):
            raise InputError(f'fit is for scale "std", "mad" or "iqr"; this cost has {self.scale!r}')
        names, X = _frame_numbers(X) if hasattr(X, "columns") else (None, X.toarray() if hasattr(X, "tocsr") else X)
        values = _table(X)
        std = np.nanstd(values, axis=0)
        if self.scale == "std":
            spread = std
        elif self.scale == "mad":
            spread = np.nanmedian(np.abs(values - np.nanmedian(values, axis=0)), axis=0)
        else:
            low, high = np.nanpercentile(values, [25, 75], axis=0)
            spread = high - low
        spread = np.where(spread > 0, spread, std)
        with np.errstate(divide="ignore"):
            per_unit = np.where(spread > 0, 1 / spread, np.nan)
        return replace(self, fitted=per_unit if names is None else dict(zip(names, per_unit.tolist(), strict=True)))

    @classmethod
    def mahalanobis(cls, X: Any, *, l1: Any = 0.0) -> "Cost":
        """The cost whose matrix is the inverse covariance of the rows of ``X``: what varies together changes cheaply."""
        values = _table(X.to_numpy() if hasattr(X, "to_numpy") else X)
        covariance = np.atleast_2d(np.cov(values, rowvar=False))
        sizes, axes = np.linalg.eigh(covariance)
        if not sizes[0] > LEAST_EIGENVALUE * sizes[-1]:
            raise InputError(
                f"the covariance of X is singular (eigenvalues {sizes[0]:.3g} to {sizes[-1]:.3g}): "
                "leave out constant or redundant columns, or give a matrix"
            )
        return cls(l1=l1, matrix=(axes / sizes) @ axes.T)

    def per_unit(self, model: Model) -> Floats:
        """c: what one of the user's units of each feature costs."""
        D = model.n_features
        own = np.ones(D) if model.scaling is None else 1 / np.abs(model.scaling.scale)
        if isinstance(self.scale, str):
            if self.scale in ("raw", "model"):
                return own if self.scale == "model" else np.ones(D)
            if self.fitted is None:
                raise InputError(f'Cost(scale="{self.scale}") needs data: Cost(scale="{self.scale}").fit(X)')
            fitted, columns = self.fitted, model.encoding.columns
            if columns and isinstance(fitted, Mapping):  # only what the classifier sees as the numbers they are
                plain = {column.name for column in columns if column.kind == "number" and not column.maps}
                fitted = {name: value for name, value in fitted.items() if name in plain}
            found = _per_feature(fitted, model, "scale", np.nan)
            return np.where(np.isnan(found), own, found)
        found = _per_feature(self.scale, model, "scale", np.nan)
        found = np.where(np.isnan(found), own, found)
        for d in np.flatnonzero(~((found > 0) & (found < np.inf)))[:1]:
            raise InputError(
                f"the cost of {model.feature_label(d)} must be a number > 0; got {found[d]} (to rule a change out: frozen)"
            )
        return found

    def sparsity(self, model: Model) -> Floats:
        """μ of each feature, in units of cost."""
        found = _per_feature(self.l1, model, "l1", 0.0)
        for d in np.flatnonzero(~((found >= 0) & (found < np.inf)))[:1]:
            raise InputError(f"l1 of {model.feature_label(d)} must be a number ≥ 0; got {found[d]}")
        return found


def _table(X: Any) -> Floats:
    values = _numbers(X, "X")
    if values.ndim != 2 or len(values) < 2:
        raise InputError(f"X must be a table of two rows or more; got an array of shape {values.shape}")
    return values


def _frame_numbers(X: Any) -> tuple[list[str], Floats]:
    """The columns of a frame that are numbers, NaN for what is missing; the others have no spread."""
    found: dict[str, Floats] = {}
    for name in X.columns:
        column = X[name]
        kind = getattr(getattr(column.dtype, "numpy_dtype", column.dtype), "kind", None)
        if kind is None:  # polars
            kind = "f" if column.dtype.is_numeric() else "O"
        if kind in "iuf":
            missing = {"na_value": np.nan} if hasattr(X, "iloc") else {}
            found[str(name)] = np.asarray(column.to_numpy(**missing), dtype=np.float64)
    if not found:
        raise InputError("X must have columns of numbers; it has none")
    return list(found), np.stack(list(found.values()), axis=1)


def _per_feature(value: Any, model: Model, name: str, other: float) -> Floats:
    """One number per feature, from a number, a mapping or an array."""
    D = model.n_features
    if isinstance(value, Mapping):
        out = np.full(D, other)
        for key, number in value.items():
            column = model.encoding.find(key)
            if column is not None and column.kind == "category":  # switching from one value to another costs this much
                out[column.coordinates] = float(number) / (np.sqrt(2) if name == "scale" else 1.0)
            else:
                out[model.feature_index(key)] = float(number)
        return out
    numbers = _numbers(value, name)
    if numbers.ndim == 0:
        return np.full(D, float(numbers))
    if numbers.shape != (D,):
        raise InputError(f"{name} must have one number per feature, {D}; got an array of shape {numbers.shape}")
    return numbers.copy()


def _numbers(value: Any, name: str) -> Floats:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers; got {type(value).__name__} ({error})") from None
