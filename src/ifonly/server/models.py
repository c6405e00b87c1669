"""The models that are served, each with its columns, its rows and what the page has to know of it; and their files.

A file that changes is loaded beside the old model, and takes its place. Requests hold on to the model they began with, so that
a change drops none of them. A file that cannot be read leaves the old model where it is; the log, the counters and ``/readyz``
say so.
"""

import asyncio
import math
import struct
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np

import ifonly
from ifonly.answers.change import plain_value
from ifonly.api import Ask
from ifonly.engines.row_loops import any_cut
from ifonly.model import Model
from ifonly.model.columns import Column, UserTable
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats
from ifonly.model.store import fingerprint
from ifonly.problem.policy import Feature, Policy
from ifonly.problem.question import Question
from ifonly.server.data import SAMPLE, Data, DataRows
from ifonly.server.journal import Journal, Metrics
from ifonly.server.wire import RefusedError, listed, shown
from ifonly.show.letter import languages
from ifonly.show.numbers import ENGLISH, Marks

__all__ = ["Served", "Shelf", "Source"]

WARM, WARM_LAM = 1.0, 0.01  # seconds that a trial search may take, and a λ to try
KEPT = 1024  # questions of one model: the same ones come again and again
PERIOD = 1.0  # seconds between two looks at the files
NEAR, LISTED = 3, 10  # names to suggest for one that is not known, or to list
LONGEST = 100  # characters of a name that are looked at
LARGEST = 10**300  # of whole numbers: well within float64
Stamp = tuple[int, int, int] | None


