"""Bad input is refused at once, with what was expected and what came; the edges of good input are solved like any other."""

import numpy as np
import pandas as pd
import pytest
from helpers import reference
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ifonly import CertificateError, InputError, Model, Scaling, Status, invert, path

A = np.array([[1.0, -2.0, 0.5, 0.0], [0.0, 1.0, -1.0, 2.0], [-1.0, 0.5, 1.5, -1.0]])
B = np.array([0.3, -0.2, 0.1])
X = np.array([1.0, -0.5, 2.0, 0.25])  # p = 0.843, 0.003, 0.154
HUGE = np.array([1.0, -1.0, 1.0, 1.0]) * 1e308  # finite, but its logits are not
NAMES = ("age", "income", "loans", "months")
MODEL = Model(A, B, classes=["a", "b", "c"], feature_names=NAMES)
PAIR = Model(A[:2], B[:2], classes=["no", "yes"])

BACKENDS = ["auto", "reference", "cpu"]  # auto: one row after the other for so few

NEARLY_ONE = float(np.nextafter(1.0, 0.0))
NUMBERS = ("x", "delta", "source", "proba", "distance", "objective", "grad_norm", "gap", "error_bound", "coef")

# Two orders of summation (gemv or gemm, contiguous or strided) differ in the last bits of the logits, so answers that are
# the same in exact arithmetic agree to a few units of 1e-16 times the condition of these small problems.
SAME = {"rtol": 1e-12, "atol": 1e-13}


def replaced(array, place, value):
    """A copy with one entry replaced."""
    out = np.array(array, dtype=float)
    out[place] = value
    return out


def sound(cf):
    """What every solved answer owes its user: it is recomputed and holds, and nothing in it is NaN or infinite."""
    cf.verify()
    assert cf.status.ok, cf.message
    assert [name for name in NUMBERS if not np.isfinite(np.asarray(getattr(cf, name))).all()] == []
    assert cf.lam > 0  # infinite where the source is the answer, never NaN
    if cf.prob is not None:
        assert np.atleast_2d(cf.model.predict_proba(cf.x))[0, cf.model.class_index(cf.target)] >= cf.prob
    return cf


def true_bound(cf):
    """The certificate against the truth in 50 digits (models without a scaler, finite λ)."""
    best = reference.optimum(cf.model.A, cf.model.b, cf.source, cf.model.class_index(cf.target), cf.lam)
    assert best.distance_to(cf.x) <= cf.error_bound
    return best


# ---- refused: the model ----


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Model(replaced(A, (1, 2), np.nan), B), r"A must be finite; A\[1, 2\] is nan"),
        (lambda: Model(replaced(A, (0, 3), -np.inf), B), r"A must be finite; A\[0, 3\] is -inf"),
        (lambda: Model(A, replaced(B, 1, np.inf)), r"b must be finite; b\[1\] is inf"),
        (lambda: Model(A, replaced(B, 2, np.nan)), r"b must be finite; b\[2\] is nan"),
        (lambda: Model(A[0], B), r"A must have 2 dimensions; got an array of shape \(4,\)"),
        (lambda: Model(A, B[:, None]), r"b must have 1 dimension; got an array of shape \(3, 1\)"),
        (lambda: Model([["x"], ["y"]], [0, 0]), "A must be an array of numbers; got list"),
        (lambda: Model([[1, 2], [3]], [0, 0]), "A must be an array of numbers; got list"),
        (lambda: Model(A[:1], B[:1]), "at least 2 rows, one per class; got 1.*Model.binary"),
        (lambda: Model(np.empty((3, 0)), B), "at least 1 column, one per feature; got 0"),
        (lambda: Model(A, B[:2]), "b must have one entry per row of A, 3; got 2"),
        (lambda: Model(A, B, classes=["a", "b"]), "classes must have one label per row of A, 3; got 2"),
        (lambda: Model(A, B, classes=[]), "classes must have one label per row of A, 3; got 0"),
        (lambda: Model(A, B, classes=["a", "b", "a"]), r"classes must be distinct; got \['a', 'b', 'a'\]"),
        (lambda: Model(A, B, classes=[1, True, 0]), "classes must be distinct; got"),
        (lambda: Model(A, B, classes=np.zeros((3, 2))), "classes"),
        (lambda: Model(A, B, feature_names=NAMES[:3]), "one name per column of A, 4; got 3"),
        (lambda: Model(A, B, feature_names=["u", "v", "u", "w"]), r"feature_names must be distinct; got \['u'\] twice"),
        (lambda: Model.binary(A, 0.0), r"w must be one vector of D weights; got an array of shape \(3, 4\)"),
        (lambda: Model.binary(A[0], np.nan), r"b must be finite; b\[1\] is nan"),
    ],
)
def test_a_model_of_bad_numbers_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# ---- refused: the source ----


