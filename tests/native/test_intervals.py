"""Two classes and intervals: against 50 digits, against the one-source solver, and where numbers are extreme."""

import itertools
import math
from contextlib import suppress
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from helpers.compiled import FORMS, SETS, running

from ifonly import Actions, Cost, Model, Scaling, Status, ask, invert
from ifonly.engines.cost_space import CostSpace
from ifonly.native import intervals
from ifonly.problem.goals import needed_logit
from tests.helpers import box_text

DIGITS = 50
compiled_only = pytest.mark.parametrize("form", SETS, indirect=True)  # what one source alone has no digits for, or a loop

SAME = 1e-9  # relative, between two solvers that stop at the same rounding
ALLOWANCE = 1e-13  # of a cost, for rounding in the logit; the estimator's own softmax multiplies it by 1/(1 − τ)
D = 8


@pytest.fixture(autouse=True, params=FORMS)
def form(request):
    with running(request.param):
        yield request.param


def problem(rng, *, scaled=False, N=100):
    """A model, limits of every kind, and rows of which some are outside their limits, out of reach, or no rows at all."""
    w = rng.normal(size=D) * rng.choice([0.0, 0.3, 1.0, 3.0], D)
    w[0] = 1.0
    scaling = Scaling(rng.normal(size=D), rng.uniform(0.2, 5.0, D)) if scaled else None
    model = Model.binary(w, rng.normal(), scaling=scaling)
    X = rng.normal(size=(N, D)) * 1.5 + (0 if scaling is None else scaling.shift)
    bounds = {
        d: (low, low + width) for d, low, width in zip(range(2, D), rng.uniform(-2, 0, D), rng.uniform(1, 4, D), strict=False)
    }
    bounds[1] = (-4.0, 4.0)
    X[5, 3], X[6, 2], X[7, 1] = np.nan, np.inf, 9.0  # the last is frozen outside its bounds
    return model, X, Actions(frozen=[1], bounds=bounds, increase=[2], decrease=[3])


QUESTIONS = {
    "prob": {"prob": 0.7},
    "surely": {"prob": 0.999},
    "l1": {"prob": 0.7, "cost": Cost(l1=0.3)},
    "raw": {"prob": 0.6, "cost": Cost("raw", l1=0.1)},
    "margin": {"margin": 0.5},
    "margin and l1": {"margin": 2.0, "cost": Cost(l1=0.2)},
}


@cache
def one_by_one(name, scaled, target):
    """Rows, a question, and what the one-source solver finds for each that it does not refuse: once for all forms."""
    rng = np.random.default_rng([*name.encode(), scaled, target or 0])
    model, X, actions = problem(rng, scaled=scaled, N=40)
    question = {**QUESTIONS[name], "actions": actions}
    found = {}
    with running("none"):
        for n, x in enumerate(X):
            with suppress(ValueError):
                found[n] = invert(model, x, target, **question, backend="reference")
    return model, X, question, found


# Each question for one class and for the nearest one; a scaler with the one and with the other in turn.
CASES = [(name, i % 2 == j, target) for i, name in enumerate(QUESTIONS) for j, target in enumerate((1, None))]


@pytest.mark.parametrize(("name", "scaled", "target"), CASES)
def test_rows_are_what_the_one_source_solver_finds(name, scaled, target):
    model, X, question, found = one_by_one(name, scaled, target)
    cfs = invert(model, X, target, **question)
    assert {Status.EXACT, Status.INVALID} <= {Status(code) for code in cfs.status}
    assert cfs.status[[5, 6, 7]].tolist() == [Status.INVALID] * 3
    assert cfs[5].within is None
    for n, x in enumerate(X):
        cf = cfs[n]
        if cf.status is Status.INVALID:
            with pytest.raises(ValueError, match=r"finite|outside|there is no value"):
                invert(model, x, target, **question)
            continue
        alone = found[n]
        assert (cf.status, cf.target) == (alone.status, alone.target)
        np.testing.assert_allclose(cf.x, alone.x, rtol=SAME, atol=SAME)
        assert cf.blocking == alone.blocking
        cf.verify()
        measured = ("cost", "distance", "objective", "proba", *(["lam"] if "prob" in question else []))  # λ is of a probability
        for what in measured:
            np.testing.assert_allclose(getattr(cf, what), getattr(alone, what), rtol=SAME, atol=SAME, err_msg=what)
        assert abs(cf.within.best_bound - alone.within.best_bound) <= SAME
        assert cf.gap <= 4 * alone.gap + ALLOWANCE
        assert cf.bound <= cf.cost if cf.prob is not None else cf.bound <= cf.objective
        assert cf.n_changes == alone.n_changes


