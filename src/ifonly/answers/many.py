"""Many answers: of a table of sources, or of a path of λ. Views of the table of results."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from ifonly.answers.one import Counterfactual
from ifonly.answers.views import ShownMany, ShownPath, Told, View, frame_of
from ifonly.engines import drive
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats, Indices, softmax
from ifonly.model.tensors import plain
from ifonly.problem.asked import Aim, Asked
from ifonly.problem.checker import Checked
from ifonly.problem.conditions import Conditions
from ifonly.problem.results import Result, Results
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources

__all__ = ["Counterfactuals", "Path"]


@dataclass(frozen=True, repr=False, eq=False)
class Answers(View):
    """What a batch and a path have in common: columns with a leading axis of N rows or of N values of λ."""

    model: Model
    sources: Sources
    results: Results
    prob: Floats | None = None
    conditions: Conditions | None = field(default=None, kw_only=True)
    of: Indices | None = field(default=None, kw_only=True)  # which source each answer is for; None: each for its own
    complete: bool | None = field(default=None, kw_only=True)  # of several plans, see `Counterfactuals`
    cheapest: bool | None = field(default=None, kw_only=True)

    _places = Told[Indices | None]("of", "The sources that these answers are for.")
    lam = Told[Floats]("results.lam", "λ, (N,).")
    distance = Told[Floats]("results.distance", "``‖x − source‖`` in the space the classifier sees, (N,).")
    objective = Told[Floats]("results.objective", "E, (N,).")
    grad_norm = Told[Floats]("results.grad_norm", "Upper bounds on ‖∇E‖, (N,).")
    n_iter = Told[Indices]("results.n_iter", "Newton iterations, (N,).")
    n_passes = Told[Indices](
        "results.n_passes", "Passes over ``A``, (N,); each is shared by the rows that are solved together."
    )
    status = Told[NDArray[np.int8]]("results.status", "How each solve ended, (N,); compare with members of :class:`Status`.")

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, i: int | np.integer) -> Counterfactual: ...
    @overload
    def __getitem__(self, i: slice | Sequence[int] | Sequence[bool] | np.ndarray) -> Self: ...
    def __getitem__(self, i: Any) -> Any:
        """One answer, or those of a slice, a mask or a list of numbers."""
        if isinstance(i, (int, np.integer)) and not isinstance(i, bool):
            return self._one(int(i))
        index = i if isinstance(i, slice) else np.asarray(i)
        if not isinstance(index, slice) and (index.ndim != 1 or (index.dtype.kind not in "bi" and index.size)):
            raise TypeError(f"answers are indexed by a number, a slice, a mask or numbers; got {i!r}")
        index = index if isinstance(index, slice) or index.size else np.zeros(0, dtype=np.intp)
        prob, results = None if self.prob is None else self.prob[index], self.results.take(index)
        # Some of several plans are not all of them, and those that are left out may cost less.
        whole = len(results) == len(self)
        known = {"complete": self.complete and whole, "cheapest": self.cheapest and whole}
        of = np.arange(len(self)) if self.of is None else self.of
        return replace(self, results=results, prob=prob, of=of[index], **known)

    def _one(self, i: int) -> Counterfactual:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"there are {n} answers; got index {i}")
        result = self.results[i]
        if result.x is not None:
            result = replace(result, x=plain(result.x))
        prob = None if self.prob is None else float(self.prob[i])
        told = {"row": i % n if self.of is None else int(self.of[i]), "alone": self._alone(i, result)}
        return Counterfactual(self.model, self.sources, result, prob, conditions=result.conditions or self.conditions, **told)

    def _alone(self, i: int, result: Result) -> bool:
        """Whether an answer is only known to be the best of those that change what it changes.

        Of several plans for one source: those for which other features were held still, but for the cheapest of all.
        """
        if result.conditions is None or (self.cheapest and self.cost[i] <= self.cost.min()):
            return False
        held = result.conditions.limits.frozen
        return bool(held.any() if self.conditions is None else (held & ~self.conditions.limits.frozen).any())

    def __iter__(self) -> Iterator[Counterfactual]:
        return (self._one(i) for i in range(len(self)))

    @cached_property
    def _x(self) -> Any:
        if self.results.x is not None:
            return self.results.x[: len(self)]
        x = self.model.to_user(self.coef @ self.model.basis)
        x += self._source
        return x

    @property
    def _source(self) -> Floats:
        table = self.sources.table()
        return table if self.of is None else table[self.of]

    @property
    def coef(self) -> Floats:
        """Class-space coefficients of the changes, (N, R); none where ``x`` was made at once."""
        return np.zeros((len(self), 0)) if self.results.coef is None else self.results.coef

    @property
    def proba(self) -> Floats:
        """Probabilities of all classes, (N, K); of very many classes worked out anew each time."""
        if self.results.proba.shape[1] or not len(self):
            return self.results.proba
        return np.stack([softmax(self.model.scores(x)) for x in self._x])

    @property
    def gap(self) -> Floats:
        """Upper bounds on E − E*, (N,); with a cost or limits and ``prob``, on cost(x) − the least cost."""
        return self.grad_norm**2 / (2 * self.lam) if self.results.gap is None else self.results.gap

    @property
    def cost(self) -> Floats:
        """What the changes cost, (N,)."""
        return 0.5 * self.distance**2 if self.results.cost is None else self.results.cost

    @property
    def n_changes(self) -> Indices:
        """How many features differ from the source, (N,)."""
        return np.array([cf.n_changes for cf in self], dtype=np.intp)

    @property
    def error_bound(self) -> Floats:
        """Upper bounds on ‖x − x*‖, (N,); NaN where optima are of a grid and need not be unique."""
        discrete = self.conditions is not None and self.conditions.discrete
        return np.full(len(self), np.nan) if discrete else self.grad_norm / self.lam

    def _counts(self) -> str:
        codes, counts = np.unique(self.status, return_counts=True)
        return ", ".join(f"{n} {Status(int(code)).name}" for code, n in zip(codes, counts, strict=True))


@dataclass(frozen=True, repr=False, eq=False)
class Counterfactuals(ShownMany, Answers):
    """N answers: the fields of :class:`Counterfactual` with a leading axis; ``cfs[i]`` is one of them.

    ``cfs[1:3]``, ``cfs[mask]`` and ``cfs[[2, 0]]`` are those rows. ``x`` and ``delta`` are (N, D) arrays made when first read;
    for very many rows give ``out=`` to :func:`invert`, or read ``cfs[i].x``. With ``target="all"`` there are N·K answers, those
    for source n at n·K … n·K + K − 1.

    Attributes
    ----------
    complete : bool or None
        Of several plans for one source (``n=``): whether these are all there are. None for other answers, and with ``lam``.
    cheapest : bool or None
        Of several plans: whether it is proved that no other costs less than one of these. Where it is not, each is nevertheless
        minimal, and the cheapest that changes what it changes.

    """

    @property
    def are_plans(self) -> bool:
        """Whether these are several plans for one source (``n=``), and not the answers for many, or towards many classes."""
        alike = len(self) > 1 and len(np.unique(self.results.target)) == 1
        return self.complete is not None or (self.sources.single and alike)

    @property
    def target(self) -> np.ndarray:
        """The wanted classes' labels, (N,)."""
        return self.model.classes[self.results.target]

    def verify(self) -> list[Checked]:
        """:meth:`Counterfactual.verify` for every row that has an answer."""
        return [cf.verify() for cf in self if cf.status is not Status.INVALID]

    def to_frame(self) -> Any:
        """A frame of ``x`` with the features' names and the source frame's index."""
        if hasattr(self.x, "columns"):
            return self.x
        index: Any = self.sources.index
        return frame_of(self._x, self.sources.columns, index if index is None or self.of is None else index[self.of])

    def __repr__(self) -> str:
        if (self.status == Status.INVALID).all():
            return f"Counterfactuals({len(self)} rows{': ' if len(self) else ''}{self._counts()})"
        if self.are_plans:
            return self._shown()
        return (
            f"Counterfactuals({len(self)} rows: {self._counts()}; median distance {np.nanmedian(self.distance):.4g}, "
            f"worst {self._gap_of} ≤ {np.nanmax(self.gap):.1e})"
        )


