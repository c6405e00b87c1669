"""What the server says of the data beside an answer: counts, neighbours and curves, against the library and pandas."""

import numpy as np
import pandas as pd
import pytest
from helpers.serving import make_toy, serving_every_kind

import ifonly
from ifonly.cli import credit
from ifonly.server.replies import BINS, COLUMNS, POINTS, STRONG


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overview")
    broad = ifonly.Model(np.random.default_rng(5).normal(size=(2, COLUMNS + 1)), np.zeros(2))
    broad.save(folder / "broad.npz")
    pd.DataFrame(np.random.default_rng(6).normal(size=(4, COLUMNS + 1))).to_csv(folder / "broad.csv", index=False)
    (folder / "empty.csv").write_text("income,loans,age\n")
    (folder / "empty.npz").write_bytes(make_toy(folder)[0].read_bytes())
    more = [folder / f"{name}.{kind}" for name in ("empty", "broad") for kind in ("npz", "csv")]
    with serving_every_kind(folder, *more) as found:
        yield found


def overview(server, model):
    return server.client.get("/v1/overview", params={"model": model}).json()


def around(server, **question):
    reply = server.client.post("/v1/around", json=question)
    assert reply.status_code == 200, reply.text
    return reply.json()


# ---- how common values are ----


def test_histograms_count_every_row(server, applicants):
    found = overview(server, "credit")
    assert (found["total"], found["sampled"]) == (1000, 1000)
    kinds = {f["name"]: f for f in server.client.get("/v1/model?model=credit").json()["features"]}
    for told in found["features"]:
        column, counts = applicants[told["name"]], told["counts"]
        if told["name"] in credit.CATEGORIES:
            assert counts == [int((column == value).sum()) for value in kinds[told["name"]]["values"]]
            continue
        edges = np.linspace(told["low"], told["high"], len(counts) + 1)
        assert counts == np.histogram(column, edges)[0].tolist()
        assert sum(counts) == 1000
        assert told["quartiles"] == column.quantile([0, 0.25, 0.5, 0.75, 1], "lower").tolist()
    by_name = {told["name"]: told for told in found["features"]}
    assert (by_name["rate"]["low"], by_name["rate"]["high"], len(by_name["rate"]["counts"])) == (0.5, 4.5, 4)  # a bin each
    assert len(by_name["amount"]["counts"]) == BINS


def test_rows_to_draw_are_those_of_the_data_with_what_decides_most(server, applicants, bank):
    found = overview(server, "credit")["points"]
    assert len(found["index"]) == POINTS
    some = applicants.iloc[found["index"]]
    assert found["predicted"] == bank.predict(some).tolist()
    np.testing.assert_allclose(found["proba"]["approved"], bank.predict_proba(some)[:, 0], atol=1e-4)
    for column in found["columns"]:
        assert column["values"] == some[column["name"]].tolist()
    # by hand: how much the log odds change when one column is shuffled among the rows
    rng = np.random.default_rng(0)
    odds = lambda frame: np.subtract(*bank.logits(frame).T)  # noqa: E731
    moved = {name: np.std(odds(some.assign(**{name: rng.permutation(some[name])})) - odds(some)) for name in some}
    assert found["columns"][0]["name"] == max(moved, key=lambda name: moved[name])


def test_rows_that_cannot_be_read_are_left_out_and_a_table_may_be_empty(server):
    found = overview(server, "toy")
    assert (found["total"], found["sampled"], found["points"]["index"]) == (5, 3, [0, 1, 4])
    none = overview(server, "empty")
    assert (none["total"], none["points"]["index"], [told["counts"] for told in none["features"]]) == (0, [], [[], [], []])
    assert around(server, model="empty", row=[0.5, 2, 31])["nearest"] is None


def test_pictures_have_no_histograms_of_their_pixels(server):
    found = overview(server, "pixels")
    assert found["features"] == found["points"]["columns"] == []
    assert len(found["points"]["proba"]) == 10


def test_of_very_many_columns_only_the_strongest_are_told(server):
    found = overview(server, "broad")
    assert found["features"] == []
    assert [len(column["values"]) for column in found["points"]["columns"]] == [4] * STRONG


