"""Numbers as people write them: whole where they are whole, four digits otherwise, never more than is true.

Sentences, tables, pictures, pages and the server all write their numbers here. ``web/numbers.js`` is the twin of this module:
what a page writes by itself is the same text for every number, to the last character. Ties are therefore rounded away from
zero, as JavaScript does it, and no digits are counted by logarithms.

A probability is rounded *down*, everywhere: what is said to be reached is reached. So 0.28085 is 28 % in a sentence and 28.0 %
in a column, and two probabilities beside each other may add up to 99.9 %.

Which marks stand in a number is decided once, by whoever is asked first: what shows an answer is `housed`, and all that it
writes has the marks of the answer's policy, or those of English; a letter has its language's. Data have no marks of their own.
"""

import math
import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from functools import wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

from ifonly.model.words import Words

__all__ = ["DIGITS", "ENGLISH", "EXACT_DIGITS", "MINUS", "THIN", "WIDE", "Marks", "asked", "bound", "count", "decimals"]
__all__ += ["directed", "fixed", "housed", "marked", "marks", "number", "pair", "percent", "quoted", "rounded", "share"]
__all__ += ["signed", "value", "writing"]

DIGITS = 4  # significant ones, of a number that is not whole
EXACT_DIGITS = 15  # any decimal number of so many survives being a float
MOST_DIGITS = 17  # tell any two numbers apart
GROUPED = 5  # digits before the point, from which on groups of three stand apart
SMALL, LARGE = 1e-4, 1e15  # below and from here on, with a power of ten
THIN, WIDE, MINUS = "\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
EXACTLY = Context(prec=800)  # any float, with all its digits
# 0.29 is 28.999999999999996 %, and where 0.8 was asked for and is reached the rival has 0.199999999999: that is 20 %. More than
# such roundings, and far less than anyone can see.
ROUNDINGS = 1 + 1e-9

# of a feature in a column that moves
DIGITS_OF_CHANGE, DIGITS_OF_VALUE = 3, 7  # significant ones of a difference, as long as the value has no more than these
SHORT = 6  # a source with no more digits is shown as it was given
MOST_DECIMALS = 12

# The plain numbers in what the library says of limits, by what stands before them: a name may have numbers too.
TOLD = re.compile(
    r"((?:[≥≤=]|\b(?:is|of|at|above)) |\[|, (?=\S+\])|(?:^| )(?=\S+·))(-?\d+(?:\.\d+)?(?:e[+-]\d+)?)(?!\w|\.\d)",
    re.ASCII,
)
PLAINLY = re.compile(r"(-?\d+(?:\.\d+)?)((?:e[+-]?\d+)?)")

# ---- marks ----


class Marks(NamedTuple):
    """What stands before decimals, and between groups of three digits."""

    decimal: str = "."
    group: str = THIN

    @classmethod
    def of(cls, words: Words, usual: "Marks | None" = None) -> "Marks":
        """Those of a house; what it does not say is as in English, or ``usual``.

        >>> Marks.of(Words(decimal=",", group=".")), Marks.of(Words(decimal="."), Marks(",", "."))
        (Marks(decimal=',', group='.'), Marks(decimal='.', group='\u202f'))
        """
        usual = usual or cls()
        decimal, group = words.decimal or usual.decimal, usual.group if words.group is None else words.group
        return cls(decimal, THIN if group == decimal else group)


ENGLISH = Marks()
_MARKS: ContextVar[Marks | None] = ContextVar("marks", default=None)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def marks() -> Marks:
    """Those that numbers are written with now."""
    return _MARKS.get() or ENGLISH


@contextmanager
def writing(own: Marks) -> Generator[None, None, None]:
    """Whatever is written within has these marks, unless it stands within another of these: the outermost decides.

    >>> with writing(Marks(",", ".")):
    ...     number(12500.5, 6), percent(0.998), signed(fixed(0.0, 1))
    ('12.500,5', '99,8 %', '0,0')
    """
    token = _MARKS.set(_MARKS.get() or own)
    try:
        yield
    finally:
        _MARKS.reset(token)


