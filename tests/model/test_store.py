"""`Model.save` and `load`: every bit comes back, nothing is run, and what cannot be read says why."""

import json
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from helpers.libraries import EXACT, needs
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ifonly import InputError, Model, Scaling, UnsupportedModelError, as_model, invert, load
from ifonly.model.formats import CONTAINERS, VERSION

X, Y = load_iris(return_X_y=True)
SUFFIXES = sorted(CONTAINERS)


def bits(array):
    return array.dtype, array.shape, array.tobytes()


# Numbers that decimal or single precision would not keep: the smallest, the largest, −0, and thirds.
AWKWARD = np.array([[5e-324, -1.7976931348623157e308, -0.0], [1 / 3, np.pi, 1e-300], [0.1, 2**53 + 1.0, -1 / 3]])
CLASSES = {
    "strings": ["low", "mittel", "höchst 日本 \ud800"],
    "integers": [3, -1, 2**62],
    "booleans": [True, False],
    "floats": [0.1, -0.5, 1e300],
    "infinite": [0.1, np.inf, -np.inf],
    "int8": np.array([1, 2, 3], dtype=np.int8),
    "big-endian": np.array([1, 2, 3], dtype=">i4"),
    "float32": np.array([0.1, 0.2, 0.3], dtype=np.float32),
    "mixed": [1, "1", 1.5],
    "tuples": [("a", 1), ("a", 2), (None, True)],
    "none": None,
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("labels", CLASSES)
def test_a_model_comes_back_to_the_last_bit(tmp_path, labels, suffix):
    classes = CLASSES[labels]
    K = 3 if classes is None else len(classes)
    scaling = Scaling(AWKWARD[1], 1 / AWKWARD[2], np.array([1.0, 2.0, 1e-9]))
    model = Model(AWKWARD[:K], AWKWARD[:K, 1], classes, ["a", "ß", "c d"], scaling=scaling, hard=labels == "strings")
    file = tmp_path / f"model{suffix}"
    model.save(file)
    found = load(str(file))
    assert found == model
    assert found.hard == model.hard
    for name in ("A", "b"):
        assert bits(getattr(found, name)) == bits(getattr(model, name))
    for name in ("shift", "scale", "rough"):
        assert bits(getattr(found.scaling, name)) == bits(getattr(model.scaling, name))
    assert found.classes.dtype == model.classes.dtype.newbyteorder("=")
    assert [(type(c), c) for c in found.classes.tolist()] == [(type(c), c) for c in model.classes.tolist()]
    assert found.feature_names == model.feature_names


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_model_without_anything_besides_comes_back(tmp_path, suffix):
    model = Model(np.eye(2), [0.0, 1.0])
    model.save(tmp_path / f"m{suffix.upper()}")
    found = load(tmp_path / f"m{suffix.upper()}")
    assert found == model
    assert (found.feature_names, found.scaling) == (None, None)
    assert found.encoding.identity


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_answers_are_the_same_after_a_round_trip(tmp_path, suffix):
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    as_model(estimator).save(tmp_path / f"m{suffix}")
    np.testing.assert_array_equal(invert(load(tmp_path / f"m{suffix}"), X, 1).x, invert(estimator, X, 1).x)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_precision_of_the_estimator_comes_back(tmp_path, suffix):
    model = Model(np.eye(2), [0.0, 1.0], precision=float(np.finfo(np.float32).eps))
    model.save(tmp_path / f"m{suffix}")
    assert load(tmp_path / f"m{suffix}") == model
    assert load(tmp_path / f"m{suffix}").precision == model.precision


def test_an_encoding_comes_back_or_is_refused(tmp_path):
    """Never lost without a word."""
    file = tmp_path / "m.json"
    Model(np.eye(2), [0.0, 1.0]).save(file)
    document = json.loads(file.read_text())
    document["ifonly"]["extra"] = {"tomorrow": 1}
    del document["ifonly"]["digest"]
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"'tomorrow', which this version of ifonly does not know.*--upgrade"):
        load(file)


