"""Several ES modules as one script, for a file that may fetch nothing.

A page that is opened from a disk cannot import: browsers refuse it. So the modules stand one after the other, each before those
that import it, without their ``import`` and ``export``. They then share one scope, and what that asks of them is checked here:
imports are ``import { a, b } from "./x.js"``, an ``export`` stands before a ``const``, ``class`` or ``function``, and no two
modules have the same name at their top level. Anything else is refused.
"""

import re
from importlib.resources import files

__all__ = ["bundled", "static"]

KIND = r"(?:const|let|class|(?:async )?function)"
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./((?:web/)?\w+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(rf"^export (?={KIND} [\w$])", re.MULTILINE)
EXPORTED = re.compile(rf"^export {KIND} ([\w$]+)", re.MULTILINE)
DECLARED = re.compile(rf"^{KIND} (\[[^=]*\]|\{{[^=]*\}}|[\w$]+)", re.MULTILINE)
STRANGE = re.compile(r"^\s*(?:import|export)\b.*|\bimport\s*[(.].*|</script.*", re.MULTILINE | re.IGNORECASE)


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
