"""A probability within limits: the search for λ around `semismooth.solve`.

λ multiplies the whole cost here, so that μ counts λμ, and logit(1 − p_k) rises with ln λ: Newton on it, in a bracket. Where
the target is out of reach, p_k rises to its largest value as λ falls, and the multipliers on the way bound it from above.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ifonly.engines.lam_search import Bracket
from ifonly.engines.responses import Terms
from ifonly.engines.semismooth import MAX_TRIALS, Response, Start, logit_slope, noise, solve

__all__ = ["Target", "reach"]


MAX_STEPS = 80  # of the search for λ
LONGEST_STEP = math.log(100.0)
MOST_LAM = 1e12
IDLE = 1e4  # times the first guess: a λ above it is one of a problem in which the goal asks for less than the limits
FLAT_LOGIT = 1e-12  # a logit that rises by less with ln λ is flat
LEAST_LAM = 1e-30  # relative to the first guess: what is not reached there is not reached
ROUGH_LAM = 1e-8  # … and one that is not even solved here
NARROW = 1e-8  # relative: between answers for λ so near to each other, a straight line is as good as the path


class Target(NamedTuple):
    """What `reach` is to reach, and how it can know that it cannot."""

    prob: float
    logit: float  # of 1 − prob
    miss: Callable[[Response], tuple[float, float]]  # by how much the logit is above what it has to be; how far below will do
    ceiling: Callable[[Response], float]  # an upper bound on p_k within the limits, from a point's multipliers


def reach(terms: Terms, target: Target, start: Response | Start | None = None) -> tuple[Response, int, bool]:
    """The answer for the largest λ at which the target is met, the iterations, and whether it is met.

    Where it is not, the largest p_k that was found.
    """
    first = lam = _first_lam(terms, target, start)
    bracket, at, n_iter = Bracket(LONGEST_STEP), start, 0
    met: Response | None = None  # the last point that meets the target
    short: Response | None = None  # of those that miss it, that with the largest p_k
    for _ in range(MAX_STEPS):
        # 1. Solve for this λ, and see whether the target is met.
        at, more, found = solve(terms, lam, lam, start=at)
        n_iter, (miss, width) = n_iter + more, target.miss(at)
        blur = max(width, 4 * noise(terms, at))
        bracket.saw(lam, miss)
        if miss <= 0:
            met = at  # as much as wanted, or between this and one that misses; or more because the limits ask for it
            if miss >= -width or (miss >= -blur and short is not None) or lam >= MOST_LAM * first:
                break
        else:  # 2. Out of reach.
            short = min(at, short or at, key=lambda point: point.loss)
            if met is None and _no_more(terms, target, at, found, first):
                break
        if terms.late or bracket.shut(NARROW):
            break
        # 3. The next λ: a Newton step, aimed at the middle of what is allowed.
        slope = logit_slope(terms, at)
        lam = bracket.next(lam, miss + 0.5 * (width if miss > 0 else blur), slope if slope > FLAT_LOGIT else 0.0)
        if lam is None:
            break
    if met is None:
        assert short is not None
        return short, n_iter, False
    return _between(met, short, target), n_iter, True


def _no_more(terms: Terms, target: Target, at: Response, found: bool, first: float) -> bool:
    """Whether time is up, λ so small that no more of p_k is to be had, or a point that misses the target shows that all do."""
    return terms.late or at.lam <= (LEAST_LAM if found else ROUGH_LAM) * first or target.ceiling(at) < target.prob


def _first_lam(terms: Terms, target: Target, start: Response | Start | None) -> float:
    """That of a start; or of the problem with the rival alone that is hardest to beat, or (all are beaten) is least so."""
    square = np.square(terms.B[:, terms.lo < terms.hi]).sum(axis=1)
    ahead = terms.margins - target.logit
    gaps, far = np.maximum(ahead, 1e-3), np.where(square > 0, ahead / np.sqrt(np.where(square > 0, square, 1.0)), -math.inf)
    j = int((far if far.max() > 0 else np.where(square > 0, ahead, -math.inf)).argmax())
    mass = 1 / (1 + math.exp(min(-target.logit, 700.0)))
    alone = float(square[j]) * mass / float(gaps[j]) or 1.0
    return alone if start is None else min(start.lam, IDLE * alone)


def _between(met: Response, short: Response | None, target: Target) -> Response:
    """The point between two on both sides of the target that meets it with nothing to spare, by regula falsi.

    Where λ is small, λ·t is a difference of larger numbers, and no λ may hit the target to the last digit. What is at a bound
    or stays in the first point does so in the answer.
    """
    if short is None:
        return met
    step = np.where(met.free, short.t - met.t, 0.0)
    miss, width = target.miss(met)
    a, b, at = (0.0, miss), (1.0, target.miss(replace(met, t=met.t + step))[0]), met
    for _ in range(MAX_TRIALS):
        if a[1] >= -width or not a[1] < 0 < b[1]:
            break
        x = a[0] + (b[0] - a[0]) * a[1] / (a[1] - b[1])
        new = replace(met, t=met.t + x * step)
        miss, width = target.miss(new)
        if miss <= 0:
            a, at = (x, miss), new
        else:
            b = (x, miss)
    return at
