"""Answers: one counterfactual, many, or a path of them.

An answer holds class-space coefficients, ``x = x̄ + rowsᵀ coef``, and makes ``x`` and ``delta`` when they are first read, so
that a hundred λ at D = 131 072 or 15 000 sparse documents at D = 47 236 fill no memory until they are looked at.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.answers.change import moves
from ifonly.answers.claim import Claim, Within, Withins
from ifonly.engines import limited
from ifonly.engines.class_space import ClassProblem, Solution
from ifonly.engines.limited_problem import Ground, LimitedProblem, Plan
from ifonly.engines.newton import Iteration
from ifonly.engines.probability import reach_probability
from ifonly.engines.very_many import Found, VastProblem
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import softmax
from ifonly.native import Rows
from ifonly.problem import Certificate
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources
from ifonly.rows.tensors import host

__all__ = ["Counterfactual", "Counterfactuals", "Path", "Status"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False, eq=False)
class Counterfactual:
    """The nearest input with the wanted decision.

    Attributes
    ----------
    x : ndarray of shape (D,)
        The answer, in the units the user's model takes. Where the source was a row of a frame, ``x`` and ``source`` are such
        rows, with columns of all kinds for a pipeline that takes them; ``delta`` is an array all the same, one number per
        feature of the model. Where the source was a tensor of PyTorch or JAX, ``x``, ``delta`` and
        ``source`` are tensors of its kind, on its device, rounded to its precision.
    delta : ndarray of shape (D,)
        What changed: ``x − source``, in the same units.
    source : ndarray of shape (D,)
        The input it is the answer for.
    proba : ndarray of shape (K,)
        Probabilities of all classes at ``x``.
    target : label
        The wanted class.
    prob : float or None
        The probability that was asked for, if one was.
    lam : float
        λ, what the distance is multiplied with. Where the source itself is the answer, infinity.
    distance : float
        ``‖x − source‖`` in the space the classifier sees.
    objective : float
        ``E(x) = (λ/2)·distance² − ln p_target``.
    grad_norm, gap, error_bound : float
        The certificate: upper bounds on ‖∇E(x)‖, on E(x) − E*, and on the distance from x to the true optimum. All allow
        for rounding, that of ``x`` itself included; :meth:`verify` recomputes them from the model and the source.
    n_iter : int
        Newton iterations (0 for K = 2, which has a closed form).
    n_passes : int
        Passes over ``A``: two, except for very many classes.
    status : Status
    history : tuple of Iteration
        E, ‖∇E‖, step and trials of each iteration, where the single-source solver ran; kernels keep none.
    cost : float
        What the change costs, ``½·distance² + Σμ|t|``: the least there is, with ``prob``.
    within : Within or None
        Where a cost or limits were given: those, and what is known of this answer besides.

    """

    model: Model
    target: Hashable
    prob: float | None
    lam: float
    coef: Floats
    proba: Floats
    distance: float
    objective: float
    grad_norm: float
    n_iter: int
    status: Status
    history: tuple[Iteration, ...]
    sources: Sources
    row: int
    made: np.ndarray | None
    within: Within | None = None
    n_passes: int = 2

    @classmethod
    def of(
        cls,
        solution: Solution,
        model: Model,
        sources: Sources,
        k: int,
        *,
        prob: float | None,
        row: int = 0,
        made: np.ndarray | None = None,
        within: Within | None = None,
    ) -> "Counterfactual":
        """A solver's answer for class index ``k`` and one of the sources."""
        proba = solution.proba
        if not proba.size and made is not None:  # too many classes to keep them in a batch
            proba = softmax(model.scores(made))
        return cls(
            model,
            model.label(k),
            prob,
            solution.lam,
            solution.coef,
            proba,
            solution.distance,
            solution.objective,
            solution.grad_norm,
            solution.n_iter,
            solution.status,
            solution.history,
            sources,
            row,
            made,
            within,
            solution.n_passes,
        )

    @classmethod
    def planned(
        cls, plan: Plan, ground: Ground, sources: Sources, k: int, *, prob: float | None, row: int = 0
    ) -> "Counterfactual":
        """A solver's answer within limits."""
        within = Within.of(plan, ground)
        return cls.of(plan.solution, ground.model, sources, k, prob=prob, row=row, made=plan.x, within=within)

    @property
    def source(self) -> Any:
        """The input it is the answer for, (D,)."""
        return self.sources.given(self._source, self.row)

    @cached_property
    def delta(self) -> Any:
        """What changed, (D,)."""
        return self._x - self._source if self.sources.like is None else self.x - self.source

    @cached_property
    def x(self) -> Any:
        """The answer, (D,)."""
        return self.sources.given(self._x, self.row)

    @cached_property
    def _x(self) -> Floats:
        """``x`` in float64, whatever the source was."""
        return self.sources.moved(self.row, self.coef) if self.made is None else self.made

    @property
    def _source(self) -> Floats:
        return self.sources.dense(self.row)

    @property
    def coordinates(self) -> tuple[Floats, Floats]:
        """The source and the answer in float64, one number per column of the model's ``A``."""
        return self._source, self._x

    @property
    def gap(self) -> float:
        """Upper bound on E(x) − E*; with a cost or limits and ``prob``, on cost(x) − the least cost."""
        return self.grad_norm**2 / (2 * self.lam) if self.within is None else self.within.gap

    @property
    def bound(self) -> float:
        """A proved lower bound on what was minimised: the objective with ``lam``, the cost otherwise."""
        return self.claim.bound

    @property
    def error_bound(self) -> float:
        """Upper bound on the distance from x to the true optimum; NaN where that is one of a grid and need not be unique."""
        if self.within is not None and self.within.ground.discrete:
            return float("nan")
        return self.grad_norm / self.lam

    @property
    def cost(self) -> float:
        """What the change costs, ``½·distance² + Σμ|t|``."""
        return 0.5 * self.distance**2 if self.within is None else self.within.cost

    @property
    def n_changes(self) -> int:
        """How many features differ from the source (a group of one-hot columns is one)."""
        return self.claim.n_changes

    @property
    def blocking(self) -> tuple[str, ...]:
        """Where the probability is out of reach: the limits in the way, the worst first."""
        if self.within is None or self.status is not Status.UNREACHABLE:
            return ()
        return self.within.blocking(self._source, self.model.class_index(self.target), self._x)

    @property
    def message(self) -> str:
        """How the solve ended, in words."""
        if self.status is Status.UNREACHABLE:
            best = f"p = {self.prob} is out of reach for {self.target!r}: the best is p = {self._p_target:.6g}"
            if self.within is not None and self.within.ground.margin is not None:
                best = self._behind(self.within.ground.margin)
            blocking = self.blocking
            if not blocking:
                return f"{best}; lower {'prob' if self.prob is not None else 'margin'}"
            first = f"; what helps most: another limit than “{blocking[0]}”" if len(blocking) > 1 else ""
            return f"{best} while {' and '.join(blocking[:3])}{first}"
        return self.status.message

    def _behind(self, margin: float) -> str:
        found = f"the best that was found is {self._lead(self._x):.6g}"
        return f"a lead of {margin:g} over every other class is out of reach for {self.target!r}: {found}"

    def _lead(self, x: Floats) -> float:
        """How far the target's score is ahead of every other."""
        z, k = self.model.scores(x), self.model.class_index(self.target)
        return float(z[k] - np.delete(z, k).max())

    @property
    def _p_target(self) -> float:
        return float(self.proba[self.model.class_index(self.target)])

    def verify(self) -> Certificate:
        """Recompute everything from A, b, the source and ``x`` in D dimensions, trusting nothing the solver said.

        Returns the fresh certificate. Raises :class:`CertificateError` if anything that the answer claims does not hold.
        """
        return self.claim.verify()

    @property
    def claim(self) -> Claim:
        """The answer with all that it claims, in float64."""
        x, source = self._x, self._source
        numbers = self.lam, self.proba, self.distance, self.objective, self.grad_norm
        return Claim(self.model, source, x, self.target, self.prob, *numbers, self.status, self.within)

    def changes(self) -> list[tuple[str, Any, Any]]:
        """What changed, as (feature, from, to) in the user's own columns, the largest share of the cost first."""
        return [(change.feature, change.before, change.after) for change in moves(self)]

    def table(self, rows: int | None = None) -> Any:
        """What changed and what it costs, as a :class:`ifonly.show.table.Table`; ``rows`` is how many are printed."""
        from ifonly.show import table

        return table.of_changes(self, rows)

    def sentence(self, *, markdown: bool = False) -> str:
        """The answer in words: "If only duration were 24 instead of 36, the decision would be approved (81 %)."."""
        from ifonly.show import sentence

        return sentence.sentence(self, markdown=markdown)

    def to_json(self, path: Any = None) -> str:
        """Everything that it takes to recheck the answer from the model alone, for :func:`ifonly.verify`."""
        from ifonly.answers import record

        return record.to_json(self, path)

    def picture(self, kind: str = "changes", **options: Any) -> Any:
        """A picture's data, with a method ``plot(ax=None)``: "changes", "image" (with ``shape``) or "convergence"."""
        from ifonly.show import plot

        return plot.of_one(self, kind, **options)

    def plot(self, kind: str = "changes", ax: Any = None, **options: Any) -> Any:
        """Draw :meth:`picture` with matplotlib; returns the axes."""
        return self.picture(kind, **options).plot(ax)

    def to_html(self, path: Any, **options: Any) -> Any:
        """Write a page with a slider for the wanted probability; ``shape``, ``title``: see :func:`ifonly.show.page.write`."""
        from ifonly.show import page

        return page.write(self, path, **options)

    def _repr_html_(self) -> str:
        from ifonly.show import table

        return table.html_of(self)

    def to_frame(self) -> Any:
        """A one-row frame of ``x`` with the features' names."""
        if self.sources.frame is not None:
            return self.x if hasattr(self.x, "columns") else self.x.to_frame().T
        found = self.x if self.sources.own is not None else None
        if found is None or not self.model.encoding.columns:
            return _frame(self._x[None], self.sources, None)
        if hasattr(found, "columns"):
            return found
        if hasattr(found, "to_frame"):  # a pandas row, whose numbers are objects beside strings
            return found.to_frame().T.infer_objects()
        row = list(found.values()) if isinstance(found, dict) else list(found)
        return _frame_of([row], self.model.encoding.names)

    def __repr__(self) -> str:
        if self.status is Status.INVALID:
            return f"Counterfactual towards {self.target!r}\n  status       {self.status.name}: {self.message}"
        if not np.isfinite(self.proba).all():
            return f"Counterfactual towards {self.target!r}\n  status       {self.status.name}: {self.message}"
        p = self._p_target
        before = float(softmax(self.model.scores(self._source))[self.model.class_index(self.target)])
        moved = f"  p(target)    {before:.4g} → {p:.6g}\n"
        if self.within is not None and self.within.ground.margin is not None:
            moved = f"  lead         {self._lead(self._source):.4g} → {self._lead(self._x):.6g}   (over the next score)\n"
        return (
            f"Counterfactual towards {self.target!r}\n"
            f"{moved}"
            f"{self._repr_middle()}"
            f"  status       {self.status.name}: {self.message}"
        )

    def _repr_middle(self) -> str:
        if self.within is None:
            return (
                f"  distance     {self.distance:.6g}   (λ = {self.lam:.4g}, {self.n_iter} Newton iterations)\n"
                f"  certificate  E − E* ≤ {self.gap:.1e},  ‖x − x*‖ ≤ {self.error_bound:.1e},  ‖∇E‖ ≤ {self.grad_norm:.1e}\n"
            )
        nodes = f", {self.within.n_nodes} nodes" if self.within.ground.discrete else ""
        what = "E − E*" if self.prob is None else "cost − least cost"
        return (
            f"  cost         {self.cost:.6g}   (distance {self.distance:.6g}, {self.n_changes} changes{nodes})\n"
            f"  certificate  {what} ≤ {self.gap:.1e}\n"
        )


