"""`open_batches`: Parquet, CSV, Arrow IPC and whole data sets as a stream of record batches, a few megabytes at a time.

`Features` makes of a chunk of them what the model takes: numbers, categories, and which rows are of no use and why.
"""

import csv as text_csv
import io
import os
from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from ifonly.frames.arrow import csv, ipc, pa, parquet, pc
from ifonly.model import Model
from ifonly.model.columns import Column
from ifonly.model.errors import InputError
from ifonly.model.extras import needing
from ifonly.model.numerics import Floats

__all__ = ["BAD_LINE", "Features", "count_rows", "files_of", "needed", "open_batches"]

BATCH_ROWS = 16384
READ_BYTES = 2**20  # of each column of a Parquet file, and of a CSV, at once
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
FORMATS |= dict.fromkeys((".arrow", ".ipc", ".feather"), "ipc")
PACKED = (".gz", ".bz2", ".zst")  # CSV only: the other formats compress inside

# A CSV's cells are handed on as text, so that one bad cell is one bad row and no key loses its leading zeros. The column that
# is added says what is wrong with a line; where it is there, `invert_batches` reads numbers from text.
BAD_LINE = "ifonly.bad_line"
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # what a CSV has where there is no number
NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)


def open_batches(path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, batch_rows: int = BATCH_ROWS) -> Any:
    r"""A file or a folder of files as a stream of record batches, in order and in bounded memory.

    Parameters
    ----------
    path : path
        ``.parquet``, ``.csv`` (``.tsv``, and either with ``.gz``, ``.bz2`` or ``.zst``), ``.arrow`` (``.ipc``, ``.feather``;
        file or stream format), or a folder of Parquet, CSV or IPC files, Hive partitions (``day=7/``) included.
    columns : sequence of str, optional
        Only these, in this order. Others are not decoded.
    batch_rows : int
        At most so many rows in a batch.

    Returns
    -------
    pyarrow.RecordBatchReader
        The columns of a CSV are text as it stands there; :func:`invert_batches` reads the numbers. A line with the wrong number
        of cells is a row of nulls, and the column ``ifonly.bad_line`` says so.

    Raises
    ------
    InputError
        If the file is of no kind that is understood, is damaged, or lacks a column.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "people.csv")
    ...     _ = file.write_text("id,age,income\n007,31,1200\n008,44,900\n")
    ...     open_batches(file, ["id", "income"]).read_all().column("id").to_pylist()
    ['007', '008']

    """
    stream = _read(Path(path), None if columns is None else [str(name) for name in columns], batch_rows)
    return pa.RecordBatchReader.from_batches(next(stream), stream)


def _read(path: Path, wanted: Sequence[str] | None, batch_rows: int) -> Iterator[Any]:
    """The schema, then the batches; what goes wrong says in which file, and what to do where that is known."""
    try:
        yield from READERS[_format(path)](path, wanted, batch_rows)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        what = f"cannot be read: {str(error).strip().splitlines()[0]}"
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error):
            odd = f" (it has the byte {error.object[error.start]:#x})" if isinstance(error, UnicodeDecodeError) else ""
            what = f"is in another encoding than UTF-8{odd}: save it as UTF-8"
        raise InputError(f"{path} {what}") from None


def count_rows(path: str | os.PathLike[str]) -> int | None:
    """How many rows there are, where that is known without reading them all; of a CSV, its lines; None where neither is."""
    path = Path(path)
    match _format(path):
        case "parquet":
            return parquet.read_metadata(path).num_rows
        case "csv" if path.suffix.lower() not in PACKED:
            with path.open("rb") as file:
                return max(0, sum(block.count(b"\n") for block in iter(lambda: file.read(READ_BYTES), b"")) - 1)
        case "folder":
            counts = [count_rows(file) for file in files_of(path)]
            return None if None in counts else sum(count or 0 for count in counts)
    return None


def files_of(path: Path) -> list[Path]:
    """The files that are read, in order."""
    if not path.is_dir():
        return [path]
    files = (file for file in path.rglob("*") if file.is_file())
    notes = (".", "_")  # names that begin so are what data sets take for notes of their own
    found = sorted(file for file in files if not any(part.startswith(notes) for part in file.relative_to(path).parts))
    if not found:
        raise InputError(f"{path} has no files")
    return found


