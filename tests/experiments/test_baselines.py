"""The methods of the paper against 50-digit optima, textbook matrices and each other."""

import doctest
import math
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from helpers import reference
from helpers.data import data_file

import ifonly
from experiments import baselines
from experiments.baselines import (
    METHODS,
    Backtracking,
    Constant,
    Run,
    StrongWolfe,
    adapters,
    clarabel,
    feature_newton,
    protocol,
    scipy_minimize,
)
from experiments.baselines.bfgs import DenseDirection, bfgs
from experiments.baselines.conjugate import ConjugateDirection
from experiments.baselines.lbfgs import LimitedDirection
from experiments.baselines.linesearch import LEAST_STEP, Trial, cubic_minimiser
from experiments.baselines.newton import NewtonDirection, rival_gram
from experiments.baselines.objective import Line, Objective, Point, daxpy
from experiments.baselines.protocol import REFRESH

EPS = np.finfo(float).eps
TOL = 1e-8
PATIENT = 50_000  # iterations: gradient descent with backtracking is slow and must still arrive
ROUNDING = 1e-13  # of ‖∇E‖, for problems of a few classes and features
SAME_NEWTON = 1e-9  # relative in E, iterate by iterate: the paper's Newton in D dimensions and ours in class space

SEARCHES = {"backtracking": Backtracking(), "wolfe": StrongWolfe(), "tight wolfe": StrongWolfe(c2=0.1, first=None)}
PAIRS = [(name, search) for name in METHODS for search in SEARCHES] + [("GD", "constant")]
SEARCHES["constant"] = Constant()


@dataclass(frozen=True)
class Small:
    model: ifonly.Model
    source: np.ndarray
    k: int
    lam: float

    def __iter__(self):
        return iter((self.model, self.source, self.k, self.lam))

    @property
    def problem(self):
        return ifonly.Problem(*self)


def small(K, D, scale=1.0, lam=0.3, seed=0):
    """Random rows; the target is the least probable class at the source."""
    rng = np.random.default_rng([K, D, seed])
    model = ifonly.Model(rng.normal(size=(K, D)) * scale, rng.normal(size=K))
    source = rng.normal(size=D)
    return Small(model, source, int(model.logits(source).argmin()), lam)


PROBLEMS = {
    "two classes": small(2, 5),
    "four classes": small(4, 7),
    "one feature": small(3, 1),
    "more classes than features": small(8, 3),
    "saturated": small(4, 6, scale=4.0, lam=2.0),
}


@dataclass
class Spy:
    """A line search that remembers every line and the step taken along it."""

    search: object
    lines: list
    steps: list

    def __call__(self, line, guess=1.0):
        taken = self.search(line, guess)
        self.lines.append(line)
        self.steps.append(taken.step)
        return taken


def spied(name, problem, search, **options):
    spy = Spy(search, [], [])
    return METHODS[name](*problem, line_search=spy, **options), spy


# ---- every method reaches the optimum ----


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize(("name", "search"), PAIRS)
def test_reaches_the_optimum_as_exactly_as_its_gradient_says(name, search, kind):
    problem = PROBLEMS[kind]
    run = METHODS[name](*problem, tol=TOL, max_iter=PATIENT, line_search=SEARCHES[search])
    best = reference.optimum(problem.model.A, problem.model.b, problem.source, problem.k, problem.lam)
    norm = reference.gradient_norm(problem.model.A, problem.model.b, run.x, problem.source, problem.k, problem.lam)
    assert run.converged
    assert run.n_iter > 0
    assert norm <= TOL + ROUNDING
    assert abs(norm - run.grad_norm) <= ROUNDING  # also where the margins were carried along for a thousand iterations
    assert best.distance_to(run.x) <= (norm + ROUNDING) / problem.lam  # strong convexity
    assert abs(run.objective - float(best.objective)) <= norm**2 / problem.lam + 8 * EPS * run.objectives[0]


