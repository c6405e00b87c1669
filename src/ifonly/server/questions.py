"""From what a request says to one `Question` of the library's, with the field named wherever that cannot be."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ifonly.api import Ask
from ifonly.model.errors import InputError
from ifonly.problem.actions import Actions
from ifonly.problem.cost import Cost
from ifonly.problem.question import FLIP, Question
from ifonly.server import schema
from ifonly.server.models import Served
from ifonly.server.schema import DIFFICULTY, ActionsIn, CostIn
from ifonly.server.wire import RefusedError, listed, shown

__all__ = ["Body", "Request", "path_goals", "plain_row", "read_request", "read_rows", "read_target"]

LISTED = 20  # classes that an error lists
PLAIN = frozenset({"model", "row", "target", "prob", "lam", "detail", "delta", "pack", "top"})  # see `plain_row`
LAMS = np.geomspace(1e3, 1e-5, 60).tolist()  # of a path, where none are given: as many as a small chart shows

Body = schema.Question | schema.DownloadQuestion | schema.PathQuestion


@dataclass(slots=True, eq=False)
class Request:
    """What a request asks of one model, checked."""

    served: Served
    ask: Ask  # the question, put to the model within the policy
    rows: list[Any]  # sources, as the library takes them one by one
    index: list[int] | None  # which rows of the data they are
    single: bool  # whether one was asked for
    named: bool  # whether values go by name
    packed: bool  # whether numbers are written as base64
    delta: bool  # whether the change is told: by name always


def plain_row(served: Served, body: schema.Question) -> Request | None:
    """A request for one row and nothing else, which can be solved together with others; None where there is more to it."""
    if not body.model_fields_set <= PLAIN or body.row is None or body.detail != "answer" or not served.free:
        return None
    if body.lam is not None and body.prob is not None:
        return None
    row, named = served.columns.read(body.row, "row"), isinstance(body.row, Mapping)
    prob = body.prob if body.lam is not None else body.prob or FLIP
    ask = served.plain(read_target(served, body.target), body.lam, prob)
    return Request(served, ask, [row], None, True, named, *_told(served, body, named))


def read_request(served: Served, body: Body, max_rows: int = 1) -> Request:
    """What is asked, checked against the model and the data; a `RefusedError` names the field.

    An InputError says what is wrong with limits, row and policy together.
    """
    rows, index, single, named = read_rows(served, body, max_rows)
    question = _question(served, body, rows[0] if single else None)
    ask = Ask(served.model, question, served.policy, along=isinstance(body, schema.PathQuestion))
    return Request(served, ask, rows, index, single, named, *_told(served, body, named))


def _told(served: Served, body: Body, named: bool) -> tuple[bool, bool]:
    """Whether numbers are packed in the reply, and whether it has the change."""
    packed = getattr(body, "pack", False) and served.model.encoding.identity and not named
    return packed, named or getattr(body, "delta", False)


def read_rows(served: Served, body: Any, max_rows: int = 1) -> tuple[list[Any], list[int] | None, bool, bool]:
    """The sources, which rows of the data they are, whether one was asked for, and whether values go by name."""
    ways = {name: getattr(body, name) for name in ("row", "rows", "index", "indices") if hasattr(body, name)}
    given = [name for name, value in ways.items() if value is not None]
    way = ["row", *given][-1]
    if len(given) != 1:
        raise RefusedError(f"give one of {', '.join(ways)}; got {' and '.join(given) or 'none'}", way)
    many = way in ("rows", "indices")
    if body.edits and way != "index":
        raise RefusedError("edits go with index", "edits")
    values = ways[way] if many else [ways[way]]
    if isinstance(values, str):
        values = list(served.columns.unpacked(values, way, None))
    elif not isinstance(values, list) or not values:
        raise RefusedError(f"{way} must be a list of rows, one or more; got {shown(values)}", way)
    if len(values) > max_rows:
        raise RefusedError(f"at most {max_rows} rows at once; got {len(values)}", way, 413)
    if way in ("row", "rows"):
        read, index, named = served.columns.read, None, isinstance(values[0], Mapping)
    else:
        read, index, named = partial(_of_data, served, body.edits), list(values), served.named
    return [read(value, f"{way}.{i}" if many else way) for i, value in enumerate(values)], index, not many, named


def _question(served: Served, body: Body, row: Any) -> Question:
    """What is asked of every row; ``row`` is the one there is, None for many."""
    asked, price = body.actions or ActionsIn(), body.cost or CostIn()
    _keep_to_policy(served, asked, price)
    limits, ruled_out = _limits(served, asked), _ruled_out(served, asked.allow, row)
    cost, impossible = _cost(served, price)
    frozen = [*limits.pop("frozen", ()), *ruled_out, *impossible]
    actions = Actions(frozen, **limits) if limits or frozen else None
    if served.columns.flags:
        actions = (actions or Actions()).with_flags(served.model, sorted(served.columns.flags))
    target, limited = read_target(served, body.target), {"cost": cost, "actions": actions, "max_changes": body.max_changes}
    if isinstance(body, schema.PathQuestion):
        goal, values = path_goals(body)
        return Question(target, **{goal: values[0]}, **limited)
    if sum(value is not None for value in (body.lam, body.prob, body.margin)) > 1:
        raise RefusedError("give one of lam, prob and margin", "prob")
    if body.n is not None and row is None:
        raise RefusedError("n is for one row", "n")
    return Question(target, body.lam, body.prob, body.margin, n=body.n, **limited)


def path_goals(body: schema.PathQuestion) -> tuple[str, list[float]]:
    """What the goals along a path are, ``lam`` or ``prob``, and their values."""
    if body.lams is not None and body.probs is not None:
        raise RefusedError("give one of lams and probs", "probs")
    return ("lam", body.lams or LAMS) if body.probs is None else ("prob", body.probs)


def _of_data(served: Served, edits: Mapping[str, Any], index: int, field: str) -> Any:
    """A row of the data, with some values replaced."""
    if served.rows is None:
        raise RefusedError(f"model {served.name!r} is served without data; give row", field)
    total, columns = served.rows.data.total, served.columns
    if index >= total:
        raise RefusedError(f"the data have {total} rows, counted from 0; there is no row {index}", field)
    values, bad = served.rows.row(index)
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
    for key in ((type(target), target), (str, str(target))) if isinstance(target, (str, int, float)) else ():
        if key in served.labels:
            return served.labels[key]
    known = listed(served.class_names, LISTED)
    raise RefusedError(f"target must be one of the model's classes, {known}; got {shown(target)}", "target")


def _keep_to_policy(served: Served, actions: ActionsIn, cost: CostIn) -> None:
    """Refuse what says that something may change which the policy forbids; limits besides are only added to its own."""
    features = {} if served.policy is None else served.policy.features
    why = {name: f": {feature.reason}" if feature.reason else "" for name, feature in features.items()}
    for name, word in cost.difficulty.items():
        if name in features and features[name].frozen and word != "impossible":
            raise RefusedError(f"by the policy, {name} stays as it is{why[name]}", f"cost.difficulty.{name}")
    for name, values in actions.allow.items():
        never = set(map(str, features[name].never)) if name in features else set()
        for value in values if isinstance(values, list) else ():
            if str(value) in never:
                raise RefusedError(f"by the policy, {name} may not become {value}{why[name]}", f"actions.allow.{name}")


def _limits(served: Served, actions: ActionsIn) -> dict[str, Any]:
    """Limits as the library takes them, those that were given."""
    found: dict[str, Any] = {}
    for name, read in LIMITS.items():
        given, field = getattr(actions, name), f"actions.{name}"
        if given:
            found[name] = read(served, given, field)
            _try(lambda limit, name=name: Actions(**{name: limit}).resolve(served.model), found[name], field)
    return found


def _try(attempt: Callable[[Any], Any], whole: Any, field: str) -> None:
    """Whether the library takes a value; where it does not, which part of it is to blame."""
    try:
        attempt(whole)
    except InputError as error:
        parts: dict[Any, Any] = {}
        if isinstance(whole, Mapping):
            parts = {key: {key: part} for key, part in whole.items()}
        elif isinstance(whole, list):  # of features, or of rules, which have a number
            parts = {part if isinstance(part, (str, int)) else i: [part] for i, part in enumerate(whole)}
        for key, part in parts.items():
            try:
                attempt(part)
            except InputError as blamed:
                raise RefusedError(str(blamed), f"{field}.{key}") from None
        raise RefusedError(str(error), field) from None


def _feature(served: Served, key: Any, field: str) -> Any:
    """A feature as the library knows it: its number, where the model has no names."""
    if isinstance(key, bool) or not isinstance(key, (str, int)) or (isinstance(key, int) and key.bit_length() > 31):
        raise RefusedError(f"a feature is a name or a number; got {shown(key)}", field)
    if isinstance(key, str) and not served.named and key.isdecimal() and len(key) < 10:
        key = int(key)
    if key not in served.known:
        _try(served.model.feature_index, key, f"{field}.{key}")
    return key


def _finite(v: Any, field: str) -> float:
    if isinstance(v, bool) or not isinstance(v, (int, float)):
        raise RefusedError(f"{field} must be a number; got {shown(v)}", field)
    if isinstance(v, float) and not math.isfinite(v):
        raise RefusedError(f"{field} must be a finite number; got {v}", field, 400)
    if abs(v) > 10**300:
        raise RefusedError(f"{field} is too large a number", field)
    return v


def _numbers(served: Served, values: Mapping[str, Any], field: str) -> dict[Any, float]:
    return {_feature(served, key, field): _finite(v, f"{field}.{key}") for key, v in values.items()}


def _group(served: Served, features: list[Any], field: str) -> list[Any]:
    return list(dict.fromkeys(_feature(served, feature, field) for feature in features))


def _bounds(served: Served, bounds: Any, field: str) -> Any:
    if isinstance(bounds, list):
        return _pair(bounds, field)
    if not isinstance(bounds, Mapping):
        raise RefusedError(f"bounds must be an object, or one pair for all; got {shown(bounds)}", field)
    return {_feature(served, key, field): _pair(pair, f"{field}.{key}") for key, pair in bounds.items()}


def _pair(pair: Any, field: str) -> tuple[Any, ...]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise RefusedError(f"bounds are a pair of low and high; got {shown(pair)}", field)
    return tuple(end if end is None or isinstance(end, str) else _finite(end, field) for end in pair)


def _groups(served: Served, groups: list[Any], field: str) -> list[Any]:
    return [[_feature(served, feature, f"{field}.{i}") for feature in group] for i, group in enumerate(groups)]


def _rules(served: Served, rules: list[Any], field: str) -> list[Any]:
    return [
        (_numbers(served, weights, f"{field}.{i}.0"), sense, _finite(rest, f"{field}.{i}.2"))
        for i, (weights, sense, rest) in enumerate(rules)
    ]


LIMITS: dict[str, Callable[[Served, Any, str], Any]]  # how each is read
LIMITS = dict.fromkeys(("frozen", "increase", "decrease", "integer"), _group)
LIMITS |= {"bounds": _bounds, "step": _numbers, "one_of": _groups, "linear": _rules}


def _ruled_out(served: Served, allow: Mapping[str, Any], row: Any) -> list[str]:
    """The values that categories may not change to, as features of the model's; a row may always keep its own."""
    if allow and row is None:
        raise RefusedError("allow is for one row: each may keep its own values", "actions.allow")
    found = []
    for name, values in allow.items():
        column, field = served.columns.columns.get(name), f"actions.allow.{name}"
        if column is None or column.kind != "category" or column.numeric:
            raise RefusedError(f"{shown(name)} is no category of the model's", field)
        if not isinstance(values, list):
            raise RefusedError(f"{field} must be a list of values; got {shown(values)}", field)
        keep = [served.columns.value(name, value, field) for value in values]
        for d, level in zip(column.coordinates.tolist(), column.levels, strict=False):
            if level not in keep and level != row[name]:
                found.append(served.model.feature_label(d))
    return found


