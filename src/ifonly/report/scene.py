"""All that a page shows, as plain data.

There are two kinds of page. Without limits the answers for all probabilities are one smooth curve in class space. The page gets
what defines it, the rivals' margins s̄ at the source and the matrix Ḡ = Ā Āᵀ, and solves for the wanted probability itself:
the nearest x with p_k ≥ τ is ``x = x̄ − Āᵀw``, where the K−1 numbers w and the number c = (1 − τ)/λ satisfy

    w = c·softmax(s),     ln Σ_j e^{s_j} = ln((1 − τ)/τ),     s = s̄ − Ḡw,

a system that Newton's method solves in a few steps from the answers of the library at the nearest *knots* (static/nearest.js).

With limits, a cost that is not a mere scale, categories, or too many classes for a matrix in a page, it gets the library's
answers for every whole per cent, and the slider steps through them.
"""

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.answer import Counterfactual, Path
from ifonly.api import invert, path
from ifonly.errors import InputError
from ifonly.model import Model
from ifonly.numerics import softmax
from ifonly.report.features import Feature, decimals, features_of
from ifonly.status import Status

__all__ = ["Scene", "scene_of"]

Floats = NDArray[np.float64]

FIRST = 0.8  # the probability that the page of a path opens with
LEAST, MOST = 0.5, 0.99  # ends of the slider, unless the answer is beyond
PARTS = 1000  # of the slider's probabilities: it moves in tenths of a per cent
KNOTS = 25  # answers along the curve; a tenth of them would do for Newton's method to converge
NEARLY_ONE = 1 - 1e-9  # beyond, a probability is asked for only where the answer itself has it
MOST_CLASSES = 100  # with a matrix in the page: a frame then costs a few milliseconds, and the matrix 100 kB
MOST_FEATURES = 200  # in the table
MOST_PIXELS = 4000  # of a picture for every per cent; of larger ones, one for every five
MOST_BARS = 6
SECONDS = 5.0  # for one answer within limits: fifty are needed


