"""Where a search stops."""

import math
from dataclasses import dataclass, field, replace
from time import perf_counter

from ifonly.problem.question import MAX_NODES, Question
from ifonly.problem.status import REL_GAP

__all__ = ["EIGENVECTORS", "INVERSE", "MAX_ITER", "PRODUCT", "PROGRAM", "Budget"]

# Seconds for each of n³ (or n²D) operations: of eigenvectors, of which 800 take a tenth of one, of an inverse, of a product.
EIGENVECTORS, INVERSE, PRODUCT = 2e-10, 3e-11, 6e-11
PROGRAM = 7e-7  # seconds for each number of a linear program
GRACE = 0.02  # seconds beyond the limit in which something is found, or shown, that is all but there
MAX_ITER = 300  # of Newton's for a continuous answer, where the user does not say


@dataclass(frozen=True)
class Budget:
    """Where a search stops: at a relative gap, after so many nodes, after so many seconds."""

    gap: float = REL_GAP
    nodes: int = MAX_NODES
    seconds: float = math.inf
    max_iter: int = MAX_ITER
    began: float = field(default_factory=perf_counter)

    @classmethod
    def of(cls, question: Question) -> "Budget":
        """What the user gave it; its time begins now."""
        gap = REL_GAP if question.gap is None else question.gap
        return cls(gap, question.node_limit or MAX_NODES, question.time_limit or math.inf, question.max_iter or MAX_ITER)

    def anew(self) -> "Budget":
        """The same for the next source: its time begins now."""
        return replace(self, began=perf_counter())

    def half(self) -> "Budget":
        """The same with half of the time that is left: others come after it."""
        return self if math.isinf(self.seconds) else replace(self, seconds=self.seconds - 0.5 * max(self.left, 0.0))

    def all_but(self, share: float) -> float:
        """Seconds until this share of all of them is left."""
        return self.left if math.isinf(self.seconds) else self.left - share * self.seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (perf_counter() - self.began)

    def allows(self, operations: int, each: float) -> bool:
        """Whether there is time for so many operations of linear algebra, which no clock cuts short."""
        return math.isinf(self.seconds) or self.left > each * operations

    def ends(self, operations: int, each: float) -> bool:
        """The same, or within the grace: for what shows that nothing is to be found."""
        return self.allows(operations, each) or (each * operations < GRACE and not self.overdue)

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.left < 0

    @property
    def overdue(self) -> bool:
        """Whether it is up for what is all but there, too."""
        return self.left < -GRACE
