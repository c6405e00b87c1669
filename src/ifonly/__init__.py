"""The smallest change to an input that gives the decision you want, exactly.

>>> import ifonly
>>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], classes=["refused", "approved"])
>>> ifonly.invert(model, [2.0, 1.0], "approved").x.round(6).tolist()
[1.5, 1.5]
"""

from typing import TYPE_CHECKING, Any

from ifonly.actions import Actions
from ifonly.adopt import as_model
from ifonly.answer import Counterfactual, Counterfactuals, Path
from ifonly.api import invert, path
from ifonly.cost import Cost
from ifonly.errors import CertificateError, IfonlyError, InputError, UnsupportedModelError
from ifonly.model import Model, Scaling
from ifonly.problem import Certificate, Problem
from ifonly.recheck import verify
from ifonly.solvers.logistic import phi
from ifonly.status import Status
from ifonly.store import load

__all__ = [
    "Actions",
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
    "Scaling",
    "Status",
    "UnsupportedModelError",
    "as_model",
    "invert",
    "load",
    "path",
    "phi",
    "verify",
]

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ifonly.explainer import CounterfactualExplainer


def __getattr__(name: str) -> Any:
    """What needs scikit-learn is loaded when it is asked for."""
    if name != "CounterfactualExplainer":
        raise AttributeError(f"module 'ifonly' has no attribute {name!r}")
    from ifonly.explainer import CounterfactualExplainer

    return CounterfactualExplainer
