"""Methods to compare with, each to its own description and as fast as NumPy lets it be.

All take ``(model, source, k, lam)`` and give a `Run`; `METHODS` has those of the paper's figure 1 under its names, each with
the line search that the paper used for it.

>>> import ifonly
>>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0])
>>> run = feature_newton(model, [2.0, 0.0], k=1, lam=0.1)
>>> run.converged, run.n_iter, model.predict(run.x).item()
(True, 6, 1)
"""

from experiments.baselines.adapters import clarabel, scipy_minimize
from experiments.baselines.bfgs import bfgs
from experiments.baselines.conjugate import conjugate_gradient
from experiments.baselines.gradient import gradient_descent
from experiments.baselines.lbfgs import lbfgs
from experiments.baselines.linesearch import Backtracking, Constant, LineSearch, StrongWolfe
from experiments.baselines.newton import feature_newton
from experiments.baselines.protocol import Method, Run

__all__ = [
    "METHODS",
    "Backtracking",
    "Constant",
    "LineSearch",
    "Method",
    "Run",
    "StrongWolfe",
    "bfgs",
    "clarabel",
    "conjugate_gradient",
    "feature_newton",
    "gradient_descent",
    "lbfgs",
    "scipy_minimize",
]

METHODS = {method.name: method for method in (feature_newton, gradient_descent, conjugate_gradient, bfgs, lbfgs)}
