"""Elementwise monotone maps of one number, with their inverses: what pipelines do to a column of numbers.

Each is a value: it can be compared, pickled, and written as plain data (`to_dict`, `from_dict`). The formulas are those of
scikit-learn and SciPy, so that the coordinate computed here is the one that the user's pipeline computes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ifonly.model.errors import reading
from ifonly.model.numerics import Floats

__all__ = ["FARTHEST", "FUNCTIONS", "Affine", "BoxCox", "Function", "Monotone", "Quantiles", "YeoJohnson"]
__all__ += ["backward", "from_dict", "to_dict"]

TINY = float(np.nextafter(0.0, 1.0))
NEAR_END = 1e-7  # scikit-learn's BOUNDS_THRESHOLD: this near to the first or last quantile is that quantile
EPSILON = float(np.spacing(1.0))  # λ this near to 0 (or 2) is the limit
FARTHEST = 1e18  # numbers that are mapped stay within it: beyond, the map and its inverse overflow


def _special() -> Any:
    """SciPy's special functions, which only some maps need and which take a while to load."""
    from scipy import special

    return special


@dataclass(frozen=True)
class Monotone(ABC):
    """An increasing or decreasing map. Subclasses say how it and its inverse are computed, and what else is true of it.

    What is true of it has no annotations: it is no field, and no part of what is compared and written to files.
    """

    name = ""  # what it is called in messages
    least, most = -np.inf, np.inf  # the numbers that it takes
    rising = True  # whether it increases
    rough = 0.0  # how large constants are that are added inside, in units of the result: they round
    jumps = False  # whether there are numbers between two of its values that it never takes

    def forward(self, v: Floats) -> Floats:
        """The map; NaN for what it does not take."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return self._forward(v)

    def inverse(self, v: Floats) -> Floats:
        """Its inverse, to rounding; the ends of its domain for what lies beyond its range."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return self._inverse(v)

    @abstractmethod
    def _forward(self, v: Floats) -> Floats: ...

    @abstractmethod
    def _inverse(self, v: Floats) -> Floats: ...


def backward(maps: Sequence[Monotone], v: Floats) -> Floats:
    """The inverse of several maps, one after the other."""
    for step in reversed(maps):
        v = step.inverse(v)
    return v


@dataclass(frozen=True)
class Affine(Monotone):
    """``(v − zero)/scale·weight + shift``: a scaler before another map, which rounds as the scaler does."""

    weight: float
    shift: float
    zero: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        slope = self.weight / self.scale
        vars(self).update(name="Affine", rising=slope > 0, rough=abs(self.shift) + abs(self.zero * slope))

    def _forward(self, v: Floats) -> Floats:
        return (v - self.zero) / self.scale * self.weight + self.shift

    def _inverse(self, v: Floats) -> Floats:
        return (v - self.shift) / self.weight * self.scale + self.zero


# NumPy's functions that increase: inverse, least and most of what they take and give finite numbers of.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "log1p": (np.expm1, float(np.nextafter(-1.0, 0.0)), np.inf),
    "log": (np.exp, TINY, np.inf),
    "log2": (np.exp2, TINY, np.inf),
    "log10": (lambda v: 10.0**v, TINY, np.inf),
    "exp": (np.log, -700.0, 700.0),
    "exp2": (np.log2, -1000.0, 1000.0),
    "expm1": (np.log1p, -36.0, 700.0),
    "sqrt": (np.square, 0.0, np.inf),
    "cbrt": (lambda v: v**3, -np.inf, np.inf),
    "arcsinh": (np.sinh, -np.inf, np.inf),
    "sinh": (np.arcsinh, -700.0, 700.0),
    "arctan": (np.tan, -np.inf, np.inf),
    "tanh": (np.arctanh, -18.0, 18.0),
}


@dataclass(frozen=True)
class Function(Monotone):
    """One of `FUNCTIONS`."""

    function: str

    def __post_init__(self) -> None:
        _, least, most = FUNCTIONS[self.function]
        vars(self).update(name=f"np.{self.function}", least=least, most=most)

    def _forward(self, v: Floats) -> Floats:
        return getattr(np, self.function)(v)

    def _inverse(self, v: Floats) -> Floats:
        return FUNCTIONS[self.function][0](v)


