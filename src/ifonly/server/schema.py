"""What requests may say and replies hold, as types, which make the OpenAPI description.

Bodies are checked against theirs. What is inside rows, limits and costs is only described here, and checked against the model
(`questions`), one value after the other: a body that is all wrong then costs one error, not a million of them. Replies are
checked against theirs by the tests alone.
"""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, NonNegativeInt, SkipValidation, WithJsonSchema

__all__ = ["DIFFICULTY", "MAX_PLANS", "ActionsIn", "AroundQuestion", "CostIn", "DownloadQuestion", "PathQuestion", "Question"]
__all__ += ["Around", "Curve", "Failure", "Health", "ModelList", "ModelOut", "OverviewOut", "Ready", "Reply", "RowPage"]

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


# ---- what replies hold ----


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


class Decision(BaseModel, serialize_by_alias=True):
    """What is predicted before and after, and how probable the target is."""

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
    bound: str = Field(description='"at least", "at most" or "": how after_text is to be read where there is a range.')
    change_text: str
    share: float | None = Field(description="Of the whole cost.")


class Answer(BaseModel):
    """The smallest change; the fields after message come with detail page. What is not a finite number is null."""

    index: int | None
    status: Literal["exact", "converged", "max_iter", "unreachable", "invalid", "stopped"]
    target: Label
    x: Row | None
    delta: Delta | None
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
    x: list[Row | None] | None = None
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


class MarksOut(BaseModel):
    """What stands in numbers that people read."""

    decimal: str = Field(description="Before decimals.")
    group: str = Field(description="Between groups of three digits.")


class PolicyOut(BaseModel):
    """What a house has decided, and no request can undo; what it says of single columns stands with them."""

    house: str
    language: str
    target: Label | None
    prob: float | None
    max_changes: int | None
    may_choose: list[Literal["target", "prob", "cost"]] = Field(description="What a request may choose all the same.")
    classes: dict[str, str] = Field(description="What people call the classes.")
    reasons: list[str] = Field(description="Of rules that tie columns together.")
    marks: MarksOut | None = Field(description="How numbers in texts are written; null as in English. All data are plain.")


class LimitsOut(BaseModel):
    """What this server takes at once."""

    max_rows: int
    max_body: int
    timeout_s: float
    max_n: int


class ModelOut(ModelName):
    """A model, and the data it is served with."""

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
    values: Row | None = None
    predicted: Label | None
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

    status: Literal["ready", "draining", "full"]
    models: dict[str, str | None]
