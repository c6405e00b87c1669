"""``ifonly explain``: one row, and what would have to change."""

from pathlib import Path
from typing import Annotated

import typer

import ifonly
from ifonly.answers import Counterfactual
from ifonly.cli import options
from ifonly.problem.status import Status
from ifonly.show.table import certificate_words, decisions

__all__ = ["explain", "show"]


@options.with_groups
def explain(
    model: options.ModelFile,
    data: options.Data,
    goal: options.GoalOptions,
    limits: options.LimitOptions,
    row: options.Row = 0,
    key: options.Keys = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the answer to this file.")] = None,
    trust_pickle: options.Trust = False,
    as_json: options.Json = False,
) -> None:
    """What is the least that would have to change in one row?

    [bold]Examples[/bold]

    ifonly explain credit.npz people.csv --row 17 --target approved --prob 0.8

    ifonly explain credit.npz people.csv --freeze age --bounds income:0: --max-changes 3

    ifonly explain credit.npz people.csv --row 17 --html page.html
    """
    classifier = options.open_model(model, trust=trust_pickle)
    ask = ifonly.Ask(classifier, options.question_from(classifier, goal, limits))
    cf: Counterfactual = ask(options.one_row(classifier, data, row, key))
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
