"""What a row loop gives back."""

from typing import Any, NamedTuple

__all__ = ["LEFT", "Solved"]

LEFT = -1  # the status of a row that goes to the method for one


class Solved(NamedTuple):
    """What a loop found for B sources with the same target, in the coordinates q of `coordinates.Rivals`."""

    q: Any  # (B, n), n = K − 1 rivals
    p: Any  # (B, n) the rivals' probabilities
    p_target: Any  # (B,)
    lam: Any  # (B,)
    objective: Any  # (B,) E
    grad_norm: Any  # (B,) ‖∇E‖ as computed, without an allowance for rounding
    square: Any  # (B,) qᵀḠq: the distance is its root over λ
    n_iter: Any  # (B,) int
    done: Any  # (B,) bool: False for a row that is left to the single-source method
