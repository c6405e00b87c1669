"""`invert` and `path`: bad questions are refused with what was expected and what came; targets and tables of any kind."""

import gc
import weakref

import numpy as np
import pandas as pd
import pytest
from helpers.small import BACKENDS, HUGE, MODEL, NEARLY_ONE, NUMBERS, PAIR, SAME, A, B, X, replaced, sound, true_bound
from scipy import sparse

import ifonly
from ifonly import CertificateError, InputError, Model, Status, invert, path

# ---- refused: the question ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 0.0}, r"lam must be a number > 0; got 0\.0"),
        ({"lam": -1.0}, r"lam must be a number > 0; got -1\.0"),
        ({"lam": np.nan}, "lam must be a number > 0; got nan"),
        ({"lam": np.inf}, "lam must be a number > 0; got inf"),
        ({"lam": "much"}, "lam must be one number; got 'much'"),
        ({"lam": [0.1, 0.2]}, r"lam must be one number; got \[0\.1, 0\.2\]"),
        ({"prob": 0.0}, r"prob must be strictly between 0 and 1; got 0\.0"),
        ({"prob": 1.0}, r"prob must be strictly between 0 and 1; got 1\.0"),
        ({"prob": -0.5}, r"prob must be strictly between 0 and 1; got -0\.5"),
        ({"prob": 1.5}, r"prob must be strictly between 0 and 1; got 1\.5"),
        ({"prob": np.nan}, "prob must be strictly between 0 and 1; got nan"),
        ({"prob": np.inf}, "prob must be strictly between 0 and 1; got inf"),
        ({"lam": 0.1, "prob": 0.9}, "give one of lam and prob, not both"),
        ({"prob": 0.9, "start": X}, "start goes with lam"),
        ({"start": X}, "start goes with lam"),
        ({"lam": 0.1, "start": "here"}, "start must be a point, or \"source\"; got 'here'"),
        ({"lam": 0.1, "start": X[:2]}, "must have 4 features; got 2"),
        ({"lam": 0.1, "start": np.zeros((2, 4))}, "start must be one point or 1, one per row; got 2"),
        ({"lam": 0.1, "start": replaced(X, 1, np.nan)}, "start: .*feature income is nan"),
        ({"lam": 0.1, "tol": 0.0}, r"tol must be a number > 0; got 0\.0"),
        ({"lam": 0.1, "tol": -1e-8}, "tol must be a number > 0; got -1e-08"),
        ({"lam": 0.1, "tol": np.nan}, "tol must be a number > 0; got nan"),
        ({"lam": 0.1, "max_iter": 0}, "max_iter must be"),
        ({"prob": 0.9, "max_iter": 0}, "max_iter must be"),
        ({"lam": 0.1, "target": "d"}, "unknown class 'd'; the model's classes are 'a', 'b', 'c'"),
        ({"lam": 0.1, "target": 0}, "unknown class 0; the model's classes are 'a', 'b', 'c'"),
        ({"lam": 0.1, "target": "opposite"}, 'target "opposite" needs a model with 2 classes; this one has 3'),
    ],
)
def test_a_bad_question_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        invert(MODEL, X, **{"target": "a", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": ["a", "b"]}, "target must be one label or 3, one per row; got 2"),
        ({"target": np.array(["a"] * 4)}, "target must be one label or 3, one per row; got 4"),
        ({"target": ["a", "b", "z"]}, "unknown class 'z'; the model's classes are 'a', 'b', 'c'"),
        ({"lam": [0.1, 0.2]}, "lam must be one number or 3, one per row; got 2"),
        ({"lam": [0.1, -0.2, 0.3]}, r"lam must be a number > 0; got -0\.2"),
        ({"prob": [0.5, 0.6]}, "prob must be one number or 3, one per row; got 2"),
        ({"prob": [0.5, 0.6, 1.0]}, r"prob must be strictly between 0 and 1; got 1\.0"),
        ({"prob": [[0.5, 0.6, 0.7]]}, r"prob must be one number, or one per row; got an array of shape \(1, 3\)"),
    ],
)
def test_a_bad_question_for_a_table_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        invert(MODEL, np.stack([X, X, X]), **{"target": "a", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": np.stack([X, X])}, "path takes one source; got a table of 2 rows"),
        ({"lams": []}, r"lams must be one or more numbers > 0; got \[\]"),
        ({"lams": [1.0, 0.0]}, r"lams must be one or more numbers > 0; got \[1\.0, 0\.0\]"),
        ({"lams": [1.0, np.nan]}, r"lams must be one or more numbers > 0; got \[1\.0, nan\]"),
        ({"lams": [np.inf]}, r"lams must be one or more numbers > 0; got \[inf\]"),
        ({"lams": "many"}, "lams must be one or more numbers > 0; got many"),
        ({"tol": 0.0}, r"tol must be a number > 0; got 0\.0"),
        ({"tol": -1.0}, r"tol must be a number > 0; got -1\.0"),
        ({"target": "z"}, "unknown class 'z'; the model's classes are 'a', 'b', 'c'"),
        ({"target": "opposite"}, 'target "opposite" needs a model with 2 classes; this one has 3'),
    ],
)
def test_a_bad_path_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        path(MODEL, **{"x": X, "target": "a", **options})


