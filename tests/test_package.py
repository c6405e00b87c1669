"""The package as a whole: public names, what an import costs, which way imports point, how large things are."""

import ast
import functools
import importlib
import inspect
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from helpers.compiled import ROWS

import ifonly
import ifonly.frames
from ifonly import Status

SRC = Path(ifonly.__file__).parent
PUBLIC = [
    "Actions",
    "Ask",
    "Certificate",
    "CertificateError",
    "Cost",
    "Counterfactual",
    "CounterfactualExplainer",
    "Counterfactuals",
    "IfonlyError",
    "InputError",
    "Model",
    "Path",
    "Policy",
    "Problem",
    "Question",
    "Scaling",
    "Status",
    "UnsupportedModelError",
    "as_model",
    "ask",
    "explore",
    "invert",
    "load",
    "path",
    "phi",
    "verify",
]
HEAVY = (
    *(
        "torch",
        "pyspark",
        "fastapi",
        "uvicorn",
        "orjson",
        "matplotlib",
        "sklearn",
        "pandas",
        "cupy",
        "pyarrow",
        "cvxpy",
        "tqdm",
        "IPython",
        "typer",
        "rich",
    ),
    *("jax", "keras", "statsmodels", "xgboost", "onnx", "skops", "safetensors", "joblib"),
)


# ---- public names ----


def test_the_public_names_are_exactly_these():
    assert ifonly.__all__ == PUBLIC == sorted(PUBLIC)
    assert not [name for name in PUBLIC if not hasattr(ifonly, name)]


