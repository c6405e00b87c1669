"""as_model: fitted classifiers of other libraries → Model, exactly or not at all.

One module per library, each with a ``read(estimator) -> Model``, found by the name of the library that the object's class comes
from. No library is imported: an object of one exists only if its user imported it.
"""

from typing import Any
from weakref import WeakKeyDictionary

from ifonly.model import Model
from ifonly.model.errors import UnsupportedModelError

__all__ = ["as_model"]


def as_model(estimator: Any) -> Model:
    """A fitted classifier as a :class:`Model`; x goes in and comes out in the units the estimator takes.

    Parameters
    ----------
    estimator : Model or fitted estimator
        A model is returned as it is. From scikit-learn: ``LogisticRegression``, ``LinearDiscriminantAnalysis``, naive Bayes,
        ``LinearSVC`` and other linear classifiers, alone or at the end of pipelines of scalers, encoders, imputers, selectors
        and more, in any nesting (see the page on models). From PyTorch, Keras, statsmodels and xgboost: what is linear.

    Raises
    ------
    UnsupportedModelError
        If the object is not a linear softmax that can be read exactly, with the step that stands in the way and why.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> as_model(LogisticRegression(max_iter=1000).fit(*load_iris(return_X_y=True)))
    Model(K=3, D=4, classes=[0, 1, 2])

    """
    if isinstance(estimator, Model):
        return estimator
    reader = _reader(estimator)
    mark = reader.fingerprint(estimator) if hasattr(reader, "fingerprint") else None
    try:
        known, seen = _KNOWN.get(estimator, (None, None))
    except TypeError:  # an estimator that cannot be a key
        return reader.read(estimator)
    if known is not None and mark is not None and mark == seen:
        return known
    found = reader.read(estimator)
    model = known if known is not None and known == found else found
    _KNOWN[estimator] = model, mark
    return model


# What was read from an estimator before, so that a model's Gram matrix is computed once. An estimator may be fitted again or
# have its weights changed in place: it is read each time, and the model kept only if nothing differs. Where reading takes long
# (pipelines of encoders), its reader has a ``fingerprint`` of all that was fitted, and equal ones are not read again.
_KNOWN: WeakKeyDictionary[Any, tuple[Model, Any]] = WeakKeyDictionary()


def _reader(estimator: Any) -> Any:
    """By the library of the object's class, or of the first of its bases that has a reader (a user's own torch module)."""
    for cls in type(estimator).__mro__:
        match cls.__module__.split(".")[0]:
            case "sklearn":
                from ifonly.model.readers import scikit as reader
            case "torch":
                from ifonly.model.readers import pytorch as reader
            case "statsmodels":
                from ifonly.model.readers import stats as reader
            case "xgboost":
                from ifonly.model.readers import boosted as reader
            case "keras":
                from ifonly.model.readers import dense as reader
            case _:
                continue
        return reader
    raise UnsupportedModelError(
        f"{type(estimator).__name__} is not understood. Expected a Model, a fitted linear classifier of scikit-learn's or a "
        "Pipeline that ends in one, or a linear layer or model of torch, keras, statsmodels or xgboost; "
        "for any other linear softmax give its weights: Model(A, b)"
    )
