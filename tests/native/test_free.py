"""Free rows in the compiled loops: every set of instructions against the reference, and the same bits however rows are cut."""

import re
from importlib.resources import files

import numpy as np
import pytest
from helpers.compiled import SETS, running

import ifonly
from ifonly import Status
from ifonly.engines import coordinates, lam_search, newton
from ifonly.native import free, reference


def table(rng, K, D, N=61, scaled=False):
    scaling = ifonly.Scaling(rng.normal(size=D), rng.uniform(0.1, 9.0, size=D)) if scaled else None
    model = ifonly.Model(rng.normal(size=(K, D)), rng.normal(size=K), scaling=scaling)
    return model, rng.normal(size=(N, D)) * 2


SAME = 1e-11
IN_WINDOW = 1e-8  # with a probability both end in a window of rounding, wide in λ where a logit hardly changes with it


def same(ours, theirs, wish, form):
    np.testing.assert_array_equal(ours.status, theirs.status, err_msg=form)
    for name in ("x", "lam", "distance", "objective", "proba"):
        tol = IN_WINDOW if "prob" in wish and name in ("lam", "objective") else SAME
        told = f"{name}, {form}"
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=tol, atol=tol, err_msg=told)


SHAPES = [(2, 1), (2, 30), (3, 2), (5, 9), (10, 33), (24, 40)]


WISHES = [{"lam": 1e-3}, {"lam": 2.0}, {"lam": 1e6}, {"prob": 0.3}, {"prob": 0.999}]
# Every shape with half of the wishes, with a scaler in turn.
CASES = [(wish, *shape, j % 4 < 2) for i, shape in enumerate(SHAPES) for j, wish in enumerate(WISHES) if (i + j) % 2]
CASES += [(wish, 160, 170, False) for wish in WISHES[::2]]


@pytest.mark.parametrize(("wish", "K", "D", "scaled"), CASES)
@pytest.mark.skipif(not SETS, reason="installed without a compiler")
def test_as_the_reference(rng, K, D, wish, scaled):
    """Every set of instructions; the reference, which takes longest, once for all of them."""
    model, X = table(rng, K, D, 9 if K > 100 else 61, scaled)  # a vector of rows, and one more
    targets = rng.integers(K, size=len(X))
    theirs = ifonly.invert(model, X, targets, backend="reference", **wish)
    nearest = ifonly.invert(model, X, None, backend="reference", **wish)
    for form in SETS:
        with running(form):
            same(ifonly.invert(model, X, targets, backend="cpu", **wish), theirs, wish, form)
            same(ifonly.invert(model, X, None, backend="cpu", **wish), nearest, wish, form)


def test_a_tolerance_is_met_for_certain(rng, instructions):
    model, X = table(rng, 5, 9)
    best = ifonly.invert(model, X, 2, lam=0.1)
    for tol in (1e-2, 1e-6, 1e-30):
        cfs = ifonly.invert(model, X, 2, lam=0.1, tol=tol)
        assert (cfs.status == (Status.CONVERGED if tol > 1e-20 else Status.EXACT)).all()
        assert (np.linalg.norm(cfs.x - best.x, axis=1) <= cfs.grad_norm / 0.1 + 1e-12).all()
        assert tol < 1e-20 or (cfs.grad_norm <= tol).all()


@pytest.mark.parametrize("wish", [{"lam": 0.01}, {"prob": 0.9}])
def test_one_source_is_a_row_of_a_table(rng, instructions, wish):
    model, X = table(rng, 7, 20, 30)
    many = ifonly.invert(model, X, 4, **wish)
    for x, row in zip(X, many, strict=True):
        one = ifonly.invert(model, x, 4, **wish)
        assert one.status is Status(row.status)
        assert np.linalg.norm(one.x - row.x) <= one.error_bound + row.error_bound <= 1e-9


