"""One pass over A, for any number of points: the sums over all classes that `many` lives on.

A is read in blocks that stay in the cache, as whatever it is, and summed in float64; both products with a block, ``A x`` and
``Aᵀw``, are made while it is there. Sums are relative to the largest logit so far, so that nothing overflows.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from ifonly.model import Model

__all__ = ["Look", "Seen", "Sums", "Task", "sum_up", "take_a_pass"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# The strongest rivals, which are taken one by one: from one pass at most so many, those with this share of the rivals'
# probability. On an ImageNet head 32 take two passes more than 64, and 256 one less.
MOST, SHARE = 64, 1e-3
LEAST = -1e300  # stands for −∞ in differences
# A pass is made in pieces of so many numbers at least, so many pieces at most: what threads share. They depend on A alone, so
# that answers are the same to the last bit whatever the number of threads.
PIECE_SIZE, PIECES = 1_000_000, 16
FEW_POINTS = 16  # NumPy's products for more points have threads of their own


@dataclass(frozen=True, slots=True)
class Task:
    """What is wanted of one source, in the classifier's space: a row to win, which rivals are none, and λ or a level for L.

    ``level`` is called with ‖x − x̄‖ and gives the L to end at or below, and how far below is near enough.
    """

    source: Floats
    row: Floats
    bias: float
    outside: Indices  # classes that are no rivals: the target, or those that are wanted together
    lam: float | None
    level: Callable[[float], tuple[float, float]] | None
    tol: float | None = None
    start: Floats | None = None

    @property
    def first(self) -> Floats:
        """The point to begin at."""
        return self.source if self.start is None else self.start


@dataclass(slots=True)
class Seen:
    """What a pass over A says of a point."""

    level: float  # L
    mean: Floats  # ā
    strong: Indices  # the rivals with the largest w
    covariance: Floats | None  # Σ w_j a_j a_jᵀ − ā āᵀ, where it was asked for
    logits: Floats | None  # of all classes, where there was one point

    def without(self, k: int, row: Floats, bias: float, x: Floats) -> "Seen | None":
        """What is left of a sum over all classes without class ``k``; None where nearly all of it is that class."""
        end = float(row @ x) + bias
        w = math.exp(min(end - self.level, 0.0))
        if w > 0.5:
            return None
        strong = self.strong[self.strong != k]
        return Seen(self.level + math.log1p(-w) - end, (self.mean - w * row) / (1 - w), strong, None, self.logits)


@dataclass(slots=True)
class Look:
    """A point that a pass is wanted for."""

    x: Floats
    task: Task
    share: float = SHARE
    wide: bool = False  # take the rivals with the largest logits as strong, however small their share
    covariance: bool = False


@dataclass(slots=True)
class Sums:
    """Sums over some of the classes, for N points, relative to e^top."""

    top: Floats  # (N,) the largest logit of a rival
    mass: Floats  # (N,) Σ e^{z − top}
    mean: Floats  # (N, D) Σ e^{z − top} a_j
    second: dict[int, Floats]  # Σ e^{z − top} a_j a_jᵀ for the points that asked for it

    def relative_to(self, top: Floats) -> "Sums":
        """The same, relative to these."""
        scale = np.exp(np.minimum(np.maximum(self.top, LEAST) - top, 0.0))
        second = {n: scale[n] * sums for n, sums in self.second.items()}
        return Sums(top, scale * self.mass, scale[:, None] * self.mean, second)

    def __add__(self, other: "Sums") -> "Sums":
        top = np.maximum(self.top, other.top)
        a, b = self.relative_to(top), other.relative_to(top)
        return Sums(top, a.mass + b.mass, a.mean + b.mean, {n: a.second[n] + b.second[n] for n in a.second})


SumUp = Callable[[Model, Sequence[Look], Floats, int, int], Sums]


def sum_up(model: Model, looks: Sequence[Look], logits: Floats, first: int, last: int) -> Sums:
    """The sums over classes ``first`` to ``last``, whose logits are written into their places."""
    X = np.stack([look.x for look in looks])
    outside = sorted((int(k), n) for n, look in enumerate(looks) for k in look.task.outside if first <= k < last)
    found: Sums | None = None
    for rows, block in model.blocks(first, last):
        z = X @ block.T
        z += model.b[rows]
        logits[:, rows] = z
        while outside and outside[0][0] < rows.stop:
            k, n = outside.pop(0)
            z[n, k - rows.start] = -np.inf
        top = z.max(axis=1) if found is None else np.maximum(found.top, z.max(axis=1))
        z -= np.maximum(top, LEAST)[:, None]
        e = np.exp(z, out=z)
        second = {n: (block.T * e[n]) @ block for n, look in enumerate(looks) if look.covariance}
        here = Sums(top, e.sum(axis=1), e @ block, second)
        found = here if found is None else found + here
    assert found is not None
    return found


def take_a_pass(model: Model, looks: Sequence[Look], threads: int = 1, summing: SumUp = sum_up) -> list[Seen]:
    """One pass over A, for any number of points."""
    if not looks:
        return []
    K = model.n_classes
    logits = np.empty((len(looks), K))
    edges = np.linspace(0, K, min(max(model.A.size // PIECE_SIZE, 1), PIECES, K) + 1).astype(int).tolist()

    def piece(first: int, last: int) -> Sums:
        return summing(model, looks, logits, first, last)

    if threads == 1 or len(edges) == 2 or (summing is sum_up and len(looks) > FEW_POINTS):
        sums = reduce(add, map(piece, edges[:-1], edges[1:]))
    else:
        with ThreadPoolExecutor(threads) as pool:
            sums = reduce(add, pool.map(piece, edges[:-1], edges[1:]))
    seen = [_seen(look, n, sums, logits[n]) for n, look in enumerate(looks)]
    if len(looks) == 1:  # of many they would take more memory than all else
        seen[0].logits = logits[0]
    return seen


def _seen(look: Look, n: int, sums: Sums, logits: Floats) -> Seen:
    """What the sums say of one point."""
    top, mass, task = float(sums.top[n]), float(sums.mass[n]), look.task
    mean = sums.mean[n] / mass
    strong = np.arange(len(logits)) if look.wide else np.flatnonzero(logits >= top + math.log(look.share * mass))
    strong = np.setdiff1d(strong, task.outside, assume_unique=True)
    if len(strong) > MOST:
        strong = strong[np.argpartition(logits[strong], -MOST)[-MOST:]]
    covariance = sums.second[n] / mass - np.outer(mean, mean) if look.covariance else None
    return Seen(top + math.log(mass) - (float(task.row @ look.x) + task.bias), mean, strong, covariance, None)