@pytest.mark.parametrize(("name", "search"), PAIRS)
def test_histories_are_consistent(name, search):
    problem = PROBLEMS["four classes"]
    run = METHODS[name](*problem, max_iter=PATIENT, line_search=SEARCHES[search])
    assert run.name == name
    assert len(run.objectives) == len(run.grad_norms) == len(run.seconds) == run.n_iter + 1
    assert len(run.steps) == len(run.trials) == run.n_iter
    assert run.objectives[0] == pytest.approx(problem.problem.objective(problem.source), rel=4 * EPS)
    assert run.objective == pytest.approx(problem.problem.objective(run.x), rel=1e-14)
    assert run.grad_norms[0] == pytest.approx(np.linalg.norm(problem.problem.gradient(problem.source)), rel=1e-14)
    assert (np.diff(run.objectives) <= 4 * EPS * run.objectives[0]).all()
    assert run.objective < 0.9 * run.objectives[0]
    assert (np.diff([0.0, *run.seconds]) > 0).all()
    assert min(run.steps) > 0
    assert all(norm > TOL for norm in run.grad_norms[:-1])


@pytest.mark.parametrize("name", METHODS)
def test_trials_are_the_evaluations_of_the_line_search(name, monkeypatch):
    calls = []
    change = Line.change
    monkeypatch.setattr(Line, "change", lambda self, step: (calls.append(step), change(self, step))[1])
    for search in ("backtracking", "wolfe"):
        calls.clear()
        run = METHODS[name](*PROBLEMS["saturated"], line_search=SEARCHES[search])
        assert sum(run.trials) == len(calls)
        assert max(run.trials) > 1


@pytest.mark.parametrize("name", METHODS)
def test_where_it_starts_and_ends_can_be_chosen(name):
    problem, method = PROBLEMS["four classes"], METHODS[name]
    elsewhere = np.linspace(-1.0, 1.0, 7)
    run = method(*problem, start=elsewhere)
    assert run.objectives[0] == pytest.approx(problem.problem.objective(elsewhere), rel=1e-14)
    assert run.converged
    again = method(*problem, start=run.x, tol=1e-7)
    assert (again.n_iter, again.steps, again.trials) == (0, [], [])
    np.testing.assert_array_equal(again.x, problem.source + (run.x - problem.source))
    cut = method(*problem, max_iter=2)
    assert (cut.n_iter, cut.converged) == (2, False)
    assert method(*problem, max_seconds=0.0).n_iter == 0
    rough = method(*problem, tol=1e-2)
    assert rough.tol == 1e-2
    assert 1e-8 < rough.grad_norm <= 1e-2


@pytest.mark.parametrize("name", METHODS)
def test_ends_by_itself_where_no_digit_is_left(name):
    problem = PROBLEMS["four classes"]
    run = METHODS[name](*problem, tol=0.0, max_iter=PATIENT)
    assert run.n_iter < PATIENT
    assert run.grad_norm < 1e-11
    assert run.converged == (run.grad_norm == 0.0)


def test_all_methods_have_one_protocol_and_the_papers_line_searches():
    assert (protocol.TOL, protocol.MAX_ITER) == (1e-8, 1000)
    default = {name: method.line_search for name, method in METHODS.items()}
    assert default["Newton"] == default["BFGS"] == default["L-BFGS"] == Backtracking(rho=0.8, first=1.0, c1=0.0)
    assert default["GD"] == StrongWolfe(c1=1e-4, c2=0.9, first=None)
    assert default["CG"] == StrongWolfe(c1=1e-4, c2=0.1, first=None)
    assert METHODS["L-BFGS"].directions(None).pairs.maxlen == 4


def test_the_example_in_the_docstring():
    assert doctest.testmod(baselines) == (0, 4)


@pytest.mark.parametrize("name", METHODS)
def test_wrong_input_is_refused(name):
    model, source, _, _ = PROBLEMS["four classes"]
    with pytest.raises(ifonly.InputError, match="k must be a class index from 0 to 3; got 4"):
        METHODS[name](model, source, 4, 0.1)
    with pytest.raises(ifonly.InputError, match="lam must be a number > 0; got -1"):
        METHODS[name](model, source, 0, -1.0)
    with pytest.raises(ifonly.InputError, match=r"source must have 7 features; got an array of shape \(3,\)"):
        METHODS[name](model, source[:3], 0, 0.1)
    with pytest.raises(ifonly.InputError, match=r"start must have 7 features; got an array of shape \(3,\)"):
        METHODS[name](model, source, 0, 0.1, start=source[:3])


# ---- E, its gradient and its lines ----


