"""What may change: what stays, bounds, directions, whole numbers, grids, categories, and rules that tie features together."""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ifonly.model import Model
from ifonly.model.columns import Column
from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS, Flags, Floats, Indices

__all__ = ["Actions", "Limits", "ResolvedActions", "Uneven"]

SAME = 1e-12  # relative to the terms of an equation: most have no solution in floating point that is exact
EDGE = 16  # roundings of a rule's terms by which a point on its very edge may seem to break it: 0.1·3 ≤ 0.3
ON_GRID = 1e-9  # relative to the step: a bound or a source this near to a grid point is one
NUDGES = 40  # of a bound on a number that the pipeline maps, each twice the last, until its inverse rounds to the right side
LEAST_COORDINATE = 1e-3  # nearer to 0 than this, roundings are taken to be as large as there
MOST_PARTS = 10**6  # of a unit, in a step: 0.1 is 1/10, and seven of it are 0.7, not 0.7000000000000001


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
        own = [self.integer] if isinstance(self.integer, (str, int)) else list(self.integer or ())
        bounds = self.bounds
        if bounds is not None and not isinstance(bounds, Mapping):  # one pair for all numbers
            bounds = {c.name: bounds for c in model.encoding.columns if c.kind == "number"}
        flags = dict.fromkeys(names, (0, 1))
        return replace(self, integer=True if self.integer is True else own + list(names), bounds={**flags, **(bounds or {})})

    def resolve(self, model: Model) -> "Limits":
        """These limits by feature number, checked against the model."""
        D = model.n_features
        lo, hi = _bounds(self.bounds, model)
        step = np.zeros(D)
        step[_whole(self.integer, model)] = 1.0
        for key, value in (self.step or {}).items():
            d, _ = _number_column(key, model, "step", mapped=False)
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
        least, most, steps = model.encoding.limits()
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
        falling, unknown = _turned(model)
        increase, decrease = np.where(falling, decrease, increase), np.where(falling, increase, decrease) | unknown
        return Limits(model, lo, hi, frozen, increase, decrease, step, groups, C, rest, equal, uneven)


class Uneven(NamedTuple):
    """A number that a pipeline maps, of which only some values are allowed: multiples of a step, or quantiles."""

    feature: int
    column: Column
    step: float  # 0 for the quantiles of a transformer


