"""One inverse problem with a cost and limits in its textbook form: D-dimensional, slow and obvious, whatever solved it.

All points are in the user's units, and Δ = x − x̄. With Q = diag(c²), or the matrix of the cost, and ‖Δ‖²_Q = ΔᵀQΔ,

    min over x of  E(x) = (λ/2)‖Δ‖²_Q + ω Σ_d μ_d c_d|Δ_d| − ln p_k(x)    within  lo ≤ x ≤ hi,   R Δ ≤ r  (= for some rows).

The rows R are, in this order: the linear rules; one row for each rival where a margin is asked for, s_j(x) ≤ −margin; and
Σx = 1 for each group of one-hot columns. A rule that is an equation is kept up to σ (`Limits.spare`, 0 for other rows). ω is 1
where λ was given, λ where a probability was asked for; with a margin E is the cost alone (`goals.Weights`). Whole numbers,
grids and "at most so many changes" are left out here: a bound without them is a bound with them too.

**The bound.** −ln p_k(x) = max over q of q·s(x) + H(q), with the rivals' margins s(x) = s̄ + SΔ, q ≥ 0 over all K classes with
Σq = 1, and the entropy H. So for any such q, and any ν (≥ 0 but for equations),

    L(x) = (λ/2)‖Δ‖²_Q + ω Σμc|Δ| + q·s(x) + H(q) + ν·(RΔ − r) − |ν|·σ  ≤  E(x)          wherever the limits hold.

L is convex. At any x in the box let g = λQΔ + Sᵀq + Rᵀν, and let ξ_d be a number in

    g_d + ω μ_d c_d·∂|Δ_d| + N_d,        N_d = (−∞, 0] where x_d = lo_d,  [0, ∞) where x_d = hi_d,  {0} between.

Then L(y) ≥ L(x) + ξ·(y − x) + (λ/2)‖y − x‖²_Q for every y in the box, because η·(y − x) ≤ 0 for η in N. The right-hand side is
least at y = x − Q⁻¹ξ/λ, and so

    E* ≥ L(x) − ‖ξ‖²_{Q⁻¹}/(2λ)          for every x in the box, q and ν: the dual bound.

The best ξ is the shortest: without a matrix, the ξ_d nearest to 0. Bounds and ℓ1 terms need no multipliers of their own, not
even with a matrix: the choice of ξ makes them.

**The certificate.** With q = p(x), L(x) = E(x) − ν·(r − RΔ) − |ν|·σ, so that

    E(x) − E* ≤ gap = ‖ξ‖²_{Q⁻¹}/(2λ) + ν·(r − RΔ) + |ν|·σ,        ‖x − x*‖_Q ≤ √(2·gap/λ),

the second because E grows at least as (λ/2)‖x − x*‖²_Q from its optimum. With a probability τ, every x' that reaches it has
−ln p_k(x') ≤ −ln τ, and so λ·cost(x') ≥ E* + ln τ, which is cost(x') ≥ cost(x) − (gap + ln p_k(x) − ln τ)/λ.

**Rounding.** γ(n) is the relative error of a sum of n products (`numerics.summation_error`), ε the machine epsilon. The numbers
computed here differ from those of exact arithmetic on the same floats by at most

    a difference of logits   4(γ(D + 2)·Σ_d max_j|a_jd||x'_d| + ε max|b|) =: δ        x' is x in the classifier's units
    a probability            p_j·(2δ + (K + 8)ε)
    what a row leaves        γ(D)·(|C||x| + |c|) for a rule, δ for a margin, γ(D)·(Σ|x| + 1) for a group
    g_d                      λγ(D + 2)(|Q||Δ|)_d + (2δ + (K + 8)ε + γ(K + 3))(|S|ᵀq)_d + γ(m + 3)(|R|ᵀ|ν|)_d + 2ε ωμ_d c_d

(a difference of two floats, as S and R have them, is rounded relative to itself, however much of the two cancels).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.model import Model
from ifonly.model.numerics import EPS, Flags, Floats, Indices, summation_error
from ifonly.problem.conditions import Conditions
from ifonly.problem.free import Certificate
from ifonly.problem.goals import Weights, lead, probabilities
from ifonly.problem.limits import FAR, FELT
from ifonly.problem.status import LEAST_VALUE, REL_GAP

__all__ = ["LimitedProblem"]

SWEEPS = 20  # of coordinate descent on a matrix; what they leave makes the dual bound lower, never wrong
SETTLED = 1e-9  # relative: a sweep that changes no more is the last


@dataclass(frozen=True, eq=False)
class LimitedProblem:
    """What can be said of points, multipliers and bounds for one source and one target under `Conditions`."""

    conditions: Conditions
    source: Floats  # x̄ (D,), in the user's units
    k: int  # the class's index

    # ---- the data ----

    @property
    def model(self) -> Model:
        """The classifier."""
        return self.conditions.model

    @cached_property
    def box(self) -> tuple[Floats, Floats]:
        """``lo`` and ``hi`` for this source: bounds, directions and what is frozen; grids rounded inwards."""
        return self.conditions.limits.box(self.source)

    @cached_property
    def rivals(self) -> Indices:
        """The other classes."""
        return np.delete(np.arange(self.model.n_classes), self.k)

    @cached_property
    def away(self) -> Floats:
        """The rivals' rows less the target's, in the classifier's units."""
        A = self.model.weights(slice(None))
        return A[self.rivals] - A[self.k]

    @cached_property
    def slopes(self) -> Floats:
        """S, what a unit of the user's adds to the margins."""
        return self.away if self.model.scaling is None else self.away / self.model.scaling.scale

    @cached_property
    def far(self) -> Floats:
        """How far a feature without bounds is thought to go: until scores have moved by `FAR`, or costs if they do not."""
        steep = np.abs(self.slopes).max(axis=0, initial=0.0)
        return FAR / np.where(steep > 0, steep, self.conditions.per_unit)

    def beyond(self, u: Floats, lo: Floats, hi: Floats) -> Flags:
        """Where u pulls to a bound that is farther than that from the nearest point, or none."""
        nearest = np.clip(self.source, lo, hi)
        return ((u > 0) & (nearest - lo > self.far)) | ((u < 0) & (hi - nearest > self.far))

    def ends(self, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
        """Bounds; where there are none, or only ones at which the rounding of multipliers is felt, as far as is thought."""
        nearest, endless = np.clip(self.source, lo, hi), FELT * self.far
        low = np.where(nearest - lo > endless, nearest - self.far, lo)
        return low, np.where(hi - nearest > endless, nearest + self.far, hi)

    @cached_property
    def rows(self) -> tuple[Floats, Flags]:
        """R, and which rows are equations."""
        limits, D = self.conditions.limits, self.model.n_features
        groups = np.zeros((len(limits.groups), D))
        for row, group in zip(groups, limits.groups, strict=True):
            row[group] = 1.0
        S = self.slopes[:0] if self.conditions.margin is None else self.slopes
        equal = np.concatenate([limits.equal, np.zeros(len(S), dtype=bool), np.ones(len(groups), dtype=bool)])
        return np.concatenate([limits.C, S, groups]), equal

    def left(self, x: Floats) -> tuple[Floats, Floats]:
        """What the rows leave at x, r − RΔ; and how much rounding there can be in it, with what equations may be missed by."""
        limits, margin, D = self.conditions.limits, self.conditions.margin, len(x)
        rules, rules_size = limits.rest - limits.C @ x, np.abs(limits.C) @ np.abs(x) + np.abs(limits.rest)
        s = np.zeros(0) if margin is None else -margin - self.margins(x)
        groups = np.array([1.0 - x[group].sum() for group in limits.groups])
        groups_size = np.array([1.0 + np.abs(x[group]).sum() for group in limits.groups])
        gamma = summation_error(D)
        error = [gamma * rules_size + limits.spare(self.source), self.logit_error(x) + EPS * np.abs(s), gamma * groups_size]
        return np.concatenate([rules, s, groups]), np.concatenate(error)

    def multipliers(self, given: Floats | None) -> Floats:
        """ν of the rows R from those of an answer: zero where none was given, and no negative ones but of equations.

        Where the cost has a matrix, answers may list multipliers of bounds and ℓ1 terms after these; they are not needed.
        """
        _, equal = self.rows
        nu = np.zeros(len(equal))
        if given is not None:
            some = np.asarray(given, dtype=np.float64)[: len(nu)]
            nu[: len(some)] = some
        return np.where(equal, nu, np.maximum(nu, 0.0))

    # ---- what a point is and costs ----

    def margins(self, x: Floats) -> Floats:
        """s(x), by how much each rival is ahead of the target."""
        z = self.model.scores(x)
        return z[self.rivals] - z[self.k]

    def lead(self, x: Floats) -> float:
        """How far the target's score is ahead of every other."""
        return lead(self.model.scores(x), self.k)

    def proba(self, x: Floats) -> tuple[Floats, float]:
        """All K probabilities, and −ln p_k to full relative precision."""
        return probabilities(self.model.scores(x), self.k)

    def cost_of(self, x: Floats) -> tuple[float, float]:
        """The distance ‖Δ‖_Q and the cost ½‖Δ‖²_Q + Σμc|Δ|."""
        change, Q, c = x - self.source, self.conditions.matrix, self.conditions.per_unit
        square = float(np.square(c * change).sum()) if Q is None else max(float(change @ Q @ change), 0.0)
        return math.sqrt(square), 0.5 * square + self.sparse(change)

    @cached_property
    def _speck(self) -> float:
        """What it costs to move every feature by some of its roundings, as it may take to keep rules in floating point."""
        return self.cost_of(self.source + 256 * EPS * np.abs(self.source))[1]

    def relative_to(self, value: float, *, weighed: bool) -> float:
        """What the gap of a value is relative to: no less than rounding leaves of it; ``weighed``: with λ, −ln p is in it."""
        return max(abs(value), LEAST_VALUE) if weighed else max(value, self._speck / REL_GAP)

    def sparse(self, change: Floats) -> float:
        """Σμc|Δ|."""
        return float(self.conditions.mu @ np.abs(self.conditions.per_unit * change))

    def objective(self, x: Floats, weights: Weights) -> float:
        """E(x)."""
        distance, _ = self.cost_of(x)
        sparse = weights.l1 * self.sparse(x - self.source)
        return 0.5 * weights.lam * distance**2 + sparse + (self.proba(x)[1] if weights.loss else 0.0)

    def broken(self, x: Floats) -> str | None:
        """The first limit that x breaks, in words; exact comparisons, but for the rounding of rules' terms."""
        conditions = self.conditions
        found = conditions.limits.broken(self.source, x)
        if found is not None:
            return f"a limit is broken: {found}"
        if conditions.max_changes is not None:
            n = conditions.n_changes(x != self.source)
            if n > conditions.max_changes:
                return f"{n} features change; at most {conditions.max_changes} may"
        return None

    def logit_error(self, x: Floats) -> float:
        """δ: how far a computed difference of logits at x can be from the exact one."""
        model, seen = self.model, self.model.to_classifier(x)
        size = float(model.column_sizes @ np.abs(seen))
        return 4 * (summation_error(len(x) + 2) * size + EPS * float(np.abs(model.b).max()))

    # ---- bounds ----

    def certificate(self, x: Floats, weights: Weights, nu: Floats | None = None, *, sharp: bool = True) -> Certificate:
        """What x, a point within the limits, is worth: bounds on E(x) − E* and on the distance to the optimum.

        With a matrix the best that can be said takes some D³ operations; where that is not to be, it is not as ``sharp``.
        """
        q, _ = self.proba(x)
        multipliers, delta = self.multipliers(nu), self.logit_error(x)
        norm, rounding = self._subgradient(x, q, multipliers, weights, 2 * delta + (len(q) + 8) * EPS, sharp=sharp)
        left, error = self.left(x)
        error = error + summation_error(len(left)) * np.abs(left)
        slack = max(float(multipliers @ left + np.abs(multipliers) @ error), 0.0)
        gap = (norm + rounding) ** 2 / (2 * weights.lam) + slack
        objective, distance, error_bound = self.objective(x, weights), self.cost_of(x)[0], math.sqrt(2 * gap / weights.lam)
        return Certificate(objective, q, distance, norm, delta, rounding, gap, error_bound)

    def _subgradient(
        self, x: Floats, q: Floats, nu: Floats, weights: Weights, of_q: float, *, sharp: bool
    ) -> tuple[float, float]:
        """‖ξ‖ in the norm of Q⁻¹ over the features that can move, and its rounding; ``of_q`` is the relative error of q."""
        (lo, hi), S, (R, _) = self.box, self.slopes, self.rows
        change, Q, c = x - self.source, self.conditions.matrix, self.conditions.per_unit
        rivals = q[self.rivals] if weights.loss else np.zeros(len(S))
        pull = c**2 * change if Q is None else Q @ change
        g = weights.lam * pull + rivals @ S + nu @ R
        bend = weights.l1 * self.conditions.mu * c
        least = np.where(x <= lo, -np.inf, g + np.where(change > 0, bend, -bend))
        most = np.where(x >= hi, np.inf, g + np.where(change < 0, -bend, bend))
        D, K, m = len(x), len(q), len(nu)
        pull_size = np.abs(pull) if Q is None else np.abs(Q) @ np.abs(change)
        slip = weights.lam * summation_error(D + 2) * pull_size + 2 * EPS * bend
        slip += (of_q + summation_error(K + 3)) * (rivals @ np.abs(S)) + summation_error(m + 3) * (np.abs(nu) @ np.abs(R))
        free = lo < hi
        if not free.any():
            return 0.0, 0.0
        if Q is None:
            xi = np.clip(0.0, least, most)
            return float(np.linalg.norm((xi / c)[free])), float(np.linalg.norm((slip / c)[free]))
        unit = np.sqrt(np.diag(Q))[free]  # in these Q has ones on its diagonal, whatever the user's units
        part = Q[np.ix_(free, free)] / np.multiply.outer(unit, unit)
        root, least, most = np.linalg.cholesky(part), least[free] / unit, most[free] / unit
        eigenvalue, xi = self.conditions.cost.eigenvalues[0], np.clip(0.0, least, most)  # no eigenvalue of a part is less
        norm, rounding = _norm(root, xi), float(np.linalg.norm(slip[free] / unit)) / math.sqrt(eigenvalue)
        if norm > rounding and sharp:
            norm = min(norm, _norm(root, _shorter(np.linalg.inv(part), xi, least, most)))
        return norm, rounding + len(part) ** 3 * EPS / eigenvalue * norm  # of a Cholesky factor and of the solution with it


def _norm(root: NDArray[np.floating[Any]], xi: Floats) -> float:
    """√(ξᵀQ⁻¹ξ) for Q = root rootᵀ."""
    return float(np.linalg.norm(np.linalg.solve(root, xi)))


def _shorter(P: NDArray[np.floating[Any]], xi: Floats, least: Floats, most: Floats) -> Floats:
    """A ξ within its ranges with a smaller ξᵀPξ, by coordinate descent."""
    xi, ends = xi.copy(), list(zip(np.diag(P).tolist(), least.tolist(), most.tolist(), strict=True))
    for _ in range(SWEEPS):
        before = xi.copy()
        for d, (own, low, high) in enumerate(ends):
            xi[d] = min(max(float(xi[d]) - float(P[d] @ xi) / own, low), high)
        if np.abs(xi - before).max() <= SETTLED * np.abs(xi).max():
            break
    return xi
