"""Two classes and nothing but intervals: from a source to its certified answer, row by row, compiled (extra ``fast``).

This is the problem of `native.multiplier_search` without grids, groups or a largest number of changes,

    min  Σ_d ½t_d² + μ_d|t_d|     subject to   G = Σ_d g_d t_d ≥ need,    lo_d ≤ t_d ≤ hi_d,

in the changes t_d in units of cost. For a multiplier w every feature is on its own. It begins at the point of its interval that
is nearest to the source, where cost rises by m_d a unit (μ_d, and more where the source is outside), and from there it goes by

    u_d(w) = w·g_d, pulled towards 0 by m_d and cut to the interval.

G(w) is continuous, rises and is made of straight lines, so the least w with G(w) = need is one Newton step from anywhere on
the right line, and a bracket brings us there. What is asked of the classifier is asked from that first point on: a source far
outside its interval, a sentinel of 1e18 say, costs no digits.

`solve` does for each row what `engines.one_multiplier` does for one: the intervals around the source, w, the answer
within its limits to the last bit, whether it is reached for whoever evaluates it, and the certificate. All of it stands in this
one file because Numba's cache on disk looks at the time of the file that holds `solve`, and at no other.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ifonly.engines.limited import CHASE
from ifonly.engines.limited_problem import CostSpace
from ifonly.model.numerics import EPS, norms

__all__ = ["COLUMNS", "LEFT", "REACHED", "UNREACHABLE", "reach"]

Floats = NDArray[np.float64]

ROWS_PER_THREAD = 1024  # fewer than these are solved sooner than they are handed over

LEFT, INVALID, REACHED, UNREACHABLE = 0, 1, 2, 3  # how a row ended; LEFT is for the single-source solver
RISES, FALLS, FROZEN = 1, 2, 4  # what may become of a feature, as bits
MAX_STEPS = 100  # of the search for w; three are usual
SETTLED = 4e-16  # relative: a step of w below it is none

# What is found out about a row.
COLUMNS = ("target", "p_target", "p_rival", "lam", "distance", "objective", "grad_norm", "cost", "bound", "gap", "w", "best")
TARGET, P_TARGET, P_RIVAL, LAM, DISTANCE, OBJECTIVE, GRAD_NORM, COST, BOUND, GAP, W, BEST = range(len(COLUMNS))


class Box(NamedTuple):
    """What all rows share; arrays over the features, those with two rows have one for each class."""

    A: Any  # (2, D) weights, after the scaler
    b: Any  # (2,)
    shift: Any  # (D,) of the scaler
    scale: Any  # (D,)
    sizes: Any  # (D,) of a logit's terms, for rounding
    g: Any  # (2, D) gain per unit of cost, towards the class
    c: Any  # (D,) units of cost per unit of the user's
    mu: Any  # (D,)
    lo: Any  # (D,) in the user's units
    hi: Any  # (D,)
    way: Any  # (D,) RISES, FALLS, FROZEN
    length: float  # ‖g‖
    offset: float  # what the scaler's shifts add to the terms
    per_term: float  # rounding of a margin, per unit of the terms in it
    per_size: float  # … and of the margin at the source
    hard: bool  # scores are to be ahead by a margin, and probabilities do not matter


def box_of(space: CostSpace) -> Box:
    """A space without grids, groups or rules as the kernel takes it."""
    model, limits = space.model, space.limits
    D, scaling = model.n_features, model.scaling
    shift, scale = (np.zeros(D), np.ones(D)) if scaling is None else (scaling.shift, scaling.scale)
    way = RISES * limits.increase.astype(np.int64) + FALLS * limits.decrease + FROZEN * limits.frozen
    g = space.B - space.B[::-1]
    arrays = {"A": model.A, "b": model.b, "shift": shift, "scale": scale, "sizes": model.column_sizes, "g": g}
    arrays |= {"c": space.per_unit, "mu": space.mu, "lo": limits.lo, "hi": limits.hi}
    return Box(
        **{name: np.array(value) for name, value in arrays.items()},  # copies: for read-only ones Numba would compile once more
        way=way,
        length=float(norms(g[:1])[0]),
        offset=space.offset,
        per_term=space.per_term,
        per_size=space.per_size,
        hard=space.margin is not None,
    )


def reach(
    space: CostSpace, X: Floats, targets: NDArray[np.intp], logits: Floats, probs: Floats, threads: int
) -> tuple[Floats, NDArray[np.int8], Floats]:
    """`solve` on several threads: the answers, how each row ended, and its numbers."""
    N, box = len(X), box_of(space)
    X, targets, probs = np.ascontiguousarray(X), np.ascontiguousarray(targets), np.ascontiguousarray(probs)
    x = np.empty(X.shape)
    parts = max(1, min(threads, N // ROWS_PER_THREAD))
    edges = np.linspace(0, N, parts + 1).astype(int)

    def part(pair: tuple[int, int]) -> Any:
        s = slice(*pair)
        return solve(X[s], targets[s], logits[s], probs[s], box, x[s])

    if parts == 1:
        return x, *part((0, N))
    with ThreadPoolExecutor(parts) as pool:
        ended, numbers = zip(*pool.map(part, pairwise(edges)), strict=True)
    return x, np.concatenate(ended), np.concatenate(numbers)


@njit(cache=True, nogil=True, error_model="numpy")
def solve(
    X: Floats, targets: NDArray[np.intp], logits: Floats, probs: Floats, box: Box, out: Floats
) -> tuple[NDArray[np.int8], Floats]:
    """Answers for the rows of X into ``out``; how each ended, and its numbers (`COLUMNS`), NaN where there are none.

    ``targets`` are class indices, or −1 for the class that is not predicted; ``logits`` is where the rival's margin has to be.
    """
    N, D = X.shape
    ended = np.full(N, LEFT, dtype=np.int8)
    numbers = np.full((N, len(COLUMNS)), np.nan)
    lo, hi, first, x, span = np.empty(D), np.empty(D), np.empty(D), np.empty(D), np.empty((3, D))
    for n in range(N):
        source, row, logit = X[n], numbers[n], logits[n]
        # 1. Which class, and how far each feature may go.
        z0, z1, terms = _scores(source, box)
        finite = math.isfinite(z0) and math.isfinite(z1) and math.isfinite(terms)
        if not (finite and _intervals(source, box, lo, hi, first, span)):
            ended[n] = INVALID
            continue
        k = targets[n] if targets[n] >= 0 else (1 if z0 >= z1 else 0)
        row[TARGET] = k
        # 2. The nearest point within the limits, which is the source itself if that is within: it may be enough.
        z0, z1, terms = _scores(first, box)
        margin = z0 - z1 if k == 1 else z1 - z0
        rounding = _rounding(terms, margin, box)
        if margin <= logit - rounding:
            _judge(source, first, margin, 0.0, rounding, logit, probs[n], lo, hi, k, box, row)
            ended[n] = REACHED
            out[n] = first
        # 3. The multiplier, and x; again where the allowance, which grows with x, was too small.
        for i in range(CHASE if ended[n] == LEFT else 0):
            spare = 2.0 ** (i - 3)  # as `limited.SPARES`
            w, top, met = _multiplier(margin - logit + (1 + spare) * rounding, box.g[k], span)
            if met == LEFT:
                break
            _place(w, box.g[k], first, lo, hi, span, box.c, x)
            z0, z1, there = _scores(x, box)
            now = z0 - z1 if k == 1 else z1 - z0
            rounding = _rounding(there, margin, box)
            if met == UNREACHABLE and (now <= logit if box.hard else math.exp(-np.logaddexp(0.0, now)) >= probs[n]):
                break  # only for lack of an allowance for rounding
            if met == UNREACHABLE or now <= logit - rounding:
                _judge(source, x, now, w, rounding, logit, probs[n], lo, hi, k, box, row)
                if met == UNREACHABLE:
                    row[LAM], row[W], row[GRAD_NORM], row[BOUND], row[GAP] = 1 / w, 0.0, 0.0, row[COST], 0.0
                    row[OBJECTIVE] = row[COST] if box.hard else row[COST] / w + np.logaddexp(0.0, now)
                    row[BEST] = 1 / (1 + math.exp(min(margin - top - rounding, 700.0)))
                ended[n] = met
                out[n] = x
                break
        if not (math.isfinite(row[COST]) and math.isfinite(row[GAP]) and math.isfinite(row[OBJECTIVE])):
            ended[n] = LEFT  # too large for float64: the single-source solver says what can be said
    return ended, numbers


@njit(cache=True, nogil=True, error_model="numpy")
def _scores(x: Any, box: Box) -> tuple[float, float, float]:
    """Both logits, and the size of the terms in them: not finite where x is not."""
    z0, z1, terms = 0.0, 0.0, 0.0
    for d in range(len(x)):
        v = (x[d] - box.shift[d]) / box.scale[d]
        z0 += box.A[0, d] * v
        z1 += box.A[1, d] * v
        terms += box.sizes[d] * abs(v)
        if not math.isfinite(v):
            terms = np.nan
    return z0 + box.b[0], z1 + box.b[1], terms


@njit(cache=True, nogil=True, error_model="numpy")
def _rounding(terms: float, margin: float, box: Box) -> float:
    """`CostSpace.rounding` from the terms at x."""
    return box.per_term * (terms + box.offset) + box.per_size * abs(margin)


@njit(cache=True, nogil=True, error_model="numpy")
def _intervals(source: Any, box: Box, lo: Any, hi: Any, first: Any, span: Any) -> bool:
    """`CostSpace.around` for one source, and the nearest point within; False where limits contradict each other, or the source.

    ``span`` has, in units of cost, how far each feature can go down and up from there, and the pull at which it begins to.
    """
    square = 0.0
    for d in range(len(source)):
        v, low, high, way = source[d], box.lo[d], box.hi[d], box.way[d]
        if way & FROZEN:
            if low > v or high < v:
                return False
            low = high = v
        elif way:
            low = max(low, v) if way & RISES else low
            high = min(high, v) if way & FALLS else high
        if low > high:
            return False
        lo[d], hi[d] = low, high
        first[d] = low if low > v else high if high < v else v
        away = abs(first[d] - v) * box.c[d]
        square += away * away
        span[0, d], span[1, d] = (low - first[d]) * box.c[d], (high - first[d]) * box.c[d]
        span[2, d] = box.mu[d] + away
    return math.isfinite(square)


@njit(cache=True, nogil=True, error_model="numpy")
def _step(pull: float, m: float, low: float, high: float) -> float:
    """The u of one feature."""
    u = pull - m if pull > m else pull + m if pull < -m else 0.0
    return min(max(u, low), high)


@njit(cache=True, nogil=True, error_model="numpy")
def _multiplier(need: float, g: Any, span: Any) -> tuple[float, float, int]:
    """The least w with G(w) ≥ need up to rounding, the largest G there is, and REACHED; UNREACHABLE where that is not enough.

    Then w is a multiplier at which every feature has gone as far as it can.
    """
    low, high, m = span[0], span[1], span[2]
    # 1. Everything goes as far as it can.
    top, slope, far = 0.0, 0.0, 1.0
    for d in range(len(g)):
        if g[d] != 0.0:
            end = high[d] if g[d] > 0.0 else low[d]
            top += g[d] * end
            slope += g[d] * g[d] if end != 0.0 else 0.0
            if math.isfinite(end):
                far = max(far, (abs(end) + m[d]) / abs(g[d]))
    if top < need:
        return 2.0 * far, top, UNREACHABLE
    # 2. Newton from the line on which all features are free, within a bracket.
    a, b = 0.0, np.inf
    w = need / slope
    for _ in range(MAX_STEPS):
        gain, slope = 0.0, 0.0
        for d in range(len(g)):
            u = _step(w * g[d], m[d], low[d], high[d])
            gain += g[d] * u
            if u != 0.0 and low[d] < u < high[d]:
                slope += g[d] * g[d]
        if gain >= need:
            b = w
        else:
            a = w
        step = (need - gain) / slope if slope > 0.0 else np.inf
        if abs(step) <= SETTLED * w:
            return w, top, REACHED
        w += step
        if not a < w < b:
            w = 2.0 * a if b == np.inf else 0.5 * (a + b)
            if not a < w < b:  # the bracket is shut
                return b, top, REACHED if b < np.inf else LEFT
    return w, top, LEFT


@njit(cache=True, nogil=True, error_model="numpy")
def _place(w: float, g: Any, first: Any, lo: Any, hi: Any, span: Any, c: Any, x: Any) -> None:
    """The x of a multiplier: what stays is what it was, what is at a bound is the bound."""
    for d in range(len(x)):
        u = _step(w * g[d], span[2, d], span[0, d], span[1, d])
        if u == 0.0:
            x[d] = first[d]
        elif u == span[0, d]:
            x[d] = lo[d]
        elif u == span[1, d]:
            x[d] = hi[d]
        else:
            x[d] = min(max(first[d] + u / c[d], lo[d]), hi[d]) + 0.0  # no −0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _judge(
    source: Any,
    x: Any,
    now: float,
    w: float,
    rounding: float,
    logit: float,
    prob: float,
    lo: Any,
    hi: Any,
    k: int,
    box: Box,
    row: Any,
) -> None:
    """`LimitedProblem.plan` and ``certificate`` of an answer that is reached; ``now`` is the rival's margin there."""
    loss = np.logaddexp(0.0, now)
    others = math.exp(-np.logaddexp(0.0, -now))
    # λ∇cost = (1 − p_k)·g at the answer; a margin is a rule like any other, with w for its multiplier
    lam = 1.0 if box.hard else others / w
    pull = w if box.hard else others
    square, sparse, norm, size = 0.0, 0.0, 0.0, 0.0
    for d in range(len(x)):
        t = (x[d] - source[d]) * box.c[d]
        square += t * t
        sparse += box.mu[d] * abs(t)
        size += (box.c[d] * source[d]) ** 2
        base, soft = lam * t - pull * box.g[k, d], lam * box.mu[d]
        least = base - soft if t <= 0.0 else base + soft
        most = base + soft if t >= 0.0 else base - soft
        xi = least if least > 0.0 and x[d] > lo[d] else most if most < 0.0 and x[d] < hi[d] else 0.0
        norm += xi * xi
    cost = 0.5 * square + sparse
    row[P_TARGET], row[P_RIVAL], row[DISTANCE], row[COST] = math.exp(-loss), others, math.sqrt(square), cost
    row[W], row[BEST] = w, 1.0
    if w == 0.0:  # nothing is asked of the classifier: each feature is as near to its source as its interval lets it be
        row[LAM], row[OBJECTIVE], row[GRAD_NORM] = np.inf, cost if box.hard else loss, 0.0
        row[BOUND], row[GAP] = cost, 0.0
        return
    rounded = 0.0 if box.hard else others * box.length * (2 * rounding + 10 * EPS)
    norm = math.sqrt(norm) + rounded + 4 * EPS * lam * (math.sqrt(square) + math.sqrt(size))
    if box.hard:
        excess = w * (max(logit - now, 0.0) + rounding)
    else:
        excess = max(-loss - math.log(prob), 0.0) + others * rounding + 4 * EPS * (loss - math.log(prob))
    gap = min((norm * norm / (2 * lam) + excess) / lam, cost)
    row[LAM], row[OBJECTIVE], row[GRAD_NORM] = lam, cost if box.hard else lam * cost + loss, norm
    row[BOUND], row[GAP] = cost - gap, gap
