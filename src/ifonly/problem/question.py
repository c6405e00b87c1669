"""What is wanted: which class, and either λ or a probability, for all rows or for each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.model import Model
from ifonly.model.errors import InputError

__all__ = ["ALL", "NEAREST", "Wish", "Wishes", "class_set", "number", "target_index"]

Floats = NDArray[np.float64]

NEAREST = -1  # in place of a class index: the nearest other class, or the nearest of a set
ALL = -2  # … : every class in turn
EXTREME_LAM = 1e100


class Wish(NamedTuple):
    """What is wanted of N rows: class indices (or `NEAREST`, of ``among`` if given), and per row λ or a probability."""

    targets: NDArray[np.intp]
    lam: Floats | None
    prob: Floats | None
    among: NDArray[np.intp] | None = None

    def take(self, index: Any) -> "Wish":
        """That of some of the rows."""
        return Wish(
            self.targets[index],
            None if self.lam is None else self.lam[index],
            None if self.prob is None else self.prob[index],
            self.among,
        )


class Wishes:
    """What the user asked for, checked: one value for all rows, or one for each."""

    def __init__(self, model: Model, target: Any, lam: Any, prob: Any, *, single: bool = False) -> None:
        self.among = class_set(model, target, single=single)
        self.target: int | NDArray[np.intp] = _targets(model, target) if self.among is None else NEAREST
        self.lam = None if lam is None else _numbers(lam, "lam", np.inf)
        self.prob = None if prob is None else _numbers(prob, "prob", 1.0)
        self.per_source = model.n_classes if isinstance(self.target, int) and self.target == ALL else 1

    def check(self, n_rows: int) -> None:
        """Whether there is one of everything for each row."""
        for name, value in (("target", self.target), ("lam", self.lam), ("prob", self.prob)):
            if isinstance(value, np.ndarray) and len(value) != n_rows:
                one = "label" if name == "target" else "number"
                raise InputError(f"{name} must be one {one} or {n_rows}, one per row; got {len(value)}")

    def rows(self, a: int, b: int) -> Wish:
        """That of rows ``a`` to ``b``."""

        def cut(value: Any) -> Any:
            return None if value is None else value[a:b] if isinstance(value, np.ndarray) else np.broadcast_to(value, (b - a,))

        if self.per_source == 1:
            return Wish(cut(self.target), cut(self.lam), cut(self.prob), self.among)
        K = self.per_source
        lam, prob = (None if v is None else np.repeat(v, K) for v in (cut(self.lam), cut(self.prob)))
        return Wish(np.tile(np.arange(K), b - a), lam, prob)


def number(value: Any, name: str, limit: float) -> float:
    """One number, checked to lie strictly between 0 and ``limit``."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be one number; got {value!r}") from None
    if not 0 < found < limit:
        expected = "a number > 0" if limit == np.inf else "strictly between 0 and 1"
        raise InputError(f"{name} must be {expected}; got {found}")
    if name == "lam" and not 1 / EXTREME_LAM <= found <= EXTREME_LAM:
        raise InputError(f"lam must be from {1 / EXTREME_LAM:g} to {EXTREME_LAM:g}: beyond, squares overflow; got {found}")
    return found


def target_index(model: Model, target: Any) -> int:
    """The class index of a label, or `NEAREST` for None, "other" and "opposite", or `ALL` for "all"."""
    if target is None:
        return NEAREST
    try:
        return model.class_index(target)
    except InputError:
        if not isinstance(target, str) or target not in ("other", "opposite", "all"):
            raise
    if target == "opposite" and model.n_classes != 2:
        raise InputError(f'target "opposite" needs a model with 2 classes; this one has {model.n_classes}')
    return ALL if target == "all" else NEAREST


def class_set(model: Model, target: Any, *, single: bool) -> NDArray[np.intp] | None:
    """The class indices of a set of labels, any of which will do; None for anything else.

    A list is one label per row where there are rows, and a set where there is one source.
    """
    if not isinstance(target, (set, frozenset)) and not (single and isinstance(target, (list, np.ndarray)) and len(target) > 1):
        return None
    found = np.unique([model.class_index(label) for label in target]).astype(np.intp)
    if not 0 < len(found) < model.n_classes:
        raise InputError(f"target must be one or more of the {model.n_classes} classes, but not all; got {len(found)} of them")
    return found


def _numbers(value: Any, name: str, limit: float) -> float | Floats:
    if np.ndim(value) == 0:
        return number(value, name, limit)
    if np.ndim(value) > 1:
        raise InputError(f"{name} must be one number, or one per row; got an array of shape {np.shape(value)}")
    values = np.asarray(value, dtype=np.float64)
    bad = ~((values > 0) & (values < limit))
    if name == "lam":
        bad |= ~((values >= 1 / EXTREME_LAM) & (values <= EXTREME_LAM))
    if bad.any():
        number(values[bad][0], name, limit)
    return values


def _targets(model: Model, target: Any) -> int | NDArray[np.intp]:
    if hasattr(target, "to_numpy"):
        target = target.to_numpy()
    if not isinstance(target, (Sequence, np.ndarray)) or isinstance(target, (str, tuple)):
        return target_index(model, target)
    if isinstance(target, np.ndarray) and target.ndim == 1 and target.dtype != object:
        labels, inverse = _distinct(target)
    else:
        labels, inverse = target, np.arange(len(target))
    indices = np.array([target_index(model, label) for label in labels], dtype=np.intp)[inverse]
    if (indices == ALL).any():
        raise InputError('target "all" is for all rows; it cannot be one label among others')
    return indices


def _distinct(labels: np.ndarray) -> tuple[np.ndarray, NDArray[np.intp]]:
    """`numpy.unique` with its inverse; integers of a small range are counted, not sorted."""
    if labels.dtype.kind == "i" and labels.size and int(labels.max()) - int(labels.min()) <= labels.size:
        place = labels.astype(np.intp) - int(labels.min())
        there = np.flatnonzero(np.bincount(place))
        at = np.zeros(there[-1] + 1, dtype=np.intp)
        at[there] = np.arange(len(there))
        return there + int(labels.min()), at[place]
    return np.unique(labels, return_inverse=True)
