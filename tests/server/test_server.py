"""The server's JSON API: its numbers are the library's, its files can be rechecked, and what it refuses it names."""

import base64
import csv
import io
import json
import re
import shutil
import subprocess
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.data import page
from helpers.serving import serving, serving_every_kind, toy_model
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import ifonly
from ifonly import Actions, Cost
from ifonly.server.schema import DIFFICULTY

SAME = 1e-12  # relative: one row among others, in the kernel for many, differs by rounding from the same row alone
ROW = {"income": 0.5, "loans": 2, "age": 31}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with serving_every_kind(folder) as found:
        yield found


@pytest.fixture(scope="module")
def pixels(server):
    model = ifonly.load(server.folder / "pixels.npz")
    return model, pd.read_parquet(server.folder / "pixels.parquet").drop(columns="digit").to_numpy()


def library(model, row, target, **options):
    """The same numbers as the server's, straight from the library."""
    cf = ifonly.invert(model, row, target, **options)
    return {
        "status": cf.status.name.lower(),
        "target": cf.target,
        "proba": dict(zip(map(str, model.classes.tolist()), cf.proba.tolist(), strict=True)),
        **{name: float(getattr(cf, name)) for name in ("lam", "distance", "cost", "objective", "gap", "grad_norm")},
    }, cf


def by_row(applicants, i):
    return {name: value.item() if hasattr(value, "item") else value for name, value in applicants.iloc[i].items()}


# ---- numbers ----


@pytest.mark.parametrize("asked", [{"prob": 0.9}, {"lam": 0.05}, {}])
def test_one_row_is_answered_as_the_library_does(server, pixels, asked):
    model, X = pixels
    found = server.answer(model="pixels", row=X[3].tolist(), target=7, delta=True, **asked)
    expected, cf = library(model, X[3], 7, **asked)
    assert {name: found[name] for name in ("status", "target")} == {"status": "exact", "target": 7}
    np.testing.assert_allclose(found["x"], cf.x, rtol=SAME, atol=SAME)
    np.testing.assert_allclose(found["delta"], cf.delta, rtol=1e-9, atol=SAME)
    for name in ("distance", "objective", "cost", "lam"):
        assert found[name] == pytest.approx(expected[name], rel=1e-9)
    assert model.predict_proba(np.array(found["x"]))[7] >= asked.get("prob", 0.0)  # to the last bit
    assert found["gap"] < 1e-12


def test_a_row_by_name_has_an_answer_by_name(server):
    found = server.answer(row=ROW, target="approved", prob=0.8)
    cf = ifonly.invert(toy_model(), [0.5, 2.0, 31.0], "approved", prob=0.8)
    assert list(found["x"]) == ["income", "loans", "age"]
    np.testing.assert_allclose(list(found["x"].values()), cf.x, rtol=SAME)
    np.testing.assert_allclose([found["delta"][name] for name in found["x"]], cf.delta, rtol=1e-9)


def test_without_names_the_change_comes_on_request(server, pixels):
    _, X = pixels
    for question in ({"row": X[3].tolist()}, {"index": 3}, {"index": 3, "max_changes": 64}):
        assert server.answer(model="pixels", target=7, **question)["delta"] is None
        assert len(server.answer(model="pixels", target=7, delta=True, **question)["delta"]) == 64


def test_no_target_is_the_nearest_other(server, pixels):
    model, X = pixels
    for target in (None, "other"):
        found = server.answer(model="pixels", row=X[0].tolist(), target=target)
        assert found["target"] == ifonly.invert(model, X[0]).target


