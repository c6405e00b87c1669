"""Ask all questions of the code as it is, and keep the answers: ``python -m tests.golden.make [family …]``.

Run it only where an answer is meant to change; say in the commit which, and why. Families that are not named keep what they have.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from tests.golden.compare import TOLERANCES, differences
from tests.golden.describe import describe, outcome
from tests.golden.questions import Question, families

FILE = Path(__file__).with_name("answers.json.gz")
WRONG = Path(__file__).with_name("wrong.txt")


def read() -> dict[str, Any]:
    """The stored answers by id; a string names the question that has the same answer."""
    if not FILE.exists():
        return {}
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        return json.load(file)


def write(answers: dict[str, Any]) -> None:
    """Store them, in the order of the questions and without the time of day: the same answers are the same file."""
    text = json.dumps(answers, ensure_ascii=False, separators=(",", ":"))
    FILE.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def known_wrong() -> dict[str, str]:
    """The ids on which the code is known to give something else than the truth, and what."""
    lines = WRONG.read_text(encoding="utf-8").splitlines() if WRONG.exists() else []
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def answered(question: Question, answers: dict[str, Any]) -> Any:
    """What to store for a question: its answer, or the id of the twin whose answer it shares."""
    found = describe(outcome(question.ask))
    twin = answers.get(question.twin) if question.twin else None
    if isinstance(twin, dict) and not differences(twin, found, TOLERANCES[question.like]):
        return question.twin
    return found


def main(only: list[str]) -> None:
    """Make all families, or those that are named."""
    before, answers = read(), {}
    for name, questions in families().items():
        stored = [question for question in questions if question.judge is None]
        for question in stored:
            keep = only and name not in only and question.id in before
            answers[question.id] = before[question.id] if keep else answered(question, answers)
        print(f"{name:12} {len(questions):5} questions")
    write(answers)
    print(f"{FILE.name}: {len(answers)} answers, {FILE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
