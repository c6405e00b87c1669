"""The edges of good input are solved like any other: degenerate weights, and the ends of the range."""

import math

import numpy as np
import pytest
from helpers.problems import half
from helpers.small import MODEL, NEARLY_ONE, PAIR, SAME, A, B, X, sound, true_bound
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ifonly import InputError, Model, Status, invert
from ifonly.engines.class_space import cancels

pytestmark = pytest.mark.usefixtures("loops")

# ---- solved: degenerate weights ----


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("row", [np.zeros(4), np.ones(4), np.array([0.1, 0.2, 0.3, 0.7]), np.full(4, 1e6)])
@pytest.mark.parametrize("lam", [1e-6, 1.0, 1e6])
def test_with_all_rows_equal_the_source_is_the_answer(K, row, lam):
    cf = sound(invert(Model(np.tile(row, (K, 1)), np.arange(K)), X, 0, lam=lam))
    np.testing.assert_array_equal(cf.x, X)
    assert cf.distance == 0.0


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("row", [np.zeros(4), np.array([0.1, 0.2, 0.3, 0.7])])
def test_with_all_rows_equal_no_other_probability_is_reachable_and_the_best_is_named(K, row):
    model = Model(np.tile(row, (K, 1)), np.arange(K))
    cf = invert(model, X, 0, prob=0.9)
    best = model.predict_proba(X)[0]
    cf.verify()
    assert cf.status is Status.UNREACHABLE
    np.testing.assert_array_equal(cf.x, X)
    assert f"p = 0.9 is out of reach for 0: the best is p = {best:.6g}" in cf.message


def test_with_all_rows_equal_nobody_knows_a_probability_that_is_there_but_for_rounding():
    """It was UNREACHABLE, and x reached it: logits of 1e5 take digits from the differences of b."""
    model = Model([[29396.283197057877, 10838.5366910211]] * 2, [1.4520539808766388, -0.5300751935546683])
    source = [-3.579283496791124, 1.7908599551921893]
    cf = invert(model, source, 1, prob=float(model.predict_proba(source)[1]))
    assert cf.status is Status.MAX_ITER
    cf.verify()
    at_zero = Model(np.zeros((2, 2)), model.b)  # there are no digits to take
    assert sound(invert(at_zero, source, 1, prob=float(at_zero.predict_proba(source)[1]))).distance == 0.0


@pytest.mark.parametrize("K", [2, 3])
def test_with_all_rows_equal_no_row_of_a_table_has_a_nearest_class(K):
    """Of two classes they were INVALID: no bound on the distance is finite, and no class was tried."""
    model = Model(np.zeros((K, 4)), np.arange(K))
    assert [cf.status for cf in invert(model, np.tile(X, (20, 1)), None, prob=0.99)] == [Status.UNREACHABLE] * 20


def test_with_all_rows_equal_a_probability_that_is_there_is_reached():
    cf = sound(invert(Model(np.ones((3, 4)), [0.0, 1.0, 9.0]), X, 2, prob=0.9))
    np.testing.assert_array_equal(cf.x, X)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_a_class_with_twins_reaches_no_more_than_its_share(copies):
    model = Model(np.vstack([A, *[A[:1]] * copies]), np.zeros(3 + copies))
    share = 1 / (1 + copies)
    cf = invert(model, X, 0, prob=share + 0.1)
    cf.verify()
    assert cf.status is Status.UNREACHABLE
    assert cf.proba[0] == pytest.approx(share, abs=1e-9)
    assert f"the best is p = {share:.6g}" in cf.message
    below = sound(invert(model, X, 0, prob=share - 1e-3))
    assert below.proba[0] == pytest.approx(share - 1e-3, abs=1e-9)


@pytest.mark.parametrize("prob", [0.6, 0.9, NEARLY_ONE])
def test_a_class_between_two_others_has_a_best_probability(prob):
    """D = 1: the middle row of three is beaten on both sides; its best is 1/(1 + 2e^{-1}) at x = 0."""
    model = Model([[-1.0], [0.0], [1.0]], [0.0, 1.0, 0.0])
    cf = invert(model, [5.0], 1, prob=prob)
    best = 1 / (1 + 2 * np.exp(-1.0))
    cf.verify()
    assert cf.status is Status.UNREACHABLE
    assert cf.proba[1] == pytest.approx(best, abs=1e-12)
    assert f"the best is p = {best:.6g}" in cf.message


@pytest.mark.parametrize("lam", [1e-4, 1e-1, 1e2])
@pytest.mark.parametrize("rows", [[0, 1, 2, 2], [0, 0, 1, 2], [0, 1, 1, 1]])
@pytest.mark.parametrize("target", [0, 1, 3])
def test_duplicate_rows_are_solved(rows, target, lam):
    true_bound(sound(invert(Model(A[rows], B[[0, 1, 2, 2]]), X, target, lam=lam)))


