"""What is wrong with the library's answer to a problem, held against the truth.

Nobody is accused without a witness: a point of `truth` that keeps every limit and meets the goal with room to spare, or the
answer's own x. So what the enumeration may miss makes it say less, never something false. Where the answer is better than the
truth, the judge is wrong, and says so (JUDGE).
"""

import math
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ifonly
from ifonly import Counterfactual, InputError, Status
from tests.limits.problem import Limits, Problem
from tests.limits.programs import FAR
from tests.limits.truth import Truth, truth

__all__ = ["KINDS", "TIMED", "Case", "Verdict", "held", "judge"]

KINDS = {
    "EXC": "an exception that is no InputError, or an InputError though a point keeps all limits",
    "LIMIT": "a limit is broken",
    "FALSE_REACHED": "said to reach the goal, and does not",
    "FALSE_UNREACHABLE": "said to be out of reach, and a point reaches it",
    "WORSE": "said to be optimal, and a point costs less",
    "FALSEBOUND": "a lower bound above what a point costs",
    "GAPBIG": "EXACT with a gap",
    "VALUE": "the cost or objective is another than that of x",
    "NOTBEST": "out of reach, x is not the best, and the message does not give best and ceiling as two numbers",
    "CEILING": "an upper bound on p below that of a point, or not below what is out of reach",
    "SILENT": "STOPPED without a point though there is one",
    "LATE": "longer than the time limit allows",
    "VERIFY": "its own verify(), or verify() of its record, refuses it",
    "NAN": "not a number, where one is claimed",
    "WARN": "a RuntimeWarning",
    "JUDGE": "better than the truth: the judge is wrong",
}
TIMED = ("LATE", "SILENT")  # depend on how fast the machine is

WORSE = 1e-7  # relative: a hundred times what the witness may cost too much, for goals that are tightened by 1e-9
BOUND = 1e-9  # relative: the witness is a point; what rounding of x changes in its cost is allowed besides
GAP = 1e-9  # relative to what was minimised
LEAST = 1e-3  # an objective has −ln p in it, which is the rounding of 1 where p is next to that
BEST = 1e-6  # relative to p and to 1 − p, and to 1 + the lead: what Clarabel leaves open is some 1e-9
SAME = 1e-9  # relative: a number computed in two ways
ROOM = 8.0  # times what rounding of scores, and of p, makes a goal dearer: a gap that no answer can be without
JUST = 1e-8  # of what it costs to move every feature by one
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
SPARE = 0.1  # seconds beyond the time limit


@dataclass(frozen=True)
class Verdict:
    """What is wrong, in a word and a sentence."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, what is true of it, and what the library said.

    Attributes
    ----------
    answer : Counterfactual or Exception
    verdicts : tuple of Verdict
        Empty where nothing is wrong.
    ambiguous : str
        Why the truth is not clear, or not firm enough to accuse anyone; empty where it is.

    """

    problem: Problem
    truth: Truth
    answer: Any
    seconds: float
    verdicts: tuple[Verdict, ...]
    ambiguous: str = ""

    def to_json(self) -> dict[str, Any]:
        """In the shape of ``cases/limits.json``."""
        seen, point = " ".join(dict.fromkeys(v.kind for v in self.verdicts)), self.truth.point
        return {
            "seen": seen,
            **self.problem.to_json(),
            "reachable": self.truth.reachable,
            "least": self.truth.least,
            "point": point.tolist() if self.truth.reachable and point is not None else None,
            "largest_p": self.truth.largest if self.problem.goal == "prob" else None,
            "contradictory": self.truth.contradictory,
            "largest_lead": self.truth.largest if self.problem.goal == "margin" else None,
            "name": self.problem.name,
            "said": [str(v) for v in self.verdicts],
        }


def judge(problem: Problem, *, time_limit: float = 1.0, known: Truth | None = None) -> Case:
    """Ask the library, and hold its answer against the truth."""
    found = known or truth(problem)
    answer, seconds, noise = _ask(problem, time_limit)
    if seconds > time_limit + SPARE:  # once more: the machine may have been busy
        answer, again, noise = _ask(problem, time_limit)
        seconds = min(seconds, again)
    out = [Verdict("WARN", text) for text in noise]
    if seconds > time_limit + SPARE:
        out.append(Verdict("LATE", f"{seconds:.2f} s, with {time_limit:g} s allowed"))
    out += held(problem, found, answer)
    return Case(problem, found, answer, seconds, tuple(out), _ambiguous(found))


def held(problem: Problem, found: Truth, answer: Any) -> list[Verdict]:
    """What is wrong with an answer, or a refusal, held against the truth."""
    return _refused(found, answer) if isinstance(answer, Exception) else _Held(problem, found, answer).verdicts()


