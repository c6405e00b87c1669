"""Very many classes, some hundreds to thousands: Newton's method on few of them, the others as one.

Newton's matrix would be K×K, but of most rivals only the sum of their probabilities matters, not how they share it. So a round
takes the strongest rivals, the *few*, and one more that stands for all others, the *rest*. With x = x̄ − Āᵀd, the margins
s = s̄ − Ḡd at the current point, and w = softmax(s) over the rest, convexity gives for any margins s'

    ln Σ_rest e^{s'}  ≥  ln Σ_rest e^{s} + wᵀ(s' − s),

and the right-hand side is the margin of one rival with the row Σ w_j ā_j. With that in the place of the rest, E becomes an
ordinary inverse problem with few rivals (`Rivals`), equal to E to first order at the current point and nowhere above it. Its
solution is the next point, but for what the rest does within itself. That error shrinks by a factor of 10 to 20 in a round, and
by 30 to 100 where the step is combined with the last ones so that E is least, which makes it a method of conjugate gradients.

    0. start from the solution for the strongest rivals alone
    1. the few ← the strongest rivals; w ← the weights of the rest, and Ḡw: the one product with a K×K matrix
    2. solve the small problem, by a Newton step from where the last one ended; its solution gives a step
    3. combine it with the last steps
    4. E must fall, else halve the step
    5. stop if the next step would be lost in rounding

Margins are linear in d, so nothing else costs more than O(K) times the number of the few. docs/math.md derives it.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.engines.coordinates import Point, Rivals, Space, logit, rivals_softmax
from ifonly.engines.lam_search import LONGEST_STEP, Bracket
from ifonly.engines.lapack import dsymv
from ifonly.engines.newton import CLOSE, ROUNDINGS, Outcome, minimise, newton
from ifonly.engines.windows import Window
from ifonly.model.numerics import EPS, Floats, without
from ifonly.problem.results import Iteration

__all__ = ["ManyRivals", "Rounds", "solve_rounds"]

# The few: so many rivals at least, and all that have this share of the rivals' probability. On an ImageNet head (λ = 0.01, the
# farthest class) 32, 64, 96 and 128 take 8.6, 8.2, 7.8 and 7.5 rounds; a round's product takes 65 µs there, and factorising the
# small problem's matrix, three or four times in all, 15 with 64 and 100 with 128.
FEW, SHARE = 64, 3e-3
FIRST_STEPS = 2  # Newton steps for the few alone, from their pairwise start
TRUST = 0.3  # a step that changes a margin by more is taken as it is: E is no parabola along it
DEPTH = 2  # earlier steps to combine a step with: 8.1 rounds; with one, enough in exact arithmetic, 8.4, with none 11.2
MAX_ROUNDS = 60
LEAST_RATE = 0.02  # of a step: a round is never trusted to leave less
SLOW = 0.5  # … and one that leaves more is of no use
MAX_HALVINGS = 40
MAX_MOVES, SURE = 30, 0.3  # of ln λ on a small problem, until one is shorter than this: from there on Newton is sure
ROUGH = 0.1  # how well a small problem is solved before λ moves


class ManyRivals(Rivals):
    """Coordinates q for very many rivals: H is not formed unless something asks for all of it.

    ``Ḡv`` comes from the Gram matrix G of all classes: with −Σv for the target, ``(Ḡv)_j = (Gv)_j − (Gv)_k``.
    """

    def __init__(self, G: Floats, k: int, margins: Floats, lam: float, size: float | None = None) -> None:
        self.G, self.k, self.margins, self.lam = G, k, margins, lam
        self.size = float(np.abs(margins).max()) if size is None else size

    @cached_property
    def gram(self) -> Floats:
        """Ḡ, for users' starts and for problems that the rounds do not settle."""
        return np.delete(self.rows(np.delete(np.arange(len(self.G)), self.k)), self.k, axis=1)

    @cached_property
    def H(self) -> Floats:
        """Ḡ/λ."""
        return self.gram / self.lam

    def at(self, lam: float) -> "ManyRivals":
        """The same problem with another λ."""
        other = ManyRivals(self.G, self.k, self.margins, lam, self.size)
        if "gram" in self.__dict__:
            other.gram = self.gram
        return other

    def at_temperature(self, T: float) -> "ManyRivals":
        """The same problem with ``T·ln Σ exp(s/T)`` for the loss, divided by T."""
        return ManyRivals(self.G, self.k, self.margins / T, self.lam * T)

    def rows(self, few: NDArray[np.intp]) -> Floats:
        """Rows of Ḡ, with an entry of 0 for the target."""
        rows = self.G[few] - self.G[self.k]
        rows -= rows[:, self.k, None]
        return rows

    def product(self, v: Floats) -> Floats:
        """``Ḡv`` for v with an entry of 0 for the target, as has the product."""
        balanced = v.copy()
        balanced[self.k] = -np.add.reduce(v)
        product = dsymv(1.0, self.G.T, balanced)  # reads half of G, and reading is what takes the time
        product -= product[self.k]
        return product

    def evaluate(self, q: Floats, known: Floats | None = None) -> Point:
        """E and its derivative at q; ``known``, if given, is H q."""
        return self.moved_by(q, self.times(q) if known is None else known)

    def end(self, state: Floats, p_target: float, loss: float, done: bool, window: Window | None, **more: Any) -> Outcome:
        """Where the rounds ended, from d, u = Ḡd and p of all classes: done if logit Q is in its window, where it has one.

        Slope and ‖∇E‖ are left out: they take a product, a tenth of the whole time, and p − q is but rounding there, so that
        the certificate's other bound, Σ|p_j − q_j|‖ā_j‖, does as well.
        """
        if window is not None:
            change, mass = float(np.add.reduce(state[0])), float(np.add.reduce(state[2]))
            done = done and window.holds(logit(mass, p_target), change)
        q, moved, p = without(state, self.k)
        q *= self.lam
        point = Point(q, p, p_target, 0.5 * float(q @ moved) + loss, math.inf, p - q, np.empty(0), moved)
        return Outcome(self, point, done, done, **more)

    def times(self, q: Floats) -> Floats:
        """H q."""
        return np.delete(self.product(np.insert(q, self.k, 0.0)), self.k) / self.lam


