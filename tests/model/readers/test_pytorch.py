"""Networks of PyTorch that are affine are read exactly; others are refused with a reason."""

import copy

import numpy as np
import pytest
from helpers.libraries import CLEAR, EXACT, SINGLE, D, N, sources

from ifonly import UnsupportedModelError, as_model, invert


def normalisation(torch, width, far=5.0, **options):
    layer = torch.nn.BatchNorm1d(width, **options)
    layer.running_mean[:] = far * torch.randn(width)
    layer.running_var[:] = torch.rand(width) + 0.01
    if layer.affine:
        torch.nn.init.normal_(layer.weight)
        torch.nn.init.normal_(layer.bias)
    return layer


NETS = {
    "linear": lambda t: t.nn.Linear(D, 4),
    "no bias": lambda t: t.nn.Linear(D, 3, bias=False),
    "two outputs": lambda t: t.nn.Linear(D, 2),
    "one output": lambda t: t.nn.Linear(D, 1),
    "sequential": lambda t: t.nn.Sequential(t.nn.Linear(D, 4)),
    "flatten": lambda t: t.nn.Sequential(t.nn.Flatten(), t.nn.Linear(D, 4)),
    "softmax": lambda t: t.nn.Sequential(t.nn.Linear(D, 4), t.nn.Softmax(dim=1)),
    "log softmax": lambda t: t.nn.Sequential(t.nn.Linear(D, 4), t.nn.LogSoftmax(dim=-1)),
    "sigmoid": lambda t: t.nn.Sequential(t.nn.Linear(D, 1), t.nn.Sigmoid()),
    "dropout": lambda t: t.nn.Sequential(t.nn.Identity(), t.nn.Dropout(0.5), t.nn.Linear(D, 4)),
    "batch norm": lambda t: t.nn.Sequential(normalisation(t, D), t.nn.Linear(D, 4)),
    "batch norm far off": lambda t: t.nn.Sequential(normalisation(t, D, far=30.0), t.nn.Dropout(), t.nn.Linear(D, 1)),
    "batch norm, plain": lambda t: t.nn.Sequential(normalisation(t, D, affine=False), t.nn.Linear(D, 4)),
    "batch norm last": lambda t: t.nn.Sequential(t.nn.Linear(D, 4), normalisation(t, 4)),
    "linears": lambda t: t.nn.Sequential(t.nn.Linear(D, 32), t.nn.Linear(32, 16), t.nn.Linear(16, 4)),
    "nested": lambda t: t.nn.Sequential(
        t.nn.Sequential(t.nn.Flatten(), t.nn.Linear(D, 16)), t.nn.Sequential(normalisation(t, 16), t.nn.Linear(16, 3))
    ),
}


def outputs(torch, net, X):
    """The network's own probabilities, of each class."""
    with torch.no_grad():
        dtype = next(net.parameters()).dtype
        z = net(torch.as_tensor(X, dtype=dtype))
        last = type(net[-1]).__name__ if isinstance(net, torch.nn.Sequential) else ""
        if z.shape[1] == 1:
            p = z if last == "Sigmoid" else torch.sigmoid(z)
            return torch.cat([1 - p, p], dim=1).numpy()
        p = z.exp() if last == "LogSoftmax" else z if last == "Softmax" else torch.softmax(z, dim=1)
        return p.numpy()


@pytest.mark.parametrize("kind", NETS)
def test_a_network_is_read_exactly(torch, rng, kind):
    net = NETS[kind](torch).eval()
    model = as_model(net)
    X, _ = sources(rng, 2)
    np.testing.assert_allclose(model.predict_proba(X), outputs(torch, copy.deepcopy(net).double(), X), **EXACT)
    near = X.astype(np.float32) / 3
    np.testing.assert_allclose(
        model.predict_proba(near), outputs(torch, net, near), rtol=0, atol=1e-5 if "norm" in kind else 1e-6
    )
    assert model.classes.tolist() == list(range(model.n_classes))


@pytest.mark.parametrize("kind", NETS)
def test_a_network_predicts_the_target_at_every_answer(torch, rng, kind):
    net = NETS[kind](torch).eval()
    model = as_model(net)
    X, targets = sources(rng, model.n_classes)
    double = copy.deepcopy(net).double()
    cfs = invert(net, X, targets)
    np.testing.assert_array_equal(outputs(torch, double, cfs.x).argmax(axis=1), targets)
    assert (outputs(torch, double, cfs.x)[np.arange(N), targets] >= 0.5 - 1e-15).all()
    clear = invert(net, torch.as_tensor(X, dtype=torch.float32), targets, prob=CLEAR)
    np.testing.assert_array_equal(outputs(torch, net, clear.x).argmax(axis=1), targets)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_weights_of_any_precision_are_read_as_they_are(torch, rng, dtype):
    layer = torch.nn.Linear(D, 4).to(getattr(torch, dtype))
    model = as_model(layer)
    np.testing.assert_array_equal(model.A, layer.weight.detach().double().numpy())
    np.testing.assert_array_equal(model.b, layer.bias.detach().double().numpy())


def test_weights_that_are_computed_are_read_as_the_layer_computes_them(torch):
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(D, 4))
    np.testing.assert_array_equal(as_model(layer).A, layer.weight.detach().double().numpy())


