"""Products of a model's weights, which all solvers need and which are worked out once.

A softmax sees only differences of logits, so the solvers work with the rivals of a class k: the K−1 rows ``ā_j = a_j − a_k`` of
Ā, and the matrix ``Ḡ = Ā Āᵀ`` of their inner products, which is all they ever need to know of the D features:

    x* − x̄ = −Āᵀq/λ = basisᵀ y          s̄ = the rivals' margins at x̄, from z = basis x̄

Up to 400 classes Ḡ is formed for each target; up to 4 096 it comes from the one Gram matrix of all classes; beyond, there are
only passes over ``A``.

And how large the numbers are that meet in a logit. It is a sum of terms ``a_jd x_d``, whose error is bounded by
`numerics.summation_error` times the sum of their sizes, not by its own size: terms may cancel, those that a pipeline adds and
takes away again included.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, wraps
from typing import Any, NamedTuple

import numpy as np

from ifonly.model.columns import Encoding
from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS, Floats, Indices, blocks, frozen, gram_of, norms, summation_error, without

__all__ = ["GRAM_CLASSES", "NOWHERE", "SHARED_GRAM", "Products", "Sizes", "borrowed"]

# Inner products of differences come from the Gram matrix by subtraction, Ḡᵢⱼ = Gᵢⱼ − Gᵢₖ − Gⱼₖ + Gₖₖ. Where that
# cancels more than this share of ‖a_j‖² or ‖a_k‖² (a rival almost equal to the target) the row is formed directly.
CANCELLATION = 1 / 16

# A vector common to all rows of A changes no probability but eats digits. Where it is this many times longer than what
# tells the rows apart, the solvers get a copy of A without it; below, they use A itself and save the memory.
COMMON_PART = 4.0

# Rivals depend on each other where the smallest of the K−1 eigenvalues of the centred Gram matrix is below this share of
# the largest: sums of their rows lose EPS over it to cancellation. Trained classifiers are far above (iris 0.04, MNIST 0.29).
# With very many classes there is no basis to turn to, and less is asked (an ImageNet head with K = 1000, D = 1280 has 8e-4).
DEPENDENT, MANY_DEPENDENT = 1e-3, 1e-6

# Up to this many features per class, features in uneven units are their own basis for dependent rivals: it mixes no units.
UNIT_BASIS = 8

SHARED_GRAM = 400  # classes from which Ḡ is never formed: its products and the rivals' lengths come from the Gram matrix of all
GRAM_CLASSES = 4096  # the most classes for which that is formed: more would take 128 MB and seconds

# K²D: up to here Newton's method in the D dimensions of dependent rivals takes milliseconds. Passes took a second a row where a
# probability is out of reach (K = 450, D = 5, now 3 ms), and six times as long where it is not (D = 60).
BASIS_WORK = 2**24

KEEP_BYTES = 64 * 2**20  # weights of many classes that would be this large as float64 stay as they are, see `borrowed`
CACHE_BYTES = 64 * 2**20  # of matrices kept per target: all targets of a model up to K = 200

# ‖a‖·‖x‖ bounds a logit's terms well enough, unless it is this many times the logits themselves: then features come in units so
# different that a large x meets a small weight, and the terms are summed.
LOOSE = 1e4

# Columns of A this many times larger than others: features in units of their own (metres beside millimetres is 1e3). A basis
# that mixes them costs as many digits, and p misses its goal for whoever evaluates it without one.
UNEVEN_UNITS = 100.0

LIKELY_SIGMAS = 4.0  # of the rounding of an estimator in single precision


class Sizes(NamedTuple):
    """How large sources are, for what rounding can do to them: bounds on ‖x̄‖ and on ``Σ_d |a_jd x̄_d|`` for every class."""

    norm: Any
    terms: Any

    def take(self, index: Any) -> "Sizes":
        """Those of some of the rows."""
        return Sizes(self.norm[index], self.terms[index])


NOWHERE = Sizes(0.0, 0.0)


def borrowed(A: Any) -> Any:
    """The user's own array, read-only, where no copy is made: many classes, large, and not float64 in memory; else None."""
    if not (isinstance(A, np.ndarray) and A.ndim == 2 and len(A) >= SHARED_GRAM and 8 * A.size >= KEEP_BYTES):
        return None
    if A.dtype not in (np.float16, np.float32) and not (A.dtype == np.float64 and isinstance(A, np.memmap)):
        return None
    for rows, block in blocks(A):
        if not np.isfinite(block).all():
            raise InputError(f"A must be finite; there is a NaN or an infinity in rows {rows.start} to {rows.stop - 1}")
    return frozen(A.view())


