"""A conic solver's word on problems with limits: what is discrete about them is left out."""

import math

import cvxpy as cp
import numpy as np

from ifonly.problem.goals import Weights
from ifonly.problem.limited import LimitedProblem


class Conic:
    """The continuous problem for Clarabel: written from the statement of the problem, not from the code."""

    def __init__(self, problem: LimitedProblem) -> None:
        conditions, model, source = problem.conditions, problem.model, problem.source
        limits, D = conditions.limits, len(source)
        scale = np.ones(D) if model.scaling is None else model.scaling.scale
        shift = np.zeros(D) if model.scaling is None else model.scaling.shift
        self.change = cp.Variable(D)
        x = source + self.change
        c = conditions.per_unit
        root = np.diag(c) if conditions.matrix is None else np.linalg.cholesky(conditions.matrix).T
        self.half_square = 0.5 * cp.sum_squares(root @ self.change)
        self.sparse = (conditions.mu * c) @ cp.abs(self.change)
        A, b, k = model.A / scale, model.b - model.A @ (shift / scale), problem.k
        s = (A - A[k]) @ x + (b - b[k])
        self.loss = cp.log_sum_exp(s)
        lo, hi = problem.box
        self.limits = [x[d] >= lo[d] for d in range(D) if np.isfinite(lo[d])] + [
            x[d] <= hi[d] for d in range(D) if np.isfinite(hi[d])
        ]
        self.limits += [
            row @ x == rest if equal else row @ x <= rest
            for row, rest, equal in zip(limits.C, limits.rest, limits.equal, strict=True)
        ]
        self.limits += [cp.sum(x[group]) == 1 for group in limits.groups]
        if conditions.margin is not None:
            self.limits += [s[j] <= -conditions.margin for j in problem.rivals]

    def least(self, weights: Weights) -> float | None:
        loss = self.loss if weights.loss else 0.0
        return self._least(2 * weights.lam * 0.5 * self.half_square + weights.l1 * self.sparse + loss, [])

    def least_cost(self, prob: float) -> float | None:
        return self._least(self.half_square + self.sparse, [self.loss <= -math.log(prob)])

    def least_cost_and_multiplier(self, prob: float) -> tuple[float | None, float]:
        """The least cost with a probability, and the multiplier of that."""
        reached = self.loss <= -math.log(prob)
        least = self._least(self.half_square + self.sparse, [reached])
        return least, 0.0 if least is None else float(reached.dual_value)

    def least_loss(self) -> float | None:
        return self._least(self.loss, [])

    def _least(self, what, more) -> float | None:
        found = cp.Problem(cp.Minimize(what), self.limits + more)
        found.solve(solver=cp.CLARABEL)
        return float(found.value) if found.status == "optimal" else None
