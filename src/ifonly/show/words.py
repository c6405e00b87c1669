"""Numbers as people write them: whole where they are whole, four digits otherwise, never more than is true."""

import math
from typing import Any

__all__ = ["DIGITS", "EXACT_DIGITS", "MINUS", "number", "pair", "percent", "share", "signed", "value"]

DIGITS = 4  # significant ones, of a number that is not whole
EXACT_DIGITS = 15  # any decimal number of so many survives being a float
MOST_DIGITS = 17  # tell any two numbers apart
GROUPED = 10_000  # from here on, groups of three digits stand apart
SCIENTIFIC = 1e15  # from here on, and below 1 / 10⁴, with a power of ten
THIN, MINUS = "\N{NARROW NO-BREAK SPACE}", "\N{MINUS SIGN}"


def number(v: float, digits: int = DIGITS) -> str:
    """A number in words: ``36``, ``12 500``, ``0.4355``, ``−1.2e−07``.

    >>> number(36.0), number(0.43553), number(-2.0)
    ('36', '0.4355', '−2')

    """
    if math.isnan(v):
        return "–"
    if math.isinf(v):
        return "∞" if v > 0 else f"{MINUS}∞"
    size = abs(v)
    if size and (size >= SCIENTIFIC or size < 1e-4):
        text = f"{v:.{min(digits, 3) - 1}e}" if digits == DIGITS else f"{v:.{digits - 1}e}"
    elif v == round(v):
        text = _grouped(f"{v:.0f}")
    else:
        # .g would write 12345.6 as 1.235e+04: digits after the point, but none before it are dropped
        after = max(digits - 1 - math.floor(math.log10(size)), 0)
        text = f"{v:.{after}f}"
        if "." in text:
            whole, rest = text.split(".")
            text = _grouped(whole) + (f".{rest.rstrip('0')}" if rest.rstrip("0") else "")
        else:
            text = _grouped(text)
    return "0" if text in ("-0", "0") else text.replace("-", MINUS)


def _grouped(whole: str) -> str:
    return f"{int(whole):,}".replace(",", THIN) if abs(int(whole)) >= GROUPED else whole


def signed(v: float, digits: int = DIGITS) -> str:
    """A difference, with its sign.

    >>> signed(2.5), signed(-12.0), signed(0.0)
    ('+2.5', '−12', '0')

    """
    text = number(v, digits)
    return text if text.startswith((MINUS, "–")) or text == "0" else f"+{text}"


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


def percent(p: float) -> str:
    """A probability in per cent, rounded down: what it says is reached.

    >>> percent(0.8), percent(0.998), percent(0.9999), percent(0.004), percent(1.0), percent(0.0)
    ('80 %', '99.8 %', '> 99.9 %', '0.4 %', '100 %', '0 %')

    """
    if math.isnan(p):
        return "–"
    whole = math.floor(100 * p * (1 + 1e-12))
    if p <= 0 or p >= 1 or 1 <= whole < 99:
        return f"{whole} %".replace("-", MINUS)
    tenths = math.floor(1000 * p * (1 + 1e-12)) / 10
    if whole >= 99:
        return "> 99.9 %" if p > 0.9995 else f"{tenths:.1f} %".replace(".0", "")
    return f"{tenths:.1f} %" if tenths else "< 0.1 %"


def share(part: float) -> str:
    """A part of a whole in per cent, to the nearest.

    >>> share(0.746), share(0.004), share(0.0)
    ('75 %', '0.4 %', '0 %')

    """
    size = abs(100 * part)
    if math.isnan(part):
        return "–"
    text = "0" if not size else "< 0.1" if size < 0.1 else f"{size:.1f}" if size < 0.95 else f"{size:.0f}"
    return f"{MINUS if part < 0 else ''}{text} %"
