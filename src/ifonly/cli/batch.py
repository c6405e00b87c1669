"""``ifonly batch``: a file of rows to a file of answers, in bounded memory; a killed run goes on where it stopped."""

import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn

from ifonly.cli.options import GoalOptions, Json, LimitOptions, ModelFile, Trust, ask_from, emit, open_model, with_groups
from ifonly.model.errors import InputError
from ifonly.show.table import visible

__all__ = ["batch"]

TELLING = 10_000  # rows from which their rate says more about them than about how long it took to begin
LISTED = 5  # bad rows that are shown; all of them are in the output, with the reason


@with_groups
def batch(
    model: ModelFile,
    source: Annotated[Path, typer.Argument(metavar="IN", help="Rows: .csv, .parquet, .arrow, or a folder of those.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Answers: .parquet, .csv, .arrow, or a folder for Parquet parts.")],
    goal: GoalOptions,
    limits: LimitOptions,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="NAME", help="A column to hand through; by default all that are no features."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Write every feature's value, not only those that change.")] = False,
    chunk_rows: Annotated[int | None, typer.Option("--chunk-rows", min=1, help="Rows that are solved at once.")] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="How many cores to use; by default all.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT, or parts of another run.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if any row is bad.")] = False,
    trust_pickle: Trust = False,
    as_json: Json = False,
) -> None:
    """The least change for every row of a file.

    Rows are read, solved and written a part at a time, whatever their number. If the run is stopped or killed, the same
    command goes on where it was, and the result is the same. A bad row does not stop it: its status is INVALID, and the
    reason is beside it.

    [bold]Examples[/bold]

    ifonly batch credit.npz people.parquet answers.parquet --target approved --prob 0.8

    ifonly batch credit.npz people.csv answers.csv --key id --freeze age --integer loans
    """
    from ifonly.frames import count_rows, write_parts

    ask = ask_from(open_model(model, trust=trust_pickle), goal, limits, threads=threads)
    how: dict[str, Any] = {"keys": key, "columns": "all" if every else "changed", "chunk_rows": chunk_rows}
    began = perf_counter()
    total = count_rows(source)
    with _bar() as bar:
        task = bar.add_task("rows", total=total)
        how["on_rows"] = lambda rows: bar.update(task, completed=rows)
        try:
            written = write_parts(ask.model, source, out, **vars(ask.question), **how, overwrite=overwrite)
        except InputError as error:
            raise InputError(str(error).replace("overwrite=True", "--overwrite")) from None
        except KeyboardInterrupt:
            done = bar.tasks[task].completed
            raise KeyboardInterrupt(f"stopped after {done:,} rows; the same command goes on where it was") from None
    told = asdict(written)
    found = {"out": str(told.pop("path")), **told, "seconds": round(perf_counter() - began, 3)}
    n_bad = written.statuses.get("INVALID", 0)
    if as_json:
        emit(found)
    else:
        _show(found, n_bad)
    if strict and n_bad:
        raise typer.Exit(1)


def _show(found: dict[str, Any], n_bad: int) -> None:
    fresh = found["rows"] - found["resumed"]
    rate = f" ({fresh / found['seconds']:,.0f} a second)" if fresh >= TELLING else ""
    earlier = f", {found['resumed']:,} of them by an earlier run" if found["resumed"] else ""
    typer.echo(f"{visible(found['out'])}: {found['rows']:,} rows{earlier}{rate}")
    for status, count in found["statuses"].items():
        typer.echo(f"  {status:<12}{count:>12,}")
    if n_bad:
        typer.echo(f"bad rows, counted from 0 ({min(LISTED, n_bad)} of {n_bad:,}):")
        for bad in found["bad"][:LISTED]:
            typer.echo(f"  row {bad['row']}: {visible(bad['reason'])}")


class _Rate(ProgressColumn):
    """Rows a second."""

    def render(self, task: Task) -> str:
        speed = task.finished_speed or task.speed
        return "" if speed is None else f"{speed:,.0f}/s"


def _bar() -> Progress:
    """A progress bar on stderr, if someone is looking."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
