"""TOML, written: tables, lists and plain values, with a comment above any of them. Python reads it by itself (`tomllib`)."""

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["key", "value", "written"]

BARE = re.compile(r"[A-Za-z0-9_-]+")


def key(name: str) -> str:
    """A key: bare where it may be, else in quotes."""
    return name if BARE.fullmatch(name) else value(name)


def value(given: Any) -> str:
    r"""A value on one line.

    >>> value("a “b”\n"), value([1, 2.5, True]), value({"a b": 1}), value(float("inf"))
    ('"a “b”\\n"', '[1, 2.5, true]', '{ "a b" = 1 }', 'inf')

    """
    if isinstance(given, float):
        return repr(given)
    if isinstance(given, (str, int)):  # also true and false, as JSON has them
        return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(given, Mapping):
        return "{ " + ", ".join(f"{key(str(name))} = {value(part)}" for name, part in given.items()) + " }" if given else "{}"
    if isinstance(given, (list, tuple)):
        return f"[{', '.join(map(value, given))}]"
    raise TypeError(f"TOML has no {type(given).__name__}")


def written(told: Mapping[str, Any], notes: Mapping[tuple[str, ...], str] | None = None) -> str:
    """A document; ``notes`` are comments, by the place that they stand above."""
    return "\n".join(_lines(told, notes or {}, ())).strip("\n") + "\n"


def _lines(told: Mapping[str, Any], notes: Mapping[tuple[str, ...], str], at: tuple[str, ...]) -> list[str]:
    """A table: its own values first, for what comes after a heading belongs to that."""
    tables = {name: part for name, part in told.items() if isinstance(part, Mapping) and part}
    lines: list[str] = []
    for name, part in told.items():
        if name not in tables:
            lines += [*_note(notes, (*at, name)), f"{key(name)} = {value(part)}"]
    for name, table in tables.items():
        place = (*at, name)
        only_tables = all(isinstance(part, Mapping) and part for part in table.values())
        heading = [] if only_tables else [f"[{'.'.join(map(key, place))}]"]
        lines += ["", *_note(notes, place), *heading, *_lines(table, notes, place)]
    return lines


def _note(notes: Mapping[tuple[str, ...], str], place: tuple[str, ...]) -> list[str]:
    return [f"# {line}" if line else "" for line in notes[place].splitlines()] if place in notes else []
