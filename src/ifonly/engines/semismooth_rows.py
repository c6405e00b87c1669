"""`semismooth_newton` in compiled loops, from sources to certified answers: the rows of a table, or one source.

For limits on features one by one. Rows that a loop does not settle are left: those that only have to be moved into their
limits, that cannot reach the goal, that are wrong, or whose certificate is not as good as it should be.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.budget import Budget
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.semismooth import MAX_ITER, MOST_RIVALS
from ifonly.engines.threads import available, share_out
from ifonly.model.numerics import Flags, Floats, Indices, norms, summation_error
from ifonly.problem.asked import Aim, Aims, Asked
from ifonly.problem.goals import needed_logit
from ifonly.problem.results import Result, Results
from ifonly.problem.status import LEAST_VALUE, REL_GAP, Status

__all__ = ["one", "one_by_one", "solve"]


ROWS_PER_THREAD = 64  # fewer than these are solved sooner than they are handed over
LEFT, DONE = 0, 1  # how a row ended; 2: the source is the answer
COLUMNS = ("lam", "distance", "objective", "grad_norm", "cost", "gap")
FIRST, NO_LAM, NO_GOALS = np.zeros(1, dtype=np.int64), np.zeros(0), np.zeros((0, 0))
BLINK = 0.01  # seconds: who has less time than this is answered by what looks at the clock


def solve(asked: Asked, X: Floats, aims: Aims, results: Results) -> Flags:
    """Fill in the rows that compiled loops settle; which are left."""
    left = np.ones(len(X), dtype=bool)
    space, budget, tol, weighed = CostSpace.of(asked), Budget.of(asked.question), asked.question.tol, aims.lam is not None
    if not _fit(space, budget, weighed):
        return left
    X, out = np.ascontiguousarray(X), results.x
    if not (isinstance(out, np.ndarray) and out.dtype == np.float64 and out.flags.c_contiguous):
        return left
    for k in np.unique(aims.targets[aims.targets >= 0]).tolist():
        rows = np.flatnonzero(aims.targets == k)
        effort = _Effort(tol, budget.max_iter, available(asked.question.threads))
        found = _Loop.of(space, k).run(X, rows, aims, effort, out)
        done = found.sure(weighed, tol)
        out[rows[~done]] = np.nan
        _fill(results, rows[done], found.take(done), k, weighed=weighed)
        results.status[rows[done]] = _status(tol, weighed)
        left[rows[done]] = False
    return left


def one(space: CostSpace, source: Floats, aim: Aim, budget: Budget, tol: float | None) -> Result | None:
    """The answer for one source and the class ``aim.k``; None where it is left."""
    weighed = aim.lam is not None
    if not _fit(space, budget, weighed):
        return None
    x, found = np.empty((1, len(source))), _Found.room(1, space.model.n_classes)
    source = np.ascontiguousarray(source[None], dtype=np.float64)
    if aim.lam is not None:
        wanted = np.array([aim.lam]), NO_GOALS
    else:
        wanted = NO_LAM, np.array([[needed_logit(aim.prob, space.model)], [aim.prob]])
    _Loop.of(space, aim.k).call(source, FIRST, *wanted, _Effort(tol, budget.max_iter, 1), x, found)
    if not found.sure(weighed, tol)[0]:
        return None
    lam, distance, objective, grad_norm, cost, gap = found.numbers[0].tolist()
    status, bound = _status(tol, weighed), (objective if weighed else cost) - gap
    more: dict[str, Any] = {"x": x[0], "n_iter": int(found.n_iter[0]), "cost": cost, "bound": bound, "gap": gap}
    return Result(aim.k, status, lam, distance, objective, grad_norm, found.proba[0], **more)


def _fit(space: CostSpace, budget: Budget, weighed: bool) -> bool:
    """Whether the loop is for these conditions, and for what else was asked."""
    if space.loops is None or budget.left < BLINK or (budget.max_iter is not None and not weighed):
        return False
    return one_by_one(space)


def one_by_one(space: CostSpace) -> bool:
    """Whether there is nothing but a plain model, not of too many classes, and limits on features one by one."""

    def found() -> bool:
        model = space.model
        mapped = any(column.maps or column.missing is not None for column in model.encoding.columns)
        tied = not space.conditions.separable or space.margin is not None or space.limits.groups or space.conditions.discrete
        return not (mapped or tied) and model.A.dtype == np.float64 and len(model.A) <= MOST_RIVALS + 1

    return space.conditions.keep("one by one", found)


def _status(tol: float | None, weighed: bool) -> Status:
    """Of a settled row: a tolerance is for λ."""
    return Status.EXACT if tol is None or not weighed else Status.CONVERGED


class _Effort(NamedTuple):
    """How far to go, and on how many threads."""

    tol: float | None
    max_iter: int | None
    threads: int


class _Found(NamedTuple):
    """What a loop found out about rows."""

    ended: NDArray[np.int8]
    numbers: Floats  # (M, 6) `COLUMNS`
    proba: Floats  # (M, K)
    n_iter: NDArray[np.int64]

    @classmethod
    def room(cls, M: int, K: int) -> "_Found":
        """For so many rows, none of which is settled."""
        return cls(np.zeros(M, dtype=np.int8), np.empty((M, 6)), np.empty((M, K)), np.empty(M, dtype=np.int64))

    def take(self, which: Any) -> "_Found":
        """That of some of them; of a slice, room in the same arrays."""
        return _Found(self.ended[which], self.numbers[which], self.proba[which], self.n_iter[which])

    def sure(self, weighed: bool, tol: float | None) -> Flags:
        """The rows that are settled: to the certificate that EXACT stands for, or to a tolerance."""
        if _status(tol, weighed) is not Status.EXACT:
            return self.ended != LEFT
        value = np.maximum(np.abs(self.numbers[:, 2]), LEAST_VALUE) if weighed else self.numbers[:, 4]
        return (self.ended != LEFT) & (self.numbers[:, 5] <= REL_GAP * value)


class _Loop(NamedTuple):
    """What rows with one target share, as the loop takes it."""

    loops: Any
    k: int
    model: tuple[Any, ...]  # A, b, the scaler and the sizes of logits' terms
    limits: tuple[Any, ...]  # B, (μ, c, lo, hi), ways, (‖b‖², lengths of terms), constants
    classifier: Any  # the model, for what it takes to reach a probability

    @classmethod
    def of_space(cls, space: CostSpace, k: int) -> "_Loop":
        model, limits, c = space.model, space.limits, space.per_unit
        K, D = model.A.shape
        scaling = np.zeros((0, D)) if model.scaling is None else np.array([model.scaling.shift, model.scaling.scale])
        scale = 1.0 if model.scaling is None else np.abs(model.scaling.scale)
        rivals, rows = model.rivals(k), np.ascontiguousarray(space.rows(k))
        terms = (np.abs(model.A[rivals]) + np.abs(model.A[k])) / scale / c
        moving = ~limits.frozen & (limits.lo < limits.hi)
        of_rivals = np.array([np.square(rows[:, moving]).sum(axis=1), norms(terms)])
        errors = summation_error(D + 2), summation_error(K + 6), float(np.abs(model.b).max()), float(np.linalg.norm(space.mu))
        constants = np.array([space.per_term, space.per_size, space.offset, *errors, space.logs])
        each = np.array([space.mu, c, limits.lo, limits.hi])
        seen = np.ascontiguousarray(model.A), np.ascontiguousarray(model.b), scaling, np.ascontiguousarray(model.column_sizes)
        return cls(space.loops, k, seen, (rows, each, limits.ways, of_rivals, constants), model)

    @classmethod
    def of(cls, space: CostSpace, k: int) -> "_Loop":
        """That of a space and a class, worked out once."""
        return space.conditions.keep(("rows", k), lambda: cls.of_space(space, k))

    def run(self, X: Floats, rows: Indices, aims: Aims, effort: _Effort, out: Floats) -> _Found:
        """These rows, on several threads where that is worth it; answers into ``out``."""
        found = _Found.room(len(rows), self.classifier.n_classes)
        index, lam, goals = rows.astype(np.int64), NO_LAM, NO_GOALS
        if aims.lam is not None:
            lam = np.ascontiguousarray(aims.lam[rows])
        else:
            assert aims.prob is not None
            goals = np.array([needed_logit(aims.prob[rows], self.classifier), aims.prob[rows]])

        def part(s: slice) -> None:
            self.call(X, index[s], lam[s], np.ascontiguousarray(goals[:, s]), effort, out, found.take(s))

        share_out(len(rows), effort.threads, ROWS_PER_THREAD, part)
        return found

    def call(self, X: Floats, index: Any, lam: Floats, goals: Floats, effort: _Effort, out: Floats, found: _Found) -> None:
        """The loop itself: these rows of X to these λ or goals, of which one is empty."""
        told = found.proba, found.numbers, found.n_iter, found.ended
        options = effort.tol or 0.0, effort.max_iter or MAX_ITER
        self.loops.solve_limited(X, index, self.k, *self.model, *self.limits, lam, goals, *options, out, *told)


def _fill(results: Results, rows: Indices, found: _Found, k: int, *, weighed: bool) -> None:
    """Settled rows into the table."""
    for name, values in zip(COLUMNS, found.numbers.T, strict=True):
        getattr(results, name)[rows] = values
    value = results.objective[rows] if weighed else results.cost[rows]
    results.bound[rows] = value - results.gap[rows]
    results.proba[rows], results.n_iter[rows], results.target[rows] = found.proba, found.n_iter, k
