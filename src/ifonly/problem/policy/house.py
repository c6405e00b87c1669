"""What a house decides once, put to questions.

A policy limits what others may ask for. It is put to a question (`Policy.put`) before an engine sees it, and what comes of that
is an ordinary `Question` with ordinary `Actions` and an ordinary `Cost`, no looser than either of the two: bounds are
intersected, what is frozen, directed or whole is united, steps must fit into each other, rules are all kept, the smaller number
of changes holds. What cannot be put together so (another target, a finer step, bounds that do not meet) is refused, with the
policy's reason where it has one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ifonly.model import Model
from ifonly.model.columns import Column
from ifonly.model.errors import InputError
from ifonly.model.words import Word, Words
from ifonly.problem.actions import Actions, each_bounds, listed
from ifonly.problem.cost import Cost
from ifonly.problem.policy.said import Feature, PolicyError, Said, at
from ifonly.problem.question import Question

__all__ = ["Policy"]

MULTIPLE = 1e-9  # relative: a step this near to a multiple of another is one


@dataclass(frozen=True)
class Policy(Said):
    """Everything that a house decides once: what may change, what things are called, which decision is wanted.

    ``Policy.load("policy.toml")`` reads one, ``ifonly policy draft MODEL DATA`` writes a first one. ``invert(…, policy=)`` and
    everything else that asks takes it. What it forbids, nobody who asks can allow: limits given besides are added to its own.

    Parameters
    ----------
    house : str
        Who decides; for letters.
    language : str
        Of letters: "en", "de", "fr", "es".
    decimal, group : str
        The decimal mark, and what stands between groups of three digits, wherever people read numbers; data have plain ones. By
        default as in English, and in letters as their language has them.
    target : label
        The wanted class.
    prob : float
        The probability to reach.
    may_choose : sequence of "target", "prob", "cost"
        Which of these whoever asks may choose; the policy's are then only what holds where nothing is chosen.
    max_changes : int
        At most so many features change.
    scale, l1
        What a change costs, as for :class:`ifonly.Cost`; the cost of single features stands with them.
    features : mapping of columns to Feature
    classes : mapping of classes to names
        What people call the classes.
    one_of : sequence of groups of columns
        One-hot columns: one 1 in each group.
    linear : sequence of Rule

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model.binary([0.1, 1.0], -8.8, ["refused", "approved"], ["age", "income"])
    >>> policy = ifonly.Policy(
    ...     target="approved",
    ...     features={"age": {"frozen": True}, "income": {"name": "monthly income", "unit": "EUR", "step": 0.5}},
    ... )
    >>> ifonly.invert(model, [30.0, 2.0], policy=policy).sentence()
    'If only monthly income were at least 6 EUR instead of 2, the decision would be approved (54 %).'

    """

    @property
    def words(self) -> Words:
        """What people call things."""
        columns = {
            name: Word(part.name, part.unit, part.description, part.reason, part.values) for name, part in self.features.items()
        }
        return Words(columns, self.classes, self.house, self.language, self.decimal, self.group)

    def check(self, model: Model) -> None:
        """Whether everything in it is about this model; an InputError says what is not."""
        _target(self, model)
        names = {str(label) for label in model.classes.tolist()}
        for label in self.classes:
            if label not in names:
                raise InputError(f"classes.{label}: the model has no such class; it has {', '.join(sorted(names)[:20])}")
        if self.prob is not None and model.hard:
            raise InputError("prob: this model has scores but no probabilities; leave it out")
        for name, feature in self.features.items():
            column = model.encoding.find(name)
            with at(f"features.{name}"):
                if column is None and not model.encoding.unseen(name):
                    model.feature_index(model.feature_key(name))
            _check_values(name, feature, column)
            with at(f"features.{name}"):
                Policy(features={name: feature}).actions(model).resolve(model)
        with at("cost"):
            (_cost(self, model) or Cost()).per_unit(model)
        rules = {f"linear.{i}": Policy(linear=(rule,)) for i, rule in enumerate(self.linear)}
        for place, part in (rules | {"one_of": Policy(one_of=self.one_of)}).items():
            with at(place):
                part.actions(model).resolve(model)

    def named(self, model: Model) -> Model:
        """The model, of whose answers people read in the policy's words."""
        return model.worded(self.words)

    def actions(self, model: Model) -> Actions:
        """What may change, as the library takes it."""
        key, said = model.feature_key, [(model.feature_key(name), part) for name, part in self.features.items()]
        closed = [label for name, part in self.features.items() for label in _closed(model, name, part)]
        return Actions(
            frozen=[name for name, part in said if part.frozen],
            bounds={name: (part.low, part.high) for name, part in said if not part.low is part.high is None} or None,
            increase=[name for name, part in said if part.only == "increase"],
            decrease=[name for name, part in said if part.only == "decrease"] + closed,
            integer=[name for name, part in said if part.integer],
            step={name: part.step for name, part in said if part.step is not None} or None,
            one_of=[list(map(key, group)) for group in self.one_of],
            linear=[({key(name): c for name, c in rule.terms.items()}, rule.sense, rule.value) for rule in self.linear],
        )

    def put(self, model: Model, question: Question, *, along: bool = False) -> Question:
        """The question within the policy; a PolicyError says what it forbids.

        With ``along`` (a path) the goal is left open: λ, or the probability, moves.
        """
        if model.memo.get("policy") is not self:
            self.check(model)
            model.memo["policy"] = self
        numbers = [n for n in (self.max_changes, question.max_changes) if n is not None]
        return replace(
            question,
            prob=question.prob if along else _goal(self, question),
            target=_wanted(self, model, question.target),
            cost=_priced(self, model, question.cost),
            actions=_meeting(self, model, question.actions),
            max_changes=min(numbers, default=None),
        )


