"""The harness that measures a GPU: its logic on the CPU everywhere, and the real thing where a GPU is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.evidence.extra import left_out
from benchmarks.evidence.measure_cuda import main
from benchmarks.evidence.repeating import contention, digest, measure
from benchmarks.evidence.switching import Mode, deterministic_mode, is_refusal
from tests.support.measured import contradictions, load_measurement
from tests.support.samples import Sample
from tracer.names import DeterministicMode
from tracer.tables.loading import load_tables

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here: nothing can be measured")
pytestmark = pytest.mark.filterwarnings("ignore")


def noisy(x: torch.Tensor) -> torch.Tensor:
    """Differs from call to call, as a kernel with atomics may."""
    return x + next(_COUNTER)


_COUNTER = iter(range(1_000_000))


def test_what_differs_is_seen_and_what_repeats_is_only_counted() -> None:
    x = torch.ones(3)
    found = measure(
        [Sample("noisy", 0, "float32", noisy, (x,)), Sample("neg", 0, "float32", torch.neg, (x,))], "cpu", 5
    )
    assert {(run.what, str(run.mode)): run.distinct for run in found.run} == {("noisy", "off"): 5, ("noisy", "on"): 5}
    assert (found.samples, found.alike) == (2, 2)
    assert any("5 distinct results" in fault for fault in contradictions(found, load_tables()))


def test_refusals_and_warnings_are_told_apart() -> None:
    unpool = [sample for sample in left_out("cpu") if sample.entry == "max_unpool2d" and sample.number == 0]
    found = measure(unpool, "cpu", 3, tuple(Mode))
    seen = {str(run.mode): (run.refused, run.warned, run.distinct) for run in found.run}
    assert seen["on"] == (True, False, 0)
    assert seen["warn"] == (False, True, 1)
    assert list(contradictions(found, load_tables())) == []


def test_the_process_is_left_in_the_mode_that_it_had() -> None:
    with deterministic_mode(Mode.WARN):
        with pytest.raises(ZeroDivisionError), deterministic_mode(Mode.ON):
            1 / 0
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_other_errors_are_no_refusals() -> None:
    assert not is_refusal(RuntimeError("out of memory"))
    assert not is_refusal(ValueError("put_ does not have a deterministic implementation"))


def test_a_digest_tells_rows_dtypes_signs_and_shapes_apart_and_holds_nan_equal_to_itself() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, float("nan")]])
    assert digest([x]) == digest([x.clone()])
    others = [x.flip(0), x.double(), x.flatten(), -x, x.to_sparse(), torch.quantize_per_tensor(x, 1.0, 0, torch.qint8)]
    assert len({digest([each]) for each in (x, *others)}) == 7
    assert digest([x], shapes_only=True) == digest([x.flip(0)], shapes_only=True)


def test_the_command_runs_the_same_code_on_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("expecttest", reason="torch's operator database needs the package expecttest")
    asked = ["--device", "cpu", "--only", "max_unpool1d", "--runs", "2", "--samples", "1", "--to", str(tmp_path)]
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert "rules whose risk was seen: cpu-max-unpool" in text
    (path,) = tmp_path.iterdir()
    assert {run.mode for run in load_measurement(path).run} == set(DeterministicMode)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == "no GPU is here: nothing was measured\n"


@needs_gpu
def test_a_second_stream_keeps_the_gpu_busy() -> None:
    with contention("cuda") as stir:
        stir()


@needs_gpu
def test_atomics_show_on_a_gpu_and_deterministic_mode_stops_them() -> None:
    index = torch.zeros(400_000, dtype=torch.long, device="cuda")
    values = torch.randn(400_000, device="cuda")
    sample = Sample("index_add", 0, "float32", torch.index_add, (torch.zeros(4, device="cuda"), 0, index, values))
    found = {str(run.mode): run.distinct for run in measure([sample], "cuda", 20, keep_all=True).run}
    assert found["off"] > 1
    assert found["on"] == 1


@needs_gpu
@pytest.mark.slow
def test_the_gpu_agrees_with_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--samples", "1", "--runs", "10", "--to", str(tmp_path)]) == 0, capsys.readouterr().out