@pytest.mark.parametrize("options", [{"lam": 0.01}, {"prob": 0.95}])
@pytest.mark.parametrize("target", [0, 1, 2])
def test_a_zero_row_is_solved(target, options):
    true_bound(sound(invert(Model(A * [[1], [0], [1]], B), X, target, **options)))


# ---- solved: the ends of the range ----


@pytest.mark.parametrize("target", ["a", "b", "c"])
@pytest.mark.parametrize("lam", 10.0 ** np.arange(-8, 9, 2))
def test_lam_may_be_tiny_or_huge(lam, target):
    cf = sound(invert(MODEL, X, target, lam=lam))
    best = true_bound(cf)
    assert best.distance_to(cf.x) <= 1e-13 * (1 + best.norm())


@pytest.mark.parametrize("lam", 10.0 ** np.arange(-8, 9, 4))
@pytest.mark.parametrize("label", ["no", "yes"])
def test_lam_may_be_tiny_or_huge_for_two_classes(lam, label):
    cf = sound(invert(PAIR, X, label, lam=lam))
    best = true_bound(cf)
    assert best.distance_to(cf.x) <= 1e-14 * (1 + best.norm())


LARGE = {
    "biases": (A, B * 3e6, X),
    "weights": (A * 1e6, B, X),
    "source": (A, B, X * 1e6),
    "weights of two classes": (A[:2] * 1e6, B[:2], X),
    "biases of two classes": (A[:2], B[:2] * 3e6, X),
    "weights of more classes than features": (np.vstack([A, -A]) * 1e6, np.zeros(6), X),
}


@pytest.mark.parametrize(("lam", "what"), half([1e-6, 1e-3, 1.0, 1e3, 1e6], LARGE))
def test_logits_of_a_million_are_solved_for_lam(what, lam):
    weights, biases, x = LARGE[what]
    for k in range(2):
        true_bound(sound(invert(Model(weights, biases), x, k, lam=lam)))


@pytest.mark.parametrize("prob", [1e-6, 0.5, 0.9, 1 - 1e-9, NEARLY_ONE])
@pytest.mark.parametrize("what", LARGE)
def test_logits_of_a_million_are_solved_for_prob(what, prob):
    weights, biases, x = LARGE[what]
    model = Model(weights, biases)
    for k in range(len(biases)):
        cf = sound(invert(model, x, k, prob=prob))
        assert prob < 0.5 or model.predict(cf.x) == k


@pytest.mark.parametrize(
    ("options", "factor", "columns"),
    half([{"lam": 1e-4}, {"lam": 1.0}, {"lam": 1e8}, {"prob": 0.5}, {"prob": 0.99}], [1e-8, 1e8], [[0], [3], [0, 1, 2, 3]]),
)
def test_columns_may_be_scaled_by_eight_orders_of_magnitude(rng, columns, factor, options):
    scaled = A.copy()
    scaled[:, columns] *= factor
    for k, x in enumerate(rng.normal(size=(3, 4))):
        cf = sound(invert(Model(scaled, B), x, k, **options))
        assert np.isinf(cf.lam) or true_bound(cf)


@pytest.mark.parametrize("options", [{"lam": 1e4}, {"lam": 1e8}, {"prob": 0.5}, {"prob": 0.9}])
@pytest.mark.parametrize("x", [1.0, 0.37, 0.7, -0.123])
@pytest.mark.parametrize("K", [2, 3])
def test_verify_allows_for_the_rounding_of_a_source_far_longer_than_the_answer(K, x, options):
    """x* is some 1e-8 but made as x̄ + Δ with x̄ near 1: its own rounding moves a logit of weight 1e8 by 1e-8."""
    sound(invert(Model([[0.0], [1e8], [2e8]][:K], [0.0, 0.5, -0.5][:K]), [x], 0, **options))


@pytest.mark.parametrize("options", [{"lam": 1e-2}, {"prob": 0.5}, {"prob": 0.99}])
@pytest.mark.parametrize(
    "exponents", [(8, 0, 0, 0), (0, -8, 0, 0), (8, -8, 0, 0), (-8, 8, -8, 8), (8, 8, 8, 8), (-8, -8, -8, -8)]
)
def test_features_may_come_in_units_of_any_size(exponents, options):
    unit = 10.0 ** np.array(exponents)
    for k in range(3):
        sound(invert(Model(A * unit, B), X / unit, k, **options))


