"""The data sets and classifiers of the paper's appendix A, from wherever they can be had.

A file is looked for in ``$IFONLY_DATA``, then in ``../shared/data`` beside the checkout; MNIST and RCV1 are otherwise fetched
by scikit-learn. Classifiers are trained as the paper's, with scikit-learn's defaults, and kept in ``experiments/.cache``.

The paper's VGG features are not to be had. DeepFeat64 and DeepFeat320 stand in for VGGFeat64 and VGGFeat256: another
ImageNet network's last convolutional layer, 16 ImageNet classes.
"""

import gzip
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import ifonly

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "experiments" / ".cache"
BESIDE = ROOT.parent / "shared" / "data"
VARIABLE = "IFONLY_DATA"
SEED = 0

SOFTMAX = ("MNIST", "DeepFeat64", "RCV1", "DeepFeat320")  # figure 1 and most others; in order of K·D
HUNDRED = "MNIST-100"  # appendix D
BINARY = tuple(f"{name} K=2" for name in SOFTMAX)

ORIGIN = {
    "mnist": "MNIST's four idx files (train-images-idx3-ubyte.gz, …), as at https://ossci-datasets.s3.amazonaws.com/mnist/",
    "rcv1": "RCV1-v2 as scikit-learn's fetch_rcv1 downloads it, the documents with one second-level topic",
    "deep": "a classifier (A, b, classes) on, and rows X of, the last convolutional layer of an ImageNet-trained network",
    "models": "a classifier trained on MNIST (A, b); it is trained anew where it is missing",
}
PAIRS_PER_CLASS = {"train": 600, "test": 100}  # MNIST-100
TOYS = False  # whether `load` gives small random data sets in place of the real ones …
TOY = 5, 12, 2  # … of so many classes, features and rows
SECOND_HALF = 26  # RCV1 K=2: classes 0–25 against the rest

Rows = np.ndarray | sparse.csr_array


class DataMissingError(FileNotFoundError):
    """A file that is neither at hand nor to be fetched; says where to get it and where to put it."""


class Split(NamedTuple):
    """Rows as they are stored, in multiples of ``unit``, and their labels."""

    X: Rows
    y: np.ndarray


class Data(NamedTuple):
    """A data set; ``unit`` is what stored values are multiplied with."""

    train: Split
    test: Split
    unit: float = 1.0


@dataclass(frozen=True)
class Dataset:
    """A classifier, the training rows to take sources from, and how often the classifier errs, in per cent."""

    name: str
    model: ifonly.Model
    pool: Rows
    unit: float
    train_error: float
    test_error: float
    n_train: int
    n_test: int

    def source(self, i: int) -> np.ndarray:
        """Training row i, as the classifier sees it."""
        row = self.pool[[i]]
        return (row.toarray() if sparse.issparse(row) else row)[0].astype(np.float64) * self.unit


def folders() -> list[Path]:
    """Where files are looked for, in this order."""
    given = os.environ.get(VARIABLE)
    return [*([Path(given)] if given else []), BESIDE]


def look_for(*parts: str) -> Path | None:
    """A data file, or None."""
    return next((path for folder in folders() if (path := folder.joinpath(*parts)).exists()), None)


def find(*parts: str) -> Path:
    """A data file, or an error that says where to get it."""
    path = look_for(*parts)
    if path is None:
        raise missing(*parts)
    return path


def missing(*parts: str, why: str = "") -> DataMissingError:
    """The error for a file that is nowhere."""
    looked = ", ".join(f"{folder}" for folder in folders())
    return DataMissingError(
        f"{'/'.join(parts)} is not in {looked}{why}. It holds {ORIGIN[parts[0]]}. "
        f"Put it under a folder of your choice and set {VARIABLE} to that folder."
    )