def test_limits_cost_and_few_changes_are_the_library_s(server, bank, applicants):
    actions = {
        "frozen": ["age", "status"],
        "integer": ["duration", "amount", "rate"],
        "bounds": {"rate": [1, 4], "amount": [250, None]},
        "decrease": ["duration"],
    }
    found = server.answer(
        model="credit", index=805, target="approved", prob=0.7, actions=actions, cost={"l1": 0.1}, max_changes=3, detail="page"
    )
    own = {**actions, "bounds": {name: tuple(pair) for name, pair in actions["bounds"].items()}}
    expected, cf = library(
        bank, by_row(applicants, 805), "approved", prob=0.7, actions=Actions(**own), cost=Cost(l1=0.1), max_changes=3
    )
    assert {name: found[name] for name in expected} == expected  # bit by bit
    assert found["x"] == dict(cf.x)
    assert [(c["feature"], c["before"], c["after"]) for c in found["changes"]] == cf.changes()
    assert found["sentence"] == cf.sentence()
    assert found["n_changes"] == cf.n_changes == len(found["changes"])
    assert found["kept"] == 20 - cf.n_changes
    assert found["decision"]["from"] == "refused"
    assert found["decision"]["p_to"] == pytest.approx(expected["proba"]["approved"], abs=1e-15)


def test_difficulty_in_words_is_a_multiple_of_the_cost(server, bank, applicants):
    words = {"duration": "very hard", "purpose": "easy", "amount": "medium", "age": "impossible"}
    found = server.answer(
        model="credit", index=805, target="approved", prob=0.7, cost={"difficulty": words}, actions={"integer": ["rate"]}
    )
    per_unit = Cost().per_unit(bank).copy()
    for name, word in words.items():
        per_unit[bank.encoding.find(name).coordinates] *= DIFFICULTY.get(word, 1.0)
    row, actions = by_row(applicants, 805), Actions(frozen=["age"], integer=["rate"])
    expected, cf = library(bank, row, "approved", prob=0.7, cost=Cost(per_unit), actions=actions)
    assert {name: found[name] for name in expected} == expected
    assert found["x"] == dict(cf.x)
    assert found["x"]["age"] == row["age"]


def test_a_category_changes_only_to_what_is_allowed(server, bank, applicants):
    actions = {"frozen": [c for c in applicants.columns if c not in ("account", "savings")]}
    question = {"model": "credit", "index": 805, "target": "approved", "prob": 0.55, "actions": actions}
    free = server.answer(**question)["x"]
    own = by_row(applicants, 805)
    changed = next(name for name in ("account", "savings") if free[name] != own[name])
    others = [v for v in bank.encoding.find(changed).levels if v not in (free[changed], own[changed])]
    held = server.answer(**{**question, "actions": {**actions, "allow": {changed: others[:1]}}})
    assert held["x"][changed] in (others[0], own[changed])
    assert held["cost"] is None or held["cost"] >= server.answer(**question)["cost"]


def test_many_rows_and_rows_of_the_data(server, pixels):
    model, X = pixels
    reply = server.invert(model="pixels", rows=X[:5].tolist(), target=2, prob=0.6).json()["answers"]
    np.testing.assert_allclose([a["x"] for a in reply], ifonly.invert(model, X[:5], 2, prob=0.6).x, rtol=SAME, atol=SAME)
    by_index = server.invert(model="pixels", indices=[4, 0, 2], target=2, prob=0.6).json()["answers"]
    assert [a["index"] for a in by_index] == [4, 0, 2]
    np.testing.assert_allclose([a["x"] for a in by_index], [reply[i]["x"] for i in (4, 0, 2)], rtol=SAME, atol=SAME)


def test_numbers_in_base64_are_the_same_numbers(server, pixels):
    model, X = pixels

    def packed(values):
        return base64.b64encode(np.asarray(values, dtype="<f8").tobytes()).decode()

    def unpacked(text):
        return np.frombuffer(base64.b64decode(text), dtype="<f8")

    plain = server.answer(model="pixels", row=X[1].tolist(), target=4, prob=0.8, delta=True)
    found = server.answer(model="pixels", row=packed(X[1]), target=4, prob=0.8, pack=True, delta=True)
    assert unpacked(found["x"]).tolist() == plain["x"]
    assert unpacked(found["delta"]).tolist() == plain["delta"]
    many = server.invert(model="pixels", rows=packed(X[:7]), target=4, prob=0.8, pack=True).json()["answers"]
    expected = ifonly.invert(model, X[:7], 4, prob=0.8).x
    np.testing.assert_allclose([unpacked(a["x"]) for a in many], expected, rtol=SAME, atol=SAME)
    assert server.refused(model="pixels", row=packed(X[1][:-1]))[1:] == ("row", "row has 63 numbers; a row has 64")
    assert server.refused(model="pixels", rows=packed(X[1][:-1]))[1:] == ("rows", "rows has 63 numbers; each row has 64")
    assert server.refused(model="pixels", row="nonsense!")[:2] == (422, "row")
    assert server.refused(model="pixels", row=packed([np.nan] * 64))[:2] == (400, "row")
    assert server.refused(model="credit", row="AAAA")[:2] == (422, "row")


