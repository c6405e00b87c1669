"""`verify` finds what is wrong, and a tolerance is met for certain."""

import dataclasses

import numpy as np
import pytest

import ifonly


def test_verify_finds_an_answer_that_was_tampered_with(small):
    model, x, k = small
    cf = ifonly.invert(model, x, k, prob=0.8)
    cf.verify()
    tampered = {
        "coef": cf.coef * (1 + 1e-6),
        "distance": cf.distance * (1 + 1e-6),
        "objective": cf.objective + 1e-6,
        "proba": np.roll(cf.proba, 1),
        "prob": 0.8001,
        "lam": cf.lam * 1.01,
    }
    for field, value in tampered.items():
        changed = {field: value} if field == "prob" else {"result": dataclasses.replace(cf.result, **{field: value})}
        with pytest.raises(ifonly.CertificateError):
            dataclasses.replace(cf, **changed).verify()


@pytest.mark.parametrize("backend", ["auto", "reference", "cpu"])
def test_a_tolerance_is_met_for_certain_or_the_answer_is_exact(backend, rng):
    model = ifonly.Model(rng.normal(size=(5, 30)), rng.normal(size=5))
    X = rng.normal(size=(40, 30))
    best = ifonly.invert(model, X, 2, lam=0.01)
    for tol in 10.0 ** np.arange(-16, -2):
        answers = ifonly.invert(model, X, 2, lam=0.01, tol=tol, backend=backend)
        met = answers.status == ifonly.Status.CONVERGED
        assert (answers.grad_norm[met] <= tol).all()
        assert (answers.status[~met] == ifonly.Status.EXACT).all()
        np.testing.assert_allclose(answers.x[~met], best.x[~met], rtol=0, atol=1e-12)
