"""Pipelines of encoders, imputers and other transformers: read exactly, and answered in the user's own terms."""

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers.tables import adult, german, made
from sklearn import clone
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold, chi2
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, RidgeClassifierCV, SGDClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection
from sklearn.svm import LinearSVC

import ifonly
from ifonly import Actions, Cost, InputError, Status, UnsupportedModelError, as_model, invert
from ifonly.model.readers.steps import refuse

SAME = 1e-12  # between the model's probabilities and the estimator's own
MADE, LABEL = made()
NUMBERS = ["income", "debt", "age", "children", "note"]
WORDS = ["job", "city"]
REAL = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())  # for numbers of which some are missing


def one_hot(**more):
    return OneHotEncoder(**({"handle_unknown": "ignore"} | more))


def logistic():
    return LogisticRegression(solver="newton-cholesky")


def fresh(X, n=100, seed=1):
    """Rows that are not in the table: every column shuffled on its own, numbers moved."""
    rng = np.random.default_rng(seed)
    rows = X.iloc[rng.integers(len(X), size=n)].reset_index(drop=True)
    for name in X:
        rows[name] = X[name].iloc[rng.integers(len(X), size=n)].to_numpy()
        if X[name].dtype == np.float64:
            rows[name] = rows[name] * rng.uniform(0.7, 1.3, size=n)
    return rows


def check(estimator, X, *, n=60, prob=0.7, rows=None, **options):
    """Read exactly, and every answer is what it promises to be, for the estimator itself; the answers."""
    model, rows = as_model(estimator), fresh(X, n) if rows is None else rows
    np.testing.assert_allclose(model.predict_proba(rows), estimator.predict_proba(rows), rtol=0, atol=SAME)
    np.testing.assert_array_equal(model.predict(rows), estimator.predict(rows))
    now = model.logits(rows).argmax(axis=1)
    target = model.classes[(now + 1) % model.n_classes]
    cfs = invert(estimator, rows, target, prob=prob, **options)
    check_answers(estimator, rows, cfs, prob)
    return cfs


def check_answers(estimator, rows, cfs, prob):
    model = as_model(estimator)
    assert not (cfs.status == Status.INVALID).any()
    good = np.flatnonzero(cfs.status != Status.UNREACHABLE)
    assert len(good)
    assert (cfs.status[good] == Status.EXACT).all()
    x, wanted = cfs.x.iloc[good] if hasattr(cfs.x, "iloc") else cfs.x[good], cfs.target[good]
    np.testing.assert_array_equal(estimator.predict(x), wanted)
    p = estimator.predict_proba(x)[np.arange(len(good)), [model.class_index(label) for label in wanted]]
    assert (p >= prob).all()
    if hasattr(x, "columns"):
        assert list(x.columns) == list(rows.columns)
    for i in good[:5]:
        cfs[int(i)].verify()


# ---- every step, on a table with columns of all kinds ----


def columns(numbers=REAL, words=None, flags="passthrough", **more):
    words = one_hot() if words is None else words
    parts = [("numbers", numbers, NUMBERS), ("flags", flags, ["owner"]), ("words", words, [*WORDS, "plan"])]
    return ColumnTransformer(parts, **more)


