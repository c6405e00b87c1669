"""Row loops in every form that this machine runs: NumPy alone, and compiled for each set of instructions."""

import os
from contextlib import contextmanager

from ifonly.native import compiled

__all__ = ["COMPILED", "FORMS", "running"]


def _sets():
    rows = compiled()
    return () if rows is None else tuple(rows.sets())


COMPILED = _sets()
FORMS = ("none", *COMPILED)


@contextmanager
def running(form):
    """In one of the forms, and after it in the one before."""
    rows, before = compiled(), os.environ.get("IFONLY_NATIVE")
    active = None if rows is None else rows.active()
    _ask_for(form)
    try:
        yield compiled()
    finally:
        _ask_for(before)
        if rows is not None:
            rows.use(active)


def _ask_for(form):
    if form is None:
        os.environ.pop("IFONLY_NATIVE", None)
    else:
        os.environ["IFONLY_NATIVE"] = form
    compiled.cache_clear()
    compiled()
