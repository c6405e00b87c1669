"""Shared by all tests: seeds, and real data."""

import gzip

import numpy as np
import pytest
from helpers.data import data_file


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
