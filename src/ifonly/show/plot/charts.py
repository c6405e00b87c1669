"""Charts: which features change, of one answer as a waterfall and of many as a map; and curves, of a path and of a solver."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from ifonly.answers import Counterfactual, Counterfactuals, Path
from ifonly.answers.change import measured, moves, parts_of
from ifonly.model.errors import InputError
from ifonly.model.extras import needing
from ifonly.model.numerics import Floats, log_sum_exp, softmax
from ifonly.show.numbers import ENGLISH, marked, marks, number, percent, signed, writing
from ifonly.show.plot.picture import DIVERGING, FAINT, FALLS, FONT, LONGEST, RISES, Picture
from ifonly.show.sentence import worded
from ifonly.show.table import printed
from ifonly.show.text import cut, shortened

__all__ = ["Convergence", "Curve", "HeatMap", "Trajectories", "Waterfall"]

# The colours of lines are Okabe and Ito's: readers who cannot tell red from green can tell these apart.
BLUE, ORANGE, GREEN, SKY, PINK, YELLOW = "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#CC79A7", "#E69F00"
LINES = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, "#000000", "#7F7F7F")
GREY = "#555555"
SHOWN = 8  # features in a waterfall or among trajectories
SHOWN_IN_MAP = 20
VALUE = 12  # characters of a value
WIDE_LABEL = 40  # characters, from which on what changed stands below the name
STEPS, NODES = 64, 8  # of the integral along the straight line from the source to the answer
ACROSS, FLAT = 44, 12  # characters, and labels, that fit side by side below a map
TICKS = 6  # of log-odds at most: −1200 beside −1000 would be one word
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # of a text that may cross a line
LABEL_GAP = 0.062  # of the height, between the labels of two lines


def _ticked(axis: Any) -> None:
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


def _plain(ax: Any, *, left: bool = True) -> Any:
    """The axes, without a frame."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines["left"].set_visible(left)
    return ax


def _by_part(answers: Any, delta: Floats) -> tuple[list[str], Floats]:
    """Changes (n, D) in units of cost, by what the user sees as one feature."""
    t = delta * measured(answers.model, answers.conditions).per_unit
    parts = parts_of(answers.model, answers.conditions, answers.sources.columns)
    return [part.name for part in parts], np.stack([part.length(t) for part in parts], axis=1)


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
        labels = shortened([change.part.label for change, _ in few], LONGEST)
        moved = [[cut(text, VALUE) for text in printed(words)[:2]] for words in worded(cf, [change for change, _ in few])]
        names = [f"{label}  {before} → {after}" for label, (before, after) in zip(labels, moved, strict=True)]
        sizes = [step for _, step in few]
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
        for i, edge in enumerate(edges[1:-1]):
            ax.plot([edge, edge], [i - 0.31, i + 1.31], color=FAINT, linewidth=0.8, zorder=0)
        low, high = float(edges.min()), float(edges.max())
        room = 0.14 * (high - low or 1.0)
        for i, step in enumerate(self.steps):
            right, text = max(edges[i], edges[i + 1]) + 0.12 * room, signed(number(step, 3))
            ax.text(right, i, text, va="center", fontsize=FONT - 1, color=colours[i], bbox=BEHIND)
        ax.set_xlim(min(low, 0.0) - 0.35 * room, max(high, 0.0) + 1.9 * room)
        ax.set_ylim(len(self.steps) - 0.45, -0.55)
        ax.axvline(0.0, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
        ax.set_yticks(y, labels)
        ax.tick_params(axis="y", length=0)
        ax.locator_params(axis="x", nbins=TICKS)
        _ticked(ax.xaxis)
        target = cut(str(self.target), LONGEST)
        ax.set_xlabel(f"log-odds of {target} (0 is 50 %)")
        first, last = (percent(float(expit(v))) for v in (self.start, self.end))
        ax.set_title(f"p({target}): {first} → {last}", loc="left", fontsize=FONT + 1)
        return _plain(ax, left=False)


def _mean_rivals(ends: Floats) -> Floats:
    """The rivals' shares of the odds, averaged along the line between two sets of margins (2, K−1)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    t = ((np.arange(STEPS)[:, None] + 0.5 * (nodes + 1)) / STEPS).ravel()
    shares = softmax(ends[0] + t[:, None] * (ends[1] - ends[0]))
    return np.tile(weights, STEPS) @ shares / (2 * STEPS)


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
        names, units = _by_part(cfs, (x - source)[solved])
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
        _ticked(bar.ax.yaxis)
        bar.outline.set_visible(False)
        ax.spines[:].set_visible(False)
        return ax


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
        _ticked(other.yaxis)
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
        names, units = _by_part(path, x[order] - source)
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
        _ticked(ax.yaxis)
        return _plain(ax)


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
        gradients, values = (np.array([getattr(step, name) for step in cf.history]) for name in ("grad_norm", "objective"))
        return cls(gradients, (values - cf.objective).clip(0.0), cf.grad_norm)

    def _draw(self, ax: Any) -> Any:
        ax = self._axes(ax, 6.0, 3.2)
        n = np.arange(len(self.grad_norm))
        ax.plot(n, self.grad_norm, color=BLUE, marker="o", markersize=5, linewidth=1.8)
        seen = self.above > 0
        ax.plot(n[seen], self.above[seen], color=ORANGE, marker="s", markersize=5, linewidth=1.8, linestyle=(0, (4, 1.5)))
        ax.set_yscale("log")
        ax.axhline(self.bound, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
        told, across = "bound at the answer, rounding included", ax.get_yaxis_transform()
        ax.text(0.01, self.bound, told, transform=across, fontsize=FONT - 1, color=GREY, va="bottom")
        ax.set_xticks(n[:: max(len(n) // 10, 1)])
        ax.set_xlabel("iterations done")
        for y, text, colour in ((0.98, "‖∇E‖", BLUE), (0.89, "E − E* (dashed)", ORANGE)):
            ax.text(0.99, y, text, color=colour, transform=ax.transAxes, ha="right", va="top")
        ax.minorticks_off()
        return _plain(ax)
