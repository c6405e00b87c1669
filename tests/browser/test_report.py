"""The page: what it shows are the library's numbers, wherever the slider is, and it is quiet, small and usable."""

import json
import re
from functools import cache
from html import unescape

import numpy as np
import pandas as pd
import pytest
from helpers.browser import contrast, scripted, visit
from helpers.whatif import until
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ifonly
from ifonly import Actions, Cost, InputError, Model, Status, invert, path
from ifonly.answers.change import moves
from ifonly.show.numbers import directed, fixed, percent
from ifonly.show.page import html
from ifonly.show.page.document import bundled
from ifonly.show.sentence import bound_word, told
from ifonly.show.text import visible

LARGEST = 2_000_000  # bytes
PROBS = [0.5, 0.501, 0.613, 0.75, 0.8, 0.937, 0.989, 0.99]

# ---- cases ----


@cache
def cancer():
    """K = 2, a pipeline with a scaler, a frame's row."""
    data = load_breast_cancer()
    X = pd.DataFrame(data.data, columns=data.feature_names)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, data.target_names[data.target])
    return pipeline, X[pipeline.predict(X) == "malignant"].iloc[3], "benign", {}


def wine():
    """K = 3, and a cost that is a mere scale."""
    X, y = load_wine(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    return pipeline, X[0], 1, {"cost": Cost("raw")}


@cache
def digit():
    """K = 10, a picture of 8×8."""
    X, y = load_digits(return_X_y=True)
    classifier = LogisticRegression(C=0.1, max_iter=1000).fit(X / 16, y)
    return classifier, X[15] / 16, 6, {}


def dependent():
    """More classes than features: rivals depend on each other."""
    rng = np.random.default_rng(3)
    return Model(rng.normal(size=(7, 2)) * 3, rng.normal(size=7)), rng.normal(size=2), 4, {}


def many():
    """K = 60."""
    rng = np.random.default_rng(4)
    return Model(rng.normal(size=(60, 300)), rng.normal(size=60)), rng.normal(size=300), 17, {}


def saturated():
    """A source whose class has all the probability, by e^200."""
    rng = np.random.default_rng(5)
    A = rng.normal(size=(8, 30))
    return Model(A, np.zeros(8)), 40 * A[2] / np.linalg.norm(A[2]), 5, {}


def close():
    """Rivals that are almost equal to each other and to the target."""
    rng = np.random.default_rng(6)
    A = np.repeat(rng.normal(size=(2, 12)), 3, axis=0) + 1e-3 * rng.normal(size=(6, 12))
    return Model(A, rng.normal(size=6)), rng.normal(size=12), 0, {}


LIVE = {case.__name__: case for case in (cancer, wine, digit, dependent, many, saturated, close)}


@cache
def credit(n=400):
    """Categories and whole numbers, made up; the refused applicant with the least chance."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "savings": rng.choice(["none", "some", "much"], n),
            "housing": rng.choice(["rent", "own"], n),
            "months": rng.integers(6, 60, n),
            "amount": rng.uniform(300, 9000, n).round(),
            "age": rng.integers(19, 70, n),
        }
    )
    score = (
        1.5 * (X["savings"] == "much") + (X["housing"] == "own") - 0.05 * X["months"] - 0.0003 * X["amount"] + 0.02 * X["age"]
    )
    y = np.where(score + rng.logistic(size=n) > -1.5, "approved", "refused")
    numbers = ["months", "amount", "age"]
    columns = ColumnTransformer([("n", StandardScaler(), numbers), ("c", OneHotEncoder(), ["savings", "housing"])])
    pipeline = make_pipeline(columns, LogisticRegression()).fit(X, y)
    refused = X[pipeline.predict(X) == "refused"]
    worst = refused.iloc[[int(pipeline.predict_proba(refused)[:, 0].argmin())]].iloc[0]
    limits = Actions(frozen=["age"], integer=["months"], bounds={"months": (6, 60), "amount": (300, 9000)})
    return pipeline, worst, "approved", {"actions": limits}


def box():
    """Pixels within their range."""
    classifier, x, target, _ = digit()
    return classifier, x, target, {"actions": Actions(bounds=(0, 1))}


def rules():
    """Few changes, and a group of one-hot columns that no pipeline made."""
    names = ["income", "debt", "job=none", "job=clerk", "job=smith"]
    model = Model.binary([1.0, -0.7, -0.5, 0.1, 0.8], -0.5, ["no", "yes"], names)
    return model, [-1.0, 1.5, 1.0, 0.0, 0.0], "yes", {"actions": Actions(one_of=names[2:]), "max_changes": 2}


def crowd():
    """More classes than a page has room for a matrix of."""
    rng = np.random.default_rng(7)
    return Model(rng.normal(size=(120, 20)), rng.normal(size=120)), rng.normal(size=20), 3, {}


STEPS = {case.__name__: case for case in (credit, box, rules, crowd)}

# ---- what the page says ----

READ = """() => {
  const text = (id) => document.getElementById(id).textContent.replaceAll("\u00a0%", " %").replaceAll(/(?<=[<>])\u00a0/g, " ");
  const cells = (id) => [...document.querySelectorAll(`#${id} tr`)].filter((row) => !row.hidden).map(
    (row) => [...row.children].filter((cell) => !cell.classList.contains("wide")).map((cell) => cell.textContent));
  return { value: text("value"), sentence: text("sentence"), proof: text("proof"), now: text("decided-now"),
           then: text("decided-then"), rows: cells("rows"), bars: cells("bars"), beyond: text("beyond") };
}"""


def read(page):
    return page.evaluate(READ)


def slide(page, value):
    """Put the slider at a value, as a pointer does, and wait for the drawing."""
    page.evaluate(
        """(value) => {
             const slider = document.getElementById("wanted");
             slider.value = value;
             slider.dispatchEvent(new Event("input", { bubbles: true }));
           }""",
        value,
    )
    return drawn(page)


def drawn(page):
    """What is to be seen of what was done, however slow the machine is."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return read(page)


def as_number(value, shown):
    """A number with as many decimals as what is shown has."""
    return fixed(float(value), decimals_of(shown))


def decimals_of(shown):
    return len(shown.partition(".")[2])


def as_percent(p):
    return percent(float(p), "tenths")


def one(answer):
    return answer if isinstance(answer, ifonly.Counterfactual) else answer[0]


def check(said, cf, shape=None):
    """The page's sentence and tables against an answer of the library's."""
    assert said["sentence"] == "".join(told(cf, shape)).replace("\u00a0%", " %")
    if shape is None:
        assert visible(said["sentence"]) == cf.sentence()
    model = cf.model
    changes = {change.feature if not change.feature.isdigit() else f"feature {change.feature}": change for change in moves(cf)}
    assert said["rows"]
    for name, before, after, difference in said["rows"]:
        if name not in changes:
            assert (after, difference) == (before, "same")
            continue
        was, is_now, word = changes[name].before, changes[name].after, bound_word(cf, changes[name])
        if isinstance(is_now, str):
            assert [before, after, difference] == [was, is_now, "other"]
        else:
            is_now = directed(float(is_now), decimals_of(after), up=word == "at least" if word else None)
            assert [before, after] == [as_number(was, before), as_number(is_now, after)]
            change = as_number(is_now - was, after)
            sign = "" if change[0] == "−" or not re.search("[1-9]", change) else "+"
            assert difference in (sign + change, "same" if before == after else None)
    now, then = (dict(zip(map(str, model.classes), p, strict=True)) for p in (model.predict_proba(cf.source).ravel(), cf.proba))
    for label, before, after in said["bars"]:
        if re.fullmatch(r"\d+ others|one other", label) and label not in now:
            shown = {bar[0] for bar in said["bars"]}
            before_rest, after_rest = (sum(v for key, v in p.items() if key not in shown) for p in (now, then))
            assert [before, after] == [as_percent(before_rest), as_percent(after_rest)]
        else:
            assert [before, after] == [as_percent(now[label]), as_percent(then[label])]
    assert said["then"] == str(model.predict(cf.x).item())


# ---- the numbers on the page are the library's ----


@pytest.mark.parametrize("case", LIVE)
def test_without_limits_the_page_solves_to_displayed_precision(browser, tmp_path, case):
    model, x, target, options = LIVE[case]()
    cf = one(invert(model, x, target, prob=0.8, **options))
    with visit(browser, cf.to_html(tmp_path / "page.html")) as seen:
        check(read(seen.page), cf)
        for prob in PROBS:
            said = slide(seen.page, prob)
            assert said["value"] == f"{round(100 * prob, 1):g} %"
            check(said, one(invert(model, x, target, prob=prob, **options)))
            assert "No smaller change exists" in said["proof"]
        seen.page.click("#all") if len(cf.delta) > 12 else None
        check(slide(seen.page, 0.7), one(invert(model, x, target, prob=0.7, **options)))


def test_the_page_and_the_sentence_say_the_same(browser, tmp_path):
    """Of an applicant of the bank: "at most" is there, and so is every change that is needed."""
    people = ifonly.credit.applicants()
    bank = ifonly.credit.pipeline(people[:800])
    others = people[800:].drop(columns="decision")
    applicant = others[bank.predict(others) == "refused"].iloc[3]
    cf = one(invert(bank, applicant, "approved", prob=0.6, actions=ifonly.credit.actions()))
    with visit(browser, cf.to_html(tmp_path / "page.html")) as seen:
        said = read(seen.page)["sentence"]
        assert said == cf.sentence()
        for name, _, _ in cf.changes():
            assert name in said
        assert "amount at most 5555 instead of 7432" in said


def test_a_page_does_not_tell_of_roundings(browser, tmp_path):
    model = Model.binary([1.0, 3e-16, -2.0, 0.0], -1.0, ["no", "yes"], ["income", "alike", "debt", "idle"])
    cf = one(invert(model, [0.5, 0.0, 1.5, 2.0], "yes", prob=0.8))
    with visit(browser, cf.to_html(tmp_path / "page.html")) as seen:
        assert read(seen.page)["sentence"] == cf.sentence()
        assert slide(seen.page, 0.9)["sentence"] == one(invert(model, [0.5, 0.0, 1.5, 2.0], "yes", prob=0.9)).sentence()
        assert sorted(seen.page.locator("#rows th").all_inner_texts()) == ["debt", "idle", "income"]


def test_a_page_opens_with_the_words_for_lam(browser, tmp_path):
    """Where the decision does not turn, and where nothing changes but the last digits."""
    model = Model(
        np.array([[1.0, 0.0, 0.3], [0.0, 1.0, -0.5], [0.2, -1.0, 0.0]]), np.zeros(3), ["a", "b", "c"], ["u", "v", "w"]
    )
    for lam in (1e6, 30.0, 1.0, 0.01):
        cf = one(invert(model, [3.0, -0.2, 0.1], "b", lam=lam))
        with visit(browser, cf.to_html(tmp_path / "page.html")) as seen:
            assert read(seen.page)["sentence"] == cf.sentence()


@pytest.mark.parametrize("case", STEPS)
def test_within_limits_the_page_steps_through_the_librarys_answers(browser, tmp_path, case):
    model, x, target, options = STEPS[case]()
    cf = one(invert(model, x, target, prob=0.8, **options))
    with visit(browser, cf.to_html(tmp_path / "page.html")) as seen:
        check(read(seen.page), cf)
        last = {"credit": 48}.get(case, 49)  # months and amount at their bounds, much savings, a house: and still 98 %
        assert seen.page.evaluate("[wanted.min, wanted.max, wanted.value]") == ["0", str(last), "30"]
        for step in (0, 7, 25, 41, last):
            said = slide(seen.page, step)
            assert said["value"] == f"{50 + step} %"
            check(said, one(invert(model, x, target, prob=(50 + step) / 100, **options)))
            assert "exists" in said["proof"]


def test_dragging_the_slider_moves_everything(browser, tmp_path):
    model, x, target, _ = digit()
    file = path(model, x, target).to_html(tmp_path / "page.html", shape=(8, 8), title="A digit")
    with visit(browser, file) as seen:
        first = read(seen.page)
        check_pixels(seen.page, one(invert(model, x, target, prob=0.8)))
        spot = seen.page.locator("#wanted").bounding_box()
        y = spot["y"] + spot["height"] / 2
        seen.page.mouse.move(spot["x"] + 0.62 * spot["width"], y)
        seen.page.mouse.down()
        for part in (0.6, 0.4, 0.23):
            seen.page.mouse.move(spot["x"] + part * spot["width"], y, steps=4)
        seen.page.mouse.up()
        last = drawn(seen.page)
        prob = float(last["value"].removesuffix(" %")) / 100
        assert 0.55 < prob < 0.68
        cf = one(invert(model, x, target, prob=round(prob, 3)))
        check_pixels(seen.page, cf)
        assert [row[1:] for row in last["rows"]] != [row[1:] for row in first["rows"]]
        assert last["sentence"] == "".join(told(cf, (8, 8)))
        assert last["sentence"].startswith(f"If only {np.count_nonzero(cf.delta)} pixels of the picture were different, ")


def check_pixels(page, cf):
    """The picture after the change, grey by grey."""
    grey = 255 * (1 - np.clip(cf.x, 0, 1))
    np.testing.assert_allclose(pixels(page)[..., 0].ravel(), grey, atol=0.51)


def pixels(page):
    """The picture after the change, (H, W, 4), by way of a copy: Chromium warns of canvases that are read often."""
    size, found = page.evaluate(
        """() => { const canvas = document.getElementById("after"), size = [canvas.height, canvas.width, 4];
             const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
             copy.drawImage(canvas, 0, 0);
             return [size, [...copy.getImageData(0, 0, canvas.width, canvas.height).data]]; }"""
    )
    return np.array(found).reshape(size)


def test_a_page_opens_with_the_answer_for_lam(browser, tmp_path):
    model, x, target, _ = digit()
    for lam in (3.0, 0.1, 1e-4):
        cf = one(invert(model, x, target, lam=lam))
        with visit(browser, cf.to_html(tmp_path / "page.html")) as seen:
            said = read(seen.page)
            assert [row[1:] for row in said["rows"]]
            check(said, cf)


def test_many_moves_within_a_frame_are_drawn_once(browser, tmp_path):
    model, x, target, _ = digit()
    with visit(browser, path(model, x, target).to_html(tmp_path / "page.html")) as seen:
        drawn = seen.page.evaluate(
            """() => new Promise((done) => {
                 const slider = document.getElementById("wanted");
                 let count = 0;
                 const watch = new MutationObserver((found) => (count += found.length));
                 watch.observe(document.getElementById("value"), { childList: true });
                 for (let i = 0; i < 50; i++) {
                   slider.value = 0.5 + i / 200;
                   slider.dispatchEvent(new Event("input"));
                 }
                 requestAnimationFrame(() => requestAnimationFrame(() => done(count)));
               })"""
        )
        assert drawn == 1


RANDOM = 60
CLOSE = 1e-10  # of x, relative to the source and the change: nine digits more than are shown


def test_the_page_solves_what_the_library_solves(browser, rng):
    """Random problems, well and badly scaled, with sources that are saturated, or there already; by the page's own script."""
    with scripted(browser, bundled("answers.js") + "export { problemOf };") as page:
        for _ in range(RANDOM):
            K, D = int(rng.integers(2, 25)), int(rng.integers(1, 60))
            A = rng.normal(size=(K, D)) * 10 ** rng.uniform(-2, 2)
            model, k = Model(A, rng.normal(size=K) * 10 ** rng.uniform(-1, 1)), int(rng.integers(K))
            x = rng.normal(size=D) * 10 ** rng.uniform(-1, 1.5)
            cf = one(invert(model, x, k, prob=float(rng.choice([0.3, 0.5, 0.8, 0.97, 0.9995]))))
            if cf.status is Status.UNREACHABLE:
                continue
            data = data_of(html(cf))
            for tau in [*data["ends"], data["wanted"], round(rng.uniform(*data["ends"]), 3)]:
                tau = min(max(tau, data["ends"][0]), data["ends"][1])
                w = np.array(page.evaluate(SOLVE, [data, tau]))
                y = np.insert(-w, k, w.sum())
                answer = one(invert(model, x, k, prob=tau))
                error = np.linalg.norm(y @ A - answer.delta)
                assert error <= CLOSE * (np.linalg.norm(x) + answer.distance)


SOLVE = "([data, tau]) => [...module.problemOf(data).at(Math.log1p(-tau) - Math.log(tau)).w]"


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


# ---- what is not the usual case ----


def test_nothing_has_to_change_where_the_source_is_there_already(browser, tmp_path):
    model, x, _, _ = wine()
    now = int(ifonly.as_model(model).predict(x))
    with visit(browser, one(invert(model, x, now, prob=0.6)).to_html(tmp_path / "page.html")) as seen:
        said = read(seen.page)
        assert said["sentence"].startswith("Nothing has to change: the decision is already 0")
        assert {row[3] for row in said["rows"]} == {"same"}


def test_a_slider_ends_where_the_limits_do(browser, tmp_path):
    model = Model.binary([1.0, 1.0], 0.0, ["no", "yes"], ["income", "age"])
    limits = Actions(bounds={"income": (-5, 0.5)}, frozen=["age"])
    cf = one(invert(model, [-2.0, 0.3], "yes", prob=0.55, actions=limits))
    with visit(browser, cf.to_html(tmp_path / "page.html")) as seen:
        said = slide(seen.page, 99)
        assert said["value"] == "68 %"  # at most 1/(1 + e^−0.8) = 0.69
        assert said["beyond"] == "The best that can be reached is 68.9 %, because of the limits: age is frozen, income ≤ 0.5."
        assert "Not allowed to change: age." in seen.page.locator("#others").inner_text()


def test_what_cannot_be_reached_is_said(browser, tmp_path):
    model = Model.binary([1.0, 1.0], 0.0, ["no", "yes"], ["income", "age"])
    cf = one(invert(model, [-2.0, 0.3], "yes", prob=0.9, actions=Actions(bounds=(-3, 0))))
    assert cf.status is Status.UNREACHABLE
    with visit(browser, cf.to_html(tmp_path / "page.html")) as seen:
        said = read(seen.page)
        assert said["sentence"] == cf.sentence()
        assert said["sentence"].startswith("No allowed change makes the decision yes with 90 %: the best is 50 %, while")
        assert seen.page.locator("#then").inner_text() == "The best there is"
        assert said["proof"] == "90 % is out of reach: what is shown is the best there is."
        assert not seen.page.locator("#beyond").is_visible()  # the sentence says it
        assert said["then"] == str(cf.model.classes[cf.proba.argmax()])


def test_a_model_without_probabilities_has_no_slider_and_no_bars(browser, tmp_path):
    model = Model.binary([1.0, 2.0], 0.0, ["no", "yes"], hard=True)
    with visit(browser, one(invert(model, [-2.0, 0.3], "yes", margin=0.5)).to_html(tmp_path / "page.html")) as seen:
        assert not seen.page.locator("#wanted").is_visible()
        assert not seen.page.locator("#bars").is_visible()
        assert read(seen.page)["sentence"].endswith("the decision would be yes.")


def test_there_is_no_page_where_there_is_no_answer():
    model = Model.binary([1.0, 2.0], 0.0)
    with pytest.raises(InputError, match="there is no answer to show: row 0 of x must be finite; feature 0 is nan"):
        html(invert(model, [[np.nan, 1.0]], 1)[0])


@pytest.mark.parametrize("shape", [(3, 3), (4,), (1, 2, 2), (2, 1, 2, 1)])
def test_a_shape_must_fit(shape):
    model = Model.binary([1.0, 2.0, 0.0, 1.0], 0.0)
    with pytest.raises(InputError, match="shape must"):
        html(one(invert(model, [-1.0, 0.0, 0.0, 0.0], 1)), shape=shape)


def test_a_picture_in_colours(browser, tmp_path):
    rng = np.random.default_rng(8)
    model = Model(rng.normal(size=(3, 48)), np.zeros(3))
    cf = one(invert(model, rng.uniform(size=48), 1, prob=0.9))
    with visit(browser, cf.to_html(tmp_path / "page.html", shape=(4, 4, 3))) as seen:
        np.testing.assert_allclose(pixels(seen.page)[..., :3].ravel(), 255 * np.clip(cf.x, 0, 1), atol=0.51)


# ---- safe ----

NASTY = ["</script><script>alert(1)</script>", "\"'`<b>&amp;", "{{data}}\u2028\u2029", "<!--<script>", "größe 📏"]


@pytest.mark.parametrize("limits", [None, Actions(bounds=(-9, 9))], ids=["live", "steps"])
@pytest.mark.parametrize("first", range(len(NASTY)))
def test_names_are_text_whatever_they_are(browser, tmp_path, first, limits):
    """One at a time first: ``<!--<script>`` hides what ``</script>`` does after it."""
    names, classes = NASTY[first:] + NASTY[:first], ["<img src=x onerror=alert(2)>", "</title><b>"]
    title = f"{NASTY[first]}{{{{script}}}}"
    model = Model.binary([3.0, -2.0, 0.5, 1.0, -1.0], -4.0, classes, names)
    cf = one(invert(model, np.zeros(5), classes[1], prob=0.9, actions=limits))
    with visit(browser, cf.to_html(tmp_path / "page.html", title=title)) as seen:
        said = read(seen.page)
        assert {row[0] for row in said["rows"]} == set(NASTY)
        assert {bar[0] for bar in said["bars"]} == set(classes)
        assert seen.page.locator("h1").text_content() == title
        assert seen.page.evaluate("document.querySelectorAll('img, b:not(.target), script').length") == 2  # ours
        check(said, cf)


@pytest.mark.parametrize("case", [*LIVE, *STEPS])
def test_a_page_is_one_small_file(tmp_path, case):
    model, x, target, options = {**LIVE, **STEPS}[case]()
    text = html(one(invert(model, x, target, prob=0.8, **options)), shape=(8, 8) if case in ("digit", "box") else None)
    assert len(text.encode()) < LARGEST
    assert not re.search(r"""\b(src|href|srcset|action)\s*=|https?:|@import|url\(|\bfetch\(|XMLHttp|WebSocket""", text)
    assert data_of(text)["target"] == str(target)


def test_the_same_answer_gives_the_same_page():
    model, x, target, options = credit()
    cf = one(invert(model, x, target, prob=0.8, **options))
    assert html(cf) == html(cf)


# ---- usable: with a keyboard, a screen reader, on a phone, in the dark, on paper ----


def test_the_keyboard_moves_by_whole_per_cents(browser, tmp_path):
    model, x, target, _ = digit()
    with visit(browser, one(invert(model, x, target, prob=0.833)).to_html(tmp_path / "page.html")) as seen:
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.id") == "theme"
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.id") == "wanted"
        moves = [
            ("ArrowRight", 84),
            ("ArrowUp", 85),
            ("ArrowLeft", 84),
            ("Shift+ArrowLeft", 83.9),
            ("PageDown", 79),
            ("End", 99),
            ("Home", 50),
        ]
        for key, shown in moves:
            seen.page.keyboard.press(key)
            assert drawn(seen.page)["value"] == f"{shown:g} %"
            assert seen.page.get_attribute("#wanted", "aria-valuetext") == f"{shown:g} % 6"


def test_a_screen_reader_finds_its_way(browser, tmp_path):
    model, x, target, options = credit()
    with visit(browser, one(invert(model, x, target, prob=0.8, **options)).to_html(tmp_path / "page.html")) as seen:
        page = seen.page
        assert page.get_by_role("slider", name="Wanted probability of approved").count() == 1
        assert page.get_by_role("button", name="Switch to dark colours").count() == 1
        for name in ("What changes", "Probabilities", "How certain this is"):
            assert page.get_by_role("region", name=name).count() == 1
        assert page.get_by_role("columnheader", name="Difference").count() == 1
        assert page.get_by_role("rowheader", name="months").count() == 1
        assert page.get_attribute("#sentence", "aria-live") == "polite"
        slide(page, 3)
        assert page.get_attribute("#sentence", "aria-busy") == "true"  # silent while the slider moves
        page.wait_for_selector("#sentence[aria-busy=false]")
        assert page.get_attribute("html", "lang") == "en"


@pytest.mark.parametrize("case", ["cancer", "digit", "credit"])
@pytest.mark.parametrize("size", [(1200, 900), (390, 844), (320, 568)], ids=["desktop", "phone", "small"])
def test_it_fits_every_window_and_is_legible(browser, tmp_path, case, size):
    model, x, target, options = {**LIVE, **STEPS}[case]()
    file = one(invert(model, x, target, prob=0.8, **options)).to_html(
        tmp_path / "page.html", shape=(8, 8) if case == "digit" else None
    )
    table = "(() => { const box = document.querySelector('.scroll'); return box.scrollWidth > box.clientWidth; })()"
    with visit(browser, file, size=size) as seen:
        for scheme in ("light", "dark"):
            seen.page.emulate_media(color_scheme=scheme)
            seen.screenshot(f"{case}-{size[0]}-{scheme}")
            assert not seen.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
            assert not seen.page.evaluate(table)
            for selector in (
                "#sentence",
                ".note",
                "#proof",
                "#rows td.number",
                "thead th",
                "footer",
                "#decisions .then strong",
            ):
                assert contrast(seen.page, selector) >= 4.5  # WCAG 2.2, level AA


@pytest.mark.parametrize("size", [(1280, 900), (390, 844), (320, 568)], ids=["desktop", "phone", "small"])
def test_cards_of_plans_stand_side_by_side_and_fit(browser, tmp_path, size):
    names = [f"average_monthly_outstanding_balance_of_the_{n}_account_in_euro" for n in ("first", "second", "third", "fourth")]
    model = Model.binary([1.0, -0.5, 0.3, 0.8], -1.0, ["refused_by_the_automatic_procedure", "approved"], names)
    plans = invert(model, [-2.0] * 4, "approved", prob=0.7, n=3, actions=Actions(bounds=(-9, 9)))
    with visit(browser, plans.to_html(tmp_path / "plans.html"), size=size) as seen:
        boxes = [card.bounding_box() for card in seen.page.locator(".plan").all()]
        assert len(boxes) == 3
        assert len({box["y"] for box in boxes}) == (1 if size[0] > 1000 else 3)
        for scheme in ("light", "dark"):
            seen.page.emulate_media(color_scheme=scheme)
            seen.screenshot(f"plans-{size[0]}-{scheme}")
            assert not seen.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
            assert not seen.page.evaluate("[...document.querySelectorAll('.plan')].some((e) => e.scrollWidth > e.clientWidth)")
            for selector in ("#sentence", ".note", ".name", ".move", ".move b", ".figures", "footer"):
                assert contrast(seen.page, selector) >= 4.5
        for name in names:
            assert name in seen.page.locator("#plans").inner_text()


def test_light_and_dark_can_be_chosen(browser, tmp_path):
    model, x, target, _ = digit()
    background = "getComputedStyle(document.documentElement).backgroundColor"
    with visit(browser, path(model, x, target).to_html(tmp_path / "page.html", shape=(8, 8))) as seen:
        page = seen.page
        page.emulate_media(color_scheme="light")
        light = page.evaluate(background)
        page.click("#theme")
        dark = page.evaluate(background)
        assert dark != light
        page.emulate_media(color_scheme="dark")  # what was chosen stays
        assert page.evaluate(background) == dark
        page.click("#theme")
        assert page.evaluate(background) == light
        page.click("#theme")
        page.emulate_media(media="print")
        assert page.evaluate(background) == "rgb(255, 255, 255)"  # paper is white, whatever was chosen


def test_it_prints(browser, tmp_path):
    model, x, target, options = credit()
    with visit(browser, one(invert(model, x, target, prob=0.8, **options)).to_html(tmp_path / "page.html")) as seen:
        pdf = seen.page.pdf(format="A4")
        assert pdf.startswith(b"%PDF-")
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1  # it fits on one
        seen.page.emulate_media(media="print")
        assert not seen.page.locator("#wanted").is_visible()
        assert seen.page.locator("#value").is_visible()


# ---- in a cell of a notebook ----


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_a_cell_has_the_page_in_a_frame_of_its_height(browser, tmp_path, size):
    model, x, target, options = credit()
    sliders = ifonly.explore(model, x, target, prob=0.8, title="Ms <A>", **options)
    file = tmp_path / "notebook.html"
    cell = f"<div class='output'>{sliders._repr_html_()}</div>"
    file.write_text(f"<!doctype html><meta charset='utf-8'><style>p {{ color: red }}</style>{cell}<p>Next</p>{cell}", "utf-8")
    with visit(browser, file, size=size) as seen:
        page = seen.page
        frames = page.frames[1:]
        assert len(frames) == 2
        for frame in frames:
            frame.wait_for_selector("main:not([hidden])")

        def fit():
            outer = page.evaluate("[...document.querySelectorAll('iframe')].map((frame) => frame.clientHeight)")
            inner = [frame.evaluate("document.documentElement.getBoundingClientRect().height") for frame in frames]
            return outer == [pytest.approx(height, abs=1) for height in inner]

        until(page, fit)
        assert frames[0].evaluate("(() => { try { return !parent.document } catch { return true } })()")  # it sees no notebook
        assert read(frames[0])["sentence"] == sliders.answer.sentence()
        moved = slide(frames[0], 5)
        assert moved["sentence"] == one(invert(model, x, target, prob=0.55, **options)).sentence()
        assert read(frames[1])["sentence"] == sliders.answer.sentence()  # the other cell is its own
        seen.screenshot(f"explore-{size[0]}")


def test_a_frame_that_is_ready_before_the_rest_of_the_cell_is_heard(browser):
    """The notebook's page comes in pieces: all up to the frame's end, and the rest a while later."""
    model, x, target, options = credit()
    cell = ifonly.explore(model, x, target, prob=0.8, **options)._repr_html_()
    end = cell.index("</iframe>") + len("</iframe>")
    context = browser.new_context()
    page = context.new_page()
    try:
        page.goto("about:blank")
        page.evaluate("(text) => { document.open(); document.write(text); }", f"<!doctype html>{cell[:end]}")
        page.frames[1].wait_for_selector("main:not([hidden])")
        page.wait_for_timeout(200)
        page.evaluate("(text) => { document.write(text); document.close(); }", cell[end:] or " ")
        page.wait_for_function("document.querySelector('iframe').style.height !== '760px'")
    finally:
        context.close()


def test_where_frames_are_taken_out_the_answer_is_left():
    """As JupyterLab does it in a notebook that is not trusted: tags go, and what stands between them stays."""
    model, x, target, options = credit()
    sliders = ifonly.explore(model, x, target, prob=0.8, **options)
    cell = re.sub("<script>.*?</script>", "", sliders._repr_html_(), flags=re.DOTALL)
    left = unescape(re.sub("<[^>]*>", "", cell))
    assert left == f"{sliders.answer.sentence()} (To see a slider here, run the cell, or trust the notebook.)"
    pixels = ifonly.explore(Model.binary([1.0, -1.0], 0.0), [0.0, 1.0], 1, shape=(1, 2))
    assert repr(pixels).startswith("If only 2 pixels of the picture were different, the decision would be 1")


def test_explore_is_for_one_row(tmp_path):
    model, x, target, options = credit()
    with pytest.raises(InputError, match="explore is for one row and one answer"):
        ifonly.explore(model, pd.DataFrame([x, x]), target, **options)
    with pytest.raises(InputError, match="leave out n"):
        ifonly.explore(model, x, target, prob=0.6, n=2, **options)
    sliders = ifonly.explore(model, x, target, prob=0.6, **options)
    assert repr(sliders).startswith(sliders.answer.sentence())
    assert sliders.to_html(tmp_path / "page.html").read_text("utf-8") == html(sliders.answer)


# ---- several modules in one file ----

SHARED = {"web/a.js": "export const one = 1;\n", "web/b.js": 'import { one } from "./a.js";\nexport const two = one + one;\n'}
REFUSED = {
    "a default": ('import two from "./web/b.js";\n', "has what a page cannot hold: import two"),
    "another name": ('import { two as zwei } from "./web/b.js";\n', "imports two as zwei, which web/b.js does not export"),
    "what is not there": ('import { three } from "./web/b.js";\n', "imports three, which web/b.js does not export"),
    "elsewhere": ('import { two } from "https://example.org/b.js";\n', "has what a page cannot hold: import"),
    "later": ('const b = await import("./web/b.js");\n', "has what a page cannot hold: import"),
    "a list": ("const two = 2;\nexport { two };\n", "has what a page cannot hold: export"),
    "one name twice": ('import { two } from "./web/b.js";\nconst one = two / 2;\n', "one stands at the top level of both"),
    "an end": ('const text = "</script>";\n', "has what a page cannot hold: </script"),
    "a circle": ('import { me } from "./page.js";\n', "in a circle: page.js → page.js"),
}


def test_modules_stand_in_the_order_of_their_imports(monkeypatch):
    entry = 'import { one } from "./web/a.js";\nimport {\n  two,\n} from "./web/b.js";\nfetchNothing(one, two);\n'
    monkeypatch.setitem(bundled.__globals__, "static", {**SHARED, "page.js": entry}.__getitem__)
    assert bundled("page.js").split("\n") == ["const one = 1;", "", "const two = one + one;", "", "fetchNothing(one, two);", ""]


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_stand_in_one_file_is_refused(monkeypatch, case):
    entry, words = REFUSED[case]
    monkeypatch.setitem(bundled.__globals__, "static", {**SHARED, "page.js": entry}.__getitem__)
    with pytest.raises(ValueError, match=re.escape(words)):
        bundled("page.js")


def test_long_names_in_prose_end_a_line_after_an_underscore(browser, tmp_path):
    names = [f"average_monthly_balance_of_the_current_account_{i}" for i in range(3)]
    model = Model.binary([1.0, 1.0, 1.0], -3.0, ["refused", "approved"], names)
    far = invert(model, [0.0, 0.0, 0.0], "approved", prob=0.9, actions=Actions(frozen=names[:2], bounds={names[2]: (0, 1)}))
    with visit(browser, far.to_html(tmp_path / "page.html"), size=(390, 844)) as shown:
        for place in ("#sentence", "#others"):
            assert shown.page.locator(place).inner_text().count(names[0]) == 1
            assert shown.page.locator(f"{place} wbr").count() >= 14
        assert "the best is 11\u00a0%" in shown.page.locator("#sentence").inner_text()
