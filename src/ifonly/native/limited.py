"""What limited.cu has to know of a classifier, a cost and limits, and what it has no room for. Nothing here needs a GPU."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.cost_space import CostSpace
from ifonly.model.numerics import Floats, norms
from ifonly.native.cuda_source import MOST_FEATURES, MOST_LIMITED_CLASSES, limited_blocks, tiled

__all__ = ["Tables", "unfit"]

BESIDE = 4  # limited.cu's WIDE less COUNT
EACH_BEYOND = np.array([[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]]).T  # what is divided by is not 0
FAR_OFF = 2.0  # rows that are so many times longer than their differences are moved to their mean: less cancels


def unfit(space: CostSpace) -> str | None:
    """What the kernel is for, where these conditions are not that; None where they are."""
    K, D = space.model.A.shape
    if not space.one_by_one:
        return "a plain model with limits on features one by one, and lam or prob"
    if K > MOST_LIMITED_CLASSES:
        return f"up to {MOST_LIMITED_CLASSES} classes, not {K}"
    if D > MOST_FEATURES or limited_blocks(D, K) is None:
        return f"up to {MOST_FEATURES} features, and fewer with many classes, not {D}"
    return None


class Tables(NamedTuple):
    """The arrays of limited.cu, for all targets; features are filled up to whole tiles."""

    D: int
    rows: Floats  # (K, pitch) in units of cost
    weights: Floats  # (K, pitch) the classifier's own
    b: Floats  # (K,)
    each: Floats  # (7, features): the scaler's shift and scale, sizes, a unit's cost, μ, limits
    way: NDArray[np.int8]  # (features,)
    moving: NDArray[np.uint32]  # (features/32,) those that may move, as bits
    grams: Floats  # (K, K − 1, K − 1) of the rivals of each target, over those: newton.cu's too
    gram: Floats  # (K, K | 1) of the rows
    pairs: Floats  # (2, K, K): ‖a_j − a_k‖; ‖(|a_j| + |a_k|)/c‖
    errors: Floats  # (8,)
    kind: dict[str, int]  # SOFT, COSTED, DIRECTED, SCALED, PLAIN

    @classmethod
    def of(cls, space: CostSpace) -> "Tables":
        """Those of a space; see `semismooth_newton._shared`."""
        model, limits, c = space.model, space.limits, space.per_unit
        K, D = model.A.shape
        features = tiled(D)
        rows: Floats = np.asarray(model.A / space.scale / c, dtype=np.float64)
        lengths = np.array([norms(rows - row) for row in rows])
        middle = rows.mean(axis=0) if norms(rows).max() > FAR_OFF * lengths.max() else np.zeros(D)
        rows = rows - middle
        rivals = [np.delete(rows - rows[k], k, axis=0)[:, space.moving] for k in range(K)]
        sizes = np.abs(model.A) / np.abs(space.scale) / c + np.abs(middle)
        terms = np.array([norms(sizes + size) for size in sizes])
        each = np.array([space.shift, space.scale, model.column_sizes, c, space.mu, limits.lo, limits.hi])
        kind = {"SOFT": space.mu.any(), "COSTED": (c != 1.0).any(), "DIRECTED": limits.ways.any()}
        kind |= {"SCALED": model.scaling is not None, "PLAIN": np.array_equal(rows, model.A)}
        gram = np.zeros((K, K | 1))
        gram[:, :K] = rows @ rows.T
        return cls(
            D,
            _filled(rows, features + BESIDE),
            _filled(model.A, features + BESIDE),
            np.array(model.b),
            _filled(each, features, EACH_BEYOND),
            _filled(limits.ways.astype(np.int8), features),
            np.packbits(_filled(space.moving, features), bitorder="little").view(np.uint32),
            np.array([B @ B.T for B in rivals]),
            gram,
            np.array([lengths, terms]),
            space.errors,
            {name: int(value) for name, value in kind.items()},
        )

    def arguments(self) -> tuple[Any, ...]:
        """Those of limited.cu from A to the errors."""
        return self[1:11]


def _filled(a: Any, width: int, beyond: Any = 0) -> Any:
    """Rows of that width, and what lies beyond their ends."""
    filled = np.zeros((*a.shape[:-1], width), dtype=a.dtype)
    filled[...] = beyond
    filled[..., : a.shape[-1]] = a
    return filled
