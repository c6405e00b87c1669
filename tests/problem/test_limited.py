"""The textbook of problems with limits, against 50 digits, a conic solver and differences: nothing here imports an engine."""

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from helpers.conic import Conic
from helpers.limited_problems import Asked, a_cost, a_model, an_asked

from ifonly import Actions, InputError, Model
from ifonly.problem.conditions import Conditions
from ifonly.problem.goals import Weights, excess, probabilities
from ifonly.problem.limited import LimitedProblem

TOLERANCES = {
    "digits": 1e-13,  # relative: float64 against 50 digits, for sums of up to 30 terms of about one size
    "conic": 2e-6,  # relative to 1 + |value|: Clarabel at its default accuracy of 1e-8, on badly scaled cones
    "conic goal": 1e-5,  # the same for a least cost, which moves by 1/λ times as much as the goal
    "difference": 1e-6,  # relative: central differences with a step of 1e-6
}
SEEDS = range(30)


def problem_of(asked: Asked) -> LimitedProblem:
    conditions = asked.conditions or Conditions(asked.model)
    return LimitedProblem(conditions, asked.source, asked.k)


def weights_of(asked: Asked, rng) -> Weights:
    if asked.margin is not None:
        return Weights.of_cost()
    return Weights.given(asked.lam) if asked.lam is not None else Weights.found(10 ** rng.uniform(-2, 1))


def a_point(problem: LimitedProblem, rng) -> np.ndarray:
    """Somewhere in the box, some features at the source and some at their bounds."""
    lo, hi = problem.box
    x = problem.source + rng.normal(size=len(lo)) * rng.choice([0.0, 0.5, 3.0], len(lo))
    return np.clip(x, lo, hi)


def some_multipliers(problem: LimitedProblem, rng) -> tuple[np.ndarray, np.ndarray]:
    K, m = problem.model.n_classes, len(problem.rows[1])
    return rng.dirichlet(np.full(K, rng.choice([0.1, 1.0, 10.0]))), rng.normal(size=m) * rng.choice([0.0, 0.3, 1.0])


# ---- a point ----


def in_digits(problem: LimitedProblem, x, weights: Weights):
    """E(x), the cost and −ln p_k(x) in 50 digits."""
    conditions, model = problem.conditions, problem.model
    with mp.workdps(50):
        change = [mp.mpf(float(a)) - mp.mpf(float(b)) for a, b in zip(x, problem.source, strict=True)]
        c = [mp.mpf(float(v)) for v in conditions.per_unit]
        D = len(change)
        Q = conditions.matrix
        if Q is None:
            square = mp.fsum((c[d] * change[d]) ** 2 for d in range(D))
        else:
            square = mp.fsum(change[i] * mp.mpf(float(Q[i, j])) * change[j] for i in range(D) for j in range(D))
        sparse = mp.fsum(mp.mpf(float(conditions.mu[d])) * c[d] * abs(change[d]) for d in range(D))
        seen = [mp.mpf(float(v)) for v in x]
        if model.scaling is not None:
            seen = [
                (v - mp.mpf(float(a))) / mp.mpf(float(b))
                for v, a, b in zip(seen, model.scaling.shift, model.scaling.scale, strict=True)
            ]
        z = [mp.fdot([mp.mpf(float(v)) for v in row], seen) + mp.mpf(float(b)) for row, b in zip(model.A, model.b, strict=True)]
        loss = mp.log(mp.fsum(mp.exp(v - z[problem.k]) for v in z))
        E = mp.mpf(weights.lam) / 2 * square + mp.mpf(weights.l1) * sparse + (loss if weights.loss else 0)
        return E, square / 2 + sparse, loss


