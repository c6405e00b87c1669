"""Headless Chromium for tests: where it is, and visits to pages that must be quiet and must not reach anything but files."""

import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from helpers.data import ROOT

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # Debian's two, Ubuntu's, the vendor's
# What Chromium leaves out. The last such list is the one that counts: so those that Playwright leaves out are here again.
PLAYWRIGHTS = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
)
# Pages that each window loads for its address bar, which take longer than ours.
ADDRESS_BAR = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup")
# A process that is begun for a page which may never come.
SPARE = ("SpareRendererForSitePerProcess",)
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",  # and one for all pages of a context: to begin another takes as long as to load a page
    "--renderer-process-limit=1",
    f"--disable-features={','.join((*PLAYWRIGHTS, *ADDRESS_BAR, *SPARE))}",
]
REQUIRED = "IFONLY_BROWSER"  # in the environment, with the value "required": a missing browser is a failure
KEEP = "IFONLY_SCREENSHOTS"  # in the environment: screenshots are kept
SCREENSHOTS = ROOT / "build" / "screenshots"
SLOW = "IFONLY_SLOW"  # in the environment, a number: a processor so many times slower, to find what does not wait


def missing(reason):
    """Skip, or fail where a browser is required."""
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{reason}, and {REQUIRED}=required")
    pytest.skip(f"{reason} (make browser)")


@contextmanager
def chromium():
    """The browser, started; a visible skip where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        missing("there is no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


def slowed(page):
    """The page, in a slow browser where that is asked for."""
    if times := float(os.environ.get(SLOW, 0)):
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": times})
    return page


@dataclass
class Visit:
    """One page that was opened, and everything that it should not have said or asked for."""

    page: Any
    noise: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, page):
        """A new page, from now on listened to; nothing but files can be reached from it."""
        found = cls(page)
        page.context.on("request", lambda request: found.requests.append(request.url))
        page.context.route("**", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
        page.on("console", lambda message: found.noise.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: found.noise.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (found.noise.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return found

    def empty(self):
        """As if nobody had been here."""
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self.page.emulate_media(media="null", color_scheme="null")
        self.page.goto("about:blank")
        self.noise.clear()
        self.requests.clear()

    def screenshot(self, name):
        screenshot(self.page, name)


def screenshot(page, name):
    """A picture of a page, for those who ask for pictures: to draw them all takes ten seconds."""
    if KEEP in os.environ:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


_windows: dict[Any, Visit] = {}  # by browser: the window of the visit before


@contextmanager
def visit(browser, file, *, size=(1200, 900)):
    """A page that must log nothing, raise nothing, open nothing and request itself only.

    To open a window takes longer than to load a page. After a visit without a complaint it is emptied and kept for the next.
    """
    found = _windows.pop(browser, None) or Visit.of(slowed(browser.new_context().new_page()))
    page = found.page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(file.as_uri())
    yield found
    page.evaluate("1")  # what it has said until now has come
    assert page.context.pages == [page]
    assert found.noise == []
    assert found.requests == [file.as_uri()]
    found.empty()
    _windows[browser] = found


@contextmanager
def scripted(browser, script):
    """An empty page whose ``module`` is an ES module of this text."""
    page = browser.new_page()
    load = """async (text) => {
      window.module = await import("data:text/javascript;charset=utf-8," + encodeURIComponent(text));
    }"""
    page.evaluate(load, script)
    yield page
    page.close()


def contrast(page, selector):
    """The ratio of luminances of an element's text and what is behind it."""
    colours = page.evaluate(
        """(selector) => {
             const element = document.querySelector(selector);
             let behind = element;
             const clear = "rgba(0, 0, 0, 0)";
             while (behind.parentElement && getComputedStyle(behind).backgroundColor === clear) behind = behind.parentElement;
             return [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
           }""",
        selector,
    )
    lights = []
    for colour in colours:
        v = np.array([float(n) for n in re.findall(r"[\d.]+", colour)[:3]]) / 255
        lights.append(float(np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]))
    return (max(lights) + 0.05) / (min(lights) + 0.05)
