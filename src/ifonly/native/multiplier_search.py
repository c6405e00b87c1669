"""Two classes with limits: one constraint, one multiplier, no Newton in class space, and branch and bound on top of it.

For K = 2 a wanted probability is one linear inequality, ``Σ g_d t_d ≥ need``, in the changes ``t_d`` in units of cost, and

    min  Σ_d ½t_d² + μ_d|t_d|     subject to   Σ_d g_d t_d ≥ need,    t_d ∈ T_d

is separable but for it. T_d is an interval, a grid (whole numbers), or, for a group of one-hot columns, a list of options with
a cost and a gain each; at most ``cap`` items may move. For a multiplier w ≥ 0 every item is on its own,

    D(w) = w·need + Σ_d min over t in T_d of (½t² + μ_d|t| − w g_d t),        D(w) ≤ optimum for every w ≥ 0,

also where T_d is a grid or a list and where only the ``cap`` best may move: these bounds are those of the convex hull, far
better than those of a relaxed solution. D is concave, and its slope ``need − G(w)`` is piecewise linear with jumps where
an item changes its mind. Without such items the maximum closes the gap, and w is exact after a few Newton steps. With them, the
two solutions left and right of the jump differ in (usually) one item: the right one is feasible, and the item is branched on.

This is what multiplier_search.hpp does, which `native.one_multiplier` has; and what runs where nothing is compiled.
"""

import heapq
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.model.numerics import Flags, Floats

__all__ = ["LOG", "Items", "Search"]


UNDECIDED, STAYS, COUNTS = 0, 1, 2  # of an item, where only ``cap`` may move: open, must stay, may move and is counted
MAX_STEPS = 200  # of the search for w; six to twelve are usual
SETTLED = 4e-16  # relative width at which the bracket of w is a point
SHUT = 1e-13  # relative: below, D has met its tangents and cannot be raised

# A node's record: the w of its bound (inf where nothing in it meets the need), and for one that was cut: the item, how (0 at a
# value, 1 stays or moves, 2 options of less gain or more, 3 one option or the others), the value below, the least gain of the
# second part or the option, the value above, and which node is its first part (the second is the next). A node that was not cut
# has its bound for the value above, and where nothing meets the need, by how much it is missed for that below.
LOG = ("w", "item", "kind", "below", "above", "first")


class Items(NamedTuple):
    """What may move: n features and, after them, groups of options (all arrays; empty where there are none)."""

    g: Any  # (n,) gain per unit of cost
    mu: Any  # (n,)
    step: Any  # (n,) distance of grid points, 0 for an interval
    anchor: Any  # (n,) a grid point
    at_rest: Any  # (n,) bool: t = 0 is allowed, so that the feature can stay
    og: Any  # (m,) gains of options
    oc: Any  # (m,) costs of options
    moves: Any  # (m,) bool: whether choosing the option is a change
    first: Any  # (groups + 1,) where each group's options begin

    @property
    def per_row(self) -> tuple[str, ...]:
        """The fields that depend on the source: for many sources they have a leading axis."""
        return ("anchor", "at_rest", "og", "oc", "moves")


