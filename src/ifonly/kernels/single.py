"""One row through the single-source solvers."""

import numpy as np
from numpy.typing import NDArray

from ifonly.model import Model
from ifonly.solvers.classproblem import ClassProblem, Solution
from ifonly.solvers.nearest import nearest_class
from ifonly.solvers.newton import MAX_ITER
from ifonly.solvers.target import reach_probability
from ifonly.sources import Sizes
from ifonly.wish import NEAREST

__all__ = ["solve_row"]

Floats = NDArray[np.float64]


def solve_row(
    model: Model,
    z: Floats,
    sizes: Sizes,
    k: int,
    *,
    lam: float | None,
    prob: float | None,
    start: Floats | None = None,
    tol: float | None = None,
    max_iter: int = MAX_ITER,
) -> tuple[int, Solution]:
    """Solve one row, for class index ``k`` or the nearest other; ``start``, if given, is ``rows @ x₀``."""

    def solve(problem: ClassProblem) -> Solution:
        if prob is not None:
            return reach_probability(problem, prob, tol=tol, max_iter=max_iter)
        assert lam is not None
        at = None
        if start is not None:
            at = problem.margins if np.array_equal(start, z) else model.margins(start, problem.k)
        return problem.solve(lam, start=at, tol=tol, max_iter=max_iter)

    if k == NEAREST:
        return nearest_class(model, z, sizes, solve, lam=lam, prob=prob)
    return k, solve(ClassProblem(model, z, sizes, k))