def _format(path: Path) -> str:
    if path.is_dir():
        return "folder"
    suffix = path.suffix.lower()
    if suffix in PACKED and FORMATS.get(path.with_suffix("").suffix.lower()) == "csv":
        suffix = path.with_suffix("").suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path}: a table is {', '.join(FORMATS)} or a folder of those; got {path.suffix or 'no suffix'!r}")
    if not path.exists():
        raise InputError(f"{path} does not exist")
    return FORMATS[suffix]


def _check(path: Path, wanted: Sequence[str] | None, there: Sequence[str]) -> list[str]:
    """The columns to read: all that were asked for, each of which the file has once."""
    names = list(there) if wanted is None else list(wanted)
    for name in names:
        if there.count(name) != 1:
            what = f"no column {name!r}" if name not in there else f"the column {name!r} more than once"
            raise InputError(f"{path} has {what}; its columns are {', '.join(there[:20])}{' …' if len(there) > 20 else ''}")
    return names


# ---- one file: its schema, then its batches ----


def _parquet(path: Path, wanted: Sequence[str] | None, batch_rows: int) -> Iterator[Any]:
    # Not through `pyarrow.dataset`, which holds whole row groups, several at once: a file may be a single one.
    with parquet.ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False) as file:
        names = _check(path, wanted, file.schema_arrow.names)
        yield pa.schema([file.schema_arrow.field(name) for name in names])
        for batch in file.iter_batches(batch_rows, columns=names, use_threads=False):
            yield batch.select(names)


def _ipc(path: Path, wanted: Sequence[str] | None, batch_rows: int) -> Iterator[Any]:
    with path.open("rb") as file:
        is_file = file.read(6) == b"ARROW1"
    open_ = ipc.open_file if is_file else ipc.open_stream
    with pa.OSFile(str(path)) as source, open_(source) as reader:
        whole = reader.schema
    names = _check(path, wanted, whole.names)
    yield pa.schema([whole.field(name) for name in names])
    options = ipc.IpcReadOptions(included_fields=sorted(whole.get_field_index(name) for name in names))
    with pa.OSFile(str(path)) as source, open_(source, options=options) as reader:
        parts = (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader
        for part in parts:
            yield from _cut(part.select(names), batch_rows)


def _cut(batch: Any, rows: int) -> Iterator[Any]:
    return (batch.slice(a, rows) for a in range(0, len(batch), rows))


def _csv(path: Path, wanted: Sequence[str] | None, batch_rows: int) -> Iterator[Any]:
    header, delimiter, has_rows = _header(path)
    names = _check(path, wanted, header)
    text = pa.string()
    schema = pa.schema([(name, text) for name in (*names, BAD_LINE)])
    yield schema
    if not has_rows:
        return
    wrong: list[tuple[int, str]] = []  # (row, what is wrong with its line) of lines that were left out

    def note(row: Any) -> str:
        cells = f"{row.actual_columns} cell{'s'[: row.actual_columns != 1]}"
        insort(wrong, (row.number - 2, f"the line has {cells}, the header {row.expected_columns}"))  # line 1 is the header
        return "skip"

    with pa.input_stream(str(path), compression="detect") as stream:
        reader = csv.open_csv(
            stream,
            read_options=csv.ReadOptions(use_threads=False, block_size=READ_BYTES),  # rows have numbers on one thread only
            parse_options=csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note),
            convert_options=csv.ConvertOptions(
                include_columns=names, column_types=dict.fromkeys(names, text), strings_can_be_null=True, null_values=[""]
            ),
        )
        end = pa.record_batch([pa.nulls(0, text)] * len(names), names)
        done = 0
        for batch in chain(reader, [end]):
            whole = _with_bad_lines(batch, schema, wrong, done, last=batch is end)
            done += len(whole)
            yield from _cut(whole, batch_rows)


