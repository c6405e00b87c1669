"""``ifonly serve --policy``: what a house has decided, no request can undo."""

import os
import time

import pytest
from helpers.serving import make_toy, serving

import ifonly
from ifonly.problem.actions import Actions

POLICY = """
house = "Example Bank"
target = "approved"
prob = 0.6
max_changes = 2

[features.age]
frozen = true
reason = "Nobody gets younger."

[features.loans]
name = "other loans"
integer = true
low = 0
reason = "There are no halves."

[features.income]
name = "monthly income"
unit = "thousands"
only = "increase"
high = 3
"""
ROW = {"income": 0.5, "loans": 2, "age": 31}
SOURCE = [0.5, 2.0, 31.0]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policy")
    (folder / "policy.toml").write_text(POLICY)
    with serving(folder, *make_toy(folder), "--policy", folder / "policy.toml") as running:
        yield running


def expected(**more):
    actions = Actions(frozen=["age"], integer=["loans"], bounds={"loans": (0, None), "income": (None, 3)}, increase=["income"])
    model = ifonly.Model.binary([1.0, -0.5, 0.05], -1.0, ["refused", "approved"], ["income", "loans", "age"])
    return ifonly.invert(model, SOURCE, "approved", prob=0.6, actions=actions, max_changes=2, **more)


def test_every_way_of_asking_keeps_to_it(server):
    cf = expected()
    wanted = dict(zip(ROW, cf.x.tolist(), strict=True))
    assert server.answer(row=ROW)["x"] == wanted
    assert server.answer(row=list(ROW.values()))["x"] == list(wanted.values())
    assert server.answer(index=0)["x"] == wanted
    many = server.invert(rows=[ROW, {**ROW, "age": 45}]).json()["answers"]
    assert [answer["x"]["age"] for answer in many] == [31, 45]
    path = server.client.post("/v1/path", json={"row": ROW, "probs": [0.5, 0.6, 0.7], "detail": "x"}).json()
    assert {x["age"] for x in path["x"]} == {31}
    assert path["target"] == "approved"
    table = server.client.post("/v1/download?format=csv", json={"row": ROW}).text
    assert "age" not in table
    assert "monthly income (thousands)" in server.client.post("/v1/download?format=html", json={"row": ROW}).text
    assert '<p class="house">Example Bank</p>' in server.client.post("/v1/download?format=letter", json={"row": ROW}).text


def test_limits_besides_are_added(server):
    found = server.answer(row=ROW, actions={"bounds": {"income": [0, 9], "age": [0, 99]}, "frozen": ["loans"]}, max_changes=3)
    assert found["x"] == dict(zip(ROW, expected().x.tolist(), strict=True)) | {"loans": 2, "income": found["x"]["income"]}
    assert found["x"]["income"] <= 3
    assert found["x"]["age"] == 31


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({"target": "refused"}, "target", "the policy fixes the wanted decision: approved"),
        ({"prob": 0.2}, "prob", "the policy fixes the probability to reach: prob = 0.6"),
        ({"lam": 1.0}, "lam", "the policy fixes the probability to reach"),
        ({"margin": 0.0}, "margin", "the policy fixes the probability to reach"),
        ({"cost": {"difficulty": {"age": "easy"}}}, "cost.difficulty.age", "age stays as it is: Nobody gets younger."),
        ({"actions": {"bounds": {"income": [4, 9]}}}, "actions.bounds.income", "the policy allows at most 3; got 4 to 9"),
        ({"actions": {"step": {"loans": 0.5}}}, "actions.step.loans", "multiples of 1 (There are no halves); 0.5 is none"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/invert", "/v1/download"])
def test_what_tries_to_undo_it_is_refused_in_words(server, path, asked, field, words):
    status, where, message = server.refused(path, row=ROW, **asked)
    assert (status, where) == (422, field)
    assert words in message


def test_a_request_that_says_the_same_is_taken(server):
    same = {"target": "approved", "prob": 0.6, "cost": {"difficulty": {"age": "impossible"}}}
    assert server.answer(row=ROW, **same)["x"] == server.answer(row=ROW)["x"]


def test_people_read_the_policys_words_and_data_keep_their_own(server):
    found = server.answer(row=ROW, detail="page")
    assert "monthly income were" in found["sentence"]
    assert {change["feature"]: change["label"] for change in found["changes"]}["income"] == "monthly income (thousands)"
    described = server.client.get("/v1/model").json()
    features = {feature["name"]: feature for feature in described["features"]}
    assert (features["age"]["frozen"], features["age"]["reason"]) == (True, "Nobody gets younger.")
    assert (features["income"]["label"], features["income"]["unit"]) == ("monthly income", "thousands")
    assert (features["income"]["most"], features["income"]["only"], features["loans"]["low"]) == (3, "increase", 1)
    policy = described["policy"]
    assert (policy["house"], policy["target"], policy["prob"], policy["may_choose"]) == ("Example Bank", "approved", 0.6, [])


@pytest.mark.seconds
def test_an_edited_policy_holds_and_a_broken_one_does_not(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text('target = "approved"\n')

    def edit(text):
        file.write_text(text)
        os.utime(file, ns=(time.time_ns(), time.time_ns()))

    def eventually(condition):
        until = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < until
            time.sleep(0.1)

    with serving(tmp_path, *make_toy(tmp_path), "--policy", file) as running:
        assert running.answer(row=ROW, prob=0.9)["x"]["age"] != 31
        edit('target = "approved"\n[features.age]\nfrozen = true\n')
        eventually(lambda: running.answer(row=ROW, prob=0.9)["x"]["age"] == 31)
        edit('target = "approved"\n[features.agee]\nfrozen = true\n')
        eventually(lambda: running.client.get("/readyz").json()["models"]["toy"] is not None)
        assert running.answer(row=ROW, prob=0.9)["x"]["age"] == 31
