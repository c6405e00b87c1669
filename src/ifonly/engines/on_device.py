"""`semismooth_newton` on a GPU, for limits on features one by one (`native.limited.cu`). What it leaves, the processor does."""

import numpy as np

from ifonly.engines.cost_space import CostSpace
from ifonly.engines.protocol import Engine, Piece
from ifonly.engines.row_loops import device_module
from ifonly.model.numerics import Floats
from ifonly.native.cuda_source import MOST_FEATURES, MOST_LIMITED_CLASSES, limited_blocks
from ifonly.problem.asked import Aims, Asked
from ifonly.problem.results import Results
from ifonly.rows.sources import Sources

__all__ = ["solve", "unfit"]

LEFT_ROWS = 4096  # that are handed to the processor at a time


def unfit(space: CostSpace) -> str | None:
    """What the kernel is for, where these conditions are not that; None where they are."""
    K, D = space.model.A.shape
    if not space.one_by_one:
        return "a plain model with limits on features one by one, and lam or prob"
    if K > MOST_LIMITED_CLASSES:
        return f"up to {MOST_LIMITED_CLASSES} classes, not {K}"
    if D > MOST_FEATURES or limited_blocks(D, K) is None:
        return f"up to {MOST_FEATURES} features, and fewer with many classes, not {D}"
    return None


def solve(asked: Asked, rows: Piece, engine: Engine) -> Results:
    """The answers for a piece of a table; where a class is still to be chosen, the processor's."""
    device = device_module()  # or what is missing
    from ifonly.native import device_limited

    here = asked.at(backend="auto")

    def alone(X: Floats, aims: Aims) -> Results:
        out = np.empty(X.shape)
        found = [
            engine.solve(here, Piece(Sources.read(asked.model, X[s]), aims.take(s), out=out[s]))
            for s in (slice(a, a + LEFT_ROWS) for a in range(0, len(X), LEFT_ROWS))
        ]
        return Results.join(found).with_x(out)

    question, sources = asked.question, rows.sources.repeated(asked.per_source)
    if (rows.aims.targets < 0).any() or question.time_limit is not None:
        there = isinstance(sources, device.DeviceSources)
        X = device.cp.asnumpy(sources.table()) if there else sources.table()
        found = alone(X, rows.aims)
        rows.out[...] = device.cp.asarray(found.x) if isinstance(rows.out, device.cp.ndarray) else found.x
        return found
    options = {"tol": question.tol, "max_iter": question.max_iter, "alone": alone}
    return device_limited.invert_table(CostSpace.of(asked), sources, rows.aims, rows.out, **options)