@pytest.mark.parametrize("question", [invert, path])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (replaced(X, 1, np.nan), "x must be finite; feature income is nan"),
        (replaced(X, 3, np.inf), "x must be finite; feature months is inf"),
        (replaced(replaced(X, 0, np.inf), 1, -np.inf), "x must be finite; feature age is inf"),
        ([1.0, None, 0.0, 0.0], "x must be finite; feature income is nan"),
        (HUGE, "x is so large that its logits overflow"),
        (X[:3], "x must have 4 features; got 3"),
        ([], "x must have 4 features; got 0"),
        (np.zeros((2, 5)), "x must have 4 features; got 5"),
        (np.zeros((1, 2, 4)), r"x must be one row \(D,\) or a table of rows \(N, D\); got an array of shape \(1, 2, 4\)"),
        (3.0, r"got an array of shape \(\)"),
        (["young", "poor", "many", "few"], "x must be numbers; got list .*'young'"),
        ("1234", "x must be"),
        ([[1.0, 2.0], [3.0]], "x must be numbers; got list"),
        (X + 1j, "x must be"),
    ],
)
def test_a_bad_source_is_refused(question, x, message):
    with pytest.raises(InputError, match=message):
        question(MODEL, x, "b")


def test_a_feature_without_a_name_is_named_by_its_place():
    with pytest.raises(InputError, match="x must be finite; feature 2 is nan"):
        invert(PAIR, replaced(X, 2, np.nan))


def test_infinity_is_seen_even_where_the_weights_are_zero():
    blind = Model(replaced(A, (slice(None), 1), 0.0), B)
    with pytest.raises(InputError, match="x must be finite; feature 1 is inf"):
        invert(blind, replaced(X, 1, np.inf), 0, lam=0.1)


def test_a_sparse_source_with_nan_is_refused():
    with pytest.raises(InputError, match="x must be finite; feature age is nan"):
        invert(MODEL, csr_array(replaced(X, 0, np.nan)), "a")


def test_a_sparse_source_cannot_pass_a_shifting_scaler():
    shifting = Model(A, B, scaling=Scaling(np.ones(4), np.ones(4)))
    with pytest.raises(InputError, match="sparse x cannot pass a scaler that shifts"):
        invert(shifting, csr_array(X[None]), 0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["age", "income", "loans", "weeks"], r"missing \['months'\], not known \['weeks'\]"),
        (["age", "income", "loans"], r"missing \['months'\], not known \[\]"),
        ([*NAMES, "weeks"], r"missing \[\], not known \['weeks'\]"),
        ([*NAMES, "age"], "age"),
    ],
)
def test_a_frame_with_other_columns_is_refused(columns, message):
    frame = pd.DataFrame(np.zeros((2, len(columns))), columns=columns)
    with pytest.raises(InputError, match=message):
        invert(MODEL, frame, "a")


def test_a_pandas_row_with_other_labels_is_refused():
    with pytest.raises(InputError, match=r"missing \['months'\], not known \['weeks'\]"):
        invert(MODEL, pd.Series(X, index=["age", "income", "loans", "weeks"]), "a")


