"""One inverse problem in its textbook form: D-dimensional, slow and obvious. Everything else is tested against it.

    min over x of  E(x) = (λ/2)‖x − x̄‖² − ln p_k(x)                                       (the paper's eq. 2)

Since −ln p_k(x) = max over p in the simplex of pᵀ(Āx + b̄) + H(p), with H the entropy, the dual is

    max over p of  D(p) = pᵀ(Āx̄ + b̄) + H(p) − ‖Āᵀp‖²/(2λ)

and E(x) − D(p(x)) = ‖∇E(x)‖²/(2λ): the duality gap of an x with its own p is the bound from strong convexity.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS, Floats, softmax, summation_error

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

__all__ = ["LEAST_P", "MOST_LOGIT", "Certificate", "Problem"]

LEAST_P = 1e-300  # probabilities below have lost their digits
MOST_LOGIT = 700.0  # whose exponential is a number: an error of so much makes any p of any other


@dataclass(frozen=True)
class Certificate:
    """What is known of a point x, recomputed from the problem's data alone.

    Attributes
    ----------
    objective : float
        E(x).
    proba : ndarray of shape (K,)
        p(x).
    distance : float
        ‖x − x̄‖.
    grad_norm : float
        ‖∇E(x)‖ as computed.
    logit_error, rounding : float
        How much rounding there can be in a difference of logits, and in ``grad_norm``.
    gap : float
        Upper bound on E(x) − E*.
    error_bound : float
        Upper bound on ‖x − x*‖.

    """

    objective: float
    proba: Floats
    distance: float
    grad_norm: float
    logit_error: float
    rounding: float
    gap: float
    error_bound: float


class Problem:
    """``min (λ/2)‖x − x̄‖² − ln p_k(x)`` for one source, one target and one λ, in the space the classifier sees.

    Parameters
    ----------
    model : Model
    source : array_like of shape (D,)
        x̄, in the classifier's units (those of ``model.A``).
    target : label
    lam : float, > 0

    Examples
    --------
    >>> problem = Problem(Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), [0.0, 1.0], target=0, lam=0.5)
    >>> round(problem.objective([0.0, 1.0]), 6)
    1.313262

    """

    def __init__(self, model: Model, source: ArrayLike, target: Hashable, lam: float) -> None:
        self.model = model
        self.source = np.asarray(source, dtype=np.float64)
        self.target = target
        self.k = model.class_index(target)
        self.lam = float(lam)
        if self.source.shape != (model.n_features,):
            raise InputError(f"source must have {model.n_features} features; got an array of shape {self.source.shape}")
        if not 0 < self.lam < np.inf:
            raise InputError(f"lam must be a number > 0; got {lam}")

    def objective(self, x: ArrayLike) -> float:
        """E(x)."""
        return self.model.objective(x, self.source, self.target, self.lam)

    def gradient(self, x: ArrayLike) -> Floats:
        """∇E(x)."""
        return self.model.gradient(x, self.source, self.target, self.lam)

    def hessian(self, x: ArrayLike) -> Floats:
        """∇²E(x) as a D×D array; for large D use :meth:`hessian_operator`."""
        return self.model.hessian(x, self.source, self.target, self.lam)

    def hessian_operator(self, x: ArrayLike) -> "LinearOperator":
        """∇²E(x) as an operator: two products with ``A`` each time it is applied."""
        from scipy.sparse.linalg import LinearOperator

        A, lam = self.model.A, self.lam
        p = softmax(A @ np.asarray(x, dtype=np.float64) + self.model.b)

        class Hessian(LinearOperator):
            def _matvec(self, x: Floats) -> Floats:
                v = x.ravel()
                u = A @ v
                return lam * v + A.T @ (p * (u - p @ u))  # A for Ā: S annihilates what is common to all rows

            _rmatvec = _matvec

        return Hessian(np.float64, (self.model.n_features, self.model.n_features))

    @property
    def lipschitz(self) -> float:
        """``λ + ‖Ā‖²``: bounds the Hessian's eigenvalues everywhere (theorems 3.3, 3.4)."""
        return self.model.lipschitz(self.target, self.lam)

    @property
    def condition_bound(self) -> float:
        """``1 + ‖Ā‖²/λ``: bounds the Hessian's condition number everywhere (theorem 3.3)."""
        return self.model.condition_bound(self.target, self.lam)

    @property
    def n_flat(self) -> int:
        """``D − K + 1`` (if positive): at least this many eigenvalues of the Hessian equal λ, anywhere (theorem 3.3)."""
        return max(self.model.n_features - self.model.n_classes + 1, 0)

    def dual(self, p: ArrayLike) -> float:
        """D(p) for a point of the simplex (all K probabilities): a lower bound on E*."""
        p = np.asarray(p, dtype=np.float64)
        A, b = self.model.A, self.model.b
        margins = (A - A[self.k]) @ self.source + (b - b[self.k])
        pull = p @ (A - A[self.k])
        positive = p[p > 0]
        return float(p @ margins - positive @ np.log(positive) - pull @ pull / (2 * self.lam))

    def certificate(self, x: ArrayLike) -> Certificate:
        """What x is worth: E, ‖∇E‖, and bounds on E(x) − E* and ‖x − x*‖."""
        x = np.asarray(x, dtype=np.float64)
        model, lam = self.model, self.lam
        K, D = model.A.shape
        proba = softmax(model.times(x) + model.b)
        gradient, lengths = lam * (x - self.source), np.empty(K)
        for own, block in model.blocks():
            rows = block - model.weights(self.k)  # what is common to them cancels first
            gradient += proba[own] @ rows
            lengths[own] = np.linalg.norm(rows, axis=1)
        distance = float(np.linalg.norm(x - self.source))
        # Rounding in p, from the logits' sums, and in the K-term sum of the gradient.
        size = float(model.column_sizes @ np.abs(x))
        logit_error = 4 * (summation_error(D) * size + EPS * float(np.abs(model.b).max()))
        pull = float(np.delete(np.maximum(proba, LEAST_P) * lengths, self.k).sum())
        moved = pull * (math.expm1(min(logit_error, MOST_LOGIT)) + (3 * K + 8) * EPS)
        rounding = min(moved, 2 * float(lengths.max())) + 2 * EPS * lam * distance
        grad_norm = float(np.linalg.norm(gradient))
        bound = grad_norm + rounding
        objective, gap = self.objective(x), bound**2 / (2 * lam)
        return Certificate(objective, proba, distance, grad_norm, logit_error, rounding, gap, error_bound=bound / lam)
