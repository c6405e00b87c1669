"""From a question and the rows that a user brings to one table of results: chunks, streams, ``out=``, progress, paths."""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines import choose
from ifonly.engines.protocol import Engine, Piece
from ifonly.engines.row_loops import read_rows
from ifonly.model.errors import InputError
from ifonly.model.extras import missing
from ifonly.model.numerics import Floats, Indices
from ifonly.problem.asked import ALL, NEAREST, Aim, Asked
from ifonly.problem.question import FLIP
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources, check_out
from ifonly.rows.tables import stacked

__all__ = ["Answered", "follow", "one", "run"]

PATIENCE = 2.0  # seconds before a progress bar is worth its place on the screen


class Answered(NamedTuple):
    """What a call found: one result, or a table of them; for which sources, and what was asked of these.

    ``prob`` is the probability that was asked for (of each answer, if many); ``of`` is which source each is for, where
    that is not its own. Of several plans, ``complete`` says whether these are all, and ``cheapest`` whether no others are
    cheaper.
    """

    asked: Asked
    sources: Sources
    found: Any
    prob: Any = None
    of: Indices | None = None
    complete: bool | None = None
    cheapest: bool | None = None


def run(asked: Asked, x: Any, *, out: Any = None, progress: bool | None = None) -> Answered:
    """Answer a question for one source, a table of them, or a stream of tables; into ``out`` if that is given."""
    if out is not None and asked.question.n is not None:
        raise InputError("out is for one answer per row; with n leave it out")
    if hasattr(x, "__next__"):
        x = _gathered(asked, x)
    asked, x = _read(asked, x)
    engine = choose(asked)
    if hasattr(x, "__next__"):
        return _streamed(engine, asked, x, out, progress)
    sources = _sources(engine, asked, x)
    if asked.question.n is not None:  # several answers for one source
        from ifonly.engines.plans import several

        (found, complete, cheapest), aim = several(asked, sources), asked.aim()
        prob = None if aim.prob is None else np.full(len(found), aim.prob)
        return Answered(asked, sources, found, prob, np.zeros(len(found), dtype=np.intp), complete, cheapest)
    one = sources.single and asked.per_source == 1
    if one and out is None:
        aim = asked.aim()
        return Answered(asked, sources, engine.one(asked, sources, aim), aim.prob)
    results = _table(engine, asked, sources, out, progress)
    if sources.single and results.status[0] == Status.INVALID and (one or asked.conditions is None):
        raise sources.reject(0)
    prob = asked.aims(0, len(sources), single=sources.single).prob
    if one:
        return Answered(asked, sources, results[0], None if prob is None else float(prob[0]))
    return Answered(asked, sources, results, prob, _of(asked, len(results)))


def one(asked: Asked, sources: Sources, aim: Aim) -> Result:
    """Answer another question of the same kind for one source: another λ, probability or class."""
    asked = asked.at(lam=aim.lam, prob=aim.prob)
    return choose(asked).one(asked, sources, aim)


def follow(asked: Asked, x: Any, lams: Floats) -> Answered:
    """One answer per λ, for one source and one class (by default the one that is nearest at a probability of one half)."""
    asked, x = _read(asked, x)
    sources = x if isinstance(x, Sources) else Sources.read(asked.model, x)
    if not sources.single:
        raise InputError(f"path takes one source; got a table of {len(sources)} rows")
    aim = asked.aim()
    if aim.k == ALL:
        raise InputError('path is towards one class; got target "all"')
    k = one(asked, sources, aim._replace(lam=None, prob=FLIP)).target if aim.k == NEAREST else aim.k
    weighed = asked.at(lam=float(lams[0]), prob=None)
    return Answered(weighed, sources, choose(weighed).follow(weighed, sources, k, lams.tolist()))


def _read(asked: Asked, x: Any) -> tuple[Asked, Any]:
    """The same question where columns of the user's table are yes or no by their type, and that table, read."""
    if asked.model.encoding.identity or isinstance(x, Sources) or hasattr(x, "__next__"):
        return asked, x
    sources = Sources.read(asked.model, x)
    asked = asked.with_flags(sources.flags)
    return asked, sources if asked.model is sources.model else replace(sources, model=asked.model)


def _sources(engine: Engine, asked: Asked, x: Any) -> Sources:
    """One source or a table of them, as the engine takes it; what is for several is refused for one."""
    sources = x if isinstance(x, Sources) else read_rows(asked, x)
    if sources.single and asked.per_source == 1 and (asked.question.threads or 1) > 1 and not engine.shares_one:
        raise InputError("threads share the rows of a table, and this is one source; leave threads out")
    return sources


