"""Wrong calls, and what they are told: one thing is wrong with each, and the message says what was expected and what came."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, PolynomialFeatures, StandardScaler

from ifonly import Actions, Cost, CounterfactualExplainer, Model, Scaling, as_model, invert, path
from tests.golden.models import model, sources
from tests.golden.pipelines import fitted, people
from tests.golden.questions import Question

__all__ = ["FAMILIES"]

X = sources(3, 3, "refusals")
x = X[0]
NAMES = ["f0", "f1", "f2"]


def refusals() -> Iterator[Question]:
    """All wrong calls."""
    for group, calls in (
        ("model", _models()),
        ("source", _sources()),
        ("target", _targets()),
        ("goal", _goals()),
        ("option", _options()),
        ("cost", _costs()),
        ("actions", _actions()),
        ("contradiction", _contradictions()),
        ("together", _together()),
        ("path", _paths()),
        ("pipeline", _pipelines()),
        ("estimator", _estimators()),
    ):
        for name, call in calls.items():
            yield Question(f"refusals/{group}/{name}", call)


Calls = dict[str, Callable[[], Any]]


def two(source: Any, target: Any = "yes", **options: Any) -> Callable[[], Any]:
    """A question to a model with two classes."""
    return partial(invert, model(2, 3), source, target, **options)


def three(source: Any, target: Any = "a", **options: Any) -> Callable[[], Any]:
    """A question to a model with three classes."""
    return partial(invert, model(3, 3), source, target, **options)


def _models() -> Calls:
    return {
        "one row": partial(Model, [[1.0, 2.0]], [0.0]),
        "no columns": partial(Model, np.zeros((2, 0)), [0.0, 0.0]),
        "A of one dimension": partial(Model, [1.0, 2.0], [0.0, 0.0]),
        "A of three dimensions": partial(Model, np.zeros((2, 2, 2)), [0.0, 0.0]),
        "A of words": partial(Model, [["a", "b"], ["c", "d"]], [0.0, 0.0]),
        "A not finite": partial(Model, [[1.0, np.nan], [0.0, 1.0]], [0.0, 0.0]),
        "b too short": partial(Model, [[1.0, 2.0], [0.0, 1.0]], [0.0]),
        "b of two dimensions": partial(Model, [[1.0, 2.0], [0.0, 1.0]], [[0.0, 1.0]]),
        "b not finite": partial(Model, [[1.0, 2.0], [0.0, 1.0]], [0.0, np.inf]),
        "too few classes": partial(Model, [[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0], ["a"]),
        "equal classes": partial(Model, [[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0], ["a", "a"]),
        "too few names": partial(Model, [[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0], None, ["f0"]),
        "equal names": partial(Model, [[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0], None, ["f0", "f0"]),
        "weights of two dimensions": partial(Model.binary, [[1.0, 2.0]], 0.0),
        "probabilities of scores": partial(model(2, 3, hard=True).predict_proba, x),
        "unknown class": partial(model(3, 3).class_index, "z"),
        "unknown feature": partial(model(3, 3).feature_index, "f9"),
        "feature number": partial(model(3, 3).feature_index, 7),
        "too few features": partial(model(3, 3).logits, [1.0, 2.0]),
    }


def _sources() -> Calls:
    frame = pd.DataFrame(X, columns=NAMES)
    shifted = Model([[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0], scaling=Scaling(np.ones(2), np.ones(2)))
    return {
        "too few features": two(x[:2]),
        "too many features, table": three(np.zeros((2, 4))),
        "three dimensions": two(X[None]),
        "a number": two(3.0),
        "words": two(["a", "b", "c"]),
        "complex": two(x + 1j),
        "dates": two(np.array(["2020-01-01"] * 3, dtype="datetime64[D]")),
        "None": two(None),
        "NaN": two([1.0, np.nan, 2.0]),
        "inf": three([1.0, 2.0, np.inf]),
        "NaN, limits": two([1.0, np.nan, 2.0], actions=Actions(frozen=["f0"])),
        "NaN, some limits": three([np.nan, 1.0, 2.0], cost=Cost(l1=0.1)),
        "too large": two([1e200, 1.0, 2.0]),
        "frame without a column": two(frame[["f0", "f1"]]),
        "frame with another column": two(frame.rename(columns={"f2": "g2"})),
        "frame with a column twice": two(frame[["f0", "f1", "f2", "f2"]]),
        "Series with another name": two(pd.Series(x, index=["f0", "f1", "g2"])),
        "CSR of another width": two(sparse.csr_array(np.zeros((2, 5)))),
        "CSR through a scaler that shifts": partial(invert, shifted, sparse.csr_array(np.eye(2)), 0),
    }


def _targets() -> Calls:
    return {
        "unknown": two(x, "maybe"),
        "unknown, table": three(X, "z"),
        "unknown number": three(x, 7),
        "unknown in a set": three(x, {"a", "z"}),
        "all in a set": three(x, {"a", "b", "c"}),
        "no set": three(x, set()),
        "opposite of three": three(x, "opposite"),
        "too few": three(X, ["a", "b"]),
        "too many": three(X, ["a", "b", "c", "a"]),
        "all among others": three(X, ["a", "all", "b"]),
        "many classes": partial(invert, model(30, 12), np.zeros(12), "x"),
        "too few, limits": three(X, ["a", "b"], cost=Cost(l1=0.1)),
        "unknown, limits": two(x, "maybe", actions=Actions(frozen=["f0"])),
    }


def _goals() -> Calls:
    calls: Calls = {
        "lam and prob": two(x, lam=1.0, prob=0.5),
        "lam and margin": two(x, lam=1.0, margin=0.5),
        "prob and margin": three(x, prob=0.5, margin=0.5),
        "all three": three(x, lam=1.0, prob=0.5, margin=0.5),
        "lam, word": two(x, lam="much"),
        "prob, word": two(x, prob="likely"),
        "margin, word": two(x, margin="wide"),
        "margin < 0": two(x, margin=-1.0),
        "margin = inf": three(x, margin=np.inf),
        "lam of many rows for one": two(x, lam=[0.1, 0.2]),
        "too few lam": two(X, lam=[0.1, 0.2]),
        "too few prob": three(X, prob=[0.1, 0.2]),
        "lam of two dimensions": two(X, lam=[[0.1, 0.2, 0.3]]),
        "one lam of many < 0": two(X, lam=[0.1, -0.2, 0.3]),
        "one prob of many = 1": three(X, prob=[0.1, 1.0, 0.3]),
        "too few lam, limits": two(X, lam=[0.1, 0.2], cost=Cost(l1=0.1)),
        "prob of scores": partial(invert, model(2, 3, hard=True), x, "yes", prob=0.5),
        "lam of scores": partial(invert, model(3, 3, hard=True), x, "a", lam=0.5),
    }
    for value in (0, -1.0, np.nan, np.inf, 1e-200, 1e200):
        calls[f"lam = {value}"] = two(x, lam=value)
        calls[f"lam = {value}, limits"] = three(x, lam=value, cost=Cost(l1=0.1))
    for value in (0, 1, -0.2, 1.5, np.nan):
        calls[f"prob = {value}"] = three(x, prob=value)
        calls[f"prob = {value}, limits"] = two(x, prob=value, actions=Actions(frozen=["f0"]))
    return calls


def _options() -> Calls:
    grid = {"actions": Actions(integer=["f0"], bounds=(-9, 9))}
    return {
        "tol = 0": two(x, lam=0.1, tol=0),
        "tol < 0": three(X, lam=0.1, tol=-1e-3),
        "max_iter = 0": three(x, lam=0.1, max_iter=0),
        "start with prob": three(x, prob=0.5, start="source"),
        "start with neither": three(x, start=x),
        "start with limits": three(x, lam=0.1, start="source", cost=Cost(l1=0.1)),
        "start, another word": three(X, lam=0.1, start="here"),
        "start of another width": three(x, lam=0.1, start=[1.0, 2.0]),
        "starts, too few": three(X, lam=0.1, start=X[:2]),
        "start not finite": three(X, lam=0.1, start=[np.nan, 0.0, 1.0]),
        "backend": three(X, backend="fast"),
        "threads = 0": three(X, backend="cpu", threads=0),
        "out of another shape": three(X, out=np.empty((2, 3))),
        "out of one dimension": three(X, out=np.empty(9)),
        "out of integers": three(X, out=np.empty((3, 3), dtype=int)),
        "out that is read-only": three(X, out=np.broadcast_to(0.0, (3, 3))),
        "out of another shape, limits": two(X, cost=Cost(l1=0.1), out=np.empty((3, 2))),
        "out too short for all": three(X, "all", out=np.empty((3, 3))),
        "max_changes < 0": two(x, max_changes=-1),
        "max_changes = 1.5": two(x, max_changes=1.5),
        "max_changes, word": three(x, max_changes="few"),
        "time_limit = 0": two(x, time_limit=0, **grid),
        "n = 0": two(x, n=0),
        "n = 1.5": three(x, n=1.5),
        "n for a table": two(X, n=2),
        "n for all": three(x, "all", n=2),
        "cost, a number": two(x, cost=2.0),
        "actions, a dict": two(x, actions={"frozen": ["f0"]}),
        "limits of very many classes": partial(_wide, actions=Actions(frozen=[0])),
    }


def _wide(**options: Any) -> Any:
    return invert(Model(np.zeros((5000, 2)), np.zeros(5000)), [1.0, 2.0], 0, **options)


def _costs() -> Calls:
    Q = np.eye(3)
    return {
        "unknown scale": partial(Cost, "size"),
        "scale and matrix": partial(Cost, scale=[1.0, 2.0, 3.0], matrix=Q),
        "matrix of words": partial(Cost, matrix="Q"),
        "matrix, not square": partial(Cost, matrix=np.ones((2, 3))),
        "matrix, not symmetric": partial(Cost, matrix=[[1.0, 0.5], [0.0, 1.0]]),
        "matrix, not definite": partial(Cost, matrix=[[1.0, 2.0], [2.0, 1.0]]),
        "matrix of another size": two(x, cost=Cost(matrix=np.eye(2))),
        "scale = 0": two(x, cost=Cost(scale={"f1": 0.0})),
        "scale < 0": three(x, cost=Cost(scale=[1.0, -1.0, 2.0])),
        "scale = inf": three(x, cost=Cost(scale=[1.0, np.inf, 2.0])),
        "too few scales": two(x, cost=Cost(scale=[1.0, 2.0])),
        "scale of words": two(x, cost=Cost(scale=["a", "b", "c"])),
        "scale of an unknown feature": two(x, cost=Cost(scale={"f7": 1.0})),
        "l1 < 0": two(x, cost=Cost(l1=-0.1)),
        "l1 of an unknown feature": three(x, cost=Cost(l1={"g0": 0.1})),
        "too many l1": three(x, cost=Cost(l1=[0.1, 0.2, 0.3, 0.4])),
        "std without data": two(x, cost=Cost("std")),
        "fit of raw": partial(Cost("raw").fit, X),
        "fit to one row": partial(Cost("std").fit, X[:1]),
        "fit to words": partial(Cost("mad").fit, pd.DataFrame({"a": ["b", "c"]})),
        "mahalanobis of one row": partial(Cost.mahalanobis, X[:1]),
        "mahalanobis, singular": partial(Cost.mahalanobis, np.ones((5, 3))),
    }


def _actions() -> Calls:
    def limited(**actions: Any) -> Callable[[], Any]:
        return two(x, actions=Actions(**actions))

    return {
        "frozen, unknown": limited(frozen=["f7"]),
        "frozen, nearly": limited(frozen=["F1"]),
        "frozen, number too large": limited(frozen=[3]),
        "frozen, number < 0": limited(frozen=[-1]),
        "frozen, a float": limited(frozen=2.5),
        "frozen, no names": partial(invert, model(2, 3, names=False), x, "yes", actions=Actions(frozen=["f0"])),
        "bounds, unknown": limited(bounds={"g": (0, 1)}),
        "bounds, no pair": limited(bounds={"f0": 3}),
        "bounds, three": limited(bounds={"f0": (0, 1, 2)}),
        "bounds, words": limited(bounds={"f0": ("low", "high")}),
        "bounds, turned": limited(bounds={"f1": (2, 1)}),
        "bounds for all, turned": limited(bounds=(1, 0)),
        "increase, unknown": limited(increase=["f9"]),
        "decrease, unknown": limited(decrease="f9"),
        "integer, unknown": limited(integer=["f9"]),
        "step = 0": limited(step={"f0": 0}),
        "step < 0": limited(step={"f0": -1.0}),
        "step, word": limited(step={"f0": "half"}),
        "step and integer": limited(step={"f0": 0.5}, integer=["f0"]),
        "one_of, one column": limited(one_of=[["f0"]]),
        "one_of twice": limited(one_of=[["f0", "f1"], ["f1", "f2"]]),
        "one_of, unknown": limited(one_of=[["f0", "g1"]]),
        "rule, two parts": limited(linear=[({"f0": 1.0}, "<=")]),
        "rule, sense": limited(linear=[({"f0": 1.0}, "<", 1.0)]),
        "rule, no mapping": limited(linear=[(["f0"], "<=", 1.0)]),
        "rule, unknown": limited(linear=[({"g0": 1.0}, "<=", 1.0)]),
        "rule, zero": limited(linear=[({"f0": 0.0}, "<=", 1.0)]),
        "rule, not finite": limited(linear=[({"f0": 1.0}, "<=", np.inf)]),
        "rule, word": limited(linear=[({"f0": 1.0}, "<=", "much")]),
    }


def _contradictions() -> Calls:
    y = np.array([1.0, 0.0, 5.0])
    return {
        f"{name}/K={K}": partial(invert, model(K, 3), y, None, actions=actions)
        for K in (2, 3)
        for name, actions in {
            "frozen outside": Actions(frozen=["f2"], bounds={"f2": (0, 2)}),
            "may only rise": Actions(increase=["f2"], bounds={"f2": (0, 2)}),
            "may only fall": Actions(decrease=["f1"], bounds={"f1": (1, 2)}),
            "no whole number": Actions(integer=["f0"], bounds={"f0": (0.2, 0.8)}),
            "no multiple": Actions(step={"f0": 0.5}, bounds={"f0": (0.1, 0.4)}),
            "not one-hot": Actions(one_of=[["f0", "f2"]]),
            "no choice": Actions(one_of=[["f0", "f1"]], bounds={"f0": (0, 0), "f1": (0, 0)}),
            "rules": Actions(linear=[({"f0": 1.0}, "<=", 0.0), ({"f0": 1.0}, ">=", 1.0)]),
            "rule and bounds": Actions(bounds=(0, 1), linear=[({"f0": 1.0, "f1": 1.0}, ">=", 5.0)]),
            "rule and frozen": Actions(frozen=True, linear=[({"f0": 1.0}, ">=", 5.0)]),
        }.items()
    }


def _together() -> Calls:
    several = {"a", "b"}
    return {
        "one class": three(x, "a", joint=True),
        "a table": three(X, several, joint=True),
        "None": three(x, None, joint=True),
        "actions": three(x, several, joint=True, actions=Actions(frozen=["f0"])),
        "max_changes": three(x, several, joint=True, max_changes=1),
        "margin": three(x, several, joint=True, margin=1.0),
        "n": three(x, several, joint=True, n=2),
        "tol": three(x, several, joint=True, lam=0.1, tol=1e-3),
        "out": three(x, several, joint=True, out=np.empty((1, 3))),
        "all classes": three(x, {"a", "b", "c"}, joint=True),
    }


def _paths() -> Calls:
    along = partial(path, model(3, 3))
    found = partial(along, x, "a", lams=[1.0, 0.1])
    return {
        "a table": partial(along, X, "a"),
        "all": partial(along, x, "all"),
        "unknown target": partial(along, x, "z"),
        "lams, none": partial(along, x, "a", lams=[]),
        "lams, negative": partial(along, x, "a", lams=[1.0, -1.0]),
        "lams, word": partial(along, x, "a", lams="many"),
        "lams, not finite": partial(along, x, "a", lams=[np.nan]),
        "not finite": partial(along, [np.nan, 1.0, 2.0], "a"),
        "scores": partial(path, model(3, 3, hard=True), x, "a"),
        "tol = 0": partial(along, x, "a", tol=0.0),
        "max_iter = 0": partial(along, x, "a", max_iter=0),
        "at_lam = 0": lambda: found().at_lam(0.0),
        "at_lam = inf": lambda: found().at_lam(np.inf),
        "at_prob = 1": lambda: found().at_prob(1.0),
        "at_prob = 0": lambda: found().at_prob(0.0),
        "max_changes < 0": partial(along, x, "a", max_changes=-1),
    }


def _pipelines() -> Calls:
    rows = people().iloc[20:23]
    mixed = ["age", "income", "debt", "job", "city"]

    def words(row: Any = None, **options: Any) -> Callable[[], Any]:
        return lambda: invert(fitted("words", 2), rows[mixed].iloc[0] if row is None else row, "yes", **options)

    changed = rows[mixed].astype(object)
    changed.iloc[0, 3] = "pirate"
    numbers = rows[mixed].astype(object)
    numbers.iloc[0, 1] = "much"
    scaled = ["age", "income", "debt"]
    return {
        "a column is missing": words(rows[["age", "income"]]),
        "a dict without a column": words({"age": 30}),
        "an unknown category": words(changed.iloc[0]),
        "a word for a number": words(numbers.iloc[0]),
        "an array of another width": words(rows[scaled].to_numpy()),
        "bounds of a category": words(actions=Actions(bounds={"job": (0, 1)})),
        "a category may rise": words(actions=Actions(increase=["job"])),
        "a whole category": words(actions=Actions(integer=["job"])),
        "a rule about a category": words(actions=Actions(linear=[({"job": 1.0}, "<=", 1.0)])),
        "an unknown column": words(actions=Actions(frozen=["salary"])),
        "nearly a column": words(actions=Actions(frozen=["incom"])),
        "bounds of an ordinal": lambda: invert(
            fitted("ordinal", 2), rows[[*scaled, "grade"]].iloc[0], "yes", actions=Actions(bounds={"grade": ("low", "top")})
        ),
        "a rule about a bent number": lambda: invert(
            fitted("power", 2),
            rows[["income", "debt", "age"]].iloc[0],
            "yes",
            actions=Actions(linear=[({"income": 1.0}, "<=", 1.0)]),
        ),
        "a missing value": lambda: invert(fitted("scaled", 2), [30.0, np.nan, 1.0], "yes"),
        "not fitted": lambda: invert(make_pipeline(StandardScaler(), LogisticRegression()), x, "yes"),
        "explainer, no y": lambda: CounterfactualExplainer(LogisticRegression()).fit(X),
        "explainer, one row": lambda: CounterfactualExplainer(fitted("scaled", 2)).fit(rows[scaled]).explain([1.0, 2.0, 3.0]),
        "explainer, out of reach": lambda: (
            CounterfactualExplainer(fitted("scaled", 2), target="yes", prob=0.9, actions=Actions(frozen=True))
            .fit(rows[scaled])
            .transform(rows[scaled])
        ),
    }


def _estimators() -> Calls:
    y = np.array([0, 1, 2] * 4)
    data = sources(12, 3, "estimators")

    def read(*steps: Any) -> Callable[[], Any]:
        return lambda: as_model(make_pipeline(*steps).fit(data, y))

    return {
        "a number": partial(as_model, 3),
        "a word": partial(as_model, "model"),
        "None": partial(as_model, None),
        "a forest": lambda: as_model(RandomForestClassifier(2, random_state=0).fit(data, y)),
        "one against the rest": lambda: as_model(OneVsRestClassifier(LogisticRegression()).fit(data, y)),
        "polynomials": read(PolynomialFeatures(), LogisticRegression(max_iter=5000)),
        "rows divided by their norm": read(Normalizer(), LogisticRegression()),
        "a scaler alone": lambda: as_model(StandardScaler().fit(data)),
        "not fitted": lambda: as_model(LogisticRegression()),
    }


FAMILIES = (refusals,)
