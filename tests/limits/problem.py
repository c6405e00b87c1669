"""One problem with limits as plain data, and its limits as arrays: which points keep them, to the last bit.

Nothing here calls the library but `Problem.ask`. With Δ = x − x̄ the cost is ``½ΔᵀQΔ + Σ_d w_d|Δ_d|``, with Q = diag(c²) and
w = μc, or with a matrix Q and w = μ√diag Q. A probability or a margin bounds it from below, and λ weighs it:
``(λ/2)ΔᵀQΔ + Σ_d w_d|Δ_d| − ln p_k``.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import mpmath
import numpy as np

import ifonly

__all__ = ["EPS", "ON_GRID", "SAME", "Limits", "Problem"]

EPS = float(np.finfo(float).eps)
ON_GRID = 1e-9  # relative to the step: a source or a bound this near to a grid point stands for it …
ROUNDINGS = 4  # … or nearer than so many roundings of itself, as long as that is a part of the step
LEAST = Fraction(2) ** -1022  # what floats have no digits left for
EDGE = 16  # roundings of a rule's terms: nearer to its edge, sums say one thing or the other
SAME = 1e-13  # relative to an equation's terms at the source: most equations have no solution in floating point
DIGITS = 60
MOST_VALUES = 10_000  # of a grid


@dataclass(frozen=True, eq=False)
class Problem:
    """A question, in the shape of ``cases/limits.json``.

    Attributes
    ----------
    goal, want : str, float
        "prob", "lam" or "margin", and the number.
    actions : dict
        What `ifonly.Actions` takes, with features by number.
    cost : dict or None
        ``scale`` and ``l1``, or ``matrix`` (and ``l1``).
    name : str
        Family and number, for reports.

    """

    A: np.ndarray
    b: np.ndarray
    x: np.ndarray
    target: int
    goal: str
    want: float
    actions: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, Any] | None = None
    max_changes: int | None = None
    name: str = ""

    @classmethod
    def from_json(cls, case: dict[str, Any], name: str = "") -> "Problem":
        """A case of a file: keys are strings there, and tuples are lists."""
        given = case["actions"]
        actions = {key: given[key] for key in given if key not in ("bounds", "step", "linear")}
        for key in ("bounds", "step"):
            if key in given:
                actions[key] = {int(d): tuple(v) if key == "bounds" else v for d, v in given[key].items()}
        if "linear" in given:
            actions["linear"] = [({int(d): v for d, v in row.items()}, sense, rest) for row, sense, rest in given["linear"]]
        ((goal, want),) = case["question"].items()
        A, b, x = (np.array(case[key], dtype=float) for key in ("A", "b", "x"))
        return cls(A, b, x, case["target"], goal, want, actions, case["cost"], case["max_changes"], name)

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it."""
        return {
            **{name: getattr(self, name).tolist() for name in ("A", "b", "x")},
            "target": self.target,
            "question": {self.goal: self.want},
            "actions": self.actions,
            "cost": self.cost,
            "max_changes": self.max_changes,
        }

    @property
    def limited(self) -> bool:
        """Whether there is more than a scale to it: what needs no search takes no time limit."""
        plain = self.cost is None or not ("matrix" in self.cost or np.any(self.cost.get("l1", 0.0)))
        return bool(self.actions) or self.max_changes is not None or self.goal == "margin" or not plain

    def ask(self, **more: Any) -> "ifonly.Counterfactual":
        """What the library answers."""
        return ifonly.invert(self.model, self.x, self.target, **{self.goal: self.want}, **self.options, **more)

    @property
    def options(self) -> dict[str, Any]:
        """Cost and limits as the library takes them."""
        cost = None if self.cost is None else ifonly.Cost(**self.cost)
        actions = ifonly.Actions(**self.actions) if self.actions else None
        return {"cost": cost, "actions": actions, "max_changes": self.max_changes}

    @cached_property
    def model(self) -> "ifonly.Model":
        """The classifier as the library takes it."""
        return ifonly.Model(self.A, self.b)

    # ---- what a point is worth ----

    @cached_property
    def price(self) -> tuple[np.ndarray, np.ndarray]:
        """Q and w."""
        D, cost = self.x.size, self.cost or {}
        Q = np.diag(np.broadcast_to(cost.get("scale", 1.0), D).astype(float) ** 2)
        if "matrix" in cost:
            Q = np.array(cost["matrix"], dtype=float)
        return 0.5 * (Q + Q.T), np.broadcast_to(cost.get("l1", 0.0), D) * np.sqrt(np.diag(Q))

    def cost_of(self, x: np.ndarray) -> float:
        """½ΔᵀQΔ + Σw|Δ|."""
        Q, w = self.price
        return float(0.5 * (x - self.x) @ Q @ (x - self.x) + w @ np.abs(x - self.x))

    def value(self, x: np.ndarray) -> float:
        """What is minimised: the cost, or the objective with λ."""
        if self.goal != "lam":
            return self.cost_of(x)
        Q, w = self.price
        change = x - self.x
        return float(0.5 * self.want * change @ Q @ change + w @ np.abs(change)) + self.loss(x)

    @property
    def unit(self) -> float:
        """What it costs to move every feature by one."""
        Q, w = self.price
        return float(0.5 * np.diag(Q).sum() + w.sum())

    def rounding(self, x: np.ndarray) -> float:
        """How much the value changes where each number of x does by a few units in its last place."""
        Q, w = self.price
        lam, slip = self.want if self.goal == "lam" else 1.0, 4 * EPS * (np.abs(x) + np.abs(self.x))
        of_cost = lam * (np.abs(Q) @ np.abs(x - self.x) + np.abs(Q) @ slip) @ slip + w @ slip
        return float(of_cost) + (self.logit_error(x) + 4 * EPS if self.goal == "lam" else 0.0)

    def margins(self, x: np.ndarray) -> np.ndarray:
        """How far each rival is ahead of the target; differences of rows first, so that what they share cancels."""
        rivals = np.arange(len(self.b)) != self.target
        return (self.A[rivals] - self.A[self.target]) @ x + (self.b[rivals] - self.b[self.target])

    def loss(self, x: np.ndarray) -> float:
        """−ln p."""
        return float(np.logaddexp.reduce(np.append(self.margins(x), 0.0)))

    def logit_error(self, x: np.ndarray) -> float:
        """How far a difference of scores computed in float64, in any order, can be from the exact one: γ of D + 2 terms."""
        return 4 * (x.size + 2) * EPS * float(np.abs(self.A).max(axis=0) @ np.abs(x) + np.abs(self.b).max())

    @property
    def p_error(self) -> float:
        """How far a logit computed from a probability in float64 can be off: a few units in the last place of p, K terms."""
        return (len(self.b) + 8) * EPS / min(self.want, 1 - self.want) if self.goal == "prob" else 0.0

    def exact(self, x: np.ndarray) -> tuple[mpmath.mpf, mpmath.mpf]:
        """The logit of p, ``−ln Σe^{s_i}``, and the lead over the best rival: to 60 digits."""
        with mpmath.workdps(DIGITS):
            row = [mpmath.mpf(v) for v in x.tolist()]
            pairs = zip(self.A.tolist(), self.b.tolist(), strict=True)
            z = [mpmath.fdot([mpmath.mpf(v) for v in a], row) + mpmath.mpf(c) for a, c in pairs]
            own = z.pop(self.target)
            lead = own - max(z)
            return lead - mpmath.log(mpmath.fsum([mpmath.exp(v - own + lead) for v in z])), lead

    def short(self, x: np.ndarray) -> float:
        """By how much x misses the goal, in logits, computed with 60 digits; at most 0 where it is met. λ is never missed."""
        logit, lead = self.exact(x)
        with mpmath.workdps(DIGITS):
            want = mpmath.mpf(self.want)
            return {"margin": lambda: float(want - lead), "prob": lambda: float(mpmath.log(want / (1 - want)) - logit)}.get(
                self.goal, lambda: -math.inf
            )()

    def largest(self, x: np.ndarray) -> float:
        """p at x, or the lead where a margin is asked for: what is largest where the goal is out of reach."""
        logit, lead = self.exact(x)
        with mpmath.workdps(DIGITS):
            return float(lead if self.goal == "margin" else 1 / (1 + mpmath.exp(-logit)))


