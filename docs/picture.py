"""Makes docs/picture.png, the picture in the README: ``python docs/picture.py``; with ``--quick``, to keep nothing.

Needs scikit-learn and matplotlib.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import ifonly

TARGET, PROB = 6, 0.9
DARKER, LIGHTER = "#542788", "#B35806"  # the ends of PuOr, which colour-blind readers can tell apart
PROBABILITY, DISTANCE = "#0072B2", "#D55E00"  # from Okabe and Ito's palette, for the same reason
GREY = "#555555"


def main(folder: Path) -> None:
    """Solve, draw, save."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 11, "axes.titlesize": 12, "font.family": "DejaVu Sans"})
    classifier, x = handwritten(5)
    cf = ifonly.invert(classifier, x, TARGET, prob=PROB)
    path = ifonly.path(classifier, x, TARGET, lams=np.geomspace(30, 1e-3, 120))

    figure = plt.figure(figsize=(8, 2.8), dpi=150, facecolor="white")
    heights: dict[str, float] = {"bottom": 0.231, "top": 0.819}  # such that the images just fill them
    images = figure.add_gridspec(1, 3, left=0.01, right=0.651, wspace=0.055, **heights).subplots()
    curve = figure.add_gridspec(1, 1, left=0.737, right=0.935, **heights).subplots()
    draw_images(images, cf)
    draw_path(curve, path, cf)
    figure.savefig(folder / "picture.png", metadata={"Software": None})


def handwritten(label: int) -> tuple[Any, np.ndarray]:
    """A classifier of digits, and a held-out image of the given digit that it reads correctly."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    data: Any = load_digits()
    X, held_out, y, truth = train_test_split(data.data / 16, data.target, random_state=0)
    classifier = LogisticRegression(C=0.1, max_iter=1000).fit(X, y)
    return classifier, held_out[(truth == label) & (classifier.predict(held_out) == label)][2]


def draw_images(axes: Any, cf: Any) -> None:
    """Source, change and answer."""
    before, after = (float(cf.model.predict_proba(x)[TARGET]) for x in (cf.source, cf.x))
    grey: dict[str, Any] = {"cmap": "gray_r", "vmin": 0, "vmax": 1}
    top = float(np.abs(cf.delta).max())
    diverging: dict[str, Any] = {"cmap": "PuOr", "vmin": -top, "vmax": top}
    panels = (
        (cf.source, grey, "A handwritten 5", f"p({TARGET}) = {before:.2f}"),
        (cf.delta, diverging, "the smallest change", None),
        (cf.x, grey, f"is read as a {TARGET}", f"p({TARGET}) = {after:.2f}"),
    )
    for axis, (image, look, title, below) in zip(axes, panels, strict=True):
        axis.imshow(image.reshape(8, 8), interpolation="nearest", **look)
        axis.set_title(title, pad=7)
        axis.set_xticks([])
        axis.set_yticks([])
        for side in axis.spines.values():
            side.set_color("#BBBBBB")
        if below:
            axis.set_xlabel(below, labelpad=6)
    axes[1].text(0.25, -0.048, "darker", color=DARKER, ha="center", va="top", transform=axes[1].transAxes)
    axes[1].text(0.75, -0.048, "lighter", color=LIGHTER, ha="center", va="top", transform=axes[1].transAxes)


def draw_path(axis: Any, path: Any, cf: Any) -> None:
    """Probability and distance along λ, and where the answer lies."""
    axis.plot(path.lam, path.proba[:, TARGET], color=PROBABILITY, linewidth=2.5)
    axis.plot([cf.lam], [cf.proba[TARGET]], "o", color=PROBABILITY, markersize=7)
    axis.set_xscale("log")
    axis.set_xlim(path.lam.min(), path.lam.max())
    axis.set_ylim(0, 1.04)
    axis.set_xticks([1e-3, 1e-1, 1e1])
    axis.set_yticks([0, 0.5, 1])
    axis.set_xlabel("λ  (larger: closer)", labelpad=1)
    axis.set_ylabel(f"p({TARGET})", color=PROBABILITY, labelpad=3)
    axis.tick_params(axis="y", colors=PROBABILITY)
    axis.set_title("all answers along λ", pad=7)
    axis.minorticks_off()

    other = axis.twinx()
    other.plot(path.lam, path.distance, color=DISTANCE, linewidth=2.5, linestyle=(0, (4, 1.5)))
    other.plot([cf.lam], [cf.distance], "o", color=DISTANCE, markersize=7)
    other.set_ylim(0, 1.04 * path.distance.max())
    other.set_yticks([0, 1, 2, 3])
    other.set_ylabel("distance", color=DISTANCE, labelpad=4)
    other.tick_params(axis="y", colors=DISTANCE)
    other.axvline(cf.lam, color=GREY, linewidth=1, linestyle=":", zorder=0)
    axis.spines["top"].set_visible(False)
    other.spines["top"].set_visible(False)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as nowhere:
        main(Path(nowhere) if "--quick" in sys.argv else Path(__file__).parent)
