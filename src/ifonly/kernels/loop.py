"""The plain kernel: one row after the other through the single-source solvers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ifonly.model import Model
from ifonly.solvers.classproblem import ClassProblem, Solution
from ifonly.solvers.nearest import nearest_class
from ifonly.solvers.newton import Iteration
from ifonly.solvers.target import reach_probability
from ifonly.status import Status

__all__ = ["NEAREST", "Rows", "solve_rows"]

Floats = NDArray[np.float64]

NEAREST = -1  # in place of a class index: the nearest other class


@dataclass(frozen=True)
class Rows:
    """Answers in class space, one per row: ``x = x̄ + coef @ rows``."""

    coef: Floats
    proba: Floats
    target: NDArray[np.intp]
    lam: Floats
    distance: Floats
    objective: Floats
    grad_norm: Floats
    n_iter: NDArray[np.intp]
    status: NDArray[np.int8]
    history: tuple[tuple[Iteration, ...], ...]

    @classmethod
    def gather(cls, model: Model, targets: NDArray[np.intp], solutions: list[Solution | None]) -> "Rows":
        """From single answers; None, a row that could not be solved, becomes NaN."""
        R, K = model.rows.shape[0], model.n_classes
        nothing = Solution(np.full(R, np.nan), np.full(K, np.nan), np.nan, np.nan, np.nan, np.nan, 0, Status.INVALID)
        all_ = [nothing if s is None else s for s in solutions]
        return cls(
            np.array([s.coef for s in all_]).reshape(-1, R),
            np.array([s.proba for s in all_]).reshape(-1, K),
            targets,
            np.array([s.lam for s in all_], dtype=np.float64),
            np.array([s.distance for s in all_], dtype=np.float64),
            np.array([s.objective for s in all_], dtype=np.float64),
            np.array([s.grad_norm for s in all_], dtype=np.float64),
            np.array([s.n_iter for s in all_], dtype=np.intp),
            np.array([s.status for s in all_], dtype=np.int8),
            tuple(s.history for s in all_),
        )


def solve_rows(
    model: Model,
    Z: Floats,
    source_norms: Floats,
    targets: NDArray[np.intp],
    *,
    lam: Floats | None,
    prob: Floats | None,
    start: Floats | None = None,
    tol: float | None = None,
    max_iter: int,
) -> Rows:
    """Solve every row; ``start``, if given, holds ``x₀ rowsᵀ`` of the points to start from. A row of Z that is not finite
    is INVALID.
    """
    targets = targets.copy()
    solutions: list[Solution | None] = []
    for n in range(len(Z)):
        lam_n = None if lam is None else float(lam[n])
        prob_n = None if prob is None else float(prob[n])

        def solve(problem: ClassProblem, n: int = n, lam: float | None = lam_n, prob: float | None = prob_n) -> Solution:
            if prob is not None:
                return reach_probability(problem, prob, tol=tol, max_iter=max_iter)
            assert lam is not None
            at = None
            if start is not None:
                same = np.array_equal(start[n], Z[n])
                at = problem.margins if same else model.margins(start[n], problem.k)
            return problem.solve(lam, start=at, tol=tol, max_iter=max_iter)

        if not np.isfinite(Z[n]).all():
            solutions.append(None)
        elif targets[n] == NEAREST:
            k, solution = nearest_class(model, Z[n], float(source_norms[n]), solve, lam=lam_n, prob=prob_n)
            targets[n] = k
            solutions.append(solution)
        else:
            solutions.append(solve(ClassProblem(model, Z[n], float(source_norms[n]), int(targets[n]))))
    return Rows.gather(model, targets, solutions)
