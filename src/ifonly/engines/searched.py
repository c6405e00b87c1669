"""What compiled searches found (`native.one_multiplier`), as answers: their record as the proof, their bound."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.cost_problem import CostProblem
from ifonly.model.numerics import EPS, Flags, Floats, Indices
from ifonly.problem.asked import Aim
from ifonly.problem.checker import SAME
from ifonly.problem.dual import Dual, Goal
from ifonly.problem.proof import Cut, Leaf, Multipliers, Node, Proof
from ifonly.problem.results import Result
from ifonly.problem.status import LEAST_VALUE, REL_GAP, Status

__all__ = ["ALLOWANCES", "MOST_ROUNDING", "Record", "dual_of", "measured", "run", "slack_of", "tolerated"]


MOST_ROUNDING = 0.01  # relative: a larger gap is not its doing
ALLOWANCES = 3.0  # for rounding, in the goal that answers have to meet: more than that is not its doing
FAR_MORE = 64.0  # roundings
SAME_VALUE = 4.0  # roundings of a value: two ways to compute it differ by no more, as a rule
ROUNDED_TWICE = 2.0  # by a search, and by those who check it
PATIENCE = 0.25  # of the time
AFTER, PER_NODE = 0.1, 5e-6  # of the time, and seconds for each node: what is left for the answer and its proof
SLICE, WORK = 256, 1_000_000  # nodes between two looks at the clock: so many, with no more work in them
VALUE, MOVE, OPTIONS = range(3)  # how a node was cut
NO_TIES = np.zeros((0, 0))


def run(search: Any, budget: Budget, work: int) -> bool:
    """Search until nothing is left, or a limit is met, memory too; whether nothing is left.

    ``work`` is that of a node. While nothing is found the search has a part of the time, so that others may try.
    """
    some = max(1, min(SLICE, WORK // max(work, 1)))
    while search.solved < budget.nodes and not search.full:
        left = budget.all_but(max(AFTER, 1 - PATIENCE) if math.isinf(search.cost) else AFTER)
        left -= PER_NODE * search.count
        if left < 0:
            break
        if search.expand(budget.gap, min(some, budget.nodes - search.solved), left):
            return True
    return False


def tolerated(budget: Budget, slack: float, size: float) -> float:
    """The relative gap of an answer that is as good as asked for, or as rounding lets it be, which costs so much."""
    return max(budget.gap, min(REL_GAP + slack / max(size, 1e-300), MOST_ROUNDING))


def slack_of(problem: CostProblem, aim: Aim, given: Multipliers, x: Floats) -> float:
    """What rounding costs an answer: in what is minimised, by its allowance in the goal, and by that of equations.

    It is not searched for.
    """
    spare = float(np.abs(given.nu) @ problem.space.limits.spare(problem.source))
    if aim.lam is not None:
        return REL_GAP * LEAST_VALUE + problem.rounding(x) + spare
    return ALLOWANCES * float(given.y.sum()) * max(problem.allowance(aim.prob, at) for at in (problem.source, x)) + spare


def measured(found: Result, dual: Dual, bound: float, budget: Budget, slack: float) -> Result:
    """An answer with its gap from a bound, and how good that is, where rounding costs ``slack``."""
    value, worth = _worth(found, dual)
    size, bound = dual.problem.relative_to(worth, weighed=dual.goal.lam is not None), min(bound, worth)
    gap = worth - bound
    status = Status.of_gap(gap, size, tolerated(budget, slack, size))
    return replace(found, status=status, bound=bound - (worth - value), gap=gap)


def _worth(found: Result, dual: Dual) -> tuple[float, float]:
    """What is minimised, as an answer says, and as it is: with λ by differences of rows, where coarser scores make it less."""
    if dual.goal.lam is None:
        return found.cost, found.cost
    value, worth = found.objective, dual.worth(found.x)
    return value, worth if worth - value > SAME_VALUE * EPS * (1 + abs(value)) else value


def dual_of(problem: CostProblem, aim: Aim) -> Dual:
    """The bounds of a problem with a goal; kept, for there are several who ask."""
    goal = Goal.of(aim.lam, aim.prob, problem.space.conditions.margin)
    if goal not in problem.duals:
        problem.duals[goal] = Dual(problem.textbook, goal)
    return problem.duals[goal]


class Record:
    """All nodes of a search: how they were cut, or what bounds them.

    ``items`` and ``log`` are those of `native.one_multiplier`, ``multipliers`` (nodes, constraints) those of rivals first, then
    of rules, then of ``ties``: what Δ is tied by (D, D) where a cost has a matrix (`constraints`), else empty. The goal of the
    search was harder than what is asked for by the ``allowance``.
    """

    def __init__(
        self, dual: Dual, items: Any, log: Floats, multipliers: Floats, allowance: float, ties: Floats = NO_TIES
    ) -> None:
        self.dual, self.items, self.log, self.multipliers = dual, items, log, multipliers
        self.allowance, self.ties = allowance, ties
        cut = log[:, 1] >= 0
        self.closed: Flags = np.isinf(log[:, 0])  # nothing in them meets the goal
        self.leaves = np.flatnonzero(~cut & ~self.closed)
        self.values = np.flatnonzero(cut & (log[:, 2] == VALUE))  # cut between two values of a feature
        self.others = np.flatnonzero(cut & (log[:, 2] != VALUE))
        of_rules = multipliers[:, len(dual.margins) : len(dual.margins) + len(dual.over)]
        # What a harder goal, and equations that need not hold to the last digit, add to each bound.
        self.slack = allowance * multipliers[:, : len(dual.margins)].sum(axis=1) + np.abs(of_rules) @ dual.spare

    def proof(self, budget: Budget) -> Proof | None:
        """The record as a proof; None where a closed node misses no more than a harder goal, or may, when time is up."""
        if not (np.isfinite(self.multipliers).all() and self._missed(budget)):
            return None
        cuts, closed, first = self._cuts(), self.closed.tolist(), self.log[:, 5].astype(int).tolist()
        tree: list[Cut | Leaf] = []
        known: dict[bytes, int] = {}
        nodes = [0]
        while nodes:  # each before its two parts, and all of the first of these before the second
            node = nodes.pop()
            if node in cuts:
                tree.append(cuts[node])
                nodes += [first[node] + 1, first[node]]
            else:
                given = self.multipliers[node].tobytes()
                tree.append(Leaf(known.setdefault(given, len(known)), reach=closed[node]))
        return Proof(tuple(tree), self._given(np.frombuffer(b"".join(known)).reshape(len(known), -1)))

    def _given(self, rows: Floats) -> tuple[Multipliers, ...]:
        """The multipliers of nodes, as a proof has them."""
        y, nu, of_ties = np.split(rows, np.cumsum([len(self.dual.margins), len(self.dual.over)]), axis=1)
        if not len(self.ties):
            return tuple(map(Multipliers, y, nu))
        return tuple(map(Multipliers, y, nu, np.linalg.solve(self.ties, -of_ties.T).T / self.dual.unit))

    def proof_of_none(self, budget: Budget) -> Proof | None:
        """The record as a proof that nothing meets the goal; None where a node is left in which something may."""
        return None if len(self.leaves) else self.proof(budget)

    def _missed(self, budget: Budget) -> bool:
        """Whether no closed node meets the goal, as far as there is time to look at those of which that is not obvious."""
        closed = np.flatnonzero(self.closed)
        doubtful = closed[~self._surely_missed(closed)].tolist()
        cuts, parents = self._tree() if doubtful else ({}, {})
        for leaf in doubtful:
            node = self._node(leaf, parents, cuts)
            given = self._given(self.multipliers[[leaf]])
            if budget.late or not (self.dual.empty(node) or self.dual.bound(node, *given, reach=True).value > 0):
                return False
        return True

    def _surely_missed(self, closed: Indices) -> Flags:
        """Whether what is missed in these closed nodes is far more than the allowance and rounding."""
        dual = self.dual
        rows, longest = np.abs(np.concatenate([dual.S, dual.C])), dual.longest(dual.choices.root)
        values = self.log[self.values]
        features = dual.choices.singles[values[:, 1].astype(int)]
        np.maximum.at(longest, features, np.abs(values[:, 3:5]).max(axis=1) / dual.problem.conditions.per_unit[features])
        with np.errstate(invalid="ignore", over="ignore"):
            reach = np.where(rows > 0, rows * longest, 0.0).sum(axis=1)
            given = np.abs(self.multipliers[closed, : len(rows)])
            terms = given @ (np.concatenate(dual.sizes) + reach + abs(dual.goal.most) + 1)
            rounding = FAR_MORE * EPS * (len(longest) + 8) * terms
            return self.log[closed, 3] > self.slack[closed] + rounding

    def _tree(self) -> tuple[dict[int, Cut], dict[int, int]]:
        """How nodes were cut that were, and of which each is a part."""
        cuts = self._cuts()
        return cuts, {int(self.log[node, 5]) + part: node for node in cuts for part in (0, 1)}

    def _cuts(self) -> dict[int, Cut]:
        """How the nodes were cut that were."""
        choices, log, conditions = self.dual.choices, self.log, self.dual.problem.conditions
        found: dict[int, Cut] = {}
        nodes = self.values
        features = choices.singles[log[nodes, 1].astype(int)]
        ends = choices.source[features] + log[nodes, 3:5].T / conditions.per_unit[features]
        below, above = (choices.points_near(features, values).tolist() for values in ends)
        for node, d, low, high in zip(nodes.tolist(), features.tolist(), below, above, strict=True):
            found[node] = Cut("value", d, low, high)
        for node in self.others.tolist():
            _, item, kind, least, _, _ = log[node].tolist()
            if kind == MOVE:
                found[node] = Cut("move", int(item))
                continue
            j = int(item) - len(choices.singles)
            begin, end = int(self.items.first[j]), int(self.items.first[j + 1])
            fewer = np.flatnonzero(self.items.og[begin:end] < least).tolist() if kind == OPTIONS else [int(least) - begin]
            found[node] = Cut("option", j, options=tuple(fewer))
        return found

    def bounded(self, plan: Result, budget: Budget, *, done: bool, slack: float = 0.0) -> Result:
        """The answer with the least bound of a node, less what the allowance costs there, or (``slack``) rounding does.

        The proof may show more: a little, and of a search that was stopped what nobody had the time to look at. But one that
        shows that the answer is exact is only kept if the answer says so.
        """
        _, value = _worth(plan, self.dual)
        slacks = self.slack + FAR_MORE * slack
        bounds = self.log[:, 4] - slacks
        own, bound, doubt = 0.0, value, 0.0
        if len(self.leaves):
            least = int(self.leaves[bounds[self.leaves].argmin()])
            own = float(slacks[least])
            if len(self.ties) or own > SAME * (1 + abs(value)):  # those who check a bound count much of it as rounding, too
                given = self._given(self.multipliers[[least]])
                doubt = ROUNDED_TWICE * self.dual.bound(self.dual.choices.root, *given).rounding
            bound = float(bounds[least]) - doubt
        bound = max(min(value, bound), 0.0)
        exact = value - REL_GAP * self.dual.problem.relative_to(value, weighed=self.dual.goal.lam is not None)
        if bound < exact:
            proved, known = self._proved(bounds - doubt, exact, budget, whole=done)
            bound, plan = max(min(proved, value), 0.0), plan if known else replace(plan, proof=None)
        return measured(plan, self.dual, bound, budget, ALLOWANCES * (slack or own))

    def _proved(self, least: Floats, exact: float, budget: Budget, *, whole: bool) -> tuple[float, bool]:
        """The least bound of a leaf as others will find it, and whether it is known if that is less than ``exact``.

        ``least`` are bounds below those of nodes: so leaves are looked at from the lowest on, until none can be lower, or time
        is up; where the ``whole`` is not wanted, until one is less than that.
        """
        (cuts, parents), leaves, bound = self._tree(), self.leaves, math.inf
        for leaf in leaves[np.argsort(least[leaves], kind="stable")].tolist():
            low = float(least[leaf])
            if low >= bound or budget.late or (bound < exact and not whole):
                return min(bound, low), bound < exact or low >= exact
            node = self._node(leaf, parents, cuts)
            if not self.dual.empty(node):
                bound = min(bound, float(self.dual.bound(node, *self._given(self.multipliers[[leaf]])).value))
        return bound, True

    def _node(self, node: int, parents: dict[int, int], cuts: dict[int, Cut]) -> Node:
        """What is left in a node, cut after cut."""
        way = [node]
        while way[-1] in parents:
            way.append(parents[way[-1]])
        found = self.dual.choices.root
        for parent, part in pairwise(way[::-1]):
            found = self.dual.choices.cut(found, cuts[parent])[part - int(self.log[parent, 5])]
        return found
