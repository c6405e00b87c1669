"""The library's answers to random problems with limits, family by family, held against the truth.

More of them: ``python -m tests.limits.run --seed S --count N``.
"""

import pytest

from tests.limits.families import FAMILIES, make
from tests.limits.run import run
from tests.limits.truth import truth
from tests.limits.verdict import TIMED

COUNT = 20  # of each family
# Where numbers are so extreme that rounding, which differs from machine to machine, may make one of these a hard case.
EXTREME = ("close rows", "common part", "decades", "rules that just hold")


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_to_random_problems_are_right(family):
    cases = list(run([family], COUNT))
    wrong = [f"{case.problem.name}: {v}" for case in cases for v in case.verdicts if v.kind not in TIMED]
    assert len(wrong) <= (family in EXTREME), "\n".join(wrong)
    assert not any(v.kind == "JUDGE" for case in cases for v in case.verdicts)


def test_few_problems_are_left_out():
    """The truth is clear, and has a witness, for almost all of them."""
    known = [truth(make(family, i)) for family in FAMILIES for i in range(10)]
    clear = [t.contradictory or (t.firm and t.reachable is not None) for t in known]
    assert sum(clear) > 0.9 * len(clear)
