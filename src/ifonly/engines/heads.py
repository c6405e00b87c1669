"""Very many classes, from sources to answers: the ImageNet head, a language model's vocabulary.

Everything around `solvers.many`: rows in chunks that share their passes over A, targets that share a source and so its first
pass, the nearest class, and paths. Answers are kept as they are (there are no class-space coefficients), their K probabilities
are not.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.answers.answer import Counterfactual, Counterfactuals, Path
from ifonly.engines.nearest import BOUNDING, bounds_by_few
from ifonly.engines.passes import Aim, Ask, Seen, SumUp, look, sum_up
from ifonly.engines.progress import Progress
from ifonly.engines.threads import available
from ifonly.engines.very_many import FIRST_SHARE, Found, VastProblem, solve_many
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import norms
from ifonly.native import Rows
from ifonly.problem.question import NEAREST, Wish, Wishes
from ifonly.rows.sources import LARGEST, Sources, check_out

__all__ = ["invert_vast", "path_vast"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Rows solved in step: each holds its logits and some hundred rows of A, all of them together this share of A's bytes at most.
EXTRA_SHARE, ROWS_HELD, MOST_ROWS, LEAST_ROWS = 0.25, 100, 256, 8
LOAD_SIZE = 20_000_000  # numbers in A from which loading the compiled pass (a second, once) pays: it takes half of NumPy's time
CHUNKS = 16  # times as many are read at once: one that is solved makes room for the next


def invert_vast(
    model: Model,
    x: Sources | Iterator[Any],
    wishes: Wishes,
    *,
    backend: str,
    tol: float | None,
    start: Any,
    threads: int | None,
    out: np.ndarray | None,
    progress: bool | None,
) -> Counterfactual | Counterfactuals:
    """`ifonly.invert` where there are very many classes."""
    sources = x if isinstance(x, Sources) else Sources.joined(model, [Sources.read(model, table) for table in x])
    N, per = len(sources), wishes.per_source
    wishes.check(N)
    if sources.single and not norms(sources.table())[0] <= LARGEST:
        raise sources.reject(0)
    starts = None if start is None or isinstance(start, str) else _starts(model, start, N)
    job = _Job(model, tol, available(threads), starts, _summing(model, backend))
    single = sources.single and per == 1 and out is None
    if single:
        wish = wishes.rows(0, 1)
        (k, found), *_ = job.solve(model.to_classifier(sources.table()), wish, [0])
        made = sources.dense(0) + model.to_user(found.change)
        prob = None if wish.prob is None else float(wish.prob[0])
        return Counterfactual.of(found.solution(), model, sources, k, prob=prob, made=made)
    wish = wishes.rows(0, N)
    check_out(out, N * per, model.n_features)
    made = np.full((N * per, model.n_features), np.nan) if out is None else out
    rows = Rows.empty(model, wish.targets, 0, 0)
    size = CHUNKS * job.at_once
    with Progress(N, progress) as bar:
        for a in range(0, N * per, size):
            places = np.arange(a, min(a + size, N * per))
            of = places // per
            X = sources.part(int(of[0]), int(of[-1]) + 1).table()
            each = of - of[0]
            finite = norms(X) <= LARGEST
            good = finite[each]
            for place, (k, found) in zip(
                places[good],
                job.solve(model.to_classifier(X), wish.take(places[good]), each[good].tolist(), of[good]),
                strict=True,
            ):
                made[place] = X[place // per - of[0]] + model.to_user(found.change)
                rows.target[place] = k
                rows.put(int(place), found.solution(proba=False))
            bar.advance(int(places[-1] + 1) // per - a // per)
    return Counterfactuals(model, sources, rows, wish.prob, per, made=made)


def path_vast(model: Model, sources: Sources, k: int, lams: Floats, *, backend: str, tol: float | None) -> Path:
    """`ifonly.path` where there are very many classes: all λ side by side, so that they share the passes."""
    x = sources.dense(0)
    if not norms(x[None])[0] <= LARGEST:
        raise sources.reject(0)
    job = _Job(model, tol, available(), None, _summing(model, backend))
    source = model.to_classifier(x[None])
    if k == NEAREST:
        (k, _), *_ = job.solve(source, Wish(np.array([NEAREST]), None, np.array([0.5])), [0])
    problem = VastProblem(model, source[0], k, tol=tol, threads=job.threads)
    rows = Rows.empty(model, np.full(len(lams), k), 0, 0)
    made = np.empty((len(lams), model.n_features))
    for i, (_, found) in enumerate(job.solve(source, Wish(np.full(len(lams), k), lams, None), [0] * len(lams))):
        made[i] = x + model.to_user(found.change)
        rows.put(i, found.solution(proba=False))
    return Path(model, sources, rows, None, problem, made=made)


class _Job:
    """One call: rows that are solved in step."""

    def __init__(self, model: Model, tol: float | None, threads: int, starts: Floats | None, sum_up: SumUp) -> None:
        self.model, self.tol, self.threads, self.starts, self.sum_up = model, tol, threads, starts, sum_up
        per_row = 8 * (model.n_features * ROWS_HELD + 2 * model.n_classes)
        self.at_once = int(np.clip(EXTRA_SHARE * model.A.nbytes / per_row, LEAST_ROWS, MOST_ROWS))

    def solve(self, X: Floats, wish: Wish, each: Sequence[int], of: Any = None) -> list[tuple[int, Found]]:
        """The answers for wishes, each for one of the sources ``X`` (``of``: their places among all)."""
        shared = len(set(each)) < len(each) or bool((wish.targets == NEAREST).any())
        first = {n: self._first(X[n]) for n in set(each)} if shared else {}
        answers: list[tuple[int, Found] | None] = [None] * len(each)
        for i in np.flatnonzero(wish.targets == NEAREST).tolist():
            answers[i] = self._nearest(X[each[i]], wish.take([i]), first[each[i]])
        named = np.flatnonzero(wish.targets != NEAREST).tolist()
        aims, known = [], {}
        for place, i in enumerate(named):
            x, k = X[each[i]], int(wish.targets[i])
            at = None if self.starts is None else self.starts[0 if len(self.starts) == 1 or of is None else of[i]]
            aim = self._aim(x, k, wish, i, at)
            aims.append(aim)
            if each[i] in first and at is None:
                seen = first[each[i]].without(k, aim.row, aim.bias, x)
                if seen is not None:
                    known[place] = seen
        solved = solve_many(self.model, aims, known, self.threads, self.sum_up, self.at_once)
        for i, found in zip(named, solved, strict=True):
            answers[i] = int(wish.targets[i]), found
        return [answer for answer in answers if answer is not None]

    def _aim(self, x: Floats, k: int, wish: Wish, i: int, start: Floats | None = None) -> Aim:
        lam, prob = (None if v is None else float(v[i]) for v in (wish.lam, wish.prob))
        return VastProblem(self.model, x, k, tol=self.tol).aim(lam, prob, start)

    def _first(self, x: Floats) -> Seen:
        """What a pass says of a source, whatever the target."""
        every = Aim(x, np.zeros_like(x), 0.0, np.zeros(0, dtype=np.intp), None, None)
        return look(self.model, [Ask(x, every, FIRST_SHARE)], self.threads, self.sum_up)[0]

    def _nearest(self, x: Floats, wish: Wish, first: Seen) -> tuple[int, Found]:
        """The nearest class, as in `solvers.nearest`: tried in the order of bounds from a few strong rivals, each alone."""
        bounds = self._bounds(x, wish, first)
        best: tuple[float, int, Found] | None = None
        for k in np.argsort(bounds, kind="stable").tolist():
            if best is not None and bounds[k] >= best[0]:
                break
            aim = self._aim(x, k, wish, 0)
            seen = first.without(k, aim.row, aim.bias, x)
            found = solve_many(self.model, [aim], {} if seen is None else {0: seen}, self.threads, self.sum_up)[0]
            value = found.objective if wish.lam is not None else float(np.linalg.norm(found.change))
            value = value if found.status.ok else math.inf
            if best is None or value < best[0]:
                best = value, k, found
        assert best is not None
        return best[1], best[2]

    def _bounds(self, x: Floats, wish: Wish, first: Seen) -> Floats:
        """Lower bounds on the distance or on E for every class; infinite for those that will not do."""
        model, z = self.model, first.logits
        assert z is not None
        now = int(z.argmax())
        strong = np.unique([now, *first.strong[np.argsort(-z[first.strong], kind="stable")][: BOUNDING - 1]])
        rows = model.weights(strong)
        own = [np.sum(block**2, axis=1)[:, None] - 2 * block @ rows.T for _, block in model.blocks()]
        squares = np.concatenate(own) + np.sum(rows**2, axis=1)
        lam, prob = (None if v is None else float(v[0]) for v in (wish.lam, wish.prob))
        bounds = bounds_by_few(model, z, strong, squares, lam=lam, prob=prob)
        if wish.among is None:
            bounds[now] = math.inf
            return bounds
        inside = np.full(len(bounds), math.inf)
        inside[wish.among] = bounds[wish.among]
        return inside


def _starts(model: Model, start: Any, N: int) -> Floats:
    points = Sources.read(model, start).table()
    if len(points) not in (1, N):
        raise InputError(f"start must be one point or {N}, one per row; got {len(points)}")
    if not np.isfinite(points).all():
        raise InputError("start must be finite")
    return model.to_classifier(points)


def _summing(model: Model, backend: str) -> SumUp:
    """How to sum up over the classes: compiled where that is asked for, loaded already, or worth loading."""
    if backend not in ("auto", "reference", "cpu"):
        raise InputError(f'with very many classes backend must be "auto", "reference" or "cpu"; got {backend!r}')
    loaded = "ifonly.native.lanes" in sys.modules or "ifonly.native.sums" in sys.modules
    if backend == "cpu" or (backend == "auto" and (loaded or model.A.size >= LOAD_SIZE)):
        try:
            from ifonly.native.sums import sum_up_compiled
        except ImportError as error:
            if backend == "cpu":
                raise ImportError('backend="cpu" needs Numba: pip install "ifonly[fast]"') from error
        else:
            return sum_up_compiled
    return sum_up
