"""``ifonly demo``: a bank's model, one applicant whom it refuses, and what would have to change."""

import io
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from textwrap import indent
from timeit import repeat
from typing import Annotated, Any

import typer

import ifonly
from ifonly.cli.options import Json
from ifonly.model.extras import missing

__all__ = ["demo"]

REPEATS = 50  # calls of which the median time is shown


def demo(
    html: Annotated[Path, typer.Option("--html", help="Where to write the page.")] = Path("ifonly-demo.html"),
    as_json: Json = False,
) -> None:
    """See it at work, on an example that needs no files.

    [bold]Example[/bold]

    ifonly demo --html page.html
    """
    from ifonly.cli import credit

    if not as_json:
        _begin()
    frame = credit.applicants()
    train, held_out = frame.iloc[:800], frame.iloc[800:]
    bank = credit.pipeline(train)
    refused = held_out[bank.predict(held_out) == "refused"].drop(columns="decision")
    ask = ifonly.ask(bank, "approved", prob=0.6, actions=credit.actions())
    if as_json:
        typer.echo(ask(refused.iloc[0]).to_json())
        return
    typer.echo(f"A bank's model: logistic regression on 7 numbers and 13 categories, fitted to {len(train)} applicants.")
    typer.echo(f"It refuses {len(refused)} of {len(held_out)} others. One of them:\n")
    _walk(bank, ask, refused, html)


def _begin() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # arrows and dashes, also where the terminal's default lacks them
    if any(find_spec(name) is None for name in ("sklearn", "pandas")):
        raise missing("the demo needs scikit-learn and pandas", "sklearn")
    typer.echo(f"ifonly {ifonly.__version__}: the smallest change to an input that gives the decision you want, with a proof\n")


def _walk(bank: Any, ask: ifonly.Ask, refused: Any, page: Path) -> None:
    """One of those who were refused, with what is known of the answer; all of them; a page."""
    applicant = refused.iloc[[3]]
    cf = ask(applicant)[0]
    _indented(applicant.iloc[0].to_dict())
    typer.echo("\nWhat may not change: age, status, history and the like. Months, amounts and rates are whole numbers.\n")
    typer.echo(f"  {cf.sentence()}\n")
    typer.echo(indent(str(cf.table()), "  "))
    cf.verify()
    found = f"no plan costs less than {cf.result.bound:.6g}, and this one costs {cf.cost:.6g}"
    typer.echo(f"\n  Proof: {found} ({cf.result.n_nodes} nodes searched).")
    typer.echo(f"  Checked: the bank's own predict says {bank.predict(cf.x)[0]!r}, p = {bank.predict_proba(cf.x)[0, 0]:.4f}.")
    timed = (lambda: ask(applicant), lambda: bank.predict_proba(applicant))
    ours, theirs = (median(repeat(call, number=1, repeat=REPEATS)) for call in timed)
    typer.echo(f"  Time: {1e3 * ours:.1f} ms; the pipeline's own predict_proba takes {1e3 * theirs:.1f} ms.")
    typer.echo(f"\nAll {len(refused)} who were refused, in one call:\n")
    typer.echo(indent(str(ask(refused).summary()), "  "))
    cf.to_html(page)
    typer.echo(f"\nA page with a slider for the wanted probability: {page.resolve()}")


def _indented(row: dict[str, Any]) -> None:
    line = ""
    for cell in (f"{name} {value}" for name, value in row.items()):
        if len(line) + len(cell) > 96:
            typer.echo(f"  {line.rstrip(' ·')}")
            line = ""
        line += f"{cell} · "
    typer.echo(f"  {line.rstrip(' ·')}")