def _with_bad_lines(batch: Any, schema: Any, wrong: list[tuple[int, str]], done: int, *, last: bool) -> Any:
    """A batch of good lines, with a row of nulls for each bad one where it stood; ``done`` rows came before."""
    size = len(batch)
    # Of those that are in this batch: how many good lines of it come before, and what is wrong.
    here = [(place - k - done, why) for k, (place, why) in enumerate(wrong) if last or place - k - done <= size]
    if not here:
        return pa.record_batch([*batch.columns, pa.nulls(size, pa.string())], schema=schema)
    del wrong[: len(here)]
    at = np.clip([before for before, _ in here], 0, size)
    rows = np.insert(np.arange(size), at, -1)
    what = np.insert(np.full(size, None), at, [why for _, why in here])
    good = batch.take(pa.array(rows, mask=rows < 0))
    return pa.record_batch([*good.columns, pa.array(what, pa.string())], schema=schema)


def _header(path: Path) -> tuple[list[str], str, bool]:
    """The names in a CSV's first line, what separates them, and whether anything follows."""
    with pa.input_stream(str(path), compression="detect") as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        first = lines.readline()
        if not first.strip():
            raise InputError(f"{path} is empty: expected a line with the names of its columns")
        delimiter = "\t" if ".tsv" in path.suffixes else ";" if ";" in first and "," not in first else ","
        names = next(text_csv.reader([first], delimiter=delimiter))
        has_rows = any(line.strip() for line in iter(lines.readline, ""))
        lines.detach()
    return names, delimiter, has_rows


def _folder(path: Path, wanted: Sequence[str] | None, batch_rows: int) -> Iterator[Any]:
    files = files_of(path)
    kinds = {_format(file) for file in files}
    if len(kinds) > 1:
        raise InputError(f"{path} has files of several formats: {', '.join(sorted(kinds))}")
    values = {file: _partition(file.relative_to(path)) for file in files}
    keys = values[files[0]]
    with open_batches(files[0], batch_rows=batch_rows) as reader:
        first = reader.schema
    own = [name for name in first.names if name not in (BAD_LINE, *keys)]
    names = _check(path, wanted, [*own, *keys])
    inside = [name for name in names if name in own]
    fields = [first.field(name) if name in own else pa.field(name, pa.string()) for name in names]
    schema = pa.schema([*fields, first.field(BAD_LINE)] if kinds == {"csv"} else fields)
    yield schema
    for file in files:
        with open_batches(file, inside, batch_rows=batch_rows) as reader:
            for name in inside:
                found, expected = reader.schema.field(name).type, first.field(name).type
                if found != expected:
                    raise InputError(f"{file}: column {name!r} is {found}, but {expected} in the data set's first file")
            for batch in reader:
                cells = dict(zip(batch.schema.names, batch.columns, strict=True))
                cells |= {key: pa.repeat(pa.scalar(value, pa.string()), len(batch)) for key, value in values[file].items()}
                yield pa.record_batch([cells[name] for name in schema.names], schema=schema)


def _partition(relative: Path) -> dict[str, str | None]:
    """The columns that stand in a file's path, as Hive writes them: ``day=7/part.parquet``."""
    pairs = [part.split("=", 1) for part in relative.parts[:-1] if "=" in part]
    return {key: None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value) for key, value in pairs}


READERS = {"parquet": _parquet, "csv": _csv, "ipc": _ipc, "folder": _folder}


# ---- what the model takes ----


def needed(model: Model, keys: Sequence[str] | None) -> list[str] | None:
    """The columns to read where there is a choice: the keys and the features; None for all of them."""
    names = _names_of(model)
    return None if keys is None or names is None else list(dict.fromkeys([*map(str, keys), *names]))


def _names_of(model: Model) -> list[str] | None:
    """The columns that a model reads; None where its features have no names."""
    encoding = model.encoding
    if encoding.text:
        raise InputError("a model of documents reads text, not columns; use ifonly.invert")
    if encoding.identity:
        by_place = model.feature_names is None
    else:
        by_place = all(name == f"x{i}" for i, name in enumerate(encoding.names))  # a pipeline that was fitted on an array
    return None if by_place else [column.name for column in model.columns]


