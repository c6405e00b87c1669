"""Random fitted pipelines and questions, and what is wrong with the answers, for whoever has the pipeline and nothing else."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import ifonly
from ifonly import Actions, CertificateError, Counterfactual, InputError, Status

ROWS = 150
QUESTIONS = 3
SECONDS = 5.0


@dataclass
class Case:
    """A pipeline, one of its rows, and a question."""

    name: str
    pipeline: Any
    row: Any  # a row of a frame, or of an array
    target: int
    prob: float
    actions: dict[str, Any]
    max_changes: int | None

    def __str__(self) -> str:
        asked = f"target={self.target}, prob={self.prob}, actions={self.actions}, max_changes={self.max_changes}"
        return f"{self.name}: {self.pipeline}\n{self.row!r}\n{asked}"

    @cached_property
    def answer(self) -> Counterfactual:
        """The library's."""
        limits = {"max_changes": self.max_changes, "actions": Actions(**self.actions) if self.actions else None}
        search = {"time_limit": SECONDS} if self.actions or self.max_changes else {}
        return ifonly.invert(self.pipeline, self.row, self.target, prob=self.prob, **limits, **search)

    @property
    def ended(self) -> str:
        """How the library's answer ended, or that there is none."""
        return "refused, as by the pipeline" if self.untaken else self.answer.status.name

    @cached_property
    def untaken(self) -> bool:
        """Whether the pipeline itself does not take the row, or a bound in it, as the numbers that they are.

        One that was fitted to float32 takes its own smallest number as such, and not as the same number in float64: a scaler
        makes it a rounding less than 0, and a root of that is none.
        """
        table = pd.DataFrame([self.row]) if isinstance(self.row, pd.Series) else pd.DataFrame(np.asarray(self.row)[None])
        whole = table.astype(dict.fromkeys(table.columns.drop("cat", errors="ignore"), float))
        ends = [(d, v) for d, pair in self.actions.get("bounds", {}).items() for v in pair]
        rows = [whole, *(whole.copy() for _ in ends)]
        for row, (d, v) in zip(rows[1:], ends, strict=True):
            row[d] = v
        try:
            for row in rows:
                self.pipeline.predict_proba(row if isinstance(self.row, pd.Series) else row.to_numpy())
        except ValueError:
            return True
        return False

    def wrong(self) -> list[str]:
        """What is wrong with the answer."""
        try:
            cf = self.answer
        except InputError as error:
            return [] if self.untaken else [f"refused: {error}"]
        x = cf.x
        if pd.isna(np.asarray(x, dtype=object)).any():
            return [f"no answer, and {cf.status.name}"]
        table = pd.DataFrame([x]) if isinstance(x, pd.Series) else np.asarray(x)[None]
        try:
            p = float(self.pipeline.predict_proba(table)[0, self.target])
        except ValueError as error:
            return [f"{cf.status.name}, and the pipeline does not take it: {error}"]
        found = []
        if (cf.status is not Status.UNREACHABLE) != (p >= self.prob):  # what stopped has the best plan so far
            found.append(f"{cf.status.name}, and p = {p!r} for {self.prob!r}")
        try:
            cf.verify()
        except CertificateError as error:
            found.append(f"not verified: {error}")
        return found + self._broken(x)

    def _broken(self, x: Any) -> list[str]:
        """Limits that are broken, in the user's own numbers."""
        before, after = ({**dict(enumerate(v)), **(v if isinstance(v, pd.Series) else {})} for v in (self.row, x))
        found = [f"{name} is frozen" for name in self.actions.get("frozen", []) if after[name] != before[name]]
        found += [f"{name} falls" for name in self.actions.get("increase", []) if not after[name] >= before[name]]
        found += [f"{name} is not whole" for name in self.actions.get("integer", []) if after[name] != round(after[name])]
        bounds = self.actions.get("bounds", {})
        found += [f"{name} is not within {ends}" for name, ends in bounds.items() if not ends[0] <= after[name] <= ends[1]]
        moved = sum(after[i] != before[i] for i in range(len(self.row)))
        return found + ([f"{moved} changes"] if moved > (self.max_changes or len(self.row)) else [])


