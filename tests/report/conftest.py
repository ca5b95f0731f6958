"""The browser that the pages are opened in."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser


@pytest.fixture(scope="session")
def _started() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """A Chromium that is started once, which takes seconds, and playwright's event loop; it stands still meanwhile."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with playwright.sync_playwright() as driver:
        loop = asyncio.get_running_loop()
        path = found or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium is installed (set CHROMIUM to its path)")
        browser = Browser(driver.chromium.launch(executable_path=path, args=["--no-sandbox"]))
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture(scope="module")
def chromium(_started: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """The browser; tests of other modules find no event loop running."""
    browser, loop = _started
    asyncio._set_running_loop(loop)
    yield browser
    browser.rest()
    asyncio._set_running_loop(None)
