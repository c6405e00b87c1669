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

The algorithm is written for one source, as a generator: it yields points and is sent what a pass says of them. `solve_many`
runs any number of these in step, so that all share the passes, as matrix products.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.class_newton import LEAST_LAM, NEAR, ROUGH
from ifonly.engines.coordinates import Rivals
from ifonly.engines.lam_search import LONGEST_STEP, Bracket
from ifonly.engines.newton import ROUNDINGS, minimise
from ifonly.engines.passes import FEW_POINTS, MOST, SHARE, Known, Look, Seen, SumUp, Task, sum_up, take_a_pass
from ifonly.engines.rounding import Rounding
from ifonly.model import Model
from ifonly.model.numerics import BLOCK_BYTES, EPS, Floats, Indices, softmax, summation_error
from ifonly.problem.goals import needed_logit
from ifonly.problem.results import Result
from ifonly.problem.status import Status
from ifonly.rows.sources import Sizes

__all__ = ["Endpoint", "VastProblem", "solve_many"]


SINGLE = float(np.finfo(np.float32).eps)
FIRST_SHARE = 1e-5  # of the rivals taken one by one at first: about all that there is room for
DEPTH = 5  # steps that Anderson's acceleration combines; 8 saves nothing
NEARLY = 1e-12  # … and what keeps nearly parallel ones apart
SMALL_D = 64  # up to here the Hessian in D dimensions costs less than a round
# A round that leaves more than this share of ‖∇E‖ is slow: the next takes more rivals one by one. After so many slow ones in a
# row on to D dimensions, unless the Hessian takes more multiplications than this (some ten seconds).
SLOW, SLOW_ROUNDS, HESSIAN_WORK = 0.3, 8, 4e11
SHORTER = 0.3 ** np.arange(25)  # steps tried in D dimensions
# Passes of many points are in single precision until ‖∇E‖ is less than so many times what that may be off, as a step from there
# would be lost in it. Changes from a known point are summed where a margin moves by no more than this.
CLEAR, SMALL_CHANGE = 300.0, 0.1
LARGE = 1e30  # … and numbers up to this can be
MAX_ROUNDS = 60  # eight or nine are usual
MAX_SEARCH = 100  # steps of the search for λ in the problem with few rivals; five are usual
MAX_LAMS, STRIDE = 100, 30.0  # … in the full one, where its rounds do not settle, and how far apart until one is on either side


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the rounds for one source ended: the change of x, in the classifier's space, and what the passes said of it."""

    change: Floats
    lam: float
    level: float
    mass: float  # 1 − p_k
    objective: float
    grad_norm: float
    n_iter: int
    n_passes: int
    status: Status
    logits: Floats | None

    def result(self, k: int, x: Floats, *, proba: bool = True) -> Result:
        """As a row of results, with x in the user's units; if need be without the K probabilities."""
        numbers = self.lam, float(np.linalg.norm(self.change)), self.objective, self.grad_norm
        p = softmax(self.logits) if proba and self.logits is not None else np.zeros(0)
        return Result(k, self.status, *numbers, p, x=x, n_iter=self.n_iter, n_passes=self.n_passes)


Asking = Generator[Look, Seen, Endpoint]
Looking = Generator[Look, Seen, Seen]


class VastProblem:
    """One source, in the classifier's space, and one class of a model with very many: the tasks that engines are given."""

    def __init__(self, model: Model, source: Floats, k: int, *, tol: float | None = None) -> None:
        self.model, self.source, self.k, self.tol = model, source, k, tol
        norm = float(np.linalg.norm(source))
        terms = min(model.row_norm * norm, float(np.abs(source) @ model.column_sizes))
        sizes = Sizes(norm + 2 * model.offset_norm, terms + 2 * model.offset_size)
        # x is no sum over the classes here, so that their number does not matter to how it rounds.
        self.rounding = Rounding(summation_error(model.n_features + MOST), model.row_norm, MOST, sizes, model.coarse)
        self.size = sizes.terms + float(np.abs(model.b).max())

    def task(self, lam: float | None, prob: float | None, start: Floats | None = None) -> Task:
        """What is wanted: the least E for λ, or the nearest x with this probability."""

        def level(distance: float) -> tuple[float, float]:
            rounding = self.rounding.of_estimator(self.size, self.rounding.at(distance))
            return logit - rounding, rounding + 8 * EPS * (abs(logit) + 1)

        logit = 0.0 if prob is None else float(needed_logit(prob, self.model))
        row, bias, outside = self.model.weights(self.k), float(self.model.b[self.k]), np.array([self.k])
        return Task(self.source, row, bias, outside, lam, None if prob is None else level, self.tol, start)


