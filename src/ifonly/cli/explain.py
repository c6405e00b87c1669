"""``ifonly explain``: one row, and what would have to change."""

from pathlib import Path
from typing import Annotated

import typer

from ifonly.answers import Counterfactual
from ifonly.cli import options
from ifonly.problem.status import Status
from ifonly.show.table import certificate_words, decisions

__all__ = ["explain", "show"]

AGAIN = "--json prints a record of it, which ifonly.verify rechecks from the model alone."


@options.with_groups
def explain(
    model: options.ModelFile,
    data: options.Data,
    goal: options.GoalOptions,
    limits: options.LimitOptions,
    row: options.Row = 0,
    key: options.Keys = None,
    plans: Annotated[
        int | None, typer.Option("--plans", min=1, help="Several plans, which differ in what changes; the cheapest first.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the answer to this file.")] = None,
    letter: Annotated[
        Path | None, typer.Option("--letter", help="Write a letter to the person, .html or .txt, with up to three plans.")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="Of the letter: en, de, fr or es; by default the policy's.")
    ] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="What the letter is about, such as a number.")] = None,
    trust_pickle: options.Trust = False,
    as_json: options.Json = False,
) -> None:
    """What is the least that would have to change in one row?

    [bold]Examples[/bold]

    ifonly explain credit.npz people.csv --row 17 --target approved --prob 0.8

    ifonly explain credit.npz people.csv --freeze age --bounds income:0: --max-changes 3

    ifonly explain credit.npz people.csv --row 17 --html page.html

    ifonly explain credit.npz people.csv --row 17 --target approved --plans 3 --letter letter.html --language de
    """
    classifier = options.open_model(model, trust=trust_pickle)
    ask = options.ask_from(classifier, goal, limits, n=plans)
    found = ask(options.one_row(classifier, data, row, key))
    answers: list[Counterfactual] = [found] if plans is None else list(found)
    if as_json:
        typer.echo(found.to_json() if plans is None else f"[{', '.join(cf.to_json() for cf in answers)}]")
    else:
        for i, cf in enumerate(answers):
            plan = f", plan {i + 1} of {len(answers)}" if len(answers) > 1 else ""
            show(cf, f"{chr(10) if i else ''}{data}, row {row}{plan}")
    if html is not None:
        found.to_html(html)  # of plans: a card for each
    if letter is not None:
        words = {"language": language, "reference": reference}
        if letter.suffix.lower() in (".html", ".htm"):
            found.to_html(letter, template="letter", **words)
        else:
            letter.write_text(found.letter(**words) + "\n", encoding="utf-8", newline="\n")
    for what, file in (("page", html), ("letter", letter)):
        if file is not None and not as_json:
            typer.echo(f"{what}: {file}")
    if answers[0].status is Status.UNREACHABLE:
        raise typer.Exit(1)


def show(cf: Counterfactual, title: str) -> None:
    """An answer in a sentence, a table, and what is known for certain."""
    parts = [f"{title}: {decisions(cf)}"]
    if cf.changes() and cf.status.ok:
        parts.append(cf.sentence())
    if cf.changes():
        parts.append(str(cf.table()))
    typer.echo("\n\n".join([*parts, certificate_words(cf, AGAIN)]))
