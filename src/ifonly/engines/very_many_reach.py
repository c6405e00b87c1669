"""Very many classes, the nearest x with a probability: rounds in which the problem with few rivals finds λ (`very_many`)."""

import math
from dataclasses import replace

import numpy as np

from ifonly.engines.class_newton import LEAST_LAM, NEAR, ROUGH
from ifonly.engines.class_space import cancels
from ifonly.engines.coordinates import Rivals
from ifonly.engines.lam_search import LONGEST_STEP, Bracket
from ifonly.engines.newton import minimise as newton
from ifonly.engines.passes import Task
from ifonly.engines.strong_rivals import Asking, Endpoint, Few, Last, State, Work, finished, logistic, more, noise
from ifonly.engines.very_many_rounds import MAX_ROUNDS, SLOW_ROUNDS, minimise
from ifonly.model import Model
from ifonly.model.numerics import EPS, Floats
from ifonly.problem.status import Status

__all__ = ["reach"]


MAX_SEARCH = 100  # steps of the search for λ in the problem with few rivals; five are usual
MAX_LAMS, STRIDE = 100, 30.0  # … in the full one, where its rounds do not settle, and how far apart until one is on either side


def reach(model: Model, task: Task, single: bool = False) -> Asking:
    """The nearest x at which L is as low as is wanted."""
    assert task.level is not None
    work, x = Work(model, task, single=single), task.source
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
        top, width = task.level(float(np.linalg.norm(x - task.source)))
        margins = few.margins - few.rows @ (x - task.source)
        q, lam, inner = _reach_few(few, margins, top - 0.5 * width - extra, lam)
        here = State(model, task, x, seen, lam)
        step = -(here.gradient + (q - few.p) @ few.rows) / lam
        if not np.isfinite(step).all() or inner < 0:  # out of reach even with few rivals: they are a relaxation
            found = yield from minimise(model, replace(task, start=here.x), max(lam, 1e-12), single)
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
        top, width = task.level(float(np.linalg.norm(there.change)))
        # 3. Done?
        floor = noise(model, task, there, lam)
        falling = there.grad_norm < 0.5 * least
        least, stalled = min(least, there.grad_norm), 0 if falling else stalled + 1
        if seen.within(top - 2 * width, top):
            near.append((there, lam))
        if there.settled(floor if falling else 100 * floor):
            if near:
                return finished(model, task, *min(near, key=lambda one: one[0].grad_norm), n_iter, work.n_passes)
            extra = max(2 * extra, seen.level - top + width)  # there, but for a hair
            last.forget()
        elif stalled >= SLOW_ROUNDS:
            break
    found = yield from _search(model, task, x, lam or 1.0, single)
    return more(found, found.status, n_iter, work.n_passes)


def _reach_few(few: Few, margins: Floats, level: float, lam: float | None) -> tuple[Floats, float, int]:
    """The problem with few rivals where its L is ``level``: q, λ, and Newton's iterations (−1: there is no such λ).

    ``margins`` are those at the source.
    """
    if lam is None:  # the two-class problem with the rival that is hardest to beat
        lengths = np.sqrt(np.maximum(np.diagonal(few.gram), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(lengths > 0, np.maximum(margins - level, 0.0) / lengths, 0.0)
        j = int(far.argmax())
        lam = logistic(level) * float(lengths[j]) ** 2 / max(float(margins[j]) - level, 0.1)
        if not 0.0 < lam < math.inf:
            return few.p, 1.0, -1
    first, bracket = lam, Bracket(LONGEST_STEP)
    space = Rivals(few.gram, margins, lam)
    at, n_iter = space.start(), 0
    for _ in range(MAX_SEARCH):
        outcome = newton(space, at, close=ROUGH)
        n_iter += len(outcome.history)
        point = outcome.point
        mass = float(point.p.sum())
        miss = math.log(mass) - math.log(point.p_target) - level if mass > 0.0 and point.p_target > 0.0 else -math.inf
        if abs(miss) < NEAR and not outcome.precise:
            outcome = newton(space, point.at)
            n_iter += len(outcome.history)
            point = outcome.point
            mass = float(point.p.sum())
            miss = math.log(mass) - math.log(point.p_target) - level
        if abs(miss) <= 1e-13 * (1 + abs(level)) or bracket.shut(4 * EPS):
            return point.at, lam, n_iter
        bracket.saw(lam, miss)
        if lam < LEAST_LAM * first:
            return point.at, lam, -1
        factor = outcome.factor or space.factor(point)
        tangent, ds = factor.tangent()
        rate = float(point.p @ ds) / mass if mass > 0.0 else 0.0
        new = bracket.next(lam, miss, rate)
        if new is None:
            return point.at, lam, n_iter
        change, slope = space.knot(point, tangent)
        log_step = math.log(new / lam)
        lam, space = new, space.at(new)
        at = space.from_knot(change + log_step * slope)
    return at, lam, n_iter


def _search(model: Model, task: Task, x: Floats, lam: float, single: bool = False) -> Asking:
    """Where the rounds do not settle: λ by bisection and the secant, each solved in full. L rises with λ."""
    assert task.level is not None
    bracket, met, found = Bracket(math.log(STRIDE)), None, None
    first, n_iter, n_passes = lam, 0, 0
    for _ in range(MAX_LAMS):
        found = yield from minimise(model, replace(task, start=x), lam, single)
        n_iter, n_passes = n_iter + found.n_iter, n_passes + found.n_passes
        x = task.source + found.change
        top, width = task.level(float(np.linalg.norm(found.change)))
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
