"""Sources of any kind give the same answers; bad ones are refused with what was expected and what came."""

import numpy as np
import pandas as pd
import pytest
from helpers.small import HUGE, MODEL, NAMES, PAIR, SAME, A, B, X, replaced, sound
from scipy.sparse import csr_array

from ifonly import CertificateError, InputError, Model, Scaling, invert, path

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
