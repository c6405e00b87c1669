"""Class-space Newton for a batch of sources with one target, as an array program: the method, readable.

Written against the Python array API standard, so that NumPy, PyTorch and CuPy arrays go in and come out, on their own
device. Rows share Ḡ and nothing else: λ may differ by row, and all else has a leading axis of B rows. The formulas are those of
`engines.coordinates.Rivals`, with

    b = ½p''[Δs, Δs],    Chebyshev's step Δq + b − R M⁻¹ Rᵀ H b,    dq/d ln λ = R M⁻¹ Rᵀ (s̄ − s)

and the loop is that of `engines.newton` and `engines.class_newton`:

    1. rows that are done leave
    2. Newton's direction for the others, and the third-order correction from the same matrix
    3. the corrected full step where E falls, else backtracking along Newton's direction
    4. done if the step was so short that the next would be lost in rounding; for a probability, the next λ where due

A row that could not be solved comes out with ``done=False`` and is left to the single-source solver.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.coordinates import PAIRS, softmax_rows
from ifonly.engines.lam_search import LONGEST_STEP
from ifonly.engines.newton import ARMIJO, BACKTRACK, CLOSE, MAX_ITER, ROUNDINGS, Solved
from ifonly.engines.windows import GUESS, Window
from ifonly.model.extras import missing
from ifonly.model.numerics import EPS

__all__ = ["array_namespace", "solve_lam", "solve_prob"]

# Newton steps for φ in the start, a fixed number: no row waits for another, and a device is never asked how far it is.
# Over α from 1e-12 to 1e12 and |β| to 1e6 the error in ln φ after 2, 3, 4 of them was at most 0.02, 9e-5, 2e-9.
ROOT_STEPS = 3
LN2 = math.log(2.0)
TINY = 1e-300  # in place of α = 0, whose logarithm is asked for; φ is the same
FAR = 1e20  # a λ this many times larger or smaller than the first guess is no answer: the change is all rounding

# The third-order step leaves an error of the order of δ³ in the margins; when that is this share of the miss, λ can move on.
# Mean steps per row, on 16 556 random problems and on 20 000 of MNIST at prob 0.9: 7.9 and 6.1. With the rule of
# `class_newton` instead (δ ≤ 1e-3, the last digit when near) 10.8 and 8.2; if besides the next λ always starts along the
# tangent of q, 12.9 and 10.7.
SURE = 0.2
TRUST = 0.5  # … and no estimate of the error is believed above this δ


def array_namespace(array: Any) -> Any:
    """The functions of the library that an array comes from, by the standard's names."""
    if isinstance(array, np.ndarray):
        return np
    try:
        import array_api_compat
    except ImportError:
        raise missing(f"arrays of type {type(array).__name__} need array-api-compat", "frames") from None
    return array_api_compat.array_namespace(array)


class Iterate(NamedTuple):
    """An iterate of every row, and what is known of it (`engines.coordinates.Point`)."""

    q: Any
    p: Any
    p_target: Any
    objective: Any
    grad_norm: Any
    slope: Any  # H r
    moved: Any  # H q = s̄ − s


class Step(NamedTuple):
    """What one iteration did to every row."""

    point: Iterate
    delta: Any  # max|Δs| of the full Newton step
    length: Any  # 1 for a full step
    fell: Any  # bool: False where no step was short enough for E to fall


