"""What a policy says, as values that are checked when they are made: of the whole, of a column, of a rule."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from ifonly.model.errors import InputError

__all__ = ["CHOICES", "Feature", "PolicyError", "Rule", "Said", "at"]

CHOICES = ("target", "prob", "cost")  # what a policy may leave to whoever asks


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
    return field(metadata={"check": check}, **{"default_factory" if default is dict else "default": default})


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
