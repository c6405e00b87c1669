"""What a request may say, as types: the same ones check a body and make the OpenAPI description.

What is inside rows, limits and costs is checked against the model (`questions`), one value after the other, and only described
here: a body that is all wrong then costs one error, not a million of them.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

__all__ = ["DIFFICULTY", "LABEL", "MAX_PLANS", "ActionsIn", "AroundQuestion", "Cell", "CostIn", "Delta", "DownloadQuestion"]
__all__ += ["Label", "PathQuestion", "Question", "Row", "optional"]

MAX_PLANS = 10  # answers that differ from each other, for one row
MAX_LAMS = 500
MAX_RULES = 100  # of one_of and linear
MAX_CHANGES = 10_000  # that are told in words

# What a unit of a feature costs, as a multiple of what it costs by itself; "impossible" is frozen instead. A cost
# is a square, so that a feature that is twice as dear moves about a quarter as far.
DIFFICULTY = {"very easy": 0.25, "easy": 0.5, "medium": 1.0, "hard": 2.0, "very hard": 4.0}

# ---- what JSON may hold where the types below say Any ----

NUMBER = {"type": "number"}
CELL = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}
LABEL = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}
FEATURE = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]}
PAIR = {"type": "array", "prefixItems": [CELL, CELL], "items": CELL, "minItems": 2, "maxItems": 2}
BASE64 = {"type": "string", "contentEncoding": "base64"}  # of little-endian float64


def _by_name(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema}


def optional(schema: dict[str, Any]) -> Any:
    """What has this schema, or is null."""
    return WithJsonSchema({"anyOf": [schema, {"type": "null"}]})


ROW = {"anyOf": [_by_name(CELL), {"type": "array", "items": CELL}, BASE64]}
ROWS = {"anyOf": [{"type": "array", "items": ROW, "minItems": 1}, BASE64]}

Label = Annotated[Any, WithJsonSchema(LABEL)]
Cell = Annotated[Any, WithJsonSchema(CELL)]
Row = Annotated[Any, optional(ROW)]
Cells = Annotated[dict[str, Any], WithJsonSchema(_by_name(CELL))]
Numbers = Annotated[dict[str, Any], WithJsonSchema(_by_name(NUMBER))]
Choices = Annotated[dict[str, Any], WithJsonSchema(_by_name({"type": "array", "items": CELL}))]
Words = Annotated[dict[str, Any], WithJsonSchema(_by_name({"enum": [*DIFFICULTY, "impossible"]}))]
Scale = Annotated[Any, WithJsonSchema({"anyOf": [{"enum": ["model", "raw"]}, _by_name(NUMBER)]})]
NumberOrNumbers = Annotated[Any, WithJsonSchema({"anyOf": [NUMBER, _by_name(NUMBER)]})]
PairOrPairs = Annotated[Any, WithJsonSchema({"anyOf": [_by_name(PAIR), PAIR]})]
Delta = Annotated[Any, optional({"anyOf": [_by_name(NUMBER), {"type": "array", "items": NUMBER}, BASE64]})]
Features = Annotated[list[Annotated[Any, WithJsonSchema(FEATURE)]], Field(fail_fast=True)]
Rules = Annotated[list[tuple[Numbers, Literal["<=", ">=", "=="], float]], Field(fail_fast=True)]
Index = Annotated[int, Field(ge=0, lt=2**63)]
Indices = Annotated[list[Index], Field(fail_fast=True)]
Prob = Annotated[float, Field(gt=0, lt=1)]
Lam = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False)]  # beyond, an objective has no digits to compare by


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


# ---- requests ----


class CostIn(_Strict):
    """What a change costs."""

    scale: Scale = Field(
        "model", description="The unit of distance: the model's own (after its scaler), the data's, or a cost per feature."
    )
    l1: NumberOrNumbers = Field(0.0, description="What each unit of change costs besides: more of it, fewer changes.")
    difficulty: Words = Field(
        default_factory=dict, description="How hard features are to change, in words; impossible is frozen."
    )


class ActionsIn(_Strict):
    """What may change."""

    frozen: Features = Field(default_factory=list, description="Stay as they are.")
    bounds: PairOrPairs = Field(
        default_factory=dict, description="Low and high by feature, or one pair for all; null for no limit."
    )
    increase: Features = Field(default_factory=list, description="May only rise.")
    decrease: Features = Field(default_factory=list, description="May only fall.")
    integer: Features = Field(default_factory=list, description="Whole numbers in the answer.")
    step: Numbers = Field(default_factory=dict, description="Multiples of this in the answer.")
    allow: Choices = Field(
        default_factory=dict, description="The values that a category may change to, for one row; by default all it knows."
    )
    one_of: Annotated[list[Features], Field(fail_fast=True)] = Field(
        default_factory=list, max_length=MAX_RULES, description="Groups of one-hot columns: one 1 in each."
    )
    linear: Rules = Field(
        default_factory=list, max_length=MAX_RULES, description='Rules such as [{"debt": 1, "income": -0.4}, "<=", 0].'
    )


class _OfRow(_Strict):
    model: str | None = Field(None, description="Which model; by default the first.")
    row: Row = Field(None, description="The row: values by name, or in the model's order (a list, or base64).")
    index: Index | None = Field(None, description="Instead: a row of the served data, counted from 0.")
    edits: Cells = Field(default_factory=dict, description="Values to put into that row first.")


class _Asked(_OfRow):
    target: Annotated[Any, optional(LABEL)] = Field(None, description='The wanted class; null or "other": the nearest other.')
    max_changes: Index | None = Field(None, description="At most so many features change.")
    cost: CostIn | None = None
    actions: ActionsIn | None = None


class _Wanted(_Asked):
    prob: float | None = Field(None, gt=0, lt=1, description="The probability to reach; 0.5 where nothing is asked for.")
    lam: Lam | None = Field(None, description="Instead: what the squared distance is multiplied with.")
    margin: float | None = Field(None, ge=0, allow_inf_nan=False, description="Instead: how far the target's score is ahead.")
    n: Annotated[int, Field(ge=1, le=MAX_PLANS)] | None = Field(
        None, description="So many answers for one row, which differ in what changes, the cheapest first."
    )


def _example(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


EXAMPLE = {"row": {"income": 1.2, "loans": 3, "age": 31}, "target": "approved", "prob": 0.8}
LIMITED = {**EXAMPLE, "actions": {"frozen": ["age"], "integer": ["loans"], "bounds": {"loans": [0, None]}}, "detail": "page"}


class Question(_Wanted):
    """What would have to change?"""

    model_config = _example(EXAMPLE, LIMITED)

    rows: Annotated[Any, optional(ROWS)] = Field(
        None, description="Instead of row: many; all in one base64, one after the other, where columns are numbers."
    )
    indices: Indices | None = Field(None, min_length=1, description="Instead of index: many.")
    detail: Literal["answer", "page"] = Field("answer", description="page: with sentence, certificate in words and changes.")
    delta: bool = Field(
        False, description="delta also where rows come without names: x minus the row. By name it always comes."
    )
    pack: bool = Field(False, description="x and delta in base64, where columns are numbers and rows come without names.")
    top: Annotated[int, Field(ge=0, le=MAX_CHANGES)] | None = Field(None, description="page: at most so many changes in words.")


class DownloadQuestion(_Wanted):
    """What would have to change, as a file?"""

    model_config = _example(EXAMPLE)

    plan: Annotated[int, Field(ge=0, lt=MAX_PLANS)] = Field(0, description="Which of n answers.")


class PathQuestion(_Asked):
    """How does the answer move as λ falls?"""

    model_config = _example({"row": EXAMPLE["row"], "target": "approved"})

    lams: Annotated[list[Lam], Field(fail_fast=True)] | None = Field(
        None, min_length=1, max_length=MAX_LAMS, description="The values of λ; by default from 1e3 down to 1e-5."
    )
    probs: Annotated[list[Prob], Field(fail_fast=True)] | None = Field(
        None,
        min_length=1,
        max_length=MAX_LAMS,
        description="Instead: probabilities to reach; faster where whole numbers or categories have to be searched.",
    )
    detail: Literal["curve", "x"] = Field("curve", description="x: with the answers themselves.")


MAX_CURVES = 60  # features of one request


class AroundQuestion(_OfRow):
    """Who is near, and what does each feature do by itself?"""

    model_config = _example({"row": EXAMPLE["row"], "target": "approved", "features": ["age"]})

    target: Annotated[Any, optional(LABEL)] = Field(
        None, description='The class to look at; null or "other": the most probable one that is not predicted.'
    )
    features: Annotated[list[str], Field(fail_fast=True)] = Field(
        default_factory=list, max_length=MAX_CURVES, description="The columns to vary, one at a time."
    )
