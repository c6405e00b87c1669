"""The library's answers to random problems without limits, family by family, held against 220-bit arithmetic."""

from dataclasses import replace

import pytest
from helpers.libraries import needs

from tests.free.families import FAMILIES, make
from tests.free.run import run
from tests.free.verdict import judge

COUNT = 10  # of each family; `python -m tests.free.run` takes any number

# Problems that were answered wrongly, one or two for each cause; the families draw such problems rarely.
WERE_WRONG = [
    ("common part", 4, 1),  # a common part counted twice, as if changes were made of it
    ("close rows", 4, 1),  # what is common to rows was left out of an estimator's rounding: p below prob
    ("reached", 0, 1),  # out of reach, with p = 1
    ("close rows", 8, 1),  # rivals that pull against each other: far above prob
    ("common part", 12, 1),  # a window so wide that the last digits were never asked for
    ("reached", 24, 1),  # a small prob had lost its digits
    ("reached", 98, 2),  # nothing can be changed, and it is enough
    ("torch", 11, 1),  # less may be missing from 1 in single precision than 1 − prob
    ("torch", 45, 5),  # our own margins taken to be in single precision
    ("close rows", 194, 3),  # margins of 1e13, all noise, of rivals that have no probability
    ("close rows", 217, 4),
    ("between", 21, 5),  # margins that move by large terms that cancel: E does not fall, but for noise
    ("between", 147, 4),
    ("table", 138, 3),  # two classes side by side: an allowance for more change than there is
    ("table", 31, 3),  # a rate so small that the next step overflowed
    ("close rows", 230, 41),  # pulls that cancel: room for the rounding of a change far longer than x's
    ("common part", 160, 201),
    ("table", 222, 42),
    ("table", 261, 101),
    ("reached", 41, 41),  # nothing can be changed, and it is enough but for the last digit
    ("close rows", 96, 101),  # two classes that differ in a last digit: given up, though twice as far p is beyond rounding
    ("close rows", 1359, 401),  # so far away that everything is in the window, which is wide there: 1e13 times too far
    ("close rows", 1537, 401),
    ("close rows", 1420, 402),
    ("close rows", 1547, 403),  # a margin made of terms of 1e11, whose last step was always rounding
    ("table", 1420, 401),
    ("table", 1037, 405),  # margins off by 20: probabilities are by e²⁰, not by 20 times
    ("table", 512, 405),  # out of reach in a basis without the last digits of A, and in reach 2e15 away
    ("close rows", 1440, 405),
    ("close rows", 67, 501),  # rounding grows as fast as the change
    ("weak", 23, 1),  # directions lost in the rounding of Newton's matrix: EXACT, and E too large by a sixtieth
    ("weak", 57, 1),
    ("table", 1167, 503),  # so far away that p is anything: verify() took its own for that of the answer
    ("more classes", 79, 30303),  # a direction that is all rounding: not to be turned round
    ("extreme prob", 93, 778),  # λ of 1e-19: rounding turned Newton's direction round, and E rose by a rounding each time
    ("wide", 349, 71702),  # a source's margins from a basis whose rounding meets all features alike: 1e6 roundings off
    ("common part", 28, 71702),  # verify(exact=True) had its multipliers from scores of 1e12
    ("table", 345, 91901),  # an answer that was not solved for its λ was taken for an end of the bracket
    ("tails", 158, 61602),  # L steep between two flat parts: the search for λ went to and fro between these
]


PULLS_CANCEL = [("table", 222, 42), ("table", 261, 101)]


@pytest.fixture(autouse=True)
def _library(request):
    """A family of models of another library is asked where that is installed."""
    if request.node.callspec.params["family"] == "torch":
        needs("torch")


def complaints(case):
    return [f"{case.problem.name}: {verdict}" for verdict in case.verdicts]


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_to_random_problems_are_right(family):
    assert [text for case in run([family], COUNT) for text in complaints(case)] == []


@pytest.mark.seconds
@pytest.mark.parametrize(("family", "number", "seed"), WERE_WRONG)
def test_what_was_wrong_is_right(family, number, seed):
    assert complaints(judge(make(family, number, seed))) == []


@pytest.mark.parametrize(("family", "number", "seed"), PULLS_CANCEL)
def test_the_array_program_leaves_no_more_room_than_the_compiled_loop(family, number, seed):
    problem = replace(make(family, number, seed), options={"backend": "reference"})
    assert complaints(judge(problem)) == []
