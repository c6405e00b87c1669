"""From the library's answers to JSON, and to the files that are handed out."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual, Counterfactuals
from ifonly.answers.change import Change, Decision, moves
from ifonly.model.numerics import softmax
from ifonly.problem.status import Status
from ifonly.server.models import Served
from ifonly.server.questions import Request
from ifonly.server.wire import RefusedError, listed
from ifonly.show.numbers import housed
from ifonly.show.page import html
from ifonly.show.page.scene import packed
from ifonly.show.sentence import Worded, worded
from ifonly.show.table import certificate_words, printed

__all__ = ["FORMATS", "Answer", "as_file", "as_page", "curve", "of_answer", "of_batch"]
__all__ += ["rows_page", "rows_told"]

AGAIN = "The receipt can be rechecked from the model alone."
TOP_CLASSES = 5  # of a row in a list
TOLD = ("prob", "lam", "distance", "cost", "objective", "gap", "grad_norm", "n_iter", "message")  # of an answer, as they are
Answer = dict[str, Any]  # as JSON has it
NAMES = {status: status.name.lower() for status in Status}


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
        index, matched = list(range(min(offset, total), min(offset + limit, total))), total
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


def as_file(served: Served, cf: Counterfactual, kind: str) -> str:
    """An answer as a page, as the receipt that ``ifonly.verify`` rechecks, or as a table."""
    if kind == "json":
        return cf.to_json() + "\n"
    return html(cf, shape=served.image) if kind == "html" else _csv(cf)


HTML = "text/html; charset=utf-8"
FORMATS = {"json": "application/json", "html": HTML, "csv": "text/csv; charset=utf-8", "letter": HTML}


def _csv(cf: Counterfactual) -> str:
    """A table; NaN is empty, and no spreadsheet takes a text in it for a formula."""

    def cell(v: Any) -> Any:
        if isinstance(v, str):
            return f"'{v}" if v.startswith(("=", "+", "-", "@", "\t", "\r")) else v
        return "" if isinstance(v, float) and math.isnan(v) else v

    table, out = cf.table(), io.StringIO()
    csv.writer(out).writerows([table.columns, *(map(cell, row) for row in table.rows)])
    return out.getvalue()
