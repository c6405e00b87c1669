"""Nonlinear conjugate gradient, Polak–Ribière: with g = ∇E now and g₀, d₀ one iterate ago,

    d = −g + β d₀,      β = max(0, gᵀ(g − g₀)/g₀ᵀg₀)

The maximum restarts the method along −g where β would be negative (PR+, Nocedal and Wright, section 5.2); so does a d along
which E does not fall. An iteration costs one product with A and one with Aᵀ.

The paper runs Rasmussen's ``minimize.m`` here, whose line search asks for strong Wolfe conditions with c₂ = 0.1: conjugate
directions want a step closer to the line's minimum than c₂ = 0.9 gives.
"""

from experiments.baselines.linesearch import StrongWolfe
from experiments.baselines.objective import Floats, Point, daxpy
from experiments.baselines.protocol import Method

__all__ = ["ConjugateDirection", "conjugate_gradient"]


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


conjugate_gradient = Method("CG", lambda _: ConjugateDirection(), StrongWolfe(c2=0.1, first=None))
