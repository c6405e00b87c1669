"""Named arrays and one header, in a file: the format of `Model.save`, version 1, in three containers.

A file holds, whatever its suffix,

``A``, ``b``
    K×D and K numbers of float64; ``A`` of float32 or float16 where the model keeps it as such (very many classes).
``shift``, ``scale``, ``rough``
    D numbers each, only where the model has a scaling: the classifier sees ``(x − shift) / scale``.
``ifonly``
    The header, a JSON object: ``format`` ("ifonly"), ``version`` (1), ``classes`` (``dtype``, and ``values``, which for the
    dtype "object" are pairs of a type's name and a value), ``feature_names`` (strings, or null), ``hard`` (whether there are
    only scores), ``extra`` (what it takes to read the model right, where there is more: ``encoding``, its columns, and
    ``precision``, how coarsely its estimator rounds, ``log_space``, whether it subtracts logarithms for its probabilities; an
    unknown key is an error) and ``digest`` (SHA-256 of everything else; a file made by hand may leave it out).

=================  ========================================================================================================
``.npz``           NumPy's zip archive, one member per name; the header is a string (``np.load(path)["ifonly"].item()``).
``.safetensors``   Eight bytes with the length of a JSON index, the index, the arrays' bytes; the header is in its metadata.
``.json``          One object: arrays as nested lists, whose decimal numbers give back every bit; the header as it is.
=================  ========================================================================================================

None of them can hold code: nothing is unpickled, whatever is in the file. Nor can a small file fill the memory: what it would
unpack to is known from its directory and its arrays' own headers, and refused before anything of that size is made.
"""

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ifonly.model.errors import InputError, reading

__all__ = ["CONTAINERS", "DAMAGE", "HEADER", "VERSION", "check_archive", "check_header", "check_padded"]
__all__ += ["labels_from", "labels_to", "pack", "typed", "unpack", "untyped"]

VERSION = 1
HEADER = "ifonly"

Arrays = dict[str, np.ndarray]

# The types of numbers in a safetensors file. BF16 has no NumPy type: it is the upper half of a float32.
TENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1"}
# What the readers of containers raise where a byte is wrong.
BROKEN = (ValueError, LookupError, TypeError, AttributeError, EOFError, OSError, ArithmeticError, MemoryError, RuntimeError)
DAMAGE = (*BROKEN, zipfile.BadZipFile, zlib.error)

# A file may unpack to so many bytes whatever its size, and beyond to so many times its size. Weights are noise, which hardly
# shrinks; 32 leaves room for those that are nearly all zero. Zeros alone shrink a thousandfold: a small file fills a machine.
UNPACKED_BYTES, UNPACKED_TIMES = 2**28, 32

NUMBERS = ("|b1", "|i1", "|u1", *(f"<{kind}{size}" for kind in "iuf" for size in (2, 4, 8)))  # types of class labels
LABELS = {"str": str, "int": int, "float": float, "bool": bool}


def pack(suffix: str, arrays: Arrays, header: dict[str, Any]) -> bytes:
    """The bytes of a file with this suffix."""
    header = {"format": "ifonly", "version": VERSION, **header}
    header["digest"] = _digest(arrays, header)
    return CONTAINERS[suffix][0](arrays, header)


def unpack(path: Path, data: bytes) -> tuple[Arrays, dict[str, Any] | None]:
    """Arrays by name (or what else there is by name), and the header: None where the file is not of ours."""
    try:
        arrays, header = CONTAINERS[path.suffix.lower()][1](data)
        if header is not None:
            check_header(arrays, header)
    except InputError as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    except DAMAGE as error:
        what = str(error) or type(error).__name__
        raise InputError(f"{path} is damaged, or no {path.suffix} file ({what})") from None
    return arrays, header


def check_header(arrays: Arrays, header: Any) -> None:
    """Whether this version can read the file, and the file is as it was written."""
    version = header.get("version") if isinstance(header, dict) else None
    if not isinstance(version, int) or header.get("format") != "ifonly":
        raise InputError("its header is not that of an ifonly model")
    if version > VERSION:
        raise InputError(
            f"its format is version {version}, and this ifonly reads up to {VERSION}: pip install --upgrade ifonly"
        )
    try:
        damaged = "digest" in header and header["digest"] != _digest(arrays, header)
    except (TypeError, ValueError):
        damaged = True
    if damaged:
        raise InputError("it is damaged: its content is not what was written (the digest differs)")


