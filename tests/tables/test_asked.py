"""``asked.json``: what the tables ask of a recorder, without reading them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tracer.tables import asked, loading
from tracer.tables.asked import asked_text


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    asked.asked.cache_clear()


def test_it_is_what_the_tables_say() -> None:
    """``python -m tracer.tables.asked`` writes it anew."""
    assert asked.FILE.read_text(encoding="utf-8") == asked_text()
    assert asked.asked().facts == loading.required_facts()
    assert asked.asked().variables == loading.named_variables()


@pytest.mark.parametrize("text", [None, "{", '{"tables": "of others", "variables": [], "facts": {}}'])
def test_without_one_of_these_tables_the_tables_are_read(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "FILE", tmp_path / "asked.json")
    if text is not None:
        asked.FILE.write_text(text, encoding="utf-8")
    assert asked.asked().facts == loading.required_facts()
    assert asked.asked().variables == loading.named_variables()


def test_a_recording_begins_without_reading_a_backends_table(tmp_path: Path) -> None:
    """A process of its own: this one may have loaded them."""
    program = (
        "import sys, torch\n"
        "from tracer import DeterminismTracer\n"
        "with DeterminismTracer() as tracer:\n"
        "    torch.ones(2).sum()\n"
        "assert tracer.trace.call_count\n"
        "print('tracer.tables.loading' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False", done.stderr