@dataclass(frozen=True, repr=False, eq=False)
class _Answers:
    """What a batch and a path have in common: arrays with a leading axis of N rows or of N values of λ."""

    model: Model
    sources: Sources
    rows: Rows
    prob: Floats | None
    within: Withins | None = field(default=None, kw_only=True)  # one per answer
    made: np.ndarray | None = field(default=None, kw_only=True)  # the answers themselves, where they were not left to be made

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Counterfactual:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"there are {n} answers; got index {i}")
        prob = None if self.prob is None else float(self.prob[i])
        solution, k, row = self.rows.solution(i), int(self.rows.target[i]), self._source_row(i % n)
        made = None if self.made is None else host(self.made[i])
        within = None if self.within is None else self.within[i]
        return Counterfactual.of(solution, self.model, self.sources, k, prob=prob, row=row, made=made, within=within)

    def __iter__(self) -> Iterator[Counterfactual]:
        return (self[i] for i in range(len(self)))

    def _source_row(self, i: int) -> int:
        return i

    def _source_rows(self) -> Any:
        return [self._source_row(i) for i in range(len(self))] if self.sources.own is not None else None

    @cached_property
    def x(self) -> Any:
        """The answers, (N, D)."""
        return self.sources.given(self._x, self._source_rows())

    @cached_property
    def _x(self) -> np.ndarray:
        """``x`` as an array, whatever the sources were."""
        if self.made is not None:
            return self.made[: len(self)]
        return self._source + self.model.to_user(self.coef @ self.model.rows)

    @cached_property
    def delta(self) -> Any:
        """What changed, (N, D)."""
        return self._x - self._source if self.sources.like is None else self.x - self.source

    @property
    def source(self) -> Any:
        """The inputs, (N, D); of a path the one input, (D,)."""
        return self.sources.given(self._source, None if self._source.ndim == 1 else self._source_rows())

    @property
    def _source(self) -> Floats:
        return self.sources.table()

    @property
    def coordinates(self) -> tuple[Floats, Floats]:
        """The sources (of a path: the source) and the answers in float64, one number per column of the model's ``A``."""
        return self._source, self._x

    @property
    def coef(self) -> Floats:
        """Class-space coefficients of the changes, (N, R)."""
        return self.rows.coef

    @property
    def proba(self) -> Floats:
        """Probabilities of all classes, (N, K); of very many classes worked out anew each time."""
        if self.rows.proba.shape[1] or not len(self):
            return self.rows.proba
        return np.stack([softmax(self.model.scores(x)) for x in self._x])

    @property
    def lam(self) -> Floats:
        """λ, (N,)."""
        return self.rows.lam

    @property
    def distance(self) -> Floats:
        """``‖x − source‖`` in the space the classifier sees, (N,)."""
        return self.rows.distance

    @property
    def objective(self) -> Floats:
        """E, (N,)."""
        return self.rows.objective

    @property
    def grad_norm(self) -> Floats:
        """Upper bounds on ‖∇E‖, (N,)."""
        return self.rows.grad_norm

    @property
    def gap(self) -> Floats:
        """Upper bounds on E − E*, (N,); with a cost or limits and ``prob``, on cost(x) − the least cost."""
        if self.within is not None:
            return self.within.gap
        return self.grad_norm**2 / (2 * self.lam)

    @property
    def cost(self) -> Floats:
        """What the changes cost, (N,)."""
        if self.within is not None:
            return self.within.cost
        return 0.5 * self.distance**2

    @property
    def n_changes(self) -> NDArray[np.intp]:
        """How many features differ from the source, (N,)."""
        return np.array([cf.n_changes for cf in self], dtype=np.intp)

    @property
    def error_bound(self) -> Floats:
        """Upper bounds on ‖x − x*‖, (N,)."""
        return self.grad_norm / self.lam

    @property
    def n_iter(self) -> NDArray[np.intp]:
        """Newton iterations, (N,)."""
        return self.rows.n_iter

    @property
    def n_passes(self) -> NDArray[np.intp]:
        """Passes over ``A``, (N,); each is shared by the rows that are solved together."""
        return self.rows.n_passes

    @property
    def status(self) -> NDArray[np.int8]:
        """How each solve ended, (N,); compare with members of :class:`Status`."""
        return self.rows.status

    def _counts(self) -> str:
        codes, counts = np.unique(self.status, return_counts=True)
        return ", ".join(f"{n} {Status(int(code)).name}" for code, n in zip(codes, counts, strict=True))


