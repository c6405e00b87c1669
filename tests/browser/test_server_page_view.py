"""The what-if page: the answer stays in view, is never taken for that of another question, and can be kept."""

import json
from urllib.parse import parse_qs

import pytest
from helpers.whatif import DESKTOP, PHONE, ROW, answer, check, check_soon, read, settle, type_in, until, usual, visit

from ifonly.show.numbers import percent

LATE = "the answer to the question before"


def bookmark(page):
    page.get_by_role("button", name="Bookmark", exact=True).click()


# ---- numbers as people type them ----

NUMBERS = {
    "33,5": 33.5,
    "33.5": 33.5,
    "7 432": 7432,
    "7\u202f432": 7432,
    "1'234": 1234,
    "1,234.5": 1234.5,
    "1.234,5": 1234.5,
    "1,234,567": 1234567,
    "−3": -3,
    "+4": 4,
    ".5": 0.5,
    "2e3": 2000,
    " 12 ": 12,
    "7,432": None,
    "0x10": None,
    "0b1": None,
    "1 2": None,
    "12 34": None,
    "1,23,456": None,
    "1.2.3": None,
    "Infinity": None,
    "1e999": None,
    "": None,
    "-": None,
}


def test_numbers_are_read_as_people_write_them(browser, address):
    with visit(browser, address) as page:
        script = "(texts) => import('/static/fields.js').then((m) => texts.map((text) => m.readNumber(text).value))"
        assert dict(zip(NUMBERS, page.evaluate(script, list(NUMBERS)), strict=True)) == NUMBERS


def test_what_was_understood_is_what_the_field_says(browser, address):
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        settle(page)
        type_in(page, "duration now", "33,5")
        type_in(page, "amount now", "7 432")
        type_in(page, "Wanted probability in per cent", "72,5 %")
        check_soon(page, answer(edits={"duration": 33.5, "amount": 7432}, prob=0.725))
        assert page.get_by_label("duration now").input_value() == "33.5"
        assert page.get_by_label("amount now").input_value() == "7432"


CLASHES = {
    "hard.amount=impossible&low.amount=9000": "amount is locked at 5951, but its limits are 9000 to 18\u202f424.",
    "only.amount=down&low.amount=9000": "amount is 5951 and may only go down, but its limits are 9000 to 18\u202f424.",
    "low.duration=10.2&high.duration=10.8": "There is no whole number for duration from 10.2 to 10.8.",
}


@pytest.mark.parametrize("limits", CLASHES)
def test_a_row_and_limits_that_do_not_go_together_are_told_in_plain_words(browser, address, limits):
    with visit(browser, address, f"row={ROW}&target=approved&{limits}", quiet=False) as page:
        page.locator("#complaint").wait_for()
        assert page.locator("#complaint").inner_text() == CLASHES[limits]


# ---- in view ----


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_answer_stays_in_view_while_a_row_is_edited(browser, address, size):
    with visit(browser, address, f"row={ROW}&target=approved", size=size) as page:
        settle(page)
        brief = page.locator("#brief")
        assert not brief.is_visible()  # the sentence itself is there
        page.get_by_label("foreign now").focus()
        brief.wait_for()
        type_in(page, "dependents now", "2")
        settle(page)
        cf = answer(edits={"dependents": 2})
        said = brief.inner_text().replace("\u202f", "")
        assert f"→ {percent(cf.proba[0], 'tenths')} for approved" in said.replace("\u00a0", " ")
        for name, before, after in cf.changes():
            assert f"{name} {before} → {after}" in said
        box, field = brief.bounding_box(), page.get_by_label("dependents now").bounding_box()
        assert 0 <= box["y"] < box["y"] + box["height"] <= field["y"]  # above what is edited, not over it
        assert box["height"] < 90
        page.evaluate("scrollTo(0, 0)")
        brief.wait_for(state="hidden")


