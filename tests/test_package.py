"""The package as a whole: public names, what an import costs, which way imports point, objects that behave like values."""

import ast
import copy
import functools
import importlib
import inspect
import pickle
import subprocess
import sys
import tracemalloc
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import random_array

import ifonly
from ifonly import Model, Scaling, Status, invert, path

SRC = Path(ifonly.__file__).parent
PUBLIC = [
    "Actions",
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
    "Problem",
    "Scaling",
    "Status",
    "UnsupportedModelError",
    "as_model",
    "invert",
    "load",
    "path",
    "phi",
    "verify",
]
LATE = {"CounterfactualExplainer"}  # needs scikit-learn, and is loaded when it is asked for
HEAVY = (
    *(
        "numba",
        "llvmlite",
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
    extra = {name for name, value in vars(ifonly).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert extra - {"TYPE_CHECKING", "Any"} == set(PUBLIC) - LATE


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


def loaded_after(code):
    """The heavy modules that a fresh interpreter has loaded after running the code."""
    script = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return out.stdout.split()


def test_a_bare_import_loads_nothing_heavy():
    assert loaded_after("import ifonly") == []


def test_one_inversion_and_a_path_load_nothing_heavy():
    code = """
import ifonly
model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0])
cf = ifonly.invert(model, [2.0, 0.0], 1, prob=0.8)
cf.verify(), cf.x, repr(cf), ifonly.path(model, [2.0, 0.0], 1).x
"""
    assert loaded_after(code) == []


# ---- which way imports point ----

LAYERS = [
    {"errors", "numerics", "status", "progress", "tensors", "words"},
    {"cores", "formats", "bends", "tabular"},
    {"encoding"},
    {"model"},
    {"adopt", "sources", "problem", "wish", "cost", "actions"},
    {"solvers", "store"},
    {"kernels", "claim"},
    {"change"},
    {"answer"},
    {"stream", "recourse", "heads", "joint", "table"},
    {"api"},
    {"record", "explainer"},
    {"recheck"},
    {"__init__"},
    {"frames", "credit", "report"},
    {"spark", "server"},
    {"demo"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
LAST = len(LAYERS)  # presentation and baselines: everything that is not named above


def modules():
    """Every module of the package: dotted name below ifonly (``solvers.newton``) → its syntax tree."""
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
                    yield (inner, None) if inner in MODULES else (below or "__init__", alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "ifonly":
                    yield alias.name.removeprefix("ifonly").lstrip(".") or "__init__", None


def room(name):
    return name.split(".")[0]


def rank(name):
    return RANK.get(room(name), LAST)


@pytest.mark.parametrize("name", MODULES)
def test_no_module_imports_what_comes_later(name):
    later = [other for other, _ in imports(name) if rank(other) >= rank(name) and room(other) != room(name)]
    assert later == [], f"{name} may only import what comes before it; a new room needs its place in LAYERS"


def test_no_modules_import_each_other_in_a_circle():
    def place(other):
        return f"{other}.__init__" if f"{other}.__init__" in MODULES else other

    graph = {name: {place(other) for other, _ in imports(name)} for name in MODULES}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("name", [name for name in MODULES if rank(name) == LAST])
def test_presentation_and_baselines_import_no_private_thing(name):
    for other, imported in imports(name):
        if room(other) != room(name):
            assert not any(part.startswith("_") and part != "__init__" for part in other.split("."))
        if imported is not None:
            module = importlib.import_module(f"ifonly.{other.removesuffix('__init__')}".rstrip("."))
            assert imported in module.__all__, f"{name} imports {imported} of {other}, which is not in its __all__"


@pytest.mark.parametrize("name", [name for name in MODULES if name != "demo"])
def test_nothing_prints(name):
    calls = [n for n in ast.walk(MODULES[name]) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    assert [call.lineno for call in calls if call.func.id == "print"] == []


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) != "__main__"])
def test_every_module_says_what_it_is_and_what_it_exports(name):
    tree = MODULES[name]
    assert ast.get_docstring(tree)
    targets = {t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)}
    code = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ImportFrom))]
    assert "__all__" in targets or not code


