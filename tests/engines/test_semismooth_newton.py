"""Compiled loops for rows with limits: the same answers as the array program, alone or in a table, on any number of threads."""

import numpy as np
import pytest
from helpers.compiled import needs_compiled
from helpers.problems import half

import ifonly
from ifonly import Actions, Cost, Status
from ifonly.engines import semismooth_newton
from ifonly.engines.responses import Terms, _turns

pytestmark = needs_compiled

LIMITS = {
    "bounds": Actions(bounds=(-1, 1)),
    "narrow": Actions(bounds=(-0.3, 0.4)),  # most sources are outside
    "one side": Actions(bounds=(None, 1)),
    "ways": Actions(bounds=(-2, 2), frozen=[0, 3], increase=[1, 2], decrease=[4]),
    "nothing": Actions(),
}
COSTS = {"plain": None, "l1": Cost(l1=0.1), "scaled": Cost(scale=np.geomspace(0.2, 5, 11), l1=0.02)}


def drawn(K, D=11, N=40, seed=0):
    rng = np.random.default_rng(seed)
    model = ifonly.Model(rng.normal(size=(K, D)), rng.normal(size=K))
    return model, rng.uniform(-1.2, 1.2, (N, D)), rng.integers(K, size=N)


WISHES = [{"lam": 0.05}, {"lam": 5.0}, {"prob": 0.7}, {"prob": 0.2}]
CASES = [
    (K, limits, cost, wish)
    for K, limits, cost, wish in half([2, 3, 10], LIMITS, COSTS, WISHES)
    if (limits, cost) != ("nothing", "plain") and not (K == 2 and "prob" in wish)  # which other engines solve
]


@pytest.mark.parametrize(("K", "limits", "cost", "wish"), CASES)
def test_same_as_the_array_program(K, limits, cost, wish):
    model, X, targets = drawn(K, N=7)  # what another solver finds for each takes long
    options = {**wish, "actions": LIMITS[limits], "cost": COSTS[cost]}
    ours, theirs = (ifonly.invert(model, X, targets, backend=backend, **options) for backend in ("auto", "reference"))
    np.testing.assert_array_equal(ours.status, theirs.status)
    name = "objective" if "lam" in wish else "cost"
    allowed = ours.gap + theirs.gap + 1e-12 * (1 + np.abs(getattr(theirs, name)))
    apart = np.abs(getattr(ours, name) - getattr(theirs, name))
    assert (apart <= allowed)[ours.status == Status.EXACT].all()
    for i, cf in enumerate(ours):
        if cf.status != Status.INVALID:
            cf.verify()
            alone = ifonly.invert(model, X[i], int(targets[i]), **options)
            np.testing.assert_array_equal(alone.x, cf.x)
            assert (alone.status, alone.n_iter, alone.gap) == (cf.status, cf.n_iter, cf.gap)


def test_every_set_of_instructions(instructions):
    model, X, targets = drawn(10, D=37)
    for wish in ({"lam": 0.05}, {"prob": 0.9}):
        cfs = ifonly.invert(model, X, targets, actions=Actions(bounds=(-1.5, 1.5)), **wish)
        for cf in cfs:
            cf.verify()


def test_most_rows_are_settled_by_the_loop(monkeypatch):
    model, X, targets = drawn(10, D=60, N=100)
    monkeypatch.setattr(semismooth_newton, "_one", lambda *_: pytest.fail("a row was left"))
    for wish in ({"lam": 0.05}, {"prob": 0.9}):
        cfs = ifonly.invert(model, X, targets, actions=Actions(bounds=(-1.2, 1.2)), **wish)
        assert (cfs.status == Status.EXACT).all()
        assert cfs.n_iter.mean() < 12


def test_same_bits_on_any_number_of_threads():
    model, X, targets = drawn(5, D=20, N=1500)
    for wish in ({"lam": 0.05}, {"prob": 0.9}):
        one, three = (ifonly.invert(model, X, targets, actions=Actions(bounds=(-1, 1)), threads=t, **wish) for t in (1, 3))
        np.testing.assert_array_equal(one.x, three.x)
        np.testing.assert_array_equal(one.gap, three.gap)
        halves = [ifonly.invert(model, X[s], targets[s], actions=Actions(bounds=(-1, 1)), **wish) for s in np.s_[:700, 700:]]
        np.testing.assert_array_equal(one.x, np.concatenate([half.x for half in halves]))


def test_rows_that_are_wrong_or_out_of_reach():
    model, X, targets = drawn(4)
    X[3, 2], X[5] = np.nan, 1e200
    limits = Actions(bounds=(-1.5, 1.5), frozen=[0])
    X[7, 0] = 4.0  # frozen outside its bounds
    cfs = ifonly.invert(model, X, targets, prob=0.5, actions=limits)
    assert set(np.flatnonzero(cfs.status == Status.INVALID)) >= {3, 7}
    assert np.isnan(cfs.x[3]).all()
    near = ifonly.invert(model, X[:3], targets[:3], prob=0.9999, actions=Actions(bounds=(-0.01, 0.01)))
    assert (near.status == Status.UNREACHABLE).all()
    for cf in near:
        cf.verify()


def test_the_nearest_class_and_all_classes():
    model, X, _ = drawn(4, N=12)
    limits = Actions(bounds=(-1.2, 1.2))
    near, ref = (ifonly.invert(model, X, prob=0.6, actions=limits, backend=b) for b in ("auto", "reference"))
    np.testing.assert_array_equal(near.target, ref.target)
    np.testing.assert_allclose(near.cost, ref.cost, rtol=1e-9)


def test_a_tolerance_and_few_iterations():
    model, X, targets = drawn(4)
    limits = Actions(bounds=(-1, 1))
    rough = ifonly.invert(model, X, targets, lam=0.05, tol=1e-3, actions=limits)
    assert (rough.status == Status.CONVERGED).all()
    assert rough.n_iter.mean() < ifonly.invert(model, X, targets, lam=0.05, actions=limits).n_iter.mean()
    stopped = ifonly.invert(model, X, targets, lam=1e-3, max_iter=1, actions=limits)
    assert (stopped.status == Status.MAX_ITER).any()


def test_a_turn_farther_than_floats_go_is_none():
    one, none = np.ones(1), np.zeros((0, 1))
    terms = Terms(none, np.zeros(0), 0 * one, -one, one, one[None], one, 0 * one, np.inf * one, 0 * one)
    assert not len(_turns(terms, 1.0, 0 * one, 0 * one, 1e-310 * one))
    np.testing.assert_array_equal(_turns(terms, 1.0, 0 * one, 0 * one, 0.5 * one), [2.0])
