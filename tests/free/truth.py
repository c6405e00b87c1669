"""The truth about a free problem, in 220-bit arithmetic and in D dimensions; nothing of the library's is used.

    min over x of (λ/2)‖x − x̄‖² + loss(x),    loss = −ln p_k = ln(1 + Σ eˢ),    s = Āx + b̄

and for a probability τ the same at the largest λ where loss ≤ −ln τ. How good a point is follows from duality alone, however it
was found: E(x) − E* ≤ ‖∇E(x)‖²/(2λ), and every x' with p_k(x') ≥ τ has ½‖x' − x̄‖² ≥ (E* + ln τ)/λ, for any λ.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr

__all__ = ["BITS", "Free", "Point", "big", "working"]

BITS = 220
SMALL = mpfr("1e-45")  # of the largest change of a margin: convergence is quadratic, and a step this short leaves nothing
PATIENCE = 60
COOLING = 8
DEEPEST = mpfr("1e-40")  # of the first λ: goals that need less are out of reach for float64
NEAR = mpfr("1e-40")  # of logit(1 − p_k)

exp = np.frompyfunc(gmpy2.exp, 1, 1)
as_big = np.frompyfunc(lambda value: mpfr(float(value)), 1, 1)


def working() -> Any:
    """The precision to work in, as a context."""
    return gmpy2.context(precision=BITS, emax=1 << 40, emin=-(1 << 40))


def big(values: Any) -> np.ndarray:
    """Floats as they are, with room for more digits."""
    return np.asarray(as_big(np.asarray(values, dtype=float)), dtype=object)


@dataclass(frozen=True)
class Point:
    """A point and what follows from it: margins and probabilities of the rivals, the loss, and the mass against the target."""

    x: np.ndarray
    s: np.ndarray
    p: np.ndarray
    loss: Any
    logit: Any  # of 1 − p_k

    @property
    def mass(self) -> Any:
        """1 − p_k."""
        return self.p.sum()


class Free:
    """One source and one target, in the classifier's units; all numbers are mpfr."""

    def __init__(self, A: np.ndarray, b: np.ndarray, source: np.ndarray, k: int) -> None:
        rows, bias = big(A), big(b)
        self.rows = np.delete(rows, k, axis=0) - rows[k]
        self.bias = np.delete(bias, k) - bias[k]
        self.source = source

    def at(self, x: np.ndarray, T: Any = 1) -> Point:
        """What is true of x; with a temperature, of the loss T·ln Σ exp(s/T)."""
        s = (self.rows @ x + self.bias) / T
        top = s.max()
        e = exp(s - top)
        total = e.sum()
        logit = top + gmpy2.log(total)
        own = gmpy2.exp(-logit) if logit > 0 else mpfr(1)
        loss = logit + gmpy2.log1p(own) if logit > 0 else gmpy2.log1p(gmpy2.exp(logit))
        return Point(x, s, e / (total * (1 + gmpy2.exp(-logit))), loss, logit)

    def gradient(self, point: Point, lam: Any) -> np.ndarray:
        """∇E."""
        return lam * (point.x - self.source) + point.p @ self.rows

    def square(self, x: np.ndarray) -> Any:
        """‖x − x̄‖²."""
        return (x - self.source) @ (x - self.source)

    def objective(self, point: Point, lam: Any) -> Any:
        """E."""
        return lam * self.square(point.x) / 2 + point.loss

    def gap(self, point: Point, lam: Any) -> Any:
        """At most how far E is above its least value."""
        g = self.gradient(point, lam)
        return g @ g / (2 * lam)

    def least(self, point: Point, lam: Any, prob: Any) -> Any:
        """A lower bound on ½‖x − x̄‖² of all x with p_k ≥ prob."""
        return (self.objective(point, lam) - self.gap(point, lam) + gmpy2.log(prob)) / lam

    # ---- optima ----

    def step(self, point: Point, lam: Any, T: Any, rhs: np.ndarray) -> np.ndarray:
        """``(∇²E)⁻¹ rhs``."""
        mean = point.p @ self.rows
        H = (self.rows.T * point.p) @ self.rows - np.outer(mean, mean)
        H = H / T
        for d in range(len(H)):
            H[d, d] += lam
        return _solution(H, rhs)

    def minimum(self, lam: Any, start: np.ndarray, T: Any = 1) -> Point | None:
        """The least E by Newton's method with line searches; None where it does not converge."""
        point = self.at(start, T)
        for _ in range(PATIENCE):
            move = -self.step(point, lam, T, self.gradient(point, lam))
            along = self.rows @ move
            longest = abs(along).max() / T
            new = self.at(point.x + move, T)
            if longest > 1e-3 and self.gradient(new, lam) @ move > 0:  # past the minimum along the step
                low, high = mpfr(0), mpfr(1)
                for _ in range(25):
                    t = (low + high) / 2
                    new = self.at(point.x + t * move, T)
                    low, high = (t, high) if self.gradient(new, lam) @ move < 0 else (low, t)
            elif longest < SMALL:
                return new
            point = new
        return None

    def optimum(self, lam: Any, start: np.ndarray | None = None) -> Point | None:
        """The least E, from a point that may be near; without one, or in vain, down a temperature."""
        found = None if start is None else self.minimum(lam, start)
        if found is not None:
            return found
        x = self.source
        T = abs(self.rows @ x + self.bias).max() / 10
        while T > 1:
            cooled = self.minimum(lam, x, T)
            x = x if cooled is None else cooled.x
            T /= COOLING
        return self.minimum(lam, x)

    def ahead(self, margin: Any) -> Any:
        """The least ½‖x − x̄‖² with all rivals' scores this far behind; None where there is none.

        Of all sets of rivals that may be just so far, the one whose multipliers have the right sign and that leaves the others
        behind.
        """
        short, size = self.rows @ self.source + self.bias + margin, len(self.rows)
        near = mpfr("1e-50") * (1 + abs(short).max())
        for chosen in itertools.chain.from_iterable(itertools.combinations(range(size), n) for n in range(size + 1)):
            rows, missing = self.rows[list(chosen)], short[list(chosen)]
            try:
                force = _solution(rows @ rows.T, missing) if chosen else missing
            except (ZeroDivisionError, gmpy2.DivisionByZeroError, gmpy2.InvalidOperationError):
                continue
            if not all(gmpy2.is_finite(f) and f >= 0 for f in force):
                continue
            move = -(force @ rows) if chosen else 0 * self.source
            if (short + self.rows @ move).max() <= near:
                return move @ move / 2
        return None

    def nearest(self, logit: Any, first: Any, start: np.ndarray | None = None) -> tuple[Any, Point] | None:
        """λ and the nearest point with logit(1 − p_k) ≤ ``logit``, which the source is above; None where none is found."""
        lam, low, high, x, best = first, mpfr(0), mpfr("inf"), start, None
        for _ in range(120):
            point = self.optimum(lam, x)
            if point is None:
                return None
            x, miss = point.x, point.logit - logit
            if abs(miss) < NEAR * (1 + abs(logit)):
                return lam, point
            if miss <= 0:
                low, best = lam, (lam, point)
            else:
                high = lam
            if lam < DEEPEST * first:
                return None
            move = -self.step(point, lam, 1, lam * (x - self.source))
            rate = point.p @ (self.rows @ move) / point.mass
            change = -miss / rate if rate > 0 else mpfr("inf")
            new = lam * gmpy2.exp(min(max(change, mpfr(-9)), mpfr(9)))
            if not low < new < high:
                between = gmpy2.sqrt(low * high) if high < mpfr("inf") else low * 8000
                new = between if low > 0 else high / 8000
            x = x + move * gmpy2.log(new / lam)
            lam = new
        return best


def _solution(M: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """``M⁻¹ rhs`` of a positive definite matrix, by elimination."""
    M = np.column_stack([M, rhs])
    n = len(M)
    for i in range(n):
        M[i + 1 :, i:] -= (M[i + 1 :, i] / M[i, i])[:, None] * M[i, i:]
    for i in reversed(range(n)):
        M[i, n] = (M[i, n] - M[i, i + 1 : n] @ M[i + 1 :, n]) / M[i, i]
    return M[:, n]
