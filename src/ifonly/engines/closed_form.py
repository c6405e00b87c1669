"""Two classes: the answer in closed form (section 4 of the paper).

With ``w = a₂ − a₁`` and the rival's margin s̄, theorem 4.2 says that x moves by ``q·w/λ``, and ``q = 1 − p₁* = φ(‖w‖²/λ, −s̄)``
(`phi`). For a wanted probability the margin to end at is known, and x moves by q‖w‖/λ to make up the difference; so λ is known
too.
"""

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from ifonly.engines.class_space import ClassProblem
from ifonly.engines.coordinates import logistic, logit, softmax_rows
from ifonly.engines.free import FreeEngine, Stop
from ifonly.engines.newton import Solved
from ifonly.engines.phi import logistic_root, phi
from ifonly.engines.row_loops import RowLoop
from ifonly.engines.windows import GUESS, Window
from ifonly.model.numerics import Floats
from ifonly.problem.asked import Asked
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["ClosedForm"]

MOST_ROUNDING = 8.0  # times as far as without the allowance for rounding: beyond, the answer would be more rounding than change


class ClosedForm(FreeEngine):
    """Free problems with two classes."""

    def refuses(self, asked: Asked) -> str | None:
        """More classes, or a start: then the iterates are the paper's Newton method's."""
        if asked.model.n_classes != 2:
            return "there are more than two classes"
        return None if asked.question.start is None else "a start is for Newton's method"

    def minimise(self, problem: ClassProblem, lam: float, stop: Stop, start: Floats | None = None) -> Result:
        """Theorem 4.2. What `Rivals` and `finish` do with arrays, here with numbers: a tenth of the time."""
        length, margin, rounding = float(problem.lengths[0]), float(problem.margins[0]), problem.rounding
        h = length * length / lam
        q, _ = logistic_root(h, -margin)
        s = margin - h * q
        e = math.exp(-abs(s))
        p, p_target = (1 / (1 + e), e / (1 + e)) if s > 0 else (e / (1 + e), 1 / (1 + e))
        allowance = float(rounding.of_gradient(p * length, problem.size, rounding.extent_of(q / lam), lam))
        grad_norm = abs(p - q) * length + allowance
        status = Status.CONVERGED if stop.tol is not None and grad_norm <= stop.tol else Status.EXACT
        first = problem.k == 0
        coef, proba = np.array([(-q if first else q) / lam]), np.array([p_target, p] if first else [p, p_target])
        objective = 0.5 * h * q * q + max(s, 0.0) + math.log1p(e)
        return Result(problem.k, status, lam, length * q / lam, objective, grad_norm, proba, coef)

    def leave(self, problem: ClassProblem, prob: float, window: Window, stop: Stop) -> Result:
        """The margin to end at is known, and so is λ."""
        missing, length = float(problem.margins[0]) - window.middle(0.0), float(problem.lengths[0])
        result = self._moved_by(problem, missing / float(_share(window, length * length)), stop)
        if result is not None:  # is it where it has to be, with room for the rounding of its own change?
            allowance = window.allowance(abs(float(result.coef[0])))
            there = logit(float(result.proba[1 - result.target]), float(result.proba[result.target]))
            if allowance < GUESS and there <= window.edges(allowance)[0]:
                return result
        # w is so small, or x̄ so large, that rounding grows faster than the change: τ is reached, but not by all who evaluate p
        result = self._moved_by(problem, missing, stop)
        return problem.stay(Status.UNREACHABLE) if result is None else replace(result, status=Status.MAX_ITER)

    def _moved_by(self, problem: ClassProblem, step: float, stop: Stop) -> Result | None:
        """The answer whose margin is lower than the source's by this much; None where it is too far for a λ."""
        margin, length = float(problem.margins[0]), float(problem.lengths[0])
        lam = logistic(margin - step) * length * length / step
        return self.minimise(problem, lam, stop) if sys.float_info.min < lam < math.inf else None

    # ---- many rows ----

    def loop(self, asked: Asked, n_rows: int | None) -> RowLoop:
        """With `solve_lam` and `solve_prob` in place of those of an array program."""
        loop = super().loop(asked, n_rows)
        return loop if loop.arrays is None else loop._replace(arrays=self)

    def solve_lam(self, gram: Floats, margins: Floats, lam: Floats, **stop: Any) -> Solved:
        """Theorem 4.2 for many rows."""
        square = float(gram[0, 0])
        h = square / lam
        q = phi(h, -margins[:, 0])[:, None]
        moved = h[:, None] * q
        p, p_target, loss = softmax_rows(margins - moved)
        quad = q[:, 0] * moved[:, 0]
        grad_norm = np.abs(p - q)[:, 0] * np.sqrt(square)
        zeros, done = np.zeros(len(lam), dtype=np.intp), np.ones(len(lam), dtype=bool)
        return Solved(q, p, p_target, lam, 0.5 * quad + loss, grad_norm, quad * lam, zeros, done)

    def solve_prob(self, gram: Floats, margins: Floats, window: Window, **stop: Any) -> Solved:
        """`leave` for many rows; one whose allowance turns out too small is left."""
        square = float(gram[0, 0])
        end = np.maximum(margins[:, 0] - (margins[:, 0] - window.middle(0.0)) / _share(window, square), -700.0)
        lam = square / (1 + np.exp(-end)) / (margins[:, 0] - end)
        able = (end > -700) & (lam > sys.float_info.min)
        lam = np.where(able, lam, 1.0)
        solved = self.solve_lam(gram, margins, lam)
        with np.errstate(divide="ignore"):
            there = np.log(solved.p[:, 0]) - np.log(solved.p_target)
        allowance = window.allowance(solved.q[:, 0] / lam)
        return solved._replace(done=able & (allowance < GUESS) & (there <= window.edges(allowance)[0]))


def _share(window: Window, square: float) -> Any:
    """Of a step, what its own rounding does not eat; it grows with the change, and the window moves as much."""
    return np.maximum(1 - window.slope / max(square, sys.float_info.min), 1 / MOST_ROUNDING)
