"""Whole numbers, categories, few changes, with rules or several rivals: a compiled search for the best choices.

Rules, a margin over each rival, and a probability among several classes are constraints, so are the ties of a cost that has a
matrix, and λ weighs a loss; a search with a multiplier for each (many_multipliers.hpp) finds the choices. What is continuous
is then solved as ever (`candidates`), and the answer put to every test. What this does not settle is left to `cases`, which is
slower and knows more.
"""

import math
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.candidates import Candidates
from ifonly.engines.cost_problem import CostProblem
from ifonly.engines.limited import SPARES
from ifonly.engines.relaxing import WITHIN, Relaxing
from ifonly.engines.searched import Record, dual_of, measured, run, slack_of
from ifonly.model.numerics import EPS, Floats
from ifonly.native.one_multiplier import CompiledSearch, Constraints
from ifonly.problem.asked import Aim
from ifonly.problem.dual import Dual
from ifonly.problem.limits import EDGE
from ifonly.problem.proof import Proof
from ifonly.problem.results import Result

__all__ = ["CLOSE", "any_plan", "nearest_to_goal", "solve"]

MOST_CONSTRAINTS = 512  # Newton's matrix has a row for each
CLOSE = 1e-7  # how near to the best what comes nearest to a goal is to be, in logits or scores
HARDER = (1e-4, 1e-7, 0.0)  # relative: by which a goal is to be met, where any plan will do
EASY_NODES = 20_000  # until it is known whether a goal can be reached


def solve(problem: CostProblem, aim: Aim, budget: Budget) -> Result | Proof | None:
    """The best answer, or the proof that there is none; None where this is not for such a problem, or did not find any."""
    begin = _Beginning.of(problem, aim)
    if begin is None:
        return None
    relaxing, x = Relaxing(problem, begin.dual, budget), problem.source
    candidates, start = Candidates(problem, aim, relaxing), begin.start(relaxing)
    for spare in SPARES:  # the allowance for rounding grows with x, and may be too small for our own
        allowance = begin.allowance(aim, x, spare)
        search, done = begin.run(allowance, budget, start)
        found, closed = None, done and math.isinf(search.bound)
        if math.isfinite(search.cost):
            x = begin.placed(search)
            found = candidates.made_of(x)
        if found is not None:
            return begin.shown(found, aim, budget, begin.record(search, allowance), done=done)
        if closed:
            return begin.record(search, allowance).proof_of_none(budget)
        if math.isinf(search.cost):  # for the proof that there is no answer costs do not matter
            return begin.careless.none(allowance, budget) if done and len(begin.ties) else None
    return None


def first_multipliers(problem: CostProblem, aim: Aim, budget: Budget) -> tuple[Floats, Floats] | None:
    """Where nothing is discrete, those of rivals and of rules, all but exact, from one node; None where this is not for it."""
    begin = None if problem.space.tied else _Beginning.of(problem, aim)  # a matrix takes as many equations as features
    if begin is None:
        return None
    allowance = begin.allowance(aim, problem.source, SPARES[0])
    search, _ = begin.run(allowance, replace(budget, gap=0.0, nodes=1))
    if math.isinf(search.cost):
        return None
    given = begin.record(search, allowance).multipliers[0]
    return given[: len(problem.rivals)], given[len(problem.rivals) :]


def any_plan(problem: CostProblem, aim: Aim, budget: Budget) -> Result | None:
    """Whatever meets the goal within the limits; None where that was not found in time, or there is nothing."""
    begin = _Beginning.of(problem, aim)
    if begin is None:
        return None
    candidates, x = Candidates(problem, aim, Relaxing(problem, begin.dual, budget)), None
    # Where there is room the goal is made harder than it is, so that points meet it as they are: to solve what is continuous
    # takes longer than all of this.
    for way, more in product((begin, begin.careless), HARDER):
        if budget.late:
            break
        allowance = begin.allowance(aim, problem.source, SPARES[-1])
        allowance += more * (1 + abs(begin.dual.goal.most)) if aim.lam is None else 0.0
        search, _ = way.run(allowance, replace(budget, gap=1.0))
        if math.isfinite(search.cost):
            x = begin.placed(search)
            found = candidates.as_it_is(problem.kept(x))
            if found is not None:
                return found
    return None if x is None else candidates.made_of(x)


