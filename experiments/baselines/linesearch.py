"""How far to go along a direction: the three line searches of the paper's appendix C.

With φ(α) = E(x + αd) and φ'(0) < 0, a step α > 0 is wanted:

    Backtracking   α = 1, ρ, ρ², … until φ(α) < φ(0)
    StrongWolfe    φ(α) ≤ φ(0) + c₁αφ'(0)  and  |φ'(α)| ≤ c₂|φ'(0)|          (algorithms 3.5 and 3.6 of Nocedal and Wright)
    Constant       α = 1/L

They see the line through φ'(0), φ(α) − φ(0) and φ'(α), which cost O(K) at each trial (`objective.Line`).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["Backtracking", "Constant", "Curve", "LineSearch", "StrongWolfe", "Taken", "cubic_minimiser"]

LEAST_STEP = 1e-30  # a direction along which no longer step lowers E is none of descent in floating point
MOST_TRIALS = 100  # each takes a tenth of zoom's interval away, and usually most of it: what 100 do not find is not there
STRETCH = 10.0  # how much longer than the last trial the next one may be while no interval is found
MARGIN = 0.1  # a trial closer than this share of zoom's interval to one of its ends is replaced by the middle (their page 58)


class Curve(Protocol):
    """φ, as a line search sees it."""

    @property
    def slope(self) -> float:
        """φ'(0)."""
        ...

    @property
    def lipschitz(self) -> float:
        """A Lipschitz constant of ∇E."""
        ...

    def change(self, step: float) -> float:
        """φ(α) − φ(0)."""
        ...

    def slope_at(self, step: float) -> float:
        """φ'(α)."""
        ...


class Taken(NamedTuple):
    """A step, 0 where none was found, and how many evaluations of E it took."""

    step: float
    trials: int


class LineSearch(Protocol):
    """Finds a step along a line; ``guess`` is what the last step and the two slopes suggest."""

    def __call__(self, line: Curve, guess: float = 1.0) -> Taken:
        """The step to take."""
        ...


@dataclass(frozen=True)
class Backtracking:
    """The first of ``first``, ``first·ρ``, ``first·ρ²``, … that lowers E: plain decrease.

    With c₁ > 0 it has to lower E by c₁α|φ'(0)|, which `ifonly.invert` asks for (c₁ = 1e-4).
    """

    rho: float = 0.8
    first: float = 1.0
    c1: float = 0.0

    def __call__(self, line: Curve, guess: float = 1.0) -> Taken:
        """The step to take."""
        step, trials = self.first, 1
        while not line.change(step) < self.c1 * step * line.slope:
            step *= self.rho
            trials += 1
            if step < LEAST_STEP:
                return Taken(0.0, trials)
        return Taken(step, trials)


@dataclass(frozen=True)
class Constant:
    """Always the same step; without one given, 1/L with the L of theorem 3.4, which never raises E along −∇E."""

    step: float | None = None

    def __call__(self, line: Curve, guess: float = 1.0) -> Taken:
        """The step to take."""
        return Taken(1.0 / line.lipschitz if self.step is None else self.step, 0)


class Trial(NamedTuple):
    """A step that was tried: φ(α) − φ(0) and φ'(α)."""

    step: float
    change: float
    slope: float


@dataclass(frozen=True)
class StrongWolfe:
    """The strong Wolfe conditions, by cubic interpolation.

    Parameters
    ----------
    c1, c2 : float
        Sufficient decrease and flatness, 0 < c1 < c2 < 1.
    first : float, optional
        The first step tried. None takes the guess, for directions that have no length of their own: the last step times the
        ratio of the slopes, as if E were to fall at first order as much as the last time (Nocedal and Wright, section 3.5).

    """

    c1: float = 1e-4
    c2: float = 0.9
    first: float | None = 1.0

    def __call__(self, line: Curve, guess: float = 1.0) -> Taken:
        """Algorithm 3.5: lengthen the step until it is good or there is an interval with good ones in it."""
        last, trials = Trial(0.0, 0.0, line.slope), 0
        step = guess if self.first is None else self.first
        while trials < MOST_TRIALS:
            trial, trials = tried(line, step), trials + 1
            if self._too_high(line, trial) or trial.change >= last.change:
                return self._zoom(line, last, trial, trials)
            if self._flat(line, trial):
                return Taken(step, trials)
            if trial.slope >= 0:
                return self._zoom(line, trial, last, trials)
            best = cubic_minimiser(last, trial)
            low, high = 2 * step - last.step, STRETCH * step
            last, step = trial, high if math.isnan(best) else min(max(best, low), high)
        return Taken(last.step, trials)

    def _zoom(self, line: Curve, low: Trial, high: Trial, trials: int) -> Taken:
        """Algorithm 3.6: ``low`` is the best step yet, and good ones lie between it and ``high``."""
        while trials < MOST_TRIALS:
            width, middle = abs(high.step - low.step), (low.step + high.step) / 2
            if middle in (low.step, high.step):
                break  # no number between them
            step = cubic_minimiser(low, high)
            if not abs(step - middle) <= (0.5 - MARGIN) * width:
                step = middle  # the cubic has no minimum well inside the interval
            trial, trials = tried(line, step), trials + 1
            if self._too_high(line, trial) or trial.change >= low.change:
                high = trial
                continue
            if self._flat(line, trial):
                return Taken(step, trials)
            if trial.slope * (high.step - low.step) >= 0:
                high = low
            low = trial
        return Taken(low.step, trials)

    def _too_high(self, line: Curve, trial: Trial) -> bool:
        return trial.change > self.c1 * trial.step * line.slope

    def _flat(self, line: Curve, trial: Trial) -> bool:
        return abs(trial.slope) <= -self.c2 * line.slope


def tried(line: Curve, step: float) -> Trial:
    """φ and φ' at a step."""
    return Trial(step, line.change(step), line.slope_at(step))


def cubic_minimiser(a: Trial, b: Trial) -> float:
    """Where the cubic with the values and slopes of two trials has its minimum; NaN where it has none.

    Nocedal and Wright, eq. (3.59).
    """
    d1 = a.slope + b.slope - 3 * (a.change - b.change) / (a.step - b.step)
    square = d1 * d1 - a.slope * b.slope
    if square < 0:
        return math.nan
    d2 = math.copysign(math.sqrt(square), b.step - a.step)
    below = b.slope - a.slope + 2 * d2
    return b.step - (b.step - a.step) * (b.slope + d2 - d1) / below if below else math.nan