def evaluate(w: float, items: Items, lo: Any, hi: Any, state: Any, allowed: Any, cap: int) -> Any:
    """Every item's best answer to the multiplier w: t, the options chosen, which items move, G, cost, Σ(cost − w·gain), G'."""
    n, groups = len(items.g), len(items.first) - 1
    pull = w * items.g
    t = np.minimum(np.maximum(np.sign(pull) * np.maximum(np.abs(pull) - items.mu, 0.0), lo), hi)
    for d in range(n):
        if items.step[d] > 0 and lo[d] < hi[d]:
            below = items.anchor[d] + np.floor((t[d] - items.anchor[d]) / items.step[d]) * items.step[d]
            below = min(max(below, lo[d]), hi[d])
            above = min(below + items.step[d], hi[d])
            if items.at_rest[d]:  # the source stands for the grid point that it is up to rounding
                below = 0.0 if abs(below) < 0.5 * items.step[d] else below
                above = 0.0 if abs(above) < 0.5 * items.step[d] else above
            price_below = 0.5 * below * below + items.mu[d] * abs(below) - pull[d] * below
            price_above = 0.5 * above * above + items.mu[d] * abs(above) - pull[d] * above
            t[d] = below if price_below <= price_above else above
    value = 0.5 * t * t + items.mu * np.abs(t) - pull * t
    moved = np.zeros(n + groups, dtype=np.bool_)
    moved[:n] = (t != 0.0) | ~items.at_rest
    choice = items.first[:groups].copy()
    rest = np.full(groups, -1, dtype=np.int64)  # a group's option that is no change
    saved = np.zeros(n + groups)
    saved[:n] = np.where(items.at_rest, value, -np.inf)
    for j in range(groups):
        best = np.inf
        for o in range(items.first[j], items.first[j + 1]):
            if not items.moves[o]:
                rest[j] = o
            if allowed[o]:
                price = items.oc[o] - w * items.og[o]
                if price < best:
                    best = price
                    choice[j] = o
        moved[n + j] = items.moves[choice[j]]
        can_rest = rest[j] >= 0 and allowed[rest[j]]
        saved[n + j] = best - (items.oc[rest[j]] - w * items.og[rest[j]]) if can_rest else -np.inf
    # At most ``cap`` may move: those that save most.
    if cap < n + groups:
        room = cap
        wanting = 0
        for i in range(n + groups):
            if state[i] == STAYS and saved[i] > -np.inf:
                moved[i] = False
            elif state[i] == COUNTS or saved[i] == -np.inf:
                room -= 1
            elif moved[i]:
                wanting += 1
        if wanting > room:
            order = np.argsort(saved, kind="mergesort")
            for k in range(n + groups):
                i = order[k]
                if state[i] == UNDECIDED and moved[i] and saved[i] > -np.inf:
                    if room > 0:
                        room -= 1
                    else:
                        moved[i] = False
        for d in range(n):
            if not moved[d]:
                t[d] = 0.0
        for j in range(groups):
            if not moved[n + j] and rest[j] >= 0:
                choice[j] = rest[j]
    cost = float((0.5 * t * t + items.mu * np.abs(t)).sum())
    gain = float((items.g * t).sum())
    for j in range(groups):
        cost += items.oc[choice[j]]
        gain += items.og[choice[j]]
    inside = (t > lo) & (t < hi) & (items.step == 0.0) & (np.abs(pull) > items.mu) & moved[:n]
    slope = float((items.g * items.g * inside).sum())
    return t, choice, moved, gain, cost, cost - w * gain, slope


def next_point(items: Items, d: int, t: float) -> float:
    """The grid point above t, which is one."""
    return items.anchor[d] + (np.rint((t - items.anchor[d]) / items.step[d]) + 1.0) * items.step[d]


def most(items: Items, lo: Any, hi: Any, state: Any, allowed: Any, cap: int) -> float:
    """The largest gain there is: the least need that cannot be met lies above it."""
    n, groups = len(items.g), len(items.first) - 1
    extra = np.zeros(n + groups)
    total = 0.0
    room = cap
    for d in range(n):
        g = items.g[d]
        top = 0.0 if g == 0.0 else g * hi[d] if g > 0 else g * lo[d]
        if not items.at_rest[d]:
            total += top
            room -= 1
        elif state[d] == COUNTS:
            total += max(top, 0.0)
            room -= 1
        elif state[d] == UNDECIDED:
            extra[d] = max(top, 0.0)
    for j in range(groups):
        top, rest = -np.inf, -np.inf
        for o in range(items.first[j], items.first[j + 1]):
            if allowed[o]:
                top = max(top, items.og[o])
                if not items.moves[o]:
                    rest = items.og[o]
        if rest == -np.inf or state[n + j] == COUNTS:
            total += top
            room -= 1
        else:
            total += rest
            if state[n + j] == UNDECIDED:
                extra[n + j] = top - rest
    if room < 0:
        return -np.inf
    if room >= n + groups:
        return total + float(extra.sum())
    order = np.argsort(-extra, kind="mergesort")
    return total + float(extra[order[:room]].sum())


def branch_item(items: Items, left: Any, right: Any, state: Any, cap: int) -> int:
    """The item about which the two solutions differ most, or −1 where only intervals differ (D has no jump there)."""
    n, groups = len(items.g), len(items.first) - 1
    best, item = 0.0, -1
    for d in range(n):
        counted = cap < n + groups and left[2][d] != right[2][d] and state[d] == UNDECIDED
        if items.step[d] > 0.0 or counted:
            difference = abs(items.g[d] * (left[0][d] - right[0][d]))
            if difference > best:
                best, item = difference, d
    for j in range(groups):
        if left[1][j] != right[1][j]:
            difference = abs(items.og[left[1][j]] - items.og[right[1][j]])
            if difference > best:
                best, item = difference, n + j
    return item


