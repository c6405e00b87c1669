"""The smallest change to an input that gives the decision you want, exactly.

>>> import ifonly
>>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], classes=["refused", "approved"])
>>> ifonly.invert(model, [2.0, 1.0], "approved").x.round(6).tolist()
[1.5, 1.5]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["Actions", "Ask", "Certificate", "CertificateError", "Cost", "Counterfactual", "CounterfactualExplainer"]
__all__ += ["Counterfactuals", "IfonlyError", "InputError", "Model", "Path", "Policy", "Problem", "Question", "Scaling"]
__all__ += ["Status", "UnsupportedModelError", "as_model", "ask", "explore", "invert", "load", "path", "phi", "verify"]

# Where each name lives: a module is loaded when something of it is asked for, so that to import ifonly takes no time. Two
# modules are handed out themselves.
_ROOMS = {
    "answers": ["Counterfactual", "Counterfactuals", "Path"],
    "answers.verify": ["verify"],
    "api": ["Ask", "ask", "invert", "path"],
    "cli.credit": ["credit"],
    "engines.phi": ["phi"],
    "frames.explainer": ["CounterfactualExplainer"],
    "joint": ["joint"],
    "model": ["Model", "Scaling"],
    "model.errors": ["CertificateError", "IfonlyError", "InputError", "UnsupportedModelError"],
    "model.readers": ["as_model"],
    "model.store": ["load"],
    "model.version": ["__version__"],
    "problem.policy": ["Policy"],
    "problem": ["Certificate", "Problem"],
    "problem.actions": ["Actions"],
    "problem.cost": ["Cost"],
    "problem.question": ["Question"],
    "problem.status": ["Status"],
    "show.page": ["explore"],
}
_PLACES = {name: room for room, names in _ROOMS.items() for name in names}

if TYPE_CHECKING:
    from ifonly import joint as joint
    from ifonly.answers import Counterfactual, Counterfactuals, Path
    from ifonly.answers.verify import verify
    from ifonly.api import Ask, ask, invert, path
    from ifonly.cli import credit as credit
    from ifonly.engines.phi import phi
    from ifonly.frames.explainer import CounterfactualExplainer
    from ifonly.model import Model, Scaling
    from ifonly.model.errors import CertificateError, IfonlyError, InputError, UnsupportedModelError
    from ifonly.model.readers import as_model
    from ifonly.model.store import load
    from ifonly.model.version import __version__ as __version__
    from ifonly.problem import Certificate, Problem
    from ifonly.problem.actions import Actions
    from ifonly.problem.cost import Cost
    from ifonly.problem.policy import Policy
    from ifonly.problem.question import Question
    from ifonly.problem.status import Status
    from ifonly.show.page import explore


def __getattr__(name: str) -> Any:
    """Load what is asked for, and keep it."""
    if name not in _PLACES:
        raise AttributeError(f"module 'ifonly' has no attribute {name!r}")
    module = import_module(f".{_PLACES[name]}", __name__)
    found = globals()[name] = getattr(module, name, module)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
