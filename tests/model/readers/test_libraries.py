"""What other libraries fitted is read exactly, or refused with a reason.

The libraries are not needed to run the other tests: what is not installed is skipped, and says so.

PyTorch, Keras and xgboost evaluate in single precision. The same weights in double precision give our probabilities to
`EXACT`; their own are off by the rounding of a sum of ten float32 products, so they agree to `SINGLE`. For the same reason an
answer at the very boundary (``prob=0.5``, two classes) is not told apart from the boundary in float32: what holds is that
the same network in double precision predicts the target for every source at ``prob=0.5``, and the one in single
precision at `CLEAR`.
"""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from ifonly import Actions, Cost, Model, UnsupportedModelError, as_model, invert, path
from ifonly.model.readers.boosted import from_json

EXACT = {"rtol": 0, "atol": 1e-12}
SINGLE = {"rtol": 0, "atol": 1e-6}
CLEAR = 0.51
N = 1000
D = 8


def needs(name, install=None):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install {install or name}")


def sources(rng, K, width=D):
    """Rows, and a class to reach from each."""
    return rng.normal(size=(N, width)) * 3, rng.integers(K, size=N)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# ---- none is loaded by us ----


def test_reading_one_library_loads_no_other():
    code = """
import sys
import ifonly
from ifonly.model.readers import as_model
try:
    as_model(object())
except ifonly.UnsupportedModelError:
    pass
libraries = ("torch", "statsmodels", "xgboost", "keras", "jax", "onnx", "skops", "sklearn", "joblib", "safetensors")
print(*[name for name in libraries if name in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


# ---- PyTorch ----


@pytest.fixture
def torch():
    torch = needs("torch", "torch==2.13.0")
    torch.manual_seed(7)
    return torch


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


# ---- tensors in, tensors out ----


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


def test_a_tensor_on_a_gpu_gives_one_there(torch):
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    layer, x = torch.nn.Linear(D, 4, device="cuda"), torch.randn(5, D, device="cuda")
    cfs = invert(layer, x, 2, prob=0.9)
    assert cfs.x.device == x.device
    assert (torch.softmax(layer(cfs.x), dim=1)[:, 2] > 0.9 - 1e-6).all()


def test_an_array_of_jax_gives_one():
    jax = needs("jax")
    model = Model(np.eye(3), np.zeros(3))
    for dtype in ("float32", "bfloat16"):
        x = jax.numpy.asarray([[3.0, 1.0, 0.0], [0.0, 1.0, 0.0]], dtype=dtype)
        cfs = invert(model, x, 1, prob=0.7)
        assert isinstance(cfs.x, jax.Array)
        assert (cfs.x.dtype, cfs.x.devices()) == (x.dtype, x.devices())
        np.testing.assert_allclose(cfs.x.astype("float32"), invert(model, np.asarray(x, np.float64), 1, prob=0.7).x, rtol=1e-2)


# ---- statsmodels ----


@pytest.fixture
def sm():
    needs("statsmodels")
    import statsmodels.api as sm

    return sm


@pytest.fixture
def table(rng):
    """Three columns, and classes that depend on them."""
    X = rng.normal(size=(400, 3)) * [1.0, 5.0, 0.2] + [0.0, 30.0, 1.0]
    scores = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=(3, 3)) + rng.gumbel(size=(400, 3))
    return X, scores.argmax(axis=1)


def fit(model):
    return model.fit(disp=0, method="newton")


CONSTANTS = {
    "first": lambda X: np.column_stack([np.ones(len(X)), X]),
    "last": lambda X: np.column_stack([X, np.ones(len(X))]),
    "between, not 1": lambda X: np.column_stack([X[:, :1], np.full(len(X), 2.5), X[:, 1:]]),
    "none": lambda X: X,
}


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("kind", ["Logit", "MNLogit"])
def test_statsmodels_results_are_read_exactly(sm, rng, table, kind, constant):
    X, y = table
    exog = CONSTANTS[constant]
    res = fit(sm.Logit((y > 0).astype(int), exog(X)) if kind == "Logit" else sm.MNLogit(y, exog(X)))
    model = as_model(res)
    fresh = X[rng.integers(len(X), size=N)] + X.std(axis=0) * rng.normal(size=(N, 3))

    def own(X):
        p = np.asarray(res.predict(exog(X)))
        return np.column_stack([1 - p, p]) if kind == "Logit" else p

    np.testing.assert_allclose(model.predict_proba(fresh), own(fresh), **EXACT)
    assert model.n_features == 3
    assert model.classes.tolist() == ([0, 1] if kind == "Logit" else [0, 1, 2])
    targets = rng.integers(model.n_classes, size=N)
    cfs = invert(res, fresh, targets)
    np.testing.assert_array_equal(own(cfs.x).argmax(axis=1), targets)
    assert (own(cfs.x)[np.arange(N), targets] >= 0.5 - 1e-15).all()


def test_statsmodels_names_come_without_the_constant(sm, table):
    X, y = table
    frame = pd.DataFrame(X, columns=["age", "income", "rate"])
    model = as_model(fit(sm.Logit((y > 0).astype(int), sm.add_constant(frame))))
    assert model.feature_names == ("age", "income", "rate")
    np.testing.assert_array_equal(model.predict_proba(frame[["rate", "age", "income"]]), model.predict_proba(X))
    assert as_model(fit(sm.Logit((y > 0).astype(int), sm.add_constant(X)))).feature_names == ("x1", "x2", "x3")


def test_statsmodels_columns_that_add_up_to_a_constant_are_features(sm, rng, table):
    X, y = table
    dummies = np.eye(2)[rng.integers(2, size=len(X))]
    res = fit(sm.Logit((y > 0).astype(int), np.column_stack([dummies, X])))
    model = as_model(res)
    assert model.n_features == 5
    np.testing.assert_allclose(model.predict_proba(res.model.exog)[:, 1], res.predict(), **EXACT)


LABELS = {
    "strings": (lambda y: np.array(["bus", "car", "tram"])[y], ["bus", "car", "tram"]),
    "a series": (lambda y: pd.Series(np.array(["bus", "car", "tram"])[y], name="how"), ["bus", "car", "tram"]),
    "categories": (lambda y: pd.Series(pd.Categorical.from_codes(y, ["tram", "bus", "car"])), ["tram", "bus", "car"]),
    "numbers": (lambda y: y + 5, [5, 6, 7]),
    "floats": (lambda y: pd.Series(y + 5.0), [5, 6, 7]),
    "dummies": (lambda y: np.eye(3)[y], [0, 1, 2]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_statsmodels_classes_are_called_as_they_are(sm, table, kind):
    X, y = table
    make, labels = LABELS[kind]
    res = fit(sm.MNLogit(make(y), sm.add_constant(X)))
    assert as_model(res).classes.tolist() == labels
    np.testing.assert_allclose(as_model(res).predict_proba(X), res.predict(), **EXACT)


def test_statsmodels_regularised_results_are_read_exactly(sm, table):
    X, y = table
    res = sm.MNLogit(y, sm.add_constant(X)).fit_regularized(alpha=1.0, disp=0)
    np.testing.assert_allclose(as_model(res).predict_proba(X), res.predict(), **EXACT)
    res = sm.Logit((y > 0).astype(int), sm.add_constant(X)).fit_regularized(alpha=1.0, disp=0)
    np.testing.assert_allclose(as_model(res).predict_proba(X)[:, 1], res.predict(), **EXACT)


def test_statsmodels_formulas_of_plain_columns_are_read_exactly(sm, table):
    import statsmodels.formula.api as smf

    X, y = table
    frame = pd.DataFrame(X, columns=["age", "income", "rate"]).assign(y=(y > 0).astype(int), how=y, who=list("pqqp" * 100))
    for formula, names in (("y ~ rate + age", ("rate", "age")), ("y ~ age + income - 1", ("age", "income"))):
        res = fit(smf.logit(formula, frame))
        model = as_model(res)
        assert model.feature_names == names
        np.testing.assert_allclose(model.predict_proba(frame[list(names)])[:, 1], res.predict(frame), **EXACT)
    res = fit(smf.mnlogit("how ~ age + rate", frame))
    np.testing.assert_allclose(as_model(res).predict_proba(frame[["age", "rate"]]), res.predict(frame), **EXACT)
    for formula, term in (
        ("y ~ np.log(income) + age", r"np\.log\(income\)"),
        ("y ~ age + who", r"who\[T\.q\]"),
        ("y ~ age:rate", "age:rate"),
    ):
        with pytest.raises(UnsupportedModelError, match=f"term '{term}' of the formula .* is computed from columns"):
            as_model(fit(smf.logit(formula, frame)))


def test_statsmodels_other_results_are_refused(sm, table):
    X, y = table
    binary, exog = (y > 0).astype(int), sm.add_constant(X)
    with pytest.raises(UnsupportedModelError, match=r"Probit is the normal distribution function.*fit Logit instead"):
        as_model(fit(sm.Probit(binary, exog)))
    with pytest.raises(UnsupportedModelError, match=r"OLS \(RegressionResultsWrapper\) is not understood.*Logit or MNLogit"):
        as_model(sm.OLS(binary, exog).fit())
    with pytest.raises(UnsupportedModelError, match=r"Logit is not fitted; pass what its fit\(\) returns"):
        as_model(sm.Logit(binary, exog))
    with pytest.raises(UnsupportedModelError, match="fitted with an offset"):
        as_model(fit(sm.Logit(binary, exog, offset=np.ones(len(X)))))
    res = fit(sm.Logit(binary, exog))
    res.remove_data()
    with pytest.raises(UnsupportedModelError, match="the data were removed from the results"):
        as_model(res)


# ---- xgboost ----


@pytest.fixture
def xgboost():
    return needs("xgboost", "xgboost-cpu")


BOOSTED = {
    "binary": (2, {}),
    "binary, base score": (2, {"base_score": 0.2}),
    "several": (4, {}),
    "several, base score": (4, {"base_score": 0.8}),
    "several, softmax": (4, {"objective": "multi:softmax"}),
}


def boosted(xgboost, rng, kind):
    K, options = BOOSTED[kind]
    X = rng.normal(size=(500, D))
    y = (X @ rng.normal(size=(D, K)) + rng.gumbel(size=(500, K))).argmax(axis=1)
    return xgboost.XGBClassifier(booster="gblinear", n_estimators=15, **options).fit(X, y)


def weights_in(booster):
    """The weights in xgboost's binary format, an array of big-endian float32 (its text and ``coef_`` have six digits)."""
    raw = bytes(booster.save_raw("ubj"))
    at = raw.index(b"weights[$d#L") + len(b"weights[$d#L")
    count = int.from_bytes(raw[at : at + 8], "big")
    return np.frombuffer(raw, ">f4", count, at + 8).astype(np.float64).reshape(D + 1, -1)


