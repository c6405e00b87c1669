"""The rows to choose from: a table of any size on disk, of which pages and matches are read, never all.

Whatever the file is, it is copied once, batch by batch, into an Arrow file that is mapped into memory and has no name any more.
A page is a slice of it, a search reads what it looks at, and nothing is left of it when the process ends.
"""

import os
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ifonly.answers.change import plain_value
from ifonly.frames.arrow import ipc, pa, pc
from ifonly.frames.reading import Features, open_batches
from ifonly.model import Model
from ifonly.model.numerics import Flags, Floats

__all__ = ["SAMPLE", "Data", "DataRows", "Page"]

BATCH_ROWS = 4096  # of the copy: what a search reads between two looks at the clock
SAMPLE = 4096  # rows that say what is typical of a column
HELD = 2**22  # numbers of such rows that are kept at most: of a model with very many features there are fewer rows
REMEMBERED = 256  # rows: someone drags, and asks about the same one again and again
SECONDS = 0.5  # of one request for matches; the next one goes on where it stopped
KEPT = 16  # searches that are remembered


class Data:
    """A table on disk: ``.csv``, ``.parquet``, ``.arrow``, or a folder of those.

    ``keys`` are the columns that name a row, where they are there; by default all that are no features.
    """

    def __init__(self, path: Path, keys: Sequence[str] | None = None) -> None:
        self.starts = [0]  # the first row of each batch, and the end
        nameless = os.name == "posix"  # elsewhere a file that is open keeps its name
        with (
            open_batches(path, batch_rows=BATCH_ROWS) as reader,
            tempfile.NamedTemporaryFile(suffix=".arrow", delete=nameless) as copy,
        ):
            with ipc.new_file(copy, reader.schema) as writer:
                for batch in reader:
                    if len(batch):
                        writer.write_batch(batch)
                        self.starts.append(self.starts[-1] + len(batch))
            copy.flush()
            self.schema, self.file = reader.schema, ipc.open_file(pa.memory_map(copy.name))
        self.keys = None if keys is None else [key for key in keys if key in self.schema.names]
        self.total = self.starts[-1]
        self._lock = threading.Lock()

    def batch(self, i: int) -> Any:
        """A batch as it lies on disk."""
        with self._lock:
            return self.file.get_batch(i)


class Page:
    """Some rows of the data, by ``index``: their cells, what the model takes (X), and what is wrong with some, by place."""

    def __init__(self, features: Features, table: Any, index: Sequence[int] = ()) -> None:
        self.features, self.table, self.index = features, table, np.array(index, np.int64)
        self.X, self.bad = features.read(table)

    @cached_property
    def V(self) -> Floats:
        """Their coordinates, as the model sees them; not finite where one cannot be read."""
        return self.features.model.encoding.read(self.X, strict=False)

    @cached_property
    def scores(self) -> Floats:
        """Their scores (N, K)."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self.features.model.scores(self.V)

    @property
    def sound(self) -> Flags:
        """Which of them the model can read."""
        return np.isfinite(self.scores).all(axis=1) & ~np.isin(np.arange(len(self.scores)), list(self.bad))

    def column(self, i: int) -> Any:
        """The values of one of the model's columns."""
        return self.X[:, i] if isinstance(self.X, np.ndarray) else self.X[self.features.columns[i].name].to_numpy()

    def values(self, i: int) -> list[Any]:
        """One of them, column by column of the model's; what cannot be read as it stands there."""
        X, columns = self.X, self.features.columns
        cells = X[i].tolist() if isinstance(X, np.ndarray) else [X.iat[i, column.place] for column in columns]
        found = [plain_value(cell) for cell in cells]
        if i not in self.bad:
            return found
        there = self.cells(i, self.features.names)
        return [cell if value is None else value for value, cell in zip(found, there, strict=True)]

    def cells(self, i: int, names: Sequence[str]) -> list[Any]:
        """What stands in some of its columns; dates and the like as text."""
        found = (plain_value(self.table.column(name)[i].as_py()) for name in names)
        return [cell if cell is None or isinstance(cell, (str, int, float)) else str(cell) for cell in found]


