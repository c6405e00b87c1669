"""The what-if page, what one does with an answer: other plans, bookmarks, receipts; and with which eyes and hands."""

import json
import re

import numpy as np
import pytest
from browser import SCREENSHOTS, chromium
from whatif import (
    DESKTOP,
    NASTY,
    NASTY_CLASSES,
    PHONE,
    ROW,
    SMALL,
    answer,
    bank,
    changing,
    check,
    check_soon,
    contrast,
    limits_of,
    one,
    person,
    read,
    served,
    settle,
    type_in,
    usual,
    visit,
    wide,
)

import ifonly
from ifonly import Actions
from ifonly.record import fingerprint

LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA
TOKEN = "open-sesame-open-sesame"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


# ---- other answers ----


def prob_of(page):
    """The probability that the address has."""
    return float(page.evaluate("new URLSearchParams(location.hash.slice(1)).get('prob')"))


def test_a_click_on_the_path_takes_that_point(browser, address):
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        page.wait_for_selector("#chart[aria-busy=false] .curve")
        page.locator("#chart").click(position={"x": 240, "y": 40})
        settle(page)
        asked = prob_of(page)
        cf = answer(prob=asked)
        check(read(page), cf)
        assert f"size {float(f'{cf.distance:.3g}'):g}," in page.locator("#point").inner_text()
        page.locator("#chart").press("ArrowLeft")
        page.wait_for_function("(p) => Number(new URLSearchParams(location.hash.slice(1)).get('prob')) < p", arg=asked)
        settle(page)
        check(read(page), answer(prob=prob_of(page)))


def test_the_path_of_a_free_problem_is_along_lambda(browser, address):
    model, X = wide()
    with visit(browser, address, "model=wide&row=2&target=b&prob=0.8&within=0") as page:
        page.wait_for_selector("#chart[aria-busy=false] .curve")
        settle(page)
        cf = one(ifonly.invert(model, X[2], "b", prob=0.8))
        said = page.locator("#point").inner_text()
        assert f"λ = {float(f'{cf.lam:.3g}'):g}" in said
        again = one(ifonly.invert(model, X[2], "b", lam=cf.lam))
        np.testing.assert_allclose(again.x, cf.x, rtol=1e-9)  # the point is one of the path's


def plans_of(n):
    found = ifonly.invert(bank()[0], person(), "approved", prob=0.6, actions=usual(), n=n)
    assert isinstance(found, ifonly.Counterfactuals)
    return list(found)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_plans_side_by_side_and_bookmarks_to_compare(browser, address, size):
    with visit(browser, address, f"row={ROW}&target=approved", size=size) as page:
        page.get_by_role("combobox", name="Plans", exact=True).select_option("3")
        page.get_by_label("Plan 3").wait_for()
        settle(page)
        plans = plans_of(3)
        cards = page.locator(".card").all_inner_texts()
        for card, plan in zip(cards, plans, strict=True):
            for name, _, after in plan.changes()[:6]:
                assert f"{name}" in card
                assert f"→ {after}" in card.replace("\u202f", "")
        check(read(page), plans[0])
        page.get_by_role("button", name="Bookmark", exact=True).click()
        page.get_by_label("Plan 2").check()
        settle(page)
        check(read(page), plans[1])
        page.get_by_role("button", name="Bookmark", exact=True).click()
        page.get_by_role("button", name="Bookmark", exact=True).click()  # twice is once
        heads = page.locator("#compare thead a")
        assert heads.count() == 2
        for name, _, after in plans[1].changes():
            cells = page.locator("#compare tbody tr", has=page.get_by_role("rowheader", name=name, exact=True)).locator("td")
            assert f"→ {after}" in cells.nth(1).inner_text().replace("\u202f", "")
        heads.first.click()
        check_soon(page, plans[0])
        page.get_by_label("Remove bookmark 1").click()
        assert heads.count() == 1
        page.reload()
        assert heads.count() == 1
        assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def test_the_receipt_holds_and_the_library_rechecks_it(browser, address, tmp_path):
    with visit(browser, address, f"row={ROW}&target=approved&plans=2&plan=1") as page:
        settle(page)
        page.get_by_role("button", name="Receipt…").click()
        plan = plans_of(2)[1]
        paper = page.locator("#paper").inner_text()
        assert plan.sentence() in paper
        assert "The smallest change of its kind" in paper
        assert json.loads(plan.to_json())["model"]["fingerprint"] in paper
        with page.expect_download() as got:
            page.get_by_role("button", name="Save (JSON)").click()
        got.value.save_as(tmp_path / "receipt.json")
        ifonly.verify(tmp_path / "receipt.json", bank()[0])  # or it would raise
        record = json.loads((tmp_path / "receipt.json").read_text())
        np.testing.assert_array_equal(record["x"], plan.coordinates[1])
        page.emulate_media(media="print")
        assert page.locator("#paper").is_visible()
        assert not page.locator("#features").is_visible()
        assert not page.locator("#receipt button").first.is_visible()
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 1


