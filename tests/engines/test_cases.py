"""Whole numbers, grids, categories, few changes: against enumeration, HiGHS and a conic solver, and what users complain about.

The references know nothing of branch and bound: every combination of discrete values is tried, and what is continuous is solved
by sorting breakpoints (two classes) or by Clarabel (more).
"""

import itertools
import math
from fractions import Fraction
from functools import cache, partial
from time import perf_counter

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from helpers.data import data_file
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import LinearConstraint, milp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ifonly import Actions, Cost, InputError, Model, Status, invert

# Costs are sums of a few terms and agree to some ulp; the need of `prob` is met with an allowance for rounding, which moves
# continuous features (and with them the cost) by up to some 1e-12 relative.
SAME = 1e-9
# Clarabel at its tightest is right to about 1e-9 in the objective.
CONIC = 1e-7

BACKENDS = ["reference", "cpu"]


# ---- two classes: enumeration ----


def cheapest(need, g, mu, lo, hi):
    """min Σ½t² + μ|t| s.t. g·t ≥ need, lo ≤ t ≤ hi: G(w) = g·t(w) is piecewise linear, and its kinks can be sorted."""

    def at(w):
        pull = w * g
        return np.clip(np.sign(pull) * np.maximum(np.abs(pull) - mu, 0), lo, hi)

    def cost(w):
        return float((0.5 * at(w) ** 2 + mu * np.abs(at(w))).sum())

    if g @ at(0.0) >= need:
        return cost(0.0)
    move = g != 0
    ends = np.concatenate([np.abs(v[move]) for v in (lo, hi, 0 * g)])
    kinks = np.concatenate([(ends + s * np.tile(mu[move], 3)) / np.tile(np.abs(g[move]), 3) for s in (1, -1)])
    kinks = np.unique(np.append(kinks[(kinks > 0) & np.isfinite(kinks)], 0.0))
    gains = np.array([g @ at(w) for w in kinks])
    i = int(np.searchsorted(gains, need))
    if i < len(kinks):
        a, b = kinks[i - 1], kinks[i]
        return cost(a + (need - gains[i - 1]) * (b - a) / (gains[i] - gains[i - 1]))
    slope = g @ at(kinks[-1] + 1) - gains[-1]
    return cost(kinks[-1] + (need - gains[-1]) / slope) if slope > 1e-12 else math.inf


def multiples(lo, hi, step):
    """The floats nearest to the multiples of the decimal ``step`` in [lo, hi]."""
    exact = Fraction(step).limit_denominator(1000)
    first, last = (Fraction(v).limit_denominator(10**6) / exact for v in (lo, hi))
    return [float(n * exact) for n in range(math.ceil(first), math.floor(last) + 1)]


class Small:
    """A random problem with two classes, small enough to enumerate: target 1, bounds on everything discrete."""

    def __init__(self, rng):
        singles, sizes = int(rng.integers(1, 5)), rng.integers(2, 4, size=rng.integers(0, 3))
        D = self.D = singles + int(sizes.sum())
        self.w = rng.normal(size=D) * 10 ** rng.uniform(-1, 1, size=D)
        self.b = float(rng.normal() * 2)
        self.step, self.lo, self.hi = np.zeros(D), np.full(D, -np.inf), np.full(D, np.inf)
        self.source, self.frozen = rng.normal(size=D) * 3, np.zeros(D, dtype=bool)
        for d in range(singles):
            kind = rng.integers(4)
            step = float(rng.choice([0.1, 0.3, 0.05, 2.5, 7.0, 50.0])) if kind == 2 else 1.0
            base, (below, above) = float(rng.integers(-5, 6)) * step, (rng.integers(1, 7, size=2) * step).tolist()
            self.w[d] /= step
            if kind == 0:
                continue
            off = float(rng.choice([0, 0, 0.3])) * step if kind < 3 else 0.0
            self.lo[d], self.hi[d] = _decimal(base - below + off), _decimal(base + above + off)
            choices = [base, base + 0.4 * step, base + 3 * step, self.lo[d], self.lo[d] - 2 * step, self.hi[d] + step]
            self.source[d] = _decimal(float(rng.choice(choices)))
            if kind < 3:
                self.step[d] = step
            self.frozen[d] = rng.random() < 0.1 and self.lo[d] <= self.source[d] <= self.hi[d]
        self.groups, at = [], singles
        for size in sizes.tolist():
            group = list(range(at, at + size))
            self.groups.append(group)
            at += size
            self.source[group] = 0.0
            self.source[int(rng.choice(group))] = 1.0
            if rng.random() < 0.2:
                self.hi[int(rng.choice(group))] = 0.0
        self.c = 10 ** rng.uniform(-1, 1, size=D) if rng.random() < 0.6 else np.ones(D)
        self.mu = rng.exponential(size=D) * (rng.random(D) < 0.5) if rng.random() < 0.5 else np.zeros(D)
        self.n_items = singles + len(self.groups)
        self.max_changes = None if rng.random() < 0.5 else int(rng.integers(0, self.n_items + 1))
        self.prob = float(rng.choice([0.3, 0.5, 0.6, 0.9]))
        self.model = Model.binary(self.w, self.b)

    @property
    def options(self):
        ends = [[None if np.isinf(v) else float(v) for v in pair] for pair in zip(self.lo, self.hi, strict=True)]
        actions = Actions(
            frozen=np.flatnonzero(self.frozen).tolist(),
            bounds=dict(enumerate(ends)),
            integer=np.flatnonzero(self.step == 1).tolist(),
            step={d: self.step[d] for d in np.flatnonzero((self.step > 0) & (self.step != 1)).tolist()},
            one_of=self.groups,
        )
        return {"prob": self.prob, "cost": Cost(self.c, l1=self.mu), "actions": actions, "max_changes": self.max_changes}

    def best(self, *, need=None):
        """The least cost, infinite where there is none."""
        w, c, mu, source = self.w, self.c, self.mu, self.source
        if need is None:
            need = math.log(self.prob / (1 - self.prob)) - (w @ source + self.b)
        items, loose = [], []
        for d in set(range(self.D)) - {d for group in self.groups for d in group}:
            if self.step[d] and not self.frozen[d]:
                t = np.array([v - source[d] for v in multiples(self.lo[d], self.hi[d], self.step[d])]) * c[d]
                items.append([(w[d] / c[d] * v, 0.5 * v * v + mu[d] * abs(v), v != 0) for v in t])
            elif not self.frozen[d]:
                loose.append(d)
        for group in self.groups:
            options = []
            for one in group:
                if self.hi[one] < 1:
                    continue
                t = c[group] * ((np.array(group) == one) - source[group])
                options.append((w[group] / c[group] @ t, 0.5 * t @ t + mu[group] @ np.abs(t), t.any()))
            items.append(options)
        cap = self.n_items if self.max_changes is None else self.max_changes
        must = {d for d in loose if not self.lo[d] <= source[d] <= self.hi[d]}
        best = math.inf
        for combination in itertools.product(*items):
            gain, cost, moved = (sum(part) for part in zip((0.0, 0.0, 0), *combination, strict=True))
            if moved > cap or cost >= best:
                continue
            for free in itertools.combinations(loose, min(cap - moved, len(loose))):
                if must <= set(free):
                    f = np.array(free, dtype=int)
                    lo, hi = (self.lo - source)[f] * c[f], (self.hi - source)[f] * c[f]
                    best = min(best, cost + cheapest(need - gain, w[f] / c[f], mu[f], lo, hi))
        return best


