"""The bounds that multipliers prove: below the least of all listed points, tight at the optimum's own, rounding allowed for."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from helpers.conic import Conic
from helpers.enumerated import MAKERS, Listed, a_goal, a_listed, drawn, in_fractions
from helpers.limited_problems import COSTS, Asked, a_cost, an_asked

from ifonly import Actions, CertificateError, Cost, Model
from ifonly.problem.choices import Choices
from ifonly.problem.conditions import Conditions
from ifonly.problem.dual import Dual, Goal
from ifonly.problem.exactly import DIGITS, log_within
from ifonly.problem.goals import Weights
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.proof import MOVES, STAYS, Cut, Multipliers, Node

TOLERANCES = {
    "listed": 1e-11,  # relative to 1 + |value|: values of listed points in float64
    "conic": 2e-6,  # relative to 1 + |value|: Clarabel at its default accuracy of 1e-8, on badly scaled cones
    "conic goal": 1e-5,  # the same for a least cost, which moves by 1/λ times as much as the goal
    "tight": 1e-4,  # a bound from the optimum's own multipliers, which Clarabel knows to some 1e-6
    "rounding": 1e-9,  # relative to 1 + |value|: what the allowance for rounding may cost
}
SEEDS = range(30)


def some_multipliers(rng, dual: Dual, *, reach: bool = False) -> Multipliers:
    """Any that may be: y ≥ 0 (with λ, of sum 1 at most), ν ≥ 0 but of equations, any Δ°."""
    n, equal = len(dual.margins), dual.problem.conditions.limits.equal
    y = rng.dirichlet(np.full(n + 1, rng.choice([0.1, 1.0, 10.0])))[:n] * (1 - 1e-15)
    if dual.goal.lam is None and not reach:
        y = y * 10 ** rng.uniform(-2, 2)
    y[rng.random(n) < 0.1] = 0.0
    nu = rng.normal(size=len(equal)) * rng.choice([0.0, 0.3, 3.0])
    at = rng.normal(size=len(dual.source)) * rng.choice([0.0, 1.0]) if dual.R is not None else None
    return Multipliers(y, np.where(equal, nu, np.abs(nu)), at)


def some_node(rng, listed: Listed, choices: Choices) -> Node:
    """The root, or one a few cuts below."""
    node = choices.root
    for _ in range(int(rng.integers(0, 5))):
        cut = listed.a_cut(rng, node)
        if cut is not None:
            node = choices.cut(node, cut)[int(rng.integers(2))]
    return node


def some_duals(kind: str, *seed: int, n: int) -> Iterator[tuple[np.random.Generator, Listed, Dual, Node]]:
    """Goals and nodes of one problem."""
    rng, listed = drawn(kind, *seed)
    choices = Choices(listed.problem.conditions, listed.problem.source)
    for _ in range(n):
        goal, node = a_goal(rng, listed), some_node(rng, listed, choices)
        yield rng, listed, Dual(listed.problem, goal, choices), node


def tuned(dual: Dual, node: Node, listed: Listed) -> Multipliers:
    """Good multipliers: the probabilities at the best point of a node, a few times over."""
    inside = listed.within(node)
    best = listed.points[inside][listed.worth(dual.goal)[inside].argmin()] if inside.any() else listed.problem.source
    p = listed.problem.proba(best)[0][listed.problem.rivals] * (1 - 1e-15)
    at = None if dual.R is None else best - listed.problem.source
    return Multipliers(p, np.zeros(len(dual.over)), at)


# ---- against lists of all points ----


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_listed_point_is_below_a_bound(kind, seed):
    for rng, listed, dual, node in some_duals(kind, seed, 31, n=6):
        least = listed.least(node, dual.goal)
        if dual.empty(node):
            assert not listed.within(node).any()
            continue
        slack = TOLERANCES["listed"] * (1 + abs(least))
        for given in [*(some_multipliers(rng, dual) for _ in range(6)), tuned(dual, node, listed)]:
            assert dual.bound(node, given).value <= least + slack


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_where_the_goal_is_said_to_be_missed_no_listed_point_meets_it(kind, seed):
    """And each of them misses it by what is said at least."""
    for rng, listed, dual, node in some_duals(kind, seed, 32, n=12):
        goal = dual.goal
        if goal.lam is not None or dual.empty(node):
            continue
        inside = listed.within(node)
        nearest = float(listed.missed(goal)[inside].min(initial=math.inf))
        for given in [some_multipliers(rng, dual, reach=True) for _ in range(6)] + [tuned(dual, node, listed)]:
            found, w = dual.bound(node, given, reach=True).value, float(given.y.sum())
            assert found <= w * nearest + TOLERANCES["listed"] if w > 0 or math.isfinite(nearest) else True
            if found > 0:
                assert math.isinf(listed.least(node, goal))
                assert w == 0 or found / w <= nearest + TOLERANCES["listed"] * (1 + abs(nearest))


def test_bounds_are_worth_something():
    """Bounds of −1e9 are below everything: of random multipliers the best come near, and some say that a goal is missed."""
    near = missed = 0
    for seed in SEEDS:
        rng = np.random.default_rng([seed, 33])
        listed = a_listed(rng)
        if not len(listed.points):
            continue
        dual = Dual(listed.problem, Goal(lam=0.5))
        least = listed.least(dual.choices.root, dual.goal)
        near += dual.bound(dual.choices.root, tuned(dual, dual.choices.root, listed)).value >= least - 0.5 * (1 + abs(least))
        goal = Goal(top=float(np.logaddexp.reduce(listed.margins, axis=1).min()) - 1.0)
        dual = Dual(listed.problem, goal)
        missed += dual.bound(dual.choices.root, tuned(dual, dual.choices.root, listed), reach=True).value > 0
    assert near > len(SEEDS) // 2
    assert missed > len(SEEDS) // 4


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(15))
def test_a_node_of_one_point_is_worth_what_the_point_is(kind, seed):
    """With the point's own probabilities Gibbs' inequality is an equation, and with its own Δ° the matrix's is."""
    rng, listed = drawn(kind, seed, 34)
    dual = Dual(listed.problem, Goal(lam=float(10 ** rng.uniform(-2, 1))))
    root = dual.choices.root
    for x in listed.points[rng.permutation(len(listed.points))[:4]]:
        given = tuned(dual, root, replace(listed, points=x[None]))
        node = Node(x, x, np.where(replace(listed, points=x[None]).changed[0], MOVES, STAYS).astype(np.int8))
        found = dual.bound(node, given)
        worth = float(replace(listed, points=x[None]).worth(dual.goal)[0])
        assert found.value == pytest.approx(worth, rel=1e-10, abs=1e-12)
        np.testing.assert_allclose(found.x, x, atol=1e-12)


