"""`joint=True`: several classes that reach the probability together."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import minimize

import ifonly
from ifonly import InputError, Model, Status
from ifonly.model.numerics import softmax


def _nearby(model, x, wanted, start):
    """The distance of the best point near ``start``, by another method."""
    constraint = {"type": "ineq", "fun": lambda v: softmax(model.logits(v))[wanted].sum() - 0.9}
    options = {"ftol": 1e-14}
    return math.sqrt(
        minimize(lambda v: (v - x) @ (v - x), start, constraints=[constraint], method="SLSQP", options=options).fun
    )


def test_together_is_a_stationary_point_no_worse_than_alone(rng):
    for _ in range(4):
        model = Model(rng.standard_normal((10, 6)), rng.standard_normal(10))
        x, wanted = 2 * rng.standard_normal(6), [2, 5, 7]
        joint, alone = ifonly.invert(model, x, wanted, joint=True, prob=0.9), ifonly.invert(model, x, wanted, prob=0.9)
        assert joint.status is Status.LOCAL
        assert not joint.status.ok
        assert softmax(model.logits(joint.x))[wanted].sum() >= 0.9
        assert joint.distance <= alone.distance * (1 + 1e-9)
        assert math.isnan(joint.gap)
        assert math.isnan(joint.error_bound)
        joint.verify()
        found = _nearby(model, x, wanted, joint.x)
        assert found == pytest.approx(joint.distance, rel=1e-6)


def test_together_for_a_given_lam_has_no_gradient(rng):
    model = Model(rng.standard_normal((10, 6)), rng.standard_normal(10))
    x, wanted = 2 * rng.standard_normal(6), [2, 5, 7]
    joint = ifonly.invert(model, x, wanted, joint=True, lam=0.05)

    def objective(v):
        return 0.025 * (v - x) @ (v - x) - math.log(softmax(model.logits(v))[wanted].sum())

    steps = 1e-5 * np.eye(6)
    slopes = [(objective(joint.x + e) - objective(joint.x - e)) / 2e-5 for e in steps]
    assert np.abs(slopes).max() < 1e-8
    assert joint.objective == pytest.approx(objective(joint.x), abs=1e-12)
    assert objective(joint.x) <= ifonly.invert(model, x, wanted, lam=0.05).objective


def test_together_with_very_many_classes(synthetic):
    joint = ifonly.invert(synthetic.model, synthetic.X[0], [10, 11, 12, 13], joint=True, prob=0.6)
    assert joint.status is Status.LOCAL
    assert joint.p_together >= 0.6
    joint.verify()
    assert "together" in repr(joint)
    assert "together" in joint.sentence()


def test_together_refuses_what_it_cannot_do(synthetic):
    for options in ({"max_changes": 2}, {"tol": 1e-3}, {"n": 2}):
        with pytest.raises(InputError, match="joint answers take lam or prob"):
            ifonly.invert(synthetic.model, synthetic.X[0], [1, 2], joint=True, **options)
    for target in (None, 3):
        with pytest.raises(InputError, match="a set of two or more classes"):
            ifonly.invert(synthetic.model, synthetic.X[0], target, joint=True)
    joint = ifonly.invert(synthetic.model, synthetic.X[0], [1, 2], joint=True)
    for method in (joint.to_json, lambda: joint.to_html("page.html")):
        with pytest.raises(InputError):
            method()
    worse = dataclasses.replace(joint, result=dataclasses.replace(joint.result, x=joint.result.x + 1.0))
    with pytest.raises(ifonly.CertificateError):
        worse.verify()
