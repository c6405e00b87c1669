"""The what-if page on a running server: every control asks what it says, and the numbers are the library's."""

import json
import re

import numpy as np
import pytest
from browser import chromium
from whatif import (
    DESKTOP,
    PHONE,
    ROW,
    answer,
    as_number,
    as_percent,
    bank,
    check,
    check_soon,
    digits,
    limits_of,
    one,
    read,
    scores,
    settle,
    type_in,
    usual,
    visit,
)

import ifonly
from ifonly import Actions, Cost, credit


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


# ---- every control, and the numbers are the library's ----


def per_month():
    """What a month costs by itself: one standard deviation is 1."""
    scaler = bank()[0].named_steps["columntransformer"].named_transformers_["numbers"]
    return 1 / scaler.scale_[credit.NUMBERS.index("duration")]


def uncheck_value(page):
    limits_of(page, "account")
    page.get_by_role("group", name="account may become").get_by_label("no account").uncheck()


def set_limit(label, text):
    def act(page):
        limits_of(page, label.split()[0])
        type_in(page, label, text)

    return act


def only_down(page):
    limits_of(page, "amount")
    page.get_by_label("amount may go").select_option("only down")


def only_up(page):
    limits_of(page, "rate")
    page.get_by_label("rate may go").select_option("only up")


def not_whole(page):
    limits_of(page, "duration")
    page.get_by_role("group", name="Limits of duration").get_by_label("whole numbers only").uncheck()


CONTROLS = {
    "nothing": (lambda page: None, dict),
    "lock": (lambda page: page.get_by_label("Lock account").click(), lambda: {"actions": usual(frozen=["account"])}),
    "impossible": (
        lambda page: page.get_by_label("To change status is").select_option("impossible"),
        lambda: {"actions": usual(frozen=["status"])},
    ),
    "very hard": (
        lambda page: page.get_by_label("To change duration is").select_option("very hard"),
        lambda: {"cost": Cost({"duration": 4 * per_month()})},
    ),
    "very easy": (
        lambda page: page.get_by_label("To change duration is").select_option("very easy"),
        lambda: {"cost": Cost({"duration": per_month() / 4})},
    ),
    "at least": (set_limit("duration at least", "44"), lambda: {"actions": usual(bounds={"duration": (44, 72)})}),
    "at most": (set_limit("amount at most", "3000"), lambda: {"actions": usual(bounds={"amount": (250, 3000)})}),
    "only down": (only_down, lambda: {"actions": usual(decrease=["amount"])}),
    "only up": (only_up, lambda: {"actions": usual(increase=["rate"])}),
    "not whole": (not_whole, lambda: {"actions": usual(broken=["duration"])}),
    "a value less": (uncheck_value, lambda: {"actions": usual(frozen=["account=no account"])}),
    "typed value": (lambda page: type_in(page, "duration now", "40"), lambda: {"edits": {"duration": 40}}),
    "typed category": (
        lambda page: page.get_by_label("savings now").select_option("unknown"),
        lambda: {"edits": {"savings": "unknown"}},
    ),
    "few": (lambda page: type_in(page, "Changes at most", "2"), lambda: {"max_changes": 2}),
    "target": (lambda page: page.get_by_label("Wanted decision").select_option("approved"), dict),
    "beyond the data": (
        lambda page: page.get_by_label("Within the range seen in the data").uncheck(),
        lambda: {"actions": usual(within=False)},
    ),
    "probability": (lambda page: type_in(page, "Wanted probability in per cent", "83.5"), lambda: {"prob": 0.835}),
    "next": (lambda page: page.get_by_label("Next row").click(), lambda: {"row": ROW + 1, "target": "refused"}),
    "row": (lambda page: type_in(page, f"Row, of {len(bank()[1])}", "9"), lambda: {"row": 9}),
}


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def window(browser, address, request):
    """One page for many tests: each begins at another address of it."""
    with visit(browser, address, size=request.param) as page:
        yield page


