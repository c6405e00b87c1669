"""The one table of results: what every engine gives back, and what every answer is a view of.

A `Result` is a row of it, a `Results` the whole. Columns that a kind of problem has no use for are None.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.model.numerics import Floats, Indices
from ifonly.problem.conditions import Conditions
from ifonly.problem.proof import Proof
from ifonly.problem.status import Status

__all__ = ["Iteration", "Result", "Results"]


@dataclass(frozen=True, slots=True)
class Iteration:
    """One step of the method, for those who want to watch it: E and ‖∇E‖ before it, its length, the trials it took."""

    objective: float
    grad_norm: float
    step: float
    trials: int


@dataclass(frozen=True, slots=True)
class Result:
    """One answer."""

    target: int  # the class's index
    status: Status
    lam: float
    distance: float  # ‖x − x̄‖ in units of cost
    objective: float  # E
    grad_norm: float  # an upper bound on ‖∇E‖
    proba: Floats  # (K,), or empty where there are too many classes to keep them
    coef: Any = None  # (R,) with x = x̄ + rowsᵀ coef, where x is left to be made
    x: Any = None  # (D,) in the user's units, where it is not
    n_iter: int = 0  # Newton's
    n_passes: int = 2  # over A
    n_nodes: int = 0  # of a search
    cost: float = math.nan  # the next three where a cost or limits were given
    bound: float = math.nan  # a lower bound on what was minimised: the objective with λ, else the cost
    gap: float = math.nan  # how far above it the answer is
    ceiling: float = 1.0  # where the goal is out of reach, an upper bound on the probability that can be reached
    multipliers: Floats | None = None  # of the linear limits, and of margins where those were asked for
    history: tuple[Iteration, ...] = ()
    conditions: Conditions | None = None  # where they differ from those of other answers: each of several plans has its own
    proof: Proof | None = None  # of a search

    @property
    def is_plan(self) -> bool:
        """Whether it has a point that reaches the goal."""
        return self.status is not Status.UNREACHABLE and bool(np.isfinite(self.x).all())


_OF_LIMITS = ("cost", "bound", "gap")  # columns that answers without limits have no use for


@dataclass(frozen=True)
class Results:
    """N answers: the fields of `Result`, each with a leading axis of N."""

    target: Indices
    status: NDArray[np.int8]
    lam: Floats
    distance: Floats
    objective: Floats
    grad_norm: Floats
    proba: Floats  # (N, K), or (N, 0)
    coef: Any = None
    x: Any = None  # (N, D); may be an array on a GPU
    n_iter: Any = 0
    n_passes: Any = 2
    n_nodes: Any = 0
    cost: Any = None
    bound: Any = None
    gap: Any = None
    ceiling: Any = 1.0
    multipliers: list[Floats | None] | None = None
    history: list[tuple[Iteration, ...]] | None = None
    conditions: list[Conditions | None] | None = None
    proof: list[Proof | None] | None = None

    @classmethod
    def empty(
        cls, targets: Indices, *, classes: int, coef: int | None = None, x: Any = None, limited: bool = False
    ) -> "Results":
        """Rows that are not solved yet: INVALID and NaN.

        With probabilities of so many ``classes``; ``coef`` coefficients each, or answers written into ``x``; and the columns of
        ``limited`` problems if those are.
        """
        N = len(targets)
        more: dict[str, Any] = {}
        if limited:
            cost, bound, gap = np.full((3, N), np.nan)
            more = {"cost": cost, "bound": bound, "gap": gap, "ceiling": np.ones(N), "n_nodes": np.zeros(N, dtype=np.intp)}
            more["multipliers"], more["proof"] = [None] * N, [None] * N
        status, n_iter, n_passes = np.full(N, Status.INVALID, dtype=np.int8), np.zeros(N, np.intp), np.full(N, 2, np.intp)
        lam, distance, objective, grad_norm = np.full((4, N), np.nan)
        proba, made = np.full((N, classes), np.nan), None if coef is None else np.full((N, coef), np.nan)
        measured = lam, distance, objective, grad_norm
        return cls(targets.copy(), status, *measured, proba, made, x, n_iter, n_passes, **more)

    @classmethod
    def of(cls, rows: Sequence[Result]) -> "Results":
        """Answers that were found one by one, at least one."""
        columns: dict[str, Any] = {}
        for field in fields(Result):
            values = [getattr(row, field.name) for row in rows]
            if field.name in ("multipliers", "history", "conditions", "proof"):
                nothing = all(v is None or (isinstance(v, tuple) and not v) for v in values)
                columns[field.name] = None if nothing else values
            elif field.name in _OF_LIMITS and math.isnan(values[0]):
                columns[field.name] = None
            else:
                columns[field.name] = None if values[0] is None else np.array(values)
        kinds = {"status": columns["status"].astype(np.int8), "target": columns["target"].astype(np.intp)}
        return cls(**{**columns, **kinds})

    @classmethod
    def join(cls, parts: Sequence["Results"]) -> "Results":
        """Several tables as one."""
        if len(parts) == 1:
            return parts[0]

        def joined(values: list[Any]) -> Any:
            if isinstance(values[0], np.ndarray):
                return np.concatenate(values)
            return [v for value in values for v in value] if isinstance(values[0], list) else values[0]

        return cls(**{field.name: joined([getattr(part, field.name) for part in parts]) for field in fields(cls)})

    def __len__(self) -> int:
        return len(self.lam)

    def __getitem__(self, i: int) -> Result:
        def cell(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return value[i]
            if not hasattr(value, "ndim"):
                return value
            found = value[i]
            return found.item() if value.ndim == 1 else found

        values = {field.name: cell(getattr(self, field.name)) for field in fields(self)}
        free = {name: math.nan for name in _OF_LIMITS if values[name] is None}
        return Result(**{**values, **free, "status": Status(values["status"]), "history": values["history"] or ()})

    def take(self, index: Any) -> "Results":
        """Some of the rows: a slice, a mask or numbers."""
        places = np.arange(len(self))[index]

        def some(value: Any) -> Any:
            if isinstance(value, list):
                return [value[i] for i in places.tolist()]
            return value[index] if hasattr(value, "ndim") else value

        return Results(**{field.name: some(getattr(self, field.name)) for field in fields(self)})

    def put(self, i: int, row: Result) -> None:
        """Set a row."""
        for field in fields(self):
            column, value = getattr(self, field.name), getattr(row, field.name)
            if isinstance(column, (list, np.ndarray)) and value is not None:
                column[i] = value

    def copy(self, to: Any, other: "Results", which: Any = slice(None)) -> None:
        """Set rows from those of another table with the same columns; answers themselves stay where they are."""
        for field in fields(self):
            column = getattr(self, field.name)
            if (isinstance(column, np.ndarray) and field.name != "x") or (isinstance(column, list) and isinstance(to, slice)):
                column[to] = getattr(other, field.name)[which]

    def with_x(self, x: Any) -> "Results":
        """The same with the answers themselves."""
        return replace(self, x=x)
