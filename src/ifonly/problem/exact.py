"""What can be said of a point without rounding: floats are fractions, and only logarithms and exponentials are enclosed."""

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from ifonly.model.errors import CertificateError
from ifonly.model.numerics import EPS, Floats
from ifonly.problem.dual import DIGITS, Dual, Goal, log_within
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.limits import EDGE, SAME

__all__ = ["check_exactly", "exact_value", "exp_within"]

LEAST = Fraction(2) ** -1022  # what floats have no digits left for
FAR = 3000  # an exponent: beyond, e^−v is as good as nothing, and e^v more than any answer has


def check_exactly(problem: LimitedProblem, x: Floats, prob: float | None, *, reached: bool) -> None:
    """Whether x keeps the linear rules and (if it is said to) meets the goal, in fractions.

    Rules hold up to the rounding of their numbers: 0.1·3 ≤ 0.3 is true, and not of the floats that are nearest to these. Most
    equations have no solution among floats at all. All other limits are comparisons of floats, which are exact.
    """
    conditions = problem.conditions
    dual = Dual(problem, Goal(lam=1.0), exact=True)
    point = dual.number(x)
    limits = conditions.limits
    for i, (row, rest) in enumerate(zip(dual.C, dual.number(limits.rest), strict=True)):
        over = row @ point - rest
        size = np.abs(row) @ np.abs(point) + abs(rest)
        if (abs(over) if limits.equal[i] else over) > Fraction(SAME if limits.equal[i] else EDGE * EPS) * size + LEAST:
            raise CertificateError(f"rule {i + 1} is broken by {float(over)!r}, in fractions")
    if not reached:
        return
    s = dual.margins + dual.S @ (point - dual.source)
    if conditions.margin is not None:
        if max(s) > -Fraction(conditions.margin):
            raise CertificateError(f"the target's score is ahead by {float(-max(s))!r}, in fractions")
    elif prob is not None:
        asked = (1 - Fraction(prob)) / Fraction(prob)
        if sum(exp_within(v)[1] for v in s) > asked:
            raise CertificateError(f"p(target) is below the {prob!r} that was asked for, in fractions")


def exact_value(dual: Dual, x: Floats) -> Any:
    """What is minimised at x, or a fraction a little above it: the cost, and −ln p_k where λ was given."""
    conditions, change = dual.problem.conditions, dual.number(x) - dual.source
    lam = dual.scalar(1.0 if dual.goal.lam is None else dual.goal.lam)
    if conditions.matrix is None:
        square = (dual.number(conditions.per_unit) * change) ** 2
        quadratic = square.sum()
    else:
        quadratic = change @ dual.number(conditions.matrix) @ change
    value = lam * quadratic / 2 + dual.bend @ np.abs(change)
    if dual.goal.lam is None:
        return value
    s = dual.margins + dual.S @ change
    top = max(*s, Fraction(0))
    total = sum(exp_within(v - top)[1] for v in s) + exp_within(-top)[1]
    return value + top + log_within(total)[1]


def exp_within(v: Fraction) -> tuple[Fraction, Fraction]:
    """Two fractions with e^v between them."""
    if v == 0:
        return Fraction(1), Fraction(1)
    if v < -FAR:
        return Fraction(0), exp_within(Fraction(-FAR))[1]
    v = min(v, Fraction(FAR))
    with localcontext() as context:
        context.prec = DIGITS
        found = Fraction((Decimal(v.numerator) / Decimal(v.denominator)).exp())
    slack = found * Fraction(1, 10 ** (DIGITS - 10))
    return max(found - slack, Fraction(0)), found + slack