IMPUTED = SimpleImputer(strategy="median")
PREPARED = {
    "one-hot": columns(),
    "one-hot, drop first": columns(words=OneHotEncoder(drop="first")),
    "one-hot, drop if binary": columns(words=OneHotEncoder(drop="if_binary", sparse_output=False)),
    "one-hot, dropped by name": columns(words=OneHotEncoder(drop=["cook", "Ulm", 2])),
    "one-hot, rare ones together": columns(words=one_hot(min_frequency=40, handle_unknown="infrequent_if_exist")),
    "one-hot, few, drop first": columns(words=one_hot(max_categories=3, handle_unknown="infrequent_if_exist", drop="first")),
    "one-hot of what is missing too": columns(words=OneHotEncoder(handle_unknown="error")),
    "ordinal": columns(words=make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder())),
    "ordinal, unknown and missing": columns(
        words=OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    ),
    "target encoder": columns(words=TargetEncoder(cv=KFold(3))),
    "words imputed": columns(words=make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), one_hot())),
    "minmax": columns(make_pipeline(IMPUTED, MinMaxScaler((-1, 2)))),
    "maxabs, then imputed": columns(make_pipeline(MaxAbsScaler(), SimpleImputer())),
    "robust, imputed by a constant": columns(make_pipeline(RobustScaler(), SimpleImputer(strategy="constant", fill_value=0.3))),
    "log1p": columns(make_pipeline(IMPUTED, FunctionTransformer(np.log1p), StandardScaler())),
    "log1p before the imputer": columns(make_pipeline(FunctionTransformer(np.log1p), SimpleImputer(), StandardScaler())),
    "Yeo-Johnson": columns(make_pipeline(IMPUTED, PowerTransformer())),
    "Box-Cox": ColumnTransformer(
        [("p", make_pipeline(IMPUTED, PowerTransformer("box-cox")), ["income", "debt", "age"]), ("w", one_hot(), WORDS)]
    ),
    "quantiles": columns(make_pipeline(IMPUTED, QuantileTransformer(n_quantiles=50))),
    "quantiles to normal": columns(make_pipeline(IMPUTED, QuantileTransformer(n_quantiles=50, output_distribution="normal"))),
    "scaled, then bent": columns(make_pipeline(IMPUTED, StandardScaler(), PowerTransformer(standardize=False))),
    "negative": columns(make_pipeline(IMPUTED, FunctionTransformer(np.negative), MinMaxScaler())),
    "binarized": columns(make_pipeline(IMPUTED, Binarizer(threshold=900.0))),
    "PCA": columns(make_pipeline(IMPUTED, StandardScaler(), PCA(3))),
    "PCA of everything, whitened": make_pipeline(columns(words=one_hot(sparse_output=False)), PCA(6, whiten=True)),
    "SVD of everything": make_pipeline(columns(), TruncatedSVD(6)),
    "random projection": make_pipeline(
        columns(words=one_hot(sparse_output=False)), GaussianRandomProjection(5, random_state=0)
    ),
    "selected": make_pipeline(columns(make_pipeline(IMPUTED, MinMaxScaler())), SelectKBest(chi2, k=8)),
    "union": columns(make_pipeline(IMPUTED, make_union(StandardScaler(), make_pipeline(MinMaxScaler(), PCA(2)), "drop"))),
    "union with weights": columns(
        make_pipeline(
            IMPUTED,
            FeatureUnion(
                [("a", StandardScaler()), ("b", MinMaxScaler()), ("c", "passthrough")], transformer_weights={"a": 2, "c": 0}
            ),
        )
    ),
    "remainder": ColumnTransformer([("w", one_hot(), [*WORDS, "plan"])], remainder=REAL),
    "remainder dropped": ColumnTransformer([("w", one_hot(), WORDS), ("n", StandardScaler(), ["age", "income"])]),
    "by number, slice and mask": make_column_transformer(
        (StandardScaler(), [0, -1]), (one_hot(), slice("job", "city")), ("passthrough", [name == "age" for name in MADE])
    ),
    "by type": make_column_transformer(
        (REAL, make_column_selector("income|debt|age", dtype_include=np.number)),
        ("passthrough", make_column_selector(dtype_include=bool)),
        (one_hot(), make_column_selector(pattern="job|city")),
    ),
    "nested": ColumnTransformer(
        [
            (
                "all",
                make_pipeline(ColumnTransformer([("n", REAL, NUMBERS[:2])], remainder="passthrough"), MaxAbsScaler()),
                NUMBERS,
            ),
            ("words", ColumnTransformer([("a", OneHotEncoder(drop="first"), ["city"])], remainder=one_hot()), [*WORDS, "plan"]),
        ],
        remainder="drop",
        transformer_weights={"all": 0.5},
    ),
    "frames between steps": make_pipeline(
        columns(words=one_hot(sparse_output=False)),
        ColumnTransformer([("s", StandardScaler(), ["numbers__age", "words__job_cook"])], remainder="passthrough"),
    ).set_output(transform="pandas"),
}


@pytest.mark.parametrize("kind", PREPARED)
def test_a_pipeline_of_mixed_columns_is_read_exactly_and_answered_exactly(kind):
    estimator = make_pipeline(clone(PREPARED[kind]), logistic()).fit(MADE, LABEL)
    cfs = check(estimator, MADE, n=10 if "quantiles" in kind else 20)
    known = {name: set(MADE[name].dropna()) for name in [*WORDS, "plan"]}
    for name, levels in known.items():
        assert set(cfs.x[name].dropna()) <= levels
        assert not (cfs.x[name].isna() & ~cfs.source[name].isna()).any()  # no advice to leave a field empty
    assert set(cfs.x["owner"]) <= {True, False}
    assert cfs.x["owner"].dtype == bool
    assert cfs.x.index.equals(cfs.source.index)


@pytest.mark.parametrize("kind", ["one-hot", "ordinal", "log1p", "PCA of everything, whitened", "nested"])
def test_more_than_two_classes(kind):
    X, y = made(n_classes=3)
    estimator = make_pipeline(clone(PREPARED[kind]), logistic()).fit(X, y)
    check(estimator, X, n=6)
    cf = invert(estimator, X.iloc[[3]], "high", lam=0.05)
    cf.verify()
    assert (cf.status == Status.EXACT).all()
    lead = invert(estimator, X.iloc[:4], "high", margin=0.5)
    z = as_model(estimator).logits(lead.x)
    assert (np.sort(z, axis=1)[:, -1] - np.sort(z, axis=1)[:, -2] >= 0.5).all()
    assert (estimator.predict(lead.x) == "high").all()


