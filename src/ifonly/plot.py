"""Pictures of answers: each an object that holds its data and draws them with ``plot(ax=None)``; matplotlib is imported then.

Colours are Okabe and Ito's, and differences are shown in PuOr: readers who cannot tell red from green can tell these apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.answer import Counterfactual, Counterfactuals, Path
from ifonly.change import Measure, moves
from ifonly.errors import InputError
from ifonly.numerics import log_sum_exp, softmax
from ifonly.words import pair, percent, signed

__all__ = [
    "Convergence",
    "Curve",
    "HeatMap",
    "Images",
    "Strip",
    "Trajectories",
    "Waterfall",
    "of_many",
    "of_one",
    "of_path",
]

Floats = NDArray[np.float64]

BLUE, ORANGE, GREEN, SKY, PINK, YELLOW = "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#CC79A7", "#E69F00"
LINES = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, "#000000", "#7F7F7F")
FALLS, RISES = "#B35806", "#542788"  # the ends of PuOr
GREY, FAINT = "#555555", "#BBBBBB"
DIVERGING = "PuOr"
FONT = 10.0
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # of a text that may cross a line

SHOWN = 8  # features in a waterfall or among trajectories
SHOWN_IN_MAP = 20
STEPS, NODES = 64, 8  # of the integral along the straight line from the source to the answer
LABEL_GAP = 0.062  # of the height, between the labels of two lines
LONGEST = 26  # characters of a feature's name


# ---- which picture ----


def of_one(cf: Counterfactual, kind: str, **options: Any) -> "Waterfall | Images | Convergence":
    """A picture of one answer."""
    kinds: dict[str, Any] = {"changes": Waterfall.of, "image": Images.of, "convergence": Convergence.of}
    return _chosen(kinds, kind)(cf, **options)


def of_many(cfs: Counterfactuals, kind: str, **options: Any) -> "HeatMap":
    """A picture of many answers."""
    return _chosen({"heat map": HeatMap.of}, kind)(cfs, **options)


def of_path(path: Path, kind: str, **options: Any) -> "Curve | Trajectories | Strip":
    """A picture of a path."""
    kinds: dict[str, Any] = {"curve": Curve.of, "features": Trajectories.of, "strip": Strip.of}
    return _chosen(kinds, kind)(path, **options)


def _chosen(kinds: dict[str, Any], kind: str) -> Any:
    if kind not in kinds:
        raise InputError(f"the kinds of pictures are {', '.join(map(repr, kinds))}; got {kind!r}")
    return kinds[kind]


# ---- changes: a waterfall of log-odds ----


@dataclass(frozen=True)
class Waterfall:
    """How the log-odds of the target come from the source's to the answer's, feature by feature.

    With two classes the log-odds are linear, and a feature's step is its weight times its change. With more they are not, and a
    step is its part of the integral of the gradient along the straight line from the source to the answer; they add up exactly.

    Attributes
    ----------
    target : label
    start, end : float
        Log-odds of the target at the source and at the answer.
    names : tuple of str
        The features, with what changed, the largest step first; the last may be all others together.
    steps : tuple of float
        What each adds.

    """

    target: Any
    start: float
    end: float
    names: tuple[str, ...]
    steps: tuple[float, ...]

    @classmethod
    def of(cls, cf: Counterfactual, features: int = SHOWN) -> "Waterfall":
        """That of an answer; so many ``features`` one by one, the others together."""
        source, x = cf.coordinates
        if not np.isfinite(x).all():
            raise InputError(f"there is no answer to draw: {cf.message}")
        model = cf.model
        k = model.class_index(cf.target)
        z = model.scores(np.stack([source, x]))
        start, end = (float(row[k] - log_sum_exp(np.delete(row, k))) for row in z)
        slope = model.A if model.scaling is None else model.A / model.scaling.scale
        weights = _mean_rivals(np.delete(z - z[:, [k]], k, axis=1))
        steps = (x - source) * (slope[k] - weights @ np.delete(slope, k, axis=0))
        found = [(change, float(steps[change.part.features].sum())) for change in moves(cf)]
        found.sort(key=lambda item: -abs(item[1]))
        few = found if len(found) <= features + 1 else found[:features]
        names, sizes = [_named(change) for change, _ in few], [step for _, step in few]
        if len(found) > len(few):
            names.append(f"{len(found) - len(few)} others")
            sizes.append(sum(step for _, step in found[len(few) :]))
        return cls(cf.target, start, end, tuple(names), tuple(sizes))

    def plot(self, ax: Any = None) -> Any:
        """Draw it; returns the axes."""
        ax = _axes(ax, 6.4, 1.35 + 0.32 * len(self.steps))
        edges = self.start + np.concatenate([[0.0], np.cumsum(self.steps)])
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
            ax.text(right + 0.12 * room, i, signed(step, 3), **look)
        ax.set_xlim(min(low, 0.0) - 0.35 * room, max(high, 0.0) + 1.6 * room)
        ax.set_ylim(len(self.steps) - 0.45, -0.55)
        ax.axvline(0.0, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
        ax.set_yticks(y, [_cut(name, LONGEST + 16) for name in self.names])
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(f"log-odds of {self.target} (0 is 50 %)")
        first, last = (percent(1 / (1 + np.exp(-v))) for v in (self.start, self.end))
        ax.set_title(f"p({self.target}): {first} → {last}", loc="left", fontsize=FONT + 1)
        return _plain(ax, left=False)


def _mean_rivals(ends: Floats) -> Floats:
    """The rivals' shares of the odds, averaged along the line between two sets of margins (2, K−1)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    t = ((np.arange(STEPS)[:, None] + 0.5 * (nodes + 1)) / STEPS).ravel()
    shares = softmax(ends[0] + t[:, None] * (ends[1] - ends[0]))
    return np.tile(weights, STEPS) @ shares / (2 * STEPS)


