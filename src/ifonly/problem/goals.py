"""What is wanted of the classifier: how probable the target is to full precision, how far ahead it is, and what E weighs.

Everything here is a function of the K scores z of one point and of the wanted class k.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ifonly.model import Model
from ifonly.model.numerics import EPS, Floats

__all__ = ["Weights", "coarser", "entropy", "excess", "in_logs", "lead", "needed_logit", "probabilities"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What stands before the terms of ``E = (λ/2)·distance² + ω·Σμ|t| + (−ln p_k, or nothing)``."""

    lam: float  # λ
    l1: float  # ω
    loss: bool = True  # whether −ln p_k is part of E

    @classmethod
    def given(cls, lam: float) -> "Weights":
        """λ was given: it multiplies the squared distance, and Σμ|t| counts once."""
        return cls(lam, 1.0)

    @classmethod
    def found(cls, lam: float) -> "Weights":
        """λ was found for a probability: it multiplies the cost as a whole."""
        return cls(lam, lam)

    @classmethod
    def of_cost(cls) -> "Weights":
        """E is the cost itself: the goal is a row among the limits, or in nobody's way."""
        return cls(1.0, 1.0, loss=False)


def probabilities(z: Floats, k: int) -> tuple[Floats, float]:
    """All K probabilities, and −ln p_k to full relative precision however close p_k is to 0 or to 1."""
    s = z - z[k]
    top = float(s.max())
    e = np.exp(s - top)
    total = float(e.sum())
    # Where the target is ahead p_k = 1/(1 + rivals) is near 1, and only log1p keeps the digits of −ln p_k.
    loss = math.log1p(float(np.delete(e, k).sum())) if top == 0.0 else top + math.log(total)
    return e / total, loss


def entropy(q: Floats) -> float:
    """``H(q) = −Σ q ln q``, with 0 ln 0 = 0."""
    positive = q[q > 0]
    return -float(positive @ np.log(positive))


def excess(p: Floats, loss: float, k: int, prob: float, logit_error: float) -> float:
    """At most how far ln p_k is above ln τ, with p_k computed from margins that may be off by ``logit_error``."""
    rivals = float(np.delete(p, k).sum())
    rounding = rivals * logit_error + 4 * EPS * (loss - math.log(prob))
    return max(-loss - math.log(prob), 0.0) + rounding


def lead(z: Floats, k: int) -> float:
    """How far the target's score is ahead of the best rival's; negative where it is behind."""
    return float(z[k] - np.delete(z, k).max())


def needed_logit(prob: Any, model: Model) -> Any:
    """logit(1 − p_k) at which p_k, and a softmax of K terms, itself rounded, come out ≥ prob; for one or many."""
    eps, room = model.precision, (model.n_classes + 8) * model.precision
    # Rivals with a mass below eps/4 vanish from a softmax, and it is 1; but no more than 1 − prob may vanish. For a small prob
    # 1 − mass would have lost its digits.
    if not isinstance(prob, np.ndarray):  # one: a fifth of the time
        if prob < 0.5:
            return math.log1p(-prob * (1 + room)) - math.log(prob * (1 + room))
        mass = max((1 - prob) - prob * room, min(eps / 4, (1 - prob) / 2))
        return math.log(mass) - math.log1p(-mass)
    rest = np.minimum(prob, 0.5) * (1 + room)
    mass = np.minimum(np.maximum((1 - prob) - prob * room, np.minimum(eps / 4, (1 - prob) / 2)), 0.75)
    return np.where(prob < 0.5, np.log1p(-rest) - np.log(rest), np.log(mass) - np.log1p(-mass))


def in_logs(model: Model, gamma: float) -> float:
    """How coarsely an estimator rounds that takes p as exp(logit − ln Σ exp), times 1 − p; 0 for one that does not.

    The logarithm and the difference are rounded as numbers of the size of logits, by 2u of their terms, and p with them. For a
    logit that is 1/(1 − p) times as much, and twice that, as ``−ln(1 − y) ≤ 2y``; its own rounding is 2γ of the terms, which
    this is relative to.
    """
    return EPS / gamma if model.log_space else 0.0


def coarser(prob: Any, logs: float) -> Any:
    """How many times the rounding of logits has to be allowed for, with `in_logs`, so that p comes out ≥ prob; for one or many.

    Of λ and of a margin nobody takes a probability: without one it is 1, as it is for most estimators. C++ has the same in
    `limits::Errors::coarser` and `window_of`.
    """
    return 1.0 if prob is None or not logs else np.maximum(1.0, logs / (1 - prob))
