"""The what-if page: what the data say beside an answer, for all eyes and hands, with and without data."""

import json

import pytest
from helpers.browser import contrast
from helpers.whatif import (
    DESKTOP,
    PHONE,
    ROW,
    answer,
    bank,
    check,
    check_soon,
    digits,
    limits_of,
    loaded,
    person,
    read,
    settle,
    type_in,
    until,
    visit,
)

from ifonly.cli import credit
from ifonly.show.numbers import percent

SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])


def learned(page):
    """Wait for what the data say."""
    settle(page)
    page.wait_for_selector("#rows .spark svg *", state="attached")
    page.wait_for_selector("#neighbours:not([hidden])", state="attached")


def chance(**edits):
    """The probability of approved for the row with some values replaced, from the pipeline."""
    return bank()[0].predict_proba(person(**edits).to_frame().T)[0, 0]


# ---- a feature in the data, and by itself ----


@SIZES
def test_every_feature_has_the_datas_histogram_and_where_it_is(browser, address, size):
    _, frame = bank()
    with visit(browser, address, f"row={ROW}&target=approved", size=size) as page:
        learned(page)
        for name in credit.NUMBERS + credit.CATEGORIES:
            spark = page.get_by_role("button", name=f"{name} in the data, and by itself")
            bars = spark.locator(".bar").count()
            if frame[name].nunique() <= 10:
                assert bars == frame[name].nunique()
            assert spark.locator(".is").count() == 1
            assert spark.locator(".curve").count() >= 1
        changed = {name for name, _, _ in answer().changes()}
        dashed = page.evaluate("[...document.querySelectorAll('#rows tr:has(.spark .then) th')].map((cell) => cell.innerText)")
        assert set(dashed) == changed
        assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


@SIZES
def test_a_number_can_be_slid_over_its_histogram_in_one_step(browser, address, size):
    with visit(browser, address, f"row={ROW}&target=approved", size=size) as page:
        learned(page)
        steps = page.evaluate("history.length")
        page.get_by_role("button", name="duration in the data, and by itself").click()
        words = page.locator(".look .note").first.inner_text().replace("\u00a0", " ")
        assert "the data go from 4 to 72, half of them from 12 to 24" in words
        assert f"from {percent(chance(duration=4), 'tenths')} at 4 to {percent(chance(duration=72), 'tenths')} at 72" in words
        slider = page.get_by_role("slider", name="duration now, on a slider")
        place = slider.bounding_box()
        slider.evaluate(
            """(range) => {
                 for (const value of [46, 44, 42, 40]) {
                   range.value = value;
                   range.dispatchEvent(new Event("input", { bubbles: true }));
                 }
               }"""
        )
        page.wait_for_function(
            "() => document.getElementById('decided-now').innerText && location.hash.includes('set.duration')"
        )
        assert slider.bounding_box() == place  # it does not move from under the pointer
        slider.evaluate("(range) => range.dispatchEvent(new Event('change', { bubbles: true }))")
        check_soon(page, answer(edits={"duration": 40}))
        assert page.get_by_label("duration now", exact=True).input_value() == "40"
        assert page.evaluate("history.length") == steps + 1
        page.locator("#undo").click()
        check_soon(page, answer())
        slider.focus()
        page.keyboard.press("ArrowLeft")
        check_soon(page, answer(edits={"duration": 47}))