@dataclass(frozen=True, eq=False)
class Limits:
    """Actions for one model, as arrays over its D features, in the user's units."""

    model: Model
    lo: Floats
    hi: Floats
    frozen: Flags
    increase: Flags
    decrease: Flags
    step: Floats  # 0 where any number will do
    groups: tuple[Indices, ...]
    C: Floats  # (m, D): C x ≤ rest, or = where equal
    rest: Floats
    equal: Flags
    uneven: tuple[Uneven, ...] = ()

    @cached_property
    def discrete(self) -> bool:
        """Whether any feature is a whole number, on a grid or one of a group."""
        return bool((self.step[~self.frozen] > 0).any())

    @cached_property
    def on_grid(self) -> Flags:
        """The features of which the answer has multiples of a step."""
        return (self.step > 0) & ~self.frozen

    @cached_property
    def _parts(self) -> tuple[Floats, Floats]:
        """The steps as fractions: numerators, denominators."""
        steps, place = np.unique(np.where(self.on_grid, self.step, 1.0), return_inverse=True)
        ratios = [Fraction(step).limit_denominator(MOST_PARTS) for step in steps.tolist()]
        exact = [float(r) == step for r, step in zip(ratios, steps.tolist(), strict=True)]
        up = np.where(exact, [float(r.numerator) for r in ratios], steps)
        return up[place], np.where(exact, [float(r.denominator) for r in ratios], 1.0)[place]

    def multiples(self, n: Any, which: Any) -> Floats:
        """``n`` steps of some features."""
        up, down = self._parts
        return n * up[which] / down[which] + 0.0  # no −0.0

    def nearest(self, X: Floats) -> Floats:
        """Every feature on a grid at the grid point nearest to it."""
        if not self.on_grid.any():
            return X
        X = X.copy()
        X[..., self.on_grid] = self.multiples(np.rint(X[..., self.on_grid] / self.step[self.on_grid]), self.on_grid)
        return X

    def snapped(self, X: Floats, source: Floats) -> Floats:
        """`nearest`, but the source's own value where that is the grid point up to rounding."""
        nearest = self.nearest(X)
        return np.where(np.abs(source - nearest) <= ON_GRID * np.where(self.on_grid, self.step, 0.0), source, nearest)

    def must_move(self, X: Floats, lo: Floats, hi: Floats) -> Flags:
        """Which features of the sources (N, D) cannot stay as they are."""
        return (lo > X) | (hi < X) | (self.snapped(X, X) != X)

    @property
    def ways(self) -> Indices:
        """What may become of each feature, as bits: 1 if it may only rise, 2 if it may only fall, 4 if it stays."""
        return self.increase.astype(np.int64) + 2 * self.decrease + 4 * self.frozen

    def around(self, X: Floats) -> tuple[Floats, Floats, dict[int, str]]:
        """The least and largest value of each feature for each source (N, D), and what is contradictory about some rows."""
        lo, hi = np.broadcast_to(self.lo, X.shape).copy(), np.broadcast_to(self.hi, X.shape).copy()
        outside = (lo > X) | (hi < X)
        np.maximum(lo, X, out=lo, where=np.broadcast_to(self.increase, X.shape))
        np.minimum(hi, X, out=hi, where=np.broadcast_to(self.decrease, X.shape))
        on_grid = self.on_grid
        if on_grid.any():
            step = self.step[on_grid]
            low, high = lo[:, on_grid], hi[:, on_grid]
            lo[:, on_grid] = np.maximum(low, self.multiples(np.ceil(low / step - ON_GRID), on_grid))
            hi[:, on_grid] = np.minimum(high, self.multiples(np.floor(high / step + ON_GRID), on_grid))
            # A source that is a grid point up to rounding stands for it, at the end of the range too.
            near = ON_GRID * np.where(on_grid, self.step, 0.0)
            lo = np.where(on_grid & ~outside & (np.abs(X - lo) <= near), X, lo)
            hi = np.where(on_grid & ~outside & (np.abs(X - hi) <= near), X, hi)
        wrong: dict[int, str] = {}
        label = self.model.feature_label
        for n, d in np.argwhere(outside & self.frozen):
            wrong.setdefault(
                int(n), f"{label(d)} is frozen at {X[n, d]:g}, outside its bounds [{self.lo[d]:g}, {self.hi[d]:g}]"
            )
        lo, hi = np.where(self.frozen, X, lo), np.where(self.frozen, X, hi)
        if self.groups:
            for (n, j), allowed in self._odd_groups(X, lo, hi):
                names, of = [label(d) for d in self.groups[j]], X[n, self.groups[j]].tolist()
                what = f"the source has {of}" if allowed else "its bounds allow no such choice"
                wrong.setdefault(n, f"the group {names} must have one 1 and zeros; {what}")
        with np.errstate(invalid="ignore"):
            empty = lo > hi
        for n, d in np.argwhere(empty):
            grid = f" in steps of {self.step[d]:g}" if self.step[d] else ""
            only = " and may only rise" if self.increase[d] else " and may only fall" if self.decrease[d] else ""
            bounds = f"[{self.lo[d]:g}, {self.hi[d]:g}]{grid}"
            wrong.setdefault(int(n), f"{label(d)} is {X[n, d]:g}{only}: there is no value for it in {bounds}")
        return lo, hi, wrong

    def _odd_groups(self, X: Floats, lo: Floats, hi: Floats) -> list[tuple[tuple[int, int], bool]]:
        """Rows and groups that are not one-hot (True), or can never be (False); lo and hi are cut to [0, 1] in place."""
        columns, sizes = np.concatenate(self.groups), np.array([len(group) for group in self.groups])
        first = np.append(0, sizes.cumsum()[:-1])
        of = X[:, columns]
        lo[:, columns], hi[:, columns] = np.maximum(lo[:, columns], 0.0), np.minimum(hi[:, columns], 1.0)
        one, zero = hi[:, columns] >= 1, lo[:, columns] <= 0
        others = np.repeat(np.add.reduceat(zero, first, axis=1, dtype=int), sizes, axis=1) - zero
        open_ = np.logical_or.reduceat(one & (others == np.repeat(sizes - 1, sizes)), first, axis=1)
        one_hot = np.logical_and.reduceat((of == 0) | (of == 1), first, axis=1) & (np.add.reduceat(of, first, axis=1) == 1)
        return [((int(n), int(j)), bool(open_[n, j])) for n, j in np.argwhere(~(open_ & one_hot))]

    def placed(self, X: Floats, source: Floats, lo: Floats, hi: Floats) -> Floats:
        """Answers with every grid feature on its grid and everything in its bounds, exactly."""
        return np.minimum(np.maximum(self.snapped(X, source), lo), hi) + 0.0  # no −0.0

    def rule(self, i: int) -> str:
        """A linear limit in words."""
        used = np.flatnonzero(self.C[i]).tolist()
        turn = math.copysign(1.0, self.C[i, used[0]])  # the first coefficient is positive, as people write it
        text = ""
        for d in used:
            number = turn * float(self.C[i, d])
            factor = "" if abs(number) == 1 else f"{abs(number):g}·"
            text += f"{' − ' if number < 0 else ' + '}{factor}{self.model.feature_label(d)}"
        sense = "=" if self.equal[i] else "≤" if turn > 0 else "≥"
        return f"{text.removeprefix(' + ')} {sense} {turn * self.rest[i] + 0.0:g}"

    def broken(self, source: Floats, x: Floats, edge: float = EDGE) -> str | None:
        """The first limit that x breaks, in words; exact comparisons, but for so many roundings of the terms of rules."""
        lo, hi, wrong = self.around(source[None])
        if wrong:
            return wrong[0]
        label = self.model.feature_label
        for d in np.flatnonzero(~((x >= lo[0]) & (x <= hi[0])))[:1]:
            return f"{label(d)} is {x[d]!r}, outside [{lo[0, d]!r}, {hi[0, d]!r}]"
        for d in np.flatnonzero(x != self.placed(x, source, lo[0], hi[0]))[:1]:
            return f"{label(d)} is {x[d]!r}, no multiple of {self.step[d]:g}"
        for d, column, step in self.uneven:
            if (step or x[d] != source[d]) and column.beside(float(x[d]), step) != (x[d], x[d]):
                what = f"no multiple of {step:g}" if step else "none of the transformer's quantiles"
                return f"{label(d)} is {column.write(x[None, [d]])[0]!r}, {what}"
        for group in self.groups:
            if sorted(x[group].tolist()) != [0.0] * (len(group) - 1) + [1.0]:
                return f"the group {[label(d) for d in group]} is {x[group].tolist()}"
        return self.broken_rule(x, edge=edge)

    def broken_rule(self, x: Floats, among: Flags | None = None, edge: float = EDGE) -> str | None:
        """The first linear rule that x breaks, of those between features that are ``among`` some; in words."""
        for i, (row, rest) in enumerate(zip(self.C, self.rest.tolist(), strict=True)):
            used = np.flatnonzero(row)
            if among is not None and not among[used].all():
                continue
            value = float(row[used] @ x[used])
            size = float(np.abs(row[used]) @ np.abs(x[used]) + abs(rest))
            if abs(value - rest) > SAME * size if self.equal[i] else value - rest > edge * EPS * size:
                return f"rule {i + 1} is broken: {value!r} {'≠' if self.equal[i] else '>'} {rest!r}"
        return None