# ---- every classifier ----

WINE, CANCER = load_wine(as_frame=True), load_breast_cancer(as_frame=True)
TABLES = {"two classes": (CANCER.data.iloc[:, :10], CANCER.target), "three classes": (WINE.data, WINE.target)}
STEPS = {
    "alone": [],
    "scaled": [StandardScaler()],
    "bent": [PowerTransformer()],
    "mixed": [StandardScaler(), PCA(5, whiten=True)],
}
STEPS |= {
    "two by two": [make_union(StandardScaler(), make_pipeline(MinMaxScaler(), IncrementalPCA(3)))],
    "eliminated": [StandardScaler(), RFE(LogisticRegression(), n_features_to_select=5)],
    "from a model": [VarianceThreshold(1e-5), RobustScaler(), SelectFromModel(LogisticRegression(max_iter=1000))],
}
SOFT = {
    "LogisticRegression": logistic(),
    "SGDClassifier": SGDClassifier(loss="log_loss", random_state=0),
    "LDA": LinearDiscriminantAnalysis(),
    "LDA, shrunk": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "MLPClassifier": MLPClassifier(hidden_layer_sizes=(), solver="lbfgs", max_iter=20_000, random_state=0),
    "OneVsRestClassifier": OneVsRestClassifier(logistic()),
    "GridSearchCV": GridSearchCV(logistic(), {"C": [0.1, 1.0]}, cv=2),
}
ONLY_TWO = ("SGDClassifier", "OneVsRestClassifier")


READ = [
    (kind, steps, table)
    for kind, steps, table in itertools.product(SOFT, STEPS, TABLES)
    if (kind in ("LogisticRegression", "LDA") or steps == "scaled") and not (table == "three classes" and kind in ONLY_TWO)
]


@pytest.mark.parametrize(("kind", "steps", "table"), READ)
def test_a_classifier_is_read_exactly(kind, steps, table):
    X, y = TABLES[table]
    estimator = make_pipeline(*map(clone, STEPS[steps]), clone(SOFT[kind])).fit(X, y)
    model, rows = as_model(estimator), fresh(X, 80)
    np.testing.assert_allclose(model.predict_proba(rows), estimator.predict_proba(rows), rtol=0, atol=SAME)
    cfs = invert(estimator, rows, prob=0.8)
    p = estimator.predict_proba(cfs.x)[np.arange(80), model.logits(cfs.x).argmax(axis=1)]
    np.testing.assert_array_equal(estimator.predict(cfs.x), cfs.target)
    assert (cfs.target != estimator.predict(rows)).all()
    assert (p >= 0.8).all()


COUNTS = pd.DataFrame(np.random.default_rng(5).poisson(2.0, size=(400, 8)), columns=list("abcdefgh"))
TOPIC = np.where(COUNTS["a"] + COUNTS["b"] > COUNTS["c"] + COUNTS["d"], "ab", "cd")
BAYES = {
    "multinomial": (MultinomialNB(), COUNTS),
    "complement": (ComplementNB(), COUNTS),
    "Bernoulli": (BernoulliNB(), COUNTS),
    "Bernoulli, another threshold": (BernoulliNB(binarize=2.5), COUNTS),
    "Bernoulli of 0 and 1": (BernoulliNB(binarize=None), (COUNTS > 1).astype(int)),
    "categorical": (CategoricalNB(), COUNTS.clip(upper=5)),
    "categorical of words": (
        make_pipeline(OrdinalEncoder(), CategoricalNB()),
        COUNTS.clip(upper=3).map(["zero", "one", "two", "more"].__getitem__),
    ),
    "Bernoulli of one-hot": (make_pipeline(OneHotEncoder(), BernoulliNB()), COUNTS.clip(upper=3)),
}


@pytest.mark.parametrize("kind", BAYES)
def test_naive_bayes_is_read_exactly(kind):
    estimator, X = BAYES[kind]
    estimator = clone(estimator).fit(X, TOPIC)
    model = as_model(estimator)
    np.testing.assert_allclose(model.predict_proba(X), estimator.predict_proba(X), rtol=0, atol=SAME)
    cfs = invert(estimator, X, prob=0.6)
    assert (cfs.status == Status.EXACT).all()
    x = cfs.x if hasattr(cfs.x, "columns") else pd.DataFrame(cfs.x, columns=X.columns)
    np.testing.assert_array_equal(estimator.predict(x), cfs.target)
    assert (estimator.predict_proba(x).max(axis=1) >= 0.6).all()
    assert (cfs.target != estimator.predict(X)).all()


