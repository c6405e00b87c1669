"""The loops of `engines.very_many` in C++: the problem with few rivals (few_and_rest.hpp), and `engines.passes.sum_up`.

A pass (sums.hpp for few points, many_points.hpp for many) reads each row of A once, for all points.

Where there are few points the time of a pass is that of reading A, and NumPy reads it three times: to make it float64, and for
each of the two products. Where there are many it is that of multiplying, and nothing between the two products leaves the cache.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.class_newton import ROUGH
from ifonly.engines.passes import NOTHING, Look, Sums, known_points, points, sum_up
from ifonly.engines.very_many import Loops, solve_few
from ifonly.model import Model
from ifonly.model.numerics import Floats
from ifonly.native import compiled

__all__ = ["COMPILED", "solve_few_compiled", "sum_up_compiled"]


def sum_up_compiled(model: Model, looks: Sequence[Look], logits: NDArray[Any]) -> Callable[[int, int], Sums]:
    """The sums over classes ``first`` to ``last``, whose logits are written into their places, for looks of one precision."""
    A = np.asarray(model.A)  # a memory map is an array too
    rows_apart = A.strides[1] != A.itemsize or A.strides[0] < 0 or A.strides[0] % A.itemsize != 0
    if rows_apart or not A.flags.aligned or not A.dtype.isnative or any(look.covariance for look in looks):
        return sum_up(model, looks, logits)
    outside = [np.sort(look.outside) for look in looks]
    edges = np.cumsum([0, *(len(classes) for classes in outside)], dtype=np.int64)
    X, classes, known = points(looks), np.concatenate(outside).astype(np.int64, copy=False), known_points(looks)
    weights, tops = [point.weights for point in known], [point.top for point in known]

    def piece(first: int, last: int) -> Sums:
        top, mass, mean = np.empty(len(X)), np.empty(len(X)), np.empty(X.shape)
        compiled().sum_up(A, model.b, X, classes, edges, first, last, NOTHING, weights, logits, top, mass, mean)
        top[: len(tops)] = tops
        return Sums(top, mass, mean, {})

    return piece


def solve_few_compiled(gram: Floats, margins: Floats, lam: float, start: Floats | None) -> tuple[Floats, int]:
    """`very_many.solve_few`; where it does not settle, the original."""
    q = np.empty(len(margins)) if start is None else start.copy()
    n_iter = compiled().solve_few(gram, margins, lam, ROUGH, start is None, q)
    return (q, n_iter) if n_iter else solve_few(gram, margins, lam, start)


COMPILED = Loops(sum_up_compiled, solve_few_compiled)
