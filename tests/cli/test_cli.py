"""The command line: what it prints, what it says when something is wrong."""

import importlib.util
import json
import re

import pyarrow as pa
import pyarrow.parquet
import pytest
from helpers.commands import ifonly_process
from helpers.data import page

import ifonly
from ifonly import cli
from ifonly.native import _rows


def golden(text):
    """Lines of a test's own indentation, without it."""
    return "\n".join(line.removeprefix("    ").rstrip() for line in text.strip("\n").splitlines()).rstrip()


# ---- what every command prints ----


def test_explain(run):
    line = "explain credit.npz people.csv --row 0 --target approved --prob 0.8 --freeze age --bounds loans:0: --max-changes 2"
    code, out, err = run(line)
    assert (code, err) == (0, "")
    assert out == golden("""
    people.csv, row 0: refused → approved, p(approved) 2 % → 80 %

    If only duration were at most 7.709 instead of 36 and loans 0 instead of 2, the decision would be approved (80 %).

    feature   from     to  change  cost units  share
    ────────────────────────────────────────────────
    duration    36  7.709   −28.3       −28.3  100 %
    loans        2      0      −2          −2  0.5 %

    Of all allowed changes none has a lower cost than 402.2; 1 node was searched.
    """)


def test_explain_in_json_is_what_verify_takes(run):
    code, out, _ = run("explain credit.npz people.csv --row 4 --target refused --integer loans --json")
    found = json.loads(out)
    assert code == 0
    assert found["changes"] == [["loans", 0.0, 1.0]]
    assert (found["target"], found["asked"], found["result"]["status"]) == ("refused", {"prob": 0.5}, "EXACT")
    model = ifonly.load("credit.npz")
    assert found["result"]["proba"] == pytest.approx(model.predict_proba([28.0, 1.0, 800.0, 12.0]).tolist(), rel=1e-12)
    ifonly.verify(out, model)


def test_every_option_reaches_the_library(run):
    options = "--increase income --decrease loans --step income:50 --scale raw --l1 0.1 --prob 0.6"
    code, out, _ = run(f"explain credit.npz people.csv --target approved --json {options}")
    actions = ifonly.Actions(increase=["income"], decrease=["loans"], step={"income": 50})
    cost = ifonly.Cost("raw", l1=0.1)
    cf = ifonly.invert(ifonly.load("credit.npz"), [31.0, 2.0, 900.0, 36.0], "approved", prob=0.6, cost=cost, actions=actions)
    assert code == 0
    assert json.loads(out) == json.loads(cf.to_json())
    code, out, _ = run("explain credit.npz people.csv --lam 0.25 --json")
    assert json.loads(out)["asked"] == {"lam": 0.25}


def test_a_decision_out_of_reach_is_said_and_fails(run):
    line = "explain credit.npz people.csv --target approved --freeze age --freeze loans --freeze duration --bounds income::1000"
    code, out, err = run(line)
    assert (code, err) == (1, "")
    assert out == golden("""
    people.csv, row 0: refused, as before, p(approved) 2 % → 3 %

    feature   from    to  change  cost units  share
    ───────────────────────────────────────────────
    income     900  1000    +100        +100  100 %

    p = 0.5 is out of reach for 'approved': the best is p = 0.0307689 while loans is \
frozen and duration is frozen and age is frozen and income ≤ 1000.
    """)


def test_path(run):
    code, out, err = run("path credit.npz people.csv --target approved --count 5")
    assert (code, err) == (0, "")
    assert out == golden("""
    people.csv, row 0, towards approved: λ multiplies the distance
          λ ┃ p(approved) ┃ distance ┃ changes ┃
    ━━━━━━━━╇━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        100 │      0.0255 │ 0.007426 │       4 │ █
       3.16 │      0.0301 │   0.2337 │       4 │ █
        0.1 │      0.4241 │    4.388 │       4 │ █████████████
    0.00316 │      0.9625 │    9.047 │       4 │ █████████████████████████████
     0.0001 │      0.9983 │    13.14 │       4 │ ██████████████████████████████
    """)
    code, out, _ = run("path credit.npz people.csv --count 3 --from 1 --to 0.01 --json")
    assert [step["lam"] for step in json.loads(out)["path"]] == pytest.approx([1.0, 0.1, 0.01])