# ---- refused: the question ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 0.0}, r"lam must be a number > 0; got 0\.0"),
        ({"lam": -1.0}, r"lam must be a number > 0; got -1\.0"),
        ({"lam": np.nan}, "lam must be a number > 0; got nan"),
        ({"lam": np.inf}, "lam must be a number > 0; got inf"),
        ({"lam": "much"}, "lam must be one number; got 'much'"),
        ({"lam": [0.1, 0.2]}, r"lam must be one number; got \[0\.1, 0\.2\]"),
        ({"prob": 0.0}, r"prob must be strictly between 0 and 1; got 0\.0"),
        ({"prob": 1.0}, r"prob must be strictly between 0 and 1; got 1\.0"),
        ({"prob": -0.5}, r"prob must be strictly between 0 and 1; got -0\.5"),
        ({"prob": 1.5}, r"prob must be strictly between 0 and 1; got 1\.5"),
        ({"prob": np.nan}, "prob must be strictly between 0 and 1; got nan"),
        ({"prob": np.inf}, "prob must be strictly between 0 and 1; got inf"),
        ({"lam": 0.1, "prob": 0.9}, "give one of lam and prob, not both"),
        ({"prob": 0.9, "start": X}, "start goes with lam"),
        ({"start": X}, "start goes with lam"),
        ({"lam": 0.1, "start": "here"}, "start must be a point, or \"source\"; got 'here'"),
        ({"lam": 0.1, "start": X[:2]}, "must have 4 features; got 2"),
        ({"lam": 0.1, "start": np.zeros((2, 4))}, "start must be one point or 1, one per row; got 2"),
        ({"lam": 0.1, "start": replaced(X, 1, np.nan)}, "start: .*feature income is nan"),
        ({"lam": 0.1, "tol": 0.0}, r"tol must be a number > 0; got 0\.0"),
        ({"lam": 0.1, "tol": -1e-8}, "tol must be a number > 0; got -1e-08"),
        ({"lam": 0.1, "tol": np.nan}, "tol must be a number > 0; got nan"),
        ({"lam": 0.1, "max_iter": 0}, "max_iter must be"),
        ({"prob": 0.9, "max_iter": 0}, "max_iter must be"),
        ({"lam": 0.1, "target": "d"}, "unknown class 'd'; the model's classes are 'a', 'b', 'c'"),
        ({"lam": 0.1, "target": 0}, "unknown class 0; the model's classes are 'a', 'b', 'c'"),
        ({"lam": 0.1, "target": ["a"]}, r"unknown class \['a'\]; the model's classes are"),
        ({"lam": 0.1, "target": "opposite"}, 'target "opposite" needs a model with 2 classes; this one has 3'),
    ],
)
def test_a_bad_question_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        invert(MODEL, X, **{"target": "a", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": ["a", "b"]}, "target must be one label or 3, one per row; got 2"),
        ({"target": np.array(["a"] * 4)}, "target must be one label or 3, one per row; got 4"),
        ({"target": ["a", "b", "z"]}, "unknown class 'z'; the model's classes are 'a', 'b', 'c'"),
        ({"lam": [0.1, 0.2]}, "lam must be one number or 3, one per row; got 2"),
        ({"lam": [0.1, -0.2, 0.3]}, r"lam must be a number > 0; got -0\.2"),
        ({"prob": [0.5, 0.6]}, "prob must be one number or 3, one per row; got 2"),
        ({"prob": [0.5, 0.6, 1.0]}, r"prob must be strictly between 0 and 1; got 1\.0"),
        ({"prob": [[0.5, 0.6, 0.7]]}, r"prob must be one number, or one per row; got an array of shape \(1, 3\)"),
    ],
)
def test_a_bad_question_for_a_table_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        invert(MODEL, np.stack([X, X, X]), **{"target": "a", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": np.stack([X, X])}, "path takes one source; got a table of 2 rows"),
        ({"lams": []}, r"lams must be one or more numbers > 0; got \[\]"),
        ({"lams": [1.0, 0.0]}, r"lams must be one or more numbers > 0; got \[1\.0, 0\.0\]"),
        ({"lams": [1.0, np.nan]}, r"lams must be one or more numbers > 0; got \[1\.0, nan\]"),
        ({"lams": [np.inf]}, r"lams must be one or more numbers > 0; got \[inf\]"),
        ({"lams": "many"}, "lams must be one or more numbers > 0; got many"),
        ({"tol": 0.0}, r"tol must be a number > 0; got 0\.0"),
        ({"tol": -1.0}, r"tol must be a number > 0; got -1\.0"),
        ({"target": "z"}, "unknown class 'z'; the model's classes are 'a', 'b', 'c'"),
        ({"target": "opposite"}, 'target "opposite" needs a model with 2 classes; this one has 3'),
    ],
)
def test_a_bad_path_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        path(MODEL, **{"x": X, "target": "a", **options})


def test_the_list_of_known_classes_is_cut_short():
    many = Model(np.eye(30), np.zeros(30))
    with pytest.raises(InputError, match=r"unknown class 99; the model's classes are 0, 1, .*, 19, …"):
        invert(many, np.zeros(30), 99)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_path_refuses_a_bad_lam_between(value):
    with pytest.raises(InputError, match=f"lam must be a number > 0; got {value}"):
        path(MODEL, X, "a").at_lam(value)


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_a_path_refuses_a_bad_prob_between(value):
    with pytest.raises(InputError, match=f"prob must lie strictly between 0 and 1; got {value}"):
        path(MODEL, X, "a").at_prob(value)


@pytest.mark.parametrize("index", [2, -3, 10**9])
@pytest.mark.parametrize("answers", [invert(MODEL, [X, X]), path(MODEL, X, lams=[1.0, 0.1])], ids=["batch", "path"])
def test_an_index_out_of_range_says_how_many_answers_there_are(answers, index):
    with pytest.raises(IndexError, match=f"there are 2 answers; got index {index}"):
        answers[index]


# ---- solved: targets ----


