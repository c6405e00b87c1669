"""The nearest class: bounds that hold, and the same answer as from all classes one by one."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import ifonly
from ifonly import Status
from ifonly.engines import limited, nearest
from ifonly.engines.budget import Budget
from ifonly.engines.cases import Cases
from ifonly.engines.cost_problem import CostProblem, nothing_found
from ifonly.engines.cost_space import CostSpace
from ifonly.problem.asked import NEAREST, Aim
from ifonly.problem.checker import check
from ifonly.problem.conditions import Conditions
from ifonly.problem.proof import Leaf, Proof


@pytest.mark.parametrize("seed", range(30))
def test_with_limits_it_is_the_best_of_all_classes(seed):
    rng = np.random.default_rng(seed)
    K, D = int(rng.integers(3, 9)), int(rng.integers(2, 12))
    model = ifonly.Model(2 * rng.normal(size=(K, D)), rng.normal(size=K))
    x = rng.uniform(size=D) * (rng.random(D) < 0.6)
    actions = ifonly.Actions(bounds=(0, float(rng.choice([1, 3, 20]))), integer=[0] if seed % 3 == 0 else ())
    x[0] = np.round(x[0])
    question = {"prob": float(rng.uniform(0.3, 0.95)), "actions": actions}
    if seed % 2:
        question["cost"] = ifonly.Cost(l1=0.3)
    found = ifonly.invert(model, x, None, **question)
    others = np.delete(np.arange(K), model.logits(x).argmax()).tolist()
    answers = [ifonly.invert(model, x, k, **question) for k in others]
    costs = [cf.cost for cf in answers if cf.status.ok]
    assert found.status.ok == bool(costs)
    if costs:
        assert found.cost == pytest.approx(min(costs), rel=1e-7, abs=1e-12)


def test_a_bound_within_limits_is_one_and_near(rng):
    """Below the cost of every point that meets the goal, and for one rival without ℓ1 terms equal to the least of them."""
    for _ in range(20):
        D = 9
        gains, lo, hi = rng.normal(size=D), -rng.random(D), rng.random(D)
        lo[0] = hi[0] = 0.0
        most = float(np.maximum(gains * lo, gains * hi).sum())
        gap, mu = float(rng.uniform(0, most)), rng.random(D) * rng.integers(2)
        bound, t = nearest.bound_within(gains, gap, mu, lo, hi)
        points = rng.uniform(lo, hi, size=(2000, D))
        there = points[points @ gains >= gap]
        assert (0.5 * np.sum(there**2, axis=1) + np.abs(there) @ mu >= bound).all()
        assert ((lo <= t) & (t <= hi)).all()
        if not mu.any():
            assert gains @ t == pytest.approx(gap, rel=0.1)
            assert bound == pytest.approx(0.5 * t @ t, rel=0.1)


def test_a_class_is_solved_only_if_its_sharper_bound_says_so():
    class Found:
        status, proba, target = ifonly.Status.EXACT, np.zeros(0), 0

        def __init__(self, cost):
            self.cost = cost

    class Cost:
        @staticmethod
        def value(result):
            return result.cost

    solved = []

    def solve(k):
        solved.append(k)
        return Found([5.0, 3.0, 9.0][k])

    found = nearest.search([0, 1, 2], np.zeros(3), solve, Cost, [4.0, 2.0, math.inf].__getitem__)
    assert found.cost == 3.0
    assert solved == [1]


@pytest.mark.parametrize("prob", [0.3, 0.999999])
def test_many_classes_of_few_features_most_of_them_out_of_reach(prob):
    """450 points of 5 numbers: most lie between others. That took minutes, with numbers that overflowed."""
    rng = np.random.default_rng(3)
    A, b, x = 0.2 * rng.normal(size=(450, 5)), rng.normal(size=450), rng.normal(size=5)
    model = ifonly.Model(A, b)
    found = ifonly.invert(model, x, prob=prob)
    assert found.verify().claim == "proved"
    others = np.delete(np.arange(450), model.logits(x).argmax())
    answers = [ifonly.invert(model, x, k, prob=prob) for k in rng.choice(others, 40, replace=False).tolist()]
    reached = [cf for cf in answers if cf.status is ifonly.Status.EXACT]
    assert {cf.status for cf in answers} <= {ifonly.Status.EXACT, ifonly.Status.UNREACHABLE}
    assert 0 < len(reached) < len(answers)
    assert all(found.distance <= cf.distance * (1 + 1e-9) for cf in reached)
    # A class that is out of reach lies between others: there are shares of these whose mean it is.
    for cf in answers:
        points = np.vstack([np.delete(A, cf.target, axis=0).T, np.ones(449)])
        between = linprog(np.zeros(449), A_eq=points, b_eq=np.append(A[cf.target], 1.0)).status == 0
        assert between or cf in reached


@pytest.mark.parametrize("ended", [Status.EXACT, Status.STOPPED])
@pytest.mark.parametrize("goal", [{"margin": 1.0}, {"prob": 0.8}, {"lam": 0.05}], ids=str)
def test_an_answer_beside_which_other_classes_are_left_open_claims_no_more_than_can_be_checked(rng, goal, ended):
    """Nothing is discrete, and the answer's own class was settled by a proof, or stopped with one."""
    model, x = ifonly.Model(rng.normal(size=(3, 4)), rng.normal(size=3)), rng.normal(size=4)
    k, actions = int(model.scores(x).argmin()), ifonly.Actions(bounds=(-5, 5), linear=[({0: 1.0, 1: 1.0}, "<=", x[0] + x[1])])
    conditions, aim = Conditions(model, actions=actions, margin=goal.get("margin")), Aim(k, goal.get("lam"), goal.get("prob"))
    problem = CostProblem(CostSpace(conditions), x, k)
    found = Cases().answer(problem, aim, Budget(), None)
    assert found.proof is not None
    assert found.status.ok
    if ended is Status.STOPPED:
        bound = aim.value(found) - 0.1
        found = replace(found, status=ended, bound=bound, gap=0.1, proof=Proof((Leaf(-1),), ()))
    other = nothing_found(problem.space, k, 0, 0.5 * found.bound)
    told = limited._of_all(found, [found, other], aim, Budget())
    assert (told.status, told.bound) == (Status.STOPPED, other.bound)
    assert (told.proof is None) == (ended is Status.EXACT)
    if told.proof is None:
        assert check(model, conditions, x, told.x, aim.prob, told).claim == "not proved here"


