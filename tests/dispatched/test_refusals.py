"""The CUDA table held against what CUDA builds of torch did: which samples deterministic mode refuses."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from benchmarks.nullgpu import recorded
from benchmarks.nullgpu.recording import load, releases
from benchmarks.refusals import TARGET, Prediction, Score, disagreements, score_of

SUITES = tuple(recorded.kept_suites())
#: Of a release by itself. Up to 2.7 ``inner`` and ``tensordot`` of vectors are products, which the samples, recorded by
#: 2.13, are not: five calls that no rule can tell.
RECALL = 0.994


@cache
def scored(suite: str, path: Path) -> Score:
    return score_of(recorded.load(suite), load(path))


def kept() -> list[tuple[str, str, Path]]:
    return [(suite, torch, path) for suite in SUITES for torch, path in releases(suite).items()]


def test_the_operator_database_and_what_it_leaves_out_are_kept_for_the_newest_and_an_older_release() -> None:
    assert {"opinfo", "extra", "calls", "later"} <= set(SUITES)
    assert {"2.4.1", "2.8.0", "2.9.1", "2.12.1", "2.13.0", "2.15.0"} <= set(releases("opinfo"))


@pytest.mark.parametrize(("suite", "torch", "path"), kept(), ids=lambda value: str(value).rpartition("/")[2])
def test_refusals_are_predicted(suite: str, torch: str, path: Path) -> None:
    score = scored(suite, path)
    told = "\n".join(disagreements(score.wrong))
    assert score.hits > 50
    assert score.unpaired <= 0.1 * score.total
    assert score.precision >= TARGET, told
    assert score.recall >= RECALL, told


@pytest.mark.parametrize("suite", SUITES)
def test_a_whole_suite_reaches_the_target(suite: str) -> None:
    whole = Score()
    for path in releases(suite).values():
        whole.add_all(scored(suite, path))
    assert whole.holds, "\n".join(disagreements(whole.wrong))


def prediction(rules: set[str], refused: bool, torch: str = "2.13.0") -> Prediction:
    return Prediction(torch, "on", "cumsum", frozenset(rules), frozenset(), refused, "forward: no" if refused else "")


def test_precision_counts_what_was_invented_and_recall_what_was_missed() -> None:
    score = Score()
    for one in (
        prediction({"cuda-cumsum"}, True),
        prediction({"cuda-cumsum"}, False),
        prediction(set(), True),
        prediction(set(), True),
        prediction(set(), False),
    ):
        score.add(one)
    assert (score.precision, score.recall, score.total) == (1 / 2, 1 / 3, 5)
    assert not score.holds
    assert list(disagreements(score.wrong)) == [
        "  predicted but not refused, on: cumsum (1 in torch 2.13.0): cuda-cumsum",
        "  refused but not predicted, on: cumsum (2 in torch 2.13.0): forward: no",
    ]
