"""`CounterfactualExplainer`: the questions of `invert` as an estimator of scikit-learn's, for use inside its tooling.

Loaded when it is first asked for (``ifonly.CounterfactualExplainer``): it needs scikit-learn.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from ifonly.api import Ask
from ifonly.model.errors import InputError
from ifonly.model.extras import needing
from ifonly.model.tables import unmasked
from ifonly.problem.cost import Cost
from ifonly.problem.question import Question
from ifonly.problem.status import Status

__all__ = ["CounterfactualExplainer"]

if TYPE_CHECKING:
    from ifonly.answers import Counterfactuals

with needing("CounterfactualExplainer needs scikit-learn", "sklearn"):
    from sklearn.base import BaseEstimator, MetaEstimatorMixin, OneToOneFeatureMixin, TransformerMixin, clone
    from sklearn.utils import get_tags
    from sklearn.utils.validation import check_is_fitted, validate_data


class CounterfactualExplainer(OneToOneFeatureMixin, MetaEstimatorMixin, TransformerMixin, BaseEstimator):
    """The smallest changes that give the decision you want, as a transformer of scikit-learn's.

    Parameters
    ----------
    estimator : classifier or pipeline
        What :func:`ifonly.as_model` understands once it is fitted.
    target : label or None
        The wanted class; None is for each row the nearest other class.
    prob, lam, margin : float, optional
        What is wanted of it, as in :func:`ifonly.invert`; by default ``prob=0.5``.
    cost : Cost, optional
        What a change costs. ``Cost("std")`` and its like are fitted in :meth:`fit`.
    actions : Actions, optional
        What may change.
    max_changes : int, optional
        At most so many features move.

    Attributes
    ----------
    estimator_ : classifier or pipeline
        The fitted one.
    cost_ : Cost or None
        The cost, fitted where it is to be.
    classes_ : ndarray
        The labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> import ifonly
    >>> X, y = load_iris(return_X_y=True)
    >>> explainer = ifonly.CounterfactualExplainer(LogisticRegression(max_iter=1000), target=2, prob=0.9)
    >>> flowers = explainer.fit_transform(X, y)
    >>> bool((explainer.estimator_.predict(flowers) == 2).all())
    True
    >>> explainer.explain(X[:3]).distance.round(2).tolist()
    [3.86, 3.78, 3.85]

    """

    def __init__(
        self,
        estimator: Any,
        *,
        target: Any = None,
        prob: float | None = None,
        lam: float | None = None,
        margin: float | None = None,
        cost: Any = None,
        actions: Any = None,
        max_changes: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.target, self.prob, self.lam, self.margin = target, prob, lam, margin
        self.cost, self.actions, self.max_changes = cost, actions, max_changes

    def fit(self, X: Any, y: Any = None) -> "CounterfactualExplainer":
        """Fit a clone of the estimator to X and y; without y, take the estimator as it is, which must be fitted then."""
        if y is None:
            try:
                check_is_fitted(self.estimator)
            except ValueError:
                raise ValueError(
                    f"This {type(self).__name__} estimator requires y to be passed, but the target y is None "
                    "(only an estimator that is fitted already needs none)"
                ) from None
            self.estimator_: Any = self.estimator
        else:
            fresh: Any = clone(self.estimator)
            self.estimator_ = fresh.fit(X, y)
        validate_data(self, X, skip_check_array=True)
        unfitted = isinstance(self.cost, Cost) and self.cost.needs_data
        self.cost_ = self.cost.fit(X) if unfitted else self.cost
        self.classes_ = self.estimator_.classes_
        return self

    def explain(self, X: Any, target: Any = None) -> "Counterfactuals":
        """The answers for the rows of X, with their certificates; ``target`` overrides the explainer's."""
        check_is_fitted(self)
        rows = X if hasattr(X, "columns") or hasattr(X, "tocsr") else np.asarray(unmasked(X))
        if getattr(rows, "ndim", 2) != 2:
            raise InputError(
                f"X must be a table (N, D); got an array of shape {rows.shape}. Reshape your data: X.reshape(1, -1)"
            )
        validate_data(self, X, reset=False, skip_check_array=True)
        limits = {"cost": self.cost_, "actions": self.actions, "max_changes": self.max_changes}
        question = Question(self.target if target is None else target, self.lam, self.prob, self.margin, **limits)
        return Ask(self.estimator_, question)(rows)

    def transform(self, X: Any) -> Any:
        """The rows of X, changed so that they are decided as wanted; of the kind that X is.

        Raises where a row has no answer; :meth:`explain` says of each row how it ended.
        """
        answers = self.explain(X)
        for status, what in ((Status.INVALID, "cannot be read"), (Status.UNREACHABLE, "cannot be decided as wanted")):
            bad = np.flatnonzero(answers.status == status)
            if len(bad):
                why = answers[int(bad[0])].message if status is Status.UNREACHABLE else "it has NaN, inf or unknown values"
                raise InputError(f"{len(bad)} of {len(answers)} rows of X {what}; row {bad[0]}: {why}")
        return answers.x

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags, tags.target_tags.required = inner.input_tags, True
        return tags