@pytest.mark.parametrize("goal", [Aim(NEAREST, None, 0.8), Aim(NEAREST, 0.05, None)])
@pytest.mark.parametrize("cost", [ifonly.Cost(scale=[1.0, 3.0, 0.2, 1.0]), ifonly.Cost(matrix=np.eye(4) + 0.5)])
def test_of_many_classes_the_strongest_rivals_bound_no_more_than_all_of_them(rng, monkeypatch, goal, cost):
    """And no more than the answers are worth."""
    model, x = ifonly.Model(rng.normal(size=(30, 4)), rng.normal(size=30)), rng.normal(size=4)
    space = CostSpace(Conditions(model, cost, ifonly.Actions(bounds=(-9, 9))))
    few = limited._alone(space, model.scores(x), goal)
    monkeypatch.setattr(nearest, "BOUNDING", 30)
    every = limited._alone(space, model.scores(x), goal)
    assert (few <= every * (1 + 1e-12)).all()
    assert few.max() > 0.5 * every.max()
    for k in range(0, 30, 7):
        found = Cases().answer(CostProblem(space, x, k), goal._replace(k=k), Budget(), None)
        assert not found.status.ok or every[k] <= goal.value(found) * (1 + 1e-6)


@pytest.mark.seconds
def test_the_nearest_of_very_many_classes_has_an_answer_when_time_is_up(rng):
    model = ifonly.Model(rng.normal(size=(600, 300)) / 17, rng.normal(size=600))
    cf = ifonly.invert(model, rng.normal(size=300) * 3, prob=0.9, actions=ifonly.Actions(bounds=(0, None)), time_limit=1e-3)
    assert cf.status is Status.STOPPED
    assert np.isfinite(cf.x).all()
    cf.verify()