def _named(change: Any) -> str:
    before, after = pair(change.before, change.after)
    return f"{_cut(change.feature, LONGEST)}  {_cut(before, 12)} → {_cut(after, 12)}"


# ---- images ----


@dataclass(frozen=True)
class Images:
    """Source, difference and answer as images.

    Attributes
    ----------
    source, difference, answer : ndarray of ``shape``
    titles : tuple of three str

    """

    source: Floats
    difference: Floats
    answer: Floats
    titles: tuple[str, str, str]

    @classmethod
    def of(cls, cf: Counterfactual, shape: Sequence[int] | None = None) -> "Images":
        """Those of an answer whose features are pixels, row by row, of an image of this shape: (28, 28), or (32, 32, 3)."""
        source, x = (_image(v, shape) for v in cf.coordinates)
        if not np.isfinite(x).all():
            raise InputError(f"there is no answer to draw: {cf.message}")
        k = cf.model.class_index(cf.target)
        z = cf.model.scores(np.stack(cf.coordinates))
        labels = [cf.model.label(int(row.argmax())) for row in z]
        p = [float(softmax(row)[row.argmax()]) for row in z]
        before, after = (f"{label}" if cf.model.hard else f"{label} ({percent(v)})" for label, v in zip(labels, p, strict=True))
        towards = f"towards {cf.model.label(k)}" if labels[1] != cf.model.label(k) else "difference"
        return cls(source, x - source, x, (before, towards, after))

    def plot(self, ax: Any = None) -> Any:
        """Draw them side by side; returns the axes that hold the three."""
        ax = _axes(ax, 6.0, 6.0 / 3 * self.source.shape[0] / self.source.shape[1] + 0.3)
        images = (self.source, self.difference, self.answer)
        panels = _row(ax, 3)
        for i, (panel, image, title) in enumerate(zip(panels, images, self.titles, strict=True)):
            _show(panel, image, difference=i == 1, like=self.source)
            panel.set_title(title, fontsize=FONT)
        for at, text, colour in ((0.27, "more", RISES), (0.73, "less", FALLS)):
            panels[1].text(
                at, -0.02, text, transform=panels[1].transAxes, ha="center", va="top", color=colour, fontsize=FONT - 1
            )
        return ax


