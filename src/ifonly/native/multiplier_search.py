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

Everything here is written in arrays and plain loops, so that `native.one_multiplier` can compile this very text with Numba.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Items", "Pool", "evaluate", "expand", "expand_rows", "maximise", "open_pool"]

Floats = NDArray[np.float64]

UNDECIDED, STAYS, COUNTS = 0, 1, 2  # of an item, where only ``cap`` may move: open, must stay, may move and is counted
MAX_STEPS = 200  # of the search for w; six to twelve are usual
SETTLED = 4e-16  # relative width at which the bracket of w is a point
SHUT = 1e-13  # relative: below, D has met its tangents and cannot be raised
FIRST_NODES = 16

# A node's record: the w of its bound (inf where nothing in it meets the need), and for one that was cut: the item, how (0 at a
# value, 1 stays or moves, 2 options of less gain or more), the value below or the least gain of the second part, the value
# above, and which node is its first part (the second is the next).
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


class Pool(NamedTuple):
    """The open nodes of branch and bound, in arrays with room to spare."""

    lo: Any  # (capacity, n)
    hi: Any  # (capacity, n)
    state: Any  # (capacity, n + groups)
    allowed: Any  # (capacity, m)
    bound: Any  # (capacity,) +inf where a place is free
    best_t: Any  # (n,) the incumbent
    best_choice: Any  # (groups,)
    numbers: (
        Any  # (6,): the incumbent's cost, its w, nodes solved, the least bound of what was cut off, first w, nodes there are
    )
    ids: Any  # (capacity,) which node of the record each is
    log: Any  # (nodes, 6) the record, see `LOG`; empty where none is wanted


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
    choice = np.zeros(groups, dtype=np.int64)
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

    Then False where no w meets the need (and then the bound is infinite), and last the w at which the bound is.
    """
    left = evaluate(0.0, items, lo, hi, state, allowed, cap)
    if left[3] >= need:
        return left[4], 0.0, left, left, True, 0.0
    top = most(items, lo, hi, state, allowed, cap)
    if top < need:
        return np.inf, np.inf, left, left, False, np.inf
    # 1. A multiplier that meets the need; each item is at its largest gain for some finite w.
    a, b = 0.0, w if 0.0 < w < np.inf else 1.0
    right = evaluate(b, items, lo, hi, state, allowed, cap)
    while right[3] < need:
        a, left = b, right
        step = (need - right[3]) / right[6] if right[6] > 0.0 else 0.0
        b = min(max(2.0 * b, b + step), 1e16 * b)
        if b > 1e300:
            return np.inf, np.inf, left, left, False, np.inf
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


def open_pool(items: Items, lo: Any, hi: Any, noted: int) -> Pool:
    """One open node: everything is allowed. With room for the record of so many nodes, 0 for none."""
    n, groups, m = len(items.g), len(items.first) - 1, len(items.og)
    pool = Pool(
        np.zeros((FIRST_NODES, n)),
        np.zeros((FIRST_NODES, n)),
        np.zeros((FIRST_NODES, n + groups), dtype=np.int64),
        np.ones((FIRST_NODES, m), dtype=np.bool_),
        np.full(FIRST_NODES, np.inf),
        np.zeros(n),
        items.first[:groups].copy(),
        np.array([np.inf, np.inf, 0.0, np.inf, 1.0, 1.0]),
        np.zeros(FIRST_NODES, dtype=np.int64),
        np.full((noted, 6), -1.0),
    )
    pool.lo[0] = lo
    pool.hi[0] = hi
    pool.allowed[0] = np.isfinite(items.oc)
    pool.bound[0] = 0.0
    return pool


def grown(pool: Pool) -> Pool:
    """The same pool with twice the room."""
    capacity = len(pool.bound)
    lo, hi = np.zeros((2 * capacity, pool.lo.shape[1])), np.zeros((2 * capacity, pool.lo.shape[1]))
    state = np.zeros((2 * capacity, pool.state.shape[1]), dtype=np.int64)
    allowed = np.ones((2 * capacity, pool.allowed.shape[1]), dtype=np.bool_)
    bound, ids = np.full(2 * capacity, np.inf), np.zeros(2 * capacity, dtype=np.int64)
    lo[:capacity], hi[:capacity], state[:capacity] = pool.lo, pool.hi, pool.state
    allowed[:capacity], bound[:capacity], ids[:capacity] = pool.allowed, pool.bound, pool.ids
    return Pool(lo, hi, state, allowed, bound, pool.best_t, pool.best_choice, pool.numbers, ids, pool.log)


def with_room(pool: Pool) -> Pool:
    """The same pool with room in its record for two more nodes."""
    if len(pool.log) == 0 or pool.numbers[5] + 2 <= len(pool.log):
        return pool
    log = np.full((2 * len(pool.log) + 2, pool.log.shape[1]), -1.0)
    log[: len(pool.log)] = pool.log
    kept = (pool.lo, pool.hi, pool.state, pool.allowed, pool.bound, pool.best_t, pool.best_choice, pool.numbers, pool.ids)
    return Pool(kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], kept[6], kept[7], kept[8], log)


def offer(pool: Pool, need: float, items: Items, lo: Any, hi: Any, found: Any, cap: int, w: float) -> None:
    """Make the best of a solution's decisions, and keep it if nothing better is known."""
    if items.step.any() or len(items.first) > 1 or cap < len(found[2]):
        lo, hi, state, allowed = fixed(items, lo, hi, found)
        _, own, _, found, reached, _ = maximise(need, items, lo, hi, state, allowed, len(found[2]), w)
        if not reached:
            return
        if own > 0.0:
            w = own
        elif w == 0.0 and pool.numbers[2] > 1.0:  # no interval is left to choose: the multiplier is that of a node before
            w = pool.numbers[4]
    if found[3] >= need and found[4] < pool.numbers[0]:
        pool.best_t[:] = found[0]
        pool.best_choice[:] = found[1]
        pool.numbers[0] = found[4]
        pool.numbers[1] = w


