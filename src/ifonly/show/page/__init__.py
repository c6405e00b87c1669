"""An answer as one HTML file that needs nothing else: a slider for the wanted probability, and all that follows from it."""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path as FilePath
from typing import Any

from ifonly.answers import Counterfactual, Counterfactuals, Path
from ifonly.answers.change import Decision
from ifonly.problem.status import Status
from ifonly.show.numbers import housed, percent
from ifonly.show.page.document import breaking, document, json_of, saved
from ifonly.show.page.live import live_data
from ifonly.show.page.scene import scene_of
from ifonly.show.page.steps import step_data
from ifonly.show.sentence import Worded, worded
from ifonly.show.table import figures, headline, others

__all__ = ["html", "write"]

TITLE = "What would have changed the decision"


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
