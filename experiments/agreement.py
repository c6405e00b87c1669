"""A check, not in the paper: Newton in D dimensions and in class space, both from x̄, are the same method.

Their iterates are compared by E, iteration by iteration, on all problems of all data sets. Class space goes on to the last
digit, the other to ‖∇E‖ ≤ 1e-8: what is compared are the iterations that both make.
"""

import numpy as np

import ifonly
from experiments.contest import solve
from experiments.datasets import BINARY, HUNDRED, SOFTMAX, load
from experiments.problems import problems
from experiments.store import Row

NOTE = "deviation: largest |E − E'|/|E'| over the iterations that both made"


def measure(*, full: bool) -> list[Row]:
    """One row per data set and problem."""
    rows = []
    for name in (*SOFTMAX, HUNDRED, *BINARY):
        dataset = load(name)
        for i, problem in enumerate(problems(name)):
            run = solve("Newton", dataset, problem)
            cf = ifonly.invert(dataset.model, problem.source, dataset.model.label(problem.k), lam=problem.lam, start="source")
            ours = [*(step.objective for step in cf.history), cf.objective]
            both = min(len(ours), len(run.objectives))
            far, near = np.array(run.objectives[:both]), np.array(ours[:both])
            rows.append(
                {
                    "dataset": name,
                    "problem": i,
                    "n_iter_features": run.n_iter,
                    "n_iter_classes": cf.n_iter,
                    "same_steps": run.steps[: both - 1] == [step.step for step in cf.history][: both - 1],
                    "deviation": float(np.max(np.abs(far - near) / np.abs(near))),
                    "deviation_at_the_end": float(abs(run.objective - cf.objective) / abs(cf.objective)),
                }
            )
    return rows
