"""The what-if page of a server with a policy: its words, and what nobody at the page can undo."""

import re

import pytest
from helpers.serving import make_toy, serving
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


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("policy")
    (folder / "policy.toml").write_text(POLICY)
    with (
        serving(folder, *make_toy(folder), "--policy", folder / "policy.toml") as running,
        visit(browser, str(running.client.base_url).rstrip("/") + "/", "row=0&prob=0.9&target=refused") as shown,
    ):
        settle(shown)
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
