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
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ifonly.engines.class_space import ClassProblem, cancels
from ifonly.engines.coordinates import Point, Space
from ifonly.engines.follow import follow
from ifonly.engines.free import FreeEngine, Stop, unchangeable
from ifonly.engines.lam_search import LONGEST_STEP, Bracket
from ifonly.engines.nearest import pair_bounds
from ifonly.engines.newton import Outcome, minimise, newton
from ifonly.engines.row_loops import choose_loop
from ifonly.engines.windows import GUESS, Window, logit
from ifonly.model.numerics import Floats
from ifonly.problem.asked import Aims, Asked
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status
from ifonly.rows.sources import Sizes, Sources

__all__ = ["LEAST_LAM", "NEAR", "ROUGH", "ClassNewton", "reach_by_search"]

MAX_STEPS = 100  # of the search for λ; four to six are usual
ROUGH = 1e-3  # inner solves are this good (δ of their last step, so 1e-9 in the margins) …
NEAR = 1e-2  # … until logit Q is this near to the goal, then to the last digit
NEARLY = 0.1  # relative: how well λ is known where the window is wider than that
NOISE = 1e6  # rounding of logits where nothing is in reach: rows that differ in a last bit pull x to where it is about 1
LEAST_LAM = 1e-60  # relative to the first guess: from there on down only the exponent changes


class ClassNewton(FreeEngine):
    """Free problems with some classes, or from a start."""

    def refuses(self, asked: Asked) -> str | None:
        """Limits, and so many classes that a K×K system is too large."""
        if asked.conditions is not None:
            return "there are limits"
        if asked.model.only_passes or (asked.model.shares_gram and asked.question.start is None):
            return "there are very many classes"
        return None

    def minimise(self, problem: ClassProblem, lam: float, stop: Stop) -> Result:
        """The least E for one λ: third-order Newton from a start near the answer."""
        space = problem.space(lam)
        outcome = minimise(space, space.start(), tol=stop.tol, max_iter=stop.max_iter)
        return problem.settle(space, outcome, stop.tol)

    def begin(self, problem: ClassProblem, lam: float, start: Floats, stop: Stop) -> Result:
        """The paper's Newton method, iterate for iterate, from margins to start from."""
        space = problem.space(lam)
        at = space.source() if start is problem.margins else space.near(start)
        return problem.settle(space, newton(space, at, tol=stop.tol, order=2, max_iter=stop.max_iter), stop.tol)

    def reach(self, problem: ClassProblem, prob: float, stop: Stop) -> Result:
        """The search for λ."""
        return reach_by_search(problem, prob, stop)

    def follow(self, asked: Asked, sources: Sources, k: int, lams: list[float]) -> Results:
        """One answer per λ: side by side where there is a row loop, else each from its neighbours."""
        z, sizes = sources.project_one()
        model = asked.model
        loop = choose_loop(asked, len(lams))
        if loop is not None and not model.dependent:  # from scratch: a third of the time that one λ after the other takes
            same = np.broadcast_to(z, (len(lams), len(z)))
            many = Sizes(*(np.full(len(lams), size) for size in sizes))
            return self._solve(asked, same, many, Aims(np.full(len(lams), k), np.array(lams), None), None, loop)
        stop = Stop.of(asked.question)
        return Results.of(follow(ClassProblem(model, z, sizes, k), lams, tol=stop.tol, max_iter=stop.max_iter))


class Sought(NamedTuple):
    """Where the search for λ ended; ``status`` None is for an answer."""

    space: Space
    outcome: Outcome
    status: Status | None
    n_iter: int


Found = tuple[Space, Outcome]


class Met(NamedTuple):
    """An answer that meets the goal."""

    found: Found
    inside: bool  # of its window: not far beyond the goal
    tight: bool  # the window

    def is_answer(self, bracket: Bracket) -> bool:
        """Whether no larger λ does: a window widens with the distance, and all that is far enough away is inside."""
        return self.inside and (self.tight or bracket.shut(NEARLY))


def _search_lam(problem: ClassProblem, prob: float, window: Window, first: float, max_iter: int) -> Sought:
    """The largest λ at which logit Q is in its window."""
    lam = first
    space = problem.space(lam)
    at, bracket, met = space.start(), Bracket(LONGEST_STEP), None  # and the answer at the largest λ that meets the goal
    below = almost = None  # … the last whose p_k is below for whoever asks; one that meets the goal, or would but for rounding
    room = math.log1p(-prob) - math.log(prob) - float(window.logit)
    n_iter = n_steps = 0
    while True:
        # 1. Solve for this λ: roughly while far from the goal, to the last digit when near.
        outcome = minimise(space, at, close=ROUGH, max_iter=max_iter)
        n_iter += outcome.n_iter
        reach = problem.rounding.reach(space, outcome.point)
        top, width = map(float, window.edges(problem.rounding.of_estimator(problem.size, reach)))
        miss = _logit_of(outcome.point) - top
        if abs(miss) < max(NEAR, width) and not outcome.precise:  # a wide window is all near
            outcome = minimise(space, outcome.point.at, max_iter=max_iter)
            n_iter += outcome.n_iter
            miss = _logit_of(outcome.point) - top

        # 2. There, or provably not to be reached?
        bracket.saw(lam, miss)
        meets = miss <= 0 and width < GUESS
        if meets:
            almost = space, outcome
            met = Met(almost, miss >= -width, width <= NEAR)
        if met and met.is_answer(bracket):
            return Sought(*met.found, None, n_iter)
        if not meets:
            below, almost = _nearly(miss, width, room, (space, outcome), below, almost)
            if _out_of_reach(problem, space, outcome.point, prob) or lam < LEAST_LAM * first:
                return _given_up(problem, window, (almost, below, (space, outcome)), max_iter, n_iter)

        n_steps += 1
        if n_steps == MAX_STEPS:
            break

        # 3. The next λ, aimed at the middle of the window, and a start for it along the tangent.
        tangent, ds = (outcome.factor or space.factor(outcome.point)).tangent()
        new = bracket.next(lam, *_aim(outcome.point, ds, miss, width, met))
        if new is None:
            break
        change, slope = space.knot(outcome.point, tangent)
        space = space.at(new)
        at = space.from_knot(change + math.log(new / lam) * slope)
        lam = new
    # Where p_k is more than was asked for by more than rounding, a nearer x would do: the search was misled on its way.
    return Sought(*(almost or (space, outcome)), Status.MAX_ITER, n_iter)


