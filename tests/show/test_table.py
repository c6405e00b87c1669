"""Answers in tables and words: what they say is recomputed here from x, source and weights."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import ifonly
from ifonly import Actions, Cost, Model, Scaling, Status, invert
from ifonly.show.numbers import MINUS

NAMES = ["duration", "savings", "jobs"]
CREDIT = Model.binary([-0.08, 0.002, 0.5], 0.3, ["refused", "approved"], NAMES)
APPLICANT = [36.0, 100.0, 1.0]
ACTIONS = Actions(integer=["duration"], frozen=["jobs"], bounds={"duration": (6, None)})
COST = Cost({"duration": 0.2, "savings": 0.004})


@pytest.fixture
def applicant():
    return invert(CREDIT, APPLICANT, "approved", prob=0.7, cost=COST, actions=ACTIONS)


@pytest.fixture(scope="module")
def mixed():
    """A pipeline over numbers (one of them bent) and categories, and the rows that it refuses."""
    rng = np.random.default_rng(7)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 70, n),
            "income": rng.lognormal(8, 1, n).round(),
            "job": rng.choice(["none", "skilled", "manager"], n),
        }
    )
    score = 0.02 * frame["age"] + np.log1p(frame["income"]) - 9 + 1.5 * (frame["job"] == "manager")
    y = np.where(score + rng.normal(size=n) > 0, "yes", "no")
    bent = make_pipeline(FunctionTransformer(np.log1p, inverse_func=np.expm1), StandardScaler())
    columns = make_column_transformer((StandardScaler(), ["age"]), (bent, ["income"]), (OneHotEncoder(), ["job"]))
    estimator = make_pipeline(columns, LogisticRegression()).fit(frame, y)
    return estimator, frame[estimator.predict(frame) == "no"]


# ---- the table of changes ----


def test_a_table_says_what_changed_and_what_it_costs(applicant):
    rows = {row[0]: row for row in applicant.table()}
    c = {"duration": 0.2, "savings": 0.004}
    assert set(rows) == set(c)
    for d, name in enumerate(NAMES[:2]):
        _, before, after, difference, units, of_cost = rows[name]
        assert (before, after) == (APPLICANT[d], applicant.x[d])
        assert difference == pytest.approx(applicant.x[d] - APPLICANT[d])
        assert units == pytest.approx(c[name] * difference)
        assert of_cost == pytest.approx(0.5 * units**2 / applicant.cost)
    assert sum(row[-1] for row in rows.values()) == pytest.approx(1.0)
    assert applicant.table()[0][-1] >= applicant.table()[1][-1]


def test_shares_count_sparsity_and_matrices(rng):
    Q = np.eye(3) + 0.3
    for cost in (Cost(l1=0.2), Cost(matrix=Q, l1={"jobs": 0.1})):
        cf = invert(CREDIT, APPLICANT, "approved", prob=0.7, cost=cost)
        assert sum(row[-1] for row in cf.table()) == pytest.approx(1.0)


def test_units_of_cost_are_those_of_the_scaler():
    scaled = Model([[0.0, 0.0], [1.0, 2.0]], [0.0, 0.0], scaling=Scaling(np.array([1.0, 2.0]), np.array([10.0, 0.5])))
    cf = invert(scaled, [-10.0, 1.0], 1)
    units = {row[0]: row[4] for row in cf.table()}
    assert units["0"] == pytest.approx(cf.delta[0] / 10.0)
    assert units["1"] == pytest.approx(cf.delta[1] / 0.5)
    assert sum(u * u for u in units.values()) == pytest.approx(cf.distance**2)


def test_changes_are_in_the_users_own_columns(mixed):
    estimator, refused = mixed
    cf = invert(estimator, refused.iloc[0], "yes", prob=0.8, actions=Actions(frozen=["age"]))
    for name, before, after in cf.changes():
        assert before == refused.iloc[0][name]
        assert after == cf.x[name]
        assert before != after
    assert {name for name, _, _ in cf.changes()} <= {"income", "job"}
    kinds = {type(after) for _, _, after in cf.changes()}
    assert kinds <= {str, float, int}
    assert len(cf.changes()) == cf.n_changes


def test_a_missing_value_counts_as_what_fills_it():
    from sklearn.impute import SimpleImputer

    X = pd.DataFrame({"a": [1.0, np.nan, 3.0, 8.0, 9.0, 7.5], "b": [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]})
    estimator = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(X, [0, 0, 0, 1, 1, 1])
    cf = invert(estimator, X.iloc[1], 1, prob=0.9)
    before, after, difference = next(row[1:4] for row in cf.table() if row[0] == "a")
    assert before is None
    assert difference == pytest.approx(after - X["a"].mean())
    assert "missing" in str(cf.table())
    assert "instead of missing" in cf.sentence()


def test_groups_of_one_hot_columns_are_one_change():
    model = Model.binary([1.0, 0.2, 3.0, 0.5], -2.0, ["no", "yes"], ["job=none", "job=skilled", "job=boss", "years"])
    cf = invert(model, [1.0, 0.0, 0.0, 0.0], "yes", prob=0.6, actions=Actions(one_of=[["job=none", "job=skilled", "job=boss"]]))
    assert ("job", "none", "boss") in cf.changes()
    assert len(cf.changes()) == cf.n_changes
    assert "job were boss instead of none" in cf.sentence()


def test_terminals_get_at_most_80_columns_and_images_a_count(rng):
    names = [f"a feature with a long name, {i} " + "x" * 60 for i in range(784)]
    model = Model(rng.normal(size=(10, 784)), np.zeros(10), feature_names=names)
    table = invert(model, rng.normal(size=784) * 1e9, 3, prob=0.9).table(rows=13)
    lines = str(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == 2 + 13 + 1
    assert lines[-1] == "… and 771 more"
    assert len(table) == len(table.rows) == 784
    assert "…" in lines[2]


def test_a_table_for_terminals_is_aligned(applicant):
    assert str(applicant.table()).splitlines() == [
        "feature   from     to  change  cost units  share",
        "────────────────────────────────────────────────",
        "savings    100  943.7  +843.7       +3.37   63 %",
        f"duration    36     23     {MINUS}13        {MINUS}2.6   37 %",
    ]
    assert repr(applicant.table()) == str(applicant.table())


def test_the_numbers_of_a_table_are_those_of_the_sentence_and_reach_what_was_asked(applicant):
    after = {row[0]: row[2] for row in applicant.table().texts}
    assert f"savings were at least {after['savings']}" in applicant.sentence()
    p = CREDIT.predict_proba([float(after["duration"]), float(after["savings"]), 1.0])[1]
    assert p >= 0.7
    nearest = CREDIT.predict_proba([23.0, 943.6, 1.0])[1]
    assert nearest < 0.7  # what rounding to the nearest would have shown


def test_classes_have_the_names_that_a_policy_gives_them(tmp_path):
    policy = ifonly.Policy(classes={"approved": "a loan", "refused": "no loan"})
    cf = invert(CREDIT, APPLICANT, "approved", prob=0.7, actions=ACTIONS, policy=policy)
    assert cf.sentence().endswith("the decision would be a loan (70 %).")
    assert "no loan → a loan, p(a loan) 13 % → 70 %" in cf._repr_html_()
    little = Actions(frozen=["jobs", "savings"], bounds=(0, 101))
    far = invert(CREDIT, APPLICANT, "approved", prob=0.999, actions=little, policy=policy)
    assert far.sentence().startswith("No allowed change makes the decision a loan with 99.9 %")
    plans = invert(CREDIT, APPLICANT, "approved", prob=0.7, actions=ACTIONS, policy=policy, n=2)
    assert "makes the decision a loan." in repr(plans)
    free = invert(CREDIT, APPLICANT, "approved", prob=0.7, policy=policy)
    for answer in (cf, free, plans):  # a page that steps, one that solves, one with cards
        text = answer.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
        assert "a loan" in text
        assert "no loan" in text
        assert not re.search(r'"(target|decided)": ?"(approved|refused)"|for approved|>refused<', text)
    assert cf.target == "approved"  # data have their own
    assert '"approved"' in cf.to_json()


def test_html_escapes_names_and_shows_the_same_numbers():
    model = Model.binary([1.0, 1.0], 0.0, ["<no>", "yes & more"], ["<b>a</b>", "b"])
    cf = invert(model, [-2.0, 0.0], "yes & more", prob=0.8)
    html = cf._repr_html_()
    assert "<b>a</b>" not in html
    assert "&lt;b&gt;a&lt;/b&gt;" in html
    assert "&lt;no&gt; → yes &amp; more, p(yes &amp; more) 11 % → 80 %" in html
    for text in cf.table().texts[0][1:]:
        assert text in html
    assert html.count("<tr>") == 3
    assert "no allowed change has a lower cost than" in html
    assert "verify()" in html


HTML = {
    "unreachable within": (
        lambda: invert(CREDIT, APPLICANT, "approved", prob=0.9, actions=Actions(frozen=["jobs"], bounds=(0, 300))),
        "No allowed change makes the decision approved with 90 %",
    ),
    "unreachable": (lambda: invert(CREDIT, APPLICANT, "approved", prob=0.9, actions=Actions(frozen=True)), "out of reach"),
    "there already": (lambda: invert(CREDIT, [0.0, 0.0, 1.0], "approved"), "Nothing has to change"),
    "invalid": (
        lambda: invert(CREDIT, [[np.nan, 0.0, 0.0]], "approved")[0],
        "row 0 of x must be finite; feature duration is nan",
    ),
    "discrete": (lambda: invert(CREDIT, APPLICANT, "approved", max_changes=1), "searched."),
}


@pytest.mark.parametrize("case", HTML)
def test_html_says_how_it_ended(case):
    make, words = HTML[case]
    assert words in make()._repr_html_()


def test_rich_prints_names_with_brackets_as_they_are():
    from rich.console import Console

    model = Model.binary([1.0, 1.0], 0.0, ["no", "yes"], ["[red]a[/red]", "b"])
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(invert(model, [-2.0, 0.0], "yes").table())
    text = console.export_text()
    assert "[red]a[/red]" in text
    assert "cost units" in text


def test_a_table_as_a_frame(applicant):
    frame = applicant.table().to_frame()
    assert list(frame.columns) == ["feature", "from", "to", "change", "cost units", "share"]
    assert frame["to"].tolist() == [row[2] for row in applicant.table()]


# ---- the sentence ----


def test_the_sentence_of_the_credit_example(applicant):
    assert applicant.sentence() == (
        "If only savings were at least 943.7 instead of 100 and duration at most 23 instead of 36, "
        "the decision would be approved (70 %)."
    )
    assert applicant.sentence(markdown=True) == (
        "If only *savings* were at least 943.7 instead of 100 and *duration* at most 23 instead of 36, "
        "the decision would be *approved* (70 %)."
    )


def test_what_at_least_and_at_most_promise_holds(rng):
    """Every bound in a sentence: pushed further, alone and all together, the decision stays and p never falls."""
    said = 0
    for K in (2, 3, 5):
        for _ in range(30):
            names = [f"f{d}" for d in range(4)]
            model = Model(rng.normal(size=(K, 4)), rng.normal(size=K), feature_names=names)
            cf = invert(model, rng.normal(size=4) * 2, "other", prob=0.6, cost=Cost(l1=0.3))
            k = model.class_index(cf.target)
            bounds = re.findall(rf"(f\d) (?:were )?at (least|most) ([{MINUS}\d.]+)", cf.sentence())
            together = cf.x.copy()
            for name, side, text in bounds:
                d, at = names.index(name), float(text.replace(MINUS, "-"))
                assert (at >= cf.x[d]) if side == "least" else (at <= cf.x[d])
                sign = 1.0 if side == "least" else -1.0
                p = model.predict_proba(cf.x)[k]
                for push in (abs(at - cf.x[d]), 1.0, 100.0, 1e6):
                    x = cf.x.copy()
                    x[d] += sign * push
                    assert model.predict_proba(x)[k] >= p - 1e-12
                together[d] += sign * 7.0
                said += 1
            assert model.predict_proba(together)[k] >= model.predict_proba(cf.x)[k] - 1e-12
            # and where nothing is promised, a push does break it, sooner or later
            for name in set(re.findall(r"(f\d) (?:were )?[−\d]", cf.sentence())):
                d = names.index(name)
                x = cf.x.copy()
                x[d] += np.sign(cf.delta[d]) * 1e6
                assert model.predict_proba(x)[k] < 0.5
    assert said > 100


def test_printed_numbers_keep_the_decision(rng):
    for _ in range(40):
        model = Model(rng.normal(size=(4, 3)) * 30, np.zeros(4), feature_names=["a", "b", "c"])
        cf = invert(model, rng.normal(size=3), "other", prob=0.51)
        x = cf.x.copy()
        for name, text in re.findall(rf"(a|b|c) (?:were )?(?:at least |at most )?([{MINUS}\d.e]+) instead", cf.sentence()):
            x["abc".index(name)] = float(text.replace(MINUS, "-"))
        assert model.predict(x) == cf.target


def test_nothing_is_promised_at_a_limit_or_under_a_rule():
    cf = invert(CREDIT, APPLICANT, "approved", prob=0.5, actions=Actions(bounds={"duration": (30, None)}, frozen=["jobs"]))
    assert cf.x[0] == 30
    assert "duration 30 instead of 36" in cf.sentence() or "duration were 30 instead of 36" in cf.sentence()
    ruled = Actions(linear=[({"duration": 1, "savings": 1}, "<=", 140)], frozen=["jobs"])
    assert "at least" not in invert(CREDIT, APPLICANT, "approved", prob=0.5, actions=ruled).sentence()


def test_bent_numbers_turn_the_promise_the_right_way(mixed):
    estimator, refused = mixed
    cf = invert(estimator, refused.iloc[1], "yes", prob=0.7, actions=Actions(frozen=["age", "job"]))
    found = re.search(r"income were at least ([\d.\u202f]+) instead", cf.sentence())
    at = float(found[1].replace("\u202f", ""))
    assert at >= cf.x["income"]
    assert estimator.predict(refused.iloc[[1]].assign(income=at)) == ["yes"]


SENTENCES = {
    "nothing": (
        lambda: invert(CREDIT, [0.0, 0.0, 1.0], "approved"),
        "Nothing has to change: the decision is already approved (68 %).",
    ),
    "one change": (
        lambda: invert(CREDIT, APPLICANT, "approved", max_changes=1, actions=ACTIONS),
        "If only duration were at most 12 instead of 36, the decision would be approved (50 %).",
    ),
    "out of reach": (
        lambda: invert(
            CREDIT, APPLICANT, "approved", prob=0.9, actions=Actions(frozen=["jobs", "savings"], bounds={"duration": (6, None)})
        ),
        "No allowed change makes the decision approved with 90 %: the best is 62 %, "
        "while jobs is frozen, duration ≥ 6 and savings is frozen.",
    ),
    "invalid": (
        lambda: invert(CREDIT, [[np.nan, 0.0, 0.0]], "approved")[0],
        "There is no answer: row 0 of x must be finite; feature duration is nan.",
    ),
    "still refused": (
        lambda: invert(CREDIT, APPLICANT, "approved", lam=10.0, cost=Cost({"savings": 1.0})),
        "the decision would still be refused, but approved would have",
    ),
    "scores only": (
        lambda: invert(Model([[0.0, 0.0], [1.0, 1.0]], [0.0, 0.0], ["no", "yes"], ["a", "b"], hard=True), [-1.0, -1.0], "yes"),
        "the decision would be yes.",
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_sentences_for_every_end(case):
    make, words = SENTENCES[case]
    assert words in make().sentence()


@pytest.mark.parametrize("D", [5, 6, 7, 50])
def test_a_sentence_names_every_change_or_says_that_the_table_does(rng, D):
    model = Model(rng.normal(size=(3, D)), np.zeros(3))
    cf = invert(model, rng.normal(size=D), "other", prob=0.9)
    text = cf.sentence()
    assert text.count(" instead of ") == text.count("feature ") == (D if D <= 6 else 4)
    assert ("as the table lists" in text) is (D > 6)
    assert D <= 6 or f" and {D - 4} other features were as the table lists, the decision" in text
    assert len(cf.table()) == D


REVIEWS = [
    "great work",
    "great love",
    "love work thanks",
    "thanks great",
    "bad refund",
    "bad broken",
    "broken refund",
    "bad work",
]


@pytest.fixture(scope="module")
def reviews():
    return make_pipeline(CountVectorizer(), LogisticRegression(C=9)).fit(REVIEWS, ["good"] * 4 + ["poor"] * 4)


def test_words_appear_more_or_less_often_or_not_at_all(reviews):
    cf = invert(reviews, "bad bad broken refund", "good", prob=0.6, actions=Actions(frozen=["work"]))
    changes = {name: (before, after) for name, before, after in cf.changes()}
    groups = re.match(
        "If only the words (.*?) appeared more often and (.*?) less often(.*?), the decision would be good",
        cf.sentence(),
    ).groups()
    named = [re.findall("“(.*?)”", group or "") for group in groups]
    assert sorted(name for group in named for name in group) == sorted(changes)
    for group, test in zip(named, (lambda a, b: b > a, lambda a, b: 0 < b < a, lambda a, b: b == 0 < a), strict=True):
        assert all(test(*changes[name]) for name in group)
    assert "“*great*”" in cf.sentence(markdown=True)


def test_one_word_that_must_go(reviews):
    frozen = [word for word in ifonly.as_model(reviews).feature_names if word != "bad"]
    for whole, said in (([], "appeared less often"), (["bad"], "did not appear")):
        cf = invert(reviews, "great bad", "good", actions=Actions(integer=whole, frozen=frozen), prob=0.6)
        assert cf.sentence().startswith(f"If only the word “bad” {said}, the decision would be good")


def test_what_is_out_of_reach_is_no_answer_in_a_notebook():
    cf = HTML["unreachable within"][0]()
    assert cf.changes()
    assert cf._repr_html_().startswith(f"<div><p><b>{cf.sentence()}</b></p><table>")


def test_a_search_that_was_stopped_says_by_how_much():
    rng = np.random.default_rng(3)
    model = Model(rng.normal(size=(4, 12)), np.zeros(4), feature_names=[f"f{d}" for d in range(12)])
    x = rng.normal(size=12) * 3
    cf = invert(model, x, "other", prob=0.9, actions=Actions(integer=True), node_limit=1)
    assert cf.status is Status.STOPPED
    dearer = 1 - max(cf.bound, 0.0) / cf.cost
    said = re.search(r"a change that costs up to ([\d.]+) % less", cf.sentence())
    assert 100 * dearer <= float(said[1]) <= 100 * dearer + 1  # "up to" is not rounded down


# ---- a population ----


def test_a_summary_counts_what_moves(mixed):
    estimator, refused = mixed
    cfs = invert(estimator, refused, "yes", prob=0.7, actions=Actions(frozen=["age"], increase=["income"]))
    summary = cfs.summary()
    rows = {row[0]: row for row in summary}
    rise = (cfs.x["income"] - refused["income"])[cfs.x["income"] != refused["income"]]
    assert rows["income"][1] == pytest.approx(len(rise) / len(refused))
    np.testing.assert_allclose(rows["income"][2:5], np.percentile(rise, [25, 50, 75]))
    assert "age" not in rows
    switched = cfs.x["job"] != refused["job"]
    counted = pd.Series(list(zip(refused["job"][switched], cfs.x["job"][switched], strict=True))).value_counts()
    assert dict(summary.switches["job"]) == counted.to_dict()
    assert sum(row[-1] for row in summary) == pytest.approx(1.0)
    assert summary.n_rows == len(refused)
    assert summary.statuses == {Status.EXACT: len(refused)}
    assert max(map(len, str(summary).splitlines())) <= 80
    assert "income" in cfs._repr_html_()


def test_a_summary_leaves_out_rows_without_an_answer():
    cfs = invert(CREDIT, [APPLICANT, [np.nan, 1.0, 1.0], [0.0, 0.0, 1.0]], "approved", prob=0.55)
    summary = cfs.summary()
    assert summary.statuses == {Status.EXACT: 2, Status.INVALID: 1}
    assert {row[0]: row[1] for row in summary} == pytest.approx(dict.fromkeys(NAMES, 0.5))
    assert "3 rows: 2 EXACT, 1 INVALID" in str(summary)
    np.testing.assert_allclose({row[0]: row[3] for row in summary}["jobs"], cfs.delta[0, 2])


def test_a_summary_of_one_hot_groups_without_a_pipeline():
    model = Model.binary([1.0, 0.2, 3.0, 0.5], -2.0, ["no", "yes"], ["job=none", "job=skilled", "job=boss", "years"])
    rows = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]]
    cfs = invert(model, rows, "yes", prob=0.6, actions=Actions(one_of=[["job=none", "job=skilled", "job=boss"]]))
    assert sum(cfs.summary().switches["job"].values()) == sum(cf.changes()[0][0] == "job" for cf in cfs)


def test_a_summary_of_nothing_says_so():
    summary = invert(CREDIT, np.empty((0, 3)), "approved").summary()
    assert len(summary) == 0
    assert "0 rows" in str(summary)


def test_answers_of_a_stream_still_show_in_a_notebook():
    out = np.empty((2, 3))
    cfs = invert(CREDIT, iter([np.array([APPLICANT]), np.array([APPLICANT])]), "approved", prob=0.6, out=out)
    assert "2 rows" in cfs._repr_html_()


def test_tables_load_nothing_heavy():
    import subprocess
    import sys

    code = (
        "import sys, ifonly\n"
        "m = ifonly.Model.binary([1.0, 1.0], 0.0)\n"
        "cf = ifonly.invert(m, [-1.0, 0.0], 1)\n"
        "str(cf.table()), cf.sentence(), cf._repr_html_(), ifonly.verify(cf.to_json(), m)\n"
        "print([n for n in ('matplotlib', 'pandas', 'rich') if n in sys.modules])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    assert ifonly.__version__


# ---- what is no change to anyone ----

ALIKE = Model.binary(
    [1.0, 3e-16, -2.0], -1.0, ["no", "yes"], ["income", "alike", "debt"]
)  # of one, all but rounding is nothing
BESIDE = [0.5, 0.48, 1.5]
NEARLY_FREE = 1e-20


def test_what_differs_by_a_rounding_is_told_as_data_only():
    cf = invert(ALIKE, BESIDE, "yes", prob=0.8)
    assert cf.x[1] != BESIDE[1]
    assert {name for name, _, _ in cf.changes()} == {"income", "alike", "debt"}
    ifonly.verify(cf.to_json(), ALIKE)
    for text in (cf.sentence(), str(cf.table()), cf.letter()):
        assert "alike" not in text
    cfs = invert(ALIKE, [BESIDE, [0.1, 0.3, 2.0]], "yes", prob=0.8)
    assert [row[0] for row in cfs.summary()] == ["debt", "income"]


def test_the_smallest_change_of_all_is_told_however_small():
    x = np.array([0.5, 0.48, 1.5])
    z = float(ALIKE.scores(x)[1] - ALIKE.scores(x)[0])
    edge = Model.binary([1.0, 3e-16, -2.0], -1.0 - z - 1e-16, ["no", "yes"], ["income", "alike", "debt"])
    for prob in (0.5, 0.5 + 1e-15):
        cf = invert(edge, x, "yes", prob=prob)
        assert bool((cf.x != x).any()) == ("If only" in cf.sentence())


def test_what_is_nearly_free_is_told():
    cost = Cost({"income": NEARLY_FREE, "alike": 1.0, "debt": 1.0})
    cf = invert(ALIKE, BESIDE, "yes", prob=0.8, cost=cost, actions=Actions(bounds={"income": (0, 1)}))
    assert "income" in cf.sentence()
    assert "debt" in cf.sentence()
    assert "alike" not in cf.sentence()


def test_what_changes_by_little_is_told_apart():
    """21 250.5 and what is a little more are both 21 251 to four digits."""
    bank = Model.binary([2e-4, -1.5], -2.0, ["refused", "approved"], ["income", "rate"])
    cf = invert(bank, [21_250.5, 4.25], "approved", prob=0.8)
    assert "income at least 21\u202f250.6 instead of 21\u202f250.5" in cf.sentence()
    assert 21_250.5 < cf.x[0] <= 21_250.6
