"""Costs and limits where numbers are extreme: an answer or a clear error, never NaN in silence, never a warning."""

from fractions import Fraction

import numpy as np
import pytest

from ifonly import Actions, Cost, Model, Scaling, Status, invert
from ifonly.engines.cost_space import CostSpace
from ifonly.problem.conditions import Conditions

pytestmark = pytest.mark.usefixtures("loops")

BOX = Actions(bounds=(-5, 5))
TIE = Actions(linear=[({0: 1, 1: -1}, "<=", 0.5)], bounds=(-50, 50))


@pytest.mark.parametrize("actions", [Actions(), BOX, TIE], ids=["free", "box", "rule"])
@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("lam", [1e-8, 1e-4, 1.0, 1e4, 1e8])
def test_any_lam(rng, lam, K, actions):
    model, x = Model(rng.normal(size=(K, 6)), rng.normal(size=K)), rng.normal(size=6)
    for l1 in (0.0, 0.1, 100.0):
        cf = invert(model, x, int(model.logits(x).argmin()), lam=lam, cost=Cost(l1=l1), actions=actions)
        assert cf.status is Status.EXACT
        assert cf.verify().claim == "proved"
        assert cf.gap <= 1e-9 * (1 + cf.objective)
        assert np.isfinite(cf.x).all()
    assert actions is TIE or (cf.x == x).all()  # at the last ℓ1 nothing is worth its price: not a bit moves


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
        assert far.verify().claim == "proved"
        assert model.predict_proba(far.x)[1] >= 0.9
        assert far.gap <= 1e-9 * far.cost
        near = invert(model, x, 1, lam=1e-3, cost=cost, actions=BOX)
        assert near.verify().claim == "proved"
        assert near.status is Status.EXACT
        assert np.isfinite(near.objective)
        out = invert(model, x, 1, prob=0.9, cost=cost, actions=BOX)
        assert out.status is Status.UNREACHABLE
        assert out.within.best_bound < 0.9
        assert np.isfinite(out.x).all()
        assert out.verify().claim == "proved"


@pytest.mark.parametrize("tau", [1e-6, 1 - 1e-9, 1 - 2.0**-53])
@pytest.mark.parametrize("K", [2, 3])
def test_probabilities_near_0_and_1(rng, K, tau):
    model, x = Model(rng.normal(size=(K, 4)), rng.normal(size=K)), rng.normal(size=4)
    k = int(model.logits(x).argmin())
    cf = invert(model, x, k, prob=tau, actions=Actions(frozen=[0], bounds={1: (-100, 100)}), cost=Cost(l1=0.1))
    assert cf.verify().claim == "proved"
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
        assert cf.verify().claim == "proved"
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
    assert cf.verify().claim == "proved"
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
        assert cf.verify().claim == "proved"
    assert one.status == two.status
    # the strongly convex objective pins x down to the square root of the gaps; both are 1e-9 or better
    np.testing.assert_allclose(two.x / unit, one.x, rtol=1e-7, atol=1e-8)
    assert two.cost == pytest.approx(one.cost, rel=1e-9)


def test_weak_features_are_used_where_nothing_else_may_move():
    """What the classifier hardly sees costs a lot, but it is a way: not UNREACHABLE."""
    A = np.array([[0.0, 0.0, 0.0], [1.0, 1e-8, 0.0], [-1.0, 0.0, 1e-8]])
    cf = invert(Model(A, np.zeros(3)), np.array([-3.0, 0.0, 0.0]), 1, prob=0.9, actions=Actions(frozen=[0]))
    assert cf.status is Status.EXACT
    assert cf.verify().claim == "proved"
    assert cf.proba[1] >= 0.9
    strong = invert(Model(A, np.zeros(3)), np.array([-3.0, 0.0, 0.0]), 1, prob=0.9, actions=Actions(bounds={0: (-3, -2.5)}))
    assert strong.status is Status.EXACT
    assert strong.cost < cf.cost


@pytest.mark.parametrize("seed", range(20))
def test_classes_all_but_alike(seed):
    """The change takes 1e6 units, other rivals fall behind by 1e12: what they do not weigh says nothing about rounding."""
    rng = np.random.default_rng([seed, 7])
    A = rng.normal(size=(5, 5))
    A[3] = A[1] + 5e-7 * rng.normal(size=5)
    model, x = Model(A * rng.choice([0.5, 4.0]), rng.normal(size=5)), rng.normal(size=5)
    actions = Actions(frozen=[3], increase=[0], bounds={1: (x[1] - 1, x[1] + 1)})
    cf = invert(model, x, 3, prob=0.6, actions=actions, cost=Cost(scale=np.exp(0.5 * rng.normal(size=5))))
    assert cf.status.ok or cf.status is Status.UNREACHABLE
    cf.verify()


