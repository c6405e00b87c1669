"""Where a search stops."""

import math
from dataclasses import dataclass, field, replace
from time import perf_counter

from ifonly.problem.question import MAX_NODES, Question
from ifonly.problem.status import REL_GAP

__all__ = ["MAX_ITER", "Budget"]

PER_OPERATION = 2e-10  # seconds: eigenvectors of 800 rows take a tenth of one
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

    def allows(self, n: int) -> bool:
        """Whether there is time for what takes n³ operations of linear algebra, which no clock cuts short."""
        return math.isinf(self.seconds) or self.left > PER_OPERATION * n**3

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.left < 0