def test_a_row_among_many_that_cannot_be_solved_says_so(server, pixels):
    _, X = pixels
    huge = [1.7e308 * (-1) ** i for i in range(64)]
    answers = server.invert(model="pixels", rows=[X[0].tolist(), huge], target=3).json()["answers"]
    assert [a["status"] for a in answers] == ["exact", "invalid"]
    assert answers[1]["x"] is None


def test_many_rows_with_limits_and_categories(server, bank, applicants):
    question = {"model": "credit", "target": "approved", "prob": 0.6, "actions": {"frozen": ["age"], "integer": ["rate"]}}
    many = server.invert(indices=[805, 11, 14], **question).json()["answers"]
    for found, i in zip(many, (805, 11, 14), strict=True):
        actions = Actions(frozen=["age"], integer=["rate"])
        expected, cf = library(bank, by_row(applicants, i), "approved", prob=0.6, actions=actions)
        assert found["cost"] == pytest.approx(expected["cost"], rel=1e-9)
        assert found["x"]["purpose"] == cf.x["purpose"]
    named = server.invert(rows=[by_row(applicants, 805)], **question).json()["answers"]
    assert named[0]["cost"] == pytest.approx(many[0]["cost"], rel=1e-9)


def test_a_column_of_yes_and_no_stays_one(tmp_path):
    frame = pd.DataFrame({"insured": [True, False] * 20, "job": list("abba") * 10, "age": np.arange(40.0)})
    decision = np.where(frame["age"] + 8 * frame["insured"] > 25, "yes", "no")
    columns = ColumnTransformer([("one-hot", OneHotEncoder(), ["job"])], remainder="passthrough")
    model = ifonly.as_model(make_pipeline(columns, LogisticRegression()).fit(frame, decision))
    model.save(tmp_path / "flags.npz")
    frame.to_parquet(tmp_path / "flags.parquet")
    with serving(tmp_path, tmp_path / "flags.npz", tmp_path / "flags.parquet") as server:
        kinds = {column["name"]: column["kind"] for column in server.client.get("/v1/model").json()["features"]}
        assert kinds == {"insured": "flag", "job": "category", "age": "number"}
        row = {"insured": False, "job": "b", "age": 20.0}
        found = server.answer(row={**row, "insured": 0}, target="yes", prob=0.7)
        by_index = server.answer(index=19, edits={"job": "b"}, target="yes", prob=0.7)
        assert server.refused(row={**row, "insured": 0.5})[:2] == (422, "row.insured")
    cf = ifonly.invert(ifonly.load(tmp_path / "flags.npz"), row, "yes", prob=0.7)
    assert found["x"] == dict(cf.x)
    assert found["x"]["insured"] in (False, True)
    assert by_index["x"]["insured"] in (False, True)


def test_edits_are_put_into_the_row_first(server, bank, applicants):
    found = server.answer(model="credit", index=805, edits={"duration": 12, "housing": "rent"}, target="approved", prob=0.9)
    row = {**by_row(applicants, 805), "duration": 12, "housing": "rent"}
    assert found["x"] == dict(ifonly.invert(bank, row, "approved", prob=0.9).x)


def test_several_plans(server, bank, applicants):
    reply = server.invert(model="credit", index=805, target="approved", prob=0.6, n=3).json()["answers"]
    plans = ifonly.invert(bank, by_row(applicants, 805), "approved", prob=0.6, n=3)
    assert [a["cost"] for a in reply] == [plan.cost for plan in plans]


