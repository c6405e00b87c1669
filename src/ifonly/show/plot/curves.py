"""Curves: of a path, probability and distance against λ and how the features move; and how a solver came to its answer."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual, Path
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats
from ifonly.show.plot.drawing import BLUE, FAINT, FONT, GREY, LINES, LONGEST, ORANGE, SHOWN, Picture, by_part, plain, ticked
from ifonly.show.text import cut, shortened

__all__ = ["Convergence", "Curve", "Trajectories"]

LABEL_GAP = 0.062  # of the height, between the labels of two lines


def _outwards(ax: Any, lam: Floats) -> None:
    """λ along the axis of every picture of a path: from the source, where it is large, outwards."""
    ax.set_xscale("log")
    if lam.min() < lam.max():
        ax.set_xlim(lam.max(), lam.min())
    ax.minorticks_off()
    ax.set_xlabel("λ, falling from the source outwards")


@dataclass(frozen=True)
class Curve(Picture):
    """Probability and distance against λ."""

    lam: Floats
    proba: Floats
    distance: Floats
    target: Any

    @classmethod
    def of(cls, path: Path) -> "Curve":
        """The probabilities and distances of a path, by λ."""
        order = np.argsort(path.lam)
        p = path.proba[:, path.model.class_index(path.target)]
        return cls(path.lam[order], p[order], path.distance[order], path.model.words.named(path.target))

    def _draw(self, ax: Any) -> Any:
        ax = self._axes(ax, 6.0, 3.2)
        ax.plot(self.lam, self.proba, color=BLUE, linewidth=2.2)
        _outwards(ax, self.lam)
        ax.set_ylim(0, 1.02)
        ax.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        ax.axhline(0.5, color=FAINT, linewidth=0.8, zorder=0)
        ax.set_ylabel(f"p({cut(str(self.target), LONGEST)})", color=BLUE)
        ax.tick_params(axis="y", colors=BLUE)
        other = ax.twinx()
        other.plot(self.lam, self.distance, color=ORANGE, linewidth=2.2, linestyle=(0, (4, 1.5)))
        other.set_ylim(0, 1.02 * float(self.distance.max()))
        other.set_ylabel("distance (dashed)", color=ORANGE)
        other.tick_params(axis="y", colors=ORANGE, labelsize=FONT - 1)
        ticked(other.yaxis)
        for axis in (ax, other):
            axis.spines["top"].set_visible(False)
        return ax


@dataclass(frozen=True)
class Trajectories(Picture):
    """How the features move along a path, in units of cost."""

    lam: Floats  # (n,)
    proba: Floats  # (n,)
    names: tuple[str, ...]  # the features that move most, at the end of the path
    units: Floats  # (n, len(names)) their changes, in units of cost
    others: int  # how many more features move
    target: Any

    @classmethod
    def of(cls, path: Path, features: int = SHOWN) -> "Trajectories":
        """The features of a path that move most."""
        order = np.argsort(path.lam)
        source, x = path.coordinates
        names, units = by_part(path, x[order] - source)
        moved = np.flatnonzero(np.abs(units).max(axis=0) > 0)
        chosen = moved[np.argsort(-np.abs(units[:, moved]).max(axis=0), kind="stable")][:features]
        p = path.proba[order, path.model.class_index(path.target)]
        shown = tuple(names[j] for j in chosen)
        return cls(path.lam[order], p, shown, units[:, chosen], len(moved) - len(chosen), path.model.words.named(path.target))

    def _draw(self, ax: Any) -> Any:
        ax = self._axes(ax, 6.4, 3.6)
        for j, name in enumerate(self.names):
            ax.plot(self.lam, self.units[:, j], color=LINES[j % len(LINES)], linewidth=1.8, label=name)
        _outwards(ax, self.lam)
        ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
        even = np.flatnonzero(self.proba >= 0.5)
        if 0 < len(even) < len(self.lam):
            at = float(self.lam[even[-1]])
            ax.axvline(at, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
            even = f"p({cut(str(self.target), LONGEST)}) = 50 %"
            ax.text(at, 1.01, even, transform=ax.get_xaxis_transform(), ha="center", fontsize=FONT - 1)
        low, high = (float(v) for v in (self.units.min(), self.units.max()))
        room = 0.05 * (high - low or 1.0)
        ax.set_ylim(low - room, high + room)
        ends, labels = self.units[0], shortened(self.names, LONGEST)
        for j, y in zip(np.argsort(ends), _apart(np.sort(ends), low, high), strict=True):
            colour = LINES[j % len(LINES)]
            ax.annotate(labels[j], (1.02, y), xycoords=("axes fraction", "data"), va="center", color=colour, fontsize=FONT - 1)
        ax.set_ylabel("change, in units of cost")
        ticked(ax.yaxis)
        return plain(ax)


def _apart(y: Floats, low: float, high: float) -> Floats:
    """Heights in rising order, moved so that no two labels touch."""
    gap = LABEL_GAP * (high - low or 1.0)
    out = y.astype(float)
    for _ in range(100):
        for i in range(len(out) - 1):
            short = gap - (out[i + 1] - out[i])
            if short > 1e-12:
                out[i] -= short / 2
                out[i + 1] += short / 2
    return out


@dataclass(frozen=True)
class Convergence(Picture):
    """‖∇E‖ before each iteration, and how far E was above its least."""

    grad_norm: Floats
    above: Floats
    bound: float  # what is known of ‖∇E‖ at the answer, rounding included

    @classmethod
    def of(cls, cf: Counterfactual) -> "Convergence":
        """The iterations of an answer whose solver kept a history."""
        if not cf.history:
            raise InputError(
                "there is no history: two classes have a closed form, and compiled loops keep none; "
                'for more classes use ifonly.invert(…, backend="reference")'
            )
        gradients = [step.grad_norm for step in cf.history]
        values = np.array([step.objective for step in cf.history])
        return cls(np.array(gradients), (values - cf.objective).clip(0.0), cf.grad_norm)

    def _draw(self, ax: Any) -> Any:
        ax = self._axes(ax, 6.0, 3.2)
        n = np.arange(len(self.grad_norm))
        ax.plot(n, self.grad_norm, color=BLUE, marker="o", markersize=5, linewidth=1.8)
        seen = self.above > 0
        ax.plot(n[seen], self.above[seen], color=ORANGE, marker="s", markersize=5, linewidth=1.8, linestyle=(0, (4, 1.5)))
        ax.set_yscale("log")
        ax.axhline(self.bound, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
        look: dict[str, Any] = {"fontsize": FONT - 1, "color": GREY, "va": "bottom"}
        ax.text(0.01, self.bound, "bound at the answer, rounding included", transform=ax.get_yaxis_transform(), **look)
        ax.set_xticks(n[:: max(len(n) // 10, 1)])
        ax.set_xlabel("iterations done")
        for y, text, colour in ((0.98, "‖∇E‖", BLUE), (0.89, "E − E* (dashed)", ORANGE)):
            ax.text(0.99, y, text, color=colour, transform=ax.transAxes, ha="right", va="top")
        ax.minorticks_off()
        return plain(ax)
