"""Answers are views of the table of results: what they show of it as it is, their rows, and those rows as frames.

They show themselves by methods that hand them to `ifonly.show`, which imports answers, and is imported late.
"""

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ifonly.answers.change import moves
from ifonly.model.errors import InputError
from ifonly.model.extras import needing
from ifonly.model.numerics import Floats
from ifonly.problem.conditions import Conditions
from ifonly.problem.results import Result

__all__ = ["ShownMany", "ShownOne", "ShownPath", "Told", "View", "Within", "frame_of"]

Kind = TypeVar("Kind")


class Told(property, Generic[Kind]):
    """A property that is a field of another: ``result.lam`` of an answer, ``results.lam`` of many."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(attrgetter(field), doc=text)

    if TYPE_CHECKING:

        def __get__(self, answer: Any, owner: type | None = None) -> Kind: ...  # pyright: ignore[reportIncompatibleMethodOverride]


class View:
    """One answer, or many: rows before and after in float64 (``_source``, ``_x``), of these sources (``_places``), as given."""

    @property
    def _margin(self: Any) -> float | None:
        return None if self.conditions is None else self.conditions.margin

    @property
    def _goal(self: Any) -> bool:
        """Whether a probability or a margin was asked for: the cost was minimised then, else E."""
        return self.prob is not None or self._margin is not None

    @property
    def _gap_of(self: Any) -> str:
        """What the gap is of."""
        return "cost − least cost" if self.conditions is not None and self._goal else "E − E*"

    @property
    def source(self: Any) -> Any:
        """The input that it is the answer for, (D,); the inputs of many answers, (N, D), of a path the one input."""
        return self.sources.given(self._source, self._places)

    @cached_property
    def x(self: Any) -> Any:
        """The answer, (D,), or the answers, (N, D), in the units the user's model takes.

        Where the source was a row of a frame, ``x`` and ``source`` are such rows, with columns of all kinds for a pipeline that
        takes them; ``delta`` is an array all the same, one number per feature of the model. Where the source was a tensor of
        PyTorch or JAX, ``x``, ``delta`` and ``source`` are tensors of its kind, on its device, rounded to its precision.
        """
        return self.sources.given(self._x, self._places, None if self.conditions is None else self.conditions.steps)

    @cached_property
    def delta(self: Any) -> Any:
        """What changed: ``x − source``, in the same units."""
        return self._x - self._source if self.sources.like is None else self.x - self.source

    @property
    def coordinates(self: Any) -> tuple[Floats, Floats]:
        """Source and answer (or those of many) in float64, one number per column of the model's ``A``."""
        return self._source, self._x

    def picture(self: Any, kind: str | None = None, **options: Any) -> Any:
        """A picture's data, with a method ``plot(ax=None)``; by default the first kind, with a ``shape`` images.

        One answer has "changes", "image" and "convergence"; many have "heat map" (``by="row"`` or ``by="target"``) and
        "images" of the nearest, such as those of ``target="all"``; a path has "curve", "features" and "strip", of images.
        """
        from ifonly.show import plot

        return plot.picture(self, kind, **options)

    def plot(self: Any, kind: str | None = None, ax: Any = None, **options: Any) -> Any:
        """Draw ``picture(kind, **options)`` with matplotlib; returns the axes."""
        return self.picture(kind, **options).plot(ax)


@dataclass(frozen=True, eq=False)
class Within:
    """The cost and limits (``conditions``) of an answer, and what is known of it because of them, from its ``result``."""

    conditions: Conditions
    result: Result

    cost = Told[float]("result.cost", "What the change costs.")
    bound = Told[float]("result.bound", "A lower bound on what was minimised: the objective with ``lam``, the cost otherwise.")
    gap = Told[float]("result.gap", "How far the answer is above that bound, at most.")
    n_nodes = Told[int]("result.n_nodes", "Nodes of the search; 0 where none was needed.")
    best_bound = Told[float]("result.ceiling", "Where the probability is out of reach, an upper bound on any.")

    @property
    def nu(self) -> Floats:
        """Multipliers of the linear limits, and of margins where those were asked for."""
        return np.zeros(0) if self.result.multipliers is None else self.result.multipliers