@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
def test_the_class_that_is_predicted_already_is_solved_all_the_same(lam):
    assert MODEL.predict(X) == "a"
    cf = sound(invert(MODEL, X, "a", lam=lam))
    assert cf.proba[0] > MODEL.predict_proba(X)[0]
    assert cf.distance > 0
    true_bound(cf)


def test_a_probability_that_the_source_has_already_is_answered_by_the_source():
    cf = sound(invert(MODEL, X, "a", prob=0.8))
    np.testing.assert_array_equal(cf.x, X)
    assert (cf.distance, cf.lam, cf.gap, cf.status) == (0.0, np.inf, 0.0, Status.EXACT)


def test_a_higher_probability_of_the_class_predicted_already_moves_the_source():
    cf = sound(invert(MODEL, X, "a", prob=0.9))
    assert cf.distance > 0
    assert cf.proba[0] == pytest.approx(0.9, abs=1e-12)


@pytest.mark.parametrize("target", [None, "other", "opposite"])
@pytest.mark.parametrize("x", [X, -X])
def test_with_two_classes_any_other_is_the_opposite(target, x):
    cf = sound(invert(PAIR, x, target))
    assert cf.target != PAIR.predict(x)
    assert cf.target == PAIR.predict(cf.x)


@pytest.mark.parametrize("options", [{"prob": 0.7}, {"lam": 0.05}])
@pytest.mark.parametrize("target", [None, "other"])
def test_any_other_class_is_the_best_of_all_others(rng, options, target):
    model = Model(rng.normal(size=(6, 8)), rng.normal(size=6))
    measure = "distance" if "prob" in options else "objective"
    for x in rng.normal(size=(20, 8)):
        cf = sound(invert(model, x, target, **options))
        others = [getattr(invert(model, x, k, **options), measure) for k in range(6) if k != model.predict(x)]
        assert cf.target != model.predict(x)
        assert getattr(cf, measure) == min(others)


def test_a_table_may_mix_labels_and_nearest_classes():
    cfs = invert(MODEL, [X, X, X], ["a", None, "other"])
    nearest = invert(MODEL, X).target
    assert cfs.target.tolist() == ["a", nearest, nearest]


@pytest.mark.parametrize("word", ["other", "opposite"])
def test_a_class_of_that_name_comes_first(word):
    named = Model(A, B, classes=["a", word, "c"])
    assert sound(invert(named, X, word)).target == word


@pytest.mark.parametrize(
    ("classes", "label"),
    [
        (["a", "b", "c"], np.str_("b")),
        (np.array(["a", "b", "c"], dtype=object), "b"),
        ([10, 20, 30], np.int32(20)),
        ([10, 20, 30], 20.0),
        (np.array([10, 20, 30], dtype=np.uint8), 20),
        ([0.5, 1.5, 2.5], np.float32(1.5)),
        ([(0, 1), (1, 0), (1, 1)], (1, 0)),
        ([None, "b", 3], "b"),
        (np.array(["2020", "2021", "2022"], dtype="M8[Y]"), np.datetime64("2021")),
    ],
)
def test_labels_of_many_kinds_name_the_same_class(classes, label):
    cf = sound(invert(Model(A, B, classes=classes), X, label))
    assert cf.target == label
    np.testing.assert_array_equal(cf.x, invert(Model(A, B), X, 1).x)


@pytest.mark.parametrize("label", [True, np.True_])
def test_labels_may_be_booleans(label):
    cf = sound(invert(Model(A[:2], B[:2], classes=[False, True]), X, label))
    assert cf.target is True


@pytest.mark.parametrize("targets", [["a", "b"], np.array(["a", "b"]), pd.Series(["a", "b"], index=[7, 8])])
def test_one_target_per_row_may_be_a_list_an_array_or_a_series(targets):
    cfs = invert(MODEL, [X, X], targets)
    assert cfs.target.tolist() == ["a", "b"]
    assert [cf.target for cf in cfs] == ["a", "b"]


# ---- solved: kinds of arrays ----

KINDS = {
    "list": lambda X: X.tolist(),
    "tuple": lambda X: tuple(map(tuple, X.tolist())),
    "read-only": lambda X: np.broadcast_to(X, X.shape),
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 3, axis=0), 2, axis=1)[::3, ::2],
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "float32": lambda X: X.astype(np.float32),
    "int": lambda X: X.astype(np.int64),
    "big-endian": lambda X: X.astype(">f8"),
    "object": lambda X: X.astype(object),
    "sparse": csr_array,
    "sparse, unsorted": lambda X: csr_array(X)[:, [3, 2, 1, 0]][:, [3, 2, 1, 0]],
    "frame": lambda X: pd.DataFrame(X, columns=NAMES),
}
WHOLE = np.array([[3.0, -1.0, 0.0, 2.0], [0.0, 4.0, 1.0, -5.0], [1.0, 0.0, 0.0, 0.0]])  # exact in every kind above


