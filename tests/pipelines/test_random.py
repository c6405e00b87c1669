"""Answers for random pipelines: reached by the pipeline's own word, within the limits in the user's own numbers, proved."""

import pytest

from tests.pipelines.problems import cases

COUNT = 8  # pipelines in a test


@pytest.mark.parametrize("part", range(10))
def test_answers_for_random_pipelines_are_right(part):
    asked = [case for number in range(part * COUNT, (part + 1) * COUNT) for case in cases(number)]
    assert len(asked) > COUNT
    assert [f"{case}\n{wrong}" for case in asked for wrong in case.wrong()] == []
