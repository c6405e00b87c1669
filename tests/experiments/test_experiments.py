"""The experiments: where data is looked for, what the collection of problems is, and that the result files are whole.

And what holds for all that stands outside the package: it uses public names only, and `make commands` runs all of it.
"""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from benchmarks import timing
from experiments import claims, curves, datasets, page, problems, run, store, style
from ifonly import Model, __all__

KILOBYTES = 1024
METHODS = {"Newton", "GD", "CG", "BFGS", "L-BFGS", "ifonly", "ifonly, batch"}
COLUMNS = {
    "table1": {"dataset", "D", "K", "train_error", "test_error", "paper_train_error", "paper_test_error"},
    "agreement": {"dataset", "problem", "deviation", "deviation_at_the_end"},
    "figure1": {"dataset", "problem", "method", "E", "grad_norm", "n_iter", "seconds"},
    "figure2": {"dataset", "method", "iterate", "E", "grad_norm", "gap", "seconds"},
    "figure3": {"dataset", "method", "trials", "iterations"},
    "figure4": {"dataset", "problem", "method", "lam", "n_iter", "seconds"},
    "logistic": {"dataset", "problem", "method", "seconds", "grad_norm"},
    "table2": {"method", "iterate", "gap"},
    "figure5": {"method", "iterate", "E", "grad_norm", "gap", "seconds"},
    "figure6": {"dataset", "problem", "method", "n_iter", "seconds"},
    "figure7": {"dataset", "method", "iterate", "gap", "seconds"},
    "figure8": {"dataset", "method", "iterate", "gap", "seconds"},
}


def toy(n: int = 60) -> datasets.Dataset:
    rng = np.random.default_rng(0)
    model = Model(rng.normal(size=(4, 7)), rng.normal(size=4))
    return datasets.Dataset("toy", model, rng.integers(0, 256, size=(n, 7), dtype=np.uint8), 1 / 255, 0.0, 0.0, n, n)


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """No data beside the checkout, and an empty folder in its place."""
    monkeypatch.setattr(datasets, "BESIDE", tmp_path / "beside")
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    datasets.mnist.cache_clear()
    yield tmp_path
    datasets.mnist.cache_clear()


def test_the_variable_comes_before_the_folder_beside(elsewhere):
    for folder in (elsewhere, elsewhere / "beside"):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "a.npz").touch()
    assert datasets.find("deep", "a.npz") == elsewhere / "deep" / "a.npz"
    (elsewhere / "deep" / "a.npz").unlink()
    assert datasets.find("deep", "a.npz") == elsewhere / "beside" / "deep" / "a.npz"


def test_a_missing_file_says_where_to_get_and_put_it(elsewhere):
    with pytest.raises(datasets.DataMissingError, match=r"deepfeat64.npz is not in .*ImageNet.*set IFONLY_DATA to"):
        datasets.load.__wrapped__("DeepFeat64")


def test_a_fetch_that_fails_says_so_too(elsewhere, monkeypatch):
    def no_network(*args, **options):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", no_network)
    with pytest.raises(datasets.DataMissingError, match=r"could not be fetched \(no route to host\).*idx files"):
        datasets.mnist()


def test_fetched_digits_are_split_as_the_files_are(elsewhere, monkeypatch):
    X, y = np.zeros((70_000, 784)), np.repeat(["3", "5"], [60_000, 10_000])
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *args, **options: (X, y))
    digits = datasets.mnist()
    assert digits.train.X.shape == (60_000, 784)
    assert digits.train.X.dtype == np.uint8
    assert set(digits.train.y) == {3}
    assert set(digits.test.y) == {5}


def test_documents_with_one_second_level_topic():
    names = ["C15", "C151", "C1511", "CCAT", "G15", "GCAT", "GSPO"]
    topics = sparse.csr_matrix(
        [
            [0, 1, 1, 1, 0, 0, 0],  # C15 by its children
            [1, 0, 0, 1, 0, 0, 1],  # C15 and GSPO: two
            [0, 0, 0, 1, 0, 1, 0],  # first level only: none
            [0, 0, 0, 0, 0, 1, 1],  # GSPO
        ]
    )
    rows, y = datasets.one_topic(topics, names)
    assert rows.tolist() == [0, 3]
    assert y.tolist() == [0, 2]  # of C15, G15, GSPO