def test_the_list_of_known_classes_is_cut_short():
    many = Model(np.eye(30), np.zeros(30))
    with pytest.raises(InputError, match=r"unknown class 99; the model's classes are 0, 1, .*, 19, …"):
        invert(many, np.zeros(30), 99)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_path_refuses_a_bad_lam_between(value):
    with pytest.raises(InputError, match=f"lam must be a number > 0; got {value}"):
        path(MODEL, X, "a").at_lam(value)


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_a_path_refuses_a_bad_prob_between(value):
    with pytest.raises(InputError, match=f"prob must lie strictly between 0 and 1; got {value}"):
        path(MODEL, X, "a").at_prob(value)


@pytest.mark.parametrize("index", [2, -3, 10**9])
@pytest.mark.parametrize("answers", [invert(MODEL, [X, X]), path(MODEL, X, lams=[1.0, 0.1])], ids=["batch", "path"])
def test_an_index_out_of_range_says_how_many_answers_there_are(answers, index):
    with pytest.raises(IndexError, match=f"there are 2 answers; got index {index}"):
        answers[index]


# ---- solved: targets ----


@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
def test_the_class_that_is_predicted_already_is_solved_all_the_same(lam):
    assert MODEL.predict(X) == "a"
    cf = sound(invert(MODEL, X, "a", lam=lam))
    assert cf.proba[0] > MODEL.predict_proba(X)[0]
    assert cf.distance > 0
    true_bound(cf)


def test_a_probability_that_the_source_has_already_is_answered_by_the_source():
    cf = sound(invert(MODEL, X, "a", prob=0.8))
    np.testing.assert_array_equal(cf.x, X)
    assert (cf.distance, cf.lam, cf.gap, cf.status) == (0.0, np.inf, 0.0, Status.EXACT)


def test_a_higher_probability_of_the_class_predicted_already_moves_the_source():
    cf = sound(invert(MODEL, X, "a", prob=0.9))
    assert cf.distance > 0
    assert cf.proba[0] == pytest.approx(0.9, abs=1e-12)


@pytest.mark.parametrize("target", [None, "other", "opposite"])
@pytest.mark.parametrize("x", [X, -X])
def test_with_two_classes_any_other_is_the_opposite(target, x):
    cf = sound(invert(PAIR, x, target))
    assert cf.target != PAIR.predict(x)
    assert cf.target == PAIR.predict(cf.x)


@pytest.mark.parametrize("options", [{"prob": 0.7}, {"lam": 0.05}])
@pytest.mark.parametrize("target", [None, "other"])
def test_any_other_class_is_the_best_of_all_others(rng, options, target):
    model = Model(rng.normal(size=(6, 8)), rng.normal(size=6))
    measure = "distance" if "prob" in options else "objective"
    for x in rng.normal(size=(20, 8)):
        cf = sound(invert(model, x, target, **options))
        others = [getattr(invert(model, x, k, **options), measure) for k in range(6) if k != model.predict(x)]
        assert cf.target != model.predict(x)
        assert getattr(cf, measure) == min(others)