Rounds = Callable[..., Outcome]  # `solve_rounds`, or its compiled twin in `native.few_and_rest`


class Rest(NamedTuple):
    """All rivals but the few, as one."""

    margin: float  # ln Σ e^{s_j}
    w: Floats  # the weights of its row
    pull: Floats  # Ḡw


class Strongest:
    """The strongest rivals at a point with these margins."""

    def __init__(self, space: ManyRivals, s: Floats, p: Floats) -> None:
        share = int(np.count_nonzero(p > SHARE * np.add.reduce(p)))
        n = min(max(FEW, share), len(s) - 2)  # at least one is left for the rest
        self.index = np.sort(np.argpartition(s, -n)[-n:])
        self.others = np.ones(len(s), dtype=bool)
        self.others[self.index] = self.others[space.k] = False
        self.rows = space.rows(self.index)
        self.gram = np.zeros((n + 1, n + 1))  # the last row and column are for the rest
        self.gram[:n, :n] = self.rows[:, self.index]

    def rest(self, space: ManyRivals, s: Floats) -> Rest:
        """The others as one rival."""
        s = np.where(self.others, s, -math.inf)
        top = float(s.max())
        w = np.exp(s - top)
        total = float(np.add.reduce(w))
        w /= total
        return Rest(top + math.log(total), w, space.product(w))

    def problem(self, rest: Rest, sbar: Floats, u: Floats, lam: float) -> Rivals:
        """The inverse problem with the few and the rest."""
        self.gram[-1, :-1] = self.gram[:-1, -1] = rest.pull[self.index]
        self.gram[-1, -1] = float(rest.w @ rest.pull)
        margins = np.append(sbar[self.index], rest.margin + float(rest.w @ u))
        return Rivals(self.gram, margins, lam)

    def gather(self, d: Floats) -> Floats:
        """A vector over all rivals as one over the few and the rest."""
        return np.append(d[self.index], np.add.reduce(d[self.others]))

    def scatter(self, small: Floats, rest: Rest | None = None) -> tuple[Floats, Floats]:
        """The change that a solution of the small problem makes, and how far it moves the margins."""
        n = len(self.index)
        d, u = np.zeros(len(self.others)), small[:n] @ self.rows
        if rest is not None:
            d, u = small[n] * rest.w, u + small[n] * rest.pull
        d[self.index] = small[:n]
        return d, u