def nearest_to_goal(problem: CostProblem, aim: Aim, budget: Budget, x: Floats, proof: Proof) -> tuple[Floats, Proof] | None:
    """What comes nearest to a goal that is out of reach, and the proof that nothing comes nearer, but for `CLOSE`; or None.

    By bisection of the goal, from x and a proof that the goal itself is out of reach. Whether a goal can be reached takes any
    answer, or the proof that there is none: far less than the best answer.
    """
    begin = _Beginning.of(problem, aim) if problem.space.conditions.discrete else None
    if begin is None:
        return None
    goal = begin.dual.goal.most
    low, high = goal, problem.level(aim.prob, x)
    while high - low > CLOSE * (1 + abs(high)):  # of large ones, relative to them
        middle = 0.5 * (low + high)
        search, done = begin.careless.run(goal - middle, replace(budget, gap=1.0, nodes=EASY_NODES))
        if math.isfinite(search.cost):
            there = problem.kept(begin.placed(search))
            if problem.space.limits.broken(problem.source, there) is not None or not problem.level(aim.prob, there) < high:
                return None
            x, high = there, problem.level(aim.prob, there)
        elif done and math.isinf(search.bound):
            shown = begin.careless.record(search, 0.0).proof_of_none(budget)
            if shown is None:
                return None
            low, proof = middle, shown
        elif budget.late:  # what was found and what was shown so far are two numbers
            break
        else:
            return None
    return x, proof