@dataclass(frozen=True, slots=True)
class Lanes:
    """The problems of the rows that are still being solved."""

    xp: Any
    gram: Any  # (n, n), the same for all
    margins: Any  # (B, n)
    lam: Any  # (B,)

    def take(self, rows: Any) -> "Lanes":
        """Some of them."""
        return Lanes(self.xp, self.gram, *_take(self.xp, (self.margins, self.lam), rows))

    def times(self, q: Any) -> Any:
        """``H q``; Ḡ is symmetric."""
        return (q @ self.gram) / self.lam[:, None]

    def evaluate(self, q: Any) -> Iterate:
        """E and its derivative at q."""
        xp = self.xp
        moved = self.times(q)
        p, p_target, loss = softmax_rows(self.margins - moved, xp)
        slope = self.times(p - q)
        square = _dot(xp, p - q, slope)
        grad_norm = xp.sqrt(self.lam * xp.where(square > 0, square, 0.0))
        return Iterate(q, p, p_target, 0.5 * _dot(xp, q, moved) + loss, grad_norm, slope, moved)

    def start(self) -> Any:
        """A q near the answer: PAIRS times the closed form for the rival that is most wrong now (`start_from_pairs`)."""
        xp = self.xp
        rival = _arange(self.gram[0, :])
        own = _diagonal(xp, self.gram)
        q, s = xp.zeros_like(self.margins), self.margins
        for _ in range(PAIRS):
            p, _, _ = softmax_rows(s, xp)
            j = xp.argmax(xp.abs(p - q), axis=1)
            hit = rival[None, :] == j[:, None]
            h = xp.take(own, j, axis=0) / self.lam
            old, margin = (xp.sum(xp.where(hit, x, 0.0), axis=1) for x in (q, s))
            new = _phi(xp, h, -(margin + h * old))
            q = xp.where(hit, new[:, None], q)
            s = s - ((new - old) / self.lam)[:, None] * xp.take(self.gram, j, axis=0)
        return q

    def spread(self, point: Iterate) -> Callable[..., list[Any]]:
        """``Hr ↦ R M⁻¹ Rᵀ Hr`` at a point, for one or several Hr at once."""
        xp, p = self.xp, point.p
        v, c = xp.sqrt(p), (1 / (1 + xp.sqrt(point.p_target)))[:, None]
        g = point.moved + point.slope
        half = c * g - 0.5 * c**2 * _dot(xp, p, g)[:, None]
        H = self.gram[None, :, :] / self.lam[:, None, None]
        M = v[:, :, None] * v[:, None, :] * (H - (half[:, :, None] + half[:, None, :]))
        # Where p_j is all but 1 and H is huge, M cancels. Its entries are wrong by a few EPS·v_i v_j max H, a matrix below
        # n times its diagonal; with that added M is positive definite, and any M above the true one gives descent.
        # Elsewhere it is nothing: p H is of the size of the margins.
        own = _diagonal(xp, self.gram)
        rounding = ROUNDINGS * p.shape[1] * EPS * (xp.max(own) / self.lam)
        same = _arange(own)[:, None] == _arange(own)[None, :]
        M = xp.where(same[None, :, :], M + (1 + p * rounding[:, None])[:, None, :], M)

        def apply(*slopes: Any) -> list[Any]:
            rhs = xp.stack([v * (Hr - c * _dot(xp, p, Hr)[:, None]) for Hr in slopes], axis=-1)
            t = v[:, :, None] * xp.linalg.solve(M, rhs)
            t = t - (c * xp.sum(t, axis=1))[:, None, :] * p[:, :, None]
            return [t[:, :, i] for i in range(len(slopes))]

        return apply

    def step(self, point: Iterate) -> tuple[Step, Any]:
        """One iteration, and ``dq/d ln λ`` at the point before it."""
        xp = self.xp
        spread = self.spread(point)

        # 2. Newton's direction, and the third-order correction.
        newton, tangent = spread(point.slope, point.moved)
        direction = point.p - point.q - newton
        ds = -self.times(direction)
        delta = xp.max(xp.abs(ds), axis=1)
        mean = _dot(xp, point.p, ds)
        square = (ds - mean[:, None]) ** 2
        bend = 0.5 * point.p * (square - (_dot(xp, point.p, square) + point.p_target * mean**2)[:, None])  # ½p''[Δs, Δs]
        (bent,) = spread(self.times(bend))
        bend = xp.where((delta > CLOSE[2])[:, None], bend - bent, 0.0)  # below, the correction is nothing

        # 3. The full step, or what is left of it.
        decrease = _dot(xp, point.slope, direction)
        mass = xp.sum(point.p, axis=1)
        slack = ROUNDINGS * EPS * (xp.abs(point.objective) + xp.max(xp.abs(self.margins), axis=1) * mass)
        trial = self.evaluate(point.q + (direction + bend))
        fell = trial.objective <= point.objective - ARMIJO * decrease + slack
        step = Step(trial, delta, xp.ones_like(delta), fell)
        if not bool(xp.all(fell)):
            good, bad = xp.nonzero(fell)[0], xp.nonzero(~fell)[0]
            start, d, gain, allowed, size = _take(xp, (point, direction, decrease, slack, delta), bad)
            trial, length, fell = self.take(bad).backtrack(start, d, gain, allowed)
            step = _in_order(xp, [good, bad], [_take(xp, step, good), Step(trial, size, length, fell)])
        return step, tangent

    def backtrack(self, point: Iterate, direction: Any, decrease: Any, slack: Any) -> tuple[Iterate, Any, Any]:
        """Along Newton's direction until E falls: where it came to, the length of the step, and whether E fell."""
        xp, length = self.xp, self.xp.ones_like(decrease)
        while True:
            trial = self.evaluate(point.q + length[:, None] * direction)
            fell = trial.objective <= point.objective - ARMIJO * length * decrease + slack
            over = fell | (length < EPS)
            if bool(xp.all(over)):
                return trial, length, fell
            length = xp.where(over, length, BACKTRACK * length)


