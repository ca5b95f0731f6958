"""The page in a real Chromium, opened from disk: it sorts, searches, filters, opens, and asks nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.browser import Browser, Opened, check_accessible
from tests.report.samples import (
    HOSTILE,
    SEED_WORKER,
    full_report,
    hostile_process_report,
    hostile_report,
    process_report,
)
from tests.support.build import finding, report
from tests.support.slow import slow_unless
from tracer.findings import Acceptance
from tracer.names import AcceptedBy
from tracer.report import Report

pytestmark = pytest.mark.browser


def written(made: Report, folder: Path) -> Path:
    return made.write(folder / "report.html")


#: A page is seen by day when wide and by night when narrow; the other way round in ``make test-all``.
BOTH_SCHEMES_AND_WIDTHS = pytest.mark.parametrize(
    ("dark", "width"),
    slow_unless([(False, 1280), (True, 400)], [(False, 1280), (True, 400), (True, 1280), (False, 400)]),
)


@BOTH_SCHEMES_AND_WIDTHS
def test_a_row_opens_by_key_and_closes_and_the_page_is_accessible(
    chromium: Browser, tmp_path: Path, dark: bool, width: int
) -> None:
    opened = Opened(chromium, written(full_report(), tmp_path), dark=dark, width=width)
    page = opened.page
    opened.matched("All 5 shown")
    for sought in ("upsample", "Seed it"):
        opened.sought("#search", sought, "1 of 5 match")
    opened.cleared(5)
    opener = page.locator(".opener").nth(0)
    opener.focus()
    page.keyboard.press("Enter")
    assert opener.get_attribute("aria-expanded") == "true"
    assert "Rows are added with atomicAdd" in page.inner_text("#rows dl.details")
    assert "torch.use_deterministic_algorithms" in page.inner_text("#rows dl.details")
    check_accessible(page)
    opener.click()
    assert page.locator("#rows dl.details").count() == 0
    opened.done()


def test_behind_a_gate_what_was_accepted_is_marked_and_filtered(chromium: Browser, tmp_path: Path) -> None:
    by_baseline = Acceptance(finding=1, by=AcceptedBy.BASELINE, reason="<b>sums</b> of two rows")
    made = replace(full_report(), accepted=(by_baseline, Acceptance(finding=3, by=AcceptedBy.COMMENT)))
    opened = Opened(chromium, written(made, tmp_path), width=400)
    page = opened.page
    assert "2 findings are accepted (1 by the baseline, 1 by a comment in the code), 3 are not." in page.inner_text(
        "#findings"
    )
    assert [row for row in range(5) if "accepted" in opened.column(0)[row]] == [1, 3]
    page.select_option("#by-gate", "accepted")
    opened.matched("2 of 5 match")
    page.locator("#rows .opener").first.click()
    assert "By the baseline: <b>sums</b> of two rows" in page.inner_text("#rows dl.details")
    page.select_option("#by-gate", "left")
    opened.matched("3 of 5 match")
    opened.cleared(5)
    opened.done()


def test_columns_sort_by_what_they_mean_on_a_narrow_screen_without_headings(chromium: Browser, tmp_path: Path) -> None:
    opened = Opened(chromium, written(full_report(), tmp_path))
    heads = opened.page.locator("#rows thead th")
    heads.nth(6).click()
    opened.page.wait_for_selector("th.figure.dt-ordering-desc")
    assert opened.column(6) == ["24", "12", "4", "1", "1"]
    heads.nth(6).click()
    opened.page.wait_for_selector("th.figure.dt-ordering-asc")
    assert opened.column(6) == ["1", "1", "4", "12", "24"]
    heads.nth(0).click()
    opened.page.wait_for_selector("th:first-child.dt-ordering-asc")
    assert [text[0] for text in opened.column(0)] == ["≠", "≠", "≈", "?", "#"]
    opened.page.set_viewport_size({"width": 400, "height": 900})
    assert not heads.first.is_visible()
    opened.page.select_option("#sort-by", "count")
    opened.page.wait_for_selector("#rows th.dt-ordering-desc", state="attached")
    assert [text.split()[-1] for text in opened.column(6)] == ["24", "12", "4", "1", "1"]
    opened.done()


def test_a_line_number_never_breaks(chromium: Browser, tmp_path: Path) -> None:
    folder = "project/source/"
    places = [f"{folder}{'x' * length}.py:1024" for length in range(8, 60)]
    long = report(*(finding(location=place, called_from=f"runs/{place}") for place in places))
    opened = Opened(chromium, written(long, tmp_path), width=400)
    opened.page.evaluate("document.querySelectorAll('.opener').forEach(button => button.click())")
    for width in (400, 1280):
        opened.page.set_viewport_size({"width": width, "height": 900})
        numbers = opened.page.evaluate(
            "[...document.querySelectorAll('.whole')].map(one => [one.textContent, one.getClientRects().length])"
        )
        assert len(numbers) > len(places)
        assert {(".py:1024", rects) for rects in (0, 1)} >= set(map(tuple, numbers))
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.done()


def test_an_address_opens_its_finding_on_whichever_page_it_is(chromium: Browser, tmp_path: Path) -> None:
    many = report(*(finding(location=f"train.py:{line:03}") for line in range(90)))
    opened = Opened(chromium, written(many, tmp_path), "#finding-80")
    opened.page.wait_for_selector("#finding-80.open")
    assert "train.py:079" in opened.page.inner_text("#finding-80")
    opened.done()


def test_hostile_names_stay_text_when_searched_and_opened(chromium: Browser, tmp_path: Path) -> None:
    opened = Opened(chromium, written(hostile_report(*HOSTILE), tmp_path), width=400)
    page = opened.page
    page.evaluate("document.querySelectorAll('.opener').forEach(button => button.click())")
    opened.sought("#search", "&<img", f"2 of {2 * len(HOSTILE)} match")
    opened.cleared(2 * len(HOSTILE))
    page.evaluate("document.querySelectorAll('button.only').forEach(one => one.click())")
    page.evaluate("document.querySelectorAll('.chip, .opener').forEach(button => button.click())")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main svg, main script").count() == 0
    opened.done()


def test_thousands_of_findings_open_and_filter(chromium: Browser, tmp_path: Path) -> None:
    found = [finding(location=f"src/a{line % 40}.py:{line}", module=f"net.layer{line}") for line in range(5_000)]
    path = written(report(*found), tmp_path)
    assert path.stat().st_size < 1_500_000
    opened = Opened(chromium, path)
    opened.sought("#search", "net.layer4321", "1 of 5,000 match")
    assert opened.page.locator("#rows tbody tr[id]").count() == 1
    opened.done()


def test_paper_shows_every_finding_and_what_to_do(chromium: Browser, tmp_path: Path) -> None:
    many = report(*(finding(location=f"train.py:{line:03}") for line in range(90)))
    opened = Opened(chromium, written(many, tmp_path), dark=True)
    page = opened.page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#rows tbody tr[id]").count() == 90
    assert page.locator("#rows tbody td.print-only").first.is_visible()
    sizes = "[...document.querySelectorAll('#rows td code')].map(one => parseFloat(getComputedStyle(one).fontSize))"
    assert all(size < 11 for size in page.evaluate(sizes))
    assert not page.locator(".filters").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator("#rows tbody tr[id]").count() == 25
    opened.done()


def test_the_plan_stands_before_metadata_and_sections_are_named_whole(chromium: Browser, tmp_path: Path) -> None:
    opened = Opened(chromium, written(full_report(), tmp_path), width=420)
    top = "name => document.querySelector(name).getBoundingClientRect().top"
    assert opened.page.evaluate(top, "#change-1") < opened.page.evaluate(top, ".target")
    opened.page.set_viewport_size({"width": 1280, "height": 900})
    assert opened.page.evaluate("(nav => nav.scrollWidth <= nav.clientWidth)(document.querySelector('nav'))")
    opened.done()


def test_without_scripts_the_findings_are_a_plain_table(chromium: Browser, tmp_path: Path) -> None:
    opened = Opened(chromium, written(full_report(), tmp_path), scripts=False)
    assert opened.page.locator(".cells tbody tr").count() == 5
    assert "Pass stable=True." in opened.page.inner_text(".cells")
    opened.left()


def test_no_finding_is_a_calm_sentence_and_a_small_file(chromium: Browser, tmp_path: Path) -> None:
    path = written(report(), tmp_path)
    assert path.stat().st_size < 64_000
    opened = Opened(chromium, path)
    assert "No risk found" in opened.page.inner_text("h1")
    assert "That is no proof" in opened.page.inner_text("#findings")
    opened.done()


def test_the_plans_code_is_copied_whole_from_a_page_on_disk_and_selected_without_a_clipboard(
    chromium: Browser, tmp_path: Path
) -> None:
    opened = Opened(chromium, written(process_report(), tmp_path), permissions=["clipboard-read", "clipboard-write"])
    page = opened.page
    button = page.locator(".plan .copy").nth(1)
    page.evaluate("window.later = []; window.setTimeout = (...what) => later.push(what); null")
    button.click()
    page.wait_for_function("() => document.querySelectorAll('.plan .copy')[1].textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == SEED_WORKER
    assert page.evaluate("later.map(([, milliseconds]) => milliseconds)") == [1500]
    page.evaluate("later[0][0]()")
    assert (button.text_content() or "").startswith("Copy the")

    page.evaluate(
        "navigator.clipboard.writeText = () => Promise.reject(new Error('no'));document.execCommand = () => false"
    )
    page.locator(".plan .copy").first.click()
    page.wait_for_function("() => document.querySelector('.plan .copy').textContent === 'Selected'")
    assert page.evaluate("getSelection().toString()") == "torch.backends.cudnn.benchmark = False"
    opened.done()


@BOTH_SCHEMES_AND_WIDTHS
def test_what_no_op_shows_is_found_filtered_and_opened(
    chromium: Browser, tmp_path: Path, dark: bool, width: int
) -> None:
    opened = Opened(chromium, written(process_report(), tmp_path), dark=dark, width=width)
    page = opened.page
    opened.matched("All 8 shown")
    for about, matching in (("set too late", 1), ("generator", 2), ("call", 2), ("data loading", 1)):
        page.select_option("#by-about", about)
        opened.matched(f"{matching} of 8 match")
    opened.cleared(8)
    opened.sought("#search", "aten.bmm: 300", "1 of 8 match")
    assert "CUBLAS_WORKSPACE_CONFIG" in opened.column(2)[0]
    assert "train.py:14" in opened.column(5)[0]
    page.locator(".opener").first.click()
    opened_row = page.inner_text("#rows dl.details")
    for part in ("aten.mm: 1,200", 'os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"', "before torch is imported"):
        assert part in opened_row
    assert page.locator("#rows dl.details .copy").count() == 2  # the lines to paste, and the command
    opened.cleared(8)
    page.click("#settings a.to >> nth=0")
    page.wait_for_selector("#finding-1.open")
    check_accessible(page)
    opened.done()


def test_what_no_op_shows_stands_without_scripts_and_on_paper(chromium: Browser, tmp_path: Path) -> None:
    path = written(process_report(), tmp_path)
    opened = Opened(chromium, path, scripts=False)
    page = opened.page
    assert page.locator(".copy:visible").count() == 0
    assert page.locator("a.to:visible").count() == 0
    for part, words in {"settings": "cuBLAS had read it", "draws": "random.shuffle", "memory": "45.2 MiB"}.items():
        assert words in page.inner_text(f"#{part}")
    opened.left()
    paper = Opened(chromium, path)
    paper.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    paper.page.emulate_media(media="print")
    assert "Products are rounded to ten bits" in paper.page.inner_text("#settings")
    assert paper.page.locator(".copy:visible").count() == 0
    paper.done()


@pytest.mark.parametrize(
    "text", slow_unless([TOGETHER := " ".join(HOSTILE[:-1])], [TOGETHER, *HOSTILE])
)  # all of them, and each by itself
def test_hostile_names_of_the_process_stay_text(chromium: Browser, tmp_path: Path, text: str) -> None:
    opened = Opened(chromium, written(hostile_process_report(text), tmp_path), width=400)
    page = opened.page
    page.evaluate("document.querySelectorAll('.opener, summary').forEach(button => button.click())")
    page.locator("#rows .copy").first.click()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main svg, main script").count() == 0
    opened.done()


def test_seeded_draws_of_like_modules_are_one_row_that_unfolds(chromium: Browser, tmp_path: Path) -> None:
    seeded = {"op": "aten.native_dropout.default", "verdict": "seeded", "deterministic_mode": "seeded", "cause": "rng"}
    drops = [finding("cuda-rng", module=f"net.{layer}.drop", location="net.py:7", **seeded) for layer in range(4)]
    opened = Opened(chromium, written(report(finding(), *drops), tmp_path))
    page = opened.page
    opened.matched("All 5 shown")
    assert page.inner_text("#folded") == "Seeded draws of like modules are one row."
    assert page.locator("#rows tbody tr[id]").count() == 2
    page.locator("button.unfold").click()
    opened.matched("All 5 shown")
    assert page.inner_text("#folded") == ""
    assert opened.column(4) == ["net.fc", *(f"net.{layer}.drop" for layer in range(4))]
    page.locator("button.unfold").click()
    opened.sought("#by-module", "net.2", "1 of 5 match")
    opened.cleared(5)
    page.evaluate("location.hash = '#finding-4'")
    page.wait_for_selector("#finding-4.open")
    opened.done()
