"""A page opened in a real Chromium from disk, and what is measured on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def check_accessible(page: Any) -> None:
    """No rule of level A or AA of WCAG is broken: contrast, names, roles, targets."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page, options={"runOnly": LEVELS, "resultTypes": ["violations"]}).response["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found] == []


class Browser:
    """A Chromium and the one page in it, which opens one file after another: a page of its own costs each test more
    than what it looks at."""

    def __init__(self, chromium: Any) -> None:
        self.chromium = chromium
        self._pages: dict[bool, Any] = {}
        """With scripts and without."""

    def page(self, *, dark: bool, width: int, permissions: Sequence[str] = (), scripts: bool = True) -> Any:
        """The page, empty, of this look."""
        page = self._pages.get(scripts)
        if page is None or page.is_closed():
            page = self._pages[scripts] = self.chromium.new_context(java_script_enabled=scripts).new_page()
        page.goto("about:blank")
        page.context.clear_permissions()
        page.context.grant_permissions(list(permissions))
        page.emulate_media(media="null", color_scheme="dark" if dark else "light")
        page.set_viewport_size({"width": width, "height": 900})
        return page

    def rest(self) -> None:
        """Show nothing, so that no script of a page goes on."""
        for page in self._pages.values():
            page.goto("about:blank")

    def close(self) -> None:
        """End it."""
        self.chromium.close()


class Opened:
    """A page opened from a file, with everything that it complained of or asked for."""

    def __init__(
        self, browser: Browser, path: Path, at: str = "", *, dark: bool = False, width: int = 1280, **options: Any
    ) -> None:
        self.page = browser.page(dark=dark, width=width, **options)
        self.complaints: list[str] = []
        self._listeners = {
            "console": lambda message: self.complaints.append(message.text),
            "pageerror": lambda error: self.complaints.append(str(error)),
            "request": lambda request: self._asked(request.url),
        }
        for event, listener in self._listeners.items():
            self.page.on(event, listener)
        self.page.goto(path.as_uri() + at)

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:")):
            self.complaints.append(f"request to {url[:200]}")

    def column(self, index: int) -> list[str]:
        """The texts of one column's cells on the page that is shown."""
        cells = self.page.locator(f"#rows tbody tr[id] td:nth-child({index + 1})")
        return [text.strip() for text in cells.all_inner_texts()]

    def matched(self, text: str) -> None:
        """Wait until the line above the table says ``text``."""
        said = "document.getElementById('shown').textContent"
        if self.page.evaluate(said) != text:  # to begin waiting takes longer than to look
            self.page.wait_for_function(f"text => {said} === text", arg=text)

    def sought(self, field: str, text: str, said: str = "") -> None:
        """Type ``text`` into ``field``, and wait until the table is drawn for it: the page waits for another letter
        first, and the line above the table may say ``said`` before and after."""
        table = "tracerTables('#rows').DataTable()"
        self.page.evaluate(f"window.isDrawn = false; {table}.one('draw', () => {{ window.isDrawn = true; }}); 0")
        self.page.fill(field, text)
        self.page.wait_for_function("() => window.isDrawn")
        if said:
            self.matched(said)

    def at(self, address: str) -> None:
        """Wait until the page stands at ``address``: it goes there after the click that asks for it."""
        self.page.wait_for_function("address => location.hash === address", arg=address)

    def cleared(self, total: int) -> None:
        """Take every filter back as the button does; a mouse tries it in the tests of every control."""
        self.page.evaluate("document.getElementById('clear').click()")
        self.matched(f"All {total:,} shown")

    def done(self) -> None:
        """It complained of nothing, asked nobody, and does not scroll sideways."""
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        self.left()
        assert wide <= 0, "the page scrolls sideways"

    def left(self) -> None:
        """Leave it to the next file: it complained of nothing and asked nobody."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        assert self.complaints == []
