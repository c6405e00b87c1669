"""Very many classes: the few and the rest, against Newton's matrix whole, 50 digits, and the problem in D dimensions."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from helpers import reference
from helpers.compiled import SETS, needs_compiled, running
from helpers.data import data_file
from helpers.problems import half
from scipy.special import logsumexp

import ifonly
from ifonly.engines import rounds as plain
from ifonly.engines.coordinates import Rivals
from ifonly.engines.newton import minimise
from ifonly.engines.rounds import ManyRivals, Place, Strongest
from ifonly.engines.windows import Window
from ifonly.model import products
from ifonly.model.numerics import EPS
from ifonly.native import few_and_rest

SAME = 1e-12  # of x, relative to its largest entry (or 1): what two methods may differ by


def by_cpp(instructions, *space, **options):
    with running(instructions):
        return few_and_rest.solve_rounds(*space, **options)


SOLVERS = {"numpy": plain.solve_rounds} | {name: partial(by_cpp, name) for name in SETS}
BACKENDS = ["reference", pytest.param("cpu", marks=needs_compiled)]


@pytest.fixture(params=SOLVERS)
def solve(request):
    """`solve_rounds`, in both languages and with all sets of instructions."""
    return SOLVERS[request.param]


@pytest.fixture(scope="module")
def head():
    """An ImageNet head (1000 classes, 1280 features), 800 embeddings."""
    data = np.load(data_file("deep", "imagenet-head.npz"))
    return ifonly.Model(data["A"].astype(float), data["b"].astype(float)), data["X"].astype(float)


@pytest.fixture
def tiny(monkeypatch):
    """Three classes are very many and two or three rivals the few: they come and go all the time."""
    monkeypatch.setattr(products, "SHARED_GRAM", 3)
    monkeypatch.setattr(plain, "FEW", 2)
    monkeypatch.setattr(plain, "SHARE", 0.3)


@pytest.fixture(params=BACKENDS)
def backend(request):
    """Both languages through the front door."""
    return request.param


def dense(A, k, margins, lam):
    """``x − x̄`` by Newton's method with all rivals at once, their inner products from the rows themselves."""
    rows = np.delete(A, k, axis=0) - A[k]
    space = Rivals(rows @ rows.T, margins, lam)
    outcome = minimise(space, space.start())
    assert outcome.converged
    return -rows.T @ outcome.point.at / lam


def change(A, k, ended):
    """``x − x̄`` where the rounds ended."""
    return -(np.delete(A, k, axis=0) - A[k]).T @ ended.point.at / ended.space.lam


def assert_same(x, y):
    np.testing.assert_allclose(x, y, rtol=0, atol=SAME * max(1.0, np.abs(y).max()))


# ---- the mathematics ----


def test_the_small_problem_touches_e_from_below(rng, monkeypatch):
    """Equal to E at the current point, with the same derivative, and nowhere above."""
    monkeypatch.setattr(plain, "FEW", 6)
    A, margins, k, lam = rng.normal(size=(30, 40)), 3 * rng.normal(size=29), 4, 0.7
    space, sbar, rows = ManyRivals(A @ A.T, k, margins, lam), np.insert(margins, k, -math.inf), A - A[k]
    d = np.insert(rng.random(29) / 10, k, 0.0)
    here = Place.of(d, rows @ (d @ rows), sbar)
    few = Strongest(space, sbar - here.u, here.p)
    rest = few.rest(space, sbar - here.u)
    small = few.problem(rest, sbar, here.u, lam)
    mean = rest.w @ rows
    assert 6 <= len(few.index) < 20

    def E(t):  # at x = x̄ − t, as it is defined
        return 0.5 * lam * t @ t + logsumexp(np.append(np.delete(sbar - rows @ t, k), 0.0))

    def below(t):  # the same with one rival for the rest
        margin = rest.margin - mean @ (t - d @ rows)
        return 0.5 * lam * t @ t + logsumexp(np.append((sbar - rows @ t)[few.index], [margin, 0.0]))

    at = d @ rows
    assert here.objective(lam) == pytest.approx(E(at), rel=1e-14)
    assert below(at) == pytest.approx(E(at), rel=1e-14)
    for size in 10.0 ** rng.uniform(-6, 1, size=50):
        t = size * rng.normal(size=40)
        assert below(at + t) <= E(at + t) + 1e-13
        assert below(at + t) == pytest.approx(E(at + t), abs=100 * size**2 + 1e-13)  # no difference of first order
    t, mass = 1e-4 * rng.normal(size=40), here.p[few.others].sum()
    spread = (rows - mean) @ t  # what is missing at second order is the covariance within the rest, times its mass
    assert E(at + t) - below(at + t) == pytest.approx(0.5 * mass * rest.w @ spread**2, rel=1e-2)
    q = rng.random(len(few.index) + 1)
    assert small.evaluate(q).objective == pytest.approx(below(q @ np.vstack([rows[few.index], mean]) / lam), rel=1e-12)