# ---- a Model is a value ----

A = np.array([[1.0, -2.0, 0.5], [0.0, 1.0, -1.0], [-1.0, 0.5, 1.5], [2.0, 2.0, 0.0]])
B = np.array([0.3, -0.2, 0.1, 0.0])
UNITS = Scaling(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 0.1]))
X = np.array([0.5, 1.0, -2.0])


def make(**changed):
    """A model with everything set, or with some of it changed."""
    arguments = {"A": A, "b": B, "classes": list("wxyz"), "feature_names": ["u", "v", "w"], "scaling": UNITS}
    return Model(**{**arguments, **changed})


CHANGES = {
    "A": A + 1e-9,
    "b": B - 1e-9,
    "classes": list("wxzy"),
    "feature_names": ["u", "w", "v"],
    "scaling": Scaling(UNITS.shift + 1, UNITS.scale),
    "no names": None,
    "no scaling": None,
}


@pytest.mark.parametrize(
    "clone", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy], ids=["pickle", "copy", "deep"]
)
@pytest.mark.parametrize("warm", [False, True])
def test_a_model_survives_pickling_and_copying(clone, warm):
    model = make()
    if warm:
        invert(model, X, "w", prob=0.9)
    other = clone(model)
    assert (other, hash(other), repr(other)) == (model, hash(model), repr(model))
    np.testing.assert_array_equal(invert(other, X, "w", prob=0.9).x, invert(model, X, "w", prob=0.9).x)
    assert not other.A.flags.writeable


def test_a_pickled_model_carries_no_caches():
    cold, warm = Model(A, B), Model(A, B)
    invert(warm, X, 0, prob=0.9)
    assert len(pickle.dumps(warm)) == len(pickle.dumps(cold))


@pytest.mark.parametrize("what", CHANGES)
def test_models_that_differ_in_anything_are_not_equal(what):
    changed = {"no names": {"feature_names": None}, "no scaling": {"scaling": None}}.get(what, {what: CHANGES[what]})
    assert make(**changed) != make()
    assert make() == make()
    assert make() != "a model"


def test_equal_models_have_equal_hashes():
    assert len({make(), make(), make(b=B + 1)}) == 2
    zero, minus = Model(A, [0.0, 0.0, 0.0, 0.0]), Model(A, [0.0, -0.0, 0.0, 0.0])
    assert zero == minus
    assert hash(zero) == hash(minus)


def test_a_model_prints_its_sizes_and_classes():
    assert repr(make()) == "Model(K=4, D=3, classes=['w', 'x', 'y', 'z'])"
    assert repr(Model(np.eye(50), np.zeros(50))) == "Model(K=50, D=50, classes=[0, 1, …, 49])"


