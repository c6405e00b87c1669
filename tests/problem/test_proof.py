"""Proofs by cases: what they prove is true, and what is no proof is refused."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.enumerated import MAKERS, a_goal, drawn, in_fractions

from ifonly import Actions, CertificateError, Cost, InputError, Model, Status, invert
from ifonly.problem.choices import Choices
from ifonly.problem.conditions import Conditions
from ifonly.problem.dual import Dual, Goal, continuous_proof
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.proof import Cut, Leaf, Multipliers, Node, Proof

PROVERS = (Dual, in_fractions)
TOLERANCES = {
    "listed": 1e-11,  # relative to 1 + |value|: values of listed points in float64
    "proved": 1e-9,  # relative: what EXACT means
}


def a_tree(rng, listed, choices: Choices, node: Node, depth: int, n: int) -> list[Cut | Leaf]:
    """Random cuts, and leaves with any of n multipliers."""
    cut = listed.a_cut(rng, node) if depth and rng.random() < 0.9 else None
    if cut is None:
        return [Leaf(int(rng.integers(n)))]
    first, second = choices.cut(node, cut)
    return [cut, *a_tree(rng, listed, choices, first, depth - 1, n), *a_tree(rng, listed, choices, second, depth - 1, n)]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("prover", PROVERS)
@pytest.mark.parametrize("seed", range(15))
def test_whatever_the_tree_and_multipliers_what_is_proved_is_true(kind, prover, seed):
    rng, listed = drawn(kind, seed, 41)
    goal = a_goal(rng, listed)
    dual, made = Dual(listed.problem, goal), prover(listed.problem, goal)
    equal, n = listed.problem.conditions.limits.equal, len(listed.problem.rivals)
    given = []
    for _ in range(5):
        y, nu = rng.dirichlet(np.ones(n + 1))[:n] * (1 - 1e-15), rng.normal(size=len(equal)) * 0.3
        at = None if dual.R is None else rng.normal(size=len(dual.source))
        given.append(Multipliers(y, np.where(equal, nu, np.abs(nu)), at))
    proof = Proof(tuple(a_tree(rng, listed, dual.choices, dual.choices.root, 4, len(given))), tuple(given))
    least = listed.least(dual.choices.root, goal)
    assert float(made.prove(proof).bound) <= least + TOLERANCES["listed"] * (1 + abs(least)) or math.isinf(least)
    if goal.lam is not None:
        return
    # 2. The same tree, all of it about the goal alone: refused, or nothing meets the goal, and misses it by that much.
    out = replace(proof, tree=tuple(entry._replace(reach=True) if isinstance(entry, Leaf) else entry for entry in proof.tree))
    try:
        proved = made.prove(out)
    except CertificateError as error:
        assert "said to miss the goal" in str(error)  # noqa: PT017
        return
    assert math.isinf(proved.bound)
    assert math.isinf(least)
    nearest = float(listed.missed(goal).min(initial=math.inf))
    assert float(proved.missed) <= nearest + TOLERANCES["listed"] * (1 + abs(nearest))


# ---- plain data ----


def same_bits(a, b) -> bool:
    return a is b is None or (a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


def assert_same(proof: Proof, other: Proof) -> None:
    assert proof.tree == other.tree
    assert [type(entry) for entry in proof.tree] == [type(entry) for entry in other.tree]
    assert len(proof.multipliers) == len(other.multipliers)
    for one, two in zip(proof.multipliers, other.multipliers, strict=True):
        assert all(same_bits(a, b) for a, b in zip(one, two, strict=True))


def test_a_proof_comes_back_from_json_bit_by_bit():
    rng = np.random.default_rng(42)
    odd = np.array([5e-324, 1 / 3, np.nextafter(1.0, 2.0), 1.7976931348623157e308, 0.1 + 0.2])
    multipliers = (
        Multipliers(odd, np.zeros(0)),
        Multipliers(rng.random(5) * 10.0 ** rng.integers(-300, 300, 5), -odd, rng.normal(size=3)),
        Multipliers(np.zeros(0), np.zeros(0), np.zeros(0)),
    )
    tree = (
        Cut("value", 3, -0.1, 0.30000000000000004),
        Cut("option", 1, options=(0, 2)),
        Leaf(0),
        Leaf(-1),
        Cut("move", 2),
        Leaf(1, reach=True),
        Leaf(2),
    )
    for some in (multipliers, multipliers[:1]):
        proof = Proof(tree, some)
        assert_same(proof, Proof.from_dict(json.loads(json.dumps(proof.to_dict(), allow_nan=False))))
        assert_same(proof, Proof.from_dict(proof.to_dict()))
    assert (len(proof), proof.n_leaves) == (7, 4)


DAMAGED = {
    "a key too few": lambda data: {k: v for k, v in data.items() if k != "tree"},
    "a key too many": lambda data: {**data, "more": 1},
    "a kind that is none": lambda data: {**data, "tree": [["turn", 0], 0, 0]},
    "no number of a feature": lambda data: {**data, "tree": [["value", 0.5, 1, 2], 0, 0]},
    "a truth value": lambda data: {**data, "tree": [["move", True], 0, 0]},
    "a value too few": lambda data: {**data, "tree": [["value", 0, 1.0], 0, 0]},
    "a value too many": lambda data: {**data, "tree": [["value", 0, 1.0, 2.0, 3.0], 0, 0]},
    "a move with more": lambda data: {**data, "tree": [["move", 0, 1], 0, 0]},
    "no options": lambda data: {**data, "tree": [["option", 0], 0, 0]},
    "options that are none": lambda data: {**data, "tree": [["option", 0, 1.0], 0, 0]},
    "a leaf that is none": lambda data: {**data, "tree": ["0"]},
    "a leaf of nothing": lambda data: {**data, "tree": [[]]},
    "null": lambda data: {**data, "tree": [None]},
    "a leaf of a fraction": lambda data: {**data, "tree": [0.5]},
    "a mapping": lambda data: {**data, "tree": [{"leaf": 0}]},
    "a leaf that is true": lambda data: {**data, "tree": [True]},
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_is_no_proof_as_data_is_refused(case):
    data = Proof((Leaf(0),), (Multipliers(np.ones(1), np.zeros(0)),)).to_dict()
    with pytest.raises(InputError, match="the record is damaged"):
        Proof.from_dict(DAMAGED[case](data))


# ---- what is no proof ----


def searched(goal="prob"):
    """A search with a tree of several cuts: its problem, cost and proof."""
    rng = np.random.default_rng(67)
    model = Model(rng.normal(size=(3, 4)), rng.normal(size=3))
    source = np.array([0.0, 1.0, 0.0, 2.0])
    actions = Actions(integer=[0, 1, 2], bounds=dict.fromkeys(range(4), (-4, 4)))
    what = {"prob": {"prob": 0.7}, "lam": {"lam": 0.05}, "margin": {"margin": 1.0}}[goal]
    if goal == "margin":
        model = Model(model.A, model.b, hard=True)
    k = int(model.scores(source).argmin())
    cf = invert(model, source, k, actions=actions, max_changes=3, **what)
    assert cf.status is Status.EXACT
    problem = LimitedProblem(cf.conditions, source, k)
    about = Goal.of(cf.lam if goal == "lam" else None, cf.prob, cf.conditions.margin)
    return problem, about, cf.cost if goal != "lam" else cf.objective, cf.proof


@pytest.fixture(scope="module", params=["prob", "lam", "margin"])
def found(request):
    problem, goal, value, proof = searched(request.param)
    assert len(proof) >= 7
    return problem, goal, value, proof


@pytest.fixture(params=PROVERS, ids=["floats", "fractions"])
def dual(request, found):
    return request.param(found[0], found[1])


def test_a_search_is_proved(found, dual):
    _, _, value, proof = found
    assert float(dual.prove(proof).bound) == pytest.approx(value, rel=TOLERANCES["proved"])
    assert float(dual.prove(Proof.from_dict(json.loads(json.dumps(proof.to_dict())))).bound) == float(dual.prove(proof).bound)


def test_a_case_that_is_left_out_is_found(found, dual):
    proof = found[3]
    for i in [i for i, entry in enumerate(proof.tree) if isinstance(entry, Leaf)]:
        with pytest.raises(CertificateError, match=r"leaves out|no such cut|has points, but no multipliers"):
            dual.prove(replace(proof, tree=proof.tree[:i] + proof.tree[i + 1 :]))
    for n in range(len(proof)):
        with pytest.raises(CertificateError, match="the proof leaves out"):
            dual.prove(replace(proof, tree=proof.tree[:n]))


def test_a_case_too_many_is_found(found, dual):
    proof = found[3]
    for more in (Leaf(0), Leaf(-1), Cut("move", 0)):
        with pytest.raises(CertificateError, match="goes on after its last leaf"):
            dual.prove(replace(proof, tree=(*proof.tree, more)))


def test_a_cut_in_place_of_a_case_needs_cases_of_its_own(found, dual):
    proof = found[3]
    last = replace(proof, tree=(*proof.tree[:-1], Cut("value", 0, 0.0, 1.0)))
    with pytest.raises(CertificateError, match="the proof leaves out 2"):
        dual.prove(last)


def test_cases_in_another_order_prove_no_more(found, dual):
    """Multipliers of one case are of another: refused, or a bound that is true, if worse."""
    _, _, value, proof = found
    leaves = [i for i, entry in enumerate(proof.tree) if isinstance(entry, Leaf)]
    for i, j in itertools.pairwise(leaves):
        tree = list(proof.tree)
        tree[i], tree[j] = tree[j], tree[i]
        assert_no_more(dual, replace(proof, tree=tuple(tree)), value)
    assert_no_more(dual, replace(proof, tree=proof.tree[::-1]), value)
    for i in range(len(proof) - 1):
        tree = list(proof.tree)
        tree[i], tree[i + 1] = tree[i + 1], tree[i]
        assert_no_more(dual, replace(proof, tree=tuple(tree)), value)


def assert_no_more(dual: Dual, proof: Proof, value: float) -> None:
    try:
        bound = float(dual.prove(proof).bound)
    except CertificateError:
        return
    assert bound <= value * (1 + TOLERANCES["proved"])


def test_multipliers_that_there_are_not_are_found(found, dual):
    _, goal, _, proof = found
    for number in (len(proof.multipliers), 10**9, -1, -2):
        with pytest.raises(CertificateError, match="no multipliers"):
            dual.prove(replace(proof, tree=(Leaf(number),)))
        if goal.lam is None:
            with pytest.raises(CertificateError, match="no multipliers"):
                dual.prove(replace(proof, tree=(Leaf(number, reach=True),)))


WRONG = {
    "negative": (lambda m: m._replace(y=-m.y - 1e-300), "negative"),
    "NaN": (lambda m: m._replace(y=m.y * np.nan), "not finite"),
    "infinite": (lambda m: m._replace(y=m.y + np.inf), "not finite"),
    "too few": (lambda m: m._replace(y=m.y[:-1]), "too few or too many"),
    "too many": (lambda m: m._replace(y=np.append(m.y, 0.0)), "too few or too many"),
    "rules that there are not": (lambda m: m._replace(nu=np.zeros(1)), "too few or too many"),
}


@pytest.mark.parametrize("case", WRONG)
def test_multipliers_that_cannot_be_are_found(case, found, dual):
    proof = found[3]
    make, words = WRONG[case]
    named = {e.multipliers for e in proof.tree if isinstance(e, Leaf)}
    for i in [i for i in range(len(proof.multipliers)) if i in named][:5]:
        multipliers = list(proof.multipliers)
        multipliers[i] = make(multipliers[i])
        used = Proof((Leaf(i),), tuple(multipliers))
        with pytest.raises(CertificateError, match=words):
            dual.prove(used)


def test_worse_multipliers_prove_less(found, dual):
    _, _, value, proof = found
    whole = float(dual.prove(proof).bound)
    for factor in (0.0, 0.5, 0.9):
        weaker = tuple(m._replace(y=m.y * factor) for m in proof.multipliers)
        assert_no_more(dual, replace(proof, multipliers=weaker), value)
    assert whole <= value * (1 + TOLERANCES["proved"])
    nothing = Proof((Leaf(0),), (Multipliers(np.zeros(len(dual.margins)), np.zeros(0)),))
    assert float(dual.prove(nothing).bound) < value


@pytest.mark.parametrize("found", ["prob", "margin"], indirect=True)  # with λ there is no goal
def test_a_goal_that_can_be_met_is_not_said_to_be_missed(found, dual):
    proof = found[3]
    out = tuple(entry._replace(reach=True) if isinstance(entry, Leaf) else entry for entry in proof.tree)
    with pytest.raises(CertificateError, match="said to miss the goal"):
        dual.prove(replace(proof, tree=out))


@pytest.mark.parametrize("below", [0.6, 0.0, -1.0, 1.4])
def test_a_cut_that_leaves_out_the_best_point_proves_nothing(below):
    """Whole numbers: 1 is the best, and a cut around it would leave 2, which costs four times as much."""
    model = Model.binary([4.0, 0.0], -2.0)
    source = np.zeros(2)
    cf = invert(model, source, 1, prob=0.6, actions=Actions(integer=[0], bounds={0: (-3, 3)}, frozen=[1]))
    assert cf.x[0] == 1.0
    dual = Dual(LimitedProblem(cf.conditions, source, 1), Goal.of(None, cf.prob, None))
    above = 1.4 if below < 1 else 2.0
    out, two = Multipliers(np.ones(1), np.zeros(0)), Multipliers(np.full(1, 0.5), np.zeros(0))
    proof = Proof((Cut("value", 0, below, above), Leaf(0, reach=True), Leaf(1)), (out, two))
    try:
        bound = dual.prove(proof).bound
    except CertificateError:
        return
    assert bound <= cf.cost * (1 + TOLERANCES["proved"])


def test_a_source_near_a_grid_point_may_stay_in_one_of_two_parts():
    """0.1 + 0.2 stands for 0.3. A cut at 0.3 itself would make it move in both parts, and nothing else with it."""
    source = np.array([0.1 + 0.2, 0.0])
    model = Model.binary([0.0, 1.0], -1.0)
    actions = Actions(step={0: 0.1}, bounds={0: (0, 1), 1: (-5, 5)})
    cf = invert(model, source, 1, prob=0.6, actions=actions, max_changes=1)
    assert cf.n_changes == 1
    dual = Dual(LimitedProblem(cf.conditions, source, 1), Goal.of(None, cf.prob, None))
    out = Multipliers(np.ones(1), np.zeros(0))
    proof = Proof((Cut("value", 0, 0.3, 0.4), Leaf(0, reach=True), Leaf(0, reach=True)), (out,))
    with pytest.raises(CertificateError):
        dual.prove(proof)


@pytest.mark.parametrize("at", [[np.nan, np.nan], [np.inf, 0.0], [-np.inf, np.inf]])
def test_a_bound_that_is_no_number_proves_nothing(at):
    model = Model.binary([1.0, 1.0], 0.0)
    cost = Cost(matrix=np.array([[2.0, 0.5], [0.5, 1.0]]))
    problem = LimitedProblem(Conditions(model, cost, Actions(integer=[0], bounds={0: (-3, 3)})), np.array([-1.0, -1.2]), 1)
    proof = Proof((Leaf(0),), (Multipliers(np.full(1, 0.5), np.zeros(0), np.array(at)),))
    with np.errstate(all="ignore"):
        try:
            bound = Dual(problem, Goal(top=-0.4)).prove(proof).bound
        except (CertificateError, ValueError):
            return
    assert bound < math.inf


@pytest.mark.parametrize("size", [1e200, 1e308, 1.7e308])
@pytest.mark.parametrize("frozen", [[], [0], [0, 1]])
def test_multipliers_that_overflow_prove_nothing(size, frozen):
    """The source meets the goal, and so the least cost is 0."""
    model = Model(np.array([[2.0, 3.0], [-2.0, 1.0]]), np.array([0.0, 1.0]))
    conditions = Conditions(model, actions=Actions(frozen=frozen), max_changes=1)
    dual = Dual(LimitedProblem(conditions, np.zeros(2), 0), Goal(top=2.0))
    proof = Proof((Leaf(0),), (Multipliers(np.array([size]), np.zeros(0)),))
    with np.errstate(all="ignore"):
        try:
            bound = dual.prove(proof).bound
        except (CertificateError, ValueError, OverflowError):
            return
    assert bound <= 0.0


@pytest.mark.parametrize("prover", PROVERS)
def test_with_lam_there_is_no_goal_to_miss(prover):
    """−ln p is positive everywhere: that shows nothing. Only rules can leave a case without a point."""
    model = Model.binary([1.0], 0.0)
    problem = LimitedProblem(Conditions(model, actions=Actions(integer=[0], bounds={0: (-1, 1)})), np.zeros(1), 1)
    half = Multipliers(np.full(1, 0.5), np.zeros(0))
    with pytest.raises(CertificateError):
        prover(problem, Goal(lam=1.0)).prove(Proof((Leaf(0, reach=True),), (half,)))


# ---- rules that cannot be kept, and continuous problems ----


def test_where_rules_leave_no_point_there_is_nothing_to_miss():
    model = Model.binary([1.0, 1.0], 0.0)
    actions = Actions(bounds=(-1, 1), integer=[0], linear=[({0: 1.0, 1: 1.0}, ">=", 3.0)])
    problem = LimitedProblem(Conditions(model, actions=actions), np.zeros(2), 1)
    for prover in PROVERS:
        dual = prover(problem, Goal(top=0.0))
        rule = Multipliers(np.zeros(1), np.ones(1))
        proved = dual.prove(Proof((Leaf(0, reach=True),), (rule,)))
        assert (proved.bound, proved.missed) == (math.inf, math.inf)
        both = Multipliers(np.ones(1), np.full(1, 3.0))
        assert dual.prove(Proof((Leaf(0, reach=True),), (both,))).missed > 0


@pytest.mark.parametrize("goal", ["prob", "lam", "margin"])
@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("matrix", [False, True])
def test_a_continuous_answer_is_a_proof_of_one_case(goal, K, matrix):
    rng = np.random.default_rng([K, 44])
    model = Model(rng.normal(size=(K, 4)), rng.normal(size=K), hard=goal == "margin")
    source = rng.normal(size=4)
    k = int(model.scores(source).argmin())
    cost = Cost(matrix=np.eye(4) + 0.3, l1=0.05) if matrix else Cost(l1=0.05)
    actions = Actions(bounds=(-4, 4), linear=[({0: 1.0, 1: 1.0}, "<=", float(source[0] + source[1]) + 0.1)])
    what = {"prob": {"prob": 0.6}, "lam": {"lam": 0.1}, "margin": {"margin": 0.2}}[goal]
    cf = invert(model, source, k, cost=cost, actions=actions, **what)
    assert cf.status is Status.EXACT
    problem = LimitedProblem(cf.conditions, source, k)
    proof = continuous_proof(problem, cf.x, cf.prob, cf.lam, cf.result.multipliers)
    assert proof.tree == (Leaf(0),)
    value = cf.objective if goal == "lam" else cf.cost
    about = {"prob": Goal.of(None, cf.prob, None), "lam": Goal(lam=0.1), "margin": Goal(margin=0.2)}[goal]
    for prover in PROVERS:
        bound = float(prover(problem, about).prove(proof).bound)
        # `top` is a little above what was asked, and the bound lower by as much times y: some 1e-15 of it
        assert value * (1 - 1e-8) - 1e-9 <= bound <= value * (1 + 1e-12) + 1e-12
