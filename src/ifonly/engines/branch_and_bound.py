"""Whole numbers, categories and few changes, for everything that `scalar` does not do: best-first branch and bound.

A node is a box: bounds on features (a category is one-hot columns fixed to 0 or 1), and for ``max_changes`` which items must
stay and which may move. Its relaxation (`semismooth`, started at the parent's answer) gives probabilities q of the rivals; any
q bounds the optimum from below in two ways:

    D(q)  over the box, the value of the relaxation;
    D'(q) with every item's *discrete* choices, `scalar.evaluate`: whole numbers, one option per group, at most ``cap`` moves.

D' costs O(D) more and is the larger of the two, often so much that the first node is the last. Its choices, with what is
continuous solved anew, are the candidates for the answer. With ``prob`` the cost is what counts: for every λ and q
cost* ≥ (D_λ(q) + ln τ)/λ.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ifonly.engines import semismooth
from ifonly.engines.budget import Budget
from ifonly.engines.limited_problem import IDLE, CostSpace, LimitedProblem
from ifonly.engines.semismooth import Response, Terms
from ifonly.engines.tree import Tree
from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS
from ifonly.native import multiplier_search as scalar
from ifonly.problem.cost import Cost
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["search"]

Floats = NDArray[np.float64]

NODE_BYTES, NODE_ARRAYS = 2**30, 6  # memory for open nodes, and how many arrays of D each keeps
OFF = 1e-9  # a relaxed value this far from a whole number is none
NO_COST = 1e-9  # what the largest cost may add to −ln p where only the probability counts


@dataclass(frozen=True)
class Node:
    """A box, in the user's units, with a state for every item (see `scalar`)."""

    lo: Floats
    hi: Floats
    state: NDArray[np.int64]
    start: Response | None


@dataclass(frozen=True)
class Relaxed:
    """What a node's relaxation says."""

    bound: float
    at: Response
    x: Floats  # relaxed
    choice: Floats | None  # x with the discrete choices of D'
    moved: NDArray[np.bool_] | None  # which items those move


