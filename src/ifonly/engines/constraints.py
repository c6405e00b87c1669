"""Whole numbers, categories, few changes, with rules or several rivals: a compiled search for the best choices.

Rules, a margin over each rival, and a probability among several classes are constraints, and a search with a multiplier for
each (many_multipliers.hpp) finds the choices; what is continuous is then solved as ever (`candidates`), and the answer put to
every test. What this does not settle is left to `cases`, which is slower and knows more.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.candidates import Candidates
from ifonly.engines.limited import SPARES
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.relaxing import Relaxing
from ifonly.engines.searched import Record, dual_of, run
from ifonly.model.numerics import EPS, Floats, Indices
from ifonly.native.one_multiplier import Constraints, Search
from ifonly.problem.dual import Dual
from ifonly.problem.proof import Proof
from ifonly.problem.question import Aim
from ifonly.problem.results import Result

__all__ = ["CLOSE", "Nearest", "nearest_to_goal", "solve"]


MOST_CONSTRAINTS = 512  # Newton's matrix has a row for each
CLOSE = 1e-7  # how near to the best what comes nearest to a goal is to be, in logits or scores
EASY_NODES = 20_000  # until it is known whether a goal can be reached
SLIP = 16  # roundings by which a point on the very edge of a rule may seem to break it


def solve(problem: LimitedProblem, aim: Aim, budget: Budget) -> Result | Proof | None:
    """The best answer, or the proof that there is none; None where this is not for such a problem, or did not find any."""
    if not _fits(problem, aim):
        return None
    items, lo, hi = problem.items(np.zeros(problem.model.n_features))
    dual = dual_of(problem, aim)
    candidates, x = Candidates(problem, aim, Relaxing(problem, dual, budget)), problem.source
    for spare in SPARES:  # the allowance for rounding grows with x, and may be too small for our own
        allowance = dual.goal.most - problem.asked(aim.prob) + (1 + spare) * problem.rounding(x)
        constraints = _constraints(problem, aim, dual, allowance)
        search = Search(items, lo, hi, constraints, problem.cap(items), 2 * budget.nodes + 1)
        done, found = run(search, budget, constraints.rows.size), None
        closed = done and math.isinf(search.bound)
        if math.isfinite(search.cost):
            x = _placed(problem, items, search)
            found = candidates.best_of(x, None, None)
        if found is None and not closed:
            if math.isinf(search.cost):
                return None
            continue
        record = Record(dual, items, search.log, search.multipliers, allowance)
        proof = record.proof()
        if found is None or proof is None:
            return proof
        return record.bounded(replace(found[0], n_nodes=len(proof), proof=proof), budget, done=done)
    return None


def _fits(problem: LimitedProblem, aim: Aim) -> bool:
    """Whether there are compiled loops, and these are for such a problem."""
    space = problem.space
    tied = space.root is not None or bool(space.limits.uneven)
    few = len(problem.rivals) + len(space.limits.C) <= MOST_CONSTRAINTS
    return space.loops is not None and aim.lam is None and not tied and few


class Nearest(NamedTuple):
    """What comes nearest to a goal that is out of reach, and the proof that nothing comes nearer, but for `CLOSE`."""

    x: Floats
    proof: Proof


def nearest_to_goal(problem: LimitedProblem, aim: Aim, budget: Budget, x: Floats, proof: Proof) -> Nearest | None:
    """What comes nearest, by bisection of the goal; None where this is not for such a problem, or did not settle it.

    It begins with x, and with a proof that the goal itself is out of reach. Whether a goal can be reached takes any answer,
    or the proof that there is none: far less than the best answer.
    """
    if not (_fits(problem, aim) and problem.space.conditions.discrete):
        return None
    dual = dual_of(problem, aim)
    items, lo, hi = problem.items(np.zeros(problem.model.n_features))
    asked, n = _constraints(problem, aim, dual, 0.0), len(problem.rivals)
    low, high = dual.goal.most, problem.level(aim.prob, x)
    while high - low > CLOSE * (1 + abs(high)):  # of large ones, relative to them
        middle = 0.5 * (low + high)
        needs = np.append(asked.needs[:n] + (dual.goal.most - middle), asked.needs[n:])
        search = Search(items, lo, hi, asked._replace(needs=needs), problem.cap(items), 2 * EASY_NODES + 1)
        done = run(search, replace(budget, gap=1.0, nodes=EASY_NODES), asked.rows.size)
        if math.isfinite(search.cost):
            there = problem.kept(_placed(problem, items, search))
            if problem.space.limits.broken(problem.source, there) is not None or not problem.level(aim.prob, there) < high:
                return None
            x, high = there, problem.level(aim.prob, there)
        elif done and math.isinf(search.bound):
            shown = Record(dual, items, search.log, search.multipliers, 0.0).proof()
            if shown is None:
                return None
            low, proof = middle, shown
        elif budget.late:  # what was found and what was shown so far are two numbers
            break
        else:
            return None
    return Nearest(x, proof)


def _placed(problem: LimitedProblem, items: Any, search: Search) -> Floats:
    """The x of the best choices that were found."""
    t, choice, bounds = search.t[None], search.choice[None], (problem.lo[None], problem.hi[None])
    return problem.space.placed(problem.source[None], t, choice, items.first, *bounds)[0]


def _constraints(problem: LimitedProblem, aim: Aim, dual: Dual, allowance: float) -> Constraints:
    """The goal, harder by an allowance for rounding, and the rules."""
    space, limits, n = problem.space, problem.space.limits, len(problem.rivals)
    gains = -np.concatenate([space.rows(problem.k), limits.C / space.per_unit])
    size = np.abs(limits.C) @ np.abs(problem.source) + np.abs(limits.rest)
    options = [_of_options(problem, gains, group) for group in limits.groups]
    return Constraints(
        gains[:, ~space.grouped],
        np.concatenate(options, axis=1) if options else np.zeros((len(gains), 0)),
        np.append(problem.margins - dual.goal.most + allowance, limits.C @ problem.source - limits.rest),
        np.append(np.zeros(n), SLIP * EPS * size),
        np.append(np.zeros(n, dtype=bool), limits.equal),
        n if aim.prob is not None and n > 1 else 0,
    )


def _of_options(problem: LimitedProblem, gains: Floats, group: Indices) -> Floats:
    """What each option of a group gains over the one that it has."""
    of = gains[:, group] * problem.space.per_unit[group]
    return of - of[:, [int(problem.source[group].argmax())]]
