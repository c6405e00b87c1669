"""The two sets of coordinates in which one inverse problem is solved; D appears in neither.

`Rivals` (nearly always): x = x̄ − Āᵀq/λ, one number q_j per rival of the target. With H = Ḡ/λ, Ḡ = Ā Āᵀ,

    s  = s̄ − H q                            margins at x
    p  = eˢ / (1 + Σ eˢ)                    the rivals' probabilities; 1 − p_k = Σ p, nothing subtracted from 1
    E  = ½ qᵀH q + ln(1 + Σ eˢ)             eq. (2) of the paper
    r  = p − q                              ∇E = Āᵀr, so ‖∇E‖² = λ rᵀH r; at the answer q = p
    Δq = (I + S H)⁻¹ r                      the Newton step of theorem 3.6, S = diag(p) − p pᵀ
       = r − R M⁻¹ Rᵀ H r                   with S = R Rᵀ, R = diag(v)(I − c v vᵀ), v = √p, c = 1/(1 + √p_k)
    M  = I + Rᵀ H R                         ⪰ I always: no 1/p, no 1 − vᵀH⁻¹v, nothing that underflows

`Basis` (fewer features than rivals, or rivals that depend on each other): x = x̄ + Bᵀξ with B's rows orthonormal, L = Ā Bᵀ,

    s  = s̄ + L ξ,    E = (λ/2)‖ξ‖² + ln(1 + Σ eˢ),    ∇E = Bᵀ(λξ + Lᵀp),    Δξ = −(λI + Lᵀ S L)⁻¹(λξ + Lᵀp).

There the target may have its rows on all sides; then Āᵀq/λ is a small difference of large terms as λ → 0, and the
first form loses a digit for each power of ten of 1/λ. The second loses none, but pays a matrix product per step.

Both give the third-order step (Chebyshev's method) from the factor they have, and the derivative of the answer along ln λ.
docs/math.md derives all of it.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ifonly.engines.lapack import dpotrf, dpotrs
from ifonly.engines.phi import logistic_root
from ifonly.model.numerics import EPS, Floats

__all__ = ["Basis", "Factor", "Point", "Rivals", "Space"]


PAIRS = 8  # coordinate steps of the start, see start_from_pairs
MANY_RIVALS = 20  # more than these may be about as strong: `start_evenly`
EVEN_STEPS = 12  # of its search, five are usual
SHOWN = 1e-6  # of the trace of LᵀSL: directions that it stretches less than that have lost half of their digits in it
PAIR_TOL = 1e-2  # a coordinate step that changes q by less than this share ends the start


@dataclass(slots=True)
class Point:
    """An iterate: its coordinates (q or ξ) and what is known of it."""

    at: Floats
    p: Floats  # the rivals' probabilities
    p_target: float
    objective: float
    grad_norm: float
    residual: Floats  # p − q, or −(λξ + Lᵀp)
    slope: Floats  # minus the derivative of E in these coordinates: H r, or the residual itself
    moved: Floats  # s̄ − s

    @property
    def logit(self) -> float:
        """That of 1 − p_k."""
        return logit(float(np.add.reduce(self.p)), self.p_target)


def logit(mass: float, rest: float) -> float:
    """``ln(mass/rest)``, infinite at the ends."""
    if mass == 0.0:
        return -math.inf
    return math.log(mass) - math.log(rest) if rest > 0.0 else math.inf


def logistic(logit: float) -> float:
    """1/(1 + e^{−L}), the inverse of it."""
    return 1 / (1 + math.exp(-logit)) if logit > -700 else math.exp(logit)


class Rivals:
    """Coordinates q: one number per rival."""

    def __init__(self, gram: Floats, margins: Floats, lam: float, size: float | None = None) -> None:
        self.gram, self.margins, self.lam = gram, margins, lam
        self.size = float(np.abs(margins).max()) if size is None else size
        self.H = gram / lam

    def at(self, lam: float) -> "Rivals":
        """The same problem with another λ."""
        return Rivals(self.gram, self.margins, lam, self.size)

    def at_temperature(self, T: float) -> "Rivals":
        """The same problem with ``T·ln Σ exp(s/T)`` for the loss, divided by T."""
        return Rivals(self.gram / T, self.margins / T, self.lam)

    def source(self) -> Floats:
        """The coordinates of x̄."""
        return np.zeros_like(self.margins)

    def start(self) -> Floats:
        """Coordinates near the answer."""
        return start_from_pairs(self.H, self.margins)

    def near(self, margins: Floats) -> Floats:
        """The coordinates of the point (or, where there is none, the nearest to one) with these margins."""
        return np.linalg.lstsq(self.H, self.margins - margins, rcond=None)[0].astype(np.float64, copy=False)

    def distance(self, point: Point) -> float:
        """``‖x − x̄‖``."""
        return math.sqrt(max(float(point.at @ point.moved), 0.0) / self.lam)

    def terms(self, point: Point) -> Floats:
        """The sums of terms, all taken as positive, that margins moved by: what their rounding is a share of."""
        return np.abs(self.H).dot(np.abs(point.at))

    def grad_bound(self, point: Point, lengths: Floats) -> float:
        """‖∇E‖, safe from the rounding in the square ``rᵀH r`` (its root is off by 1e-8 of the terms at most)."""
        terms = float(np.abs(point.residual) @ lengths)
        return min(terms, point.grad_norm + 1e-7 * terms)

    def evaluate(self, q: Floats, known: Floats | None = None) -> Point:
        """E and its derivative at q; ``known``, if given, is what ``moved`` comes to, for `rounds.ManyRivals`."""
        return self.moved_by(q, self.times(q))

    def times(self, q: Floats) -> Floats:
        """H q."""
        return self.H.dot(q)  # dot: less overhead than @, which shows where K is small

    def moved_by(self, q: Floats, moved: Floats) -> Point:
        """`evaluate`, given H q."""
        p, p_target, loss = rivals_softmax(self.margins - moved)
        r = p - q
        slope = self.times(r)
        grad_norm = math.sqrt(self.lam * max(float(r.dot(slope)), 0.0))
        return Point(q, p, p_target, 0.5 * float(q.dot(moved)) + loss, grad_norm, r, slope, moved)

    def knot(self, point: Point, tangent: Floats) -> tuple[Floats, Floats]:
        """The change that an answer makes, ``q/λ``, and its derivative along ln λ: smoother than q, which falls like λ."""
        return point.at / self.lam, (tangent - point.at) / self.lam

    def from_knot(self, change: Floats) -> Floats:
        """Coordinates from a change as in `knot`."""
        return change * self.lam

    def factor(self, point: Point) -> "RivalsFactor":
        """Newton's matrix at a point, factorised."""
        return RivalsFactor(self.H, point)


