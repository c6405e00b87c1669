"""What is true of a problem with limits, by trying every discrete choice; it shares no code with the library.

A choice is a value for every feature on a grid, an option for every group, and (where few may move) which of the others move.
All of them are listed, and what is left is a small convex program (`programs`). The choice with the least lower bound is solved
next; its multipliers bound all others, in one vectorised pass, and those whose bound is above the best value are not solved:

    value(Δ) ≥ κ + Σ_fixed (½λQ_dd Δ_d² + w_d|Δ_d| + g_dΔ_d) + Σ_free min over their box of the same          without a matrix,
    value(Δ) ≥ κ + the same over fixed features − ½hᵀ(λQ_free)⁻¹h + Σ_free constant_d                          with one,

h = λQ_{free,fixed}Δ_fixed + g_free + slope_free (see `programs.Price`). Any multipliers make valid bounds.

**Grids without ends.** First they may have any value. If that is out of reach, or contradictory, so is the rest. Otherwise its
multipliers bound the value from below by m₀ + ½(Δ_d − Δ⁰_d)²/((λQ)⁻¹)_dd, with Δ⁰ = −(λQ)⁻¹g and m₀ = κ − ½gᵀ(λQ)⁻¹g; and once
a point is known that reaches the goal, of value U, the optimum has Δ_d where that is at most U.

**Witnesses.** What is true is said by points: one that reaches the goal at the least cost, or one with the largest probability.
Both keep every limit to the last bit and meet their claim in exact arithmetic, or ``firm`` is False and nobody is accused.
"""

import itertools
import math
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from tests.limits.problem import EPS, Limits, Problem
from tests.limits.programs import FAR, Found, Numbers, Price, UnclearError, best, least

__all__ = ["Truth", "truth"]

MOST_CHOICES = 60_000  # in memory
MOST_SOLVED = 150  # programs; some 5 are needed
NEAR = 1e-9  # relative: what goals are tightened by, beside rounding
PRUNED = 1e-10  # relative: a choice whose bound is this near to the best value is not solved
ROOM = 4.0  # times the rounding of scores: what goals are tightened by besides
LARGE = 1e-3  # rounding of scores above it: nothing is said of what is reached
STEPS = 3  # of a grid without ends, beyond the optimum without the grid


@dataclass(frozen=True, eq=False)
class Truth:
    """What is known.

    Attributes
    ----------
    contradictory : bool
        Whether no point keeps the limits.
    reachable : bool or None
        Whether a point within the limits meets the goal; None where that is not clear. With λ there is nothing to reach.
    least, point : float, ndarray or None
        The least value, and a point that has it.
    largest : float or None
        Where the goal is out of reach: the largest p (or lead) within the limits, at ``point``.
    firm : bool
        Whether the point keeps the limits and the goal, to the last bit.
    whole : bool
        Whether all choices were looked at: otherwise ``least`` and ``largest`` are those of some point, no optimum for certain.
    far : bool
        Whether the largest p is approached far away, where no bound ends it.
    weight : float
        How much more a goal costs that is higher by one logit.
    solved, choices : int

    """

    contradictory: bool = False
    reachable: bool | None = None
    least: float | None = None
    point: np.ndarray | None = None
    largest: float | None = None
    firm: bool = False
    whole: bool = True
    far: bool = False
    weight: float = 0.0
    solved: int = 0
    choices: int = 0


def truth(problem: Problem, *, loosened: bool = False) -> Truth:
    """The truth about a problem; ``loosened``: with goals made easier by what they are made harder otherwise."""
    limits = Limits(problem)
    if limits.wrong:
        return Truth(contradictory=True, reachable=False)
    allow = NEAR * max(1.0, abs(_wanted(problem))) + problem.p_error
    rounding = problem.logit_error(problem.x)
    easy = allow if loosened else -allow - ROOM * rounding
    stays = not limits.broken(problem.x) if loosened else limits.keeps(problem.x)
    if problem.goal != "lam" and stays and problem.short(problem.x) <= easy:
        return Truth(reachable=True, least=0.0, point=problem.x, firm=problem.short(problem.x) <= 0)
    for _ in range(3):
        found = _search(problem, limits, -allow if loosened else allow + ROOM * rounding)
        if found.point is None or loosened or problem.logit_error(found.point) <= ROOM / 2 * rounding + allow / 4:
            break
        rounding = problem.logit_error(found.point)
    if found.point is None:
        return found
    rounded = problem.logit_error(found.point) > LARGE
    return replace(found, firm=found.firm and not rounded, whole=found.whole and not rounded)


