"""Tests marked ``usefixtures("loops")`` run twice: with the compiled row loops, and with NumPy alone."""

import pytest
from helpers.compiled import needs_compiled, running


@pytest.fixture(params=[pytest.param("compiled", marks=needs_compiled), "NumPy"])
def loops(request):
    with running("none" if request.param == "NumPy" else None):
        yield
