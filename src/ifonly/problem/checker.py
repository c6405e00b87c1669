"""Whether what an answer claims is true: recomputed from the model, the question, the source and x, and nothing else.

No solver is imported here, directly or by way of others, and nothing that a solver said is believed. Of a claim (`Result`) are
checked, for problems with limits and without,

1. the status against the question: nothing is out of reach where λ was given, nothing stopped where nothing was searched;
2. every limit at x, with exact comparisons, and the goal: p_k(x) ≥ τ or the margin, with no slack for rounding;
3. probabilities, distance, cost and objective, to the rounding that two ways of computing them can differ by;
4. the certificate (`free.Problem.certificate`, `limited.LimitedProblem.certificate`): ‖∇E‖ or ‖ξ‖ is at most what is claimed,
   and the lower bound that it proves at least the one that is claimed; without limits, where no bound is claimed, EXACT says
   that ‖∇E‖ is rounding and nothing else, and p_k above τ by no more than rounding. CONVERGED says the same of a goal, whose
   λ is always found to the last digit; with λ given, that ‖∇E‖ is what is claimed, to a tolerance that records do not name;
5. of a search over whole numbers, categories or few changes, and of a goal out of reach within limits: the proof that comes
   with the answer, case by case (`dual`; in fractions `exactly`).

What is not proved is named in `Checked.unproved`: a proof that was left out, a ceiling that multipliers do not give. What was
*asked* is taken as given: with another λ, or other limits, the same x may answer another question truthfully.
"""

import math
import sys
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ifonly.model import Model
from ifonly.model.errors import CertificateError, InputError
from ifonly.model.numerics import EPS, Floats, summation_error
from ifonly.problem.conditions import Conditions
from ifonly.problem.dual import Dual, Goal, continuous_proof
from ifonly.problem.exactly import Exactly
from ifonly.problem.free import LEAST_P, MOST_LOGIT, Certificate, Problem
from ifonly.problem.goals import Weights, coarser, excess, in_logs, needed_logit, probabilities
from ifonly.problem.limited import LimitedProblem
from ifonly.problem.limits import FAR
from ifonly.problem.proof import Multipliers, Proved
from ifonly.problem.results import Result
from ifonly.problem.status import LEAST_VALUE, REL_GAP, Status

__all__ = ["SAME", "Checked", "check"]

SAME = 1e-10  # relative: the same number, computed in another order
SETTLED = 1e-6  # relative: probabilities that are the same to whoever asked, where a proof needs no more digits
MANY = 10**7  # numbers in A: more are not copied to look for a ceiling
MOST_IN_FRACTIONS = 10**6  # numbers in A: as fractions they take some 300 MB
CANCELLING = 32.0  # terms of a change against its length: solvers sum rows whose pulls cancel to 1e-3 of their squares, no more
LAST_STEP = 1e-9  # relative: Newton's last step moves margins by 1e-5, and leaves some times the square of that at most
LEAST = sys.float_info.min  # numbers below have lost their digits, and compiled code takes them for 0
GUESS = 1.0  # rounding of logits from which on a probability is a guess, and nothing is excused by it
_MORE = "the proof shows more than is claimed: the gap is smaller"
_FAR = f"that is proved for changes of each feature that move scores by no more than {FAR:g}"
REACHED = (Status.EXACT, Status.CONVERGED, Status.STOPPED)  # statuses that claim to have met the goal


@dataclass(frozen=True)
class Checked(Certificate):
    """A fresh certificate of an answer whose claims hold.

    Attributes
    ----------
    bound : float
        The lower bound on what was minimised that is proved here: on the objective where λ was given, on the cost otherwise;
        −inf where there is none.
    ceiling : float
        Where the goal is out of reach, the upper bound on p_k that is proved here; 1 where there is none.
    unproved : tuple of str
        What the answer claims and this does not prove.
    notes : tuple of str
        What is to be known of what it does prove.

    """

    bound: float = -math.inf
    ceiling: float = 1.0
    unproved: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def claim(self) -> str:
        """What became of the claim: "proved", or "not proved here"."""
        return "not proved here" if self.unproved else "proved"


