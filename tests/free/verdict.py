"""What is wrong with the library's answer to a problem without limits, held against 220-bit arithmetic.

Nobody is accused without a witness: the answer's own x, a bound from duality, or a point that reaches the goal.
"""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr

from ifonly import CertificateError, Counterfactual, Status
from tests.free.families import Problem
from tests.free.truth import Free, Point, big, working
from tests.limits.verdict import Verdict

__all__ = ["KINDS", "Case", "judge"]

IN_FRACTIONS = 2000  # weights of a model whose answers are verified in fractions too
KINDS = {
    "EXC": "an exception",
    "WARN": "a warning",
    "NAN": "not a number, where one is claimed",
    "P": "said to reach the probability, and does not, as the library, the estimator or exact arithmetic evaluates it",
    "WORSE": "said to be optimal, and costs more than rounding justifies",
    "CERT": "the gradient is larger than what is claimed",
    "CLASS": "another class is nearer",
    "UNDONE": "not solved to the last digit",
    "FALSE_UNREACHABLE": "said to be out of reach, and a point reaches it",
    "OWN_P": "said to be out of reach, and its own x reaches it",
    "VERIFY": "its own verify() refuses it",
}

EPS = float(np.finfo(float).eps)
RELATIVE = 1e-12
ROOM = 16.0  # times the rounding of a logit's sum: that of ours, and of whoever evaluates it, on both sides of τ
GUESS = 0.01  # rounding of a logit where its worst case, ten times that, leaves little of a probability
WITNESSES = (1.0, 2.0, 4.0)  # times the noise of an answer that says it is none: so far above τ an x is looked for
ULPS = 8.0  # of x and x̄: what rounding x comes to


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, what the library said, and what is wrong with it."""

    problem: Problem
    answers: list[Counterfactual]
    verdicts: tuple[Verdict, ...]


def judge(problem: Problem) -> Case:
    """Ask the library, and hold its answers against the truth."""
    answers: list[Counterfactual] = []
    found: list[Verdict] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answers = problem.ask()
            for cf in answers:
                _ = cf.x, cf.delta, cf.bound, cf.message
        except Exception as error:  # whatever it is, it is what we are here for
            found.append(Verdict("EXC", f"{type(error).__name__}: {error}"))
    noise = dict.fromkeys(f"{w.message} ({w.filename.rpartition('/')[2]}:{w.lineno})" for w in caught)
    found += [Verdict("WARN", text) for text in noise]
    wants = np.broadcast_to(problem.want, len(answers)).tolist() if answers else []
    for n, (cf, want) in enumerate(zip(answers, wants, strict=True)):
        with working():
            held = _Held(problem, cf, want)
            found += [Verdict(v.kind, f"row {n}: {v.text}" if len(answers) > 1 else v.text) for v in held.verdicts()]
    return Case(problem, answers, tuple(found))


class _Held:
    """One answer held against the truth."""

    def __init__(self, problem: Problem, cf: Counterfactual, want: float) -> None:
        self.problem, self.cf, self.want, self.model = problem, cf, want, cf.model
        self.k, self.prob = cf.result.target, want if problem.goal == "prob" else None
        target = problem.target
        self.named = isinstance(target, (int, np.ndarray)) or target == "all"
        source, x = cf.coordinates
        self.source, self.x = self._seen(source), self._seen(x)
        self.offset, self.sizes = np.zeros(len(x)), np.abs(np.asarray(source, dtype=float)) + np.abs(x)
        if self.model.scaling is not None:
            self.offset = 2 * self.model.scaling.offset
            self.sizes = self.sizes / np.abs(self.model.scaling.scale) + self.offset

    def _seen(self, x: Any) -> np.ndarray:
        """A point in the classifier's units, with no rounding on the way there."""
        scaling = self.model.scaling
        return big(x) if scaling is None else (big(x) - big(scaling.shift)) / big(scaling.scale)

    def of(self, k: int) -> Free:
        """The problem for a class."""
        return Free(self.model.A, self.model.b, self.source, k)

    @cached_property
    def free(self) -> Free:
        """The problem for the class of the answer."""
        return self.of(self.k)

    @cached_property
    def point(self) -> Point:
        """The answer's x."""
        return self.free.at(self.x)

    # ---- verdicts ----

    def verdicts(self) -> list[Verdict]:
        """All that is wrong."""
        cf = self.cf
        numbers = [cf.distance, cf.objective, cf.grad_norm, cf.lam, *np.asarray(cf.proba).tolist()]
        if cf.status is Status.INVALID or np.isnan(np.append(numbers, cf.coordinates[1])).any():
            return [Verdict("NAN", f"{cf.status.name}, {numbers}")]
        if self.problem.goal == "margin":
            return [v for v in (self._verified(), *self._ahead()) if v is not None]
        if cf.conditions is not None:  # a pipeline whose columns have limits of their own: the optimum is not ours to judge
            checks = [self._verified(), self._own_p() if cf.status is Status.UNREACHABLE else self._reaches()]
            return [v for v in checks if v is not None]
        checks = [self._verified(), self._gradient()]
        if cf.status is Status.UNREACHABLE:
            checks += [self._own_p(), self._reachable()]
        elif not cf.status.ok:
            checks.append(self._undone())
        else:
            checks += [self._reaches(), self._optimal(), self._nearest_class()]
        return [v for v in checks if v is not None]

    def _verified(self) -> Verdict | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.cf.verify(exact=self.cf.model.A.size <= IN_FRACTIONS)
        except (CertificateError, Warning) as error:
            return Verdict("VERIFY", f"{self.cf.status.name}: {error}")
        return None

    def _gradient(self) -> Verdict | None:
        if not math.isfinite(self.cf.lam):
            return None
        g = self.free.gradient(self.point, mpfr(self.cf.lam))
        exact = float(gmpy2.sqrt(g @ g))
        if exact > self.cf.grad_norm * (1 + 1e-9):
            return Verdict("CERT", f"the gradient is {exact:.3g}; {self.cf.grad_norm:.3g} is claimed")
        tol = self.problem.options.get("tol")
        if self.cf.status is Status.CONVERGED and tol is not None and self.cf.grad_norm > tol:
            return Verdict("CERT", f"the gradient is {self.cf.grad_norm:.3g}; CONVERGED is claimed for {tol:.3g}")
        return None

    def _ahead(self) -> list[Verdict]:
        """Of a margin: whether it is there, and whether nothing nearer has it."""
        cf, free = self.cf, self.free
        lead, least = -self.point.s.max(), free.ahead(mpfr(self.want))
        if cf.status is Status.UNREACHABLE:
            return [] if least is None else [Verdict("FALSE_UNREACHABLE", f"in reach at a cost of {float(least):.3g}")]
        if not cf.status.ok:
            return [] if least is None else [Verdict("UNDONE", cf.status.name)]
        found = []
        scores = self.model.scores(np.asarray(cf.x))
        seen = float(scores[self.k] - np.delete(scores, self.k).max())
        if lead < self.want or seen < self.want:
            found.append(Verdict("P", f"ahead by {float(lead)!r}, {seen!r} as computed, of {self.want!r}"))
        value, room = free.square(self.x) / 2, mpfr(8 * self._noise(self.sizes) + 1e-9 * (abs(self.want) + 1e-12))
        if least is not None and value > least * (1 + 1e-8):
            dearer = free.ahead(mpfr(self.want) + room)  # rivals together are nearer to the target than each alone
            if dearer is not None and value > dearer * (1 + 1e-8):
                found.append(Verdict("WORSE", f"costs {float(value)!r}; {float(least)!r} is enough"))
        return found

    def _undone(self) -> Verdict | None:
        """An answer that says it is none; that is right where p at x is anybody's guess, or at no x more than that above τ.

        The witness is an x that is above τ by its own noise: where that grows as fast as the change, there is none.
        """
        if self.prob is None:
            return Verdict("UNDONE", self.cf.status.name)
        free, noise = self.free, self._noise(self.sizes)
        lam = mpfr(self.cf.lam) if math.isfinite(self.cf.lam) else (free.rows * free.rows).sum()
        if noise > GUESS or lam == 0:
            return None
        for times in WITNESSES:
            found = free.nearest(_logit(self.prob) - mpfr(times * noise), lam)
            if found is None:
                return None
            far = self.sizes - np.abs(self.x.astype(float)) + np.abs(found[1].x.astype(float))
            if self._noise(far) <= times * noise:
                return Verdict("UNDONE", self.cf.status.name)
        return None

    def _noise(self, sizes: np.ndarray) -> float:
        """What whoever evaluates a logit may find in place of it, where x and x̄ have these sizes."""
        K, D = self.model.A.shape
        terms = float(np.linalg.norm(self.model.column_sizes) * np.linalg.norm(sizes))
        return (D + K + 2 + self.in_logs) * EPS * self.coarse * terms

    def seen(self) -> dict[str, float]:
        """p_k at x as everybody evaluates it."""
        cf, row = self.cf, self._row()
        out = {"the answer": float(cf.proba[self.k])}
        if row is not None:
            out["the model"] = float(self.model.predict_proba(row)[0, self.k])
            if self.problem.own is not None:
                out["the estimator"] = float(self.problem.own(row)[0, self.k])
            else:
                out["the model, one row"] = float(self.model.predict_proba(row[0])[self.k])
        return out

    def _row(self) -> Any:
        """x as a table of one row."""
        return self.cf.x[None]

    def _reaches(self) -> Verdict | None:
        if self.prob is None:
            return None
        short = {who: p for who, p in self.seen().items() if not p >= self.prob}
        wanted = gmpy2.log1p(-mpfr(self.prob)) - gmpy2.log(mpfr(self.prob))
        if self.point.logit > wanted:
            short["exact arithmetic"] = float(1 / (1 + gmpy2.exp(self.point.logit)))
        if not short:
            return None
        worst = min(short, key=lambda who: short[who])
        off = f"short by {self.prob - short[worst]:.3g} of {self.prob!r}"
        return Verdict("P", f"{self.cf.status.name}, {off} for {', '.join(short)}; the distance is {self.cf.distance:.3g}")

    def _own_p(self) -> Verdict | None:
        assert self.prob is not None
        there = {who: p for who, p in self.seen().items() if p >= self.prob}
        return Verdict("OWN_P", f"{there}, asked for {self.prob!r}") if there else None

    # ---- the optimum ----

    @cached_property
    def coarse(self) -> float:
        """How many times more coarsely the estimator rounds."""
        return self.model.precision / EPS

    @property
    def in_logs(self) -> float:
        """How many roundings of a logit one of p is, whose logarithm is a difference of such."""
        return 2 / (1 - self.prob) if self.model.log_space and self.prob is not None else 0.0

    def room(self, change: np.ndarray | None = None) -> float:
        """How much logit(1 − p_k) may be below its goal: rounding of logits, and of the softmax."""
        (K, D), tau = self.model.A.shape, self.prob
        assert tau is not None
        sizes = (
            self.sizes if change is None else np.abs(self.source.astype(float)) * 2 + np.abs(change.astype(float)) + self.offset
        )
        columns = self.model.column_sizes
        longest = np.linalg.norm(columns) * np.linalg.norm(sizes)
        logits = ROOM * (D + K + 4 + self.in_logs) * EPS * (float(longest) + float(np.abs(self.model.b).max()))
        mass = max((1 - tau) - 2 * (K + 8) * EPS * self.coarse, min(EPS * self.coarse / 8, (1 - tau) / 4))
        return self.coarse * logits + math.log1p(-tau) - math.log(mass) + 64 * EPS * abs(math.log(mass))

    def _made(self, mass: Any, lam: Any) -> float:
        """How far rounding moves margins as long as the change is a sum of rows, whose pulls may cancel to three digits.

        They are the rows of A as they are, unless most of each is what they have in common: then without that.
        """
        (K, D), rows = self.model.A.shape, self.model.basis
        if K == 2 or self.model.dependent:
            return 0.0
        return ROOM * (D + K + 4) * EPS * self.coarse * float((rows * rows).sum(axis=1).max() * mass / lam)

    def _slip(self, point: Point) -> tuple[Any, Any]:
        """How far rounding moves x, and the margins."""
        e = big(ULPS * EPS * self.sizes)
        return e, abs(self.free.rows) @ e

    def _optimal(self) -> Verdict | None:
        lam, free, x = mpfr(self.cf.lam), self.free, self.point
        if self.prob is None:
            e, ds = self._slip(x)
            pull = x.p @ big(np.linalg.norm(free.rows.astype(float), axis=1))  # summed with rounding, and x is that over λ
            allowed = (lam * (e @ e) + x.p @ (ds * ds) + (EPS * pull) ** 2 / lam) / 2
            value, least = free.objective(x, lam), free.objective(x, lam) - free.gap(x, lam)
            if value - least > RELATIVE * value + allowed:
                best = free.optimum(lam, self.x)
                if best is None:
                    return Verdict("WORSE", "the judge finds no optimum")
                least = free.objective(best, lam)
            over, allowed = value - least, RELATIVE * value + allowed
            if self.cf.status is Status.CONVERGED:
                allowed += mpfr(self.problem.options.get("tol") or 0.0) ** 2 / (2 * lam)
        else:
            value = free.square(x.x) / 2
            if value == 0:
                return None
            if not math.isfinite(self.cf.lam):
                return Verdict("WORSE", "λ is infinite, and x is not the source")
            least, allowed = self._least(lam)
            over = value - least
        if over <= allowed:
            return None
        return Verdict("WORSE", f"by {float(over / value):.3g} of {float(value):.3g}; rounding is {float(allowed / value):.3g}")

    def _least(self, lam: Any) -> tuple[Any, Any]:
        """The least cost of the goal, and by how much rounding may make it dearer."""
        assert self.prob is not None
        free, x, tau = self.free, self.point, mpfr(self.prob)
        least, allowed = free.least(x, lam, tau), self._dearer(x, lam)
        if free.square(x.x) / 2 - least <= allowed and allowed <= 1e-6 * least:
            return least, allowed
        wanted = gmpy2.log1p(-tau) - gmpy2.log(tau)
        if free.at(self.source).logit <= wanted:
            return mpfr(0), self._dearer(free.at(self.source), lam)
        found = free.nearest(wanted, lam, self.x)
        if found is None:
            return least, allowed
        best_lam, best = found
        return free.square(best.x) / 2, self._dearer(best, best_lam)

    def _dearer(self, point: Point, lam: Any) -> Any:
        """By how much rounding may make the goal dearer than at this point: that of x, and of those who evaluate it."""
        e, _ = self._slip(point)
        change = point.x - self.source
        room = self.room(change) + self._made(point.mass, lam)
        far = gmpy2.sqrt(self.free.square(point.x))
        slope = point.p @ self.free.rows / point.mass  # of the logit
        farther = room / gmpy2.sqrt(slope @ slope) if slope.any() else mpfr(0)
        return RELATIVE * far * far / 2 + farther * (far + farther) + abs(change) @ e + (e @ e)

    def _nearest_class(self) -> Verdict | None:
        target = self.problem.target
        if self.named:
            return None
        now = int(np.argmax(self.model.scores(self.cf.coordinates[0])))
        classes = [k for k in (range(self.model.n_classes) if target is None else target) if target is not None or k != now]
        if self.k not in classes:
            return Verdict("CLASS", f"the answer is for {self.k}, and not one of {classes}")
        if not math.isfinite(self.cf.lam):
            return None
        lam = mpfr(self.cf.lam)
        for k in classes:
            if k == self.k:
                continue
            free = self.of(k)
            if self.prob is None:
                best = free.optimum(lam)
                mine, other = self.free.objective(self.point, lam), None if best is None else free.objective(best, lam)
                room = mpfr(0)
            else:
                found = free.nearest(_logit(self.prob), lam)
                mine, other = self.free.square(self.x) / 2, None if found is None else free.square(found[1].x) / 2
                room = self._dearer(self.point, lam)
            if other is not None and mine > other * (1 + 1e-9) + room:
                return Verdict("CLASS", f"{self.k} costs {float(mine):.6g}, {k} costs {float(other):.6g}")
        return None

    def _reachable(self) -> Verdict | None:
        """Whether a point of float64 reaches the goal, whoever evaluates it."""
        assert self.prob is not None
        target = self.problem.target
        if self.named:
            classes = [self.k]
        else:
            classes = list(range(self.model.n_classes) if target is None else target)
            classes = [
                k for k in classes if target is not None or k != int(np.argmax(self.model.scores(self.cf.coordinates[0])))
            ]
        if self.model.scaling is not None or not self.model.encoding.identity:
            return None
        for k in classes:
            free = self.of(k)
            lam = mpfr(self.cf.lam) if math.isfinite(self.cf.lam) and k == self.k else (free.rows * free.rows).sum()
            if lam == 0:
                continue
            wanted = _logit(self.prob)
            for extra in (0.0, 0.5 * self.room(), 2 * self.room()):
                if extra > 1e3:
                    continue
                found = free.nearest(wanted - mpfr(extra) - 1e-12, lam)
                if found is None:
                    break
                x = found[1].x.astype(float)
                exact = free.at(big(x)).logit <= wanted
                rows = [float(self.model.predict_proba(x)[k]), float(self.model.predict_proba(x[None])[0, k])]
                own = self.problem.own
                rows += [] if own is None else [float(own(x[None])[0, k])]
                if exact and min(rows) >= self.prob:
                    far = float(np.linalg.norm((big(x) - self.source).astype(float)))
                    return Verdict("FALSE_UNREACHABLE", f"p = {min(rows)!r} ≥ {self.prob!r} at a distance of {far:.3g}")
                lam = found[0]
        return None


def _logit(prob: float) -> Any:
    return gmpy2.log1p(-mpfr(prob)) - gmpy2.log(mpfr(prob))
