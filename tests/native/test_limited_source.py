"""limited.cu without a GPU: compiled for the host, where 32 lanes take turns, against the array program."""

import ctypes
from typing import NamedTuple

import numpy as np
import pytest
from helpers.host import HostSource, call
from helpers.tables_within import KINDS, within
from scipy.special import logsumexp

import ifonly
from ifonly.engines.cost_space import CostSpace
from ifonly.native.cuda_source import SHARED_BYTES, kept_numbers, limited_blocks, limited_options, newton_options, tiled
from ifonly.native.limited import Tables
from ifonly.problem.goals import needed_logit
from ifonly.problem.status import LEAST_VALUE, REL_GAP, Status

LEFT = -1
MOST_ROUNDS = 40
ENTRY = """
namespace ifonly::baseline::limits { double memory[1 << 18]; }
struct Given {
    long long count; const long long *rows; void *kept; unsigned *bits; const double *X; long long stride; const double *a[4];
    const signed char *way; const unsigned *moving; const double *b[4]; const int *target; const double *wanted, *prob;
    double tol; int max_iter; double least, gap; double *x; long long x_stride; double *proba, *numbers; int *n_iter;
    signed char *status;
};
const Given *given;
extern "C" void run(const Given *all) {
    given = all;
    turns::run([] {
        const Given &g = *given;
        using namespace ifonly::baseline::limits;
        limited(g.count, g.rows, (Kept *)g.kept, g.bits, g.X, g.stride, g.a[0], g.a[1], g.a[2], g.a[3], g.way, g.moving,
            g.b[0], g.b[1], g.b[2], g.b[3], g.target, g.wanted, g.prob, g.tol, g.max_iter, g.least, g.gap, g.x, g.x_stride,
            g.proba, g.numbers, g.n_iter, g.status);
    });
}
"""


class Given(ctypes.Structure):
    """The arguments, as ENTRY has them."""

    _fields_ = [("count", ctypes.c_longlong)] + [(name, ctypes.c_void_p) for name in ("rows", "kept", "bits", "X")]
    _fields_ += [("stride", ctypes.c_longlong), ("a", ctypes.c_void_p * 4)]
    _fields_ += [("way", ctypes.c_void_p), ("moving", ctypes.c_void_p), ("b", ctypes.c_void_p * 4)]
    _fields_ += [(name, ctypes.c_void_p) for name in ("target", "wanted", "prob")]
    _fields_ += [("tol", ctypes.c_double), ("max_iter", ctypes.c_int), ("least", ctypes.c_double), ("gap", ctypes.c_double)]
    _fields_ += [("x", ctypes.c_void_p), ("x_stride", ctypes.c_longlong)]
    _fields_ += [(name, ctypes.c_void_p) for name in ("proba", "numbers", "n_iter", "status")]


class Libraries(NamedTuple):
    """What goes over features, and what solves the problems over classes."""

    limited: ctypes.CDLL
    newton: ctypes.CDLL


@pytest.fixture(scope="module")
def compiled():
    """``compiled(tables, goal, staged)``: limited.cu for one warp and newton.cu for one thread, compiled as plain C++."""
    source = HostSource("limited", "cuda_warp.hpp", ENTRY)
    newton = HostSource("newton", "cuda_host.hpp", "namespace ifonly::baseline { double memory[1 << 10]; }\n")

    def build(tables, goal, staged):
        K = len(tables.b)
        options = limited_options(tables.D, K, "double", tables.kind, goal=goal, warps=1, staged=staged)
        return Libraries(source.library(*options), newton.library("-DSTEP", *newton_options(K, goal=goal, team=1)))

    return build


