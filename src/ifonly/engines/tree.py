"""Branch and bound, best bound first, with a record of it that is the proof (`problem.proof`)."""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from ifonly.engines.budget import Budget
from ifonly.engines.semismooth import Response
from ifonly.problem.proof import Cut, Leaf, Multipliers, Node, Proof

__all__ = ["Branch", "Tree"]


@dataclass
class Branch:
    """A node of the tree: its points, the best bound that is known for them, by which multipliers, and how it was cut."""

    node: Node
    bound: float
    given: Multipliers | None = None
    reach: bool = False
    start: Response | None = None  # where the relaxation of a part begins
    cut: "tuple[Cut, Branch, Branch] | None" = None  # how, and its two parts


class Tree:
    """All branches from one root, those that are open, and the least value so far."""

    def __init__(self, root: Node, budget: Budget) -> None:
        self.budget, self.least, self.n_nodes = budget, math.inf, 0
        self.reserve = 0.0  # seconds for each leaf at the end, when all of them are proved
        self.at_least = 1  # branch that is looked at without a plan, however late it is
        self.slack = 0.0  # what is better by no more than this is not looked for
        self.root = Branch(root, -math.inf)
        self._serial = count()
        self._heap: list[tuple[float, int, Branch]] = [(-math.inf, next(self._serial), self.root)]
        self._closed = math.inf

    def __iter__(self) -> Iterator[Branch]:
        """One branch after the other, the most promising first, until none can be better, or the time is up."""
        while not self.done and self.n_nodes < self.budget.nodes:
            late = self.budget.left < self.reserve * (self.n_nodes + 1)
            if late and (self.n_nodes >= self.at_least or self.least < math.inf):
                return
            self.n_nodes += 1
            yield heapq.heappop(self._heap)[2]

    @property
    def done(self) -> bool:
        """Whether nothing is left that could be better."""
        return not self._heap or self.hopeless(self._heap[0][0])

    @property
    def bound(self) -> float:
        """Nothing is below this."""
        return min(self._closed, self._heap[0][2].bound if self._heap else math.inf)

    def hopeless(self, bound: float) -> bool:
        """Whether nothing with this bound is better than what is known."""
        if math.isinf(self.least):
            return bound == math.inf
        return bound >= self.least - self.budget.gap * abs(self.least) - self.slack

    def close(self, branch: Branch) -> None:
        """Nothing more is to be had of a branch."""
        self._closed = min(self._closed, branch.bound)

    def split(self, branch: Branch, cut: Cut, parts: tuple[Node, Node]) -> None:
        """Two branches in place of one; each has its bound, until it is looked at."""
        one, other = (replace(branch, node=part) for part in parts)
        branch.cut = cut, one, other
        for part in (one, other):
            heapq.heappush(self._heap, (part.bound, next(self._serial), part))

    def proof(self) -> Proof:
        """The record."""
        tree: list[Cut | Leaf] = []
        known: dict[int, int] = {}
        multipliers: list[Multipliers] = []
        branches = [self.root]
        while branches:
            branch = branches.pop()
            if branch.cut is not None:
                cut, one, other = branch.cut
                tree.append(cut)
                branches += [other, one]
            elif branch.given is None:
                tree.append(Leaf(-1))
            else:
                place = known.setdefault(id(branch.given), len(multipliers))
                multipliers += [branch.given] if place == len(multipliers) else []
                tree.append(Leaf(place, branch.reach))
        return Proof(tuple(tree), tuple(multipliers))
