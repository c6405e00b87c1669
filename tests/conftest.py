"""Shared by all tests: seeds, real data, and which tests the fast lane takes."""

import gzip
from collections import defaultdict
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from helpers.data import data_file
from helpers.libraries import needs
from helpers.problems import head

import ifonly

TESTS = Path(__file__).parent
APART = ("browser", "cluster", "gpu", "slow")  # folders and marks
TOGETHER = ("browser", "cluster", "server")  # folders whose files stay on one worker: each starts something that takes long
FEW_CASES = 12  # of one test, in the fast lane


# ---- the lanes ----


def pytest_addoption(parser):
    text = f"leave out what is marked {', '.join(APART)}; of a test with many cases, run {FEW_CASES}"
    parser.addoption("--fast", action="store_true", help=text)


def pytest_ignore_collect(collection_path, config):
    """In the fast lane, what lies apart is not even imported."""
    if config.getoption("fast") and collection_path.parent == TESTS and collection_path.name in APART:
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark each test by its folder, keep on one worker what belongs together, and thin the fast lane."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in APART:
            item.add_marker(folder)
        if folder in TOGETHER and config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    if config.getoption("fast"):
        fast = few_of_each([item for item in items if not any(map(item.get_closest_marker, APART))])
        chosen = set(fast)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = fast


def few_of_each(items):
    """Of each test, a dozen cases at most: those whose names have the smallest checksums, so that no parameter is favoured."""
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
