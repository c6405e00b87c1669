"""Documents: the weights of words, and which of them to take away or add."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from ifonly import Actions, InputError, Status, UnsupportedModelError, as_model, invert

SAME = 1e-12
GOOD = ["lovely", "bright", "fine", "warm", "kind"]
BAD = ["awful", "dull", "broken", "cold", "rude"]
REST = ["the", "room", "was", "and", "staff", "view", "bed", "very", "with", "in", "table", "morning"]


def reviews(n=300, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    topics = [GOOD, BAD, ["red", "blue", "green"], ["one", "two", "three"]][:n_classes]
    y = rng.integers(n_classes, size=n)
    documents = []
    for k in y:
        own = rng.choice(topics[k], size=3).tolist() + rng.choice([word for topic in topics for word in topic], size=2).tolist()
        words = own + rng.choice(REST, size=9).tolist()
        rng.shuffle(words)
        documents.append(" ".join(words))
    return documents, np.array(["good", "bad", "colour", "number"])[y]


DOCUMENTS, Y = reviews()
STEPS = {
    "tf-idf": [TfidfVectorizer()],
    "counts": [CountVectorizer()],
    "counts, then tf-idf": [CountVectorizer(ngram_range=(1, 2), min_df=2), TfidfTransformer(sublinear_tf=True)],
    "the best words": [TfidfVectorizer(), SelectKBest(k=12)],
    "a few directions": [TfidfVectorizer(), TruncatedSVD(8, random_state=0)],
    "scaled": [CountVectorizer(), StandardScaler(with_mean=False)],
}
CLASSIFIERS = {"LogisticRegression": LogisticRegression(C=10.0, max_iter=1000), "MultinomialNB": MultinomialNB()}


def weighing(estimator):
    """The steps after what weighs the words: what takes an answer."""
    n = 2 if len(estimator) > 2 and isinstance(estimator[1], TfidfTransformer) else 1
    return estimator[n:]


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("K", [2, 4])
def test_documents_are_read_exactly_and_answered_exactly(steps, classifier, K):
    if steps == "a few directions" and classifier == "MultinomialNB":
        return  # takes no negative numbers
    documents, y = reviews(n_classes=K)
    estimator = make_pipeline(*STEPS[steps], CLASSIFIERS[classifier]).fit(documents, y)
    model = as_model(estimator)
    np.testing.assert_allclose(model.predict_proba(documents), estimator.predict_proba(documents), rtol=0, atol=SAME)
    assert model.feature_names == tuple(estimator[0].get_feature_names_out())
    cfs = invert(estimator, documents[:40], "bad", prob=0.6)
    p = weighing(estimator).predict_proba(cfs.x)[:, list(model.classes).index("bad")]
    assert (cfs.status == Status.EXACT).all()
    assert (p >= 0.6).all()
    assert (weighing(estimator).predict(cfs.x) == "bad").all()
    assert (cfs.x >= 0).all()
    cfs[3].verify()


@pytest.mark.parametrize("K", [2, 4])
def test_only_removals_and_few_of_them(K):
    documents, y = reviews(n_classes=K)
    estimator = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10.0)).fit(documents, y)
    document = " ".join(["the staff was lovely and the room was dull and cold", *REST])
    source = estimator[0].transform([document]).toarray()[0]
    now = estimator.predict([document])[0]
    target = "good" if now == "bad" else "bad"
    cf = invert(estimator, document, target, actions=Actions(decrease=True))
    assert ((cf.x <= source) & (cf.x >= 0)).all()
    assert estimator[-1].predict(cf.x[None])[0] == target
    assert all(word in document and after < before for word, before, after in cf.changes())
    few = invert(estimator, document, target, actions=Actions(decrease=True), max_changes=3)
    assert few.n_changes <= 3
    assert few.status in (Status.EXACT, Status.UNREACHABLE)
    assert few.cost >= cf.cost - 1e-12
    anything = invert(estimator, document, target, max_changes=2)
    assert anything.n_changes <= 2
    assert estimator[-1].predict(anything.x[None])[0] == target


def test_few_changes_of_many_words_are_the_best_there_are():
    """Three classes, 300 words, two changes: against all pairs of words."""
    rng = np.random.default_rng(3)
    words = [f"w{i}" for i in range(300)]
    tilt = rng.choice(300, size=(3, 40), replace=True)
    y = rng.integers(3, size=500)
    documents = [" ".join([words[i] for i in [*rng.choice(tilt[k], size=6), *rng.integers(300, size=12)]]) for k in y]
    estimator = make_pipeline(TfidfVectorizer(token_pattern=r"\w+"), LogisticRegression(C=20.0, max_iter=500)).fit(documents, y)
    model = as_model(estimator)
    document = documents[0]
    k = int((model.logits([document])[0]).argmin())
    cf = invert(estimator, document, k, prob=0.6, max_changes=2)
    assert (cf.status, cf.n_changes) == (Status.EXACT, 2)
    cf.verify()
    # The cost of the best answer over a pair is at least that of one linear rule; only pairs below ours need a look.
    r = cf.proba / (1 - cf.proba[k])
    rivals = [j for j in range(3) if j != k]
    weights, r = model.A[rivals] - model.A[k], r[rivals]
    z = model.logits([document])[0]
    need = float(r @ (z[rivals] - z[k]) - r @ np.log(r) - np.log(0.4 / 0.6))
    pull = -(r @ weights)
    pairs = [(i, j) for i in range(len(pull)) for j in range(i)]
    best = np.inf
    for i, j in pairs:
        if need**2 / (2 * max(pull[i] ** 2 + pull[j] ** 2, 1e-300)) > cf.cost:
            continue
        frozen = [name for d, name in enumerate(model.feature_names) if d not in (i, j)]
        other = invert(estimator, document, k, prob=0.6, actions=Actions(frozen=frozen))
        best = min(best, other.cost if other.status is Status.EXACT else np.inf)
    assert cf.cost == pytest.approx(best, rel=1e-9)


FREE = [{}, {"max_changes": 3, "node_limit": 100}]  # of 10¹² sets of three words
FEWER = [{"actions": Actions(decrease=True)}, {"max_changes": 5, "node_limit": 100, "actions": Actions(decrease=True)}]


# To show that fewer words are not enough takes seconds with 20 000 words and four classes.
@pytest.mark.seconds
@pytest.mark.parametrize(("K", "V", "questions"), [(2, 20_000, FREE + FEWER), (4, 20_000, FREE), (4, 4_000, FEWER)])
def test_a_large_vocabulary(K, V, questions):
    rng = np.random.default_rng(K)
    words = np.array([f"w{i}" for i in range(V)])
    frequency = 1 / np.arange(1, V + 1) ** 0.9
    topics = frequency * np.exp(0.7 * rng.normal(size=(K, V)))
    topics /= topics.sum(axis=1, keepdims=True)
    y = rng.integers(K, size=300)
    documents = [" ".join(rng.choice(words, size=100, p=topics[k])) for k in y]
    vectorizer = TfidfVectorizer(vocabulary=words, token_pattern=r"\w+")
    estimator = make_pipeline(vectorizer, LogisticRegression(C=10.0, max_iter=500)).fit(documents, y)
    model = as_model(estimator)
    assert model.n_features == V
    now = int(estimator.predict(documents[:1])[0])
    for options in questions:
        cf = invert(estimator, documents[0], (now + 1) % K, prob=0.6, **options)
        assert cf.status in (Status.EXACT, Status.UNREACHABLE)
        assert cf.n_changes <= options.get("max_changes", V)
        reached = estimator[-1].predict_proba(cf.x[None])[0, (now + 1) % K] >= 0.6
        assert reached == (cf.status is Status.EXACT)


def test_whether_a_word_is_there_at_all():
    estimator = make_pipeline(CountVectorizer(), BernoulliNB()).fit(DOCUMENTS, Y)
    model = as_model(estimator)
    np.testing.assert_allclose(model.predict_proba(DOCUMENTS), estimator.predict_proba(DOCUMENTS), rtol=0, atol=SAME)
    cf = invert(estimator, DOCUMENTS[0], prob=0.7)
    assert set(cf.x) <= {0.0, 1.0}
    assert estimator[-1].predict(cf.x[None])[0] != estimator.predict(DOCUMENTS[:1])[0]


def test_weights_are_taken_as_they_are():
    estimator = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(DOCUMENTS, Y)
    weights = estimator[0].transform(DOCUMENTS[:2])
    np.testing.assert_array_equal(invert(estimator, weights, "bad").x, invert(estimator, DOCUMENTS[:2], "bad").x)
    np.testing.assert_array_equal(invert(estimator, weights.toarray()[0], "bad").x, invert(estimator, DOCUMENTS[0], "bad").x)


def test_the_words_that_may_change_are_named_by_themselves():
    estimator = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(DOCUMENTS, Y)
    frozen = Actions(frozen=GOOD)
    cf = invert(estimator, "lovely bright room", "bad", actions=frozen)
    assert not {word for word, _, _ in cf.changes()} & set(GOOD)
    with pytest.raises(InputError, match=r"unknown feature 'lovly'; did you mean \['lovely'"):
        invert(estimator, "lovely bright room", "bad", actions=Actions(frozen=["lovly"]))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            [HashingVectorizer(n_features=64), LogisticRegression()],
            "gives hashes, not words.*use CountVectorizer or TfidfVectorizer",
        ),
        (
            [TfidfVectorizer(), TruncatedSVD(3), PowerTransformer(), LogisticRegression()],
            r"step 'powertransformer' of the pipeline \(PowerTransformer\) bends its column 0, which is a mixture",
        ),
        (
            [CountVectorizer(), SelectKBest(k=5), TfidfTransformer(), LogisticRegression()],
            "step 'tfidftransformer'.*reweights words after other steps; put it before them",
        ),
    ],
    ids=["hashes", "bent", "out of order"],
)
def test_what_is_not_affine_in_the_words_is_refused(steps, message):
    with pytest.raises(UnsupportedModelError, match=message):
        as_model(make_pipeline(*steps).fit(DOCUMENTS, Y))