def _decimal(value):
    return float(Fraction(value).limit_denominator(1000))


def assert_optimal(cf, best, model, prob):
    """Cost, bound and gap against the true optimum; the promise; and everything that verify recomputes."""
    assert cf.status == Status.EXACT
    assert cf.cost == pytest.approx(best, rel=SAME, abs=1e-13)
    assert cf.within.bound <= best * (1 + SAME) + 1e-13
    assert 0 <= cf.gap <= SAME * (1 + best)
    assert model.predict_proba(cf.x)[model.class_index(cf.target)] >= prob
    assert cf.verify().claim == "proved"


@pytest.mark.parametrize("seed", range(60))
def test_two_classes_against_enumeration(seed):
    """One by one, interpreted and compiled, and in a batch: the optimum, UNREACHABLE where there is none, or an error."""
    problem = Small(np.random.default_rng(seed))
    contradiction = math.isinf(problem.best(need=-math.inf))
    best = problem.best()
    answers = []
    for backend in BACKENDS:
        if contradiction:
            with pytest.raises(InputError, match=r"max_changes|no value|no such choice"):
                invert(problem.model, problem.source, 1, backend=backend, **problem.options)
        else:
            answers.append(invert(problem.model, problem.source, 1, backend=backend, **problem.options))
    batch = invert(problem.model, np.stack([problem.source] * 2), 1, **problem.options)
    if contradiction:
        assert (batch.status == Status.INVALID).all()
        return
    for cf in [*answers, *batch]:
        if math.isinf(best):
            assert cf.status == Status.UNREACHABLE
            assert cf.proba[1] <= cf.within.best_bound < problem.prob
            assert cf.verify().claim == "proved"
        else:
            assert_optimal(cf, best, problem.model, problem.prob)
    costs = [cf.cost for cf in [*answers, *batch]]
    assert max(costs) - min(costs) <= 1e-12 * max(costs)  # the same text, but compiled it may add in another order


# ---- two classes: HiGHS ----


def knapsack(rng, n):
    """Zero or one of each of n features: with a linear cost the hard label is a knapsack."""
    w = rng.integers(20, 100, size=n) / 7.0
    price = w * rng.uniform(0.9, 1.1, size=n)
    model = Model.binary(w, -float(w.sum()) / 2 - 0.01)
    return model, w, price


@pytest.mark.parametrize("n", [15, 40])
def test_knapsack_against_highs(n, rng):
    """Where a feature is 0 or 1, ½c²t² + μc|t| is linear in t: prices are what HiGHS minimises."""
    model, w, price = knapsack(rng, n)
    actions = Actions(integer=True, bounds=(0, 1), increase=True)
    cost = Cost(np.sqrt(price), l1=0.5 * np.sqrt(price))  # ½c² + μc = c² = price
    cf = invert(model, np.zeros(n), 1, cost=cost, actions=actions)
    need = float(w.sum()) / 2 + 0.01
    highs = milp(
        price, integrality=np.ones(n), bounds=(0, 1), constraints=LinearConstraint(w, need), options={"mip_rel_gap": 0}
    )
    assert cf.status == Status.EXACT
    assert cf.cost == pytest.approx(highs.fun, rel=SAME)
    assert set(cf.x) <= {0.0, 1.0}
    assert model.predict(cf.x) == 1
    assert cf.verify().claim == "proved"


