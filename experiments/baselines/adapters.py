"""Minimisers of other libraries, with the same protocol: SciPy's, and Clarabel by way of cvxpy.

Both are imported when first called; cvxpy and Clarabel are no dependencies of ifonly.
"""

import math
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import ifonly
from experiments.baselines.objective import Floats, Objective, Point
from experiments.baselines.protocol import MAX_ITER, TOL, Run

__all__ = ["clarabel", "scipy_minimize"]

# What switches each method's own stopping rules off, so that the rule is ours: ‖∇E‖ ≤ tol.
OPTIONS: dict[str, dict[str, float]] = {
    "L-BFGS-B": {"gtol": 0.0, "ftol": 0.0, "maxfun": 1e9},
    "CG": {"gtol": 0.0},
    "BFGS": {"gtol": 0.0},
    "Newton-CG": {"xtol": 0.0},
    "trust-ncg": {"gtol": 0.0},
}
SECOND_ORDER = ("Newton-CG", "trust-ncg")

TIGHT = 1e-12  # Clarabel's tolerances; its default of 1e-8 leaves a gradient of 1e-6


def scipy_minimize(
    model: ifonly.Model,
    source: ArrayLike,
    k: int,
    lam: float,
    *,
    method: str = "L-BFGS-B",
    start: ArrayLike | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    max_seconds: float | None = None,
) -> Run:
    """Minimise E with ``scipy.optimize.minimize``; ``k`` is a class index.

    An evaluation is E with ∇E, one product with A and one with Aᵀ; the methods of second order are given products with the
    Hessian, at the same price. SciPy does not tell its steps: ``steps`` are NaN, ``trials`` the evaluations per iteration.
    """
    from scipy.optimize import minimize

    if method not in OPTIONS:
        raise ifonly.InputError(f"method must be one of {', '.join(OPTIONS)}; got {method!r}")
    watched = Watched(Objective(model, source, k, lam), f"SciPy {method}", tol, max_seconds)
    try:
        first = watched.begin(start)
        hessian = {"hessp": watched.hessian_product} if method in SECOND_ORDER else {}
        options = OPTIONS[method] | {"maxiter": max_iter}
        minimize(watched.evaluate, first, jac=True, method=method, callback=watched.note, options=options, **hessian)
    except StopIteration:
        pass
    return watched.finish()


class Watched:
    """E for another library's minimiser, which may ask anything in any order, and the history of the iterates it reports."""

    def __init__(self, objective: Objective, name: str, tol: float, max_seconds: float | None) -> None:
        self.objective = objective
        self.run = Run(name, objective.source, [], [], [], [], [], tol)
        self.limit = np.inf if max_seconds is None else max_seconds
        self.asked = 0  # evaluations since the last iterate

    def begin(self, start: ArrayLike | None) -> Floats:
        """Start the clock; u at the first iterate."""
        u = self.objective.change_to(start)
        self.began = time.perf_counter()
        self.point = self.iterate = self.objective.at(u)
        self._record()
        return u

    def finish(self) -> Run:
        """The history, with the last iterate."""
        return replace(self.run, x=self.objective.source + self.iterate.u)

    def evaluate(self, u: Floats) -> tuple[float, Floats]:
        """E and ∇E at x̄ + u."""
        point = self._at(u)
        self.asked += 1
        return point.value, point.gradient

    def hessian_product(self, u: Floats, direction: Floats) -> Floats:
        """``∇²E d``, eq. (4): one product with A and one with Aᵀ."""
        q, rates = self._at(u).q, self.objective.rivals_of(direction)
        return self.objective.lam * direction + self.objective.pull(q * (rates - float(q @ rates)))

    def note(self, intermediate_result: Any) -> None:
        """Callback of ``minimize`` (which goes by the name of the parameter): a new iterate."""
        self.iterate = self._at(intermediate_result.x)
        self.run.steps.append(math.nan)
        self.run.trials.append(self.asked)
        self.asked = 0
        self._record()

    def _at(self, u: Floats) -> Point:
        if not np.array_equal(u, self.point.u):  # O(D): nothing beside a product with A
            self.point = self.objective.at(u.copy())
        return self.point

    def _record(self) -> None:
        elapsed = time.perf_counter() - self.began
        self.run.objectives.append(self.iterate.value)
        self.run.grad_norms.append(self.iterate.grad_norm)
        self.run.seconds.append(elapsed)
        if self.run.converged or elapsed >= self.limit:
            raise StopIteration


def clarabel(
    model: ifonly.Model,
    source: ArrayLike,
    k: int,
    lam: float,
    *,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    max_seconds: float | None = None,
) -> Run:
    """Minimise E as a cone programme, with Clarabel by way of cvxpy; ``k`` is a class index.

        min (λ/2)‖x − x̄‖² + t − aₖᵀx − bₖ   subject to   Σⱼ exp(zⱼ − t) ≤ 1,   z = Ax + b        (K exponential cones)

    An interior-point method has no iterates of its own to show in x: the history is the start and the end. Only the solver
    is timed, not cvxpy's compilation.
    """
    cp = conic_library()
    objective = Objective(model, source, k, lam)
    x = cp.Variable(model.n_features)
    loss = cp.log_sum_exp(model.A @ x + model.b) - model.A[k] @ x - model.b[k]
    problem = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(x - objective.source) + loss))
    options = {"tol_gap_abs": TIGHT, "tol_gap_rel": TIGHT, "tol_feas": TIGHT, "max_iter": max_iter}
    if max_seconds is not None:
        options["time_limit"] = max_seconds
    data, chain, inverse = problem.get_problem_data(cp.CLARABEL, solver_opts=options)
    began = time.perf_counter()
    answer = chain.solve_via_data(problem, data, solver_opts=options)
    elapsed = time.perf_counter() - began
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": it went as far as it could
        problem.unpack_results(answer, chain, inverse)
    points = [objective.at(u) for u in (objective.change_to(None), objective.change_to(x.value))]
    values, norms = [point.value for point in points], [point.grad_norm for point in points]
    return Run("Clarabel", np.array(x.value), values, norms, [math.nan], [0], [0.0, elapsed], tol)


def conic_library() -> Any:
    """Cvxpy, where it and Clarabel are installed."""
    try:
        import cvxpy
    except ImportError:
        cvxpy = None
    if cvxpy is None or "CLARABEL" not in cvxpy.installed_solvers():
        raise ImportError("clarabel() needs cvxpy and Clarabel: pip install cvxpy clarabel")
    return cvxpy
