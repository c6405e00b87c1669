"""A model as it is served: with its columns, its rows to choose from, and what the page has to know of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

import ifonly
from ifonly.answers.change import plain_value
from ifonly.answers.record import fingerprint
from ifonly.api import Ask
from ifonly.engines.row_loops import any_cut
from ifonly.frames.features import Features
from ifonly.model import Model
from ifonly.model.columns import Column
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats
from ifonly.problem.question import Question
from ifonly.server.columns import Columns
from ifonly.server.data import Data, Page
from ifonly.server.refusals import RefusedError
from ifonly.server.search import Searches

__all__ = ["Served"]

WARM, WARM_LAM = 1.0, 0.01  # seconds that a trial search may take, and a λ to try
REMEMBERED = 256  # rows: someone drags, and asks about the same one again and again


@dataclass(frozen=True, eq=False)
class Served:
    """One model, as long as its file stays the same.

    Attributes
    ----------
    name : str
    model : Model
    data : Data or None
        Rows to choose from.
    image : (H, W), optional
        Where the features are the pixels of an image.

    """

    name: str
    model: Model
    data: Data | None = None
    image: tuple[int, int] | None = None

    @cached_property
    def fingerprint(self) -> str:
        """What tells the model from all others, as in the receipts of its answers."""
        return fingerprint(self.model)

    @cached_property
    def features(self) -> Features | None:
        """The model's columns of the data."""
        return None if self.data is None else self.data.features(self.model)

    @cached_property
    def columns(self) -> Columns:
        """The model's columns."""
        if self.data is None or self.features is None:
            return Columns(self.model)
        kinds = [str(self.data.schema.field(name).type) for name in self.features.names]
        return Columns(self.model, [kind == "bool" for kind in kinds])

    @cached_property
    def free(self) -> bool:
        """Whether nothing limits what changes, as long as nobody asks for limits."""
        return not self.columns.flags and Ask(self.model, Question()).conditions is None

    @property
    def named(self) -> bool:
        """Whether its columns have names."""
        return not self.model.encoding.identity or self.model.feature_names is not None

    @cached_property
    def known(self) -> frozenset[str | int]:
        """What features are called: the model's own, and the user's columns."""
        own = range(self.model.n_features) if self.model.feature_names is None else self.model.feature_names
        return frozenset((*own, *self.model.encoding.names))

    @cached_property
    def classes(self) -> list[Any]:
        """The classes themselves."""
        return self.model.classes.tolist()

    @cached_property
    def class_names(self) -> list[str]:
        """The classes as they are written."""
        return [str(label) for label in self.classes]

    @cached_property
    def labels(self) -> dict[tuple[type, Any], Any]:
        """The classes by type and label; and by what they are written as, where no label is written so itself."""
        found = {(str, str(label)): label for label in reversed(self.classes)}
        return found | {(type(label), label): label for label in self.classes}

    # ---- rows of the data ----

    @cached_property
    def row(self) -> Callable[[int], tuple[list[Any], str | None]]:
        """A row of the data, column by column, and what is wrong with it; the last ones are remembered."""

        @lru_cache(REMEMBERED)
        def read(index: int) -> tuple[list[Any], str | None]:
            assert self.data is not None
            assert self.features is not None
            page = self.data.take(self.features, [index])
            return page.values(0), page.bad.get(0)

        return read

    @cached_property
    def searches(self) -> Searches | None:
        """What was looked for in the data."""
        return None if self.data is None or self.features is None else Searches(self.data, self.features)

    def scores(self, page: Page) -> Floats:
        """The scores (N, K) of rows of the data; not finite where a row cannot be read."""
        V = self.model.encoding.read(page.X, strict=False)
        with np.errstate(invalid="ignore", over="ignore"):
            return self.model.scores(V)

    # ---- what the page has to know ----

    @cached_property
    def description(self) -> dict[str, Any]:
        """All of it."""
        model = self.model
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "version": ifonly.__version__,
            "hard": model.hard,
            "classes": self.classes,
            "n_classes": model.n_classes,
            "n_features": model.n_features,
            "named": self.named,
            "features": self._described(),
            "image": None if self.image is None else list(self.image),
            "rows": None if self.data is None else self.data.total,
            "keys": [] if self.features is None else self.features.keys,
        }

    def _described(self) -> list[dict[str, Any]]:
        sample = None if self.data is None or self.features is None else self.data.sample(self.features)
        found = []
        for i, (name, column) in enumerate(self.columns.columns.items()):
            seen = None if sample is None else sample.X[:, i] if self.model.encoding.identity else sample.X[name].to_numpy()
            found.append({"name": name, **self._kind(name, column), **_usual(column, seen)})
        return found

    def _kind(self, name: str, column: Column | None) -> dict[str, Any]:
        if name in self.columns.flags:
            return {"kind": "flag", "values": None}
        if column is None or column.kind == "number" or column.cut is not None:
            return {"kind": "number", "values": None}
        values = [level for level in (plain_value(level) for level in column.levels) if level is not None]
        return {"kind": column.kind, "values": values}

    def warm(self) -> None:
        """Load, compile and compute all that the first request would have to wait for."""
        row = [c["typical"] if c["typical"] is not None else (c["values"] or [0])[0] for c in self.description["features"]]
        try:
            x = self.columns.read(row, "row")
            Ask(self.model, Question()).within(WARM)(x)
            for lam in (None, WARM_LAM) if self.free else ():
                Ask(self.model, Question(lam=lam, backend=any_cut(), threads=1))(self.columns.table([x]), progress=False)
        except (InputError, RefusedError):  # of a model without data nothing is typical, and its columns need not take a 0
            return


def _usual(column: Column | None, seen: Any) -> dict[str, Any]:
    """The range of a column in the data, whether all of it is whole numbers, and what is typical of it."""
    unknown = {"low": None, "high": None, "whole": False, "typical": None}
    if seen is None:
        return unknown
    if column is not None and column.kind != "number" and column.cut is None:
        values, counts = np.unique([str(v) for v in seen if v is not None], return_counts=True)
        by_name = {str(level): level for level in column.levels}
        typical = by_name.get(str(values[counts.argmax()])) if len(values) else None
        return {**unknown, "typical": plain_value(typical)}
    numbers = seen.astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return unknown
    whole = bool((numbers == np.rint(numbers)).all())
    typical = float(np.quantile(numbers, 0.5, method="lower"))
    return {"low": float(numbers.min()), "high": float(numbers.max()), "whole": whole, "typical": typical}
