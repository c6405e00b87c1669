"""Very many classes: passes over A, against 50 digits, against the solvers for few classes, and where it is hard."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from helpers.compiled import needs_compiled
from helpers.data import data_file
from helpers.reference import optimum

import ifonly
from ifonly import InputError, Model, Status
from ifonly.engines import many_passes, passes
from ifonly.engines import very_many as many
from ifonly.model import products
from ifonly.model.numerics import EPS, softmax
from ifonly.problem.asked import Aim


@pytest.fixture
def forced(monkeypatch):
    """Every model with three classes or more goes through passes, with two rivals at a time one by one."""
    monkeypatch.setattr(products, "SHARED_GRAM", 3)
    monkeypatch.setattr(products, "GRAM_CLASSES", 2)
    monkeypatch.setattr(passes, "MOST", 2)
    monkeypatch.setattr(many, "SMALL_D", 0)  # and never in D dimensions, unless it is slow


@pytest.fixture(scope="module")
def imagenet():
    data = np.load(data_file("deep", "imagenet-head.npz"))
    return data["A"].astype(float), data["b"].astype(float), data["X"].astype(float)


# ---- against 50 digits ----


@pytest.mark.parametrize("lam", [1e-6, 1e-4, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize(("K", "D"), [(3, 1), (5, 2), (8, 30), (12, 5), (20, 12)])
def test_against_fifty_digits(forced, rng, K, D, lam):
    for _ in range(3):
        A, b, x = rng.standard_normal((K, D)), rng.standard_normal(K), 3 * rng.standard_normal(D)
        k = int((A @ x + b).argmin())
        cf = ifonly.invert(Model(A, b), x, k, lam=lam)
        true = optimum(A, b, x, k, lam)
        assert cf.status is Status.EXACT
        assert true.distance_to(cf.x) <= min(cf.error_bound, 1e-9 * (1 + true.norm()))  # the claim is true, and not by far
        assert abs(cf.objective - float(true.objective)) <= 1e-13 * (1 + float(true.objective))
        cf.verify()


def test_rivals_leave_and_return(forced, rng):
    """With two rivals at a time the strong ones at the source are not those at the answer."""
    A, b = rng.standard_normal((40, 60)), rng.standard_normal(40)
    x = 5 * rng.standard_normal(60)
    z = A @ x + b
    k = int(z.argmin())
    cf = ifonly.invert(Model(A, b), x, k, lam=1e-3)
    rivals = np.delete(np.arange(40), k)
    before, after = (set(rivals[np.argsort(-p[rivals])[:8]].tolist()) for p in (z, cf.proba))
    assert before != after
    assert optimum(A, b, x, k, 1e-3).distance_to(cf.x) < 1e-11 * (1 + np.linalg.norm(cf.x))


# ---- against the solvers for few classes ----


@pytest.mark.seconds
def test_imagenet_head_as_the_dense_solver(imagenet, monkeypatch):
    A, b, X = imagenet
    rows, lams = (0, 401), (1e-6, 1e-4, 1e-2, 1.0, 1e3)
    far = (X[list(rows)] @ A.T + b).argmin(axis=1).tolist()
    asked = [(lam, X[i], k) for lam in lams for i, k in zip(rows, far, strict=True)]
    monkeypatch.setattr(products, "SHARED_GRAM", 10**9)
    dense = Model(A, b)  # one for all: its matrix of all pairs of classes takes a second
    answers = [ifonly.invert(dense, x, k, lam=lam) for lam, x, k in asked]
    monkeypatch.setattr(products, "SHARED_GRAM", 400)
    monkeypatch.setattr(products, "GRAM_CLASSES", 500)
    for (lam, x, k), true in zip(asked, answers, strict=True):
        vast = Model(A, b)
        assert vast.only_passes
        cf = ifonly.invert(vast, x, k, lam=lam)
        assert cf.status is Status.EXACT
        assert np.linalg.norm(cf.x - true.x) <= 1e-12 * (1 + np.linalg.norm(true.x)) + true.error_bound
        assert cf.n_passes <= 13
        cf.verify()


def test_imagenet_embeddings_in_step(imagenet, monkeypatch):
    A, b, X = imagenet
    monkeypatch.setattr(products, "GRAM_CLASSES", 500)
    model = Model(A, b)
    targets = (X[:40] @ A.T + b).argmin(axis=1)
    cfs = ifonly.invert(model, X[:40], targets, prob=0.9)
    assert (cfs.status == Status.EXACT).all()
    assert (softmax(cfs.x @ A.T + b)[np.arange(40), targets] >= 0.9).all()
    cfs.verify()


@pytest.mark.seconds
def test_batch_as_one_by_one(synthetic):
    targets = np.arange(12) * 400
    for asked in ({"lam": 0.01}, {"prob": 0.8}):
        cfs = ifonly.invert(synthetic.model, synthetic.X[:12], targets, **asked)
        assert cfs.proba.shape == (12, 6000)
        for i in range(12):
            one = ifonly.invert(synthetic.model, synthetic.X[i], int(targets[i]), **asked)
            assert cfs.distance[i] == pytest.approx(one.distance, rel=1e-12)
            assert np.abs(cfs.x[i] - one.x).max() < 1e-11
            assert cfs[i].proba[targets[i]] == pytest.approx(one.proba[targets[i]], rel=1e-9)


# ---- single precision, where many points share a pass ----


@pytest.mark.seconds
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1e3])
@pytest.mark.parametrize(("K", "D"), [(5, 2), (8, 30), (20, 12)])
def test_many_at_once_against_fifty_digits(forced, rng, monkeypatch, K, D, lam):
    """As exact as one by one, with most passes in single precision."""
    monkeypatch.setattr(many_passes, "LEAST_ROWS", 32)
    looks = counted(monkeypatch)
    A, b, X = rng.standard_normal((K, D)), rng.standard_normal(K), 3 * rng.standard_normal((20, D))
    targets = (X @ A.T + b).argmin(axis=1)
    cfs = ifonly.invert(Model(A, b), X, targets, lam=lam)
    assert (cfs.status == Status.EXACT).all()
    for i in range(0, 20, 3):  # some of them: an optimum in 50 digits takes longer than all the rest
        true = optimum(A, b, X[i], int(targets[i]), lam)
        assert true.distance_to(cfs.x[i]) <= min(cfs.error_bound[i], 1e-9 * (1 + true.norm()))
    cfs.verify()
    assert sum(look.single for look in looks) >= 20


@pytest.mark.seconds
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_most_passes_of_a_batch_are_in_single_precision(rng, monkeypatch, kind):
    """The same answers as one by one, reached by a pass or two a row in double precision."""
    looks = counted(monkeypatch)
    A = (rng.standard_normal((5000, 150)) / 12).astype(kind)
    model, X, targets = Model(A, rng.standard_normal(5000)), 6 * rng.standard_normal((40, 150)), np.arange(40)
    for asked in ({"lam": 0.01}, {"prob": 0.8}):
        looks.clear()
        cfs = ifonly.invert(model, X, targets, **asked)
        double = sum(not look.single for look in looks)
        assert double <= 3 * len(X) < len(looks) / 2
        assert sum(look.since is not None for look in looks) >= len(X)
        assert (cfs.status == Status.EXACT).all()
        cfs.verify()
        for i in range(0, 40, 9):
            one = ifonly.invert(model, X[i], i, **asked)
            assert np.linalg.norm(cfs.x[i] - one.x) <= 1e-11 * (1 + one.distance)
            assert cfs.error_bound[i] <= 1.5 * one.error_bound
        if "prob" in asked:
            assert (softmax(cfs.x @ A.astype(float).T + model.b)[targets, targets] >= 0.8).all()


def test_numbers_that_single_precision_does_not_have(rng, monkeypatch):
    """Weights, biases or sources beyond 1e38: such points are seen in double precision, without a warning."""
    monkeypatch.setattr(many_passes, "LEAST_ROWS", 32)
    monkeypatch.setattr(products, "SHARED_GRAM", 3)
    monkeypatch.setattr(products, "GRAM_CLASSES", 2)
    A, b, X = rng.standard_normal((12, 80)), rng.standard_normal(12), rng.standard_normal((20, 80))
    plain = ifonly.invert(Model(A, b), X, 3, lam=0.1)
    for scale in (1e-45, 1e45):
        cfs = ifonly.invert(Model(scale * A, b), X / scale, 3, lam=0.1 * scale**2)
        np.testing.assert_allclose(scale * cfs.x, plain.x, rtol=0, atol=1e-10)
        assert (cfs.status == Status.EXACT).all()
    far = ifonly.invert(Model(A, b - 1e40 * (np.arange(12) > 3)), X, 3, lam=0.1)  # classes that no logit can save
    few = ifonly.invert(Model(A[:4], b[:4]), X, 3, lam=0.1)
    np.testing.assert_allclose(far.x, few.x, rtol=0, atol=1e-10)


def counted(monkeypatch):
    """All points that passes are asked for from now on."""
    looks = []
    monkeypatch.setattr(
        many, "take_a_pass", lambda model, asks, *rest: looks.extend(asks) or passes.take_a_pass(model, asks, *rest)
    )
    return looks


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_sums_in_single_precision(rng, kind):
    """Seven digits of the sums, and of a change from a known point seven digits of the change; classes apart are in neither."""
    A = rng.standard_normal((700, 40)).astype(kind)
    model, X = Model(np.eye(700, 40), rng.standard_normal(700)), 2 * rng.standard_normal((6, 40))
    object.__setattr__(model, "A", A)
    tasks = [passes.Task(x, A[3].astype(float), 0.5, np.array([3]), 1.0, None) for x in X]
    apart = [np.sort(rng.permutation(np.delete(np.arange(700), 3))[:n]) for n in (0, 1, 5, 60, 300, 699)]
    looks = [passes.Look(x, task, apart=out, keep=True) for x, task, out in zip(X, tasks, apart, strict=True)]
    double = passes.take_a_pass(model, looks)
    single = passes.take_a_pass(model, [replace(look, single=True, keep=False) for look in looks])
    assert double[-1].level == -math.inf  # nothing is left
    for a, b, x, out in zip(double[:-1], single[:-1], X[:-1], apart[:-1], strict=True):
        rivals = np.setdiff1d(np.arange(700), [3, *out])
        z = A[rivals].astype(float) @ x + model.b[rivals]
        np.testing.assert_allclose(a.mean, softmax(z) @ A[rivals].astype(float), rtol=0, atol=1e-12)
        assert b.level == pytest.approx(a.level, abs=3e-5)
        np.testing.assert_allclose(b.mean, a.mean, rtol=0, atol=3e-5)
        assert set(a.strong) <= set(rivals.tolist())
    for size in (1e-2, 1e-5, 1e-8):
        there = [x + size * rng.standard_normal(40) for x in X]
        true = passes.take_a_pass(model, [replace(look, x=x, keep=False) for look, x in zip(looks, there, strict=True)])
        asks = [
            replace(look, x=x, keep=False, single=True, since=seen.known)
            for look, x, seen in zip(looks, there, double, strict=True)
        ]
        for a, b in zip(true[:-1], passes.take_a_pass(model, asks)[:-1], strict=True):
            assert b.level == pytest.approx(a.level, abs=3e-5 * size + 1e-13)
            np.testing.assert_allclose(b.mean, a.mean, rtol=0, atol=3e-5 * size + 1e-13)


def test_nearest_class_as_all_of_them_tried(forced, rng):
    A, b = rng.standard_normal((9, 6)), rng.standard_normal(9)
    model = Model(A, b)
    for asked in ({"prob": 0.6}, {"lam": 0.05}):
        for _ in range(5):
            x = 2 * rng.standard_normal(6)
            now = int((A @ x + b).argmax())
            answers = {k: ifonly.invert(model, x, k, **asked) for k in range(9) if k != now}
            value = (lambda cf: cf.distance if cf.status.ok else np.inf) if "prob" in asked else (lambda cf: cf.objective)
            best = min(answers, key=lambda k: value(answers[k]))
            cf = ifonly.invert(model, x, **asked)
            assert cf.target == best
            assert cf.distance == pytest.approx(answers[best].distance, rel=1e-9)


def test_path(synthetic):
    lams = np.geomspace(10, 1e-4, 7)
    path = ifonly.path(synthetic.model, synthetic.X[0], 77, lams=lams)
    for lam, cf in zip(lams, path, strict=True):
        assert np.abs(cf.x - ifonly.invert(synthetic.model, synthetic.X[0], 77, lam=lam).x).max() < 1e-10
        cf.verify()
    assert path.at_prob(0.8).distance == pytest.approx(ifonly.invert(synthetic.model, synthetic.X[0], 77, prob=0.8).distance)
    assert path.at_lam(0.02).lam == 0.02
    assert (
        ifonly.path(synthetic.model, synthetic.X[0], lams=[1.0]).target == ifonly.invert(synthetic.model, synthetic.X[0]).target
    )


# ---- the promise ----


@pytest.mark.seconds
@pytest.mark.parametrize("prob", [0.1, 0.5, 0.9, 0.999999, 1 - 1e-12])
def test_probability_is_reached_to_the_last_bit(synthetic, prob):
    cfs = ifonly.invert(synthetic.model, synthetic.X[:10], np.arange(10) * 599, prob=prob)
    p = softmax(cfs.x @ synthetic.A.astype(float).T + synthetic.b.astype(float))[np.arange(10), np.arange(10) * 599]
    assert (cfs.status == Status.EXACT).all()
    assert (p >= prob).all()
    below = cfs.distance < 1e-300  # those that are there already
    assert (p[~below] <= prob + 1e-8 * (1 - prob) + 2 * 6008 * EPS).all()  # a softmax of K terms rounds by as much


# ---- where it is hard ----


def check(A, b, x, k, status=Status.EXACT, **asked):
    cf = ifonly.invert(Model(A, b), x, k, **asked)
    assert cf.status is status, cf
    cf.verify()
    return cf


@pytest.mark.parametrize("lam", [1e-6, 1e-3, 1.0, 1e3])
def test_a_hundred_thousand_classes_of_sixteen_features(lam):
    rng = np.random.default_rng(1)
    A, x = rng.standard_normal((100_000, 16)), rng.standard_normal(16)
    check(A, np.zeros(100_000), x, int((A @ x).argmin()), lam=lam)


@pytest.mark.parametrize("asked", [{"lam": 1e-6}, {"lam": 1e-3}, {"lam": 1.0}, {"lam": 1e3}, {"prob": 0.9}])
def test_thousands_of_rivals_with_equal_margins(asked):
    rng = np.random.default_rng(2)
    A, x = 0.05 * rng.standard_normal((5000, 100)), rng.standard_normal(100)
    check(A, -(A @ x), x, 7, **asked)


def test_duplicates_of_the_target():
    rng = np.random.default_rng(3)
    A, x = 0.1 * rng.standard_normal((5000, 100)), rng.standard_normal(100)
    A[100:109] = A[7]
    for lam in (1e-4, 1e-2, 1.0):
        check(A, np.zeros(5000), x, 7, lam=lam)
    check(A, np.zeros(5000), x, 7, prob=0.05)
    cf = check(A, np.zeros(5000), x, 7, Status.UNREACHABLE, prob=0.5)
    assert cf.proba[7] == pytest.approx(0.1, rel=1e-3)  # ten of a kind share it
    assert "out of reach" in cf.message


def test_rows_that_are_all_the_same():
    A, x = np.ones((5000, 20)), np.ones(20)
    assert check(A, np.zeros(5000), x, 3, lam=1.0).distance == 0.0
    check(A, np.zeros(5000), x, 3, Status.UNREACHABLE, prob=0.5)


def test_logit_gap_of_a_million():
    rng = np.random.default_rng(4)
    A, x, b = 0.05 * rng.standard_normal((5000, 100)), rng.standard_normal(100), np.zeros(5000)
    b[7] = -1e6
    cf = check(A, b, x, 7, lam=1e-3)
    assert cf.proba[7] == 0.0  # underflows, and the answer is right all the same


def test_source_that_is_there_already(synthetic):
    x = synthetic.X[0]
    k = int(synthetic.model.logits(x).argmax())
    p = float(synthetic.model.predict_proba(x)[k])
    cf = ifonly.invert(synthetic.model, x, k, prob=p / 2)
    assert cf.distance == 0.0
    assert cf.lam == math.inf
    assert cf.n_passes == 1


def test_one_feature():
    rng = np.random.default_rng(5)
    for lam in (1e-3, 1.0):
        check(rng.standard_normal((5000, 1)), np.zeros(5000), np.ones(1), 3, lam=lam)


def test_slow_rounds_go_on_in_all_dimensions(monkeypatch):
    """With no rival one by one and the others' covariance anything but small, rounds alone crawl."""
    monkeypatch.setattr(passes, "SHARE", 2.0)
    monkeypatch.setattr(many, "FIRST_SHARE", 2.0)
    monkeypatch.setattr(many, "SLOW_ROUNDS", 2)
    rng = np.random.default_rng(6)
    A, x = rng.standard_normal((5000, 70)), rng.standard_normal(70)
    cf = check(A, np.zeros(5000), x, 7, lam=1e-2)
    assert cf.n_passes < 60