class Features:
    """The model's columns of a table, ``names`` in its order (what they are: ``columns``), and the ``keys`` to hand through."""

    def __init__(self, model: Model, schema: Any, keys: Sequence[str] | None) -> None:
        self.model, self.columns = model, model.columns
        self.text = BAD_LINE in schema.names
        there = [name for name in schema.names if name != BAD_LINE]
        names = _names_of(model)
        if names is None:
            left = [name for name in there if name not in (keys or ())]
            count = model.n_features if model.encoding.identity else len(model.encoding.names)
            if len(left) != count:
                raise InputError(
                    f"the model's {count} features have no names, so all columns but the keys are taken for them; "
                    f"there are {len(left)}: {', '.join(left[:20])}"
                )
            names = [left[column.place] for column in self.columns]
        self.names = names
        self.keys = [name for name in there if name not in self.names] if keys is None else list(map(str, keys))
        for name in (*self.names, *self.keys):
            if there.count(name) != 1:
                what = "missing" if name not in there else "there more than once"
                role = "feature" if name in self.names else "key"
                raise InputError(f"column {name!r} (a {role}) is {what}; the columns are {', '.join(there[:20])}")
        for name, column in zip(self.names, self.columns, strict=True):
            _check_type(name, column, schema.field(name).type, self.text)

    def read(self, table: Any) -> tuple[Any, dict[int, str]]:
        """What the model takes (an array, or a frame where it has an encoding), and the rows that are no good."""
        bad: dict[int, str] = {}
        if self.text:
            lines = table.column(BAD_LINE)
            bad = {int(row): lines[int(row)].as_py() for row in np.flatnonzero(lines.is_valid().to_numpy())}
        values: dict[str, Any] = {}
        for name, column in zip(self.names, self.columns, strict=True):
            cells = _plain(table.column(name))
            values[column.name] = _numbers(cells, name, column, bad) if column.numeric else _levels(cells, column, self.text)
        if self.model.encoding.identity:
            return np.column_stack(list(values.values())), bad
        with needing("tables for a model with categories need pandas", "frames"):
            import pandas as pd
        # The columns the model was fitted on; those it never looks at are empty.
        found = dict.fromkeys(self.model.encoding.names, np.full(len(table), None, dtype=object)) | values
        return pd.DataFrame({name: pd.Series(v, dtype=v.dtype) for name, v in found.items()}), bad


def _check_type(name: str, column: Column, kind: Any, text: bool) -> None:
    """Whether a column of this type can be a feature; numbers are not read from text unless it comes from a CSV."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(test(value) for test in NUMBERS) and not (_is_text(value) and (text or not column.numeric)):
        wanted = "numbers" if column.numeric else f"one of {list(column.levels)[:10]}"
        raise InputError(f"column {name!r} must be {wanted}; it is {kind}")


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _plain(cells: Any) -> Any:
    """One array, dictionaries decoded, decimals as floats."""
    cells = cells.combine_chunks()
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_decimal(cells.type):
        return cells.cast(pa.float64())
    return cells.cast(pa.string()) if _is_text(cells.type) else cells


def _numbers(cells: Any, name: str, column: Column, bad: dict[int, str]) -> Floats:
    """A column of numbers, missing ones as NaN; rows where it is no number, or missing where it must not be, are bad."""
    if _is_text(cells.type):
        trimmed = pc.utf8_trim_whitespace(cells)
        cells = pc.if_else(pc.is_in(trimmed, value_set=pa.array(MISSING)), pa.scalar(None, pa.string()), trimmed)
    try:
        values = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # some text is no number: which?
        values = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells.to_pylist()):
            try:
                values[row] = pa.scalar(cell, pa.string()).cast(pa.float64()).as_py()
            except pa.ArrowInvalid:
                bad.setdefault(row, f"{name} is {cell!r}, no number")
    for row in np.flatnonzero(~np.isfinite(values) if column.fill is None else np.isinf(values)).tolist():
        bad.setdefault(row, f"{name} is {values[row] if cells[row].is_valid else 'missing'}")
    return values


def _levels(cells: Any, column: Column, text: bool) -> NDArray[np.object_]:
    """A column of categories or ordinals; text of a CSV is taken for the level that is written so."""
    values = cells.to_pylist()
    if text:
        known = dict.fromkeys(MISSING) | {str(level): level for level in column.levels}
        known |= {str(float(level)): level for level in column.levels if isinstance(level, (int, float, np.number))}
        values = [known.get(v, v) for v in values]
    return np.array(values, dtype=object)
