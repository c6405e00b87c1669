"""What a reply holds, as types, for the OpenAPI description: nothing is checked against them but by the tests."""

from typing import Literal

from pydantic import BaseModel, Field

from ifonly.server.schema import Cell, Delta, Label, Row

__all__ = ["Around", "Curve", "Failure", "Health", "ModelList", "ModelOut", "OverviewOut", "Ready", "Reply", "RowPage"]


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
