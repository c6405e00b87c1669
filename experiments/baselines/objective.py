"""E and its derivatives in the D features, with no more passes over A than they need.

    E(x)  = (λ/2)‖u‖² + ln Σⱼ exp(sⱼ),      u = x − x̄,   s = Āx + b̄   (margins over the target: sₖ = 0)
    ∇E(x) = λu + Āᵀp,                       p = softmax(s)             (the paper's eqs. 2 and 3)

E costs one product ``A @ x`` and ∇E one more, ``A.T @ y``; Ā = A − 1aₖᵀ is never formed. Along a direction d,

    E(x + αd) − E(x) = λ(α uᵀd + α²‖d‖²/2) + ln Σⱼ pⱼ exp(α aⱼ),      a = Ād,

so after the one product ``A @ d`` each trial of a line search costs O(K), and the margins at the accepted point are s + αa:
an iteration of any method makes one product with A for the line and one with Aᵀ for the gradient, however many trials it takes.

That difference is computed as it stands, not as a difference of two values of E: close to the answer E falls by less than its
own last digit, where a comparison of two values of E would end every method of first order before its gradient is small.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import get_blas_funcs

import ifonly

__all__ = ["Floats", "Line", "Objective", "Point", "daxpy"]

Floats = NDArray[np.float64]

(daxpy,) = get_blas_funcs(("axpy",), dtype=np.float64)  # daxpy(x, y, a=a): y ← y + ax in place, with no vector of D in between

STEEP = 30.0  # exp(aⱼα) beyond this swamps the sum; below, Σ pⱼ(exp(aⱼα) − 1) keeps all its digits …
HALF = -0.5  # … as long as it does not come near −1


@dataclass(frozen=True, slots=True)
class Point:
    """An iterate: where it is, E and its gradient there, and the margins to go on from."""

    u: Floats  # x − x̄
    margins: Floats  # s, with sₖ = 0
    q: Floats  # the rivals' probabilities; 0 for the target, so that Āᵀp = Āᵀq
    p_target: float
    loss: float  # −ln pₖ
    value: float  # E
    gradient: Floats
    grad_norm: float


class Objective:
    """One problem in D dimensions: the model's (A, b), x̄, the class index k and λ."""

    def __init__(self, model: ifonly.Model, source: ArrayLike, k: int, lam: float) -> None:
        if not 0 <= k < model.n_classes:
            raise ifonly.InputError(f"k must be a class index from 0 to {model.n_classes - 1}; got {k}")
        self.problem = ifonly.Problem(model, source, model.label(k), lam)  # checks the rest
        self.model, self.k = model, k
        self.source, self.lam = self.problem.source, self.problem.lam

    @cached_property
    def lipschitz(self) -> float:
        """``L = λ + ‖Ā‖²``, theorem 3.4."""
        return self.problem.lipschitz

    def change_to(self, start: ArrayLike | None) -> Floats:
        """The u of a starting point; None is x̄."""
        if start is None:
            return np.zeros_like(self.source)
        x = np.asarray(start, dtype=np.float64)
        if x.shape != self.source.shape:
            raise ifonly.InputError(f"start must have {len(self.source)} features; got an array of shape {x.shape}")
        return x - self.source

    def rivals_of(self, x: Floats) -> Floats:
        """``Āx``: one product with A."""
        z = self.model.A @ x
        z -= z[self.k]
        return z

    def pull(self, q: Floats) -> Floats:
        """``Āᵀq`` for a q that is 0 at the target: one product with Aᵀ."""
        y = q.copy()
        y[self.k] = -np.add.reduce(q)
        return self.model.A.T @ y

    def at(self, u: Floats) -> Point:
        """The point x̄ + u, from nothing but u."""
        b = self.model.b
        return self.with_margins(u, self.rivals_of(self.source + u) + (b - b[self.k]))

    def with_margins(self, u: Floats, margins: Floats) -> Point:
        """The point x̄ + u where its margins are known."""
        q, loss = softmax_loss(margins)
        p_target = float(q[self.k])
        q[self.k] = 0.0
        gradient = self.pull(q)
        daxpy(u, gradient, a=self.lam)
        value = 0.5 * self.lam * float(u @ u) + loss
        return Point(u, margins, q, p_target, loss, value, gradient, math.sqrt(gradient @ gradient))


class Line:
    """E along x + αd, as far as a line search needs it; one product with A when made, O(K) per trial."""

    def __init__(self, objective: Objective, point: Point, direction: Floats) -> None:
        self.objective, self.point, self.direction = objective, point, direction
        self.rates = objective.rivals_of(direction)  # a = Ād
        self.linear = objective.lam * float(point.u @ direction)
        self.square = objective.lam * float(direction @ direction)
        self.slope = self.linear + float(point.q @ self.rates)  # dE/dα at 0

    @property
    def lipschitz(self) -> float:
        """A Lipschitz constant of ∇E."""
        return self.objective.lipschitz

    def change(self, step: float) -> float:
        """``E(x + αd) − E(x)``."""
        moves = step * self.rates
        loss = None
        if moves.max() < STEEP:
            growth = float(self.point.q @ np.expm1(moves))
            if growth > HALF:
                loss = math.log1p(growth)
        if loss is None:
            loss = softmax_loss(self.point.margins + moves)[1] - self.point.loss
        return step * (self.linear + 0.5 * step * self.square) + loss

    def slope_at(self, step: float) -> float:
        """``dE/dα`` at a step."""
        p, _ = softmax_loss(self.point.margins + step * self.rates)
        return self.linear + step * self.square + float(p @ self.rates)

    def at(self, step: float) -> Point:
        """The point at a step; one product with Aᵀ, for the gradient."""
        u = self.point.u.copy()
        daxpy(self.direction, u, a=step)
        return self.objective.with_margins(u, self.point.margins + step * self.rates)


def softmax_loss(margins: Floats) -> tuple[Floats, float]:
    """Softmax and ``ln Σ exp(sⱼ)``; the largest term stays out of the sum, so that what is small beside it keeps its digits."""
    top = int(margins.argmax())
    p = np.exp(margins - margins[top])
    p[top] = 0.0
    rest = float(np.add.reduce(p))
    p[top] = 1.0
    p /= 1.0 + rest
    return p, float(margins[top]) + math.log1p(rest)
