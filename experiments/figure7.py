"""Figure 7: learning curves of Newton's method with both line searches, on the problems of figure 2."""

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from experiments import curves
from experiments.contest import OURS, solve
from experiments.datasets import SOFTMAX, load
from experiments.figure6 import LOOKS, SEARCHES
from experiments.problems import example
from experiments.store import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTE = "iterate 1 is the start"


def measure(*, full: bool) -> list[Row]:
    """One row per data set, line search and iterate."""
    rows = []
    for name in SOFTMAX:
        dataset, problem = load(name), example(name)
        calls = {label: partial(solve, "Newton", dataset, problem, line_search=search) for label, search in SEARCHES.items()}
        rows += curves.tidy(dataset, problem, curves.of_runs(calls) | {OURS: curves.of_ours(dataset, problem)})
    return rows


def draw(frame: pd.DataFrame) -> "Figure":
    """As figure 2."""
    return curves.draw(frame, SOFTMAX, [*SEARCHES, OURS], LOOKS)
