"""Figure 4: iterations of Newton's method against λ, and the runtime of a path of 100 λ with and without warm start.

Beside the paper's two: `ifonly.path`, once with all 100 answers made in D dimensions and once as it returns them, as K
numbers each (the D-dimensional answers are then made when they are read).
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import ifonly
from experiments import style
from experiments.baselines import feature_newton
from experiments.contest import TOL, in_turn
from experiments.datasets import SOFTMAX, Dataset, load
from experiments.problems import N_PROBLEMS, Problem, problems
from experiments.store import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAMS = np.geomspace(1e2, 1e-4, 100)
SOME = {"RCV1": 20, "DeepFeat320": 20}  # problems in ``make paper``; all 50 in ``make paper-full``
COLD, WARM, PATH, LAZY = "Newton", "Newton, warm start", "ifonly", "ifonly, before x is made"
LOOKS = {COLD: ("#0072B2", "", "-"), WARM: ("#0072B2", "", (0, (3, 1.5))), PATH: ("#D55E00", "", "-")}
NOTE = "seconds: of the whole path of 100 λ, the same in each row of a path"


def measure(*, full: bool) -> list[Row]:
    """One row per data set, problem, method and λ."""
    rows = []
    for name in SOFTMAX:
        dataset = load(name)
        our_path(dataset, problems(name)[0], make=False)  # the first call loads the compiled kernel
        for i, problem in enumerate(problems(name)[: N_PROBLEMS if full else SOME.get(name, N_PROBLEMS)]):
            calls: dict[str, Callable[[], list[int]]] = {
                COLD: partial(newton_path, dataset, problem, warm=False),
                WARM: partial(newton_path, dataset, problem, warm=True),
                PATH: partial(our_path, dataset, problem, make=True),
                LAZY: partial(our_path, dataset, problem, make=False),
            }
            for method, (n_iter, seconds, _) in in_turn(calls, rounds=3).items():
                about = {"dataset": name, "problem": i, "method": method, "seconds": seconds}
                rows += [about | {"lam": lam, "n_iter": n} for lam, n in zip(LAMS, n_iter, strict=True)]
    return rows


def newton_path(dataset: Dataset, problem: Problem, *, warm: bool) -> list[int]:
    """The paper's: λ from large to small, each from the last answer or from x̄; iterations."""
    start, n_iter = None, []
    for lam in LAMS.tolist():
        run = feature_newton(dataset.model, problem.source, problem.k, lam, start=start if warm else None, tol=TOL)
        start = run.x
        n_iter.append(run.n_iter)
    return n_iter


def our_path(dataset: Dataset, problem: Problem, *, make: bool) -> list[int]:
    """`ifonly.path`; iterations."""
    path = ifonly.path(dataset.model, problem.source, dataset.model.label(problem.k), lams=LAMS, tol=TOL, backend="cpu")
    if make:
        _ = path.x
    return path.n_iter.tolist()


def draw(frame: pd.DataFrame) -> "Figure":
    """Mean iterations against λ, data sets in columns."""
    figure, axes = style.panels(1, SOFTMAX, height=2.4, sharey=True)
    for axis, name in zip(axes[0], SOFTMAX, strict=True):
        for method in LOOKS:
            mean = frame[(frame.dataset == name) & (frame.method == method)].groupby("lam").n_iter.mean()
            axis.plot(mean.index, mean, **style.line(method, LOOKS))
        style.log_scale(axis, "x")
        axis.set_xlabel("λ")
    axes[0, 0].set_ylabel("iterations (mean)")
    axes[0, 0].set_ylim(bottom=0)
    style.legend(figure, list(LOOKS), LOOKS)
    return figure
