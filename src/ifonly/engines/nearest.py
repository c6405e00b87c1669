"""Which other class is nearest: one search, best bound first, shared by all engines.

Solving for all K − 1 classes would do, but a rival taken alone gives a lower bound in closed form, on the distance that a
wanted probability takes or on the least E for a given λ, and so do several, each alone. The classes are tried in the order of
their bounds until the next bound is no better than the best answer: usually after one or two. Limits only make a change dearer,
so that the bounds hold with them too, in units of cost.
"""

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from ifonly.engines.phi import phi
from ifonly.model import Model
from ifonly.model.numerics import Floats, Indices, norms, softmax
from ifonly.model.products import SHARED_GRAM
from ifonly.problem.asked import Aim, Aims
from ifonly.problem.goals import needed_logit
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["BOUNDING", "bound_of_all", "bound_within", "bounds_by_few", "by_subtraction", "candidates"]
__all__ += ["of_many", "of_one", "pair_bounds", "search", "wanted"]

BOUNDING = 8  # strong rivals that bound how far every other class is
BOUND_STEPS, SHARP = 30, 1e-3  # of the search for a bound within limits, until one changes it by less than this share
PROPORTIONS, TINY = 8, 1e-300  # of the rivals that are tried as one
LOOSE = 1e-7  # by as much may a length be off that was had by subtraction


def search(
    classes: Indices, bounds: Floats, solve: Callable[[int], Result], aim: Aim, sharpen: Callable[[int], float] | None = None
) -> Result:
    """The best of the answers for these classes, given lower bounds on what is minimised; solved as far as is needed.

    ``sharpen``, if given, has a better bound for a class, which is asked for when its turn would be. A class that cannot be
    reached is nearest only if none can, and then the one that comes closest to it.
    """
    best: tuple[bool, float] | None = None
    found: Result | None = None
    waiting = [(bound, i, sharpen is None) for i, bound in enumerate(bounds.tolist())]
    heapify(waiting)
    while waiting:
        bound, i, sharp = heappop(waiting)
        if best is not None and not best[0] and bound >= best[1]:
            break
        if sharpen is not None and not sharp:
            heappush(waiting, (max(bound, sharpen(int(classes[i]))), i, True))
            continue
        result = solve(int(classes[i]))
        value = aim.value(result)
        stopped = result.status in (Status.STOPPED, Status.MAX_ITER) and not math.isnan(result.cost)  # with an answer
        missed = not (result.status.ok or stopped) or not np.isfinite(value)
        rank = (missed, -float(result.proba[result.target]) if missed and result.proba.size else value)
        if best is None or rank < best:
            best, found = rank, result
    assert found is not None
    return found


def candidates(model: Model, aim: Aim, now: int) -> Indices:
    """The classes that will do: those of the set, or all but the one that is predicted now."""
    return np.delete(np.arange(model.n_classes), now) if aim.among is None else aim.among


