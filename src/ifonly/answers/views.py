"""Answers are views of the table of results: what they show of it as it is, and their rows as frames."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ifonly.model.extras import needing
from ifonly.model.numerics import Floats
from ifonly.problem.conditions import Conditions
from ifonly.problem.results import Result

__all__ = ["Told", "Within", "frame_of"]

Kind = TypeVar("Kind")


class Told(Generic[Kind]):
    """An attribute that is a field of the answer's ``result`` (of many answers, a column of their ``results``)."""

    def __init__(self, text: str, of: str = "result", name: str = "") -> None:
        self.__doc__, self.of, self.name = text, of, name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def __get__(self, answer: Any, owner: type | None = None) -> Kind:
        found: Any = self if answer is None else getattr(getattr(answer, self.of), self.name)
        return found


@dataclass(frozen=True, eq=False)
class Within:
    """The cost and limits (``conditions``) of an answer, and what is known of it because of them, from its ``result``."""

    conditions: Conditions
    result: Result

    cost = Told[float]("What the change costs.")
    bound = Told[float]("A lower bound on what was minimised: the objective with ``lam``, the cost otherwise.")
    gap = Told[float]("How far the answer is above that bound, at most.")
    n_nodes = Told[int]("Nodes of the search; 0 where none was needed.")
    best_bound = Told[float]("Where the probability is out of reach, an upper bound on any.", name="ceiling")

    @property
    def nu(self) -> Floats:
        """Multipliers of the linear limits, and of margins where those were asked for."""
        return np.zeros(0) if self.result.multipliers is None else self.result.multipliers


def frame_of(rows: Any, columns: Any, index: Any = None) -> Any:
    """A pandas frame."""
    with needing("to_frame() needs pandas", "frames"):
        import pandas as pd
    return pd.DataFrame(rows, columns=None if columns is None else list(columns), index=index)
