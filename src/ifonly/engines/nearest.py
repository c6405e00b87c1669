"""Which other class is nearest.

Solving for all K − 1 of them would do, but a rival taken alone gives a lower bound in closed form, and the classes are tried in
the order of their bounds until the next bound is no better than the best answer: usually after one or two.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.class_space import ClassProblem, Solution
from ifonly.engines.closed_form import logistic_root, phi
from ifonly.engines.coordinates import Floats
from ifonly.engines.probability import Goal, needed_logit
from ifonly.model import Model
from ifonly.rows.sources import NOWHERE, Sizes

__all__ = ["BOUNDING", "bounds_by_few", "nearest_class"]

BOUNDING = 8  # strong rivals that bound how far every other class is, where there are very many
LOOSE = 1e-7  # by as much may a length be off that was had by subtraction


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
    classes = np.delete(np.arange(model.n_classes), now) if among is None else among
    if model.crowded:
        logits = z + model.b
        strong = np.argpartition(logits, -BOUNDING)[-BOUNDING:]
        G = model.rows_gram
        squares = np.diagonal(G)[:, None] - 2 * G[:, strong] + np.diagonal(G)[strong]
        bounds = bounds_by_few(model, logits, strong, squares, lam=lam, prob=prob)[classes].tolist()
    else:
        problems = (ClassProblem(model, z, sizes, k) for k in classes.tolist())
        bounds = [_least_objective(p, now, lam) if lam is not None else _least_distance(p, prob) for p in problems]
    best: tuple[float, int, Solution] | None = None
    for i in np.argsort(bounds, kind="stable").tolist():
        if best is not None and bounds[i] >= best[0]:
            break
        problem = ClassProblem(model, z, sizes, int(classes[i]))
        solution = solve(problem)
        value = solution.objective if lam is not None else solution.distance
        if not solution.status.ok:
            value = np.inf  # a class that cannot be reached is nearest only if none can
        if best is None or value < best[0]:
            best = value, problem.k, solution
    assert best is not None
    return best[1], best[2]


def bounds_by_few(
    model: Model, logits: Floats, strong: NDArray[np.intp], squares: Floats, *, lam: float | None, prob: float | None
) -> Floats:
    """Lower bounds on the distance (``prob``) or on E (``lam``) for all K classes, from a few strong rivals, each alone.

    ``squares`` (K, n) are the squared distances of all rows from those of the strong ones.
    """
    lengths = np.sqrt(np.maximum(squares, 0.0)) * (1 + LOOSE) + LOOSE * model.row_norm  # rounded up, for lower bounds
    margins = logits[strong] - logits[:, None]
    if lam is None:
        assert prob is not None
        bounds = np.maximum(margins - float(needed_logit(prob, model)), 0.0) / np.maximum(lengths, 1e-300)
    else:
        h = np.maximum(lengths**2 / lam, 1e-300)
        q = phi(h.ravel(), -margins.ravel()).reshape(h.shape)
        bounds = 0.5 * h * q * q + np.logaddexp(0.0, margins - h * q)
    bounds[strong, np.arange(len(strong))] = 0.0  # no class is its own rival
    return bounds.max(axis=1)


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
