"""The shapes on both sides of the seam: what a kernel is given and gives back, and the rows that are made of it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.class_space import Solution
from ifonly.engines.closed_form import phi
from ifonly.engines.few_and_rest import SolveCrowd, solve_crowd
from ifonly.model import Model
from ifonly.problem.status import Status

__all__ = ["Goals", "Kernel", "Rows", "Solved"]

Floats = NDArray[np.float64]


class Goals(NamedTuple):
    """For the probability form: logit(1 − p_k) must end in ``[top − width, top]``, with

    ``top = logit − (slack + slope·Σq/λ)``    and    ``width = slack + slope·Σq/λ + least``.

    (`solvers.target.Goal` for many rows: the rounding allowance grows with the size of the change.)
    """

    logit: Any  # (B,)
    slack: Any  # (B,)
    slope: Any  # (B,)
    least: Any  # (B,)


class Solved(NamedTuple):
    """What a kernel found for B sources with the same target, in the coordinates q of `solvers.spaces.Rivals`."""

    q: Any  # (B, n), n = K − 1 rivals
    p: Any  # (B, n) the rivals' probabilities
    p_target: Any  # (B,)
    lam: Any  # (B,)
    objective: Any  # (B,) E
    grad_norm: Any  # (B,) ‖∇E‖ as computed, without an allowance for rounding
    square: Any  # (B,) qᵀḠq: the distance is its root over λ
    n_iter: Any  # (B,) int
    done: Any  # (B,) bool: False for a row that is left to the single-source solver


ROWS_PER_THREAD = 512  # fewer than these are solved sooner than they are handed over


class Kernel(NamedTuple):
    """A backend: functions for B sources with the same target (``root`` for K = 2), and on how many threads to run them.

    ``crowd`` is for very many classes, one source at a time. ``table``, where there is one, goes from sources to answers by
    itself (`kernels.device.invert_table`), or says that it does not.
    """

    solve_lam: Callable[..., Solved]
    solve_prob: Callable[..., Solved]
    root: Callable[[Floats, Floats], Floats] = phi
    threads: int = 1
    crowd: SolveCrowd = solve_crowd
    table: Callable[..., "Rows | None"] | None = None

    def run(self, solve: Callable[..., Solved], gram: Floats, *per_row: Any, **options: Any) -> Solved:
        """Call one of the two, on slices of the rows if there are threads to share them."""
        B = len(per_row[0])
        parts = min(self.threads, B // ROWS_PER_THREAD)
        if parts <= 1:
            return solve(gram, *per_row, **options)
        edges = np.linspace(0, B, parts + 1).astype(int)
        slices = [slice(a, b) for a, b in pairwise(edges)]
        with ThreadPoolExecutor(parts) as pool:
            done = list(pool.map(lambda s: solve(gram, *(_cut(a, s) for a in per_row), **options), slices))
        return Solved(*(np.concatenate(arrays) for arrays in zip(*done, strict=True)))


def _cut(value: Any, s: slice) -> Any:
    return Goals(*(a[s] for a in value)) if isinstance(value, Goals) else value[s]


@dataclass(frozen=True)
class Rows:
    """Answers in class space, one per row: ``x = x̄ + coef @ rows``."""

    coef: Floats
    proba: Floats
    target: NDArray[np.intp]
    lam: Floats
    distance: Floats
    objective: Floats
    grad_norm: Floats
    n_iter: NDArray[np.intp]
    status: NDArray[np.int8]
    n_passes: NDArray[np.intp]

    @classmethod
    def empty(cls, model: Model, targets: NDArray[np.intp], width: int | None = None, classes: int | None = None) -> "Rows":
        """Rows that are not solved yet: INVALID and NaN.

        ``width`` coefficients each, 0 where answers are kept as they are; and probabilities of so many ``classes``, 0 where
        there are too many to keep.
        """
        N = len(targets)
        coef = np.full((N, model.rows.shape[0] if width is None else width), np.nan)
        proba = np.full((N, model.n_classes if classes is None else classes), np.nan)
        lam, distance, objective, grad_norm = np.full((4, N), np.nan)
        n_iter, status = np.zeros(N, dtype=np.intp), np.full(N, Status.INVALID, dtype=np.int8)
        n_passes = np.full(N, 2, dtype=np.intp)
        return cls(coef, proba, targets.copy(), lam, distance, objective, grad_norm, n_iter, status, n_passes)

    @classmethod
    def join(cls, parts: list["Rows"]) -> "Rows":
        """Several sets of rows as one."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __len__(self) -> int:
        return len(self.lam)

    def copy(self, to: Any, rows: "Rows", which: Any = slice(None)) -> None:
        """Set some rows from others."""
        for field in fields(self):
            getattr(self, field.name)[to] = getattr(rows, field.name)[which]

    def put(self, i: int, solution: Solution) -> None:
        """Set row ``i``."""
        for name in _OF_SOLUTION:
            getattr(self, name)[i] = getattr(solution, name)

    def solution(self, i: int) -> Solution:
        """Row ``i``."""
        coef, proba, *numbers = (getattr(self, name)[i] for name in _OF_SOLUTION)
        lam, distance, objective, grad_norm = map(float, numbers[:4])
        n_iter, status, n_passes = map(int, numbers[4:])
        return Solution(coef, proba, lam, distance, objective, grad_norm, n_iter, Status(status), n_passes=n_passes)


_OF_SOLUTION = ("coef", "proba", "lam", "distance", "objective", "grad_norm", "n_iter", "status", "n_passes")
