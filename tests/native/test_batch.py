"""Every backend gives the answers of the single-source solvers, for every kind of question."""

import tracemalloc

import numpy as np
import pytest
from helpers import gpu
from helpers.problems import make
from scipy import sparse

import ifonly
from ifonly.problem.status import Status

BACKENDS = ["reference", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

# Between a backend and the single solver: both are exact to some EPS·(1 + ‖x‖) times the condition of the rivals.
SAME = 1e-11


@pytest.fixture(params=BACKENDS)
def backend(request):
    if request.param == "cuda":
        gpu.needed()
    return request.param


def assert_same(batch, model, X, targets, **form):
    for n, cf in enumerate(batch):
        one = {name: value if np.ndim(value) == 0 else value[n] for name, value in form.items()}
        single = ifonly.invert(model, X[n], None if targets is None else int(targets[n]), **one)
        assert cf.target == single.target
        assert cf.status == single.status
        scale = 1 + np.linalg.norm(single.x)
        np.testing.assert_allclose(cf.x, single.x, rtol=0, atol=SAME * scale)
        np.testing.assert_allclose(cf.objective, single.objective, rtol=1e-9, atol=1e-12)
        cf.verify()


@pytest.mark.parametrize("K", [2, 3, 10, 33, 60])
def test_lam_form(backend, K, rng):
    model, X, targets = make(rng, K, 70, 40, size=3.0)
    lam = 10 ** rng.uniform(-5, 5, size=40)
    assert_same(ifonly.invert(model, X, targets, lam=lam, backend=backend), model, X, targets, lam=lam)


@pytest.mark.parametrize("K", [2, 3, 10, 33])
def test_prob_form(backend, K, rng):
    model, X, targets = make(rng, K, 50, 60)
    prob = rng.uniform(0.05, 0.999, size=60)
    batch = ifonly.invert(model, X, targets, prob=prob, backend=backend)
    assert (batch.status == Status.EXACT).all()
    p = model.predict_proba(batch.x)[np.arange(60), targets]
    assert (p >= prob).all()
    stays = np.isinf(batch.lam)
    assert (p[~stays] <= prob[~stays] + 1e-10).all()
    for n, cf in enumerate(batch):
        single = ifonly.invert(model, X[n], int(targets[n]), prob=prob[n])
        # each ends somewhere in a window of rounding around the same λ
        np.testing.assert_allclose(cf.distance, single.distance, rtol=1e-9, atol=1e-12)
        cf.verify()


@pytest.mark.parametrize("form", [{"lam": 0.05}, {"prob": 0.6}])
@pytest.mark.parametrize("K", [2, 3, 9])
def test_nearest_other_class(backend, K, form, rng):
    model, X, _ = make(rng, K, 20, 50)
    batch = ifonly.invert(model, X, **form, backend=backend)
    for n, cf in enumerate(batch):
        single = ifonly.invert(model, X[n], **form)
        assert cf.target == single.target
        np.testing.assert_allclose(cf.distance, single.distance, rtol=1e-9)


@pytest.mark.parametrize("form", [{"lam": 0.05}, {"prob": 0.6}])
def test_all_targets(backend, form, rng):
    model, X, _ = make(rng, 4, 12, 30)
    batch = ifonly.invert(model, X, "all", **form, backend=backend)
    assert len(batch) == 30 * 4
    assert batch.target.tolist() == [0, 1, 2, 3] * 30
    for n in range(0, 30, 7):
        for k in range(4):
            single = ifonly.invert(model, X[n], k, **form)
            np.testing.assert_allclose(batch[4 * n + k].x, single.x, atol=1e-9)
            np.testing.assert_allclose(batch.x[4 * n + k], single.x, atol=1e-9)
    out = np.empty((120, 12))
    ifonly.invert(model, X, "all", **form, backend=backend, out=out)
    np.testing.assert_allclose(out, batch.x, atol=1e-12)
    one = ifonly.invert(model, X[3], "all", **form)
    np.testing.assert_allclose(one.x, batch.x[12:16], atol=1e-9)


def test_extremes(backend, rng):
    model = ifonly.Model(rng.normal(size=(6, 30)), rng.normal(size=6))
    X = rng.normal(size=(40, 30)) * 10 ** rng.uniform(-3, 5, size=(40, 1))
    targets = (X @ model.A.T + model.b).argmin(axis=1)
    lam = 10 ** rng.uniform(-8, 8, size=40)
    assert_same(ifonly.invert(model, X, targets, lam=lam, backend=backend), model, X, targets, lam=lam)


def test_tolerance_and_status(backend, rng):
    model, X, targets = make(rng, 5, 20, 40)
    loose = ifonly.invert(model, X, targets, lam=0.01, tol=1e-6, backend=backend)
    exact = ifonly.invert(model, X, targets, lam=0.01, backend=backend)
    assert (loose.status == Status.CONVERGED).all()
    assert (loose.grad_norm <= 1e-6).all()
    assert (exact.status == Status.EXACT).all()
    assert loose.n_iter.sum() < exact.n_iter.sum()


def test_unreachable_rows_say_so_and_leave_the_others_alone(backend, rng):
    A = rng.normal(size=(5, 30))
    A[4] = A[:4].mean(axis=0)  # inside the others' hull
    model = ifonly.Model(A, np.zeros(5))
    X, targets = rng.normal(size=(40, 30)), np.tile([4, 0], 20)
    batch = ifonly.invert(model, X, targets, prob=0.9, backend=backend)
    assert (batch.status == np.tile([Status.UNREACHABLE, Status.EXACT], 20)).all()
    assert "out of reach" in batch[0].message


def test_bad_rows_are_invalid_and_leave_the_others_alone(backend, rng):
    model, X, targets = make(rng, 4, 15, 50)
    clean = ifonly.invert(model, X, targets, lam=0.1, backend=backend)
    X = X.copy()
    X[3, 2], X[17, 0] = np.nan, np.inf
    dirty = ifonly.invert(model, X, targets, lam=0.1, backend=backend)
    bad = np.isin(np.arange(50), [3, 17])
    assert ((dirty.status == Status.INVALID) == bad).all()
    assert np.isnan(dirty.x[bad]).all()
    np.testing.assert_allclose(dirty.x[~bad], clean.x[~bad], rtol=0, atol=1e-13)


def test_models_with_dependent_rivals(backend, rng):
    model, X, targets = make(rng, 9, 3, 30)
    assert_same(ifonly.invert(model, X, targets, lam=0.01, backend=backend), model, X, targets, lam=0.01)


def test_threads_change_nothing(rng):
    model, X, targets = make(rng, 6, 10, 5000)
    one, two = (ifonly.invert(model, X, targets, lam=0.1, backend="cpu", threads=t) for t in (1, 2))
    np.testing.assert_array_equal(one.coef, two.coef)
    with pytest.raises(ifonly.InputError, match="threads must be 1 or more; got 0"):
        ifonly.invert(model, X, targets, lam=0.1, threads=0)
    with pytest.raises(ifonly.InputError, match='backend must be "auto", "reference", "cpu" or "cuda"; got \'gpu\''):
        ifonly.invert(model, X, targets, lam=0.1, backend="gpu")


# ---- where rows come from and go to ----


def chunks_of(X, size):
    return (X[a : a + size] for a in range(0, X.shape[0], size))


def test_every_kind_of_source_gives_the_same_answers(backend, rng, tmp_path):
    model, X, targets = make(rng, 5, 30, 3000)
    X = np.where(rng.uniform(size=X.shape) < 0.3, X, 0.0)
    expected = ifonly.invert(model, X, targets, lam=0.1, backend=backend)
    mapped = np.memmap(tmp_path / "x", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    kinds = {
        "memory map": mapped,
        "csr": sparse.csr_array(X),
        "iterator": chunks_of(X, 700),
        "sparse iterator": chunks_of(sparse.csr_matrix(X), 700),
        "fortran": np.asfortranarray(X),
    }
    for kind in kinds.values():
        answers = ifonly.invert(model, kind, targets, lam=0.1, backend=backend)
        np.testing.assert_allclose(answers.x, expected.x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(answers[2999].x, expected.x[2999], rtol=0, atol=1e-12)


def test_answers_go_where_they_are_told(backend, rng, tmp_path):
    model, X, targets = make(rng, 5, 30, 3000)
    expected = ifonly.invert(model, X, targets, prob=0.7, backend=backend).x
    for out in (
        np.empty((3000, 30)),
        np.memmap(tmp_path / "out", dtype=np.float64, mode="w+", shape=(3000, 30)),
        np.empty((30, 3000)).T,
    ):
        answers = ifonly.invert(model, X, targets, prob=0.7, backend=backend, out=out)
        np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12)
        assert answers.x.base is out or answers.x is out or np.shares_memory(answers.x, out)
        np.testing.assert_array_equal(answers[7].x, out[7])
    stream = ifonly.invert(model, chunks_of(X, 1000), targets, prob=0.7, backend=backend, out=out)
    np.testing.assert_allclose(stream.x, expected, rtol=0, atol=1e-12)
    with pytest.raises(ifonly.InputError, match="came as a stream and were not kept"):
        stream[0].verify()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((9, 30)), r"out must have shape \(10, 30\); got \(9, 30\)"),
        (np.empty((10, 30), dtype=int), "out must be a writeable array of floats"),
        (np.broadcast_to(0.0, (10, 30)), "out must be a writeable array of floats"),
    ],
)
def test_out_of_the_wrong_kind(out, message, rng):
    model, X, targets = make(rng, 3, 30, 10)
    with pytest.raises(ifonly.InputError, match=message):
        ifonly.invert(model, X, targets, lam=1.0, out=out)


