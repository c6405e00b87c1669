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
from ifonly.problem.conditions import Conditions
from ifonly.problem.each_limit import EachLimit
from ifonly.problem.irreducible import Needed, irreducible

__all__ = ["contradicting", "contradiction", "possible"]

LEAST, SHARE = 0.01, 0.5  # seconds of a program, if it is begun; of those that are left: it may take more than it is given
PRESOLVE = 1.0  # seconds that have to be left for it: over whole numbers without bounds it takes 0.8, whatever it is given
NAMING, SECONDS = 0.03, 2.0  # what the names of limits may take where no time is left, and at most: something is wrong already
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
    began, limits = perf_counter(), EachLimit(conditions, simple=True)

    def late() -> bool:
        return perf_counter() - began > seconds

    def clash(kept: list[int]) -> bool | None:
        found = possible(limits.only(kept), source, seconds - (perf_counter() - began))
        return None if found is None else not found

    everything = list(range(len(limits)))
    if not clash(everything):
        return Needed([], False)
    found = irreducible(everything, clash, late, run=max(1, len(everything) // 2))
    return Needed([limits.all[i].words for i in found.parts], found.proved)


def possible(conditions: Conditions, source: Floats, seconds: float = SECONDS) -> bool | None:
    """Whether any point satisfies the limits; None where that takes too long to find out."""
    limits = conditions.limits
    lo, hi, wrong = limits.around(source[None])
    if wrong:
        return False
    for d, column, step in limits.uneven:
        if lo[0, d] < hi[0, d] and not (not step and lo[0, d] <= source[d] <= hi[0, d]):
            least, most = column.beside(float(lo[0, d]), step)[1], column.beside(float(hi[0, d]), step)[0]
            if (least if np.isfinite(lo[0, d]) else -np.inf) > (most if np.isfinite(hi[0, d]) else np.inf):
                return False
    must = limits.must_move(source[None], lo, hi)[0]
    cap = conditions.max_changes
    if cap is not None and conditions.n_changes(must) > cap:
        return False
    if not len(limits.C):
        return True
    return _Rules(conditions, source, (lo[0], hi[0]), perf_counter() + seconds).some_point(must)


class _Rules:
    """The linear program of the features that occur in rules."""

    def __init__(self, conditions: Conditions, source: Floats, box: tuple[Floats, Floats], until: float) -> None:
        self.conditions, self.source, self.limits = conditions, source, conditions.limits
        used = (self.limits.C != 0).any(axis=0)
        self.groups = [group for group in self.limits.groups if used[group].any()]
        for group in self.groups:
            used[group] = True
        self.used = np.flatnonzero(used)
        self.lo, self.hi = box
        self.until = until
        self.step = np.where(self.limits.on_grid, self.limits.step, 1.0)[self.used]

    def some_point(self, must: Flags) -> bool | None:
        """Whether there is a point with as few changes as there may be; None where that takes too long to find out."""
        n_changes, cap = self.conditions.n_changes, self.conditions.max_changes
        open_, known = [(must, np.zeros_like(must))], True
        for n in range(MOST_BRANCHES):
            if not open_:
                return False if known else None
            if n and perf_counter() > self.until:
                return None
            # 1. A point that changes little, where some things stay; all but those counted, if no more may move than are.
            counted, stays = open_.pop()
            x = self._point(~counted if cap is not None and n_changes(counted) >= cap else stays)
            if x is None or x is False:
                known &= x is False
                continue
            # 2. Few enough changes.
            changed = np.abs(x - self.source) > CHANGED * (1 + np.abs(self.source))
            if cap is None or n_changes(changed | must) <= cap:
                return True
            # 3. The largest that is not counted yet: it stays, or is.
            more = [item for item in self._items() if changed[item].any() and not counted[item].any()]
            item = max(more, key=lambda item: float(np.abs(x[item] - self.source[item]).max()))
            here = np.zeros_like(must)
            here[item] = True
            open_ += [(counted, stays | here), (counted | here, stays)]
        return None

    def _items(self) -> list[Indices]:
        grouped = self.conditions.grouped
        return [*self.groups, *(np.array([d]) for d in self.used if not grouped[d])]

    def _point(self, stays: Flags) -> Any:
        """A point that keeps the rules while these features stay, near the source; False for none, None for no telling."""
        import scipy.optimize  # takes a while to load

        optimize: Any = scipy.optimize  # its stubs take no arrays for bounds
        limits, used, step = self.limits, self.used, self.step
        n = len(used)
        lo, hi = (np.where(stays, self.source, end)[used] / step for end in (self.lo, self.hi))
        rows, least, most = limits.C[:, used] * step, np.where(limits.equal, limits.rest, -np.inf), limits.rest
        size = np.abs(rows).max(axis=1)
        rows, least, most = rows / size[:, None], least / size, most / size
        sums = np.array([np.isin(used, group).astype(float) * step for group in self.groups]).reshape(-1, n)
        # Variables: n features, and how far each is from the source, of which the sum is least: few changes.
        near = np.hstack([np.vstack([np.eye(n), -np.eye(n)]), -np.vstack([np.eye(n), np.eye(n)])])
        own, left = self.source[used] / step, self.until - perf_counter()
        A = np.vstack([np.hstack([rows, np.zeros_like(rows)]), np.hstack([sums, np.zeros_like(sums)]), near])
        ones, low = np.ones(len(sums)), np.full(2 * n, -np.inf)
        bounds = optimize.LinearConstraint(A, np.concatenate([least, ones, low]), np.concatenate([most, ones, own, -own]))
        found = optimize.milp(
            np.append(np.zeros(n), np.ones(n)),
            constraints=bounds,
            bounds=optimize.Bounds(np.append(lo, np.zeros(n)), np.append(hi, np.full(n, np.inf))),
            integrality=np.append(limits.on_grid[used], np.zeros(n, dtype=bool)).astype(int),
            options={"time_limit": max(SHARE * left, LEAST), "presolve": left > PRESOLVE},
        )
        if found.x is None:
            return False if found.status == 2 else None
        x = self.source.copy()
        x[used] = found.x[:n] * step
        return x
