"""Figure 2: learning curves (E, ‖∇E‖, E − E*) against iterations and seconds, one problem per data set."""

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from experiments import curves
from experiments.baselines import METHODS
from experiments.contest import OURS, applicable, solve
from experiments.datasets import SOFTMAX, load
from experiments.problems import Problem, example
from experiments.store import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTE = "iterate 1 is the start; of long curves not every iterate is kept"


def measure(*, full: bool) -> list[Row]:
    """One row per data set, method and iterate."""
    return [row for name in SOFTMAX for row in all_methods(name, example(name))]


def all_methods(name: str, problem: Problem) -> list[Row]:
    """Every method on a problem of a data set."""
    dataset = load(name)
    methods = [method for method in METHODS if applicable(method, dataset)]
    found = curves.of_runs({method: partial(solve, method, dataset, problem) for method in methods})
    return curves.tidy(dataset, problem, found | {OURS: curves.of_ours(dataset, problem)})


def draw(frame: pd.DataFrame) -> "Figure":
    """As in the paper, data sets in columns."""
    return curves.draw(frame, SOFTMAX, [*METHODS, OURS])
