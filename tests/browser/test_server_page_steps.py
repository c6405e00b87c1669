"""The what-if page: undo, back, links and tabs; what is wrong is said where it is."""

from contextlib import ExitStack
from functools import cache

import numpy as np
import pytest
from helpers.whatif import (
    DESKTOP,
    PHONE,
    ROW,
    answer,
    check,
    check_soon,
    drag,
    read,
    set_limit,
    settle,
    type_in,
    uncheck_value,
    usual,
    visit,
)

import ifonly
from ifonly.cli import credit
from ifonly.show.numbers import percent

# ---- steps: undo, back, links, tabs ----


def test_undo_redo_and_the_back_button_are_the_same_steps(browser, address):
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
        assert page.locator("#undo").is_disabled()
        page.get_by_label("Lock account").click()
        settle(page)
        type_in(page, "duration now", "40")
        settle(page)
        locked, both = (
            answer(actions=usual(frozen=["account"])),
            answer(actions=usual(frozen=["account"]), edits={"duration": 40}),
        )
        check(read(page), both)
        page.go_back()
        check_soon(page, locked)
        page.locator("#undo").click()
        check_soon(page, answer())
        page.locator("#redo").click()
        check_soon(page, locked)
        page.locator("body").press("Control+Shift+z")
        check_soon(page, both)
        assert page.locator("#redo").is_disabled()
        page.locator("body").press("Control+z")
        check_soon(page, locked)
        page.reload()
        check_soon(page, locked)
        page.go_forward()
        check_soon(page, both)


def test_control_z_in_a_field_undoes_what_is_typed_there_first(browser, address):
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
        page.get_by_label("Lock account").click()
        field = page.get_by_label("duration now")
        field.click()
        page.keyboard.type("7")
        page.keyboard.press("Control+z")
        assert field.input_value() == "48"
        check(read(page), answer(actions=usual(frozen=["account"])))  # no step was undone


def test_a_link_brings_back_the_whole_view(browser, address):
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
        uncheck_value(page)
        set_limit("duration at least", "30")(page)
        page.get_by_label("To change purpose is").select_option("impossible")
        type_in(page, "amount now", "5000")
        type_in(page, "Changes at most", "3")
        drag(page, [0.5])
        first = read(page)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy a link to this view").click()
        page.get_by_text("Copied").wait_for()
        link = page.evaluate("navigator.clipboard.readText()")
        other = page.context.new_page()
        other.goto(link)
        assert read(other) == first
        prob = float(first["wanted"]) / 100
        limits = usual(bounds={"duration": (30, 72)}, frozen=["purpose", "account=no account"])
        check(first, answer(edits={"amount": 5000}, prob=prob, actions=limits, max_changes=3))


def test_two_tabs_are_independent(browser, address):
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
        other = page.context.new_page()
        other.goto(f"{address}#row=4&prob=0.7")
        settle(other)
        page.get_by_label("Lock account").click()
        page.get_by_role("button", name="Bookmark", exact=True).click()
        check(read(other), answer(row=4, prob=0.7))
        assert other.locator("#compare thead a").count() == 1  # bookmarks are the browser's, and all else the tab's
        assert other.locator("#undo").is_disabled()
        check(read(page), answer(actions=usual(frozen=["account"])))


# ---- what is wrong is said where it is ----

WRONG = {
    "a word": (lambda page: type_in(page, "age now", "abc"), "age now", "“abc” is not a number"),
    "a number for machines": (lambda page: type_in(page, "age now", "0x10"), "age now", "“0x10” is not a number"),
    "two meanings": (lambda page: type_in(page, "amount now", "7,432"), "amount now", "can be 7432 or 7.432"),
    "far away": (
        lambda page: type_in(page, "amount now", "1e12"),
        "amount now",
        "too far from the data, where amount goes from 250 to 18\u202f424",
    ),
    "too large": (lambda page: type_in(page, "amount now", "1e305"), "amount now", "too large a number"),
    "too large a limit": (set_limit("amount at most", "1e305"), "amount at most", "too large a number"),
    "too probable": (
        lambda page: type_in(page, "Wanted probability in per cent", "150"),
        "Wanted probability in per cent",
        "more than 0 % and less than 100 %",
    ),
    "no probability": (
        lambda page: type_in(page, "Wanted probability in per cent", "x"),
        "Wanted probability in per cent",
        "such as 80",
    ),
    "a limit": (set_limit("amount at most", "x"), "amount at most", "“x” is not a number"),
    "limits the wrong way": (
        lambda page: (set_limit("amount at least", "9000")(page), type_in(page, "amount at most", "5")),
        "amount at least",
        "At least 9000 and at most 5 leave nothing",
    ),
    "half a change": (lambda page: type_in(page, "Changes at most", "1.5"), "Changes at most", "whole number, 0 or more"),
    "fewer than none": (lambda page: type_in(page, "Changes at most", "-1"), "Changes at most", "whole number, 0 or more"),
    "no row": (lambda page: type_in(page, "Row, of 1000", "0x10"), "Row, of 1000", "0 to 999"),
    "no such row": (lambda page: type_in(page, "Row, of 1000", "5000"), "Row, of 1000", "0 to 999"),
}


