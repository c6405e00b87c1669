"""Today's answers against the stored ones, family by family.

``wrong.txt`` lists the questions on which the code is known to be wrong, with the truth stored: exactly those differ. One that
is right now is struck off the list.
"""

import pytest

from tests.golden.compare import TOLERANCES, differences
from tests.golden.describe import describe, outcome
from tests.golden.make import known_wrong, read
from tests.golden.questions import Question, available, families
from tests.golden.truth import judge

MOST_LINES = 40  # of a report
MISSING = {"cases": "cases/limits.json in ../shared"}

QUESTIONS = families()
GROUPS = list(dict.fromkeys((name, question.needs) for name, questions in QUESTIONS.items() for question in questions))


@pytest.fixture(scope="module")
def stored():
    return read()


def wrong(question: Question, stored: dict) -> str:
    """How the outcome differs from what is stored, or from the truth; empty where it does not."""
    found = outcome(question.ask)
    if question.known:
        return judge(question.problems, question.known, found)
    if question.id not in stored:
        return "no answer is stored: python -m tests.golden.make"
    expected = stored[question.id]
    expected = stored[expected] if isinstance(expected, str) else expected
    if "truth" in expected:
        return judge(question.problems, expected["truth"], found)
    return "; ".join(differences(expected, describe(found), TOLERANCES[question.like]))


@pytest.mark.parametrize(("family", "needs"), GROUPS, ids=["-".join(filter(None, group)) for group in GROUPS])
def test_answers_are_those_that_were_kept(family, needs, stored):
    if needs and not available(needs):
        pytest.skip(f"needs {MISSING.get(needs, needs)}, which is not here")
    questions = [question for question in QUESTIONS[family] if question.needs == needs]
    differ = {question.id: text for question in questions if (text := wrong(question, stored))}
    ids, known = {question.id for question in questions}, known_wrong()
    known = {name: kind for name, kind in known.items() if name in ids}
    lines = [f"{name}: {text}" for name, text in differ.items() if name not in known]
    right = [name for name, kind in known.items() if name not in differ and not kind.endswith("?")]
    lines += [f"{name}: is right now; strike it off wrong.txt" for name in right]
    report = "\n".join(lines[:MOST_LINES])
    assert not lines, f"{len(lines)} of {len(questions)} questions differ:\n{report}"


def test_nothing_is_stored_that_nobody_asks(stored):
    asked = {question.id for questions in QUESTIONS.values() for question in questions}
    unknown = (stored.keys() | known_wrong().keys()) - asked
    assert not [name for name in unknown if available("cases") or not name.startswith("cases/")]