def test_info(run):
    code, out, err = run("info credit.npz")
    assert (code, err) == (0, "")
    assert out == golden("""
    credit.npz: a linear softmax with 2 classes and 4 features, probabilities
    classes   refused, approved
    columns   age, loans, income, duration
    distance  in the columns' own units
    """)
    code, out, _ = run("info credit.npz --json")
    assert json.loads(out)["columns"][1] == {"name": "loans", "kind": "number"}


def test_info_without_a_file_says_what_is_installed(run, monkeypatch):
    code, out, err = run("info")
    assert (code, err) == (0, "")
    assert out.startswith(f"ifonly {ifonly.__version__}, Python ")
    assert f"loops over rows: compiled ({_rows.active()})\n" in out
    assert "\nplot      matplotlib " in out
    found = json.loads(run("info --json")[1])
    assert set(found) == {"version", "python", "row_loops", "extras"}
    assert set(found["extras"]["frames"]) == {"pyarrow", "pandas", "tqdm", "array-api-compat"}
    assert set(found["extras"]["frames"]) < set(found["extras"]["serve"]) < set(found["extras"]["all"])
    assert "ifonly" not in found["extras"]["all"]
    monkeypatch.setattr("ifonly.cli.info.compiled", lambda: None)
    assert "loops over rows: NumPy alone; where there is a C++20 compiler they are compiled" in run("info")[1]


def test_batch(run, place):
    code, out, err = run("batch credit.npz people.csv answers.csv --target approved --prob 0.75 --freeze age --key id")
    assert (code, err) == (0, "")
    assert out == golden("""
    answers.csv: 5 rows
      EXACT                  3
      INVALID                2
    bad rows, counted from 0 (2 of 2):
      row 2: age is 'x', no number
      row 3: the line has 4 cells, the header 5
    """)
    lines = (place / "answers.csv").read_text().splitlines()
    assert lines[0] == "id,target,probability,distance,cost,gap,status,reason,new_loans,new_income,new_duration"
    assert [line.split(",")[0] for line in lines[1:]] == ["007", "008", "009", "", "011"]
    assert lines[3] == """009,,,,,,INVALID,"age is 'x', no number",,,"""
    assert sorted(p.name for p in place.iterdir()) == ["answers.csv", "credit.npz", "people.csv"]


def test_batch_in_json_and_strict(run):
    code, out, err = run("batch credit.npz people.csv answers.parquet --all --json --strict")
    found = json.loads(out)
    assert (code, err) == (1, "")
    assert (found["rows"], found["statuses"], found["resumed"]) == (5, {"EXACT": 3, "INVALID": 2}, 0)
    assert found["bad"][0] == {"row": 2, "reason": "age is 'x', no number"}
    assert "new_age" in pa.parquet.read_schema("answers.parquet").names


@pytest.mark.parametrize(
    "line",
    [
        *("batch credit.npz people.csv answers.csv", "explain credit.npz people.csv --row 4", "info credit.npz"),
        *("path credit.npz people.csv --row 4", "info credit.npz --json", "explain credit.npz people.csv --row 2"),
    ],
)
def test_what_is_in_a_file_does_not_act_on_the_terminal(run, place, line):
    odd = "age\x07\x1b[31m\x9b"
    names, labels = [odd, "loans", "income", "duration"], [f"refused{odd}", f"approved{odd}"]
    ifonly.Model.binary([5.0, -0.75, 0.002, -0.125], -150.0, labels, names).save("credit.npz")
    (place / "people.csv").write_text((place / "people.csv").read_text().replace("age", odd))
    code, out, err = run(line)
    assert (code, err == "") in ((0, True), (2, False))
    assert not {"\x07", "\x1b", "\x9b"} & set(out + err)
    assert re.search(r"age\\(x07|u0007)\\(x1b|u001b)\[31m\\(x9b|u009b)", out + err)


