"""Every control of the page, on a real model's report: 24 layers, thousands of calls, a dozen targets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.report.browser import Browser, Opened
from tests.thinning import thinned
from tracer import judge
from tracer.portability import judge_targets, targets_named
from tracer.report import Report
from tracer.trace import Trace

pytestmark = pytest.mark.browser

#: What can be worked on the page, by id, class or kind; a control that is not listed, and driven, fails the test.
CONTROLS = """
() => {
  const all = "a[href], button, input, select, summary, [role=treeitem], th[aria-sort], .dt-orderable-asc";
  const kinds = {
    "nav a": "nav", ".strip button": "phase", "[role=treeitem]": "module", th: "heading", summary: "summary",
    ".dt-length select": "length", ".details a": "finding", "a.to": "to-finding",
  };
  const kind = (one) => {
    const known = Object.keys(kinds).find((selector) => one.matches(selector));
    return known ? kinds[known] : one.id || [...one.classList].find((name) => name !== "to") || one.tagName;
  };
  return [...new Set([...document.querySelectorAll(all)].map(kind))];
}
"""
DRIVEN = {
    *("skip", "nav", "number", "copy", "choose", "phase", "module", "summary", "at", "only", "search", "by-verdict"),
    *("by-phase", "by-cause", "by-about", "by-module", "sort-by", "clear", "chip", "heading", "opener", "length"),
    *("dt-paging-button", "finding", "to-finding", "unfold"),
}
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def page_of(recorded: Trace, folder: Path) -> tuple[Path, Report]:
    """The page of its report for CUDA under torch 2.4, with every backend beside it, and the report."""
    sources = {place: f"source of {place}" for group in recorded.calls if (place := group.called_from)}
    trace = msgspec.structs.replace(recorded, source_lines=sources)
    report = judge(trace, backend="cuda", torch="2.4")
    report.portability = judge_targets(trace, targets_named("all", "2.13"))
    return report.write(folder / "report.html"), report


@pytest.fixture(scope="module")
def deep_page(deep_trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the whole model."""
    path, report = page_of(deep_trace, tmp_path_factory.mktemp("deep"))
    assert report.tally.total > 5_000
    assert len(report.findings) > 200
    assert path.stat().st_size < 1_500_000
    return path


