"""From what a request says to what the library takes, with the field named wherever that cannot be."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.model.errors import InputError
from ifonly.problem.actions import Actions
from ifonly.problem.cost import Cost
from ifonly.server.models import Served
from ifonly.server.refusals import RefusedError
from ifonly.server.schema import DIFFICULTY, ActionsIn, CostIn, DownloadQuestion, PathQuestion, Question
from ifonly.server.wire import shown

__all__ = ["Asked", "plain_row", "read_question"]

LISTED = 20  # classes that an error lists


@dataclass(frozen=True, eq=False)
class Asked:
    """A question about one model, checked.

    Attributes
    ----------
    rows : list
        Sources, as the library takes them one by one.
    index : list of int, optional
        Which rows of the data they are.
    single, named, packed, delta : bool
        Whether one was asked for; whether values go by name, or as base64; whether the change is told without names too.
    target : label, "other" or None
    cost, actions, max_changes
        None where nothing was said.

    """

    served: Served
    rows: list[Any]
    index: list[int] | None
    single: bool
    named: bool
    target: Any
    cost: Cost | None = None
    actions: Actions | None = None
    max_changes: int | None = None
    packed: bool = False
    delta: bool = False

    @property
    def free(self) -> bool:
        """Whether nothing limits the change, so that the kernel for many rows can take it."""
        return self.served.plain and self.cost is None and self.actions is None and self.max_changes is None

    @property
    def limits(self) -> dict[str, Any]:
        """What is said about the change, as the library's arguments."""
        return {"cost": self.cost, "actions": self.actions, "max_changes": self.max_changes}


def plain_row(served: Served, question: Question) -> Asked | None:
    """A question for one row and nothing else, which the kernel for many rows can take; None where there is more to it."""
    limited = question.cost or question.actions or question.max_changes is not None or question.n or question.margin is not None
    if question.row is None or limited or question.detail != "answer" or not served.plain:
        return None
    if question.rows is not None or question.index is not None or question.indices is not None or question.edits:
        return None
    row = served.columns.read(question.row, "row")
    named, target = isinstance(question.row, Mapping), read_target(served, question.target)
    packed, delta = _form(served, question, named)
    return Asked(served, [row], None, True, named, target, packed=packed, delta=delta)


def read_question(served: Served, question: Question | DownloadQuestion | PathQuestion, max_rows: int) -> Asked:
    """What is asked, checked against the model and the data; a `RefusedError` names the field."""
    ways = {name: getattr(question, name) for name in ("row", "rows", "index", "indices") if hasattr(question, name)}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) != 1:
        raise RefusedError(f"give one of {', '.join(ways)}; got {' and '.join(given) or 'none'}", given[-1] if given else "row")
    way = given[0]
    many = way in ("rows", "indices")
    values = ways[way] if many else [ways[way]]
    if way == "rows" and isinstance(values, str):
        values = list(served.columns.unpacked(values, way, None))
    elif not isinstance(values, list) or not values:
        raise RefusedError(f"{way} must be a list of rows, one or more; got {shown(values)}", way)
    if len(values) > max_rows:
        raise RefusedError(f"at most {max_rows} rows at once; got {len(values)}", way, 413)
    if question.edits and way != "index":
        raise RefusedError("edits go with index", "edits")

    def place(i: int) -> str:
        return f"{way}.{i}" if many else way

    if way in ("row", "rows"):
        read = served.columns.read
        rows = [row if isinstance(row, np.ndarray) else read(row, place(i)) for i, row in enumerate(values)]
        index, named = None, isinstance(values[0], Mapping)
    else:
        rows, index = [_of_data(served, row, place(i), question.edits) for i, row in enumerate(values)], list(values)
        named = served.named
    actions, frozen = _actions(served, question.actions, rows[0] if not many else None)
    cost = None
    if question.cost is not None:
        cost, impossible = _cost(served, question.cost)
        frozen += impossible
    if frozen:
        actions["frozen"] = [*actions.get("frozen", ()), *frozen]
    limits = Actions(**actions) if actions else None
    target = read_target(served, question.target)
    form = _form(served, question, named)
    return Asked(served, rows, index, not many, named, target, cost, limits, question.max_changes, *form)


def _form(served: Served, question: Question | DownloadQuestion | PathQuestion, named: bool) -> tuple[bool, bool]:
    """Whether the numbers of an answer are written as base64, and whether those of the change are."""
    if not isinstance(question, Question):
        return False, False
    return question.pack and served.model.encoding.identity and not named, question.delta


