"""What a file says about its size: a small one cannot fill the memory, and a large one is read."""

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest
from helpers.libraries import needs

from ifonly import InputError, Model, load
from ifonly.model import formats

LITTLE = 2**26  # bytes that a refusal may take, where hundreds of megabytes or any number of gigabytes are announced
ZEROS = bytes(2**28 + 8)  # a little more than a small file may unpack to

# ---- files that say what they like about themselves ----


def npy(shape, dtype="<f8", body=b""):
    """An array in NumPy's format."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype, "fortran_order": False, "shape": shape})
    return out.getvalue() + body


def zipped(file, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(file, "w", compression, compresslevel=1) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def npz(members, compression=zipfile.ZIP_DEFLATED):
    return ".npz", lambda file: zipped(file, members() if callable(members) else members, compression)


def skops(members):
    return ".skops", lambda file: zipped(file, {"schema.json": "{}", **members()})


def sparse():
    """A sparse matrix as scipy saves it."""
    out = io.BytesIO()
    zipped(out, {"data.npy": npy((len(ZEROS),), "|i1", ZEROS)})
    return out.getvalue()


def wrong_directory(file):
    """An archive whose directory has another size for its member."""
    zipped(file, {"A.npy": npy((2, 2), body=bytes(32))})
    data = bytearray(file.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24  # where the size stands
    data[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    file.write_bytes(data)


def safetensors(index, body):
    text = json.dumps(index).encode()
    return ".safetensors", lambda file: file.write_bytes(len(text).to_bytes(8, "little") + text + body)


def as_json(entries):
    return ".json", lambda file: file.write_text(json.dumps(entries))


def ubjson(value):
    """A model of xgboost's, or how it would begin."""
    return ".ubj", lambda file: file.write_bytes(b"{L" + (7).to_bytes(8, "big") + b"learner" + value)


# ---- refused ----


K = 20_000
LABELS = ["x" * 10_000, *map(str, range(K - 1))]  # of which NumPy makes an array of 800 MB
OURS = {"format": "ifonly", "version": 1, "feature_names": None, "hard": False, "extra": {}}
UNFIT = "its array 'A.npy' of shape .* does not fit into the 32 bytes that it has"
BOMBS = {
    "zeros": (
        npz(lambda: {"A.npy": npy((2, len(ZEROS) // 16), "<f8", ZEROS)}),
        r"it would take 268,435,... bytes of memory, from [\d,]{9} in the file; save it without compression",
    ),
    "zeros in parts": (
        npz(lambda: {f"{i}.npy": npy((2**25,), "|i1", ZEROS[: 2**25]) for i in range(9)}),
        r"it would take 301,99.,... bytes",
    ),
    "a shape": (npz({"A.npy": npy((10**6, 10**6), body=bytes(32))}), UNFIT),
    "a shape, not packed": (npz({"A.npy": npy((2, 10**9), body=bytes(32))}, zipfile.ZIP_STORED), UNFIT),
    "a wide type": (npz({"A.npy": npy((1,), "<U99999999", bytes(32))}), UNFIT),
    "a type without width": (npz({"A.npy": npy((10**15,), "<U0")}), "does not fit into the 0 bytes that it has"),
    "a directory": ((".npz", wrong_directory), "it would take 4,294,967,294 bytes"),
    "bzip2": (
        npz({"A.npy": npy((2, 2), body=bytes(32))}, zipfile.ZIP_BZIP2),
        "its part 'A.npy' must be stored or deflated; it is packed in another way",
    ),
    "skops": (skops(lambda: {"1.npy": npy((len(ZEROS),), "|i1", ZEROS)}), "it would take 268,435,... bytes"),
    "skops, a shape": (skops(lambda: {"A.npy": npy((10**9,), body=bytes(32))}), UNFIT),
    "skops, an archive inside": (skops(lambda: {"1.npz": sparse()}), "it would take 268,435,... bytes"),
    "the same bytes many times": (
        safetensors(
            {str(i): {"dtype": "BF16", "shape": [2**20], "data_offsets": [0, 2**21]} for i in range(500)}, bytes(2**21)
        ),
        "its arrays do not fill the file",
    ),
    "one long label": (
        as_json({"A": [[0.0]] * K, "classes": LABELS}),
        "it would take 800,000,000 bytes of memory, .*; its longest class label has 10000 characters",
    ),
    "one long label in a header": (
        as_json({"A": [[0.0]] * K, "b": [0.0] * K, "ifonly": {**OURS, "classes": {"dtype": "str", "values": LABELS}}}),
        "its longest class label has 10000 characters",
    ),
    "text for weights": (as_json({"A": LABELS}), "A must be an array of numbers"),
    "a long array": (ubjson(b"[$d#L" + (10**8).to_bytes(8, "big")), "400000000 bytes are announced at byte 30 of 30"),
    "a long list": (ubjson(b"[#L" + (10**12).to_bytes(8, "big")), "1 bytes are announced at byte 28 of 28"),
    "a long text": (ubjson(b"SL" + (10**12).to_bytes(8, "big")), "1000000000000 bytes are announced"),
}


@pytest.mark.seconds
@pytest.mark.parametrize("what", BOMBS)
def test_what_would_fill_the_memory_is_refused_before_it_does(tmp_path, what):
    (suffix, write), message = BOMBS[what]
    if suffix == ".skops":
        needs("skops.io", "skops")
    write(tmp_path / f"m{suffix}")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message):
            load(tmp_path / f"m{suffix}")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LITTLE


# ---- read ----


def test_a_large_file_may_hold_a_large_model(tmp_path, rng, monkeypatch):
    """What counts beyond the first megabytes is what a file unpacks to in units of its own size."""
    A = rng.normal(size=(400, 300))
    sparse = np.where(rng.random(A.shape) < 0.9, 0.0, A)
    monkeypatch.setattr(formats, "UNPACKED_BYTES", 2**10)
    for suffix in formats.CONTAINERS:
        Model(A, A[:, 0]).save(tmp_path / f"m{suffix}")
        assert load(tmp_path / f"m{suffix}") == Model(A, A[:, 0])
    np.savez_compressed(tmp_path / "m.npz", A=sparse)
    assert load(tmp_path / "m.npz") == Model(sparse, np.zeros(400))
    np.savez_compressed(tmp_path / "m.npz", A=np.zeros_like(A))
    with pytest.raises(InputError, match="it would take 960,128 bytes of memory"):
        load(tmp_path / "m.npz")
    monkeypatch.undo()
    assert not load(tmp_path / "m.npz").A.any()  # a small model may be nothing but zeros


@pytest.mark.seconds
@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_head_that_is_mapped_from_a_file_comes_back_as_it_was_kept(tmp_path, rng, suffix):
    A = np.lib.format.open_memmap(tmp_path / "A.npy", "w+", np.float16, (512, 2**14))
    A[:] = rng.normal(size=A.shape)
    model = Model(A, np.zeros(512))
    assert np.shares_memory(model.A, A)  # not copied
    model.save(tmp_path / f"m{suffix}")
    found = load(tmp_path / f"m{suffix}").A
    assert (found.dtype, found.tobytes()) == (A.dtype, A.tobytes())