# ---- in fractions ----


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_bound_in_floats_is_below_that_in_fractions_which_is_below_the_truth(kind, seed):
    for rng, listed, rough, node in some_duals(kind, seed, 35, n=2):
        goal, fine = rough.goal, in_fractions(listed.problem, rough.goal)
        assert rough.empty(node) == fine.empty(node)
        if rough.empty(node):
            continue
        least = listed.least(node, goal)
        for reach in (False, True) if goal.lam is None else (False,):
            given = some_multipliers(rng, rough, reach=reach)
            low, high = rough.bound(node, given, reach=reach).value, fine.bound(node, given, reach=reach)
            assert isinstance(high, Fraction)
            assert Fraction(low) <= high
            assert low >= float(high) - TOLERANCES["rounding"] * (1 + abs(float(high)))
            if not reach and math.isfinite(least):
                best = listed.points[listed.within(node)]
                best = best[listed.worth(goal)[listed.within(node)].argmin()]
                with mp.workdps(DIGITS):
                    assert mp.mpf(high.numerator) / high.denominator <= listed.in_digits(best, goal)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8, 1e15])
@pytest.mark.parametrize("seed", range(6))
def test_rounding_is_allowed_for_at_any_size(seed, size):
    """Large weights, far sources and options that must be left: a float bound above the exact one proves too much."""
    rng = np.random.default_rng([seed, 36])
    K, D = int(rng.integers(2, 5)), 6
    model = Model(rng.normal(size=(K, D)) * size + rng.choice([0.0, 1e6]), rng.normal(size=K) * size)
    source = np.append(rng.normal(size=3) * 10 ** rng.uniform(-3, 6), [1.0, 0.0, 0.0])
    actions = Actions(one_of=[[3, 4, 5]], bounds={0: (source[0] - 1, source[0] + 2)}, frozen=[1])
    problem = LimitedProblem(Conditions(model, a_cost(rng, D, str(rng.choice(COSTS))) or Cost(), actions), source, 0)
    for goal in (Goal(lam=0.3), Goal(top=float(rng.normal())), Goal(margin=0.5)):
        rough, fine = Dual(problem, goal), in_fractions(problem, goal)
        for node in (rough.choices.root, rough.choices.cut(rough.choices.root, Cut("option", 0, options=(0,)))[1]):
            for reach in (False, True) if goal.lam is None else (False,):
                given = some_multipliers(rng, rough, reach=reach)
                assert Fraction(rough.bound(node, given, reach=reach).value) <= fine.bound(node, given, reach=reach)