@pytest.mark.parametrize("K", [7, 40, 401])
def test_products_come_from_the_gram_matrix_of_all_classes(rng, K):
    A, k, v = rng.normal(size=(K, K + 9)), K // 2, rng.normal(size=K)
    v[k] = 0.0
    G = A @ A.T
    rows = A - A[k]
    expected = rows @ (v @ rows)
    space = ManyRivals(G, k, np.zeros(K - 1), 1.0)
    np.testing.assert_allclose(space.product(v), expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    few = rng.permutation(K)[:5]
    np.testing.assert_allclose(space.rows(few), rows[few] @ rows.T, rtol=0, atol=1e-12 * np.abs(G).max())
    np.testing.assert_allclose(
        space.gram, np.delete(rows, k, axis=0) @ np.delete(rows, k, axis=0).T, rtol=0, atol=1e-12 * np.abs(G).max()
    )


def test_the_few_are_the_strongest(rng):
    """Equal margins, margins equal but for rounding, and the target anywhere."""
    for margins in (rng.normal(size=99), np.zeros(99), np.full(99, 700.0), rng.integers(3, size=99) * 1e300):
        k = int(rng.integers(100))
        s = np.insert(margins, k, -math.inf)
        few = Strongest(ManyRivals(np.eye(100), k, margins, 1.0), s, np.zeros(100))
        assert len(few.index) == len(set(few.index)) == 64
        assert k not in few.index
        np.testing.assert_array_equal(np.sort(s[few.index]), np.sort(s)[-64:])
        np.testing.assert_array_equal(np.flatnonzero(~few.others), np.sort(np.append(few.index, k)))


@pytest.mark.parametrize("seed", range(40))
def test_all_solvers_agree_on_any_shape(seed, monkeypatch):
    """Few and many classes, more and fewer features, rows that are equal or nothing, margins of any size, λ of any."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(plain, "FEW", int(rng.choice([1, 2, 5, 64])))
    monkeypatch.setattr(plain, "SHARE", float(rng.choice([3e-3, 0.05, 0.3])))
    K = int(rng.choice([3, 4, 7, 8, 9, 16, 17, 31, 64, 65, 100, 129, 200]))
    D, k = int(rng.choice([K, K + 1, 2 * K])), int(rng.integers(K))
    A = rng.normal(size=(K, D)) * 10.0 ** rng.uniform(-1, 1)
    if seed % 4 == 1:
        A[rng.integers(K, size=K // 2)] = A[rng.integers(K)]
    if seed % 4 == 2:
        A[rng.integers(K, size=K // 3)] = 0.0
    G = A @ A.T
    G.flags.writeable = False
    if seed % 3 == 1:
        G = np.asfortranarray(G)
    margins = rng.normal(size=K - 1) * 10.0 ** rng.uniform(-2, 2)
    lam, now = float(10.0 ** rng.uniform(-3, 2)), math.exp(-logsumexp(np.append(margins, 0.0)))
    tau = now + (1 - now) * float(rng.uniform(0.05, 0.95))
    window = Window(math.log((1 - tau) / tau), 1e-9, 0.0, 1e-15)
    asked = {"window": window} if seed % 4 == 0 else {}  # within reach, and not yet there
    ends = [solve(ManyRivals(G, k, margins, lam), **asked) for solve in SOLVERS.values()]
    settled = [ended for ended in ends if ended.converged]
    for ended in settled[1:]:
        assert ended.space.lam == pytest.approx(settled[0].space.lam, rel=1e-6)
        p = settled[0].point.p
        np.testing.assert_allclose(ended.point.p, p, rtol=0, atol=1e-9 * max(p.max(), 1e-9))
        if not asked:
            assert_same(change(A, k, ended), change(A, k, settled[0]))
    # Whether equal rows settle hangs on rounding, and so on BLAS's threads; those that do not take the whole matrix.
    assert len(settled) in ((0, len(ends)) if seed % 4 != 1 else range(len(ends) + 1))


# ---- against 50 digits ----


@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1.0, 1e3])
def test_few_rivals_that_come_and_go_give_the_answer_in_fifty_digits(rng, tiny, backend, lam):
    A, b = rng.normal(size=(7, 9)), rng.normal(size=7)
    model = ifonly.Model(A, b)
    assert model.shares_gram
    x = 2 * rng.normal(size=9)
    for k in range(7):
        cf = ifonly.invert(model, x, k, lam=lam, backend=backend)
        truth = reference.optimum(A, b, x, k, lam)
        assert cf.status is ifonly.Status.EXACT
        assert truth.distance_to(cf.x) <= min(cf.error_bound, SAME * max(1.0, truth.norm()))
        assert reference.gradient_norm(A, b, cf.x, x, k, lam) <= cf.grad_norm
        cf.verify()


@pytest.mark.parametrize("prob", [0.05, 0.5, 0.9, 1 - 1e-9])
def test_a_probability_is_reached_by_few_rivals_that_come_and_go(rng, tiny, backend, prob):
    model = ifonly.Model(rng.normal(size=(7, 9)), rng.normal(size=7))
    for _ in range(5):
        x = 2 * rng.normal(size=9)
        k = int(model.logits(x).argmin())
        cf = ifonly.invert(model, x, k, prob=prob, backend=backend)
        assert cf.status is ifonly.Status.EXACT
        assert model.predict_proba(cf.x)[k] >= prob
        cf.verify()
        assert reference.optimum(model.A, model.b, x, k, cf.lam).distance_to(cf.x) <= SAME * max(1.0, np.abs(cf.x).max())


def test_rivals_all_but_equal_to_the_target_lose_no_digits(tiny, backend):
    """Inner products of all classes would: there Ḡ is formed from the differences of the rows."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(6, 9)), rng.normal(size=6)
    A[1:3] = A[0] + 1e-2 * A[1:3]
    model = ifonly.Model(A, b)
    assert model.shares_gram
    assert model.shared_gram(0) is not model.basis_gram
    assert model.shared_gram(5) is model.basis_gram
    x = rng.normal(size=9)
    for lam in (1e-6, 1e-3):
        cf = ifonly.invert(model, x, 0, lam=lam, backend=backend)
        truth = reference.optimum(A, b, x, 0, lam)
        assert truth.distance_to(cf.x) <= min(cf.error_bound, SAME * truth.norm())


# ---- against Newton's method with the whole matrix ----


@pytest.mark.seconds
@pytest.mark.parametrize("chosen", range(2))
def test_answers_on_an_imagenet_head_are_those_of_the_whole_matrix(head, chosen):
    """12 embeddings, half of them to the farthest class, with λ from 1e-6 to 1e3 or a probability of 0.9."""
    model, X = head
    for i in range(chosen, 24, 4):  # 0, 1, 4, 5, …
        z = model.logits(X[20 * i])
        k = int(z.argmin()) if i % 8 < 4 else (37 * i) % 1000
        margins = np.delete(z - z[k], k)
        window = Window(math.log(1 / 9), 1e-11, 0.0, 1e-15) if i % 6 == 3 else None
        space = ManyRivals(model.gram, k, margins, [1e-6, 1e-4, 1e-2, 0.1, 1.0, 1e3][i % 6])
        ends = [solve(space, window=window) for solve in SOLVERS.values()]
        python = ends[0]
        truth = dense(model.A, k, margins, python.space.lam)
        for ended in ends:
            assert ended.converged
            assert ended.n_iter <= 12
            assert ended.space.lam == pytest.approx(python.space.lam, rel=1e-12)
            assert_same(change(model.A, k, ended), truth)
            if window is not None:
                assert ended.point.p_target == pytest.approx(0.9, abs=1e-11)


def test_an_imagenet_head_through_the_front_door(head, backend):
    model, X = head
    for x in X[:3]:
        k = int(model.logits(x).argmin())
        for question in ({"lam": 0.01}, {"prob": 0.9}, {"lam": 0.01, "tol": 1e-6}):
            cf = ifonly.invert(model, x, k, backend=backend, **question)
            cf.verify()
            assert cf.status is (ifonly.Status.CONVERGED if "tol" in question else ifonly.Status.EXACT)
            assert cf.distance == pytest.approx(np.linalg.norm(cf.x - x), rel=1e-12)
            np.testing.assert_allclose(cf.proba, model.predict_proba(cf.x), rtol=1e-9)
        assert model.predict_proba(ifonly.invert(model, x, k, prob=0.9, backend=backend).x)[k] >= 0.9


@needs_compiled
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 8), (7, 17), (8, 64), (13, 100), (100, 33)])
def test_passes_over_rows_in_single_precision_lose_nothing(instructions, rng, shape):
    rows = rng.normal(size=shape).astype(np.float32)
    lean, exact = few_and_rest.Lean(rows), rows.astype(np.float64)
    for size in (1e-30, 1.0, 1e30):
        x, y = size * rng.normal(size=shape[1]), size * rng.normal(size=shape[0])
        for found, true, terms in (
            (lean.times(x), exact @ x, np.abs(exact) @ np.abs(x)),
            (lean.combination(y), y @ exact, np.abs(y) @ np.abs(exact)),
        ):
            assert (np.abs(found - true) <= sum(shape) * EPS * terms).all()


