"""Tensors in, tensors out."""

import pickle

import numpy as np
import pytest
from helpers.libraries import D, needs

from ifonly import Actions, Cost, Model, as_model, invert, path


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(D,), (5, D)])
def test_a_tensor_gives_a_tensor_of_its_kind(torch, dtype, shape):
    layer = torch.nn.Linear(D, 4)
    x = torch.randn(shape).to(getattr(torch, dtype)).requires_grad_()
    cf, same = invert(layer, x, 2, prob=0.9), invert(layer, x.detach().double().numpy(), 2, prob=0.9)
    for name in ("x", "delta", "source"):
        found = getattr(cf, name)
        assert (type(found), found.dtype, found.device, found.shape) == (torch.Tensor, x.dtype, x.device, x.shape)
        assert not found.requires_grad
    assert isinstance(same.x, np.ndarray)
    assert torch.equal(cf.x, torch.as_tensor(same.x).to(x.dtype))
    assert torch.equal(cf.source, x.detach())
    assert isinstance(cf.proba, np.ndarray)
    cf.verify()


def test_a_tensor_of_whole_numbers_gives_floats(torch):
    cf = invert(torch.nn.Linear(D, 4), torch.arange(D), 2)
    assert cf.x.dtype == torch.float64


def test_tensors_come_back_from_every_question(torch, rng):
    model = as_model(torch.nn.Linear(D, 3))
    X = torch.randn(4, D, dtype=torch.float64)
    assert isinstance(path(model, X[0], 1).x, torch.Tensor)
    assert isinstance(path(model, X[0], 1).at_prob(0.7).x, torch.Tensor)
    assert isinstance(invert(model, iter([X, X]), 1).x, torch.Tensor)
    assert isinstance(invert(model, X, "all").x, torch.Tensor)
    assert isinstance(invert(model, X, 1)[2].x, torch.Tensor)
    assert isinstance(invert(model, X, 1, cost=Cost(scale=2.0)).x, torch.Tensor)
    for x in (X, X[0]):
        cf = invert(model, x, 1, actions=Actions(frozen=[0]))
        assert isinstance(cf.x, torch.Tensor)
        assert not cf.delta[..., 0].any()
        assert repr(cf)
    answer = pickle.loads(pickle.dumps(invert(model, X, 1)))
    assert torch.equal(answer.x, invert(model, X, 1).x)


def test_a_model_takes_tensors(torch):
    weight, X = torch.randn(3, D, requires_grad=True), torch.randn(4, D, requires_grad=True)
    model = Model(weight, torch.zeros(3))
    np.testing.assert_array_equal(model.predict(X), (X @ weight.T).argmax(dim=1))


def test_an_array_of_jax_gives_one():
    jax = needs("jax")
    model = Model(np.eye(3), np.zeros(3))
    for dtype in ("float32", "bfloat16"):
        x = jax.numpy.asarray([[3.0, 1.0, 0.0], [0.0, 1.0, 0.0]], dtype=dtype)
        cfs = invert(model, x, 1, prob=0.7)
        assert isinstance(cfs.x, jax.Array)
        assert (cfs.x.dtype, cfs.x.devices()) == (x.dtype, x.devices())
        np.testing.assert_allclose(cfs.x.astype("float32"), invert(model, np.asarray(x, np.float64), 1, prob=0.7).x, rtol=1e-2)
