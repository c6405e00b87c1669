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
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.timing import blas_threads
from experiments import datasets, page, store, style
from experiments.datasets import BINARY, HUNDRED, ROOT, SOFTMAX, load

SCRIPTS = (
    "table1",
    "agreement",
    "figure2",
    "figure3",
    "table2",
    "figure5",
    "figure7",
    "figure8",
    "figure1",
    "figure4",
    "logistic",
    "figure6",
)
FIGURES = ROOT / "docs" / "paper"


def say(text: str) -> None:
    """Progress, to stderr."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def measure(name: str, *, full: bool) -> None:
    """Run a script and keep its rows, BLAS on one thread."""
    script = import_module(f"experiments.{name}")
    start = time.perf_counter()
    with blas_threads(1):
        frame = store.save(name, script.measure(full=full), script.NOTE, full=full)
    say(f"{name}: {len(frame)} rows in {time.perf_counter() - start:.0f} s")


def draw(name: str, folder: Path) -> None:
    """The figure of a script that has one, from its file."""
    script: Any = import_module(f"experiments.{name}")
    if hasattr(script, "draw"):
        folder.mkdir(exist_ok=True)
        style.save(script.draw(store.read(name)), folder / f"{name}.png")


def measure_all(names: Sequence[str], *, full: bool) -> None:
    """Run the scripts of these names."""
    if set(names) == set(SCRIPTS):
        for name in (*SOFTMAX, HUNDRED, *BINARY):  # trained on all cores, before the threads are limited
            load(name)
        say("classifiers are there")
    for name in names:
        measure(name, full=full)


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
