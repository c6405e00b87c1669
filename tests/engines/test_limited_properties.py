"""Costs and limits: what must hold between two answers, whatever the problem."""

import numpy as np
import pytest
from helpers.limits import COSTS, LIMITS, attempt, make
from hypothesis import given, settings
from hypothesis import strategies as st

from ifonly import Actions, Cost, Model, Status, invert

seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(COSTS)
walls = st.sampled_from(LIMITS)
wishes = st.sampled_from(["lam", "prob"])
some_runs = settings(max_examples=25)


def solved(case, actions=None, cost=None):
    """What an answer's value is and how far from the least it can be; (inf, 0) where there is none."""
    case.actions, case.cost = actions or case.actions, cost or case.cost
    cf = case.solve()
    if cf.status is Status.UNREACHABLE:
        return cf, np.inf, 0.0
    value = cf.objective if case.prob is None else cf.cost
    return cf, value, cf.gap + 1e-13 * (1 + abs(value))  # a value itself is rounded


@some_runs
@given(seed=seeds, cost=kinds, wish=wishes, share=st.floats(0.05, 0.95), K=st.integers(2, 5))
def test_a_tighter_limit_never_costs_less(seed, cost, wish, share, K):
    case = make(np.random.default_rng(seed), cost, "both sides", K, wish)
    bounds = case.actions.bounds
    names = sorted(bounds)
    tight = {
        name: (lo + share * (case.source[int(name[1:])] - lo) if d % 2 else lo, hi) for d, (name, (lo, hi)) in
        enumerate(bounds.items())
    }  # fmt: skip
    _, wide, gap = solved(case)
    for actions in (
        Actions(bounds=tight),
        Actions(bounds=bounds, frozen=names[:1]),
        Actions(bounds=bounds, increase=names[-1]),
    ):
        _, narrow, more = solved(case, actions)
        assert narrow >= wide - gap - more


with_l1 = st.one_of(
    st.tuples(st.sampled_from(["l1", "array, l1 each"]), wishes),
    st.just(("matrix, l1", "lam")),  # with a probability that is out of reach one takes ten seconds; `test_limited` has some
)


@some_runs
@given(seed=seeds, asked=with_l1, K=st.integers(2, 5))
def test_freezing_what_did_not_move_changes_nothing(seed, asked, K):
    cost, wish = asked
    case = make(np.random.default_rng(seed), cost, "both sides", K, wish)
    first, value, gap = solved(case)
    still = np.flatnonzero(first.x == case.source).tolist()
    second, again, more = solved(case, Actions(bounds=case.actions.bounds, frozen=still))
    assert first.status == second.status
    if first.status is not Status.UNREACHABLE:
        assert abs(value - again) <= gap + more
        # (λ/2)‖t − t*‖² ≤ E − E*, for both
        lam = case.lam or 1.0
        change = first.x - second.x
        assert np.sqrt(change @ case.Q @ change) <= np.sqrt(2 * gap / lam) + np.sqrt(2 * more / lam) + 1e-9


@some_runs
@given(seed=seeds, cost=st.sampled_from(["none", "array", "array, l1 each", "matrix"]), limits=walls, wish=wishes)
def test_the_order_of_features_does_not_matter(seed, cost, limits, wish):
    case = make(np.random.default_rng(seed), cost, limits, 2 + seed % 4, wish, scaled=False)
    order = np.random.default_rng(seed + 1).permutation(len(case.source))
    names = [f"f{d}" for d in order]
    other = Model(case.model.A[:, order], case.model.b, feature_names=names)
    turned = case.cost
    if turned is not None:
        l1 = turned.l1 if np.ndim(turned.l1) == 0 else np.asarray(turned.l1)[order]  # a mapping goes by name
        scale = turned.scale[order] if isinstance(turned.scale, np.ndarray) else turned.scale
        matrix = None if turned.matrix is None else np.asarray(turned.matrix)[np.ix_(order, order)]
        turned = Cost(scale=scale, l1=l1, matrix=matrix)
    if attempt(case) is None:
        return
    one, value, gap = solved(case)
    two = invert(other, case.source[order], case.k, lam=case.lam, prob=case.prob, cost=turned, actions=case.actions)
    assert one.status == two.status
    if one.status is not Status.UNREACHABLE:
        again = two.objective if case.prob is None else two.cost
        assert abs(value - again) <= gap + two.gap + 1e-13 * (1 + abs(value))