def test_an_option_that_must_be_left_has_its_rounding_allowed_for():
    """The relaxed columns of a group may stay where they are while its options all cost something."""
    rng = np.random.default_rng(37)
    for _ in range(300):
        model = Model(rng.normal(size=(2, 2)), np.zeros(2))
        source = np.array([1.0, 0.0])
        problem = LimitedProblem(Conditions(model, Cost(rng.uniform(0.1, 3, 2), l1=3.0), Actions(one_of=[[0, 1]])), source, 0)
        goal = Goal(margin=float(problem.margins(source)[0]) * -1.0)
        rough, fine = Dual(problem, goal), in_fractions(problem, goal)
        node = rough.choices.cut(rough.choices.root, Cut("option", 0, options=(0,)))[1]
        given = Multipliers(rng.uniform(0, 1, 1), np.zeros(0))
        assert Fraction(rough.bound(node, given).value) <= fine.bound(node, given)


def in_digits(problem: LimitedProblem, y, nu, lam: float):
    """The bound with λ in 50 digits, from its theorem; separable costs and nothing discrete."""
    conditions, model, limits = problem.conditions, problem.model, problem.conditions.limits
    (lo, hi), k = problem.box, problem.k
    with mp.workdps(50):
        num = lambda v: mp.mpf(float(v))  # noqa: E731
        q = [num(v) for v in y]
        rest = 1 - mp.fsum(q)
        nu = [num(v) for v in nu]
        source = [num(v) for v in problem.source]
        row = lambda j, d: num(model.A[j, d]) / (1 if model.scaling is None else num(model.scaling.scale[d]))  # noqa: E731
        seen = lambda d: source[d] - (0 if model.scaling is None else num(model.scaling.shift[d]))  # noqa: E731
        D = len(source)
        value = -mp.fsum(v * mp.log(v) for v in [*q, rest] if v > 0)
        for v, j in zip(q, problem.rivals, strict=True):
            s = mp.fsum((row(j, d) - row(k, d)) * seen(d) for d in range(D)) + num(model.b[j]) - num(model.b[k])
            value += v * s
        value -= mp.fsum(
            nu[i] * (num(limits.rest[i]) - mp.fsum(num(limits.C[i, d]) * source[d] for d in range(D))) for i in range(len(nu))
        )
        for d in range(D):
            c, mu = num(conditions.per_unit[d]), num(conditions.mu[d])
            slope = mp.fsum(nu[i] * num(limits.C[i, d]) for i in range(len(nu)))
            slope += mp.fsum(v * (row(j, d) - row(k, d)) for v, j in zip(q, problem.rivals, strict=True))
            at = -mp.sign(slope) * max(abs(slope) - mu * c, 0) / (lam * c**2)
            at = min(max(at, mp.mpf(float(lo[d])) - source[d]), mp.mpf(float(hi[d])) - source[d])
            value += lam * c**2 * at**2 / 2 + mu * c * abs(at) + slope * at
        return value


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_allows_for_its_own_rounding(seed):
    rng = np.random.default_rng([seed, 7])
    asked = an_asked(rng)
    kind = str(rng.choice(["plain", "scale", "l1", "both"]))
    problem = problem_of(replace(asked, margin=None, cost=a_cost(rng, asked.model.n_features, kind)))
    lam = float(10 ** rng.uniform(-2, 1))
    dual = Dual(problem, Goal(lam=lam))
    given = some_multipliers(rng, dual)
    exact, found = in_digits(problem, given.y, given.nu, lam), dual.bound(dual.choices.root, given).value
    assert found <= exact
    assert found >= float(exact) - TOLERANCES["rounding"] * (1 + abs(float(exact)))  # and not for much more


