"""scikit-learn: classifiers that are a linear softmax or a logistic regression, alone or at the end of a pipeline.

`_CLASSIFIERS` says of each where its weights are. A pipeline of scalers becomes a `Scaling`; any other is folded step by
step (`fold`) and leaves an `Encoding`. What has scores but no probabilities (``LinearSVC`` and the like) becomes a
*hard* model, for `invert(..., margin=)`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.adopt.fold import SCALERS, Columns, Features, fold, kind_of
from ifonly.encoding import Column, Documents, Encoding
from ifonly.errors import UnsupportedModelError
from ifonly.model import Model, Scaling

__all__ = ["fingerprint", "read"]

Floats = NDArray[np.float64]
Affine = tuple[Floats, Floats, Floats]  # shift, scale of (x − shift) / scale, and Scaling's rough


class Weights(NamedTuple):
    """What a classifier does with its features: one row of weights for two classes, or one per class."""

    coef: Floats
    intercept: Floats
    classes: np.ndarray
    hard: bool = False  # scores, no probabilities


def read(estimator: Any) -> Model:
    """A classifier or a pipeline of scikit-learn's."""
    steps, last = _unwrapped(estimator)
    kind = kind_of(last)
    if kind not in _CLASSIFIERS:
        raise UnsupportedModelError(f"{kind} {_REASONS.get(kind, 'is not understood')}. {_EXPECTED}")
    if not hasattr(last, "classes_"):
        raise UnsupportedModelError(f"{kind} is not fitted; call fit first")
    weights = _CLASSIFIERS[kind](last)
    named = next((step for _, step in [*steps, ("", last)] if hasattr(step, "feature_names_in_")), None)
    names = None if named is None else [str(name) for name in named.feature_names_in_]
    if steps and kind_of(steps[0][1]) in _VECTORIZERS:
        return _text(steps, weights)
    if kind == "CategoricalNB" or (kind == "BernoulliNB" and last.binarize is not None):
        if steps:
            raise UnsupportedModelError(
                f"{kind} after other steps is not understood: it takes categories, which no step gives it"
            )
        return _categories(last, kind, weights, names)
    if all(kind_of(step) in SCALERS for _, step in steps):
        scaling = None
        for name, step in steps:
            scaling = _then(scaling, _scaler(step, f"step {name!r} of the pipeline"))
        return _model(weights, names, scaling=None if scaling is None else Scaling(*scaling))
    return _folded(steps, weights, names)


def fingerprint(estimator: Any) -> Any:
    """All that was fitted, as a value to compare; None for what is read as quickly as compared."""
    steps, _ = _unwrapped(estimator)
    return None if all(kind_of(step) in SCALERS for _, step in steps) else _mark(estimator)


def _mark(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.shape, tuple(value.ravel().tolist()) if value.dtype == object else hash(value.tobytes()))
    if isinstance(value, (list, tuple)):
        return tuple(_mark(v) for v in value)
    if isinstance(value, dict):
        return tuple((str(k), _mark(v)) for k, v in value.items())
    if hasattr(value, "get_params"):
        return (kind_of(value), _mark(vars(value)))
    return value if isinstance(value, (str, int, float, bool, type(None))) else id(value)


