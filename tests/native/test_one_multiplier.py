"""The search with one multiplier: against all combinations, against NumPy's answers, and at its limits."""

import itertools
import math

import numpy as np
import pytest
from helpers.compiled import FORMS, SETS, running

from ifonly import Actions, Model, Status, invert
from ifonly.native import one_multiplier
from ifonly.native.one_multiplier import LOG, Items

SAME = 1e-9  # relative, between sums in another order
ROUNDED = 1e-12  # relative, by which bounds are lower than a search says, for the rounding of its sums
GAP = 1e-9
NODES = 4000
ROOM = 2 * NODES + 1


@pytest.fixture(params=SETS)
def instructions(request):
    with running(request.param):
        yield request.param


def make(rng, n, groups=0, *, grids=True, outside=0.0, size=1.0):
    """Items of every kind, and their ranges."""
    step = np.where(rng.random(n) < 0.5, rng.choice([0.25, 1.0], n), 0.0) * size if grids else np.zeros(n)
    lo, hi = -np.ceil(4 * rng.random(n)) * size, np.ceil(4 * rng.random(n)) * size
    at_rest = rng.random(n) >= outside
    lo = np.where(at_rest, lo, np.where(step > 0, step, 0.25 * size))  # those outside have to move
    hi = np.maximum(hi, lo)
    wide = (step == 0) & (rng.random(n) < 0.2)
    hi[wide] = np.inf
    counts = rng.integers(2, 5, groups)
    first = np.append(0, np.cumsum(counts)).astype(np.int64)
    m = int(first[-1])
    og, oc, moves = rng.normal(size=m) * size**2, rng.uniform(0.2, 2.0, m) * size**2, np.ones(m, dtype=bool)
    og[first[:-1]], oc[first[:-1]], moves[first[:-1]] = 0.0, 0.0, False
    later = np.setdiff1d(np.arange(m), first[:-1])
    oc[later[rng.random(len(later)) < 0.2]] = np.inf
    g, mu = rng.normal(size=n) * size, rng.choice([0.0, 0.3], n) * size
    return Items(g, mu, step, np.zeros(n), at_rest, og, oc, moves, first), lo, hi


def most(items, lo, hi, cap):
    """The largest gain there is."""
    with np.errstate(invalid="ignore"):  # 0·∞
        top = np.nan_to_num(np.maximum(items.g * lo, items.g * hi), posinf=np.inf)
    of_groups = [items.og[a:b][np.isfinite(items.oc[a:b])].max() for a, b in itertools.pairwise(items.first)]
    extra, room = np.sort([*np.maximum(top[items.at_rest], 0.0), *of_groups])[::-1], cap - (~items.at_rest).sum()
    return -np.inf if room < 0 else top[~items.at_rest].sum() + extra[:room].sum()


def least(items, lo, hi, need, cap):
    """The least cost, by trying every point of grids, every option, and every set of the others that may move."""
    grid = items.step > 0
    points = [
        items.step[d] * np.arange(round(lo[d] / items.step[d]), round(hi[d] / items.step[d]) + 1) if grid[d] else [0.0, 1.0]
        for d in range(len(items.g))
    ]
    options = [np.flatnonzero(np.isfinite(items.oc[a:b])) + a for a, b in itertools.pairwise(items.first)]
    every = np.stack([axis.ravel() for axis in np.meshgrid(*points, *options, indexing="ij")], axis=1)
    t, choice = every[:, : len(items.g)], every[:, len(items.g) :].astype(int)
    counted = ((t != 0) | ~items.at_rest).sum(axis=1) + items.moves[choice].sum(axis=1)
    kept = (counted <= cap) & (grid | items.at_rest | (t == 1.0)).all(axis=1)
    t, choice = t[kept], choice[kept]
    moving = ~grid & (t == 1.0)

    def response(w):
        pull = w[:, None] * items.g
        best = np.clip(np.sign(pull) * np.maximum(np.abs(pull) - items.mu, 0.0), lo, hi)
        return np.where(grid, t, np.where(moving, best, 0.0))

    rest = need - items.og[choice].sum(axis=1)
    below, above = np.zeros(len(t)), np.full(len(t), 1e6)
    for _ in range(100):
        middle = 0.5 * (below + above)
        met = response(middle) @ items.g >= rest
        below, above = np.where(met, below, middle), np.where(met, middle, above)
    x = response(above)
    cost = (0.5 * x * x + items.mu * np.abs(x)).sum(axis=1) + items.oc[choice].sum(axis=1)
    return float(cost[x @ items.g >= rest].min(initial=np.inf))


