"""What is said of a point in fractions: against 100 digits."""

import math
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from helpers.enumerated import a_goal, a_listed, an_uneven, in_fractions
from helpers.limited_problems import a_model

from ifonly import Actions, CertificateError, Model
from ifonly.model.numerics import EPS
from ifonly.problem.conditions import Conditions
from ifonly.problem.exactly import DIGITS, LARGEST, Exactly, exp_within, log_within
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.limits import EDGE

DENSE = 1e-45  # relative: how tight what encloses a logarithm or an exponential is


def in_digits(v: Fraction) -> mp.mpf:
    return mp.mpf(v.numerator) / mp.mpf(v.denominator)


EXPONENTS = [
    0.0,
    5e-324,
    -5e-324,
    1e-300,
    1e-20,
    -1e-20,
    1.0,
    -1.0,
    1 / 3,
    -36.7,
    709.8,
    -745.2,
    710.0,
    2000.5,
    -2000.5,
]


@pytest.mark.parametrize("v", EXPONENTS)
def test_exponentials_are_enclosed(v):
    for exact in (Fraction(v), Fraction(v) / 3, Fraction(v) + Fraction(1, 3 * 10**40)):
        low, high = exp_within(exact)
        with mp.workdps(4 * DIGITS):
            true = mp.exp(in_digits(exact))
            assert in_digits(low) <= true <= in_digits(high)
            assert in_digits(high) - in_digits(low) <= DENSE * true


@pytest.mark.parametrize("v", [Fraction(v) for v in (-LARGEST, LARGEST, 1 - LARGEST, LARGEST - 1)])
def test_exponentials_are_enclosed_as_far_as_they_go(v):
    low, high = exp_within(v)
    with mp.workdps(4 * DIGITS):
        assert in_digits(low) <= mp.exp(in_digits(v)) <= in_digits(high)


@pytest.mark.parametrize("far", [1, 10**3, 10**9])
def test_exponentials_beyond_have_a_safe_side(far):
    """Of what is far below 0 an upper bound is known, of what is far above a lower one: those are asked for, no others."""
    with mp.workdps(4 * DIGITS):
        assert mp.exp(in_digits(-LARGEST - far)) <= in_digits(exp_within(-LARGEST - far)[1])
        assert mp.exp(in_digits(LARGEST + far)) >= in_digits(exp_within(LARGEST + far)[0])


@pytest.mark.parametrize("seed", range(30))
def test_logarithms_and_exponentials_undo_each_other(seed):
    rng = np.random.default_rng([seed, 51])
    v = Fraction(float(rng.normal() * 10 ** rng.uniform(-12, 3)))
    low, high = exp_within(v)
    assert log_within(low)[0] <= v <= log_within(high)[1]


@pytest.mark.parametrize("make", [a_listed, an_uneven])
@pytest.mark.parametrize("seed", range(40))
def test_what_is_minimised_at_a_point_is_never_said_to_be_less(make, seed):
    rng = np.random.default_rng([seed, 52])
    listed = make(rng)
    goal = a_goal(rng, listed)
    exactly = in_fractions(listed.problem, goal)
    for x in listed.points[rng.permutation(len(listed.points))[:3]]:
        found = exactly.worth(x)
        with mp.workdps(2 * DIGITS):
            true = listed.in_digits(x, goal)
            assert true <= in_digits(found) + mp.mpf(10) ** (-DIGITS)
            assert in_digits(found) - true <= DENSE * (1 + abs(true))
        one = replace(listed, points=x[None])
        loss = 0.0 if goal.lam is None else listed.problem.proba(x)[1]
        rough = float(one.costs[0][0]) * (goal.lam or 1.0) + float(one.costs[1][0]) + loss
        assert float(found) == pytest.approx(rough, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("far", [1e3, 1e5, 1e6, 1e9])
def test_the_loss_far_away_is_what_it_is(far):
    """Margins of 10⁹: their exponentials are beyond all floats, and the loss is the largest margin, or 0."""
    model = Model(np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros(2))
    exactly = Exactly(Conditions(model), np.zeros(2), 0, lam=1.0)
    cost = Fraction(far) ** 2 / 2
    assert float(exactly.worth(np.array([-far, 0.0])) - cost) == pytest.approx(far, rel=1e-15)
    assert 0 <= float(exactly.worth(np.array([far, 0.0])) - cost) <= 1e-45


def test_exponentials_far_away_take_no_longer_than_near():
    """Of e^(−10⁶) nobody needs all 434 294 places: what is written down of a bound stays of a size to compute with."""
    low, high = exp_within(Fraction(-(10**6)))
    assert max(v.denominator.bit_length() for v in (low, high)) <= 10**5


# ---- points ----


def problem_of(margin=None, **limits) -> Exactly:
    model = Model(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]), np.zeros(3))
    return Exactly(Conditions(model, actions=Actions(**limits), margin=margin), np.zeros(2), 0, margin=margin)


