"""Limits and sparse changes: Newton in class space for costs that are separable but not smooth.

In units of cost (t = 0 is the source) the problem is

    min over t of  E(t) = Σ_d ((λ/2)t_d² + μ_d|t_d|) + ln(1 + Σ_j e^{s_j}),    s = s̄ + B t,   lo ≤ t ≤ hi,   C t ≤ c

with the rivals' rows B (n×D) and margins s̄. For probabilities q of the n rivals (and q_k of the target, together 1) every
feature answers on its own,

    t_d(q) = clip(soft(−(Bᵀq + Cᵀν)_d, μ_d)/λ, lo_d, hi_d),      ν(q) ≥ 0 the multipliers of C t ≤ c,

and at the optimum q = p(s(t(q))). Two numbers tell how far off q is: the residual r = p − q, and the duality gap
``E(t(q)) − D(q) = Σ q ln(q/p) ≥ 0`` (over all K classes), which is a Kullback–Leibler divergence and costs nothing.

The step. With F the features that are free to move and G = B_F B_Fᵀ (less what the rows of C that hold take away),

    (S⁻¹ + G/λ) Δq = ln(p/q) − ln(p_k/q_k),      S = diag(L) − L Lᵀ/ΣL,     L_j = (p_j − q_j)/(ln p_j − ln q_j).

A dual method would have S = diag(p) − ppᵀ here. The logarithmic means L agree with p at the answer, so that convergence is
as fast, but they make ``S(ln p/q) = p − q`` exact everywhere. Hence Δq = (I + SG/λ)⁻¹r raises D *and* lowers E∘t from
any q, and it does not stall where p is saturated: with p_j = e⁻⁷⁰⁰ and q_j = 1, L_j is 1/700, not 0. On 60 MNIST problems from
uniform q: no failure with bounds for λ from 1 to 1e-4, 7 to 10 iterations.

The line search looks at the slope of D along the step, which is ``(ln p/q)ᵀΔq``: D is concave, so a slope that is not much
below zero is a step that was not too long; no values are subtracted. A step that halves the least gap so far is taken as well.
Small λ with μ > 0 makes t(q) a staircase, and 1/λ its steepness; there λ is lowered towards its value by steps (`solve`). For a
wanted probability λ is searched for around that (`reach`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ifonly.engines.lam_search import Bracket
from ifonly.engines.lapack import dposv
from ifonly.engines.phi import phi
from ifonly.engines.responses import FIRM, Terms, free_features, respond
from ifonly.model.numerics import EPS, Flags, Floats, length, softmax

__all__ = ["MOST_RIVALS", "Response", "Start", "Target", "evaluate", "logit_slope", "noise", "reach", "solve"]

MAX_TRIALS = 40
SMALL = 1e-6  # relative: a larger gap is more than rounding
TOO_LONG = 0.5  # a step is too long if D's slope at its end is below minus this share of that at its start
SHRINK = 0.1  # a probability falls at most to this share of itself along a straight line, then follows its logarithm
EASY_EVALUATIONS = 80  # more than these: lower λ towards its value by steps
LONG_EVALUATIONS = 10 * EASY_EVALUATIONS  # of one step, or where an answer for this λ is known
LAM_STEP = 10.0
EASY_LAM = 0.1  # relative to max ‖b_j‖²: there is no staircase here
FAINT = -8.0  # by so much at most a rival's logit is below the strongest one's at the start
UNSURE = 1e-6  # and so much of the probability at least is the target's there, and the strongest rival's
LOW = -690.0  # logarithms of probabilities are kept above it
MOST_RIVALS = 256  # of compiled loops: beyond, LAPACK is quicker
PIECE = 100_000_000  # numbers read between two looks at the clock
CUT, FOUND = 0.0, 1.0  # how a compiled loop ended, if not without finding the answer
MAX_STEPS = 80  # of the search for λ
LONGEST_STEP = math.log(100.0)
MOST_LAM = 1e12
IDLE = 1e4  # times the first guess: a λ above it is one of a problem in which the goal asks for less than the limits
FLAT_LOGIT = 1e-12  # a logit that rises by less with ln λ is flat
LEAST_LAM = 1e-30  # relative to the first guess: what is not reached there is not reached
ROUGH_LAM = 1e-8  # … and one that is not even solved here
NARROW = 1e-8  # relative: between answers for λ so near to each other, a straight line is as good as the path


@dataclass(frozen=True, slots=True)
class Response:
    """q with all that follows from it; the target stands last in the vectors of K."""

    lq: Floats  # (K,) ln q
    q: Floats  # (K,)
    nu: Floats  # (m,)
    t: Floats  # (D,)
    free: Flags  # (D,)
    s: Floats  # (n,)
    lp: Floats  # (K,) ln p
    p: Floats  # (K,)
    lam: float
    weight: float  # what μ (and the ranges of ν) are multiplied with: 1, or λ where that multiplies the cost as a whole
    slope: float | None = None  # `logit_slope`, where it is known

    @property
    def gap(self) -> float:
        """E(t(q)) − D(q)."""
        return float((self.q * (self.lq - self.lp) - self.q + self.p).sum())

    @property
    def loss(self) -> float:
        """−ln p_k."""
        return -float(self.lp[-1])


class Start(NamedTuple):
    """What a solution begins with: that of a `Response`, or of somebody else."""

    lq: Floats  # (K,)
    nu: Floats  # (m,)
    lam: float

    @classmethod
    def of(cls, q: Floats, nu: Floats, lam: float) -> "Start":
        """From the rivals' probabilities."""
        every = np.append(q, max(1.0 - float(q.sum()), 0.0))
        return cls(np.maximum(np.log(np.maximum(every, 1e-300)), LOW), nu, lam)


