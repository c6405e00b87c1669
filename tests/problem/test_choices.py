"""What every item may be, and cuts: against lists of all points."""

import numpy as np
import pytest
from helpers.enumerated import MAKERS, NEAR, Listed, a_goal, a_listed, drawn, in_fractions

from ifonly import Actions, CertificateError, InputError, Model
from ifonly.problem.choices import Choices
from ifonly.problem.conditions import Conditions
from ifonly.problem.dual import Dual
from ifonly.problem.proof import MOVES, OPEN, STAYS, Cut, Multipliers, Node

SEEDS = range(30)
DEPTH = 6  # of the trees that are walked


def choices_of(listed: Listed) -> Choices:
    return Choices(listed.problem.conditions, listed.problem.source)


def plain(source=(0.0, 0.0), names=None, most=None, **limits) -> Choices:
    source = np.array(source, dtype=float)
    model = Model(np.eye(2, len(source)), np.zeros(2), feature_names=names)
    return Choices(Conditions(model, actions=Actions(**limits), max_changes=most), source)


# ---- covers ----


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_root_has_all_points_and_children_have_all_points_of_their_node(kind, seed):
    rng, listed = drawn(kind, seed, 21)
    choices = choices_of(listed)
    node = choices.root
    assert listed.within(node).all()
    for _ in range(DEPTH):
        cut = listed.a_cut(rng, node)
        if cut is None:
            break
        parts = choices.cut(node, cut)
        here, (first, second) = listed.within(node), (listed.within(part) for part in parts)
        np.testing.assert_array_equal(here, first | second)
        if cut.kind != "move":  # what counts among those that move may be as it was all the same
            assert not (first & second).any()
        node = parts[int(rng.integers(2))]


def assert_refused_if_between(listed: Listed, d: int, below: float, above: float) -> None:
    """If an allowed value is strictly between two numbers, they are no cut."""
    values, choices = np.array(listed.values[d]), choices_of(listed)
    if ((values > below + NEAR) & (values < above - NEAR)).any():
        with pytest.raises(CertificateError, match="a cut leaves out what is between"):
            choices.cut(choices.root, Cut("value", d, float(below), float(above)))


