"""`semismooth_newton` in compiled loops, from sources to certified answers: the rows of a table, or one source.

For limits on features one by one. Rows that a loop does not settle are left: those that only have to be moved into their
limits, that cannot reach the goal, that are wrong, or whose certificate is not as good as it should be.
"""

from typing import Any

import numpy as np

from ifonly.engines.budget import Budget
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.semismooth import MAX_ITER, MOST_RIVALS
from ifonly.engines.threads import available, share_out
from ifonly.model.numerics import Flags, Floats, Indices, norms
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
        found = _run(asked, X, rows, k, aims.take(rows), out)
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
    x, found = np.empty((1, len(source))), _room(1, space.model.n_classes)
    source = np.ascontiguousarray(source[None], dtype=np.float64)
    _loop(space, source, FIRST, aim.k, _wanted(space, aim), (tol, budget.max_iter), x, found)
    if not _sure(found, weighed, tol)[0]:
        return None
    proba, numbers, n_iter, _ = found
    measured = dict(zip(COLUMNS, numbers[0].tolist(), strict=True))
    bound = measured["objective" if weighed else "cost"] - measured["gap"]
    return Result(aim.k, _status(tol, weighed), proba=proba[0], x=x[0], n_iter=int(n_iter[0]), bound=bound, **measured)


def _fit(space: CostSpace, budget: Budget, weighed: bool) -> bool:
    """Whether the loop is for these conditions, and for what else was asked."""
    if space.loops is None or budget.left < BLINK or (budget.max_iter is not None and not weighed):
        return False
    return one_by_one(space)


def one_by_one(space: CostSpace) -> bool:
    """Whether there is nothing but a plain model, not of too many classes, and limits on features one by one."""
    A = space.model.A
    return space.only_intervals and space.margin is None and A.dtype == np.float64 and len(A) <= MOST_RIVALS + 1


def _status(tol: float | None, weighed: bool) -> Status:
    """Of a settled row: a tolerance is for λ."""
    return Status.EXACT if tol is None or not weighed else Status.CONVERGED


def _room(M: int, K: int) -> tuple[Any, ...]:
    """For what a loop finds out about rows, none of which is settled: probabilities, `COLUMNS`, iterations, how each ended."""
    return np.empty((M, K)), np.empty((M, len(COLUMNS))), np.empty(M, dtype=np.int64), np.zeros(M, dtype=np.int8)


def _sure(found: tuple[Any, ...], weighed: bool, tol: float | None) -> Flags:
    """The rows that are settled: to the certificate that EXACT stands for, or to a tolerance."""
    _, numbers, _, ended = found
    if _status(tol, weighed) is not Status.EXACT:
        return ended != LEFT
    value = np.maximum(np.abs(numbers[:, 2]), LEAST_VALUE) if weighed else numbers[:, 4]
    return (ended != LEFT) & (numbers[:, 5] <= REL_GAP * value)


def _wanted(space: CostSpace, aim: Aim | Aims) -> tuple[Floats, Floats]:
    """λ, or logits and probabilities, of one row or many; the other of the two is empty."""
    if aim.lam is not None:
        return np.array(aim.lam, ndmin=1), NO_GOALS
    return NO_LAM, np.array([space.needed(aim.prob), aim.prob]).reshape(2, -1)


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


def _run(asked: Asked, X: Floats, rows: Indices, k: int, aims: Aims, out: Floats) -> tuple[Any, ...]:
    """These rows, on several threads where that is worth it; answers into ``out``."""
    space, question = CostSpace.of(asked), asked.question
    found, index, (lam, goals) = _room(len(rows), space.model.n_classes), rows.astype(np.int64), _wanted(space, aims)

    def part(s: slice) -> None:
        wanted, effort = (lam[s], np.ascontiguousarray(goals[:, s])), (question.tol, question.max_iter)
        _loop(space, X, index[s], k, wanted, effort, out, tuple(a[s] for a in found))

    share_out(len(rows), available(question.threads), ROWS_PER_THREAD, part)
    return found


def _loop(space: CostSpace, X: Floats, index: Any, k: int, wanted: Any, effort: Any, out: Floats, found: Any) -> None:
    """The loop itself: these rows of X; ``effort`` is a tolerance, and how many iterations, where those are given."""
    shared = space.conditions.keep(("rows", k), lambda: _shared(space, k))
    loops: Any = space.loops
    tol, max_iter = effort
    loops.solve_limited(X, index, k, *shared, *wanted, tol or 0.0, max_iter or MAX_ITER, out, *found)
