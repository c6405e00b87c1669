"""Figure 5: gradient descent with three line searches, on a problem of the largest data set with λ = 1e-3.

As in the paper until ‖∇E‖ ≤ 1e-7 or 1000 iterations; Newton's method and `ifonly` are drawn for comparison.
"""

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from experiments import curves
from experiments.baselines import Backtracking, Constant, feature_newton, gradient_descent
from experiments.contest import OURS
from experiments.datasets import load
from experiments.problems import example
from experiments.store import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, LAM, TOL = "DeepFeat320", 1e-3, 1e-7
SEARCHES = {"GD, Wolfe": gradient_descent.line_search, "GD, backtracking": Backtracking(), "GD, constant 1/L": Constant()}
LOOKS = {
    "GD, Wolfe": ("#E69F00", "s", "-"),
    "GD, backtracking": ("#E69F00", "s", (0, (4, 1.5))),
    "GD, constant 1/L": ("#E69F00", "s", (0, (1, 1.2))),
}
METHODS = (*SEARCHES, "Newton", OURS)
NOTE = "iterate 1 is the start; of long curves not every iterate is kept"


def measure(*, full: bool) -> list[Row]:
    """One row per method and iterate."""
    dataset, problem = load(NAME), example(NAME)._replace(lam=LAM)
    where = dataset.model, problem.source, problem.k, LAM
    calls = {name: partial(gradient_descent, *where, tol=TOL, line_search=search) for name, search in SEARCHES.items()}
    calls["Newton"] = partial(feature_newton, *where, tol=TOL)
    return curves.tidy(dataset, problem, curves.of_runs(calls) | {OURS: curves.of_ours(dataset, problem, TOL)})


def draw(frame: pd.DataFrame) -> "Figure":
    """E, ‖∇E‖ and E − E* in columns; iterations above, seconds below."""
    return curves.draw_wide(frame, [NAME], METHODS, LOOKS)