@dataclass(frozen=True)
class _Power(Monotone):
    """A power transform, standardised: ``(power(v) − mean) / scale``."""

    lam: float
    mean: float
    scale: float
    name = "PowerTransformer"

    def __post_init__(self) -> None:
        vars(self).update(rough=abs(self.mean / self.scale))

    def _forward(self, v: Floats) -> Floats:
        return (self._power(v) - self.mean) / self.scale

    def _inverse(self, v: Floats) -> Floats:
        found = self._root(v * self.scale + self.mean)
        found = np.where(np.isnan(found) & ~np.isnan(v), np.where(v > 0, np.inf, -np.inf), found)
        return np.clip(found, max(self.least, -FARTHEST), FARTHEST)

    @abstractmethod
    def _power(self, v: Floats) -> Floats: ...

    @abstractmethod
    def _root(self, v: Floats) -> Floats: ...


@dataclass(frozen=True)
class BoxCox(_Power):
    """``(v^λ − 1)/λ``, or ``ln v`` for λ = 0."""

    least = TINY

    def _power(self, v: Floats) -> Floats:
        return _special().boxcox(v, self.lam)

    def _root(self, v: Floats) -> Floats:
        return _special().inv_boxcox(v, self.lam)


@dataclass(frozen=True)
class YeoJohnson(_Power):
    """``((v + 1)^λ − 1)/λ`` for v ≥ 0, ``−((1 − v)^(2 − λ) − 1)/(2 − λ)`` for v < 0, with logarithms in the limits."""

    rest: float | None = None  # 2 − λ, as the transformer rounds it (one that was fitted to float32 does so in float32)

    def _power(self, v: Floats) -> Floats:
        return self._mirrored(v, lambda u, lam: np.expm1(lam * np.log1p(u)) / lam if lam else np.log1p(u))

    def _root(self, v: Floats) -> Floats:
        return self._mirrored(v, lambda u, lam: np.expm1(np.log1p(lam * u) / lam) if lam else np.expm1(u))

    def _mirrored(self, v: Floats, side: Callable[[Floats, float], Floats]) -> Floats:
        """One side, with its exponent, for v ≥ 0, and the other, mirrored, for v < 0; an exponent of 0 is for the limit."""
        lam, rest = self.lam, 2 - self.lam if self.rest is None else self.rest
        above = side(np.maximum(v, 0.0), 0.0 if abs(lam) < EPSILON else lam)
        below = side(-np.minimum(v, 0.0), 0.0 if abs(rest) <= EPSILON else rest)
        return np.where(np.isnan(v), np.nan, np.where(v >= 0, above, -below))


@dataclass(frozen=True)
class Quantiles(Monotone):
    """Linear between quantiles of the training data, and to the normal distribution from there if ``normal``.

    Where quantiles repeat (many equal values) it jumps: numbers just below go to the first of their references, the number
    itself to the middle, numbers just above to the last.
    """

    quantiles: tuple[float, ...]
    references: tuple[float, ...]
    normal: bool
    name = "QuantileTransformer"

    def __post_init__(self) -> None:
        q = self.quantiles
        vars(self).update(least=q[0], most=q[-1], jumps=len(set(q)) < len(q))

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        q, r = np.array(self.quantiles), np.array(self.references)
        return q, r, -q[::-1], -r[::-1]

    def _forward(self, v: Floats) -> Floats:
        q, r, back_q, back_r = self._arrays
        v = np.asarray(v, dtype=np.float64)
        low, high = (v - NEAR_END < q[0], v + NEAR_END > q[-1]) if self.normal else (v == q[0], v == q[-1])
        u = 0.5 * (np.interp(v, q, r) - np.interp(-v, back_q, back_r))
        u = np.where(low, 0.0, np.where(high, 1.0, u))
        if self.normal:  # clipped where scikit-learn does
            last = NEAR_END - np.spacing(1)
            u = np.clip(_special().ndtri(u), *_special().ndtri([last, 1 - last]))
        return np.where(np.isnan(v), np.nan, u)

    def _inverse(self, v: Floats) -> Floats:
        q, r, _, _ = self._arrays
        u = _special().ndtr(v) if self.normal else np.asarray(v, dtype=np.float64)
        near = NEAR_END if self.normal else 0.0
        return np.where(u - near < 0.0, q[0], np.where(u + near > 1.0, q[-1], np.interp(u, r, q)))


_KINDS: dict[str, type[Monotone]] = {cls.__name__: cls for cls in (Affine, Function, BoxCox, YeoJohnson, Quantiles)}


def to_dict(step: Monotone) -> dict[str, Any]:
    """A map as plain data."""
    return {"kind": type(step).__name__, **{part.name: getattr(step, part.name) for part in fields(step)}}


def from_dict(data: dict[str, Any]) -> Monotone:
    """A map from what `to_dict` gave."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items() if key != "kind"}
    with reading(f"it is damaged, or of a later version: a map of {sorted(data)} is not understood", LookupError, TypeError):
        return _KINDS[data["kind"]](**values)
