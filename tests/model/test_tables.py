"""Rows of the user's with columns of all kinds: what is missing or masked in them, and which columns have to be there."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ifonly import InputError, invert

HIDDEN = 1e9  # the value under a mask: whoever reads it, shows it


@pytest.fixture(scope="module")
def estimator():
    """A pipeline that fills in the age, but no job."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.integers(18, 70, 200).astype(float), "job": rng.choice(["cook", "smith"], 200)})
    frame.loc[::7, "age"] = np.nan
    steps = (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]), (OneHotEncoder(), ["job"])
    y = np.where(frame["age"].fillna(40) + 9 * (frame["job"] == "cook") > 45, "yes", "no")
    return make_pipeline(make_column_transformer(*steps), LogisticRegression()).fit(frame, y)


# A row and a table in which one cell is said to be missing, in the words of each kind of row.
ROWS = {
    "dict": lambda age, job: {"age": age, "job": job},
    "list": lambda age, job: [age, job],
    "tuple": lambda age, job: (age, job),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_masked_cell_of_a_row_is_filled_in_like_nan(estimator, kind):
    found, expected = (invert(estimator, ROWS[kind](age, "smith"), "yes").x for age in (np.ma.masked, np.nan))
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)
    table, missing = ([ROWS[kind](age, "smith"), ROWS[kind](30.0, "cook")] for age in (np.ma.masked, np.nan))
    np.testing.assert_array_equal(invert(estimator, table, "yes").x, invert(estimator, missing, "yes").x)


@pytest.mark.parametrize("kind", ROWS)
def test_a_masked_cell_that_nothing_fills_in_is_refused_like_nan(estimator, kind):
    for cell in (np.ma.masked, np.nan):
        with pytest.raises(InputError, match=r"job is .*nan.*; it must be one of 'cook', 'smith'"):
            invert(estimator, ROWS[kind](30.0, cell), "yes")


def test_a_masked_table_of_any_kind_of_cells_is_read_like_one_with_nan(estimator):
    cells, mask = [[HIDDEN, "smith"], [30.0, "cook"], [31.0, "smith"]], [[True, False], [False, True], [False, False]]
    masked = np.ma.array(np.array(cells, dtype=object), mask=mask)
    missing = np.where(mask, np.nan, np.array(cells, dtype=object))
    found, expected = (invert(estimator, table, "yes") for table in (masked, missing))
    assert found.status.tolist() == expected.status.tolist()
    assert [list(row) for row in found.x[[0, 2]]] == [list(row) for row in expected.x[[0, 2]]]
    assert found.summary().rows == expected.summary().rows
    row, plain = (invert(estimator, table[0], "yes") for table in (masked, missing))
    assert row.sentence() == plain.sentence()
    assert "instead of missing" in row.sentence()


def test_a_value_that_counts_as_missing_is_not_what_a_mask_means():
    """An imputer for −1 fills in −1, and neither NaN nor what is masked."""
    X = np.array([[1.0, 0.0], [2.0, -1.0], [8.0, 3.0], [9.0, 1.0]])
    estimator = make_pipeline(SimpleImputer(missing_values=-1), LogisticRegression()).fit(X, [0, 0, 1, 1])
    assert invert(estimator, [2.0, -1.0], 1).status.ok
    for row in ([2.0, np.nan], np.ma.array([2.0, -1.0], mask=[False, True])):
        with pytest.raises(InputError, match="must be finite"):
            invert(estimator, row, 1)


# ---- columns that are not there ----


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_dict_without_a_column_is_refused_by_its_place_and_the_columns_name(estimator, missing):
    rows = [{"age": 30.0, "job": "cook", "note": ""} for _ in range(3)]
    del rows[missing]["age"]
    with pytest.raises(
        InputError, match=rf"row {missing} of x must have the columns .*; missing \['age'\], it has \['job', 'note'\]"
    ):
        invert(estimator, rows, "yes")
    with pytest.raises(InputError, match=r"^x must have the columns .*; missing \['age'\]"):
        invert(estimator, rows[missing], "yes")


def test_what_is_no_dict_among_dicts_is_refused(estimator):
    for other in (5, None, "cook", [30.0, "cook"]):
        with pytest.raises(InputError, match=f"row 1 of x must be a dict, as the first row is; got a {type(other).__name__}"):
            invert(estimator, [{"age": 30.0, "job": "cook"}, other], "yes")
