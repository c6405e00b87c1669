"""The same problems asked in other ways: more of them by ``python -m tests.limits.ways --seed S --count N``."""

import pytest

from ifonly import Status
from tests.limits.families import FAMILIES, make
from tests.limits.ways import WAYS, complaints, question

SOME = [name for name in FAMILIES if name != "larger"]
# A table bounded what it had made too hard: goals that are met to the last bit, and probabilities near 1; an objective whose
# digits were lost beside the length of the way; stopped searches that claim less than their proof shows, or more; a cut
# beyond a bound, of a source off its grid; a gap of 0 with scores of seven digits before the point; searches that were stopped
# before they had a plan.
ONCE = [("table", "ties", 1, 2001), ("table", "two classes", 0, 2004), ("pickled", "all discrete, weighed", 1, 2002)]
ONCE += [("stopped", "contradictory", 7, 2002), ("stopped", "common part", 3, 2005), ("nearest", "margin, discrete", 6, 7)]
ONCE += [("pickled", "common part", 3, 5101), ("pickled", "common part", 6, 5101), ("pickled", "common part", 11, 5101)]
ONCE += [("stopped", "continuous", 13, 6001), ("stopped", "edges of p", 7, 6001), ("stopped", "units", 9, 6001)]
ONCE += [("stopped", "everything at once", 12, 6001), ("stopped", "endless grids, with a matrix", 12, 6001)]
ONCE += [("stopped", "close rows", 0, 301003)]


@pytest.mark.seconds
@pytest.mark.parametrize("way", WAYS)
def test_answers_are_right_whichever_way_they_are_asked_for(way):
    wrong = [v for i, family in enumerate(SOME[::2]) for v in complaints(way, family, i, 7)]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(("way", "family", "number", "seed"), ONCE)
def test_answers_that_were_wrong_once_are_right(way, family, number, seed):
    assert not complaints(way, family, number, seed)


@pytest.mark.seconds
@pytest.mark.parametrize(("family", "number"), [("anything", 1), ("outside bounds", 4), ("few, with a matrix", 7)])
@pytest.mark.parametrize("nodes", [1, 3, 10])
def test_the_nearest_class_is_as_sure_as_the_others_are(family, number, nodes):
    """What a search had no time to show of one class is not claimed of all of them."""
    problem = make(family, number, 2002)
    best = question(problem, None, time_limit=60.0)(problem.x)
    cf = question(problem, None, time_limit=60.0, node_limit=nodes)(problem.x)
    assert best.status is Status.EXACT
    assert cf.bound <= best.cost
    assert cf.status is Status.STOPPED or cf.cost <= best.cost * (1 + 1e-7)
    cf.verify()
