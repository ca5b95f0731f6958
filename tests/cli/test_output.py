"""What reaches a terminal acts on nothing, and what cannot be written is one line, whoever names the file."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support.build import call, trace
from tests.support.command import PLAIN, Command
from tests.trace.filled import filled
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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("word", [0, 1])
@pytest.mark.parametrize("line", LINES, ids=lambda line: visible(" ".join(line)))
def test_no_field_of_a_trace_acts_on_a_terminal(
    line: tuple[str, ...], word: int, folder: Path, tracer: Command
) -> None:
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


#: Modules that may write to the standard streams: ``show`` and ``say``, and a script's own last words.
WAYS_OUT = {"tracer/plain.py", "tracer/cli/output.py", "tracer/runner/running.py"}
ROOT = Path(__file__).parents[2]
MODULES = [name for name in sorted(ROOT.glob("tracer/**/*.py")) if "_templates" not in name.parts]


def printed_by(module: Path) -> set[str]:
    calls = [node for node in ast.walk(ast.parse(module.read_text("utf-8"))) if isinstance(node, ast.Call)]
    return {ast.unparse(node.func) for node in calls} & {
        "print",
        "click.echo",
        "click.secho",
        "sys.stdout.write",
        "sys.stderr.write",
    }


def test_nothing_is_printed_past_the_two_ways_out() -> None:
    printing = {str(module.relative_to(ROOT)) for module in MODULES if printed_by(module)}
    assert printing == WAYS_OUT


def full(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """``tracer ARGS`` whose standard output has no room."""
    with open("/dev/full", "w") as out:
        return subprocess.run(
            [sys.executable, "-m", "tracer", *args], stdout=out, stderr=subprocess.PIPE, text=True, cwd=cwd, env=PLAIN
        )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
@pytest.mark.parametrize("line", [("report", "t.json"), ("check", "t.json"), ("--help",), ("explain", "cumsum")])
def test_standard_output_without_room_is_one_line(line: tuple[str, ...], folder: Path) -> None:
    trace(call()).save("t.json")
    done = full(*line, cwd=folder)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr
    assert "internal error" not in done.stderr


def test_a_closed_standard_output_is_one_line(folder: Path) -> None:
    trace(call()).save("t.json")
    line = [sys.executable, "-m", "tracer", "report", "t.json"]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *line], stderr=subprocess.PIPE, text=True, cwd=folder, env=PLAIN
    )
    assert done.returncode == 2
    assert done.stderr == "tracer: error: cannot write standard output: it is closed; write to a file with -o\n"


def test_a_closed_standard_error_changes_no_exit_code(folder: Path) -> None:
    line = [sys.executable, "-m", "tracer", "report", "nothing.json"]
    done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *line], stdout=subprocess.PIPE, cwd=folder, env=PLAIN)
    assert (done.returncode, done.stdout) == (2, b"")


LONG = "x" * 480


@pytest.mark.parametrize(
    "line",
    [
        ("report", "t.json", "-o", f"{LONG}.html"),
        ("report", "t.json", "--format", "csv,html", "-o", LONG),
        ("report", f"{LONG}.json"),
        ("check", "t.json", "--baseline", f"{LONG}.lock"),
        ("check", "t.json", "--baseline", f"{LONG}.lock", "--update-baseline"),
        ("diff", "t.json", f"{LONG}.json"),
        ("repro", "t.json", "1", "-o", f"{LONG}.py"),
        ("run", "-o", f"{LONG}.json", "s.py"),
        ("run", f"{LONG}.py"),
        ("repeat", "-o", LONG, "s.py"),
        ("repeat", f"{LONG}.py"),
        ("demo", "--output-dir", LONG),
    ],
    ids=lambda line: " ".join(line).replace(LONG, "long"),
)
def test_a_name_that_is_too_long_is_one_line_before_any_work(
    line: tuple[str, ...], folder: Path, tracer: Command
) -> None:
    trace(call()).save("t.json")
    (folder / "s.py").write_text("open('ran', 'w').close()\n")
    done = tracer(*line)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert LONG in done.err
    assert "internal error" not in done.err
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("origin", ["nowhere", "", 7, True])
def test_an_unknown_origin_of_a_generator_is_one_line(origin: object, folder: Path, tracer: Command) -> None:
    made = filled("plain")
    made["calls"][0]["facts"] = {"rng.generator": "cpu", "rng.origin": origin}
    (folder / "t.json").write_bytes(msgspec.json.encode(made))
    done = tracer("report", "t.json")
    assert done.code == 2
    assert f"$.calls[0].facts['rng.origin'] is {origin!r}" in done.err


@pytest.mark.parametrize("origin", SeedOrigin)
def test_every_origin_of_a_generator_is_read(origin: SeedOrigin, folder: Path, tracer: Command) -> None:
    made = filled("plain")
    made["calls"][0]["facts"] = {"rng.generator": "cpu", "rng.origin": origin.value}
    (folder / "t.json").write_bytes(msgspec.json.encode(made))
    assert tracer("report", "t.json", "--quiet").code in (0, 3)