def _features(value: Any, model: Model) -> list[int]:
    """Feature numbers of one feature, several, or True for all."""
    if value is True:
        return list(range(model.n_features))
    if value is None or value is False:
        return []
    if isinstance(value, (str, int, np.integer)):
        value = [value]
    if not isinstance(value, Iterable):
        raise InputError(f"features are given as names or numbers; got {value!r}")
    return [d for v in value for d in _coordinates(v.item() if isinstance(v, np.generic) else v, model)]


def _coordinates(name: Any, model: Model) -> list[int]:
    """The features that belong to a name: one, all values of a category, or none where the classifier never sees the column."""
    column = model.encoding.find(name)
    if column is None:
        return [] if model.encoding.unseen(name) else [model.feature_index(name)]
    return column.coordinates.tolist()


def _number_column(name: Any, model: Model, what: str, *, mapped: bool) -> tuple[int, Column | None]:
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
    if column.kind == "ordinal" and not mapped:
        raise InputError(f"{what}: {name} is ordinal, one of {list(column.levels)}; leave it out")
    if what == "linear" and column.maps:
        raise InputError(f"linear: {name} passes {column.maps[-1].name}, so that no rule about it is linear; leave it out")
    return column.first, column


def _turned(model: Model) -> tuple[Flags, Flags]:
    """The features that fall where the user's number rises, and those for unknown categories, which no answer may have."""
    falling, unknown = np.zeros((2, model.n_features), dtype=bool)
    for column in model.encoding.columns:
        falling[column.coordinates] = not column.rising
        unknown[column.closed] = True
    return falling, unknown