class Place(NamedTuple):
    """A point on the way: the change d = q/λ, how far it moves the margins, Ḡd, and what follows from that alone.

    Vectors have K entries here, and the target's are 0.
    """

    d: Floats
    u: Floats
    p: Floats
    p_target: float
    loss: float

    @classmethod
    def of(cls, d: Floats, u: Floats, sbar: Floats) -> "Place":
        """The place that a change leads to."""
        return cls(d, u, *rivals_softmax(sbar - u))

    def objective(self, lam: float) -> float:
        """E."""
        return 0.5 * lam * float(self.d @ self.u) + self.loss


def solve_rounds(
    space: ManyRivals, start: Floats | None = None, *, window: Window | None = None, max_iter: int = MAX_ROUNDS
) -> Outcome:
    """Minimise E; with a ``window``, find also the λ at which logit Q ends in it, starting from the space's own.

    ``start``, if given, is a change q/λ to start from.
    """
    sbar = np.insert(space.margins, space.k, -math.inf)
    lam, few, here = _started(space, start, sbar, window)
    longest = float(np.diagonal(space.G).max())
    steps: list[tuple[Floats, Floats]] = []
    history: list[Iteration] = []
    last, rate, done = math.inf, 0.0, False
    while not done and len(history) < min(max_iter, MAX_ROUNDS):
        d, u, p = here[:3]
        # p is no better known than s̄, and what that means for u is the least step that counts; u is a sum of terms that reach
        # so far, and what rounding makes of them is noise in every step.
        reach = longest * float(np.add.reduce(np.abs(d)))
        least = ROUNDINGS * EPS * (space.size + 1) * min(1.0, float(np.abs(u).max()))
        noise = least + ROUNDINGS * EPS * reach

        # 1. The few, and the rest as one.
        if (p * few.others).max() > SHARE * np.add.reduce(p):  # one of the rest has become strong
            few = Strongest(space, sbar - u, p)
        rest = few.rest(space, sbar - u)

        # 2. The small problem's solution, as a step.
        small = few.problem(rest, sbar, u, lam)
        lam, at = _solved(small, lam * few.gather(d), window, 1, here.objective(lam))
        d_new, u_new = few.scatter(at / lam, rest)
        t, tu = d_new - d, u_new - u
        delta = float(np.abs(tu).max())

        # 3. The best combination with the last steps.
        if noise < delta <= TRUST and steps:
            t, tu = _combined([(t, tu), *steps], here, lam, noise / delta)

        # 4. E must fall.
        E = here.objective(lam)
        slack = ROUNDINGS * EPS * (abs(E) + (space.size + reach) * float(np.add.reduce(p)))
        for trial in range(MAX_HALVINGS):
            there = Place.of(d + 0.5**trial * t, u + 0.5**trial * tu, sbar)
            if there.objective(lam) <= E + slack:
                break
        else:  # no step is short enough
            break
        length = 0.5**trial
        slope = p[few.index] @ few.rows + np.add.reduce(p[few.others]) * rest.pull - lam * u  # Ḡ(p − λd)
        history.append(Iteration(E, math.sqrt(max(float((p - lam * d) @ slope), 0.0)), length, trial + 1))
        steps = [(there.d - d, there.u - u), *steps[: DEPTH - 1]]
        here = there

        # 5. Nothing left to gain, as the next step will be so much shorter? Or was this one rounding already?
        before, rate = rate, max(delta / last, LEAST_RATE)
        if length == 1.0 and delta <= max(noise, CLOSE[2]):
            done = delta * max(rate, before) <= least or (delta <= noise and rate > SLOW)
        last = delta
    return space.at(lam).end(np.array(here[:3]), here.p_target, here.loss, done, window, history=tuple(history))