def test_pairs_have_their_digits_side_by_side():
    digits = datasets.Split(np.repeat(np.arange(10, dtype=np.uint8), 784).reshape(10, 784), np.arange(10))
    X, y = datasets.side_by_side(digits, 2, 0)
    assert X.shape == (200, 1568)
    assert (X.reshape(-1, 28, 56)[:, 0, 0] * 10 + X.reshape(-1, 28, 56)[:, 0, -1] == y).all()


def test_the_collection_is_that_of_appendix_a():
    dataset = toy()
    found = problems.collection(dataset)
    assert [p.kind for p in found].count("farthest") == 40
    assert len(found) == 50
    for problem in found:
        order = dataset.model.logits(problem.source).argsort()
        far = problem.kind == "farthest"
        assert (problem.k, problem.lam) == ((order[0], 0.01) if far else (order[-2], 0.1))
    again = problems.collection(dataset, 5)
    assert [p.kind for p in again].count("second") == 1  # the first few are a fair sample
    assert all(np.array_equal(a.source, b.source) for a, b in zip(found, again, strict=False))


def test_deep_features_have_a_lambda_of_their_own():
    assert problems.lams_of("DeepFeat320 K=2") == (0.001, 0.006)
    assert problems.lams_of("RCV1") == (0.01, 0.1)


@pytest.mark.parametrize("n", [1, 5, 40, 41, 1001])
def test_a_thinned_curve_keeps_both_ends(n):
    kept = curves.kept(n)
    assert kept[0] == 0
    assert kept[-1] == n - 1
    assert len(kept) == len(set(kept)) <= min(n, 150)


@pytest.mark.parametrize("n", [1, 40, 41, 150])
def test_every_curve_has_the_marker_of_its_legend(n):
    marked = curves.marked(n)
    assert marked == sorted(set(marked))
    assert (marked[0], marked[-1]) == (0, n - 1)
    assert len(marked) <= curves.DENSE


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (1e-4, 3e2, ["10^{-4}", "10^{2}"]),  # powers of ten, and not all of many
        (0.35, 3.4, ["0.5", "1", "2"]),
        (0.022, 0.071, ["0.03", "0.05", "0.07"]),  # no power of ten in it
        (0.62, 0.64, ["0.62", "0.63", "0.64"]),
        (0.00621, 0.00639, ["6.25·10^{-3}", "6.35·10^{-3}"]),
        (4e-5, 2e-4, ["5·10^{-5}", "10^{-4}", "2·10^{-4}"]),
    ],
)
def test_a_logarithmic_axis_has_labels_however_short_it_is(low, high, shown):
    at = style.ticks(low, high, least=3, most=7)
    assert 3 <= len(at) <= 7
    assert low <= min(at) < max(at) <= high
    labels = [label.strip("$") for label in style.tick_labels(at)]
    assert set(shown) <= set(labels)
    assert len(set(labels)) == len(at)


def test_what_others_take_of_the_machine_is_counted_without_our_own_work():
    start = timing.Moment(clock=100.0, own=10.0, every=50.0, ours=20.0)
    assert timing.others(start, timing.Moment(110.0, 20.0, 65.0, 30.5)) == {"all": 0.5, "ours": 0.05}
    assert timing.others(start, timing.Moment(110.0, 20.0, 59.9, 29.9)) == {"all": 0.0, "ours": 0.0}
    assert timing.others(start, start._replace(clock=100.5)) == {}  # too short for the clock of the cores
    assert timing.others(None, None) == {}


def test_the_page_says_how_busy_the_machine_was():
    parts = [
        {
            "run": "today",
            "seconds": seconds,
            "load before": 0.1,
            "load after": 1.2,
            "others": {"all": cores, "ours": cores / 10},
        }
        for seconds, cores in ((30, 0.0), (90, 0.4))
    ]
    assert page.quiet(parts) == (
        "All in one run, today, 2 minutes. Load 0.1 before and 1.2 after, with the run's own 1. Meanwhile other processes kept "
        "0.30 cores of the machine busy, and 0.03 of what the run could use (0.04 in the worst of its 2 parts)."
    )
    parts[0]["run"] = "yesterday"
    assert page.quiet(parts).startswith("In 2 runs: today; yesterday, 2 minutes.")
    assert page.quiet([part | {"others": {}} for part in parts]).endswith("with the run's own 1.")