@pytest.mark.parametrize("control", CONTROLS)
def test_every_control_asks_what_it_says_and_the_numbers_are_the_librarys(window, address, control):
    act, expected = CONTROLS[control]
    window.goto(f"{address}#row={ROW}")
    settle(window)
    act(window)
    check(read(window), answer(**expected()))
    assert not window.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def test_an_emptied_field_is_as_the_data_have_it(window, address):
    window.goto(f"{address}#row={ROW}&set.age=30")
    settle(window)
    type_in(window, "age now", "")
    check(read(window), answer())
    assert window.get_by_label("age now").input_value() == "22"


def test_a_row_can_be_typed_from_typical_values(browser, address):
    _, frame = bank()
    typical = {name: int(np.quantile(frame[name], 0.5, method="lower")) for name in credit.NUMBERS}
    typical |= {name: frame[name].mode()[0] for name in credit.CATEGORIES}
    with visit(browser, address, f"row={ROW}") as page:
        page.get_by_role("button", name="Type one in").click()
        type_in(page, "age now", "20")
        page.get_by_label("account now").select_option("overdrawn")
        typical |= {"age": 20, "account": "overdrawn"}
        check(read(page), answer(edits=typical, target=page.locator("#target").input_value()))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pictures(browser, address, size):
    classifier, X = digits()
    with visit(browser, address, "model=digits&row=15&target=6&prob=0.8", size=size) as page:
        cf = one(ifonly.invert(classifier, X[15], 6, prob=0.8, actions=Actions(bounds=(0.0, 1.0))))
        said = read(page)
        check(said, cf, labels=lambda name: f"row {int(name) // 8 + 1}, column {int(name) % 8 + 1}")
        assert said["sentence"].startswith(f"If only {cf.n_changes} pixels of the picture were different")
        drawn = page.evaluate(
            """() => ["before", "after"].map((id) => {
                 const canvas = document.getElementById(id);
                 return [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data];
               })"""
        )
        for pixels, x in zip(drawn, (X[15], cf.x), strict=True):
            shades = np.array(pixels).reshape(64, 4)
            np.testing.assert_allclose(shades[:, :3], np.repeat(255 * (1 - x[:, None]), 3, axis=1), atol=0.51)


def test_a_model_with_scores_only_has_a_lead_to_ask_for(browser, address):
    with visit(browser, address, "model=scores") as page:
        type_in(page, "income now", "-3")
        type_in(page, "Wanted lead over every other class", "0.5")
        said = read(page)
        cf = one(ifonly.invert(scores(), [-3.0, 0.0], "yes", margin=0.5))
        assert [row[2] for row in said["rows"]] == [as_number(v, row[2]) for v, row in zip(cf.x, said["rows"], strict=True)]
        assert said["then"] == "yes"
        assert not page.locator("#wanted").is_visible()
        assert not page.locator("#chances").is_visible()
        assert not page.locator("#path").is_visible()


# ---- dragging ----


def drag(page, parts, pause=0):
    """The slider by its thumb, as a pointer does it."""
    box = page.locator("#wanted").bounding_box()
    wanted = float(page.locator("#wanted").input_value())
    least, most = (float(page.get_attribute("#wanted", name)) for name in ("min", "max"))
    inner = box["width"] - 16
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 8 + inner * (wanted - least) / (most - least), y)
    page.mouse.down()
    for part in parts:
        page.mouse.move(box["x"] + 8 + inner * part, y)
        page.wait_for_timeout(pause)
    page.mouse.up()


def test_the_answer_moves_while_dragging_with_one_request_at_a_time(browser, address):
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
        steps = page.evaluate("history.length")
        flying, most, said = [0], [0], []

        def begun(request):
            if request.url.endswith("/v1/invert"):
                flying[0] += 1
                most[0] = max(most[0], flying[0])

        def ended(request):
            if request.url.endswith("/v1/invert"):
                flying[0] -= 1
                said.append(page.evaluate("document.getElementById('chance-then').innerText"))

        page.on("request", begun)
        page.on("requestfinished", ended)
        drag(page, np.linspace(0.3, 0.9, 25), pause=20)
        cf = answer(prob=float(page.locator("#exact").input_value()) / 100)
        check(read(page), cf)
        assert most[0] == 1
        assert len(set(said)) > 5  # it moved before the pointer was let go
        assert page.evaluate("history.length") == steps + 1  # one step to undo, not twenty-five
        page.wait_for_url(re.compile(r"prob=0\.9"))


