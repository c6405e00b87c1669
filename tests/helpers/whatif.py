"""A running what-if server for tests, how to read its page, and what the library says to the same question."""

import itertools
import re
import subprocess
import sys
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import ifonly
from helpers.browser import slowed
from ifonly import Actions, Model
from ifonly.cli import credit
from ifonly.show.numbers import percent

DESKTOP, PHONE, SMALL = (1280, 900), (390, 844), (360, 640)
ROW = 1  # a refused applicant, with which most tests begin
PROB = 0.6  # what the page asks for at first
PATIENCE = 30  # seconds until a page is given up: machines are busy

# ---- what is served ----


@cache
def bank():
    frame = credit.applicants()
    return credit.pipeline(frame), frame


@cache
def digits():
    X, y = load_digits(return_X_y=True)
    return LogisticRegression(C=0.1, max_iter=1000).fit(X / 16, y), X / 16


def scores():
    """A model without probabilities."""
    return Model.binary([1.0, 2.0], 0.0, ["no", "yes"], ["income", "age"], hard=True)


NASTY = ["</script><script>alert(1)</script>", "\"'`<b>&amp;", "größe 📏.x", "a=b&c#d"]
NASTY_CLASSES = ["<img src=x onerror=alert(2)>", "</title><b>"]


def changing(weight):
    """A model whose file changes while it is served."""
    return Model.binary([weight, 2.0], -1.0, ["no", "yes"], ["income", "age"])


def nasty():
    return Model.binary([3.0, -2.0, 0.5, 1.0], -4.0, NASTY_CLASSES, NASTY)


def wide():
    """More features than a table has room for."""
    rng = np.random.default_rng(1)
    names = [f"gene {i}" for i in range(500)]
    return Model(rng.normal(size=(3, 500)) / 20, np.zeros(3), ["a", "b", "c"], names), rng.normal(size=(6, 500)).round(3)


def write(folder):
    """Models and data, as files."""
    pipeline, frame = bank()
    ifonly.as_model(pipeline).save(folder / "credit.npz")
    frame.rename_axis("id").reset_index().to_csv(folder / "credit.csv", index=False)
    classifier, X = digits()
    ifonly.as_model(classifier).save(folder / "digits.npz")
    pd.DataFrame(X).to_csv(folder / "digits.csv", index=False)
    scores().save(folder / "scores.npz")
    nasty().save(folder / "nasty.npz")
    changing(1.0).save(folder / "changing.npz")
    model, X = wide()
    model.save(folder / "wide.npz")
    pd.DataFrame(X, columns=model.feature_names).to_csv(folder / "wide.csv", index=False)


class Address(str):
    """Where a server is, and the folder with the files that it serves."""

    def __new__(cls, url, folder):
        address = super().__new__(cls, url)
        address.folder = folder
        return address


@contextmanager
def served(folder, *options, models=("credit", "digits", "wide", "scores", "nasty", "changing")):
    """``ifonly serve`` with these, in a process of its own; gives its address."""
    write(folder)
    files = [file for name in models for file in (folder / f"{name}.npz", folder / f"{name}.csv") if file.exists()]
    command = [sys.executable, "-m", "ifonly", "serve", *map(str, files)]
    command += ["--image", "8x8"] if "digits" in models else []
    command += ["--port", "0", "--no-open", *map(str, options)]
    log = folder / "serve.log"
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server:
        assert server.stdout is not None
        try:
            found = next(filter(None, (re.search(r"http://[\w.:]+/", line) for line in server.stdout)), None)
            assert found is not None, log.read_text()
            yield Address(found[0], folder)
        finally:
            server.terminate()
            server.wait(10)


# ---- reading and using the page ----

REST = "main[aria-busy=false]"
READ = """() => {
  const text = (id) => document.getElementById(id).innerText.replaceAll("\u00a0", " ");
  const cells = (row) => [...row.children].map((cell) => cell.innerText.trim());
  const lines = [...document.querySelectorAll("#rows tr:not(.drawer)")].filter((row) => row.querySelector(".now"));
  return {
    sentence: text("sentence"), verdict: text("verdict"), wanted: document.getElementById("exact").value,
    now: text("decided-now"), then: text("decided-then"), chances: [text("chance-now"), text("chance-then")],
    bars: [...document.querySelectorAll("#bars tr")].map((row) => cells(row).filter((_, i) => i !== 1)),
    rows: lines.map((row) => [row.querySelector("th").innerText, row.querySelector(".now").value,
                              ...[".after", ".difference"].map((cell) => row.querySelector(cell).innerText)]),
  };
}"""


_contexts: dict[Any, Any] = {}  # by browser: that of the visit before, in which nobody is


