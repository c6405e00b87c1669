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
Numbers = dict[str, SkipValidation[float]]
Features = Several[SkipValidation[str | NonNegativeInt]]

# ---- what is checked here ----

Rules = Several[tuple[Numbers, Literal["<=", ">=", "=="], float]]
Index = Annotated[int, Field(ge=0, lt=2**63)]
Prob = Annotated[float, Field(gt=0, lt=1)]
Lam = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False)]  # beyond, an objective has no digits to compare by


class _Strict(BaseModel, extra="forbid", strict=True):
    pass


# ---- requests ----


class CostIn(_Strict):
    """What a change costs."""

    scale: SkipValidation[Literal["model", "raw"] | dict[str, float]] = Field(
        "model", description="The unit of distance: the model's own (after its scaler), the data's, or a cost per feature."
    )
    l1: SkipValidation[float | dict[str, float]] = Field(
        0.0, description="What each unit of change costs besides: more of it, fewer changes."
    )
    difficulty: dict[str, Word] = Field(
        default_factory=dict, description="How hard features are to change, in words; impossible is frozen."
    )


class ActionsIn(_Strict):
    """What may change."""

    frozen: Features = Field(default_factory=list, description="Stay as they are.")
    bounds: SkipValidation[dict[str, Pair] | Pair] = Field(
        default_factory=dict, description="Low and high by feature, or one pair for all; null for no limit."
    )
    increase: Features = Field(default_factory=list, description="May only rise.")
    decrease: Features = Field(default_factory=list, description="May only fall.")
    integer: Features = Field(default_factory=list, description="Whole numbers in the answer.")
    step: Numbers = Field(default_factory=dict, description="Multiples of this in the answer.")
    allow: dict[str, SkipValidation[list[Cell]]] = Field(
        default_factory=dict, description="The values that a category may change to, for one row; by default all it knows."
    )
    one_of: Several[Features] = Field(
        default_factory=list, max_length=MAX_RULES, description="Groups of one-hot columns: one 1 in each."
    )
    linear: Rules = Field(
        default_factory=list, max_length=MAX_RULES, description='Rules such as [{"debt": 1, "income": -0.4}, "<=", 0].'
    )


class _OfRow(_Strict):
    model: str | None = Field(None, description="Which model; by default the first.")
    row: Row | None = Field(None, description="The row: values by name, or in the model's order (a list, or base64).")
    index: Index | None = Field(None, description="Instead: a row of the served data, counted from 0.")
    edits: dict[str, Cell] = Field(default_factory=dict, description="Values to put into that row first.")


class _Asked(_OfRow):
    target: Label | None = Field(None, description='The wanted class; null or "other": the nearest other.')
    max_changes: Index | None = Field(None, description="At most so many features change.")
    cost: CostIn | None = None
    actions: ActionsIn | None = None


class _Wanted(_Asked):
    prob: Prob | None = Field(None, description="The probability to reach; 0.5 where nothing is asked for.")
    lam: Lam | None = Field(None, description="Instead: what the squared distance is multiplied with.")
    margin: float | None = Field(None, ge=0, allow_inf_nan=False, description="Instead: how far the target's score is ahead.")
    n: int | None = Field(
        None, ge=1, le=MAX_PLANS, description="So many answers for one row, which differ in what changes, the cheapest first."
    )


EXAMPLE = {"row": {"income": 1.2, "loans": 3, "age": 31}, "target": "approved", "prob": 0.8}
LIMITED = {**EXAMPLE, "actions": {"frozen": ["age"], "integer": ["loans"], "bounds": {"loans": [0, None]}}, "detail": "page"}
ALONG = {"row": EXAMPLE["row"], "target": "approved"}


class Question(_Wanted, json_schema_extra={"examples": [EXAMPLE, LIMITED]}):
    """What would have to change?"""

    rows: Rows | None = Field(
        None, description="Instead of row: many; all in one base64, one after the other, where columns are numbers."
    )
    indices: Several[Index] | None = Field(None, min_length=1, description="Instead of index: many.")
    detail: Literal["answer", "page"] = Field("answer", description="page: with sentence, certificate in words and changes.")
    delta: bool = Field(
        False, description="delta also where rows come without names: x minus the row. By name it always comes."
    )
    pack: bool = Field(False, description="x and delta in base64, where columns are numbers and rows come without names.")
    top: int | None = Field(None, ge=0, le=MAX_CHANGES, description="page: at most so many changes in words.")


class DownloadQuestion(_Wanted, json_schema_extra={"examples": [EXAMPLE]}):
    """What would have to change, as a file?"""

    plan: int = Field(0, ge=0, lt=MAX_PLANS, description="Which of n answers.")


class PathQuestion(_Asked, json_schema_extra={"examples": [ALONG]}):
    """How does the answer move as λ falls?"""

    lams: Several[Lam] | None = Field(
        None, min_length=1, max_length=MAX_LAMS, description="The values of λ; by default from 1e3 down to 1e-5."
    )
    probs: Several[Prob] | None = Field(
        None,
        min_length=1,
        max_length=MAX_LAMS,
        description="Instead: probabilities to reach; faster where whole numbers or categories have to be searched.",
    )
    detail: Literal["curve", "x"] = Field("curve", description="x: with the answers themselves.")


class AroundQuestion(_OfRow, json_schema_extra={"examples": [{**ALONG, "features": ["age"]}]}):
    """Who is near, and what does each feature do by itself?"""

    target: Label | None = Field(
        None, description='The class to look at; null or "other": the most probable one that is not predicted.'
    )
    features: Several[str] = Field(
        default_factory=list, max_length=MAX_CURVES, description="The columns to vary, one at a time."
    )