def housed(make: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function whose first argument is answers, or one: what it writes has the marks of their policy."""

    @wraps(make)
    def made(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        answers: Any = args[0]
        with writing(Marks.of(answers.model.words)):
            return make(*args, **kwargs)

    return made


# ---- amounts ----


def number(v: float, digits: int = DIGITS) -> str:
    """An amount, a distance, a cost: ``36``, ``12 500``, ``0.4355``, ``−1.235 × 10⁻⁷``.

    >>> number(36.0), number(0.43553), number(-2.0)
    ('36', '0.4355', '−2')
    """
    if not math.isfinite(v):
        return "–" if math.isnan(v) else "∞" if v > 0 else f"{MINUS}∞"
    near = _quantized(v, _places(v, digits))
    if not _is_scientific(v):
        return _written(f"{near:f}", trim=True)
    lead, power = f"{near:e}".split("e")
    return f"{_written(lead, trim=True)}{WIDE}×{WIDE}10{str(int(power)).translate(RAISED)}"


def fixed(v: float, decimals: int) -> str:
    """A number in a column, with so many decimals.

    >>> fixed(36.0, 2), fixed(-0.004, 2), fixed(12500.5, 0).split()
    ('36.00', '0.00', ['12', '501'])
    """
    if not abs(v) < LARGE:
        return number(v)
    return _written(f"{_quantized(v, decimals):f}", trim=False)


def signed(text: str) -> str:
    """A difference, as it was written, with its sign.

    >>> signed(number(2.5)), signed(number(-12.0)), signed(fixed(0.001, 1))
    ('+2.5', '−12', '0.0')
    """
    return text if text.startswith((MINUS, "–")) or not text.strip(f"0{marks().decimal}") else f"+{text}"


def value(v: Any, digits: int = DIGITS) -> str:
    """Any value of a table: a number, a category, or missing."""
    if v is None:
        return "missing"
    if isinstance(v, bool) or not isinstance(v, (int, float)):
        return str(v)
    return number(float(v), digits)


def pair(before: Any, after: Any) -> tuple[str, str]:
    """Two values, with as many digits as it takes to tell them apart.

    >>> pair(13.2012, 13.2041)
    ('13.201', '13.204')
    """
    digits = DIGITS
    found = value(before), value(after)
    while found[0] == found[1] and before != after and digits < MOST_DIGITS:
        digits += 1
        found = value(before, digits), value(after, digits)
    return found


def count(n: int, word: str) -> str:
    """How many there are: ``1 change``, ``12 changes``."""
    return f"{number(n)} {word}{'' if n == 1 else 's'}"


def bound(v: float) -> str:
    """An upper bound, rounded up to one digit: ``3 × 10⁻¹³``.

    >>> bound(2.1e-13).split(), bound(0.25), bound(0.0)
    (['3', '×', '10⁻¹³'], '0.3', 'the last digit')
    """
    if not math.isfinite(v):
        return number(v)
    if v <= 0:
        return "the last digit"
    return number(float(Context(prec=1, rounding=ROUND_CEILING).create_decimal(repr(float(v)))))


# ---- parts of a whole ----


def percent(p: float, form: Literal["whole", "tenths", "short"] = "whole") -> str:
    """A probability in per cent, rounded down: what it says is reached.

    In prose it is ``whole``, with a tenth near 0 and 1; a column has ``tenths``; ``short`` is a tenth that may be left out.

    >>> percent(0.8), percent(0.998), percent(0.9999), percent(0.004), percent(1.0), percent(0.0)
    ('80 %', '99.8 %', '> 99.9 %', '0.4 %', '100 %', '0 %')
    >>> percent(0.28085), percent(0.28085, "tenths"), percent(0.281, "short"), percent(0.28085, "short")
    ('28 %', '28.0 %', '28.1 %', '28 %')
    """
    if math.isnan(p):
        return "–"
    p = min(max(p, 0.0), 1.0)
    n = math.floor(1000 * p * ROUNDINGS)  # tenths of a per cent
    point = marks().decimal
    if p > 0 and n == 0:
        return f"< 0{point}1 %"
    if 0.9995 < p < 1:
        return f"> 99{point}9 %"
    if form == "tenths" or (n % 10 and (form == "short" or not 10 <= n < 990)):
        return f"{n // 10}{point}{n % 10} %"
    return f"{n // 10} %"


def asked(p: float) -> str:
    """A probability that was asked for, in per cent, as it is: to say less would say that less is out of reach.

    >>> asked(0.57), asked(0.59996)
    ('57 %', '59.996 %')
    """
    return f"{number(100 * p, EXACT_DIGITS)} %"


def share(part: float) -> str:
    """A part of a whole in per cent, to the nearest.

    >>> share(0.746), share(0.004), share(0.0)
    ('75 %', '0.4 %', '0 %')
    """
    if not math.isfinite(part):
        return number(part)
    size = abs(100 * part)
    text = "0" if not size else f"< 0{marks().decimal}1" if size < 0.1 else fixed(size, 1 if size < 0.95 else 0)
    return f"{MINUS if part < 0 else ''}{text} %"


# ---- numbers that stand in a text ----


def quoted(text: str) -> str:
    """What the library says of limits, which has plain numbers: with those of the house where it has marks of its own.

    >>> with writing(Marks(",", ".")):
    ...     quoted("rate ≤ 12.5 and 2.5·amount − term ≤ 20000 while fee is a multiple of 0.5")
    'rate ≤ 12,5 and 2,5·amount − term ≤ 20.000 while fee is a multiple of 0,5'
    """
    if marks() == ENGLISH:
        return text
    return TOLD.sub(lambda found: found[1] + number(float(found[2]), EXACT_DIGITS), text)


def marked(text: str) -> str:
    """A number that was written plainly, at an axis for instance, with the marks of the house where it has its own.

    >>> with writing(Marks(",", ".")):
    ...     marked("−0.50"), marked("12500"), marked("1.5e-06")
    ('−0,50', '12.500', '1,5e-06')
    """
    found = PLAINLY.fullmatch(text.replace(MINUS, "-"))
    return text if marks() == ENGLISH or found is None else _written(found[1], trim=False) + found[2]


# ---- digits ----


def rounded(v: float, digits: int = DIGITS, *, up: bool | None = None) -> float:
    """The number that is written with so many digits; not below ``v`` (``up``), or not above it (``up=False``).

    >>> rounded(1234.5, 3, up=True), rounded(1234.5, 3, up=False), rounded(36.0, 4, up=True), rounded(0.25, 1)
    (1235.0, 1234.0, 36.0, 0.3)
    """
    return _beside(v, _places(v, digits), up) if math.isfinite(v) else v


def directed(v: float, decimals: int, *, up: bool | None) -> float:
    """The number that is written with so many decimals; not below ``v`` (``up``), or not above it (``up=False``).

    >>> directed(7146.4, 0, up=False), directed(7146.6, 0, up=False), directed(7146.4, 0, up=None), directed(0.1, 2, up=True)
    (7146.0, 7146.0, 7146.0, 0.1)
    """
    return _beside(v, decimals, up) if abs(v) < LARGE else v


def _beside(v: float, decimals: int, up: bool | None) -> float:
    """The written number that is nearest, or the nearest on one side; 0.1 is 0.1, though the float of that name is more."""
    near = float(_quantized(v, decimals))
    if up is None or near == v or (near > v) is up:
        return near
    return float(_quantized(v, decimals, ROUND_CEILING if up else ROUND_FLOOR))


def decimals(source: float, value: float, others: Iterable[float] = ()) -> int:
    """How many decimals a feature is shown with: enough to see it change, and the source as it was given if that is short.

    >>> decimals(36.0, 24.0), decimals(17.99, 15.2123), decimals(0.0812345678, 0.0623), decimals(1e6, 1e6 + 0.001)
    (0, 2, 4, 0)
    """
    numbers = [source, value, *others]
    if all(v == round(v) for v in numbers):
        return 0
    change = abs(value - source) or max(abs(v - source) for v in numbers)
    size = max(abs(v) for v in numbers)
    most = DIGITS_OF_VALUE - 1 - math.floor(math.log10(size))
    by_change = DIGITS_OF_CHANGE - 1 - math.floor(math.log10(change)) if change > 0 else 0
    short = f"{source:.{SHORT}g}"
    own = len(short.partition(".")[2]) if float(short) == source and "e" not in short else 0
    return max(0, min(max(by_change, own), most, MOST_DECIMALS))


def _is_scientific(v: float) -> bool:
    return v != 0 and not SMALL <= abs(v) < LARGE


def _places(v: float, digits: int) -> int:
    """Decimals of so many significant digits; those before the point are dropped only where a power of ten stands for them."""
    after = digits - 1 - Decimal(v).adjusted()
    return after if _is_scientific(v) else max(after, 0)


def _quantized(v: float, decimals: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    return Decimal(v).quantize(Decimal((0, (1,), -decimals)), rounding, EXACTLY)


def _written(text: str, *, trim: bool) -> str:
    """Digits as they are read: groups of three, a minus that is one, and on request no noughts at the end."""
    whole, point, rest = text.lstrip("-").partition(".")
    rest = rest.rstrip("0") if trim else rest
    decimal, group = marks()
    if len(whole) >= GROUPED:
        whole = f"{int(whole):,}".replace(",", group)
    sign = MINUS if text.startswith("-") and text.strip("-0.") else ""
    return f"{sign}{whole}{decimal if point and rest else ''}{rest}"
