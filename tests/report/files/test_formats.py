"""Formats: golden files, choosing one by suffix, writing whole or not at all, and loading no more than needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.report.samples import full_report, process_report
from tests.support.build import finding, report
from tests.support.command import process
from tracer.errors import ReportError
from tracer.plain import json_text
from tracer.report import FORMATS, json_format, rendered_as
from tracer.report.json_format import REPORT_SCHEMA, Document, JudgementForm
from tracer.report.render import page as html

Golden = Callable[[str, str], None]


@pytest.mark.parametrize("name", ["csv", "json", "text", "markdown", "sarif", "junit"])
def test_a_full_report_reads_as_it_did(name: str, golden: Golden) -> None:
    golden(f"report{FORMATS[name].suffix}", rendered_as(name, full_report()))


@pytest.mark.parametrize("name", ["csv", "json", "text", "markdown", "sarif", "junit"])
def test_what_no_op_shows_reads_as_it_did(name: str, golden: Golden) -> None:
    golden(f"process{FORMATS[name].suffix}", rendered_as(name, process_report()))


def test_the_page_reads_as_it_did(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "datatables_script", lambda: "/* DataTables, from itables */")
    assets = {"style.css": "/* style */", "script.js": "/* script */"}
    monkeypatch.setattr(html, "assets", lambda: assets)
    golden("report.html", full_report().to_html())
    golden("process.html", process_report().to_html())


def test_json_reads_back_into_the_same_judgement_and_plan() -> None:
    made = full_report()
    document = msgspec.json.decode(made.to_json(), type=Document)
    assert document.judgement == JudgementForm.of(made.judgement)
    assert document.plan == made.plan
    assert document.schema == REPORT_SCHEMA


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 2_500])
@pytest.mark.parametrize("name", ["net.py", "caf\u00e9.py", "\ud800.py", "\u202e.py", '\n    "findings": []'])
def test_json_in_pieces_is_the_same_text_as_json_at_once(count: int, name: str) -> None:
    made = report(*(finding(location=f"{name}:{line}") for line in range(count)))
    spelt = list(json_format.pieces(made))
    document = msgspec.json.decode("".join(spelt).encode("utf-8"), type=Document)
    assert "".join(spelt) == json_text(document) + "\n"
    assert len(document.judgement.findings) == count
    assert max(map(len, spelt)) < 2_000_000


@pytest.mark.parametrize("suffix", [one.suffix for one in FORMATS.values()])
def test_the_suffix_picks_the_format(suffix: str, tmp_path: Path) -> None:
    made = report(finding())
    path = made.write(tmp_path / f"report{suffix.upper()}")
    name = next(name for name, one in FORMATS.items() if one.suffix == suffix)
    assert path.read_bytes() == rendered_as(name, made).encode("utf-8")


@pytest.mark.parametrize("name", ["report", "report.docx", "report.", ".html"])
def test_an_unknown_suffix_gets_one_line_that_lists_the_formats(name: str, tmp_path: Path) -> None:
    with pytest.raises(ReportError) as caught:
        report().write(tmp_path / name)
    line = str(caught.value)
    assert "\n" not in line
    assert all(one.suffix in line for one in FORMATS.values())
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_rendered_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(html, "_PACKAGE", tmp_path / "gone")
    html.page_environment.cache_clear()
    html.assets.cache_clear()
    with pytest.raises(ReportError, match="templates are not installed"):
        report().write(path)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="cannot write"):
        report().write(tmp_path / "file" / "report.csv")


def test_the_templates_of_an_installed_wheel_are_found_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "_PACKAGE", tmp_path / "tracer")
    beside = tmp_path / "templates"
    inside = tmp_path / "tracer" / "_templates"
    for folder in (beside, inside):
        folder.mkdir(parents=True)
        (folder / "report.html").write_text("")
    assert html.template_folder() == inside
    (inside / "report.html").unlink()
    assert html.template_folder() == beside


LOADED = """
import sys
from tests.support.build import finding, report
made = report(finding())
{act}
print([name for name in ("torch", "pandas", "numpy", "jinja2", "rich", "itables") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("act", "loaded"),
    [
        ("", []),
        ("made.to_csv()", []),
        ("made.to_json()", []),
        ("made.to_text()", ["rich"]),
        ("made.to_html()", ["jinja2"]),
        ("made._repr_html_()", ["jinja2"]),
        ("made.to_dataframe()", ["pandas", "numpy"]),
    ],
)
def test_a_format_loads_only_what_it_needs(act: str, loaded: list[str]) -> None:
    done = process("-c", LOADED.format(act=act), cwd=Path(__file__).parents[3])
    assert done.out.strip() == str(loaded), done.err


def test_a_report_says_what_it_is_in_one_line() -> None:
    assert repr(report(finding())) == ("<Report: 1 findings in 101 calls, for cuda, torch 2.13.0, settings default>")


@pytest.mark.parametrize("name", ["findings", "plan", "judgement", "traces", "ranks", "strict", "unheard_of"])
def test_a_report_is_frozen_when_it_is_made(name: str) -> None:
    made = full_report()
    before = made.to_json()
    with pytest.raises(AttributeError):
        setattr(made, name, None)
    assert made.to_json() == before
