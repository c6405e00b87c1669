"""One source and one target in class space: what the engines for free problems solve, and what they say of the answer."""

import math

import numpy as np

from ifonly.engines.coordinates import Basis, Floats, Rivals, Space, rivals_softmax
from ifonly.engines.newton import Outcome, newton
from ifonly.engines.rounding import Rounding
from ifonly.model import Model
from ifonly.model.numerics import EPS
from ifonly.problem.goals import entropy
from ifonly.problem.results import Result
from ifonly.problem.status import Status
from ifonly.rows.sources import Sizes

__all__ = ["ClassProblem", "cancels"]

CANCELLED = 64 * EPS  # of the pulls' sizes, feature by feature: what is left of them is rounding, as in `limited.ceiling`
GONE = 1e-6  # a rival whose share is this much of the largest, or has to fall to this much of itself, has no part in it
TRIES = 3  # of proportions: those of p, then the nearest ones that cancel


class ClassProblem:
    """The inverse problem for class index ``k``, from ``z = rows @ x̄`` and the source's size alone. D is nowhere in it.

    ``prob`` is the probability that is wanted, where one is: for some estimators it says how coarsely they round.
    """

    def __init__(self, model: Model, z: Floats, sizes: Sizes, k: int, prob: float | None = None) -> None:
        self.model, self.k = model, k
        self.margins: Floats = model.margins(z, k)
        self.size = float(np.abs(self.margins).max())
        self.lengths = model.rival_lengths(k)
        self.rounding = Rounding.of(model, sizes, k, prob)

    def space(self, lam: float) -> Space:
        """The coordinates to solve in."""
        if self.model.dependent:
            return Basis(self.model.rival_map(self.k), self.margins, lam, self.size)
        return Rivals(self.model.rival_gram(self.k), self.margins, lam, self.size)

    def settle(self, outcome: Outcome, tol: float | None, before: int = 0) -> Result:
        """The outcome for a given λ: on to the last digit where ‖∇E‖ met the tolerance, but not for certain.

        ``before`` are iterations that led to where it began.
        """
        n_iter = before + outcome.n_iter
        result = self.finish(outcome, tol, n_iter)
        if tol is not None and outcome.converged and not outcome.precise and result.grad_norm > tol:
            further = newton(outcome.space, outcome.point.at)
            result = self.finish(further, tol, n_iter + further.n_iter)
        return result

    def finish(self, outcome: Outcome, tol: float | None, n_iter: int, status: Status | None = None) -> Result:
        """The outcome of a method with its certificate, over all K classes."""
        space, point = outcome.space, outcome.point
        grad_norm = self.rounding.grad_norm(space, point, self.lengths)
        if status is None:
            if tol is not None and grad_norm <= tol:
                status = Status.CONVERGED
            else:
                status = Status.EXACT if outcome.precise else Status.MAX_ITER
        coef = point.at if isinstance(space, Basis) else self.model.coefficients(point.at, self.k) / space.lam
        numbers = float(space.lam), space.distance(point), point.objective, grad_norm
        proba = self.proba(point.p, point.p_target)
        return Result(self.k, status, *numbers, proba, coef, n_iter=n_iter, history=outcome.history)

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


def cancels(rows: Floats, margins: Floats, p: Floats, wanted: float) -> bool:
    """Whether rivals with these ``rows`` ā and ``margins`` s̄ pull so that logit(1 − p_k) stays above ``wanted`` everywhere.

    For all q ≥ 0 with Σq = 1 and all x, ``ln Σ eˢ ≥ q·s(x) + H(q) = q·s̄ + H(q) + r·(x − x̄)`` with ``r = Σ q_j ā_j``. Where
    r is 0 the target is between its rivals, and that bounds p_k. In floats it is hardly ever 0; but where it is a rounding of
    the pulls that it is left of, in each feature, then rounding x moves margins as far as any change lowers them, and of no x
    can it be said that it reaches more. That is a matter of the differences ā, which are exact where rows are alike: a rival
    that differs from the target in its last digits only is beaten along these, however far away. The first q are p's.
    """
    for least in (0.0, GONE * p.max()):  # all rivals; those that have a part in it
        q = np.where(p > least, p, 0.0)
        for _ in range(TRIES):
            if not q.sum() > 0:
                break
            q = q / q.sum()
            pulls = q[:, None] * rows
            left, size = pulls.sum(axis=0), np.abs(pulls).sum(axis=0)
            if (np.abs(left) <= CANCELLED * size).all():
                if float(q @ margins) + entropy(q) >= wanted:
                    return True
                break
            # The nearest proportions that cancel: p is known to rounding, and rivals that are beaten still have some of it.
            units = np.where(size > 0, size, 1.0)
            system = np.column_stack([pulls / units, q])  # the last: Σq stays as it is
            share = 1 + np.linalg.lstsq(system.T, -np.append(left / units, 0.0), rcond=None)[0]
            q = np.where(share > GONE, share, 0.0) * q
    return False