def solve_many(
    model: Model,
    tasks: Sequence[Task],
    first: dict[int, Seen] | None = None,
    threads: int = 1,
    sum_up: SumUp = sum_up,
    at_once: int = 256,
) -> list[Endpoint]:
    """The answers for several sources and targets, a pass over A at a time; ``first`` is what is known of sources already.

    So many run ``at_once``: one that is done makes room for the next.
    """
    single = min(len(tasks), at_once) > FEW_POINTS
    running: dict[int, Asking] = {}
    asked: dict[int, Look] = {}
    found: dict[int, Endpoint] = {}
    known = dict(first or {})
    waiting = list(range(len(tasks)))[::-1]
    while asked or waiting:
        while waiting and len(asked) < at_once:
            i = waiting.pop()
            lam = tasks[i].lam
            running[i] = _reach(model, tasks[i], single) if lam is None else _minimise(model, tasks[i], lam, single)
            asked[i] = next(running[i])
        new = [i for i in asked if i not in known]
        known |= dict(zip(new, take_a_pass(model, [asked[i] for i in new], threads, sum_up), strict=True))
        for i in list(asked):
            try:
                asked[i] = running[i].send(known.pop(i))
            except StopIteration as end:
                found[i] = end.value
                del asked[i], running[i]
    return [found[i] for i in range(len(tasks))]


# ---- one source ----


class _Few(NamedTuple):
    """The problem with few rivals at a point: those in W, one by one, and one for all the others."""

    rows: Floats  # of the rivals less the target's
    gram: Floats
    margins: Floats  # at the point
    p: Floats  # at the point