def expand(pool: Pool, need: float, items: Items, cap: int, rel_gap: float, nodes: int) -> Any:
    """Solve up to ``nodes`` open nodes, best bound first; the pool, and whether nothing is left that could be better."""
    n = len(items.g)
    for _ in range(nodes):
        # 1. The most promising node; all others are worse than its bound.
        i = int(np.argmin(pool.bound))
        known = pool.bound[i]
        if known >= pool.numbers[0] * (1.0 - rel_gap):
            return pool, True
        lo, hi = pool.lo[i].copy(), pool.hi[i].copy()
        state, allowed = pool.state[i].copy(), pool.allowed[i].copy()
        pool.bound[i] = np.inf
        pool.numbers[2] += 1.0
        # 2. Its bound, and what its two solutions give.
        bound, w, left, right, reached, best = maximise(need, items, lo, hi, state, allowed, cap, pool.numbers[4])
        node, pool = pool.ids[i], with_room(pool)
        if len(pool.log) > 0 and (bound > known or not reached):
            pool.log[node, 0] = best
        if not reached:
            continue
        bound = max(bound, known)
        if w > 0.0:
            pool.numbers[4] = w
        if bound >= pool.numbers[0] * (1.0 - rel_gap):
            pool.numbers[3] = min(pool.numbers[3], bound)
            continue
        offer(pool, need, items, lo, hi, right, cap, w)
        item = branch_item(items, left, right, state, cap)
        if item < 0:
            pool.numbers[3] = min(pool.numbers[3], bound)
            continue
        offer(pool, need, items, lo, hi, left, cap, w)
        # 3. Two children: the item as on the left, or as on the right.
        first = int(pool.numbers[5])
        pool.numbers[5] += 2.0
        if len(pool.log) > 0:
            pool.log[node, 1], pool.log[node, 5] = item, first
            pool.log[first, 0] = pool.log[first + 1, 0] = pool.log[node, 0]
        for side in range(2):
            free = np.flatnonzero(np.isinf(pool.bound))
            if len(free) == 0:
                pool = grown(pool)
                free = np.flatnonzero(np.isinf(pool.bound))
            c = free[0]
            pool.lo[c], pool.hi[c], pool.state[c], pool.allowed[c] = lo, hi, state, allowed
            pool.bound[c], pool.ids[c] = bound, first + side
            counted = cap < len(left[2]) and left[2][item] != right[2][item] and state[item] == UNDECIDED
            if counted:
                pool.state[c, item] = STAYS if side == 0 else COUNTS
                kind, below, above = 1, 0.0, 0.0
            elif item < n:
                below = min(left[0][item], right[0][item])
                kind, above = 0, next_point(items, item, below)
                if side == 0:
                    pool.hi[c, item] = below
                else:
                    pool.lo[c, item] = above
            else:
                j = item - n
                kind, below, above = 2, max(items.og[left[1][j]], items.og[right[1][j]]), 0.0
                for o in range(items.first[j], items.first[j + 1]):
                    if (items.og[o] >= below) == (side == 0):
                        pool.allowed[c, o] = False
            if len(pool.log) > 0:
                pool.log[node, 2], pool.log[node, 3], pool.log[node, 4] = kind, below, above
    done = pool.bound.min() >= pool.numbers[0] * (1.0 - rel_gap)
    return pool, bool(done)


def expand_rows(need: Any, many: Items, lo: Any, hi: Any, cap: int, gap: float, nodes: int, out: Any) -> None:
    """`expand` for N rows: t, choice and (cost, w, nodes, bound, done) of each, into the three arrays of ``out``.

    What depends on the source has a leading axis of N in ``many``.
    """
    t, choice, numbers = out
    for n in range(len(need)):
        per_row = (many.anchor[n], many.at_rest[n], many.og[n], many.oc[n], many.moves[n])
        items = Items(many.g, many.mu, many.step, *per_row, many.first)
        pool, done = expand(open_pool(items, lo[n], hi[n], 0), need[n], items, cap, gap, nodes)
        t[n] = pool.best_t
        choice[n] = pool.best_choice
        numbers[n, :2], numbers[n, 2] = pool.numbers[:2], pool.numbers[5]
        numbers[n, 3] = min(pool.numbers[0], pool.bound.min(), pool.numbers[3])
        numbers[n, 4] = 1.0 if done else 0.0