def evaluate(terms: Terms, lam: float, weight: float, lq: Floats | None, nu: Floats) -> Response:
    """Every feature's answer to q (None: to one near the best), and what the classifier makes of it."""
    lq = _start(terms, lam, weight) if lq is None else lq
    q = np.exp(lq)
    t, nu = respond(terms, lam, weight, q[:-1] @ terms.B, nu)
    s = terms.margins + terms.B @ t
    lp = _log_softmax(np.append(s, 0.0))
    return Response(lq, q, nu, t, free_features(terms, t), s, lp, np.exp(lp), lam, weight)


def solve(
    terms: Terms, lam: float, weight: float = 1.0, *, start: Response | Start | None = None, tol: float = 0.0
) -> tuple[Response, int, bool]:
    """The optimum for this λ, the iterations it took, and whether it was found before the budget of the terms was spent.

    ``start`` is an answer for another λ or other limits. With ``tol = 0`` the residual is brought down to what rounding leaves.
    """
    evaluations = EASY_EVALUATIONS if start is None or start.lam != lam else LONG_EVALUATIONS
    lq, nu = None if start is None else start.lq, np.zeros(len(terms.C))
    if start is not None and len(start.nu) == len(nu):  # other limits have other rows
        nu = np.where(terms.C.any(axis=1), start.nu, 0.0)  # 0 of rows between features that cannot change
    plain = terms.loops is not None and 0 < len(terms.B) <= MOST_RIVALS and not len(terms.C)
    newton = _compiled_newton if plain else _newton
    at, n_iter, found = newton(terms, lam, weight, lq, nu, tol, evaluations)
    easy = EASY_LAM * float(np.square(terms.B).sum(axis=1).max(initial=0.0))
    if not found and lam < easy:
        steps = max(1, math.ceil(math.log(easy / lam) / math.log(LAM_STEP)))
        lq = None
        for value in [*np.geomspace(easy, lam, steps + 1)[:-1].tolist(), lam]:
            near = tol if value == lam else 1e-3 * math.sqrt(easy)
            at, more, found = newton(terms, value, weight, lq, nu, near, LONG_EVALUATIONS)
            n_iter += more
            lq, nu = at.lq, at.nu
            if terms.budget.late:
                break
    return at, n_iter, found


