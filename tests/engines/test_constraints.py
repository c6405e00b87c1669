"""Several constraints, a multiplier for each: the compiled search against the plain one, which shares nothing with it but the
checker; the exact answers of both are judged against enumeration elsewhere (test_cases, limits)."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from helpers.compiled import needs_compiled
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from ifonly import Actions, Cost, InputError, Model, Status, invert
from ifonly.engines.budget import Budget
from ifonly.engines.constraints import any_plan
from ifonly.engines.cost_problem import CostProblem
from ifonly.engines.cost_space import CostSpace
from ifonly.problem.asked import Aim
from ifonly.problem.conditions import Conditions
from tests.limits.families import make
from tests.limits.problem import Limits

pytestmark = needs_compiled

SAME = 1e-9  # relative: what EXACT means, and as much for rounding in the goal


def problem(rng):
    """Whole numbers and free features, rules (one may be an equality), few changes, two to five classes."""
    K, D = int(rng.integers(2, 6)), int(rng.integers(3, 9))
    model = Model(rng.normal(size=(K, D)), rng.normal(size=K))
    x = rng.integers(0, 8, size=D).astype(float)
    whole = [d for d in range(D) if rng.random() < 0.7] or [0]
    a, b, c = rng.permutation(D)[:3].tolist()
    rules = [({a: 1.0, b: 1.0}, "<=", float(x[a] + x[b]) + float(rng.integers(0, 4)))]
    if rng.random() < 0.5:
        rules.append(({b: 1.0, c: -2.0}, ">=", float(x[b] - 2 * x[c]) - float(rng.integers(0, 6))))
    if rng.random() < 0.3:
        rules.append(({a: 1.0, c: 1.0}, "==", float(x[a] + x[c])))
    cost = Cost(scale=np.exp(rng.normal(size=D)), l1=float(rng.choice([0.0, 0.2])))
    options = {"actions": Actions(integer=whole, bounds=(0, 12), linear=rules), "cost": cost}
    options |= (
        {"prob": float(rng.choice([0.5, 0.8, 0.95]))} if rng.random() < 0.7 else {"margin": float(rng.choice([0.0, 1.5]))}
    )
    if rng.random() < 0.5:
        options["max_changes"] = int(rng.integers(1, D))
    return model, x, int(model.logits(x).argmin()), options


@pytest.mark.parametrize("number", range(24))
def test_the_plain_search_finds_nothing_better(number):
    model, x, target, options = problem(np.random.default_rng([number, 31]))
    quick = invert(model, x, target, **options)
    quick.verify()
    plain = invert(model, x, target, backend="reference", time_limit=20.0, **options)
    assert quick.status == plain.status
    if quick.status == Status.EXACT:
        assert quick.cost == pytest.approx(plain.cost, rel=2 * SAME)
    else:
        assert (quick.status, quick.proba[target]) == (Status.UNREACHABLE, pytest.approx(plain.proba[target], abs=1e-6))


@pytest.mark.seconds
def test_every_set_of_instructions(instructions):
    """Nodes may differ where sums round otherwise; what is found, and that it is proved, does not."""
    for number in range(8):
        draw = problem if number % 2 else enumerable
        model, x, target, options = draw(np.random.default_rng([number, 32]))
        found, plain = invert(model, x, target, **options), invert(model, x, target, backend="reference", **options)
        found.verify()
        assert found.status == plain.status
        if plain.status == Status.EXACT:
            assert found.cost == pytest.approx(plain.cost, rel=2 * SAME)


def enumerable(rng):
    """Four whole numbers, a cost that may have a matrix, λ or a goal, perhaps a rule and few changes."""
    K = int(rng.integers(2, 5))
    model = Model(rng.normal(size=(K, 4)), rng.normal(size=K))
    x = rng.integers(0, 5, size=4).astype(float)
    M = rng.normal(size=(4, 4))
    cost = Cost(matrix=M @ M.T + 0.2 * np.eye(4)) if rng.random() < 0.6 else Cost(np.exp(rng.normal(size=4)), l1=0.3)
    rules = [({0: 0.1, 1: 0.2}, "<=", 0.1 * float(rng.integers(4, 9)))] if rng.random() < 0.5 else []
    goal = [{"lam": float(10 ** rng.uniform(-3, 0.5))}, {"prob": float(rng.choice([0.6, 0.9]))}, {"margin": 0.5}]
    options = {"actions": Actions(integer=True, bounds=(0, 4), linear=rules), "cost": cost, **goal[int(rng.integers(3))]}
    if rng.random() < 0.4:
        options["max_changes"] = int(rng.integers(1, 4))
    return model, x, int(rng.integers(K)), options


def least_of_all(model, x, k, options):
    """The least of what is minimised, over all points; infinite where none will do; and whether any is within the limits."""
    X = np.array(list(itertools.product(range(5), repeat=4)), dtype=float)
    z = X @ model.A.T + model.b
    rivals = np.delete(z, k, axis=1) - z[:, [k]]
    loss, change, cost = np.logaddexp(0, np.logaddexp.reduce(rivals, axis=1)), X - x, options["cost"]
    if cost.matrix is not None:
        square, sparse = np.einsum("nd,de,ne->n", change, cost.matrix, change), 0.0
    else:
        t = change * cost.scale
        square, sparse = np.square(t).sum(axis=1), cost.l1 * np.abs(t).sum(axis=1)
    fine = np.ones(len(X), dtype=bool)
    for row, _, rest in options["actions"].linear:
        fine &= sum(c * X[:, d] for d, c in row.items()) <= rest + 1e-9
    if "max_changes" in options:
        fine &= (change != 0).sum(axis=1) <= options["max_changes"]
    if "lam" in options:
        return np.where(fine, 0.5 * options["lam"] * square + sparse + loss, np.inf).min(), fine.any()
    met = np.exp(-loss) >= options["prob"] if "prob" in options else rivals.max(axis=1) <= -options["margin"]
    return np.where(fine & met, 0.5 * square + sparse, np.inf).min(), fine.any()


@pytest.mark.parametrize("number", range(48))
def test_whole_numbers_with_a_matrix_or_weighed(number):
    model, x, target, options = enumerable(np.random.default_rng([number, 33]))
    least, possible = least_of_all(model, x, target, options)
    if not possible:
        with pytest.raises(InputError, match="limits"):
            invert(model, x, target, **options)
        return
    cf = invert(model, x, target, **options)
    cf.verify()
    if least == np.inf:
        assert cf.status == Status.UNREACHABLE
    else:
        assert cf.status == Status.EXACT
        assert (cf.objective if "lam" in options else cf.cost) == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize("number", range(8))
def test_twenty_features_tied_by_a_matrix(number):
    rng = np.random.default_rng([number, 34])
    D, K = 20, 2 + number % 3
    model = Model(rng.normal(size=(K, D)), rng.normal(size=K))
    x, M = rng.integers(0, 6, size=D).astype(float), rng.normal(size=(D, D))
    goal = {"lam": 0.05} if number % 2 else {"prob": 0.8}
    actions = Actions(integer=range(0, D, 2), bounds=dict.fromkeys(range(D), (0, 8)), increase=[1, 3])
    few = {"max_changes": 4} if number % 4 < 2 else {}
    cost = Cost(matrix=M @ M.T / D + 0.3 * np.eye(D))
    cf = invert(model, x, int(np.argsort(model.logits(x))[-2]), cost=cost, actions=actions, **goal, **few)
    assert cf.status == Status.EXACT
    assert cf.n_nodes < 5000
    cf.verify()


def test_credit_size_takes_few_thousand_nodes():
    """Thirty whole numbers, three rules: most are settled with some hundred, each of which takes microseconds."""
    nodes = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        model = Model.binary(0.3 * rng.normal(size=30), 0.0, ["no", "yes"])
        x = rng.integers(0, 10, size=30).astype(float)
        triples = [rng.choice(30, 3, replace=False).tolist() for _ in range(3)]
        rules = [({a: 1.0, b: 1.0, c: -1.0}, "<=", float(x[a] + x[b] - x[c]) + 3) for a, b, c in triples]
        target = "yes" if model.predict(x) == "no" else "no"
        cf = invert(model, x, target, prob=0.9, actions=Actions(integer=True, bounds=(0, 20), linear=rules))
        assert cf.status == Status.EXACT
        nodes.append(cf.n_nodes)
    assert np.median(nodes) < 1000
    assert max(nodes) < 5000


@pytest.mark.parametrize("number", range(40))
def test_few_changes_of_which_the_rules_take_some(number):
    """Rules that the source breaks, whole numbers: what must move counts, and multipliers of rules find their size."""
    rng = np.random.default_rng([number, 33])
    model, x = Model(2.5 * rng.normal(size=(2, 6)), rng.normal(size=2)), 1.5 * rng.normal(size=6)
    x[2:5] = 0
    rules = [({0: 1.3}, "==", 1.3 * x[0] + 0.16), ({1: 0.6}, ">=", 0.6 * x[1] - 0.3)]
    bounds = {0: (x[0] - 1.7, x[0] + 0.3), 2: (-1.4, 2.4), 3: (-1.01, 3.01), 4: (-1, None)}
    actions = Actions(integer=[2, 3, 4], bounds=bounds, linear=rules)
    cost = Cost(scale=np.exp(0.6 * rng.normal(size=6)), l1=[0.46, 0.2, 0.3, 0.04, 0.0, 0.0])
    cf = invert(model, x, 0, prob=0.99, actions=actions, cost=cost, max_changes=4, time_limit=2.0)
    assert cf.status in (Status.EXACT, Status.UNREACHABLE)
    assert cf.n_nodes < 500
    cf.verify()


def test_few_pixels_of_many_and_ten_classes(rng):
    """K = 10, D = 784, ten changes: the multipliers of the classes close the gap almost alone."""
    model = Model(0.5 * rng.normal(size=(10, 784)), np.zeros(10))
    cf = invert(model, rng.random(784), 3, prob=0.9, actions=Actions(bounds=(0, 1)), max_changes=30)
    assert cf.status == Status.EXACT
    assert cf.n_changes <= 30
    assert cf.n_nodes < 1000
    cf.verify()


@pytest.mark.parametrize("number", range(16))
def test_whole_numbers_behind_a_map(number):
    """Their values are at uneven distances; of all combinations none is cheaper."""
    rng = np.random.default_rng([number, 34])
    X, K = rng.integers(0, 9, size=(200, 3)).astype(float), int(rng.integers(2, 4))
    y = ((np.log1p(X) - 1.4) @ rng.normal(size=(3, K)) + 0.3 * rng.normal(size=(200, K))).argmax(axis=1)
    pipeline = make_pipeline(FunctionTransformer(np.log1p), StandardScaler(), LogisticRegression()).fit(X, y)
    few = [None, 2][number % 2]
    actions = Actions(integer=[0, 1, 2], bounds=(0, 10), increase=[0])
    target = int(pipeline.predict_proba(X[:1])[0].argmin())
    cf = invert(pipeline, X[0], target, prob=0.7, actions=actions, max_changes=few)
    points = np.array(list(itertools.product(range(11), repeat=3)), dtype=float)
    allowed = (points[:, 0] >= X[0, 0]) & ((points != X[0]).sum(axis=1) <= (few or 3))
    there = points[allowed & (pipeline.predict_proba(points)[:, target] >= 0.7)]
    cf.verify()
    assert cf.status == (Status.EXACT if len(there) else Status.UNREACHABLE)
    if len(there):
        assert pipeline.predict_proba(np.array([cf.x]))[0, target] >= 0.7
        costs = 0.5 * np.square(pipeline[:-1].transform(there) - pipeline[:-1].transform(X[:1])).sum(axis=1)
        assert cf.cost == pytest.approx(costs.min(), rel=SAME)


def test_categories_and_a_rule_between_them_and_a_number():
    """Options are chosen one against the others; all plans enumerated."""
    rows = pd.DataFrame({"work": [0.0], "job_a": [1.0], "job_b": [0.0], "job_c": [0.0]})
    A = np.array([[0.0, 0.0, 0.0, 0.0], [0.25, 0.0, 1.0, 1.6], [-0.2, 0.5, 0.1, -0.4]])
    model = Model(A, np.array([0.0, -1.2, 0.3]), classes=["no", "yes", "other"], feature_names=list(rows))
    rule = ({"work": 1.0, "job_b": 3.0}, "<=", 6.0)
    actions = Actions(integer=["work"], bounds={"work": (0, 10)}, linear=[rule], one_of=[["job_a", "job_b", "job_c"]])
    best = math.inf
    for work in range(11):
        for job in range(3):
            x = np.array([work, *np.eye(3)[job]])
            if work + 3 * x[2] <= 6 and model.predict_proba(x)[1] >= 0.7:
                best = min(best, 0.5 * float(((x - rows.to_numpy()[0]) ** 2).sum()))
    cf = invert(model, rows.iloc[0], "yes", prob=0.7, actions=actions)
    assert (cf.status, cf.cost) == (Status.EXACT, pytest.approx(best))
    cf.verify()


def test_the_bound_of_a_search_with_a_matrix_that_was_stopped_is_one_that_its_proof_has():
    """With D² terms rounding is more than where features cost by themselves."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        model, x = Model(rng.normal(size=(5, 50)), rng.normal(size=5)), np.rint(rng.normal(size=50) * 3)
        root = rng.normal(size=(50, 50)) + np.eye(50)
        actions = Actions(integer=list(range(0, 50, 2)), bounds={d: (x[d] - 5, x[d] + 5) for d in range(0, 50, 3)})
        target, cost = int(model.logits(x).argmin()), Cost(matrix=root.T @ root / 50)
        cf = invert(model, x, target, prob=0.9999, actions=actions, cost=cost, node_limit=100)
        assert cf.status is Status.STOPPED
        cf.verify()


