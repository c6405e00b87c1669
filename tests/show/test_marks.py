"""The marks of a house in numbers: everywhere where people read them, and nowhere in data."""

import csv
import io
import re

import matplotlib as mpl
import pytest

import ifonly
from ifonly import Cost, InputError, Model, Policy, Status
from ifonly.cli.explain import show
from ifonly.show import page, sentence, table
from ifonly.show.numbers import ENGLISH, THIN, Marks, marked, marks, number, quoted, writing

mpl.use("Agg")
MARKS = {"german": (",", "."), "none": (".", ""), "swiss": (".", "’"), "comma": (",", None)}
NUMBER = re.compile(rf"\d[\d{THIN}]*(?:\.\d+)?")


def house(kind, **more):
    decimal, group = MARKS[kind]
    return Policy(target="approved", prob=0.8, decimal=decimal, group=group, **more)


def with_marks(english, kind):
    """A text that was written for nobody in particular, as this house would have it."""
    decimal, group = MARKS[kind]
    swap = str.maketrans({".": decimal, THIN: THIN if group is None else group})
    return NUMBER.sub(lambda found: found[0].translate(swap), english)


@pytest.fixture(scope="module")
def bank():
    """A model of two numbers, one of five digits and one with decimals."""
    return Model.binary([2e-4, -1.5], -2.0, ["refused", "approved"], ["income", "rate"])


ROW = {"income": 21_250.5, "rate": 4.25}
SCALE = Cost([2e-5, 0.2])
PLAIN = Policy(target="approved", prob=0.8)


def ask(bank, policy, **more):
    return ifonly.invert(bank, [*ROW.values()], cost=SCALE, policy=policy, **more)


def one(bank, policy, **more):
    found = ask(bank, policy, **more)
    assert isinstance(found, ifonly.Counterfactual)
    return found


# ---- what people read ----

WRITTEN = {
    "sentence": lambda cf: cf.sentence(),
    "markdown": lambda cf: cf.sentence(markdown=True),
    "table": lambda cf: str(cf.table()),
    "table in a notebook": lambda cf: cf.table().to_html(),
    "answer in a notebook": lambda cf: cf._repr_html_(),
    "decisions": table.decisions,
    "certificate": table.certificate_words,
}


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("what", WRITTEN)
def test_an_answer_has_the_marks_of_the_house(bank, kind, what):
    english, own = (WRITTEN[what](one(bank, policy)) for policy in (PLAIN, house(kind)))
    assert re.search(rf"{THIN}|\d\.\d", english) or what == "decisions"
    # Columns are as wide as what stands in them.
    assert own.split() == with_marks(english, kind).split() or re.sub("[─ ]+", " ", own) == re.sub(
        "[─ ]+", " ", with_marks(english, kind)
    )


@pytest.mark.parametrize("kind", MARKS)
def test_many_answers_and_plans_have_the_marks_of_the_house(bank, kind):
    rows = [[*ROW.values()], [32_000.25, 3.5]]
    english, own = (str(ifonly.invert(bank, rows, policy=policy).summary()) for policy in (PLAIN, house(kind)))
    assert re.sub("[─ ]+", " ", own) == re.sub("[─ ]+", " ", with_marks(english, kind))
    texts = [repr(ask(bank, policy, n=2)) for policy in (PLAIN, house(kind))]
    assert re.sub("[─ ]+", " ", texts[1]) == re.sub("[─ ]+", " ", with_marks(texts[0], kind))


def test_what_is_out_of_reach_has_the_marks_of_the_house(bank):
    features = {"income": {"high": 30_000.5, "unit": "EUR"}, "rate": {"low": 3.75}}
    cf = one(bank, house("german", features=features))
    assert cf.status is Status.UNREACHABLE
    assert "income ≤ 30.000,5 EUR" in cf.sentence()
    assert "rate ≥ 3,75" in table.certificate_words(cf)
    assert "p = 0,8 is out of reach" in table.certificate_words(cf)
    assert "rate ≥ 3.75" in cf.message  # which is data
    assert "rate ≥ 3.75" in cf.blocking


def test_what_the_library_says_of_limits_is_quoted_with_the_marks_of_the_house():
    said = "PM2.5 is frozen at 7.5, outside its bounds [12000.5, 3e+06] while 2.5·a ≤ -0.25 and c is a multiple of 0.5."
    assert quoted(said) == said
    with writing(Marks(",", ".")):
        assert quoted(said) == (
            "PM2.5 is frozen at 7,5, outside its bounds [12.000,5, 3.000.000] while 2,5·a ≤ −0,25 and c is a multiple of 0,5."
        )


