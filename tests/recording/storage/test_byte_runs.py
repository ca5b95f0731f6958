"""Regions of storages against brute force: every byte of every element, one by one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tracer.recording.storage.overlaps import (
    StridedRegion,
    carried,
    is_same,
    meet,
    overlaps_itself,
    runs_of,
    share_bytes,
    whole,
    with_more,
    without,
)


@st.composite
def regions(draw: st.DrawFn) -> StridedRegion:
    ndim = draw(st.integers(0, 4))
    sizes = tuple(draw(st.integers(0, 4)) for _ in range(ndim))
    strides = tuple(draw(st.integers(0, 9)) for _ in range(ndim))
    return StridedRegion(draw(st.integers(0, 12)), sizes, strides, draw(st.sampled_from((1, 2, 4))))


def addresses(region: StridedRegion) -> list[int]:
    """The place of each element, in elements."""
    places = itertools.product(*(range(size) for size in region.sizes))
    return [
        region.offset + sum(index * stride for index, stride in zip(place, region.strides, strict=True))
        for place in places
    ]


def bytes_of(region: StridedRegion) -> set[int]:
    size = region.itemsize
    return {address * size + byte for address in addresses(region) for byte in range(size)}


def listed(runs: object) -> set[int]:
    assert runs is not None
    starts, ends = runs  # type: ignore[misc]
    found = [byte for start, end in zip(starts, ends, strict=True) for byte in range(start, end)]
    assert len(found) == len(set(found))
    assert all(end < start for end, start in zip(ends[:-1], starts[1:], strict=True)), "runs touch"
    return set(found)


@given(regions())
def test_runs_are_the_bytes_of_all_elements(region: StridedRegion) -> None:
    assert listed(runs_of(region)) == bytes_of(region)


@given(regions())
def test_overlap_with_itself_is_two_elements_at_one_address(region: StridedRegion) -> None:
    places = addresses(region)
    assert overlaps_itself(region) is (len(set(places)) < len(places))


@given(regions(), regions())
def test_two_regions_share_bytes_as_their_elements_do(one: StridedRegion, other: StridedRegion) -> None:
    assert share_bytes(one, other) is bool(bytes_of(one) & bytes_of(other))


@given(regions(), st.integers(0, 9), st.integers(0, 12))
def test_two_regions_in_step_share_bytes_as_their_elements_do(one: StridedRegion, stride: int, offset: int) -> None:
    other = replace(one, offset=offset, strides=(*one.strides[:-1], stride) if one.strides else ())
    assert share_bytes(one, other) is bool(bytes_of(one) & bytes_of(other))


@given(st.data(), st.lists(st.integers(1, 4), max_size=3))
def test_a_copy_carries_what_is_unwritten_to_where_it_puts_it(data: st.DataObject, sizes: list[int]) -> None:
    def strides() -> tuple[int, ...]:
        return tuple(data.draw(st.integers(0, 9)) for _ in sizes)

    source, target = StridedRegion(1, tuple(sizes), strides(), 4), StridedRegion(0, tuple(sizes), strides(), 2)
    unwritten = data.draw(st.sets(st.integers(0, 30)))
    runs = whole(0)
    for place in unwritten:
        added = runs_of(StridedRegion(place, (), (), 4))
        assert added is not None
        runs = with_more(runs, added)
    pairs = zip(addresses(source), addresses(target), strict=True)
    expected = {2 * to + byte for origin, to in pairs if origin in unwritten for byte in (0, 1)}
    assert listed(carried(runs, source, target)) == expected


@given(regions(), regions())
def test_regions_that_are_the_same_have_each_element_at_its_place(one: StridedRegion, other: StridedRegion) -> None:
    if is_same(one, other) and not one.is_empty and not other.is_empty:
        assert [place * one.itemsize for place in addresses(one)] == [
            place * other.itemsize for place in addresses(other)
        ]


@given(st.lists(regions(), max_size=5), regions())
def test_what_writes_leave_of_a_storage(written: list[StridedRegion], read: StridedRegion) -> None:
    size = 400
    left, runs = set(range(size)), whole(size)
    for region in written:
        left -= bytes_of(region)
        taken = runs_of(region)
        assert taken is not None
        runs = without(runs, taken)
        assert listed(runs) == left
    wanted = runs_of(read)
    assert wanted is not None
    assert meet(runs, wanted) is bool(left & bytes_of(read))
    assert meet(wanted, runs) is bool(left & bytes_of(read))


def test_dense_tensors_of_any_order_are_one_run() -> None:
    for sizes, strides in (((300, 400), (400, 1)), ((400, 300), (1, 400)), ((2, 3, 50, 50), (7500, 1, 150, 3))):
        runs = runs_of(StridedRegion(0, sizes, strides, 4))
        assert runs is not None
        assert len(runs[0]) == 1


def test_what_is_too_long_to_find_out_is_left_open() -> None:
    rows = StridedRegion(0, (20_000, 2), (5, 1), 4)
    assert runs_of(rows) is None


@pytest.mark.parametrize("rows", [10, 10_000_000])
def test_shifted_columns_are_told_apart_whatever_the_number_of_rows(rows: int) -> None:
    left, right = StridedRegion(0, (rows, 9), (10, 1), 4), StridedRegion(1, (rows, 9), (10, 1), 4)
    assert share_bytes(left, right) is True
    assert share_bytes(StridedRegion(0, (rows, 5), (10, 1), 4), StridedRegion(5, (rows, 5), (10, 1), 4)) is False
