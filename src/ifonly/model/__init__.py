"""The fixed classifier and the user's own columns; `readers` makes one from an estimator."""

from ifonly.model.classifier import LinearWeights, Model, Scaling
from ifonly.model.products import GRAM_CLASSES

__all__ = ["GRAM_CLASSES", "LinearWeights", "Model", "Scaling"]