@pytest.mark.parametrize("kind", PROBLEMS)
def test_gradient_is_the_derivative_of_the_objective(kind, rng):
    problem = PROBLEMS[kind]
    objective, u = Objective(*problem), rng.normal(size=len(problem.source))
    point = objective.at(u)
    for d in range(len(u)):
        h = 1e-5 * np.eye(len(u))[d]
        central = (objective.at(u + h).value - objective.at(u - h).value) / 2e-5
        assert point.gradient[d] == pytest.approx(central, abs=1e-8)  # O(h²) and rounding/h
    assert point.value == pytest.approx(problem.problem.objective(problem.source + u), rel=1e-14)
    assert point.p_target + point.q.sum() == pytest.approx(1.0, rel=4 * EPS)


@pytest.mark.parametrize("step", [1e-14, 1e-9, 1e-4, 0.3, 2.0, 50.0, 1e5])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_change_along_a_line_keeps_its_digits(kind, step, rng):
    model, source, k, lam = PROBLEMS[kind]
    objective = Objective(model, source, k, lam)
    u, direction = rng.normal(size=(2, len(source)))
    line = Line(objective, objective.at(u), direction)
    with mp.workdps(60):
        x = [mp.mpf(float(s)) + mp.mpf(float(v)) for s, v in zip(source, u, strict=True)]

        def E(alpha):
            at = [a + alpha * mp.mpf(float(d)) for a, d in zip(x, direction, strict=True)]
            z = [
                mp.fdot([mp.mpf(float(w)) for w in row], at) + mp.mpf(float(c)) for row, c in zip(model.A, model.b, strict=True)
            ]
            square = mp.fsum((a - mp.mpf(float(s))) ** 2 for a, s in zip(at, source, strict=True))
            return mp.mpf(lam) / 2 * square + mp.log(mp.fsum(mp.exp(v) for v in z)) - z[k]

        alpha = mp.mpf(step)
        change, slope = E(alpha) - E(0), mp.diff(E, alpha)
        assert abs(line.change(step) - change) <= 1e-11 * abs(change)
        assert abs(line.slope_at(step) - slope) <= 1e-11 * (abs(slope) + abs(line.slope))
        assert abs(line.slope - mp.diff(E, 0)) <= 1e-13 * (1 + abs(line.slope))


def test_daxpy_works_in_place():
    x, y = np.arange(3.0), np.ones(3)
    daxpy(x, y, a=2.0)
    assert y.tolist() == [1.0, 3.0, 5.0]


class Counting(np.ndarray):
    """A matrix that counts its products."""

    products = 0

    def __matmul__(self, other):
        Counting.products += 1
        return np.asarray(self) @ other


@pytest.mark.parametrize(("name", "per_iteration"), [("Newton", 4), ("GD", 2), ("CG", 2), ("BFGS", 2), ("L-BFGS", 2)])
@pytest.mark.parametrize("search", ["backtracking", "wolfe"])
def test_no_needless_passes_over_A(name, per_iteration, search):
    model, source, k, lam = small(4, 6, scale=4.0, lam=2.0)
    rival_gram(model, k)  # set-up
    model.A = model.A.view(Counting)
    Counting.products = 0
    run = METHODS[name](model, source, k, lam, line_search=SEARCHES[search], max_iter=40)
    assert sum(run.trials) > run.n_iter
    assert run.n_iter < REFRESH
    assert Counting.products == 2 + per_iteration * run.n_iter  # E and ∇E at the start, then so many per iteration


def test_carried_margins_are_computed_afresh_now_and_then():
    model, source, k, lam = small(4, 6)
    model.A = model.A.view(Counting)
    Counting.products = 0
    run = METHODS["GD"](model, source, k, lam, line_search=Constant(1e-3), max_iter=3 * REFRESH)
    assert run.n_iter == 3 * REFRESH
    assert Counting.products == 2 + 2 * run.n_iter + 3


# ---- line searches ----


@dataclass
class Function:
    """φ from its formula, as a line search sees it; φ(0) is not 0."""

    f: object
    df: object
    lipschitz: float = 4.0

    @property
    def slope(self):
        return self.df(0.0)

    def change(self, step):
        return self.f(step) - self.f(0.0)

    def slope_at(self, step):
        return self.df(step)


