"""Reading many traces decodes what they share once; what comes of it is what the long way gives, to the byte."""

from __future__ import annotations

import gc
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.build import call, trace
from tests.trace.strategies import traces
from tracer.errors import TraceError
from tracer.trace import Trace
from tracer.trace.differences import compare_ranks
from tracer.trace.file import load_traces
from tracer.trace.merging import join, key_of, merge_traces, merged
from tracer.trace.records import TraceSource

PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
#: Ranks whose groups are drawn from a few traces: many are alike, some stand in another order or are missing.
jobs = st.lists(traces, min_size=1, max_size=3).flatmap(
    lambda several: st.lists(
        st.tuples(st.sampled_from(several), st.permutations(several[0].calls), st.integers(0, 3)),
        min_size=2,
        max_size=7,
    )
)


def saved(folder: Path, job: list[tuple[Trace, list[Any], int]]) -> list[Path]:
    """A file a rank."""
    paths = [folder / f"t.rank{rank}.json" for rank in range(len(job))]
    for rank, (path, (one, calls, left_out)) in enumerate(zip(paths, job, strict=True)):
        replace(one, calls=(*one.calls, *calls[left_out:]), sources=(TraceSource(rank=rank),)).save(path)
    return paths


def merged_one_by_one(records: Any) -> tuple[Any, ...]:
    """Joins each record with what came before: the long way."""
    by_key: dict[Any, list[Any]] = {}
    for record in records:
        by_key.setdefault(key_of(record), []).append(record)
    return tuple(reduce(join, alike) for alike in by_key.values())


@PROPERTY
@given(job=jobs)
def test_what_is_read_is_what_each_file_holds(tmp_path: Path, job: list[tuple[Trace, list[Any], int]]) -> None:
    paths = saved(tmp_path, job)
    assert load_traces(paths) == [Trace.load(path) for path in paths]


@PROPERTY
@given(job=jobs)
def test_merging_and_comparing_give_the_same_bytes(tmp_path: Path, job: list[tuple[Trace, list[Any], int]]) -> None:
    paths = saved(tmp_path, job)
    shared, single = load_traces(paths), [Trace.load(path) for path in paths]
    for quick, slow in ((merge_traces(shared), merge_traces(single)), (compare_ranks(shared), compare_ranks(single))):
        assert msgspec.json.encode(quick) == msgspec.json.encode(slow)


@PROPERTY
@given(several=st.lists(traces, min_size=1, max_size=3), data=st.data())
def test_an_object_that_comes_often_counts_as_often(several: list[Trace], data: st.DataObject) -> None:
    groups = [group for one in several for group in one.calls]
    stream = data.draw(st.lists(st.sampled_from(groups), max_size=40)) if groups else []
    assert msgspec.json.encode(merged(stream)) == msgspec.json.encode(merged_one_by_one(stream))


def test_what_ranks_have_in_common_is_one_object(tmp_path: Path) -> None:
    paths = [tmp_path / f"{rank}.json" for rank in range(3)]
    for rank, path in enumerate(paths):
        trace(call(), call("aten.add.Tensor", count=1 + rank // 2), sources=(TraceSource(rank=rank),)).save(path)
    first, second, third = load_traces(paths)
    assert first.calls is second.calls
    assert third.calls[0] is first.calls[0]
    assert third.calls[1].facts is first.calls[1].facts
    assert gc.isenabled()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 99}',
        '{"schema": 0, "environment": {"python": "", "platform": "", "torch": ""}}',
        '{"environment": {"python": "", "platform": "", "torch": ""}}',
        '{"schema": 1, "environment": {"python": "", "platform": "", "torch": ""}, "calls": {}}',
        '{"schema": 1, "environment": {"python": "", "platform": "", "torch": ""}, "calls": [{"op": 3}]}',
        '{"schema": 1, "environment": {"python": "", "platform": "", "torch": ""},'
        ' "calls": [{"op": "a", "phase": "other", "count": 0}]}',
    ],
)
def test_what_is_no_trace_is_refused_in_the_same_words(tmp_path: Path, text: str) -> None:
    sound, path = tmp_path / "sound.json", tmp_path / "t.json"
    trace(call()).save(sound)
    path.write_text(text)
    with pytest.raises(TraceError) as long_way:
        Trace.load(path)
    with pytest.raises(TraceError) as refusal:
        load_traces([sound, path])
    assert str(refusal.value) == str(long_way.value)
    assert gc.isenabled()