class _Beginning(NamedTuple):
    """What the searches for a goal begin with."""

    problem: CostProblem
    dual: Dual
    items: Any  # `one_multiplier.Items`
    lo: Floats
    hi: Floats
    values: list[Floats]  # of features at uneven distances, in units of cost; of others none
    ties: Floats

    @classmethod
    def of(cls, problem: CostProblem, aim: Aim) -> "_Beginning | None":
        """That of a problem; None where there are no compiled loops, or too many constraints or values of a feature for them.

        A cost that has a matrix, Q = θ diag(Q) + R, is θ times one of features on their own and of u = TΔ: for ½ΔᵀQΔ =
        θ(½Σ_d Q_dd Δ_d² + ½u·u) where TᵀT = R/θ (with λ given all is λ times as much). So u are D items more, each at the cost
        ½u², which are not counted as changes, and TΔ − u = 0 are as many equations, ``ties``. Without a matrix there are none.
        """
        space, D = problem.space, problem.model.n_features
        n_ties = D if space.tied else 0
        if space.loops is None or len(problem.rivals) + len(space.limits.C) + n_ties > MOST_CONSTRAINTS:
            return None
        dual = dual_of(problem, aim)
        items, lo, hi = problem.items(np.zeros(D), scale=dual.unit)
        choices, per_unit, values = dual.choices, space.per_unit, [np.zeros(0)] * len(lo)
        step, at_rest, rests = items.step.copy(), items.at_rest.copy(), choices.rests(choices.root)
        for i in np.flatnonzero(np.isin(choices.singles, list(choices.values))).tolist():
            d = int(choices.singles[i])
            table = choices.values[d]
            if table is None:
                return None
            values[i] = (table - problem.source[d]) * per_unit[d]
            lo[i], hi[i], step[i] = values[i][0], values[i][-1], np.diff(values[i]).min(initial=1.0)
            at_rest[i] = rests[i]
        ties = np.zeros((0, D)) if dual.R is None else np.linalg.cholesky(dual.R).T / math.sqrt(dual.unit)
        return cls(problem, dual, items._replace(step=step, at_rest=at_rest), lo, hi, values, ties)

    @property
    def careless(self) -> "_Beginning":
        """The same where costs do not matter: what they tie together, and large ℓ1 terms, would only be in the way."""
        return self._replace(ties=self.ties[:0], items=self.items._replace(mu=0.0 * self.items.mu))

    def allowance(self, aim: Aim, x: Floats, spare: float) -> float:
        """By how much the goal of a search is harder than what is asked: that grows with x, and our own rounding needs more."""
        problem = self.problem
        if aim.lam is not None:
            return 0.0
        return self.dual.goal.most - problem.asked(aim.prob) + (1 + spare) * problem.rounding(x)

    def start(self, relaxing: Relaxing) -> Floats | None:
        """Multipliers to begin with: where features are tied those of the relaxation, which are far from 0; else None."""
        dual = self.dual
        relaxed = relaxing.solve(dual.choices.root, None) if len(self.ties) else None
        if relaxed is None or relaxed.reach:
            return None
        y, nu, change = relaxed.given
        assert change is not None  # where the cost has a matrix
        target = [] if dual.goal.lam is None else [1 - y.sum()]
        return np.concatenate([np.append(y, target) / dual.unit, nu / dual.unit, -self.ties @ change])

    def run(self, allowance: float, budget: Budget, start: Floats | None = None) -> tuple[CompiledSearch, bool]:
        """A search for what meets a goal that is harder by an allowance, and whether it came to its end."""
        more, items, constraints = len(self.ties), self.items, self._constraints(allowance, start)
        nothing = np.zeros(more)
        wider = {name: np.append(getattr(items, name), nothing) for name in ("g", "mu", "step", "anchor")}
        wider["at_rest"] = np.append(items.at_rest, nothing > 0)  # they have to move, and may
        lo, hi, cap = np.append(self.lo, nothing - np.inf), np.append(self.hi, nothing + np.inf), self.problem.space.cap(items)
        search = CompiledSearch(items._replace(**wider), lo, hi, constraints, cap + more, 2 * budget.nodes + 1)
        search.give_values([*self.values, *[np.zeros(0)] * more])
        return search, run(search, budget, constraints.work)

    def _constraints(self, allowance: float, start: Floats | None) -> Constraints:
        """The goal, harder by an allowance for rounding, the rules, and the equations of a cost that has a matrix.

        With λ the goal is a loss over all classes, that of the target last.
        """
        problem, dual, ties, weighed = self.problem, self.dual, self.ties, self.dual.goal.lam is not None
        space, limits = problem.space, problem.space.limits
        target, n = np.zeros((int(weighed), len(space.per_unit))), len(problem.rivals) + int(weighed)
        gains = np.concatenate([-problem.slopes, target, -limits.C, ties]) / space.per_unit
        of_groups = [(gains[:, g] * space.per_unit[g], [int(problem.source[g].argmax())]) for g in limits.groups]
        options = [of - of[:, now] for of, now in of_groups]  # over the one that each group has
        own = np.eye(len(gains), len(ties), -(n + len(limits.C)))
        none = np.zeros(len(ties))
        return Constraints(
            np.concatenate([gains[:, ~space.grouped], -own], axis=1),
            np.concatenate([np.zeros((len(gains), 0)), *options], axis=1),
            np.concatenate([dual.margins - dual.goal.most + allowance, target[:, 0], dual.over, none]),
            np.concatenate([np.zeros(n), EDGE * EPS * dual.sizes[1], none]),
            np.concatenate([np.zeros(n, dtype=bool), limits.equal, none == 0]),
            np.zeros(len(gains)) if start is None else start,
            n if weighed or (dual.goal.top is not None and n > 1) else 0,
            1 / dual.unit if weighed else 0.0,
        )

    def placed(self, search: CompiledSearch) -> Floats:
        """The x of the best choices that were found."""
        problem, choices = self.problem, self.dual.choices
        t, bounds = search.t[None, : len(self.lo)], (problem.lo[None], problem.hi[None])
        x = problem.space.placed(problem.source[None], t, search.choice[None], self.items.first, *bounds)[0]
        own = np.array(list(choices.values), dtype=np.intp)
        x[own] = choices.points_near(own, x[own])
        return x

    def record(self, search: CompiledSearch, allowance: float) -> Record:
        """What a search did."""
        dual, log, more, n = self.dual, search.log, len(self.ties), len(self.lo)
        log[log[:, 1] >= n + more, 1] -= more
        closed = np.isinf(log[:, 0])
        log[closed, 3] *= dual.unit
        log[(log[:, 1] < 0) & ~closed, 4] *= dual.unit
        given = search.multipliers * dual.unit
        if dual.goal.lam is not None:  # the target's is what is left of 1
            rivals = len(dual.margins)
            total = given[:, : rivals + 1].sum(axis=1, keepdims=True)
            given = np.delete(given, rivals, axis=1)
            given[:, :rivals] *= WITHIN / np.maximum(total, 1.0)
        return Record(dual, self.items, log, given, allowance, self.ties)

    def shown(self, found: Result, aim: Aim, budget: Budget, record: Record, *, done: bool) -> Result | None:
        """An answer with what its search shows of it, nothing if there was no time to see to that; None where it does not."""
        proof, problem = record.proof(budget), self.problem
        if proof is None:
            return measured(found, self.dual, 0.0, budget, 0.0) if budget.late else None
        slack = 0.0 if aim.lam is None else slack_of(problem, aim, proof.multipliers[0], found.x)
        n_nodes = len(proof) if problem.space.conditions.discrete else 0
        return record.bounded(replace(found, n_nodes=n_nodes, proof=proof), budget, done=done, slack=slack)

    def none(self, allowance: float, budget: Budget) -> Proof | None:
        """The proof that nothing meets the goal; None where that is not shown."""
        search, done = self.run(allowance, replace(budget, gap=1.0))
        return self.record(search, allowance).proof_of_none(budget) if done and math.isinf(search.bound) else None
