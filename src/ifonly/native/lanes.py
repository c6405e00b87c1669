"""The class-space Newton for many rows on a CPU, compiled with Numba (extra ``fast``).

The mathematics is that of `engines.coordinates.Rivals`, step for step; what differs is the order of the loops. Rows are taken
in blocks of W *lanes*, every quantity is stored as (…, W), and the innermost loop of everything runs over lanes: straight-line
arithmetic without branches that the compiler turns into vector instructions, exponentials and logarithms included (`_exp`,
`_log`). A lane that is done is replaced by the last active one, and when half of them are free new rows are taken in. No memory
is allocated inside the loops of lanes. A row that does not converge in the ordinary way is left to the single-source solver.

All of it stands in this one file because Numba's cache on disk looks at the time of the file that holds `_solve`, and at no
other.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ifonly.engines.coordinates import EVEN_STEPS, MANY_RIVALS, PAIR_TOL
from ifonly.engines.lam_search import LONGEST_STEP
from ifonly.engines.newton import ARMIJO, CLOSE, ROUNDINGS
from ifonly.engines.phi import phi
from ifonly.engines.windows import Window
from ifonly.model.numerics import EPS
from ifonly.native.reference import SURE, TRUST, first_lam
from ifonly.native.solved import Solved

__all__ = ["root", "solve_lam", "solve_prob"]

Floats = NDArray[np.float64]

LANES = 128  # many enough that the loops over lanes are long; a multiple of the widest vectors (8)
# Rivals from which one row at a time, its active classes factorised by LAPACK, beats lanes. Measured with all classes active:
# K = 100 198 µs a row in lanes and 288 alone, K = 150 618 and 631, K = 200 1414 and 1110.
MANY = 150
# Share p_j·H_jj in Newton's matrix below which a class is left out of it then: Newton's step is off by as much.
NEGLIGIBLE = 1e-6
# Coordinate steps of the start: one costs a tenth of a Newton step or less, here. Mean iterations to the last digit after 12,
# n, 2n, 4n of them: MNIST (n = 9) 3.6, 3.6, 3.1, 2.5; RCV1 (n = 50) 9.5, 5.7, 3.0, 2.0. The time is least at 12 and near 2n.
PAIRS = 12  # and 2n − 8 for more than ten rivals
ROOT_STEPS = 2  # Newton steps on the two-class equation inside the start, which need not be exact …
EXACT_ROOT_STEPS = 6  # … and where K = 2, so that it has to be
MAX_BACKTRACKS = 40

_CLOSE = CLOSE[3]
_OPTIONS = {
    "fastmath": {"contract", "nsz", "arcp"},  # fused multiply-add, but never another order of sums
    "error_model": "numpy",  # a division by zero is inf, not a branch
}


# ---- exponential and logarithm without branches or calls ----


def _bitcast(source: Any, target: Any, llvm_type: ir.Type) -> Any:
    """A function that reads the bits of one type as another."""

    def typed(_typing_context, value):
        del value  # its name and number are what Numba looks at
        return target(source), lambda _context, builder, _signature, args: builder.bitcast(args[0], llvm_type)

    return intrinsic(typed)


_float_from_bits = _bitcast(types.int64, types.float64, ir.DoubleType())
_bits_from_float = _bitcast(types.float64, types.int64, ir.IntType(64))


_MAGIC = 6755399441055744.0  # 1.5·2⁵²: adding it rounds to an integer and leaves that in the low bits
_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10


@njit(inline="always", **_OPTIONS)
def _exp(x: float) -> float:
    """eˣ to about an ulp for −708 ≤ x ≤ 709; below, e⁻⁷⁰⁸."""
    x = max(x, -708.0)
    shifted = x * _LOG2E + _MAGIC
    k = shifted - _MAGIC
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    y = 1.6059043836821613e-10  # 1/13!
    y = y * r + 2.08767569878681e-09
    y = y * r + 2.505210838544172e-08
    y = y * r + 2.755731922398589e-07
    y = y * r + 2.7557319223985893e-06
    y = y * r + 2.48015873015873e-05
    y = y * r + 1.984126984126984e-04
    y = y * r + 1.388888888888889e-03
    y = y * r + 8.333333333333333e-03
    y = y * r + 4.1666666666666664e-02
    y = y * r + 1.6666666666666666e-01
    y = y * r + 0.5
    y = y * r + 1.0
    y = y * r + 1.0
    return y * _float_from_bits((_bits_from_float(shifted) << 52) + (1023 << 52))


@njit(inline="always", **_OPTIONS)
def _log(x: float) -> float:
    """Ln x to a few ulp for normal x > 0."""
    bits = _bits_from_float(x)
    # subtracting the bits of √½ makes the exponent the one for which the mantissa lies in [√½, √2)
    k = (bits - 4604544271217802189) >> 52
    m = _float_from_bits(bits - (k << 52))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    y = 1 / 21
    y = y * z + 1 / 19
    y = y * z + 1 / 17
    y = y * z + 1 / 15
    y = y * z + 1 / 13
    y = y * z + 1 / 11
    y = y * z + 1 / 9
    y = y * z + 1 / 7
    y = y * z + 1 / 5
    y = y * z + 1 / 3
    y = y * z + 1.0
    kf = _float_from_bits(k + 4843621399236968448) - _MAGIC  # int to float through the low bits
    return (2 * s * y + kf * _LN2_LOW) + kf * _LN2_HIGH


# ---- the parts of an iteration, each over lanes [lo, hi) ----


@njit(**_OPTIONS)
def _times(G, il, x, out, lo, hi):
    """``out = H x``, H = Ḡ/λ with λ of each lane."""
    n = G.shape[0]
    if x.shape[1] == 1:
        one, result = x.reshape(n), out.reshape(n)
        for i in range(n):
            result[i] = 0.0
        for j in range(n):
            factor = one[j] * il[0]
            if factor != 0.0:
                for i in range(n):
                    result[i] += G[j, i] * factor
        return
    for i in range(n):
        for w in range(lo, hi):
            out[i, w] = 0.0
        for j in range(n):
            g = G[i, j]
            for w in range(lo, hi):
                out[i, w] += g * x[j, w]
        for w in range(lo, hi):
            out[i, w] *= il[w]


@njit(**_OPTIONS)
def _probabilities(s, p, top, loss, pt, lo, hi):
    """Probabilities and ``loss = −ln p_k`` from margins, each to full relative precision."""
    n = s.shape[0]
    for w in range(lo, hi):
        top[w] = 0.0
        loss[w] = 0.0
    if s.shape[1] == 1:
        one, result = s.reshape(n), p.reshape(n)
        for i in range(n):
            top[0] = max(top[0], one[i])
        for i in range(n):
            result[i] = _exp(one[i] - top[0])
        for i in range(n):
            loss[0] += result[i]
    else:
        for i in range(n):
            for w in range(lo, hi):
                top[w] = max(top[w], s[i, w])
        for i in range(n):
            for w in range(lo, hi):
                e = _exp(s[i, w] - top[w])
                p[i, w] = e
                loss[w] += e
    for w in range(lo, hi):
        mass = loss[w]
        e = _exp(-top[w])
        total = mass + e
        pt[w] = e / total
        lost = (total - 1.0) - mass  # ln(1 + mass) where the target leads: give back what the 1 swallowed
        loss[w] = top[w] + _log(total) - (lost / total if top[w] == 0.0 else 0.0)
        top[w] = total
    for i in range(n):
        for w in range(lo, hi):
            p[i, w] /= top[w]


@njit(**_OPTIONS)
def _evaluate(G, il, margins, point, vec, lo, hi):
    """Everything known of the point with coordinates ``point[0]``; see `_Q` … for what is where."""
    n = G.shape[0]
    q, moved, p, r, slope = point[0], point[1], point[2], point[3], point[4]
    scratch, mass, pt, E, gg = vec[0], vec[1], vec[2], vec[3], vec[4]
    _times(G, il, q, moved, lo, hi)
    for i in range(n):
        for w in range(lo, hi):
            r[i, w] = margins[i, w] - moved[i, w]
    _probabilities(r, p, scratch, E, pt, lo, hi)
    for w in range(lo, hi):
        gg[w] = 0.0
        mass[w] = 0.0
    for i in range(n):
        for w in range(lo, hi):
            r[i, w] = p[i, w] - q[i, w]
    _times(G, il, r, slope, lo, hi)
    for i in range(n):
        for w in range(lo, hi):
            mass[w] += p[i, w]
            E[w] += 0.5 * q[i, w] * moved[i, w]
            gg[w] += r[i, w] * slope[i, w]


@njit(**_OPTIONS)
def _factorise_active(G, il, p, v, half, flat, active):
    """One row of many classes: M over those with a share in it, by LAPACK; ``active`` holds them and, last, their number."""
    n = len(p)
    top, count = 0.0, 0
    for i in range(n):
        top = max(top, G[i, i] * il)
        if p[i] * G[i, i] * il > NEGLIGIBLE:
            active[count] = i
            count += 1
    active[n] = count
    M = np.empty((count, count))
    for a in range(count):
        i = active[a]
        for b in range(a + 1):
            j = active[b]
            M[a, b] = v[i] * v[j] * (G[i, j] * il - half[i] - half[j])
            M[b, a] = M[a, b]
        M[a, a] += 1.0 + 8 * n * EPS * top * p[i]  # the rounding in it: LAPACK wants M positive definite
    factor = np.linalg.cholesky(M)
    flat[: count * count] = factor.ravel()


@njit(**_OPTIONS)
def _solve_active(flat, active, x):
    """``x = M⁻¹ x`` with the factor of `_factorise_active`; classes without a share stay as they are."""
    n = len(x)
    count = active[n]
    for a in range(count):
        total = x[active[a]]
        for b in range(a):
            total -= flat[a * count + b] * x[active[b]]
        x[active[a]] = total / flat[a * count + a]
    for a in range(count - 1, -1, -1):
        value = x[active[a]] / flat[a * count + a]
        x[active[a]] = value
        for b in range(a):
            x[active[b]] -= flat[a * count + b] * value


@njit(**_OPTIONS)
def _factorise(G, il, point, vec, M, v, c, half, active, lo, hi):
    """Cholesky factor of M, with the reciprocals of its diagonal; pivots are ≥ 1 but for rounding, and so they are made."""
    n = G.shape[0]
    moved, p, slope, pt = point[1], point[2], point[4], vec[2]
    pg = vec[0]  # scratch
    for w in range(lo, hi):
        c[w] = 1.0 / (1.0 + math.sqrt(pt[w]))
        pg[w] = 0.0
    for i in range(n):
        for w in range(lo, hi):
            v[i, w] = math.sqrt(p[i, w])
            half[i, w] = moved[i, w] + slope[i, w]
            pg[w] += p[i, w] * half[i, w]
    for i in range(n):
        for w in range(lo, hi):
            half[i, w] = c[w] * half[i, w] - 0.5 * c[w] * c[w] * pg[w]
    if v.shape[1] == 1:
        _factorise_active(G, il[0], p.reshape(n), v.reshape(n), half.reshape(n), M.reshape(n * n), active)
        return
    for i in range(n):
        for j in range(i + 1):
            g = G[i, j]
            for w in range(lo, hi):
                M[i, j, w] = v[i, w] * v[j, w] * (g * il[w] - half[i, w] - half[j, w])
        for w in range(lo, hi):
            M[i, i, w] += 1.0
    for j in range(n):
        for i in range(j, n):
            for k in range(j):
                for w in range(lo, hi):
                    M[i, j, w] -= M[i, k, w] * M[j, k, w]
        for w in range(lo, hi):
            M[j, j, w] = 1.0 / math.sqrt(max(M[j, j, w], 1.0))
        for i in range(j + 1, n):
            for w in range(lo, hi):
                M[i, j, w] *= M[j, j, w]


@njit(**_OPTIONS)
def _spread(M, v, c, p, Hr, out, sums, active, lo, hi):
    """``out = R M⁻¹ Rᵀ H r``."""
    n = v.shape[0]
    for w in range(lo, hi):
        sums[w] = 0.0
    for i in range(n):
        for w in range(lo, hi):
            sums[w] += p[i, w] * Hr[i, w]
    for i in range(n):
        for w in range(lo, hi):
            out[i, w] = v[i, w] * (Hr[i, w] - c[w] * sums[w])
    if v.shape[1] == 1:
        _solve_active(M.reshape(n * n), active, out.reshape(n))
    else:
        for i in range(n):
            for k in range(i):
                for w in range(lo, hi):
                    out[i, w] -= M[i, k, w] * out[k, w]
            for w in range(lo, hi):
                out[i, w] *= M[i, i, w]
        for i in range(n - 1, -1, -1):
            for k in range(i + 1, n):
                for w in range(lo, hi):
                    out[i, w] -= M[k, i, w] * out[k, w]
            for w in range(lo, hi):
                out[i, w] *= M[i, i, w]
    for w in range(lo, hi):
        sums[w] = 0.0
    for i in range(n):
        for w in range(lo, hi):
            out[i, w] *= v[i, w]
            sums[w] += out[i, w]
    for i in range(n):
        for w in range(lo, hi):
            out[i, w] -= c[w] * sums[w] * p[i, w]


@njit(**_OPTIONS)
def _bend(p, pt, ds, out, mean, spread, lo, hi):
    """``out = ½p''[Δs, Δs]``."""
    n = p.shape[0]
    for w in range(lo, hi):
        mean[w] = 0.0
    for i in range(n):
        for w in range(lo, hi):
            mean[w] += p[i, w] * ds[i, w]
    for w in range(lo, hi):
        spread[w] = pt[w] * mean[w] * mean[w]
    for i in range(n):
        for w in range(lo, hi):
            a = ds[i, w] - mean[w]
            out[i, w] = a * a
            spread[w] += p[i, w] * a * a
    for i in range(n):
        for w in range(lo, hi):
            out[i, w] = 0.5 * p[i, w] * (out[i, w] - spread[w])


@njit(**_OPTIONS)
def _roots(h, margin, t, log_h, ell, high, steps, lo, hi):
    """``t = φ(h, −margin)`` by some steps of Newton in ``ℓ = ln(h t)`` as in solvers/logistic.py."""
    for w in range(lo, hi):
        log_h[w] = _log(h[w])
        e = _exp(-abs(margin[w]))
        high[w] = log_h[w] - (max(-margin[w], 0.0) + _log(1.0 + e))
        drop = log_h[w] + margin[w]
        far = max(drop, 2.0)
        guess = _log(far - _log(far))
        guess = guess if drop > 2.0 else high[w]
        ell[w] = min(guess, high[w])
    for _ in range(steps):
        for w in range(lo, hi):
            y = _exp(ell[w])
            u = y - margin[w]
            e = _exp(-abs(u))
            value = ell[w] + max(u, 0.0) + _log(1.0 + e) - log_h[w]
            up = 1.0 if u > 0.0 else e
            ell[w] -= value / (1.0 + y * up / (1.0 + e))
    for w in range(lo, hi):
        t[w] = min(_exp(min(ell[w], high[w])) / h[w], 1.0)


@njit(**_OPTIONS)
def _start(G, il, margins, q, s, p, vec, work, choice, steps, m):
    """Coordinate descent on the rival that is most wrong: `coordinates.start_from_pairs` in all lanes at once."""
    n = G.shape[0]
    top, total, pt, worst, old = vec[0], vec[1], vec[2], vec[3], vec[4]
    for i in range(n):
        for w in range(m):
            q[i, w] = 0.0
            s[i, w] = margins[i, w]
    for _ in range(steps):
        _probabilities(s, p, top, total, pt, 0, m)
        for w in range(m):
            worst[w] = -1.0
        for i in range(n):
            for w in range(m):
                wrong = abs(p[i, w] - q[i, w])
                choice[w] = i if wrong > worst[w] else choice[w]
                worst[w] = max(wrong, worst[w])
        for w in range(m):
            j = choice[w]
            old[w] = q[j, w]
            total[w] = max(G[j, j] * il[w], 1e-300)
            top[w] = s[j, w] + total[w] * old[w]  # the margin with q_j taken out
        _roots(total, top, pt, work[0], work[1], work[2], ROOT_STEPS, 0, m)
        for w in range(m):
            q[choice[w], w] = pt[w]
            old[w] = (pt[w] - old[w]) * il[w]
        for i in range(n):
            for w in range(m):
                s[i, w] -= old[w] * G[i, choice[w]]
    if n > MANY_RIVALS:
        pull = np.zeros(n)
        for i in range(n):
            for j in range(n):
                pull[i] += G[i, j]
        for w in range(m):
            _start_evenly(pull, il[w], margins, q, s, w)


@njit(**_OPTIONS)
def _start_evenly(pull, il, margins, q, s, w):
    """`coordinates.start_evenly` for one lane, where it is the better start."""
    n = len(pull)
    top, square = 0.0, 0.0
    for i in range(n):
        top = max(top, s[i, w])
        square += q[i, w] * (margins[i, w] - s[i, w])
    mass = math.exp(-top)
    for i in range(n):
        mass += math.exp(s[i, w] - top)
    objective = 0.5 * square + top + math.log(mass)
    curvature = 0.0
    for i in range(n):
        curvature += pull[i] * il
    low, high = 0.0, 1.0 / n
    share = 0.5 * high
    for _ in range(EVEN_STEPS):
        top = 0.0
        for i in range(n):
            top = max(top, margins[i, w] - share * il * pull[i])
        mass = math.exp(-top)
        mean, mean_square = 0.0, 0.0
        for i in range(n):
            g = il * pull[i]
            e = math.exp(margins[i, w] - share * g - top)
            mass += e
            mean += e * g
            mean_square += e * g * g
        mean /= mass
        mean_square /= mass
        slope = share * curvature - mean
        if slope > 0.0:
            high = share
        else:
            low = share
        old = share
        share -= slope / (curvature + mean_square - mean * mean)
        if not low < share < high:
            share = 0.5 * (low + high)
        if abs(share - old) <= PAIR_TOL * share:
            break
    top = 0.0
    for i in range(n):
        top = max(top, margins[i, w] - share * il * pull[i])
    mass = math.exp(-top)
    for i in range(n):
        mass += math.exp(margins[i, w] - share * il * pull[i] - top)
    if 0.5 * share * share * curvature + top + math.log(mass) < objective:
        for i in range(n):
            q[i, w] = share
            s[i, w] = margins[i, w] - share * il * pull[i]


@njit(cache=True, nogil=True, **_OPTIONS)
def _two_classes(h, margin, t):
    """``t = φ(h, −margin)`` to a few ulp; h > 0, |margin| ≤ 300."""
    B = len(h)
    log_h, ell, high = np.empty(B), np.empty(B), np.empty(B)
    _roots(h, margin, t, log_h, ell, high, EXACT_ROOT_STEPS, 0, B)
    for b in range(B):  # the last step on the ratio t(1 + e^{ht − margin}), which is 1 at the root
        y = h[b] * t[b]
        low = min(margin[b], 0.0)
        odds = _exp(-low) * _exp(min(y - (margin[b] - low), 700.0))
        t[b] -= t[b] * (t[b] * (1.0 + odds) - 1.0) / (1.0 + y * (1.0 - t[b]))


# ---- the loop ----

# Rows of the per-lane numbers.
_LAM, _SIZE, _LOW, _HIGH = 0, 1, 2, 3
_NUMBERS = 4


@njit(cache=True, nogil=True, **_OPTIONS)
def _solve(G, margins, lam, window, tol, max_iter, lanes, steps, q_out, p_out, numbers_out, n_iter_out, done_out):
    """Solve all rows of ``margins`` (B, n), a block of lanes at a time.

    ``window`` is (4, B) for the probability form and (4, 0) for the λ form; ``numbers_out`` (4, B) takes λ, p_k, ‖∇E‖² / λ
    and qᵀHq.
    """
    B, n = margins.shape
    W = lanes
    with_goal = window.shape[1] > 0
    point, other, fresh = np.empty((5, n, W)), np.empty((5, n, W)), np.empty((4, n, W))
    vec, vec_other, work = np.empty((5, W)), np.empty((5, W)), np.empty((5, W))
    sbar, v, half, direction, ds, bend, Hb, extra = (
        np.empty((n, W)),
        np.empty((n, W)),
        np.empty((n, W)),
        np.empty((n, W)),
        np.empty((n, W)),
        np.empty((n, W)),
        np.empty((n, W)),
        np.empty((n, W)),
    )
    M = np.empty((n, n, W))
    c, il, delta, decrease, full, lam_new = np.empty(W), np.empty(W), np.empty(W), np.empty(W), np.empty(W), np.empty(W)
    numbers = np.empty((_NUMBERS, W))
    row, count = np.empty(W, np.int64), np.empty(W, np.int64)
    choice, active = np.empty(W, np.int64), np.empty(n + 1, np.int64)

    m = loaded = 0
    while m > 0 or loaded < B:
        # 0. Fill up with new rows when half of the lanes are free, and find their start.
        if 2 * m <= W and loaded < B:
            new = min(W - m, B - loaded)
            for u in range(new):  # in lanes of their own, from 0: what the compiler knows to start at 0 it vectorises
                lam_new[u] = 1.0 / lam[loaded + u]
                for i in range(n):
                    fresh[0, i, u] = margins[loaded + u, i]
            _start(G, lam_new, fresh[0], fresh[1], fresh[2], fresh[3], vec_other, work, choice, steps, new)
            for u in range(new):
                w, b = m + u, loaded + u
                row[w], count[w], il[w] = b, 0, lam_new[u]
                numbers[_LAM, w], numbers[_LOW, w], numbers[_HIGH, w] = lam[b], 0.0, np.inf
                size = 0.0
                for i in range(n):
                    sbar[i, w], point[0, i, w] = fresh[0, i, u], fresh[1, i, u]
                    size = max(size, abs(fresh[0, i, u]))
                numbers[_SIZE, w] = size
            m += new
            loaded += new
            _evaluate(G, il, sbar, point, vec, 0, m)
        p, r, slope = point[2], point[3], point[4]
        pt, E = vec[2], vec[3]

        # 1. Newton's direction and the third-order correction.
        _factorise(G, il, point, vec, M, v, c, half, active, 0, m)
        _spread(M, v, c, p, slope, direction, work[0], active, 0, m)
        for w in range(m):
            delta[w], decrease[w] = 0.0, 0.0
        for i in range(n):
            for w in range(m):
                direction[i, w] = r[i, w] - direction[i, w]
                decrease[w] += slope[i, w] * direction[i, w]
        _times(G, il, direction, ds, 0, m)
        for i in range(n):
            for w in range(m):
                delta[w] = max(delta[w], abs(ds[i, w]))
        _bend(p, pt, ds, bend, work[0], work[1], 0, m)  # quadratic in Δs: its sign does not matter
        _times(G, il, bend, Hb, 0, m)
        _spread(M, v, c, p, Hb, extra, work[0], active, 0, m)
        for i in range(n):
            for w in range(m):
                other[0, i, w] = point[0, i, w] + direction[i, w] + bend[i, w] - extra[i, w]

        # 2. The step: accepted where E falls, else Newton's direction with backtracking, lane by lane.
        _evaluate(G, il, sbar, other, vec_other, 0, m)
        for w in range(m):
            slack = ROUNDINGS * EPS * (abs(E[w]) + numbers[_SIZE, w] * vec[1, w])
            full[w] = 1.0
            if vec_other[3, w] <= E[w] - ARMIJO * decrease[w] + slack:
                continue
            step = 1.0
            for _trial in range(MAX_BACKTRACKS):
                for i in range(n):
                    other[0, i, w] = point[0, i, w] + step * direction[i, w]
                _evaluate(G, il, sbar, other, vec_other, w, w + 1)
                if vec_other[3, w] <= E[w] - ARMIJO * step * decrease[w] + slack:
                    break
                step *= 0.5
            full[w] = 1.0 if step == 1.0 else 0.0
        point, other = other, point
        vec, vec_other = vec_other, vec

        # 3. The probability form: move λ where the point is near its answer.
        if with_goal:
            _spread(M, v, c, other[2], other[1], extra, work[0], active, 0, m)  # dq/d ln λ, one step stale
            _times(G, il, extra, Hb, 0, m)
            for w in range(m):
                work[4, w] = 0.0
                if full[w] == 0.0 or delta[w] > TRUST:
                    continue
                b = row[w]
                mass, rate, reach = 0.0, 0.0, 0.0
                for i in range(n):
                    mass += point[2, i, w]
                    rate += point[2, i, w] * (point[1, i, w] - Hb[i, w])
                    reach += point[0, i, w]
                rate /= mass
                allowance = window[1, b] + window[2, b] * reach * il[w]
                miss = math.log(mass) - math.log(vec[2, w]) - (window[0, b] - allowance)
                width = allowance + window[3, b]
                if -width <= miss <= 0.0:
                    work[4, w] = 2.0  # λ is right
                    continue
                if delta[w] > _CLOSE and delta[w] ** 3 > SURE * abs(miss):
                    continue  # not known well enough yet
                now = numbers[_LAM, w]
                if miss <= 0.0:
                    numbers[_LOW, w] = max(numbers[_LOW, w], now)
                else:
                    numbers[_HIGH, w] = min(numbers[_HIGH, w], now)
                step = -(miss + 0.5 * width) / rate if rate > 0.0 else -LONGEST_STEP
                new = now * math.exp(min(max(step, -LONGEST_STEP), LONGEST_STEP))
                low, high = numbers[_LOW, w], numbers[_HIGH, w]
                if not (low < new < high):
                    new = math.sqrt(low) * math.sqrt(high) if low > 0.0 else high * math.exp(-LONGEST_STEP)
                step = math.log(new / now)
                for i in range(n):  # along the tangent of q/λ, which is smoother than q
                    point[0, i, w] = new / now * (point[0, i, w] + step * (extra[i, w] - point[0, i, w]))
                numbers[_LAM, w], il[w] = new, 1.0 / new
                work[4, w] = 1.0  # λ moved: the point has to be evaluated anew
                _evaluate(G, il, sbar, point, vec, w, w + 1)

        # 4. Lanes that are done, or given up, make room for the last ones.
        w = 0
        while w < m:
            count[w] += 1
            noise = ROUNDINGS * EPS * (numbers[_SIZE, w] + 1.0)
            if tol > 0.0:
                finished = numbers[_LAM, w] * vec[4, w] <= tol * tol or (full[w] == 1.0 and delta[w] <= noise)
            else:
                finished = full[w] == 1.0 and delta[w] <= max(noise, _CLOSE)
            if with_goal:
                finished = finished and work[4, w] == 2.0
            if not finished and count[w] < max_iter:
                w += 1
                continue
            b = row[w]
            square = 0.0
            for i in range(n):
                q_out[b, i], p_out[b, i] = point[0, i, w], point[2, i, w]
                square += point[0, i, w] * point[1, i, w]
            numbers_out[0, b], numbers_out[1, b] = numbers[_LAM, w], vec[2, w]
            numbers_out[2, b], numbers_out[3, b] = vec[4, w], square
            n_iter_out[b], done_out[b] = count[w], finished
            m -= 1
            if w < m:
                for i in range(n):
                    sbar[i, w] = sbar[i, m]
                    for a in range(5):
                        point[a, i, w] = point[a, i, m]
                for a in range(5):
                    vec[a, w], work[a, w] = vec[a, m], work[a, m]
                for a in range(_NUMBERS):
                    numbers[a, w] = numbers[a, m]
                row[w], count[w], il[w], full[w], delta[w] = row[m], count[m], il[m], full[m], delta[m]


def root(alpha: Floats, beta: Floats) -> Floats:
    """`engines.phi.phi` for arrays: compiled where its arguments are ordinary."""
    ordinary = (np.abs(beta) <= 300) & (alpha > 1e-100) & (alpha < 1e100)
    t = np.empty(len(alpha))
    _two_classes(np.where(ordinary, alpha, 1.0), np.where(ordinary, -beta, 0.0), t)
    if not ordinary.all():
        t[~ordinary] = phi(alpha[~ordinary], beta[~ordinary])
    return t


def solve_lam(gram: Floats, margins: Floats, lam: Floats, *, tol: float | None = None, max_iter: int = 100) -> Solved:
    """Minimise E for each row of ``margins``, to ‖∇E‖ ≤ tol or to the last digit."""
    return _run(gram, margins, lam, np.empty((4, 0)), tol or 0.0, max_iter)


def solve_prob(gram: Floats, margins: Floats, window: Window, *, max_iter: int = 100) -> Solved:
    """The λ at which each row meets its goal, and the answer there."""
    first = first_lam(np, gram, margins, window)
    return _run(gram, margins, np.where(first > 0, first, 1.0), np.stack(window), 0.0, max_iter)


def _run(gram: Floats, margins: Floats, lam: Floats, window: Floats, tol: float, max_iter: int) -> Solved:
    B, n = margins.shape
    lanes = min(LANES, -(-B // 8) * 8)  # few rows need few lanes, and the memory to match
    if B == 1 or n >= MANY:
        lanes = 1
    steps = max(PAIRS, 2 * n - 8 if lanes > 1 else n)
    q, p, numbers = np.empty((B, n)), np.empty((B, n)), np.empty((4, B))
    n_iter, done = np.empty(B, np.int64), np.empty(B, np.bool_)
    _solve(
        np.ascontiguousarray(gram),
        np.ascontiguousarray(margins),
        np.ascontiguousarray(lam),
        np.ascontiguousarray(window),
        tol,
        max_iter,
        lanes,
        steps,
        q,
        p,
        numbers,
        n_iter,
        done,
    )
    lam, p_target, gg, quad = numbers
    done &= np.isfinite(quad) & (p_target > 1e-290)  # below, the exponentials are at their end
    mass = p.sum(axis=1)
    with np.errstate(divide="ignore"):
        loss = np.where(mass < 0.5, -np.log1p(-np.minimum(mass, 0.5)), -np.log(p_target))
    return Solved(
        q,
        p,
        p_target,
        lam,
        0.5 * quad + loss,
        np.sqrt(lam * np.maximum(gg, 0.0)),
        np.maximum(quad, 0.0) * lam,
        n_iter,
        done,
    )
