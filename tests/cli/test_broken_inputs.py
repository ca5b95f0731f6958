"""Every kind of broken input: exit code 2, one line that says what, where and what to do, no file left behind."""

from __future__ import annotations

import gzip
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.cases import machine
from tests.support.build import call, trace
from tests.support.command import Command, tracer_process
from tracer.cli.main import main

LONG = "x" * 480

#: What lies in the folder that a command is called in, beside a good trace and a folder ``d``.
FILES = {
    "bad.json": b"{}",
    "here.doctor.json": machine(num_threads=2),
    "there.doctor.json": machine(num_threads=8),
    "plain_file": b"",  # below which nothing can be made: that stops root too
    "s.py": b"open('ran', 'w').close()\n",
    "words.py": b"a b c\n",
    "bytes.py": b"\x00\x01\xff" * 30,
    "junk.pyc": b"junk",
    "package/__init__.py": b"",
}


@pytest.fixture
def place(folder: Path) -> Path:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "d").mkdir()
    (folder / "folder.csv").mkdir()
    trace(call(count=2)).save(folder / "good.json")
    return folder


def of_origin(good: bytes, origin: Any) -> bytes:
    """A good trace whose call drew from a generator of this origin."""
    document = json.loads(good)
    document["calls"][0]["facts"] = {"rng.origin": origin}
    return json.dumps(document).encode()


#: Traces that are broken: what the file holds, made of a good one, and words that the line must hold.
TRACES: dict[str, tuple[bytes | Callable[[bytes], bytes], str]] = {
    "empty file": (b"", "is empty"),
    "not JSON": (b"loss = 0.3\n", "is not a trace"),
    "truncated JSON": (lambda good: good[:-40], "is not a trace"),
    "JSON array": (b"[1, 2]", "is not a trace"),
    "JSON of something else": (b'{"epoch": 3}', "schema"),
    "truncated.gz": (lambda good: gzip.compress(good)[:-30], "cannot read"),
    "nonsense.gz": (gzip.compress(b"\x93nonsense"), "is not a trace"),
    "gzip in name only.gz": (lambda good: good, "cannot read"),
    "unknown origin": (lambda good: of_origin(good, "nowhere"), "$.calls[0].facts['rng.origin'] is 'nowhere'"),
    "origin of another type": (lambda good: of_origin(good, 7), "$.calls[0].facts['rng.origin'] is 7"),
    "newer schema": (lambda good: good.replace(b'"schema": 1', b'"schema": 99'), "update determinism-tracer"),
    "binary garbage": (bytes(range(128, 256)) * 40, "is not a trace"),
    "invalid UTF-8": (lambda good: good.replace(b"train.py", b"tr\xffin.py"), "is not a trace"),
    "deep nesting": (b"[" * 200_000, "is not a trace"),
    "a report in place of a trace": (b"backend,torch,rule\n", "is not a trace"),
}

