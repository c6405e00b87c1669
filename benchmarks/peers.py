"""What people use today for the same problem: general optimisers with exact gradients, and a modelling language."""

import warnings
from collections.abc import Callable

import cvxpy as cp
import numpy as np
from scipy.optimize import minimize

from ifonly import Model

TOL = 1e-8  # ‖∇E‖, the paper's stopping criterion
MAX_ITER = 1000
TIGHT = 1e-12  # Clarabel's tolerances; its default of 1e-8 leaves a gradient of 1e-6


def scipy_minimise(method: str, model: Model, source: np.ndarray, k: int, lam: float) -> np.ndarray:
    """SciPy's ``L-BFGS-B`` or ``CG`` from x̄, until ‖∇E‖ < 1e-8 or as far as it gets."""
    A, b = model.A, model.b
    norm = np.inf

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal norm
        z = A @ x + b
        z -= z[k]
        top = z.max()
        p = np.exp(z - top)
        total = p.sum()
        p /= total
        p[k] -= 1.0
        step = x - source
        gradient = lam * step + A.T @ p
        norm = np.sqrt(gradient @ gradient)
        return 0.5 * lam * (step @ step) + top + np.log(total), gradient

    def stop(intermediate_result: object) -> None:
        if norm < TOL:
            raise StopIteration

    none = {"gtol": 0.0, "maxiter": MAX_ITER} | ({"ftol": 0.0, "maxfun": 10 * MAX_ITER} if method == "L-BFGS-B" else {})
    return minimize(value_and_gradient, source, jac=True, method=method, callback=stop, options=none).x


def conic(model: Model) -> Callable[[np.ndarray, int, float], np.ndarray]:
    """cvxpy with Clarabel; the problem is compiled once and has source, target and λ as parameters."""
    D = model.n_features
    x = cp.Variable(D)
    root_lam_source, root_lam, row = cp.Parameter(D), cp.Parameter(nonneg=True), cp.Parameter(D)
    logits = model.A @ x + model.b
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(root_lam * x - root_lam_source) + cp.log_sum_exp(logits) - row @ x))

    def solve(source: np.ndarray, k: int, lam: float) -> np.ndarray:
        root_lam.value, row.value = np.sqrt(lam), model.A[k]
        root_lam_source.value = root_lam.value * source
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate": it went as far as it could
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=TIGHT, tol_gap_rel=TIGHT, tol_feas=TIGHT)
        return x.value

    return solve