def more_thuente(number):
    """The six test functions of Moré and Thuente (1994), figures 1 to 6, with their derivatives by complex steps."""

    def yanai(b1, b2):
        g1, g2 = (math.sqrt(1 + b * b) - b for b in (b1, b2))
        return lambda a: g1 * ((1 - a) ** 2 + b2**2) ** 0.5 + g2 * (a**2 + b1**2) ** 0.5

    def wiggly(a, beta=0.01, n=39):
        if a.real <= 1 - beta:
            base = 1 - a
        elif a.real >= 1 + beta:
            base = a - 1
        else:
            base = (a - 1) ** 2 / (2 * beta) + beta / 2
        return base + 2 * (1 - beta) / (n * math.pi) * np.sin(n * math.pi / 2 * a)

    f = {
        1: lambda a: -a / (a * a + 2),
        2: lambda a: (a + 0.004) ** 5 - 2 * (a + 0.004) ** 4,
        3: wiggly,
        4: yanai(1e-3, 1e-3),
        5: yanai(1e-2, 1e-3),
        6: yanai(1e-3, 1e-2),
    }[number]
    return Function(lambda a: f(complex(a)).real, lambda a: f(complex(a, 1e-100)).imag / 1e-100)


HARD = {
    **{f"Moré and Thuente {n}": more_thuente(n) for n in range(1, 7)},
    "parabola": Function(lambda a: (a - 3.0) ** 2, lambda a: 2 * (a - 3.0)),
    "far parabola": Function(lambda a: (a / 1e6 - 1.0) ** 2, lambda a: 2 * (a / 1e6 - 1.0) / 1e6),
    "near kink": Function(
        lambda a: math.log(math.exp(-5 * a) + math.exp(400 * (a - 0.05))),
        lambda a: (-5 * math.exp(-5 * a) + 400 * math.exp(400 * (a - 0.05))) / (math.exp(-5 * a) + math.exp(400 * (a - 0.05))),
    ),
}


@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize(("c1", "c2"), [(1e-4, 0.9), (1e-3, 0.1)])
@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 1.7])
def test_strong_wolfe_holds_on_hard_functions(kind, c1, c2, first):
    phi = HARD[kind]
    step, trials = StrongWolfe(c1, c2, first=first)(phi)
    assert step > 0
    assert 1 <= trials < 60
    assert phi.f(step) <= phi.f(0.0) + c1 * step * phi.df(0.0)
    assert abs(phi.df(step)) <= c2 * abs(phi.df(0.0))


@pytest.mark.parametrize("search", ["wolfe", "tight wolfe"])
@pytest.mark.parametrize("kind", ["four classes", "saturated"])
@pytest.mark.parametrize("name", METHODS)
def test_strong_wolfe_holds_at_every_step_taken(name, kind, search):
    problem, wolfe = PROBLEMS[kind], SEARCHES[search]
    model, source, k, lam = problem
    run, spy = spied(name, problem, wolfe, tol=1e-6)
    assert run.converged
    assert spy.steps == run.steps
    for line, step in zip(spy.lines, spy.steps, strict=True):
        x, d = source + line.point.u, line.direction
        before, after = (reference.objective(model.A, model.b, at, source, k, lam) for at in (x, x + step * d))
        slope, slope_after = (float(problem.problem.gradient(at) @ d) for at in (x, x + step * d))
        assert slope < 0
        assert float(after - before) <= wolfe.c1 * step * slope + 16 * EPS * np.linalg.norm(x)  # x + αd is rounded
        assert abs(slope_after) <= wolfe.c2 * abs(slope) * (1 + 1e-6)


def test_wolfe_asks_for_enough_decrease():
    phi = HARD["Moré and Thuente 1"]  # −α/(α² + 2): flat at 10, and below φ(0), but not by enough
    for c1 in (1e-4, 0.1):
        step, _ = StrongWolfe(c1, 0.9, first=10.0)(phi)
        assert phi.f(step) <= phi.f(0.0) + c1 * step * phi.df(0.0)
        assert (step == 10.0) == (c1 == 1e-4)


def test_wolfe_lengthens_and_shortens_the_first_step():
    wide, narrow = HARD["far parabola"], HARD["near kink"]
    assert StrongWolfe()(wide).step > 1e4
    assert StrongWolfe()(narrow).step < 0.1
    asked = []
    guessing = Function(lambda a: (asked.append(a), (a - 3.0) ** 2)[1], lambda a: 2 * (a - 3.0))
    StrongWolfe(first=None)(guessing, 2.5)
    StrongWolfe(first=0.5)(guessing, 2.5)
    assert [a for a in asked if a] == [2.5, 0.5]


