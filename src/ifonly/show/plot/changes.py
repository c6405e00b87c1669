"""Which features change: of one answer, a waterfall of log-odds; of many, a map."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from ifonly.answers import Counterfactual, Counterfactuals
from ifonly.answers.change import moves
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats, log_sum_exp, softmax
from ifonly.show.numbers import number, percent, signed
from ifonly.show.plot.drawing import DIVERGING, FAINT, FALLS, FONT, GREY, LONGEST, RISES, SHOWN, Picture, by_part, plain, ticked
from ifonly.show.sentence import Worded, worded
from ifonly.show.table import printed
from ifonly.show.text import cut, shortened

__all__ = ["HeatMap", "Waterfall"]

SHOWN_IN_MAP = 20
VALUE = 12  # characters of a value
WIDE_LABEL = 40  # characters, from which on what changed stands below the name
STEPS, NODES = 64, 8  # of the integral along the straight line from the source to the answer
ACROSS, FLAT = 44, 12  # characters, and labels, that fit side by side below a map
TICKS = 6  # of log-odds at most: −1200 beside −1000 would be one word
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # of a text that may cross a line


@dataclass(frozen=True)
class Waterfall(Picture):
    """How the log-odds of the target come from the source's to the answer's, feature by feature.

    With two classes the log-odds are linear, and a feature's step is its weight times its change. With more they are not, and a
    step is its part of the integral of the gradient along the straight line from the source to the answer; they add up exactly.
    """

    target: Any
    start: float  # log-odds of the target at the source
    end: float  # and at the answer
    names: tuple[str, ...]  # features, with what changed, the largest step first; the last may be all others together
    steps: tuple[float, ...]  # what each adds

    @classmethod
    def of(cls, cf: Counterfactual, features: int = SHOWN) -> "Waterfall":
        """The steps of an answer: so many ``features`` one by one, the others together."""
        source, x = cf.coordinates
        if not np.isfinite(x).all():
            raise InputError(f"there is no answer to draw: {cf.message}")
        model, k = cf.model, cf.result.target
        z = model.scores(np.stack([source, x]))
        start, end = (float(row[k] - log_sum_exp(np.delete(row, k))) for row in z)
        slope = model.A if model.scaling is None else model.A / model.scaling.scale
        weights = _mean_rivals(np.delete(z - z[:, [k]], k, axis=1))
        steps = (x - source) * (slope[k] - weights @ np.delete(slope, k, axis=0))
        found = [(change, float(steps[change.part.features].sum())) for change in moves(cf)]
        found.sort(key=lambda item: -abs(item[1]))
        few = found if len(found) <= features + 1 else found[:features]
        names, sizes = _named(worded(cf, [change for change, _ in few])), [step for _, step in few]
        if len(found) > len(few):
            names.append(f"{number(len(found) - len(few))} others")
            sizes.append(sum(step for _, step in found[len(few) :]))
        return cls(model.words.named(cf.target), start, end, tuple(names), tuple(sizes))

    def _draw(self, ax: Any) -> Any:
        labels = self.names
        if max(map(len, labels), default=0) > WIDE_LABEL:
            labels = [name.replace("  ", "\n") for name in labels]
        ax = self._axes(ax, 6.4, 1.35 + (0.32 if labels is self.names else 0.42) * len(self.steps))
        edges = self.start + np.cumsum([0.0, *self.steps])
        y = np.arange(len(self.steps))
        colours = [RISES if step > 0 else FALLS for step in self.steps]
        ax.barh(y, self.steps, left=edges[:-1], color=colours, height=0.62)
        for i in range(len(self.steps) - 1):
            ax.plot([edges[i + 1]] * 2, [i - 0.31, i + 1.31], color=FAINT, linewidth=0.8, zorder=0)
        low, high = float(edges.min()), float(edges.max())
        room = 0.14 * (high - low or 1.0)
        for i, step in enumerate(self.steps):
            right = max(edges[i], edges[i + 1])
            look: dict[str, Any] = {"va": "center", "fontsize": FONT - 1, "color": colours[i], "bbox": BEHIND}
            ax.text(right + 0.12 * room, i, signed(number(step, 3)), **look)
        ax.set_xlim(min(low, 0.0) - 0.35 * room, max(high, 0.0) + 1.9 * room)
        ax.set_ylim(len(self.steps) - 0.45, -0.55)
        ax.axvline(0.0, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
        ax.set_yticks(y, labels)
        ax.tick_params(axis="y", length=0)
        ax.locator_params(axis="x", nbins=TICKS)
        ticked(ax.xaxis)
        target = cut(str(self.target), LONGEST)
        ax.set_xlabel(f"log-odds of {target} (0 is 50 %)")
        first, last = (percent(float(expit(v))) for v in (self.start, self.end))
        ax.set_title(f"p({target}): {first} → {last}", loc="left", fontsize=FONT + 1)
        return plain(ax, left=False)


def _mean_rivals(ends: Floats) -> Floats:
    """The rivals' shares of the odds, averaged along the line between two sets of margins (2, K−1)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    t = ((np.arange(STEPS)[:, None] + 0.5 * (nodes + 1)) / STEPS).ravel()
    shares = softmax(ends[0] + t[:, None] * (ends[1] - ends[0]))
    return np.tile(weights, STEPS) @ shares / (2 * STEPS)


