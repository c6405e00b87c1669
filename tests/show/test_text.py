"""Names in little room: never longer, always apart, and told apart by what differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ifonly.show.text import cut, shortened

FAMILIES = {
    "at the end": [f"average_monthly_outstanding_balance_{i}" for i in range(40)],
    "in the middle": [f"average_monthly_outstanding_balance_of_the_{i}_account_in_the_first_quarter" for i in range(40)],
    "at the beginning": [f"{i}_average_monthly_outstanding_balance_of_an_account" for i in range(40)],
    "twice": [f"the_balance_of_account_{i}_in_the_first_quarter_of_the_year_{2020 + j}" for i in range(6) for j in range(6)],
}


@pytest.mark.parametrize("most", [14, 26])
@pytest.mark.parametrize("case", FAMILIES)
def test_forty_names_that_look_alike_stay_apart(case, most):
    names = FAMILIES[case]
    found = shortened(names, most)
    assert len(set(found)) == len(names)
    assert max(map(len, found)) <= most
    assert all("…" in text for text in found)


def test_what_is_shown_is_what_differs():
    found = shortened(FAMILIES["in the middle"], 26)
    for i, text in enumerate(found):
        assert f"{i}_account" in text
    assert shortened(["age", "duration"], 26) == ["age", "duration"]
    assert shortened(["a" * 30, "a" * 30], 10) == [cut("a" * 30, 10)] * 2  # one name is one text


@given(st.lists(st.text(alphabet="ab_ 1é", min_size=1, max_size=40), max_size=12), st.integers(10, 30))
def test_any_names_stay_apart(names, most):
    found = shortened(names, most)
    assert all(len(text) <= max(most, 1) for text in found)
    assert len(set(found)) == len(set(names))
    assert all(text == name for name, text in zip(names, found, strict=True) if len(name) <= most)
