"""The probability form: the nearest x with p_k(x) ≥ τ.

    min ½‖x − x̄‖²  subject to  −ln p_k(x) ≤ −ln τ

is convex, and its solutions are those of the λ form: p_k(x*(λ)) falls as λ grows, and the answer is x*(λ) for the largest λ at
which p_k ≥ τ. With Q = 1 − p_k, ``L(ln λ) = logit Q`` is increasing, with slope near 1 for small λ and falling to 0 for large,
and its derivative comes from Newton's factor: Newton on L, in a bracket, takes four or five steps.

Two promises are kept here, not hoped for:

* *The label flips.* The user's own estimator will evaluate p_k at the rounded x, with sums in an order of its own. So the
  goal for logit Q lies below logit(1 − τ) by as much as all that rounding can come to (`Rounding.of_estimator`).
* *Unreachable means unreachable.* Any x with p_k(x) ≥ τ has ``(λ/2)‖x − x̄‖² ≥ E* + ln τ`` for every λ. When that puts x so
  far away that float64 can no longer tell its classes apart, there is none, and the certificate of E* has proved it. Two
  cases have no such bound and the same status: a τ that is approached only at infinity (λ has fallen by `LEAST_LAM`), and
  two classes so alike that rounding grows faster than the change (`MAX_CHASE`).
"""

import math
import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.class_space import ClassProblem, Solution
from ifonly.engines.coordinates import Point, Space
from ifonly.engines.few_and_rest import SolveCrowd, Window, solve_crowd
from ifonly.engines.newton import MAX_ITER, minimise
from ifonly.model import Model
from ifonly.model.numerics import EPS
from ifonly.problem.status import Status
from ifonly.rows.sources import NOWHERE, Sizes

__all__ = ["Goal", "needed_logit", "reach_probability"]

MAX_STEPS = 100  # of the search for λ; four to six are usual
MAX_CHASE = 30  # of the rounding allowance, which grows with the change, for K = 2; one or two are usual
LONGEST_STEP = math.log(1e4)  # where L is flat, Newton's step is no guide
ROUGH = 1e-3  # inner solves are this good (δ of their last step, so 1e-9 in the margins) …
NEAR = 1e-2  # … until logit Q is this near to the goal, then to the last digit
LEAST_LAM = 1e-60  # relative to the first guess: from there on down only the exponent changes


