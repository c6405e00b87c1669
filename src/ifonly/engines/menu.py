"""The menu: the plans that change no more things than they have to, the cheapest first.

Items are features and groups of one-hot columns. Let R be the sets of items that can reach the goal within the limits if only
they change. R is upward closed. The menu has the cheapest plan of each of its minimal sets: no part of such a set is enough.

Best first over disjoint classes of minimal sets. A class is all minimal sets T that contain I and nothing of F. It has

1. a lower bound on the cost: the optimum's with F frozen; for two classes that of `covers`, which knows that T is minimal;
2. a minimal set S without F, known or new: of what the optimum with F frozen changes, what is not needed is dropped;
3. other sets: T does not contain S, so that there is a first item of S∖I which it leaves alone. These are one class for each
   item of S∖I: with that item in F, and those before it in I.

What is found is the menu as far as its costs are below the bounds of all classes that are open; when none is, it is complete.
Items that must change, since the source is outside its limits, are in every set. Items that are enough alone are looked for
first, by a closed form; no other minimal set contains one.

Which sets can reach the goal is asked of `gains` first, then of what is known of larger and smaller sets, and only then of an
engine.
"""

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.covers import Covers
from ifonly.engines.gains import Gains, price
from ifonly.model.errors import InputError
from ifonly.model.numerics import Flags, Floats
from ifonly.problem.asked import Aim
from ifonly.problem.conditions import Conditions
from ifonly.problem.contradiction import possible
from ifonly.problem.each_limit import restricted
from ifonly.problem.irreducible import irreducible
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["Restrictions", "menu"]

Solve = Callable[[Conditions, Aim, Budget], Result]
Set = frozenset[int]  # of items

MOST_EFFORT = 600  # of engines, in nodes, where the user sets no limit …
OF_A_SOLVE = 3  # … of which each solve takes so many besides its own
MOST_CLASSES = 4000  # that take no engine
SAME = 1e-9  # relative: costs that differ by less are equal


class Class(NamedTuple):
    """All minimal sets that contain ``inside`` and nothing of ``out``."""

    inside: Set
    out: Set
    w: float | None  # where the search for a bound starts
    bounded: bool  # whether the bound is its own, and not that of a larger class


