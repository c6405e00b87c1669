"""What an answer is worth: bounds from class space, with an allowance for every rounding on the way.

E is λ-strongly convex, so at any x (and the duality gap at x is exactly the first, see docs/math.md)

    E(x) − E* ≤ ‖∇E(x)‖²/(2λ),        ‖x − x*‖ ≤ ‖∇E(x)‖/λ.

In class space ‖∇E‖ costs O(K²). But the x that the user gets is rounded, and so were the margins: so what is reported as
``grad_norm`` bounds the gradient of the exact E at that very x, from

    e    ≥ ‖rounded x − x‖                         u(K + 4)·(‖x̄‖ + offset + reach)
    δs   ≥ |computed margin − exact margin|        2γR·(‖x̄‖ + offset + reach) + 2u·max|s̄|
    ‖∇E‖ ≤ computed + Σp_j‖ā_j‖·(2δs + u(K + 8) + 2‖ā‖e) + λe

with u the unit roundoff, γ the relative error of a D-term sum, R the longest row of A, and reach the summed length of the
terms that the change is made of. Every term is bounded by norms alone, so that it costs nothing in D.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.model import Model
from ifonly.numerics import EPS, summation_error
from ifonly.solvers.spaces import Floats, Point, Space

__all__ = ["Rounding"]

UNIT = 0.5 * EPS


@dataclass(frozen=True, slots=True)
class Rounding:
    """How much rounding there is in the answers for one source, or for many (``source_norm`` is then an array).

    Attributes
    ----------
    gamma : float
        γ, the relative error of a logit's sum.
    row_norm : float
        R, the longest row of A.
    source_norm : float or ndarray
        ‖x̄‖ plus the offset of the user's units, if they have any.
    n_classes : int
        K.

    """

    gamma: float
    row_norm: float
    source_norm: Any
    n_classes: int

    @classmethod
    def of(cls, model: Model, source_norm: Any) -> "Rounding":
        """For sources of the given norm (in the classifier's units)."""
        offset = 0.0 if model.scaling is None else 2 * model.scaling.offset
        K, D = model.A.shape
        return cls(summation_error(D + K), model.row_norm, source_norm + offset, K)

    def of_x(self, reach: Any) -> Any:
        """``e``: how far the rounded x can be from the exact combination of rows."""
        return UNIT * (self.n_classes + 4) * (self.source_norm + reach)

    def of_margins(self, margins: Floats, reach: Any) -> Any:
        """``δs``: how far a computed margin can be from the exact one."""
        return 2 * self.gamma * self.row_norm * (self.source_norm + reach) + 2 * UNIT * np.abs(margins).max(axis=-1)

    def of_estimator(self, margins: Floats, lengths: Floats, reach: Any) -> Any:
        """How far a margin can be from ours when the user's own estimator evaluates it at the rounded x."""
        return 2 * self.of_margins(margins, reach) + lengths.max() * self.of_x(reach)

    def of_gradient(self, p: Floats, lengths: Floats, margins: Floats, reach: Any, lam: Any) -> Any:
        """What to add to a computed ‖∇E‖ so that it holds at the x that is handed out."""
        e, ds = self.of_x(reach), self.of_margins(margins, reach)
        weight = p @ lengths
        return weight * (2 * ds + UNIT * (self.n_classes + 8) + 2 * lengths.max() * e) + lam * e

    def grad_norm(self, space: Space, point: Point, lengths: Floats) -> float:
        """A bound on ‖∇E‖ at the x that is handed out; ``lengths`` are the rivals' ‖ā_j‖."""
        reach = space.reach(point, self.row_norm)
        rounding = self.of_gradient(point.p, lengths, space.margins, reach, space.lam)
        return float(space.grad_bound(point, lengths) + rounding)
