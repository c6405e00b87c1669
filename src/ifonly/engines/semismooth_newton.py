"""Limits, any number of classes, nothing discrete: semismooth Newton in class space (`semismooth`), and its certificate.

Where limits are on features one by one a compiled loop goes from sources to certified answers, of a table or of one source. It
leaves those that only have to be moved into their limits, that cannot reach the goal, that are wrong, or whose certificate is
not as good as it should be. What is not solved here, because the goal is out of reach or the limits contradict each other,
`cases` does: one case, with a proof.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ifonly.engines import responses, semismooth
from ifonly.engines.budget import EIGENVECTORS, MAX_ITER, Budget
from ifonly.engines.cases import Cases, impossible, proved
from ifonly.engines.constraints import first_multipliers
from ifonly.engines.cost_problem import CostProblem
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.limited import SPARES, LimitedEngine, stays, within_rules
from ifonly.engines.protocol import Piece
from ifonly.engines.row_loops import device_module
from ifonly.engines.semismooth import Start
from ifonly.engines.threads import available, share_out
from ifonly.model.errors import InputError
from ifonly.model.numerics import Flags, Floats, norms
from ifonly.native.limited import unfit
from ifonly.problem.asked import Aim, Aims, Asked
from ifonly.problem.goals import Weights
from ifonly.problem.results import Result, Results
from ifonly.problem.status import LEAST_VALUE, REL_GAP, Status
from ifonly.rows.sources import Sources

__all__ = ["SemismoothNewton", "sure"]

SETTLED = 1e-6  # relative: a gap that rounding leaves where costs have a matrix of condition 1e6 and more
NEEDLESS = 1e-9  # of a rule's multiplier: with one that is less, the goal asks for nothing that rules do not
ROWS_PER_THREAD = 64  # fewer than these are solved sooner than they are handed over
LEFT = 0  # how a row ended that is; 1: it is done, 2: the source is the answer
COLUMNS = ("lam", "distance", "objective", "grad_norm", "cost", "gap")
FIRST, NO_LAM, NO_GOALS = np.zeros(1, dtype=np.int64), np.zeros(0), np.zeros((0, 0))
BLINK = 0.01  # seconds: who has less time than this is answered by what looks at the clock


class SemismoothNewton(LimitedEngine):
    """Bounds, directions, frozen features, ℓ1, scales, a matrix and linear rules, for any number of classes.

    Where there are limits on features one by one, compiled loops do most rows, or a GPU (`native.device_limited`).
    """

    def refuses(self, asked: Asked) -> str | None:
        """See `LimitedEngine`; what a GPU has no room for is the user's to know."""
        if asked.question.backend != "cuda":
            return super().refuses(asked)
        reason = unfit(CostSpace.of(asked))
        if reason is not None:
            raise InputError(f'backend="cuda" with limits is for {reason}; leave it out')
        return None

    def one(self, asked: Asked, sources: Sources, aim: Aim) -> Result:
        """The answer for one source; on a GPU it is a table of one row."""
        if asked.question.backend != "cuda":
            return super().one(asked, sources, aim)
        out = np.empty((1, asked.model.n_features))
        found = self.solve(asked, Piece(sources, Aims.of(aim), out=out)).with_x(out)[0]
        if found.status is Status.INVALID:
            return self.one(asked.at(backend="auto"), sources, aim)  # says what is wrong
        return found

    def chunk_rows(self, asked: Asked) -> int | None:
        """A GPU cuts tables itself."""
        return None if asked.question.backend == "cuda" else super().chunk_rows(asked)

    def towards(self, space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """The answer for one source and class."""
        return _one(space, source, aim, budget, tol) or super().towards(space, source, aim, budget, tol)

    def solve(self, asked: Asked, rows: Piece) -> Results:
        """The answers for a piece of a table, on a GPU or in a compiled loop as far as those go."""
        if asked.question.backend != "cuda":
            return super().solve(asked, rows)
        device_module()  # or what is missing
        from ifonly.native import device_limited

        return device_limited.solve(asked, rows, self)

    def loop(self, asked: Asked, X: Floats, aims: Aims, results: Results) -> Flags:
        """See `LimitedEngine`."""
        space, budget, tol, weighed = CostSpace.of(asked), Budget.of(asked.question), asked.question.tol, aims.lam is not None
        X, out, left = np.ascontiguousarray(X), results.x, np.ones(len(X), dtype=bool)
        plain = isinstance(out, np.ndarray) and out.dtype == np.float64 and out.flags.c_contiguous
        if not (plain and _fit(space, budget, weighed)):
            return left
        effort, threads = (tol or 0.0, budget.max_iter), available(asked.question.threads)
        for k in np.unique(aims.targets[aims.targets >= 0]).tolist():
            rows = np.flatnonzero(aims.targets == k)
            found = _run(space, X, rows.astype(np.int64), k, aims.take(rows), effort, out, threads)
            done, status = _settled(found, weighed, tol)
            out[rows[~done]] = np.nan
            rows = rows[done]
            results.proba[rows], numbers, results.n_iter[rows], _ = (a[done] for a in found)
            for name, values in zip(COLUMNS, numbers.T, strict=True):
                getattr(results, name)[rows] = values
            results.bound[rows] = (results.objective if weighed else results.cost)[rows] - results.gap[rows]
            results.target[rows], results.status[rows], left[rows] = k, status, False
        return left

    def unfit(self, space: CostSpace, weighed: bool) -> str | None:
        """What takes a search."""
        return "whole numbers, categories or few changes take a search" if space.conditions.discrete else None

    def answer(self, problem: CostProblem, aim: Aim, budget: Budget, tol: float | None) -> Result:
        """See `LimitedEngine`."""
        in_time = problem.space.invertible(budget)
        return stays(problem, aim) or sure(problem, aim, _nearest(problem, aim, tol, budget) if in_time else None, budget)


def sure(problem: CostProblem, aim: Aim, found: Result | None, budget: Budget) -> Result:
    """An answer that is as exact as it says, or else what `cases` finds."""
    if found is not None:
        size = problem.textbook.relative_to(aim.value(found), weighed=aim.lam is not None)
        if found.status is not Status.EXACT or found.gap <= REL_GAP * size:
            return found
        found = proved(problem, aim, found, budget)
        if found.status is not Status.STOPPED or budget.late:
            return found
    other = Cases().answer(problem, aim, replace(budget, max_iter=MAX_ITER), None)  # that a user gave is for what was tried
    if found is None:
        return other
    best = other if np.isfinite(other.x).all() and aim.value(other) < aim.value(found) else found
    size = problem.textbook.relative_to(aim.value(best), weighed=aim.lam is not None)
    settled = best.status is Status.STOPPED and best.gap <= SETTLED * size and not budget.late
    return replace(best, status=Status.CONVERGED) if settled else best


def _nearest(problem: CostProblem, aim: Aim, tol: float | None, budget: Budget) -> Result | None:
    """The least E or cost within the rules; None where nothing was found that keeps them, or meets the goal."""
    x, start = problem.source, _start(problem, aim, budget)
    if start is None and impossible(problem, aim, budget):
        return None
    for spare in SPARES:  # the allowance for rounding grows with x, and may be too small for our own
        harder = problem.but(ahead=(1 + spare) * problem.rounding(x))
        kept = within_rules(harder, budget, lambda part: _solved(part, aim, tol, budget, start))
        if kept is None:
            return None
        x, found = kept
        if problem.space.margin is None or problem.reached(x, None):
            return found
        if budget.late:
            break
    return None


def _solved(
    problem: CostProblem, aim: Aim, tol: float | None, budget: Budget, start: Start | None
) -> tuple[Floats, Result] | None:
    """The best point, up to the rounding of rules and of a margin, with its certificate; None where none has the wanted p."""
    terms = problem.terms(budget)

    def certified(x: Floats, weights: Weights, nu: Floats, *goal: float, **more: Any) -> tuple[Floats, Result]:
        sharp = budget.allows(len(x) ** 3, EIGENVECTORS)  # which only a matrix takes
        return x, problem.certified(x, weights, nu, *goal, sharp=sharp, **more)

    if aim.prob is None:
        at, n_iter, done = semismooth.solve(terms, aim.lam or 1.0, start=start, tol=tol or 0.0)
        x = problem.placed(at.t, at.nu, at.weight)
        if aim.lam is None:
            return certified(x, Weights.of_cost(), at.nu, n_iter=n_iter)
        status = Status.MAX_ITER if not done else Status.EXACT if tol is None else Status.CONVERGED
        return certified(x, Weights.given(aim.lam), at.nu, n_iter=n_iter, status=status)
    if start is None:
        t, nu = responses.nearest(terms)
        x = problem.placed(t, nu, 1.0)
        if problem.reached(x, aim.prob):  # the limits ask for more than the goal does
            return certified(x, Weights.of_cost(), nu)
    at, n_iter, met = semismooth.reach(terms, problem.goal_of(aim.prob), start)
    x = problem.placed(at.t, at.nu, at.weight)
    return certified(x, Weights.found(at.lam), at.nu, aim.prob, n_iter=n_iter) if met else None


def _start(problem: CostProblem, aim: Aim, budget: Budget) -> Start | None:
    """Where Newton is to begin within rules, or with a margin: a compiled search is all but there in its first node."""
    found = first_multipliers(problem, aim, budget) if problem.n_rules and budget.max_iter == MAX_ITER else None
    if found is None:
        return None
    y, nu = found
    if aim.lam is not None:
        return Start.of(y, nu, aim.lam)
    if aim.prob is None:
        return Start(np.zeros(1), np.append(nu, y), 1.0)
    total = float(y.sum())  # they are those of logit(1 − p_k), and of the cost: λ times as much is p
    if total <= NEEDLESS * float(np.abs(nu).max(initial=0.0)):
        return None
    lam = (1 - aim.prob) / total
    return Start.of(lam * y, lam * nu, lam)


# ---- in compiled loops ----


def _one(space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result | None:
    """The answer for one source and the class ``aim.k``; None where it is left."""
    weighed = aim.lam is not None
    if not _fit(space, budget, weighed):
        return None
    x, source = np.empty((1, len(source))), np.ascontiguousarray(source[None], dtype=np.float64)
    found = _run(space, source, FIRST, aim.k, aim, (tol or 0.0, budget.max_iter), x)
    done, status = _settled(found, weighed, tol)
    if not done[0]:
        return None
    proba, numbers, n_iter, _ = found
    measured = dict(zip(COLUMNS, numbers[0].tolist(), strict=True))
    bound = measured["objective" if weighed else "cost"] - measured["gap"]
    return Result(aim.k, status, proba=proba[0], x=x[0], n_iter=int(n_iter[0]), bound=bound, **measured)


def _fit(space: CostSpace, budget: Budget, weighed: bool) -> bool:
    """Whether the loop is for these conditions, and for what else was asked."""
    return space.looped and budget.left >= BLINK and (budget.max_iter == MAX_ITER or weighed)


def _settled(found: tuple[Any, ...], weighed: bool, tol: float | None) -> tuple[Flags, Status]:
    """The rows that are settled, and how well: to the certificate that EXACT stands for, or with λ to a tolerance."""
    _, numbers, _, ended = found
    if weighed and tol is not None:
        return ended != LEFT, Status.CONVERGED
    value = np.maximum(np.abs(numbers[:, 2]), LEAST_VALUE) if weighed else numbers[:, 4]
    return (ended != LEFT) & (numbers[:, 5] <= REL_GAP * value), Status.EXACT


def _shared(space: CostSpace, k: int) -> tuple[Any, ...]:
    """What rows with one target share, as the loop takes it."""
    model, limits, c = space.model, space.limits, space.per_unit
    rows = np.ascontiguousarray(space.rows(k))
    terms = (np.abs(model.A[model.rivals(k)]) + np.abs(model.A[k])) / np.abs(space.scale) / c  # of a logit, for its rounding
    scaling = np.zeros((0, len(c))) if model.scaling is None else np.array([space.shift, space.scale])
    seen = (np.ascontiguousarray(a) for a in (model.A, model.b, scaling, model.column_sizes))
    of_rivals = np.array([np.square(rows[:, space.moving]).sum(axis=1), norms(terms)])
    return *seen, rows, np.array([space.mu, c, limits.lo, limits.hi]), limits.ways, of_rivals, space.errors


def _run(
    space: CostSpace, X: Floats, index: Any, k: int, aim: Aim | Aims, effort: Any, out: Floats, threads: int = 1
) -> tuple[Any, ...]:
    """These rows of X through the loop; answers into ``out``, and of each row its probabilities, `COLUMNS`, iterations, end.

    ``effort`` is a tolerance, and how many iterations.
    """
    shared = space.conditions.keep(("rows", k), lambda: _shared(space, k))
    M, K = len(index), space.model.n_classes
    found = np.empty((M, K)), np.empty((M, len(COLUMNS))), np.empty(M, dtype=np.int64), np.zeros(M, dtype=np.int8)
    if aim.lam is None:
        lam, goals = NO_LAM, np.array([space.needed(aim.prob), aim.prob]).reshape(2, -1)
    else:
        lam, goals = np.array(aim.lam, ndmin=1), NO_GOALS

    if M == 1:  # of which slices take a fifth of the time
        space.loops.solve_limited(X, index, k, *shared, lam, goals, *effort, out, *found)
        return found

    def part(s: slice) -> None:
        wanted = lam[s], np.ascontiguousarray(goals[:, s])
        space.loops.solve_limited(X, index[s], k, *shared, *wanted, *effort, out, *(a[s] for a in found))

    share_out(M, threads, ROWS_PER_THREAD, part)
    return found