class Branches:
    """Branch and bound for one problem, in the λ form or the probability form."""

    def __init__(self, problem: LimitedProblem, lam: float | None, prob: float | None) -> None:
        self.problem, self.lam, self.prob = problem, lam, prob
        self.space = space = problem.space
        self.limits = space.limits
        self.singles = np.flatnonzero(~space.grouped)
        self.n_items = len(self.singles) + len(self.limits.groups)
        self.cap = self.n_items if space.max_changes is None else space.max_changes
        self.on_grid = self.limits.on_grid & ~space.grouped
        self.must = self.limits.must_move(problem.source[None], problem.lo[None], problem.hi[None])[0]
        self.n_iter = 0

    # ---- bounds ----

    def relax(self, node: Node) -> Relaxed | None:
        """The node's relaxation; None if nothing in the box is feasible."""
        problem = self.problem
        if (node.lo > node.hi).any() or any(node.lo[g].sum() > 1 or node.hi[g].sum() < 1 for g in self.limits.groups):
            return None
        terms = problem.terms((node.lo, node.hi), tight=-problem.tight)  # grid points on the very edge of a rule are let in
        if problem.n_rules and semismooth.infeasible(terms):
            return None
        if self.prob is None:
            assert self.lam is not None
            at, n_iter, _ = semismooth.solve(terms, self.lam, start=node.start)
        else:
            goal = problem.goal_of(self.prob, lambda at: problem.source + problem.change(at.t), (node.lo, node.hi))
            at, n_iter, met, ceiling = semismooth.reach(terms, goal, node.start)
            if not met and ceiling < self.prob:
                return None
        self.n_iter += n_iter
        x = problem.source + problem.change(at.t)
        bound = self._bound(_dual(terms, at), at.lam)
        if self.space.root is not None:
            return Relaxed(bound, at, x, None, None)
        value, choice, moved = self._discrete(node, terms, at)
        return Relaxed(max(bound, self._bound(value, at.lam)), at, x, choice, moved)

    def _bound(self, dual: float, lam: float) -> float:
        return dual if self.prob is None else (dual + math.log(self.prob)) / lam

    def _discrete(self, node: Node, terms: Terms, at: Response) -> tuple[float, Floats, NDArray[np.bool_]]:
        """D' at the relaxation's q, and the choices it makes."""
        space, source = self.space, self.problem.source
        m = self.problem.n_rules  # the groups' rows are not needed where groups choose one option
        nu = at.nu[:m]
        pull = -(at.q[:-1] @ terms.B + nu @ terms.C[:m])
        items, lo, hi = self.problem.items(pull / at.lam, (node.lo, node.hi), at.lam / at.weight)
        allowed = np.isfinite(items.oc)
        t, choice, moved, _, _, value, _ = scalar.evaluate(1.0, items, lo, hi, node.state, allowed, self.cap)
        positive = at.q > 0
        entropy = -float(at.q[positive] @ at.lq[positive])
        dual = at.lam * value + float(at.q[:-1] @ terms.margins) + entropy - float(nu @ terms.rest[:m])
        return dual, source + space.spread(source[None], t[None], choice[None], items.first)[0], moved

    # ---- candidates ----

    def candidate(self, x: Floats, moved: NDArray[np.bool_] | None, start: Response) -> Result | None:
        """The best answer with the discrete choices of x; None if there is none."""
        problem = self.problem
        x, fixed = self._decided(x, moved)
        if (x[fixed] < problem.lo[fixed]).any() or (x[fixed] > problem.hi[fixed]).any():
            return None
        lo, hi = np.where(fixed, x, problem.lo), np.where(fixed, x, problem.hi)
        at: Response | None = start
        if (lo < hi).any():
            at = self._continuous(lo, hi, start)
            if at is None:
                return None
            settled = problem.placed(at.t, at.nu, at.weight, (lo, hi))
            x = np.where(fixed, x, settled)
        if self.limits.broken(problem.source, x) is not None or not self._meets(x):
            return None
        weight = 1.0 if self.prob is None else at.lam
        return problem.result(x, at.lam, weight=weight, multipliers=at.nu[: problem.n_rules])

    def _decided(self, x: Floats, moved: NDArray[np.bool_] | None) -> tuple[Floats, NDArray[np.bool_]]:
        """X with every discrete choice made, and the features that are fixed by them."""
        problem, limits = self.problem, self.limits
        x = limits.placed(x, problem.source, problem.lo, problem.hi)
        fixed = self.on_grid | self.space.grouped
        for group in limits.groups:
            best = int(group[x[group].argmax()])
            x[group] = 0.0
            x[best] = 1.0
        if self.cap < self.n_items:
            if moved is None or moved.sum() > self.cap:
                moved = self._largest(x)
            for item in np.flatnonzero(~moved).tolist():
                still = self._members(item)
                x[still] = problem.source[still]
                fixed[still] = True
        return x, fixed

    def _continuous(self, lo: Floats, hi: Floats, start: Response) -> Response | None:
        """What is continuous, solved in a box with all choices made; None if nothing there will do."""
        problem = self.problem
        terms = self._without_idle(problem.terms((lo, hi)), lo, hi)
        if problem.n_rules and semismooth.infeasible(terms):
            return None
        if self.prob is None:
            assert self.lam is not None
            at, n_iter, _ = semismooth.solve(terms, self.lam, start=start)
            met = True
        else:
            goal = problem.goal_of(self.prob, lambda at: problem.placed(at.t, at.nu, at.weight, (lo, hi)), (lo, hi))
            at, n_iter, met, _ = semismooth.reach(terms, goal, start)
        self.n_iter += n_iter
        return at if met else None

    def _meets(self, x: Floats) -> bool:
        """Whether x meets the goal."""
        if self.prob is not None:
            return self.problem.reached(x, self.prob)
        return self.space.margin is None or self.problem.is_ahead(x)

    def _without_idle(self, terms: Terms, lo: Floats, hi: Floats) -> Terms:
        """The rules between fixed features are left out: they hold, perhaps just so, or `broken` says that they do not."""
        idle = np.zeros(len(terms.C), dtype=bool)
        idle[: len(self.limits.C)] = ~((self.limits.C != 0) & (lo < hi)).any(axis=1)
        return terms._replace(rest=np.where(idle, IDLE, terms.rest), low=np.where(idle, 0.0, terms.low))

    def _largest(self, x: Floats) -> NDArray[np.bool_]:
        """The ``cap`` items that change most, in units of cost; those that must move first."""
        size = np.abs(x - self.problem.source) * self.space.per_unit
        size = np.where(self.must, np.inf, size)
        of = np.append(size[self.singles], [size[g].max() for g in self.limits.groups])
        moved = np.zeros(self.n_items, dtype=bool)
        moved[np.argsort(-of, kind="stable")[: self.cap]] = True
        return moved & (of > 0)

    def value(self, plan: Result) -> float:
        """What is minimised."""
        return plan.objective if self.prob is None else plan.cost

    # ---- branching ----

    def children(self, node: Node, relaxed: Relaxed) -> list[Node]:
        """Two smaller boxes that leave out the relaxed solution; none if that is a solution."""
        x, c = relaxed.x, self.space.per_unit
        step = np.where(self.on_grid, self.limits.step, 1.0)
        steps = x / step
        off = np.where(self.on_grid, np.abs(steps - np.rint(steps)), 0.0)
        off = np.where(off > OFF * (1 + np.abs(steps)), off * step * c, 0.0)
        worst, split = float(off.max(initial=0.0)), ("grid", int(off.argmax()))
        for j, group in enumerate(self.limits.groups):
            size = (1.0 - float(x[group].max())) * float(c[group].max())
            if 1.0 - float(x[group].max()) > OFF and size > worst:
                worst, split = size, ("group", j)
        if worst > 0:
            return self._split(node, relaxed, *split)
        if self.cap < self.n_items:
            size = np.abs(x - self.problem.source) * c
            size = np.where(size > OFF * size.max(initial=0.0), size, 0.0)
            of = np.append(size[self.singles], [size[g].max() for g in self.limits.groups])
            if int((of > 0).sum()) > self.cap:
                item = int(np.where(node.state == scalar.UNDECIDED, of, -1.0).argmax())
                if of[item] > 0 and node.state[item] == scalar.UNDECIDED:
                    return self._split(node, relaxed, "cap", item)
        return []

    def around(self, node: Node, relaxed: Relaxed) -> list[Node]:
        """The box below, at and above the relaxed solution of one discrete feature; none if all are fixed.

        For where the relaxed solution is on the grid, but only nearly, and the grid point misses what is asked for.
        """
        x = self.limits.placed(relaxed.x, self.problem.source, self.problem.lo, self.problem.hi)
        wide = np.where(self.limits.on_grid, (node.hi - node.lo) / np.where(self.limits.on_grid, self.limits.step, 1.0), 0.0)
        d = int(wide.argmax())
        if not wide[d] > 0.5:
            return []
        n, nodes = float(np.rint(x[d] / self.limits.step[d])), []
        below, above = self.limits.multiple(d, n - 1), self.limits.multiple(d, n + 1)
        for low, high in ((-math.inf, below), (x[d], x[d]), (above, math.inf)):
            lo, hi = node.lo.copy(), node.hi.copy()
            lo[d], hi[d] = max(lo[d], low), min(hi[d], high)
            nodes.append(Node(lo, hi, node.state, relaxed.at))
        return [box for box in nodes if box.lo[d] <= box.hi[d]]

    def root(self) -> Node:
        """The whole problem; what must move is counted, and if that is all that may, the rest stays."""
        problem, limits = self.problem, self.limits
        lo, hi, state = problem.lo.copy(), problem.hi.copy(), np.zeros(self.n_items, dtype=np.int64)
        moves = np.append(self.must[self.singles], [self.must[g].any() for g in limits.groups]).astype(bool)
        if self.cap < self.n_items:
            state[moves] = scalar.COUNTS
            self._close(lo, hi, state)
        return Node(lo, hi, state, None)

    def _close(self, lo: Floats, hi: Floats, state: NDArray[np.int64]) -> None:
        """Where as many items are counted as may move, fix the others at the source (in place)."""
        if int((state == scalar.COUNTS).sum()) >= self.cap:
            for i in np.flatnonzero(state == scalar.UNDECIDED).tolist():
                lo[self._members(i)] = hi[self._members(i)] = self.problem.source[self._members(i)]

    def _members(self, item: int) -> NDArray[np.intp]:
        """The features of an item."""
        n = len(self.singles)
        return self.singles[item : item + 1] if item < n else self.limits.groups[item - n]

    def _split(self, node: Node, relaxed: Relaxed, kind: str, i: int) -> list[Node]:
        x, state = relaxed.x, node.state
        lo, hi = [node.lo.copy(), node.lo.copy()], [node.hi.copy(), node.hi.copy()]
        states = [state.copy(), state.copy()]
        if kind == "grid":
            low = float(np.floor(x[i] / self.limits.step[i]))
            below, above = self.limits.multiple(i, low), self.limits.multiple(i, low + 1)
            hi[0][i], lo[1][i] = max(min(below, hi[0][i]), lo[0][i]), min(max(above, lo[1][i]), hi[1][i])
        elif kind == "group":
            group = self.limits.groups[i]
            open_ = [int(d) for d in group if node.hi[d] >= 1]
            order = sorted(open_, key=lambda d: -x[d])
            hi[0][order[0]] = 0.0  # without the likeliest category, or with nothing else
            for d in order[1:]:
                hi[1][d] = 0.0
        else:
            states[0][i], states[1][i] = scalar.STAYS, scalar.COUNTS
            lo[0][self._members(i)] = hi[0][self._members(i)] = self.problem.source[self._members(i)]
            self._close(lo[1], hi[1], states[1])
        return [Node(lo[c], hi[c], states[c], relaxed.at) for c in (0, 1)]