HARD = {
    "LinearSVC": LinearSVC(),
    "LinearSVC, Crammer and Singer": LinearSVC(multi_class="crammer_singer", random_state=0, max_iter=20_000),
    "Perceptron": Perceptron(random_state=0),
    "RidgeClassifier": RidgeClassifier(),
    "RidgeClassifierCV": RidgeClassifierCV(),
    "SGDClassifier": SGDClassifier(random_state=0),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", HARD)
def test_a_classifier_without_probabilities_is_answered_by_its_scores(kind, table):
    X, y = TABLES[table]
    estimator = make_pipeline(StandardScaler(), clone(HARD[kind])).fit(X, y)
    model, rows = as_model(estimator), fresh(X, 200 if table == "two classes" else 40)
    np.testing.assert_array_equal(model.predict(rows), estimator.predict(rows))
    cfs = invert(estimator, rows)
    np.testing.assert_array_equal(estimator.predict(cfs.x), cfs.target)
    assert (cfs.target != estimator.predict(rows)).all()
    with pytest.raises(InputError, match="no probabilities"):
        model.predict_proba(rows)
    with pytest.raises(InputError, match="prob needs probabilities, and this model has only scores; give margin"):
        invert(estimator, rows, prob=0.7)


# ---- real tables ----

GERMAN_FROZEN = ["Age", "Sex", "ForeignWorker", "NumDependents"]
GERMAN_WHOLE = ["Duration", "CreditAmount", "InstallmentRate", "CreditsAtBank", "ResidenceSince"]


@pytest.fixture(scope="module")
def credit():
    X, y = german()
    codes = [name for name in X if X[name].dtype.kind not in "if"]
    numbers = [name for name in X if name not in codes]
    parts = [("numbers", StandardScaler(), numbers), ("codes", one_hot(), codes)]
    return make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=2000)).fit(X, y), X


def test_a_thousand_applicants(credit):
    estimator, X = credit
    bounds = {"Duration": (4, 72), "CreditAmount": (250, None), "InstallmentRate": (1, 4), "CreditsAtBank": (1, 4)}
    actions = Actions(frozen=GERMAN_FROZEN, integer=GERMAN_WHOLE, bounds=bounds)
    cfs = invert(estimator, X, prob=0.7, actions=actions)
    check_answers(estimator, X, cfs, 0.7)
    assert len(cfs) == 1000
    pd.testing.assert_frame_equal(cfs.x[GERMAN_FROZEN], X[GERMAN_FROZEN])
    assert (cfs.x.dtypes == X.dtypes).all()  # whole numbers stay whole
    assert cfs.x["Duration"].between(4, 72).all()
    for name in X:
        if X[name].dtype.kind not in "if":
            assert set(cfs.x[name]) <= set(X[name])


def test_an_applicant_as_a_row_a_frame_and_a_dict(credit):
    estimator, X = credit
    row = X.iloc[1]
    actions = Actions(frozen=GERMAN_FROZEN, integer=True)
    one, frame, mapping = (invert(estimator, x, "good", actions=actions) for x in (row, X.iloc[[1]], row.to_dict()))
    assert isinstance(one.x, pd.Series)
    assert one.x.index.equals(row.index)
    assert one.x.name == row.name
    assert isinstance(mapping.x, dict)
    assert list(mapping.x) == list(X.columns)
    assert mapping.x == one.x.to_dict() == frame.x.iloc[0].to_dict()
    assert estimator.predict(pd.DataFrame([mapping.x]))[0] == "good"
    changed = [name for name in X if one.x[name] != row[name]]
    assert sorted(name for name, _, _ in one.changes()) == sorted(changed)
    assert all((one.x[name], row[name]) == (after, before) for name, before, after in one.changes())


def test_a_column_that_the_classifier_never_sees_is_handed_through(credit):
    estimator, X = credit
    extra = X.assign(name="N. N.", number=range(len(X)))[["number", *X.columns[::-1], "name"]]
    cfs = invert(estimator, extra.iloc[:5], "good")
    assert list(cfs.x.columns) == list(extra.columns)
    pd.testing.assert_frame_equal(cfs.x[["number", "name"]], extra[["number", "name"]].iloc[:5])
    np.testing.assert_array_equal(estimator.predict(cfs.x), ["good"] * 5)


