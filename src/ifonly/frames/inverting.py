"""`invert_batches`: a stream of rows in, a stream of answers out."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from threading import Event
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ifonly.answers import Counterfactuals
from ifonly.api import invert
from ifonly.engines.threads import available
from ifonly.frames.arrow import dataset, pa
from ifonly.frames.features import Features, needed
from ifonly.model import Model
from ifonly.model.columns import Column
from ifonly.model.errors import InputError
from ifonly.model.readers import as_model
from ifonly.problem.actions import Actions
from ifonly.problem.cost import Cost
from ifonly.problem.status import Status

__all__ = ["Inverter", "chunks", "in_order", "invert_batches", "threads_of"]

Flags = NDArray[np.bool_]
Given = TypeVar("Given")
Made = TypeVar("Made")

# A chunk is solved at once: its rows fill the kernel's lanes, its numbers this much memory (and a few times that on the way).
CHUNK_BYTES = 16 * 2**20
CHUNK_ROWS = (256, 16384)
SLOW_ROWS = 1024  # where rows are solved one by one, milliseconds each: one can see it go on, and stop it

MEASURES = ("probability", "distance", "cost", "gap")
STATUS_NAMES = pa.array([Status(code).name for code in range(len(Status))])


def invert_batches(
    model: Any,
    batches: Any,
    target: Any = None,
    *,
    keys: Sequence[str] | None = None,
    columns: Literal["changed", "all"] = "changed",
    prefix: str = "new_",
    chunk_rows: int | None = None,
    lam: float | None = None,
    prob: float | None = None,
    margin: float | None = None,
    cost: Cost | None = None,
    actions: Actions | None = None,
    max_changes: int | None = None,
    **options: Any,
) -> Any:
    """Answers for a stream of rows, in order, a chunk at a time: memory stays bounded however many rows there are.

    Parameters
    ----------
    model : Model or fitted estimator
        Features are found by name among the columns (by place, where the model has no names for them). A pipeline takes the
        columns it was fitted on.
    batches : RecordBatchReader, iterable of record batches or tables, Table, Dataset, or anything that speaks Arrow
        A polars frame or a DuckDB relation, say; files through :func:`open_batches`. Dictionary-encoded columns and decimals
        are read as what they stand for; a feature that is no number and no known category is refused by its name.
    target : label, None, "other" or "opposite"
        As for :func:`ifonly.invert`, one for all rows.
    keys : sequence of str, optional
        The columns to hand through as they are; by default all that are no features. Of a data set no others are read.
    columns : {"changed", "all"}
        The answer itself is one column per feature, ``new_income`` for ``income``. "changed": it has the new value where the
        feature changes and null where it does not, and features that can never change have none. "all": the value in any case.
    prefix : str
        What these columns' names begin with.
    chunk_rows : int, optional
        Rows that are solved at once; by default 16 384, fewer where rows are wide or take long.
    lam, prob, margin, cost, actions, max_changes
        As for :func:`ifonly.invert`, one for all rows.
    **options
        ``tol``, ``gap``, ``time_limit``, ``node_limit`` and ``backend`` of :func:`ifonly.invert`, and
        ``threads``: how many chunks to solve side by side, by default one per core that this process may use.

    Returns
    -------
    pyarrow.RecordBatchReader
        The keys, then ``target``, ``probability``, ``distance``, ``cost``, ``gap``, ``status`` (a name such as EXACT) and
        ``reason`` (what is wrong with an INVALID row), then the features.

    Raises
    ------
    InputError
        At once, if the question or the columns are wrong. A row that is wrong does not raise: it is INVALID, with nulls.

    Examples
    --------
    >>> import pyarrow as pa, ifonly
    >>> model = ifonly.Model.binary([1.0, -2.0], 0.0, ["refused", "approved"], ["income", "debt"])
    >>> people = pa.table({"id": [7, 8], "income": [1.0, 3.0], "debt": [3.0, 4.0]})
    >>> actions = ifonly.Actions(frozen=["income"], step={"debt": 0.1})
    >>> answers = invert_batches(model, people, "approved", actions=actions).read_all()
    >>> answers.select(["id", "new_debt", "status"]).to_pylist()
    [{'id': 7, 'new_debt': 0.4, 'status': 'EXACT'}, {'id': 8, 'new_debt': 1.4, 'status': 'EXACT'}]

    """
    model = as_model(model)
    schema, stream = _stream(batches, model, keys)
    question = {"lam": lam, "prob": prob, "margin": margin, "cost": cost, "actions": actions, "max_changes": max_changes}
    threads = threads_of(options)
    inverter = Inverter(model, schema, target, keys, columns, prefix, {**question, **options})
    size = inverter.chunk_rows(chunk_rows)
    return pa.RecordBatchReader.from_batches(inverter.schema, in_order(inverter, chunks(stream, schema, size), threads))


def threads_of(options: dict[str, Any]) -> int:
    """Take ``threads`` out of the options: chunks are solved side by side, each of them on one thread."""
    return available(options.pop("threads", None))


def in_order(make: Callable[[Given], Made], items: Iterable[Given], threads: int, stop: Event | None = None) -> Iterator[Made]:
    """``map(make, items)`` on several threads: in order, and items are taken as results are asked for, ``threads`` ahead.

    ``stop`` is set when no more is wanted, for those that take long.
    """
    if threads == 1:
        yield from map(make, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        made: deque[Future[Made]] = deque()
        try:
            for item in items:
                made.append(pool.submit(make, item))
                if len(made) > threads:
                    yield made.popleft().result()
            while made:
                yield made.popleft().result()
        finally:
            if stop is not None:
                stop.set()
            for future in made:
                future.cancel()


def chunks(batches: Iterable[Any], schema: Any, rows: int, skip: int = 0) -> Iterator[Any]:
    """The same rows as tables of ``rows`` rows each (the last may be shorter), without the first ``skip``."""
    held: list[Any] = []
    n = 0
    for batch in batches:
        a = min(skip, len(batch))
        skip -= a
        while a < len(batch):
            part = batch.slice(a, rows - n)
            held.append(part)
            a, n = a + len(part), n + len(part)
            if n == rows:
                yield _joined(held, schema)
                held, n = [], 0
    if held:
        yield _joined(held, schema)


def _joined(parts: list[Any], schema: Any) -> Any:
    tables = [part if isinstance(part, pa.Table) else pa.Table.from_batches([part]) for part in parts]
    for table in tables:
        if table.schema != schema:
            raise InputError(
                f"all batches must have the columns of the first, {schema.names[:20]}; got {table.schema.names[:20]}"
            )
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _stream(batches: Any, model: Model, keys: Sequence[str] | None) -> tuple[Any, Iterable[Any]]:
    """The schema of whatever carries record batches, and the batches; of a data set only the columns that are needed."""
    if isinstance(batches, dataset.Dataset):
        wanted = needed(model, keys)
        there = None if wanted is None else [name for name in wanted if name in batches.schema.names]
        batches = batches.scanner(columns=there, batch_readahead=2, fragment_readahead=1)
    if isinstance(batches, dataset.Scanner):
        return batches.projected_schema, batches.to_batches()
    if hasattr(batches, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(batches)
        return reader.schema, reader
    iterator = iter(batches)
    first: Any = next(iterator, None)
    if not isinstance(first, (pa.RecordBatch, pa.Table)):
        got = "none" if first is None else type(first).__name__
        raise InputError(f"batches must be Arrow record batches or tables, one at least; got {got}")
    return first.schema, _again(first, iterator)


def _again(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


class Inverter:
    """Tables in, record batches of answers out, for one model and one question.

    Attributes
    ----------
    model : Model
    features : Features
        Which columns are read.
    schema : pyarrow.Schema
        That of the answers.

    """

    def __init__(
        self,
        model: Model,
        schema: Any,
        target: Any,
        keys: Sequence[str] | None,
        columns: str,
        prefix: str,
        question: dict[str, Any],
    ) -> None:
        if columns not in ("changed", "all"):
            raise InputError(f'columns must be "changed" or "all"; got {columns!r}')
        if isinstance(target, str) and target == "all" and target not in model.classes.tolist():
            raise InputError('target "all" gives several answers a row; ask for one class at a time')
        if np.ndim(target) > 0:
            raise InputError("target must be one label for all rows of a stream")
        self.model, self.target, self.question = model, target, {**question, "threads": 1}
        self.every = columns == "all"
        self.features = Features(model, schema, keys)
        self.label, label_type = _typed(model.classes.tolist())
        self.given = self._movable()
        fields = [schema.field(key) for key in self.features.keys]
        fields += [pa.field("target", label_type), *(pa.field(name, pa.float64()) for name in MEASURES)]
        fields += [pa.field("status", pa.string()), pa.field("reason", pa.string())]
        fields += [pa.field(f"{prefix}{self.features.names[i]}", kind) for i, (_, kind) in self.given.items()]
        names = [field.name for field in fields]
        for key in self.features.keys:
            if names.count(key) > 1:
                raise InputError(
                    f"column {key!r} is handed through as a key, and an answer's column has the same name; rename it"
                )
        self.schema = pa.schema(fields)
        if model.n_classes == 2:
            with suppress(ImportError):  # with Numba, rows get the same bits however they are cut into chunks
                import_module("ifonly.native.intervals")
        X, _ = self.features.read(schema.empty_table())
        invert(model, X, target, **question)  # of no rows: raises what is wrong with the question

    def chunk_rows(self, given: int | None) -> int:
        """How many rows to solve at once: as many as the user says, or as fit."""
        if given is not None and given < 1:
            raise InputError(f"chunk_rows must be 1 or more; got {given}")
        most = SLOW_ROWS if self._one_by_one() else CHUNK_ROWS[1]
        return given or int(np.clip(CHUNK_BYTES // (8 * self.model.n_features), CHUNK_ROWS[0], most))

    def _one_by_one(self) -> bool:
        """Whether there are limits for which there is no kernel: see `solvers.limited`."""
        model, asked = self.model, self.question
        bound = not model.encoding.plain
        if not bound and all(asked.get(name) is None for name in ("cost", "actions", "max_changes", "margin")):
            return False
        tied = getattr(asked.get("cost"), "matrix", None) is not None or bool(getattr(asked.get("actions"), "linear", ()))
        return model.n_classes > 2 or tied or asked.get("lam") is not None

    def _movable(self) -> dict[int, tuple[Callable[[Any], Any], Any]]:
        """For each feature that has a column in the answer: how its values are written, and as what type."""
        actions = self.question.get("actions")
        frozen = np.zeros(self.model.n_features, dtype=bool)
        if isinstance(actions, Actions) and not self.every:
            frozen = actions.resolve(self.model).frozen
        out: dict[int, tuple[Callable[[Any], Any], Any]] = {}
        for i, column in enumerate(self.features.columns):
            if not frozen[_coordinates(i, column)].all():
                levels = None if column is None or column.kind == "number" or column.cut is not None else list(column.levels)
                out[i] = (_same, pa.float64()) if levels is None else _typed(levels)
        return out

    def __call__(self, table: Any) -> Any:
        """The answers for a table of rows."""
        X, bad = self.features.read(table)
        N = len(table)
        fit = np.ones(N, dtype=bool)
        fit[list(bad)] = False
        good = np.flatnonzero(fit)
        if bad:
            X = X.iloc[good] if hasattr(X, "iloc") else X[good]
        with np.errstate(all="ignore"):  # a logarithm of a negative number: its row is INVALID
            cfs = invert(self.model, X, self.target, progress=False, **self.question) if len(good) else None
        status = np.full(N, Status.INVALID, dtype=np.int8)
        if cfs is not None:
            assert isinstance(cfs, Counterfactuals)
            status[good] = cfs.status
            for i in np.flatnonzero(cfs.status == Status.INVALID).tolist():
                bad[int(good[i])] = self._reason(X, i)
        arrays = [table.column(key).combine_chunks() for key in self.features.keys]
        arrays += self._measures(cfs, good, status)
        arrays.append(STATUS_NAMES.take(pa.array(status)))
        arrays.append(pa.array([bad.get(row) for row in range(N)] if bad else pa.nulls(N), pa.string()))
        arrays += self._answers(cfs, good, status)
        return pa.record_batch(arrays, schema=self.schema)

    def _reason(self, X: Any, i: int) -> str:
        """What is wrong with a row that only the solver found wrong: it says so when it is asked for that row alone."""
        row = X.iloc[[i]].iloc[0] if hasattr(X, "iloc") else X[i]
        try:
            with np.errstate(all="ignore"):
                invert(self.model, row, self.target, **self.question)
        except InputError as error:
            return str(error)
        return Status.INVALID.message

    def _measures(self, cfs: Counterfactuals | None, good: NDArray[np.intp], status: NDArray[np.int8]) -> list[Any]:
        labels = self.schema.field("target").type
        if cfs is None:
            return [pa.nulls(len(status), kind) for kind in (labels, *[pa.float64()] * len(MEASURES))]
        k = cfs.results.target
        names = pa.array([*map(self.label, self.model.classes.tolist()), None], labels)
        wanted = np.full(len(status), self.model.n_classes)
        wanted[good] = np.where(cfs.status == Status.INVALID, self.model.n_classes, k)
        probability = np.full(len(k), np.nan) if self.model.hard else cfs.proba[np.arange(len(k)), k]
        measures = (probability, cfs.distance, cfs.cost, cfs.gap)
        return [names.take(pa.array(wanted)), *(_spread(v, good, status) for v in measures)]

    def _answers(self, cfs: Counterfactuals | None, good: NDArray[np.intp], status: NDArray[np.int8]) -> list[Any]:
        """A column for each feature that may change."""
        if cfs is None:
            return [pa.nulls(len(status), kind) for _, kind in self.given.values()]
        before, after = (np.ascontiguousarray(rows.T) for rows in cfs.coordinates)
        moved = before != after
        out = []
        for i, (write, kind) in self.given.items():
            column = self.features.columns[i]
            changed = moved[_coordinates(i, column)].any(axis=0)
            values = after[i] if column is None else cfs.x[column.name].to_numpy()
            if kind == pa.float64() and write is _same:
                values = np.asarray(values, dtype=np.float64)
                out.append(_spread(values, good, status, None if self.every else changed))
                continue
            cells = np.full(len(status), None, dtype=object)
            shown = np.flatnonzero((cfs.status != Status.INVALID) & (changed | self.every))
            cells[good[shown]] = [write(value) for value in values[shown].tolist()]
            out.append(pa.array(cells.tolist(), kind))
        return out


def _coordinates(i: int, column: Column | None) -> NDArray[np.intp]:
    return np.array([i]) if column is None else column.coordinates


def _spread(values: Any, good: NDArray[np.intp], status: NDArray[np.int8], shown: Flags | None = None) -> Any:
    """Numbers of the good rows as a column over all rows, null where there is none (or nothing to show)."""
    empty = np.isnan(values)
    if shown is not None:
        empty |= ~shown
    if len(good) == len(status):
        return pa.array(values, mask=empty)
    whole, none = np.zeros(len(status)), np.ones(len(status), dtype=bool)
    whole[good], none[good] = values, empty
    return pa.array(whole, mask=none)


def _same(value: Any) -> Any:
    return value


def _typed(labels: list[Any]) -> tuple[Callable[[Any], Any], Any]:
    """How labels or levels are written in a column of one type: themselves if they are all of a kind, else as text."""
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    kinds = {type(label) for label in plain if not _missing(label)}
    for kind, arrow in ((bool, pa.bool_()), (int, pa.int64()), (str, pa.string())):
        if kinds == {kind}:
            return _or_null(_same), arrow
    if kinds and kinds <= {int, float}:
        return _or_null(float), pa.float64()
    return _or_null(str), pa.string()


def _or_null(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if _missing(value) else write(value)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))
