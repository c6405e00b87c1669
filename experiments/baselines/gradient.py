"""Gradient descent: d = −∇E.

An iteration costs one product with A and one with Aᵀ, whatever the line search tries (`objective`). The paper found the strong
Wolfe conditions best here (figure 5): a good step may be well beyond 1. The direction has no length of its own, so the
first trial is what the last step suggests.
"""

from experiments.baselines.linesearch import StrongWolfe
from experiments.baselines.objective import Floats, Point
from experiments.baselines.protocol import Method

__all__ = ["downhill", "gradient_descent"]


def downhill(point: Point) -> Floats:
    """−∇E."""
    return -point.gradient


gradient_descent = Method("GD", lambda _: downhill, StrongWolfe(first=None))
