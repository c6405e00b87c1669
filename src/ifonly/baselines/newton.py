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
this ends with no product with A in the loop, which is the method of `ifonly.engines.newton` and no longer the paper's.)
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import get_lapack_funcs

from ifonly.baselines.linesearch import Backtracking, LineSearch
from ifonly.baselines.objective import Floats, Objective, Point
from ifonly.baselines.protocol import MAX_ITER, TOL, Limits, Run, descend
from ifonly.model import Model

__all__ = ["NewtonDirection", "feature_newton"]

LINE_SEARCH = Backtracking()  # the paper's, in figure 1

(dposv,) = get_lapack_funcs(("posv",), dtype=np.float64)


class NewtonDirection:
    """−(∇²E)⁻¹∇E, by theorem 3.6."""

    def __init__(self, objective: Objective) -> None:
        model, k = objective.model, objective.k
        rivals = model.rivals(k)
        self.objective = objective
        self.gram = np.zeros((model.n_classes, model.n_classes))  # ĀĀᵀ, with the target's zero row and column
        self.gram[np.ix_(rivals, rivals)] = model.rival_gram(k)

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


def feature_newton(
    model: Model,
    source: ArrayLike,
    k: int,
    lam: float,
    *,
    start: ArrayLike | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    max_seconds: float | None = None,
    line_search: LineSearch = LINE_SEARCH,
) -> Run:
    """Minimise E by the paper's Newton method in D dimensions.

    Parameters
    ----------
    model : Model
    source : array_like of shape (D,)
        x̄, in the classifier's units.
    k : int
        The wanted class, as a row of ``model.A``.
    lam : float, > 0
    start : array_like of shape (D,), optional
        The first iterate; x̄ if not given.
    tol, max_iter, max_seconds : float, int, float
        Where to stop: at ‖∇E‖ ≤ ``tol``, after so many iterations, after so much time.
    line_search : LineSearch
        How far to go along a direction.

    Returns
    -------
    Run

    Examples
    --------
    >>> model = Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0])
    >>> run = feature_newton(model, [2.0, 0.0], k=1, lam=0.1)
    >>> run.converged, run.n_iter, model.predict(run.x).item()
    (True, 6, 1)

    """
    objective = Objective(model, source, k, lam)
    limits = Limits(start, tol, max_iter, max_seconds)
    return descend("Newton", objective, NewtonDirection(objective), line_search, limits)