def test_search_where_the_rounds_do_not_settle(synthetic, monkeypatch):
    true = ifonly.invert(synthetic.model, synthetic.X[0], 77, prob=0.8)
    monkeypatch.setattr(many, "MAX_ROUNDS", 1)
    aim = many.task_of(synthetic.model, synthetic.X[0], Aim(77, None, 0.8))
    search = many._search(synthetic.model, aim, synthetic.X[0], 1.0, many.NUMPY)
    ask = next(search)
    monkeypatch.setattr(many, "MAX_ROUNDS", 60)
    try:
        while True:
            ask = search.send(passes.take_a_pass(synthetic.model, [ask])[0])
    except StopIteration as end:
        found = end.value
    assert found.status is Status.EXACT
    assert np.linalg.norm(found.change) == pytest.approx(true.distance, rel=1e-9)


@needs_compiled
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 40, 130])
@pytest.mark.parametrize("lam", [1e-4, 1e-2, 1.0, 1e3])
def test_compiled_problems_with_few_rivals(instructions, rng, n, lam):
    """From a start of their own, or from the answer for another λ; rows of the matrix with gaps between them."""
    from ifonly.native.few_and_rest import solve_few_compiled

    rows = rng.normal(size=(n, n + 3))
    gram, margins = np.pad(rows @ rows.T, (0, 5))[:n, :n], 3 * rng.normal(size=n)
    for start in (None, many.solve_few(gram, margins, 1.2 * lam, None)[0]):
        (q, _), (true, _) = (solve(gram, margins, lam, start) for solve in (solve_few_compiled, many.solve_few))
        s = margins - gram @ q / lam
        np.testing.assert_allclose(np.exp(s - np.logaddexp(0.0, np.logaddexp.reduce(s))), q, rtol=0, atol=1e-7)  # q = p there
        np.testing.assert_allclose(q, true, rtol=0, atol=1e-7)


