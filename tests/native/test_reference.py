"""The batched array program against the single-source solvers, row by row, in every array library there is."""

import sys

import numpy as np
import pytest
from helpers.problems import half

import ifonly
from ifonly.engines.class_newton import ClassNewton
from ifonly.engines.class_space import ClassProblem
from ifonly.engines.closed_form import ClosedForm
from ifonly.engines.free import Stop
from ifonly.engines.newton import Solved
from ifonly.engines.windows import Window
from ifonly.model.numerics import EPS
from ifonly.native.reference import array_namespace, solve_lam, solve_prob
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources

P_TOL = 1e-9  # relative, of q and p; a q_j may besides be off by a rounding of the largest
X_TOL = 1e-12  # of the change, relative to 1 + ‖x‖
ALONE_TOL = 1e-12  # of a row's answer against the same row's in another batch: only the order of sums may differ
GOAL_TOL = 1e-9  # of the distance in the probability form: both answers lie somewhere in the same narrow window

SHAPES = [(1, 20, 40), (2, 20, 200), (5, 30, 60), (12, 20, 40), (20, 20, 20), (30, 100, 40)]  # n, D, B


@pytest.fixture(params=["numpy", "torch"])
def library(request):
    """A function that turns NumPy arrays into those of one library, and that library's kind of array."""
    if request.param == "numpy":
        return np.asarray, np.ndarray
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
    pytest.importorskip("array_api_compat", reason="needs array-api-compat: pip install array-api-compat")
    return torch.tensor, torch.Tensor


class Batch:
    """B random sources of one random model: flat, ordinary and saturated ones."""

    def __init__(self, rng, n, D, B, scale=1.0):
        while True:
            self.model = ifonly.Model(scale * rng.normal(size=(n + 1, D)), rng.normal(size=n + 1))
            if not self.model.dependent:  # with n = D some are, nearly; those are no business of the kernels
                break
        self.k = int(rng.integers(n + 1))
        self.X = rng.normal(size=(B, D)) * 10 ** rng.uniform(-3, 1.5, size=(B, 1))
        self.Z = self.X @ self.model.basis.T
        self.lam = 10 ** rng.uniform(-6, 6, size=B)
        self.gram = np.array(self.model.rival_gram(self.k))
        self.margins = self.model.margins(self.Z, self.k)

    @property
    def engine(self):
        return ClosedForm() if self.model.n_classes == 2 else ClassNewton()

    def problem(self, i):
        return ClassProblem(self.model, self.Z[i], Sources.read(self.model, self.X[i]).project()[1].take(0), self.k)

    def goals(self, prob):
        """What the single-source method aims at, for every row."""
        problems = [self.problem(i) for i in range(len(prob))]
        rows = [Window.of(p.model, p.rounding, p.size, tau) for p, tau in zip(problems, prob, strict=True)]
        return Window(*np.array(rows).reshape(-1, 4).T.copy())

    def assert_answers(self, solved, rows):
        """Rows of the kernel's answer are what the single-source solver finds for the same λ."""
        rivals = self.model.rivals(self.k)
        rows_of_rivals = self.model.A[rivals] - self.model.A[self.k]
        for at, i in enumerate(rows):
            lam = float(solved.lam[at])
            single = self.engine.minimise(self.problem(i), lam, Stop())
            change = self.model.basis.T @ single.coef
            size = 1 + np.linalg.norm(self.X[i] + change)
            np.testing.assert_allclose(solved.p[at], single.proba[rivals], rtol=P_TOL, atol=1e-300)
            np.testing.assert_allclose(solved.q[at], single.proba[rivals], rtol=P_TOL, atol=16 * EPS * solved.p[at].max())
            np.testing.assert_allclose(solved.p_target[at], single.proba[self.k], rtol=P_TOL, atol=1e-300)
            assert np.linalg.norm(-(rows_of_rivals.T @ solved.q[at]) / lam - change) <= X_TOL * size
            np.testing.assert_allclose(solved.objective[at], single.objective, rtol=1e-12, atol=1e-300)
            np.testing.assert_allclose(
                np.sqrt(solved.square[at]) / lam, single.distance, rtol=1e-11, atol=1e-150
            )  # below, squares underflow
            assert solved.grad_norm[at] <= single.grad_norm  # the one as computed, the other with all rounding allowed for


def logit_of(margins):
    """ln Σ eˢ = logit(1 − p_k)."""
    return np.logaddexp.reduce(margins, axis=1)


def run(solve, library, *arrays, **options):
    """Call a kernel with a library's arrays; check the kind of what comes back, and return it as NumPy's."""
    convert, kind = library
    arrays = [Window(*map(convert, a)) if isinstance(a, Window) else convert(a) for a in arrays]
    solved = solve(*arrays, **options)
    assert isinstance(solved, Solved)
    assert all(isinstance(field, kind) for field in solved)
    out = Solved(*map(np.asarray, solved))
    B, n = out.q.shape
    assert out.p.shape == (B, n)
    assert all(field.shape == (B,) for field in out[2:])
    assert all(field.dtype == np.float64 for field in out[:7])
    assert np.issubdtype(out.n_iter.dtype, np.integer)
    assert out.done.dtype == bool
    return out