@pytest.mark.parametrize("exponent", [-1074, -1000, -300, -53, -1, 1, 53, 300, 1000, 1023])
def test_logarithms_are_enclosed(exponent):
    """Of numbers of any size, next to 1, and of ratios that no float has."""
    two = Fraction(2) ** exponent
    for v in (two, two * Fraction(3, 7), 1 + two, 1 / (1 + two), two**3, Fraction(float(two)) / 3):
        low, high = log_within(v)
        with mp.workdps(3 * DIGITS + 700):  # 1 + 2⁻¹⁰⁷⁴ has more digits than that of its logarithm
            exact = mp.log(mp.mpf(v.numerator) / mp.mpf(v.denominator))
            assert mp.mpf(low.numerator) / low.denominator <= exact <= mp.mpf(high.numerator) / high.denominator
            assert float(high - low) <= 1e-50 * (1 + abs(float(exact)))


# ---- against a conic solver ----


def problem_of(asked: Asked) -> LimitedProblem:
    return LimitedProblem(asked.conditions or Conditions(asked.model), asked.source, asked.k)


def asked_goal(asked: Asked) -> Goal:
    if asked.lam is not None:
        return Goal(lam=asked.lam)
    return Goal(margin=asked.margin) if asked.prob is None else Goal(top=math.log((1 - asked.prob) / asked.prob))


@pytest.mark.parametrize("seed", SEEDS)
def test_of_continuous_problems_bounds_are_below_the_optimum(seed):
    rng, least = np.random.default_rng([seed, 2]), None
    while least is None:  # until limits and goal leave a point
        asked = an_asked(rng)
        conic = Conic(problem_of(asked))
        if asked.prob is None:
            least = conic.least(Weights.of_cost() if asked.lam is None else Weights.given(asked.lam))
        else:
            least = conic.least_cost(asked.prob)
    slack = TOLERANCES["conic" if asked.prob is None else "conic goal"]
    dual = Dual(problem_of(asked), asked_goal(asked))
    for _ in range(10):
        assert dual.bound(dual.choices.root, some_multipliers(rng, dual)).value <= least + slack * (1 + abs(least))


@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("seed", range(6))
def test_a_bound_is_tight_at_the_optimums_own_multipliers(kind, seed):
    rng = np.random.default_rng([seed, 3])
    asked = an_asked(rng, rules=False)
    asked = replace(asked, cost=a_cost(rng, asked.model.n_features, kind), lam=0.3, prob=None, margin=None)
    problem, conic = problem_of(asked), Conic(problem_of(asked))
    least = conic.least(Weights.given(0.3))
    change = np.clip(problem.source + conic.change.value, *problem.box) - problem.source
    q, _ = problem.proba(problem.source + change)
    dual = Dual(problem, Goal(lam=0.3))
    found = dual.bound(dual.choices.root, Multipliers(q[problem.rivals] * (1 - 1e-15), np.zeros(0), change))
    assert least - TOLERANCES["tight"] <= found.value <= least + TOLERANCES["conic"] * (1 + abs(least))


@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("seed", range(4))
def test_for_a_probability_a_bound_is_tight_at_the_optimums_own_multipliers(kind, seed):
    """Those are p/λ, with the λ of the goal: Clarabel's multiplier of −ln p ≤ −ln τ is 1/λ."""
    rng = np.random.default_rng([seed, 4])
    asked = an_asked(rng, rules=False)
    bounds = {d: (float(v - 2), float(v + 1)) for d, v in enumerate(asked.source)}
    cost = a_cost(rng, asked.model.n_features, kind)
    asked = replace(asked, cost=cost, prob=None, lam=1.0, margin=None, actions=Actions(bounds=bounds))
    problem, conic = problem_of(asked), Conic(problem_of(asked))
    prob = math.sqrt(float(problem.proba(problem.source)[0][problem.k]) * math.exp(-conic.least_loss()))
    least, weight = conic.least_cost_and_multiplier(prob)
    change = np.clip(problem.source + conic.change.value, *problem.box) - problem.source
    q, _ = problem.proba(problem.source + change)
    # −ln p ≤ −ln τ and ln Σe^s ≤ top are the same goal, with slopes of p and q = p/(1 − τ) at it: y = p·weight.
    dual = Dual(problem, Goal(top=math.log((1 - prob) / prob)))
    found = dual.bound(dual.choices.root, Multipliers(q[problem.rivals] * weight, np.zeros(0), change))
    assert least - TOLERANCES["tight"] * (1 + least) <= found.value <= least + TOLERANCES["conic goal"] * (1 + least)