def _of_data(served: Served, index: int, field: str, edits: Mapping[str, Any]) -> Any:
    """A row of the data, with some values replaced."""
    if served.data is None:
        raise RefusedError(f"model {served.name!r} is served without data; give row", field)
    if index >= served.data.total:
        raise RefusedError(f"the data have {served.data.total} rows, counted from 0; there is no row {index}", field)
    columns = served.columns
    values, bad = served.row(index)
    values = dict(zip(columns.names, values, strict=True))
    for name, value in edits.items():
        if name not in columns.columns:
            raise RefusedError(columns.unknown(name), f"edits.{name}")
        values[name] = columns.value(name, value, f"edits.{name}")
    if bad is not None and not edits:
        raise RefusedError(f"row {index} of the data cannot be read: {bad}", field)
    return columns.read(values, "edits" if edits else field)


def read_target(served: Served, target: Any) -> Any:
    """The class that is meant: by its label, or by what that is written as."""
    if target is None:
        return None
    if isinstance(target, (str, int, float)):
        labels = served.labels
        found = labels.get((type(target), target), labels.get((str, str(target)), labels))
        if found is not labels:
            return found
        if target == "other":
            return "other"
    known = ", ".join(served.class_names[:LISTED]) + (", …" if len(served.class_names) > LISTED else "")
    raise RefusedError(f"target must be one of the model's classes, {known}; got {shown(target)}", "target")


# ---- what may change ----


def _actions(served: Served, actions: ActionsIn | None, row: Any) -> tuple[dict[str, Any], list[str]]:
    """Limits as the library takes them, and the values of categories that are ruled out."""
    if actions is None:
        return {}, []
    found: dict[str, Any] = {}
    for name in ("frozen", "increase", "decrease", "integer"):
        features = getattr(actions, name)
        if features:
            found[name] = list(dict.fromkeys(_feature(served, feature, f"actions.{name}") for feature in features))
            _try(served, name, found[name], {str(feature): [feature] for feature in found[name]})
    if actions.bounds:
        found["bounds"] = _bounds(served, actions.bounds)
    if actions.step:
        place = "actions.step"
        found["step"] = {_feature(served, key, place): _finite(v, f"{place}.{key}") for key, v in actions.step.items()}
        _try(served, "step", found["step"], {str(key): {key: size} for key, size in found["step"].items()})
    for name, rules in (("one_of", actions.one_of), ("linear", actions.linear)):
        if rules:
            found[name] = [_rule(served, rule, f"actions.{name}.{i}") for i, rule in enumerate(rules)]
            _try(served, name, found[name], {str(i): [rule] for i, rule in enumerate(found[name])})
    return found, _ruled_out(served, actions.allow, row) if actions.allow else []


def _try(served: Served, name: str, whole: Any, parts: Mapping[str, Any]) -> None:
    """Whether the library takes a limit; where it does not, which part of it is to blame."""

    def attempt(limit: Any, field: str) -> None:
        try:
            Actions(**{name: limit}).resolve(served.model)
        except InputError as error:
            raise RefusedError(str(error), field) from None

    try:
        attempt(whole, f"actions.{name}")
    except RefusedError:
        for key, part in parts.items():
            attempt(part, f"actions.{name}.{key}")
        raise


def _feature(served: Served, key: Any, field: str) -> Any:
    """A feature as the library knows it: its number, where the model has no names."""
    if isinstance(key, bool) or not isinstance(key, (str, int)) or (isinstance(key, int) and key.bit_length() > 31):
        raise RefusedError(f"a feature is a name or a number; got {shown(key)}", field)
    if isinstance(key, str) and not served.named and key.isdecimal() and len(key) < 10:
        key = int(key)
    if key not in served.known:
        try:
            served.model.feature_index(key)
        except InputError as error:
            raise RefusedError(str(error), f"{field}.{key}") from None
    return key


def _finite(v: Any, field: str) -> float:
    if isinstance(v, bool) or not isinstance(v, (int, float)):
        raise RefusedError(f"{field} must be a number; got {shown(v)}", field)
    if isinstance(v, float) and not math.isfinite(v):
        raise RefusedError(f"{field} must be a finite number; got {v}", field, 400)
    if abs(v) > 10**300:
        raise RefusedError(f"{field} is too large a number", field)
    return v


