"""What changed between a source and its answer, column by column of the user's, and what each change costs.

The cost is ``½Σt_d² + Σμ_d|t_d|`` with t in units of cost, so that a feature's share is ``(½t_d² + μ_d|t_d|)/cost``. Where a
matrix Q ties features together, ``½(x − x̄)ᵀQ(x − x̄)`` is shared out as ``½δ_d(Qδ)_d``, which can be negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ifonly.model import Model
from ifonly.model.columns import Column, UserTable
from ifonly.model.numerics import EPS, Flags, Floats, Indices, softmax
from ifonly.model.tables import is_missing
from ifonly.model.words import PLAIN, Words
from ifonly.problem.conditions import Conditions
from ifonly.problem.each_limit import group_name

__all__ = ["Change", "Decision", "Part", "measured", "moves", "own_rows", "parts_of", "plain_value", "prices", "told_of"]
__all__ += ["values_of"]


class Change(NamedTuple):
    """One of the user's columns that changed."""

    feature: str  # its name, or its number where it has none; as people call it, where the model has words for it
    before: Any  # in the user's units; None is a missing value
    after: Any
    difference: float  # after − before; NaN for what is no number
    units: float  # the change in units of cost, with its sign; of a category, the length of the switch
    cost: float
    share: float  # of the whole cost
    part: "Part"  # which features of the model's it is


@dataclass(frozen=True)
class Part:
    """Features of the model's that the user sees as one: a number, or the values of a category."""

    name: str
    features: Indices
    kind: str = "number"  # or "ordinal", "category"
    column: Column | None = None  # the user's, where the model has an encoding
    values: tuple[str, ...] = ()  # of a group of one-hot columns that are the user's own
    unit: str = ""  # of a number, as people write it
    reason: str = ""  # why it may not change

    @property
    def label(self) -> str:
        """The name with its unit: ``term (months)``."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def length(self, t: Floats) -> Floats:
        """Of changes t (…, D) in units of cost, this one's with its sign; of a category, the length of the switch."""
        moved = t[..., self.features]
        return np.linalg.norm(moved, axis=-1) if self.kind == "category" else moved[..., 0] * (1.0 if self.rising else -1.0)

    @property
    def rising(self) -> bool:
        """Whether the feature rises with the user's number."""
        return self.column is None or self.column.rising

    def seen(self, number: float | None) -> float:
        """A number as the classifier sees it: what a missing one counts as."""
        value = np.array(np.nan if number is None else number)
        return float(value if self.column is None else self.column.filled(value))


def measured(model: Model, conditions: Conditions | None) -> Conditions:
    """What changes cost: as was said, or else as a model has it by itself."""
    if conditions is None and "measured" not in model.memo:
        model.memo["measured"] = Conditions(model)
    return conditions or model.memo["measured"]


def prices(within: Conditions, delta: Floats) -> Floats:
    """What changes (…, D) cost, feature by feature."""
    t = delta * within.per_unit
    square = t * t if within.matrix is None else delta * (delta @ within.matrix)
    return 0.5 * square + within.mu * np.abs(t)


def told_of(model: Model, delta: Floats, costs: Floats) -> Flags:
    """Which changes (…, D) people are told of: not those that beside the others move no score and cost nothing.

    A weight that is all rounding, such as that of a word which all classes have alike, moves its feature by as little.
    """
    if "spread" not in model.memo:
        spread = model.A.max(axis=0) - model.A.min(axis=0)
        model.memo["spread"] = spread if model.scaling is None else spread / np.abs(model.scaling.scale)
    sizes = np.abs(delta) * model.memo["spread"], np.abs(costs)
    return (delta != 0) & np.any([size > EPS * size.sum(axis=-1, keepdims=True) for size in sizes], axis=0)


