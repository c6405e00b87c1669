"""What an answer is worth: bounds from class space, with an allowance for every rounding on the way.

E is λ-strongly convex, so at any x (and the duality gap at x is exactly the first, see docs/math.md)

    E(x) − E* ≤ ‖∇E(x)‖²/(2λ),        ‖x − x*‖ ≤ ‖∇E(x)‖/λ.

In class space ‖∇E‖ costs O(K²). But the x that the user gets is rounded, and so were the margins: so what is reported as
``grad_norm`` bounds the gradient of the exact E at that very x, from

    e    ≥ ‖rounded x − x‖                         u(K + 4)·norm
    δs   ≥ |computed margin − exact margin|        2γ·terms + 2u·max|s̄|
    δx   ≥ |Ā(rounded x − x)|                      u(K + 4)·min(2·terms, max‖ā_j‖·norm)
    ‖∇E‖ ≤ computed + Σp_j‖ā_j‖·(2δs + 2δx + u(K + 8)) + λe

with u the unit roundoff and γ the relative error of a D-term sum. ``norm`` bounds ‖x̄‖ plus the summed length of the terms
that the change is made of, rows of the basis (its *reach*); ``terms`` bounds Σ|a_jd x_d| + |b_j| over both, whatever it is that
rows have in common: it cancels in a margin, but not in the logits of whoever evaluates the answer. A change −Āᵀq/λ is no longer
than max‖ā_j‖·Σq/λ. Where the user's units have another zero than the classifier's, its distance is in all of them. Nothing here
costs a pass over A but the first time.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.coordinates import Basis, Floats, Point, Space
from ifonly.model import Model
from ifonly.model.numerics import EPS, blocks, norms, summation_error
from ifonly.rows.sources import Sizes

__all__ = ["Rounding"]

UNIT = 0.5 * EPS


class Lengths(NamedTuple):
    """How long rows are, for one target."""

    span: float  # max‖ā_j‖
    unit: Sizes  # the reach of a change with Σ|q|/λ = 1
    columns: Floats  # Σ_d |a_jd|·|basis_id|, at most, of each row i of the basis


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
        Of the sources, with b among the terms.
    coarse : float
        How many times more coarsely the user's estimator rounds.
    lengths : Lengths or None
        Those of a target; without, rows of A are taken to be as different as they can be.

    """

    gamma: float
    row_norm: float
    n_classes: int
    sizes: Sizes
    coarse: float = 1.0
    lengths: Lengths | None = None

    @classmethod
    def of(cls, model: Model, sizes: Sizes, k: int | None = None) -> "Rounding":
        """For sources of these sizes, and a class index."""
        K, D = model.A.shape
        sizes = Sizes(sizes.norm, sizes.terms + _kept(model, "largest b", lambda: float(np.abs(model.b).max())))
        lengths = None if k is None else _kept(model, f"lengths {k}", lambda: _lengths(model, k))
        return cls(summation_error(D + K), model.row_norm, K, sizes, model.coarse, lengths)

    def reach(self, space: Space, point: Point) -> Sizes:
        """Of the change that a point makes."""
        size = np.abs(point.at)
        if self.lengths is not None and isinstance(space, Basis):
            return Sizes(float(np.add.reduce(size)), float(size.dot(self.lengths.columns)))
        return self.reach_of(float(np.add.reduce(size)) / space.lam)

    def reach_of(self, change: Any) -> Sizes:
        """Of a change ``−Āᵀq/λ`` with this Σ|q|/λ, or of many."""
        if self.lengths is None:
            unit = Sizes(2 * self.row_norm, 2 * self.row_norm**2)
        else:
            unit = self.lengths.unit
        return Sizes(unit.norm * change, unit.terms * change)

    def of_margins(self, size: Any, reach: Sizes) -> Any:
        """``δs``: how far a computed margin can be from the exact one; ``size`` is max|s̄|."""
        return 2 * self.gamma * (self.sizes.terms + reach.terms) + 2 * UNIT * size

    def of_x(self, reach: Sizes) -> Any:
        """``δx``: how far rounding x moves a margin."""
        span = 2 * self.row_norm if self.lengths is None else self.lengths.span
        moved = (_least(2 * part.terms, span * part.norm) for part in (self.sizes, reach))
        return UNIT * (self.n_classes + 4) * sum(moved)

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
        rounding = self.of_gradient(float(point.p @ lengths), space.size, self.reach(space, point), space.lam)
        return float(space.grad_bound(point, lengths) + rounding)


def _lengths(model: Model, k: int) -> Lengths:
    """Those of class index ``k``."""
    span = float(model.rival_lengths(k).max())
    made, columns = _kept(model, "basis", lambda: _basis_sizes(model))
    # Coefficients of the basis are −q and Σq, of the one row of two classes ±q.
    made *= 1 if model.n_classes == 2 else 2
    return Lengths(span, Sizes(made, model.row_norm * span), columns)


def _basis_sizes(model: Model) -> tuple[float, Floats]:
    """The longest row of the basis, and `Lengths.columns`."""
    found = [(norms(rows), np.abs(rows) @ model.column_sizes) for _, rows in blocks(model.basis)]
    lengths, columns = (np.concatenate(part) for part in zip(*found, strict=True))
    return float(lengths.max()), np.minimum(columns, model.row_norm * lengths)


def _kept(model: Model, what: str, make: Any) -> Any:
    """What is worked out once for a model."""
    found = model.memo.get(what)
    if found is None:
        found = model.memo[what] = make()
    return found


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, float) else np.minimum(a, b)
