"""`engines.passes.sum_up` in C++ (sums.hpp): each row of A read once, for all points.

Where there are few points the time of a pass is that of reading A, and NumPy reads it three times: to make it float64, and for
each of the two products.
"""

from collections.abc import Sequence

import numpy as np

from ifonly.engines.passes import NOTHING, Look, Sums, sum_up
from ifonly.model import Model
from ifonly.model.numerics import Floats
from ifonly.native import compiled

__all__ = ["sum_up_compiled"]


def sum_up_compiled(model: Model, looks: Sequence[Look], logits: Floats, first: int, last: int) -> Sums:
    """The sums over classes ``first`` to ``last``, whose logits are written into their places."""
    A = np.asarray(model.A)  # a memory map is an array too
    rows_apart = A.strides[1] != A.itemsize or A.strides[0] < 0 or A.strides[0] % A.itemsize != 0
    if rows_apart or not A.flags.aligned or not A.dtype.isnative or any(look.covariance for look in looks):
        return sum_up(model, looks, logits, first, last)
    N, D = len(looks), model.n_features
    top, mass, mean = np.empty(N), np.empty(N), np.empty((N, D))
    outside = [np.sort(look.outside) for look in looks]
    edges = np.cumsum([0, *(len(classes) for classes in outside)], dtype=np.int64)
    X, classes = np.array([look.x for look in looks]), np.concatenate(outside).astype(np.int64, copy=False)
    compiled().sum_up(A, model.b, X, classes, edges, first, last, NOTHING, logits, top, mass, mean)
    return Sums(top, mass, mean, {})