@pytest.mark.parametrize("max_changes", [None, 4])
@pytest.mark.parametrize("seed", range(4))
def test_grids_and_groups_against_highs(seed, max_changes):
    """Each value of each feature as a binary variable with its price: any separable cost is linear in those."""
    rng = np.random.default_rng([seed, 7])
    singles, sizes = 12, [5, 8, 3]
    D = singles + sum(sizes)
    w, source = rng.normal(size=D), np.zeros(D)
    source[:singles] = rng.integers(2, 8, size=singles)
    steps = rng.choice([1.0, 0.1, 50.0], size=singles)
    w[:singles] /= steps
    source[:singles] *= steps
    source = np.array([_decimal(v) for v in source])
    groups = np.split(np.arange(singles, D), np.cumsum(sizes)[:-1])
    for group in groups:
        source[rng.choice(group)] = 1.0
    c = np.concatenate([rng.uniform(0.2, 2, size=singles) / steps, rng.uniform(0.2, 2, size=D - singles)])
    mu = rng.exponential(size=D) * 0.3
    b = float(-w @ source - rng.uniform(2, 5))
    model = Model.binary(w, b)
    actions = Actions(
        integer=np.flatnonzero(steps == 1).tolist(),
        step={d: steps[d] for d in np.flatnonzero(steps != 1).tolist()},
        bounds={d: (0, _decimal(10 * steps[d])) for d in range(singles)},
        one_of=[group.tolist() for group in groups],
    )
    cf = invert(model, source, 1, cost=Cost(c, l1=mu), actions=actions, max_changes=max_changes)
    gain, price, moves, item = [], [], [], []
    for d in range(singles):
        for n in range(11):
            t = (_decimal(n * steps[d]) - source[d]) * c[d]
            gain.append(w[d] / c[d] * t)
            price.append(0.5 * t * t + mu[d] * abs(t))
            moves.append(t != 0)
            item.append(d)
    for j, group in enumerate(groups):
        for one in group:
            t = ((group == one) - source[group]) * c[group]
            gain.append(w[group] / c[group] @ t)
            price.append(0.5 * t @ t + mu[group] @ np.abs(t))
            moves.append(t.any())
            item.append(singles + j)
    pick = (np.arange(singles + len(groups))[:, None] == np.array(item)).astype(float)
    rows = [LinearConstraint(np.array(gain), -(w @ source + b)), LinearConstraint(pick, 1, 1)]
    if max_changes is not None:
        rows.append(LinearConstraint(np.array(moves, dtype=float), -np.inf, max_changes))
    highs = milp(np.array(price), integrality=np.ones(len(gain)), bounds=(0, 1), constraints=rows, options={"mip_rel_gap": 0})
    if highs.x is None:
        assert cf.status == Status.UNREACHABLE
        return
    # HiGHS meets a constraint to 1e-6: it may be a little cheaper than what is truly possible, by w times that.
    assert cf.status == Status.EXACT
    assert cf.cost == pytest.approx(highs.fun, rel=1e-5)
    assert cf.cost >= highs.fun * (1 - 1e-5)
    assert cf.gap <= SAME * cf.cost
    assert cf.verify().claim == "proved"


# ---- more classes, rules, correlated features ----


class Points:
    """A random problem in which everything is discrete: all points, and what each is worth."""

    def __init__(self, rng, *, K, form, correlated=False, rules=0, max_changes=None):
        singles, sizes = 3, [3] if rng.random() < 0.7 else []
        D = singles + sum(sizes)
        steps = rng.choice([1.0, 1.0, 0.5, 50.0], size=singles)
        A, b = rng.normal(size=(K, D)), rng.normal(size=K)
        A[:, :singles] /= steps
        values = [
            steps[d] * np.arange(int(lo), int(lo) + int(rng.integers(3, 6))) for d, lo in enumerate(rng.integers(-3, 1, 3))
        ]
        source = np.zeros(D)
        source[:singles] = [rng.choice([v[0], v[1], v[-1], v[0] + 0.4 * s]) for v, s in zip(values, steps, strict=True)]
        groups = [list(range(singles, D))] if sizes else []
        for group in groups:
            source[int(rng.choice(group))] = 1.0
        combos = np.array(list(itertools.product(*values, *(range(len(g)) for g in groups))), dtype=float)
        X = np.zeros((len(combos), D))
        X[:, :singles] = combos[:, :singles]
        for j, group in enumerate(groups):
            X[np.arange(len(X)), np.array(group)[combos[:, singles + j].astype(int)]] = 1.0
        per = np.concatenate([1 / (2 * steps), np.ones(D - singles)])
        mu = rng.exponential(size=D) * 0.3 if rng.random() < 0.5 else np.zeros(D)
        if correlated:
            R = rng.normal(size=(D, D)) / math.sqrt(D)
            Q = per[:, None] * (R @ R.T + 0.5 * np.eye(D)) * per
            Q = 0.5 * (Q + Q.T)
            cost, per = Cost(matrix=Q, l1=mu), np.sqrt(np.diag(Q))
        else:
            Q, cost = np.diag(per**2), Cost(per, l1=mu)
        linear = []
        for _ in range(rules):  # whole coefficients: the sums are exact, and edges are met exactly, as in practice
            row = {d: float(rng.integers(1, 4)) for d in range(2)}
            at = X[rng.integers(len(X))]
            linear.append((row, str(rng.choice(["<=", ">="])), float(sum(v * at[d] for d, v in row.items()))))
        change = X - source
        square, sparse_ = np.einsum("nd,de,ne->n", change, Q, change), np.abs(change * per) @ mu
        allowed = np.ones(len(X), dtype=bool)
        for row, sense, rest in linear:
            value = sum(v * X[:, d] for d, v in row.items())
            allowed &= value <= rest if sense == "<=" else value >= rest
        if max_changes is not None:
            moved = (change[:, :singles] != 0).sum(axis=1) + sum((change[:, g] != 0).any(axis=1) for g in groups)
            allowed &= moved <= max_changes
        self.model, self.k, self.source = Model(A, b), int(rng.integers(K)), source
        z = X @ A.T + b
        self.log_p = z[:, self.k] - np.logaddexp.reduce(z, axis=1)
        self.allowed = allowed
        if "prob" in form:
            self.value = np.where(allowed & (self.log_p >= math.log(form["prob"])), 0.5 * square + sparse_, math.inf)
        else:
            self.value = np.where(allowed, 0.5 * form["lam"] * square + sparse_ - self.log_p, math.inf)
        actions = Actions(
            integer=np.flatnonzero(steps == 1).tolist(),
            step={d: steps[d] for d in np.flatnonzero(steps != 1).tolist()},
            bounds={d: (v[0], v[-1]) for d, v in enumerate(values)},
            one_of=groups,
            linear=linear,
        )
        self.options = {"cost": cost, "actions": actions, "max_changes": max_changes, **form}


