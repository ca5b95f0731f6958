"""What the command line's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Command


@pytest.fixture
def tracer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``tracer(...)`` runs the command line in this process, outside any distributed job."""
    for name in ("RANK", "WORLD_SIZE", "TRACER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return Command(capsys, monkeypatch)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which the command line is called in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
