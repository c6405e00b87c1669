"""One pass over A, for any number of points: the sums over all classes that `many` lives on.

A is read in blocks that stay in the cache, as whatever it is, and summed in float64; both products with a block, ``A x`` and
``Aᵀw``, are made while it is there. Sums are relative to the largest logit so far, so that nothing overflows.

Where many points share a pass, its time is that of multiplying, and single precision takes half. It does for all passes but
one or two: on the way to the answer seven digits are enough, and near it only what has *changed* since a point that was seen in
double precision is summed, Σ e^{z⁰}(e^{aᵀ(x − x⁰)} − 1)·(1, a), whose error is as small as the change.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.threads import on_threads
from ifonly.model import Model
from ifonly.model.numerics import Floats, Indices, blocks

__all__ = ["Known", "Look", "Seen", "Sums", "Task", "known_points", "points", "sum_up", "take_a_pass"]

# The strongest rivals, which are taken one by one: from one pass at most so many, those with this share of the rivals'
# probability. On an ImageNet head 32 take two passes more than 64, and 256 one less.
MOST, SHARE = 64, 1e-3
LEAST, LEAST_SINGLE = -1e300, -1e30  # stand for −∞ in differences
# A pass is made in pieces of so many numbers at least, so many pieces at most: what threads share. They depend on A alone, so
# that answers are the same to the last bit whatever the number of threads.
PIECE_SIZE, PIECES = 1_000_000, 16
FEW_POINTS = 16  # NumPy's products for more points have threads of their own
AT_ONCE = 32  # points of a pass in double precision, as each has K logits: more are not faster
# Of a row, and of rows, so many numbers are added up in single precision at most (many_points.hpp): what that can lose grows
# with them, and five times as many made the last pass of every eighth source one in double precision.
LONG, TALL = 144, 132
NO_CLASSES = np.zeros(0, dtype=np.intp)
NOTHING = -46.0  # a class whose logit is so far below the largest has less than 1e-20 of its weight: K of them still nothing
NO_WEIGHT = -80.0  # … nor has this one, and its weight is still among the normal numbers of single precision


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
    margins: Floats  # theirs
    covariance: Floats | None  # Σ w_j a_j a_jᵀ − ā āᵀ, where it was asked for
    logits: Floats | None  # of all classes, where there was one point
    error: float = 0.0  # of L, and of ā in lengths of the longest row, beyond the rounding of double precision
    rough: bool = False  # it is more than that rounding
    known: "Known | None" = None  # where it was asked for

    def without(self, task: Task, k: int) -> "Seen | None":
        """What is left of a sum over all classes at a source without class ``k``; None where nearly all of it is that class."""
        end = float(task.row @ task.source) + task.bias
        w = math.exp(min(end - self.level, 0.0))
        if w > 0.5:
            return None
        others = self.strong != k
        mean = (self.mean - w * task.row) / (1 - w)
        return Seen(self.level + math.log1p(-w) - end, mean, self.strong[others], self.margins[others] - end, None, self.logits)


@dataclass(frozen=True, slots=True)
class Known:
    """A point x⁰ that was seen in double precision, for passes that sum up what changes from there."""

    x: Floats
    apart: Indices  # classes that are not in its sums
    top: float
    mass: float  # Σ e^{z − top}
    total: Floats  # Σ e^{z − top} a_j
    weights: NDArray[np.float32]  # e^{z_j − top}, and 0 for those apart


@dataclass(slots=True)
class Look:
    """A point that a pass is wanted for."""

    x: Floats
    task: Task
    share: float = SHARE
    wide: bool = False  # take the rivals with the largest logits as strong, however small their share
    covariance: bool = False
    apart: Indices = field(default_factory=lambda: NO_CLASSES)  # rivals that are summed elsewhere, from rows at hand
    single: bool = False  # in single precision,
    since: Known | None = None  # … as a change from there
    keep: bool = False  # what later passes need to sum up changes

    @property
    def outside(self) -> Indices:
        """The classes that are not in the sums."""
        return np.concatenate([self.task.outside, self.apart]) if len(self.apart) else self.task.outside


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


SumUp = Callable[[Model, Sequence[Look], NDArray[Any]], Callable[[int, int], Sums]]


def sum_up(model: Model, looks: Sequence[Look], logits: NDArray[Any]) -> Callable[[int, int], Sums]:
    """The sums over classes ``first`` to ``last``, whose logits are written into their places, for looks of one precision.

    They are changes for the looks that know a point, which come first.
    """
    single, known, outside = looks[0].single, known_points(looks), [look.outside for look in looks]
    n, X = len(known), points(looks).astype(logits.dtype, copy=False)
    N, D = X.shape
    long, tall, least = (LONG, TALL, LEAST_SINGLE) if single else (D, model.n_classes, -np.inf)
    tops = [point.top for point in known] + [least] * (N - n)
    wide = [i for i, look in enumerate(looks) if look.covariance]

    def piece(first: int, last: int) -> Sums:
        top = np.array(tops)
        sums = Sums(top, np.zeros(N), np.zeros((N, D)), {i: np.zeros((D, D)) for i in wide})
        for rows, block in blocks(model.A, first, last, dtype=X.dtype):
            z = reduce(add, (X[:, a : a + long] @ block[:, a : a + long].T for a in range(0, D, long)))
            e = np.expm1(z[:n], out=z[:n])
            for i, point in enumerate(known):
                e[i] *= point.weights[rows]
            if n < N:
                rough = z[n:]
                rough += model.b[rows].astype(X.dtype, copy=False)
                logits[:, rows] = rough
                for i, classes in enumerate(outside[n:]):
                    here = classes[(classes >= rows.start) & (classes < rows.stop)]
                    rough[i, here - rows.start] = -np.inf
                top = sums.top.copy()
                top[n:] = np.maximum(top[n:], rough.max(axis=1))
                rough -= np.maximum(top[n:, None], LEAST).astype(X.dtype, copy=False)
                np.exp(np.maximum(rough, NO_WEIGHT, out=rough) if single else rough, out=rough)
            sums = sums.relative_to(top)
            sums.mass += z.sum(axis=1, dtype=np.float64)
            for a in range(0, len(block), tall):
                sums.mean += z[:, a : a + tall] @ block[a : a + tall]
            for i in wide:
                sums.second[i] += (block.T * z[i]) @ block
        return sums

    return piece


def known_points(looks: Sequence[Look]) -> list[Known]:
    """Those that changes are summed up from."""
    return [look.since for look in looks if look.since is not None]


def points(looks: Sequence[Look]) -> Floats:
    """The points, or how far they are from those that are known."""
    return np.stack([look.x if look.since is None else look.x - look.since.x for look in looks])


def take_a_pass(model: Model, looks: Sequence[Look], threads: int = 1, summing: SumUp = sum_up) -> list[Seen]:
    """One pass over A, for any number of points: or one in single and one in double precision, where both are wanted."""
    seen = dict[int, Seen]()
    single = sorted((n for n, look in enumerate(looks) if look.single), key=lambda n: looks[n].since is None)
    double = [n for n, look in enumerate(looks) if not look.single]
    for some in ([single] if single else []) + [double[i : i + AT_ONCE] for i in range(0, len(double), AT_ONCE)]:
        seen |= zip(some, _take(model, [looks[n] for n in some], threads, summing), strict=True)
    return [seen[n] for n in range(len(looks))]


def _take(model: Model, looks: Sequence[Look], threads: int, summing: SumUp) -> list[Seen]:
    """One in one precision: changes first."""
    K, known, single = model.n_classes, known_points(looks), looks[0].single
    n = len(known)
    logits = np.empty((len(looks) - n, K), dtype=np.float32 if single else np.float64)
    edges = np.linspace(0, K, min(max(model.A.size // PIECE_SIZE, 1), PIECES, K) + 1).astype(int).tolist()
    piece = summing(model, looks, logits)
    shared = 1 if summing is sum_up and len(looks) > FEW_POINTS else threads
    sums = reduce(add, on_threads(lambda ends: piece(*ends), list(pairwise(edges)), shared))
    for i, point in enumerate(known):
        sums.mass[i] += point.mass
        sums.mean[i] += point.total
    seen = [_seen(look, i, sums, logits[i - n] if i >= n else None) for i, look in enumerate(looks)]
    if len(looks) == 1 and not single:  # of many they would take more memory than all else
        seen[0].logits = logits[0]
    return seen


def _seen(look: Look, n: int, sums: Sums, logits: NDArray[Any] | None) -> Seen:
    """What the sums say of one point."""
    top, mass, task = float(sums.top[n]), float(sums.mass[n]), look.task
    if not mass > 0.0:  # all rivals are apart
        return Seen(-math.inf, np.zeros_like(look.x), NO_CLASSES, np.zeros(0), None, None)
    mean, own = sums.mean[n] / mass, float(task.row @ look.x) + task.bias
    covariance = sums.second[n] / mass - np.outer(mean, mean) if look.covariance else None
    seen = Seen(top + math.log(mass) - own, mean, NO_CLASSES, np.zeros(0), covariance, None)
    if logits is None:
        return seen
    # The strongest are those with a share of the sum, or as many as there may be.
    rival = np.ones(len(logits), dtype=bool) if look.wide else logits >= top + math.log(look.share * mass)
    rival[look.outside] = False
    strong = np.flatnonzero(rival)
    if len(strong) > MOST:
        strong = strong[np.argpartition(logits[strong], -MOST)[-MOST:]]
    seen.strong, seen.margins = strong, logits[strong] - own
    if look.keep:
        below = logits - top
        weights = np.exp(np.maximum(below, NOTHING)).astype(np.float32)
        weights[below < NOTHING] = 0.0  # and no products of them that single precision has no normal numbers for
        weights[look.outside] = 0.0
        seen.known = Known(look.x, look.apart, top, mass, sums.mean[n], weights)
    return seen
