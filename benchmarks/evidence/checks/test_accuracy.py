"""What the CPU table says of deterministic mode is what torch does, over its own operator database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's operator database needs the package expecttest")

from benchmarks.evidence.accuracy import Score, Trial, every_sample, main, report_on, score_of
from benchmarks.evidence.extra import left_out
from tests.support.samples import Sample, dtypes_of, operator_database, samples_of

pytestmark = pytest.mark.filterwarnings("ignore")

#: Entries that reach an op which torch refuses on the CPU, or one that it handles next to it.
TELLING = ("put", "unpool", "index_copy", "resize", "take")
STRIDE = 25


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads of several test processes would only wait for each other; no refusal depends on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def explained(score: Score) -> str:
    return "\n".join(report_on(score))


def test_every_refusal_of_what_the_database_leaves_out_is_predicted_and_none_invented() -> None:
    score = score_of(left_out("cpu"))
    assert score.is_perfect, explained(score)
    assert {entry for entry, _ in score.refused} >= {"put_", "put", "max_unpool1d", "max_unpool3d", "resize_ quantized"}


@pytest.mark.slow
def test_a_part_of_the_database_agrees() -> None:
    entries = [
        op
        for number, op in enumerate(operator_database())
        if number % STRIDE == 0 or any(name in op.formatted_name for name in TELLING)
    ]
    score = score_of(
        sample for op in entries for dtype in dtypes_of(op, "cpu")[:1] for sample in samples_of(op, "cpu", dtype, 2)
    )
    assert score.is_perfect, explained(score)
    assert score.total > 80


def test_a_refusal_that_nothing_predicted_is_a_disagreement() -> None:
    score = Score()
    sample = Sample("entry", 0, "float32", torch.neg)
    for predicted, refused in ((True, True), (True, False), (False, True), (False, False)):
        score.add(Trial(sample, frozenset({"rule"} if predicted else ()), frozenset(), refused, False))
    assert (score.hits, score.inventions, score.misses, score.quiet) == (1, 1, 1, 1)
    assert (score.precision, score.recall, score.is_perfect) == (0.5, 0.5, False)
    text = explained(score)
    assert "entry: the table said rule, torch ran (1)" in text
    assert "entry: the table said nothing, torch refused (1)" in text


def test_meeting_no_refusal_at_all_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--samples", "1", "--only", "nn_functional_relu6"]) == 1
    assert "precision 1, recall 1" in capsys.readouterr().out


@pytest.mark.slow
def test_the_whole_database_agrees() -> None:
    score = score_of(every_sample(40))
    assert score.is_perfect, explained(score)