def test_other_dtypes_and_scaled_models(backend, rng):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = rng.normal(size=(600, 8)) * 50 + 1000
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, rng.integers(3, size=600))
    for kind in (np.float32, np.int64):
        rows = X.astype(kind)
        out = np.empty(rows.shape)
        answers = ifonly.invert(pipeline, rows, 2, prob=0.8, backend=backend, out=out)
        assert (pipeline.predict_proba(out)[:, 2] >= 0.8).all()
        np.testing.assert_allclose(answers.delta, out - rows)


def test_extra_memory_is_bounded(rng):
    """A hundred thousand rows into ``out``: what is allocated beside are class-space answers and a chunk."""
    model, X, _ = make(rng, 10, 100, 100_000)
    out = np.empty_like(X)
    ifonly.invert(model, X[:2000], 0, lam=0.1, backend="cpu", out=out[:2000])  # compiled, caches made
    tracemalloc.start()
    ifonly.invert(model, X, 0, lam=0.1, backend="cpu", out=out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    per_row = 8 * (2 * 10 + 8)
    assert peak < 100_000 * per_row + 60e6


# ---- progress ----


def test_progress_bar_only_if_asked_for_or_watched(rng, capsys):
    model, X, targets = make(rng, 3, 5, 2000)
    ifonly.invert(model, X, targets, lam=0.1)
    assert capsys.readouterr().err == ""
    ifonly.invert(model, X, targets, lam=0.1, progress=True)
    assert "2.00k/2.00k" in capsys.readouterr().err


def test_starts_and_all_targets_go_together(rng):
    model, X, _ = make(rng, 3, 8, 4)
    plain = ifonly.invert(model, X, "all", lam=0.1)
    started = ifonly.invert(model, X, "all", lam=0.1, start="source")
    np.testing.assert_allclose(started.x, plain.x, atol=1e-10)


def test_an_estimator_is_read_once_until_it_changes(rng):
    from sklearn.linear_model import LogisticRegression

    X, y = rng.normal(size=(60, 4)), rng.integers(3, size=60)
    estimator = LogisticRegression().fit(X, y)
    first = ifonly.as_model(estimator)
    assert ifonly.as_model(estimator) is first
    estimator.coef_ *= 2
    changed = ifonly.as_model(estimator)
    np.testing.assert_array_equal(changed.A, 2 * first.A)
    assert ifonly.as_model(estimator) is changed