def _bounds(served: Served, bounds: Any) -> Any:
    if isinstance(bounds, list):
        pair = _pair(bounds, "actions.bounds")
        _try(served, "bounds", pair, {})
        return pair
    if not isinstance(bounds, Mapping):
        raise RefusedError(f"bounds must be an object, or one pair for all; got {shown(bounds)}", "actions.bounds")
    place = "actions.bounds"
    found = {_feature(served, key, place): _pair(pair, f"{place}.{key}") for key, pair in bounds.items()}
    _try(served, "bounds", found, {str(key): {key: pair} for key, pair in found.items()})
    return found


def _pair(pair: Any, field: str) -> tuple[Any, Any]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise RefusedError(f"bounds are a pair of low and high; got {shown(pair)}", field)
    low, high = (end if end is None or isinstance(end, str) else _finite(end, field) for end in pair)
    return low, high


def _rule(served: Served, rule: Any, field: str) -> Any:
    if isinstance(rule, list):
        return [_feature(served, feature, field) for feature in rule]
    given, sense, rest = rule
    weights = {_feature(served, key, f"{field}.0"): _finite(v, f"{field}.0.{key}") for key, v in given.items()}
    return weights, sense, _finite(rest, f"{field}.2")


def _ruled_out(served: Served, allow: Mapping[str, Any], row: Any) -> list[str]:
    """The values that categories may not change to, as features of the model's; a row may always keep its own."""
    if row is None:
        raise RefusedError("allow is for one row: each may keep its own values", "actions.allow")
    found = []
    for name, values in allow.items():
        column, field = served.columns.columns.get(name), f"actions.allow.{name}"
        if column is None or column.kind != "category" or column.cut is not None:
            raise RefusedError(f"{shown(name)} is no category of the model's", field)
        if not isinstance(values, list):
            raise RefusedError(f"{field} must be a list of values; got {shown(values)}", field)
        keep = [served.columns.value(name, value, field) for value in values]
        place = column.coordinates.tolist()
        found += [
            served.model.feature_label(d)
            for d, level in zip(place, column.levels, strict=False)
            if level not in keep and level != row[name]
        ]
    return found


# ---- what a change costs ----


def _cost(served: Served, cost: CostIn) -> tuple[Cost | None, list[Any]]:
    """The cost, and the features that are impossible to change."""
    model = served.model
    scale: Any = cost.scale
    if not isinstance(scale, str):
        scale = _by_feature(served, scale, "cost.scale", lambda part: Cost(part).per_unit(model))
    elif scale not in ("model", "raw"):
        raise RefusedError(f'scale must be "model", "raw" or an object; got {shown(scale)}', "cost.scale")
    l1: Any = cost.l1
    if isinstance(l1, Mapping):
        l1 = _by_feature(served, l1, "cost.l1", lambda part: Cost(l1=part).sparsity(model))
    elif _finite(l1, "cost.l1") < 0:
        raise RefusedError(f"l1 must be a number ≥ 0; got {shown(l1)}", "cost.l1")
    factors, impossible = _difficulty(served, cost.difficulty)
    if factors:
        per_unit = Cost(scale).per_unit(model).copy()
        for feature, factor in factors.items():
            column = model.encoding.find(feature)
            per_unit[model.feature_index(feature) if column is None else column.coordinates] *= factor
        scale = per_unit
    plain = isinstance(scale, str) and scale == "model" and not np.any([*l1.values()] if isinstance(l1, Mapping) else l1)
    return None if plain else Cost(scale, l1=l1), impossible


def _difficulty(served: Served, words: Mapping[str, Any]) -> tuple[dict[Any, float], list[Any]]:
    factors, impossible = {}, []
    for name, word in words.items():
        feature = _feature(served, name, "cost.difficulty")
        if not isinstance(word, str) or (word not in DIFFICULTY and word != "impossible"):
            told = f"difficulty is one of {', '.join(DIFFICULTY)} and impossible; got {shown(word)}"
            raise RefusedError(told, f"cost.difficulty.{name}")
        if word == "impossible":
            impossible.append(feature)
        elif word != "medium":
            factors[feature] = DIFFICULTY[word]
    return factors, impossible


def _by_feature(served: Served, values: Any, field: str, attempt: Callable[[Any], Any]) -> dict[Any, float]:
    """Numbers per feature; where the library does not take them, with the one that is to blame."""
    if not isinstance(values, Mapping):
        raise RefusedError(f"{field} must be an object of numbers by feature; got {shown(values)}", field)
    found = {_feature(served, name, field): _finite(value, f"{field}.{name}") for name, value in values.items()}
    try:
        attempt(found)
    except InputError:
        for feature, value in found.items():
            try:
                attempt({feature: value})
            except InputError as error:
                raise RefusedError(str(error), f"{field}.{feature}") from None
        raise
    return found
