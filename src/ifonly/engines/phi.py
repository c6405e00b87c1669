"""K = 2 in closed form (section 4 of the paper).

For two classes the whole problem is one scalar equation. With ``w = a₂ − a₁`` and target 1, theorem 4.2 says

    x* = x̄ − (1/λ)(1 − p₁*) w,    p₁* = φ(α, β),    α = ‖w‖²/λ,    β = wᵀx̄ + w0 − α

where ``φ(α, β)`` is the unique root of ``t = 1/(1 + exp(αt + β))`` (theorem 4.1). The rival's probability obeys the same
equation, ``1 − φ(α, β) = φ(α, −α − β)``, so the mass ``q = 1 − p₁*`` that the answer is made of is ``φ(α, −s̄)`` with
``s̄ = wᵀx̄ + w0``, without the subtraction in ``β``.

How φ is computed. Of t and 1 − t the smaller is found first (the symmetry again), so let t ≤ ½. In ``ℓ = ln(αt)`` the
equation reads

    ℓ + softplus(eˡ + β) − ln α = 0,

increasing and convex in ℓ with slope between 1 and 1 + αt: Newton converges from either side, in 3 to 6 steps, and a
bracket catches what rounding might do. The last step is taken on the ratio ``t·(1 + e^{αt+β})``, which equals 1 at the
root: e^{αt+β} as a product of two exponentials where β > 0, so that no rounding of the sum ``αt + β`` is magnified.
For the same reason the rounding error of ``−α − β`` is kept (`_two_sum`) when the symmetry is used.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS

__all__ = ["logistic_root", "phi"]

MAX_STEPS = 200  # bisection alone needs fewer: the bracket in ℓ is at most some 1e3 wide, 60 halvings
# A last step in ℓ changes αt + β by no more than this (the convergence is quadratic and a polishing step follows), or ℓ by
# no more than some roundings.
STEP_TOL, ROUNDINGS = 1e-6, 8
ROUGH_STEP = 0.1  # of a convergence that is quadratic: two digits


def phi(alpha: ArrayLike, beta: ArrayLike, *, complement: bool = False) -> NDArray[np.float64]:
    """The root ``t`` of ``t = 1/(1 + exp(αt + β))``, to a few units in the last place (theorem 4.1 of the paper).

    Parameters
    ----------
    alpha : array_like, ≥ 0
    beta : array_like
        Broadcast against ``alpha``.
    complement : bool
        Return ``1 − t`` instead, also to a few units in the last place (where t is near 1, subtracting loses it).

    Examples
    --------
    >>> t = phi(2.0, -1.0)
    >>> float(t)
    0.5
    >>> float(phi(1.0, -50.0, complement=True))
    5.242885663363464e-22

    """
    a, c = np.broadcast_arrays(np.asarray(alpha, dtype=np.float64), np.asarray(beta, dtype=np.float64))
    if not (np.isfinite(a).all() and (a >= 0).all()):
        raise InputError("alpha must be finite and ≥ 0")
    if not np.isfinite(c).all():
        raise InputError("beta must be finite")
    flip = 0.5 * a + c < 0  # then t > ½: solve for 1 − t
    total, rest = _two_sum(a, c)
    small = _lower_root(a, np.where(flip, -total, c), np.where(flip, -rest, 0.0))
    return np.where(flip != complement, 1 - small, small)[()]


def _two_sum(a: Any, c: Any) -> tuple[Any, Any]:
    """``a + c`` and its rounding error, exactly (Knuth)."""
    total = a + c
    part = total - a
    return total, (a - (total - part)) + (c - part)


def _lower_root(a: NDArray[np.float64], c: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """φ(a, c + rest) where it is at most ½, that is a/2 + c ≥ 0; arrays."""
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        log_a = np.log(a)
        low = log_a - np.logaddexp(0, 0.5 * a + c)
        high = log_a - np.maximum(math.log(2.0), np.logaddexp(0, c))
        drop = log_a - c
        ell = np.where(drop > 1, np.log(drop - np.log(np.maximum(drop, 1))), high)
        ell = np.clip(ell, low, high)
        active = np.isfinite(log_a)
        for _ in range(MAX_STEPS):
            y = np.exp(ell)
            value = ell + np.logaddexp(0, y + c) - log_a
            low, high = np.where(value < 0, ell, low), np.where(value < 0, high, ell)
            step = value / (1 + y / (1 + np.exp(-(y + c))))
            new = ell - step
            new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
            done = np.abs(new - ell) <= np.maximum(STEP_TOL / (1 + y), ROUNDINGS * EPS * np.abs(ell))
            ell = np.where(active, new, ell)
            active = active & ~done
            if not active.any():
                break
        t = np.where(a > 0, np.exp(ell) / np.where(a > 0, a, 1), np.exp(-np.logaddexp(0, c)))
        # Polish on the ratio t(1 + e^{at+c}) = 1. For c > 700, at is nothing and t = e^{−c}.
        y = a * t
        odds = np.where(c > 0, np.exp(np.minimum(c, 700)) * np.exp(y + rest), np.exp(y + c))
        polished = t - t * (t * (1 + odds) - 1) / (1 + y * (1 - t))
        return np.where(c > 700, np.exp(-c) * np.exp(-rest), polished)


def logistic_root(a: float, c: float, *, rough: bool = False) -> tuple[float, float]:
    """``(t, 1 − t)`` for one ``t = φ(a, c)``, a ≥ 0: :func:`phi` for scalars, in microseconds; two digits if ``rough``."""
    if 0.5 * a + c < 0:
        total, rest = _two_sum(a, c)
        u = _lower_scalar(a, -total, -rest, rough)
        return 1 - u, u
    t = _lower_scalar(a, c, 0.0, rough)
    return t, 1 - t


def _lower_scalar(a: float, c: float, rest: float, rough: bool) -> float:
    """φ(a, c + rest) where it is at most ½; the array version above, step for step, on floats."""
    exp, log1p = math.exp, math.log1p
    if c > 700:
        return exp(-c) * exp(-rest) if c < 746 else 0.0
    if a <= 0:
        return 1 / (1 + exp(c))
    log_a = math.log(a)
    low = log_a - _softplus(0.5 * a + c)
    high = log_a - max(math.log(2.0), _softplus(c))
    drop = log_a - c
    ell = min(max(math.log(drop - math.log(drop)) if drop > 1 else high, low), high)
    for _ in range(MAX_STEPS):
        y = exp(ell)
        w = y + c
        e = exp(-abs(w))
        value = ell + max(w, 0.0) + log1p(e) - log_a
        if value < 0:
            low = ell
        else:
            high = ell
        new = ell - value / (1 + y / (1 + e) * (1 if w > 0 else e))
        if not low <= new <= high:
            new = 0.5 * (low + high)
        step, ell = abs(new - ell), new
        if rough and step <= ROUGH_STEP:
            return min(exp(ell) / a, 0.5)
        if step <= STEP_TOL / (1 + y) or step <= ROUNDINGS * EPS * abs(ell):
            break
    t = exp(ell) / a
    y = a * t
    odds = exp(c) * exp(y + rest) if c > 0 else exp(y + c)
    return t - t * (t * (1 + odds) - 1) / (1 + y * (1 - t))


def _softplus(w: float) -> float:
    return max(w, 0.0) + math.log1p(math.exp(-abs(w)))
