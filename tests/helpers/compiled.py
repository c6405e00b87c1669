"""Row loops in every form that this machine runs: NumPy alone, and compiled for each set of instructions."""

import os
from contextlib import contextmanager

import pytest

from ifonly.native import compiled

REQUIRED = "IFONLY_COMPILED"  # in the environment, with the value "required": where nothing was compiled is a failure
ROWS = compiled()
SETS = ROWS.sets() if ROWS else []
FORMS = ["none", *SETS]
needs_compiled = pytest.mark.skipif(ROWS is None, reason="the row loops were not compiled when ifonly was installed")

if ROWS is None and os.environ.get(REQUIRED) == "required":
    raise RuntimeError("the row loops were not compiled when ifonly was installed")


@contextmanager
def running(form):
    """In one of the forms, and after it in the one before."""
    before, active = os.environ.get("IFONLY_NATIVE"), ROWS and ROWS.active()
    _ask_for(form)
    try:
        yield compiled()
    finally:
        _ask_for(before)
        if ROWS:
            ROWS.use(active)


def _ask_for(form):
    if form is None:
        os.environ.pop("IFONLY_NATIVE", None)
    else:
        os.environ["IFONLY_NATIVE"] = form
    compiled.cache_clear()
    compiled()
