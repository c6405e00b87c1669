"""Answers as JSON: what is written comes back to the last bit, and whatever is changed in it is found."""

import copy
import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import ifonly
from ifonly import Actions, CertificateError, Cost, InputError, Model, Scaling, invert, verify
from ifonly.answers.record import answer_of, to_dict
from ifonly.model.store import fingerprint

RNG = np.random.default_rng(11)
A = RNG.normal(size=(3, 5))
THREE = Model(A, RNG.normal(size=3), ["p", "q", "r"], list("abcde"))
TWO = Model.binary(A[0], 0.3, ["no", "yes"], list("abcde"))
SCALED = Model(A, np.zeros(3), scaling=Scaling(RNG.normal(size=5) * 10, RNG.uniform(0.1, 9, 5)))
HARD = Model(A, THREE.b, ["p", "q", "r"], hard=True)
X = RNG.normal(size=5) * 2
FAR = THREE.label(int(THREE.predict_proba(X).argmin()))
BOUNDS = {"a": (-1.0, 0.1), "b": (None, 0.5)}
RULES = [({"a": 1.0, "b": 2.0}, "<=", 0.4), ({"d": 1.0, "e": -1.0}, "==", float(X[3] - X[4]))]
TIGHT = Actions(bounds=dict.fromkeys("abd", (-1.2, 1.2)), frozen=["c", "e"])

ANSWERS = {
    "prob": (THREE, lambda: invert(THREE, X, FAR, prob=0.9)),
    "lam": (THREE, lambda: invert(THREE, X, FAR, lam=0.1)),
    "two classes": (TWO, lambda: invert(TWO, X, "other", prob=0.75)),
    "scaled": (SCALED, lambda: invert(SCALED, X, "other", prob=0.8)),
    "units": (THREE, lambda: invert(THREE, X, FAR, prob=0.9, cost=Cost({"a": 3.0}))),
    "sparse": (THREE, lambda: invert(THREE, X, FAR, prob=0.9, cost=Cost({"a": 3.0}, l1=0.2))),
    "matrix": (THREE, lambda: invert(THREE, X, FAR, prob=0.8, cost=Cost(matrix=np.eye(5) + 0.3, l1=0.1))),
    "limits, prob": (THREE, lambda: invert(THREE, X, FAR, prob=0.8, actions=Actions(bounds=BOUNDS, linear=RULES))),
    "limits, lam": (THREE, lambda: invert(THREE, X, FAR, lam=0.1, actions=Actions(bounds=BOUNDS, increase=["e"]))),
    "two, limits": (TWO, lambda: invert(TWO, X, "other", prob=0.75, actions=Actions(bounds=BOUNDS, decrease=["d"]))),
    "whole numbers": (THREE, lambda: invert(THREE, X, FAR, prob=0.8, actions=Actions(integer=["a", "b"], step={"c": 0.1}))),
    "whole, lam": (THREE, lambda: invert(THREE, X, FAR, lam=0.1, actions=Actions(integer=["a", "b"]))),
    "few": (TWO, lambda: invert(TWO, X, "other", prob=0.75, max_changes=2)),
    "out of reach": (THREE, lambda: invert(THREE, X, FAR, prob=0.9999, actions=TIGHT)),
    "two, out of reach": (TWO, lambda: invert(TWO, X, "other", prob=0.999999, actions=TIGHT)),
    "margin": (HARD, lambda: invert(HARD, X, FAR, margin=0.5)),
    "margin, limits": (HARD, lambda: invert(HARD, X, FAR, margin=0.1, actions=Actions(integer=[0]))),
    "there already": (THREE, lambda: invert(THREE, X, THREE.predict(X), prob=0.1)),
    "in a table": (THREE, lambda: invert(THREE, [-X, X], FAR, prob=0.9)[1]),
    "one of several": (TWO, lambda: invert(TWO, X, "other", prob=0.75, n=3)[2]),
    "on a path": (THREE, lambda: ifonly.path(THREE, X, "q")[40]),
    "tolerant": (THREE, lambda: invert(THREE, X, FAR, lam=0.01, tol=1e-3)),
}
SEARCHED = {"whole numbers", "whole, lam", "few", "margin, limits"}


