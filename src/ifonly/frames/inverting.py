"""`invert_batches`: a stream of rows in, a stream of answers out."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from threading import Event
from typing import Any, Literal, TypeVar

import numpy as np

from ifonly.answers import Counterfactuals
from ifonly.answers.change import plain_value
from ifonly.api import Ask, ask
from ifonly.engines.row_loops import any_cut
from ifonly.engines.threads import available
from ifonly.frames.arrow import pa
from ifonly.frames.reading import Features, needed
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import Flags
from ifonly.model.tables import is_missing
from ifonly.problem.status import Status

__all__ = ["Inverter", "chunks", "in_order", "invert_batches"]

Given = TypeVar("Given")
Made = TypeVar("Made")

# A chunk is solved at once: its rows fill the kernel's lanes, its numbers this much memory (and a few times that on the way).
CHUNK_BYTES = 16 * 2**20
CHUNK_ROWS = (256, 16384)
SLOW_ROWS = 256  # where rows take milliseconds each, or some of them a search: one can see it go on, and stop it

MEASURES = ("probability", "distance", "cost", "gap")
STATUS_NAMES = [Status(code).name for code in range(len(Status))]


def invert_batches(
    model: Any,
    batches: Any,
    target: Any = None,
    *,
    keys: Sequence[str] | None = None,
    columns: Literal["changed", "all"] = "changed",
    prefix: str = "new_",
    chunk_rows: int | None = None,
    **question: Any,
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
    **question
        ``lam``, ``prob``, ``margin``, ``cost``, ``actions``, ``max_changes``, ``tol``, ``gap``, ``time_limit``, ``node_limit``,
        ``backend`` and ``policy`` as for :func:`ifonly.invert`, one for all rows, and ``threads``: how many chunks to solve
        side by side, by default one per core that this process may use.

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
    >>> people = pa.table({"id": [7, 8], "income": [1.1, 3.1], "debt": [3.0, 4.0]})
    >>> actions = ifonly.Actions(frozen=["income"], step={"debt": 0.1})
    >>> answers = invert_batches(model, people, "approved", actions=actions).read_all()
    >>> answers.select(["id", "new_debt", "status"]).to_pylist()
    [{'id': 7, 'new_debt': 0.5, 'status': 'EXACT'}, {'id': 8, 'new_debt': 1.5, 'status': 'EXACT'}]

    """
    asking = ask(model, target, **question)
    schema, stream = _stream(batches, asking.model, keys)
    inverter = Inverter(asking, schema, keys, columns, prefix)
    tables = chunks(stream, schema, inverter.chunk_rows(chunk_rows))
    return pa.RecordBatchReader.from_batches(inverter.schema, in_order(inverter, tables, available(asking.question.threads)))


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
    if hasattr(batches, "scanner"):  # a data set, known by what it can do: its module brings pandas, 0.3 s, with it
        wanted = needed(model, keys)
        there = None if wanted is None else [name for name in wanted if name in batches.schema.names]
        batches = batches.scanner(columns=there, batch_readahead=2, fragment_readahead=1)
    if hasattr(batches, "projected_schema"):
        return batches.projected_schema, batches.to_batches()
    if hasattr(batches, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(batches)
        return reader.schema, reader
    iterator = iter(batches)
    first: Any = next(iterator, None)
    if not isinstance(first, (pa.RecordBatch, pa.Table)):
        got = "none" if first is None else type(first).__name__
        raise InputError(f"batches must be Arrow record batches or tables, one at least; got {got}")
    return first.schema, chain([first], iterator)


class Inverter:
    """Tables in, record batches of answers (of a ``schema``) out, for one question; which columns these have: `invert_batches`.

    Each table is solved on one thread, and how rows are cut into tables does not decide by which method.
    """

    def __init__(
        self, ask: Ask, schema: Any, keys: Sequence[str] | None = None, columns: str = "changed", prefix: str = "new_"
    ) -> None:
        if columns not in ("changed", "all"):
            raise InputError(f'columns must be "changed" or "all"; got {columns!r}')
        for name in ("target", "lam", "prob"):
            if np.ndim(getattr(ask.question, name)) > 0:
                raise InputError(f"{name} must be one {'label' if name == 'target' else 'number'} for all rows of a stream")
        if ask.per_source > 1:
            what = 'target "all"' if ask.question.n is None else "n"
            raise InputError(f"{what} gives several answers a row; ask for one class at a time, and one answer")
        self.ask = ask.at(backend=any_cut(ask.question.backend), threads=None if ask.question.backend == "cuda" else 1)
        self.every = columns == "all"
        self.features = Features(ask.model, schema, keys)
        labels: list[Any] = ask.model.classes.tolist()
        write, kind = _typed(labels)
        self.labels = pa.array(list(map(write, labels)), kind)
        self.written = self._written()
        # How many rows fit into the memory that a chunk may take; whether they are solved one by one, or some take a search.
        self.fitting = int(np.clip(CHUNK_BYTES // (8 * ask.model.n_features), *CHUNK_ROWS))
        self.slow = self.ask.row_by_row or (ask.conditions is not None and ask.conditions.discrete)
        fields = [schema.field(key) for key in self.features.keys]
        fields += [pa.field("target", kind), *(pa.field(name, pa.float64()) for name in MEASURES)]
        fields += [pa.field("status", pa.string()), pa.field("reason", pa.string())]
        fields += [pa.field(f"{prefix}{self.features.names[i]}", column) for i, (_, column) in self.written.items()]
        self.schema = pa.schema(fields)
        twice = [key for key in self.features.keys if self.schema.names.count(key) > 1]
        if twice:
            raise InputError(
                f"column {twice[0]!r} is handed through as a key, and an answer's column has the same name; rename it"
            )

    def chunk_rows(self, given: int | None) -> int:
        """How many rows to solve at once: as many as the user says, or as fit."""
        if given is not None and given < 1:
            raise InputError(f"chunk_rows must be 1 or more; got {given}")
        return given or min(self.fitting, SLOW_ROWS if self.slow else CHUNK_ROWS[1])

    def _written(self) -> dict[int, tuple[Callable[[Any], Any], Any]]:
        """For each feature that has a column in the answer: how its values are written, and as what type."""
        conditions, columns = self.ask.conditions, dict(enumerate(self.features.columns))
        if conditions is not None and not self.every:
            columns = {i: c for i, c in columns.items() if not conditions.limits.frozen[c.coordinates].all()}
        return {i: (float, pa.float64()) if c.numeric else _typed(list(c.levels)) for i, c in columns.items()}

    def __call__(self, table: Any) -> Any:
        """The answers for a table of rows."""
        X, bad = self.features.read(table)
        with np.errstate(all="ignore"):  # a logarithm of a negative number: its row is INVALID
            cfs: Counterfactuals = self.ask(X, progress=False)
        status = cfs.status.copy()
        status[list(bad)] = Status.INVALID  # also where a model that fills in missing values has an answer
        invalid = status == Status.INVALID
        bad |= {i: self._reason(X, i) for i in np.flatnonzero(invalid).tolist() if i not in bad}
        k = cfs.results.target
        probability = np.full(len(k), np.nan) if self.ask.model.hard else cfs.proba[np.arange(len(k)), k]
        arrays = [table.column(key).combine_chunks() for key in self.features.keys]
        arrays.append(self.labels.take(pa.array(k, mask=invalid)))
        measures = (probability, cfs.distance, cfs.cost, cfs.gap)
        arrays += [pa.array(v, mask=invalid | np.isnan(v)) for v in measures]
        arrays.append(pa.array(STATUS_NAMES).take(pa.array(status)))
        arrays.append(pa.array([bad.get(row) for row in range(len(table))] if bad else pa.nulls(len(table)), pa.string()))
        arrays += self._answers(cfs, invalid)
        return pa.record_batch(arrays, schema=self.schema)

    def _reason(self, X: Any, i: int) -> str:
        """What is wrong with a row that only the solver found wrong: it says so when it is asked for that row alone."""
        try:
            with np.errstate(all="ignore"):
                self.ask(X.iloc[[i]].iloc[0] if hasattr(X, "iloc") else X[i])
        except InputError as error:
            return str(error)
        return Status.INVALID.message

    def _answers(self, cfs: Counterfactuals, invalid: Flags) -> list[Any]:
        """A column for each feature that may change."""
        before, after = (np.ascontiguousarray(rows.T) for rows in cfs.coordinates)
        moved = before != after
        out = []
        for i, (write, kind) in self.written.items():
            column = self.features.columns[i]
            hidden = invalid if self.every else invalid | ~moved[column.coordinates].any(axis=0)
            values = after[i] if self.ask.model.encoding.identity else cfs.x[column.name].to_numpy()
            if write is float:
                numbers = np.asarray(values, dtype=np.float64)
                out.append(pa.array(numbers, mask=hidden | np.isnan(numbers)))
            else:
                cells = [None if h else write(v) for v, h in zip(values.tolist(), hidden.tolist(), strict=True)]
                out.append(pa.array(cells, kind))
        return out


def _typed(labels: list[Any]) -> tuple[Callable[[Any], Any], Any]:
    """How labels or levels are written in a column of one type: themselves if they are all of a kind, else as text."""
    kinds = {type(label) for label in map(plain_value, labels)} - {type(None)}
    for kind, arrow in ((bool, pa.bool_()), (int, pa.int64()), (str, pa.string())):
        if kinds == {kind}:
            return plain_value, arrow
    write, arrow = (float, pa.float64()) if kinds and kinds <= {int, float} else (str, pa.string())
    return lambda value: None if is_missing(value) else write(value), arrow
