"""Tests marked ``usefixtures("loops")`` run twice: with the compiled row loops, and with NumPy alone."""

import pytest
from helpers.compiled import ROWS, running


@pytest.fixture(params=["compiled", "NumPy"])
def loops(request):
    if request.param == "compiled" and ROWS is None:
        pytest.skip("the row loops were not compiled when ifonly was installed")
    with running("none" if request.param == "NumPy" else None):
        yield
