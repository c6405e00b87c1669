"""Within limits: the library's own answers for whole per cents, which the slider steps through.

They are fewer where the page's own took a long search: first far apart, then those between. So it is with limits, with costs
that are no mere scale, with categories, and where there are too many classes for a K×K matrix in a page.
"""

import math
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual
from ifonly.answers.change import Change, moves
from ifonly.model.numerics import Floats
from ifonly.problem.status import Status
from ifonly.show.numbers import asked, decimals, directed, percent, quoted, value
from ifonly.show.page.scene import MOST, MOST_FEATURES, Scene, packed
from ifonly.show.sentence import Strong, bound_word, told
from ifonly.show.table import certificate_words

__all__ = ["step_data"]

MOST_PIXELS = 4000  # of a picture for every per cent; of larger ones, one for every five
SIZE_DIGITS = 4  # of a bar's length
AS_GOOD = 1e-6  # relative: a probability this near to the largest there can be is the best there is
# How many answers there are besides the page's own, where that took more than so many nodes: by nodes and not by the clock, so
# that an answer has one page.
ANSWERS = ((5000, 5), (500, 9), (50, 17), (0, 100))
# The nodes that each may take, by those of the page's own and at least. What is stopped by it may be this far above its bound,
# in relative terms; the page says of each answer what is proved.
TIMES, NODES, GAP = 3, 1000, 0.01


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
