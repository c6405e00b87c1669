"""What a request may say, as types: the same ones check a body and make the OpenAPI description.

What is inside rows, limits and costs is checked against the model (`questions`), one value after the other, and only described
here: a body that is all wrong then costs one error, not a million of them.
"""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, NonNegativeInt, SkipValidation, WithJsonSchema

__all__ = ["DIFFICULTY", "MAX_PLANS", "ActionsIn", "AroundQuestion", "Cell", "CostIn", "Delta", "DownloadQuestion"]
__all__ += ["Label", "PathQuestion", "Question", "Row"]

MAX_PLANS = 10  # answers that differ from each other, for one row
MAX_LAMS = 500
MAX_RULES = 100  # of one_of and linear
MAX_CHANGES = 10_000  # that are told in words
MAX_CURVES = 60  # features of one request

# What a unit of a feature costs, as a multiple of what it costs by itself; "impossible" is frozen instead. A cost
# is a square, so that a feature that is twice as dear moves about a quarter as far.
DIFFICULTY = {"very easy": 0.25, "easy": 0.5, "medium": 1.0, "hard": 2.0, "very hard": 4.0}

Entry = TypeVar("Entry")
Several = Annotated[list[Entry], Field(fail_fast=True)]

# ---- what is described here and checked later ----

Label = SkipValidation[str | float | bool]
Cell = SkipValidation[float | str | bool | None]
Base64 = Annotated[str, WithJsonSchema({"type": "string", "contentEncoding": "base64"})]  # of little-endian float64
Row = SkipValidation[dict[str, Cell] | list[Cell] | Base64]
Rows = SkipValidation[Annotated[list[Row], Field(min_length=1)] | Base64]
Delta = SkipValidation[dict[str, float] | list[float] | Base64]
Word = Annotated[Any, WithJsonSchema({"enum": [*DIFFICULTY, "impossible"]})]
Pair = tuple[Cell, Cell]
Bounds = SkipValidation[dict[str, Pair] | Pair]
Levels = dict[str, SkipValidation[list[Cell]]]
Price = SkipValidation[float | dict[str, float]]
Numbers = dict[str, SkipValidation[float]]
Features = Several[SkipValidation[str | NonNegativeInt]]

# ---- what is checked here ----

Rules = Several[tuple[Numbers, Literal["<=", ">=", "=="], float]]
Index = Annotated[int, Field(ge=0, lt=2**63)]
Prob = Annotated[float, Field(gt=0, lt=1)]
Lam = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False)]  # beyond, an objective has no digits to compare by


class _Strict(BaseModel, extra="forbid", strict=True):
    pass


def _said(description: str, default: Any = None, **checks: Any) -> Any:
    """What a request may say, and what holds where it does not: a value, or what makes one."""
    return Field(**{"default_factory" if callable(default) else "default": default}, description=description, **checks)


class CostIn(_Strict):
    """What a change costs."""

    scale: SkipValidation[Literal["model", "raw"] | dict[str, float]] = _said(
        "The unit of distance: the model's own (after its scaler), the data's, or a cost per feature.", "model"
    )
    l1: Price = _said("What each unit of change costs besides: more of it, fewer changes.", 0.0)
    difficulty: dict[str, Word] = _said("How hard features are to change, in words; impossible is frozen.", dict)


class ActionsIn(_Strict):
    """What may change."""

    frozen: Features = _said("Stay as they are.", list)
    bounds: Bounds = _said("Low and high by feature, or one pair for all; null for no limit.", dict)
    increase: Features = _said("May only rise.", list)
    decrease: Features = _said("May only fall.", list)
    integer: Features = _said("Whole numbers in the answer.", list)
    step: Numbers = _said("Multiples of this in the answer.", dict)
    allow: Levels = _said("The values that a category may change to, for one row; by default all it knows.", dict)
    one_of: Several[Features] = _said("Groups of one-hot columns: one 1 in each.", list, max_length=MAX_RULES)
    linear: Rules = _said('Rules such as [{"debt": 1, "income": -0.4}, "<=", 0].', list, max_length=MAX_RULES)


class _OfRow(_Strict):
    model: str | None = _said("Which model; by default the first.")
    row: Row | None = _said("The row: values by name, or in the model's order (a list, or base64).")
    index: Index | None = _said("Instead: a row of the served data, counted from 0.")
    edits: dict[str, Cell] = _said("Values to put into that row first.", dict)


class _Asked(_OfRow):
    target: Label | None = _said('The wanted class; null or "other": the nearest other.')
    max_changes: Index | None = _said("At most so many features change.")
    cost: CostIn | None = None
    actions: ActionsIn | None = None


class _Wanted(_Asked):
    prob: Prob | None = _said("The probability to reach; 0.5 where nothing is asked for.")
    lam: Lam | None = _said("Instead: what the squared distance is multiplied with.")
    margin: float | None = _said("Instead: how far the target's score is ahead.", ge=0, allow_inf_nan=False)
    n: int | None = _said("So many answers for one row, which differ in what changes, the cheapest first.", ge=1, le=MAX_PLANS)


EXAMPLE = {"row": {"income": 1.2, "loans": 3, "age": 31}, "target": "approved", "prob": 0.8}
LIMITED = {**EXAMPLE, "actions": {"frozen": ["age"], "integer": ["loans"], "bounds": {"loans": [0, None]}}, "detail": "page"}
ALONG = {"row": EXAMPLE["row"], "target": "approved"}


class Question(_Wanted, json_schema_extra={"examples": [EXAMPLE, LIMITED]}):
    """What would have to change?"""

    rows: Rows | None = _said("Instead of row: many; all in one base64, one after the other, where columns are numbers.")
    indices: Several[Index] | None = _said("Instead of index: many.", min_length=1)
    detail: Literal["answer", "page"] = _said("page: with sentence, certificate in words and changes.", "answer")
    delta: bool = _said("delta also where rows come without names: x minus the row. By name it always comes.", False)
    pack: bool = _said("x and delta in base64, where columns are numbers and rows come without names.", False)
    top: int | None = _said("page: at most so many changes in words.", ge=0, le=MAX_CHANGES)


class DownloadQuestion(_Wanted, json_schema_extra={"examples": [EXAMPLE]}):
    """What would have to change, as a file?"""

    plan: int = _said("Which of n answers.", 0, ge=0, lt=MAX_PLANS)


class PathQuestion(_Asked, json_schema_extra={"examples": [ALONG]}):
    """How does the answer move as λ falls?"""

    lams: Several[Lam] | None = _said("The values of λ; by default from 1e3 down to 1e-5.", min_length=1, max_length=MAX_LAMS)
    probs: Several[Prob] | None = _said(
        "Instead: probabilities to reach; faster where whole numbers or categories have to be searched.",
        min_length=1,
        max_length=MAX_LAMS,
    )
    detail: Literal["curve", "x"] = _said("x: with the answers themselves.", "curve")


class AroundQuestion(_OfRow, json_schema_extra={"examples": [{**ALONG, "features": ["age"]}]}):
    """Who is near, and what does each feature do by itself?"""

    target: Label | None = _said('The class to look at; null or "other": the most probable one that is not predicted.')
    features: Several[str] = _said("The columns to vary, one at a time.", list, max_length=MAX_CURVES)