@pytest.mark.parametrize("seed", range(30))
def test_no_probability_is_above_the_ceiling(seed):
    rng, least = np.random.default_rng([seed, 6]), None
    bounded = seed % 2 == 0
    while least is None:  # until there is a finite best point
        asked = replace(an_asked(rng), margin=None, cost=None)
        if bounded:
            bounds = {d: (float(v - 1), float(v + 0.5)) for d, v in enumerate(asked.source)}
            asked = replace(asked, actions=replace(asked.actions, bounds=bounds))
        problem = problem_of(asked)
        conic = Conic(problem)
        least = conic.least_loss()
    dual = Dual(problem, Goal(top=0.0))

    def ceiling(given: Multipliers) -> float:
        total = float(given.y.sum())  # without multipliers of rivals nothing is said of p
        return dual.goal.ceiling(dual.bound(dual.choices.root, given, reach=True).value / total) if total else 1.0

    for _ in range(5):
        assert ceiling(some_multipliers(rng, dual, reach=True)) >= math.exp(-least) - TOLERANCES["conic"]
    if bounded and not len(dual.over):
        q, _ = problem.proba(np.clip(problem.source + conic.change.value, *problem.box))
        assert ceiling(Multipliers(q[problem.rivals], np.zeros(0))) <= math.exp(-least) + TOLERANCES["tight"]


# ---- equations ----


@pytest.mark.parametrize("prover", [Dual, in_fractions])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_proved_holds_for_all_points_that_pass_for_keeping_an_equation(prover, seed):
    """An equation that is missed by less than counts leaves its points in, however large its multiplier is."""
    rng = np.random.default_rng(seed)
    A, source = rng.normal(size=(2, 2)), rng.normal(size=2) * 10 ** rng.uniform(-3, 6)
    model = Model(A, rng.normal(size=2) - A @ source)
    row = rng.choice([-1, 1], 2) * rng.uniform(0.1, 3.0, 2)
    limits = Actions(linear=[({0: row[0], 1: row[1]}, "==", float(row @ source))])
    problem = LimitedProblem(Conditions(model, actions=limits), source, 0)
    (spare,), root = problem.conditions.limits.spare(source), Choices(problem.conditions, source).root
    for part in (-0.9, -0.1, 0.1, 0.9):
        x = source + np.array([0.0, part * spare / row[1]])
        assert problem.broken(x) is None
        dual = prover(problem, Goal.of(None, float(problem.proba(x)[0][0]) * (1 - 1e-9), None))  # x meets it
        for nu in np.sign(part * row[1]) * 10.0 ** rng.uniform(-3, 20, 6):
            given = Multipliers(np.array([float(rng.choice([0.0, 1.0]))]), np.array([nu]))
            for reach, most in ((False, problem.cost_of(x)[1]), (True, 0.0)):
                found = dual.bound(root._replace(lo=x, hi=x), given, reach=reach)
                assert getattr(found, "value", found) <= most


# ---- what are no multipliers ----


def small(prover=Dual, **more) -> Any:
    model = Model(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.2]]), np.zeros(3))
    limits = Actions(bounds=(-2, 2), linear=[({0: 1.0}, "<=", 1.0), ({0: 1.0, 1: 1.0}, "==", 0.0)])
    conditions = Conditions(model, more.pop("cost", Cost()), limits)
    return prover(LimitedProblem(conditions, np.zeros(2), 0), more.pop("goal", Goal(top=0.0)))


@pytest.mark.parametrize("prover", [Dual, in_fractions])
def test_multipliers_that_cannot_be_are_refused(prover):
    dual, root = small(prover), small().choices.root
    good = Multipliers(np.full(2, 0.5), np.array([0.1, -0.1]))
    dual.bound(root, good)
    wrong = {
        "negative": [good._replace(y=np.array([0.5, -1e-300])), good._replace(nu=np.array([-1e-9, 0.0]))],
        "too few or too many": [
            good._replace(y=np.ones(1)),
            good._replace(y=np.ones(3)),
            good._replace(nu=np.zeros(1)),
            good._replace(nu=np.zeros(3)),
            good._replace(y=np.ones((2, 1))),
            good._replace(at=np.ones(3)),
        ],
        "not finite": [
            good._replace(y=np.array([0.5, np.nan])),
            good._replace(y=np.array([0.5, np.inf])),
            good._replace(nu=np.array([np.nan, 0.0])),
            good._replace(nu=np.array([0.0, -np.inf])),
            good._replace(at=np.array([0.0, np.nan])),
        ],
    }
    for words, cases in wrong.items():
        for given in cases:
            with pytest.raises(CertificateError, match=words):
                dual.bound(root, given)