@dataclass(frozen=True)
class Scene:
    """What is asked, of whom, and the answer that the page opens with."""

    cf: Counterfactual
    at: Callable[[float], Counterfactual]
    shape: tuple[int, ...] | None
    ink: bool

    @property
    def k(self) -> int:
        """The wanted class's index."""
        return self.cf.model.class_index(self.cf.target)

    @property
    def source(self) -> Floats:
        """x̄, in float64."""
        return self.cf.sources.dense(self.cf.row)

    @property
    def wanted(self) -> float:
        """The probability that the page opens with."""
        asked = self.cf.prob is not None and self.cf.status is not Status.UNREACHABLE
        return float(self.cf.prob) if asked and self.cf.prob is not None else float(self.cf.proba[self.k])

    @property
    def live(self) -> bool:
        """Whether the page can solve for itself."""
        return self.cf.within is None and self.cf.model.n_classes <= MOST_CLASSES and self.cf.status is not Status.UNREACHABLE

    def data(self) -> dict[str, Any]:
        """Everything for the page."""
        model, cf = self.cf.model, self.cf
        now = softmax(model.scores(self.source))
        shown = _bars(now, cf.proba, self.k)
        own = self._live(shown) if self.live else self._steps(shown)
        hard = model.hard or (cf.within is not None and cf.within.ground.margin is not None)
        return {
            "target": str(cf.target),
            "classes": [str(label) for label in model.classes[slice(None) if self.live else shown].tolist()],
            "bars": [] if hard else shown if self.live else list(range(len(shown))),
            "rest": model.n_classes - len(shown),
            "k": self.k if self.live else shown.index(self.k),
            "now": _numbers(now if self.live else now[shown]),
            "decided": str(model.label(int(now.argmax()))),
            "already": int(now.argmax()) == self.k,
            "wanted": self.wanted,
            "kept": _kept(cf),
            "total": len(features_of(cf, None)),
            **own,
        }

    def _image(self, moves: dict[str, Any], deltas: Sequence[Floats]) -> dict[str, Any]:
        """What pictures need; float32 is more than a screen can show."""
        if self.shape is None:
            return {"image": None}
        top = max(float(np.abs(delta).max()) for delta in deltas)
        fixed = {"shape": list(self.shape), "range": self._range(), "ink": self.ink, "top": top or 1.0}
        return {"image": {**fixed, "source": _packed(self.source, "<f4"), **moves}}

    def _range(self) -> list[float]:
        """The values of a pixel between which shades differ."""
        source, within = self.source, self.cf.within
        low, high = min(0.0, float(source.min())), float(source.max())
        high = 1.0 if low == 0.0 and 0.0 <= high <= 1.0 else high
        if within is not None:
            limits = within.ground.limits
            low = float(limits.lo.min()) if np.isfinite(limits.lo).all() else low
            high = float(limits.hi.max()) if np.isfinite(limits.hi).all() else high
        return [low, high if high > low else low + 1.0]

    # ---- without limits ----

    def _live(self, shown: list[int]) -> dict[str, Any]:
        cf, model, k = self.cf, self.cf.model, self.k
        rivals = model.rivals(k)
        low, high = self._ends()
        logits = np.linspace(_logit(low), _logit(min(high, NEARLY_ONE)), KNOTS)
        knots = [self.at(float(tau)) for tau in 1 / (1 + np.exp(-logits))]
        knots = sorted([*(knot for knot in knots if knot.status is not Status.UNREACHABLE), cf], key=lambda knot: -knot.lam)
        scale = np.ones(model.n_features) if model.scaling is None else model.scaling.scale
        outer = [knots[0], cf, knots[-1]]
        deltas = [self._moved(knot) - self.source for knot in outer]
        sizes = np.array([np.abs(delta / scale) for delta in deltas])
        order = np.lexsort((-sizes.max(axis=0), -sizes[1]))
        picked = order[:MOST_FEATURES]
        features = features_of(cf, self.shape)
        z = model.scores(self.source)
        A = model.A - model.A.mean(axis=0)
        return {
            "mode": "live",
            "ends": [low, high],
            "features": [self._number(features[d], *(float(delta[d]) for delta in deltas)) for d in picked],
            "size": float(sizes.max()) or 1.0,
            "level": _level(cf.proba, rivals, k),
            "margins": _numbers(z[rivals] - z[k]),
            "gram": _packed(model.rival_gram(k)),
            "slopes": _packed(A[:, picked] * scale[picked]),
            "units": _packed(1 / np.abs(scale[picked])),
            "knots": {
                "level": [_level(knot.proba, rivals, k) for knot in knots],
                "bound": [0.0 if math.isinf(knot.lam) else knot.error_bound for knot in knots],
                "w": _packed(np.array([knot.proba[rivals] / knot.lam for knot in knots])),
            },
            **self._image({"slopes": _packed(A * scale, "<f4")} if self.shape else {}, deltas),
        }

    def _ends(self) -> tuple[float, float]:
        """The least and largest probability of the slider."""
        low, high = _below(self.wanted), max(MOST, self.wanted)
        if high == self.wanted:
            return low, high
        best = self.at(high)
        if best.status is Status.UNREACHABLE:
            high = max(self.wanted, math.floor(PARTS * float(best.proba[self.k])) / PARTS)
        return min(low, high), high

    def _moved(self, cf: Counterfactual) -> Floats:
        """x in float64, whatever kind of tensor the source was."""
        return cf.sources.moved(cf.row, cf.coef) if cf.made is None else np.asarray(cf.made, dtype=np.float64)

    def _number(self, feature: Feature, first: float, delta: float, last: float) -> dict[str, Any]:
        source = float(self.source[feature.at[0]])
        places = decimals(source, source + delta, (source + first, source + last))
        return {"name": feature.name, "from": source, "decimals": places}

    # ---- within limits ----

    def _steps(self, shown: list[int]) -> dict[str, Any]:
        answers, beyond = self._answers()
        cf, features = self.cf, features_of(self.cf, self.shape)
        start = next(i for i, (_, answer) in enumerate(answers) if answer is cf)
        xs = [self._moved(answer) for _, answer in answers]
        per_unit = self._per_unit()
        t = np.array([np.abs(x - self.source) * per_unit for x in xs])
        sizes = np.array([np.sqrt((t[:, feature.at] ** 2).sum(axis=1)) for feature in features]).T
        order = np.lexsort((-sizes.max(axis=0), -sizes[start]))
        picked = [int(f) for f in order if sizes[:, f].any()][:MOST_FEATURES]
        values = {f: [features[f].value(x) for x in xs] for f in picked}
        before = {f: features[f].value(self.source) for f in picked}
        return {
            "mode": "steps",
            "beyond": beyond,
            "start": start,
            "features": [_described(features[f], before[f], values[f], start) for f in picked],
            "size": float(sizes.max()) or 1.0,
            **self._image({"frames": _packed(np.array(xs), "<f4")}, [x - self.source for x in xs]),
            "steps": [
                {
                    "wanted": wanted,
                    "p": _numbers(answer.proba[shown]),
                    "decided": _decided(answer, self.k),
                    "changes": [
                        [n, values[f][i], float(f"{sizes[i, f]:.4g}")] for n, f in enumerate(picked) if values[f][i] != before[f]
                    ],
                    "unseen": int((sizes[i] > 0).sum() - (sizes[i][picked] > 0).sum()),
                    "proof": _proof(answer),
                }
                for i, (wanted, answer) in enumerate(answers)
            ],
        }

    def _per_unit(self) -> Floats:
        """What a unit of each feature costs."""
        cf = self.cf
        if cf.within is not None:
            return cf.within.ground.per_unit
        return np.ones(cf.model.n_features) if cf.model.scaling is None else 1 / np.abs(cf.model.scaling.scale)

    def _answers(self) -> tuple[list[tuple[float, Counterfactual]], str]:
        """(wanted probability, answer), by probability, with the page's own among them; and what is out of reach, in words."""
        cf, found, beyond = self.cf, [(self.wanted, self.cf)], ""
        if cf.prob is None and cf.within is not None and cf.within.ground.margin is not None:
            return found, beyond
        every = 1 if self.shape is None or math.prod(self.shape) <= MOST_PIXELS else 5
        percents = np.arange(math.ceil(100 * _below(self.wanted) - 1e-9), round(100 * MOST) + 1, every) / 100
        for tau in percents.tolist():
            if tau == self.wanted:
                continue
            answer = self.at(tau)
            if answer.status is Status.UNREACHABLE or not np.isfinite(answer.proba).all():
                beyond = answer.message
                break
            found.append((tau, answer))
        return sorted(found, key=lambda pair: pair[0]), beyond


