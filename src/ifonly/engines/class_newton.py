"""Some classes: Newton's method in class space for λ, and the search for λ around it for a probability.

    min ½‖x − x̄‖²  subject to  −ln p_k(x) ≤ −ln τ

is convex, and its solutions are those of the λ form: p_k(x*(λ)) falls as λ grows, and the answer is x*(λ) for the largest λ at
which p_k ≥ τ. With Q = 1 − p_k, ``L(ln λ) = logit Q`` is increasing, with slope near 1 for small λ and falling to 0 for large,
and its derivative comes from Newton's factor: the search (`lam_search`) takes four or five steps.

Two promises are kept here, not hoped for:

* *The label flips.* The goal for logit Q leaves room for all rounding (`windows`).
* *Unreachable means unreachable.* Any x with p_k(x) ≥ τ has ``(λ/2)‖x − x̄‖² ≥ E* + ln τ`` for every λ. When that puts x so
  far away that float64 can no longer tell its classes apart, there is none, and the certificate of E* has proved it. A τ that
  is approached only at infinity (λ has fallen by `LEAST_LAM`) has no such bound and the same status. In both cases the rivals'
  pulls have to cancel, up to the rounding of x itself (`class_space.cancels`): then −ln p_k is bounded from below everywhere.
  Where they do not, last digits of A tell the classes apart, and τ is reached farther away than p can be evaluated; where
  classes are so alike that rounding grows faster than the change, not for whoever evaluates p: both are MAX_ITER.
"""

import math
import sys
from itertools import pairwise

import numpy as np

from ifonly.engines.class_space import ClassProblem, cancels
from ifonly.engines.coordinates import logistic
from ifonly.engines.free import FreeEngine, Stop
from ifonly.engines.lam_search import LONGEST_STEP, Bracket
from ifonly.engines.nearest import pair_bounds
from ifonly.engines.newton import Outcome, minimise, newton
from ifonly.engines.windows import GUESS, Window
from ifonly.model.numerics import Floats
from ifonly.problem.asked import Aims, Asked
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status
from ifonly.rows.sources import Sizes, Sources

__all__ = ["LEAST_LAM", "NEAR", "ROUGH", "ClassNewton", "Followed", "carry_on", "first_lam"]

MAX_STEPS = 100  # of the search for λ; four to six are usual
ROUGH = 1e-3  # inner solves are this good (δ of their last step, so 1e-9 in the margins) …
NEAR = 1e-2  # … until logit Q is this near to the goal, then to the last digit
NEARLY = 0.1  # relative: how well λ is known where the window is wider than that
NOISE = 1e6  # rounding of logits where nothing is in reach: rows that differ in a last bit pull x to where it is about 1
REACH = 0.5  # steps in ln λ longer than this are beyond a polynomial; up to twice that the tangent serves
LEAST_LAM = 1e-60  # relative to the first guess: from there on down only the exponent changes

Knot = tuple[float, *tuple[Floats, ...]]  # ln λ, the change (q/λ or ξ), its derivative along ln λ if that is known
Followed = tuple[Result, tuple[Floats, ...]]  # an answer, and what its knot has besides ln λ


