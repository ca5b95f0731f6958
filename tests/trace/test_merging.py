"""Merging adds counts up, loses nothing, and says where recordings disagree."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import reduce
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.build import call, environment, kernel, region, trace
from tests.trace.strategies import traces
from tracer import judge
from tracer.errors import TraceError
from tracer.names import BlindSpotKind, DataShown, DeterministicMode, EventKind, Untried
from tracer.trace import Trace
from tracer.trace.differences import compare_ranks
from tracer.trace.file import load_traces
from tracer.trace.merging import join, key_of, merge_traces, merged
from tracer.trace.records import Argument, BlindSpot, CudaDevice, Environment, Event, TraceSource, Tried


@given(st.lists(traces, min_size=1, max_size=4))
def test_merging_loses_no_call_and_no_source(several: list[Trace]) -> None:
    merged = merge_traces(several)
    assert merged.call_count == sum(one.call_count for one in several)
    assert merged.sources == tuple(source for one in several for source in one.sources)
    by_op: Counter[str] = Counter()
    for one in several:
        for group in one.calls:
            by_op[group.op] += group.count
    after: Counter[str] = Counter()
    for group in merged.calls:
        after[group.op] += group.count
    assert after == by_op


@given(st.lists(traces, min_size=2, max_size=3))
def test_no_two_merged_groups_agree_in_everything_but_their_count(several: list[Trace]) -> None:
    merged = merge_traces(several)
    keys = [
        (
            one.op,
            one.phase,
            one.module,
            one.location,
            one.function,
            one.called_from,
            one.node,
            one.region,
            one.kernels,
            repr(sorted(one.facts.items())),
        )
        for one in merged.calls
    ]
    assert len(keys) == len(set(keys))


@given(traces, traces, traces)
def test_counts_do_not_depend_on_how_merging_is_grouped(first: Trace, second: Trace, third: Trace) -> None:
    left = merge_traces([merge_traces([first, second]), third])
    right = merge_traces([first, merge_traces([second, third])])
    assert left.calls == right.calls
    assert left.sources == right.sources
    assert set(left.differing_settings) == set(right.differing_settings)


def test_one_trace_merges_to_itself() -> None:
    one = trace()
    assert merge_traces([one]) is one


def test_nothing_merges_to_an_error() -> None:
    with pytest.raises(TraceError, match="no trace to merge"):
        merge_traces([])


def test_equal_calls_of_two_ranks_add_up_and_keep_their_place() -> None:
    first = trace(call("aten.add.Tensor", count=3), call("aten.mul.Tensor", count=1))
    second = trace(call("aten.mul.Tensor", count=4), call("aten.sub.Tensor", count=5))
    merged = merge_traces([first, second])
    assert [(one.op, one.count) for one in merged.calls] == [
        ("aten.add.Tensor", 3),
        ("aten.mul.Tensor", 5),
        ("aten.sub.Tensor", 5),
    ]


def test_true_and_one_are_different_facts() -> None:
    merged = merge_traces([trace(call(facts={"arg.sparse": True})), trace(call(facts={"arg.sparse": 1}))])
    assert len(merged.calls) == 2


def test_settings_that_differ_are_named_and_the_first_stand() -> None:
    plain = trace()
    strict = trace(environment=environment(deterministic_mode=DeterministicMode.ON, num_threads=4))
    merged = merge_traces([plain, strict])
    assert merged.differing_settings == ("deterministic_mode", "num_threads")
    assert merged.environment == plain.environment


def test_a_partial_recording_makes_the_merged_trace_partial_and_says_why_once() -> None:
    whole = trace()
    cut = [trace(sources=(TraceSource(name=f"rank{n}", partial="interrupted"),)) for n in range(2)]
    assert merge_traces([whole, *cut]).partial == "interrupted"


def test_equal_blind_spots_add_up() -> None:
    spot = BlindSpot(kind=BlindSpotKind.COMPILED, detail="forward", location="train.py:3", count=2)
    merged = merge_traces([trace(blind_spots=(spot,)), trace(blind_spots=(spot,))])
    assert [one.count for one in merged.blind_spots] == [4]


def test_regions_alike_in_two_ranks_are_one_that_ran_as_often_as_both() -> None:
    one = trace(call(region="0/0 forward", count=3), regions=(region(executions=3),))
    merged = merge_traces([one, trace(call(region="0/0 forward", count=2), regions=(region(executions=2),))])
    assert merged.regions == (region(executions=5),)
    assert [(group.region, group.count) for group in merged.calls] == [("0/0 forward", 5)]


def test_regions_that_differ_keep_apart_though_two_processes_number_them_alike() -> None:
    other = region(kernels=(kernel(atomic=False),))
    merged = merge_traces(
        [
            trace(call(region="0/0 forward"), call(), regions=(region(),)),
            trace(call(region="0/0 forward"), call(), regions=(other,)),
        ]
    )
    assert [one.id for one in merged.regions] == ["0/0 forward", "0/0 forward (2)"]
    assert [(group.region, group.count) for group in merged.calls] == [
        ("0/0 forward", 1),
        (None, 2),
        ("0/0 forward (2)", 1),
    ]


def tried(trials: int, varied: int, **fields: Any) -> Tried:
    return Tried(calls=1, trials=trials, varied=varied, distinct=1 + varied, **fields)


def test_trials_of_one_group_add_up_and_the_largest_difference_stands() -> None:
    steady = trace(call(count=4, tried=tried(5, 0, untried={Untried.RARER: 3})))
    varied = trace(call(count=2, tried=tried(5, 3, relative=0.5, first=2, untried={Untried.RARER: 1})))
    (group,) = merge_traces([steady, varied]).calls
    assert group.count == 6
    assert group.tried == Tried(
        calls=2,
        trials=10,
        varied=3,
        distinct=4,
        relative=0.5,
        first=6,
        untried={Untried.RARER: 4},
    )


def test_a_recording_without_trials_takes_none_away_and_leaves_its_calls_unlooked_at() -> None:
    looked = trace(call(count=2, tried=tried(5, 1, first=1), data={DataShown.DISTINCT: 2}))
    (group,) = merge_traces([trace(call(count=3)), looked]).calls
    assert group.tried == tried(5, 1, first=1)
    assert (group.count, sum(group.data.values())) == (5, 2)


def structs_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The records that a value of this type is made of, at every depth."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from structs_in(field.type)
    for part in get_args(kind):
        yield from structs_in(part)


#: What a merged trace keeps one by one, or takes from its first recording.
KEPT_WHOLE = {Trace, TraceSource, Environment, CudaDevice, *structs_in(Argument)}
MERGED = sorted({*structs_in(Trace)} - KEPT_WHOLE, key=lambda record: record.__name__)


def something(kind: Any) -> Any:
    """A value of the type, unlike the defaults of records."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind(**{field.name: something(field.type) for field in msgspec.structs.fields(kind)})
    parts = [part for part in get_args(kind) if part is not NoneType]
    if get_origin(kind) is tuple:
        return (something(parts[0]),)
    if get_origin(kind) is dict:
        return {something(parts[0]): something(parts[1])}
    return something(parts[0]) if parts else {str: "x", int: 3, float: 0.5, bool: True}[kind]


