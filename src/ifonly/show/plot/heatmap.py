"""Many answers: which features change how much."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.answers import Counterfactuals
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats
from ifonly.show.plot.drawing import DIVERGING, FONT, LONGEST, axes, by_part
from ifonly.show.table import cut

__all__ = ["HeatMap"]

SHOWN_IN_MAP = 20


@dataclass(frozen=True)
class HeatMap:
    """Which features change how much: features against rows, or against targets.

    Attributes
    ----------
    names : tuple of str
        Features, those that cost most first.
    units : ndarray of shape (len(names), n)
        Changes in units of cost; of a category, the length of the switch.
    labels : tuple of str
        The targets.
    counts : tuple of int
        How many columns belong to each.
    by : {"row", "target"}

    """

    names: tuple[str, ...]
    units: Floats
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    by: str

    @classmethod
    def of(cls, cfs: Counterfactuals, by: str = "row", features: int = SHOWN_IN_MAP) -> "HeatMap":
        """The changes of many answers: ``by`` row, ordered by target and cost, or the mean change by target."""
        if by not in ("row", "target"):
            raise InputError(f'by must be "row" or "target"; got {by!r}')
        source, x = cfs.coordinates
        solved = np.flatnonzero(np.isfinite(x).all(axis=1) & np.isfinite(source).all(axis=1))
        if not len(solved):
            raise InputError("there is no answer to draw: no row was solved")
        names, units = by_part(cfs, (x - source)[solved])
        target = cfs.results.target[solved]
        size = np.square(units).sum(axis=0)
        chosen = np.argsort(-size, kind="stable")[: min(features, int((size > 0).sum()) or 1)]
        kinds, counts = np.unique(target, return_counts=True)
        if by == "row":
            table = units[np.lexsort((np.square(units).sum(axis=1), target))]
        else:
            table, counts = np.stack([units[target == k].mean(axis=0) for k in kinds]), np.ones(len(kinds), dtype=int)
        labels = tuple(str(cfs.model.label(int(k))) for k in kinds)
        return cls(tuple(names[j] for j in chosen), table[:, chosen].T, labels, tuple(counts.tolist()), by)

    def plot(self, ax: Any = None) -> Any:
        """Draw it; returns the axes."""
        ax = axes(ax, 6.4, 1.1 + 0.24 * len(self.names))
        top = float(np.percentile(np.abs(self.units), 99.5)) or float(np.abs(self.units).max()) or 1.0
        image = ax.imshow(self.units, cmap=DIVERGING, vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
        ax.set_yticks(range(len(self.names)), [cut(name, LONGEST) for name in self.names])
        ax.tick_params(length=0)
        ends = np.cumsum(self.counts)
        ax.set_xticks(ends - 0.5 * np.array(self.counts) - 0.5, [cut(label, LONGEST) for label in self.labels])
        for end in ends[:-1]:
            ax.axvline(end - 0.5, color="white", linewidth=2)
        if self.by == "row" and len(self.labels) == 1:
            ax.set_xticks([])
            ax.set_xlabel(f"{self.units.shape[1]} rows towards {cut(self.labels[0], LONGEST)}, the cheapest first")
        else:
            rows = f", {self.units.shape[1]} rows, of each the cheapest first" if self.by == "row" else ""
            ax.set_xlabel(f"target{rows}")
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.05, pad=0.02)
        bar.set_label("change, in units of cost", fontsize=FONT - 1)
        bar.ax.tick_params(labelsize=FONT - 1)
        bar.outline.set_visible(False)
        for side in ax.spines.values():
            side.set_visible(False)
        return ax
