"""Which ranks of a job are recorded where those in different positions are asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tracer.runner.ranks import MOST, RankRun, distinct_ranks


def mesh(*sizes: int) -> Callable[[int], tuple[tuple[int, ...], ...]]:
    """The process groups of a rank in a mesh, and that of all ranks."""

    def groups(rank: int) -> tuple[tuple[int, ...], ...]:
        result, stride, world = [], 1, 1
        for size in reversed(sizes):
            start = rank - rank // stride % size * stride
            result.append(tuple(start + at * stride for at in range(size)))
            stride, world = stride * size, world * size
        return (*result, tuple(range(world)))

    return groups


def recorded(
    world: int, groups: Callable[[int], tuple[tuple[int, ...], ...]], program: Callable[[int], int]
) -> set[int]:
    runs: dict[int, RankRun] = {}

    def run(rank: int) -> RankRun:
        assert 0 <= rank < world
        return runs.setdefault(rank, RankRun(0, frozenset([(program(rank),)]), groups(rank)))

    distinct_ranks(world, run)
    return set(runs)


def test_where_all_ranks_seem_alike_the_first_middle_and_last_of_each_dimension_are_recorded() -> None:
    assert recorded(1024, mesh(128, 8), lambda rank: 0) == {0, 1, 4, 7, 8, 512, 1016, 1023}


def test_each_stage_of_a_pipeline_is_recorded_where_stages_differ() -> None:
    ranks = recorded(64, mesh(4, 2, 8), lambda rank: rank // 16)
    assert {0, 16, 32, 48} <= ranks
    assert len(ranks) < 16


def test_dimensions_that_differ_are_recorded_together() -> None:
    ranks = recorded(16, mesh(4, 4), lambda rank: rank)
    assert ranks == set(range(16))


def test_without_a_mesh_ranks_of_the_whole_job_are_compared() -> None:
    assert recorded(16384, lambda rank: (tuple(range(16384)),), lambda rank: 0) == {0, 1, 8192, 16383}


@pytest.mark.parametrize("sizes", [(64, 64), (16, 16, 16)])
def test_no_more_ranks_are_recorded_than_the_bound(sizes: tuple[int, ...]) -> None:
    world = 1
    for size in sizes:
        world *= size
    assert len(recorded(world, mesh(*sizes), lambda rank: rank)) <= MOST + 3 * len(sizes) + 1
