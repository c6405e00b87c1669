"""Very many classes: passes over A, and between them a problem with few.

Of 50 000 classes all but tens have no probability worth a digit. Let L = ln Σ exp(z_j − z_k) over the rivals of the target k,
w their softmax among themselves, Q = 1 − p_k = 1/(1 + e^{−L}) and ā = Σ w_j a_j. One pass over A at a point x (`passes`) gives
L, ā and the strongest rivals W, and with them everything of first order,

    E = (λ/2)‖x − x̄‖² + ln(1 + e^L),        ∇E = λ(x − x̄) + Q(ā − a_k).

For the step let all rivals outside W stand together as *one*: its row is their mean with weights w, its margin the tangent of
the logarithm of their sum. That is a problem with |W| + 1 rivals, exact to first order at x and below the full one everywhere
(log-sum-exp is convex), and Newton's method solves it in a millisecond. Its answer is the next x. What it neglects is the
covariance of the other rivals' rows, times their mass: on an ImageNet head 0.07 of the Hessian with |W| = 64, so each pass
gives one digit or more, and Anderson's acceleration (the combination of the last steps with the least residual) two.

Where the neglected covariance is no trifle (thousands of equal rivals) E may rise: then the step is taken with a proximal term
σ as large as the curvature that was met. Where that is slow, or D is small, Newton's method in D dimensions takes over, whose
Hessian a pass can sum as well. Nothing here is of size K×K.

The rivals in W are at hand in double precision, row by row, so a pass sums up only the others. Their share is small, and so is
what single precision does to them: where many sources share the passes, which then take the time of multiplying and not of
reading A, one or two of a source's passes are in double precision (`passes`), and the bound counts what the others neglect.

The algorithm is written for one source, as a generator: it yields points and is sent what a pass says of them. There is one
for λ, `minimise`, rounds of a step and a pass, and one for a probability, `reach`, rounds in which the problem with few rivals
finds λ. `solve_many` runs any number of these in step, so that all share the passes, as matrix products.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ifonly.engines.class_newton import LEAST_LAM, NEAR, ROUGH, first_lam
from ifonly.engines.class_space import cancels
from ifonly.engines.coordinates import Rivals
from ifonly.engines.lam_search import LONGEST_STEP, Bracket
from ifonly.engines.newton import minimise as newton
from ifonly.engines.passes import MOST, Look, Seen, SumUp, Task, sum_up, take_a_pass
from ifonly.engines.rounding import Lengths, Rounding
from ifonly.engines.strong_rivals import FIRST_SHARE, Asking, Endpoint, Last, SmallProblem, State, Work, more
from ifonly.model import Model
from ifonly.model.numerics import EPS, Floats, length, summation_error
from ifonly.problem.asked import Aim
from ifonly.problem.goals import coarser, in_logs, needed_logit
from ifonly.problem.status import Status
from ifonly.rows.sources import Sizes

__all__ = ["NUMPY", "WHOLE", "Loops", "solve_few", "solve_many", "task_of"]

# Points that passes are made for in one go: a pass for 17 takes as long as one for 32. From so many on in single precision.
WHOLE = 16
SMALL_D = 64  # up to here the Hessian in D dimensions costs less than a round
# A round that leaves more than this share of ‖∇E‖ is slow: the next takes more rivals one by one. After so many slow ones in a
# row on to D dimensions, unless the Hessian takes more multiplications than this (some ten seconds).
SLOW, SLOW_ROUNDS, HESSIAN_WORK = 0.3, 8, 4e11
SHORTER = 0.3 ** np.arange(25)  # steps tried in D dimensions
MAX_ROUNDS = 60  # eight or nine are usual
MAX_SEARCH = 100  # steps of the search for λ in the problem with few rivals; five are usual
MAX_LAMS, STRIDE = 100, 30.0  # … in the full one, where its rounds do not settle, and how far apart until one is on either side


def solve_few(gram: Floats, margins: Floats, lam: float, start: Floats | None) -> tuple[Floats, int]:
    """The answer of a problem with few rivals, well enough for a step, and Newton's iterations."""
    space = Rivals(gram, margins, lam)
    outcome = newton(space, space.start() if start is None else start, close=ROUGH)
    return outcome.point.at, outcome.n_iter


