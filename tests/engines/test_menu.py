"""The menu of minimal plans: against all subsets of features, each solved on its own."""

import itertools
from functools import cache

import numpy as np
import pytest
from helpers.problems import half

import ifonly
from ifonly import Actions, Cost, InputError, Model, Status, invert
from ifonly.engines.covers import Covers
from ifonly.engines.gains import Gains
from ifonly.problem.asked import Aim
from ifonly.problem.conditions import Conditions

SAME = 1e-7  # costs of two solves of one problem, for more than two classes
KINDS = ["free", "bounds", "whole numbers", "group", "few changes", "outside", "rule", "l1", "matrix", "margin"]


class Case:
    """A random question of a kind, and its minimal sets by enumeration."""

    def __init__(self, rng, K, kind):
        D = int(rng.integers(3, 6))
        self.x = np.round(rng.normal(size=D) * 1.5, 1)
        group = [0, 1, 2] if kind == "group" else []
        self.x[group] = np.eye(len(group))[0] if group else 0
        rest = [d for d in range(D) if d not in group]
        self.items = [[d] for d in rest] + ([group] if group else [])
        low, high = (np.round(self.x + sign * rng.uniform(0.3, 2.0, D), 1) for sign in (-1, 1))
        if kind == "outside":
            low[0], high[0] = self.x[0] + 0.2, self.x[0] + 2.0
        self.actions = {"bounds": {d: (float(low[d]), float(high[d])) for d in rest}, "one_of": [group] if group else ()}
        if kind == "free":
            self.actions = {}
        if kind == "whole numbers":
            self.x = np.round(self.x)
            self.actions["integer"] = rest[::2]
            self.actions["bounds"] = {d: (float(self.x[d] - 2), float(self.x[d] + 2)) for d in rest}
        if kind == "rule":
            row = np.round(rng.normal(size=2), 1)
            room = float(row @ self.x[:2] + rng.uniform(-0.2, 0.5))
            self.actions["linear"] = [({0: float(row[0]) or 1.0, 1: float(row[1]) or 1.0}, "<=", room)]
        self.options = {"margin": float(rng.uniform(0, 1))} if kind == "margin" else {"prob": float(rng.choice([0.5, 0.7]))}
        if kind == "few changes":
            self.options["max_changes"] = int(rng.integers(1, 4))
        if kind == "l1":
            self.options["cost"] = Cost(l1=float(rng.uniform(0.05, 0.5)), scale=rng.uniform(0.3, 3, D))
        if kind == "matrix":
            root = rng.normal(size=(D, D)) / np.sqrt(D) + np.eye(D)
            self.options["cost"] = Cost(matrix=root @ root.T)
        self.model = Model(rng.normal(size=(K, D)), rng.normal(size=K), hard=kind == "margin")
        self.k = int(self.model.scores(self.x).argsort()[-2])

    def solve(self, **more):
        actions = Actions(**{**self.actions, "frozen": more.pop("frozen", ())})
        return invert(self.model, self.x, self.k, actions=actions, **self.options, **more)

    def only(self, items):
        """The cheapest plan with these items; None where they are not enough."""
        frozen = [d for i, item in enumerate(self.items) if i not in items for d in item]
        if len(frozen) == len(self.x):  # the source itself
            return None
        try:
            found = self.solve(frozen=frozen)
        except InputError:  # no point satisfies the limits
            return None
        assert found.status in (Status.EXACT, Status.UNREACHABLE)
        return found if found.status is Status.EXACT else None

    def enough(self):
        """Every set of items that is enough, and the cheapest plan with it."""
        sets = [frozenset(s) for n in range(len(self.items) + 1) for s in itertools.combinations(range(len(self.items)), n)]
        plans = {items: self.only(items) for items in sets}
        return {items: plan for items, plan in plans.items() if plan is not None}

    def changed(self, cf):
        return frozenset(i for i, item in enumerate(self.items) if (cf.x[item] != self.x[item]).any())


def cases(kind, K, n=2):
    """Some of a kind whose goal can be reached, and not from the source itself."""
    rng = np.random.default_rng([KINDS.index(kind), K])
    found = []
    while len(found) < n:
        case = Case(rng, K, kind)
        try:
            cf = case.solve()
        except InputError:
            continue
        if cf.status is Status.EXACT and cf.cost > 0:
            found.append((case, cf))
    return found


