"""The documentation site as a reader opens it: built strictly, from a disk, with nobody else asked for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.browser import Browser
from tests.report.conftest import _started, chromium  # noqa: F401  (fixtures)

ROOT = Path(__file__).parents[2]
PAGES = ("index", "command-line", "api", "rules/index", "rules/cuda-index-add", "tables", "formats", "limits")

pytestmark = pytest.mark.slow


def build(site: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="the site's packages are not installed; make docs installs them")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_nothing_is_asked_of_another_site(site: Path) -> None:
    """The check of the build itself sees scripts, images and style; this one each address that a page loads."""
    loads = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc="?https?:|<link[^>]*\shref="?https?:""")
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text(encoding="utf-8"))] == []


def test_the_interface_shows_what_a_class_has_from_its_bases(site: Path) -> None:
    shown = set(re.findall(r'<h3 id="[\w.]+\.(\w+\.\w+)"', (site / "api.html").read_text(encoding="utf-8")))
    wanted = {"Report.findings", "Report.tally", "Report.plan", "Report.write", "Finding.op", "Finding.location"}
    assert wanted <= shown, sorted(shown)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_page_opens_from_a_disk_and_fits_its_screen(site: Path, chromium: Browser, width: int) -> None:  # noqa: F811
    context = chromium.chromium.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in PAGES:
        page.goto((site / f"{name}.html").as_uri())
        page.wait_for_selector("h1")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert errors == []
    context.close()


@pytest.mark.browser
def test_the_search_answers_from_a_disk(site: Path, chromium: Browser) -> None:  # noqa: F811
    page = chromium.chromium.new_page(viewport={"width": 1280, "height": 900})
    page.goto((site / "index.html").as_uri())
    page.click("input.md-search__input")
    page.keyboard.type("cumsum")
    page.wait_for_selector(".md-search-result__item a", timeout=30_000)
    assert "rules/cuda-cumsum.html" in page.locator(".md-search-result__item a").first.get_attribute("href")
    page.close()


def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    """The same settings on two pages, one of which names a heading that the other does not have."""
    yaml = pytest.importorskip("yaml")
    pytest.importorskip("material")
    settings = {"site_name": "two pages", "theme": {"name": "material", "font": False}, "plugins": []}
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings["validation"] = yaml.safe_load(text[text.index("validation:") : text.index("not_in_nav:")])["validation"]
    (tmp_path / "docs").mkdir()
    config = tmp_path / "mkdocs.yml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    (tmp_path / "docs" / "index.md").write_text("# One\n\n[there](other.md#there)\n", encoding="utf-8")
    other = tmp_path / "docs" / "other.md"
    other.write_text("# Other\n\n## There\n", encoding="utf-8")
    assert build(tmp_path / "site", config).returncode == 0
    other.write_text("# Other\n\n## Elsewhere\n", encoding="utf-8")
    assert build(tmp_path / "site", config).returncode == 1
