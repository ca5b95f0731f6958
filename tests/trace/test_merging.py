"""Merging adds up, loses nothing, and says where recordings disagree; ranks side by side, rows of another layout."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.build import call, environment, event, kernel, region, trace
from tests.trace.filled import filled_record
from tests.trace.strategies import traces
from tracer import judge
from tracer.errors import TraceError
from tracer.names import BlindSpotKind, DataShown, DeterministicMode, EventKind, Untried
from tracer.report.sections.process import agreement, call_rows, ranks_named, setting_rows
from tracer.trace import Trace
from tracer.trace.differences import RankComparison, compare_ranks
from tracer.trace.file import load_traces
from tracer.trace.merging import join, key_of, merge_traces, merged
from tracer.trace.records import Argument, BlindSpot, CudaDevice, Environment, Event, Region, TraceSource, Tried
from tracer.trace.values.places import Matching, RowCall, are_alike, joined_rows


def counted(one: Trace) -> Counter[str]:
    """Calls by op."""
    return sum((Counter({group.op: group.count}) for group in one.calls), Counter())


@given(st.lists(traces, min_size=1, max_size=4))
def test_merging_loses_no_call_and_no_source(several: list[Trace]) -> None:
    merged = merge_traces(several)
    assert merged.call_count == sum(one.call_count for one in several)
    assert merged.sources == tuple(source for one in several for source in one.sources)
    assert counted(merged) == sum(map(counted, several), Counter())


@given(st.lists(traces, min_size=2, max_size=3))
def test_no_two_merged_groups_agree_in_everything_but_their_count(several: list[Trace]) -> None:
    merged = merge_traces(several)
    places = ("op", "phase", "module", "location", "function", "called_from", "node", "region", "kernels")
    keys = [(*(getattr(one, name) for name in places), repr(sorted(one.facts.items()))) for one in merged.calls]
    assert len(keys) == len(set(keys))


@given(traces, traces, traces)
def test_counts_do_not_depend_on_how_merging_is_grouped(first: Trace, second: Trace, third: Trace) -> None:
    left = merge_traces([merge_traces([first, second]), third])
    right = merge_traces([first, merge_traces([second, third])])
    assert left.calls == right.calls
    assert left.sources == right.sources
    assert set(left.differing_settings) == set(right.differing_settings)


def test_one_trace_merges_to_itself_and_none_to_an_error() -> None:
    one = trace()
    assert merge_traces([one]) is one
    with pytest.raises(TraceError, match="no trace to merge"):
        merge_traces([])


def test_equal_calls_of_two_ranks_add_up_and_keep_their_place() -> None:
    first = trace(call("aten.add.Tensor", count=3), call("aten.mul.Tensor"), call(facts={"arg.sparse": True}))
    second = trace(call("aten.mul.Tensor", count=4), call(facts={"arg.sparse": 1}, count=5))
    merged = merge_traces([first, second])
    added = "aten.index_add_.default"  # true and 1 are different facts
    assert [(one.op, one.count) for one in merged.calls] == [
        *(("aten.add.Tensor", 3), ("aten.mul.Tensor", 5)),
        *((added, 1), (added, 5)),
    ]


def test_settings_that_differ_are_named_and_the_first_stand() -> None:
    plain = trace()
    strict = trace(environment=environment(deterministic_mode=DeterministicMode.ON, num_threads=4))
    merged = merge_traces([plain, strict])
    assert merged.differing_settings == ("deterministic_mode", "num_threads")
    assert merged.environment == plain.environment


def test_equal_blind_spots_add_up_and_a_partial_recording_makes_the_whole_partial() -> None:
    spot = BlindSpot(kind=BlindSpotKind.COMPILED, detail="forward", location="train.py:3", count=2)
    cut = [TraceSource(name=f"rank{n}", partial="interrupted") for n in range(2)]
    merged = merge_traces([trace(), *(trace(blind_spots=(spot,), sources=(source,)) for source in cut)])
    assert [one.count for one in merged.blind_spots] == [4]
    assert merged.partial == "interrupted"


@pytest.mark.parametrize(
    ("other", "regions", "groups"),
    [
        (region(executions=2), [("0/0 forward", 5)], [("0/0 forward", 2), (None, 2)]),
        (
            region(kernels=(kernel(atomic=False),)),
            [("0/0 forward", 3), ("0/0 forward (2)", 1)],
            [("0/0 forward", 1), (None, 2), ("0/0 forward (2)", 1)],
        ),
    ],
    ids=["alike", "another that is numbered alike"],
)
def test_regions_alike_in_two_ranks_are_one_that_ran_as_often_as_both(
    other: Region, regions: list[tuple[str, int]], groups: list[tuple[str | None, int]]
) -> None:
    both = (trace(call(region="0/0 forward"), call(), regions=(one,)) for one in (region(executions=3), other))
    merged = merge_traces([*both])
    assert [(one.id, one.executions) for one in merged.regions] == regions
    assert [(group.region, group.count) for group in merged.calls] == groups


def tried(trials: int, varied: int, **fields: Any) -> Tried:
    return Tried(calls=1, trials=trials, varied=varied, distinct=1 + varied, **fields)


def test_trials_of_one_group_add_up_and_the_largest_difference_stands() -> None:
    steady = trace(call(count=4, tried=tried(5, 0, untried={Untried.RARER: 3})))
    varied = trace(call(count=2, tried=tried(5, 3, relative=0.5, first=2, untried={Untried.RARER: 1})))
    (group,) = merge_traces([steady, varied]).calls
    assert group.count == 6
    added = {"calls": 2, "trials": 10, "varied": 3, "distinct": 4}
    assert group.tried == Tried(**added, relative=0.5, first=2, untried={Untried.RARER: 4})


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


@pytest.mark.parametrize(
    ("record", "field"), [(record, field) for record in MERGED for field in record.__struct_fields__]
)
def test_no_field_of_two_records_turns_into_its_default(record: type[msgspec.Struct], field: str) -> None:
    made = filled_record(record)
    value = getattr(made, field)
    (one,) = merged([made, filled_record(record)])
    assert type(getattr(one, field)) is type(value)
    assert getattr(one, field) or not value


def changed_mode(**fields: Any) -> Event:
    moment = {"before": "off", "value": "on", "while_recording": True, "after_calls": True}
    return event(EventKind.SETTING, "torch.use_deterministic_algorithms", **moment, **fields)


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


IN_A_PROCESS = '{"schema": 1, "environment": {"python": "", "platform": "", "torch": ""}, "calls": '


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"schema": 99}', IN_A_PROCESS + '[{"op": 3}]}'),
        IN_A_PROCESS + '[{"op": "a", "phase": "other", "count": 0}]}',
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


def calls(text: str) -> list[RowCall]:
    """A call each between the bars: sequences of one-digit numbers, ``.`` where a mask says that there is none."""
    rows = [[list(sequence.replace(".", "n")) for sequence in part.split()] for part in text.split("|")]
    return [RowCall("net", np.where(np.array(one) == "n", "nan", np.array(one)).astype(float)) for one in rows]


def found(wholes: list[RowCall], parts: list[RowCall], **ranks: int) -> str:
    """The call and the row of the whole batch of each row of each part, ``--`` where there is none."""
    matching = Matching(wholes, **ranks)
    places = [zip(*(one.tolist() for one in matching.find(part)), strict=True) for part in parts]
    return " | ".join(" ".join(f"{call}{row}" if call >= 0 else "--" for call, row in part) for part in places)


#: The whole batch, its parts, and where their rows stand in it.
LAYOUTS = {
    "samples of a split batch": ("1 2 3 4", "1 2 | 3 4", "00 01 | 02 03"),
    "two parts and four": ("1 2 | 3 4", "1 | 2 | 3 | 4", "00 | 01 | 10 | 11"),
    "the same sample everywhere": ("1 1 1", "1 | 1 1", "00 | 01 02"),
    "one by one, padded on the left by a mask": (".56 789", "56 | 789", "01 02 | 03 04 05"),
    "padded without a mask": ("056 789", "56 | 789", "01 02 | 03 04 05"),
    "padded on both sides, the ends alone in common": ("0056", "56000", "02 03 -- -- --"),
    "a short prompt that ends a longer one": ("456 .56", "56 | 456", "04 05 | 00 01 02"),
    "packed": ("56789", "56. 789", "00 01 -- 02 03 04"),
    "token by token, all at once": ("5777 6787", "57 67 | 7 8 | 7 7", "00 01 04 05 | 02 06 | 03 07"),
    "token by token, without a cache": ("77 | 777 | 7778", "77 | 7 | 8", "00 01 | 12 | 23"),
    "prompts decoded one by one": (*(".5 67 | 8 9 | 8 8", "5 | 8 | 8 | 67 | 9 | 8"), "01 | 10 | 20 | 02 03 | 11 | 21"),
    "sequences that stand first": ("1234 5678", "1 5 | 2 6", "00 04 | 01 05"),
    "another number": ("567", "8", "--"),
    "a number twice": ("567", "66", "-- --"),
    "numbers that stand apart": ("567", "57", "-- --"),
    "a number between others": ("567", "6", "--"),
    "a row that comes twice": ("1 2", "1 | 1", "00 | --"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_found_where_they_stand(layout: str) -> None:
    wholes, parts, expected = LAYOUTS[layout]
    assert found(calls(wholes), calls(parts)) == expected


def test_what_was_computed_has_the_rows_of_the_call_before() -> None:
    def computed(module: str, *numbers: float) -> RowCall:
        return RowCall(module, np.array(numbers)[:, None])

    wholes = [*calls("1 2"), computed("head", 0.11, 0.21)]
    parts = [*calls("2"), computed("head", 0.2), computed("other", 0.3)]
    assert found(wholes, parts) == "01 | 11 | --"


def test_ranks_have_equal_shares_of_rows_that_look_alike() -> None:
    assert found(calls("1 1 1 1"), calls("1 1"), rank=1, world_size=2) == "02 03"


def test_rows_that_one_side_lacks_are_left_out_on_both() -> None:
    wholes, parts = calls("0056 1234"), calls("56 | 34")
    (first,), (second,) = joined_rows(Matching(wholes), parts)
    ((whole,),) = joined_rows(Matching(wholes), parts, of_whole=True)
    assert (first.targets.tolist(), second.targets.tolist()) == ([0, 1], [2, 3])
    assert (whole.sources.tolist(), whole.targets.tolist()) == ([2, 3, 6, 7], [0, 1, 2, 3])
    sequences = [one.sequences(length).targets.tolist() for one, length in ((first, 2), (second, 2), (whole, 4))]
    assert sequences == [[0], [1], [0, 1]]


@pytest.mark.parametrize(("other", "alike"), [("56 78", True), ("99 99", True), (".6 78", False), ("5678", False)])
def test_calls_are_alike_if_their_rows_are_in_the_same_positions(other: str, alike: bool) -> None:
    assert are_alike(calls("56 78"), calls(other)) is alike


def rank(number: int | None, *calls: Any, **fields: Any) -> Trace:
    """A recording of one rank."""
    return trace(*calls, sources=(TraceSource(name="train.py", rank=number, world_size=4, calls=1),), **fields)


def compared(*ranks: Trace) -> RankComparison:
    found = compare_ranks(ranks)
    assert found is not None
    return found


def test_ranks_whose_steps_add_up_to_the_same_are_said_to_be_identical() -> None:
    found = compared(rank(0, call(count=1)), rank(1, call(count=3)), rank(0, call(count=2)))
    assert found == RankComparison(ranks=(0, 1), alike=((0, 1),))
    assert found.are_identical
    assert agreement(found) == "All 2 ranks agree in settings, calls and the random draws of torch."


@pytest.mark.parametrize(
    "given",
    [[rank(0)], [rank(0), rank(0)], [rank(None), rank(None)], [rank(0), rank(None)], [trace(sources=()), rank(1)], []],
)
def test_what_is_not_of_several_ranks_is_not_compared(given: list[Trace]) -> None:
    assert compare_ranks(given) is None


def test_a_setting_that_differs_is_named_with_its_values() -> None:
    found = compared(
        rank(0, environment=environment(num_threads=4, variables={"NCCL_ALGO": "Ring"})),
        rank(1, environment=environment(num_threads=4)),
        rank(2, environment=environment(num_threads=8)),
    )
    assert list(setting_rows(found)) == [
        "num_threads: 4 on ranks 0 and 1; 8 on rank 2",
        "NCCL_ALGO: Ring on rank 0; not set on ranks 1 and 2",
    ]
    assert found.alike == ((0,), (1,), (2,))


def test_calls_that_differ_are_named_the_largest_gap_first() -> None:
    same = call("aten.mm.default")
    found = compared(
        rank(0, same, call(count=3), call("aten.add.Tensor")),
        rank(1, same, call(count=9)),
        rank(2, same, call(count=3), call("aten.add.Tensor")),
    )
    assert list(call_rows(found)) == [
        "aten.index_add_ forward at train.py:10 (net.fc): 3 calls on ranks 0 and 2; 9 calls on rank 1",
        "aten.add.Tensor forward at train.py:10 (net.fc): 1 call on ranks 0 and 2; 0 calls on rank 1",
    ]
    assert found.alike == ((0, 2), (1,))
    assert agreement(found) == "The ranks differ: ranks 0 and 2 agree; rank 1 is alone."


def test_as_many_calls_with_other_facts_differ() -> None:
    found = compared(*(rank(n, call(facts={"device": "cpu", "ndim": 2 + n})) for n in range(2)))
    (one,) = found.calls
    assert (one.counts, one.facts) == ((1, 1), ("ndim",))
    assert next(call_rows(found)).endswith("1 call on each, with other ndim")


@given(traces)
def test_any_trace_is_identical_to_itself_as_another_rank(one: Trace) -> None:
    ranks = [msgspec.structs.replace(one, sources=(TraceSource(rank=n),)) for n in range(3)]
    assert compared(*ranks).are_identical


@given(traces, traces)
def test_identical_means_that_nothing_differs(one: Trace, other: Trace) -> None:
    ranks = [msgspec.structs.replace(each, sources=(TraceSource(rank=n),)) for n, each in enumerate((one, other))]
    found = compared(*ranks)
    assert found.are_identical is (not (found.settings or found.calls))
    for row in found.calls:
        assert len(row.counts) == 2


@pytest.mark.parametrize(
    ("ranks", "said"),
    [([3], "rank 3"), ([1, 0], "ranks 0 and 1"), ([0, 1, 2, 3, 8], "ranks 0-3 and 8"), (list(range(64)), "ranks 0-63")],
)
def test_ranks_in_a_row_are_a_span(ranks: list[int], said: str) -> None:
    assert ranks_named(ranks) == said


def test_many_values_are_counted() -> None:
    calling = compared(*(rank(n, call(count=1 + n)) for n in range(64)))
    (row,) = call_rows(calling)
    assert row.endswith("6 calls on rank 5; 58 further values on ranks 6-63")
    few = compared(*(rank(n, call(count=1 + min(n, 8))) for n in range(64)))
    assert agreement(few).endswith("rank 5 is alone; ranks 6-63 are in 3 further groups.")
    assert ranks_named(range(0, 64, 2)) == "32 ranks (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20 ... 62)"
