"""Answers as images: one beside its source, a strip of them along a path, the nearest of many."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual, Counterfactuals, Path
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats, softmax
from ifonly.show import image_shape
from ifonly.show.numbers import number, percent
from ifonly.show.plot.picture import DIVERGING, FAINT, FALLS, FONT, LONGEST, RISES, Picture
from ifonly.show.text import cut, shortened

__all__ = ["Grid", "Images", "Strip"]

TITLE = 14  # characters of a class above one of several images
NEAREST, ACROSS = 10, 5  # images in a grid, and in one of its rows
ABOVE, LEAST_WIDTH = 0.48, 5.0  # inches: the title of one of them, and a figure


@dataclass(frozen=True)
class Images(Picture):
    """Source, difference and answer as images, each with its title."""

    source: Floats
    difference: Floats
    answer: Floats
    titles: tuple[str, str, str]

    @classmethod
    def of(cls, cf: Counterfactual, shape: Sequence[int] | None = None) -> "Images":
        """Images of an answer whose features are pixels, row by row, of an image of this shape: (28, 28), or (32, 32, 3)."""
        source, x = (_image(v, shape) for v in cf.coordinates)
        if not np.isfinite(x).all():
            raise InputError(f"there is no answer to draw: {cf.message}")
        z = cf.model.scores(np.stack(cf.coordinates))
        labels = [cf.model.label(int(row.argmax())) for row in z]
        p = [float(softmax(row)[row.argmax()]) for row in z]
        names = [cut(str(label), TITLE) for label in (*labels, cf.target)]
        before, after = (name if cf.model.hard else f"{name} ({percent(v)})" for name, v in zip(names[:2], p, strict=True))
        towards = f"towards {names[2]}" if labels[1] != cf.target else "difference"
        return cls(source, x - source, x, (before, towards, after))

    def _draw(self, ax: Any) -> Any:
        ax = self._axes(ax, 6.0, 6.0 / 3 * self.source.shape[0] / self.source.shape[1] + 0.3)
        images = (self.source, self.difference, self.answer)
        panels = _tiles(ax, 3)
        for i, (panel, image, title) in enumerate(zip(panels, images, self.titles, strict=True)):
            _show(panel, image, difference=i == 1, like=self.source)
            panel.set_anchor("N")
            panel.set_title(title, fontsize=FONT)
        look: dict[str, Any] = {"transform": panels[1].transAxes, "ha": "center", "va": "top", "fontsize": FONT - 1}
        for at, text, colour in ((0.27, "more", RISES), (0.73, "less", FALLS)):
            panels[1].text(at, -0.02, text, color=colour, **look)
        return ax


@dataclass(frozen=True)
class Strip(Picture):
    """Answers along a path as images, from the source to the most certain."""

    images: Floats  # (n, *shape), the first is the source
    proba: Floats  # (n,) the target's probability in each
    lam: Floats  # (n,) infinite for the source
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
        proba, lam = np.array([start, *p[chosen]]), np.array([np.inf, *path.lam[chosen]])
        return cls(images, proba, lam, path.model.words.named(path.target))

    def _draw(self, ax: Any) -> Any:
        n = len(self.images)
        ax = self._axes(ax, 6.4, 6.4 / n * self.images.shape[1] / self.images.shape[2] + 0.42)
        for panel, image, p in zip(_tiles(ax, n), self.images, self.proba, strict=True):
            _show(panel, image, difference=False, like=self.images[0])
            panel.set_anchor("N")
            panel.set_xlabel(percent(float(p)), fontsize=FONT - 1, labelpad=3)
        ax.set_title(f"p({cut(str(self.target), LONGEST)}) along the path", loc="left", fontsize=FONT)
        return ax


@dataclass(frozen=True)
class Grid(Picture):
    """The nearest answers as images, each with its class and its distance."""

    images: Floats  # (n, *shape), the nearest first
    labels: tuple[str, ...]  # the classes that they are towards
    distance: Floats  # (n,)

    @classmethod
    def of(cls, cfs: Counterfactuals, shape: Sequence[int] | None = None, n: int = NEAREST) -> "Grid":
        """The ``n`` nearest of many answers, such as those towards all classes (``target="all"``)."""
        x = cfs.coordinates[1]
        solved = np.flatnonzero(np.isfinite(x).all(axis=1))
        if not len(solved):
            raise InputError("there is no answer to draw: no row was solved")
        chosen = solved[np.argsort(cfs.distance[solved], kind="stable")][:n]
        labels = tuple(cfs.model.words.label(cfs.model.label(int(k))) for k in cfs.results.target[chosen])
        return cls(np.stack([_image(v, shape) for v in x[chosen]]), labels, cfs.distance[chosen])

    def _draw(self, ax: Any) -> Any:
        n, (height, width) = len(self.images), self.images.shape[1:3]
        across, rows = min(n, ACROSS), -(-n // ACROSS)
        wide = 6.4 / ACROSS
        high = wide * height / width + ABOVE
        ax = self._axes(ax, max(wide * across, LEAST_WIDTH), rows * high)
        panels, names = _tiles(ax, across, rows, ABOVE / high), shortened(self.labels, TITLE)
        for panel, image, name, distance in zip(panels, self.images, names, self.distance, strict=False):
            _show(panel, image, difference=False, like=self.images[0])
            panel.set_title(f"{name}\ndistance {number(float(distance), 3)}", fontsize=FONT - 1)
        return ax


def _tiles(ax: Any, across: int, rows: int = 1, above: float = 0.0) -> list[Any]:
    """Axes in rows within others, with a part of each one's height left free above it."""
    ax.set_axis_off()
    gap = 0.02
    width, height = (1 - (across - 1) * gap) / across, 1 / rows
    places = [(i * (width + gap), 1 - (row + 1) * height) for row in range(rows) for i in range(across)]
    return [ax.inset_axes((x, y, width, height * (1 - above))) for x, y in places]


def _image(v: Floats, shape: Sequence[int] | None) -> Floats:
    side = math.isqrt(v.size)
    if shape is None and side * side != v.size:
        raise InputError(f"give the image's shape, such as (height, width): {v.size} pixels are no square")
    return v.reshape((side, side) if shape is None else image_shape(shape, v.size))


def _show(panel: Any, image: Floats, *, difference: bool, like: Floats) -> None:
    low, high, cmap = float(like.min()), float(like.max()), "gray_r"
    if difference:
        high, cmap = float(np.abs(image).max()) or 1.0, DIVERGING
        low, image = -high, image if image.ndim == 2 else image.mean(axis=2)
    elif image.ndim == 3:
        image = np.clip((image - low) / (high - low or 1.0), 0.0, 1.0)
    panel.imshow(image, cmap=cmap, vmin=low, vmax=high, interpolation="nearest")  # shades are for one channel only
    panel.set(xticks=[], yticks=[])
    panel.spines[:].set_color(FAINT)