@some_runs
@given(seed=seeds, wish=wishes, K=st.integers(2, 6))
def test_scales_of_one_and_no_limits_are_the_problem_itself(seed, wish, K):
    """Cost(ones), Cost("raw"), the identity matrix and Actions() all are the plain inversion, to the certificates."""
    case = make(np.random.default_rng(seed), "none", "none", K, wish, scaled=False)
    D = len(case.source)
    plain = invert(case.model, case.source, case.k, lam=case.lam, prob=case.prob)
    alike = [
        {"cost": Cost(scale=np.ones(D))},
        {"cost": Cost(scale="raw")},
        {"actions": Actions()},
        {"cost": Cost(matrix=np.eye(D))},
        {"cost": Cost(scale=dict.fromkeys(range(D), 1.0)), "actions": Actions(linear=[({0: 1.0}, "<=", 1e6)])},
        {"cost": Cost(l1=np.zeros(D)), "actions": Actions(bounds=(-1e6, 1e6))},
    ]
    for more in alike:
        cf = invert(case.model, case.source, case.k, lam=case.lam, prob=case.prob, **more)
        if plain.status is Status.UNREACHABLE or cf.status is Status.UNREACHABLE or np.isinf(plain.lam):
            assert cf.status == plain.status
            continue
        # with prob, x may be overshot by what rounding asks for, and no two methods ask for the same: 1e-10 of the distance
        near = plain.error_bound + cf.error_bound + 1e-10 * (1 + plain.distance)
        assert np.linalg.norm(cf.x - plain.x) <= near
        assert cf.distance == pytest.approx(plain.distance, rel=1e-9, abs=1e-12)


@some_runs
@given(seed=seeds, wish=wishes, K=st.integers(2, 5), low=st.floats(0, 1), more=st.floats(0.01, 3))
def test_more_l1_never_moves_more(seed, wish, K, low, more):
    """Σ|t| does not rise with μ. (How many features move may rise and fall on the way, as on any lasso path.)"""
    case = make(np.random.default_rng(seed), "none", "both sides", K, wish)
    lengths, gaps = [], []
    for l1 in (low, low + more):
        cf, _, gap = solved(case, cost=Cost(l1=l1))
        if cf.status is Status.UNREACHABLE:
            return
        lengths.append(float(np.sqrt(np.diag(case.Q)) @ np.abs(cf.x - case.source)))
        gaps.append(gap)
    assert lengths[1] <= lengths[0] + sum(gaps) / more + 1e-9


@some_runs
@given(seed=seeds, wish=wishes, K=st.integers(2, 5), times=st.floats(1.1, 10))
def test_a_dearer_feature_never_moves_more(seed, wish, K, times):
    case = make(np.random.default_rng(seed), "array", "both sides", K, wish)
    scale = np.asarray(case.cost.scale)
    cf, _, gap = solved(case)
    if cf.status is Status.UNREACHABLE:
        return
    d = int(np.abs((cf.x - case.source) * scale).argmax())
    dear = scale.copy()
    dear[d] *= times
    again, _, more = solved(case, cost=Cost(scale=dear))
    lam = case.lam or 1.0
    slack = (gap + more) / (lam * scale[d] ** 2 * (times**2 - 1) / 2)
    assert (again.x[d] - case.source[d]) ** 2 <= (cf.x[d] - case.source[d]) ** 2 + slack + 1e-12


@some_runs
@given(seed=seeds, cost=kinds, limits=walls, K=st.integers(2, 5), taus=st.tuples(st.floats(0.3, 0.9), st.floats(0.01, 0.09)))
def test_more_probability_never_costs_less(seed, cost, limits, K, taus):
    case = make(np.random.default_rng(seed), cost, limits, K, "prob")
    if attempt(case) is None:
        return
    case.prob = taus[0]
    _, low, gap = solved(case)
    case.prob = taus[0] + taus[1]
    _, high, more = solved(case)
    assert high >= low - gap - more


@pytest.mark.parametrize(
    "limits", [{}, {"integer": [0]}, {"linear": [({0: 1.0, 1: 1.0}, "<=", 6.0)]}], ids=lambda limits: "".join(limits) or "plain"
)
@pytest.mark.parametrize("goal", [{"prob": 0.7}, {"lam": 0.1}, {"margin": 0.5}], ids="".join)
@pytest.mark.parametrize("K", [2, 3, 4])
def test_a_source_beyond_a_bound_by_next_to_nothing_is_moved_to_it(loops, rng, K, goal, limits):
    """In units of cost the way there is too short for any float but 0, which stands for a feature that stays."""
    model = Model(rng.normal(size=(K, 3)), rng.normal(size=K))
    for side in (-1.0, 1.0):
        x = np.append(-side * 5e-324, rng.normal(size=2))
        bounds = {0: (0.0, 3.0) if side > 0 else (-3.0, 0.0), 1: (-5, 5)}
        asked = {"actions": Actions(bounds=bounds, **limits), "cost": Cost(scale=[0.2, 1.0, 1.0]), **goal}
        k = int(model.scores(x).argmin())
        for cf in (invert(model, x, k, **asked), *invert(model, np.stack([x, x]), k, **asked)):
            assert bounds[0][0] <= cf.x[0] <= bounds[0][1]
            cf.verify()