def test_others_read_what_we_write(tmp_path):
    """The containers are what they say: NumPy, safetensors and any JSON reader open them."""
    model = Model(AWKWARD, AWKWARD[1], list("abc"))
    for suffix in SUFFIXES:
        model.save(tmp_path / f"m{suffix}")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as archive:
        assert archive["A"].tobytes() == model.A.tobytes()
        assert json.loads(archive["ifonly"].item())["version"] == VERSION
    assert json.loads((tmp_path / "m.json").read_text())["b"] == model.b.tolist()
    safetensors = needs("safetensors")
    with safetensors.safe_open(tmp_path / "m.safetensors", "np") as file:
        assert file.get_tensor("A").tobytes() == model.A.tobytes()
        assert json.loads(file.metadata()["ifonly"])["classes"] == {"dtype": "str", "values": ["a", "b", "c"]}


def test_saving_needs_a_suffix_that_is_known(tmp_path):
    with pytest.raises(InputError, match=r"saved as \.npz, \.safetensors, \.json; got '.*m\.pkl'"):
        Model(np.eye(2), [0.0, 0.0]).save(tmp_path / "m.pkl")


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"), r"classes of type datetime64\[D\] cannot be saved"),
        (np.array([b"a", b"b"]), r"classes of type \|S1 cannot be saved"),
        (np.array([np.nan, 1.0]), "classes of type NaN cannot be saved"),
        ([frozenset("a"), frozenset("b")], "cannot be saved; expected strings.*got a frozenset"),
    ],
)
def test_labels_that_cannot_be_saved_are_refused_and_nothing_is_written(tmp_path, classes, message):
    with pytest.raises(InputError, match=message):
        Model(np.eye(2), [0.0, 0.0], classes).save(tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


# ---- damaged, or from the future ----


@pytest.fixture
def saved(tmp_path):
    """A path for each suffix, of a saved model."""
    files = {suffix: tmp_path / f"m{suffix}" for suffix in SUFFIXES}
    for file in files.values():
        Model(AWKWARD, AWKWARD[1], list("abc"), ["u", "v", "w"], scaling=Scaling(np.ones(3), np.ones(3))).save(file)
    return files


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_cut_off_is_refused_at_any_length(saved, suffix):
    data = saved[suffix].read_bytes()
    for size in sorted({0, 1, 4, 8, 9, 100, len(data) // 2, len(data) - 9, len(data) - 3}):
        saved[suffix].write_bytes(data[:size])
        with pytest.raises(InputError, match=rf"m\{suffix} (is damaged, or no|cannot be read)"):
            load(saved[suffix])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_with_other_content_is_refused_or_reads_as_the_same(saved, suffix, rng):
    """Any byte may be wrong: what is read is then what was written, or nothing."""
    model, data = load(saved[suffix]), saved[suffix].read_bytes()
    refused = 0
    for place in rng.choice(len(data), size=min(len(data), 400), replace=False):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        saved[suffix].write_bytes(changed)
        try:
            found = load(saved[suffix])
        except (InputError, UnsupportedModelError):
            refused += 1
        else:
            assert found == model
            assert bits(found.A) == bits(model.A)
    assert refused > 100


def forged(file, change):
    """A file of ours, its header changed."""
    document = json.loads(file.read_text())
    change(document, document["ifonly"])
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, h: h.update(version=2), "version 2, and this ifonly reads up to 1: pip install --upgrade ifonly"),
        (lambda d, h: h.update(version="1"), "its header is not that of an ifonly model"),
        (lambda d, h: h.update(format="other"), "its header is not that of an ifonly model"),
        (lambda d, h: d.update(ifonly=[1]), "its header is not that of an ifonly model"),
        (lambda d, h: d.update(b=[0.0, 0.0, 1.0]), "it is damaged: its content is not what was written"),
        (lambda d, h: h.update(feature_names=["u", "w", "v"]), "it is damaged: its content is not what was written"),
        (lambda d, h: d.pop("A"), "it is damaged: its content is not what was written"),
        (lambda d, h: (h.pop("digest"), d.pop("A")), "it is damaged: 'A' is missing or wrong"),
        (lambda d, h: (h.pop("digest"), h.pop("classes")), "it is damaged: 'classes' is missing or wrong"),
        (lambda d, h: (h.pop("digest"), d.update(b=[0.0, 0.0])), "b must have one entry per row of A, 3; got 2"),
        (lambda d, h: (h.pop("digest"), d.update(scale=[1.0])), "A has shape .*, its scaling"),
        (lambda d, h: (h.pop("digest"), d.update(more=[1.0])), "it has 'more', which this version of ifonly does not know"),
        (lambda d, h: (h.pop("digest"), h["classes"].update(dtype="O")), "class labels cannot be read .*'O'"),
        (lambda d, h: (h.pop("digest"), h["classes"].update(dtype="<i8")), "class labels cannot be read"),
        (
            lambda d, h: (h.pop("digest"), h["classes"].update(values=[["a"], ["b"], ["c"]])),
            "labels are not of their type, str",
        ),
        (lambda d, h: (h.pop("digest"), h["classes"].update(dtype="object", values=[["x", 1]] * 3)), "labels cannot be read"),
        (lambda d, h: (h.pop("digest"), d.update(A=[[1.0, "x", 2.0]] * 3)), "A must be an array of numbers"),
        (lambda d, h: (h.pop("digest"), d.update(scale=["x"] * 3)), "it is damaged: .*'x' is missing or wrong"),
        (lambda d, h: (h.pop("digest"), h["extra"].update(precision="fine")), "it is damaged: .*'fine' is missing or wrong"),
        (lambda d, h: (h.pop("digest"), h["extra"].update(precision=0)), r"its precision must be between 0 and 1; got 0\.0"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(saved, change, message):
    with pytest.raises(InputError, match=rf"m\.json.*{message}"):
        load(forged(saved[".json"], change))


def test_a_header_made_by_hand_needs_no_digest(saved):
    model = load(saved[".json"])
    assert load(forged(saved[".json"], lambda document, header: header.pop("digest"))) == model


def test_a_precision_is_read_and_a_file_without_one_is_of_double_precision(saved):
    single = float(np.finfo(np.float32).eps)
    assert load(saved[".json"]).precision == np.finfo(np.float64).eps
    file = forged(saved[".json"], lambda document, header: (header.pop("digest"), header["extra"].update(precision=single)))
    assert load(file).precision == single


# ---- weights alone ----


PAIRS = [("A", "b"), ("weight", "bias"), ("coef_", "intercept_")]


def put(file, entries):
    """A file as other tools write it."""
    if file.suffix == ".npz":
        np.savez(file, **entries)
    elif file.suffix == ".json":
        file.write_text(json.dumps({name: np.asarray(value).tolist() for name, value in entries.items()}))
    else:
        needs("safetensors")
        from safetensors.numpy import save_file

        save_file({name: np.asarray(value) for name, value in entries.items()}, file)
    return file


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_bare_weights_are_read(tmp_path, rng, pair, suffix):
    A, b = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=3)
    file = tmp_path / f"w{suffix}"
    assert load(put(file, {pair[0]: A, pair[1]: b})) == Model(A, b)
    assert load(put(file, {pair[0]: A})) == Model(A, np.zeros(3))
    assert load(put(file, {pair[0]: A[:1], pair[1]: b[:1]})) == Model.binary(A[0], b[0])
    assert load(put(file, {pair[0]: A[0]})) == Model.binary(A[0], 0.0)


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_bare_weights_may_have_classes_and_names(tmp_path, suffix):
    estimator = LogisticRegression(max_iter=1000).fit(X, np.array(["a", "b", "c"])[Y])
    entries = {name: getattr(estimator, name) for name in ("coef_", "intercept_", "classes_")}
    file = put(tmp_path / f"w{suffix}", {**entries, "feature_names_in_": np.array(["u", "v", "w", "x"])})
    np.testing.assert_array_equal(load(file).predict(X), estimator.predict(X))
    assert load(file).feature_names == ("u", "v", "w", "x")


def test_classes_in_json_keep_their_types(tmp_path):
    file = tmp_path / "w.json"
    for classes in ([1, 2], ["1", "2"], [True, False], [1, "1"], [0.5, 1.5]):
        file.write_text(json.dumps({"A": [[1, 0], [0, 1]], "classes": classes}))
        assert [(type(c), c) for c in load(file).classes.tolist()] == [(type(c), c) for c in classes]


def test_the_state_of_a_torch_layer_is_read(tmp_path, rng):
    A, b = rng.normal(size=(3, 4)), rng.normal(size=3)
    assert load(put(tmp_path / "w.safetensors", {"model.head.weight": A, "model.head.bias": b})) == Model(A, b)


def test_half_precision_is_read_exactly(tmp_path):
    torch, _ = needs("torch", "torch==2.13.0"), needs("safetensors")
    from safetensors.torch import save_file

    for dtype in (torch.bfloat16, torch.float16):
        weight = torch.randn(3, 4).to(dtype)
        save_file({"weight": weight}, tmp_path / "w.safetensors")
        np.testing.assert_array_equal(load(tmp_path / "w.safetensors").A, weight.double().numpy())


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"W": np.eye(2)},
            r"no weights by a name that is understood \(A and b, weight and bias, coef_ and intercept_\).*\['W'\]",
        ),
        (
            {"A": np.eye(2), "b": np.zeros(2), "scale": np.ones(2)},
            "beside A and b it has 'scale', which may change what they mean",
        ),
        ({"weight": np.eye(2), "0.weight": np.eye(2)}, "beside weight and bias it has '0.weight'"),
        ({"0.weight": np.eye(2), "2.weight": np.eye(2)}, "no weights by a name"),
        ({"A": np.array([["a", "b"]])}, "A must be an array of numbers"),
        ({"A": np.eye(2), "b": np.zeros(3)}, "b must have one entry per row of A, 2; got 3"),
        ({"A": np.zeros((2, 2, 2))}, r"A must have 2 dimensions; got an array of shape \(2, 2, 2\)"),
        ({"A": np.array([[1.0, np.nan], [0.0, 1.0]])}, r"A must be finite; A\[0, 1\] is nan"),
    ],
)
@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_weights_that_do_not_fit_are_refused(tmp_path, entries, message, suffix):
    with pytest.raises(InputError, match=rf"w\{suffix}: .*{message}"):
        load(put(tmp_path / f"w{suffix}", entries))


