"""Against 50-digit arithmetic: answers to the last digits, and certificates that are true bounds."""

import mpmath as mp
import numpy as np
import pytest
from helpers import reference

import ifonly

pytestmark = pytest.mark.usefixtures("loops")

# What the method promises (relative to 1 + ‖x*‖), and what all but a few random problems get.
ALL, NEARLY_ALL = 1e-11, 1e-14


def random_problem(seed):
    """K 2…30, D 1…300, λ 1e-6…1e6, weights and sources of any size: saturated, flat and everything between."""
    rng = np.random.default_rng([2026, seed])
    K, D = int(rng.integers(2, 31)), int(10 ** rng.uniform(0, np.log10(300)))
    A = rng.normal(size=(K, D)) * 10 ** rng.uniform(-2, 1)
    b = rng.normal(size=K) * 10 ** rng.uniform(-2, 1)
    x = rng.normal(size=D) * 10 ** rng.uniform(-2, 2)
    return A, b, x, int(rng.integers(K)), 10 ** rng.uniform(-6, 6)


@pytest.fixture(scope="module")
def solved():
    problems = [random_problem(seed) for seed in range(80)]
    return [(p, ifonly.invert(ifonly.Model(p[0], p[1]), p[2], p[3], lam=p[4]), reference.optimum(*p)) for p in problems]


def test_answers_are_exact(solved):
    errors = np.array([truth.distance_to(cf.x) / (1 + truth.norm()) for _, cf, truth in solved])
    assert errors.max() <= ALL
    assert (errors <= NEARLY_ALL).mean() >= 0.95


def test_certificates_are_true_bounds(solved):
    for (A, b, x, k, lam), cf, truth in solved:
        true_gradient = reference.gradient_norm(A, b, cf.x, x, k, lam)
        assert true_gradient <= cf.grad_norm
        assert truth.distance_to(cf.x) <= cf.error_bound
        with mp.workdps(reference.DIGITS):
            assert reference.objective(A, b, cf.x, x, k, lam) - truth.objective <= cf.gap
        cf.verify()


def test_certificates_are_not_vacuous(solved):
    # what rounding of x and of the logits can do to E is of second order, and far below E itself
    assert all(cf.gap <= 1e-12 * (1 + cf.objective) for _, cf, _ in solved)


def test_probabilities_distance_and_objective_agree_with_the_reference(solved):
    for (_, _, x, k, _), cf, truth in solved:
        with mp.workdps(reference.DIGITS):
            p = truth.proba_target
            distance = truth.distance_to(x)
            # a margin of size s is known to EPS·s, and p moves by at most p times that
            assert abs(mp.mpf(float(cf.proba[k])) - p) <= 1e-10 * p
            assert abs(cf.distance - distance) <= 1e-10 * (1 + distance)
            assert abs(cf.objective - truth.objective) <= 1e-10 * (1 + truth.objective)