@pytest.mark.parametrize("K", [2, 3, 7])
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1e2])
def test_one_feature_is_enough(rng, K, lam):
    model = Model(rng.normal(size=(K, 1)), rng.normal(size=K))
    for k in range(K):
        cf = sound(invert(model, rng.normal(size=1), k, lam=lam))
        best = true_bound(cf)
        assert best.distance_to(cf.x) <= 1e-13 * (1 + best.norm())


@pytest.mark.parametrize("options", [{"lam": 1e-4}, {"lam": 1.0}, {"prob": 1e-6}, {"prob": 0.5}, {"prob": NEARLY_ONE}])
@pytest.mark.parametrize("label", ["no", "yes"])
@pytest.mark.parametrize("x", [X, -X, np.zeros(4)])
def test_two_rows_and_one_weight_vector_are_the_same_model(x, label, options):
    binary = Model.binary(A[1] - A[0], B[1] - B[0], classes=["no", "yes"])
    two, one = sound(invert(PAIR, x, label, **options)), sound(invert(binary, x, label, **options))
    np.testing.assert_allclose(one.x, two.x, **SAME)
    np.testing.assert_allclose(binary.predict_proba(x), PAIR.predict_proba(x), rtol=1e-14)


@pytest.mark.parametrize("prob", [1e-6, 1e-300, 0.5, 1 - 1e-15, NEARLY_ONE])
def test_a_probability_next_to_zero_or_one_is_reached(rng, prob):
    for K, D in [(2, 3), (3, 3), (5, 6), (10, 30)]:
        model = Model(rng.normal(size=(K, D)), rng.normal(size=K))
        for x in 3 * rng.normal(size=(5, D)):
            for k in range(min(K, 3)):
                cf = sound(invert(model, x, k, prob=prob))
                assert prob < 0.5 or model.predict(cf.x) == k


def test_a_probability_that_rounding_drowns_is_not_claimed():
    """The rows differ by 1e-13 of their length: no x tells them apart in float64, whatever exact arithmetic says."""
    model = Model(A[[0, 0]] * [[1.0], [1 + 1e-13]] * 1e6, [0.0, 0.0])
    cf = invert(model, X, 0, prob=0.9)
    assert not cf.status.ok or model.predict_proba(cf.x)[0] >= 0.9


@pytest.mark.parametrize("form", ["lam", "prob"])
def test_a_source_in_the_millions_of_a_pipeline_is_solved(rng, form):
    rows = rng.normal(size=(200, 3)) * [1.0, 1e-3, 1e5] + [2e6, 5.0, -3e7]
    labels = (rows - rows.mean(axis=0)) @ [1.0, 1e3, 1e-5] > 0
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    for cf in invert(estimator, rows[:20], "opposite", **{form: 0.7}):
        sound(cf)


@pytest.mark.parametrize("lam", [1e-310, 1e-101, 1.1e100, 1e305])
def test_lam_beyond_all_measure_is_refused(lam):
    model = Model(np.eye(3), np.zeros(3))
    for value in (lam, [1.0, lam]):
        with pytest.raises(InputError, match="lam must be from 1e-100 to 1e\\+100"):
            invert(model, np.eye(3)[0] if value is lam else np.eye(3)[:2], 1, lam=value)


@pytest.mark.parametrize("size", [1e20, 1e60, 1e99])
def test_source_that_rounds_to_anything_is_out_of_reach(size, rng):
    model = Model(rng.normal(size=(4, 6)), rng.normal(size=4))
    cf = invert(model, size * rng.normal(size=6), 1, prob=0.6)
    assert cf.status in (Status.UNREACHABLE, Status.EXACT)
    assert np.isfinite(cf.x).all()


@pytest.mark.parametrize("size", [1e101, 1e200, 1e300])
def test_source_whose_square_overflows_is_refused(size, rng):
    model = Model(rng.normal(size=(4, 6)), rng.normal(size=4))
    X = np.stack([rng.normal(size=6), np.full(6, size)])
    with pytest.raises(InputError, match="so large"):
        invert(model, X[1], 1, lam=0.1)
    assert invert(model, X, 1, lam=0.1).status.tolist() == [Status.EXACT, Status.INVALID]


@pytest.mark.parametrize("K", [2, 3, 32, 60, 500])
def test_rows_that_do_not_differ(K):
    """No change of x changes anything: the source is the answer, or nothing is."""
    model = Model(np.zeros((K, 2)), np.zeros(K))
    cf = invert(model, [1.0, 2.0], 0, lam=1.0)
    assert (cf.status, cf.x.tolist()) == (Status.EXACT, [1.0, 2.0])
    assert invert(model, [1.0, 2.0], 0, prob=0.9).status is Status.UNREACHABLE
    assert invert(model, [[1.0, 2.0]] * 40, 0, lam=1.0).x.tolist() == [[1.0, 2.0]] * 40


