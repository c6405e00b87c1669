"""Very many classes in C++: the rounds of `engines.rounds`, and what takes the time in `engines.very_many`.

A problem that does not settle here (few_and_rest.hpp) goes to the original. A pass (sums.hpp for few points, many_points.hpp
for many) reads each row of A once, for all points. Where there are few points the time of a pass is that of reading A, and
NumPy reads it three times: to make it float64, and for each of the two products. Where there are many it is that of
multiplying, and nothing between the two products leaves the cache.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import rounds as plain
from ifonly.engines.class_newton import ROUGH
from ifonly.engines.newton import Outcome
from ifonly.engines.passes import NOTHING, Look, Sums, known_points, points, sum_up
from ifonly.engines.rounds import MAX_ROUNDS, ManyRivals
from ifonly.engines.very_many import Loops, solve_few
from ifonly.engines.windows import Window
from ifonly.model import Model
from ifonly.model.numerics import Floats
from ifonly.native import compiled

__all__ = ["COMPILED", "Lean", "solve_few_compiled", "solve_rounds", "sum_up_compiled"]


class Lean(NamedTuple):
    """A model's basis in single precision, and the two passes over it, whose time is that of reading it; sums are in double."""

    rows: NDArray[np.float32]

    @classmethod
    def of(cls, model: Model) -> "Lean | None":
        """Where single precision has all digits of it, as of the weights of networks; made once and kept with the model."""
        if "lean" not in model.memo:
            with np.errstate(over="ignore"):
                rows = model.basis.astype(np.float32, order="C")
            model.memo["lean"] = cls(rows) if np.array_equal(rows, model.basis) else None
        return model.memo["lean"]

    def times(self, x: Floats) -> Floats:
        """``basis @ x``."""
        z = np.empty(len(self.rows))
        compiled().project_lean(self.rows, np.ascontiguousarray(x), z)
        return z

    def combination(self, y: Floats) -> Floats:
        """``basisᵀ y``."""
        change = np.empty(self.rows.shape[1])
        compiled().combine_lean(self.rows, y, change)
        return change


def solve_rounds(
    space: ManyRivals, start: Floats | None = None, *, window: Window | None = None, max_iter: int = MAX_ROUNDS
) -> Outcome:
    """`engines.rounds.solve_rounds`, compiled."""
    k, K = space.k, len(space.G)
    margins, state, numbers = np.empty(K), np.zeros((3, K)), np.empty(5)
    margins[:k], margins[k], margins[k + 1 :] = space.margins[:k], -math.inf, space.margins[k:]
    if start is not None:
        state[0, :k], state[0, k + 1 :] = start[:k], start[k:]
    limits = plain.FEW, plain.SHARE, min(max_iter, MAX_ROUNDS)
    goal = np.array(window or (), dtype=np.float64)
    G = np.ascontiguousarray(space.G)
    compiled().solve_rounds(G, k, margins, space.size, space.lam, goal, *limits, start is not None, state, numbers)
    lam, p_target, loss, rounds, settled = numbers.tolist()
    outcome = space.at(lam).end(state, p_target, loss, bool(settled), window, history=(), n_iter=int(rounds))
    if not outcome.converged and max_iter >= MAX_ROUNDS:
        return plain.solve_rounds(space, start, window=window, max_iter=max_iter)
    return outcome


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
