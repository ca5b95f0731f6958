"""What a page is made of: DataTables out of the installed itables, and a page that does without it."""

from __future__ import annotations

import re

import pytest

from tests.report.samples import full_report
from tests.support.build import finding, report
from tracer.report.render import page as html


def test_the_bundle_of_itables_becomes_an_inline_script() -> None:
    script = html.datatables_script()
    assert script is not None
    assert "globalThis.tracerTables=" in script
    assert not re.search(r"\bexport\s*\{", script)
    assert not re.search("</?script|<!--", script, re.IGNORECASE)


@pytest.mark.parametrize(
    ("source", "safe"),
    [
        ('"</script>"', r'"<\/script>"'),
        ('"</SCRIPT "', r'"<\/SCRIPT "'),
        ('"<script>"', r'"\x3cscript>"'),
        ("/<!--/", r"/\x3c!--/"),
        ("a < b", "a < b"),
    ],
)
def test_nothing_in_a_script_ends_its_element(source: str, safe: str) -> None:
    assert html.script_safe(source) == safe


def test_without_itables_the_page_has_a_plain_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "datatables_script", lambda: None)
    page = full_report().to_html()
    assert '<table class="list cells">' in page
    assert "<noscript>" not in page
    assert 'id="data"' not in page
    assert page.count("sha256-") == 1


def test_an_itables_of_another_shape_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    html.datatables_script.cache_clear()
    monkeypatch.setattr(html, "_JQUERY", re.compile("nothing like it"))
    assert html.datatables_script() is None
    html.datatables_script.cache_clear()


def test_a_thousand_findings_stay_under_a_megabyte_and_a_half() -> None:
    many = report(
        *(
            finding(
                location=f"src/model/part_{number % 50}.py:{number}",
                module=f"model.layers.{number}.attention",
                why=f"Reason {number % 40}. " * 8,
                remedy=f"Remedy {number % 40}. " * 8,
            )
            for number in range(1_000)
        )
    )
    assert len(many.to_html().encode()) < 1_500_000
