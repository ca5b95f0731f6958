"""Ranks side by side: what is alike is said to be, and what differs is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from tests.support.build import call, environment, trace
from tests.trace.strategies import traces
from tracer.report.sections.process import agreement, call_rows, ranks_named, setting_rows
from tracer.trace import Trace
from tracer.trace.differences import RankComparison, compare_ranks
from tracer.trace.records import TraceSource


def rank(number: int | None, *calls: Any, **fields: Any) -> Trace:
    """A recording of one rank."""
    return trace(*calls, sources=(TraceSource(name="train.py", rank=number, world_size=4, calls=1),), **fields)


def compared(*ranks: Trace) -> RankComparison:
    found = compare_ranks(ranks)
    assert found is not None
    return found


def test_identical_ranks_are_said_to_be_identical() -> None:
    found = compared(rank(1, call(count=3)), rank(0, call(count=3)))
    assert found == RankComparison(ranks=(0, 1), alike=((0, 1),))
    assert found.are_identical
    assert agreement(found) == "All 2 ranks agree in settings, calls and the random draws of torch."


@pytest.mark.parametrize(
    "given",
    [[rank(0)], [rank(0), rank(0)], [rank(None), rank(None)], [rank(0), rank(None)], [trace(sources=()), rank(1)], []],
)
def test_what_is_not_of_several_ranks_is_not_compared(given: list[Trace]) -> None:
    assert compare_ranks(given) is None


def test_steps_of_one_rank_are_added_up_first() -> None:
    found = compared(rank(0, call(count=1)), rank(1, call(count=3)), rank(0, call(count=2)))
    assert found.are_identical


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
    found = compared(
        rank(0, call(facts={"device": "cpu", "ndim": 2})), rank(1, call(facts={"device": "cpu", "ndim": 3}))
    )
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
    [
        ([3], "rank 3"),
        ([1, 0], "ranks 0 and 1"),
        ([0, 1, 2, 3, 8], "ranks 0-3 and 8"),
        (list(range(64)), "ranks 0-63"),
    ],
)
def test_ranks_in_a_row_are_a_span(ranks: list[int], said: str) -> None:
    assert ranks_named(ranks) == said


def test_a_comparison_survives_its_json() -> None:
    found = compared(rank(0, call(count=3)), rank(1, call(count=9)))
    assert msgspec.json.decode(msgspec.json.encode(found), type=RankComparison) == found


def test_many_values_are_counted() -> None:
    calling = compared(*(rank(n, call(count=1 + n)) for n in range(64)))
    (row,) = call_rows(calling)
    assert row.endswith("6 calls on rank 5; 58 further values on ranks 6-63")
    few = compared(*(rank(n, call(count=1 + min(n, 8))) for n in range(64)))
    assert agreement(few).endswith("rank 5 is alone; ranks 6-63 are in 3 further groups.")
    assert ranks_named(range(0, 64, 2)) == "32 ranks (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20 ... 62)"
