"""Answers for people: tables, sentences, pictures and pages. Its modules import answers, which therefore import it bare."""

from importlib import import_module
from types import ModuleType

__all__ = ["explore", "letter", "numbers", "page", "plans", "plot", "sentence", "shape", "summary", "table", "text"]


def __getattr__(name: str) -> ModuleType:
    """A module of this room, imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
