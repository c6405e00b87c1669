"""``make paper``: measure, keep, draw, and put the numbers into docs/paper.md.

python -m experiments.run                     everything, at the size of ``make paper``
python -m experiments.run --full              … all 50 problems for slow methods too
python -m experiments.run figure1 table2      only these
python -m experiments.run --draw              nothing is measured: figures and page from the files
"""

import argparse
import sys
import time
from importlib import import_module
from typing import Any

from benchmarks.timing import blas_threads
from experiments import page, store, style
from experiments.datasets import BINARY, HUNDRED, ROOT, SOFTMAX, load

SCRIPTS = (
    "table1",
    "agreement",
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "logistic",
    "table2",
    "figure5",
    "figure6",
    "figure7",
    "figure8",
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


def draw(name: str) -> None:
    """The figure of a script that has one, from its file."""
    script: Any = import_module(f"experiments.{name}")
    if hasattr(script, "draw"):
        FIGURES.mkdir(exist_ok=True)
        style.save(script.draw(store.read(name)), FIGURES / f"{name}.png")


def main(*names: str) -> None:
    """Run the scripts of these names; without any, those of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help=f"of {', '.join(SCRIPTS)}; all if none is given")
    parser.add_argument("--full", action="store_true", help="all problems for slow methods too")
    parser.add_argument("--draw", action="store_true", help="measure nothing; draw from the files")
    options = parser.parse_args()
    wanted = names or options.scripts or SCRIPTS
    unknown = set(wanted) - set(SCRIPTS)
    if unknown:
        parser.error(f"expected some of {', '.join(SCRIPTS)}; got {', '.join(sorted(unknown))}")
    if not options.draw:
        if set(wanted) == set(SCRIPTS):
            for name in (*SOFTMAX, HUNDRED, *BINARY):  # trained on all cores, before the threads are limited
                load(name)
            say("classifiers are there")
        for name in wanted:
            measure(name, full=options.full)
    for name in wanted:
        draw(name)
    page.write()


if __name__ == "__main__":
    main()
