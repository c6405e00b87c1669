"""What all pictures share.

Differences are shown in PuOr: readers who cannot tell red from green can tell these apart.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from ifonly.model.extras import needing
from ifonly.show.numbers import Marks, marks, writing

__all__ = ["DIVERGING", "FAINT", "FALLS", "FONT", "LONGEST", "RISES", "Picture"]

DIVERGING = "PuOr"
FALLS, RISES = "#B35806", "#542788"  # its ends
FAINT = "#BBBBBB"
FONT = 10.0
LONGEST = 26  # characters of a feature's name


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
