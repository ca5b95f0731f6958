"""What the command line's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which the command line is called in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tracer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """``tracer(...)`` runs the command line in this process, in an empty folder and outside any distributed job.

    Below the repository's folder each run would read the code of every module of it that is loaded.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "TRACER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return Command(capsys, monkeypatch)
