"""The slow truth: the same problems in 50-digit arithmetic, and the textbook's method in D dimensions.

Nothing here imports a solver of ifonly; the two sides share only the problem's data. Numbers are MPFR's (gmpy2) in NumPy's
arrays of objects, many times as fast as mpmath's matrices; what is handed out is mpmath's.
"""

from dataclasses import dataclass

import gmpy2
import mpmath as mp
import numpy as np

DIGITS = 50
BITS = 170  # 50 digits, and four bits more
BITS_OF_A_ROOT = 203  # 60 digits

exp = np.frompyfunc(gmpy2.exp, 1, 1)


def big(values):
    """Floats as they are, each with room for `DIGITS` digits."""
    return np.frompyfunc(lambda value: gmpy2.mpfr(float(value)), 1, 1)(np.asarray(values, dtype=float))


def as_mpf(value):
    """The same number, as mpmath's."""
    mantissa, exponent = value.as_mantissa_exp()
    return mp.ldexp(mp.mpf(int(mantissa)), int(exponent))


def length(vector):
    return float(gmpy2.sqrt(vector @ vector))


@dataclass(frozen=True)
class Optimum:
    """The minimiser of E in 50 digits, and E there."""

    x: np.ndarray
    objective: mp.mpf
    proba_target: mp.mpf

    def distance_to(self, x) -> float:
        with gmpy2.context(precision=BITS):
            return length(big(x) - self.x)

    def norm(self) -> float:
        with gmpy2.context(precision=BITS):
            return length(self.x)


def linear_solution(J, r):
    """``J⁻¹r`` by elimination with row exchanges."""
    M = np.column_stack([J, r])
    n = len(M)
    for i in range(n):
        pivot = i + int(np.argmax(np.abs(M[i:, i])))
        M[[i, pivot]] = M[[pivot, i]]
        M[i + 1 :, i:] -= (M[i + 1 :, i] / M[i, i])[:, None] * M[i, i:]
    for i in reversed(range(n)):
        M[i, n] = (M[i, n] - M[i, i + 1 : n] @ M[i + 1 :, n]) / M[i, i]
    return M[:, n]


def optimum(A, b, x, k, lam) -> Optimum:
    """Newton on E over q (x = x̄ − Āᵀq/λ), every number in 50 digits."""
    with gmpy2.context(precision=BITS), mp.workprec(BITS):
        rows, bias, source, lam = big(A), big(b), big(x), gmpy2.mpfr(float(lam))
        diff = np.delete(rows, k, axis=0) - rows[k]
        margin = diff @ source + np.delete(bias, k) - bias[k]
        H = diff @ diff.T / lam
        identity = np.eye(len(H))

        def state(q, T):
            Hq = H @ q
            s = (margin - Hq) / T
            top = max(gmpy2.mpfr(0), *s)
            e = exp(s - top)
            total = gmpy2.exp(-top) + e.sum()
            return e / total, q @ Hq / (2 * T) + top + gmpy2.log(total), gmpy2.exp(-top) / total

        def solve(q, T):
            """Newton with exact line searches for the loss ``T·ln Σ exp(s/T)``; T = 1 is the problem itself."""
            p, E, p_target = state(q, T)
            for _ in range(400):
                step = linear_solution(p[:, None] * (H - p @ H) / T + identity, p - q)
                Hstep = H @ step
                short = max(abs(Hstep)) < 1e-10
                new = q + step
                p_new, E_new, p_target = state(new, T)
                t = 1
                if not short and Hstep @ (new - p_new) > 0:  # past the minimum along the step: bisect to it
                    low, high = gmpy2.mpfr(0), gmpy2.mpfr(1)
                    for _ in range(60):
                        t = (low + high) / 2
                        new = q + t * step
                        p_new, E_new, p_target = state(new, T)
                        low, high = (t, high) if Hstep @ (new - p_new) < 0 else (low, t)
                q, p, E = new, p_new, E_new
                # quadratic convergence: a full step this small leaves nothing
                if t == 1 and max(abs(Hstep)) < 10.0 ** (-DIGITS // 2):
                    return q, E, p_target
            raise RuntimeError("the reference did not converge")

        q, T = big(np.zeros(len(H))), max(abs(margin)) / 10
        while T > 1:  # margins in the thousands make the loss a maximum of planes; come to it from a smooth one
            q, _, _ = solve(q, T)
            T /= 4
        q, E, p_target = solve(q, gmpy2.mpfr(1))
        return Optimum(source - q @ diff / lam, as_mpf(E), as_mpf(p_target))


def gradient_norm(A, b, x, source, k, lam) -> float:
    """‖∇E(x)‖ at the given float64 ``x``, in 50 digits."""
    with gmpy2.context(precision=BITS):
        rows, point = big(A), big(x)
        z = rows @ point + big(b)
        e = exp(z - max(z))
        return length((point - big(source)) * gmpy2.mpfr(float(lam)) + e / e.sum() @ (rows - rows[k]))


def dual_root(a: float, c: float) -> tuple[mp.mpf, mp.mpf]:
    """``t = φ(a, c)`` and ``1 − t`` in 60 digits, by bisection on the smaller one's logarithm and then Newton."""
    with gmpy2.context(precision=BITS_OF_A_ROOT), mp.workprec(BITS_OF_A_ROOT):
        a, c = gmpy2.mpfr(a), gmpy2.mpfr(c)
        if a / 2 + c < 0:
            u, t = dual_root(a, -(a + c))
            return t, u

        def softplus(w):
            return w + gmpy2.log1p(gmpy2.exp(-w)) if w > 0 else gmpy2.log1p(gmpy2.exp(w))

        low, high = gmpy2.log(a) - softplus(a / 2 + c), gmpy2.log(a) - softplus(c)
        for _ in range(60):
            mid = (low + high) / 2
            if mid + softplus(gmpy2.exp(mid) + c) < gmpy2.log(a):
                low = mid
            else:
                high = mid
        for _ in range(6):
            y = gmpy2.exp(high)
            high -= (high + softplus(y + c) - gmpy2.log(a)) / (1 + y / (1 + gmpy2.exp(-(y + c))))
        t = gmpy2.exp(high) / a
        return as_mpf(t), as_mpf(1 - t)


def objective(A, b, x, source, k, lam) -> mp.mpf:
    """E(x) at the given float64 ``x``, in 50 digits."""
    with gmpy2.context(precision=BITS), mp.workprec(BITS):
        point = big(x)
        z = big(A) @ point + big(b)
        change, top = point - big(source), max(z)
        return as_mpf(gmpy2.mpfr(float(lam)) / 2 * (change @ change) + top + gmpy2.log(exp(z - top).sum()) - z[k])
