"""``--quiet`` leaves the verdict and the counts, ``--verbose`` leaves nothing out; neither changes an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.build import call, trace
from tests.support.command import Command, tracer_process

OP = "aten.index_add_.default"
MANY = 60


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """More findings than a terminal is shown, each at a line of its own, and a call without one."""
    monkeypatch.chdir(tmp_path)
    calls = [call(OP, location=f"train.py:{line}", function=f"f{line}") for line in range(1, MANY + 1)]
    trace(*calls, call("aten.add.Tensor", count=40)).save(tmp_path / "t.json")
    return tmp_path / "t.json"


def test_a_quiet_report_is_the_verdict_and_the_counts(saved: Path, tracer: Command) -> None:
    done = tracer("report", saved, "--backend", "cuda", "-q")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "≠ Two runs of this step can differ.",
        f"{MANY + 1} findings; 100 calls: {MANY} nondeterministic, 40 deterministic",
    ]


def test_a_quiet_report_writes_files_and_says_nothing(saved: Path, tracer: Command) -> None:
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


def test_a_quiet_check_is_its_last_line(saved: Path, tracer: Command) -> None:
    usual, quiet = (tracer("check", saved, "--backend", "cuda", *args) for args in ((), ("-q",)))
    assert (usual.code, quiet.code) == (1, 1)
    assert quiet.out == usual.out.splitlines()[-1] + "\n"
    assert quiet.out.startswith(f"tracer check: failed: {MANY + 1} new")


def test_a_verbose_check_has_every_finding_why_and_evidence(saved: Path, tracer: Command) -> None:
    usual, whole = (tracer("check", saved, "--backend", "cuda", *args) for args in ((), ("-v",)))
    assert (usual.code, whole.code) == (1, 1)
    assert "and 11 more; --verbose prints all" in usual.out
    lines = whole.out.splitlines()
    assert len([one for one in lines if one.startswith("train.py:")]) == MANY
    assert len([one for one in lines if one.startswith("  why: Rows that share an index")]) == MANY
    assert len([one for one in lines if one.startswith("  evidence, source: aten/src/ATen/native/cuda/")]) == MANY
    assert lines[-1] == usual.out.splitlines()[-1]


def test_a_verbose_check_names_what_was_let_through(saved: Path, tracer: Command) -> None:
    done = tracer("check", saved, "--backend", "cuda", "-v", "--ignore", "cuda-index-add", "--ignore", "environment-*")
    assert done.code == 0
    let = [one for one in done.out.splitlines() if one.startswith("not selected: train.py:")]
    assert len(let) == MANY
    assert "why:" not in done.out


@pytest.mark.parametrize("name", ["report", "check"])
def test_both_at_once_are_refused_in_one_line(name: str, saved: Path, tracer: Command) -> None:
    done = tracer(name, saved, "-q", "-v")
    assert (done.code, done.out) == (2, "")
    assert done.err == "tracer: error: --quiet and --verbose exclude each other; leave one out\n"


@pytest.mark.parametrize("args", [("report", "-q"), ("report", "-v"), ("check", "-v")])
@pytest.mark.parametrize("columns", [30, 50, 80])
def test_lines_keep_to_the_width_and_a_pipe_gets_no_colour(args: tuple[str, ...], columns: int, saved: Path) -> None:
    done = tracer_process(args[0], saved, "--backend", "cuda", *args[1:], cwd=saved.parent, COLUMNS=str(columns))
    assert "\x1b" not in done.out
    if args[0] == "report":  # a gate's lines are for machines too, and stay whole
        prose = [line for line in done.out.splitlines() if "tracer report" not in line]  # code is never broken
        assert max(map(len, prose)) <= columns


def test_what_fails_is_a_line_whatever_the_terminal(
    saved: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    piped = tracer("check", saved, "--backend", "cuda").out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert tracer("check", saved, "--backend", "cuda").out == piped
    assert max(map(len, piped.splitlines())) > 80