def _wanted(problem: Problem) -> float:
    """The goal in logits."""
    return math.log(problem.want) - math.log1p(-problem.want) if problem.goal == "prob" else problem.want


# ---- choices ----


@dataclass
class Choices:
    """All of them: the fixed changes Δ (0 where free), and which features are free, (N, D) each; bounds on value and level."""

    fixed: np.ndarray
    free: np.ndarray
    bound: np.ndarray
    level: np.ndarray


def _parts(limits: Limits, ranges: dict[int, tuple[float, float]]) -> list[list[tuple[dict[int, float], int]]]:
    """For each thing that is chosen: the values it can have, by feature, and whether that is a change."""
    parts = []
    for d in limits.step:
        values = dict.fromkeys(limits.grid(d, *ranges.get(d, (-math.inf, math.inf))))
        parts.append([({d: v}, int(v != limits.x[d])) for v in values])
    for group in limits.groups:
        states = [{d: float(d == one) for d in group} for one in limits.options(group)]
        parts.append([(state, int(any(limits.x[d] != v for d, v in state.items()))) for state in states])
    return parts


def _choices(limits: Limits, numbers: Numbers, ranges: dict[int, tuple[float, float]]) -> Choices:
    """Every choice within the ranges that keeps "at most so many", and could keep each rule by itself."""
    free, D = limits.free, limits.x.size
    must = [d for d in free if not limits.lo[d] <= limits.x[d] <= limits.hi[d]]
    parts = _parts(limits, ranges)
    if math.prod(len(part) for part in parts) > MOST_CHOICES:
        raise UnclearError("too many choices")
    fixed, count = np.zeros((1, D)), np.zeros(1, dtype=int)
    for part in parts:
        more = np.zeros((len(part), D))
        for row, (state, _) in zip(more, part, strict=True):
            for d, v in state.items():
                row[d] = v - limits.x[d]
        fixed = (fixed[:, None] + more).reshape(-1, D)
        count = (count[:, None] + np.array([moved for _, moved in part])).ravel()
    masks, of = [], []
    for moved in np.unique(count):
        left = len(free) if limits.max_changes is None else min(limits.max_changes - int(moved), len(free))
        if left >= len(must):
            rest = [d for d in free if d not in must]
            rows = np.flatnonzero(count == moved)
            if len(rows) * math.comb(len(rest), left - len(must)) > MOST_CHOICES:
                raise UnclearError("too many choices")
            for some in itertools.combinations(rest, left - len(must)):
                mask = np.zeros(D, dtype=bool)
                mask[[*must, *some]] = True
                masks.append(np.broadcast_to(mask, (len(rows), D)))
                of.append(rows)
    if not of:
        return Choices(np.zeros((0, D)), np.zeros((0, D), dtype=bool), np.zeros(0), np.zeros(0))
    fixed, mask = fixed[np.concatenate(of)], np.concatenate(masks)
    could = _could_keep(numbers, fixed, mask)
    fixed, mask = fixed[could], mask[could]
    return Choices(fixed, mask, np.full(len(fixed), -math.inf), np.full(len(fixed), -math.inf))


