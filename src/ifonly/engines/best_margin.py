"""Where a margin is out of reach: the largest lead of the target's score over all others that the limits allow.

    max m   subject to   (a_k − a_j)ᵀx + b_k − b_j ≥ m  for all rivals j,   limits on x,

a linear program, with whole numbers and categories where there are any.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.limited_problem import LimitedProblem

__all__ = ["best_margin"]

Floats = NDArray[np.float64]

SECONDS = 10.0  # a best answer that takes longer is not looked for: there is none that is good enough


def best_margin(problem: LimitedProblem) -> Floats | None:
    """The x with the largest lead; None where it is unbounded, not found in time, or only few changes are allowed."""
    import scipy.optimize  # takes a while to load

    optimize: Any = scipy.optimize  # its stubs take no arrays for bounds

    space, source = problem.space, problem.source
    limits, D = space.limits, problem.model.n_features
    if space.max_changes is not None or limits.uneven:
        return None
    step = np.where(limits.on_grid, limits.step, 1.0)
    C, rest, low = problem.rules(problem.tight)
    first, n = len(limits.C), len(problem.rivals)
    rows = np.hstack([C * step, np.zeros((len(C), 1))])  # in units of steps, on x itself; the lead is the last variable
    most = rest + C @ source
    rows[first : first + n, -1] = 1.0
    most[first : first + n] = -(problem.margins) + C[first : first + n] @ source
    least = np.where(np.isinf(low), most, -np.inf)
    box = optimize.Bounds(np.append(problem.lo / step, -np.inf), np.append(problem.hi / step, np.inf))
    whole = np.append(limits.on_grid, False).astype(int)
    found = optimize.milp(
        -np.eye(D + 1)[-1],
        constraints=optimize.LinearConstraint(rows, least, most),
        bounds=box,
        integrality=whole,
        options={"time_limit": SECONDS},
    )
    if found.x is None:
        return None
    x = np.where(problem.lo == problem.hi, problem.lo, found.x[:-1] * step)
    return space.settled(source[None], limits.placed(x, source, problem.lo, problem.hi)[None])[0]