def test_an_archive_with_a_pickle_inside_is_refused(tmp_path):
    np.savez(tmp_path / "w.npz", A=np.array([[Bomb(tmp_path)]], dtype=object))
    with pytest.raises(InputError, match=r"is damaged, or no \.npz file \(Object arrays cannot be loaded"):
        load(tmp_path / "w.npz")
    assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "expected a JSON object with arrays by name; got a list"),
        ('{"A": [[1, 2], [3]]}', r"is damaged, or no \.json file"),
        ("{'A': 1}", r"is damaged, or no \.json file"),
        ('{"A": null}', "A must be an array of numbers"),
        ('{"A": {"x": 1}}', "A must be an array of numbers"),
        ("[" * 100_000, r"is damaged, or no \.json file"),
    ],
)
def test_json_that_is_something_else_is_refused(tmp_path, text, message):
    (tmp_path / "w.json").write_text(text)
    with pytest.raises(InputError, match=message):
        load(tmp_path / "w.json")


def test_safetensors_that_lie_about_themselves_are_refused(tmp_path):
    def write(index, body):
        text = json.dumps(index).encode()
        (tmp_path / "w.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)

    for index, body in (
        ({"A": {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 64]}}, bytes(32)),
        ({"A": {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 24]}}, bytes(32)),
        ({"A": {"dtype": "F64", "shape": [2, 2], "data_offsets": [-8, 24]}}, bytes(32)),
        ({"A": {"dtype": "F64", "shape": [-2, -2], "data_offsets": [0, 32]}}, bytes(32)),
        ({"A": {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 32]}}, bytes(40)),
        ({"A": {"dtype": "F64", "shape": [2, 2]}}, bytes(32)),
        ({"A": [1]}, bytes(32)),
        ([], b""),
    ):
        write(index, body)
        with pytest.raises(InputError, match=r"is damaged, or no \.safetensors file"):
            load(tmp_path / "w.safetensors")
    write({"A": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]}}, bytes(4))
    with pytest.raises(InputError, match="its array 'A' is of type F8_E4M3; expected one of F64"):
        load(tmp_path / "w.safetensors")


