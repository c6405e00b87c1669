"""``ifonly explain``: one row, and what would have to change."""

from pathlib import Path
from typing import Annotated, Any

import typer

import ifonly
from ifonly.answers import Counterfactual
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
    cost_from,
    one_row,
    open_model,
    target_from,
)
from ifonly.problem.status import Status
from ifonly.show.table import certificate_words, decisions

__all__ = ["explain", "show"]


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
    asked: dict[str, Any] = {"lam": lam, "prob": prob, "margin": margin}
    cf = ifonly.invert(classifier, x, wanted, cost=cost, actions=actions, max_changes=max_changes, **asked)
    assert isinstance(cf, Counterfactual)
    if as_json:
        typer.echo(cf.to_json())
    else:
        show(cf, f"{data}, row {row}")
    if html is not None:
        cf.to_html(html)
        if not as_json:
            typer.echo(f"page: {html}")
    if cf.status is Status.UNREACHABLE:
        raise typer.Exit(1)


def show(cf: Counterfactual, title: str) -> None:
    """An answer in a sentence, a table, and what is known for certain."""
    parts = [f"{title}: {decisions(cf)}"]
    if cf.changes() and cf.status.ok:
        parts.append(cf.sentence())
    if cf.changes():
        parts.append(str(cf.table()))
    typer.echo("\n\n".join([*parts, certificate_words(cf)]))
