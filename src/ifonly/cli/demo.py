"""``ifonly demo``: a bank's model, one applicant whom it refuses, and what would have to change."""

from pathlib import Path
from typing import Annotated

import typer

from ifonly.api import invert
from ifonly.cli.options import Json

__all__ = ["demo"]


def demo(
    html: Annotated[Path, typer.Option("--html", help="Where to write the page.")] = Path("ifonly-demo.html"),
    as_json: Json = False,
) -> None:
    """See it at work, on an example that needs no files.

    [bold]Example[/bold]

    ifonly demo --html page.html
    """
    from ifonly.cli import credit, walkthrough

    if not as_json:
        walkthrough.main(str(html))
        return
    frame = credit.applicants()
    bank = credit.pipeline(frame.iloc[:800])
    others = frame.iloc[800:].drop(columns="decision")
    applicant = others[bank.predict(others) == "refused"].iloc[0]
    typer.echo(invert(bank, applicant, "approved", prob=0.6, actions=credit.actions()).to_json())
