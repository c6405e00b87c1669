"""`engines.rounds` in C++ (few_and_rest.hpp): the same rounds; a problem that does not settle there goes to the original."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import rounds as crowd
from ifonly.engines.newton import Outcome
from ifonly.engines.rounds import MAX_ROUNDS, Crowd, Floats
from ifonly.engines.windows import Window
from ifonly.model import Model
from ifonly.native import compiled

__all__ = ["Lean", "solve_crowd"]


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


def solve_crowd(
    space: Crowd, start: Floats | None = None, *, window: Window | None = None, max_iter: int = MAX_ROUNDS
) -> Outcome:
    """`engines.rounds.solve_crowd`, compiled."""
    k, K = space.k, len(space.G)
    margins, state, numbers = np.empty(K), np.zeros((3, K)), np.empty(5)
    margins[:k], margins[k], margins[k + 1 :] = space.margins[:k], -math.inf, space.margins[k:]
    if start is not None:
        state[0, :k], state[0, k + 1 :] = start[:k], start[k:]
    limits = crowd.FEW, crowd.SHARE, min(max_iter, MAX_ROUNDS)
    goal = np.array(window or (), dtype=np.float64)
    G = np.ascontiguousarray(space.G)
    compiled().solve_crowd(G, k, margins, space.size, space.lam, goal, *limits, start is not None, state, numbers)
    lam, p_target, loss, rounds, settled = numbers.tolist()
    outcome = space.at(lam).end(state, p_target, loss, bool(settled), window, history=(), n_iter=int(rounds))
    if not outcome.converged and max_iter >= MAX_ROUNDS:
        return crowd.solve_crowd(space, start, window=window, max_iter=max_iter)
    return outcome
