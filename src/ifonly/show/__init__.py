"""Answers for people: tables, sentences, pictures and pages; and what the last two share."""

import math
import operator
from typing import Any

from ifonly.model.errors import InputError

__all__ = ["image_shape"]


def image_shape(shape: Any, pixels: int) -> tuple[int, ...]:
    """``(height, width)`` or ``(height, width, 3)``, if that was given and has as many values as there are features.

    >>> image_shape([8, 8], 64)
    (8, 8)
    """
    try:
        found = tuple(operator.index(n) for n in shape)
    except TypeError:
        found = ()
    if len(found) not in (2, 3) or min(found) < 1 or (len(found) == 3 and found[2] != 3):
        raise InputError(f"shape must be (height, width) or (height, width, 3); got {shape!r}")
    if math.prod(found) != pixels:
        raise InputError(f"shape must have {pixels} values in all, as the model has features; got {found}")
    return found
