"""Pages with the marks of a house: what they show, and what they read where people type."""

import re

import numpy as np
import pandas as pd
import pytest
from helpers.browser import visit as opened
from helpers.serving import serving
from helpers.whatif import settle, type_in, visit

import ifonly
from ifonly import Model, Policy
from ifonly.show.numbers import THIN

POLICY = """
target = "approved"
may_choose = ["prob"]
decimal = "{}"
group = "{}"

[features.amount]
unit = "EUR"
high = 60000.5
"""
GERMAN, NONE = (",", "."), (".", "")


def make(folder):
    """A model of numbers with decimals and of five digits, and rows of them."""
    rng = np.random.default_rng(11)
    model().save(folder / "loans.npz")
    rows = {
        "amount": rng.uniform(15_000, 40_000, 60).round(2),
        "rate": rng.uniform(2, 6, 60).round(3),
        "term": rng.integers(12, 60, 60),
    }
    frame = pd.DataFrame(rows)
    frame.loc[0] = [21_250.5, 4.25, 36]
    frame.insert(0, "score", rng.uniform(0, 1, 60).round(2))  # a key, which nothing is computed from
    frame.to_csv(folder / "loans.csv", index=False)
    return folder / "loans.npz", folder / "loans.csv"


def model():
    return Model.binary([1e-4, -0.8, -0.01], -0.5, ["refused", "approved"], ["amount", "rate", "term"])


