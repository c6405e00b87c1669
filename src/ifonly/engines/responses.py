"""How features answer to a pull of the classes, one by one, and the multipliers of the rules that tie them together."""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.budget import EIGENVECTORS, PRODUCT, Budget
from ifonly.engines.lapack import dposv
from ifonly.model.numerics import EPS, Flags, Floats

__all__ = ["FIRM", "Terms", "free_features", "nearest", "respond"]

INNER = 100  # steps for the multipliers of linear limits; two or three are usual
FLAT = 1e-10  # curvature along a combination of rows, relative to that with all features free: below, there is none
UNSETTLED = 1e3  # roundings: below, rows that Newton no longer brings to hold differ by rounding
FIRM = 1e-3  # what every row adds to those before it: then nothing is flat, and it takes no axes to see that
ENDLESS = 1e15  # times the step at which all features are free: a multiplier that has no end


class Terms(NamedTuple):
    """One problem in units of cost, without λ."""

    B: Floats  # (n, D)
    margins: Floats  # (n,) s̄
    mu: Floats  # (D,)
    lo: Floats  # (D,)
    hi: Floats  # (D,)
    C: Floats  # (m, D)
    rest: Floats  # (m,)
    low: Floats  # (m,) range of the multipliers: [0, ∞) for C t ≤ c, all numbers for C t = c, …
    high: Floats  # (m,) … and [−μ, μ] for a term μ|C t − c|
    slip: Floats  # (m,) how far c is off by rounding
    budget: Budget = Budget()  # when to give up
    loops: Any = None  # the compiled loops (`native.compiled`), or None for NumPy

    @property
    def late(self) -> bool:
        """Whether there is no time for another of Newton's steps."""
        n, D = self.B.shape
        return not self.budget.allows(n * n * (n + D), PRODUCT)


def free_features(terms: Terms, t: Floats) -> Flags:
    """The features that are free to move."""
    return (t > terms.lo) & (t < terms.hi) & ((t != 0.0) | (terms.mu == 0.0))


def respond(terms: Terms, lam: float, weight: float, u: Floats, nu: Floats) -> tuple[Floats, Floats]:
    """Every feature's t for the pull −(u + Cᵀν), and ν, the multipliers of the linear limits."""
    mu = weight * terms.mu
    if not len(terms.C):
        return _answers(terms, lam, mu, -u), nu
    C, rest, low, high = terms.C, terms.rest, weight * terms.low, weight * terms.high
    lengths, sizes = np.sqrt(np.square(C).sum(axis=1)), np.abs(C)
    lengths[lengths == 0.0] = math.inf  # a row over features that cannot change
    bends = bool(mu.any() or np.isfinite(terms.lo).any() or np.isfinite(terms.hi).any())

    def at(nu: Floats) -> tuple[Floats, Floats, Floats]:
        pull = -(u + nu @ C)
        t = _answers(terms, lam, mu, pull)
        return pull, t, C @ t - rest

    # The multipliers maximise a concave function whose gradient is ``over``. An active set: Newton on those inside their
    # ranges, as far as the first that comes to an end; where these are settled, the one at an end that gains most is let go.
    # (All that gain at once, with the step projected onto the ranges, zigzags where bounds and ℓ1 terms take turns.)
    nu = np.minimum(np.maximum(nu, low), high)
    pull, t, over = at(nu)
    off = math.inf
    for _ in range(INNER + 4 * len(C)):
        if not terms.budget.allows(min(C.shape) ** 3, EIGENVECTORS):
            break
        free = free_features(terms, t)
        terms_of_t = np.where(free, (np.abs(u) + np.abs(nu) @ sizes + mu) / lam, 0.0)  # they may cancel, but each rounds
        rounding = 4 * EPS * (sizes @ (np.abs(t) + terms_of_t) + np.abs(rest)) + terms.slip + 1e-300
        inside = (nu > low) & (nu < high)
        work = np.flatnonzero(inside)
        before, off = off, float((np.abs(over[work]) / rounding[work]).max(initial=0.0))
        if off <= 1.0 or 0.5 * before < off < UNSETTLED:
            gain = np.where(inside | (low == high), 0.0, np.where(nu <= low, over, -over) - rounding) / lengths
            best = int(gain.argmax())
            if not gain[best] > 0:
                break
            work = np.append(work, best)
        change = np.zeros(len(nu))
        size, noise = lengths[work], float((rounding[work] / lengths[work]).max())
        step, curved = _newton_rows(C[work] / size[:, None] * free, over[work] / size, noise)
        change[work] = lam * step / size
        slope = float(over @ change)
        if not slope > 0:
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            until = np.where(change < 0, (low - nu) / change, np.where(change > 0, (high - nu) / change, math.inf))
        first = int(until.argmin())
        most = float(until[first])
        alpha: float | None = min(1.0, most)  # where nothing bends, and Newton has a step
        if bends or not curved:
            turns = _turns(terms, lam, mu, pull, -(change @ C))
            alpha = _length(lambda alpha, nu=nu, change=change: float(at(nu + alpha * change)[2] @ change), turns, slope, most)
        if alpha is None:  # no t keeps the rows, if only by a rounding
            break
        before_step, nu = nu, nu + alpha * change
        if alpha == most:
            nu[first] = low[first] if change[first] < 0 else high[first]
        if (nu == before_step).all():  # by less than numbers can tell
            break
        pull, t, over = at(nu)
    return t, nu