# ---- λ given ----


@pytest.mark.parametrize(("scale", "shape"), half([0.1, 10.0], SHAPES))
def test_rows_are_those_of_the_single_solver(library, shape, scale, rng):
    batch = Batch(rng, *shape, scale)
    solved = run(solve_lam, library, batch.gram, batch.margins, batch.lam)
    assert solved.done.all()
    np.testing.assert_array_equal(solved.lam, batch.lam)
    batch.assert_answers(solved, range(shape[-1]))


def test_no_rows_are_no_trouble(library):
    gram, margins, none = np.eye(3), np.empty((0, 3)), np.empty(0)
    for solved in (
        run(solve_lam, library, gram, margins, none),
        run(solve_prob, library, gram, margins, Window(none, none, none, none)),
    ):
        assert solved.q.shape == (0, 3)


def test_a_row_does_not_depend_on_its_neighbours(library, rng):
    batch = Batch(rng, 7, 30, 50)
    together = run(solve_lam, library, batch.gram, batch.margins, batch.lam)
    for rows in ([17], [3, 49], list(range(49, -1, -1))):
        apart = run(solve_lam, library, batch.gram, batch.margins[rows], batch.lam[rows])
        np.testing.assert_array_equal(apart.n_iter, together.n_iter[rows])
        for name in ("p", "p_target", "objective", "square"):
            np.testing.assert_allclose(getattr(apart, name), getattr(together, name)[rows], rtol=ALONE_TOL, atol=1e-300)
        size = together.q[rows].max(axis=1, keepdims=True)
        assert (np.abs(apart.q - together.q[rows]) <= ALONE_TOL * size).all()


def test_a_tolerance_ends_it_sooner(library, rng):
    batch = Batch(rng, 9, 40, 100)
    exact = run(solve_lam, library, batch.gram, batch.margins, batch.lam)
    rough = run(solve_lam, library, batch.gram, batch.margins, batch.lam, tol=1e-3)
    assert rough.done.all()
    assert (rough.grad_norm <= 1e-3).all()
    assert (rough.n_iter <= exact.n_iter).all()
    assert rough.n_iter.sum() < exact.n_iter.sum()
    beyond = run(solve_lam, library, batch.gram, batch.margins, batch.lam, tol=0.0)  # … what rounding allows
    assert beyond.done.all()


def test_a_row_that_runs_out_of_iterations_says_so(library, rng):
    batch = Batch(rng, 9, 40, 100)
    exact = run(solve_lam, library, batch.gram, batch.margins, batch.lam)
    limit = int(np.median(exact.n_iter))
    cut = run(solve_lam, library, batch.gram, batch.margins, batch.lam, max_iter=limit)
    np.testing.assert_array_equal(cut.done, exact.n_iter <= limit)
    np.testing.assert_array_equal(cut.n_iter, np.minimum(exact.n_iter, limit))
    np.testing.assert_allclose(cut.q[cut.done], exact.q[cut.done], rtol=ALONE_TOL, atol=1e-15)
    assert np.isfinite(cut.q).all()


def test_a_source_in_the_corner_where_newtons_matrix_cancels(library):
    """One rival has all the mass and H is 1e12: M, formed as it is, has no digit left."""
    gram = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
    margins = np.array([[1e4, 0.0, 0.0], [0.0, 800.0, -800.0], [-900.0, -900.0, -900.0], [50.0, 50.0, 50.0]])
    lam = np.full(4, 1e-12)
    solved = run(solve_lam, library, gram, margins, lam)
    assert solved.done.all()
    np.testing.assert_allclose(solved.q, solved.p, rtol=P_TOL, atol=1e-15 * solved.p.max())
    model = ifonly.Model(np.vstack([np.zeros(3), np.linalg.cholesky(gram)]), np.zeros(4))
    for i in range(4):
        source = np.linalg.solve(np.linalg.cholesky(gram), margins[i])
        cf = ifonly.invert(model, source, 0, lam=1e-12)
        np.testing.assert_allclose(solved.objective[i], cf.objective, rtol=1e-9, atol=1e-300)


def test_a_gram_of_zeros_leaves_the_source(library):
    margins = np.array([[3.0, -1.0], [-2.0, 0.5]])
    solved = run(solve_lam, library, np.zeros((2, 2)), margins, np.ones(2))
    assert solved.done.all()
    np.testing.assert_allclose(solved.p_target, 1 / (1 + np.exp(margins).sum(axis=1)), rtol=1e-14)
    np.testing.assert_array_equal(solved.square, 0.0)


# ---- a probability given ----