def _could_keep(numbers: Numbers, fixed: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Which choices could keep each rule by itself."""
    ok = np.ones(len(fixed), dtype=bool)
    rules = zip(numbers.C, numbers.c, numbers.equal, numbers.size, numbers.beside, strict=True)
    for row, rest, equal, size, beside in rules:
        with np.errstate(invalid="ignore"):
            ends = np.nan_to_num(np.array([row * numbers.low, row * numbers.high]), nan=0.0, posinf=np.inf, neginf=-np.inf)
        slip = 1e-9 * (size + np.abs(fixed) @ np.abs(row)) + beside
        ok &= fixed @ row + np.where(free, ends.min(axis=0), 0.0).sum(axis=1) <= rest + slip
        if equal:
            ok &= fixed @ row + np.where(free, ends.max(axis=0), 0.0).sum(axis=1) >= rest - slip
    return ok


# ---- bounds on all choices ----


def _bounds(numbers: Numbers, choices: Choices, price: Price) -> np.ndarray:
    """What each choice is worth at least."""
    Q, lam, w, g = numbers.Q, numbers.lam, numbers.w, price.g
    fixed, free = choices.fixed, choices.free
    held = np.where(free, 0.0, fixed)
    base = price.kappa + held @ g + np.abs(held) @ w
    curve = lam * np.diag(Q)
    if not (Q - np.diag(np.diag(Q))).any():
        at = np.clip(-np.sign(g) * np.maximum(np.abs(g) - w, 0.0) / curve, numbers.low, numbers.high)
        own = 0.5 * curve * at**2 + w * np.abs(at) + g * at
        return base + 0.5 * np.square(held) @ curve + free @ own
    base = base + 0.5 * lam * np.einsum("nd,de,ne->n", held, Q, held)
    codes = free @ (1 << np.arange(len(w)))
    for code in np.unique(codes).tolist():
        some = np.flatnonzero([code >> d & 1 for d in range(len(w))])
        if len(some):
            rows = np.flatnonzero(codes == code)
            h = lam * held[rows] @ Q[:, some] + (g + price.slope)[some]
            lower = np.linalg.solve(lam * Q[np.ix_(some, some)], h.T).T
            base[rows] += price.constant[some].sum() - 0.5 * (h * lower).sum(axis=1)
    return base


def _levels(numbers: Numbers, choices: Choices, price: Price) -> np.ndarray:
    """What ln Σe^{s_i}, or the largest s_i, is at least for each choice."""
    g, far = price.g, FAR / np.sqrt(np.diag(numbers.Q))
    low, high = np.where(np.isinf(numbers.low), -far, numbers.low), np.where(np.isinf(numbers.high), far, numbers.high)
    own = np.where(g > 0, g * low, g * high)
    return price.kappa + np.where(choices.free, 0.0, choices.fixed) @ g + np.where(choices.free, own, 0.0).sum(axis=1)


# ---- the search ----


class _Search:
    """All choices, and what was found of them."""

    def __init__(self, numbers: Numbers, choices: Choices) -> None:
        self.numbers, self.choices = numbers, choices
        self.open = np.ones(len(choices.bound), dtype=bool)  # may meet the goal
        self.unasked = np.ones(len(choices.bound), dtype=bool)  # the best level of it is not known
        self.found: Found | None = None
        self.top: Found | None = None
        self.solved, self.unclear, self.n = 0, False, len(choices.bound)
        self._know_still()

    def _know_still(self) -> None:
        """Choices in which nothing is free are points: what they are worth is known."""
        numbers, choices, still = self.numbers, self.choices, ~self.choices.free.any(axis=1)
        fixed = choices.fixed[still]
        s = numbers.s + fixed @ numbers.S.T
        level = s.max(axis=1) if numbers.goal == "margin" else np.logaddexp.reduce(s, axis=1)
        value = 0.5 * numbers.lam * np.einsum("nd,de,ne->n", fixed, numbers.Q, fixed) + np.abs(fixed) @ numbers.w
        if numbers.goal == "lam":
            level = np.logaddexp(level, 0.0)
            value += level
        else:
            self.open[still] = level <= numbers.rho
        choices.bound[still], choices.level[still] = value * (1 - PRUNED), level - PRUNED * (1 + np.abs(level))

    def of(self, i: int) -> tuple[list[int], np.ndarray]:
        free = self.choices.free[i]
        return np.flatnonzero(free).tolist(), np.where(free, 0.0, self.choices.fixed[i])

    def least(self, most: int) -> None:
        """The least value of all choices."""
        numbers = self.numbers
        while True:
            choices = self.choices
            limit = math.inf if self.found is None else self.found.value - PRUNED * abs(self.found.value)
            able = self.open & (choices.bound < limit)
            if not able.any():
                return
            if self.solved >= most:
                self.unclear = True
                return
            i = int(np.argmin(np.where(able, choices.bound, math.inf)))
            self.open[i], self.solved = False, self.solved + 1
            try:
                found = least(numbers, *self.of(i))
                if found is None and numbers.goal != "lam":
                    self.ask(i)
            except UnclearError:
                self.unclear = True
                continue
            if found is None:
                continue
            if self.found is None or found.value < self.found.value:
                self.found = found
            if found.price is not None:
                choices.bound = np.maximum(choices.bound, _bounds(numbers, choices, found.price))
                self._forget(self.open & (choices.bound < self.found.value))

    def _forget(self, left: np.ndarray) -> None:
        """Once the goal is known to be within reach, choices that cannot be better are of no use."""
        if left.sum() < len(left) / 2:
            choices, self.open, self.unasked = self.choices, self.open[left], self.unasked[left]
            self.choices = Choices(choices.fixed[left], choices.free[left], choices.bound[left], choices.level[left])

    def ask(self, i: int) -> None:
        """The best level of a choice; those whose level cannot be low enough are closed."""
        numbers, choices = self.numbers, self.choices
        self.unasked[i] = False
        found = best(numbers, *self.of(i))
        if found is None:
            self.open[i] = False
            return
        if self.top is None or found.value < self.top.value:
            self.top = found
        if found.price is not None:
            choices.level = np.maximum(choices.level, _levels(numbers, choices, found.price))
            self.open &= choices.level <= numbers.rho

    def best(self, most: int) -> None:
        """The best level of all choices."""
        while True:
            limit = math.inf if self.top is None else self.top.value - PRUNED * (1 + abs(self.top.value))
            able = self.unasked & (self.choices.level < limit)
            if not able.any():
                return
            if self.solved >= most:
                self.unclear = True
                return
            i = int(np.argmin(np.where(able, self.choices.level, math.inf)))
            self.solved += 1
            try:
                self.ask(i)
            except UnclearError:
                self.unasked[i], self.unclear = False, True


def _search(problem: Problem, limits: Limits, allow: float) -> Truth:
    """The truth, with goals made harder by so much."""
    numbers = Numbers.of(problem, limits, allow)
    endless = [d for d in limits.step if not limits.bounded(d)]
    if not endless or limits.max_changes == 0:
        near = {d: (limits.x[d], limits.x[d]) for d in endless}
        search = _run(limits, numbers, near)
        return Truth(whole=False) if search is None else _told(problem, limits, search, whole=True)
    # 1. Without the grids that have no ends.
    loose = copy(limits)
    loose.step = {d: step for d, step in limits.step.items() if d not in endless}
    root = _run(loose, numbers, {})
    if root is None or root.unclear:
        return Truth(whole=False)
    if root.found is None:
        known = _told(problem, loose, root, whole=True)
        search = _run(limits, numbers, _beside(limits, endless, np.zeros_like(problem.x), 4 * STEPS))
        inner = None if search is None or known.contradictory else _told(problem, limits, search, whole=True)
        found = {} if inner is None else {"point": inner.point, "largest": inner.largest, "firm": inner.firm}
        return replace(known, **({"point": None, "largest": None, "firm": False} | found), far=True)
    # 2. Beside the optimum of that, and farther off until something is found.
    price = root.found.price or Price(*np.zeros((1, limits.x.size)), 0.0, *np.zeros((2, limits.x.size)))
    search, wide = None, STEPS
    while wide < 100 and (search is None or search.found is None):
        search = _run(limits, numbers, _beside(limits, endless, root.found.change, wide))
        if search is None:
            return Truth(whole=False)
        wide *= 5
    if search is None or search.found is None:
        return Truth(whole=False)
    # 3. Wherever something better may be.
    value = search.found.value
    last = _run(limits, numbers, _provable(limits, numbers, endless, price, value))
    whole = last is not None and last.found is not None and last.found.value <= value * (1 + 1e-9)
    return _told(problem, limits, last if whole else search, whole=whole)


def _run(limits: Limits, numbers: Numbers, ranges: dict[int, tuple[float, float]]) -> _Search | None:
    """The least value within ranges; None where there are too many choices."""
    try:
        search = _Search(numbers, _choices(limits, numbers, ranges))
    except (UnclearError, OverflowError):
        return None
    search.least(MOST_SOLVED)
    return search


def _beside(limits: Limits, endless: list[int], change: np.ndarray, wide: int) -> dict[int, tuple[float, float]]:
    """So many steps around the source and a change of it."""
    now, then = np.clip(limits.x, limits.lo, limits.hi), np.clip(limits.x + change, limits.lo, limits.hi)
    room = {d: wide * float(limits.step[d]) for d in endless}
    return {d: (min(now[d], then[d]) - room[d], max(now[d], then[d]) + room[d]) for d in endless}


def _provable(
    limits: Limits, numbers: Numbers, endless: list[int], price: Price, value: float
) -> dict[int, tuple[float, float]]:
    """Ranges that hold every point of at most that value."""
    inverse = np.linalg.inv(numbers.lam * numbers.Q)
    middle = -inverse @ price.g
    left = max(value - price.kappa - 0.5 * float(price.g @ middle), 0.0) + 1e-9 * abs(value)
    reach = np.sqrt(2 * left * np.diag(inverse)) * (1 + 1e-9)
    return {d: (limits.x[d] + middle[d] - reach[d], limits.x[d] + middle[d] + reach[d]) for d in endless}


def _told(problem: Problem, limits: Limits, search: _Search, *, whole: bool) -> Truth:
    """What a search that ended says."""
    known = {"whole": whole and not search.unclear, "solved": search.solved, "choices": search.n}
    if search.found is not None:
        x = _placed(limits, search.found.change)
        firm = limits.keeps(x) and problem.short(x) <= 0
        price = search.found.price
        weight = 0.0 if price is None or problem.goal == "lam" else price.weight
        return Truth(reachable=True, least=problem.value(x), point=x, firm=firm, weight=weight, **known)
    search.best(2 * MOST_SOLVED)
    known |= {"whole": whole and not search.unclear, "solved": search.solved}
    if search.top is None:
        return Truth(contradictory=known["whole"], reachable=False if known["whole"] else None, **known)
    x = _placed(limits, search.top.change)
    far = bool((np.abs(x - problem.x) * np.sqrt(np.diag(problem.price[0])) > 1e-3 * FAR).any())
    # Where rules leave no room within them, no solution may be found though this point is one.
    near = problem.short(x) <= 1e-7 * max(1.0, abs(_wanted(problem))) + 4 * problem.logit_error(x)
    known["whole"] &= not near and not far
    known |= {"reachable": False if known["whole"] else None, "largest": problem.largest(x)}
    return Truth(point=x, firm=limits.keeps(x), far=far, **known)


def _placed(limits: Limits, change: np.ndarray) -> np.ndarray:
    """x̄ + Δ with values of grids and options as they are meant, within the box, and equations as exact as they can be."""
    x = np.clip(limits.x + change, limits.lo, limits.hi)
    for d in limits.step:
        nearest = limits.grid(d, float(x[d]) - 0.6 * float(limits.step[d]), float(x[d]) + 0.6 * float(limits.step[d]))
        x[d] = min(nearest, key=lambda v, d=d: abs(v - x[d]), default=x[d])
    for group in limits.groups:
        x[group] = np.rint(x[group])
    free = [d for d in limits.free if limits.lo[d] < x[d] < limits.hi[d] and x[d] != limits.x[d]]
    rows = [(row, rest) for row, sense, rest in limits.rules if sense == "==" and row[free].any()]
    for _ in range(3 if rows else 0):
        left = np.array([math.fsum([rest, *(-row * x).tolist()]) for row, rest in rows])
        x[free] += np.linalg.lstsq(np.array([row[free] for row, _ in rows]), left, rcond=EPS)[0]
    return np.clip(x, limits.lo, limits.hi)