def assert_same_sums(model, looks, threads=1):
    """What the compiled pass says is what NumPy's says, and it says the same on any number of threads."""
    from ifonly.native.few_and_rest import sum_up_compiled

    K = model.n_classes
    logits = np.full((2, len(looks), K), np.nan)
    first, last = K // 3, K
    sums = [s(model, looks, logits[i])(first, last) for i, s in enumerate((passes.sum_up, sum_up_compiled))]
    size = 1 + np.abs(logits[0][:, first:]).max()
    np.testing.assert_allclose(logits[1][:, first:], logits[0][:, first:], rtol=0, atol=1e-13 * size)
    assert np.isnan(logits[:, :, :first]).all()
    np.testing.assert_allclose(sums[1].top, sums[0].top, rtol=0, atol=1e-13 * size)
    for a, b in ((sums[0].mass, sums[1].mass), (sums[0].mean, sums[1].mean)):
        np.testing.assert_allclose(a, b, rtol=1e-12 * size, atol=1e-12 * size * max(1.0, np.abs(a).max()))
    plain = passes.take_a_pass(model, looks, 1, sum_up_compiled)
    shared = passes.take_a_pass(model, looks, threads, sum_up_compiled)
    for a, b in zip(plain, shared, strict=True):
        assert a.level == b.level
        np.testing.assert_array_equal(a.mean, b.mean)
        np.testing.assert_array_equal(a.strong, b.strong)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 1), (3, 1), (5, 7), (64, 16), (65, 48), (129, 50), (200, 97), (1000, 8), (333, 257)])
