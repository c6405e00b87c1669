"""What an answer is worth: bounds from class space, with an allowance for every rounding on the way.

E is λ-strongly convex, so at any x (and the duality gap at x is exactly the first, see docs/math.md)

    E(x) − E* ≤ ‖∇E(x)‖²/(2λ),        ‖x − x*‖ ≤ ‖∇E(x)‖/λ.

In class space ‖∇E‖ costs O(K²). But the x that the user gets is rounded, and so were the margins: so what is reported as
``grad_norm`` bounds the gradient of the exact E at that very x, from

    e    ≥ ‖rounded x − x‖                         u(K + 4)·norm
    δs   ≥ |computed margin − exact margin|        2γ·terms + 2u·max|s̄|
    δx   ≥ |Ā(rounded x − x)|                      2u(K + 4)·terms
    ‖∇E‖ ≤ computed + Σp_j‖ā_j‖·(2δs + 2δx + u(K + 8)) + λe

with u the unit roundoff and γ the relative error of a D-term sum. ``norm`` bounds ‖x̄‖ plus the summed length of the terms
that the change is made of (its *reach*), ``terms`` bounds Σ|a_jd x_d| over both. Where the user's units have another zero
than the classifier's, its distance is in them too. Nothing here costs a pass over A.
"""

from dataclasses import dataclass
from typing import Any

from ifonly.engines.coordinates import Floats, Point, Space
from ifonly.model import Model
from ifonly.model.numerics import EPS, summation_error
from ifonly.rows.sources import Sizes

__all__ = ["Rounding"]

UNIT = 0.5 * EPS


@dataclass(frozen=True, slots=True)
class Rounding:
    """How much rounding there is in the answers for one source, or for many (``sizes`` then holds arrays).

    Attributes
    ----------
    gamma : float
        γ, the relative error of a logit's sum.
    row_norm : float
        R, the longest row of A.
    n_classes : int
        K.
    sizes : Sizes
        Of the sources.
    coarse : float
        How many times more coarsely the user's estimator rounds.

    """

    gamma: float
    row_norm: float
    n_classes: int
    sizes: Sizes
    coarse: float = 1.0

    @classmethod
    def of(cls, model: Model, sizes: Sizes) -> "Rounding":
        """For sources of these sizes."""
        K, D = model.A.shape
        return cls(summation_error(D + K), model.row_norm, K, sizes, model.coarse)

    def of_margins(self, size: Any, reach: Sizes) -> Any:
        """``δs``: how far a computed margin can be from the exact one; ``size`` is max|s̄|."""
        return 2 * self.gamma * (self.sizes.terms + reach.terms) + 2 * UNIT * size

    def of_x(self, reach: Sizes) -> Any:
        """``δx``: how far rounding x moves a margin."""
        return 2 * UNIT * (self.n_classes + 4) * (self.sizes.terms + reach.terms)

    def of_estimator(self, size: Any, reach: Sizes) -> Any:
        """How far a margin can be from ours when the user's own estimator evaluates it at the rounded x."""
        return self.coarse * (2 * self.of_margins(size, reach) + self.of_x(reach))

    def of_gradient(self, pull: Any, size: Any, reach: Sizes, lam: Any) -> Any:
        """What to add to a computed ‖∇E‖ so that it holds at the x that is handed out; ``pull`` is Σp_j‖ā_j‖."""
        e = UNIT * (self.n_classes + 4) * (self.sizes.norm + reach.norm)
        margin = self.of_margins(size, reach) + self.of_x(reach)
        return pull * (2 * margin + UNIT * (self.n_classes + 8)) + lam * e

    def grad_norm(self, space: Space, point: Point, lengths: Floats) -> float:
        """A bound on ‖∇E‖ at the x that is handed out."""
        reach = space.reach(point, self.row_norm)
        rounding = self.of_gradient(float(point.p @ lengths), space.size, reach, space.lam)
        return float(space.grad_bound(point, lengths) + rounding)
