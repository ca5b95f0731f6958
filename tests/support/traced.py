"""Programs whose lines are followed in the test's own process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tracer.recording.lines.recording import LineRecording
from tracer.recording.options import LineOptions
from tracer.trace.lines import Entered, LineRecord, LineRow, read_lines


def traced(folder: Path, source: str, *, name: str = "a", **options: Any) -> list[LineRecord]:
    """The rows of ``source``, run as a file of its own in ``folder``; what it appends to ``CALLS`` counts as calls."""
    file = folder / "program.py"
    file.write_text(source, encoding="utf-8")
    code = compile(source, str(file), "exec")
    lines = LineRecording(folder / f"{name}.lines", [str(folder)], LineOptions(**options))
    program = ModuleType("__main__")
    program.__file__ = str(file)
    outer, sys.modules["__main__"] = sys.modules["__main__"], program
    if "CALLS" in source:
        lines.next_call = lambda: len(vars(program).get("CALLS", ()))
    lines.start()
    try:
        exec(code, vars(program))
    finally:
        lines.stop()
        sys.modules["__main__"] = outer
    return read_lines(folder / f"{name}.lines")


def rows_of(records: list[LineRecord], line: int) -> list[Mapping[str, str]]:
    """What each execution of a line changed, without the states of generators."""
    return [_named(record.changed) for record in records if isinstance(record, LineRow) and record.line == line]


def calls_of(records: list[LineRecord]) -> list[Mapping[str, str]]:
    """The parameters of each call, without the states of generators."""
    return [_named(record.changed) for record in records if isinstance(record, Entered)]


def _named(changed: Mapping[str, str]) -> Mapping[str, str]:
    return {name: digest for name, digest in changed.items() if not name.startswith("%generator")}
