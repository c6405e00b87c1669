"""What a search that stopped leaves open, and what its answer says of that."""

import pickle

import numpy as np
import pytest

import ifonly
from ifonly import Actions, Model, Status, invert
from tests.limits.families import make

SOURCE = np.array([-3.0, 0.6])
TIES = {"K = 2": Model([[0.0, 0.0], [1.0, 0.5]], [0.0, -0.3]), "K = 3": Model([[0, 0], [1, 0.5], [0, 0]], [0, -0.3, -1e3])}
LIMITS = {
    "one number": {"actions": Actions(integer=[0], frozen=[1])},
    "few": {"actions": Actions(integer=[0], step={1: 0.6}), "max_changes": 1},
    "a rule": {"actions": Actions(integer=[0], bounds={1: (0.2, 0.6)}, linear=[({0: 1.0, 1: 1.0}, "<=", 3.0)])},
}


@pytest.mark.parametrize("goal", [{"prob": 0.5}, {"margin": 0.0}], ids=str)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("K", TIES)
def test_a_point_that_just_meets_the_goal_is_not_for_want_of_time(K, limits, goal):
    """A tie at a cost of 4.5 is no answer for everybody; the next point is, and there is no other."""
    model, (name,) = TIES[K], goal
    cf = invert(model, SOURCE, 1, **goal, **LIMITS[limits])
    assert (cf.status, cf.cost, cf.x.tolist()) == (Status.STOPPED, 8.0, [1.0, 0.6])
    assert cf.exhausted
    assert cf.message.startswith(
        "the search is complete, and the cost is 8; what costs less, from 4.5 on, meets the goal at best"
    )
    assert cf.message.endswith(f"a slightly lower {name} would let it count")
    assert cf.message in repr(cf)
    assert "nothing to spare for rounding" in cf.sentence()
    assert pickle.loads(pickle.dumps(cf)).message == cf.message
    many = invert(model, np.stack([SOURCE, SOURCE]), 1, **goal, **LIMITS[limits])
    assert [one.message for one in many] == [cf.message] * 2
    assert ifonly.verify(cf.to_json(), model, exact=True).claim == "proved"


@pytest.mark.parametrize(("lower", "cost"), [({"prob": 0.5 - 1e-9}, 4.5), ({"margin": 1.0 - 1e-9}, 8.0)], ids=str)
@pytest.mark.parametrize("K", TIES)
def test_the_remedy_helps(K, lower, cost):
    """What just meets a goal meets a slightly lower one."""
    cf = invert(TIES[K], SOURCE, 1, **lower, **LIMITS["one number"])
    assert (cf.status, cf.cost) == (Status.EXACT, cost)


def test_a_search_that_was_stopped_says_so(rng):
    model = Model(rng.normal(size=(4, 12)), rng.normal(size=4))
    source = rng.uniform(-3, 3, size=12)
    cf = invert(model, source, 2, prob=0.9, actions=Actions(integer=True, bounds=(-3, 3)), node_limit=1)
    assert cf.status is Status.STOPPED
    assert not cf.exhausted
    assert cf.message.endswith("raise time_limit or node_limit")


def test_a_search_without_a_plan_says_so():
    """No gap tells how good an answer is that there is not: limits that contradict each other, which one node does not show."""
    rng, weights = np.random.default_rng(3), np.arange(1.0, 13.0)
    A = np.stack([rng.normal(size=12), rng.normal(size=12), rng.normal(size=12)])
    rule = ({d: 2.0 * w for d, w in enumerate(weights)}, "==", 1.0)  # even, and so never
    actions = Actions(integer=True, bounds=(0, 1), linear=[rule])
    cf = invert(Model(A, np.zeros(3)), np.zeros(12), 2, prob=0.999, actions=actions, node_limit=1)
    assert cf.status is Status.STOPPED
    assert not np.isfinite(cf.x).any()
    assert cf.message.startswith("the search stopped at its limit before it found a plan")


@pytest.mark.parametrize("number", [10, 21, 25, 30, 33, 47])
def test_what_rounding_takes_is_not_for_want_of_time(number):
    """Rows of A with a large common part: to meet a goal for everybody costs a little more, and no search changes that."""
    cf = make("common part", number, 5001).ask()
    assert cf.status is Status.CONVERGED or cf.exhausted
    assert "raise time_limit" not in cf.message
    cf.verify(exact=True)