@dataclass(frozen=True, repr=False, eq=False)
class Counterfactuals(_Answers):
    """N answers: the fields of :class:`Counterfactual` with a leading axis; ``cfs[i]`` is one of them.

    ``x`` and ``delta`` are (N, D) arrays made when first read; for very many rows give ``out=`` to :func:`invert`, or read
    ``cfs[i].x``. With ``target="all"`` there are N·K answers, those for source n at n·K … n·K + K − 1.
    """

    per_source: int = 1

    def _source_row(self, i: int) -> int:
        return i // self.per_source

    @property
    def _source(self) -> Floats:
        table = self.sources.table()
        return table if self.per_source == 1 else np.repeat(table, self.per_source, axis=0)

    @property
    def target(self) -> np.ndarray:
        """The wanted classes' labels, (N,)."""
        return self.model.classes[self.rows.target]

    def verify(self) -> list[Certificate]:
        """:meth:`Counterfactual.verify` for every row that has an answer."""
        return [cf.verify() for cf in self if cf.status is not Status.INVALID]

    def to_frame(self) -> Any:
        """A frame of ``x`` with the features' names and the source frame's index."""
        if hasattr(self.x, "columns"):
            return self.x
        return _frame(self._x, self.sources, self.sources.index)

    def summary(self) -> Any:
        """Which features move how often and how much, as a :class:`ifonly.show.summary.Summary`."""
        from ifonly.show import summary

        return summary.of_answers(self)

    def picture(self, kind: str = "heat map", **options: Any) -> Any:
        """A picture's data, with a method ``plot(ax=None)``: "heat map" (``by="row"`` or ``by="target"``)."""
        from ifonly.show import plot

        return plot.of_many(self, kind, **options)

    def plot(self, kind: str = "heat map", ax: Any = None, **options: Any) -> Any:
        """Draw :meth:`picture` with matplotlib; returns the axes."""
        return self.picture(kind, **options).plot(ax)

    def _repr_html_(self) -> str:
        from ifonly.show import summary

        return summary.html_of(self)

    def __repr__(self) -> str:
        if (self.status == Status.INVALID).all():
            return f"Counterfactuals({len(self)} rows{': ' if len(self) else ''}{self._counts()})"
        return (
            f"Counterfactuals({len(self)} rows: {self._counts()}; median distance {np.nanmedian(self.distance):.4g}, "
            f"worst E − E* ≤ {np.nanmax(self.gap):.1e})"
        )


