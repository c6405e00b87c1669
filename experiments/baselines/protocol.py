"""What all methods have in common: problem in; answer and history out; and the loop between.

    1. record E, ‖∇E‖ and the time; stop where ‖∇E‖ ≤ tol (the paper's rule, tol = 1e-8, at most 1000 iterations)
    2. d ← the method's direction at the iterate
    3. α ← the line search's step along d; stop where no step lowers E
    4. x ← x + αd

A method is its directions: a callable that is given the iterates one after the other, answers each with a direction and
remembers of them what it needs. The clock runs from the first evaluation of E; what a method computes once per model and
target (Newton's ĀĀᵀ) is set-up, as in the paper.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import ifonly
from experiments.baselines.linesearch import LineSearch
from experiments.baselines.objective import Floats, Line, Objective, Point

__all__ = ["MAX_ITER", "TOL", "Direction", "Method", "Run"]

TOL = 1e-8
MAX_ITER = 1000

# Margins are carried along from point to point. Their rounding errors add up, slowly; so often they are computed afresh.
REFRESH = 64

RATIO = 10.0  # how much longer than the last step the guess at the next one may be

Direction = Callable[[Point], Floats]


@dataclass(frozen=True)
class Run:
    """The last iterate of a method, and how it got there.

    Attributes
    ----------
    name : str
        The method.
    x : ndarray of shape (D,)
        The last iterate.
    objectives, grad_norms, seconds : list of float
        E, ‖∇E‖ and the time since the start when both were known: one entry per iterate, the first included.
    steps : list of float
        α of each iteration (NaN where a method of another library does not tell).
    trials : list of int
        Evaluations of E in the line search of each iteration.
    tol : float
        The ‖∇E‖ that was asked for.

    """

    name: str
    x: Floats
    objectives: list[float]
    grad_norms: list[float]
    steps: list[float]
    trials: list[int]
    seconds: list[float]
    tol: float = TOL

    @property
    def n_iter(self) -> int:
        """The number of iterations."""
        return len(self.steps)

    @property
    def converged(self) -> bool:
        """Whether ‖∇E‖ came down to ``tol``."""
        return self.grad_norms[-1] <= self.tol

    @property
    def objective(self) -> float:
        """E at the last iterate."""
        return self.objectives[-1]

    @property
    def grad_norm(self) -> float:
        """‖∇E‖ at the last iterate."""
        return self.grad_norms[-1]


@dataclass(frozen=True)
class Method:
    """A minimiser of E: its name, its directions and the line search that the paper used for it in figure 1."""

    name: str
    directions: Callable[..., Direction]  # made of an objective, and of options that this method alone has
    line_search: LineSearch

    def __call__(
        self,
        model: ifonly.Model,
        source: ArrayLike,
        k: int,
        lam: float,
        *,
        start: ArrayLike | None = None,
        tol: float = TOL,
        max_iter: int = MAX_ITER,
        max_seconds: float | None = None,
        line_search: LineSearch | None = None,
        **options: Any,
    ) -> Run:
        """Minimise E.

        Parameters
        ----------
        model : Model
        source : array_like of shape (D,)
            x̄, in the classifier's units.
        k : int
            The wanted class, as a row of ``model.A``.
        lam : float, > 0
        start : array_like of shape (D,), optional
            The first iterate; x̄ if not given.
        tol, max_iter, max_seconds : float, int, float
            Where to stop: at ‖∇E‖ ≤ ``tol``, after so many iterations, after so much time.
        line_search : LineSearch, optional
            How far to go along a direction; the paper's for this method if not given.
        options
            Of the method: ``m`` of L-BFGS.

        """
        objective = Objective(model, source, k, lam)
        direction = self.directions(objective, **options)
        search = self.line_search if line_search is None else line_search
        most_seconds = np.inf if max_seconds is None else max_seconds
        u = objective.change_to(start)
        run = Run(self.name, objective.source, [], [], [], [], [], tol)
        began = time.perf_counter()
        point, slope, guess = objective.at(u), -np.inf, 1.0
        while True:
            # 1. Small enough, or long enough?
            elapsed = time.perf_counter() - began
            run.objectives.append(point.value)
            run.grad_norms.append(point.grad_norm)
            run.seconds.append(elapsed)
            if run.converged or run.n_iter >= max_iter or elapsed >= most_seconds:
                break
            # 2. Direction.
            line = Line(objective, point, direction(point))
            if line.slope >= 0:
                break  # none of descent, in floating point
            # 3. Step.
            if run.steps:
                guess = run.steps[-1] * min(RATIO, slope / line.slope)
            step, trials = search(line, guess)
            if step == 0.0:
                break
            run.steps.append(step)
            run.trials.append(trials)
            # 4. Go there.
            slope = line.slope
            point = line.at(step) if run.n_iter % REFRESH else objective.at(point.u + step * line.direction)
        return replace(run, x=objective.source + point.u)