def test_nothing_else_looks_public():
    assert not [name for name in PUBLIC if not hasattr(ifonly, name)]  # all of them are loaded now
    extra = {name for name, value in vars(ifonly).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert extra - {"TYPE_CHECKING", "Any", "import_module"} == set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_and_its_members_are_documented(name):
    thing = getattr(ifonly, name)
    assert inspect.getdoc(thing)
    kinds = (property, classmethod, functools.cached_property)
    members = {
        f"{name}.{member}": value
        for cls in (c for c in getattr(thing, "__mro__", ()) if c.__module__.startswith("ifonly"))
        for member, value in vars(cls).items()
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
    }
    assert [member for member, value in members.items() if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("name", [n for n in PUBLIC if inspect.isfunction(getattr(ifonly, n))])
def test_every_public_function_is_fully_annotated(name):
    signature = inspect.signature(getattr(ifonly, name))
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert (bare, signature.return_annotation is signature.empty) == ([], False)


def test_every_error_is_an_ifonly_error_and_what_python_calls_it():
    bases = {"InputError": ValueError, "UnsupportedModelError": TypeError, "CertificateError": AssertionError}
    for name, base in bases.items():
        assert issubclass(getattr(ifonly, name), ifonly.IfonlyError)
        assert issubclass(getattr(ifonly, name), base)


def test_every_status_says_what_happened():
    assert len({status.message for status in Status}) == len(Status)
    assert [status.name for status in Status if status.ok] == ["EXACT", "CONVERGED"]


# ---- what an import costs ----


def loaded_after(code, heavy=HEAVY):
    """The heavy modules that a fresh interpreter has loaded after running the code."""
    script = f"{code}\nimport sys\nprint(*[name for name in {heavy!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return out.stdout.split()


def test_a_bare_import_loads_nothing_heavy():
    assert loaded_after("import ifonly") == []
    assert loaded_after("import ifonly", ("numpy", "scipy")) == []


def test_one_inversion_and_a_path_load_nothing_heavy():
    code = """
import ifonly
model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0])
cf = ifonly.invert(model, [2.0, 0.0], 1, prob=0.8)
cf.verify(), cf.x, repr(cf), ifonly.path(model, [2.0, 0.0], 1).x
"""
    assert loaded_after(code, (*HEAVY, "scipy") if ROWS else HEAVY) == []


def test_reading_one_library_loads_no_other():
    code = """
import sys
import ifonly
from ifonly.model.readers import as_model
try:
    as_model(object())
except ifonly.UnsupportedModelError:
    pass
libraries = ("torch", "statsmodels", "xgboost", "keras", "jax", "onnx", "skops", "sklearn", "joblib", "safetensors")
print(*[name for name in libraries if name in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


# ---- which way imports point ----

# Lowest first: a room imports what stands before it or beside it, at the top of a module or inside a function.
ROOMS = [{"model"}, {"rows"}, {"problem"}, {"native", "engines"}, {"answers"}, {"api"}, {"joint"}, {"show"}]
ROOMS += [{"__init__"}, {"frames"}, {"spark"}, {"server"}, {"cli"}, {"__main__"}]

# Modules that import what stands after them, and what: the list may only get shorter.
WRONG_WAY = {
    # how answers show themselves
    "answers.views": "show.letter show.page show.plot show.sentence show.table",
    "api": "joint",  # for one version: invert(…, joint=True)
}


def modules():
    """Every module of the package: dotted name below ifonly (``engines.newton``) → its syntax tree."""
    files = sorted(SRC.rglob("*.py"))
    names = {file: ".".join(file.relative_to(SRC).with_suffix("").parts) for file in files}
    return {name: ast.parse(file.read_text(encoding="utf-8")) for file, name in names.items()}


MODULES = modules()


def imports(name):
    """(module below ifonly, imported name or None) of every import of ifonly in a module, late ones included."""
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}, line {node.lineno}: imports are absolute here"
            if node.module and node.module.split(".")[0] == "ifonly":
                below = node.module.removeprefix("ifonly").lstrip(".")
                for alias in node.names:
                    inner = f"{below}.{alias.name}".lstrip(".")
                    is_module = inner in MODULES or f"{inner}.__init__" in MODULES
                    yield (inner, None) if is_module else (below or "__init__", alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "ifonly":
                    yield alias.name.removeprefix("ifonly").lstrip(".") or "__init__", None


def room(name):
    return name.split(".")[0]


def rank(name):
    return next(i for i, rooms in enumerate(ROOMS) if room(name) in rooms)


def only_these(found, known):
    """What is found is what is known: nothing new, and what is mended leaves the list."""
    assert sorted(found - known) == []
    assert sorted(known - found) == [], "mended: take it off the list"


def test_imports_point_one_way():
    assert {room(name) for name in MODULES} <= set().union(*ROOMS), "a new room needs its place in ROOMS"
    inner = set(MODULES) - {"__init__"}  # which hands out what is in any room
    found = {(name, other) for name in inner for other, _ in imports(name) if rank(other) > rank(name)}
    only_these(found, {(name, other) for name, others in WRONG_WAY.items() for other in others.split()})


def test_no_modules_import_each_other_in_a_circle():
    def place(other):
        return f"{other}.__init__" if f"{other}.__init__" in MODULES else other

    graph = {
        name: {place(other) for other, _ in imports(name) if other != name and other not in WRONG_WAY.get(name, "").split()}
        for name in MODULES
    }
    graph["answers.views"].remove("answers.record")  # how an answer writes itself
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_no_import_hides_in_a_string():
    """A module that calls ``import_module`` has no string that names one of ours."""

    def hides(tree):
        words = {getattr(node, "id", None) or getattr(node, "attr", None) for node in ast.walk(tree)}
        strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        return "import_module" in words and any(re.fullmatch(r"ifonly(\.\w*)*", string) for string in strings)

    assert [name for name, tree in MODULES.items() if hides(tree)] == []


PRESENTATION = {"show", "frames", "spark", "server", "cli", "baselines"}


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) in PRESENTATION])
def test_presentation_imports_no_private_thing(name):
    for other, imported in imports(name):
        if room(other) != room(name):
            assert not any(part.startswith("_") and part != "__init__" for part in other.split("."))
        if imported is not None:
            module = importlib.import_module(f"ifonly.{other.removesuffix('__init__')}".rstrip("."))
            assert imported in module.__all__, f"{name} imports {imported} of {other}, which is not in its __all__"


def test_nothing_prints():
    def prints(tree):
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        return any(isinstance(function, ast.Name) and function.id == "print" for function in calls)

    assert [name for name, tree in MODULES.items() if prints(tree)] == []


def test_every_module_says_what_it_is_and_what_it_exports():
    def exports(tree):
        targets = {t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)}
        code = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ImportFrom))]
        return "__all__" in targets or not code

    assert [name for name, tree in MODULES.items() if not ast.get_docstring(tree)] == []
    assert [name for name, tree in MODULES.items() if not exports(tree)] == ["__main__"]


# ---- how large things are ----

MOST_ENTRIES, MOST_LINES, MOST_BRANCHES, MOST_PARAMETERS = 16, 60, 15, 8
BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.BoolOp, ast.IfExp, ast.comprehension)


def functions(node, place):
    """(dotted name below ifonly, function) of every function below a node, within classes and functions too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{place}.{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield inner, child
            yield from functions(child, inner)
        else:
            yield from functions(child, place)


FUNCTIONS = [(name, *found) for name, tree in MODULES.items() for found in functions(tree, name)]


def lines(function):
    """Of the body, without the docstring."""
    doc = ast.get_docstring(function, clean=False)
    return function.end_lineno - function.body[0].lineno + 1 - (doc.count("\n") + 1 if doc else 0)


def branches(function):
    return 1 + sum(isinstance(node, BRANCHES) for node in ast.walk(function))


def parameters(function):
    """All of them, ``self`` and starred ones included."""
    found = function.args
    return len(found.posonlyargs + found.args + found.kwonlyargs) + bool(found.vararg) + bool(found.kwarg)


def offered():
    """The public functions, and the classes whose methods are: by name below ifonly."""
    found = [getattr(module, name) for module in (ifonly, ifonly.frames) for name in module.__all__]
    names = {f"{thing.__module__}.{thing.__qualname__}".removeprefix("ifonly.") for thing in found}
    return names | {"joint.invert", "spark.invert"}  # the last needs pyspark


def test_the_top_of_the_package_fits_a_glance():
    assert len([entry for entry in SRC.iterdir() if entry.name != "__pycache__"]) <= MOST_ENTRIES


def test_functions_fit_a_screen():
    """Row loops in native/ may be longer."""
    inner = [(place, f) for name, place, f in FUNCTIONS if room(name) != "native"]
    assert [place for place, f in inner if lines(f) > MOST_LINES or branches(f) > MOST_BRANCHES] == []


def test_functions_take_few_parameters():
    """Public functions, methods of public classes, commands and row loops may take more."""
    public = offered()
    inner = [(place, f) for name, place, f in FUNCTIONS if room(name) not in ("cli", "native")]
    inner = [(place, f) for place, f in inner if not {place, place.rpartition(".")[0]} & public]
    assert [place for place, f in inner if parameters(f) > MOST_PARAMETERS] == []
