"""Very many classes, the least E for one λ: rounds of a step and a pass (`very_many`)."""

import math

import numpy as np

from ifonly.engines.class_newton import ROUGH
from ifonly.engines.coordinates import Rivals
from ifonly.engines.newton import minimise as newton
from ifonly.engines.passes import Task
from ifonly.engines.strong_rivals import FIRST_SHARE, Asking, Few, Last, State, Work, finished, noise
from ifonly.model import Model
from ifonly.model.numerics import EPS, Floats

__all__ = ["MAX_ROUNDS", "SLOW_ROUNDS", "minimise"]


SMALL_D = 64  # up to here the Hessian in D dimensions costs less than a round
# A round that leaves more than this share of ‖∇E‖ is slow: the next takes more rivals one by one. After so many slow ones in a
# row on to D dimensions, unless the Hessian takes more multiplications than this (some ten seconds).
SLOW, SLOW_ROUNDS, HESSIAN_WORK = 0.3, 8, 4e11
SHORTER = 0.3 ** np.arange(25)  # steps tried in D dimensions
MAX_ROUNDS = 60  # eight or nine are usual


def minimise(model: Model, task: Task, lam: float, single: bool = False) -> Asking:
    """The least E for one λ."""
    work, last, sigma = Work(model, task, single=single), Last(), 0.0
    tol, n_iter, slow, in_full = 0.5 * (task.tol or 0.0), 0, 0, False
    here = best = yield from work.state(task.first, lam, math.inf, share=FIRST_SHARE)
    for n_round in range(MAX_ROUNDS):
        floor = noise(model, task, here, lam)
        if here.settled(max(floor, tol)):
            break
        # 1. The step, from the problem with few rivals or in D dimensions, and the points to try: E must fall.
        if in_full and here.seen.covariance is None:
            here = yield from work.state(here.x, lam, covariance=True)
        step, trials, inner = _trials(work, last, here, lam, sigma, in_full=in_full, first=n_round == 0)
        n_iter += inner
        # 2. All rivals there.
        slack = 64 * EPS * (abs(here.objective) + here.mass * (1 + abs(here.seen.level)))
        there, fell = here, False
        while trials and not fell:
            there = yield from work.state(trials.pop(0), lam, here.bearable(tol), wide=slow > 0, covariance=in_full)
            unsure = 2 * (here.mass * here.seen.error + there.mass * there.seen.error)
            fell = there.objective <= here.objective + slack + unsure
            last.keep_if(fell)
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
            last.forget()
            rise = there.objective - here.objective - float(here.gradient @ (there.x - here.x))
            sigma, slow = max(4 * sigma, 2 * rise / max(float(step @ step), 1e-300)), slow + 1
        if not in_full and _in_full(model, slow):
            in_full, slow = True, 0
    best = yield from work.sure(best, lam)
    return finished(model, task, best, lam, n_iter, work.n_passes)


def _trials(
    work: "Work", last: "Last", here: "State", lam: float, sigma: float, *, in_full: bool, first: bool
) -> tuple[Floats, list[Floats], int]:
    """A step, the points to try along it, and Newton's iterations that it took."""
    if in_full:
        step = _newton_step(here, work.task, lam)
        return step, [here.x + scale * step for scale in SHORTER], 0
    work.add(here.seen)
    step, inner = _few_step(work.at(here.x, here.seen), here, lam, sigma, first=first)
    plain, accelerated = here.x + step, last.next(here.x, step)
    return step, [plain] if np.array_equal(accelerated, plain) else [accelerated, plain], inner


def _in_full(model: Model, slow: int) -> bool:
    """Whether to go on in D dimensions."""
    K, D = model.A.shape
    return D <= SMALL_D or (slow >= SLOW_ROUNDS and K * D**2 <= HESSIAN_WORK)


def _few_step(few: Few, here: State, lam: float, sigma: float, *, first: bool) -> tuple[Floats, int]:
    """The step to the optimum of the problem with few rivals (plus σ/2 times its square), and Newton's iterations."""
    lam = lam + sigma
    space = Rivals(few.gram, few.margins + (few.gram @ few.p - few.rows @ here.gradient) / lam, lam)
    outcome = newton(space, space.start() if first else few.p, close=ROUGH)
    # In terms of the difference from the point, so that rounding does not add up: at the end both terms vanish.
    return -(here.gradient + (outcome.point.at - few.p) @ few.rows) / lam, len(outcome.history)


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
