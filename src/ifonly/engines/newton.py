"""Newton's method for one inverse problem, in either set of coordinates of `spaces`.

    1. r ← the residual at the point; stop if ‖∇E‖ ≤ tol
    2. d ← Newton's direction (theorem 3.6, in class space), and the third-order correction from the same factor
    3. accept the corrected full step if E falls, else backtrack along d, full step first (section 3.3)
    4. stop if the step was so short that the next would be lost in rounding

The measure of a step is ``δ = max|Δs|``, the largest change of a margin: the third derivative of ln Σ exp along a direction
is at most the range of the margins' changes (≤ 2δ) times the second, so a Newton step leaves an error of about δ of its own
length and a third-order one δ², whatever λ, D or the scale of A.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.coordinates import Factor, Floats, Point, Space
from ifonly.model.numerics import EPS, length
from ifonly.problem.results import Iteration

__all__ = ["MAX_ITER", "Outcome", "Solved", "minimise", "newton"]

MAX_ITER = 100  # five or so are usual; starts chosen by the user may need more
USUAL = 8  # iterations after which rounding may be what keeps it from ending
BACKTRACK = 0.8  # the paper's ρ
ACROSS = 1e-4  # of the lengths of a slope and a direction, their product where these are at right angles but for rounding
LEAST_STEP = 1e-60  # where a margin of 1e3 rests on features in units of 1e8, the first step can be 1e-20
ARMIJO = 1e-4  # of order 3: this much decrease makes the convergence theorem hold; order 2 is the paper's, with plain decrease

# A step that moved no margin by more than this is the last: what it leaves is of the order of δ² (order 2) or δ³ (order 3).
CLOSE = {2: 1e-8, 3: 1e-5}
ROUNDINGS = 8  # … and so is one that moved none by more than this many roundings of the margins themselves

PATIENCE = 40  # iterations after which Newton is taken to zigzag
HOT, COOLING, ROUGH = 10.0, 10.0, 1e-2  # margins at the first temperature; how fast it falls; how well each is solved


@dataclass(slots=True)
class Outcome:
    """Where the method ended."""

    space: Space
    point: Point
    converged: bool  # to what was asked for
    precise: bool  # … and no further digit can be had
    history: tuple[Iteration, ...]
    factor: Factor | None = None  # Newton's matrix just before the last step: all but at the point
    n_iter: int = -1  # iterations; those of the history unless it is said

    def __post_init__(self) -> None:
        if self.n_iter < 0:
            self.n_iter = len(self.history)

    def tangent(self) -> tuple[Floats, float]:
        """The derivatives along ln λ of an answer's coordinates and of its logit(1 − p_k)."""
        p = self.point.p
        tangent, ds = (self.factor or self.space.factor(self.point)).tangent()
        mass = float(np.add.reduce(p))
        return tangent, float(p @ ds) / mass if mass > 0.0 else 0.0

    def carried(self, tangent: Floats, lam: float) -> tuple[Space, Floats]:
        """The same problem with another λ, and the coordinates that the tangent leads to."""
        change, slope = self.space.knot(self.point, tangent)
        there = self.space.at(lam)
        return there, there.from_knot(change + math.log(lam / self.space.lam) * slope)


class Solved(NamedTuple):
    """What a row loop found for B sources with the same target, in the coordinates q of `coordinates.Rivals`."""

    q: Any  # (B, n), n = K − 1 rivals
    p: Any  # (B, n) the rivals' probabilities
    p_target: Any  # (B,)
    lam: Any  # (B,)
    objective: Any  # (B,) E
    grad_norm: Any  # (B,) ‖∇E‖ as computed, without an allowance for rounding
    square: Any  # (B,) qᵀḠq: the distance is its root over λ
    n_iter: Any  # (B,) int
    done: Any  # (B,) bool: False for a row that is left to the single-source method


def minimise(
    space: Space, start: Floats, *, tol: float | None = None, max_iter: int = MAX_ITER, close: float | None = None
) -> Outcome:
    """`newton` of third order, with a detour for the problems on which it zigzags.

    Where margins are in the thousands, the loss is a maximum of planes but for a hair, and Newton's steps bounce between
    them. Then the answer is followed down a temperature T: the loss T·ln Σ exp(s/T) has the corners rounded off.
    """
    outcome = newton(space, start, tol=tol, max_iter=min(max_iter, PATIENCE), close=close)
    if outcome.converged or max_iter <= PATIENCE:
        return outcome
    at, history = start, outcome.history
    temperature = space.size / HOT
    while temperature > 1:
        cooled = newton(space.at_temperature(temperature), at, max_iter=PATIENCE, close=ROUGH)
        at, history = cooled.point.at, history + cooled.history
        temperature /= COOLING
    last = newton(space, at, tol=tol, max_iter=max_iter, close=close)
    return replace(last, history=history + last.history, n_iter=-1)