@pytest.mark.parametrize(("K", "kind"), half([2, 3, 4], KINDS))
def test_all_minimal_plans_in_order_against_all_subsets(kind, K):
    for case, optimum in cases(kind, K, n=1):
        enough = case.enough()
        minimal = [items for items in enough if not any(other < items for other in enough)]
        first = case.changed(optimum)
        costs = [optimum.cost, *sorted(enough[items].cost for items in minimal if items != first)]
        for n in (1, 3, 100):
            plans = case.solve(n=n)
            np.testing.assert_array_equal(plans[0].x, optimum.x)
            np.testing.assert_allclose(plans.cost, costs[:n], rtol=SAME)
            assert plans.complete == (len(costs) <= n)
            assert plans.cheapest
            sets = [case.changed(plan) for plan in plans]
            assert all(items in minimal and items != first for items in sets[1:])
            assert len(set(sets)) == len(sets)
            for plan in plans:
                assert plan.status is Status.EXACT
                plan.verify()


@pytest.mark.parametrize("seed", range(6))
def test_two_classes_are_a_knapsack_and_all_minimal_covers_are_on_the_menu(seed):
    """More features than above; the reference adds up the largest gains and asks no engine which sets are enough."""
    rng = np.random.default_rng([77, seed])
    D = int(rng.integers(8, 12))
    g, ends = rng.normal(size=D) * rng.uniform(0.2, 1.5, D), np.round(rng.uniform(0.5, 3, (2, D)), 1)
    whole = np.flatnonzero(rng.random(D) < 0.4).tolist()
    ends[:, whole] = np.ceil(ends[:, whole])
    most = np.maximum(-g * ends[0], g * ends[1])
    need, few = float(most.sum() * rng.uniform(0.1, 0.6)), [None, 5][seed % 2]
    sets = (frozenset(s) for n in range(1, (few or D) + 1) for s in itertools.combinations(range(D), n))
    sums = {items: (most[list(items)].sum(), most[list(items)].min()) for items in sets}
    minimal = {items for items, (total, least) in sums.items() if total >= need > total - least}
    actions = Actions(bounds={d: (-float(ends[0, d]), float(ends[1, d])) for d in range(D)}, integer=whole)
    options = {"cost": Cost(rng.uniform(0.3, 3, D), l1=0.1), "actions": actions, "max_changes": few}
    model, x = Model.binary(g, -need), np.zeros(D)
    plans = invert(model, x, 1, n=1000, time_limit=100.0, **options)
    first, *others = (frozenset(np.flatnonzero(plan.delta).tolist()) for plan in plans)
    assert plans.complete
    assert {*others, *({first} & minimal)} == minimal
    assert (np.diff(plans.cost) >= -1e-9).all()
    for n in (2, 6):
        some = invert(model, x, 1, n=n, **options)
        assert some.cheapest
        np.testing.assert_allclose(some.cost, plans.cost[:n], rtol=SAME)


def test_what_must_move_belongs_to_every_set():
    model = Model.binary([1.0, 1.0, 1.0], -4.0)
    actions = Actions(bounds={0: (1, 1.5), 1: (0, 3), 2: (0, 3)})
    plans = invert(model, [0.0, 0.0, 0.0], 1, actions=actions, n=10)
    assert [np.flatnonzero(plan.x).tolist() for plan in plans] == [[0, 1, 2], [0, 1], [0, 2]]
    assert plans.complete
    at_once = invert(model, [0.0, 2.0, 3.0], 1, actions=actions, n=10)  # which is enough
    assert [np.flatnonzero(plan.delta).tolist() for plan in at_once] == [[0]]
    assert at_once.complete


def test_nothing_to_do_is_the_whole_menu():
    plans = invert(Model.binary([1.0, 1.0], 0.0), [1.0, 1.0], 1, n=3)
    assert (len(plans), plans[0].cost, plans.complete, plans.cheapest) == (1, 0.0, True, True)


def test_out_of_reach_there_is_no_menu():
    plans = invert(Model.binary([1.0, 1.0], 0.0), [-1.0, -1.0], 1, actions=Actions(decrease=True), n=3)
    assert (len(plans), plans[0].status, plans.complete) == (1, Status.UNREACHABLE, True)


