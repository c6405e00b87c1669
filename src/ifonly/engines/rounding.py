"""What an answer is worth: bounds from class space, with an allowance for every rounding on the way.

E is λ-strongly convex, so at any x (and the duality gap at x is exactly the first, see docs/math.md)

    E(x) − E* ≤ ‖∇E(x)‖²/(2λ),        ‖x − x*‖ ≤ ‖∇E(x)‖/λ.

In class space ‖∇E‖ costs O(K²). But the x that the user gets is rounded, and so were the margins: so what is reported as
``grad_norm`` bounds the gradient of the exact E at that very x, from

    e    ≥ ‖rounded x − x‖                         u(K + 4)·norm
    δx   ≥ |Ā(rounded x − x)|                      u(K + 4)·swing
    δs   ≥ |computed margin − exact margin|        2γ·(terms of x̄ + swing of the change) + 2u·max|s̄|
    δz   ≥ |margin of whoever evaluates x − exact| 2γ·terms + 2u·max|s̄|
    ‖∇E‖ ≤ computed + Σp_j‖ā_j‖·(exp(2δs + 2δx) − 1 + u(K + 8)) + λe

with u the unit roundoff and γ the relative error of a D-term sum. ``norm`` bounds ‖x̄‖ plus the summed length of the terms
that the change is made of, rows of the basis; ``terms`` bounds Σ|a_jd x_d| + (u/γ)|b_j| at x; ``swing`` bounds how far they all
move a margin, none of them against another. What the rows of A have in common cancels in margins and is not in the basis, but
it is in the logits of whoever evaluates x. Where the user's units have another zero than the classifier's, its distance is in
all of these. Nothing here costs a pass over A but the first time.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.coordinates import Basis, Floats, Point, Space
from ifonly.model import Model
from ifonly.model.numerics import EPS, blocks, norms, summation_error
from ifonly.problem.goals import coarser, in_logs
from ifonly.rows.sources import Sizes

__all__ = ["Extent", "Lengths", "Rounding"]

UNIT = 0.5 * EPS
MOST_ERROR = 300.0  # of a margin: a p_j that is e³⁰⁰ times as large is larger than any
HALF = 1e-7  # of the terms: by no more is a distance off that is the root of a difference of squares


class Extent(NamedTuple):
    """How large a change is, for what rounding can do to it; see the module."""

    norm: Any
    terms: Any
    swing: Any


class Lengths(NamedTuple):
    """How long rows are, for one target."""

    span: float  # max‖ā_j‖
    unit: Extent  # of a change with Σ|q|/λ = 1
    columns: Floats  # Σ_d |a_jd|·|basis_id|, at most, of each row i of the basis
    bias: float  # max|b_j|

    @classmethod
    def any(cls, row_norm: float) -> "Lengths":
        """For no class in particular: rows of A are taken to be as different as they can be."""
        span = 2 * row_norm
        return cls(span, Extent(span, row_norm * span, span * span), np.zeros(0), 0.0)

    @classmethod
    def of(cls, model: Model, k: int) -> "Lengths":
        """For class index ``k``; what does not depend on it is worked out once for a model."""
        span, key = float(model.rival_lengths(k).max()), "basis lengths"
        longest, columns = model.memo.get(key) or model.memo.setdefault(key, _basis_lengths(model))
        made = longest if model.n_classes == 2 else 2 * longest  # coefficients are −q and Σq; of the one row of two classes ±q
        return cls(span, Extent(made, model.row_norm * span, made * made), columns, float(np.abs(model.b).max()))


def _basis_lengths(model: Model) -> tuple[float, Floats]:
    """The longest row of the basis, and `Lengths.columns`."""
    found = [(norms(rows), np.abs(rows) @ model.column_sizes) for _, rows in blocks(model.basis)]
    lengths, columns = (np.concatenate(part) for part in zip(*found, strict=True))
    return float(lengths.max()), np.minimum(columns, model.row_norm * lengths)


@dataclass(frozen=True, slots=True)
class Rounding:
    """How much rounding there is in the answers for one source, or for many (``sizes`` then holds arrays)."""

    gamma: float  # γ, the relative error of a logit's sum
    row_norm: float  # R, the longest row of A
    n_classes: int  # K
    sizes: Sizes  # of the sources, with b among the terms
    coarse: Any  # how many times more coarsely the user's estimator rounds (of one that works with logarithms, for each row)
    lengths: Lengths

    @classmethod
    def of(cls, model: Model, sizes: Sizes, k: int | None = None, prob: Any = None) -> "Rounding":
        """For sources of these sizes, a class index, and a probability that is wanted (or one for each)."""
        K, D = model.A.shape
        gamma, lengths = summation_error(D + K), Lengths.any(model.row_norm)
        if k is not None:
            key = f"lengths {k}"
            lengths = model.memo.get(key) or model.memo.setdefault(key, Lengths.of(model, k))
            # b is added once, to the sum of the others
            sizes = Sizes(sizes.norm, sizes.terms + lengths.bias * (UNIT / gamma))
        coarse = model.coarse * coarser(prob, in_logs(model, gamma))
        return cls(gamma, model.row_norm, K, sizes, coarse, lengths)

    def extent(self, space: Space, point: Point) -> Extent:
        """Of the change that a point makes."""
        size = np.abs(point.at)
        amount = float(np.add.reduce(size))
        if isinstance(space, Basis):
            terms = float(size.dot(self.lengths.columns))
            return Extent(amount, terms, min(2 * terms, self.lengths.span * amount))
        return self.extent_of(amount / space.lam, space.distance(point))

    def extent_of(self, change: Any, distance: Any = None) -> Extent:
        """Of a change ``−Āᵀq/λ`` with this Σ|q|/λ and, where it is known, of this length; or of many."""
        made = Extent(*(size * change for size in self.lengths.unit))
        # Where rivals pull against each other the change is far shorter than its terms; of its own digits half are certain.
        return made if distance is None else made._replace(terms=self.row_norm * (distance + HALF * made.norm))

    def at(self, distance: float) -> Extent:
        """Of a change of this length that is no sum of rows."""
        terms = self.row_norm * distance
        return Extent(distance, terms, 2 * terms)

    @property
    def _swing(self) -> Any:
        """How far the terms of the source move a margin."""
        terms, length = 2 * self.sizes.terms, self.lengths.span * self.sizes.norm
        return min(terms, length) if isinstance(terms, float) else np.minimum(terms, length)

    def of_logits(self, size: Any, extent: Extent) -> Any:
        """``δz``: how far a margin is from the exact one for whoever evaluates the logits at x."""
        return 2 * self.gamma * (self.sizes.terms + extent.terms) + 2 * UNIT * size

    def of_estimator(self, size: Any, extent: Extent) -> Any:
        """How far a margin can be from ours when the user's own estimator evaluates it at the rounded x: δs + δx + δz.

        One that rounds coarsely does so to its logits and, once, to x; our own margins are in double precision.
        """
        return self.of_source(size) + self.of_change(extent)

    def of_source(self, size: Any) -> Any:
        """The part of `of_estimator` that is there without any change."""
        margins, swing = 2 * self.gamma * self.sizes.terms + 2 * UNIT * size, UNIT * self._swing
        return margins + (self.n_classes + 4) * swing + self.coarse * (margins + swing)

    def of_change(self, extent: Extent) -> Any:
        """The part of `of_estimator` that grows with the change."""
        ours = (2 * self.gamma + UNIT * (self.n_classes + 4)) * extent.swing
        return ours + self.coarse * (2 * self.gamma * extent.terms + UNIT * extent.swing)

    def of_gradient(self, pull: Any, size: Any, extent: Extent, lam: Any) -> Any:
        """What to add to a computed ‖∇E‖ so that it holds at the x that is handed out; ``pull`` is Σp_j‖ā_j‖."""
        e = UNIT * (self.n_classes + 4) * (self.sizes.norm + extent.norm)
        ds = 2 * self.gamma * (self.sizes.terms + extent.swing) + 2 * UNIT * size
        dx = UNIT * (self.n_classes + 4) * (self._swing + extent.swing)
        return pull * (np.expm1(np.minimum(2 * (ds + dx), MOST_ERROR)) + UNIT * (self.n_classes + 8)) + lam * e

    def grad_norm(self, space: Space, point: Point, lengths: Floats) -> float:
        """A bound on ‖∇E‖ at the x that is handed out."""
        rounding = self.of_gradient(float(point.p @ lengths), space.size, self.extent(space, point), space.lam)
        return float(space.grad_bound(point, lengths) + rounding)
