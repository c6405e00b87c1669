"""Where logit(1 − p_k) has to end so that whoever evaluates the answer finds p_k ≥ τ; for one row or for many.

The user's own estimator evaluates p_k at the rounded x, with sums in an order of its own. So logit(1 − p_k) has to end below
logit(1 − τ) by as much as all that rounding can come to, which grows with the change, and no further below than need be:

    top = logit − a,    width = a + least,    a = slack + slope·Σq/λ.
"""

from typing import Any, NamedTuple

from ifonly.engines.rounding import Rounding
from ifonly.model import Model
from ifonly.model.numerics import EPS
from ifonly.problem.goals import needed_logit

__all__ = ["GUESS", "Window"]

GUESS = 0.5  # rounding of margins from which on a probability is a guess, and no answer is called one


class Window(NamedTuple):
    """``[top − width, top]``: see the module. Numbers, or arrays over rows."""

    logit: Any
    slack: Any
    slope: Any
    least: Any

    @classmethod
    def of(cls, model: Model, rounding: Rounding, size: Any, prob: Any) -> "Window":
        """For sources with margins of this size."""
        wanted = needed_logit(prob, model)
        slope = rounding.of_change(rounding.extent_of(1.0)) + 0 * wanted  # the same for all rows
        return cls(wanted, rounding.of_source(size), slope, 8 * EPS * (abs(wanted) + 1))

    def take(self, index: Any) -> "Window":
        """Those of some rows."""
        return Window(*(a[index] for a in self))

    def allowance(self, change: Any) -> Any:
        """a, for a change of this size (Σq/λ)."""
        return self.slack + self.slope * change

    def edges(self, allowance: Any) -> tuple[Any, Any]:
        """``top`` and ``width`` for this allowance."""
        return self.logit - allowance, allowance + self.least

    def middle(self, change: float) -> float:
        """What to aim at, for a change of this size."""
        top, width = self.edges(self.allowance(change))
        return top - 0.5 * width

    def holds(self, logit: float, change: float) -> bool:
        """Whether logit(1 − p_k) is where it has to be."""
        top, width = self.edges(self.allowance(change))
        return top - width <= logit <= top