@pytest.mark.parametrize("kind", ["changes", "curve", "features", "heat map"])
def test_pictures_have_the_marks_of_the_house(bank, kind, recwarn):
    def drawn(policy):
        if kind in ("curve", "features"):
            answers = ifonly.path(bank, [*ROW.values()], "approved", cost=SCALE, policy=policy)
        elif kind == "changes":
            answers = one(bank, policy)
        else:
            answers = ifonly.invert(bank, [[*ROW.values()]] * 3, cost=SCALE, policy=policy)
        axes = answers.picture(kind).plot().figure.axes
        axes[0].figure.canvas.draw()
        found = [text.get_text() for ax in axes for text in (*ax.texts, ax.title, *ax.get_xticklabels(), *ax.get_yticklabels())]
        return [text for text in found if "mathdefault" not in text]  # powers of ten

    english, own = drawn(PLAIN), drawn(house("german"))
    assert any(re.search(r"\d\.\d", text) for text in english)
    assert own == [with_marks(text, "german") for text in english]


def test_a_terminal_has_the_marks_of_the_house(bank, capsys):
    texts = []
    for policy in (PLAIN, house("german")):
        show(one(bank, policy), "a row")
        texts.append(re.sub("[─ ]+", " ", capsys.readouterr().out))
    assert texts[1] == with_marks(texts[0], "german")
    assert re.search(r"\d\.\d{3}\b", texts[1])


def test_letters_have_those_of_their_language_unless_the_house_has_its_own(bank):
    written = {
        ("de", "", None): ("22.000", "1,75"),
        ("en", "", None): ("22,000", "1.75"),
        ("de", ".", "’"): ("22’000", "1.75"),
        ("de", ".", None): (f"22{THIN}000", "1.75"),  # not a point for both
        ("fr", "", ""): ("22000", "1,75"),
    }
    for (language, decimal, group), texts in written.items():
        policy = Policy(target="approved", prob=0.8, language=language, decimal=decimal, group=group)
        said = ifonly.invert(bank, [22_000.0, 1.75], cost=SCALE, policy=policy).letter()
        assert all(re.search(rf"(?<!\d){text}(?!\d)", said) for text in texts), said


# ---- data ----


def test_data_are_plain(bank):
    english, own = one(bank, PLAIN), one(bank, house("german"))
    assert own.to_json() == english.to_json()
    assert own.changes() == english.changes()
    assert own.table().rows == english.table().rows
    frames = [cf.table().to_frame().to_csv() for cf in (english, own)]
    assert frames[0] == frames[1]
    assert {row["from"] for row in csv.DictReader(io.StringIO(frames[1]))} == {"4.25", "21250.5"}


# ---- one mechanism ----


def test_the_outermost_decides_and_nothing_is_left_behind():
    with writing(Marks(",", ".")):
        with writing(ENGLISH):
            assert number(12_500.5, 6) == "12.500,5"
        assert marked("0.25") == "0,25"
    assert marks() == ENGLISH
    assert number(12_500.5, 6) == f"12{THIN}500.5"


def test_a_table_keeps_the_marks_that_it_was_made_with(bank):
    cf = one(bank, house("german"))
    few = table.Table(("a",), tuple((i,) for i in range(20_000)), (("0",),), 1)
    with writing(Marks(",", ".")):
        own = table.Table(("a",), few.rows, few.texts, 1)
    assert str(few).splitlines()[-1] == f"… and 19{THIN}999 more"
    assert str(own).splitlines()[-1] == "… and 19.999 more"
    assert sentence.sentence(cf) == cf.sentence()
    assert '"marks":{"decimal":",","group":"."}' in page.html(cf)
    assert '"marks":null' in page.html(one(bank, PLAIN))


REFUSED = {
    ("", ""): None,
    (",", " "): None,
    (".", "’"): None,
    (",", ","): "group must be another mark than decimal",
    ("5", "."): "decimal must be one mark, such as a comma; got '5'",
    (" ", "."): "decimal must be one mark",
    ("-", None): "decimal must be one mark",
    (",", ".."): "group must be one mark, a space, or \"\"; got '..'",
    (",", 5): "group must be one mark",
}


@pytest.mark.parametrize(("given", "said"), REFUSED.items())
def test_marks_that_nobody_could_read_are_refused(given, said):
    decimal, group = given
    if said is None:
        Policy(decimal=decimal, group=group)
        return
    with pytest.raises(InputError, match=said):
        Policy(decimal=decimal, group=group)