@dataclass(frozen=True, repr=False, eq=False)
class Path(ShownPath, Answers):
    """One answer per λ for one source and one target; ``path[i]`` is one of them.

    ``at_lam`` and ``at_prob`` give the exact answer between the λ that were asked for.
    """

    asked: Asked = field(kw_only=True)

    @property
    def target(self) -> Hashable:
        """The wanted class's label."""
        return self.model.label(self._k)

    @property
    def _k(self) -> int:
        return int(self.results.target[0])

    @property
    def _source(self) -> Floats:
        return self.sources.dense(0)

    def at_lam(self, lam: float) -> Counterfactual:
        """The exact answer for any λ."""
        if not 0 < lam < np.inf:
            raise InputError(f"lam must be a number > 0; got {lam}")
        return self._answer(Aim(self._k, float(lam), None))

    def at_prob(self, prob: float) -> Counterfactual:
        """The exact nearest answer with ``p(target) ≥ prob``."""
        if not 0 < prob < 1:
            raise InputError(f"prob must lie strictly between 0 and 1; got {prob}")
        return self._answer(Aim(self._k, None, float(prob)))

    def _answer(self, aim: Aim) -> Counterfactual:
        found: Result = drive.one(self.asked, self.sources, aim)
        return Counterfactual(self.model, self.sources, found, aim.prob, conditions=self.conditions)

    def __repr__(self) -> str:
        p = self.proba[:, self._k]
        return (
            f"Path towards {self.target!r} ({len(self)} λ from {self.lam.max():.3g} to {self.lam.min():.3g}: "
            f"p(target) {p.min():.4g} … {p.max():.4g}, distance {self.distance.min():.4g} … {self.distance.max():.4g}, "
            f"worst E − E* ≤ {self.gap.max():.1e})"
        )