def newton(
    space: Space,
    start: Floats,
    *,
    tol: float | None = None,
    order: int = 3,
    max_iter: int = MAX_ITER,
    close: float | None = None,
) -> Outcome:
    """Minimise E, to ``‖∇E‖ ≤ tol`` or, with ``tol=None``, until no further digit can be had.

    ``order=2`` is the paper's method, iterate for iterate; 3 adds the correction. ``close`` replaces `CLOSE`, for callers
    that need only a rough answer.
    """
    if close is None:
        close = CLOSE[order] if tol is None else 0.0
    armijo = ARMIJO if order == 3 else 0.0
    size = space.size
    history: list[Iteration] = []
    point, factor = space.evaluate(start), None
    while True:
        # 1. Small enough?
        if tol is not None and point.grad_norm <= tol:
            return Outcome(space, point, True, False, tuple(history), factor)
        if len(history) >= max_iter:
            return Outcome(space, point, False, False, tuple(history), factor)

        # 2. Newton's direction.
        factor = space.factor(point)
        direction = _downhill(point, factor.newton())
        ds = factor.margins_along(direction)
        delta = max(-float(ds[ds.argmin()]), float(ds[ds.argmax()]))

        # 3. The step: the full one, corrected, or what is left of it.
        slack = _slack(point, size)
        decrease, step, trials = armijo * float(point.slope.dot(direction)), 1.0, 1
        bent = order == 3 and delta > CLOSE[2]  # below, the correction is nothing
        if bent:
            new = space.evaluate(point.at + (direction + factor.correction(ds)))
        else:
            new = space.evaluate(point.at + direction, point.moved - ds)
        if not new.objective <= point.objective - decrease + slack:
            size = max(size, float(space.terms(point).max()))  # margins may have moved by large terms that all but cancel
            slack = _slack(point, size)
        if not new.objective <= point.objective - decrease + slack:
            new, step, trials = _backtrack(space, point, direction, ds, decrease, slack, bent, order)
            if new is None:
                return Outcome(space, point, False, False, tuple(history))
        history.append(Iteration(point.objective, point.grad_norm, step, trials))
        old, point = point, new

        # 4. Nothing left to gain? Late, only rivals count whose change shows in 1 − p_k: a margin of 1e13 is all noise.
        least = ROUNDINGS * EPS * (size + 1)
        delta = min(delta, _shown(space, ds, old, point, len(history)))
        if step == 1.0 and delta <= max(least, close):
            return Outcome(space, point, True, delta <= max(least, CLOSE[order]), tuple(history), factor)


def _downhill(point: Point, direction: Floats) -> Floats:
    """A direction; where E rises along it, the other way: rounding chose its sign, where λ is nothing beside the curvature.

    But not where the whole of it is rounding, as where rivals depend on each other: that is across the slope.
    """
    rise = -float(point.slope.dot(direction))
    return -direction if rise > 0 and rise > ACROSS * length(point.slope) * length(direction) else direction


def _slack(point: Point, size: float) -> float:
    """By how much E may seem to rise where margins are made of terms of this size."""
    return ROUNDINGS * EPS * (abs(point.objective) + size * float(np.add.reduce(point.p)))


def _shown(space: Space, ds: Floats, old: Point, new: Point, n_iter: int) -> float:
    """The largest change of a margin that shows in 1 − p_k and is more than its own rounding; ∞ before `USUAL` iterations."""
    if n_iter <= USUAL:
        return math.inf
    moved, noise = np.abs(ds), ROUNDINGS * EPS * space.terms(new)
    shows = np.maximum(old.p, new.p) * moved > EPS * float(np.add.reduce(old.p))
    return float(moved.max(where=shows & (moved > noise), initial=0.0))


def _backtrack(
    space: Space, point: Point, direction: Floats, ds: Floats, decrease: float, slack: float, bent: bool, order: int
) -> tuple[Point | None, float, int]:
    """Along Newton's direction until E falls: the new point, the step's length, the trials with the one before.

    The full step comes first if what was tried was ``bent``. No point where none was short enough.
    """
    trials, step = 1, 1.0 if bent else BACKTRACK
    while step >= LEAST_STEP:
        trials += 1
        trial = space.evaluate(point.at + step * direction, point.moved - step * ds)
        if trial.objective <= point.objective - step * decrease + slack:
            return trial, step, trials
        step *= BACKTRACK if trials < 30 or order == 2 else 0.1
    return None, step, trials
