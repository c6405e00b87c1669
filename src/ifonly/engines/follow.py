"""One answer per λ, each started from its neighbours (section 3.5 of the paper).

The answer is a smooth curve in ln λ whose tangent comes with Newton's factor, so the next start is the polynomial through the
last answers and their tangents (Hermite's), carried on. With steps of 0.19 in ln λ, as by default, three of them leave an error
of some 1e-5, which one Newton step mends.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from ifonly.model.numerics import Floats
from ifonly.problem.results import Result, Results

__all__ = ["Followed", "carry_on", "follow"]

Knot = tuple[float, *tuple[Floats, ...]]  # ln λ, the change (q/λ or ξ), its derivative along ln λ if that is known
Followed = tuple[Result, tuple[Floats, ...]]  # an answer, and what its knot has besides ln λ

REACH = 0.5  # steps in ln λ longer than this are beyond a polynomial; up to twice that the tangent serves


def follow(lams: Sequence[float], most: int, solve: Callable[[float, Floats | None], Followed]) -> Results:
    """The answers for all ``lams``, solved from the largest to the smallest and returned in the order given.

    ``solve`` is given a λ and the change that the polynomial through so many knots at ``most`` leads to.
    """
    found: dict[int, Result] = {}
    knots: list[Knot] = []
    for i in sorted(range(len(lams)), key=lambda i: -lams[i]):
        found[i], knot = solve(lams[i], carry_on(knots, math.log(lams[i])))
        knots = [*knots[1 - most :], (math.log(lams[i]), *knot)]
    return Results.of([found[i] for i in range(len(lams))])


def carry_on(knots: list[Knot], t: float) -> Floats | None:
    """The curve through the knots (value, and tangent if known, at each) carried on to ``t``, or None if that is too far."""
    if not knots or abs(t - knots[-1][0]) > 2 * REACH:
        return None
    ends = [*(knot[0] for knot in knots), t]
    if not all(0 < abs(b - a) <= REACH for a, b in pairwise(ends)):
        knots = knots[-1:]
    # With ℓ the Lagrange polynomial of a node, the value there weighs ℓ(t), Lagrange's formula; with tangents it is Hermite's:
    # value and tangent weigh (1 − 2(t − tᵢ)ℓ'(tᵢ))·ℓ(t)² and (t − tᵢ)·ℓ(t)².
    weights: list[float] = []
    for ti, _, *tangent in knots:
        lagrange, slope = 1.0, 0.0
        for tj, *_ in knots:
            if tj != ti:
                lagrange *= (t - tj) / (ti - tj)
                slope += 1 / (ti - tj)
        weights += [(1 - 2 * (t - ti) * slope) * lagrange**2, (t - ti) * lagrange**2] if tangent else [lagrange]
    return np.array(weights) @ np.array([vector for knot in knots for vector in knot[1:]])