@pytest.mark.parametrize("name", run.SCRIPTS)
def test_result_files_are_tidy_and_say_where_they_come_from(name):
    frame = store.read(name)
    assert set(frame.columns) >= COLUMNS[name]
    assert {"machine", "note", "size", "run", "seconds", "load before", "load after", "others"} <= set(frame.attrs)
    assert {"cpu", "cores", "blas", "versions"} <= set(frame.attrs["machine"])
    assert (store.RESULTS / f"{name}.parquet").stat().st_size < 1000 * KILOBYTES
    if "method" in frame and name == "figure1":
        assert set(frame.method) == METHODS


def test_figures_are_there_small_and_on_the_page():
    text = page.PAGE.read_text()
    figures = sorted(run.FIGURES.glob("*.png"))
    assert len(figures) == 9
    for figure in figures:
        assert figure.stat().st_size < 200 * KILOBYTES
        assert f"paper/{figure.name}" in text


def test_the_page_is_what_the_files_say():
    claims.read.cache_clear()
    text = page.PAGE.read_text()
    assert page.filled(text) == text


# ---- outside the package ----

ROOT = Path(__file__).parents[2]
OUTSIDE = ("experiments", "benchmarks", "examples", "docs")
SCRIPTS = [file for folder in OUTSIDE for file in sorted((ROOT / folder).rglob("*.py"))]
PUBLIC = {*__all__, "__file__", "__version__", "credit", "frames", "spark", "joint"}
NAMED_TUPLES = {"_replace"}  # public, for all its underscore
ALWAYS_QUICK = {"compare.py", "commands.py"}
NOT_RUN = {"commands", "lint", "format", "clean", "browser", "java"}  # and tests: not what a user would call
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def named(tree):
    """(line, name) of everything of `ifonly` that a script imports or reads, and of all that begins with an underscore."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "ifonly")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ifonly":
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute):
            private = node.attr.startswith("_") and not node.attr.startswith("__") and node.attr not in NAMED_TUPLES
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if private and not own:
                yield node.lineno, f"ifonly.{node.attr}"
            if isinstance(node.value, ast.Name) and node.value.id == "ifonly":
                yield node.lineno, f"ifonly.{node.attr}"


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_public_names_only(file):
    allowed = PUBLIC | ({"server"} if file.name.startswith("serve") else set())
    for line, name in named(ast.parse(file.read_text(encoding="utf-8"))):
        parts = name.split(".")[1:]
        assert not parts or parts[0] in allowed, f"{file.name}, line {line}: {name} is not public"
        assert not any(part.startswith("_") for part in parts if part not in PUBLIC)


def rules():
    """Target → recipe, of the Makefile."""
    return dict(re.findall(r"^([\w-]+):[^=\n]*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands():
    return re.search(r"^COMMANDS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()


def test_make_commands_runs_every_target():
    tests = {target for target in rules() if target.startswith("test")}
    assert set(commands()) | NOT_RUN | tests == set(rules())
    assert "make commands\n" in (ROOT / ".ci" / "run").read_text()


def test_make_commands_runs_every_script():
    recipes = "".join(rules()[target] for target in commands()).replace("-m experiments.run", "experiments/run.py")
    run = {file for file in SCRIPTS if str(file.relative_to(ROOT)) in recipes}
    built = (ROOT / "docs" / "conf.py").read_text()  # which `make docs` runs
    told = (
        built + "".join(file.read_text() for file in run) + "".join(re.findall(r"^\$ python .*$", text_of(PAGES), re.MULTILINE))
    )
    with_main = {file for file in SCRIPTS if re.search(r"^def main\(", file.read_text(), re.MULTILINE)}
    assert [file.name for file in sorted(with_main - run) if file.name not in told] == []
    for file in with_main & run:
        line = next(line for line in recipes.splitlines() if str(file.relative_to(ROOT)) in line)
        assert "--quick" in line or "$(FLAG)" in line or file.name in ALWAYS_QUICK


def test_commands_on_the_pages_are_there():
    text = text_of(PAGES)
    assert set(re.findall(r"(?:`|^)make (?:QUICK=1 )?([\w-]+)", text, re.MULTILINE)) <= set(rules())
    scripts = set(re.findall(r"python (\w+/\w+\.py)", text))
    assert scripts
    assert all((ROOT / script).exists() for script in scripts)


def text_of(files):
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
