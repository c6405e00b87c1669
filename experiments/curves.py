"""Learning curves: E, ‖∇E‖ and E − E* of each iterate of a method on one problem, and how they are drawn.

Iterates are counted as in the paper: 1 is the start. Iterate j + 1 of `ifonly` is the answer with at most j iterations; its
seconds are those of the quickest whole call that goes as far. Its start, which is near the answer, is no answer, and stays out.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

import ifonly
from experiments import style
from experiments.baselines import Run
from experiments.contest import LONG, ROUNDS, TOL, in_turn, judged
from experiments.datasets import Dataset
from experiments.problems import Problem
from experiments.store import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DENSE = 40  # iterates from the start that are all kept …
PER_DECADE = 60  # … and how many are kept per factor of 10 after that
MARKED = 12  # markers on a curve that has more than `DENSE` points
MOST = 100  # iterations of `ifonly`, which needs a tenth
NOTHING = 1e-16  # what E − E* = 0 is drawn as

QUANTITIES = {"E": "E", "grad_norm": "‖∇E‖", "gap": "E − E*"}


class Curve(NamedTuple):
    """What each iterate was worth, and when it was there; and the number of the first."""

    E: np.ndarray
    grad_norm: np.ndarray
    seconds: np.ndarray
    first: int = 1


def of_runs(calls: dict[str, Callable[[], Run]]) -> dict[str, Curve]:
    """The baselines' curves; seconds are medians of several runs in turn, where those are short."""
    first = {name: call() for name, call in calls.items()}
    short = [name for name, run in first.items() if run.seconds[-1] <= LONG]
    seconds = {name: [run.seconds] for name, run in first.items() if name not in short} | {name: [] for name in short}
    for _ in range(ROUNDS):
        for name in short:
            seconds[name].append(calls[name]().seconds)
    return {
        name: Curve(np.array(run.objectives), np.array(run.grad_norms), np.median(seconds[name], axis=0))
        for name, run in first.items()
    }


def of_ours(dataset: Dataset, problem: Problem, tol: float = TOL) -> Curve:
    """The curve of `ifonly`: one answer per limit on the iterations."""
    last = _limited(dataset, problem, tol, MOST).n_iter
    timed = in_turn({str(j): partial(_limited, dataset, problem, tol, j) for j in range(1, last + 1)})
    worth = pd.DataFrame([judged(dataset, problem, found.value.x) for found in timed.values()])
    # A call that is stopped short is handed on to a slower method, and takes longer than one that is not.
    seconds = np.minimum.accumulate([found.seconds for found in timed.values()][::-1])[::-1]
    return Curve(worth.E.to_numpy(), worth.grad_norm.to_numpy(), seconds, first=2)


def _limited(dataset: Dataset, problem: Problem, tol: float, n_iter: int) -> ifonly.Counterfactual:
    label = dataset.model.label(problem.k)
    cf = ifonly.invert(dataset.model, problem.source, label, lam=problem.lam, tol=tol, max_iter=n_iter)
    assert isinstance(cf, ifonly.Counterfactual)
    _ = cf.x
    return cf


def tidy(dataset: Dataset, problem: Problem, curves: dict[str, Curve], *, thin: bool = True) -> list[Row]:
    """One row per method and iterate; E* is the least E that anyone found, the exact answer included."""
    label = dataset.model.label(problem.k)
    exact = ifonly.invert(dataset.model, problem.source, label, lam=problem.lam)
    lowest = min(judged(dataset, problem, exact.x)["E"], *(curve.E.min() for curve in curves.values()))
    before, after = dataset.model.predict_proba(problem.source), exact.proba
    own = int(before.argmax())
    about = {
        "dataset": dataset.name,
        "lam": problem.lam,
        "source_class": own,
        "target_class": problem.k,
        "p_source_before": before[own],
        "p_target_before": before[problem.k],
        "p_source_after": after[own],
        "p_target_after": after[problem.k],
    }
    return [
        about
        | {
            "method": method,
            "iterate": curve.first + i,
            "n_iterates": curve.first + len(curve.E) - 1,
            "E": curve.E[i],
            "grad_norm": curve.grad_norm[i],
            "gap": curve.E[i] - lowest,
            "seconds": curve.seconds[i],
        }
        for method, curve in curves.items()
        for i in (kept(len(curve.E)) if thin else range(len(curve.E)))
    ]


def kept(n: int) -> list[int]:
    """Which of n iterates are kept for a plot: all at first, then evenly in the logarithm, and the last."""
    later = np.geomspace(DENSE, max(n, DENSE), 1 + int(PER_DECADE * np.log10(max(n / DENSE, 1)))).astype(int)
    return sorted({*range(min(n, DENSE)), *(later[later < n]).tolist(), n - 1})


def marked(n: int) -> list[int]:
    """Which of n points have a marker: all of a few, and some, evenly in the logarithm, of many."""
    return list(range(n)) if n <= DENSE else sorted({*(np.geomspace(1, n, MARKED).astype(int) - 1).tolist()})


def draw(frame: pd.DataFrame, names: Sequence[str], methods: Sequence[str], looks: dict[str, Any] | None = None) -> "Figure":
    """Six rows as in the paper's figure 2: E, ‖∇E‖ and E − E*, each against iterations and seconds, log-log."""
    figure, axes = style.panels(6, [style.problem_title(frame[frame.dataset == name]) for name in names], height=1.75)
    for column, name in enumerate(names):
        pairs = axes[:, column].reshape(3, 2)
        for axis_pair, (quantity, _) in zip(pairs, QUANTITIES.items(), strict=True):
            draw_pair(axis_pair, frame[frame.dataset == name], quantity, methods, looks)
    for row, (x, label) in enumerate((x, label) for label in QUANTITIES.values() for x in ("iterate", "seconds")):
        axes[row, 0].set_ylabel(label)
        for axis in axes[row]:
            axis.set_xlabel(x)
    style.legend(figure, methods, looks)
    return figure


def draw_pair(
    axes: Any, frame: pd.DataFrame, quantity: str, methods: Sequence[str], looks: dict[str, Any] | None = None
) -> None:
    """One quantity against iterations, on the first axis, and against seconds, on the second."""
    for method in methods:
        rows = frame[frame.method == method]
        if rows.empty:
            continue
        y = rows[quantity].clip(lower=NOTHING) if quantity == "gap" else rows[quantity]
        look = style.line(method, looks)
        axes[0].plot(rows.iterate, y, markevery=marked(len(rows)), **look)
        later = rows.seconds > 0
        axes[1].plot(rows.seconds[later], y[later], markevery=marked(later.sum()), **look)
    for axis in axes:
        style.log_scale(axis, "xy")


def draw_wide(
    frame: pd.DataFrame, names: Sequence[str], methods: Sequence[str], looks: dict[str, Any] | None = None
) -> "Figure":
    """As in the paper's figures 5 and 8: quantities in columns; per data set one row for iterations and one for seconds."""
    figure, axes = style.panels(2 * len(names), list(QUANTITIES.values()), height=2.2)
    for i, name in enumerate(names):
        rows = frame[frame.dataset == name]
        for column, quantity in enumerate(QUANTITIES):
            draw_pair(axes[2 * i : 2 * i + 2, column], rows, quantity, methods, looks)
        for axis, x in zip(axes[2 * i : 2 * i + 2], ("iterate", "seconds"), strict=True):
            axis[0].set_ylabel(f"{name}, λ = {rows.lam.iloc[0]:g}")
            for one in axis:
                one.set_xlabel(x)
    style.legend(figure, methods, looks)
    return figure
