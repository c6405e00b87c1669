"""One small model that many tests ask, and what every answer owes its user."""

import numpy as np

from helpers import reference
from ifonly import Model

A = np.array([[1.0, -2.0, 0.5, 0.0], [0.0, 1.0, -1.0, 2.0], [-1.0, 0.5, 1.5, -1.0]])
B = np.array([0.3, -0.2, 0.1])
X = np.array([1.0, -0.5, 2.0, 0.25])  # p = 0.843, 0.003, 0.154
HUGE = np.array([1.0, -1.0, 1.0, 1.0]) * 1e308  # finite, but its logits are not
NAMES = ("age", "income", "loans", "months")
MODEL = Model(A, B, classes=["a", "b", "c"], feature_names=NAMES)
PAIR = Model(A[:2], B[:2], classes=["no", "yes"])

BACKENDS = ["auto", "reference", "cpu"]  # auto: one row after the other for so few

NEARLY_ONE = float(np.nextafter(1.0, 0.0))
NUMBERS = ("x", "delta", "source", "proba", "distance", "objective", "grad_norm", "gap", "error_bound", "coef")

# Two orders of summation (gemv or gemm, contiguous or strided) differ in the last bits of the logits, so answers that are
# the same in exact arithmetic agree to a few units of 1e-16 times the condition of these small problems.
SAME = {"rtol": 1e-12, "atol": 1e-13}


def replaced(array, place, value):
    """A copy with one entry replaced."""
    out = np.array(array, dtype=float)
    out[place] = value
    return out


def sound(cf):
    """What every solved answer owes its user: it is recomputed and holds, and nothing in it is NaN or infinite."""
    cf.verify()
    assert cf.status.ok, cf.message
    assert [name for name in NUMBERS if not np.isfinite(np.asarray(getattr(cf, name))).all()] == []
    assert cf.lam > 0  # infinite where the source is the answer, never NaN
    if cf.prob is not None:
        assert np.atleast_2d(cf.model.predict_proba(cf.x))[0, cf.model.class_index(cf.target)] >= cf.prob
    return cf


def true_bound(cf):
    """The certificate against the truth in 50 digits (models without a scaler, finite λ)."""
    best = reference.optimum(cf.model.A, cf.model.b, cf.source, cf.model.class_index(cf.target), cf.lam)
    assert best.distance_to(cf.x) <= cf.error_bound
    return best
