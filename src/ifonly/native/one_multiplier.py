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

This is multiplier_search.hpp, for one source and for many; and many_multipliers.hpp, for more constraints than one.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.threads import share_out
from ifonly.model.numerics import Flags, Floats
from ifonly.native import compiled

__all__ = ["LOG", "CompiledSearch", "Constraints", "Items", "reach"]

ROWS_PER_THREAD = 64
DONE, FULL = 1, 2  # how a search may end; 0 where it goes on

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

    def of(self, rows: Any) -> "Items":
        """Those of some of many sources, or of one: what depends on the source has a leading axis."""
        return self._replace(**{name: getattr(self, name)[rows] for name in ("anchor", "at_rest", "og", "oc", "moves")})

    def plain(self) -> "Items":
        """Arrays as C++ reads them."""
        kinds = {"at_rest": np.bool_, "moves": np.bool_, "first": np.int64}
        return Items(*(np.ascontiguousarray(a, kinds.get(name, np.float64)) for name, a in self._asdict().items()))


class Constraints(NamedTuple):
    """Several constraints in place of one (many_multipliers.hpp): what each gains by the items, and has to.

    The first ``rivals`` are one: ln Σ_j exp(needs_j − what row j gains) ≤ 0. Or, with a ``weight``, none: so many times the
    left-hand side are minimised with the cost.
    """

    rows: Floats  # (M, n)
    options: Floats  # (M, m)
    needs: Floats  # (M,)
    slips: Floats  # (M,) by how much each may be missed by rounding
    equal: Flags  # (M,)
    start: Floats  # (M,) multipliers to begin with
    rivals: int
    weight: float = 0.0

    @property
    def work(self) -> int:
        """What a step in a node takes: Newton's matrix has a sum over all features for each two constraints."""
        return len(self.needs) * self.rows.size

    def plain(self) -> "Constraints":
        """Arrays as C++ reads them."""
        floats = {name: _floats(getattr(self, name)) for name in ("rows", "options", "needs", "slips", "start")}
        return self._replace(equal=np.ascontiguousarray(self.equal), **floats)


class CompiledSearch:
    """Branch and bound for one source, of which C++ has the rest."""

    cost: float  # of the best solution that is known; infinite where none is
    w: float  # the multiplier of that solution
    solved: int  # nodes that were solved
    bound: float  # no solution costs less

    def __init__(self, items: Items, lo: Any, hi: Any, need: "float | Constraints", cap: int, room: int) -> None:
        """Begin with everything allowed; no more than ``room`` nodes are kept."""
        self._items, self._constraints, self.full = items, 1, False
        g, mu, step, anchor, at_rest, og, *options = items.plain()
        lo, hi = _floats(lo), _floats(hi)
        if isinstance(need, Constraints):
            self._constraints = len(need.needs)
            self._search = compiled().Search(mu, step, anchor, at_rest, *options, lo, hi, *need.plain(), cap, room)
        else:
            self._search = compiled().Search(g, mu, step, anchor, at_rest, og, *options, lo, hi, need, cap, room)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._search, name)

    def give_values(self, values: "list[Floats]") -> None:
        """Before it begins: the values that each feature may have, in order, where these are at uneven distances; else none."""
        starts = np.cumsum([0, *map(len, values)], dtype=np.int64)
        self._search.give_values(np.concatenate([*values, np.zeros(0)]), starts)

    @property
    def t(self) -> Floats:
        """The best solution's changes."""
        return self._answer()[0]

    @property
    def choice(self) -> NDArray[np.int64]:
        """The best solution's options."""
        return self._answer()[1]

    def _answer(self) -> tuple[Floats, NDArray[np.int64]]:
        found = np.empty(len(self._items.g)), np.empty(len(self._items.first) - 1, dtype=np.int64)
        self._search.answer(*found)
        return found

    @property
    def log(self) -> Floats:
        """The record of all nodes (`LOG`)."""
        log = np.empty((self._search.count, len(LOG)))
        self._search.record(log)
        return log

    @property
    def multipliers(self) -> Floats:
        """Those of all nodes, one for each of several constraints."""
        found = np.empty((self._search.count, self._constraints))
        self._search.multipliers(found)
        return found

    def expand(self, rel_gap: float, nodes: int, seconds: float = math.inf) -> bool:
        """Solve up to ``nodes`` open nodes, best bound first, one at least; whether nothing is left that could be better."""
        ended = self._search.expand(rel_gap, nodes, seconds)
        self.full = ended == FULL
        return ended == DONE


def reach(
    need: tuple[Any, Any], items: Items, box: tuple[Any, Any], cap: int, gap: float, nodes: int, threads: int = 1
) -> tuple[Any, Any, Any]:
    """`CompiledSearch` for N sources: t, choice and (cost, w, nodes, bound, done) of each.

    What depends on the source has a leading axis of N in ``items`` and ``box``. ``need`` are the needs, and by how much each is
    harder than what is asked for, of which the bounds are.
    """
    N, n, groups = len(need[0]), len(items.g), len(items.first) - 1
    found = np.empty((N, n)), np.empty((N, groups), dtype=np.int64), np.empty((N, 5))
    items, needed, harder, lo, hi = items.plain(), *(_floats(a) for a in (*need, *box))

    def part(s: slice) -> None:
        compiled().search_rows(needed[s], harder[s], *items.of(s), lo[s], hi[s], cap, gap, nodes, *(out[s] for out in found))

    share_out(N, threads, ROWS_PER_THREAD, part)
    return found


def _floats(a: Any) -> Floats:
    return np.ascontiguousarray(a, dtype=np.float64)