def test_adult_with_missing_values_and_types_of_all_kinds():
    X, y = adult()
    X["workclass"] = X["workclass"].astype("category")
    X["marital"] = pd.Categorical(X["marital"], ordered=True)
    X["education"] = X["education"].astype("string")
    X["sex"] = X["sex"] == "Male"
    X["hours"] = X["hours"].astype("float32")
    X["age"] = X["age"].astype("Int64")
    X["years"] = X["years"].astype("int8")
    X["gain"] = X["gain"].astype("Float64")
    X.loc[X.index[::40], "age"] = pd.NA
    numbers = ["age", "weight", "years", "gain", "loss", "hours"]
    words = ["workclass", "education", "marital", "occupation", "relationship", "race", "country"]
    steps = ColumnTransformer(
        [
            ("hours", StandardScaler(), ["hours"]),  # alone: single precision all the way, if it were left so
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [n for n in numbers if n != "hours"]),
            ("sex", "passthrough", ["sex"]),
            ("words", one_hot(min_frequency=20, handle_unknown="infrequent_if_exist"), words),
        ]
    )
    estimator = make_pipeline(steps, LogisticRegression(max_iter=3000)).fit(X, y)
    rows = X.iloc[np.random.default_rng(3).integers(len(X), size=300)]
    actions = Actions(integer=["age", "years", "loss", "weight"], frozen=["race"])
    cfs = invert(estimator, rows, prob=0.6, actions=actions)
    check_answers(estimator, rows, cfs, 0.6)
    kept = [name for name in X if name != "hours"]  # float32 cannot hold an answer
    assert (cfs.x.dtypes[kept] == rows.dtypes[kept]).all()
    assert cfs.x["race"].equals(rows["race"])
    same = as_model(estimator).predict_proba(rows.astype({"hours": "float64"}))
    np.testing.assert_allclose(same, estimator.predict_proba(rows.astype({"hours": "float64"})), rtol=0, atol=SAME)


def test_polars_in_and_polars_out():
    frame = pl.from_pandas(MADE).with_columns(pl.col("city").cast(pl.Categorical), pl.col("age").cast(pl.Int16))
    estimator = make_pipeline(columns(), logistic()).fit(frame, LABEL)
    np.testing.assert_allclose(as_model(estimator).predict_proba(frame), estimator.predict_proba(frame), rtol=0, atol=SAME)
    rows = frame[20:80]
    cfs = invert(estimator, rows, prob=0.7, actions=Actions(integer=["age", "children"]))
    assert isinstance(cfs.x, pl.DataFrame)
    assert cfs.x.schema == rows.schema
    np.testing.assert_array_equal(estimator.predict(cfs.x), cfs.target)
    assert (estimator.predict_proba(cfs.x).max(axis=1) >= 0.7).all()
    mapping = rows.row(3, named=True)
    one = invert(estimator, mapping, "yes").x
    assert estimator.predict(pl.DataFrame([one], schema_overrides={"age": pl.Float64, "children": pl.Float64}))[0] == "yes"


def test_tables_without_names_are_answered_by_position():
    X = MADE[["income", "age", "job", "plan"]].to_numpy(dtype=object)
    X[:, 2] = np.where(pd.isna(X[:, 2]), "none", X[:, 2])
    steps = make_column_transformer((StandardScaler(), [0, 1]), (one_hot(), [2, 3]))
    estimator = make_pipeline(steps, logistic()).fit(X, LABEL)
    cfs = invert(estimator, X[:50], prob=0.7, actions=Actions(frozen=[1, 2], bounds={0: (0, None)}))
    np.testing.assert_array_equal(cfs.x[:, 1:3], X[:50, 1:3])
    good = cfs.status == Status.EXACT
    np.testing.assert_array_equal(estimator.predict(cfs.x[good]), cfs.target[good])
    one = invert(estimator, X[0], "yes").x
    assert one.shape == (4,)
    assert estimator.predict(one[None])[0] == "yes"
    assert estimator.predict([invert(estimator, X[0].tolist(), "yes").x])[0] == "yes"


# ---- limits and costs by the user's own names ----

SKEWED = ["income", "debt"]
BENT = ColumnTransformer(
    [
        ("log", make_pipeline(SimpleImputer(), FunctionTransformer(np.log1p), StandardScaler()), SKEWED),
        ("power", PowerTransformer(), ["age"]),
        ("turned", FunctionTransformer(np.negative), ["note"]),
        ("quantiles", QuantileTransformer(n_quantiles=20), ["children"]),
        ("order", OrdinalEncoder(categories=[["Ulm", "Kiel", "Bonn"]]), ["city"]),
        ("words", one_hot(), ["job", "plan"]),
    ]
)


@pytest.fixture(scope="module")
def bent():
    return make_pipeline(clone(BENT), logistic()).fit(MADE, LABEL)


