"""The what-if page on a running server: every control asks what it says, and the numbers are the library's."""

import json
import re
from contextlib import ExitStack
from functools import cache

import numpy as np
import pytest
from helpers.whatif import (
    DESKTOP,
    PHONE,
    ROW,
    answer,
    as_number,
    bank,
    check,
    digits,
    drag,
    limits_of,
    loaded,
    one,
    read,
    scores,
    set_limit,
    settle,
    type_in,
    uncheck_value,
    until,
    usual,
    visit,
)

import ifonly
from ifonly import Actions, Cost
from ifonly.cli import credit

# ---- every control, and the numbers are the library's ----


def per_month():
    """What a month costs by itself: one standard deviation is 1."""
    scaler = bank()[0].named_steps["columntransformer"].named_transformers_["numbers"]
    return 1 / scaler.scale_[credit.NUMBERS.index("duration")]


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


@pytest.fixture(scope="module")
def windows(browser, address):
    """By size, one window for many tests: to open one takes longer than to load the page in it."""
    with ExitStack() as stack:
        yield cache(lambda size: stack.enter_context(visit(browser, address, size=size)))


ON_A_PHONE = ("at least", "typed value", "few")  # a drawer, a row and a field of the question: the rest is what it is on a desk
CASES = [*((DESKTOP, control) for control in CONTROLS), *((PHONE, control) for control in ON_A_PHONE)]


@pytest.mark.parametrize(("size", "control"), CASES, ids=[f"{'phone' if s == PHONE else 'desktop'}-{c}" for s, c in CASES])
def test_every_control_asks_what_it_says_and_the_numbers_are_the_librarys(windows, address, size, control):
    act, expected = CONTROLS[control]
    page = loaded(windows(size), address, f"row={ROW}")
    act(page)
    check(read(page), answer(**expected()))
    assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def test_an_emptied_field_is_as_the_data_have_it(windows, address):
    page = loaded(windows(DESKTOP), address, f"row={ROW}&set.age=30")
    type_in(page, "age now", "")
    check(read(page), answer())
    assert page.get_by_label("age now").input_value() == "22"


def test_a_row_can_be_typed_from_typical_values(browser, address):
    _, frame = bank()
    typical = {name: int(np.quantile(frame[name], 0.5, method="lower")) for name in credit.NUMBERS}
    typical |= {name: frame[name].mode()[0] for name in credit.CATEGORIES}
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
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
        for row, before, after in zip(said["rows"], cf.source, cf.x, strict=True):
            assert row[2] in as_number(after, row[2], up=after > before)
        assert said["then"] == "yes"
        assert not page.locator("#wanted").is_visible()
        assert not page.locator("#chances").is_visible()
        assert not page.locator("#path").is_visible()


# ---- dragging ----


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
        until(page, lambda: held)
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
        until(page, lambda: held)
        held[0].continue_()
        settle(page)
        assert field.input_value() == "489"
        assert page.locator("#row").input_value() == str(ROW + 1)
        page.keyboard.press("Enter")
        check(
            read(page),
            answer(row=ROW + 1, edits={"duration": 489}, target="refused", actions=usual(bounds={"duration": (4, 489)})),
        )
