"""Letters: the same in every language, true, and without a word that a person would have to look up."""

import datetime
import re
import string
import tomllib

import numpy as np
import pytest

import ifonly
from ifonly import Actions, InputError, Policy, credit
from ifonly.show.letter import MESSAGES, Catalogue, languages
from ifonly.show.numbers import fixed, writing

JARGON = re.compile(r"λ|lambda|counterfactual|cost|optimal|feature|model\b|softmax|{|∇")
SENT = {"reference": "2026-17", "date": datetime.date(2026, 3, 1), "recipient": "Erika Mustermann"}
POLICY = Policy(
    house="Beispielbank",
    language="de",
    target="approved",
    prob=0.6,
    classes={"approved": "bewilligt", "refused": "nicht bewilligt"},
    features={
        "age": {"name": "Alter", "frozen": True, "reason": "Niemand wird jünger."},
        "status": {"name": "Familienstand", "frozen": True},
        "foreign": {"name": "Herkunft", "frozen": True},
        "amount": {"name": "Kreditbetrag", "unit": "DM", "integer": True, "only": "decrease"},
        "duration": {"name": "Laufzeit", "unit": "Monate", "integer": True},
        "account": {"name": "Konto", "values": {"no account": "keines", "under 200": "unter 200"}},
    },
)


@pytest.fixture(scope="module")
def plans():
    frame = credit.applicants()
    bank = credit.pipeline(frame[:800])
    others = frame[800:].drop(columns="decision")
    refused = others[bank.predict(others) == "refused"].iloc[3]
    return ifonly.invert(bank, refused, policy=POLICY, n=3)


# ---- the catalogue ----


def messages(language):
    return tomllib.loads((MESSAGES / f"{language}.toml").read_text(encoding="utf-8"))


