"""Two runs whose calls agree are compared in what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.divergence.recorded import Run
from tracer.divergence import Recording, compare_recordings
from tracer.divergence.model import Divergence, EndState
from tracer.trace.values import ValueKind

Left = tuple[ValueKind, str, int, int]
WEIGHT, FILE, OUTPUT = ValueKind.PARAMETER, ValueKind.FILE, ValueKind.OUTPUT

LINES: list[Left] = [(OUTPUT, "line 1", 1, -1), (OUTPUT, "line 2", 2, -1)]


def compared(folder: Path, first: Sequence[Left], second: Sequence[Left], partial: str = "") -> Divergence:
    """Two runs of one call that leave ``first`` and ``second``: kind, name, digest and position."""
    recordings = []
    for name, left in (("one", first), ("two", second)):
        run = Run(folder / f"{name}.values")
        run.call("mm.default", run.enter(ValueKind.BATCH, "batch", 1), line=10)
        for kind, what, digest, position in left:
            run.writer.moment(kind, what, digest, position)
        if partial and name == "two":
            run.writer.close(partial)
        recordings.append(Recording(name=name, values=run.values()))
    return compare_recordings(*recordings, may_resume=False)


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ([(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "fc.weight", 1, -1)], []),
        ([(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "fc.weight", 2, -1)], ["fc.weight"]),
        ([(WEIGHT, "fc.weight", 0, -1)], [(WEIGHT, "fc.weight", 2, -1)], []),
        ([(FILE, "out.csv", 1, -1)], [(FILE, "out.csv", 2, -1)], ["out.csv"]),
        ([(FILE, "out.csv", 1, -1)], [], ["out.csv"]),
        ([(FILE, "log-1123-05.txt", 1, -1)], [(FILE, "log-1124-06.txt", 1, -1)], []),
        ([(FILE, "log-1123-05.txt", 1, -1)], [(FILE, "log-1124-06.txt", 2, -1)], ["log-~.txt"]),
        ([(FILE, "log", 1, -1), (FILE, "log", 7, 1)], [(FILE, "log", 2, -1), (FILE, "log", 7, 1)], []),
        ([(FILE, "log", 1, -1), (FILE, "log", 7, 1)], [(FILE, "log", 2, -1), (FILE, "log", 8, 1)], ["log"]),
        ([(FILE, "log", 1, -1)], [(FILE, "log", 2, -1), (FILE, "log", 7, 1)], []),
        (LINES, [(OUTPUT, "line 1", 2, -1), (OUTPUT, "line 2", 1, -1)], []),
        (LINES, [(OUTPUT, "line 1", 1, -1), (OUTPUT, "line 2", 3, -1)], ["line 2"]),
        ([(OUTPUT, "line 1", 1, -1)], [(OUTPUT, "line 1", 1, -1), (OUTPUT, "line 2", 1, -1)], ["line 2"]),
    ],
    ids=[
        "same", "parameter", "not-digested", "file", "only-one-wrote", "dated", "dated-otherwise", "appended-the-same",
        "appended-otherwise", "only-one-appended", "order-of-lines", "another-line", "one-more-line",
    ],
)  # fmt: skip
def test_what_differs_at_the_end_is_named(
    tmp_path: Path, first: list[Left], second: list[Left], names: list[str]
) -> None:
    found = compared(tmp_path, first, second)
    assert [end.name for end in found.ends] == names
    assert not found.roots
    assert found.agrees == (WEIGHT not in [end.kind for end in found.ends])


def test_ends_of_a_run_that_was_cut_short_are_not_compared(tmp_path: Path) -> None:
    found = compared(tmp_path, [(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "fc.weight", 2, -1)], "killed")
    assert found.agrees
    assert (found.ends, found.ends_compared) == ((), 0)


def test_a_file_that_only_the_second_run_wrote_is_said_to_be_so(tmp_path: Path) -> None:
    found = compared(tmp_path, [], [(FILE, "out.csv", 1, -1)])
    assert found.ends == (EndState(kind=FILE, name="out.csv", only_one=True, only_second=True),)
