"""All that a page shows, as plain data, and how to ask for more of it."""

import base64
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual, Path
from ifonly.answers.change import Part, parts_of
from ifonly.api import invert
from ifonly.model.errors import InputError
from ifonly.model.numerics import softmax
from ifonly.problem.free import LEAST_P
from ifonly.problem.status import Status
from ifonly.show.numbers import ENGLISH, marks
from ifonly.show.shape import image_shape

__all__ = ["MOST", "MOST_FEATURES", "Scene", "packed", "scene_of"]

FIRST = 0.8  # the probability that the page of a path opens with
LEAST, MOST = 0.5, 0.99  # ends of the slider, unless the answer is beyond
MOST_CLASSES = 100  # with a matrix in the page: a frame then costs a few milliseconds, and the matrix 100 kB
MOST_FEATURES = 200  # in the table
MOST_BARS = 6
NODES = 50_000  # that the answer which the page of a path opens with may take, within limits


class Scene:
    """What is asked, and the answer that the page opens with."""

    def __init__(self, cf: Counterfactual, shape: tuple[int, ...] | None, ink: bool) -> None:
        model, conditions = cf.model, cf.conditions
        self.cf = cf  # that answer
        self.shape, self.ink = shape, ink  # of an image, and whether high values of its pixels are dark
        self.k = cf.result.target  # the wanted class's index
        self.source = cf.coordinates[0]  # x̄, in float64
        self.now = softmax(model.scores(self.source))  # the probabilities there
        self.parts = parts_of(model, conditions, cf.sources.columns)  # what the user calls the features
        # The probability that the page opens with, and where its slider begins: at one half, or a whole per cent below that.
        self.wanted = float(cf.proba[self.k] if cf.prob is None or cf.status is Status.UNREACHABLE else cf.prob)
        lower = min(max(math.floor(100 * self.wanted) / 100, 0.01), self.wanted)
        self.least = LEAST if self.wanted >= LEAST else lower
        # Whether it is about scores, not probabilities; and whether the page can solve for itself: not for one that underflows.
        self.hard = model.hard or (conditions is not None and conditions.margin is not None)
        self.live = conditions is None and model.n_classes <= MOST_CLASSES and cf.status is not Status.UNREACHABLE
        self.live &= self.wanted >= LEAST_P

    def at(self, prob: float, nodes: int = NODES) -> Counterfactual:
        """The answer to the same question with another probability; a search may take so many nodes."""
        cf, ground, source = self.cf, self.cf.conditions, self.source if self.cf.model.encoding.identity else self.cf.source
        limits = {} if ground is None else {"cost": ground.cost, "actions": ground.actions, "max_changes": ground.max_changes}
        stop = {"node_limit": nodes} if ground is not None and ground.discrete else {}
        found = invert(cf.model, source, cf.target, prob=prob, **stop, **limits)
        return found if isinstance(found, Counterfactual) else found[0]

    def name(self, part: Part) -> str:
        """What a reader calls a feature: of a picture, where it is."""
        if self.shape is not None:
            row, column, *channel = (int(i) for i in np.unravel_index(int(part.features[0]), self.shape))
            return f"row {row + 1}, column {column + 1}" + "".join(f", {('red', 'green', 'blue')[c]}" for c in channel)
        return f"feature {part.name}" if part.name.isdigit() else part.label

    def called(self, k: int) -> str:
        """What a reader calls a class."""
        return self.cf.model.words.label(self.cf.model.label(k))

    def bars(self) -> list[int]:
        """The classes shown, the most probable first: all of them if they are few, the wanted and the present one always."""
        order = np.argsort(-np.maximum(self.now, self.cf.proba), kind="stable").tolist()
        if len(order) <= MOST_BARS:
            return order
        first = {self.k, int(self.now.argmax())}
        return sorted(first | set([j for j in order if j not in first][: MOST_BARS - len(first)]), key=order.index)

    def common(self) -> dict[str, Any]:
        """What all pages have."""
        own, decided = marks(), int(self.now.argmax())
        frozen = np.zeros(len(self.source)) if self.cf.conditions is None else self.cf.conditions.limits.frozen
        return {
            "marks": None if own == ENGLISH else own._asdict(),
            "target": self.called(self.k),
            "decided": self.called(decided),
            "already": decided == self.k,
            "wanted": self.wanted,
            "kept": [self.name(part) for part in self.parts if frozen[part.features].all()],  # what may not change
            "total": len(self.parts),
        }

    def image(self, top: float, **moves: str) -> dict[str, Any]:
        """What pictures need: ``range`` is between which values shades differ; float32 is more than a screen can show."""
        source, within = self.source, self.cf.conditions
        low, high = min(0.0, float(source.min())), float(source.max())
        high = 1.0 if low == 0.0 and 0.0 <= high <= 1.0 else high
        if within is not None:
            limits = within.limits
            low = float(limits.lo.min()) if np.isfinite(limits.lo).all() else low
            high = float(limits.hi.max()) if np.isfinite(limits.hi).all() else high
        span = [low, high if high > low else low + 1.0]
        fixed = {"shape": list(self.shape or ()), "range": span, "ink": self.ink, "top": top or 1.0}
        return {**fixed, "source": packed(source, "<f4"), **moves}


def scene_of(answer: Counterfactual | Path, shape: Sequence[int] | None, ink: bool | None) -> Scene:
    """What to show of an answer or a path, with the arguments of `write`."""
    size = None if shape is None else image_shape(shape, answer.model.n_features)
    if size is not None and not answer.model.encoding.identity:
        raise InputError("shape is for models whose features are pixels; this one reads columns of other kinds")
    if isinstance(answer, Counterfactual) and not np.isfinite(answer.proba).all():
        raise InputError(f"there is no answer to show: {answer.message}")
    dark = (size is not None and len(size) == 2) if ink is None else bool(ink)
    if isinstance(answer, Path):
        answer = answer.at_prob(FIRST) if answer.conditions is None else Scene(answer[0], size, dark).at(FIRST)
    return Scene(answer, size, dark)


def packed(values: Any, kind: str = "<f8") -> str:
    """An array in little-endian order, as base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")
