"""`load`: a model from a file, whoever wrote it; what runs code when it is opened only on request. And its `fingerprint`."""

import hashlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.model import LinearWeights, Model, Scaling
from ifonly.model.columns import Encoding
from ifonly.model.errors import IfonlyError, InputError, reading
from ifonly.model.formats import CONTAINERS, DAMAGE, check_archive, check_padded, labels_from, unpack
from ifonly.model.numerics import EPS
from ifonly.model.readers import as_model, boosted, graph, liblinear

__all__ = ["canonical", "fingerprint", "load"]

PICKLES = (".pkl", ".pickle", ".joblib")
WEIGHTS = (("A", "b"), ("weight", "bias"), ("coef_", "intercept_"))  # ours, PyTorch's, scikit-learn's
CLASSES = ("classes", "classes_")
NAMES = ("feature_names", "feature_names_in_")
UNDERSTOOD = (
    ".npz, .safetensors and .json (what Model.save writes, or weights as A and b, weight and bias, or coef_ and intercept_), "
    ".json and .ubj of xgboost, a model file of LIBLINEAR, .onnx, .skops, and with trust=True .pkl, .pickle and .joblib"
)
ELSEWHERE = {
    (".pt", ".pth", ".bin", ".ckpt"): "load the module with torch and pass it to as_model, or save its weights as .safetensors",
    (".keras", ".h5"): "load it with keras and pass its last layer to as_model",
}


