"""Shared by all tests: seeds, real data, and which tests the fast lane takes."""

import gc
import gzip
from collections import defaultdict
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from helpers.commands import CSV
from helpers.compiled import SETS, running
from helpers.data import data_file
from helpers.libraries import needs
from helpers.problems import head
from hypothesis import settings
from hypothesis.internal.conjecture import providers

import ifonly
from ifonly import cli

TESTS = Path(__file__).parent
APART = ("browser", "cluster", "gpu", "slow")  # folders and marks
FEW_CASES = 4  # of one test, in the fast lane
SLOWER = (*APART, "seconds")  # marks of what is not in it


settings.register_profile("the same each time", derandomize=True, deadline=None)
settings.load_profile("the same each time")
# Hypothesis also draws from the constants of modules that are loaded: those of whatever tests a worker ran before.
providers.is_local_module_file = lambda path: False

# ---- the lanes ----


def pytest_addoption(parser):
    text = f"leave out what is marked {', '.join(SLOWER)}; of a test with many cases, run {FEW_CASES}"
    parser.addoption("--fast", action="store_true", help=text)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from helpers.scheduling import Scheduling

    config.option.loadscopereorder = False  # by number of cases: single tests of two minutes would come last
    return Scheduling(config, log)


def pytest_ignore_collect(collection_path, config):
    """In the fast lane, what lies apart is not even imported."""
    if config.getoption("fast") and collection_path.parent == TESTS and collection_path.name in APART:
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected is no garbage, then or later: to look for some takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark each test by its folder, and thin the fast lane."""
    if hasattr(config, "workerinput"):
        from helpers.scheduling import in_order

        items[:] = in_order(items)
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in APART:
            item.add_marker(folder)
    if config.getoption("fast"):
        fast = few_of_each([item for item in items if not any(map(item.get_closest_marker, SLOWER))])
        chosen = set(fast)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = fast


def few_of_each(items):
    """Of each test, a few cases at most: those whose names have the smallest checksums, so that no parameter is favoured."""
    tests = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    few = {item for cases in tests.values() for item in sorted(cases, key=lambda item: crc32(item.name.encode()))[:FEW_CASES]}
    return [item for item in items if item in few]


# ---- numbers and data ----


@pytest.fixture
def rng(request) -> np.random.Generator:
    """Seeded by the test's own name: the same numbers each run, others in each test."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture(params=SETS)
def instructions(request):
    """Every set of instructions that the row loops were compiled for and that this machine has."""
    with running(request.param):
        yield request.param


@pytest.fixture(scope="session")
def mnist():
    """(A, b, X): the softmax classifier of the paper's table 1 and the training images."""
    weights = np.load(data_file("models", "mnist.npz"))
    with gzip.open(data_file("mnist", "train-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    return weights["A"].astype(float), weights["b"].astype(float), images


@pytest.fixture(scope="session")
def paper_problems(mnist):
    """The 50 problems of appendix A on MNIST: (x̄, class index, λ)."""
    A, b, images = mnist
    rng = np.random.default_rng(2026)
    problems = []
    for i in range(50):
        x = images[rng.integers(len(images))] / 255.0
        order = np.argsort(A @ x + b)
        problems.append((x, int(order[0]), 0.01) if i < 40 else (x, int(order[-2]), 0.1))
    return problems


@pytest.fixture
def small(rng):
    """A model of 4 classes and 7 features, a source, a class index."""
    return ifonly.Model(rng.normal(size=(4, 7)), rng.normal(size=4)), rng.normal(size=7), 2


@pytest.fixture(scope="session")
def synthetic():
    """A head of very many classes."""
    return head()


@pytest.fixture
def torch():
    torch = needs("torch", "torch==2.13.0")
    torch.manual_seed(7)
    return torch


# ---- commands ----


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a model, and rows of which two are bad; every command runs in it."""
    monkeypatch.chdir(tmp_path)
    names = ["age", "loans", "income", "duration"]
    ifonly.Model.binary([0.05, -0.75, 0.002, -0.125], -1.0, ["refused", "approved"], names).save("credit.npz")
    (tmp_path / "people.csv").write_text(CSV)
    return tmp_path


@pytest.fixture
def run(place, capsys, monkeypatch):
    """Run a command; its exit code, output and complaints."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")

    def run(line):
        with pytest.raises(SystemExit) as stop:
            cli.main(line.split() if isinstance(line, str) else line)
        out, err = capsys.readouterr()
        return stop.value.code, "\n".join(text.rstrip() for text in out.splitlines()), err

    return run