class RivalsFactor:
    """``(I + S H)⁻¹`` at a point, from one Cholesky factorisation of M."""

    __slots__ = ("H", "c", "chol", "point", "v")

    def __init__(self, H: Floats, point: Point) -> None:
        p = point.p
        v = np.sqrt(p)
        c = 1 / (1 + math.sqrt(point.p_target))
        g = point.moved + point.slope  # H p
        half = c * g - (0.5 * c * c) * p.dot(g)
        M = H - (half[:, None] + half)  # M_ij = v_i v_j (H_ij − c(g_i + g_j) + c²pᵀg) + δ_ij
        M *= v[:, None]
        M *= v
        M.ravel()[:: len(p) + 1] += 1.0
        self.chol = _cholesky(M)
        self.H, self.point, self.v, self.c = H, point, v, c

    def _spread(self, Hr: Floats) -> Floats:
        """``R M⁻¹ Rᵀ H r``."""
        p, v, c = self.point.p, self.v, self.c
        t, _ = dpotrs(self.chol, v * (Hr - c * p.dot(Hr)), lower=1)
        t *= v
        t -= (c * np.add.reduce(t)) * p
        return t

    def newton(self) -> Floats:
        """Newton's direction Δq."""
        return self.point.residual - self._spread(self.point.slope)

    def margins_along(self, direction: Floats) -> Floats:
        """Δs along a direction."""
        return -self.H.dot(direction)

    def correction(self, ds: Floats) -> Floats:
        """What turns Newton's step into Chebyshev's: ``(I + S H)⁻¹ ½p''[Δs, Δs]``."""
        bend = second_derivative(self.point, ds)
        return bend - self._spread(self.H.dot(bend))

    def tangent(self) -> tuple[Floats, Floats]:
        """``dq/d ln λ`` and ``ds/d ln λ`` at an answer."""
        dq = self._spread(self.point.moved)
        return dq, self.point.moved - self.H @ dq


