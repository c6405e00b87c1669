"""What is asked: one value, checked once, whoever asks (Python, the command line, HTTP, Spark).

A `Question` is what the user says, without a model: frozen, picklable, to and from JSON. `asked.Asked` is the same question put
to a model.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats
from ifonly.problem.actions import Actions
from ifonly.problem.cost import Cost

__all__ = ["FLIP", "MAX_NODES", "Backend", "Question"]

Backend = Literal["auto", "reference", "cpu", "cuda"]

FLIP = 0.5  # the default probability: more than all other classes together
# The least and the largest: beyond these λ squares overflow; the probabilities are the floats next to 0 and 1.
RANGES = {"lam": (1e-100, 1e100), "prob": (math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0))}
MAX_NODES = 100_000  # of a search


@dataclass(frozen=True, eq=False)
class Question:
    """What is wanted of a source, or of each of many; the fields are the arguments of :func:`ifonly.invert`.

    Every field is checked when the question is made. :func:`ifonly.ask` puts it to a model.

    Examples
    --------
    >>> question = Question("approved", prob=0.9, max_changes=2)
    >>> Question.from_json(question.to_json()) == question
    True
    >>> Question(prob=1.5)
    Traceback (most recent call last):
    ifonly.model.errors.InputError: prob must be strictly between 0 and 1; got 1.5

    """

    target: Any = None
    lam: ArrayLike | None = None
    prob: ArrayLike | None = None
    margin: float | None = None
    tol: float | None = None
    start: ArrayLike | Literal["source"] | None = None
    max_iter: int | None = None
    cost: Cost | None = None
    actions: Actions | None = None
    max_changes: int | None = None
    n: int | None = None
    gap: float | None = None
    time_limit: float | None = None
    node_limit: int | None = None
    backend: Backend = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(value, name))
        if (self.lam is not None) + (self.prob is not None) + (self.margin is not None) > 1:
            given = [name for name in ("lam", "prob", "margin") if getattr(self, name) is not None]
            raise InputError(f"give one of {' and '.join(given)}, not both")
        if self.start is not None and self.lam is None:
            raise InputError("start goes with lam; with prob the search finds its own starts")
        if self.threads is not None and self.backend == "cuda":
            raise InputError('threads is for the processor; with backend="cuda" leave it out')

    def to_json(self) -> str:
        """As JSON, from which :meth:`from_json` makes an equal question."""
        told = {field.name: _plain(getattr(self, field.name)) for field in fields(self) if _is_set(self, field)}
        return json.dumps(told, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes | Mapping[str, Any]) -> "Question":
        """The question that :meth:`to_json` wrote; also from the mapping that the text stands for."""
        try:
            told = text if isinstance(text, Mapping) else json.loads(text)
        except ValueError as error:
            raise InputError(f"a question is a JSON object; {error}") from None
        if not isinstance(told, Mapping):
            raise InputError(f"a question is a JSON object; got {type(told).__name__}")
        unknown = sorted(set(told) - {field.name for field in fields(cls)})
        if unknown:
            raise InputError(f"a question has no {unknown[0]!r}; it has {[field.name for field in fields(cls)]}")
        return cls(**{name: _read(name, value) for name, value in told.items()})

    def __eq__(self, other: object) -> bool:
        return NotImplemented if not isinstance(other, Question) else self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        told = (f"{field.name}={_shown(getattr(self, field.name))}" for field in fields(self) if _is_set(self, field))
        return f"Question({', '.join(told)})"


def _is_set(question: Question, field: Any) -> bool:
    value = getattr(question, field.name)
    return value is not None and not (isinstance(value, str) and value == field.default)


def _shown(value: Any) -> str:
    """As Python shows it; a set in one order, as equal sets may have several."""
    return f"{{{', '.join(sorted(map(repr, value)))}}}" if isinstance(value, (set, frozenset)) else repr(value)


# ---- one check per field ----


def _number(value: Any, name: str) -> float:
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be one number; got {value!r}") from None
    least, most = RANGES[name]
    if least <= found <= most:
        return found
    if name == "lam" and 0 < found < np.inf:
        raise InputError(f"lam must be from {least:g} to {most:g}: beyond, squares overflow; got {found}")
    expected = "a number > 0" if name == "lam" else "strictly between 0 and 1"
    raise InputError(f"{name} must be {expected}; got {found}")


def _numbers(value: Any, name: str) -> float | Floats:
    """One, or one per row."""
    if np.ndim(value) == 0:
        return _number(value, name)
    if np.ndim(value) > 1:
        raise InputError(f"{name} must be one number, or one per row; got an array of shape {np.shape(value)}")
    try:
        values = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers; got {value!r}") from None
    least, most = RANGES[name]
    for bad in values[~((values >= least) & (values <= most))][:1]:
        _number(bad, name)
    values.flags.writeable = False
    return values


def _fits(
    words: str, fits: Callable[[Any], Any], made: Callable[[Any], Any] | None = None, shown: Callable[[Any], str] = repr
) -> Callable[[Any, str], Any]:
    """What hands a value on that fits (``made`` into what it is to be), and refuses any other with what was expected."""

    def check(value: Any, name: str) -> Any:
        if not fits(value):
            raise InputError(f"{name} must be {words}; got {shown(value)}")
        return value if made is None else made(value)

    return check


def _whole(least: int, words: str) -> Callable[[Any, str], int]:
    return _fits(words, lambda v: isinstance(v, (int, np.integer)) and not isinstance(v, bool) and v >= least, int)


def _one_number(words: str, fits: Callable[[float], bool]) -> Callable[[Any, str], float]:
    kinds = (int, float, np.number)
    return _fits(f"a number {words}", lambda v: isinstance(v, kinds) and not isinstance(v, bool) and fits(float(v)), float)


def _of_kind(kind: type, words: str) -> Callable[[Any, str], Any]:
    return _fits(words, lambda v: isinstance(v, kind), shown=lambda v: type(v).__name__)


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "lam": _numbers,
    "prob": _numbers,
    "margin": _one_number("≥ 0", lambda v: 0 <= v < np.inf),
    "tol": _one_number("> 0", lambda v: v > 0),
    "start": _fits('a point, or "source"', lambda v: not isinstance(v, str) or v == "source"),
    "max_iter": _whole(1, "1 or more"),
    "cost": _of_kind(Cost, "a Cost"),
    "actions": _of_kind(Actions, "Actions"),
    "max_changes": _whole(0, "a whole number ≥ 0"),
    "n": _whole(1, "a whole number ≥ 1"),
    "gap": _one_number("≥ 0", lambda v: 0 <= v < np.inf),
    "time_limit": _one_number("of seconds > 0", lambda v: v > 0),
    "node_limit": _whole(1, "1 or more"),
    "backend": _fits('"auto", "reference", "cpu" or "cuda"', lambda v: v in get_args(Backend)),
    "threads": _whole(1, "1 or more"),
}


# ---- to and from JSON ----


def _plain(value: Any) -> Any:
    """A field as JSON has it: mappings as pairs (their keys may be numbers), sets and tuples as such, arrays as lists."""
    if isinstance(value, (Cost, Actions)):
        return {
            field.name: _plain(getattr(value, field.name)) for field in fields(value) if getattr(value, field.name) is not None
        }
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(key), _plain(v)] for key, v in value.items()]}
    if isinstance(value, (set, frozenset)):
        return {"any": sorted((_plain(v) for v in value), key=repr)}
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, tuple):  # may be a label
        return {"tuple": [_plain(v) for v in value]}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise InputError(f"{type(value).__name__} cannot be written as JSON: {value!r}")


def _read(name: str, value: Any) -> Any:
    kind = {"cost": Cost, "actions": Actions}.get(name)
    if kind is None:
        return _unplain(value)
    if not isinstance(value, Mapping) or not set(value) <= {field.name for field in fields(kind)}:
        raise InputError(f"{name} must be an object of {[field.name for field in fields(kind)]}; got {value!r}")
    return kind(**{key: _unplain(v) for key, v in value.items()})


def _unplain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"pairs"}:
            return {_unplain(key): _unplain(v) for key, v in value["pairs"]}
        if set(value) == {"any"}:
            return {_unplain(v) for v in value["any"]}
        if set(value) == {"tuple"}:
            return tuple(_unplain(v) for v in value["tuple"])
        raise InputError(f'an object of a question has "pairs", "any" or "tuple"; got {sorted(value)}')
    return [_unplain(v) for v in value] if isinstance(value, list) else value