def fetched(parts: tuple[str, ...], fetch: Callable[[], Any]) -> Any:
    """What a scikit-learn fetcher brings, or the error for the missing file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its retries
            return fetch()
    except OSError as error:
        raise missing(*parts, why=f", and could not be fetched ({error})") from error


@cache
def mnist() -> Data:
    """The digits, 28×28, as bytes."""
    if look_for("mnist", "train-images-idx3-ubyte.gz") is None:
        from sklearn.datasets import fetch_openml

        fetch = partial(fetch_openml, "mnist_784", version=1, as_frame=False)
        X, y = (a.astype(np.uint8) for a in fetched(("mnist", "train-images-idx3-ubyte.gz"), partial(fetch, return_X_y=True)))
        return Data(Split(X[:60_000], y[:60_000]), Split(X[60_000:], y[60_000:]), 1 / 255)

    def read(kind: str, offset: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress(find("mnist", f"{kind}-ubyte.gz").read_bytes()), np.uint8, offset=offset)

    train, test = (
        Split(read(f"{part}-images-idx3", 16).reshape(-1, 784), read(f"{part}-labels-idx1", 8)) for part in ("train", "t10k")
    )
    return Data(train, test, 1 / 255)


@cache
def pairs() -> Data:
    """MNIST-100, appendix D: two digits side by side, 28×56, of class 10i + j."""
    digits = mnist()
    return Data(
        side_by_side(digits.train, PAIRS_PER_CLASS["train"], SEED),
        side_by_side(digits.test, PAIRS_PER_CLASS["test"], SEED + 1),
        digits.unit,
    )


def side_by_side(digits: Split, per_class: int, seed: int) -> Split:
    """So many random pairs of each of the 100 classes."""
    rng = np.random.default_rng(seed)
    of = [np.flatnonzero(digits.y == digit) for digit in range(10)]
    y = np.repeat(np.arange(100), per_class)
    left, right = (digits.X[[rng.choice(of[d]) for d in half]].reshape(-1, 28, 28) for half in divmod(y, 10))
    return Split(np.concatenate([left, right], axis=2).reshape(-1, 1568), y)


@cache
def rcv1_rows() -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    """Newswire, TF-IDF, documents with one second-level topic: rows, topics, and which rows are for training."""
    path = look_for("rcv1", "rcv1_multiclass.npz")
    if path is not None:
        stored = np.load(path)
        parts = stored["data"].astype(np.float64), stored["indices"].astype(np.int32), stored["indptr"]
        return sparse.csr_array(parts, shape=tuple(stored["shape"])), stored["y"], stored["half"] == 0
    from sklearn.datasets import fetch_rcv1

    bunch = fetched(("rcv1", "rcv1_multiclass.npz"), fetch_rcv1)
    rows, y = one_topic(bunch.target, list(bunch.target_names))
    return sparse.csr_array(bunch.data[rows]), y, rows < 23_149  # the chronological split of Lewis et al.


@cache
def rcv1() -> Data:
    """The same, with the classes that have training documents numbered from 0."""
    X, y, train = rcv1_rows()
    classes = np.unique(y[train])
    known = np.isin(y, classes)  # a class that has no training document cannot be learned
    X, y, train = X[known], np.searchsorted(classes, y[known]), train[known]
    return Data(Split(X[train], y[train]), Split(X[~train], y[~train]))


def one_topic(topics: sparse.csr_matrix, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Which documents have one topic at the second level of RCV1's hierarchy, and which.

    A code's first three characters are its second level (``C151`` belongs to ``C15``), but for the words of GCAT, which are
    second-level themselves; CCAT, ECAT, GCAT and MCAT are the first level.
    """
    codes = [name if name[1:2].isalpha() else name[:3] for name in names]
    second = sorted({code for code in codes if not code.endswith("CAT")})
    belongs = sparse.csr_array(np.array([[code == topic for topic in second] for code in codes], dtype=np.int64))
    has = ((sparse.csr_array(topics).astype(np.int64) @ belongs) > 0).astype(np.int64)
    rows = np.flatnonzero(has.sum(axis=1) == 1)
    return rows, has[rows].indices