def numberless(text):
    return re.sub(r" +", " ", re.sub(r"[\d.]+", "#", text))


def test_bench(run):
    code, out, err = run("bench --repeats 1")
    assert (code, err) == (0, "")
    lines = [numberless(line).replace("━", "").replace("╇", "").strip() for line in out.splitlines()]
    assert lines == [
        "work ┃ floor ┃ a row ┃ × floor",
        "",
        "one row, D = #, K = # │ A x, Aᵀ y │ # µs │ #",
        "# rows, D = #, K = # │ X Aᵀ, Y A │ # µs │ #",
        "# rows, D = #, K = # │ X w, y wᵀ │ # µs │ #",
    ]
    code, out, _ = run("bench --repeats 1 --json")
    assert all(case["ratio"] > 0 for case in json.loads(out)["cases"])


def test_demo(run, place):
    code, out, err = run("demo --html page.html")
    assert (code, err) == (0, "")
    assert out.startswith(f"ifonly {ifonly.__version__}: the smallest change")
    assert (place / "page.html").exists()
    code, out, _ = run("demo --json")
    found = json.loads(out)
    assert (code, found["result"]["status"], found["target"]) == (0, "EXACT", "approved")
    assert found["result"]["proba"][0] >= found["asked"]["prob"]


@pytest.mark.parametrize("command", ["explain", "batch", "path", "info", "bench", "demo"])
def test_every_command_helps_with_an_example(run, command):
    code, out, err = run([command, "--help"])
    assert (code, err) == (0, "")
    assert re.search(rf"^ ifonly {command}\b", out, re.MULTILINE)
    assert "--json" in out
    assert "<bool>" not in out  # a flag takes no value


def test_help_and_version(run):
    code, out, _ = run("--help")
    assert code == 0
    commands = re.findall(r"^│ (\w+) ", out, re.MULTILINE)
    assert commands == ["demo", "explain", "batch", "path", "serve", "info", "bench", "policy"]
    assert "--install-completion" in out
    assert run("--version")[:2] == (0, f"ifonly {ifonly.__version__}")