@dataclass(frozen=True)
class Strip:
    """Answers along a path as images, from the source to the most certain.

    Attributes
    ----------
    images : ndarray of shape (n, *shape)
        The first is the source.
    proba, lam : ndarray of shape (n,)
        The target's probability in each, and λ (infinite for the source).
    target : label

    """

    images: Floats
    proba: Floats
    lam: Floats
    target: Any

    @classmethod
    def of(cls, path: Path, shape: Sequence[int] | None = None, n: int = 7) -> "Strip":
        """The source and ``n − 1`` answers of a path, spread evenly over the probabilities that it passes."""
        source, x = path.coordinates
        k = path.model.class_index(path.target)
        p, start = path.proba[:, k], float(softmax(path.model.scores(source))[k])
        levels = np.linspace(start, float(p.max()), n)[1:]
        chosen = [int(np.abs(p - level).argmin()) for level in levels]
        images = np.stack([_image(v, shape) for v in [source, *x[chosen]]])
        return cls(images, np.array([start, *p[chosen]]), np.array([np.inf, *path.lam[chosen]]), path.target)

    def plot(self, ax: Any = None) -> Any:
        """Draw them in a row; returns the axes that hold them."""
        n = len(self.images)
        ax = _axes(ax, 6.4, 6.4 / n * self.images.shape[1] / self.images.shape[2] + 0.42)
        for panel, image, p in zip(_row(ax, n), self.images, self.proba, strict=True):
            _show(panel, image, difference=False, like=self.images[0])
            panel.set_xlabel(percent(float(p)), fontsize=FONT - 1, labelpad=3)
        ax.set_title(f"p({self.target}) along the path", loc="left", fontsize=FONT)
        return ax


def _image(v: Floats, shape: Sequence[int] | None) -> Floats:
    if shape is None:
        side = round(v.size**0.5)
        shape = (side, side)
    size = int(np.prod(shape))
    if size != v.size or len(shape) not in (2, 3):
        raise InputError(f"shape must be that of an image of {v.size} pixels, such as (28, 28); got {tuple(shape)}")
    return v.reshape(tuple(shape))


def _show(panel: Any, image: Floats, *, difference: bool, like: Floats) -> None:
    if difference:
        top = float(np.abs(image).max()) or 1.0
        shown = image if image.ndim == 2 else image.mean(axis=2)
        panel.imshow(shown, cmap=DIVERGING, vmin=-top, vmax=top, interpolation="nearest")
    else:
        low, high = float(like.min()), float(like.max())
        if image.ndim == 2:
            panel.imshow(image, cmap="gray_r", vmin=low, vmax=high, interpolation="nearest")
        else:
            panel.imshow(np.clip((image - low) / (high - low or 1.0), 0.0, 1.0), interpolation="nearest")
    panel.set_xticks([])
    panel.set_yticks([])
    for side in panel.spines.values():
        side.set_color(FAINT)


# ---- a path ----


@dataclass(frozen=True)
class Curve:
    """Probability and distance against λ.

    Attributes
    ----------
    lam, proba, distance : ndarray of shape (n,)
    target : label

    """

    lam: Floats
    proba: Floats
    distance: Floats
    target: Any

    @classmethod
    def of(cls, path: Path) -> "Curve":
        """That of a path."""
        order = np.argsort(path.lam)
        p = path.proba[:, path.model.class_index(path.target)]
        return cls(path.lam[order], p[order], path.distance[order], path.target)

    def plot(self, ax: Any = None) -> Any:
        """Draw it; returns the axes of the probability."""
        ax = _axes(ax, 6.0, 3.2)
        ax.plot(self.lam, self.proba, color=BLUE, linewidth=2.2)
        ax.set_xscale("log")
        ax.set_xlim(self.lam.min(), self.lam.max())
        ax.set_ylim(0, 1.02)
        ax.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        ax.axhline(0.5, color=FAINT, linewidth=0.8, zorder=0)
        ax.set_xlabel("λ (the larger, the closer to the source)")
        ax.set_ylabel(f"p({self.target})", color=BLUE)
        ax.tick_params(axis="y", colors=BLUE)
        ax.minorticks_off()
        other = ax.twinx()
        other.plot(self.lam, self.distance, color=ORANGE, linewidth=2.2, linestyle=(0, (4, 1.5)))
        other.set_ylim(0, 1.02 * float(self.distance.max()))
        other.set_ylabel("distance (dashed)", color=ORANGE)
        other.tick_params(axis="y", colors=ORANGE, labelsize=FONT - 1)
        for axis in (ax, other):
            axis.spines["top"].set_visible(False)
        return ax


