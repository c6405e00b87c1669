"""How a solve ended."""

from enum import IntEnum

__all__ = ["LEAST_VALUE", "REL_GAP", "Status"]

REL_GAP = 1e-9  # of a search: what EXACT means
LEAST_VALUE = 1e-3  # an objective with −ln p in it has no more digits than one of this size


class Status(IntEnum):
    """How a solve ended; ``message`` says it in words, ``ok`` whether the answer is the optimum.

    An integer, so that the statuses of a million rows are one small array: ``(cfs.status == Status.EXACT).all()``.
    """

    EXACT = 0
    CONVERGED = 1
    MAX_ITER = 2
    UNREACHABLE = 3
    INVALID = 4
    STOPPED = 5
    LOCAL = 6

    @classmethod
    def of_gap(cls, gap: float, value: float, allowed: float) -> "Status":
        """Of a search that ended this far above its bound, where a relative gap of ``allowed`` is good enough."""
        if gap <= REL_GAP * abs(value):
            return cls.EXACT
        return cls.CONVERGED if gap <= allowed * abs(value) else cls.STOPPED

    @property
    def message(self) -> str:
        """What happened and, where something can be done about it, what."""
        return _MESSAGES[self]

    @property
    def ok(self) -> bool:
        """Whether the answer is the optimum, to its certificate."""
        return self <= Status.CONVERGED


_MESSAGES = {
    Status.EXACT: "optimal to working precision: no further digit can be had in float64",
    Status.CONVERGED: "optimal to the tolerance that was asked for",
    Status.MAX_ITER: "stopped before it converged; the certificate says how good it is; raise max_iter or loosen tol",
    Status.UNREACHABLE: "no input reaches the wanted probability; the answer is the best that was found; lower prob",
    Status.INVALID: "the source is not a finite input, or contradicts the limits; correct the row or leave it out",
    Status.STOPPED: "the search stopped at its limit; the gap says how good the answer is; raise time_limit or node_limit",
    Status.LOCAL: "a local optimum: no small step improves it, but the problem is not convex and there may be a better one",
}
