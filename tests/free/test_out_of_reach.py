"""Out of reach without limits: what is within reach is not believed to be, however consistent the claim."""

import math

import numpy as np
import pytest

import ifonly
from ifonly import CertificateError, Model, Status
from ifonly.problem.checker import check
from ifonly.problem.results import Result


def claim(model, x, k):
    """That nothing has a larger p_k than x."""
    p = model.predict_proba(x)
    return Result(k, Status.UNREACHABLE, math.inf, 0.0, -math.log(p[k]), 0.0, p, ceiling=float(p[k]))


@pytest.mark.parametrize("prob", [0.5, 0.9, 1 - 1e-9])
@pytest.mark.parametrize("seed", range(8))
def test_a_source_that_could_go_on_is_refused(rng, seed, prob):
    K, D = int(rng.integers(2, 7)), int(rng.integers(2, 8))
    model = Model(rng.normal(size=(K, D)) * 10 ** rng.uniform(-2, 2, size=D), rng.normal(size=K))
    x = rng.normal(size=D) / np.abs(model.A).max(axis=0)
    k = int(np.argmin(model.predict_proba(x)))
    if model.predict_proba(x)[k] >= prob or not ifonly.invert(model, x, k, prob=prob).status.ok:
        pytest.skip("there already, or out of reach")
    with pytest.raises(CertificateError, match="is in reach"):
        check(model, None, x, x, prob, claim(model, x, k))


@pytest.mark.parametrize(("prob", "refused"), [(0.3, True), (0.34, False)])
def test_between_two_others_a_third_is_all_there_is(prob, refused):
    """x lowers one rival and raises the other: p is 1/3 at most, at 0."""
    model, x = Model([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], np.zeros(3)), np.array([3.0, 1.0])
    if refused:
        with pytest.raises(CertificateError, match="is in reach"):
            check(model, None, x, x, prob, claim(model, x, 2))
    else:
        assert check(model, None, x, x, prob, claim(model, x, 2)).unproved
        cf = ifonly.invert(model, x, 2, prob=prob)
        assert cf.status is Status.UNREACHABLE
        assert cf.verify().ceiling == pytest.approx(1 / 3)
