"""Tests marked ``usefixtures("loops")`` run twice: with the compiled row loops, and with NumPy alone."""

import pytest
from helpers.compiled import ROWS

from ifonly.native import compiled


@pytest.fixture(params=["compiled", "NumPy"])
def loops(request, monkeypatch):
    if request.param == "NumPy":
        monkeypatch.setenv("IFONLY_NATIVE", "none")
        compiled.cache_clear()
        yield
        compiled.cache_clear()
    elif ROWS is None:
        pytest.skip("the row loops were not compiled when ifonly was installed")
    else:
        yield
