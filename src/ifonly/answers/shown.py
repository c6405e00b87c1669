"""How answers show themselves: the methods that hand them to `ifonly.show`, which imports answers, and is imported late."""

from typing import Any

from ifonly.answers.change import moves
from ifonly.model.errors import InputError

__all__ = ["ShownMany", "ShownOne", "ShownPath"]


class _Drawn:
    """What has pictures."""

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


class _Written(_Drawn):
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
        """Which features move how often and how much, as a :class:`ifonly.show.summary.Summary`."""
        from ifonly.show import summary

        return summary.of_answers(self)

    def table(self: Any, rows: int | None = None) -> Any:
        """Of several plans for one source (``n=``): what each changes, side by side, as a :class:`ifonly.show.table.Table`."""
        from ifonly.show import plans

        return plans.table_of(self._about("table()"), rows)

    def _repr_html_(self: Any) -> str:
        from ifonly.show import plans, summary

        return plans.html_of(self) if self.are_plans else summary.html_of(self)

    def _shown(self: Any) -> str:
        """Plans, as they are printed."""
        from ifonly.show import plans

        return plans.repr_of(self)


class ShownPath(_Drawn):
    """One answer per λ."""

    def to_html(self: Any, path: Any, **options: Any) -> Any:
        """Write a page with a slider for the wanted probability; ``shape``, ``title``: see :func:`ifonly.show.page.write`."""
        from ifonly.show import page

        return page.write(self, path, **options)