def cases(number: int, seed: int = 0) -> Iterator[Case]:
    """Some questions to one pipeline; none where its steps do not take the data."""
    rng = np.random.default_rng([seed, number, 16])
    D, K, kind = int(rng.integers(1, 5)), int(rng.integers(2, 5)), ["positive", "any", "whole"][rng.integers(3)]
    X = _numbers(rng, kind, D).astype(rng.choice([np.float32, np.float64]))
    y = ((X - X.mean(0)) / X.std(0) @ rng.normal(size=(D, K)) + 0.5 * rng.normal(size=(ROWS, K))).argmax(axis=1)
    if len(set(y)) < K:
        return
    classifier = [LogisticRegression(C=float(10 ** rng.uniform(-2, 2))), LinearDiscriminantAnalysis()][rng.integers(2)]
    steps, names = _steps(rng, kind), list(range(D))
    rows = X
    if rng.random() < 0.5:
        names = [f"c{i}" for i in range(D)]
        rows = pd.DataFrame(X, columns=names).assign(cat=rng.choice(["a", "b", "c"], ROWS))
        hot = OneHotEncoder(drop=[None, "first"][rng.integers(2)])
        steps = [ColumnTransformer([("numbers", make_pipeline(*steps), names), ("cat", hot, ["cat"])])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipeline = make_pipeline(*steps, classifier).fit(rows, y)
        except ValueError:  # a step gave numbers that the next one does not take
            return
    for i in range(QUESTIONS):
        actions, max_changes = _limits(rng, X, names, whole=kind == "whole")
        row = rows.iloc[i] if isinstance(rows, pd.DataFrame) else rows[i]
        prob = float(np.round(rng.uniform(0.2, 0.97), 3))
        name = f"pipeline {number}, row {i} (seed {seed})"
        yield Case(name, pipeline, row, int(rng.integers(K)), prob, actions, max_changes)


def _numbers(rng: np.random.Generator, kind: str, D: int) -> Any:
    if kind == "positive":
        return np.exp(rng.normal(size=(ROWS, D)) * rng.choice([0.5, 1, 2]))
    return rng.normal(size=(ROWS, D)) * rng.choice([1, 100]) if kind == "any" else rng.integers(0, 20, size=(ROWS, D))


def _steps(rng: np.random.Generator, kind: str) -> list[Any]:
    quantiles = QuantileTransformer(
        n_quantiles=int(rng.integers(3, 50)), output_distribution=["uniform", "normal"][rng.integers(2)]
    )
    every = [PowerTransformer(), quantiles, StandardScaler(), MinMaxScaler(), RobustScaler(), MaxAbsScaler(), SimpleImputer()]
    every.append(FunctionTransformer(np.cbrt))
    every += [FunctionTransformer(np.log1p), FunctionTransformer(np.sqrt)] if kind != "any" else []
    every += [PowerTransformer(method="box-cox")] if kind == "positive" else []
    chosen = [every[i] for i in rng.permutation(len(every))[: rng.integers(1, 4)]]
    return sorted(chosen, key=lambda step: not isinstance(step, SimpleImputer))  # else it fills in what a map has no number for


def _limits(rng: np.random.Generator, X: Any, names: list[Any], *, whole: bool) -> tuple[dict[str, Any], int | None]:
    D = len(names)
    max_changes = int(rng.integers(1, D + 1)) if rng.random() < 0.4 else None
    actions = {key: [names[rng.integers(D)]] for key in ("frozen", "increase") if rng.random() < 0.3}
    if whole and rng.random() < 0.3:
        actions["integer"] = [names[rng.integers(D)]]
    if rng.random() < 0.3:
        j = int(rng.integers(D))
        actions["bounds"] = {names[j]: (float(X[:, j].min()), float(X[:, j].max()))}
    return actions, max_changes
