"""scikit-learn: classifiers that are a linear softmax or a logistic regression, alone or at the end of a pipeline.

`_CLASSIFIERS` says of each where its weights are. A pipeline of scalers becomes a `Scaling`; any other is folded step by
step (`fold`) and leaves an `Encoding`. What has scores but no probabilities (``LinearSVC`` and the like) becomes a
*hard* model, for `invert(..., margin=)`.

Of a pipeline that begins with a vectorizer, what makes weights of a document (counting, tf-idf, normalisation) is not affine,
so it belongs to how documents are *read*: the features are the words with the weights that the last such step gives them, and
answers are weights, not documents. What comes after (selections, truncated SVD, scalers) is folded into the classifier.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ifonly.model import LinearWeights, Model, Scaling
from ifonly.model.columns import Column, Documents, Encoding
from ifonly.model.errors import UnsupportedModelError
from ifonly.model.numerics import Floats, Indices
from ifonly.model.readers.features import Folded, Traced, TracedFeatures, dense, kind_of, rounding
from ifonly.model.readers.steps import SCALERS, cut, fold, refuse, shift_and_scale

__all__ = ["fingerprint", "read"]


def read(estimator: Any) -> Model:
    """A classifier or a pipeline of scikit-learn's."""
    steps, last = _unwrapped(estimator)
    kind = kind_of(last)
    if kind not in _CLASSIFIERS:
        own = "is not understood: it is not scikit-learn's own, and may do more than its weights say"
        raise UnsupportedModelError(f"{kind} {_REASONS.get(kind, own if '.' in kind else 'is not understood')}. {_EXPECTED}")
    if not hasattr(last, "classes_"):
        raise UnsupportedModelError(f"{kind} is not fitted; call fit first")
    weights = _CLASSIFIERS[kind](last)
    if steps and kind_of(steps[0][1]) in _VECTORIZERS:
        return _of_documents(steps, weights, kind)
    given = next((step.feature_names_in_ for _, step in [*steps, ("", last)] if hasattr(step, "feature_names_in_")), None)
    names = None if given is None else [str(name) for name in given]
    if kind == "CategoricalNB" or weights.cut is not None or not _only_scalers(steps):
        return _folded(steps, last, weights, names)
    return weights.model(names, scaling=_scaling(steps))


def _only_scalers(steps: list[tuple[str, Any]]) -> bool:
    return all(kind_of(step) in SCALERS for _, step in steps)


def fingerprint(estimator: Any) -> Any:
    """All that was fitted, as a value to compare; None for what is read as quickly as compared."""
    steps, _ = _unwrapped(estimator)
    return None if _only_scalers(steps) else _mark(estimator)


LONG = 1000  # a dict with more items than this (the vocabulary of a vectorizer) is not looked into: it is replaced, not changed


def _mark(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.shape, tuple(value.ravel().tolist()) if value.dtype == object else hash(value.tobytes()))
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(map(_mark, value))
    if isinstance(value, dict):
        return (id(value), len(value)) if len(value) > LONG else tuple((str(k), _mark(v)) for k, v in value.items())
    if hasattr(value, "get_params"):
        return (kind_of(value), _mark(vars(value)))
    return _mark(value.data) if hasattr(value, "tocsr") else id(value)


