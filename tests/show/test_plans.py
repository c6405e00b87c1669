"""Several plans for one source: a table and a page of their own, and not the summary of a population."""

import re

import numpy as np
import pytest

import ifonly
from ifonly import Actions, InputError, Model, invert
from ifonly.show.table import certificate_words

NAMES = ["duration", "savings", "jobs"]
CREDIT = Model.binary([-0.08, 0.002, 0.5], 0.3, ["refused", "approved"], NAMES)
APPLICANT = [36.0, 100.0, 1.0]
LIMITS = Actions(integer=["duration", "jobs"], bounds={"duration": (6, 60), "savings": (0, 2000), "jobs": (0, 4)})


@pytest.fixture(scope="module")
def plans():
    return invert(CREDIT, APPLICANT, "approved", prob=0.6, actions=LIMITS, n=3)


def test_a_table_has_a_row_for_each_feature_and_a_column_for_each_plan(plans):
    table = plans.table()
    assert table.columns == ("feature", "now", *(f"plan {i + 1}" for i in range(len(plans))))
    assert len(plans) > 1
    assert {row[0] for row in table} == {name for plan in plans for name, _, _ in plan.changes()}
    for name, now, *after in table:
        d = NAMES.index(name)
        assert now == APPLICANT[d]
        assert after == [plan.x[d] for plan in plans]
    for row, text in zip(table.rows, table.texts, strict=True):
        assert [shown == "·" for shown in text[2:]] == [value == row[1] for value in row[2:]]


def test_the_table_says_what_the_sentences_say(plans):
    signs = {"at least": "≥ ", "at most": "≤ ", None: ""}
    for i, plan in enumerate(plans):
        texts = {row[0]: row[2 + i] for row in plans.table().texts}
        said = re.findall(r"(duration|savings|jobs) (?:were )?(?:(at least|at most) )?(\S+) instead of", plan.sentence())
        assert len(said) == len(plan.changes())
        assert {name: signs[bound or None] + after for name, bound, after in said} == {
            name: text for name, text in texts.items() if text != "·"
        }
        assert any(note.startswith(f"plan {i + 1}: 60 %, cost ") for note in plans.table().notes)


def test_plans_show_themselves(plans):
    assert repr(plans) == f"Any one of these {len(plans)} plans makes the decision approved.\n{plans.table()}"
    assert plans._repr_html_().startswith("<div><p><b>Any one of these")
    assert plans.table().to_html() in plans._repr_html_()
    assert max(map(len, repr(plans).splitlines())) <= 80


@pytest.mark.parametrize("actions", [LIMITS, None], ids=["limits", "free"])
def test_a_plan_that_costs_more_is_not_said_to_be_the_cheapest(actions):
    plans = invert(CREDIT, APPLICANT, "approved", prob=0.6, actions=actions, n=3)
    first, *rest = [certificate_words(plan) for plan in plans]
    assert plans.cost[0] < plans.cost[1:].min()
    assert "features alone" not in first
    for words in rest:
        assert re.search("allowed changes? to these features alone", words)
    for plan in plans[1:]:
        assert "to these features alone" in certificate_words(plan)
    assert "none of them costs less" not in repr(plans[1:])


def test_whether_there_are_others_is_said():
    every = invert(CREDIT, APPLICANT, "approved", prob=0.6, actions=LIMITS, n=50)
    assert every.complete
    assert "There are no other plans" in repr(every)
    assert "There may be others; none of them costs less" in repr(
        invert(CREDIT, APPLICANT, "approved", prob=0.6, actions=LIMITS, n=2)
    )
    assert "There may be others." in repr(invert(CREDIT, APPLICANT, "approved", lam=0.1, actions=LIMITS, n=2))


def test_out_of_reach_and_there_already():
    stuck = invert(CREDIT, APPLICANT, "approved", prob=0.9, actions=Actions(frozen=["jobs"], bounds=(0, 300)), n=3)
    assert repr(stuck).startswith(stuck[0].sentence())
    assert stuck.table().columns[2:] == ("at best",)
    there = invert(CREDIT, [0.0, 0.0, 1.0], "approved", n=3)
    assert repr(there) == there[0].sentence()
    assert there[0].sentence() in there._repr_html_()


def test_other_answers_are_no_plans(plans, tmp_path):
    rows = invert(CREDIT, [APPLICANT, APPLICANT], "approved")
    every = invert(CREDIT, APPLICANT, "all")
    assert [answers.are_plans for answers in (plans, plans[:1], rows, rows[:1], every)] == [True, True, False, False, False]
    assert repr(rows).startswith("Counterfactuals(2 rows")
    assert "moves" in rows._repr_html_()
    with pytest.raises(InputError, match=r"table\(\) is for several plans of one source.*summary\(\)"):
        rows.table()
    with pytest.raises(InputError, match=r"to_html\(\) is for several plans"):
        rows.to_html(tmp_path / "page.html")


def test_a_page_has_a_card_for_each(plans, tmp_path):
    text = plans.to_html(tmp_path / "plans.html", title="Ms <A>").read_text(encoding="utf-8")
    assert text.count('class="plan"') == len(plans)
    assert "<h1>Ms &lt;A&gt;</h1>" in text
    assert "{{" not in text
    assert not re.search(r"""\b(src|href|srcset|action)\s*=|https?:|@import|url\(|\bfetch\(""", text)
    for plan in plans:
        for name, _, _ in plan.changes():
            assert f">{name}</span>" in text


def test_plans_of_words():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["great work", "great love", "love thanks", "bad refund", "bad broken", "broken refund"]
    model = make_pipeline(CountVectorizer(), LogisticRegression(C=9)).fit(texts, ["good"] * 3 + ["poor"] * 3)
    found = invert(model, "bad broken", "good", prob=0.6, n=2)
    assert {text for row in found.table().texts for text in row[2:]} <= {"more often", "less often", "not at all", "·"}
    assert {row[1] for row in found.table().texts} == {"0", "1"}  # how often they are there now


def test_names_that_begin_alike_stay_apart_in_eighty_columns():
    names = [f"average_monthly_outstanding_balance_of_account_{i}_in_euro" for i in range(12)]
    model = Model.binary(np.linspace(1, 2, 12), -1.0, ["no", "yes"], names)
    for table in (invert(model, -np.ones(12), "yes").table(), invert(model, -np.ones(12), "yes", prob=0.9, n=3).table()):
        lines = str(table).splitlines()[2:14]
        heads = [re.split(r" {2,}", line)[0] for line in lines]
        assert len(set(heads)) == 12
        assert max(map(len, lines)) <= 80


def test_a_page_of_plans_is_ifonlys_own(tmp_path):
    """Names are text, whatever they are."""
    model = Model.binary([1.0, 2.0], 0.0, ["no", "</title><b>"], ["<script>alert(1)</script>", "b"])
    plans = ifonly.invert(model, [-1.0, -2.0], "</title><b>", prob=0.7, n=2)
    text = plans.to_html(tmp_path / "plans.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "</title><b>" not in text
