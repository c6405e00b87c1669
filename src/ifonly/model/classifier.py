"""The fixed classifier: a linear softmax.

    p(x) = softmax(A x + b),        A: K×D,  b: K

and, for a wanted class k, a source x̄ and λ > 0, the objective of the paper (eq. 2) with its derivatives (eqs. 3, 4)

    E(x)   = (λ/2)‖x − x̄‖² − ln p_k(x)
    ∇E(x)  = λ(x − x̄) + Āᵀp(x)                     Ā = A − 1 a_kᵀ
    ∇²E(x) = λI + Āᵀ(diag p − p pᵀ)Ā

A softmax sees only differences of logits, so the solvers work with the rivals of k: the K−1 rows a_j − a_k, and the
matrix Ḡ of their inner products (`Model.rival_gram`), which is all they ever need to know of the D features.
"""

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ifonly.model.columns import Documents, Encoding
from ifonly.model.errors import InputError
from ifonly.model.formats import CONTAINERS, labels_to, pack
from ifonly.model.numerics import EPS, log_sum_exp, norms, softmax, summation_error
from ifonly.rows.tensors import plain

__all__ = ["CROWDED", "GRAM_CLASSES", "Model", "Scaling"]

Floats = NDArray[np.float64]

# Inner products of differences come from the Gram matrix by subtraction, Ḡᵢⱼ = Gᵢⱼ − Gᵢₖ − Gⱼₖ + Gₖₖ. Where that
# cancels more than this share of ‖a_j‖² or ‖a_k‖² (a rival almost equal to the target) the row is formed directly.
CANCELLATION = 1 / 16

# A vector common to all rows of A changes no probability but eats digits. Where it is this many times longer than what
# tells the rows apart, the solvers get a copy of A without it; below, they use A itself and save the memory.
COMMON_PART = 4.0

# Rivals depend on each other where the smallest of the K−1 eigenvalues of the centred Gram matrix is below this share of
# the largest. Trained classifiers are far above (MNIST 0.29, an ImageNet head with K = 1000 and D = 1280 8e-4).
DEPENDENT = 1e-6

# Up to this many features per class, uneven features are their own basis for dependent rivals: it mixes no units.
UNIT_BASIS = 8

# Columns of A this many times larger than others: features in units of their own (metres beside millimetres is 1e3).
UNEVEN = 1e4

# Classes from which Ḡ is never formed: its products and the rivals' lengths come from the one Gram matrix of all classes …
CROWDED = 400
# … and from which that is not formed either (it would take 128 MB and seconds): what is left are passes over A, `solvers.many`.
GRAM_CLASSES = 4096

# Weights of a crowd of classes that are float16, float32 or a memory map, and would be this large as float64, stay as they are.
# They are read in blocks that stay in the cache: with 50 000 × 576 a pass takes 19 ms in blocks of 0.3 MB, 12 from 1 MB on.
KEEP_BYTES = 64 * 2**20
BLOCK_BYTES = 2 * 2**20

LIKELY_SIGMAS = 4.0  # of the rounding of an estimator in single precision

# Matrices kept per target, in bytes: all targets of a model up to K = 200.
CACHE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Scaling:
    """The map from the user's units to the ones the classifier sees: ``(x − shift) / scale``."""

    shift: Floats
    scale: Floats
    rough: Floats | None = None  # Σ|shift| of all scalers on the way, in x's units: they may cancel in shift, but each rounds

    def __post_init__(self) -> None:
        rough = np.abs(self.shift) if self.rough is None else self.rough
        for name, value in (("shift", self.shift), ("scale", self.scale), ("rough", rough)):
            object.__setattr__(self, name, _frozen(np.array(value, dtype=np.float64)))

    def __call__(self, x: Any) -> Any:
        """``x`` (dense, or sparse where nothing is shifted) in the classifier's units."""
        if isinstance(x, np.ndarray):
            return (x - self.shift) / self.scale
        return x.multiply(1 / self.scale).tocsr()

    @cached_property
    def offset(self) -> Floats:
        """How far the user's zero is from the classifier's, in the latter's units: what rounding x costs."""
        assert self.rough is not None
        return _frozen(np.abs(self.rough / self.scale))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scaling):
            return NotImplemented
        return np.array_equal(self.shift, other.shift) and np.array_equal(self.scale, other.scale)

    def __hash__(self) -> int:
        return hash(self.scale.tobytes())


