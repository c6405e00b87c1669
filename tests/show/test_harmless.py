"""Names, values and labels that would act on a terminal, or be markup: wherever answers are shown they are only text."""

import io
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ifonly import Actions, Model, invert
from ifonly.model.columns import Column, Encoding
from ifonly.show.table import Table, certificate_words, decisions, visible

# A terminal's own language: colours, the title, the cursor, a bell, other lines, the other direction, half a character.
ODD = [
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "up\x1b[A\x1b[2K",
    "\x9b31mC1",
    "two\nlines",
    "over\rwritten",
    "tab\tbed",
    "nul\0l",
    "\x7f\x08",
    "next\x85line\u2028and\u2029more",
    "\u202egnp.exe",
    "\u2066isolated",
    "half \ud800",
]
MARKUP = [
    *("*stars*", "**two**", "_under_score_", "__init__", "`code`", "~~gone~~", "~one~", "$x^2$", "a|b", "\\", "\\*", "\\\\"),
    *("[a](http://b.c)", "![a](b.png)", "[a][b]", "<b>bold</b>", "<script>alert(1)</script>", "<!-- -->", "<http://a.b>"),
    *(
        "&amp;",
        "&lt;b&gt;",
        "&#42;",
        "http://a.b",
        "https://a.b/c_d_e",
        "www.a.b",
        "WWW.A.B",
        "{role}`x`",
        "a{b}",
        "# no",
        "- no",
    ),
    *(" spaces ", "\u00a0wide\u00a0", "(a)", "a*", "*a", "!", "'", '"', "über*", "", "x < y & y > z"),
]


def acts(text):
    """What of a text a terminal would act on, but for the ends of its lines."""
    return re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", text)


def answer(feature, source, target, other="b"):
    """An answer with these names of a feature and of the classes."""
    model = Model.binary([1.0, 0.5], 0.0, [source, target], [feature, other])
    return invert(model, [-2.0, 0.0], target, prob=0.8)


@pytest.fixture(scope="module", params=ODD[:-1], ids=ascii)  # pandas takes no half characters
def switched(request):
    """Answers for a pipeline in which a category, its values and the classes are odd."""
    odd = request.param
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({f"job{odd}": rng.choice([f"{odd}cook", f"{odd}smith"], 200), "age": rng.normal(40, 9, 200)})
    y = np.where((frame.iloc[:, 0] == f"{odd}cook") & (frame["age"] > 38), f"yes{odd}", f"no{odd}")
    columns = make_column_transformer((OneHotEncoder(), [f"job{odd}"]), (StandardScaler(), ["age"]))
    estimator = make_pipeline(columns, LogisticRegression()).fit(frame, y)
    return invert(estimator, frame[:20], f"yes{odd}", prob=0.9)


def printed(table):
    """A table as rich prints it, without colours."""
    from rich.console import Console

    out = io.StringIO()
    Console(width=200, file=out, no_color=True).print(table)
    return out.getvalue()


@pytest.mark.seconds
def test_nothing_that_a_terminal_acts_on_is_printed(switched):
    summary = switched.summary()
    assert summary.switches  # a category moves
    for text in (str(summary), repr(summary), summary.to_html(), printed(summary)):
        assert not acts(text)
    for cf in switched:
        for text in (cf.sentence(), cf.sentence(markdown=True), decisions(cf), certificate_words(cf)):
            assert not acts(text)
            assert "\n" not in text
        for text in (str(cf.table()), cf.table().to_html(), printed(cf.table()), cf._repr_html_()):
            assert not acts(text)
        assert len(str(cf.table()).splitlines()) == 2 + max(1, len(cf.table()))


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_what_is_out_of_reach_is_said_without_acting(odd):
    model = Model.binary([1.0, 0.5], 0.0, ["no", f"yes{odd}"], [f"a{odd}", "b"])
    cf = invert(model, [-2.0, 0.0], f"yes{odd}", prob=0.9, actions=Actions(frozen=True))
    assert cf.blocking
    for text in (
        cf.sentence(),
        cf.sentence(markdown=True),
        decisions(cf),
        certificate_words(cf),
        str(cf.table()),
        cf._repr_html_(),
    ):
        assert not acts(text)
    assert visible(f"a{odd} is frozen") in cf.sentence()


def test_what_would_act_is_written_out_and_all_else_is_kept():
    assert visible("\x1b[1m\n\r\t\0\x9b\u202e\ud800") == r"\x1b[1m\n\r\t\x00\x9b\u202e\ud800"
    kept = "Größe (m²), 年収, \u202fdünn, 👩\u200d👧, می\u200cخواهم, C:\\temp, <b>"
    assert visible(kept) == kept
    cf = answer("in\x1b[31mcome", "no", "yes")
    assert cf.table()[0][0] == "in\x1b[31mcome"  # the data are as they were
    assert cf.table().texts[0][0] == r"in\x1b[31mcome"
    assert r"If only in\x1b[31mcome were" in cf.sentence()


def test_a_table_of_anyones_is_harmless():
    table = Table(("name", "n"), (("a\x1b[2J", 1),), (("a\x1b[2J", "1"),), notes=("note\x1b[2J",))
    assert not acts(str(table))
    assert str(table).count(r"\x1b[2J") == 2


# ---- Markdown ----


class Read(HTMLParser):
    """What a reader sees of a page, and which elements it is made of."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.text, self.tags = "", set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        self.tags.add("a comment")


def rendered(text):
    from markdown_it import MarkdownIt

    return Read(MarkdownIt("commonmark").enable(["strikethrough", "table"]).render(text))


def reads_as_it_is(cf):
    page = rendered(cf.sentence(markdown=True))
    assert page.text.strip() == cf.sentence().strip()
    assert page.tags <= {"p", "em"}


@pytest.mark.parametrize("text", [*MARKUP, *ODD], ids=ascii)
def test_markup_in_names_and_labels_reads_as_it_is(text):
    cf = answer(text, f"no {text}", text or "yes")
    reads_as_it_is(cf)
    assert "em" in rendered(cf.sentence(markdown=True)).tags


@pytest.mark.parametrize("text", [*MARKUP, *ODD], ids=ascii)
def test_markup_in_values_and_limits_reads_as_it_is(text):
    column = Column(0, f"job{text}", "category", 0, (text, f"{text}2"))
    model = Model.binary([0.0, 3.0], -2.0, ["no", "yes"], column.labels, encoding=Encoding((column.name,), (column,)))
    cf = invert(model, {column.name: text}, "yes", prob=0.6)
    assert cf.changes() == [(column.name, text, f"{text}2")]
    reads_as_it_is(cf)
    stuck = invert(model, {column.name: text}, "yes", prob=0.6, actions=Actions(frozen=True))
    assert stuck.blocking
    reads_as_it_is(stuck)


@given(st.text(max_size=12), st.text(max_size=12), st.text(alphabet="*_`[]()<>&\\~$:/w. a", max_size=12))
def test_any_text_reads_as_it_is(feature, target, other):
    target = target.rstrip("\0")  # NumPy drops those of a label
    reads_as_it_is(answer(feature, f"{target} not", target, f"{other}2{feature}"))


@pytest.mark.parametrize("address", ["http://a.b", "HTTPS://A.B", "www.a.b", "WWW.a.b", "ftp://a.b"])
def test_addresses_do_not_become_links(address):
    """Where a dialect makes links of bare addresses it looks for these, as they stand in the source."""
    text = answer(address, "no", "yes").sentence(markdown=True)
    assert not re.search(r"://|www\.", text, re.IGNORECASE)
    assert address in rendered(text).text