def test_limits_on_numbers_that_are_bent(bent):
    bounds = {"income": (1000, 5000.5), "age": (20.25, 70), "city": ("Ulm", "Kiel")}
    actions = Actions(bounds=bounds, increase=["note"], decrease=["debt"], frozen=["plan"])
    rows = fresh(MADE, 50)
    rows.loc[rows["city"] == "Bonn", "city"] = "Kiel"
    cfs = invert(bent, rows, prob=0.6, actions=actions)
    check_answers(bent, rows, cfs, 0.6)
    x = cfs.x
    assert x["income"].between(1000, 5000.5).all()
    assert x["age"].between(20.25, 70).all()
    assert (x["note"] >= rows["note"]).all()
    moved = ~(x["debt"].isna() & rows["debt"].isna()) & (x["debt"] != rows["debt"])
    assert moved.any()
    assert (x["debt"][moved] <= rows["debt"].fillna(MADE["debt"].mean())[moved]).all()
    assert set(x["city"]) <= {"Ulm", "Kiel"}
    assert x["plan"].equals(rows["plan"])
    assert set(x["children"]) <= set(MADE["children"])


def test_whole_numbers_that_are_bent_are_the_best_whole_numbers(bent):
    """Against all of them: income in thousands, everything else fixed."""
    model, row = as_model(bent), MADE.iloc[[7]]
    others = [name for name in MADE if name != "income"]
    actions = Actions(frozen=others, step={"income": 500}, bounds={"income": (0, 200_000)})
    target = np.setdiff1d(model.classes, bent.predict(row))[0]
    cf = invert(bent, row, target, actions=actions)[0]
    every = np.arange(0, 200_001, 500.0)
    table = pd.concat([row.assign(income=value) for value in every])
    there = every[bent.predict(table) == target]
    seen = model.coordinates(table)[:, 0]
    costs = np.abs(seen - model.coordinates(row)[0, 0])
    best = there[np.argmin(costs[np.isin(every, there)])]
    assert cf.x["income"].item() == best
    cf.verify()


def test_a_wrong_name_is_answered_with_the_right_one(bent):
    row = MADE.iloc[[0]]
    with pytest.raises(InputError, match=r"unknown feature 'incom'; did you mean \['income'"):
        invert(bent, row, actions=Actions(frozen=["incom"]))
    with pytest.raises(InputError, match=r"bounds: job is a category.*freeze 'job=clerk'"):
        invert(bent, row, actions=Actions(bounds={"job": (0, 1)}))
    with pytest.raises(InputError, match="increase: job=clerk is a value of a category, which has no direction"):
        invert(bent, row, actions=Actions(increase=["job"]))
    with pytest.raises(InputError, match="integer: city is ordinal"):
        invert(bent, row, actions=Actions(integer=["city"]))
    with pytest.raises(InputError, match=r"bounds of city: 'Rome' is none of its values"):
        invert(bent, row, actions=Actions(bounds={"city": (None, "Rome")}))
    with pytest.raises(InputError, match=r"linear: income passes np.log1p"):
        invert(bent, row, actions=Actions(linear=[({"income": 1.0}, "<=", 5.0)]))
    with pytest.raises(InputError, match="bounds: the classifier never sees owner"):
        invert(bent, row, actions=Actions(bounds={"owner": (0, 1)}))
    assert invert(bent, row, actions=Actions(frozen=["owner"])).status[0] == Status.EXACT


def test_a_value_that_is_frozen_is_not_chosen(bent):
    rows = fresh(MADE, 25)
    free = invert(bent, rows, prob=0.8)
    liked = free.x["job"].mode()[0]
    ruled = invert(bent, rows, prob=0.8, actions=Actions(frozen=[f"job={liked}"]))
    good = ruled.status == Status.EXACT
    assert not ((ruled.x["job"] == liked) & (rows["job"] != liked))[good].any()
    assert ((free.x["job"] == liked) & (rows["job"] != liked)).any()


def test_costs_by_the_users_columns(bent):
    rows = fresh(MADE, 30)
    dear = invert(bent, rows, prob=0.7, cost=Cost({"job": 50.0, "plan": 50.0}))
    assert ((dear.x["job"] == rows["job"]) | rows["job"].isna()).mean() > 0.95
    fitted = Cost("std").fit(MADE)
    check_answers(bent, rows, invert(bent, rows, prob=0.7, cost=fitted), 0.7)
    assert as_model(bent).encoding.find("note").first in np.flatnonzero(fitted.per_unit(as_model(bent)) > 3)


# ---- what cannot be read ----


def test_unknown_and_missing_values_in_a_table_do_not_lose_the_other_rows():
    estimator = make_pipeline(
        ColumnTransformer([("n", StandardScaler(), ["income"]), ("w", OneHotEncoder(), ["city"])]), logistic()
    ).fit(MADE, LABEL)
    rows = MADE.iloc[:4].copy()
    rows.loc[1, "city"] = "Rome"
    rows.loc[2, "income"] = np.nan
    cfs = invert(estimator, rows, prob=0.7)
    assert [Status(int(s)).name for s in cfs.status] == ["EXACT", "INVALID", "INVALID", "EXACT"]
    assert pd.isna(cfs.x.loc[1, "city"])
    with pytest.raises(InputError, match="city is 'Rome'; it must be one of 'Bonn', 'Kiel', 'Ulm'"):
        invert(estimator, rows.iloc[1], prob=0.7)
    with pytest.raises(InputError, match="income is nan"):
        invert(estimator, rows.iloc[2], prob=0.7)
    with pytest.raises(InputError, match=r"missing \['city'\]"):
        invert(estimator, rows.drop(columns="city"))
    with pytest.raises(InputError, match="income must be numbers"):
        invert(estimator, rows.assign(income="much"))


