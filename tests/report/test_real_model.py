"""Every control of the page, on a real model's report: a transformer's calls, lines and modules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tests.report.browser import Browser, Opened, check_accessible
from tracer import DeterminismTracer, judge
from tracer.trace import Trace

pytestmark = pytest.mark.browser

#: What can be worked on the page, by id, class or kind; a control that is not listed, and driven, fails the test.
CONTROLS = """
() => {
  const all = "a[href], button, input, select, summary, th[aria-sort], .dt-orderable-asc";
  const kinds = {
    "nav a": "nav", th: "heading", summary: "summary",
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
    *("skip", "nav", "number", "copy", "summary", "at", "only", "search", "by-verdict"),
    *("by-phase", "by-cause", "by-about", "by-module", "sort-by", "clear", "chip", "heading", "opener", "length"),
    *("dt-paging-button", "finding", "to-finding", "unfold"),
}
#: A layer more adds rows and draws of the same templates.
LAYERS = 3

#: Leaves one row of each look in every table, by the classes of what is in it. The others are of the same template.
ONE_OF_EACH_LOOK = """
() => {
  const named = (node) => `${node.localName}.${node.className}`;
  for (const group of document.querySelectorAll("tbody")) {
    const seen = new Set();
    for (const one of [...group.children]) {
      const look = [...new Set([one, ...one.querySelectorAll("*")].map(named))].sort().join();
      seen.has(look) ? one.remove() : seen.add(look);
    }
  }
}
"""
ROWS_LEFT = "tracerTables('#rows').DataTable().page.info().recordsDisplay"
CLASSES = "[...new Set([...document.querySelectorAll('[class]')].flatMap((node) => [...node.classList]))]"


def step() -> Trace:
    """Two training steps of a transformer with random weights."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.GPT2Config(
            n_layer=LAYERS, n_embd=32, n_head=2, vocab_size=64, n_positions=16, bos_token_id=0, eos_token_id=0
        )
        model = transformers.GPT2LMHeadModel(config)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        tokens = torch.randint(0, 64, (2, 8))
        with DeterminismTracer(model, name="gpt2") as recorder:
            for _ in range(2):
                optimizer.zero_grad()
                model(tokens, labels=tokens).loss.backward()
                optimizer.step()
    return recorder.trace


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of its report for CUDA under torch 2.4."""
    recorded = step()
    sources = {place: f"source of {place}" for group in recorded.calls if (place := group.called_from)}
    report = judge(msgspec.structs.replace(recorded, source_lines=sources), backend="cuda", torch="2.4")
    path = report.write(tmp_path_factory.mktemp("real") / "gpt2.html")
    assert report.tally.total > 500 * LAYERS
    assert len(report.findings) > 10 * LAYERS
    assert path.stat().st_size < 1_500_000
    return path


looks = pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 400)])


def shown(page: Any) -> int:
    """How many findings are left, by the line above the table."""
    said = page.inner_text("#shown").replace(",", "")
    found = re.search(r"(\d+) (?:of|shown)", said)
    assert found, said
    return int(found.group(1))


@looks
def test_no_rule_of_level_a_or_aa_is_broken_whatever_is_open(
    chromium: Browser, path: Path, dark: bool, width: int
) -> None:
    opened = Opened(chromium, path, dark=dark, width=width)
    page = opened.page
    page.locator(".opener").nth(1).click()
    page.locator("button.only").first.click()
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    before = set(page.evaluate(CLASSES))
    page.evaluate(ONE_OF_EACH_LOOK)
    assert set(page.evaluate(CLASSES)) == before
    check_accessible(page)
    opened.done()


