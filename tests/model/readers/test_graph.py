"""ONNX graphs are read exactly, or refused with a reason."""

import numpy as np
import pytest
from helpers.libraries import EXACT, SINGLE, needs
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ifonly import InputError, Model, UnsupportedModelError, invert, load

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def onnx():
    return needs("onnx")


def written(onnx, tmp_path, nodes, outputs=("label", "scores")):
    """A graph from nodes as (type, inputs, outputs, attributes), saved."""
    ml = {"LinearClassifier", "Scaler", "Normalizer", "ZipMap"}
    made = [
        onnx.helper.make_node(kind, inputs, outs, domain="ai.onnx.ml" if kind in ml else "", **attributes)
        for kind, inputs, outs, attributes in nodes
    ]
    kinds = onnx.TensorProto
    ends = [onnx.helper.make_tensor_value_info(name, kinds.INT64 if name == "label" else kinds.FLOAT, None) for name in outputs]
    start = onnx.helper.make_tensor_value_info("x", kinds.FLOAT, [None, 2])
    imports = [onnx.helper.make_opsetid("ai.onnx.ml", 3), onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(onnx.helper.make_graph(made, "g", [start], ends), opset_imports=imports, ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx", model


def scored(onnx, model, X):
    """The labels and scores that ONNX's own reference implementation gives."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, {"x": X.astype(np.float32)})


THREE = {"coefficients": [1.0, 2.0, -0.5, 0.25, 0.0, -1.0], "intercepts": [0.1, 0.2, -0.3], "classlabels_ints": [4, 5, 9]}
OPPOSITE = {"coefficients": [-1.0, 0.5, 1.0, -0.5], "intercepts": [-0.25, 0.25], "classlabels_ints": [0, 1]}
ONE_ROW = {"coefficients": [1.0, -0.5], "intercepts": [0.25], "classlabels_ints": [0, 1]}
SCALER = ("Scaler", ["x"], ["z"], {"offset": [1.0, -20.0], "scale": [0.5, 0.1]})


def classifier(attributes, post_transform=None, source="x"):
    more = {} if post_transform is None else {"post_transform": post_transform}
    return ("LinearClassifier", [source], ["label", "scores"], {**attributes, **more})


GRAPHS = {
    "softmax": [classifier(THREE, "SOFTMAX")],
    "scaler": [SCALER, classifier(THREE, "SOFTMAX", "z")],
    "one offset for all": [("Scaler", ["x"], ["z"], {"offset": [2.0], "scale": [0.5]}), classifier(THREE, "SOFTMAX", "z")],
    "logistic": [classifier(OPPOSITE, "LOGISTIC")],
    "logistic, one row": [classifier(ONE_ROW, "LOGISTIC")],
    "softmax of two": [classifier(OPPOSITE, "SOFTMAX")],
    "copies": [("Identity", ["x"], ["y"], {}), ("Cast", ["y"], ["z"], {"to": 1}), classifier(THREE, "SOFTMAX", "z")],
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_an_onnx_graph_is_read_exactly(onnx, tmp_path, rng, kind):
    file, graph = written(onnx, tmp_path, GRAPHS[kind])
    model = load(file)
    X = (rng.normal(size=(500, 2)) * 3).astype(np.float32)
    np.testing.assert_allclose(
        model.predict_proba(X), scored(onnx, graph, X)[1], **SINGLE
    )  # ONNX evaluates in single precision
    targets = model.classes[rng.integers(model.n_classes, size=500)]
    cfs = invert(model, X, targets, prob=0.51)
    np.testing.assert_array_equal(scored(onnx, graph, cfs.x)[0], targets)


def test_an_onnx_graphs_weights_are_the_files_in_double_precision(onnx, tmp_path, rng):
    model = load(written(onnx, tmp_path, GRAPHS["scaler"])[0])
    X = rng.normal(size=(500, 2)) * 3
    single = np.array([0.5, 0.1], dtype=np.float32).astype(np.float64)
    A = np.array(THREE["coefficients"], dtype=np.float32).astype(np.float64).reshape(3, 2)
    z = (X - [1.0, -20.0]) * single @ A.T + np.array(THREE["intercepts"], dtype=np.float32).astype(np.float64)
    np.testing.assert_allclose(model.predict_proba(X), np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), **EXACT)
    assert model.classes.tolist() == [4, 5, 9]
    bare = {name: value for name, value in THREE.items() if name != "intercepts"}
    assert load(written(onnx, tmp_path, [classifier(bare, "SOFTMAX")])[0]) == Model(
        A, np.zeros(3), [4, 5, 9], precision=np.finfo(np.float32).eps
    )


def test_onnx_scores_alone_are_a_hard_model(onnx, tmp_path, rng):
    X = rng.normal(size=(200, 2)).astype(np.float32)
    for attributes in (THREE, OPPOSITE, ONE_ROW):
        file, graph = written(onnx, tmp_path, [classifier(attributes)])
        assert load(file).hard
        np.testing.assert_array_equal(load(file).predict(X), scored(onnx, graph, X)[0])
    nodes = [classifier(THREE, "NONE"), ("Softmax", ["scores"], ["p"], {"axis": 1})]
    file, graph = written(onnx, tmp_path, nodes, outputs=("label", "p"))
    assert not load(file).hard
    np.testing.assert_allclose(load(file).predict_proba(X), scored(onnx, graph, X)[1], **SINGLE)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([classifier(THREE, "LOGISTIC")], "3 classes and post_transform LOGISTIC: one-vs-rest probabilities are not a softmax"),
        (
            [classifier({**OPPOSITE, "intercepts": [0.0, 0.5]}, "LOGISTIC")],
            "two independent logistic regressions, not a softmax",
        ),
        ([classifier(THREE, "PROBIT")], "post_transform PROBIT is not understood. Expected SOFTMAX, LOGISTIC or NONE"),
        ([classifier(ONE_ROW, "SOFTMAX")], "one row of coefficients and a softmax; expected LOGISTIC"),
        ([classifier({**THREE, "intercepts": [0.0, 0.0]}, "SOFTMAX")], "3 labels and 2 rows"),
        ([classifier({**THREE, "classlabels_ints": [1]}, "SOFTMAX")], "has 1 labels, 6 coefficients and 3 intercepts"),
        (
            [("Exp", ["x"], ["z"], {}), classifier(THREE, "SOFTMAX", "z")],
            "node Exp before the LinearClassifier is not understood",
        ),
        ([("Cast", ["x"], ["z"], {"to": 6}), classifier(THREE, "SOFTMAX", "z")], "node Cast before"),
        ([("Scaler", ["x"], ["z"], {"offset": [0.0], "scale": [0.0]}), classifier(THREE, "SOFTMAX", "z")], "or a scale of 0"),
        ([classifier(THREE, "SOFTMAX"), ("Exp", ["scores"], ["p"], {})], "node Exp beside or after the LinearClassifier"),
        ([classifier(THREE, "SOFTMAX"), ("Softmax", ["scores"], ["p"], {})], "node Softmax beside or after"),
        ([classifier(THREE, "NONE"), ("Normalizer", ["scores"], ["p"], {"norm": "L1"})], "node Normalizer beside or after"),
        (
            [("Exp", ["x"], ["scores"], {}), ("Identity", ["x"], ["label"], {})],
            "0 LinearClassifier nodes.*It has: Exp, Identity",
        ),
    ],
)
def test_an_onnx_graph_that_is_something_else_is_refused(onnx, tmp_path, nodes, message):
    with pytest.raises(UnsupportedModelError, match=rf"m\.onnx: .*{message}"):
        load(written(onnx, tmp_path, nodes)[0])


def test_an_onnx_file_that_is_damaged_is_refused(onnx, tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"\xff\xff\xffnonsense")
    with pytest.raises(InputError, match="is damaged, or no ONNX file"):
        load(tmp_path / "m.onnx")


@pytest.mark.parametrize("labels", ["two", "three", "strings"])
@pytest.mark.parametrize("scaled", [False, True])
def test_what_skl2onnx_writes_is_read_exactly(onnx, tmp_path, rng, scaled, labels):
    skl2onnx = needs("skl2onnx")
    y = {"two": (Y > 0).astype(int), "three": Y, "strings": np.array(["a", "b", "c"])[Y]}[labels]
    estimator = make_pipeline(*([StandardScaler()] if scaled else []), LogisticRegression(max_iter=1000)).fit(X, y)
    bare = skl2onnx.to_onnx(estimator, X[:1].astype(np.float32), options={"zipmap": False})
    full = skl2onnx.to_onnx(estimator, X[:1].astype(np.float32))  # ends in a ZipMap, which ONNX's reference does not know
    (tmp_path / "m.onnx").write_bytes(bare.SerializeToString())
    model = load(tmp_path / "m.onnx")
    (tmp_path / "m.onnx").write_bytes(full.SerializeToString())
    assert load(tmp_path / "m.onnx") == model
    fresh = (X[rng.integers(150, size=400)] + 0.5 * rng.normal(size=(400, 4))).astype(np.float32)
    np.testing.assert_allclose(model.predict_proba(fresh), estimator.predict_proba(fresh), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(model.classes, estimator.classes_)
    targets = model.classes[rng.integers(model.n_classes, size=400)]
    answers = invert(model, fresh, targets, prob=0.51).x
    from onnx.reference import ReferenceEvaluator

    found = ReferenceEvaluator(bare).run(None, {"X": answers.astype(np.float32)})[0]
    np.testing.assert_array_equal(found, targets)
