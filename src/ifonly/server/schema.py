"""What a request may say and what a reply holds, as types: the same ones check a body and make the OpenAPI description.

What is inside rows, limits and costs is checked against the model (`questions`), one value after the other, and only described
here: a body that is all wrong then costs one error, not a million of them.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

__all__ = ["DIFFICULTY", "MAX_PLANS", "ActionsIn", "CostIn", "DownloadQuestion", "PathQuestion", "Question"]

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


def _optional(schema: dict[str, Any]) -> Any:
    return WithJsonSchema({"anyOf": [schema, {"type": "null"}]})


ROW = {"anyOf": [_by_name(CELL), {"type": "array", "items": CELL}, BASE64]}
ROWS = {"anyOf": [{"type": "array", "items": ROW, "minItems": 1}, BASE64]}

Label = Annotated[Any, WithJsonSchema(LABEL)]
Cell = Annotated[Any, WithJsonSchema(CELL)]
Row = Annotated[Any, _optional(ROW)]
Cells = Annotated[dict[str, Any], WithJsonSchema(_by_name(CELL))]
Numbers = Annotated[dict[str, Any], WithJsonSchema(_by_name(NUMBER))]
Choices = Annotated[dict[str, Any], WithJsonSchema(_by_name({"type": "array", "items": CELL}))]
Words = Annotated[dict[str, Any], WithJsonSchema(_by_name({"enum": [*DIFFICULTY, "impossible"]}))]
Scale = Annotated[Any, WithJsonSchema({"anyOf": [{"enum": ["model", "raw"]}, _by_name(NUMBER)]})]
NumberOrNumbers = Annotated[Any, WithJsonSchema({"anyOf": [NUMBER, _by_name(NUMBER)]})]
PairOrPairs = Annotated[Any, WithJsonSchema({"anyOf": [_by_name(PAIR), PAIR]})]
Delta = Annotated[Any, _optional({"anyOf": [_by_name(NUMBER), {"type": "array", "items": NUMBER}, BASE64]})]
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
    target: Annotated[Any, _optional(LABEL)] = Field(None, description='The wanted class; null or "other": the nearest other.')
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

    rows: Annotated[Any, _optional(ROWS)] = Field(
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

    target: Annotated[Any, _optional(LABEL)] = Field(
        None, description='The class to look at; null or "other": the most probable one that is not predicted.'
    )
    features: Annotated[list[str], Field(fail_fast=True)] = Field(
        default_factory=list, max_length=MAX_CURVES, description="The columns to vary, one at a time."
    )


# ---- replies ----


class _Error(BaseModel):
    code: str
    message: str
    field: str | None = Field(description="What it is about: a path into the request, such as actions.bounds.income.")


class Failure(BaseModel):
    """What every reply looks like that is not 2xx."""

    error: _Error


class ModelName(BaseModel):
    """Which model answered."""

    name: str
    fingerprint: str


class Decision(BaseModel):
    """What is predicted before and after, and how probable the target is."""

    model_config = ConfigDict(serialize_by_alias=True)

    before: Label = Field(alias="from")
    to: Label
    p_from: float | None
    p_to: float | None


class Change(BaseModel):
    """One column that changes."""

    feature: str
    label: str = Field(description="What people call it, with its unit.")
    before: Cell
    after: Cell
    change: float | None
    before_text: str
    after_text: str
    change_text: str
    share: float | None = Field(description="Of the whole cost.")


class Answer(BaseModel):
    """The smallest change; the fields after message come with detail page. What is not a finite number is null."""

    index: int | None
    status: Literal["exact", "converged", "max_iter", "unreachable", "invalid", "stopped"]
    target: Label
    x: Row
    delta: Delta
    proba: dict[str, float] | None
    prob: float | None
    lam: float | None
    distance: float | None
    cost: float | None
    objective: float | None
    gap: float | None
    grad_norm: float | None
    n_iter: int
    message: str
    sentence: str | None = None
    certificate: str | None = None
    decision: Decision | None = None
    changes: list[Change] | None = None
    n_changes: int | None = None
    kept: int | None = None
    proba_now: dict[str, float] | None = None
    blocking: list[str] | None = None
    best: float | None = None


class Reply(BaseModel):
    """Answers, one per row (or n for one row)."""

    model: ModelName
    answers: list[Answer]
    took_ms: float


class Curve(BaseModel):
    """A path of answers."""

    model: ModelName
    target: Label
    p_now: float
    complete: bool = Field(description="Whether there was time for all that was asked for.")
    lams: list[float | None]
    prob: list[float | None]
    distance: list[float | None]
    n_changed: list[int]
    status: list[str]
    x: list[Row] | None = None
    took_ms: float


class FeatureOut(BaseModel):
    """A column that the model reads."""

    name: str
    kind: Literal["number", "flag", "ordinal", "category"]
    values: list[Cell] | None = Field(description="Of a category or an ordinal.")
    low: float | None = Field(description="In the data, or in 4096 rows spread evenly over them; so are the next three.")
    high: float | None
    whole: bool = Field(description="Whether all are whole numbers.")
    typical: Cell = Field(description="The median, or the most frequent value.")
    label: str | None = Field(None, description="What people call it, by the policy; so are the next ones.")
    unit: str | None = None
    description: str | None = None
    reason: str | None = Field(None, description="Why it may not change, or not as one might wish.")
    frozen: bool = Field(False, description="Whether it stays as it is, whatever is asked for.")
    only: Literal["increase", "decrease"] | None = None
    least: Cell = None
    most: Cell = None
    step: float | None = None
    never: list[Cell] = Field(default_factory=list, description="Values that no answer chooses.")
    value_labels: dict[str, str] = Field(default_factory=dict, description="What people call its values.")


class PolicyOut(BaseModel):
    """What a house has decided, and no request can undo; what it says of single columns stands with them."""

    house: str
    language: str
    target: Annotated[Any, _optional(LABEL)]
    prob: float | None
    max_changes: int | None
    may_choose: list[Literal["target", "prob", "cost"]] = Field(description="What a request may choose all the same.")
    classes: dict[str, str] = Field(description="What people call the classes.")
    reasons: list[str] = Field(description="Of rules that tie columns together.")


class LimitsOut(BaseModel):
    """What this server takes at once."""

    max_rows: int
    max_body: int
    timeout_s: float
    max_n: int


class ModelOut(BaseModel):
    """A model, and the data it is served with."""

    name: str
    fingerprint: str
    version: str
    hard: bool
    classes: list[Label]
    n_classes: int
    n_features: int
    named: bool
    features: list[FeatureOut]
    image: list[int] | None
    rows: int | None
    keys: list[str]
    policy: PolicyOut | None
    languages: list[str] = Field(description="Of letters.")
    limits: LimitsOut


class ModelLine(ModelName):
    """One of the models."""

    default: bool


class ModelList(BaseModel):
    """The models that are served."""

    models: list[ModelLine]


class RowOut(BaseModel):
    """A row of the data."""

    index: int
    keys: dict[str, Cell]
    values: Row = None
    predicted: Annotated[Any, _optional(LABEL)]
    proba: dict[str, float] | None = Field(description="Of the most probable classes.")
    problem: str | None = Field(description="Why the model cannot read it.")


class RowPage(BaseModel):
    """A page of rows."""

    total: int
    matched: int | None = Field(description="null while the search has not seen all rows: ask again, and it goes on.")
    offset: int
    rows: list[RowOut]


class HistogramOut(BaseModel):
    """How common the values of a column are, in the data or in rows spread evenly over them."""

    name: str
    low: float | None = Field(description="Of a number: where the first of the even bins begins.")
    high: float | None
    quartiles: list[float] | None
    counts: list[int] = Field(description="By bin, or by the column's values; of a flag, no and yes.")


class ColumnOut(BaseModel):
    """A column of some rows."""

    name: str
    values: list[Cell]


class PointsOut(BaseModel):
    """Some rows of the data to draw: what the model decides, and the columns that decide most."""

    index: list[int]
    predicted: list[Label]
    columns: list[ColumnOut] = Field(description="The strongest first.")
    proba: dict[str, list[float]] | None = Field(description="By class, where these are few.")


class OverviewOut(BaseModel):
    """What is usual in the data."""

    total: int
    sampled: int
    features: list[HistogramOut]
    points: PointsOut


class Differs(BaseModel):
    """A column in which two rows differ."""

    feature: str
    share: float = Field(description="Of the squared distance.")


class Neighbour(RowOut):
    """The nearest row of the data that is decided otherwise."""

    distance: float
    n_differs: int
    differs: list[Differs] = Field(description="What differs, the largest part of the distance first.")
    searched: int = Field(description="Of so many rows, spread evenly over the data.")


class CurveOut(BaseModel):
    """What one feature does by itself."""

    feature: str
    x: list[Cell]
    y: list[float]


class Around(BaseModel):
    """What is near a row: who is decided otherwise, and what each feature does by itself."""

    model: ModelName
    target: Label
    now: float = Field(description="The target's probability; of a model without, its lead over every other class.")
    nearest: Neighbour | None
    curves: list[CurveOut] = Field(description="y is as now is.")
    took_ms: float


class Health(BaseModel):
    """The process lives."""

    status: Literal["ok"]


class Ready(BaseModel):
    """Whether requests are taken; and what is wrong with a model's file since it was loaded."""

    status: Literal["ready", "starting", "draining", "full"]
    models: dict[str, str | None]
