"""Limits on a GPU, against the processor: every kind of them, rows from host and device, and rows that the kernel leaves."""

import numpy as np
import pytest
from helpers import gpu
from helpers.tables_within import KINDS, within

import ifonly
from ifonly.problem.status import Status


@pytest.fixture
def cp():
    gpu.needed()
    import cupy

    return cupy


CASES = [(kind, 10, 100) for kind in KINDS] + [("bounds", 2, 33), ("bounds", 3, 784), ("scales", 24, 70), ("bounds", 10, 4000)]


@pytest.mark.parametrize("form", [{"lam": 0.05}, {"prob": 0.8}], ids=["lam", "prob"])
@pytest.mark.parametrize(("kind", "K", "D"), CASES)
def test_answers_and_certificates(cp, kind, K, D, form, rng):
    N = 40
    model, X, targets, limits = within(rng, kind, K, D, N)
    expected = ifonly.invert(model, X, targets, **form, **limits)
    there = cp.asarray(X)
    answers = ifonly.invert(model, there, targets, **form, **limits, backend="cuda")
    assert isinstance(answers.x, cp.ndarray)
    np.testing.assert_array_equal(answers.status, expected.status)
    good = expected.status == Status.EXACT
    assert answers.status[3] == Status.INVALID
    np.testing.assert_allclose(answers.cost[good], expected.cost[good], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(answers.x.get()[good], expected.x[good], rtol=0, atol=1e-6)
    for n in np.flatnonzero(good)[:5].tolist():
        answers[n].verify()
    assert (
        len(answers.results.answers.left) <= 8
    )  # those that are wrong, and out of reach; and some of each kind that rounding leaves
    again = ifonly.invert(model, there, targets, **form, **limits, backend="cuda")
    there = np.setdiff1d(np.arange(N), answers.results.answers.left)
    np.testing.assert_array_equal(again.x.get()[there], answers.x.get()[there])  # to the last bit, of what was solved there


def test_every_way_in_and_out(cp, monkeypatch, rng):
    from ifonly.native import cuda_source, device_limited

    model, X, targets, limits = within(rng, "bounds", 10, 100, 300)
    X[3, 2] = 0.5
    expected = ifonly.invert(model, X, targets, lam=0.05, **limits).x
    monkeypatch.setattr(device_limited, "CHUNK_BYTES", 8 * 100 * 64)
    out = np.full(X.shape, np.nan)
    answers = ifonly.invert(model, X, targets, lam=0.05, **limits, backend="cuda", out=out)  # from host to host, in pieces
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-8)
    assert (answers.status == Status.EXACT).all()
    answers[299].verify()
    rough = cp.empty(X.shape, dtype=np.float32)
    ifonly.invert(model, cp.asarray(X), targets, lam=0.05, **limits, backend="cuda", out=rough)
    np.testing.assert_allclose(rough.get(), expected, rtol=0, atol=1e-6)
    there = cp.asarray(X)
    monkeypatch.setattr(device_limited, "KEPT_BYTES", 8 * cuda_source.kept_numbers(10) * 70)
    ifonly.invert(model, there, targets, lam=0.05, **limits, backend="cuda", out=there)  # in place, and its rounds in pieces
    np.testing.assert_allclose(there.get(), expected, rtol=0, atol=1e-8)
    half = ifonly.invert(model, cp.asarray(X.astype(np.float32)), targets, lam=0.05, **limits, backend="cuda")
    np.testing.assert_allclose(half.x.get(), expected, rtol=0, atol=1e-5)
    one = ifonly.invert(model, X[0], int(targets[0]), lam=0.05, **limits, backend="cuda")
    np.testing.assert_allclose(one.x, expected[0], rtol=0, atol=1e-8)
    for target in (None, "all"):
        chosen = ifonly.invert(model, cp.asarray(X[:8]), target, prob=0.7, **limits, backend="cuda")
        usual = ifonly.invert(model, X[:8], target, prob=0.7, **limits)
        np.testing.assert_array_equal(chosen.target, usual.target)
        np.testing.assert_allclose(chosen.x.get(), usual.x, rtol=0, atol=1e-7)


def test_rows_that_the_kernel_leaves(cp, rng):
    """Goals out of reach, sources that are there already, and sources outside their bounds."""
    model, X, targets, limits = within(rng, "bounds", 4, 30, 60)
    X[10:20] += 2.0
    expected = ifonly.invert(model, X, targets, prob=0.999999, **limits)
    answers = ifonly.invert(model, cp.asarray(X), targets, prob=0.999999, **limits, backend="cuda")
    np.testing.assert_array_equal(answers.status, expected.status)
    assert (answers.status == Status.UNREACHABLE).any()
    unreached = int(np.flatnonzero(answers.status == Status.UNREACHABLE)[0])
    assert answers[unreached].verify()
    there = ifonly.invert(model, cp.asarray(X), targets, prob=1e-6, **limits, backend="cuda")
    usual = ifonly.invert(model, X, targets, prob=1e-6, **limits)
    np.testing.assert_allclose(there.x.get(), usual.x, rtol=0, atol=1e-8)