def solve_lam(gram: Any, margins: Any, lam: Any, *, tol: float | None = None, max_iter: int = MAX_ITER) -> Solved:
    """Minimise E for every row, to ``‖∇E‖ ≤ tol`` or, with ``tol=None``, until no further digit can be had.

    ``gram`` (n, n) is Ḡ, float64 like all others, of any library that follows the standard; ``margins`` (B, n) are s̄.
    """
    lanes = Lanes(array_namespace(margins), gram, margins, lam)
    close, small = (CLOSE[3], -1.0) if tol is None else (0.0, tol)

    def advance(lanes: Lanes, point: Iterate, search: tuple[()]) -> tuple[Any, ...]:
        step, _ = lanes.step(point)
        done = (step.point.grad_norm <= small) | _shorter(lanes, step, close)
        return lanes, step.point, search, done, ~step.fell

    point = lanes.evaluate(lanes.start())
    return _run(advance, (lanes, point, (), point.grad_norm <= small, lam < 0), max_iter)


def _run(advance: Callable[..., tuple[Any, ...]], state: tuple[Any, ...], max_iter: int) -> Solved:
    """Steps until every row is done or has failed: lanes, points, what else is known of rows, and which are done and failed."""
    lanes, point, search, done, failed = state
    xp, row = lanes.xp, _arange(lanes.lam)
    finished: list[tuple[Any, Solved]] = []
    for n_iter in range(max_iter + 1):
        # 1. Rows that are done leave.
        leave = done | failed | (n_iter == max_iter)
        out, stay = xp.nonzero(leave)[0], xp.nonzero(~leave)[0]
        which, end, lam, ended = _take(xp, (row, point, lanes.lam, done), out)
        square, count = lam * _dot(xp, end.q, end.moved), out * 0 + n_iter
        finished.append((which, Solved(end.q, end.p, end.p_target, lam, end.objective, end.grad_norm, square, count, ended)))
        if stay.shape[0] == 0:
            break
        lanes, (row, point, search) = lanes.take(stay), _take(xp, (row, point, search), stay)

        # 2. to 4. One step.
        lanes, point, search, done, failed = advance(lanes, point, search)
    rows, blocks = zip(*finished, strict=True)
    return _in_order(xp, rows, blocks)


class Brackets(NamedTuple):
    """The search for λ, row by row."""

    window: Window
    first: Any  # the first guess
    low: Any  # the largest λ known to meet the goal, 0 if none is
    high: Any  # the smallest λ known to miss it