@pytest.mark.parametrize("prover", [Dual, in_fractions])
def test_with_lam_probabilities_of_more_than_one_are_refused(prover):
    dual, root = small(prover, goal=Goal(lam=0.5)), small().choices.root
    with pytest.raises(CertificateError, match="add up to more than 1"):
        dual.bound(root, Multipliers(np.array([0.6, 0.4 + 1e-9]), np.zeros(2)))


@pytest.mark.parametrize("prover", [Dual, in_fractions])
@pytest.mark.parametrize("at", [[np.nan, 0.0], [np.inf, 0.0], [0.0], [0.0, 0.0, 0.0]])
def test_a_change_that_cannot_be_is_refused(prover, at):
    """Δ° of a matrix: a bound of NaN would be no bound."""
    dual = small(prover, cost=Cost(matrix=np.array([[2.0, 0.5], [0.5, 1.0]])))
    with np.errstate(all="ignore"), pytest.raises(CertificateError):
        dual.bound(small().choices.root, Multipliers(np.full(2, 0.5), np.zeros(2), np.array(at)))


@pytest.mark.parametrize("size", [1e150, 1e200, 1e300, 1.7e308])
def test_huge_multipliers_prove_nothing(size):
    """Where floats overflow there is no bound: not NaN, which compares with nothing, and nothing above the truth."""
    for bounds in ({}, {"frozen": [0, 1]}, {"frozen": [0]}, {"bounds": (-2, 2)}):
        model = Model(np.array([[2.0, 3.0], [-2.0, 1.0]]), np.array([0.0, 1.0]))
        problem = LimitedProblem(Conditions(model, actions=Actions(**bounds)), np.zeros(2), 0)
        dual = Dual(problem, Goal(top=2.0))  # the source itself meets it
        try:
            with np.errstate(all="ignore"):
                found = dual.bound(dual.choices.root, Multipliers(np.array([size]), np.zeros(0))).value
        except (CertificateError, ValueError, OverflowError):
            continue
        assert found <= 0.0


def test_multipliers_next_to_nothing_beside_others():
    """Their share of all is less than any float."""
    problem = LimitedProblem(Conditions(Model(np.eye(3), np.zeros(3)), actions=Actions(bounds=(-5, 5))), np.ones(3), 0)
    dual = Dual(problem, Goal.of(None, 0.9, None))
    some, fewer = (dual.bound(dual.choices.root, Multipliers(np.array([v, 1e6]), np.zeros(0))).value for v in (5e-324, 0.0))
    assert some == pytest.approx(fewer)


def test_a_matrix_that_is_nearly_singular_is_said_to_be():
    matrix = np.array([[1.0, 1.0 - 1e-15], [1.0 - 1e-15, 1.0]])
    try:
        cost = Cost(matrix=matrix)
        dual = small(cost=cost)
    except Exception as error:  # refused before: that will do
        assert "matrix" in str(error)  # noqa: PT017
        return
    for change in (np.array([1.0, -1.0]), np.array([1.0, 1.0])):
        value = 0.5 * change @ matrix @ change
        given = Multipliers(np.zeros(2), np.zeros(2), change * 1e3)
        node = Node(change, change, np.zeros(2, dtype=np.int8))
        assert dual.bound(node, given).value <= value + 1e-12


def test_multipliers_whose_ratio_is_less_than_any_float():
    """They prove next to nothing, and are no error: a forged receipt may hold any numbers."""
    model = Model(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), np.zeros(3))
    problem = LimitedProblem(Conditions(model, actions=Actions()), np.array([1.0, 2.0]), 2)
    dual = Dual(problem, Goal.of(None, 0.9, None))
    for least, most in ((5e-324, 1e10), (1e-310, 1e300), (5e-324, 5e-324)):
        found = dual.bound(dual.choices.root, Multipliers(np.array([least, most]), np.zeros(0)))
        assert found.value <= 5.0  # what the answer costs is more


def test_a_ceiling_is_never_below_what_it_is_a_ceiling_of(rng):
    """1/(1 + e^v) with 50 digits: rounding to the nearest float would leave some points above."""
    with mp.workdps(50):
        for top, missed in zip(rng.uniform(-30, 30, 2000).tolist(), (10 ** rng.uniform(-9, 1, 2000)).tolist(), strict=True):
            ceiling, most = Goal(top=top).ceiling(missed), 1 / (1 + mp.exp(mp.mpf(top) + mp.mpf(missed)))
            assert most <= ceiling <= most * (1 + TOLERANCES["tight"])