class _Case:
    """A question, and the answer to it: what it claims, and what that is in fact."""

    def __init__(
        self, model: Model, conditions: Conditions | None, source: Floats, x: Floats, prob: float | None, result: Result
    ) -> None:
        self.model, self.conditions, self.source, self.x, self.prob, self.result = model, conditions, source, x, prob, result
        self.k, self.out = result.target, result.status is Status.UNREACHABLE
        self.margin = None if conditions is None else conditions.margin
        self.goal = prob is not None or self.margin is not None
        self.asked = {"lam": None if self.goal else result.lam, "prob": prob, "margin": self.margin}
        self.discrete = conditions is not None and conditions.discrete
        # λ and the objective may be left out of a search for a goal.
        self.unweighed = self.discrete and self.goal and math.isnan(result.lam) and math.isnan(result.objective)
        self._check_status()
        self._measure()

    @cached_property
    def problem(self) -> LimitedProblem:
        """The problem with its limits; a free one has none but its model's own."""
        return LimitedProblem(self.conditions or Conditions(self.model), self.source, self.k)

    @cached_property
    def dual(self) -> Dual:
        """The bounds that a proof is made of, in floats."""
        return Dual(self.problem, Goal.of(**self.asked))

    @cached_property
    def exactly(self) -> Exactly:
        """The same in fractions."""
        return Exactly(self.problem.conditions, self.source, self.k, **self.asked)

    @property
    def weights(self) -> Weights:
        """What E is. λ is infinite where the goal is in nobody's way: then only the cost is minimised."""
        if self.margin is not None or math.isinf(self.result.lam):
            return Weights.of_cost()
        return Weights.given(self.result.lam) if self.prob is None else Weights.found(self.result.lam)

    def checked(self, *, exact: bool) -> Checked:
        """What holds of the answer; raises if a claim does not."""
        self._check_goal()
        self._check_numbers()
        if exact and self.model.A.size > MOST_IN_FRACTIONS:
            size = self.model.A.size
            raise InputError(f"exact=True is for models of up to {MOST_IN_FRACTIONS} weights; this one has {size}")
        if exact:
            self.exactly.check_point(self.x, reached=self.result.status in REACHED)
        # It takes a proof by cases, or comes with one; but an answer that is the source costs nothing, and needs none. Where
        # other classes were left open, an answer comes without the proof that shows more of its own.
        stopped = self.result.status is Status.STOPPED and self.result.grad_norm == 0.0
        by_proof = self.discrete or self.out or stopped or self.result.proof is not None
        if self.conditions is None or (self.goal and not self.out and (self.x == self.source).all()):
            by_proof = False
        return self._by_proof(exact=exact) if by_proof else self._by_certificate(exact=exact)

    def _by_certificate(self, *, exact: bool) -> Checked:
        """Of an answer that took no search: what its multipliers say of the gradient, and with that of the optimum."""
        result, found = self.result, self._certificate()
        if self.out:
            return self._out_of_reach(found)
        self._check_gradient(found)
        # 1. The lower bound on what was minimised that the fresh certificate supports.
        if self.margin is not None or math.isinf(result.lam):
            bound = max(self.cost - found.gap, 0.0)
        elif self.prob is None:
            bound = found.objective - found.gap
        else:
            above = excess(self.proba, self.loss, self.k, self.prob, found.logit_error)
            bound = max(self.cost - (found.gap + above) / result.lam, 0.0)
        self._check_bound(bound)
        # 2. The gap is at most that in fractions too: a proof of one leaf.
        if exact:
            most = self.value - bound if self.conditions is None else result.gap
            p = self.exactly.rivals_proba(self.x)  # scores may be coarser than a gap
            proved = self.exactly.prove(continuous_proof(self.problem, self.x, self.prob, result.lam, result.multipliers, p))
            gap = float(self.exactly.worth(self.x) - max(proved.bound, 0))  # nothing costs less, and −ln p is no less
            if gap > most + SAME * (1 + abs(self.value)):
                raise CertificateError(f"the gap that is proved in fractions is {gap!r}, more than {most!r}")
        # 3. The status is what that makes it.
        unproved = ()
        if self.conditions is None:
            self._check_last_digit(found)
            if result.status.ok and not bound > 0.0 and self.cost != 0.0:  # no distance is below 0, and no E
                unproved = ("that nothing is nearer is not proved here: rounding leaves no bound on the distance",)
                if self.prob is None:
                    gradient = f"its gradient is {result.grad_norm!r}, and it may be 0 elsewhere"
                    unproved = (f"that E is least is not proved here: {gradient}",)
        elif result.status is Status.STOPPED:
            value = self.cost if self.goal else max(abs(self.objective), LEAST_VALUE)
            if result.gap <= REL_GAP * value:
                raise CertificateError(f"the gap is {result.gap!r}; that is not what STOPPED says")
        return Checked(**vars(found), bound=bound, unproved=unproved)

    # ---- the point ----

    def _measure(self) -> None:
        """The point, and whether it keeps the limits; without any, in the classifier's units.

        Numbers, and how far (``*_error``) another way to compute them may end up from these.
        """
        model, conditions = self.model, self.conditions
        K, D = model.A.shape
        source, x = model.to_classifier(self.source), model.to_classifier(self.x)
        sizes = float(model.column_sizes @ (np.abs(x) + np.abs(source)))
        if conditions is None:
            if math.isinf(self.result.lam) and (self.x != self.source).any():
                raise CertificateError("the answer claims to be the source itself, but x differs from it")
            distance = float(np.linalg.norm(x - source))
            cost, mu = 0.5 * distance**2, 0.0
            norm = float(np.linalg.norm(x) + np.linalg.norm(source)) + model.offset_norm
        else:
            broken = self.problem.broken(self.x)
            if broken is not None:
                raise CertificateError(broken)
            distance, cost = self.problem.cost_of(self.x)
            mu, norm = float(conditions.mu.max()), float(conditions.per_unit @ (np.abs(self.x) + np.abs(self.source)))
            if conditions.matrix is None:
                norm += D * distance
            elif distance > 0:  # a matrix can make a small square of large terms
                change = np.abs(self.x - self.source)
                norm += D * float(change @ np.abs(conditions.matrix) @ change) / distance
        self.distance, self.cost = distance, cost
        self.norm = norm  # bounds the length of what the change is a difference of
        self.proba, self.loss = probabilities(model.scores(self.x), self.k)
        terms = sizes + 2 * model.offset_size + float(np.abs(model.b).max())
        self.distance_error = SAME * distance + 4 * (K + 4) * EPS * norm
        self.cost_error = SAME * cost + (distance + self.distance_error + mu * math.sqrt(D)) * self.distance_error
        self.logit_error = 8 * summation_error(D + K) * terms
        # −ln p_k moves by no more than the margins, and by no more than the rivals' mass can.
        rivals = float(np.delete(self.proba, self.k).sum())
        loss_error = SAME * self.loss + min(rivals * math.expm1(min(self.logit_error, MOST_LOGIT)), self.logit_error)
        lam, l1 = self.result.lam, 1.0 if self.prob is None else self.result.lam
        if self.margin is not None:  # E as answers report it
            self.objective, self.objective_error = cost, self.cost_error
        elif math.isinf(lam):
            self.objective, self.objective_error = self.loss, loss_error
        else:
            sparse = 0.0 if conditions is None else self.problem.sparse(self.x - self.source)
            self.objective = 0.5 * lam * distance**2 + l1 * sparse + self.loss
            self.objective_error = loss_error + max(lam, l1) * self.cost_error
        self.value = cost if self.goal else self.objective  # what was minimised

    # ---- claims ----

    def _check_status(self) -> None:
        """Statuses that no answer to this question can have, and classes that there are not."""
        status, K = self.result.status, self.model.n_classes
        if not 0 <= self.k < K or len(self.result.proba) not in (0, K):
            n = len(self.result.proba)
            raise CertificateError(f"the model has {K} classes; the answer is for number {self.k}, with {n}")
        if status is Status.INVALID:
            raise CertificateError("there is no answer to verify: the source is not a finite input")
        if status is Status.LOCAL:
            raise CertificateError("a local optimum is no answer to a question about one class")
        if not np.isfinite(self.x).all():
            raise CertificateError("there is no answer to verify: the search was stopped before it found one")
        if not self.goal and (self.out or math.isinf(self.result.lam)):
            raise CertificateError("λ was given: with it nothing is out of reach, and it is a number")
        if status is Status.STOPPED and self.conditions is None:
            raise CertificateError("no search was made that could have been stopped")
        if not self.result.lam > 0 and not self.unweighed:
            raise CertificateError(f"λ must be a number > 0; the answer claims {self.result.lam!r}")

    def _check_goal(self) -> None:
        """Whether x reaches what was asked for if the answer says so, and does not if the answer says that nothing does."""
        if self.margin is not None:
            found, wanted = self.problem.lead(self.x), self.margin
            told, less = f"the target's score is ahead by {found!r}", "less than"
        elif self.prob is not None:
            found, wanted = float(self.proba[self.k]), self.prob
            told, less = f"p(target) is {found!r}", "below"
        else:
            return
        if self.result.status in REACHED and found < wanted:
            raise CertificateError(f"{told}, {less} the {wanted!r} that was asked for")
        if self.out and found >= wanted:
            raise CertificateError(f"{told}, and so the {wanted!r} that was asked for is within reach")

    def _check_numbers(self) -> None:
        """Probabilities, distance, cost and objective, and those of the claims that follow from each other."""
        result, p = self.result, self.proba
        if len(result.proba):  # where there are very many classes, answers do without
            # A probability is multiplied by at most exp of twice what the margins move by.
            wrong = ~(np.abs(result.proba - p) <= p * (math.expm1(min(2 * self.logit_error, MOST_LOGIT)) + SAME) + LEAST_P)
            for j in [self.k] * bool(wrong[self.k]) + np.flatnonzero(wrong).tolist()[:1]:
                name = "p(target)" if j == self.k else f"p({self.model.label(j)!r})"
                raise CertificateError(f"{name} is {float(p[j])!r}; the answer claims {float(result.proba[j])!r}")
        same = [("distance", result.distance, self.distance, self.distance_error)]
        if self.conditions is not None or not math.isnan(result.cost):
            same.append(("cost", result.cost, self.cost, self.cost_error))
        if not self.unweighed:
            same.append(("objective", result.objective, self.objective, self.objective_error))
        for name, claimed, found, allowed in same:
            if not abs(claimed - found) <= allowed + LEAST:
                raise CertificateError(f"{name} is {found!r}; the answer claims {claimed!r}")
        if self.conditions is None or self.out:
            return
        if not result.gap >= 0:
            raise CertificateError(f"the gap must be a number ≥ 0; the answer claims {result.gap!r}")
        if not abs(self.value - result.gap - result.bound) <= SAME * (1 + abs(self.value)):
            less = self.value - result.gap
            raise CertificateError(f"the bound is {result.bound!r}, but what was minimised less the gap {less!r}")
        if result.ceiling != 1.0:
            raise CertificateError("a ceiling belongs to a probability that is out of reach")

    # ---- the optimum ----

    def _certificate(self) -> Certificate:
        """What x is worth in the continuous problem."""
        if self.conditions is not None:
            return replace(self.problem.certificate(self.x, self.weights, self.result.multipliers), objective=self.objective)
        if math.isinf(self.result.lam):  # the source itself, which costs nothing
            return Certificate(self.objective, self.proba, 0.0, 0.0, self.logit_error, 0.0, 0.0, 0.0)
        source, x = self.model.to_classifier(self.source), self.model.to_classifier(self.x)
        return Problem(self.model, source, self.model.label(self.k), self.result.lam).certificate(x)

    def _check_gradient(self, found: Certificate) -> None:
        """Whether ‖∇E‖ is at most what is claimed, and the claimed gap as large as the claimed ‖∇E‖ makes it."""
        result, name = self.result, "‖∇E(x)‖" if self.conditions is None else "‖∂E(x)‖"
        if math.isinf(result.lam):
            return
        slack = found.rounding if result.grad_norm > 0 else 0.0  # no gradient is 0 but one that is
        allowed = result.grad_norm * (1 + SAME) + slack
        if not found.grad_norm <= allowed:
            raise CertificateError(f"{name} is {found.grad_norm:.3g}; the answer claims at most {result.grad_norm:.3g}")
        if self.conditions is None:
            return
        least = result.grad_norm**2 / (2 * self.weights.lam) / (1.0 if self.prob is None else result.lam)
        if result.gap < min(least, result.cost) * (1 - SAME):
            known, gap = result.grad_norm, result.gap
            raise CertificateError(f"{name} is at most {known!r}, and so the gap {least!r}; claimed is {gap!r}")

    def _check_bound(self, bound: float) -> None:
        """Whether the claimed bound is proved."""
        claimed = self.result.bound
        if not math.isnan(claimed) and not claimed <= bound + SAME * (1 + abs(self.value)):
            raise CertificateError(f"the lower bound that can be proved is {bound!r}; the answer claims {claimed!r}")

    def _check_last_digit(self, found: Certificate) -> None:
        """Whether a free answer called exact is one: such claim no bound, and any gradient that they admit to is true."""
        status, claimed, model = self.result.status, self.result.grad_norm, self.model
        if not status.ok or math.isinf(self.result.lam):
            return
        # 1. How much rounding there is in a solver's Σ_j p_j(a_j − a_k): of p, and of the basis that it has the rows in.
        (K, D), own = model.A.shape, model.weights(self.k)
        lengths = np.concatenate([np.linalg.norm(block - own, axis=1) for _, block in model.blocks()])
        basis = 4 * K**1.5 * EPS * float(lengths.max()) * float(np.delete(self.proba, self.k).sum())
        pull = float(self.proba @ lengths) * (self.logit_error + LAST_STEP) + basis
        rounding = found.rounding + pull + self.result.lam * self.distance_error
        # 2. The gradient is no more than that.
        if status is Status.CONVERGED and self.prob is None:
            if claimed > 2 * found.grad_norm + CANCELLING * rounding:
                raise CertificateError(f"‖∇E(x)‖ is {found.grad_norm:.3g}; that it is {claimed:.3g} is not what CONVERGED says")
            return
        if found.grad_norm > rounding:
            raise CertificateError(
                f"‖∇E(x)‖ is {found.grad_norm:.3g}, and rounding only {rounding:.3g}; that is not what {status.name} says"
            )
        if self.prob is None:
            return
        # 3. p is no farther above τ than rounding can take it. The change is a sum of rows of A, which is shorter than its
        #    terms; how much longer they are follows from the model. (Σp/λ would say it of an answer, but λ is what a false one
        #    is free to choose.)
        size = model.row_norm * (self.norm + CANCELLING * self.distance)
        allowed = SETTLED + min(8 * model.coarse * summation_error(D + K) * size, GUESS)
        if excess(self.proba, self.loss, self.k, self.prob, 0.0) > allowed:
            p = float(self.proba[self.k])
            raise CertificateError(
                f"p(target) is {p!r}, so far above the {self.prob!r} that was asked for that nearer inputs reach it"
            )

    # ---- proofs ----

    def _by_proof(self, *, exact: bool) -> Checked:
        """Of a search, or of a goal that nothing reaches within limits: what the proof that comes with the answer proves."""
        result, proof, nan, error = self.result, self.result.proof, math.nan, self.logit_error
        found = Certificate(self.objective, self.proba, self.distance, nan, error, error, result.gap, nan)
        if result.grad_norm != 0.0:
            raise CertificateError(f"a proof has no gradient, that is 0; the answer claims at most {result.grad_norm!r}")
        if proof is None:
            what = "that the goal is out of reach" if self.out else "the bound of the search"
            return Checked(**vars(found), unproved=(f"{what} is not proved here: the answer comes without its proof",))
        if result.n_nodes != (len(proof) if self.discrete else 0):
            raise CertificateError(f"the proof has {len(proof)} nodes; the answer claims {result.n_nodes}")
        prove = self.exactly.prove if exact else self.dual.prove
        if self.out:
            return self._proved_out_of_reach(found, prove(proof, self._eaten()), exact=exact)
        least, value = max(prove(proof).bound, 0), self.value  # nothing costs less than 0, and −ln p is no less
        bound = float(least)
        self._check_bound(bound)
        known = bound
        if exact:
            if float(self.exactly.worth(self.x) - least) > result.gap + 4 * EPS * (1 + abs(value)):
                raise CertificateError(f"{value!r} is minimised, the bound is {bound!r}; the gap is said to be {result.gap!r}")
            if result.status is not Status.EXACT:  # whoever answered in floats may know less
                known = max(float(self.dual.prove(proof).bound), 0.0)
        self._check_said((value if self.goal else max(value, self.dual.worth(self.x))) - known)  # with λ scores may be coarser
        more = (_MORE,) if result.status is not Status.EXACT and value - bound < result.gap * (1 - SETTLED) else ()
        return Checked(**vars(found), bound=min(bound, value), notes=more)

    def _check_said(self, shown: float) -> None:
        """Whether the status is what the gap makes it, and no less than the gap that the proof has ``shown``."""
        result, allowed = self.result, REL_GAP * self.problem.relative_to(self.value, weighed=not self.goal)
        said = result.status is Status.EXACT
        if said != (result.gap <= allowed):
            raise CertificateError(f"the gap is said to be {result.gap!r}; that is not what {result.status.name} says")
        if not said and shown <= allowed * (1 - SETTLED):
            raise CertificateError(f"the gap that is proved is {shown!r}; that is not what {result.status.name} says")

    def _eaten(self) -> float:
        """How much of a goal the rounding of whoever evaluates answers can eat: by so little it is as good as missed."""
        lost = 0.0 if self.prob is None else math.log((1 - self.prob) / self.prob) - float(needed_logit(self.prob, self.model))
        times = coarser(self.prob, in_logs(self.model, summation_error(self.model.n_features + 4)))
        return lost + 16 * self.model.coarse * float(times) * self.logit_error + 16 * EPS

    def _proved_out_of_reach(self, found: Certificate, proved: Proved, *, exact: bool) -> Checked:
        """Whether nothing reaches the goal, and how near to it anything comes at most."""
        result = self.result
        if (result.grad_norm, result.gap, result.bound) != (0.0, 0.0, result.cost):
            raise CertificateError("an answer that is not the goal's has no gradient and no gap, and its bound is its cost")
        if proved.bound != math.inf:
            raise CertificateError("some leaves of the proof do not show that the goal is out of reach")
        ceiling = 1.0
        if self.prob is not None:
            ceiling = self.exactly.ceiling(proved) if exact else self.dual.goal.ceiling(float(proved.missed))
            if not self.result.ceiling >= ceiling * (1 - SAME):
                raise CertificateError(f"p(target) is at most {ceiling!r}; the answer claims at most {self.result.ceiling!r}")
            if not exact and not self.result.ceiling <= ceiling * (1 + SETTLED) + LEAST_P:
                raise CertificateError(f"p(target) is at most {ceiling!r}; the answer claims only {self.result.ceiling!r}")
        elif self.result.ceiling != 1.0:
            raise CertificateError("a ceiling belongs to a probability that is out of reach")
        far = (_FAR,) if np.not_equal(self.problem.ends(*self.problem.box), self.problem.box).any() else ()
        return Checked(**vars(found), ceiling=ceiling, notes=far)

    def _out_of_reach(self, found: Certificate) -> Checked:
        """A goal that nothing reaches, without limits: from the probabilities at x, how large p_k can be at most."""
        p, claimed = float(self.proba[self.k]), self.result.ceiling
        assert self.prob is not None
        if not claimed >= p * (1 - SAME - self.logit_error):
            raise CertificateError(f"p(target) is {p!r}; the answer claims that nothing is above {claimed!r}")
        ceiling, unproved = 1.0, []
        if self.model.encoding.identity and self.model.A.size <= MANY:
            ceiling = self._ceiling()
        if ceiling >= self.prob:
            unproved.append(f"that no input reaches {self.prob!r} is not proved here: p(target) is at most {ceiling!r}")
        elif claimed < ceiling * (1 - SETTLED):
            unproved.append(f"that p(target) is at most {claimed!r} is not proved here: it is at most {ceiling!r}")
        return Checked(**vars(found), ceiling=ceiling, unproved=tuple(unproved), notes=(_FAR,) if ceiling < 1 else ())

    def _ceiling(self) -> float:
        """An upper bound on p_k without limits: of a leaf whose y are the probabilities at x, a best point.

        There no feature is pulled anywhere (Sᵀy = 0); y is changed a little, so that this is so up to rounding.
        """
        dual, rivals = self.dual, np.delete(self.proba, self.k)
        pulls, y = dual.S * self.problem.far, rivals / rivals.sum()
        y = np.maximum(y * (1 + np.linalg.lstsq((y[:, None] * pulls).T, -(y @ pulls), rcond=None)[0]), 0.0)
        if not y.any():
            return 1.0
        missed = dual.bound(dual.choices.root, Multipliers(y, np.zeros(0)), reach=True).value / y.sum()
        return dual.goal.ceiling(float(missed))