def solve_prob(gram: Any, margins: Any, window: Window, *, max_iter: int = MAX_ITER) -> Solved:
    """For every row the λ at which logit(1 − p_k) of the answer lies in the row's window, and that answer.

    Newton on ``L(ln λ) = logit(1 − p_k)``, aimed at the middle of the window, inside a bracket (`class_newton`): as soon as
    the inner solve for one λ is good enough, its matrix gives the derivative and a start for the next. Every source must be
    outside its window, above it. ``max_iter`` is of the steps in q, for all λ together.
    """
    xp = array_namespace(margins)
    first = first_lam(xp, gram, margins, window)
    failed = ~(first > 0)  # no change of x changes any margin
    first = xp.where(failed, 1.0, first)
    lanes = Lanes(xp, gram, margins, first)
    search = Brackets(window, first, xp.zeros_like(first), xp.full_like(first, math.inf))
    return _run(_seek, (lanes, lanes.evaluate(lanes.start()), search, first < 0, failed), max_iter)


def _seek(lanes: Lanes, point: Iterate, search: Brackets) -> tuple[Any, ...]:
    """One step in q and, where it is due, in λ."""
    xp = lanes.xp
    step, tangent = lanes.step(point)
    ds = point.moved - lanes.times(tangent)
    point = step.point

    # 4. There? Or is the answer for this λ known well enough to move on?
    s = lanes.margins - point.moved
    highest = xp.max(s, axis=1)
    e = xp.exp(s - highest[:, None])
    total = xp.sum(e, axis=1)
    logit = highest + xp.log(total)  # ln Σ eˢ, which neither overflows nor underflows; its derivative by s is p/Σp
    top, width = search.window.edges(search.window.allowance(xp.sum(point.q, axis=1) / lanes.lam))
    miss = logit - top
    precise = _shorter(lanes, step, CLOSE[3])
    right = precise & (miss <= 0) & (miss >= -width)
    done = right & (width < GUESS)
    due = (precise | (_shorter(lanes, step, TRUST) & (step.delta**3 <= SURE * xp.abs(miss)))) & ~right

    # 5. The next λ where it is due, and a start for it along the tangent: of q or, smoother where q falls like λ, of q/λ.
    low, high = (xp.where(due & met, lanes.lam, bound) for met, bound in ((miss <= 0, search.low), (miss > 0, search.high)))
    search = search._replace(low=low, high=high)
    lam, inside = _next_lam(lanes, search, miss + 0.5 * width, _dot(xp, e / total[:, None], ds))
    failed = ~step.fell | (due & ~inside) | (right & ~done)
    due = due & inside
    along = xp.where(due, xp.log(lam / lanes.lam), 0.0)
    lanes = replace(lanes, lam=xp.where(due, lam, lanes.lam))
    q, along = point.q, along[:, None]
    plain, scaled = (lanes.evaluate(at) for at in (q + along * tangent, xp.exp(along) * (q + along * (tangent - q))))
    wins = plain.objective <= scaled.objective
    point = _map(lambda a, b: xp.where(wins if a.ndim == 1 else wins[:, None], a, b), plain, scaled)
    return lanes, point, search, done, failed


def _shorter(lanes: Lanes, step: Step, close: float) -> Any:
    """Whether a full step moved no margin by more than ``close``, or than a few roundings of the margins themselves."""
    xp = lanes.xp
    least = ROUNDINGS * EPS * (xp.max(xp.abs(lanes.margins), axis=1) + 1)
    return step.fell & (step.length == 1.0) & (step.delta <= xp.where(least > close, least, close))


def first_lam(xp: Any, gram: Any, margins: Any, window: Window) -> Any:
    """λ of the two-class problem with the rival that is hardest to beat (`engines.class_newton`)."""
    own = _diagonal(xp, gram)
    top = window.logit - window.slack
    gaps = margins - top[:, None]
    gaps = xp.where(gaps > 0, gaps, 0.0)
    distances = gaps / xp.sqrt(xp.where(own > 0, own, 1.0))[None, :]
    j = xp.argmax(xp.where((own > 0)[None, :], distances, -1.0), axis=1)
    gap = xp.sum(xp.where(_arange(own)[None, :] == j[:, None], gaps, 0.0), axis=1)
    mass = xp.exp(-_softplus(xp, -top))
    return mass * xp.take(own, j, axis=0) / xp.where(gap > 0.1, gap, 0.1)