@pytest.mark.parametrize("lam", [1e-8, 1e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("spread", [1e-8, 1.0, 1e8])
def test_any_lambda_and_columns_of_any_scale(lam, spread, rng):
    A = rng.normal(size=(5, 12)) * np.where(np.arange(12) % 2, spread, 1.0)
    b, x = rng.normal(size=5), rng.normal(size=12)
    cf = ifonly.invert(ifonly.Model(A, b), x, 2, lam=lam)
    truth = reference.optimum(A, b, x, 2, lam)
    assert truth.distance_to(cf.x) <= ALL * (1 + truth.norm())
    assert truth.distance_to(cf.x) <= cf.error_bound


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
def test_logit_gaps_of_a_million(size, rng):
    A, b = rng.normal(size=(6, 20)), rng.normal(size=6)
    x = rng.normal(size=20) * size / 5
    k = int(np.argmin(A @ x + b))
    for lam in (1e-3, 1.0, 1e3):
        cf = ifonly.invert(ifonly.Model(A, b), x, k, lam=lam)
        truth = reference.optimum(A, b, x, k, lam)
        assert truth.distance_to(cf.x) <= ALL * (1 + truth.norm())
        assert reference.gradient_norm(A, b, cf.x, x, k, lam) <= cf.grad_norm


@pytest.mark.parametrize("common", [1e2, 1e4, 1e6])
def test_a_part_common_to_all_rows_costs_only_its_own_rounding(common, rng):
    # Such a part changes no probability. The logits are known to EPS·common·‖x‖, and x to that; no more is lost.
    A = rng.normal(size=(4, 15)) + common * rng.normal(size=15)
    b, x = rng.normal(size=4), rng.normal(size=15)
    cf = ifonly.invert(ifonly.Model(A, b), x, 1, lam=1e-2)
    truth = reference.optimum(A, b, x, 1, 1e-2)
    assert truth.distance_to(cf.x) <= 1e-15 * common * (1 + truth.norm())
    assert truth.distance_to(cf.x) <= cf.error_bound


@pytest.mark.parametrize("closeness", [1e-2, 1e-4, 1e-6])
def test_rivals_almost_equal_to_the_target(closeness, rng):
    A = rng.normal(size=(5, 25))
    A[3] = A[1] + closeness * rng.normal(size=25)
    b, x = np.zeros(5), rng.normal(size=25)
    lam = closeness**2
    cf = ifonly.invert(ifonly.Model(A, b), x, 1, lam=lam)
    truth = reference.optimum(A, b, x, 1, lam)
    # the margin of the near-equal rival is known to EPS·‖a‖·‖x‖ and moves x by that over ‖a₃ − a₁‖
    assert truth.distance_to(cf.x) <= 1e-14 / closeness * (1 + truth.norm())
    assert truth.distance_to(cf.x) <= cf.error_bound


def test_dependent_rivals_lose_no_digits(rng):
    """More classes than features can tell apart: the target has rivals on all sides, and λ is tiny."""
    low_rank = rng.integers(-4, 5, size=(12, 3)) @ rng.integers(-4, 5, size=(3, 40))  # exactly so: EPS/λ is not small
    for A in (rng.normal(size=(12, 2)), low_rank.astype(float)):
        A[5] = A[[0, 1, 2, 3]].mean(axis=0)  # inside the others' hull: p_5 can never be near 1
        b, x = rng.normal(size=12), rng.normal(size=A.shape[1])
        for lam in (1e-8, 1e-4, 1.0):
            cf = ifonly.invert(ifonly.Model(A, b), x, 5, lam=lam)
            truth = reference.optimum(A, b, x, 5, lam)
            assert truth.distance_to(cf.x) <= 1e-12 * (1 + truth.norm())
            assert truth.distance_to(cf.x) <= cf.error_bound


@pytest.mark.parametrize("more", [0, 40])
def test_features_in_units_of_their_own_reach_the_goal_for_whoever_evaluates_it(more):
    """A basis that mixes them rounds a feature of 8e5 with a weight of 0.006 as one with a weight of 26: p was short by 1e-9.

    With many features more there is nothing but such a basis; its rounding is at least allowed for.
    """
    A = np.array(
        [
            [-0.0005757634727566543, 1.249235956495828, 5.616720587845002, -2.9796400689042324, -0.003143844864055443],
            [-0.0004704949831603203, 13.669288319107027, 2.3208015743857544, 2.2258821210464683, -0.003429676727236691],
            [0.0065299399507407685, -26.320388726900596, 5.441024222534655, 4.700185217299709, -0.004842041050835904],
            [-0.007760023305604564, -1.7082399647819595, 6.423145459832123, -6.784819021215635, -0.005578924693484719],
        ]
    )
    b = np.array([-0.023530080627156065, -0.00545889686823207, 0.008586041442229377, 0.0028257065458695283])
    x = np.array([843095.3533965347, 487.8446003418645, -4487.263956537118, -3280.158150783298, 735952.8118850859])
    model, prob = ifonly.Model(np.pad(A, ((0, 0), (0, more))), b), 0.152333107630217
    cf = ifonly.invert(model, np.pad(x, (0, more)), 2, prob=prob)
    assert cf.status is ifonly.Status.EXACT
    assert model.predict_proba(cf.x)[2] >= prob
    if not more:
        cf.verify()
