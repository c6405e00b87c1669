"""What a letter says in each language: one small file a language (``messages/``), with the same keys in all of them.

To add a language, add its file. A test compares the keys, and the words in braces, with those of the English one.
"""

import tomllib
from datetime import date
from importlib.resources import files
from typing import Any

from ifonly.model.errors import InputError
from ifonly.model.words import PLAIN, Words
from ifonly.show.numbers import Marks, percent

__all__ = ["Catalogue", "languages"]

PLACE = files("ifonly.show.letter") / "messages"


def languages() -> list[str]:
    """The languages that there are, by their codes."""
    return sorted(file.name.removesuffix(".toml") for file in PLACE.iterdir() if file.name.endswith(".toml"))


class Catalogue:
    """The messages of a language, and how it writes numbers, percents, dates and lists; ``words`` may have their own marks."""

    def __init__(self, language: str, words: Words = PLAIN) -> None:
        if language not in languages():
            raise InputError(f"letters are in {', '.join(languages())}; got {language!r}")
        parts = tomllib.loads((PLACE / f"{language}.toml").read_text(encoding="utf-8"))
        self.language = language
        self.messages = {key: message for part in parts.values() for key, message in part.items()}
        self.marks = Marks.of(words, Marks(self.messages["decimal"], self.messages["group"]))

    def say(self, key: str, **parts: Any) -> str:
        """A message, with its parts filled in."""
        return self.messages[key].format(**parts)

    def quote(self, text: str) -> str:
        """A text in quotation marks."""
        return self.say("quote", text=text)

    def percent(self, p: float) -> str:
        """A probability, rounded down."""
        return self.say("percent", number=percent(p).removesuffix("%").rstrip())

    def date(self, day: date) -> str:
        """A day."""
        return self.say("date", day=day.day, month=self.messages["months"][day.month - 1], year=day.year)

    def listed(self, parts: list[str]) -> str:
        """``a``, ``a and b``, ``a, b and c``."""
        *first, last = parts
        return last if not first else self.say("and", first=self.say("comma").join(first), last=last)