def test_scores_without_probabilities_are_asked_with_a_margin(server):
    found = server.answer(model="hard", row={"u": -1.0, "v": -1.0}, target="yes", margin=0.5, detail="page")
    cf = ifonly.invert(ifonly.load(server.folder / "hard.npz"), [-1.0, -1.0], "yes", margin=0.5)
    assert list(found["x"].values()) == cf.x.tolist()
    assert found["proba"] is None
    status, _, message = server.refused(model="hard", row={"u": -1.0, "v": -1.0}, prob=0.5)
    assert status == 422
    assert "give margin" in message


def test_what_cannot_be_reached_is_an_answer_that_says_why(server):
    question = {
        "row": ROW,
        "target": "approved",
        "prob": 0.9,
        "actions": {"frozen": ["income", "age"], "bounds": {"loans": [1, 5]}},
    }
    found = server.answer(detail="page", **question)
    cf = ifonly.invert(
        toy_model(), [0.5, 2, 31], "approved", prob=0.9, actions=Actions(frozen=["income", "age"], bounds={"loans": (1, 5)})
    )
    assert (found["status"], found["blocking"], found["message"]) == ("unreachable", list(cf.blocking), cf.message)
    assert found["best"] == pytest.approx(float(cf.proba[1]), rel=1e-15)


@pytest.mark.parametrize("top", [0, 2])
def test_a_page_tells_the_largest_changes(server, pixels, top):
    found = server.answer(model="pixels", index=0, target=1, prob=0.9, detail="page", top=top)
    assert (len(found["changes"]), found["n_changes"]) == (top, 64)


# ---- paths, files, rows ----


def test_a_path_is_the_library_s(server, pixels):
    model, X = pixels
    lams = [10.0, 1.0, 0.1, 0.01]
    reply = server.client.post(
        "/v1/path", json={"model": "pixels", "index": 2, "target": 5, "lams": lams, "detail": "x"}
    ).json()
    path = ifonly.path(model, X[2], 5, lams=lams)
    assert reply["prob"] == path.proba[:, 5].tolist()
    assert reply["x"] == [cf.x.tolist() for cf in path]
    assert (reply["lams"], reply["complete"], reply["n_changed"]) == (lams, True, [64] * 4)
    assert reply["p_now"] == pytest.approx(model.predict_proba(X[2])[5], rel=1e-14)


def test_a_path_with_limits(server, bank, applicants):
    question = {"model": "credit", "index": 805, "target": "approved", "lams": [1.0, 0.1], "actions": {"integer": ["duration"]}}
    reply = server.client.post("/v1/path", json=question).json()
    path = ifonly.path(bank, by_row(applicants, 805), "approved", lams=[1.0, 0.1], actions=Actions(integer=["duration"]))
    assert reply["distance"] == path.distance.tolist()
    assert reply["n_changed"] == path.n_changes.tolist()


def test_a_path_along_probabilities(server, bank, applicants):
    probs = [0.55, 0.7, 0.9]
    reply = server.client.post("/v1/path", json={"model": "credit", "index": 805, "target": "approved", "probs": probs}).json()
    answers = [ifonly.invert(bank, by_row(applicants, 805), "approved", prob=p) for p in probs]
    # Rows that are solved side by side are rounded otherwise.
    assert reply["distance"] == pytest.approx([cf.distance for cf in answers], rel=1e-12)
    assert reply["lams"] == pytest.approx([cf.lam for cf in answers], rel=1e-12)
    contradictory = {"bounds": {"duration": [100, 200]}, "frozen": ["duration"]}
    refused = server.refused("/v1/path", model="credit", index=805, target="approved", probs=probs, actions=contradictory)
    assert "duration is frozen at" in refused[2]
    assert server.refused("/v1/path", row=ROW, lams=[1.0], probs=[0.5])[1] == "probs"


