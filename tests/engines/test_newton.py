"""Newton's method, paths and the nearest class: against the paper, Newton in D dimensions and a conic solver."""

import cvxpy as cp
import numpy as np
import pytest

import ifonly
from experiments.baselines import feature_newton
from ifonly.engines.class_newton import carry_on
from ifonly.engines.coordinates import Basis, Rivals
from ifonly.engines.newton import newton

pytestmark = pytest.mark.usefixtures("loops")

# ---- Newton ----


def test_iterates_from_the_source_are_those_of_the_paper(mnist, paper_problems):
    A, b, _ = mnist
    model = ifonly.Model(A, b)
    for x, k, lam in paper_problems:
        ours = ifonly.invert(model, x, k, lam=lam, tol=1e-8, start="source")
        theirs = feature_newton(model, x, k, lam, tol=1e-8)
        assert ours.n_iter == len(theirs.steps)
        assert [step.trials for step in ours.history] == theirs.trials
        # theorem 3.6 subtracts twice from numbers that are all but equal where p is saturated, and loses nine digits there
        np.testing.assert_allclose([step.objective for step in ours.history], theirs.objectives[:-1], rtol=1e-5)
        np.testing.assert_allclose(ours.x, theirs.x, atol=1e-6)


@pytest.mark.seconds
def test_iterates_from_the_source_are_newtons_in_d_dimensions(mnist, paper_problems):
    """With the Hessian formed and solved in full, no formula between: the same E to twelve digits, step by step."""
    A, b, _ = mnist
    model = ifonly.Model(A, b)
    for x, k, lam in paper_problems[::10]:
        problem, at = ifonly.Problem(model, x, k, lam), x
        for step in ifonly.invert(model, x, k, lam=lam, tol=1e-8, start="source").history:
            np.testing.assert_allclose(step.objective, problem.objective(at), rtol=1e-12)
            at = at - step.step * np.linalg.solve(problem.hessian(at), problem.gradient(at))


def test_default_start_needs_few_iterations(mnist, paper_problems):
    A, b, _ = mnist
    model = ifonly.Model(A, b)
    answers = [ifonly.invert(model, x, k, lam=lam, tol=1e-8) for x, k, lam in paper_problems]
    assert np.mean([cf.n_iter for cf in answers]) <= 4.0
    assert all(cf.grad_norm < 1e-8 and cf.status is ifonly.Status.CONVERGED for cf in answers)
    for cf in answers:
        cf.verify()


def test_baseline_gets_the_optimum_too(small):
    model, source, k = small
    run = feature_newton(model, source, k, 0.1, tol=1e-12)
    np.testing.assert_allclose(run.x, ifonly.invert(model, source, k, lam=0.1).x, atol=1e-11)


@pytest.mark.parametrize("K", [2, 3, 8])
@pytest.mark.parametrize("D", [1, 4, 30])
def test_every_start_leads_to_the_optimum(K, D, rng):
    model = ifonly.Model(rng.normal(size=(K, D)), rng.normal(size=K))
    source = rng.normal(size=D)
    for lam in (1e-4, 1e-1, 1e2):
        best = ifonly.invert(model, source, 0, lam=lam)
        for far in (1.0, 1e2, 1e4):
            cf = ifonly.invert(model, source, 0, lam=lam, start=rng.normal(size=D) * far)
            assert cf.status is ifonly.Status.EXACT
            np.testing.assert_allclose(cf.x, best.x, rtol=1e-10, atol=1e-10)
            objectives = np.array([step.objective for step in cf.history])
            assert (np.diff(objectives) <= 1e-9 * (1 + objectives[:-1])).all()


def test_status_tells_a_met_tolerance_from_the_last_digit(small):
    model, source, k = small
    met = ifonly.invert(model, source, k, lam=0.1, tol=1e-3)
    assert met.status is ifonly.Status.CONVERGED
    assert met.grad_norm <= 1e-3
    beyond = ifonly.invert(model, source, k, lam=0.1, tol=1e-30)
    assert beyond.status is ifonly.Status.EXACT
    assert beyond.grad_norm > 1e-30
    cut = ifonly.invert(model, source, k, lam=1e-3, start="source", max_iter=1)
    assert cut.status is ifonly.Status.MAX_ITER
    assert "raise max_iter" in cut.message
    best = ifonly.invert(model, source, k, lam=1e-3)
    assert 0 < cut.objective - best.objective <= cut.gap
    assert np.linalg.norm(cut.x - best.x) <= cut.error_bound
    cut.verify()


@pytest.mark.parametrize("kind", ["rivals", "basis"])
def test_factor_gives_newtons_step_and_the_derivative_along_lambda(kind, rng):
    A, margins, lam = rng.normal(size=(5, 5)), rng.normal(size=5), 0.3
    space = Rivals(A @ A.T, margins, lam) if kind == "rivals" else Basis(A, margins, lam)
    point = space.evaluate(rng.uniform(0, 0.1, size=5))
    p, S = point.p, np.diag(point.p) - np.outer(point.p, point.p)
    factor = space.factor(point)
    if kind == "rivals":
        expected = np.linalg.solve(np.eye(5) + S @ A @ A.T / lam, p - point.at)
    else:
        expected = np.linalg.solve(lam * np.eye(5) + A.T @ S @ A, -(lam * point.at + A.T @ p))
    np.testing.assert_allclose(factor.newton(), expected, rtol=1e-10, atol=1e-13)

    def answer(log_lam):
        at = space.at(float(np.exp(log_lam)))
        return newton(at, at.start()).point

    h = 1e-4
    up, down, here = answer(np.log(lam) + h), answer(np.log(lam) - h), answer(np.log(lam))
    tangent, ds = space.factor(here).tangent()
    np.testing.assert_allclose(tangent, (up.at - down.at) / (2 * h), atol=1e-6)  # central differences: O(h²)
    np.testing.assert_allclose(ds, (down.moved - up.moved) / (2 * h), atol=1e-6)


