"""`write_parts`: from file to file in bounded memory, in parts that a killed run need not make again.

The work lies in a folder of its own (``OUT.parquet.parts`` for ``OUT.parquet``; OUT itself where that is a folder): parts, each
of some chunks of the input, and ``_manifest.json``, which lists those that are done and says of what question they are parts. A
part has as many chunks as take a few seconds, so that whatever stops a run costs no more than that. It is written under another
name and renamed, and only then listed; so is the manifest, and so is the file that they are put together to. Whatever is killed
when, what is listed is whole. Chunks begin at the same rows in any run, so that a resumed run computes the same numbers, to the
last bit, as one that was never stopped.

Disks fail too. The manifest has the SHA-256 of every part and of itself, and a run that goes on checks them all. A part that is
not what was written is made again, and so are those after it. A manifest that is not what was written no longer says of what
question its parts are, and is refused; so is a folder that was complete and has changed since, for it is the user's.

Parts are made side by side, one per thread, from rows that one thread reads in order, and listed in order.
"""

import hashlib
import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count, islice, takewhile
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Literal

import numpy as np

from ifonly.api import ask
from ifonly.engines.threads import available
from ifonly.frames.arrow import ipc, pa, parquet, pc
from ifonly.frames.inverting import Inverter, chunks, in_order
from ifonly.frames.reading import files_of, needed, open_batches
from ifonly.model.errors import InputError
from ifonly.model.store import fingerprint

__all__ = ["BadRow", "Written", "write_parts"]

VERSION = 3  # of the manifest
MANIFEST = "_manifest.json"
PART_CHUNKS = 4  # full chunks in a part at most; a part is a row group of the file
PART_SECONDS = 2.0  # that the chunks of a part should take: what a run that is stopped may lose on each thread
SHOWN = 20  # bad rows that are kept with their reasons; all of them are in the output


@dataclass(frozen=True)
class BadRow:
    """A row of the input that could not be answered: its number, from 0, and what is wrong with it."""

    row: int
    reason: str


@dataclass(frozen=True)
class Written:
    """What a run of `write_parts` did.

    Attributes
    ----------
    path : Path
        The file or folder.
    rows : int
        How many there are in it.
    resumed : int
        How many of them earlier runs had written.
    statuses : dict of str to int
        How many rows have which status.
    bad : tuple of BadRow
        The first 20 INVALID rows.

    """

    path: Path
    rows: int
    resumed: int
    statuses: dict[str, int]
    bad: tuple[BadRow, ...]


