"""Figure 1: E, iterations and runtime of every method on the 50 problems of each data set.

Beside the paper's five methods: `ifonly` one call per problem, all 50 in one call, up to twenty times over (seconds per row).
MNIST-100 is measured as well; the figure shows the paper's four data sets.
"""

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from experiments import style
from experiments.baselines import METHODS
from experiments.contest import BATCH, OURS, TIMES, Batch, applicable, in_turn, invert, judged, solve
from experiments.datasets import HUNDRED, SOFTMAX, load
from experiments.problems import problems
from experiments.store import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SECONDS = 60.0  # of one run of one method; nobody needs them where this was written
NOTE = TIMES


def measure(*, full: bool) -> list[Row]:
    """One row per data set, method and problem."""
    rows = []
    for name in (*SOFTMAX, HUNDRED):
        dataset, every = load(name), problems(name)
        batch = Batch(dataset, every)
        batch()  # the first call loads the compiled kernel
        for i, problem in enumerate(every):
            methods = [method for method in METHODS if applicable(method, dataset)]
            calls = {m: partial(solve, m, dataset, problem, max_seconds=MAX_SECONDS) for m in methods}
            timed = in_turn(calls | {OURS: partial(invert, dataset, problem), BATCH: batch})
            for method, (found, seconds, rounds) in timed.items():
                one = found[i] if method == BATCH else found
                rows.append(
                    {
                        "dataset": name,
                        "problem": i,
                        "kind": problem.kind,
                        "lam": problem.lam,
                        "method": method,
                        **judged(dataset, problem, one.x),
                        "n_iter": one.n_iter,
                        "seconds": seconds / (len(batch) if method == BATCH else 1),
                        "rounds": rounds,
                    }
                )
    return rows


def draw(frame: pd.DataFrame) -> "Figure":
    """Data sets in columns; iterations above, seconds below, against E."""
    figure, axes = style.panels(2, SOFTMAX, height=2.5)
    for column, name in enumerate(SOFTMAX):
        for method, rows in frame[frame.dataset == name].groupby("method"):
            look = style.points(method)
            axes[0, column].scatter(rows.n_iter, rows.E, **look)
            axes[1, column].scatter(rows.seconds, rows.E, **look)
        axes[0, column].set_xlabel("iterations")
        axes[1, column].set_xlabel("seconds")
        for axis in axes[:, column]:
            style.log_scale(axis, "xy")
    for axis in axes[:, 0]:
        axis.set_ylabel("E(x*)")
    style.legend(figure, [*METHODS, OURS, BATCH], lines=False)
    return figure