class Columns:
    """The columns that a model reads, by name (numbers, where its features have none), in the model's order.

    ``flags`` are those of yes and no, by their type in the served data.
    """

    def __init__(self, model: Model, flags: Sequence[bool] = ()) -> None:
        if model.encoding.text:
            raise InputError("a model of documents reads text, not columns, and cannot be served")
        self.encoding = model.encoding
        self.columns = {column.name: column for column in model.columns}
        self.names = tuple(self.columns)
        encoded = not self.encoding.identity  # as in the library, which takes plain numbers as they are
        self.flags = frozenset(compress(self.names, flags)) if encoded else frozenset()
        self._doubles = struct.Struct(f"{len(self.names)}d")

    # ---- rows that come ----

    def read(self, row: Any, field: str) -> Any:
        """One row as the library takes it: an array, or a dict where the model has an encoding."""
        if isinstance(row, np.ndarray):  # of many that came as one base64
            return row
        if isinstance(row, list):
            return self._listed(row, field)
        if isinstance(row, str):
            return self.unpacked(row, field, 1)[0]
        if not isinstance(row, Mapping):
            raise RefusedError(f"{field} must be an object of values by name, a list, or base64; got {shown(row)}", field)
        for name in row:
            if name not in self.columns and name not in self.encoding.names:
                raise RefusedError(self.unknown(name), f"{field}.{name}")
        values = []
        for name in self.names:
            if name not in row:
                raise RefusedError(f"{field} has no value for {name}", f"{field}.{name}")
            values.append(self.value(name, row[name], f"{field}.{name}"))
        return self._made(values)

    def _listed(self, row: list[Any], field: str) -> Any:
        if len(row) != len(self.names):
            raise RefusedError(f"{field} must have {len(self.names)} values, one per column; got {len(row)}", field)
        if self.encoding.identity:
            try:
                numbers = np.frombuffer(self._doubles.pack(*row))  # NumPy itself would take "1.5" for a number
                if np.isfinite(numbers).all():
                    return numbers
            except struct.error:  # one is no number, or has hundreds of digits
                pass
        cells = enumerate(zip(self.names, row, strict=True))
        return self._made([self.value(name, v, f"{field}.{i}") for i, (name, v) in cells])

    def _made(self, values: list[Any]) -> Any:
        if self.encoding.identity:
            return np.array(values, dtype=np.float64)
        found = dict(zip(self.names, values, strict=True))
        return {name: found.get(name) for name in self.encoding.names}

    def unpacked(self, text: str, field: str, n: int | None) -> Floats:
        """Rows (N, D) that come as base64 of little-endian float64, which takes a fifth of the time of decimal numbers."""
        if not self.encoding.identity:
            raise RefusedError("rows in base64 are for models whose columns are all numbers; give values by name", field)
        try:
            numbers = np.frombuffer(b64decode(text, validate=True), dtype="<f8").astype(np.float64, copy=False)
        except ValueError:
            raise RefusedError(f"{field} must be base64 of float64 numbers", field) from None
        width = len(self.names)
        if not len(numbers) or len(numbers) % width or (n is not None and len(numbers) != n * width):
            rows = "a row has" if n is not None else "each row has"
            raise RefusedError(f"{field} has {len(numbers)} numbers; {rows} {width}", field)
        finite = np.isfinite(numbers)
        if not finite.all():
            i = finite.argmin()
            raise RefusedError(f"{field} must be finite numbers; number {i} is {numbers[i]}", field, 400)
        return numbers.reshape(-1, width)

    def unknown(self, name: str) -> str:
        """Why a name is none of the model's."""
        near = get_close_matches(name[:LONGEST], self.names, NEAR)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {listed(self.names, LISTED)}"
        return f"{shown(name)} is no column of the model's; {hint}"

    def value(self, name: str, v: Any, field: str) -> Any:
        """One value, checked against its column."""
        column = self.columns[name]
        if column.numeric:
            return self._number(column, v, field)
        if isinstance(v, (list, dict)):
            raise RefusedError(f"{name} must be one value", field)
        same = (level for level in column.levels if type(level) is type(v) and level == v)
        found = next(chain(same, (level for level in column.levels if str(level) == str(v))), v)
        cells = np.full((1, len(self.encoding.names)), found, dtype=object)
        if np.isnan(column.read(UserTable(cells, self.encoding.names))).any():
            raise RefusedError(column.refusal(v), field)
        return found

    def _number(self, column: Column, v: Any, field: str) -> Any:
        name, may_miss = column.name, column.fill is not None and column.missing is None
        if v is None and may_miss:
            return None
        if isinstance(v, float) and not math.isfinite(v):
            raise RefusedError(f"{name} must be a finite number; got {v}", field, 400)
        if not isinstance(v, (bool, int, float)) or (isinstance(v, int) and abs(v) > LARGEST):
            raise RefusedError(f"{name} must be a number{' or null' * may_miss}; got {shown(v)}", field)
        if name not in self.flags:
            return float(v) if isinstance(v, bool) else v
        if v not in (0, 1):
            raise RefusedError(f"{name} is yes or no: it must be 0 or 1; got {shown(v)}", field)
        return bool(v)

    # ---- answers that go ----

    def table(self, rows: Sequence[Any]) -> Any:
        """Several rows as `read` gave them, as one table for the library."""
        if self.encoding.identity:
            return np.stack(rows)
        return np.array([[row[name] for name in self.encoding.names] for row in rows], dtype=object)

    def plain(self, x: Any, *, named: bool) -> Any:
        """A row of the library's as JSON has it: values by name, or a list (an array, which is written as one)."""
        if self.encoding.identity:
            values = x.tolist() if named else x
        else:  # of a table, a row comes as a table of one
            cells = x if isinstance(x, Mapping) else dict(zip(self.encoding.names, x.reshape(-1), strict=True))
            values = [plain_value(cells[name]) for name in self.names]
        return dict(zip(self.names, values, strict=True)) if named else values


