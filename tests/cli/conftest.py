"""What the command line's tests share."""

from __future__ import annotations

import pytest

from tests.cli.command import Command


@pytest.fixture
def tracer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``tracer(...)`` runs the command line in this process, outside any distributed job."""
    for name in ("RANK", "WORLD_SIZE", "TRACER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return Command(capsys, monkeypatch)