@pytest.fixture(scope="module", params=[GERMAN, NONE], ids=["german", "none"])
def page(request, browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marks")
    (folder / "policy.toml").write_text(POLICY.format(*request.param), encoding="utf-8")
    with serving(folder, *make(folder), "--policy", folder / "policy.toml") as running:
        address = str(running.client.base_url).rstrip("/") + "/"
        with visit(browser, address, "row=0&prob=0.725", quiet=False) as shown:
            settle(shown)
            shown.marks = request.param
            shown.client = running.client
            yield shown


def house(page, english):
    """A text as the house of this page has it."""
    decimal, group = page.marks
    return english.replace(".", decimal).replace(THIN, group)


def wrong(page):
    """Numbers on the page that have other marks than those of the house."""
    decimal, group = page.marks
    text = re.sub(r"ifonly [\d.]+\w*", "", page.locator("body").inner_text())  # the version
    numbers = re.findall(r"\d[\d.,’'\u202f]*\d", text)
    form = re.compile(rf"\d+({re.escape(decimal)}\d+)?|\d{{1,3}}({re.escape(group)}\d{{3}})+({re.escape(decimal)}\d+)?")
    return [found for found in numbers if not form.fullmatch(found)]


def test_all_that_the_page_shows_has_the_marks_of_the_house(page):
    page.wait_for_selector("#scatter circle")
    for name in ("amount (EUR)", "rate"):
        page.get_by_role("button", name=f"Limits of {name}:").click()
    page.wait_for_selector(".look .note")
    assert wrong(page) == []
    assert page.get_by_label("rate now", exact=True).input_value() == house(page, "4.25")
    assert page.get_by_label("amount (EUR) now", exact=True).input_value() == house(page, "21250.5")
    assert page.locator("#exact").input_value() == house(page, "72.5")
    ends = page.locator("#rows .drawer:not([hidden]) .fields input").first.get_attribute("placeholder")
    assert re.fullmatch(house(page, rf"seen: \d\d{THIN}\d\d\d").replace(".", r"\."), ends)
    narrow = "(inputs) => inputs.filter((input) => input.size < input.placeholder.length).map((input) => input.placeholder)"
    assert page.locator(".fields input[placeholder]").evaluate_all(narrow) == []  # a number is not cut off
    page.get_by_role("button", name="Limits of rate:").click()
    page.get_by_role("button", name="Limits of amount (EUR):").click()


def test_replies_are_data_and_texts_in_them_are_not(page):
    body = {"index": 0, "prob": 0.725, "detail": "page"}
    found = page.client.post("/v1/invert", json=body).json()["answers"][0]
    by_name = {change["feature"]: change for change in found["changes"]}
    assert by_name["rate"]["before"] == 4.25
    assert by_name["rate"]["before_text"] == house(page, "4.25")
    told = page.client.get("/v1/model").json()["policy"]["marks"]
    assert told == dict(zip(("decimal", "group"), page.marks, strict=True))
    receipt = page.client.post("/v1/download?format=json", json={"index": 0, "prob": 0.725}).json()
    assert 4.25 in receipt["source"] or "4.25" in str(receipt)
    assert "4.25" in page.client.post("/v1/download?format=csv", json={"index": 0, "prob": 0.725}).text


def asked(page):
    """The body of the next question that the page asks."""
    return page.expect_request(lambda request: request.url.endswith("/v1/invert"))


TYPED = {
    GERMAN: {"33,5": 33.5, "7.432": 7432, "7,432": 7.432, "33.5": 33.5, "12.500,25": 12500.25, "1 234,5": 1234.5},
    NONE: {"33.5": 33.5, "33,5": 33.5, "7.432": 7.432, "12 500.25": 12500.25, "1.234,5": 1234.5},
}


def test_what_is_typed_is_read_as_the_house_writes_it(page):
    for text, value in TYPED[page.marks].items():
        with asked(page) as found:
            type_in(page, "amount (EUR) now", text)
        assert found.value.post_data_json["edits"]["amount"] == value, text
        settle(page)
        assert page.get_by_label("amount (EUR) now", exact=True).input_value() == house(page, f"{value:.10g}"), text
        assert f"set.amount={value:.10g}" in page.evaluate("location.hash"), text  # a link means the same everywhere
        assert page.locator("#rows .was:visible").inner_text() == house(page, "was 21250.5")
        page.get_by_role("button", name="amount (EUR): back to").click()
        settle(page)


def test_a_probability_is_typed_as_the_house_writes_it(page):
    with asked(page) as found:
        type_in(page, "Wanted probability in per cent", house(page, "81.25 %"))
    assert found.value.post_data_json["prob"] == 0.8125
    settle(page)
    assert page.locator("#exact").input_value() == house(page, "81.25")
    page.get_by_role("button", name="Undo").click()
    settle(page)


def test_rows_are_found_by_numbers_as_the_house_writes_them(page):
    page.get_by_role("button", name="Choose…").click()
    page.locator("#q").fill(house(page, f"21{THIN}250.5"))
    page.wait_for_function("() => document.querySelector('#where').innerText === '1 to 1 of 1'")
    assert house(page, "4.25") in page.locator("#found").inner_text()
    assert wrong(page) == []
    page.locator("#rows-dialog .close").click()


def test_what_can_be_two_numbers_is_asked_about(page):
    if page.marks == GERMAN:  # a house with both marks knows which one is meant
        with asked(page) as found:
            type_in(page, "rate now", "7,432")
        assert found.value.post_data_json["edits"]["rate"] == 7.432
        settle(page)
    else:
        type_in(page, "rate now", "7,432")
        page.wait_for_selector("text=“7,432” can be 7432 or 7.432: type one of these.")
    page.get_by_role("button", name="rate: back to").click()
    settle(page)


def test_complaints_have_the_marks_of_the_house(page):
    type_in(page, "rate now", "abc")
    page.wait_for_selector(f"text=Type one such as 12 or {house(page, '33.5')}.")
    type_in(page, "rate now", "99999999")
    page.wait_for_selector("text=This is too far from the data, where rate goes from")
    assert wrong(page) == []
    page.get_by_role("button", name="rate: back to").click()
    settle(page)


def test_what_is_in_the_way_has_the_marks_of_the_house(page):
    page.evaluate("location.hash = 'row=0&prob=0.99&hard.rate=impossible&hard.term=impossible&within=0'")
    page.wait_for_selector("#reach:not([hidden])")
    assert f"amount ≤ {house(page, f'60{THIN}000.5')} EUR" in page.locator("#reach p").inner_text()
    assert wrong(page) == []
    page.evaluate("location.hash = 'row=0&prob=0.725'")
    page.wait_for_selector("#reach", state="hidden")
    settle(page)


def test_a_comma_without_groups_leaves_a_point_open(browser, tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY.format(",", ""), encoding="utf-8")
    with serving(tmp_path, *make(tmp_path), "--policy", tmp_path / "policy.toml") as running:
        address = str(running.client.base_url).rstrip("/") + "/"
        with visit(browser, address, "row=0", quiet=False) as shown:
            settle(shown)
            type_in(shown, "rate now", "7.432")
            shown.wait_for_selector("text=“7.432” can be 7,432 or 7432: type one of these.")
            shown.reload()  # a link to it says the same
            shown.wait_for_selector("text=“7.432” can be 7,432 or 7432: type one of these.")
            type_in(shown, "rate now", "7,432")
            shown.wait_for_selector("#complaint", state="detached")
            assert "set.rate=7.432" in shown.evaluate("location.hash")


# ---- the page of an answer ----


@pytest.mark.parametrize("marks", [GERMAN, NONE], ids=["german", "none"])
@pytest.mark.parametrize("limits", [{}, {"amount": {"high": 60_000.5}}], ids=["live", "steps"])
def test_the_page_of_an_answer_has_the_marks_of_the_house(browser, tmp_path, marks, limits):
    def texts(policy, name):
        cf = ifonly.invert(model(), [21_250.5, 4.25, 36.0], policy=policy)
        file = cf.to_html(tmp_path / name)
        with opened(browser, file) as shown:
            shown.page.wait_for_selector("#bars tr")
            at_first, before = (shown.page.locator(part).inner_text() for part in ("main", "#value"))
            shown.page.locator("#wanted").press("ArrowRight")
            shown.page.wait_for_function("(before) => document.querySelector('#value').innerText !== before", arg=before)
            return at_first, shown.page.locator("main").inner_text()

    plain = {"target": "approved", "prob": 0.725, "features": limits}
    english = texts(Policy(**plain), "english.html")
    own = texts(Policy(**plain, decimal=marks[0], group=marks[1]), "own.html")
    swap = str.maketrans({".": marks[0], THIN: marks[1]})
    number = re.compile(rf"\d[\d{THIN}]*(?:\.\d+)?")
    assert own == tuple(number.sub(lambda found: found[0].translate(swap), text) for text in english)
    assert re.search(rf"\d\.\d|{THIN}", english[0])
