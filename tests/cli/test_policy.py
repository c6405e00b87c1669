"""``ifonly policy``, and ``--policy`` of the other commands."""

import json

import pyarrow.parquet as pq
import pytest

import ifonly

POLICY = """
target = "approved"
prob = 0.6

[features.age]
frozen = true

[features.duration]
name = "term"
unit = "months"
integer = true
reason = "We count in whole months."
"""


def test_a_draft_is_written_and_loads_again(run, place):
    code, out, err = run("policy draft credit.npz people.csv --target approved -o policy.toml")
    assert (code, err) == (0, "")
    assert out == "policy.toml: 4 columns; frozen, because they look protected: age"
    policy = ifonly.Policy.load("policy.toml")
    duration = policy.features["duration"]
    assert (policy.target, duration.low, duration.high, duration.integer) == ("approved", 12, 36, True)
    code, out, err = run("policy check credit.npz policy.toml")
    assert (code, out) == (0, "policy.toml: 4 columns, of which 1 stay as they are; all of it is about credit.npz")
    code, out, _ = run("explain credit.npz people.csv --policy policy.toml --json")
    assert [change[0] for change in json.loads(out)["changes"]].count("age") == 0
    code, _, err = run("policy draft credit.npz people.csv -o policy.toml")
    assert (code, err) == (2, "ifonly: policy.toml is there already; choose another name, or --overwrite\n")
    code, out, _ = run("policy draft credit.npz people.csv")
    assert code == 0
    assert "[features.age]" in out


def test_every_command_that_asks_keeps_to_a_policy(run, place):
    (place / "policy.toml").write_text(POLICY)
    code, out, err = run("explain credit.npz people.csv --policy policy.toml")
    assert (code, err) == (0, "")
    assert "months instead of 36" in out
    assert "term (months)" in out
    code, _, _ = run("batch credit.npz people.csv answers.parquet --policy policy.toml")
    found = pq.read_table("answers.parquet").to_pylist()
    assert code == 0
    assert "new_age" not in found[0]
    assert {row["target"] for row in found if row["status"] == "EXACT"} == {"approved"}
    assert all(row["new_duration"] is None or row["new_duration"].is_integer() for row in found)
    code, out, _ = run("path credit.npz people.csv --policy policy.toml --count 3 --json")
    assert (code, json.loads(out)["target"]) == (0, "approved")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--target refused", "target: the policy fixes the wanted decision: approved; got 'refused'"),
        ("--prob 0.1", "prob: the policy fixes the probability to reach: prob = 0.6; got 0.1"),
        ("--step duration:0.5", "step of duration: the policy wants multiples of 1 (We count in whole months); 0.5 is none"),
    ],
)
def test_an_option_that_tries_to_undo_it_is_refused(run, place, options, message):
    (place / "policy.toml").write_text(POLICY)
    code, out, err = run(f"explain credit.npz people.csv --policy policy.toml {options}")
    assert (code, out, err) == (2, "", f"ifonly: {message}\n")


def test_a_policy_that_is_wrong_is_said_with_its_place(run, place):
    (place / "policy.toml").write_text("[features.aeg]\nfrozen = true\n")
    code, _, err = run("policy check credit.npz policy.toml")
    assert (code, err) == (2, "ifonly: policy.toml: features.aeg: unknown feature 'aeg'; did you mean ['age']?\n")
    (place / "policy.toml").write_text("[features.age]\nfrozen = 1\n")
    code, _, err = run("explain credit.npz people.csv --policy policy.toml")
    assert (code, err) == (2, "ifonly: policy.toml: features.age.frozen must be true or false; got 1\n")
