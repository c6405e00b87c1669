"""Section 5.2: logistic regression, the closed form of theorem 4.2 against Newton's method in D dimensions.

The closed form bare is the theorem in a few lines; `ifonly` checks its input and certifies its answer besides.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments import style
from experiments.contest import BATCH, OURS, TIMES, Batch, in_turn, invert, judged, solve
from experiments.datasets import BINARY, Dataset, load
from experiments.problems import Problem, problems
from experiments.store import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARE = "closed form, bare"
STEP = 1e-9  # in ℓ: the convergence is quadratic, and one step more would change nothing
METHODS = ("Newton", BARE, OURS, BATCH)
LOOKS = {BARE: ("#009E73", "^", "-")}
NOTE = TIMES


def measure(*, full: bool) -> list[Row]:
    """One row per data set, problem and method."""
    rows = []
    for name in BINARY:
        dataset, every = load(name), problems(name)
        batch = Batch(dataset, every)
        batch()  # the first call loads the compiled kernel
        for i, problem in enumerate(every):
            calls: dict[str, Callable[[], Any]] = {
                "Newton": partial(solve, "Newton", dataset, problem),
                BARE: partial(closed_form, dataset, problem),
                OURS: partial(invert, dataset, problem),
                BATCH: batch,
            }
            for method, (found, seconds, _) in in_turn(calls).items():
                x = found if method == BARE else found[i].x if method == BATCH else found.x
                each = seconds / (len(batch) if method == BATCH else 1)
                rows.append({"dataset": name, "problem": i, "method": method, "seconds": each, **judged(dataset, problem, x)})
    return rows


def closed_form(dataset: Dataset, problem: Problem) -> np.ndarray:
    """``x* = x̄ − (q/λ)w`` with ``q = 1 − p₁* = φ(α, −(wᵀx̄ + w₀))`` and ``α = ‖w‖²/λ``."""
    w, w0, lam = *direction(dataset, problem.k), problem.lam
    q = root(float(w @ w) / lam, -float(w @ problem.source) - w0)
    return problem.source - (q / lam) * w


def root(alpha: float, beta: float) -> float:
    """``φ(α, β)``, theorem 4.1: the root of ``t = 1/(1 + exp(αt + β))``, by Newton's method in ``ℓ = ln(αt)``.

    ``ℓ + softplus(eˡ + β) − ln α`` is increasing and convex: from t = 1, to the right of the root, ℓ falls until it is there.
    """
    top = ell = math.log(alpha)
    while True:
        e = math.exp(ell)
        m = e + beta
        small = math.exp(-abs(m))
        share = (1.0 if m > 0 else small) / (1.0 + small)
        step = (ell + max(m, 0.0) + math.log1p(small) - top) / (1.0 + e * share)
        ell -= step
        if step < STEP:
            return math.exp(ell) / alpha


def direction(dataset: Dataset, k: int) -> tuple[np.ndarray, float]:
    """The normal w and w₀, pointing away from class k; made once per classifier."""
    if (dataset.name, k) not in DIRECTIONS:
        A, b = dataset.model.A, dataset.model.b
        DIRECTIONS[dataset.name, k] = A[1 - k] - A[k], float(b[1 - k] - b[k])
    return DIRECTIONS[dataset.name, k]


DIRECTIONS: dict[tuple[str, int], tuple[np.ndarray, float]] = {}


def draw(frame: pd.DataFrame) -> "Figure":
    """Seconds of every problem, data sets in columns."""
    figure, axes = style.panels(1, BINARY, height=2.4, sharey=True)
    jitter = np.random.default_rng(0)
    for axis, name in zip(axes[0], BINARY, strict=True):
        for place, method in enumerate(METHODS):
            seconds = frame[(frame.dataset == name) & (frame.method == method)].seconds
            axis.scatter(place + jitter.uniform(-0.25, 0.25, len(seconds)), seconds, **style.points(method, LOOKS))
        axis.set_xticks([])
    style.log_scale(axes[0, 0], "y")  # shared by all, so after all
    axes[0, 0].set_ylabel("seconds")
    style.legend(figure, METHODS, LOOKS, lines=False)
    return figure