def test_wolfe_gives_what_it_has_where_nothing_is_good_enough():
    falling = Function(lambda a: -a, lambda a: -1.0)  # never flat
    step, trials = StrongWolfe()(falling)
    assert step > 1
    assert trials == 100
    lying = Function(lambda a: a, lambda a: -1.0)  # a slope that is not one
    assert StrongWolfe()(lying) == (0.0, 100)


def test_guess_is_the_last_step_times_the_ratio_of_slopes():
    guesses = []

    def search(line, guess=1.0):
        guesses.append(guess)
        return SEARCHES["tight wolfe"](line, guess)

    run, spy = spied("GD", PROBLEMS["saturated"], search)
    slopes = [line.slope for line in spy.lines]
    wanted = [1.0] + [step * min(10.0, a / b) for step, (a, b) in zip(run.steps, pairwise(slopes), strict=False)]
    np.testing.assert_allclose(guesses, wanted, rtol=1e-14)


def trial(f, df, at):
    return Trial(at, f(at), df(at))


@pytest.mark.parametrize("seed", range(20))
def test_cubic_interpolation_finds_the_minimum_of_a_cubic(seed):
    rng = np.random.default_rng(seed)
    top, low = np.sort(rng.normal(size=2) * 3)
    size, constant = rng.uniform(0.1, 5), rng.normal()

    def f(a):
        return constant + size * (a**3 / 3 - (top + low) * a * a / 2 + top * low * a)

    def df(a):
        return size * (a - top) * (a - low)

    for a, b in rng.normal(size=(20, 2)) * 4:
        assert cubic_minimiser(trial(f, df, a), trial(f, df, b)) == pytest.approx(low, abs=1e-7)


def test_cubic_interpolation_of_a_parabola_and_of_what_has_no_minimum():
    for a, b in ((0.0, 1.0), (1.0, 0.0), (4.0, 2.5)):
        parabola = [trial(lambda x: (x - 2) ** 2, lambda x: 2 * (x - 2), at) for at in (a, b)]
        assert cubic_minimiser(*parabola) == pytest.approx(2.0, rel=1e-14)
        rising = [trial(lambda x: x**3 + x, lambda x: 3 * x * x + 1, at) for at in (a, b)]
        assert math.isnan(cubic_minimiser(*rising))
        straight = [trial(lambda x: -x, lambda x: -1.0, at) for at in (a, b)]
        assert math.isnan(cubic_minimiser(*straight))


def test_zoom_needs_one_trial_for_a_cubic():
    cubic = Function(lambda a: a**3 - a, lambda a: 3 * a * a - 1)
    assert StrongWolfe(c2=1e-6)(cubic) == (pytest.approx(math.sqrt(1 / 3), rel=1e-12), 2)


def test_backtracking_takes_the_first_power_that_lowers_E():
    hinge = Function(lambda a: abs(a - 0.2) - 0.2, lambda a: -1.0)  # below φ(0) for a < 0.4
    step, trials = Backtracking()(hinge)
    assert (step, trials) == (pytest.approx(0.8**5), 6)  # 0.8⁴ = 0.41
    assert Backtracking(rho=0.5, first=3.0)(hinge) == (3 / 8, 4)
    assert Backtracking(c1=0.5)(hinge).step == pytest.approx(0.8**6)  # 0.8⁶ = 0.26 is the first with |a − 0.2| − 0.2 < −a/2
    rising = Function(lambda a: a, lambda a: -1.0)
    step, trials = Backtracking()(rising)
    assert step == 0.0
    assert trials == pytest.approx(math.log(LEAST_STEP) / math.log(0.8), abs=2)


def test_constant_step_is_the_one_of_theorem_3_4_and_never_raises_E():
    for problem in PROBLEMS.values():
        model, _, k, lam = problem
        difference = model.A - model.A[k]
        top = np.linalg.eigvalsh(difference @ difference.T)[-1]
        run = METHODS["GD"](*problem, line_search=Constant(), max_iter=PATIENT)
        np.testing.assert_allclose(run.steps, 1 / (lam + top), rtol=1e-12)
        assert set(run.trials) == {0}
        assert (np.diff(run.objectives) <= 4 * EPS * run.objectives[0]).all()
    assert Constant(0.25)(HARD["parabola"]) == (0.25, 0)