def _kept(make: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """A method of a class index whose results are formed once and kept, as long as there is room."""
    what = make.__name__

    @wraps(make)
    def found(self: "Products", k: int) -> Any:
        known = self._per_target.get((what, k))
        if known is None:
            if len(self._per_target) >= max(1, 3 * CACHE_BYTES // (8 * len(self.A) ** 2)):
                self._per_target.pop(next(iter(self._per_target)), None)  # another thread may be doing the same
            known = self._per_target[what, k] = frozen(make(self, k))
        return known

    return found


class Products:
    """What follows from ``A`` (K×D) and ``b``, whoever asks. A part of `Model`, which has these attributes."""

    A: np.ndarray
    b: Floats
    scaling: Any  # a Scaling, or None
    encoding: Encoding
    precision: float
    _per_target: dict[tuple[str, int], Any]

    # ---- products with A, whatever it is kept as ----

    @cached_property
    def borrowed(self) -> bool:
        """Whether ``A`` is the user's own array, not a copy."""
        return self.A.dtype != np.float64 or isinstance(self.A, np.memmap)

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """``A`` in blocks of rows that stay in the cache, in float64: one pass."""
        return blocks(self.A)

    def times(self, x: Floats) -> Floats:
        """``A x`` for one point (D,), or ``X Aᵀ`` for many (N, D), in the classifier's space."""
        if self.A.dtype == np.float64:
            return x @ self.A.T
        out = np.empty((*x.shape[:-1], len(self.A)))
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

    # ---- which of the three kinds of model this is ----

    @cached_property
    def dependent(self) -> bool:
        """Whether the rivals' rows depend on each other: fewer features than rivals, or (nearly) so in effect.

        Then ``x = x̄ − Āᵀq/λ`` loses digits, and the solvers use an orthonormal basis instead.
        """
        K, D = self.A.shape
        if K == 2:
            return False
        if D < K - 1:
            return True
        if K >= SHARED_GRAM:
            mean = self.gram.mean(axis=0)
            return not _independent(self.gram - (mean[:, None] + mean) + mean.mean())
        centred = self.A - self.A.mean(axis=0)  # first: a large common part would leave nothing of its Gram matrix
        eigenvalues = np.linalg.eigvalsh(centred @ centred.T)
        return bool(eigenvalues[1] <= DEPENDENT * eigenvalues[-1])

    @cached_property
    def only_passes(self) -> bool:
        """Whether there are so many classes that nothing is left but passes over ``A``."""
        K, D = self.A.shape
        many = K > GRAM_CLASSES or self.borrowed
        return K >= SHARED_GRAM and (many or (K * K * D > BASIS_WORK and self.dependent))

    @cached_property
    def shares_gram(self) -> bool:
        """Whether there are many classes, and all targets share their one Gram matrix."""
        return len(self.A) >= SHARED_GRAM and not self.only_passes and not self.dependent

    # ---- the basis of all changes ----

    @cached_property
    def basis(self) -> Floats:
        """R rows whose combinations are all changes there can be: ``x* − x̄`` lies in their span.

        K = 2: the one row ``a₂ − a₁``. Dependent rivals: an orthonormal basis, where D is small the unit vectors. Otherwise
        ``A`` itself, without the part common to all its rows where that is large.
        """
        K, D = self.A.shape
        if K == 2:
            return frozen(self.A[1:] - self.A[:1])
        if self._has_unit_basis:
            return frozen(np.eye(D))
        mean = self.A.mean(axis=0)
        centred = self.A - mean
        if self.dependent:
            _, sizes, basis = np.linalg.svd(centred, full_matrices=False)
            rank = max(1, int((sizes > K * EPS * sizes[0]).sum()))
            return frozen(np.ascontiguousarray(basis[:rank]))
        return frozen(centred) if np.linalg.norm(mean) > COMMON_PART * norms(centred).max() else self.A

    @cached_property
    def _has_unit_basis(self) -> bool:
        """Whether the basis is of unit vectors: the rivals depend on each other, and features are few or in uneven units."""
        (K, D), used = self.A.shape, self.column_sizes[self.column_sizes > 0]
        uneven = bool(used.size and used.max() > UNEVEN_UNITS * used.min())
        return self.dependent and (D < K - 1 or (uneven and D <= UNIT_BASIS * K))

    @cached_property
    def _mixes_units(self) -> bool:
        """Whether the basis is orthonormal but not of unit vectors."""
        return len(self.A) < SHARED_GRAM and self.dependent and not self._has_unit_basis

    @cached_property
    def projection(self) -> Floats:
        """The rows that sources are multiplied with: those of the basis, or of A less what they have in common.

        The rounding of an orthonormal basis meets every feature alike, one in small units with a small weight too: what it does
        to a logit is a share of ‖a‖·‖x̄‖, however small the terms are. So it is for changes alone.
        """
        return frozen(self.A - self.A.mean(axis=0)) if self._mixes_units else self.basis

    def projected(self, x: Floats) -> Floats:
        """``projection @ x`` for one point, in the classifier's space."""
        return np.array([self.projection[0] @ x]) if len(self.projection) == 1 else self.projection @ x

    def basis_combination(self, y: Floats) -> Floats:
        """``basisᵀ y``."""
        return y[0] * self.basis[0] if len(self.basis) == 1 else self.basis.T @ y

    @cached_property
    def projection_transposed(self) -> Floats:
        """The same as contiguous columns: what a sparse source is multiplied with."""
        return frozen(np.ascontiguousarray(self.projection.T))

    @cached_property
    def gram(self) -> Floats:
        """``G = A Aᵀ``, K×K."""
        return frozen(gram_of(self.A))

    @cached_property
    def _squares(self) -> Floats:
        """``‖a_j‖²``, beside each other: on the diagonal each is in a page of its own."""
        return frozen(np.diagonal(self.gram).copy())

    @cached_property
    def basis_gram(self) -> Floats:
        """Inner products of the basis: `gram` where that is ``A`` itself."""
        return self.gram if self.basis is self.A else frozen(gram_of(self.basis))

    def margins(self, z: Floats, k: int) -> Floats:
        """The rivals' margins ``s̄_j`` over class index ``k``, from ``z = projection @ x̄`` (one source or many)."""
        if len(self.A) == 2:
            s = z + (self.b[1] - self.b[0])
            return s if k == 0 else -s
        rivals = self.rivals(k)
        if self.dependent and not self._mixes_units:
            return z @ self.rival_map(k).T + (self.b[rivals] - self.b[k])
        z = z + self.b
        return z[..., rivals] - z[..., k, None]

    def best_class(self, z: Floats) -> Indices:
        """The index of the most probable class, from ``z = projection @ x̄`` (one source or many)."""
        margins = self.margins(z, 0)
        return np.where(margins.max(axis=-1) > 0, margins.argmax(axis=-1) + 1, 0)

    def coefficients(self, q: Floats, k: int) -> Floats:
        """``y`` with ``−Āᵀq = basisᵀy``, from the rivals' q (one or many)."""
        if len(self.A) == 2:
            return -q if k == 0 else q
        y = np.empty((*q.shape[:-1], len(self.A)))
        y[..., self.rivals(k)] = -q
        y[..., k] = q.sum(axis=-1)
        return y

    # ---- per target, formed once and kept ----

    @_kept
    def rivals(self, k: int) -> Indices:
        """The class indices other than ``k``."""
        return np.delete(np.arange(len(self.A)), k)

    @_kept
    def rival_gram(self, k: int) -> Floats:
        """``Ḡ = Ā Āᵀ`` over the K−1 rivals of class index ``k``."""
        if len(self.A) == 2:
            return self.basis @ self.basis.T
        rivals = self.rivals(k)
        G = self.gram if self.dependent else self.basis_gram
        products, size = G[rivals, k], np.diag(G)
        gram = G[np.ix_(rivals, rivals)] - (products[:, None] + products) + G[k, k]
        close = np.flatnonzero(np.diag(gram) < CANCELLATION * np.maximum(size[rivals], size[k]))
        if close.size:
            difference = self.A[rivals] - self.A[k]
            exact = difference[close] @ difference.T
            gram[close], gram[:, close] = exact, exact.T
        return gram

    @_kept
    def shared_gram(self, k: int) -> Floats:
        """A K×K matrix G with ``Ḡᵢⱼ = Gᵢⱼ − Gᵢₖ − Gⱼₖ + Gₖₖ``: for most targets `basis_gram`, one for all of them."""
        G = self.basis_gram
        size = np.diagonal(G)
        squares = size - 2 * G[k] + G[k, k]
        squares[k] = np.inf
        if (squares >= CANCELLATION * np.maximum(size, G[k, k])).all():
            return G
        exact = np.zeros_like(G)  # a rival is all but equal to the target: Ḡ itself, and 0 for the target
        rivals = self.rivals(k)
        exact[np.ix_(rivals, rivals)] = self.rival_gram(k)
        return exact

    @_kept
    def rival_map(self, k: int) -> Floats:
        """``L = Ā basisᵀ`` over the rivals of class index ``k``, for dependent rivals."""
        return (self.A[self.rivals(k)] - self.A[k]) @ self.basis.T

    def rival_lengths(self, k: int) -> Floats:
        """``‖ā_j‖`` of the rivals of class index ``k``."""
        if not self.shares_gram:
            return self._few_lengths(k)
        size, products = self._squares, self.gram[k]  # many: an upper bound on what they round to
        squares = size - 2 * products + products[k]
        return without(np.sqrt(np.maximum(squares, 0.0) + 8 * EPS * (size + products[k])), k)

    @_kept
    def _few_lengths(self, k: int) -> Floats:
        return norms(self.A[self.rivals(k)] - self.A[k])

    @cached_property
    def pair_lengths(self) -> Floats:
        """``‖a_i − a_j‖`` of all pairs, K×K."""
        return frozen(np.stack([np.insert(self.rival_lengths(k), k, 0.0) for k in range(len(self.A))]))

    # ---- how large things are that round ----

    @cached_property
    def row_norm(self) -> float:
        """The longest row of ``A``, or of the terms on the way through a pipeline."""
        longest = max(float(norms(block).max()) for _, block in blocks(self.A))
        return longest if self.encoding.sizes is None else max(longest, float(np.linalg.norm(self.column_sizes)))

    @cached_property
    def column_sizes(self) -> Floats:
        """``max_j |a_jd|`` of each feature: with ``|x|``, how large a logit's terms can be, in all steps of a pipeline."""
        sizes = np.max([np.abs(block).max(axis=0) for _, block in blocks(self.A)], axis=0)
        return frozen(sizes if self.encoding.sizes is None else np.maximum(sizes, self.encoding.sizes))

    @cached_property
    def offset_size(self) -> float:
        """The size of a logit's terms at the zero of the user's units, where those are not the classifier's."""
        return 0.0 if self.scaling is None else float(self.column_sizes @ self.scaling.offset)

    @cached_property
    def offset_norm(self) -> float:
        """How far the zero of the user's units is from the classifier's."""
        return 0.0 if self.scaling is None else float(np.linalg.norm(self.scaling.offset))

    @cached_property
    def coarse(self) -> float:
        """How many times more coarsely than here the estimator rounds that the model was read from.

        For float64 1. In float32 the bound of `summation_error`, which is safe in any case, would be a visible part of a logit;
        there four standard deviations of the rounding have to do.
        """
        n = sum(self.A.shape)
        likely = 0.5 * EPS * (LIKELY_SIGMAS * n**0.5 + 2) / summation_error(n)
        return 1.0 if self.precision <= EPS else max(self.precision / EPS * min(likely, 1.0), 1.0)

    def sizes_of(self, X: Any, Z: Floats, lengths: Floats) -> Sizes:
        """Those of sources X (N, D; dense or sparse) in the classifier's units, with their logits' size Z and their lengths."""
        terms = self.row_norm * lengths
        loose = terms > LOOSE * (1 + np.abs(Z).max(axis=1, initial=0.0))
        if loose.any():
            terms[loose] = np.asarray(abs(X[loose]) @ self.column_sizes).ravel()
        return Sizes(lengths + 2 * self.offset_norm, terms + 2 * self.offset_size)

    def size_of(self, x: Floats, z: Floats, length: float) -> Sizes:
        """`sizes_of` for one dense source, in plain numbers: a tenth of the time."""
        terms = self.row_norm * length
        if terms > LOOSE * (1 + float(np.abs(z).max())):
            terms = float(np.abs(x) @ self.column_sizes)
        return Sizes(length + 2 * self.offset_norm, terms + 2 * self.offset_size)


def _independent(centred: Floats) -> bool:
    """Whether the eigenvalues of a centred Gram matrix, but for the one that is 0, are above `MANY_DEPENDENT` of the largest.

    By a Cholesky factorisation: with 1000 classes 15 ms, their eigenvalues would take 150.
    """
    K = len(centred)
    largest = np.linalg.norm(centred)  # between the largest eigenvalue and √K times that
    try:
        np.linalg.cholesky(centred + (largest / K - MANY_DEPENDENT * largest * np.eye(K)))
    except np.linalg.LinAlgError:
        return False
    return True
