"""What replies hold: the library's answers as JSON and as files, and what the data say beside an answer.

How common values are, who else is there, and what one feature does by itself: all of it comes from rows that anyone who may ask
can page through already, and from `SAMPLE` of them at most, so that its size and its time do not grow with the table.
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual, Counterfactuals
from ifonly.answers.change import Change, Decision, measured, moves, parts_of, plain_value, prices
from ifonly.model.numerics import Floats, softmax
from ifonly.problem.status import Status
from ifonly.server.data import Page
from ifonly.server.models import Served
from ifonly.server.questions import Request
from ifonly.server.wire import RefusedError, listed
from ifonly.show.numbers import housed
from ifonly.show.page import html
from ifonly.show.page.slider import packed
from ifonly.show.sentence import Worded, worded
from ifonly.show.table import certificate_words, printed

__all__ = ["FORMATS", "Answer", "as_file", "as_page", "curve", "curves", "nearest", "of_answer", "of_batch", "overview"]
__all__ += ["reached", "rows_page", "rows_told"]

AGAIN = "The receipt can be rechecked from the model alone."
TOP_CLASSES = 5  # of a row in a list
TOLD = ("prob", "lam", "distance", "cost", "objective", "gap", "grad_norm", "n_iter", "message")  # of an answer, as they are
Answer = dict[str, Any]  # as JSON has it
NAMES = {status: status.name.lower() for status in Status}
HTML = "text/html; charset=utf-8"
FORMATS = {"json": "application/json", "html": HTML, "csv": "text/csv; charset=utf-8", "letter": HTML}

BINS = 20  # of a histogram
COLUMNS = 1000  # up to so many have one
SINGLE = 40  # whole numbers up to so many have a bin each, and a point each on a curve
POINTS = 300  # of a scatter
STRONG = 8  # features that a scatter can show
CLASSES = 12  # up to so many, a scatter can show their probabilities
GRID = 25  # values of a curve
DIGITS = 6  # significant ones of a point on a curve
REACH = 3.0  # units of cost to each side: a curve's range where there are no data
DIFFERENCES = 60  # between two rows that are told one by one


# ---- answers ----


def of_batch(requests: Sequence[Request], answers: Counterfactuals) -> Iterator[Answer]:
    """The answers of a call for many rows without limits, each with its request, straight from the arrays."""
    served, x = requests[0].served, answers.x
    status, targets, proba = answers.status.tolist(), answers.results.target.tolist(), answers.proba.tolist()
    prob = [None] * len(answers) if answers.prob is None else answers.prob.tolist()
    numbers = zip(prob, *(getattr(answers, name).tolist() for name in TOLD[1:-1]), strict=True)
    for i, (request, told) in enumerate(zip(requests, numbers, strict=True)):
        ended = Status(status[i])
        if ended is Status.INVALID:
            yield of_answer(request, answers[i], i)
            continue
        message = answers[i].message if ended is Status.UNREACHABLE else ended.message
        yield {
            "index": None if request.index is None else request.index[i],
            "status": NAMES[ended],
            "target": served.classes[targets[i]],
            "x": packed(x[i]) if request.packed else served.columns.plain(x[i], named=request.named),
            "delta": _delta(request, answers.delta[i]) if request.delta else None,
            "proba": dict(zip(served.class_names, proba[i], strict=True)),
            **dict(zip(TOLD, (*told, message), strict=True)),
        }


def of_answer(request: Request, cf: Counterfactual, i: int) -> Answer:
    """One answer."""
    served = request.served
    source, x = cf.coordinates
    delta = x - source
    solved = bool(np.isfinite(delta).all())
    return {
        "index": None if request.index is None else request.index[0 if request.single else i],
        "status": NAMES[cf.status],
        "target": cf.target,
        "x": None if not solved else packed(cf.x) if request.packed else served.columns.plain(cf.x, named=request.named),
        "delta": _delta(request, delta) if solved and request.delta else None,
        "proba": dict(zip(served.class_names, cf.proba.tolist(), strict=True)) if solved and not served.model.hard else None,
        **{name: getattr(cf, name) for name in TOLD},
    }


def _delta(request: Request, delta: Any) -> Any:
    """What changed: by name only that, else all of it (on request: it doubles a reply, and is a subtraction away)."""
    if request.named:
        label = request.served.model.feature_label
        return {label(d): float(delta[d]) for d in np.flatnonzero(delta).tolist()}
    return packed(delta) if request.packed else delta


@housed
def as_page(cf: Counterfactual, request: Request, top: int | None) -> dict[str, Any]:
    """An answer in words, for people; numbers in texts are written as the policy has it."""
    model = request.served.model
    valid = cf.status is not Status.INVALID
    changes, seen, every = (moves(cf, plain=True), Decision.of(cf), moves(cf)) if valid else ([], None, [])
    told = worded(cf, every[:top]) if every else []
    now = softmax(model.scores(cf.coordinates[0])) if valid and not model.hard else None
    stopped = cf.status in (Status.UNREACHABLE, Status.STOPPED)
    return {
        "sentence": cf.sentence(),
        "certificate": certificate_words(cf, AGAIN),
        "decision": {"from": seen.before, "to": seen.after, "p_from": seen.p_before, "p_to": seen.p_after} if seen else None,
        "changes": [_change(change, words) for change, words in zip(changes, told, strict=False)],
        "n_changes": len(every),
        "kept": len(request.served.columns.names) - len(every),
        "proba_now": None if now is None else dict(zip(request.served.class_names, now.tolist(), strict=True)),
        "blocking": list(cf.blocking),
        "best": float(cf.proba[model.class_index(cf.target)]) if stopped and not model.hard else None,
    }


def _change(change: Change, words: Worded) -> dict[str, Any]:
    """A change as data, and as people read it."""
    before, after, difference = printed(words)
    return {
        "feature": change.feature,
        "label": words.change.part.label,
        "before": change.before,
        "after": change.after,
        "change": change.difference,
        "before_text": before,
        "after_text": after,
        "bound": words.bound,
        "change_text": difference,
        "share": change.share,
    }


def curve(request: Request, answers: Sequence[Counterfactual], *, x: bool) -> dict[str, Any]:
    """The answers of a path, side by side."""
    model, target = request.served.model, answers[0].target
    k = model.class_index(target)
    found = {
        "target": target,
        "p_now": float(softmax(model.scores(answers[0].coordinates[0]))[k]),
        "lams": [cf.lam for cf in answers],
        "prob": [float(cf.proba[k]) for cf in answers],
        "distance": [cf.distance for cf in answers],
        "n_changed": [int(cf.n_changes) for cf in answers],
        "status": [NAMES[cf.status] for cf in answers],
    }
    return {**found, "x": [request.served.columns.plain(cf.x, named=request.named) for cf in answers]} if x else found


def as_file(served: Served, cf: Counterfactual, kind: str) -> str:
    """An answer as a page, as the receipt that ``ifonly.verify`` rechecks, or as a table."""
    if kind == "json":
        return cf.to_json() + "\n"
    if kind == "html":
        return html(cf, shape=served.image)
    table, out = cf.table(), io.StringIO()
    csv.writer(out).writerows([table.columns, *(map(_cell, row) for row in table.rows)])
    return out.getvalue()


def _cell(v: Any) -> Any:
    """A value in a CSV: NaN is empty, and no spreadsheet takes a text for a formula."""
    if isinstance(v, str) and v.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{v}"
    return "" if isinstance(v, float) and math.isnan(v) else v


# ---- the data ----


def rows_page(served: Served, offset: int, limit: int, text: str, label: str | None, values: bool) -> dict[str, Any]:
    """A page of the data, or of the rows in it that match."""
    rows = served.rows
    if rows is None:
        raise RefusedError(f"model {served.name!r} is served without data", "model", 404)
    total = rows.data.total
    if text.strip() or label is not None:
        if label is not None and label not in served.class_names:
            known = listed(served.class_names, TOP_CLASSES)
            raise RefusedError(f"class must be one of the model's, {known}; got {label[:40]!r}", "class")
        wanted = None if label is None else served.class_names.index(label)
        index, matched = rows.search(text.strip().lower(), wanted).page(offset, limit)
    else:
        index, matched = list(range(total)[offset : offset + limit]), total
    told = rows_told(served, index, values=values) if index else []
    return {"total": total, "matched": matched, "offset": offset, "rows": told}


def rows_told(served: Served, index: list[int], *, values: bool = True) -> list[dict[str, Any]]:
    """Rows of the data, and what the model makes of them."""
    rows = served.rows
    assert rows is not None
    page, keys = rows.take(index), rows.features.keys
    found = []
    for i, row in enumerate(index):
        told = {"index": row, "keys": dict(zip(keys, page.cells(i, keys), strict=True))}
        if values:
            told["values"] = dict(zip(served.columns.names, page.values(i), strict=True))
        z, problem, predicted, proba = page.scores[i], page.bad.get(i), None, None
        if problem is None and not np.isfinite(z).all():
            problem = "a value is none that its column can have"
        if problem is None:
            predicted = served.model.label(int(z.argmax()))
        if problem is None and not served.model.hard:
            p = softmax(z)
            best = np.argsort(-p, kind="stable")[:TOP_CLASSES].tolist()
            proba = {served.class_names[k]: float(p[k]) for k in best}
        found.append({**told, "predicted": predicted, "proba": proba, "problem": problem})
    return found


def overview(served: Served) -> dict[str, Any]:
    """Histograms of all columns, and some of the rows to draw."""
    rows = served.rows
    if rows is None:
        raise RefusedError(f"model {served.name!r} is served without data", "model", 404)
    sample, columns = rows.sampled, served.description["features"]
    if served.image is not None or len(columns) > COLUMNS:  # pixels of a picture, or more than anybody looks at
        columns = []
    features = [{"name": told["name"], **_histogram(told, sample.column(i))} for i, told in enumerate(columns)]
    return {"total": rows.data.total, "sampled": len(sample.index), "features": features, "points": _points(served, sample)}


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
    told = {"distance": float(np.sqrt(squares.min())), "n_differs": len(parts), "differs": differs[:DIFFERENCES]}
    return {"index": int(sample.index[best]), **told, "searched": len(sample.index)}


def curves(served: Served, row: Any, k: int, names: list[str]) -> list[dict[str, Any]]:
    """How class k fares as one feature moves and all others stay: its probability, or its lead where there are none."""
    columns, model = served.columns, served.model
    found = []
    for name in names:
        place = columns.names.index(name)
        values = _grid(served, served.description["features"][place], row[place] if model.encoding.identity else None, place)
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
