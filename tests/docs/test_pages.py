"""The pages of docs and the README: complete, with what each needs at its top, and with numbers that are measured somewhere."""

import ast
import functools
import importlib
import inspect
import re
import sys

import pytest
from helpers.data import DOCS, ROOT, page
from helpers.extras import EXTRAS, package, packages

import ifonly
import ifonly.frames

PAGES = sorted(path.name for path in DOCS.glob("*.md"))
FRONT = "index.md"  # its install line stands further down
MEASURED = "benchmarks.md"  # written by benchmarks/run.py
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


# ---- the reference ----

DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|exception):: ([\w.]+)(?:\(\))?\n((?:   .*\n)*)", re.MULTILINE)


def documented():
    """Each dotted name on the page → the object's members that stand there with it."""
    return {name: members_shown(resolve(name), options) for name, options in DIRECTIVE.findall(page("api.md"))}


def resolve(name):
    """The object of a dotted name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module) if module != "ifonly.credit" else ifonly.credit, last)


def members_shown(thing, options):
    """Which members of a class these options of autodoc show, those that its docstring lists included."""
    if not inspect.isclass(thing):
        return set()
    told = set(re.findall(r"^(\w+) : ", (inspect.getdoc(thing) or "").partition("Attributes\n")[2], re.MULTILINE))
    given = re.search(r":members: *(.*)", options)
    if given is None:
        return told
    if given[1]:
        return told | {name.strip() for name in given[1].split(",")}
    left_out = re.search(r":exclude-members: *(.*)", options)
    found = members(thing, inherited=":inherited-members:" in options)
    return told | (found - {name.strip() for name in left_out[1].split(",")} if left_out else found)


def members(thing, inherited=True):
    """The public methods and properties of a class, as far as they are ours."""
    kinds = (property, classmethod, functools.cached_property)
    return {
        name
        for cls in (thing.__mro__ if inherited else [thing])
        if cls.__module__.startswith("ifonly")
        for name, value in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
    }


@pytest.mark.parametrize("name", ifonly.__all__)
def test_the_reference_has_every_public_name_and_every_member(name):
    shown, thing = documented(), getattr(ifonly, name)
    assert f"ifonly.{name}" in shown
    if inspect.isclass(thing):
        bases = [cls for other in shown for cls in [resolve(other)] if inspect.isclass(cls) and issubclass(thing, cls)]
        entries = [members for other, members in shown.items() if resolve(other) in bases]
        assert members(thing) - set().union(*entries) == set()


def test_the_reference_has_all_of_frames():
    assert {f"ifonly.frames.{name}" for name in ifonly.frames.__all__} - set(documented()) == set()


# ---- what a page needs ----


def imported(text):
    """The packages that the code on a page imports."""
    found = set()
    for kind, block in BLOCK.findall(text):
        if kind in ("python", "pycon"):
            session = [line[4:] for line in block.splitlines() if line.startswith((">>> ", "... "))]
            code = "\n".join(session) if session else block
            for node in ast.walk(ast.parse(code)):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) else []
                found |= {"pandas", "scikit-learn"} if "credit" in ast.unparse(node) and names == ["ifonly"] else set()
                found |= {"pyarrow"} if names == ["ifonly"] and "frames" in ast.unparse(node) else set()
                found |= {package(name) for name in names}
    return found


def needs(text):
    """The line at the top of a page that says what it needs, or None."""
    found = re.match(r"# [^\n]*\n\n(\*Needs:\* [^\n]*(?:\n[^\n]+)*)", text)
    return found and found[1]


@pytest.mark.parametrize("name", [name for name in PAGES if name != FRONT])
def test_a_page_says_at_its_top_what_it_needs(name):
    text = page(name)
    line = needs(text)
    assert line, "the first line after the heading begins with *Needs:*"
    extras = [extra for listed in re.findall(r"ifonly\[([\w,]+)\]", line) for extra in listed.split(",")]
    offered = packages("all", "gpu", "spark") & imported(text)
    assert offered - packages(*extras) == set()
    others = imported(text) - packages(*EXTRAS) - {"numpy", "scipy", "ifonly"}
    said = line.lower().replace("pytorch", "torch")
    assert [other for other in others if other not in sys.stdlib_module_names and other not in said] == []


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda path: path.name)
def test_every_extra_that_is_named_exists(path):
    named = re.findall(r"(?:ifonly|\"\.|'\.)\[([\w,]+)\]", path.read_text(encoding="utf-8"))
    assert {extra for listed in named for extra in listed.split(",")} - set(EXTRAS) == set()


def test_the_install_line_of_the_readme_and_the_front_page_has_all_they_import():
    for path in (ROOT / "README.md", DOCS / FRONT, DOCS / "start.md"):
        text = path.read_text(encoding="utf-8")
        assert re.search(r"\[all\]", text), path.name
        assert imported(text) - packages("all") - {"numpy", "ifonly"} == set()


def test_the_readme_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    (code, shown) = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).groups()
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out == shown
    assert (tmp_path / "why.html").exists()


# ---- the front page ----


def cells(text, *starts):
    """The cells of the line of a table that begins with these."""
    (line,) = [line for line in text.splitlines() if line.startswith("| " + " | ".join(starts) + " |")]
    return [cell.strip(" *") for cell in line.strip("|").split("|")]


def test_the_front_page_compares_with_peers_as_the_benchmarks_do():
    front, table = page(FRONT).replace("**", ""), page("recourse-benchmark.md")
    ours = cells(table, "German credit", "1000 × 61", "0.5")
    assert (ours[3], ours[6]) == (ours[4], "100%")  # all are reached, all are valid
    for peer, name in {"DiCE random": "DiCE, random", "DiCE genetic": "DiCE, genetic", "ceml": "ceml"}.items():
        _, _, people, _, _, _, both, distance, _, ms = cells(table, "German credit", peer)
        theirs, same = re.fullmatch(r"(\S+) \((\S+)\)", distance).groups()
        assert cells(front, name) == [name, f"{both} of {people}", theirs, ms]
        assert cells(front, "ifonly", "10 of 10") == ["ifonly", f"{people} of {people}", same, ours[9].split()[0]]


def test_the_front_page_has_the_times_of_the_benchmarks():
    front, text = page(FRONT).replace("**", ""), page(MEASURED)
    head, line = re.findall(r"^\| work \| classifier .*|^\| one source \| MNIST \| 784, 10 .*", text, re.MULTILINE)[:2]
    row = dict(zip((c.strip() for c in head.split("|")), (c.strip() for c in line.split("|")), strict=True))
    times = {"ifonly": "ifonly", "the paper's Newton method in NumPy": "paper's Newton", "L-BFGS-B (SciPy)": "L-BFGS-B"}
    times["Clarabel (cvxpy)"] = "Clarabel"
    for name, column in times.items():
        time = row[column].partition(" (")[0]
        assert f"| {name} | {time} |" in front, f"docs/benchmarks.md has {time} µs: docs/index.md should say so"


# ---- words ----

OLD = re.compile(r"\b(?:dear(?:er|est)?|mend(?:s|ed)?|(?:is|are) worth|thereof|whence|nought|anew)\b")


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *DOCS.glob("*.md"), *ROOT.glob("examples/*.py")], ids=lambda path: path.name
)
def test_the_pages_are_in_plain_words(path):
    assert OLD.findall(BLOCK.sub("", path.read_text(encoding="utf-8"))) == []
