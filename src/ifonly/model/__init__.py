"""The fixed classifier and the user's own columns; `readers` makes one from an estimator."""

from ifonly.model.classifier import CROWDED, GRAM_CLASSES, Model, Scaling

__all__ = ["CROWDED", "GRAM_CLASSES", "Model", "Scaling"]
