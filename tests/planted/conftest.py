"""What the tests of planted faults share."""

from __future__ import annotations

import pytest

from tests.support.command import Command


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``tracer`` in this process."""
    return Command(capsys, monkeypatch)
