"""Two classes (theorem 4.1): φ to a few ulps, and the answer that comes from it."""

import mpmath as mp
import numpy as np
import pytest
from helpers import reference
from hypothesis import given, settings
from hypothesis import strategies as st

import ifonly

pytestmark = pytest.mark.usefixtures("loops")

FEW_ULPS = 4 * np.finfo(float).eps


def assert_phi(alpha, beta):
    t, u = reference.dual_root(alpha, beta)
    with mp.workdps(60):
        for got, truth in ((ifonly.phi(alpha, beta), t), (ifonly.phi(alpha, beta, complement=True), u)):
            if truth > mp.mpf(2) ** -1021:  # below, float64 has no full precision to give
                assert abs(mp.mpf(float(got)) - truth) <= FEW_ULPS * truth, (alpha, beta)


@pytest.mark.seconds
@settings(max_examples=400)
@given(st.floats(-12, 12), st.floats(-1e6, 1e6))
def test_phi_is_exact_to_a_few_ulps(exponent, beta):
    assert_phi(10.0**exponent, beta)


@pytest.mark.seconds
@settings(max_examples=400)
@given(st.floats(-12, 6), st.floats(-0.2, 1.2))
def test_phi_is_exact_where_alpha_and_beta_nearly_cancel(exponent, share):
    assert_phi(10.0**exponent, -share * 10.0**exponent)


@pytest.mark.parametrize("margin", [1e7, 1e8, 1e10, 1e12])
def test_phi_is_exact_beyond_the_promised_range(margin):
    for share in (0.3, 0.5, 0.9):
        assert_phi(margin / share, -margin)


def test_phi_takes_arrays_and_keeps_their_shape():
    alpha, beta = np.logspace(-12, 12, 9)[:, None], np.linspace(-50, 50, 11)
    t = ifonly.phi(alpha, beta)
    assert t.shape == (9, 11)
    assert float(t[3, 4]) == float(ifonly.phi(alpha[3, 0], beta[4]))
    assert ifonly.phi(0.0, 0.0) == 0.5
    with pytest.raises(ifonly.InputError, match="alpha must be finite and ≥ 0"):
        ifonly.phi(-1.0, 0.0)
    with pytest.raises(ifonly.InputError, match="beta must be finite"):
        ifonly.phi(1.0, np.nan)


def test_two_classes_agree_with_newton_from_the_source(rng):
    for _ in range(20):
        model = ifonly.Model(rng.normal(size=(2, 6)) * 3, rng.normal(size=2))
        x, lam = rng.normal(size=6) * 3, 10 ** rng.uniform(-3, 3)
        closed, iterated = (ifonly.invert(model, x, 1, lam=lam, start=s) for s in (None, "source"))
        np.testing.assert_allclose(closed.x, iterated.x, rtol=1e-12, atol=1e-13)
        assert closed.n_iter == 0
        assert iterated.n_iter > 0
