"""Numbers on their way into a page: packed, and with the decimals they are shown with."""

import base64
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["decimals", "listed", "packed", "power"]

DIGITS_OF_CHANGE = 3  # significant digits of a difference, …
DIGITS_OF_VALUE = 7  # … as long as the value itself then has no more than these
SHORT = 6  # a source with no more digits is shown as it was given
MOST_DECIMALS = 12
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def decimals(source: float, value: float, others: Iterable[float] = ()) -> int:
    """How many decimals a feature is shown with: enough to see it change, and the source as it was given if that is short.

    >>> decimals(36.0, 24.0), decimals(17.99, 15.2123), decimals(0.0812345678, 0.0623), decimals(1e6, 1e6 + 0.001)
    (0, 2, 4, 0)

    """
    numbers = [source, value, *others]
    if all(number == round(number) for number in numbers):
        return 0
    change = abs(value - source) or max(abs(number - source) for number in numbers)
    size = max(abs(number) for number in numbers)
    most = DIGITS_OF_VALUE - 1 - math.floor(math.log10(size))
    by_change = DIGITS_OF_CHANGE - 1 - math.floor(math.log10(change)) if change > 0 else 0
    short = f"{source:.{SHORT}g}"
    own = len(short.partition(".")[2]) if float(short) == source and "e" not in short else 0
    return max(0, min(max(by_change, own), most, MOST_DECIMALS))


def power(value: float) -> str:
    """A small number, rounded up to one digit: ``3 × 10⁻¹³``.

    >>> power(2.1e-13).split(), power(9.5e-7).split()
    (['3', '×', '10⁻¹³'], ['1', '×', '10⁻⁶'])

    """
    if not value > 0:
        return "the last digit"
    exponent = math.floor(math.log10(value))
    lead = math.ceil(value / 10.0**exponent)
    lead, exponent = (1, exponent + 1) if lead > 9 else (lead, exponent)
    return f"{lead} × 10{str(exponent).translate(RAISED)}".replace(" ", "\N{NO-BREAK SPACE}")


def listed(values: Any) -> list[float]:
    """An array as JSON has it."""
    return np.asarray(values, dtype=np.float64).tolist()


def packed(values: Any, kind: str = "<f8") -> str:
    """An array in little-endian order, as base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")
