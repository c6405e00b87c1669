"""Costs and limits without whole numbers: against a conic solver, 50-digit arithmetic, scikit-learn, and what users complain of.

A case is built from random numbers; the conic solver and the checks below see A, b, the scaler and the limits, never ifonly's
own arithmetic. Definitions: t_d = c_d(x_d − x̄_d), cost = ½‖t‖² + Σμ|t|; with ``lam`` the objective is (λ/2)‖t‖² + Σμ|t| − ln p.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from ifonly import Actions, Cost, InputError, Model, Scaling, Status, as_model, invert, path

COSTS = ["none", "array", "mapping", "raw", "l1", "l1 each", "array, l1 each", "matrix", "matrix, l1"]
LIMITS = ["none", "frozen", "one side", "both sides", "one way", "outside", "<=", ">=", "==", "mixed"]


# ---- the cases, and what they are worth by the book ----


@dataclass
class Case:
    """One problem as plain arrays, and as ifonly takes it."""

    model: Model
    source: np.ndarray
    k: int
    lam: float | None
    prob: float | None
    cost: Cost | None
    actions: Actions | None
    slope: np.ndarray  # (K, D) of the logits, per unit of the user's
    Q: np.ndarray  # (D, D): ‖t‖² = (x − x̄)ᵀQ(x − x̄)
    weights: np.ndarray  # (D,): Σμ|t| = Σ weights |x − x̄|
    lo: np.ndarray
    hi: np.ndarray
    rules: list

    def solve(self, **more):
        return invert(
            self.model, self.source, self.k, lam=self.lam, prob=self.prob, cost=self.cost, actions=self.actions, **more
        )

    def loss(self, x):
        """−ln p_k at x."""
        z = self.model.logits(x)
        s = z - z[self.k]
        top = s.max()
        return top + np.log(np.exp(s - top).sum())

    def parts(self, x):
        """½‖t‖², Σμ|t| and −ln p_k at x."""
        change = x - self.source
        return 0.5 * change @ self.Q @ change, self.weights @ np.abs(change), self.loss(x)

    def value(self, x):
        """What is minimised."""
        square, sparse, loss = self.parts(x)
        return square + sparse if self.lam is None else self.lam * square + sparse + loss

    def assert_kept(self, x):
        """Every limit, to the last bit; an equation between features to 1e-12, since float64 has no exact solution of most."""
        fixed = self.lo == self.hi
        np.testing.assert_array_equal(x[fixed], self.lo[fixed])
        assert (x >= self.lo).all()
        assert (x <= self.hi).all()
        for row, sense, rest in self.rules:
            left = sum(float(c * x[d]) for d, c in row.items()) - rest
            size = sum(abs(float(c * x[d])) for d, c in row.items()) + abs(rest)
            # ifonly sums the products by BLAS, in an order of its own: a rounding or two between the two sums
            assert left <= 4e-16 * size if sense == "<=" else left >= -4e-16 * size if sense == ">=" else abs(left) <= 1e-12 * size


def some(rng, D, share=0.3):
    """A few features, at least one."""
    return rng.choice(D, max(1, int(share * D)), replace=False)


def make(rng, cost="none", limits="none", K=3, wish="prob", D=None, scaled=None):
    """A random case of a kind."""
    D = int(rng.integers(2, 12)) if D is None else D
    size = 10.0 ** rng.uniform(-0.5, 0.5)
    A, b = rng.normal(size=(K, D)) * size, rng.normal(size=K)
    scaled = (cost == "raw" or rng.random() < 0.3) if scaled is None else scaled
    scaling = Scaling(rng.normal(size=D), np.exp(rng.normal(size=D))) if scaled else None
    names = [f"f{d}" for d in range(D)]
    model = Model(A, b, feature_names=names, scaling=scaling)
    source = rng.normal(size=D) if scaling is None else scaling.shift + scaling.scale * rng.normal(size=D)
    logits = model.logits(source)
    k = int(logits.argmin()) if rng.random() < 0.7 else int(rng.integers(K))
    unit = np.ones(D) if scaling is None else scaling.scale
    # the cost
    c, mu = 1 / unit, np.zeros(D)
    kwargs: dict[str, Any] = {}
    if "array" in cost:
        c = np.exp(rng.normal(size=D))
        kwargs["scale"] = c.copy()
    elif cost == "mapping":
        chosen = some(rng, D)
        c = c.copy()
        c[chosen] = np.exp(rng.normal(size=len(chosen)))
        kwargs["scale"] = {names[d] if rng.random() < 0.5 else int(d): float(c[d]) for d in chosen}
    elif cost == "raw":
        c, kwargs["scale"] = np.ones(D), "raw"
    if "l1" in cost:
        mu = np.full(D, 10.0 ** rng.uniform(-2, 0))
        kwargs["l1"] = float(mu[0])
    if "each" in cost:
        mu = np.where(rng.random(D) < 0.3, 0.0, 10.0 ** rng.uniform(-2, 0.5, size=D))
        kwargs["l1"] = mu.copy() if rng.random() < 0.5 else {names[d]: float(mu[d]) for d in range(D)}
    Q = np.diag(c**2)
    if "matrix" in cost:
        root = rng.normal(size=(D, D)) + 2 * np.eye(D)
        Q = root.T @ root / D
        Q = 0.5 * (Q + Q.T)
        kwargs["matrix"] = Q
    weights = mu * np.sqrt(np.diag(Q))
    # the limits
    lo, hi = np.full(D, -np.inf), np.full(D, np.inf)
    more: dict[str, Any] = {}
    rules: list = []
    bounds: dict = {}
    spread = unit * np.abs(rng.normal(size=D)) * 1.5
    if limits in ("frozen", "mixed"):
        more["frozen"] = [names[d] for d in some(rng, D)]
    if limits == "one side":
        for d in some(rng, D, 0.7):
            bounds[names[d]] = (None, source[d] + spread[d]) if rng.random() < 0.5 else (source[d] - spread[d], None)
    if limits in ("both sides", "mixed"):
        for d in range(D) if limits == "both sides" else some(rng, D, 0.5):
            bounds[names[d]] = (source[d] - spread[d], source[d] + 2 * spread[d])
    if limits in ("one way", "mixed"):
        way = rng.integers(3, size=D)
        more["increase"] = [names[d] for d in np.flatnonzero(way == 0)]
        more["decrease"] = [names[d] for d in np.flatnonzero(way == 1)]
    if limits == "outside":
        for d in some(rng, D, 0.6):
            low = source[d] + 0.2 * spread[d] if rng.random() < 0.5 else source[d] - 1.5 * spread[d]
            bounds[names[d]] = (low, low + spread[d])
    if limits in ("<=", ">=", "==", "mixed"):
        most = 2 if limits == "==" else 4
        for _ in range(int(rng.integers(1, min(most, max(D - 1, 1)) + 1))):
            of = some(rng, D, 0.5)
            row = {names[d]: float(rng.normal() / unit[d]) for d in of}
            now = sum(v * source[int(key[1:])] for key, v in row.items())
            sense = limits if limits != "mixed" else str(rng.choice(["<=", ">="]))
            away = {"<=": 1, ">=": -1, "==": rng.choice([-1, 1])}[sense] * rng.uniform(-0.3 if limits != "mixed" else 0.0, 0.8)
            rules.append((row, sense, float(now + away)))
    if bounds:
        more["bounds"] = bounds
    if rules:
        more["linear"] = rules
    for key, (low, high) in bounds.items():
        d = int(key[1:])
        lo[d], hi[d] = -np.inf if low is None else low, np.inf if high is None else high
    for name in more.get("increase", ()):
        lo[int(name[1:])] = max(lo[int(name[1:])], source[int(name[1:])])
    for name in more.get("decrease", ()):
        hi[int(name[1:])] = min(hi[int(name[1:])], source[int(name[1:])])
    for name in more.get("frozen", ()):
        lo[int(name[1:])] = hi[int(name[1:])] = source[int(name[1:])]
    lam = 10.0 ** rng.uniform(-4, 2) if wish == "lam" else None
    prob = float(rng.choice([0.5, 0.6, 0.9, 0.99, 0.999])) if wish == "prob" else None
    return Case(
        model, source, k, lam, prob,
        Cost(**kwargs) if kwargs or cost != "none" else None,
        Actions(**more) if limits != "none" else None,
        A / unit, Q, weights, lo, hi,
        [({int(key[1:]): v for key, v in row.items()}, sense, rest) for row, sense, rest in rules],
    )  # fmt: skip


def conic(case, best=False):
    """(x, allowance) by cvxpy and Clarabel: the allowance is what its own small violations are worth by its multipliers.

    ``best`` asks for the largest probability instead.
    """
    D = len(case.source)
    unit = 1 / np.sqrt(np.diag(case.Q))
    y = cp.Variable(D)  # the change, in units of cost
    change = cp.multiply(unit, y)
    z = case.model.logits(case.source) + case.slope @ change
    loss = cp.log_sum_exp(z - z[case.k])
    root = np.linalg.cholesky(case.Q).T * unit
    square, sparse = 0.5 * cp.sum_squares(root @ y), cp.sum(cp.multiply(case.weights, cp.abs(change)))
    limits, excess = [], []
    for row, sense, rest in case.rules:
        left = sum(v * (change[d] + case.source[d]) for d, v in row.items()) - rest
        limits.append(left <= 0 if sense == "<=" else left >= 0 if sense == ">=" else left == 0)
        excess.append((lambda x, row=row, rest=rest: sum(v * x[d] for d, v in row.items()) - rest, sense))
    bounded = [d for d in range(D) if np.isfinite(case.lo[d]) and case.lo[d] < case.hi[d]]
    capped = [d for d in range(D) if np.isfinite(case.hi[d]) and case.lo[d] < case.hi[d]]
    fixed = [d for d in range(D) if case.lo[d] == case.hi[d]]
    extra = [y[d] >= (case.lo[d] - case.source[d]) / unit[d] for d in bounded]
    extra += [y[d] <= (case.hi[d] - case.source[d]) / unit[d] for d in capped]
    extra += [y[d] == (case.lo[d] - case.source[d]) / unit[d] for d in fixed]
    if case.prob is not None and not best:
        reach = loss <= -np.log(case.prob)
        limits.append(reach)
        excess.append((lambda x: case.loss(x) + np.log(case.prob), "<="))
    goal = loss if best else square + sparse if case.lam is None else case.lam * square + sparse + loss
    problem = cp.Problem(cp.Minimize(goal), limits + extra)
    tight = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12, "max_iter": 200}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")  # it is: the tolerances are beyond what it can do
        try:
            problem.solve(solver=cp.CLARABEL, **tight)
        except cp.error.SolverError:
            return None, 0.0
    if y.value is None or problem.status not in ("optimal", "optimal_inaccurate"):
        return None, 0.0
    x = np.clip(case.source + unit * y.value, case.lo, case.hi)
    allowance = 0.0
    for limit, (over, sense) in zip(limits, excess, strict=True):
        value = float(over(x))
        wrong = max(value, 0.0) if sense == "<=" else max(-value, 0.0) if sense == ">=" else abs(value)
        allowance += 1.01 * wrong * abs(float(limit.dual_value))  # to first order; the violations are 1e-9 or so
    return x, allowance


# ---- against the conic solver ----

# Clarabel is good to 1e-8 or so; its point is clipped into the bounds, what it still violates is charged at its own
# multipliers, and then ours may not be above it by more than the 1e-9 that is promised. 1e-12 is for objectives near 0.
RELATIVE, ABSOLUTE = 1e-9, 1e-12
# A gap is claimed from the least subgradient, ‖ξ‖²/2λ, and allows for rounding of x: at λ = 1e-4 behind an ill-conditioned matrix
# (up to 1e6 here) that is the most there is to claim.
CLAIMED = 1e-6


def sound(case, cf):
    """What every answer owes: the limits to the last bit, a certificate that can be recomputed, the probability."""
    case.assert_kept(cf.x)
    cf.verify()
    assert np.isfinite([cf.distance, cf.cost, cf.objective, cf.gap]).all()
    if cf.prob is not None and cf.status is not Status.UNREACHABLE:
        assert cf.model.predict_proba(cf.x)[case.k] >= cf.prob
        if cf.prob >= 0.5:
            assert cf.model.predict(cf.x) == cf.target
    return cf


@pytest.mark.parametrize("wish", ["lam", "prob"])
@pytest.mark.parametrize("K", [2, "more"])
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("cost", COSTS)
def test_no_point_of_the_conic_solver_is_better(rng, cost, limits, K, wish):
    case = make(rng, cost, limits, K if K == 2 else int(rng.integers(3, 9)), wish)
    try:
        cf = sound(case, case.solve())
    except InputError as error:
        assert "contradict" in str(error)  # random equations may have no common point
        assert conic(case)[0] is None
        return
    if cf.status is Status.UNREACHABLE:
        p = cf.proba[case.k]
        assert p < cf.prob
        x, _ = conic(case, best=True)
        if x is not None:  # p is the largest there is, to the 1e-5 at which the search stops; the conic solver's to 1e-7
            assert p >= np.exp(-case.loss(x)) * (1 - 2e-5)
        if cf.within is not None:
            assert p <= cf.within.best_bound < cf.prob
        return
    assert cf.status is Status.EXACT
    x, allowance = conic(case)
    if x is None:  # the conic solver gave up
        return
    ours, theirs = case.value(cf.x), case.value(x)
    assert ours <= theirs + allowance + RELATIVE * abs(theirs) + ABSOLUTE
    assert theirs <= ours * (1 + 1e-4) + 1e-6  # it was the same problem
    assert cf.gap <= CLAIMED * abs(ours) + ABSOLUTE


def test_most_of_these_problems_are_solved_by_both():
    """The tests above skip what one side cannot solve: that is rare."""
    solved = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        case = make(rng, COSTS[seed % 9], LIMITS[seed % 10], 2 + seed % 5, ["lam", "prob"][seed % 2])
        try:
            solved += case.solve().status is Status.EXACT and conic(case)[0] is not None
        except InputError:
            pass
    assert solved >= 48


# ---- against 50-digit arithmetic ----


def exact_value(case, cf, lam, weight):
    """The least of λ/2‖t‖² + weight·Σμ|t| − ln p within the limits, in 50 digits, and whether that is proved.

    The answer tells which features are free and which rules hold; with these fixed, Newton on the optimality conditions gives the
    optimum to 50 digits, and the signs of all multipliers prove it.
    """
    D, m = len(case.source), mp.mpf
    rivals = [j for j in range(case.model.n_classes) if j != case.k]
    scaling = case.model.scaling
    shift, unit = ([0.0] * D, [1.0] * D) if scaling is None else (scaling.shift.tolist(), scaling.scale.tolist())
    A, b = case.model.A.tolist(), case.model.b.tolist()
    source = [m(v) for v in case.source.tolist()]
    c = [mp.sqrt(m(float(case.Q[d, d]))) for d in range(D)]
    mu = [m(weight) * m(float(case.weights[d])) / c[d] for d in range(D)]
    seen = [(source[d] - m(shift[d])) / m(unit[d]) for d in range(D)]
    z = [mp.fdot([m(v) for v in A[j]], seen) + m(b[j]) for j in range(len(A))]
    B = [[(m(A[j][d]) - m(A[case.k][d])) / m(unit[d]) / c[d] for d in range(D)] for j in rivals]
    margins = [z[j] - z[case.k] for j in rivals]
    rules = [
        ([m(row.get(d, 0.0)) * (-1 if sense == ">=" else 1) / c[d] for d in range(D)],
         (m(rest) - mp.fsum(m(v) * source[d] for d, v in row.items())) * (-1 if sense == ">=" else 1), sense)
        for row, sense, rest in case.rules
    ]  # fmt: skip
    x = cf.x
    fixed, sign = {}, [m(0)] * D
    for d in range(D):
        if x[d] <= case.lo[d] or x[d] >= case.hi[d]:
            fixed[d] = (m(float(x[d])) - source[d]) * c[d]
        elif x[d] == case.source[d] and mu[d] > 0:
            fixed[d] = m(0)
        else:
            sign[d] = m(int(np.sign(x[d] - case.source[d])))
    holds = [i for i, (_, _, sense) in enumerate(rules) if sense == "==" or cf.within.nu[i] > 0]
    n, a, free = len(rivals), len(holds), [d for d in range(D) if d not in fixed]

    def answer(q, nu):
        pull = [mp.fsum(q[j] * B[j][d] for j in range(n)) + mp.fsum(nu[i] * rules[r][0][d] for i, r in enumerate(holds))
                for d in range(D)]  # fmt: skip
        t = [fixed[d] if d in fixed else -(pull[d] + mu[d] * sign[d]) / lam for d in range(D)]
        s = [margins[j] + mp.fdot(B[j], t) for j in range(n)]
        top = max([m(0), *s])
        e = [mp.exp(v - top) for v in s]
        total = mp.exp(-top) + mp.fsum(e)
        return pull, t, [v / total for v in e], top + mp.log(total)

    p = case.model.predict_proba(x)
    y = mp.matrix([m(float(p[j])) for j in rivals] + [m(float(cf.within.nu[r])) for r in holds])
    for _ in range(60):
        q, nu = list(y[:n]), list(y[n:]) if a else []
        _, t, p, _ = answer(q, nu)
        F = mp.matrix([q[j] - p[j] for j in range(n)] + [mp.fdot(rules[r][0], t) - rules[r][1] for r in holds])
        rows = [B[j] for j in range(n)] + [rules[r][0] for r in holds]
        J = mp.matrix(n + a, n + a)
        for i in range(n + a):
            dt = {d: -rows[i][d] / lam for d in free}
            ds = [mp.fsum(B[j][d] * dt[d] for d in free) for j in range(n)]
            mean = mp.fdot(p, ds)
            for j in range(n):
                J[j, i] = (1 if i == j else 0) - p[j] * (ds[j] - mean)
            for k, r in enumerate(holds):
                J[n + k, i] = mp.fsum(rules[r][0][d] * dt[d] for d in free)
        step = mp.lu_solve(J, F)
        y -= step
        if max(abs(v) for v in step) < mp.mpf(10) ** -40:
            break
    pull, t, p, loss = answer(list(y[:n]), list(y[n:]) if a else [])
    tiny = mp.mpf(10) ** -30
    proved = all(y[n + k] >= -tiny or rules[r][2] == "==" for k, r in enumerate(holds))
    proved &= all(mp.fdot(row, t) <= rest + tiny for row, rest, sense in rules if sense != "==")
    for d in range(D):
        slope = lam * t[d] + pull[d]
        least = slope - mu[d] if t[d] == 0 else slope + mu[d] * mp.sign(t[d])
        most = slope + mu[d] if t[d] == 0 else least
        proved &= (least <= tiny or x[d] <= case.lo[d]) and (most >= -tiny or x[d] >= case.hi[d])
        proved &= d in fixed or (sign[d] * t[d] >= 0 and case.lo[d] <= source[d] + t[d] / c[d] <= case.hi[d])
    value = mp.fsum(lam / 2 * v * v + u * abs(v) for u, v in zip(mu, t, strict=True)) + loss
    # … and the same at the answer itself
    change = [(m(float(x[d])) - source[d]) * c[d] for d in range(D)]
    s = [margins[j] + mp.fdot(B[j], change) for j in range(n)]
    top = max([m(0), *s])
    ours = top + mp.log(mp.exp(-top) + mp.fsum(mp.exp(v - top) for v in s))
    cost = mp.fsum(v * v / 2 + m(float(case.weights[d])) / c[d] * abs(v) for d, v in enumerate(change))
    value_here = mp.fsum(lam / 2 * v * v + u * abs(v) for u, v in zip(mu, change, strict=True)) + ours
    return value, value_here, cost, ours, proved


@pytest.mark.parametrize("seed", range(24))
def test_the_gap_is_a_true_bound_in_50_digits(seed):
    """E − E* (or cost − least cost) in 50 digits is at least 0 and at most what is claimed."""
    rng = np.random.default_rng(1000 + seed)
    kinds = ["none", "frozen", "both sides", "one way", "<=", "mixed", "==", ">="]
    cost = ["l1", "array, l1 each", "mapping", "array", "raw"][seed % 5]
    wish = ["lam", "prob"][seed // 8 % 2]
    case = make(rng, cost, kinds[seed % 8], 2 + seed % 4, wish, D=5)
    if case.actions is None:
        case.actions = Actions()
    cf = sound(case, case.solve())
    if cf.status is Status.UNREACHABLE or np.isinf(cf.lam):
        return  # of 24, a few
    with mp.workdps(50):
        lam = mp.mpf(cf.lam)
        best, here, cost_here, loss, proved = exact_value(case, cf, lam, 1 if wish == "lam" else lam)
        assert proved
        assert here >= best - mp.mpf(10) ** -28 or any(sense == "==" for _, sense, _ in case.rules)
        if wish == "lam":
            assert here - best <= cf.gap
        else:  # every point with p ≥ τ costs at least (E* + ln τ)/λ
            assert loss <= -mp.log(mp.mpf(cf.prob))
            assert cost_here - (best + mp.log(mp.mpf(cf.prob))) / lam <= cf.gap


# ---- the edges of good input: an answer or a clear error, never NaN in silence, no warning (they are errors here) ----

BOX = Actions(bounds=(-5, 5))
TIE = Actions(linear=[({0: 1, 1: -1}, "<=", 0.5)], bounds=(-50, 50))


@pytest.mark.parametrize("actions", [Actions(), BOX, TIE], ids=["free", "box", "rule"])
@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("lam", [1e-8, 1e-4, 1.0, 1e4, 1e8])
def test_any_lam(rng, lam, K, actions):
    model, x = Model(rng.normal(size=(K, 6)), rng.normal(size=K)), rng.normal(size=6)
    for l1 in (0.0, 0.1):
        cf = invert(model, x, int(model.logits(x).argmin()), lam=lam, cost=Cost(l1=l1), actions=actions)
        assert cf.status is Status.EXACT
        cf.verify()
        assert cf.gap <= 1e-9 * (1 + cf.objective)
        assert np.isfinite(cf.x).all()
    if lam == 1e8:  # so dear that nothing moves: with ℓ1 to the last bit, unless a rule says otherwise
        assert actions is TIE or (cf.x == x).all()


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("gap", [1e3, 1e6])
def test_logits_far_apart(rng, gap, K):
    """Probabilities that are 0 and 1 in floating point, at the source and along the way."""
    A, b = rng.normal(size=(K, 5)), np.zeros(K)
    b[0] = gap
    model, x = Model(A, b), rng.normal(size=5)
    for cost in (None, Cost(l1=0.5)):
        far = invert(model, x, 1, prob=0.9, cost=cost, actions=Actions())
        assert far.status is Status.EXACT
        far.verify()
        assert model.predict_proba(far.x)[1] >= 0.9
        assert far.gap <= 1e-9 * far.cost
        near = invert(model, x, 1, lam=1e-3, cost=cost, actions=BOX)
        near.verify()
        assert near.status is Status.EXACT
        assert np.isfinite(near.objective)
        out = invert(model, x, 1, prob=0.9, cost=cost, actions=BOX)
        assert out.status is Status.UNREACHABLE
        assert out.within.best_bound < 0.9
        assert np.isfinite(out.x).all()
        out.verify()


@pytest.mark.parametrize("tau", [1e-6, 1 - 1e-9, 1 - 2.0**-53])
@pytest.mark.parametrize("K", [2, 3])
def test_probabilities_near_0_and_1(rng, K, tau):
    model, x = Model(rng.normal(size=(K, 4)), rng.normal(size=K)), rng.normal(size=4)
    k = int(model.logits(x).argmin())
    cf = invert(model, x, k, prob=tau, actions=Actions(frozen=[0], bounds={1: (-100, 100)}), cost=Cost(l1=0.1))
    cf.verify()
    if cf.status is not Status.UNREACHABLE:
        assert model.predict_proba(cf.x)[k] >= tau
    assert cf.x[0] == x[0]


def test_a_saturated_source_is_its_own_answer():
    model = Model([[0.0, 0.0], [100.0, 0.0]], [0.0, 0.0])
    cf = invert(model, [10.0, 3.0], 1, prob=0.999, actions=Actions(bounds=(0, 20)))
    assert (cf.x == [10.0, 3.0]).all()
    assert cf.cost == 0
    assert cf.n_changes == 0


@pytest.mark.parametrize("actions", [Actions(), BOX, TIE], ids=["free", "box", "rule"])
@pytest.mark.parametrize("wish", [{"lam": 0.01}, {"prob": 0.6}])
def test_twin_classes_and_columns_without_effect(rng, actions, wish):
    """Equal rows of A share their probability; zero rows and columns are features and classes like any other."""
    A = rng.normal(size=(4, 6))
    A[1] = A[2]
    A[3] = 0.0
    A[:, 4] = 0.0
    b = np.array([0.3, -0.2, -0.2, 0.1])
    model, x = Model(A, b), rng.normal(size=6)
    for k in range(4):
        cf = invert(model, x, k, **wish, actions=actions, cost=Cost(l1=0.01))
        cf.verify()
        p = model.predict_proba(cf.x)
        assert cf.x[4] == x[4]  # to move it would cost and change nothing
        if k in (1, 2):
            assert p[1] == pytest.approx(p[2], rel=1e-12)
            if "prob" in wish:  # a half is the most there is
                assert cf.status is Status.UNREACHABLE
                assert p[k] <= 0.5 + 1e-9
        elif "prob" in wish and actions is not TIE:
            assert cf.status is Status.EXACT or cf.within.best_bound < 0.6


def test_a_model_that_sees_nothing():
    """All columns zero: no change of x changes anything."""
    model = Model(np.zeros((3, 4)), [0.0, 1.0, -1.0])
    x = np.ones(4)
    for cost in (None, Cost(l1=0.1)):
        cf = invert(model, x, 2, lam=0.1, cost=cost, actions=BOX)
        assert (cf.x == x).all()
        out = invert(model, x, 2, prob=0.5, cost=cost, actions=BOX)
        assert out.status is Status.UNREACHABLE
        assert out.proba[2] == pytest.approx(np.exp(-1) / (1 + np.e + np.exp(-1)), rel=1e-12)
        assert out.within.best_bound < 0.5


@pytest.mark.parametrize("K", [2, 3])
def test_one_feature(K):
    A = np.array([[0.0], [1.0], [-1.0]])[:K]
    model = Model(A, np.zeros(K))
    cf = invert(model, [-1.0], 1, prob=0.7, actions=Actions(bounds={0: (None, 3)}))
    cf.verify()
    p = model.predict_proba(cf.x)[1]
    assert 0.7 <= p <= 0.7 + 1e-12
    out = invert(model, [-1.0], 1, prob=0.7, actions=Actions(bounds={0: (None, 0.5)}))
    assert out.status is Status.UNREACHABLE
    assert out.x[0] == 0.5
    assert invert(model, [-1.0], 1, prob=0.7, actions=Actions(frozen=0)).status is Status.UNREACHABLE


def test_inputs_of_any_kind_give_the_same_answer(rng):
    """float32, read-only, reversed, strided, Fortran-ordered, lists: all are numbers. Exact in float32 so that values agree."""
    A, b = (rng.integers(-8, 9, size=shape) / 8 for shape in ((3, 4), 3))
    x = rng.integers(-8, 9, size=4) / 8
    actions = Actions(bounds={0: (np.float32(-0.5), 2), 2: (None, np.int64(3))}, frozen=np.array([1]))
    cost = Cost(scale=np.array([1, 2, 1, 1], dtype=np.int8), l1=np.float32(0.125))
    wanted = invert(Model(A, b), x, 2, prob=0.75, cost=cost, actions=actions).x
    locked = x.copy()
    locked.setflags(write=False)
    wide = np.zeros((4, 3))
    wide[:, 1] = x
    kinds = [x.astype(np.float32), locked, wide[:, 1], x[::-1].copy()[::-1], x.tolist(), np.asfortranarray(x[None])[0]]
    for model in (Model(A.astype(np.float32), b.astype(np.float32)), Model(np.asfortranarray(A), b.tolist())):
        for kind in kinds:
            found = invert(model, kind, 2, prob=0.75, cost=cost, actions=actions).x
            # BLAS may sum a strided row in another order: the last bits of the logits, times a condition of some tens
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
    assert (locked == x).all()


@pytest.mark.parametrize("wish", [{"lam": 1e-3}, {"prob": 0.9}])
@pytest.mark.parametrize("K", [2, 3])
def test_features_in_units_1e8_apart(rng, K, wish):
    """The same problem in metres and in nanometres: measured in model units of the first, costs say so, and answers agree."""
    A, b, x = rng.normal(size=(K, 5)), rng.normal(size=K), rng.normal(size=5)
    k = int((A @ x + b).argmin())
    unit = np.array([1.0, 1e8, 1.0, 1e-8, 1e4])
    actions = Actions(bounds={0: (x[0] - 1, x[0] + 1), 1: (None, x[1] + 0.5)}, frozen=[4])
    scaled = Actions(bounds={0: (x[0] - 1, x[0] + 1), 1: (None, (x[1] + 0.5) * 1e8)}, frozen=[4])
    one = invert(Model(A, b), x, k, **wish, cost=Cost(l1=0.05), actions=actions)
    two = invert(Model(A / unit, b), x * unit, k, **wish, cost=Cost(scale=1 / unit, l1=0.05), actions=scaled)
    for cf in (one, two):
        cf.verify()
    assert one.status == two.status
    # the strongly convex objective pins x down to the square root of the gaps; both are 1e-9 or better
    np.testing.assert_allclose(two.x / unit, one.x, rtol=1e-7, atol=1e-8)
    assert two.cost == pytest.approx(one.cost, rel=1e-9)


def test_weak_features_are_used_where_nothing_else_may_move():
    """What the classifier hardly sees costs a lot, but it is a way: not UNREACHABLE."""
    A = np.array([[0.0, 0.0, 0.0], [1.0, 1e-8, 0.0], [-1.0, 0.0, 1e-8]])
    cf = invert(Model(A, np.zeros(3)), np.array([-3.0, 0.0, 0.0]), 1, prob=0.9, actions=Actions(frozen=[0]))
    assert cf.status is Status.EXACT
    cf.verify()
    assert cf.proba[1] >= 0.9
    strong = invert(Model(A, np.zeros(3)), np.array([-3.0, 0.0, 0.0]), 1, prob=0.9, actions=Actions(bounds={0: (-3, -2.5)}))
    assert strong.status is Status.EXACT
    assert strong.cost < cf.cost
