"""Without limits: the page solves for the wanted probability itself.

The answers for all probabilities are one smooth curve in class space. The page gets what defines it, the rivals' margins s̄ at
the source and the matrix Ḡ = Ā Āᵀ: the nearest x with p_k ≥ τ is ``x = x̄ − Āᵀw``, where the K−1 numbers w and the number
c = (1 − τ)/λ satisfy

    w = c·softmax(s),     ln Σ_j e^{s_j} = ln((1 − τ)/τ),     s = s̄ − Ḡw,

a system that Newton's method solves in a few steps from the library's answers at the nearest *knots* (static/nearest.js).
"""

import math
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual
from ifonly.answers.change import told_of
from ifonly.problem.status import Status
from ifonly.show.numbers import decimals
from ifonly.show.page.scene import MOST, MOST_FEATURES, Scene, packed
from ifonly.show.sentence import promised

__all__ = ["live_data"]

PARTS = 1000  # of the slider's probabilities: it moves in tenths of a per cent
KNOTS = 25  # answers along the curve: close enough for Newton's method to take three or four steps
HIGHEST = 745.0  # of ln((1 − p)/p) where p or 1 − p has underflowed
NEARLY_ONE = 1 - 1e-9  # beyond, a probability is asked for only where the answer itself has it


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