@pytest.mark.parametrize("seed", SEEDS)
def test_objective_cost_and_loss_agree_with_50_digits(seed):
    rng = np.random.default_rng(seed)
    asked = an_asked(rng)
    problem, weights = problem_of(asked), weights_of(asked, rng)
    x = a_point(problem, rng)
    E, cost, loss = in_digits(problem, x, weights)
    rtol = TOLERANCES["digits"]
    assert abs(problem.objective(x, weights) - float(E)) <= rtol * float(E) + problem.logit_error(x)
    np.testing.assert_allclose(problem.cost_of(x)[1], float(cost), rtol=rtol)
    np.testing.assert_allclose(
        problem.cost_of(x)[0] ** 2 / 2, float(cost) - problem.sparse(x - asked.source), rtol=1e3 * rtol, atol=rtol
    )
    p, found = problem.proba(x)
    assert abs(found - float(loss)) <= problem.logit_error(x)
    np.testing.assert_allclose(p[asked.k], math.exp(-found), rtol=1e-12)


@pytest.mark.parametrize("ahead", [-700.0, -40.0, -1.0, 0.0, 1.0, 40.0, 300.0])
def test_the_loss_has_all_its_digits(ahead):
    p, loss = probabilities(np.array([ahead, 0.0, -1.0]), 0)
    with mp.workdps(50):
        exact = mp.log1p(mp.exp(-mp.mpf(ahead)) + mp.exp(-1 - mp.mpf(ahead)))
    np.testing.assert_allclose(loss, float(exact), rtol=TOLERANCES["digits"])
    assert p.sum() == pytest.approx(1.0)


def test_excess_is_what_p_is_above_the_goal():
    p, loss = probabilities(np.array([1.0, 0.0]), 0)
    assert excess(p, loss, 0, 0.5, 0.0) == pytest.approx(math.log(p[0] / 0.5))
    assert 0 < excess(p, loss, 0, 0.9, 1e-12) < 1e-11  # below the goal: nothing but rounding


def test_which_limit_is_broken_is_said():
    model = Model(np.eye(3), np.zeros(3), feature_names=list("abc"))
    source = np.zeros(3)
    problem = LimitedProblem(Conditions(model, actions=Actions(bounds={"a": (-1, 1)}), max_changes=1), source, 0)
    assert problem.broken(source) is None
    assert problem.broken(np.array([np.nextafter(1.0, 2), 0, 0])).startswith("a limit is broken: a is")
    assert problem.broken(np.array([1.0, 1.0, 0])) == "2 features change; at most 1 may"
    with pytest.raises(InputError, match="there is no value for it"):
        _ = LimitedProblem(Conditions(model, actions=Actions(bounds={"a": (-1, 1)}, increase=["a"])), source + 2, 0).box


# ---- the certificate ----


@pytest.mark.parametrize("kind", ["plain", "scale", "matrix"])
@pytest.mark.parametrize("seed", range(5))
def test_the_subgradient_is_the_gradient_where_there_is_one(kind, seed):
    rng = np.random.default_rng([seed, 1])
    model = a_model(rng)
    D = model.n_features
    problem = problem_of(Asked(model, rng.normal(size=D), 0, cost=a_cost(rng, D, kind)))
    x, weights = problem.source + rng.normal(size=D), Weights.given(0.7)
    Q = np.diag(problem.conditions.per_unit**2) if problem.conditions.matrix is None else problem.conditions.matrix
    gradient = [(problem.objective(x + h, weights) - problem.objective(x - h, weights)) / 2e-6 for h in 1e-6 * np.eye(D)]
    norm = math.sqrt(np.array(gradient) @ np.linalg.solve(Q, gradient))
    np.testing.assert_allclose(problem.certificate(x, weights).grad_norm, norm, rtol=TOLERANCES["difference"])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_certificate_is_above_the_gap(seed):
    """E* ≤ E(x) and E(x) − E* ≤ gap, with any multipliers and at any point: Clarabel has E*."""
    rng, least = np.random.default_rng([seed, 2]), None
    while least is None:  # until limits leave a point
        asked = an_asked(rng)
        problem, weights = problem_of(asked), weights_of(asked, rng)
        conic = Conic(problem)
        least = conic.least(weights)
    slack = TOLERANCES["conic"] * (1 + abs(least))
    for _ in range(5):
        _, nu = some_multipliers(problem, rng)
        x = a_point(problem, rng)
        found = problem.certificate(x, weights, nu)
        assert found.objective - found.gap <= least + slack
        best = np.clip(problem.source + conic.change.value, *problem.box)
        if problem.broken(x) is None:
            assert found.objective >= least - slack
            _, away = problem.cost_of(problem.source + (x - best))
            assert found.error_bound >= math.sqrt(2 * max(away - problem.sparse(x - best), 0.0)) - math.sqrt(slack)