@dataclass(frozen=True)
class Trajectories:
    """How the features move along a path, in units of cost.

    Attributes
    ----------
    lam, proba : ndarray of shape (n,)
    names : tuple of str
        The features that move most, at the end of the path.
    units : ndarray of shape (n, len(names))
        Their changes, in units of cost.
    others : int
        How many more features move.

    """

    lam: Floats
    proba: Floats
    names: tuple[str, ...]
    units: Floats
    others: int
    target: Any

    @classmethod
    def of(cls, path: Path, features: int = SHOWN) -> "Trajectories":
        """Those of the features of a path that move most."""
        order = np.argsort(path.lam)
        source, x = path.coordinates
        names, units = _by_part(path, x[order] - source)
        moved = np.flatnonzero(np.abs(units).max(axis=0) > 0)
        chosen = moved[np.argsort(-np.abs(units[:, moved]).max(axis=0), kind="stable")][:features]
        p = path.proba[order, path.model.class_index(path.target)]
        shown = tuple(names[j] for j in chosen)
        return cls(path.lam[order], p, shown, units[:, chosen], len(moved) - len(chosen), path.target)

    def plot(self, ax: Any = None) -> Any:
        """Draw them; returns the axes."""
        ax = _axes(ax, 6.4, 3.6)
        for j, name in enumerate(self.names):
            ax.plot(self.lam, self.units[:, j], color=LINES[j % len(LINES)], linewidth=1.8, label=name)
        ax.set_xscale("log")
        ax.set_xlim(self.lam.max(), self.lam.min())
        ax.minorticks_off()
        ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
        even = np.flatnonzero(self.proba >= 0.5)
        if 0 < len(even) < len(self.lam):
            at = float(self.lam[even[-1]])
            ax.axvline(at, color=GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
            ax.text(at, 1.01, f"p({self.target}) = 50 %", transform=ax.get_xaxis_transform(), ha="center", fontsize=FONT - 1)
        low, high = (float(v) for v in (self.units.min(), self.units.max()))
        room = 0.05 * (high - low or 1.0)
        ax.set_ylim(low - room, high + room)
        ends = self.units[0]
        for j, y in zip(np.argsort(ends), _apart(np.sort(ends), low, high), strict=True):
            text = _cut(self.names[j], LONGEST)
            colour = LINES[j % len(LINES)]
            ax.annotate(text, (1.02, y), xycoords=("axes fraction", "data"), va="center", color=colour, fontsize=FONT - 1)
        ax.set_xlabel("λ (the larger, the closer to the source)")
        ax.set_ylabel("change, in units of cost")
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


# ---- many answers ----


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
        """That of many answers: ``by`` row, ordered by target and cost, or the mean change by target."""
        if by not in ("row", "target"):
            raise InputError(f'by must be "row" or "target"; got {by!r}')
        source, x = cfs.coordinates
        solved = np.flatnonzero(np.isfinite(x).all(axis=1) & np.isfinite(source).all(axis=1))
        if not len(solved):
            raise InputError("there is no answer to draw: no row was solved")
        names, units = _by_part(cfs, (x - source)[solved])
        target = cfs.rows.target[solved]
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
        ax = _axes(ax, 6.4, 1.1 + 0.24 * len(self.names))
        top = float(np.percentile(np.abs(self.units), 99.5)) or float(np.abs(self.units).max()) or 1.0
        image = ax.imshow(self.units, cmap=DIVERGING, vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
        ax.set_yticks(range(len(self.names)), [_cut(name, LONGEST) for name in self.names])
        ax.tick_params(length=0)
        ends = np.cumsum(self.counts)
        ax.set_xticks(ends - 0.5 * np.array(self.counts) - 0.5, [_cut(label, LONGEST) for label in self.labels])
        for end in ends[:-1]:
            ax.axvline(end - 0.5, color="white", linewidth=2)
        rows = f", {self.units.shape[1]} rows" + (", of each the cheapest first" if len(ends) > 1 else ", the cheapest first")
        ax.set_xlabel("target" + (rows if self.by == "row" else ""))
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.05, pad=0.02)
        bar.set_label("change, in units of cost", fontsize=FONT - 1)
        bar.ax.tick_params(labelsize=FONT - 1)
        bar.outline.set_visible(False)
        for side in ax.spines.values():
            side.set_visible(False)
        return ax


def _by_part(answers: Any, delta: Floats) -> tuple[list[str], Floats]:
    """Changes (n, D) in units of cost, by what the user sees as one feature."""
    within = None if answers.within is None else next((w for w in answers.within if w is not None), None)
    measure = Measure.of(answers.model, within)
    t = measure.units(delta)
    parts = measure.parts(answers.sources.columns)
    columns = [
        np.linalg.norm(t[:, part.features], axis=1) if part.kind == "category" else t[:, part.features[0]] for part in parts
    ]
    signs = [1.0 if part.column is None or part.column.rising else -1.0 for part in parts]
    return [part.name for part in parts], np.stack(columns, axis=1) * signs


# ---- convergence ----


@dataclass(frozen=True)
class Convergence:
    """‖∇E‖ before each iteration, and how far E was above its least.

    Attributes
    ----------
    grad_norm, above : ndarray of shape (n_iter,)
    bound : float
        What is known of ‖∇E‖ at the answer, rounding included.

    """

    grad_norm: Floats
    above: Floats
    bound: float

    @classmethod
    def of(cls, cf: Counterfactual) -> "Convergence":
        """That of an answer whose solver kept a history."""
        if not cf.history:
            raise InputError(
                "there is no history: two classes have a closed form, and compiled kernels keep none; "
                'for more classes use ifonly.invert(…, lam=…, start="source")'
            )
        gradients = [step.grad_norm for step in cf.history]
        values = np.array([step.objective for step in cf.history])
        return cls(np.array(gradients), (values - cf.objective).clip(0.0), cf.grad_norm)

    def plot(self, ax: Any = None) -> Any:
        """Draw it; returns the axes."""
        ax = _axes(ax, 6.0, 3.2)
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
        return _plain(ax)


# ---- shared ----


def _axes(ax: Any, width: float, height: float) -> Any:
    """The axes to draw on: those given, or those of a new figure of this size in inches."""
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError('pictures need matplotlib: pip install "ifonly[plot]"') from error
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.tick_params(labelsize=FONT - 1)
    ax.xaxis.label.set_fontsize(FONT)
    ax.yaxis.label.set_fontsize(FONT)
    return ax


def _row(ax: Any, n: int) -> list[Any]:
    """Axes side by side within others."""
    ax.set_axis_off()
    gap = 0.02
    width = (1 - (n - 1) * gap) / n
    panels = [ax.inset_axes((i * (width + gap), 0.0, width, 1.0)) for i in range(n)]
    for panel in panels:
        panel.set_anchor("N")
    return panels


def _plain(ax: Any, *, left: bool = True) -> Any:
    ax.spines["top"].set_visible(False)
    ax.spines["right"].set_visible(False)
    ax.spines["left"].set_visible(left)
    return ax


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