@needs_compiled
@pytest.mark.parametrize(("times", "more", "lean"), [(1.0, 0.0, True), (1.0, 1e-12, False), (1e40, 0.0, False)])
def test_weights_are_taken_in_single_precision_only_where_they_have_no_more_digits(tiny, rng, times, more, lean):
    A = times * rng.normal(size=(6, 9)).astype(np.float32).astype(np.float64)
    A[2, 3] += more
    model, x = ifonly.Model(A, rng.normal(size=6)), rng.normal(size=9) / times
    assert (few_and_rest.Lean.of(model) is not None) is lean
    found, true = (ifonly.invert(model, x, 1, prob=0.9, backend=backend) for backend in ("cpu", "reference"))
    found.verify()
    assert_same(times * found.x, times * true.x)


def shapes(rng, K):
    """What makes trouble: name → (A, margins at the source over class 0)."""
    D = K + K // 5
    A = rng.normal(size=(K, D)) / math.sqrt(D)
    clusters = rng.normal(size=(20, D))[rng.integers(20, size=K)] + 0.03 * rng.normal(size=(K, D))
    return {
        "equal rivals": (A, np.zeros(K - 1)),
        "nearly equal rivals": (A, 1e-3 * rng.normal(size=K - 1)),
        "orthogonal rows": (np.eye(K, D), np.zeros(K - 1)),
        "clusters": (clusters / math.sqrt(D), rng.normal(size=K - 1)),
        "long rows": (100 * A, 3 * rng.normal(size=K - 1)),
        "short rows": (1e-3 * A, 3 * rng.normal(size=K - 1)),
        "margins in the thousands": (10 * A, 1e3 * rng.normal(size=K - 1)),
        "a target with the least probability": (A, 700 + rng.normal(size=K - 1)),
        "a target with all of it": (A, -800 + rng.normal(size=K - 1)),
    }