ARRAYS = {
    "A": lambda m: m.A,
    "b": lambda m: m.b,
    "classes": lambda m: m.classes,
    "gram": lambda m: m.gram,
    "rows": lambda m: m.rows,
    "basis_transposed": lambda m: m.derived.basis_transposed,
    "rivals": lambda m: m.rivals(0),
    "rival_gram": lambda m: m.rival_gram(0),
    "rival_lengths": lambda m: m.rival_lengths(0),
    "shift": lambda m: m.scaling.shift,
    "scale": lambda m: m.scaling.scale,
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_models_arrays_are_read_only(name):
    array = ARRAYS[name](make())
    with pytest.raises(ValueError, match="read-only"):
        array[...] = array


def test_changing_the_users_arrays_changes_nothing():
    weights, biases, labels = A.copy(), B.copy(), np.array(list("wxyz"))
    shift, scale = UNITS.shift.copy(), UNITS.scale.copy()
    model = make(A=weights, b=biases, classes=labels, scaling=Scaling(shift, scale))
    for array in (weights, biases, shift, scale):
        array += 1.0
    labels[:] = labels[::-1].copy()
    assert model == make()
    np.testing.assert_array_equal(model.predict_proba(X), make().predict_proba(X))


def test_the_users_arrays_stay_writeable():
    weights, labels = A.copy(), np.array(list("wxyz"))
    make(A=weights, classes=labels)
    assert weights.flags.writeable
    assert labels.flags.writeable


# ---- answers are values too, and lazy ----

ANSWERS = {
    "one": lambda: invert(make(), X, "w", prob=0.9),
    "of a table": lambda: invert(make(), [X, -X], "w", prob=0.9)[1],
    "table": lambda: invert(make(), [X, -X], "w", prob=0.9),
    "path": lambda: path(make(), X, "w", lams=[1.0, 0.1]),
    "on a path": lambda: path(make(), X, "w", lams=[1.0, 0.1])[0],
    "between on a path": lambda: path(make(), X, "w").at_prob(0.7),
}
FIELDS = ("x", "delta", "proba", "target", "lam", "distance", "objective", "grad_norm", "gap", "n_iter", "status", "model")


@pytest.mark.parametrize("field", [*FIELDS, "anything"])
@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_are_frozen(kind, field):
    answer = ANSWERS[kind]()
    with pytest.raises(AttributeError, match=r"cannot assign to field|has no setter"):
        setattr(answer, field, 0)
    with pytest.raises(AttributeError, match=r"cannot delete field|has no deleter"):
        delattr(answer, field)


@pytest.mark.parametrize("kind", ANSWERS)
def test_x_is_not_made_until_it_is_read(kind):
    answer = ANSWERS[kind]()
    assert repr(answer)
    assert np.all(answer.gap >= 0)
    assert not {"x", "delta"} & vars(answer).keys()
    first = answer.x
    assert "x" in vars(answer)
    assert answer.x is first


@pytest.mark.parametrize("kind", ANSWERS)
def test_delta_is_what_x_differs_by(kind):
    answer = ANSWERS[kind]()
    np.testing.assert_array_equal(answer.delta, answer.x - answer.source)
    assert answer.delta.any()


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_survive_pickling(kind):
    answer = ANSWERS[kind]()
    other = pickle.loads(pickle.dumps(answer))
    np.testing.assert_array_equal(other.x, answer.x)
    np.testing.assert_array_equal(other.gap, answer.gap)
    assert repr(other) == repr(answer)


def test_answers_print_their_certificate():
    for kind, words in {"one": ["towards 'w'", "‖x − x*‖ ≤"], "table": ["2 rows", "2 EXACT"], "path": ["2 λ"]}.items():
        assert all(word in repr(ANSWERS[kind]()) for word in [*words, "E − E* ≤"])


def test_a_table_and_its_rows_agree():
    cfs = ANSWERS["table"]()
    assert len(cfs) == 2
    for i in (0, 1, -1):
        np.testing.assert_allclose(cfs[i].x, cfs.x[i], rtol=1e-14)  # gemv and gemm
        for field in FIELDS[2:-1]:
            np.testing.assert_array_equal(getattr(cfs[i], field), getattr(cfs, field)[i])


def grown(work):
    """What the work returns, and the most memory it held on the way beyond what there was before."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_path_takes_no_memory_in_d_until_x_is_read(rng):
    D, K, N = 131_072, 16, 100
    model = Model(rng.normal(size=(K, D)) / np.sqrt(D), np.zeros(K))
    x = rng.normal(size=D)
    path(model, x, 3, lams=[1.0])  # what the model keeps (Ḡ and the like) is the model's
    answers, held = grown(lambda: path(model, x, 3))
    assert len(answers) == N
    assert held < 2 * 8 * D + 2e6  # at most two vectors of D at once, and the K × 100 coefficients
    _, held = grown(lambda: answers[50].x)
    assert 8 * D <= held < 4 * 8 * D
    assert "x" not in vars(answers)


def test_sparse_sources_stay_sparse_until_x_is_read(rng):
    D, K, N = 47_236, 5, 400
    model = Model(rng.normal(size=(K, D)), np.zeros(K))
    X = random_array((N, D), density=1e-3, format="csr", rng=rng)
    invert(model, X, 1, lam=0.1)
    cfs, held = grown(lambda: invert(model, X, 1, lam=0.1))
    assert held < 0.1 * 8 * N * D  # the dense table would be 150 MB
    assert cfs[7].x.shape == (D,)
    assert "x" not in vars(cfs)
