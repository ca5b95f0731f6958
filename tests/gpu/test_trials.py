"""On a real GPU: trials find races, digests are right, training keeps its bits; what was not touched stays asleep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.recording.values.reading import recorded, rows
from tests.support.bits import bits
from tests.support.command import process
from tracer import DeterminismTracer, Trials
from tracer.names import DataShown
from tracer.recording import values as digests
from tracer.recording.lines.variable_digests import VariableDigests
from tracer.trace.records import Tried
from tracer.trace.values import Mark

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here: nothing can be tried on one")

MANY = 100_000


@pytest.fixture
def deterministic_mode() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def tried_in(tracer: DeterminismTracer) -> dict[str, Tried]:
    return {group.op: group.tried for group in tracer.trace.calls if group.tried is not None}


def additions() -> torch.Tensor:
    torch.manual_seed(0)
    index = torch.randint(0, 50, (MANY,), device="cuda")
    return torch.zeros(50, 8, device="cuda").index_add_(0, index, torch.randn(MANY, 8, device="cuda"))


@needs_gpu
def test_additions_that_race_are_found_with_and_without_a_busy_stream() -> None:
    with DeterminismTracer(trials=10) as tracer:
        additions()
    found = tried_in(tracer)["aten.index_add_.default"]
    assert found.varied > 0
    assert found.relative > 0
    assert found.trials == 10
    assert tracer.report().findings[0].refuted is None


@needs_gpu
def test_in_deterministic_mode_the_same_calls_are_tried_and_agree(deterministic_mode: None) -> None:
    plain = additions()
    with DeterminismTracer(trials=10) as tracer:
        tried = additions()
    assert bits(tried) == bits(plain)
    found = tried_in(tracer)["aten.index_add_.default"]
    assert (found.trials, found.varied) == (10, 0)


@needs_gpu
def test_draws_on_the_device_are_as_without_trials() -> None:
    def program() -> list[object]:
        torch.manual_seed(3)
        own = torch.Generator("cuda").manual_seed(4)
        x = torch.randn(100, device="cuda")
        dropped = torch.nn.functional.dropout(x, 0.5)
        x.normal_(generator=own)
        return [bits(dropped), bits(x), torch.cuda.get_rng_state().tolist(), own.get_state().tolist()]

    plain = program()
    with DeterminismTracer(trials=Trials(3, all=True)) as tracer:
        assert program() == plain
    assert not any(one.varied for one in tried_in(tracer).values())


@needs_gpu
def test_data_on_the_device_settle_what_they_settle_elsewhere() -> None:
    with DeterminismTracer(data_facts=True) as tracer:
        index = torch.tensor([2, 0, 1], device="cuda")
        torch.randn(4, device="cuda").index_add_(0, index, torch.randn(3, device="cuda"))
    (group,) = (one for one in tracer.trace.calls if "index_add" in one.op)
    assert group.data == {DataShown.DISTINCT: 1}
    assert not any("index_add" in finding.op for finding in tracer.report().findings)


@needs_gpu
def test_the_kernel_on_the_device_gives_the_sums_of_plain_torch() -> None:
    pytest.importorskip("triton")
    from tracer.recording.values.triton_mix import _launchers, add_mixed_sum

    torch.manual_seed(0)
    for dtype in (torch.uint8, torch.bool, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
        for shape in ((1,), (3,), (8,), (5, 3), (4097,), (1 << 20,), (700, 61)):
            whole = torch.randn(shape, device="cuda").mul(50).to(dtype)
            for tensor in (whole, whole.reshape(-1)[1:], whole.t() if whole.ndim == 2 else whole):
                if not tensor.numel():
                    continue
                for _ in range(2):  # the second time the compiled kernel is launched as it is
                    total = torch.zeros(1, dtype=torch.int64, device="cuda")
                    add_mixed_sum(tensor, total)
                    assert int(total) == int(digests.mixed_sum(tensor.cpu()))
    assert _launchers, "this Triton takes the long way for each digest"


def train() -> torch.nn.Module:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 64, device="cuda")).square().mean().backward()
        optimizer.step()
    return model


@needs_gpu
def test_a_training_on_a_gpu_agrees_with_itself_and_keeps_its_bits(tmp_path: Path) -> None:
    plain = [bits(one) for one in train().parameters()]
    found = []
    for run in range(2):
        values = recorded(tmp_path / f"{run}.values", lambda: found.append(train()))
        found.append(rows(values))
        assert not any(row.mark_bits & (Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED) for row in found[-1])
    assert found[1] == found[3]
    assert [bits(one) for one in found[0].parameters()] == plain


@needs_gpu
@pytest.mark.parametrize("many", [8, MANY], ids=["copied", "digested there"])
def test_lines_tell_tensors_on_the_device_by_what_they_hold(many: int) -> None:
    ones = torch.ones(many, device="cuda")
    found = VariableDigests().of(ones)
    assert VariableDigests().of(ones.clone()) == found
    ones[-1] = 2
    assert VariableDigests().of(ones) != found


@needs_gpu
def test_a_graph_is_captured_while_lines_are_followed(tmp_path: Path) -> None:
    x = torch.ones(MANY, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with DeterminismTracer(values=tmp_path / "step.values", lines=True):
        for _ in range(2):
            y = x * 2
        with torch.cuda.graph(graph):
            y = x * 3
            z = y + x
        graph.replay()
    torch.cuda.synchronize()
    assert (float(y[0]), float(z[-1])) == (3.0, 4.0)


STEP = """
import os, sys, torch
from tracer import DeterminismTracer, reproducible
model = torch.nn.Linear(4, 4)
with DeterminismTracer(model, values=True) as tracer:
    torch.manual_seed(0)
    model(torch.ones(2, 4)).sum()
tracer.report(backend="cuda").to_html()
with reproducible(seed=0):
    torch.rand(2)
"""


@needs_gpu
def test_recording_a_step_on_the_cpu_leaves_cuda_asleep_and_a_forked_child_can_start_it(tmp_path: Path) -> None:
    """Asking the driver how many GPUs there are is enough to take them from children that are forked later."""
    child = """
assert not torch.cuda.is_initialized(), "CUDA was started"
child = os.fork()
if child == 0:
    os._exit(int(torch.ones(2, device="cuda").sum().item()) + 5)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = process("-c", STEP + child, cwd=tmp_path)
    assert (done.code, done.err) == (7, "")
