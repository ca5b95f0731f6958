"""Every kind of broken input: exit code 2, one line that says what, where and what to do, no file left behind."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import call, trace
from tests.support.command import Command, tracer_process
from tracer.cli.main import main

Line = list[str | Path]


def good(folder: Path) -> Path:
    """A trace that is fine."""
    trace(call(count=2)).save(folder / "good.json")
    return folder / "good.json"


def written(folder: Path, content: bytes, name: str = "t.json") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def edited(folder: Path, *keys: str | int, to: Any) -> Path:
    """A good trace with the value at ``keys`` replaced."""
    document = json.loads(good(folder).read_bytes())
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    return written(folder, json.dumps(document).encode())


def zeros(folder: Path) -> Path:
    """Two gigabytes of zero bytes, which take no room on the disk."""
    path = written(folder, b"")
    os.truncate(path, 2 << 30)
    return path


def folder_at(path: Path) -> Path:
    path.mkdir()
    return path


def below_a_file(folder: Path) -> Path:
    """A path whose folder cannot be made, as one of its parents is a file; it stops root too."""
    return written(folder, b"", "plain_file") / "sub" / "out.json"


def package(folder: Path) -> str:
    """A package without ``__main__`` in the working directory."""
    written(folder_at(folder / "a_package_without_main"), b"", "__init__.py")
    return "a_package_without_main"


#: Trace files that are broken, with words that the line must hold.
TRACES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing file": (lambda at: at / "nope.json", "there is no file"),
    "empty file": (lambda at: written(at, b""), "is empty"),
    "folder": (lambda at: folder_at(at / "d.json"), "is a folder"),
    "not JSON": (lambda at: written(at, b"loss = 0.3\n"), "is not a trace"),
    "truncated JSON": (lambda at: written(at, good(at).read_bytes()[:-40]), "is not a trace"),
    "JSON array": (lambda at: written(at, b"[1, 2]"), "is not a trace"),
    "JSON of something else": (lambda at: written(at, b'{"epoch": 3}'), "schema"),
    "truncated gzip": (
        lambda at: written(at, gzip.compress(good(at).read_bytes())[:-30], "t.json.gz"),
        "cannot read",
    ),
    "gzip of nonsense": (lambda at: written(at, gzip.compress(b"\x93nonsense"), "t.json.gz"), "is not a trace"),
    "gzip in name only": (lambda at: written(at, good(at).read_bytes(), "t.json.gz"), "cannot read"),
    "newer schema": (lambda at: edited(at, "schema", to=99), "update determinism-tracer"),
    "schema 0": (lambda at: edited(at, "schema", to=0), "of schema 0; this release reads schema 1"),
    "wrong type": (lambda at: edited(at, "calls", 0, "op", to=7), "$.calls[0].op"),
    "unknown phase": (lambda at: edited(at, "calls", 0, "phase", to="sideways"), "$.calls[0].phase"),
    "negative count": (lambda at: edited(at, "calls", 0, "count", to=-2), "$.calls[0].count is -2"),
    "missing environment": (lambda at: edited(at, "environment", to=None), "$.environment"),
    "two gigabytes of zeros": (zeros, "begins with zero bytes"),
    "binary garbage": (lambda at: written(at, bytes(range(128, 256)) * 40), "is not a trace"),
    "invalid UTF-8": (lambda at: edited_utf8(at), "is not a trace"),
    "deep nesting": (lambda at: written(at, b"[" * 200_000), "is not a trace"),
    "a report in place of a trace": (lambda at: written(at, b"backend,torch,rule\n", "r.csv"), "is not a trace"),
}


def edited_utf8(folder: Path) -> Path:
    """A good trace with a byte inside a string that no UTF-8 text has."""
    return written(folder, good(folder).read_bytes().replace(b"train.py", b"tr\xffin.py"))


#: Command lines that are broken, with words that the line must hold.
LINES: dict[str, tuple[Callable[[Path], Line], str]] = {
    "no arguments": (lambda at: [], "tracer --help"),
    "unknown command": (lambda at: ["analyse"], "analyse"),
    "unknown option": (lambda at: ["report", "--colour", good(at)], "tracer report --help"),
    "no trace": (lambda at: ["report"], "TRACE"),
    "a good trace and a broken one": (lambda at: ["report", good(at), written(at, b"{}")], "t.json"),
    "unknown backend": (lambda at: ["report", good(at), "--backend", "tpu"], "tpu"),
    "unparsable torch version": (lambda at: ["report", good(at), "--torch", "two"], "two"),
    "unknown settings": (lambda at: ["report", good(at), "--settings", "strict"], "strict"),
    "unknown format": (lambda at: ["report", good(at), "--format", "html,pdf"], "pdf"),
    "no format": (lambda at: ["report", good(at), "--format", ""], "format"),
    "unknown suffix": (lambda at: ["report", good(at), "-o", at / "report.doc"], "report.doc"),
    "two formats and nowhere to go": (lambda at: ["report", good(at), "--format", "html,csv"], "-o"),
    "unwritable report": (lambda at: ["report", good(at), "--format", "csv", "-o", below_a_file(at)], "sub"),
    "report over a folder": (lambda at: ["report", good(at), "-o", folder_at(at / "r.csv")], "is a folder"),
    "report over its trace": (lambda at: ["report", good(at), "-o", at / "good.json"], "the trace itself"),
    "unwritable demo": (lambda at: ["demo", "--output-dir", below_a_file(at)], "sub"),
    "no script": (lambda at: ["run"], "SCRIPT"),
    "missing script": (lambda at: ["run", "nope.py"], "nope.py"),
    "folder without main": (lambda at: ["run", folder_at(at / "d")], "no __main__.py"),
    "script that is not Python": (lambda at: ["run", written(at, b"a b c\n", "s.py")], "line 1"),
    "script of bytes": (lambda at: ["run", written(at, b"\x00\x01\xff" * 30, "s.py")], "is not Python"),
    "bytecode of nothing": (lambda at: ["run", written(at, b"junk", "s.pyc")], "is not Python"),
    "missing module": (lambda at: ["run", "-m", "no_such_package.train"], "no_such_package.train"),
    "relative module": (lambda at: ["run", "-m", ".train"], ".train"),
    "package without main": (lambda at: ["run", "-m", package(at)], "no __main__"),
    "file in place of a module": (lambda at: ["run", "-m", written(at, b"", "s.py")], "leave out -m"),
    "steps of words": (lambda at: ["run", "--steps", "a:b", good(at)], "'a:b'"),
    "steps backwards": (lambda at: ["run", "--steps", "3:1", good(at)], "B must be larger"),
    "negative steps": (lambda at: ["run", "--steps", "-1:", good(at)], "'-1:'"),
    "steps of three parts": (lambda at: ["run", "--steps", "1:5:2", good(at)], "'1:5:2'"),
    "no last step to exit after": (lambda at: ["run", "--exit-after-steps", good(at)], "--steps A:B"),
    "unwritable trace": (lambda at: ["run", "-o", below_a_file(at), good(at)], "sub"),
    "trace over a folder": (lambda at: ["run", "-o", folder_at(at / "d"), good(at)], "is a folder"),
}


def files(folder: Path) -> list[Path]:
    return sorted(one for one in folder.rglob("*") if "__pycache__" not in one.parts)


def refuses(folder: Path, tracer: Command, line: Line, says: str) -> None:
    """``tracer LINE`` exits with 2 and one line, and leaves the folder as it was, but for what Python compiles."""
    before = files(folder)
    done = tracer(*line)
    assert done.code == 2
    assert done.out == ""
    assert done.err.endswith("\n")
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("tracer: error: ")
    assert "internal error" not in done.err
    assert says in done.err
    assert files(folder) == before


@pytest.mark.parametrize("name", TRACES)
def test_a_broken_trace_gets_one_line(
    name: str, tmp_path: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, says = TRACES[name]
    path = make(tmp_path)
    refuses(tmp_path, tracer, ["report", path, "-o", tmp_path / "report.csv"], says)


@pytest.mark.parametrize("name", LINES)
def test_a_broken_command_line_gets_one_line(
    name: str, tmp_path: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, says = LINES[name]
    refuses(tmp_path, tracer, make(tmp_path), says)


def test_a_process_refuses_in_the_same_way(tmp_path: Path) -> None:
    done = tracer_process("report", "nope.json", cwd=tmp_path)
    assert done.code == 2
    assert done.err == ("tracer: error: there is no file nope.json; record one with `tracer run -o FILE script.py`\n")


def test_an_error_of_ours_is_one_line_too_and_a_traceback_for_who_asks(
    tmp_path: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug\nof ours")

    monkeypatch.setattr("tracer.trace.file.load_families", broken)
    done = tracer("report", good(tmp_path))
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "internal error" in done.err
    assert "ZeroDivisionError: a bug of ours" in done.err
    monkeypatch.setenv("TRACER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["report", str(good(tmp_path))])