def solve(libraries, tables, X, targets, wanted, prob, tol=0.0):
    """The rounds of `device_limited._solve`."""
    N, K = len(X), len(tables.b)
    x, proba, numbers = np.full(X.shape, np.nan), np.empty((N, K)), np.empty((N, 6))
    n_iter, status = np.empty(N, np.int32), np.empty(N, np.int8)
    kept, bits = np.full((N, kept_numbers(K)), np.nan), np.empty((N, tiled(tables.D) // 32), np.uint32)
    A, weights, b, each, way, moving, grams, gram, pairs, errors = tables.arguments()
    wanted, prob, targets = wanted.astype(np.float64), prob.astype(np.float64), targets.astype(np.int32)
    first = (ctypes.c_void_p * 4)(*(a.ctypes.data for a in (A, weights, b, each)))
    second = (ctypes.c_void_p * 4)(*(a.ctypes.data for a in (grams, gram, pairs, errors)))
    question = targets.ctypes.data, wanted.ctypes.data, prob.ctypes.data, tol, MOST_ROUNDS, LEAST_VALUE, REL_GAP
    answers = x.ctypes.data, X.shape[1], proba.ctypes.data, numbers.ctypes.data, n_iter.ctypes.data, status.ctypes.data
    memory = kept.ctypes.data, bits.ctypes.data, X.ctypes.data, X.shape[1]

    def sweep(count, rows):
        given = Given(count, rows, *memory, first, way.ctypes.data, moving.ctypes.data, second, *question, *answers)
        libraries.limited.run(ctypes.byref(given))

    sweep(N, None)
    for _ in range(MOST_ROUNDS):
        rows = np.flatnonzero(status > Status.CONVERGED)
        call(libraries.newton, "step", len(rows), rows, grams, targets, wanted, 100, kept, status)
        if len(rows):
            sweep(len(rows), rows.ctypes.data)
    return x, proba, numbers, status, n_iter


SHAPES = [(2, 33, True), (3, 64, True), (10, 100, True), (10, 100, False), (20, 40, True)]
# Every kind in two shapes, once with λ and once with a probability, and every shape with several kinds: each is compiled.
CASES = [
    (kind, *SHAPES[(i + 2 * j) % len(SHAPES)], form) for i, kind in enumerate(KINDS) for j, form in enumerate(["lam", "prob"])
]


@pytest.mark.parametrize(("kind", "K", "D", "staged", "form"), CASES)
def test_answers_and_certificates(compiled, kind, K, D, staged, form, rng):
    model, X, targets, limits = within(rng, kind, K, D, 12)
    value = 0.05 if form == "lam" else 0.8
    space = CostSpace.of(ifonly.ask(model, 0, **{form: value}, **limits).asked)
    tables = Tables.of(space)
    wanted = np.full(12, value if form == "lam" else float(needed_logit(value, model)))
    x, proba, numbers, status, n_iter = solve(
        compiled(tables, form == "prob", staged), tables, X, targets, wanted, np.full(12, value)
    )
    answers = ifonly.invert(model, X, targets, **{form: value}, **limits, backend="reference")
    good = status == Status.EXACT
    assert status[3] == LEFT  # not a number
    assert n_iter[good].max() <= 20  # rounds, and half of them that went too far
    assert (good | (answers.status != Status.EXACT)).sum() >= 10  # what is out of reach is left, and little else
    assert (answers.status[good] == Status.EXACT).all()
    # both are within their certified gaps of the optimum, and E (or the cost) is strongly convex
    np.testing.assert_allclose(numbers[good, 4], answers.cost[good], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(x[good], answers.x[good], rtol=0, atol=1e-6)
    np.testing.assert_allclose(proba[good], answers.proba[good], rtol=0, atol=1e-6)
    assert (numbers[good, 5] <= REL_GAP * np.maximum(numbers[good, 2 if form == "lam" else 4], LEAST_VALUE)).all()
    if form == "prob":
        assert (model.predict_proba(x[good])[np.arange(good.sum()), targets[good]] >= value).all()
    for n in np.flatnonzero(good)[:3]:  # limits are kept with ==, and the point is as good as the textbook's own
        lo, hi, _ = space.limits.around(X[n : n + 1])
        assert ((x[n] >= lo[0]) & (x[n] <= hi[0])).all()


def test_a_tolerance(compiled, rng):
    model, X, targets, limits = within(rng, "bounds", 4, 40, 12)
    tables = Tables.of(CostSpace.of(ifonly.ask(model, 0, lam=0.1, **limits).asked))
    *_, numbers, status, _ = solve(
        compiled(tables, False, True), tables, X, targets, np.full(12, 0.1), np.full(12, 0.1), tol=1e-3
    )
    assert (status[np.arange(12) != 3] == Status.CONVERGED).all()
    assert numbers[status == Status.CONVERGED, 3].max() < 0.1


@pytest.mark.seconds
def test_goals_that_no_lam_reaches_with_the_features_that_are_free(compiled):
    """With an ℓ1 part no feature may be free at the λ of the problem without limits, or too many."""
    rng, N = np.random.default_rng(0), 40
    model = ifonly.Model(rng.normal(size=(10, 784)) * 6 / 28, rng.normal(size=10))
    X, targets = rng.random((N, 784)), rng.integers(10, size=N)
    question = {"prob": 0.8, "actions": ifonly.Actions(bounds=(0.0, 1.0)), "cost": ifonly.Cost(l1=0.02)}
    tables = Tables.of(CostSpace.of(ifonly.ask(model, 0, **question).asked))
    wanted = np.full(N, float(needed_logit(0.8, model)))
    *_, status, n_iter = solve(compiled(tables, True, True), tables, X, targets, wanted, np.full(N, 0.8))
    assert (status == Status.EXACT).all()
    assert n_iter.max() <= 8


@pytest.mark.parametrize(("D", "K"), [(1, 2), (30, 2), (784, 10), (784, 32), (8192, 16), (32767, 2), (20000, 32)])
def test_blocks_fit_into_a_multiprocessor(D, K):
    blocks = limited_blocks(D, K)
    assert blocks is not None
    assert 1 <= blocks.warps <= 16
    assert blocks.shared <= SHARED_BYTES - 1024


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"actions": ifonly.Actions(integer=[0])}, "on features one by one"),
        ({"actions": ifonly.Actions(linear=[({0: 1.0, 1: 1.0}, "<=", 1.0)])}, "on features one by one"),
        ({"actions": ifonly.Actions(frozen=[0]), "margin": 0.1}, "on features one by one"),
    ],
)
def test_what_is_not_for_the_gpu_is_refused(options, said, rng):
    model = ifonly.Model(rng.normal(size=(3, 5)), rng.normal(size=3))
    with pytest.raises(ifonly.InputError, match=said):
        ifonly.invert(model, rng.normal(size=(3, 5)), 1, **options, backend="cuda")


