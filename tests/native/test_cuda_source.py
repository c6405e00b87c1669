"""The CUDA kernels without a GPU: their row solver, compiled for the host, and what is decided before anything is compiled."""

import ctypes
import sys

import numpy as np
import pytest
from helpers.host import HostSource, call
from helpers.problems import make
from scipy.special import logsumexp

import ifonly
from ifonly.engines.rounding import Rounding
from ifonly.native import reference
from ifonly.native.cuda_source import SHARED_BYTES, gram_pitch, newton_options, rows_of, slices
from ifonly.problem.asked import Aims
from ifonly.problem.goals import in_logs, needed_logit
from ifonly.problem.status import Status
from ifonly.rows.sources import NOWHERE, Sources

SAME_Q = 1e-12  # two ways to the same q, both exact to some roundings times the condition of the rivals


# ---- the row solver on the host ----


@pytest.fixture(scope="module")
def compiled():
    """``compiled(K, goal)``: newton.cu for one thread per row, compiled as plain C++."""
    memory = "namespace ifonly::baseline { double memory[1 << 20]; }\n"
    source = HostSource("newton", "cuda_host.hpp", memory)

    def build(K, goal):
        return source.library("-DSOLVE", "-DANSWER", *newton_options(K, goal=goal, team=1))

    return build


def solve(library, gram, margins, lam, goals, tol=0.0):
    B, n = margins.shape
    q, p, numbers, n_iter, done = np.empty((B, n)), np.empty((B, n)), np.empty((B, 5)), np.empty(B, np.int32), np.empty(B, bool)
    call(library, "solve", B, gram, margins, lam, goals, tol, 100, q, p, numbers, n_iter, done)
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


WARP_ENTRY = """
namespace ifonly::baseline { double memory[1 << 16]; }
struct Given { long long B; const double *G, *margins, *lam; double *q, *p, *numbers; int *n_iter; bool *done; };
const Given *given;
extern "C" void run(const Given *all, unsigned block) {
    given = all;
    blockIdx.x = block;
    turns::run([] {
        const Given &g = *given;
        ifonly::baseline::solve(g.B, g.G, g.margins, g.lam, nullptr, 0.0, 100, g.q, g.p, g.numbers, g.n_iter, g.done);
    });
}
"""


@pytest.mark.seconds
@pytest.mark.parametrize("K", [34, 57])
def test_a_warp_with_the_matrix_in_its_registers(K, rng):
    source = HostSource("newton", "cuda_warp.hpp", WARP_ENTRY)
    library = source.library("-DSOLVE", *newton_options(K, goal=False, team=32))
    gram, B = make(rng, K, 90, 0)[0].rival_gram(0), 12
    margins, lam = rng.normal(size=(B, K - 1)) * 10 ** rng.uniform(-2, 4, size=(B, 1)), 10 ** rng.uniform(-6, 6, size=B)
    found = np.empty((B, K - 1)), np.empty((B, K - 1)), np.empty((B, 5)), np.empty(B, np.int32), np.empty(B, bool)
    given = (ctypes.c_void_p * 9)(B, *(a.ctypes.data for a in (gram, margins, lam, *found)))
    for block in range(B):
        library.run(given, ctypes.c_uint(block))
    q, p, _, n_iter, done = found
    expected = reference.solve_lam(gram, margins, lam)
    assert done.all()
    np.testing.assert_allclose(q, expected.q, rtol=0, atol=SAME_Q)
    np.testing.assert_allclose(p, expected.p, rtol=0, atol=100 * SAME_Q)  # of margins of 10⁴
    assert n_iter.mean() < 4


@pytest.mark.parametrize("K", [3, 33])
def test_starts_are_near_the_answers(K, rng):
    source = HostSource("newton", "cuda_host.hpp", "namespace ifonly::baseline { double memory[1]; }\n")
    model, X, targets = make(rng, K, 50, 20)
    middle = model.A - model.A.mean(axis=0)
    pulls = np.pad(middle @ middle.T, ((0, 0), (0, -K % 4))).astype(np.float32)
    parts = np.column_stack([X @ model.A.T, np.zeros((20, 2))])
    for goal in (False, True):
        found = np.empty((20, K - 1), np.float32)
        wanted = np.full(20, needed_logit(0.8, model) if goal else 0.1)
        library = source.library("-DBEGIN", *newton_options(K, goal=goal, team=1))
        call(library, "begin", 20, np.array(model.b), pulls, targets.astype(np.int32), wanted, parts, 1, found)
        assert ((found >= 0) & (found <= 1)).all()
        if goal:
            continue
        logits = model.logits(X)
        for n, k in enumerate(targets):
            margins = np.delete(logits[n] - logits[n, k], k)[None]
            expected = reference.solve_lam(model.rival_gram(int(k)), margins, np.array([0.1])).q[0]
            np.testing.assert_allclose(found[n], expected, rtol=0, atol=0.1)


