"""The search for λ on functions whose root is known."""

import math

import pytest

from ifonly.engines.lam_search import LONGEST_STEP, Bracket

STEPS = 60  # two for each halving of a bracket of 20 in ln λ, to 1e-6


def steep(flat, width, root):
    """``L(t)`` and its derivative: a root between two parts that are the flatter the farther away, with ``width`` between them.

    As that goes to 0, Newton's step leads from one part to the other, and from there back.
    """

    def value(t):
        far = math.sqrt(abs(t - root) + width)
        return math.copysign(far - math.sqrt(width), t - root) + flat * (t - root), 0.5 / far + flat

    return value


@pytest.mark.parametrize("flat", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("width", [1e-9, 1e-5, 1e-2, 10.0])
def test_it_ends_where_newton_would_go_to_and_fro(flat, width, rng):
    for _ in range(20):
        root, lam = rng.uniform(-5, 5), math.exp(rng.uniform(-10, 10))
        L, bracket = steep(flat, width, root), Bracket(LONGEST_STEP)
        for _ in range(STEPS):
            miss, rate = L(math.log(lam))
            bracket.saw(lam, miss)
            if abs(math.log(lam) - root) < 1e-6:
                break
            new = bracket.next(lam, miss, rate)
            assert new is not None
            lam = new
        else:
            pytest.fail(f"it came to {math.log(lam)}, and the root is {root}")


def test_newton_is_left_alone_where_it_converges():
    t, bracket, lam = 3.0, Bracket(LONGEST_STEP), math.exp(3.0)
    while abs(t) > 1e-9:
        assert math.log(lam) == pytest.approx(t, abs=1e-12)
        miss, rate = t + 0.3 * math.tanh(t), 1 + 0.3 / math.cosh(t) ** 2
        bracket.saw(lam, miss)
        t, lam = t - miss / rate, bracket.next(lam, miss, rate)
    assert math.log(lam) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("wrong", [1e-3, 1e3])
def test_an_end_that_was_not_solved_for_does_not_shut_the_bracket_for_good(wrong):
    """L is ln λ, and what is said of one λ is false: that it meets its goal, or that it does not."""
    bracket, lam = Bracket(LONGEST_STEP), wrong
    bracket.saw(lam, -math.log(lam), 1e-6, solved=False)
    for _ in range(STEPS):
        lam = bracket.next(lam, math.log(lam), 0.5)
        assert lam is not None
        bracket.saw(lam, math.log(lam), 1e-6)
        if -1e-6 <= math.log(lam) <= 0:
            return
    pytest.fail(f"it came to {lam}")