#: Command lines that are wrong, and words that the line must hold.
LINES = {
    "": "tracer --help",
    "analyse": "analyse",
    # report
    "report": "TRACE",
    "report nope.json -o report.csv": "there is no file",
    "report d -o report.csv": "is a folder",
    "report --colour good.json": "tracer report --help",
    "report good.json bad.json": "bad.json",
    "report here.doctor.json": "name two of them to `tracer diff`",
    "report good.json --backend tpu": "tpu",
    "report good.json --torch two": "two",
    "report good.json --settings strict": "strict",
    "report good.json --format html,pdf": "pdf",
    "report good.json --format ''": "format",
    "report good.json --format parquet": "there is no format 'parquet'",
    "report good.json --format html,csv": "-o",
    "report good.json --format csv -o plain_file/sub/out.json": "sub",
    "report good.json --table ops": "there is no table 'ops'",
    "report good.json --table calls --format html": "--table chooses what CSV holds",
    "report good.json -o report.doc": "report.doc",
    "report good.json -o folder.csv": "is a folder",
    "report good.json -o good.json": "the trace itself",
    "report good.json -q -v": "--quiet and --verbose exclude each other; leave one out\n",
    f"report good.json -o {LONG}.html": LONG,
    f"report good.json --format csv,html -o {LONG}": LONG,
    f"report {LONG}.json": LONG,
    "demo --output-dir plain_file/sub/out": "sub",
    f"demo --output-dir {LONG}": LONG,
    # check
    "check here.doctor.json": "name two of them to `tracer diff`",
    "check good.json --fail-on often": "there is no verdict 'often'",
    "check good.json --baseline missing.lock": "there is no baseline missing.lock",
    "check good.json --update-baseline": "--update-baseline needs a file",
    "check good.json --backend tpu": "'tpu' does not exist",
    "check good.json -o out.docx": "cannot tell a report format",
    "check good.json -q -v": "--quiet and --verbose exclude each other; leave one out\n",
    "check good.json --require-training --allow-no-training": "--require-training",
    f"check good.json --baseline {LONG}.lock": LONG,
    f"check good.json --baseline {LONG}.lock --update-baseline": LONG,
    # diff
    "diff good.json": "one trace and one target do not differ",
    "diff good.json --backend cuda": "one trace and one target do not differ",
    "diff good.json --backend cuda,npu,cpu": "neither one nor two",
    "diff good.json --torch ,": "--torch",
    "diff good.json --fail-on x": "there is no verdict 'x'",
    "diff good.json good.json --align-step=1": "--align-step",
    "diff good.json good.json --align-step=a=b": "--align-step",
    "diff good.json good.json --align-step=1=2=3": "--align-step",
    "diff good.json good.json --align-step=-1=2": "--align-step",
    f"diff good.json good.json --align-step=1={'9' * 30}": "--align-step",
    "diff here.doctor.json good.json": "here.doctor.json is a file of `tracer doctor --save`, and good.json is none",
    "diff good.json here.doctor.json": "here.doctor.json is a file of `tracer doctor --save`, and good.json is none",
    "diff here.doctor.json absent.doctor.json": "there is no file absent.doctor.json",
    "diff here.doctor.json": "one trace and one target do not differ",
    "diff here.doctor.json there.doctor.json --align-step 1=0": "--align-step asks of traces",
    "diff here.doctor.json there.doctor.json --torch 2.4": "--torch asks of traces",
    "diff here.doctor.json there.doctor.json --settings default": "--settings asks of traces",
    "diff here.doctor.json there.doctor.json --yardstick y": "--yardstick asks of traces",
    "diff here.doctor.json there.doctor.json --backend cpu,cuda": "--backend names one backend",
    "diff here.doctor.json there.doctor.json --backend gpu": "--backend names one backend",
    "diff here.doctor.json there.doctor.json --fail-on bad": "there is no verdict 'bad'",
    f"diff good.json {LONG}.json": LONG,
    # explain, tables, doctor, repro
    "explain": "Missing argument",
    "explain CUBLAS_WORKSPACE_CONFG": "did you mean CUBLAS_WORKSPACE_CONFIG",
    "explain CUBLAS_WORKSPACE_CONFIG --backend npu": "CUBLAS_WORKSPACE_CONFIG",
    "explain environment-cudnn-benchmark --torch latest": "torch version 'latest' is not a version",
    "explain torch.indexadd_typo": "no table knows 'torch.indexadd_typo'",
    "explain aten.index_ad_": "did you mean aten.index_add_",
    "explain torch.cumsum --backend tpu": "there is no table for 'tpu'; tables exist for cpu, ",
    "explain torch.cumsum --torch latest": "torch version 'latest' is not a version",
    "explain cuda-cumsum --backend cpu": "is a rule of another table",
    "tables": "Missing command",
    "tables prove": "No such command",
    "tables show cuda-cumsun": "did you mean cuda-cumsum",
    "tables show aten.cumsum --backend cpu": "no table knows",
    "tables list --backend gpu": "there is no table for 'gpu'",
    "doctor train.py": "unexpected extra argument",
    "doctor --backend gpu": "'gpu' is not one of",
    "doctor --backend recorded": "'recorded' is not one of",
    "doctor --format html": "'html' is not one of",
    "doctor --fail-on bad": "there is no verdict 'bad'",
    "doctor --fail-on new": "needs a baseline",
    "doctor --save d": "is a folder",
    "repro good.json cuda-sort --backend cuda": "no finding is named 'cuda-sort'",
    f"repro good.json 1 -o {LONG}.py": LONG,
    # run
    "run": "SCRIPT",
    "run nope.py": "nope.py",
    "run d": "no __main__.py",
    "run words.py": "line 1",
    "run bytes.py": "is not Python",
    "run junk.pyc": "is not Python",
    "run -m no_such_package.train": "no_such_package.train",
    "run -m .train": ".train",
    "run -m package": "no __main__",
    "run -m s.py": "leave out -m",
    "run --steps a:b s.py": "'a:b'",
    "run --steps 3:1 s.py": "B must be larger",
    "run --steps -1: s.py": "'-1:'",
    "run --steps 1:5:2 s.py": "'1:5:2'",
    "run --exit-after-steps s.py": "--steps A:B",
    "run --rows=many s.py": "--rows",
    "run --library numpy s.py": "--library",
    "run --shake 1 s.py": "add --magnitudes",
    "run --rows-of one.json s.py": "add --magnitudes",
    "run --magnitudes --rows-of missing.json s.py": "missing.values",
    "run --fake --values s.py": "--fake has no values",
    "run --fake --trials 2 s.py": "--fake has no values",
    "run --as cuda:8.0 s.py": "add --fake",
    "run --fake --as abacus s.py": "is no machine",
    "run --world-size 4 s.py": "add --fake",
    "run --fake --rank 1 s.py": "add --world-size",
    "run --fake --world-size 4 --rank 4 s.py": "there is no rank 4 in a world size of 4",
    "run --fake --world-size 0 s.py": "no job has 0 ranks",
    "run --fake --world-size 4 --rank one s.py": "not a valid integer",
    "run -o plain_file/sub/out.json s.py": "sub",
    "run -o d s.py": "is a folder",
    f"run -o {LONG}.json s.py": LONG,
    f"run {LONG}.py": LONG,
    # repeat, compare, resume
    "repeat nowhere.py": "there is no script nowhere.py",
    "repeat --vary sound s.py": "unknown circumstance 'sound' for --vary",
    "repeat --hold sound s.py": "unknown circumstance 'sound' for --hold",
    "repeat --hold folder --no-hold s.py": "--hold and --no-hold exclude each other",
    "repeat --format pdf s.py": "unknown format 'pdf'",
    "repeat --exit-after-steps s.py": "--exit-after-steps needs to know the last step",
    "repeat --runs 1 s.py": "--runs",
    f"repeat -o {LONG} s.py": LONG,
    f"repeat {LONG}.py": LONG,
    "compare s.py": "both configurations are the same",
    'compare --b "\'unclosed" s.py': "close the quotation",
    "compare --env-b NAME s.py": "is no variable",
    "compare --python-b /nowhere/python s.py": "is no program",
    "compare --b x --format docx s.py": "unknown format 'docx'",
    "compare --b x --exit-after-steps s.py": "add --steps",
    "resume --resume '' nowhere.py": "nothing says where the run ends",
    "resume --stop-after 1 --stop -s --resume '' nowhere.py": "exclude each other",
    "resume --stop-after 1 nowhere.py": "nothing says how the run is resumed",
    'resume --stop-after 1 --resume "\'" nowhere.py': "close the quotation",
    "resume --stop-after 1 --resume '' nowhere.py": "there is no script",
}