def test_a_weight_of_rounding_over_a_range_without_measure():
    """A column that was all but constant behind a power transform: what has to move it can do so by 1e224."""
    A = [[0.03, 0.48, -4e-16], [-0.91, 0.01, 6.3e-16], [0.87, -0.49, -2.2e-16]]
    model, x = Model(A, np.zeros(3)), np.array([0.1, -0.3, 4e-16])
    bounds = {0: (-4e70, 14.0), 1: (-4e38, 14.8), 2: (-1e224, 1e-15)}
    cf = invert(model, x, 0, prob=1 - 1e-9, actions=Actions(bounds=bounds))
    assert np.isfinite(cf.x).all()
    assert np.isfinite(cf.cost)
    assert model.predict_proba(cf.x)[0] >= 1 - 1e-9
    cf.verify()


# ---- rules on whose very edge a point is ----


def test_a_tenth_of_three_is_three_tenths():
    """0.1·3 is 0.30000000000000004 in floating point: a point on the edge of a rule keeps it."""
    model = Model.binary([1.0, 0.3], -3.0, ["no", "yes"], ["a", "b"])
    actions = Actions(integer=["a"], bounds={"a": (0, 5)}, linear=[({"a": 0.1}, "<=", 0.3)], increase=["b"])
    cf = invert(model, [0.0, 0.0], "yes", prob=0.6, actions=actions)
    cf.verify()
    assert (cf.status, cf.x[0]) == (Status.EXACT, 3.0)


@pytest.mark.parametrize("number", range(12))
def test_a_source_that_just_keeps_a_rule_may_stay_there(number):
    """In whatever order the terms are added: only one thing may change, and that is in no rule."""
    rng = np.random.default_rng([number, 5])
    model = Model.binary(rng.normal(size=5), 0.0, ["no", "yes"])
    x, c = np.round(rng.normal(size=5), 3), np.round(rng.normal(size=3), 1)
    rules = [
        ({int(d): float(v) for d, v in zip(order, c, strict=True)}, "<=", float(c @ x[order]))
        for order in ([2, 0, 1], [1, 2, 0])
    ]
    target = "yes" if model.predict(x) == "no" else "no"
    cf = invert(model, x, target, prob=0.7, actions=Actions(frozen=[3], linear=rules), max_changes=1)
    alone = invert(model, x, target, prob=0.7, actions=Actions(frozen=[0, 1, 2, 3]))
    cf.verify()
    assert cf.status == Status.EXACT
    assert cf.cost <= alone.cost * (1 + 1e-9)


def test_a_rule_that_leaves_a_feature_no_room(rng):
    """The rule allows no more than the bound does: what is continuous beside it is solved as if both were one."""
    model = Model(rng.normal(size=(3, 6)), rng.normal(size=3))
    x, M = np.round(rng.normal(size=6), 1), rng.normal(size=(6, 6))
    cost = Cost(matrix=M @ M.T + 0.2 * np.eye(6))
    tight = Actions(increase=[1], frozen=[0], linear=[({0: 1.4, 1: 0.2}, "<=", float(1.4 * x[0] + 0.2 * x[1]))])
    target = int(model.logits(x).argmin())
    cf, same = (invert(model, x, target, lam=0.3, cost=cost, actions=a) for a in (tight, Actions(frozen=[0, 1])))
    cf.verify()
    assert cf.status == Status.EXACT
    assert cf.objective == pytest.approx(same.objective, rel=1e-9)


@pytest.mark.parametrize("scaled", [False, True])
def test_rows_that_are_close_are_subtracted_before_they_are_divided(rng, scaled):
    """Each divided and rounded by itself, their difference would be off by 1e-10, and no proof as good as its answer."""
    row, off, unit = rng.normal(size=6), 1e-6 * rng.normal(size=6), rng.uniform(0.3, 4.0, size=6)
    scaling = Scaling(rng.normal(size=6), rng.uniform(0.3, 4.0, size=6)) if scaled else None
    model = Model(np.array([row + off, row]), [0.1, -0.2], scaling=scaling)
    scale = np.ones(6) if scaling is None else scaling.scale
    conditions = Conditions(model, Cost(unit), Actions(integer=[0]), margin=2.0)
    found = CostSpace(conditions).rows(1)[0]
    exact = [Fraction(a) - Fraction(b) for a, b in zip(*model.A.tolist(), strict=True)]
    per_unit = conditions.per_unit.tolist()
    wanted = [d / Fraction(s) / Fraction(c) for d, s, c in zip(exact, scale.tolist(), per_unit, strict=True)]
    np.testing.assert_allclose(found, np.array(wanted, dtype=float), rtol=8 * np.finfo(float).eps)
    invert(model, rng.normal(size=6), 1, margin=2.0, cost=Cost(unit), actions=Actions(integer=[0])).verify()