def test_the_receipt_can_be_rechecked_from_the_model_alone(server, bank):
    question = {"model": "credit", "index": 805, "target": "approved", "prob": 0.7, "n": 2, "plan": 1}
    reply = server.client.post("/v1/download", json=question)
    assert 'filename="ifonly-answer.json"' in reply.headers["content-disposition"]
    certificate = ifonly.verify(reply.text, bank)
    assert certificate.gap < 1e-9
    assert json.loads(reply.text)["model"]["fingerprint"] == server.client.get("/v1/model?model=credit").json()["fingerprint"]
    with pytest.raises(ifonly.IfonlyError):
        ifonly.verify(reply.text, toy_model())


def test_the_table_and_the_page_as_files(server, bank, applicants):
    question = {"model": "credit", "index": 805, "target": "approved", "prob": 0.7}
    table = list(csv.reader(io.StringIO(server.client.post("/v1/download?format=csv", json=question).text)))
    cf = ifonly.invert(bank, by_row(applicants, 805), "approved", prob=0.7)
    assert [row[0] for row in table[1:]] == [name for name, _, _ in cf.changes()]
    assert [row[2] for row in table[1:]] == [str(after) for _, _, after in cf.changes()]
    page = server.client.post("/v1/download?format=html", json=question)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<html" in page.text
    assert cf.changes()[0][0] in page.text


def test_a_letter_as_a_file(server, bank, applicants, tmp_path):
    question = {"model": "credit", "index": 805, "target": "approved", "prob": 0.7, "n": 2}
    reply = server.client.post("/v1/download?format=letter&lang=de", json=question)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert 'filename="ifonly-letter.html"' in reply.headers["content-disposition"]
    assert '<html lang="de">' in reply.text
    plans = ifonly.invert(bank, by_row(applicants, 805), "approved", prob=0.7, n=2)
    plans.to_html(tmp_path / "letter.html", template="letter", language="de")
    assert reply.text == (tmp_path / "letter.html").read_text()  # both plans, as the library tells them
    alone = server.client.post("/v1/download?format=letter", json={"model": "credit", "index": 805, "target": "approved"})
    assert '<html lang="en">' in alone.text
    assert "Possibility 2" not in alone.text


def test_a_letter_that_cannot_be_written_is_refused(server):
    status, field, message = server.refused("/v1/download?format=letter&lang=tlh", row=ROW)
    assert (status, field) == (422, "lang")
    assert "lang must be one of de, en, es, fr" in message
    status, _, message = server.refused("/v1/download?format=letter", row=ROW, target="refused", lam=1e6)
    assert status == 422
    assert "a letter says what would have changed the decision" in message


def test_a_cell_of_the_table_is_no_formula():
    from ifonly.server.replies import as_file

    model = ifonly.Model.binary([1.0], 0.0, ["no", "yes"], ["=HYPERLINK(1)"])
    assert "'=HYPERLINK(1)" in as_file(None, ifonly.invert(model, [-1.0], "yes"), "csv")


def test_a_model_is_described(server, applicants):
    found = server.client.get("/v1/model?model=credit").json()
    columns = {column["name"]: column for column in found["features"]}
    age = columns["age"]
    assert (age["low"], age["high"], age["whole"]) == (applicants["age"].min(), applicants["age"].max(), True)
    assert age["typical"] == applicants["age"].quantile(0.5, interpolation="lower")
    assert columns["housing"]["kind"] == "category"
    assert columns["housing"]["values"] == sorted(applicants["housing"].unique())
    assert columns["housing"]["typical"] == applicants["housing"].mode()[0]
    assert (found["classes"], found["rows"], found["named"]) == (["approved", "refused"], 1000, True)
    assert found["limits"] == {"max_rows": 1000, "max_body": 8 * 2**20, "timeout_s": 10.0, "max_n": 10}
    pixels = server.client.get("/v1/model?model=pixels").json()
    assert (pixels["image"], pixels["named"], pixels["keys"]) == ([8, 8], False, ["digit"])


