"""One row through the single-source solvers."""

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.class_space import ClassProblem, Solution
from ifonly.engines.few_and_rest import solve_crowd
from ifonly.engines.nearest import nearest_class
from ifonly.engines.newton import MAX_ITER, Outcome
from ifonly.engines.probability import reach_probability
from ifonly.model import Model
from ifonly.native.rows import Kernel
from ifonly.problem.question import NEAREST
from ifonly.rows.sources import Sizes

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
    kernel: Kernel | None = None,
    among: NDArray[np.intp] | None = None,
) -> tuple[int, Solution]:
    """Solve one row, for class index ``k`` or the nearest (of ``among``); ``start``, if given, is ``rows @ x₀``.

    With a ``kernel`` the λ form goes through that, where it can, and both forms where there are very many classes.
    """
    crowd = solve_crowd if kernel is None else kernel.crowd

    def solve(problem: ClassProblem) -> Solution:
        if prob is not None:
            return reach_probability(problem, prob, tol=tol, max_iter=max_iter, crowd=crowd)
        assert lam is not None
        if kernel is not None and start is None and model.n_classes > 2 and not (model.dependent or model.crowded):
            solved = kernel.solve_lam(
                model.rival_gram(problem.k), problem.margins[None], np.array([lam]), tol=tol, max_iter=max_iter
            )
            if solved.done[0]:
                space = problem.space(lam)
                found = Outcome(space.evaluate(solved.q[0]), converged=True, precise=tol is None, history=())
                return problem.settle(space, found, tol, int(solved.n_iter[0]))
        at = None
        if start is not None:
            at = problem.margins if np.array_equal(start, z) else model.margins(start, problem.k)
        return problem.solve(lam, start=at, tol=tol, max_iter=max_iter, crowd=crowd)

    if k == NEAREST:
        return nearest_class(model, z, sizes, solve, lam=lam, prob=prob, among=among)
    return k, solve(ClassProblem(model, z, sizes, k))
