"""What may change: what stays, bounds, directions, whole numbers, grids, categories, and rules that tie features together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ifonly.model import Model
from ifonly.model.columns import Column
from ifonly.model.errors import InputError
from ifonly.model.numerics import Flags, Floats, Indices
from ifonly.problem.limits import Limits, Uneven

__all__ = ["Actions", "ResolvedActions", "each_bounds", "listed"]

# Of a bound on a number that the pipeline maps, each twice the last, until its inverse rounds to the right side: where a map is
# as steep as a root at 0, or as flat as quantiles at their end, a rounding of the number is very many of its coordinate.
NUDGES = 60
LEAST_COORDINATE = 1e-3  # nearer to 0 than this, roundings are taken to be as large as there


@dataclass(frozen=True, eq=False)
class Actions:
    """What may change, in the user's units; features by name or number.

    Parameters
    ----------
    frozen : features, optional
        Stay as they are.
    bounds : mapping of features to (low, high), or one pair for all features
        None stands for no limit on that side. A source outside its bounds is allowed: the answer is inside.
    increase, decrease : features, or True for all
        May only rise, or only fall. A value of a category in ``decrease`` (``"savings=unknown"``) may be kept or left, but no
        answer chooses it.
    integer : features
        The answer has whole numbers here.
    step : mapping of features to numbers
        The answer has multiples of the number here.
    one_of : sequence of groups of features, or one group
        One-hot columns: the answer has one 1 in each group, and 0 elsewhere.
    linear : sequence of (mapping of features to coefficients, "<=", ">=" or "==", number)
        Rules such as ``({"debt": 1, "income": -0.4}, "<=", 0)``: debt is at most 0.4 of income.

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model.binary([0.1, -0.5, 1.0], -1.0, ["refused", "approved"], ["age", "loans", "income"])
    >>> actions = Actions(frozen=["age"], integer=["loans"], bounds={"loans": (0, None)}, increase=["income"])
    >>> ifonly.invert(model, [30.0, 7.0, 0.2], "approved", actions=actions).x.round(3).tolist()
    [30.0, 6.0, 1.0]

    """

    frozen: Any = ()
    bounds: Any = None
    increase: Any = ()
    decrease: Any = ()
    integer: Any = ()
    step: Mapping[Any, float] | None = None
    one_of: Any = ()
    linear: Sequence[tuple[Mapping[Any, float], str, float]] = ()

    def with_flags(self, model: Model, names: Sequence[str]) -> "Actions":
        """The same, and these columns are 0 or 1."""
        flags = dict.fromkeys(names, (0, 1))
        integer = True if self.integer is True else [*listed(self.integer), *names]
        return replace(self, integer=integer, bounds={**flags, **each_bounds(self.bounds, model)})

    def resolve(self, model: Model) -> Limits:
        """These limits by feature number, checked against the model."""
        D = model.n_features
        lo, hi = _bounds(self.bounds, model)
        step = np.zeros(D)
        for name in _all_numbers(model) if self.integer is True else listed(self.integer):
            step[_number_column(name, model, "integer")[0]] = 1.0
        for key, value in (self.step or {}).items():
            d, _ = _number_column(key, model, "step")
            if not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
                raise InputError(f"step of {model.feature_label(d)} must be a number > 0; got {value!r}")
            if step[d] and float(value) % 1 != 0:
                raise InputError(
                    f"{model.feature_label(d)} must be a whole number and a multiple of {value}; give one of the two"
                )
            step[d] = float(value)
        groups = _groups(self.one_of, model)
        for group in groups:
            step[group] = 1.0
        least, most, steps = model.encoding.limits
        lo, hi, step = np.maximum(lo, least), np.minimum(hi, most), np.where(steps > 0, steps, step)
        groups += model.encoding.groups
        C, rest, equal = _linear(self.linear, model)
        frozen = _flags(self.frozen, model)
        increase, decrease = _directed(self.increase, model, "increase"), _directed(self.decrease, model, "decrease")
        uneven = tuple(
            Uneven(c.first, c, float(step[c.first]))
            for c in model.encoding.columns
            if c.maps and (c.jumps or step[c.first] > 0) and not frozen[c.first]
        )
        step[[part.feature for part in uneven]] = 0.0
        # Features that fall where the user's number rises, and those for unknown categories, which no answer may have.
        falling, unknown = np.zeros((2, D), dtype=bool)
        for column in model.encoding.columns:
            falling[column.coordinates] = not column.rising
            unknown[column.closed] = True
        increase, decrease = np.where(falling, decrease, increase), np.where(falling, increase, decrease) | unknown
        return Limits(model, lo, hi, frozen, increase, decrease, step, groups, C, rest, equal, uneven)


def listed(value: Any) -> list[Any]:
    """One feature, several or none, as a list."""
    if value is None or value is False:
        return []
    if isinstance(value, (str, int, np.integer)):
        return [value]
    if not isinstance(value, Iterable):
        raise InputError(f"features are given as names or numbers; got {value!r}")
    return list(value)


def each_bounds(value: Any, model: Model) -> Mapping[Any, Any]:
    """Bounds by feature, also where they are one pair for all numbers."""
    if value is None or isinstance(value, Mapping):
        return value or {}
    return dict.fromkeys(_all_numbers(model), value)


def _all_numbers(model: Model) -> list[Any]:
    """What the columns of numbers are called."""
    columns = model.encoding.columns
    return [c.name for c in columns if c.kind == "number"] if columns else list(range(model.n_features))


def _features(value: Any, model: Model) -> list[int]:
    """The features of one name or number, of several, or of True for all: of a category all its values."""
    if value is True:
        return list(range(model.n_features))
    found: list[int] = []
    for name in (v.item() if isinstance(v, np.generic) else v for v in listed(value)):
        column = model.encoding.find(name)
        if column is not None:
            found += column.coordinates.tolist()
        elif not model.encoding.unseen(name):  # else the classifier never sees the column
            found.append(model.feature_index(name))
    return found


def _number_column(name: Any, model: Model, what: str) -> tuple[int, Column | None]:
    """The feature of a column of numbers, and the column where it has more to say (is ordinal, or mapped)."""
    column = model.encoding.find(name)
    if column is None:
        if model.encoding.unseen(name):
            raise InputError(f"{what}: the classifier never sees {name}, so that no answer changes it; leave it out")
        return model.feature_index(name), None
    if column.kind == "category":
        raise InputError(
            f"{what}: {name} is a category, one of {list(column.levels)}; to rule one out, freeze {column.labels[0]!r}"
        )
    if column.kind == "ordinal" and what != "bounds":
        raise InputError(f"{what}: {name} is ordinal, one of {list(column.levels)}; leave it out")
    if what == "linear" and column.maps:
        raise InputError(f"linear: {name} passes {column.maps[-1].name}, so that no rule about it is linear; leave it out")
    return column.first, column


def _directed(value: Any, model: Model, what: str) -> Flags:
    """The features that may only rise, or only fall; True is for all that are no categories."""
    out = _flags(value, model)
    for column in [column for column in model.encoding.columns if column.kind == "category"]:
        if value is True:
            out[column.coordinates] = False
        named = out[column.coordinates]
        if named.any() and (what == "increase" or named.all()):
            first = model.feature_label(int(column.coordinates[named][0]))
            raise InputError(f"{what}: {first} is a value of a category, which has no direction; leave it out")
    return out


def _flags(value: Any, model: Model) -> Flags:
    out = np.zeros(model.n_features, dtype=bool)
    out[_features(value, model)] = True
    return out


def _bounds(value: Any, model: Model) -> tuple[Floats, Floats]:
    D = model.n_features
    lo, hi = np.full(D, -np.inf), np.full(D, np.inf)
    alike = not (value is None or isinstance(value, Mapping) or model.encoding.columns)  # one pair for all features: read once
    pairs: Mapping[Any, Any] = {0: value} if alike else each_bounds(value, model)
    for name, pair in pairs.items():
        d, column = _number_column(name, model, "bounds")
        try:
            low, high = pair if column is None else _mapped(column, pair)
            lo[d] = -np.inf if low is None else float(low)
            hi[d] = np.inf if high is None else float(high)
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"bounds of {model.feature_label(d)} must be a pair (low, high); got {pair!r}") from None
        if not lo[d] <= hi[d]:
            raise InputError(f"bounds of {model.feature_label(d)}: {lo[d]:g} is not at most {hi[d]:g}")
    if alike:
        lo[:], hi[:] = lo[0], hi[0]
    return lo, hi


def _mapped(column: Column, pair: Any) -> tuple[Any, Any]:
    """Bounds of a column where the classifier sees it."""
    low, high = pair
    if column.kind == "ordinal":
        for v in (low, high):
            if v is not None and v not in column.levels:
                raise InputError(f"bounds of {column.name}: {v!r} is none of its values, {list(column.levels)}")
        low, high = (None if v is None else column.levels.index(v) for v in (low, high))
        return low, high
    if not column.maps:
        return low, high
    ends = [None if v is None else _mapped_end(column, float(v), side) for v, side in ((low, 1.0), (high, -1.0))]
    return (ends[0], ends[1]) if column.rising else (ends[1], ends[0])


def _mapped_end(column: Column, bound: float, side: float) -> float:
    """The coordinate nearest to a bound's that has a number, which is not beyond it (``side`` is where inside is)."""
    inward = side if column.rising else -side
    at = column.forward(np.clip(np.array([bound]), column.maps[0].least, column.maps[0].most))
    if np.isnan(at[0]):
        raise InputError(f"bounds of {column.name}: {bound!r} is nothing that the pipeline can map to a number")
    for n in range(NUDGES):
        here = column.settled(at + inward * (2.0**n - 1) * np.spacing(np.maximum(np.abs(at), LEAST_COORDINATE)))
        if (column.write(here[:, None])[0] - bound) * side >= 0:
            return float(here[0])
    end = column.write(column.settled(at)[:, None])[0]
    raise InputError(
        f"bounds of {column.name}: {bound!r} is beyond {end!r}, where {column.maps[-1].name} ends: the classifier sees no "
        f"difference between such numbers, and answers have none of them; bounds that begin or end at {end!r} will do"
    )


