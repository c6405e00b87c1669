"""The slow truth: the same problems in 50-digit arithmetic, and the textbook's method in D dimensions.

Nothing here imports a solver of ifonly; the two sides share only the problem's data.
"""

from dataclasses import dataclass

import mpmath as mp
import numpy as np

DIGITS = 50


@dataclass(frozen=True)
class Optimum:
    """The minimiser of E in 50 digits, and E there."""

    x: list
    objective: mp.mpf
    proba_target: mp.mpf

    def distance_to(self, x) -> float:
        with mp.workdps(DIGITS):
            return float(mp.sqrt(mp.fsum((mp.mpf(float(a)) - b) ** 2 for a, b in zip(x, self.x, strict=True))))

    def norm(self) -> float:
        with mp.workdps(DIGITS):
            return float(mp.sqrt(mp.fsum(b * b for b in self.x)))


def optimum(A, b, x, k, lam) -> Optimum:
    """Newton on E over q (x = x̄ − Āᵀq/λ), every number in 50 digits."""
    with mp.workdps(DIGITS):
        K, D = np.shape(A)
        row = [[mp.mpf(float(v)) for v in r] for r in np.asarray(A)]
        bias = [mp.mpf(float(v)) for v in b]
        source = [mp.mpf(float(v)) for v in x]
        lam = mp.mpf(float(lam))
        rivals = [j for j in range(K) if j != k]
        n = len(rivals)
        diff = [[row[j][d] - row[k][d] for d in range(D)] for j in rivals]
        margin = [mp.fdot(diff[i], source) + bias[j] - bias[k] for i, j in enumerate(rivals)]
        H = mp.matrix(n, n)
        for i in range(n):
            for j in range(i + 1):
                H[i, j] = H[j, i] = mp.fdot(diff[i], diff[j]) / lam

        def state(q, T):
            Hq = H * q
            s = [(margin[i] - Hq[i]) / T for i in range(n)]
            top = max([mp.mpf(0), *s])
            e = [mp.exp(v - top) for v in s]
            total = mp.exp(-top) + mp.fsum(e)
            p = mp.matrix([v / total for v in e])
            return p, mp.fdot(q, Hq) / (2 * T) + top + mp.log(total), mp.exp(-top) / total

        def solve(q, T):
            """Newton with exact line searches for the loss ``T·ln Σ exp(s/T)``; T = 1 is the problem itself."""
            p, E, p_target = state(q, T)
            for _ in range(400):
                r = p - q
                J = mp.matrix(n, n)
                for i in range(n):
                    mean = mp.fdot(p, H[:, i])
                    for j in range(n):
                        J[j, i] = p[j] * (H[j, i] - mean) / T + (1 if i == j else 0)
                step = mp.lu_solve(J, r)
                Hstep = H * step
                short = max(abs(v) for v in Hstep) < mp.mpf(10) ** -10
                new = q + step
                p_new, E_new, p_target = state(new, T)
                t = mp.mpf(1)
                if not short and mp.fdot(Hstep, new - p_new) > 0:  # past the minimum along the step: bisect to it
                    low, high = mp.mpf(0), t
                    for _ in range(60):
                        t = (low + high) / 2
                        new = q + t * step
                        p_new, E_new, p_target = state(new, T)
                        low, high = (t, high) if mp.fdot(Hstep, new - p_new) < 0 else (low, t)
                q, p, E = new, p_new, E_new
                # quadratic convergence: a full step this small leaves nothing
                if t == 1 and max(abs(v) for v in Hstep) < mp.mpf(10) ** (-DIGITS // 2):
                    return q, E, p_target
            raise RuntimeError("the reference did not converge")

        q, T = mp.matrix(n, 1), max(abs(v) for v in margin) / 10
        while T > 1:  # margins in the thousands make the loss a maximum of planes; come to it from a smooth one
            q, _, _ = solve(q, T)
            T /= 4
        q, E, p_target = solve(q, mp.mpf(1))
        answer = [source[d] - mp.fsum(q[i] * diff[i][d] for i in range(n)) / lam for d in range(D)]
        return Optimum(answer, E, p_target)


def gradient_norm(A, b, x, source, k, lam) -> float:
    """‖∇E(x)‖ at the given float64 ``x``, in 50 digits."""
    with mp.workdps(DIGITS):
        K, D = np.shape(A)
        row = [[mp.mpf(float(v)) for v in r] for r in np.asarray(A)]
        point = [mp.mpf(float(v)) for v in x]
        z = [mp.fdot(row[j], point) + mp.mpf(float(b[j])) for j in range(K)]
        top = max(z)
        e = [mp.exp(v - top) for v in z]
        total = mp.fsum(e)
        p = [v / total for v in e]
        grad = [
            mp.mpf(float(lam)) * (point[d] - mp.mpf(float(source[d])))
            + mp.fsum(p[j] * (row[j][d] - row[k][d]) for j in range(K))
            for d in range(D)
        ]
        return float(mp.sqrt(mp.fsum(g * g for g in grad)))


def dual_root(a: float, c: float) -> tuple[mp.mpf, mp.mpf]:
    """``t = φ(a, c)`` and ``1 − t`` in 60 digits, by bisection on the smaller one's logarithm and then Newton."""
    with mp.workdps(60):
        a, c = mp.mpf(a), mp.mpf(c)
        if a / 2 + c < 0:
            u, t = dual_root(a, -(a + c))
            return t, u

        def softplus(w):
            return w + mp.log1p(mp.exp(-w)) if w > 0 else mp.log1p(mp.exp(w))

        low, high = mp.log(a) - softplus(a / 2 + c), mp.log(a) - softplus(c)
        for _ in range(60):
            mid = (low + high) / 2
            if mid + softplus(mp.exp(mid) + c) < mp.log(a):
                low = mid
            else:
                high = mid
        for _ in range(6):
            y = mp.exp(high)
            high -= (high + softplus(y + c) - mp.log(a)) / (1 + y / (1 + mp.exp(-(y + c))))
        t = mp.exp(high) / a
        return t, 1 - t


def objective(A, b, x, source, k, lam) -> mp.mpf:
    """E(x) at the given float64 ``x``, in 50 digits."""
    with mp.workdps(DIGITS):
        K, _ = np.shape(A)
        point = [mp.mpf(float(v)) for v in x]
        z = [mp.fdot([mp.mpf(float(v)) for v in A[j]], point) + mp.mpf(float(b[j])) for j in range(K)]
        top = max(z)
        square = mp.fsum((a - mp.mpf(float(s))) ** 2 for a, s in zip(point, source, strict=True))
        return mp.mpf(float(lam)) / 2 * square + top + mp.log(mp.fsum(mp.exp(v - top) for v in z)) - z[k]