def _unwrapped(estimator: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The steps before the classifier, without those that do nothing, and the classifier."""
    steps: list[tuple[str, Any]] = []
    while kind_of(estimator) == "Pipeline":
        *before, (_, estimator) = estimator.steps
        steps += [(name, step) for name, step in before if not (step is None or isinstance(step, str))]
    return steps, estimator


def _model(weights: Weights, names: Any, **more: Any) -> Model:
    if len(weights.coef) == 1:
        w, w0 = weights.coef[0], float(weights.intercept[0])
        return Model.binary(w, w0, weights.classes, names, hard=weights.hard, **more)
    return Model(weights.coef, weights.intercept, weights.classes, names, hard=weights.hard, **more)


def _folded(steps: list[tuple[str, Any]], weights: Weights, names: list[str] | None) -> Model:
    """A model over the coordinates that the user's columns become."""
    first = steps[0][1]
    if not hasattr(first, "n_features_in_"):
        raise UnsupportedModelError(f"step {steps[0][0]!r} of the pipeline is not fitted; call fit first")
    n = int(first.n_features_in_)
    columns = Columns(names or [f"x{i}" for i in range(n)], names is not None)
    features = Features(columns, list(range(n)), [None] * n, [{} for _ in range(n)], [0.0] * n, [0.0] * n)
    for name, step in steps:
        features = fold(step, features, f"step {name!r} of the pipeline")
    features = features.numbers("the classifier")
    W, offset, rough = features.affine()
    encoding = columns.encoding()
    if weights.coef.shape[1] != W.shape[0]:
        raise UnsupportedModelError(f"the steps give {W.shape[0]} features, the classifier takes {weights.coef.shape[1]}")
    slopes = weights.coef @ W  # per unit of the coordinates
    unit, shift = _units(features, W, offset, encoding)
    A, b = slopes * unit, weights.intercept + weights.coef @ offset + slopes @ shift
    # Rounding on the way, as if it all were in the coordinate that counts most.
    sizes = np.abs(A).max(axis=0)
    place = int(sizes.argmax())
    extra = float((np.abs(weights.coef) @ (rough + np.abs(offset))).max())
    rounds = np.abs(shift)
    if sizes[place] > 0:
        rounds[place] += extra * unit[place] / sizes[place]
    return _model(
        Weights(A, b, weights.classes, weights.hard), encoding.labels, scaling=Scaling(shift, unit, rounds), encoding=encoding
    )


def _units(features: Features, W: Any, offset: Floats, encoding: Encoding) -> tuple[Floats, Floats]:
    """A unit of each coordinate, and its zero, as the classifier sees them; before features are mixed, where they are."""
    size = W.shape[1]
    norms = np.sqrt(np.asarray((W * W).sum(axis=0))).ravel()
    with np.errstate(divide="ignore"):
        unit = np.where(norms > 0, 1 / norms, np.nan)
    for i, value in features.unit.items():
        unit[i] = value
    for group in encoding.groups:  # a category that was dropped counts as much as its siblings
        unit[group] = np.where(np.isnan(unit[group]), np.nanmedian(np.append(unit[group], 1.0)), unit[group])
    unit = np.where(np.isnan(unit), 1.0, unit)
    shift = np.zeros(size)
    if not features.unit:
        csc = W.tocsc()
        for column in encoding.columns:
            i = column.first
            rows = csc.indices[csc.indptr[i] : csc.indptr[i + 1]]
            if column.kind != "category" and len(rows) == 1:
                shift[i] = -offset[rows[0]] / csc.data[csc.indptr[i]]
    return unit, shift


def _categories(last: Any, kind: str, weights: Weights, names: list[str] | None) -> Model:
    """Naive Bayes over categories: each column is one, and its values' log-probabilities are the weights."""
    n = int(last.n_features_in_)
    names = names or [f"x{i}" for i in range(n)]
    columns, blocks, first = [], [], 0
    for i in range(n):
        if kind == "CategoricalNB":
            block = np.asarray(last.feature_log_prob_[i])
        else:
            present = np.asarray(last.feature_log_prob_)[:, i]
            block = np.stack([np.log1p(-np.exp(present)), present], axis=1)
        levels = tuple(range(block.shape[1]))
        columns.append(Column(i, names[i], "category", first, levels))
        blocks.append(block)
        first += len(levels)
    encoding = Encoding(tuple(names), tuple(columns), False)
    prior = np.asarray(last.class_log_prior_)
    return Model(np.concatenate(blocks, axis=1), prior, weights.classes, encoding.labels, encoding=encoding)


def _text(steps: list[tuple[str, Any]], weights: Weights) -> Model:
    """Documents: the features are words, with the weights that the vectorizer gives them, which are not negative."""
    (name, vectorizer), rest = steps[0], steps[1:]
    if not hasattr(vectorizer, "vocabulary_"):
        raise UnsupportedModelError(f"step {name!r} of the pipeline ({kind_of(vectorizer)}) is not fitted; call fit first")
    words = [str(word) for word in vectorizer.get_feature_names_out()]
    coef, intercept = weights.coef, weights.intercept
    transforms = [vectorizer.transform]
    for other, step in rest:
        kind = kind_of(step)
        if kind == "TfidfTransformer":  # not affine, so it belongs to how documents are read: words keep their weights after it
            transforms.append(step.transform)
            continue
        n = coef.shape[1] if not hasattr(step, "n_features_in_") else int(step.n_features_in_)
        columns = Columns(words, True)
        features = Features(columns, list(range(n)), [None] * n, [{} for _ in range(n)], [0.0] * n, [0.0] * n)
        W, offset, _ = fold(step, features, f"step {other!r} of the pipeline").numbers("the classifier").affine()
        coef, intercept = coef @ W, intercept + coef @ offset
    encoding = Documents(tuple(words), tuple(transforms))
    return _model(Weights(coef, intercept, weights.classes, weights.hard), words, encoding=encoding)


def _linear(estimator: Any) -> Weights:
    """``coef_`` and ``intercept_``, with a softmax over rows, or a logistic function of one."""
    coef = _dense(estimator.coef_)
    coef = coef[None] if coef.ndim == 1 else coef
    return Weights(coef, np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), len(coef)), estimator.classes_)