def test_nothing_jumps_while_dragging(browser, address):
    places = """() => ["wanted", "exact", "sentence", "features-title", "rows", "bars", "path-title"].map((id) => {
      const { x, y, width } = document.getElementById(id).getBoundingClientRect();
      return [x, y + scrollY, width].map(Math.round);
    })"""
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
        before = page.evaluate(places)
        for part in (0.1, 0.5, 0.8, 0.95):
            drag(page, [part])
            settle(page)
            assert page.evaluate(places) == before


def test_stale_answers_are_dropped(browser, address):
    """An answer about one row that comes late, when another is on the page."""
    held = []

    def hold(route):
        if json.loads(route.request.post_data)["index"] == 2:
            held.append(route)
        else:
            route.continue_()

    with visit(browser, address, f"row={ROW}", quiet=False) as page:
        settle(page)
        page.route("**/v1/invert", hold)
        type_in(page, f"Row, of {len(bank()[1])}", "2")
        while not held:
            page.wait_for_timeout(20)
        type_in(page, f"Row, of {len(bank()[1])}", "4")
        check(read(page), answer(row=4))
        for route in held:
            route.continue_()
        page.wait_for_timeout(200)
        check(read(page), answer(row=4))


def test_what_someone_is_typing_is_not_overwritten_by_an_answer(browser, address):
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
        held = []
        page.route("**/v1/rows*", lambda route: held.append(route))
        page.get_by_label("Next row").click()
        field = page.get_by_label("duration now")
        field.press("End")
        page.keyboard.type("9")
        while not held:
            page.wait_for_timeout(20)
        held[0].continue_()
        settle(page)
        assert field.input_value() == "489"
        assert page.locator("#row").input_value() == str(ROW + 1)
        page.keyboard.press("Enter")
        check(
            read(page),
            answer(row=ROW + 1, edits={"duration": 489}, target="refused", actions=usual(bounds={"duration": (4, 489)})),
        )


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
        settle(page)
        page.wait_for_timeout(400)  # the address is rewritten four times a second
        first, link = read(page), page.url
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
        assert not other.locator("#marks").is_visible()
        assert other.locator("#undo").is_disabled()
        check(read(page), answer(actions=usual(frozen=["account"])))


# ---- what is wrong is said where it is ----

WRONG = {
    "a word": (lambda page: type_in(page, "age now", "abc"), "age now", "age"),
    "too probable": (
        lambda page: type_in(page, "Wanted probability in per cent", "150"),
        "Wanted probability in per cent",
        "prob",
    ),
    "no probability": (
        lambda page: type_in(page, "Wanted probability in per cent", "x"),
        "Wanted probability in per cent",
        "prob",
    ),
    "a limit": (set_limit("amount at most", "x"), "amount at most", "amount"),
    "limits the wrong way": (
        lambda page: (set_limit("amount at least", "9000")(page), type_in(page, "amount at most", "5")),
        "amount at least",
        "9000 is not at most 5",
    ),
    "half a change": (lambda page: type_in(page, "Changes at most", "1.5"), "Changes at most", "max_changes"),
    "no such row": (lambda page: type_in(page, "Row, of 1000", "5000"), "Row, of 1000", "0 to 999"),
}


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def loud_window(browser, address, request):
    """As `window`; browsers log every answer that is not 200."""
    with visit(browser, address, size=request.param, quiet=False) as page:
        yield page


@pytest.mark.parametrize("mistake", WRONG)
def test_bad_input_shows_its_message_beside_the_field(loud_window, address, mistake):
    page = loud_window
    act, label, words = WRONG[mistake]
    page.goto(f"{address}#row={ROW}")
    settle(page)
    act(page)
    message = page.locator("#complaint")
    message.wait_for()
    assert words in message.inner_text()
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
        assert f"The best that can be reached is {as_percent(best)}".replace(".0", "") in said
        assert f"In the way: {cf.blocking[0].split('=')[0]} is locked" in said
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
