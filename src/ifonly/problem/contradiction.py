"""Limits that no point satisfies: which of them contradict each other.

Without rules, features are on their own: each has a value left, or not. Rules tie some of them together; whether a point
satisfies them all is a linear program over the features that occur in rules, with whole numbers and categories where these
have any (SciPy's HiGHS). "At most so many changes" is branched on: where a solution changes more, one of the things it changes
either stays or is counted.

A point that breaks a rule by less than HiGHS can tell counts as one that keeps it, so that limits which contradict each other
by a rounding error only are not named.
"""

from time import perf_counter
from typing import Any

import numpy as np

from ifonly.model.errors import InputError
from ifonly.model.numerics import Flags, Floats, Indices
from ifonly.problem.choices import Choices
from ifonly.problem.conditions import Conditions
from ifonly.problem.each_limit import EachLimit
from ifonly.problem.irreducible import Needed, irreducible
from ifonly.problem.limits import Limits
from ifonly.problem.proof import Node

__all__ = ["contradicting", "contradiction", "possible"]

LEAST, SHARE = 0.01, 0.5  # seconds of a program, if it is begun; of those that are left: it may take more than it is given
PRESOLVE = 1.0  # seconds that have to be left for it: over whole numbers without bounds it takes 0.8, whatever it is given
ALONE = 0.2  # seconds without it first, as nearly always will do: with it HiGHS may print that it corrects what it found
NAMING, SECONDS = 0.03, 2.0  # what the names of limits may take where no time is left, and at most: something is wrong already
INFEASIBLE = 2  # SciPy's status
MOST_BRANCHES = 2000  # of the search for few changes
CHANGED = 1e-6  # relative: what HiGHS moves by less stays, up to its tolerance
MOST_NAMED = 8  # limits in one message


def contradiction(conditions: Conditions, source: Floats, seconds: float = SECONDS) -> InputError:
    """The error for limits that no point satisfies, with the names of some that contradict each other, as far as time goes."""
    named = contradicting(conditions, source, min(max(seconds, NAMING), SECONDS))
    if not named.parts:
        return InputError("the limits contradict each other: no point satisfies all of them")
    words = ", and ".join(named.parts[:MOST_NAMED]) + (", and others" if len(named.parts) > MOST_NAMED else "")
    if not named.proved:
        return InputError(f"the limits contradict each other: no point satisfies all of these, and perhaps fewer: {words}")
    if len(named.parts) == 1:
        return InputError(f"no point satisfies the limits, because of one of them: {words}")
    return InputError(f"the limits contradict each other: {words}")