def _unwrapped(estimator: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The steps before the classifier, without those that do nothing, and the classifier."""
    steps: list[tuple[str, Any]] = []
    while True:
        kind = kind_of(estimator)
        if kind == "Pipeline":
            *before, (_, estimator) = estimator.steps
            steps += [(name, step) for name, step in before if not (step is None or isinstance(step, str))]
        elif kind in _SEARCHES:
            if not hasattr(estimator, "best_estimator_"):
                raise UnsupportedModelError(f"{kind} is not fitted, or with refit=False; call fit first, with refit=True")
            estimator = estimator.best_estimator_
        elif kind == "FrozenEstimator":
            estimator = estimator.estimator
        else:
            return steps, estimator


_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")


def _folded(steps: list[tuple[str, Any]], last: Any, weights: LinearWeights, names: list[str] | None) -> Model:
    """A model over the coordinates that the user's columns become."""
    first = steps[0][1] if steps else last
    if not hasattr(first, "n_features_in_"):
        if steps and "." in kind_of(first):  # of the user's own, which need not have it: it is refused for what it is
            fold(first, TracedFeatures.untouched([]), f"step {steps[0][0]!r} of the pipeline")
        raise UnsupportedModelError(f"step {steps[0][0]!r} of the pipeline is not fitted; call fit first")
    features = TracedFeatures.untouched(names or [f"x{i}" for i in range(int(first.n_features_in_))])
    for name, step in steps:
        features = fold(step, features, f"step {name!r} of the pipeline")
    if kind_of(last) == "CategoricalNB":
        features, weights = _looked_up(last, features, weights)
    elif weights.cut is not None:
        features = cut(features, weights.cut, "the classifier (BernoulliNB)")
    folded = Folded.of(weights, features)
    encoding, order = features.columns.encoding(np.asarray(abs(folded.W).sum(axis=0)).ravel() > 0)
    if not encoding.columns:
        raise UnsupportedModelError("no column reaches the classifier: all are dropped, or constant after the steps")
    unit = _units(features.unit, order, folded.W[:, order], encoding)
    shift, sizes = folded.zero[order], folded.sizes[order] * unit
    encoding = replace(encoding, sizes=tuple(sizes.tolist()))
    scaling = Scaling(shift, unit, np.abs(shift) + rounding(folded.extra, sizes, unit))
    read = weights._replace(coef=folded.coef[:, order] * unit, intercept=folded.intercept)
    return read.model(encoding.labels, scaling=scaling, encoding=encoding)


def _units(before: dict[int, float], order: Indices, W: Any, encoding: Encoding) -> Floats:
    """A unit of each coordinate, as the classifier sees it; ``before`` features are mixed, where they are."""
    norms = np.sqrt(np.asarray((W * W).sum(axis=0))).ravel()
    with np.errstate(divide="ignore"):
        unit = np.where(norms > 0, 1 / norms, np.nan)
    mixed = np.array([before.get(int(i), np.nan) for i in order])
    unit = np.where(np.isnan(mixed), unit, mixed)
    columns = W.tocsc()
    for at in encoding.groups:
        block = columns[:, at].toarray()
        if np.isnan(mixed[at]).all() and ((block != 0).sum(axis=1) > 1).any():
            # Codes, not one-hot: every switch costs as much as the average one.
            pairs = np.square(block[:, :, None] - block[:, None, :]).sum(axis=0)
            unit[at] = 1 / np.sqrt(max(0.5 * pairs.sum() / (len(at) * (len(at) - 1)), np.finfo(float).tiny))
        known = unit[at][~np.isnan(unit[at])]  # a category that was dropped counts as much as its siblings
        unit[at] = np.where(np.isnan(unit[at]), np.median(known) if known.size else 1.0, unit[at])
    return np.where(np.isnan(unit), 1.0, unit)


def _looked_up(last: Any, features: TracedFeatures, weights: LinearWeights) -> tuple[TracedFeatures, LinearWeights]:
    """Categorical naive Bayes: each feature is a category, whose values' log-probabilities are the weights."""
    where = "the classifier (CategoricalNB)"
    blocks, found = [np.asarray(block, dtype=np.float64) for block in last.feature_log_prob_], []
    for j, (part, block) in enumerate(zip(features.parts, blocks, strict=True)):
        if isinstance(part, Column):
            given, levels = part, tuple(range(block.shape[1]))
        else:
            given = features.alone(part)
            if given is None or given.kind != "ordinal" or part.row != {given.first: 1.0} or part.offset != 0:
                raise UnsupportedModelError(
                    f"{where} takes categories as whole numbers, and its column {j} is not one of them; "
                    "put an OrdinalEncoder before it, or nothing"
                )
            levels = given.levels[: block.shape[1]]
        column = features.columns.make(given, "category", where, levels=levels)
        found += [Traced({i: 1.0}) for i in column.coordinates.tolist()]
        blocks[j] = block[:, : len(levels)]
    return features.now(found), weights._replace(coef=np.concatenate(blocks, axis=1))


_VECTORIZERS = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")
_REWEIGHTS = ("TfidfTransformer", "Normalizer", "Binarizer")  # not affine, but each word keeps its place


def _of_documents(steps: list[tuple[str, Any]], weights: LinearWeights, kind: str) -> Model:
    """A model over the weights of words; ``kind`` is the classifier's."""
    (name, vectorizer), rest = steps[0], list(steps[1:])
    where = f"step {name!r} of the pipeline ({kind_of(vectorizer)})"
    if kind_of(vectorizer) == "HashingVectorizer":
        refuse(where, "gives hashes, not words, and several words the same; use CountVectorizer or TfidfVectorizer")
    if not hasattr(vectorizer, "vocabulary_"):
        refuse(where, "is not fitted; call fit first")
    if kind == "CategoricalNB":
        raise UnsupportedModelError("CategoricalNB after a vectorizer is not understood: words have weights, not categories")
    words = [str(word) for word in vectorizer.get_feature_names_out()]
    transforms = [vectorizer.transform]
    while rest and kind_of(rest[0][1]) in _REWEIGHTS:
        transforms.append(rest.pop(0)[1].transform)
    features = _affine_of_words(words, rest, weights.cut)
    folded = Folded.of(weights, features)
    place = np.array([column.place for column in features.columns.owner], dtype=np.intp)  # of each coordinate, its word
    A, sizes, ones = np.zeros((len(weights.coef), len(words))), np.zeros(len(words)), np.ones(len(words))
    A[:, place], sizes[place] = folded.coef, folded.sizes
    encoding = Documents(tuple(words), sizes=tuple(sizes.tolist()), transforms=tuple(transforms), cut=weights.cut)
    scaling = Scaling(np.zeros(len(words)), ones, rounding(folded.extra, sizes, ones))
    read = weights._replace(coef=A, intercept=folded.intercept - folded.coef @ folded.zero)
    return read.model(words, scaling=scaling, encoding=encoding)


def _affine_of_words(words: list[str], steps: list[tuple[str, Any]], threshold: float | None) -> TracedFeatures:
    """What the steps after the vectorizer, which may be no more than affine, make of the words' weights."""
    features = TracedFeatures.untouched(words)
    for name, step in steps:
        if kind_of(step) in _REWEIGHTS:
            refuse(f"step {name!r} of the pipeline ({kind_of(step)})", "reweights words after other steps; put it before them")
        features = fold(step, features, f"step {name!r} of the pipeline")
    if threshold is not None and any(isinstance(part, Traced) for part in features.parts):
        cut(features, threshold, "the classifier (BernoulliNB)")
    features = features.now(features.numbers("the classifier"))
    for column in features.columns.read.values():
        if column.kind != "number" or column.maps or column.fill is not None:
            raise UnsupportedModelError(
                f"the steps after the vectorizer do more than an affine map of the word {column.name!r}; leave them out"
            )
    return features


def _linear(estimator: Any) -> LinearWeights:
    """``coef_`` and ``intercept_``, with a softmax over rows, or a logistic function of one."""
    coef = np.atleast_2d(dense(estimator.coef_))
    intercept = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), len(coef))
    return LinearWeights(coef, intercept, estimator.classes_)


