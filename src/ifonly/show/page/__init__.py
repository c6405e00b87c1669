"""An answer as one HTML file that needs nothing else: a slider for the wanted probability, and all that follows from it."""

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path as FilePath
from typing import Any

from ifonly.answers import Counterfactual, Path
from ifonly.model.version import __version__
from ifonly.show.page.bundle import bundled, static
from ifonly.show.page.live import live_data
from ifonly.show.page.scene import scene_of
from ifonly.show.page.steps import step_data

__all__ = ["html", "write"]

TITLE = "What would have changed the decision"


def html(
    answer: Counterfactual | Path, *, shape: Sequence[int] | None = None, title: str | None = None, ink: bool | None = None
) -> str:
    """A page about an answer, as text; the arguments are those of :func:`write`."""
    scene = scene_of(answer, shape, ink)
    data = live_data(scene) if scene.live else step_data(scene)
    style, script = static("web/base.css") + static("page.css"), bundled("page.js")
    # Nothing may be fetched, and nothing runs but the one script that is ours: names in the data cannot become code.
    ours = f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    policy = f"default-src 'none'; {ours}; base-uri 'none'; form-action 'none'"
    parts = {
        "policy": policy,
        "title": escape(TITLE if title is None else title),
        "style": style,
        "script": script,
        "data": _json(data),
        "version": escape(__version__),
        "measure": "the cost" if _priced(scene.cf) else "the classifier",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], static("page.html"))


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
    file = FilePath(path)
    file.write_text(html(answer, **options), encoding="utf-8", newline="\n")
    return file


def _priced(cf: Counterfactual) -> bool:
    """Whether the user said what changes cost."""
    cost = None if cf.conditions is None else cf.conditions.cost
    return cost is not None and not (isinstance(cost.scale, str) and cost.scale == "model" and cost.matrix is None)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _json(data: object) -> str:
    """JSON that can stand in a page: ASCII, and with nothing that could end the element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