def test_distances_are_in_the_modules_own_units(torch, rng):
    net = torch.nn.Sequential(normalisation(torch, D), torch.nn.Linear(D, 4)).eval()
    cf = invert(net, rng.normal(size=D), 2, prob=0.9)
    assert cf.distance == pytest.approx(np.linalg.norm(cf.delta), rel=1e-12)
    cf.verify()


def test_a_linear_layer_in_training_is_read_all_the_same(torch):
    layer = torch.nn.Linear(D, 4).train()
    assert as_model(layer) == as_model(layer.eval())
    assert as_model(torch.nn.Sequential(torch.nn.Dropout(0.0), layer).train()) == as_model(layer)


def test_weights_changed_in_place_are_read_again(torch, rng):
    layer = torch.nn.Linear(D, 4)
    before = as_model(layer)
    assert as_model(layer) is before
    with torch.no_grad():
        layer.weight *= 2.0
    np.testing.assert_array_equal(as_model(layer).A, 2 * before.A)


def network(torch):
    """A network of a user's own, with a linear head."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(D, 16), torch.nn.ReLU())
            self.head = torch.nn.Linear(16, 3)

        def forward(self, x):
            return self.head(self.body(x))

    return Net()


def hooked(torch):
    layer = torch.nn.Linear(D, 4)
    layer.register_forward_hook(lambda module, args, output: 2 * output)
    return layer


class Refused:
    """(a module, the message)"""

    relu = (
        lambda t: t.nn.Sequential(t.nn.Linear(D, 16), t.nn.ReLU(), t.nn.Linear(16, 3)),
        r"layer '1' \(ReLU\) is not understood. Expected Linear, BatchNorm1d.*as_model\(net\[2\]\)",
    )
    convolution = (lambda t: t.nn.Sequential(t.nn.Conv1d(1, 2, 3), t.nn.Flatten()), r"layer '0' \(Conv1d\) is not understood")
    own = (network, r"Net is not understood.*as_model\(net\.head\)")
    subclass = (lambda t: type("Loud", (t.nn.Linear,), {})(D, 4), "Loud is not understood")
    no_linear = (lambda t: t.nn.Sequential(t.nn.Flatten()), "Sequential has no Linear layer")
    loss = (lambda t: t.nn.CrossEntropyLoss(), "CrossEntropyLoss is not understood.*Model\\(A, b\\)")
    dropout = (
        lambda t: t.nn.Sequential(t.nn.Dropout(0.2), t.nn.Linear(D, 4)).train(),
        r"layer '0' \(Dropout\) is in training mode.*call \.eval\(\) first",
    )
    batch_norm = (
        lambda t: t.nn.Sequential(t.nn.BatchNorm1d(D), t.nn.Linear(D, 4)).train(),
        r"layer '0' \(BatchNorm1d\) is in training mode.*other rows of a batch; call \.eval\(\) first",
    )
    no_statistics = (
        lambda t: t.nn.Sequential(t.nn.BatchNorm1d(D, track_running_stats=False), t.nn.Linear(D, 4)),
        "keeps no running statistics",
    )
    multi_label = (
        lambda t: t.nn.Sequential(t.nn.Linear(D, 4), t.nn.Sigmoid()),
        r"Sigmoid over 4 outputs gives 4 independent yes-or-no answers",
    )
    softmax_of_one = (lambda t: t.nn.Sequential(t.nn.Linear(D, 1), t.nn.Softmax(dim=1)), "Softmax over 1 output is constant")
    softmax_of_rows = (lambda t: t.nn.Sequential(t.nn.Linear(D, 4), t.nn.Softmax(dim=0)), "Softmax is over dimension 0.*dim=1")
    softmax_inside = (
        lambda t: t.nn.Sequential(t.nn.Linear(D, 4), t.nn.Softmax(dim=1), t.nn.Linear(4, 3)),
        r"layer '1' \(Softmax\) is not understood",
    )
    other_flatten = (lambda t: t.nn.Sequential(t.nn.Flatten(0), t.nn.Linear(D, 4)), "flattens other than all but the first")
    lazy = (lambda t: t.nn.LazyLinear(4), "LazyLinear has no weights yet; pass data through it first")
    meta = (lambda t: t.nn.Linear(D, 4, device="meta"), "Linear is on the device “meta” and has no values")
    hooks = (hooked, "Linear has forward hooks, which may change what it computes")
    widths = (lambda t: t.nn.Sequential(t.nn.Linear(D, 4), t.nn.Linear(5, 3)), "layer '1' takes 5 features, but.*gives 4")


@pytest.mark.parametrize("kind", [name for name in vars(Refused) if not name.startswith("_")])
def test_a_network_that_is_not_affine_is_refused(torch, kind):
    make, message = getattr(Refused, kind)
    with pytest.raises(UnsupportedModelError, match=message):
        as_model(make(torch).eval() if kind not in ("dropout", "batch_norm") else make(torch))


def test_the_head_of_a_network_is_read(torch, rng):
    net = network(torch)
    X = torch.randn(50, D)
    with torch.no_grad():
        features, expected = net.body(X), torch.softmax(net(X), dim=1)
    np.testing.assert_allclose(as_model(net.head).predict_proba(features), expected, **SINGLE)
