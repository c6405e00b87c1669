"""A page as one file: a template, its styles, its one script, and a policy that lets nothing else run.

A page that is opened from a disk cannot import: browsers refuse it. So its ES modules stand one after the other, each before
those that import it, without their ``import`` and ``export``. They then share one scope, and what that asks of them is checked
here: imports are ``import { a, b } from "./x.js"``, an ``export`` stands before a ``const``, ``class`` or ``function``, and no
two modules have the same name at their top level. Anything else is refused.
"""

import base64
import hashlib
import json
import os
import re
from html import escape
from importlib.resources import files
from pathlib import Path

from ifonly.model.version import __version__

__all__ = ["breaking", "bundled", "document", "filled", "json_of", "saved"]

HEAD = """<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="ifonly {version}">
<title>{title}</title>
<style>{style}</style>"""

KIND = r"(?:const|let|class|(?:async )?function)"
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./((?:web/)?\w+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(rf"^export (?={KIND} [\w$])", re.MULTILINE)
EXPORTED = re.compile(rf"^export {KIND} ([\w$]+)", re.MULTILINE)
DECLARED = re.compile(rf"^{KIND} (\[[^=]*\]|\{{[^=]*\}}|[\w$]+)", re.MULTILINE)
STRANGE = re.compile(r"^\s*(?:import|export)\b.*|\bimport\s*[(.].*|</script.*", re.MULTILINE | re.IGNORECASE)


def document(name: str, **parts: str) -> str:
    """The page of this name, with its parts filled in; they are HTML already."""
    style, script = static("web/base.css") + static(f"{name}.css"), bundled(f"{name}.js")
    return filled(static(f"{name}.html"), style, script, version=__version__, **parts)


def filled(template: str, style: str, script: str = "", **parts: str) -> str:
    """A template with its head, its script and its parts, of which one is ``title``."""
    # Nothing may be fetched, and nothing runs but the one script that is ours: names in the data cannot become code.
    ours = f"style-src '{_digest(style)}'" + (f"; script-src '{_digest(script)}'" if script else "")
    policy = f"default-src 'none'; {ours}; base-uri 'none'; form-action 'none'"
    head = HEAD.format(policy=policy, version=__version__, title=parts["title"], style=style)
    every = {"head": head, "script": script, **parts}
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: every[mark[1]], template)


def breaking(name: str) -> str:
    """A name as HTML, in which a line may end after each underscore, rather than anywhere."""
    return escape(name).replace("_", "_<wbr>")


def saved(text: str, path: str | os.PathLike[str]) -> Path:
    """Write a page to a file; returns where it is."""
    file = Path(path)
    file.write_text(text, encoding="utf-8", newline="\n")
    return file


def _digest(text: str) -> str:
    """What a page's policy knows a style or a script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def json_of(data: object) -> str:
    """JSON that can stand in a page: ASCII, and with nothing that could end the element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def static(name: str) -> str:
    """The text of a file of this page or, with ``web/`` before its name, of one that all pages share."""
    folder, _, file = name.rpartition("/")
    where = files("ifonly.show") / "web" if folder else files("ifonly.show.page") / "static"
    return (where / file).read_text(encoding="utf-8")


def bundled(entry: str) -> str:
    """A module and all that it imports, as one script."""
    scripts: dict[str, str] = {}
    exported: dict[str, list[str]] = {}
    owner: dict[str, str] = {}

    def add(name: str, above: tuple[str, ...] = ()) -> None:
        if name in above:
            raise ValueError(f"modules import each other in a circle: {' → '.join([*above, name])}")
        if name in scripts:
            return
        text = static(name)
        for names, file in IMPORT.findall(text):
            other = f"web/{file}" if name.startswith("web/") else file
            add(other, (*above, name))
            for wanted in re.findall(r"[^,\s](?:[^,]*[^,\s])?", names):
                if wanted not in exported[other]:
                    raise ValueError(f"{name} imports {wanted}, which {other} does not export")
        exported[name] = EXPORTED.findall(text)
        scripts[name] = EXPORT.sub("", IMPORT.sub("", text))
        if strange := STRANGE.search(scripts[name]):
            raise ValueError(f"{name} has what a page cannot hold: {strange[0].strip()}")
        for declared in re.findall(r"[\w$]+", " ".join(DECLARED.findall(scripts[name]))):
            if owner.setdefault(declared, name) != name:
                raise ValueError(f"{declared} stands at the top level of both {owner[declared]} and {name}")

    add(entry)
    return "\n".join(scripts.values())
