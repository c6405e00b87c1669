"""Nonlinear conjugate gradient, Polak–Ribière: with g = ∇E now and g₀, d₀ one iterate ago,

    d = −g + β d₀,      β = max(0, gᵀ(g − g₀)/g₀ᵀg₀)

The maximum restarts the method along −g where β would be negative (PR+, Nocedal and Wright, section 5.2); so does a d along
which E does not fall. An iteration costs one product with A and one with Aᵀ.

The paper runs Rasmussen's ``minimize.m`` here, whose line search asks for strong Wolfe conditions with c₂ = 0.1: conjugate
directions want a step closer to the line's minimum than c₂ = 0.9 gives.
"""

from numpy.typing import ArrayLike

from ifonly.baselines.linesearch import LineSearch, StrongWolfe
from ifonly.baselines.objective import Floats, Objective, Point, daxpy
from ifonly.baselines.protocol import MAX_ITER, TOL, Limits, Run, descend
from ifonly.model import Model

__all__ = ["ConjugateDirection", "conjugate_gradient"]

LINE_SEARCH = StrongWolfe(c2=0.1, first=None)  # the paper's, in figure 1


class ConjugateDirection:
    """Polak–Ribière directions, one iterate after the other."""

    def __init__(self) -> None:
        self.last: tuple[Point, Floats] | None = None

    def __call__(self, point: Point) -> Floats:
        """The direction at the next iterate."""
        g = point.gradient
        direction = -g
        if self.last is not None:
            before, d0 = self.last
            beta = float(g @ (g - before.gradient)) / before.grad_norm**2
            if beta > 0 and beta * float(g @ d0) < point.grad_norm**2:
                daxpy(d0, direction, a=beta)
        self.last = point, direction
        return direction


def conjugate_gradient(
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
    """Minimise E by Polak–Ribière conjugate gradient; parameters as of `ifonly.baselines.feature_newton`."""
    objective = Objective(model, source, k, lam)
    limits = Limits(start, tol, max_iter, max_seconds)
    return descend("CG", objective, ConjugateDirection(), line_search, limits)
