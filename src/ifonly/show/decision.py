"""What is decided about a source, and what about its answer."""

from typing import Any, NamedTuple

from ifonly.answers import Counterfactual
from ifonly.model.numerics import softmax

__all__ = ["Decision"]


class Decision(NamedTuple):
    """What is wanted, the classes predicted before and after a change, and how probable the target is in each."""

    target: Any
    before: Any
    after: Any
    p_before: float | None  # of the target; None where a model has scores only
    p_after: float | None

    @classmethod
    def of(cls, cf: Counterfactual) -> "Decision":
        """What the model says of an answer and its source, both of which must be finite."""
        model, k = cf.model, cf.model.class_index(cf.target)
        z = [model.scores(v) for v in cf.coordinates]
        before, after = (model.label(int(row.argmax())) for row in z)
        p_before, p_after = (None if model.hard else float(softmax(row)[k]) for row in z)
        return cls(model.label(k), before, after, p_before, p_after)
