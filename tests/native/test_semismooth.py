"""The compiled loops for problems with limits against the array program, on every set of instructions."""

import math

import numpy as np
import pytest

from ifonly.engines import semismooth
from ifonly.engines.budget import Budget
from ifonly.engines.responses import Terms
from ifonly.native import compiled

loops = compiled()
pytestmark = pytest.mark.skipif(loops is None, reason="installed without a compiler")


def random_terms(rng, *, hard=False):
    """A problem without rules: any shape, with duplicates, zeros, features that cannot move, and none or all of the limits."""
    n, D = int(rng.integers(1, 13)), int(rng.choice([1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 100]))
    B = rng.normal(size=(n, D)) * 10.0 ** rng.uniform(-1, 1)
    kind = rng.integers(6)
    if kind == 0:
        B[rng.integers(n)] = B[0]
    if kind == 1:
        B[rng.integers(n)] = 0.0
    if kind == 2:
        B[:, rng.random(D) < 0.5] = 0.0
    margins = rng.normal(size=n) * 10.0 ** rng.uniform(-1, 2 if hard else 1)
    mu = rng.choice([0.0, 0.0, 0.1, 1.0, 10.0]) * rng.random(D)
    size = 10.0 ** rng.uniform(-2, 1)
    lo, hi = -size * rng.random(D), size * rng.random(D)
    kind = rng.integers(6)
    if kind == 0:
        lo[:], hi[:] = -np.inf, np.inf
    if kind == 1:
        lo[rng.random(D) < 0.5] = -np.inf
        hi[rng.random(D) < 0.5] = np.inf
    if kind == 2:
        lo[rng.random(D) < 0.5] = 0.0
    if kind == 3:
        still = rng.random(D) < 0.5
        hi[still] = lo[still]
    if kind == 4:  # 0 is not within
        lo, hi = lo + 1.5 * size, hi + 1.5 * size
    nothing = np.zeros(0)
    return Terms(B, margins, mu, lo, hi, np.zeros((0, D)), nothing, nothing, nothing, nothing)


def objective(terms, lam, weight, t):
    s = terms.margins + terms.B @ t
    top = max(0.0, s.max())
    return 0.5 * lam * t @ t + weight * terms.mu @ np.abs(t) + top + math.log(np.exp(s - top).sum() + math.exp(-top))


@pytest.mark.parametrize("seed", range(150))
def test_same_answers(instructions, seed):
    rng = np.random.default_rng(seed)
    terms = random_terms(rng)
    lam = 10.0 ** rng.uniform(-8, 8) if seed % 2 else 10.0 ** rng.uniform(-3, 2)
    weight = lam if seed % 3 == 0 else 1.0
    theirs, _, found = semismooth.solve(terms, lam, weight)
    ours, _, done = semismooth.solve(terms._replace(loops=loops), lam, weight)
    if found:
        assert done
    a, b = (objective(terms, lam, weight, at.t) for at in (ours, theirs))
    assert a <= b + 1e-12 * (1 + abs(b)) or not found
    assert (ours.t >= terms.lo).all()
    assert (ours.t <= terms.hi).all()
    again = semismooth.evaluate(terms, lam, weight, ours.lq, ours.nu)
    scale = 1 + np.abs(terms.margins).max() + np.abs(terms.B) @ np.abs(again.t)
    noise = semismooth.noise(terms, again)
    assert np.abs(again.s - ours.s).max() <= 1e-13 * scale.max() + 100 * noise
    assert (ours.q > 0).all()
    assert abs(ours.q.sum() - 1) < 1e-12
    assert abs(ours.p.sum() - 1) < 1e-12
    if found and lam > 1e-4:
        slope = semismooth.logit_slope(terms, theirs)
        assert ours.slope == pytest.approx(slope, rel=1e-5, abs=1e-9) or (ours.free != theirs.free).any()


@pytest.mark.parametrize("seed", range(20))
def test_a_start_elsewhere(instructions, seed):
    rng = np.random.default_rng(seed)
    terms = random_terms(rng)._replace(loops=loops)
    first, _, _ = semismooth.solve(terms, 1.0)
    near, n_iter, found = semismooth.solve(terms, 0.9, start=first)
    fresh, _, _ = semismooth.solve(terms, 0.9)
    assert found
    assert n_iter <= 30
    assert objective(terms, 0.9, 1.0, near.t) == pytest.approx(objective(terms, 0.9, 1.0, fresh.t), rel=1e-12, abs=1e-12)


def test_few_iterations_at_a_time(monkeypatch):
    rng = np.random.default_rng(3)
    for _ in range(10):
        terms = random_terms(rng)._replace(loops=loops)
        whole, n_iter, _ = semismooth.solve(terms, 0.01)
        with monkeypatch.context() as patch:
            patch.setattr(semismooth, "PIECE", 0)
            pieces, more, found = semismooth.solve(terms, 0.01)
        assert found
        assert more <= n_iter + 5
        assert objective(terms, 0.01, 1.0, pieces.t) == pytest.approx(objective(terms, 0.01, 1.0, whole.t), rel=1e-12)
    late, n_iter, found = semismooth.solve(terms._replace(budget=Budget(seconds=-1.0)), 1e-6)
    assert np.isfinite(late.t).all()