@pytest.mark.parametrize("wish", [{"lam": 0.01}, {"prob": 0.9}])
def test_the_bits_depend_neither_on_threads_nor_on_neighbours(rng, instructions, wish, monkeypatch):
    monkeypatch.setattr(free, "ROWS_PER_THREAD", 5)
    model, X = table(rng, 6, 25, 400)
    targets = rng.integers(6, size=400)
    whole = ifonly.invert(model, X, targets, threads=1, **wish)
    for threads in (2, 3, 7):
        np.testing.assert_array_equal(ifonly.invert(model, X, targets, threads=threads, **wish).x, whole.x)
    some = rng.permutation(400)[:37]
    np.testing.assert_array_equal(ifonly.invert(model, X[some], targets[some], **wish).x, whole.x[some])


def test_rows_of_every_kind(rng, instructions):
    model, X = table(rng, 5, 12, 40)
    X[3, 2], X[7, 0], X[11], X[12] = np.nan, np.inf, 1e200, 0.0
    whole = ifonly.invert(model, X, 2, prob=0.8)
    assert np.flatnonzero(whole.status == Status.INVALID).tolist() == [3, 7, 11]
    assert np.isnan(whole.x[[3, 7, 11]]).all()
    assert np.isfinite(np.delete(whole.x, [3, 7, 11], axis=0)).all()
    read_only = X.copy()
    read_only.flags.writeable = False
    wide = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)
    for rows in (read_only, np.asfortranarray(X), wide[::2, ::2], X[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(ifonly.invert(model, rows, 2, prob=0.8).x, whole.x)
    X, whole = X[13:], whole[13:]
    narrow = X.astype(np.float32)
    np.testing.assert_array_equal(
        ifonly.invert(model, narrow, 2, prob=0.8).x, ifonly.invert(model, narrow.astype(float), 2, prob=0.8).x
    )
    out = np.empty((27, 24), dtype=np.float32)[:, ::2]
    ifonly.invert(model, X, 2, prob=0.8, out=out)
    np.testing.assert_allclose(out, whole.x, rtol=1e-6)
    out = np.empty((54, 12))
    ifonly.invert(model, X, 2, prob=0.8, out=out[::2])
    np.testing.assert_allclose(out[::2], whole.x, rtol=1e-12)  # x that is made later is made by NumPy
    assert len(ifonly.invert(model, X[:0], 2, prob=0.8)) == 0


def test_what_does_not_fit_is_refused(rng):
    model, X = table(rng, 4, 6, 5)
    target = free.target_of(model, 1)
    room = [np.empty((5, 4)), np.empty((5, 4)), *np.empty((4, 5)), np.empty(5, dtype=np.int64), np.empty(5, dtype=np.int8)]
    options = (np.ones(5), False, False, 0.0, 100, 12)
    target.answer(np.arange(5), X, None, None, *options, *room, None)
    wrong = {
        "a row": (np.arange(6), X, None, None, *options, *room, None),
        "a negative row": (np.array([-1]), X, None, None, *options, *room, None),
        "features": (np.arange(5), X[:, :5].copy(), None, None, *options, *room, None),
        "rows": (np.arange(5), X[:4], None, None, *options, *room, None),
        "pieces": (np.arange(5), np.asfortranarray(X), None, None, *options, *room, None),
        "sizes": (np.arange(5), None, np.zeros((5, 4)), None, *options, *room, None),
        "wanted": (np.arange(5), X, None, None, np.ones(4), *options[1:], *room, None),
        "out": (np.arange(5), X, None, None, *options, *room, np.empty((4, 6))),
    }
    for arguments in wrong.values():
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            target.answer(*arguments)


def test_the_header_has_the_constants_of_the_method():
    text = (files("ifonly.native") / "newton.hpp").read_text(encoding="utf-8")
    found = {name: float(value) for name, value in re.findall(r"\b([A-Z_]+) = ([\d.e-]+)[,;]", text)}
    assert found["CLOSE"] == newton.CLOSE[3]
    for module in (newton, coordinates, lam_search, reference):
        for name in set(found) & set(vars(module)) - {"CLOSE", "ROOT_STEPS"}:  # the start there is in single precision
            assert found[name] == getattr(module, name), name
    assert {"ARMIJO", "ROUNDINGS", "TRUST", "SURE", "FAR", "LONGEST_STEP", "MANY_RIVALS", "EVEN_STEPS", "PAIR_TOL"} <= set(
        found
    )
