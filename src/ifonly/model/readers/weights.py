"""What a classifier does with its features, whatever it is called."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ifonly.model import Model

__all__ = ["LinearWeights"]


class LinearWeights(NamedTuple):
    """One row of weights for two classes, or one per class."""

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
