"""The truth about small problems with limits, by trying every discrete choice; it shares no code with the library.

With Δ = x − x̄ the cost is ``½ΔᵀQΔ + Σ_d w_d|Δ_d|``; a probability or a margin bounds it from below, λ weighs it:
``(λ/2)ΔᵀQΔ + Σ_d w_d|Δ_d| − ln p_k``. A choice fixes every feature on a grid, every group, and which of the others move; what
is left is a small convex program, solved by Clarabel. Choices are tried in the order of what their fixed part alone costs,
until that is more than the best that was found.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse

import ifonly
from ifonly import Actions, Cost, Model, Status

__all__ = ["CONTRADICTION", "Problem", "judge", "truth"]

MOST_CHOICES = 6000  # that are tried
NEAR = 1e-6  # relative to 1 + the value: Clarabel's answers are right to some 1e-9
TOLERANCES = (1e-11, 1e-10, 1e-9, 1e-8)  # of Clarabel's; the tightest that it comes to
UNCLEAR = 1e-7  # a best probability this near to the one that is wanted decides nothing
ON_GRID = 1e-9  # relative to the step: nearer to a multiple, a number is one
CONTRADICTION = {"contradiction": True}
NOWHERE = {"reachable": False, "least": None, "largest_p": None}


class UnclearError(Exception):
    """There is too much to try, or Clarabel does not settle it."""


@dataclass(frozen=True)
class Problem:
    """One source and one question, as they are given to `ifonly.invert`; features by number or as "f3"."""

    A: np.ndarray
    b: np.ndarray
    x: np.ndarray
    among: tuple[int, ...]  # the class, or those of which the nearest is wanted
    goal: dict[str, float]
    actions: Actions | None = None
    cost: Cost | None = None
    max_changes: int | None = None

    @classmethod
    def of(cls, model: Model, x: Any, target: Any, limits: dict[str, Any], goal: dict[str, float]) -> "Problem":
        """From the arguments of `invert`; the target is a label, a set of them, or anything else for the nearest other."""
        classes, x = model.classes.tolist(), np.asarray(x, dtype=float)
        wanted = target if isinstance(target, (set, list)) else [target] if target in classes else None
        now = int((model.A @ x + model.b).argmax())
        among = [classes.index(label) for label in wanted] if wanted else [k for k in range(len(classes)) if k != now]
        default = {"margin": 0.0} if model.hard else {"prob": 0.5}
        return cls(model.A, model.b, x, tuple(sorted(among)), goal or default, **limits)

    @property
    def kind(self) -> str:
        """ "lam", "prob" or "margin"."""
        return next(iter(self.goal))


class Limits:
    """The limits of a problem as arrays, around its source; ``wrong`` says what is contradictory about them."""

    def __init__(self, problem: Problem) -> None:
        self.x, D = problem.x, problem.x.size
        actions = problem.actions or Actions()
        self.lo, self.hi = np.full(D, -np.inf), np.full(D, np.inf)
        pairs = actions.bounds if isinstance(actions.bounds, dict) else dict.fromkeys(range(D), actions.bounds or (None, None))
        for name, (low, high) in pairs.items():
            d = number(name)
            self.lo[d], self.hi[d] = -np.inf if low is None else low, np.inf if high is None else high
        self.frozen = flags(actions.frozen, D)
        self.wrong = bool((self.frozen & ((self.x < self.lo) | (self.x > self.hi))).any())
        rise, fall = flags(actions.increase, D), flags(actions.decrease, D)
        self.lo = np.where(rise, np.maximum(self.lo, self.x), self.lo)
        self.hi = np.where(fall, np.minimum(self.hi, self.x), self.hi)
        self.lo, self.hi = np.where(self.frozen, self.x, self.lo), np.where(self.frozen, self.x, self.hi)
        groups = actions.one_of or ()
        groups = [groups] if len(groups) and isinstance(groups[0], (str, int)) else groups
        self.groups = [[number(name) for name in group] for group in groups]
        self.step = np.where(flags(actions.integer, D), 1.0, 0.0)
        for name, step in (actions.step or {}).items():
            self.step[number(name)] = step
        self.step[self.frozen | flags([d for group in self.groups for d in group], D)] = 0.0
        for group in self.groups:
            self.wrong |= sorted(self.x[group]) != [0.0] * (len(group) - 1) + [1.0]
        self.wrong |= bool((self.lo > self.hi).any())
        self.rules = [(self.row(rule, D), sense, float(rest)) for rule, sense, rest in actions.linear or ()]
        self.max_changes = problem.max_changes

    @staticmethod
    def row(rule: dict[Any, float], D: int) -> np.ndarray:
        """The coefficients of a rule."""
        out = np.zeros(D)
        for name, value in rule.items():
            out[number(name)] += value
        return out

    def grid(self, d: int) -> list[float]:
        """The values that a feature on a grid may have; its own where that is one up to rounding."""
        step = Fraction(float(self.step[d])).limit_denominator(10**6)
        low, high = (float(v[d]) / float(step) for v in (self.lo, self.hi))
        if not (math.isfinite(low) and math.isfinite(high)):
            raise UnclearError(f"feature {d} is on a grid without an end")
        found = [float(n * step) for n in range(math.ceil(low - ON_GRID), math.floor(high + ON_GRID) + 1)]
        found = [min(max(v, float(self.lo[d])), float(self.hi[d])) for v in found]
        return [float(self.x[d]) if abs(v - self.x[d]) <= ON_GRID * step else v for v in found]

    def choices(self) -> Iterator[tuple[dict[int, float], int]]:
        """Every choice of what is discrete: values by feature, and how many of its features and groups move."""
        grids = [d for d in range(self.x.size) if self.step[d]]
        parts = [[({d: v}, int(v != self.x[d])) for v in self.grid(d)] for d in grids]
        for group in self.groups:
            states = [{d: float(d == one) for d in group} for one in group]
            allowed = [state for state in states if all(self.lo[d] <= v <= self.hi[d] for d, v in state.items())]
            parts.append([(state, int(any(self.x[d] != v for d, v in state.items()))) for state in allowed])
        for combination in itertools.product(*parts):
            yield {d: v for part, _ in combination for d, v in part.items()}, sum(moved for _, moved in combination)

    def free(self) -> list[int]:
        """The features that are neither on a grid nor in a group, and may move."""
        taken = {d for group in self.groups for d in group}
        return [d for d in range(self.x.size) if not self.step[d] and d not in taken and self.lo[d] < self.hi[d]]

    def broken(self, x: np.ndarray) -> str:
        """The first limit that an answer breaks, in words; comparisons are exact, but for equations."""
        off = np.flatnonzero(~((x >= self.lo) & (x <= self.hi)))
        if off.size:
            return f"feature {off[0]} is {x[off[0]]!r}, outside [{self.lo[off[0]]!r}, {self.hi[off[0]]!r}]"
        for d in np.flatnonzero(self.step):
            if x[d] != self.x[d] and x[d] not in (self.lo[d], self.hi[d]) and x[d] not in self.grid(int(d)):
                return f"feature {d} is {x[d]!r}, no multiple of {self.step[d]}"
        for group in self.groups:
            if sorted(x[group]) != [0.0] * (len(group) - 1) + [1.0]:
                return f"the group {group} is {x[group].tolist()}"
        for row, sense, rest in self.rules:
            value, size = row @ x, np.abs(row) @ np.abs(x) + abs(rest)
            slack = 1e-12 * size
            if abs(value - rest) > slack if sense == "==" else value > rest + slack if sense == "<=" else value < rest - slack:
                return f"a rule is broken: {value!r} {sense} {rest!r}"
        moved = x != self.x
        grouped = [d for group in self.groups for d in group]
        count = int(np.delete(moved, grouped).sum()) + sum(bool(moved[group].any()) for group in self.groups)
        return f"{count} changes" if self.max_changes is not None and count > self.max_changes else ""


def number(name: Any) -> int:
    """The feature that a name of ours means."""
    return int(str(name).removeprefix("f"))


def flags(names: Any, D: int) -> np.ndarray:
    """Which features a value of `Actions` means."""
    out = np.zeros(D, dtype=bool)
    out[range(D) if names is True else [number(name) for name in ([names] if isinstance(names, str) else names or ())]] = True
    return out


def price(cost: Cost | None, D: int) -> tuple[np.ndarray, np.ndarray]:
    """Q and w of a cost."""
    cost = cost or Cost()
    Q = np.eye(D)
    if cost.matrix is not None:
        Q = np.asarray(cost.matrix)
    elif not isinstance(cost.scale, str):
        Q = np.diag(each(cost.scale, D, 1.0) ** 2)
    elif cost.fitted is not None:
        Q = np.diag(each(cost.fitted, D, 1.0) ** 2)
    return Q, each(cost.l1, D, 0.0) * np.sqrt(np.diag(Q))


def each(value: Any, D: int, other: float) -> np.ndarray:
    """One number per feature, from a number, a mapping or an array."""
    if not isinstance(value, dict):
        return np.broadcast_to(np.asarray(value, dtype=float), (D,)).copy()
    out = np.full(D, other)
    for name, v in value.items():
        out[number(name)] = v
    return out


# ---- the truth ----


def truth(problem: Problem) -> dict[str, Any] | None:
    """The least value, or else the largest probability, or that limits contradict; None where it is not clear, or too much."""
    limits = Limits(problem)
    if limits.wrong:
        return CONTRADICTION
    try:
        options = _options(problem, limits)
        best = math.inf
        for bound, fixed, free in options:
            if bound >= best:
                break
            best = min(best, *(_least(problem, limits, fixed, free, k) for k in problem.among))
        if math.isfinite(best):
            return {"reachable": True, "least": best, "largest_p": None}
        losses = [_least(problem, limits, fixed, free, k, best=True) for _, fixed, free in options for k in problem.among]
    except UnclearError:
        return None
    largest = math.exp(-min(losses, default=math.inf))
    if largest == 0:
        return CONTRADICTION
    if problem.kind == "margin":
        return dict(NOWHERE)
    return {"reachable": False, "least": None, "largest_p": largest} if abs(largest - problem.goal["prob"]) > UNCLEAR else None


Option = tuple[float, np.ndarray, list[int]]


def _options(problem: Problem, limits: Limits) -> list[Option]:
    """Every choice: what it costs at least, the point with its values, and the features left to move; the cheapest first."""
    Q, w = price(problem.cost, problem.x.size)
    scale = problem.goal.get("lam", 1.0)
    free, out = limits.free(), []
    need = [d for d in free if not limits.lo[d] <= problem.x[d] <= limits.hi[d]]
    for values, moved in limits.choices():
        point = problem.x.copy()
        point[list(values)] = list(values.values())
        left = len(free) if problem.max_changes is None else min(problem.max_changes - moved, len(free))
        if left < len(need):
            continue
        rest = [d for d in free if d not in need]
        for more in itertools.combinations(rest, left - len(need)):
            able = sorted([*need, *more])
            change = point - problem.x
            held = np.delete(np.arange(change.size), able)
            square = change[held] @ Q[np.ix_(held, held)] @ change[held]
            if able:
                cross = Q[np.ix_(able, held)] @ change[held]
                square -= cross @ np.linalg.solve(Q[np.ix_(able, able)], cross)
            out.append((scale * 0.5 * max(float(square), 0.0) + float(w @ np.abs(change)), point, able))
            if len(out) > MOST_CHOICES:
                raise UnclearError("too many choices")
    return sorted(out, key=lambda option: option[0])


def _least(problem: Problem, limits: Limits, point: np.ndarray, able: list[int], k: int, *, best: bool = False) -> float:
    """The least value with everything fixed but the features ``able``, or the least −ln p; inf for none.

    The variables are the changes d of these features, then u ≥ |d|; unless scores decide alone, then e_j ≥ exp(s_j − v) and v,
    where s_j is how far class j is ahead of k, and v bounds ``ln Σ_j exp s_j``, which is −ln p_k.
    """
    Q, w = price(problem.cost, problem.x.size)
    K, n = len(problem.b), len(able)
    rivals = [j for j in range(K) if j != k]
    diff = problem.A[rivals] - problem.A[k]
    ahead = diff @ point + problem.b[rivals] - problem.b[k]
    fixed = point - problem.x
    kind, want = ("best", 0.0) if best else (problem.kind, problem.goal[problem.kind])
    linear = kind == "margin" or (kind == "prob" and K == 2)
    program = _Program(2 * n if linear else 2 * n + K + 1)
    u, e, v = n, 2 * n, 2 * n + K
    if kind != "best":
        scale = want if kind == "lam" else 1.0
        program.P[:n, :n] = scale * Q[np.ix_(able, able)]
        program.q[:n] = scale * Q[able] @ fixed
        program.q[u : u + n] = w[able]
        program.constant = float(scale * 0.5 * fixed @ Q @ fixed + w @ np.abs(fixed))
    for i, d in enumerate(able):
        program.at_most({i: 1.0, u + i: -1.0}, 0.0)
        program.at_most({i: -1.0, u + i: -1.0}, 0.0)
        program.at_most({i: 1.0}, limits.hi[d] - point[d])
        program.at_most({i: -1.0}, point[d] - limits.lo[d])
    for coefficients, sense, rest in limits.rules:
        turn = -1.0 if sense == ">=" else 1.0
        left, size = turn * float(rest - coefficients @ point), np.abs(coefficients) @ np.abs(point) + abs(rest)
        entries = {i: turn * coefficients[d] for i, d in enumerate(able)}
        if any(entries.values()):
            (program.equals if sense == "==" else program.at_most)(entries, left)
        elif (abs(left) if sense == "==" else -left) > 1e-12 * size:  # nothing that moves is in it, and it is broken
            return math.inf
    if linear:
        lead = want if kind == "margin" else math.log(want) - math.log1p(-want)
        for j in range(K - 1):
            program.at_most(dict(enumerate(diff[j, able])), -lead - ahead[j])
        return program.solve()
    if kind == "prob":
        program.equals({v: 1.0}, -math.log(want))
    else:
        program.q[v] = 1.0
    program.at_most({e + j: 1.0 for j in range(K)}, 1.0)
    program.at_least_exp({v: 1.0}, 0.0, e)  # of k itself
    for j in range(K - 1):
        slopes = {i: -diff[j, d] for i, d in enumerate(able)}
        program.at_least_exp({**slopes, v: 1.0}, ahead[j], e + 1 + j)
    return program.solve()


class _Program:
    """``min ½yᵀPy + qᵀy`` subject to rows ``Gy + s = h`` with s in cones, as Clarabel takes it."""

    def __init__(self, n: int) -> None:
        self.P, self.q, self.constant = np.zeros((n, n)), np.zeros(n), 0.0
        self.equal: list[tuple[dict[int, float], float]] = []
        self.less: list[tuple[dict[int, float], float]] = []
        self.exponential: list[tuple[dict[int, float], float]] = []

    def equals(self, entries: dict[int, float], rest: float) -> None:
        """``entries·y = rest``."""
        self.equal.append((entries, rest))

    def at_most(self, entries: dict[int, float], rest: float) -> None:
        """``entries·y ≤ rest``; an infinite one is none."""
        if math.isfinite(rest):
            self.less.append((entries, rest))

    def at_least_exp(self, entries: dict[int, float], rest: float, place: int) -> None:
        """``y[place] ≥ exp(rest − entries·y)``."""
        self.exponential += [(entries, rest), ({}, 1.0), ({place: -1.0}, 0.0)]

    def solve(self) -> float:
        """The least value; inf where there is none."""
        import clarabel

        n = self.q.size
        if not n:
            return self.constant if all(rest >= -1e-12 for _, rest in self.less) else math.inf
        rows = [*self.equal, *self.less, *self.exponential]
        G = np.zeros((len(rows), n))
        for i, (entries, _) in enumerate(rows):
            G[i, list(entries)] = list(entries.values())
        cones = [clarabel.ZeroConeT(len(self.equal))] if self.equal else []
        cones += [clarabel.NonnegativeConeT(len(self.less))] if self.less else []
        cones += [clarabel.ExponentialConeT() for _ in range(len(self.exponential) // 3)]
        P, h = sparse.csc_matrix(np.triu(self.P)), np.array([rest for _, rest in rows])
        for tolerance in TOLERANCES:
            settings = clarabel.DefaultSettings()
            settings.verbose = False
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
            settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = 10 * tolerance
            found = clarabel.DefaultSolver(P, self.q, sparse.csc_matrix(G), h, cones, settings).solve()
            if str(found.status) in ("Solved", "AlmostSolved"):
                return float(found.obj_val) + self.constant
            if str(found.status) == "PrimalInfeasible":
                return math.inf
        raise UnclearError(str(found.status))


# ---- what is wrong with an answer ----


def judge(problems: Sequence[Problem], known: Sequence[dict[str, Any] | None], found: Any) -> str:
    """What is wrong with the outcome of a question, by the names of the cases beside the checkout; empty for nothing.

    What is known of an answer may be None: then nothing is said of it.
    """
    if not problems:
        return ""
    many = isinstance(found, ifonly.Counterfactuals)
    if many and len(found) != len(problems):
        return f"COUNT {len(found)} answers"
    answers = list(found) if many else [found] * len(problems)
    found = [judge_one(p, t, answer) for p, t, answer in zip(problems, known, answers, strict=True) if t is not None]
    return "; ".join(filter(None, found))


def judge_one(problem: Problem, known: dict[str, Any], found: Any) -> str:
    """What is wrong with one answer."""
    if isinstance(found, BaseException):
        refused = isinstance(found, ifonly.InputError)
        if refused and ("contradiction" in known or (known == NOWHERE and "contradict" in str(found))):
            return ""  # that no point keeps the limits is one way not to reach a margin
        return f"EXC {type(found).__name__}: {str(found)[:80]}"
    if "contradiction" in known:
        accepted = found.status in (Status.INVALID, Status.UNREACHABLE)
        return "" if accepted else f"LIMIT {found.status.name}, but the limits contradict each other"
    x, limits, k = np.asarray(found.coordinates[1]), Limits(problem), found.model.class_index(found.target)
    z = problem.A @ x + problem.b
    lead = z[k] - np.delete(z, k).max()
    p = 1 / np.exp(z - z[k]).sum()
    broken = limits.broken(x) if np.isfinite(x).all() else "no answer"
    if broken:
        return f"LIMIT {broken}"
    if k not in problem.among:
        return f"TARGET {found.target!r}"
    try:
        found.verify()
    except ifonly.CertificateError as error:
        return f"VERIFY {error}"
    if not known["reachable"]:
        if found.status is not Status.UNREACHABLE:
            return f"FALSE_REACHED {found.status.name}"
        largest = known["largest_p"]
        return f"NOTBEST p = {p:.9g}, largest {largest:.9g}" if largest is not None and p < largest * (1 - NEAR) else ""
    if found.status is Status.UNREACHABLE:
        return "FALSE_UNREACHABLE"
    if not found.status.ok:
        return f"STATUS {found.status.name}"
    Q, w = price(problem.cost, x.size)
    change = x - problem.x
    square, sparsity = 0.5 * change @ Q @ change, w @ np.abs(change)
    value = problem.goal["lam"] * square + sparsity - math.log(p) if problem.kind == "lam" else square + sparsity
    least, slack = known["least"], NEAR * (1 + abs(known["least"]))
    if problem.kind == "prob" and p < problem.goal["prob"] - 1e-12:
        return f"MISSED p = {p!r}"
    if problem.kind == "margin" and lead < problem.goal["margin"] - 1e-12 * (1 + np.abs(z).max()):
        return f"MISSED lead = {lead!r}"
    if value > least + slack:
        return f"WORSE {value:.9g}, least {least:.9g}"
    if value < least - slack:
        return f"BETTER {value:.9g} than the least, {least:.9g}: the truth is none"
    if abs(value - (found.objective if problem.kind == "lam" else found.cost)) > slack:
        return f"VALUE {value:.9g} is called {found.cost:.9g}"
    if found.bound > least + slack:
        return f"FALSEBOUND {found.bound:.9g}, least {least:.9g}"
    return f"GAPBIG {found.gap:.3g}" if not found.gap <= slack else ""
