"""`semismooth_newton` in compiled loops, from sources to certified answers: the rows of a table, or one source.

For limits on features one by one. Rows that a loop does not settle are left: those that only have to be moved into their
limits, that cannot reach the goal, that are wrong, or whose certificate is not as good as it should be.
"""

from typing import Any

import numpy as np

from ifonly.engines.budget import MAX_ITER, Budget
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.semismooth import MOST_RIVALS
from ifonly.engines.threads import available, share_out
from ifonly.model.numerics import Flags, Floats, norms
from ifonly.problem.asked import Aim, Aims, Asked
from ifonly.problem.results import Result, Results
from ifonly.problem.status import LEAST_VALUE, REL_GAP, Status

__all__ = ["one", "one_by_one", "solve"]


ROWS_PER_THREAD = 64  # fewer than these are solved sooner than they are handed over
LEFT = 0  # how a row ended that is; 1: it is done, 2: the source is the answer
COLUMNS = ("lam", "distance", "objective", "grad_norm", "cost", "gap")
FIRST, NO_LAM, NO_GOALS = np.zeros(1, dtype=np.int64), np.zeros(0), np.zeros((0, 0))
BLINK = 0.01  # seconds: who has less time than this is answered by what looks at the clock


def solve(asked: Asked, X: Floats, aims: Aims, results: Results) -> Flags:
    """Fill in the rows that compiled loops settle; which are left."""
    left = np.ones(len(X), dtype=bool)
    space, budget, tol, weighed = CostSpace.of(asked), Budget.of(asked.question), asked.question.tol, aims.lam is not None
    X, out = np.ascontiguousarray(X), results.x
    plain = isinstance(out, np.ndarray) and out.dtype == np.float64 and out.flags.c_contiguous
    if not (plain and _fit(space, budget, weighed)):
        return left
    for k in np.unique(aims.targets[aims.targets >= 0]).tolist():
        rows = np.flatnonzero(aims.targets == k)
        effort, threads = (tol or 0.0, budget.max_iter), available(asked.question.threads)
        found = _run(space, X, rows.astype(np.int64), k, aims.take(rows), effort, out, threads)
        done = _sure(found, weighed, tol)
        out[rows[~done]] = np.nan
        rows = rows[done]
        results.proba[rows], numbers, results.n_iter[rows], _ = (a[done] for a in found)
        for name, values in zip(COLUMNS, numbers.T, strict=True):
            getattr(results, name)[rows] = values
        results.bound[rows] = (results.objective if weighed else results.cost)[rows] - results.gap[rows]
        results.target[rows], results.status[rows], left[rows] = k, _status(tol, weighed), False
    return left


def one(space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result | None:
    """The answer for one source and the class ``aim.k``; None where it is left."""
    weighed = aim.lam is not None
    if not _fit(space, budget, weighed):
        return None
    x, source = np.empty((1, len(source))), np.ascontiguousarray(source[None], dtype=np.float64)
    found = _run(space, source, FIRST, aim.k, aim, (tol or 0.0, budget.max_iter), x)
    if not _sure(found, weighed, tol)[0]:
        return None
    proba, numbers, n_iter, _ = found
    measured = dict(zip(COLUMNS, numbers[0].tolist(), strict=True))
    bound = measured["objective" if weighed else "cost"] - measured["gap"]
    return Result(aim.k, _status(tol, weighed), proba=proba[0], x=x[0], n_iter=int(n_iter[0]), bound=bound, **measured)


def _fit(space: CostSpace, budget: Budget, weighed: bool) -> bool:
    """Whether the loop is for these conditions, and for what else was asked."""
    in_time = budget.left >= BLINK and (budget.max_iter == MAX_ITER or weighed)
    return space.loops is not None and in_time and one_by_one(space)


def one_by_one(space: CostSpace) -> bool:
    """Whether there is nothing but a plain model, not of too many classes, and limits on features one by one."""
    A = space.model.A
    return space.only_intervals and space.margin is None and A.dtype == np.float64 and len(A) <= MOST_RIVALS + 1


def _status(tol: float | None, weighed: bool) -> Status:
    """Of a settled row: a tolerance is for λ."""
    return Status.EXACT if tol is None or not weighed else Status.CONVERGED


def _sure(found: tuple[Any, ...], weighed: bool, tol: float | None) -> Flags:
    """The rows that are settled: to the certificate that EXACT stands for, or to a tolerance."""
    _, numbers, _, ended = found
    if _status(tol, weighed) is not Status.EXACT:
        return ended != LEFT
    value = np.maximum(np.abs(numbers[:, 2]), LEAST_VALUE) if weighed else numbers[:, 4]
    return (ended != LEFT) & (numbers[:, 5] <= REL_GAP * value)


def _shared(space: CostSpace, k: int) -> tuple[Any, ...]:
    """What rows with one target share, as the loop takes it.

    A, b, the scaler and the sizes of logits' terms; B, (μ, c, lo, hi), ways, (‖b‖², lengths of terms), constants.
    """
    model, limits, c = space.model, space.limits, space.per_unit
    scaling = np.zeros((0, len(c))) if model.scaling is None else np.array([space.shift, space.scale])
    rows = np.ascontiguousarray(space.rows(k))
    terms = (np.abs(model.A[model.rivals(k)]) + np.abs(model.A[k])) / np.abs(space.scale) / c
    of_rivals = np.array([np.square(rows[:, space.moving]).sum(axis=1), norms(terms)])
    each = np.array([space.mu, c, limits.lo, limits.hi])
    seen = np.ascontiguousarray(model.A), np.ascontiguousarray(model.b), scaling, np.ascontiguousarray(model.column_sizes)
    return *seen, rows, each, limits.ways, of_rivals, space.errors


def _run(
    space: CostSpace, X: Floats, index: Any, k: int, aim: Aim | Aims, effort: Any, out: Floats, threads: int = 1
) -> tuple[Any, ...]:
    """These rows of X through the loop; answers into ``out``, and of each row its probabilities, `COLUMNS`, iterations, end.

    ``effort`` is a tolerance, and how many iterations.
    """
    shared = space.conditions.keep(("rows", k), lambda: _shared(space, k))
    M, K = len(index), space.model.n_classes
    found = np.empty((M, K)), np.empty((M, len(COLUMNS))), np.empty(M, dtype=np.int64), np.zeros(M, dtype=np.int8)
    lam, goals = NO_LAM, NO_GOALS  # one of the two stays empty
    if aim.lam is None:
        goals = np.array([space.needed(aim.prob), aim.prob]).reshape(2, -1)
    else:
        lam = np.array(aim.lam, ndmin=1)

    if M == 1:  # of which slices take a fifth of the time
        space.loops.solve_limited(X, index, k, *shared, lam, goals, *effort, out, *found)
        return found

    def part(s: slice) -> None:
        wanted = lam[s], np.ascontiguousarray(goals[:, s])
        space.loops.solve_limited(X, index[s], k, *shared, *wanted, *effort, out, *(a[s] for a in found))

    share_out(M, threads, ROWS_PER_THREAD, part)
    return found
