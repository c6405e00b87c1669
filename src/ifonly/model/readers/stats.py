"""statsmodels: the results of ``Logit`` and ``MNLogit``.

statsmodels fits a constant as a column of ``exog``. Nobody can change a constant, so it is no feature here: the features are
the columns of ``exog`` without it, in their order and with their names, and its weight is the bias. For
``res = Logit(y, add_constant(X)).fit()``, ``as_model(res).predict_proba(X)`` is ``res.predict(add_constant(X))``.

``Logit`` has the classes 0 and 1; those of ``MNLogit`` are called as they are in ``endog`` (numbers as numbers). Of a formula
every term must be a column of the data, as in ``y ~ age + income``: what is computed from columns is not theirs to change.
"""

from typing import Any

import numpy as np

from ifonly.model import Model
from ifonly.model.errors import UnsupportedModelError
from ifonly.model.numerics import Floats

__all__ = ["read"]

EXPECTED = "Expected the results of Logit or MNLogit; for any other linear softmax give its weights: Model(A, b)"


def read(results: Any) -> Model:
    """The results of ``Logit(…).fit()`` or ``MNLogit(…).fit()``."""
    kind = type(getattr(results, "model", None)).__name__
    if type(results).__name__ in ("Logit", "MNLogit"):
        raise UnsupportedModelError(f"{type(results).__name__} is not fitted; pass what its fit() returns")
    if kind == "Probit":
        raise UnsupportedModelError(
            "Probit is the normal distribution function of a linear function, not the logistic one; fit Logit instead"
        )
    if kind not in ("Logit", "MNLogit") or not type(results.model).__module__.startswith("statsmodels.discrete."):
        name = type(results).__name__ if kind == "NoneType" else f"{kind} ({type(results).__name__})"
        raise UnsupportedModelError(f"{name} is not understood. {EXPECTED}")
    model = results.model
    if getattr(model, "offset", None) is not None:
        raise UnsupportedModelError(f"{kind} was fitted with an offset, which differs from row to row; fit it without")
    params = np.asarray(results.params, dtype=np.float64)
    weights = params.reshape(len(params), -1).T  # one row per class but the first
    features, bias = _split(model, weights)
    names = [str(model.exog_names[d]) for d in features]
    formula = getattr(model, "formula", None)
    columns = names if formula is None else [str(column) for column in model.data.frame.columns]
    for name in names:
        if name not in columns:
            raise UnsupportedModelError(
                f"term {name!r} of the formula “{formula}” is computed from columns of the data, and cannot be changed by "
                "itself; make the columns first and fit on those: MNLogit(y, X) or Logit(y, X), or a formula of plain columns"
            )
    A, b = np.vstack([np.zeros(len(features)), weights[:, features]]), np.concatenate([[0.0], bias])
    return Model(A, b, None if kind == "Logit" else _labels(model), names)


def _split(model: Any, weights: Floats) -> tuple[list[int], Floats]:
    """The columns of ``exog`` that are features, and the bias that the constant one comes to."""
    D = weights.shape[1]
    constant = getattr(model.data, "const_idx", None)  # None also where columns add up to a constant: each can change
    if constant is None:
        return list(range(D)), np.zeros(len(weights))
    if model.exog is None:
        raise UnsupportedModelError(
            "the data were removed from the results (remove_data), and with them the value of the constant column; "
            "pass results that still have them"
        )
    value = float(np.asarray(model.exog)[0, constant])
    return [d for d in range(D) if d != constant], value * weights[:, constant]


def _labels(model: Any) -> list[Any]:
    """The classes of ``MNLogit``, which keeps them as text: numbers again where ``endog`` had numbers."""
    names = vars(model)["_ynames_map"]
    texts = [str(names[j]) for j in range(int(model.J))]
    endog: Any = getattr(model.data, "orig_endog", None)
    if hasattr(endog, "columns"):  # of a formula one column; of the user's own dummies several, which have names
        endog = endog.iloc[:, 0] if endog.shape[1] == 1 else None
    if hasattr(endog, "cat"):
        endog = endog.cat.categories
    kind = "O" if endog is None else endog.dtype.kind
    if kind == "b":
        return [text in ("True", "1") for text in texts]
    if kind not in "iuf":
        return texts
    values = [float(text) for text in texts]
    return [int(value) for value in values] if all(value.is_integer() for value in values) else values
