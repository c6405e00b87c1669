"""The library's answers to random problems with limits, family by family, held against the truth.

``wrong.txt`` lists what the code is known to get wrong: exactly that is wrong. What is right now is struck off, by hand
or by ``python -m tests.limits.run --known``. Thousands of other problems are in ``tests/slow``.
"""

import pytest

from tests.limits.families import FAMILIES
from tests.limits.run import COUNT, hurried, known_wrong, lines_of, run


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_to_random_problems_are_right(family):
    cases = list(run([family], COUNT))
    certain, sometimes = known_wrong()
    found = {line: text for case in cases for line, text in lines_of(case).items()}
    names = {case.problem.name for case in cases if not hurried(case)}
    new = [f"{line}: {text}" for line, text in found.items() if line not in certain | sometimes]
    assert not new, "\n".join([f"{len(new)} new", *new])
    gone = sorted(line for line in certain - set(found) if line.partition(" ")[2] in names)
    assert not gone, "\n".join(["these are right now: strike them off tests/limits/wrong.txt", *gone])


def test_few_problems_are_left_out():
    """The truth is clear, and has a witness, for almost all of them."""
    from tests.limits.families import make
    from tests.limits.truth import truth

    known = [truth(make(family, i)) for family in FAMILIES for i in range(10)]
    clear = [t.contradictory or (t.firm and t.reachable is not None) for t in known]
    assert sum(clear) > 0.9 * len(clear)