# ---- directions ----


def newton_direction(model, x, source, k, lam):
    """−(∇²E)⁻¹∇E in 50 digits, with the D×D Hessian."""
    with mp.workdps(50):
        A, x, source = mp.matrix(model.A.tolist()), mp.matrix(x.tolist()), mp.matrix(source.tolist())
        z = A * x + mp.matrix(model.b.tolist())
        p = [mp.exp(v - max(z)) for v in z]
        p = mp.matrix([v / mp.fsum(p) for v in p])
        S = mp.diag(list(p)) - p * p.T
        e = mp.matrix([mp.mpf(j == k) for j in range(len(p))])
        gradient = lam * (x - source) + A.T * (p - e)
        return np.array([float(-v) for v in mp.lu_solve(lam * mp.eye(len(x)) + A.T * S * A, gradient)])


@pytest.mark.parametrize("far", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
@pytest.mark.parametrize(("K", "D"), [(2, 4), (5, 6), (7, 3)])
def test_newtons_direction_is_the_solution_with_the_full_hessian(K, D, scale, far, rng):
    for seed in range(4):
        model, source, k, lam = small(K, D, scale, lam=10.0 ** (1 - seed), seed=seed)
        u = rng.normal(size=D) * far
        objective = Objective(model, source, k, lam)
        found = NewtonDirection(objective)(objective.at(u))
        wanted = newton_direction(model, source + u, source, k, lam)
        # p itself is off by a few roundings of the logits, which are in the hundreds at the largest scale
        size = np.abs(model.A).max() * (np.abs(source).max() + far) + 1
        assert np.linalg.norm(found - wanted) <= 1e-13 * size * (np.linalg.norm(wanted) + np.linalg.norm(u))
        dense = np.linalg.solve(model.hessian(source + u, source, k, lam), -model.gradient(source + u, source, k, lam))
        np.testing.assert_allclose(found, dense, rtol=1e-6, atol=1e-7 * np.abs(dense).max())


def quadratic_run(direction, Q, c, n):
    """n iterates of ½uᵀQu − cᵀu from 0, with exact steps."""
    u, points, directions = np.zeros(len(c)), [], []
    for _ in range(n):
        g = Q @ u - c
        point = Point(u, c, c, 0.0, 0.0, 0.0, g, float(np.linalg.norm(g)))
        d = direction(point)
        points.append(u)
        directions.append(d)
        u = u - (g @ d) / (d @ Q @ d) * d
    return np.array([*points, u]), directions


def test_conjugate_gradient_bfgs_and_lbfgs_are_one_method_on_a_quadratic(rng):
    """With exact steps their iterates are the same, their directions conjugate, and D steps are enough."""
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    Q = basis @ np.diag([1.0, 2.0, 3.0, 5.0, 8.0, 13.0]) @ basis.T
    c = rng.normal(size=6)
    runs = [quadratic_run(method, Q, c, 6) for method in (ConjugateDirection(), LimitedDirection(4), DenseDirection())]
    for iterates, directions in runs:
        np.testing.assert_allclose(iterates, runs[0][0], atol=1e-9)
        products = np.array(directions) @ Q @ np.array(directions).T
        np.testing.assert_allclose(products - np.diag(np.diag(products)), 0.0, atol=1e-9)
        np.testing.assert_allclose(iterates[-1], np.linalg.solve(Q, c), atol=1e-9)
        assert np.linalg.norm(iterates[-2] - iterates[-1]) > 1e-3  # and no fewer


def updated(H, s, y):
    """BFGS's update as the textbook has it."""
    rho, I = 1 / (y @ s), np.eye(len(s))
    return (I - rho * np.outer(s, y)) @ H @ (I - rho * np.outer(y, s)) + rho * np.outer(s, s)


@pytest.mark.parametrize(("name", "memory"), [("BFGS", None), ("L-BFGS", 1), ("L-BFGS", 4), ("L-BFGS", 1000)])
def test_quasi_newton_directions_are_those_of_the_textbooks_matrix(name, memory):
    run, spy = spied(name, PROBLEMS["saturated"], Backtracking(), **({} if memory is None else {"m": memory}))
    points = [line.point for line in spy.lines]
    pairs = [(b.u - a.u, b.gradient - a.gradient) for a, b in pairwise(points)]
    assert run.n_iter > 8
    for i, line in enumerate(spy.lines):
        used = pairs[:i] if memory is None else pairs[max(i - memory, 0) : i]
        H = np.eye(len(line.direction))
        if used:
            s, y = used[0] if memory is None else used[-1]
            H *= (s @ y) / (y @ y)
        for s, y in used:
            H = updated(H, s, y)
        wanted = -H @ line.point.gradient
        np.testing.assert_allclose(line.direction, wanted, atol=1e-8 * np.linalg.norm(wanted))


def test_conjugate_directions_follow_polak_and_ribiere():
    _, spy = spied("CG", PROBLEMS["saturated"], StrongWolfe(c2=0.1, first=None))
    restarts = 0
    for before, line in pairwise(spy.lines):
        g, g0 = line.point.gradient, before.point.gradient
        wanted = -g + max(0.0, g @ (g - g0) / (g0 @ g0)) * before.direction
        if g @ wanted >= 0:
            wanted = -g
        restarts += np.array_equal(wanted, -g)
        np.testing.assert_allclose(line.direction, wanted, rtol=1e-9, atol=1e-14)
    assert restarts < len(spy.lines) / 3
    direction = ConjugateDirection()

    def at(*g):
        return Point(np.zeros(2), np.zeros(2), np.zeros(2), 0.0, 0.0, 0.0, np.array(g), math.hypot(*g))

    assert direction(at(1.0, 0.0)).tolist() == [-1.0, 0.0]
    assert direction(at(0.5, 0.0)).tolist() == [-0.5, 0.0]  # β = −0.25
    assert direction(at(-1.0, 1.0)).tolist() == [1.0, -1.0]  # β = 10 and gᵀd₀ = 0.5: uphill


def test_gradient_descent_goes_down_the_gradient():
    problem = PROBLEMS["four classes"]
    for line in spied("GD", problem, StrongWolfe())[1].lines:
        np.testing.assert_allclose(
            line.direction, -problem.problem.gradient(problem.source + line.point.u), rtol=1e-9, atol=1e-14
        )


def test_bfgs_refuses_what_needs_too_much_memory():
    model = ifonly.Model(np.ones((2, 20_000)) * [[1.0], [2.0]], [0.0, 0.0])
    with pytest.raises(ifonly.InputError, match=r"D = 20000 needs 3.0 GiB, and at most 2 GiB is expected; use lbfgs"):
        bfgs(model, np.zeros(20_000), 0, 0.1)


# ---- the paper's Newton and ours ----


def assert_same_newton(model, source, k, lam):
    """Class-space Newton from the source and the paper's in D dimensions: the same E, iterate by iterate."""
    ours = ifonly.invert(model, source, model.label(k), lam=lam, tol=TOL, start="source")
    theirs = feature_newton(model, source, k, lam, tol=TOL)
    assert theirs.converged
    assert [step.trials for step in ours.history] == theirs.trials
    assert [step.step for step in ours.history] == theirs.steps
    np.testing.assert_allclose([step.objective for step in ours.history], theirs.objectives[:-1], rtol=SAME_NEWTON)
    assert ours.objective == pytest.approx(theirs.objective, rel=SAME_NEWTON)
    return theirs


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("K", "D"), [(2, 6), (3, 2), (6, 20), (12, 40)])
def test_newton_in_features_and_in_classes_are_one_on_random_problems(K, D, scale):
    for seed in range(5):
        for lam in (1e-3, 1e-1, 10.0):
            assert_same_newton(*small(K, D, scale, lam, seed))