@dataclass(frozen=True, repr=False, eq=False)
class Path(_Answers):
    """One answer per λ for one source and one target; ``path[i]`` is one of them.

    ``at_lam`` and ``at_prob`` give the exact answer between the λ that were asked for.
    """

    problem: ClassProblem | LimitedProblem | VastProblem

    @property
    def target(self) -> Hashable:
        """The wanted class's label."""
        return self.model.label(self.problem.k)

    @property
    def _source(self) -> Floats:
        return self.sources.dense(0)

    def _source_row(self, i: int) -> int:
        return 0

    def at_lam(self, lam: float) -> Counterfactual:
        """The exact answer for any λ."""
        if not 0 < lam < np.inf:
            raise InputError(f"lam must be a number > 0; got {lam}")
        problem = self.problem
        found = limited.solve(problem, lam) if isinstance(problem, LimitedProblem) else problem.solve(lam)
        return self._answer(found, None)

    def at_prob(self, prob: float) -> Counterfactual:
        """The exact nearest answer with ``p(target) ≥ prob``."""
        if not 0 < prob < 1:
            raise InputError(f"prob must lie strictly between 0 and 1; got {prob}")
        problem = self.problem
        if isinstance(problem, VastProblem):
            return self._answer(problem.solve(prob=prob), prob)
        found = limited.reach(problem, prob) if isinstance(problem, LimitedProblem) else reach_probability(problem, prob)
        return self._answer(found, prob)

    def _answer(self, found: Solution | Plan | Found, prob: float | None) -> Counterfactual:
        if isinstance(found, Plan):
            assert isinstance(self.problem, LimitedProblem)
            return Counterfactual.planned(found, self.problem.ground, self.sources, self.problem.k, prob=prob)
        if isinstance(found, Found):
            made = self._source + self.model.to_user(found.change)
            return Counterfactual.of(found.solution(), self.model, self.sources, self.problem.k, prob=prob, made=made)
        return Counterfactual.of(found, self.model, self.sources, self.problem.k, prob=prob)

    def picture(self, kind: str = "curve", **options: Any) -> Any:
        """A picture's data, with a method ``plot(ax=None)``: "curve", "features" or "strip" (with ``shape``)."""
        from ifonly.show import plot

        return plot.of_path(self, kind, **options)

    def plot(self, kind: str = "curve", ax: Any = None, **options: Any) -> Any:
        """Draw :meth:`picture` with matplotlib; returns the axes."""
        return self.picture(kind, **options).plot(ax)

    def to_html(self, path: Any, **options: Any) -> Any:
        """Write a page with a slider for the wanted probability; ``shape``, ``title``: see :func:`ifonly.show.page.write`."""
        from ifonly.show import page

        return page.write(self, path, **options)

    def __repr__(self) -> str:
        p = self.proba[:, self.problem.k]
        return (
            f"Path towards {self.target!r} ({len(self)} λ from {self.lam.max():.3g} to {self.lam.min():.3g}: "
            f"p(target) {p.min():.4g} … {p.max():.4g}, distance {self.distance.min():.4g} … {self.distance.max():.4g}, "
            f"worst E − E* ≤ {self.gap.max():.1e})"
        )


def _frame(X: np.ndarray, sources: Sources, index: Any) -> Any:
    return _frame_of(X, sources.columns, index)


def _frame_of(rows: Any, columns: Any, index: Any = None) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame() needs pandas: pip install pandas") from error
    return pd.DataFrame(rows, columns=None if columns is None else list(columns), index=index)