def test_an_unknown_value_may_stay_but_is_never_chosen():
    estimator = make_pipeline(columns(), logistic()).fit(MADE, LABEL)
    rows = fresh(MADE, 40)
    rows.loc[::2, "city"] = "Rome"
    cfs = invert(estimator, rows, prob=0.75)
    check_answers(estimator, rows, cfs, 0.75)
    assert set(cfs.x["city"][1::2]) <= set(MADE["city"])
    assert (cfs.x["city"] == "Rome").any()
    frozen = invert(estimator, rows, prob=0.75, actions=Actions(frozen=["city"]))
    assert frozen.x["city"].equals(rows["city"])


CONTRADICTIONS = {
    "number and category": (make_column_transformer((StandardScaler(), ["age"]), (one_hot(), ["age"])), "'age' is used twice"),
    "two kinds of missing": (
        make_column_transformer((SimpleImputer(strategy="mean"), ["debt"]), (SimpleImputer(strategy="max"), ["note"])),
        None,
    ),
    "two fills": (
        make_column_transformer((SimpleImputer(strategy="mean"), ["debt"]), (SimpleImputer(strategy="median"), ["debt"])),
        "'debt' is used twice, as a number with .* for what is missing",
    ),
    "bent and straight": (
        make_column_transformer((FunctionTransformer(np.log1p), ["age"]), (StandardScaler(), ["age"])),
        r"'age' is used twice, through np.log1p .* and as a number",
    ),
    "indicator": (
        make_column_transformer((SimpleImputer(add_indicator=True), ["debt"])),
        "part 'simpleimputer' .*adds indicators of what was missing.*add_indicator=False",
    ),
    "nothing left": (make_column_transformer(("drop", ["age"]), remainder="drop"), None),
}


@pytest.mark.parametrize("kind", [kind for kind, (_, message) in CONTRADICTIONS.items() if message])
def test_one_column_in_contradictory_ways_is_refused(kind):
    steps, message = CONTRADICTIONS[kind]
    with pytest.raises(UnsupportedModelError, match=message):
        as_model(make_pipeline(clone(steps), logistic()).fit(MADE, LABEL))


# ---- rounding ----


@pytest.mark.parametrize("steps", [[StandardScaler(), PCA(12)], [PCA(4, whiten=True)], [make_union(PCA(4), StandardScaler())]])
def test_the_promise_holds_where_a_pipeline_rounds_much(steps):
    """Numbers around 10 000 that differ in the seventh digit: what they have in common cancels in the pipeline, and rounds."""
    X, y = CANCER.data.iloc[:, :12] * 1e-3 + 1e4, CANCER.target
    estimator = make_pipeline(*steps, LogisticRegression(C=1e4, solver="newton-cholesky", max_iter=1000)).fit(X, y)
    for prob in (0.5, 0.9):
        cfs = invert(estimator, X, prob=prob)
        assert (cfs.status == Status.EXACT).all()
        np.testing.assert_array_equal(estimator.predict(cfs.x), cfs.target)
        assert (estimator.predict_proba(cfs.x).max(axis=1) >= prob).all()
    if isinstance(steps[0], StandardScaler):  # what is taken away first is taken away exactly, here as there
        np.testing.assert_allclose(as_model(estimator).predict_proba(X), estimator.predict_proba(X), rtol=0, atol=SAME)


# ---- values like any other ----


@pytest.mark.parametrize("kind", ["one-hot", "Yeo-Johnson", "quantiles", "ordinal, unknown and missing", "binarized", "log1p"])
def test_a_model_of_columns_survives_pickling_and_saving(kind, tmp_path):
    estimator = make_pipeline(clone(PREPARED[kind]), logistic()).fit(MADE, LABEL)
    model, rows = as_model(estimator), fresh(MADE, 30)
    model.save(tmp_path / "model.json")
    for other in (pickle.loads(pickle.dumps(model)), ifonly.load(tmp_path / "model.json")):
        np.testing.assert_array_equal(other.predict_proba(rows), model.predict_proba(rows))
        pd.testing.assert_frame_equal(invert(other, rows.iloc[:5]).x, invert(model, rows.iloc[:5]).x)
    cf = pickle.loads(pickle.dumps(invert(model, rows.iloc[0])))
    assert cf.verify()