OVERLAPPED = """() => {
  const edge = (element) => element.getBoundingClientRect();
  const rings = [...document.querySelectorAll(".limits, .scroll button, .scroll a")].filter((e) => e.checkVisibility());
  return rings.filter((element) => {
    const inner = edge(element);
    for (let box = element.parentElement; box; box = box.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(box);
      if (overflowX === "visible" && overflowY === "visible") continue;
      if (inner.left - 4.5 < edge(box).left && box.scrollLeft === 0) return true;
    }
    return element.scrollWidth > element.clientWidth + 1; // its words are cut off
  }).map((element) => element.outerHTML);
}"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_limits_and_focus_rings_are_not_clipped(browser, address, size):
    limits = "low.duration=10&high.duration=60&only.duration=down&ban.purpose=new car%0Aeducation%0Abusiness"
    state = f"row={ROW}&target=approved&{limits}"
    with visit(browser, address, state, size=size) as page:
        settle(page)
        bookmark(page)
        assert page.evaluate(OVERLAPPED) == []
        page.get_by_role("button", name="Choose…").click()
        page.get_by_text("1 to 20 of 1000").wait_for()
        assert page.evaluate(OVERLAPPED) == []


# ---- never an answer to another question ----


def test_while_an_answer_is_late_the_one_before_is_grey_and_says_so(browser, address):
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        settle(page)
        held = []
        page.route("**/v1/invert", lambda route: held.append(route))
        type_in(page, "duration now", "40")
        page.wait_for_selector("body.waiting")
        assert LATE in page.locator("#late").inner_text()
        page.wait_for_function("() => getComputedStyle(document.getElementById('told')).opacity < 0.6")
        bookmark(page)  # keeps what is shown, not what is asked
        link = page.locator("#compare thead a").get_attribute("href")
        assert "set.duration" not in parse_qs(link[1:])
        until(page, lambda: held)
        held[0].continue_()
        settle(page)
        check(read(page), answer(edits={"duration": 40}))
        assert page.locator("#late").inner_text() == ""


def test_a_search_without_end_says_so_and_the_answer_before_stays_grey(browser, address):
    over = {"error": {"code": "timeout", "message": "the time for this request is over", "field": None}}
    with visit(browser, address, f"row={ROW}&target=approved", quiet=False) as page:
        before = read(page)
        page.route("**/v1/invert", lambda route: route.fulfill(status=504, json=over))
        type_in(page, "duration now", "40")
        page.get_by_text("could not work this out in the time it has").wait_for()
        assert "the answer to the one before" in page.locator("#late").inner_text()
        assert page.locator("body.stale").count() == 1
        assert read(page)["sentence"] == before["sentence"]
        page.get_by_role("button", name="Receipt…").click()
        assert "taken as" not in page.locator("#paper").inner_text()  # it is the receipt of the answer on the page
        page.keyboard.press("Escape")
        page.unroute("**/v1/invert")
        page.get_by_role("button", name="Try again").click()
        check_soon(page, answer(edits={"duration": 40}))
        assert page.locator("body.stale").count() == 0


def test_a_huge_value_is_refused_without_a_question_to_the_server(browser, address):
    asked = []
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        settle(page)
        page.wait_for_selector("#chart[aria-busy=false] .curve")
        page.on("request", lambda request: asked.append(request.url))
        type_in(page, "amount now", "1000000000000")
        page.locator("#complaint").wait_for()
        page.wait_for_timeout(200)
        assert [url for url in asked if "/v1/" in url] == []
        type_in(page, "amount now", "1000000")  # far, but not absurd
        check_soon(page, answer(edits={"amount": 1_000_000}, actions=usual(bounds={"amount": (250, 1_000_000)})))


def test_what_fails_late_says_nothing_of_a_newer_question(browser, address):
    held = []

    def hold(route):
        (held.append if json.loads(route.request.post_data)["prob"] == 0.7 else route.__class__.continue_)(route)

    with visit(browser, address, f"row={ROW}&target=approved", quiet=False) as page:
        settle(page)
        page.route("**/v1/invert", hold)
        type_in(page, "Wanted probability in per cent", "70")
        until(page, lambda: held)
        type_in(page, "Wanted probability in per cent", "80")
        held[0].fulfill(status=504, json={"error": {"code": "timeout", "message": "over", "field": None}})
        check_soon(page, answer(prob=0.8))
        assert not page.locator("#trouble").is_visible()


# ---- kept ----


def test_bookmarks_outlive_the_tab_and_can_all_be_removed(browser, address):
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        settle(page)
        bookmark(page)
        other = page.context.new_page()
        page.close()
        other.goto(f"{address}#model=wide")
        settle(other)
        heads = other.locator("#compare thead a")
        assert heads.count() == 1
        heads.first.click()
        other.wait_for_function("() => document.getElementById('model-name').innerText === 'credit'")
        check_soon(other, answer())
        other.get_by_role("button", name="Remove all").click()
        assert not other.locator("#marks").is_visible()
        other.reload()
        settle(other)
        assert not other.locator("#marks").is_visible()


def test_bookmarks_of_models_that_are_not_served_stay_out_of_sight_and_old_ones_say_so(browser, address):
    mark = {"address": f"model=credit&row={ROW}", "who": "Row 1", "facts": [["Model", "credit"]], "changes": []}
    marks = [{**mark, "model": "credit", "fingerprint": "sha256:0"}, {**mark, "model": "elsewhere", "fingerprint": "sha256:1"}]
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
        page.evaluate("(marks) => localStorage.setItem('ifonly.bookmarks', JSON.stringify(marks))", marks)
        page.reload()
        settle(page)
        assert page.locator("#compare thead a").count() == 1
        assert "The model has changed since." in page.locator("#compare").inner_text()
        page.get_by_role("button", name="Remove all").click()
        assert [m["model"] for m in json.loads(page.evaluate("localStorage.getItem('ifonly.bookmarks')"))] == ["elsewhere"]