# ---- who is near ----


def test_the_nearest_row_that_is_decided_otherwise(server, applicants, bank):
    rows = bank.coordinates(applicants)
    unit = np.ones(bank.n_features) if bank.scaling is None else 1 / np.abs(bank.scaling.scale)
    decided = bank.predict(applicants)
    for i in (1, 3, 10):
        other = next(label for label in bank.classes if label != decided[i])
        far = np.linalg.norm((rows - rows[i]) * unit, axis=1)
        best = int(np.where(decided == other, far, np.inf).argmin())
        for target in (other, decided[i]):  # of one who has what is wanted, the nearest who has it not
            near = around(server, model="credit", index=i, target=target)["nearest"]
            assert near["predicted"] == other
            assert near["distance"] == pytest.approx(far[best], rel=1e-12)
            assert far[near["index"]] == pytest.approx(far[best], rel=1e-12)
        theirs = applicants.iloc[near["index"]]
        assert {part["feature"] for part in near["differs"]} == set(applicants.columns[applicants.iloc[i] != theirs])
        assert near["n_differs"] == len(near["differs"])
        assert sum(part["share"] for part in near["differs"]) == pytest.approx(1)
        assert near["values"] == {name: v.item() if hasattr(v, "item") else v for name, v in theirs.items()}


def test_an_edit_moves_the_row_from_which_one_looks(server):
    plain = around(server, model="credit", index=1, target="approved")
    theirs = {"amount": plain["nearest"]["values"]["amount"]}
    edited = around(server, model="credit", index=1, target="approved", edits=theirs)
    assert edited["now"] != plain["now"]
    assert edited["nearest"]["distance"] < plain["nearest"]["distance"]


# ---- what one feature does by itself ----


def test_curves_are_predictions(server, applicants, bank):
    found = around(server, model="credit", index=1, target="approved", features=["duration", "account"])
    assert found["now"] == pytest.approx(bank.predict_proba(applicants.iloc[[1]])[0, 0], rel=1e-12)
    assert [curve["feature"] for curve in found["curves"]] == ["duration", "account"]
    for curve in found["curves"]:
        for value, y in zip(curve["x"], curve["y"], strict=True):
            row = applicants.iloc[[1]].assign(**{curve["feature"]: value})
            assert y == pytest.approx(bank.predict_proba(row)[0, 0], rel=1e-5)
    duration = found["curves"][0]["x"]
    assert (duration[0], duration[-1]) == (applicants["duration"].min(), applicants["duration"].max())
    assert all(value == int(value) for value in duration)


def test_without_data_a_curve_is_around_the_row_and_there_is_no_neighbour(server):
    found = around(server, model="hard", row={"u": 1.0, "v": 2.0}, target="yes", features=["u"])
    assert found["nearest"] is None
    (curve,) = found["curves"]
    assert (curve["x"][0], curve["x"][-1]) == (-2.0, 4.0)
    assert curve["y"] == pytest.approx([x + 2 * 2.0 + 0.5 for x in curve["x"]])  # the lead of yes over no, which has 0
    assert server.client.get("/v1/overview?model=hard").status_code == 404


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"index": 0, "features": ["incme"]}, "features"),
        ({"index": 99}, "index"),
        ({"index": 2}, "index"),  # "x" is no income
        ({"row": [1, 2]}, "row"),
        ({}, "row"),
        ({"index": 0, "target": "x"}, "target"),
        ({"index": 0, "prob": 0.5}, "prob"),
    ],
)
def test_what_cannot_be_is_refused(server, question, field):
    status, where, _ = server.refused("/v1/around", **question)
    assert (status, where) == (422, field)


def test_what_the_data_say_is_computed_once_and_small(server):
    first, second = (server.client.get("/v1/overview?model=credit") for _ in range(2))
    assert first.content == second.content
    assert len(first.content) < 64_000
    asked = {"model": "credit", "index": 1, "features": [*credit.NUMBERS, *credit.CATEGORIES]}
    assert len(server.client.post("/v1/around", json=asked).content) < 16_000
