"""Sequences of calls are aligned: what is equal, where they part, whatever is in between."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracer.divergence.pairing import Gap, Match, align, gaps_of

KEYS = st.lists(st.integers(0, 4), max_size=40)


def of(first: list[int], second: list[int], steps: tuple[list[int], list[int]] = ([], [])) -> list[Match]:
    return align(np.array(first, np.int64), np.array(second, np.int64), *steps)


def matched(matches: list[Match]) -> int:
    return sum(match.length for match in matches)


def check(matches: list[Match], first: list[int], second: list[int]) -> None:
    at = at2 = 0
    for one, two, length in matches:
        assert one >= at
        assert two >= at2
        assert length > 0
        assert first[one : one + length] == second[two : two + length]
        at, at2 = one + length, two + length
    covered = gaps_of(matches, len(first), len(second))
    assert matched(matches) + sum(gap.first_end - gap.first for gap in covered) == len(first)
    assert matched(matches) + sum(gap.second_end - gap.second for gap in covered) == len(second)


@given(KEYS)
def test_a_sequence_is_one_match_with_itself(keys: list[int]) -> None:
    assert of(keys, keys) == ([Match(0, 0, len(keys))] if keys else [])
    assert gaps_of(of(keys, keys), len(keys), len(keys)) == []


@given(KEYS, KEYS)
def test_no_key_is_left_on_both_sides_of_a_gap(first: list[int], second: list[int]) -> None:
    matches = of(first, second)
    check(matches, first, second)
    for lo, hi, lo2, hi2 in gaps_of(matches, len(first), len(second)):
        assert not set(first[lo:hi]) & set(second[lo2:hi2])


def test_a_call_too_many_of_a_group_leaves_the_others_where_they_are() -> None:
    """The n-th of a group is then the one before on the other side: what is left between the others is paired anew."""
    first = [1, 2] * 5 + [3]
    second = [4, 1, *first]
    matches = of(first, second)
    check(matches, first, second)
    assert matched(matches) == len(first)


@given(KEYS, KEYS, st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_steps_never_make_a_wrong_match(first: list[int], second: list[int], ours: set[int], theirs: set[int]) -> None:
    check(of(first, second, (sorted(ours), sorted(theirs))), first, second)


@given(KEYS, st.data())
def test_a_call_too_many_is_one_gap_at_its_place(keys: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(keys)))
    second = [*keys[:place], 9, *keys[place:]]
    assert gaps_of(of(keys, second), len(keys), len(second)) == [Gap(place, place, place, place + 1)]
    assert gaps_of(of(second, keys), len(second), len(keys)) == [Gap(place, place + 1, place, place)]


def test_a_loop_that_runs_once_more_parts_at_its_end() -> None:
    first, second = [1, 2, 2, 2, 3], [1, 2, 2, 2, 2, 3]
    assert gaps_of(of(first, second), 5, 6) == [Gap(4, 4, 4, 5)]


def test_a_call_too_many_in_each_of_many_steps_is_found_in_each() -> None:
    step, more = list(range(50)), [*range(20), 99, *range(20, 50)]
    first, second = step * 600, more * 600
    starts = [50 * n for n in range(600)], [51 * n for n in range(600)]
    matches = of(first, second, starts)
    check(matches, first, second)
    assert matched(matches) == len(first)


def test_programs_that_have_nothing_in_common_are_told_so_soon() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 1000, 20_000).tolist(), rng.integers(1000, 2000, 20_000).tolist()
    assert of(first, second) == []
