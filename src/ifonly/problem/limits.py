"""Limits as arrays: what `actions.Actions` come to for one model, around a source, and whether a point keeps them."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ifonly.model import Model
from ifonly.model.columns import Column
from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS, Flags, Floats, Indices

__all__ = ["EDGE", "FAR", "FELT", "SAME", "TINY", "Limits", "Uneven"]

SAME = 1e-13  # relative to an equation's terms at the source: most have no solution in floating point that is exact
TINY = float(np.finfo(np.float64).tiny)  # numbers below have lost their digits
EDGE = 16  # roundings of a rule's terms by which a point on its very edge may seem to break it: 0.1·3 ≤ 0.3
# A bound or a source this near to a grid point is one: a share of the step, and so many roundings of the number itself, which
# are more from 1e7 steps on; but never more than a part of the step.
ON_GRID, ROUNDINGS, MOST_OF_STEP = 1e-9, 4, 0.25
FAR = 1e8  # where a feature has no bound, a ceiling is proved for changes that move scores by no more than this
FELT = 1e3  # times that: a bound so far away is none
MOST_PARTS = 10**6  # of a unit, in a step: 0.1 is 1/10, and seven of it are 0.7, not 0.7000000000000001


class Uneven(NamedTuple):
    """A number that a pipeline maps, of which only some values are allowed: multiples of a step, or quantiles."""

    feature: int
    column: Column
    step: float  # 0 for the quantiles of a transformer


@dataclass(frozen=True, eq=False)
class Limits:
    """Actions for one model, as arrays over its D features, in the user's units."""

    model: Model
    lo: Floats
    hi: Floats
    frozen: Flags
    increase: Flags
    decrease: Flags
    step: Floats  # 0 where any number will do
    groups: tuple[Indices, ...]
    C: Floats  # (m, D): C x ≤ rest, or = where equal
    rest: Floats
    equal: Flags
    uneven: tuple[Uneven, ...] = ()

    @cached_property
    def discrete(self) -> bool:
        """Whether any feature is a whole number, on a grid or one of a group."""
        return bool(self.on_grid.any())

    @cached_property
    def on_grid(self) -> Flags:
        """The features of which the answer has multiples of a step."""
        return (self.step > 0) & ~self.frozen

    @cached_property
    def _shares(self) -> Floats:
        """Two shares (2, D) of the steps of features on grids, 0 for others: next to nothing, and the most."""
        return np.multiply.outer([ON_GRID, MOST_OF_STEP], np.where(self.on_grid, self.step, 0.0))

    @cached_property
    def _parts(self) -> tuple[Floats, Floats]:
        """The steps as fractions: numerators, denominators."""
        steps, place = np.unique(np.where(self.on_grid, self.step, 1.0), return_inverse=True)
        ratios = [Fraction(step).limit_denominator(MOST_PARTS) for step in steps.tolist()]
        exact = [float(r) == step for r, step in zip(ratios, steps.tolist(), strict=True)]
        up = np.where(exact, [float(r.numerator) for r in ratios], steps)
        return up[place], np.where(exact, [float(r.denominator) for r in ratios], 1.0)[place]

    def multiples(self, n: Any, which: Any) -> Floats:
        """``n`` steps of some features."""
        up, down = self._parts
        return n * up[which] / down[which] + 0.0  # no −0.0

    def near(self, X: Any, which: Any = slice(None)) -> Floats:
        """How near some features have to be to a grid point to be it (0 where they are on none)."""
        least, most = self._shares[:, which]
        return np.minimum(least + ROUNDINGS * EPS * np.abs(X), most)

    def nearest(self, X: Floats) -> Floats:
        """Every feature on a grid at the grid point nearest to it."""
        if not self.on_grid.any():
            return X
        X = X.copy()
        X[..., self.on_grid] = self.multiples(np.rint(X[..., self.on_grid] / self.step[self.on_grid]), self.on_grid)
        return X

    def snapped(self, X: Floats, source: Floats) -> Floats:
        """`nearest`, but the source's own value where that is the grid point up to rounding."""
        nearest = self.nearest(X)
        return nearest if nearest is X else np.where(np.abs(source - nearest) <= self.near(source), source, nearest)

    def grid_points(self, n: Any, which: Any, source: Floats) -> Floats:
        """``n`` steps of some features, with the source's own value for the point that it is up to rounding."""
        own, points = source[which], self.multiples(n, which)
        return np.where(np.abs(own - points) <= self.near(own, which), own, points)

    def may_stay(self, source: Floats) -> Flags:
        """Whether a source's value is one that its feature may have: on its grid, or one of those that a pipeline maps."""
        found = self.snapped(source, source) == source
        for d, column, step in self.uneven:
            found[d] = not step or column.beside(float(source[d]), step) == (source[d], source[d])
        return found

    def adjacent(self, source: Floats, d: int, below: float, above: float) -> bool:
        """Whether no value that a feature may have is between two, the first of which is less."""
        if self.on_grid[d]:
            step = self.step[d]
            if not above - below < 4 * step:  # so far apart, or no numbers
                return False
            n = np.arange(math.floor(below / step) - 1, math.ceil(above / step) + 2)
            points = self.grid_points(n, d, source)
            return not ((below < points) & (points < above)).any()
        for column, step in ((part.column, part.step) for part in self.uneven if part.feature == d):
            if math.nextafter(below, math.inf) == above:  # such values are floats, and there is none between
                return True
            low, high = column.beside(0.5 * (below + above), step)
            own = not step and below < source[d] < above  # beside quantiles the source's is one more
            return low <= below and high >= above and not own
        return False

    def must_move(self, X: Floats, lo: Floats, hi: Floats) -> Flags:
        """Which features of the sources (N, D) cannot stay as they are."""
        return (lo > X) | (hi < X) | (self.snapped(X, X) != X)

    @property
    def ways(self) -> Indices:
        """What may become of each feature, as bits: 1 if it may only rise, 2 if it may only fall, 4 if it stays."""
        return self.increase.astype(np.int64) + 2 * self.decrease + 4 * self.frozen

    def around(self, X: Floats) -> tuple[Floats, Floats, dict[int, str]]:
        """The least and largest value of each feature for each source (N, D), and what is contradictory about some rows."""
        lo, hi = (np.repeat(end[None], len(X), axis=0) for end in (self.lo, self.hi))
        outside = (lo > X) | (hi < X)
        np.maximum(lo, X, out=lo, where=self.increase)
        np.minimum(hi, X, out=hi, where=self.decrease)
        on_grid = self.on_grid
        if on_grid.any():
            step = self.step[on_grid]
            low, high = lo[:, on_grid], hi[:, on_grid]
            first = self.multiples(np.ceil((low - self.near(low, on_grid)) / step), on_grid)
            last = self.multiples(np.floor((high + self.near(high, on_grid)) / step), on_grid)
            least, most = np.maximum(low, first), np.minimum(high, last)
            crossed = (low <= high) & (least > most)
            if crossed.any():  # bounds next to a grid point stand for it: the nearer of two that are on the same side of one
                pinched = crossed & (least <= most + self.near(most, on_grid))
                point = np.minimum(np.maximum(first, low), high)
                least, most = np.where(pinched, point, least), np.where(pinched, point, most)
            lo[:, on_grid], hi[:, on_grid] = least, most
            # A source that is a grid point up to rounding stands for it, at the end of the range too.
            near = np.where(outside, -1.0, self.near(X))
            lo, hi = (np.where(on_grid & (np.abs(X - end) <= near), X, end) for end in (lo, hi))
        wrong: dict[int, str] = {}
        label = self.model.feature_label
        for n, d in np.argwhere(outside & self.frozen):
            wrong.setdefault(
                int(n), f"{label(d)} is frozen at {X[n, d]:g}, outside its bounds [{self.lo[d]:g}, {self.hi[d]:g}]"
            )
        lo, hi = np.where(self.frozen, X, lo), np.where(self.frozen, X, hi)
        if self.groups:
            for (n, j), allowed in self._odd_groups(X, lo, hi):
                names, of = [label(d) for d in self.groups[j]], X[n, self.groups[j]].tolist()
                what = f"the source has {of}" if allowed else "its bounds allow no such choice"
                wrong.setdefault(n, f"the group {names} must have one 1 and zeros; {what}")
        with np.errstate(invalid="ignore"):
            empty = lo > hi
        for n, d in np.argwhere(empty):
            grid = f" in steps of {self.step[d]:g}" if self.step[d] else ""
            only = " and may only rise" if self.increase[d] else " and may only fall" if self.decrease[d] else ""
            bounds = f"[{self.lo[d]:g}, {self.hi[d]:g}]{grid}"
            wrong.setdefault(int(n), f"{label(d)} is {X[n, d]:g}{only}: there is no value for it in {bounds}")
        return lo, hi, wrong

    def box(self, source: Floats) -> tuple[Floats, Floats]:
        """`around` one source; what is contradictory about it is raised."""
        lo, hi, wrong = self.around(source[None])
        if wrong:
            raise InputError(wrong[0])
        return lo[0], hi[0]

    def _odd_groups(self, X: Floats, lo: Floats, hi: Floats) -> list[tuple[tuple[int, int], bool]]:
        """Rows and groups that are not one-hot (True), or can never be (False); lo and hi are cut to [0, 1] in place."""
        columns, sizes = np.concatenate(self.groups), np.array([len(group) for group in self.groups])
        first = np.append(0, sizes.cumsum()[:-1])
        of = X[:, columns]
        lo[:, columns], hi[:, columns] = np.maximum(lo[:, columns], 0.0), np.minimum(hi[:, columns], 1.0)
        one, zero = hi[:, columns] >= 1, lo[:, columns] <= 0
        others = np.repeat(np.add.reduceat(zero, first, axis=1, dtype=int), sizes, axis=1) - zero
        open_ = np.logical_or.reduceat(one & (others == np.repeat(sizes - 1, sizes)), first, axis=1)
        one_hot = np.logical_and.reduceat((of == 0) | (of == 1), first, axis=1) & (np.add.reduceat(of, first, axis=1) == 1)
        return [((int(n), int(j)), bool(open_[n, j])) for n, j in np.argwhere(~(open_ & one_hot))]

    def placed(self, X: Floats, source: Floats, lo: Floats, hi: Floats) -> Floats:
        """Answers with every grid feature on its grid and everything in its bounds, exactly."""
        return np.minimum(np.maximum(self.snapped(X, source), lo), hi) + 0.0  # no −0.0

    def rule(self, i: int) -> str:
        """A linear limit in words."""
        used = np.flatnonzero(self.C[i]).tolist()
        turn = math.copysign(1.0, self.C[i, used[0]])  # the first coefficient is positive, as people write it
        text = ""
        for d in used:
            number = turn * float(self.C[i, d])
            factor = "" if abs(number) == 1 else f"{abs(number):g}·"
            text += f"{' − ' if number < 0 else ' + '}{factor}{self.model.feature_called(d)}"
        sense = "=" if self.equal[i] else "≤" if turn > 0 else "≥"
        return f"{text.removeprefix(' + ')} {sense} {turn * self.rest[i] + 0.0:g}"

    def broken(self, source: Floats, x: Floats, edge: float = EDGE) -> str | None:
        """The first limit that x breaks, in words; exact comparisons, but for so many roundings of the terms of rules."""
        lo, hi, wrong = self.around(source[None])
        if wrong:
            return wrong[0]
        label = self.model.feature_label
        for d in np.flatnonzero(~((x >= lo[0]) & (x <= hi[0])))[:1]:
            return f"{label(d)} is {x[d]!r}, outside [{lo[0, d]!r}, {hi[0, d]!r}]"
        for d in np.flatnonzero(x != self.placed(x, source, lo[0], hi[0]))[:1]:
            return f"{label(d)} is {x[d]!r}, no multiple of {self.step[d]:g}"
        for d, column, step in self.uneven:
            if (step or x[d] != source[d]) and column.beside(float(x[d]), step) != (x[d], x[d]):
                what = f"no multiple of {step:g}" if step else "none of the transformer's quantiles"
                return f"{label(d)} is {column.write(x[None, [d]])[0]!r}, {what}"
        for group in self.groups:
            if sorted(x[group].tolist()) != [0.0] * (len(group) - 1) + [1.0]:
                return f"the group {[label(d) for d in group]} is {x[group].tolist()}"
        return self.broken_rule(source, x, edge=edge)

    def spare(self, source: Floats) -> Floats:
        """By how much a point may miss each rule that is an equation, besides the rounding of its own terms (m,).

        A source or a bound next to a grid point stands for it: an equation that it keeps is one that the grid point keeps.
        """
        if not self.equal.any():
            return np.zeros(len(self.C))
        size = np.abs(self.C) @ np.abs(source) + np.abs(self.rest)
        stood = np.nan_to_num(np.stack([source, self.lo, self.hi]), posinf=0.0, neginf=0.0)
        off = np.abs(stood - self.nearest(stood))
        beside = np.where(off <= self.near(stood), off, 0.0).max(axis=0)
        return np.where(self.equal, SAME * size + np.abs(self.C) @ beside + TINY, 0.0)

    def broken_rule(self, source: Floats, x: Floats, among: Flags | None = None, edge: float = EDGE) -> str | None:
        """The first linear rule that x breaks, of those between features that are ``among`` some; in words."""
        spare = self.spare(source).tolist()
        for i, (row, rest) in enumerate(zip(self.C, self.rest.tolist(), strict=True)):
            used = np.flatnonzero(row)
            if among is not None and not among[used].all():
                continue
            value = float(row[used] @ x[used])
            size = float(np.abs(row[used]) @ np.abs(x[used]) + abs(rest))
            over = abs(value - rest) if self.equal[i] else value - rest
            if over > spare[i] + edge * EPS * size:
                return f"rule {i + 1} is broken: {value!r} {'≠' if self.equal[i] else '>'} {rest!r}"
        return None