def test_some_of_the_plans_are_not_all():
    plans = invert(Model.binary([1.0, 2.0], 0.0), [-1.0, -1.0], 1, n=9)
    assert plans.complete
    assert plans[:].complete
    assert plans[1:].complete is False
    assert plans[[0]].complete is False
    table = invert(Model.binary([1.0, 2.0], 0.0), [[-1.0, -1.0]], 1)
    assert table.complete is table.cheapest is table[:0].complete is None


def test_with_lam_there_is_no_goal_and_no_menu():
    plans = invert(Model.binary([1.0, 2.0], 0.0), [-1.0, -1.0], 1, lam=0.1, n=3)
    assert len(plans) == 3
    assert plans.complete is plans.cheapest is None
    assert (np.diff(plans.objective) > 0).all()


def test_the_nearest_class_is_the_optimums(rng):
    model, x = Model(rng.normal(size=(4, 5)), rng.normal(size=4)), rng.normal(size=5)
    plans = invert(model, x, n=4, actions=Actions(bounds=(-3, 3)))
    alone = invert(model, x, actions=Actions(bounds=(-3, 3)))
    assert set(plans.target.tolist()) == {alone.target}
    assert plans[0].cost == alone.cost


# ---- limits of the search ----


def wide(rng, K=4, D=24):
    model, x = Model(rng.normal(size=(K, D)) * 0.5, np.zeros(K)), rng.normal(size=D)
    return model, x, int(model.scores(x).argmin())


@pytest.mark.seconds
@pytest.mark.parametrize("options", [{"time_limit": 0.2}, {"node_limit": 20, "max_changes": 20}])
def test_stopped_early_it_says_so_and_what_is_listed_is_minimal(rng, options):
    model, x, k = wide(rng)
    bounds = {d: (float(x[d] - 0.7), float(x[d] + 0.7)) for d in range(len(x))}
    plans = invert(model, x, k, actions=Actions(bounds=bounds), n=50, **options)
    assert not plans.complete
    for plan in plans[1:]:
        moved = np.flatnonzero(plan.delta)
        assert len(moved) < len(np.flatnonzero(plans[0].delta))
        if plan.status is not Status.EXACT:
            continue
        for d in moved:
            frozen = sorted({*range(len(x))} - {*moved} | {d})
            less = invert(model, x, k, actions=Actions(bounds=bounds, frozen=frozen))
            assert less.status is Status.UNREACHABLE


def test_every_pixel_on_its_own(mnist):
    """Two classes without limits: each pixel with a weight is a plan, whatever it costs."""
    A, b, images = mnist
    x = images[3] / 255.0
    order = np.argsort(A @ x + b)
    rows = [order[-1], order[-2]]
    model = Model(A[rows], b[rows])
    plans = invert(model, x, 1, prob=0.6, n=6)
    weights = np.abs(A[rows[1]] - A[rows[0]])
    assert plans.cheapest
    assert [np.flatnonzero(plan.delta).tolist() for plan in plans[1:]] == [[d] for d in np.argsort(-weights)[:5].tolist()]
    # Pictures stay pictures: no pixel is enough, and the cheapest few are proved.
    inside = invert(model, x, 1, prob=0.6, n=4, actions=Actions(bounds=(0, 1)))
    assert inside.cheapest
    assert not inside.complete
    assert (inside.n_changes[1:] < 10).all()


@cache
def bank():
    frame = ifonly.credit.applicants()
    model = ifonly.as_model(ifonly.credit.pipeline(frame[:800]))
    others = frame[800:].drop(columns="decision")
    return model, others[model.predict(others) == "refused"]


@pytest.mark.seconds
def test_a_category_is_one_change_and_no_plan_contains_another():
    model, refused = bank()
    actions = ifonly.credit.actions()
    plans = invert(model, refused.iloc[3], "approved", prob=0.6, actions=actions, n=100)
    sets = [frozenset(name for name, _, _ in plan.changes()) for plan in plans]
    assert plans.complete
    assert (np.diff(plans.cost) >= 0).all()
    assert not any(a < b for a in sets[1:] for b in sets[1:])
    for items in sets[1:]:
        for name in items:
            frozen = [*actions.frozen, *({c.name for c in model.encoding.columns} - items), name]
            less = Actions(frozen=frozen, bounds=actions.bounds, integer=actions.integer)
            assert invert(model, refused.iloc[3], "approved", prob=0.6, actions=less).status is Status.UNREACHABLE
    again = ifonly.Question(actions=plans[1].conditions.actions)  # its restriction is one that can be written
    assert ifonly.Question.from_json(again.to_json()) == again


