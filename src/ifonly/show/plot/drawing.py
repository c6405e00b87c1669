"""What all pictures share: colours, sizes, axes.

Colours are Okabe and Ito's, and differences are shown in PuOr: readers who cannot tell red from green can tell these apart.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ifonly.answers.change import measured, parts_of
from ifonly.model.extras import needing
from ifonly.model.numerics import Floats
from ifonly.show.numbers import ENGLISH, Marks, marked, marks, writing

__all__ = ["BLUE", "DIVERGING", "FAINT", "FALLS", "GREY", "LINES", "ORANGE", "RISES"]
__all__ += ["FONT", "LONGEST", "SHOWN", "Picture", "by_part", "plain", "ticked", "tiles"]

BLUE, ORANGE, GREEN, SKY, PINK, YELLOW = "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#CC79A7", "#E69F00"
LINES = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, "#000000", "#7F7F7F")
FALLS, RISES = "#B35806", "#542788"  # the ends of PuOr
GREY, FAINT = "#555555", "#BBBBBB"
DIVERGING = "PuOr"
FONT = 10.0
LONGEST = 26  # characters of a feature's name
SHOWN = 8  # features in a waterfall or among trajectories


@dataclass(frozen=True)
class Picture(ABC):
    """A picture's data, and the marks of its numbers: those of the house, when it was made."""

    marks: Marks = field(default_factory=marks, kw_only=True, repr=False)

    def plot(self, ax: Any = None) -> Any:
        """Draw it; returns the axes, of two of them those on the left, or those that hold several images."""
        with writing(self.marks):
            return self._draw(ax)

    @abstractmethod
    def _draw(self, ax: Any) -> Any: ...

    def _axes(self, ax: Any, width: float, height: float) -> Any:
        """The axes to draw on: those given, or those of a new figure of this size in inches."""
        if ax is None:
            with needing("pictures need matplotlib", "plot"):
                import matplotlib.pyplot as plt
            _, ax = plt.subplots(figsize=(width, height), layout="constrained")
        ax.tick_params(labelsize=FONT - 1)
        ax.xaxis.label.set_fontsize(FONT)
        ax.yaxis.label.set_fontsize(FONT)
        return ax


def ticked(axis: Any) -> None:
    """Numbers along an axis, with the marks of the house where it has its own."""
    own = marks()
    if own == ENGLISH:
        return
    with needing("pictures need matplotlib", "plot"):
        from matplotlib.ticker import ScalarFormatter

    class Ticks(ScalarFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            with writing(own):  # long after the picture was drawn
                return marked(super().__call__(x, pos))

    axis.set_major_formatter(Ticks())


def tiles(ax: Any, across: int, rows: int = 1, above: float = 0.0) -> list[Any]:
    """Axes in rows within others, with a part of each one's height left free above it."""
    ax.set_axis_off()
    gap = 0.02
    width, height = (1 - (across - 1) * gap) / across, 1 / rows
    places = [(i * (width + gap), 1 - (row + 1) * height) for row in range(rows) for i in range(across)]
    return [ax.inset_axes((x, y, width, height * (1 - above))) for x, y in places]


def plain(ax: Any, *, left: bool = True) -> Any:
    """The axes, without a frame."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines["left"].set_visible(left)
    return ax


def by_part(answers: Any, delta: Floats) -> tuple[list[str], Floats]:
    """Changes (n, D) in units of cost, by what the user sees as one feature."""
    t = delta * measured(answers.model, answers.conditions).per_unit
    parts = parts_of(answers.model, answers.conditions, answers.sources.columns)
    return [part.name for part in parts], np.stack([part.length(t) for part in parts], axis=1)