def test_newton_in_features_and_in_classes_are_one_on_mnist(mnist, paper_problems):
    A, b, _ = mnist
    model = ifonly.Model(A, b)
    runs = [assert_same_newton(model, *problem) for problem in paper_problems]
    assert 8 <= np.mean([run.n_iter for run in runs]) <= 11  # "around 10"
    assert max(max(run.trials) for run in runs) > 10  # saturated sources


@pytest.mark.parametrize("size", [64, 320])
def test_newton_in_features_and_in_classes_are_one_on_deep_features(size):
    weights = np.load(data_file("deep", f"deepfeat{size}.npz"))
    sources = np.load(data_file("deep", f"deepfeat{size}-sources.npz"))["X"]
    model = ifonly.Model(weights["A"], weights["b"])
    for i in range(0, 50, 5):
        x = sources[i].astype(float)
        order = model.logits(x).argsort()
        k, lam = (order[0], 0.001) if i % 25 else (order[-2], 0.006)
        assert_same_newton(model, x, int(k), lam)


# ---- other libraries' minimisers ----


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("method", adapters.OPTIONS)
def test_scipys_minimisers_reach_the_optimum_and_tell_how(method, kind):
    problem = PROBLEMS[kind]
    run = scipy_minimize(*problem, method=method, tol=1e-6)
    best = reference.optimum(problem.model.A, problem.model.b, problem.source, problem.k, problem.lam)
    assert isinstance(run, Run)
    assert run.name == f"SciPy {method}"
    assert run.converged
    assert best.distance_to(run.x) <= (run.grad_norm + ROUNDING) / problem.lam
    assert len(run.objectives) == len(run.grad_norms) == len(run.seconds) == len(run.steps) + 1 == len(run.trials) + 1
    assert run.objectives[0] == pytest.approx(problem.problem.objective(problem.source), rel=4 * EPS)
    assert run.grad_norm == pytest.approx(np.linalg.norm(problem.problem.gradient(run.x)), abs=ROUNDING)
    assert (np.diff(run.objectives) <= 4 * EPS * run.objectives[0]).all()
    assert sum(run.trials) >= run.n_iter > 0


