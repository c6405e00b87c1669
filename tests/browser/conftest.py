"""What all tests of pages need: a browser, and a server with the what-if page."""

import pytest
from helpers.browser import chromium
from helpers.whatif import served


@pytest.fixture(scope="package")
def browser():
    """Headless Chromium, or a visible skip; not longer than this folder's tests, for Playwright has an event loop running."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """Where a running server has its what-if page."""
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found