def scene_of(answer: Counterfactual | Path, shape: Sequence[int] | None, ink: bool | None) -> Scene:
    """What to show of an answer or a path.

    Parameters
    ----------
    answer : Counterfactual or Path
    shape : (H, W) or (H, W, 3), optional
        Where the features are the pixels of an image: its shape.
    ink : bool, optional
        Whether high values are dark, as ink on paper; by default in images with one channel.

    """
    model = answer.model
    size = None if shape is None else tuple(int(n) for n in shape)
    if size is not None and (len(size) not in (2, 3) or (len(size) == 3 and size[2] != 3)):
        raise InputError(f"shape must be (height, width) or (height, width, 3); got {tuple(shape or ())}")
    if size is not None and math.prod(size) != model.n_features:
        raise InputError(f"shape must have {model.n_features} pixels in all, as the model has features; got {size}")
    if size is not None and model.encoding is not None:
        raise InputError("shape is for models whose features are pixels; this one reads columns of other kinds")
    at = _asking(answer)
    if isinstance(answer, Path):
        answer = at(FIRST)
    if answer.status is Status.INVALID or not np.isfinite(answer.proba).all():
        raise InputError(f"there is no answer to show: {answer.message}")
    return Scene(answer, at, size, (size is not None and len(size) == 2) if ink is None else bool(ink))