@looks
def test_every_control_does_what_it_says(chromium: Browser, path: Path, dark: bool, width: int) -> None:
    opened = Opened(chromium, path, dark=dark, width=width, permissions=["clipboard-read", "clipboard-write"])
    page = opened.page
    total = shown(page)
    narrow = page.viewport_size["width"] < 860
    page.select_option("#by-verdict", "seeded")
    page.wait_for_selector("button.unfold")
    page.locator(".opener").first.click()
    page.locator("button.only").first.evaluate("one => one.click()")
    page.wait_for_selector("#chips .chip")
    assert set(page.evaluate(CONTROLS)) == DRIVEN
    page.click("#clear")
    assert shown(page) == total

    # Links to places on the page.
    last = page.locator("nav a").last
    last.click()
    opened.at(last.get_attribute("href"))
    nowhere = "[...document.querySelectorAll('nav a')].filter((one) => !document.querySelector(one.hash))"
    assert page.evaluate(f"{nowhere}.map((one) => one.hash)") == []
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    opened.at("#findings")
    page.locator(".plan a.number").first.click()
    opened.at("#change-1")
    line = page.locator(".lines a.at").first
    line.click()
    opened.at(line.get_attribute("href"))
    assert page.evaluate("document.querySelector(location.hash).closest('#lines') !== null")

    page.locator("#settings a.to").first.click()
    page.wait_for_selector("#finding-1.open")
    page.locator("#finding-1 .opener").click()
    assert page.locator("#finding-1.open").count() == 0

    # What folds, and what is copied.
    page.locator("main summary").first.click()
    folds = "[...document.querySelectorAll('main summary')]"
    assert page.evaluate(f"{folds}[0].parentElement.open")
    page.evaluate(f"{folds}.slice(1).forEach((one) => one.click())")
    assert page.evaluate(f"{folds}.every((one) => one.parentElement.open)")
    page.locator("#environment .copy").click()
    page.wait_for_function("() => document.querySelector('#environment .copy').textContent === 'Copied'")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == "tracer report trace.json --backend cuda --torch 2.4.0 --settings recorded"

    # Search and fields.
    for select, rows in (("by-verdict", 0), ("by-phase", 3), ("by-cause", 2)):
        value = page.evaluate(f"document.querySelectorAll('#{select} option')[1].value")
        page.select_option(f"#{select}", value)
        assert 0 < shown(page) < total
        if select != "by-cause":
            assert all(value in text for text in opened.column(rows))
        opened.cleared(total)
    page.select_option("#by-about", "setting")
    assert 0 < shown(page) < 10
    opened.cleared(total)
    opened.sought("#by-module", "h.2.")
    assert all("transformer.h.2." in text for text in opened.column(4))
    opened.cleared(total)
    opened.sought("#search", "SOFTMAX backward 193")
    assert all("softmax_backward" in text for text in opened.column(2))
    opened.cleared(total)

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
    assert page.locator("#rows tbody tr[id]").count() == 25
    first = page.locator("#rows tbody tr[id]").first.get_attribute("id")
    page.locator(".dt-paging-button", has_text="2").first.click()
    assert page.locator("#rows tbody tr[id]").first.get_attribute("id") != first
    page.select_option(".dt-length select", "50")
    assert page.locator("#rows tbody tr[id]").count() == min(50, page.evaluate(ROWS_LEFT))

    # Seeded draws of like modules are one row, and each by itself again.
    opened.cleared(total)
    page.select_option("#by-verdict", "seeded")
    unfold = page.locator("button.unfold").first
    more = int(re.sub(r"\D", "", unfold.inner_text()))
    assert more == LAYERS - 1
    met = shown(page)
    assert "one row" in page.inner_text("#folded")
    rows = int(page.evaluate("document.querySelectorAll('#rows tbody tr[id]').length"))
    unfold.click()
    assert unfold.get_attribute("aria-expanded") == "true"
    assert page.locator("#rows tbody tr[id]").count() == min(50, rows + more)
    assert shown(page) == met
    unfold.click()
    assert page.locator("#rows tbody tr[id]").count() == rows
    opened.cleared(total)

    # A row opens to all that is known; its address opens it again.
    opened.sought("#search", "cuda-efficient-attention-backward")
    row = f"#{page.locator('#rows tbody tr[id]').first.get_attribute('id')}"
    if not page.locator(f"{row}.open").count():
        page.locator(f"{row} .opener").focus()
        page.keyboard.press("Enter")
    details = page.locator(f"{row} + tr dl.details")
    told = details.inner_text()
    labels = ("Why", "What to do", "Conditions that decided", "Facts recorded", "Evidence", "Rule", "Judge it again")
    assert [label for label in labels if label not in told] == []
    assert "deterministic_mode: on; torch >=2.1" in told
    assert "tracer explain cuda-efficient-attention-backward --torch 2.4.0" in told
    details.locator(".copy").last.click()
    address = details.locator("a").inner_text()
    assert address == row
    details.locator("a").click()
    opened.at(address)
    opened.cleared(total)
    page.evaluate("address => { location.hash = ''; location.hash = address; }", address)
    page.wait_for_selector(f"{address}.open")
