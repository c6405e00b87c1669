"""Figure 6: Newton's method with a strong Wolfe line search against backtracking, on the 50 problems of each data set."""

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from experiments import style
from experiments.baselines import Backtracking, StrongWolfe
from experiments.contest import OURS, TIMES, in_turn, invert, solve
from experiments.datasets import SOFTMAX, load
from experiments.problems import problems
from experiments.store import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BACKTRACKING, WOLFE = "Newton, backtracking", "Newton, Wolfe"
SEARCHES = {BACKTRACKING: Backtracking(), WOLFE: StrongWolfe()}
LOOKS = {BACKTRACKING: ("#0072B2", "o", "-"), WOLFE: ("#0072B2", "D", (0, (3, 1.5)))}
NOTE = TIMES


def measure(*, full: bool) -> list[Row]:
    """One row per data set, problem and line search."""
    rows = []
    for name in SOFTMAX:
        dataset = load(name)
        invert(dataset, problems(name)[0])  # the first call loads the compiled kernel
        for i, problem in enumerate(problems(name)):
            calls = {
                label: partial(solve, "Newton", dataset, problem, line_search=search) for label, search in SEARCHES.items()
            }
            for method, (found, seconds, _) in in_turn(calls | {OURS: partial(invert, dataset, problem)}).items():
                trials = None if method == OURS else sum(found.trials)
                about = {"dataset": name, "problem": i, "method": method}
                rows.append(about | {"n_iter": found.n_iter, "trials": trials, "seconds": seconds})
    return rows


def draw(frame: pd.DataFrame) -> "Figure":
    """Against backtracking: iterations above, seconds below; data sets in columns."""
    figure, axes = style.panels(2, SOFTMAX, height=2.3)
    for column, name in enumerate(SOFTMAX):
        rows = frame[frame.dataset == name]
        for axis, quantity in zip(axes[:, column], ("n_iter", "seconds"), strict=True):
            table = rows.pivot_table(index="problem", columns="method", values=quantity)
            for method in (WOLFE, OURS):
                axis.scatter(table[BACKTRACKING], table[method], **style.points(method, LOOKS))
            ends = [table.min().min(), table.max().max()]
            axis.plot(ends, ends, color="#888888", linewidth=0.8)
            axis.set_xlabel(f"{'iterations' if quantity == 'n_iter' else 'seconds'}, backtracking")
        axes[0, column].locator_params(integer=True, nbins=6)
        style.log_scale(axes[1, column], "xy")
    axes[0, 0].set_ylabel("iterations")
    axes[1, 0].set_ylabel("seconds")
    style.legend(figure, [WOLFE, OURS], LOOKS, lines=False)
    return figure