def test_a_table_may_mix_labels_and_nearest_classes():
    cfs = invert(MODEL, [X, X, X], ["a", None, "other"])
    nearest = invert(MODEL, X).target
    assert cfs.target.tolist() == ["a", nearest, nearest]


@pytest.mark.parametrize("word", ["other", "opposite"])
def test_a_class_of_that_name_comes_first(word):
    named = Model(A, B, classes=["a", word, "c"])
    assert sound(invert(named, X, word)).target == word


@pytest.mark.parametrize(
    ("classes", "label"),
    [
        (["a", "b", "c"], np.str_("b")),
        (np.array(["a", "b", "c"], dtype=object), "b"),
        ([10, 20, 30], np.int32(20)),
        ([10, 20, 30], 20.0),
        (np.array([10, 20, 30], dtype=np.uint8), 20),
        ([0.5, 1.5, 2.5], np.float32(1.5)),
        ([(0, 1), (1, 0), (1, 1)], (1, 0)),
        ([None, "b", 3], "b"),
        (np.array(["2020", "2021", "2022"], dtype="M8[Y]"), np.datetime64("2021")),
    ],
)
def test_labels_of_many_kinds_name_the_same_class(classes, label):
    cf = sound(invert(Model(A, B, classes=classes), X, label))
    assert cf.target == label
    np.testing.assert_array_equal(cf.x, invert(Model(A, B), X, 1).x)


@pytest.mark.parametrize("label", [True, np.True_])
def test_labels_may_be_booleans(label):
    cf = sound(invert(Model(A[:2], B[:2], classes=[False, True]), X, label))
    assert cf.target is True


@pytest.mark.parametrize("targets", [["a", "b"], np.array(["a", "b"]), pd.Series(["a", "b"], index=[7, 8])])
def test_one_target_per_row_may_be_a_list_an_array_or_a_series(targets):
    cfs = invert(MODEL, [X, X], targets)
    assert cfs.target.tolist() == ["a", "b"]
    assert [cf.target for cf in cfs] == ["a", "b"]


# ---- solved: batches ----


@pytest.mark.parametrize("options", [{"lam": 0.1}, {"prob": 0.9}, {"lam": []}, {"prob": []}, {}])
@pytest.mark.parametrize("target", ["a", None, []])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_table_has_no_answers(backend, target, options):
    cfs = invert(MODEL, np.empty((0, 4)), target, backend=backend, **options)
    assert (len(cfs), list(cfs), cfs.verify()) == (0, [], [])
    assert (cfs.x.shape, cfs.delta.shape, cfs.proba.shape, cfs.gap.shape) == ((0, 4), (0, 4), (0, 3), (0,))
    assert "0 rows" in repr(cfs)
    with pytest.raises(IndexError, match="there are 0 answers; got index 0"):
        cfs[0]


BAD_ROWS = {
    "nan": replaced(X, 2, np.nan),
    "inf": replaced(X, 0, np.inf),
    "inf and -inf": np.array([np.inf, -np.inf, 0.0, 1.0]),
    "all inf": np.full(4, np.inf),
    "overflow": HUGE,
}