def _whole(value: Any, model: Model) -> list[int]:
    """The features that have whole numbers; True is for all numbers."""
    columns = model.encoding.columns
    if value is True and columns:
        return [column.first for column in columns if column.kind == "number"]
    names = range(model.n_features) if value is True else [value] if isinstance(value, (str, int, np.integer)) else value
    return [_number_column(name, model, "integer", mapped=False)[0] for name in names or ()]


def _directed(value: Any, model: Model, what: str) -> Flags:
    """The features that may only rise, or only fall; True is for all that are no categories."""
    columns = model.encoding.columns
    if not columns:
        return _flags(value, model)
    categories = [column for column in columns if column.kind == "category"]
    out = _flags(value, model)
    for column in categories:
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
    if value is None:
        return lo, hi
    pairs: Iterable[tuple[tuple[int, Column | None], Any]]
    columns = model.encoding.columns
    if isinstance(value, Mapping):
        pairs = [(_number_column(key, model, "bounds", mapped=True), pair) for key, pair in value.items()]
    elif columns:
        pairs = [((column.first, column), value) for column in columns if column.kind == "number"]
    else:
        pairs = [((0, None), value)]
    for (d, column), pair in pairs:
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
    if not isinstance(value, Mapping) and not columns:  # one pair for all
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


_SENSES = {"<=": operator.pos, ">=": operator.neg, "==": operator.pos}


def _linear(rules: Any, model: Model) -> tuple[Floats, Floats, Flags]:
    C, rest, equal = [], [], []
    for rule in rules:
        try:
            coefficients, sense, value = rule
            turn = _SENSES[sense]
            row = np.zeros(model.n_features)
            for key, number in coefficients.items():
                row[_number_column(key, model, "linear", mapped=False)[0]] += float(number)
            number = float(value)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f'a rule is (mapping of features to numbers, "<=", ">=" or "==", number); got {rule!r}') from None
        if not (row.any() and np.isfinite(row).all() and np.isfinite(number)):
            raise InputError(f"a rule needs a coefficient that is not zero, and finite numbers; got {rule!r}")
        C.append(turn(row))
        rest.append(turn(number))
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