@pytest.mark.parametrize("seed", range(20))
def test_for_a_probability_no_cost_is_below_the_bound(seed):
    rng = np.random.default_rng([seed, 4])
    asked = replace(an_asked(rng), lam=None, margin=None, prob=float(rng.uniform(0.2, 0.8)))
    problem = problem_of(asked)
    least = Conic(problem).least_cost(asked.prob)
    for lam in (0.01, 0.1, 1.0, 10.0):
        x = a_point(problem, rng)
        nu = some_multipliers(problem, rng)[1]
        found = problem.certificate(x, Weights.found(lam), nu)
        _, loss = problem.proba(x)
        bound = problem.cost_of(x)[1] - (found.gap - loss - math.log(asked.prob)) / lam
        assert least is None or bound <= least + TOLERANCES["conic goal"] * (1 + least)


@pytest.mark.parametrize("seed", range(12))
def test_groups_are_rows_whose_columns_add_up_to_one(seed):
    rng = np.random.default_rng([seed, 5])
    model = a_model(rng, scaled=False)
    D = model.n_features
    source = rng.normal(size=D)
    source[:2] = [0.0, 1.0]
    conditions = Conditions(
        model, a_cost(rng, D, "scale"), Actions(one_of=[[0, 1]], linear=[({0: 1.0, D - 1: 1.0}, "<=", 3.0)])
    )
    problem, weights = LimitedProblem(conditions, source, 0), Weights.given(0.2)
    R, equal = problem.rows
    assert equal.tolist() == [False, True]
    assert R[1].tolist() == [1.0, 1.0] + [0.0] * (D - 2)
    least = Conic(problem).least(weights)
    for _ in range(20):
        found = problem.certificate(a_point(problem, rng), weights, some_multipliers(problem, rng)[1])
        assert found.objective - found.gap <= least + TOLERANCES["conic"]
    for choice in ([0.0, 1.0], [1.0, 0.0]):  # what the relaxation leaves out costs no less
        assert problem.objective(np.append(choice, source[2:]), weights) >= least - TOLERANCES["conic"]


# ---- rounding ----


@pytest.mark.parametrize("common", [0.0, 1e6])
@pytest.mark.parametrize("seed", range(10))
def test_the_subgradients_rounding_is_allowed_for(seed, common):
    """‖ξ‖ inside the box and without ℓ1 in 50 digits: a part common to all rows of A cancels, and its rounding does not."""
    rng = np.random.default_rng([seed, 8])
    K, D = 4, 5
    model = Model(rng.normal(size=(K, D)) + common, rng.normal(size=K))
    problem = LimitedProblem(Conditions(model), rng.normal(size=D), 0)
    x, weights = rng.normal(size=D), Weights.given(0.1)
    found = problem.certificate(x, weights)
    with mp.workdps(50):
        A = [[mp.mpf(float(v)) for v in row] for row in model.A]
        z = [mp.fdot(row, [mp.mpf(float(v)) for v in x]) + mp.mpf(float(b)) for row, b in zip(A, model.b, strict=True)]
        e = [mp.exp(v - max(z)) for v in z]
        p = [v / mp.fsum(e) for v in e]
        pull = [mp.fsum(p[j] * (A[j][d] - A[0][d]) for j in range(K)) for d in range(D)]
        xi = [mp.mpf(0.1) * (mp.mpf(float(x[d])) - mp.mpf(float(problem.source[d]))) + pull[d] for d in range(D)]
        exact = mp.sqrt(mp.fsum(v * v for v in xi))
    assert abs(found.grad_norm - exact) <= found.rounding
    assert found.rounding <= 1e-12 * (1 + common)