def run(items, lo, hi, need, cap, nodes=NODES, room=ROOM):
    search = one_multiplier.CompiledSearch(items, lo, hi, need, cap, room)
    with np.errstate(all="ignore"):
        return search, search.expand(GAP, nodes)


def check(items, lo, hi, need, cap, search):
    """The solution keeps its limits, meets the need, and costs what it says."""
    t, choice, n = search.t, search.choice, len(items.g)
    assert (t >= lo).all()
    assert (t <= hi).all()
    assert (items.first[:-1] <= choice).all()
    assert (choice < items.first[1:]).all()
    steps = t[items.step > 0] / items.step[items.step > 0]
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-9)
    assert ((t != 0) | ~items.at_rest).sum() + items.moves[choice].sum() <= cap
    gain, cost = items.g @ t + items.og[choice].sum(), (0.5 * t * t + items.mu * np.abs(t)).sum() + items.oc[choice].sum()
    assert gain >= need - SAME * (abs(need) + np.abs(items.g * t).sum())
    assert math.isclose(cost, search.cost, rel_tol=SAME, abs_tol=1e-300)
    assert t.shape == (n,)


def settle(items, lo, hi, need, cap):
    """A search that comes to its end, with a solution that is one."""
    search, done = run(items, lo, hi, need, cap)
    assert done
    assert search.log.shape[1] == len(LOG)
    if most(items, lo, hi, cap) >= need:
        check(items, lo, hi, need, cap, search)
        assert search.cost * (1 - 2 * GAP) <= search.bound <= search.cost
    else:
        assert math.isinf(search.cost)
    return search


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.skipif(not SETS, reason="installed without a compiler")
def test_against_all_combinations(seed):
    """Every set of instructions; all combinations, which take longest, once for all of them."""
    rng = np.random.default_rng(seed)
    n, groups = int(rng.integers(0, 7)), int(rng.integers(0, 3))
    n = max(n, 1 if groups == 0 else 0)
    items, lo, hi = make(rng, n, groups, outside=0.1 * (seed % 3), grids=seed % 4 > 0)
    items = items._replace(step=np.where((items.step > 0) & (np.cumsum(items.step > 0) <= 3), 1.0, 0.0))
    lo = np.where(items.at_rest, lo, np.maximum(lo, items.step))
    hi = np.maximum(hi, lo)
    whole = n + groups
    cap = int(rng.integers(1, whole + 1)) if seed % 2 else whole
    top = most(items, lo, hi, cap)
    for share in (-0.5, 0.0, 0.1, 0.5, 0.9, 1.5):
        need = share * min(max(top, 0.1), 20.0)
        found = least(items, lo, hi, need, cap)
        for form in SETS:
            with running(form):
                search = settle(items, lo, hi, need, cap)
            assert search.cost == pytest.approx(found, rel=2 * SAME, abs=1e-12), form


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 100])
def test_every_number_of_features(n, instructions):
    rng = np.random.default_rng(n)
    items, lo, hi = make(rng, n, grids=n % 2 == 0)
    for cap in {1, max(1, n // 2), n}:
        settle(items, lo, hi, 0.5 * min(most(items, lo, hi, cap), 10.0), cap)


@pytest.mark.parametrize("room", [24, 25, 60, 200])
def test_many_that_may_move_are_the_best_of_all(room, instructions):
    """More than are found by insertion, and ties among them."""
    rng = np.random.default_rng(room)
    items = make(rng, 256, grids=False)[0]._replace(g=np.repeat(rng.normal(size=64), 4), mu=np.zeros(256))
    settle(items, -np.ones(256), np.ones(256), 0.5 * most(items, -np.ones(256), np.ones(256), room), room)


@pytest.mark.parametrize("size", [1e-150, 1e-20, 1e-3, 1e3, 1e20, 1e140])
def test_numbers_of_every_size(size, instructions):
    rng = np.random.default_rng(9)
    items, lo, hi = make(rng, 12, 1, size=size)
    for cap in (3, 13):
        settle(items, lo, hi, 0.5 * min(most(items, lo, hi, cap), 10 * size**2), cap)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
@pytest.mark.parametrize("name", ["need", "g", "mu", "step", "anchor", "og", "oc", "lo", "hi"])
def test_what_is_no_number_ends_the_search_and_nothing_else(name, bad, instructions):
    rng = np.random.default_rng(3)
    items, lo, hi = make(rng, 9, 2)
    values = {**items._asdict(), "lo": lo, "hi": hi, "need": 1.0}
    values[name] = bad if name == "need" else np.where(np.arange(len(values[name])) == 1, bad, values[name])
    lo, hi, need = (values.pop(key) for key in ("lo", "hi", "need"))
    for cap in (2, 11):
        search, _ = run(Items(**values), lo, hi, need, cap, nodes=200)
        assert search.solved <= 200
        assert search.log.shape == (len(search.log), len(LOG))


def ended_and_begun():
    """A search that has come to its end, that it has, and the same before its first node."""
    items, lo, hi = make(np.random.default_rng(1), 20, 2)
    need = 0.5 * min(most(items, lo, hi, 22), 10.0)
    return *run(items, lo, hi, need, 22), one_multiplier.CompiledSearch(items, lo, hi, need, 22, ROOM)


def test_a_search_may_be_interrupted(instructions):
    """Nodes a few at a time, or all at once: the same to the last bit."""
    whole, done, parts = ended_and_begun()
    while not parts.expand(GAP, 1):
        assert parts.bound <= whole.cost
    assert done
    assert (parts.cost, parts.w, parts.solved, parts.bound) == (whole.cost, whole.w, whole.solved, whole.bound)
    np.testing.assert_array_equal(parts.log, whole.log)
    np.testing.assert_array_equal(parts.t, whole.t)


def test_a_search_without_time_solves_one_node_and_can_go_on(instructions):
    whole, _, hurried = ended_and_begun()
    assert not hurried.expand(GAP, NODES, 0.0)
    assert hurried.solved == 1 < whole.solved
    assert hurried.bound <= whole.cost
    assert hurried.expand(GAP, NODES, 3600.0)
    assert (hurried.cost, hurried.solved, hurried.bound) == (whole.cost, whole.solved, whole.bound)


def test_without_room_for_more_nodes_a_search_says_so_and_what_it_has_holds(instructions):
    rng = np.random.default_rng(4)
    items, lo, hi = make(rng, 24)
    items, need = items._replace(step=np.ones(24)), 6.3
    free, done = run(items, lo, hi, need, 24)
    assert done
    assert free.solved > 20
    for room in (0, 1, 2, 3, 4, 5, 20):
        search, done = run(items, lo, hi, need, 24, room=room)
        assert not done
        assert search.full
        assert len(search.log) <= max(room, 1)
        assert search.bound <= free.cost <= search.cost


def test_rows_are_what_each_is_alone(instructions):
    """Whatever the number of threads, and for arrays of every kind, to the last bit."""
    rng = np.random.default_rng(2)
    N, cap = 200, 4
    alike = [make(rng, 10, 2) for _ in range(N)]
    items, lo, hi = alike[0]
    counts = [len(each[0].og) for each in alike]
    m = counts[0]
    per_row = {
        "anchor": np.zeros((N, 10)),
        "at_rest": np.ones((N, 10), dtype=bool),
        "og": rng.normal(size=(N, m)),
        "oc": rng.uniform(0.1, 1.0, (N, m)),
        "moves": np.tile(items.moves, (N, 1)),
    }
    many = items._replace(**per_row)
    lo, hi, need = np.tile(np.minimum(lo, 0.0), (N, 1)), np.tile(np.maximum(hi, 0.0), (N, 1)), rng.uniform(0, 4, N)
    one, two, seven = (
        one_multiplier.reach((need, 0 * need), many, (lo, hi), cap, GAP, NODES, threads) for threads in (1, 2, 7)
    )
    for other in (two, seven):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for array in (lo, need, many.og):
        array.setflags(write=False)
    odd = many._replace(oc=np.asfortranarray(many.oc), anchor=np.repeat(many.anchor, 2, axis=0)[::2])
    box = lo, hi[:, ::-1].copy()[:, ::-1]
    for mine, theirs in zip(one, one_multiplier.reach((need, 0 * need), odd, box, cap, GAP, NODES, 1), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    t, choice, numbers = one
    for i in range(0, N, 17):
        search, done = run(many.of(i), lo[i], hi[i], need[i], cap)
        np.testing.assert_array_equal(t[i], search.t)
        np.testing.assert_array_equal(choice[i], search.choice)
        assert numbers[i, [0, 1, 2, 4]].tolist() == [search.cost, search.w, len(search.log), float(done)]
        assert numbers[i, 3] == pytest.approx(search.bound, rel=ROUNDED) if math.isfinite(search.cost) else True


@pytest.mark.parametrize("N", [0, 1])
def test_few_rows(N, instructions):
    items, lo, hi = make(np.random.default_rng(0), 6)
    many = items.of(None).of(np.zeros(N, dtype=int))
    t, choice, numbers = one_multiplier.reach(
        (np.ones(N), np.zeros(N)), many, (np.tile(lo, (N, 1)), np.tile(hi, (N, 1))), 6, GAP, NODES, 2
    )
    assert (t.shape, choice.shape, numbers.shape) == ((N, 6), (N, 0), (N, 5))


def test_arrays_that_do_not_fit_are_refused(instructions):
    items, lo, hi = make(np.random.default_rng(0), 6, 1)
    with pytest.raises(ValueError, match="different lengths"):
        one_multiplier.CompiledSearch(items, lo[:5], hi, 1.0, 7, ROOM)
    with pytest.raises(ValueError, match="groups must have options"):
        one_multiplier.CompiledSearch(items._replace(first=items.first + 1), lo, hi, 1.0, 7, ROOM)


@pytest.mark.seconds
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "question", [{"actions": {"integer": range(4)}}, {"max_changes": 2}, {"max_changes": 2, "actions": {}}]
)
def test_the_same_answers_in_every_form(question, form):
    rng = np.random.default_rng(11)
    model, X = Model.binary(rng.normal(size=8), 0.2), np.rint(2 * rng.normal(size=(20, 8))).clip(-4, 4)
    question = dict(question)
    if "actions" in question:
        question["actions"] = Actions(bounds=(-4, 4), **question["actions"])
    with running(form):
        cfs = invert(model, X, 1, prob=0.8, **question)
        for n in range(0, 20, 5):
            invert(model, X[n], 1, prob=0.8, **question).verify()
    alone = [invert(model, x, 1, prob=0.8, **question, backend="reference") for x in X]
    assert cfs.status.tolist() == [int(cf.status) for cf in alone]
    exact = cfs.status == Status.EXACT
    np.testing.assert_allclose(cfs.cost[exact], np.array([cf.cost for cf in alone])[exact], rtol=SAME, atol=1e-12)
