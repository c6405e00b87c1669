"""One source and one target as the solvers see them, and what they give back."""

import math
from dataclasses import dataclass

import numpy as np

from ifonly.engines.closed_form import logistic_root
from ifonly.engines.coordinates import Basis, Floats, Rivals, Space, rivals_softmax
from ifonly.engines.few_and_rest import Crowd, Ended, SolveCrowd, solve_crowd
from ifonly.engines.newton import MAX_ITER, Iteration, Outcome, minimise, newton
from ifonly.engines.rounding import Rounding
from ifonly.model import Model
from ifonly.problem.status import Status
from ifonly.rows.sources import Sizes

__all__ = ["ClassProblem", "Solution"]


@dataclass(frozen=True, slots=True)
class Solution:
    """An answer in class space: ``x = x̄ + rowsᵀ coef``. D is nowhere in it."""

    coef: Floats
    proba: Floats
    lam: float
    distance: float
    objective: float
    grad_norm: float
    n_iter: int
    status: Status
    history: tuple[Iteration, ...] = ()
    n_passes: int = 2  # over A: one for the margins, one for the answer


class ClassProblem:
    """The inverse problem for class index ``k``, from ``z = rows @ x̄`` and the source's size alone."""

    def __init__(self, model: Model, z: Floats, sizes: Sizes, k: int) -> None:
        self.model, self.k = model, k
        self.margins: Floats = model.margins(z, k)
        self.lengths: Floats = model.rival_lengths(k)
        self.size = float(np.abs(self.margins).max())
        self.rounding = Rounding.of(model, sizes)

    def space(self, lam: float) -> Space:
        """The coordinates to solve in."""
        if self.model.dependent:
            return Basis(self.model.rival_map(self.k), self.margins, lam, self.size)
        if self.model.crowded:
            return self.crowd_space(lam)
        return Rivals(self.model.rival_gram(self.k), self.margins, lam, self.size)

    def crowd_space(self, lam: float) -> Crowd:
        """The coordinates for very many rivals."""
        return Crowd(self.model.crowd_gram(self.k), self.k, self.margins, lam, self.size)

    def solve(
        self,
        lam: float,
        *,
        start: Floats | None = None,
        tol: float | None = None,
        max_iter: int = MAX_ITER,
        crowd: SolveCrowd = solve_crowd,
    ) -> Solution:
        """Minimise E for one λ.

        ``start``, if given, are margins to start from; the iterates are then the paper's (plain Newton). ``crowd`` is for very
        many classes.
        """
        if self.model.n_classes == 2 and start is None:
            return self.two_classes(lam, tol)
        if self.model.crowded and start is None:
            return self.ended(crowd(self.crowd_space(lam), max_iter=max_iter), tol, max_iter)
        space = self.space(lam)
        if start is None:
            outcome = minimise(space, space.start(), tol=tol, max_iter=max_iter)
        else:
            at = space.source() if start is self.margins else space.near(start)
            outcome = newton(space, at, tol=tol, order=2, max_iter=max_iter)
        return self.settle(space, outcome, tol)

    def two_classes(self, lam: float, tol: float | None = None) -> Solution:
        """Theorem 4.2: the answer for K = 2 in closed form, ``q = 1 − p₁* = φ(‖w‖²/λ, −s̄)``.

        What `Rivals` and `finish` do with arrays, here with numbers: a tenth of the time.
        """
        length, margin, rounding = float(self.lengths[0]), float(self.margins[0]), self.rounding
        h = length * length / lam
        q, _ = logistic_root(h, -margin)
        s = margin - h * q
        e = math.exp(-abs(s))
        p, p_target = (1 / (1 + e), e / (1 + e)) if s > 0 else (e / (1 + e), 1 / (1 + e))
        reach = 2 * rounding.row_norm * q / lam
        allowance = rounding.of_gradient(p * length, self.size, Sizes(reach, rounding.row_norm * reach), lam)
        grad_norm = abs(p - q) * length + allowance
        status = Status.CONVERGED if tol is not None and grad_norm <= tol else Status.EXACT
        coef, proba = np.array([-q if self.k == 0 else q]), np.array([p_target, p] if self.k == 0 else [p, p_target])
        objective = 0.5 * h * q * q + max(s, 0.0) + math.log1p(e)
        return Solution(coef / lam, proba, lam, length * q / lam, objective, grad_norm, 0, status)

    def ended(self, ended: Ended, tol: float | None, max_iter: int = MAX_ITER) -> Solution:
        """Where the rounds ended; if that is not the answer, on from there with Newton's matrix whole."""
        space, outcome, rounds = ended
        if outcome.converged or rounds >= max_iter:
            return self.finish(space, outcome, tol, None, rounds)
        outcome = minimise(space, outcome.point.at, tol=tol, max_iter=max_iter - rounds)
        return self.settle(space, outcome, tol, rounds + len(outcome.history))

    def settle(self, space: Space, outcome: Outcome, tol: float | None, n_iter: int | None = None) -> Solution:
        """The outcome for a given λ: on to the last digit where ‖∇E‖ met the tolerance, but not for certain."""
        n_iter = len(outcome.history) if n_iter is None else n_iter
        solution = self.finish(space, outcome, tol, None, n_iter)
        if tol is not None and outcome.converged and not outcome.precise and solution.grad_norm > tol:
            further = newton(space, outcome.point.at)
            solution = self.finish(space, further, tol, None, n_iter + len(further.history))
        return solution

    def finish(
        self,
        space: Space,
        outcome: Outcome,
        tol: float | None = None,
        status: Status | None = None,
        n_iter: int | None = None,
    ) -> Solution:
        """The outcome of a solver with its certificate, over all K classes."""
        point, lam = outcome.point, space.lam
        grad_norm = self.rounding.grad_norm(space, point, self.lengths)
        if status is None:
            if tol is not None and grad_norm <= tol:
                status = Status.CONVERGED
            elif outcome.precise:
                status = Status.EXACT
            else:
                status = Status.MAX_ITER
        y = point.at if isinstance(space, Basis) else self.model.coefficients(point.at, self.k) / lam
        return Solution(
            y,
            self.proba(point.p, point.p_target),
            float(lam),
            space.distance(point),
            point.objective,
            grad_norm,
            len(outcome.history) if n_iter is None else n_iter,
            status,
            outcome.history,
        )

    def stay(self, status: Status) -> Solution:
        """The source itself as the answer: it is nearest to itself, the limit of λ → ∞."""
        p, p_target, loss = rivals_softmax(self.margins)
        y = np.zeros(self.model.rows.shape[0])
        return Solution(y, self.proba(p, p_target), math.inf, 0.0, loss, 0.0, 0, status)

    def proba(self, p: Floats, p_target: float) -> Floats:
        """All K probabilities from the rivals'."""
        out = np.empty(self.model.n_classes)
        out[self.model.rivals(self.k)] = p
        out[self.k] = p_target
        return out