def _groups(value: Any, model: Model) -> tuple[Indices, ...]:
    if isinstance(value, Mapping):
        value = list(value.values())
    value = [value] if isinstance(value, str) else list(value)
    # Categories are groups as they are.
    value = [group for group in value if not isinstance(group, str) or model.encoding.find(group) is None]
    if value and isinstance(value[0], (str, int, np.integer)):
        value = [value]
    groups, seen = [], set()
    for group in value:
        members = _features(group, model)
        if len(members) < 2:
            raise InputError(f"a group of one_of needs two columns or more; got {group!r}")
        for d in members:
            if d in seen:
                raise InputError(f"{model.feature_label(d)} is in one_of twice")
            seen.add(d)
        groups.append(np.array(members, dtype=np.intp))
    return tuple(groups)


_SENSES = {"<=": 1.0, ">=": -1.0, "==": 1.0}


def _linear(rules: Any, model: Model) -> tuple[Floats, Floats, Flags]:
    C, rest, equal = [], [], []
    for rule in rules:
        try:
            coefficients, sense, value = rule
            sign = _SENSES[sense]
            row = np.zeros(model.n_features)
            for key, number in coefficients.items():
                row[_number_column(key, model, "linear")[0]] += float(number)
            number = float(value)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f'a rule is (mapping of features to numbers, "<=", ">=" or "==", number); got {rule!r}') from None
        if not (row.any() and np.isfinite(row).all() and np.isfinite(number)):
            raise InputError(f"a rule needs a coefficient that is not zero, and finite numbers; got {rule!r}")
        C.append(sign * row)
        rest.append(sign * number)
        equal.append(sense == "==")
    return np.array(C).reshape(len(C), model.n_features), np.array(rest), np.array(equal, dtype=bool)


@dataclass(frozen=True, eq=False)
class ResolvedActions(Actions):
    """Limits that are worked out already: those of a part of a problem, say."""

    limits: Limits | None = None

    def resolve(self, model: Model) -> Limits:
        """They are what they are."""
        assert self.limits is not None
        return self.limits
