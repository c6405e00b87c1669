"""The page of an answer in a cell of a notebook: sliders, without a server and without a widget library.

The page stands in a frame of its own, in ``srcdoc``: nothing of the notebook's changes how it looks, and its one script has no
access to the notebook. It tells the cell how high it is, and the cell makes the frame as high. Where frames are taken out, as
in a notebook that is not trusted, the text within it is left, and says what the answer is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path as FilePath
from typing import Any

from ifonly.answers import Counterfactual
from ifonly.api import invert
from ifonly.model.errors import InputError
from ifonly.show import page
from ifonly.show.sentence import sentence

__all__ = ["Explorer", "explore"]

HEIGHT = 760  # pixels, where the cell may run no script; the frame then scrolls
INSTEAD = "(To see a slider here, run the cell, or trust the notebook.)"
LISTEN = """<script>
window.ifonlyListens ??= addEventListener("message", ({ data, source }) => {
  for (const frame of document.querySelectorAll("iframe.ifonly"))
    if (frame.contentWindow === source && data?.ifonlyHeight > 0) frame.style.height = `${data.ifonlyHeight}px`;
}) ?? true;
</script>"""


@dataclass(frozen=True, repr=False)
class Explorer:
    """An answer and its page, which a notebook shows in the cell."""

    answer: Counterfactual  # the one that the page opens with
    options: Mapping[str, Any]  # those of `ifonly.show.page.html`

    def to_html(self, path: Any) -> FilePath:
        """Write the page to a file; returns where it is."""
        return page.write(self.answer, path, **self.options)

    def _repr_html_(self) -> str:
        text = escape(page.html(self.answer, **self.options))
        look = f"display:block;width:100%;height:{HEIGHT}px;border:0"
        frame = f'<iframe class="ifonly" title="What if" sandbox="allow-scripts" style="{look}" srcdoc="{text}">'
        instead = escape(f"{self._said} {INSTEAD}")
        return f"{LISTEN}{frame}{instead}</iframe>"  # the listener first: else a frame might tell its height to nobody

    def __repr__(self) -> str:
        return f"{self._said}\n(A notebook shows a slider here; to_html(path) writes the page to a file.)"

    @property
    def _said(self) -> str:
        return sentence(self.answer, shape=self.options.get("shape"))


def explore(
    model: Any,
    row: Any,
    target: Any = None,
    *,
    shape: Sequence[int] | None = None,
    title: str | None = None,
    **question: Any,
) -> Explorer:
    """Sliders in a cell of a notebook: drag the wanted probability, and see the smallest change that reaches it.

    Parameters
    ----------
    model : Model or fitted estimator
        Whatever :func:`as_model` understands.
    row : array_like, mapping, or row of a frame
        One source.
    target : label, optional
        The wanted class, as for :func:`invert`.
    shape : (H, W) or (H, W, 3), optional
        Where the features are the pixels of an image: its shape.
    title : str, optional
        The heading.
    **question
        ``prob``, ``actions``, ``cost`` and all other arguments of :func:`invert`; the page opens with that answer.

    Returns
    -------
    Explorer
        What a notebook shows; ``answer`` is the answer, and ``to_html(path)`` writes the page to a file.

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], ["refused", "approved"], ["debt", "income"])
    >>> sliders = ifonly.explore(model, [2.0, 1.0], "approved", prob=0.8)
    >>> sliders.answer.changes()[0][0]
    'debt'

    """
    answer = invert(model, row, target, **question)
    if not isinstance(answer, Counterfactual):
        raise InputError("explore is for one row and one answer; give a row (not a table of them) and leave out n")
    return Explorer(answer, {"shape": shape, "title": title})
