"""Very many classes, up to some thousands: few rivals one by one and the rest as one (`rounds`), one row after the other."""

import math

from ifonly.engines.class_newton import reach_by_search
from ifonly.engines.class_space import ClassProblem
from ifonly.engines.compiled import takes_compiled
from ifonly.engines.follow import Knot, carry_on
from ifonly.engines.free import FreeEngine, Stop
from ifonly.engines.newton import Outcome, minimise
from ifonly.engines.rounds import Crowd, Rounds, solve_crowd
from ifonly.engines.windows import Window
from ifonly.problem.asked import Asked
from ifonly.problem.results import Result, Results
from ifonly.rows.sources import Sources

__all__ = ["FewAndRest"]

KNOTS = 8  # answers that a path's next start goes through: 4 leave 4.7 rounds per λ (ImageNet head, default λ), 6 4.2, 8 3.9


class FewAndRest(FreeEngine):
    """Free problems with very many classes, up to some thousands, one row after the other."""

    lanes = False

    def refuses(self, asked: Asked) -> str | None:
        """Few classes, or too many for their Gram matrix."""
        if asked.conditions is not None:
            return "there are limits"
        if asked.question.start is not None:
            return "a start is for Newton's method"
        return None if asked.model.shares_gram else "there are few classes, or too many for their Gram matrix"

    def __init__(self, rounds: Rounds | None = None) -> None:
        self.rounds = rounds or solve_crowd

    def for_rows(self, asked: Asked, n_rows: int | None) -> "FewAndRest":
        """Compiled, but for the reference."""
        if not takes_compiled(asked.question.backend):
            return self
        from ifonly.native.few_and_rest import solve_crowd as compiled

        return FewAndRest(compiled)

    def minimise(self, problem: ClassProblem, lam: float, stop: Stop) -> Result:
        """The least E for one λ."""
        return _finished(problem, *self.rounds(_space(problem, lam), max_iter=stop.max_iter), stop)

    def reach(self, problem: ClassProblem, prob: float, stop: Stop) -> Result:
        """λ moves with the rounds; where these do not settle, the search for it around the whole problem."""

        def attempt(window: Window, first: float) -> Result | None:
            space, outcome = self.rounds(_space(problem, first), window=window, max_iter=stop.max_iter)
            return _finished(problem, space, outcome, Stop(stop.tol)) if outcome.converged else None

        return reach_by_search(problem, prob, stop, attempt)

    def follow(self, asked: Asked, sources: Sources, k: int, lams: list[float]) -> Results:
        """One answer per λ, each from its neighbours; a tangent would cost as much as an answer."""
        z, sizes = sources.project_one()
        problem, stop, rounds = ClassProblem(asked.model, z, sizes, k), Stop.of(asked.question), self.rounds
        found: dict[int, Result] = {}
        knots: list[Knot] = []
        for i in sorted(range(len(lams)), key=lambda i: -lams[i]):
            space, outcome = rounds(_space(problem, lams[i]), carry_on(knots, math.log(lams[i])), max_iter=stop.max_iter)
            knots = [*knots[1 - KNOTS :], (math.log(lams[i]), outcome.point.at / lams[i])]
            found[i] = _finished(problem, space, outcome, stop)
        return Results.of([found[i] for i in range(len(lams))])


def _space(problem: ClassProblem, lam: float) -> Crowd:
    return Crowd(problem.model.shared_gram(problem.k), problem.k, problem.margins, lam, problem.size)


def _finished(problem: ClassProblem, space: Crowd, outcome: Outcome, stop: Stop) -> Result:
    """Where the rounds ended; if that is not the answer, on from there with Newton's matrix whole."""
    rounds = outcome.n_iter
    if outcome.converged or rounds >= stop.max_iter:
        return problem.finish(space, outcome, stop.tol, None, rounds)
    outcome = minimise(space, outcome.point.at, tol=stop.tol, max_iter=stop.max_iter - rounds)
    return problem.settle(space, outcome, stop.tol, rounds + outcome.n_iter)
