"""Answers for people: tables, sentences, pictures and pages. Its modules import answers, which therefore import it bare."""

from importlib import import_module
from types import ModuleType

__all__ = []
_MODULES = ("letter", "page", "plans", "plot", "sentence", "summary", "table")  # through which answers show themselves


def __getattr__(name: str) -> ModuleType:
    """One of these modules, imported when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
