"""Optional packages: a missing one says which extra installs it, wherever it is first needed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.extras import EXTRAS, package, packages

import ifonly

SRC = Path(ifonly.__file__).parent
BASE = {"ifonly", "numpy", "scipy"}
GATED = {"cli": "cli", "server": "serve"}  # rooms that are entered through a check: `cli.main` and `ifonly serve`
BY_RICH = {("show/table.py", "rich")}  # rich itself calls this


def imports(tree):
    """(module, extra that a missing one is blamed on or None) of each import; what is only for type checkers is left out."""

    def walk(node, extra):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, extra) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield node.module, extra
        if isinstance(node, (ast.Try, ast.With)):
            is_try = isinstance(node, ast.Try)
            for inner in node.body:
                yield from walk(inner, blamed(node.handlers if is_try else node.items) or extra)
            rest = [*node.handlers, *node.orelse, *node.finalbody] if is_try else node.items
        else:
            rest = ast.iter_child_nodes(node)
        for inner in rest:
            yield from walk(inner, extra)

    return walk(tree, None)


def blamed(nodes):
    """The extra that ``raise missing(what, extra)`` or ``with needing(what, extra)`` names."""
    calls = [node for outer in nodes for node in ast.walk(outer) if isinstance(node, ast.Call)]
    named = [call.args[1] for call in calls if getattr(call.func, "id", None) in ("missing", "needing")]
    found = [arg.value for arg in named if isinstance(arg, ast.Constant)]
    return found[0] if found else None


def unnamed(place, module, extra):
    """What is wrong with an import, or None."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in BASE or (place, top) in BY_RICH or top == "uvloop":
        return None
    named = extra or GATED.get(place.partition("/")[0])
    if named is None:
        return f"{place} imports {module}, and does not say what installs it"
    return None if package(module) in packages(named) else f"{place}: {module} is not in the extra {named}"


@pytest.mark.seconds
def test_every_import_of_an_optional_package_names_the_extra_that_has_it():
    trees = {file.relative_to(SRC).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in SRC.rglob("*.py")}
    found = [(place, *found) for place, tree in trees.items() for found in imports(tree)]
    assert len({package(module) for _, module, _ in found} & packages("all")) > 8
    assert [complaint for one in found if (complaint := unnamed(*one))] == []


MODEL = "model = ifonly.Model.binary([1.0, 2.0], 0.0)\ncf = ifonly.invert(model, [-1.0, 0.0], 1)\n"
NEEDS = {  # what is missing, what is done, what is said
    "frame": ("pandas", MODEL + "cf.to_frame()", "to_frame() needs pandas", "frames"),
    "progress": ("tqdm", MODEL + "ifonly.invert(model, [[0.0, 0.0]], 1, progress=True)", "progress=True needs tqdm", "frames"),
    "plot": ("matplotlib", MODEL + "cf.plot()", "pictures need matplotlib", "plot"),
    "streams": ("pyarrow", "import ifonly.frames", "tables and streams need pyarrow", "frames"),
    "spark": ("pyspark", "import ifonly.spark", "data frames of Spark need pyspark, and Java 17 or newer", "spark"),
    "explainer": ("sklearn", "ifonly.CounterfactualExplainer", "CounterfactualExplainer needs scikit-learn", "sklearn"),
    "README": ("pandas", "from ifonly import credit; credit.applicants()", "the credit example needs pandas", "sklearn"),
    "a bank": ("sklearn", "ifonly.credit.pipeline(None)", "the credit example needs scikit-learn", "sklearn"),
    "demo": ("sklearn", "from ifonly.cli.demo import demo; demo()", "the demo needs scikit-learn and pandas", "sklearn"),
    "categories": (
        "pandas",
        "import pyarrow as pa, numpy as np; from ifonly import frames; model = ifonly.load('bank.npz')\n"
        "frames.invert_batches(model, pa.table({'a': [1.0], 'b': ['x']}), 'no').read_all()",
        "tables for a model with categories need pandas",
        "frames",
    ),
}


def run_without(name, code, folder):
    """What an interpreter that lacks a package says of code."""
    hide = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == {name!r} else found(name)
sys.meta_path.insert(0, Hidden())
import ifonly
"""
    done = subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode, "nothing was missing"
    return done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model that has a category."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": ["x", "y", "x", "y"]})
    columns = make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")
    place = tmp_path_factory.mktemp("models")
    bank = make_pipeline(columns, LogisticRegression()).fit(frame, ["yes", "no", "yes", "no"])
    ifonly.as_model(bank).save(place / "bank.npz")
    return place


@pytest.mark.seconds
@pytest.mark.parametrize("case", NEEDS)
def test_a_missing_package_says_what_installs_it(case, folder):
    name, code, what, extra = NEEDS[case]
    assert run_without(name, code, folder).endswith(f'{what}: pip install "ifonly[{extra}]"')
    assert package(name) in packages(extra)


def test_all_has_what_runs_on_one_machine_and_nothing_that_takes_gigabytes():
    everything = packages("all")
    assert all(packages(extra) <= everything for extra in EXTRAS if extra not in ("gpu", "spark"))
    assert not everything & {"torch", "cupy-cuda12x", "pyspark", "keras", "xgboost", "jax"}