def _gathered(asked: Asked, x: Iterator[Any]) -> Any:
    """A stream as a table, where its answers are kept anyway; else as it is."""
    if asked.conditions is None and not asked.model.only_passes:
        return x
    tables = list(x)
    joined = None if asked.model.encoding.identity else stacked(tables)
    return Sources.joined(asked.model, [Sources.read(asked.model, table) for table in tables]) if joined is None else joined


def _table(engine: Engine, asked: Asked, sources: Sources, out: Any, progress: bool | None) -> Results:
    """The answers for a table, chunk by chunk."""
    N, K, D = len(sources), asked.per_source, asked.model.n_features
    asked.check(N, single=sources.single)
    out = sources.room(out, N * K)
    check_out(out, N * K, D)
    if engine.makes_x and out is None:
        out = np.empty((N * K, D))
    whole: Results | None = None
    done = 0
    for found in _watched(_chunks(engine, asked, sources, out, total=N), K, N, progress):
        if len(found) == N * K:
            whole = found
        else:
            if whole is None:  # room for all rows, with the columns of these
                coef, limited = None if found.coef is None else found.coef.shape[1], found.cost is not None
                targets, classes = np.zeros(N * K, dtype=np.intp), found.proba.shape[1]
                whole = Results.empty(targets, classes=classes, coef=coef, limited=limited)
            whole.copy(slice(done, done + len(found)), found)
        done += len(found)
    assert whole is not None
    return whole if out is None else whole.with_x(out)


def _chunks(
    engine: Engine, asked: Asked, sources: Sources, out: Any, done: int = 0, total: int | None = None
) -> Iterator[Results]:
    """The answers for a table, chunk by chunk; in a stream (of no known ``total``) so many rows were ``done`` before it."""
    N, K, size = len(sources), asked.per_source, engine.chunk_rows(asked)
    for a in range(0, max(N, 1), size or max(N, 1)):
        b = N if size is None else min(a + size, N)
        piece = sources if b - a == N else sources.part(a, b)
        first, last = done + a, done + b
        aims = asked.aims(first, last, single=total is not None and sources.single)
        if total is None:
            check_out(out, last * K, asked.model.n_features, least=True)
        into = None if out is None else out[first * K : last * K]
        yield engine.solve(asked, Piece(piece, aims, first, None if total is None else total * K, into))


def _streamed(engine: Engine, asked: Asked, x: Iterator[Any], out: Any, progress: bool | None) -> Answered:
    """The answers for tables as they come; these are kept, unless the answers go into ``out``."""
    kept: list[Sources] = []
    done = 0

    def each() -> Iterator[Results]:
        nonlocal done
        for table in x:
            sources = read_rows(asked, table)
            if out is None:
                kept.append(sources)
            yield from _chunks(engine, asked, sources, out, done)
            done += len(sources)

    parts = list(_watched(each(), asked.per_source, None, progress))
    asked.check(done)
    kept_sources = Sources.joined(asked.model, kept) if out is None else Sources.forgotten(asked.model)
    nothing = Results.empty(np.zeros(0, dtype=np.intp), classes=asked.model.n_classes, coef=asked.model.basis.shape[0])
    results = Results.join(parts) if parts else nothing
    found = results if out is None else results.with_x(out[: len(results)])
    return Answered(asked, kept_sources, found, asked.aims(0, done).prob, _of(asked, len(found)))


def _of(asked: Asked, n_answers: int) -> Indices | None:
    """Which source each answer is for, where there are several for each."""
    return None if asked.per_source == 1 else np.arange(n_answers) // asked.per_source


# ---- progress ----


def _watched(parts: Iterable[Results], per_row: int, total: int | None, show: bool | None) -> Iterator[Results]:
    """The same, in a tqdm bar that counts rows once they have taken two seconds, in a terminal or notebook.

    ``show=True`` forces a bar, ``show=False`` forbids it, None leaves it to the above (and does without where tqdm is missing).
    """
    bar, done, began = _bar(total, 0) if show else None, 0, time.monotonic()
    wanted = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
    try:
        for found in parts:
            yield found
            rows = len(found) // per_row
            done += rows
            if bar is not None:
                bar.update(rows)
            elif wanted and time.monotonic() - began > PATIENCE:
                try:
                    bar = _bar(total, done)
                except ImportError:
                    wanted = False  # nobody asked for a bar by name
    finally:
        if bar is not None:
            bar.close()


def _bar(total: int | None, done: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise missing("progress=True needs tqdm", "frames") from error
    return tqdm(total=total, initial=done, unit=" rows", unit_scale=True)