class Loops(NamedTuple):
    """How sources are solved: what takes the time, and whether passes may be in single precision."""

    sum_up: SumUp
    solve_few: Callable[[Floats, Floats, float, Floats | None], tuple[Floats, int]]
    single: bool = False


NUMPY = Loops(sum_up, solve_few)  # `native.few_and_rest` has them compiled


def task_of(model: Model, source: Floats, aim: Aim, tol: float | None = None, start: Floats | None = None) -> Task:
    """What is wanted of a source, in the classifier's space, and a class: the least E for λ, or the nearest x with this p_k."""
    k, level = aim.k, None if aim.prob is None else _level(model, source, aim.prob)
    return Task(source, model.weights(k), float(model.b[k]), np.array([k]), aim.lam, level, tol, start)


def _level(model: Model, source: Floats, prob: float) -> Callable[[float], tuple[float, float]]:
    """`Task.level` for a probability: room for all rounding, which grows with the distance."""
    norm = length(source)
    terms = min(model.row_norm * norm, float(np.abs(source) @ model.column_sizes))
    sizes = Sizes(norm + 2 * model.offset_norm, terms + 2 * model.offset_size)
    size, gamma = sizes.terms + float(np.abs(model.b).max()), summation_error(model.n_features + MOST)
    coarse = float(model.coarse * coarser(prob, in_logs(model, gamma)))
    # x is no sum over the classes here, so that their number does not matter to how it rounds.
    theirs = Rounding(gamma, model.row_norm, MOST, sizes, coarse, Lengths.any(model.row_norm))
    logit = float(needed_logit(prob, model))

    def level(distance: float) -> tuple[float, float]:
        rounding = theirs.of_estimator(size, theirs.at(distance))
        return logit - rounding, rounding + 8 * EPS * (abs(logit) + 1)

    return level


def solve_many(
    model: Model, tasks: Sequence[Task], first: dict[int, Seen], threads: int = 1, loops: Loops = NUMPY, at_once: int = 256
) -> list[Endpoint]:
    """The answers for several sources and targets, so many ``at_once``, a pass over A at a time; ``first`` is what is known."""
    loops = loops._replace(single=min(len(tasks), at_once) >= WHOLE)
    running: dict[int, Asking] = {}
    asked: dict[int, Look] = {}
    found: dict[int, Endpoint] = {}
    known = dict(first)
    waiting = list(range(len(tasks)))[::-1]
    while asked or waiting:
        while waiting and len(asked) < at_once:  # one that is done makes room for the next
            i = waiting.pop()
            lam = tasks[i].lam
            running[i] = reach(model, tasks[i], loops) if lam is None else minimise(model, tasks[i], lam, loops)
            asked[i] = next(running[i])
        new = _together({i: look for i, look in asked.items() if i not in known})
        known |= dict(zip(new, take_a_pass(model, [asked[i] for i in new], threads, loops.sum_up), strict=True))
        for i in list(known.keys() & asked.keys()):
            try:
                asked[i] = running[i].send(known.pop(i))
            except StopIteration as end:
                found[i] = end.value
                del asked[i], running[i]
    return [found[i] for i in range(len(tasks))]


