"""For tests of what other libraries fitted: what is not installed is skipped, and says so.

PyTorch, Keras and xgboost evaluate in single precision. The same weights in double precision give our probabilities to
`EXACT`; their own are off by the rounding of a sum of ten float32 products, so they agree to `SINGLE`. For the same reason an
answer at the very boundary (``prob=0.5``, two classes) is not told apart from the boundary in float32: what holds is that
the same network in double precision predicts the target for every source at ``prob=0.5``, and the one in single
precision at `CLEAR`.
"""

import numpy as np
import pytest

EXACT = {"rtol": 0, "atol": 1e-12}
SINGLE = {"rtol": 0, "atol": 1e-6}
CLEAR = 0.51
N = 1000
D = 8


def needs(name, install=None):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install {install or name}")


def sources(rng, K, width=D):
    """Rows, and a class to reach from each."""
    return rng.normal(size=(N, width)) * 3, rng.integers(K, size=N)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