def _logistic(estimator: Any) -> Weights:
    weights = _linear(estimator)
    kind, K = kind_of(estimator), len(weights.classes)
    multi_class = getattr(estimator, "multi_class", "auto")  # before scikit-learn 1.8
    if len(weights.coef) == 1 and multi_class == "multinomial":
        raise UnsupportedModelError(
            f'{kind} was fitted with multi_class="multinomial" on two classes, which scikit-learn '
            "evaluates at twice the logit; fit it with the default"
        )
    if len(weights.coef) > 1 and (multi_class == "ovr" or getattr(estimator, "solver", "") == "liblinear"):
        raise UnsupportedModelError(
            f"{kind} was fitted one-vs-rest on {K} classes: its normalised probabilities are "
            "not a softmax. Fit it with a multinomial solver such as lbfgs"
        )
    return weights


def _sgd(estimator: Any) -> Weights:
    weights = _linear(estimator)
    if estimator.loss != "log_loss":
        return _hard(estimator)
    if len(weights.coef) > 1:
        raise UnsupportedModelError(
            f"SGDClassifier was fitted one-vs-rest on {len(weights.classes)} classes: its probabilities are not a softmax. "
            "Use LogisticRegression, or margin= with a hinge loss"
        )
    return weights


def _hard(estimator: Any) -> Weights:
    return _linear(estimator)._replace(hard=True)


def _bayes(estimator: Any) -> Weights:
    """Multinomial naive Bayes is linear in the counts."""
    return Weights(np.asarray(estimator.feature_log_prob_), np.asarray(estimator.class_log_prior_), estimator.classes_)


def _bernoulli(estimator: Any) -> Weights:
    """Σ x ln p + (1 − x) ln(1 − p), affine in x."""
    present = np.asarray(estimator.feature_log_prob_)
    absent = np.log1p(-np.exp(present))
    return Weights(present - absent, np.asarray(estimator.class_log_prior_) + absent.sum(axis=1), estimator.classes_)


def _categorical(estimator: Any) -> Weights:
    return Weights(np.zeros((len(estimator.classes_), 1)), np.asarray(estimator.class_log_prior_), estimator.classes_)


def _network(estimator: Any) -> Weights:
    if len(estimator.coefs_) != 1:
        raise UnsupportedModelError(
            f"MLPClassifier has {len(estimator.coefs_) - 1} hidden layers: it is not linear. Its last layer is: "
            "Model(mlp.coefs_[-1].T, mlp.intercepts_[-1], mlp.classes_)"
        )
    if estimator.out_activation_ not in ("softmax", "logistic") or (
        estimator.out_activation_ == "logistic" and len(estimator.classes_) > 2
    ):
        raise UnsupportedModelError("MLPClassifier with several labels at once is not a softmax")
    return Weights(np.asarray(estimator.coefs_[0]).T, np.asarray(estimator.intercepts_[0]), estimator.classes_)


