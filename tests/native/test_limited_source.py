"""limited.cu without a GPU: compiled for the host, where 32 lanes take turns, against the array program."""

import ctypes

import numpy as np
import pytest
from helpers.host import HostSource
from helpers.tables_within import KINDS, within

import ifonly
from ifonly.engines.limited_problem import CostSpace
from ifonly.native.cuda_source import SHARED_BYTES, limited_blocks, limited_options
from ifonly.native.limited import Tables
from ifonly.problem.goals import needed_logit
from ifonly.problem.status import LEAST_VALUE, REL_GAP, Status

LEFT = -1
ENTRY = """
namespace ifonly::baseline::limits { double memory[1 << 18]; }
struct Given { long long rows; const double *X; long long stride; const double *a[5]; const signed char *way;
    const double *b[3];
    const int *target; const double *wanted, *prob; double tol; int max_iter; double least, gap; double *x; long long x_stride;
    double *proba, *numbers; int *n_iter; signed char *status; };
const Given *given;
extern "C" void run(const Given *all) {
    given = all;
    turns::run([] {
        const Given &g = *given;
        ifonly::baseline::limits::limited(g.rows, g.X, g.stride, g.a[0], g.a[1], g.a[2], g.a[3], g.way, g.b[0], g.b[1], g.b[2],
            g.target, g.wanted, g.prob, g.tol, g.max_iter, g.least, g.gap, g.x, g.x_stride, g.proba, g.numbers, g.n_iter,
            g.status);
    });
}
"""


class Given(ctypes.Structure):
    """The arguments, as ENTRY has them."""

    _fields_ = [("rows", ctypes.c_longlong), ("X", ctypes.c_void_p), ("stride", ctypes.c_longlong), ("a", ctypes.c_void_p * 5)]
    _fields_ += [("way", ctypes.c_void_p), ("b", ctypes.c_void_p * 3)]
    _fields_ += [(name, ctypes.c_void_p) for name in ("target", "wanted", "prob")]
    _fields_ += [("tol", ctypes.c_double), ("max_iter", ctypes.c_int), ("least", ctypes.c_double), ("gap", ctypes.c_double)]
    _fields_ += [("x", ctypes.c_void_p), ("x_stride", ctypes.c_longlong)]
    _fields_ += [(name, ctypes.c_void_p) for name in ("proba", "numbers", "n_iter", "status")]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """``compiled(tables, goal, staged)``: limited.cu for one warp, compiled as plain C++."""
    source = HostSource(tmp_path_factory.mktemp("limited"), "limited", "cuda_warp.hpp", ENTRY)

    def build(tables, goal, staged):
        return source.library(
            *limited_options(tables.D, len(tables.b), "double", tables.kind, goal=goal, warps=1, staged=staged)
        )

    return build


def solve(library, tables, X, targets, wanted, prob, tol=0.0):
    N, K = len(X), len(tables.b)
    x, proba, numbers = np.full(X.shape, np.nan), np.empty((N, K)), np.empty((N, 6))
    n_iter, status = np.empty(N, np.int32), np.empty(N, np.int8)
    A, weights, b, each, way, gram, pairs, errors = tables.arguments()
    kept = [a.astype(np.float64) for a in (wanted, prob)], targets.astype(np.int32)
    at = [a.ctypes.data for a in (*kept[0], kept[1])]
    first = (ctypes.c_void_p * 5)(*(a.ctypes.data for a in (A, weights, b, each)))
    second = (ctypes.c_void_p * 3)(*(a.ctypes.data for a in (gram, pairs, errors)))
    question = at[2], at[0], at[1], tol, 100, LEAST_VALUE, REL_GAP
    answers = x.ctypes.data, X.shape[1], proba.ctypes.data, numbers.ctypes.data, n_iter.ctypes.data, status.ctypes.data
    library.run(ctypes.byref(Given(N, X.ctypes.data, X.shape[1], first, way.ctypes.data, second, *question, *answers)))
    return x, proba, numbers, status


@pytest.mark.parametrize("form", ["lam", "prob"])
@pytest.mark.parametrize(
    ("K", "D", "staged"), [(2, 33, True), (3, 64, True), (10, 100, True), (10, 100, False), (20, 40, True)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_certificates(compiled, kind, K, D, staged, form, rng):
    model, X, targets, limits = within(rng, kind, K, D, 12)
    value = 0.05 if form == "lam" else 0.8
    space = CostSpace.of(ifonly.ask(model, 0, **{form: value}, **limits).asked)
    tables = Tables.of(space)
    wanted = np.full(12, value if form == "lam" else float(needed_logit(value, model)))
    x, proba, numbers, status = solve(compiled(tables, form == "prob", staged), tables, X, targets, wanted, np.full(12, value))
    answers = ifonly.invert(model, X, targets, **{form: value}, **limits, backend="reference")
    good = status == Status.EXACT
    assert status[3] == LEFT  # not a number
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
    *_, numbers, status = solve(compiled(tables, False, True), tables, X, targets, np.full(12, 0.1), np.full(12, 0.1), tol=1e-3)
    assert (status[np.arange(12) != 3] == Status.CONVERGED).all()
    assert numbers[status == Status.CONVERGED, 3].max() < 0.1


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
