"""Regions of storages against brute force: every byte of every element, one by one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tracer.recording.storage.overlaps import (
    StridedRegion,
    is_same,
    overlaps_itself,
    share_bytes,
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


@given(regions(), regions())
def test_regions_that_are_the_same_have_each_element_at_its_place(one: StridedRegion, other: StridedRegion) -> None:
    if is_same(one, other) and not one.is_empty and not other.is_empty:
        assert [place * one.itemsize for place in addresses(one)] == [
            place * other.itemsize for place in addresses(other)
        ]


@pytest.mark.parametrize("rows", [10, 10_000_000])
def test_shifted_columns_are_told_apart_whatever_the_number_of_rows(rows: int) -> None:
    left, right = StridedRegion(0, (rows, 9), (10, 1), 4), StridedRegion(1, (rows, 9), (10, 1), 4)
    assert share_bytes(left, right) is True
    assert share_bytes(StridedRegion(0, (rows, 5), (10, 1), 4), StridedRegion(5, (rows, 5), (10, 1), 4)) is False
