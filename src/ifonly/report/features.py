"""What a reader calls a feature: a number in its own units, or a category as one thing, however many columns it has."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from os.path import commonprefix

import numpy as np
from numpy.typing import NDArray

from ifonly.answer import Counterfactual
from ifonly.encoding import Column, Encoding

__all__ = ["Feature", "decimals", "features_of"]

Floats = NDArray[np.float64]

SEPARATORS = "=_-:./ "  # between a category's name and its value, in the name of a one-hot column
DIGITS_OF_CHANGE = 3  # significant digits of a difference, …
DIGITS_OF_VALUE = 7  # … as long as the value itself then has no more than these
SHORT = 6  # a source with no more digits is shown as it was given
MOST_DECIMALS = 12


@dataclass(frozen=True)
class Feature:
    """One feature.

    Attributes
    ----------
    name : str
    at : ndarray
        The columns of ``A`` that it is made of.
    column : Column or None
        How a pipeline reads it from the user's table.
    levels : tuple of str
        What the columns stand for, where one of them is 1 and the others 0 and no pipeline says so.

    """

    name: str
    at: NDArray[np.intp]
    column: Column | None = None
    levels: tuple[str, ...] = ()

    def value(self, v: Floats) -> float | str:
        """What a reader sees, from the values of all columns of ``A``."""
        here = v[self.at]
        if self.column is not None:
            (value,) = self.column.write(here[None])
            return float(value) if self.column.kind == "number" else "other" if value is None else str(value)
        return self.levels[int(here.argmax())] if self.levels else float(here[0])


def features_of(cf: Counterfactual, shape: tuple[int, ...] | None) -> list[Feature]:
    """All features of an answer's model, those of an image by row and column."""
    model = cf.model
    if isinstance(model.encoding, Encoding):
        return [Feature(column.name, column.coordinates, column) for column in model.encoding.columns]
    groups = [] if cf.within is None else [g for g in cf.within.ground.limits.groups if len(g) > 1]
    grouped = {int(d): group for group in groups for d in group}
    found: list[Feature] = []
    for d in range(model.n_features):
        if d not in grouped:
            found.append(Feature(_name(cf, d, shape), np.array([d])))
        elif d == grouped[d][0]:
            found.append(_choice([_name(cf, int(i), None) for i in grouped[d]], grouped[d]))
    return found


def _name(cf: Counterfactual, d: int, shape: tuple[int, ...] | None) -> str:
    names = cf.sources.columns if cf.model.feature_names is None else cf.model.feature_names
    if shape is not None:
        place = [int(i) + 1 for i in np.unravel_index(d, shape)]
        return f"row {place[0]}, column {place[1]}" + (f", {('red', 'green', 'blue')[place[2] - 1]}" if len(place) > 2 else "")
    return f"feature {d}" if names is None else str(names[d])


def _choice(names: list[str], at: NDArray[np.intp]) -> Feature:
    """A group of one-hot columns, named by what their names have in common."""
    common = commonprefix(names)
    ends = [common.rfind(mark) for mark in SEPARATORS]
    cut = max(ends) + 1
    prefix = common[:cut].rstrip(SEPARATORS)
    if not prefix:
        return Feature("one of", at, levels=tuple(names))
    return Feature(prefix, at, levels=tuple(name[cut:] for name in names))


def decimals(source: float, value: float, others: Iterable[float] = ()) -> int:
    """How many decimals a feature is shown with: enough to see it change, and the source as it was given if that is short."""
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
