"""``make paper``: measure, keep, draw, and put the numbers into docs/paper.md.

python -m experiments.run                     everything, at the size of ``make paper``
python -m experiments.run --full              … all 50 problems for slow methods too
python -m experiments.run figure1 table2      only these
python -m experiments.run --draw              nothing is measured: figures and page from the files
python -m experiments.run --quick             does it run? small random data, and nothing is kept
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.timing import blas_threads, load, machine, moment, others
from experiments import datasets, page, store, style
from experiments.datasets import BINARY, HUNDRED, ROOT, SOFTMAX
from experiments.store import SCRIPTS

QUIET = 0.1  # cores that other processes may keep busy, of those that the run may use
FIGURES = ROOT / "docs" / "paper"


def say(text: str) -> None:
    """Progress, to stderr."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def measure(name: str, run: dict[str, Any], *, full: bool) -> None:
    """Run a script and keep its rows, BLAS on one thread; with them, the machine, and what others did on it meanwhile."""
    script = import_module(f"experiments.{name}")
    about = run | {"note": script.NOTE, "size": "paper-full" if full else "paper", "machine": machine()}
    start, began = moment(), time.perf_counter()
    with blas_threads(1):
        rows = script.measure(full=full)
    about |= {"others": others(start, moment()), "load after": load(), "seconds": round(time.perf_counter() - began)}
    frame = store.save(name, rows, about)
    say(f"{name}: {len(frame)} rows in {about['seconds']} s")
    if (taken := about["others"].get("ours", 0.0)) > QUIET:
        say(f"{name}: others kept {taken} of our cores busy, more than {QUIET}: its times are too long; measure it again")


def draw(name: str, folder: Path) -> None:
    """The figure of a script that has one, from its file."""
    script: Any = import_module(f"experiments.{name}")
    if hasattr(script, "draw"):
        folder.mkdir(exist_ok=True)
        style.save(script.draw(store.read(name)), folder / f"{name}.png")


def measure_all(names: Sequence[str], *, full: bool) -> None:
    """Run the scripts of these names."""
    run = {"run": datetime.now(UTC).strftime("%Y-%m-%d, %H:%M UTC"), "load before": load()}
    if set(names) == set(SCRIPTS):
        for name in (*SOFTMAX, HUNDRED, *BINARY):  # trained on all cores, before the threads are limited
            datasets.load(name)
        say("classifiers are there")
    for name in names:
        measure(name, run, full=full)


def quick(names: Sequence[str], *, full: bool, measured: bool) -> None:
    """The same on small random data, into a folder that is then removed; the page is made, and not written."""
    with tempfile.TemporaryDirectory() as folder:
        if not measured:
            datasets.TOYS, store.RESULTS = True, Path(folder)
            measure_all(names, full=full)
        for name in names:
            draw(name, Path(folder))
        if set(names) == set(SCRIPTS):
            page.filled(page.PAGE.read_text())
    say("all of it runs; nothing was kept")


def main() -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help=f"of {', '.join(SCRIPTS)}; all if none is given")
    parser.add_argument("--full", action="store_true", help="all problems for slow methods too")
    parser.add_argument("--draw", action="store_true", help="measure nothing; draw from the files")
    parser.add_argument("--quick", action="store_true", help="small random data, nothing kept")
    options = parser.parse_args()
    wanted = options.scripts or SCRIPTS
    unknown = set(wanted) - set(SCRIPTS)
    if unknown:
        parser.error(f"expected some of {', '.join(SCRIPTS)}; got {', '.join(sorted(unknown))}")
    if options.quick:
        quick(wanted, full=options.full, measured=options.draw)
        return
    if not options.draw:
        measure_all(wanted, full=options.full)
    for name in wanted:
        draw(name, FIGURES)
    page.write()


if __name__ == "__main__":
    main()
