"""What a page with a slider shows, as plain data: `live_data` where the page solves by itself, else `step_data`.

**Without limits** the answers for all probabilities are one smooth curve in class space. The page gets what defines it, the
rivals' margins s̄ at the source and the matrix Ḡ = Ā Āᵀ: the nearest x with p_k ≥ τ is ``x = x̄ − Āᵀw``, where the K−1 numbers w
and the number c = (1 − τ)/λ satisfy

    w = c·softmax(s),     ln Σ_j e^{s_j} = ln((1 − τ)/τ),     s = s̄ − Ḡw,

a system that Newton's method solves in a few steps from the library's answers at the nearest *knots* (static/nearest.js).

**Within limits** the slider steps through the library's own answers for whole per cents: fewer where the page's own took a long
search, first far apart, then those between. So it is with limits, with costs that are no mere scale, with categories, and where
there are too many classes for a K×K matrix in a page.
"""

import base64
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual, Path
from ifonly.answers.change import Change, Part, moves, parts_of, told_of
from ifonly.answers.one import AS_GOOD
from ifonly.api import invert
from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats, softmax
from ifonly.problem.free import LEAST_P
from ifonly.problem.status import Status
from ifonly.show import image_shape
from ifonly.show.numbers import ENGLISH, asked, decimals, directed, marks, percent, quoted, value
from ifonly.show.sentence import Strong, bound_word, promised, told
from ifonly.show.table import certificate_words

__all__ = ["Scene", "live_data", "packed", "scene_of", "step_data"]

FIRST = 0.8  # the probability that the page of a path opens with
LEAST, MOST = 0.5, 0.99  # ends of the slider, unless the answer is beyond
MOST_CLASSES = 100  # with a matrix in the page: a frame then costs a few milliseconds, and the matrix 100 kB
MOST_FEATURES = 200  # in the table
MOST_BARS = 6
FIRST_NODES = 50_000  # that the answer which the page of a path opens with may take, within limits

# where the page solves
PARTS = 1000  # of the slider's probabilities: it moves in tenths of a per cent
KNOTS = 25  # answers along the curve: close enough for Newton's method to take three or four steps
HIGHEST = 745.0  # of ln((1 − p)/p) where p or 1 − p has underflowed
NEARLY_ONE = 1 - 1e-9  # beyond, a probability is asked for only where the answer itself has it

# where it steps
MOST_PIXELS = 4000  # of a picture for every per cent; of larger ones, one for every five
SIZE_DIGITS = 4  # of a bar's length
# How many answers there are besides the page's own, where that took more than so many nodes: by nodes and not by the clock, so
# that an answer has one page.
ANSWERS = ((5000, 5), (500, 9), (50, 17), (0, 100))
# The nodes that each may take, by those of the page's own and at least. What is stopped by it may be this far above its bound,
# in relative terms; the page says of each answer what is proved.
TIMES, NODES, GAP = 3, 1000, 0.01


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

    def at(self, prob: float, nodes: int = FIRST_NODES) -> Counterfactual:
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


# ---- the page solves by itself ----


