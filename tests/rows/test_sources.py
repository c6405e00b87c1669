"""Sources of any kind give the same answers; bad ones are refused with what was expected and what came."""

from collections import namedtuple

import numpy as np
import pandas as pd
import pytest
from helpers.small import HUGE, MODEL, NAMES, PAIR, SAME, A, B, X, replaced, sound
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import ifonly
from ifonly import CertificateError, InputError, Model, Scaling, Status, credit, invert, path

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


# ---- masked: what is hidden is missing ----

HIDDEN = np.zeros((3, 4), dtype=bool)
HIDDEN[0, 1] = HIDDEN[2, 3] = True
MASKED = {
    "array": lambda: np.ma.array(WHOLE, mask=HIDDEN),
    "float32": lambda: np.ma.array(WHOLE.astype(np.float32), mask=HIDDEN),
    "int": lambda: np.ma.array(WHOLE.astype(int), mask=HIDDEN),
    "object": lambda: np.ma.array(WHOLE.astype(object), mask=HIDDEN),
    "hard mask": lambda: np.ma.array(WHOLE, mask=HIDDEN, hard_mask=True, fill_value=7.0),
    "list of rows": lambda: list(np.ma.array(WHOLE, mask=HIDDEN)),
    "lists with the constant": lambda: [
        [np.ma.masked if hidden else v for v, hidden in zip(*row, strict=True)]
        for row in zip(WHOLE.tolist(), HIDDEN, strict=True)
    ],
}


@pytest.mark.parametrize("kind", MASKED)
def test_a_masked_entry_counts_as_nan(kind):
    table, missing = MASKED[kind](), np.where(HIDDEN, np.nan, WHOLE)
    found, expected = invert(MODEL, table, "b", lam=0.03), invert(MODEL, missing, "b", lam=0.03)
    assert [Status(s).name for s in found.status] == ["INVALID", "EXACT", "INVALID"]
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.source, expected.source)
    np.testing.assert_array_equal(MODEL.logits(table), MODEL.logits(missing))
    np.testing.assert_array_equal(invert(MODEL, iter([table, table]), "b", lam=0.03).x, np.concatenate([expected.x] * 2))
    for question in (invert, path):
        with pytest.raises(InputError, match="x must be finite; feature income is nan"):
            question(MODEL, table[0], "b")
    np.testing.assert_array_equal(invert(MODEL, table[1], "b", lam=0.03).x, expected.x[1])


def test_an_array_in_which_nothing_is_masked_is_an_array():
    for mask in (np.ma.nomask, np.zeros_like(WHOLE, dtype=bool)):
        plain = invert(MODEL, np.ma.array(WHOLE, mask=mask), "b").x
        assert type(plain) is np.ndarray
        np.testing.assert_array_equal(plain, invert(MODEL, WHOLE, "b").x)


# ---- documents ----


@pytest.fixture(scope="module")
def reviews():
    return make_pipeline(CountVectorizer(), LogisticRegression()).fit(
        ["good film", "bad film", "so good", "bad plot"], [1, 0, 1, 0]
    )


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (5, "got int"),
        (np.nan, "got float"),
        (None, "got NoneType"),
        ({"text": "good"}, "got a dict"),
        (["good film", 5], r"got list \(document 1 is 5\)"),
        (["good film", None], r"got list \(document 1 is None\)"),
        (pd.Series(["good film", np.nan], dtype=object), r"got Series \(document 1 is nan\)"),
        (np.ma.array(["good film", "bad"], mask=[False, True]), r"got ndarray \(document 1 is nan\)"),
        ([["good", "film"]], r"got list \(document 0 is \['good', 'film'\]\)"),
        (pd.DataFrame({"text": ["good film"]}), "got DataFrame"),
    ],
)
def test_what_is_no_document_is_refused(reviews, x, message):
    with pytest.raises(
        InputError, match=f"x must be a document, a list of documents, or the weights of their words; {message}"
    ):
        invert(reviews, x, 1)


