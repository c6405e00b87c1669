"""The textbook: derivatives, the Hessian's spectrum, the Lipschitz constant and the duality gap."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import ifonly


def test_gradient_and_hessian_are_the_derivatives_of_the_objective(small, rng):
    model, source, k = small
    problem = ifonly.Problem(model, source, k, lam=0.3)
    x = rng.normal(size=7)
    gradient = problem.gradient(x)
    np.testing.assert_allclose(gradient, approx_fprime(x, problem.objective, 1e-7), atol=1e-6)  # forward differences
    hessian = problem.hessian(x)
    for d in range(7):
        h = np.eye(7)[d] * 1e-5
        column = (problem.gradient(x + h) - problem.gradient(x - h)) / 2e-5
        np.testing.assert_allclose(hessian[:, d], column, atol=1e-9)  # central differences: O(h²)
        np.testing.assert_allclose(problem.hessian_operator(x) @ np.eye(7)[d], hessian[:, d], atol=1e-14)


@pytest.mark.parametrize(("K", "D"), [(2, 9), (4, 9), (9, 9), (12, 5)])
def test_spectrum_of_the_hessian_is_as_theorem_3_3_says(K, D, rng):
    model = ifonly.Model(rng.normal(size=(K, D)), rng.normal(size=K))
    problem = ifonly.Problem(model, rng.normal(size=D), 0, lam=0.05)
    for _ in range(5):
        values = np.linalg.eigvalsh(problem.hessian(rng.normal(size=D)))
        assert (values >= 0.05 * (1 - 1e-12)).all()
        assert np.isclose(values, 0.05, rtol=1e-12).sum() >= problem.n_flat == max(D - K + 1, 0)
        assert values[-1] <= problem.lipschitz
        assert values[-1] / values[0] <= problem.condition_bound


def test_gradient_is_lipschitz_with_the_constant_of_theorem_3_4(small, rng):
    model, source, k = small
    problem = ifonly.Problem(model, source, k, lam=0.01)
    x, y = rng.normal(size=(2, 200, 7)) * 3
    for a, c in zip(x, y, strict=True):
        assert np.linalg.norm(problem.gradient(a) - problem.gradient(c)) <= problem.lipschitz * np.linalg.norm(a - c)


def test_duality_gap_at_x_is_the_bound_of_strong_convexity(small, rng):
    model, source, k = small
    problem = ifonly.Problem(model, source, k, lam=0.2)
    x = rng.normal(size=7)
    gap = problem.objective(x) - problem.dual(model.predict_proba(x))
    np.testing.assert_allclose(gap, np.sum(problem.gradient(x) ** 2) / (2 * 0.2), rtol=1e-12)
    best = ifonly.invert(model, source, k, lam=0.2)
    assert abs(best.objective - problem.dual(best.proba)) <= 1e-14
    assert problem.dual(rng.dirichlet(np.ones(4))) <= best.objective