def test_an_estimator_is_read_again_only_when_it_changed():
    estimator = make_pipeline(columns(), logistic()).fit(MADE, LABEL)
    model = as_model(estimator)
    assert as_model(estimator) is model
    estimator[-1].coef_ *= 2.0
    assert as_model(estimator) is not model
    np.testing.assert_allclose(as_model(estimator).predict_proba(MADE), estimator.predict_proba(MADE), rtol=0, atol=SAME)
    estimator[0].named_transformers_["words"].categories_[1][0] = "Köln"
    assert "city=Köln" in as_model(estimator).feature_names


def test_limits_that_are_changed_in_place_are_seen():
    estimator = make_pipeline(columns(), logistic()).fit(MADE, LABEL)
    bounds = {"age": (18, 90)}
    actions, row = Actions(bounds=bounds), MADE.iloc[[1]]
    invert(estimator, row, actions=actions)
    bounds["age"] = (75, 90)
    assert invert(estimator, row, actions=actions).x["age"].between(75, 90).all()


def test_the_steps_that_messages_name_are_those_that_are_understood():
    scalers = "MaxAbsScaler, MinMaxScaler, OneHotEncoder, OrdinalEncoder, PCA, Pipeline, PowerTransformer, QuantileTransformer"
    named = f"Binarizer, ColumnTransformer, .*{scalers}, .*, TruncatedSVD, and selectors of columns such as SelectKBest"
    with pytest.raises(UnsupportedModelError, match=f"^step 'a' is odd. Understood are {named}$"):
        refuse("step 'a'", "is odd")


# ---- several answers, and rows that come in other ways ----


def test_several_answers_for_one_row_are_a_table(bent):
    row = MADE.iloc[7]
    target = np.setdiff1d(LABEL, bent.predict(MADE.iloc[[7]]))[0]
    several = invert(bent, row, target, n=3)
    assert several.x.shape == (3, MADE.shape[1])
    assert (bent.predict(several.x) == target).all()
    assert len({tuple(sorted(name for name, _, _ in cf.changes())) for cf in several}) == 3
    along = ifonly.path(bent, row, target, lams=[1.0, 0.1, 0.01])
    assert list(along.x.columns) == list(MADE.columns)
    assert along.x.iloc[[2]].to_numpy().tolist() == along[2].x.to_frame().T.to_numpy().tolist()
    each = invert(bent, MADE.iloc[:3], "all")
    assert each.x.index.tolist() == [0, 0, 1, 1, 2, 2]


def test_yes_and_no_stay_yes_and_no_in_every_kind_of_table():
    estimator = make_pipeline(columns(), logistic()).fit(MADE, LABEL)
    target = "yes" if (estimator.predict(MADE.iloc[:40]) == "no").sum() > 20 else "no"
    cheap = Cost({"owner": 0.2})
    frame = invert(estimator, MADE.iloc[:40], target, prob=0.9, cost=cheap)
    pieces = invert(estimator, iter([MADE.iloc[:15], MADE.iloc[15:40]]), target, prob=0.9, cost=cheap)
    pd.testing.assert_frame_equal(pieces.x, frame.x)
    assert frame.x["owner"].dtype == bool
    assert (frame.x["owner"] != MADE["owner"].iloc[:40]).any()
    for i in range(10):
        row, mapping = (invert(estimator, x, target, prob=0.9, cost=cheap).x for x in (MADE.iloc[i], MADE.iloc[i].to_dict()))
        assert isinstance(row["owner"], (bool, np.bool_))
        assert isinstance(mapping["owner"], bool)
        assert row["owner"] == mapping["owner"] == frame.x["owner"].iloc[i]
    along = ifonly.path(estimator, MADE.iloc[0], target, lams=[1.0, 0.01], cost=cheap)
    assert along.x["owner"].dtype == bool


def test_missing_values_stay_missing_unless_they_change():
    estimator = make_pipeline(columns(), logistic()).fit(MADE, LABEL)
    rows = MADE[MADE["debt"].isna()].iloc[:20]
    still = invert(estimator, rows, prob=0.7, actions=Actions(frozen=["debt"]))
    assert still.x["debt"].isna().all()
    moved = invert(estimator, rows, prob=0.7)
    assert moved.x["debt"].notna().any()
    np.testing.assert_array_equal(estimator.predict(moved.x), moved.target)


def test_a_transformer_of_the_users_own_is_refused_for_what_it_is():
    class Squares(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return X**2

    X = np.arange(20.0).reshape(10, 2)
    fitted = make_pipeline(Squares(), LogisticRegression()).fit(X, np.arange(10) > 4)
    with pytest.raises(UnsupportedModelError, match=r"\(Squares\) is not scikit-learn's own, so that nothing is known"):
        ifonly.as_model(fitted)
