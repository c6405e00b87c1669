"""One method a file, all with one protocol (`protocol.Engine`); `engines` has them in the order in which they are asked."""

from functools import cache

from ifonly.engines.class_newton import ClassNewton
from ifonly.engines.closed_form import ClosedForm
from ifonly.engines.few_and_rest import FewAndRest
from ifonly.engines.many_passes import ManyPasses
from ifonly.engines.protocol import Engine
from ifonly.model.errors import InputError
from ifonly.problem.asked import Asked

__all__ = ["choose", "engines"]

FREE: tuple[Engine, ...] = (ClosedForm(), ClassNewton(), FewAndRest(), ManyPasses())


@cache
def engines(limited: bool) -> tuple[Engine, ...]:
    """Those for free problems, and those for ``limited`` ones, which are loaded when the first is asked."""
    if not limited:
        return FREE
    from ifonly.engines.limits import LIMITED

    return LIMITED


def choose(asked: Asked) -> Engine:
    """The first engine that does not refuse."""
    return asked.keep("engine", lambda: _first(asked))


def _first(asked: Asked) -> Engine:
    reasons = {}
    for engine in engines(asked.conditions is not None):
        reason = engine.refuses(asked)
        if reason is None:
            return engine.form(asked)
        reasons[type(engine).__name__] = reason
    raise InputError(f"no method solves this: {reasons}")
