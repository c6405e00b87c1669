"""The CUDA kernels on a GPU: against the array program, with rows from host and device."""

import numpy as np
import pytest
from helpers import gpu
from helpers.problems import make

import ifonly
from ifonly.engines.windows import Window
from ifonly.native import reference
from ifonly.native.cuda_source import rows_of
from ifonly.problem.goals import needed_logit
from ifonly.problem.status import Status

SAME_Q = 1e-12  # two ways to the same q, both exact to some roundings times the condition of the rivals
SAME_X = 1e-11


@pytest.fixture
def cp():
    gpu.needed()
    import cupy

    return cupy


@pytest.mark.parametrize("K", [3, 10, 20, 32, 33, 51, 128, 130])  # of every team the ends: compiling takes the time
@pytest.mark.parametrize("form", ["lam", "prob"])
def test_the_seam_at_every_size_of_team(cp, K, form, rng):
    from ifonly.native import cuda

    if K > 128:
        pytest.importorskip(
            "array_api_compat", reason="beyond 128 classes it is the array program, which needs array-api-compat"
        )
    model, _, _ = make(rng, K, 200, 0)
    gram, B = model.rival_gram(1), 150
    margins = rng.normal(size=(B, K - 1)) * 10 ** rng.uniform(-1, 3, size=(B, 1))
    if form == "lam":
        lam = 10 ** rng.uniform(-5, 5, size=B)
        found, expected = (kernel.solve_lam(gram, margins, lam) for kernel in (cuda, reference))
    else:
        top = margins.max(axis=1)
        logit = np.minimum(needed_logit(rng.uniform(0.05, 0.99, size=B), model), top - 0.1)
        goals = Window(logit, np.full(B, 1e-12), np.full(B, 1e-15), np.full(B, 1e-14))
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
    huge[3] *= 1e90 / np.abs(huge[3]).max()  # beyond 1e100 a source is refused
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
