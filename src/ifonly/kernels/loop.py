"""The plain kernel: one row after the other through the single-source solvers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ifonly.model import Model
from ifonly.solvers.classproblem import ClassProblem, Solution
from ifonly.solvers.nearest import nearest_class
from ifonly.solvers.newton import MAX_ITER, Iteration
from ifonly.solvers.target import reach_probability
from ifonly.status import Status

__all__ = ["NEAREST", "Rows", "solve_row", "solve_rows"]

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

    def solution(self, i: int) -> Solution:
        """One of them."""
        return Solution(
            self.coef[i],
            self.proba[i],
            float(self.lam[i]),
            float(self.distance[i]),
            float(self.objective[i]),
            float(self.grad_norm[i]),
            int(self.n_iter[i]),
            Status(int(self.status[i])),
            self.history[i],
        )

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


def solve_row(
    model: Model,
    z: Floats,
    source_norm: float,
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
        return nearest_class(model, z, source_norm, solve, lam=lam, prob=prob)
    return k, solve(ClassProblem(model, z, source_norm, k))


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
    max_iter: int = MAX_ITER,
) -> Rows:
    """`solve_row` for every row; one of Z that is not finite is INVALID."""
    targets = targets.copy()
    solutions: list[Solution | None] = []
    for n, z in enumerate(Z):
        if not np.isfinite(z).all():
            solutions.append(None)
            continue
        targets[n], solution = solve_row(
            model,
            z,
            float(source_norms[n]),
            int(targets[n]),
            lam=None if lam is None else float(lam[n]),
            prob=None if prob is None else float(prob[n]),
            start=None if start is None else start[n],
            tol=tol,
            max_iter=max_iter,
        )
        solutions.append(solution)
    return Rows.gather(model, targets, solutions)