@pytest.mark.parametrize(("lam", "shape"), half([1e-6, 1e-3, 1.0, 1e3], shapes(np.random.default_rng(0), 10)))
def test_trouble_makes_no_difference(rng, solve, shape, lam):
    A, margins = shapes(rng, 260)[shape]
    ended = solve(ManyRivals(A @ A.T, 0, margins, lam))
    assert ended.converged
    assert_same(change(A, 0, ended), dense(A, 0, margins, lam))
    tau = 0.8
    ended = solve(ManyRivals(A @ A.T, 0, margins, lam), window=Window(math.log((1 - tau) / tau), 1e-9, 0.0, 1e-15))
    if shape != "a target with all of it":  # which has it at the source: nobody asks
        assert ended.converged
        assert ended.point.p_target == pytest.approx(tau, abs=1e-9)
        assert_same(change(A, 0, ended), dense(A, 0, margins, ended.space.lam))


@pytest.mark.seconds
def test_two_thousand_equal_rivals(rng, backend):
    K, D = 2000, 2100
    model = ifonly.Model(rng.normal(size=(K, D)) / 10, np.zeros(K))
    for question in ({"lam": 1e-3}, {"prob": 0.9}):
        cf = ifonly.invert(model, np.zeros(D), 7, backend=backend, **question)
        assert cf.status is ifonly.Status.EXACT
        cf.verify()


