"""A model with everything set: classes, names and units; and a row."""

import numpy as np

from ifonly import Model, Scaling

A = np.array([[1.0, -2.0, 0.5], [0.0, 1.0, -1.0], [-1.0, 0.5, 1.5], [2.0, 2.0, 0.0]])
B = np.array([0.3, -0.2, 0.1, 0.0])
UNITS = Scaling(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 0.1]))
X = np.array([0.5, 1.0, -2.0])


def make(**changed):
    """A model with everything set, or with some of it changed."""
    arguments = {"A": A, "b": B, "classes": list("wxyz"), "feature_names": ["u", "v", "w"], "scaling": UNITS}
    return Model(**{**arguments, **changed})
