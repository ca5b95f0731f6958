"""What two runs took in from outside: what differs, what cannot be told, and what is named at a root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.divergence.recorded import Recorder
from tests.support.build import outside, trace
from tracer.divergence import RootCause, compare_recordings
from tracer.divergence.outside import before, compare_outside, joined_outside
from tracer.names import OutsideKind
from tracer.report.sections.reasons import why_of
from tracer.trace.records import OutsideInput


def compared(one: OutsideInput | None, two: OutsideInput | None, began: int = 0) -> Any:
    sides = (trace(outside=() if one is None else (one,)) for one in (one, two))
    found = compare_outside(*sides, began=began)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("one", "two", "differs"),
    [
        (outside(digest="a"), outside(digest="a"), False),
        (outside(digest="a"), outside(digest="b"), True),
        (outside(digest="a"), None, True),
        (None, outside(digest="a"), True),
        (outside(), outside(), None),
        (outside(digest="a", is_partial=True), outside(digest="a", is_partial=True), None),
        (outside(digest="a", is_partial=True), outside(digest="b", is_partial=True), True),
        (outside("host", digest="1f:a"), outside("host", digest="2e:b"), None),
        (outside("host", digest="1f:a"), outside("host", digest="1f:b"), True),
        (outside("directory", digest="a", order="1"), outside("directory", digest="a", order="2"), True),
        (outside(digest="a", count=2), outside(digest="a"), False),
    ],
    ids=[
        *("alike", "other bytes", "first alone", "second alone", "not digested", "alike in parts", "other in parts"),
        *("keys of two machines", "one key", "another order", "another count"),
    ],
)
def test_an_input_differs_where_that_can_be_told(
    one: OutsideInput | None, two: OutsideInput | None, differs: bool | None
) -> None:
    assert compared(one, two).differs is differs


def test_the_same_entries_in_another_order_are_told_apart() -> None:
    one, two = (outside("directory", digest="a", order=order, size=3) for order in "12")
    assert compared(one, two).only_order
    assert not compared(one, msgspec.structs.replace(two, digest="b")).only_order


def test_a_file_that_was_written_since_the_first_run_began_is_the_first_runs() -> None:
    assert compared(None, outside(digest="a", modified=200), began=100).by_first_run
    assert compared(outside(digest="b"), outside(digest="a", modified=200), began=100).by_first_run
    assert not compared(None, outside(digest="a", modified=50), began=100).by_first_run
    assert not compared(outside(digest="a"), outside(digest="a", modified=200), began=100).by_first_run
    assert not compared(None, outside(digest="a", modified=200)).by_first_run
    own = outside(digest="b", modified=150), outside(digest="a", modified=200)
    assert not compared(*own, began=100).by_first_run, "each run wrote its own"


def test_what_an_import_took_in_alike_is_left_out() -> None:
    assert compared(outside(digest="a", by_import=True), outside(digest="a", by_import=True)) is None
    assert compared(outside(digest="a", by_import=True), outside(digest="b", by_import=True)).differs


def test_of_an_older_trace_nothing_is_claimed() -> None:
    older = msgspec.structs.replace(trace(), schema=3)
    assert compare_outside(older, trace(outside=(outside(digest="a"),))) == ()
    assert compare_outside(None, trace()) == ()


def test_of_several_runs_each_input_stands_once_as_it_differs() -> None:
    alike = compare_outside(*(trace(outside=(outside(digest="a"),)) for _ in "12"))
    other = compare_outside(*(trace(outside=(outside(digest=digest),)) for digest in "ab"))
    (found,) = joined_outside([alike, other, alike])
    assert found.differs


INPUTS = (
    outside("clock", "time.time", location="train.py:1"),
    outside("file", "last.pt", location="train.py:2", calls=3),
    outside("file", "later.txt", location="train.py:3", calls=9),
    outside("machine-number", "os.getpid", location="train.py:4"),
)


@pytest.mark.parametrize(
    ("cause", "call", "names"),
    [
        (RootCause.INPUT_DATA, 5, ["last.pt"]),
        (RootCause.STRUCTURE, 20, ["last.pt", "later.txt"]),
        (RootCause.KERNEL, 5, []),
        (RootCause.UNWRITTEN_MEMORY, 5, []),
        (RootCause.INPUT_DATA, 1, ["os.getpid", "time.time"]),
        (RootCause.STRUCTURE, 1, []),
    ],
)
def test_a_root_names_what_differs_before_it_and_may_be_its_cause(
    tmp_path: Path, cause: RootCause, call: int, names: list[str]
) -> None:
    record = Recorder(tmp_path)
    (root,) = compare_recordings(record(), record(kernel=2)).roots
    first, second = (
        trace(outside=tuple(msgspec.structs.replace(one, digest=digest) for one in INPUTS)) for digest in "ab"
    )
    root = msgspec.structs.replace(root, cause=cause, call=call)
    assert [one.name for one in before(root, compare_outside(first, second))] == names


@pytest.mark.parametrize(
    ("kinds", "cause", "named"),
    [
        (("random-query random", "random-query current_date"), RootCause.INPUT_DATA, ["random"]),
        (("random-query current_date", "clock time.time"), RootCause.INPUT_DATA, ["current_date", "time.time"]),
        (("readiness is_alive", "file a.txt"), RootCause.STRUCTURE, ["a.txt"]),
        (("readiness is_alive", "existence a.txt", "clock time.time"), RootCause.STRUCTURE, ["is_alive", "a.txt"]),
        (("port getsockname", "completion os.wait"), RootCause.ARGUMENT, ["os.wait"]),
    ],
)
def test_what_differs_in_most_runs_is_named_where_nothing_else_differs(
    tmp_path: Path, kinds: tuple[str, ...], cause: RootCause, named: list[str]
) -> None:
    record = Recorder(tmp_path)
    (root,) = compare_recordings(record(), record(kernel=2)).roots
    first, second = (
        trace(outside=tuple(outside(*kind.split(), location="train.py:1", digest=digest) for kind in kinds))
        for digest in "ab"
    )
    root = msgspec.structs.replace(root, cause=cause, call=5)
    assert [taken.name for taken in before(root, compare_outside(first, second))] == named


@pytest.mark.parametrize(("cause", "named"), [(RootCause.INPUT_DATA, ["sh"]), (RootCause.KERNEL, [])])
def test_a_program_whose_answers_are_not_compared_is_named_where_nothing_differs(
    tmp_path: Path, cause: RootCause, named: list[str]
) -> None:
    record = Recorder(tmp_path)
    (root,) = compare_recordings(record(), record(kernel=2)).roots
    assert root.reason is not None
    root = msgspec.structs.replace(root, cause=cause, call=5)
    taken = trace(outside=(outside("program", "sh", location="train.py:9", digest="a", is_partial=True),))
    inputs = before(root, compare_outside(taken, taken))
    assert [program.name for program in inputs] == named
    told = msgspec.structs.replace(root, reason=msgspec.structs.replace(root.reason, outside=inputs))
    assert why_of(told).endswith("runs sh (train.py:9), whose answers are not compared") == bool(named)


def test_a_program_whose_answers_are_not_compared_comes_before_a_clock(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    (root,) = compare_recordings(record(), record(kernel=2)).roots
    root = msgspec.structs.replace(root, cause=RootCause.INPUT_DATA, call=5, location="train.py:20")
    program = outside("program", "sh", location="train.py:9", digest="a", is_partial=True)
    first, second = (
        trace(outside=(outside("clock", "time.time", location="train.py:1", digest=digest), program)) for digest in "ab"
    )
    assert [taken.name for taken in before(root, compare_outside(first, second))] == ["sh", "time.time"]


def test_a_clock_at_the_roots_own_line_is_named_alone(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    (root,) = compare_recordings(record(), record(kernel=2)).roots
    root = msgspec.structs.replace(root, cause=RootCause.ARGUMENT, call=1, location="train.py:1")
    first, second = (
        trace(outside=tuple(msgspec.structs.replace(one, digest=digest) for one in INPUTS)) for digest in "ab"
    )
    found = before(root, compare_outside(first, second))
    assert [one.name for one in found] == ["time.time"]
    assert root.reason is not None
    told = msgspec.structs.replace(root, reason=msgspec.structs.replace(root.reason, outside=found))
    assert why_of(told).endswith(
        "; before it the program reads a clock by time.time (train.py:1), which differs between the runs"
    )


@pytest.mark.parametrize("kind", list(OutsideKind), ids=str)
def test_what_a_kind_says_is_part_of_a_sentence(kind: OutsideKind) -> None:
    by_themselves = (OutsideKind.RANDOM_QUERY, OutsideKind.FOREIGN_CALL)
    assert kind.functions or kind in by_themselves, "SQLite and ctypes' libraries tell by themselves"
    assert not any(words.endswith((".", ":")) for words in (kind.verb, *kind.counted))
