"""The what-if page of a server with a policy: its words, and what nobody at the page can undo."""

import re
from contextlib import contextmanager

import pytest
from helpers.serving import make_credit, make_toy, serving
from helpers.whatif import settle, visit

POLICY = """
target = "approved"
prob = 0.6

[classes]
approved = "granted"
refused = "not granted"

[features.age]
name = "years of age"
frozen = true
reason = "Nobody gets younger."

[features.income]
name = "monthly income"
unit = "thousands"
only = "increase"
"""


@contextmanager
def shown_within(policy, make, browser, folder, state, **more):
    """The page of what ``make`` puts into a folder, served within a policy."""
    (folder / "policy.toml").write_text(policy)
    with (
        serving(folder, *make(folder), "--policy", folder / "policy.toml") as running,
        visit(browser, str(running.client.base_url).rstrip("/") + "/", state, **more) as shown,
    ):
        settle(shown)
        yield shown


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    with shown_within(POLICY, make_toy, browser, tmp_path_factory.mktemp("policy"), "row=0&prob=0.9&target=refused") as shown:
        yield shown


def test_things_have_the_names_that_the_policy_gives_them(page):
    names = page.locator("#rows th").all_inner_texts()
    assert {"years of age", "monthly income (thousands)", "loans"} <= set(names)
    assert page.locator("#target option").all_inner_texts() == ["the other", "not granted", "granted"]
    assert page.locator("#wanted-label").inner_text() == "Wanted probability of granted"
    assert page.locator("#decided-now").inner_text() == "granted"
    assert page.locator("#chance-now").inner_text().endswith("for granted")
    assert "the decision would still be granted" in page.locator("#sentence").inner_text()
    assert re.findall(r"^[a-z ]+", page.locator("#bars").inner_text(), re.MULTILINE) == ["granted", "not granted"]
    assert not {"approved", "refused"} & set(re.findall(r"\w+", page.locator("body").inner_text()))


def test_what_the_policy_locks_stays_locked_and_says_why(page):
    lock = page.get_by_role("button", name="Lock years of age")
    assert lock.is_disabled()
    assert lock.get_attribute("aria-pressed") == "true"
    assert lock.get_attribute("title") == "Nobody gets younger."
    assert page.get_by_role("button", name="Lock loans").is_enabled()
    assert page.get_by_role("button", name="Limits of monthly income (thousands): only up").count() == 1


def test_what_is_wanted_is_the_policys_whatever_the_link_says(page):
    assert page.locator("#target").input_value() == "approved"
    assert page.locator("#target").is_disabled()
    assert page.locator("#wanted").is_disabled()
    assert page.locator("#exact").input_value() == "60"
    assert page.locator("#decided-then").inner_text() == "granted"


# ---- categories, and ranges that are not those of the data ----

CREDIT = """
target = "approved"
may_choose = ["prob"]
max_changes = 3

[classes]
approved = "granted"
refused = "not granted"

[features.savings]
name = "money put aside"
never = ["unknown"]
values = { "under 100" = "next to nothing", "1000 or more" = "plenty" }

[features.duration]
name = "term"
unit = "months"
low = 12
high = 48
step = 6

[features.age]
frozen = true
"""
LOCKED = "&".join(f"hard.{name}=impossible" for name in ("account", "history", "purpose", "employment", "amount", "status"))


@pytest.fixture(scope="module")
def bank(browser, tmp_path_factory):
    folder, state = tmp_path_factory.mktemp("bank"), f"row=1&prob=0.95&{LOCKED}"
    with shown_within(CREDIT, make_credit, browser, folder, state, quiet=False) as shown:
        yield shown


def limits_of(page, label):
    button = page.get_by_role("button", name=f"Limits of {label}:")
    button.click()
    return page.locator(f"#{button.get_attribute('aria-controls')}")


def test_values_have_the_names_that_the_policy_gives_them(bank):
    now = bank.get_by_label("money put aside now", exact=True)
    assert {"next to nothing", "plenty", "unknown"} <= set(now.locator("option").all_inner_texts())
    drawer = limits_of(bank, "money put aside")
    bank.wait_for_selector(".levels th[scope=row]")
    assert "plenty" in drawer.inner_text()
    assert not re.search("1000 or more|under 100", drawer.inner_text())


def test_values_that_the_policy_rules_out_cannot_be_ruled_in(bank):
    box = bank.get_by_role("group", name="money put aside may become").get_by_label("unknown")
    assert (box.is_checked(), box.is_disabled()) == (False, True)
    assert bank.get_by_role("button", name="Limits of money put aside: not unknown").count() == 1


def test_limits_are_the_policys_and_the_data_are_the_datas(bank):
    drawer = limits_of(bank, "term (months)")
    assert bank.get_by_role("button", name="Limits of term (months): 12 to 48, multiples of 6").count() == 1
    ends = [drawer.get_by_label(f"term (months) {words}").get_attribute("placeholder") for words in ("at least", "at most")]
    assert ends == ["policy: 12", "policy: 48"]
    bank.wait_for_selector("#scatter circle")
    assert "the data go from 4 to 72" in drawer.locator(".look .note").inner_text()
    assert drawer.locator(".ends").inner_text().split() == ["4", "72"]
    bank.get_by_label("Across", exact=True).select_option("duration")
    assert bank.locator("#scatter .tick").all_text_contents()[:2] == ["4", "72"]
    assert bank.get_by_label("Changes at most").get_attribute("placeholder") == "3"


def test_what_the_policy_does_not_allow_is_said_in_the_pages_words(bank):
    field = bank.get_by_label("term (months) at least")
    field.fill("50")
    field.press("Enter")
    bank.wait_for_selector("text=At least 50 and at most 48: that leaves nothing for term (months).")
    bank.get_by_label("Within the range seen in the data").uncheck()
    bank.wait_for_selector("text=For term (months) the policy allows 12 to 48.")
    for _ in range(2):
        bank.get_by_role("button", name="Undo").click()
        settle(bank)


def test_what_is_in_the_way_has_the_policys_names(bank):
    said = bank.locator("#reach p").inner_text()
    assert "term ≥ 12 months" in said
    assert "account is locked" in said
    assert not re.search(r"duration|savings|frozen|may not become [,.]", said)


def test_a_receipt_says_what_the_policy_does_not_let_change(page):
    page.get_by_role("button", name="Receipt…").click()
    conditions = page.locator("#paper li").all_inner_texts()
    assert "years of age: cannot change" in conditions
    assert "monthly income (thousands): only up" in conditions
    page.locator("#receipt .close").click()
