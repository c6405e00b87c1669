"""The main job in a terminal: ``python -m ifonly.cli.walkthrough``. Needs scikit-learn and pandas, no network."""

import importlib.util
import io
import sys
from pathlib import Path
from statistics import median
from textwrap import indent
from timeit import repeat
from typing import Any

import ifonly
from ifonly.cli import credit
from ifonly.model.extras import missing

__all__ = ["main"]

REPEATS = 50  # calls of which the median time is shown
PAGE = "ifonly-demo.html"


def main(page: str = PAGE) -> None:
    """Train the credit example, and explain one refused applicant in the terminal and on a page."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # arrows and dashes, also where the terminal's default lacks them
    if any(importlib.util.find_spec(name) is None for name in ("sklearn", "pandas")):
        raise missing("the demo needs scikit-learn and pandas", "sklearn")
    print(f"ifonly {ifonly.__version__}: the smallest change to an input that gives the decision you want, with a proof\n")

    frame = credit.applicants()
    train, held_out = frame.iloc[:800], frame.iloc[800:]
    bank = credit.pipeline(train)
    refused = held_out[bank.predict(held_out) == "refused"].drop(columns="decision")
    print(f"A bank's model: logistic regression on 7 numbers and 13 categories, fitted to {len(train)} applicants.")
    print(f"It refuses {len(refused)} of {len(held_out)} others. One of them:\n")

    ask = ifonly.ask(bank, "approved", prob=0.6, actions=credit.actions())
    applicant = refused.iloc[[3]]
    cf = ask(applicant)[0]
    _indented(applicant.iloc[0].to_dict())
    print("\nWhat may not change: age, status, history and the like. Months, amounts and rates are whole numbers.\n")
    print(f"  {cf.sentence()}\n")
    print(indent(str(cf.table()), "  "))
    cf.verify()
    found = f"no plan costs less than {cf.result.bound:.6g}, and this one costs {cf.cost:.6g}"
    print(f"\n  Proof: {found} ({cf.result.n_nodes} nodes searched).")
    print(f"  Checked: the bank's own predict says {bank.predict(cf.x)[0]!r}, p = {bank.predict_proba(cf.x)[0, 0]:.4f}.")
    timed = (lambda: ask(applicant), lambda: bank.predict_proba(applicant))
    ours, theirs = (median(repeat(call, number=1, repeat=REPEATS)) for call in timed)
    print(f"  Time: {1e3 * ours:.1f} ms; the pipeline's own predict_proba takes {1e3 * theirs:.1f} ms.")

    print(f"\nAll {len(refused)} who were refused, in one call:\n")
    print(indent(str(ask(refused).summary()), "  "))

    cf.to_html(page)
    print(f"\nA page with a slider for the wanted probability: {Path(page).resolve()}")


def _indented(row: dict[str, Any]) -> None:
    line = ""
    for cell in (f"{name} {value}" for name, value in row.items()):
        if len(line) + len(cell) > 96:
            print(f"  {line.rstrip(' ·')}")
            line = ""
        line += f"{cell} · "
    print(f"  {line.rstrip(' ·')}")


if __name__ == "__main__":
    main()
