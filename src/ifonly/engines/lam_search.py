"""The one search for λ, shared by all engines that reach a probability.

``L(ln λ) = logit(1 − p_k)`` of the answers rises with λ, and λ is wanted where it is at its goal: Newton on L, in a bracket. An
engine solves for a λ, says by how much L missed and how fast it rises there, and is told the next λ.

L has bends: where one rival takes over from another it may be steep between two flat parts, from each of which Newton's step
leads to the other and back, well within the bracket. So where a step is more than half as long as the last but one, the middle
of the bracket is taken instead.
"""

import math

__all__ = ["LONGEST_STEP", "Bracket"]

LONGEST_STEP = math.log(1e4)  # where L is flat, Newton's step is no guide
MISLED = 1e-3  # relative: a bracket so narrow with its goal outside has an end that is none


class Bracket:
    """The largest λ known to meet the goal (0: none yet), and the least known to miss it (∞: none yet)."""

    __slots__ = ("doubtful", "high", "last", "longest", "low")

    def __init__(self, longest: float) -> None:
        self.longest = longest  # as far as a step in ln λ may go
        self._begin()

    def _begin(self) -> None:
        self.low, self.high, self.doubtful = 0.0, math.inf, False
        self.last = math.inf, math.inf  # how long the last two steps in ln λ were

    def saw(self, lam: float, miss: float, width: float = math.inf, *, solved: bool = True) -> None:
        """L at λ is above its goal by ``miss``, or (≤ 0) meets it, and is there if it is below by no more than ``width``.

        What an engine has not ``solved`` may be wrong: where the bracket shuts on a λ that is, and is not there, all others are
        forgotten.
        """
        self.doubtful |= not solved
        if miss <= 0:
            self.low = max(self.low, lam)
        else:
            self.high = min(self.high, lam)
        if self.doubtful and solved and not -width <= miss <= 0 and self.shut(MISLED):
            self._begin()
            self.saw(lam, miss, width)

    def shut(self, width: float) -> bool:
        """Whether the ends are this near to each other, relatively."""
        return self.high < math.inf and self.high - self.low <= width * self.high

    def next(self, lam: float, miss: float, rate: float) -> float | None:
        """The next λ, where L is hoped to be lower by ``miss``; ``rate`` is dL/d ln λ. None: nothing is left between the ends.

        Newton's step, or where it leaves the bracket or goes to and fro the middle of that, or (with no lower end) the longest
        step down.
        """
        step = -miss / rate if rate > 0 else math.copysign(self.longest, -miss)
        step = min(max(step, -self.longest), self.longest)
        new, ended = lam * math.exp(step), self.low > 0 and self.high < math.inf
        if not self.low < new < self.high or (ended and abs(step) > 0.5 * self.last[0]):
            if self.low > 0:
                new = math.sqrt(self.low) * math.sqrt(self.high) if ended else lam * math.exp(self.longest)
            else:
                new = self.high * math.exp(-self.longest)
        if not self.low < new < self.high:
            return None
        self.last = self.last[1], abs(math.log(new / lam))
        return new
