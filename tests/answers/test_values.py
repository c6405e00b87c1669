"""Answers are values too, and lazy."""

import pickle
import tracemalloc

import numpy as np
import pytest
from helpers.whole import X, make
from scipy.sparse import random_array

from ifonly import Actions, Model, invert, path

ANSWERS = {
    "one": lambda: invert(make(), X, "w", prob=0.9),
    "of a table": lambda: invert(make(), [X, -X], "w", prob=0.9)[1],
    "table": lambda: invert(make(), [X, -X], "w", prob=0.9),
    "path": lambda: path(make(), X, "w", lams=[1.0, 0.1]),
    "on a path": lambda: path(make(), X, "w", lams=[1.0, 0.1])[0],
    "between on a path": lambda: path(make(), X, "w").at_prob(0.7),
}
FIELDS = ("x", "delta", "proba", "target", "lam", "distance", "objective", "grad_norm", "gap", "n_iter", "status", "model")


@pytest.mark.parametrize("field", [*FIELDS, "anything"])
@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_are_frozen(kind, field):
    answer = ANSWERS[kind]()
    with pytest.raises(AttributeError, match=r"cannot assign to field|has no setter"):
        setattr(answer, field, 0)
    with pytest.raises(AttributeError, match=r"cannot delete field|has no deleter"):
        delattr(answer, field)


@pytest.mark.parametrize("kind", ANSWERS)
def test_x_is_not_made_until_it_is_read(kind):
    answer = ANSWERS[kind]()
    assert repr(answer)
    assert np.all(answer.gap >= 0)
    assert not {"x", "delta"} & vars(answer).keys()
    first = answer.x
    assert "x" in vars(answer)
    assert answer.x is first


@pytest.mark.parametrize("kind", ANSWERS)
def test_delta_is_what_x_differs_by(kind):
    answer = ANSWERS[kind]()
    np.testing.assert_array_equal(answer.delta, answer.x - answer.source)
    assert answer.delta.any()


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_survive_pickling(kind):
    answer = ANSWERS[kind]()
    other = pickle.loads(pickle.dumps(answer))
    np.testing.assert_array_equal(other.x, answer.x)
    np.testing.assert_array_equal(other.gap, answer.gap)
    assert repr(other) == repr(answer)


def test_answers_print_their_certificate():
    for kind, words in {"one": ["towards 'w'", "‖x − x*‖ ≤"], "table": ["2 rows", "2 EXACT"], "path": ["2 λ"]}.items():
        assert all(word in repr(ANSWERS[kind]()) for word in [*words, "E − E* ≤"])


@pytest.mark.parametrize("question", [{"prob": 0.9}, {"margin": 1.0}, {"lam": 0.1}])
def test_a_gap_is_said_to_be_of_what_was_minimised(question):
    model, box = Model.binary([1.0, -2.0], 0.0, ["n", "y"]), Actions(bounds=(-5, 5))
    what = "E − E* ≤" if "lam" in question else "cost − least cost ≤"
    for x in ([-1.0, 1.0], [[-1.0, 1.0], [-2.0, 1.0]]):
        assert what in repr(invert(model, x, "y", actions=box, **question))


def test_a_table_and_its_rows_agree():
    cfs = ANSWERS["table"]()
    assert len(cfs) == 2
    for i in (0, 1, -1):
        np.testing.assert_allclose(cfs[i].x, cfs.x[i], rtol=1e-14)  # gemv and gemm
        for field in FIELDS[2:-1]:
            np.testing.assert_array_equal(getattr(cfs[i], field), getattr(cfs, field)[i])


def test_how_far_an_optimum_of_a_grid_may_be_is_not_known():
    model = Model.binary([1.0, -2.0], 0.0, ["n", "y"])
    cfs = invert(model, [[-1.0, 1.0], [-2.0, 1.0]], "y", prob=0.9, actions=Actions(integer=[0]))
    assert np.isnan(cfs.error_bound).all()
    assert np.isnan([cf.error_bound for cf in cfs]).all()


def grown(work):
    """What the work returns, and the most memory it held on the way beyond what there was before."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_path_takes_no_memory_in_d_until_x_is_read(rng):
    D, K, N = 131_072, 16, 100
    model = Model(rng.normal(size=(K, D)) / np.sqrt(D), np.zeros(K))
    x = rng.normal(size=D)
    path(model, x, 3, lams=[1.0])  # what the model keeps (Ḡ and the like) is the model's
    answers, held = grown(lambda: path(model, x, 3))
    assert len(answers) == N
    assert held < 2 * 8 * D + 2e6  # at most two vectors of D at once, and the K × 100 coefficients
    _, held = grown(lambda: answers[50].x)
    assert 8 * D <= held < 4 * 8 * D
    assert "x" not in vars(answers)


def test_sparse_sources_stay_sparse_until_x_is_read(rng):
    D, K, N = 47_236, 5, 400
    model = Model(rng.normal(size=(K, D)), np.zeros(K))
    X = random_array((N, D), density=1e-3, format="csr", rng=rng)
    invert(model, X, 1, lam=0.1)
    cfs, held = grown(lambda: invert(model, X, 1, lam=0.1))
    assert held < 0.1 * 8 * N * D  # the dense table would be 150 MB
    assert cfs[7].x.shape == (D,)
    assert "x" not in vars(cfs)