@pytest.mark.parametrize("goal", [{"lam": 0.1}, {"prob": 0.8}, {"margin": 1.0}], ids=str)
def test_a_search_with_a_matrix_knows_at_once_what_the_relaxation_costs(goal):
    """From multipliers of 0 it is a long way to those of thirty equations: there the first bound was below."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        model, x, root = Model(rng.normal(size=(8, 30)), rng.normal(size=8)), rng.normal(size=30), rng.normal(size=(30, 30))
        asked = {"target": int(model.logits(x).argmin()), "cost": Cost(matrix=root @ root.T / 30 + 0.1 * np.eye(30)), **goal}
        relaxed = invert(model, x, actions=Actions(bounds=(-9, 9)), **asked)
        cf = invert(model, x, actions=Actions(bounds=(-9, 9), integer=[0]), max_changes=29, node_limit=1, **asked)
        cf.verify()
        assert cf.bound >= (relaxed.objective if "lam" in goal else relaxed.cost) * (1 - 1e-6)


def test_large_terms_of_absolute_changes_are_not_in_the_way_of_any_plan():
    """The search with them ends without a point, as its proof of optimality would take multipliers of 1e15."""
    hard = make("zero rows", 5, 101003)
    conditions = Conditions(hard.model, **{**hard.options, "margin": hard.want})
    space = CostProblem(CostSpace(conditions), hard.x, hard.target)
    found = any_plan(space, Aim(hard.target, None, None, None), Budget())
    assert found is not None
    assert Limits(hard).broken(found.x) == ""
    assert hard.short(found.x) <= 0


@pytest.mark.parametrize("number", range(8))
def test_what_newton_begins_with_within_rules_is_all_but_there(number):
    """A few steps are left, and the answer is that of the array program, which begins by itself."""
    rng = np.random.default_rng([9, number])
    K, D = int(rng.integers(2, 6)), int(rng.integers(4, 30))
    model, x = Model(rng.normal(size=(K, D)), rng.normal(size=K)), rng.normal(size=D)
    rules = [({0: 1.0, 1: 1.0}, "<=", float(x[0] + x[1]) + 0.1), ({2: 1.0, 3: -2.0}, ">=", float(x[2] - 2 * x[3]) - 0.1)]
    options = {"actions": Actions(bounds=(-4, 4), linear=rules), "cost": Cost("raw", l1=0.1 * (number % 2))}
    for goal in ({"prob": 0.8}, {"lam": 0.3}, {"margin": 1.0}):
        found, plain = (invert(model, x, 0, backend=backend, **goal, **options) for backend in ("cpu", "reference"))
        assert found.status is plain.status
        assert found.n_iter <= 3
        np.testing.assert_allclose(found.x, plain.x, rtol=0, atol=1e-9 * (1 + plain.distance))