def _named(changes: list[Worded]) -> list[str]:
    """Features, with what changed."""
    names = shortened([words.change.part.label for words in changes], LONGEST)
    moved = [(cut(text, VALUE) for text in printed(words)[:2]) for words in changes]
    return [f"{name}  {before} → {after}" for name, (before, after) in zip(names, moved, strict=True)]


@dataclass(frozen=True)
class HeatMap(Picture):
    """Which features change how much: features against rows, or against targets."""

    names: tuple[str, ...]  # features, those that cost most first
    units: Floats  # (len(names), n) changes in units of cost; of a category, the length of the switch
    labels: tuple[str, ...]  # the targets
    counts: tuple[int, ...]  # how many columns belong to each
    by: str  # "row" or "target"

    @classmethod
    def of(cls, cfs: Counterfactuals, by: str = "row", features: int = SHOWN_IN_MAP) -> "HeatMap":
        """The changes of many answers: ``by`` row, ordered by target and cost, or the mean change by target."""
        if by not in ("row", "target"):
            raise InputError(f'by must be "row" or "target"; got {by!r}')
        source, x = cfs.coordinates
        solved = np.isfinite(x - source).all(axis=1)
        if not solved.any():
            raise InputError("there is no answer to draw: no row was solved")
        names, units = by_part(cfs, (x - source)[solved])
        target, size = cfs.results.target[solved], np.square(units).sum(axis=0)
        chosen = np.argsort(-size, kind="stable")[: min(features, int((size > 0).sum()) or 1)]
        kinds, counts = np.unique(target, return_counts=True)
        if by == "row":
            table = units[np.lexsort((np.square(units).sum(axis=1), target))]
        else:
            table, counts = np.stack([units[target == k].mean(axis=0) for k in kinds]), np.ones(len(kinds), dtype=int)
        labels = tuple(cfs.model.words.label(cfs.model.label(int(k))) for k in kinds)
        return cls(tuple(names[j] for j in chosen), table[:, chosen].T, labels, tuple(counts.tolist()), by)

    def _draw(self, ax: Any) -> Any:
        labels = shortened(self.labels, LONGEST)
        upright = sum(map(len, labels)) > ACROSS or len(labels) > FLAT
        ax = self._axes(ax, 6.4, (2.3 if upright else 1.1) + 0.24 * len(self.names))
        top = float(np.percentile(np.abs(self.units), 99.5)) or float(np.abs(self.units).max()) or 1.0
        image = ax.imshow(self.units, cmap=DIVERGING, vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
        ax.set_yticks(range(len(self.names)), shortened(self.names, LONGEST))
        ax.tick_params(length=0)
        ends = np.cumsum(self.counts)
        ax.set_xticks(ends - 0.5 * np.array(self.counts) - 0.5, labels, rotation=90 if upright else 0)
        for end in ends[:-1]:
            ax.axvline(end - 0.5, color="white", linewidth=2)
        if self.by == "row" and len(self.labels) == 1:
            ax.set_xticks([])
            ax.set_xlabel(f"{number(self.units.shape[1])} rows towards {labels[0]}, the cheapest first")
        else:
            rows = f", {number(self.units.shape[1])} rows, of each the cheapest first" if self.by == "row" else ""
            ax.set_xlabel(f"target{rows}")
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.05, pad=0.02)
        bar.set_label("change, in units of cost", fontsize=FONT - 1)
        bar.ax.tick_params(labelsize=FONT - 1)
        ticked(bar.ax.yaxis)
        bar.outline.set_visible(False)
        ax.spines[:].set_visible(False)
        return ax
