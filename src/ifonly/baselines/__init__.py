"""Methods to compare with, each to its own description and as fast as NumPy lets it be.

All take ``(model, source, k, lam)`` and give a `Run`; `METHODS` has those of the paper's figure 1 under its names, each with
the line search that the paper used for it.
"""

from collections.abc import Callable

from ifonly.baselines.adapters import clarabel, scipy_minimize
from ifonly.baselines.bfgs import bfgs
from ifonly.baselines.conjugate import conjugate_gradient
from ifonly.baselines.gradient import gradient_descent
from ifonly.baselines.lbfgs import lbfgs
from ifonly.baselines.linesearch import Backtracking, Constant, LineSearch, StrongWolfe
from ifonly.baselines.newton import feature_newton
from ifonly.baselines.protocol import Run

__all__ = [
    "METHODS",
    "Backtracking",
    "Constant",
    "LineSearch",
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

METHODS: dict[str, Callable[..., Run]] = {
    "Newton": feature_newton,
    "GD": gradient_descent,
    "CG": conjugate_gradient,
    "BFGS": bfgs,
    "L-BFGS": lbfgs,
}
