"""A problem over few of its features: those that can change, or that an optimal answer can change.

The others stay at the source, and what they add to the logits goes into the biases. For a document of 80 words from which words
may only be taken, a vocabulary of 20 000 is a problem of 80 features.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.limited_problem import CostSpace, LimitedProblem
from ifonly.model import Model, Scaling
from ifonly.problem.actions import Limits, ResolvedActions
from ifonly.problem.conditions import Conditions
from ifonly.problem.cost import Cost
from ifonly.problem.results import Result

__all__ = ["Narrow", "can_narrow"]

Floats = NDArray[np.float64]

LEAST_FEATURES = 200  # below, nothing is saved


def can_narrow(problem: LimitedProblem) -> bool:
    """Whether it is worth it, and everything that stays can be left out."""
    space = problem.space
    mapped = any(column.maps for column in problem.model.encoding.columns)
    return problem.model.n_features >= LEAST_FEATURES and space.separable and not mapped and not isinstance(problem, Narrow)


class Narrow(LimitedProblem):
    """The same problem over the features ``keep``; a group is kept whole or not at all."""

    def __init__(self, whole: LimitedProblem, keep: NDArray[np.intp]) -> None:
        self.whole, self.keep = whole, keep
        model, old = whole.model, whole.space.conditions
        scaling = model.scaling
        part = None if scaling is None else Scaling(scaling.shift[keep], scaling.scale[keep], _some(scaling.rough, keep))
        A, source = model.A[:, keep], whole.source[keep]
        b = model.scores(whole.source) - A @ (source if part is None else part(source))
        small = Model(A, b, model.classes, scaling=part, hard=model.hard, precision=model.precision)
        cost = Cost(scale=old.per_unit[keep], l1=old.mu[keep])
        actions = ResolvedActions(limits=_some_limits(whole, keep, small))
        conditions = Conditions(small, cost, actions, old.max_changes, old.margin)
        super().__init__(CostSpace(conditions, whole.space.search), source, whole.k)
        self.lo, self.hi, self.margins = whole.lo[keep], whole.hi[keep], whole.margins

    def rounding(self, x: Floats) -> float:
        """That of the whole problem: the user's estimator adds up all features."""
        return self.whole.rounding(self.widened(x))

    def widened(self, x: Floats) -> Floats:
        """All features."""
        out = self.whole.source.copy()
        out[self.keep] = x
        return out

    def widen(self, plan: Result) -> Result:
        """An answer to the whole problem."""
        if plan.x is None or not np.isfinite(plan.x).all():
            return replace(plan, x=np.full(len(self.whole.source), np.nan))
        x = self.widened(plan.x)
        return replace(plan, x=x, proba=self.whole.proba(x)[0])


def _some(values: Floats | None, keep: NDArray[np.intp]) -> Floats | None:
    return None if values is None else values[keep]


def _some_limits(whole: LimitedProblem, keep: NDArray[np.intp], model: Model) -> Limits:
    limits, place = whole.space.limits, np.full(whole.model.n_features, -1)
    place[keep] = np.arange(len(keep))
    arrays = {name: getattr(limits, name)[keep] for name in ("lo", "hi", "frozen", "increase", "decrease", "step")}
    groups = tuple(place[group] for group in limits.groups if place[group[0]] >= 0)
    return replace(limits, model=model, groups=groups, C=limits.C[:, keep], uneven=(), **arrays)
