"""The fixed classifier: a linear softmax.

    p(x) = softmax(A x + b),        A: K×D,  b: K

and, for a wanted class k, a source x̄ and λ > 0, the objective of the paper (eq. 2) with its derivatives (eqs. 3, 4)

    E(x)   = (λ/2)‖x − x̄‖² − ln p_k(x)
    ∇E(x)  = λ(x − x̄) + Āᵀp(x)                     Ā = A − 1 a_kᵀ
    ∇²E(x) = λI + Āᵀ(diag p − p pᵀ)Ā

What the solvers need of ``A`` and ``b``, and how large things are that round, is in `products`, a part of the model. How the
user's rows become numbers is in `columns`; each model has one of those.
"""

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ifonly.model.columns import Column, Encoding
from ifonly.model.errors import InputError, reading
from ifonly.model.formats import CONTAINERS, labels_to, pack
from ifonly.model.numerics import EPS, Floats, frozen, log_sum_exp, softmax
from ifonly.model.products import Products, borrowed
from ifonly.model.tensors import plain
from ifonly.model.words import PLAIN, Words

__all__ = ["LinearWeights", "Model", "Scaling"]


@dataclass(frozen=True)
class Scaling:
    """The map from the user's units to the ones the classifier sees: ``(x − shift) / scale``."""

    shift: Floats
    scale: Floats
    rough: Any = None  # Σ|shift| of all scalers on the way, in x's units: they may cancel in shift, but each rounds

    def __post_init__(self) -> None:
        rough = np.abs(self.shift) if self.rough is None else self.rough
        for name, value in (("shift", self.shift), ("scale", self.scale), ("rough", rough)):
            object.__setattr__(self, name, frozen(np.array(value, dtype=np.float64)))

    def __call__(self, x: Any) -> Any:
        """``x`` (dense, or sparse where nothing is shifted) in the classifier's units."""
        if isinstance(x, np.ndarray):
            return (x - self.shift) / self.scale
        return x.multiply(1 / self.scale).tocsr()

    def then(self, shift: Floats, scale: Floats) -> "Scaling":
        """The same, and after it ``(x − shift) / scale``."""
        on_top = self.scale * shift
        return Scaling(self.shift + on_top, self.scale * scale, self.rough + np.abs(on_top))

    @cached_property
    def offset(self) -> Floats:
        """How far the user's zero is from the classifier's, in the latter's units: what rounding x costs."""
        return frozen(np.abs(self.rough / self.scale))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scaling):
            return NotImplemented
        return np.array_equal(self.shift, other.shift) and np.array_equal(self.scale, other.scale)

    def __hash__(self) -> int:
        return hash(self.scale.tobytes())