def test_rules_hold_up_to_the_rounding_of_their_numbers():
    """0.1·x + 0.2·y ≤ 0.3 at (1, 1) is true, if not of the floats that are nearest to these numbers.

    As many roundings are allowed as answers are (`EDGE`): one that keeps its rules is not to be refused in fractions.
    """
    assert Fraction(0.1) + Fraction(0.2) > Fraction(0.3)
    problem_of(linear=[({0: 0.1, 1: 0.2}, "<=", 0.3)]).check_point(np.ones(2), reached=False)
    ones = problem_of(linear=[({0: 1.0, 1: 1.0}, "<=", 1.0)])
    for more, broken in (
        (0.0, False),
        (1e-20, False),
        (-1e-20, False),
        (EDGE * EPS, False),
        (3 * EDGE * EPS, True),
        (1e-9, True),
    ):
        with pytest.raises(CertificateError, match=r"rule 1 is broken by .*, in fractions") if broken else nullcontext():
            ones.check_point(np.array([1.0, more]), reached=False)


def test_equations_hold_up_to_rounding():
    problem = problem_of(linear=[({0: 1.0, 1: 1.0}, "==", 0.3)])
    problem.check_point(np.array([0.1, 0.2]), reached=False)  # 0.30000000000000002 or so
    for wrong in (1e-9, -1e-9):
        with pytest.raises(CertificateError, match="rule 1 is broken by"):
            problem.check_point(np.array([0.1, 0.2 + wrong]), reached=False)


def test_a_margin_is_met_to_the_last_bit():
    problem = problem_of(margin=0.3)
    problem.check_point(np.array([0.3, 0.0]), reached=True)
    short = np.array([np.nextafter(0.3, 0.0), 0.0])
    with pytest.raises(CertificateError, match="the target's score is ahead by"):
        problem.check_point(short, reached=True)
    problem.check_point(short, reached=False)
    with pytest.raises(CertificateError, match="ahead by"):
        problem.check_point(np.array([0.3, 1e-30]), reached=True)


@pytest.mark.parametrize("seed", range(20))
def test_a_probability_is_met_or_not_as_100_digits_say(seed):
    """At the very logit that a probability takes, and one float to each side of it."""
    rng = np.random.default_rng([seed, 53])
    prob = float(rng.uniform(0.05, 0.99))
    model = Model.binary([1.0], 0.0)
    problem = Exactly(Conditions(model), np.zeros(1), 1, prob=prob)
    at = math.log(prob / (1 - prob))
    outcomes = set()
    for x in (np.nextafter(at, -np.inf) - 1e-15, np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf), at + 1e-15):
        with mp.workdps(100):
            met = mp.exp(-mp.mpf(float(x))) <= (1 - mp.mpf(prob)) / mp.mpf(prob)
        outcomes.add(bool(met))
        if met:
            problem.check_point(np.array([x]), reached=True)
        else:
            with pytest.raises(CertificateError, match=r"p\(target\) is below .* in fractions"):
                problem.check_point(np.array([x]), reached=True)
        problem.check_point(np.array([x]), reached=False)
    assert outcomes == {True, False}


@pytest.mark.parametrize("seed", range(20))
def test_margins_in_fractions_are_those_of_the_model(seed):
    rng = np.random.default_rng([seed, 54])
    model = a_model(rng)
    source, x = rng.normal(size=(2, model.n_features))
    problem = LimitedProblem(Conditions(model), source, 0)
    exactly = Exactly(problem.conditions, source, 0, lam=1.0)
    s = exactly.margins_at([Fraction(v) for v in x])
    assert all(isinstance(v, Fraction) for v in s)
    np.testing.assert_allclose(np.array([float(v) for v in s]), problem.margins(x), rtol=0, atol=problem.logit_error(x))
