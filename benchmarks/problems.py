"""Classifiers and sources of the sizes that are benchmarked: real ones from ../shared/data, else synthetic ones of that shape.

Problems are made as in the paper's appendix A: of every five, four go to the least probable class with a small λ and one to
the second most probable with a larger λ.
"""

import sys
import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import ifonly

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"  # what takes longer than a second to train
SEED = 0
SMALL = False  # whether `load` gives random classifiers of at most this size (D, K) in place of the real ones
TINY = 40, 8
sys.path.append(str(HERE.parent))  # for `experiments`, which reads the data sets

SHAPES = {"MNIST": (784, 10), "MNIST-100": (1568, 100), "RCV1": (47236, 51), "deep64": (8192, 16), "deep320": (131072, 16)}
LAMS = {"deep64": (0.001, 0.006), "deep320": (0.001, 0.006)}  # farthest, second; λ of the paper's appendix A elsewhere
PAIRS = 200, 60  # MNIST-100: pairs per class, and how many of them are trained on


class Problems(NamedTuple):
    X: np.ndarray | sparse.csr_array
    target: np.ndarray
    lam: np.ndarray


@dataclass(frozen=True)
class Case:
    name: str
    model: ifonly.Model
    pool: np.ndarray | sparse.csr_array  # sources to draw from, in whatever type they are stored
    unit: float = 1.0  # what the pool is multiplied with

    def draw(self, n: int, *, mixed: bool = True) -> Problems:
        """``n`` problems of appendix A; without ``mixed``, all to the farthest class."""
        rng = np.random.default_rng(SEED)
        X = self.pool[rng.integers(self.pool.shape[0], size=n)].astype(np.float64)
        if self.unit != 1.0:
            X *= self.unit
        order = self.model.logits(X).argsort(axis=1)
        near = np.arange(n) % 5 == 4 if mixed else np.zeros(n, dtype=bool)
        far_lam, near_lam = LAMS.get(self.name.removesuffix(" K=2"), (0.01, 0.1))
        return Problems(X, np.where(near, order[:, -2], order[:, 0]), np.where(near, near_lam, far_lam))

    @cached_property
    def estimator(self) -> LogisticRegression:
        """The same classifier as scikit-learn has it, for its ``predict_proba``."""
        A, b = self.model.A, self.model.b
        estimator = LogisticRegression()
        two = len(b) == 2
        estimator.coef_, estimator.intercept_ = (A[1:] - A[:1], b[1:] - b[:1]) if two else (A, b)
        estimator.classes_, estimator.n_features_in_ = np.arange(len(b)), A.shape[1]
        return estimator


@cache
def load(name: str, binary: bool = False) -> Case:
    """The case of that name: K classes, or two groups of them."""
    title = f"{name} K=2" if binary else name
    if SMALL:
        return synthetic(title, *(min(pair) for pair in zip(SHAPES[name], TINY, strict=True)), binary)
    from experiments import datasets

    if not any(folder.is_dir() for folder in datasets.folders()):
        print(f"note: {title} is synthetic (no ../shared/data here)", file=sys.stderr)
        return synthetic(title, *SHAPES[name], binary)
    if name.startswith("deep"):
        stored = np.load(datasets.find("deep", f"deepfeat{name[4:]}{'-binary' * binary}.npz"))
        sources = np.load(datasets.find("deep", f"deepfeat{name[4:]}-sources.npz"))["X"]
        return Case(title, ifonly.Model(stored["A"], stored["b"]), sources)
    if name == "RCV1":
        X, y, train = datasets.rcv1_rows()
        options = {"C": 10, "max_iter": 200, "tol": 1e-3}
        labels = np.unique(y[train], return_inverse=True)[1]
        return Case(title, _trained(title, X[train], labels > 25 if binary else labels, options), X)
    if name == "MNIST" and not binary:
        stored = np.load(datasets.find("models", "mnist.npz"))
        return Case(title, ifonly.Model(stored["A"], stored["b"]), datasets.mnist().train.X, 1 / 255)
    digits = datasets.mnist().train
    images, labels = digits if name == "MNIST" else datasets.side_by_side(digits, PAIRS[0], SEED)
    some = np.arange(len(labels)) % PAIRS[0] < PAIRS[1]
    classes = labels % 2 if binary else labels  # even against odd
    return Case(title, _trained(title, images[some] / 255, classes[some], {"max_iter": 50}), images, 1 / 255)


def synthetic(title: str, D: int, K: int, binary: bool = False, n: int = 2000) -> Case:
    """Random rows whose logits differ by some units; sparse sources in place of RCV1's."""
    rng = np.random.default_rng(SEED)
    A = rng.standard_normal((2 if binary else K, D)) * 10 / np.sqrt(D)
    if title.startswith("RCV1"):
        filled = min(67, D // 2)
        pool = sparse.random_array((n, D), density=filled / D, format="csr", rng=rng) * np.sqrt(D / filled)
    else:
        pool = rng.random((min(n, 2**25 // D), D))
    return Case(title, ifonly.Model(A, rng.standard_normal(len(A))), pool)


def _trained(title: str, X: np.ndarray, y: np.ndarray, options: dict) -> ifonly.Model:
    file = CACHE / f"{title.replace(' ', '-')}.npz"
    if not file.exists():
        print(f"training {title} (once)", file=sys.stderr)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few iterations are meant
            fitted = LogisticRegression(**options).fit(X, y)
        A, b = fitted.coef_, fitted.intercept_
        if len(b) == 1:
            A, b = np.stack([0 * A[0], A[0]]), np.array([0, b[0]])
        CACHE.mkdir(exist_ok=True)
        np.savez(file, A=A, b=b)
    stored = np.load(file)
    return ifonly.Model(stored["A"], stored["b"])
