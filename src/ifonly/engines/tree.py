"""Branch and bound, best bound first: what all searches share. A search says what a node is, bounds it and splits it."""

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Generic, TypeVar

from ifonly.engines.budget import Budget
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["Tree"]

Node = TypeVar("Node")


class Tree(Generic[Node]):
    """The open nodes, and the best answer so far; ``value`` is what is minimised."""

    def __init__(self, root: Node, budget: Budget, most: int, value: Callable[[Result], float]) -> None:
        self.budget, self.most, self.value = budget, min(most, budget.nodes), value
        self.best: Result | None = None
        self.least, self.closed, self.n_nodes = math.inf, math.inf, 0
        self._serial = count()
        self._heap: list[tuple[float, int, Node]] = [(-math.inf, next(self._serial), root)]

    def open(self) -> Iterator[tuple[float, Node]]:
        """The open nodes and their known bounds, the most promising first, until none can be better or time is up."""
        while self._heap and not self.hopeless(self._heap[0][0]) and self.n_nodes < self.most and not self.budget.late:
            known, _, node = heapq.heappop(self._heap)
            self.n_nodes += 1
            yield known, node

    def hopeless(self, bound: float) -> bool:
        """Whether nothing with this bound is better than what is known."""
        return bound >= self.least - self.budget.gap * abs(self.least)

    def push(self, bound: float, node: Node) -> None:
        """A node to open."""
        heapq.heappush(self._heap, (bound, next(self._serial), node))

    def close(self, bound: float) -> None:
        """A node that is done with: nothing in it is below this bound."""
        self.closed = min(self.closed, bound)

    def offer(self, result: Result | None) -> None:
        """An answer, kept if it is the best so far."""
        if result is not None and result.status is not Status.UNREACHABLE and self.value(result) < self.least:
            self.best, self.least = result, self.value(result)

    @property
    def done(self) -> bool:
        """Whether nothing is left that could be better."""
        return not self._heap or self.hopeless(self._heap[0][0])

    def answer(self, best: Result, n_nodes: int = 0) -> Result:
        """The best answer with its bound; ``n_nodes`` were searched besides those of this tree."""
        bound = min(self.least, self.closed, self._heap[0][0] if self._heap else math.inf)
        status = Status.EXACT if self.done and best.status is Status.EXACT else Status.STOPPED
        gap = max(self.least - bound, 0.0)
        return replace(best, bound=bound, gap=gap, status=status, n_nodes=self.n_nodes + n_nodes, grad_norm=0.0)
