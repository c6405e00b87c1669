"""Tables of sources within limits on features one by one, of every kind that a GPU takes."""

import numpy as np

from ifonly import Actions, Cost, Model, Scaling

KINDS = ("bounds", "directions", "l1", "scales", "scaler", "far from their mean")


def within(rng, kind, K, D, N):
    """A model, sources (one of which is wrong), targets, and the cost and the limits as keyword arguments of `invert`."""
    A = rng.normal(size=(K, D)) / np.sqrt(D / 30)
    if kind == "far from their mean":
        A += 30 * rng.normal(size=D)
    scaling = Scaling(rng.normal(size=D), rng.uniform(0.3, 3.0, size=D)) if kind == "scaler" else None
    model = Model(A, rng.normal(size=K), scaling=scaling)
    X = rng.uniform(size=(N, D))
    X[3 % N, 2] = np.nan
    options = {"actions": Actions(bounds=(0.0, 1.0))}
    if kind == "directions":
        options = {
            "actions": Actions(bounds={3: (-1.0, 2.0), 4: (None, 0.7)}, frozen=[0, 1], increase=[2, 5, 6], decrease=[7, 8])
        }
    elif kind == "l1":
        options["cost"] = Cost(l1=0.02)
    elif kind == "scales":
        options["cost"] = Cost(rng.uniform(0.5, 2.0, size=D), l1=0.01)
    return model, X, rng.integers(K, size=N), options
