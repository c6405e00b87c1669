"""What people call a model's columns, values and classes: names, units and reasons, for everything that is read by people.

A model carries its words (`Model.worded`), and sentences, tables, pages and letters take them from there. Data keep their own
names: frames, JSON and files are read and written as if there were no words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PLAIN", "Word", "Words"]


@dataclass(frozen=True)
class Word:
    """What people call one column; what is empty is said as the data have it."""

    name: str = ""
    unit: str = ""
    description: str = ""
    reason: str = ""  # why it may not change, or not as one might wish
    values: Mapping[str, str] = field(default_factory=dict)  # what its values are called, by what they are written as


UNKNOWN = Word()


@dataclass(frozen=True)
class Words:
    """What people call things, and who speaks to them, in which language."""

    columns: Mapping[str, Word] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    house: str = ""
    language: str = ""
    decimal: str = ""  # the mark before decimals; by default as in English, in letters that of their language
    group: str | None = None  # what stands between groups of three digits; by default the same

    def of(self, column: str) -> Word:
        """What is known of a column."""
        return self.columns.get(column, UNKNOWN)

    def name(self, column: str) -> str:
        """A column's name."""
        return self.of(column).name or column

    def value(self, column: str, value: Any) -> Any:
        """A value of a column; a number stays one unless it has a name."""
        return self.of(column).values.get(str(value), value)

    def label(self, label: Any) -> str:
        """A class."""
        return str(self.named(label))

    def named(self, label: Any) -> Any:
        """A class: its name, or the label itself where it has none."""
        return self.classes.get(str(label)) or label


PLAIN = Words()
