"""A page as one file: a template, its styles, its one script, and a policy that lets nothing else run."""

import base64
import hashlib
import json
import re

from ifonly.model.version import __version__
from ifonly.show.page.bundle import bundled, static

__all__ = ["digest", "document", "json_of"]


def document(name: str, **parts: str) -> str:
    """The page of this name, with its parts filled in; they are HTML already."""
    style, script = static("web/base.css") + static(f"{name}.css"), bundled(f"{name}.js")
    # Nothing may be fetched, and nothing runs but the one script that is ours: names in the data cannot become code.
    ours = f"style-src '{digest(style)}'; script-src '{digest(script)}'"
    policy = f"default-src 'none'; {ours}; base-uri 'none'; form-action 'none'"
    filled = {"policy": policy, "style": style, "script": script, "version": __version__, **parts}
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: filled[mark[1]], static(f"{name}.html"))


def digest(text: str) -> str:
    """What a page's policy knows a style or a script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def json_of(data: object) -> str:
    """JSON that can stand in a page: ASCII, and with nothing that could end the element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
