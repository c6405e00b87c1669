"""Answers for random pipelines: reached by the pipeline's own word, within the limits in the user's own numbers, proved."""

import pytest

from tests.pipelines.problems import cases

COUNT = 8  # pipelines in a test


@pytest.mark.parametrize("part", range(10))
def test_answers_for_random_pipelines_are_right(part):
    asked = [case for number in range(part * COUNT, (part + 1) * COUNT) for case in cases(number)]
    assert len(asked) > COUNT
    assert [f"{case}\n{wrong}" for case in asked for wrong in case.wrong()] == []


@pytest.mark.parametrize(("number", "seed"), [(65, 11), (200, 11), (24, 12), (86, 7031), (470, 7101), (1047, 7101)])
def test_what_was_wrong_is_right(number, seed):
    """A whole number beyond the last quantile, one frozen at its bound, a bound that is the first quantile; a cut between a

    source and the quantile beside it; bounds at the end of quantiles, and where a cube root begins.
    """
    assert [wrong for case in cases(number, seed) for wrong in case.wrong()] == []
