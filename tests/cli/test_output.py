"""What reaches a terminal: plain text, one line for an error, ``--quiet`` and ``--verbose``, the spinner."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.support.build import call, trace
from tests.support.command import PLAIN, Command
from tests.trace.filled import filled
from tracer.cli import output as module
from tracer.names import SeedOrigin
from tracer.plain import visible
from tracer.report import FORMATS
from tracer.report.finding_columns import TABLES

HOSTILE = "\x1b[31m\x9b2J\u202e\x07\x08\r\x7f\u2028<b>'\"\\"

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

#: Command lines that print what ``t.json`` holds, or what they were called with.
LINES = [
    *(("report", "t.json", "--format", name) for name in FORMATS),
    *(("report", "t.json", "--format", "csv", "--table", name) for name in TABLES),
    ("report", "t.json", "--verbose"),
    ("report", "t.json", "--quiet"),
    ("check", "t.json", "--verbose"),
    ("check", "t.json", "--baseline", "t.lock", "--update-baseline"),
    ("diff", "t.json", "t.json"),
    ("diff", "t.json", "--backend", "cpu,cuda", "--format", "json"),
    ("repro", "t.json", "1"),
    ("repro", "t.json", HOSTILE),
    ("tables", "show", HOSTILE),
    ("explain", HOSTILE),
    ("doctor", "--backend", HOSTILE),
    ("report", HOSTILE),
    ("run", HOSTILE),
    ("repeat", HOSTILE),
    (HOSTILE,),
]


@pytest.mark.parametrize("word", [0, 1])
@pytest.mark.parametrize("line", LINES, ids=lambda line: visible(" ".join(line)))
def test_no_text_of_a_trace_acts_on_a_terminal(line: tuple[str, ...], word: int, folder: Path, tracer: Command) -> None:
    made = filled(HOSTILE, word)
    (folder / "t.json").write_bytes(msgspec.json.encode(made))
    done = tracer(*line)
    assert not ACTING.search(done.out)
    assert not ACTING.search(done.err)
    assert "internal error" not in done.err


def test_the_reason_why_a_trace_is_partial_acts_on_no_terminal(folder: Path, tracer: Command) -> None:
    made = filled("plain")
    made["sources"][0]["partial"] = HOSTILE
    (folder / "t.json").write_bytes(msgspec.json.encode(made))
    done = tracer("report", "t.json", "--quiet")
    assert (done.code, f"({visible(HOSTILE)})" in done.err) == (3, True)


@pytest.mark.parametrize("name", ["json", "sarif"])
def test_json_on_a_terminal_is_the_json_of_the_file(name: str, folder: Path, tracer: Command) -> None:
    (folder / "t.json").write_bytes(msgspec.json.encode(filled(HOSTILE)))
    printed = tracer("report", "t.json", "--format", name).out
    tracer("report", "t.json", "-o", f"out{FORMATS[name].suffix}")
    assert msgspec.json.decode(printed) == msgspec.json.decode((folder / f"out{FORMATS[name].suffix}").read_bytes())


ROOT = Path(__file__).parents[2]
PRINTS = re.compile(r"(?m)^[^'\"\n]*(?<![\w.`])(?:print|click\.s?echo|sys\.std(?:out|err)\.write)\(")


def test_nothing_is_printed_past_the_two_ways_out() -> None:
    modules = (path for path in ROOT.glob("tracer/**/*.py") if "_templates" not in path.parts)
    printing = {str(path.relative_to(ROOT)) for path in modules if PRINTS.search(path.read_text("utf-8"))}
    # ``show`` and ``say``, and a script's own last words.
    assert printing == {"tracer/plain.py", "tracer/cli/output.py", "tracer/runner/running.py"}


def redirected(where: str, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """``tracer ARGS`` with a stream redirected, as a shell spells it."""
    line = ["sh", "-c", f'"$@" {where}', "sh", sys.executable, "-m", "tracer", *args]
    return subprocess.run(line, capture_output=True, text=True, cwd=cwd, env=PLAIN)


FULL = ">/dev/full"


@pytest.mark.parametrize(
    ("where", "line", "says"),
    [
        (FULL, ("report", "t.json"), "No space left on device"),
        (FULL, ("--help",), "No space left on device"),
        (">&-", ("report", "t.json"), "cannot write standard output: it is closed; write to a file with -o\n"),
    ],
)
def test_a_standard_output_that_takes_nothing_is_one_line(
    folder: Path, where: str, line: tuple[str, ...], says: str
) -> None:
    if where == FULL and not os.path.exists("/dev/full"):
        pytest.skip("the system has no /dev/full")
    trace(call()).save("t.json")
    done = redirected(where, *line, cwd=folder)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert says in done.stderr
    assert "internal error" not in done.stderr


def test_a_closed_standard_error_changes_no_exit_code(folder: Path) -> None:
    done = redirected("2>&-", "report", "nothing.json", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("origin", SeedOrigin)
def test_every_origin_of_a_generator_is_read(origin: SeedOrigin, folder: Path, tracer: Command) -> None:
    made = filled("plain")
    made["calls"][0]["facts"] = {"rng.generator": "cpu", "rng.origin": origin.value}
    (folder / "t.json").write_bytes(msgspec.json.encode(made))
    assert tracer("report", "t.json", "--quiet").code in (0, 3)


OP = "aten.index_add_.default"

MANY = 60


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """More findings than a terminal is shown, each at a line of its own, and a call without one."""
    calls = [call(OP, location=f"train.py:{line}", function=f"f{line}") for line in range(1, MANY + 1)]
    trace(*calls, call("aten.add.Tensor", count=40)).save(tmp_path / "t.json")
    return tmp_path / "t.json"


def test_a_quiet_report_is_the_verdict_and_the_counts_and_with_a_file_nothing(saved: Path, tracer: Command) -> None:
    done = tracer("report", saved, "--backend", "cuda", "-q")
    counts = f"{MANY + 1} findings; 100 calls: {MANY} nondeterministic, 40 deterministic"
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == ["≠ Two runs of this step can differ.", counts]
    done = tracer("report", saved, "--backend", "cuda", "--quiet", "-o", "r.csv")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (saved.parent / "r.csv").stat().st_size


def test_a_verbose_report_has_every_finding_and_the_evidence_of_each_rule_once(saved: Path, tracer: Command) -> None:
    usual = tracer("report", saved, "--backend", "cuda").out
    whole = tracer("report", saved, "--backend", "cuda", "-v").out
    assert f"; {MANY - 3} more lines" in " ".join(usual.split())
    assert "--verbose has each finding" in usual
    assert "train.py:60" not in usual
    assert all(f"train.py:{line};" in whole for line in range(1, MANY + 1))
    reasons = " ".join(whole.partition("Why, and the evidence")[2].split())
    assert reasons.count("added by concurrent atomic additions") == 1
    assert reasons.count("source: aten/src/ATen/native/cuda/Indexing.cu") == 1
    assert "Why, and the evidence" not in usual


def test_a_quiet_check_is_its_last_line_and_a_verbose_one_has_all_evidence(saved: Path, tracer: Command) -> None:
    usual, quiet, whole = (tracer("check", saved, "--backend", "cuda", *args) for args in ((), ("-q",), ("-v",)))
    assert {usual.code, quiet.code, whole.code} == {1}
    last = usual.out.splitlines()[-1]
    assert last.startswith(f"tracer check: failed: {MANY + 1} new")
    assert quiet.out == f"{last}\n"
    assert "and 11 more; --verbose prints all" in usual.out
    lines = whole.out.splitlines()
    for start in ("train.py:", "  why: Rows that share an index", "  evidence, source: aten/src/ATen/native/cuda/"):
        assert len([one for one in lines if one.startswith(start)]) == MANY
    assert lines[-1] == last


def test_a_verbose_check_names_what_was_let_through(saved: Path, tracer: Command) -> None:
    done = tracer("check", saved, "--backend", "cuda", "-v", "--ignore", "cuda-index-add", "--ignore", "environment-*")
    assert done.code == 0
    let = [one for one in done.out.splitlines() if one.startswith("not selected: train.py:")]
    assert len(let) == MANY
    assert "why:" not in done.out


@pytest.mark.parametrize("option", ["-q", "-v"])
@pytest.mark.parametrize("columns", [30, 50, 80])
def test_lines_keep_to_the_width_without_colour(
    option: str, columns: int, saved: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = tracer("report", saved, "--backend", "cuda", option)
    assert "\x1b" not in done.out
    prose = [line for line in done.out.splitlines() if "tracer report" not in line]  # code is never broken
    assert max(map(len, prose)) <= columns


def test_what_fails_is_a_line_on_any_terminal(saved: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    piped = tracer("check", saved, "--backend", "cuda").out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert tracer("check", saved, "--backend", "cuda").out == piped
    assert max(map(len, piped.splitlines())) > 80


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "patience", "is_shown"),
    [(Terminal(), 0.01, True), (Terminal(), 60.0, False), (io.StringIO(), 0.01, False)],
    ids=["slow", "quick", "pipe"],
)
def test_only_a_terminal_is_told_and_only_of_what_is_slow(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, patience: float, is_shown: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    with module.progress("judging [all]"):
        time.sleep(0.3)
    assert ("judging [all]" in stream.getvalue()) is is_shown
    assert (stream.getvalue() == "") is not is_shown
