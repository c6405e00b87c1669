"""A question, put to a model: labels are class indices here, limits arrays, and what could have no effect is refused.

`Asked` is what all rows share; `Aims` are what it comes to for some of them, `Aim` for one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ifonly.model import GRAM_CLASSES, Model, Scaling
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats, Indices
from ifonly.problem.actions import Actions
from ifonly.problem.conditions import Conditions, Keeping
from ifonly.problem.cost import Cost
from ifonly.problem.question import FLIP, Question

__all__ = ["ALL", "NEAREST", "Aim", "Aims", "Asked", "in_units_of_cost"]

NEAREST = -1  # in place of a class index: the nearest other class, or the nearest of a set
ALL = -2  # in place of a class index: every class in turn


class Aims(NamedTuple):
    """What is wanted of N rows: class indices (or `NEAREST`, of ``among`` if given), and per row λ or a probability.

    Where neither is given it is the margin of the conditions.
    """

    targets: Indices
    lam: Floats | None
    prob: Floats | None
    among: Indices | None = None

    @classmethod
    def of(cls, aim: "Aim", n_rows: int = 1) -> "Aims":
        """The same of so many rows."""
        lam, prob = (None if v is None else np.full(n_rows, v) for v in (aim.lam, aim.prob))
        return cls(np.full(n_rows, aim.k), lam, prob, aim.among)

    def take(self, index: Any) -> "Aims":
        """Those of some of the rows."""
        lam, prob = (None if v is None else v[index] for v in (self.lam, self.prob))
        return Aims(self.targets[index], lam, prob, self.among)

    def one(self, i: int) -> "Aim":
        """That of one row."""
        lam, prob = (None if v is None else float(v[i]) for v in (self.lam, self.prob))
        return Aim(int(self.targets[i]), lam, prob, self.among)


class Aim(NamedTuple):
    """What is wanted of one row, see `Aims`."""

    k: int
    lam: float | None
    prob: float | None
    among: Indices | None = None

    def value(self, result: Any) -> float:
        """What is minimised, of a `Result`: E with λ, else the cost (or, which comes to the same, the distance)."""
        if self.lam is not None:
            return result.objective
        return result.distance if math.isnan(result.cost) else result.cost


@dataclass(frozen=True, eq=False)
class Asked(Keeping):
    """A question, put to a model and checked against it."""

    question: Question
    model: Model  # the user's, or the same over features in units of cost, where that is all that a cost comes to
    conditions: Conditions | None  # a cost, limits or a margin; None for a free problem

    @classmethod
    def of(cls, model: Model, question: Question) -> "Asked":
        """Check, and work out what all sources share."""
        question = _with_default(question, model)
        cost, conditions, seen = question.cost, None, model
        limited = not (question.actions is question.max_changes is question.n is question.margin is None)
        if limited or not model.encoding.plain or (cost is not None and not cost.plain):  # its own columns may have limits
            _ = cls(question, model, None).labels  # what is wrong with the target comes first
            conditions = _conditions(model, question)
        elif cost is not None:
            seen = in_units_of_cost(model, cost)
        asked = cls(question, seen, conditions)
        _ = asked.labels
        _check_effects(asked)
        return asked

    def with_flags(self, names: Sequence[str]) -> "Asked":
        """The same, where these columns are yes or no."""
        if not names:
            return self
        key = ("flags", *names)

        def make() -> Asked:
            model = self.model if self.model.origin is None else self.model.origin[0]  # the user's own
            question = replace(self.question, actions=(self.question.actions or Actions()).with_flags(model, names))
            return Asked(question, model, _conditions(model, question))

        return self.keep(key, make)

    def at(self, **changed: Any) -> "Asked":
        """The same question with another goal: ``lam``, ``prob`` or ``target``."""
        return replace(self, question=replace(self.question, **changed))

    # ---- targets ----

    @cached_property
    def labels(self) -> "int | Indices | frozenset[int]":
        """The class index (or `NEAREST`, `ALL`), one per row, or those of a set."""
        return _resolved(self.model, self.question.target)

    def among(self, single: bool) -> Indices | None:
        """The classes of which any will do, where a set was given (for one source also a list); None otherwise."""
        labels = self.labels
        if isinstance(labels, frozenset):
            found = np.array(sorted(labels), dtype=np.intp)
        elif single and isinstance(labels, np.ndarray) and len(labels) > 1:
            found = np.unique(labels)
        else:
            return None
        if not 0 < len(found) < self.model.n_classes or found[0] < 0:
            raise InputError(
                f"target must be one or more of the {self.model.n_classes} classes, but not all; got {len(found)} of them"
            )
        return found

    @property
    def per_source(self) -> int:
        """Answers for each source."""
        return self.model.n_classes if isinstance(self.labels, int) and self.labels == ALL else 1

    def check(self, n_rows: int, *, single: bool = False) -> None:
        """Whether there is one of everything for each row."""
        target = NEAREST if self.among(single) is not None else self.labels
        for name, value in (("target", target), ("lam", self.question.lam), ("prob", self.question.prob)):
            if isinstance(value, np.ndarray) and len(value) != n_rows:
                one = "label" if name == "target" else "number"
                raise InputError(f"{name} must be one {one} or {n_rows}, one per row; got {len(value)}")

    def aims(self, a: int, b: int, *, single: bool = False) -> Aims:
        """What is wanted of rows ``a`` to ``b``; of every class in turn, K times as many."""

        def cut(value: Any) -> Any:
            return None if value is None else value[a:b] if isinstance(value, np.ndarray) else np.broadcast_to(value, (b - a,))

        among, (lam, prob) = self.among(single), (cut(v) for v in (self.question.lam, self.question.prob))
        if self.per_source == 1:
            return Aims(cut(np.intp(NEAREST) if among is not None else self.labels), lam, prob, among)
        K = self.per_source
        lam, prob = (None if v is None else np.repeat(v, K) for v in (lam, prob))
        return Aims(np.tile(np.arange(K), b - a), lam, prob)

    def aim(self) -> Aim:
        """What is wanted of the one source there is."""
        among, lam, prob = self.among(single=True), self._one("lam"), self._one("prob")
        if among is not None:
            return Aim(NEAREST, lam, prob, among)
        labels: Any = self.labels
        return Aim(int(labels if isinstance(labels, int) else labels[0]), lam, prob)

    def _one(self, name: str) -> float | None:
        """λ or the probability, of which there is one."""
        value: Any = getattr(self.question, name)
        if isinstance(value, np.ndarray):
            if len(value) != 1:
                raise InputError(f"{name} must be one number; got {value.tolist()}")
            return float(value[0])
        return value


def _with_default(question: Question, model: Model) -> Question:
    """The question with a goal: where none is given, to flip the decision."""
    if question.margin is not None:
        return question
    given = "lam" if question.lam is not None else "prob" if question.prob is not None else None
    if model.hard and given:
        raise InputError(f"{given} needs probabilities, and this model has only scores; give margin")
    if given:
        return question
    return replace(question, margin=0.0) if model.hard else replace(question, prob=FLIP)


def _conditions(model: Model, question: Question) -> Conditions:
    if model.borrowed or model.n_classes > GRAM_CLASSES:
        raise InputError(
            f"limits are for models with up to {GRAM_CLASSES} classes, not {model.n_classes}; keep those that could win, "
            "as Model(A[keep], b[keep], classes[keep])"
        )
    cost, actions = question.cost or Cost(), question.actions or Actions()
    return Conditions.of(model, cost, actions, question.max_changes, question.margin)


def in_units_of_cost(model: Model, cost: Cost) -> Model:
    """The same classifier over features in units of cost: all that a scale without limits needs."""
    per_unit = cost.per_unit(model)
    scaling = model.scaling
    shift, scale = (
        (np.zeros(model.n_features), np.ones(model.n_features)) if scaling is None else (scaling.shift, scaling.scale)
    )
    units = Scaling(shift, 1 / per_unit, None if scaling is None else scaling.rough)
    more = {"encoding": model.encoding, "hard": model.hard, "precision": model.precision}
    found = Model(model.A / (scale * per_unit), model.b, model.classes, model.feature_names, scaling=units, **more)
    found.origin, found.log_space, found.words = (model, per_unit), model.log_space, model.words
    return found


# ---- arguments that could have no effect ----


def _check_effects(asked: Asked) -> None:
    """Refuse what would change nothing, and say why."""
    question, model, conditions = asked.question, asked.model, asked.conditions
    stops = question.gap is question.node_limit is question.time_limit is question.max_iter is question.tol is question.start
    if stops and question.gap is None and question.backend != "cuda":  # nothing that is not for every question
        return
    if conditions is not None:
        reasons = _with_limits(question, model, conditions)
    else:
        none = "stops a search, and without limits there is none"
        reasons = {name: f"{name} {none}" for name in ("gap", "node_limit", "time_limit")}
        if model.n_classes == 2 and question.start is None:
            reasons["max_iter"] = "max_iter limits Newton's iterations, and two classes have a closed form"
    for name, reason in reasons.items():
        if getattr(question, name) is not None and (name != "backend" or question.backend == "cuda"):
            raise InputError(f"{reason}; leave it out")


def _with_limits(question: Question, model: Model, conditions: Conditions) -> dict[str, str]:
    """Arguments that have no effect on a problem with a cost or limits, and why."""
    reasons = {}
    if conditions.discrete or not conditions.separable or question.margin is not None:
        reasons["backend"] = 'backend="cuda" with limits is for those on features one by one, and lam or prob'
    reasons["start"] = "start is for problems without limits, and here are a cost, actions or max_changes"
    if not conditions.discrete and not model.encoding.columns:  # flags among a table's columns may yet need a search
        for name in ("gap", "node_limit"):
            reasons[name] = f"{name} stops a search over whole numbers, categories or few changes, and here is none"
    if conditions.discrete or question.lam is None:
        reasons["tol"] = "with limits tol goes with lam, and without whole numbers, categories or max_changes"
    if conditions.discrete or (model.n_classes == 2 and conditions.separable and question.lam is None):
        reasons["max_iter"] = "max_iter limits Newton's iterations, and this question takes a search instead"
    return reasons


# ---- labels ----


def _resolved(model: Model, target: Any) -> "int | Indices | frozenset[int]":
    if isinstance(target, (set, frozenset)):
        return frozenset(model.class_index(label) for label in target)
    if hasattr(target, "to_numpy"):
        target = target.to_numpy()
    if not isinstance(target, (Sequence, np.ndarray)) or isinstance(target, (str, tuple)):
        return _class_index(model, target)
    if isinstance(target, np.ndarray) and target.ndim == 1 and target.dtype.kind == "i" and target.size:
        low, high, counts = int(target.min()), int(target.max()), np.arange(model.n_classes)
        plain = model.classes.dtype.kind == "i" and bool((model.classes == counts).all())  # the classes are 0, 1, 2, …
        if low >= 0 and high < model.n_classes and plain:  # a million are looked through twice, and that is all
            return target.astype(np.intp, copy=False)
    if isinstance(target, np.ndarray) and target.ndim == 1 and target.dtype != object:
        labels, inverse = _distinct(target)
    else:
        labels, inverse = target, np.arange(len(target))
    indices = np.array([_class_index(model, label) for label in labels], dtype=np.intp)[inverse]
    if (indices == ALL).any():
        raise InputError('target "all" is for all rows; it cannot be one label among others')
    return indices


def _class_index(model: Model, target: Any) -> int:
    """The class index of a label, or `NEAREST` for None, "other" and "opposite", or `ALL` for "all"."""
    if target is None:
        return NEAREST
    try:
        return model.class_index(target)
    except InputError:
        if not isinstance(target, str) or target not in ("other", "opposite", "all"):
            raise
    if target == "opposite" and model.n_classes != 2:
        raise InputError(f'target "opposite" needs a model with 2 classes; this one has {model.n_classes}')
    return ALL if target == "all" else NEAREST


def _distinct(labels: np.ndarray) -> tuple[np.ndarray, Indices]:
    """`numpy.unique` with its inverse; integers of a small range are counted, not sorted."""
    if labels.dtype.kind == "i" and labels.size and int(labels.max()) - int(labels.min()) <= labels.size:
        place = labels.astype(np.intp) - int(labels.min())
        there = np.flatnonzero(np.bincount(place))
        at = np.zeros(there[-1] + 1, dtype=np.intp)
        at[there] = np.arange(len(there))
        return there + int(labels.min()), at[place]
    return np.unique(labels, return_inverse=True)