def _one_vs_rest(estimator: Any) -> Weights:
    if len(estimator.estimators_) != 1 or len(estimator.classes_) != 2:
        raise UnsupportedModelError(
            f"{kind_of(estimator)} on {len(estimator.classes_)} classes: its normalised probabilities are not a softmax. "
            "Use a multinomial LogisticRegression"
        )
    inner = estimator.estimators_[0]
    kind = kind_of(inner)
    if kind not in _CLASSIFIERS or kind in ("CategoricalNB", "BernoulliNB", "MultinomialNB"):
        raise UnsupportedModelError(f"{kind_of(estimator)} of {kind} is not understood; give it a LogisticRegression")
    return _CLASSIFIERS[kind](inner)._replace(classes=estimator.classes_)


_CLASSIFIERS: dict[str, Callable[[Any], Weights]] = {
    "LogisticRegression": _logistic,
    "LogisticRegressionCV": _logistic,
    "SGDClassifier": _sgd,
    "LinearDiscriminantAnalysis": _linear,
    "MultinomialNB": _bayes,
    "BernoulliNB": _bernoulli,
    "CategoricalNB": _categorical,
    "MLPClassifier": _network,
    "OneVsRestClassifier": _one_vs_rest,
    "LinearSVC": _hard,
    "Perceptron": _hard,
    "PassiveAggressiveClassifier": _hard,
    "RidgeClassifier": _hard,
    "RidgeClassifierCV": _hard,
}

_VECTORIZERS = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")

_EXPECTED = (
    "Expected a Model, a fitted scikit-learn LogisticRegression, LogisticRegressionCV or another linear classifier "
    f"({', '.join(k for k in _CLASSIFIERS if 'Logistic' not in k)}), or a Pipeline that ends in one; "
    "for any other linear softmax give its weights: Model(A, b)"
)

_REASONS = {
    "CalibratedClassifierCV": "bends the scores of what it calibrates, so that its probabilities are not a softmax; "
    "give the classifier inside, or a LogisticRegression, which needs no calibration",
    "GaussianNB": "is quadratic in the features; use LinearDiscriminantAnalysis",
    "QuadraticDiscriminantAnalysis": "is quadratic in the features; use LinearDiscriminantAnalysis",
    "ComplementNB": "is not a softmax of a linear function; use MultinomialNB",
    "SVC": "is a kernel machine; use LinearSVC",
    "NuSVC": "is a kernel machine; use LinearSVC",
    "KNeighborsClassifier": "is not linear",
    "RandomForestClassifier": "is made of trees, not linear",
    "DecisionTreeClassifier": "is a tree, not linear",
    "GradientBoostingClassifier": "is made of trees, not linear",
    "HistGradientBoostingClassifier": "is made of trees, not linear",
    "ExtraTreesClassifier": "is made of trees, not linear",
    "VotingClassifier": "averages probabilities, which is not a softmax; give one of its classifiers",
    "OneVsOneClassifier": "counts votes, and has no probabilities",
}


def _scaler(step: Any, where: str) -> Affine:
    """(shift, scale) of a fitted scaler."""
    if not hasattr(step, "n_features_in_"):
        raise UnsupportedModelError(f"{where} ({type(step).__name__}) is not fitted; call fit first")
    if getattr(step, "clip", False):
        raise UnsupportedModelError(f"{where} ({type(step).__name__}) clips its output, which is not affine; use clip=False")
    shift, scale = SCALERS[kind_of(step)](step)
    D = step.n_features_in_
    shift = np.zeros(D) if shift is None else np.asarray(shift, dtype=np.float64)
    scale = np.ones(D) if scale is None else np.asarray(scale, dtype=np.float64)
    return shift, scale, np.abs(shift)


def _then(first: Affine | None, second: Affine) -> Affine:
    """Two scalers, one after the other."""
    if first is None:
        return second
    (shift, scale, rough), (shift2, scale2, rough2) = first, second
    return shift + scale * shift2, scale * scale2, rough + np.abs(scale) * rough2


def _dense(coef: Any) -> Floats:
    return np.asarray(coef.toarray() if hasattr(coef, "toarray") else coef)