@pytest.mark.parametrize("options", [{"lam": 0.03}, {"prob": 0.8}])
@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_table_gives_the_same_answers(kind, options):
    table = KINDS[kind](WHOLE)
    plain, cfs = invert(MODEL, WHOLE.copy(), "b", **options), invert(MODEL, table, "b", **options)
    np.testing.assert_allclose(cfs.x, plain.x, **SAME)
    np.testing.assert_array_equal(cfs.status, plain.status)
    assert len([sound(cf) for cf in cfs]) == len(WHOLE)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"sparse", "sparse, unsorted", "frame"}))
def test_any_kind_of_row_gives_the_same_answer(kind):
    row = KINDS[kind](WHOLE)[1]
    np.testing.assert_allclose(sound(invert(MODEL, row, "c", lam=0.03)).x, invert(MODEL, WHOLE[1], "c", lam=0.03).x, **SAME)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"sparse", "sparse, unsorted"}))
def test_any_kind_of_weights_makes_the_same_model(kind):
    assert Model(KINDS[kind](WHOLE), [1, 2, 3]) == Model(WHOLE, [1.0, 2.0, 3.0])


def test_the_source_is_not_written_to():
    table = np.stack([X, -X])
    before = table.copy()
    cfs = invert(MODEL, table, "b", prob=0.9)
    assert cfs.delta.any()
    np.testing.assert_array_equal(table, before)


@pytest.mark.parametrize("options", [{"lam": 0.1}, {"prob": 0.8}])
def test_a_source_changed_behind_the_answers_back_is_noticed_by_verify(options):
    mine = X.copy()
    cf = invert(MODEL, mine, "b", **options)
    mine[:] = 99.0
    with pytest.raises(CertificateError, match="the answer claims"):
        cf.verify()


# ---- solved: batches ----


@pytest.mark.parametrize("options", [{"lam": 0.1}, {"prob": 0.9}, {"lam": []}, {"prob": []}, {}])
@pytest.mark.parametrize("target", ["a", None, []])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_table_has_no_answers(backend, target, options):
    cfs = invert(MODEL, np.empty((0, 4)), target, backend=backend, **options)
    assert (len(cfs), list(cfs), cfs.verify()) == (0, [], [])
    assert (cfs.x.shape, cfs.delta.shape, cfs.proba.shape, cfs.gap.shape) == ((0, 4), (0, 4), (0, 3), (0,))
    assert "0 rows" in repr(cfs)
    with pytest.raises(IndexError, match="there are 0 answers; got index 0"):
        cfs[0]


BAD_ROWS = {
    "nan": replaced(X, 2, np.nan),
    "inf": replaced(X, 0, np.inf),
    "inf and -inf": np.array([np.inf, -np.inf, 0.0, 1.0]),
    "all inf": np.full(4, np.inf),
    "overflow": HUGE,
}