class DataRows:
    """The data as one model reads them, by number, or by what is in them; what was asked for last is remembered."""

    def __init__(self, data: Data, model: Model) -> None:
        self.data, self.features = data, Features(model, data.schema, data.keys)
        self.row = lru_cache(REMEMBERED)(self._row)  # one, column by column, and what is wrong with it
        self.search = lru_cache(KEPT)(partial(RowSearch, self))  # for a text in small letters, and a class or None

    @property
    def flags(self) -> list[bool]:
        """Which of the model's columns are of yes and no, by their type."""
        return [str(self.data.schema.field(name).type) == "bool" for name in self.features.names]

    def take(self, index: Sequence[int]) -> Page:
        """Some rows, by number."""
        data, parts = self.data, []
        for i, rows in groupby(index, lambda row: bisect_right(data.starts, row) - 1):
            parts.append(data.batch(i).take(pa.array([row - data.starts[i] for row in rows], pa.int64())))
        return Page(self.features, pa.Table.from_batches(parts, schema=data.schema).combine_chunks(), index)

    def _row(self, index: int) -> tuple[list[Any], str | None]:
        page = self.take([index])
        return page.values(0), page.bad.get(0)

    def spread(self, most: int) -> list[int]:
        """The numbers of so many rows, spread evenly over the table."""
        total = self.data.total
        return np.linspace(0, total - 1, min(total, most)).astype(np.int64).tolist()

    @cached_property
    def sampled(self) -> Page:
        """Such rows, those that the model can read, to compare others with."""
        page = self.take(self.spread(min(SAMPLE, max(HELD // self.features.model.n_features, 1))))
        return self.take(page.index[page.sound].tolist())


class RowSearch:
    """The rows that match, found as far as someone has asked; several threads may ask."""

    def __init__(self, rows: DataRows, text: str, label: int | None) -> None:
        self.rows, self.data, self.text, self.label = rows, rows.data, text, label
        features, schema = rows.features, self.data.schema
        self.tests = {n: _equals if c.numeric else _has for n, c in zip(features.names, features.columns, strict=True)}
        unwritten = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary)  # lists and the like, and bytes
        self.tests |= {key: _has for key in features.keys if not any(test(schema.field(key).type) for test in unwritten)}
        self.found: list[int] = []
        self.batch = 0  # the next to look at
        self._lock = threading.Lock()

    def page(self, offset: int, limit: int) -> tuple[list[int], int | None]:
        """Look for a while; then some of the rows that match, and how many do: None as long as that is not known."""
        until, n_batches = monotonic() + SECONDS, len(self.data.starts) - 1
        with self._lock:
            while self.batch < n_batches and monotonic() < until:
                rows = np.flatnonzero(self._matches(self.data.batch(self.batch)))
                self.found.extend((rows + self.data.starts[self.batch]).tolist())
                self.batch += 1
            return self.found[offset : offset + limit], len(self.found) if self.batch == n_batches else None

    def _matches(self, batch: Any) -> Flags:
        mask = np.ones(len(batch), dtype=bool)
        if self.text:
            found = [pc.fill_null(test(batch.column(name), self.text), False) for name, test in self.tests.items()]
            mask = np.logical_or.reduce([cells.to_numpy(zero_copy_only=False) for cells in found])
        if self.label is not None and mask.any():
            page = Page(self.rows.features, pa.Table.from_batches([batch]))
            mask &= page.sound & (page.scores.argmax(axis=1) == self.label)
        return mask


def _has(cells: Any, text: str) -> Any:
    """Which have the text in them, in small letters or large."""
    words = cells if pa.types.is_string(cells.type) else cells.cast(pa.string())
    return pc.match_substring(pc.utf8_lower(words), text)  # a third of the time that ignore_case=True takes


def _equals(cells: Any, text: str) -> Any:
    """Which are the number that the text is."""
    try:
        number = float(text)
    except ValueError:
        return pa.nulls(len(cells), pa.bool_())
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if not pa.types.is_string(cells.type) and not pa.types.is_large_string(cells.type):
        return pc.equal(cells.cast(pa.float64()), number)
    written = {text, repr(number), *([str(int(number))] if number.is_integer() else [])}
    return pc.is_in(pc.utf8_trim_whitespace(cells), value_set=pa.array(sorted(written), cells.type))