@SIZES
def test_each_value_of_a_category_says_how_common_it_is_and_what_it_does(browser, address, size):
    _, frame = bank()
    with visit(browser, address, f"row={ROW}&target=approved", size=size) as page:
        learned(page)
        limits_of(page, "account")
        table = page.get_by_role("table", name="account: each value")
        table.get_by_text("Probability of approved").wait_for()
        for value in frame["account"].unique():
            head = f"{value} (now)" if value == person()["account"] else value
            cells = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=head, exact=True)).locator("td")
            part = float(cells.nth(0).inner_text().replace("%", "").strip())
            assert part == pytest.approx(100 * (frame["account"] == value).mean(), abs=0.51)
            assert cells.nth(1).inner_text() == percent(chance(account=value), "tenths")
        assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def test_curves_follow_what_is_typed(browser, address):
    with visit(browser, address, f"row={ROW}&target=approved&set.amount=1000") as page:
        learned(page)
        limits_of(page, "duration")
        expected = f"from {percent(chance(amount=1000, duration=4), 'tenths')} at 4"
        page.wait_for_function(
            "(words) => document.querySelector('.look .note').innerText.replaceAll('\\u00a0', ' ').includes(words)",
            arg=expected,
        )


# ---- among the others ----


@SIZES
def test_the_row_stands_among_the_others_and_the_nearest_of_the_other_kind(browser, address, size):
    pipeline, frame = bank()
    with visit(browser, address, f"row={ROW}&target=approved", size=size) as page:
        learned(page)
        assert page.locator("#scatter circle").count() == 300
        for name in ("now", "if only"):
            assert page.locator("#scatter .name", has_text=name).count() == 1
        words = page.locator("#scatter").get_attribute("aria-label")
        assert "duration across" in words
        assert "48" in words
        title = page.locator("#neighbour-title").inner_text()
        assert title == "The nearest real one that is approved"
        said = page.locator("#neighbour-said").inner_text()
        index = int(said.split()[1])
        theirs = frame.iloc[index]
        assert pipeline.predict(frame.iloc[[index]])[0] == "approved"
        differ = [name for name in credit.NUMBERS + credit.CATEGORIES if person()[name] != theirs[name]]
        assert sorted(page.locator("#differences tbody th").all_inner_texts()) == sorted(differ)
        assert f"It differs in {len(differ)} of 20 features." in said
        page.get_by_label("Up", exact=True).select_option("account")
        assert page.locator("#scatter .tick", has_text="overdrawn").count() == 1
        assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        page.get_by_role("button", name=f"Look at row {index}").click()
        page.wait_for_function("(row) => document.getElementById('row').value === row", arg=str(index))
        settle(page)


BOXES = """() => [...document.querySelectorAll("#scatter .name, #scatter polygon")].map((part) => {
  const { left, top, right, bottom } = part.getBBox ? part.getBoundingClientRect() : {};
  return [part.textContent, left, top, right, bottom];
})"""


@pytest.fixture(scope="module")
def window(browser, address):
    """One for several tests, which load the page anew."""
    with visit(browser, address) as page:
        yield page


@pytest.mark.parametrize("row", [1, 5, 9, 13, 104, 111])
def test_names_on_the_scatter_lie_on_nothing(window, address, row):
    page = loaded(window, address, f"row={row}&target=approved&prob=0.8")
    learned(page)
    boxes = page.evaluate(BOXES)
    named = [box for box in boxes if box[0]]
    frame = page.locator("#scatter").bounding_box()
    for name in named:
        assert frame["x"] <= name[1]
        assert name[3] <= frame["x"] + frame["width"]
        for other in boxes:
            apart = other is name or not (name[1] < other[3] and other[1] < name[3])
            apart = apart or not (name[2] + 2 < other[4] and other[2] + 2 < name[4])  # a line's own leading
            assert apart, (name, other)


def test_a_dot_leads_to_its_row(browser, address):
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        learned(page)
        dot = page.locator("#scatter circle.other").first
        index = dot.get_attribute("data-index")
        dot.dispatch_event("click")
        page.wait_for_function("(row) => document.getElementById('row').value === row", arg=index)
        settle(page)


def test_pictures_stand_among_others_by_their_probabilities(browser, address):
    classifier, X = digits()
    with visit(browser, address, "model=digits&row=15&target=6&prob=0.8") as page:
        settle(page)
        page.wait_for_selector("#neighbour:not([hidden])")
        assert page.get_by_label("Across", exact=True).input_value() == "p:6"
        assert page.locator("#neighbour-picture").is_visible()
        index = int(page.locator("#neighbour-said").inner_text().split()[1].rstrip(":"))
        assert classifier.predict(X[[index]])[0] == 6
        assert page.locator(".spark:visible").count() == 0