# ---- closed forms ----


@pytest.mark.seconds
def test_what_closed_forms_say_of_sets_is_what_engines_say():
    seen = set()
    for K, kind in itertools.product((2, 4), ("free", "bounds", "whole numbers", "group", "few changes", "rule", "margin")):
        for case, _ in cases(kind, K, n=1):
            conditions = Conditions(
                case.model, Cost(), Actions(**case.actions), case.options.get("max_changes"), case.options.get("margin")
            )
            gains = Gains(conditions, case.x, Aim(case.k, None, case.options.get("prob")))
            order = [case.items.index(item.tolist()) for item in gains.items]
            for items, n in itertools.product(range(2 ** len(order)), [len(order)]):
                flags = np.array([bool(items >> i & 1) for i in range(n)])
                said = gains.can_reach(flags)
                if said is not None:
                    seen.add(said)
                    assert said == (case.only({order[i] for i in np.flatnonzero(flags)}) is not None)
            alone, least = gains.alone()
            for i, (enough, bound) in enumerate(zip(alone, least, strict=True)):
                plan = case.only({order[i]})
                assert plan is not None or not enough
                if plan is not None:
                    assert bound <= plan.cost * (1 + 1e-9)
    assert seen == {True, False}


@pytest.mark.parametrize("kind", ["bounds", "whole numbers", "group", "few changes", "outside", "l1"])
def test_the_bound_of_covers_is_below_every_minimal_plan(kind, rng):
    for case, _ in cases(kind, 2):
        cost, few = case.options.get("cost", Cost()), case.options.get("max_changes")
        gains = Gains(
            Conditions(case.model, cost, Actions(**case.actions), few), case.x, Aim(case.k, None, case.options["prob"])
        )
        covers, enough = Covers(gains), case.enough()
        place = {case.items.index(item.tolist()): i for i, item in enumerate(gains.items)}
        for items in (items for items in enough if not any(other < items for other in enough)):
            inside = np.zeros(len(gains.items), dtype=bool)
            inside[[place[i] for i in items]] = True
            for _ in range(5):
                some = inside & (rng.random(len(inside)) < 0.5)
                bound, _ = covers.floor(some, inside | (rng.random(len(inside)) < 0.5))
                assert bound <= enough[items].cost * (1 + 1e-9)
            exact, _ = covers.floor(inside, np.zeros_like(inside))
            assert (
                exact >= (0.5 if kind == "whole numbers" else 0.99) * enough[items].cost
            )  # what is between whole numbers counts


@pytest.mark.seconds
@pytest.mark.parametrize("goal", [{"prob": 0.5}, {"margin": 0.0}])
def test_plans_that_are_just_enough(goal):
    """Whole numbers with weights of 1: the goal is met to the last bit, and the same for whoever adds up."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        w, x = rng.choice([-1.0, 1.0, 2.0], size=3), rng.integers(-2, 3, size=3).astype(float)
        model = Model([w, np.zeros(3)], [-float(w @ x) - rng.integers(1, 5), 0.0])
        values = [np.arange(v - 2, v + 3) for v in x]
        costs: dict[tuple[int, ...], float] = {}
        for point in itertools.product(*values):
            if model.scores(np.array(point))[0] >= 0:
                items = tuple(np.flatnonzero(point != x).tolist())
                costs[items] = min(costs.get(items, np.inf), 0.5 * float(np.square(point - x).sum()))
        minimal = {items: cost for items, cost in costs.items() if not any(set(other) < set(items) for other in costs)}
        actions = Actions(integer=[0, 1, 2], bounds={d: (float(x[d] - 2), float(x[d] + 2)) for d in range(3)})
        plans = invert(model, x, 0, **goal, actions=actions, n=10)
        assert all(cf.status is Status.EXACT for cf in plans)
        found = {tuple(np.flatnonzero(cf.x != x).tolist()): cf.cost for cf in plans}
        assert min(found.values()) == min(costs.values())  # the best plan, whether it is minimal or not
        assert {items: found[items] for items in minimal} == minimal
        assert all(model.predict_proba(cf.x)[0] >= 0.5 and cf.verify().claim == "proved" for cf in plans)
