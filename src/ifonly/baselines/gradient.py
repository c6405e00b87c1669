"""Gradient descent: d = −∇E.

An iteration costs one product with A and one with Aᵀ, whatever the line search tries (`objective`). The paper found the strong
Wolfe conditions best here (figure 5): a good step may be well beyond 1. The direction has no length of its own, so the
first trial is what the last step suggests.
"""

from numpy.typing import ArrayLike

from ifonly.baselines.linesearch import LineSearch, StrongWolfe
from ifonly.baselines.objective import Floats, Objective, Point
from ifonly.baselines.protocol import MAX_ITER, TOL, Limits, Run, descend
from ifonly.model import Model

__all__ = ["downhill", "gradient_descent"]

LINE_SEARCH = StrongWolfe(first=None)  # the paper's, in figure 1


def downhill(point: Point) -> Floats:
    """−∇E."""
    return -point.gradient


def gradient_descent(
    model: Model,
    source: ArrayLike,
    k: int,
    lam: float,
    *,
    start: ArrayLike | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    max_seconds: float | None = None,
    line_search: LineSearch = LINE_SEARCH,
) -> Run:
    """Minimise E by gradient descent; parameters as of `ifonly.baselines.feature_newton`."""
    objective = Objective(model, source, k, lam)
    limits = Limits(start, tol, max_iter, max_seconds)
    return descend("GD", objective, downhill, line_search, limits)
