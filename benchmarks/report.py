"""Tables of a result: times per problem with ratios, where the time of a batch goes, and the goals."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

MARKERS = "<!-- begin table -->", "<!-- end table -->"
COLUMNS = {
    "floor": "floor",
    "auto": "ifonly NumPy",  # of results before it depended on the question alone
    "ifonly": "ifonly",
    "reference": "ifonly reference",
    "cpu": "ifonly cpu",
    "ask": "kept `ask`",
    "ask, prob=0.9": "kept `ask`, prob=0.9",
    "cpu, prob=0.9": "cpu, prob=0.9",
    "cpu, .x": "cpu, .x",
    "one, cpu": "one inversion, cpu",
    "one, reference": "one inversion, reference",
    "paper's Newton": "paper's Newton",
    "L-BFGS-B": "L-BFGS-B",
    "CG": "CG",
    "Clarabel": "Clarabel",
    "predict_proba": "predict_proba",
}
BIG, CSR, PATH = "N = 20 000, farthest", "N = 20 000, farthest, CSR, coefficients only", "path of 100 λ"


def markdown(result: dict[str, Any]) -> str:
    about, rows = result["machine"], result["rows"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    parts = [
        f"{about['cpu']}, {about['cores']} cores; {about['system']}; {about['blas']}; {versions}; commit {about['commit']}; "
        f"load before {about['load before']}; {about['date']}."
    ]
    for threads in sorted({row["threads"] for row in rows}):
        these = [row for row in rows if row["threads"] == threads]
        names = [name for name in COLUMNS if any(name in row["us"] for row in these)]
        body = [
            [row["work"], row["case"], f"{row['D']}, {row['K']}", *(_cell(row["us"], name) for name in names)] for row in these
        ]
        title = f"**{threads} thread{'s'[: threads > 1]}**: µs per problem (ratio to the floor)"
        parts += [title, table(["work", "classifier", "D, K", *(COLUMNS[name] for name in names)], body)]
    parts += ["**Where the time of a batch goes** (`cpu`, one thread)", _stages(rows)]
    gradients = ", ".join(
        f"{name} {value:.0e} ({row['case']})" for row in rows for name, value in row.get("worst gradient", {}).items()
    )
    parts += [f"Largest ‖∇E‖ at which the peers stopped: {gradients}.", "**Goals**", table(_GOAL_HEAD, goals(result))]
    return "\n\n".join(parts)


_GOAL_HEAD = ["work", "against", "measured", "goal"]


def goals(result: dict[str, Any]) -> list[list[str]]:
    """Every goal with what was measured, one thread."""
    us = {(row["work"], row["case"]): row["us"] for row in result["rows"] if row["threads"] == 1}
    iterations = {row["case"]: row["iterations"] for row in result["rows"] if row["work"].startswith("N = 1 000")}
    start = result["start-up"]
    alone = "auto" if any("auto" in times for times in us.values()) else "ifonly"

    def ratio(work: str, case: str, a: str, b: str) -> str:
        times = us[work, case]
        return f"{times[a] / times[b]:.3g} ×"

    one, big, csr, two, k2 = "one source", (BIG, "MNIST"), (CSR, "RCV1"), "deep320 K=2", ("N = 100 000", "random K=2")
    peers = [(name, goal) for name, goal in (("L-BFGS-B", "≥ 100 ×"), ("Clarabel", "≥ 1 000 ×"))]
    per_row = us[big]["cpu"]
    return [
        ["N = 20 000, MNIST, farthest, cpu", "two bare products", ratio(*big, "cpu", "floor"), "≤ 2.5 × (1.5 ×)"],
        ["same", "paper's Newton, per row", ratio(*big, "paper's Newton", "cpu"), "≥ 100 ×"],
        ["same, prob=0.9", "lam=0.01", ratio(*big, "cpu, prob=0.9", "cpu"), "same order"],
        ["one source, deep320", "`A @ x`, `A.T @ y`", ratio(one, "deep320", alone, "floor"), "≤ 1.6 ×"],
        ["one source, deep320, cpu", "same", ratio(one, "deep320", "cpu", "floor"), "≤ 1.6 ×"],
        ["one source, deep320 K=2", "two dots, one axpy", ratio(one, two, alone, "floor"), "≤ 1.6 ×"],
        ["N = 100 000, D = 100, K=2, into out=", "`X @ w`, `X + outer(t, w)`", ratio(*k2, "cpu", "floor"), "≤ 2.5 ×"],
        ["same, new array .x", "same", ratio(*k2, "cpu, .x", "floor"), "≤ 2.5 ×"],
        ["N = 20 000, RCV1 CSR, coefficients only", "`X @ A.T` sparse", ratio(*csr, "cpu", "floor"), "reported"],
        ["path of 100 λ, MNIST, cpu", "one inversion, cpu", ratio(PATH, "MNIST", "cpu", "one, cpu"), "≤ 8 ×"],
        [
            "first model and table, fresh process",
            "those that follow",
            f"{start['first call']:.2f} s more",
            "≤ 0.1 s more",
        ],
        *([f"mean iterations, {case}, cpu", "", f"{iterations[case]:.2f}", "≤ 4"] for case in ("MNIST", "RCV1", "MNIST-100")),
        ["one source, MNIST", "paper's Newton", ratio(one, "MNIST", "paper's Newton", alone), "≥ 2 ×"],
        ["same, a kept `ask`", "paper's Newton", ratio(one, "MNIST", "paper's Newton", "ask"), "≥ 15 ×"],
        ["same, prob=0.9", "paper's Newton for λ", ratio(one, "MNIST", "paper's Newton", "ask, prob=0.9"), "≥ 10 ×"],
        ["one source, RCV1", "paper's Newton", ratio(one, "RCV1", "paper's Newton", alone), "≥ 10 ×"],
        ["one source, deep320", "paper's Newton", ratio(one, "deep320", "paper's Newton", alone), "≥ 10 ×"],
        [
            "path of 100 λ, MNIST, reference",
            "one inversion, same",
            ratio(PATH, "MNIST", "reference", "one, reference"),
            "≤ 40 ×",
        ],
        ["import ifonly", "import numpy, scipy.linalg", f"{start['ifonly'] - start['scipy']:.2f} s more", "≤ 0.3 s more"],
        *(["MNIST, cpu, per row", name, f"{us[one, 'MNIST'][name] / per_row:.3g} ×", goal] for name, goal in peers),
    ]


def aligned(text: str) -> str:
    """The same Markdown with columns of equal width, for reading in a terminal."""
    blocks = []
    for block in text.split("\n\n"):
        if block.startswith("|"):
            cells = [line.strip("|").split("|") for line in block.splitlines()]
            widths = [max(len(column) for column in columns) for columns in zip(*cells, strict=True)]
            lines = (
                [cell.ljust(w, "-" if set(cell) <= set("-") else " ") for cell, w in zip(line, widths, strict=True)]
                for line in cells
            )
            block = "\n".join("|" + "|".join(line) + "|" for line in lines)
        blocks.append(block)
    return "\n\n".join(blocks)


def write_into(page: Path, text: str) -> None:
    """Put the tables between the page's markers."""
    begin, end = MARKERS
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}")


def _cell(us: dict[str, float], name: str) -> str:
    if name not in us:
        return ""
    value = f"{us[name]:.3g}" if us[name] < 1000 else f"{us[name]:,.0f}".replace(",", " ")
    return value if name == "floor" else f"{value} ({us[name] / us['floor']:.3g}×)"


def _stages(rows: list[dict[str, Any]]) -> str:
    these = [row for row in rows if row["threads"] == 1 and "stages" in row]
    names = list(these[0]["stages"])
    head = ["work", "classifier", *names, "iterations (most)", "largest ‖∇E‖"]
    return table(head, [[r["work"], r["case"], *(f"{r['stages'][name]:.0%}" for name in names), *_quality(r)] for r in these])


def _quality(row: dict[str, Any]) -> list[str]:
    return [f"{row['iterations']:.2f} ({row['most iterations']})", f"{row['certificate']:.0e}"]


def table(head: list[str], body: Iterable[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body))
