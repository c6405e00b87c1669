"""Estimators of scikit-learn and their tables: scalers, categories, missing values, bent numbers, documents, scores.

What an optimiser fits differs in its last digits from machine to machine. So estimators are fitted for their shape alone, and
their numbers are then replaced by seeded, rounded ones (`settled`).
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from ifonly import Actions, Cost, CounterfactualExplainer, as_model, invert, path
from tests.golden.models import rng_of
from tests.golden.questions import Question

__all__ = ["FAMILIES"]

NUMBERS, WORDS = ["age", "income", "debt"], ["job", "city"]
COLUMNS = {
    "words": NUMBERS + WORDS,
    "words, one dropped": NUMBERS + WORDS,
    "words, unknown": NUMBERS + WORDS,
    "words, scores": NUMBERS + WORDS,
    "yes and no": [*NUMBERS, "owner"],
    "ordinal": [*NUMBERS, "grade"],
    "missing": [*NUMBERS, "job"],
    "logged": ["income", "age", "job"],
    "power": ["income", "debt", "age"],
    "quantiles": ["income", "age"],
}
DOCUMENTS = [
    "lovely warm room with a view",
    "cold dull room",
    "lovely view and kind staff",
    "dull view and a cold bed",
    "warm bed and fine table",
    "a cold rude and broken place",
    "the red door and the blue door",
    "one two three red doors",
]


def people(n: int = 60) -> pd.DataFrame:
    """Customers: whole numbers, numbers, yes and no, words, and an order of words."""
    rng = rng_of("people", n)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 70, n),
            "income": (1500 + 3000 * rng.random(n)).round(1),
            "debt": (900 * rng.random(n)).round(1),
            "job": rng.choice(["clerk", "cook", "nurse"], n),
            "city": rng.choice(["Bonn", "Kiel", "Ulm"], n),
            "owner": rng.random(n) < 0.4,
            "grade": rng.choice(["low", "middle", "high"], n),
        },
        index=[f"p{i}" for i in range(n)],
    )


def labels_of(n: int, K: int) -> np.ndarray:
    """Some label for each row."""
    return np.array(["no", "yes"] if K == 2 else ["low", "middle", "high", "top"][:K])[np.arange(n) % K]


ROUNDED = ("mean_", "scale_", "var_", "lambdas_", "quantiles_", "min_", "statistics_")


def settled(estimator: Any, K: int, size: float = 1.0) -> Any:
    """The fitted estimator with rounded statistics and seeded weights."""
    steps = [step for _, step in estimator.steps]
    while steps:
        step = steps.pop()
        steps += [inner for _, inner in getattr(step, "steps", ())]
        steps += [inner for _, inner, _ in getattr(step, "transformers_", ()) if not isinstance(inner, str)]
        for name in ROUNDED if not isinstance(step, PCA) else ():
            value = getattr(step, name, None)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                setattr(step, name, value.round(2) + (name == "scale_") * 0.01)
        if isinstance(step, PCA):
            turned, _ = np.linalg.qr(rng_of("axes").normal(size=(step.n_features_in_, step.n_features_in_)))
            step.components_, step.mean_ = turned[: step.n_components].round(3), step.mean_.round(1)
    last = estimator[-1]
    if hasattr(last, "coef_"):
        rng = rng_of("weights", K, last.coef_.shape)
        last.coef_ = (size * rng.normal(size=last.coef_.shape)).round(2)
        last.intercept_ = rng.normal(size=last.intercept_.shape).round(2)
    return estimator


@cache
def fitted(name: str, K: int) -> Any:
    """A fitted pipeline by name."""
    frame = people()
    y = labels_of(len(frame), K)
    end = LogisticRegression(max_iter=1000)
    scaled = (StandardScaler(), NUMBERS)
    hot = (OneHotEncoder(), WORDS)
    missing = frame.copy()
    missing.loc[missing.index[::9], "debt"] = np.nan
    missing.loc[missing.index[4::11], "job"] = None
    filled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    filled_words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    logged = make_pipeline(FunctionTransformer(np.log1p), StandardScaler())
    power = make_pipeline(PowerTransformer(standardize=False), StandardScaler())
    order = OrdinalEncoder(categories=[["low", "middle", "high"]])
    quantiles = QuantileTransformer(n_quantiles=9)
    steps: dict[str, list[Any]] = {
        "scaled": [StandardScaler(), end],
        "range": [MinMaxScaler(), end],
        "axes": [StandardScaler(), PCA(2), end],
        "scores": [StandardScaler(), LinearSVC()],
        "words": [make_column_transformer(scaled, hot), end],
        "words, one dropped": [make_column_transformer(scaled, (OneHotEncoder(drop="first"), WORDS)), end],
        "words, unknown": [make_column_transformer(scaled, (OneHotEncoder(handle_unknown="ignore"), WORDS)), end],
        "words, scores": [make_column_transformer(scaled, hot), LinearSVC()],
        "yes and no": [make_column_transformer(scaled, ("passthrough", ["owner"])), end],
        "ordinal": [make_column_transformer(scaled, (order, ["grade"])), end],
        "missing": [make_column_transformer((filled, NUMBERS), (filled_words, ["job"])), end],
        "logged": [make_column_transformer((logged, ["income"]), (StandardScaler(), ["age"]), (OneHotEncoder(), ["job"])), end],
        "power": [make_column_transformer((power, ["income", "debt"]), (StandardScaler(), ["age"])), end],
        "quantiles": [make_column_transformer((quantiles, ["income"]), (StandardScaler(), ["age"])), end],
    }
    table = (missing if name == "missing" else frame)[COLUMNS.get(name, NUMBERS)]
    return settled(make_pipeline(*steps[name]).fit(table, y), K)


@cache
def documents(name: str, K: int) -> Any:
    """A fitted pipeline that reads text."""
    steps = {"tf-idf": [TfidfVectorizer(), LogisticRegression()], "counts": [CountVectorizer(), LogisticRegression()]}
    steps["counts, Bayes"] = [CountVectorizer(), MultinomialNB()]
    return settled(make_pipeline(*steps[name]).fit(DOCUMENTS, labels_of(len(DOCUMENTS), K)), K, size=4.0)


PLAIN = {  # pipelines over numbers only: how rows are given
    "frame": lambda frame: frame[NUMBERS],
    "row": lambda frame: frame[NUMBERS].iloc[1],
    "array": lambda frame: frame[NUMBERS].to_numpy(),
    "list": lambda frame: frame[NUMBERS].iloc[0].tolist(),
}
MIXED = {  # pipelines over columns of all kinds
    "frame": lambda frame: frame,
    "frame, other order": lambda frame: frame[frame.columns[::-1]],
    "frame of one row": lambda frame: frame.iloc[[2]],
    "row": lambda frame: frame.iloc[1],
    "dict": lambda frame: frame.iloc[0].to_dict(),
    "list of dicts": lambda frame: [row.to_dict() for _, row in frame.iterrows()],
    "objects": lambda frame: frame.to_numpy(dtype=object),
    "iterator of frames": lambda frame: iter([frame.iloc[:1], frame.iloc[1:]]),
    "category": lambda frame: frame.astype(dict.fromkeys(set(WORDS) & set(frame.columns), "category")),
}
LIMITS: dict[str, dict[str, Any]] = {
    "none": {},
    "frozen": {"actions": Actions(frozen=["age"])},
    "whole": {"actions": Actions(integer=["age"], frozen=["job"], bounds={"age": (18, 75), "income": (0, 9000)})},
    "few": {"max_changes": 2},
    "rise": {"actions": Actions(increase=["income"], decrease=["age"])},
    "price": {"cost": Cost({"age": 2.0, "income": 0.5})},
    "l1": {"cost": Cost(l1=0.1), "actions": Actions(frozen=["age"])},
}
GOALS: dict[str, dict[str, float]] = {"prob=0.7": {"prob": 0.7}, "lam=0.3": {"lam": 0.3}, "default": {}}


def _polars(frame: pd.DataFrame) -> Any:
    import polars as pl

    cells = {str(name): frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame.columns}
    return pl.DataFrame(cells)


def _asked(make: Callable[[], Any], given: Callable[[pd.DataFrame], Any], rows: pd.DataFrame, target: Any, options: Any) -> Any:
    return invert(make(), given(rows), target, **options)


def limits_for(name: str, limit: str) -> dict[str, Any]:
    """The limit, without columns that this pipeline has not."""
    settings = dict(LIMITS[limit])
    columns = COLUMNS.get(name, NUMBERS)
    if limit == "whole" and "job" not in columns:
        settings["actions"] = Actions(integer=["age"], bounds={"age": (18, 75), "income": (0, 9000)})
    return settings


def pipelines() -> Iterator[Question]:
    """Tables of every kind through pipelines of every kind."""
    some = people().iloc[20:23]
    for name in ("scaled", "range", "axes"):
        for K in (2, 3):
            for i, (kind, given) in enumerate(PLAIN.items()):
                target = ["yes", None][i % 2] if K == 2 else ["high", None, {"low", "high"}, "other"][i]
                for goal, asked in GOALS.items():
                    ask = partial(_asked, partial(fitted, name, K), given, some, target, asked)
                    yield Question(f"pipelines/{name}/K={K}/{kind}/{goal}", ask)
        for limit in ("frozen", "rise", "price", "l1", "few"):
            ask = partial(_asked, partial(fitted, name, 2), PLAIN["frame"], some, None, {**LIMITS[limit], "prob": 0.8})
            yield Question(f"pipelines/{name}/limits/{limit}", ask, "grid")
    for name, columns in COLUMNS.items():
        rows = some[columns].copy()
        if name == "missing":
            rows.iloc[0, 2], rows.iloc[1, 3] = np.nan, None
        goals = ["default"] if "scores" in name else list(GOALS)
        for K in (2, 3):  # with three classes whole numbers take longer: fewer of them
            make, table = partial(fitted, name, K), rows if K == 2 else rows.iloc[:2]
            for i, (kind, given) in enumerate(MIXED.items()):
                target = [None, "yes" if K == 2 else "high"][i % 2]
                goal = goals[(i + K) % len(goals)]
                if K == 2 or (kind in ("row", "dict", "frame") and name not in ("words, unknown", "words, scores")):
                    ask = partial(_asked, make, given, table, target, GOALS[goal])
                    yield Question(f"pipelines/{name}/K={K}/{kind}/{goal}", ask, "grid")
            ask = partial(_asked, make, _polars, table, None, {})
            yield Question(f"pipelines/{name}/K={K}/polars", ask, "grid", "polars")
            for limit in LIMITS if K == 2 else ("whole",) if "words" in name else ("frozen", "whole", "price"):
                goal = {"margin": 0.3} if "scores" in name else {"prob": 0.75}
                ask = partial(_asked, make, MIXED["frame"], table.iloc[: 5 - K], None, {**limits_for(name, limit), **goal})
                yield Question(f"pipelines/{name}/K={K}/limits/{limit}", ask, "grid")
    for K in (2, 3):
        for limit in ("none", "price", "frozen"):
            for goal in ({"margin": 0.0}, {"margin": 0.5}, {}):
                ask = partial(_asked, partial(fitted, "scores", K), PLAIN["frame"], some, None, {**LIMITS[limit], **goal})
                yield Question(f"pipelines/scores/K={K}/{limit}/{goal.get('margin', 'default')}", ask)


def texts() -> Iterator[Question]:
    """Documents, one or several."""
    unseen = ["a lovely cold room with a view", "dull and rude staff", "two red beds"]
    limits: dict[str, dict[str, Any]] = {"none": {}, "removals": {"actions": Actions(decrease=True)}}
    limits |= {"few": {"max_changes": 2}, "l1": {"cost": Cost(l1=0.05)}}
    for name in ("tf-idf", "counts", "counts, Bayes"):
        for K in (2, 3):
            for limit, settings in limits.items():
                like = "grid" if limit == "few" else "exact"
                if limit == "few" and name == "counts, Bayes":
                    continue  # words that are worth the same: which of them move is nobody's to say
                for goal, asked in GOALS.items():
                    if limit == "few" and K == 3 and name != "tf-idf":
                        continue  # a second each
                    one = partial(_text, name, K, unseen[0], settings, asked)
                    yield Question(f"texts/{name}/K={K}/{limit}/{goal}/one", one, like)
                many = partial(_text, name, K, unseen if limit != "few" else unseen[:1], settings, {"prob": 0.6})
                yield Question(f"texts/{name}/K={K}/{limit}/table", many, like)


def _text(name: str, K: int, x: Any, settings: dict[str, Any], asked: dict[str, float]) -> Any:
    return invert(documents(name, K), x, None, **settings, **asked)


def readers() -> Iterator[Question]:
    """What `as_model` reads of an estimator: classes, features, probabilities or scores."""
    some = people().iloc[20:24]
    for name in ("scaled", "range", "axes", "scores", *COLUMNS):
        rows = some[COLUMNS.get(name, NUMBERS)]
        for K in (2, 3):
            yield Question(f"readers/{name}/K={K}", partial(_read, partial(fitted, name, K), rows))
            if name in ("scaled", "words", "power"):
                yield Question(f"readers/{name}/K={K}/path", partial(_path, partial(fitted, name, K), rows.iloc[0]))
    for name in ("tf-idf", "counts", "counts, Bayes"):
        yield Question(f"readers/{name}", partial(_read, partial(documents, name, 3), DOCUMENTS[:4]))
    yield Question("readers/torch layer", _layer, needs="torch")
    yield Question("readers/torch layers", partial(_layer, several=True), needs="torch")


def _read(make: Callable[[], Any], rows: Any) -> Any:
    found = as_model(make())
    sizes = {"classes": found.classes.tolist(), "features": list(found.feature_names or ()), "hard": found.hard}
    values = found.logits(rows) if found.hard else found.predict_proba(rows)
    return {**sizes, "repr": repr(found), "values": values, "predicted": found.predict(rows).tolist()}


def _path(make: Callable[[], Any], row: Any) -> Any:
    return path(make(), row, None, lams=[10.0, 1.0, 0.1])


def _layer(*, several: bool = False) -> Any:
    import torch

    rng = rng_of("layer")
    layer = torch.nn.Linear(5, 3, dtype=torch.float64)
    with torch.no_grad():
        layer.weight[:] = torch.tensor(rng.normal(size=(3, 5)).round(3))
        layer.bias[:] = torch.tensor(rng.normal(size=3).round(3))
    x = torch.tensor(rng.normal(size=5).round(3))
    net = torch.nn.Sequential(layer, torch.nn.Softmax(dim=-1)) if several else layer
    return {"one": invert(net, x, 1, prob=0.8), "table": invert(net, torch.stack([x, -x]), None, lam=0.1)}


def explainer() -> Iterator[Question]:
    """The questions as an estimator of scikit-learn's."""
    for name, limit, goal in (
        ("scaled", "none", {"prob": 0.8}),
        ("scaled", "frozen", {"lam": 0.2}),
        ("scaled", "rise", {}),
        ("words", "none", {"prob": 0.6}),
        ("words", "frozen", {}),
        ("scores", "none", {"margin": 0.4}),
        ("power", "few", {"prob": 0.7}),
    ):
        at = f"explainer/{name}/{limit}/{next(iter(goal), 'default')}"
        yield Question(at, partial(_explained, name, limit, goal), "grid")
    yield Question("explainer/fitted cost", _fitted_cost)
    yield Question("explainer/another target", partial(_explained, "scaled", "none", {"prob": 0.6}, target="no"))


def _explained(name: str, limit: str, goal: dict[str, float], target: Any = None) -> Any:
    rows = people().iloc[20:23][COLUMNS.get(name, NUMBERS)]
    found = CounterfactualExplainer(fitted(name, 2), target="yes", **goal, **LIMITS[limit]).fit(rows)
    return {"explained": found.explain(rows, target), "transformed": found.transform(rows), "classes": found.classes_.tolist()}


def _fitted_cost() -> Any:
    rows = people()[NUMBERS]
    found = CounterfactualExplainer(fitted("scaled", 3), cost=Cost("std")).fit(rows)
    return found.explain(rows.iloc[:3])


FAMILIES = (pipelines, texts, readers, explainer)