class Basis:
    """Coordinates ξ: along an orthonormal basis of all changes there can be."""

    def __init__(self, L: Floats, margins: Floats, lam: float, size: float | None = None) -> None:
        self.L, self.margins, self.lam = L, margins, lam
        self.size = float(np.abs(margins).max()) if size is None else size

    def at(self, lam: float) -> "Basis":
        """The same problem with another λ."""
        other = Basis(self.L, self.margins, lam, self.size)
        if "turned" in vars(self):
            other.turned = self.turned
        return other

    @cached_property
    def turned(self) -> tuple[Floats, Floats]:
        """``L V`` and V, orthonormal columns that L stretches the longer the earlier they come, and none that it does not."""
        U, sizes, V = np.linalg.svd(self.L, full_matrices=False)
        rank = max(1, int((sizes > EPS * sizes[0]).sum()))
        return U[:, :rank] * sizes[:rank], V[:rank].T

    def at_temperature(self, T: float) -> "Basis":
        """The same problem with ``T·ln Σ exp(s/T)`` for the loss, divided by T."""
        return Basis(self.L / T, self.margins / T, self.lam / T)

    def source(self) -> Floats:
        """The coordinates of x̄."""
        return np.zeros(self.L.shape[1])

    def start(self) -> Floats:
        """Coordinates near the answer, or the source: where pulls cancel in Lᵀq/λ, what is left of them may be rounding."""
        near = -(self.L.T @ start_from_pairs(self.L @ self.L.T / self.lam, self.margins)) / self.lam
        return near if self.evaluate(near).objective < rivals_softmax(self.margins)[2] else self.source()

    def near(self, margins: Floats) -> Floats:
        """The coordinates of the point (or, where there is none, the nearest to one) with these margins."""
        return np.linalg.lstsq(self.L, margins - self.margins, rcond=None)[0].astype(np.float64, copy=False)

    def distance(self, point: Point) -> float:
        """``‖x − x̄‖``."""
        return float(np.linalg.norm(point.at))

    def terms(self, point: Point) -> Floats:
        """The sums of terms, all taken as positive, that margins moved by: what their rounding is a share of."""
        return np.abs(self.L).dot(np.abs(point.at))

    def grad_bound(self, point: Point, lengths: Floats) -> float:
        """‖∇E‖, with what the basis itself may have left out (singular values below K·EPS of the largest)."""
        K = len(lengths) + 1
        return point.grad_norm + 4 * K**1.5 * EPS * float(lengths.max()) * float(point.p.sum())

    def evaluate(self, xi: Floats, known: Floats | None = None) -> Point:
        """E and its derivative at ξ."""
        moved = -(self.L @ xi)
        p, p_target, loss = rivals_softmax(self.margins - moved)
        descent = -(self.lam * xi + self.L.T @ p)
        grad_norm = math.sqrt(float(descent @ descent))
        return Point(xi, p, p_target, 0.5 * self.lam * float(xi @ xi) + loss, grad_norm, descent, descent, moved)

    def knot(self, point: Point, tangent: Floats) -> tuple[Floats, Floats]:
        """The change that an answer makes, ξ, and its derivative along ln λ."""
        return point.at, tangent

    def from_knot(self, change: Floats) -> Floats:
        """Coordinates from a change as in `knot`."""
        return change

    def factor(self, point: Point) -> "BasisFactor":
        """Newton's matrix at a point, factorised."""
        return BasisFactor(self, point)