def test_row_solver_stops_at_a_tolerance(compiled, rng):
    model, _, _ = make(rng, 10, 90, 0)
    margins, lam = rng.normal(size=(200, 9)) * 5, np.full(200, 0.01)
    _, _, exact, more, _ = solve(compiled(10, False), model.rival_gram(0), margins, lam, np.empty(0))
    _, _, loose, fewer, done = solve(compiled(10, False), model.rival_gram(0), margins, lam, np.empty(0), tol=1e-3)
    assert done.all()
    assert (loose[:, 3] <= 1e-3).all()
    assert fewer.sum() < more.sum()
    assert exact[:, 3].max() < loose[:, 3].max()


def everything(library, model, X, aims, tol=0.0):
    """`answer` of newton.cu: whole answers from what is known of the sources."""
    K, N = model.n_classes, len(X)
    Z, _ = Sources.read(model, X).project()
    with np.errstate(invalid="ignore"):
        parts = np.column_stack([Z, (X * X).sum(axis=1), np.abs(X) @ model.column_sizes])
    # two slices, as from two blocks: the parts are summed
    parts = np.ascontiguousarray(np.stack([0.25 * parts, 0.75 * parts]))
    grams, lengths, reach = np.zeros((K, gram_pitch(K))), np.empty((K, K - 1)), np.empty((K, 4))
    for k in range(K):
        grams[k, : (K - 1) ** 2], lengths[k] = model.rival_gram(k).ravel(), model.rival_lengths(k)
        own = Rounding.of(model, NOWHERE, k).lengths
        reach[k] = own.span, *own.unit
    rounding = Rounding.of(model, NOWHERE)
    wanted = aims.lam if aims.prob is None else needed_logit(aims.prob, model)
    coef, proba, numbers = np.empty((N, rows_of(K))), np.empty((N, K)), np.empty((N, 4))
    n_iter, status = np.empty(N, np.int32), np.empty(N, np.int8)
    scalars = rounding.gamma, rounding.coarse, float(np.abs(model.b).max()), in_logs(model, rounding.gamma)
    model_arrays = np.array(model.b), grams, lengths, reach, *scalars
    question = aims.targets.astype(np.int32), np.array(wanted), tol, 100
    call(library, "answer", N, *model_arrays, *question, parts, 2, None, coef, proba, numbers, n_iter, status)
    return coef, proba, *numbers.T, n_iter, status


@pytest.mark.parametrize("form", ["lam", "prob"])
@pytest.mark.parametrize("K", [2, 3, 10, 33])
def test_whole_answers(compiled, K, form, rng):
    model, X, targets = make(rng, K, 50, 200)
    X[7, 3], X[11, 0] = np.nan, np.inf
    X[5] = 0.0
    lam = 10 ** rng.uniform(-4, 4, size=200) if form == "lam" else None
    prob = rng.uniform(0.05, 0.999, size=200) if form == "prob" else None
    aims = Aims(targets, lam, prob)
    coef, proba, found_lam, distance, objective, grad_norm, _, status = everything(compiled(K, form == "prob"), model, X, aims)
    rows = ifonly.invert(model, X, targets, lam=lam, prob=prob, backend="reference").results
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
        x = X[n] + coef[n] @ model.basis
        if np.isfinite(found_lam[n]):
            gradient = model.gradient(x, X[n], single.target, found_lam[n])
            assert np.linalg.norm(gradient) <= grad_norm[n]
        assert grad_norm[n] <= 100 * max(single.grad_norm, 1e-300) or not np.isfinite(found_lam[n])
    if prob is not None:
        reached = model.predict_proba(X[good] + coef[good] @ model.basis)
        assert (reached[np.arange(good.sum()), targets[good]] >= prob[good]).all()


@pytest.mark.parametrize("prob", [0.5, 0.9999, 1 - 1e-9])
@pytest.mark.parametrize("K", [2, 3])
def test_an_estimator_that_subtracts_logarithms_finds_the_probability(compiled, K, prob, rng):
    """Naive Bayes: logits of thousands, and p as the exponential of a difference of two."""
    weights, X = np.log(rng.dirichlet(np.ones(30), size=K)), rng.poisson(60.0, size=(200, 30)).astype(float)
    model, targets = ifonly.Model(weights, np.zeros(K)), np.arange(200) % K
    model.log_space = True
    coef, *_, status = everything(compiled(K, True), model, X, Aims(targets, None, np.full(200, prob)))
    assert (status == Status.EXACT).all()
    logits = (X + coef @ model.basis) @ weights.T
    assert (np.exp(logits - logsumexp(logits, axis=1)[:, None])[np.arange(200), targets] >= prob).all()


def test_tolerance_is_met_for_certain(compiled, rng):
    model, X, targets = make(rng, 6, 40, 300)
    aims = Aims(targets, np.full(300, 0.01), None)
    *_, grad_norm, n_iter, status = everything(compiled(6, False), model, X, aims, tol=1e-6)
    assert (grad_norm <= 1e-6).all()
    assert (status == Status.CONVERGED).all()
    *_, grad_norm, more, status = everything(compiled(6, False), model, X, aims, tol=1e-300)  # out of reach: to the last digit
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
    assert cut.shared < SHARED_BYTES


def test_what_is_missing_is_named(monkeypatch, rng):
    model, X, targets = make(rng, 3, 5, 30)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r'backend="cuda" needs CuPy: pip install "ifonly\[gpu\]"'):
        ifonly.invert(model, X, targets, lam=0.1, backend="cuda")
