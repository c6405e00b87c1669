"""The commands, put together."""

from typing import Annotated

import typer
from typer import Option

import ifonly
from ifonly.cli.batch import batch
from ifonly.cli.bench import bench
from ifonly.cli.demo import demo
from ifonly.cli.explain import explain
from ifonly.cli.info import info
from ifonly.cli.path import path
from ifonly.cli.serve import serve

__all__ = ["app"]

app = typer.Typer(name="ifonly", no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ifonly {ifonly.__version__}")
        raise typer.Exit


@app.callback(epilog="Exit codes: 0 done, 1 failed or out of reach, 2 wrong input, 130 stopped by Ctrl-C.")
def ifonly_(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Say which version this is.")] = False,
    debug: Annotated[bool, Option("--debug", help="Show where an error comes from (anywhere in the line).")] = False,
) -> None:
    """The smallest change to an input that gives the decision you want from a linear classifier, exactly and with a proof."""


for command in (demo, explain, batch, path, serve, info, bench):
    app.command()(command)