@pytest.mark.parametrize("options", [{"lam": 0.1}, {"prob": 0.9}])
@pytest.mark.parametrize("target", ["b", None])
@pytest.mark.parametrize("bad", BAD_ROWS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_row_is_invalid_and_the_others_are_as_if_alone(rng, backend, bad, target, options):
    good = rng.normal(size=(3, 4))
    cfs = invert(MODEL, np.stack([good[0], BAD_ROWS[bad], *good[1:]]), target, backend=backend, **options)
    assert cfs.status[1] == Status.INVALID
    assert [name for name in NUMBERS if name != "source" and not np.isnan(getattr(cfs, name)[1]).all()] == []
    for row, x in zip([0, 2, 3], good, strict=True):
        alone = invert(MODEL, x, target, **options)
        np.testing.assert_allclose(sound(cfs[row]).x, alone.x, **SAME)
        assert (cfs[row].target, cfs[row].status) == (alone.target, alone.status)


def test_an_invalid_row_is_refused_by_verify_and_says_what_to_do():
    cf = invert(MODEL, [BAD_ROWS["nan"], X], "b")[0]
    assert "mend or drop the row" in cf.message
    with pytest.raises(CertificateError, match="no answer to verify: the source is not a finite input"):
        cf.verify()


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_a_table_with_bad_rows_can_be_printed(bad):
    assert "1 INVALID" in repr(invert(MODEL, [BAD_ROWS[bad], X], "b"))
    assert "INVALID" in repr(invert(MODEL, [BAD_ROWS[bad], X], "b")[0])
    assert "1 INVALID" in repr(invert(MODEL, [BAD_ROWS[bad]], "b"))


def test_a_table_of_one_row_is_a_table():
    cfs = invert(MODEL, X[None], "b", lam=[0.1])
    assert cfs.x.shape == (1, 4)
    np.testing.assert_allclose(sound(cfs[0]).x, invert(MODEL, X, "b", lam=0.1).x, **SAME)


EDGES = {
    "two classes": (A[:2], B[:2]),
    "all rows equal": (np.tile([0.1, 0.2, 0.3, 0.7], (3, 1)), B),
    "two rows equal": (A[[0, 0, 1]], np.zeros(3)),
    "a zero row": (A * [[1], [0], [1]], B),
    "a class between others": (np.vstack([A, A.mean(axis=0)]), np.zeros(4)),
    "large weights": (A * 1e6, B),
    "large biases": (A, B * 3e6),
    "small weights": (A * 1e-8, B),
    "one large column": (A * [1e8, 1.0, 1.0, 1.0], B),
}


@pytest.mark.parametrize("options", [{"lam": 1e-6}, {"lam": 1.0}, {"lam": 1e6}, {"prob": 0.6}, {"prob": NEARLY_ONE}])
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_a_kernel_answers_at_the_edges_as_one_source_at_a_time(rng, backend, edge, options):
    model, X = Model(*EDGES[edge]), rng.normal(size=(5, 4))
    cfs = invert(model, X, 0, backend=backend, **options)
    cfs.verify()
    for cf, x in zip(cfs, X, strict=True):
        alone = invert(model, x, 0, **options)
        # Not closer: with logits of 1e6 both stop somewhere in a goal that rounding has made 1e-8 wide.
        assert (cf.status, cf.distance) == (alone.status, pytest.approx(alone.distance, rel=1e-8))
        assert not cf.status.ok or sound(cf)


# ---- solved: degenerate weights ----


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("row", [np.zeros(4), np.ones(4), np.array([0.1, 0.2, 0.3, 0.7]), np.full(4, 1e6)])
@pytest.mark.parametrize("lam", [1e-6, 1.0, 1e6])
def test_with_all_rows_equal_the_source_is_the_answer(K, row, lam):
    cf = sound(invert(Model(np.tile(row, (K, 1)), np.arange(K)), X, 0, lam=lam))
    np.testing.assert_array_equal(cf.x, X)
    assert cf.distance == 0.0


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("row", [np.zeros(4), np.array([0.1, 0.2, 0.3, 0.7])])
def test_with_all_rows_equal_no_other_probability_is_reachable_and_the_best_is_named(K, row):
    model = Model(np.tile(row, (K, 1)), np.arange(K))
    cf = invert(model, X, 0, prob=0.9)
    best = model.predict_proba(X)[0]
    cf.verify()
    assert cf.status is Status.UNREACHABLE
    np.testing.assert_array_equal(cf.x, X)
    assert f"p = 0.9 is out of reach for 0: the best is p = {best:.6g}" in cf.message


def test_with_all_rows_equal_a_probability_that_is_there_is_reached():
    cf = sound(invert(Model(np.ones((3, 4)), [0.0, 1.0, 9.0]), X, 2, prob=0.9))
    np.testing.assert_array_equal(cf.x, X)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_a_class_with_twins_reaches_no_more_than_its_share(copies):
    model = Model(np.vstack([A, *[A[:1]] * copies]), np.zeros(3 + copies))
    share = 1 / (1 + copies)
    cf = invert(model, X, 0, prob=share + 0.1)
    cf.verify()
    assert cf.status is Status.UNREACHABLE
    assert cf.proba[0] == pytest.approx(share, abs=1e-9)
    assert f"the best is p = {share:.6g}" in cf.message
    below = sound(invert(model, X, 0, prob=share - 1e-3))
    assert below.proba[0] == pytest.approx(share - 1e-3, abs=1e-9)


@pytest.mark.parametrize("prob", [0.6, 0.9, NEARLY_ONE])
def test_a_class_between_two_others_has_a_best_probability(prob):
    """D = 1: the middle row of three is beaten on both sides; its best is 1/(1 + 2e^{-1}) at x = 0."""
    model = Model([[-1.0], [0.0], [1.0]], [0.0, 1.0, 0.0])
    cf = invert(model, [5.0], 1, prob=prob)
    best = 1 / (1 + 2 * np.exp(-1.0))
    cf.verify()
    assert cf.status is Status.UNREACHABLE
    assert cf.proba[1] == pytest.approx(best, abs=1e-12)
    assert f"the best is p = {best:.6g}" in cf.message


@pytest.mark.parametrize("lam", [1e-4, 1e-1, 1e2])
@pytest.mark.parametrize("rows", [[0, 1, 2, 2], [0, 0, 1, 2], [0, 1, 1, 1]])
@pytest.mark.parametrize("target", [0, 1, 3])
def test_duplicate_rows_are_solved(rows, target, lam):
    true_bound(sound(invert(Model(A[rows], B[[0, 1, 2, 2]]), X, target, lam=lam)))


@pytest.mark.parametrize("options", [{"lam": 0.01}, {"prob": 0.95}])
@pytest.mark.parametrize("target", [0, 1, 2])
def test_a_zero_row_is_solved(target, options):
    true_bound(sound(invert(Model(A * [[1], [0], [1]], B), X, target, **options)))


# ---- solved: the ends of the range ----


@pytest.mark.parametrize("target", ["a", "b", "c"])
@pytest.mark.parametrize("lam", 10.0 ** np.arange(-8, 9, 2))
def test_lam_may_be_tiny_or_huge(lam, target):
    cf = sound(invert(MODEL, X, target, lam=lam))
    best = true_bound(cf)
    assert best.distance_to(cf.x) <= 1e-13 * (1 + best.norm())


@pytest.mark.parametrize("lam", 10.0 ** np.arange(-8, 9, 4))
@pytest.mark.parametrize("label", ["no", "yes"])
def test_lam_may_be_tiny_or_huge_for_two_classes(lam, label):
    cf = sound(invert(PAIR, X, label, lam=lam))
    best = true_bound(cf)
    assert best.distance_to(cf.x) <= 1e-14 * (1 + best.norm())


LARGE = {
    "biases": (A, B * 3e6, X),
    "weights": (A * 1e6, B, X),
    "source": (A, B, X * 1e6),
    "weights of two classes": (A[:2] * 1e6, B[:2], X),
    "biases of two classes": (A[:2], B[:2] * 3e6, X),
    "weights of more classes than features": (np.vstack([A, -A]) * 1e6, np.zeros(6), X),
}


@pytest.mark.parametrize("lam", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("what", LARGE)
def test_logits_of_a_million_are_solved_for_lam(what, lam):
    weights, biases, x = LARGE[what]
    for k in range(2):
        true_bound(sound(invert(Model(weights, biases), x, k, lam=lam)))


@pytest.mark.parametrize("prob", [1e-6, 0.5, 0.9, 1 - 1e-9, NEARLY_ONE])
@pytest.mark.parametrize("what", LARGE)
def test_logits_of_a_million_are_solved_for_prob(what, prob):
    weights, biases, x = LARGE[what]
    model = Model(weights, biases)
    for k in range(len(biases)):
        cf = sound(invert(model, x, k, prob=prob))
        assert prob < 0.5 or model.predict(cf.x) == k


@pytest.mark.parametrize("options", [{"lam": 1e-4}, {"lam": 1.0}, {"lam": 1e8}, {"prob": 0.5}, {"prob": 0.99}])
@pytest.mark.parametrize("factor", [1e-8, 1e8])
@pytest.mark.parametrize("columns", [[0], [3], [0, 1, 2, 3]])
def test_columns_may_be_scaled_by_eight_orders_of_magnitude(rng, columns, factor, options):
    scaled = A.copy()
    scaled[:, columns] *= factor
    for n, x in enumerate(rng.normal(size=(12, 4))):
        cf = sound(invert(Model(scaled, B), x, n % 3, **options))
        assert np.isinf(cf.lam) or true_bound(cf)


@pytest.mark.parametrize("options", [{"lam": 1e4}, {"lam": 1e8}, {"prob": 0.5}, {"prob": 0.9}])
@pytest.mark.parametrize("x", [1.0, 0.37, 0.7, -0.123])
@pytest.mark.parametrize("K", [2, 3])
def test_verify_allows_for_the_rounding_of_a_source_far_longer_than_the_answer(K, x, options):
    """x* is some 1e-8 but made as x̄ + Δ with x̄ near 1: its own rounding moves a logit of weight 1e8 by 1e-8."""
    sound(invert(Model([[0.0], [1e8], [2e8]][:K], [0.0, 0.5, -0.5][:K]), [x], 0, **options))


@pytest.mark.parametrize("options", [{"lam": 1e-2}, {"prob": 0.5}, {"prob": 0.99}])
@pytest.mark.parametrize(
    "exponents", [(8, 0, 0, 0), (0, -8, 0, 0), (8, -8, 0, 0), (-8, 8, -8, 8), (8, 8, 8, 8), (-8, -8, -8, -8)]
)
def test_features_may_come_in_units_of_any_size(exponents, options):
    unit = 10.0 ** np.array(exponents)
    for k in range(3):
        sound(invert(Model(A * unit, B), X / unit, k, **options))


@pytest.mark.parametrize("K", [2, 3, 7])
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1e2])
def test_one_feature_is_enough(rng, K, lam):
    model = Model(rng.normal(size=(K, 1)), rng.normal(size=K))
    for k in range(K):
        cf = sound(invert(model, rng.normal(size=1), k, lam=lam))
        best = true_bound(cf)
        assert best.distance_to(cf.x) <= 1e-13 * (1 + best.norm())


