"""Which parts of a run are done, and of what question: `Manifest`; see `parts`, which makes them, for what it promises."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from ifonly.model.errors import InputError

__all__ = ["Manifest", "replacing", "sum_of"]

VERSION = 3
MANIFEST = "_manifest.json"


@dataclass
class Manifest:
    """Which parts are done, and of what."""

    work: Path
    asked: dict[str, Any]
    parts: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = False

    @classmethod
    def begin(cls, work: Path, asked: dict[str, Any], out: Path, *, overwrite: bool) -> "Manifest":
        """That of an earlier run of the same question, or a new one."""
        file = work / MANIFEST
        if file.exists():
            try:
                return cls._read(file).continued(asked, out)
            except InputError:
                if not overwrite:
                    raise
            shutil.rmtree(work)
        elif out.exists() and not overwrite and (out.is_file() or any(out.iterdir())):
            raise InputError(f"{out} is there already; choose another name, or overwrite=True")
        elif work.is_dir() and any(work.iterdir()):
            raise InputError(f"{work} is there already and is not of ours; choose another name")
        work.mkdir(parents=True, exist_ok=True)
        manifest = cls(work, asked)
        manifest._write()
        return manifest

    @classmethod
    def _read(cls, file: Path) -> "Manifest":
        """What an earlier run wrote, if that is what is there."""
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
            if stored.pop("sha256") != _digest(stored) or stored["version"] != VERSION:
                raise ValueError
            return cls(file.parent, stored["question"], stored["parts"], stored["complete"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{file} is damaged, or of another version of ifonly; start again with overwrite=True") from None

    def continued(self, asked: dict[str, Any], out: Path) -> "Manifest":
        """What is there to go on from: the parts before the first that is not what was written."""
        if self.asked != asked:
            raise InputError(
                f"{self.work} was begun with another question or input: it differs in {_difference(self.asked, asked)}. "
                "Go on with the same, or start again with overwrite=True"
            )
        listed = zip(self.files, self.parts, strict=True)
        whole = len(list(takewhile(lambda pair: sum_of(pair[0]) == pair[1]["sha256"], listed)))
        if whole == len(self.parts):
            return self
        if self.complete and self.work == out:
            raise InputError(
                f"{out} was complete, and {self.files[whole].name} is no longer what was written: it was damaged or changed. "
                "Choose another name, or start again with overwrite=True"
            )
        return Manifest(self.work, asked, self.parts[:whole])

    @property
    def rows(self) -> int:
        """How many rows are done."""
        return sum(part["rows"] for part in self.parts)

    def file(self, i: int) -> Path:
        """That of part ``i``."""
        return self.work / f"part-{i:06d}.parquet"

    @property
    def files(self) -> list[Path]:
        """Those of all parts that are done."""
        return [self.file(i) for i in range(len(self.parts))]

    def add(self, part: dict[str, Any]) -> None:
        """List one more part; its bad rows are counted from its first."""
        self.parts.append(part | {"bad": [(self.rows + row, reason) for row, reason in part["bad"]]})
        self._write()

    def finish(self) -> None:
        """All parts are there."""
        self.complete = True
        self._write()

    def _write(self) -> None:
        stored: dict[str, Any] = {"version": VERSION, "complete": self.complete, "question": self.asked, "parts": self.parts}
        stored["sha256"] = _digest(stored)
        with replacing(self.work / MANIFEST) as temporary:
            temporary.write_text(json.dumps(stored, indent=1, ensure_ascii=False), encoding="utf-8")


def sum_of(path: Path) -> str | None:
    """SHA-256 of a file; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _digest(stored: Mapping[str, Any]) -> str:
    """SHA-256 of what a manifest says."""
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside another to write to; it takes the other's place when it is whole and on the disk."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first argument that differs, in words."""
    name = next(name for name in [*new, *old] if old.get(name) != new.get(name))
    if name in ("model", "input"):
        return f"the {name}, which changed since"
    return f"{name}: {json.dumps(old.get(name), ensure_ascii=False)}, now {json.dumps(new.get(name), ensure_ascii=False)}"