def pair_bounds(margins: Floats, lengths: Floats, lam: Any, top: Any) -> Floats:
    """From each rival alone, with margin s and distance ‖ā‖ in weights: the least E for λ, or else the least distance.

    The first is theorem 4.2's, ``½hq² + ln(1 + e^{s − hq})`` with ``q = φ(h, −s)``, h = ‖ā‖²/λ; the second makes up ``s −
    top``.
    """
    if lam is None:
        gaps = np.maximum(margins - top, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(gaps > 0, gaps / lengths, 0.0)
    h = np.maximum(lengths * lengths / lam, 1e-300)
    q = phi(h, -margins)
    return 0.5 * h * q * q + np.logaddexp(0.0, margins - h * q)


def bound_within(gains: Floats, gap: float, mu: Floats, lo: Floats, hi: Floats) -> tuple[float, Floats]:
    """A lower bound on the least cost ``½‖t‖² + Σ μ|t|`` with ``gains·t ≥ gap`` and ``lo ≤ t ≤ hi``, and the t of it.

    Any multiplier ν ≥ 0 gives one, ``ν·gap + Σ min(½t² + μ|t| − ν gains·t)``. It is concave in ν and its derivative, what is
    left of the gap, convex but for μ, so that Newton's steps from ν = 0 rise to the best one.
    """
    nu, best, found = 0.0, 0.0, np.zeros_like(gains)
    for _ in range(BOUND_STEPS):
        pull = nu * gains
        inside = np.copysign(np.maximum(np.abs(pull) - mu, 0.0), pull)
        t = np.minimum(np.maximum(inside, lo), hi)
        left = gap - float(gains @ t)
        value = nu * left + float(t @ (0.5 * t)) + float(np.abs(t) @ mu)
        if nu > 0.0 and value <= (1 + SHARP) * best:
            break
        best, found = max(best, value), t
        moves = (t == inside) & (np.abs(pull) >= mu)
        slope = float(gains[moves] @ gains[moves])
        if left <= 0.0 or slope == 0.0:
            break
        nu += left / slope
    return best * (1 - LOOSE), found


def bound_of_all(rows: Floats, margins: Floats, top: float, mu: Floats, lo: Floats, hi: Floats, *, entropic: bool) -> float:
    """A lower bound on the least cost within limits that brings ``ln Σ e^s`` (or the largest s) to top, s = margins + rows t.

    For any proportions r of the rivals ``ln Σ e^s ≥ r·s + H(r)``, H their entropy: one rival. The hardest is taken first, then
    the proportions where that bound is reached, some times.
    """
    with np.errstate(divide="ignore"):
        r = np.eye(len(rows))[int(np.argmax((margins - top) / np.sqrt(np.vecdot(rows, rows))))]
    best = 0.0
    for turn in range(PROPORTIONS):
        entropy = -float(np.sum(r * np.log(np.maximum(r, TINY)))) if entropic else 0.0
        bound, t = bound_within(-(r @ rows), float(r @ margins) + entropy - top, mu, lo, hi)
        best = max(best, bound)
        there = margins + rows @ t
        r = r + (softmax(there) - r) / min(turn + 1, 2)
    return best


def wanted(model: Model, aim: Aim) -> float | None:
    """The logit of 1 − p_k that is to be reached; None where λ is given."""
    return None if aim.prob is None else float(needed_logit(aim.prob, model))


def of_one(model: Model, z: Floats, aim: Aim) -> tuple[Indices, Floats]:
    """The classes to try for one source, from ``z = rows @ x̄``, and their bounds."""
    now, K = int(model.best_class(z)), model.n_classes
    classes = candidates(model, aim, now)
    if len(classes) == 1:
        return classes, np.zeros(1)
    many = K >= SHARED_GRAM
    # Of dependent rows that are very many, the basis are the features.
    logits = (z if model.shares_gram else model.A @ z) + model.b if many else np.append(0.0, model.margins(z, 0))
    strong = np.argpartition(logits, -min(BOUNDING, K))[-BOUNDING:]
    if not many:
        lengths = model.pair_lengths[:, strong]
    elif model.shares_gram:
        G, squares = model.basis_gram, np.diagonal(model.basis_gram)
        lengths = by_subtraction(squares[:, None] - 2 * G[:, strong] + squares[strong], model.row_norm)
    else:
        lengths = np.stack([norms(model.A - model.A[j]) for j in strong], axis=1)
    return classes, bounds_by_few(logits, strong, lengths, aim.lam, wanted(model, aim))[classes]


def of_many(model: Model, Z: Floats, aims: Aims) -> Floats:
    """Bounds (rows × K) for many sources; infinite for classes that will not do."""
    now = model.best_class(Z)
    bounds = np.full((len(Z), model.n_classes), np.inf)
    for k in range(model.n_classes) if aims.among is None else aims.among.tolist():
        here = np.flatnonzero(now != k) if aims.among is None else np.arange(len(Z))
        margins, lengths = model.margins(Z[here], k), model.rival_lengths(k)
        if aims.lam is None:
            assert aims.prob is not None
            top = needed_logit(aims.prob[here], model)[:, None]
            bounds[here, k] = pair_bounds(margins, lengths, None, top).max(axis=1)
        else:  # the class that is predicted now, as the one rival
            j = now[here] - (now[here] > k)
            j[now[here] == k] = 0
            alone = pair_bounds(margins[np.arange(len(here)), j], lengths[j], aims.lam[here], None)
            bounds[here, k] = np.where(now[here] == k, 0.0, alone)
    return bounds


def bounds_by_few(logits: Floats, strong: Indices, lengths: Floats, lam: float | None, top: Any) -> Floats:
    """Bounds for all K classes from a few strong rivals, each alone; ``lengths`` (K, n) are the distances from their rows."""
    bounds = pair_bounds(logits[strong] - logits[:, None], lengths, lam, top)
    bounds[strong, np.arange(len(strong))] = 0.0  # no class is its own rival
    return bounds.max(axis=1)


def by_subtraction(squares: Floats, size: float) -> Floats:
    """Lengths, rounded up, whose squares were had by subtraction, of numbers of this ``size`` squared."""
    return np.sqrt(np.maximum(squares, 0.0)) * (1 + LOOSE) + LOOSE * size
