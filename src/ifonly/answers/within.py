"""What is known of an answer that was found with a cost or limits."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ifonly.problem.conditions import Conditions
from ifonly.problem.results import Result

__all__ = ["Within", "blocking"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Within:
    """The conditions of an answer, and what is known of it because of them.

    Attributes
    ----------
    conditions : Conditions
        The cost and the limits.
    result : Result
        The answer's numbers.

    """

    conditions: Conditions
    result: Result

    @property
    def cost(self) -> float:
        """What the change costs."""
        return self.result.cost

    @property
    def bound(self) -> float:
        """A lower bound on what was minimised: the objective with ``lam``, the cost otherwise."""
        return self.result.bound

    @property
    def gap(self) -> float:
        """How far the answer is above that bound, at most."""
        return self.result.gap

    @property
    def n_nodes(self) -> int:
        """Nodes of the search; 0 where none was needed."""
        return self.result.n_nodes

    @property
    def nu(self) -> Floats:
        """Multipliers of the linear limits, and of margins where those were asked for."""
        return np.zeros(0) if self.result.multipliers is None else self.result.multipliers

    @property
    def best_bound(self) -> float:
        """Where the probability is out of reach, an upper bound on the one that can be reached."""
        return self.result.ceiling


def blocking(conditions: Conditions, source: Floats, result: Result) -> tuple[str, ...]:
    """The limits that hold an answer back, by what a unit of cost beyond them would bring; the worst first."""
    model, limits, x, k = conditions.model, conditions.limits, result.x, result.target
    assert x is not None
    slope = model.A if model.scaling is None else model.A / model.scaling.scale
    rivals = model.rivals(k)
    pull = (slope[k] - slope[rivals]).T @ result.proba[rivals] / conditions.per_unit
    given = result.multipliers
    rules = np.zeros(len(limits.C)) if given is None or not len(given) else given[: len(limits.C)]
    C = limits.C / conditions.per_unit
    pull = pull - rules @ C
    lo, hi, _ = limits.around(source[None])
    held = ((pull > 0) & (x >= hi[0])) | ((pull < 0) & (x <= lo[0]))
    held &= limits.frozen | ~conditions.grouped  # one column of a group is always 1: that is no limit of the user's
    gains = np.append(np.where(held, np.abs(pull), 0.0), np.abs(rules) * np.linalg.norm(C, axis=1))
    order = [d for d in np.argsort(-gains, kind="stable").tolist() if gains[d] > 0]
    return tuple(limits.rule(d - len(x)) if d >= len(x) else _bound(conditions, d, pull[d], x[d]) for d in order)


def _bound(conditions: Conditions, d: int, pull: float, value: float) -> str:
    """The limit that holds a feature back, in words."""
    limits, label = conditions.limits, conditions.model.feature_label(d)
    if limits.frozen[d]:
        return f"{label} is frozen"
    if pull > 0 and limits.decrease[d] and value < limits.hi[d]:
        return f"{label} may only fall"
    if pull < 0 and limits.increase[d] and value > limits.lo[d]:
        return f"{label} may only {'fall' if limits.decrease[d] else 'rise'}"
    return f"{label} {'≤' if pull > 0 else '≥'} {value:g}"