def placeholders(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_there_are_four_languages():
    assert languages() == ["de", "en", "es", "fr"]
    with pytest.raises(InputError, match="letters are in de, en, es, fr; got 'tlh'"):
        Catalogue("tlh")


@pytest.mark.parametrize("language", languages())
def test_every_language_says_everything_with_the_same_parts(language):
    english, own = messages("en"), messages(language)
    assert {part: list(said) for part, said in own.items()} == {part: list(said) for part, said in english.items()}
    for part in ("numbers", "words", "letter"):
        for key, text in english[part].items():
            assert placeholders(own[part][key]) == placeholders(text), key
            assert own[part][key].strip() or key == "group", key
    assert len(own["dates"]["months"]) == 12
    assert placeholders(own["dates"]["date"]) == {"day", "month", "year"}


@pytest.mark.parametrize(
    ("language", "number", "percent", "date"),
    [
        ("en", "−12,500.25", "62%", "1 March 2026"),
        ("de", "−12.500,25", "62\N{NO-BREAK SPACE}%", "1. März 2026"),
        ("fr", "−12\N{NARROW NO-BREAK SPACE}500,25", "62\N{NARROW NO-BREAK SPACE}%", "1 mars 2026"),
        ("es", "−12\N{NARROW NO-BREAK SPACE}500,25", "62\N{NO-BREAK SPACE}%", "1 de marzo de 2026"),
    ],
)
def test_numbers_percents_and_dates_are_written_as_the_language_does(language, number, percent, date):
    said = Catalogue(language)
    with writing(said.marks):
        assert fixed(-12_500.25, 2) == number
    assert (said.percent(0.62), said.date(datetime.date(2026, 3, 1))) == (percent, date)


def test_a_house_may_write_numbers_in_its_own_way():
    swiss = Policy(language="de", decimal=".", group="’").words
    with writing(Catalogue("de", swiss).marks):
        assert fixed(12_500.25, 2) == "12’500.25"


# ---- letters ----


def test_a_letter_says_what_was_decided_and_what_would_have_changed_it(plans):
    text = plans.letter(**SENT)
    head, title, greeting, *_ = text.split("\n\n")
    assert head == "Beispielbank\n1. März 2026\nUnser Zeichen: 2026-17"
    assert (title, greeting) == ("Unsere Entscheidung und was sie geändert hätte", "Guten Tag Erika Mustermann,")
    assert "Die\nEntscheidung lautet: „nicht bewilligt“." in text
    assert re.findall(r"^Möglichkeit \d$", text, re.MULTILINE) == ["Möglichkeit 1", "Möglichkeit 2", "Möglichkeit 3"]
    assert "  – Konto: keines statt unter 200\n" in text
    assert re.search(r"  – Laufzeit: höchstens \d+\N{NO-BREAK SPACE}Monate statt 36\N{NO-BREAK SPACE}Monate\n", text)
    assert "Alter: Niemand wird jünger.\nFamilienstand und Herkunft.\n" in text
    assert "Dies ist keine Zusage." in text
    assert text.endswith("Mit freundlichen Grüßen\nBeispielbank")


@pytest.mark.parametrize("language", languages())
def test_every_language_has_all_plans_and_no_jargon(plans, language, tmp_path):
    text = plans.letter(language=language, **SENT)
    page = plans.to_html(tmp_path / "letter.html", template="letter", language=language, **SENT).read_text(encoding="utf-8")
    assert f'<html lang="{language}">' in page
    said = messages(language)["letter"]
    for found in (text.replace("\n", " "), page):
        assert said["promise_heading"] in found
        assert not re.search(
            r"λ|lambda|counterfactual|cost|optimal|feature|model\b|softmax|{|∇", found.partition("</style>")[2] or found
        )
    assert page.count("<section>") == text.count("\n  – Konto") == 3
    assert max(map(len, text.splitlines())) <= 90


def test_one_answer_has_one_plan_without_a_number(plans):
    text = plans[0].letter(language="en", **SENT)
    assert "The decision would have been “bewilligt” if the following had been different" in text.replace("\n", " ")
    assert "Possibility" not in text


def test_the_numbers_of_a_letter_keep_its_word(plans):
    """The amounts that it prints, put into the row, give the decision that it names."""
    bank, row = plans.model, plans[0].source
    for cf in plans:
        printed = row.copy()
        for name, _, _ in cf.changes():
            printed[name] = cf.to_frame()[name].iloc[0]
        for label, column in (("Kreditbetrag", "amount"), ("Laufzeit", "duration")):
            found = re.search(rf"{label}: (?:höchstens )?([\d.]+)", cf.letter(**SENT))
            if found:
                printed[column] = int(found[1].replace(".", ""))
        assert bank.predict(printed) == "approved"


def test_out_of_reach_and_already_decided_are_said_as_they_are(plans):
    model, source = plans.model, plans[0].source
    frozen = [column.name for column in model.encoding.columns]
    stuck = ifonly.invert(model, source, "approved", actions=Actions(frozen=frozen))
    text = stuck.letter(language="en").replace("\n", " ")
    assert "there are none among those that our rules allow" in text
    assert "others." in text  # of twenty columns not all are listed
    already = ifonly.invert(model, source, "refused")
    assert "Nothing would have had to be different" in already.letter(language="en").replace("\n", " ")


def test_a_letter_that_could_not_be_true_is_refused(plans):
    model, source = plans.model, plans[0].source
    with pytest.raises(InputError, match=r"this answer does not; ask with prob=0\.5 or more"):
        ifonly.invert(model, source, "approved", prob=0.3).letter()
    with pytest.raises(InputError, match="there is no answer to write a letter about"):
        ifonly.invert(ifonly.Model.binary([1.0], 0.0), [[np.nan], [1.0]], 1)[0].letter()
    with pytest.raises(InputError, match="there is no answer to write a letter about"):
        ifonly.show.letter.text([])
    with pytest.raises(InputError, match=r"letter\(\) is for several plans of one source"):
        ifonly.invert(ifonly.Model.binary([1.0], 0.0), [[-2.0], [-1.0]], 1).letter()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "xx"}, "letters are in de, en, es, fr; got 'xx'"),
        ({"signature": "x"}, "a letter has no 'signature'; it has language, house, reference, date, recipient, contact"),
        ({"date": "today"}, "date must be a datetime.date; got 'today'"),
        ({"house": 3}, "house must be text; got 3"),
    ],
)
def test_options_that_are_wrong_are_refused(plans, options, message):
    with pytest.raises(InputError, match=message):
        plans.letter(**options)
    with pytest.raises(InputError, match='template must be "page" or "letter"; got \'memo\''):
        plans.to_html("x.html", template="memo")


def test_nothing_in_a_letter_becomes_markup(tmp_path):
    evil = '<script>alert(1)</script>"&'
    model = ifonly.Model.binary([1.0], -3.0, [evil, "yes" + evil], [evil])
    cf = ifonly.invert(model, [1.0], "yes" + evil)
    options = dict.fromkeys(("house", "reference", "recipient", "contact"), evil)
    page = cf.to_html(tmp_path / "x.html", template="letter", **options).read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&amp;") > 6


def test_words_of_a_text_are_said_as_words():
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["good great", "great film", "bad awful", "awful plot", "good film", "bad plot"]
    fitted = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, ["+", "+", "-", "-", "+", "-"])
    text = ifonly.invert(fitted, ["bad awful plot"], "+", actions=Actions(bounds=(0, None)))[0].letter(language="es")
    assert re.search(r"  – la palabra «\w+»: (?:más|menos) a menudo", text)