@pytest.mark.parametrize("between", [(0.0, 1.0), (0.0, 0.5), (0.5, 1.0), (-1.0, 0.0), (1.0, 2.0)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_column_of_a_group_is_cut_like_any_whole_number(seed, between):
    """Both checkers of proofs take such cuts: nothing is left out, and what is said of the parts is true of their points."""
    rng, listed = drawn("grids", seed, 24)
    goal, choices = a_goal(rng, listed), choices_of(listed)
    floats, fractions = Dual(listed.problem, goal), in_fractions(listed.problem, goal)
    for d in choices.columns.tolist():
        parts = choices.cut(choices.root, Cut("value", d, *between))
        first, second = (listed.within(part) for part in parts)
        np.testing.assert_array_equal(listed.within(choices.root), first | second)
        for part, inside in zip(parts, (first, second), strict=True):
            assert floats.empty(part) == fractions.empty(part)
            assert not (floats.empty(part) and inside.any())
            y = rng.dirichlet(np.ones(len(floats.margins) + 1))[:-1] * (1 - 1e-15)
            given, least = Multipliers(y, np.zeros(len(floats.over))), listed.least(part, goal)
            if not floats.empty(part):
                assert floats.bound(part, given).value <= fractions.bound(part, given) <= least * (1 + NEAR) + NEAR


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_between_values_that_are_not_neighbours_is_refused(kind, seed):
    rng, listed = drawn(kind, seed, 22)
    for d in (item[0] for item in listed.items if len(item) == 1):
        for _ in range(10):
            assert_refused_if_between(listed, d, *np.sort(rng.choice(listed.values[d], 2)))


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(5))
def test_a_cut_between_any_two_numbers_with_a_value_between_them_is_refused(kind, seed):
    rng, listed = drawn(kind, seed, 25)
    for d in (item[0] for item in listed.items if len(item) == 1):
        least, most = listed.values[d][0], listed.values[d][-1]
        for _ in range(50):
            assert_refused_if_between(listed, d, *np.sort(rng.uniform(least - 1, most + 1, 2)))


def test_what_is_between_two_numbers_of_a_continuous_feature_is_not_left_out():
    choices = plain(bounds={0: (-1, 1)})
    for below, above in (
        (0.0, 1e-300),
        (0.0, np.nextafter(0.0, 1.0)),
        (-0.5, 0.5),
        (np.nan, 0.0),
        (0.0, np.nan),
        (0.0, np.inf),
    ):
        with pytest.raises(CertificateError, match="a cut leaves out what is between"):
            choices.cut(choices.root, Cut("value", 0, below, above))
    first, second = choices.cut(choices.root, Cut("value", 0, 0.25, 0.25))
    assert (first.lo[0], first.hi[0], second.lo[0], second.hi[0]) == (-1.0, 0.25, 0.25, 1.0)


@pytest.mark.parametrize("seed", range(10))
def test_between_two_floats_there_is_no_value_of_a_mapped_column(seed):
    """A source a rounding beside a quantile is a value of its own, and cuts may be between the two."""
    _, listed = drawn("uneven", seed, 23)
    choices = choices_of(listed)
    for quantile in listed.values[2]:
        for below, above in ((np.nextafter(quantile, -np.inf), quantile), (quantile, np.nextafter(quantile, np.inf))):
            first, second = choices.cut(choices.root, Cut("value", 2, float(below), float(above)))
            assert (first.hi[2], second.lo[2]) == (min(below, choices.root.hi[2]), max(above, choices.root.lo[2]))


@pytest.mark.parametrize(
    "values", [(0.6, 1.4), (0.6, 1.6), (0.4, 1.4), (1.0, 3.0), (0.0, 2.0), (-np.inf, np.inf), (0.0, np.nan)]
)
def test_a_cut_that_leaves_out_a_whole_number_is_refused(values):
    choices = plain(integer=[0], bounds={0: (-5, 5)})
    below, above = values
    with pytest.raises(CertificateError, match="a cut leaves out what is between"):
        choices.cut(choices.root, Cut("value", 0, below, above))


def test_a_cut_beside_a_source_that_is_a_grid_point_but_for_rounding_keeps_the_source():
    """0.1 + 0.2 is 0.3 to whoever asked, and stays as it is: then it is in one of the parts."""
    own = 0.1 + 0.2
    for cut in (Cut("value", 0, 0.3, 0.4), Cut("value", 0, 0.2, 0.3)):
        choices = plain((own, 0.0), step={0: 0.1}, bounds={0: (0, 1)}, most=1)
        assert choices.rests(choices.root).all()
        try:
            parts = choices.cut(choices.root, cut)
        except CertificateError:
            continue
        assert any(choices.rests(part)[0] for part in parts)


def test_cuts_of_what_there_is_not_are_refused():
    choices = plain((0.0, 1.0, 0.0), one_of=[[1, 2]], integer=[0], most=1)
    for cut in (
        Cut("value", 3, 0.0, 1.0),
        Cut("value", -1, 0.0, 0.0),
        Cut("move", 2),
        Cut("move", -1),
        Cut("option", 1, options=(0,)),
        Cut("option", -1, options=(0,)),
        Cut("turn", 0),
    ):
        with pytest.raises(CertificateError, match="there is no such cut"):
            choices.cut(choices.root, cut)
    stays, moves = choices.cut(choices.root, Cut("move", 0))
    assert (stays.state[0], moves.state[0], choices.root.state[0]) == (STAYS, MOVES, OPEN)
    for node in (stays, moves):
        with pytest.raises(CertificateError, match="there is no such cut"):
            choices.cut(node, Cut("move", 0))


def test_a_cut_leaves_the_node_itself_alone():
    choices = plain((0.0, 1.0, 0.0), one_of=[[1, 2]], integer=[0], bounds={0: (-2, 2)})
    before = Node(*(part.copy() for part in choices.root))
    for cut in (Cut("value", 0, 0.0, 1.0), Cut("move", 1), Cut("option", 0, options=(1,))):
        choices.cut(choices.root, cut)
        for part, was in zip(choices.root, before, strict=True):
            np.testing.assert_array_equal(part, was)


# ---- values ----


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_of_a_convex_function_is_beside_where_it_is_least(kind, seed):
    rng, listed = drawn(kind, seed, 23)
    choices, singles = choices_of(listed), [item[0] for item in listed.items if len(item) == 1]
    node = choices.root
    for _ in range(3):
        at = rng.normal(size=len(node.lo)) * 3
        beside = choices.beside(node, at)
        nearest = choices.nearest(node, at)
        left, right = rng.uniform(0.1, 3.0, 2)
        for d in singles:
            allowed = np.array([v for v in listed.values[d] if node.lo[d] - NEAR <= v <= node.hi[d] + NEAR])
            found = beside[:, d][~np.isnan(beside[:, d])]
            assert (np.abs(allowed[:, None] - found).min(axis=0) <= NEAR).all()  # nothing that is not allowed
            here, there = (np.where(v < at[d], left * (at[d] - v), right * (v - at[d])) for v in (found, allowed))
            assert here.min() <= there.min() + NEAR
            assert abs(nearest[d] - at[d]) <= np.abs(allowed - at[d]).min() + NEAR
        cut = listed.a_cut(rng, node)
        if cut is None or cut.kind != "value":
            continue
        node = choices.cut(node, cut)[int(rng.integers(2))]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_may_rest_is_what_some_point_leaves_alone(seed):
    """Of each item by itself: rules and the number of changes are left out."""
    listed = a_listed(np.random.default_rng([seed, 24]), rules=False)
    choices, source = choices_of(listed), listed.problem.source
    expected = [all(source[d] in listed.values[d] for d in item) for item in listed.items]
    for j, item in enumerate(listed.items):
        if len(item) > 1:  # one-hot: all but the 1 are 0 anyway
            expected[j] = 1.0 in listed.values[item[int(source[item].argmax())]]
    assert choices.rests(choices.root).tolist() == expected


def test_options_are_those_that_no_bound_rules_out():
    choices = plain((1.0, 0.0, 0.0), one_of=[[0, 1, 2]], bounds={1: (0, 0)})
    group, root = choices.groups[0], choices.root
    assert choices.options(root)[group].tolist() == [True, False, True]
    first, second = choices.cut(root, Cut("option", 0, options=(2,)))
    assert choices.options(first)[group].tolist() == [False, False, True]
    assert choices.options(second)[group].tolist() == [True, False, False]
    must = Node(np.array([0.0, 0.0, 1.0]), root.hi, root.state)
    assert choices.options(must)[group].tolist() == [False, False, True]


def test_how_many_may_move():
    assert not plain(most=None).capped
    assert not plain(most=2).capped
    assert plain(most=1).capped
    assert plain(most=9).most == 2
    group = plain((1.0, 0.0, 0.0), one_of=[[0, 1]], most=1)
    assert (group.n_items, group.singles.tolist(), group.capped) == (2, [2], True)


def test_limits_without_a_point_are_refused():
    with pytest.raises(InputError, match="there is no value for it"):
        _ = plain((2.0, 0.0), bounds={0: (-1, 1)}, increase=[0]).root
