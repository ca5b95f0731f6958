"""Draws that nothing reads, and calls of one run alone, are no divergence if what the runs leave agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.divergence.recorded import Run
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.families import compare_families
from tracer.divergence.model import Divergence, Recording
from tracer.names import Phase
from tracer.report.sections.runs import divergence_headline
from tracer.trace.values import ValueKind


def compared(
    folder: Path,
    *,
    is_read: bool = False,
    leaves: bool = True,
    ends: tuple[int, int] = (1, 1),
    printed: tuple[int, int] = (1, 1),
) -> Divergence:
    """Two runs with a draw each, from another state."""
    recordings = []
    for name, end, line in zip(("one", "two"), ends, printed, strict=True):
        run = Run(folder / f"{name}.values")
        drawn = run.call("uniform_.default", line=9, generator=("cpu", name))
        run.call("mm.default", drawn if is_read else run.enter(ValueKind.BATCH, "batch", 1), line=10)
        if leaves:
            run.writer.moment(ValueKind.PARAMETER, "fc.weight", end)
            run.writer.moment(ValueKind.OUTPUT, "line 1", line)
        recordings.append({"": Recording(name=name, values=run.values())})
    return compare_families(*recordings, compare_recordings)


def test_a_draw_that_nothing_reads_is_a_note(tmp_path: Path) -> None:
    found = compared(tmp_path)
    assert (found.agrees, found.roots, len(found.without_effect)) == (True, (), 1)
    assert divergence_headline(found) == (
        "The second run agrees with the first run in all 2 compared calls but 1 draw (train.py:9), which reach"
        " nothing that trains; parameters, buffers, optimizer states and printed lines agree."
    )


@pytest.mark.parametrize(
    "bend", [{"is_read": True}, {"leaves": False}, {"ends": (1, 2)}], ids=["read", "nothing left", "ends differ"]
)
def test_a_draw_that_is_read_or_may_have_been_is_a_root(tmp_path: Path, bend: dict[str, object]) -> None:
    found = compared(tmp_path, **bend)  # type: ignore[arg-type]
    assert (found.agrees, len(found.roots), found.without_effect) == (False, 1, ())


def test_of_a_draw_that_is_printed_alone_the_line_that_differs_comes_first(tmp_path: Path) -> None:
    found = compared(tmp_path, printed=(1, 2))
    assert (found.agrees, len(found.roots)) == (False, 1)
    assert divergence_headline(found) == (
        "The second run and the first run print different lines (line 1), and train alike. They diverge in step 0,"
        " forward, at train.py:9 (aten.uniform_.default), by a random draw; it reaches nothing that trains."
    )


def loaded(
    folder: Path,
    *,
    is_used: bool = False,
    phase: Phase = Phase.OTHER,
    ends: tuple[int, int] = (1, 1),
    writes: bool = False,
) -> Divergence:
    """Two runs of which one alone makes a call, and may write what it gives into a file."""
    recordings = []
    for name, end in zip(("one", "two"), ends, strict=True):
        run = Run(folder / f"{name}.values")
        batch = run.enter(ValueKind.BATCH, "batch", 1)
        if name == "two":
            read = run.call("empty.memory_format", line=7, phase=phase)
            batch = run.call("add_.Tensor", batch, read, line=8, phase=phase) if is_used else batch
        run.call("mm.default", batch, line=10)
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", end)
        if writes and name == "two":
            run.writer.moment(ValueKind.TEXT, "cache/stats.json", 5)
        recordings.append({"": Recording(name=name, values=run.values())})
    return compare_families(*recordings, compare_recordings)


def test_what_one_run_alone_computed_and_wrote_is_a_note(tmp_path: Path) -> None:
    found = loaded(tmp_path, writes=True)
    assert (found.agrees, found.roots, len(found.without_effect), len(found.notes)) == (True, (), 1, 1)


def test_calls_of_one_run_alone_that_nothing_reads_are_a_note(tmp_path: Path) -> None:
    found = loaded(tmp_path)
    assert (found.agrees, found.roots, len(found.without_effect), found.only) == (True, (), 1, (0, 1))
    assert divergence_headline(found) == (
        "The second run agrees with the first run in all 1 compared call but 1 call that one run alone makes"
        " (train.py:7), which reach nothing that trains; parameters, buffers and optimizer states agree."
    )


@pytest.mark.parametrize(
    "bend",
    [
        {"is_used": True},
        {"is_used": True, "writes": True},
        {"phase": Phase.BACKWARD},
        {"phase": Phase.OPTIMIZER},
        {"ends": (1, 2)},
    ],
    ids=["used", "used and written", "a backward", "an optimizer", "ends differ"],
)
def test_calls_of_one_run_alone_that_reach_something_or_train_diverge(tmp_path: Path, bend: dict[str, object]) -> None:
    found = loaded(tmp_path, **bend)  # type: ignore[arg-type]
    assert (found.agrees, bool(found.roots), found.without_effect) == (False, True, ())
