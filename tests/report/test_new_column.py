"""Adding a column of findings is one block in ``report.finding_columns``: every format that has columns then has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.browser import Browser, Opened
from tests.support.build import finding, report
from tracer.report import finding_columns
from tracer.report.finding_columns import FindingColumn, Look

ADDED = (
    FindingColumn(
        name="letters",
        cell=lambda finding, _: len(finding.op),
        is_number=True,
        label="Letters of the op",
        in_files=True,
    ),
    FindingColumn(
        name="shouted",
        cell=lambda finding, _: finding.rule.upper(),
        on_page=lambda finding, _: f"{finding.rule.upper()} on the page",
        label="Shouted",
        look=Look.CODE,
        in_files=True,
    ),
    FindingColumn(name="of_files", cell=lambda *_: "for files alone", in_files=True, is_on_page=False),
)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_columns, "COLUMNS", finding_columns.COLUMNS + ADDED)


def test_a_new_column_stands_in_csv_and_frames_behind_the_others() -> None:
    made = report(finding())
    header, row = made.to_csv().splitlines()
    assert header.endswith(",evidence,letters,shouted,of_files")
    assert row.endswith(",23,CUDA-INDEX-ADD,for files alone")
    frame = made.to_dataframe()
    assert list(frame.columns) == header.split(",")
    assert (frame["letters"].dtype, frame["shouted"].dtype) == ("int64", object)


@pytest.mark.browser
def test_the_page_shows_it_in_an_opened_row_and_searches_its_words(chromium: Browser, tmp_path: Path) -> None:
    opened = Opened(chromium, report(finding()).write(tmp_path / "report.html"))
    page = opened.page
    opened.sought("#search", "cuda-index-add on the page", "All 1 shown")
    page.locator("#rows .opener").first.click()
    labels, values = (page.locator(f"#rows dl.details {name}").all_inner_texts() for name in ("dt", "dd"))
    told = dict(zip(labels, values, strict=True))
    assert (told["Letters of the op"], told["Shouted"]) == ("23", "CUDA-INDEX-ADD on the page")
    assert "for files alone" not in told.values()
    opened.sought("#search", "for files alone", "0 of 1 match")
    opened.done()