def test_compiled_sums_of_any_shape(instructions, rng, monkeypatch, kind, shape):
    """One point and many, rows that are equal or nothing, logits in the thousands, arrays with gaps and read-only ones."""
    monkeypatch.setattr(passes, "PIECE_SIZE", 500)
    K, D = shape
    for i, N in enumerate((1, 2, 3, 4, 5, 9, 30)):
        A = rng.standard_normal((K, D)).astype(kind)
        A[rng.integers(K, size=K // 4)] = A[0]
        A[rng.integers(K, size=K // 4)] = 0.0
        wide = np.repeat(A, 2, axis=1)
        weights = (A, wide[:, :D], wide[:, ::2])[i % 3]  # whole, rows with gaps, every other number
        weights.flags.writeable = False
        X = rng.standard_normal((N, D)) * 10.0 ** rng.uniform(-3, 3, size=(N, 1))
        outside = [rng.permutation(K)[: rng.integers(K)] for _ in range(N)]
        model = Model(np.eye(K, D), rng.standard_normal(K))
        object.__setattr__(model, "A", weights)
        tasks = [passes.Task(x, weights[0].astype(float), 0.5, out, 1.0, None) for x, out in zip(X, outside, strict=True)]
        assert_same_sums(model, [passes.Look(x, task) for x, task in zip(X, tasks, strict=True)], threads=3)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 1, 3), (50, 13, 17), (133, 24, 32), (300, 7, 40), (900, 156, 70)])
def test_compiled_sums_in_single_precision(instructions, rng, monkeypatch, kind, shape):
    """Sums and changes side by side, in whole vectors of points and in parts of one, are NumPy's; threads change no bit."""
    from ifonly.native.few_and_rest import sum_up_compiled

    monkeypatch.setattr(passes, "PIECE_SIZE", 2000)
    K, D, N = shape
    A = (rng.standard_normal((K, D)) / np.sqrt(D)).astype(kind)
    model, X = Model(np.eye(K, D), rng.standard_normal(K)), 3 * rng.standard_normal((N, D))
    object.__setattr__(model, "A", A)
    tasks = [passes.Task(x, A[0].astype(float), 0.5, rng.permutation(K)[: rng.integers(K)], 1.0, None) for x in X]
    base = passes.take_a_pass(model, [passes.Look(x, task, keep=True) for x, task in zip(X, tasks, strict=True)])
    looks = [
        passes.Look(x + 1e-3 * rng.standard_normal(D), task, single=True, since=seen.known if i % 3 else None)
        for i, (x, task, seen) in enumerate(zip(X, tasks, base, strict=True))
    ]
    plain = passes.take_a_pass(model, looks)
    one, three = (passes.take_a_pass(model, looks, threads, sum_up_compiled) for threads in (1, 3))
    for look, a, b, c in zip(looks, plain, one, three, strict=True):
        slip = 1e-5 if look.since is None else 1e-8
        assert b.level == pytest.approx(a.level, abs=slip)
        np.testing.assert_allclose(b.mean, a.mean, rtol=0, atol=slip)
        np.testing.assert_array_equal(b.mean, c.mean)
        assert b.level == c.level
        assert set(b.strong) == set(c.strong)


@needs_compiled
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_compiled_pass_is_the_same(kind, rng, monkeypatch):
    from ifonly.native.few_and_rest import sum_up_compiled

    monkeypatch.setattr(passes, "PIECE_SIZE", 1)
    A, x = (rng.standard_normal((3000, 50)) * 0.5).astype(kind), 4 * rng.standard_normal(50)
    model = Model(A, rng.standard_normal(3000))
    for outside in ([], [7], [0, 5, 2999]):
        aim = passes.Task(x, A[7].astype(float), 0.5, np.array(outside, dtype=np.intp), 1.0, None)
        asks = [passes.Look(x, aim), passes.Look(2 * x, aim, wide=True)]
        for threads in (1, 3):
            plain, compiled = (
                passes.take_a_pass(model, asks, threads),
                passes.take_a_pass(model, asks, threads, sum_up_compiled),
            )
            for a, b in zip(plain, compiled, strict=True):
                assert a.level == pytest.approx(b.level, abs=1e-11)
                assert np.abs(a.mean - b.mean).max() < 1e-12
                assert set(a.strong) == set(b.strong)
                assert not set(outside) & set(a.strong.tolist())


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_threads_make_no_difference(synthetic, monkeypatch, backend):
    monkeypatch.setattr(passes, "PIECE_SIZE", 10_000)
    for question in ({"lam": 0.01}, {"prob": 0.8}):
        one, three = (
            ifonly.invert(synthetic.model, synthetic.X[:4], 7, threads=n, backend=backend, **question) for n in (1, 3)
        )
        np.testing.assert_array_equal(one.x, three.x)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_backends_agree(synthetic, backend):
    cf = ifonly.invert(synthetic.model, synthetic.X[0], 77, prob=0.8, backend=backend)
    assert cf.distance == pytest.approx(ifonly.invert(synthetic.model, synthetic.X[0], 77, prob=0.8).distance, rel=1e-12)
    with pytest.raises(InputError, match="backend must be"):
        ifonly.invert(synthetic.model, synthetic.X[0], 77, backend="gpu")


# ---- A as it is ----


@pytest.mark.seconds
@pytest.mark.parametrize("kind", [np.float16, np.float32, "memory map"])
def test_weights_stay_as_they_are(kind, tmp_path):
    rng = np.random.default_rng(7)
    K, D = 16_000, 600
    A = (rng.standard_normal((K, D)) / np.sqrt(D)).astype(np.float32 if kind == "memory map" else kind)
    x = 10 * rng.standard_normal(D)
    if kind == "memory map":
        np.save(tmp_path / "A.npy", A)
        A = np.load(tmp_path / "A.npy", mmap_mode="r")
    tracemalloc.start()
    model = Model(A, np.zeros(K))
    cf = ifonly.invert(model, x, 11, lam=1e-3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.borrowed
    assert np.shares_memory(model.A, A)
    assert peak < 13e6  # two threads' blocks, the labels, and some vectors of K; a copy in float64 would be 77 MB
    copied = Model(np.array(A, dtype=np.float64), np.zeros(K))
    assert not copied.borrowed
    assert np.abs(ifonly.invert(copied, x, 11, lam=1e-3).x - cf.x).max() < 1e-11
    cf.verify()
    with pytest.raises(ValueError, match="read-only"):
        model.A[0, 0] = 1.0


def test_weights_that_are_not_finite_are_named():
    A = np.zeros((16_000, 600), dtype=np.float32)
    A[12_345, 3] = np.nan
    with pytest.raises(InputError, match="A must be finite; there is a NaN or an infinity in rows"):
        Model(A, np.zeros(16_000))


def test_passes_are_counted_and_shared(synthetic):
    cf = ifonly.invert(synthetic.model, synthetic.X[0], 77, lam=0.01)
    assert 3 <= cf.n_passes <= 14
    few = ifonly.invert(Model(np.eye(3), np.zeros(3)), [1.0, 0.0, 0.0], 1)
    assert few.n_passes == 2
    counted = []

    def look(model, asks, *options):
        counted.append(len(asks))
        return passes.take_a_pass(model, asks, *options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "take_a_pass", look)
        cfs = ifonly.invert(synthetic.model, synthetic.X[[0] * 5], [1, 2, 3, 4, 5], lam=0.01)
        assert counted[0] == 5  # five rows, in step
        assert len(counted) == cfs.n_passes.max()


def test_targets_of_one_source_share_its_first_pass(synthetic, monkeypatch):
    first = []
    monkeypatch.setattr(
        many_passes._Passes, "_first", lambda job, x, old=many_passes._Passes._first: first.append(0) or old(job, x)
    )
    path = ifonly.path(synthetic.model, synthetic.X[0], 77, lams=[1.0, 0.1, 0.01])
    assert len(first) == 1
    assert (path.status == Status.EXACT).all()


# ---- what users do ----


def test_rows_that_are_not_finite_stop_nothing(synthetic):
    X = synthetic.X[:3].copy()
    X[1, 0] = np.nan
    cfs = ifonly.invert(synthetic.model, X, 5, prob=0.5)
    assert cfs.status.tolist() == [Status.EXACT, Status.INVALID, Status.EXACT]
    assert np.isnan(cfs.x[1]).all()
    with pytest.raises(InputError, match="must be finite"):
        ifonly.invert(synthetic.model, X[1], 5)


def test_into_an_array_and_from_a_stream(synthetic):
    out = np.empty((6, 80))
    cfs = ifonly.invert(synthetic.model, iter([synthetic.X[:4], synthetic.X[4:6]]), 5, lam=0.1, out=out)
    assert cfs.results.x is out
    assert np.abs(out - ifonly.invert(synthetic.model, synthetic.X[:6], 5, lam=0.1).x).max() < 1e-12
    with pytest.raises(InputError, match="out must have shape"):
        ifonly.invert(synthetic.model, synthetic.X[:4], 5, out=out)


def test_in_the_users_units(synthetic):
    from ifonly.model import Scaling

    shift, scale = np.linspace(-1, 1, 80), np.linspace(0.5, 2, 80)
    model = Model(synthetic.A, synthetic.b, scaling=Scaling(shift, scale))
    x = synthetic.X[0] * scale + shift
    cf, plain = ifonly.invert(model, x, 77, prob=0.8), ifonly.invert(synthetic.model, (x - shift) / scale, 77, prob=0.8)
    assert np.abs((cf.x - shift) / scale - plain.x).max() < 1e-9
    cf.verify()


def test_a_cost_per_feature(synthetic):
    scale = np.linspace(0.5, 2, 80)
    cf = ifonly.invert(synthetic.model, synthetic.X[0], 77, lam=0.01, cost=ifonly.Cost(scale=scale))
    by_hand = ifonly.invert(Model(synthetic.A / scale, synthetic.b), synthetic.X[0] * scale, 77, lam=0.01)
    assert np.abs(cf.x - by_hand.x / scale).max() < 1e-9


def test_limits_say_what_to_do(synthetic):
    with pytest.raises(InputError, match=r"limits are for models with up to 4096 classes, not 6000; keep those that could win"):
        ifonly.invert(synthetic.model, synthetic.X[0], 77, max_changes=3)


def test_a_start_is_a_point_to_start_from(synthetic):
    true = ifonly.invert(synthetic.model, synthetic.X[0], 77, lam=0.01)
    again = ifonly.invert(synthetic.model, synthetic.X[0], 77, lam=0.01, start=true.x)
    assert again.n_passes < true.n_passes
    assert np.abs(again.x - true.x).max() < 1e-11
    with pytest.raises(InputError, match="start must be one point or 1"):
        ifonly.invert(synthetic.model, synthetic.X[0], 77, lam=0.01, start=synthetic.X[:2])


def test_tolerance_saves_passes(synthetic):
    cf = ifonly.invert(synthetic.model, synthetic.X[0], 77, lam=0.01, tol=1e-6)
    assert cf.status is Status.CONVERGED
    assert cf.grad_norm <= 1e-6
    assert cf.n_passes < ifonly.invert(synthetic.model, synthetic.X[0], 77, lam=0.01).n_passes


# ---- sets of classes ----


@pytest.mark.parametrize("passing", [False, True])
@pytest.mark.parametrize("asked", [{"prob": 0.7}, {"lam": 0.05}])
def test_set_is_the_nearest_of_them(request, rng, asked, passing):
    if passing:
        request.getfixturevalue("forced")
    labels = list("abcdefgh")
    model = Model(rng.standard_normal((8, 6)), rng.standard_normal(8), classes=labels)
    X = 2 * rng.standard_normal((6, 6))
    wanted = ["b", "d", "g"]
    value = (lambda cf: cf.distance if cf.status.ok else np.inf) if "prob" in asked else (lambda cf: cf.objective)
    batch = ifonly.invert(model, X, set(wanted), **asked)
    for i, x in enumerate(X):
        each = [ifonly.invert(model, x, label, **asked) for label in wanted]
        best = min(each, key=value)
        one = ifonly.invert(model, x, wanted, **asked)
        assert one.target == batch.target[i] == best.target
        assert one.distance == pytest.approx(best.distance, rel=1e-9)
        assert batch.distance[i] == pytest.approx(best.distance, rel=1e-9)


def test_set_within_limits(rng):
    model = Model(rng.standard_normal((5, 4)), rng.standard_normal(5))
    x = rng.standard_normal(4)
    actions = ifonly.Actions(frozen=[0])
    one = ifonly.invert(model, x, {1, 3}, actions=actions, prob=0.5)
    each = [ifonly.invert(model, x, k, actions=actions, prob=0.5) for k in (1, 3)]
    assert one.distance == min(cf.distance for cf in each if cf.status.ok)


def test_set_of_all_or_unknown_classes():
    model = Model(np.eye(3), np.zeros(3))
    with pytest.raises(InputError, match="one or more of the 3 classes, but not all"):
        ifonly.invert(model, [0.0, 0.0, 1.0], {0, 1, 2})
    with pytest.raises(InputError, match="unknown class 7"):
        ifonly.invert(model, [0.0, 0.0, 1.0], [0, 7])
    with pytest.raises(InputError, match="one per row"):
        ifonly.invert(model, np.eye(3), [0, 1])
