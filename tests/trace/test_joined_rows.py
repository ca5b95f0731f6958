"""Rows of a batch are found in another layout of it by what they hold, wherever they are still in order."""

from __future__ import annotations

import numpy as np
import pytest

from tracer.trace.values.places import Matching, RowCall, are_alike, joined_rows

PAD = float("nan")
Call = list[list[float]]


def calls(*contents: Call, module: str = "net") -> list[RowCall]:
    return [RowCall(module, np.array(one, float)) for one in contents]


def found(wholes: list[RowCall], parts: list[RowCall], **ranks: int) -> list[list[tuple[int, int] | None]]:
    """The call and row of the whole batch of each row of each part."""
    matching = Matching(wholes, **ranks)
    places = [matching.find(part) for part in parts]
    return [
        [(call, row) if call >= 0 else None for call, row in zip(calls.tolist(), rows.tolist(), strict=True)]
        for calls, rows in places
    ]


def places(call: int, *rows: int) -> list[tuple[int, int] | None]:
    return [(call, row) for row in rows]


LAYOUTS = {
    "samples of a split batch": (
        calls([[1], [2], [3], [4]]),
        calls([[1], [2]], [[3], [4]]),
        [places(0, 0, 1), places(0, 2, 3)],
    ),
    "two parts and four": (
        calls([[1], [2]], [[3], [4]]),
        calls([[1]], [[2]], [[3]], [[4]]),
        [places(0, 0), places(0, 1), places(1, 0), places(1, 1)],
    ),
    "the same sample everywhere": (calls([[1], [1], [1]]), calls([[1]], [[1], [1]]), [places(0, 0), places(0, 1, 2)]),
    "one by one, padded on the left by a mask": (
        calls([[PAD, 5, 6], [7, 8, 9]]),
        calls([[5, 6]], [[7, 8, 9]]),
        [places(0, 1, 2), places(0, 3, 4, 5)],
    ),
    "padded without a mask": (
        calls([[0, 5, 6], [7, 8, 9]]),
        calls([[5, 6]], [[7, 8, 9]]),
        [places(0, 1, 2), places(0, 3, 4, 5)],
    ),
    "padded on both sides, the ends alone in common": (
        calls([[0, 0, 5, 6]]),
        calls([[5, 6, 0, 0, 0]]),
        [[(0, 2), (0, 3), None, None, None]],
    ),
    "a short prompt that ends a longer one": (
        calls([[4, 5, 6], [PAD, 5, 6]]),
        calls([[5, 6]], [[4, 5, 6]]),
        [places(0, 4, 5), places(0, 0, 1, 2)],
    ),
    "packed": (
        calls([[5, 6, 7, 8, 9]]),
        calls([[5, 6, PAD], [7, 8, 9]]),
        [[(0, 0), (0, 1), None, *places(0, 2, 3, 4)]],
    ),
    "token by token, all at once": (
        calls([[5, 7, 7, 7], [6, 7, 8, 7]]),
        calls([[5, 7], [6, 7]], [[7], [8]], [[7], [7]]),
        [places(0, 0, 1, 4, 5), places(0, 2, 6), places(0, 3, 7)],
    ),
    "token by token, without a cache": (
        calls([[7, 7]], [[7, 7, 7]], [[7, 7, 7, 8]]),
        calls([[7, 7]], [[7]], [[8]]),
        [places(0, 0, 1), places(1, 2), places(2, 3)],
    ),
    "prompts decoded one by one": (
        calls([[PAD, 5], [6, 7]], [[8], [9]], [[8], [8]]),
        calls([[5]], [[8]], [[8]], [[6, 7]], [[9]], [[8]]),
        [places(0, 1), places(1, 0), places(2, 0), places(0, 2, 3), places(1, 1), places(2, 1)],
    ),
    "sequences that stand first": (
        calls([[1, 2, 3, 4], [5, 6, 7, 8]]),
        calls([[1], [5]], [[2], [6]]),
        [places(0, 0, 4), places(0, 1, 5)],
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_found_where_they_stand(layout: str) -> None:
    wholes, parts, expected = LAYOUTS[layout]
    assert found(wholes, parts) == expected


@pytest.mark.parametrize("contents", [[[8]], [[6, 6]], [[5, 7]], [[6]]], ids=["other", "repeated", "apart", "between"])
def test_what_is_not_there_is_found_nowhere(contents: Call) -> None:
    assert found(calls([[5, 6, 7]]), calls(contents)) == [[None] * len(contents[0])]


def test_no_row_is_found_twice() -> None:
    assert found(calls([[1], [2]]), calls([[1]], [[1]])) == [places(0, 0), [None]]


def test_what_was_computed_has_the_rows_of_the_call_before() -> None:
    wholes = [*calls([[1], [2]]), *calls([[0.11], [0.21]], module="head")]
    parts = [*calls([[2]]), *calls([[0.2]], module="head"), *calls([[0.3]], module="other")]
    assert found(wholes, parts) == [places(0, 1), places(1, 1), [None]]


def test_ranks_have_equal_shares_of_rows_that_look_alike() -> None:
    assert found(calls([[1], [1], [1], [1]]), calls([[1], [1]]), rank=1, world_size=2) == [places(0, 2, 3)]


def test_rows_that_one_side_lacks_are_left_out_on_both() -> None:
    wholes, parts = calls([[0, 0, 5, 6], [1, 2, 3, 4]]), calls([[5, 6]], [[3, 4]])
    (first,), (second,) = joined_rows(Matching(wholes), parts)
    ((whole,),) = joined_rows(Matching(wholes), parts, of_whole=True)
    assert (first.targets.tolist(), second.targets.tolist()) == ([0, 1], [2, 3])
    assert (whole.sources.tolist(), whole.targets.tolist()) == ([2, 3, 6, 7], [0, 1, 2, 3])
    assert [one.sequences(length).targets.tolist() for one, length in ((first, 2), (second, 2), (whole, 4))] == [
        [0],
        [1],
        [0, 1],
    ]


@pytest.mark.parametrize(
    ("other", "alike"),
    [([[5, 6], [7, 8]], True), ([[9, 9], [9, 9]], True), ([[PAD, 6], [7, 8]], False), ([[5, 6, 7, 8]], False)],
)
def test_calls_are_alike_if_their_rows_are_in_the_same_positions(other: Call, alike: bool) -> None:
    assert are_alike(calls([[5, 6], [7, 8]]), calls(other)) is alike
