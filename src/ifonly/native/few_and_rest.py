"""`engines.rounds` in C++ (few_and_rest.hpp): the same rounds; a problem that does not settle there goes to the original."""

import math

import numpy as np

from ifonly.engines import rounds as crowd
from ifonly.engines.newton import Outcome
from ifonly.engines.rounds import MAX_ROUNDS, Crowd, Floats
from ifonly.engines.windows import Window
from ifonly.native import compiled

__all__ = ["solve_crowd"]


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
