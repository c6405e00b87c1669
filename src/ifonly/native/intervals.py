"""Two classes and nothing but intervals: from a source to its certified answer, row by row (intervals.hpp).

This is the problem of `native.one_multiplier` without grids, groups or a largest number of changes,

    min  Σ_d ½t_d² + μ_d|t_d|     subject to   G = Σ_d g_d t_d ≥ need,    lo_d ≤ t_d ≤ hi_d,

in the changes t_d in units of cost. For a multiplier w every feature is on its own. It begins at the point of its interval that
is nearest to the source, where cost rises by m_d a unit (μ_d, and more where the source is outside), and from there it goes by

    u_d(w) = w·g_d, pulled towards 0 by m_d and cut to the interval.

G(w) is continuous, rises and is made of straight lines, so the least w with G(w) = need is one Newton step from anywhere on
the right line, and a bracket brings us there. What is asked of the classifier is asked from that first point on: a source far
outside its interval, a sentinel of 1e18 say, costs no digits. The answer is within its limits to the last bit.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.cost_space import CostSpace
from ifonly.engines.threads import share_out
from ifonly.model.numerics import Floats, Indices, norms
from ifonly.native import compiled

__all__ = ["COLUMNS", "LEFT", "REACHED", "UNREACHABLE", "Box", "Reached", "reach"]

ROWS_PER_THREAD = 1024  # fewer than these are solved sooner than they are handed over

LEFT, INVALID, REACHED, UNREACHABLE = 0, 1, 2, 3  # how a row ended; LEFT is for the single-source solver

# What is found out about a row.
COLUMNS = ("target", "p_target", "p_rival", "lam", "distance", "objective", "grad_norm", "cost", "bound", "gap", "w", "best")


class Box(NamedTuple):
    """What all rows share, as the loop takes it."""

    # (13, D): the weights of both classes, after the scaler; the gains per unit of cost towards each; the scaler's shift and
    # scale; the sizes of a logit's terms, for rounding; units of cost per unit of the user's; μ; the interval in the user's
    # units; 1 where a feature may not fall, and where it may not rise
    features: Floats
    # (7,): both intercepts; ‖g‖; what intercepts and the scaler's shifts add to the terms; the rounding of a margin per unit of
    # these, and per unit of the margin at the source; `CostSpace.logs`
    shared: Floats
    hard: bool  # scores are to be ahead by a margin, and probabilities do not matter

    @classmethod
    def of(cls, space: CostSpace) -> "Box":
        """That of a space without grids, groups or rules."""
        model, limits = space.model, space.limits
        g = np.concatenate([space.rows(1), space.rows(0)])
        rises, falls = limits.increase | limits.frozen, limits.decrease | limits.frozen
        scaler, ends = (space.shift, space.scale), (limits.lo, limits.hi, rises, falls)
        each = *model.A, *g, *scaler, model.column_sizes, space.per_unit, space.mu, *ends
        features = np.stack([np.asarray(row, dtype=np.float64) for row in each])
        shared = np.array([*model.b, norms(g[:1])[0], space.offset, space.per_term, space.per_size, space.logs])
        return cls(features, shared, space.margin is not None)


class Reached(NamedTuple):
    """What the loop makes of N rows."""

    x: Floats  # (N, D) the answers
    ended: NDArray[np.int8]  # (N,) how each row ended
    numbers: Floats  # (N, 12) `COLUMNS`; NaN where there are none


def reach(box: Box, X: Floats, targets: Indices, logits: Floats, probs: Floats, threads: int = 1) -> Reached:
    """Answers for the rows of X, on several threads.

    ``targets`` are class indices, or −1 for the class that is not predicted; ``logits`` is where the rival's margin has to be.
    """
    rows, N = compiled(), len(X)
    X, logits, probs = (np.ascontiguousarray(a, dtype=np.float64) for a in (X, logits, probs))
    targets = np.ascontiguousarray(targets, dtype=np.int64)
    found = Reached(np.empty(X.shape), np.zeros(N, dtype=np.int8), np.empty((N, len(COLUMNS))))

    def part(s: slice) -> None:
        rows.solve_box(X[s], targets[s], logits[s], probs[s], *box, *(out[s] for out in found))

    share_out(N, threads, ROWS_PER_THREAD, part)
    return found
