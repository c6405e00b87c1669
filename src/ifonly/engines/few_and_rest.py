"""Very many classes, up to some thousands: few rivals one by one and the rest as one (`rounds`), one row after the other."""

from dataclasses import replace
from typing import Any

from ifonly.engines.class_newton import ClassNewton, Followed
from ifonly.engines.class_space import ClassProblem
from ifonly.engines.free import Stop
from ifonly.engines.newton import Outcome, minimise
from ifonly.engines.rounds import ManyRivals, Rounds, solve_rounds
from ifonly.engines.windows import Window
from ifonly.model.numerics import Floats
from ifonly.native import takes_compiled
from ifonly.problem.asked import Aim, Asked
from ifonly.problem.results import Result
from ifonly.rows.sources import Sources

__all__ = ["FewAndRest"]


class FewAndRest(ClassNewton):
    """Free problems with very many classes, up to some thousands, one row after the other."""

    lanes = False
    knots = 8  # 4 leave 4.7 rounds per λ (ImageNet head, default λ), 6 4.2, 8 3.9

    def refuses(self, asked: Asked) -> str | None:
        """Few classes, or too many for their Gram matrix."""
        if asked.question.start is not None:
            return "a start is for Newton's method"
        return None if asked.model.shares_gram else "there are few classes, or too many for their Gram matrix"

    def __init__(self, rounds: Rounds = solve_rounds, lean: Any = None) -> None:
        self.rounds, self.lean = rounds, lean

    def form(self, asked: Asked) -> "FewAndRest":
        """Compiled, but for the reference."""
        if not takes_compiled(asked.question.backend):
            return self
        from ifonly.native import few_and_rest as compiled

        return FewAndRest(compiled.solve_rounds, compiled.Lean.of(asked.model))

    def one(self, asked: Asked, sources: Sources, aim: Aim) -> Result:
        """The answer for one source, and at once where passes over the rows are cheap."""
        if self.lean is None:
            return super().one(asked, sources, aim)
        found = self.row(asked, *sources.project_one(self.lean.times), aim)
        return replace(found, x=sources.moved(0, found.coef, self.lean.combination))

    def minimise(self, problem: ClassProblem, lam: float, stop: Stop, start: Floats | None = None) -> Result:
        """The least E for one λ."""
        return _finished(problem, self.rounds(_space(problem, lam), max_iter=stop.max_iter), stop)

    def search(self, problem: ClassProblem, prob: float, window: Window, first: float, stop: Stop) -> Result:
        """λ moves with the rounds; where these do not settle, the search for it goes around the whole problem."""
        outcome = self.rounds(_space(problem, first), window=window, max_iter=stop.max_iter)
        if outcome.converged:
            return problem.finish(outcome, stop.tol, outcome.n_iter)
        return super().search(problem, prob, window, first, stop)

    def next(self, problem: ClassProblem, stop: Stop, lam: float, guess: Floats | None) -> Followed:
        """An answer on the way along λ; a tangent would cost as much as an answer."""
        outcome = self.rounds(_space(problem, lam), guess, max_iter=stop.max_iter)
        return _finished(problem, outcome, stop), (outcome.point.at / lam,)


def _space(problem: ClassProblem, lam: float) -> ManyRivals:
    return ManyRivals(problem.model.shared_gram(problem.k), problem.k, problem.margins, lam, problem.size)


def _finished(problem: ClassProblem, outcome: Outcome, stop: Stop) -> Result:
    """Where the rounds ended; if that is not the answer, on from there with Newton's matrix whole."""
    rounds = outcome.n_iter
    if outcome.converged or rounds >= stop.max_iter:
        return problem.finish(outcome, stop.tol, rounds)
    whole = minimise(outcome.space, outcome.point.at, tol=stop.tol, max_iter=stop.max_iter - rounds)
    return problem.settle(whole, stop.tol, rounds)
