"""An answer as one HTML file that needs nothing else: a slider for the wanted probability, and all that follows from it.

In a cell of a notebook it needs neither a server nor a widget library: it stands in a frame of its own, in ``srcdoc``. Nothing
of the notebook's changes how it looks, and its one script has no access to the notebook. It tells the cell how high it is, and
the cell makes the frame as high. Where frames are taken out, as in a notebook that is not trusted, the text within it is left,
and says what the answer is.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path as FilePath
from typing import Any

from ifonly.answers import Counterfactual, Counterfactuals, Path
from ifonly.answers.change import Decision
from ifonly.api import invert
from ifonly.model.errors import InputError
from ifonly.problem.status import Status
from ifonly.show.numbers import housed, percent
from ifonly.show.page.document import breaking, document, json_of, saved
from ifonly.show.page.slider import live_data, scene_of, step_data
from ifonly.show.sentence import Worded, sentence, worded
from ifonly.show.table import figures, headline, others

__all__ = ["Explorer", "explore", "html", "write"]

TITLE = "What would have changed the decision"
HEIGHT = 760  # pixels, where the cell may run no script; the frame then scrolls
INSTEAD = "(To see a slider here, run the cell, or trust the notebook.)"
LISTEN = """<script>
window.ifonlyListens ??= addEventListener("message", ({ data, source }) => {
  for (const frame of document.querySelectorAll("iframe.ifonly"))
    if (frame.contentWindow === source && data?.ifonlyHeight > 0) frame.style.height = `${data.ifonlyHeight}px`;
}) ?? true;
</script>"""


@housed
def html(answer: Counterfactual | Counterfactuals | Path, **options: Any) -> str:
    """A page about an answer, as text; the arguments are those of :func:`write`."""
    return _cards(answer, **options) if isinstance(answer, Counterfactuals) else _slider(answer, **options)


def write(answer: Counterfactual | Counterfactuals | Path, path: str | os.PathLike[str], **options: Any) -> FilePath:
    """Write a page about an answer; returns where it is.

    Parameters
    ----------
    answer : Counterfactual, Path or Counterfactuals
        The last are several plans for one source; they get a card each, and no options but ``title``.
    path : path
        Where to; a file that is there is replaced.
    shape : (H, W) or (H, W, 3), optional
        Where the features are the pixels of an image: its shape. The page then shows it, and what changes in it.
    title : str, optional
        The page's heading.
    ink : bool, optional
        Whether high values of pixels are dark, as ink on paper; by default in images with one channel.

    """
    return saved(html(answer, **options), path)


def _slider(
    answer: Counterfactual | Path, *, shape: Sequence[int] | None = None, title: str | None = None, ink: bool | None = None
) -> str:
    scene = scene_of(answer, shape, ink)
    data = live_data(scene) if scene.live else step_data(scene)
    cost = None if scene.cf.conditions is None else scene.cf.conditions.cost
    plain = cost is None or (isinstance(cost.scale, str) and cost.scale == "model" and cost.matrix is None)
    measure = "the classifier" if plain else "the cost"  # where the user said what changes cost
    return document("page", title=escape(TITLE if title is None else title), data=json_of(data), measure=measure)


def _cards(cfs: Counterfactuals, *, title: str | None = None) -> str:
    now, called = Decision.of(cfs[0]), cfs[0].model.words.label
    chance = "" if now.p_before is None else f"{percent(now.p_before, 'tenths')} for {called(now.target)}"
    told = {"title": TITLE if title is None else title, "headline": headline(cfs), "decided": called(now.before)}
    told |= {"chance": chance, "others": " ".join(others(cfs))}
    cards = [_card(i, cf, changes) for i, cf in enumerate(cfs, 1) if (changes := worded(cf))]
    return document("plans", cards="\n".join(cards), **{name: escape(text) for name, text in told.items()})


def _card(i: int, cf: Counterfactual, changes: list[Worded]) -> str:
    moved = ""
    for words in changes:  # duration: 36 → at most 24
        before = f"{escape(words.before)} → " if words.before else ""
        bound = f"{words.bound} " if words.bound else ""
        move = f'<span class="move">{before}{bound}<b>{escape(words.after)}</b></span>'
        moved += f'<li><span class="name">{breaking(words.label)}</span> {move}</li>'
    name = f"Plan {i}" + (' <span class="note">the smallest</span>' if i == 1 else "")
    name = "The best there is" if cf.status is Status.UNREACHABLE else name
    return (
        f'<section class="plan" aria-labelledby="plan-{i}"><h2 id="plan-{i}">{name}</h2>'
        f'<p class="figures">{escape(figures(cf, changes))}</p><ul>{moved}</ul></section>'
    )


# ---- in a notebook ----


@dataclass(frozen=True, repr=False)
class Explorer:
    """An answer and its page, which a notebook shows in the cell."""

    answer: Counterfactual  # the one that the page opens with
    options: Mapping[str, Any]  # those of `ifonly.show.page.html`

    def to_html(self, path: Any) -> FilePath:
        """Write the page to a file; returns where it is."""
        return write(self.answer, path, **self.options)

    def _repr_html_(self) -> str:
        text = escape(html(self.answer, **self.options))
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