FORMS = [{"lam": 0.02}, {"lam": 1.0}, {"prob": 0.5}, {"prob": 0.8}]


@pytest.mark.parametrize("max_changes", [None, 2])
@pytest.mark.parametrize("rules", [0, 1])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("K", [2, 3, 5])
def test_many_classes_against_enumeration(K, form, rules, max_changes, rng):
    for _ in range(2):
        assert_best_point(Points(rng, K=K, form=form, rules=rules, max_changes=max_changes))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("K", [2, 4])
def test_correlated_cost_against_enumeration(K, form, rng):
    for _ in range(2):
        assert_best_point(Points(rng, K=K, form=form, correlated=True))


def assert_best_point(problem):
    if not problem.allowed.any():
        with pytest.raises(InputError, match=r"contradict|max_changes"):
            invert(problem.model, problem.source, problem.k, **problem.options)
        return
    best = problem.value.min()
    cf = invert(problem.model, problem.source, problem.k, **problem.options)
    if math.isinf(best):
        most = math.exp(problem.log_p[problem.allowed].max())
        assert cf.status == Status.UNREACHABLE
        assert most * (1 - SAME) <= cf.within.best_bound < problem.options["prob"]
        assert cf.proba[problem.k] == pytest.approx(most, rel=1e-6)  # what is maximised is p less 1e-9 of the cost
        return
    assert cf.status == Status.EXACT
    found = cf.objective if cf.prob is None else cf.cost
    assert found == pytest.approx(best, rel=SAME, abs=1e-12)
    assert cf.within.bound <= best + SAME * (1 + abs(best))
    assert 0 <= cf.gap <= SAME * (1 + abs(best))
    assert cf.verify().claim == "proved"


@pytest.mark.parametrize("form", [{"lam": 0.05}, {"prob": 0.7}], ids=str)
@pytest.mark.parametrize("rule", [False, True])
def test_numbers_besides_whole_numbers_against_clarabel(form, rule, rng):
    """Two whole numbers, a category and three continuous features: all 27 choices, the rest by a conic solver."""
    K, D, k = 3, 7, 0
    A, b = rng.normal(size=(K, D)), rng.normal(size=K) - np.array([3.0, 0, 0])
    source = np.array([1.0, 0.3, 0.2, -0.4, 0.1, 0.0, 1.0])
    mu = np.array([0.1, 0.0, 0.2, 0.0, 0.1, 0.0, 0.0])
    linear = [({0: 1.0, 2: 1.0, 3: -1.0}, "<=", 2.0)] if rule else []
    actions = Actions(integer=[0, 1], bounds={0: (0, 2), 1: (-1, 1), 2: (-1, 1), 3: (0, None)}, one_of=[[5, 6]], linear=linear)
    cf = invert(Model(A, b), source, k, cost=Cost(np.ones(D), l1=mu), actions=actions, **form)
    x = cp.Variable(D)
    fixed = cp.Parameter(4)
    change = x - source
    cost, loss = 0.5 * cp.sum_squares(change), cp.log_sum_exp(A @ x + b) - (A[k] @ x + b[k])
    ell = mu @ cp.abs(change)
    limits = [x[[0, 1, 5, 6]] == fixed, x[2] >= -1, x[2] <= 1, x[3] >= 0]
    limits += [x[0] + x[2] - x[3] <= 2] if rule else []
    if "prob" in form:
        conic = cp.Problem(cp.Minimize(cost + ell), [*limits, loss <= -math.log(form["prob"])])
    else:
        conic = cp.Problem(cp.Minimize(form["lam"] * cost + ell + loss), limits)
    best = math.inf
    for i, j, one in itertools.product(range(3), range(-1, 2), range(2)):
        fixed.value = np.array([i, j, 1 - one, one], dtype=float)
        conic.solve(solver=cp.CLARABEL)
        best = min(best, math.inf if conic.value is None else float(conic.value))
    assert cf.status == Status.EXACT
    assert (cf.cost if cf.prob else cf.objective) == pytest.approx(best, rel=CONIC)
    assert cf.gap <= SAME * (1 + best)
    assert cf.verify().claim == "proved"


# ---- limits on the search ----