def _logistic(estimator: Any) -> LinearWeights:
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


def _sgd(estimator: Any) -> LinearWeights:
    weights = _linear(estimator)
    if estimator.loss != "log_loss":
        return weights._replace(hard=True)
    if len(weights.coef) > 1:
        raise UnsupportedModelError(
            f"SGDClassifier was fitted one-vs-rest on {len(weights.classes)} classes: its probabilities are not a softmax. "
            "Use LogisticRegression, or margin= with a hinge loss"
        )
    return weights


def _bernoulli(estimator: Any) -> LinearWeights:
    """Σ x ln p + (1 − x) ln(1 − p), affine in x."""
    present = np.asarray(estimator.feature_log_prob_)
    absent = np.log(1 - np.exp(present))  # as scikit-learn has it: log1p would be more exact, and differ
    weights = _bayes(estimator, present - absent, np.asarray(estimator.class_log_prior_) + absent.sum(axis=1))
    return weights if estimator.binarize is None else weights._replace(cut=float(estimator.binarize))


def _bayes(estimator: Any, coef: Any, intercept: Any) -> LinearWeights:
    """Naive Bayes, whose probabilities are exponentials of differences of logarithms."""
    return LinearWeights(np.asarray(coef), np.asarray(intercept), estimator.classes_, log_space=True)