class Restrictions:
    """One question with all but some items frozen: whether the goal can be reached then, and the cheapest plan.

    The question is about one class, and a probability or a margin; ``optimum`` is its answer. ``solve`` answers it under other
    conditions. The budget is for all solves together; where its limits are not those of the user (``limited``), there are
    some anyway.
    """

    def __init__(
        self, conditions: Conditions, optimum: Result, source: Floats, aim: Aim, solve: Solve, budget: Budget, *, limited: bool
    ) -> None:
        self.conditions, self.source, self.aim = conditions, source, aim
        self.solve, self.budget, self.limited = solve, budget, limited
        optimum = replace(optimum, conditions=conditions)
        self.gains = Gains(conditions, source, aim)
        self.must = Set(np.flatnonzero(self.gains.must).tolist())
        self.all = Set(range(len(self.gains.items)))
        self.n_solves, self.n_nodes = 0, optimum.n_nodes
        self._plans: dict[Set, Result | None] = {self.all: optimum}
        self._enough: list[Set] = []  # sets that reach the goal …
        self._short: list[Set] = [Set()] if self.changed(optimum) else []  # … and that do not
        self.learn(self.all, optimum)
        simple = self.gains.exact and len(self.gains.margins) == 1 and conditions.matrix is None
        self.covers = Covers(self.gains) if simple else None

    @property
    def spent(self) -> bool:
        """Whether to stop."""
        tired = not self.limited and self.n_nodes + OF_A_SOLVE * self.n_solves >= MOST_EFFORT
        return tired or self.budget.late or self.n_nodes >= self.budget.nodes

    def plan(self, items: Set, *, late: bool) -> Result | None:
        """The cheapest plan that changes only these items, and those that must.

        None where the limits leave no point, or where it is ``late`` to find out.
        """
        items |= self.must
        if items not in self._plans and not late:
            self.n_solves += 1
            moving = [d for i in items for d in self.gains.items[i].tolist()]
            here = restricted(self.conditions, ~np.isin(np.arange(len(self.source)), moving))
            budget = replace(self.budget, nodes=max(1, self.budget.nodes - self.n_nodes))
            try:
                found = replace(self.solve(here, self.aim, budget), conditions=here)
                self.n_nodes += max(1, found.n_nodes)
                self.learn(items, found)
            except (InputError, np.linalg.LinAlgError):  # no point within the limits, in floating point; or numbers out of hand
                found = None
                self.n_nodes += 1
                if possible(here, self.source) is False:
                    self._short.append(items)
            self._plans[items] = found
        return self._plans.get(items)

    def learn(self, items: Set, found: Result) -> None:
        """What a plan that was sought among these items says of others."""
        if found.status is Status.UNREACHABLE:
            self._short.append(items)
        elif found.is_plan:
            changed = self.changed(found)
            self._enough.append(changed)
            if found.status.ok:  # the cheapest with more items is that with what it changes
                self._plans.setdefault(changed, found)

    def known(self, items: Set) -> bool | None:
        """Whether these items are enough, as far as is known from larger and smaller sets."""
        if any(enough <= items for enough in self._enough):
            return True
        return False if any(items <= short for short in self._short) else None

    def can_reach(self, items: Set) -> bool | None:
        """Whether these items, and those that must change, are enough; None where that was not found out in time."""
        items |= self.must
        known = self.known(items)
        if known is None:
            known = self.gains.can_reach(self._flags(items))
        if known is None:
            self.plan(items, late=self.spent)
            known = self.known(items)
        return known

    def changed(self, result: Result) -> Set:
        """The items that a plan changes."""
        moved = result.x != self.source
        return Set(i for i, features in enumerate(self.gains.items) if moved[features].any())

    def _flags(self, items: Set) -> Flags:
        return np.isin(np.arange(len(self.all)), list(items))

    def least(self, inside: Set, out: Set, w: float | None) -> tuple[float, float | None]:
        """A lower bound on the cost of minimal sets with all of ``inside`` and nothing of ``out``; infinite for no sets."""
        left = self.all - out
        if self.covers is not None:
            return self.covers.floor(self._flags(inside), self._flags(left - inside), w)
        if self.can_reach(left) is False:
            return math.inf, w
        found = self.plan(left, late=self.spent)
        return (0.0 if found is None else max(found.bound, 0.0)), w

    def order(self, items: Set, w: float | None) -> list[int]:
        """Items by what they do in the cheapest plan there is with them, the most first; what that leaves alone last."""
        members = sorted(items)
        if self.covers is not None:
            return sorted(members, key=self.covers.saved(w).__getitem__, reverse=True)
        found = self.plan(items, late=self.spent)
        if found is None or not found.is_plan:
            return members
        costs = price(self.conditions, np.abs(found.x - self.source))
        return sorted(members, key=lambda i: -float(costs[self.gains.items[i]].sum()))


def menu(question: Restrictions, n: int) -> tuple[list[Result], bool, bool]:
    """The n cheapest plans for minimal sets, the cheapest first; whether there are no others, and whether none is cheaper.

    Or as many as there are; one more is looked for, to know whether these are all.
    """
    search = _MenuSearch(question)
    for _ in search.run():
        if len(search.known) > n and search.ranked(n):
            break
    plans, ranked = [search.plans[items] for items in search.settled(n)], search.ranked(n)
    return plans, not search.open and math.isinf(search.lost) and len(search.known) <= n, ranked


