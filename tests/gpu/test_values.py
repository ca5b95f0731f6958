"""Digests on a real GPU: the sums of the kernel are those of plain torch, and training keeps its bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.recording.values.reading import recorded, rows
from tests.support.bits import bits
from tracer.recording.values import digests
from tracer.trace.values import Mark

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here: nothing can be digested on one")


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
