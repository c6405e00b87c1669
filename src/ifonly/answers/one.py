"""One answer.

An answer is a view of a row of the table of results. It may hold class-space coefficients, ``x = x̄ + rowsᵀ coef``, and makes
``x`` and ``delta`` when they are first read, so that a hundred λ at D = 131 072 or 15 000 sparse documents at D = 47 236 fill
no memory until they are looked at.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ifonly.answers.views import ShownOne, Told, Within, frame_of
from ifonly.model import Model
from ifonly.model.numerics import Floats, softmax
from ifonly.problem.asked import Aim, Asked
from ifonly.problem.checker import SAME, Checked, check
from ifonly.problem.conditions import Conditions
from ifonly.problem.contradiction import contradiction
from ifonly.problem.dual import continuous_proof
from ifonly.problem.goals import lead
from ifonly.problem.irreducible import Needed
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.proof import Proof
from ifonly.problem.question import Question
from ifonly.problem.results import Iteration, Result
from ifonly.problem.status import REL_GAP, Status
from ifonly.rows.sources import Sources

__all__ = ["AS_GOOD", "Counterfactual"]

AS_GOOD = 1e-6  # relative: a probability this near to the largest there can be is the best there is
_LEFT_OPEN = {
    Status.CONVERGED: "optimal to the tolerance that was asked for, or that rounding leaves: {}",
    Status.STOPPED: "the search stopped at its limit: {}; raise time_limit or node_limit",
}
_UNSETTLED = "it stopped before it converged, at its time limit or at what rounding lets it: {}"
_NO_PLAN = "the search stopped at its limit before it found a plan, which there may not be; raise time_limit or node_limit"
_COMPLETE = {  # what is left open by a search that had nothing left to look at
    "TIES": "the search is complete, and the cost is {:.6g}; what costs less, from {:.6g} on, meets the goal at best with "
    "nothing to spare for rounding, so that not every evaluation of the model would find it met; a slightly lower {} would let "
    "it count",
    "ROUNDING": "the search is complete, and the cost is {:.6g}; there is none below {:.6g}, and what is between is what it "
    "costs to meet the goal for every evaluation of the model, however that rounds; more time would not help, a lower {} might",
}

NAMED = 4  # limits in one message, the rest of them counted as one


@dataclass(frozen=True, repr=False, eq=False)
class Counterfactual(ShownOne):
    """The nearest input with the wanted decision.

    ``x`` is the answer, ``delta`` what changed of ``source``, ``proba`` what the model makes of it; ``distance`` and ``cost``
    say how far that is, ``status`` and ``message`` how it was found, ``gap`` and ``error_bound`` how exactly. ``prob`` is the
    probability that was asked for, if one was, and ``result`` has all numbers, as the engine gave them.
    """

    model: Model
    sources: Sources
    result: Result
    prob: float | None = None
    conditions: Conditions | None = field(default=None, kw_only=True)
    row: int = field(default=0, kw_only=True)  # which of the sources
    alone: bool = field(default=False, kw_only=True)  # one of several plans, for which other features were held still

    _places = Told[int]("row", "The source that it is the answer for.")
    status = Told[Status]("result.status", "How the solve ended.")
    lam = Told[float]("result.lam", "λ, what the distance is multiplied with; infinite where the source itself is the answer.")
    distance = Told[float]("result.distance", "``‖x − source‖`` in the space the classifier sees.")
    objective = Told[float]("result.objective", "``E(x) = (λ/2)·distance² − ln p_target``.")
    grad_norm = Told[float](
        "result.grad_norm",
        "Upper bound on ‖∇E(x)‖, which like ``gap`` and ``error_bound`` allows for rounding, that of ``x`` itself included.",
    )
    n_iter = Told[int]("result.n_iter", "Newton iterations (0 for K = 2, which has a closed form).")
    n_passes = Told[int]("result.n_passes", "Passes over ``A``: two, except for very many classes.")
    n_nodes = Told[int]("result.n_nodes", "Nodes of the search; 0 where none was needed.")
    history = Told[tuple[Iteration, ...]](
        "result.history",
        'E, ‖∇E‖, step and trials of each iteration, with ``start=`` or ``backend="reference"``; compiled loops keep none.',
    )

    @property
    def target(self) -> Hashable:
        """The wanted class's label."""
        return self.model.label(self.result.target)

    @property
    def coef(self) -> Floats:
        """Class-space coefficients of the change; none where ``x`` was made at once."""
        return np.zeros(0) if self.result.coef is None else self.result.coef

    @cached_property
    def proba(self) -> Floats:
        """Probabilities of all classes at ``x``, (K,)."""
        kept = self.result.proba
        return kept if kept.size else softmax(self.model.scores(self._x))

    @property
    def within(self) -> Within | None:
        """The cost and limits, and what is known of this answer because of them; None where there were none."""
        if self.conditions is None or self.status is Status.INVALID:
            return None
        return Within(self.conditions, self.result)

    @cached_property
    def _x(self) -> Floats:
        return self.sources.moved(self.row, self.coef) if self.result.x is None else self.result.x

    @property
    def _source(self) -> Floats:
        return self.sources.dense(self.row)

    @property
    def gap(self) -> float:
        """Upper bound on E(x) − E*; with a cost or limits and ``prob``, on cost(x) − the least cost."""
        return self.grad_norm**2 / (2 * self.lam) if self.within is None else self.result.gap

    @property
    def bound(self) -> float:
        """A lower bound on what was minimised: the objective with ``lam``, the cost otherwise."""
        if self.within is not None:
            return self.result.bound
        if self.prob is None:
            return self.objective - self.gap
        if not math.isfinite(self.lam):
            return 0.0
        above = math.log(max(self._p_target / self.prob, 1.0))
        return max(self.cost - (self.gap + above) / self.lam, 0.0)

    @property
    def error_bound(self) -> float:
        """Upper bound on the distance from x to the true optimum; NaN where that is one of a grid and need not be unique."""
        if self.conditions is not None and self.conditions.discrete:
            return math.nan
        return self.grad_norm / self.lam

    @property
    def cost(self) -> float:
        """What the change costs, ``½·distance² + Σμ|t|``: the least there is, with ``prob``."""
        return 0.5 * self.distance**2 if self.within is None else self.result.cost

    @property
    def n_changes(self) -> int:
        """How many features differ from the source (a group of one-hot columns is one)."""
        moved = self._x != self._source
        return int(moved.sum()) if self.conditions is None else self.conditions.n_changes(moved)

    @property
    def blocking(self) -> tuple[str, ...]:
        """Where the goal is out of reach: limits that are in the way together, the one whose unit would help most first.

        With only these limits it is still out of reach; with any one of them dropped, and the others of them kept, it is not.
        (Other limits may then be in the way.) Where that could not be proved in a quarter of a second, some of them may not be
        needed, and ``message`` says so. Worked out when it is first asked for.
        """
        return tuple(self._held.parts)

    @cached_property
    def _held(self) -> Needed[str]:
        if self.conditions is None or self.status is not Status.UNREACHABLE:
            return Needed([], True)
        from ifonly.engines.blocking import blocking

        return blocking(self.conditions, self._source, Aim(self.result.target, None, self.prob), self.result)

    @property
    def message(self) -> str:
        """How the solve ended, in words."""
        if self.status is Status.INVALID:
            return self._unsound or self.status.message
        if self.status is not Status.UNREACHABLE:
            return self._left_open or self.status.message
        target, p, ceiling = self.model.words.named(self.target), self._p_target, self.result.ceiling
        if self._margin is not None:
            wanted, lower = f"a lead of {self._margin:g} over every other class", "margin"
            best = f"the best that was found is {self._lead(self._x):.6g}"
        else:
            wanted, lower = f"p = {self.prob}", "prob"
            best = f"the best is p = {_apart(p, self.prob)}"
            if self.conditions is not None and ceiling > p * (1 + AS_GOOD):  # x may not be the best there is
                found, most = _apart(p, self.prob), _apart(ceiling, self.prob)
                best = f"the best that was found is p = {found}, and there is none above {most}"
        best = f"{wanted} is out of reach for {target!r}: {best}"
        held, proved = self._held
        if not held:
            return f"{best}; lower {lower}"
        if len(held) > NAMED:
            held = [*held[: NAMED - 1], f"{len(held) - NAMED + 1} more"]
        return f"{best} while {' and '.join(held)}{'' if proved else ' (perhaps not all of these are in the way)'}"

    @cached_property
    def _unsound(self) -> str:
        """What is wrong with a source that has no answer: the feature, or the limits; nothing where that is not known."""
        if self.sources.rows is None:
            return ""
        if not np.isfinite(self._source).all() or self.conditions is None:
            return str(self.sources.reject(self.row))
        wrong = self.conditions.limits.around(self._source[None])[2]
        return wrong[0] if wrong else str(contradiction(self.conditions, self._source))

    @property
    def _left_open(self) -> str:
        """Of an answer within limits that is not proved to be the best: how much better one may be; else nothing."""
        if self.conditions is None or self.status not in _LEFT_OPEN:
            return ""
        if not math.isfinite(self.gap):
            return _NO_PLAN
        if self.exhausted:
            return _COMPLETE[self._left].format(self.cost, self.bound, "margin" if self.prob is None else "prob")
        of, value = ("the cost", self.cost) if self._goal else ("E", self.objective)
        stopped = self.status is Status.STOPPED and not self.conditions.discrete  # there was no search
        return (_UNSETTLED if stopped else _LEFT_OPEN[self.status]).format(
            f"{of} is {value:.6g}, and there is none below {value - self.gap:.6g}"
        )

    @property
    def exhausted(self) -> bool:
        """Of an answer that is STOPPED: whether its search is complete, so that rounding is all that leaves a gap.

        Worked out from the proof when it is first asked for; False where that does not show it.
        """
        return self._left in _COMPLETE

    @cached_property
    def _left(self) -> str:
        """What a search left open."""
        if self.conditions is None or self.status is not Status.STOPPED or not self._goal or not math.isfinite(self.gap):
            return ""
        from ifonly.engines.to_spare import left_open

        return left_open(self.conditions, self._source, Aim(self.result.target, None, self.prob), self.result).name

    def _lead(self, x: Floats) -> float:
        """How far the target's score is ahead of every other."""
        return lead(self.model.scores(x), self.result.target)

    @property
    def _p_target(self) -> float:
        return float(self.proba[self.result.target])

    @property
    def searched(self) -> bool:
        """Whether it takes a proof by cases: it was searched for, or nothing within its limits reaches the goal."""
        if self.conditions is None:
            return False
        stays = self.status is not Status.UNREACHABLE and self._goal and bool((self._x == self._source).all())
        return not stays and (self.conditions.discrete or self.status is Status.UNREACHABLE)

    @cached_property
    def proof(self) -> Proof | None:
        """What shows that nothing is better, as data (docs/proof.md); None where there is no proof.

        A search has the tree of its cases with multipliers for each; other answers have one case. A row of a table is solved
        again for it.
        """
        kept = self.result.proof
        if kept is not None or self.status in (Status.INVALID, Status.LOCAL, Status.STOPPED):
            return kept
        if self.searched:
            return self._proved_again()
        if self.status is Status.UNREACHABLE:
            return None
        problem = LimitedProblem(self.conditions or Conditions(self.model), self._source, self.result.target)
        return continuous_proof(problem, self._x, self.prob, self.lam, self.result.multipliers)

    def _proved_again(self) -> Proof | None:
        """The proof of an answer that was kept without; None if it does not come out the same, or shows less than claimed."""
        from ifonly.engines import drive

        value = self.cost if self._goal else self.objective
        lam, gap = (None if self._goal else self.lam), max(REL_GAP, self.gap / value if value > 0 else 0.0)
        asked = Asked(Question(self.target, lam, self.prob, margin=self._margin, gap=gap), self.model, self.conditions)
        found = drive.one(asked, Sources(self.model, self._source[None], True), asked.aim())
        same = found.status is self.status and abs(found.cost - self.result.cost) <= REL_GAP * (1 + self.result.cost)
        return found.proof if same and found.bound >= self.result.bound - SAME * (1 + abs(value)) else None

    def verify(self, *, exact: bool = False) -> Checked:
        """Recompute everything from A, b, the source and ``x`` in D dimensions, trusting nothing the solver said.

        Returns the fresh certificate. Raises :class:`CertificateError` if anything that the answer claims does not hold. With
        ``exact`` what limits are about is computed with fractions.
        """
        claims = self.result
        if self.searched and claims.proof is None:
            proof, discrete = self.proof, self.conditions is not None and self.conditions.discrete
            claims = replace(claims, proof=proof, n_nodes=len(proof) if proof is not None and discrete else 0)
        return check(self.model, self.conditions, self._source, self._x, self.prob, claims, exact=exact)

    def to_frame(self) -> Any:
        """A one-row frame of ``x`` with the features' names."""
        encoding, x = self.model.encoding, self.x
        if self.sources.own is None or not (encoding.identity or encoding.columns):
            return frame_of(self._x[None], self.sources.columns)
        if hasattr(x, "columns"):
            return x
        if hasattr(x, "to_frame"):  # a pandas row, whose numbers are objects beside strings
            return x.to_frame().T if encoding.identity else x.to_frame().T.infer_objects()
        return frame_of([list(x.values() if isinstance(x, dict) else x)], encoding.names)

    def __repr__(self) -> str:
        head, status = f"Counterfactual towards {self.target!r}\n", f"  status       {self.status.name}: {self.message}"
        if self.status is Status.INVALID or not np.isfinite(self.proba).all():
            return head + status
        before = float(softmax(self.model.scores(self._source))[self.result.target])
        moved = f"  p(target)    {before:.4g} → {self._p_target:.6g}\n"
        if self._margin is not None:
            moved = f"  lead         {self._lead(self._source):.4g} → {self._lead(self._x):.6g}   (over the next score)\n"
        size = f"  distance     {self.distance:.6g}   (λ = {self.lam:.4g}, {self.n_iter} Newton iterations)\n"
        more = f",  ‖x − x*‖ ≤ {self.error_bound:.1e},  ‖∇E‖ ≤ {self.grad_norm:.1e}"
        if self.conditions is not None:
            nodes, more = f", {self.n_nodes} nodes" if self.conditions.discrete else "", ""
            size = f"  cost         {self.cost:.6g}   (distance {self.distance:.6g}, {self.n_changes} changes{nodes})\n"
        return f"{head}{moved}{size}  certificate  {self._gap_of} ≤ {self.gap:.1e}{more}\n{status}"


def _apart(p: float, wanted: float | None) -> str:
    """P with six digits, or as many more as tell it from what was asked for."""
    wanted = math.nan if wanted is None else wanted
    return next((text for n in (6, 9, 12) if (text := f"{p:.{n}g}") != f"{wanted:.{n}g}"), repr(p))
