"""``ifonly explain``: one row, and what would have to change."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

import ifonly
from ifonly.answer import Counterfactual
from ifonly.cli.options import (
    L1,
    Bounds,
    Data,
    Decrease,
    Freeze,
    Increase,
    Integer,
    Json,
    Keys,
    Lam,
    Margin,
    MaxChanges,
    ModelFile,
    Prob,
    Row,
    Scale,
    Step,
    Target,
    Trust,
    actions_from,
    console,
    cost_from,
    emit,
    one_row,
    open_model,
    target_from,
)
from ifonly.cost import Cost
from ifonly.model import Model

__all__ = ["changes", "described", "explain", "show"]


def explain(
    model: ModelFile,
    data: Data,
    row: Row = 0,
    target: Target = None,
    prob: Prob = None,
    lam: Lam = None,
    margin: Margin = None,
    freeze: Freeze = None,
    bounds: Bounds = None,
    increase: Increase = None,
    decrease: Decrease = None,
    integer: Integer = None,
    step: Step = None,
    max_changes: MaxChanges = None,
    scale: Scale = "model",
    l1: L1 = 0.0,
    key: Keys = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the answer to this file.")] = None,
    trust_pickle: Trust = False,
    as_json: Json = False,
) -> None:
    """What is the least that would have to change in one row?

    [bold]Examples[/bold]

    ifonly explain credit.npz people.csv --row 17 --target approved --prob 0.8

    ifonly explain credit.npz people.csv --freeze age --bounds income:0: --max-changes 3

    ifonly explain credit.npz people.csv --row 17 --html page.html
    """
    classifier = open_model(model, trust=trust_pickle)
    wanted = target_from(classifier, target)
    actions = actions_from(classifier, freeze, bounds, increase, decrease, integer, step)
    cost = cost_from(scale, l1)
    x = one_row(classifier, data, row, key)
    question = {"lam": lam, "prob": prob, "margin": margin, "cost": cost, "actions": actions, "max_changes": max_changes}
    cf = ifonly.invert(classifier, x, wanted, **question)
    assert isinstance(cf, Counterfactual)
    found = {"row": row, **described(classifier, x, cf, cost)}
    if as_json:
        emit(found)
    else:
        show(found, f"{data}, row {row}")
    if html is not None:
        write_html(cf, html, quiet=as_json)
    if cf.status is ifonly.Status.UNREACHABLE:
        raise typer.Exit(1)


def described(model: Model, x: Any, cf: Counterfactual, cost: Cost | None) -> dict[str, Any]:
    """An answer as plain values."""
    k = model.class_index(cf.target)
    before = None if model.hard else float(model.predict_proba(x)[k])
    found = changes(model, x, cf, cost or Cost())
    n_columns = model.n_features if model.encoding is None else len(model.encoding.names)
    return {
        "predicted": model.label(int(np.argmax(model.logits(x)))),
        "target": cf.target,
        "probability_before": before,
        "probability": None if model.hard else float(cf.proba[k]),
        "wanted": cf.prob,
        "distance": cf.distance,
        "cost": cf.cost,
        "gap": cf.gap,
        "lam": cf.lam,
        "status": cf.status.name,
        "message": cf.message,
        "features": n_columns,
        "changes": found,
    }


def changes(model: Model, x: Any, cf: Counterfactual, cost: Cost) -> list[dict[str, Any]]:
    """What changed, by column, the dearest first."""
    t = np.abs(cf.delta) * cost.per_unit(model)
    encoding: Any = model.encoding
    names = (
        [model.feature_label(d) for d in range(model.n_features)] if encoding is None else [c.name for c in encoding.columns]
    )
    places = [np.array([d]) for d in range(len(t))] if encoding is None else [c.coordinates for c in encoding.columns]
    moved = [i for i, at in enumerate(places) if t[at].any()]
    moved.sort(key=lambda i: -float(t[places[i]] @ t[places[i]]))

    def cell(values: Any, i: int) -> Any:
        value = values[i] if encoding is None else values[names[i]]
        return value.item() if hasattr(value, "item") else value

    return [{"feature": names[i], "from": cell(x, i), "to": cell(cf.x, i)} for i in moved]


def show(found: dict[str, Any], title: str) -> None:
    """An answer in words and a table."""
    out = console()
    before, after = found["probability_before"], found["probability"]
    p = "" if after is None else f", p({found['target']}) = {before:.4f} → {after:.4f}"
    out.print(f"{title}: now {found['predicted']}, wanted {found['target']}{p}", markup=False)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column(f"{len(found['changes'])} of {found['features']} features change")
    for name in ("from", "to", "by"):
        table.add_column(name, justify="right")
    for change in found["changes"]:
        table.add_row(change["feature"], _number(change["from"]), _number(change["to"]), _difference(change))
    if found["changes"]:
        out.print(table)
    proof = "" if found["status"] == "UNREACHABLE" else f", at most {found['gap']:.1e} above the least"
    out.print(f"distance {found['distance']:.6g}, cost {found['cost']:.6g}{proof}", markup=False)
    out.print(f"{found['status']}: {found['message']}", markup=False, soft_wrap=True)


def write_html(cf: Any, path: Path, *, quiet: bool) -> None:
    """The answer as a page."""
    if not hasattr(cf, "to_html"):
        raise ImportError('--html needs the report pages: pip install "ifonly[report]"')
    cf.to_html(path)
    if not quiet:
        typer.echo(f"page: {path}")


def _number(value: Any) -> str:
    """A number with a true minus, or a category's name."""
    return f"{value:.6g}".replace("-", "−") if _is_number(value) else str(value)


def _difference(change: dict[str, Any]) -> str:
    before, after = change["from"], change["to"]
    return f"{after - before:+.6g}".replace("-", "−") if _is_number(before) and _is_number(after) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
