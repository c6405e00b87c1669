"""The compiled row loops in every form that this machine can run."""

from contextlib import contextmanager

import ifonly.native

ROWS = ifonly.native.compiled()
SETS = ROWS.sets() if ROWS else []


@contextmanager
def native(instructions):
    """With the loops for one set of instructions."""
    before = ROWS.active()
    ROWS.use(instructions)
    try:
        yield
    finally:
        ROWS.use(before)
