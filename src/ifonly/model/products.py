"""Products of a model's weights, which all solvers need and which are worked out once.

A softmax sees only differences of logits, so the solvers work with the rivals of a class k: the K−1 rows ``ā_j = a_j − a_k`` of
Ā, and the matrix ``Ḡ = Ā Āᵀ`` of their inner products, which is all they ever need to know of the D features:

    x* − x̄ = −Āᵀq/λ = basisᵀ y          s̄ = the rivals' margins at x̄, from z = basis x̄

Up to 400 classes Ḡ is formed for each target; up to 4 096 it comes from the one Gram matrix of all classes; beyond, there are
only passes over ``A``.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS, Floats, Indices, blocks, frozen, norms
from ifonly.model.sizes import ModelSizes

__all__ = ["GRAM_CLASSES", "SHARED_GRAM", "Products", "borrowed"]

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

KEEP_BYTES = 64 * 2**20  # weights of many classes that would be this large as float64 stay as they are, see `borrowed`
CACHE_BYTES = 64 * 2**20  # of matrices kept per target: all targets of a model up to K = 200


def borrowed(A: Any) -> Any:
    """The user's own array, read-only, where no copy is made of it: many classes, large, and not float64 in memory; else None.

    It is checked for finiteness a block at a time.
    """
    if not (isinstance(A, np.ndarray) and A.ndim == 2 and len(A) >= SHARED_GRAM and 8 * A.size >= KEEP_BYTES):
        return None
    if A.dtype not in (np.float16, np.float32) and not (A.dtype == np.float64 and isinstance(A, np.memmap)):
        return None
    for rows, block in blocks(A):
        if not np.isfinite(block).all():
            raise InputError(f"A must be finite; there is a NaN or an infinity in rows {rows.start} to {rows.stop - 1}")
    return frozen(A.view())


class Products(ModelSizes):
    """What follows from ``A`` (K×D) and ``b``, whoever asks. A part of `Model`, which has these attributes."""

    b: Floats
    _per_target: dict[tuple[str, int], Any]

    # ---- products with A, whatever it is kept as ----

    @cached_property
    def borrowed(self) -> bool:
        """Whether ``A`` is the user's own array, not a copy."""
        return self.A.dtype != np.float64 or isinstance(self.A, np.memmap)

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[tuple[slice, Floats]]:
        """``A`` (or its rows ``first`` to ``last``) in blocks of rows that stay in the cache, in float64: one pass."""
        return blocks(self.A, first, last)

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
        K = len(self.A)
        return K >= SHARED_GRAM and (K > GRAM_CLASSES or self.borrowed or self.dependent)

    @cached_property
    def shares_gram(self) -> bool:
        """Whether there are many classes, and all targets share their one Gram matrix."""
        return len(self.A) >= SHARED_GRAM and not self.only_passes

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
        K, D = self.A.shape
        return self.dependent and (D < K - 1 or (self.uneven_units and D <= UNIT_BASIS * K))

    @cached_property
    def mixes_units(self) -> bool:
        """Whether the basis is orthonormal but not of unit vectors.

        Its own rounding meets every feature of a source alike, one in small units with a small weight too: then what rounding
        can do to a logit is a share of ‖a‖·‖x̄‖, however small the terms are.
        """
        return len(self.A) < SHARED_GRAM and self.dependent and not self._has_unit_basis

    @cached_property
    def basis_transposed(self) -> Floats:
        """The basis as contiguous columns: what a sparse source is multiplied with."""
        return frozen(np.ascontiguousarray(self.basis.T))

    @cached_property
    def gram(self) -> Floats:
        """``G = A Aᵀ``, K×K."""
        return frozen(self.A @ self.A.T)

    @cached_property
    def basis_gram(self) -> Floats:
        """Inner products of the basis: `gram` where that is ``A`` itself."""
        return self.gram if self.basis is self.A else frozen(self.basis @ self.basis.T)

    def margins(self, z: Floats, k: int) -> Floats:
        """The rivals' margins ``s̄_j`` over class index ``k``, from ``z = basis @ x̄`` (one source or many)."""
        if len(self.A) == 2:
            s = z + (self.b[1] - self.b[0])
            return s if k == 0 else -s
        rivals = self.rivals(k)
        if self.dependent:
            return z @ self.rival_map(k).T + (self.b[rivals] - self.b[k])
        z = z + self.b
        return z[..., rivals] - z[..., k, None]

    def best_class(self, z: Floats) -> Indices:
        """The index of the most probable class, from ``z = basis @ x̄`` (one source or many)."""
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

    def rivals(self, k: int) -> Indices:
        """The class indices other than ``k``."""
        return self._kept("rivals", k, lambda k: np.delete(np.arange(len(self.A)), k))

    def rival_gram(self, k: int) -> Floats:
        """``Ḡ = Ā Āᵀ`` over the K−1 rivals of class index ``k``."""
        return self._kept("gram", k, self._make_rival_gram)

    def shared_gram(self, k: int) -> Floats:
        """A K×K matrix G with ``Ḡᵢⱼ = Gᵢⱼ − Gᵢₖ − Gⱼₖ + Gₖₖ``: for most targets `basis_gram`, one for all of them."""
        return self._kept("shared", k, self._make_shared_gram)

    def rival_map(self, k: int) -> Floats:
        """``L = Ā basisᵀ`` over the rivals of class index ``k``, for dependent rivals."""
        return self._kept("map", k, lambda k: (self.A[self.rivals(k)] - self.A[k]) @ self.basis.T)

    def rival_lengths(self, k: int) -> Floats:
        """``‖ā_j‖`` of the rivals of class index ``k``."""
        if len(self.A) < SHARED_GRAM:
            return self._kept("lengths", k, lambda k: norms(self.A[self.rivals(k)] - self.A[k]))
        size, products = np.diagonal(self.gram), self.gram[k]  # many: an upper bound on what they round to
        squares = size - 2 * products + products[k]
        return np.delete(np.sqrt(np.maximum(squares, 0.0) + 8 * EPS * (size + products[k])), k)

    def _kept(self, what: str, k: int, make: Callable[[int], Any]) -> Any:
        found = self._per_target.get((what, k))
        if found is None:
            if len(self._per_target) >= max(1, 3 * CACHE_BYTES // (8 * len(self.A) ** 2)):
                self._per_target.pop(next(iter(self._per_target)), None)  # another thread may be doing the same
            found = self._per_target[what, k] = frozen(make(k))
        return found

    def _make_rival_gram(self, k: int) -> Floats:
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

    def _make_shared_gram(self, k: int) -> Floats:
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
