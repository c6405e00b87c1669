"""Who takes part, and how times are taken: the paper's methods and ours, in turn, the median of each."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

import ifonly
from experiments.baselines import METHODS, Run
from experiments.baselines.bfgs import MAX_BYTES
from experiments.datasets import Dataset
from experiments.problems import Problem

TOL = 1e-8  # ‖∇E‖, the paper's stopping rule
OURS, BATCH = "ifonly", "ifonly, batch"

TIMES_OVER = 20  # a batch has 1000 rows …
ROOM = 64 * 2**20  # … or as many times 50 as fit into this many bytes

ROUNDS = 5  # timed calls of each contender …
LONG = 0.1  # … unless the first took longer than this, in seconds: then it is the only one

TIMES = (
    f"seconds: median of {ROUNDS} calls in turn, each after one not timed; one call where it takes over {LONG} s; one thread"
)

T = TypeVar("T")


class Timed(NamedTuple, Generic[T]):
    """What a call gave, the median of its times, and how many there were."""

    value: T
    seconds: float
    rounds: int


def in_turn(calls: dict[str, Callable[[], T]], rounds: int = ROUNDS) -> dict[str, Timed[T]]:
    """Call each in rounds, so that a disturbance meets all of them; long calls are made once.

    Before each timed call there is one that is not, so that every contender finds its own data in the caches and not what the
    one before left there: a D×D matrix of BFGS costs the next one twice its time where D is small.
    """
    timed = {name: _call(call) for name, call in calls.items()}
    short = [name for name, first in timed.items() if first.seconds <= LONG]
    samples = {name: [] for name in short}
    for _ in range(rounds):
        for name in short:
            calls[name]()
            samples[name].append(_call(calls[name]).seconds)
    return timed | {name: Timed(timed[name].value, median(taken), rounds) for name, taken in samples.items()}


def _call(call: Callable[[], T]) -> Timed[T]:
    start = time.perf_counter()
    value = call()
    return Timed(value, time.perf_counter() - start, 1)


def applicable(method: str, dataset: Dataset) -> bool:
    """Whether a method of the paper's can be run at all: BFGS keeps a D×D matrix."""
    return method != "BFGS" or 8 * dataset.model.n_features**2 <= MAX_BYTES


def solve(method: str, dataset: Dataset, problem: Problem, **options: Any) -> Run:
    """One of the paper's methods, from x̄ to ‖∇E‖ ≤ 1e-8."""
    return METHODS[method](dataset.model, problem.source, problem.k, problem.lam, tol=TOL, **options)


def invert(dataset: Dataset, problem: Problem) -> ifonly.Counterfactual:
    """Ours, one call; with the answer in D dimensions made."""
    cf = ifonly.invert(dataset.model, problem.source, dataset.model.label(problem.k), lam=problem.lam, tol=TOL, backend="cpu")
    _ = cf.x
    return cf


class Batch:
    """Ours, all problems in one call of the compiled kernel, on one thread.

    Fifty rows with ten targets are no batch; they are repeated up to `TIMES_OVER` times, as far as they fit into `ROOM`.
    """

    def __init__(self, dataset: Dataset, problems: Sequence[Problem]) -> None:
        self.model = dataset.model
        X = np.stack([problem.source for problem in problems])
        times = int(np.clip(ROOM // X.nbytes, 1, TIMES_OVER))
        self.X = np.tile(X, (times, 1))
        self.k = np.tile(self.model.classes[[problem.k for problem in problems]], times)
        self.lam = np.tile([problem.lam for problem in problems], times)
        self.out = np.zeros_like(self.X)

    def __len__(self) -> int:
        return len(self.X)

    def __call__(self) -> ifonly.Counterfactuals:
        """Solve all, into ``out``."""
        options = {"backend": "cpu", "threads": 1, "out": self.out, "progress": False}
        found = ifonly.invert(self.model, self.X, self.k, lam=self.lam, tol=TOL, **options)
        assert isinstance(found, ifonly.Counterfactuals)
        return found


def judged(dataset: Dataset, problem: Problem, x: np.ndarray) -> dict[str, float]:
    """E and ‖∇E‖ of an answer, in D dimensions, whoever gave it."""
    at = ifonly.Problem(dataset.model, problem.source, dataset.model.label(problem.k), problem.lam)
    return {"E": at.objective(x), "grad_norm": float(np.linalg.norm(at.gradient(x)))}