def live_data(scene: Scene) -> dict[str, Any]:
    """All that the page needs to solve for any probability, as JSON has it."""
    cf, model, k = scene.cf, scene.cf.model, scene.k
    rivals, bars = model.rivals(k), scene.bars()
    least, most = _ends(scene)
    logits = np.linspace(_logit(least), _logit(min(most, NEARLY_ONE)), KNOTS)
    asked = [scene.at(float(tau)) for tau in 1 / (1 + np.exp(-logits))]
    knots = sorted([*(knot for knot in asked if knot.status is not Status.UNREACHABLE), cf], key=_level, reverse=True)
    scale = np.ones(model.n_features) if model.scaling is None else model.scaling.scale
    source = scene.source
    deltas = np.array([knot.coordinates[1] - source for knot in (knots[0], cf, knots[-1])])
    sizes = np.abs(deltas / scale)
    told = told_of(model, deltas, sizes**2).any(axis=0)
    shown = told | (deltas == 0).all(axis=0)
    order = np.lexsort((-sizes.max(axis=0), -sizes[1]))
    order = order[shown[order]][:MOST_FEATURES]
    names = {int(part.features[0]): scene.name(part) for part in scene.parts}
    A = model.A - model.A.mean(axis=0)
    z = model.scores(source)
    return {
        "mode": "live",
        **scene.common(),
        "k": k,
        "classes": [scene.called(k) for k in range(model.n_classes)],
        "bars": bars,
        "rest": model.n_classes - len(bars),
        "now": scene.now.tolist(),
        "ends": [least, most],
        "features": [
            {
                "name": names[d],
                "sure": [promised(model, k, d, sign) for sign in (-1.0, 1.0)],  # any lower value, any higher one
                "from": float(source[d]),
                "decimals": decimals(float(source[d]), float(source[d] + deltas[1, d]), (source[d] + deltas[::2, d]).tolist()),
            }
            for d in order.tolist()
        ],
        "unlisted": int(np.delete(told, order).sum()),
        "size": float(sizes.max()) or 1.0,
        "level": _level(cf),
        "margins": (z[rivals] - z[k]).tolist(),
        "gram": packed(model.rival_gram(k)),
        "slopes": packed(A[:, order] * scale[order]),
        "units": packed(1 / np.abs(scale[order])),
        "knots": {
            "level": [_level(knot) for knot in knots],
            "bound": [0.0 if math.isinf(knot.lam) else float(knot.error_bound) for knot in knots],
            "w": packed([knot.proba[rivals] / knot.lam for knot in knots]),
        },
        "image": None if scene.shape is None else scene.image(float(np.abs(deltas).max()), slopes=packed(A * scale, "<f4")),
    }


def _ends(scene: Scene) -> tuple[float, float]:
    """The least and largest probability of the slider: no further than can be reached."""
    wanted = scene.wanted
    if wanted >= MOST:
        return scene.least, wanted
    best, most = scene.at(MOST), MOST
    if best.status is Status.UNREACHABLE:
        most = max(wanted, math.floor(PARTS * float(best.proba[scene.k])) / PARTS)
    return min(scene.least, most), most


def _logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def _level(cf: Counterfactual) -> float:
    """ln((1 − p)/p) of what was asked for, or else of what came of it, without cancellation."""
    if cf.prob is not None:
        return -_logit(cf.prob)
    k = cf.result.target
    rest, p = float(np.delete(cf.proba, k).sum()), float(cf.proba[k])
    return HIGHEST if p == 0.0 else -HIGHEST if rest == 0.0 else math.log(rest) - math.log(p)


# ---- the page steps through answers ----


def step_data(scene: Scene) -> dict[str, Any]:
    """The answers that the page steps through, as JSON has them."""
    cf, bars = scene.cf, scene.bars()
    answers, beyond = _answers(scene)
    start = next(i for i, (_, answer) in enumerate(answers) if answer is cf)
    changes = [{int(change.part.features[0]): change for change in moves(answer)} for _, answer in answers]
    described = _features(scene, changes, start)
    xs = np.stack([answer.coordinates[1] for _, answer in answers])
    top = max((abs(change.units) for found in changes for change in found.values()), default=1.0)
    return {
        "mode": "steps",
        **scene.common(),
        "k": bars.index(scene.k),
        "classes": [scene.called(j) for j in bars],
        "bars": [] if scene.hard else list(range(len(bars))),
        "rest": cf.model.n_classes - len(bars),
        "now": _chances(scene.now, bars),
        "beyond": beyond,
        "start": start,
        "features": list(described.values()),
        "unlisted": max(sum(key not in described for key in found) for found in changes),
        "size": top or 1.0,
        "image": None if scene.shape is None else scene.image(float(np.abs(xs - scene.source).max()), frames=packed(xs, "<f4")),
        "steps": [
            {"wanted": wanted, **_step(scene, answer, bars, found, described)}
            for (wanted, answer), found in zip(answers, changes, strict=True)
        ],
    }