class Goal(NamedTuple):
    """What logit(1 − p_k) has to be: at most ``top``, and no more than ``width`` below it."""

    top: float
    width: float

    @classmethod
    def of(cls, problem: ClassProblem, prob: float, reach: Sizes) -> "Goal":
        """So that whoever evaluates p_k at the rounded x, in whatever order, finds it ≥ prob."""
        logit = float(needed_logit(prob, problem.model))
        rounding = float(problem.rounding.of_estimator(problem.size, reach))
        return cls(logit - rounding, rounding + 8 * EPS * (abs(logit) + 1))

    def distances(self, problem: ClassProblem) -> np.ndarray:
        """For each rival, how far x must go to beat it alone: lower bounds on the distance."""
        gaps = np.maximum(problem.margins - self.top, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(gaps > 0, gaps / problem.lengths, 0.0)


def needed_logit(prob: Any, model: Model) -> Any:
    """logit(1 − p_k) at which a softmax of K terms, itself rounded, comes out ≥ prob; for one or many."""
    eps = model.precision
    # Rivals with a mass below eps/4 vanish from it and it is 1.
    mass = np.maximum((1 - prob) - prob * ((model.n_classes + 8) * eps), eps / 4)
    return np.log(mass) - np.log(np.maximum(1 - mass, np.minimum(prob, 0.5)))


def reach_probability(
    problem: ClassProblem,
    prob: float,
    *,
    tol: float | None = None,
    max_iter: int = MAX_ITER,
    crowd: SolveCrowd = solve_crowd,
) -> Solution:
    """The nearest x with ``p_k(x) ≥ prob``, or the best there is, with status UNREACHABLE."""
    here = problem.stay(Status.EXACT)
    goal = Goal.of(problem, prob, NOWHERE)
    if _logit(float(here.proba[problem.model.rivals(problem.k)].sum()), float(here.proba[problem.k])) <= goal.top:
        return here
    if not problem.lengths.any():  # no change of x changes any margin
        return replace(here, status=Status.UNREACHABLE)
    if problem.model.n_classes == 2:
        return _reach_two_classes(problem, prob, tol)

    first = lam = _first_lam(problem, goal)
    if not sys.float_info.min < first < math.inf:  # x̄ is so large that its rounding is more than any probability allows
        return replace(here, status=Status.UNREACHABLE)
    if problem.model.crowded:
        ended = crowd(problem.crowd_space(lam), window=_window(problem, prob), max_iter=max_iter)
        if ended.outcome.converged:
            return problem.ended(ended, tol)
    space = problem.space(lam)
    at = space.start()
    low, high, met = 0.0, math.inf, None  # λ where the goal is met and where it is missed; the answer at the former
    n_steps = n_iter = 0
    while True:
        # 1. Solve for this λ: roughly while far from the goal, to the last digit when near.
        outcome = minimise(space, at, close=ROUGH, max_iter=max_iter)
        n_iter += len(outcome.history)
        goal = Goal.of(problem, prob, space.reach(outcome.point, problem.rounding.row_norm))
        miss = _logit_of(outcome.point) - goal.top
        if abs(miss) < NEAR and not outcome.precise:
            outcome = minimise(space, outcome.point.at, max_iter=max_iter)
            n_iter += len(outcome.history)
            miss = _logit_of(outcome.point) - goal.top

        # 2. There, or provably not to be reached?
        if miss <= 0:
            low, met = lam, (space, outcome)
            if miss >= -goal.width:
                break
        else:
            high = lam
            if _out_of_reach(problem, space, outcome.point, prob) or lam < LEAST_LAM * first:
                outcome = minimise(space, outcome.point.at, max_iter=max_iter)
                return problem.finish(space, outcome, tol, Status.UNREACHABLE, n_iter)

        n_steps += 1
        if n_steps == MAX_STEPS:
            break

        # 3. Newton on L(ln λ), aimed at the middle of the goal, inside the bracket.
        tangent, ds = (outcome.factor or space.factor(outcome.point)).tangent()
        mass = float(outcome.point.p.sum())
        rate = float(outcome.point.p @ ds) / mass if mass > 0 else 0.0
        step = -(miss + 0.5 * goal.width) / rate if rate > 0 else math.copysign(LONGEST_STEP, -miss)
        new = lam * math.exp(min(max(step, -LONGEST_STEP), LONGEST_STEP))
        if not low < new < high:
            new = math.sqrt(low) * math.sqrt(high) if low > 0 else high * math.exp(-LONGEST_STEP)
            if not low < new < high:
                break  # the bracket is closed: no λ between
        change, slope = space.knot(outcome.point, tangent)
        space = space.at(new)
        at = space.from_knot(change + math.log(new / lam) * slope)
        lam = new

    if met is None:
        return problem.finish(space, outcome, tol, Status.MAX_ITER, n_iter)
    return problem.finish(*met, tol, None, n_iter)


def _window(problem: ClassProblem, prob: float) -> Window:
    """`Goal` with the rounding as a linear function of the change."""
    logit, rounding = float(needed_logit(prob, problem.model)), problem.rounding
    slack = float(rounding.of_estimator(problem.size, NOWHERE))
    unit = 2 * rounding.row_norm  # the reach of a change with Σq/λ = 1, as in spaces.Rivals
    slope = float(rounding.of_estimator(problem.size, Sizes(unit, rounding.row_norm * unit))) - slack
    return Window(logit, slack, slope, 8 * EPS * (abs(logit) + 1))


def _reach_two_classes(problem: ClassProblem, prob: float, tol: float | None) -> Solution:
    """K = 2: the margin to end at is known, and x moves by q‖w‖/λ to make up the difference; so λ is known too."""
    margin, length = float(problem.margins[0]), float(problem.lengths[0])
    row_norm = problem.rounding.row_norm
    goal, solution = Goal.of(problem, prob, NOWHERE), problem.stay(Status.UNREACHABLE)
    for _ in range(MAX_CHASE):
        end = goal.top - 0.5 * goal.width
        lam = _mass(end) * length * length / (margin - end)
        if not sys.float_info.min < lam < math.inf:
            break
        solution = problem.two_classes(lam, tol)
        reach = 2 * row_norm * abs(float(solution.coef[0]))
        goal = Goal.of(problem, prob, Sizes(reach, row_norm * reach))
        p, p_target = float(solution.proba[1 - problem.k]), float(solution.proba[problem.k])
        if _logit(p, p_target) <= goal.top:
            return solution
    # w is so small, or x̄ so large, that the rounding grows faster than the change makes up for it
    return replace(solution, status=Status.UNREACHABLE)


def _first_lam(problem: ClassProblem, goal: Goal) -> float:
    """λ of the two-class problem with the rival that is hardest to beat: x moves by Q·‖ā_j‖/λ to make up its margin."""
    distances = goal.distances(problem)
    j = int(np.where(np.isfinite(distances), distances, -1.0).argmax())
    length = float(problem.lengths[j]) or float(problem.lengths.max())
    return _mass(goal.top) * length**2 / max(float(problem.margins[j]) - goal.top, 0.1)


def _mass(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > -700 else math.exp(logit)


def _out_of_reach(problem: ClassProblem, space: Space, point: Point, prob: float) -> bool:
    """Whether any x with p_k ≥ prob is so far away that a margin there is rounding and nothing else."""
    gap = problem.rounding.grad_norm(space, point, problem.lengths) ** 2 / (2 * space.lam)
    excess = point.objective - gap + math.log(prob)
    if excess <= 0:
        return False
    distance = math.sqrt(2 * excess / space.lam)
    return problem.rounding.of_margins(problem.size, Sizes(distance, problem.rounding.row_norm * distance)) > 1


def _logit_of(point: Point) -> float:
    """logit(1 − p_k)."""
    return _logit(float(point.p.sum()), point.p_target)


def _logit(mass: float, rest: float) -> float:
    if mass == 0.0:
        return -math.inf
    return math.log(mass) - math.log(rest) if rest > 0.0 else math.inf
