"""L-BFGS: the BFGS direction from the last m pairs alone, by the two-loop recursion.

With sᵢ = xᵢ₊₁ − xᵢ, yᵢ = ∇Eᵢ₊₁ − ∇Eᵢ and ρᵢ = 1/yᵢᵀsᵢ, d = −Hg for the H that m BFGS updates make of γI, γ = sᵀy/yᵀy of the
newest pair (algorithm 7.4 of Nocedal and Wright, eq. 7.20). E is strongly convex, so that sᵀy ≥ λ‖s‖² > 0 and every pair may be
used, also after a mere backtracking. The paper found m = 4 best.

An iteration costs one product with A and one with Aᵀ, and 4m + O(1) passes over vectors of D.
"""

from collections import deque

from experiments.baselines.linesearch import Backtracking
from experiments.baselines.objective import Floats, Point, daxpy
from experiments.baselines.protocol import Method

__all__ = ["LimitedDirection", "lbfgs"]


class LimitedDirection:
    """L-BFGS directions, one iterate after the other."""

    def __init__(self, m: int) -> None:
        self.pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=m)  # s, y, sᵀy; the newest last
        self.last: Point | None = None

    def __call__(self, point: Point) -> Floats:
        """The direction at the next iterate."""
        if self.last is not None:
            s, y = point.u - self.last.u, point.gradient - self.last.gradient
            sy = float(s @ y)
            if sy > 0:  # as it is but for rounding
                self.pairs.append((s, y, sy))
        self.last = point
        d = -point.gradient
        alphas = []
        for s, y, sy in reversed(self.pairs):
            alphas.append(float(s @ d) / sy)
            daxpy(y, d, a=-alphas[-1])
        if self.pairs:
            _, y, sy = self.pairs[-1]
            d *= sy / float(y @ y)
        for (s, y, sy), alpha in zip(self.pairs, reversed(alphas), strict=True):
            daxpy(s, d, a=alpha - float(y @ d) / sy)
        return d


lbfgs = Method("L-BFGS", lambda _, m=4: LimitedDirection(m), Backtracking())
