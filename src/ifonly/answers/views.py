"""Answers are views of the table of results: what they show of it as it is, their rows, and those rows as frames."""

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ifonly.model.extras import needing
from ifonly.model.numerics import Floats
from ifonly.problem.conditions import Conditions
from ifonly.problem.results import Result

__all__ = ["Told", "View", "Within", "frame_of"]

Kind = TypeVar("Kind")


class Told(property, Generic[Kind]):
    """A property that is a field of another: ``result.lam`` of an answer, ``results.lam`` of many."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(attrgetter(field), doc=text)

    if TYPE_CHECKING:

        def __get__(self, answer: Any, owner: type | None = None) -> Kind: ...  # pyright: ignore[reportIncompatibleMethodOverride]


class View:
    """One answer, or many: rows before and after in float64 (``_source``, ``_x``), of these sources (``_places``), as given."""

    @property
    def _margin(self: Any) -> float | None:
        return None if self.conditions is None else self.conditions.margin

    @property
    def _goal(self: Any) -> bool:
        """Whether a probability or a margin was asked for: the cost was minimised then, else E."""
        return self.prob is not None or self._margin is not None

    @property
    def _gap_of(self: Any) -> str:
        """What the gap is of."""
        return "cost − least cost" if self.conditions is not None and self._goal else "E − E*"

    @property
    def source(self: Any) -> Any:
        """The input that it is the answer for, (D,); the inputs of many answers, (N, D), of a path the one input."""
        return self.sources.given(self._source, self._places)

    @cached_property
    def x(self: Any) -> Any:
        """The answer, (D,), or the answers, (N, D), in the units the user's model takes.

        Where the source was a row of a frame, ``x`` and ``source`` are such rows, with columns of all kinds for a pipeline that
        takes them; ``delta`` is an array all the same, one number per feature of the model. Where the source was a tensor of
        PyTorch or JAX, ``x``, ``delta`` and ``source`` are tensors of its kind, on its device, rounded to its precision.
        """
        return self.sources.given(self._x, self._places, None if self.conditions is None else self.conditions.steps)

    @cached_property
    def delta(self: Any) -> Any:
        """What changed: ``x − source``, in the same units."""
        return self._x - self._source if self.sources.like is None else self.x - self.source

    @property
    def coordinates(self: Any) -> tuple[Floats, Floats]:
        """Source and answer (or those of many) in float64, one number per column of the model's ``A``."""
        return self._source, self._x


@dataclass(frozen=True, eq=False)
class Within:
    """The cost and limits (``conditions``) of an answer, and what is known of it because of them, from its ``result``."""

    conditions: Conditions
    result: Result

    cost = Told[float]("result.cost", "What the change costs.")
    bound = Told[float]("result.bound", "A lower bound on what was minimised: the objective with ``lam``, the cost otherwise.")
    gap = Told[float]("result.gap", "How far the answer is above that bound, at most.")
    n_nodes = Told[int]("result.n_nodes", "Nodes of the search; 0 where none was needed.")
    best_bound = Told[float]("result.ceiling", "Where the probability is out of reach, an upper bound on any.")

    @property
    def nu(self) -> Floats:
        """Multipliers of the linear limits, and of margins where those were asked for."""
        return np.zeros(0) if self.result.multipliers is None else self.result.multipliers


def frame_of(rows: Any, columns: Any, index: Any = None) -> Any:
    """A pandas frame."""
    with needing("to_frame() needs pandas", "frames"):
        import pandas as pd
    return pd.DataFrame(rows, columns=None if columns is None else list(columns), index=index)
