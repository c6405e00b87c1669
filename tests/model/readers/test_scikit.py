"""`as_model` reads a fitted estimator exactly, or says why it cannot."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA, KernelPCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from ifonly import Actions, InputError, Model, UnsupportedModelError, as_model, invert

IRIS = load_iris(as_frame=True)
FRAME, SPECIES = IRIS.data, IRIS.target_names[IRIS.target]  # labels are strings
X, Y = FRAME.to_numpy(), IRIS.target.to_numpy()
CANCER = load_breast_cancer(return_X_y=True)
DATA = {"binary": (CANCER[0][:, :6], CANCER[1]), "multinomial": (X, Y)}

STEPS = {
    "alone": [],
    "standard": [StandardScaler()],
    "standard, no mean": [StandardScaler(with_mean=False)],
    "standard, no std": [StandardScaler(with_std=False)],
    "minmax": [MinMaxScaler()],
    "minmax, other range": [MinMaxScaler(feature_range=(-3, 7))],
    "maxabs": [MaxAbsScaler()],
    "robust": [RobustScaler()],
    "robust, other quantiles": [RobustScaler(quantile_range=(10, 95), unit_variance=True)],
    "robust, no centring": [RobustScaler(with_centering=False)],
    "robust, no scaling": [RobustScaler(with_scaling=False)],
    "two": [MinMaxScaler(), StandardScaler()],
    "four": [RobustScaler(), MaxAbsScaler(), MinMaxScaler(), StandardScaler()],
    "passthrough": ["passthrough"],
    "passthrough between": [StandardScaler(), "passthrough", MinMaxScaler()],
}
CLASSIFIERS = {
    "lbfgs": LogisticRegression(max_iter=5000),
    "newton": LogisticRegression(solver="newton-cholesky"),
    "no intercept": LogisticRegression(solver="newton-cholesky", fit_intercept=False),
    "weighted": LogisticRegression(solver="newton-cholesky", class_weight="balanced", C=10.0),
    "CV": LogisticRegressionCV(
        Cs=3, cv=3, solver="newton-cholesky", l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False
    ),
}


def fresh(rng, X, n=200):
    """Rows that were not fitted to, around the data and beyond."""
    return X[rng.integers(len(X), size=n)] + X.std(axis=0) * rng.normal(size=(n, X.shape[1]))


def same(model, estimator, X):
    np.testing.assert_allclose(model.predict_proba(X), estimator.predict_proba(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), estimator.predict(X))
    np.testing.assert_array_equal(model.classes, estimator.classes_)


# ---- read exactly ----


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("steps", STEPS)
def test_a_pipeline_of_scalers_is_read_exactly(rng, steps, data):
    X, y = DATA[data]
    estimator = make_pipeline(*STEPS[steps], LogisticRegression(solver="newton-cholesky")).fit(X, y)
    same(as_model(estimator), estimator, fresh(rng, X))


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_any_logistic_regression_is_read_exactly(rng, classifier, data):
    X, y = DATA[data]
    X = StandardScaler().fit_transform(X)
    estimator = CLASSIFIERS[classifier].fit(X, y)
    same(as_model(estimator), estimator, fresh(rng, X))


def test_liblinear_is_read_for_two_classes(rng):
    X, y = DATA["binary"]
    estimator = LogisticRegression(solver="liblinear").fit(X, y)
    same(as_model(estimator), estimator, fresh(rng, X))


@pytest.mark.parametrize("data", DATA)
def test_sparse_weights_are_read_exactly(rng, data):
    X, y = DATA[data]
    X = StandardScaler().fit_transform(X)
    estimator = LogisticRegression(solver="saga", l1_ratio=1.0, C=0.1, tol=1e-3, max_iter=2000).fit(X, y)
    dense = as_model(estimator)
    estimator.sparsify()
    assert as_model(estimator) == dense
    same(as_model(estimator), estimator, fresh(rng, X))


def test_weights_fitted_in_single_precision_are_read_exactly(rng):
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(X.astype(np.float32), Y)
    same(as_model(estimator), estimator, fresh(rng, X))


def test_a_column_that_is_constant_is_read_exactly(rng):
    constant = np.column_stack([X, np.full(len(X), 7.0)])
    for scaler in (StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()):
        estimator = make_pipeline(scaler, LogisticRegression()).fit(constant, Y)
        same(as_model(estimator), estimator, fresh(rng, constant))


def test_labels_that_are_strings_are_kept():
    estimator = LogisticRegression(max_iter=1000).fit(X, SPECIES)
    cf = invert(estimator, X[0], "virginica")
    assert cf.target == "virginica"
    assert estimator.predict(cf.x[None]).tolist() == ["virginica"]


@pytest.mark.parametrize(
    "labels", [Y == 0, Y.astype(float), Y - 5, Y.astype(np.int8)], ids=["bool", "float", "negative", "int8"]
)
def test_labels_of_any_kind_are_kept(labels):
    estimator = LogisticRegression(max_iter=1000).fit(X, labels)
    target = estimator.classes_[-1]
    cf = invert(estimator, X[0], target)
    assert cf.target == target
    assert estimator.predict(cf.x[None])[0] == target


def test_a_model_is_returned_as_it_is():
    model = Model(np.eye(3), np.zeros(3))
    assert as_model(model) is model


def test_refitting_the_estimator_does_not_change_the_model(rng):
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    model, before = as_model(estimator), estimator.predict_proba(X)
    estimator[0].mean_ += 1.0
    estimator[0].scale_ *= 2.0
    estimator[1].coef_ *= 3.0
    np.testing.assert_allclose(model.predict_proba(X), before, rtol=0, atol=1e-12)


def test_invert_takes_the_estimator_itself(rng):
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    np.testing.assert_array_equal(invert(estimator, X, 1, lam=0.1).x, invert(as_model(estimator), X, 1, lam=0.1).x)


# ---- names ----

NAMED = {
    "alone": LogisticRegression(max_iter=1000),
    "scaler": make_pipeline(StandardScaler(), LogisticRegression()),
    "two scalers": make_pipeline(StandardScaler(), MinMaxScaler(), LogisticRegression()),
    "passthrough first": make_pipeline("passthrough", StandardScaler(), LogisticRegression()),
    "passthrough only": make_pipeline("passthrough", LogisticRegression(max_iter=1000)),
    "frames between steps": make_pipeline(StandardScaler(), LogisticRegression()).set_output(transform="pandas"),
}
SHUFFLED = FRAME[FRAME.columns[[2, 0, 3, 1]]]


@pytest.mark.parametrize("kind", NAMED)
def test_feature_names_are_kept(kind):
    assert as_model(NAMED[kind].fit(FRAME, Y)).feature_names == tuple(FRAME.columns)


@pytest.mark.parametrize("kind", NAMED)
def test_a_frame_with_its_columns_in_another_order_gives_the_same_answers(kind):
    estimator = NAMED[kind].fit(FRAME, Y)
    pd.testing.assert_frame_equal(invert(estimator, SHUFFLED, 1).x, invert(estimator, FRAME, 1).x[SHUFFLED.columns])
    row = invert(estimator, SHUFFLED.iloc[7], 1).x
    pd.testing.assert_series_equal(row, invert(estimator, FRAME.iloc[7], 1).x[SHUFFLED.columns])
    np.testing.assert_array_equal(invert(estimator, SHUFFLED, 1).delta, invert(estimator, FRAME, 1).delta)


@pytest.mark.parametrize("kind", NAMED)
def test_frames_come_back_as_they_were(kind):
    estimator = NAMED[kind].fit(FRAME, Y)
    rows = SHUFFLED.iloc[[5, 17, 103]].astype({"petal width (cm)": "float32"}).set_axis(["u", "v", "w"], axis=0)
    cfs = invert(estimator, rows, 1, actions=Actions(frozen=["sepal width (cm)"]))
    assert isinstance(cfs.x, pd.DataFrame)
    assert list(cfs.x.columns) == list(rows.columns)
    assert cfs.x.index.equals(rows.index)
    assert cfs.x["sepal width (cm)"].equals(rows["sepal width (cm)"])
    np.testing.assert_array_equal(estimator.predict(cfs.x[FRAME.columns]), [1, 1, 1])
    np.testing.assert_array_equal(cfs[1].x, cfs.x.iloc[[1]])
    polar = invert(estimator, pl.from_pandas(rows), 1, actions=Actions(frozen=["sepal width (cm)"]))
    assert isinstance(polar.x, pl.DataFrame)
    np.testing.assert_array_equal(polar.x.to_numpy(), cfs.x.to_numpy())
    each = invert(estimator, rows, "all")
    assert each.x.index.tolist() == np.repeat(["u", "v", "w"], 3).tolist()


@pytest.mark.parametrize("method", ["predict_proba", "logits", "predict"])
def test_a_model_reads_a_frame_by_its_columns_names(method):
    ask = getattr(as_model(NAMED["scaler"].fit(FRAME, Y)), method)
    np.testing.assert_array_equal(ask(SHUFFLED), ask(FRAME))


def test_the_answers_frame_keeps_columns_and_index():
    estimator = NAMED["scaler"].fit(FRAME, Y)
    rows = SHUFFLED.iloc[[5, 17, 3]].set_axis(["u", "v", "w"], axis=0)
    cfs = invert(estimator, rows, 1)
    frame = cfs.to_frame()
    assert frame.index.tolist() == ["u", "v", "w"]
    assert frame.columns.tolist() == SHUFFLED.columns.tolist()
    pd.testing.assert_frame_equal(frame, cfs.x)
    np.testing.assert_array_equal(estimator.predict(frame[FRAME.columns]), [1, 1, 1])


def test_the_answers_frame_of_a_model_without_names_keeps_the_sources_columns():
    estimator = LogisticRegression(max_iter=1000).fit(X, Y)
    frame = invert(estimator, FRAME.iloc[:3], 1).to_frame()
    assert frame.columns.tolist() == FRAME.columns.tolist()


def test_one_answer_is_a_frame_of_one_row():
    frame = invert(NAMED["scaler"].fit(FRAME, Y), FRAME.iloc[7], 1).to_frame()
    assert frame.shape == (1, 4)
    assert frame.columns.tolist() == FRAME.columns.tolist()


def test_a_frame_with_other_columns_is_refused():
    with pytest.raises(InputError, match=r"missing \['petal width \(cm\)'\], not known \['colour'\]"):
        invert(NAMED["scaler"].fit(FRAME, Y), FRAME.rename(columns={"petal width (cm)": "colour"}), 1)


def test_a_model_does_not_drop_the_shift_of_its_scaler_for_sparse_rows():
    """Not silently: it answers as for the dense rows, or it refuses."""
    model = as_model(NAMED["scaler"].fit(FRAME, Y))
    with pytest.raises(InputError, match="sparse"):
        model.predict_proba(csr_array(X))


def test_sparse_rows_pass_a_scaler_that_does_not_shift():
    estimator = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=1000)).fit(csr_array(X), Y)
    np.testing.assert_allclose(as_model(estimator).predict_proba(csr_array(X)), estimator.predict_proba(X), atol=1e-12)
    cfs = invert(estimator, csr_array(X), 1, prob=0.9)
    assert (estimator.predict_proba(cfs.x)[:, 1] >= 0.9).all()


# ---- refused ----


class Louder(LogisticRegression):
    """A subclass that keeps the weights but answers otherwise: to read its weights would be wrong."""

    def predict_proba(self, X):
        return super().predict_proba(X) ** 2


class Shifty(StandardScaler):
    """A subclass of a scaler that does more than scale."""

    def transform(self, X, copy=None):
        return super().transform(X) + 1.0


def half(X):
    return 0.5 * X


def test_a_subclass_of_the_same_name_from_elsewhere_is_refused():
    impostor = type("LogisticRegression", (Louder,), {"__module__": "elsewhere"})(max_iter=1000).fit(X, Y)
    with pytest.raises(UnsupportedModelError, match="LogisticRegression is not understood"):
        as_model(impostor)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (DecisionTreeClassifier(), "DecisionTreeClassifier is a tree, not linear. Expected a Model, a fitted scikit-learn"),
        (RandomForestClassifier(5), "RandomForestClassifier is made of trees"),
        (SVC(), "SVC is a kernel machine; use LinearSVC"),
        (GaussianNB(), "GaussianNB is quadratic in the features; use LinearDiscriminantAnalysis"),
        (KNeighborsClassifier(), "KNeighborsClassifier is not linear"),
        (OneVsRestClassifier(LogisticRegression()), "OneVsRestClassifier on 3 classes.*not a softmax.*multinomial"),
        (
            CalibratedClassifierCV(LogisticRegression(max_iter=1000)),
            "CalibratedClassifierCV bends the scores.*classifier inside",
        ),
        (SGDClassifier(loss="log_loss"), "SGDClassifier was fitted one-vs-rest on 3 classes.*Use LogisticRegression"),
        (
            MLPClassifier((5,), solver="lbfgs", max_iter=5000, random_state=0),
            r"MLPClassifier has 1 hidden layers.*Model\(mlp.coefs_",
        ),
        (FixedThresholdClassifier(LogisticRegression(), threshold=0.3), "threshold of its own; give what is inside.*as prob"),
        (Louder(max_iter=1000), "Louder is not understood: it is not scikit-learn's own"),
        (make_pipeline(StandardScaler(), SVC()), "SVC is a kernel machine"),
        (make_pipeline(StandardScaler(), Louder()), "Louder is not understood"),
        (
            make_pipeline(PolynomialFeatures(), LogisticRegression(max_iter=5000)),
            r"step 'polynomialfeatures' of the pipeline \(PolynomialFeatures\) multiplies features.*leave it out",
        ),
        (
            make_pipeline(Normalizer(), LogisticRegression()),
            r"step 'normalizer' of the pipeline \(Normalizer\) divides every row.*Understood are .*StandardScaler",
        ),
        (
            make_pipeline(Shifty(), LogisticRegression()),
            r"step 'shifty' of the pipeline \(Shifty\) is not scikit-learn's own",
        ),
        (
            make_pipeline(make_pipeline(StandardScaler(), Normalizer()), LogisticRegression()),
            r"step 'pipeline' of the pipeline \(Pipeline\), step 'normalizer' \(Normalizer\)",
        ),
        (
            make_pipeline(KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), LogisticRegression()),
            "cuts numbers into bins",
        ),
        (make_pipeline(KernelPCA(2), LogisticRegression()), "KernelPCA.*is not affine; use PCA"),
        (make_pipeline(KNNImputer(), LogisticRegression(max_iter=5000)), "KNNImputer.*use SimpleImputer"),
        (
            make_pipeline(FunctionTransformer(np.sin), LogisticRegression(max_iter=5000)),
            "applies 'sin', of which nothing is known; use None",
        ),
        (
            make_pipeline(FunctionTransformer(half), LogisticRegression(max_iter=5000)),
            "applies 'half', of which nothing is known",
        ),
        (
            make_pipeline(PCA(2), PowerTransformer(), LogisticRegression()),
            r"\(PowerTransformer\) bends its column 0, which is a mixture of columns",
        ),
        (
            make_pipeline(StandardScaler(), OneHotEncoder(handle_unknown="ignore"), LogisticRegression()),
            "takes the output of another step as categories; put it first",
        ),
        (
            make_pipeline(make_union("passthrough", FunctionTransformer(np.log1p)), LogisticRegression(max_iter=5000)),
            r"column .x0. is used twice, through np.log1p \(.*FunctionTransformer\)\) and as a number \(the classifier\)",
        ),
        (make_pipeline(MinMaxScaler(clip=True), LogisticRegression()), r"step 'minmaxscaler'.*clips its output.*clip=False"),
        (Pipeline([("only", StandardScaler())]), "StandardScaler is not understood"),
        (Pipeline([("scale", StandardScaler()), ("last", "passthrough")]), "not understood"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_what_is_not_a_linear_softmax_is_refused(estimator, message):
    labels = Y == 0 if isinstance(estimator, FixedThresholdClassifier) else Y
    with pytest.raises(UnsupportedModelError, match=message):
        as_model(estimator.fit(X, labels))


@pytest.mark.parametrize("thing", [None, 3, "model", np.eye(3), {"coef_": 1}, object(), LogisticRegression])
def test_what_is_no_estimator_at_all_is_refused(thing):
    with pytest.raises(UnsupportedModelError, match=f"{type(thing).__name__} is not understood.*give its weights"):
        invert(thing, X[0])


def test_what_only_looks_like_a_logistic_regression_is_refused():
    class Lookalike:
        coef_, intercept_, classes_ = np.eye(3), np.zeros(3), np.arange(3)

    with pytest.raises(UnsupportedModelError, match="Lookalike is not understood"):
        as_model(Lookalike())


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression(), "LogisticRegression is not fitted; call fit first"),
        (make_pipeline(LogisticRegression()), "LogisticRegression is not fitted; call fit first"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "not fitted; call fit first"),
        (
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000).fit(X, Y)),
            r"step 'standardscaler' of the pipeline \(StandardScaler\) is not fitted",
        ),
        (make_pipeline(StandardScaler().fit(X), LogisticRegression()), "LogisticRegression is not fitted"),
    ],
    ids=["classifier", "pipeline of it", "pipeline", "scaler only", "last step only"],
)
def test_what_is_not_fitted_is_refused(estimator, message):
    with pytest.raises(UnsupportedModelError, match=message):
        as_model(estimator)


def test_a_one_vs_rest_fit_of_another_version_is_refused():
    """scikit-learn ≥ 1.8 no longer makes one (liblinear refuses three classes), but unpickles those that were made."""
    old = LogisticRegression(max_iter=1000).fit(X, Y)
    old.multi_class = "ovr"
    with pytest.raises(UnsupportedModelError, match=r"fitted one-vs-rest on 3 classes.*not a softmax.*lbfgs"):
        as_model(old)


def test_a_multinomial_fit_of_two_classes_of_another_version_is_refused():
    """Before scikit-learn 1.8 it was evaluated as softmax(−z, z), at twice the logit."""
    old = LogisticRegression(max_iter=1000).fit(X, Y == 0)
    old.multi_class = "multinomial"
    with pytest.raises(UnsupportedModelError, match=r'multi_class="multinomial" on two classes.*twice the logit'):
        as_model(old)


def test_liblinear_itself_refuses_three_classes():
    """What `as_model` relies on; were this to change, its one-vs-rest probabilities would need a look."""
    with pytest.raises(ValueError, match=r"liblinear.*does not support multiclass"):
        LogisticRegression(solver="liblinear").fit(X, Y)
