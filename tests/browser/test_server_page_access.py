"""The what-if page: safe whatever is in it, and for all eyes and hands."""

import re

import pytest
from helpers.browser import contrast, screenshot
from helpers.whatif import (
    DESKTOP,
    NASTY,
    NASTY_CLASSES,
    PHONE,
    ROW,
    SMALL,
    answer,
    check_soon,
    limits_of,
    read,
    settle,
    type_in,
    usual,
    visit,
)

LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA


# ---- safe ----


def test_names_are_text_whatever_they_are(browser, address):
    with visit(browser, address, "model=nasty") as page:
        for name in NASTY:
            type_in(page, f"{name} now", "0.5")
            limits_of(page, name)
            type_in(page, f"{name} at most", "40")
        page.get_by_label(f"Lock {NASTY[1]}").click()
        settle(page)
        page.get_by_role("button", name="Bookmark", exact=True).click()
        page.get_by_role("button", name="Receipt…").click()
        said = read(page)
        assert [row[0] for row in said["rows"]] == NASTY
        assert {bar[0] for bar in said["bars"]} == set(NASTY_CLASSES)
        assert page.evaluate("document.querySelectorAll('img, b, script:not([src])').length") == 0
        page.reload()
        assert read(page) == said  # the address has them as they are


def test_the_page_may_run_and_fetch_nothing_else(browser, address):
    with visit(browser, address, quiet=False) as page:
        settle(page)
        policy = page.evaluate("fetch('.').then((reply) => reply.headers.get('content-security-policy'))")
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        html = page.evaluate("fetch('.').then((reply) => reply.text())")
        assert not re.search(r"\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|https?:", html)
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = true'}))"
        )
        assert page.evaluate("window.ran") is None
        assert page.evaluate("fetch('https://example.org/').then(() => 'sent', () => 'refused')") == "refused"


# ---- with which eyes and hands ----

NAMELESS = """() => [...document.querySelectorAll("button, input, select, a, [role], canvas, dialog")].filter((element) => {
  if (element.closest("[hidden]") || element.matches("[role=row], [role=cell], [role=rowgroup], [role=status]")) return false;
  const words = element.getAttribute("aria-label")
    || [...(element.labels ?? [])].map((label) => label.innerText).join("")
    || document.getElementById(element.getAttribute("aria-labelledby"))?.innerText
    || (element.matches("button, a, [role$=header], [role=alert]") && element.textContent);
  return !String(words || "").trim();
}).map((element) => element.outerHTML)"""
DOUBLE = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  return ids.filter((id, i) => ids.indexOf(id) !== i);
}"""
BUSY = """() => {
  const sentence = document.getElementById("sentence");
  window.busy = [];
  new MutationObserver(() => window.busy.push(sentence.ariaBusy)).observe(sentence, { attributeFilter: ["aria-busy"] });
}"""


def test_a_screen_reader_finds_its_way(browser, address):
    with visit(browser, address, f"row={ROW}&plans=2") as page:
        page.wait_for_selector("#chart[aria-busy=false] .curve")
        limits_of(page, "duration")
        limits_of(page, "account")
        page.get_by_role("button", name="Bookmark", exact=True).click()
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(DOUBLE) == []
        assert page.get_by_role("slider", name="Wanted probability of approved").count() == 1
        assert page.get_by_role("slider", name="What a larger change brings").get_attribute("aria-valuetext")
        for name in ("In short", "What changes, and what may", "Probabilities", "How certain this is", "Bookmarks"):
            assert page.get_by_role("region", name=name).count() >= 1
        table = page.get_by_role("table", name="What changes, and what may")
        assert table.get_by_role("rowheader", name="duration").count() == 1
        assert page.get_attribute("#sentence", "aria-live") == "polite"
        page.evaluate(BUSY)
        page.locator("#wanted").press("ArrowRight")
        page.wait_for_function("() => busy.includes('true') && busy.at(-1) === 'false'")  # silent while it moves
        assert page.get_attribute("html", "lang") == "en"


def test_everything_can_be_done_with_a_keyboard(browser, address):
    with visit(browser, address, f"row={ROW}") as page:
        page.wait_for_selector("#chart[aria-busy=false] .curve")
        wanted = (
            "button:not(:disabled, dialog *), input:not(dialog *), select:not(dialog *), [role=slider], .scroll:not(dialog *)"
        )
        count = page.evaluate("(all) => [...document.querySelectorAll(all)].filter((e) => e.checkVisibility()).length", wanted)
        seen, thin = set(), []
        for _ in range(count):
            page.keyboard.press("Tab")
            here = page.evaluate(
                """() => [document.activeElement.outerHTML.slice(0, 200) + document.activeElement.getBoundingClientRect().y,
                          getComputedStyle(document.activeElement).outlineStyle]"""
            )
            seen.add(here[0])
            thin += [here[0]] if here[1] == "none" else []
        assert len(seen) == count
        assert thin == []  # where the focus is can be seen
        page.locator("#skip").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "sentence"
        page.get_by_label("Lock account").focus()
        page.keyboard.press("Space")
        settle(page)
        page.get_by_label("To change status is").focus()
        page.keyboard.type("imp")
        page.keyboard.press("Enter")
        settle(page)
        page.locator("#wanted").focus()
        for key in ("ArrowRight", "PageUp", "Shift+ArrowLeft"):
            page.keyboard.press(key)
        settle(page)
        check_soon(page, answer(prob=0.659, actions=usual(frozen=["account", "status"])))
        page.get_by_role("button", name="Choose…").press("Enter")
        assert page.evaluate("document.activeElement.id") == "q"
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "choose"


TEXTS = [
    "#sentence",
    ".note",
    "#verdict",
    "#rows .after",
    "#rows tr.same th",
    "thead th",
    "footer",
    "#decisions .then strong",
    ".limits",
    "#about",
]


@pytest.mark.parametrize(
    "state", [f"row={ROW}&plans=3&set.duration=40", "model=digits&row=15&prob=0.8"], ids=["credit", "digits"]
)
@pytest.mark.parametrize("size", [DESKTOP, PHONE, SMALL], ids=["desktop", "phone", "small"])
def test_it_fits_every_window_and_is_legible(browser, address, state, size, request):
    with visit(browser, address, state, size=size) as page:
        page.wait_for_selector("#chart[aria-busy=false] .curve")
        settle(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            screenshot(page, f"whatif-{request.node.callspec.id}-{scheme}")
            assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
            for selector in TEXTS:
                if page.locator(selector).count():
                    assert contrast(page, selector) >= LEAST_CONTRAST, selector


def test_light_and_dark_can_be_chosen(browser, address):
    background = "getComputedStyle(document.documentElement).backgroundColor"
    with visit(browser, address, "model=digits&row=3", color_scheme="light") as page:
        settle(page)
        light = page.evaluate(background)
        page.get_by_role("button", name="Switch to dark colours").click()
        dark = page.evaluate(background)
        assert dark != light
        page.reload()
        assert page.evaluate(background) == dark
        page.emulate_media(media="print")
        assert page.evaluate(background) == "rgb(255, 255, 255)"  # paper is white, whatever was chosen


def test_it_prints(browser, address):
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        settle(page)
        page.emulate_media(media="print")
        assert not page.locator("#ask").is_visible()
        assert page.locator("#sentence").is_visible()
        assert page.locator("#rows tr.same").first.is_hidden()
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 1