def _asking(answer: Counterfactual | Path) -> Callable[[float], Counterfactual]:
    """The same question with another probability."""
    if isinstance(answer, Path) and (answer.within is None or not answer.within):
        return answer.at_prob
    cf = answer[0] if isinstance(answer, Path) else answer
    model, row = cf.model, cf.sources.dense(cf.row)
    if cf.within is None:
        if model.encoding is not None:  # of columns that are plain numbers: their coordinates will do
            model = Model(model.A, model.b, model.classes, model.feature_names, scaling=model.scaling)
        return path(model, row, cf.target, lams=[1.0]).at_prob
    ground, source = cf.within.ground, row if model.encoding is None else cf.source
    limits = {"cost": ground.cost, "actions": ground.actions, "max_changes": ground.max_changes, "time_limit": SECONDS}

    def ask(prob: float) -> Counterfactual:
        found = invert(cf.model, source, cf.target, prob=prob, **limits)
        return found if isinstance(found, Counterfactual) else found[0]

    return ask


def _below(wanted: float) -> float:
    """Where the slider begins: at a whole per cent that is no more than what is wanted."""
    return LEAST if wanted >= LEAST else min(max(math.floor(100 * wanted) / 100, 0.01), wanted)


def _bars(now: Floats, then: Floats, k: int) -> list[int]:
    """The classes shown: all of them if they are few, else the most probable ones, the wanted and the present one first."""
    order = np.argsort(-np.maximum(now, then), kind="stable").tolist()
    if len(order) <= MOST_BARS:
        return order
    first = [k, int(now.argmax())]
    return sorted(set(first) | set([j for j in order if j not in first][: MOST_BARS - len(set(first))]), key=order.index)


def _kept(cf: Counterfactual) -> list[str]:
    """What may not change, by name."""
    if cf.within is None:
        return []
    frozen = cf.within.ground.limits.frozen
    return [feature.name for feature in features_of(cf, None) if frozen[feature.at].all()]


def _decided(cf: Counterfactual, k: int) -> str:
    best = int(cf.proba.argmax())
    return str(cf.model.label(k if cf.proba[k] >= cf.proba[best] else best))


def _described(feature: Feature, before: float | str, values: list[float | str], start: int) -> dict[str, Any]:
    if isinstance(before, str):
        return {"name": feature.name, "from": before}
    numbers = [value for value in values if not isinstance(value, str)]
    return {"name": feature.name, "from": before, "decimals": decimals(before, numbers[start], numbers)}


def _proof(cf: Counterfactual) -> str:
    """The certificate of an answer within limits, in plain words."""
    if cf.status is Status.UNREACHABLE:
        return cf.message[:1].upper() + cf.message[1:] + "."
    if cf.within is None:
        return (
            f"No smaller change exists. Proved to {cf.error_bound:.0e}: the exact optimum is no further than that from this "
            f"answer, whose change measures {cf.distance:.4g}."
        )
    what, value = ("cost", cf.cost) if cf.prob is not None else ("objective", cf.objective)
    if cf.within.ground.margin is not None:
        what, value = "cost", cf.cost
    if cf.status is Status.STOPPED:
        return (
            f"The search was stopped before it was finished: the {what} is {value:.4g}, and no change within the limits can be "
            f"better by more than {cf.gap:.2g}."
        )
    better = "cheaper change" if what == "cost" else "better trade-off"
    return f"No {better} exists within the limits. Proved to {cf.gap:.0e}: the {what} is {value:.4g}, and no other is lower by more."


def _logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def _level(proba: Floats, rivals: NDArray[np.intp], k: int) -> float:
    """ln((1 − p)/p) of the target, without cancellation."""
    return float(np.log(proba[rivals].sum()) - np.log(proba[k]))


def _numbers(values: Floats) -> list[float]:
    return [float(value) for value in values]


def _packed(values: Floats, kind: str = "<f8") -> str:
    """Numbers in little-endian order, as base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")