@pytest.mark.parametrize("options", [{"lam": 1e-4}, {"lam": 1.0}, {"prob": 1e-6}, {"prob": 0.5}, {"prob": NEARLY_ONE}])
@pytest.mark.parametrize("label", ["no", "yes"])
@pytest.mark.parametrize("x", [X, -X, np.zeros(4)])
def test_two_rows_and_one_weight_vector_are_the_same_model(x, label, options):
    binary = Model.binary(A[1] - A[0], B[1] - B[0], classes=["no", "yes"])
    two, one = sound(invert(PAIR, x, label, **options)), sound(invert(binary, x, label, **options))
    np.testing.assert_allclose(one.x, two.x, **SAME)
    np.testing.assert_allclose(binary.predict_proba(x), PAIR.predict_proba(x), rtol=1e-14)


@pytest.mark.parametrize("prob", [1e-6, 1e-300, 0.5, 1 - 1e-15, NEARLY_ONE])
def test_a_probability_next_to_zero_or_one_is_reached(rng, prob):
    for K, D in [(2, 3), (3, 3), (5, 6), (10, 30)]:
        model = Model(rng.normal(size=(K, D)), rng.normal(size=K))
        for x in 3 * rng.normal(size=(5, D)):
            for k in range(min(K, 3)):
                cf = sound(invert(model, x, k, prob=prob))
                assert prob < 0.5 or model.predict(cf.x) == k


