"""What passes say of a point, and the problem with few rivals there (`very_many`): the strongest, and one for the others."""

import math
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ifonly.engines.coordinates import logistic
from ifonly.engines.newton import ROUNDINGS
from ifonly.engines.passes import LONG, MOST, SHARE, TALL, Known, Look, Seen, Task
from ifonly.model import Model
from ifonly.model.numerics import EPS, FLOAT32, Floats, Indices, length, softmax, summation_error
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["FIRST_SHARE", "Asking", "Endpoint", "Last", "SmallProblem", "State", "Work", "more"]

FIRST_SHARE = 1e-5  # of the rivals taken one by one at first: about all that there is room for
DEPTH = 5  # steps that Anderson's acceleration combines; 8 saves nothing
NEARLY = 1e-12  # … and what keeps nearly parallel ones apart
# Passes of many points are in single precision until ‖∇E‖ is less than so many times what that may be off, as a step from there
# would be lost in it. Changes from a known point are summed where a margin moves by no more than this.
CLEAR, SMALL_CHANGE = 300.0, 0.1
LARGE = 1e30  # … and numbers up to this can be


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the rounds for one source ended: the change of x, in the classifier's space, and what the passes said of it."""

    change: Floats
    lam: float
    level: float
    objective: float
    grad_norm: float
    n_iter: int
    n_passes: int
    status: Status
    logits: Floats | None

    def result(self, k: int, x: Floats, *, proba: bool = True) -> Result:
        """As a row of results, with x in the user's units; if need be without the K probabilities."""
        numbers = self.lam, length(self.change), self.objective, self.grad_norm
        p = softmax(self.logits) if proba and self.logits is not None else np.zeros(0)
        return Result(k, self.status, *numbers, p, x=x, n_iter=self.n_iter, n_passes=self.n_passes)


Asking = Generator[Look, Seen, Endpoint]
Looking = Generator[Look, Seen, Seen]


class SmallProblem(NamedTuple):
    """The problem with few rivals at a point: those in W, one by one, and one for all the others."""

    rows: Floats  # of the rivals less the target's
    gram: Floats
    margins: Floats  # at the point
    p: Floats  # at the point


