"""Problems of which the truth is known by enumeration: those beside the checkout. (Random ones are in tests/limits.)"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ifonly import Actions, Cost, Model, invert
from tests.golden.questions import Question
from tests.golden.truth import Problem

__all__ = ["CASES", "FAMILIES"]

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "limits.json"


def ask(problem: Problem) -> Any:
    """The problem's question."""
    limits = {"actions": problem.actions, "cost": problem.cost, "max_changes": problem.max_changes}
    return invert(Model(problem.A, problem.b), problem.x, problem.among[0], **problem.goal, **limits)


def cases() -> Iterator[Question]:
    """The problems beside the checkout, which are read, not copied."""
    if not CASES.exists():
        yield Question("cases/absent", lambda: None, needs="cases")
        return
    for i, case in enumerate(json.loads(CASES.read_text(encoding="utf-8"))):
        given = {key: value for key, value in case["actions"].items() if key not in ("bounds", "step", "linear")}
        for name in ("bounds", "step"):
            if case["actions"].get(name):
                given[name] = {int(d): value for d, value in case["actions"][name].items()}
        rules = case["actions"].get("linear") or ()
        given["linear"] = [({int(d): v for d, v in rule.items()}, sense, rest) for rule, sense, rest in rules]
        arrays = (np.array(case[name], dtype=float) for name in ("A", "b", "x"))
        cost = None if case["cost"] is None else Cost(**case["cost"])
        problem = Problem(*arrays, (case["target"],), case["question"], Actions(**given), cost, case["max_changes"])
        known = {name: case[name] for name in ("reachable", "least", "largest_p")}
        yield Question(f"cases/{i:02}", partial(ask, problem), needs="cases", problems=(problem,), known=(known,))


FAMILIES = (cases,)
