"""The command line in this process, where scripts are run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Command


@pytest.fixture
def tracer(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """``tracer(...)`` in an empty folder and outside any job; what processes print is captured too."""
    for name in ("RANK", "WORLD_SIZE", "TRACER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Command(capfd, monkeypatch)
