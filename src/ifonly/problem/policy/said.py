"""What a policy says, as values that are checked when they are made, of the whole, of a column, of a rule; and its files."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from ifonly.model.errors import InputError

__all__ = ["CHOICES", "Feature", "PolicyError", "Rule", "Said", "at", "toml_key", "toml_value", "written"]

VERSION = 1  # of the file
CHOICES = ("target", "prob", "cost")  # what a policy may leave to whoever asks
BARE = re.compile(r"[A-Za-z0-9_-]+")  # keys of TOML that need no quotes


class PolicyError(InputError):
    """A question that a policy forbids; ``field`` is the argument that it is about."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.field)


@contextmanager
def at(place: str, joint: str = ": ") -> Iterator[None]:
    """What is wrong begins with where it stands."""
    try:
        yield
    except InputError as error:
        what = str(error)
        raise InputError(f"{place}{what if what.startswith(' ') else f'{joint}{what}'}") from None


# ---- one check per kind of value ----


def _check(expected: str, fits: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """What hands a value on that fits, and refuses any other with what was expected."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise InputError(f" must be {expected}; got {value!r}")
        return value

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")


def _is_mark(value: Any) -> bool:
    """Whether this can stand in a number and is none of its digits or signs."""
    if not isinstance(value, str) or len(value) != 1:
        return False
    return (value.isprintable() or value.isspace()) and not value.isalnum() and value not in "+-−\n\r\t"


def _one_of(*known: str) -> Callable[[Any], Any]:
    return _check(" or ".join(f'"{name}"' for name in known if name), lambda value: value in known)


_text = _check("text", lambda value: isinstance(value, str))
_flag = _check("true or false", lambda value: isinstance(value, bool))
_end = _check("a number, or a value of an ordinal", lambda value: value is None or isinstance(value, str) or _is_number(value))
_number = _check("a number", _is_number)
_positive = _check("a number > 0", lambda value: value is None or _number(value) > 0)
_at_least_nought = _check("a number ≥ 0", lambda value: value is None or _number(value) >= 0)
_chance = _check("a number strictly between 0 and 1", lambda value: value is None or 0 < _number(value) < 1)
_count = _check("a whole number ≥ 0", lambda value: value is None or (type(value) is int and value >= 0))
_decimal = _check("one mark, such as a comma", lambda value: value == "" or (_is_mark(value) and not value.isspace()))
_group = _check('one mark, a space, or ""', lambda value: value is None or value == "" or _is_mark(value))
_label = _check("a class", lambda value: value is None or isinstance(value, (str, int, float, bool)))
_items = _check("a list", lambda value: isinstance(value, (list, tuple)))
_pairs = _check("a table", lambda value: isinstance(value, Mapping))


def _list(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: tuple(check(part) for part in _items(value))


def _table(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: {str(key): _within(str(key), check, part) for key, part in _pairs(value).items()}


def _within(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    with at(name, "."):
        return check(value)


@dataclass(frozen=True)
class Section:
    """A frozen dataclass whose fields say how they are checked."""

    def __post_init__(self) -> None:
        for part in fields(self):
            object.__setattr__(self, part.name, _within(part.name, part.metadata["check"], getattr(self, part.name)))

    @classmethod
    def made_of(cls, told: Any) -> Any:
        """From what a file says, or from one that is made already."""
        if isinstance(told, cls):
            return told
        known = [part.name for part in fields(cls)]
        for name in _pairs(told):
            if name not in known:
                raise InputError(f"{name} is not known here; known are {', '.join(known)}")
        return cls(**told)

    def to_dict(self) -> dict[str, Any]:
        """All that is said, as plain values."""
        usual = type(self)()
        said = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: _plain(value) for name, value in said.items() if value != getattr(usual, name)}


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _said(check: Callable[[Any], Any], default: Any = None) -> Any:
    how: dict[str, Any] = {"default_factory" if default is dict else "default": default}
    return field(metadata={"check": check}, **how)


# ---- what a file holds ----


@dataclass(frozen=True)
class Feature(Section):
    """What a house says about one column."""

    name: str = _said(_text, "")  # what people call it ("term of the loan")
    unit: str = _said(_text, "")  # "months"
    description: str = _said(_text, "")  # what it is
    values: Mapping[str, str] = _said(_table(_text), dict)  # what its values are called
    frozen: bool = _said(_flag, False)  # whether it stays as it is
    low: float | str | None = _said(_end)  # its bounds; without one there is no limit on that side
    high: float | str | None = _said(_end)
    only: str = _said(_one_of("", "increase", "decrease"), "")  # the one direction in which it may move
    integer: bool = _said(_flag, False)  # whether answers have whole numbers
    step: float | None = _said(_positive)  # answers are multiples of it
    never: tuple[Any, ...] = _said(_list(_label), ())  # values of a category that no answer chooses; a row may keep its own
    cost: float | None = _said(_positive)  # what a unit of it costs, of a category what a switch costs
    reason: str = _said(_text, "")  # why it may not change, or not as one might wish: for people


@dataclass(frozen=True)
class Rule(Section):
    """A rule that ties columns together: Σ terms·column ``sense`` ``value``."""

    terms: Mapping[str, float] = _said(_table(_number), dict)
    sense: str = _said(_one_of("<=", ">=", "=="), "<=")
    value: float = _said(_number, 0.0)
    reason: str = _said(_text, "")


@dataclass(frozen=True)
class Said(Section):
    """All that a policy says; see :class:`ifonly.Policy`."""

    house: str = _said(_text, "")
    language: str = _said(_text, "en")
    decimal: str = _said(_decimal, "")
    group: str | None = _said(_group)
    target: str | float | None = _said(_label)
    prob: float | None = _said(_chance)
    may_choose: tuple[str, ...] = _said(_list(_one_of(*CHOICES)), ())
    max_changes: int | None = _said(_count)
    scale: str = _said(_one_of("model", "raw"), "model")
    l1: float | None = _said(_at_least_nought)
    features: Mapping[str, Feature] = _said(_table(Feature.made_of), dict)
    classes: Mapping[str, str] = _said(_table(_text), dict)
    one_of: tuple[tuple[str, ...], ...] = _said(_list(_list(_text)), ())
    linear: tuple[Rule, ...] = _said(_list(Rule.made_of), ())

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decimal and self.decimal == self.group:
            what = "group must be another mark than decimal: nobody could read a number with both"
            raise InputError(f"{what}; got {self.group!r}")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The policy in a file, ``.toml`` or ``.json``; what is wrong with it is said with the place where it stands."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
            return cls.from_dict(json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text))
        except (OSError, ValueError) as error:  # the latter of either format, or an InputError
            raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None

    @classmethod
    def of(cls, given: Any) -> Self:
        """A policy, from whatever stands for one: itself, a file, or a mapping."""
        if isinstance(given, cls):
            return given
        if isinstance(given, (str, os.PathLike)):
            return cls.load(given)
        if isinstance(given, Mapping):
            return cls.from_dict(given)
        raise InputError(f"policy must be a Policy, a file or a mapping; got {type(given).__name__}")

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """What :meth:`to_dict` gave, or a file says."""
        if not isinstance(told, Mapping):
            raise InputError(f"a policy is a table; got {type(told).__name__}")
        told = dict(told)
        version = told.pop("version", VERSION)
        if version != VERSION:
            raise InputError(f"version must be {VERSION}; got {version!r}: the file is of another version of ifonly")
        return cls.made_of(told)

    def to_dict(self) -> dict[str, Any]:
        """All that is said, as plain values."""
        return {"version": VERSION, **super().to_dict()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, ``.toml`` or ``.json``, from which :meth:`load` reads it back."""
        file = Path(path)
        is_json = file.suffix.lower() == ".json"
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n" if is_json else written(self.to_dict())
        file.write_text(text, encoding="utf-8", newline="\n")


# ---- TOML, written, with a comment above any table or value; Python reads it by itself (`tomllib`) ----


def toml_key(name: str) -> str:
    """A key: bare where it may be, else in quotes."""
    return name if BARE.fullmatch(name) else toml_value(name)


def toml_value(given: Any) -> str:
    r"""A value on one line.

    >>> toml_value("a “b”\n"), toml_value([1, 2.5, True]), toml_value({"a b": 1}), toml_value(float("inf"))
    ('"a “b”\\n"', '[1, 2.5, true]', '{ "a b" = 1 }', 'inf')

    """
    if isinstance(given, float):
        return repr(given)
    if isinstance(given, (str, int)):  # also true and false, as JSON has them
        return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(given, Mapping):
        pairs = ", ".join(f"{toml_key(str(name))} = {toml_value(part)}" for name, part in given.items())
        return f"{{ {pairs} }}" if given else "{}"
    if isinstance(given, (list, tuple)):
        return f"[{', '.join(map(toml_value, given))}]"
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
            lines += [*_note(notes, (*at, name)), f"{toml_key(name)} = {toml_value(part)}"]
    for name, table in tables.items():
        place = (*at, name)
        only_tables = all(isinstance(part, Mapping) and part for part in table.values())
        heading = [] if only_tables else [f"[{'.'.join(map(toml_key, place))}]"]
        lines += ["", *_note(notes, place), *heading, *_lines(table, notes, place)]
    return lines


def _note(notes: Mapping[tuple[str, ...], str], place: tuple[str, ...]) -> list[str]:
    return [f"# {line}" if line else "" for line in notes.get(place, "").splitlines()]
