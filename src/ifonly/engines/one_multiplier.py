"""Two classes, limits on features one by one: one constraint, one multiplier, and branching on top of it.

A wanted probability is one linear inequality for two classes, and so is a margin. Where there is nothing but intervals a
compiled loop goes from a source to its certified answer (`native.intervals`), for one source too. Else the items of all rows of
a table are worked out here, searched by a loop, and certified here. What a loop does not settle is searched one by one.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.cases import Cases
from ifonly.engines.cost_problem import CostProblem
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.limited import SPARES, LimitedEngine, stays
from ifonly.engines.searched import Record, dual_of, run
from ifonly.engines.semismooth_newton import sure
from ifonly.engines.threads import available
from ifonly.model.numerics import EPS, Flags, Floats, Indices
from ifonly.native import intervals
from ifonly.native.one_multiplier import CompiledSearch, reach
from ifonly.problem.asked import NEAREST, Aim, Aims, Asked
from ifonly.problem.goals import Weights
from ifonly.problem.proof import Leaf, Multipliers, Proof
from ifonly.problem.question import Question
from ifonly.problem.results import Result, Results
from ifonly.problem.status import REL_GAP, Status

__all__ = ["OneMultiplier"]

QUICK_ROWS = 16_384  # at once, where each takes a microsecond or so
FEW_NODES = 1024  # a few milliseconds


class OneMultiplier(LimitedEngine):
    """Two classes, a probability or a margin, limits on features one by one; whole numbers, categories and few changes too."""

    row_by_row = False

    def unfit(self, space: CostSpace, weighed: bool) -> str | None:
        """What has more than one constraint, or none."""
        if space.loops is None:
            return "there are no compiled loops"
        if space.model.n_classes != 2:
            return "there are more than two classes"
        if weighed:
            return "λ weighs the classifier, which is then no constraint"
        if space.limits.uneven:
            return "numbers are at uneven distances"
        return None if space.conditions.separable else "a matrix or linear rules tie features together"

    def row(self, space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """The answer for one source, from a compiled loop if that settles it."""
        return _one(space, source, aim) or super().row(space, source, aim, budget, tol)

    def chunk_rows(self, asked: Asked) -> int | None:
        """See `LimitedEngine`."""
        return QUICK_ROWS if CostSpace.of(asked).only_intervals else super().chunk_rows(asked)

    def answer(self, problem: CostProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`. There is one constraint: the rival's margin at most ``top``."""
        found = stays(problem, aim)
        if found is not None:
            return found
        space, source = problem.space, problem.source[None]
        items, lo, hi = problem.items(-space.rows(problem.k)[0])
        x, margin, top, unreachable = problem.source, float(problem.margins[0]), problem.asked(aim.prob), False
        for spare in SPARES:  # the allowance for rounding grows with x, and may be too small for our own
            need = margin - top + (1 + spare) * problem.rounding(x)
            search = CompiledSearch(items, lo, hi, need, space.cap(items), 2 * budget.nodes + 1)
            ended = run(search, budget, len(items.g))
            if math.isinf(search.cost):
                unreachable = ended
                break
            x = space.placed(source, search.t[None], search.choice[None], items.first, problem.lo[None], problem.hi[None])[0]
            if problem.reached(x, aim.prob):
                if not space.conditions.branched:
                    return sure(problem, aim, _certified(problem, x, search.w, aim.prob), budget)
                dual, log = dual_of(problem, aim), search.log
                # −1 stands for a bound of 0, which takes none.
                multipliers = np.where(np.isinf(log[:, :1]), 1.0, np.maximum(log[:, :1], 0.0))
                record = Record(dual, items, log, multipliers, need - (float(dual.margins[0]) - dual.goal.most))
                proof = record.proof(budget)
                if proof is None:
                    break
                lam = _lam(problem, x, search.w, aim.prob)
                answer = problem.result(x, lam, weight=lam if search.w > 0 else 1.0, n_nodes=len(proof), proof=proof)
                return record.bounded(answer, budget, done=ended)
        return (_out_of_reach(problem, aim) if unreachable else None) or Cases().answer(problem, aim, budget, None)

    def loop(self, asked: Asked, X: Floats, aims: Aims, results: Results) -> Flags:
        """See `LimitedEngine`."""
        left, space = np.ones(len(X), dtype=bool), CostSpace.of(asked)
        targets = aims.targets.copy() if aims.among is None else np.full_like(aims.targets, aims.among[0])  # a set of one
        if space.only_intervals:
            return _intervals(asked, X, targets, aims.prob, results)
        with np.errstate(invalid="ignore", over="ignore"):
            z = space.model.scores(X)
            good = np.isfinite(z).all(axis=1) & np.isfinite(X).all(axis=1)
        near = (targets == NEAREST) & good
        targets[near] = 1 - z[near].argmax(axis=1)
        for k in (0, 1):
            here = np.flatnonzero(good & (targets == k))
            if len(here):
                prob = None if aims.prob is None else aims.prob[here]
                left[here] = ~_Searched(space, X[here], k, here, prob, asked.question, results).solve()
        return left