def _ambiguous(found: Truth) -> str:
    if found.contradictory:
        return ""
    if found.reachable is None:
        return "unclear" if found.point is None else "near the edge, or too much to try"
    return "" if found.firm or found.point is None else "no firm witness"


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What comes of it, an error too, and in how many seconds; on a busy machine the clock runs on while nothing is done."""
    start, cpu = time.perf_counter(), time.process_time()
    try:
        found = work()
    except Exception as error:  # whatever it is, it is what we are here for
        found = error
    return found, min(time.perf_counter() - start, time.process_time() - cpu)


def _ask(problem: Problem, time_limit: float) -> tuple[Any, float, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer, seconds = timed(lambda: problem.ask(**({"time_limit": time_limit} if problem.limited else {})))
    numerical = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    noise = dict.fromkeys(f"{w.message} ({w.filename.rpartition('/')[2]}:{w.lineno})" for w in numerical)
    return answer, seconds, list(noise)


def _refused(found: Truth, error: Exception) -> list[Verdict]:
    if not isinstance(error, InputError):
        return [Verdict("EXC", f"{type(error).__name__}: {error}")]
    if found.firm and not found.contradictory:
        return [Verdict("EXC", f"InputError, but a point keeps all limits: {error}")]
    return []


class _Held:
    """An answer held against the truth, one question after the other."""

    def __init__(self, problem: Problem, found: Truth, answer: Counterfactual) -> None:
        self.problem, self.truth, self.answer = problem, found, answer
        self.x, self.limits, self.status = answer.coordinates[1], Limits(problem), answer.status

    def verdicts(self) -> list[Verdict]:
        """All that is wrong; of an answer without a point only that."""
        if self.status is Status.INVALID:
            sound = self.truth.firm and not self.truth.contradictory  # as of a refusal: a point is there that keeps all limits
            return [Verdict("EXC", "INVALID, but a point keeps all limits")] if sound else []
        if not np.isfinite(self.x).all():
            return [v for text in (self._silent(), self._bound()) for v in text]
        checks: list[Callable[[], list[Verdict]]] = [self._nan, self._limit, self._goal, self._value, self._bound]
        checks += [self._verify]
        if self.status is Status.UNREACHABLE:
            checks += [self._unreachable, self._ceiling]
        elif self.status.ok:
            checks += [self._worse, self._gap]
        return [v for check in checks for v in check()]

    # ---- every answer ----

    def _silent(self) -> list[Verdict]:
        if self.status is not Status.STOPPED:
            return [Verdict("NAN", f"{self.status.name} with x = {self.x.tolist()}")]
        there = self.truth.firm and self.truth.reachable
        return [Verdict("SILENT", f"no point, and one costs {self.truth.least!r}")] if there else []

    def _nan(self) -> list[Verdict]:
        names = ["cost", "distance", "objective", "gap", "bound"]
        if self.status is Status.UNREACHABLE:
            names = names[:3]
        wrong = [name for name in names if math.isnan(getattr(self.answer, name))]
        wrong += ["proba"] if np.isnan(self.answer.proba).any() else []
        return [Verdict("NAN", f"{self.status.name} with NaN for {', '.join(wrong)}")] if wrong else []

    def _limit(self) -> list[Verdict]:
        broken = self.limits.broken(self.x)
        return [Verdict("LIMIT", f"{self.status.name}: {broken}")] if broken else []

    def _goal(self) -> list[Verdict]:
        """In the library's own arithmetic to the last bit; in exact arithmetic up to what float64 can be off by."""
        problem = self.problem
        if problem.goal == "lam" or self.status is Status.UNREACHABLE:
            return []
        short, slip = problem.short(self.x), problem.logit_error(self.x)
        if problem.goal == "prob":
            p = float(problem.model.predict_proba(self.x)[problem.target])
            if p < problem.want:
                return [Verdict("FALSE_REACHED", f"{self.status.name}, but p is {p!r} < {problem.want!r}")]
            slip += problem.p_error
        elif self._lead() < problem.want:
            return [Verdict("FALSE_REACHED", f"{self.status.name}, but the lead is {self._lead()!r} < {problem.want!r}")]
        return [Verdict("FALSE_REACHED", f"{self.status.name}, but {short:.3g} is missing")] if short > slip else []

    def _lead(self) -> float:
        z = self.problem.model.scores(self.x)
        return float(z[self.problem.target] - np.delete(z, self.problem.target).max())

    def _value(self) -> list[Verdict]:
        claimed, found = self._claimed(), self.problem.value(self.x)
        if abs(claimed - found) > SAME * abs(found) + self.problem.rounding(self.x):
            return [Verdict("VALUE", f"{claimed!r} is claimed, and it is {found!r}")]
        return []

    def _claimed(self) -> float:
        return self.answer.objective if self.problem.goal == "lam" else self.answer.cost

    def _tiny(self) -> float:
        """What rounding of two points can change in their values."""
        points = [x for x in (self.x, self.truth.point) if x is not None and np.isfinite(x).all()]
        return 2 * sum(self.problem.rounding(x) for x in points)

    def _bound(self) -> list[Verdict]:
        known, bound = self.truth, self.answer.bound
        if not (known.firm and known.reachable) or self.status is Status.UNREACHABLE or math.isnan(bound):
            return []
        if bound > known.least * (1 + BOUND) + self._tiny():
            return [Verdict("FALSEBOUND", f"{self.status.name}: nothing is below {bound!r}, but a point costs {known.least!r}")]
        return []

    def _verify(self) -> list[Verdict]:
        out = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.answer.verify()
            except Exception as error:
                out.append(Verdict("VERIFY", f"{self.status.name}: {type(error).__name__}: {error}"))
            try:
                ifonly.verify(self.answer.to_json(), self.problem.model)
            except Exception as error:
                text = f"{self.status.name}, record: {type(error).__name__}: {error}"
                out += [] if out else [Verdict("VERIFY", text)]
        return out

    # ---- optimal ----

    def _worse(self) -> list[Verdict]:
        known, value = self.truth, self.problem.value(self.x)
        if not (known.firm and known.reachable):
            if known.whole and known.reachable is False and self._near() and not self._goal() and not self._limit():
                return [Verdict("JUDGE", f"{self.status.name} of value {value!r}, and the goal was out of reach")]
            return []
        # p is a float: what a few units in its last place cost, next to nothing unless it is next to 1, is nobody's fault.
        rounding = known.weight * self.problem.p_error * (ROOM if self.status is Status.CONVERGED else 1.0)
        if value > known.least * (1 + WORSE) + self._tiny() + rounding:
            return [Verdict("WORSE", f"{self.status.name} of value {value!r}, but a point has {known.least!r}")]
        if known.whole and self._better(value, known) and not self._goal() and not self._limit():
            eased = truth(self.problem, loosened=True)
            if eased.whole and self._better(value, eased):
                return [Verdict("JUDGE", f"{self.status.name} of value {value!r}, better than {eased.least!r}")]
        return []

    def _better(self, value: float, known: Truth) -> bool:
        """Whether a value is less than it can be; where almost nothing has to move, Clarabel's own error is left out."""
        return known.least is not None and value < known.least * (1 - WORSE) - self._tiny() - JUST * self.problem.unit

    def _near(self) -> bool:
        """Whether x is where the judge looks for what reaches a goal: no farther than `FAR` where there is no bound."""
        return bool((np.abs(self.x - self.problem.x) * np.sqrt(np.diag(self.problem.price[0])) <= FAR).all())

    def _gap(self) -> list[Verdict]:
        gap, value, problem = self.answer.gap, self._claimed(), self.problem
        value = max(abs(value), LEAST) if problem.goal == "lam" else value
        rounding = self.truth.weight * ROOM * (problem.logit_error(self.x) + problem.p_error)
        if self.status is Status.EXACT and gap > GAP * abs(value) + self._tiny() + rounding:
            return [Verdict("GAPBIG", f"EXACT with a gap of {gap:.3g} at {value:.6g}")]
        return []

    # ---- out of reach ----

    def _unreachable(self) -> list[Verdict]:
        problem, known = self.problem, self.truth
        if known.reachable and known.firm:
            return [Verdict("FALSE_UNREACHABLE", f"a point reaches it, of value {known.least!r}")]
        if known.largest is None or not known.firm or known.far or known.reachable:
            return []
        found, best = problem.largest(self.x), known.largest
        room = BEST * (1 + abs(best)) if problem.goal == "margin" else BEST * min(best, 1 - best)
        if found >= best - room - problem.logit_error(self.x) or self._two_numbers(found, best):
            return []
        return [Verdict("NOTBEST", f"{found!r}, but a point has {best!r}")]

    def _two_numbers(self, found: float, best: float) -> bool:
        """Whether the message gives what was found, and a ceiling that is one."""
        said = [float(text) for text in NUMBER.findall(self.answer.message.replace("−", "-"))]
        others = [v for v in said if not math.isclose(v, self.problem.want)]
        return any(math.isclose(v, found, rel_tol=1e-4) for v in said) and any(best <= v * (1 + 1e-5) for v in others)

    def _ceiling(self) -> list[Verdict]:
        if self.problem.goal != "prob" or self.answer.within is None:
            return []
        ceiling, known, want = self.answer.within.best_bound, self.truth, self.problem.want
        if not ceiling < want:
            return [Verdict("CEILING", f"{want!r} is called out of reach, and nothing above {ceiling!r} is")]
        p = max(known.largest or 0.0, self.problem.want if known.reachable else 0.0)
        if known.firm and p - ceiling > 1e-9 * min(p, 1 - p) + min(p, 1 - p) * self.problem.logit_error(known.point):
            return [Verdict("CEILING", f"nothing is said to be above {ceiling!r}, but a point has {p!r}")]
        return []
