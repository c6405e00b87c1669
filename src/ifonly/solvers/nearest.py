"""Which other class is nearest.

Solving for all K − 1 of them would do, but a rival taken alone gives a lower bound in closed form, and the classes are tried in
the order of their bounds until the next bound is no better than the best answer: usually after one or two.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ifonly.model import Model
from ifonly.solvers.classproblem import ClassProblem, Solution
from ifonly.solvers.logistic import logistic_root
from ifonly.solvers.spaces import Floats
from ifonly.solvers.target import Goal
from ifonly.sources import NOWHERE, Sizes

__all__ = ["nearest_class"]


def nearest_class(
    model: Model,
    z: Floats,
    sizes: Sizes,
    solve: Callable[[ClassProblem], Solution],
    *,
    lam: float | None,
    prob: float | None,
    among: NDArray[np.intp] | None = None,
) -> tuple[int, Solution]:
    """The class with the least distance (``prob``) or the least E (``lam``), of a set or else of those not predicted now."""
    now = int(model.best_class(z))
    classes = [k for k in range(model.n_classes) if k != now] if among is None else among.tolist()
    problems = [ClassProblem(model, z, sizes, k) for k in classes]
    bounds = [_least_objective(p, now, lam) if lam is not None else _least_distance(p, prob) for p in problems]
    best: tuple[float, int, Solution] | None = None
    for i in np.argsort(bounds, kind="stable"):
        if best is not None and bounds[i] >= best[0]:
            break
        solution = solve(problems[i])
        value = solution.objective if lam is not None else solution.distance
        if not solution.status.ok:
            value = np.inf  # a class that cannot be reached is nearest only if none can
        if best is None or value < best[0]:
            best = value, problems[i].k, solution
    assert best is not None
    return best[1], best[2]


def _least_distance(problem: ClassProblem, prob: float | None) -> float:
    assert prob is not None
    return float(Goal.of(problem, prob, NOWHERE).distances(problem).max())


def _least_objective(problem: ClassProblem, now: int, lam: float) -> float:
    """E* of the two-class problem with the class that is predicted now: less mass to beat, hence no larger."""
    if problem.k == now:
        return 0.0
    j = int(np.searchsorted(problem.model.rivals(problem.k), now))
    h = float(problem.lengths[j]) ** 2 / lam
    q, _ = logistic_root(h, -float(problem.margins[j]))
    return 0.5 * h * q * q + float(np.logaddexp(0.0, problem.margins[j] - h * q))