@pytest.mark.parametrize(("scale", "shape"), half([0.1, 10.0], SHAPES))
def test_goals_are_met_where_the_single_solver_meets_them(library, shape, scale, rng):
    batch = Batch(rng, *shape, scale)
    prob = rng.uniform(0.05, 0.9999, size=shape[-1])
    goals = batch.goals(prob)
    away = np.flatnonzero(logit_of(batch.margins) > goals.logit - goals.slack)
    assert len(away)
    goals = Window(*(field[away] for field in goals))
    solved = run(solve_prob, library, batch.gram, batch.margins[away], goals)
    assert solved.done.all()
    assert_in_window(batch, solved, away, goals)
    batch.assert_answers(solved, away)
    for at, i in enumerate(away):
        single = batch.engine.reach(batch.problem(i), prob[i], Stop())
        assert single.status is Status.EXACT
        distance = np.sqrt(solved.square[at]) / solved.lam[at]
        np.testing.assert_allclose(distance, single.distance, rtol=GOAL_TOL, atol=GOAL_TOL)


def assert_in_window(batch, solved, rows, goals):
    s = batch.margins[rows] - solved.q @ batch.gram / solved.lam[:, None]
    allowance = goals.slack + goals.slope * solved.q.sum(axis=1) / solved.lam
    miss = logit_of(s) - (goals.logit - allowance)
    rounding = 4 * EPS * (np.abs(batch.margins[rows]).max(axis=1) + 1)  # s was summed in another order
    assert (miss <= rounding).all()
    assert (miss >= -(allowance + goals.least) - rounding).all()


@pytest.mark.parametrize("tau", [0.01, 0.5, 0.9, 1 - 1e-9])
def test_narrow_windows_are_met(library, tau, rng):
    batch = Batch(rng, 6, 25, 60)
    logit = np.full(60, np.log1p(-tau) - np.log(tau))
    away = np.flatnonzero(logit_of(batch.margins) > logit + 0.1)
    B = len(away)
    size = np.abs(batch.margins[away]).max(axis=1) + 1
    goals = Window(logit[away], 1e-14 * size, np.full(B, 1e-16), 8 * EPS * (np.abs(logit[away]) + 1))
    solved = run(solve_prob, library, batch.gram, batch.margins[away], goals)
    assert solved.done.all()
    assert_in_window(batch, solved, away, goals)
    alone = run(solve_prob, library, batch.gram, batch.margins[away[3:4]], Window(*(field[3:4] for field in goals)))
    np.testing.assert_allclose(alone.p, solved.p[3:4], rtol=10 * float(1e-14 * size[3] + goals.least[3]))


def test_goals_out_of_reach_are_left_to_the_single_solver(library):
    """Of four rows two can be helped: no change moves rival 0's margin, which is above the goal in the others."""
    gram = np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    margins = np.array([[1.0, 2.0, 3.0], [-9.0, 2.0, 3.0], [0.5, -2.0, -3.0], [-40.0, 30.0, 0.0]])
    goals = Window(np.zeros(4), np.full(4, 1e-13), np.full(4, 1e-16), np.full(4, 1e-14))
    solved = run(solve_prob, library, gram, margins, goals)
    assert solved.done.tolist() == [False, True, False, True]
    np.testing.assert_allclose(solved.p_target[[1, 3]], 0.5, rtol=1e-12)


def test_rivals_on_opposite_sides_cannot_both_be_beaten(library):
    gram = np.array([[1.0, -1.0], [-1.0, 1.0]])  # what one margin loses the other gains: p_k ≤ 1/(1 + 2) at best
    margins = np.array([[5.0, -5.0], [5.0, -5.0]])
    logit = np.log([2 * (1 - 1e-3), 2 * (1 + 1e-3)])
    goals = Window(logit, np.full(2, 1e-13), np.full(2, 1e-16), np.full(2, 1e-14))
    solved = run(solve_prob, library, gram, margins, goals)
    assert solved.done.tolist() == [False, True]


@pytest.mark.parametrize("logit", [-1.0, 8.0])
def test_what_needs_no_search_is_not_claimed(library, logit):
    """No margin can be moved at all, or the source is inside already: the caller knows, the kernel only stays calm."""
    gram, margins = (np.zeros((2, 2)) if logit < 0 else np.eye(2)), np.array([[1.0, 2.0]])
    goals = Window(np.array([logit]), np.array([1e-13]), np.array([1e-16]), np.array([1e-14]))
    solved = run(solve_prob, library, gram, margins, goals)
    assert not solved.done.any()


# ---- libraries ----


def test_numpy_needs_no_other_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    assert array_namespace(np.zeros(2)) is np
    assert bool(solve_lam(np.eye(1), np.ones((2, 1)), np.ones(2)).done.all())
    with pytest.raises(ImportError, match=r'type list need array-api-compat: pip install "ifonly\[frames\]"'):
        array_namespace([1.0])