def maximise(need: float, items: Items, lo: Any, hi: Any, state: Any, allowed: Any, cap: int, w: float) -> Any:
    """The largest D(w): the bound, w, and the solutions on its two sides (t, choice, moved, gain, cost), short of need and not.

    Then False where no w meets the need (then the bound is infinite, and by how much it is missed stands for w), and last the w
    at which the bound is.
    """
    left = evaluate(0.0, items, lo, hi, state, allowed, cap)
    if left[3] >= need:
        return left[4], 0.0, left, left, True, 0.0
    top = most(items, lo, hi, state, allowed, cap)
    if top < need:
        return np.inf, need - top, left, left, False, np.inf
    # 1. A multiplier that meets the need; each item is at its largest gain for some finite w.
    a, b = 0.0, w if 0.0 < w < np.inf else 1.0
    right = evaluate(b, items, lo, hi, state, allowed, cap)
    while right[3] < need:
        a, left = b, right
        step = (need - right[3]) / right[6] if right[6] > 0.0 else 0.0
        b = min(max(2.0 * b, b + step), 1e16 * b)
        if b > 1e300:
            return np.inf, 0.0, left, left, False, np.inf
        right = evaluate(b, items, lo, hi, state, allowed, cap)
    # 2. Close in on the largest D: by Newton where the slope is a line, else where the two tangents meet.
    bound, best = max(left[5] + a * need, right[5] + b * need, 0.0), b if right[5] + b * need >= left[5] + a * need else a
    for _ in range(MAX_STEPS):
        if b - a <= SETTLED * b or right[3] == need:
            break
        at_a, at_b = left[5] + a * need, right[5] + b * need
        short, over = need - left[3], right[3] - need
        meet = (at_b - at_a + over * b + short * a) / (short + over)  # of the tangents
        ceiling = at_a + short * (meet - a)
        if ceiling - bound <= SHUT * abs(ceiling) and branch_item(items, left, right, state, cap) >= 0:
            break
        w = meet
        newton = b - over / right[6] if right[6] > 0.0 else a
        if not a < newton < b:
            newton = a + short / left[6] if left[6] > 0.0 else a
        if a < newton < b:
            w = newton
        if not a < w < b:
            w = 0.5 * (a + b)
            if not a < w < b:
                break
        here = evaluate(w, items, lo, hi, state, allowed, cap)
        if here[5] + w * need > bound:
            bound, best = here[5] + w * need, w
        if here[3] >= need:
            b, right = w, here
        else:
            if w == newton:  # a line would have met the need: look just beyond it, and not as far as b
                beyond = w + 2.0 * max((need - here[3]) / right[6] if right[6] > 0.0 else 0.0, SETTLED * w)
                if beyond < b:
                    there = evaluate(beyond, items, lo, hi, state, allowed, cap)
                    if there[5] + beyond * need > bound:
                        bound, best = there[5] + beyond * need, beyond
                    if there[3] >= need:
                        b, right = beyond, there
            a, left = w, here
    return bound, b, left, right, True, best


def fixed(items: Items, lo: Any, hi: Any, found: Any) -> Any:
    """The node in which only the intervals of a solution's moved features are left to choose: lo, hi, state, allowed."""
    t, choice, moved = found[0], found[1], found[2]
    n, groups = len(items.g), len(items.first) - 1
    lo, hi = lo.copy(), hi.copy()
    state = np.full(n + groups, COUNTS, dtype=np.int64)
    for d in range(n):
        if items.step[d] > 0.0 or not moved[d]:
            lo[d] = t[d]
            hi[d] = t[d]
    allowed = np.zeros(len(items.og), dtype=np.bool_)
    for j in range(groups):
        allowed[choice[j]] = True
    return lo, hi, state, allowed


@dataclass(slots=True)
class Node:
    """What is left of the problem in a part of it."""

    lo: Floats
    hi: Floats
    state: NDArray[np.int64]
    allowed: Flags


