"""Recordings lie outside the working directory until the last run has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import tracer_process
from tracer.runner.repeated.folder import leave, recordings_in, scratch_of


def test_recordings_come_to_their_folder_in_the_end_and_nothing_else_stays(tmp_path: Path) -> None:
    destination = tmp_path / "repeat"
    with scratch_of(destination) as scratch:
        (recordings_in(scratch) / "run-1.json").write_text("{}")
        assert not destination.exists()
    assert [path.name for path in destination.iterdir()] == ["run-1.json"]
    assert not scratch.exists()
    leave(scratch)  # once more


def test_recordings_come_when_the_job_fails_and_replace_those_of_before(tmp_path: Path) -> None:
    def fails() -> None:
        with scratch_of(tmp_path) as scratch:
            (recordings_in(scratch) / "run-1.json").write_text("new")
            raise KeyError

    (tmp_path / "run-1.json").write_text("old")
    with pytest.raises(KeyError):
        fails()
    assert (tmp_path / "run-1.json").read_text() == "new"


def test_recordings_that_cannot_go_stay_and_the_place_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    destination = tmp_path / "repeat"
    destination.write_text("a file")
    with scratch_of(destination) as scratch:
        (recordings_in(scratch) / "run-1.json").write_text("{}")
    assert str(recordings_in(scratch)) in capsys.readouterr().err
    assert (recordings_in(scratch) / "run-1.json").exists()
    destination.unlink()
    leave(scratch)
    assert (destination / "run-1.json").exists()


PROGRAM = """
import pathlib, torch
seed = len(list(pathlib.Path(".").rglob("*")))
torch.manual_seed(seed)
layer = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""


@pytest.mark.slow
def test_a_script_that_walks_through_its_folder_meets_no_recording_of_another_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    done = tracer_process("repeat", "train.py", cwd=tmp_path)
    assert done.code == 0, done.out
    assert (tmp_path / "repeat" / "run-2.values").exists()