def write_parts(
    model: Any,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    target: Any = None,
    *,
    keys: Sequence[str] | None = None,
    columns: Literal["changed", "all"] = "changed",
    prefix: str = "new_",
    chunk_rows: int | None = None,
    part_chunks: int | None = None,
    overwrite: bool = False,
    on_rows: Callable[[int], None] | None = None,
    **question: Any,
) -> Written:
    """`invert_batches` from a file (or folder) to a file (or folder); called again after a kill, it goes on where it stopped.

    Parameters
    ----------
    model, target, keys, columns, prefix, chunk_rows, **question
        As for :func:`invert_batches`.
    source : path
        As for :func:`open_batches`.
    out : path
        ``.parquet``, ``.csv`` or ``.arrow`` for one file, which appears when it is complete; without a suffix a folder of
        Parquet parts.
    part_chunks : int, optional
        Chunks in a part at most, by default what fits into memory; where they take long there are fewer, so that a part takes
        about two seconds. A killed run loses the parts that are being made, one per thread.
    overwrite : bool
        Whether an output that is there, or parts of another question, may be replaced.
    on_rows : callable, optional
        Called with the number of rows that are written so far, those of earlier runs included.

    Raises
    ------
    InputError
        If anything is wrong with the question or the columns; if ``out`` is there; if parts of another question are there:
        the message names what differs; if the manifest of an earlier run, or a folder that was complete, is damaged.

    """
    asking = ask(model, target, **question)
    source, out = Path(source), Path(out)
    suffix = out.suffix.lower()
    if suffix and suffix not in ASSEMBLE:
        raise InputError(f"out must end in {', '.join(ASSEMBLE)}, or have no suffix for a folder of parts; got {str(out)!r}")
    if out.resolve() == source.resolve():
        raise InputError(f"out is the input itself: {out}")
    threads = available(asking.question.threads)
    with open_batches(source, needed(asking.model, keys)) as reader:
        inverter = Inverter(asking, reader.schema, keys, columns, prefix)
        size = inverter.chunk_rows(chunk_rows)
        part_chunks = part_chunks or PART_CHUNKS * max(1, inverter.fitting // size)
        files = [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files_of(source)]
        asked = {"model": fingerprint(asking.model), "input": files, **json.loads(inverter.ask.question.to_json())}
        asked |= {"keys": inverter.features.keys, "columns": columns, "prefix": prefix}
        asked |= {"chunk_rows": size, "part_chunks": part_chunks}
        work = out.with_name(f"{out.name}.parts") if suffix else out
        manifest = Manifest.begin(work, asked, out, overwrite=overwrite)
        resumed = manifest.rows
        report = on_rows or (lambda _: None)
        report(resumed)
        if not manifest.complete:
            tables = chunks(reader, reader.schema, size, skip=resumed)
            pace = Pace(part_chunks, slow=inverter.slow)
            groups = iter(lambda: list(islice(tables, pace.chunks)), [])
            if not manifest.parts:  # an input of no rows has one part of no rows, with the columns
                groups = chain([next(groups, [])], groups)
            parts = zip(map(manifest.file, count(len(manifest.parts))), groups, strict=False)
            stop = Event()
            for part in in_order(lambda given: _part(*given, inverter, pace, stop), parts, threads, stop):
                manifest.add(part)
                report(manifest.rows)
            manifest.finish()
    if suffix:
        _assemble(manifest, inverter.schema, out, threads)
    statuses = sum((Counter(part["statuses"]) for part in manifest.parts), Counter[str]())
    bad = tuple(BadRow(row, reason) for part in manifest.parts for row, reason in part["bad"])[:SHOWN]
    return Written(out, manifest.rows, resumed, dict(sorted(statuses.items())), bad)


class Pace:
    """How many chunks the next part has: as many as take about two seconds, by how long the last ones took.

    Where rows are solved one by one (``slow``) the first part has one. How chunks are put into parts changes no number.
    """

    def __init__(self, most: int, *, slow: bool) -> None:
        self.most, self.chunks = most, 1 if slow else most

    def took(self, seconds: float, chunks: int) -> None:
        """So many chunks took so long."""
        fitting = int(PART_SECONDS * chunks / seconds) if seconds > 0 else self.most
        self.chunks = max(1, min(self.most, fitting))


def _part(file: Path, tables: list[Any], inverter: Inverter, pace: Pace, stop: Event) -> dict[str, Any]:
    """Solve some chunks and write a part; what the manifest says about it. Nothing, where the run stops meanwhile."""
    began = monotonic()
    batches = [inverter(table) for table in tables if not stop.is_set()]
    if stop.is_set():
        return {}
    pace.took(monotonic() - began, max(1, len(tables)))
    answers = pa.Table.from_batches(batches, schema=inverter.schema).combine_chunks()
    with replacing(file) as temporary:
        parquet.write_table(answers, temporary, row_group_size=max(1, len(answers)), use_dictionary=_repeating(answers.schema))
    status, reason = answers.column("status"), answers.column("reason")
    bad = np.flatnonzero(np.asarray(reason.is_valid()))[:SHOWN].tolist()
    return {
        "rows": len(answers),
        "sha256": sum_of(file),
        "statuses": {entry["values"]: entry["counts"] for entry in status.value_counts().to_pylist()},
        "bad": [(row, reason[row].as_py()) for row in bad],
    }


def _repeating(schema: Any) -> Any:
    """The columns whose values are worth a dictionary: all but floating-point numbers, of which hardly two are the same."""
    return [field.name for field in schema if not pa.types.is_floating(field.type)]


# ---- which parts are done, and of what question ----


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
        changed = next((name for name in [*asked, *self.asked] if asked.get(name) != self.asked.get(name)), None)
        if changed is not None:
            old, new = (json.dumps(question.get(changed), ensure_ascii=False) for question in (self.asked, asked))
            what = f"the {changed}, which changed since" if changed in ("model", "input") else f"{changed}: {old}, now {new}"
            raise InputError(
                f"{self.work} was begun with another question or input: it differs in {what}. "
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


def _assemble(manifest: Manifest, schema: Any, out: Path, threads: int) -> None:
    """Put the parts together under the name that was asked for, and remove them."""

    def read(file: Path) -> Any:
        return parquet.read_table(file, schema=schema, use_threads=False)

    # Rows are grouped as if every part were full: the file does not tell how long anything took.
    rows = manifest.asked["chunk_rows"] * manifest.asked["part_chunks"]
    with replacing(out) as temporary, ASSEMBLE[out.suffix.lower()](temporary, schema) as writer:
        for table in chunks(in_order(read, manifest.files, threads), schema, rows):
            writer.write_table(table)
    shutil.rmtree(manifest.work)


class CsvWriter(io.BufferedWriter):
    """A CSV whose texts have quotation marks only where they need them: an id 805 is written as it was read."""

    def __init__(self, path: Path, schema: Any) -> None:
        super().__init__(io.FileIO(path, "wb"))
        self.write_table(pa.table([[name] for name in schema.names], schema.names))

    def write_table(self, table: Any) -> None:
        """Write some rows; Arrow's own writer puts marks around every text, or around none."""
        if len(table):
            lines = pc.binary_join_element_wise(*map(_csv_cells, table.columns), ",")
            self.write(("\n".join(lines.to_pylist()) + "\n").encode())


SPECIAL = '[",\r\n]'  # what a text has that needs marks around it


def _csv_cells(column: Any) -> Any:
    """A column as it stands in a CSV; what is missing is empty."""
    column = column.combine_chunks()
    text = (column.dictionary_decode() if pa.types.is_dictionary(column.type) else column).cast(pa.string())
    marked = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.fill_null(pc.if_else(pc.match_substring_regex(text, SPECIAL), marked, text), "")


ASSEMBLE: dict[str, Callable[[Path, Any], Any]] = {
    ".parquet": lambda path, schema: parquet.ParquetWriter(path, schema, use_dictionary=_repeating(schema)),
    ".csv": CsvWriter,
    ".arrow": lambda path, schema: ipc.new_file(str(path), schema),
}