class Served:
    """One model, as long as its file stays the same, and what requests have to know of it."""

    def __init__(
        self, name: str, model: Model, data: Data | None = None, image: Any = None, policy: Policy | None = None
    ) -> None:
        self.name, self.model, self.data = name, model, data  # with rows to choose from
        self.image = image  # height and width, where the features are the pixels of an image
        self.policy = policy  # what no request can undo
        self.told = {"name": name, "fingerprint": fingerprint(model)}  # which model answered, as in the receipts of its answers
        self.rows = None if data is None else DataRows(data, model)
        self.overview: Any = None  # the reply that tells of them, once somebody has asked for it
        self.columns = Columns(model, () if self.rows is None else self.rows.flags)
        self.classes: list[Any] = model.classes.tolist()
        self.class_names = [str(label) for label in self.classes]  # as they are written
        # By type and label; by what they are written as, where no label is written so itself; and "other".
        self.labels: dict[tuple[type, Any], Any] = {(str, "other"): "other"}
        self.labels |= {(str, str(label)): label for label in reversed(self.classes)}
        self.labels |= {(type(label), label): label for label in self.classes}
        self.named = not model.encoding.identity or model.feature_names is not None  # whether its columns have names
        own = range(model.n_features) if model.feature_names is None else model.feature_names
        self.known = frozenset((*own, *model.encoding.names))  # what features are called, the model's own and the user's
        # Whether nothing limits what changes or is asked for, as long as nobody asks for limits: then a class by λ or a
        # probability and nothing else is a `plain` question, of which the last ones are kept.
        self.free = policy is None and not self.columns.flags and Ask(model, Question()).conditions is None
        self.plain = lru_cache(KEPT, typed=True)(lambda target, lam, prob: Ask(model, Question(target, lam, prob)))

    @cached_property
    def description(self) -> dict[str, Any]:
        """What the page has to know."""
        model = self.model
        return {
            **self.told,
            "version": ifonly.__version__,
            "hard": model.hard,
            "classes": self.classes,
            "n_classes": model.n_classes,
            "n_features": model.n_features,
            "named": self.named,
            "features": self._described(),
            "image": None if self.image is None else list(self.image),
            "rows": None if self.data is None else self.data.total,
            "keys": [] if self.rows is None else self.rows.features.keys,
            "policy": None if self.policy is None else self._decided(self.policy),
            "languages": languages(),
        }

    def _decided(self, policy: Policy) -> dict[str, Any]:
        """What the policy fixes, apart from single columns."""
        names = {label: policy.words.label(label) for label in self.class_names}
        told = {name: getattr(policy, name) for name in ("house", "language", "target", "prob", "max_changes")}
        rules = [rule.reason for rule in policy.linear if rule.reason]
        own = Marks.of(policy.words)
        marks = None if own == ENGLISH else own._asdict()
        return {**told, "may_choose": list(policy.may_choose), "classes": names, "reasons": rules, "marks": marks}

    def _described(self) -> list[dict[str, Any]]:
        sample = None if self.rows is None else self.rows.take(self.rows.spread(SAMPLE))
        limited = {} if self.policy is None else self.policy.features
        found = []
        for i, (name, column) in enumerate(self.columns.columns.items()):
            kind = "flag" if name in self.columns.flags else "number" if column.numeric else column.kind
            levels = None if kind in ("flag", "number") else [v for v in map(plain_value, column.levels) if v is not None]
            usual = _usual(column, None if sample is None else sample.column(i))
            told = {"name": name, "kind": kind, "values": levels, **usual}
            found.append(_limited(told, limited[name]) if name in limited else told)
        return found

    def warm(self) -> None:
        """Load, compile and compute all that the first request would have to wait for."""
        row = [c["typical"] if c["typical"] is not None else (c["values"] or [0])[0] for c in self.description["features"]]
        # Of a model without data nothing is typical, and its columns need not take a 0.
        with suppress(InputError, RefusedError):
            x = self.columns.read(row, "row")
            Ask(self.model, Question(), self.policy).within(WARM)(x)
            for lam in (None, WARM_LAM) if self.free else ():
                Ask(self.model, Question(lam=lam, backend=any_cut(), threads=1))(self.columns.table([x]), progress=False)


def _limited(told: dict[str, Any], part: Feature) -> dict[str, Any]:
    """A column with what the policy says of it: its name for people, and what may become of it; its range is no wider."""
    if told["kind"] == "number":
        low = max((end for end in (told["low"], part.low) if end is not None), default=None)
        high = min((end for end in (told["high"], part.high) if end is not None), default=None)
        told = {**told, "low": low, "high": high, "whole": told["whole"] or part.integer}
    words = {"label": part.name or told["name"], "unit": part.unit, "description": part.description, "reason": part.reason}
    limits = {"frozen": part.frozen, "only": part.only or None, "least": part.low, "most": part.high, "step": part.step}
    return {**told, **words, **limits, "never": list(part.never), "value_labels": dict(part.values)}


def _usual(column: Column, seen: Any) -> dict[str, Any]:
    """The range of a column in the data, whether all of it is whole numbers, and what is typical of it."""
    unknown = {"low": None, "high": None, "whole": False, "typical": None}
    if seen is None:
        return unknown
    if not column.numeric:
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


