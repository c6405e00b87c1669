"""Rows of the data with a text in them, or that the model puts into a class; found for half a second at a time."""

import threading
from collections import OrderedDict
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.frames.arrow import pa, pc
from ifonly.frames.features import Features
from ifonly.model.numerics import Indices
from ifonly.server.data import Data

__all__ = ["RowSearch", "Searches"]

SECONDS = 0.5  # of one request; the next one goes on where it stopped
KEPT = 16  # searches that are remembered


class Searches:
    """The last searches in one table."""

    def __init__(self, data: Data, features: Features) -> None:
        self.data, self.features = data, features
        self._kept: OrderedDict[tuple[str, int | None], RowSearch] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, text: str, label: int | None) -> "RowSearch":
        """The search for a text, and for rows of one class; the one that is there goes on."""
        key = (text.strip().lower(), label)
        with self._lock:
            found = self._kept.pop(key, None) or RowSearch(self.data, self.features, *key)
            self._kept[key] = found
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


class RowSearch:
    """The rows that match, found as far as someone has asked; several threads may ask."""

    def __init__(self, data: Data, features: Features, text: str, label: int | None) -> None:
        self.data, self.features, self.text, self.label = data, features, text, label
        columns = zip(features.names, features.columns, strict=True)
        self.tests = {name: _equals if c is None or c.kind == "number" or c.cut is not None else _has for name, c in columns}
        self.tests |= dict.fromkeys((key for key in features.keys if _is_word(data.schema.field(key).type)), _has)
        self.found: list[int] = []
        self.batch = 0  # the next to look at
        self._lock = threading.Lock()

    def page(self, offset: int, limit: int, seconds: float = SECONDS) -> tuple[list[int], int | None]:
        """Look for so long; then some of the rows that match, and how many do: None as long as that is not known."""
        until = monotonic() + seconds
        with self._lock:
            while self.batch < self.data.n_batches and monotonic() < until:
                rows = np.flatnonzero(self._matches(self.data.batch(self.batch)))
                self.found.extend((rows + self.data.starts[self.batch]).tolist())
                self.batch += 1
            complete = self.batch == self.data.n_batches
            return self.found[offset : offset + limit], len(self.found) if complete else None

    def _matches(self, batch: Any) -> NDArray[np.bool_]:
        mask = np.ones(len(batch), dtype=bool)
        if self.text:
            mask = np.logical_or.reduce([test(batch.column(name), self.text) for name, test in self.tests.items()])
        if self.label is not None and mask.any():
            X, bad = self.features.read(pa.Table.from_batches([batch]))
            mask[list(bad)] = False
            mask[mask] = self._classes(X, mask) == self.label
        return mask

    def _classes(self, X: Any, mask: NDArray[np.bool_]) -> Indices:
        model = self.features.model
        V = model.encoding.read(X, strict=False)
        with np.errstate(invalid="ignore", over="ignore"):
            z = model.scores(V[mask])
        return np.where(np.isfinite(z).all(axis=1), z.argmax(axis=1), -1)


# ---- which cells match ----


def _is_word(kind: Any) -> bool:
    """Whether values of a type can be written as text: not lists and the like, nor bytes."""
    return not pa.types.is_nested(kind) and not pa.types.is_binary(kind) and not pa.types.is_large_binary(kind)


def _has(cells: Any, text: str) -> NDArray[np.bool_]:
    """Which have the text in them, in small letters or large."""
    words = cells if pa.types.is_string(cells.type) else cells.cast(pa.string())
    return _flags(pc.match_substring(pc.utf8_lower(words), text))  # a third of the time that ignore_case=True takes


def _equals(cells: Any, text: str) -> NDArray[np.bool_]:
    """Which are the number that the text is."""
    try:
        number = float(text)
    except ValueError:
        return np.zeros(len(cells), dtype=bool)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if not pa.types.is_string(cells.type) and not pa.types.is_large_string(cells.type):
        return _flags(pc.equal(cells.cast(pa.float64()), number))
    written = {text, repr(number), *([str(int(number))] if number.is_integer() else [])}
    return _flags(pc.is_in(pc.utf8_trim_whitespace(cells), value_set=pa.array(sorted(written), cells.type)))


def _flags(found: Any) -> NDArray[np.bool_]:
    return pc.fill_null(found, False).to_numpy(zero_copy_only=False)