def least_cost(w, w0, x, lo, hi, mu, logit):
    """The optimum in 50 digits: G(w) is made of straight lines between its corners, which are sorted."""
    with mp.workdps(DIGITS):
        g, x, mu = [mp.mpf(float(v)) for v in w], [mp.mpf(float(v)) for v in x], mp.mpf(float(mu))
        ends = [(mp.mpf(float(a)) - v, mp.mpf(float(b)) - v) for a, b, v in zip(lo, hi, x, strict=True)]
        need = logit - (mp.fdot(g, x) + mp.mpf(float(w0)))

        def t(m):
            pulls = [m * v for v in g]
            soft = [mp.sign(p) * max(abs(p) - mu, mp.mpf(0)) for p in pulls]
            return [min(max(s, a), b) for s, (a, b) in zip(soft, ends, strict=True)]

        def gain(m):
            return mp.fdot(g, t(m))

        def cost(m):
            return mp.fsum(v * v / 2 + mu * abs(v) for v in t(m))

        if gain(mp.mpf(0)) >= need:
            return cost(mp.mpf(0))
        corners = sorted({abs((abs(e) + mu) / v) for v, pair in zip(g, ends, strict=True) if v for e in pair if mp.isfinite(e)})
        corners += [mu / abs(v) for v in g if v]
        corners = [mp.mpf(0), *sorted(corners)]
        corners.append(2 * corners[-1] + 1)
        for a, b in itertools.pairwise(corners):
            if gain(b) >= need:
                return cost(a + (b - a) * (need - gain(a)) / (gain(b) - gain(a)))
        return None


@pytest.mark.parametrize("mu", [0.0, 0.4])
@pytest.mark.parametrize("tau", [0.3, 0.7, 0.9999])
def test_the_optimum_lies_between_bound_and_cost_in_50_digits(rng, tau, mu):
    w, w0 = 3 * rng.normal(size=D), float(rng.normal())
    lo, hi = np.full(D, -1.5), np.full(D, 1.5)
    X = rng.normal(size=(40, D))
    model = Model.binary(w, w0)
    cfs = invert(model, X, 1, prob=tau, cost=Cost(l1=mu), actions=Actions(bounds=(-1.5, 1.5)))
    with mp.workdps(DIGITS):
        logit = mp.log(mp.mpf(tau)) - mp.log(1 - mp.mpf(tau))
    reached = 0
    for cf, x in zip(cfs, X, strict=True):
        truth = least_cost(w, w0, x, lo, hi, mu, logit)
        if truth is None:
            assert cf.status is Status.UNREACHABLE
            continue
        reached += 1
        assert cf.status is Status.EXACT
        assert cf.bound <= truth * (1 + 1e-15)
        assert cf.cost >= truth * (1 - 1e-15)
        assert cf.gap <= ALLOWANCE / (1 - tau) * (1 + cf.cost)
    assert reached >= 5


@compiled_only
@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_units_of_any_size(rng, scale):
    """The same problem in other units: x and bounds by a factor, weights by its inverse."""
    model, X, _ = problem(rng)
    X = X[8:60]
    plain = invert(model, X, 1, prob=0.8, actions=Actions(frozen=[1], bounds=(-2.0, 2.0)))
    other = Model(model.A / scale, model.b)
    bounds = (-2.0 * scale, 2.0 * scale)
    cfs = invert(other, X * scale, 1, prob=0.8, cost=Cost("raw"), actions=Actions(frozen=[1], bounds=bounds))
    assert (cfs.status == plain.status).all()
    np.testing.assert_allclose(cfs.x / scale, plain.x, rtol=1e-7, atol=1e-7)


@compiled_only
@pytest.mark.parametrize("weights", [[0.0, 0.0], [1e-100, 0.0], [1e60, 1.0]])
def test_weights_and_rows_of_any_size_give_an_answer_that_holds(weights):
    model, actions = Model.binary(weights, -1.0), Actions(bounds=(-1e6, 1e6))
    X = np.array([[0.0, 0.0], [1.0, -1.0], [1e60, -1e60], [1e300, 1e300], [1e-300, 0.0]])
    cfs = invert(model, X, 1, prob=0.9, actions=actions)
    assert (cfs.status == Status.INVALID).tolist() == [False, False, False, True, False]
    with pytest.raises(ValueError, match=r"finite|no digits left"):
        invert(model, X[3], 1, prob=0.9, actions=actions)
    for cf in (cfs[i] for i in (0, 1, 2, 4)):
        cf.verify()
        assert (np.abs(cf.x) <= 1e6).all()
        assert cf.status is (Status.EXACT if weights[0] > 1e-6 else Status.UNREACHABLE)
        assert cf.status is Status.UNREACHABLE or cf.proba[1] >= 0.9


