"""CSV and data frames: the same header and rows, safe in a spreadsheet, counts that add up."""

from __future__ import annotations

import csv
import io

import pytest

from tests.support.build import evidence, finding, report

HEADER = (
    "backend,torch,rule,op,phase,module,location,function,called_from,count,verdict,"
    "deterministic_mode,cause,remedy,evidence"
)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_the_header_is_the_published_one_even_without_findings() -> None:
    assert report().to_csv() == HEADER + "\n"
    assert list(report().to_dataframe().columns) == HEADER.split(",")


def test_a_row_a_finding_with_evidence_joined() -> None:
    one = finding(count=7, evidence=(evidence("page"), evidence("file.cu", "source")))
    (_, row) = rows(report(one).to_csv())
    cells = dict(zip(HEADER.split(","), row, strict=True))
    assert cells["backend"] == "cuda"
    assert cells["torch"] == "2.13.0"
    assert cells["count"] == "7"
    assert cells["verdict"] == "nondeterministic"
    assert cells["evidence"] == "documented: page; source: file.cu"


def test_a_finding_that_names_no_backend_bears_the_targets() -> None:
    assert rows(report(finding(backend="recorded")).to_csv())[1][0] == "cuda"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(start: str) -> None:
    (_, row) = rows(report(finding(module=f"{start}cmd()")).to_csv())
    assert row[5].startswith("'")
    assert row[5].endswith("cmd()")


def test_newlines_and_quotes_stay_inside_their_cell() -> None:
    remedy = 'first line\nsecond, "quoted"'
    table = rows(report(finding(remedy=remedy), finding("cuda-b")).to_csv())
    assert len(table) == 3
    assert table[1][13] == remedy
