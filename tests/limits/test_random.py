"""The library's answers to random problems with limits, family by family, held against the truth.

More of them: ``python -m tests.limits.run --seed S --count N``.
"""

import pytest

from ifonly import Status
from tests.limits.families import FAMILIES, make
from tests.limits.run import run
from tests.limits.truth import truth
from tests.limits.verdict import TIMED, judge

COUNT = 8  # of each family; `python -m tests.limits.run` takes any number
# Where numbers are so extreme that rounding, which differs from machine to machine, may make one of these a hard case.
EXTREME = ("close rows", "common part", "decades", "rules that just hold")


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_to_random_problems_are_right(family):
    cases = list(run([family], COUNT))
    wrong = [f"{case.problem.name}: {v}" for case in cases for v in case.verdicts if v.kind not in TIMED]
    assert len(wrong) <= (family in EXTREME), "\n".join(wrong)
    assert not any(v.kind == "JUDGE" for case in cases for v in case.verdicts)


# Each showed a mistake of its own: a bound that its proof did not reach, a matrix that was called singular or whose bounds were
# rows of very different lengths, rules that the source keeps but for a rounding.
ONCE = [("common part", 0, 101), ("units", 165, 1), ("units", 219, 2), ("units", 241, 1), ("rules that just hold", 32, 92)]
ONCE += [("close rows", 21, 50501)]  # multipliers of 1e16, of which those who check count more as rounding than the search did
ONCE += [("decades", 32, 30301)]  # a change that costs 1e-24: a search without an answer, taken for a proof that there is none
ONCE += [("decades", 145, 110001)]  # probabilities of a search that added up to 1 + 2e-14
ONCE += [("one ulp off the grid", 598, 404002)]  # a way of 5e-324 that costs nothing: no multiplier was found, and −1 was given
ONCE += [("far grids", 62, 7)]  # scores of 1e9: the rounding of a leaf's bound was not counted


@pytest.mark.seconds
@pytest.mark.parametrize(("family", "number", "seed"), ONCE)
def test_answers_that_were_wrong_once_are_right(family, number, seed):
    case = judge(make(family, number, seed), time_limit=20.0)
    assert not case.verdicts
    if family != "close rows":  # where rounding may leave a search nothing to decide by
        assert case.answer.status is Status.EXACT or case.answer.status is Status.CONVERGED


@pytest.mark.seconds
def test_few_problems_are_left_out():
    """The truth is clear, and has a witness, for almost all of them."""
    known = [truth(make(family, i)) for family in FAMILIES for i in range(10)]
    clear = [t.contradictory or (t.firm and t.reachable is not None) for t in known]
    assert sum(clear) > 0.9 * len(clear)
