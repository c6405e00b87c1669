"""The models by name, and their files: one that changes is loaded beside the old one and takes its place.

Requests hold on to the model they began with, so that a change drops none of them. A file that cannot be read leaves the old
model where it is; the log, the counters and ``/readyz`` say so.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ifonly
from ifonly.model.errors import InputError
from ifonly.server.data import Data
from ifonly.server.models import Served
from ifonly.server.refusals import RefusedError
from ifonly.server.wire import shown

__all__ = ["Shelf", "Source"]

PERIOD = 1.0  # seconds between two looks at the files
Stamp = tuple[int, int, int] | None


@dataclass(frozen=True)
class Source:
    """Where a model comes from.

    Attributes
    ----------
    name : str
    path : Path
        The model's file.
    data : Path, optional
        Rows to choose from.
    keys : sequence of str, optional
        The columns that name a row, where the data have them; by default all that are no features.
    image : (H, W), optional
        The shape of the image that the features are, where the model has as many.

    """

    name: str
    path: Path
    data: Path | None = None
    keys: Sequence[str] | None = None
    image: tuple[int, int] | None = None

    def stamps(self) -> tuple[Stamp, Stamp]:
        """What tells a file from what it was before."""
        return _stamp(self.path), None if self.data is None else _stamp(self.data)

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
        served = Served(self.name, model, data, self.image if pixels else None)
        served.warm()
        return served


def _stamp(path: Path) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Shelf:
    """The models that are served.

    Parameters
    ----------
    sources : sequence of Source
        The first is meant where a request names none.
    told : callable
        Is told of every change of a file: the model's name, and what is wrong with it, or None.

    """

    def __init__(self, sources: Sequence[Source], told: Callable[[str, Exception | None], Any]) -> None:
        self.sources, self.told = {source.name: source for source in sources}, told
        self._seen = {source.name: source.stamps() for source in sources}  # at the last look
        self._loaded = dict(self._seen)  # at the last attempt to load
        self.models = {source.name: source.load() for source in sources}
        self.problems: dict[str, str | None] = dict.fromkeys(self.models)
        self._check()

    def _check(self) -> None:
        """Whether everything that was asked for is good for some model."""
        source = next(iter(self.sources.values()))
        there = {name for served in self.models.values() if served.data is not None for name in served.data.schema.names}
        for key in source.keys or ():
            if key not in there:
                raise InputError(f"there is no column {key!r} in the data")
        if source.image is not None and not any(served.image for served in self.models.values()):
            counts = ", ".join(f"{served.name} has {served.model.n_features}" for served in self.models.values())
            raise InputError(f"an image of {source.image[0]}x{source.image[1]} has other features than the model: {counts}")

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
        first = next(iter(self.models))
        return [{"name": s.name, "fingerprint": s.fingerprint, "default": s.name == first} for s in self.models.values()]

    async def watch(self) -> None:
        """Look at the files, again and again."""
        while True:
            await asyncio.sleep(PERIOD)
            for source in self.sources.values():
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
            self.told(source.name, None)
        except Exception as error:  # whatever is wrong with a file, the server goes on
            self.problems[source.name] = (
                f"its file changed, and could not be loaded ({type(error).__name__}); it is served as before"
            )
            self.told(source.name, error)