def trained(name: str, data: Data, n_iter: int, dtype: type = np.float64) -> Dataset:
    """The data set with scikit-learn's softmax or logistic regression (C = 1), from the cache if it is there."""
    from sklearn.linear_model import LogisticRegression

    (X, y), _, unit = data
    recipe = f"LogisticRegression(max_iter={n_iter}), {dtype.__name__}, {len(y)} rows"
    file = CACHE / f"{name.replace(' ', '-')}.npz"
    if not file.exists() or str(np.load(file)["recipe"]) != recipe:
        print(f"training {name} (once)", file=sys.stderr, flush=True)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that n_iter iterations are not the end
            fitted = LogisticRegression(max_iter=n_iter).fit(X.astype(dtype) * dtype(unit), y)
        A, b = fitted.coef_.astype(np.float64), fitted.intercept_.astype(np.float64)
        if len(b) == 1:
            A, b = np.stack([np.zeros_like(A[0]), A[0]]), np.array([0.0, b[0]])
        CACHE.mkdir(exist_ok=True)
        np.savez(file, A=A, b=b, recipe=recipe, seconds=time.perf_counter() - start)
    stored = np.load(file)
    return described(name, ifonly.Model(stored["A"], stored["b"]), data)


def described(name: str, model: ifonly.Model, data: Data) -> Dataset:
    """The data set with a classifier and its errors."""

    def error(part: Split) -> float:
        pieces = [slice(i, i + 10_000) for i in range(0, len(part.y), 10_000)]
        hits = sum(int((model.predict(part.X[piece] * data.unit) == part.y[piece]).sum()) for piece in pieces)
        return 100 * (1 - hits / len(part.y))

    return Dataset(
        name, model, data.train.X, data.unit, error(data.train), error(data.test), len(data.train.y), len(data.test.y)
    )


def relabelled(data: Data, group: Callable[[np.ndarray], np.ndarray]) -> Data:
    """The same rows in two groups of classes."""
    return data._replace(train=Split(data.train.X, group(data.train.y)), test=Split(data.test.X, group(data.test.y)))


def deep(name: str, side: int, binary: bool) -> Dataset:
    """DeepFeat64 and DeepFeat320: classifiers that come trained, with their errors."""
    stored = np.load(find("deep", f"deepfeat{side}{'-binary' * binary}.npz"))
    pool = np.load(find("deep", f"deepfeat{side}-sources.npz"))["X"]
    errors = float(stored["train_error"]), float(stored["test_error"])
    return Dataset(name, ifonly.Model(stored["A"], stored["b"]), pool, 1.0, *errors, 8000, 0)


def toy(name: str) -> Dataset:
    """Random numbers, sparse for RCV1, in place of the data set of that name."""
    rng = np.random.default_rng(SEED)
    K, D, n = TOY
    A, X = rng.normal(size=(2 if name in BINARY else K, D)), rng.normal(size=(n, D))
    pool = sparse.csr_array(np.maximum(X, 0.0)) if name.startswith("RCV1") else X
    return Dataset(name, ifonly.Model(A, np.zeros(len(A))), pool, 1.0, 0.0, 0.0, n, 0)


@cache
def load(name: str) -> Dataset:
    """The data set of that name, of `SOFTMAX`, `HUNDRED` or `BINARY`."""
    if TOYS:
        return toy(name)
    base, _, two = name.partition(" ")
    if base.startswith("DeepFeat"):
        return deep(name, int(base.removeprefix("DeepFeat")), bool(two))
    if base == "RCV1":
        return trained(name, relabelled(rcv1(), lambda y: (y >= SECOND_HALF).astype(int)) if two else rcv1(), 300)
    if base == HUNDRED:
        return trained(name, pairs(), 200, np.float32)
    if two:
        return trained(name, relabelled(mnist(), lambda y: y % 2), 1000, np.float32)
    ready = look_for("models", "mnist.npz")  # four minutes of training
    if ready is None:
        return trained(name, mnist(), 1000)
    stored = np.load(ready)
    return described(name, ifonly.Model(stored["A"], stored["b"]), mnist())
