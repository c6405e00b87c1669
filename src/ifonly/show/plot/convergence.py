"""How a solver came to its answer."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats
from ifonly.show.plot.drawing import BLUE, FONT, GREY, ORANGE, axes, plain

__all__ = ["Convergence"]


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
        """The iterations of an answer whose solver kept a history."""
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
        ax = axes(ax, 6.0, 3.2)
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