# ---- a policy and a model ----


def _check_values(name: str, feature: Feature, column: Column | None) -> None:
    levels = [] if column is None or column.kind == "number" else [str(level) for level in column.levels]
    known = f"it has {', '.join(levels[:20])}" if levels else "it is a number, without values of its own"
    for field, given in (("values", feature.values), ("never", map(str, feature.never))):
        for value in given:
            if value not in levels:
                raise InputError(f"features.{name}.{field}: {name} has no value {value!r}; {known}")


def _closed(model: Model, name: str, feature: Feature) -> list[str]:
    """The features that stand for values which no answer chooses."""
    column, never = model.encoding.find(name), [str(value) for value in feature.never]
    levels = [] if column is None else zip(column.levels, column.labels, strict=False)
    return [label for level, label in levels if str(level) in never]


def _target(policy: Policy, model: Model) -> Any:
    """The wanted class, by its label or by what that is written as; None where the policy names none."""
    if policy.target is None:
        return None
    by_text = {str(label): label for label in model.classes.tolist()}
    with at("target"):
        return model.label(model.class_index(by_text.get(str(policy.target), policy.target)))


def _cost(policy: Policy, model: Model) -> Cost | None:
    """What a policy says that a change costs; None where it says nothing."""
    each = {model.feature_key(name): part.cost for name, part in policy.features.items() if part.cost is not None}
    if not each and policy.scale == "model" and policy.l1 is None:
        return None
    price: Any = each or policy.scale
    if each and policy.scale != "model":
        named = Actions(frozen=list(each)).resolve(model).frozen
        price = np.where(named, Cost(each).per_unit(model), Cost(policy.scale).per_unit(model))
    return Cost(price, l1=policy.l1 or 0.0)


# ---- a policy and a question ----


def _wanted(policy: Policy, model: Model, asked: Any) -> Any:
    wanted = _target(policy, model)
    if asked is None or wanted is None or "target" in policy.may_choose:
        return wanted if asked is None else asked
    every = asked if isinstance(asked, (list, set, frozenset)) or np.ndim(asked) else [asked]
    if any(str(label) != str(wanted) for label in every):
        raise PolicyError(f"target: the policy fixes the wanted decision: {wanted}; got {asked!r}", "target")
    return wanted


