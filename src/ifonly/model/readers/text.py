"""Text: a vectorizer of scikit-learn's, perhaps more steps, and a classifier over the words.

What makes weights of a document (counting, tf-idf, normalisation) is not affine, so it belongs to how documents are *read*: the
features are the words with the weights that the last such step gives them, and answers are weights, not documents. What comes
after (selections, truncated SVD, scalers) is folded into the classifier.
"""

from typing import Any

import numpy as np

from ifonly.model import Model, Scaling
from ifonly.model.columns import Documents
from ifonly.model.errors import UnsupportedModelError
from ifonly.model.readers.features import Folded, Traced, TracedFeatures, kind_of, rounding
from ifonly.model.readers.steps import cut, fold, refuse
from ifonly.model.readers.weights import LinearWeights

__all__ = ["read"]

REWEIGHTS = ("TfidfTransformer", "Normalizer", "Binarizer")  # not affine, but each word keeps its place


def read(steps: list[tuple[str, Any]], weights: LinearWeights, kind: str) -> Model:
    """A pipeline that begins with a vectorizer."""
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
    while rest and kind_of(rest[0][1]) in REWEIGHTS:
        transforms.append(rest.pop(0)[1].transform)
    features = _affine(words, rest, weights.cut)
    folded = Folded.of(weights, features)
    place = np.array([column.place for column in features.columns.owner], dtype=np.intp)  # of each coordinate, its word
    A, sizes, ones = np.zeros((len(weights.coef), len(words))), np.zeros(len(words)), np.ones(len(words))
    A[:, place], sizes[place] = folded.coef, folded.sizes
    encoding = Documents(tuple(words), tuple(transforms), cut=weights.cut, sizes=tuple(sizes.tolist()))
    scaling = Scaling(np.zeros(len(words)), ones, rounding(folded.extra, sizes, ones))
    read = weights._replace(coef=A, intercept=folded.intercept - folded.coef @ folded.zero)
    return read.model(words, scaling=scaling, encoding=encoding)


def _affine(words: list[str], steps: list[tuple[str, Any]], threshold: float | None) -> TracedFeatures:
    """What the steps after the vectorizer, which may be no more than affine, make of the words' weights."""
    features = TracedFeatures.untouched(words)
    for name, step in steps:
        if kind_of(step) in REWEIGHTS:
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
