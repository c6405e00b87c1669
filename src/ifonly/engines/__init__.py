"""One method a file, all with one protocol (`protocol.Engine`); here and in `limits` they stand in the order they are asked."""

from ifonly.engines.class_newton import ClassNewton
from ifonly.engines.closed_form import ClosedForm
from ifonly.engines.few_and_rest import FewAndRest
from ifonly.engines.many_passes import ManyPasses
from ifonly.engines.protocol import Engine
from ifonly.model.errors import InputError
from ifonly.problem.asked import Asked

__all__ = ["choose"]

FREE: tuple[Engine, ...] = (ClosedForm(), ClassNewton(), FewAndRest(), ManyPasses())


def choose(asked: Asked) -> Engine:
    """The first engine that does not refuse."""
    return asked.keep("engine", lambda: _first(asked))


def _first(asked: Asked) -> Engine:
    engines: tuple[Engine, ...] = FREE
    if asked.conditions is not None:  # those for limits are loaded when the first is asked
        from ifonly.engines.limits import LIMITED

        engines = LIMITED
    reasons = {}
    for engine in engines:
        reason = engine.refuses(asked)
        if reason is None:
            return engine.form(asked)
        reasons[type(engine).__name__] = reason
    raise InputError(f"no method solves this: {reasons}")