class Model(Products):
    """A linear softmax classifier, ``p(x) = softmax(A x + b)``.

    Parameters
    ----------
    A : array_like of shape (K, D)
        One row of weights per class, K ≥ 2. Copied to float64, except for very many classes (K ≥ 400 and 64 MB): there float16,
        float32 and memory maps stay where and what they are, and are read in blocks. Everything is solved in float64.
    b : array_like of shape (K,)
        One bias per class.
    classes : sequence of K labels, optional
        What the classes are called; 0 … K−1 if not given.
    feature_names : sequence of D strings, optional
        What the features are called.
    scaling : Scaling, optional
        Set by :func:`ifonly.as_model` for a pipeline with a scaler: sources and answers are then in the units before
        it, while ``A``, ``b``, distances and the calculus below are in the space the classifier sees.
    encoding : Encoding or Documents, optional
        Set by :func:`ifonly.as_model` for a pipeline whose columns are not all plain numbers: sources and answers are then the
        user's own rows, and the features of ``A`` their coordinates (``job=skilled``).
    hard : bool
        Whether there are only scores, no probabilities: then :func:`ifonly.invert` takes ``margin``.
    precision : float
        How coarsely the estimator rounds that the model was read from: 1.2e-7 for float32. What ``prob`` promises is then
        promised in its arithmetic.

    Examples
    --------
    >>> model = Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0], classes=["a", "b", "c"])
    >>> model
    Model(K=3, D=2, classes=['a', 'b', 'c'])
    >>> model.predict([[2.0, 1.0], [-1.0, 0.0]]).tolist()
    ['a', 'c']

    """

    # The user's own model and the cost of a unit of each feature, where this one has its features in units of cost.
    origin: "tuple[Model, Floats] | None" = None
    # Whether p is worked out as exp(score − ln Σ exp), as naive Bayes does: rounding of a score is then one of p itself.
    log_space: bool = False
    words: Words = PLAIN  # what people call its columns and classes; no part of its value

    def __init__(
        self,
        A: ArrayLike,
        b: ArrayLike,
        classes: Sequence[Hashable] | np.ndarray | None = None,
        feature_names: Sequence[str] | None = None,
        *,
        scaling: Scaling | None = None,
        encoding: Encoding | None = None,
        hard: bool = False,
        precision: float = EPS,
    ) -> None:
        kept = borrowed(A)
        self.A = _read_only(A, "A", ndim=2) if kept is None else kept
        self.b = _read_only(b, "b", ndim=1)
        K, D = self.A.shape
        if K < 2:
            raise InputError(f"A must have at least 2 rows, one per class; got {K} (for one weight vector: Model.binary)")
        if D < 1:
            raise InputError("A must have at least 1 column, one per feature; got 0")
        if self.b.shape != (K,):
            raise InputError(f"b must have one entry per row of A, {K}; got {self.b.size}")
        self.classes = frozen(np.arange(K) if classes is None else _labels(classes, K))
        self._index: dict[Hashable, int] = {label: k for k, label in enumerate(self.classes.tolist())}
        if len(self._index) != K:
            raise InputError(f"classes must be distinct; got {self.classes.tolist()}")
        self.feature_names = names = None if feature_names is None else _names(feature_names, D)
        self.scaling = scaling
        self.encoding = Encoding(names or ()) if encoding is None or encoding.identity else encoding
        self.hard = hard
        self.precision = float(precision)
        self._per_target = {}
        self.memo: dict[str, Any] = {}  # what others worked out for this model and keep with it; no part of its value

    @classmethod
    def binary(
        cls,
        w: ArrayLike,
        w0: float,
        classes: Sequence[Hashable] | np.ndarray | None = None,
        feature_names: Sequence[str] | None = None,
        *,
        scaling: Scaling | None = None,
        encoding: Encoding | None = None,
        hard: bool = False,
        precision: float = EPS,
    ) -> "Model":
        """A logistic regression with one weight vector, as in section 4 of the paper.

        The sign is the paper's and scikit-learn's: ``p(second class) = 1/(1 + exp(−(wᵀx + w0)))``, so ``w`` points
        from ``classes[0]`` towards ``classes[1]`` (``w = a₂ − a₁``, ``w0 = b₂ − b₁``).
        """
        weights = np.asarray(w)
        if weights.ndim != 1:
            raise InputError(f"w must be one vector of D weights; got an array of shape {weights.shape}")
        rows = np.stack([np.zeros_like(weights), weights])
        return cls(rows, [0.0, w0], classes, feature_names, scaling=scaling, encoding=encoding, hard=hard, precision=precision)

    def worded(self, words: Words) -> "Model":
        """The same model, of which people read in these words; all that was worked out for it is shared."""
        known = self.memo.get("worded")
        if known is None or known.words != words:
            known = object.__new__(type(self))
            vars(known).update(vars(self), words=words, memo={})
            self.memo["worded"] = known
        return known

    # ---- what everybody asks of a classifier (in the user's units) ----

    @cached_property
    def n_classes(self) -> int:
        """K, the number of classes."""
        return self.A.shape[0]

    @cached_property
    def n_features(self) -> int:
        """D, the number of features."""
        return self.A.shape[1]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The user's columns that the classifier sees, in its order: those of the encoding, or a number per feature."""
        numbers = (Column(d, self.feature_label(d), "number", d) for d in range(self.n_features))
        return self.encoding.columns or tuple(numbers)

    def logits(self, X: Any) -> Floats:
        """``A x + b`` for one row or many."""
        z = self.scores(self.coordinates(X))
        return z[0] if self.encoding.single(X) else z

    def coordinates(self, X: Any) -> Any:
        """The user's rows as numbers, one per column of ``A``."""
        return self.encoding.read(X)

    def scores(self, V: Any) -> Floats:
        """``A x + b`` from :meth:`coordinates`, one row or many."""
        if type(V) is np.ndarray and V.dtype == self.A.dtype == np.float64 and V.shape[-1] == self.n_features:
            return (V if self.scaling is None else self.scaling(V)) @ self.A.T + self.b
        if not hasattr(V, "tocsr"):
            V = np.asarray(plain(V), dtype=np.float64)
        self.check_width(V)
        X = self.to_classifier(V)
        return (X @ self.A.T if hasattr(X, "tocsr") else self.times(X)) + self.b

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of all K classes, for one row or many."""
        if self.hard:
            raise InputError("this model has scores but no probabilities; see logits and predict")
        return softmax(self.logits(X))

    def predict(self, X: Any) -> Any:
        """The most probable class's label, for one row or many."""
        return self.classes[self.logits(X).argmax(axis=-1)]

    def to_classifier(self, X: Any) -> Any:
        """Points in the user's units, in those that the classifier sees."""
        return X if self.scaling is None else self.scaling(X)

    def to_user(self, change: Floats) -> Floats:
        """A change in the classifier's units, in the user's."""
        return change if self.scaling is None else change * self.scaling.scale

    def check_width(self, X: Any) -> None:
        """Whether rows can be this model's: as wide as ``A``, and dense where its scaler shifts them."""
        if X.shape[-1] != self.n_features:
            raise InputError(f"x must have {self.n_features} features; got {X.shape[-1]}")
        if hasattr(X, "tocsr") and self.scaling is not None and self.scaling.shift.any():
            raise InputError("a sparse x cannot pass a scaler that shifts the features (with_mean=True); pass a dense x")

    def class_index(self, label: Hashable) -> int:
        """The row of ``A`` that belongs to a label."""
        plain = label.item() if isinstance(label, np.generic) else label
        try:
            return self._index[plain]
        except (KeyError, TypeError):
            known = ", ".join(repr(c) for c in self.classes[:20].tolist()) + (", …" if self.n_classes > 20 else "")
            raise InputError(f"unknown class {plain!r}; the model's classes are {known}") from None

    def feature_index(self, name: Hashable) -> int:
        """The column of ``A`` that belongs to a feature's name, or to its number."""
        names = self.feature_names
        if isinstance(name, str):
            if names is not None and name in names:
                return names.index(name)
            if names is None:
                raise InputError(f"unknown feature {name!r}; the model's features have no names, only numbers")
            from difflib import get_close_matches

            known = tuple(dict.fromkeys((*self.encoding.names, *names)))
            near = get_close_matches(name, known, 3)
            hint = f"did you mean {near}?" if near else f"there are {list(known[:10])} …"
            raise InputError(f"unknown feature {name!r}; {hint}")
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < self.n_features:
            return int(name)
        raise InputError(f"a feature is a name or a number from 0 to {self.n_features - 1}; got {name!r}")

    def feature_key(self, text: str) -> str | int:
        """A feature that a text names, as `feature_index` takes it: a number, where the model has no names."""
        return int(text) if self.feature_names is None and self.encoding.identity and text.isdecimal() else text

    def feature_label(self, d: int) -> str:
        """A feature's name, or its number where it has none."""
        return str(d) if self.feature_names is None else self.feature_names[d]

    def feature_called(self, d: int) -> str:
        """A feature as people call it; one value of a category with the category's name, ``savings: unknown``."""
        label, words = self.feature_label(d), self.words
        column = next((c for c in self.encoding.columns if c.kind == "category" and d in c.coordinates), None)
        if column is None or column.name not in words.columns:
            return f"feature {label}" if label.isdigit() and label not in words.columns else words.name(label)
        return f"{words.name(column.name)}: {words.value(column.name, column.levels[column.labels.index(label)])}"

    def label(self, k: int) -> Hashable:
        """The label of a row of ``A``, as a plain Python value where it is one."""
        label = self.classes[k]
        return label.item() if isinstance(label, np.generic) else label

    # ---- the paper's calculus (in the classifier's space) ----

    def _at(self, x: ArrayLike, source: ArrayLike, target: Hashable) -> tuple[int, Floats, Floats]:
        """The target's row, how far x is from the source, and the logits there."""
        x = np.asarray(x, dtype=np.float64)
        return self.class_index(target), x - np.asarray(source, dtype=np.float64), self.times(x) + self.b

    def objective(self, x: ArrayLike, source: ArrayLike, target: Hashable, lam: float) -> float:
        """``E(x) = (λ/2)‖x − x̄‖² − ln p_k(x)``, eq. (2)."""
        k, step, z = self._at(x, source, target)
        return float(0.5 * lam * (step @ step) + log_sum_exp(z - z[k]))

    def gradient(self, x: ArrayLike, source: ArrayLike, target: Hashable, lam: float) -> Floats:
        """``∇E(x) = λ(x − x̄) + Āᵀp(x)``, eq. (3)."""
        k, step, z = self._at(x, source, target)
        p = softmax(z)
        p[k] = -np.delete(p, k).sum()  # Āᵀp = Aᵀ(p − e_k); p_k − 1 without cancellation
        return lam * step + self.combination(p)

    def hessian(self, x: ArrayLike, source: ArrayLike, target: Hashable, lam: float) -> Floats:
        """``∇²E(x) = λI + Āᵀ(diag p − p pᵀ)Ā``, eq. (4), as a D×D array."""
        k, _, z = self._at(x, source, target)
        p, difference = softmax(z), self.A - self.A[k]
        spread = difference - p @ difference
        return lam * np.eye(self.n_features) + (spread.T * p) @ spread

    def lipschitz(self, target: Hashable, lam: float) -> float:
        """``L = λ + ‖Ā‖²``: a Lipschitz constant of ∇E and a bound on the Hessian's eigenvalues (theorems 3.3, 3.4)."""
        k = self.class_index(target)
        return float(lam + np.linalg.norm(self.A[self.rivals(k)] - self.A[k], 2) ** 2)

    def condition_bound(self, target: Hashable, lam: float) -> float:
        """``1 + ‖Ā‖²/λ``: a bound on the Hessian's condition number anywhere (theorem 3.3)."""
        return self.lipschitz(target, lam) / lam

    # ---- a value like any other ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, from which :func:`ifonly.load` reads it back to the last bit.

        Parameters
        ----------
        path : path
            Ending in ``.npz``, ``.safetensors`` or ``.json``; a file that is there is replaced. The format is documented in
            ``ifonly.model.formats``, has a version, and holds no code.

        """
        path = Path(path)
        if path.suffix.lower() not in CONTAINERS:
            raise InputError(f"a model is saved as {', '.join(CONTAINERS)}; got {str(path)!r}")
        arrays: dict[str, np.ndarray] = {"A": self.A, "b": self.b}
        if self.scaling is not None:
            arrays |= {"shift": self.scaling.shift, "scale": self.scaling.scale, "rough": self.scaling.rough}
        usual = {"encoding": None, "precision": EPS, "log_space": False}
        beside = {"encoding": self.encoding.to_dict(), "precision": self.precision, "log_space": self.log_space}
        extra = {name: value for name, value in beside.items() if value != usual[name]}
        header = {"classes": labels_to(self.classes), "feature_names": self.feature_names, "hard": self.hard, "extra": extra}
        path.write_bytes(pack(path.suffix.lower(), arrays, header))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        same = np.array_equal(self.A, other.A) and np.array_equal(self.b, other.b)
        beside = ("_index", "feature_names", "scaling", "encoding", "hard", "precision", "log_space")
        return same and all(getattr(self, name) == getattr(other, name) for name in beside)

    def __hash__(self) -> int:
        return hash((self.A.shape, (self.b + 0.0).tobytes()))  # 0.0 and −0.0 are equal

    def __reduce__(self) -> tuple[Any, ...]:
        encoding = None if self.encoding.identity else self.encoding
        make = partial(Model, scaling=self.scaling, encoding=encoding, hard=self.hard, precision=self.precision)
        state = {name: vars(self)[name] for name in ("origin", "log_space", "words") if name in vars(self)}
        return make, (self.A, self.b, self.classes, self.feature_names), state

    def __repr__(self) -> str:
        labels = self.classes.tolist()
        shown = repr(labels) if len(labels) <= 10 else f"[{labels[0]!r}, {labels[1]!r}, …, {labels[-1]!r}]"
        return f"Model(K={self.n_classes}, D={self.n_features}, classes={shown})"


class LinearWeights(NamedTuple):
    """What readers find in a classifier: one row of weights for two classes, or one per class."""

    coef: np.ndarray
    intercept: np.ndarray
    classes: Any  # labels; None for 0 … K−1
    hard: bool = False  # scores, no probabilities
    log_space: bool = False  # probabilities by way of their logarithms
    cut: float | None = None  # where it sees only whether a feature is above this

    def model(self, names: Sequence[str] | None = None, **more: Any) -> Model:
        """The model of these weights over features of these names."""
        if len(self.coef) == len(self.intercept) == 1:
            return Model.binary(self.coef[0], float(self.intercept[0]), self.classes, names, hard=self.hard, **more)
        found = Model(self.coef, self.intercept, self.classes, names, hard=self.hard, **more)
        found.log_space = self.log_space
        return found


def _read_only(value: ArrayLike, name: str, ndim: int) -> Floats:
    """A C-contiguous float64 copy that nobody can change, checked for shape and finiteness."""
    with reading(f"{name} must be an array of numbers; got {type(value).__name__}", TypeError, ValueError):
        array = np.array(plain(value), dtype=np.float64, order="C")
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension{'s'[: ndim > 1]}; got an array of shape {array.shape}")
    if not np.isfinite(array).all():
        where = ", ".join(map(str, np.argwhere(~np.isfinite(array))[0]))
        raise InputError(f"{name} must be finite; {name}[{where}] is {array[~np.isfinite(array)][0]}")
    return frozen(array)


def _labels(classes: Sequence[Hashable] | np.ndarray, K: int) -> np.ndarray:
    """K labels as a one-dimensional array of their own, tuples and mixed types kept whole."""
    if isinstance(classes, np.ndarray):
        labels = classes.copy()
    elif len({type(label) for label in classes}) == 1 and isinstance(classes[0], (str, int, float)):
        labels = np.array(list(classes))
    else:
        labels = np.empty(len(classes), dtype=object)
        labels[:] = list(classes)
    if labels.ndim != 1:
        raise InputError(f"classes must be one label per row of A; got an array of shape {labels.shape}")
    if len(labels) != K:
        raise InputError(f"classes must have one label per row of A, {K}; got {len(labels)}")
    return labels


def _names(given: Sequence[str], D: int) -> tuple[str, ...]:
    names = tuple(str(name) for name in given)
    if len(names) != D:
        raise InputError(f"feature_names must have one name per column of A, {D}; got {len(names)}")
    if len(set(names)) != D:
        raise InputError(f"feature_names must be distinct; got {sorted({n for n in names if names.count(n) > 1})} twice")
    return names