def _certified(problem: CostProblem, x: Floats, w: float, prob: float | None) -> Result:
    """The answer x where nothing is discrete; w is the multiplier."""
    if w == 0:  # the limits ask for more than the goal does
        return replace(problem.certified(x, Weights.of_cost(), np.zeros(0)), lam=math.inf)
    if prob is None:  # a margin is a rule like any other, and w its multiplier
        return problem.certified(x, Weights.of_cost(), np.array([w]))
    return problem.certified(x, Weights.found(_lam(problem, x, w, prob)), np.zeros(0), prob)


def _lam(problem: CostProblem, x: Floats, w: float, prob: float | None) -> float:
    """λ of an answer with this multiplier: λ∇cost = (1 − p_k)·g there."""
    if prob is None:
        return 1.0
    return float(problem.textbook.proba(x)[0][problem.rivals].sum()) / w if w > 0 else math.inf


def _out_of_reach(problem: CostProblem, aim: Aim) -> Result | None:
    """Every feature as far as it goes: the largest gain, which is not enough, as one multiplier shows; None if it does not."""
    dual, given = dual_of(problem, aim), Multipliers(np.ones(1), np.zeros(0))
    found = dual.bound(dual.choices.root, given, reach=True)
    if not found.value > 0:
        return None
    x = problem.space.settled(problem.source[None], found.x[None])[0]
    if problem.seems_reached(x, aim.prob):
        return None
    ceiling = min(dual.goal.ceiling(float(found.value)), 1.0 if aim.prob is None else math.nextafter(aim.prob, 0.0))
    proof = Proof((Leaf(0, reach=True),), (given,))
    n_nodes = len(proof) if problem.space.conditions.branched else 0
    result = problem.result(x, math.inf, status=Status.UNREACHABLE, ceiling=ceiling, proof=proof, n_nodes=n_nodes)
    return replace(result, bound=result.cost)


# ---- in compiled loops ----


def _one(space: CostSpace, source: Floats, aim: Aim) -> Result | None:
    """The exact answer for one source, where there is nothing but intervals; None where the loop does not settle it."""
    if not space.only_intervals:
        return None
    k = aim.k if aim.among is None else aim.among[0]
    goal = np.array([space.needed(aim.prob)]), np.array([aim.prob or 0.0])
    x, ended, numbers = intervals.reach(_box(space), source[None], np.array([k]), *goal)
    found = dict(zip(intervals.COLUMNS, numbers[0].tolist(), strict=True))
    if ended[0] != intervals.REACHED or not found["gap"] <= REL_GAP * found["cost"]:
        return None
    k, p, rival, w = int(found.pop("target")), found.pop("p_target"), found.pop("p_rival"), found.pop("w")
    del found["best"]
    multipliers = None if space.margin is None else np.array([w])
    return Result(k, Status.EXACT, proba=np.array([rival, p] if k else [p, rival]), x=x[0], multipliers=multipliers, **found)


def _box(space: CostSpace) -> intervals.Box:
    """What the loop for intervals takes."""
    return space.conditions.keep("box", lambda: intervals.Box.of(space))