def frame_of(rows: Any, columns: Any, index: Any = None) -> Any:
    """A pandas frame."""
    with needing("to_frame() needs pandas", "frames"):
        import pandas as pd
    return pd.DataFrame(rows, columns=None if columns is None else list(columns), index=index)


# ---- how they show themselves ----


class _Written(View):
    """What pages and letters are about: one answer, or several plans for one source (``n=``)."""

    def _about(self, wanted: str) -> Any:
        """What is shown by the method of this name."""
        return self

    def to_html(self: Any, path: Any, *, template: str = "page", **options: Any) -> Any:
        """Write a page, or, with ``template="letter"``, one to print and send; returns where it is.

        Of one answer the page has a slider for the wanted probability (``shape``, ``title``: see
        :func:`ifonly.show.page.write`), of several plans a card for each (``title``). A letter is about the first three; its
        options are those of :meth:`letter`.
        """
        from ifonly.show import letter, page

        shown, writers = self._about("to_html()"), {"page": page.write, "letter": letter.write}
        if template not in writers:
            raise InputError(f'template must be "page" or "letter"; got {template!r}')
        return writers[template](shown, path, **options)

    def letter(self: Any, **options: Any) -> str:
        """A letter to the person concerned, as plain text: what was decided, what would have changed it, what that is not.

        Parameters
        ----------
        language : {"en", "de", "fr", "es"}, optional
            By default that of the policy, or English.
        house : str, optional
            Who writes; by default as the policy says.
        reference, recipient, contact : str, optional
            What it is about, to whom, and whom to ask.
        date : datetime.date, optional
            By default today.

        """
        from ifonly.show import letter

        return letter.text(self._about("letter()"), **options)


class ShownOne(_Written):
    """One answer."""

    def changes(self) -> list[tuple[str, Any, Any]]:
        """What changed, as (feature, from, to) in the user's own columns, the largest share of the cost first."""
        return [(change.feature, change.before, change.after) for change in moves(self, plain=True)]

    def table(self: Any, rows: int | None = None) -> Any:
        """What changed and what it costs, as a :class:`ifonly.show.table.Table`; ``rows`` is how many are printed."""
        from ifonly.show import table

        return table.of_changes(self, rows)

    def sentence(self: Any, *, markdown: bool = False) -> str:
        """The answer in words: "If only duration were 24 instead of 36, the decision would be approved (81 %)."."""
        from ifonly.show import sentence

        return sentence.sentence(self, markdown=markdown)

    def to_json(self: Any, path: Any = None, *, most_nodes: int | None = None) -> str:
        """Everything that it takes to recheck the answer from the model alone, for :func:`ifonly.verify`.

        A proof of more than ``most_nodes`` nodes (10 000) is left out, and the record says so.
        """
        from ifonly.answers import record

        return record.to_json(self, path, most_nodes=record.MOST_NODES if most_nodes is None else most_nodes)

    def _repr_html_(self: Any) -> str:
        from ifonly.show import table

        return table.html_of(self)


class ShownMany(_Written):
    """Many answers; of one source, several plans."""

    def _about(self: Any, wanted: str) -> Any:
        if self.are_plans:
            return self
        raise InputError(
            f"{wanted} is for several plans of one source, invert(…, n=3); of many rows, summary() says what they have in "
            f"common, and cfs[i].{wanted} is about one of them"
        )

    def summary(self: Any) -> Any:
        """Which features move how often and how much, as a :class:`ifonly.show.table.Summary`."""
        from ifonly.show import table

        return table.of_many(self)

    def table(self: Any, rows: int | None = None) -> Any:
        """Of several plans for one source (``n=``): what each changes, side by side, as a :class:`ifonly.show.table.Table`."""
        from ifonly.show import table

        return table.of_plans(self._about("table()"), rows)

    def _repr_html_(self: Any) -> str:
        from ifonly.show import table

        return table.html_of_many(self)

    def _shown(self: Any) -> str:
        """Plans, as they are printed."""
        from ifonly.show import table

        return table.repr_of_plans(self)


class ShownPath(View):
    """One answer per λ."""

    def to_html(self: Any, path: Any, **options: Any) -> Any:
        """Write a page with a slider for the wanted probability; ``shape``, ``title``: see :func:`ifonly.show.page.write`."""
        from ifonly.show import page

        return page.write(self, path, **options)