def _goal(policy: Policy, question: Question) -> Any:
    """The probability to reach; None where λ or a margin is asked for."""
    given = {name: getattr(question, name) for name in ("lam", "prob", "margin") if getattr(question, name) is not None}
    if policy.prob is None or (given and "prob" in policy.may_choose):
        return question.prob
    for name, value in given.items():
        if name != "prob" or np.any(np.asarray(value) != policy.prob):
            raise PolicyError(f"{name}: the policy fixes the probability to reach: prob = {policy.prob:g}; got {value}", name)
    return policy.prob


def _priced(policy: Policy, model: Model, asked: Cost | None) -> Cost | None:
    own = _cost(policy, model)
    if asked is not None and own is not None and "cost" not in policy.may_choose:
        raise PolicyError("cost: the policy says what a change costs; leave it out", "cost")
    return own if asked is None else asked


def _meeting(policy: Policy, model: Model, asked: Actions | None) -> Actions | None:
    """The limits of both."""
    own = policy.actions(model)
    if asked is None:
        return own if any(vars(own).values()) else None
    asked.resolve(model)  # what is wrong with it by itself comes first
    given = list(asked.one_of.values() if isinstance(asked.one_of, Mapping) else asked.one_of or ())
    groups = [*own.one_of, *([given] if given and isinstance(given[0], (str, int)) else given)]
    lists = {name: (getattr(own, name), getattr(asked, name)) for name in ("frozen", "increase", "decrease", "integer")}
    return Actions(
        **{name: True if more is True else [*ours, *listed(more)] for name, (ours, more) in lists.items()},
        bounds=_narrowest(policy, model, own.bounds, asked.bounds),
        step=_coarsest(policy, model, own, asked),
        one_of=list({tuple(sorted(map(str, group))): group for group in groups}.values()),
        linear=[*own.linear, *asked.linear],
    )


def _place(model: Model, key: Any) -> int:
    """The first of a feature's coordinates: the same however it is called."""
    column = model.encoding.find(key)
    return model.feature_index(key) if column is None else column.first


def _narrowest(policy: Policy, model: Model, own: Any, asked: Any) -> dict[Any, Any] | None:
    """The bounds of both: for each feature the higher of the lows and the lower of the highs."""
    found = {_place(model, key): (key, *pair) for key, pair in (own or {}).items()}
    for key, (low, high) in each_bounds(asked, model).items():
        d = _place(model, key)
        name, least, most = found.get(d, (key, None, None))
        column = model.encoding.find(key)
        # Numbers are compared as they are, values of an ordinal by their place.
        rank: Any = column.levels.index if column is not None and column.kind == "ordinal" else float
        ends: Any = ((max, least, low), (min, most, high))
        pair = [choose((end for end in both if end is not None), key=rank, default=None) for choose, *both in ends]
        if None not in pair and rank(pair[0]) > rank(pair[1]):
            raise _refused(policy, "bounds", name, f"allows {_range(least, most)}", f"got {_range(low, high)}")
        found[d] = name, *pair
    return {key: (low, high) for key, low, high in found.values()} or None


def _range(low: Any, high: Any) -> str:
    if high is None:
        return f"at least {low}"
    return f"at most {high}" if low is None else f"{low} to {high}"


def _refused(policy: Policy, limit: str, name: Any, rule: str, got: str) -> PolicyError:
    reason = policy.features[str(name)].reason if str(name) in policy.features else ""
    why = f" ({reason.rstrip('.')})" if reason else ""
    return PolicyError(f"{limit} of {name}: the policy {rule}{why}; {got}", f"actions.{limit}.{name}")


def _coarsest(policy: Policy, model: Model, own: Actions, asked: Actions) -> dict[Any, float] | None:
    """The steps of both, where those of the question are multiples of the policy's."""
    least = {_place(model, key): (key, 1.0) for key in own.integer}
    least |= {_place(model, key): (key, float(size)) for key, size in (own.step or {}).items()}
    found = dict(own.step or {})
    for key, size in (asked.step or {}).items():
        name, unit = least.get(_place(model, key), (key, None))
        if unit is not None:
            times = float(size) / unit
            if times < 0.5 or abs(times - round(times)) > MULTIPLE * times:
                raise _refused(policy, "step", name, f"wants multiples of {unit:g}", f"{size:g} is none")
            found.pop(name, None)
        found[key] = size
    return found or None
