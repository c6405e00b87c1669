"""Turns examples/*.py into executed pages: ``python docs/notebooks.py [NAME …]``, with ``QUICK=1`` at small sizes.

An example is a script with cells (``# %%`` and ``# %% [markdown]``), which editors open as a notebook and Python runs as it
is. Of each this makes, under docs/notebooks: a page with what every cell printed and drew, its pictures, and a notebook
(``.ipynb``) with the same.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES, MADE = HERE.parent / "examples", HERE / "notebooks"
DOTS = 110  # per inch


@dataclass
class Cell:
    """A piece of text or code, and what came out of it: (kind, what) with kind "text", "html" or "picture"."""

    code: bool
    source: str
    outputs: list[tuple[str, str | bytes]] = field(default_factory=list)


def names() -> list[str]:
    """The examples that have cells."""
    return [file.stem for file in sorted(EXAMPLES.glob("*.py")) if "\n# %%" in file.read_text(encoding="utf-8")]


def cells(script: str) -> list[Cell]:
    """The cells of a script; what stands before the first is left out."""
    found = []
    for piece in ("\n" + script).split("\n# %%")[1:]:
        head, _, body = piece.partition("\n")
        if "[markdown]" in head:
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
        found.append(Cell("[markdown]" not in head, body.strip()))
    return found


def run(name: str) -> list[Cell]:
    """Execute an example, cell by cell, in a folder of its own; an error says which cell it came from."""
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    plt.close("all")  # figures that others left open: an example would draw on them
    found, space = cells((EXAMPLES / f"{name}.py").read_text(encoding="utf-8")), {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(found):
            if cell.code:
                try:
                    cell.outputs = execute(cell.source, space)
                except Exception as error:
                    error.add_note(f"in cell {number} of examples/{name}.py, which begins\n{cell.source[:200]}")
                    raise
    return found


def execute(source: str, space: dict) -> list[tuple[str, str | bytes]]:
    """What a cell prints, the value of its last line, and the figures it leaves open."""
    import matplotlib.pyplot as plt

    *body, last = ast.parse(source).body
    shown, value = isinstance(last, ast.Expr) and not source.rstrip().endswith(";"), None
    printed, before = io.StringIO(), plt.get_fignums()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body if shown else [*body, last], []), "<cell>", "exec"), space)
        if shown:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)
    outputs: list[tuple[str, str | bytes]] = [("text", printed.getvalue())] if printed.getvalue().strip() else []
    figures = [plt.figure(number) for number in plt.get_fignums() if number not in before]
    if value is not None and not figures:
        html = getattr(value, "_repr_html_", None)
        outputs.append(("text", repr(value)) if html is None else ("html", html()))
    for figure in figures:
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=DOTS, facecolor="white", metadata={"Software": None})
        outputs.append(("picture", file.getvalue()))
        plt.close(figure)
    return outputs


def page(name: str, found: list[Cell], folder: Path) -> str:
    """The page in MyST; pictures are written beside it, the first of them for the gallery."""
    parts, pictures = [], 0
    for cell in found:
        parts.append(f"```python\n{cell.source}\n```" if cell.code else cell.source)
        for kind, what in cell.outputs:
            if isinstance(what, bytes):
                pictures += 1
                file = f"{name}-{pictures}.png"
                (folder / file).write_bytes(what)
                parts.append(f"```{{image}} {file}\n:alt: What the code above draws\n:class: drawn\n```")
            elif kind == "html":
                parts.append(f'```{{raw}} html\n<div class="shown">{what}</div>\n```')
            else:
                parts.append(f"```{{code-block}} text\n:class: printed\n\n{what.rstrip()}\n```")
    how = f"Made by running `examples/{name}.py`{' in its quick form' if os.environ.get('QUICK') else ''}."
    return "\n\n".join([*parts, f"---\n\n{how} {{download}}`As a notebook <{name}.ipynb>`"]) + "\n"


def notebook(found: list[Cell]) -> str:
    """The same for Jupyter (nbformat 4.5)."""
    kinds = {"text": "text/plain", "html": "text/html", "picture": "image/png"}
    made = []
    for number, cell in enumerate(found):
        entry = {
            "cell_type": "code" if cell.code else "markdown",
            "id": f"cell-{number}",
            "metadata": {},
            "source": cell.source,
        }
        if cell.code:
            data = [(kinds[kind], base64.b64encode(w).decode() if isinstance(w, bytes) else w) for kind, w in cell.outputs]
            shown = [{"output_type": "display_data", "metadata": {}, "data": {kind: what}} for kind, what in data]
            entry |= {"execution_count": None, "outputs": shown}
        made.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps({"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def main(wanted: list[str] | None = None, folder: Path = MADE) -> None:
    """Run the examples that are wanted, by default all, and write their pages."""
    folder.mkdir(exist_ok=True)
    for name in wanted or names():
        found = run(name)
        (folder / f"{name}.md").write_text(page(name, found, folder), encoding="utf-8")
        (folder / f"{name}.ipynb").write_text(notebook(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