class Search:
    """Branch and bound for one source.

    Attributes
    ----------
    cost, w : float
        Of the best solution that is known; infinite where none is.
    t, choice : ndarray
        That solution.
    solved : int
        Nodes that were solved.
    full : bool
        Whether there was no room for more nodes.

    """

    def __init__(self, items: Items, lo: Any, hi: Any, need: float, cap: int, room: int) -> None:
        """Begin with everything allowed; no more than ``room`` nodes are kept."""
        self.items, self.need, self.cap, self.room = items, need, cap, room
        n, groups = len(items.g), len(items.first) - 1
        self.t, self.choice = np.zeros(n), items.first[:groups].copy()
        self.cost = self.w = math.inf
        self.solved, self.full = 0, False
        root = Node(np.array(lo), np.array(hi), np.zeros(n + groups, dtype=np.int64), np.isfinite(items.oc))
        self._nodes: dict[int, Node] = {0: root}  # those that are open
        self._open = [(0.0, 0)]  # a heap of bounds and nodes
        self._log = [[-1.0, -1.0, -1.0, -1.0, 0.0, -1.0]]
        self._last_w, self._cut_off = 1.0, math.inf

    @property
    def bound(self) -> float:
        """No solution costs less."""
        return min(self.cost, self._cut_off, self._open[0][0] if self._open else math.inf)

    @property
    def log(self) -> Floats:
        """The record of all nodes (`LOG`)."""
        return np.array(self._log)

    def _settled(self, bound: float, rel_gap: float) -> bool:
        return bound >= self.cost * (1.0 - rel_gap)

    def expand(self, rel_gap: float, nodes: int) -> bool:
        """Solve up to ``nodes`` open nodes, best bound first; whether nothing is left that could be better."""
        for _ in range(nodes):
            # 1. The most promising node; all others are worse than its bound.
            if not self._open or self._settled(self._open[0][0], rel_gap):
                return True
            if len(self._log) + 2 > self.room:
                self.full = True
                return False
            known, i = heapq.heappop(self._open)
            self._solve(known, i, rel_gap)
        return not self._open or self._settled(self._open[0][0], rel_gap)

    def _solve(self, known: float, i: int, rel_gap: float) -> None:
        # 2. Its bound, and what its two solutions give.
        node, items = self._nodes.pop(i), self.items
        at = (node.lo, node.hi, node.state, node.allowed)
        self.solved += 1
        bound, w, left, right, reached, best = maximise(self.need, items, *at, self.cap, self._last_w)
        if bound > known or not reached:
            self._log[i][0] = best
        if not reached:
            self._log[i][3] = w
            return
        bound = max(bound, known)
        self._log[i][4] = bound
        self._last_w = w if w > 0.0 else self._last_w
        item = -1
        if not self._settled(bound, rel_gap):
            self._offer(node, right, w)
            item = branch_item(items, left, right, node.state, self.cap)
        if item < 0:
            self._cut_off = min(self._cut_off, bound)
            return
        self._offer(node, left, w)
        # 3. Two children: the item as on the left, or as on the right.
        first = len(self._log)
        how = self._cut(node, item, left, right)
        self._log[i][1:] = [float(item), *how, float(first)]
        for side in range(2):
            self._log.append([self._log[i][0], -1.0, -1.0, -1.0, bound, -1.0])
            self._nodes[first + side] = self._part(node, item, how, side)
            heapq.heappush(self._open, (bound, first + side))

    def _offer(self, node: Node, found: Any, w: float) -> None:
        """Make the best of a solution's decisions, and keep it if nothing better is known."""
        items, n_items = self.items, len(found[2])
        if items.step.any() or len(items.first) > 1 or self.cap < n_items:
            lo, hi, state, allowed = fixed(items, node.lo, node.hi, found)
            _, own, _, found, reached, _ = maximise(self.need, items, lo, hi, state, allowed, n_items, w)
            if not reached:
                return
            if own > 0.0:
                w = own
            elif w == 0.0 and self.solved > 1:  # no interval is left to choose: the multiplier is that of a node before
                w = self._last_w
        if found[3] >= self.need and found[4] < self.cost:
            self.t, self.choice, self.cost, self.w = found[0], found[1], float(found[4]), w

    def _cut(self, node: Node, item: int, left: Any, right: Any) -> tuple[float, float, float]:
        """How an item is cut: kind, below and above of `LOG`."""
        items, n = self.items, len(self.items.g)
        if self.cap < len(left[2]) and left[2][item] != right[2][item] and node.state[item] == UNDECIDED:
            return 1.0, 0.0, 0.0
        if item < n:
            below = float(min(left[0][item], right[0][item]))
            return 0.0, below, float(next_point(items, item, below))
        return 2.0, float(max(items.og[left[1][item - n]], items.og[right[1][item - n]])), 0.0

    def _part(self, node: Node, item: int, how: tuple[float, float, float], side: int) -> Node:
        """One of the two parts of a node that is cut."""
        items, n, (kind, below, above) = self.items, len(self.items.g), how
        part = Node(node.lo.copy(), node.hi.copy(), node.state.copy(), node.allowed.copy())
        if kind == 1.0:
            part.state[item] = STAYS if side == 0 else COUNTS
        elif kind == 0.0 and side == 0:
            part.hi[item] = below
        elif kind == 0.0:
            part.lo[item] = above
        else:
            options = np.arange(items.first[item - n], items.first[item - n + 1])
            part.allowed[options[(items.og[options] >= below) == (side == 0)]] = False
        return part
