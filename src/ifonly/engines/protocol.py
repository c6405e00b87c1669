"""What every engine is: one method, which says what it does not do, and solves the rest."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ifonly.model.errors import InputError
from ifonly.problem.asked import Aim, Aims, Asked
from ifonly.problem.results import Result, Results
from ifonly.rows.sources import Sources

__all__ = ["Engine", "Piece"]


@dataclass(frozen=True)
class Piece:
    """A piece of a table: sources, and what is wanted of them (of each, K times where every class is asked for)."""

    sources: Sources
    aims: Aims
    first: int = 0  # which row of the whole table the first is
    total: int | None = 1  # how many aims the whole table has; None for a stream
    out: Any = None  # where answers go, where they are to be made; rows as in ``aims``

    @property
    def each(self) -> NDArray[np.intp]:
        """Which of the sources each aim is for."""
        return np.arange(len(self.aims.targets)) // max(1, len(self.aims.targets) // max(1, len(self.sources)))


class Engine(ABC):
    """One method."""

    makes_x: ClassVar[bool] = False  # whether answers are made as they are found, or left as coefficients
    row_by_row: ClassVar[bool] = False  # whether rows of a table take milliseconds each, one after the other
    shares_one: ClassVar[bool] = False  # whether threads share the work on one source, too

    @abstractmethod
    def refuses(self, asked: Asked) -> str | None:
        """Why this engine is not for the question; None if it is."""

    @abstractmethod
    def one(self, asked: Asked, sources: Sources, aim: Aim) -> Result:
        """The answer for one source; what is wrong with the source is an InputError."""

    @abstractmethod
    def solve(self, asked: Asked, rows: Piece) -> Results:
        """The answers for a piece of a table; a row that is wrong is INVALID."""

    def form(self, asked: Asked) -> "Engine":
        """The same method in the form that suits the question."""
        return self

    def chunk_rows(self, asked: Asked) -> int | None:
        """Into how many rows a table is cut; None for no cut."""
        return None

    def follow(self, asked: Asked, sources: Sources, k: int, lams: list[float]) -> Results:
        """One answer per λ; by default each on its own."""
        return Results.of([self.one(asked, sources, Aim(k, lam, None)) for lam in lams])


def put_row(results: Results, n: int, solve: Any) -> None:
    """Set a row from what ``solve()`` gives; a source that is wrong or contradicts the limits stays INVALID."""
    try:
        found = solve()
    except InputError:
        return
    results.put(n, found)