def _compiled_newton(
    terms: Terms, lam: float, weight: float, lq: Floats | None, nu: Floats, tol: float, evaluations: int
) -> tuple[Response, int, bool]:
    """`_newton` in the compiled loops; the clock is looked at between pieces of the way."""
    n, D = terms.B.shape
    problem = *(np.ascontiguousarray(a) for a in terms[:5]), lam, weight, tol
    course = np.array([math.inf, 0.0, float(evaluations), 0.0, 0.0])
    begin, here = lq is None, np.zeros(n + 1) if lq is None else lq.copy()
    t, free, s, classes, slope = np.empty(D), np.empty(D, dtype=bool), np.empty(n), np.empty((3, n + 1)), np.empty(1)
    max_iter, most_now, n_iter = terms.budget.max_iter, max(4, PIECE // max(n * D, 1)), 0
    answer = t, free, s, classes, slope
    while True:
        terms.loops.solve_limited_one(*problem, max_iter - n_iter, most_now, begin, here, course, *answer)
        begin, n_iter = False, n_iter + int(course[3])
        if course[4] != CUT or terms.budget.late:
            break
    q, lp, p = classes
    at = Response(here, q, nu, t, free, s, lp, p, lam, weight, float(slope[0]))
    return at, n_iter, bool(course[4] == FOUND)


def _newton(
    terms: Terms, lam: float, weight: float, lq: Floats | None, nu: Floats, tol: float, evaluations: int
) -> tuple[Response, int, bool]:
    """Semismooth Newton from ln q (None: a start of its own) and ν, until ``tol``, rounding or so many evaluations stop it."""
    at, gram = evaluate(terms, lam, weight, lq, nu), Gram(terms)
    least = math.inf
    lengths = np.sqrt(np.square(terms.B).sum(axis=1))
    size = float(lengths.max(initial=0.0))
    stalled, max_iter = 0, terms.budget.max_iter
    for n_iter in range(max_iter + 1):
        # 1. How far off: ‖∂E‖ ≤ ‖Bᵀr‖.
        r = (at.p - at.q)[:-1]
        residual = length(r @ terms.B)
        gap = at.gap
        p, far = at.p[:-1], np.abs(at.s)
        rounding = 8 * EPS * float(lengths @ (p * (far + (1.0 + float(p @ far)))))  # p is as good as the margins of who has any
        if residual <= max(tol, rounding) or stalled >= 2:
            return at, n_iter, True
        if evaluations <= 0 or n_iter == max_iter or terms.late:
            return at, n_iter, False
        least = min(least, gap)
        # 2. The step.
        G = gram.over(at)
        dq = r - _damped(G, at, G @ r)  # Δq = r − R M⁻¹RᵀG r, and the margins change by −GΔq/λ
        ahead = _log_softmax(np.append(at.s + (G @ dq) / -at.lam, 0.0))
        dq = np.append(dq, -dq.sum())
        slope = float((at.lp - at.lq) @ dq)
        if not slope > 0:  # q is p to the last digit, or there is no step
            return at, n_iter, gap <= SMALL * (1.0 + at.loss)
        # 3. How far along it: until D's slope is not far below zero.
        alpha, new = 1.0, at
        for _ in range(MAX_TRIALS):
            new = evaluate(terms, lam, weight, _along(at, alpha, dq, ahead), at.nu)
            evaluations -= 1
            end = float((new.lp - new.lq) @ dq)
            if end >= -TOO_LONG * slope or new.gap < 0.5 * least or terms.budget.late:
                break
            alpha *= min(max(slope / (slope - end), 0.1), 0.8)
        # 4. Rounding: the residual no longer falls, though the step was a full one and small.
        still = length((new.p - new.q)[:-1] @ terms.B)
        noisy = gap <= 1e-13 * (1.0 + at.loss)
        noisy |= new.gap >= 0.5 * gap and residual <= 8 * size * float(1.0 - at.p[-1]) * noise(terms, at)
        stalled = stalled + 1 if still >= 0.5 * residual and noisy else 0
        if not (stalled and still > residual):
            at = new
    raise AssertionError  # the loop returns


def _along(at: Response, alpha: float, dq: Floats, ahead: Floats) -> Floats:
    """The logarithm of q + αΔq, kept positive and normalised: what would fall too far follows that of the predicted p."""
    q = at.q + alpha * dq
    low = q < SHRINK * at.q
    if low.any():
        lq = np.log(np.where(low, 1.0, q))
        lq[low] = np.minimum(at.lq + alpha * (ahead - at.lq), at.lq + math.log(SHRINK))[low]
    else:
        lq = np.log(q)
    return np.maximum(_log_softmax(lq), LOW)


def _log_softmax(z: Floats) -> Floats:
    """The logarithms of the probabilities that z are, up to a constant."""
    top = float(z.max())
    return z - (top + math.log(float(np.exp(z - top).sum())))


def _damped(G: Floats, at: Response, g: Floats) -> Floats:
    """R M⁻¹Rᵀg, with S = RRᵀ, R = diag(v)(I − c v vᵀ) and M = λI + RᵀGR."""
    x = at.lp - at.lq
    near = np.abs(x) < 1e-5
    x = np.where(near, 1.0, x)
    mean = np.where(x < 0, at.q * np.expm1(np.minimum(x, 0.0)), -at.p * np.expm1(-np.maximum(x, 0.0))) / x
    mean = np.where(near, 0.5 * (at.p + at.q), mean)
    total = float(mean.sum())
    v = np.sqrt(mean[:-1])
    c = (1.0 / total) / (1.0 + math.sqrt(float(mean[-1]) / total))
    M = v[:, None] * G * v
    u = M @ v
    h = float(v @ u)
    M -= c * (np.multiply.outer(v, u) + np.multiply.outer(u, v)) - (c * c * h) * np.multiply.outer(v, v)
    M.ravel()[:: len(v) + 1] += at.lam
    rhs = v * g
    rhs -= (c * float(v @ rhs)) * v
    y = _definite(M, rhs)
    y -= (c * float(v @ y)) * v
    return v * y


def _definite(M: Floats, rhs: Floats) -> Floats:
    """M⁻¹rhs. Where λ is lost beside the rest of M it is made larger: that step is shorter, but of the same kind."""
    more = 0.0
    for _ in range(MAX_TRIALS):
        y, info = dposv(M, rhs)[1:]
        if info == 0:
            return y
        more = 10 * more or 4 * EPS * float(np.trace(M))
        M = M.copy()
        M.ravel()[:: len(rhs) + 1] += more
    return np.full(len(rhs), np.nan)  # λ is lost beside the rest, whatever is added to it: no step


def logit_slope(terms: Terms, at: Response) -> float:
    """The derivative of logit(1 − p_k) by ln λ at an answer, where μ is multiplied with λ too (the cost as a whole is)."""
    if at.slope is not None:
        return at.slope
    G = Gram(terms).over(at)
    fall = np.where(at.free, (at.q[:-1] @ terms.B) / at.lam, 0.0)  # dt/d ln λ for fixed q
    fall = _along_held(terms, at, fall[None])[0]  # ν moves so that C t stays
    g = terms.B @ fall
    return float(softmax(at.s) @ (g - G @ _damped(G, at, g)))


class Gram:
    """G = B_F B_Fᵀ over the free features, less what the linear limits that hold take away; updated, not made anew."""

    def __init__(self, terms: Terms) -> None:
        self.terms, (n, D) = terms, terms.B.shape
        self.free, self.G = np.zeros(D, dtype=bool), np.zeros((n, n))

    def over(self, at: Response) -> Floats:
        """That of a point."""
        B = self.terms.B
        changed = np.flatnonzero(at.free != self.free)
        if 2 * len(changed) > int(at.free.sum()):
            BF = B if at.free.all() else B[:, at.free]
            self.G = BF @ BF.T
        elif len(changed):
            columns = B[:, changed]
            self.G = self.G + (columns * np.where(at.free[changed], 1.0, -1.0)) @ columns.T
        self.free = at.free
        free = B * at.free if len(self.terms.C) else B
        left = _along_held(self.terms, at, free)
        return self.G if left is free else left @ left.T


def _along_held(terms: Terms, at: Response, rows: Floats) -> Floats:
    """Of rows over the free features, the part along which limits hold with equality that do: their ν is inside its range."""
    CF = terms.C[(at.nu > at.weight * terms.low) & (at.nu < at.weight * terms.high)] * at.free
    if not len(CF):
        return rows
    gram, along = CF @ CF.T, CF @ rows.T
    factor, found, failed = dposv(gram, along)
    if failed or (np.diag(factor) <= FIRM * np.sqrt(np.diag(gram))).any():  # rows that depend on each other, or all but
        found = np.linalg.lstsq(gram, along, rcond=1e-12)[0]
    return rows - found.T @ CF


def _start(terms: Terms, lam: float, weight: float) -> Floats:
    """A ln q to begin with: at the cheapest point, the strongest rival balanced alone (theorem 4.2), others relative to it."""
    if not len(terms.margins):  # no classifier, only rules
        return np.zeros(1)
    t, _ = respond(terms, lam, weight, np.zeros(terms.B.shape[1]), np.zeros(len(terms.C)))
    s = terms.margins + terms.B @ t
    j = int(s.argmax())
    alone = float(phi(max(float(terms.B[j] @ terms.B[j]) / lam, 1e-300), -float(s[j])))
    q = min(max(alone, UNSURE), 1 - UNSURE)
    return _log_softmax(np.append(np.maximum(s - s[j], FAINT), math.log((1 - q) / q)))


def noise(terms: Terms, at: Response) -> float:
    """How much rounding there is in a point's logit: features answer to sums of terms that may cancel, divided by λ."""
    size = at.q[:-1] @ np.abs(terms.B) + np.abs(at.nu) @ np.abs(terms.C) + at.weight * terms.mu
    return EPS / at.lam * float(softmax(at.s) @ np.abs(terms.B) @ np.where(at.free, size, 0.0))


# ---- a probability: the search for λ ----


class Target(NamedTuple):
    """What `reach` is to reach, and how it can know that it cannot."""

    prob: float
    logit: float  # of 1 − prob
    miss: Callable[[Response], tuple[float, float]]  # by how much the logit is above what it has to be; how far below will do
    ceiling: Callable[[Response], float]  # an upper bound on p_k within the limits, from a point's multipliers


def reach(terms: Terms, target: Target, start: Response | Start | None = None) -> tuple[Response, int, bool]:
    """The answer for the largest λ at which the target is met, the iterations, and whether it is met; if not, the largest p_k.

    λ multiplies the whole cost here, so that μ counts λμ, and logit(1 − p_k) rises with ln λ: Newton on it, in a bracket. Where
    the target is out of reach, p_k rises to its largest value as λ falls, and the multipliers on the way bound it from above.
    """
    first = lam = _first_lam(terms, target, start)
    bracket, at, n_iter = Bracket(LONGEST_STEP), start, 0
    met: Response | None = None  # the last point that meets the target
    short: Response | None = None  # of those that miss it, that with the largest p_k
    for _ in range(MAX_STEPS):
        # 1. Solve for this λ, and see whether the target is met.
        at, more, found = solve(terms, lam, lam, start=at)
        n_iter, (miss, width) = n_iter + more, target.miss(at)
        blur = max(width, 4 * noise(terms, at))
        bracket.saw(lam, miss)
        if miss <= 0:
            met = at  # as much as wanted, or between this and one that misses; or more because the limits ask for it
            if miss >= -width or (miss >= -blur and short is not None) or lam >= MOST_LAM * first:
                break
        else:  # 2. Out of reach.
            short = min(at, short or at, key=lambda point: point.loss)
            if met is None and _no_more(terms, target, at, found, first):
                break
        if terms.late or bracket.shut(NARROW):
            break
        # 3. The next λ: a Newton step, aimed at the middle of what is allowed.
        slope = logit_slope(terms, at)
        lam = bracket.next(lam, miss + 0.5 * (width if miss > 0 else blur), slope if slope > FLAT_LOGIT else 0.0)
        if lam is None:
            break
    if met is None:
        assert short is not None
        return short, n_iter, False
    return _between(met, short, target), n_iter, True


def _no_more(terms: Terms, target: Target, at: Response, found: bool, first: float) -> bool:
    """Whether time is up, λ so small that no more of p_k is to be had, or a point that misses the target shows that all do."""
    return terms.late or at.lam <= (LEAST_LAM if found else ROUGH_LAM) * first or target.ceiling(at) < target.prob


def _first_lam(terms: Terms, target: Target, start: Response | Start | None) -> float:
    """That of a start; or of the problem with the rival alone that is hardest to beat, or (all are beaten) is least so."""
    square = np.square(terms.B[:, terms.lo < terms.hi]).sum(axis=1)
    ahead = terms.margins - target.logit
    gaps, far = np.maximum(ahead, 1e-3), np.where(square > 0, ahead / np.sqrt(np.where(square > 0, square, 1.0)), -math.inf)
    j = int((far if far.max() > 0 else np.where(square > 0, ahead, -math.inf)).argmax())
    mass = 1 / (1 + math.exp(min(-target.logit, 700.0)))
    alone = float(square[j]) * mass / float(gaps[j]) or 1.0
    return alone if start is None else min(start.lam, IDLE * alone)


def _between(met: Response, short: Response | None, target: Target) -> Response:
    """The point between two on both sides of the target that meets it with nothing to spare, by regula falsi.

    Where λ is small, λ·t is a difference of larger numbers, and no λ may hit the target to the last digit. What is at a bound
    or stays in the first point does so in the answer.
    """
    if short is None:
        return met
    step = np.where(met.free, short.t - met.t, 0.0)
    miss, width = target.miss(met)
    a, b, at = (0.0, miss), (1.0, target.miss(replace(met, t=met.t + step))[0]), met
    for _ in range(MAX_TRIALS):
        if a[1] >= -width or not a[1] < 0 < b[1]:
            break
        x = a[0] + (b[0] - a[0]) * a[1] / (a[1] - b[1])
        new = replace(met, t=met.t + x * step)
        miss, width = target.miss(new)
        if miss <= 0:
            a, at = (x, miss), new
        else:
            b = (x, miss)
    return at
