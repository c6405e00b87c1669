"""What is continuous about a problem once everything discrete is chosen: small convex programs, solved by Clarabel.

A choice fixes some features and leaves others free. With s(x) the rivals' margins, its least value is that of

    min  ½ΔᵀQΔ + Σw|Δ|   s.t.  ln Σ_i e^{s_i} ≤ ρ  (or s_i ≤ −μ),  box, rules       or       min  (λ/2)ΔᵀQΔ + Σw|Δ| − ln p.

Multipliers y ≥ 0 of the margins bound it from below, and every other choice too: with weight Σy and q = y/Σy,

    ln Σe^{s_i} ≥ q·s + H(q),     so that     value ≥ ½ΔᵀQΔ + Σw|Δ| + y·s(x) + Σy·(H(q) − ρ) + ν·(CΔ − c)     (`Price`).

Goals are tightened by ``allow`` and rules by `TIGHT`, so that what is found keeps both in spite of Clarabel's residuals.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from tests.limits.problem import Limits, Problem

__all__ = ["FAR", "Found", "Numbers", "Price", "UnclearError", "best", "least"]

TOLERANCES = (1e-12, 1e-10, 1e-8)  # of Clarabel's; the tightest that it comes to
INFEASIBLE = 1e-10  # of its certificates that there is no point
TIGHT = 1e-11  # relative to the terms of a rule
ROUNDED = 1e-12  # relative to the terms of a rule in which nothing is free
FAR = 1e5  # units of cost: where there is no bound, the best probability is looked for this far
SHORTEST = 1e-100  # units of cost: squares of shorter lengths would be 0
RATIO = 1e3  # a solution this much longer or shorter than it was scaled for is found again, in units of its own


class UnclearError(Exception):
    """Clarabel does not settle it."""


@dataclass(frozen=True)
class Numbers:
    """A problem as arrays: margins ``s̄ + SΔ``, rules ``CΔ ≤ c`` (or =), the box ``low ≤ Δ ≤ high``, Q and w, the goal."""

    S: np.ndarray
    s: np.ndarray
    C: np.ndarray
    c: np.ndarray
    equal: np.ndarray
    size: np.ndarray  # of the terms of the rules
    beside: np.ndarray  # by how much equations may be missed, as a source or bound next to a grid point stands for it
    low: np.ndarray
    high: np.ndarray
    Q: np.ndarray
    w: np.ndarray
    goal: str
    want: float
    allow: float

    @classmethod
    def of(cls, problem: Problem, limits: Limits, allow: float) -> "Numbers":
        rivals, k, x = np.arange(len(problem.b)) != problem.target, problem.target, problem.x
        turn = np.array([-1.0 if sense == ">=" else 1.0 for _, sense, _ in limits.rules])
        C = np.array([row for row, _, _ in limits.rules]).reshape(-1, x.size) * turn[:, None]
        rest = np.array([rest for *_, rest in limits.rules]) * turn
        equal = np.array([sense == "==" for _, sense, _ in limits.rules], dtype=bool)
        off = np.array([float(limits.beside(d)) if d in limits.step else 0.0 for d in range(x.size)])
        return cls(
            problem.A[rivals] - problem.A[k], problem.margins(x),
            C, np.array([math.fsum([r, *(-row * x).tolist()]) for row, r in zip(C, rest, strict=True)]),
            equal, np.abs(C) @ np.abs(x) + np.abs(rest), np.where(equal, np.abs(C) @ off, 0.0),
            limits.lo - x, limits.hi - x, *problem.price, problem.goal, problem.want, allow,
        )  # fmt: skip

    @property
    def rho(self) -> float:
        """ρ, or −μ: what ln Σe^{s_i}, or every s_i, may be at most; less the allowance."""
        return (math.log1p(-self.want) - math.log(self.want) if self.goal == "prob" else -self.want) - self.allow

    @property
    def lam(self) -> float:
        """What stands before ½ΔᵀQΔ."""
        return self.want if self.goal == "lam" else 1.0

    def level(self, change: np.ndarray) -> float:
        """ln Σe^{s_i}, for a margin the largest s_i, and with λ −ln p: at most ρ where the goal is met."""
        return _level(self.s + self.S @ change, self.goal)

    def value(self, change: np.ndarray) -> float:
        """What is minimised."""
        cost = self.lam * 0.5 * float(change @ self.Q @ change) + float(self.w @ np.abs(change))
        return cost + (self.level(change) if self.goal == "lam" else 0.0)


def _level(s: np.ndarray, goal: str) -> float:
    if goal == "margin":
        return float(s.max())
    return float(np.logaddexp.reduce(np.append(s, 0.0) if goal == "lam" else s))


@dataclass(frozen=True)
class Price:
    """Multipliers: ``value ≥ cost + g·Δ + κ`` for every Δ within the limits that meets the goal.

    Besides, in the box ``w_d|Δ_d| ≥ slope_d·Δ_d + constant_d``, which a cost with a matrix needs for free features. The price
    of a probability alone has no cost: ``ln Σe^{s_i} ≥ g·Δ + κ``. A goal that is higher by 1 costs ``weight`` more.
    """

    g: np.ndarray
    kappa: float
    slope: np.ndarray
    constant: np.ndarray
    weight: float = 0.0


@dataclass(frozen=True)
class Found:
    """A choice's optimum: the change, its value (or its level, where that is minimised), and the multipliers, if any."""

    change: np.ndarray
    value: float
    price: Price | None = None


