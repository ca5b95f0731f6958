"""The tables that CSV and data frames hold: headers that stay, rows that add up, safe in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import call, environment, evidence, finding, region, report, trace
from tracer import judge
from tracer.errors import ReportError
from tracer.report import Report
from tracer.report.finding_columns import TABLES

HEADERS = {
    "findings": "backend,torch,rule,op,phase,module,location,function,called_from,count,verdict,"
    "deterministic_mode,cause,remedy,evidence",
    "calls": "backend,torch,op,runs_as,phase,module,location,function,called_from,node,count,verdict,"
    "deterministic_mode,rule,cause,reason,device,dtype,facts,region",
}


def judged(**fields: Any) -> Report:
    """A step of four groups on CUDA: an index_add_ forward, one deterministic, one of an unknown library, a dropout."""
    made = trace(
        call(count=3),
        call("aten.mul.Tensor", count=40, module="net.other"),
        call("mylib.fuse.default", count=2, phase="backward"),
        call("aten.native_dropout.default", count=5, facts={"device": "cpu", "rng.generator": "cpu"}),
        environment=environment(cudnn_benchmark=True, variables={"PYTHONHASHSEED": "0"}),
        differing_settings=("cudnn_benchmark",),
        regions=(region(),),
    )
    return judge(made, backend="cuda", **fields)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("table", HEADERS)
def test_each_header_is_the_published_one(table: str) -> None:
    assert judged().to_csv(table).partition("\n")[0] == HEADERS[table]
    assert list(judged().to_dataframe(table).columns) == HEADERS[table].split(",")
    assert set(HEADERS) == set(TABLES)
    assert report().to_csv() == HEADERS["findings"] + "\n"


@pytest.mark.parametrize("table", HEADERS)
def test_the_frame_holds_what_the_csv_holds(table: str) -> None:
    made = judged()
    frame = made.to_dataframe(table)
    assert frame["count"].dtype == "int64"
    assert frame.astype(str).to_dict("records") == rows(made.to_csv(table))
    assert len(frame)
    assert frame.equals(made.to_dataframe()) is (table == "findings"), "which are the default"
    assert (made.to_csv() == made.to_csv(table)) is (table == "findings")


@pytest.mark.parametrize("settings", ["default", "deterministic", {"deterministic_mode": "on", "seed.torch": True}])
def test_calls_add_up_to_the_tally_and_to_the_findings(settings: Any) -> None:
    made = judged(settings=settings)
    frame = made.to_dataframe("calls")
    assert frame.groupby("verdict")["count"].sum().to_dict() == made.tally.as_is
    assert frame.groupby("deterministic_mode")["count"].sum().to_dict() == made.tally.deterministic_mode
    risky = frame[(frame["verdict"] != "deterministic") | (frame["deterministic_mode"] != "deterministic")]
    found = Counter({(one.rule, one.op): one.count for one in made.findings if one.about == "call"})
    assert Counter({(row.rule, row.op): row.count for row in risky.itertuples()}) == found


def test_calls_say_why_and_keep_the_traces_order() -> None:
    calls = judged().to_dataframe("calls").to_dict("records")
    assert [one["op"].split(".")[1] for one in calls] == ["index_add_", "mul", "fuse", "native_dropout"]
    assert [one["reason"] for one in calls] == ["", "", "opaque", "fact-not-recorded"]
    assert calls[0]["rule"] == "cuda-index-add"
    assert (calls[1]["rule"], calls[1]["verdict"]) == ("", "deterministic")
    assert calls[3]["facts"] == '{"rng.generator":"cpu"}'


@pytest.mark.parametrize(
    ("made", "table", "says"),
    [(report, "calls", "made without its trace"), (judged, "ops", "choose from findings, calls")],
)
def test_a_table_that_does_not_exist_is_one_line(made: Callable[[], Report], table: str, says: str) -> None:
    with pytest.raises(ReportError, match=says):
        made().to_csv(table)


def test_the_page_of_formats_names_the_headers() -> None:
    page = (Path(__file__).parents[3] / "docs" / "formats.md").read_text(encoding="utf-8")
    for table, header in HEADERS.items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{table}` |")]
        columns = line.split("`")[3]
        assert header == columns


def test_a_row_a_finding_with_evidence_joined() -> None:
    one = finding(count=7, evidence=(evidence("page"), evidence("file.cu", "source")))
    (row,) = rows(report(one).to_csv())
    assert (row["backend"], row["torch"], row["count"]) == ("cuda", "2.13.0", "7")
    assert (row["verdict"], row["evidence"]) == ("nondeterministic", "documented: page; source: file.cu")
    assert rows(report(finding(backend="recorded")).to_csv())[0]["backend"] == "cuda", "the target's"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(start: str) -> None:
    (row,) = rows(report(finding(module=f"{start}cmd()")).to_csv())
    assert row["module"].startswith("'")
    assert row["module"].endswith("cmd()")


def test_newlines_and_quotes_stay_inside_their_cell() -> None:
    remedy = 'first line\nsecond, "quoted"'
    first, _ = rows(report(finding(remedy=remedy), finding("cuda-b")).to_csv())
    assert first["remedy"] == remedy