def _turns(terms: Terms, lam: float, mu: Floats, pull: Floats, more: Floats) -> Floats:
    """How much of ``more`` a pull takes until an answer turns: where it comes to a bound, or leaves it or the source."""
    lo, hi = lam * terms.lo, lam * terms.hi
    ends = np.stack([lo + np.copysign(mu, lo), -mu, mu, hi + np.copysign(mu, hi)])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a turn that is farther than floats go is none
        turns = ((ends - pull) / more)[:, more != 0.0]
    return np.unique(turns[np.isfinite(turns) & (turns > 0.0)])


def _length(slope_at: Callable[[float], float], turns: Floats, slope: float, most: float) -> float | None:
    """How far along a step the slope, which falls in lines between ``turns``, is 0, or to its end; None if it never is."""
    ends, slope_at = turns[turns < most].tolist() + ([most] if math.isfinite(most) else []), cache(slope_at)
    last = bisect_left(ends, 0.0, key=lambda alpha: -slope_at(alpha))
    near = ends[last - 1] if last else 0.0
    left = slope_at(near) if last else slope
    if last == len(ends) and (near == most or left <= 0.1 * slope):  # the end, or rows that no t keeps by a rounding
        return near
    far = ends[last] if last < len(ends) else near + max(near, 1.0)
    fall = (left - slope_at(far)) / (far - near)
    alpha = near + left / fall if fall > 0 else math.inf
    return alpha if alpha <= ENDLESS else None


def _newton_rows(CF: Floats, over: Floats, noise: float) -> tuple[Floats, bool]:
    """(C_F C_Fᵀ)⁻¹over for rows of length 1, or the part of ``over`` that no free feature curves; if it is surely the first."""
    gram = CF @ CF.T
    factor, step, failed = dposv(gram, over)
    if not failed and np.diag(factor).min() > FIRM:
        return step, True
    curve, axes = np.linalg.eigh(gram)
    along, flat = over @ axes, curve <= FLAT
    if np.abs(along[flat]).max(initial=0.0) > max(noise, FLAT * np.abs(along).max()):
        return axes @ np.where(flat, along, 0.0), False
    return axes @ np.where(flat, 0.0, along / np.where(flat, 1.0, curve)), False


def nearest(terms: Terms) -> tuple[Floats, Floats]:
    """The cheapest t within the limits, whatever the classifier says, and the multipliers of the linear ones."""
    return respond(terms, 1.0, 1.0, np.zeros(terms.B.shape[1]), np.zeros(len(terms.C)))


def _answers(terms: Terms, lam: float, mu: Floats, pull: Floats) -> Floats:
    """T of every feature for a pull, clip(soft(pull, μ)/λ)."""
    t = np.abs(pull)
    t -= mu
    np.maximum(t, 0.0, out=t)
    t /= lam
    np.copysign(t, pull, out=t)
    return np.minimum(np.maximum(t, terms.lo), terms.hi)