def _next_lam(lanes: Lanes, search: Brackets, miss: Any, rate: Any) -> tuple[Any, Any]:
    """Newton's next λ, or the middle of the bracket where Newton leaves it; and whether that is inside and not absurd."""
    xp, low, high = lanes.xp, search.low, search.high
    flat = ~(xp.abs(miss) < LONGEST_STEP * rate)  # there Newton's step is no guide
    step = xp.where(flat, LONGEST_STEP * xp.sign(miss), miss / xp.where(flat, 1.0, rate))
    newton = lanes.lam * xp.exp(-step)
    middle = xp.sqrt(xp.where(low > 0, low, high / FAR)) * xp.sqrt(high)
    lam = xp.where((low < newton) & (newton < high), newton, middle)
    return lam, (low < lam) & (lam < high) & (lam > search.first / FAR) & (lam < search.first * FAR)


# ---- the functions of the problem ----


def _phi(xp: Any, a: Any, c: Any) -> Any:
    """The root of ``t = 1/(1 + exp(at + c))``, roughly: Newton in ``ℓ = ln(at)`` for the smaller of t and 1 − t."""
    a = xp.where(a > TINY, a, TINY)
    flip = 0.5 * a + c < 0
    c = xp.where(flip, -(a + c), c)
    log_a, none = xp.log(a), _softplus(xp, c)
    low = log_a - _softplus(xp, 0.5 * a + c)
    high = log_a - xp.where(none > LN2, none, LN2)
    drop = log_a - c
    drop = xp.where(drop > 1, drop, 1.0)
    guess = xp.log(drop - xp.log(drop))
    ell = xp.where((drop > 1) & (guess < high), xp.where(guess > low, guess, low), high)
    for _ in range(ROOT_STEPS):
        y = xp.exp(ell)
        e = xp.exp(-xp.abs(y + c))
        value = ell + _softplus(xp, y + c) - log_a
        low, high = xp.where(value < 0, ell, low), xp.where(value < 0, high, ell)
        new = ell - value / (1 + y * xp.where(y + c > 0, 1.0, e) / (1 + e))
        ell = xp.where((new >= low) & (new <= high), new, 0.5 * (low + high))
    t = xp.exp(ell - log_a)
    return xp.where(flip, 1 - t, t)


def _softplus(xp: Any, w: Any) -> Any:
    return xp.where(w > 0, w, 0.0) + xp.log1p(xp.exp(-xp.abs(w)))


# ---- arrays, with nothing that the standard does not have (and NumPy 1.26 neither) ----


def _dot(xp: Any, a: Any, b: Any) -> Any:
    return xp.sum(a * b, axis=1)


def _diagonal(xp: Any, square: Any) -> Any:
    return xp.reshape(square, (-1,))[:: square.shape[0] + 1]


def _arange(like: Any) -> Any:
    """0 … len − 1 on the device of ``like``."""
    xp = array_namespace(like)
    return xp.nonzero(xp.ones_like(like) > 0)[0]


def _take(xp: Any, tree: Any, rows: Any) -> Any:
    """Some rows of an array, or of every array in a tuple."""
    return _map(lambda array: xp.take(array, rows, axis=0), tree)


def _in_order(xp: Any, rows: Sequence[Any], blocks: Sequence[Any]) -> Any:
    """Blocks of rows put together, each row at its place; there is no scatter in the standard, but there is argsort."""
    concat = getattr(xp, "concat", None) or xp.concatenate
    return _take(xp, _map(lambda *parts: concat(parts, axis=0), *blocks), xp.argsort(concat(rows)))


def _map(function: Callable[..., Any], *trees: Any) -> Any:
    if not isinstance(trees[0], tuple):
        return function(*trees)
    fields = [_map(function, *parts) for parts in zip(*trees, strict=True)]
    return type(trees[0])(*fields) if hasattr(trees[0], "_fields") else tuple(fields)