# ---- nothing is run ----


class Bomb:
    """What opening a pickle can do."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / "was-here"),)


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".PKL"])
def test_a_pickle_is_not_opened_without_trust(tmp_path, suffix):
    file = tmp_path / f"m{suffix}"
    file.write_bytes(pickle.dumps(Bomb(tmp_path)))
    with pytest.raises(InputError, match=r"is a pickle, and opening a pickle runs whatever code.*trust=True.*Model\.save"):
        load(file)
    assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib"])
def test_a_pickle_is_read_with_trust(tmp_path, suffix):
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    file = tmp_path / f"m{suffix}"
    if suffix == ".joblib":
        needs("joblib").dump(estimator, file, compress=3)
    else:
        file.write_bytes(pickle.dumps(estimator))
    assert load(file, trust=True) == as_model(estimator)
    file.write_bytes(pickle.dumps(as_model(estimator)))
    assert load(file, trust=True) == as_model(estimator)
    file.write_bytes(pickle.dumps(DecisionTreeClassifier().fit(X, Y)))
    with pytest.raises(UnsupportedModelError, match="DecisionTreeClassifier"):
        load(file, trust=True)


def test_a_pickle_that_is_damaged_is_refused(tmp_path):
    (tmp_path / "m.pkl").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="is damaged, or no pickle"):
        load(tmp_path / "m.pkl", trust=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("m.csv", r"no kind that is understood\. Understood are \.npz, .*LIBLINEAR, \.onnx, \.skops"),
        ("model", "no kind that is understood"),
        ("m.pt", "For this one: load the module with torch and pass it to as_model"),
        ("m.keras", "For this one: load it with keras"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, name, message):
    (tmp_path / name).write_bytes(b"a,b\n1,2\n")
    with pytest.raises(InputError, match=message):
        load(tmp_path / name)


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"m\.npz"):
        load(tmp_path / "m.npz")


def test_loading_a_model_loads_no_library(tmp_path):
    files = []
    for suffix in SUFFIXES:
        files.append(str(tmp_path / f"m{suffix}"))
        Model(np.eye(2), [0.0, 1.0]).save(files[-1])
    code = f"""