class Limits:
    """The limits around the source.

    Attributes
    ----------
    lo, hi : ndarray of shape (D,)
        Bounds, directions and what is frozen.
    step : dict of int to Fraction
        The features on grids.
    rules : list of (ndarray, str, float)
    wrong : str
        What is contradictory about limits on single features and groups; empty for nothing.

    """

    def __init__(self, problem: Problem) -> None:
        self.x, D, actions = problem.x, problem.x.size, problem.actions
        self.max_changes = problem.max_changes
        self.groups = [list(group) for group in actions.get("one_of", ())]
        grouped = {d for group in self.groups for d in group}
        self.frozen = set(actions.get("frozen", ()))
        steps = {**dict.fromkeys(actions.get("integer", ()), 1), **actions.get("step", {})}
        self.step = {d: Fraction(str(v)) for d, v in sorted(steps.items()) if d not in self.frozen | grouped}
        self.lo, self.hi = np.full(D, -np.inf), np.full(D, np.inf)
        for d, (low, high) in actions.get("bounds", {}).items():
            self.lo[d], self.hi[d] = -np.inf if low is None else low, np.inf if high is None else high
        outside = [d for d in self.frozen if not self.lo[d] <= self.x[d] <= self.hi[d]]
        for d in {*actions.get("increase", ()), *self.frozen}:
            self.lo[d] = max(self.lo[d], self.x[d])
        for d in {*actions.get("decrease", ()), *self.frozen}:
            self.hi[d] = min(self.hi[d], self.x[d])
        self.rules = []
        for given, sense, rest in actions.get("linear", ()):
            row = np.zeros(D)
            for d, v in given.items():
                row[d] += v
            self.rules.append((row, sense, float(rest)))
        self.wrong = f"frozen outside bounds: {outside}" if outside else self._wrong()

    def _wrong(self) -> str:
        for d in range(self.x.size):
            if self.lo[d] > self.hi[d] or (d in self.step and self.bounded(d) and not self._multiples(d)):
                return f"no value for feature {d}"
        for group in self.groups:
            if sorted(self.x[group]) != [0.0] * (len(group) - 1) + [1.0]:
                return f"the source's group {group} is not one-hot"
            if not self.options(group):
                return f"no option for the group {group}"
        return ""

    # ---- choices ----

    def bounded(self, d: int) -> bool:
        """Whether a feature has bounds on both sides."""
        return math.isfinite(self.lo[d]) and math.isfinite(self.hi[d])

    def grid(self, d: int, low: float = -math.inf, high: float = math.inf) -> list[float]:
        """The values of a feature on a grid within its limits (and a range).

        A bound that is `near` to a grid point stands for it, and so does the source's own value.
        """
        multiples, step, found = self._multiples(d, low, high), self.step[d], []
        if len(multiples) > MOST_VALUES:
            raise OverflowError(f"feature {d} has {len(multiples)} values")
        for n in multiples:
            v = float(n * step)
            v = float(self.x[d]) if abs(v - self.x[d]) <= self.near(d, float(self.x[d])) else v
            found.append(min(max(v, float(self.lo[d])), float(self.hi[d])))
        return found

    def _multiples(self, d: int, low: float = -math.inf, high: float = math.inf) -> range:
        """How many steps the values of a feature on a grid are."""
        low, high = max(float(self.lo[d]), low), min(float(self.hi[d]), high)
        first, last = Fraction(low) - self.near(d, low), Fraction(high) + self.near(d, high)
        return range(math.ceil(first / self.step[d]), math.floor(last / self.step[d]) + 1)

    def near(self, d: int, v: float) -> Fraction:
        """How near to a grid point a number has to be to stand for it."""
        step = self.step[d]
        return min(Fraction(ON_GRID) * step + ROUNDINGS * Fraction(EPS) * abs(Fraction(v)), step / 4)

    def options(self, group: list[int]) -> list[int]:
        """The members of a group that may be the one."""
        able = [all(self.lo[d] <= float(d == one) <= self.hi[d] for d in group) for one in group]
        return [one for one, ok in zip(group, able, strict=True) if ok]

    @property
    def free(self) -> list[int]:
        """The features that may have any value of a range with more than one."""
        taken = {d for group in self.groups for d in group} | set(self.step)
        return [d for d in range(self.x.size) if d not in taken and self.lo[d] < self.hi[d]]

    def rests(self, d: int) -> bool:
        """Whether a feature may stay where it is, as far as its own limits go."""
        v = float(self.x[d])
        return bool(self.lo[d] <= v <= self.hi[d]) and (d not in self.step or self._on_grid(d, v))

    def n_changes(self, x: np.ndarray) -> int:
        """How many features move; a group is one."""
        moved = x != self.x
        grouped = [d for group in self.groups for d in group]
        return int(np.delete(moved, grouped).sum()) + sum(bool(moved[group].any()) for group in self.groups)

    # ---- whether a point keeps them ----

    def broken(self, x: np.ndarray) -> str:
        """The first limit that a point breaks, in words; comparisons are exact, but for rules (`kept`)."""
        for d in range(x.size):
            if not self.lo[d] <= x[d] <= self.hi[d]:
                return f"feature {d} is {x[d]!r}, outside [{self.lo[d]!r}, {self.hi[d]!r}]"
            if d in self.step and not self._on_grid(d, float(x[d])):
                return f"feature {d} is {x[d]!r}, no multiple of {self.step[d]}"
        for group in self.groups:
            if sorted(x[group].tolist()) != [0.0] * (len(group) - 1) + [1.0]:
                return f"the group {group} is {x[group].tolist()}"
        for i in range(len(self.rules)):
            if self.kept(i, x) is False:
                return f"rule {i} is broken"
        n = self.n_changes(x)
        return f"{n} changes" if self.max_changes is not None and n > self.max_changes else ""

    def keeps(self, x: np.ndarray) -> bool:
        """Whether a point keeps all limits, whoever adds up its rules."""
        return not self.broken(x) and all(self.kept(i, x) for i in range(len(self.rules)))

    def _on_grid(self, d: int, v: float) -> bool:
        step = self.step[d]
        n = round(Fraction(v) / step)
        if v in (float(n * step), n * float(step)):
            return True
        return abs(v - n * step) <= self.near(d, v) and v in (self.x[d], self.lo[d], self.hi[d])

    def beside(self, d: int) -> Fraction:
        """How far what stands for a grid point is from it: the source, or a bound."""
        step, stood = self.step[d], [float(v) for v in (self.x[d], self.lo[d], self.hi[d]) if math.isfinite(v)]
        off = {v: abs(Fraction(v) - round(Fraction(v) / step) * step) for v in stood}
        return max((far for v, far in off.items() if far <= self.near(d, v)), default=Fraction(0))

    def kept(self, i: int, x: np.ndarray) -> bool | None:
        """Whether x keeps a rule. None where it does so but for a few roundings of its terms: then it depends on who adds."""
        row, sense, rest = self.rules[i]
        used = np.flatnonzero(row).tolist()
        terms = [Fraction(float(row[d])) * Fraction(float(x[d])) for d in used]
        left, size = Fraction(rest) - sum(terms), sum(map(abs, terms)) + abs(Fraction(rest))
        if sense == "==":
            before = sum(abs(Fraction(float(row[d])) * Fraction(float(self.x[d]))) for d in used) + abs(Fraction(rest))
            beside = sum(abs(Fraction(float(row[d]))) * self.beside(d) for d in used if d in self.step)
            left = max(abs(left) - SAME * before - beside, 0)
            return not left or (None if left <= EDGE * EPS * size + LEAST else False)
        return None if left and abs(left) <= EDGE * EPS * size + LEAST else left >= 0 if sense == "<=" else left <= 0