@contextmanager
def visit(browser, address, state="", *, size=DESKTOP, quiet=True, **options):
    """The page in a tab of its own; it must log nothing, and ask its own server only.

    A context has a process of its own, which takes as long to begin as the page to load. After a visit without a complaint it
    is emptied and kept for the next; one with options is not.
    """
    context = (None if options else _contexts.pop(browser, None)) or browser.new_context(accept_downloads=True, **options)
    page = slowed(context.new_page())
    page.set_viewport_size({"width": size[0], "height": size[1]})
    noise, asked = [], []

    def hear(request):
        asked.append(request.url)

    context.on("request", hear)
    page.on("console", lambda message: noise.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: noise.append(f"error: {error}"))
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(f"{address}#{state}")
    yield page
    for tab in context.pages:
        tab.evaluate("localStorage.clear()")  # what else there is goes with the tab
    for tab in context.pages:
        tab.close()
    context.remove_listener("request", hear)
    assert [url for url in asked if not url.startswith((address, "blob:" + address))] == []
    if quiet:
        assert noise == []
    if options or browser in _contexts:
        context.close()
    else:
        context.clear_permissions()
        _contexts[browser] = context


def settle(page):
    page.wait_for_selector(REST)


LOADS = itertools.count()


def loaded(page, address, state):
    """The page anew in its window: with another part after the hash alone it would stay as it is."""
    page.goto(f"{address}?{next(LOADS)}#{state}")
    settle(page)
    return page


def read(page):
    settle(page)
    return page.evaluate(READ)


def until(page, holds, seconds=PATIENCE):
    """Wait for what happens outside of the page."""
    for _ in range(50 * seconds):
        if holds():
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"still not after {seconds} s")


def type_in(page, label, text):
    field = page.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Enter")


def limits_of(page, name):
    """Open what a feature's limits are set in."""
    button = page.get_by_role("button", name=f"Limits of {name}:")
    if button.get_attribute("aria-expanded") == "false":
        button.click()


def uncheck_value(page):
    limits_of(page, "account")
    page.get_by_role("group", name="account may become").get_by_label("no account").uncheck()


def set_limit(label, text):
    def act(page):
        limits_of(page, label.split()[0])
        type_in(page, label, text)

    return act


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


def as_number(value, shown, *, up):
    """A number with as many decimals as what is shown has: to the nearest, or further on in the direction of its change."""
    unit = Decimal(1).scaleb(-len(shown.partition(".")[2]))
    roundings = (ROUND_HALF_UP, ROUND_CEILING if up else ROUND_FLOOR)
    texts = [f"{Decimal(value).quantize(unit, rounding):f}" for rounding in roundings]
    return [(text.lstrip("-") if float(text) == 0 else text).replace("-", "−") for text in texts]


def check(said, cf, labels=lambda name: name):
    """Everything that the page says, against an answer of the library's."""
    model, k = cf.model, cf.model.class_index(cf.target)
    changes = {labels(name): (before, after) for name, before, after in cf.changes()}
    shown = {row[0] for row in said["rows"]}
    assert changes.keys() <= shown or len(changes) > len(shown)
    for name, _, after, difference in said["rows"]:
        if name not in changes:
            assert (after, difference) == ("same", "")
            continue
        was, would_be = changes[name]
        if isinstance(would_be, str):
            assert (after, difference) == (would_be, "")
        else:
            up = would_be > was
            assert re.sub("\u202f", "", after) in as_number(would_be, after, up=up)
            change = re.sub("\u202f|\\+", "", difference)
            assert change in as_number(would_be - was, change, up=up)
    source = cf.coordinates[0]
    z = model.scores(source)
    now = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    names = [str(label) for label in model.classes]
    assert said["now"] == names[int(now.argmax())]
    assert said["then"] == names[int(cf.proba.argmax())]
    assert said["chances"] == [f"{percent(p[k], 'tenths')} for {names[k]}" for p in (now, cf.proba)]
    for label, before, after in said["bars"]:
        if label in names:
            j = names.index(label)
            assert [before, after] == [percent(p[j], "tenths") for p in (now, cf.proba)]
    assert names[k] in [bar[0] for bar in said["bars"]]


def usual(pipeline_frame=None, **more):
    """What the page asks of the credit model by itself: whole numbers, within what the data have; and what is given."""
    _, frame = pipeline_frame or bank()
    bounds = {name: (float(frame[name].min()), float(frame[name].max())) for name in credit.NUMBERS}
    bounds.update(more.pop("bounds", {}))
    integer = [name for name in credit.NUMBERS if name not in more.pop("broken", ())]
    return Actions(bounds=bounds if more.pop("within", True) else None, integer=integer, **more)


def one(answer):
    assert isinstance(answer, ifonly.Counterfactual)
    return answer


def person(row=ROW, **edits):
    found = bank()[1].drop(columns="decision").iloc[row]
    for name, value in edits.items():
        found[name] = value
    return found


def answer(row=ROW, edits=None, target="approved", prob=PROB, **options):
    """The library's own, from the pipeline."""
    options.setdefault("actions", usual())
    return one(ifonly.invert(bank()[0], person(row, **(edits or {})), target, prob=prob, **options))


def check_soon(page, cf):
    """Going back is not done when the call returns."""
    changed = [str(name) for name, _, _ in cf.changes()]
    page.wait_for_function(
        """(names) => document.querySelector("main")?.ariaBusy === "false" && names ===
             [...document.querySelectorAll("#rows tr:not(.same, .drawer) th")].map((cell) => cell.innerText).sort().join()""",
        arg=",".join(sorted(changed)),
    )
    page.wait_for_timeout(50)
    check(read(page), cf)
