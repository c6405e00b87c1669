"""Naive Bayes finds the probability that was asked for by its own `predict_proba`, whichever engine it was.

p = exp(logit − ln Σ exp) is rounded as a number of the size of logits: near 1 that is many roundings of 1 − p.
"""

import numpy as np
import pytest
from helpers.compiled import needs_compiled
from helpers.problems import half
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB

from ifonly import Actions, Model, Status, as_model, invert
from ifonly.engines.rounding import Rounding
from ifonly.model.products import Sizes
from ifonly.problem.goals import coarser, in_logs

PROBS = [0.5, 0.9, 0.9999, 0.999999, 1 - 1e-9]
ANSWERED = (Status.EXACT, Status.CONVERGED, Status.STOPPED)
D = 6


def fitted(kind, K, D=D, times=20.0):
    """An estimator of counts (or of whether there are any), and the rows that it was fitted to."""
    rng = np.random.default_rng([K, D])
    y = np.arange(40 * min(K, 3) + (K if K > 3 else 0)) % K
    X = rng.poisson(np.exp(rng.normal(size=(K, D)))[y] * times).astype(float)
    X = np.greater(X, times).astype(float) if kind is BernoulliNB else X
    return kind().fit(X, y), X


def limits(X, name):
    """What may change."""
    bounds = {d: (0.0, 3 * float(top) + 50.0) for d, top in enumerate(X.max(axis=0))}
    return {
        "free": {},
        "bounds": {"actions": Actions(bounds=bounds)},
        "counts": {"actions": Actions(bounds=bounds, integer=list(range(len(bounds)))), "node_limit": 300},
        "few": {"actions": Actions(bounds=bounds), "max_changes": 3, "node_limit": 300},
    }[name]


def short(estimator, found, target, prob):
    """Answers whose probability is below, as the estimator has it; and how many there are at all."""
    answered = [np.asarray(cf.x, dtype=float).ravel() for cf in found if cf.status in ANSWERED]
    seen = estimator.predict_proba(np.array(answered))[:, target] if answered else np.zeros(0)
    return seen[seen < prob].tolist(), len(answered)


@pytest.mark.parametrize(
    ("prob", "name", "K", "kind"), half(PROBS, ["bounds", "counts", "few"], [2, 3], [MultinomialNB, ComplementNB])
)
def test_within_limits_in_a_table_and_alone(kind, K, name, prob):
    estimator, X = fitted(kind, K)
    more = limits(X, name)
    table = invert(estimator, X[:8], 1, prob=prob, **more)
    alone = invert(estimator, X[0], 1, prob=prob, **more)
    below, answered = short(estimator, [*table, alone], 1, prob)
    assert below == []
    assert answered > 0
    for cf in (*table, alone):
        cf.verify()


@pytest.mark.parametrize("prob", PROBS)
@pytest.mark.parametrize("more", [{}, {"max_changes": 7}])
def test_of_what_is_there_or_not(prob, more):
    estimator, X = fitted(BernoulliNB, 2, D=12)
    found = invert(estimator, X[:8], 1, prob=prob, **more)
    below, answered = short(estimator, found, 1, prob)
    assert below == []
    assert answered > 0
    for cf in found:
        cf.verify()


@pytest.mark.parametrize("prob", PROBS)
@pytest.mark.parametrize(("K", "D"), [(420, 440), (420, 200), (420, 40)])
def test_of_very_many_classes(K, D, prob):
    """Some share one Gram matrix; those with fewer features than classes take passes, with few they are solved in these."""
    estimator, X = fitted(MultinomialNB, K, D, times=5.0)
    model = as_model(estimator)
    assert (model.shares_gram, model.only_passes) == (D > K, 100 < D < K)
    below, answered = short(estimator, invert(model, X[:2], 7, prob=prob), 7, prob)
    assert below == []
    assert answered == 2


@pytest.mark.parametrize("prob", PROBS)
def test_each_row_has_room_for_its_own_probability(prob):
    """A row that asks for little in a table that asks for much is answered as if it were alone."""
    estimator, X = fitted(MultinomialNB, 2)
    more = limits(X, "bounds")
    both = invert(estimator, X[:2], 1, prob=[prob, 1 - 1e-9], **more)
    np.testing.assert_allclose(both[0].x, invert(estimator, X[0], 1, prob=prob, **more).x, rtol=1e-12, atol=1e-12)


def test_there_is_one_place_that_says_how_much_is_needed():
    plain, bayes = Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    bayes.log_space = True
    gamma = 4.0 * 2.0**-53
    assert in_logs(plain, gamma) == 0.0
    assert coarser(0.999, in_logs(plain, gamma)) == coarser(None, in_logs(bayes, gamma)) == 1.0
    assert coarser(0.999, in_logs(bayes, gamma)) == pytest.approx(500.0)  # 2u/γ over 1 − p
    sizes = Sizes(1.0, 1.0)
    assert Rounding.of(bayes, sizes, 0, 0.5).coarse == 1.0
    assert Rounding.of(bayes, sizes, 0, 1 - 1e-9).coarse > 1e6 * Rounding.of(plain, sizes, 0, 1 - 1e-9).coarse


@needs_compiled
@pytest.mark.parametrize("prob", PROBS)
@pytest.mark.parametrize("K", [2, 3])
def test_the_compiled_loops_leave_as_much_room_as_the_reference(K, prob):
    estimator, X = fitted(MultinomialNB, K)
    more = limits(X, "bounds")
    ours, theirs = (invert(estimator, X[:4], 1, prob=prob, backend=backend, **more) for backend in ("cpu", "reference"))
    for cf, other in zip(ours, theirs, strict=True):
        near = 1e-5 if prob > 1 - 1e-8 else 1e-8  # the room for rounding grows with 1/(1 − prob)
        assert cf.distance == pytest.approx(other.distance, rel=near)
        assert cf.proba[1] >= prob
