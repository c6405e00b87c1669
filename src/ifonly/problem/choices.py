"""What every item may be, and how a set of choices is cut in two: the cover that a proof by cases rests on.

An *item* is what counts as one change: a feature by itself, or a group of one-hot columns. A `Node` is a set of points: the
values x_d in [lo_d, hi_d] that the limits allow there, with items that stay as they are, or that count among those that move.
The root is everything that the limits allow (but for linear rules, which the bounds of `dual` take care of). A `Cut` splits a
node in two that together have all its points, so that nobody has to believe a tree of cuts: it is applied again.
"""

import math
from functools import cached_property, partial

import numpy as np

from ifonly.model.columns import nearest_two
from ifonly.model.errors import InputError
from ifonly.model.numerics import Flags, Floats, Indices
from ifonly.problem.conditions import Conditions
from ifonly.problem.limits import Uneven
from ifonly.problem.proof import MOVES, OPEN, STAYS, Cut, Node

__all__ = ["Choices"]

NO_INDICES = np.zeros(0, dtype=np.intp)
AROUND = np.arange(-1.0, 3.0)  # grid points beside a value: one more on each side than exact arithmetic needs


class Choices:
    """The items of one source under `Conditions`: features by themselves (``singles``), after them the groups."""

    def __init__(self, conditions: Conditions, source: Floats) -> None:
        self.conditions, self.source, self.limits = conditions, source, conditions.limits
        self.singles = np.flatnonzero(~conditions.grouped)
        self.groups = self.limits.groups
        # The columns of all groups, where those of each begin and which each is of, and which column is 1 now.
        sizes = [len(group) for group in self.groups]
        self.columns, self.edges = np.concatenate([NO_INDICES, *self.groups]), np.cumsum([0, *sizes]).tolist()
        self.of_group = np.repeat(np.arange(len(sizes)), sizes)
        own = np.array([group[source[group].argmax()] for group in self.groups], dtype=np.intp)
        self.now = own[self.of_group]
        self.n_items = len(self.singles) + len(self.groups)
        # How many may move, and whether these are fewer than there are.
        self.most = self.n_items if conditions.max_changes is None else min(conditions.max_changes, self.n_items)
        self.capped = self.most < self.n_items
        self._may_stay = self.limits.may_stay(source)
        self.grid = np.flatnonzero(self.limits.on_grid & ~conditions.grouped)

    @cached_property
    def root(self) -> Node:
        """Everything that the limits allow."""
        lo, hi = self.limits.box(self.source)
        for part in self.limits.uneven:  # the least and largest allowed values between two bounds
            d, low, high = part.feature, float(lo[part.feature]), float(hi[part.feature])
            lo[d] = self._beside(part, low)[1] if math.isfinite(low) else low
            hi[d] = self._beside(part, high)[0] if math.isfinite(high) else high
            if self._own_will_do(part, low, high):
                lo[d], hi[d] = min(lo[d], self.source[d]), max(hi[d], self.source[d])
            if lo[d] > hi[d]:
                label = self.conditions.model.feature_label(d)
                raise InputError(f"{label} has no value within its bounds that is a multiple of {part.step:g}")
        return Node(lo, hi, np.zeros(self.n_items, dtype=np.int8))

    @cached_property
    def _tables(self) -> dict[int, Floats | None]:
        """All values of numbers that a pipeline maps, where there are not too many."""
        lo, hi = self.limits.box(self.source)
        return {d: column.between((float(lo[d]), float(hi[d])), step) for d, column, step in self.limits.uneven}

    def _around(self, part: Uneven, v: float) -> Floats:
        """Allowed values beside v: two or more on each side, as far as there are any."""
        table = self._tables[part.feature]
        if table is None or not len(table) or not table[0] <= v <= table[-1]:
            return part.column.around(v, part.step)
        at = int(np.searchsorted(table, v))
        return table[max(at - 3, 0) : at + 4]

    def _beside(self, part: Uneven, v: float) -> tuple[float, float]:
        return nearest_two(self._around(part, v), v)

    def _own_will_do(self, part: Uneven, lo: float, hi: float) -> bool:
        """Whether a feature may stay at the source's value, though that is none of the allowed ones: beside quantiles."""
        return not part.step and lo <= self.source[part.feature] <= hi

    # ---- the values of a node ----

    def rests(self, node: Node) -> Flags:
        """Which items may stay as they are."""
        inside = (node.lo <= self.source) & (self.source <= node.hi) & self._may_stay
        return np.append(inside[self.singles], self.in_groups(~inside) == 0)

    def stay(self, node: Node) -> Flags:
        """Which items stay as they are: those that are to, and where as many move as may, all that can."""
        rests = self.rests(node)
        must = ~rests | (node.state == MOVES)
        return rests & ((node.state == STAYS) | ((node.state == OPEN) & (int(must.sum()) >= self.most)))

    def features(self, items: Flags) -> Flags:
        """The features of some items."""
        found = np.zeros(len(self.source), dtype=bool)
        found[self.singles] = items[: len(self.singles)]
        found[self.columns] = items[len(self.singles) :][self.of_group]
        return found

    def options(self, node: Node) -> Flags:
        """Which features are columns of groups that may be the one that is 1: the others of the group may be 0."""
        must = node.lo > 0
        found = (node.hi >= 1) & self.conditions.grouped
        found[self.columns] &= self.in_groups(must)[self.of_group] == must[self.columns]
        return found

    def in_groups(self, features: Flags) -> Indices:
        """How many columns of each group are among these features."""
        return np.bincount(self.of_group[features[self.columns]], minlength=len(self.groups))

    def beside(self, node: Node, x: Floats) -> Floats:
        """Allowed values (J, D) among which, for a convex function of each feature with its least value at x, the best is.

        NaN stands for none. Features of groups are left as they are.
        """
        x = np.minimum(np.maximum(x, node.lo), node.hi)
        found = np.tile(x, (len(AROUND), 1))
        if len(self.grid):
            n = np.floor(x[self.grid] / self.limits.step[self.grid]) + AROUND[:, None]
            points = self.limits.grid_points(n, self.grid, self.source)
            found[:, self.grid] = np.minimum(np.maximum(points, node.lo[self.grid]), node.hi[self.grid])
        for part in self.limits.uneven:
            found[:, part.feature] = self._uneven(node, part, float(x[part.feature]))
        return found

    def nearest(self, node: Node, x: Floats) -> Floats:
        """The allowed values nearest to x."""
        values = self.beside(node, x)
        return values[np.nanargmin(np.abs(values - x), axis=0), np.arange(len(x))]

    def points_near(self, d: Indices, v: Floats) -> Floats:
        """The values nearest to v of features on a grid, or with values of their own."""
        step = self.limits.step[d]
        points = self.limits.grid_points(np.rint(v / np.where(step > 0, step, 1.0)), d, self.source)
        points = np.minimum(np.maximum(points, self.root.lo[d]), self.root.hi[d])
        for i in np.flatnonzero(step == 0).tolist():
            table = self.values[int(d[i])]
            assert table is not None
            points[i] = table[np.abs(table - v[i]).argmin()]
        return points

    @cached_property
    def values(self) -> dict[int, Floats | None]:
        """All values, in order, of features that have some of their own; None where there are too many, or none."""
        found: dict[int, Floats | None] = {}
        for part in self.limits.uneven:
            d, table = part.feature, self._tables[part.feature]
            lo, hi = float(self.root.lo[d]), float(self.root.hi[d])
            if table is not None:
                own = self.source[d : d + 1][[self._own_will_do(part, lo, hi)]]
                table = np.unique(np.append(table[(table >= lo) & (table <= hi)], own))
            found[d] = table if table is not None and len(table) else None
        return found

    def _uneven(self, node: Node, part: Uneven, x: float) -> Floats:
        lo, hi = float(node.lo[part.feature]), float(node.hi[part.feature])
        own = [float(self.source[part.feature])] if self._own_will_do(part, lo, hi) else []
        # The ends of a node are allowed values; beyond them there is nothing to choose.
        allowed = {v for v in (*self._around(part, x).tolist(), *own, lo, hi) if lo <= v <= hi and math.isfinite(v)}
        values, found = np.array(sorted(allowed)), np.full(len(AROUND), np.nan)
        nearest = [*values[values <= x][-2:], *values[values > x][:2]]
        found[: len(nearest)] = nearest
        return found

    # ---- cuts ----

    def cut(self, node: Node, cut: Cut) -> tuple[Node, Node]:
        """The two parts of a node; raises if they do not have all its points."""
        return node.parts(cut, self.groups, partial(self.limits.adjacent, self.source))