def test_rows_come_in_pages_with_what_the_model_makes_of_them(server, bank, applicants):
    page = server.client.get("/v1/rows?model=credit&offset=990&limit=20").json()
    assert (page["total"], page["matched"], [row["index"] for row in page["rows"]]) == (1000, 1000, list(range(990, 1000)))
    predicted, p = bank.predict(applicants[990:]), bank.predict_proba(applicants[990:])
    assert [row["predicted"] for row in page["rows"]] == predicted.tolist()
    assert [row["proba"]["refused"] for row in page["rows"]] == pytest.approx(p[:, 1])
    assert page["rows"][3]["values"] == by_row(applicants, 993)
    assert server.client.get("/v1/rows?model=credit&offset=5000").json()["rows"] == []


def test_rows_are_searched_by_text_number_and_class(server, bank, applicants):
    def search(**query):
        found = server.client.get("/v1/rows", params={"model": "credit", "limit": 500, **query}).json()
        assert found["matched"] == len(found["rows"])
        return [row["index"] for row in found["rows"]]

    texts = applicants.select_dtypes(exclude="number")
    has_car = texts.apply(lambda column: column.str.contains("used car", case=False)).any(axis=1)
    assert search(q="uSeD cAr") == np.flatnonzero(has_car).tolist()
    numbers = applicants.select_dtypes("number")
    assert search(q="42") == np.flatnonzero((numbers == 42).any(axis=1)).tolist()
    refused = bank.predict(applicants) == "refused"
    assert search(**{"class": "refused"}) == np.flatnonzero(refused).tolist()
    assert search(**{"class": "refused", "q": "used car"}) == np.flatnonzero(has_car & refused).tolist()
    assert search(q="no such thing") == []


@pytest.mark.seconds
def test_keys_of_any_type_are_shown(tmp_path):
    toy_model().save(tmp_path / "toy.npz")
    keys = {
        "born": pa.array([date(1990, 5, 1), None]),
        "sum": pa.array([Decimal("1.50"), Decimal("2.00")]),
        "raw": pa.array([b"ab", b""]),
        "tags": pa.array([["a", "b"], []]),
        "big": pa.array([2**63, 1], pa.uint64()),
        "part": pa.array([float("nan"), float("inf")]),
    }
    numbers = {name: pa.array([0.5, 1.5]) for name in ("income", "loans", "age")}
    pq.write_table(pa.table({**keys, **numbers}), tmp_path / "toy.parquet")
    with serving(tmp_path, tmp_path / "toy.npz", tmp_path / "toy.parquet") as server:
        rows = server.client.get("/v1/rows").json()["rows"]
        assert rows[0]["keys"] == {
            "born": "1990-05-01", "sum": "1.50", "raw": "b'ab'", "tags": "['a', 'b']", "big": 2**63, "part": None,
        }  # fmt: skip
        assert rows[1]["keys"]["born"] is None
        assert [row["index"] for row in server.client.get("/v1/rows?q=1990").json()["rows"]] == [0]


def test_rows_that_cannot_be_read_say_why(server):
    rows = server.client.get("/v1/rows").json()["rows"]
    assert [row["keys"]["id"] for row in rows] == ["007", "008", "Anna", "010", "011"]
    assert [row["problem"] is None for row in rows] == [True, True, False, False, True]
    assert "income is 'x', no number" in rows[2]["problem"]
    assert [row["index"] for row in server.client.get("/v1/rows?q=anna").json()["rows"]] == [2]
    status, field, message = server.refused(index=3)
    assert (status, field) == (422, "index")
    assert "loans is missing" in message
    assert server.answer(index=2, edits={"income": 1.0})["status"] == "exact"


# ---- what is refused ----