@pytest.fixture(scope="module")
def mixed():
    """A pipeline of numbers (one bent) and categories, and a row that it refuses."""
    rng = np.random.default_rng(7)
    n = 300
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 70, n),
            "income": rng.lognormal(8, 1, n).round(),
            "job": rng.choice(["none", "some", "boss"], n),
        }
    )
    y = np.where(0.02 * frame["age"] + np.log1p(frame["income"]) - 9 + (frame["job"] == "boss") > 0, "yes", "no")
    bent = make_pipeline(FunctionTransformer(np.log1p, inverse_func=np.expm1), StandardScaler())
    columns = make_column_transformer((StandardScaler(), ["age"]), (bent, ["income"]), (OneHotEncoder(), ["job"]))
    estimator = make_pipeline(columns, LogisticRegression()).fit(frame, y)
    return estimator, frame[estimator.predict(frame) == "no"].iloc[0]


def signed(data):
    """The record with its digest made to fit: what somebody does who wants to deceive."""
    from ifonly.answers.record import _digest

    rest = {key: value for key, value in data.items() if key != "digest"}
    return {**rest, "digest": _digest(rest)}


# ---- there and back ----


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_written_down_stands_up(case, tmp_path):
    model, make = ANSWERS[case]
    cf = make()
    file = tmp_path / "answer.json"
    text = cf.to_json(file)
    for record in (text, file, str(file), json.loads(text)):
        found = verify(record, model)
        np.testing.assert_allclose(found.distance, cf.distance, rtol=1e-9, atol=1e-12)
        assert (found.claim, found.unproved, found.notes) == ("proved", (), ())
    assert (json.loads(text)["proof"] is not None) is (case in SEARCHED or "out of reach" in case)


@pytest.mark.parametrize("case", ANSWERS)
def test_every_number_comes_back_to_the_last_bit(case):
    model, make = ANSWERS[case]
    cf = make()
    claim, made = answer_of(json.loads(cf.to_json()), model), cf
    unweighed = case in SEARCHED and "lam" not in case  # a search for a goal has no use for λ
    assert (math.isnan(claim.lam) and math.isnan(claim.objective)) is unweighed
    weighed = () if unweighed else ("lam", "objective")
    for name in (
        "source",
        "x",
        "proba",
        "prob",
        "distance",
        "grad_norm",
        "status",
        "cost",
        "gap",
        "bound",
        "n_nodes",
        *weighed,
    ):
        np.testing.assert_array_equal(getattr(claim, name), getattr(made, name), err_msg=name)
    assert claim.target == made.target
    if cf.within is not None:
        ground, own = claim.within.conditions, cf.within.conditions
        for name in ("per_unit", "mu"):
            np.testing.assert_array_equal(getattr(ground, name), getattr(own, name), err_msg=name)
        for name in ("lo", "hi", "frozen", "increase", "decrease", "step", "C", "rest", "equal"):
            np.testing.assert_array_equal(getattr(ground.limits, name), getattr(own.limits, name), err_msg=name)
        assert (ground.max_changes, ground.margin) == (own.max_changes, own.margin)


def test_an_answer_in_the_users_own_columns_stands_up(mixed):
    estimator, row = mixed
    for options in ({}, {"actions": Actions(frozen=["age"], integer=["income"])}, {"max_changes": 1}, {"cost": Cost(l1=0.1)}):
        cf = invert(estimator, row, "yes", prob=0.7, **options)
        record = json.loads(cf.to_json())
        assert [change[0] for change in record["changes"]] == [change[0] for change in cf.changes()]
        verify(record, estimator)
        for i, (name, before, after) in enumerate(record["changes"]):
            for wrong in ([name, after, after], [name, before, before], ["age2", before, after]):
                changed = copy.deepcopy(record)
                changed["changes"][i] = wrong
                with pytest.raises(CertificateError, match="listed"):
                    verify(signed(changed), estimator)
        without = copy.deepcopy(record)
        del without["changes"][0]
        with pytest.raises(CertificateError, match="listed"):
            verify(signed(without), estimator)


