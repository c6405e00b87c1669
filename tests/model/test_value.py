"""A `Model` is a value: equal, copied, read-only; and bad numbers make none."""

import copy
import pickle

import numpy as np
import pytest
from helpers import small
from helpers.small import replaced
from helpers.whole import UNITS, A, B, X, make

from ifonly import InputError, Model, Scaling, invert

CHANGES = {
    "A": A + 1e-9,
    "b": B - 1e-9,
    "classes": list("wxzy"),
    "feature_names": ["u", "w", "v"],
    "scaling": Scaling(UNITS.shift + 1, UNITS.scale),
    "no names": None,
    "no scaling": None,
}


@pytest.mark.parametrize(
    "clone", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy], ids=["pickle", "copy", "deep"]
)
@pytest.mark.parametrize("warm", [False, True])
def test_a_model_survives_pickling_and_copying(clone, warm):
    model = make()
    if warm:
        invert(model, X, "w", prob=0.9)
    other = clone(model)
    assert (other, hash(other), repr(other)) == (model, hash(model), repr(model))
    np.testing.assert_array_equal(invert(other, X, "w", prob=0.9).x, invert(model, X, "w", prob=0.9).x)
    assert not other.A.flags.writeable


def test_a_pickled_model_carries_no_caches():
    cold, warm = Model(A, B), Model(A, B)
    invert(warm, X, 0, prob=0.9)
    assert len(pickle.dumps(warm)) == len(pickle.dumps(cold))


@pytest.mark.parametrize("what", CHANGES)
def test_models_that_differ_in_anything_are_not_equal(what):
    changed = {"no names": {"feature_names": None}, "no scaling": {"scaling": None}}.get(what, {what: CHANGES[what]})
    assert make(**changed) != make()
    assert make() == make()
    assert make() != "a model"


def test_equal_models_have_equal_hashes():
    assert len({make(), make(), make(b=B + 1)}) == 2
    zero, minus = Model(A, [0.0, 0.0, 0.0, 0.0]), Model(A, [0.0, -0.0, 0.0, 0.0])
    assert zero == minus
    assert hash(zero) == hash(minus)


def test_a_model_prints_its_sizes_and_classes():
    assert repr(make()) == "Model(K=4, D=3, classes=['w', 'x', 'y', 'z'])"
    assert repr(Model(np.eye(50), np.zeros(50))) == "Model(K=50, D=50, classes=[0, 1, …, 49])"


ARRAYS = {
    "A": lambda m: m.A,
    "b": lambda m: m.b,
    "classes": lambda m: m.classes,
    "gram": lambda m: m.gram,
    "basis": lambda m: m.basis,
    "projection": lambda m: m.projection_transposed,
    "rivals": lambda m: m.rivals(0),
    "rival_gram": lambda m: m.rival_gram(0),
    "rival_lengths": lambda m: m.rival_lengths(0),
    "shift": lambda m: m.scaling.shift,
    "scale": lambda m: m.scaling.scale,
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_models_arrays_are_read_only(name):
    array = ARRAYS[name](make())
    with pytest.raises(ValueError, match="read-only"):
        array[...] = array


def test_changing_the_users_arrays_changes_nothing():
    weights, biases, labels = A.copy(), B.copy(), np.array(list("wxyz"))
    shift, scale = UNITS.shift.copy(), UNITS.scale.copy()
    model = make(A=weights, b=biases, classes=labels, scaling=Scaling(shift, scale))
    for array in (weights, biases, shift, scale):
        array += 1.0
    labels[:] = labels[::-1].copy()
    assert model == make()
    np.testing.assert_array_equal(model.predict_proba(X), make().predict_proba(X))


def test_the_users_arrays_stay_writeable():
    weights, labels = A.copy(), np.array(list("wxyz"))
    make(A=weights, classes=labels)
    assert weights.flags.writeable
    assert labels.flags.writeable


# ---- bad numbers make none ----


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Model(replaced(small.A, (1, 2), np.nan), small.B), r"A must be finite; A\[1, 2\] is nan"),
        (lambda: Model(replaced(small.A, (0, 3), -np.inf), small.B), r"A must be finite; A\[0, 3\] is -inf"),
        (lambda: Model(small.A, replaced(small.B, 1, np.inf)), r"b must be finite; b\[1\] is inf"),
        (lambda: Model(small.A, replaced(small.B, 2, np.nan)), r"b must be finite; b\[2\] is nan"),
        (lambda: Model(small.A[0], small.B), r"A must have 2 dimensions; got an array of shape \(4,\)"),
        (lambda: Model(small.A, small.B[:, None]), r"b must have 1 dimension; got an array of shape \(3, 1\)"),
        (lambda: Model([["x"], ["y"]], [0, 0]), "A must be an array of numbers; got list"),
        (lambda: Model([[1, 2], [3]], [0, 0]), "A must be an array of numbers; got list"),
        (lambda: Model(small.A[:1], small.B[:1]), "at least 2 rows, one per class; got 1.*Model.binary"),
        (lambda: Model(np.empty((3, 0)), small.B), "at least 1 column, one per feature; got 0"),
        (lambda: Model(small.A, small.B[:2]), "b must have one entry per row of A, 3; got 2"),
        (lambda: Model(small.A, small.B, classes=["a", "b"]), "classes must have one label per row of A, 3; got 2"),
        (lambda: Model(small.A, small.B, classes=[]), "classes must have one label per row of A, 3; got 0"),
        (lambda: Model(small.A, small.B, classes=["a", "b", "a"]), r"classes must be distinct; got \['a', 'b', 'a'\]"),
        (lambda: Model(small.A, small.B, classes=[1, True, 0]), "classes must be distinct; got"),
        (lambda: Model(small.A, small.B, classes=np.zeros((3, 2))), "classes"),
        (lambda: Model(small.A, small.B, feature_names=small.NAMES[:3]), "one name per column of A, 4; got 3"),
        (
            lambda: Model(small.A, small.B, feature_names=["u", "v", "u", "w"]),
            r"feature_names must be distinct; got \['u'\] twice",
        ),
        (lambda: Model.binary(small.A, 0.0), r"w must be one vector of D weights; got an array of shape \(3, 4\)"),
        (lambda: Model.binary(small.A[0], np.nan), r"b must be finite; b\[1\] is nan"),
    ],
)
def test_a_model_of_bad_numbers_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
