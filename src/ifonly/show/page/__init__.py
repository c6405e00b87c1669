"""An answer as one HTML file that needs nothing else: a slider for the wanted probability, and all that follows from it."""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path as FilePath
from typing import Any

from ifonly.answers import Counterfactual, Counterfactuals, Path
from ifonly.show.page.document import document, json_of
from ifonly.show.page.live import live_data
from ifonly.show.page.plans import plans_html
from ifonly.show.page.scene import scene_of
from ifonly.show.page.steps import step_data

__all__ = ["html", "write", "write_plans"]

TITLE = "What would have changed the decision"


def html(
    answer: Counterfactual | Path, *, shape: Sequence[int] | None = None, title: str | None = None, ink: bool | None = None
) -> str:
    """A page about an answer, as text; the arguments are those of :func:`write`."""
    scene = scene_of(answer, shape, ink)
    data = live_data(scene) if scene.live else step_data(scene)
    measure = "the cost" if _priced(scene.cf) else "the classifier"
    return document("page", title=escape(TITLE if title is None else title), data=json_of(data), measure=measure)


def write(answer: Counterfactual | Path, path: str | os.PathLike[str], **options: Any) -> FilePath:
    """Write a page about an answer; returns where it is.

    Parameters
    ----------
    answer : Counterfactual or Path
    path : path
        Where to; a file that is there is replaced.
    shape : (H, W) or (H, W, 3), optional
        Where the features are the pixels of an image: its shape. The page then shows it, and what changes in it.
    title : str, optional
        The page's heading.
    ink : bool, optional
        Whether high values of pixels are dark, as ink on paper; by default in images with one channel.

    """
    return _saved(html(answer, **options), path)


def write_plans(cfs: Counterfactuals, path: str | os.PathLike[str], title: str | None = None) -> FilePath:
    """Write a page about several plans for one source, a card for each; returns where it is."""
    return _saved(plans_html(cfs, TITLE if title is None else title), path)


def _saved(text: str, path: str | os.PathLike[str]) -> FilePath:
    file = FilePath(path)
    file.write_text(text, encoding="utf-8", newline="\n")
    return file


def _priced(cf: Counterfactual) -> bool:
    """Whether the user said what changes cost."""
    cost = None if cf.conditions is None else cf.conditions.cost
    return cost is not None and not (isinstance(cost.scale, str) and cost.scale == "model" and cost.matrix is None)