def test_too_many_classes_are_refused(rng):
    model = ifonly.Model(rng.normal(size=(33, 5)), rng.normal(size=33))
    with pytest.raises(ifonly.InputError, match="up to 32 classes, not 33"):
        ifonly.invert(model, rng.normal(size=(3, 5)), 1, actions=ifonly.Actions(frozen=[0]), backend="cuda")


@pytest.mark.parametrize("prob", [0.99, 0.9999])
def test_an_estimator_that_subtracts_logarithms_finds_the_probability(compiled, prob, rng):
    """Naive Bayes: logits of thousands, and p as the exponential of a difference of two."""
    weights, X = np.log(rng.dirichlet(np.ones(30), size=3)), rng.poisson(60.0, size=(20, 30)).astype(float)
    model, targets = ifonly.Model(weights, np.zeros(3)), np.arange(20) % 3
    model.log_space = True
    space = CostSpace.of(ifonly.ask(model, 0, prob=prob, actions=ifonly.Actions(bounds=(0.0, 200.0))).asked)
    tables, wanted = Tables.of(space), np.full(20, float(needed_logit(prob, model)))
    x, _, _, status, _ = solve(compiled(tables, True, True), tables, X, targets, wanted, np.full(20, prob))
    done = status == Status.EXACT  # where rounding is more than a gap of 1e-9 rows are left to the processor
    assert done.any() or prob > 0.99
    logits = x[done] @ weights.T
    seen = np.exp(logits - logsumexp(logits, axis=1)[:, None])[np.arange(done.sum()), targets[done]]
    assert (seen >= prob).all()
