"""The paper's own method: Newton in the D-dimensional feature space, with the direction of theorem 3.6.

    −(∇²E)⁻¹∇E = −λ(∇²E)⁻¹u − H⁻¹v/(1 − vᵀH⁻¹v),                          u = x − x̄,   v = Āᵀp      (eq. 6)
    (∇²E)⁻¹ = H⁻¹ + (H⁻¹v)(H⁻¹v)ᵀ/(1 − vᵀH⁻¹v),                                                     (eq. 5)
    H⁻¹ = (1/λ)(I − Āᵀ(ĀĀᵀ + λ diag(p)⁻¹)⁻¹Ā)

As it stands this divides by probabilities that may underflow, and subtracts numbers that are all but equal: where one rival
has all the probability, vᵀH⁻¹v is all but 1. On MNIST problems as in appendix A that costs nine digits of the first
direction, and E differs by 3e-6 of itself on the way. The same direction without either (1e-11), with r = √p over the rivals,
B = diag(r)Ā, so that v = Bᵀr and H = λI + BᵀB, and M = λI + BBᵀ = λI + diag(r) ĀĀᵀ diag(r): since H⁻¹Bᵀ = BᵀM⁻¹,

    t = M⁻¹r,      H⁻¹v = Bᵀt,      1 − vᵀH⁻¹v = 1 − rᵀ(M − λI)t = pₖ + λrᵀt      (a sum of positive numbers: 1 − rᵀr = pₖ)
    m = M⁻¹Bu,     λH⁻¹u = u − Bᵀm,     λvᵀH⁻¹u = λtᵀBu
    −(∇²E)⁻¹∇E = −u − Bᵀ(t(1 + λtᵀBu)/(pₖ + λrᵀt) − m)

No matrix is inverted: M (K×K, its condition number within theorem 3.3's bound on the Hessian's) is factorised once for both
right-hand sides. ĀĀᵀ is given, as in the paper's set-up. A direction takes one product with A, for Bu, and one with Aᵀ; the
paper counts three. With the gradient and the line search an iteration makes four passes over A, where the paper has five and
one more for each further trial. (Āu is also a difference of margins, and Ād and ‖∇E‖ follow from ĀĀᵀ as well. Who goes on like
this ends with no product with A in the loop, which is the method of `ifonly` and no longer the paper's.)
"""

from functools import lru_cache

import numpy as np
from scipy.linalg import get_lapack_funcs

import ifonly
from experiments.baselines.linesearch import Backtracking
from experiments.baselines.objective import Floats, Objective, Point
from experiments.baselines.protocol import Method

__all__ = ["NewtonDirection", "feature_newton", "rival_gram"]

(dposv,) = get_lapack_funcs(("posv",), dtype=np.float64)


@lru_cache(maxsize=512)
def rival_gram(model: ifonly.Model, k: int) -> Floats:
    """``ĀĀᵀ``, with the target's zero row and column; made once per classifier and target, as in the paper's set-up."""
    difference = model.A - model.A[k]
    return difference @ difference.T


class NewtonDirection:
    """−(∇²E)⁻¹∇E, by theorem 3.6."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.gram = rival_gram(objective.model, objective.k)

    def __call__(self, point: Point) -> Floats:
        """The direction at a point."""
        lam, u, r = self.objective.lam, point.u, np.sqrt(point.q)
        Bu = r * self.objective.rivals_of(u)
        M = r[:, None] * self.gram * r
        M.ravel()[:: len(r) + 1] += lam
        _, solved, info = dposv(M, np.stack([r, Bu], axis=1))
        if info != 0:
            raise np.linalg.LinAlgError(f"the K×K system is not positive definite (dposv: {info})")
        t, m = solved.T
        share = (1 + lam * (t @ Bu)) / (point.p_target + lam * (r @ t))
        direction = self.objective.pull(r * (share * t - m))
        direction += u
        return np.negative(direction, out=direction)


feature_newton = Method("Newton", NewtonDirection, Backtracking())