def test_a_probability_that_rounding_drowns_is_not_claimed():
    """The rows differ by 1e-13 of their length: no x tells them apart in float64, whatever exact arithmetic says."""
    model = Model(A[[0, 0]] * [[1.0], [1 + 1e-13]] * 1e6, [0.0, 0.0])
    cf = invert(model, X, 0, prob=0.9)
    assert not cf.status.ok or model.predict_proba(cf.x)[0] >= 0.9


@pytest.mark.parametrize("form", ["lam", "prob"])
def test_a_source_in_the_millions_of_a_pipeline_is_solved(rng, form):
    rows = rng.normal(size=(200, 3)) * [1.0, 1e-3, 1e5] + [2e6, 5.0, -3e7]
    labels = (rows - rows.mean(axis=0)) @ [1.0, 1e3, 1e-5] > 0
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    for cf in invert(estimator, rows[:20], "opposite", **{form: 0.7}):
        sound(cf)


@pytest.mark.parametrize("lam", [1e-310, 1e-101, 1.1e100, 1e305])
def test_lam_beyond_all_measure_is_refused(lam):
    model = Model(np.eye(3), np.zeros(3))
    for value in (lam, [1.0, lam]):
        with pytest.raises(InputError, match="lam must be from 1e-100 to 1e\\+100"):
            invert(model, np.eye(3)[0] if value is lam else np.eye(3)[:2], 1, lam=value)


@pytest.mark.parametrize("size", [1e20, 1e60, 1e99])
def test_source_that_rounds_to_anything_is_out_of_reach(size, rng):
    model = Model(rng.normal(size=(4, 6)), rng.normal(size=4))
    cf = invert(model, size * rng.normal(size=6), 1, prob=0.6)
    assert cf.status in (Status.UNREACHABLE, Status.EXACT)
    assert np.isfinite(cf.x).all()


@pytest.mark.parametrize("size", [1e101, 1e200, 1e300])
def test_source_whose_square_overflows_is_refused(size, rng):
    model = Model(rng.normal(size=(4, 6)), rng.normal(size=4))
    X = np.stack([rng.normal(size=6), np.full(6, size)])
    with pytest.raises(InputError, match="so large"):
        invert(model, X[1], 1, lam=0.1)
    assert invert(model, X, 1, lam=0.1).status.tolist() == [Status.EXACT, Status.INVALID]


def test_out_of_the_wrong_shape_with_limits(rng):
    model = Model(rng.normal(size=(3, 4)), rng.normal(size=3))
    with pytest.raises(InputError, match=r"out must have shape \(5, 4\); got \(5, 3\)"):
        invert(model, rng.normal(size=(5, 4)), 1, max_changes=2, out=np.empty((5, 3)))