class _MenuSearch:
    """The classes that are open, and the minimal sets that are known."""

    def __init__(self, question: Restrictions) -> None:
        self.question = question
        self.known: dict[Set, float] = {}  # minimal sets, and a lower bound on what each costs
        self.plans: dict[Set, Result] = {}  # the cheapest of some of them
        self.sets: list[Set] = []  # those of them that classes are split by
        self.open: list[tuple[float, int, Class]] = []
        self.lost = math.inf  # the least bound of what was given up
        self._serial = count()

    def run(self) -> Iterator[None]:
        """Split one class after the other, until none is left or time is up."""
        question = self.question
        alone = Set() if question.budget.late else self._alone()
        self._push(0.0, Class(Set(), alone | question.must, None, False))
        for _ in range(MOST_CLASSES):
            if not self.open or question.budget.late or (question.spent and question.covers is None):
                return
            bound, _, here = heapq.heappop(self.open)
            # 1. Its bound, and back with it.
            if not here.bounded:
                own, w = question.least(here.inside, here.out, here.w)
                if math.isfinite(own):
                    self._push(max(bound, own), here._replace(w=w, bounded=True))
                continue
            # 2. A minimal set of it.
            found = self._minimal(here, bound)
            # 3. What else it has.
            if found is not None:
                self._split(here, bound, found)
            yield

    def _alone(self) -> Set:
        """The items that are enough by themselves: minimal sets already."""
        if self.question.must or self.question.can_reach(Set()):
            return Set()
        sure, least = self.question.gains.alone()
        self.known |= {Set([i]): float(least[i]) for i in np.flatnonzero(sure).tolist()}
        return Set().union(*self.known)

    def _minimal(self, here: Class, bound: float) -> Set | None:
        """A set that reaches the goal without what is out, minimal if that can be told; None if there is none."""
        question = self.question
        there = [known for known in self.sets if known.isdisjoint(here.out)]
        if there:
            return min(there, key=lambda known: len(known - here.inside))
        left = question.all - here.out - question.must
        reached = question.can_reach(left)
        if not reached:
            if reached is None:
                self.lost = min(self.lost, bound)
            return None
        # What is inside comes first, so that it stays if it can: then less of the class is left.
        order = sorted(question.order(left, here.w), key=lambda i: i not in here.inside)
        run = max(1, len(order) // 2)
        needed = irreducible(order, lambda some: question.can_reach(Set(some)), lambda: question.budget.late, run)
        found = Set(needed.parts)
        if needed.proved:
            self.known[found] = bound if question.covers is None else question.least(found, question.all - found, here.w)[0]
            self.sets.append(found)
        else:
            self.lost = min(self.lost, bound)
        return found

    def _split(self, here: Class, bound: float, found: Set) -> None:
        inside = here.inside
        for i in self.question.order(found, here.w):
            if i in here.inside:
                continue
            # Where a set that is known is inside, there is none beside it.
            if any(known <= inside for known in self.sets):
                break
            self._push(bound, Class(inside, here.out | {i}, here.w, False))
            inside |= {i}

    def _push(self, bound: float, part: Class) -> None:
        heapq.heappush(self.open, (bound, next(self._serial), part))

    # ---- what is known ----

    def ranked(self, n: int) -> bool:
        """Whether the n cheapest of what is known are the n cheapest there are."""
        first = set(self.settled(n))
        others = (self.plans[i].bound if i in self.plans else self.known[i] for i in self.known if i not in first)
        least = min(self.lost, self.open[0][0] if self.open else math.inf, *others, math.inf)
        return all(self.plans[i].status.ok and self.plans[i].cost <= least * (1 + SAME) for i in first)

    def settled(self, n: int) -> list[Set]:
        """The n cheapest of the sets that are known, all of them with their plans.

        The cost of a plan takes the place of its bound; what turns out to be no plan is struck off.
        """
        question, first = self.question, list[Set]()
        waiting = [(bound, sorted(items, reverse=True), items) for items, bound in self.known.items()]
        heapq.heapify(waiting)
        while waiting and len(first) < n:
            _, ordered, items = heapq.heappop(waiting)
            if items in self.plans:
                first.append(items)
                continue
            found = question.plan(items, late=question.budget.late)
            if found is not None and found.is_plan and question.changed(found) == items | question.must:
                self.known[items], self.plans[items] = found.cost, found
                heapq.heappush(waiting, (found.cost, ordered, items))
            else:
                self.lost = min(self.lost, self.known.pop(items))
        return first
