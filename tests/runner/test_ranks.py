"""Ranks and the files that they write to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracer.runner.ranks import Rank, current_rank, path_of_rank


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("trace.json", "trace.rank3.json"),
        ("a/b.json.gz", "a/b.rank3.json.gz"),
        ("step.trace.json", "step.trace.rank3.json"),
        ("trace", "trace.rank3"),
        ("trace.txt", "trace.rank3.txt"),
    ],
)
def test_the_rank_stands_before_the_suffix(path: str, expected: str) -> None:
    assert path_of_rank(Path(path), Rank(3, 8)) == Path(expected)
    assert path_of_rank(Path(path), None) == Path(path)


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, Rank(1, 2)),
        ({"RANK": "1"}, None),
        ({"WORLD_SIZE": "2"}, None),
        ({"RANK": "one", "WORLD_SIZE": "2"}, None),
        ({}, None),
    ],
)
def test_a_rank_is_one_only_with_both_variables(environ: dict[str, str], rank: Rank | None) -> None:
    assert current_rank(environ) == rank