def check(
    model: Model,
    conditions: Conditions | None,
    source: Floats,
    x: Floats,
    prob: float | None,
    result: Result,
    *,
    exact: bool = False,
) -> Checked:
    """The fresh certificate of an answer; raises a `CertificateError` if anything that is claimed does not hold.

    ``source`` and ``x`` are in the user's units; without ``conditions`` the problem is the free one. Where ``prob`` is None, λ
    (``result.lam``) or a margin (``conditions.margin``) was asked for. The claims are the ``result``, but for its ``x``,
    ``coef``, ``history`` and counts; the class is ``result.target``. With ``exact`` what is proved is proved with fractions too
    (`exactly`), so that nothing depends on the rounding of floats.

    Examples
    --------
    >>> from ifonly.problem.status import Status
    >>> model, source, x = Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), np.array([1.0, 1.0]), np.array([1.0, 1.0])
    >>> result = Result(0, Status.EXACT, math.inf, 0.0, math.log(2), 0.0, np.array([0.5, 0.5]))
    >>> check(model, None, source, x, 0.5, result).bound
    0.0
    >>> check(model, None, source, x, 0.6, result)
    Traceback (most recent call last):
    ...
    ifonly.model.errors.CertificateError: p(target) is 0.5, below the 0.6 that was asked for

    """
    if conditions is not None and conditions.model is not model and conditions.model != model:
        raise InputError("the conditions are for another model")
    if source.shape != (model.n_features,) or x.shape != source.shape:
        raise InputError(
            f"source and x must have {model.n_features} features; got arrays of shape {source.shape} and {x.shape}"
        )
    return _Case(model, conditions, source, x, prob, result).checked(exact=exact)