def _intervals(asked: Asked, X: Floats, targets: Indices, prob: Floats | None, results: Results) -> Flags:
    """All rows in the loop for intervals; which are left."""
    space = CostSpace.of(asked)
    logits = np.broadcast_to(space.needed(prob), len(X))
    probs, threads = logits if prob is None else prob, available(asked.question.threads)
    x, ended, numbers = intervals.reach(_box(space), X, targets, logits, probs, threads)
    done = np.flatnonzero((ended == intervals.REACHED) | (ended == intervals.UNREACHABLE))
    found, out = dict(zip(intervals.COLUMNS, numbers[done].T, strict=True)), ended[done] == intervals.UNREACHABLE
    k = found["target"].astype(np.intp)
    results.x[done], results.target[done] = x[done], k
    results.proba[done, k], results.proba[done, 1 - k] = found["p_target"], found["p_rival"]
    found["lam"][out] = np.inf  # rows that nothing brings to the goal claim nothing but that
    if space.margin is None:
        found["objective"][out] = -np.log(found["p_target"][out])
        results.ceiling[done] = np.where(out, found["best"], 1.0)
    else:
        _put_multipliers(results, done[~out], found["w"][~out])
    for name in ("lam", "distance", "objective", "grad_norm", "cost", "bound", "gap"):
        getattr(results, name)[done] = found[name]
    results.status[done] = np.where(out, Status.UNREACHABLE, Status.EXACT)
    left = ended == intervals.LEFT
    left[done] = ~out & ~(found["gap"] <= REL_GAP * found["cost"])
    return left


def _put_multipliers(results: Results, index: Indices, w: Floats) -> None:
    """The margin's multiplier of each row."""
    assert results.multipliers is not None
    for n, value in zip(index.tolist(), w.tolist(), strict=True):
        results.multipliers[n] = np.array([value])