class Work:
    """The strongest rivals so far, W: their rows less the target's and the Gram matrix of these, which only grow."""

    known: Known | None = None  # the last point that was seen in double precision, where others are not
    rest: float = 1.0  # the share of the rivals that the last pass summed up

    def __init__(self, model: Model, task: Task, *, single: bool) -> None:
        largest = max(model.row_norm, float(np.abs(model.b).max())) if single else math.inf
        self.model, self.task, self.single, self.n_passes = model, task, largest < LARGE, 0
        self.which: Indices = np.zeros(0, dtype=np.intp)
        self.rows, self.gram = np.empty((MOST + 1, model.n_features)), np.empty((MOST + 1, MOST + 1))  # one for all the others

    def state(self, x: Floats, lam: float, bearable: float = 0.0, **how: Any) -> "Generator[Look, Seen, State]":
        """A point with E and ∇E."""
        return State(self.model, self.task, x, (yield from self.look(x, bearable, **how)), lam)

    def sure(self, state: "State", lam: float) -> "Generator[Look, Seen, State]":
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
        model, n, norm = self.model, self.model.n_features, length(x)
        size = model.row_norm * norm
        ask = Look(x, self.task, share, wide, apart=self.which)
        if not self.single or max(norm, size) > LARGE:
            return self._whole(x, ask, (yield ask), 0.0, final=True)
        rough = ROUNDINGS * FLOAT32 * (1 + size / math.sqrt(n))
        if self.rest * rough <= bearable:
            return self._whole(x, ask, (yield replace(ask, single=True)), rough)
        if self.known is not None:
            moved = model.row_norm * length(x - self.known.x)
            most = 4 * (FLOAT32 / EPS) * summation_error(min(n, LONG) + n // LONG + TALL) * moved
            final = self.rest * most <= summation_error(n) * size
            if moved <= SMALL_CHANGE and (final or self.rest * ROUNDINGS * FLOAT32 * moved <= bearable):
                ask = replace(ask, apart=self.known.apart, single=True, since=self.known)
                return self._whole(x, ask, (yield ask), most if final else ROUNDINGS * FLOAT32 * moved, final=final)
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
        new = np.setdiff1d(seen.strong, self.which, assume_unique=True) if len(seen.strong) else seen.strong
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

    def at(self, x: Floats, seen: Seen) -> SmallProblem:
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
        return SmallProblem(rows, self.gram[: len(w), : len(w)], margins, logistic(seen.level) * w)

    def noise(self, here: "State", lam: float) -> float:
        """About how small ‖∇E‖ can be made: what rounding x and the logits leaves of it, less than `finished` allows for."""
        norm, R = length(here.x), self.model.row_norm
        terms = R * (norm + length(self.task.source)) / math.sqrt(self.model.n_features)
        neglected = 0.0 if here.seen.rough else here.slope * here.seen.error
        return max(ROUNDINGS * EPS * here.mass * R * (1 + terms) + 2 * EPS * lam * norm, neglected)

    def finished(self, here: "State", lam: float, n_iter: int) -> Endpoint:
        """The answer with its certificate: ‖∇E‖ at the rounded x, with all that rounding can have added or taken away."""
        model, tol, (K, D) = self.model, self.task.tol, self.model.A.shape
        norm = length(here.x) + length(here.change) + 2 * model.offset_norm
        terms = model.row_norm * norm + 2 * model.offset_size
        margins = 4 * summation_error(D + 64) * terms + 8 * EPS * (abs(here.seen.level) + 1)
        pull = 2 * model.row_norm * here.mass * (2 * margins + summation_error(K))
        rounding = pull + 4 * EPS * lam * norm + here.slope * here.seen.error
        grad_norm = here.grad_norm + rounding
        if tol is not None and grad_norm <= tol:
            status = Status.CONVERGED
        else:
            status = Status.EXACT if here.grad_norm <= rounding else Status.MAX_ITER
        numbers = here.seen.level, here.objective, grad_norm
        return Endpoint(here.change, lam, *numbers, n_iter, self.n_passes, status, here.seen.logits)


class Last(deque[tuple[Floats, Floats]]):
    """The last points and the steps from them, for Anderson's acceleration."""

    def __init__(self) -> None:
        super().__init__(maxlen=DEPTH + 1)

    def next(self, x: Floats, step: Floats) -> Floats:
        """The next point: of all combinations of the last, the one whose own step would be least, and that step."""
        self.append((x, step))
        if len(self) < 3:  # the first step is none of the tail
            return x + step
        points, steps = map(np.array, zip(*self, strict=True))
        moved, changed = points[1:] - points[:-1], steps[1:] - steps[:-1]
        lengths = np.sqrt(np.vecdot(changed, changed))
        if not lengths.all():
            return x + step
        unit = changed / lengths[:, None]
        weights = np.linalg.solve(unit @ unit.T + NEARLY * np.eye(len(unit)), unit @ step) / lengths
        return x + step - weights @ (moved + changed)


class State:
    """A point with E and ∇E, from what a pass says of it."""

    def __init__(self, model: Model, task: Task, x: Floats, seen: Seen, lam: float) -> None:
        self.x, self.seen, self.change = x, seen, x - task.source
        self.mass = logistic(seen.level)  # 1 − p_k
        self.objective = 0.5 * lam * float(self.change @ self.change) + float(np.logaddexp(0.0, seen.level))
        self.gradient = lam * self.change + self.mass * (seen.mean - task.row)
        self.grad_norm = length(self.gradient)
        self.slope = 2 * self.mass * model.row_norm  # how far ‖∇E‖ is off where L is off by one

    def settled(self, bound: float) -> bool:
        """Whether ‖∇E‖ is so small for certain."""
        return not self.seen.rough and self.grad_norm <= bound

    def or_better(self, other: "State") -> "State":
        """The one with the smaller ‖∇E‖, as far as both are certain."""
        return self if other.seen.rough or self.grad_norm < other.grad_norm else other

    def bearable(self, tol: float = 0.0) -> float:
        """How far L can be off at the next point; not at all where ‖∇E‖ is as small as is wanted, so that this can be said."""
        return self.grad_norm / max(CLEAR * self.slope, 1e-300) if self.grad_norm > tol else 0.0


def more(found: Endpoint, status: Status, n_iter: int, n_passes: int) -> Endpoint:
    """An answer with the iterations and passes that went before it."""
    return replace(found, status=status, n_iter=found.n_iter + n_iter, n_passes=found.n_passes + n_passes)
