"""Processes beside the one in which calls differ: memory that they share may explain it, and no kernel is blamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.divergence.recorded import Recorder
from tests.runner.repeated.comparisons import root
from tests.support.build import trace
from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.families import compare_families
from tracer.divergence.model import Divergence
from tracer.divergence.recordings import Recording
from tracer.names import ChildState, StartedBy
from tracer.trace.records import Child

STARTED = Child(role="1", started_by=StartedBy.FORK, location="start.py:20", state=ChildState.RECORDED, calls=4)


@pytest.mark.parametrize(
    ("fields", "cause", "names_them"),
    [
        ({"contradicts": True}, RootCause.UNKNOWN, True),
        ({}, RootCause.KERNEL, False),
        ({"cause": RootCause.UNKNOWN, "shows": Shows.REPLAYED}, RootCause.UNKNOWN, True),
        ({"cause": RootCause.OUTSIDE_CHANGE, "shows": Shows.CHANGED_OUTSIDE}, None, True),
    ],
    ids=["table-says-deterministic", "table-says-it-varies", "replayed", "changed-outside"],
)
def test_what_a_process_beside_may_have_written_is_no_kernels_fault(
    tmp_path: Path, fields: dict[str, Any], cause: RootCause | None, names_them: bool
) -> None:
    record = Recorder(tmp_path)
    whole = msgspec.structs.replace(record(), trace=trace(children=(STARTED,)))
    child = msgspec.structs.replace(record(), trace=trace())
    differing = root(**fields)

    def compare(ours: Recording, theirs: Recording) -> Divergence:
        return msgspec.structs.replace(compare_recordings(ours, theirs), roots=(differing,), agrees=False)

    joined = compare_families({"": whole, "1": child}, {"": whole, "1": child}, compare)
    own = next(each for each in joined.roots if not each.process.startswith("child"))
    assert own.cause is (cause or differing.cause)
    assert not own.contradicts
    assert ("processes that were started at start.py:20" in own.why) == names_them


def test_a_process_whose_input_differs_received_what_another_drew(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    drawn = root(37, RootCause.DRAW, shows=Shows.DRAW)
    own = root(20, RootCause.INPUT_DATA, shows=Shows.ENTERED)
    whole = msgspec.structs.replace(record(), trace=trace(children=(STARTED,)))
    child = msgspec.structs.replace(record(), trace=trace())

    def compare(ours: Recording, theirs: Recording) -> Divergence:
        roots = (drawn,) if ours is whole else (own,)
        return msgspec.structs.replace(compare_recordings(ours, theirs), roots=roots, follows=7, agrees=False)

    joined = compare_families({"": whole, "1": child}, {"": whole, "1": child}, compare)
    assert [(each.process, each.location) for each in joined.roots] == [("", "train.py:37")]
    assert joined.follows == 15