class BasisFactor:
    """``N⁻¹ = (λI + Lᵀ S L)⁻¹`` at a point.

    In coordinates of its own, `Basis.turned`, where what L hardly stretches would be lost in the rounding of N: there a margin
    moves only far away, and Newton's steps would be so short that they seem to be the last.
    """

    __slots__ = ("L", "chol", "lam", "point", "turned")

    def __init__(self, space: Basis, point: Point) -> None:
        self.L, self.lam, self.point = space.L, space.lam, point
        self.turned: tuple[Floats, Floats] | None = None  # V, and the root of N's diagonal there, which it is scaled by
        N = _squared(space.L, point)
        if self.lam < SHOWN * float(np.trace(N)):
            L, V = space.turned
            N = _squared(L, point)
            units = np.sqrt(np.diag(N) + self.lam)
            self.turned = V, units
            N /= units[:, None] * units
            N.ravel()[:: len(N) + 1] = 1.0
        else:
            N.ravel()[:: len(N) + 1] += self.lam
        self.chol = _cholesky(N)

    def _solve(self, rhs: Floats) -> Floats:
        """``N⁻¹ rhs``."""
        if self.turned is None:
            return dpotrs(self.chol, rhs, lower=1)[0]
        V, units = self.turned
        return V @ (dpotrs(self.chol, (rhs @ V) / units, lower=1)[0] / units)

    def newton(self) -> Floats:
        """Newton's direction Δξ."""
        return self._solve(self.point.residual)

    def margins_along(self, direction: Floats) -> Floats:
        """Δs along a direction."""
        return self.L @ direction

    def correction(self, ds: Floats) -> Floats:
        """What turns Newton's step into Chebyshev's: ``−N⁻¹ Lᵀ ½p''[Δs, Δs]``."""
        return -self._solve(self.L.T @ second_derivative(self.point, ds))

    def tangent(self) -> tuple[Floats, Floats]:
        """``dξ/d ln λ`` and ``ds/d ln λ`` at an answer."""
        xi = -self.lam * self._solve(self.point.at)
        return xi, self.L @ xi


def _squared(L: Floats, point: Point) -> Floats:
    """``Lᵀ S L = Σ p (L − mean)(L − mean)ᵀ + p_k mean meanᵀ``, a sum of squares."""
    mean = point.p @ L
    spread = L - mean
    N = (spread.T * point.p) @ spread
    N += point.p_target * np.outer(mean, mean)
    return N


Space = Rivals | Basis
Factor = RivalsFactor | BasisFactor


def rivals_softmax(s: Floats) -> tuple[Floats, float, float]:
    """``p``, ``p_k`` and ``−ln p_k = ln(1 + Σ eˢ)`` from the rivals' margins, each to full relative precision."""
    top = float(s[s.argmax()])
    if top <= 0.0:
        e = np.exp(s)
        mass = float(np.add.reduce(e))
        e /= 1 + mass
        return e, 1 / (1 + mass), math.log1p(mass)
    e = np.exp(s - top)
    e_target = math.exp(-top)
    total = float(np.add.reduce(e)) + e_target
    e /= total
    return e, e_target / total, top + math.log(total)


def softmax_rows(s: Any, xp: Any = np) -> tuple[Any, Any, Any]:
    """`rivals_softmax` for many rows, in the array library ``xp``."""
    top = xp.max(s, axis=1)
    top = xp.where(top > 0, top, 0.0)
    e, e_target = xp.exp(s - top[:, None]), xp.exp(-top)
    mass = xp.sum(e, axis=1)
    total = mass + e_target
    loss = xp.where(top > 0, top + xp.log(total), xp.log1p(mass))  # where top = 0, e_target = 1 and mass may be tiny
    return e / total[:, None], e_target / total, loss