def parts_of(
    model: Model, conditions: Conditions | None, names: Sequence[Any] | None = None, *, plain: bool = False
) -> list[Part]:
    """What the user calls the features; ``names`` for a model that has none, ``plain`` for data, which have no words."""
    words = PLAIN if plain else model.words

    def part(name: str, features: Indices, *kind: Any) -> Part:
        return Part(words.name(name), features, *kind, unit=words.of(name).unit, reason=words.of(name).reason)

    if model.encoding.columns:
        return [part(c.name, c.coordinates, c.kind, c) for c in model.encoding.columns]
    labels = [str(name) for name in (model.feature_names or names or range(model.n_features))]
    single = np.ones(model.n_features, dtype=bool)
    parts = []
    for group in () if conditions is None else conditions.limits.groups:
        single[group] = False
        name, values = group_name([labels[d] for d in group])
        parts.append(part(name, group, "category", None, tuple(str(words.value(name, value)) for value in values)))
    return parts + [part(labels[d], np.array([d])) for d in np.flatnonzero(single).tolist()]


def moves(answer: Any, *, models_names: bool = False, plain: bool = False) -> list[Change]:
    """What changed in one answer, the largest share of the cost first, in the words that the model has for people.

    With ``plain`` they are data: all that differs, in the data's names and values. The columns of a frame have its names, also
    where the model has none; ``models_names`` (which is plain too) numbers them then.
    """
    plain = plain or models_names
    source, x = answer.coordinates
    delta = x - source
    if not np.isfinite(delta).all():
        return []
    within = measured(answer.model, answer.conditions)
    units, costs = delta * within.per_unit, prices(within, delta)
    total = float(costs.sum())
    names = None if models_names else answer.sources.columns
    every = parts_of(answer.model, answer.conditions, names, plain=plain)
    told = told_of(answer.model, delta, costs)
    moved = delta != 0 if plain else told
    parts = [part for part in every if moved[part.features].any()]
    words = PLAIN if plain else answer.model.words
    sides = list(zip((source[None], x[None]), own_rows(answer) if parts else (None, None), strict=True))
    found = []
    for part in parts:
        before, after = (values_of(part, v, own, words)[0] for v, own in sides)
        if isinstance(before, int) and isinstance(after, float) and after.is_integer():
            after = int(after)
        price = float(costs[part.features].sum())
        difference = after - part.seen(before) if part.kind == "number" else float("nan")
        size, share = float(part.length(units)), price / total if total > 0 else 0.0
        found.append(Change(part.name, before, after, float(difference), size, price, share, part))
    return sorted(found, key=lambda change: (not told[change.part.features].any(), -abs(change.cost)))


def own_rows(answers: Any) -> tuple[UserTable, UserTable] | tuple[None, None]:
    """The user's own rows before and after, of one answer or of many, where the model has columns of its own."""
    encoding = answers.model.encoding
    if not encoding.columns:
        return None, None
    return UserTable.of(answers.source, encoding.names), UserTable.of(answers.x, encoding.names)


def values_of(part: Part, v: Floats, own: UserTable | None, words: Words, rows: Any = slice(None)) -> list[Any]:
    """What some of the rows v (N, D), which the user has as ``own``, are in a part, as people call it."""
    if part.column is not None:
        assert own is not None
        found = [plain_value(value) for value in np.asarray(own.column(part.column.place), dtype=object)[rows]]
        return found if part.column.numeric else [words.value(part.column.name, value) for value in found]
    if part.kind == "category":
        return [part.values[i] for i in v[rows][:, part.features].argmax(axis=1).tolist()]
    return v[rows, part.features[0]].tolist()


class Decision(NamedTuple):
    """What is wanted, the classes predicted before and after a change, and how probable the target is in each."""

    target: Any
    before: Any
    after: Any
    p_before: float | None  # of the target; None where a model has scores only
    p_after: float | None

    @classmethod
    def of(cls, answer: Any) -> "Decision":
        """What the model says of an answer and its source, both of which must be finite."""
        model, k = answer.model, answer.result.target
        z = [model.scores(v) for v in answer.coordinates]
        before, after = (model.label(int(row.argmax())) for row in z)
        p_before, p_after = (None if model.hard else float(softmax(row)[k]) for row in z)
        return cls(model.label(k), before, after, p_before, p_after)


def plain_value(value: Any) -> Any:
    """A value of a table as Python's own; None for all kinds of missing."""
    return None if is_missing(value) else value.item() if isinstance(value, np.generic) else value
