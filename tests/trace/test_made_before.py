"""Traces, lock files and reports that an earlier release wrote are read as they were.

``tests/data/before`` was made with the commit before the rooms were built: ``tracer run step.py``, judged for ``cuda``.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.command import Command
from tracer import Trace, judge
from tracer.report.files.json_format import Document

BEFORE = Path(__file__).parents[1] / "data" / "before"
TRACE, LOCK, REPORT = BEFORE / "step.trace.json", BEFORE / "determinism.lock", BEFORE / "report.json"


def test_a_trace_is_read_whole() -> None:
    trace = Trace.load(TRACE)
    assert (trace.schema, trace.call_count, len(trace.calls)) == (2, 152, 60)
    assert trace.sources[0].optimizer_steps == 2
    assert {event.name for event in trace.events} >= {"torch.backends.cudnn.benchmark", "CUBLAS_WORKSPACE_CONFIG"}


def test_its_verdicts_are_those_that_it_had() -> None:
    then = msgspec.json.decode(REPORT.read_bytes(), type=Document).judgement
    now = judge(Trace.load(TRACE), backend="cuda")
    risky = ("cuda-index-add", "cuda-nll-loss2d", "cuda-rng")
    told = [
        {(one.rule, one.op, one.location, one.verdict) for one in told if one.rule in risky}
        for told in (then.findings, now.findings)
    ]
    assert told[0] == told[1]
    assert len(told[0]) == 6


@pytest.mark.parametrize(
    "drop", ["", "cuda-index-add", "environment-numpy-generator", "environment-deterministic-mode"]
)
def test_a_lock_file_accepts_what_it_accepted_and_nothing_else(
    drop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = LOCK.read_text(encoding="utf-8").splitlines(keepends=True)
    lock = tmp_path / "determinism.lock"
    lock.write_text("".join(line for line in lines if not (drop and line.startswith(drop))), encoding="utf-8")
    done = Command(capsys, monkeypatch)("check", TRACE, "--backend", "cuda", "--baseline", lock)
    assert done.code == (1 if drop else 0), done.err
    if drop:
        assert drop in done.out