def test_the_docs_show_what_is_printed(run):
    text = page("cli.md")
    shown = re.findall(r"```sh\nifonly (.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(shown) == 2
    for line, expected in shown:
        code, out, _ = run(line.replace("\\\n", " "))
        assert (code, out) == (0, expected.rstrip())


# ---- what is wrong ----

COMPLAINTS = {
    "no model": ("info nowhere.npz", "nowhere.npz: No such file or directory"),
    "no data": ("explain credit.npz nowhere.csv", "nowhere.csv does not exist"),
    "a file that is no model": ("info people.csv", "people.csv: the file is of no kind that is understood"),
    "a file that is no table": ("explain credit.npz credit.npz", "credit.npz: a table is .parquet"),
    "wrong column": ("explain credit.npz other.csv", "column 'income' (a feature) is missing; the columns are age, loans"),
    "empty file": ("explain credit.npz empty.csv", "empty.csv is empty: expected a line with the names of its columns"),
    "no rows": ("explain credit.npz header.csv", "--row: header.csv has 0 rows, counted from 0; there is no row 0"),
    "no such row": ("path credit.npz people.csv --row 9", "--row: people.csv has 5 rows, counted from 0; there is no row 9"),
    "bad row": ("explain credit.npz people.csv --row 2", "people.csv, row 2: age is 'x', no number"),
    "wrong class": (
        "explain credit.npz people.csv --target no",
        "--target: unknown class 'no'; the model's classes are refused, approved",
    ),
    "wrong feature": ("explain credit.npz people.csv --freeze agee", "--freeze: unknown feature 'agee'; did you mean ['age']?"),
    "bounds": ("batch credit.npz people.csv o.csv --bounds income", "--bounds must be NAME:LOW:HIGH, such as income:0:"),
    "bounds upside down": ("explain credit.npz people.csv --bounds age:9:1", "--bounds: bounds of age: 9 is not at most 1"),
    "step": ("explain credit.npz people.csv --step age", "--step must be NAME:SIZE, such as amount:50; got 'age'"),
    "prob": ("explain credit.npz people.csv --prob 1.5", "prob must be strictly between 0 and 1; got 1.5"),
    "lam and prob": ("explain credit.npz people.csv --prob 0.5 --lam 1", "give one of lam and prob, not both"),
    "scale": ("explain credit.npz people.csv --scale log", "--scale must be model or raw; got 'log'"),
    "lambda": ("path credit.npz people.csv --from 0", "--from must be a number > 0; got 0.0"),
    "out": ("batch credit.npz people.csv o.txt", "out must end in .parquet, .csv, .arrow"),
    "out is there": ("batch credit.npz people.csv people.csv", "out is the input itself: people.csv"),
    "pickle": ("info model.pkl", "model.pkl is a pickle, and opening a pickle runs whatever code its author put into it"),
    "command": ("explian", "No such command 'explian'. Did you mean 'explain'?"),
    "no argument": ("explain", "Missing argument 'MODEL'."),
    "no option": ("info credit.npz --colour red", "No such option: --colour"),
}


@pytest.mark.parametrize("what", COMPLAINTS)
def test_wrong_input_is_one_line_and_exit_code_2(run, place, what):
    (place / "empty.csv").touch()
    (place / "header.csv").write_text("age,loans,income,duration\n")
    (place / "other.csv").write_text("age,loans\n1,2\n")
    (place / "model.pkl").write_bytes(b"x")
    line, message = COMPLAINTS[what]
    code, out, err = run(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"ifonly: {message}")


def test_a_pickle_is_opened_on_request(run, place):
    import pickle

    (place / "model.pkl").write_bytes(pickle.dumps(ifonly.load("credit.npz")))
    assert "--trust-pickle" in run("info model.pkl")[2]
    assert run("info model.pkl --trust-pickle")[0] == 0


def test_a_failure_is_one_line_and_debug_shows_more(run, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("the disk is on fire\nsomewhere")

    monkeypatch.setattr(ifonly, "load", broken)
    assert run("info credit.npz") == (1, "", "ifonly: the disk is on fire (RuntimeError; --debug shows where)\n")
    with pytest.raises(RuntimeError, match="on fire"):
        cli.main(["info", "credit.npz", "--debug"])


def test_a_missing_extra_says_what_to_install(run, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "typer" else found(name))
    message = 'ifonly: the command line needs typer and rich: pip install "ifonly[cli]"\n'
    assert run("info credit.npz") == (1, "", message)


def test_a_page_is_written(run, place):
    code, out, err = run("explain credit.npz people.csv --html page.html")
    assert (code, out.splitlines()[-1], err) == (0, "page: page.html", "")
    assert "<html" in (place / "page.html").read_text(encoding="utf-8")


# ---- pipes ----


@pytest.mark.seconds
def test_a_closed_pipe_is_no_error(place):
    process = ifonly_process(["path", "credit.npz", "people.csv", "--count", "3000", "--json"])
    assert process.stdout.readline() == "{\n"
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


def test_the_module_is_the_command(place):
    process = ifonly_process(["info", "credit.npz", "--json"])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err, json.loads(out)["n_classes"]) == (0, "", 2)


def test_a_page_of_plans_has_a_card_for_each(run, place):
    code, _, err = run("explain credit.npz people.csv --plans 2 --html plans.html")
    assert (code, err) == (0, "")
    assert (place / "plans.html").read_text(encoding="utf-8").count('<section class="plan"') == 2