def _network(estimator: Any) -> LinearWeights:
    if len(estimator.coefs_) != 1:
        raise UnsupportedModelError(
            f"MLPClassifier has {len(estimator.coefs_) - 1} hidden layers: it is not linear. Its last layer is: "
            "Model(mlp.coefs_[-1].T, mlp.intercepts_[-1], mlp.classes_)"
        )
    if estimator.out_activation_ not in (("softmax", "logistic") if len(estimator.classes_) <= 2 else ("softmax",)):
        raise UnsupportedModelError("MLPClassifier with several labels at once is not a softmax")
    return LinearWeights(np.asarray(estimator.coefs_[0]).T, np.asarray(estimator.intercepts_[0]), estimator.classes_)


def _one_vs_rest(estimator: Any) -> LinearWeights:
    if len(estimator.estimators_) != 1 or len(estimator.classes_) != 2 or estimator.multilabel_:
        raise UnsupportedModelError(
            f"{kind_of(estimator)} on {len(estimator.classes_)} classes: its normalised probabilities are not a softmax. "
            "Use a multinomial LogisticRegression"
        )
    inner = estimator.estimators_[0]
    kind = kind_of(inner)
    if kind not in _CLASSIFIERS or kind in ("CategoricalNB", "BernoulliNB", "MultinomialNB"):
        raise UnsupportedModelError(f"{kind_of(estimator)} of {kind} is not understood; give it a LogisticRegression")
    return _CLASSIFIERS[kind](inner)._replace(classes=estimator.classes_)


_SCORES = ("LinearSVC", "Perceptron", "PassiveAggressiveClassifier", "RidgeClassifier", "RidgeClassifierCV")
_CLASSIFIERS: dict[str, Callable[[Any], LinearWeights]] = {
    **dict.fromkeys(("LogisticRegression", "LogisticRegressionCV"), _logistic),
    "SGDClassifier": _sgd,
    "LinearDiscriminantAnalysis": _linear,
    # Linear in the counts; of complement naive Bayes without a prior. What a category's weights are is said in `_looked_up`.
    "MultinomialNB": lambda e: _bayes(e, e.feature_log_prob_, e.class_log_prior_),
    "ComplementNB": lambda e: _bayes(e, e.feature_log_prob_, np.zeros(len(e.classes_))),
    "BernoulliNB": _bernoulli,
    "CategoricalNB": lambda e: _bayes(e, np.zeros((len(e.classes_), 1)), e.class_log_prior_),
    "MLPClassifier": _network,
    "OneVsRestClassifier": _one_vs_rest,
    **dict.fromkeys(_SCORES, lambda e: _linear(e)._replace(hard=True)),
}

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
    "SVC": "is a kernel machine; use LinearSVC",
    "NuSVC": "is a kernel machine; use LinearSVC",
    "KNeighborsClassifier": "is not linear",
    "RandomForestClassifier": "is made of trees, not linear",
    "DecisionTreeClassifier": "is a tree, not linear",
    "GradientBoostingClassifier": "is made of trees, not linear",
    "HistGradientBoostingClassifier": "is made of trees, not linear",
    "ExtraTreesClassifier": "is made of trees, not linear",
    "VotingClassifier": "averages probabilities, which is not a softmax; give one of its classifiers",
    "StackingClassifier": "feeds classifiers into another, which is not linear; give one of its classifiers",
    "BaggingClassifier": "averages probabilities, which is not a softmax; give one of its classifiers",
    "AdaBoostClassifier": "averages classifiers, which is not a softmax of a linear function",
    "GaussianProcessClassifier": "is a kernel machine, not linear",
    "MLPRegressor": "is no classifier",
    "OneVsOneClassifier": "counts votes, and has no probabilities",
    "OutputCodeClassifier": "compares codes, and has no probabilities",
    "TunedThresholdClassifierCV": "decides at a threshold of its own; give what is inside, and the threshold as prob",
    "FixedThresholdClassifier": "decides at a threshold of its own; give what is inside, and the threshold as prob",
}


def _scaling(steps: list[tuple[str, Any]]) -> Scaling | None:
    """The scalers of a pipeline, one after the other."""
    scaling = None
    for name, step in steps:
        where = f"step {name!r} of the pipeline ({type(step).__name__})"
        if not hasattr(step, "n_features_in_"):
            raise UnsupportedModelError(f"{where} is not fitted; call fit first")
        if getattr(step, "clip", False):
            raise UnsupportedModelError(f"{where} clips its output, which is not affine; use clip=False")
        shift, scale = shift_and_scale(step, step.n_features_in_)
        scaling = Scaling(shift, scale) if scaling is None else scaling.then(shift, scale)
    return scaling
