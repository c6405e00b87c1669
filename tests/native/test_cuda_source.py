"""The CUDA kernels: their row solver, compiled for the host and compared here; and all of it where there is a GPU."""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest
from helpers import gpu

import ifonly
from ifonly.engines.probability import needed_logit
from ifonly.engines.rounding import Rounding
from ifonly.native import reference
from ifonly.native.batch import solve_rows
from ifonly.native.cuda_source import LEAST_SLOTS, SHARED_BYTES, code, gram_pitch, newton_options, rows_of, slices
from ifonly.native.rows import Goals, Kernel
from ifonly.problem.question import Wish
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources

SAME_Q = 1e-12  # two ways to the same q, both exact to some roundings times the condition of the rivals
SAME_X = 1e-11


def make(rng, K, D, N, size=1.0):
    model = ifonly.Model(rng.normal(size=(K, D)), rng.normal(size=K))
    return model, rng.normal(size=(N, D)) * size, rng.integers(K, size=N)


# ---- the row solver on the host ----


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """``compiled(K, goal)``: newton.cu for one thread per row, compiled as plain C++."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler (g++ or c++) to compile newton.cu for the host")
    folder = tmp_path_factory.mktemp("newton")
    (folder / "newton.cpp").write_text(code("newton"), encoding="utf-8")

    def build(K, goal):
        library = folder / f"newton{K}{goal}.so"
        if not library.exists():
            options = ["-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *newton_options(K, goal=goal, team=1)]
            subprocess.run([compiler, *options, str(folder / "newton.cpp"), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))

    return build


def call(function, *arguments):
    kinds = {float: ctypes.c_double, int: ctypes.c_int, np.int64: ctypes.c_longlong}
    function(*(a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else kinds[type(a)](a) for a in arguments))


def solve(library, gram, margins, lam, goals, tol=0.0):
    B, n = margins.shape
    q, p, numbers, n_iter, done = np.empty((B, n)), np.empty((B, n)), np.empty((B, 5)), np.empty(B, np.int32), np.empty(B, bool)
    call(library.solve, np.int64(B), gram, margins, lam, goals, tol, 100, q, p, numbers, n_iter, done)
    return q, p, numbers, n_iter, done


@pytest.mark.parametrize("K", [2, 3, 10, 33, 60])
def test_row_solver_for_a_given_lam(compiled, K, rng):
    model, _, _ = make(rng, K, 90, 0)
    gram, B = model.rival_gram(0), 200
    margins = rng.normal(size=(B, K - 1)) * 10 ** rng.uniform(-2, 4, size=(B, 1))
    lam = 10 ** rng.uniform(-6, 6, size=B)
    q, p, numbers, n_iter, done = solve(compiled(K, False), gram, margins, lam, np.empty(0))
    expected = reference.solve_lam(gram, margins, lam)
    assert done.all()
    np.testing.assert_allclose(q, expected.q, rtol=0, atol=SAME_Q)
    np.testing.assert_allclose(p, expected.p, rtol=0, atol=SAME_Q)
    for column, field in enumerate((lam, expected.p_target, expected.objective)):
        np.testing.assert_allclose(numbers[:, column], field, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(numbers[:, 4], expected.square, rtol=1e-9, atol=1e-25)
    assert n_iter.mean() < 4


def test_row_solver_stops_at_a_tolerance(compiled, rng):
    model, _, _ = make(rng, 10, 90, 0)
    margins, lam = rng.normal(size=(200, 9)) * 5, np.full(200, 0.01)
    _, _, exact, more, _ = solve(compiled(10, False), model.rival_gram(0), margins, lam, np.empty(0))
    _, _, loose, fewer, done = solve(compiled(10, False), model.rival_gram(0), margins, lam, np.empty(0), tol=1e-3)
    assert done.all()
    assert (loose[:, 3] <= 1e-3).all()
    assert fewer.sum() < more.sum()
    assert exact[:, 3].max() < loose[:, 3].max()


def everything(library, model, X, wish, tol=0.0):
    """`answer` of newton.cu: whole answers from what is known of the sources."""
    K, N = model.n_classes, len(X)
    Z, _ = Sources.read(model, X).project()
    with np.errstate(invalid="ignore"):
        parts = np.column_stack([Z, (X * X).sum(axis=1), np.abs(X) @ model.column_sizes])
    # two slices, as from two blocks: the parts are summed
    parts = np.ascontiguousarray(np.stack([0.25 * parts, 0.75 * parts]))
    grams, lengths = np.zeros((K, gram_pitch(K))), np.empty((K, K - 1))
    for k in range(K):
        grams[k, : (K - 1) ** 2], lengths[k] = model.rival_gram(k).ravel(), model.rival_lengths(k)
    rounding = Rounding.of(model, None)
    wanted = wish.lam if wish.prob is None else needed_logit(wish.prob, model)
    coef, proba, numbers = np.empty((N, rows_of(K))), np.empty((N, K)), np.empty((N, 4))
    n_iter, status = np.empty(N, np.int32), np.empty(N, np.int8)
    scalars = rounding.gamma, rounding.row_norm, rounding.coarse
    model_arrays = np.array(model.b), grams, lengths, *scalars
    question = wish.targets.astype(np.int32), np.array(wanted), tol, 100
    call(library.answer, np.int64(N), *model_arrays, *question, parts, 2, coef, proba, numbers, n_iter, status)
    return coef, proba, *numbers.T, n_iter, status


@pytest.mark.parametrize("form", ["lam", "prob"])
@pytest.mark.parametrize("K", [2, 3, 10, 33])
def test_whole_answers(compiled, K, form, rng):
    model, X, targets = make(rng, K, 50, 200)
    X[7, 3], X[11, 0] = np.nan, np.inf
    X[5] = 0.0
    lam = 10 ** rng.uniform(-4, 4, size=200) if form == "lam" else None
    prob = rng.uniform(0.05, 0.999, size=200) if form == "prob" else None
    wish = Wish(targets, lam, prob)
    coef, proba, found_lam, distance, objective, grad_norm, _, status = everything(compiled(K, form == "prob"), model, X, wish)
    Z, sizes = Sources.read(model, X).project()
    rows = solve_rows(model, Z, sizes, wish, Kernel(reference.solve_lam, reference.solve_prob))
    np.testing.assert_array_equal(status, rows.status)
    bad = status == Status.INVALID
    assert np.flatnonzero(bad).tolist() == [7, 11]
    assert np.isnan(coef[bad]).all()
    assert np.isnan(proba[bad]).all()
    good = ~bad
    scale = 1 + np.abs(rows.coef[good]).max(axis=1, keepdims=True)
    # with prob each ends somewhere in a window of rounding around the same λ
    same = SAME_Q if form == "lam" else 1e-9
    np.testing.assert_allclose(coef[good] / scale, rows.coef[good] / scale, rtol=0, atol=same)
    np.testing.assert_allclose(proba[good], rows.proba[good], rtol=0, atol=same)
    np.testing.assert_allclose(found_lam[good], rows.lam[good], rtol=1e-8)
    np.testing.assert_allclose(distance[good], rows.distance[good], rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(objective[good], rows.objective[good], rtol=1e-8, atol=1e-13)
    answers = ifonly.invert(model, X, targets, lam=lam, prob=prob, backend="reference")
    for n in np.flatnonzero(good)[:20]:  # the bound holds at the x that is made of it: it is recomputed in D dimensions
        single = answers[n]
        x = X[n] + coef[n] @ model.rows
        if np.isfinite(found_lam[n]):
            gradient = model.gradient(x, X[n], single.target, found_lam[n])
            assert np.linalg.norm(gradient) <= grad_norm[n]
        assert grad_norm[n] <= 100 * max(single.grad_norm, 1e-300) or not np.isfinite(found_lam[n])
    if prob is not None:
        reached = model.predict_proba(X[good] + coef[good] @ model.rows)
        assert (reached[np.arange(good.sum()), targets[good]] >= prob[good]).all()


def test_tolerance_is_met_for_certain(compiled, rng):
    model, X, targets = make(rng, 6, 40, 300)
    wish = Wish(targets, np.full(300, 0.01), None)
    *_, grad_norm, n_iter, status = everything(compiled(6, False), model, X, wish, tol=1e-6)
    assert (grad_norm <= 1e-6).all()
    assert (status == Status.CONVERGED).all()
    *_, grad_norm, more, status = everything(compiled(6, False), model, X, wish, tol=1e-300)  # out of reach: to the last digit
    assert (status == Status.EXACT).all()
    assert (more >= n_iter).all()


# ---- what is decided before anything is compiled ----


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("K", [2, 3, 10, 16, 32])
@pytest.mark.parametrize("D", [128, 784, 1000, 8192, 47236])
def test_slices_cover_the_features_and_fit(D, K, itemsize):
    cut = slices(D, K, itemsize, 132)
    assert cut.width % 8 == 0
    assert (cut.number - 1) * cut.width < D <= cut.number * cut.width
    assert cut.slots >= LEAST_SLOTS
    assert cut.shared < SHARED_BYTES


def test_what_is_missing_is_named(monkeypatch, rng):
    model, X, targets = make(rng, 3, 5, 30)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r'backend="cuda" needs CuPy: pip install "ifonly\[gpu\]"'):
        ifonly.invert(model, X, targets, lam=0.1, backend="cuda")


def test_limits_are_not_for_the_gpu(rng):
    model, X, _ = make(rng, 3, 5, 3)
    with pytest.raises(ifonly.InputError, match='backend="cuda" is for problems without limits'):
        ifonly.invert(model, X, 1, actions=ifonly.Actions(frozen=[0]), backend="cuda")


# ---- on a GPU ----


@pytest.fixture
def cp():
    gpu.needed()
    import cupy

    return cupy


@pytest.mark.parametrize("K", [3, 10, 13, 20, 21, 32, 33, 51, 64, 65, 100, 128, 130])
@pytest.mark.parametrize("form", ["lam", "prob"])
def test_the_seam_at_every_size_of_team(cp, K, form, rng):
    from ifonly.native import cuda

    model, _, _ = make(rng, K, 200, 0)
    gram, B = model.rival_gram(1), 150
    margins = rng.normal(size=(B, K - 1)) * 10 ** rng.uniform(-1, 3, size=(B, 1))
    if form == "lam":
        lam = 10 ** rng.uniform(-5, 5, size=B)
        found, expected = (kernel.solve_lam(gram, margins, lam) for kernel in (cuda, reference))
    else:
        top = margins.max(axis=1)
        logit = np.minimum(needed_logit(rng.uniform(0.05, 0.99, size=B), model), top - 0.1)
        goals = Goals(logit, np.full(B, 1e-12), np.full(B, 1e-15), np.full(B, 1e-14))
        found, expected = (kernel.solve_prob(gram, margins, goals) for kernel in (cuda, reference))
    done = expected.done & found.done
    assert done.mean() > 0.98
    assert found.done[expected.done].all()
    np.testing.assert_allclose(found.q[done], expected.q[done], rtol=0, atol=SAME_Q if form == "lam" else 1e-9)
    np.testing.assert_allclose(found.lam[done], expected.lam[done], rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("D", "K"), [(784, 10), (128, 3), (130, 4), (784, 2), (1000, 32), (2048, 16), (8200, 20)])
def test_passes(cp, D, K, dtype, rng):
    """Both passes against plain products, with rows that are not a multiple of a tile, and poisoned results."""
    from ifonly.native import cuda

    X = cp.asarray(rng.normal(size=(1003, D)).astype(dtype))
    A, sizes = cp.asarray(rng.normal(size=(rows_of(K), D))), cp.asarray(rng.uniform(size=D))
    assert cuda.fits(X, len(A)) == (D * X.itemsize % 16 == 0)
    if not cuda.fits(X, len(A)):
        return
    V = X.astype(np.float64)
    parts = cuda.project(X, A, sizes).sum(axis=0)
    expected = cp.concatenate([V @ A.T, (V * V).sum(axis=1)[:, None], (abs(V) @ sizes)[:, None]], axis=1)
    np.testing.assert_allclose(parts.get(), expected.get(), rtol=1e-12, atol=1e-12 * D)
    coef = cp.asarray(rng.normal(size=(1003, len(A))))
    for kind in (np.float64, np.float32):
        out = cp.full((1005, D), np.nan, dtype=kind)
        cuda.move(X, A, coef, out[1:-1])
        precision = 1e-12 if kind == np.float64 else 1e-5
        np.testing.assert_allclose(out[1:-1].get(), (V + coef @ A).get(), rtol=precision, atol=precision * 100)
        assert cp.isnan(out[0]).all()
        assert cp.isnan(out[-1]).all()
    cuda.move(X, A, coef, X)  # in place
    np.testing.assert_allclose(X.get(), (V + coef @ A).get(), rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-4)


@pytest.mark.parametrize("D", [30, 131, 256])
@pytest.mark.parametrize("form", [{"lam": 0.05}, {"prob": 0.8}])
def test_arrays_of_cupy_stay_where_they_are(cp, D, form, rng):
    model, X, targets = make(rng, 7, D, 500)
    X[3, 5] = np.nan
    expected = ifonly.invert(model, X, targets, **form, backend="reference")
    there = cp.asarray(X)
    answers = ifonly.invert(model, there, targets, **form, backend="cuda")
    assert isinstance(answers.x, cp.ndarray)
    np.testing.assert_allclose(answers.x.get(), expected.x, rtol=0, atol=SAME_X * 100)
    np.testing.assert_array_equal(answers.status, expected.status)
    np.testing.assert_allclose(answers.distance, expected.distance, rtol=1e-8)
    np.testing.assert_allclose((answers.delta - (answers.x - there))[:3].get(), 0.0, atol=1e-15)
    one = answers[8]
    one.verify()
    assert isinstance(one.x, cp.ndarray)
    out = cp.empty((500, D), dtype=np.float32)
    into = ifonly.invert(model, there, targets, **form, backend="cuda", out=out)
    assert into.x is out or into.x.data.ptr == out.data.ptr
    np.testing.assert_allclose(out.get()[8], expected.x[8], rtol=1e-5, atol=1e-5)
    host = np.empty((500, D))
    ifonly.invert(model, there, targets, **form, backend="cuda", out=host)
    np.testing.assert_array_equal(host, answers.x.get())


def test_tensors_of_pytorch_stay_where_they_are(cp, rng):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    if not torch.cuda.is_available():
        pytest.skip("needs a PyTorch that sees the GPU")
    model, X, targets = make(rng, 7, 256, 400)
    expected = ifonly.invert(model, X, targets, lam=0.05, backend="reference").x
    for dtype, precision in ((torch.float64, 1e-9), (torch.float32, 1e-4), (torch.float16, 3e-2)):
        there = torch.tensor(X, dtype=dtype, device="cuda", requires_grad=dtype == torch.float64)
        answers = ifonly.invert(model, there, targets, lam=0.05, backend="cuda")
        assert isinstance(answers.x, torch.Tensor)
        assert answers.x.is_cuda
        assert answers.x.dtype == dtype
        np.testing.assert_allclose(answers.x.double().cpu().numpy(), expected, rtol=precision, atol=precision)
        answers[3].verify()
    out = torch.empty((400, 256), dtype=torch.float64, device="cuda")
    ifonly.invert(model, torch.tensor(X, device="cuda"), targets, lam=0.05, backend="cuda", out=out)
    np.testing.assert_allclose(out.cpu().numpy(), expected, rtol=0, atol=1e-9)


def test_every_kind_of_question_on_the_device(cp, rng):
    model, X, _ = make(rng, 5, 40, 60)
    for question in (None, "all", 2):
        there = ifonly.invert(model, cp.asarray(X), question, prob=0.7, backend="cuda")
        here = ifonly.invert(model, X, question, prob=0.7, backend="reference")
        np.testing.assert_array_equal(there.target, here.target)
        np.testing.assert_allclose(there.x.get(), here.x, rtol=0, atol=1e-8)
    few = ifonly.Model(rng.normal(size=(9, 3)), rng.normal(size=9))  # rivals that depend on each other
    rows = rng.normal(size=(20, 3))
    there, here = (ifonly.invert(few, x, 1, lam=0.1, backend=b) for x, b in ((cp.asarray(rows), "cuda"), (rows, "reference")))
    np.testing.assert_allclose(there.x.get(), here.x, rtol=0, atol=1e-9)


def test_rows_that_the_kernel_leaves(cp, rng):
    """Squares that overflow, and probabilities that cannot be reached, go to the single-source solver, on either way."""
    A = rng.normal(size=(5, 256))
    A[4] = A[:4].mean(axis=0)
    model = ifonly.Model(A, np.zeros(5))
    X, targets = rng.normal(size=(40, 256)), np.tile([4, 0], 20)
    expected = ifonly.invert(model, X, targets, prob=0.9, backend="reference")
    for rows in (cp.asarray(X), X):
        out = np.empty_like(X)
        answers = ifonly.invert(model, rows, targets, prob=0.9, backend="cuda", out=out)
        np.testing.assert_array_equal(answers.status, expected.status)
        reached = answers.status == Status.EXACT
        np.testing.assert_allclose(out[reached], expected.x[reached], rtol=0, atol=1e-8)
        assert "out of reach" in answers[0].message
    huge = X.copy()
    huge[3] *= 1e160 / np.abs(huge[3]).max()
    answers = ifonly.invert(model, huge, 1, lam=1.0, backend="cuda")
    assert (answers.status != Status.INVALID).all()
    assert np.isfinite(answers.grad_norm).all()


def test_many_rows_through_the_pinned_buffers(cp, monkeypatch, rng):
    from ifonly.native import device

    monkeypatch.setattr(device, "BUFFER_BYTES", 8 * 256 * 100)  # a hundred rows each
    for kind in (np.float64, np.float32, np.int64):
        model, X, targets = make(rng, 6, 256, 1050, size=3.0)
        X = X.astype(kind)
        expected = ifonly.invert(model, X, targets, lam=0.1, backend="reference")
        out = np.full(X.shape, np.nan)
        answers = ifonly.invert(model, X, targets, lam=0.1, backend="cuda", out=out)
        np.testing.assert_allclose(out, expected.x, rtol=0, atol=1e-9)
        np.testing.assert_allclose(answers.coef, expected.coef, rtol=0, atol=1e-9)
        again = ifonly.invert(model, X, targets, lam=0.1, backend="cuda")
        np.testing.assert_array_equal(again.coef, answers.coef)  # to the last bit, whatever ran when
        np.testing.assert_allclose(again[1049].x, expected.x[1049], rtol=0, atol=1e-9)


def test_a_large_table_in_chunks(cp, rng):
    """So many rows that the two streams overlap; every row is compared, twice over."""
    model, X, targets = make(rng, 10, 256, 70_001)
    expected = ifonly.invert(model, X, targets, lam=0.05, backend="reference")
    there = cp.asarray(X)
    first, second = (ifonly.invert(model, there, targets, lam=0.05, backend="cuda") for _ in range(2))
    assert (first.status == Status.EXACT).all()
    np.testing.assert_allclose(first.x.get(), expected.x, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(first.x.get(), second.x.get())
    np.testing.assert_array_equal(first.grad_norm, second.grad_norm)