def test_limits_of_the_models_own_columns_cannot_be_left_out(mixed):
    estimator, row = mixed
    record = json.loads(invert(estimator, row, "yes", prob=0.7).to_json())
    for name, wrong in (("one_of", []), ("step", {}), ("bounds", {})):
        changed = copy.deepcopy(record)
        changed["limits"][name] = wrong
        with pytest.raises(CertificateError, match="looser than those of the model's own columns"):
            verify(signed(changed), estimator)


def test_an_answer_survives_pickling_with_its_units():
    import pickle

    cf = pickle.loads(pickle.dumps(invert(THREE, X, FAR, prob=0.9, cost=Cost({"a": 3.0}))))
    verify(cf.to_json(), THREE)


# ---- tampering ----


def leaves(data, at=()):
    """Every value in nested lists and objects, with the way to it."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, (*at, key))
    elif isinstance(data, list) and data:
        for i, value in enumerate(data):
            yield from leaves(value, (*at, i))
    else:
        yield at, data


def changed(data, at, value):
    out = copy.deepcopy(data)
    inner = out
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return out


def another(value):
    """A value of the same kind that is not the same."""
    if isinstance(value, bool) or value is None or value == []:
        return 7
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value + "x" if value not in ("inf", "nan") else 1.0
    return [1.0]


@pytest.mark.parametrize("case", ["prob", "limits, prob", "whole numbers", "out of reach", "units", "margin"])
def test_whatever_is_changed_is_found(case):
    model, make = ANSWERS[case]
    record = json.loads(make().to_json())
    for at, value in leaves(record):
        with pytest.raises((InputError, CertificateError)):
            verify(changed(record, at, another(value)), model)


@pytest.mark.parametrize("case", [case for case in ANSWERS if case not in ("tolerant", "there already")])
def test_whatever_is_changed_and_signed_again_is_found(case):
    model, make = ANSWERS[case]
    record = json.loads(make().to_json())
    missed = []
    for at, value in leaves(record):
        if at == ("digest",):
            continue
        try:
            verify(signed(changed(record, at, another(value))), model)
        except (InputError, CertificateError):
            continue
        missed.append(at)
    # a limit that does not bind may be moved: the claims hold with it as they do without
    still = {d for d, (a, b) in enumerate(zip(record["source"], record["x"], strict=True)) if a == b}
    idle = {("cost", name, d) for name in ("per_unit", "l1") for d in still}  # and so is a price that nobody pays
    counts = set() if case in SEARCHED else {("result", "n_nodes")}  # of a search that was not made: no claim about the optimum
    claimed = [at for at in missed if at[0] != "limits" and at not in idle | counts]
    # witnesses: whichever prove it will do
    witnesses = {("certificate", "multipliers"), ("proof", "tree"), ("proof", "multipliers")}
    assert [at for at in claimed if at[:2] not in witnesses] == []


SMALL = 1e-6


@pytest.mark.parametrize(
    "case", ["prob", "lam", "two classes", "scaled", "units", "sparse", "matrix", "limits, prob", "two, limits"]
)
def test_small_lies_are_found(case):
    model, make = ANSWERS[case]
    record = json.loads(make().to_json())
    assert record["changes"]
    lies = [(("x", 1), SMALL), (("source", 1), SMALL), (("result", "distance"), SMALL), (("result", "cost"), SMALL)]
    lies += [(("result", "objective"), SMALL), (("certificate", "bound"), SMALL), (("result", "proba", 0), SMALL)]
    if "prob" in record["asked"]:
        lies += [(("asked", "prob"), SMALL), (("asked", "prob"), -SMALL)]
    for at, by in lies:
        value = record
        for key in at:
            value = value[key]
        with pytest.raises(CertificateError):
            verify(signed(changed(record, at, value + by)), model)


STATUSES = {
    "prob": ("UNREACHABLE", "is within reach"),
    "lam": ("UNREACHABLE", "nothing is out of reach"),
    "limits, prob": ("STOPPED", "no search was made|is not what STOPPED says"),
    "out of reach": ("EXACT", "below the 0.9999 that was asked for"),
    "whole numbers": ("INVALID", "no answer to verify"),
}


@pytest.mark.parametrize("case", STATUSES)
def test_a_status_that_is_not_true_is_found(case):
    model, make = ANSWERS[case]
    status, words = STATUSES[case]
    record = changed(json.loads(make().to_json()), ("result", "status"), status)
    with pytest.raises(CertificateError, match=words):
        verify(signed(record), model)


def test_a_worse_answer_of_a_search_is_found():
    """x and all that follows from it are consistent, but it is not the best: its proof has cases that allow for better ones."""
    good = invert(TWO, X, "other", prob=0.75, actions=Actions(integer=["a", "b"]))
    worse = invert(TWO, X, "other", prob=0.75, actions=Actions(integer=["a", "b"], frozen=["d"]))
    assert worse.cost > good.cost
    record = to_dict(worse)
    record["limits"]["frozen"] = []
    for exact in (False, True):
        with pytest.raises(CertificateError, match="the lower bound that can be proved is"):
            verify(signed(record), TWO, exact=exact)
    record["proof"], record["result"]["n_nodes"] = to_dict(good)["proof"], good.n_nodes
    with pytest.raises(CertificateError, match="the lower bound that can be proved is"):
        verify(signed(record), TWO)
    for none in (None, {"left_out": 3}):
        found = verify(signed({**record, "proof": none}), TWO)
        assert found.claim == "not proved here"
        assert "comes without its proof" in found.unproved[0]


@pytest.mark.parametrize("case", [*sorted(SEARCHED), "limits, prob", "prob", "out of reach"])
def test_records_of_the_first_version_are_read(case):
    """They have a library and a number of iterations, and no proofs: what took a search is then not proved."""
    model, make = ANSWERS[case]
    record = to_dict(make())
    del record["proof"]
    old = {**record, "version": 1, "library": "ifonly 0.1", "result": {**record["result"], "n_iter": 7}}
    found = verify(signed(old), model)
    assert found.claim == ("not proved here" if case in SEARCHED or case == "out of reach" else "proved")
    with pytest.raises(InputError, match="too few or too many"):
        verify(signed({**old, "version": 2}), model)


def test_a_limit_that_is_broken_is_named():
    record = to_dict(invert(THREE, X, FAR, prob=0.8, actions=Actions(bounds=BOUNDS)))
    record["limits"]["bounds"]["b"] = [record["x"][1] + 1e-12, None]
    with pytest.raises(CertificateError, match="a limit is broken: b is"):
        verify(signed(record), THREE)


def test_a_limit_that_binds_cannot_be_taken_away():
    cf = invert(THREE, X, FAR, prob=0.8, actions=Actions(bounds=BOUNDS))
    assert cf.x[0] == BOUNDS["a"][1]
    record = to_dict(cf)
    record["limits"]["bounds"] = {}
    with pytest.raises(CertificateError, match="‖∂E"):
        verify(signed(record), THREE)


# ---- what is no record of this model ----


def test_another_model_is_refused():
    record = to_dict(invert(THREE, X, FAR, prob=0.9))
    for other in (TWO, SCALED, Model(THREE.A, THREE.b + 1e-12, THREE.classes, THREE.feature_names)):
        with pytest.raises(InputError, match="is for another model"):
            verify(record, other)


def test_a_fingerprint_sees_every_part_of_a_model(mixed):
    scaling = Scaling(np.ones(5), np.full(5, 2.0))
    models = [
        Model(A, np.zeros(3)),
        Model(A + 1e-15, np.zeros(3)),
        Model(A, [0.0, 0.0, 1e-300]),
        Model(A, np.zeros(3), ["p", "q", "r"]),
        Model(A, np.zeros(3), feature_names=list("abcde")),
        Model(A, np.zeros(3), scaling=scaling),
        Model(A, np.zeros(3), scaling=Scaling(np.ones(5), np.full(5, 3.0))),
        Model(A, np.zeros(3), hard=True),
        Model(A, np.zeros(3), ["0", "1", "2"]),
        ifonly.as_model(mixed[0]),
    ]
    assert len({fingerprint(model) for model in models}) == len(models)
    assert fingerprint(Model(A, [0.0, -0.0, 0.0])) == fingerprint(models[0])


def test_a_fingerprint_is_what_its_description_says():
    import hashlib

    model = Model([[1.0, 2.0], [3.0, 4.0]], [0.5, -0.5], ["no", "yes"], ["a", "b"])
    header = b'{"classes":["\'no\'","\'yes\'"],"encoding":null,"feature_names":["a","b"],"hard":false}'
    parts = b"\nA (2, 2)\n" + np.array([1.0, 2, 3, 4], "<f8").tobytes() + b"\nb (2,)\n" + np.array([0.5, -0.5], "<f8").tobytes()
    assert fingerprint(model) == "sha256:" + hashlib.sha256(header + parts).hexdigest()


BROKEN = {
    "no JSON": (lambda record: "{", "is no JSON"),
    "a list": (lambda record: {"format": "something else"}, "its format is 'something else'"),
    "a later version": (lambda record: {**record, "version": 99}, "reads up to 2"),
    "no version": (lambda record: {**record, "version": "1"}, "must be a whole number"),
    "a key too many": (lambda record: {**record, "more": 1}, "too few or too many of \\['more'\\]"),
    "a key too few": (lambda record: {k: v for k, v in record.items() if k != "x"}, "too few or too many of \\['x'\\]"),
    "an accident": (lambda record: {**record, "target": "s"}, "the digest differs"),
    "too few numbers": (lambda record: signed({**record, "x": record["x"][:-1]}), "x must have 5 numbers; got 4"),
    "no number": (lambda record: signed({**record, "x": [*record["x"][:-1], "one"]}), "'one' is no number"),
    "no class": (lambda record: signed({**record, "target": "z"}), "'z' is no class"),
    "two questions": (lambda record: signed({**record, "asked": {"prob": 0.9, "lam": 1.0}}), "one of prob, lam and margin"),
    "no such prob": (lambda record: signed({**record, "asked": {"prob": 1.5}}), "one of prob, lam and margin"),
    "names": (lambda record: signed({**record, "features": list("edcba")}), "features are not the model's"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_record_is_refused(case):
    make, words = BROKEN[case]
    with pytest.raises(InputError, match=words):
        verify(make(to_dict(invert(THREE, X, FAR, prob=0.9))), THREE)


def test_what_has_no_answer_cannot_be_verified():
    cf = invert(THREE, [[np.nan] * 5], "q", prob=0.9)[0]
    with pytest.raises(InputError, match="its source is not finite"):
        verify(cf.to_json(), THREE)


def test_json_is_strict_and_readable():
    def refuse(name):
        raise AssertionError(name)

    for model, make in ANSWERS.values():
        data = json.loads(make().to_json(), parse_constant=refuse)
        assert data["model"]["n_classes"] == model.n_classes
    data = to_dict(ANSWERS["limits, prob"][1]())
    assert data["limits"]["bounds"] == {"a": [-1.0, 0.1], "b": [None, 0.5]}
    assert data["limits"]["linear"][0] == [{"a": 1.0, "b": 2.0}, "<=", 0.4]
