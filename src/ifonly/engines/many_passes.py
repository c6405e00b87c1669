"""Very many classes, from sources to answers: the ImageNet head, a language model's vocabulary.

The engine around `very_many`: rows in chunks that share their passes over A, targets that share a source and so its first pass,
the nearest class, and paths. Answers are made as they are found (there are no class-space coefficients), their K probabilities
are not kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.engines import nearest
from ifonly.engines.passes import Look, Seen, Task, take_a_pass
from ifonly.engines.protocol import Engine, Piece
from ifonly.engines.row_loops import read_starts
from ifonly.engines.strong_rivals import FIRST_SHARE
from ifonly.engines.threads import available
from ifonly.engines.very_many import NUMPY, WHOLE, solve_many, task_of
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
        """Fewer classes, and a GPU."""
        if not asked.model.only_passes:
            return "there are few enough classes for their Gram matrix"
        if asked.question.backend == "cuda":
            raise InputError('with very many classes backend must be "auto", "reference" or "cpu"; got \'cuda\'')
        return None

    def one(self, asked: Asked, sources: Sources, aim: Aim) -> Result:
        """The answer for one source."""
        return _alone(asked, sources, Aims.of(aim), proba=True)[0]

    def chunk_rows(self, asked: Asked) -> int | None:
        """Enough that one that is solved makes room for the next."""
        return max(1, CHUNKS * _at_once(asked) // asked.per_source)

    def solve(self, asked: Asked, rows: Piece) -> Results:
        """The answers for a piece of a table, in step."""
        aims, each = rows.aims, rows.each
        results = Results.empty(aims.targets, classes=0, x=rows.out)
        X = rows.sources.table()
        rows.out[...] = np.nan
        good = np.flatnonzero((norms(X) <= LARGEST)[each])
        total = None if rows.total is None else rows.total // asked.per_source
        found = _Passes(asked, X, aims.take(good), each[good].tolist(), total, rows.first + each[good]).solve()
        for n, result in zip(good.tolist(), found, strict=True):
            results.put(n, result)
        return results

    def follow(self, asked: Asked, sources: Sources, k: int, lams: list[float]) -> Results:
        """One answer per λ, side by side, so that they share the passes."""
        return Results.of(_alone(asked, sources, Aims(np.full(len(lams), k), np.array(lams), None)))


def _alone(asked: Asked, sources: Sources, aims: Aims, *, proba: bool = False) -> list[Result]:
    """The answers for aims at the one source there is."""
    X = sources.table()
    if not norms(X)[0] <= LARGEST:
        raise sources.reject(0)
    return _Passes(asked, X, aims, [0] * len(aims.targets), proba=proba).solve()


@dataclass
class _Passes:
    """One call: aims, each for one of the sources ``X`` (``of``: their places among all ``n_rows``), solved in step."""

    asked: Asked
    X: Floats
    aims: Aims
    each: Sequence[int]
    n_rows: int | None = 1
    of: Any = None
    proba: bool = False

    def __post_init__(self) -> None:
        self.model, self.V = self.asked.model, self.asked.model.to_classifier(self.X)
        self.threads, self.loops = available(self.asked.question.threads), NUMPY
        if takes_compiled(self.asked.question.backend):
            from ifonly.native.few_and_rest import COMPILED

            self.loops = COMPILED
        self.starts: Floats | None = None
        start = self.asked.question.start
        if start is not None and not isinstance(start, str):
            points = read_starts(self.asked, self.n_rows).table()
            if not np.isfinite(points).all():
                raise InputError("start must be finite")
            self.starts = self.model.to_classifier(points)
        shared = len(set(self.each)) < len(self.each) or bool((self.aims.targets == NEAREST).any())
        self.first = {n: self._first(self.V[n]) for n in set(self.each)} if shared else {}

    def solve(self) -> list[Result]:
        """The answers, in the user's units."""
        named = np.flatnonzero(self.aims.targets != NEAREST).tolist()
        answers = dict(zip(named, self._towards([(i, self.aims.one(i)) for i in named]), strict=True))
        return [answers[i] if i in answers else self._nearest(i) for i in range(len(self.each))]

    def _towards(self, which: Sequence[tuple[int, Aim]]) -> list[Result]:
        """The answers for some of the aims, each for a class."""
        tasks, known = [], {}
        for place, (i, aim) in enumerate(which):
            n, start = self.each[i], None
            if self.starts is not None and self.aims.targets[i] != NEAREST:  # the class was named
                start = self.starts[0 if len(self.starts) == 1 or self.of is None else self.of[i]]
            tasks.append(task_of(self.model, self.V[n], aim, self.asked.question.tol, start))
            seen = self.first[n].without(tasks[-1], aim.k) if n in self.first and start is None else None
            if seen is not None:
                known[place] = seen
        ends = solve_many(self.model, tasks, known, self.threads, self.loops, _at_once(self.asked))
        return [
            end.result(aim.k, self.X[self.each[i]] + self.model.to_user(end.change), proba=self.proba)
            for (i, aim), end in zip(which, ends, strict=True)
        ]

    def _first(self, x: Floats) -> Seen:
        """What a pass says of a source, whatever the target."""
        every = Task(x, np.zeros_like(x), 0.0, np.zeros(0, dtype=np.intp), None, None)
        return take_a_pass(self.model, [Look(x, every, FIRST_SHARE)], self.threads, self.loops.sum_up)[0]

    def _nearest(self, i: int) -> Result:
        """The nearest class."""
        aim, first = self.aims.one(i), self.first[self.each[i]]
        z = first.logits
        assert z is not None
        now = int(z.argmax())
        strong = np.unique([now, *first.strong[np.argsort(-z[first.strong], kind="stable")][: nearest.BOUNDING - 1]])
        rows = self.model.weights(strong)
        own = [np.sum(block**2, axis=1)[:, None] - 2 * block @ rows.T for _, block in self.model.blocks()]
        lengths = nearest.by_subtraction(np.concatenate(own) + np.sum(rows**2, axis=1), self.model.row_norm)
        classes = nearest.candidates(self.model, aim, now)
        bounds = nearest.bounds_by_few(z, strong, lengths, aim.lam, nearest.wanted(self.model, aim))[classes]
        return nearest.search(classes, bounds, lambda k: self._towards([(i, aim._replace(k=k))])[0], aim)


def _at_once(asked: Asked) -> int:
    model = asked.model
    per_row = 8 * model.n_features * ROWS_HELD + 4 * model.n_classes
    rows = int(np.clip(EXTRA_SHARE * model.A.nbytes / per_row, LEAST_ROWS, MOST_ROWS))
    return rows // WHOLE * WHOLE or rows