def hard(n=60):
    """A knapsack with nearly equal ratios: thousands of nodes to the proof."""
    model, _, price = knapsack(np.random.default_rng(5), n)
    cost = Cost(np.sqrt(price), l1=0.5 * np.sqrt(price))
    return model, {"cost": cost, "actions": Actions(integer=True, bounds=(0, 1), increase=True)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_node_limit_stops_with_a_true_bound(backend):
    model, options = hard(40)
    best = invert(model, np.zeros(40), 1, **options).cost
    for nodes in (1, 5, 50):
        cf = invert(model, np.zeros(40), 1, node_limit=nodes, backend=backend, **options)
        assert cf.status == Status.STOPPED
        assert cf.within.n_nodes <= 2 * nodes + 1  # every cut of one that was looked at, and the cases that are left
        assert cf.within.bound <= best * (1 + SAME) <= cf.cost * (1 + 2 * SAME)
        assert cf.gap == pytest.approx(cf.cost - cf.within.bound)
        assert cf.gap > 0
        assert model.predict(cf.x) == 1
        assert cf.verify().claim == "proved"


def test_node_limit_stops_with_many_classes(rng):
    A, b = rng.normal(size=(4, 12)), rng.normal(size=4)
    actions = Actions(integer=True, bounds=(-3, 3))
    source = rng.uniform(-3, 3, size=12)
    best = invert(Model(A, b), source, 2, prob=0.9, actions=actions)
    cf = invert(Model(A, b), source, 2, prob=0.9, actions=actions, node_limit=1)
    assert best.status == Status.EXACT
    assert best.within.n_nodes > 1
    assert cf.status == Status.STOPPED
    assert cf.within.bound <= best.cost * (1 + SAME)
    assert cf.cost >= best.cost * (1 - SAME)


def test_gap_stops_within_what_was_asked_for():
    model, options = hard(40)
    best = invert(model, np.zeros(40), 1, **options)
    rough = invert(model, np.zeros(40), 1, gap=0.05, **options)
    assert rough.status is Status.CONVERGED
    assert best.status is Status.EXACT
    assert rough.verify().claim == "proved"
    assert rough.within.n_nodes < best.within.n_nodes
    assert best.cost * (1 - SAME) <= rough.cost <= best.cost * 1.05


def test_no_time_limit_dice_226():
    """DiCE #226: no way to stop a long search. ``time_limit`` stops it, one by one and for each row of a batch."""
    model, options = hard(400)
    for source in (np.zeros(400), np.zeros((2, 400))):
        began = perf_counter()
        answer = invert(model, source, 1, time_limit=0.3, node_limit=10**9, **options)
        assert perf_counter() - began < 60  # without a limit it would be hours; compiling is not counted against the search
        for cf in [answer] if source.ndim == 1 else answer:
            assert cf.status in (Status.STOPPED, Status.EXACT)
            assert cf.cost - cf.gap == pytest.approx(cf.within.bound)


@pytest.mark.parametrize("form", [{"prob": 0.6}, {"lam": 0.1}], ids=str)
def test_the_same_answer_each_time_dice_206(form, rng):
    """DiCE #206: another answer each run."""
    model = Model(rng.normal(size=(3, 8)), rng.normal(size=3))
    source = rng.integers(-3, 4, size=8).astype(float)
    actions = Actions(integer=range(5), bounds=(-4, 4))
    first, second = (invert(model, source, 1, actions=actions, max_changes=3, **form) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    assert (first.cost, first.gap, first.within.n_nodes) == (second.cost, second.gap, second.within.n_nodes)


# ---- what users of other tools complain about ----


@cache
def credit():
    """(pipeline, frame, groups): German credit with one-hot columns, as a plain frame."""
    raw = pd.read_csv(data_file("german", "german_credit.csv"))
    y = np.where(raw.pop("Class") == 1, "good", "bad")
    names = [name for name in raw if raw[name].dtype.kind not in "if"]
    X = pd.get_dummies(raw, columns=names, dtype=float).astype(float)
    groups = {name: [c for c in X if c.startswith(f"{name}_")] for name in names}
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y), X, groups


def credit_actions(groups, **more):
    return Actions(
        frozen=[*groups["Sex"], *groups["ForeignWorker"], "NumDependents"],
        increase=["Age"],
        integer=["Duration", "InstallmentRate", "Age", "ResidenceSince", "CreditsAtBank"],
        step={"CreditAmount": 50},
        bounds={"Duration": (4, 72), "CreditAmount": (250, 20_000), "InstallmentRate": (1, 4), "Age": (18, 80)},
        one_of=list(groups.values()),
        **more,
    )


def test_rounding_does_not_flip_the_label_back_dice_473():
    """DiCE #473: an answer rounded to what is possible is no answer any more. Here the label is that of the rounded one."""
    estimator, X, groups = credit()
    refused = X[estimator.predict(X) == "bad"]
    for prob in (0.5, 0.7):
        cfs = invert(estimator, refused, "good", prob=prob, actions=credit_actions(groups))
        assert (cfs.status == Status.EXACT).all()
        x = cfs.to_frame()
        assert (estimator.predict(x) == "good").all()
        assert (estimator.predict_proba(x)[:, 1] >= prob).all()
        whole = x[["Duration", "InstallmentRate", "Age", "ResidenceSince", "CreditsAtBank"]].to_numpy()
        np.testing.assert_array_equal(whole, np.rint(whole))
        assert (x["CreditAmount"] % 50 == 0).all()
        assert x["Duration"].between(4, 72).all()
        assert (x["Age"].to_numpy() >= refused["Age"].to_numpy()).all()
        np.testing.assert_array_equal(x[groups["Sex"]], refused[groups["Sex"]])


def test_categories_stay_in_the_data_dice_185():
    """DiCE #185: categories that do not exist."""
    estimator, X, groups = credit()
    refused = X[estimator.predict(X) == "bad"]
    cfs = invert(estimator, refused, "good", actions=credit_actions(groups))
    x = cfs.to_frame()
    for group in groups.values():
        np.testing.assert_array_equal(np.sort(x[group].to_numpy(), axis=1)[:, -1], 1.0)
        np.testing.assert_array_equal(x[group].to_numpy().sum(axis=1), 1.0)
        assert set(np.unique(x[group])) <= {0.0, 1.0}


def test_few_nodes_for_a_credit_table_dice_258():
    """DiCE #258, #218: hours for a few rows. Proved optima take this many nodes, each some microseconds."""
    estimator, X, groups = credit()
    refused = X[estimator.predict(X) == "bad"]
    cfs = invert(estimator, refused, "good", actions=credit_actions(groups))
    nodes = np.array([cf.within.n_nodes for cf in cfs])
    assert np.median(nodes) <= 30
    assert nodes.max() <= 1000


def test_weights_have_an_effect_dice_443():
    """DiCE #443: feature weights change nothing. A dear feature moves less, and what is dear enough does not move."""
    model = Model.binary([1.0, 1.0], 0.0)
    actions = Actions(integer=True)
    assert invert(model, [-5.0, -5.0], 1, cost=Cost({0: 5.0}), actions=actions).delta.tolist() == [0.0, 11.0]
    assert invert(model, [-5.0, -5.0], 1, cost=Cost({1: 5.0}), actions=actions).delta.tolist() == [11.0, 0.0]


def test_rules_between_whole_numbers_dice_426():
    """DiCE #426, #166: relations between features ignored. The edge of a rule is allowed, beyond it nothing is."""
    model = Model.binary([1.0, 1.0], -12.0, feature_names=["work", "study"])

    def within(hours):
        return Actions(integer=True, bounds=(0, 9), linear=[({"work": 1, "study": 1}, "<=", hours)])

    assert invert(model, [4.0, 4.0], 1, actions=within(13)).x.sum() == 13  # 12 is p = 0.5 exactly, which no estimator calls 1
    edge = invert(model, [4.0, 4.0], 1, actions=within(12))  # … and yet the 0.5 that was asked for
    assert (edge.status, edge.proba[1], edge.x.sum()) == (Status.EXACT, 0.5, 12)
    edge.verify(exact=True)
    assert invert(model, [4.0, 4.0], 1, actions=within(11)).status == Status.UNREACHABLE


def test_a_grid_point_that_the_relaxation_just_misses():
    """The relaxed answer is a whole number but for 1e-12, and that whole number is not enough: the next one is."""
    model = Model([[1.0], [0.0], [-1.0]], [0.0, 0.0, 0.0])
    p = float(model.predict_proba(np.array([3.0]))[0])
    for prob, x in ((p - 1e-12, 3.0), (p + 1e-12, 4.0)):
        cf = invert(model, [-2.0], 0, prob=prob, actions=Actions(integer=[0], bounds=(-5, 9)))
        assert (cf.status, cf.x[0]) == (Status.EXACT, x)


# ---- grids ----


def test_multiples_are_decimals():
    """Seven steps of 0.1 are 0.7; a source of 0.7 is on the grid and can stay."""
    model = Model.binary([1.0, 1.0], -2.0)
    cf = invert(model, [0.7, 0.0], 1, actions=Actions(step={0: 0.1}, bounds={0: (0, 0.9)}), max_changes=1)
    assert cf.x[0] in (0.7, 0.9)
    assert cf.n_changes == 1
    grid = Actions(step={0: 0.1, 1: 0.3}, bounds={0: (0, 1.3), 1: (0, 0.9)})
    cf = invert(model, [0.0, 0.0], 1, actions=grid)
    assert cf.x.tolist() in ([1.3, 0.9], [1.2, 0.9])
    assert cf.verify().claim == "proved"


def test_a_source_off_the_grid_by_rounding_can_stay():
    model = Model.binary([1.0, 0.001], -2.0)
    source = [3 * 0.1 + 1.0, 0.1 + 0.2]  # 0.30000000000000004
    cf = invert(model, source, 1, actions=Actions(step={1: 0.1}), max_changes=1)
    assert cf.x[1] == source[1]
    assert cf.verify().claim == "proved"


@pytest.mark.parametrize("prob", [0.5, 0.9])
def test_unbounded_grids(prob, rng):
    """No bounds: the search finds the range by itself; a source off the grid, and steps of 50."""
    model = Model.binary([0.01, -0.02, 1.0], -1.0)
    source = np.array([33.0, 17.0, 0.5])
    cf = invert(
        model, source, 1, prob=prob, cost=Cost([0.01, 0.01, 1.0]), actions=Actions(step={0: 50.0, 1: 50.0}, integer=[2])
    )
    need = math.log(prob / (1 - prob))
    x = np.array(list(itertools.product(np.arange(-10, 11) * 50.0, np.arange(-10, 11) * 50.0, np.arange(-10, 11))))
    costs = 0.5 * np.square((x - source) * [0.01, 0.01, 1.0]).sum(axis=1)
    best = costs[x @ [0.01, -0.02, 1.0] - 1.0 > need + 1e-12].min()
    assert cf.cost == pytest.approx(best, rel=1e-12)


# ---- batches ----


def table(rng, N=60):
    """A model with names, and sources of all kinds: some there already, some outside their bounds or off the grid."""
    D = 9
    names = [f"f{d}" for d in range(6)] + ["a", "b", "c"]
    model = Model.binary(rng.normal(size=D), 0.3, classes=["no", "yes"], feature_names=names)
    X = np.round(rng.normal(size=(N, D)) * 2, 1)
    X[: N // 2] = np.clip(np.round(X[: N // 2]), -1, 1)
    X[:, 6:] = np.eye(3)[rng.integers(3, size=N)]
    actions = Actions(
        frozen=["f0"],
        integer=["f1", "f2"],
        step={"f3": 0.5},
        bounds={"f1": (-3, 3), "f2": (-3, 3), "f3": (-2, 2), "f4": (-1, 1), "f5": (-1, 1)},
        one_of=[["a", "b", "c"]],
    )
    return model, X, actions


@pytest.mark.parametrize("max_changes", [None, 2])
@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_batch_equals_row_by_row(l1, max_changes, rng):
    model, X, actions = table(rng)
    X[7, 2] = np.nan
    X[8, 6:] = 1.0
    targets = rng.choice(["no", "yes"], size=len(X))
    prob = rng.choice([0.2, 0.5, 0.9, 0.9999], size=len(X))
    options = {"cost": Cost("raw", l1=l1), "actions": actions, "max_changes": max_changes}
    cfs = invert(model, X, targets, prob=prob, **options)
    kinds = set()
    for n, cf in enumerate(cfs):
        try:
            one = invert(model, X[n], targets[n], prob=prob[n], **options)
        except InputError:
            assert cf.status == Status.INVALID
            assert np.isnan(cf.x).all()
            continue
        kinds.add((one.status, one.cost == 0))
        assert cf.status == one.status
        assert cf.cost == pytest.approx(one.cost, rel=1e-12, abs=1e-15)
        np.testing.assert_allclose(cf.x, one.x, rtol=0, atol=1e-9)
        assert cf.verify().claim == "proved"
    assert kinds >= {(Status.EXACT, True), (Status.EXACT, False), (Status.UNREACHABLE, False)}


@pytest.mark.parametrize("target", [None, "opposite", "other"])
def test_batch_towards_the_other_class(target, rng):
    model, X, actions = table(rng)
    cfs = invert(model, X, target, actions=actions)
    now = model.predict(X)
    assert (cfs.target != now).all()
    reached = cfs.status == Status.EXACT
    assert reached.sum() > 20
    assert (model.predict(cfs.x[reached]) != now[reached]).all()
    for n in range(0, len(X), 7):
        assert cfs[n].cost == pytest.approx(invert(model, X[n], target, actions=actions).cost, rel=1e-12)


def test_batch_towards_all_classes(rng):
    model, X, actions = table(rng, 10)
    cfs = invert(model, X, "all", actions=actions)
    assert len(cfs) == 20
    assert cfs.target.tolist() == ["no", "yes"] * 10


def test_batch_of_many_classes_equals_row_by_row(rng):
    model = Model(rng.normal(size=(3, 5)), rng.normal(size=3))
    X = rng.normal(size=(6, 5))
    X[2] = np.inf
    actions = Actions(integer=[0, 1], bounds=(-3, 3))
    for form in ({"prob": 0.7}, {"lam": 0.1}):
        cfs = invert(model, X, None, actions=actions, **form)
        assert cfs.status[2] == Status.INVALID
        for n in (0, 1, 3, 4, 5):
            one = invert(model, X[n], None, actions=actions, **form)
            assert cfs[n].target == one.target
            np.testing.assert_array_equal(cfs[n].x, one.x)


def test_batch_into_a_given_array_on_one_thread_or_two(rng):
    model, X, actions = table(rng, 300)
    plain = invert(model, X, "yes", actions=actions, threads=1)
    out = np.full_like(X, 7.0)
    cfs = invert(model, X, "yes", actions=actions, threads=2, out=out)
    np.testing.assert_array_equal(cfs.x, out)
    np.testing.assert_array_equal(out, plain.x)
    np.testing.assert_array_equal(cfs.status, plain.status)


@pytest.mark.parametrize("kind", [np.float32, sparse.csr_array, pd.DataFrame])
def test_batch_from_other_tables(kind, rng):
    model, X, actions = table(rng)
    X, names = np.round(X), list(model.feature_names or ())  # the same in float32
    make = {np.float32: np.float32, sparse.csr_array: sparse.csr_array, pd.DataFrame: partial(pd.DataFrame, columns=names)}
    cfs = invert(model, make[kind](X), "yes", actions=actions)
    same = invert(model, X, "yes", actions=actions)
    np.testing.assert_array_equal(cfs.x, same.x)
    np.testing.assert_array_equal(cfs.status, same.status)


def test_unreachable_rows_among_others_with_two_groups(rng):
    """An unreachable row of a batch with several groups has an answer like any other: the best there is."""
    model = Model.binary([5.0, 0.0, 1.0, 0.0, 0.1], -7.0)
    X = np.array([[0, 1, 0, 1, 0.0], [0, 1, 0, 1, 30.0], [0, 1, 1, 0, 0.0]])
    cfs = invert(model, X, 1, actions=Actions(one_of=[[0, 1], [2, 3]], frozen=[4]))
    assert cfs.status.tolist() == [Status.UNREACHABLE, Status.EXACT, Status.UNREACHABLE]
    np.testing.assert_array_equal(cfs.x[0], [1, 0, 1, 0, 0])
    assert cfs[0].within.best_bound < 0.5


# ---- properties ----


seeds = st.integers(0, 2**31)


def some(seed):
    rng = np.random.default_rng(seed)
    D = 6
    model = Model.binary(rng.normal(size=D), -abs(float(rng.normal())) * 3)
    source = np.round(rng.normal(size=D), 1)
    source[:4] = np.clip(np.rint(source[:4]), -2, 2)
    return rng, model, source, {"integer": [0, 1, 2], "bounds": {0: (-3, 3), 1: (-3, 3), 2: (-3, 3), 3: (-2, 2)}}


@given(seeds)
@settings(max_examples=40)
def test_a_tighter_limit_never_costs_less(seed):
    rng, model, source, kinds = some(seed)
    wide = invert(model, source, 1, actions=Actions(**kinds))
    d = int(rng.integers(4))
    low, high = kinds["bounds"][d]
    tight = kinds | {"bounds": kinds["bounds"] | {d: (low + 1, high - 1)}}
    for options in ({"actions": Actions(**tight)}, {"actions": Actions(**kinds), "max_changes": 3}):
        cf = invert(model, source, 1, **options)
        if cf.status == Status.EXACT:
            assert cf.cost >= wide.cost * (1 - SAME)
        else:
            assert cf.status == Status.UNREACHABLE


@given(seeds)
@settings(max_examples=40)
def test_as_many_changes_as_features_is_no_limit(seed):
    _, model, source, kinds = some(seed)
    free, capped = (invert(model, source, 1, actions=Actions(**kinds), max_changes=m) for m in (None, 6))
    assert free.status == capped.status
    assert capped.cost == pytest.approx(free.cost, rel=1e-12)


@given(seeds)
@settings(max_examples=40)
def test_the_order_of_features_does_not_matter(seed):
    rng, model, source, kinds = some(seed)
    order = rng.permutation(6)
    back = np.argsort(order)
    other = Model(model.A[:, order], model.b)
    moved = {"integer": back[kinds["integer"]].tolist(), "bounds": {int(back[d]): v for d, v in kinds["bounds"].items()}}
    for changes in (None, 2):
        a = invert(model, source, 1, actions=Actions(**kinds), max_changes=changes)
        b = invert(other, source[order], 1, actions=Actions(**moved), max_changes=changes)
        assert a.status == b.status
        assert b.cost == pytest.approx(a.cost, rel=1e-9, abs=1e-12)


@given(seeds)
@settings(max_examples=25)
def test_freezing_what_did_not_move_changes_nothing(seed):
    _, model, source, kinds = some(seed)
    cf = invert(model, source, 1, actions=Actions(**kinds), max_changes=3)
    still = np.flatnonzero(cf.x == source).tolist()
    again = invert(model, source, 1, actions=Actions(**kinds, frozen=still), max_changes=3)
    assert again.status == cf.status
    if cf.status == Status.EXACT:
        assert again.cost == pytest.approx(cf.cost, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("K", [3, 10])
def test_the_first_node_has_an_answer_that_is_near_the_best(K, rng):
    """The relaxed solution, rounded to the side on which the goal is: without, the best was a thousand times as dear."""
    for _ in range(5):
        model, x = Model(rng.normal(size=(K, 20)), rng.normal(size=K)), rng.integers(-3, 4, 20).astype(float)
        k = int(model.predict([x])[0] + 1) % K
        cf = invert(model, x, k, prob=0.9, actions=Actions(integer=True), node_limit=1)
        assert cf.proba[k] >= 0.9
        assert cf.cost <= 10 * cf.bound


@pytest.mark.seconds
@pytest.mark.parametrize("seed", range(8))
def test_out_of_reach_with_a_matrix_and_absolute_changes_is_settled(seed):
    """The rows of ℓ1 terms have no room where cost does not count; the best point is found, not two numbers at the limit."""
    rng = np.random.default_rng([seed, 9])
    model, x = Model(rng.normal(size=(4, 5)), rng.normal(size=4)), rng.normal(size=5).round(1)
    root = rng.normal(size=(5, 5))
    x[:2] = x[:2].round()
    actions = Actions(integer=[0, 1], bounds={d: (x[d] - 1, x[d] + 1) for d in range(5)})
    cost, target = Cost(matrix=root @ root.T + np.eye(5), l1=0.3), int(model.logits(x).argmin())
    cf = invert(model, x, target, prob=0.999999, cost=cost, actions=actions, time_limit=30.0)  # it takes one at most
    assert cf.status is Status.UNREACHABLE
    assert "the best is" in cf.message
    cf.verify()


@pytest.mark.parametrize("goal", [{"prob": 0.9}, {"margin": 2.0}])
def test_a_rule_that_the_source_keeps_but_for_a_rounding(goal):
    """0.1·3 ≤ 0.3, and not of floats: who may change one thing only is not to spend it on that."""
    model, x = Model([[0.0, 0.0], [0.0, 0.3], [0.0, 0.4]], [0.0, 0.5, 1.0]), np.array([3.0, 1.0])
    actions = Actions(integer=[1], linear=[({0: 0.1}, "<=", 0.3)])
    one = invert(model, x, 0, **goal, actions=actions, max_changes=1, node_limit=500)
    assert one.status is Status.EXACT
    assert one.x[0] == 3.0
    assert one.x[1] == round(one.x[1]) < 0
    assert one.verify().claim == "proved"
    more = invert(model, x, 0, **goal, actions=actions)  # who may change both keeps it to the last bit
    assert 0.1 * more.x[0] <= 0.3
    assert more.x[1] == one.x[1]
