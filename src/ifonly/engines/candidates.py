"""Answers from decisions: all discrete choices made, what is continuous solved, and the result put to every test.

Decisions come from a relaxation (rounded, and once `outward`), from the choices that a bound makes, and, before there is any,
from `greedy`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from ifonly.engines import semismooth
from ifonly.engines.cost_problem import CostProblem
from ifonly.engines.limited import SPARES, within_rules
from ifonly.engines.relaxing import Relaxing
from ifonly.engines.responses import nearest
from ifonly.engines.semismooth import Response, reach
from ifonly.model.numerics import Flags, Floats, log_sum_exp, softmax
from ifonly.problem.asked import Aim
from ifonly.problem.proof import Node
from ifonly.problem.results import Result

__all__ = ["Candidates"]


MOST_BACK = 200  # values that are tried on their other side
TRIED = 20  # of the most helpful moves, where linear rules forbid some
STRONG = 64  # rivals by which moves are chosen: the others are behind, or will be found ahead at the next
CLEAR = 1e-10  # relative: a lower value that is not the rounding of what is continuous
STRIDES = 2.0 ** np.arange(-2, 5)  # of what a feature without bounds would have to move by if the classifier were linear
MORE = 1e-3  # by which a goal is met for whoever evaluates it: no move has to go farther


@dataclass(frozen=True)
class Candidates:
    """Answers to one problem."""

    problem: CostProblem
    aim: Aim
    relaxing: Relaxing
    tried: set[bytes] = field(default_factory=set)  # decisions, each of which leads to one answer

    def best_of(
        self, x: Floats, moved: Flags | None = None, start: Response | None = None
    ) -> tuple[Result | None, Response | None]:
        """The best answer with the discrete choices of x (and these items moved), None if none will do, and its multipliers.

        Where the goal is out of reach, what comes nearest to it.
        """
        problem = self.problem
        x, fixed = self.decided(x, moved)
        decisions = np.where(fixed, x, np.nan).tobytes()
        if decisions in self.tried:
            return None, None
        self.tried.add(decisions)
        outside = (x[fixed] < problem.lo[fixed]).any() or (x[fixed] > problem.hi[fixed]).any()
        if outside or problem.space.limits.broken_rule(problem.source, x, fixed) is not None:
            return None, None
        at = start
        if not fixed.all():
            lo, hi = np.where(fixed, x, problem.lo), np.where(fixed, x, problem.hi)
            solved = (self._nearest if self.relaxing.farthest else self._continuous)(lo, hi, start)
            if solved is None:
                return None, None
            placed, at = solved
            x = np.where(fixed, x, placed)
        return self.as_it_is(x, at), at

    def made_of(self, x: Floats) -> Result | None:
        """The best answer with the discrete choices of x, or x itself, kept within its limits, where that is clearly better."""
        found, _ = self.best_of(x)
        same = self.as_it_is(self.problem.kept(x))
        if found is None or same is None:
            return found or same
        return same if self.aim.value(same) < (1 - CLEAR) * self.aim.value(found) else found

    def as_it_is(self, x: Floats, at: Response | None = None) -> Result | None:
        """A point as an answer; None if it will not do."""
        aim, farthest = self.aim, self.relaxing.farthest
        if self.problem.textbook.broken(x) is not None or not self.meets(x):
            return None
        lam, weight = aim.lam or (math.inf if farthest or aim.prob is not None else 1.0), 1.0
        if at is not None and aim.prob is not None and not farthest:
            lam = weight = at.lam
        found = self.problem.result(x, lam, weight=weight)
        return found if math.isfinite(found.cost) else None

    def meets(self, x: Floats) -> bool:
        """Whether x meets the goal, for whoever evaluates it."""
        if self.aim.lam is not None:
            return True
        if self.relaxing.farthest:
            return self.problem.is_clear(x)
        return self.problem.reached(x, self.aim.prob)

    def decided(self, x: Floats, moved: Flags | None = None) -> tuple[Floats, Flags]:
        """X with every discrete choice made, and the features that are fixed by them."""
        problem, limits, choices = self.problem, self.problem.space.limits, self.relaxing.choices
        x = limits.placed(x, problem.source, problem.lo, problem.hi)
        fixed = limits.on_grid | problem.space.grouped | (problem.lo == problem.hi)
        uneven = [part.feature for part in limits.uneven]
        x[uneven], fixed[uneven] = choices.nearest(choices.root, x)[uneven], True
        for group in limits.groups:
            allowed = choices.options(choices.root)[group]
            best = int(group[np.where(allowed, x[group], -1.0).argmax()])
            x[group] = 0.0
            x[best] = 1.0
        if choices.capped:
            still = choices.features(~self._some(x, moved))
            x[still], fixed[still] = problem.source[still], True
        return x, fixed

    def _some(self, x: Floats, moved: Flags | None) -> Flags:
        """The items that move: no more than may, those that must first, then those that change most in units of cost."""
        choices = self.relaxing.choices
        if moved is not None and int(moved.sum()) <= choices.most:
            return moved
        of = self.relaxing.moves(x)
        of[~choices.rests(choices.root)] = np.inf
        found = np.zeros(choices.n_items, dtype=bool)
        found[np.argsort(-of, kind="stable")[: choices.most]] = True
        return found & (of > 0)

    def _nearest(self, lo: Floats, hi: Floats, start: Response | None) -> tuple[Floats, Response | None] | None:
        """What comes nearest to the goal in a box with all choices made; None if no point keeps the rules."""
        relaxed = self.relaxing.solve(Node(lo, hi, np.zeros(self.relaxing.choices.n_items, dtype=np.int8)), start)
        if relaxed.x is None:
            return None
        part = self.problem.but(lo=lo, hi=hi)
        if relaxed.at is None or not self.problem.space.tied:
            return part.kept(relaxed.x), relaxed.at
        return part.placed(relaxed.at.t, relaxed.at.nu, 0.0), relaxed.at  # the cost does not count

    def _continuous(self, lo: Floats, hi: Floats, start: Response | None) -> Any:
        """What is continuous, solved in a box with all choices made; None if nothing there will do."""
        return within_rules(self.problem.but(lo=lo, hi=hi), self.relaxing.budget, lambda part: self._solved(part, start))

    def _solved(self, part: CostProblem, start: Response | None) -> tuple[Floats, Response | None] | None:
        """The best point of a part in which nothing is discrete, and its multipliers; None if none meets the goal."""
        budget = self.relaxing.budget
        if self.aim.prob is not None:
            terms = part.terms(budget)
            x = part.placed(*nearest(terms), 1.0)
            if self.meets(x) and part.holds(x):  # the choices are enough
                return x, None
            at, _, met = reach(terms, part.goal_of(self.aim.prob), start)
            return (part.placed(at.t, at.nu, at.weight), at) if met else None
        x = np.clip(part.source, part.lo, part.hi)
        for spare in SPARES:
            part = part.but(ahead=(1 + spare) * part.rounding(x))  # it grows with x, and may be too small for our own
            at, _, _ = semismooth.solve(part.terms(budget), self.aim.lam or 1.0, start=start)
            x = part.placed(at.t, at.nu, at.weight)
            if self.meets(x) or budget.late:
                return x, at
        return None

    # ---- a first answer ----

    def outward(self, x: Floats, y: Floats) -> Floats:
        """A relaxed solution, rounded to the side on which the goal is; then, value by value, to the other while it is met."""
        problem = self.problem
        below, above = self.relaxing.around(self.relaxing.choices.root, x)
        falls = y @ self.relaxing.dual.S > 0  # what is missed, as a feature falls
        there, back = np.where(falls, below, above), np.where(falls, above, below)
        x = np.where(np.isfinite(there), there, x)
        saved = np.abs(there - problem.source) - np.abs(back - problem.source)
        saved = np.where(np.isfinite(there) & np.isfinite(back) & (there != back), saved, 0.0) * problem.space.per_unit
        for d in np.argsort(-saved, kind="stable")[: int((saved > 0).sum())][:MOST_BACK].tolist():
            if self.relaxing.budget.late:
                break
            was, x[d] = x[d], back[d]
            if not self.meets(x):
                x[d] = was
        return x

    def greedy(self) -> Floats:
        """Where one item at a time, each time the one that helps most, gets to: the goal, or as far as items may move."""
        problem, choices, dual = self.problem, self.relaxing.choices, self.relaxing.dual
        x, _ = self.decided(np.clip(problem.source, choices.root.lo, choices.root.hi))
        for _ in range(max(choices.most - int((~choices.rests(choices.root)).sum()), 0)):
            if self.meets(x) or self.relaxing.budget.late:
                break
            s, some = dual.margins + dual.S @ (x - problem.source), slice(None)
            if len(s) > STRONG:
                some = np.argpartition(s, -STRONG)[-STRONG:]
            new = next((y for y in self._tried(x, s[some], dual.S[some]) if problem.textbook.broken(y) is None), None)
            if new is None:
                break
            x = new
        return x

    def _short(self, s: Floats) -> Any:
        """By how much the goal is missed, up to a constant."""
        return s.max(axis=-1) if self.aim.prob is None else log_sum_exp(s)

    def _tried(self, x: Floats, s: Floats, S: Floats) -> Iterator[Floats]:
        """The points that moves lead to which help, the most helpful of some first, and of those the shortest."""
        now = self._short(s)
        moves = (move for move in self._moves(x, s, S) if move[0] < now)
        for _, _, features, values in sorted(moves, key=itemgetter(0, 1))[:TRIED]:
            y = x.copy()
            y[features] = values
            yield y

    def _moves(self, x: Floats, s: Floats, S: Floats) -> Iterator[tuple[float, float, Any, Any]]:
        """What is missed after a move, how long it is, which features it changes, and to what: of the items that have not moved
        the best for each group, and those of the most helpful features.

        What meets the goal is as good as anything beyond, where the cost may be too large for floats: the shortest is best.
        """
        problem, choices, dual = self.problem, self.relaxing.choices, self.relaxing.dual
        node, enough = choices.root, dual.goal.most - MORE
        pull = -softmax(s) @ S
        over = max(float(self._short(s) - dual.goal.most), 1e-6)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            strides = np.where(pull != 0, over / pull, 0.0)
            wanted = x + np.append(STRIDES, np.inf)[:, None] * np.where(strides == 0, 0.0, strides)
        wanted = np.minimum(np.maximum(np.where(np.isfinite(wanted), wanted, x), node.lo), node.hi)
        wanted[-1] = np.where(pull > 0, node.hi, np.where(pull < 0, node.lo, x))
        wanted = np.where(np.isfinite(wanted), wanted, x)
        values = np.stack([choices.nearest(node, row) for row in wanted])
        still = choices.singles[(x == problem.source)[choices.singles]]
        with np.errstate(over="ignore", invalid="ignore"):  # so far away that nothing can be said of it
            tried = s[:, None, None] + S[:, None, still] * (values - x)[:, still]
            short = np.maximum(np.nan_to_num(self._short(np.moveaxis(tried, 0, -1)), nan=np.inf), enough)
        best, c = short.argmin(axis=0), problem.space.per_unit
        short, there = short.min(axis=0), values[best, still]
        length = c[still] * np.abs(there - x[still])
        for i in np.lexsort((length, short))[:TRIED].tolist():
            yield float(short[i]), float(length[i]), int(still[i]), float(there[i])
        for group in choices.groups:
            if x[group].argmax() == problem.source[group].argmax():
                for option in np.flatnonzero(choices.options(node)[group]).tolist():
                    new = np.eye(len(group))[option]
                    length = float(np.max(c[group] * np.abs(new - x[group])))
                    yield max(float(self._short(s + S[:, group] @ (new - x[group]))), enough), length, group, new