def test_weights_of_words_that_are_masked_or_no_row_are_refused(reviews):
    weights = np.ma.array(np.ones((2, 5)), mask=False)
    weights[1, 2] = np.ma.masked
    assert [Status(s).ok for s in invert(reviews, weights, 1).status] == [True, False]  # the first up to rounding in its goal
    with pytest.raises(InputError, match=r"got an array of shape \(\)"):
        invert(reviews, np.array(5.0), 1)


# ---- nobody's but the user's ----


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


# ---- rows of other kinds ----


def test_a_named_tuple_is_read_by_its_names():
    model = ifonly.Model.binary([1.0, -2.0], 0.0, ["refused", "approved"], ["income", "debt"])
    turned = namedtuple("Turned", ["debt", "income"])
    wanted = ifonly.invert(model, [1.0, 3.0], "approved").x.tolist()
    assert ifonly.invert(model, turned(debt=3.0, income=1.0), "approved").x.tolist() == wanted
    assert ifonly.invert(model, [turned(3.0, 1.0)] * 2, "approved").x.tolist() == [wanted] * 2
    frame = credit.applicants()
    bank, row = credit.pipeline(frame[:800]), frame.iloc[801]
    (person,) = frame.iloc[[801]].itertuples(index=False)
    found = ifonly.invert(bank, person, "refused").x
    assert found == {name: ifonly.invert(bank, row.drop("decision"), "refused").x[name] for name in found}


def test_a_named_tuple_without_a_name_of_the_model_is_not_read_by_place():
    model = ifonly.Model.binary([1.0, -2.0], 0.0, ["refused", "approved"], ["income", "debt"])
    other = namedtuple("Other", ["wages", "debt"])(1.0, 3.0)
    for x in (other, [other, other]):
        with pytest.raises(ifonly.InputError, match=r"x has no 'income'.*; this Other has \['wages', 'debt'\]"):
            ifonly.invert(model, x, "approved")
    assert ifonly.invert(model, list(other), "approved").status.ok
    nameless = ifonly.Model.binary([1.0, -2.0], 0.0, ["refused", "approved"])
    assert ifonly.invert(nameless, other, "approved").status.ok


def test_a_row_without_an_answer_makes_no_floats_of_whole_numbers():
    frame = credit.applicants()[800:804].drop(columns="decision").astype({"duration": float})
    frame.iloc[1, frame.columns.get_loc("duration")] = np.nan
    bank = credit.pipeline(credit.applicants()[:800])
    found = ifonly.invert(bank, frame, "approved", actions=ifonly.Actions(integer=["duration", "amount"]))
    assert (str(found.x["amount"].dtype), str(found.x["age"].dtype)) == ("Int64", "Int64")
    assert found.x["age"].isna().tolist() == [False, True, False, False]
    assert found.x["age"].drop(801).tolist() == frame["age"].drop(801).tolist()
    polars = pytest.importorskip("polars")
    other = ifonly.invert(bank, polars.DataFrame(frame), "approved", actions=ifonly.Actions(integer=["duration", "amount"])).x
    assert other["age"].to_list() == [*frame["age"][:1], None, *frame["age"][2:]]


def test_a_row_without_an_answer_says_what_is_wrong_with_it():
    model = ifonly.Model.binary([1.0, -2.0], 0.0, ["refused", "approved"], ["income", "debt"])
    found = ifonly.invert(model, [[1.0, 3.0], [np.nan, 1.0]], "approved")[1]
    assert found.message == "row 1 of x must be finite; feature income is nan"
    assert found.sentence() == "There is no answer: row 1 of x must be finite; feature income is nan."
    rules = [({"income": 1, "debt": 1}, "<=", 0), ({"income": 1, "debt": 1}, ">=", 1)]
    found = ifonly.invert(model, [[1.0, 3.0]], "approved", actions=ifonly.Actions(linear=rules))[0]
    assert found.message == "the limits contradict each other: income + debt ≤ 0, and income + debt ≥ 1"
    bounds = ifonly.Actions(frozen=["income"], bounds={"income": (2, 3)})
    found = ifonly.invert(model, [[1.0, 3.0]], "approved", actions=bounds)[0]
    assert found.message == "income is frozen at 1, outside its bounds [2, 3]"
