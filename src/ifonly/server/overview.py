"""What the data say beside an answer: how common values are, who else is there, and what one feature does by itself.

All of it comes from rows that anyone who may ask can page through already, and from `SAMPLE` of them at most, so that
its size and its time do not grow with the table.
"""

from typing import Any

import numpy as np

from ifonly.answers.change import measured, parts_of, plain_value, prices
from ifonly.model.numerics import Floats, softmax
from ifonly.server.data import Page
from ifonly.server.models import Served
from ifonly.server.wire import RefusedError

__all__ = ["curves", "nearest", "overview", "reached"]

BINS = 20  # of a histogram
COLUMNS = 1000  # up to so many have one
SINGLE = 40  # whole numbers up to so many have a bin each, and a point each on a curve
POINTS = 300  # of a scatter
STRONG = 8  # features that a scatter can show
CLASSES = 12  # up to so many, a scatter can show their probabilities
GRID = 25  # values of a curve
DIGITS = 6  # significant ones of a point on a curve
REACH = 3.0  # units of cost to each side: a curve's range where there are no data
TOLD = 60  # differences that are told one by one


def overview(served: Served) -> dict[str, Any]:
    """Histograms of all columns, and some of the rows to draw."""
    rows = served.rows
    if rows is None:
        raise RefusedError(f"model {served.name!r} is served without data", "model", 404)
    sample, columns = rows.sampled, served.description["features"]
    if served.image is not None or len(columns) > COLUMNS:  # pixels of a picture, or more than anybody looks at
        columns = []
    features = [{"name": told["name"], **_histogram(told, sample.column(i))} for i, told in enumerate(columns)]
    found = {"total": rows.data.total, "sampled": len(sample.index), "features": features}
    return {**found, "points": _points(served, sample)}


def _histogram(told: dict[str, Any], seen: Any) -> dict[str, Any]:
    """The counts of a column: in even bins from low to high, or of each value."""
    plain = {"low": None, "high": None, "quartiles": None}
    if told["kind"] not in ("number", "flag"):
        words = [str(plain_value(value)) for value in seen]
        return {**plain, "counts": [words.count(str(value)) for value in told["values"]]}
    numbers = seen.astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return {**plain, "counts": []}
    if told["kind"] == "flag":
        ones = int((numbers == 1).sum())
        return {**plain, "counts": [len(numbers) - ones, ones]}
    low, high = float(numbers.min()), float(numbers.max())
    single = told["whole"] and high - low < SINGLE
    edges = np.arange(low - 0.5, high + 1) if single else np.linspace(low, high, BINS + 1)
    counts = np.histogram(numbers, edges)[0] if high > low else np.array([len(numbers)])
    quartiles = np.quantile(numbers, [0, 0.25, 0.5, 0.75, 1], method="lower").tolist()
    return {"low": float(edges[0]), "high": float(edges[-1]), "quartiles": quartiles, "counts": counts.tolist()}


def _points(served: Served, sample: Page) -> dict[str, Any]:
    """Some of the rows: what is decided, and the features that decide most."""
    some = np.linspace(0, len(sample.index) - 1, min(len(sample.index), POINTS)).astype(np.int64)
    names, z = served.columns.names, sample.scores[some]
    strong = [] if served.image is not None or not len(some) else _strongest(served, sample.V[some])
    columns = [{"name": names[i], "values": [plain_value(v) for v in sample.column(i)[some]]} for i in strong]
    told = not served.model.hard and len(served.classes) <= CLASSES
    proba = dict(zip(served.class_names, softmax(z).T.round(4).tolist(), strict=True)) if told else None
    decided = [served.model.label(int(k)) for k in z.argmax(axis=1)]
    return {"index": sample.index[some].tolist(), "predicted": decided, "columns": columns, "proba": proba}


def _strongest(served: Served, V: Floats) -> list[int]:
    """The columns whose values move the scores most, from row to row."""
    model = served.model
    X = model.to_classifier(V)
    A = model.A - model.A.mean(axis=0)  # what all scores have in common decides nothing
    X = X - X.mean(axis=0)
    moves = [np.linalg.norm(X[:, part.features] @ A[:, part.features].T) for part in parts_of(model, None)]
    return np.argsort(-np.array(moves), kind="stable")[:STRONG].tolist()


def nearest(served: Served, v: Floats, k: int) -> dict[str, Any] | None:
    """The nearest row of the data that is decided as class k; as any other, where k is what is decided now."""
    rows = served.rows
    if rows is None or not len(rows.sampled.index):
        return None
    model, sample = served.model, rows.sampled
    decided, now = sample.scores.argmax(axis=1), int(model.scores(v).argmax())
    wanted = np.flatnonzero(decided == k if k != now else decided != now)
    if not len(wanted):
        return None
    within = measured(model, None)
    squares = (((sample.V[wanted] - v) * within.per_unit) ** 2).sum(axis=1)
    best = wanted[squares.argmin()]
    delta = sample.V[best] - v
    costs = prices(within, delta)
    parts = [(float(costs[p.features].sum()), p.name) for p in parts_of(model, None) if delta[p.features].any()]
    total = float(costs.sum()) or 1.0
    differs = [{"feature": name, "share": price / total} for price, name in sorted(parts, key=lambda part: -part[0])]
    told = {"distance": float(np.sqrt(squares.min())), "n_differs": len(parts), "differs": differs[:TOLD]}
    return {"index": int(sample.index[best]), **told, "searched": len(sample.index)}


def curves(served: Served, row: Any, k: int, names: list[str]) -> list[dict[str, Any]]:
    """How class k fares as one feature moves and all others stay: its probability, or its lead where there are none."""
    columns, model = served.columns, served.model
    described = {told["name"]: told for told in served.description["features"]}
    found = []
    for name in names:
        place = columns.names.index(name)
        values = _grid(served, described[name], row[place] if model.encoding.identity else None, place)
        if len(values) < 2:
            continue
        if model.encoding.identity:
            table = np.tile(row, (len(values), 1))
            table[:, place] = values
        else:
            table = columns.table([{**row, name: value} for value in values])
        with np.errstate(invalid="ignore", over="ignore"):
            y = reached(served, model.scores(model.encoding.read(table, strict=False)), k)
        if np.isfinite(y).all():
            found.append({"feature": name, "x": values, "y": [float(f"{v:.{DIGITS}g}") for v in y.tolist()]})
    return found


def reached(served: Served, z: Floats, k: int) -> Floats:
    """The probability of class k from scores (N, K), or its lead over every other class."""
    return z[:, k] - np.delete(z, k, axis=1).max(axis=1) if served.model.hard else softmax(z)[:, k]


def _grid(served: Served, told: dict[str, Any], now: float | None, place: int) -> list[Any]:
    """The values of a curve: all that a category has; of a number, from the least to the largest in the data."""
    if told["kind"] == "flag":
        return [False, True]
    if told["values"] is not None:
        return told["values"]
    low, high = told["low"], told["high"]
    if low is None and now is not None:
        unit = float(measured(served.model, None).per_unit[place])
        low, high = now - REACH / unit, now + REACH / unit
    if low is None or not low < high:
        return []
    if told["whole"] and high - low < SINGLE:
        return np.arange(low, high + 1).tolist()
    grid = np.linspace(low, high, GRID)
    return np.unique(np.rint(grid) if told["whole"] else grid).tolist()