def _nearly(
    miss: float, width: float, room: float, found: Found, below: Found | None, almost: Found | None
) -> tuple[Found | None, Found | None]:
    """With an answer that misses the goal: the last whose p_k is below it for all, the first that meets it but for rounding."""
    if miss > 2 * (width + room):
        return found, almost
    return below, found if almost is None and miss <= width else almost


def _given_up(
    problem: ClassProblem, window: Window, found: tuple[Found | None, Found | None, Found], max_iter: int, n_iter: int
) -> Sought:
    """Out of reach, with the best answer that is below the goal for all; or the goal is met, but not for all.

    ``found`` are the first that meets it but for rounding, the last that is below it for all, and the farthest that was tried.
    """
    almost, below, last = found
    space, outcome = almost or below or last
    out = almost is None and _between(problem, last, float(window.logit - window.slack), max_iter)
    status = Status.UNREACHABLE if out else Status.MAX_ITER
    return Sought(space, minimise(space, outcome.point.at, max_iter=max_iter), status, n_iter)


def _between(problem: ClassProblem, last: Found, top: float, max_iter: int) -> bool:
    """Whether the target is between rivals that keep logit(1 − p_k) above ``top``."""
    model, k, (space, outcome) = problem.model, problem.k, last
    p = minimise(space, outcome.point.at, max_iter=max_iter).point.p
    return cancels(model.weights(model.rivals(k)) - model.weights(k), problem.margins, p, top)


def reach_by_search(
    problem: ClassProblem, prob: float, stop: Stop, attempt: Callable[[Window, float], Result | None] | None = None
) -> Result:
    """The search for λ, where the source is not the answer; ``attempt``, from a window and a first λ, is tried before it."""
    window = problem.window(prob)
    here = _staying(problem, prob, window)
    if here is not None:
        return here
    first = _first_lam(problem, window)
    if not sys.float_info.min < first < math.inf:  # x̄ is so large that its rounding is more than any probability allows
        return problem.stay(Status.UNREACHABLE)
    answer = None if attempt is None else attempt(window, first)
    if answer is not None:
        return answer
    found = _search_lam(problem, prob, window, first, stop.max_iter)
    return problem.finish(found.space, found.outcome, stop.tol, found.status, found.n_iter)


def _staying(problem: ClassProblem, prob: float, window: Window) -> Result | None:
    """The source as the answer, where it is there already or nothing can be done about it; None otherwise."""
    here = problem.stay(Status.EXACT)
    mass = float(here.proba[problem.model.rivals(problem.k)].sum())
    if logit(mass, float(here.proba[problem.k])) <= window.logit - window.slack:
        return here
    return None if problem.lengths.any() else unchangeable(problem, prob)


def _first_lam(problem: ClassProblem, window: Window) -> float:
    """λ of the two-class problem with the rival that is hardest to beat: x moves by Q·‖ā_j‖/λ to make up its margin."""
    top = float(window.logit - window.slack)
    distances = pair_bounds(problem.margins, problem.lengths, None, top)
    j = int(np.where(np.isfinite(distances), distances, -1.0).argmax())
    length = float(problem.lengths[j]) or float(problem.lengths.max())
    mass = 1 / (1 + math.exp(-top)) if top > -700 else math.exp(top)
    return mass * length**2 / max(float(problem.margins[j]) - top, 0.1)


def _out_of_reach(problem: ClassProblem, space: Space, point: Point, prob: float) -> bool:
    """Whether any x with p_k ≥ prob is so far away that its logits are rounding and nothing else."""
    gap = problem.rounding.grad_norm(space, point, problem.lengths) ** 2 / (2 * space.lam)
    excess = point.objective - gap + math.log(prob)
    if excess <= 0:
        return False
    distance = math.sqrt(2 * excess / space.lam)
    return problem.rounding.of_logits(problem.size, problem.rounding.at(distance)) > NOISE


def _aim(point: Point, ds: Floats, miss: float, width: float, met: Met | None) -> tuple[float, float]:
    """By how much to lower logit(1 − p_k), and its derivative along that of the margins; 0 where any larger λ is wanted."""
    if met and met.inside:
        return -width, 0.0
    mass = float(point.p.sum())
    return miss + 0.5 * width, float(point.p @ ds) / mass if mass > 0 else 0.0


def _logit_of(point: Point) -> float:
    """logit(1 − p_k)."""
    return logit(float(point.p.sum()), point.p_target)
