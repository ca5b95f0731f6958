"""The spinner: on a terminal, after a while, and gone at the end."""

from __future__ import annotations

import io
import sys
import time

import pytest

from tracer.cli import output as module


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "patience", "is_shown"),
    [(Terminal(), 0.01, True), (Terminal(), 60.0, False), (io.StringIO(), 0.01, False)],
    ids=["slow", "quick", "pipe"],
)
def test_only_a_terminal_is_told_and_only_of_what_is_slow(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, patience: float, is_shown: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    with module.progress("judging [all]"):
        time.sleep(0.3)
    assert ("judging [all]" in stream.getvalue()) is is_shown
    assert (stream.getvalue() == "") is not is_shown
