"""The rows to choose from: a table of any size on disk, of which pages and matches are read, never all.

Whatever the file is, it is copied once, batch by batch, into an Arrow file that is mapped into memory and has no name any more.
A page is a slice of it, a search reads what it looks at, and nothing is left of it when the process ends.
"""

import os
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ifonly.answers.change import plain_value
from ifonly.frames.arrow import ipc, pa
from ifonly.frames.features import Features
from ifonly.frames.reading import open_batches
from ifonly.model import Model

__all__ = ["Data", "Page"]

BATCH_ROWS = 4096  # of the copy: what a search reads between two looks at the clock
SAMPLE = 4096  # rows that say what is typical of a column


class Page:
    """Some rows of the data, as the model reads them.

    Attributes
    ----------
    index : list of int
        Which rows they are.
    table : pyarrow.Table
        Their cells.
    X : array or frame
        What the model takes.
    bad : dict
        What is wrong with some of them, by their place in the page.

    """

    def __init__(self, features: Features, index: Sequence[int], table: Any) -> None:
        self.features, self.index, self.table = features, list(index), table
        self.X, self.bad = features.read(table)

    def values(self, i: int) -> list[Any]:
        """One of them, column by column of the model's; what cannot be read as it stands there."""
        if self.features.model.encoding.identity:
            found = [plain_value(v) for v in self.X[i].tolist()]
        else:
            found = [plain_value(self.X.iat[i, column.place]) for column in self.features.columns if column is not None]
        if i not in self.bad:
            return found
        there = self.cells(i, self.features.names)
        return [cell if value is None else value for value, cell in zip(found, there, strict=True)]

    def cells(self, i: int, names: Sequence[str]) -> list[Any]:
        """What stands in some of its columns; dates and the like as text."""
        found = (plain_value(self.table.column(name)[i].as_py()) for name in names)
        return [cell if cell is None or isinstance(cell, (str, int, float)) else str(cell) for cell in found]


class Data:
    """A table on disk.

    Parameters
    ----------
    path : path
        ``.csv``, ``.parquet``, ``.arrow``, or a folder of those.
    keys : sequence of str, optional
        The columns that name a row, where they are there; by default all that are no features.

    """

    def __init__(self, path: Path, keys: Sequence[str] | None = None) -> None:
        with open_batches(path, batch_rows=BATCH_ROWS) as reader:
            self.schema = reader.schema
            self.keys = None if keys is None else [key for key in keys if key in self.schema.names]
            self.starts, self.file = _copied(reader)
        self.total = self.starts[-1]
        self._lock = threading.Lock()

    def features(self, model: Model) -> Features:
        """The model's columns of it."""
        return Features(model, self.schema, self.keys)

    def batch(self, i: int) -> Any:
        """A batch as it lies on disk."""
        with self._lock:
            return self.file.get_batch(i)

    @property
    def n_batches(self) -> int:
        """How many there are."""
        return len(self.starts) - 1

    def take(self, features: Features, index: Sequence[int]) -> Page:
        """Some rows, by number."""
        parts = []
        for i, rows in groupby(index, lambda row: bisect_right(self.starts, row) - 1):
            parts.append(self.batch(i).take(pa.array([row - self.starts[i] for row in rows], pa.int64())))
        return Page(features, index, pa.Table.from_batches(parts, schema=self.schema).combine_chunks())

    def sample(self, features: Features) -> Page | None:
        """Rows spread evenly over the table, to see what is usual."""
        if not self.total:
            return None
        return self.take(features, np.linspace(0, self.total - 1, min(self.total, SAMPLE)).astype(np.int64).tolist())


def _copied(reader: Any) -> tuple[list[int], Any]:
    """The first row of each batch, and the end; and the batches in a file that is mapped into memory."""
    descriptor, name = tempfile.mkstemp(suffix=".arrow")
    starts = [0]
    try:
        with os.fdopen(descriptor, "wb") as file, ipc.new_file(file, reader.schema) as writer:
            for batch in reader:
                if len(batch):
                    writer.write_batch(batch)
                    starts.append(starts[-1] + len(batch))
        mapped = ipc.open_file(pa.memory_map(name))
    finally:
        if os.name == "posix":  # elsewhere a file that is open keeps its name
            os.unlink(name)
    return starts, mapped