def test_both_sets_of_coordinates_give_the_same_answer(rng):
    A, margins = rng.normal(size=(6, 6)), rng.normal(size=6) * 3
    for lam in (1e-3, 1.0, 1e3):
        rivals, basis = Rivals(A @ A.T, margins, lam), Basis(A, margins, lam)
        q, xi = newton(rivals, rivals.start()).point, newton(basis, basis.start()).point
        np.testing.assert_allclose(-(A.T @ q.at) / lam, xi.at, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(q.p, xi.p, rtol=1e-9)


def test_conic_solver_agrees(rng):
    for K, D in ((3, 5), (6, 10)):
        A, b, source, k, lam = rng.normal(size=(K, D)), rng.normal(size=K), rng.normal(size=D), 1, 0.05
        x = cp.Variable(D)
        loss = cp.log_sum_exp((A - A[k]) @ x + (b - b[k]))
        conic = cp.Problem(cp.Minimize(lam / 2 * cp.sum_squares(x - source) + loss))
        conic.solve(solver=cp.CLARABEL)
        cf = ifonly.invert(ifonly.Model(A, b), source, k, lam=lam)
        assert cf.objective <= conic.value + 1e-9
        np.testing.assert_allclose(cf.x, x.value, atol=1e-4)  # the conic solver's own tolerance, through E's flatness


# ---- paths ----


def test_path_gives_the_single_answers(rng):
    for K, D in ((2, 8), (3, 2), (6, 20), (9, 4)):
        model = ifonly.Model(rng.normal(size=(K, D)), rng.normal(size=K))
        x = rng.normal(size=D)
        path = ifonly.path(model, x, 1)
        assert len(path) == 100
        for i in range(0, 100, 9):
            single = ifonly.invert(model, x, 1, lam=path.lam[i])
            np.testing.assert_allclose(path[i].x, single.x, rtol=1e-12, atol=1e-12 * (1 + single.distance))
        assert (np.diff(path.proba[:, 1]) > -1e-15).all()  # p rises as λ falls
        assert (np.diff(path.distance) > 0).all()
        assert (path.status == ifonly.Status.EXACT).all()


def test_path_takes_lambdas_in_any_order_and_keeps_it(small):
    model, x, k = small
    lams = [0.1, 100.0, 1e-3, 0.1, 1e-8, 1e8]
    path = ifonly.path(model, x, k, lams=lams)
    assert path.lam.tolist() == lams
    for cf in path:
        np.testing.assert_allclose(cf.x, ifonly.invert(model, x, k, lam=cf.lam).x, rtol=1e-11, atol=1e-11)
        cf.verify()


def test_path_answers_between_its_lambdas(small):
    model, x, k = small
    path = ifonly.path(model, x, k)
    # the one in NumPy, the other in the compiled kernel if another test has loaded it
    np.testing.assert_allclose(path.at_lam(0.0123).x, ifonly.invert(model, x, k, lam=0.0123).x, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(path.at_prob(0.87).x, ifonly.invert(model, x, k, prob=0.87).x)
    assert path.x.shape == path.delta.shape == (100, 7)
    np.testing.assert_allclose(path.x[40], path[40].x, rtol=1e-15, atol=1e-15)  # one product, or one for all


def test_polynomial_start_is_exact_for_polynomials():
    curve = np.polynomial.Polynomial([1.0, -2.0, 0.5, 3.0, -1.0, 0.25])  # degree 5: three values, three tangents
    knots = [(t, np.array([curve(t)]), np.array([curve.deriv()(t)])) for t in (0.5, 0.3, 0.15)]
    np.testing.assert_allclose(carry_on(knots, -0.05), curve(-0.05), rtol=1e-12)
    assert carry_on(knots, -5.0) is None
    assert carry_on([], 0.0) is None


# ---- the nearest other class ----


@pytest.mark.parametrize("form", [{"prob": 0.5}, {"prob": 0.9}, {"lam": 0.01}, {"lam": 1.0}])
def test_nearest_class_is_the_best_of_all(form, rng):
    for _ in range(10):
        model = ifonly.Model(rng.normal(size=(6, 9)), rng.normal(size=6))
        x = rng.normal(size=9)
        now = model.predict(x)
        others = [ifonly.invert(model, x, k, **form) for k in range(6) if k != now]
        value = (lambda cf: cf.distance) if "prob" in form else (lambda cf: cf.objective)
        best = min(others, key=value)
        for target in (None, "other"):
            assert ifonly.invert(model, x, target, **form).target == best.target


def test_without_lam_and_prob_the_decision_flips(small):
    model, x, _ = small
    cf = ifonly.invert(model, x)
    assert model.predict(cf.x) == cf.target != model.predict(x)
    assert 0.5 <= cf.proba[cf.target] <= 0.5 + 1e-9
