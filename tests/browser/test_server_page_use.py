"""The what-if page, what one does with an answer: other plans, bookmarks, receipts, other rows and models."""

import json
import re

import numpy as np
import pytest
from helpers.whatif import (
    DESKTOP,
    PHONE,
    ROW,
    answer,
    bank,
    changing,
    check,
    check_soon,
    one,
    person,
    read,
    served,
    settle,
    until,
    usual,
    visit,
    wide,
)

import ifonly
from ifonly import Actions
from ifonly.model.store import fingerprint
from ifonly.show.numbers import number

TOKEN = "open-sesame-open-sesame"


# ---- other answers ----


def prob_of(page):
    """The probability that the address has."""
    return float(page.evaluate("new URLSearchParams(location.hash.slice(1)).get('prob')"))


def test_a_click_on_the_path_takes_that_point(browser, address):
    with visit(browser, address, f"row={ROW}&target=approved") as page:
        page.wait_for_selector("#chart[aria-busy=false] .curve")
        page.locator("#chart").click(position={"x": 140, "y": 40})  # further right a search takes seconds
        settle(page)
        asked = prob_of(page)
        cf = answer(prob=asked)
        check(read(page), cf)
        assert f"size {number(cf.distance, 3)}," in page.locator("#point").inner_text()
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
        assert f"λ = {number(cf.lam, 3)}" in said.replace("\u00a0", " ")
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
                assert re.search(rf"→ (at most |at least )?{re.escape(str(after))}", card.replace("\u202f", ""))
        assert "→ at most " in "".join(cards)
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
        settle(page)
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
        languages = page.get_by_label("Language of the letter")
        assert languages.locator("option").all_inner_texts() == ["Deutsch", "English", "español", "français"]
        assert languages.input_value() == "en"
        languages.select_option("fr")
        for kind in ("html", "json", "csv", "letter"):
            with page.expect_download() as got:
                page.locator(f"#keep button[value={kind}]").click()
            assert got.value.suggested_filename == ("ifonly-letter.html" if kind == "letter" else f"ifonly-answer.{kind}")
            got.value.save_as(tmp_path / f"answer.{kind}")
        assert cf.changes()[0][0] in (tmp_path / "answer.html").read_text()
        cf.to_html(tmp_path / "letter.html", template="letter", language="fr")
        assert (tmp_path / "answer.letter").read_text() == (tmp_path / "letter.html").read_text()
        assert json.loads((tmp_path / "answer.json").read_text())["result"]["proba"] == cf.proba.tolist()
        lines = (tmp_path / "answer.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in lines[1:]] == [name for name, _, _ in cf.changes()]


# ---- rows, models, tokens ----


def test_choosing_a_row(browser, address):
    pipeline, frame = bank()
    with visit(browser, address, size=PHONE) as page:  # where the dialog has the least room
        settle(page)
        page.get_by_role("button", name="Choose…").click()
        dialog = page.get_by_role("dialog", name="Choose a row")
        dialog.get_by_text("1 to 20 of 1000").wait_for()
        dialog.get_by_role("button", name="Next").click()
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

        def read_again():
            page.get_by_label("Lock income").dblclick()
            settle(page)
            page.get_by_role("button", name="Receipt…").click()
            seen = fingerprint(model) in page.locator("#paper").inner_text()
            page.keyboard.press("Escape")
            return seen

        until(page, read_again)
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
    with (
        served(folder, "--token-file", folder / "token", models=["wide"]) as address,
        visit(browser, address, quiet=False) as page,
    ):
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
