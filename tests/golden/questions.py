"""The questions: every engine, goal, target, kind of source and backend, asked through public names only.

A family is a function that yields `Question` objects. All numbers are drawn from seeds, rounded to a few decimals, and made
anew for each question, so that one question cannot change another. The families lie in the modules beside this one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

__all__ = ["Question", "available", "families"]


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes
    ----------
    id : str
        Its name, ``family/…``; never changed once it is stored.
    ask : callable
        Asks it: what comes back is an answer, or a mapping of names to answers; it may raise.
    like : str
        How near an answer has to come to the stored one: a row of `tests.golden.compare.TOLERANCES`.
    needs : str
        A library, or "cases" for the problems beside the checkout, without which it is skipped.
    twin : str or None
        The id of a question with the same answer (another backend, another kind of source): nothing is stored twice.
    problems : tuple of Problem
        The same question as `tests.golden.truth` understands it, one for each answer, where that can say what is true.
    known : tuple of dict
        The truth of each, where it is known from elsewhere.

    """

    id: str
    ask: Callable[[], Any]
    like: str = "exact"
    needs: str = ""
    twin: str | None = None
    problems: tuple[Any, ...] = ()
    known: tuple[dict[str, Any], ...] = ()

    @property
    def family(self) -> str:
        """The first part of the id."""
        return self.id.split("/", maxsplit=1)[0]


def available(needs: str) -> bool:
    """Whether what a question needs is here."""
    from tests.golden.cases import CASES

    return CASES.exists() if needs == "cases" else find_spec(needs) is not None


def families() -> dict[str, list[Question]]:
    """All questions, by family."""
    from tests.golden import cases, edges, free, kinds, limits, options, pipelines, refusals

    makers = [make for module in (free, limits, options, edges, kinds, pipelines, refusals, cases) for make in module.FAMILIES]
    found = {make.__name__: list(make()) for make in makers}
    counts = Counter(question.id for questions in found.values() for question in questions)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ValueError(f"ids must be distinct; twice: {twice[:5]}")
    return found