def load(path: str | os.PathLike[str], *, trust: bool = False) -> Model:
    """A model from a file: one that :meth:`Model.save` wrote, or another library's.

    Parameters
    ----------
    path : path
        By its suffix:

        * ``.npz``, ``.safetensors``, ``.json``: what :meth:`Model.save` writes, to the last bit; or weights alone, named ``A``
          and ``b``, ``weight`` and ``bias``, or ``coef_`` and ``intercept_`` (one row is a logistic regression, the biases may
          be missing), with ``classes`` and ``feature_names`` if you like;
        * ``.json``, ``.ubj``: a model that xgboost saved, of ``booster="gblinear"``;
        * ``.onnx``: a graph with a ``LinearClassifier``, perhaps after a ``Scaler``;
        * ``.skops``: a scikit-learn estimator that :func:`as_model` understands, of types that skops trusts;
        * ``.pkl``, ``.pickle``, ``.joblib``: whatever :func:`as_model` understands, with ``trust=True`` only;
        * any suffix: a model file of LIBLINEAR, with two classes and a logistic solver (or with scores only).
    trust : bool
        Whether the file may run code. Opening a pickle runs whatever its author put there, before anything can be checked, so
        pickles are not opened without this. For ``.skops`` it allows types that skops does not know.

    Returns
    -------
    Model

    Raises
    ------
    InputError
        If the file is damaged, of a later version, of an unknown kind, not opened without ``trust``, or a small one that would
        fill the memory: one that unpacks to more than 256 MB and 32 times its size, or an array larger than its file.
    UnsupportedModelError
        If what is in it is not a linear softmax.

    Examples
    --------
    >>> import ifonly, tempfile
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.5], classes=["no", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.json")
    ...     ifonly.load(f"{folder}/model.json") == model
    True

    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in PICKLES and not trust:
        raise InputError(
            f"{path} is a pickle, and opening a pickle runs whatever code its author put into it. If you know where it comes "
            "from: load(path, trust=True). Better: save models with Model.save, or estimators with skops"
        )
    data = path.read_bytes()
    entries, header = unpack(path, data) if suffix in CONTAINERS else ({}, None)
    try:
        if header is not None:
            return _own(entries, header)
        if "learner" in entries:
            return boosted.from_json(entries, lambda: boosted.margins_at_zero(_booster(data)))
        return _weights(entries) if suffix in CONTAINERS else _others(suffix, data, trust)
    except IfonlyError as error:
        raise type(error)(f"{path}: {error}") from None


# ---- ours, and bare weights ----


def _own(entries: dict[str, Any], header: dict[str, Any]) -> Model:
    """What `Model.save` wrote."""
    try:
        extra = dict(header["extra"])
        labels, names, hard = header["classes"], header["feature_names"], bool(header["hard"])
        precision, log_space = float(extra.pop("precision", EPS)), bool(extra.pop("log_space", False))
        A, b = entries.pop("A"), entries.pop("b")
        scaling = Scaling(*(entries.pop(name) for name in ("shift", "scale", "rough"))) if "shift" in entries else None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"it is damaged: {error} is missing or wrong") from None
    columns = extra.pop("encoding", None)
    encoding = None if columns is None else Encoding.from_dict(columns)
    unknown = [*extra, *entries]
    if unknown:
        raise InputError(f"it has {unknown[0]!r}, which this version of ifonly does not know: pip install --upgrade ifonly")
    if scaling is not None and not all(part.shape == np.shape(A)[1:] for part in (scaling.shift, scaling.scale)):
        raise InputError(f"it is damaged: A has shape {np.shape(A)}, its scaling {scaling.shift.shape}")
    if not 0 < precision < 1:
        raise InputError(f"it is damaged: its precision must be between 0 and 1; got {precision}")
    found = Model(A, b, labels_from(labels), names, scaling=scaling, encoding=encoding, hard=hard, precision=precision)
    found.log_space = log_space
    return found


def _weights(entries: Mapping[str, Any]) -> Model:
    """Bare weights, by any of the names that they go by."""
    left = dict(entries)
    classes = next((left.pop(name) for name in CLASSES if name in left), None)
    names = next((left.pop(name) for name in NAMES if name in left), None)
    layers = [name.removesuffix("weight") for name in left if name.endswith(".weight")]
    only = [(f"{layer}weight", f"{layer}bias") for layer in layers if len(layers) == 1]  # of a PyTorch module
    pair = next((pair for pair in (*WEIGHTS, *only) if pair[0] in left), None)
    if pair is None:
        wanted = ", ".join(" and ".join(pair) for pair in WEIGHTS)
        raise InputError(f"it has no weights by a name that is understood ({wanted}); it has {sorted(left)[:10]}")
    A = np.atleast_2d(_array(left.pop(pair[0]), pair[0]))
    b = np.atleast_1d(_array(left.pop(pair[1]), pair[1])) if pair[1] in left else np.zeros(len(A))
    if left:
        raise InputError(f"beside {pair[0]} and {pair[1]} it has {sorted(left)[0]!r}, which may change what they mean")
    labels = classes if classes is None or isinstance(classes, list) else np.asarray(classes)
    check_padded(labels)
    return LinearWeights(A, b, labels).model(names)


def _array(values: Any, name: str) -> NDArray[np.floating]:
    array = np.asarray(None if isinstance(values, list) else values)  # a list that is still one has more than numbers in it
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must be an array of numbers; got {array.dtype}")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


# ---- other libraries ----


def _others(suffix: str, data: bytes, trust: bool) -> Model:
    """What other libraries wrote, in formats of their own."""
    if data.startswith(liblinear.MAGIC):
        return liblinear.read(data)
    match suffix:
        case ".onnx":
            onnx = _library("onnx", ".onnx")
            with reading("it is damaged, or no ONNX file", import_module("google.protobuf.message").DecodeError):
                return graph.read(onnx, onnx.load_model_from_string(data).graph)
        case ".skops":
            return as_model(_from_skops(data, trust))
        case ".ubj":
            return boosted.from_json(boosted.from_ubjson(data), lambda: boosted.margins_at_zero(_booster(data)))
        case ".pkl" | ".pickle" | ".joblib":
            assert trust, "a pickle is not opened without trust"
            with reading("it is damaged, or no pickle", pickle.UnpicklingError, EOFError, zipfile.BadZipFile):
                found = _library("joblib", suffix).load(io.BytesIO(data)) if suffix == ".joblib" else pickle.loads(data)
            return as_model(found)
    hint = next((f" For this one: {how}." for suffixes, how in ELSEWHERE.items() if suffix in suffixes), "")
    raise InputError(f"the file is of no kind that is understood.{hint} Understood are {UNDERSTOOD}")


def _from_skops(data: bytes, trust: bool) -> Any:
    skops = _library("skops.io", ".skops")
    with reading("it is damaged, or no skops file", *DAMAGE):
        check_archive(data)
        unknown = skops.get_untrusted_types(data=data)
        if unknown and not trust:
            raise InputError(
                f"it has types that skops does not trust: {', '.join(unknown[:5])}. If you know where the file comes from: "
                "load(path, trust=True)"
            )
        return skops.loads(data, trusted=unknown)


def _booster(data: bytes) -> Any:
    xgboost = _library("xgboost", "this file", "xgboost-cpu")
    booster = xgboost.Booster()
    try:
        booster.load_model(bytearray(data))
    except xgboost.core.XGBoostError as error:
        raise InputError(f"it is damaged, or no model of xgboost's ({str(error).strip().splitlines()[-1]})") from None
    return booster


def _library(name: str, what: str, package: str | None = None) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        package = package or name.split(".", maxsplit=1)[0]
        raise ImportError(f"reading {what} needs {package}: pip install {package}") from error


# ---- what tells models apart ----


def fingerprint(model: Model) -> str:
    r"""What tells a model from all others: SHA-256 of its weights, labels, names, scaling and encoding.

    The hash is over, in this order: a JSON object with sorted keys and no spaces, of ``classes`` (their representations in
    Python), ``feature_names``, ``hard`` and ``encoding`` (as :meth:`ifonly.Model.save` writes it; of documents, the words);
    then for each of ``A``, ``b`` and, where the model has a scaling, ``shift`` and ``scale``: a line with its name and shape
    (``\nA (3, 4)\n``) and its numbers as little-endian float64, row by row. −0.0 counts as 0.0.
    """
    names, encoding = model.feature_names, model.encoding
    header = {"classes": list(map(repr, model.classes.tolist())), "feature_names": names, "hard": model.hard}
    found = hashlib.sha256(canonical({**header, "encoding": encoding.names if encoding.text else encoding.to_dict()}))
    arrays = {"A": model.A, "b": model.b}
    if model.scaling is not None:
        arrays |= {"shift": model.scaling.shift, "scale": model.scaling.scale}
    for name, array in arrays.items():
        found.update(f"\n{name} {array.shape}\n".encode())
        for part in (block for _, block in model.blocks()) if name == "A" else (array,):
            found.update(np.ascontiguousarray(part + 0.0, dtype="<f8").tobytes())
    return f"sha256:{found.hexdigest()}"


def canonical(data: Any) -> bytes:
    """JSON in the one way in which it is hashed."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
