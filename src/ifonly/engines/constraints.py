"""Whole numbers, categories, few changes, with rules or several rivals: a compiled search for the best choices.

Rules, a margin over each rival, and a probability among several classes are constraints, and a search with a multiplier for
each (many_multipliers.hpp) finds the choices; what is continuous is then solved as ever (`candidates`), and the answer put to
every test. What this does not settle is left to `cases`, which is slower and knows more.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.budget import Budget
from ifonly.engines.candidates import Candidates
from ifonly.engines.limited import SPARES
from ifonly.engines.limited_problem import LimitedProblem
from ifonly.engines.relaxing import Relaxing
from ifonly.engines.searched import Record, dual_of, run
from ifonly.model.numerics import EPS
from ifonly.native.one_multiplier import Constraints, Search
from ifonly.problem.dual import Dual
from ifonly.problem.proof import Proof
from ifonly.problem.question import Aim
from ifonly.problem.results import Result

__all__ = ["solve"]

Floats = NDArray[np.float64]

MOST_CONSTRAINTS = 512  # Newton's matrix has a row for each
SLIP = 16  # roundings by which a point on the very edge of a rule may seem to break it


def solve(problem: LimitedProblem, aim: Aim, budget: Budget) -> Result | Proof | None:
    """The best answer, or the proof that there is none; None where this is not for such a problem, or did not find any."""
    space = problem.space
    if space.loops is None or aim.lam is not None or space.root is not None or space.limits.uneven:
        return None
    if len(problem.rivals) + len(space.limits.C) > MOST_CONSTRAINTS:
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
            t, choice = search.t[None], search.choice[None]
            x = space.placed(problem.source[None], t, choice, items.first, problem.lo[None], problem.hi[None])[0]
            found = candidates.best_of(x, None, None)
        if found is None and not closed:
            if math.isinf(search.cost):
                return None
            continue
        record = Record(dual, items, search.log, search.multipliers(len(constraints.needs)), allowance)
        proof = record.proof()
        if found is None or proof is None:
            return proof
        return record.bounded(replace(found[0], n_nodes=len(proof), proof=proof), budget, done=done)
    return None


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
        np.zeros(len(gains)),
        n if aim.prob is not None and n > 1 else 0,
    )


def _of_options(problem: LimitedProblem, gains: Floats, group: NDArray[np.intp]) -> Floats:
    """What each option of a group gains over the one that it has."""
    of = gains[:, group] * problem.space.per_unit[group]
    return of - of[:, [int(problem.source[group].argmax())]]