@pytest.mark.parametrize("kind", BOOSTED)
def test_gblinear_is_read_exactly(xgboost, rng, kind):
    estimator = boosted(xgboost, rng, kind)
    model, K = as_model(estimator), BOOSTED[kind][0]
    X = rng.normal(size=(N, D)).astype(np.float32)
    booster = estimator.get_booster()
    margins = booster.predict(xgboost.DMatrix(X), output_margin=True).reshape(N, -1)
    own = softmax(np.column_stack([np.zeros(N), margins]) if K == 2 else margins)
    np.testing.assert_allclose(model.predict_proba(X), own, **SINGLE)
    if "softmax" not in kind:
        np.testing.assert_allclose(model.predict_proba(X), estimator.predict_proba(X), **SINGLE)
    W = weights_in(booster)
    z = X @ W[:-1] + W[-1]
    if K == 2:
        (base,) = json.loads(json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"])
        base = float(np.float32(base))
        z = np.column_stack([np.zeros(N), z + np.log(base / (1 - base))])
    np.testing.assert_allclose(model.predict_proba(X), softmax(z), **EXACT)
    np.testing.assert_array_equal(model.classes, estimator.classes_)


def test_base_scores_that_xgboost_adds_to_each_class_are_added(xgboost, rng):
    """xgboost 3.2 writes one for each class and adds the first to all; were it to add each to its own, so would we."""
    document = json.loads(bytes(boosted(xgboost, rng, "several").get_booster().save_raw("json")))
    parameters = document["learner"]["learner_model_param"]
    parameters["base_score"] = "[1E0,2E0,3E0,4E0]"
    bias = np.array(document["learner"]["gradient_booster"]["model"]["weights"][-4:], dtype=np.float32).astype(np.float64)
    steps = np.array([1.0, 2.0, 3.0, 4.0])
    each, first = (from_json(document, lambda add=add: bias + add).b for add in (steps, 1.0))
    np.testing.assert_array_equal(each, bias + steps)
    np.testing.assert_array_equal(first, bias + 1.0)
    with pytest.raises(UnsupportedModelError, match="own margins at x = 0 are neither"):
        from_json(document, lambda: bias - steps)


@pytest.mark.parametrize("kind", BOOSTED)
def test_gblinear_predicts_the_target_at_every_answer(xgboost, rng, kind):
    estimator = boosted(xgboost, rng, kind)
    X, targets = sources(rng, BOOSTED[kind][0])
    for model in (estimator, estimator.get_booster()):
        cfs = invert(model, X, targets, prob=CLEAR)
        np.testing.assert_array_equal(estimator.predict(cfs.x), targets)


def test_gblinear_keeps_the_features_names(xgboost, rng):
    frame = pd.DataFrame(rng.normal(size=(100, 3)), columns=["age", "income", "rate"])
    estimator = xgboost.XGBClassifier(booster="gblinear", n_estimators=3).fit(frame, frame["age"] > 0)
    assert as_model(estimator).feature_names == ("age", "income", "rate")


def test_trees_of_xgboost_are_refused(xgboost, rng):
    X = rng.normal(size=(100, 3))
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(UnsupportedModelError, match=r'booster is "gbtree": trees are not linear.*booster="gblinear"'):
        as_model(xgboost.XGBClassifier(n_estimators=2).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="XGBRegressor is not understood"):
        as_model(xgboost.XGBRegressor(booster="gblinear", n_estimators=2).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="objective is reg:squarederror"):
        as_model(xgboost.XGBRegressor(booster="gblinear", n_estimators=2).fit(X, y).get_booster())
    with pytest.raises(UnsupportedModelError, match="XGBClassifier is not fitted"):
        as_model(xgboost.XGBClassifier(booster="gblinear"))


# ---- Keras ----

ITS_OWN = "ignore:__array__ implementation:DeprecationWarning"  # Keras 3.15 with NumPy 2.4, in get_weights


@pytest.fixture
def keras(monkeypatch):
    needs("torch", "torch==2.13.0")
    if "keras" not in sys.modules:
        monkeypatch.setenv("KERAS_BACKEND", "torch")
    return needs("keras")


DENSE = {
    "softmax": (4, {"activation": "softmax"}),
    "logits": (4, {}),
    "no bias": (3, {"activation": "softmax", "use_bias": False}),
    "sigmoid": (1, {"activation": "sigmoid"}),
    "one logit": (1, {}),
}


@pytest.mark.filterwarnings(ITS_OWN)
@pytest.mark.parametrize("kind", DENSE)
def test_a_dense_layer_is_read_exactly(keras, rng, kind):
    units, options = DENSE[kind]
    layer = keras.layers.Dense(units, bias_initializer="random_normal", **options)
    layer.build((None, D))
    model = as_model(layer)
    kernel, *bias = (np.asarray(w, dtype=np.float64) for w in layer.get_weights())

    def probabilities(outputs, linear):
        if units == 1:
            p = 1 / (1 + np.exp(-outputs)) if linear else outputs
            return np.column_stack([1 - p, p])
        return softmax(outputs) if linear else outputs

    X, targets = sources(rng, max(units, 2))
    X = X.astype(np.float32)
    np.testing.assert_allclose(model.predict_proba(X), probabilities(X @ kernel + (bias[0] if bias else 0), True), **EXACT)
    own = keras.ops.convert_to_numpy(layer(X))
    np.testing.assert_allclose(model.predict_proba(X), probabilities(own, "activation" not in options), **SINGLE)
    cfs = invert(layer, X, targets, prob=CLEAR)
    found = probabilities(keras.ops.convert_to_numpy(layer(cfs.x.astype(np.float32))), "activation" not in options)
    np.testing.assert_array_equal(found.argmax(axis=1), targets)


@pytest.mark.filterwarnings(ITS_OWN)
def test_a_dense_layer_that_is_not_linear_is_refused(keras):
    def built(units, **options):
        layer = keras.layers.Dense(units, **options)
        layer.build((None, D))
        return layer

    for layer, message in (
        (built(3, activation="relu"), "activation is relu. Expected softmax, sigmoid, or none"),
        (built(3, activation="sigmoid"), "sigmoid over 3 units gives 3 independent"),
        (built(1, activation="softmax"), "softmax over 1 unit is constant"),
        (keras.layers.Dense(3), "no weights yet"),
        (keras.layers.Flatten(), "Flatten is not understood. Expected a Dense layer"),
        (
            keras.Sequential([keras.layers.Input((D,)), keras.layers.Dense(3)]),
            r"Sequential is not.*as_model\(model\.layers\[-1\]\)",
        ),
    ):
        with pytest.raises(UnsupportedModelError, match=message):
            as_model(layer)