def _dual(terms: Terms, at: Response) -> float:
    """D(q): E at t(q), less the gap."""
    rows = at.nu @ (terms.C @ at.t - terms.rest) if len(terms.C) else 0.0
    linear = float(0.5 * at.lam * at.t @ at.t + at.weight * terms.mu @ np.abs(at.t) + rows)
    return linear + at.loss - at.gap


def search(problem: LimitedProblem, budget: Budget, *, lam: float | None = None, prob: float | None = None) -> Result:
    """The best answer with whole numbers, categories and at most so many changes, and how far from the optimum it can be."""
    work = Branches(problem, lam, prob)
    tree = Tree(work.root(), budget, max(1, NODE_BYTES // (NODE_ARRAYS * problem.source.nbytes)), work.value)
    for known, node in tree.open():
        # 1. Its bound.
        relaxed = work.relax(node)
        if relaxed is None:
            continue
        bound = max(relaxed.bound, known)
        if tree.hopeless(bound):
            tree.close(bound)
            continue
        # 2. What its choices give.
        children, result = work.children(node, relaxed), None
        for x, moved in ((relaxed.choice, relaxed.moved), (relaxed.x, None)):
            result = None if x is None else work.candidate(x, moved, relaxed.at)
            tree.offer(result)
        if not children and not tree.hopeless(bound):
            children = work.around(node, relaxed)
        if not children and result is not None:  # all is fixed but intervals, and this is the best there is here
            tree.close(bound)
        # 3. Its children.
        for child in children:
            tree.push(bound, child)
    if tree.best is None:
        return _nothing(problem, prob, tree.done, tree.n_nodes, budget)
    return replace(tree.answer(tree.best), n_iter=work.n_iter)


def _nothing(problem: LimitedProblem, prob: float | None, done: bool, n_nodes: int, budget: Budget) -> Result:
    """No plan: none exists, or none was found in time."""
    if not done:
        return problem.nothing_found(n_nodes)
    if prob is None:
        raise InputError("the limits contradict each other: no point satisfies all of them")
    # The most probable point is the least E for a λ at which the cost, here the simplest, no longer counts.
    space = problem.space
    plain = CostSpace(replace(space.conditions, cost=Cost(space.per_unit), margin=None), space.search)
    far = np.maximum(np.abs(problem.lo - problem.source), np.abs(problem.hi - problem.source)) * space.per_unit
    most = 0.5 * float(far @ far)
    size = float(np.square(space.rows(problem.k)).sum(axis=1).max(initial=0.0))
    lam = max(EPS * size, 1e-12) if math.isinf(most) else NO_COST / max(most, 1e-300)
    plan = search(problem.but(space=plain), budget, lam=lam)
    best = 1.0 if math.isinf(most) else min(1.0, math.exp(-max(plan.bound - lam * most, 0.0)))
    found = problem.result(
        plan.x, lam, status=Status.UNREACHABLE, n_iter=plan.n_iter, n_nodes=n_nodes + plan.n_nodes, multipliers=plan.multipliers
    )
    return replace(found, ceiling=best, bound=found.cost)
