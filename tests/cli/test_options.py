"""Options that say more than one thing: rules, groups, costs, several plans, letters."""

import json

import pytest

import ifonly

ROW = [31.0, 2.0, 900.0, 36.0]


def test_rules_groups_and_costs_reach_the_library(run):
    options = [
        "--linear",
        "300*loans - income <= 0",
        "--linear",
        "duration + loans >= 3",
        "--cost",
        "income:0.5",
        "--l1",
        "0.1",
    ]
    code, out, _ = run(["explain", "credit.npz", "people.csv", "--target", "approved", "--json", *options])
    rules = [({"loans": 300, "income": -1}, "<=", 0), ({"duration": 1, "loans": 1}, ">=", 3)]
    cost = ifonly.Cost({"income": 0.5}, l1=0.1)
    cf = ifonly.invert(ifonly.load("credit.npz"), ROW, "approved", actions=ifonly.Actions(linear=rules), cost=cost)
    assert (code, json.loads(out)) == (0, json.loads(cf.to_json()))


def test_one_hot_columns_are_a_group(run, place):
    ifonly.Model.binary([2.0, -1.0, 0.5], -0.5, ["no", "yes"], ["a", "b", "c"]).save("hot.npz")
    (place / "hot.csv").write_text("a,b,c\n0,1,0\n")
    code, out, _ = run("explain hot.npz hot.csv --target yes --one-of a,b,c --json")
    assert (code, json.loads(out)["x"]) == (0, [1.0, 0.0, 0.0])


def test_several_plans(run):
    code, out, err = run("explain credit.npz people.csv --target approved --plans 2 --freeze age")
    assert (code, err) == (0, "")
    assert "people.csv, row 0, plan 1 of 2: refused → approved" in out
    assert "\n\npeople.csv, row 0, plan 2 of 2: refused → approved" in out
    code, out, _ = run("explain credit.npz people.csv --target approved --plans 2 --freeze age --json")
    found = json.loads(out)
    assert (code, len(found)) == (0, 2)
    assert found[0]["result"]["cost"] <= found[1]["result"]["cost"]


def test_a_letter_is_a_page_or_text(run, place):
    line = "explain credit.npz people.csv --target approved --plans 3 --letter {} --language fr --reference 17"
    code, out, _ = run(line.format("letter.html"))
    assert code == 0
    assert out.endswith("letter: letter.html")
    assert '<html lang="fr">' in (place / "letter.html").read_text(encoding="utf-8")
    assert run(line.format("letter.txt"))[0] == 0
    assert "Possibilité 2" in (place / "letter.txt").read_text(encoding="utf-8")
    code, _, err = run("explain credit.npz people.csv --target approved --letter x.html --language xx")
    assert (code, err) == (2, "ifonly: letters are in de, en, es, fr; got 'xx'\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--linear", "loans"], "--linear must be a rule such as \"debt - 0.4*income <= 0\"; got 'loans'"),
        (["--linear", "loans <= many"], "--linear must be a rule such as \"debt - 0.4*income <= 0\"; got 'loans <= many'"),
        (["--linear", "lones <= 1"], "--linear: unknown feature 'lones'; did you mean ['loans']?"),
        (["--one-of", "loans"], "--one-of: a group of one_of needs two columns or more; got ['loans']"),
        (["--cost", "income"], "--cost must be NAME:COST, such as income:2; got 'income'"),
        (["--cost", "income:-1"], "--cost: the cost of income must be a number > 0; got -1.0 (to rule a change out: frozen)"),
        (["--cost", "income:2", "--scale", "raw"], "--cost goes with --scale model; give one of the two"),
    ],
)
def test_what_is_wrong_names_the_option(run, options, message):
    code, out, err = run(["explain", "credit.npz", "people.csv", *options])
    assert (code, out, err) == (2, "", f"ifonly: {message}\n")


def test_advice_is_in_the_words_of_the_command_line(run, place):
    line = "batch credit.npz people.csv answers.parquet --target approved"
    assert run(line)[0] == 0
    code, _, err = run(line)
    assert (code, err) == (2, "ifonly: answers.parquet is there already; choose another name, or --overwrite\n")
    assert run(f"{line} --overwrite")[0] == 0