@pytest.mark.parametrize("options", [{"lam": 0.1}, {"prob": 0.9}])
@pytest.mark.parametrize("target", ["b", None])
@pytest.mark.parametrize("bad", BAD_ROWS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_row_is_invalid_and_the_others_are_as_if_alone(rng, backend, bad, target, options):
    good = rng.normal(size=(3, 4))
    cfs = invert(MODEL, np.stack([good[0], BAD_ROWS[bad], *good[1:]]), target, backend=backend, **options)
    assert cfs.status[1] == Status.INVALID
    assert [name for name in NUMBERS if name != "source" and not np.isnan(getattr(cfs, name)[1]).all()] == []
    for row, x in zip([0, 2, 3], good, strict=True):
        alone = invert(MODEL, x, target, **options)
        np.testing.assert_allclose(sound(cfs[row]).x, alone.x, **SAME)
        assert (cfs[row].target, cfs[row].status) == (alone.target, alone.status)


def test_an_invalid_row_is_refused_by_verify_and_says_what_to_do():
    cf = invert(MODEL, [BAD_ROWS["nan"], X], "b")[0]
    assert cf.message.startswith("row 0 of x must be finite; feature ")
    with pytest.raises(CertificateError, match="no answer to verify: the source is not a finite input"):
        cf.verify()


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_a_table_with_bad_rows_can_be_printed(bad):
    assert "1 INVALID" in repr(invert(MODEL, [BAD_ROWS[bad], X], "b"))
    assert "INVALID" in repr(invert(MODEL, [BAD_ROWS[bad], X], "b")[0])
    assert "1 INVALID" in repr(invert(MODEL, [BAD_ROWS[bad]], "b"))


def test_a_table_of_one_row_is_a_table():
    cfs = invert(MODEL, X[None], "b", lam=[0.1])
    assert cfs.x.shape == (1, 4)
    np.testing.assert_allclose(sound(cfs[0]).x, invert(MODEL, X, "b", lam=0.1).x, **SAME)


EDGES = {
    "two classes": (A[:2], B[:2]),
    "all rows equal": (np.tile([0.1, 0.2, 0.3, 0.7], (3, 1)), B),
    "two rows equal": (A[[0, 0, 1]], np.zeros(3)),
    "a zero row": (A * [[1], [0], [1]], B),
    "a class between others": (np.vstack([A, A.mean(axis=0)]), np.zeros(4)),
    "large weights": (A * 1e6, B),
    "large biases": (A, B * 3e6),
    "small weights": (A * 1e-8, B),
    "one large column": (A * [1e8, 1.0, 1.0, 1.0], B),
}


@pytest.mark.parametrize("options", [{"lam": 1e-6}, {"lam": 1.0}, {"lam": 1e6}, {"prob": 0.6}, {"prob": NEARLY_ONE}])
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_a_kernel_answers_at_the_edges_as_one_source_at_a_time(rng, backend, edge, options):
    model, X = Model(*EDGES[edge]), rng.normal(size=(5, 4))
    cfs = invert(model, X, 0, backend=backend, **options)
    cfs.verify()
    for cf, x in zip(cfs, X, strict=True):
        alone = invert(model, x, 0, **options)
        # Not closer: with logits of 1e6 both stop somewhere in a goal that rounding has made 1e-8 wide.
        assert (cf.status, cf.distance) == (alone.status, pytest.approx(alone.distance, rel=1e-8))
        assert not cf.status.ok or sound(cf)


def test_out_of_the_wrong_shape_with_limits(rng):
    model = Model(rng.normal(size=(3, 4)), rng.normal(size=3))
    with pytest.raises(InputError, match=r"out must have shape \(5, 4\); got \(5, 3\)"):
        invert(model, rng.normal(size=(5, 4)), 1, max_changes=2, out=np.empty((5, 3)))


@pytest.mark.parametrize("form", [{"prob": 0.7}, {"lam": 0.1}])
def test_a_batch_is_its_rows(form, rng):
    model = ifonly.Model(rng.normal(size=(4, 6)), rng.normal(size=4), classes=list("abcd"))
    X, targets = rng.normal(size=(7, 6)), list("abcdabc")
    batch = ifonly.invert(model, X, targets, **form)
    assert isinstance(batch, ifonly.Counterfactuals)
    assert batch.target.tolist() == targets
    for i, cf in enumerate(batch):
        single = ifonly.invert(model, X[i], targets[i], **form)
        # the product X rowsᵀ of a batch and of a row may round differently
        np.testing.assert_allclose(cf.x, single.x, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(batch.x[i], cf.x, rtol=1e-13, atol=1e-14)
        for name in ("distance", "objective", "lam"):
            np.testing.assert_allclose(getattr(batch, name)[i], getattr(single, name), rtol=1e-11)
    assert len(batch.verify()) == 7


def test_lam_and_prob_may_differ_by_row(rng):
    model = ifonly.Model(rng.normal(size=(3, 5)), rng.normal(size=3))
    X = rng.normal(size=(3, 5))
    lams, probs = [0.1, 1.0, 10.0], [0.5, 0.7, 0.9]
    np.testing.assert_allclose(ifonly.invert(model, X, 0, lam=lams).lam, lams)
    assert (ifonly.invert(model, X, 0, prob=probs).proba[:, 0] >= probs).all()
    with pytest.raises(ifonly.InputError, match="lam must be one number or 3"):
        ifonly.invert(model, X, 0, lam=[1.0, 2.0])


def test_sparse_sources_give_the_dense_answers(rng):
    model = ifonly.Model(rng.normal(size=(5, 40)), rng.normal(size=5))
    X = rng.normal(size=(6, 40)) * (rng.uniform(size=(6, 40)) < 0.2)
    dense = ifonly.invert(model, X, 3, lam=0.05)
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array):
        np.testing.assert_allclose(ifonly.invert(model, kind(X), 3, lam=0.05).x, dense.x, rtol=1e-13, atol=1e-14)
    row = ifonly.invert(model, sparse.csr_matrix(X)[2], 3, lam=0.05)
    np.testing.assert_allclose(row[0].x, dense.x[2], rtol=1e-13, atol=1e-14)


# ---- one question, asked again ----


def test_an_ask_with_another_goal_shares_what_was_prepared():
    model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], classes=["a", "b"])
    ask = ifonly.ask(model, "b", prob=0.7, actions=ifonly.Actions(bounds=(-5, 5)))
    other = ask.at(prob=0.9).within(2.0)
    assert (other.question.prob, other.question.time_limit, ask.question.prob) == (0.9, 2.0, 0.7)
    assert other.conditions is ask.conditions
    alone = ifonly.invert(model, [2.0, 0.0], "b", prob=0.9, actions=ifonly.Actions(bounds=(-5, 5)))
    np.testing.assert_array_equal(other([2.0, 0.0]).x, alone.x)
    free = ifonly.ask(model, "b", prob=0.7)
    assert free.within(2.0) is free  # where nothing is searched, there is nothing to stop
    assert (free.per_source, ifonly.ask(model, "all").per_source, ifonly.ask(model, "b", n=3).per_source) == (1, 2, 3)
    assert not ask.row_by_row
    assert ifonly.ask(model, "b", lam=0.1, actions=ifonly.Actions(frozen=[0])).row_by_row


