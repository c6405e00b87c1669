"""``ifonly bench``: what an answer costs on this machine, in units of what the machine must do at least."""

from collections.abc import Callable, Iterator
from statistics import median
from timeit import timeit
from typing import Annotated, Any

import numpy as np
from rich.table import Column, Table
from typer import Option

import ifonly
from ifonly.cli.options import Json, console, emit
from ifonly.engines.row_loops import any_cut
from ifonly.model import Model
from ifonly.problem.question import Backend

__all__ = ["bench"]

LAM = 0.01

Case = tuple[str, str, Callable[[], Any], Callable[[], Any], int]  # work and floor in words, both as calls, and the rows


def bench(
    repeats: Annotated[int, Option("--repeats", min=1, help="Calls of each, of which the median counts.")] = 15,
    as_json: Json = False,
) -> None:
    """How fast is it here? A small benchmark: the time of an answer in units of two matrix products.

    [bold]Example[/bold]

    ifonly bench --repeats 30
    """
    found = [_measured(case, repeats) for case in _cases(np.random.default_rng(0))]
    if as_json:
        emit({"version": ifonly.__version__, "cases": found})
        return
    numbers = (Column(name, justify="right") for name in ("a row", "× floor"))
    table = Table("work", "floor", *numbers, show_edge=False, pad_edge=False)
    for case in found:
        table.add_row(case["work"], case["floor"], f"{1e6 * case['seconds_per_row']:.2f} µs", f"{case['ratio']:.2f}")
    console().print(table)


def _cases(rng: np.random.Generator) -> Iterator[Case]:
    """Some work, and the floor: what any method must do to read the sources and write the answers.

    Sources and models are random numbers: what it costs does not depend on what they mean.
    """
    A, b, x, y = rng.normal(size=(16, 8192)) / 90, rng.normal(size=16), rng.normal(size=8192), rng.normal(size=16)
    wide = Model(A, b)
    yield "one row, D = 8192, K = 16", "A x, Aᵀ y", lambda: _ask(wide)(x).x, lambda: (A @ x, A.T @ y), 1
    B, c, X, Y = rng.normal(size=(10, 784)) / 28, rng.normal(size=10), rng.normal(size=(4000, 784)), rng.normal(size=(4000, 10))
    table = Model(B, c)
    yield "4000 rows, D = 784, K = 10", "X Aᵀ, Y A", lambda: _ask(table, any_cut())(X).x, lambda: (X @ B.T, Y @ B), len(X)
    w, z = rng.normal(size=(1, 784)) / 28, rng.normal(size=(4000, 1))
    pair = Model.binary(w[0], 0.1)
    yield "4000 rows, D = 784, K = 2", "X w, y wᵀ", lambda: _ask(pair, any_cut())(X).x, lambda: (X @ w.T, z @ w), len(X)


def _ask(model: Model, backend: Backend = "auto") -> ifonly.Ask:
    return ifonly.ask(model, 1, lam=LAM, backend=backend)


def _measured(case: Case, repeats: int) -> dict[str, Any]:
    """The times of a case, the two in turn so that what else the machine does strikes both."""
    name, floor, work, least, rows = case
    times = [[timeit(call, number=1) for call in (work, least)] for _ in range(repeats + 1)]
    seconds, floor_seconds = map(median, zip(*times[1:], strict=True))  # the first is for the caches
    return {"work": name, "floor": floor, "seconds_per_row": seconds / rows, "ratio": seconds / floor_seconds}
