"""What an answer claims, and how each claim is recomputed from the classifier, the source and x alone, in D dimensions.

Nothing that a solver said is trusted. With E the objective, c the cost and p = p_k(x), the lower bounds are, for λ given,

    E* ≥ E(x) − gap(x),                      gap(x) = ‖∇E(x)‖²/(2λ) (+ what linear limits leave, see `solvers.ground`)

and for a probability τ, where every x' that reaches it has −ln p_k(x') ≤ −ln τ, with the λ that was found

    c* ≥ c(x) − (gap(x) + ln p − ln τ)/λ.

The bound of a search over whole numbers, categories or few changes is not recomputed here: it would take the search itself.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.limited_problem import Ground, LimitedProblem, Plan
from ifonly.model import Model
from ifonly.model.errors import CertificateError
from ifonly.model.numerics import EPS, summation_error
from ifonly.problem import Certificate, Problem
from ifonly.problem.status import Status

__all__ = ["Claim", "Within", "Withins"]

Floats = NDArray[np.float64]

VERIFY_TOL = 1e-10  # between class space and D dimensions, relative, for numbers that are sums of K or D terms
REACHED = (Status.EXACT, Status.CONVERGED, Status.STOPPED)  # statuses that claim to reach what was asked for


@dataclass(frozen=True, eq=False)
class Within:
    """What is known of an answer that was found within limits.

    Attributes
    ----------
    ground : Ground
        The model with its cost and limits.
    cost, bound, gap : float
        The cost; a proved lower bound on what was minimised (the objective with ``lam``, the cost with ``prob``); and by how
        much the answer can be above it.
    n_nodes : int
        Nodes of branch and bound.
    nu : ndarray
        Multipliers of the linear limits.
    best_bound : float
        Where the probability is out of reach, an upper bound on the one that can be reached.

    """

    ground: Ground
    cost: float
    bound: float
    gap: float
    n_nodes: int
    nu: Floats
    best_bound: float

    @classmethod
    def of(cls, plan: Plan, ground: Ground) -> "Within":
        """That of a plan."""
        return cls(ground, plan.cost, plan.bound, plan.gap, plan.n_nodes, plan.nu, plan.best_bound)

    def n_changes(self, moved: NDArray[np.bool_]) -> int:
        """How many features that is (a group of one-hot columns is one)."""
        return int(moved[~self.ground.grouped].sum()) + sum(bool(moved[group].any()) for group in self.ground.limits.groups)

    def blocking(self, source: Floats, k: int, x: Floats) -> tuple[str, ...]:
        """The limits that hold x back from class index ``k``, the worst first."""
        return LimitedProblem(self.ground, source, k).blocking(x, self.nu)


class Withins:
    """What is known of many answers, in arrays; ``withins[i]`` is one, None where there is no answer.

    Attributes
    ----------
    cost, bound, gap, n_nodes, best_bound : ndarray of shape (N,)
        As in `Within`; the cost is NaN where there is no answer.
    w : ndarray of shape (N,) or None
        The multiplier of the margin, where one was asked for.

    """

    def __init__(self, ground: Ground, N: int) -> None:
        self.ground = ground
        self.cost, self.bound, self.gap = np.full((3, N), np.nan)
        self.n_nodes = np.zeros(N, dtype=np.intp)
        self.best_bound = np.ones(N)
        self.w = None if ground.margin is None or ground.discrete else np.zeros(N)
        self._single: dict[int, Within] = {}

    @classmethod
    def of(cls, given: Iterable[Within]) -> "Withins":
        """Those of answers that were found one by one."""
        found = list(given)
        out = cls(found[0].ground, len(found))
        for n, within in enumerate(found):
            out.put(n, within)
        return out

    def put(self, n: int, within: Within) -> None:
        """Set one that was found by itself: it may have multipliers, and a ground, of its own."""
        for name in ("cost", "bound", "gap", "n_nodes", "best_bound"):
            getattr(self, name)[n] = getattr(within, name)
        self._single[n] = within

    def __len__(self) -> int:
        return len(self.cost)

    def __getitem__(self, i: int) -> Within | None:
        n = range(len(self))[i]
        if n in self._single or np.isnan(self.cost[n]):
            return self._single.get(n)
        cost, bound, gap, best = (float(v[n]) for v in (self.cost, self.bound, self.gap, self.best_bound))
        nu = np.zeros(0) if self.w is None else self.w[n : n + 1]
        return Within(self.ground, cost, bound, gap, int(self.n_nodes[n]), nu, best)


@dataclass(frozen=True, eq=False)
class Claim:
    """One answer with all that it claims; the fields are those of :class:`ifonly.Counterfactual`, in float64."""

    model: Model
    source: Floats
    x: Floats
    target: Hashable
    prob: float | None
    lam: float
    proba: Floats
    distance: float
    objective: float
    grad_norm: float
    status: Status
    within: Within | None

    @property
    def p_target(self) -> float:
        """The probability of the target."""
        return float(self.proba[self.model.class_index(self.target)])

    @property
    def cost(self) -> float:
        """What the change costs, ``½·distance² + Σμ|t|``."""
        return 0.5 * self.distance**2 if self.within is None else self.within.cost

    @property
    def gap(self) -> float:
        """Upper bound on E(x) − E*; with a cost or limits and ``prob``, on cost(x) − the least cost."""
        return self.grad_norm**2 / (2 * self.lam) if self.within is None else self.within.gap

    @property
    def bound(self) -> float:
        """A lower bound on the least there is of what was minimised: the objective with ``lam``, the cost otherwise."""
        if self.within is not None:
            return self.within.bound
        if self.prob is None:
            return self.objective - self.gap
        return self._least_cost(self.cost, self.gap, self.p_target)

    def _least_cost(self, cost: float, gap: float, p: float) -> float:
        if not np.isfinite(self.lam):
            return 0.0
        assert self.prob is not None
        return max(cost - (gap + max(math.log(p / self.prob), 0.0)) / self.lam, 0.0)

    @property
    def n_changes(self) -> int:
        """How many features differ from the source (a group of one-hot columns is one)."""
        moved = self.x != self.source
        return int(moved.sum()) if self.within is None else self.within.n_changes(moved)

    def verify(self) -> Certificate:
        """The fresh certificate; raises :class:`CertificateError` if anything that is claimed does not hold."""
        if self.status is Status.INVALID:
            raise CertificateError("there is no answer to verify: the source is not a finite input")
        if not np.isfinite(self.x).all():
            raise CertificateError("there is no answer to verify: the search was stopped before it found one")
        return self._free() if self.within is None else self._limited(self.within)

    def _free(self) -> Certificate:
        if np.isinf(self.lam) and (self.x != self.source).any():
            raise CertificateError("the answer claims to be the source itself, but x differs from it")
        source, x = self.model.to_classifier(self.source), self.model.to_classifier(self.x)
        problem = Problem(self.model, source, self.target, self.lam if np.isfinite(self.lam) else 1.0)
        found = problem.certificate(x)
        p = float(found.proba[problem.k])
        self._check_reached(p)
        # The two sides round differently: by as much as the logits do (at x and at the source), and as x does in its units.
        K, D = self.model.A.shape
        norm = float(np.linalg.norm(x) + np.linalg.norm(source)) + self.model.offset_norm
        terms = float(self.model.column_sizes @ (np.abs(x) + np.abs(source))) + self.model.offset_size
        logits = 4 * summation_error(D + K) * terms + found.logit_error
        self._check_proba(found.proba, logits)
        _check("distance", self.distance, found.distance, VERIFY_TOL * self.distance + 4 * K * EPS * norm)
        _check("objective", self.objective, found.objective, logits + VERIFY_TOL * (1 + self.objective))
        if np.isfinite(self.lam) and found.grad_norm > self.grad_norm + found.rounding:
            raise CertificateError(f"‖∇E(x)‖ is {found.grad_norm:.3g}; the answer claims at most {self.grad_norm:.3g}")
        return found

    def _limited(self, within: Within) -> Certificate:
        """Every limit, to the last bit, and the certificate of what is continuous."""
        ground = within.ground
        problem = LimitedProblem(ground, self.source, self.model.class_index(self.target))
        broken = ground.limits.broken(self.source, self.x)
        if broken is not None:
            raise CertificateError(f"a limit is broken: {broken}")
        if ground.max_changes is not None and self.n_changes > ground.max_changes:
            raise CertificateError(f"{self.n_changes} features change; at most {ground.max_changes} may")
        distance, cost = problem.cost_of(self.x)
        proba, loss = problem.proba(self.x)
        self._check_reached(float(proba[problem.k]))
        if ground.margin is not None and self.status in REACHED:
            self._check_ahead(ground.margin)
        lam = self.lam if np.isfinite(self.lam) else 1.0
        weight = 1.0 if self.prob is None else lam
        objective = 0.5 * lam * distance**2 + weight * (cost - 0.5 * distance**2) + loss if np.isfinite(self.lam) else loss
        objective = cost if ground.margin is not None else objective
        rounding = problem.rounding(self.x)
        self._check_proba(proba, rounding)
        _check("distance", self.distance, distance, VERIFY_TOL * (self.distance + 1))
        _check("cost", self.cost, cost, VERIFY_TOL * (self.cost + 1))
        _check("objective", self.objective, objective, rounding + VERIFY_TOL * (1 + abs(self.objective)))
        if ground.discrete:
            return Certificate(objective, proba, distance, float("nan"), rounding, rounding, self.gap, float("nan"))
        worth = problem.certificate(self.x, lam, weight, within.nu, cost_only=bool(np.isinf(self.lam)))
        judged = np.isfinite(self.lam) and self.status is not Status.UNREACHABLE
        if judged and worth.norm > self.grad_norm + worth.rounding:
            raise CertificateError(f"‖∂E(x)‖ is {worth.norm:.3g}; the answer claims at most {self.grad_norm:.3g}")
        return Certificate(objective, proba, distance, worth.norm, rounding, worth.rounding, worth.gap, worth.grad_norm / lam)

    def least(self, found: Certificate) -> float:
        """The lower bound on what was minimised that a fresh certificate supports; −∞ where that takes a search."""
        if self.status is Status.UNREACHABLE or (self.within is not None and self.within.ground.discrete):
            return -math.inf
        if self.prob is None:
            return found.objective - found.gap
        if self.within is None:
            return self._least_cost(0.5 * found.distance**2, found.gap, float(found.proba[self.model.class_index(self.target)]))
        problem = LimitedProblem(self.within.ground, self.source, self.model.class_index(self.target))
        cost = problem.cost_of(self.x)[1]
        if np.isinf(self.lam):
            return cost - found.gap
        return max(cost - (found.gap + problem.excess(self.x, self.prob)) / self.lam, 0.0)

    def _check_reached(self, p: float) -> None:
        if self.prob is None:
            return
        allowed = (Status.EXACT, Status.CONVERGED) if self.within is None else REACHED
        if self.status in allowed and p < self.prob:
            raise CertificateError(f"p(target) is {p!r}, below the {self.prob!r} that was asked for")

    def _check_ahead(self, margin: float) -> None:
        z, k = self.model.scores(self.x), self.model.class_index(self.target)
        ahead = float(z[k] - np.delete(z, k).max())
        if ahead < margin:
            raise CertificateError(f"the target's score is ahead by {ahead!r}, less than the {margin!r} that was asked for")

    def _check_proba(self, found: Floats, logits: float) -> None:
        """A probability moves by at most itself times what the logits move by."""
        k = self.model.class_index(self.target)
        _check("p(target)", self.p_target, float(found[k]), logits + VERIFY_TOL)
        for j in np.flatnonzero(~(np.abs(self.proba - found) <= logits + VERIFY_TOL))[:1]:
            _check(f"p({self.model.label(int(j))!r})", float(self.proba[j]), float(found[j]), logits + VERIFY_TOL)


def _check(name: str, claimed: float, found: float, allowed: float) -> None:
    if not abs(claimed - found) <= allowed:
        raise CertificateError(f"{name} is {found!r}; the answer claims {claimed!r}")