@compiled_only
@pytest.mark.parametrize("sentinel", [1e9, 1e18, -1e18, 1e100])
def test_a_sentinel_far_outside_its_interval_costs_no_digits(sentinel):
    """Whatever the sentinel is, the feature ends in its interval, and the others as if it had begun there."""
    model, actions = Model.binary([1.0, -0.5, 0.3], -2.0), Actions(bounds=(0.0, 1.0))
    edge = 1.0 if sentinel > 0 else 0.0
    X = np.array([[0.2, sentinel, 0.5], [0.2, edge, 0.5]])
    cfs = invert(model, X, 1, prob=0.2, actions=actions)
    held = invert(model, X[1], 1, prob=0.2, actions=Actions(bounds=(0.0, 1.0), frozen=[1] if sentinel > 0 else []))
    assert cfs.status.tolist() == [Status.EXACT, Status.EXACT]
    np.testing.assert_allclose(cfs.x[0], held.x, rtol=0, atol=1e-13)
    assert cfs.x[0, 1] == edge


def test_what_stays_is_the_source_to_the_last_bit_and_a_bound_is_the_bound(rng):
    model = Model.binary([1.0, 0.5, 0.0], -3.0)
    X = np.column_stack([rng.normal(size=50), rng.normal(size=50), np.full(50, -0.0)])
    cfs = invert(model, X, 1, prob=0.9, actions=Actions(bounds={0: (None, 0.1)}))
    assert (cfs.x[:, 0] == 0.1).all()
    assert np.signbit(cfs.x[:, 2]).all()


def test_a_set_of_one_class_is_that_class(rng):
    model, X, actions = problem(rng)
    many, one = (invert(model, X, target, prob=0.8, actions=actions) for target in ({1}, 1))
    np.testing.assert_array_equal(many.x, one.x)
    assert (many.results.target[one.status != Status.INVALID] == 1).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_give_the_same_bits(rng, threads, monkeypatch):
    monkeypatch.setattr(intervals, "ROWS_PER_THREAD", 10)
    model, X, actions = problem(rng)
    one = invert(model, X, 1, prob=0.8, actions=actions, threads=1)
    many = invert(model, X, 1, prob=0.8, actions=actions, threads=threads)
    np.testing.assert_array_equal(many.x, one.x)
    np.testing.assert_array_equal(many.gap, one.gap)


def test_other_instructions_give_the_same_answers(rng, form):
    model, X, actions = problem(rng, N=20)
    here = invert(model, X, 1, prob=0.8, actions=actions)
    with running("none"):
        slow = invert(model, X, 1, prob=0.8, actions=actions)
    assert (slow.status == here.status).all()
    np.testing.assert_allclose(slow.x, here.x, rtol=SAME, atol=SAME)


def test_into_an_array_of_the_users_and_every_class_in_turn(rng):
    model, X, actions = problem(rng, N=30)
    out = np.zeros((30, D), dtype=np.float32)
    cfs = invert(model, X, 1, prob=0.8, actions=actions, out=out)
    np.testing.assert_allclose(cfs.x, invert(model, X, 1, prob=0.8, actions=actions).x, rtol=1e-6)
    both = invert(model, X, "all", prob=0.8, actions=actions)
    np.testing.assert_array_equal(both.x[1::2], invert(model, X, 1, prob=0.8, actions=actions).x)
    last = int(np.flatnonzero(both.status == Status.EXACT)[-1])
    assert math.isclose(both[last].cost, both.cost[last])
    assert both[last].within.cost == both[last - len(both)].within.cost


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_row_alone_is_what_it_is_in_a_table(rng, name, form):
    model, X, actions = problem(rng, N=40)
    asked = ask(model, 1, **QUESTIONS[name], actions=actions)
    cfs = asked(X)
    for n in (n for n in range(len(X)) if cfs.status[n] == Status.EXACT):
        cf = asked(X[n])
        if form == "none":
            np.testing.assert_allclose(cf.x, cfs.x[n], rtol=SAME, atol=SAME)
        else:
            np.testing.assert_array_equal(cf.x, cfs.x[n])
            assert (cf.cost, cf.gap, cf.lam, cf.distance) == (cfs[n].cost, cfs[n].gap, cfs[n].lam, cfs[n].distance)
        cf.verify()


# ---- the loop itself ----