def test_downloads_are_the_librarys_files(browser, address, tmp_path):
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        settle(page)
        cf = answer()
        for kind in ("html", "json", "csv"):
            with page.expect_download() as got:
                page.locator(f"#keep button[value={kind}]").click()
            assert got.value.suggested_filename.endswith(f".{kind}")
            got.value.save_as(tmp_path / f"answer.{kind}")
        assert cf.changes()[0][0] in (tmp_path / "answer.html").read_text()
        assert json.loads((tmp_path / "answer.json").read_text())["result"]["proba"] == cf.proba.tolist()
        lines = (tmp_path / "answer.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in lines[1:]] == [name for name, _, _ in cf.changes()]


# ---- rows, models, tokens ----


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_choosing_a_row(browser, address, size):
    pipeline, frame = bank()
    with visit(browser, address, size=size) as page:
        settle(page)
        page.get_by_role("button", name="Choose…").click()
        dialog = page.get_by_role("dialog", name="Choose a row")
        dialog.get_by_text("1 to 20 of 1000").wait_for()
        dialog.get_by_role("button", name="Forth").click()
        dialog.get_by_text("21 to 40 of 1000").wait_for()
        dialog.get_by_label("Search").fill("retraining")
        found = frame.index[(frame == "retraining").any(axis=1)]
        dialog.get_by_text(re.compile(f"of {len(found)}$")).wait_for()
        dialog.get_by_label("The model decides").select_option("refused")
        refused = [i for i in found if pipeline.predict(frame.loc[[i]])[0] == "refused"]
        dialog.get_by_text(re.compile(f"of {len(refused)}$")).wait_for()
        rows = dialog.get_by_role("button", name=re.compile("^Row "))
        assert [int(text) for text in rows.all_inner_texts()] == refused[:20]
        dialog.get_by_label("Search").fill("no such thing")
        dialog.get_by_text("Nothing found.").wait_for()
        dialog.get_by_label("Search").fill("retraining")
        dialog.get_by_role("button", name=f"Row {refused[-1]}", exact=True).click()
        assert not dialog.is_visible()
        page.wait_for_function("(row) => document.getElementById('row').value === row", arg=str(refused[-1]))
        check(read(page), answer(row=refused[-1]))


def test_several_models(browser, address):
    with visit(browser, address, f"row={ROW}") as page:
        settle(page)
        page.get_by_role("combobox", name="Model", exact=True).select_option("wide")
        page.wait_for_function("() => document.getElementById('model-name').innerText === 'wide'")
        model, X = wide()
        cf = one(ifonly.invert(model, X[0], prob=0.6, actions=Actions(bounds=ranges(X))))
        page.wait_for_function("() => document.querySelectorAll('#rows tr:not(.drawer)').length === 24")
        check(read(page), cf)
        page.go_back()
        check_soon(page, answer())


def ranges(X):
    return {
        f"gene {i}": (float(low), float(high)) for i, (low, high) in enumerate(zip(X.min(axis=0), X.max(axis=0), strict=True))
    }


def test_a_model_whose_file_changes_is_seen(browser, address):
    with visit(browser, address, "model=changing&target=yes") as page:
        settle(page)
        check(read(page), one(ifonly.invert(changing(1.0), [0.0, 0.0], "yes", prob=0.6)))
        model = changing(5.0)
        model.save(address.folder / "changing.npz")
        page.get_by_role("button", name="Receipt…").click()
        while fingerprint(model) not in page.locator("#paper").inner_text():  # asked again and again, it is read within seconds
            page.get_by_role("dialog", name="Receipt").get_by_role("button", name="Close").click()
            page.get_by_label("Lock income").dblclick()
            settle(page)
            page.wait_for_timeout(200)
            page.get_by_role("button", name="Receipt…").click()
        check(read(page), one(ifonly.invert(model, [0.0, 0.0], "yes", prob=0.6)))


def test_many_features_are_found_by_name_and_those_that_change_come_first(browser, address):
    model, X = wide()
    with visit(browser, address, "model=wide&row=1&target=c") as page:
        settle(page)
        cf = one(ifonly.invert(model, X[1], "c", prob=0.6, actions=Actions(bounds=ranges(X))))
        first = [name for name, _, _ in cf.changes()[:24]]
        assert [row[0] for row in read(page)["rows"]] == first
        page.get_by_role("button", name="Show 48 more of 500").click()
        assert len(read(page)["rows"]) == 72
        page.get_by_label("Find a feature").fill("gene 499")
        page.get_by_label("Lock gene 499").click()
        settle(page)
        page.get_by_label("Find a feature").fill("")
        assert read(page)["rows"][0][0] == "gene 499"  # what the person has set is at the top
        page.get_by_label("Only what changes").check()
        assert "gene 499" not in [row[0] for row in read(page)["rows"]]


def test_a_token_is_asked_for(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("secret")
    (folder / "token").write_text(f"{TOKEN}\n")
    with served(folder, "--token-file", folder / "token") as address, visit(browser, address, quiet=False) as page:
        dialog = page.get_by_role("dialog", name="This server asks for a token")
        dialog.get_by_label("Token").fill("wrong")
        dialog.get_by_role("button", name="Continue").click()
        page.get_by_text("The server does not accept this token.").wait_for()
        dialog.get_by_label("Token").fill(TOKEN)
        dialog.get_by_label("Token").press("Enter")
        settle(page)
        with page.expect_download():
            page.locator("#keep button[value=json]").click()
        page.reload()
        settle(page)  # it is remembered in this tab
        assert not dialog.is_visible()


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
        for name in ("In short", "What changes, and what may", "Probabilities", "What this is worth", "Bookmarks"):
            assert page.get_by_role("region", name=name).count() >= 1
        table = page.get_by_role("table", name="What changes, and what may")
        assert table.get_by_role("rowheader", name="duration").count() == 1
        assert page.get_attribute("#sentence", "aria-live") == "polite"
        page.locator("#wanted").press("ArrowRight")
        page.wait_for_selector("#sentence[aria-busy=true]")  # silent while it moves
        page.wait_for_selector("#sentence[aria-busy=false]")
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
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SCREENSHOTS / f"whatif-{request.node.callspec.id}-{scheme}.png", full_page=True)
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