# ---- Clarabel ----


@dataclass
class _Program:
    """``min ½zᵀPz + f·z`` with blocks of rows ``Gz + slack = h``, slack in a cone."""

    n: int
    P: np.ndarray = field(init=False)
    f: np.ndarray = field(init=False)
    blocks: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, list[Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.P, self.f = np.zeros((self.n, self.n)), np.zeros(self.n)

    def add(self, name: str, G: np.ndarray, h: np.ndarray, cone: Any = clarabel.NonnegativeConeT) -> None:
        """A block of rows, each divided by its own length; G may have fewer columns. Exponential cones stay as they are."""
        if not len(h):
            return
        exponential = cone is clarabel.ExponentialConeT
        lengths = np.ones(len(h)) if exponential else np.linalg.norm(G, axis=1)
        lengths[lengths == 0] = 1.0
        wide = np.zeros((len(h), self.n))
        wide[:, : G.shape[1]] = G / lengths[:, None]
        self.blocks[name] = wide, h / lengths, lengths, [cone()] * (len(h) // 3) if exponential else [cone(len(h))]

    def solve(self) -> tuple[np.ndarray, dict[str, np.ndarray]] | None:
        """The solution and the multipliers of each block; None where there is no point."""
        G, h = (np.concatenate([block[i] for block in self.blocks.values()]) for i in (0, 1))
        cones, (m, n) = [cone for *_, part in self.blocks.values() for cone in part], G.shape
        columns = sparse.csc_matrix((G.T.ravel(), np.tile(np.arange(m), n), np.arange(0, m * n + 1, m)), shape=(m, n))
        P = sparse.csc_matrix(np.triu(self.P))
        for tolerance in TOLERANCES:
            settings = clarabel.DefaultSettings()
            settings.verbose = False
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
            settings.tol_infeas_abs = settings.tol_infeas_rel = INFEASIBLE
            settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = 10 * tolerance
            found = clarabel.DefaultSolver(P, self.f, columns, h, cones, settings).solve()
            if str(found.status) in ("Solved", "AlmostSolved"):
                parts = np.split(np.array(found.z), np.cumsum([len(block[1]) for block in self.blocks.values()])[:-1])
                duals = {name: z / block[2] for (name, block), z in zip(self.blocks.items(), parts, strict=True)}
                return np.array(found.x), duals
            if str(found.status) == "PrimalInfeasible":
                return None
        raise UnclearError(str(found.status))


@dataclass(frozen=True)
class _Choice:
    """A choice in units of its own: the free changes are unit·z, and ``fixed`` is Δ with zeros there."""

    numbers: Numbers
    free: list[int]
    fixed: np.ndarray
    unit: np.ndarray
    tight: float

    @property
    def s(self) -> np.ndarray:
        return self.numbers.s + self.numbers.S @ self.fixed

    @property
    def S(self) -> np.ndarray:
        return self.numbers.S[:, self.free] * self.unit

    @property
    def sparse(self) -> np.ndarray:
        """Which of the free features cost |Δ|: their places."""
        return np.flatnonzero(self.numbers.w[self.free] > 0)

    def change(self, z: np.ndarray) -> np.ndarray:
        out, free = self.fixed.copy(), self.free
        out[free] = np.clip(self.unit * z[: len(free)], self.numbers.low[free], self.numbers.high[free])
        return out

    def limit(self, program: _Program, *, far: bool = False) -> None:
        """Rows for the rules and the box; ``far`` closes it."""
        num, free, unit = self.numbers, self.free, self.unit
        left, room = num.c - num.C @ self.fixed, self.tight * (num.size + np.abs(num.C) @ np.abs(self.fixed))
        free_in = np.abs(num.C[:, free]).max(axis=1, initial=0.0) > 0
        equal, less = free_in & num.equal, free_in & ~num.equal
        program.add("equal", num.C[np.ix_(equal, free)] * unit, left[equal], clarabel.ZeroConeT)
        program.add("less", num.C[np.ix_(less, free)] * unit, (left - room)[less])
        for name, sign, end in (("high", 1.0, num.high[free]), ("low", -1.0, -num.low[free])):
            ends = np.where(np.isinf(end), FAR / np.sqrt(np.diag(num.Q)[free]), end) / unit if far else end / unit
            program.add(name, sign * np.eye(len(free))[np.isfinite(ends)], ends[np.isfinite(ends)])

    def price(self, duals: dict[str, np.ndarray], y: np.ndarray, offset: float) -> Price:
        """From the multipliers y ≥ 0 of the margins and those of the rows; ``offset`` is what they add besides."""
        num, free, D = self.numbers, np.array(self.free), self.fixed.size
        free_in = np.abs(num.C[:, free]).max(axis=1, initial=0.0) > 0
        nu, slope, constant = np.zeros(len(num.c)), np.zeros(D), np.zeros(D)
        nu[free_in & num.equal] = duals.get("equal", 0.0)
        nu[free_in & ~num.equal] = np.maximum(duals.get("less", 0.0), 0.0)
        for name, sign, end in (("high", 1.0, num.high), ("low", -1.0, -num.low)):
            some = np.flatnonzero(np.isfinite(end[free]))
            if name in duals and len(duals[name]) == len(some):
                dual = np.maximum(duals[name], 0.0) / self.unit[some]
                slope[free[some]] += sign * dual
                constant[free[some]] -= dual * end[free[some]]
        if "above" in duals:
            some = free[self.sparse]
            bend = (duals["above"] - duals["below"]) / self.unit[self.sparse]
            slope[some] += np.clip(bend, -num.w[some], num.w[some])
        return Price(y @ num.S + nu @ num.C, float(y @ num.s - nu @ num.c) + offset, slope, constant, float(y.sum()))


def _exponentials(program: _Program, choice: _Choice, first: int, level: float, at: int | None) -> None:
    """``Σ_i exp(s_i − level) ≤ 1``, with variables for the terms from ``first`` on; or the level is a variable, ``at``.

    With λ the target itself is one of the classes, with s = 0.
    """
    s, S = choice.s, choice.S
    if choice.numbers.goal == "lam":
        s, S = np.append(s, 0.0), np.vstack([S, np.zeros(S.shape[1])])
    K, n = S.shape
    total = np.zeros((1, first + K))
    total[0, first:] = 1.0
    program.add("total", total, np.ones(1))
    G, h = np.zeros((3 * K, program.n)), np.zeros(3 * K)  # (s_i − level, 1, e_i) in the cone
    G[0::3, :n], h[0::3], h[1::3], G[2::3, first : first + K] = -S, s - level, 1.0, -np.eye(K)
    if at is not None:
        G[0::3, at] = 1.0
    program.add("exp", G, h, clarabel.ExponentialConeT)


def _entropy(q: np.ndarray) -> float:
    return -float(q[q > 0] @ np.log(q[q > 0]))


# ---- the least value ----


def least(numbers: Numbers, free: list[int], fixed: np.ndarray) -> Found | None:
    """The optimum of a choice; None where no point of it meets the goal."""
    if not _rules_hold(numbers, free, fixed):
        return None
    if not free:
        return Found(fixed, numbers.value(fixed)) if numbers.goal == "lam" or numbers.level(fixed) <= numbers.rho else None
    radius, found = _radius(numbers, free, fixed), None
    for _ in range(3):
        try:
            found = _with_room(lambda tight, r=radius: _least(_choice(numbers, free, fixed, r, tight)), numbers)
        except UnclearError:
            if found is None:
                raise
            break  # in other units it was clear
        if found is None:
            return None
        length = math.sqrt(max(float(found.change @ numbers.Q @ found.change), 0.0))
        small = length * RATIO < radius and numbers.goal != "lam" and length > 0  # a short way does not matter beside a loss
        if not small and length <= radius * RATIO:
            break
        radius = length
    return found


def _choice(numbers: Numbers, free: list[int], fixed: np.ndarray, radius: float, tight: float) -> _Choice:
    return _Choice(numbers, free, fixed, radius / np.sqrt(np.diag(numbers.Q)[free]), tight)


def _with_room(solve: Callable[[float], Found | None], numbers: Numbers) -> Found | None:
    """With rules made a little tighter; as they are, where that leaves no point: a rule that just holds has no room."""
    found = None
    for tight in (TIGHT, 0.0) if len(numbers.c) else (0.0,):
        found = solve(tight)
        if found is not None:
            break
    return found


def _rules_hold(numbers: Numbers, free: list[int], fixed: np.ndarray) -> bool:
    """Whether the rules in which nothing is free hold, up to rounding."""
    held = np.abs(numbers.C[:, free]).max(axis=1, initial=0.0) == 0
    left, slip = numbers.c - numbers.C @ fixed, ROUNDED * (numbers.size + np.abs(numbers.C) @ np.abs(fixed)) + numbers.beside
    return bool((np.where(numbers.equal, -np.abs(left), left) >= -slip)[held].all())


def _radius(numbers: Numbers, free: list[int], fixed: np.ndarray) -> float:
    """About how long the change is: to the farthest rival alone, or into the box."""
    roots = np.sqrt(np.diag(numbers.Q)[free])
    S, s = numbers.S[:, free], numbers.s + numbers.S @ fixed
    length = np.sqrt(np.einsum("id,de,ie->i", S, np.linalg.inv(numbers.Q[np.ix_(free, free)]), S))
    need = np.maximum(s - (0.0 if numbers.goal == "lam" else numbers.rho), 0.0)
    ahead = np.divide(need, length, out=np.zeros_like(need), where=length > 0)
    if numbers.goal == "lam":
        ahead = np.minimum(ahead + 1.0, length / numbers.lam)
    outside = np.maximum(np.maximum(numbers.low[free], -numbers.high[free]), 0.0) * roots
    found = max(float(ahead.max(initial=0.0)), float(outside.max(initial=0.0)))
    return found if SHORTEST < found < math.inf else 1.0


def _least(choice: _Choice) -> Found | None:
    numbers, weighed = choice.numbers, choice.numbers.goal == "lam"
    K, n, m = len(choice.s), len(choice.free), len(choice.sparse)
    whole = 1.0 if weighed else float(np.square(choice.unit[0]) * numbers.Q[choice.free[0], choice.free[0]])
    linear = numbers.goal == "margin" or K + weighed == 1
    program = _costs(choice, 0 if linear else K + 2 * weighed, whole)
    if linear:
        program.add("goal", choice.S, numbers.rho - choice.s)
    else:
        _exponentials(program, choice, n + m, 0.0 if weighed else numbers.rho, program.n - 1 if weighed else None)
        program.f[-1] = float(weighed)
    found = program.solve()
    if found is None:
        return None
    z, duals = found
    change, duals = choice.change(z), {name: dual * whole for name, dual in duals.items()}
    if not weighed and numbers.level(change) > numbers.rho + numbers.allow / 2:
        raise UnclearError("the goal is missed")
    y = np.maximum(duals["goal"] if linear else -duals["exp"][0::3], 0.0)
    y = y / y.sum() if weighed else y
    weight = float(y.sum())
    offset = (0.0 if linear else weight * _entropy(y / weight) if weight else 0.0) - (0.0 if weighed else weight * numbers.rho)
    return Found(change, numbers.value(change), choice.price(duals, y[:K], offset))


def _costs(choice: _Choice, more: int, whole: float) -> _Program:
    """A choice's cost over ``whole``, and its limits. The variables are z, then u ≥ |z| where that costs, then ``more``."""
    numbers, free, unit, places = choice.numbers, choice.free, choice.unit, choice.sparse
    n, m = len(free), len(places)
    program = _Program(n + m + more)
    program.P[:n, :n] = numbers.lam / whole * numbers.Q[np.ix_(free, free)] * np.outer(unit, unit)
    program.f[:n] = numbers.lam / whole * (numbers.Q @ choice.fixed)[free] * unit
    program.f[n : n + m] = (numbers.w[free] * unit)[places] / whole
    choice.limit(program)
    for name, sign in (("above", 1.0), ("below", -1.0)):
        program.add(name, np.hstack([sign * np.eye(n)[places], -np.eye(m)]), np.zeros(m))
    return program


# ---- the best probability or lead ----


def best(numbers: Numbers, free: list[int], fixed: np.ndarray) -> Found | None:
    """The least level of a choice, whatever it costs; None where no point of it is within the limits."""
    if not _rules_hold(numbers, free, fixed):
        return None
    if not free:
        return Found(fixed, numbers.level(fixed))
    wide = np.maximum(np.abs(numbers.low[free]), np.abs(numbers.high[free])) * np.sqrt(np.diag(numbers.Q)[free])
    wide = wide[np.isfinite(wide)]
    radius = float(wide.max()) if wide.size and wide.max() > 0 else 1.0
    return _with_room(lambda tight: _best(_choice(numbers, free, fixed, radius, tight)), numbers)


def _best(choice: _Choice) -> Found | None:
    numbers, K, n = choice.numbers, len(choice.s), len(choice.free)
    linear = numbers.goal == "margin" or K == 1
    program = _Program(n + 1 if linear else n + K + 1)
    choice.limit(program, far=True)
    program.f[-1] = 1.0
    if linear:
        program.add("goal", np.hstack([choice.S, -np.ones((K, 1))]), -choice.s)
    else:
        _exponentials(program, choice, n, 0.0, n + K)
    found = program.solve()
    if found is None:
        return None
    z, duals = found
    change = choice.change(z)
    y = np.maximum(duals["goal"] if linear else -duals["exp"][0::3], 0.0)
    q = y / y.sum()
    return Found(change, numbers.level(change), choice.price(duals, q[:K], 0.0 if linear else _entropy(q)))