# ---- few requests, and the page does without ----


def test_what_the_data_say_is_asked_for_once_for_each_row_and_decision(browser, address):
    asked = []
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        learned(page)
        page.wait_for_selector("#neighbour:not([hidden])")
        page.on("request", lambda request: asked.append(request.url.split("/v1/")[-1].split("?")[0]))
        page.reload()
        learned(page)
        page.wait_for_selector("#neighbour:not([hidden])")
        count = lambda name: asked.count(name)  # noqa: E731
        assert (count("overview"), count("around")) == (1, 1)
        for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
            page.locator("#wanted").press(key)
        settle(page)
        page.get_by_label("Lock account").click()
        settle(page)
        page.wait_for_timeout(200)
        assert (count("overview"), count("around")) == (1, 1)
        type_in(page, "duration now", "40")
        settle(page)
        until(page, lambda: count("around") == 2)
        page.wait_for_timeout(200)
        assert (count("overview"), count("around")) == (1, 2)


def test_without_data_the_curves_are_there_and_the_others_are_not(browser, address):
    with visit(browser, address, "model=scores&set.income=-3") as page:
        settle(page)
        page.wait_for_selector("#rows .spark .curve", state="attached")
        assert page.locator("#rows .spark .bar").count() == 0
        assert not page.locator("#neighbours").is_visible()
        assert not page.locator("#who").is_visible()
        page.get_by_role("button", name="income in the data, and by itself").click()
        words = page.locator(".look .note").first.inner_text()
        assert "Line: the lead of yes if only this changes, from −6 at −6 to 0 at 0." in words
        assert not page.get_by_role("slider", name="income now, on a slider").is_visible()


def test_the_page_does_without_where_the_server_does_not_say(browser, address):
    refusal = {"error": {"code": "busy", "message": "no", "field": None}}
    with visit(browser, address, quiet=False) as page:
        for path in ("overview", "around"):
            page.route(f"**/v1/{path}*", lambda route: route.fulfill(status=500, json=refusal))
        page.goto(f"{address}#row={ROW}&target=approved")
        page.reload()
        check(read(page), answer())
        page.wait_for_selector(".spark", state="hidden")
        assert not page.locator("#neighbours").is_visible()
        assert not page.locator("#trouble").is_visible()


def test_a_neighbour_that_comes_late_is_dropped(browser, address):
    held = []

    def hold(route):
        if json.loads(route.request.post_data)["index"] == ROW:
            held.append(route)
        else:
            route.continue_()

    with visit(browser, address, f"row={ROW}&target=approved", quiet=False) as page:
        page.route("**/v1/around", hold)
        page.reload()
        until(page, lambda: held)
        page.get_by_label("Next row").click()
        page.wait_for_selector("#neighbour:not([hidden])")
        said = page.locator("#neighbour-said").inner_text()
        held[0].continue_()
        page.wait_for_timeout(300)
        assert page.locator("#neighbour-said").inner_text() == said


@SIZES
def test_what_the_data_say_is_legible_and_named_for_a_screen_reader(browser, address, size):
    with visit(browser, address, f"row={ROW}&target=approved", size=size) as page:
        learned(page)
        limits_of(page, "duration")
        limits_of(page, "account")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for selector in (".look .note", ".levels th", "#scatter-said", "#neighbour-said", "#differences td"):
                assert contrast(page, selector) >= 4.5, selector
        assert page.get_by_role("img", name="duration across").count() == 1
        assert page.get_by_role("region", name="Among the others in the data").count() == 1
        spark = page.get_by_role("button", name="duration in the data, and by itself")
        assert spark.get_attribute("aria-expanded") == "true"
        spark.focus()
        page.keyboard.press("Enter")
        assert not page.locator(".look").first.is_visible()