@pytest.mark.parametrize(
    ("record", "field"), [(record, field) for record in MERGED for field in record.__struct_fields__]
)
def test_no_field_of_two_records_turns_into_its_default(record: type[msgspec.Struct], field: str) -> None:
    value = something(get_type_hints(record)[field])
    (one,) = merged([something(record), something(record)])
    assert type(getattr(one, field)) is type(value)
    assert getattr(one, field) or not value


def changed_mode(**fields: Any) -> Event:
    return Event(
        kind=EventKind.SETTING,
        name="torch.use_deterministic_algorithms",
        before="off",
        value="on",
        location="train.py:7",
        while_recording=True,
        after_calls=True,
        **fields,
    )


def test_a_setting_that_only_the_second_rank_changed_between_forward_and_backward_is_found() -> None:
    varying = call("aten.index_add.default", facts={"device": "cuda", "dtype": "float32"})
    steady = trace(varying, events=(changed_mode(),))
    parted = trace(varying, events=(changed_mode(parts_phases=True),))
    facts = [one.facts for one in judge(merge_traces([steady, parted])).findings if one.rule.endswith("mode-changed")]
    assert {"change": "between-phases"} in facts


@pytest.mark.parametrize("order", [1, -1])
def test_a_launched_kernel_adds_atomically_where_one_rank_saw_that_it_does(order: int) -> None:
    plain, atomic = (trace(launched=(kernel(atomic=known),)) for known in (False, True))
    (one,) = merge_traces([plain, atomic][::order]).launched
    assert one.atomic


def test_a_place_stands_in_a_file_where_it_always_stood() -> None:
    group = call("aten.add.Tensor", module="fc", location="a.py:1", function="f", called_from="b.py:2", count=2)
    keys = list(msgspec.json.decode(msgspec.json.encode(group)))
    assert keys[:7] == ["op", "phase", "module", "location", "function", "called_from", "count"]


# --- several traces, read at once ---


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