def contradicting(conditions: Conditions, source: Floats, seconds: float = SECONDS) -> Needed[str]:
    """Limits that no point satisfies together, while without any one of them some point does, in the user's words.

    None where no contradiction is found: there is none, or one of rounding only. After so many ``seconds`` what is left
    contradicts itself still, but fewer limits may do so too (``proved`` is False).
    """
    until, limits = perf_counter() + seconds, EachLimit(conditions)

    def clash(kept: list[int]) -> bool | None:
        found = possible(limits.only(kept), source, until - perf_counter())
        return None if found is None else not found

    everything = list(range(len(limits)))
    if not clash(everything):
        return Needed([], False)
    found = irreducible(everything, clash, lambda: perf_counter() > until, run=max(1, len(everything) // 2))
    return Needed([limits.all[i].words for i in found.parts], found.proved)


def possible(conditions: Conditions, source: Floats, seconds: float = SECONDS) -> bool | None:
    """Whether any point satisfies the limits; None where that takes too long to find out."""
    try:
        root = Choices(conditions, source).root
    except InputError:  # a feature has no value left
        return False
    must, cap = conditions.limits.must_move(source[None], root.lo[None], root.hi[None])[0], conditions.max_changes
    if cap is not None and conditions.n_changes(must) > cap:
        return False
    return _keeps_rules(conditions, source, root, must, perf_counter() + seconds) if len(conditions.limits.C) else True


def _keeps_rules(conditions: Conditions, source: Floats, root: Node, must: Flags, until: float) -> bool | None:
    """Whether a point with as few changes as there may be keeps the rules; None where that takes too long to find out."""
    n_changes, cap, used = conditions.n_changes, conditions.max_changes, (conditions.limits.C != 0).any(axis=0)
    groups = (group for group in conditions.limits.groups if used[group].any())
    items: list[Indices] = [*groups, *np.flatnonzero(used & ~conditions.grouped)[:, None]]
    open_, known = [(must, np.zeros_like(must))], True
    for n in range(MOST_BRANCHES):
        if not open_:
            return False if known else None
        if n and perf_counter() > until:
            return None
        # 1. A point that changes little, where some things stay; all but those counted, if no more may move than are.
        counted, stays = open_.pop()
        still = ~counted if cap is not None and n_changes(counted) >= cap else stays
        lo, hi = np.where(still, source, root.lo), np.where(still, source, root.hi)
        x = _point(conditions.limits, source, Node(lo, hi, root.state), np.sort(np.concatenate(items)), until)
        if x is None or x is False:
            known &= x is False
            continue
        # 2. Few enough changes.
        changed = np.abs(x - source) > CHANGED * (1 + np.abs(source))
        if cap is None or n_changes(changed | must) <= cap:
            return True
        # 3. The largest that is not counted yet: it stays, or is.
        more = [item for item in items if changed[item].any() and not counted[item].any()]
        item = max(more, key=lambda item: float(np.abs(x[item] - source[item]).max()))
        here = np.isin(np.arange(len(must)), item)
        open_ += [(counted, stays | here), (counted | here, stays)]
    return None


def _point(limits: Limits, source: Floats, node: Node, used: Indices, until: float) -> Any:
    """A point of a node that keeps the rules, near the source; False for none, None for no telling.

    The linear program is one of the features that occur in rules (``used``), all columns of their groups with them.
    """
    import scipy.optimize  # takes a while to load

    optimize: Any = scipy.optimize  # its stubs take no arrays for bounds
    n, step = len(used), np.where(limits.on_grid, limits.step, 1.0)[used]
    rows = limits.C[:, used] * step
    size = np.abs(rows).max(axis=1)
    rows, most = rows / size[:, None], limits.rest / size
    sums = [np.isin(used, group) * step for group in limits.groups if np.isin(group, used).any()]
    # Variables: n features, and how far each is from the source, of which the sum is least: few changes.
    own, eye = source[used] / step, np.eye(n)
    A = np.vstack([np.pad(np.vstack([rows, *sums]), ((0, 0), (0, n))), np.block([[eye, -eye], [-eye, -eye]])])
    ones, low = np.ones(len(sums)), np.full(2 * n, -np.inf)
    ends = [np.where(limits.equal, most, -np.inf), ones, low], [most, ones, own, -own]
    program = {
        "c": np.append(np.zeros(n), np.ones(n)),
        "constraints": optimize.LinearConstraint(A, *map(np.concatenate, ends)),
        "bounds": optimize.Bounds(
            np.append(node.lo[used] / step, 0 * own), np.append(node.hi[used] / step, np.full(n, np.inf))
        ),
        "integrality": np.append(limits.on_grid[used], np.zeros(n, dtype=bool)).astype(int),
    }
    left = max(SHARE * (until - perf_counter()), LEAST)
    found = optimize.milp(**program, options={"time_limit": min(left, ALONE), "presolve": False})
    left = until - perf_counter()
    if found.x is None and found.status != INFEASIBLE and left > PRESOLVE:
        found = optimize.milp(**program, options={"time_limit": SHARE * left})
    if found.x is None:
        return False if found.status == INFEASIBLE else None
    x = source.copy()
    x[used] = found.x[:n] * step
    return x
