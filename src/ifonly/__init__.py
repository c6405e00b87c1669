"""The smallest change to an input that gives the decision you want, exactly.

>>> import ifonly
>>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], classes=["refused", "approved"])
>>> ifonly.invert(model, [2.0, 1.0], "approved").x.round(6).tolist()
[1.5, 1.5]
"""

from typing import TYPE_CHECKING, Any

from ifonly import joint as joint
from ifonly.answers import Counterfactual, Counterfactuals, Path
from ifonly.answers.verify import verify
from ifonly.api import Ask, ask, invert, path
from ifonly.engines.phi import phi
from ifonly.model import Model, Scaling
from ifonly.model.errors import CertificateError, IfonlyError, InputError, UnsupportedModelError
from ifonly.model.readers import as_model
from ifonly.model.store import load
from ifonly.model.version import __version__ as __version__
from ifonly.problem import Certificate, Problem
from ifonly.problem.actions import Actions
from ifonly.problem.cost import Cost
from ifonly.problem.question import Question
from ifonly.problem.status import Status

__all__ = [
    "Actions",
    "Ask",
    "Certificate",
    "CertificateError",
    "Cost",
    "Counterfactual",
    "CounterfactualExplainer",
    "Counterfactuals",
    "IfonlyError",
    "InputError",
    "Model",
    "Path",
    "Problem",
    "Question",
    "Scaling",
    "Status",
    "UnsupportedModelError",
    "as_model",
    "ask",
    "invert",
    "load",
    "path",
    "phi",
    "verify",
]

if TYPE_CHECKING:
    from ifonly.cli import credit as credit
    from ifonly.frames.explainer import CounterfactualExplainer


def __getattr__(name: str) -> Any:
    """What needs scikit-learn or pandas is loaded when it is asked for."""
    if name == "CounterfactualExplainer":
        from ifonly.frames.explainer import CounterfactualExplainer

        return CounterfactualExplainer
    if name == "credit":
        from ifonly.cli import credit

        return credit
    raise AttributeError(f"module 'ifonly' has no attribute {name!r}")
