"""The judge finds what is wrong: answers that were made wrong on purpose."""

from dataclasses import replace

import numpy as np
import pytest
from gmpy2 import mpfr

from ifonly import Status
from tests.free.families import make
from tests.free.truth import Free, big, working
from tests.free.verdict import _Held, judge
from tests.helpers.reference import optimum


def held(problem, **changed):
    """What the judge says of the answer with other claims."""
    (cf,) = problem.ask()
    with working():
        found = _Held(problem, replace(cf, result=replace(cf.result, **changed)), problem.want).verdicts()
    return {verdict.kind for verdict in found}


def drawn(goal, seed=0, family="plain", least=1e-3):
    """A problem whose answer is not its source."""
    problems = (make(family, n, seed) for n in range(100))
    return next(p for p in problems if p.goal == goal and p.ask()[0].status.ok and p.ask()[0].distance > least)


def test_right_answers_are_not_accused():
    assert held(drawn("prob")) == held(drawn("lam")) == set()


@pytest.mark.parametrize(("share", "kind"), [(1 - 1e-9, "P"), (1 + 1e-9, "WORSE")])
def test_a_change_that_is_too_small_or_too_large_is_found(share, kind):
    problem = drawn("prob")
    assert kind in held(problem, coef=problem.ask()[0].result.coef * share)


def test_an_objective_that_could_be_less_is_found():
    problem = drawn("lam")
    assert {"WORSE", "CERT"} <= held(problem, coef=problem.ask()[0].result.coef * (1 + 1e-4))


def test_out_of_reach_is_not_believed():
    assert {"OWN_P", "FALSE_UNREACHABLE"} <= held(drawn("prob"), status=Status.UNREACHABLE)


def test_what_is_not_a_number_is_found():
    assert held(drawn("lam"), objective=np.nan) == {"NAN"}


def test_the_truth_agrees_with_the_other_one():
    """In D dimensions and 220 bits as in class space and 50 digits."""
    problem = drawn("lam")
    A, b = problem.model.A, problem.model.b
    other = optimum(A, b, problem.x, problem.target, problem.want)
    with working():
        free = Free(A, b, big(problem.x), problem.target)
        point = free.optimum(mpfr(problem.want))
        assert point is not None
        assert other.distance_to(point.x.astype(float)) < 1e-14
        assert abs(float(free.objective(point, mpfr(problem.want))) - float(other.objective)) < 1e-14


def test_problems_are_the_same_every_time():
    assert [str(v) for v in judge(make("table", 3, 1)).verdicts] == [str(v) for v in judge(make("table", 3, 1)).verdicts]
    np.testing.assert_array_equal(make("plain", 5, 2).x, make("plain", 5, 2).x)
