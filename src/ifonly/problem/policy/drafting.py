"""A first policy, from a model and its data: to be read and edited by whoever decides."""

import re
from typing import Any

import numpy as np

from ifonly.model import Model
from ifonly.model.columns import Column
from ifonly.model.numerics import Floats
from ifonly.model.tables import is_missing
from ifonly.problem.policy.house import Policy
from ifonly.problem.policy.said import CHOICES, Feature, toml_key, toml_value, written

__all__ = ["draft", "drafted_text"]

# What laws and decency protect, as columns are usually called in English, German, French and Spanish.
PROTECTED = re.compile(
    r"(?:^|[^a-z])(?:age|alter|edad|birth\w*|dob|geburt\w*|naissance|sex|gender|geschlecht|sexe|sexo|genero|"
    r"race|racial|ethnic\w*|ethnie|raza|colou?r|nationality|nationalit\w*|nacionalidad|citizen\w*|foreign\w*|immigra\w*|"
    r"marital\w*|married|marriage|civil_?status|familienstand|estado_?civil|personal_?status|status_?sex|"
    r"religion\w*|religious|creed|faith|disab\w*|handicap\w*|pregnan\w*|orientation|union|political\w*|genetic\w*|"
    r"dependents|children|veteran\w*)(?:$|[^a-z])",
    re.IGNORECASE,
)
# What values of a category give a protected one away, whatever it is called.
TELLING = re.compile(
    r"\b(?:male|female|man|woman|men|women|married|single|divorced|widow(?:ed|er)?|separated)\b", re.IGNORECASE
)
REASON = "This is not something that we ask anyone to change."
HEAD = """A policy: what may change, what things are called, which decision is wanted.
Drafted from the data. Read every line, and change what is not right: the ranges are only what the data show.
What stands here cannot be undone by a request or on a page; limits given besides are added to these."""
ABOUT_HOUSE = """Who decides, for letters; and their language: en, de, fr or es.
decimal = "," and group = "." are the marks in numbers; without them they are as in English."""
ABOUT_FEATURES = """One table for each column. What can stand there besides what does:
  unit = "EUR"             beside the number, wherever people read it
  description = "…"        for the page
  frozen = true            it stays as it is
  low, high                its bounds
  only = "increase"        or "decrease": the one direction in which it may move
  integer = true           whole numbers
  step = 50                multiples of 50
  never = ["unknown"]      values of a category that no answer chooses
  cost = 2.0               what a unit costs (of a category: a switch)
  reason = "…"             why it may not change, for people"""


def draft(model: Model, X: Any, target: Any = None) -> Policy:
    """A policy for a model, from rows as it takes them: ranges, whole numbers, categories, and what looks protected, frozen."""
    names = [column.name for column in model.columns]
    seen = X if model.encoding.columns else dict(zip(names, np.asarray(X, dtype=np.float64).T, strict=True))
    features = {column.name: _feature(column, np.asarray(seen[column.name])) for column in model.columns}
    return Policy(
        target=target,
        prob=None if model.hard or target is None else 0.5,
        may_choose=("prob",),
        features=features,
        classes={str(label): str(label) for label in model.classes.tolist()},
    )


def is_protected(name: str, levels: Any = ()) -> bool:
    """Whether a column looks like one that nobody should be asked to change."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return bool(PROTECTED.search(apart)) or any(TELLING.search(str(level)) for level in levels)


def _feature(column: Column, seen: Any) -> Feature:
    told: dict[str, Any] = {"name": re.sub(r"[_\s]+", " ", column.name).strip()}
    levels = [] if column.numeric else [level for level in column.levels if not is_missing(level)]
    if is_protected(column.name, levels):
        told |= {"frozen": True, "reason": REASON}
    if levels:
        told["values"] = {str(level): str(level) for level in levels}
    elif column.kind == "number" and "frozen" not in told:  # of one that is frozen no range: no row may be outside
        numbers: Floats = np.asarray(seen, dtype=np.float64)
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers):
            whole = bool((numbers == np.rint(numbers)).all())
            end = int if whole else float
            told |= {"low": end(numbers.min()), "high": end(numbers.max()), "integer": whole}
    return Feature(**told)


def drafted_text(policy: Policy, model: Model) -> str:
    """A draft as TOML, with comments that say what there is to decide."""
    told = {"house": "", "language": "en", **policy.to_dict(), "may_choose": list(policy.may_choose)}
    top = ("version", "house", "language", "target", "prob", "may_choose", "classes", "features")
    notes: dict[tuple[str, ...], str] = {
        ("house",): ABOUT_HOUSE,
        ("may_choose",): f"What a request may choose itself, of {', '.join(CHOICES)}; all else is fixed by this file.",
        ("classes",): "What people call the decisions.",
        ("features",): ABOUT_FEATURES,
    }
    if policy.target is None:
        labels = [str(label) for label in model.classes.tolist()]
        names = " or ".join(toml_value(label) for label in labels[:5])
        notes["may_choose",] = (
            f"The wanted decision, and the probability to reach:\ntarget = {toml_value(labels[-1])}   # {names}\nprob = 0.5\n\n"
            f"{notes['may_choose',]}"
        )
    for name, feature in policy.features.items():
        if feature.frozen:
            notes["features", name] = f"{toml_key(name)} looks protected: it is frozen. Decide whether that is right."
    body = written({name: told[name] for name in top if name in told}, notes)
    return "\n".join(f"# {line}" for line in HEAD.splitlines()) + f"\n\n{body}"