class ClassNewton(FreeEngine):
    """Free problems with some classes, or from a start."""

    knots = 3  # answers that a path's next start goes through: 2 leave 1.5 iterations per λ (MNIST, default λ), 3 1.3, 4 1.4

    def refuses(self, asked: Asked) -> str | None:
        """So many classes that a K×K system is too large."""
        if asked.model.only_passes or (asked.model.shares_gram and asked.question.start is None):
            return "there are very many classes"
        return None

    def minimise(self, problem: ClassProblem, lam: float, stop: Stop, start: Floats | None = None) -> Result:
        """Third-order Newton from near the answer; from a start, the paper's Newton method, iterate for iterate."""
        space = problem.space(lam)
        if start is None:
            return problem.settle(minimise(space, space.start(), **stop._asdict()), stop.tol)
        at = space.source() if start is problem.margins else space.near(start)
        return problem.settle(newton(space, at, order=2, **stop._asdict()), stop.tol)

    def leave(self, problem: ClassProblem, prob: float, window: Window, stop: Stop) -> Result:
        """The search for λ, from that of the two-class problem with the hardest rival."""
        first = first_lam(problem.margins, problem.lengths, float(window.logit - window.slack))
        if not sys.float_info.min < first < math.inf:  # x̄ is so large that its rounding is more than any probability allows
            return problem.stay(Status.UNREACHABLE)
        return self.search(problem, prob, window, first, stop)

    def search(self, problem: ClassProblem, prob: float, window: Window, first: float, stop: Stop) -> Result:
        """The answer for the largest λ at which logit Q is in its window, from a first λ."""
        space = problem.space(first)
        at, bracket = space.start(), Bracket(LONGEST_STEP)
        almost = below = None  # the last that meets the goal, or would but for rounding; the last whose p_k is below for all
        inside = tight = False  # of the last that meets it: not far beyond, and its window
        room = math.log1p(-prob) - math.log(prob) - float(window.logit)
        n_iter, outcome = 0, None
        for _ in range(MAX_STEPS):
            # 1. Solve for this λ: roughly while far from the goal, to the last digit when near.
            outcome = minimise(space, at, close=ROUGH, max_iter=stop.max_iter)
            n_iter += outcome.n_iter
            extent = problem.rounding.extent(space, outcome.point)
            top, width = map(float, window.edges(problem.rounding.of_estimator(problem.size, extent)))
            if abs(outcome.point.logit - top) < max(NEAR, width) and not outcome.precise:  # a wide window is all near
                outcome = minimise(space, outcome.point.at, max_iter=stop.max_iter)
                n_iter += outcome.n_iter
            miss = outcome.point.logit - top

            # 2. There, or provably not to be reached?
            bracket.saw(space.lam, miss, width, solved=outcome.converged)
            meets = miss <= 0 and width < GUESS
            if meets:
                almost, inside, tight = outcome, miss >= -width, width <= NEAR
            # A window widens with the distance, and all that is far enough away is inside: does no larger λ do?
            if almost is not None and inside and (tight or bracket.shut(NEARLY)):
                return problem.finish(almost, stop.tol, n_iter)
            if not meets:
                below, almost = _nearly(miss, width, room, outcome, below, almost)
                if _out_of_reach(problem, outcome, prob) or space.lam < LEAST_LAM * first:
                    return _given_up(problem, window, (almost, below, outcome), stop, n_iter)

            # 3. The next λ, aimed at the middle of the window (or, where any larger is wanted, far up), and a start for it.
            tangent, rate = outcome.tangent()
            new = bracket.next(space.lam, *((-width, 0.0) if inside else (miss + 0.5 * width, rate)))
            if new is None:
                break
            space, at = outcome.carried(tangent, new)
        assert outcome is not None
        # Where p_k is more than was asked for by more than rounding, a nearer x would do: the search was misled on its way.
        return problem.finish(almost or outcome, stop.tol, n_iter, Status.MAX_ITER)

    def follow(self, asked: Asked, sources: Sources, k: int, lams: list[float]) -> Results:
        """One answer per λ: side by side where there is a row loop, else each from its neighbours."""
        z, sizes = sources.project_one()
        loop = self.loop(asked, len(lams))
        if loop.arrays or loop.compiled:  # a third of the time that one after the other takes
            same = np.broadcast_to(z, (len(lams), len(z)))
            many = Sizes(*(np.full(len(lams), size) for size in sizes))
            return self._solve(asked, same, many, Aims(np.full(len(lams), k), np.array(lams), None), None, loop)
        problem, stop = ClassProblem(asked.model, z, sizes, k), Stop.of(asked.question)
        # The answer is a smooth curve in ln λ whose tangent comes with Newton's factor, so the next start is the polynomial
        # through the last answers and their tangents (Hermite's), carried on, from the largest λ to the smallest (section 3.5).
        # With steps of 0.19 in ln λ, as by default, three of them leave an error of some 1e-5, which one Newton step mends.
        found: dict[int, Result] = {}
        knots: list[Knot] = []
        for i in sorted(range(len(lams)), key=lambda i: -lams[i]):
            t = math.log(lams[i])
            found[i], knot = self.next(problem, stop, lams[i], carry_on(knots, t))
            knots = [*knots[1 - self.knots :], (t, *knot)]
        return Results.of([found[i] for i in range(len(lams))])

    def next(self, problem: ClassProblem, stop: Stop, lam: float, guess: Floats | None) -> Followed:
        """An answer on the way along λ, from a guess of the change, and the curve there."""
        space = problem.space(lam)
        outcome = newton(space, space.start() if guess is None else space.from_knot(guess), **stop._asdict())
        return problem.settle(outcome, stop.tol), space.knot(outcome.point, outcome.tangent()[0])


def _nearly(
    miss: float, width: float, room: float, found: Outcome, below: Outcome | None, almost: Outcome | None
) -> tuple[Outcome | None, Outcome | None]:
    """With an answer that misses the goal: the last whose p_k is below it for all, the first that meets it but for rounding."""
    if miss > 2 * (width + room):
        return found, almost
    return below, found if almost is None and miss <= width else almost


def _given_up(
    problem: ClassProblem, window: Window, found: tuple[Outcome | None, Outcome | None, Outcome], stop: Stop, n_iter: int
) -> Result:
    """Out of reach, with the best answer that is below the goal for all; or the goal is met, but not for all.

    ``found`` are one that meets it but for rounding, the last that is below it for all, and the farthest that was tried.
    """

    def exactly(outcome: Outcome) -> Outcome:
        return minimise(outcome.space, outcome.point.at, max_iter=stop.max_iter)

    almost, below, last = found
    model, k, status = problem.model, problem.k, Status.MAX_ITER
    if almost is None:  # is the target between rivals that keep logit(1 − p_k) above its goal?
        rows, p, top = model.weights(model.rivals(k)) - model.weights(k), exactly(last).point.p, window.logit - window.slack
        status = Status.UNREACHABLE if cancels(rows, problem.margins, p, float(top)) else status
    return problem.finish(exactly(almost or below or last), stop.tol, n_iter, status)


def first_lam(margins: Floats, lengths: Floats, top: float) -> float:
    """λ of the two-class problem with the rival that is hardest to beat: x moves by Q·‖ā_j‖/λ to make up its margin."""
    distances = pair_bounds(margins, lengths, None, top)
    j = int(np.where(np.isfinite(distances), distances, -1.0).argmax())
    length = float(lengths[j]) or float(lengths.max())
    return logistic(top) * length**2 / max(float(margins[j]) - top, 0.1)


def _out_of_reach(problem: ClassProblem, found: Outcome, prob: float) -> bool:
    """Whether any x with p_k ≥ prob is so far away that its logits are rounding and nothing else."""
    lam = found.space.lam
    gap = problem.rounding.grad_norm(found.space, found.point, problem.lengths) ** 2 / (2 * lam)
    excess = found.point.objective - gap + math.log(prob)
    if excess <= 0:
        return False
    distance = math.sqrt(2 * excess / lam)
    return problem.rounding.of_logits(problem.size, problem.rounding.at(distance)) > NOISE


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