@pytest.mark.parametrize("method", adapters.OPTIONS)
def test_scipys_evaluations_are_counted_once(method, monkeypatch):
    calls = []
    evaluate = adapters.Watched.evaluate
    monkeypatch.setattr(adapters.Watched, "evaluate", lambda self, u: (calls.append(1), evaluate(self, u))[1])
    run = scipy_minimize(*PROBLEMS["four classes"], method=method, tol=1e-6)
    assert sum(run.trials) == len(calls)


def test_scipys_limits_are_ours(rng):
    problem = PROBLEMS["four classes"]
    assert scipy_minimize(*problem, max_iter=3).n_iter == 3
    assert scipy_minimize(*problem, max_seconds=0.0).n_iter == 0
    start = rng.normal(size=7)
    run = scipy_minimize(*problem, start=start, method="BFGS")
    assert run.objectives[0] == pytest.approx(problem.problem.objective(start), rel=1e-14)
    assert scipy_minimize(*problem, start=run.x, tol=2 * run.grad_norm).n_iter == 0
    with pytest.raises(ifonly.InputError, match="method must be one of L-BFGS-B, CG, BFGS, Newton-CG, trust-ncg; got 'Powell'"):
        scipy_minimize(*problem, method="Powell")


def test_scipy_is_given_products_with_the_hessian(rng):
    model, source, k, lam = PROBLEMS["more classes than features"]
    watched = adapters.Watched(Objective(model, source, k, lam), "any", 0.0, None)
    u, v = rng.normal(size=(2, 3))
    watched.begin(source + u)
    np.testing.assert_allclose(watched.hessian_product(u, v), model.hessian(source + u, source, k, lam) @ v, rtol=1e-12)
    np.testing.assert_allclose(watched.hessian_product(v, u), model.hessian(source + v, source, k, lam) @ u, rtol=1e-12)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_clarabel_agrees(kind):
    problem = PROBLEMS[kind]
    run = clarabel(*problem, tol=1e-4)
    assert run.converged
    assert run.objective == pytest.approx(feature_newton(*problem).objective, rel=1e-8)
    assert run.grad_norm == pytest.approx(np.linalg.norm(problem.problem.gradient(run.x)), abs=ROUNDING)
    assert (run.n_iter, len(run.objectives), run.seconds[0]) == (1, 2, 0.0)
    assert run.seconds[1] > 0


def test_a_missing_library_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"clarabel\(\) needs cvxpy and Clarabel: pip install cvxpy clarabel"):
        clarabel(*PROBLEMS["two classes"])


def test_an_import_loads_no_other_library():
    script = "import sys, experiments.baselines; print(*{'cvxpy', 'clarabel', 'scipy.optimize'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []
