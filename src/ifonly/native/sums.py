"""`engines.passes.sum_up`, compiled with Numba (extra ``fast``): a class after the other, each row of A read once.

Where there are few points the time of a pass is that of reading A, and NumPy reads it three times: to make it float64, and for
each of the two products.
"""

import math
from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ifonly.engines.passes import FEW_POINTS, Look, Sums, sum_up
from ifonly.model import Model

__all__ = ["sum_up_compiled"]

Floats = NDArray[np.float64]

NOTHING = -46.0  # a class whose logit is so far below the largest has less than 1e-20 of its weight: K of them still nothing


def sum_up_compiled(model: Model, looks: Sequence[Look], logits: Floats, first: int, last: int) -> Sums:
    """The sums over classes ``first`` to ``last``, whose logits are written into their places."""
    if len(looks) > FEW_POINTS or any(look.covariance for look in looks) or model.A.dtype == np.float16:
        return sum_up(model, looks, logits, first, last)
    N, D = len(looks), model.n_features
    top, mass, mean = np.full(N, -np.inf), np.zeros(N), np.zeros((N, D))
    A = np.asarray(model.A)  # a memory map is an array too, which Numba has to be told
    for n, look in enumerate(looks):
        outside = np.sort(look.task.outside[(look.task.outside >= first) & (look.task.outside < last)])
        x = np.array(look.x)  # of one type: neither read-only nor with gaps
        top[n], mass[n] = _sum(A, model.b, x, outside, first, last, logits[n], mean[n])
    return Sums(top, mass, mean, {})


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def _sum(A, b, x, outside, first, last, logits, mean):
    """Σ e^{z − top} and, into ``mean``, Σ e^{z − top} a_j, with the largest logit so far as top."""
    D = len(x)
    top, mass, skip = -np.inf, 0.0, 0
    for j in range(first, last):
        z = 0.0
        for d in range(D):
            z += np.float64(A[j, d]) * x[d]
        z += b[j]
        logits[j] = z
        if skip < len(outside) and outside[skip] == j:
            skip += 1
            continue
        if z > top:
            scale = math.exp(top - z)
            mass *= scale
            for d in range(D):
                mean[d] *= scale
            top = z
        if z - top > NOTHING:
            e = math.exp(z - top)
            mass += e
            for d in range(D):
                mean[d] += e * np.float64(A[j, d])
    return top, mass
