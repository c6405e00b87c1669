"""The limits in the way of a goal that is out of reach: against the same question with fewer of them."""

from functools import cache

import numpy as np
import pytest
from helpers.applicant import CREDIT, PERSON
from helpers.worded import Limits

import ifonly
from ifonly import Actions, InputError, Model, Status, invert
from ifonly.engines.blocking import blocking
from ifonly.problem.asked import Aim

LONG = 60.0  # seconds: no test here is about what is not finished


@cache
def stuck(K, goal, n=4):
    """Some random questions whose goal is out of reach: (limits, what is asked, answer)."""
    rng = np.random.default_rng([K, len(goal)])
    found = []
    while len(found) < n:
        limits = Limits(rng, K, rules=int(rng.random() < 0.3), hard=goal == "margin", whole=goal == "prob")
        asked = {"margin": float(rng.uniform(0, 2))} if goal == "margin" else {"prob": float(rng.choice([0.5, 0.8, 0.95]))}
        if goal == "margin" and "max_changes" in limits.options(limits.said):
            continue
        try:
            cf = limits.ask(limits.said, **asked)
        except InputError:
            continue
        if cf.status is Status.UNREACHABLE:
            found.append((limits, asked, cf))
    return found


@pytest.mark.seconds
@pytest.mark.parametrize("goal", ["prob", "margin"])
@pytest.mark.parametrize("K", [2, 3, 4])
def test_out_of_reach_with_these_limits_and_within_without_any_of_them(K, goal):
    for limits, asked, cf in stuck(K, goal):
        aim = Aim(cf.result.target, None, cf.prob)
        held, proved = blocking(cf.conditions, cf.coordinates[0], aim, cf.result, LONG)
        assert proved
        assert set(held) <= set(limits.said)
        assert limits.ask(held, **asked).status is Status.UNREACHABLE
        for words in held:
            freed = limits.ask([other for other in held if other != words], **asked)
            assert freed.status is not Status.UNREACHABLE
            assert np.isfinite(freed.x).all()


@pytest.mark.parametrize("K", [2, 3])
def test_out_of_time_it_is_still_out_of_reach_with_what_is_left(K):
    for limits, asked, cf in stuck(K, "prob"):
        aim = Aim(cf.result.target, None, cf.prob)
        held, _ = blocking(cf.conditions, cf.coordinates[0], aim, cf.result, 0.0)
        assert set(held) <= set(limits.said)
        if held:
            assert cf.status is limits.ask(held, **asked).status is Status.UNREACHABLE


def test_what_is_not_proved_is_not_said(monkeypatch):
    cf = invert(CREDIT, PERSON, "approved", prob=0.9, actions=Actions(frozen=["age", "hours"], bounds=(0, 40)))
    assert "perhaps" not in cf.message
    monkeypatch.setattr("ifonly.engines.blocking.blocking.__defaults__", (-1.0,))
    assert "(perhaps not all of these are in the way)" in invert(
        CREDIT, PERSON, "approved", prob=0.9, actions=Actions(frozen=["age", "hours"], bounds=(0, 40))
    ).message  # fmt: skip


def test_it_is_worked_out_once(monkeypatch):
    cf = invert(CREDIT, PERSON, "approved", prob=0.9, actions=Actions(frozen=["age", "hours"], bounds=(0, 40)))
    first = cf.blocking
    monkeypatch.setattr("ifonly.engines.blocking.blocking", None)
    assert cf.blocking == first
    assert first[0] in cf.message
    assert first[0] in cf.sentence()


def test_the_number_of_changes_is_named_first_where_it_is_in_the_way():
    model = Model.binary([1.0, 1.0, 1.0], -2.5, feature_names=list("abc"))
    cf = invert(model, [0.0, 0.0, 0.0], 1, max_changes=2, actions=Actions(bounds=(0, 1)))
    assert cf.blocking[0] == "at most 2 changes"
    assert set(cf.blocking[1:]) == {"a ≤ 1", "b ≤ 1", "c ≤ 1"}
    assert "while at most 2 changes and a ≤ 1 and b ≤ 1 and c ≤ 1" in cf.message
    more = invert(model, [0.0, 0.0, 0.0], 1, max_changes=2, prob=0.9, actions=Actions(bounds=(0, 1)))  # out of reach anyway
    assert set(more.blocking) == {"a ≤ 1", "b ≤ 1", "c ≤ 1"}


def test_where_no_limit_is_in_the_way_none_is_named():
    model = Model([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], [0.0, 0.0, -1.0])  # the third is never ahead
    cf = invert(model, [1.0, 0.0], 2, prob=0.5, actions=Actions(bounds=(-3, 3)))
    assert cf.status is Status.UNREACHABLE
    assert cf.blocking == ()
    assert cf.message.endswith("lower prob")


def test_a_category_is_frozen_as_a_whole_and_its_own_values_are_no_limits():
    frame = ifonly.credit.applicants()
    bank = ifonly.credit.pipeline(frame[:800])
    others = frame[800:].drop(columns="decision")
    row = others[bank.predict(others) == "refused"].iloc[3]
    given = ifonly.credit.actions()
    cf = invert(bank, row, "approved", prob=0.995, actions=given)
    assert cf.status is Status.UNREACHABLE
    assert not [words for words in cf.blocking if words.startswith("history=")]
    kept = [words.removesuffix(" is frozen") for words in cf.blocking if words.endswith(" is frozen")]
    assert set(kept) <= set(given.frozen)
    bounds = {name: pair for name, pair in given.bounds.items() if any(words.startswith(f"{name} ") for words in cf.blocking)}
    again = Actions(frozen=kept, bounds=bounds)
    assert invert(bank, row, "approved", prob=0.995, actions=again).status is Status.UNREACHABLE
    for name in kept[:4]:
        freed = Actions(frozen=[other for other in kept if other != name], bounds=bounds)
        assert invert(bank, row, "approved", prob=0.995, actions=freed).status is Status.EXACT


@pytest.mark.seconds
def test_many_limits_take_no_long_time(mnist):
    """No time is asserted; 784 pixels with two sides each, all of one side needed, would not end otherwise."""
    A, b, images = mnist
    x = images[3] / 255.0
    order = np.argsort(A @ x + b)
    rows = [order[-1], order[0]]
    model = Model(A[rows], b[rows])
    near = {d: (float(x[d] - 0.01), float(x[d] + 0.01)) for d in range(784)}
    cf = invert(model, x, 1, prob=0.9, actions=Actions(bounds=near))
    assert cf.status is Status.UNREACHABLE
    weights = A[rows[1]] - A[rows[0]]
    held = {f"feature {d} {'≤' if w > 0 else '≥'} {near[d][int(w > 0)]:g}" for d, w in enumerate(weights) if w}
    found = blocking(cf.conditions, x, Aim(1, None, cf.prob), cf.result, LONG)
    assert set(found.parts) == held
    assert found.proved
