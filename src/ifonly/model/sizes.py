"""How large the numbers are that meet in a logit: what rounding can do to ``A x + b`` is a share of it.

A logit is a sum of terms ``a_jd x_d``. Its error is bounded by `numerics.summation_error` times the sum of their sizes, not by
its own size: terms may cancel, those that a pipeline adds and takes away again included.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ifonly.model.columns import Coordinates
from ifonly.model.numerics import EPS, Floats, blocks, frozen, norms, summation_error

__all__ = ["NOWHERE", "ModelSizes", "Sizes"]

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


class ModelSizes:
    """How large a model's weights and offsets are, worked out once. A part of `Model`, which has these attributes."""

    A: np.ndarray
    scaling: Any  # a Scaling, or None
    encoding: Coordinates
    precision: float
    mixes_units: cached_property[bool]  # of `Products`

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
    def uneven_units(self) -> bool:
        """Whether features come in units so different that a basis should not mix them."""
        used = self.column_sizes[self.column_sizes > 0]
        return bool(used.size and used.max() > UNEVEN_UNITS * used.min())

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
        if loose.any() and not self.mixes_units:
            terms[loose] = np.asarray(abs(X[loose]) @ self.column_sizes).ravel()
        return Sizes(lengths + 2 * self.offset_norm, terms + 2 * self.offset_size)

    def size_of(self, x: Floats, z: Floats, length: float) -> Sizes:
        """`sizes_of` for one dense source, in plain numbers: a tenth of the time."""
        terms = self.row_norm * length
        if terms > LOOSE * (1 + float(np.abs(z).max())) and not self.mixes_units:
            terms = float(np.abs(x) @ self.column_sizes)
        return Sizes(length + 2 * self.offset_norm, terms + 2 * self.offset_size)
