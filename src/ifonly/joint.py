"""Several classes together: the summed probability of a set T, ``P_T(x) = Σ_{k∈T} p_k(x)``. A local method, and it says so.

    −ln P_T(x) = ln Σ_j exp z_j(x) − ln Σ_{k∈T} exp z_k(x)

is a difference of convex functions, and neither E nor the set where P_T ≥ τ is convex: there can be a valley for each class of
T. At a point x₀ the tangent of the second logarithm is a lower bound on it, so that T can be replaced by *one* class with the
row Σ w_k a_k, w the softmax within T at x₀: an ordinary inverse problem, whose answer has a P_T at least as large as that
class's probability. Solving it, and taking the next tangent there, lowers E (or the distance) with every step, down to a
stationary point. It starts from the nearest point at which one of them wins alone, and from the source, and keeps the better.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ifonly.answers.one import Counterfactual
from ifonly.api import Ask
from ifonly.engines.strong_rivals import Endpoint
from ifonly.engines.very_many import solve_many, task_of
from ifonly.model import Model
from ifonly.model.errors import CertificateError, InputError
from ifonly.model.numerics import EPS, Floats, Indices, log_sum_exp, softmax
from ifonly.problem.asked import Aim
from ifonly.problem.cost import Cost
from ifonly.problem.question import Question
from ifonly.problem.results import Result
from ifonly.problem.status import Status

__all__ = ["JointCounterfactual", "invert"]

MAX_TANGENTS = 200  # ten or so are usual
SETTLED = 1e-9  # a step this much shorter than the change is the last
VERIFY_TOL = 1e-6


@dataclass(frozen=True, repr=False, eq=False)
class JointCounterfactual(Counterfactual):
    """A near input at which several classes have the wanted probability *together*: a local optimum, proved by nothing.

    The fields are those of :class:`Counterfactual`. ``targets`` are the classes, ``target`` the most probable of them at ``x``,
    ``p_together`` their summed probability, ``objective`` is ``(λ/2)·distance² − ln p_together`` and ``grad_norm`` bounds its
    gradient. The problem is not convex, so there is no certificate: ``gap`` and ``error_bound`` are NaN, the status LOCAL.
    """

    targets: tuple[Hashable, ...] = field(default=(), kw_only=True)

    @property
    def gap(self) -> float:
        """Not known."""
        return math.nan

    bound = error_bound = gap  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def p_together(self) -> float:
        """The summed probability of ``targets`` at ``x``."""
        return float(self.proba[[self.model.class_index(label) for label in self.targets]].sum())

    @property
    def message(self) -> str:
        """How the solve ended, in words."""
        if self.status is Status.UNREACHABLE:
            return f"p = {self.prob} was not reached for {list(self.targets)} together: the best found is {self.p_together:.6g}"
        return self.status.message

    def verify(self, *, exact: bool = False) -> Any:
        """Recompute the summed probability, the distance, and that no small step improves; raises :class:`CertificateError`.

        What cannot be checked, because nothing claims it, is that there is no better answer elsewhere; ``exact`` makes no
        difference.
        """
        model, (source, x) = self.model, self.coordinates
        together = np.array([model.class_index(label) for label in self.targets])
        found = float(softmax(model.scores(x))[together].sum())
        if self.prob is not None and self.status is Status.LOCAL and found < self.prob:
            raise CertificateError(f"the classes have p = {found} together; the answer claims at least {self.prob}")
        if abs(found - self.p_together) > VERIFY_TOL:
            raise CertificateError(f"the classes have p = {found} together; the answer claims {self.p_together}")
        source, x = model.to_classifier(source), model.to_classifier(x)
        if abs(float(np.linalg.norm(x - source)) - self.distance) > VERIFY_TOL * (1 + self.distance):
            raise CertificateError(f"the distance is {np.linalg.norm(x - source)}; the answer claims {self.distance}")
        norm = _grad_norm(model, x, source, together, self.lam)
        if norm > self.grad_norm + VERIFY_TOL * (1 + model.row_norm):
            raise CertificateError(f"‖∇E(x)‖ is {norm:.3g}; the answer claims at most {self.grad_norm:.3g}")
        return norm

    def sentence(self, *, markdown: bool = False) -> str:
        """The answer in words."""
        mark = "**" if markdown else ""
        names = f"{mark}{' or '.join(map(str, self.targets))}{mark}"
        return f"A change of length {self.distance:.4g} makes {names} {100 * self.p_together:.3g} % probable together."

    def to_json(self, path: Any = None, *, most_nodes: int | None = None) -> str:
        """Not for these: a record is what can be proved again."""
        raise InputError("an answer for several classes together has no certificate to record; save x and p_together")

    def to_html(self, path: Any, **options: Any) -> Any:
        """Not for these."""
        raise InputError("the page is for one wanted class; look without joint=True for the nearest at which one of them wins")

    def __repr__(self) -> str:
        return (
            f"Counterfactual towards {list(self.targets)} together\n"
            f"  p(together)  {self.p_together:.6g}\n"
            f"  distance     {self.distance:.6g}   (λ = {self.lam:.4g}, {self.n_iter} tangents, ‖∇E‖ ≤ {self.grad_norm:.1e})\n"
            f"  status       {self.status.name}: {self.message}"
        )


def invert(
    model: Any,
    x: Any,
    targets: Iterable[Hashable],
    *,
    lam: float | None = None,
    prob: float | None = None,
    cost: Cost | None = None,
) -> JointCounterfactual:
    """A near input at which several classes have the wanted probability *together*.

    Parameters
    ----------
    model : Model or fitted estimator
        Whatever :func:`ifonly.as_model` understands, without limits of its own.
    x : one source
    targets : labels
        Two or more classes, but not all.
    lam : float > 0
        Minimise ``(λ/2)·distance² − ln(summed probability)``.
    prob : float in (0, 1)
        The summed probability to reach; 0.5 if neither is given.
    cost : Cost, optional
        What a change costs, by a scale alone.

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0], classes=["a", "b", "c"])
    >>> cf = invert(model, [-1.0, -1.0], {"a", "b"}, prob=0.9)
    >>> round(cf.p_together, 6), cf.status.name
    (0.9, 'LOCAL')

    """
    return answer(model, x, Question(set(targets), lam, prob, cost=cost))


def answer(model: Any, x: Any, question: Question) -> JointCounterfactual:
    """`invert` for a question; what of it has no meaning here is refused."""
    others = [f for f in fields(question) if f.name not in ("target", "lam", "prob", "cost")]
    unfit = [f.name for f in others if (value := getattr(question, f.name)) is not None and value != f.default]
    ask = None if unfit else Ask(model, question)
    if ask is None or ask.conditions is not None:
        raise InputError("joint answers take lam or prob and a plain cost; no limits, and no other argument")
    alone, together = ask(x), ask.classes
    if together is None or not isinstance(alone, Counterfactual):
        raise InputError("joint=True is for one source and a set of two or more classes")
    return _nearest(alone, together, ask.question)


def _nearest(alone: Counterfactual, together: Indices, question: Question) -> JointCounterfactual:
    """The best of the stationary points found from the source and from where one of the classes wins alone."""
    lam, prob = (None if v is None else float(np.asarray(v).item()) for v in (question.lam, question.prob))
    model, sources = alone.model, alone.sources
    source, start = (model.to_classifier(v) for v in (sources.dense(0), alone.coordinates[1]))
    answers = [_follow(model, source, x, together, Aim(int(together[0]), lam, prob)) for x in (source, start)]

    def rank(answer: tuple[Endpoint, int]) -> tuple[bool, float]:
        found = answer[0]
        missed = found.status is Status.UNREACHABLE
        return missed, found.level if missed else found.objective if prob is None else float(found.change @ found.change)

    found, n_tangents = min(answers, key=rank)
    x = source + found.change
    made = sources.dense(0) + model.to_user(found.change)
    proba = softmax(model.scores(made))
    rounding = 64 * EPS * model.row_norm * (1 + model.row_norm * float(np.linalg.norm(x)))
    result = Result(
        int(together[proba[together].argmax()]),
        found.status if found.status is Status.UNREACHABLE else Status.LOCAL,
        found.lam,
        float(np.linalg.norm(found.change)),
        found.objective,
        _grad_norm(model, x, source, together, found.lam) + rounding,
        proba,
        x=made,
        n_iter=n_tangents,
        n_passes=sum(answer[0].n_passes for answer in answers),
    )
    return JointCounterfactual(model, sources, result, prob, targets=tuple(model.label(int(k)) for k in together))


def _follow(model: Model, source: Floats, x: Floats, together: Indices, aim: Aim) -> tuple[Endpoint, int]:
    """Tangent after tangent from a point, and how many; passes are those of all."""
    rows, bias = model.weights(together), model.b[together]
    solved: list[Endpoint] = []
    while len(solved) < MAX_TANGENTS:
        z = rows @ x + bias
        row = softmax(z) @ rows
        task = task_of(model, source, aim, start=x if aim.prob is None else None)
        task = replace(task, row=row, bias=float(log_sum_exp(z)) - float(row @ x), outside=together)
        solved += solve_many(model, [task], {})
        found, before, x = solved[-1], x, source + solved[-1].change
        if np.linalg.norm(x - before) <= SETTLED * np.linalg.norm(found.change) or found.status is Status.UNREACHABLE:
            break
    return replace(solved[-1], n_passes=sum(found.n_passes for found in solved)), len(solved)


def _grad_norm(model: Model, x: Floats, source: Floats, together: Indices, lam: float) -> float:
    """The length of ∇E of the summed probability, ``λ(x − x̄) + Aᵀ(p − w)``, w the softmax within the set; 0 for λ = ∞."""
    if not math.isfinite(lam):
        return 0.0
    z = model.times(x) + model.b
    pull = softmax(z)
    pull[together] = -softmax(z[together]) * float(np.delete(pull, together).sum())  # p_k − w_k without cancellation
    return float(np.linalg.norm(lam * (x - source) + model.combination(pull)))