@dataclass(frozen=True)
class Source:
    """Where a model comes from."""

    name: str
    path: Path
    data: Path | None = None  # rows to choose from
    keys: Sequence[str] | None = None  # columns that name a row, where the data have them; by default all that are no features
    image: tuple[int, int] | None = None  # height and width of the image that the features are, where the model has as many
    policy: Path | None = None  # what no request can undo

    def stamps(self) -> tuple[Stamp, Stamp, Stamp]:
        """What tells its files from what they were before."""
        return _stamp(self.path), _stamp(self.data), _stamp(self.policy)

    def load(self, data: Data | None = None) -> Served:
        """The model, ready to answer; the data are read too, unless they are given."""
        try:
            model = ifonly.load(self.path)
        except InputError as error:
            what, untrusted, _ = str(error).partition(". If you know")
            raise InputError(f"{what}. It is not served: save the model with Model.save" if untrusted else str(error)) from None
        if data is None and self.data is not None:
            data = Data(self.data, self.keys)
        pixels = self.image is not None and model.n_features == self.image[0] * self.image[1]
        policy = None if self.policy is None else Policy.load(self.policy)
        if policy is not None:
            policy.check(model)
        served = Served(self.name, model, data, self.image if pixels else None, policy)
        served.warm()
        return served


def _stamp(path: Path | None) -> Stamp:
    with suppress(OSError):
        if path is not None:
            found = path.stat()
            return found.st_mtime_ns, found.st_size, found.st_ino
    return None


class Shelf:
    """The models that are served; the first is meant where a request names none."""

    def __init__(self, sources: Sequence[Source], journal: Journal, metrics: Metrics) -> None:
        self.sources, self.journal, self.loads = sources, journal, metrics.loads
        self._seen = {source.name: source.stamps() for source in sources}  # at the last look
        self._loaded = dict(self._seen)  # at the last attempt to load
        self.models = {source.name: source.load() for source in sources}
        self.problems: dict[str, str | None] = dict.fromkeys(self.models)
        for name in self.models:
            self.loads.labels(name, "ok").inc()
        # The keys and the image are the same for all, and have to be good for some model.
        keys, image, every = sources[0].keys or (), sources[0].image, self.models.values()
        there = {name for served in every if served.data is not None for name in served.data.schema.names}
        for key in keys:
            if key not in there:
                raise InputError(f"there is no column {key!r} in the data")
        if image is not None and not any(served.image for served in every):
            counts = ", ".join(f"{served.name} has {served.model.n_features}" for served in every)
            raise InputError(f"an image of {image[0]}x{image[1]} has other features than the model: {counts}")

    def get(self, name: str | None) -> Served:
        """A model; the first where none is named."""
        if name is None:
            return next(iter(self.models.values()))
        found = self.models.get(name)
        if found is None:
            raise RefusedError(f"no model is called {shown(name)}; there are {', '.join(self.models)}", "model", 404)
        return found

    def listed(self) -> list[dict[str, Any]]:
        """All of them, in a few words."""
        return [{**served.told, "default": i == 0} for i, served in enumerate(self.models.values())]

    async def watch(self) -> None:
        """Look at the files, again and again."""
        while True:
            await asyncio.sleep(PERIOD)
            for source in self.sources:
                await self.refresh(source)

    async def refresh(self, source: Source) -> None:
        """Load a model again if its file, or its data's, changed, and has stayed the same since the last look."""
        stamps = await asyncio.to_thread(source.stamps)
        steady, self._seen[source.name] = stamps == self._seen[source.name], stamps
        if not steady or stamps == self._loaded[source.name]:
            return
        same_data = stamps[1] == self._loaded[source.name][1]
        self._loaded[source.name] = stamps
        try:
            served = await asyncio.to_thread(source.load, self.models[source.name].data if same_data else None)
            self.models[source.name], self.problems[source.name] = served, None
            self.loads.labels(source.name, "ok").inc()
            self.journal.write("model loaded", model=source.name)
        except Exception as error:  # whatever is wrong with a file, the server goes on
            what = f"could not be loaded ({type(error).__name__})"
            self.problems[source.name] = f"its file changed, and {what}; it is served as before"
            self.loads.labels(source.name, "failed").inc()
            self.journal.failed("model not loaded", error, model=source.name)
