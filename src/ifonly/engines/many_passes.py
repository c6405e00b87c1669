"""Very many classes, from sources to answers: the ImageNet head, a language model's vocabulary.

The engine around `very_many`: rows in chunks that share their passes over A, targets that share a source and so its first pass,
the nearest class, and paths. Answers are made as they are found (there are no class-space coefficients), their K probabilities
are not kept.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ifonly.engines import nearest
from ifonly.engines.passes import Look, Seen, SumUp, Task, sum_up, take_a_pass
from ifonly.engines.protocol import Engine, Rows
from ifonly.engines.row_loops import read_starts
from ifonly.engines.strong_rivals import FIRST_SHARE
from ifonly.engines.threads import available
from ifonly.engines.very_many import WHOLE, solve_many, task_of
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats, norms
from ifonly.native import takes_compiled
from ifonly.problem.asked import NEAREST, Aim, Aims, Asked
from ifonly.problem.results import Result, Results
from ifonly.rows.sources import LARGEST, Sources

__all__ = ["ManyPasses"]


# Rows solved in step: each holds its logits and some hundred rows of A, all of them together this share of A's bytes.
EXTRA_SHARE, ROWS_HELD, MOST_ROWS, LEAST_ROWS = 0.4, 100, 256, 8
CHUNKS = 16  # times as many are read at once: one that is solved makes room for the next


class ManyPasses(Engine):
    """Free problems with so many classes that nothing is left but passes over A."""

    makes_x = True
    shares_one = True

    def refuses(self, asked: Asked) -> str | None:
        """Limits, fewer classes, and a GPU."""
        if asked.conditions is not None:
            return "there are limits"
        if not asked.model.only_passes:
            return "there are few enough classes for their Gram matrix"
        if asked.question.backend == "cuda":
            raise InputError('with very many classes backend must be "auto", "reference" or "cpu"; got \'cuda\'')
        return None

    def one(self, asked: Asked, sources: Sources, aim: Aim) -> Result:
        """The answer for one source."""
        X = sources.table()
        if not norms(X)[0] <= LARGEST:
            raise sources.reject(0)
        return _Passes(asked, 1).solve(X, Aims.of(aim), [0], proba=True)[0]

    def chunk_rows(self, asked: Asked, n_rows: int | None) -> int | None:
        """Enough that one that is solved makes room for the next."""
        return max(1, CHUNKS * _at_once(asked) // asked.per_source)

    def solve(self, asked: Asked, rows: Rows) -> Results:
        """The answers for a piece of a table, in step."""
        aims, each = rows.aims, rows.each
        results = Results.empty(aims.targets, classes=0, x=rows.out)
        X = rows.sources.table()
        rows.out[...] = np.nan
        good = np.flatnonzero((norms(X) <= LARGEST)[each])
        total = None if rows.total is None else rows.total // asked.per_source
        found = _Passes(asked, total).solve(X, aims.take(good), each[good].tolist(), rows.first + each[good])
        for n, result in zip(good.tolist(), found, strict=True):
            results.put(n, result)
        return results

    def follow(self, asked: Asked, sources: Sources, k: int, lams: list[float]) -> Results:
        """One answer per λ, side by side, so that they share the passes."""
        X = sources.table()
        if not norms(X)[0] <= LARGEST:
            raise sources.reject(0)
        aims = Aims(np.full(len(lams), k), np.array(lams), None)
        return Results.of(_Passes(asked, 1).solve(X, aims, [0] * len(lams)))


class _Passes:
    """One call: rows that are solved in step."""

    def __init__(self, asked: Asked, n_rows: int | None) -> None:
        self.asked, self.model, self.tol = asked, asked.model, asked.question.tol
        self.threads, self.sum_up = available(asked.question.threads), _summing(asked)
        self.starts = _starts(asked, n_rows)

    def solve(self, X: Floats, aims: Aims, each: Sequence[int], of: Any = None, *, proba: bool = False) -> list[Result]:
        """The answers for aims, each for one of the sources ``X`` (``of``: their places among all), in the user's units."""
        V = self.model.to_classifier(X)
        shared = len(set(each)) < len(each) or bool((aims.targets == NEAREST).any())
        first = {n: self._first(V[n]) for n in set(each)} if shared else {}
        answers: dict[int, Result] = {}
        for i in np.flatnonzero(aims.targets == NEAREST).tolist():
            answers[i] = self._nearest(X[each[i]], V[each[i]], aims.one(i), first[each[i]], proba)
        named = np.flatnonzero(aims.targets != NEAREST).tolist()
        tasks, known = [], {}
        for place, i in enumerate(named):
            x, aim = V[each[i]], aims.one(i)
            at = None if self.starts is None else self.starts[0 if len(self.starts) == 1 or of is None else of[i]]
            task = self._task(x, aim, at)
            tasks.append(task)
            if each[i] in first and at is None:
                seen = first[each[i]].without(aim.k, task.row, task.bias, x)
                if seen is not None:
                    known[place] = seen
        ends = solve_many(self.model, tasks, known, self.threads, self.sum_up, _at_once(self.asked))
        for i, end in zip(named, ends, strict=True):
            made = X[each[i]] + self.model.to_user(end.change)
            answers[i] = end.result(int(aims.targets[i]), made, proba=proba)
        return [answers[i] for i in range(len(each))]

    def _task(self, x: Floats, aim: Aim, start: Floats | None = None) -> Task:
        return task_of(self.model, x, aim.k, aim.lam, aim.prob, self.tol, start)

    def _first(self, x: Floats) -> Seen:
        """What a pass says of a source, whatever the target."""
        every = Task(x, np.zeros_like(x), 0.0, np.zeros(0, dtype=np.intp), None, None)
        return take_a_pass(self.model, [Look(x, every, FIRST_SHARE)], self.threads, self.sum_up)[0]

    def _nearest(self, source: Floats, x: Floats, aim: Aim, first: Seen, proba: bool) -> Result:
        """The nearest class."""

        def solve(k: int) -> Result:
            task = self._task(x, aim._replace(k=k))
            seen = first.without(k, task.row, task.bias, x)
            end = solve_many(self.model, [task], {} if seen is None else {0: seen}, self.threads, self.sum_up)[0]
            return end.result(k, source + self.model.to_user(end.change), proba=proba)

        z = first.logits
        assert z is not None
        now = int(z.argmax())
        strong = np.unique([now, *first.strong[np.argsort(-z[first.strong], kind="stable")][: nearest.BOUNDING - 1]])
        rows = self.model.weights(strong)
        own = [np.sum(block**2, axis=1)[:, None] - 2 * block @ rows.T for _, block in self.model.blocks()]
        squares = np.concatenate(own) + np.sum(rows**2, axis=1)
        classes = nearest.candidates(self.model, aim, now)
        bounds = nearest.bounds_by_few(self.model, z, strong, squares, aim)[classes]
        return nearest.search(classes, bounds, solve, aim)


def _at_once(asked: Asked) -> int:
    model = asked.model
    per_row = 8 * model.n_features * ROWS_HELD + 4 * model.n_classes
    rows = int(np.clip(EXTRA_SHARE * model.A.nbytes / per_row, LEAST_ROWS, MOST_ROWS))
    return rows // WHOLE * WHOLE or rows


def _starts(asked: Asked, n_rows: int | None) -> Floats | None:
    start = asked.question.start
    if start is None or isinstance(start, str):
        return None
    points = read_starts(asked, n_rows).table()
    if not np.isfinite(points).all():
        raise InputError("start must be finite")
    return asked.model.to_classifier(points)


def _summing(asked: Asked) -> SumUp:
    """How to sum up over the classes."""
    if not takes_compiled(asked.question.backend):
        return sum_up
    from ifonly.native.sums import sum_up_compiled

    return sum_up_compiled