class _Searched(NamedTuple):
    """Rows with one target that go through the search loop."""

    space: CostSpace
    X: Floats
    k: int
    place: Indices  # of these rows in the results
    prob: Floats | None
    question: Question
    results: Results

    def solve(self) -> Flags:
        """Which rows are done. Left are those that only have to be moved into their limits, or cannot reach the goal."""
        space, X, budget, threads = self.space, self.X, Budget.of(self.question), available(self.question.threads)
        lo, hi, wrong = space.around(X)
        done = np.zeros(len(X), dtype=bool)
        done[list(wrong)] = True  # INVALID
        margins, logit = self._margins(X), np.broadcast_to(space.needed(self.prob), len(X))
        more = 0.0 * logit if self.prob is None else np.log((1 - self.prob) / self.prob) - logit  # is needed than was asked for
        short = margins > logit - space.rounding(X, np.abs(margins), self.prob)
        stay = np.flatnonzero(~done & ~short & ~space.limits.must_move(X, lo, hi).any(axis=1))
        self._put(stay, X[stay], margins[stay])
        done[stay] = True
        todo = np.flatnonzero(~done & short)
        items, t_lo, t_hi = space.items(X, lo, hi, -space.rows(self.k)[0])
        cap, timed = space.cap(items), not math.isinf(budget.seconds)
        # What takes long is left to where one looks at the clock.
        most = min(budget.nodes, FEW_NODES) if timed else budget.nodes
        x = X.copy()
        for spare in SPARES:
            if not len(todo):
                break
            prob = None if self.prob is None else self.prob[todo]
            rounding = space.rounding(x[todo], np.abs(margins[todo]), prob)
            harder = (2 + spare) * rounding + more[todo]  # than it is if the margins are off, too
            need, box = (margins[todo] - logit[todo] + (1 + spare) * rounding, harder), (t_lo[todo], t_hi[todo])
            t, choice, numbers = reach(need, items.of(todo), box, cap, budget.gap, most, threads)
            x[todo] = space.placed(X[todo], t, choice, items.first, lo[todo], hi[todo])
            there = self._margins(x[todo]) <= logit[todo] - space.rounding(x[todo], np.abs(margins[todo]), prob)
            cost, w, _, _, ended = numbers.T
            sure = np.isfinite(cost) & (w > 0) & np.isfinite(w) & ((ended > 0) | (most == budget.nodes))
            filled = todo[there & sure]
            done[filled] = self._fill(filled, x[filled], numbers[there & sure], (lo[filled], hi[filled]), budget.gap)
            todo = todo[~there & sure]
        return done

    def _margins(self, x: Floats) -> Floats:
        """Those of the rival."""
        z = self.space.model.scores(x)
        return z[:, 1 - self.k] - z[:, self.k]

    def _put(self, rows: Indices, x: Floats, s: Floats, lam: Floats | None = None) -> Floats:
        """Answers, and what they are worth; their cost. Without λ they are sources that stay, and nothing is cheaper."""
        space, results, place, k = self.space, self.results, self.place[rows], self.k
        t, loss = (x - self.X[rows]) * space.per_unit, np.logaddexp(0.0, s)
        square = np.vecdot(t, t)
        cost = 0.5 * square + np.abs(t) @ space.mu
        results.x[place], results.target[place] = x, k
        results.proba[place, k], results.proba[place, 1 - k] = np.exp(-loss), np.exp(-np.logaddexp(0.0, -s))
        results.objective[place] = cost if space.margin is not None else loss if lam is None else lam * cost + loss
        results.lam[place] = np.inf if lam is None else lam
        results.distance[place], results.cost[place] = np.sqrt(square), cost
        results.status[place], results.grad_norm[place], results.bound[place], results.gap[place] = Status.EXACT, 0.0, 0.0, 0.0
        return cost

    def _fill(self, rows: Indices, x: Floats, numbers: Floats, limits: tuple[Floats, Floats], allowed: float) -> Flags:
        """What the loop found, with its certificate (`_certified` for many); which rows are as exact as they should be."""
        space, results, place = self.space, self.results, self.place[rows]
        _, w, nodes, bound, _ = numbers.T
        s = self._margins(x)
        # λ∇cost = (1 − p_k)·g at the answer; with a margin it is a rule like any other, with w for its multiplier
        lam = np.exp(-np.logaddexp(0.0, -s)) / w if space.margin is None else np.ones(len(x))
        cost = self._put(rows, x, s, lam)
        if space.conditions.discrete:
            bound = np.minimum(bound, cost)
            gap = cost - bound
            met = np.where(gap <= allowed * cost, Status.CONVERGED, Status.STOPPED)
            results.n_nodes[place], results.status[place] = nodes, np.where(gap <= REL_GAP * cost, Status.EXACT, met)
        else:
            results.grad_norm[place], gap = self._certificate(rows, x, s, w, lam, limits)
            gap = np.minimum(gap, cost)
            bound = cost - gap
            if space.margin is not None:
                _put_multipliers(results, place, w)
        results.bound[place], results.gap[place] = bound, gap
        return gap <= max(allowed, REL_GAP) * cost

    def _certificate(
        self, rows: Indices, x: Floats, s: Floats, w: Floats, lam: Floats, limits: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Bounds on the least subgradient of E, and on the cost above the least (`CostProblem.certified` for many)."""
        space, X, (lo, hi) = self.space, self.X[rows], limits
        c, row = space.per_unit, space.rows(self.k)[0]
        others, loss = np.exp(-np.logaddexp(0.0, -s)), np.logaddexp(0.0, s)
        t = (x - X) * c
        base = lam[:, None] * t + (others if space.margin is None else w)[:, None] * row
        soft = lam[:, None] * space.mu
        a = np.where(x <= lo, -np.inf, np.where(t == 0.0, base - soft, base + soft * np.sign(t)))
        b = np.where(x >= hi, np.inf, np.where(t == 0.0, base + soft, base + soft * np.sign(t)))
        xi = np.where(a > 0, a, np.where(b < 0, b, 0.0))
        unsure = space.rounding(x, np.abs(space.model.scores(X)).max(axis=1))
        pull = others * np.linalg.norm(row) if space.margin is None else np.zeros(len(x))
        rounding = pull * (2 * unsure + 10 * EPS)
        rounding += 4 * EPS * lam * (np.linalg.norm(t, axis=1) + np.linalg.norm(c * np.abs(X), axis=1))
        norm = np.sqrt(np.vecdot(xi, xi)) + rounding
        if self.prob is None:
            excess = w * (np.maximum(-s - (space.margin or 0.0), 0.0) + unsure)
        else:
            prob = self.prob[rows]
            excess = np.maximum(-loss - np.log(prob), 0.0) + others * unsure + 4 * EPS * (loss - np.log(prob))
        return norm, (norm**2 / (2 * lam) + excess) / lam
