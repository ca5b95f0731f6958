"""``tracer report``: from traces to every format, without torch."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from tests.report.files.test_tables import HEADERS
from tests.support.build import call, trace
from tests.support.command import Command, process
from tracer.report import FORMATS
from tracer.runner.script import source_at_hand
from tracer.trace import Trace
from tracer.trace.records import TraceSource


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A whole trace with one call that CUDA makes nondeterministic."""
    trace(call("aten.index_add_.default", count=3), call("aten.add.Tensor")).save(tmp_path / "t.json")
    return tmp_path / "t.json"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_trace_is_judged_for_the_target_that_is_named(saved: Path, tracer: Command) -> None:
    done = tracer("report", saved, "--backend", "cuda", "--torch", "2.13", "--format", "csv")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == HEADERS["findings"]
    (row,) = [row for row in rows(done.out) if row["op"].startswith("aten.index_add_")]
    assert (row["backend"], row["count"], row["verdict"]) == ("cuda", "3", "nondeterministic")
    assert row["location"] == "train.py:10"


def test_text_is_the_default_and_has_no_escape_code_in_a_pipe(saved: Path, tracer: Command) -> None:
    done = tracer("report", saved, "--backend", "cuda")
    assert done.code == 0
    assert "index_add_" in done.out
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize("name", FORMATS)
def test_the_suffix_of_the_output_picks_the_format(saved: Path, tracer: Command, name: str) -> None:
    path = saved.with_name(f"out{FORMATS[name].suffix}")
    done = tracer("report", saved, "--backend", "cuda", "-o", path)
    assert (done.code, done.out.splitlines()[0]) == (0, "≠ Two runs of this step can differ.")
    assert done.err == f"tracer: wrote {path}\n"
    assert path.stat().st_size > 0


def test_a_format_that_is_named_wins_over_the_suffix(saved: Path, tracer: Command) -> None:
    path = saved.with_name("findings.data")
    assert tracer("report", saved, "--format", "json", "-o", path).code == 0
    json.loads(path.read_text())


@pytest.mark.parametrize(
    ("output", "files"),
    [
        ("out/", {"out/report.csv", "out/report.json"}),
        ("here", {"here/report.csv", "here/report.json"}),
        ("a/b", {"a/b.csv", "a/b.json"}),
        ("step.html", {"step.csv", "step.json"}),
    ],
)
def test_several_formats_share_a_folder_or_a_stem(saved: Path, tracer: Command, output: str, files: set[str]) -> None:
    Path("here").mkdir()
    assert tracer("report", saved, "--format", "csv,json,csv", "-o", output).code == 0
    assert {str(path) for path in Path().rglob("*.*") if path != Path(saved.name)} == files


def test_traces_merge(saved: Path, tracer: Command) -> None:
    done = tracer("report", saved, saved, "--backend", "cuda", "--format", "csv")
    assert [row["count"] for row in rows(done.out) if row["op"].startswith("aten.index_add_")] == ["6"]


def test_a_partial_trace_is_reported_and_exits_with_3(tmp_path: Path, tracer: Command) -> None:
    trace(sources=(TraceSource(name="train.py", partial="KeyError"),)).save(tmp_path / "t.json")
    done = tracer("report", tmp_path / "t.json", "-o", tmp_path / "r.csv")
    assert done.code == 3
    assert done.err.splitlines()[-1] == "tracer: the trace is partial (KeyError); the rest was not judged"
    assert (tmp_path / "r.csv").exists()


def test_strict_calls_a_torch_beyond_the_tables_unknown(saved: Path, tracer: Command) -> None:
    line = ("report", saved, "--backend", "cuda", "--torch", "99.0", "--format", "csv")
    verdicts = [
        {row["verdict"] for row in rows(tracer(*line, *more).out) if row["op"].startswith("aten.index_add_")}
        for more in ((), ("--strict",))
    ]
    assert verdicts == [{"nondeterministic"}, {"unknown"}]


NO_TORCH = """
import json, sys
sys.modules["torch"] = None
from tracer.cli.main import main
codes = []
for line in json.loads(sys.argv[1]):
    try:
        main(line)
    except SystemExit as left:
        codes.append(left.code)
print(codes)
"""


def test_reports_explanations_and_tables_need_no_torch(saved: Path) -> None:
    lines = [
        *(["report", "t.json", "--backend", "cuda", "--format", name] for name in FORMATS),
        *(["check", "t.json", "--backend", "cpu"], ["explain", "torch.cumsum"], ["diff", "t.json", "t.json"]),
        *(["tables", "list"], ["tables", "lint"], ["tables", "show", "cuda-put"]),
    ]
    done = process("-c", NO_TORCH, json.dumps(lines), cwd=saved.parent)
    assert done.err == ""
    assert done.out.splitlines()[-1] == str([0] * len(lines))


def test_a_reader_that_goes_away_ends_the_report_quietly(saved: Path) -> None:
    code = (
        "import os, sys\nreader, writer = os.pipe()\nos.close(reader)\nos.dup2(writer, 1)\n"
        f"from tracer.cli.main import main\nmain(['report', {str(saved)!r}, '--format', 'html'])"
    )
    done = process("-c", code, cwd=saved.parent)
    assert (done.code, done.err) == (141, "")


def test_the_command_line_chooses_a_table(saved: Path, tracer: Command) -> None:
    done = tracer("report", saved, "--backend", "cuda", "--table", "calls")
    assert (done.code, {row["op"] for row in rows(done.out)}) == (0, {one.op for one in Trace.load(saved).calls})
    folder = saved.parent / "out"
    assert tracer("report", saved, "--table", "calls", "--format", "csv,html", "-o", f"{folder}/").code == 0
    assert (folder / "report.csv").read_text().startswith("backend,torch,op,")


def test_help_names_every_format(tracer: Command) -> None:
    listed = tracer("report", "--help").out.partition("--format")[2].split(";")[0]
    assert listed.replace(",", " ").split()[-len(FORMATS) :] == list(FORMATS)


AGES = {"train.py": 100, "edited.py": 300, "secrets.env": 100}


def test_lines_are_of_python_files_that_did_not_change_after_the_recording(tmp_path: Path) -> None:
    for name, changed in AGES.items():
        (tmp_path / name).write_text("first\nsecond\n", encoding="utf-8")
        os.utime(tmp_path / name, (changed, changed))
    calls = [call("aten.add.Tensor", location=f"{name}:2") for name in (*AGES, "gone.py")]
    kept = trace(*calls, source_lines={"edited.py:2": "as recorded"})
    assert source_at_hand(kept, str(tmp_path), 200) == {"train.py:2": "second", "edited.py:2": "as recorded"}


def test_a_page_shows_the_line_that_a_change_is_about_and_json_holds_none(tmp_path: Path, tracer: Command) -> None:
    (tmp_path / "train.py").write_text("x = 1\nout.index_add_(0, index, rows)  # <sum>\n", encoding="utf-8")
    os.utime(tmp_path / "train.py", (1, 1))
    trace(call("aten.index_add_.default", location="train.py:2")).save(tmp_path / "t.json")
    done = tracer("report", "t.json", "--backend", "cuda", "--format", "html,json", "-o", "r")
    assert done.code == 0
    plan = (tmp_path / "r.html").read_text(encoding="utf-8").partition('id="plan"')[2].partition("</section>")[0]
    assert "out.index_add_(0, index, rows)  # &lt;sum&gt;".replace("  ", " ") in plan
    assert "out.index_add_" not in (tmp_path / "r.json").read_text(encoding="utf-8")