@pytest.fixture(scope="module")
def loud_windows(browser, address):
    """By size, one window for many tests; browsers log every answer that is not 200."""
    with ExitStack() as stack:
        yield cache(lambda size: stack.enter_context(visit(browser, address, size=size, quiet=False)))


# On a phone one of each kind of field; that of a row has the longest message.
ON_A_PHONE = ("far away", "too large a limit", "too probable", "half a change", "no row")
CASES = [*((DESKTOP, mistake) for mistake in WRONG), *((PHONE, mistake) for mistake in ON_A_PHONE)]


@pytest.mark.parametrize(("size", "mistake"), CASES, ids=[f"{'phone' if s == PHONE else 'desktop'}-{m}" for s, m in CASES])
def test_bad_input_shows_its_message_beside_the_field(loud_windows, address, size, mistake):
    act, label, words = WRONG[mistake]
    page = loud_windows(size)
    page.goto(f"{address}#row={ROW}")
    settle(page)
    act(page)
    message = page.locator("#complaint")
    message.wait_for()
    assert words in message.inner_text().replace("\u00a0", " ")
    assert page.locator("#late").inner_text().startswith("This question is not answered")
    field = page.get_by_label(label, exact=True)
    assert field.get_attribute("aria-invalid") == "true"
    assert field.get_attribute("aria-describedby") == "complaint"
    a, b = field.bounding_box(), message.bounding_box()
    assert 0 <= b["y"] - (a["y"] + a["height"]) < 40
    assert max(a["x"], b["x"]) <= min(a["x"] + a["width"], b["x"] + b["width"])  # one above the other
    page.locator("#undo").click()
    page.wait_for_selector("#complaint", state="detached")
    check_soon(page, answer(**({"actions": usual(bounds={"amount": (9000, 18424)})} if "wrong way" in mistake else {})))


def test_what_is_out_of_reach_says_how_far_one_gets_and_what_is_in_the_way(browser, address):
    past = [name for name in credit.NUMBERS + credit.CATEGORIES if name != "duration"]
    state = "&".join([f"row={ROW}", "prob=0.9", "target=approved", *(f"hard.{name}=impossible" for name in past)])
    with visit(browser, address, state) as page:
        settle(page)
        cf = answer(prob=0.9, actions=usual(frozen=past))
        assert cf.status is ifonly.Status.UNREACHABLE
        best = float(cf.proba[0])
        said = page.locator("#reach").inner_text()
        assert f"The best that can be reached is {percent(best, 'short')}" in said.replace("\u00a0", " ")
        assert f"In the way: {cf.blocking[0].removesuffix(' is frozen')} is locked" in said
        assert page.locator("#verdict").inner_text() == "No allowed change is enough."
        page.locator("#settle").click()
        settle(page)
        check(read(page), answer(prob=np.floor(1000 * best) / 1000, actions=usual(frozen=past)))
        assert not page.locator("#reach").is_visible()


def test_a_server_that_is_busy_or_away(browser, address):
    with visit(browser, address, f"row={ROW}", quiet=False) as page:
        settle(page)
        full = {"error": {"code": "busy", "message": "try again soon", "field": None}}
        times = []

        def busy(route):
            times.append(1)
            if len(times) == 1:
                route.fulfill(status=503, headers={"Retry-After": "0.1"}, json=full)
            else:
                route.continue_()

        page.route("**/v1/invert", busy)
        page.get_by_label("Lock account").click()
        check(read(page), answer(actions=usual(frozen=["account"])))
        page.unroute("**/v1/invert")
        page.context.set_offline(True)
        type_in(page, "duration now", "40")
        page.get_by_text("The server does not answer.").wait_for()
        page.context.set_offline(False)
        page.get_by_role("button", name="Try again").click()
        check_soon(page, answer(actions=usual(frozen=["account"]), edits={"duration": 40}))