def test_limits_that_were_changed_in_place_are_asked_again():
    model, bounds = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], classes=["a", "b"]), {0: (1.5, 2.0)}
    actions = ifonly.Actions(bounds=bounds)
    first = [ifonly.invert(model, [2.0, 0.0], "b", actions=actions).x[0] for _ in range(3)]
    bounds[0] = (1.75, 2.0)
    assert (first, ifonly.invert(model, [2.0, 0.0], "b", actions=actions).x[0]) == ([1.5] * 3, 1.75)


def test_labels_that_are_equal_but_of_other_types_are_told_apart():
    model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], classes=[0, 1])
    for _ in range(3):
        assert ifonly.invert(model, [2.0, 0.0], 1).target == 1
        with pytest.raises(InputError, match="unknown class '1'"):
            ifonly.invert(model, [2.0, 0.0], "1")
        assert ifonly.invert(model, [2.0, 0.0], 1, max_changes=1).status.ok
        with pytest.raises(InputError, match="max_changes must be a whole number ≥ 0; got True"):  # though 1 == True
            ifonly.invert(model, [2.0, 0.0], 1, max_changes=True)


def test_a_model_that_is_asked_once_is_gone_with_its_last_user():
    model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    seen = weakref.ref(model)
    gc.disable()  # by itself, not because somebody looks for garbage
    try:
        ifonly.invert(model, [2.0, 0.0], 1, prob=0.75)
        del model
        assert seen() is None
    finally:
        gc.enable()


def test_no_more_than_some_questions_of_a_model_are_kept(monkeypatch):
    monkeypatch.setattr("ifonly.api.KEPT", 3)
    model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    for i in range(20):
        for _ in range(2):
            found = ifonly.invert(model, [2.0, 0.0], 1, prob=0.5 + i / 100)
            assert found.prob == 0.5 + i / 100
        assert len(model.memo["asked"]) <= 3


def test_a_table_of_no_rows_has_no_answers():
    model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0.0, 0.0, 0.0])
    for question in ({}, {"lam": 0.1}, {"backend": "cpu"}, {"actions": ifonly.Actions(frozen=[0])}):
        assert len(ifonly.invert(model, np.empty((0, 2)), 1, **question)) == 0
