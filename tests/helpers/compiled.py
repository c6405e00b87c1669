"""The compiled row loops in every form that this machine can run."""

import os
from contextlib import contextmanager

import ifonly.native

REQUIRED = "IFONLY_COMPILED"  # in the environment, with the value "required": where nothing was compiled is a failure
ROWS = ifonly.native.compiled()
SETS = ROWS.sets() if ROWS else []

if ROWS is None and os.environ.get(REQUIRED) == "required":
    raise RuntimeError("the row loops were not compiled when ifonly was installed")


@contextmanager
def native(instructions):
    """With the loops for one set of instructions."""
    before = ROWS.active()
    ROWS.use(instructions)
    try:
        yield
    finally:
        ROWS.use(before)
