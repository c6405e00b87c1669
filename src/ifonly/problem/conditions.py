"""What an answer has to keep to, whatever the source: the cost, the limits, how few things may move, a margin.

The cost of a change Δ = x − x̄ in the user's units is ``½‖t‖² + Σ_d μ_d|c_d Δ_d|`` with t_d = c_d Δ_d, or with ``½ΔᵀQΔ`` for the
first term where a matrix Q ties features together (and c_d = √Q_dd).
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import Flags, Floats
from ifonly.problem.actions import Actions
from ifonly.problem.cost import Cost
from ifonly.problem.limits import Limits

__all__ = ["Conditions", "Keeping"]


class Keeping:
    """A frozen dataclass that keeps what engines work out for it; what is kept is no part of the value."""

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        return {}

    def keep(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was made under this key before, or is made now."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def __getstate__(self: Any) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False)
class Conditions(Keeping):
    """A model, a cost and limits, checked against each other."""

    model: Model
    cost: Cost = field(default_factory=Cost)
    actions: Actions = field(default_factory=Actions)
    max_changes: int | None = None
    margin: float | None = None  # where answers are judged by scores: how far the target's has to be ahead

    def __post_init__(self) -> None:
        matrix, D = self.cost.matrix, self.model.n_features
        if matrix is not None and np.shape(matrix) != (D, D):
            raise InputError(f"matrix must be {D}×{D}, as the model has features; got {np.shape(matrix)}")
        _ = self.limits, self.mu, self.per_unit  # what is wrong with them is said now

    @classmethod
    def of(cls, model: Model, cost: Cost, actions: Actions, max_changes: int | None, margin: float | None) -> "Conditions":
        """The same ones as last time for this model, if they are equal: what was worked out for them is kept.

        Compared by content, since what an Actions holds may have been changed in place.
        """
        try:
            key = pickle.dumps((cost, actions, max_changes, margin))
        except (pickle.PicklingError, TypeError, AttributeError):
            return cls(model, cost, actions, max_changes, margin)
        known, found = model.memo.get("conditions", (None, None))
        if key != known:
            found = cls(model, cost, actions, max_changes, margin)
            model.memo["conditions"] = key, found
        return found

    @cached_property
    def limits(self) -> Limits:
        """What may change, as arrays."""
        return self.actions.resolve(self.model)

    @cached_property
    def mu(self) -> Floats:
        """μ of each feature."""
        return self.cost.sparsity(self.model)

    @cached_property
    def per_unit(self) -> Floats:
        """c: what one of the user's units of each feature costs."""
        return self.cost.per_unit(self.model) if self.matrix is None else np.sqrt(np.diag(self.matrix))

    @property
    def matrix(self) -> Floats | None:
        """Q, where features are tied together."""
        return None if self.cost.matrix is None else np.asarray(self.cost.matrix, dtype=np.float64)

    @property
    def separable(self) -> bool:
        """Whether features are tied together by nothing but the classifier."""
        return self.matrix is None and not len(self.limits.C)

    @property
    def discrete(self) -> bool:
        """Whether the answer takes a search: whole numbers, categories, few changes, numbers at uneven distances."""
        return self.branched or bool(self.limits.uneven)

    @property
    def steps(self) -> dict[int, float]:
        """The steps of numbers at uneven distances, by feature."""
        return {part.feature: part.step for part in self.limits.uneven}

    @property
    def branched(self) -> bool:
        """Whether it takes one for more than numbers at uneven distances."""
        return self.limits.discrete or self.max_changes is not None

    @cached_property
    def grouped(self) -> Flags:
        """The features that belong to a group of one-hot columns."""
        out = np.zeros(self.model.n_features, dtype=bool)
        for group in self.limits.groups:
            out[group] = True
        return out

    def n_changes(self, moved: Flags) -> int:
        """How many changes that is; a group of one-hot columns is one."""
        return int(moved[~self.grouped].sum()) + sum(bool(moved[group].any()) for group in self.limits.groups)
