"""Which engine is for which limits."""

from ifonly.engines.cases import Cases
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.limited import LimitedEngine
from ifonly.engines.one_multiplier import OneMultiplier
from ifonly.engines.semismooth_newton import SemismoothNewton

__all__ = ["LIMITED", "engine_for"]

LIMITED: tuple[LimitedEngine, ...] = (OneMultiplier(), Cases(), SemismoothNewton())


def engine_for(space: CostSpace, weighed: bool) -> LimitedEngine:
    """The first engine that is fit for these conditions (``weighed``: with λ)."""
    return next(engine for engine in LIMITED if engine.unfit(space, weighed) is None)
