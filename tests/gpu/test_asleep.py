"""A GPU that the program has not touched is not touched by recording either."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.command import process

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here: none can be started")

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
