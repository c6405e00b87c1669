"""Letters in a browser: quiet, within the window, and on one sheet of paper."""

import re

import pytest
from helpers.browser import visit
from show.test_letter import SENT, plans  # noqa: F401

from ifonly.show.letter import languages


@pytest.fixture
def letter(plans, tmp_path):  # noqa: F811
    def write(language):
        return plans.to_html(tmp_path / f"{language}.html", template="letter", language=language, **SENT)

    return write


@pytest.mark.parametrize("language", languages())
def test_a_letter_prints_on_one_sheet(browser, letter, language):
    with visit(browser, letter(language)) as found:
        found.screenshot(f"letter-{language}")
        pdf = found.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1


@pytest.mark.parametrize("width", [1280, 390])
def test_a_letter_fits_the_window(browser, letter, width):
    with visit(browser, letter("de"), size=(width, 900)) as found:
        found.screenshot(f"letter-{width}")
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        assert found.page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(28, 30, 33)"