import sys
import ifonly
[ifonly.load(file) for file in {files!r}]
print(*[name for name in ("safetensors", "torch", "onnx", "xgboost", "skops", "sklearn", "joblib") if name in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


@pytest.mark.parametrize(("suffix", "package"), [(".onnx", "onnx"), (".skops", "skops"), (".joblib", "joblib")])
def test_a_missing_library_says_what_to_install(tmp_path, monkeypatch, suffix, package):
    (tmp_path / f"m{suffix}").write_bytes(b"something")
    module = {".skops": "skops.io"}.get(suffix, package)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"needs {package}: pip install {package}"):
        load(tmp_path / f"m{suffix}", trust=True)


# ---- skops ----


class Odd(LogisticRegression):
    """A type that skops does not know."""


def test_a_skops_file_is_read(tmp_path):
    needs("skops")
    import skops.io

    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    skops.io.dump(estimator, tmp_path / "m.skops")
    assert load(tmp_path / "m.skops") == as_model(estimator)
    np.testing.assert_allclose(load(tmp_path / "m.skops").predict_proba(X), estimator.predict_proba(X), **EXACT)
    skops.io.dump(Odd(max_iter=1000).fit(X, Y), tmp_path / "m.skops")
    with pytest.raises(InputError, match=r"types that skops does not trust: .*Odd.*trust=True"):
        load(tmp_path / "m.skops")
    with pytest.raises(UnsupportedModelError, match="Odd"):
        load(tmp_path / "m.skops", trust=True)


def test_a_skops_file_that_is_damaged_is_refused(tmp_path):
    needs("skops")
    (tmp_path / "m.skops").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="is damaged, or no skops file"):
        load(tmp_path / "m.skops")
    with zipfile.ZipFile(tmp_path / "m.skops", "w") as archive:
        archive.writestr("other", "x")
    with pytest.raises(InputError, match="is damaged, or no skops file"):
        load(tmp_path / "m.skops")
