"""BFGS with the inverse Hessian's approximation H kept as a D×D matrix: d = −Hg and, after a step s with change y of ∇E,

    H⁺ = (I − ρsyᵀ)H(I − ρysᵀ) + ρssᵀ = H + swᵀ + wsᵀ,      ρ = 1/yᵀs,   w = ½ρ(1 + ρyᵀHy)s − ρHy

(Nocedal and Wright, eq. 6.17), with H = (sᵀy/yᵀy)I before the first update (their eq. 6.20). E is strongly convex, so that
yᵀs > 0 and H stays positive definite also after a mere backtracking.

D² memory and time is what this method is about, so an iteration touches H twice and only one triangle of it: once for
h = Hg⁺, which gives Hy = h + d (since d = −Hg) and −H⁺g⁺ = −(h + s(wᵀg⁺) + w(sᵀg⁺)), and once to update it in place.
"""

import numpy as np
from scipy.linalg import get_blas_funcs

import ifonly
from experiments.baselines.linesearch import Backtracking
from experiments.baselines.objective import Floats, Objective, Point
from experiments.baselines.protocol import Method

__all__ = ["MAX_BYTES", "DenseDirection", "bfgs"]

dsymv, dsyr2 = get_blas_funcs(("symv", "syr2"), dtype=np.float64)

# The most that H may take. The paper has BFGS for small and medium D only; 2 GiB is D = 16 384.
MAX_BYTES = 2**31


class DenseDirection:
    """BFGS directions, one iterate after the other."""

    def __init__(self) -> None:
        self.H: Floats | None = None  # the upper triangle; None stands for I, before the first step
        self.last: tuple[Point, Floats] | None = None

    def __call__(self, point: Point) -> Floats:
        """The direction at the next iterate."""
        direction = -point.gradient if self.last is None else self._updated(point, *self.last)
        self.last = point, direction
        return direction

    def _updated(self, point: Point, before: Point, d: Floats) -> Floats:
        g, s, y = point.gradient, point.u - before.u, point.gradient - before.gradient
        sy = float(s @ y)
        if self.H is None:
            gamma = sy / float(y @ y)
            self.H = np.zeros((len(g), len(g)), order="F")
            np.fill_diagonal(self.H, gamma)
            h, Hy = gamma * g, gamma * y
        else:
            h = dsymv(1.0, self.H, g)
            Hy = h + d
        w = (0.5 * (1 + float(y @ Hy) / sy) * s - Hy) / sy
        self.H = dsyr2(1.0, s, w, a=self.H, overwrite_a=1)
        return -(h + s * float(w @ g) + w * float(s @ g))


def within_memory(objective: Objective) -> DenseDirection:
    """The directions, where H has room."""
    D = len(objective.source)
    needed = 8 * D**2
    if needed > MAX_BYTES:
        raise ifonly.InputError(
            f"BFGS keeps a D×D matrix: D = {D} needs {needed / 2**30:.1f} GiB, "
            f"and at most {MAX_BYTES / 2**30:.0f} GiB is expected; use lbfgs"
        )
    return DenseDirection()


bfgs = Method("BFGS", within_memory, Backtracking())
