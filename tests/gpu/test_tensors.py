"""Tensors on a GPU."""

import pytest
from helpers.libraries import D

from ifonly import invert


def test_a_tensor_on_a_gpu_gives_one_there(torch):
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    layer, x = torch.nn.Linear(D, 4, device="cuda"), torch.randn(5, D, device="cuda")
    cfs = invert(layer, x, 2, prob=0.9)
    assert cfs.x.device == x.device
    assert (torch.softmax(layer(cfs.x), dim=1)[:, 2] > 0.9 - 1e-6).all()