def _started(space: ManyRivals, start: Floats | None, sbar: Floats, window: Window | None) -> tuple[float, Strongest, Place]:
    """λ, the few, and a first place: the start, or the solution for the few alone, if E falls: it takes no product."""
    if start is not None:
        d = np.insert(start, space.k, 0.0)
        here = Place.of(d, space.product(d), sbar)
        return space.lam, Strongest(space, sbar - here.u, here.p), here
    here = Place.of(np.zeros_like(sbar), np.zeros_like(sbar), sbar)
    few = Strongest(space, sbar, here.p)
    small = Rivals(few.gram[:-1, :-1], sbar[few.index], space.lam)  # as if there were no others
    lam, at = _solved(small, small.start(), window, FIRST_STEPS, math.inf)
    there = Place.of(*few.scatter(at / lam), sbar)
    return lam, few, there if there.objective(lam) <= here.objective(lam) else here


def _solved(small: Space, at: Floats, window: Window | None, steps: int, E: float) -> tuple[float, Floats]:
    """λ and the solution of a small problem: lower than E, and near enough, as the rest moves yet."""
    if window is not None:
        return _aimed(small, at, window)
    outcome = newton(small, at, max_iter=steps)
    if outcome.point.objective > E:  # then the way there might lead up at first
        outcome = minimise(small, outcome.point.at, close=ROUGH)
    return small.lam, outcome.point.at


def _aimed(small: Space, at: Floats, window: Window) -> tuple[float, Floats]:
    """λ at which the solution of the small problem lies in the window, and that solution; the last step is only predicted."""
    bracket = Bracket(LONGEST_STEP)
    for _ in range(MAX_MOVES):
        outcome = minimise(small, at, close=ROUGH)
        point, lam = outcome.point, small.lam
        tangent, rate = outcome.tangent()
        miss = point.logit - window.middle(float(np.add.reduce(point.at)) / lam)
        bracket.saw(lam, miss)
        near = abs(miss) < SURE * rate
        new = lam * math.exp(-miss / rate) if near else bracket.next(lam, miss, rate) or lam
        small, at = outcome.carried(tangent, new)
        if near:
            break
    return small.lam, at


def _combined(steps: list[tuple[Floats, Floats]], here: Place, lam: float, error: float) -> tuple[Floats, Floats]:
    """The combination of these steps at which E is least, to second order.

    With the steps as rows of D and U = D Ḡ it is θᵀD, where (λ D Uᵀ + U S Uᵀ) θ = U(p − λd). ``error`` is how well the steps
    are known: those that are parallel but for it must not be subtracted from each other.
    """
    D, U = (np.array(vectors) for vectors in zip(*steps, strict=True))
    mean = U @ here.p
    spread = U - mean[:, None]
    M = lam * (D @ U.T) + (spread * here.p) @ spread.T + here.p_target * np.outer(mean, mean)  # U S Uᵀ as a sum of squares
    if np.diagonal(M).min() <= 0.0:  # a step that is but rounding
        return steps[0]
    scale = 1 / np.sqrt(np.diagonal(M))
    M *= scale[:, None] * scale
    M.ravel()[:: len(M) + 1] += error
    theta = scale * np.linalg.solve(M, scale * (U @ (here.p - lam * here.d)))
    return theta @ D, theta @ U
