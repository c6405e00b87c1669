"""The commands, put together."""

from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

import ifonly
from ifonly.cli.batch import batch
from ifonly.cli.bench import bench
from ifonly.cli.demo import demo
from ifonly.cli.explain import explain
from ifonly.cli.info import info
from ifonly.cli.path import path
from ifonly.cli.policy import check, draft
from ifonly.cli.serve import serve

__all__ = ["app"]


def _plain(kind: Any) -> Any:
    """A kind of command whose help shows flags without a type: they take no value."""

    def get_params(self: Any, ctx: Any) -> list[Any]:
        found = kind.get_params(self, ctx)
        for param in found:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return found

    return type(kind.__name__, (kind,), {"get_params": get_params})


Command, Group = _plain(TyperCommand), _plain(TyperGroup)
HOW: dict[str, Any] = {"cls": Group, "no_args_is_help": True, "rich_markup_mode": "rich"}
ABOUT_POLICIES = "A policy: what a house decides once about what may change, and what things are called."
app = typer.Typer(name="ifonly", pretty_exceptions_enable=False, **HOW)
policies = typer.Typer(name="policy", help=ABOUT_POLICIES, **HOW)


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
    app.command(cls=Command)(command)
for command in (draft, check):
    policies.command(cls=Command)(command)
app.add_typer(policies)
