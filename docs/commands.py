"""Runs the commands that README.md and the pages show, in a folder of their own: ``python docs/commands.py``.

These are lines of a block of code that begin with ``ifonly`` or ``python examples/``, and the ``ifonly`` commands in the text,
with MODEL, DATA, IN and OUT for files. The files are made here, of random numbers. ``serve``, which has no end, is asked for
``--help``. It ends with an error if a command does, or if a command of ``ifonly`` is shown nowhere.
"""

import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import ifonly

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINE = re.compile(r"^(?:\$ )?((?:ifonly|python examples/\S+) .*)$", re.MULTILINE)
INLINE = re.compile(r"`(ifonly \w[^`]*)`")
FILES = {"MODEL": "credit.npz", "DATA": "people.csv", "[DATA]": "people.csv", "IN": "people.csv", "OUT": "answers.parquet"}
MORE = {"bench": ["--repeats", "1"]}
ALONE = ("demo", "bench")  # commands that need no arguments; any other in the text without them is only spoken of


def shown(page: str, names: set[str]) -> list[list[str]]:
    """The commands on a page, as words."""
    lines = [line for block in BLOCK.findall(page) for line in LINE.findall(block.replace("\\\n", " "))]
    found = [shlex.split(line, comments=True) for line in lines]
    found += [words for text in INLINE.findall(BLOCK.sub("", page)) if len(words := text.split()) > 2 or words[1] in ALONE]
    return [words for words in found if words[0] == "python" or words[1] in names]


def runnable(words: list[str]) -> list[str]:
    """A command with files for its placeholders, and for this Python."""
    if words[0] == "python":
        return [sys.executable, str(ROOT / words[1]), *words[2:]]
    if words[1] == "serve":
        words = ["ifonly", "serve", "--help"]
    return [sys.executable, "-m", "ifonly", *(FILES.get(word, word) for word in words[1:]), *MORE.get(words[1], [])]


def make_files(folder: Path) -> None:
    """What the commands on the pages read."""
    rng = np.random.default_rng(0)
    names = ["income", "loans", "age", "duration"]
    ifonly.Model.binary([0.5, -0.4, 0.02, -0.1], 1.0, ["refused", "approved"], names).save(folder / "credit.npz")
    rows = np.column_stack(
        [np.arange(20), rng.integers(1, 5, 20), rng.integers(0, 4, 20), rng.integers(20, 70, 20), np.full(20, 36)]
    )
    np.savetxt(folder / "people.csv", rows, fmt="%d", delimiter=",", header=",".join(["id", *names]), comments="")
    (folder / "policy.toml").write_text('target = "approved"\n[features.age]\nfrozen = true\n', encoding="utf-8")
    A = rng.normal(size=(1000, 64))
    np.savez(folder / "head.npz", A=A, b=np.zeros(1000), X=A[[281]])  # an embedding that is read as a tabby


def main() -> None:
    """Run each once."""
    told = subprocess.run([sys.executable, "-m", "ifonly", "--help"], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^│ (\w+) ", told, re.MULTILINE))
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    commands = {shlex.join(runnable(w)): w for page in pages for w in shown(page.read_text(encoding="utf-8"), names)}
    forgotten = names - {words[1] for words in commands.values()}
    if forgotten:
        sys.exit(f"no page shows ifonly {', ifonly '.join(sorted(forgotten))}")
    for command, words in commands.items():
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            make_files(Path(folder))
            done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, check=False)
        print(f"{time.perf_counter() - start:5.1f} s  {shlex.join(words)}", flush=True)
        if done.returncode:
            sys.exit(f"ended with {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