def _step(
    scene: Scene, answer: Counterfactual, bars: list[int], found: dict[int, Change], described: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    """One of them; from one half on, what was asked for is promised, also where two classes are equal."""
    promised = answer.status.ok and answer.prob is not None and answer.prob >= 0.5
    pieces = told(answer, scene.shape)
    return {
        "p": _chances(answer.proba, bars),
        "decided": scene.called(scene.k if promised else int(answer.proba.argmax())),
        "said": [[str(piece)] if isinstance(piece, Strong) else str(piece) for piece in pieces],  # lists of one: emphasised
        "short": answer.status is Status.UNREACHABLE,  # whether it is only the best there is, and less than was asked for
        "changes": [_changed(answer, n, about, found[key]) for n, (key, about) in enumerate(described.items()) if key in found],
        "proof": _proof(answer, hard=scene.hard),
    }


def _changed(answer: Counterfactual, n: int, feature: dict[str, Any], change: Change) -> list[Any]:
    """The number of a feature on the page, what it becomes (rounded as the sentence does it), and the length of its bar."""
    after = value(change.after)
    if "decimals" in feature:
        word = bound_word(answer, change)
        after = directed(float(change.after), feature["decimals"], up=word == "at least" if word else None)
    return [n, after, float(f"{abs(change.units):.{SIZE_DIGITS}g}")]


def _answers(scene: Scene) -> tuple[list[tuple[float, Counterfactual]], str]:
    """(wanted probability, answer), by probability, with the page's own among them; and what is out of reach, in words."""
    found, beyond = [(scene.wanted, scene.cf)], ""
    if scene.hard:
        return found, beyond
    every = 1 if scene.shape is None or math.prod(scene.shape) <= MOST_PIXELS else 5
    percents = np.arange(math.ceil(100 * scene.least - 1e-9), round(100 * MOST) + 1, every) / 100
    out_of_reach, nodes = math.inf, max(TIMES * scene.cf.n_nodes, NODES)
    most = next(most for nodes, most in ANSWERS if scene.cf.n_nodes >= nodes)
    for tau in _spread(percents.tolist())[:most]:
        if tau == scene.wanted or tau >= out_of_reach:
            continue
        answer = scene.at(tau, nodes)
        if answer.status is Status.UNREACHABLE:
            best = percent(float(answer.proba[scene.k]), "short")
            held = f", because of the limits: {', '.join(map(quoted, answer.blocking[:3]))}" if answer.blocking else ""
            beyond, out_of_reach = f"The best that can be reached is {best}{held}.", tau
        elif answer.status.ok or (answer.status is Status.STOPPED and answer.gap <= GAP * answer.cost < math.inf):
            found.append((tau, answer))
    return sorted(found, key=lambda pair: pair[0]), beyond


def _spread(values: list[float]) -> list[float]:
    """Both ends, and then always those in the middle between two: whoever stops early has some everywhere."""
    strides = [2**n for n in reversed(range(len(values).bit_length()))]
    return list(dict.fromkeys([*values[:1], *values[-1:], *(value for stride in strides for value in values[::stride])]))


def _features(scene: Scene, changes: list[dict[int, Change]], start: int) -> dict[int, dict[str, Any]]:
    """The features that change somewhere, first those that do at the start, the largest change first.

    Of each its name, what it is now, and how its numbers are written; without decimals they are words.
    """
    every = dict.fromkeys(key for found in changes for key in found)
    sizes = {key: [abs(found[key].units) if key in found else 0.0 for found in changes] for key in every}
    described = {}
    for key in sorted(every, key=lambda key: (-sizes[key][start], -max(sizes[key])))[:MOST_FEATURES]:
        found = [other[key] for other in changes if key in other]
        here = changes[start].get(key, found[0])
        before, numbers = here.before, [change.after for change in found]
        described[key] = {"name": scene.name(here.part), "from": value(before)}
        if not any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in (before, *numbers)):
            places = decimals(float(before), float(here.after), map(float, numbers))
            described[key] |= {"from": float(before), "decimals": places}
    return described


def _chances(p: Floats, bars: list[int]) -> list[float]:
    """The probabilities of the classes shown, and of all others together."""
    return [*p[bars].tolist(), float(np.delete(p, bars).sum())]


def _proof(cf: Counterfactual, *, hard: bool) -> str:
    """What is known for certain of an answer, in plain words."""
    if cf.status is Status.UNREACHABLE and cf.prob is not None and cf.conditions is not None and not hard:
        p = float(cf.proba[cf.result.target])
        if cf.result.ceiling <= p * (1 + AS_GOOD):  # the sentence says the rest
            return f"{asked(cf.prob)} is out of reach: what is shown is the best there is."
    found = certificate_words(cf, "")
    if not (cf.status is Status.EXACT and cf.distance):
        return found
    best = "No smaller change" if hard or cf.prob is not None else "No better trade-off"
    return f"{best} exists. {found}"
