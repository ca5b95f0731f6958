"""``tracer report`` on the traces of several ranks: what differs between them, and that equal ones are equal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.report.samples import HOSTILE
from tests.support.build import call, environment, trace
from tests.support.command import SCRIPTS, Command, ranks
from tracer.trace import Trace
from tracer.trace.records import TraceSource


def save(rank: int, *calls: object, folder: Path, **fields: object) -> Path:
    source = TraceSource(name="train.py", rank=rank, world_size=2, calls=1)
    path = folder / f"t.rank{rank}.json"
    trace(*calls, sources=(source,), **fields).save(path)  # type: ignore[arg-type]
    return path


def test_equal_ranks_are_said_to_be_equal(tmp_path: Path, tracer: Command) -> None:
    paths = [save(rank, call(count=3), folder=tmp_path) for rank in (0, 1)]
    assert "All 2 ranks agree in settings, calls and the random draws of torch." in tracer("report", *paths).out
    said = json.loads(tracer("report", *paths, "--format", "json").out)["ranks"]
    assert said == {"ranks": [0, 1], "alike": [[0, 1]]}


def test_what_differs_is_named_in_text_and_json(tmp_path: Path, tracer: Command) -> None:
    paths = [
        save(rank, call(count=3 + rank), folder=tmp_path, environment=environment(num_threads=4 + rank))
        for rank in (0, 1)
    ]
    text = " ".join(tracer("report", *paths).out.split())
    assert "No two ranks agree: ranks 0 and 1 differ." in text
    assert "num_threads: 4 on rank 0; 5 on rank 1" in text
    assert "aten.index_add_ forward at train.py:10 (net.fc): 3 calls on rank 0; 4 calls on rank 1" in text
    said = json.loads(tracer("report", *paths, "--format", "json").out)["ranks"]
    assert said["settings"] == [{"name": "num_threads", "values": ["4", "5"]}]
    assert said["calls"][0]["counts"] == [3, 4]


def test_one_trace_says_nothing_of_ranks(tmp_path: Path, tracer: Command) -> None:
    path = save(0, folder=tmp_path)
    assert "\nRanks\n" not in tracer("report", path).out
    assert "ranks" not in json.loads(tracer("report", path, "--format", "json").out)


@pytest.mark.parametrize("text", [one for one in HOSTILE if one.encode("utf-8", "replace").decode() == one])
def test_a_hostile_name_stays_text(tmp_path: Path, tracer: Command, text: str) -> None:
    paths = [save(rank, call(module=text, location=text, count=1 + rank), folder=tmp_path) for rank in (0, 1)]
    out = tracer("report", *paths).out
    assert "\x1b" not in out
    assert not any(ord(letter) in range(0x202A, 0x202F) for letter in out)
    assert json.loads(tracer("report", *paths, "--format", "json").out)["ranks"]["calls"][0]["counts"] == [1, 2]


@pytest.mark.parametrize("apart", ["", pytest.param("apart", marks=pytest.mark.slow)])
def test_two_ranks_of_a_job_are_compared(tmp_path: Path, tracer: Command, apart: str) -> None:
    line = ("run", "-o", "t.json", "--steps", "1:2", SCRIPTS / "two_ranks.py", *([apart] if apart else []))
    for done in ranks(*line, cwd=tmp_path):
        assert done.code == 0, done.err
    files = [tmp_path / f"t.rank{rank}.json" for rank in (0, 1)]
    assert [Trace.load(path).sources[0].rank for path in files] == [0, 1]
    text = tracer("report", *files)
    found = json.loads(tracer("report", *files, "--format", "json").out)["ranks"]
    if not apart:
        assert "All 2 ranks agree in settings, calls and the random draws of torch." in text.out
        assert found == {"ranks": [0, 1], "alike": [[0, 1]]}
        return
    said = " ".join(text.out.split())
    assert "No two ranks agree: ranks 0 and 1 differ." in said
    assert "cudnn_benchmark: False on rank 0; True on rank 1" in said
    assert found["alike"] == [[0], [1]]
    assert ("aten.bernoulli_.float", [0, 1]) in [(one["op"], one["counts"]) for one in found["calls"]]
