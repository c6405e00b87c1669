"""What is known of an answer that was found with a cost or limits."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ifonly.problem.conditions import Conditions
from ifonly.problem.results import Result

__all__ = ["Within"]

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