def _cost(served: Served, cost: CostIn) -> tuple[Cost | None, list[Any]]:
    """The cost, and the features that are impossible to change."""
    model = served.model
    scale, l1 = cost.scale, cost.l1
    if isinstance(scale, Mapping):
        scale = _numbers(served, scale, "cost.scale")
        _try(lambda part: Cost(part).per_unit(model), scale, "cost.scale")
    elif scale not in ("model", "raw"):
        raise RefusedError(f'scale must be "model", "raw" or an object; got {shown(scale)}', "cost.scale")
    if isinstance(l1, Mapping):
        l1 = _numbers(served, l1, "cost.l1")
        _try(lambda part: Cost(l1=part).sparsity(model), l1, "cost.l1")
    elif _finite(l1, "cost.l1") < 0:
        raise RefusedError(f"l1 must be a number ≥ 0; got {shown(l1)}", "cost.l1")
    factors, impossible = _difficulty(served, cost.difficulty)
    if factors:
        per_unit = Cost(scale).per_unit(model).copy()
        for feature, factor in factors.items():
            column = model.encoding.find(feature)
            per_unit[model.feature_index(feature) if column is None else column.coordinates] *= factor
        scale = per_unit
    plain = isinstance(scale, str) and scale == "model" and not (any(l1.values()) if isinstance(l1, Mapping) else l1)
    return None if plain else Cost(scale, l1=l1), impossible


def _difficulty(served: Served, words: Mapping[str, Any]) -> tuple[dict[Any, float], list[Any]]:
    factors, impossible = {}, []
    for name, word in words.items():
        feature = _feature(served, name, "cost.difficulty")
        if word == "impossible":
            impossible.append(feature)
        elif not isinstance(word, str) or word not in DIFFICULTY:
            told = f"difficulty is one of {', '.join(DIFFICULTY)} and impossible; got {shown(word)}"
            raise RefusedError(told, f"cost.difficulty.{name}")
        elif word != "medium":
            factors[feature] = DIFFICULTY[word]
    return factors, impossible
