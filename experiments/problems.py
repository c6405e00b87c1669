"""The 50 problems per data set of the paper's appendix A.

Of every five, four go from a random training row to its least probable class with a small λ, one to the second most probable
with a larger λ; so that the first few of a collection are a fair sample where a method is too slow for all.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from experiments.datasets import Dataset, load

N_PROBLEMS = 50
SEED = 2026
LAMS = 0.01, 0.1  # farthest class, second class
# The paper has 0.006 and 0.08 for its largest features. These bring p_k where it has them, on ours.
OTHER_LAMS = {"DeepFeat64": (0.001, 0.006), "DeepFeat320": (0.001, 0.006)}


class Problem(NamedTuple):
    """One inverse problem: source, class index wanted, λ."""

    source: np.ndarray
    k: int
    lam: float
    kind: str  # "farthest" or "second"


def lams_of(name: str) -> tuple[float, float]:
    """λ for the farthest and for the second class."""
    return OTHER_LAMS.get(name.partition(" ")[0], LAMS)


def collection(dataset: Dataset, n: int = N_PROBLEMS) -> list[Problem]:
    """The first ``n`` problems of a data set; the same each time."""
    rows = np.random.default_rng(SEED).permutation(dataset.pool.shape[0])[:n]
    far, near = lams_of(dataset.name)
    found = []
    for i, row in enumerate(rows):
        source = dataset.source(int(row))
        order = dataset.model.logits(source).argsort()
        second = i % 5 == 4
        found.append(
            Problem(source, int(order[-2 if second else 0]), near if second else far, "second" if second else "farthest")
        )
    return found


@cache
def problems(name: str) -> tuple[Problem, ...]:
    """All 50 problems of the data set of that name."""
    return tuple(collection(load(name)))


def example(name: str) -> Problem:
    """The problem whose learning curves are shown: the first of the collection."""
    return problems(name)[0]