def _digest(arrays: Arrays, header: dict[str, Any]) -> str:
    """SHA-256 of the arrays and of the header but for this."""
    found = hashlib.sha256()
    rest = {key: value for key, value in header.items() if key != "digest"}
    found.update(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        found.update(f"\n{name} {array.shape}\n".encode() + array.tobytes())
    return found.hexdigest()


# ---- labels ----


def labels_to(labels: np.ndarray) -> dict[str, Any]:
    """Class labels, with their type, as JSON."""
    if labels.dtype == object:
        return {"dtype": "object", "values": [typed(label, "the class") for label in labels.tolist()]}
    if labels.dtype.kind == "U":
        return {"dtype": "str", "values": labels.tolist()}
    stored = labels.dtype.newbyteorder("<").str
    nan = labels.dtype.kind == "f" and np.isnan(labels).any()
    if stored not in NUMBERS or nan:
        what = "NaN" if nan else labels.dtype
        raise InputError(f"classes of type {what} cannot be saved; expected strings, integers, floats or booleans")
    return {"dtype": stored, "values": labels.tolist()}


def labels_from(stored: Any) -> np.ndarray:
    """`labels_to`, back."""
    with reading("its class labels cannot be read", KeyError, TypeError, ValueError, OverflowError, RecursionError):
        values = stored["values"]
        if stored["dtype"] == "object":
            labels = np.empty(len(values), dtype=object)
            labels[:] = [untyped(value) for value in values]
            return labels
        if stored["dtype"] not in (*NUMBERS, "str"):
            raise ValueError(f"their type is {stored['dtype']!r}")
        check_padded(values)
        labels = np.array(values, dtype=stored["dtype"])
    if labels.ndim != 1 or labels.tolist() != values:
        raise InputError(f"its class labels are not of their type, {stored['dtype']}")
    return labels.astype(labels.dtype.newbyteorder("="), copy=False)


def typed(value: Any, what: str) -> list[Any]:
    """One value of a cell or a label, of any type, as [type, value]; ``what`` it is, for the message."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, tuple):
        return ["tuple", [typed(part, what) for part in value]]
    if value is None:
        return ["none", None]
    kind = type(value).__name__
    if type(value) is LABELS.get(kind):
        return [kind, value]
    raise InputError(
        f"{what} {value!r} cannot be saved; expected strings, integers, floats, booleans, None, or tuples of those; "
        f"got a {kind}"
    )


def untyped(stored: Any) -> Any:
    """`typed`, back."""
    kind, value = stored
    if kind == "tuple":
        return tuple(untyped(part) for part in value)
    if kind == "none":
        return None
    if type(value) is not LABELS[kind]:
        raise ValueError(f"{value!r} is no {kind}")
    return value


# ---- containers ----


def _to_npz(arrays: Arrays, header: dict[str, Any]) -> bytes:
    members = {name: np.asarray(array, dtype=f"<f{array.dtype.itemsize}") for name, array in arrays.items()}
    out = io.BytesIO()
    # The header first: a damaged directory loses members from the end, and without a header A and b would be bare weights.
    np.savez(out, allow_pickle=False, **{HEADER: np.array(json.dumps(header))}, **members)
    return out.getvalue()


def _from_npz(data: bytes) -> tuple[Arrays, dict[str, Any] | None]:
    check_archive(data)
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    text = arrays.pop(HEADER, None)
    return arrays, None if text is None else json.loads(str(text.item()))


def _to_safetensors(arrays: Arrays, header: dict[str, Any]) -> bytes:
    index: dict[str, Any] = {"__metadata__": {"format": "ifonly", HEADER: json.dumps(header)}}
    parts, end = [], 0
    for name, array in arrays.items():
        size = array.dtype.itemsize
        parts.append(np.ascontiguousarray(array, dtype=f"<f{size}").tobytes())
        index[name] = {"dtype": f"F{8 * size}", "shape": list(array.shape), "data_offsets": [end, end + len(parts[-1])]}
        end += len(parts[-1])
    text = json.dumps(index).encode()
    text += b" " * (-len(text) % 8)  # so that the arrays are aligned
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def _from_safetensors(data: bytes) -> tuple[Arrays, dict[str, Any] | None]:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError("its index is longer than the file")
    index = json.loads(data[8 : 8 + size])
    body = memoryview(data)[8 + size :]
    metadata = index.pop("__metadata__", {})
    if sum(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in index.values()) != len(body):
        raise ValueError("its arrays do not fill the file")
    arrays = {}
    for name, entry in index.items():
        if entry["dtype"] not in TENSORS:
            raise InputError(f"its array {name!r} is of type {entry['dtype']}; expected one of {', '.join(TENSORS)}")
        dtype, shape, (a, b) = np.dtype(TENSORS[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
        if not 0 <= a <= b <= len(body) or b - a != dtype.itemsize * math.prod(shape):
            raise ValueError(f"its array {name!r} of shape {shape} does not lie at bytes {a} to {b} of {len(body)}")
        array = np.frombuffer(body[a:b], dtype=dtype).reshape(shape)
        arrays[name] = (array.astype("<u4") << 16).view("<f4") if entry["dtype"] == "BF16" else array
    ours = metadata.get("format") == "ifonly" or HEADER in metadata
    return arrays, json.loads(metadata[HEADER]) if ours else None


def _to_json(arrays: Arrays, header: dict[str, Any]) -> bytes:
    return (json.dumps({HEADER: header, **{name: array.tolist() for name, array in arrays.items()}}) + "\n").encode()


def _from_json(data: bytes) -> tuple[Arrays, dict[str, Any] | None]:
    found = json.loads(data)
    if not isinstance(found, dict):
        raise InputError(f"expected a JSON object with arrays by name; got a {type(found).__name__}")
    header = found.pop(HEADER, None)
    return {name: _numbers(value) for name, value in found.items()}, header


def _numbers(value: Any) -> Any:
    """Lists of numbers as an array; anything else (labels, names, documents) as it is."""
    array = np.array(value) if isinstance(value, list) and not _has_text(value) else None
    return value if array is None or array.dtype.kind not in "iuf" else array


def _has_text(values: list[Any]) -> bool:
    """Whether there is text in nested lists, of which NumPy would make an array as wide as the longest."""
    kinds = set(map(type, values))
    return str in kinds or (list in kinds and any(_has_text(part) for part in values if type(part) is list))


Container = tuple[Callable[[Arrays, dict[str, Any]], bytes], Callable[[bytes], tuple[Arrays, dict[str, Any] | None]]]
CONTAINERS: dict[str, Container] = {
    ".npz": (_to_npz, _from_npz),
    ".safetensors": (_to_safetensors, _from_safetensors),
    ".json": (_to_json, _from_json),
}


# ---- how much would it be? ----


def check_archive(data: bytes, most: int | None = None) -> int:
    """How many bytes a zip archive unpacks to, if that is no more than ``most`` and every array is as large as it says.

    An archive in it, such as a sparse matrix of scipy's, counts as well with what it unpacks to.
    """
    is_inner = most is not None
    most = most if is_inner else max(UNPACKED_BYTES, UNPACKED_TIMES * len(data))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        if size > most:
            _refuse(size, len(data), "save it without compression")
        for member in members:
            # Of these two no more is unpacked than the directory says; other methods may give any amount at once.
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"its part {member.filename!r} must be stored or deflated; it is packed in another way")
            with archive.open(member) as file:
                first = file.read(len(np.lib.format.MAGIC_PREFIX))
                file.seek(0)
                if first == np.lib.format.MAGIC_PREFIX:
                    _check_array(member.filename, file, member.file_size)
                elif first.startswith(b"PK") and not is_inner:
                    size += check_archive(file.read(), most - size)
    return size


def _check_array(name: str, file: Any, size: int) -> None:
    """Whether an array in NumPy's format is as large as its file has room for."""
    version = np.lib.format.read_magic(file)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in headers:
        raise ValueError(f"its array {name!r} is of version {version}; expected one of {sorted(headers)}")
    shape, _, dtype = headers[version](file)
    if dtype.hasobject:
        return  # a pickle, which NumPy refuses to open
    there = size - file.tell()
    if not dtype.itemsize or math.prod(shape) * dtype.itemsize != there:
        raise ValueError(
            f"its array {name!r} of shape {shape} and type {dtype} does not fit into the {there} bytes that it has"
        )


def check_padded(labels: Any) -> None:
    """Whether a list of labels may become an array, in which each text takes as much room as the longest."""
    lengths = [len(label) for label in labels if isinstance(label, str)] if isinstance(labels, list) else []
    padded, there = 4 * len(lengths) * max(lengths, default=0), 4 * sum(lengths)
    if padded > max(UNPACKED_BYTES, UNPACKED_TIMES * there):
        _refuse(padded, there, f"its longest class label has {max(lengths)} characters")


def _refuse(size: int, there: int, hint: str) -> NoReturn:
    raise InputError(f"it would take {size:,} bytes of memory, from {there:,} in the file; {hint}")
