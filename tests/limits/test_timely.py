"""Hard problems of users' sizes that are stopped: more of them, and whether in time, by ``python -m tests.limits.timely``."""

import pytest

from tests.limits.timely import complaints
from tests.limits.verdict import TIMED


@pytest.mark.seconds
@pytest.mark.parametrize("number", range(12))
def test_what_is_stopped_keeps_its_limits_and_says_nothing_false(number):
    wrong = [v for v in complaints(number, 11) if v.kind not in TIMED]
    assert not wrong, "\n".join(map(str, wrong))