WRONG = [
    ({}, 422, "row", "give one of row, rows, index, indices; got none"),
    ({"row": ROW, "index": 1}, 422, "index", "got row and index"),
    ({"row": {**ROW, "incme": 1}}, 422, "row.incme", "did you mean income"),
    ({"row": {"income": 1.0, "loans": 1}}, 422, "row.age", "no value for age"),
    ({"row": {**ROW, "age": "old"}}, 422, "row.age", "must be a number; got 'old'"),
    ({"row": {**ROW, "age": None}}, 422, "row.age", "must be a number; got null"),
    ({"row": [1.0, 2.0]}, 422, "row", "must have 3 values"),
    ({"row": [1.0, 2.0, "x"]}, 422, "row.2", "must be a number"),
    ({"row": [1.0, 2.0, 10**400]}, 422, "row.2", "very many digits"),
    ({"row": 7}, 422, "row", "got 7"),
    ({"rows": []}, 422, "rows", "one or more; got a list"),
    ({"rows": [ROW, 5]}, 422, "rows.1", "got 5"),
    ({"index": -1}, 422, "index", "must be ≥ 0"),
    ({"index": 1.5}, 422, "index", "must be a whole number; got 1.5"),
    ({"index": 99}, 422, "index", "there is no row 99"),
    ({"indices": [0, 99]}, 422, "indices.1", "there is no row 99"),
    ({"index": 0, "edits": {"ago": 5}}, 422, "edits.ago", "no column"),
    ({"row": ROW, "edits": {"age": 5}}, 422, "edits", "edits go with index"),
    ({"row": ROW, "target": "aproved"}, 422, "target", "refused, approved; got 'aproved'"),
    ({"row": ROW, "target": [1]}, 422, "target", "got a list"),
    ({"row": ROW, "prob": 1}, 422, "prob", "must be < 1"),
    ({"row": ROW, "prob": "0.5"}, 422, "prob", "must be a number; got '0.5'"),
    ({"row": ROW, "lam": 0}, 422, "lam", "must be ≥ 1e-30"),
    ({"row": ROW, "prob": 0.5, "lam": 1}, 422, "prob", "one of lam, prob and margin"),
    ({"row": ROW, "probability": 0.5}, 422, "probability", "is not known"),
    ({"row": ROW, "model": "nope"}, 404, "model", "no model is called 'nope'"),
    ({"row": ROW, "max_changes": -1}, 422, "max_changes", "must be ≥ 0"),
    ({"row": ROW, "n": 11}, 422, "n", "must be ≤ 10"),
    ({"rows": [ROW], "n": 2}, 422, "n", "n is for one row"),
    ({"row": ROW, "detail": "all"}, 422, "detail", "must be 'answer' or 'page'"),
    ({"row": ROW, "actions": {"frozen": ["ge"]}}, 422, "actions.frozen.ge", "unknown feature 'ge'"),
    ({"row": ROW, "actions": {"frozen": "age"}}, 422, "actions.frozen", "must be a list"),
    ({"row": ROW, "actions": {"bounds": {"age": [60, 20]}}}, 422, "actions.bounds.age", "60"),
    ({"row": ROW, "actions": {"bounds": {"age": [1]}}}, 422, "actions.bounds.age", "a pair"),
    ({"row": ROW, "actions": {"bounds": {"age": [40, None]}, "frozen": ["age"]}}, 422, "actions.bounds.age", "frozen at 31"),
    ({"row": ROW, "actions": {"step": {"age": 0}}}, 422, "actions.step.age", "must be a number > 0"),
    ({"row": ROW, "actions": {"linear": [[{"ag": 1}, "<=", 2]]}}, 422, "actions.linear.0.0.ag", "unknown feature 'ag'"),
    ({"row": ROW, "actions": {"linear": [[{"age": 1}, "<", 2]]}}, 422, "actions.linear.0.1", "must be"),
    ({"row": ROW, "actions": {"allow": {"age": [1]}}}, 422, "actions.allow.age", "no category"),
    ({"row": ROW, "actions": {"freeze": []}}, 422, "actions.freeze", "is not known"),
    ({"row": ROW, "cost": {"scale": "big"}}, 422, "cost.scale", "got 'big'"),
    ({"row": ROW, "cost": {"scale": {"age": -1}}}, 422, "cost.scale.age", "must be a number > 0"),
    ({"row": ROW, "cost": {"l1": -1}}, 422, "cost.l1", "≥ 0"),
    ({"row": ROW, "cost": {"difficulty": {"age": "hardish"}}}, 422, "cost.difficulty.age", "very hard and impossible"),
    ({"row": ROW, "cost": {"difficulty": {"ages": "hard"}}}, 422, "cost.difficulty.ages", "unknown feature"),
    ({"row": {**ROW, "age": 1e308}, "target": "approved"}, None, None, None),
    ({"model": "credit", "index": 1, "edits": {"housing": ["own"]}}, 422, "edits.housing", "one value"),
]