@pytest.fixture(scope="module")
def low_page(deep_trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of its first layer: the same parts, a tenth as often."""
    upper = re.compile(r"\.h\.(?!0(?:\.|$))")
    calls = [group for group in deep_trace.calls if not upper.search(group.module)]
    assert 0 < len(calls) < len(deep_trace.calls) / 8
    path, report = page_of(msgspec.structs.replace(deep_trace, calls=calls), tmp_path_factory.mktemp("low"))
    assert len(report.findings) > 10
    return path


@pytest.fixture
def opened(request: pytest.FixtureRequest, chromium: Browser, deep_page: Path) -> Iterator[Opened]:
    dark, width = request.param
    page = Opened(chromium, deep_page, dark=dark, width=width, permissions=["clipboard-read", "clipboard-write"])
    yield page
    page.done()


def looks(kept: tuple[bool, int]) -> pytest.MarkDecorator:
    """Dark or not, and the width: one look in every run, all four by name."""
    every = [(False, 1280), (True, 1280), (False, 400), (True, 400)]
    return pytest.mark.parametrize("opened", thinned([(one,) for one in every], [(kept,)]), indirect=True)


def check_accessible(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page, options={"runOnly": LEVELS, "resultTypes": ["violations"]}).response["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found] == []


def shown(page: Any) -> int:
    """How many findings are left, by the line above the table."""
    said = page.inner_text("#shown").replace(",", "")
    found = re.search(r"(\d+) (?:of|shown)", said)
    assert found, said
    return int(found.group(1))


@pytest.mark.parametrize("pages", thinned(["low_page", "deep_page"], ["low_page"]))
@pytest.mark.parametrize(
    ("dark", "width"), thinned([(False, 1280), (True, 1280), (False, 400), (True, 400)], [(False, 1280)])
)
def test_no_rule_of_level_a_or_aa_is_broken_whatever_is_open(
    chromium: Browser, request: pytest.FixtureRequest, dark: bool, width: int, pages: str
) -> None:
    opened = Opened(chromium, request.getfixturevalue(pages), dark=dark, width=width)
    page = opened.page
    if pages == "deep_page":
        check_accessible(page)
    page.locator(".opener").nth(1).click()
    page.locator("#map .block[data-path='transformer.h']").click()
    page.locator("button.only").first.click()
    page.locator("button.choose").nth(2).click()
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    check_accessible(page)
    opened.done()


@looks((True, 400))
def test_every_control_does_what_it_says(opened: Opened, deep_page: Path) -> None:
    page = opened.page
    total = shown(page)
    narrow = page.viewport_size["width"] < 860
    page.locator("#map .block[data-path='transformer.h']").click()
    page.select_option("#by-verdict", "seeded")
    page.wait_for_selector("button.unfold")
    page.locator(".opener").first.click()
    assert set(page.evaluate(CONTROLS)) == DRIVEN
    page.click("#clear")

    # Links to places on the page.
    for link in page.locator("nav a").all():
        link.click()
        assert page.evaluate("document.querySelector(location.hash) !== null")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.url.endswith("#findings")
    page.locator(".plan a.number").first.click()
    assert page.url.endswith("#change-1")
    page.locator(".lines a.at").first.click()
    assert page.evaluate("document.querySelector(location.hash).closest('#lines') !== null")

    page.locator("#settings a.to").first.click()
    page.wait_for_selector("#finding-1.open")
    page.locator("#finding-1 .opener").click()
    assert page.locator("#finding-1.open").count() == 0

    # What folds, and what is copied.
    for fold in page.locator("main summary").all():
        fold.click()
        assert fold.evaluate("one => one.parentElement.open")
    page.locator("#environment .copy").click()
    page.wait_for_function("() => document.querySelector('#environment .copy').textContent === 'Copied'")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == "tracer report trace.json --backend cuda --torch 2.4.0 --settings recorded"

    # Search and fields.
    for select, rows in (("by-verdict", 0), ("by-phase", 3), ("by-cause", 2)):
        value = page.locator(f"#{select} option").nth(1).evaluate("one => one.value")
        page.select_option(f"#{select}", value)
        page.wait_for_function("all => !document.getElementById('shown').textContent.startsWith(all)", arg="All")
        assert 0 < shown(page) < total
        if select != "by-cause":
            assert all(value in text for text in opened.column(rows))
        page.click("#clear")
        opened.matched(f"All {total} shown")
    page.select_option("#by-about", "setting")
    page.wait_for_function("() => document.getElementById('shown').textContent.includes('match')")
    assert 0 < shown(page) < 10
    page.click("#clear")
    page.fill("#by-module", "h.7.")
    page.wait_for_function("() => document.getElementById('shown').textContent.includes('match')")
    assert all("transformer.h.7." in text for text in opened.column(4))
    page.click("#clear")
    page.fill("#search", "SOFTMAX backward 193")
    page.wait_for_function("() => document.getElementById('shown').textContent.includes('match')")
    assert all("softmax_backward" in text for text in opened.column(2))
    page.click("#clear")

    # Phases: chosen and taken back.
    backward = page.locator(".strip button[data-phase=backward]")
    backward.click()
    assert set(filter(None, opened.column(3))) <= {"backward", "Phase backward"}
    assert backward.get_attribute("aria-pressed") == "true"
    assert page.input_value("#by-phase") == "backward"
    backward.click()
    opened.matched(f"All {total} shown")

    # The map, by mouse and by keys.
    page.locator("#map .block[data-path='transformer.h.3']").evaluate("one => one.click()")
    inside = shown(page)
    assert 0 < inside < total / 10
    assert all(text.endswith(("attn", "mlp")) or "transformer.h.3." in text for text in opened.column(4))
    assert not page.locator("#map .block[data-path='transformer.h.4']").is_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.path") == "transformer.h.3.attn"
    page.keyboard.press("Enter")
    assert 0 < shown(page) < inside
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.path") == "transformer.h.3"
    page.keyboard.press("Escape")
    opened.matched(f"All {total} shown")
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.id") == "module-1"
    assert page.locator("#map [tabindex='0']").count() == 1
    page.locator("#map .block[data-path='transformer']").click()
    page.locator("#chips .chip").click()
    opened.matched(f"All {total} shown")

    # A line of code.
    line = page.locator("button.only").first
    line.click()
    assert 0 < shown(page) < total
    assert line.get_attribute("aria-pressed") == "true"
    page.locator("#chips .chip").click()
    opened.matched(f"All {total} shown")
    assert page.locator(".lines code.source").count() > 0

    # Order, pages, and their length.
    if narrow:
        page.select_option("#sort-by", "count")
    else:
        for index in range(7):
            page.locator("#rows thead th").nth(index).click()
            page.wait_for_selector(f"#rows thead th:nth-child({index + 1})[aria-sort]")
    page.wait_for_function("() => document.querySelector('#rows th.dt-ordering-desc') !== null")
    counts = [int(re.sub(r"\D", "", text)) for text in opened.column(6)]
    assert counts == sorted(counts, reverse=True)
    page.select_option(".dt-length select", "50")
    assert page.locator("#rows tbody tr[id]").count() == 50
    first = page.locator("#rows tbody tr[id]").first.get_attribute("id")
    page.locator(".dt-paging-button", has_text="2").first.click()
    assert page.locator("#rows tbody tr[id]").first.get_attribute("id") != first

    # Seeded draws of like modules are one row, and each by itself again.
    page.click("#clear")
    opened.matched(f"All {total} shown")
    page.select_option("#by-verdict", "seeded")
    page.wait_for_function("() => document.getElementById('shown').textContent.includes('match')")
    unfold = page.locator("button.unfold").first
    more = int(re.sub(r"\D", "", unfold.inner_text()))
    assert more > 20
    met = shown(page)
    assert "one row" in page.inner_text("#folded")
    rows = int(page.evaluate("document.querySelectorAll('#rows tbody tr[id]').length"))
    unfold.click()
    assert unfold.get_attribute("aria-expanded") == "true"
    assert page.locator("#rows tbody tr[id]").count() == min(50, rows + more)
    assert shown(page) == met
    unfold.click()
    assert page.locator("#rows tbody tr[id]").count() == rows
    page.click("#clear")
    opened.matched(f"All {total} shown")

    # A row opens to all that is known; its address opens it again.
    page.fill("#search", "cuda-efficient-attention-backward")
    page.wait_for_function("() => document.getElementById('shown').textContent.includes('match')")
    row = f"#{page.locator('#rows tbody tr[id]').first.get_attribute('id')}"
    if not page.locator(f"{row}.open").count():
        page.locator(f"{row} .opener").focus()
        page.keyboard.press("Enter")
    details = page.locator(f"{row} + tr dl.details")
    for label in (
        "Why",
        "What to do",
        "Conditions that decided",
        "Facts recorded",
        "Evidence",
        "Rule",
        "Judge it again",
    ):
        assert label in details.inner_text()
    assert "deterministic_mode: on; torch >=2.1" in details.inner_text()
    assert "tracer explain cuda-efficient-attention-backward --torch 2.4.0" in details.inner_text()
    details.locator(".copy").last.click()
    address = details.locator("a").inner_text()
    assert address == row
    details.locator("a").click()
    assert page.url.endswith(address)
    page.click("#clear")
    page.goto("about:blank")
    page.goto(f"{deep_page.as_uri()}{address}")
    page.wait_for_selector(f"{address}.open")

    # Another target, and back.
    npu = page.locator("#targets tr", has_text="npu").filter(has_text="2.13.0").locator("button.choose")
    number = npu.get_attribute("data-target")
    npu.click()
    assert npu.get_attribute("aria-pressed") == "true"
    assert shown(page) > total
    page.select_option("#by-verdict", "unknown")
    page.wait_for_function("() => document.getElementById('shown').textContent.includes('match')")
    page.locator("#rows .opener").first.click()
    assert "--backend npu --torch 2.13.0" in page.locator("#rows dl.details").first.inner_text()
    assert page.locator("#rows tbody tr[id]").first.get_attribute("id").startswith(f"target-{number}-finding-")
    assert page.inner_text("#coloured-for") == ", for npu, torch 2.13.0"
    page.locator("#chips .chip", has_text="npu").click()
    page.click("#clear")
    opened.matched(f"All {total} shown")
    page.goto("about:blank")
    page.goto(f"{deep_page.as_uri()}#target-{number}-finding-40")
    page.wait_for_selector(f"#target-{number}-finding-40.open")


@pytest.mark.slow
@pytest.mark.parametrize("opened", [(True, 1280)], indirect=True)
def test_paper_shows_the_map_the_lines_the_targets_and_every_finding(opened: Opened) -> None:
    page = opened.page
    total = shown(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#rows tbody tr[id]").count() == total
    for part in ("#map", ".strip", ".lines .source", "table.targets", "table.bars", "#environment pre"):
        assert page.locator(part).first.is_visible(), part
    for part in ("#chips", ".filters", "button.only", "button.choose", ".copy", "nav"):
        assert not page.locator(part).first.is_visible(), part
    check_accessible(page)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator("#rows tbody tr[id]").count() == 25


def test_without_scripts_the_map_the_lines_and_the_targets_still_stand(chromium: Browser, deep_page: Path) -> None:
    opened = Opened(chromium, deep_page, scripts=False)
    assert opened.page.locator("#map .block").count() > 100
    assert opened.page.locator("table.targets tbody tr").count() == 12
    assert opened.page.locator("button.only:visible, button.choose:visible, .chip:visible").count() == 0
    assert opened.page.locator(".strip button:enabled").count() == 0
    opened.left()