def files(folder: Path) -> list[Path]:
    return sorted(one for one in folder.rglob("*") if "__pycache__" not in one.parts)


def refuses(place: Path, tracer: Command, line: list[str], says: str) -> None:
    """``tracer LINE`` exits with 2 and one line, and leaves the folder as it was, but for what Python compiles."""
    before = files(place)
    done = tracer(*line)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("\n")
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("tracer: error: ")
    assert "internal error" not in done.err
    assert says in done.err
    assert files(place) == before


@pytest.mark.parametrize("name", TRACES)
def test_a_broken_trace_gets_one_line(name: str, place: Path, tracer: Command) -> None:
    content, says = TRACES[name]
    if not isinstance(content, bytes):
        content = content((place / "good.json").read_bytes())
    path = place / ("t.json.gz" if name.endswith(".gz") else "t.json")
    path.write_bytes(content)
    refuses(place, tracer, ["report", str(path), "-o", "report.csv"], says)


def test_two_gigabytes_of_zeros_are_one_line(place: Path, tracer: Command) -> None:
    os.truncate("plain_file", 2 << 30)  # they take no room on the disk
    refuses(place, tracer, ["report", "plain_file"], "begins with zero bytes")


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.replace(LONG, "LONG"))
def test_a_wrong_command_line_gets_one_line(line: str, place: Path, tracer: Command) -> None:
    refuses(place, tracer, shlex.split(line), LINES[line])


def test_a_process_refuses_in_the_same_way(tmp_path: Path) -> None:
    done = tracer_process("report", "nope.json", cwd=tmp_path)
    assert done.code == 2
    assert done.err == ("tracer: error: there is no file nope.json; record one with `tracer run -o FILE script.py`\n")


def test_an_error_of_ours_is_a_traceback_if_asked(
    place: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug\nof ours")

    monkeypatch.setattr("tracer.trace.file.load_families", broken)
    done = tracer("report", "good.json")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "internal error" in done.err
    assert "ZeroDivisionError: a bug of ours" in done.err
    monkeypatch.setenv("TRACER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["report", "good.json"])