def loop(model, X, target=1, prob=0.8, reach=intervals.reach, **question):
    """What the loop makes of rows, whoever asks for them."""
    asked = ask(model, target, prob=prob, **question).asked
    probs = np.full(len(X), 0.0 if prob is None else prob)
    space = CostSpace.of(asked)
    logits = np.full(len(X), -(space.margin or 0.0)) if prob is None else needed_logit(probs, model)
    return reach(intervals.Box.of(space), X, np.full(len(X), -1 if target is None else target), logits, probs)


SIZES = (1e-300, 1e-150, 1e-20, 1e-3, 1.0, 1e3, 1e20, 1e150, 1e300)


@compiled_only
@pytest.mark.parametrize("features", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 784])
@pytest.mark.parametrize("N", [0, 1, 2, 13])
def test_shapes(rng, features, N):
    """Any number of rows and features, against the one-source solver in NumPy."""
    model = Model.binary(rng.normal(size=features), 0.1, scaling=Scaling(rng.normal(size=features), np.full(features, 2.0)))
    X, actions = rng.normal(size=(N, features)), Actions(bounds=(-3.0, 3.0))
    x, ended, numbers = loop(model, X, actions=actions)
    assert (x.shape, ended.shape, numbers.shape) == ((N, features), (N,), (N, len(intervals.COLUMNS)))
    for n in range(N):
        alone = invert(model, X[n], 1, prob=0.8, actions=actions, backend="reference")
        assert ended[n] == (intervals.REACHED if alone.status is Status.EXACT else intervals.UNREACHABLE)
        np.testing.assert_allclose(x[n], alone.x, rtol=SAME, atol=SAME)


@compiled_only
def test_arrays_of_every_kind(rng):
    """Read-only, every other row, the other order, reversed, whole numbers: the same answers to the last bit."""
    model, X, actions = problem(rng, N=30)
    plain = loop(model, X, actions=actions)
    sealed, gaps, single = X.copy(), np.repeat(X, 2, axis=0), X.astype(np.float32)
    sealed.setflags(write=False)
    for other in (sealed, gaps[::2], np.asfortranarray(X), X[::-1].copy()[::-1], np.hstack([X, X])[:, :D]):
        for mine, theirs in zip(loop(model, other, actions=actions), plain, strict=True):
            np.testing.assert_array_equal(mine[ended(plain)], theirs[ended(plain)])
    as_doubles, as_singles = (loop(model, a, actions=actions).ended for a in (single.astype(np.float64), single))
    np.testing.assert_array_equal(as_doubles, as_singles)


def ended(found):
    return found.ended == intervals.REACHED


@compiled_only
@pytest.mark.parametrize("seed", range(60))
def test_numbers_of_every_size(seed):
    """Weights, rows, bounds and costs from the least numbers to the largest, NaN and infinities, against the array program."""
    rng = np.random.default_rng(seed)
    features = int(rng.integers(1, 20))
    sizes = rng.choice(SIZES[2:7] if seed % 2 else SIZES, 3)
    model = Model.binary(rng.normal(size=features) * sizes[0], float(rng.normal()))
    X = rng.normal(size=(30, features)) * sizes[1]
    X[rng.random(X.shape) < 0.02] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324])
    wide = abs(float(rng.normal())) * float(sizes[2]) + 1e-300
    limits = {} if features < 3 else {"increase": [0], "decrease": [1], "frozen": [2]}
    goal = {"prob": None, "margin": 0.5} if seed % 5 == 0 else {"prob": float(rng.choice([1e-6, 0.3, 0.9, 1 - 1e-9]))}
    cost = Cost("raw", l1=float(rng.choice([0.0, 0.3])))
    question = {**goal, "actions": Actions(bounds=(-wide, wide), **limits), "cost": cost, "target": (None, 1)[seed % 2]}
    with np.errstate(all="ignore"):
        here, text = loop(model, X, **question), loop(model, X, reach=box_text.reach, **question)
    assert (here.ended[~np.isfinite(X).all(axis=1)] == intervals.INVALID).all()
    np.testing.assert_array_equal(here.ended, text.ended)
    done = here.ended >= intervals.REACHED
    mine, theirs = (dict(zip(intervals.COLUMNS, found.numbers[done].T, strict=True)) for found in (here, text))
    assert (np.abs(here.x[done]) <= np.maximum(wide, np.abs(X[done]))).all()
    assert (mine["bound"] <= mine["cost"]).all()
    np.testing.assert_allclose(here.x[done], text.x[done], rtol=1e-6, atol=1e-6 * max(wide, np.abs(X[done]).max(initial=0.0)))
    for name in ("target", "cost", "distance", "p_target", "p_rival", "lam", "objective", "best"):
        np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-6, atol=1e-300, err_msg=name)
    assert (mine["gap"] <= 4 * theirs["gap"] + 1e-9 * theirs["cost"]).all()
