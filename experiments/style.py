"""How the figures look: one colour and marker per method in all of them, from Okabe and Ito's palette."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS: dict[str, tuple[str, str, Any]] = {  # colour, marker, line
    "Newton": ("#0072B2", "o", "-"),
    "GD": ("#E69F00", "s", "-"),
    "CG": ("#009E73", "^", "-"),
    "BFGS": ("#CC79A7", "D", "-"),
    "L-BFGS": ("#56B4E9", "v", "-"),
    "ifonly": ("#D55E00", "*", "-"),
    "ifonly, batch": ("#000000", "x", "-"),
}
WIDTH = 8.4  # inches; 140 dots each, shown at about 700 pixels
DPI = 140
COLOURS = 96  # of a saved figure
SETTINGS = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "figure.dpi": DPI,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
}


def pyplot() -> Any:
    """Matplotlib, without a window and with our settings."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(SETTINGS)
    return plt


def save(figure: "Figure", path: Path) -> None:
    """As PNG with a palette: a third of the size."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer)
    Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    pyplot().close(figure)


def panels(n_rows: int, titles: Sequence[str], *, height: float, **options: Any) -> tuple["Figure", np.ndarray]:
    """A grid with a title above each column; ``height`` in inches, of a row."""
    figure, axes = pyplot().subplots(n_rows, len(titles), figsize=(WIDTH, n_rows * height + 0.4), squeeze=False, **options)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9 if "\n" not in title else 7.6)
    return figure, axes


def log_scale(axis: Any, which: str) -> None:
    """Logarithmic, with `ticks` for labels."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter

    for letter in which:
        getattr(axis, f"set_{letter}scale")("log")
        low, high = getattr(axis, f"get_{letter}lim")()
        at = ticks(low, high, least=3 if letter == "y" else 2, most=7 if letter == "y" else 5)
        scale = getattr(axis, f"{letter}axis")
        scale.set_major_locator(FixedLocator(at))
        scale.set_major_formatter(FixedFormatter(tick_labels(at)))
        scale.set_minor_formatter(NullFormatter())


def ticks(low: float, high: float, *, least: int, most: int) -> list[float]:
    """Where a logarithmic axis has labels: powers of ten; less round numbers where those are too few, or evenly spaced ones."""
    from matplotlib.ticker import MaxNLocator

    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7)):
        found = [value for n in powers for digit in digits if low <= (value := float(f"{digit}e{n}")) <= high]
        if len(found) >= least:
            return found[:: -(-len(found) // most)]
    return [float(value) for value in MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= value <= high]


def tick_labels(at: Sequence[float]) -> list[str]:
    """As they are if all are of a handy size, else with powers of ten."""
    if min(at) >= 0.01 and max(at) <= 1000:
        return [f"{value:g}" for value in at]
    written = [f"{value:.3e}".split("e") for value in at]
    return [rf"${'' if float(digits) == 1 else f'{float(digits):g}·'}10^{{{int(power)}}}$" for digits, power in written]


def look(method: str, looks: dict[str, Any] | None = None) -> tuple[str, str, Any]:
    """Colour, marker and line of a method, or of what a script calls so."""
    return {**LOOKS, **(looks or {})}[method]


def points(method: str, looks: dict[str, Any] | None = None) -> dict[str, Any]:
    """For ``scatter``."""
    colour, marker, _ = look(method, looks)
    return {
        "color": colour,
        "marker": marker,
        "s": 34 if marker == "*" else 16,
        "linewidths": 0.9,
        "alpha": 0.75,
        "label": method,
    }


def line(method: str, looks: dict[str, Any] | None = None) -> dict[str, Any]:
    """For ``plot``."""
    colour, marker, dashes = look(method, looks)
    sizes = {"markersize": 6 if marker == "*" else 3.2, "linewidth": 1.3}
    return {"color": colour, "marker": marker, "linestyle": dashes, "label": method, **sizes}


def legend(figure: "Figure", methods: Sequence[str], looks: dict[str, Any] | None = None, *, lines: bool = True) -> None:
    """One legend for all panels, below them."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **(line(method, looks) | ({} if lines else {"linestyle": ""}))) for method in methods]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, columnspacing=1.4)


def problem_title(rows: pd.DataFrame) -> str:
    """What the paper writes above a learning curve: λ, and two probabilities before and after."""
    r = rows.iloc[0]
    own, wanted = int(r.source_class), int(r.target_class)
    return (
        f"{r.dataset}\nλ = {r.lam:g}\n(p$_{{{own}}}$, p$_{{{wanted}}}$) = ({r.p_source_before:.3f}, {power(r.p_target_before)})"
        f"\n→ ({power(r.p_source_after)}, {r.p_target_after:.3f})"
    )


def power(value: float) -> str:
    """A small number as a power of ten."""
    if value >= 0.001:
        return f"{value:.3f}"
    exponent = int(np.floor(np.log10(value)))
    return rf"{value / 10.0**exponent:.1f}·10$^{{{exponent}}}$"