def _together(asked: dict[int, Look]) -> list[int]:
    """Whose passes are made next: of each precision as many as fill whole vectors, and all of both where that is none."""
    some = []
    for single in (True, False):
        alike = [i for i, look in asked.items() if look.single is single]
        some += alike[: len(alike) // WHOLE * WHOLE]
    return some or list(asked)


# ---- for one λ ----


def minimise(model: Model, task: Task, lam: float, loops: Loops) -> Asking:
    """The least E for one λ."""
    work, last, sigma = Work(model, task, single=loops.single), Last(), 0.0
    tol, n_iter, slow, in_full = 0.5 * (task.tol or 0.0), 0, 0, False
    here = best = yield from work.state(task.first, lam, math.inf, share=FIRST_SHARE)
    for n_round in range(MAX_ROUNDS):
        floor = work.noise(here, lam)
        if here.settled(max(floor, tol)):
            break
        # 1. The step, from the problem with few rivals or in D dimensions, and the points to try: E must fall.
        if in_full and here.seen.covariance is None:
            here = yield from work.state(here.x, lam, covariance=True)
        step, trials, inner = _trials(work, last, here, lam, sigma, loops, in_full=in_full, first=n_round == 0)
        n_iter += inner
        # 2. All rivals there.
        slack = 64 * EPS * (abs(here.objective) + here.mass * (1 + abs(here.seen.level)))
        there, fell = here, False
        for trial in trials:
            there = yield from work.state(trial, lam, here.bearable(tol), wide=slow > 0, covariance=in_full)
            unsure = 2 * (here.mass * here.seen.error + there.mass * there.seen.error)
            fell = there.objective <= here.objective + slack + unsure
            if fell:
                break
            last.clear()
        # 3. Go there, or hold back by as much curvature as was met and neglected.
        if fell:
            slow = slow + 1 if there.grad_norm > SLOW * here.grad_norm else 0
            falling = there.grad_norm < 0.5 * best.grad_norm
            here, best, sigma = there, there.or_better(best), 0.25 * sigma
            if not falling and best.settled(8 * floor):
                break
        elif in_full:
            break
        else:
            rise = there.objective - here.objective - float(here.gradient @ (there.x - here.x))
            sigma, slow = max(4 * sigma, 2 * rise / max(float(step @ step), 1e-300)), slow + 1
        if not in_full and _in_full(model, slow):
            in_full, slow = True, 0
    best = yield from work.sure(best, lam)
    return work.finished(best, lam, n_iter)


def _trials(
    work: Work, last: Last, here: State, lam: float, sigma: float, loops: Loops, *, in_full: bool, first: bool
) -> tuple[Floats, list[Floats], int]:
    """A step, the points to try along it, and Newton's iterations that it took."""
    if in_full:
        step = _newton_step(here, work.task, lam)
        return step, [here.x + scale * step for scale in SHORTER], 0
    work.add(here.seen)
    few, lam = work.at(here.x, here.seen), lam + sigma
    margins = few.margins + (few.gram @ few.p - few.rows @ here.gradient) / lam
    q, inner = loops.solve_few(few.gram, margins, lam, None if first else few.p)
    # In terms of the difference from the point, so that rounding does not add up: at the end both terms vanish.
    step = -(here.gradient + (q - few.p) @ few.rows) / lam
    plain, accelerated = here.x + step, last.next(here.x, step)
    return step, [plain] if np.array_equal(accelerated, plain) else [accelerated, plain], inner


def _in_full(model: Model, slow: int) -> bool:
    """Whether to go on in D dimensions."""
    K, D = model.A.shape
    return D <= SMALL_D or (slow >= SLOW_ROUNDS and K * D**2 <= HESSIAN_WORK)


def _newton_step(here: State, task: Task, lam: float) -> Floats:
    """Newton's step in D dimensions: ∇²E = λI + Q(C + (1 − Q)ddᵀ), C the rivals' covariance and d = ā − a_k."""
    assert here.seen.covariance is not None
    d = here.seen.mean - task.row
    H = here.mass * (here.seen.covariance + (1 - here.mass) * np.outer(d, d))
    H.ravel()[:: len(d) + 1] += lam
    try:
        return -np.asarray(np.linalg.solve(H, here.gradient), dtype=np.float64)
    except np.linalg.LinAlgError:  # λ is lost beside the rest: no step along what no rival sees
        return -np.asarray(np.linalg.lstsq(H, here.gradient)[0], dtype=np.float64)


# ---- for a probability ----


def reach(model: Model, task: Task, loops: Loops) -> Asking:
    """The nearest x at which L is as low as is wanted."""
    assert task.level is not None
    work, x = Work(model, task, single=loops.single), task.source
    top, _ = task.level(0.0)
    seen = yield from work.first(top)
    if seen.level <= top:
        stay, n = State(model, task, x, seen, 0.0), work.n_passes
        return Endpoint(stay.change, math.inf, seen.level, stay.objective, 0.0, 0, n, Status.EXACT, seen.logits)
    last, lam, extra, n_iter = Last(), None, 0.0, 0
    near: list[tuple[State, float]] = []
    least, stalled = math.inf, 0
    for _ in range(MAX_ROUNDS):
        # 1. The problem with few rivals: its λ, and its answer.
        work.add(seen)
        few = work.at(x, seen)
        top, width = task.level(length(x - task.source))
        margins = few.margins - few.rows @ (x - task.source)
        q, lam, inner = _reach_few(few, margins, top - 0.5 * width - extra, lam)
        here = State(model, task, x, seen, lam)
        step = -(here.gradient + (q - few.p) @ few.rows) / lam
        if not np.isfinite(step).all() or inner < 0:  # out of reach even with few rivals: they are a relaxation
            found = yield from minimise(model, replace(task, start=here.x), max(lam, 1e-12), loops)
            if found.level > top:
                out = cancels(few.rows, margins, np.maximum(q, 0.0), top)
                return more(found, Status.UNREACHABLE if out else Status.MAX_ITER, n_iter, work.n_passes)
            x, work.n_passes = task.source + found.change, work.n_passes + found.n_passes
            break
        n_iter += inner
        # 2. All rivals there.
        x = last.next(x, step)
        seen = yield from work.look(x, here.bearable(), wide=stalled > 0)
        there = State(model, task, x, seen, lam)
        top, width = task.level(length(there.change))
        # 3. Done?
        floor = work.noise(there, lam)
        falling = there.grad_norm < 0.5 * least
        least, stalled = min(least, there.grad_norm), 0 if falling else stalled + 1
        if not seen.rough and top - 2 * width <= seen.level - seen.error and seen.level + seen.error <= top:
            near.append((there, lam))  # in its window for certain
        if there.settled(floor if falling else 100 * floor):
            if near:
                return work.finished(*min(near, key=lambda one: one[0].grad_norm), n_iter)
            extra = max(2 * extra, seen.level - top + width)  # there, but for a hair
            last.clear()
        elif stalled >= SLOW_ROUNDS:
            break
    found = yield from _search(model, task, x, lam or 1.0, loops)
    return more(found, found.status, n_iter, work.n_passes)


def _reach_few(few: SmallProblem, margins: Floats, level: float, lam: float | None) -> tuple[Floats, float, int]:
    """The problem with few rivals where its L is ``level``: q, λ, and Newton's iterations (−1: there is no such λ).

    ``margins`` are those at the source.
    """
    if lam is None:
        lam = first_lam(margins, np.sqrt(np.maximum(np.diagonal(few.gram), 0.0)), level)
        if not 0.0 < lam < math.inf:
            return few.p, 1.0, -1
    first, bracket = lam, Bracket(LONGEST_STEP)
    space = Rivals(few.gram, margins, lam)
    at, n_iter = space.start(), 0
    for _ in range(MAX_SEARCH):
        outcome = newton(space, at, close=ROUGH)
        n_iter += outcome.n_iter
        if abs(outcome.point.logit - level) < NEAR and not outcome.precise:
            outcome = newton(space, outcome.point.at)
            n_iter += outcome.n_iter
        point, lam = outcome.point, space.lam
        miss = point.logit - level
        if abs(miss) <= 1e-13 * (1 + abs(level)) or bracket.shut(4 * EPS):
            return point.at, lam, n_iter
        bracket.saw(lam, miss)
        if lam < LEAST_LAM * first:
            return point.at, lam, -1
        tangent, rate = outcome.tangent()
        new = bracket.next(lam, miss, rate)
        if new is None:
            return point.at, lam, n_iter
        space, at = outcome.carried(tangent, new)
    return at, space.lam, n_iter


def _search(model: Model, task: Task, x: Floats, lam: float, loops: Loops) -> Asking:
    """Where the rounds do not settle: λ by bisection and the secant, each solved in full. L rises with λ."""
    assert task.level is not None
    bracket, met, found = Bracket(math.log(STRIDE)), None, None
    first, n_iter, n_passes = lam, 0, 0
    for _ in range(MAX_LAMS):
        found = yield from minimise(model, replace(task, start=x), lam, loops)
        n_iter, n_passes = n_iter + found.n_iter, n_passes + found.n_passes
        x = task.source + found.change
        top, width = task.level(length(found.change))
        bracket.saw(lam, found.level - top)
        if found.level <= top:
            met = found
            if found.level >= top - 2 * width or bracket.shut(4 * EPS):
                break
        elif lam < LEAST_LAM * first:
            break
        new = bracket.next(lam, found.level - top, 0.0)  # of no slope: by long steps, then halves
        if new is None:
            break
        lam = new
    last = found if met is None else met
    assert last is not None
    status = Status.UNREACHABLE if met is None else last.status
    return more(last, status, n_iter - last.n_iter, n_passes - last.n_passes)