def second_derivative(point: Point, ds: Floats) -> Floats:
    """``½p''[Δs, Δs]``: half the second derivative of the rivals' probabilities along Δs."""
    p = point.p
    mean = float(p.dot(ds))
    a = ds - mean
    a *= a
    a -= float(p.dot(a)) + point.p_target * mean * mean
    a *= p
    a *= 0.5
    return a


def start_from_pairs(H: Floats, margins: Floats) -> Floats:
    """A q close to the answer: coordinate descent on the rival that is most wrong *now*.

    For one rival j alone the problem is the two-class one of theorem 4.2, ``q_j = φ(H_jj, −m)``, m its margin with the
    other coordinates held.

    Mean iterations of the third-order method to ‖∇E‖ < 1e-8 after it, on 200 MNIST problems made as in appendix A (and
    200 with deep features): none 9.3 (9.3), 2 steps 4.8 (5.1), 4 4.3 (3.5), 8 3.0 (2.9), 12 2.3 (2.4), 16 2.1 (2.0). In NumPy
    a coordinate step takes a fifth of a Newton step's time and the total is flat from 8 on. Tried and dropped: the
    largest margin instead of the largest residual (stalls at 4.2); counting the other rivals' mass as the target's
    (worse before 5 steps, the same after); Newton on the dual, in q (9 iterations: small q_j grow slowly).
    """
    q = np.zeros(len(margins))
    s = margins.copy()
    for _ in range(PAIRS):
        p, _, _ = rivals_softmax(s)
        p -= q
        j = int(np.abs(p, out=p).argmax())
        pull = H[j]
        h, old = float(pull[j]), float(q[j])
        new, _ = logistic_root(h, -(float(s[j]) + h * old), rough=True)
        q[j] = new
        s -= (new - old) * pull
        if abs(new - old) <= PAIR_TOL * new:
            break
    if len(q) <= MANY_RIVALS:
        return q
    even, objective = start_evenly(H.dot(np.ones(len(q))), margins)
    moved = margins - s
    return q if 0.5 * float(q @ moved) + rivals_softmax(s)[2] <= objective else even


def start_evenly(pull: Floats, margins: Floats) -> tuple[Floats, float]:
    """The best q with all entries equal, and its E, given H·1.

    Where many rivals are about as strong, a few taken one by one are a bad start. On RCV1 with C = 1 (50 rivals, each with
    q_j = 0.0025 in the end) third-order Newton takes 8.3 iterations and 30 trials from the better of the two starts, 13.3 and
    113 from pairs alone.
    """
    curvature = float(pull.sum())
    low, high = 0.0, 1.0 / len(margins)
    share = 0.5 * high
    for _ in range(EVEN_STEPS):
        p, _, _ = rivals_softmax(margins - share * pull)
        mean = float(p @ pull)
        slope = share * curvature - mean
        low, high = (low, share) if slope > 0 else (share, high)
        bend = curvature + float(p @ (pull * pull)) - mean * mean
        new = share - slope / bend if bend > 0 else share  # where no row differs from the target's, all shares are as good
        old, share = share, new if low < new < high else 0.5 * (low + high)
        if abs(share - old) <= PAIR_TOL * share:
            break
    objective = 0.5 * share * share * curvature + rivals_softmax(margins - share * pull)[2]
    return np.full(len(margins), share), objective


def _cholesky(M: Floats) -> Floats:
    """The factor of M, which is positive definite but for rounding; where rounding wins, of M plus that rounding.

    M_jj = 1 + v_j²(H_jj − …) cancels where p_j is all but 1 and H is huge. Any M above the true one gives a descent
    direction, and the cancellation is gone as soon as x leaves that corner.
    """
    # M is symmetric, so its transpose, which LAPACK can use in place, is M.
    chol, info = dpotrf(M.T, lower=1, clean=0)
    rounding = 1.0
    while info != 0:
        rounding *= 16
        extra = rounding * EPS * float(np.abs(M).max())
        chol, info = dpotrf(M.T + extra * np.eye(len(M)), lower=1, clean=0)
    return chol
