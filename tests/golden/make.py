"""Ask all questions of the code as it is, and keep the answers: ``python -m tests.golden.make [family …]``.

Run it only where an answer is meant to change; say in the commit which, and why. Other families keep what they have.
"""

import gzip
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from tests.golden.compare import TOLERANCES, differences
from tests.golden.describe import describe, outcome
from tests.golden.questions import Question, available, families
from tests.golden.truth import judge, truth

FILE = Path(__file__).with_name("answers.json.gz")
WRONG = Path(__file__).with_name("wrong.txt")
HEAD = """\
# Questions on which the code is known to give something else than the truth: what is wrong, and the id.
# With a "?" on some machines only, as rounding goes: such a one is struck off by hand, when its cause is gone.
"""


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
    """The ids on which the code is known to give something else than the truth, and what.

    A kind that ends in "?" is wrong on some machines only: rounding decides.
    """
    lines = WRONG.read_text(encoding="utf-8").splitlines() if WRONG.exists() else []
    pairs = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {name: kind for kind, name in pairs}


def answered(question: Question, answers: dict[str, Any]) -> tuple[Any, str]:
    """What to store for a question, and what is wrong with the answer of today.

    That is the answer itself; the id of the twin that shares it; or the truth, where the answer is wrong, or others may be as
    good.
    """
    found = outcome(question.ask)
    if question.known:
        return None, judge(question.problems, question.known, found)
    known = [truth(problem) for problem in question.problems]
    verdict = judge(question.problems, known, found)
    if verdict:
        return {"truth": known}, verdict
    described = describe(found)
    twin = answers.get(question.twin) if question.twin else None
    if isinstance(twin, dict) and "truth" not in twin and not differences(twin, described, TOLERANCES[question.like]):
        return question.twin, ""
    failed = differences(described, described, TOLERANCES[question.like])  # what is wrong whatever is stored
    return without_strays(described), " ".join(["STRAY" if "STRAY" in failed[0] else "VERIFY", *failed]) if failed else ""


def without_strays(described: dict[str, Any]) -> dict[str, Any]:
    """Where features move by rounding only: without what would be different if they stayed."""
    if not described.get("rows", described.get("row", {})).get("stray"):
        return described
    many = "rows" in described
    kept = {name: value for name, value in described["rows" if many else "row"].items() if name != "stray"}
    for name in ("changes", "given"):
        kept[name] = [None] * len(kept["status"]) if many else None
    return {**described, "kind": None, "rows" if many else "row": kept}


def main(only: list[str]) -> None:
    """Make all families, or those that are named."""
    warnings.simplefilter("error")  # as in the tests
    warnings.filterwarnings("ignore", message="joint=True is now")
    before, wrong_before, answers, wrong = read(), known_wrong(), {}, {}
    for name, questions in families().items():
        for question in questions:
            absent = question.needs and not available(question.needs)
            if absent or (only and name not in only and question.id in before):
                stored, verdict = before.get(question.id), wrong_before.get(question.id, "")
            else:
                stored, verdict = answered(question, answers)
            if stored is not None:
                answers[question.id] = stored
            sometimes = wrong_before.get(question.id, "").endswith("?")
            if verdict or sometimes:
                wrong[question.id] = wrong_before[question.id] if sometimes else verdict.split(maxsplit=1)[0]
        print(
            f"{name:12} {len(questions):5} questions, {sum(question.id in wrong for question in questions)} wrong", flush=True
        )
    write(answers)
    lines = [f"{kind:19} {name}\n" for name, kind in wrong.items()]
    WRONG.write_text(HEAD + "".join(lines), encoding="utf-8")
    print(f"{FILE.name}: {len(answers)} questions, {FILE.stat().st_size / 1e3:.0f} kB; {len(wrong)} are wrong")


if __name__ == "__main__":
    main(sys.argv[1:])