def test_where_pulls_cancel_to_rounding_the_search_begins_at_the_source():
    """Two rows differ in their last digits: the start for λ = 1e-26 was rounding at 1e12, and shut the bracket from above."""
    row = [0.22653357558569173, -0.24201281251632192]
    twin = [0.2265335755857019, -0.24201281251629292]
    A = np.array([row, [2.7362087808670603, -0.6484067449012605], [-0.03344769334204691, -0.0712831886530397], twin])
    b = np.array([-1.0122081749206137e-07, -1.1037846910236928e-06, -1.7058039312050142e-06, -4.804890413018059e-07])
    cf = sound(invert(Model(A, b), [0.41910480026781854, -1.1203620060539392], 3, prob=0.16650442050504005))
    assert cf.distance < 0.2
    assert cf.proba[3] == pytest.approx(0.16650442050504005, abs=1e-12)


@pytest.mark.parametrize("n_rows", [1, 20])
def test_what_is_more_rounding_than_change_is_no_answer_in_any_loop(n_rows):
    """Two rows differ in their last bits: compiled rows went 1e4 times as far as the goal is, and were called EXACT."""
    b, X = [2.198337629024479e-05, 2.8514008607483875e-05], np.full((n_rows, 1), 1.30460178)
    near = Model([[-0.09671219426811063], [-0.09671219426811068]], b)
    assert {cf.status for cf in invert(near, X, 0, prob=0.5)} == {Status.MAX_ITER}
    apart = Model([[-0.09671219426811063], [-0.09671219426811078]], b)
    for cf in invert(apart, X, 0, prob=0.5):  # four times as far, rounding can no longer undo it
        sound(cf)
        assert cf.distance < 4 * 42780150247.86534


@pytest.mark.parametrize("n_rows", [1, 20])
def test_no_probability_whose_logits_are_a_guess_is_called_exact_in_any_loop(n_rows):
    """Rows that differ in their last digits, at a distance of 1e14: compiled rows ended at 0.96 where 0.3 was asked for."""
    row = np.array([-1.5773639787493248, -0.7618285200246185, -0.589975925619382, 4.7159455842756195])
    ulps = np.array([[0, 0, 0, 0], [119, -100, -51, 79], [21, -71, -12, 54], [146, -125, 39, -19]])
    model = Model(row + ulps * np.spacing(np.abs(row)), [0.36251366, -0.54196595, -0.55356421, 0.09557202])
    source = [-2.98507592, -0.70930221, -0.88364584, 1.61221163]
    for cf in invert(model, np.tile(source, (n_rows, 1)), 1, prob=0.3):
        cf.verify()
        assert cf.proba[1] == pytest.approx(0.3, rel=1.0)


def between(kind, rng):
    """Weights of five classes, the last of which is between the first four, or is but for its last digits."""
    A = rng.normal(size=(5, 30))
    if kind == "fractions":
        A = np.rint(8 * A)
    A[4] = A[:4].mean(axis=0)
    if kind == "units":
        A *= 10 ** rng.uniform(-4, 4, size=30)
    elif kind == "last digits":
        A[:4] = A[4]
        A[:4, :4] *= 1 + 2.0**-50 * (1 + np.eye(4))
    return A


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("fractions", Status.UNREACHABLE),
        ("rounded", Status.UNREACHABLE),
        ("units", Status.UNREACHABLE),
        ("last digits", Status.MAX_ITER),
    ],
)
def test_a_class_between_others_is_out_of_reach_unless_it_differs_from_each_of_them_in_last_digits(rng, kind, status):
    """Pulls that cancel, exactly or up to the rounding of a mean, bound p; differences of last digits are exact, and do not."""
    cf = invert(Model(between(kind, rng), np.zeros(5)), rng.normal(size=30) * 1e-3, 4, prob=0.9)
    assert cf.status is status
    assert cf.proba[4] < 0.9 or status is Status.MAX_ITER
    cf.verify()


def test_pulls_that_cancel_bound_the_probability_only_as_far_as_their_margins_say():
    rows, p = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([0.3, 0.3])
    assert cancels(rows, np.zeros(2), p, math.log(2) - 1e-9)  # e^s + e^−s is at least 2
    assert not cancels(rows, np.zeros(2), p, math.log(2) + 1e-9)
    assert cancels(rows, np.zeros(2), np.array([0.3, 0.3 + 1e-9]), math.log(2) - 1e-9)  # known to nine digits
    assert not cancels(np.array([[1.0, 1e-9], [-1.0, 0.0]]), np.zeros(2), p, 0.0)
    assert cancels(np.vstack([rows, [0.0, 5.0]]), np.zeros(3), np.array([0.3, 0.3, 1e-20]), 0.0)  # one that is beaten
