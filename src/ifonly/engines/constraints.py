"""Whole numbers, categories, few changes, with rules or several rivals: a compiled search for the best choices.

Rules, a margin over each rival, and a probability among several classes are constraints, so are the ties of a cost that has a
matrix, and λ weighs a loss; a search with a multiplier for each (many_multipliers.hpp) finds the choices. What is continuous
is then solved as ever (`candidates`), and the answer put to every test. What this does not settle is left to `cases`, which is
slower and knows more.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.candidates import Candidates
from ifonly.engines.limited import SPARES
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.relaxing import WITHIN, Relaxing
from ifonly.engines.searched import ALLOWANCES, Record, dual_of, run, tolerated
from ifonly.model.numerics import EPS, Floats, Indices
from ifonly.native.one_multiplier import Constraints, Search
from ifonly.problem.asked import Aim
from ifonly.problem.dual import Dual
from ifonly.problem.limits import EDGE
from ifonly.problem.proof import Proof, prove
from ifonly.problem.results import Result
from ifonly.problem.status import LEAST_VALUE, REL_GAP, Status

__all__ = ["CLOSE", "Nearest", "any_plan", "nearest_to_goal", "solve"]


MOST_CONSTRAINTS = 512  # Newton's matrix has a row for each
CLOSE = 1e-7  # how near to the best what comes nearest to a goal is to be, in logits or scores
SAME_VALUE = 4.0  # roundings of a value: two ways to compute it differ by no more, as a rule
HARDER = (1e-4, 1e-7, 0.0)  # relative: by which a goal is to be met, where any plan will do
EASY_NODES = 20_000  # until it is known whether a goal can be reached


def solve(problem: LimitedProblem, aim: Aim, budget: Budget) -> Result | Proof | None:
    """The best answer, or the proof that there is none; None where this is not for such a problem, or did not find any."""
    dual = dual_of(problem, aim)
    begin = _Beginning.of(problem, dual) if _fits(problem) else None
    if begin is None:
        return None
    relaxing, x = Relaxing(problem, dual, budget), problem.source
    candidates, start = Candidates(problem, aim, relaxing), begin.start(dual, relaxing)
    for spare in SPARES:  # the allowance for rounding grows with x, and may be too small for our own
        allowance = _allowance(problem, aim, dual, x, spare)
        constraints = _constraints(problem, aim, dual, allowance, begin.ties)
        search = begin.search(constraints._replace(start=start), 2 * budget.nodes + 1)
        done, found = run(search, budget, constraints.work), None
        closed = done and math.isinf(search.bound)
        if math.isfinite(search.cost):
            x = _placed(problem, dual, begin.items, search)
            found = candidates.made_of(x)
        if found is not None or closed:
            return _shown(problem, begin.record(dual, search, allowance), found, budget, done=done)
        if math.isinf(search.cost):
            return _none(problem, aim, dual, allowance, budget) if done and len(begin.ties) else None
    return None


def any_plan(problem: LimitedProblem, aim: Aim, budget: Budget) -> Result | None:
    """Whatever meets the goal within the limits; None where that was not found in time, or there is nothing.

    What a cost ties together does not matter for that, and without it there are D equations less. The goal is made harder than
    it is, if there is room, so that points meet it as they are: to solve what is continuous takes longer than all of this.
    """
    dual = dual_of(problem, aim)
    begin = _Beginning.of(problem, dual, tied=False) if _fits(problem) else None
    if begin is None:
        return None
    candidates, x = Candidates(problem, aim, Relaxing(problem, dual, budget)), None
    for more in HARDER:
        allowance = _allowance(problem, aim, dual, problem.source, SPARES[-1])
        allowance += more * (1 + abs(dual.goal.most)) if aim.lam is None else 0.0
        constraints = _constraints(problem, aim, dual, allowance, begin.ties)
        search = begin.search(constraints, 2 * budget.nodes + 1)
        run(search, replace(budget.anew(), gap=1.0), constraints.work)
        if math.isfinite(search.cost):
            x = _placed(problem, dual, begin.items, search)
            found = candidates.as_it_is(problem.kept(x))
            if found is not None:
                return found
    return None if x is None else candidates.made_of(x)


def _allowance(problem: LimitedProblem, aim: Aim, dual: Dual, x: Floats, spare: float) -> float:
    """By how much the goal of a search is harder than what is asked for: that grows with x, and our own rounding needs more."""
    return 0.0 if aim.lam is not None else dual.goal.most - problem.asked(aim.prob) + (1 + spare) * problem.rounding(x)


def _shown(
    problem: LimitedProblem, record: Record, found: Result | None, budget: Budget, *, done: bool
) -> Result | Proof | None:
    """An answer with its proof, or where there is none, the proof of that."""
    proof = record.proof()
    if found is None or proof is None:
        return proof
    n_nodes = len(proof) if problem.space.conditions.discrete else 0
    slack = 0.0 if record.dual.goal.lam is None else REL_GAP * LEAST_VALUE + problem.rounding(found.x)
    shown = record.bounded(replace(found, n_nodes=n_nodes, proof=proof), budget, done=done, slack=slack)
    return shown if record.dual.goal.lam is None else _as_worth(record.dual, shown, budget, slack)


def _as_worth(dual: Dual, found: Result, budget: Budget, slack: float) -> Result:
    """An answer to λ, with its gap from what it is worth by differences of rows, where scores make that less."""
    value, worth = found.objective, dual.worth(found.x)
    if found.proof is None or worth - value <= SAME_VALUE * EPS * (1 + abs(value)):
        return found
    bound = found.bound if budget.late else max(found.bound, float(prove(dual, found.proof).bound))
    gap, size = max(worth - bound, 0.0), dual.problem.relative_to(value, weighed=True)
    return replace(
        found, bound=value - gap, gap=gap, status=Status.of_gap(gap, size, tolerated(budget, ALLOWANCES * slack, size))
    )


def _none(problem: LimitedProblem, aim: Aim, dual: Dual, allowance: float, budget: Budget) -> Proof | None:
    """The proof that there is no answer, for which costs do not matter; None where that is not shown."""
    begin = _Beginning.of(problem, dual, tied=False)
    if begin is None:
        return None
    constraints = _constraints(problem, aim, dual, allowance, begin.ties)
    search = begin.search(constraints, 2 * budget.nodes + 1)
    done = run(search, replace(budget, gap=1.0), constraints.work)
    return begin.record(dual, search, allowance).proof() if done and math.isinf(search.bound) else None


def _fits(problem: LimitedProblem) -> bool:
    """Whether there are compiled loops, and these are for such a problem."""
    space = problem.space
    ties = 0 if space.root is None else len(space.root)
    few = len(problem.rivals) + len(space.limits.C) + ties <= MOST_CONSTRAINTS
    return space.loops is not None and few


def _ties(dual: Dual) -> Floats:
    """T, with which a cost that has a matrix, Q = θ diag(Q) + R, is θ times one of features on their own and of u = TΔ.

    For ½ΔᵀQΔ = θ(½Σ_d Q_dd Δ_d² + ½u·u) where TᵀT = R/θ (with λ given all is λ times as much). So u are D items more, each at
    the cost ½u², which are not counted as changes, and TΔ − u = 0 are as many equations. Without a matrix there are none.
    """
    return np.zeros((0, len(dual.source))) if dual.R is None else np.linalg.cholesky(dual.R).T / math.sqrt(dual.unit)


class _Beginning(NamedTuple):
    """What a search begins with."""

    items: Any  # `one_multiplier.Items`
    lo: Floats
    hi: Floats
    values: list[Floats]  # of features at uneven distances, in units of cost; of others none
    cap: int
    ties: Floats

    @classmethod
    def of(cls, problem: LimitedProblem, dual: Dual, *, tied: bool = True) -> "_Beginning | None":
        """That of a problem (``tied``: as the cost ties features); None where a feature has too many values."""
        items, lo, hi = problem.items(np.zeros(problem.model.n_features), scale=dual.unit)
        choices, per_unit, values = dual.choices, problem.space.per_unit, [np.zeros(0)] * len(lo)
        step, at_rest, rests = items.step.copy(), items.at_rest.copy(), choices.rests(choices.root)
        for i in np.flatnonzero(np.isin(choices.singles, list(choices.values))).tolist():
            d = int(choices.singles[i])
            table = choices.values[d]
            if table is None:
                return None
            values[i] = (table - problem.source[d]) * per_unit[d]
            lo[i], hi[i], step[i] = values[i][0], values[i][-1], np.diff(values[i]).min(initial=1.0)
            at_rest[i] = rests[i]
        items = items._replace(step=step, at_rest=at_rest)
        return cls(items, lo, hi, values, problem.cap(items), _ties(dual)[: None if tied else 0])

    def start(self, dual: Dual, relaxing: Relaxing) -> Floats:
        """Multipliers to begin with: where features are tied those of the relaxation, which are far from 0; else 0."""
        weighed = dual.goal.lam is not None
        relaxed = relaxing.solve(dual.choices.root, None) if len(self.ties) else None
        change = None if relaxed is None or relaxed.reach else relaxed.given.at
        if relaxed is None or change is None:
            return np.zeros(len(dual.margins) + int(weighed) + len(dual.over) + len(self.ties))
        y, nu, _ = relaxed.given
        target = [1 - y.sum()] if weighed else []
        return np.concatenate([np.append(y, target) / dual.unit, nu / dual.unit, -self.ties @ change])

    def search(self, constraints: Constraints, room: int) -> Search:
        """A search for what meets constraints."""
        more, items = len(self.ties), self.items
        nothing = np.zeros(more)
        wider = {name: np.append(getattr(items, name), nothing) for name in ("g", "mu", "step", "anchor")}
        items = items._replace(**wider, at_rest=np.append(items.at_rest, nothing > 0))  # they have to move, and may
        search = Search(
            items,
            np.append(self.lo, nothing - np.inf),
            np.append(self.hi, nothing + np.inf),
            constraints,
            self.cap + more,
            room,
        )
        search.give_values([*self.values, *[np.zeros(0)] * more])
        return search

    def record(self, dual: Dual, search: Search, allowance: float) -> Record:
        """What a search did."""
        log, more, n = search.log, len(self.ties), len(self.lo)
        log[log[:, 1] >= n + more, 1] -= more
        closed = np.isinf(log[:, 0])
        log[closed, 3] *= dual.unit
        log[(log[:, 1] < 0) & ~closed, 4] *= dual.unit
        given = search.multipliers * dual.unit
        if dual.goal.lam is not None:  # the target's is what is left of 1
            given = np.delete(given, len(dual.margins), axis=1)
            given[:, : len(dual.margins)] *= WITHIN
        return Record(dual, self.items, log, given, allowance, self.ties)


class Nearest(NamedTuple):
    """What comes nearest to a goal that is out of reach, and the proof that nothing comes nearer, but for `CLOSE`."""

    x: Floats
    proof: Proof


def nearest_to_goal(problem: LimitedProblem, aim: Aim, budget: Budget, x: Floats, proof: Proof) -> Nearest | None:
    """What comes nearest, by bisection of the goal; None where this is not for such a problem, or did not settle it.

    It begins with x, and with a proof that the goal itself is out of reach. Whether a goal can be reached takes any answer,
    or the proof that there is none: far less than the best answer.
    """
    if not (_fits(problem) and problem.space.conditions.discrete):
        return None
    dual = dual_of(problem, aim)
    begin = _Beginning.of(problem, dual, tied=False)
    if begin is None:
        return None
    asked, n = _constraints(problem, aim, dual, 0.0, begin.ties), len(problem.rivals)
    low, high = dual.goal.most, problem.level(aim.prob, x)
    while high - low > CLOSE * (1 + abs(high)):  # of large ones, relative to them
        middle = 0.5 * (low + high)
        needs = np.append(asked.needs[:n] + (dual.goal.most - middle), asked.needs[n:])
        search = begin.search(asked._replace(needs=needs), 2 * EASY_NODES + 1)
        done = run(search, replace(budget, gap=1.0, nodes=EASY_NODES), asked.work)
        if math.isfinite(search.cost):
            there = problem.kept(_placed(problem, dual, begin.items, search))
            if problem.space.limits.broken(problem.source, there) is not None or not problem.level(aim.prob, there) < high:
                return None
            x, high = there, problem.level(aim.prob, there)
        elif done and math.isinf(search.bound):
            shown = begin.record(dual, search, 0.0).proof()
            if shown is None:
                return None
            low, proof = middle, shown
        elif budget.late:  # what was found and what was shown so far are two numbers
            break
        else:
            return None
    return Nearest(x, proof)


def _placed(problem: LimitedProblem, dual: Dual, items: Any, search: Search) -> Floats:
    """The x of the best choices that were found."""
    t, choice, bounds = search.t[None, : len(items.g)], search.choice[None], (problem.lo[None], problem.hi[None])
    x = problem.space.placed(problem.source[None], t, choice, items.first, *bounds)[0]
    own = np.array(list(dual.choices.values), dtype=np.intp)
    x[own] = dual.choices.points_near(own, x[own])
    return x


def _constraints(problem: LimitedProblem, aim: Aim, dual: Dual, allowance: float, ties: Floats) -> Constraints:
    """The goal, harder by an allowance for rounding, the rules, and the equations of a cost that has a matrix.

    With λ the goal is a loss over all classes, that of the target last.
    """
    space, limits, weighed = problem.space, problem.space.limits, aim.lam is not None
    target, n = np.zeros((int(weighed), len(space.per_unit))), len(problem.rivals) + int(weighed)
    gains = np.concatenate([-problem.slopes, target, -limits.C, ties]) / space.per_unit
    size = np.abs(limits.C) @ np.abs(problem.source) + np.abs(limits.rest)
    options = [_of_options(problem, gains, group) for group in limits.groups]
    own = np.eye(len(gains), len(ties), -(n + len(limits.C)))
    none = np.zeros(len(ties))
    return Constraints(
        np.concatenate([gains[:, ~space.grouped], -own], axis=1),
        np.concatenate(options, axis=1) if options else np.zeros((len(gains), 0)),
        np.concatenate(
            [dual.margins - dual.goal.most + allowance, target[:, 0], limits.C @ problem.source - limits.rest, none]
        ),
        np.concatenate([np.zeros(n), EDGE * EPS * size, none]),
        np.concatenate([np.zeros(n, dtype=bool), limits.equal, none == 0]),
        np.zeros(len(gains)),
        n if weighed or (aim.prob is not None and n > 1) else 0,
        1 / dual.unit if weighed else 0.0,
    )


def _of_options(problem: LimitedProblem, gains: Floats, group: Indices) -> Floats:
    """What each option of a group gains over the one that it has."""
    of = gains[:, group] * problem.space.per_unit[group]
    return of - of[:, [int(problem.source[group].argmax())]]