# ---- what else is promised ----


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    model = ifonly.Model(rng.normal(size=(403, 500)) / 10, rng.normal(size=403))
    assert model.shares_gram
    return model


def test_where_the_rounds_do_not_settle_the_whole_matrix_does(model, rng, monkeypatch, backend):
    for module in (plain, few_and_rest):
        monkeypatch.setattr(module, "MAX_ROUNDS", 1)
    x = rng.normal(size=500)
    k = int(model.logits(x).argmin())
    margins = np.delete(model.logits(x) - model.logits(x)[k], k)
    cf = ifonly.invert(model, x, k, lam=0.01, backend=backend)
    assert cf.status is ifonly.Status.EXACT
    assert_same(cf.x - x, dense(model.A, k, margins, 0.01))
    cf = ifonly.invert(model, x, k, prob=0.8, backend=backend)
    assert cf.status is ifonly.Status.EXACT
    assert model.predict_proba(cf.x)[k] >= 0.8
    assert_same(cf.x - x, dense(model.A, k, margins, cf.lam))


def test_a_limit_on_the_rounds_is_kept_and_said(model, rng, backend):
    x = rng.normal(size=500)
    k = int(model.logits(x).argmin())
    cf = ifonly.invert(model, x, k, lam=0.01, max_iter=2, backend=backend)
    best = ifonly.invert(model, x, k, lam=0.01, backend=backend)
    assert (cf.status, cf.n_iter) == (ifonly.Status.MAX_ITER, 2)
    assert 0 < np.linalg.norm(cf.x - best.x) <= cf.error_bound + best.error_bound
    cf.verify()


def test_a_start_chosen_by_the_user_gives_the_paper_s_iterates(model, rng):
    x = rng.normal(size=500)
    cf = ifonly.invert(model, x, 5, lam=0.1, start="source")
    assert_same(cf.x, ifonly.invert(model, x, 5, lam=0.1).x)
    assert cf.history[0].objective == pytest.approx(model.objective(x, x, 5, 0.1), rel=1e-12)


def test_a_path_is_its_answers_one_by_one(model, rng, backend):
    x = rng.normal(size=500)
    lams = [*np.geomspace(10, 0.01, 12), 0.01, 1e-5]
    path = ifonly.path(model, x, 5, lams=lams, backend=backend)
    for i in (0, 5, 11, 12, 13):
        assert_same(path[i].x, ifonly.invert(model, x, 5, lam=lams[i]).x)
        path[i].verify()


def test_many_rows_are_their_answers_one_by_one(model, rng, backend):
    X = rng.normal(size=(20, 500))
    X[3] = np.nan
    targets = rng.integers(403, size=20)
    for question in ({"lam": 0.1}, {"prob": 0.7}):
        answers = ifonly.invert(model, X, targets, backend=backend, **question)
        assert answers.status[3] == ifonly.Status.INVALID
        for i in (0, 11, 19):
            assert_same(answers.x[i], ifonly.invert(model, X[i], int(targets[i]), **question).x)
            answers[i].verify()


def test_the_history_is_that_of_a_descent(model, rng):
    z = model.logits(rng.normal(size=500))
    ended = SOLVERS["numpy"](ManyRivals(model.gram, 5, np.delete(z - z[5], 5), 0.01))
    E = [step.objective for step in ended.history] + [ended.point.objective]
    assert len(E) == ended.n_iter + 1
    assert all(b <= a + 1e-12 for a, b in pairwise(E))
    assert ended.history[0].grad_norm > 1e6 * ended.history[-1].grad_norm > 0
