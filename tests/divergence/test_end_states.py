"""Two runs whose calls agree are compared in what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.divergence.recorded import Run
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.families import compare_families
from tracer.divergence.model import Divergence, EndState, Outputs, Recording
from tracer.report.blocks import PAGE
from tracer.report.sections.runs import divergence_blocks, divergence_headline
from tracer.trace.values import ValueKind

Left = tuple[ValueKind, str, int, int]
WEIGHT, FILE, TEXT, OUTPUT = ValueKind.PARAMETER, ValueKind.FILE, ValueKind.TEXT, ValueKind.OUTPUT
RETURNED = ValueKind.RETURNED

LINES: list[Left] = [(OUTPUT, "line 1", 1, -1), (OUTPUT, "line 2", 2, -1)]


def compared(
    folder: Path, first: Sequence[Left], second: Sequence[Left], partial: str = "", *, batches: tuple[int, int] = (1, 1)
) -> Divergence:
    """Two runs of one call that leave ``first`` and ``second``: kind, name, digest and position."""
    recordings = []
    for name, left, batch in (("one", first, batches[0]), ("two", second, batches[1])):
        run = Run(folder / f"{name}.values")
        run.call("mm.default", run.enter(ValueKind.BATCH, "batch", batch), line=10)
        for kind, what, digest, position in left:
            run.writer.moment(kind, what, digest, position)
        if partial and name == "two":
            run.writer.close(partial)
        recordings.append(Recording(name=name, values=run.values()))
    return compare_recordings(*recordings, may_resume=False)


@pytest.mark.parametrize(
    ("first", "second", "names", "notes"),
    [
        ([(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "fc.weight", 1, -1)], [], []),
        ([(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "fc.weight", 2, -1)], ["fc.weight"], []),
        ([(WEIGHT, "fc.weight", 0, -1)], [(WEIGHT, "fc.weight", 2, -1)], [], []),
        ([(FILE, "out.npy", 1, -1)], [(FILE, "out.npy", 2, -1)], ["out.npy"], []),
        ([(TEXT, "out.csv", 1, -1)], [(TEXT, "out.csv", 2, -1)], [], ["out.csv"]),
        ([(FILE, "out.npy", 1, -1)], [], [], ["out.npy"]),
        ([(FILE, "at-05.pt", 1, -1)], [(FILE, "at-06.pt", 1, -1)], [], []),
        ([(FILE, "at-05.pt", 1, -1)], [(FILE, "at-06.pt", 2, -1)], ["at-05.pt"], []),
        ([(FILE, "at-05.pt", 1, -1)] * 2, [(FILE, "at-06.pt", 1, -1)], ["at-05.pt"], []),
        ([(FILE, "log", 1, -1), (FILE, "log", 7, 1)], [(FILE, "log", 2, -1), (FILE, "log", 7, 1)], [], []),
        ([(FILE, "log", 1, -1), (FILE, "log", 7, 1)], [(FILE, "log", 2, -1), (FILE, "log", 8, 1)], ["log"], []),
        ([(FILE, "log", 1, -1)], [(FILE, "log", 2, -1), (FILE, "log", 7, 1)], [], []),
        (LINES, [(OUTPUT, "line 1", 2, -1), (OUTPUT, "line 2", 1, -1)], [], []),
        (LINES, [(OUTPUT, "line 1", 1, -1), (OUTPUT, "line 2", 3, -1)], [], ["line 2"]),
        ([(OUTPUT, "line 1", 1, -1)], [(OUTPUT, "line 1", 1, -1), (OUTPUT, "line 2", 1, -1)], [], ["line 2"]),
        ([(RETURNED, "tokens", 1, -1)] * 2, [(RETURNED, "tokens", 1, -1)] * 2, [], []),
        ([(RETURNED, "tokens", 1, -1)] * 2, [(RETURNED, "tokens", 1, -1), (RETURNED, "tokens", 2, -1)], ["tokens"], []),
        ([(RETURNED, "tokens", 1, -1)] * 2, [(RETURNED, "tokens", 1, -1)], ["tokens"], []),
        ([(RETURNED, "tokens", 0, -1)], [(RETURNED, "tokens", 2, -1)], [], []),
    ],
    ids=[
        "same", "parameter", "not-digested", "file", "text", "only-one-wrote", "dated", "dated-otherwise",
        "written-twice",
        "appended-the-same", "appended-otherwise", "only-one-appended", "order-of-lines", "another-line",
        "one-more-line", "returned", "returned-otherwise", "returned-once-less", "returned-not-digested",
    ],
)  # fmt: skip
def test_what_differs_at_the_end_is_named(
    tmp_path: Path, first: list[Left], second: list[Left], names: list[str], notes: list[str]
) -> None:
    found = compared(tmp_path, first, second)
    assert [end.name for end in found.ends] == names
    assert [end.name for end in found.notes] == notes
    assert not found.roots
    assert found.agrees == {WEIGHT, RETURNED}.isdisjoint(end.kind for end in found.ends)


def test_ends_of_a_run_that_was_cut_short_are_not_compared(tmp_path: Path) -> None:
    found = compared(tmp_path, [(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "fc.weight", 2, -1)], "killed")
    assert found.agrees
    assert (found.ends, found.ends_compared) == ((), 0)


def test_a_file_that_only_the_second_run_wrote_is_said_to_be_so(tmp_path: Path) -> None:
    found = compared(tmp_path, [], [(FILE, "out.csv", 1, -1)])
    assert found.notes == (EndState(kind=FILE, name="out.csv", only_one=True, only_second=True),)


def test_outputs_are_counted_by_what_they_are(tmp_path: Path) -> None:
    left: list[Left] = [(RETURNED, "tokens", 1, -1), (RETURNED, "tokens", 2, -1), *LINES, (FILE, "out.csv", 1, -1)]
    assert compared(tmp_path, left, left).outputs == Outputs(returned=2, printed=2, files=1)


@pytest.mark.parametrize(
    ("left", "more", "says"),
    [
        ([(WEIGHT, "fc.weight", 1, -1)], [], True),
        ([(FILE, "out.csv", 1, -1)], [], False),
        ([(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "Linear#2.weight", 1, -1)], False),
        ([(WEIGHT, "fc.weight", 1, -1), (WEIGHT, "fc.bias", 0, -1)], [], False),
    ],
    ids=["the-same", "files-alone", "one-model-more", "one-not-digested"],
)
def test_final_states_are_said_to_agree_only_where_all_were_compared(
    tmp_path: Path, left: list[Left], more: list[Left], says: bool
) -> None:
    diverging = compared(tmp_path, left, [*left, *more], batches=(1, 2))
    assert diverging.roots
    blocks = divergence_blocks(diverging, PAGE)
    assert ("Both runs nevertheless end with the same parameters" in str(blocks)) == says


def test_of_an_inference_the_words_speak_of_outputs(tmp_path: Path) -> None:
    left: list[Left] = [(RETURNED, "tokens", 1, -1), *LINES]
    agree = msgspec.structs.replace(compared(tmp_path, left, left), is_inference=True)
    said = "The second run agrees with the first run in all 1 compared call"
    assert divergence_headline(agree) == f"{said} and in their outputs (1 returned and 2 printed lines)."
    assert divergence_headline(msgspec.structs.replace(agree, is_inference=False)) == f"{said}."
    other = msgspec.structs.replace(compared(tmp_path, left, [(RETURNED, "tokens", 2, -1), *LINES]), is_inference=True)
    assert divergence_headline(other) == f"{said}, but they return different outputs (tokens)."


def test_lines_that_differ_count_where_calls_differ_that_reach_nothing(tmp_path: Path) -> None:
    left: list[Left] = [(WEIGHT, "fc.weight", 1, -1), (OUTPUT, "line 1", 1, -1)]
    agree, differ = (
        compare_families(
            {"": one}, {"": other}, lambda ours, theirs: compare_recordings(ours, theirs, may_resume=False)
        )
        for one, other in (
            drawing(tmp_path / "same", left, left),
            drawing(tmp_path / "other", left, [*left[:1], (OUTPUT, "line 1", 2, -1)]),
        )
    )
    assert (agree.agrees, agree.roots) == (True, ())
    assert not differ.agrees
    assert differ.roots


def drawing(folder: Path, first: Sequence[Left], second: Sequence[Left]) -> tuple[Recording, Recording]:
    """Two runs that draw other numbers, which no call reads."""
    folder.mkdir()
    recordings = []
    for name, left in (("one", first), ("two", second)):
        run = Run(folder / f"{name}.values")
        run.call("rand.default", line=10, generator=("cpu", name), numbers="size=[2]")
        for kind, what, digest, position in left:
            run.writer.moment(kind, what, digest, position)
        recordings.append(Recording(name=name, values=run.values()))
    return recordings[0], recordings[1]