class _Work:
    """The strongest rivals so far, W: their rows less the target's and the Gram matrix of these, which only grow."""

    known: Known | None = None  # the last point that was seen in double precision, where others are not
    rest: float = 1.0  # the share of the rivals that the last pass summed up

    def __init__(self, model: Model, task: Task, *, single: bool) -> None:
        largest = max(model.row_norm, float(np.abs(model.b).max())) if single else math.inf
        self.model, self.task, self.single, self.n_passes = model, task, largest < LARGE, 0
        self.which: Indices = np.zeros(0, dtype=np.intp)
        self.rows, self.gram = np.empty((MOST + 1, model.n_features)), np.empty((MOST + 1, MOST + 1))  # one for all the others

    def state(self, x: Floats, lam: float, bearable: float = 0.0, **how: Any) -> "Generator[Look, Seen, _State]":
        """A point with E and ∇E."""
        return _State.of(self.model, self.task, x, (yield from self.look(x, bearable, **how)), lam)

    def sure(self, state: "_State", lam: float) -> "Generator[Look, Seen, _State]":
        """The same point, seen in double precision if it was not."""
        return (yield from self.state(state.x, lam)) if state.seen.rough else state

    def first(self, top: float) -> Looking:
        """All rivals at the source, in double precision where it may be there already: L at most ``top``."""
        x = self.task.source
        seen = yield from self.look(x, math.inf, share=FIRST_SHARE)
        return (yield from self.look(x, share=FIRST_SHARE)) if seen.rough and seen.level - seen.error <= top else seen

    def look(
        self, x: Floats, bearable: float = 0.0, *, share: float = SHARE, wide: bool = False, covariance: bool = False
    ) -> Looking:
        """All rivals at a point: in single precision where L is about as exact as is ``bearable``, or as with double."""
        self.n_passes += 1
        if covariance:
            return (yield Look(x, self.task, share, wide, covariance))
        model, n, norm = self.model, self.model.n_features, float(np.linalg.norm(x))
        length = model.row_norm * norm
        ask = Look(x, self.task, share, wide, apart=self.which)
        if not self.single or max(norm, length) > LARGE:
            return self._whole(x, ask, (yield ask), 0.0, final=True)
        rough = ROUNDINGS * SINGLE * (1 + length / math.sqrt(n))
        if self.rest * rough <= bearable:
            return self._whole(x, ask, (yield replace(ask, single=True)), rough)
        if self.known is not None:
            moved = model.row_norm * float(np.linalg.norm(x - self.known.x))
            most = 4 * (SINGLE / EPS) * summation_error(n + BLOCK_BYTES // (4 * n)) * moved
            final = self.rest * most <= summation_error(n) * length
            if moved <= SMALL_CHANGE and (final or self.rest * ROUNDINGS * SINGLE * moved <= bearable):
                ask = replace(ask, apart=self.known.apart, single=True, since=self.known)
                return self._whole(x, ask, (yield ask), most if final else ROUNDINGS * SINGLE * moved, final=final)
        seen = yield replace(ask, keep=True)
        self.known = seen.known
        return self._whole(x, ask, seen, 0.0, final=True)

    def _whole(self, x: Floats, ask: Look, seen: Seen, error: float, *, final: bool = False) -> Seen:
        """What a pass says of the others, off by ``error``, and those in W that were apart from it."""
        n = len(ask.apart)
        if not n:
            return replace(seen, error=error, rough=not final)
        margins = self._margins(x, n)
        top = max(float(margins.max()), seen.level)
        w, rest = np.exp(margins - top), math.exp(seen.level - top)
        mass = float(w.sum()) + rest
        w, self.rest, level = w / mass, rest / mass, top + math.log(mass)
        mean = self.rest * seen.mean + w @ self.rows[:n] + (1 - self.rest) * self.task.row
        strong = seen.strong if ask.wide else seen.strong[seen.margins >= level + math.log(ask.share)]
        return replace(seen, level=level, mean=mean, strong=strong, error=self.rest * error, rough=not final, known=None)

    def _margins(self, x: Floats, n: int) -> Floats:
        return self.rows[:n] @ x + (self.model.b[self.which[:n]] - self.task.bias)

    def add(self, seen: Seen) -> None:
        """Take in the rivals that have become strong."""
        new = np.setdiff1d(seen.strong, self.which, assume_unique=True)
        if not len(new):
            return
        n, m = len(self.which), len(self.which) + len(new)
        if m >= len(self.rows):
            rows, gram = self.rows, self.gram
            self.rows, self.gram = np.empty((m + MOST, rows.shape[1])), np.empty((m + MOST, m + MOST))
            self.rows[:n], self.gram[:n, :n] = rows[:n], gram[:n, :n]
        self.rows[n:m] = self.model.weights(new)
        self.rows[n:m] -= self.task.row
        self.gram[n:m, :m] = self.rows[n:m] @ self.rows[:m].T
        self.gram[:n, n:m] = self.gram[n:m, :n].T
        self.which = np.concatenate([self.which, new])

    def at(self, x: Floats, seen: Seen) -> _Few:
        """The problem with few rivals, of first order at x; it is overwritten by the next."""
        task, n = self.task, len(self.which)
        rows = self.rows[:n]
        margins = self._margins(x, n)
        w = np.exp(np.minimum(margins - seen.level, 0.0))
        rest = max(1.0 - float(w.sum()), 0.0)
        if rest > n * EPS:
            other = (seen.mean - task.row - w @ rows) / rest
            self.rows[n] = other
            rows = self.rows[: n + 1]
            self.gram[n, : n + 1] = self.gram[: n + 1, n] = rows @ other
            margins, w = np.append(margins, math.log(rest) + seen.level), np.append(w, rest)
        return _Few(rows, self.gram[: len(w), : len(w)], margins, _logistic(seen.level) * w)


@dataclass(slots=True)
class _Last:
    """The last points and the steps from them, for Anderson's acceleration."""

    points: list[Floats] = field(default_factory=list)
    steps: list[Floats] = field(default_factory=list)

    def next(self, x: Floats, step: Floats) -> Floats:
        """The next point: of all combinations of the last, the one whose own step would be least, and that step."""
        self.points, self.steps = [*self.points[-DEPTH:], x], [*self.steps[-DEPTH:], step]
        if len(self.points) < 3:  # the first step is none of the tail
            return x + step
        moved, changed = np.diff(self.points, axis=0), np.diff(self.steps, axis=0)
        lengths = np.linalg.norm(changed, axis=1)
        if not lengths.all():
            return x + step
        unit = changed / lengths[:, None]
        weights = np.linalg.solve(unit @ unit.T + NEARLY * np.eye(len(unit)), unit @ step) / lengths
        return x + step - weights @ (moved + changed)

    def forget(self) -> None:
        """Start again."""
        self.points, self.steps = [], []

    def keep_if(self, fell: bool) -> None:
        """Start again where the point that they led to was no better."""
        if not fell:
            self.forget()


@dataclass(slots=True)
class _State:
    """A point with E and ∇E."""

    x: Floats
    change: Floats
    seen: Seen
    mass: float
    objective: float
    gradient: Floats
    grad_norm: float
    slope: float  # how far ‖∇E‖ is off where L is off by one

    def settled(self, bound: float) -> bool:
        """Whether ‖∇E‖ is so small for certain."""
        return not self.seen.rough and self.grad_norm <= bound

    def or_better(self, other: "_State") -> "_State":
        """The one with the smaller ‖∇E‖, as far as both are certain."""
        return self if other.seen.rough or self.grad_norm < other.grad_norm else other

    def bearable(self, tol: float = 0.0) -> float:
        """How far L can be off at the next point; not at all where ‖∇E‖ is as small as is wanted, so that this can be said."""
        return self.grad_norm / max(CLEAR * self.slope, 1e-300) if self.grad_norm > tol else 0.0

    @classmethod
    def of(cls, model: Model, task: Task, x: Floats, seen: Seen, lam: float) -> "_State":
        change, mass = x - task.source, _logistic(seen.level)
        gradient = lam * change + mass * (seen.mean - task.row)
        objective = 0.5 * lam * float(change @ change) + _softplus(seen.level)
        slope = 2 * mass * model.row_norm
        return cls(x, change, seen, mass, objective, gradient, float(np.linalg.norm(gradient)), slope)


def _minimise(model: Model, task: Task, lam: float, single: bool = False) -> Asking:
    """The least E for one λ."""
    work, last, sigma = _Work(model, task, single=single), _Last(), 0.0
    tol, n_iter, slow, in_full = 0.5 * (task.tol or 0.0), 0, 0, False
    here = best = yield from work.state(task.first, lam, math.inf, share=FIRST_SHARE)
    for n_round in range(MAX_ROUNDS):
        floor = _noise(model, task, here, lam)
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
    return _finished(model, task, best, lam, n_iter, work.n_passes)


def _trials(
    work: "_Work", last: "_Last", here: "_State", lam: float, sigma: float, *, in_full: bool, first: bool
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


def _few_step(few: _Few, here: _State, lam: float, sigma: float, *, first: bool) -> tuple[Floats, int]:
    """The step to the optimum of the problem with few rivals (plus σ/2 times its square), and Newton's iterations."""
    lam = lam + sigma
    space = Rivals(few.gram, few.margins + (few.gram @ few.p - few.rows @ here.gradient) / lam, lam)
    outcome = minimise(space, space.start() if first else few.p, close=ROUGH)
    # In terms of the difference from the point, so that rounding does not add up: at the end both terms vanish.
    return -(here.gradient + (outcome.point.at - few.p) @ few.rows) / lam, len(outcome.history)


def _newton_step(here: _State, task: Task, lam: float) -> Floats:
    """Newton's step in D dimensions: ∇²E = λI + Q(C + (1 − Q)ddᵀ), C the rivals' covariance and d = ā − a_k."""
    assert here.seen.covariance is not None
    d = here.seen.mean - task.row
    H = here.mass * (here.seen.covariance + (1 - here.mass) * np.outer(d, d))
    H.ravel()[:: len(d) + 1] += lam
    try:
        return -np.asarray(np.linalg.solve(H, here.gradient), dtype=np.float64)
    except np.linalg.LinAlgError:  # λ is lost beside the rest: no step along what no rival sees
        return -np.asarray(np.linalg.lstsq(H, here.gradient)[0], dtype=np.float64)


# ---- the probability form ----


def _reach(model: Model, task: Task, single: bool = False) -> Asking:
    """The nearest x at which L is as low as is wanted."""
    assert task.level is not None
    work, x = _Work(model, task, single=single), task.source
    top, _ = task.level(0.0)
    seen = yield from work.first(top)
    if seen.level <= top:
        stay, n = _State.of(model, task, x, seen, 0.0), work.n_passes
        return Endpoint(stay.change, math.inf, seen.level, stay.mass, stay.objective, 0.0, 0, n, Status.EXACT, seen.logits)
    last, lam, extra, n_iter = _Last(), None, 0.0, 0
    near: list[tuple[_State, float]] = []
    least, stalled = math.inf, 0
    for _ in range(MAX_ROUNDS):
        # 1. The problem with few rivals: its λ, and its answer.
        work.add(seen)
        few = work.at(x, seen)
        top, width = task.level(float(np.linalg.norm(x - task.source)))
        q, lam, inner = _reach_few(few, few.margins - few.rows @ (x - task.source), top - 0.5 * width - extra, lam)
        here = _State.of(model, task, x, seen, lam)
        step = -(here.gradient + (q - few.p) @ few.rows) / lam
        if not np.isfinite(step).all() or inner < 0:  # out of reach even with few rivals: they are a relaxation
            found = yield from _minimise(model, replace(task, start=here.x), max(lam, 1e-12), single)
            if found.level > top:
                return _more(found, Status.UNREACHABLE, n_iter, work.n_passes)
            x, work.n_passes = task.source + found.change, work.n_passes + found.n_passes
            break
        n_iter += inner
        # 2. All rivals there.
        x = last.next(x, step)
        seen = yield from work.look(x, here.bearable(), wide=stalled > 0)
        there = _State.of(model, task, x, seen, lam)
        top, width = task.level(float(np.linalg.norm(there.change)))
        # 3. Done?
        floor = _noise(model, task, there, lam)
        falling = there.grad_norm < 0.5 * least
        least, stalled = min(least, there.grad_norm), 0 if falling else stalled + 1
        if seen.within(top - 2 * width, top):
            near.append((there, lam))
        if there.settled(floor if falling else 100 * floor):
            if near:
                return _finished(model, task, *min(near, key=lambda one: one[0].grad_norm), n_iter, work.n_passes)
            extra = max(2 * extra, seen.level - top + width)  # there, but for a hair
            last.forget()
        elif stalled >= SLOW_ROUNDS:
            break
    found = yield from _search(model, task, x, lam or 1.0, single)
    return _more(found, found.status, n_iter, work.n_passes)


def _reach_few(few: _Few, margins: Floats, level: float, lam: float | None) -> tuple[Floats, float, int]:
    """The problem with few rivals where its L is ``level``: q, λ, and Newton's iterations (−1: there is no such λ).

    ``margins`` are those at the source.
    """
    if lam is None:  # the two-class problem with the rival that is hardest to beat
        lengths = np.sqrt(np.maximum(np.diagonal(few.gram), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(lengths > 0, np.maximum(margins - level, 0.0) / lengths, 0.0)
        j = int(far.argmax())
        lam = _logistic(level) * float(lengths[j]) ** 2 / max(float(margins[j]) - level, 0.1)
        if not 0.0 < lam < math.inf:
            return few.p, 1.0, -1
    first, bracket = lam, Bracket(LONGEST_STEP)
    space = Rivals(few.gram, margins, lam)
    at, n_iter = space.start(), 0
    for _ in range(MAX_SEARCH):
        outcome = minimise(space, at, close=ROUGH)
        n_iter += len(outcome.history)
        point = outcome.point
        mass = float(point.p.sum())
        miss = math.log(mass) - math.log(point.p_target) - level if mass > 0.0 and point.p_target > 0.0 else -math.inf
        if abs(miss) < NEAR and not outcome.precise:
            outcome = minimise(space, point.at)
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
        found = yield from _minimise(model, replace(task, start=x), lam, single)
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
    return _more(last, status, n_iter - last.n_iter, n_passes - last.n_passes)


# ---- what an answer is worth ----


def _noise(model: Model, task: Task, here: _State, lam: float) -> float:
    """About how small ‖∇E‖ can be made: what rounding x and the logits leaves of it, less than what `_finished` allows for."""
    norm = float(np.linalg.norm(here.x))
    terms = model.row_norm * (norm + float(np.linalg.norm(task.source))) / math.sqrt(model.n_features)
    neglected = 0.0 if here.seen.rough else here.slope * here.seen.error
    return max(ROUNDINGS * EPS * here.mass * model.row_norm * (1 + terms) + 2 * EPS * lam * norm, neglected)


def _finished(model: Model, task: Task, here: _State, lam: float, n_iter: int, n_passes: int) -> Endpoint:
    """The answer with its certificate: ‖∇E‖ at the rounded x, with all that rounding can have added or taken away."""
    K, D = model.A.shape
    norm = float(np.linalg.norm(here.x)) + float(np.linalg.norm(here.change)) + 2 * model.offset_norm
    terms = model.row_norm * norm + 2 * model.offset_size
    margins = 4 * summation_error(D + 64) * terms + 8 * EPS * (abs(here.seen.level) + 1)
    rounding = (
        2 * model.row_norm * here.mass * (2 * margins + summation_error(K))
        + 4 * EPS * lam * norm
        + here.slope * here.seen.error
    )
    grad_norm = here.grad_norm + rounding
    if task.tol is not None and grad_norm <= task.tol:
        status = Status.CONVERGED
    else:
        status = Status.EXACT if here.grad_norm <= rounding else Status.MAX_ITER
    numbers = here.seen.level, here.mass, here.objective, grad_norm
    return Endpoint(here.change, lam, *numbers, n_iter, n_passes, status, here.seen.logits)


def _more(found: Endpoint, status: Status, n_iter: int, n_passes: int) -> Endpoint:
    """An answer with the iterations and passes that went before it."""
    return replace(found, status=status, n_iter=found.n_iter + n_iter, n_passes=found.n_passes + n_passes)


def _logistic(level: float) -> float:
    return 1 / (1 + math.exp(-level)) if level > -700 else math.exp(level)


def _softplus(level: float) -> float:
    return level + math.log1p(math.exp(-level)) if level > 0 else math.log1p(math.exp(level))
