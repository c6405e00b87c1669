"""Problems of random numbers."""

from itertools import product
from types import SimpleNamespace

import numpy as np

from ifonly import Model


def half(*values):
    """Half of all combinations of some lists: of any two lists of which one is long enough, all pairs are there."""
    numbered = product(*(list(enumerate(each)) for each in values))
    return [tuple(v for _, v in some) for some in numbered if sum(i for i, _ in some) % 2 == 0]


def make(rng, K, D, N, size=1.0):
    """A model, N rows, and a class to reach from each."""
    model = Model(rng.normal(size=(K, D)), rng.normal(size=K))
    return model, rng.normal(size=(N, D)) * size, rng.integers(K, size=N)


def head(K=6000, D=80, seed=0, temperature=12.0):
    """A synthetic head: clustered rows, falling biases, and embeddings near the rows."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((50, D))
    A = ((0.6 * centres[rng.integers(0, 50, K)] + 0.8 * rng.standard_normal((K, D))) / np.sqrt(D)).astype(np.float32)
    b = (-0.5 * np.log1p(np.arange(K))).astype(np.float32)
    X = temperature * (A[rng.integers(0, K, 40)] + 0.3 * rng.standard_normal((40, D)) / np.sqrt(D))
    return SimpleNamespace(A=A, b=b, X=X, model=Model(A, b))