class Model:
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

    def __init__(
        self,
        A: ArrayLike,
        b: ArrayLike,
        classes: Sequence[Hashable] | np.ndarray | None = None,
        feature_names: Sequence[str] | None = None,
        *,
        scaling: Scaling | None = None,
        encoding: Encoding | Documents | None = None,
        hard: bool = False,
        precision: float = EPS,
    ) -> None:
        self.A = _as_it_is(A) if _is_kept(A) else _read_only(A, "A", ndim=2)
        self.b = _read_only(b, "b", ndim=1)
        K, D = self.A.shape
        if K < 2:
            raise InputError(f"A must have at least 2 rows, one per class; got {K} (for one weight vector: Model.binary)")
        if D < 1:
            raise InputError("A must have at least 1 column, one per feature; got 0")
        if self.b.shape != (K,):
            raise InputError(f"b must have one entry per row of A, {K}; got {self.b.size}")
        labels = np.arange(K) if classes is None else _labels(classes)
        if labels.ndim != 1:
            raise InputError(f"classes must be one label per row of A; got an array of shape {labels.shape}")
        if len(labels) != K:
            raise InputError(f"classes must have one label per row of A, {K}; got {len(labels)}")
        self.classes = _frozen(labels)
        self._index: dict[Hashable, int] = {label: k for k, label in enumerate(labels.tolist())}
        if len(self._index) != K:
            raise InputError(f"classes must be distinct; got {labels.tolist()}")
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if names is not None and len(names) != D:
            raise InputError(f"feature_names must have one name per column of A, {D}; got {len(names)}")
        if names is not None and len(set(names)) != D:
            raise InputError(f"feature_names must be distinct; got {sorted({n for n in names if names.count(n) > 1})} twice")
        self.feature_names = names
        self.scaling = scaling
        self.encoding = encoding
        self.hard = hard
        self.precision = float(precision)
        self._per_target: dict[tuple[str, int], Any] = {}
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
        encoding: Encoding | Documents | None = None,
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

    # ---- what everybody asks of a classifier (in the user's units) ----

    @property
    def n_classes(self) -> int:
        """K, the number of classes."""
        return self.A.shape[0]

    @property
    def n_features(self) -> int:
        """D, the number of features."""
        return self.A.shape[1]

    def logits(self, X: Any) -> Floats:
        """``A x + b`` for one row or many."""
        single = self.encoding is not None and self.encoding.single(X)
        z = self.scores(self.coordinates(X))
        return z[0] if single else z

    def coordinates(self, X: Any) -> Any:
        """The user's rows as numbers, one per column of ``A``."""
        return self.aligned(X) if self.encoding is None else self.encoding.read(X)

    def scores(self, V: Any) -> Floats:
        """``A x + b`` from :meth:`coordinates`, one row or many."""
        X = self._scaled(V)
        return (X @ self.A.T if hasattr(X, "tocsr") else self.products(X)) + self.b

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of all K classes, for one row or many."""
        if self.hard:
            raise InputError("this model has scores but no probabilities; see logits and predict")
        return softmax(self.logits(X))

    def predict(self, X: Any) -> Any:
        """The most probable class's label, for one row or many."""
        return self.classes[self.logits(X).argmax(axis=-1)]

    def _scaled(self, X: Any) -> Any:
        if not hasattr(X, "tocsr"):
            X = np.asarray(plain(X), dtype=np.float64)
        self.check_width(X)
        return self.to_classifier(X)

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

    def aligned(self, X: Any) -> Any:
        """A pandas row or frame as an array, its columns in the model's order by name; anything else as it is."""
        if not hasattr(X, "to_numpy"):
            return X
        single = not hasattr(X, "columns")
        if single and not hasattr(X, "index"):  # a polars column
            return X.to_numpy()
        labels = [str(label) for label in (X.index if single else X.columns)]
        names, values = self.feature_names, X.to_numpy()
        if names is None or tuple(labels) == names:
            return values
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise InputError(f"x must have each of the model's features once; it has {twice[:5]} more than once")
        if set(labels) != set(names):
            missing, extra = [n for n in names if n not in labels], [n for n in labels if n not in names]
            raise InputError(f"x must have the model's features; missing {missing[:5]}, not known {extra[:5]}")
        order = [labels.index(name) for name in names]
        return values[order] if single else values[:, order]

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

            known = names if self.encoding is None else tuple(dict.fromkeys((*self.encoding.names, *names)))
            near = get_close_matches(name, known, 3)
            raise InputError(
                f"unknown feature {name!r}; " + (f"did you mean {near}?" if near else f"there are {list(known[:10])} …")
            )
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < self.n_features:
            return int(name)
        raise InputError(f"a feature is a name or a number from 0 to {self.n_features - 1}; got {name!r}")

    def feature_label(self, d: int) -> str:
        """A feature's name, or its number where it has none."""
        return str(d) if self.feature_names is None else self.feature_names[d]

    def label(self, k: int) -> Hashable:
        """The label of a row of ``A``, as a plain Python value where it is one."""
        label = self.classes[k]
        return label.item() if isinstance(label, np.generic) else label

    # ---- the paper's calculus (in the classifier's space) ----

    def objective(self, x: ArrayLike, source: ArrayLike, target: Hashable, lam: float) -> float:
        """``E(x) = (λ/2)‖x − x̄‖² − ln p_k(x)``, eq. (2)."""
        x = np.asarray(x, dtype=np.float64)
        k = self.class_index(target)
        z = self.products(x) + self.b
        step = x - np.asarray(source, dtype=np.float64)
        return float(0.5 * lam * (step @ step) + log_sum_exp(z - z[k]))

    def gradient(self, x: ArrayLike, source: ArrayLike, target: Hashable, lam: float) -> Floats:
        """``∇E(x) = λ(x − x̄) + Āᵀp(x)``, eq. (3)."""
        x = np.asarray(x, dtype=np.float64)
        k = self.class_index(target)
        p = softmax(self.products(x) + self.b)
        p[k] = -np.delete(p, k).sum()  # Āᵀp = Aᵀ(p − e_k); p_k − 1 without cancellation
        return lam * (x - np.asarray(source, dtype=np.float64)) + self.combination(p)

    def hessian(self, x: ArrayLike, source: ArrayLike, target: Hashable, lam: float) -> Floats:
        """``∇²E(x) = λI + Āᵀ(diag p − p pᵀ)Ā``, eq. (4), as a D×D array."""
        difference = self.A - self.A[self.class_index(target)]
        p = softmax(self.A @ np.asarray(x, dtype=np.float64) + self.b)
        mean = p @ difference
        spread = difference - mean
        return lam * np.eye(self.n_features) + (spread.T * p) @ spread

    def lipschitz(self, target: Hashable, lam: float) -> float:
        """``L = λ + ‖Ā‖²``: a Lipschitz constant of ∇E and a bound on the Hessian's eigenvalues (theorems 3.3, 3.4)."""
        k = self.class_index(target)
        top = np.linalg.norm(self.A[self.rivals(k)] - self.A[k], 2) ** 2
        return float(lam + top)

    def condition_bound(self, target: Hashable, lam: float) -> float:
        """``1 + ‖Ā‖²/λ``: a bound on the Hessian's condition number anywhere (theorem 3.3)."""
        return self.lipschitz(target, lam) / lam

    # ---- products with A, whatever it is kept as ----

    @property
    def vast(self) -> bool:
        """Whether there are so many classes that nothing is left but passes over ``A``: `solvers.many`."""
        K = self.n_classes
        return K >= CROWDED and (K > GRAM_CLASSES or self.kept or self.dependent)

    @property
    def crowded(self) -> bool:
        """Whether there are very many classes, with their Gram matrix at hand: `solvers.crowd`."""
        return self.n_classes >= CROWDED and not self.vast

    @property
    def kept(self) -> bool:
        """Whether ``A`` is the user's own array, not a copy."""
        return self.A.dtype != np.float64 or isinstance(self.A, np.memmap)

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[tuple[slice, Floats]]:
        """``A`` (or its rows ``first`` to ``last``) in blocks of rows that stay in the cache, in float64: one pass."""
        last = self.n_classes if last is None else last
        size = max(1, BLOCK_BYTES // (8 * self.n_features))
        for a in range(first, last, size):
            rows = slice(a, min(a + size, last))
            yield rows, self.A[rows].astype(np.float64, copy=False)

    def products(self, x: Floats) -> Floats:
        """``A x`` for one point (D,), or ``X Aᵀ`` for many (N, D), in the classifier's space."""
        if self.A.dtype == np.float64:
            return x @ self.A.T
        out = np.empty((*x.shape[:-1], self.n_classes))
        for rows, block in self.blocks():
            out[..., rows] = x @ block.T
        return out

    def combination(self, y: Floats) -> Floats:
        """``Aᵀ y``."""
        if self.A.dtype == np.float64:
            return y @ self.A
        return np.sum([y[rows] @ block for rows, block in self.blocks()], axis=0)

    def weights(self, which: Any) -> Floats:
        """Some rows of ``A``, in float64."""
        return self.A[which].astype(np.float64)

    # ---- what the solvers need, computed once ----

    @cached_property
    def gram(self) -> Floats:
        """``G = A Aᵀ``, K×K."""
        return _frozen(self.A @ self.A.T)

    @property
    def rows_gram(self) -> Floats:
        """Inner products of classes, without the part common to all rows where ``rows`` are."""
        return self.gram if self.rows is self.A else self._centred_gram

    @cached_property
    def _centred_gram(self) -> Floats:
        return _frozen(self.rows @ self.rows.T)

    @cached_property
    def dependent(self) -> bool:
        """Whether the rivals' rows depend on each other: fewer features than rivals, or (nearly) so in effect.

        Then ``x = x̄ − Āᵀq/λ`` loses digits, and the solvers use an orthonormal basis instead (solvers/spaces.py).
        """
        K, D = self.A.shape
        if K == 2:
            return False
        if D < K - 1:
            return True
        if K >= CROWDED:
            return not _independent(_centred_gram(self.gram))
        eigenvalues = np.linalg.eigvalsh(_centred_gram(self.gram))
        return bool(eigenvalues[1] <= DEPENDENT * eigenvalues[-1])

    @cached_property
    def rows(self) -> Floats:
        """R rows whose combinations are all changes there can be: ``x* − x̄`` lies in their span.

        K = 2: the one row ``a₂ − a₁``. Dependent rivals: an orthonormal basis, where D is small the unit vectors. Otherwise
        ``A`` itself, without the part common to all its rows where that is large.
        """
        K, D = self.A.shape
        if K == 2:
            return _frozen(self.A[1:] - self.A[:1])
        if self.dependent and (D < K - 1 or (self.uneven and D <= UNIT_BASIS * K)):
            return _frozen(np.eye(D))
        mean = self.A.mean(axis=0)
        centred = self.A - mean
        if self.dependent:
            _, sizes, basis = np.linalg.svd(centred, full_matrices=False)
            rank = max(1, int((sizes > K * EPS * sizes[0]).sum()))
            return _frozen(np.ascontiguousarray(basis[:rank]))
        return _frozen(centred) if np.linalg.norm(mean) > COMMON_PART * norms(centred).max() else self.A

    @cached_property
    def columns(self) -> Floats:
        """``rows`` transposed and contiguous: what a sparse source is multiplied with."""
        return _frozen(np.ascontiguousarray(self.rows.T))

    @cached_property
    def coarse(self) -> float:
        """How many times more coarsely than here the estimator rounds that the model was read from.

        For float64 1. In float32 the bound of `summation_error`, which is safe in any case, would be a visible part of a logit;
        there four standard deviations of the rounding have to do.
        """
        n = sum(self.A.shape)
        likely = 0.5 * EPS * (LIKELY_SIGMAS * n**0.5 + 2) / summation_error(n)
        return 1.0 if self.precision <= EPS else max(self.precision / EPS * min(likely, 1.0), 1.0)

    @cached_property
    def row_norm(self) -> float:
        """The longest row of ``A``."""
        longest = max(float(norms(block).max()) for _, block in self.blocks())
        return longest if self.encoding is None else max(longest, float(np.linalg.norm(self.column_sizes)))

    @cached_property
    def column_sizes(self) -> Floats:
        """``max_j |a_jd|`` of each feature: with |x|, how large a logit's terms can be, in all steps of a pipeline."""
        sizes = np.max([np.abs(block).max(axis=0) for _, block in self.blocks()], axis=0)
        on_the_way = None if self.encoding is None else self.encoding.sizes
        return _frozen(sizes if on_the_way is None else np.maximum(sizes, on_the_way))

    @cached_property
    def uneven(self) -> bool:
        """Whether features come in units so different that a basis should not mix them."""
        used = self.column_sizes[self.column_sizes > 0]
        return bool(used.size and used.max() > UNEVEN * used.min())

    @cached_property
    def offset_size(self) -> float:
        """The size of a logit's terms at the zero of the user's units, where those are not the classifier's."""
        return 0.0 if self.scaling is None else float(self.column_sizes @ self.scaling.offset)

    @cached_property
    def offset_norm(self) -> float:
        """How far the zero of the user's units is from the classifier's."""
        return 0.0 if self.scaling is None else float(np.linalg.norm(self.scaling.offset))

    def rivals(self, k: int) -> NDArray[np.intp]:
        """The class indices other than ``k``."""
        return self._kept(("rivals", k), lambda k: np.delete(np.arange(self.n_classes), k))

    def margins(self, z: Floats, k: int) -> Floats:
        """The rivals' margins ``s̄_j`` over class index ``k``, from ``z = rows @ x̄`` (one source or many)."""
        if self.n_classes == 2:
            s = z + (self.b[1] - self.b[0])
            return s if k == 0 else -s
        rivals = self.rivals(k)
        if self.dependent:
            return z @ self.rival_map(k).T + (self.b[rivals] - self.b[k])
        z = z + self.b
        return z[..., rivals] - z[..., k, None]

    def best_class(self, z: Floats) -> NDArray[np.intp]:
        """The index of the most probable class, from ``z = rows @ x̄`` (one source or many)."""
        margins = self.margins(z, 0)
        return np.where(margins.max(axis=-1) > 0, margins.argmax(axis=-1) + 1, 0)

    def coefficients(self, q: Floats, k: int) -> Floats:
        """``y`` with ``−Āᵀq = rowsᵀy``, from the rivals' q (one or many)."""
        if self.n_classes == 2:
            return -q if k == 0 else q
        y = np.empty((*q.shape[:-1], self.n_classes))
        y[..., self.rivals(k)] = -q
        y[..., k] = q.sum(axis=-1)
        return y

    def rival_gram(self, k: int) -> Floats:
        """``Ḡ = Ā Āᵀ`` over the K−1 rivals of class index ``k``; formed once per target and kept."""
        return self._kept(("gram", k), self._make_rival_gram)

    def crowd_gram(self, k: int) -> Floats:
        """A K×K matrix G with ``Ḡᵢⱼ = Gᵢⱼ − Gᵢₖ − Gⱼₖ + Gₖₖ``: for most targets ``rows_gram``, one for all of them."""
        return self._kept(("crowd", k), self._make_crowd_gram)

    def rival_map(self, k: int) -> Floats:
        """``L = Ā rowsᵀ`` over the rivals of class index ``k`` (dependent rivals only); formed once and kept."""
        return self._kept(("map", k), self._make_rival_map)

    def rival_lengths(self, k: int) -> Floats:
        """``‖ā_j‖`` of the rivals of class index ``k``."""
        if self.n_classes < CROWDED:
            return self._kept(("lengths", k), lambda k: norms(self.A[self.rivals(k)] - self.A[k]))
        own = self.gram[k]  # very many: from inner products, an upper bound on what they round to
        squares = np.diagonal(self.gram) - 2 * own + own[k]
        return np.delete(np.sqrt(np.maximum(squares, 0.0) + 8 * EPS * (np.diagonal(self.gram) + own[k])), k)

    def _kept(self, key: tuple[str, int], make: Callable[[int], Any]) -> Any:
        found = self._per_target.get(key)
        if found is None:
            if len(self._per_target) >= max(1, 3 * CACHE_BYTES // (8 * self.n_classes**2)):
                self._per_target.pop(next(iter(self._per_target)), None)  # another thread may be doing the same
            found = self._per_target[key] = _frozen(make(key[1]))
        return found

    def _make_rival_map(self, k: int) -> Floats:
        return (self.A[self.rivals(k)] - self.A[k]) @ self.rows.T

    def _make_rival_gram(self, k: int) -> Floats:
        if self.n_classes == 2:
            return self.rows @ self.rows.T
        rivals = self.rivals(k)
        G = self.gram if self.rows is self.A or self.dependent else self.rows @ self.rows.T
        own, size = G[rivals, k], np.diag(G)
        gram = G[np.ix_(rivals, rivals)] - (own[:, None] + own) + G[k, k]
        close = np.flatnonzero(np.diag(gram) < CANCELLATION * np.maximum(size[rivals], size[k]))
        if close.size:
            difference = self.A[rivals] - self.A[k]
            exact = difference[close] @ difference.T
            gram[close], gram[:, close] = exact, exact.T
        return gram

    def _make_crowd_gram(self, k: int) -> Floats:
        G = self.rows_gram
        size = np.diagonal(G)
        squares = size - 2 * G[k] + G[k, k]
        squares[k] = np.inf
        if (squares >= CANCELLATION * np.maximum(size, G[k, k])).all():
            return G
        own = np.zeros_like(G)  # a rival is all but equal to the target: Ḡ itself, and 0 for the target
        rivals = self.rivals(k)
        own[np.ix_(rivals, rivals)] = self.rival_gram(k)
        return own

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
            assert self.scaling.rough is not None
            arrays |= {"shift": self.scaling.shift, "scale": self.scaling.scale, "rough": self.scaling.rough}
        extra: dict[str, Any] = {}
        if self.encoding is not None:
            to_dict = getattr(self.encoding, "to_dict", None)
            if to_dict is None:
                raise InputError(
                    "a model of columns that are not all plain numbers cannot be saved; save its estimator with skops"
                )
            extra["encoding"] = to_dict()
        names = None if self.feature_names is None else list(self.feature_names)
        header = {"classes": labels_to(self.classes), "feature_names": names, "hard": self.hard, "extra": extra}
        path.write_bytes(pack(path.suffix.lower(), arrays, header))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        return (
            np.array_equal(self.A, other.A)
            and np.array_equal(self.b, other.b)
            and self._index == other._index
            and self.feature_names == other.feature_names
            and self.scaling == other.scaling
            and self.encoding == other.encoding
            and self.hard == other.hard
            and self.precision == other.precision
        )

    def __hash__(self) -> int:
        return hash((self.A.shape, (self.b + 0.0).tobytes()))  # 0.0 and −0.0 are equal

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.A, self.b, self.classes, self.feature_names, self.scaling, self.encoding, self.hard, self.precision
        return (_rebuild, parts) if self.origin is None else (_rebuild, parts, {"origin": self.origin})

    def __repr__(self) -> str:
        labels = self.classes.tolist()
        shown = repr(labels) if len(labels) <= 10 else f"[{labels[0]!r}, {labels[1]!r}, …, {labels[-1]!r}]"
        return f"Model(K={self.n_classes}, D={self.n_features}, classes={shown})"


def _rebuild(
    A: Floats,
    b: Floats,
    classes: np.ndarray,
    names: tuple[str, ...] | None,
    scaling: Scaling | None,
    encoding: Any = None,
    hard: bool = False,
    precision: float = EPS,
) -> Model:
    return Model(A, b, classes, names, scaling=scaling, encoding=encoding, hard=hard, precision=precision)


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _centred_gram(G: Floats) -> Floats:
    """The Gram matrix of the rows less their mean."""
    mean = G.mean(axis=0)
    return G - (mean[:, None] + mean) + mean.mean()


def _independent(centred: Floats) -> bool:
    """Whether the eigenvalues of a centred Gram matrix, but for the one that is 0, are above `DEPENDENT` of the largest.

    By a Cholesky factorisation: with 1000 classes 15 ms, their eigenvalues would take 150.
    """
    K = len(centred)
    largest = np.linalg.norm(centred)  # between the largest eigenvalue and √K times that
    try:
        np.linalg.cholesky(centred + (largest / K - DEPENDENT * largest * np.eye(K)))
    except np.linalg.LinAlgError:
        return False
    return True


def _is_kept(A: Any) -> bool:
    """Whether weights stay as they are: very many classes, large, and not float64 in memory."""
    return (
        isinstance(A, np.ndarray)
        and A.ndim == 2
        and len(A) >= CROWDED
        and 8 * A.size >= KEEP_BYTES
        and A.dtype in (np.float16, np.float32, np.float64)
        and (A.dtype != np.float64 or isinstance(A, np.memmap))
    )


def _as_it_is(A: Any) -> Any:
    """A read-only view, checked for finiteness a block at a time."""
    size = max(1, BLOCK_BYTES // (8 * max(A.shape[1], 1)))
    for a in range(0, len(A), size):
        if not np.isfinite(A[a : a + size]).all():
            raise InputError(f"A must be finite; there is a NaN or an infinity in rows {a} to {min(a + size, len(A)) - 1}")
    return _frozen(A.view())


def _read_only(value: ArrayLike, name: str, ndim: int) -> Floats:
    """A C-contiguous float64 copy that nobody can change, checked for shape and finiteness."""
    try:
        array = np.array(plain(value), dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers; got {type(value).__name__} ({error})") from None
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension{'s'[: ndim > 1]}; got an array of shape {array.shape}")
    if not np.isfinite(array).all():
        where = ", ".join(map(str, np.argwhere(~np.isfinite(array))[0]))
        raise InputError(f"{name} must be finite; {name}[{where}] is {array[~np.isfinite(array)][0]}")
    return _frozen(array)


def _labels(classes: Sequence[Hashable] | np.ndarray) -> np.ndarray:
    """Labels as a one-dimensional array, tuples and mixed types kept whole."""
    if isinstance(classes, np.ndarray):
        return classes.copy()
    if len({type(label) for label in classes}) == 1 and isinstance(classes[0], (str, int, float)):
        return np.array(list(classes))
    labels = np.empty(len(classes), dtype=object)
    labels[:] = list(classes)
    return labels
