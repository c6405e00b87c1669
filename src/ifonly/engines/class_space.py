"""One source and one target in class space: what the engines for free problems solve, and what they say of the answer."""

import math
from functools import cached_property

import numpy as np

from ifonly.engines.coordinates import Basis, Floats, Rivals, Space, rivals_softmax
from ifonly.engines.newton import Outcome, newton
from ifonly.engines.rounding import Rounding
from ifonly.engines.windows import Window
from ifonly.model import Model
from ifonly.problem.results import Result
from ifonly.problem.status import Status
from ifonly.rows.sources import Sizes

__all__ = ["ClassProblem"]


class ClassProblem:
    """The inverse problem for class index ``k``, from ``z = rows @ x̄`` and the source's size alone. D is nowhere in it.

    ``prob`` is the probability that is wanted, where one is: for some estimators it says how coarsely they round.
    """

    def __init__(self, model: Model, z: Floats, sizes: Sizes, k: int, prob: float | None = None) -> None:
        self.model, self.k = model, k
        self.margins: Floats = model.margins(z, k)
        self.size = float(np.abs(self.margins).max())
        self.rounding = Rounding.of(model, sizes, k, prob)

    @cached_property
    def lengths(self) -> Floats:
        """``‖ā_j‖`` of the rivals."""
        return self.model.rival_lengths(self.k)

    def space(self, lam: float) -> Space:
        """The coordinates to solve in."""
        if self.model.dependent:
            return Basis(self.model.rival_map(self.k), self.margins, lam, self.size)
        return Rivals(self.model.rival_gram(self.k), self.margins, lam, self.size)

    def window(self, prob: float) -> Window:
        """Where logit(1 − p_k) has to end for ``p_k ≥ prob``."""
        return Window.of(self.model, self.rounding, self.size, prob)

    # ---- answers ----

    def settle(self, space: Space, outcome: Outcome, tol: float | None, n_iter: int | None = None) -> Result:
        """The outcome for a given λ: on to the last digit where ‖∇E‖ met the tolerance, but not for certain."""
        n_iter = outcome.n_iter if n_iter is None else n_iter
        result = self.finish(space, outcome, tol, None, n_iter)
        if tol is not None and outcome.converged and not outcome.precise and result.grad_norm > tol:
            further = newton(space, outcome.point.at)
            result = self.finish(space, further, tol, None, n_iter + further.n_iter)
        return result

    def finish(
        self,
        space: Space,
        outcome: Outcome,
        tol: float | None = None,
        status: Status | None = None,
        n_iter: int | None = None,
    ) -> Result:
        """The outcome of a method with its certificate, over all K classes."""
        point, lam = outcome.point, space.lam
        grad_norm = self.rounding.grad_norm(space, point, self.lengths)
        if status is None:
            if tol is not None and grad_norm <= tol:
                status = Status.CONVERGED
            else:
                status = Status.EXACT if outcome.precise else Status.MAX_ITER
        return Result(
            self.k,
            status,
            float(lam),
            space.distance(point),
            point.objective,
            grad_norm,
            self.proba(point.p, point.p_target),
            point.at if isinstance(space, Basis) else self.model.coefficients(point.at, self.k) / lam,
            n_iter=outcome.n_iter if n_iter is None else n_iter,
            history=outcome.history,
        )

    def stay(self, status: Status) -> Result:
        """The source itself as the answer: it is nearest to itself, the limit of λ → ∞."""
        p, p_target, loss = rivals_softmax(self.margins)
        still = np.zeros(self.model.basis.shape[0])
        return Result(self.k, status, math.inf, 0.0, loss, 0.0, self.proba(p, p_target), still)

    def proba(self, p: Floats, p_target: float) -> Floats:
        """All K probabilities from the rivals'."""
        out = np.empty(self.model.n_classes)
        out[self.model.rivals(self.k)] = p
        out[self.k] = p_target
        return out