@pytest.mark.parametrize(("question", "status", "field", "message"), WRONG)
def test_what_is_wrong_is_named(server, question, status, field, message):
    if status is None:  # as large as numbers get: an answer, or a reason; never silence
        reply = server.invert(**question)
        assert reply.status_code == 422 or reply.json()["answers"][0]["status"] in ("exact", "unreachable")
        return
    found = server.refused(**question)
    assert found[:2] == (status, field)
    assert message in found[2]


def test_too_many_rows_at_once(server):
    status, field, message = server.refused(rows=[[1, 2, 3]] * 1001)
    assert (status, field, message) == (413, "rows", "at most 1000 rows at once; got 1001")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"row": {"income": %s, "loans": 1, "age": 3}}', "row.income"),
        ('{"row": [1, %s, 3]}', "row.1"),
        ('{"row": [1, 2, 3], "lam": %s}', "lam"),
        ('{"row": [1, 2, 3], "actions": {"bounds": {"age": [0, %s]}}}', "actions.bounds.age"),
        ('{"row": [1, 2, 3], "cost": {"l1": {"age": %s}}}', "cost.l1.age"),
    ],
)
def test_what_is_not_finite_is_refused_by_name(server, number, body, field):
    reply = server.client.post("/v1/invert", content=body % number, headers={"content-type": "application/json"})
    assert reply.status_code in (400, 422)
    assert reply.json()["error"]["field"] == field


def test_paths_and_downloads_name_the_field_as_well(server):
    assert server.refused("/v1/path", row=ROW, lams=[1.0, -1.0])[:2] == (422, "lams.1")
    assert server.refused("/v1/path", row=ROW, prob=0.5)[:2] == (422, "prob")
    assert server.refused("/v1/download", row=ROW, plan=3)[:2] == (422, "plan")
    assert server.refused("/v1/download?format=exe", row=ROW)[:2] == (422, "format")
    assert server.client.get("/v1/rows?class=x").json()["error"]["field"] == "class"
    assert server.client.get("/v1/rows?model=hard").status_code == 404


def test_the_examples_of_the_description_are_answered(server):
    description = server.client.get("/openapi.json").json()
    tried = 0
    for path in ("/v1/invert", "/v1/path", "/v1/download"):
        name = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        for example in description["components"]["schemas"][name.rpartition("/")[2]]["examples"]:
            assert server.client.post(path, json=example).status_code == 200
            tried += 1
    assert tried == 4


# ---- the examples of the docs ----


def examples(language):
    text = page("serve.md")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_example_in_python(server, capsys):
    (code,) = examples("python")
    exec(code.replace("http://localhost:8000/", server.url), {})
    said = capsys.readouterr().out
    cf = ifonly.invert(
        toy_model(),
        [0.5, 2, 31],
        "approved",
        prob=0.8,
        actions=Actions(frozen=["age"], integer=["loans"], bounds={"loans": (0, None)}),
    )
    expected = dict(zip(["income", "loans", "age"], cf.x.tolist(), strict=True))
    assert said.strip() == f"exact {expected} {float(cf.proba[1])}"


def test_the_example_for_the_shell(server):
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    (command,) = [code for code in examples("sh") if code.startswith("curl")]
    reply = subprocess.run(command.replace("http://localhost:8000/", server.url), shell=True, capture_output=True, check=True)
    assert json.loads(reply.stdout)["answers"][0]["status"] == "exact"


def test_the_example_of_an_error(server):
    (example,) = examples("json")
    reply = server.client.post("/v1/invert", json={"row": {"income": 0.5, "loans": 2}})
    assert reply.json() == json.loads(example)
