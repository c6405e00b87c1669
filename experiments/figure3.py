"""Figure 3: how many steps the backtracking line search tries per iteration of Newton's method, over the 50 problems."""

from typing import TYPE_CHECKING

import pandas as pd

import ifonly
from experiments import style
from experiments.contest import OURS, solve
from experiments.datasets import SOFTMAX, Dataset, load
from experiments.problems import Problem, problems
from experiments.store import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTE = "trials 1: the first step was taken; ifonly: its NumPy solver, to the last digit, a corrected full step first"
MOST = 8  # trials shown one by one; what is beyond shares the last bar


def measure(*, full: bool) -> list[Row]:
    """One row per data set, method and number of trials."""
    rows = []
    for name in SOFTMAX:
        dataset = load(name)
        trials = {
            "Newton": [n for problem in problems(name) for n in solve("Newton", dataset, problem).trials],
            OURS: [n for problem in problems(name) for n in ours(dataset, problem)],
        }
        for method, found in trials.items():
            counts = pd.Series(found).value_counts().sort_index()
            rows += [
                {"dataset": name, "method": method, "trials": int(n), "iterations": int(count)} for n, count in counts.items()
            ]
    return rows


def ours(dataset: Dataset, problem: Problem) -> list[int]:
    """The trials of each iteration of `ifonly`; its compiled loops keep no history."""
    cf = ifonly.invert(dataset.model, problem.source, dataset.model.label(problem.k), lam=problem.lam, backend="reference")
    return [step.trials for step in cf.history]


def draw(frame: pd.DataFrame) -> "Figure":
    """Shares of the iterations."""
    figure, axes = style.panels(1, SOFTMAX, height=2.3, sharey=True)
    for axis, name in zip(axes[0], SOFTMAX, strict=True):
        for offset, method in ((-0.2, "Newton"), (0.2, OURS)):
            rows = frame[(frame.dataset == name) & (frame.method == method)]
            shares = rows.groupby(rows.trials.clip(upper=MOST)).iterations.sum() / rows.iterations.sum()
            axis.bar(shares.index + offset, shares, width=0.4, color=style.look(method)[0], label=method)
        axis.set_xticks(range(1, MOST + 1), [*map(str, range(1, MOST)), f"≥{MOST}"])
        axis.set_xlabel("steps tried")
        axis.grid(visible=False, axis="x")
    axes[0, 0].set_ylabel("share of iterations")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure
